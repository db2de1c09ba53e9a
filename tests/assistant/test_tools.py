"""Tool retrieval: its queries, texts, rankings and scores, and the three named worlds, small."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from lib.assistant import tools as module
from lib.assistant.schemas import InputError
from lib.assistant.toolbox import API, Toolbox
from lib.assistant.tools import (
    ALONE,
    BY_SEARCH,
    CONTEXT,
    ORACLE,
    OTHERS,
    ToolWorld,
    asked_part,
    best_wording,
    context_controls,
    context_words,
    named_world,
    rank_tools,
    recall_of_tools,
    recall_rows,
    retrieved_contexts,
    run_name,
    scores_beside_chance,
    tool_texts,
)
from lib.assistant.world import embed_worlds
from lib.evaluation.inference import Resampling

TOOLS = pd.DataFrame(
    {
        "api": ["open_note", "send_mail", "read_mail", "call"],
        "app": ["notes", "mail", "mail", "phone_call"],
        "text": "a tool",
    }
).assign(function=[json.dumps({"name": n, "description": n}) for n in ("open_note", "send_mail", "read_mail", "call")])


def run_of(**ranked):
    rows = [(query, item, rank) for query, names in ranked.items() for rank, item in enumerate(names, start=1)]
    return pd.DataFrame(rows, columns=["query", "item", "rank"])


def letters(texts):
    """Unit-length counts of pairs of letters, hashed."""
    vectors = np.full((len(texts), 64), 0.01, dtype=np.float32)
    for row, text in enumerate(texts):
        for pair in zip(text.lower(), text.lower()[1:], strict=False):
            vectors[row, (31 * ord(pair[0]) + ord(pair[1])) % 64] += 1
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.fixture
def frames():
    """Four queries of two personas; q0 and q1 train. The labels of q2 start with the plan's item, which sorts last."""
    queries = pd.DataFrame(
        {
            "query": ["q0", "q1", "q2", "q3"],
            "persona": ["p", "p", "r", "r"],
            "split": ["training", "training", "evaluation", "evaluation"],
            "text": ["where", "who", "what", "anything"],
            "time": "t",
            "place": "home",
        }
    )
    gold = queries[["query", "split"]].assign(
        need=["n", "n", "m", "o"],
        phrasing=["a", "b", "c", "d"],
        kind=pd.Categorical(["habit", "meaning", "habit", "either"]),
        relevant=[["a"], ["b"], ["e", "d", "c"], ["c"]],
        apis=[["call"], ["read_mail"], ["send_mail", "open_note"], ["default"]],
        apps=[["mail", "notes", "music"]] * 4,
    )
    items = pd.DataFrame(
        {
            "item": list("abcde"),
            "persona": list("pprrr"),
            "app": ["mail", "notes", "notes", "notes", "calendar"],
            "title": ["A", "B", "C", "D", "E"],
            "text": ["A a", "B b", "C c", "D d", "E e"],
        }
    )
    none = pd.DataFrame(columns=["query", "apis"])
    return {"queries": queries, "gold": gold, "items": items, "toolbox": TOOLS, "other_plans": none, "opens": OPENS}


OPENS = pd.DataFrame({"item": ["a", "c"], "time": "t", "place": "home"})
RUN = run_of(q0=["a", "b"], q1=["b", "a"], q2=["d", "e"], q3=["c", "d"])


def world_of(frames, **how):
    contexts = {CONTEXT: RUN, **context_controls(frames, RUN, 3)}
    vectors = {name: letters(frames[name]["text"].tolist()) for name in ("queries", "items")}
    return ToolWorld.of(frames, vectors, contexts, letters, seed=3, **how)


@pytest.fixture
def world(frames):
    return world_of(frames)


def test_only_evaluation_queries_are_evaluated(world):
    assert world.side()["query"].tolist() == ["q2", "q3"]
    assert world.units.tolist() == ["m", "o"]


def test_the_oracle_does_not_tell_the_plans_item(world):
    oracle = world.contexts[ORACLE]
    assert oracle[oracle["query"] == "q2"].sort_values("rank")["item"].tolist() == ["c", "d", "e"]
    assert set(oracle["query"]) == {"q2", "q3"}


