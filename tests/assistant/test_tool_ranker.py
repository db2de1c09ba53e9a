"""LambdaMART over tools, in a world where the need tells half of the answer and the retrieved item's app the rest."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from lib.assistant.controls import reverse
from lib.assistant.tool_ranker import (
    DEALT,
    NO_FOLD,
    OTHER,
    RankerTask,
    context_features,
    control_runs,
    known_needs_ranker,
    known_needs_run,
    labels_dealt_anew,
    lessons_of_other_needs,
    lessons_of_training,
    others_features,
    ranked_rows,
    run_by,
    training_run,
    unseen_needs_run,
    unseen_runs,
    weigh_controls,
)
from lib.assistant.tool_retrieval import ToolTask
from lib.assistant.tool_search import runs_of_plans, tool_scores
from lib.evaluation.inference import Resampling
from lib.retrieval.lambdamart import LambdaMART
from lib.retrieval.stores import relevant_pairs_mask

APPS = ["calendar", "mail", "music", "notes"]
NEEDS = [f"need {n}" for n in range(6)]
N_TRAINING, N_QUERIES = 240, 300


def make_task():
    """Each need is served by one tool of each app; the app of a query's item, drawn at random, decides which."""
    rng = np.random.default_rng(3)
    need, app = rng.integers(6, size=N_QUERIES), rng.integers(4, size=N_QUERIES)
    names = [f"q{n:03}" for n in range(N_QUERIES)]
    queries = pd.DataFrame(
        {
            "query": names,
            "text": "who",
            "split": ["training"] * N_TRAINING + ["evaluation"] * (N_QUERIES - N_TRAINING),
            "persona": [f"p{n // 3:03}" for n in range(N_QUERIES)],
            "need": [NEEDS[n] for n in need],
            "kind": "habit",
        }
    )
    tools = pd.DataFrame([(f"{app}_{n}", app, f"{app} {n}") for app in APPS for n in range(6)])
    tools.columns = ["item", "app", "text"]
    gold = pd.DataFrame({"query": names, "item": [f"{APPS[a]}_{n}" for a, n in zip(app, need, strict=True)]})
    context = pd.DataFrame({"query": names, "item": [f"i{n}" for n in range(N_QUERIES)], "rank": 1})
    items = pd.DataFrame({"item": context["item"], "app": [APPS[a] for a in app]})
    vectors = np.eye(8, dtype=np.float32)[need]
    task = ToolTask(queries, tools, gold, gold.assign(item=[APPS[a] for a in app]), {})
    return task, context, items, vectors


@pytest.fixture(scope="module")
def world():
    task, context, items, vectors = make_task()
    phrasing = pd.Series([f"{n % 40}" for n in range(N_QUERIES)], index=task.queries["query"])
    tool_vectors = np.full((24, 8), 8**-0.5, dtype=np.float32)
    ranking = RankerTask.of(task, phrasing, vectors, tool_vectors, cutoff=3, seed=7)
    item_vectors = np.zeros((N_QUERIES, 8), dtype=np.float32)
    return ranking, context_features(ranking, context, items, item_vectors, tool_vectors)


def recall(ranking, runs, k=3):
    names = ranking.task.evaluated["query"].tolist()
    return tool_scores(runs, ranking.task, names, [k]).mean().xs("recall", level="metric").droplevel("k")


def test_context_is_what_the_need_leaves_open(world):
    ranking, told = world
    lessons = lessons_of_training(ranking)
    contexts = {"query_only": None, "query_plus_context": told}
    known = {f"{name}/lambdamart": known_needs_run(lessons, context) for name, context in contexts.items()}
    runs = known | unseen_runs(ranking, contexts)
    found = recall(ranking, runs, k=1)
    assert found["query_plus_context/lambdamart"] > 90
    assert found["query_only/lambdamart"] < 50, "one of four apps"
    # On needs not learned from, context still tells the app, one of its six tools; that other needs' plans never call
    # the right one must not give it away.
    assert found["query_plus_context/lambdamart_unseen"] < 50
    for run in runs.values():
        assert set(run["query"]) == set(ranking.task.evaluated["query"])
        assert (run.groupby("query").size() == 24).all()
    again = known_needs_run(lessons_of_training(ranking), told)
    pd.testing.assert_frame_equal(again, runs["query_plus_context/lambdamart"])
    kept = LambdaMART.from_text(known_needs_ranker(lessons, told).text_to_rank)
    pd.testing.assert_frame_equal(run_by(kept, lessons, told), again)


def test_another_querys_context_gains_nothing(world):
    """The need leaves four tools, of which three are taken: in one draw of 60 queries chance alone moves the difference
    by about 8 points, hence the mean of eight."""
    ranking, told = world
    alone, others = [], []
    for seed in range(8):
        lessons = lessons_of_training(replace(ranking, seed=seed))
        other, dealt = control_runs(lessons, told, draws=0)
        found = recall(ranking, {"alone": known_needs_run(lessons, None), "other": other})
        alone.append(found["alone"])
        others.append(found["other"])
        assert dealt == []
    assert np.mean(others) < np.mean(alone) + 8
    assert np.mean(others) == pytest.approx(75, abs=8)


