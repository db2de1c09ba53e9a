"""LambdaMART over tools, in a world where the need tells half of the answer and the retrieved item's app the rest."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from lib.assistant.tool_ranker import NO_FOLD, PlanLessons, RankerTask
from lib.evaluation.ranking import hit_matrix, recall_from_hits

APPS = ["calendar", "mail", "music", "notes"]
NEEDS = [f"need {n}" for n in range(6)]
N_TRAINING, N_QUERIES = 240, 300


def make_task():
    """Each need is served by one tool of each app; the app of a query's item, drawn at random, decides which. With
    what its context says."""
    rng = np.random.default_rng(3)
    need, app = rng.integers(6, size=N_QUERIES), rng.integers(4, size=N_QUERIES)
    names = [f"q{n:03}" for n in range(N_QUERIES)]
    queries = pd.DataFrame({"query": names, "text": "who", "need": np.array(NEEDS)[need]})
    queries["split"] = np.where(np.arange(N_QUERIES) < N_TRAINING, "training", "evaluation")
    queries["persona"] = [f"p{n // 3:03}" for n in range(N_QUERIES)]
    queries["phrasing"] = [f"{n % 40}" for n in range(N_QUERIES)]
    rows = [(f"{app}_{n}", app, f"{app} {n}") for app in APPS for n in range(6)]
    tools = pd.DataFrame(rows, columns=["item", "app", "text"])
    gold = pd.DataFrame({"query": names, "item": [f"{APPS[a]}_{n}" for a, n in zip(app, need, strict=True)]})
    context = pd.DataFrame({"query": names, "item": [f"i{n}" for n in range(N_QUERIES)], "rank": 1})
    items = pd.DataFrame({"item": context["item"], "app": [APPS[a] for a in app]})
    tool_vectors, item_vectors = np.full((24, 8), 8**-0.5, np.float32), np.zeros((N_QUERIES, 8), np.float32)
    task = RankerTask(queries, tools, gold, np.eye(8, dtype=np.float32)[need], tool_vectors, seed=7)
    return task, task.context_features(context, items, item_vectors)


@pytest.fixture(scope="module")
def world():
    return make_task()


def evaluated(task):
    return task.queries["query"][~task.training].tolist()


def recall(task, run, k=3):
    hits, n_relevant = hit_matrix(run, task.gold, evaluated(task), k)
    return 100 * recall_from_hits(hits, n_relevant, k).mean()


def test_context_is_what_the_need_leaves_open(world):
    task, told = world
    known = {name: PlanLessons.of(task).rank(context) for name, context in (("alone", None), ("context", told))}
    new = PlanLessons.of(task, "new").rank(told)
    assert recall(task, known["context"], 1) > 90
    assert recall(task, known["alone"], 1) < 50, "one of four apps"
    # On needs not learned from, context still tells the app, one of its six tools; that other needs' plans never call
    # the right one must not give it away.
    assert recall(task, new, 1) < 50
    for run in (*known.values(), new):
        assert set(run["query"]) == set(evaluated(task))
        assert (run.groupby("query").size() == 24).all()
    pd.testing.assert_frame_equal(PlanLessons.of(task).rank(told), known["context"])


def lied(task, queries):
    """The task with other plans for some queries."""
    gold = task.gold.assign(item=task.gold["item"].mask(task.gold["query"].isin(queries), "mail_0"))
    return replace(task, gold=gold)


def test_no_label_that_is_asked_for_is_learned_from(world):
    """Other plans for the queries asked, and for those of the fold asked, leave every score as it was."""
    task, _ = world
    new = PlanLessons.of(task, "new")
    fold = new.fold[N_TRAINING]
    kept_back = task.queries["query"][(new.fold == fold) | ~task.training]
    changed = PlanLessons.of(lied(task, kept_back), "new")
    pd.testing.assert_frame_equal(changed.features(fold), new.features(fold))
    known = PlanLessons.of(task).features(NO_FOLD)
    pd.testing.assert_frame_equal(PlanLessons.of(lied(task, evaluated(task))).features(NO_FOLD), known)
    assert known.loc[~task.training[task.query_row], "classifier"].max() > 0


def test_a_training_query_never_teaches_about_itself(world):
    """Its own fold's plans, changed, leave its features as they were; with folds of nothing they would not."""
    task, _ = world
    lessons = PlanLessons.of(task)
    own = lessons.fold == 0
    changed = PlanLessons.of(lied(task, task.queries["query"][own])).features(NO_FOLD)
    before, rows = lessons.features(NO_FOLD), own[task.query_row]
    pd.testing.assert_frame_equal(changed[rows], before[rows])
    assert (changed[~rows] != before[~rows]).any(axis=None)
    assert (lessons.fold[~task.training] == NO_FOLD).all()