def test_another_querys_context_is_never_its_own():
    names = [f"q{i}" for i in range(9)]
    queries = pd.DataFrame({"query": [*names, "elsewhere"], "split": ["evaluation"] * 9 + ["training"]})
    gold = queries.assign(relevant=[["x"]] * 10)
    run = run_of(**{query: [f"of {query}", "second"] for query in names}, elsewhere=["x"])
    given = context_controls({"queries": queries, "gold": gold}, run, seed=5)[OTHERS]
    first = given[given["rank"] == 1].set_index("query")["item"]
    assert sorted(first.index) == names
    assert sorted(first) == sorted(f"of {query}" for query in names)
    assert all(item != f"of {query}" for query, item in first.items())


def test_context_in_words_best_first_and_each_wording_once():
    rows = [(3, "mail", "T3"), (1, "notes", "T1"), (2, "notes", "T2"), (4, "music", "T4")]
    context = pd.DataFrame(rows, columns=["rank", "app", "title"]).assign(query="q")
    assert context_words(context, "app", 3).to_dict() == {"q": "Notes, Mail"}
    assert context_words(context, "app: title", 3).to_dict() == {"q": "Notes: T1, Notes: T2, Mail: T3"}


def test_recall_of_tools_and_of_apps(world):
    runs = {"m": run_of(q2=["send_mail", "read_mail", "open_note", "call"], q3=["open_note", "call"])}
    scores = recall_of_tools(runs, world, ["q2", "q3"], [1, 2, 3])
    assert scores.loc["q2", "m"]["recall"].tolist() == [50, 50, 100]
    assert scores.loc["q3", "m"]["recall"].tolist() == [0, 0, 0], "no tool fits: nothing to find, and counted"
    np.testing.assert_allclose(scores.loc["q2", "m"]["app_recall"], [100 / 3, 100 / 3, 200 / 3])
    assert scores.index.tolist() == ["q2", "q3"]


def toolbox_of(*names):
    return Toolbox([API.of({"name": name, "description": name}) for name in names])


def test_a_file_of_queries_has_neither_context_nor_apps():
    queries = pd.DataFrame(
        {"query": ["a", "b"], "text": ["add", "none"], "apis": [["math.add", "math.add"], ["default"]], "place": ""}
    )
    world = ToolWorld.of_functions(queries, toolbox_of("math.add", "math.halve"), letters)
    assert world.contexts == {}
    assert world.side()["query"].tolist() == world.units.tolist() == ["a", "b"]
    for retriever in ("semantic", "bm25t"):
        run = rank_tools(ALONE, world, retriever)
        assert run[run["rank"] == 1].set_index("query")["item"]["a"] == "math.add"
    scores = scores_beside_chance({ALONE: run_of(a=["math.add"], b=["math.add"])}, world, [1])
    assert scores.columns.tolist() == [(ALONE, "recall", 1), (f"{ALONE}/random", "recall", 1)]
    assert scores.to_numpy().tolist() == [[100, 50], [0, 0]]


def test_an_answer_outside_the_toolbox_is_one_clear_error():
    queries = pd.DataFrame({"query": ["a"], "text": ["add"], "apis": [["math.ad"]], "place": ["q.json, line 3"]})
    words = r"^q\.json, line 3, query a: its answer calls math\.ad, which is not in the toolbox; did you mean math\.add"
    with pytest.raises(InputError, match=words):
        ToolWorld.of_functions(queries, toolbox_of("math.add"), letters)


def test_tool_texts_are_those_of_the_paper():
    toolbox = Toolbox.from_yaml("data/toolbox.yaml")
    frame = pd.DataFrame(
        [(api.api, api.app, api.text, json.dumps(api.function)) for api in toolbox],
        columns=["api", "app", "text", "function"],
    )
    texts, api = dict(zip(frame["api"], tool_texts(frame), strict=True)), toolbox["read_mail"]
    assert texts["read_mail"].startswith("Mail App's read_mail API is used to ")
    assert api.description[1:] in texts["read_mail"]
    assert texts["read_mail"].endswith("; ".join(f"{name}: {a.description}" for name, a in api.arguments.items()))
    assert tool_texts(frame.assign(app=None)) == frame["text"].tolist(), "a tool of no app keeps its text"
    own = {"name": "f", "description": "Messages App's f API is used to read."}
    assert tool_texts(pd.DataFrame({"app": ["mail"], "text": "", "function": json.dumps(own)})) == [own["description"]]


# ---------------------------------------------------------------- plans that do as well

OTHER_PLANS = pd.DataFrame(
    [("q2", ["call"]), ("q2", ["read_mail", "read_mail", "call"]), ("q3", ["default"])], columns=["query", "apis"]
)


