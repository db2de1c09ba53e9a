"""Controls of LambdaMART and a sceptic's questions in small simulated worlds, with counts of letters in the encoder's
place."""

import numpy as np
import pandas as pd
import pytest

from lib.assistant.controls import REFERENCES
from lib.assistant.pages.tool_worlds import controls_in_rows, controls_in_words, controls_table
from lib.assistant.ranking_task import Learning
from lib.assistant.tool_retrieval import ToolTask, gold_tools
from lib.assistant.tool_search import runs_of_plans
from lib.assistant.world import frames, read_api_sources
from lib.assistant.world_controls import (
    NAMED,
    NAMED_UNSEEN,
    ON_EVALUATION,
    PLANNED,
    SHORTCUTS,
    api_ranked_first,
    controls_in,
    leaks_in,
)
from lib.workbook.parameters.worlds import WorldKnobs

SIZE = {"n_personas": 60, "n_training_queries": 330, "n_evaluation_queries": 90}


def letters(texts):
    counts = np.array([[text.lower().count(letter) for letter in "abcdefghijklmnopqrstuvwxyz"] for text in texts])
    return (counts / np.linalg.norm(counts, axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture(scope="module")
def worlds(make_world):
    return {name: frames(make_world(seed=3, world=name, **SIZE)) for name in ("explicit", "hard")}


@pytest.fixture(scope="module")
def found(worlds):
    return {
        name: controls_in(
            world, {part: letters(world[part]["text"]) for part in ("items", "queries")}, Learning([3], 3, 2), 2
        )
        for name, world in worlds.items()
    }


@pytest.mark.parametrize("name", ["explicit", "hard"])
def test_a_cut_link_costs_what_it_brought(found, name):
    rows = found[name][found[name]["queries"] == "all"].set_index("control")
    assert list(rows.index) == list(REFERENCES)
    assert (rows["n"] == SIZE["n_evaluation_queries"]).all()
    assert (rows.loc["labels permuted", "recall"] < rows["lambdamart"] - 20).all()
    assert rows["difference"].abs().max() < 15


def test_where_habits_decide_a_cut_log_costs_most(found):
    """The encoder knows letters alone; in `explicit` nearly no query is left to habit."""
    rows = found["hard"].set_index(["control", "queries"])
    for name in ("logs permuted", "moments shuffled"):
        assert rows.loc[(name, "habit"), "recall"] < rows.loc[(name, "habit"), "lambdamart"] - 20


def test_the_page_shows_every_world(found):
    rows = controls_in_rows(found)
    assert rows["world"].drop_duplicates().tolist() == ["explicit", "hard"]
    table = controls_table(found).frame
    assert len(table) == len(rows)
    assert set(table["within 4 points"]) <= {"holds", "not shown"}
    held = [(part.loc[part["queries"] == "all", "holds"].sum(), part["control"].nunique()) for part in found.values()]
    (explicit, n), (hard, _) = held
    text = controls_in_words(found)
    assert text.startswith(f"Controls that hold on all queries: explicit: {explicit} of {n}, hard: {hard} of {n}.")


# ---------------------------------------------------------------- a sceptic's questions


@pytest.fixture(scope="module")
def api_sources(data):
    return read_api_sources(data)


def searched(world):
    """A world's queries as a task, and what names their tools by their text alone."""
    gold = world["gold"]
    asked = world["queries"].merge(gold[["query", "need"]], on="query")
    tools, no_apps = world["toolbox"].rename(columns={"api": "item"}), pd.DataFrame(columns=["query", "item"])
    task = ToolTask(asked, tools, gold_tools(gold["query"], gold["apis"]), no_apps)
    return task, runs_of_plans(task, letters(task.evaluated["text"]), letters(task.training["text"]), 3)


def asked_of(world, name, api_sources, split="phrasing"):
    rows = leaks_in(world, *searched(world), api_sources, WorldKnobs(seed=3, world=name, split=split, **SIZE))
    return rows.set_index("question")


@pytest.fixture(scope="module")
def answers(worlds, api_sources):
    return {name: asked_of(world, name, api_sources) for name, world in worlds.items()}


def test_every_question_has_its_reference(answers):
    """Where every kind of query is asked none is left out."""
    rows = answers["hard"]
    assert set(SHORTCUTS) | {NAMED, NAMED_UNSEEN} <= set(rows.index)
    assert (rows["reference_is"] == PLANNED).sum() == 4
    assert (rows["reference_is"] == ON_EVALUATION).sum() == 5
    assert rows["reference"].notna().all()
    assert rows.loc["query texts on both sides", "reference"] == SIZE["n_evaluation_queries"]


def test_worlds_stand_beside_what_their_names_promise(answers):
    for name, planned in (("explicit", (85, 5, 10, 90)), ("hard", (0, 80, 20, 0))):
        rows = answers[name][answers[name]["reference_is"] == PLANNED]
        assert rows["reference"].tolist() == pytest.approx(planned)
    off = (answers["explicit"]["here"] - answers["explicit"]["reference"])[:4].abs()
    assert off.max() < 4
    assert answers["explicit"].loc["H(API | need), bits", "here"] < answers["hard"].loc["H(API | need), bits", "here"]


def test_a_need_that_decides_where_the_world_says_the_place_does_is_seen(worlds, answers, api_sources):
    need = worlds["hard"]["gold"]["need"].iloc[0]
    rows = asked_of(worlds["hard"], "hard", api_sources | {need: "need"})
    share = 100 * (worlds["hard"]["gold"]["need"] == need).mean()
    assert answers["hard"].loc["api_source: need, %", "here"] == 0
    assert rows.loc["api_source: need, %", "here"] == pytest.approx(share)


def test_a_phrasing_that_names_the_api_is_seen(worlds, answers, api_sources):
    """Whether the classifier has learned the need or not, as long as other needs' queries call the API."""
    world, before = worlds["hard"], answers["hard"]
    named = world["queries"]["text"] + " " + 9 * (world["gold"]["apis"].str[0] + " ")
    rows = asked_of(world | {"queries": world["queries"].assign(text=named)}, "hard", api_sources)
    assert rows.loc[NAMED, "here"] > before.loc[NAMED, "here"] + 30
    assert rows.loc[NAMED_UNSEEN, "here"] > before.loc[NAMED_UNSEEN, "here"] + 30
    assert rows.loc[NAMED, "reference"] == before.loc[NAMED, "reference"]


def test_a_query_that_quotes_its_item_is_seen(worlds, answers, api_sources):
    world, before = worlds["hard"], answers["hard"]
    text = world["items"].set_index("item")["text"]
    quoted = world["queries"]["text"] + " " + world["gold"]["relevant"].str[0].map(text)
    rows = asked_of(world | {"queries": world["queries"].assign(text=quoted)}, "hard", api_sources)
    for question in SHORTCUTS:
        if "share a content word" in question:
            assert rows.loc[question, "here"] > before.loc[question, "here"] + 30


def test_a_split_that_is_broken_stops_the_page(worlds, api_sources):
    world = worlds["hard"]
    queries, gold = world["queries"], world["gold"]
    training = queries["split"].eq("training")
    persona = queries["persona"].copy()
    persona[training.idxmin()] = persona[training.idxmax()]
    with pytest.raises(ValueError, match=r"share personas$"):
        asked_of(world | {"queries": queries.assign(persona=persona)}, "hard", api_sources)
    phrasing = gold["phrasing"].where(training.to_numpy(), gold["phrasing"][training.idxmax()])
    with pytest.raises(ValueError, match=r"share phrasings$"):
        asked_of(world | {"gold": gold.assign(phrasing=phrasing)}, "hard", api_sources)
    with pytest.raises(ValueError, match=r"share needs asked for$"):
        asked_of(world, "hard", api_sources, split="need")


def test_the_api_ranked_first_by_hand():
    queries = pd.DataFrame({"query": list("abcde"), "split": ["evaluation"] * 4 + ["training"]})
    plans = pd.DataFrame({"query": list("aabde"), "item": list("xyyxy")})  # no API serves c
    task = ToolTask(queries, pd.DataFrame(), plans, pd.DataFrame())
    run = pd.DataFrame({"query": list("aabbccdd"), "item": list("xy" * 4), "rank": [1, 2] * 4})
    assert api_ranked_first(run, task) == pytest.approx(200 / 3)
    assert api_ranked_first(run.assign(rank=3 - run["rank"]), task) == pytest.approx(100 / 3)
