"""Tool retrieval: its queries, texts, rankings and scores, and the three named worlds, small."""

import functools
import json

import numpy as np
import pandas as pd
import pytest

from lib.assistant import tools as module
from lib.assistant.tools import ALONE, BY_SEARCH, CONTEXT, ORACLE, OTHERS, ToolWorld, recall_of_tools, run_name
from lib.workbook.artifacts import Workbook
from lib.workbook.parameters import notebook_parameters
from lib.workbook.parts import kept_arrays
from tests.assistant.conftest import letters, table
from tests.retrieval.conftest import run_of

TOOLS = table(
    "api app", ("open_note", "notes"), ("send_mail", "mail"), ("read_mail", "mail"), ("call", "phone_call")
).assign(text="a tool", function=lambda rows: [json.dumps({"name": n, "description": n}) for n in rows["api"]])


@pytest.fixture
def frames():
    """Four queries of two personas; q0 and q1 train. The labels of q2 start with the plan's item, which sorts last."""
    queries = table(
        "query persona split text",
        ("q0", "p", "training", "where"),
        ("q1", "p", "training", "who"),
        ("q2", "r", "evaluation", "what"),
        ("q3", "r", "evaluation", "anything"),
    ).assign(time="t", place="home")
    gold = table(
        "query need phrasing kind relevant apis",
        ("q0", "n", "a", "habit", ["a"], ["call"]),
        ("q1", "n", "b", "meaning", ["b"], ["read_mail"]),
        ("q2", "m", "c", "habit", ["e", "d", "c"], ["send_mail", "open_note"]),
        ("q3", "o", "d", "either", ["c"], ["default"]),
    ).assign(split=queries["split"], apps=[["mail", "notes", "music"]] * 4)
    apps = ["mail", "notes", "notes", "notes", "calendar"]
    items = pd.DataFrame({"item": list("abcde"), "persona": list("pprrr"), "app": apps, "title": list("ABCDE")})
    items["text"] = items["title"] + " " + items["item"]
    rest = {"other_plans": table("query apis"), "opens": table("item time place", ("a", "t", "home"))}
    return {"queries": queries, "gold": gold, "items": items, "toolbox": TOOLS, **rest}


RUN = run_of(q0=["a", "b"], q1=["b", "a"], q2=["d", "e"], q3=["c", "d"])


def world_of(frames, kept=None, **how):
    vectors = {name: letters(frames[name]["text"].tolist()) for name in ("queries", "items")}
    whole = frames, vectors, {CONTEXT: RUN, BY_SEARCH: RUN}
    return ToolWorld(frames, letters, lambda: whole, kept, seed=3, **how)


@pytest.fixture
def world(frames):
    return world_of(frames)


def test_the_oracle_does_not_tell_the_plans_item(world):
    oracle = world.contexts[ORACLE]
    assert oracle[oracle["query"] == "q2"].sort_values("rank")["item"].tolist() == ["c", "d", "e"]
    assert set(oracle["query"]) == {"q2", "q3"}


def test_context_in_words_best_first_and_each_wording_once():
    rows = [(3, "mail", "T3"), (1, "notes", "T1"), (2, "notes", "T2"), (4, "music", "T4")]
    context = table("rank app title", *rows).assign(query="q")
    asked = pd.DataFrame({"query": ["q", "none"], "text": ["who", "what"]})
    assert module.with_context(asked, context, "app", 3) == ["who Notes, Mail", "what"]
    assert module.with_context(asked, context, "app: title", 3) == ["who Notes: T1, Notes: T2, Mail: T3", "what"]


def test_recall_of_tools_and_of_apps(world):
    runs = {"m": run_of(q2=["send_mail", "read_mail", "open_note", "call"], q3=["open_note", "call"])}
    scores = recall_of_tools(runs, world, [1, 2, 3])
    assert scores.loc["q2", "m"]["recall"].tolist() == [50, 50, 100]
    assert scores.loc["q3", "m"]["recall"].tolist() == [0, 0, 0], "no tool fits: nothing to find, and counted"
    np.testing.assert_allclose(scores.loc["q2", "m"]["app_recall"], [100 / 3, 100 / 3, 200 / 3])
    assert scores.index.tolist() == ["q2", "q3"], "training queries are not evaluated"