def test_a_query_is_served_by_the_plan_of_which_most_is_found(frames, world):
    served = world_of(frames | {"other_plans": OTHER_PLANS})
    assert served.also.to_records(index=False).tolist() == [
        ("q2", 0, "call"), ("q2", 1, "read_mail"), ("q2", 1, "call")
    ]  # fmt: skip
    runs = {
        "gold": run_of(q2=["send_mail", "open_note"], q3=["call"]),
        "other": run_of(q2=["call", "send_mail"], q3=["call"]),
        "half": run_of(q2=["read_mail", "open_note"], q3=["call"]),
    }
    before, after = (recall_of_tools(runs, one, ["q2", "q3"], [1, 2]) for one in (world, served))
    assert before.loc["q2"].xs("recall", level="metric").tolist() == [50, 100, 0, 50, 0, 50]
    assert after.loc["q2"].xs("recall", level="metric").tolist() == [50, 100, 100, 100, 50, 50]
    pd.testing.assert_series_equal(after.loc["q3"], before.loc["q3"])
    apps = [column for column in after if column[1] == "app_recall"]
    pd.testing.assert_frame_equal(after[apps], before[apps])


def test_chance_is_exact_of_one_plan_and_takes_other_plans_too(frames, world):
    runs, column = {ALONE: run_of(q2=["call"], q3=["call"])}, (f"{ALONE}/random", "recall", 1)
    assert scores_beside_chance(runs, world, [1, 2])[column].tolist() == [25, 0]
    served = world_of(frames | {"other_plans": OTHER_PLANS})
    # one of four tools: call finds a plan whole, each other one half of a plan
    assert scores_beside_chance(runs, served, [1, 2]).loc["q2", column] == pytest.approx(62.5, abs=4)


def test_a_wording_is_chosen_by_the_gold_plans_of_training_alone(frames, monkeypatch):
    """Though any tool is said to serve every training query as well: each query's right tool is that of the app in
    which its first item lies."""
    monkeypatch.setattr(module, "TRIED_CUTOFFS", [1])
    frames["gold"]["apis"] = [["read_mail"], ["open_note"], ["call"], ["call"]]
    every = [(f"q{n}", [api]) for n in (0, 1) for api in TOOLS["api"]]
    served = frames | {"other_plans": pd.DataFrame(every, columns=["query", "apis"])}
    found = [best_wording(world_of(one), CONTEXT, 2) for one in (frames, served)]
    assert found == [("app", 1)] * 2


@pytest.mark.parametrize(
    ("wording", "with_context", "of_the_oracle"),
    [(("app", 1), "what Notes", "what Notes, Calendar"), (("title", 2), "what D, E", "what C, D, E")],
)
def test_what_is_searched_with(world, wording, with_context, of_the_oracle):
    """Of the oracle all items are in words."""
    world = replace(world, wording=wording)
    assert world.texts(ALONE, world.side()) == ["what", "anything"]
    assert world.texts(CONTEXT, world.side())[0] == with_context
    assert world.texts(ORACLE, world.side())[0] == of_the_oracle


def test_recall_is_told_by_setting_retriever_and_topics(world):
    runs = {
        run_name(ALONE, "semantic"): run_of(q2=["send_mail", "open_note"], q3=["call"]),
        run_name(CONTEXT, "lambdamart", "new"): run_of(q2=["call"], q3=["call"]),
    }
    assert list(runs) == ["query_only", "query_plus_context/lambdamart/new"]
    rows = recall_rows(scores_beside_chance(runs, world, [1, 2]), Resampling(world.units, 100, 0))
    named = rows.set_index(["setting", "retriever", "topics", "target", "k"])["recall"]
    assert named[ALONE, "semantic", "known", "api", 2] == 50
    assert named[CONTEXT, "lambdamart", "new", "api", 1] == 0
    assert named[ALONE, "random", "known", "api", 1] == 12.5
    assert named[ALONE, "semantic", "known", "app", 2] == pytest.approx(100 / 3)


# ---------------------------------------------------------------- the three named worlds

SIZE = pd.DataFrame(
    {
        "persona": [f"p{n % 60}" for n in range(330)] + [f"e{n % 20}" for n in range(100)],
        "split": ["training"] * 330 + ["evaluation"] * 100,
    }
)
NAMES = ("explicit", "hard")


@pytest.fixture(scope="module")
def whole(data):
    return {name: named_world(data, name, SIZE, 3) for name in NAMES}