def test_labels_dealt_anew_teach_nothing(world):
    """By the query alone: context is one number here, and chance may take its side."""
    ranking, _ = world
    floor = 100 * 3 / 24
    dealt = [labels_dealt_anew(ranking, draw) for draw in range(4)]
    runs = {f"dealt {n}": known_needs_run(lessons_of_training(part), None) for n, part in enumerate(dealt)}
    assert recall(ranking, runs).mean() == pytest.approx(floor, abs=10)
    assert recall(ranking, {"true": known_needs_run(lessons_of_training(ranking), None)})["true"] > floor + 30
    for part in dealt:
        size = part.task.gold["query"].value_counts()
        pd.testing.assert_series_equal(size.sort_index(), ranking.task.gold["query"].value_counts().sort_index())
        asked = ranking.task.evaluated["query"]
        before, after = (gold[gold["query"].isin(asked)].set_index("query")["item"] for gold in (
            ranking.task.gold, part.task.gold
        ))  # fmt: skip
        pd.testing.assert_series_equal(before.sort_index(), after.sort_index(), check_index_type=False)


def test_a_label_that_came_through_is_not_passed_over(world):
    """True labels in the place of permuted ones: far more than halfway to the reverse, and the control fails."""
    ranking, told = world
    lessons = lessons_of_training(ranking)
    run = known_needs_run(lessons, told)
    resampling = Resampling(ranking.task.units, 50, 7)
    alone = "alone", np.full(N_QUERIES - N_TRAINING, 75.0)
    weighed = weigh_controls(ranking.task, run, [run, run, run], alone, 3, resampling).set_index("control")
    assert not weighed["holds"].any()
    assert weighed.loc[DEALT, "difference"] > 40
    assert weighed.loc[OTHER, "reference_recall"] == 75
    worse = weigh_controls(ranking.task, reverse(run), [reverse(run)], alone, 3, resampling)
    assert worse["holds"].all(), "one-sided"


@pytest.mark.parametrize("n_needs", [1, 2])
def test_a_world_of_few_needs_is_ranked_all_the_same(world, n_needs):
    ranking, told = world
    queries = ranking.task.queries.assign(need=[f"n{n % n_needs}" for n in range(N_QUERIES)])
    few = replace(ranking, task=replace(ranking.task, queries=queries))
    run = unseen_needs_run(lessons_of_other_needs(few), told)
    assert len(run) == 24 * (N_QUERIES - N_TRAINING)
    if n_needs == 1:
        assert (run["score"] == 0).all(), "no other need to learn from"


def test_training_queries_are_ranked_without_their_fold(world):
    """As good rankings as evaluation queries get; other labels of a fold change none of its rankings."""
    ranking, told = world
    lessons = lessons_of_training(ranking)
    run = training_run(lessons, told)
    assert set(run["query"]) == set(ranking.task.queries["query"][ranking.training])
    assert (run.groupby("query").size() == 24).all()
    first = run[run["rank"] == 1].merge(ranking.task.gold.rename(columns={"item": "right"}), on="query")
    assert (first["item"] == first["right"]).mean() > 0.9
    fold = lessons.fold[0]
    there = ranking.task.queries["query"][(lessons.fold == fold) & ranking.training]
    gold = ranking.task.gold.copy()
    gold.loc[gold["query"].isin(there), "item"] = "mail_0"
    changed = replace(ranking, task=replace(ranking.task, gold=gold))
    changed = replace(changed, relevant=relevant_pairs_mask(changed.pairs, gold))
    again = training_run(lessons_of_training(changed), told)
    same = [frame[frame["query"].isin(there)].reset_index(drop=True) for frame in (run, again)]
    pd.testing.assert_frame_equal(*same)


def test_another_querys_context_is_of_the_same_side(world):
    ranking, told = world
    query = ranking.of_pairs(np.arange(N_QUERIES))
    marked = others_features(ranking, told.assign(owner=query, tool=ranking.pairs["item_row"]))
    owner = marked["owner"].to_numpy()
    assert (owner != query).all()
    assert ((owner < N_TRAINING) == (query < N_TRAINING)).all()
    assert (marked["tool"].to_numpy() == ranking.pairs["item_row"]).all()
    assert len(set(owner)) == N_QUERIES