def test_folds_are_of_what_evaluation_does_not_share(world):
    task, _ = world
    queries, new = task.queries, ~task.training
    for unit in ("persona", "phrasing", "need"):  # each time the coarsest that evaluation does not share
        queries = queries if unit == "persona" else queries.assign(**{unit: queries[unit].where(task.training, "new")})
        fold = pd.Series(PlanLessons.of(replace(task, queries=queries)).fold)
        assert fold.groupby(queries[unit]).nunique().max() == 1
        assert fold[new].eq(NO_FOLD).all()


def test_features_of_context(world):
    task, _ = world
    context = pd.DataFrame({"query": ["q001", "q001", "q002"], "item": ["a", "b", "c"], "rank": [1, 2, 1]})
    items = pd.DataFrame({"item": list("abc"), "app": ["mail", "notes", "mail"]})
    tool_vectors = np.tile(np.eye(8, dtype=np.float32)[:2], (12, 1))  # of tools 0, 2, …: that of item a
    here = replace(task, tool_vectors=tool_vectors)
    features = here.context_features(context, items, np.eye(8, dtype=np.float32)[:3])
    assert features[(task.pairs["query"] == "q000").to_numpy()].isna().all(axis=None), "no context"
    second = features[(task.pairs["query"] == "q001").to_numpy()].set_index(task.tools["app"])
    assert second["item_cosine_max_1"].tolist() == [1.0, 0.0] * 12
    assert second["item_cosine_max_3"].eq(1).all()
    assert second["item_cosine_mean_3"].eq(0.5).all()
    later = 1 / np.log2(3)
    mass = second["app_mass_5"].groupby(level=0).unique().map(list).to_dict()
    expected = {"mail": 1 / (1 + later), "notes": later / (1 + later), "calendar": 0, "music": 0}
    assert mass == {app: pytest.approx([share]) for app, share in expected.items()}


def test_plans_teach_what_training_queries_call_and_nothing_of_tools_never_called(world):
    task, _ = world
    few = replace(task, gold=task.gold.assign(item=task.gold["item"].replace("mail_0", "mail_1")))
    taught = PlanLessons.of(few).without(frozenset())
    called = few.gold[few.gold["query"].isin(few.queries["query"][few.training])]["item"].value_counts()
    shares = pd.Series(taught[:, 1], few.pairs["item"]).groupby(level=0).max()
    np.testing.assert_allclose(shares[called.index], called / N_TRAINING)
    never = (few.pairs["item"] == "mail_0").to_numpy()
    assert not taught[never].any()
    chance = pd.Series(taught[:, 0]).groupby(few.pairs["query_row"].to_numpy()).sum()
    np.testing.assert_allclose(chance, 1)


def test_the_classifier_has_converged_whatever_order_it_saw_the_queries_in(world):
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(N_QUERIES, 48)).astype(np.float32) + 2  # to one side of the origin, as embeddings are
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    once = replace(world[0], vectors=vectors, tool_vectors=vectors[:24])
    again = replace(once, vectors=vectors[::-1], queries=once.queries[::-1].reset_index(drop=True))
    one, other = (PlanLessons.of(task).without(frozenset()).reshape(N_QUERIES, 24, 2) for task in (once, again))
    assert 0 < np.abs(one - other[::-1]).max() < 1e-6