def test_tool_texts_are_those_of_the_paper():
    schema = {"properties": {"to": {"description": "Whom to ring."}}}
    rows = TOOLS[3:].assign(function=json.dumps({"name": "call", "description": "Ring.", "parameters": schema}))
    assert module.tool_texts(rows) == ["PhoneCall App's call API is used to ring. to: Whom to ring."]
    assert module.tool_texts(rows.assign(app=None)) == ["a tool"], "a tool of no app keeps its text"
    own = {"name": "f", "description": "Messages App's f API is used to read."}
    assert module.tool_texts(rows.assign(function=json.dumps(own))) == [own["description"]]


OTHER_PLANS = table("query apis", ("q2", ["call"]), ("q2", ["read_mail", "read_mail", "call"]), ("q3", ["default"]))


def test_a_query_is_served_by_the_plan_of_which_most_is_found(frames, world):
    served = world_of(frames | {"other_plans": OTHER_PLANS})
    assert served.also.to_numpy().tolist() == [["q2", 0, "call"], ["q2", 1, "read_mail"], ["q2", 1, "call"]]
    runs = {
        "gold": run_of(q2=["send_mail", "open_note"], q3=["call"]),
        "other": run_of(q2=["call", "send_mail"], q3=["call"]),
        "half": run_of(q2=["read_mail", "open_note"], q3=["call"]),
    }
    before, after = (recall_of_tools(runs, one, [1, 2])[list(runs)] for one in (world, served))
    assert before.loc["q2"].xs("recall", level="metric").tolist() == [50, 100, 0, 50, 0, 50]
    assert after.loc["q2"].xs("recall", level="metric").tolist() == [50, 100, 100, 100, 50, 50]
    pd.testing.assert_series_equal(after.loc["q3"], before.loc["q3"])


def test_chance_is_exact_of_one_plan_and_takes_other_plans_too(frames, world):
    runs, column = {ALONE: run_of(q2=["call"], q3=["call"])}, (f"{ALONE}/random", "recall", 1)
    assert recall_of_tools(runs, world, [1, 2])[column].tolist() == [25, 0]
    served = world_of(frames | {"other_plans": OTHER_PLANS})
    # one of four tools: call finds a plan whole, each other one half of a plan
    assert recall_of_tools(runs, served, [1, 2]).loc["q2", column] == pytest.approx(62.5, abs=4)


def test_what_is_searched_with(world):
    """Of the oracle all items are in words."""
    texts = {name: world.texts(name, world.queries, world.contexts) for name in (ALONE, CONTEXT, ORACLE)}
    assert texts[ALONE] == ["what", "anything"]
    assert (texts[CONTEXT][0], texts[ORACLE][0]) == ("what Notes", "what Notes, Calendar")


SIZE = table(
    "persona split",
    *((f"p{n % 60}", "training") for n in range(330)),
    *((f"e{n % 20}", "evaluation") for n in range(100)),
)


@pytest.fixture(scope="module")
def whole(data):
    return module.named_world(data, "hard", SIZE, 3)


@pytest.fixture(scope="module")
def ranked(whole):
    """The world `hard`, small, and what it finds."""
    there = small_world(whole)
    return there, runs_in(there)


def small_world(frames, kept=None, contexts=None):
    learned = functools.cache(lambda: module.learned_world(frames, 200, letters, {}, 3, 1))
    return ToolWorld(frames, letters, learned, kept, 3, contexts=contexts)


ASKED = [("semantic", setting, "known") for setting in (ALONE, BY_SEARCH, CONTEXT, OTHERS, ORACLE)]
ASKED += [("lambdamart", setting, "known") for setting in (ALONE, CONTEXT)]
ASKED += [("bm25t", ALONE, "known"), ("frequency", ALONE, "known"), ("classifier", ALONE, "known")]
ASKED += [("classifier", ALONE, "new"), ("lambdamart", ALONE, "new")]


def runs_in(world):
    return {run_name(how, one, topics): module.rank_tools(how, world, one, topics) for one, how, topics in ASKED}


