"""The ranking of context on a small simulated world: what is learned, ranked, fused, cut, and kept."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from lib.assistant import rrf_readings
from lib.assistant.context_scores import EvaluationQueries, RankerScores, score_methods
from lib.assistant.controls import LOG_DRAWS, REFERENCES, negative_controls, recall_of_draws, weigh_controls
from lib.assistant.ranker_ablation import (
    TWO_CROSS_FITTED,
    encoder_without_their_needs,
    folds_of_pairs,
    reduced_rankers,
    with_encoder,
    without_their_needs,
    without_usage,
)
from lib.assistant.ranking_task import KEPT, Learning, RankingTask, lambdamart_runs
from lib.assistant.rrf_readings import STORES, WHOLE
from lib.assistant.second_stage import TwoStages
from lib.assistant.unseen_needs import score_unseen, summarise_unseen
from lib.assistant.world import frames
from lib.evaluation.comparison import per_query_scores
from lib.retrieval.fusion import Fusion, fuse_runs

CUTOFFS = [3, 10]
FUSION = Fusion((WHOLE, STORES), 5, (2.0, 1.0))


def unit(rows, seed):
    vectors = np.random.default_rng(seed).normal(size=(rows, 8))
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.fixture(scope="module")
def task(make_world):
    world = frames(make_world(seed=3, n_personas=40, n_training_queries=150, n_evaluation_queries=60))
    vectors = {"items": unit(len(world["items"]), 0), "queries": unit(len(world["queries"]), 1)}
    return RankingTask.of_world(world, vectors, Learning(CUTOFFS, seed=7, folds=2))


@pytest.fixture(scope="module")
def fitted(task):
    return task.fit()


@pytest.fixture(scope="module")
def readings(task, fitted):
    return rrf_readings.fit(task, fitted, [STORES])


@pytest.fixture(scope="module")
def scored(task, readings):
    asked = EvaluationQueries.of_world(task.queries, task.gold, task.queries_of("evaluation")[:20])
    candidates = task.pairs.groupby("query").size()[asked.names]
    runs = {"semantic": readings.evaluation["semantic"]} | lambdamart_runs(readings.evaluation, FUSION)
    return score_methods(asked, runs, {}, candidates, task.qrels, CUTOFFS, asked.resampling(100, 7))


@pytest.fixture(scope="module")
def variants(task):
    return {"lambdamart_no_usage": without_usage(task)} | reduced_rankers(task)


@pytest.fixture(scope="module")
def rankers(task, scored, variants):
    return RankerScores.beside_methods(scored, ["lambdamart", "semantic", "random"], task.score(variants))


def test_sides_are_whole_personas_and_every_candidate_is_of_its_persona(task):
    assert task.training.sum() + task.evaluation.sum() == len(task.pairs)
    assert not set(task.persona[task.training]) & set(task.persona[task.evaluation])
    assert (task.pairs["item"].map(task.items.set_index("item")["persona"]) == task.persona).all()
    assert task.relevant.sum() == len(task.qrels)


def test_a_fit_ranks_training_queries_by_rankers_that_did_not_see_them(task, fitted):
    assert set(fitted.training) == set(fitted.evaluation) == {"whole", "bm25t", "semantic"}
    seen = task.rankings(fitted.ranker.predict(task.features[task.training]), task.training)["whole"]
    runs = {"seen": seen, "out of fold": fitted.training["whole"]}
    recall = per_query_scores(runs, task.qrels, task.queries_of("training"), [3]).mean()
    assert recall["seen", "recall", 3] > recall["out of fold", "recall", 3] + 3
    assert set(fitted.evaluation["whole"]["query"]) == set(task.queries_of("evaluation"))


def test_a_fusion_fuses_what_it_names(readings):
    rankings = readings.evaluation
    pd.testing.assert_frame_equal(FUSION.of(rankings), fuse_runs([rankings[WHOLE], rankings[STORES]], 5, (2, 1)))
    runs = lambdamart_runs(rankings, FUSION)
    pd.testing.assert_frame_equal(runs["rrf_text"], fuse_runs([rankings["bm25t"], rankings["semantic"]]))
    assert runs["lambdamart"] is rankings[WHOLE]


def test_what_is_kept_holds_every_query_once_a_method(task, fitted, readings):
    kept = task.rankings_to_keep(readings, FUSION, fitted.scores, {})
    assert list(kept) == ["method", "query", "item", "rank", "score"]
    assert kept["rank"].max() == KEPT
    assert not kept.duplicated(["method", "query", "rank"]).any()
    for _, part in kept.groupby("method"):
        assert set(part["query"]) == set(task.queries["query"])
    # Given the first stage's scores as the second's, both ranked the same.
    ours, first = (kept[kept["method"] == name].set_index(["query", "rank"])["item"] for name in
                   ("lambdamart_2", "lambdamart"))  # fmt: skip
    pd.testing.assert_series_equal(ours.sort_index(), first.sort_index())
    more = task.rankings_to_keep(readings, FUSION, fitted.scores, {"more": fitted.evaluation["whole"]})
    pd.testing.assert_frame_equal(more[more["method"] != "more"], kept)
    assert set(more.loc[more["method"] == "more", "query"]) == set(task.queries_of("evaluation"))


def test_reduced_rankers_see_less(task, variants, rankers):
    assert set(variants) == {
        "lambdamart_no_usage",
        "text alone",
        "items alone (query unseen)",
        *(f"without {group}" for group in task.groups),
    }
    # The encoder is noise here and a habit shows in the log alone.
    assert rankers.recall("lambdamart", "habit") > rankers.recall("text alone", "habit") + 20
    assert rankers.recall("lambdamart", "habit") > rankers.recall("without habitual", "habit") + 20


def test_controls_are_no_better_than_what_they_are_compared_with(task, rankers):
    controls = negative_controls(task, 3)
    assert {name: len(drawn) for name, drawn in controls.items()} == {"logs permuted": LOG_DRAWS, "labels permuted": 3}
    recalls = recall_of_draws(task, controls, 3)
    weighed = weigh_controls(recalls, rankers)
    assert weighed["control"].tolist() == [name for name in REFERENCES for _ in range(2)]
    habit = rankers.asked.of_kind("habit")
    for name in controls:
        assert recalls[name].forward[:, habit].mean() < rankers.recall("lambdamart", "habit") - 20
    assert weighed["difference"].abs().max() < 25


def test_needs_of_a_fold_are_kept_from_its_ranker(task, fitted, scored):
    two = TwoStages.of(task, unit(len(task.items), 0), np.zeros(len(task.pairs)))
    cosines = dict.fromkeys(np.unique(folds_of_pairs(task)).tolist(), two.cosine)
    fresh = without_their_needs(two, cosines, FUSION.rankings)
    assert not fresh["whole"].equals(fitted.evaluation["whole"])
    # On the held-out needs it is the ranker that learned from all others.
    about = task.pairs["query"].map(task.gold.set_index("query")["need"]).isin(task.held_out_needs).to_numpy()
    alone = task.rank(task.learn(rows=task.training & ~about))
    queries = task.pairs["query"][task.evaluation & about].unique()
    runs = [run[run["query"].isin(queries)].set_index(["query", "rank"])["item"] for run in (fresh["whole"], alone)]
    pd.testing.assert_series_equal(runs[0].sort_index(), runs[1].sort_index())
    runs = lambdamart_runs(fresh, FUSION) | {"lambdamart_2": fresh["lambdamart_2"]}
    some = {"finetuned": fresh["whole"].query("query != @queries[0]")}
    unseen = score_unseen(scored, runs | some, task.qrels)
    assert set(unseen.columns.get_level_values("method")) == {"random", "semantic", *runs}, "what ranks every query"
    assert unseen["semantic"].equals(scored.scores["semantic"])
    assert set(summarise_unseen(scored, unseen)["sample"]) == {"unseen_needs"}


def test_a_stage_with_encoders_sees_their_cosines(task, fitted):
    two = TwoStages.of(task, unit(len(task.items), 0), np.zeros(len(task.pairs)))
    nothing = SimpleNamespace(cross_fitted=None, cross_fitted_without={})
    assert with_encoder(two, fitted.scores, nothing) == encoder_without_their_needs(two, nothing) == {}
    told, folds = task.relevant.astype(float), np.unique(folds_of_pairs(task)).tolist()
    some = SimpleNamespace(cross_fitted=told, cross_fitted_without=dict.fromkeys(folds, told))
    for runs in (with_encoder(two, fitted.scores, some), encoder_without_their_needs(two, some)):
        assert task.score({"run": runs[TWO_CROSS_FITTED]})["run", "recall", 3].mean() > 90
