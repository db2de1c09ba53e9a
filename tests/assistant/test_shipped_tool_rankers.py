"""The rankers of tools that come with the project: taken where they learned from this very task, and nowhere else."""

import json
import lzma
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from lib.assistant.parts import TOOL_RANKERS, ship_tool_rankers
from lib.assistant.tool_ranker import PlanLessons, Source, tool_ranker_for
from lib.assistant.tool_ranker import tool_ranker_source as learned_from
from lib.workbook.artifacts import ROOT, Workbook
from lib.workbook.parameters import notebook_parameters
from lib.workbook.parts import FOLDER, read_rankers
from tests.assistant.test_tool_ranker import make_task

FILE = FOLDER / f"{TOOL_RANKERS}.jsonl.xz"
SOURCE = Source("lambdamart", "words", [pd.DataFrame({"item": ["i0", "i1"], "text": "a"})])


@pytest.fixture(scope="module")
def learned():
    task, told = make_task()
    lessons = PlanLessons.of(task)
    return lessons, told, [tool_ranker_for({}, lessons, context, SOURCE) for context in (None, told)]


@pytest.fixture
def book(learned, tmp_path):
    book = Workbook("06_tool_retrieval", notebook_parameters("06_tool_retrieval", profile="quick"), tmp_path)
    book.write_lines(TOOL_RANKERS, [json.dumps(one.record) for one in learned[2]])
    return book


def test_they_are_taken_on_another_processor_and_rank_as_they_did(learned, book, tmp_path):
    """Where the last bits of the embeddings are other ones."""
    lessons, told, taken = learned
    assert not any(one.shipped for one in taken)
    assert ship_tool_rankers(book, tmp_path)
    again = read_rankers(TOOL_RANKERS, tmp_path)
    task, told_otherwise = make_task(noise=1e-8)
    other = PlanLessons.of(task)
    found = tool_ranker_for(again, other, told_otherwise, SOURCE)
    assert found.shipped
    run = lessons.run_by(taken[1].ranker, told)
    pd.testing.assert_frame_equal(lessons.run_by(found.ranker, told), run)
    elsewhere = other.run_by(found.ranker, told_otherwise)
    assert (elsewhere[["query", "item"]].to_numpy() == run[["query", "item"]].to_numpy()).all()
    assert tool_ranker_for(again, lessons, None, SOURCE).learned_from == taken[0].learned_from != taken[1].learned_from


def test_what_was_shipped_is_not_shipped_twice_and_stays_beside_what_is_added(learned, book, tmp_path):
    ship_tool_rankers(book, tmp_path)
    assert not ship_tool_rankers(book, tmp_path)
    task, told = make_task(seed=8)
    book.write_lines(TOOL_RANKERS, [json.dumps(tool_ranker_for({}, PlanLessons.of(task), told, SOURCE).record)])
    assert ship_tool_rankers(book, tmp_path)
    assert len(read_rankers(TOOL_RANKERS, tmp_path)) == 3


def test_another_task_has_rankers_of_its_own(learned):
    lessons, told, taken = learned
    task = lessons.task
    plans = task.gold.assign(item=task.gold["item"].replace("mail_0", "mail_1"))
    others = [
        replace(task, queries=task.queries.assign(text="else")),
        replace(task, tools=task.tools.assign(text="else")),
        replace(task, gold=plans),
        replace(task, seed=8),
    ]
    keys = {taken[1].learned_from, *(learned_from(other, told, SOURCE) for other in others)}
    for source in (SOURCE._replace(method="semantic"), SOURCE._replace(encoder="others"), SOURCE._replace(frames=[])):
        keys.add(learned_from(task, told, source))
    keys.add(learned_from(task, told.drop(columns="app_mass_5"), SOURCE))
    assert len(keys) == 9
    assert learned_from(task, None, SOURCE._replace(method="semantic", frames=[])) == taken[0].learned_from


def test_evaluation_queries_and_their_plans_are_not_part_of_what_they_learned(learned):
    lessons, told, taken = learned
    task = lessons.task
    out = task.queries["split"] == "evaluation"
    gold = task.gold.assign(item=task.gold["item"].mask(task.gold["query"].isin(task.queries["query"][out]), "t"))
    changed = replace(task, queries=task.queries.assign(text=task.queries["text"].mask(out, "else")), gold=gold)
    assert learned_from(changed, told, SOURCE) == taken[1].learned_from


def test_a_source_has_the_training_personas_alone():
    queries = pd.DataFrame(
        {
            "query": ["q0", "q1"],
            "persona": ["p0", "p1"],
            "split": ["training", "evaluation"],
            "time": "t",
            "place": "home",
        }
    )
    gold = pd.DataFrame({"query": ["q0", "q1"], "relevant": [np.array(["i0"]), np.array(["i1"])]})
    items = pd.DataFrame({"item": ["i0", "i1"], "persona": ["p0", "p1"]})
    opens = pd.DataFrame({"item": ["i1", "i0"], "time": "t"})
    world = {"queries": queries, "gold": gold, "items": items, "opens": opens}
    asked, there, log = Source.of_world("lambdamart", "words", world).frames
    assert asked[["query", "relevant"]].to_numpy().tolist() == [["q0", ["i0"]]]
    assert there["item"].tolist() == log["item"].tolist() == ["i0"]
    del world["opens"]
    assert len(Source.of_world("semantic", "words", world).frames) == 2


@pytest.mark.parametrize("damage", [b"", b"no archive", lzma.compress(b"[]"), lzma.compress(b'{"model": ""}')])
def test_a_damaged_file_is_not_taken(tmp_path, damage):
    (tmp_path / FILE).parent.mkdir(parents=True)
    (tmp_path / FILE).write_bytes(damage)
    assert read_rankers(TOOL_RANKERS, tmp_path) == {}


def test_the_shipped_ones_are_whole():
    """Of notebook 06's own world three, of each named world two."""
    text = lzma.decompress((ROOT / FILE).read_bytes()).decode()
    records = [json.loads(line) for line in text.splitlines()]
    assert len(records) == 9
    assert all(record["model"].startswith("tree") and len(record["learned_from"]) == 64 for record in records)
