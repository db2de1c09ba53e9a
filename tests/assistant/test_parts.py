"""What comes trained for the assistant: what each part learns from, `make train`, and what a changed world is told."""

import functools
import json
from dataclasses import asdict, replace

import numpy as np
import pandas as pd
import pytest

from lib.assistant import parts as module
from lib.assistant.parts import assistant_recipes, make_planner, make_writer, taught_queries
from lib.assistant.planners import planner_settings, read_planner_lesson, shipped_planner
from lib.assistant.queries import held_out_needs
from lib.assistant.world import frames
from lib.generation.finetune import Training
from lib.report import train as command
from lib.workbook.artifacts import ROOT, Workbook
from lib.workbook.parameters import notebook_parameters, read_profile
from lib.workbook.parts import FOLDER, RECORD, Recipe
from tests.generation.conftest import build_model

SEED = 7
WRITER, PLANNER = "cot_writer-12", "planner-18"
SMALL = Training(rank=2, alpha=4, batch_size=8)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """Folder of a tiny language model with room for the planner's prompts."""
    return str(build_model(tmp_path_factory.mktemp("model"), window=4096))


@pytest.fixture(scope="module")
def tables(make_world):
    return frames(make_world(n_personas=8, n_training_queries=24, n_evaluation_queries=12))


def ranked(queries, items, n, seed):
    """The first n items of each query's ranking, drawn."""
    rng = np.random.default_rng(seed)
    rows = [(query, item, rank) for query in queries for rank, item in enumerate(rng.permutation(items)[:n], 1)]
    return pd.DataFrame(rows, columns=["query", "item", "rank"])


@pytest.fixture
def write(tmp_path, tiny, tables):
    """Writes what notebooks 01, 03 and 06 leave, of which the last two depend on `seed`; returns the folder."""

    def write(tables=tables, seed=0):
        queries, apis, items = (
            tables[name][key].to_numpy(dtype=object)
            for name, key in (("queries", "query"), ("toolbox", "api"), ("items", "item"))
        )
        cot = pd.DataFrame({"query": queries[:9], "split": "training", "writer": "cot_distilled"})
        rankings = [
            ranked(queries, apis, 3, seed).assign(setting=name) for name in ("query_only", "query_plus_context")
        ]
        context, worded = ranked(queries, items, 2, seed), cot.assign(text=f"Check 'Notes' {seed}.")
        tools = {"tool_rankings": pd.concat(rankings, ignore_index=True), "retrieved_context": context}
        world = {name: frame for name, frame in tables.items() if name != "provenance"}
        left = {"01_data_gen": world, "03_cot_augmentation": {"cot": worded}, "06_tool_retrieval": tools}
        for notebook, some in left.items():
            book = Workbook(notebook, notebook_parameters(notebook, profile="tiny"), tmp_path)
            for name, frame in some.items():
                book.write(name, frame)
        return tmp_path

    return write


def book_of(model, root, tiny, **values):
    base = {"03_cot_augmentation": {"writer": tiny}, "07_planner": {"planner": tiny}}[model]
    return Workbook(model, notebook_parameters(model, profile="tiny", seed=SEED, **base, **values), root)


def training_of(tables):
    every = tables["queries"].merge(tables["gold"].drop(columns="split"), on="query")
    return every[every["split"] == "training"]


@pytest.mark.parametrize("profile", ["quick", "full"])
def test_profiles_ask_for_the_settings_that_the_parts_were_trained_with(profile):
    """Else they would train their own."""
    values = read_profile(ROOT / "notebooks" / "profiles" / f"{profile}.yaml")
    writing = notebook_parameters("03_cot_augmentation", values)
    assert f"cot_writer-{writing.distilled_pairs}" in assistant_recipes()
    asked = {
        "cot_writer-2000": replace(module.WRITING, seed=writing.seed),
        "planner-4338": planner_settings(notebook_parameters("07_planner", values)),
    }
    for part, settings in asked.items():
        had = json.loads((ROOT / FOLDER / part / RECORD).read_text())["settings"]
        assert {name: value for name, value in asdict(settings).items() if name != "checkpoint_every"} == had