def test_no_label_that_is_asked_for_is_learned_from(world):
    """Other plans for the queries asked, and for those of the fold asked, leave every score as it was."""
    ranking, _ = world
    unseen = lessons_of_other_needs(ranking)
    fold = unseen.fold[N_TRAINING]
    kept_back = ranking.task.queries["query"][(unseen.fold == fold) | ~ranking.training]
    gold = ranking.task.gold.copy()
    gold.loc[gold["query"].isin(kept_back), "item"] = "mail_0"
    changed = replace(ranking, task=replace(ranking.task, gold=gold))
    pd.testing.assert_frame_equal(lessons_of_other_needs(changed).features(fold), unseen.features(fold))
    known = lessons_of_training(ranking).features(NO_FOLD)
    only_asked = ranking.task.gold.copy()
    only_asked.loc[only_asked["query"].isin(ranking.task.evaluated["query"]), "item"] = "mail_0"
    evaluated = replace(ranking, task=replace(ranking.task, gold=only_asked))
    pd.testing.assert_frame_equal(lessons_of_training(evaluated).features(NO_FOLD), known)
    assert known.loc[~ranking.of_pairs(ranking.training), "classifier"].max() > 0


def test_a_training_query_never_teaches_about_itself(world):
    """Its own fold's plans, changed, leave its features as they were; with folds of nothing they would not."""
    ranking, _ = world
    lessons = lessons_of_training(ranking)
    own = lessons.fold == 0
    gold = ranking.task.gold.copy()
    gold.loc[gold["query"].isin(ranking.task.queries["query"][own]), "item"] = "mail_0"
    changed = lessons_of_training(replace(ranking, task=replace(ranking.task, gold=gold))).features(NO_FOLD)
    before, rows = lessons.features(NO_FOLD), ranking.of_pairs(own)
    pd.testing.assert_frame_equal(changed[rows], before[rows])
    assert (changed[~rows] != before[~rows]).any(axis=None)
    assert (lessons.fold[~ranking.training] == NO_FOLD).all()


def test_folds_are_of_what_evaluation_does_not_share(world):
    ranking, _ = world
    assert ranking.kept_apart == "persona", "phrasings recur"
    apart = ranking.phrasing.where(ranking.training, "new")
    assert replace(ranking, phrasing=apart).kept_apart == "phrasing"
    needs = ranking.task.queries.assign(need=np.where(ranking.training, "old", "new"))
    assert replace(ranking, task=replace(ranking.task, queries=needs)).kept_apart == "need"


def test_features_of_context(world):
    ranking, _ = world
    context = pd.DataFrame(
        {"query": ["q001", "q001", "q002"], "item": ["a", "b", "c"], "rank": [1, 2, 1]},
    )
    items = pd.DataFrame({"item": list("abc"), "app": ["mail", "notes", "mail"]})
    item_vectors = np.eye(8, dtype=np.float32)[:3]
    tool_vectors = np.tile(np.eye(8, dtype=np.float32)[:2], (12, 1))  # of tools 0, 2, …: that of item a
    features = context_features(ranking, context, items, item_vectors, tool_vectors)
    pairs = ranking.pairs
    second = features[(pairs["query"] == "q001").to_numpy()].reset_index(drop=True)
    tool = pairs.loc[pairs["query"] == "q001", "item_row"].to_numpy()
    assert second["item_cosine_max_1"].tolist() == [1.0 if row % 2 == 0 else 0.0 for row in tool]
    assert second["item_cosine_max_3"].tolist() == [1.0] * 24
    assert second["item_cosine_mean_3"].tolist() == [0.5] * 24
    app = ranking.task.tools["app"].to_numpy()[tool]
    first, later = 1.0, 1 / np.log2(3)
    assert second["app_mass_5"][app == "mail"].tolist() == pytest.approx([first / (first + later)] * 6)
    assert second["app_mass_5"][app == "notes"].tolist() == pytest.approx([later / (first + later)] * 6)
    assert (second["app_mass_5"][app == "music"] == 0).all()
    assert features[(pairs["query"] == "q000").to_numpy()].isna().all(axis=None), "no context"


def test_ranked_rows_keep_their_ranks():
    context = pd.DataFrame({"query": ["b", "b", "x"], "item": ["j", "i", "i"], "rank": [2, 1, 1]})
    rows = ranked_rows(context, pd.Series(["a", "b"]), pd.Series(["i", "j"]), 3)
    assert rows.tolist() == [[-1, -1, -1], [0, 1, -1]]


def test_unseen_needs_are_those_of_the_classifiers_row(world):
    """The folds are those of `classifier_unseen`, so that both rows have learned from the same queries."""
    ranking, _ = world
    lessons = lessons_of_other_needs(ranking)
    asked, learned = ~ranking.training, ranking.training
    runs = runs_of_plans(ranking.task, ranking.vectors[asked], ranking.vectors[learned], ranking.seed)
    row = runs["query_only/classifier_unseen"].set_index(["query", "item"])["score"]
    for fold in np.unique(lessons.fold[asked]).tolist():
        rows = ranking.of_pairs(asked & (lessons.fold == fold))
        index = pd.MultiIndex.from_frame(ranking.pairs.loc[rows, ["query", "item"]])
        found = lessons.features(fold).loc[rows, "classifier"].to_numpy()
        np.testing.assert_allclose(found, row.reindex(index).to_numpy(), atol=1e-5)
