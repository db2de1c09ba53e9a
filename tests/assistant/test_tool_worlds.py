"""Tool retrieval in the three named worlds, small, with counts of letters in the encoder's place."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from lib.assistant.named_worlds import WORLDS
from lib.assistant.tool_retrieval import tool_scores
from lib.assistant.tool_search import scores_beside_chance
from lib.assistant.tool_worlds import (
    ALONE,
    CLASSIFIER,
    CONTEXT,
    FREQUENCY,
    ORACLE,
    OTHER,
    PLANNED,
    RANDOM,
    RANKER_ALONE,
    RANKER_CONTEXT,
    RANKER_TUNED,
    RETRIEVED,
    TUNED,
    UNSEEN_ALONE,
    UNSEEN_TUNED,
    Asking,
    asked_part,
    embedded,
    encode_unless_known,
    find_tools,
    for_planner,
    knobs_of_worlds,
    simulated,
)

ASKING = Asking("paper", 12, [1, 5], seed=3)
SIZE = pd.DataFrame(
    {
        "persona": [f"p{n % 60}" for n in range(330)] + [f"e{n % 20}" for n in range(100)],
        "split": ["training"] * 330 + ["evaluation"] * 100,
    }
)


class Letters:
    """Unit-length counts of pairs of letters, hashed."""

    def encode(self, texts, **settings):
        vectors = np.full((len(texts), 64), 0.01, dtype=np.float32)
        for row, text in enumerate(texts):
            for pair in zip(text.lower(), text.lower()[1:], strict=False):
                vectors[row, (31 * ord(pair[0]) + ord(pair[1])) % 64] += 1
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.fixture(scope="module")
def worlds(data):
    return simulated(data, SIZE, "smoke", 3)


@pytest.fixture(scope="module")
def parts(worlds):
    return {name: asked_part(world, 200, 3) for name, world in worlds.items()}


@pytest.fixture(scope="module")
def vectors(parts):
    return embedded(parts, ["nobody says this"], [np.zeros((1, 64), dtype=np.float32)], Letters().encode)


@pytest.fixture(scope="module")
def ranked(parts, vectors):
    done = {}

    def rank(name, part=None):
        if part is not None:
            return find_tools(part, vectors[name], Letters(), ASKING)
        if name not in done:
            done[name] = find_tools(parts[name], vectors[name], Letters(), ASKING)
        return done[name]

    return rank


def test_worlds_are_of_the_size_that_is_there():
    knobs = knobs_of_worlds(SIZE, "smoke", 3)
    assert list(knobs) == list(WORLDS)
    assert [part.world for part in knobs.values()] == list(WORLDS)
    assert {(part.n_personas, part.n_training_queries, part.n_evaluation_queries) for part in knobs.values()} == {
        (80, 330, 100)
    }
    tiny = knobs_of_worlds(SIZE.iloc[:2], "smoke", 3)["mixed"]
    assert (tiny.n_personas, tiny.n_training_queries, tiny.n_evaluation_queries) == (8, 8, 1)


def test_all_evaluation_queries_are_asked_and_some_personas_train(worlds, parts):
    for name, part in parts.items():
        whole, asked = worlds[name]["queries"], part["queries"]
        evaluated = whole.loc[whole["split"] == "evaluation", "query"]
        assert asked.loc[asked["split"] == "evaluation", "query"].tolist() == evaluated.tolist()
        training = asked[asked["split"] == "training"]
        assert 200 <= len(training) < 215 < (whole["split"] == "training").sum()
        rest = whole[(whole["split"] == "training") & ~whole["query"].isin(training["query"])]
        assert not set(rest["persona"]) & set(training["persona"]), "personas are whole"
        assert set(part["items"]["persona"]) == set(asked["persona"])
        assert set(part["opens"]["item"]) <= set(part["items"]["item"])
        ours = worlds[name]["opens"]["item"].isin(part["items"]["item"])
        assert 0 < ours.sum() == len(part["opens"]) < len(ours)
        assert part["gold"]["query"].tolist() == asked["query"].tolist()
        assert set(part["other_plans"]["query"]) <= set(asked["query"])


def test_training_personas_are_drawn_by_the_seed_alone(worlds):
    first, again, other = (asked_part(worlds["mixed"], 200, seed)["queries"] for seed in (3, 3, 4))
    pd.testing.assert_frame_equal(first, again)
    assert set(first["query"]) != set(other["query"])


def test_known_texts_are_looked_up():
    encoded = []

    def encode(texts):
        encoded.extend(texts)
        return np.zeros((len(texts), 2), dtype=np.float32)

    looked_up = encode_unless_known(["a", "b"], np.array([[1, 2], [3, 4]], dtype=np.float32), encode)
    assert looked_up(["b", "new", "a"]).tolist() == [[3, 4], [0, 0], [1, 2]]
    assert looked_up(["a"]).tolist() == [[1, 2]]
    assert encoded == ["new"]


def test_every_text_of_a_world_has_its_row(parts, vectors):
    items = parts["hard"]["items"]
    np.testing.assert_array_equal(vectors["hard"]["items"][5], Letters().encode([items["text"].iloc[5]])[0])
    known = embedded({"hard": parts["hard"]}, [items["text"].iloc[5]], [np.full((1, 64), 7.0)], Letters().encode)
    assert (known["hard"]["items"][5] == 7).all()


def test_every_run_ranks_every_tool_for_every_evaluated_query(ranked):
    task, wording, _, runs, rankers = ranked("mixed")
    learned = {RANKER_ALONE, RANKER_CONTEXT, RANKER_TUNED}
    floors = {FREQUENCY, CLASSIFIER, f"{FREQUENCY}_unseen", f"{CLASSIFIER}_unseen"}
    unseen = {UNSEEN_ALONE, UNSEEN_TUNED}
    assert set(runs) == {ALONE, CONTEXT, TUNED, OTHER, ORACLE} | learned | floors | unseen
    assert wording[1] in (1, 3, 5)
    assert {name: one.shipped for name, one in rankers.items()} == dict.fromkeys(learned, False)
    for run in runs.values():
        assert set(run["query"]) == set(task.evaluated["query"])
        assert (run.groupby("query").size() == 59).all()


def test_a_shipped_ranker_is_taken_in_the_world_that_it_learned_in(parts, vectors, ranked):
    """And in no other; with it the rankings are the same ones."""
    *_, runs, rankers = ranked("mixed")
    asking = replace(ASKING, shipped={one.learned_from: one.record for one in rankers.values()})
    again = find_tools(parts["mixed"], vectors["mixed"], Letters(), asking)
    assert all(one.shipped for one in again.rankers.values())
    for name, run in runs.items():
        pd.testing.assert_frame_equal(again.runs[name], run)
    other = find_tools(parts["explicit"], vectors["explicit"], Letters(), asking)
    assert not any(one.shipped for one in other.rankers.values())


def test_no_evaluation_label_reaches_a_ranking(parts, ranked):
    """But the oracle's context, which is made of labels."""
    gold = parts["mixed"]["gold"]
    asked = (gold["split"] == "evaluation").to_numpy()
    other = parts["mixed"]["toolbox"]["api"].iloc[0]
    lied = gold.assign(apis=[[other] if out else apis for out, apis in zip(asked, gold["apis"], strict=True)])
    lied["apps"] = [["music"] if out else apps for out, apps in zip(asked, gold["apps"], strict=True)]
    lied["relevant"] = [labels[:1] if out else labels for out, labels in zip(asked, gold["relevant"], strict=True)]
    _, wording, _, before, _ = ranked("mixed")
    _, again, _, after, _ = ranked("mixed", {**parts["mixed"], "gold": lied})
    assert again == wording
    for name in set(before) - {ORACLE}:
        pd.testing.assert_frame_equal(after[name], before[name])
    assert not after[ORACLE].equals(before[ORACLE])