@pytest.mark.slow
def test_a_shipped_writer_is_taken_and_writes_for_other_personas(write, tiny, tables):
    book = book_of("03_cot_augmentation", write(), tiny, distilled_pairs=12, cot_training_queries=4)
    assert make_writer(book, book.root)
    assert not make_writer(book, book.root), "it is shipped already, and fits"
    training, unseen = training_of(tables), held_out_needs(tables["gold"]["need"].unique(), SEED)
    learned, asked, found = taught_queries(book.parameters, training, unseen, book.root)
    assert found.folder == book.root / FOLDER / WRITER
    assert found.record["rows"] == len(learned) > 3
    assert len(asked) == 4
    assert not set(learned["persona"]) & set(asked["persona"])
    assert not set(learned["need"]) & unseen
    made = module.taken_or_trained(found, tiny, None, book.data / "runs", SMALL)
    assert (made.shipped, made.reason, made.rows) == (True, "", len(learned))

    # One changed query, and the notebook trains its own.
    training.loc[learned.index[0], "text"] += " Please."
    learned, asked, found = taught_queries(book.parameters, training, unseen, book.root)
    assert found.reason == f"The shipped part {WRITER} is not used: it was trained on other pairs than these."
    pairs = module.writer_pairs(learned)
    made = module.taken_or_trained(found, tiny, pairs, book.data / "runs", SMALL, dtype="float32")
    assert (made.shipped, made.reason, made.rows) == (False, found.reason, len(learned))


def test_without_an_experts_chain_there_is_nothing_to_learn(write, tiny, tables):
    bare = tables | {"gold": tables["gold"].assign(cot="")}
    book = book_of("03_cot_augmentation", write(bare), tiny, distilled_pairs=12, cot_training_queries=4)
    learned, asked, found = taught_queries(book.parameters, training_of(bare), [], book.root)
    assert learned.empty
    assert len(asked) == 4
    assert found == module.NONE
    with pytest.raises(ValueError, match="cot_writer: no training query of this world has an expert's CoT"):
        make_writer(book, book.root)


@pytest.mark.slow
def test_a_planner_is_made_once_whatever_was_retrieved_and_written(write, tiny, capsys):
    book = book_of("07_planner", write(), tiny, shown_tools=3, shown_items=2)
    recipe = Recipe("plans", "07_planner", {}, functools.partial(make_planner, size=18))
    for seed, expected in ((0, "now in data/trained"), (1, "shipped already, and it fits")):
        write(seed=seed)
        assert command.make_part(PLANNER, recipe, book, book.root) == (not seed)
        assert expected in capsys.readouterr().out
    lesson = read_planner_lesson(book)
    found = shipped_planner(book.parameters, lesson, book.root, 18)
    training = lesson.queries(18)
    assert set(training["split"]) == {"training"}
    assert not set(lesson.material.gold.set_index("query")["need"][training["query"]]) & lesson.held_out
    assert found.record["rows"] == 2 * len(lesson.pairs(training))  # two epochs
    assert found.record["settings"]["seed"] == SEED


@pytest.mark.parametrize(
    ("name", "column"),
    [("queries", "text"), ("gold", "plan"), ("items", "text"), ("opens", "place"), ("people", "name")],
)
def test_what_training_personas_have_is_part_of_what_a_planner_learned_from(write, tiny, tables, name, column):
    """And what evaluation personas have is not."""
    book = book_of("07_planner", write(), tiny)
    before = read_planner_lesson(book).source(18)
    side = tables["queries"].drop_duplicates("persona").set_index("persona")["split"]
    of_item = tables["items"].set_index("item")["persona"]
    frame = tables[name]
    persona = frame["item"].map(of_item) if name == "opens" else frame.get("persona", frame.get("query"))
    sides = persona.str.partition("-")[0].map(side).to_numpy()
    for part in ("training", "evaluation"):
        row = frame.index[np.flatnonzero(sides == part)[0]]
        write(tables | {name: frame.assign(**{column: frame[column].where(frame.index != row, frame[column] + " x")})})
        assert (read_planner_lesson(book).source(18) == before) == (part == "evaluation")


def test_a_world_that_is_too_small_says_so(write, tiny):
    with pytest.raises(ValueError, match="planner-25: this world has 24"):
        make_planner(book_of("07_planner", write(), tiny), size=25)
