"""The ranking of context on a small simulated world: what is learned, ranked, fused, cut, and kept."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from lib.assistant import rrf_readings
from lib.assistant.context_scores import EvaluationQueries, RankerScores, compare_told, score_methods
from lib.assistant.controls import LOG_DRAWS, REFERENCES, negative_controls, recall_of_draws, weigh_controls
from lib.assistant.fusion_effects import compare_by_spread, fusions_to_explain, stores_among_first, stores_of
from lib.assistant.ranker_ablation import (
    CROSS_FITTED,
    SEEING,
    TWO_CROSS_FITTED,
    UNLEARNED,
    WITH_FINETUNED,
    folds_of_pairs,
    reduced_rankers,
    told_the_kind,
    unseen_with_cosine,
    unseen_with_encoders,
    with_cross_fitted,
    without_their_needs,
    without_usage,
)
from lib.assistant.ranking_task import KEPT, Learning, RankingTask, lambdamart_runs
from lib.assistant.rrf_readings import STORES, WHOLE
from lib.assistant.second_stage import Setting, TwoStages
from lib.assistant.unseen_needs import ON_ALL_NEEDS, never_told, ranked_everywhere, score_unseen
from lib.assistant.world import frames
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
    recall = {
        name: task.recall_alone(run)["recall@3"].item()
        for name, run in (("seen", seen), ("out of fold", fitted.training["whole"]))
    }
    assert recall["seen"] > recall["out of fold"] + 3
    assert set(fitted.evaluation["whole"]["query"]) == set(task.queries_of("evaluation"))


def test_a_fusion_fuses_what_it_names(readings):
    rankings = readings.evaluation
    pd.testing.assert_frame_equal(FUSION.of(rankings), fuse_runs([rankings[WHOLE], rankings[STORES]], 5, (2, 1)))
    runs = lambdamart_runs(rankings, FUSION)
    pd.testing.assert_frame_equal(runs["rrf_text"], fuse_runs([rankings["bm25t"], rankings["semantic"]]))
    assert runs["lambdamart"] is rankings[WHOLE]


def test_another_encoder_adds_a_feature_and_a_ranking(task):
    vectors = {"items": unit(len(task.items), 2), "queries": unit(len(task.queries), 3)}
    richer = task.with_text("finetuned", vectors)
    assert set(richer.features.columns) - set(task.features.columns) == {"finetuned", "finetuned_rank"}
    assert "finetuned" in richer.rankings(np.zeros(richer.evaluation.sum()), richer.evaluation)
    assert "finetuned" not in task.text


def test_importance_names_every_feature_once_with_its_group(task, fitted):
    weights = task.importance(fitted.ranker)
    assert sorted(weights["feature"]) == sorted(task.features.columns)
    assert weights["mean_abs_shap"].is_monotonic_decreasing
    assert set(weights["group"]) == set(task.groups)


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
        *UNLEARNED,
        *(f"without {group}" for group in task.groups),
    }
    # The encoder is noise here and a habit shows in the log alone.
    assert rankers.recall("lambdamart", "habit") > rankers.recall("text alone", "habit") + 20
    assert rankers.recall("lambdamart", "habit") > rankers.recall("without habitual", "habit") + 20


def test_controls_are_no_better_than_what_they_are_compared_with(task, fitted, rankers):
    controls = negative_controls(task, fitted.ranker, 3)
    assert {name: len(drawn) for name, drawn in controls.items()} == {
        "logs permuted": LOG_DRAWS,
        "labels permuted": 3,
        "moments shuffled": 1,
        "moments shuffled at evaluation only": 1,
        "without habitual, moments shuffled": 1,
        "without habitual, moments shuffled at evaluation only": 1,
    }
    recalls = recall_of_draws(task, controls, 3)
    weighed = weigh_controls(recalls, rankers)
    assert weighed["control"].tolist() == [name for name in REFERENCES for _ in range(2)]
    habit = rankers.asked.of_kind("habit")
    for name in ("logs permuted", "moments shuffled", "labels permuted"):
        assert recalls[name].forward[:, habit].mean() < rankers.recall("lambdamart", "habit") - 20
    assert weighed["difference"].abs().max() < 25


def test_a_ranker_told_the_kind_ranks_every_query(task, fitted, scored):
    told = told_the_kind(task, scored.asked.kinds, fitted.ranker)
    assert list(told) == [f"told: {kind}" for kind in scored.asked.kinds]
    table = compare_told(scored, task.score(told))
    assert table["kind"].tolist() == scored.asked.kinds
    np.testing.assert_allclose(table["told"] - table["lambdamart"], table["told_minus_lambdamart"], atol=1e-9)
    assert (table["told_minus_lambdamart_low"] <= table["told_minus_lambdamart_high"]).all()


def test_a_kind_that_one_persona_alone_asks_about_gets_the_ranker_of_all(task, fitted):
    (run,) = told_the_kind(task, ["no such kind"], fitted.ranker).values()
    pd.testing.assert_frame_equal(run, fitted.evaluation["whole"])


def test_held_out_needs_are_kept_from_the_ranker(task, fitted, scored):
    assert 0 < len(task.held_out_needs) < task.gold["need"].nunique()
    fresh = without_their_needs(
        TwoStages.of(task, unit(len(task.items), 0)), {"lambdamart_2": Setting(leaves=7)}, FUSION.rankings
    )
    assert not fresh["whole"].equals(fitted.evaluation["whole"])
    # On the held-out needs it is the ranker that learned from all others.
    about = task.pairs["query"].map(task.gold.set_index("query")["need"]).isin(task.held_out_needs).to_numpy()
    alone = task.rank(task.learn(rows=task.training & ~about))
    queries = task.pairs["query"][task.evaluation & about].unique()
    runs = [run[run["query"].isin(queries)].set_index(["query", "rank"])["item"] for run in (fresh["whole"], alone)]
    pd.testing.assert_series_equal(runs[0].sort_index(), runs[1].sort_index())
    runs = lambdamart_runs(fresh, FUSION) | {"lambdamart_2": fresh["lambdamart_2"]}
    unseen = score_unseen(scored, task.held_out_needs, runs, task.qrels)
    assert unseen.methods == ["random", "lambdamart", "rrf_text", "lambdamart_rrf", "lambdamart_2"]
    assert unseen.needs == task.held_out_needs & set(scored.asked.need)
    assert len(unseen.kind) == np.isin(scored.asked.need, list(task.held_out_needs)).sum()
    every = score_unseen(scored, set(scored.asked.need), runs, task.qrels)
    assert len(every.kind) == len(scored.asked.names)


def test_rankings_of_a_writer_that_met_other_needs_do_not_pass_for_new_ones(task, scored):
    """Search with chains of thought of Table 2 did not meet the held-out needs, but all others: only rankings by
    writers of all folds stand on all needs, and what they lose is shown there alone."""
    run = task.rank_by(np.where(task.relevant, 1.0, 0.0))
    name = "cot_distilled"
    assert never_told({name: run}) == {}
    some = never_told({name: run, f"{name}_unseen_needs": run.head(3)})
    assert len(some[name]) == 3
    assert ranked_everywhere(some, scored.asked.names) == {}
    assert list(ranked_everywhere({name: run}, scored.asked.names)) == [name]
    richer = replace(scored, scores=scored.scores.join(task.score({name: run})))
    fresh = {name: run}
    held_out = score_unseen(richer, task.held_out_needs, fresh, task.qrels)
    assert name not in held_out.changes.index
    every = score_unseen(richer, set(scored.asked.need), fresh, task.qrels, ON_ALL_NEEDS)
    assert every.changes.loc[name, "difference"] == 0


def test_a_ranker_with_a_cosine_meets_no_need_that_it_is_asked_about(task, scored, monkeypatch):
    """In each fold it sees that fold's cosines, and learns from queries about other folds' needs."""
    fold = folds_of_pairs(task)
    numbers = [int(number) for number in np.unique(fold[task.evaluation])]
    cosines = {number: np.where(task.relevant, 1.0, 0.0) for number in numbers}  # tells all there is to find
    learned = []

    def learn(self, columns=None, rows=None, **rest):
        learned.append((rows, self.text["finetuned"]))
        return original(self, columns, rows, **rest)

    original = RankingTask.learn
    monkeypatch.setattr(RankingTask, "learn", learn)
    run = unseen_with_cosine(task, cosines)
    for number, (rows, cosine) in zip(numbers, learned, strict=True):
        np.testing.assert_array_equal(rows, task.training & (fold != number))
        assert cosine is cosines[number]
    assert sorted(run["query"].unique()) == sorted(scored.asked.names)
    assert task.score({"told": run})["told", "recall", 3].mean() > 90
    assert ranked_everywhere({WITH_FINETUNED: run.head(9)}, scored.asked.names) == {}
    richer = replace(scored, scores=scored.scores.join(task.score({WITH_FINETUNED: run})))
    unseen = score_unseen(richer, set(scored.asked.need), {WITH_FINETUNED: run}, task.qrels)
    assert unseen.methods == ["random", WITH_FINETUNED]
    assert unseen.changes.loc[WITH_FINETUNED, "difference"] == 0


def test_rankers_with_encoders_see_the_cosines_of_their_own_regime(task, fitted):
    """With nothing to see, none is ranked; else each finds by its own cosine what that one tells."""
    two = TwoStages.of(task, unit(len(task.items), 0))
    setting, blank = Setting((), False, 1, 7), np.zeros(len(task.pairs))
    nothing = SimpleNamespace(folds=[], without={}, cross_fitted=None, cross_fitted_without={})
    assert with_cross_fitted(two, setting, fitted.scores, nothing) == {}
    assert unseen_with_encoders(two, setting, nothing) == {}
    told = task.relevant.astype(float)
    folds = np.unique(folds_of_pairs(task)).tolist()
    some = SimpleNamespace(
        folds=folds,
        without=dict.fromkeys(folds, blank),
        cross_fitted=told,
        cross_fitted_without=dict.fromkeys(folds, told),
    )
    known, fresh = with_cross_fitted(two, setting, fitted.scores, some), unseen_with_encoders(two, setting, some)
    assert set(known) == {CROSS_FITTED, TWO_CROSS_FITTED}
    assert set(fresh) == set(SEEING)
    found = {name: task.score({"run": run})["run", "recall", 3].mean() for name, run in fresh.items()}
    for name, run in known.items():
        assert task.score({"run": run})["run", "recall", 3].mean() > 90
        assert found[name] > 90
    assert found[WITH_FINETUNED] < 80


def test_stores_are_counted_query_by_query():
    store = pd.Series({"a": "notes", "b": "notes", "c": "music"})
    run = pd.DataFrame({"query": ["p", "p", "p", "q", "q"], "item": ["a", "b", "c", "c", "a"], "rank": [1, 2, 3, 1, 2]})
    assert stores_of(run, store).to_dict() == {"p": 2, "q": 2}
    assert stores_among_first(run, store, 2) == 1.5


def test_fusion_is_compared_where_relevant_items_lie_in_one_app_and_in_several(task, scored):
    apps = stores_of(task.qrels[task.qrels["query"].isin(scored.asked.names)], task.store)
    tests = compare_by_spread(scored, apps)
    assert tests["group"].tolist() == ["one app", "several apps"]
    assert tests["n"].tolist() == [(apps == 1).sum(), (apps > 1).sum()]


def test_fusions_to_explain_stand_in_the_order_of_the_table(variants, readings):
    usage, text = variants["without text"], variants["text alone"]
    runs = fusions_to_explain(usage, text, readings.evaluation, [1, 60])
    assert list(runs) == [
        "usage alone",
        "text alone",
        "usage alone + text alone, fused, k = 1",
        "usage alone + text alone, fused, k = 60",
        "all features, not fused",
        "all features + one ranker a store, fused, k = 1",
        "all features + one ranker a store, fused, k = 60",
        "all features + semantic search, fused, k = 1",
        "all features + semantic search, fused, k = 60",
    ]
    pd.testing.assert_frame_equal(runs["usage alone + text alone, fused, k = 60"], fuse_runs([usage, text], 60))