@pytest.mark.slow
def test_all_evaluation_queries_are_asked_and_some_personas_train(whole, ranked):
    part, every = ranked[0].whole()[0], whole["queries"]
    asked = part["queries"]
    evaluated = every.loc[every["split"] == "evaluation", "query"]
    assert asked.loc[asked["split"] == "evaluation", "query"].tolist() == evaluated.tolist()
    training = asked[asked["split"] == "training"]
    assert 200 <= len(training) < 215 < (every["split"] == "training").sum()
    rest = every[(every["split"] == "training") & ~every["query"].isin(training["query"])]
    assert not set(rest["persona"]) & set(training["persona"]), "personas are whole"
    assert set(part["items"]["persona"]) == set(asked["persona"])
    ours = whole["opens"]["item"].isin(part["items"]["item"])
    assert 0 < ours.sum() == len(part["opens"]) < len(ours)
    assert part["gold"]["query"].tolist() == asked["query"].tolist()


@pytest.mark.slow
def test_the_evaluation_side_is_the_same_without_the_other(whole, data):
    alone = module.named_world(data, "hard", SIZE, 3, ["evaluation"])
    asked = whole["queries"].query("split == 'evaluation'").reset_index(drop=True)
    pd.testing.assert_frame_equal(alone["queries"], asked)
    items = whole["items"]
    pd.testing.assert_frame_equal(alone["items"], items[items["persona"].isin(asked["persona"])].reset_index(drop=True))


@pytest.mark.slow
def test_no_evaluation_label_reaches_a_ranking(whole, ranked):
    """But the oracle's context, which is made of labels."""
    gold, before = whole["gold"], ranked[1]
    known, other = gold["split"] == "training", pd.Series([[whole["toolbox"]["api"].iloc[0]]] * len(gold))
    lied = gold.assign(apis=gold["apis"].where(known, other))
    lied["relevant"] = gold["relevant"].where(known, gold["relevant"].str[:1])
    after = runs_in(small_world({**whole, "gold": lied}))
    for name in set(before) - {ORACLE}:
        pd.testing.assert_frame_equal(after[name], before[name])
    assert not after[ORACLE].equals(before[ORACLE])


def never():
    raise AssertionError("nothing is learned")


@pytest.mark.slow
def test_kept_lists_are_taken_and_some_are_searched_for_again(whole, ranked, tmp_path):
    world, before = ranked
    book = Workbook("06_tool_retrieval", notebook_parameters("06_tool_retrieval", profile="quick"), tmp_path)
    book.write_arrays("tool_lists", {f"k {name}": rows for name, rows in world.taken.items()})
    assert module.ship_tool_lists(book, tmp_path)
    assert not module.ship_tool_lists(book, tmp_path), "they are there"
    again = ToolWorld(whole, letters, never, kept_arrays(tmp_path / module.LISTS, "k"), 3)
    for name, run in runs_in(again).items():
        pd.testing.assert_frame_equal(run, before[name])
    again.audit()
    assert again.agreed == again.audited == 5 * module.AUDITED
    again.kept[f"{CONTEXT}, app of 1"][:, :2] = 0
    again.audited = again.agreed = 0
    again.audit()
    assert again.agreed < again.audited


@pytest.mark.slow
def test_lists_that_were_found_with_other_contexts_are_not_taken(whole, ranked):
    world, _ = ranked
    kept = {f"items of {setting}": world.taken[f"items of {setting}"] for setting in (CONTEXT, BY_SEARCH)}
    assert small_world(whole, kept, world.contexts).kept
    assert not small_world(whole, kept, {CONTEXT: world.contexts[BY_SEARCH]}).kept


@pytest.mark.slow
def test_a_key_has_all_that_lists_depend_on(whole, data):
    key = module.world_key(whole, "weights", 3, data, ("hard", 200))
    others = [
        module.world_key(whole, "others", 3, data, ("hard", 200)),
        module.world_key(whole, "weights", 4, data, ("hard", 200)),
        module.world_key(whole, "weights", 3, data, ("hard", 300)),
        module.world_key(whole, "weights", 3, data),
        module.world_key(whole | {"opens": whole["opens"][1:]}, "weights", 3, data, ("hard", 200)),
    ]
    assert len({key, *others}) == 6