def leading_to_context(part, vectors):
    """Embeddings in which each query lies amid its relevant items: those of letters retrieve nothing of use."""
    row = pd.Series(range(len(part["items"])), part["items"]["item"])
    relevant = part["gold"].set_index("query")["relevant"].loc[part["queries"]["query"]]
    amid = np.stack([vectors["items"][row[list(items)].to_numpy()].mean(axis=0) for items in relevant])
    return {**vectors, "queries": (amid / np.linalg.norm(amid, axis=1, keepdims=True)).astype(np.float32)}


def test_context_decides_where_no_query_says_its_arguments(parts, vectors):
    """Found by a search that leads to it, context helps most where queries say nothing; another's helps nowhere."""
    found = {
        name: find_tools(parts[name], leading_to_context(parts[name], vectors[name]), Letters(), ASKING).scores.mean()
        for name in WORLDS
    }
    gains = ((ORACLE, ALONE), (RANKER_CONTEXT, RANKER_ALONE))
    for told, alone in gains:
        gain = {name: scores[told, "recall", 5] - scores[alone, "recall", 5] for name, scores in found.items()}
        assert gain["hard"] > gain["explicit"] + 5


def test_the_ranker_of_context_finds_more_than_search_where_habits_decide(parts, ranked):
    """And of training queries as well, ranked by one that saw none of their persona's."""
    task = ranked("hard")[0]
    relevant = parts["hard"]["gold"].set_index("query")["relevant"]

    def first(setting, queries):
        rows = task.contexts[setting]
        rows = rows[rows["query"].isin(queries["query"]) & (rows["rank"] == 1)]
        return np.mean([item in relevant[query] for query, item in rows[["query", "item"]].to_numpy()])

    for side in (task.evaluated, task.training):
        assert first(TUNED, side) > first(CONTEXT, side) + 0.1
    assert first(TUNED, task.training) < 0.95, "not what it has learned by heart"