@pytest.fixture(scope="module")
def parts(whole):
    return {name: asked_part(frames, 200, 3) for name, frames in whole.items()}


@pytest.fixture(scope="module")
def vectors(parts):
    return embed_worlds(parts, letters)


def small_world(frames, vectors, shipped=None):
    contexts = retrieved_contexts(frames, vectors, 3, 1)
    contexts |= context_controls(frames, contexts[CONTEXT], 3)
    return ToolWorld.of(frames, vectors, contexts, letters, encoder="letters", seed=3, shipped=shipped or {})


ASKED = [("semantic", setting, "known") for setting in (ALONE, BY_SEARCH, CONTEXT, OTHERS, ORACLE)]
ASKED += [("lambdamart", setting, "known") for setting in (ALONE, CONTEXT)]
ASKED += [("bm25t", ALONE, "known"), ("frequency", ALONE, "known"), ("classifier", ALONE, "known")]
ASKED += [("classifier", ALONE, "new"), ("lambdamart", ALONE, "new")]


def runs_in(world, asked=tuple(ASKED)):
    return {run_name(setting, one, topics): rank_tools(setting, world, one, topics) for one, setting, topics in asked}


@pytest.fixture(scope="module")
def ranked(parts, vectors):
    there = small_world(parts["hard"], vectors["hard"])
    return there, runs_in(there)


@pytest.mark.slow
def test_all_evaluation_queries_are_asked_and_some_personas_train(whole, parts):
    part, every = parts["hard"], whole["hard"]["queries"]
    asked = part["queries"]
    evaluated = every.loc[every["split"] == "evaluation", "query"]
    assert asked.loc[asked["split"] == "evaluation", "query"].tolist() == evaluated.tolist()
    training = asked[asked["split"] == "training"]
    assert 200 <= len(training) < 215 < (every["split"] == "training").sum()
    rest = every[(every["split"] == "training") & ~every["query"].isin(training["query"])]
    assert not set(rest["persona"]) & set(training["persona"]), "personas are whole"
    assert set(part["items"]["persona"]) == set(asked["persona"])
    ours = whole["hard"]["opens"]["item"].isin(part["items"]["item"])
    assert 0 < ours.sum() == len(part["opens"]) < len(ours)
    assert part["gold"]["query"].tolist() == asked["query"].tolist()
    again, other = (asked_part(whole["hard"], 200, seed)["queries"]["query"] for seed in (3, 4))
    assert again.tolist() == asked["query"].tolist() != other.tolist()


@pytest.mark.slow
def test_a_shipped_ranker_is_taken_in_the_world_that_it_learned_in(parts, vectors, ranked):
    """And in no other, nor where another log was read; with it the rankings are the same ones."""
    world, runs = ranked
    assert not any(one.shipped for one in world.rankers.values())
    shipped = {one.learned_from: one.record for one in world.rankers.values()}
    again = small_world(parts["hard"], vectors["hard"], shipped)
    assert all(one.shipped for one in again.rankers.values())
    pd.testing.assert_frame_equal(rank_tools(CONTEXT, again, "lambdamart"), runs[run_name(CONTEXT, "lambdamart")])
    other = small_world(parts["explicit"], vectors["explicit"], shipped)
    assert not any(one.shipped for one in other.rankers.values())
    log = {**parts["hard"], "opens": parts["hard"]["opens"][:600]}
    unread = small_world(log, vectors["hard"], shipped).rankers
    assert {name: one.shipped for name, one in unread.items()} == {ALONE: True, CONTEXT: False, BY_SEARCH: True}


@pytest.mark.slow
def test_no_evaluation_label_reaches_a_ranking(parts, vectors, ranked):
    """But the oracle's context, which is made of labels."""
    gold = parts["hard"]["gold"]
    asked = (gold["split"] == "evaluation").to_numpy()
    other = parts["hard"]["toolbox"]["api"].iloc[0]
    lied = gold.assign(apis=[[other] if out else apis for out, apis in zip(asked, gold["apis"], strict=True)])
    lied["relevant"] = [labels[:1] if out else labels for out, labels in zip(asked, gold["relevant"], strict=True)]
    world, before = ranked
    told = small_world({**parts["hard"], "gold": lied}, vectors["hard"])
    assert best_wording(told, CONTEXT, 12) == best_wording(world, CONTEXT, 12)
    after = runs_in(told)
    for name in set(before) - {ORACLE}:
        pd.testing.assert_frame_equal(after[name], before[name])
    assert not after[ORACLE].equals(before[ORACLE])
