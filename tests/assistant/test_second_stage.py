"""The second stage on a small world of paired items: the query names one of a pair, and only items side by side tell
the other."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from lib.assistant import second_stage as module
from lib.assistant.one_query import PersonaIndex
from lib.assistant.ranking import RankingTask
from lib.assistant.signals import hour_kernel, log_similarities
from lib.evaluation.comparison import per_query_scores
from tests.retrieval.conftest import unit

PERSONAS, MATTERS, DIMENSIONS = 40, 4, 48


@pytest.fixture(scope="module")
def world():
    """Each persona has pairs of items with half of their vectors in common; a query has the other half of one item."""
    rng = np.random.default_rng(4)
    number = 2 * PERSONAS * MATTERS
    shared = np.repeat(rng.normal(size=(number // 2, DIMENSIONS)), 2, axis=0)
    own = rng.normal(size=(number, DIMENSIONS))
    persona = np.arange(number) // (2 * MATTERS)
    items = pd.DataFrame({"persona": [f"p{person}" for person in persona], "text": "a note"})
    items["item"] = [f"{person}-{place}" for person, place in zip(persona, rng.permutation(number), strict=True)]
    items["app"] = rng.choice(["notes", "mail"], size=number)
    asked = np.arange(0, number, 2)
    queries = pd.DataFrame({"query": [f"q{row}" for row in asked], "persona": items["persona"].to_numpy()[asked]})
    queries["split"] = np.where(persona[asked] < PERSONAS - 12, "training", "evaluation")
    queries = queries.assign(text="what", time=pd.Timestamp("2024-01-10 12:00"), weekday=2, place="home")
    gold = pd.DataFrame({"query": queries["query"], "need": [f"n{row // 2 % 10}" for row in asked], "kind": "meaning"})
    gold["relevant"] = [items["item"].iloc[[row, row + 1]].tolist() for row in asked]
    minutes = pd.to_timedelta(rng.integers(0, 20 * 24 * 60, size=3 * number), unit="min")
    opens = pd.DataFrame({"item": np.tile(items["item"], 3), "time": pd.Timestamp("2023-12-20") + minutes})
    opens["place"] = rng.choice(["home", "work"], size=3 * number)
    vectors = {"items": unit(unit(shared) + unit(own)), "queries": unit(own[asked])}
    return {"items": items, "opens": opens, "queries": queries, "gold": gold}, vectors


@pytest.fixture(scope="module")
def task(world):
    frames, vectors = world
    return RankingTask.of_world(frames, vectors, cutoff=3, seed=3, folds=2)


@pytest.fixture(scope="module")
def adapted(task, world):
    """Cosines of known and new topics."""
    return module.cross_fitted(task, module.adapt_cosines(task, world[1]))


@pytest.fixture(scope="module")
def alike(task, world):
    return module.alike_by_persona(task, world[1]["items"])


@pytest.fixture(scope="module")
def first(task):
    return task.fit()[1]


def fit_second(task, alike, first, cosine):
    seen = module.second_features(task.features, cosine, first, task.pairs["query_row"].to_numpy(), alike)
    return task.fit(features=pd.DataFrame(seen, copy=True), folds=module.FEW_FOLDS)


@pytest.fixture(scope="module")
def second(task, alike, first, adapted):
    return fit_second(task, alike, first, adapted[0])


def recall(task, scores):
    found = per_query_scores({"run": task.rank(scores)}, task.qrels, task.queries_of("evaluation"), [2])
    return found["run", "recall", 2].mean()


def test_logs_are_alike_where_they_are_opened_at_the_same_moments():
    items = pd.DataFrame({"item": ["a", "b", "c", "d"], "app": "notes"})
    # On a Monday, a Tuesday, a Saturday, and after the first query.
    moments = pd.to_datetime(["2024-01-01 08:10", "2024-01-02 09:50", "2024-01-06 08:10", "2024-01-10 08:10"])
    opens = pd.DataFrame({"item": ["a", "b", "c", "c", "of nobody"], "time": [*moments, moments[0]], "place": "home"})
    times = pd.to_datetime(["2024-01-07 12:00", "2024-01-11 12:00", "2024-01-07 13:00"])
    queries = pd.DataFrame({"time": times, "place": "work"})
    alike, state = log_similarities(items, opens, queries)
    assert state.tolist() == [0, 1, 0]
    kernel = hour_kernel(np.arange(24)[:, None] - np.arange(24))
    near = kernel[8] @ kernel[9] / (np.linalg.norm(kernel[8]) * np.linalg.norm(kernel[9]))
    early = np.eye(4)
    early[0, 1] = early[1, 0] = near
    early[3, 3] = 0  # never opened
    np.testing.assert_allclose(alike[0], early, atol=1e-12)
    assert alike[1][0, 2] == pytest.approx(np.sqrt(0.5))  # one of c's two opens is at a's moment
    elsewhere, _ = log_similarities(items, opens.assign(place=["home", "work", "home", "home", "home"]), queries)
    assert elsewhere[0][0, 1] == 0


def test_an_item_is_compared_with_the_others_and_they_pass_on_what_they_score():
    """Against one item at a time."""
    rng = np.random.default_rng(1)
    vectors, logs = unit(rng.normal(size=(5, 3))), unit(rng.random((2, 5, 4)))
    rows, ties = np.arange(15).reshape(3, 5), np.array([9, 1, 7, 3, 5], dtype=np.uint64)
    part = module.Alike(rows, ties, vectors @ vectors.T, logs @ logs.transpose(0, 2, 1), np.array([1, 0, 1]))
    first, signal = rng.normal(size=15), rng.normal(size=15)
    first[1:4] = 2.0  # ties among the best
    signal[6] = np.nan  # counts as the mean
    near, passed = module.neighbour_features(first, {"semantic_z": signal, "opens_z": np.ones(15)}, [part])
    assert list(passed) == ["text_passes_semantic", "log_passes_semantic"]
    for query, mine in enumerate(rows):
        for group, matrix in (("text", part.text), ("log", part.log[part.state[query]])):
            for item in range(5):
                others = sorted({*range(5)} - {item}, key=lambda other: (-first[mine[other]], ties[other]))
                alike = matrix[item, others]
                scored = np.nan_to_num(signal[mine[others]])
                slow = {
                    "nearest": alike[0],
                    "top": alike[0],
                    "all": np.average(alike, weights=np.exp(first[mine[others]])),
                    "passes_semantic": np.average(scored, weights=np.exp(module.SHARPNESS * alike)),
                }
                fast = {name: (near | passed)[f"{group}_{name}"][mine[item]] for name in slow}
                assert fast == pytest.approx(slow)


def test_scores_are_taken_relative_to_the_query():
    query_row = np.array([0, 0, 0, 1, 1, 2])
    first = np.array([1.0, 3.0, 2.0, 5.0, 5.0, 7.0])
    nothing, both = (pd.DataFrame(index=range(6)), np.zeros(6)), (first, first + 10 * query_row)
    scores, at_another_level = (pd.DataFrame(module.second_features(*nothing, one, query_row, [])) for one in both)
    pd.testing.assert_frame_equal(scores, at_another_level)
    assert scores["first_rank"].tolist() == [3, 1, 2, 1, 1, 1]
    assert scores["first_behind"].tolist() == [-2, 0, -1, 0, 0, 0]
    assert scores["first_margin"].tolist() == [1, 1, 1, 0, 0, 0]
    assert scores["first_share"].groupby(query_row).sum().tolist() == pytest.approx([1, 1, 1])
    assert scores["first_z"].tolist() == pytest.approx([-np.sqrt(1.5), np.sqrt(1.5), 0, 0, 0, 0])


def test_what_is_missing_stays_missing_and_counts_for_nothing():
    columns = {"x": np.array([1.0, 3.0, np.nan, 4.0, np.nan])}
    found = module.relative_to_query(columns, np.array([0, 0, 0, 1, 2]))["x_z"]
    np.testing.assert_array_equal(found, [-1, 1, np.nan, 0, np.nan])


def test_the_other_of_a_pair_is_found_beside_the_first(task, first, second):
    assert recall(task, second[1]) > recall(task, first) + 15


def test_evaluation_labels_take_no_part(task, alike, first, second, adapted):
    evaluation = set(task.queries_of("evaluation"))
    relevant = [
        rows[:1] if query in evaluation else rows for query, rows in task.gold.set_index("query")["relevant"].items()
    ]
    blind = fit_second(replace(task, gold=task.gold.assign(relevant=relevant)), alike, first, adapted[0])
    np.testing.assert_array_equal(blind[1], second[1])


def test_one_query_alone_gets_what_it_gets_among_all(task, world, first, second, adapted):
    row = len(task.queries) - 3
    query = task.queries.iloc[[row]].reset_index(drop=True)
    mine = (task.items["persona"] == query["persona"].item()).to_numpy()
    index = PersonaIndex(task.items[mine], task.opens[task.opens["item"].isin(task.items["item"][mine])],
                         world[1]["items"][mine])  # fmt: skip
    rows = (task.pairs["query_row"] == row).to_numpy()
    assert task.pairs["item"][rows].tolist() == index.names
    features = task.features[rows].reset_index(drop=True)
    alone = index.second(second[0], index.alike(query), adapted[0][rows], features, first[rows])
    np.testing.assert_allclose(alone, second[1][rows], atol=1e-9)


def test_no_query_is_ranked_by_what_learned_from_its_topic(task, alike, adapted, monkeypatch):
    need = task.pairs["query"].map(task.gold.set_index("query")["need"]).to_numpy()
    learned, learn = [], RankingTask.learn

    def watched(self, rows=None, *rest, **how):
        learned.append(rows)
        return learn(self, rows, *rest, **how)

    monkeypatch.setattr(RankingTask, "learn", watched)
    scores = module.scores_on_new_topics(task, alike, {"second": adapted[1]})
    folds = np.repeat(np.unique(task.topic_fold), 2 + module.FEW_FOLDS + 2)
    for rows, fold in zip(learned, folds, strict=True):
        assert not set(need[rows]) & set(need[task.evaluation & (task.topic_fold == fold)])
        assert not (task.evaluation & rows).any()
    assert not scores["second"][task.training].any()
    assert recall(task, scores["second"]) > recall(task, scores["lambdamart"])


def test_the_cosines_of_each_fold_go_to_the_queries_about_that_fold_alone(task, alike):
    """Told by cosines of its own fold the stage finds all, by those of others it would not."""
    told = task.relevant + 0.01 * np.random.default_rng(0).normal(size=len(task.pairs))  # knows the labels
    told_each = {
        fold: np.where(task.training ^ (task.topic_fold == fold), told, 0.0) for fold in np.unique(task.topic_fold)
    }
    assert recall(task, module.scores_on_new_topics(task, alike, {"second": told_each})["second"]) > 95


def test_too_few_personas_teach_nothing(task, world, alike):
    few, some = replace(task), [f"p{person}" for person in range(module.ENOUGH - 1)]
    few.__dict__["training"] = task.training & np.isin(task.persona, some)
    assert not module.scores_on_new_topics(few, alike, {})["lambdamart"].any()
    assert not any(values.any() for values in module.adapt_cosines(few, world[1]).values())


def test_no_map_is_asked_about_what_it_learned_from(task, world, monkeypatch):
    """Maps are not learned here; the first is for known topics."""
    taught, need = [], task.gold.set_index("query")["need"]
    training = set(task.pairs["query"][task.training])

    def fit(pairs, relevant, persona, *rest, seed):
        assert seed == task.seed
        assert set(pairs["query"]) <= training
        taught.append(pairs)
        return len(taught) - 1

    def cosines(pairs, queries, items, number):
        assert not set(taught[number]["persona"]) & set(pairs["persona"])
        if number:
            assert not set(taught[number]["query"].map(need)) & set(pairs["query"].map(need))
        return np.ones(len(pairs))

    monkeypatch.setattr(module, "fit_map", fit)
    monkeypatch.setattr(module, "mapped_cosines", cosines)
    known, _ = module.cross_fitted(task, module.adapt_cosines(task, world[1]))
    assert (known == 1).all()
    assert len(taught) == 1 + 5 + 2 * 10, "each pair of folds once"
    assert set(taught[0]["query"]) == training


class Seven:
    """Three evaluation queries before four training queries, an item each; topics of folds 0, 1, 2 and 0, 1, 2, 2."""

    pairs = pd.DataFrame({"query": list("abcdefg")})
    evaluation = np.array([True, True, True, False, False, False, False])
    training = ~evaluation
    topic_fold = np.array([0, 1, 2, 0, 1, 2, 2])


NAN = np.nan
KEPT = {
    "evaluation": [0.1, 0.2, 0.3],
    "without_0_evaluation": [0.11, NAN, NAN],
    "without_1_evaluation": [NAN, 0.21, NAN],
    "without_2_evaluation": [NAN, NAN, 0.31],
    "without_0_1_training": [-0.01, -0.02, NAN, NAN],  # of the training queries about either
    "without_0_2_training": [-0.03, NAN, -0.04, -0.05],
    "without_1_2_training": [NAN, -0.06, -0.07, -0.08],
}
ARRAYS = {name: np.array(values, dtype=np.float16) for name, values in KEPT.items()}


def test_a_training_query_meets_encoders_that_met_neither_its_topic_nor_the_fold_left_out():
    """Where no fold is left out, the other one is the last, and of the last the one before."""
    known, new = module.cross_fitted(Seven, ARRAYS)
    np.testing.assert_allclose(known, [0.1, 0.2, 0.3, -0.03, -0.06, -0.07, -0.08], atol=1e-3)
    np.testing.assert_allclose(new[0], [0.11, 0, 0, 0, -0.02, -0.04, -0.05], atol=1e-3)
    np.testing.assert_allclose(new[1], [0, 0.21, 0, -0.01, 0, -0.07, -0.08], atol=1e-3)
    np.testing.assert_allclose(new[2], [0, 0, 0.31, -0.03, -0.06, 0, 0], atol=1e-3)


def test_a_cosine_that_is_missing_where_there_must_be_one_is_no_zero():
    name = "without_1_2_training"
    values = ARRAYS[name].copy()
    values[1] = NAN
    with pytest.raises(ValueError, match=f"{name}: 1 of . pairs have no cosine"):
        module.cross_fitted(Seven, ARRAYS | {name: values})