def test_chance_and_what_is_common_stand_beside_search(ranked):
    task, _, _, runs, _ = ranked("hard")
    means = scores_beside_chance(runs, task, ASKING.cutoffs, ASKING.seed).mean()
    assert means[RANDOM, "recall", 5] < means[FREQUENCY, "recall", 5]
    assert means[UNSEEN_ALONE, "recall", 5] < means[RANKER_ALONE, "recall", 5], "needs that it has not learned"


def test_other_plans_count(parts, vectors, ranked):
    others = parts["explicit"]["other_plans"]
    assert len(others), "the fixture has some"
    task, _, _, runs, _ = ranked("explicit")
    names = task.evaluated["query"].tolist()
    alone = {ALONE: runs[ALONE]}
    served = tool_scores(alone, task, names, [5])[ALONE, "recall", 5]
    bare = {**parts["explicit"], "other_plans": others[:0]}
    without = tool_scores(alone, find_tools(bare, vectors["explicit"], Letters(), ASKING).task, names, [5])
    assert (served >= without[ALONE, "recall", 5]).all()
    assert served.sum() > without[ALONE, "recall", 5].sum()


def test_a_planner_gets_the_first_tools_and_items_of_evaluation_queries_alone(parts, ranked):
    found = {"explicit": ranked("explicit")}
    handed_on = for_planner(found, depth=4)
    assert list(handed_on) == ["world", "setting", "query", "item", "rank"]
    queries, items = parts["explicit"]["queries"], parts["explicit"]["items"]
    evaluated = set(queries.loc[queries["split"] == "evaluation", "query"])
    assert (handed_on.groupby("setting")["query"].agg(set) == evaluated).all()
    assert set(handed_on["setting"]) == {*PLANNED, *RETRIEVED.values()}
    assert (handed_on.groupby(["setting", "query"])["rank"].agg(sorted).map(tuple) == (1, 2, 3, 4)).all()
    owner, asker = items.set_index("item")["persona"], queries.set_index("query")["persona"]
    for setting, name in RETRIEVED.items():
        context = handed_on[handed_on["setting"] == name].set_index(["query", "rank"])["item"]
        assert (context.map(owner) == context.index.get_level_values("query").map(asker)).all()
        retrieved = found["explicit"].task.contexts[setting].set_index(["query", "rank"])["item"]
        pd.testing.assert_series_equal(context, retrieved[context.index])
    for name in (RANKER_ALONE, RANKER_CONTEXT, RANKER_TUNED):
        run = found["explicit"].runs[name]
        first = run[run["rank"] == 1].set_index("query")["item"]
        ours = handed_on[(handed_on["setting"] == name) & (handed_on["rank"] == 1)].set_index("query")["item"]
        assert (ours == first[ours.index]).all()
