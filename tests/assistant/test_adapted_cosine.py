"""A cosine for the second stage, from maps that never saw the query's persona or need."""

import numpy as np
import pandas as pd
import pytest

from lib.assistant import adapted_cosine
from lib.assistant.adapted_cosine import ROWS, cross_fitted, evaluation_shuffled, scores_seeing, seeing, what_it_adds
from lib.assistant.ranker_ablation import TWO_SEEING, folds_of_pairs, without_their_needs
from tests.assistant.test_second_stage import fitted, second, task, two, world  # noqa: F401


@pytest.fixture
def lessons(monkeypatch):
    """What each map learned from and was asked, in turn; maps are not learned."""
    seen = []

    def fit(pairs, relevant, collections, *rest):
        seen.append([pairs, None])
        return np.eye(rest[0].shape[1])

    def cosines(pairs, queries, items, adapter):
        seen[-1][1] = pairs
        return np.full(len(pairs), float(len(seen)))

    monkeypatch.setattr(adapted_cosine, "fit_adapter", fit)
    monkeypatch.setattr(adapted_cosine, "adapted_cosines", cosines)
    return seen


def test_no_map_is_asked_about_what_it_learned_from(task, world, lessons):  # noqa: F811
    adapted = cross_fitted(task, world[1])
    need = task.gold.set_index("query")["need"]
    fold = folds_of_pairs(task)
    held = set(task.queries_of("evaluation"))
    for learned, asked in lessons:
        assert not set(learned["persona"]) & set(asked["persona"])
        assert not set(learned["query"]) & held
    # The one for known needs comes first; all others have not met the need.
    for learned, asked in lessons[1:]:
        assert not set(learned["query"].map(need)) & set(asked["query"].map(need))
    assert (adapted.known > 0).all()
    assert (adapted.known[task.evaluation] == 1).all()
    for number, values in adapted.without.items():
        needs = set(need[task.pairs["query"][fold == number]])
        used = values[task.training & (fold != number)]
        assert (used > 0).all()
        for place in np.unique(values[values > 0]).astype(int) - 1:
            assert not set(lessons[place][0]["query"].map(need)) & needs
        assert not values[task.training & (fold == number)].any()
    assert (adapted.unseen(task)[task.evaluation] > 1).all()


def oracle(task):  # noqa: F811
    """Cosines that know the labels of known needs and nothing of others."""
    rng = np.random.default_rng(0)
    noise = rng.normal(size=len(task.pairs))
    told = task.relevant + 0.01 * noise
    return adapted_cosine.AdaptedCosines(told, {int(number): noise for number in np.unique(folds_of_pairs(task))})


def test_what_a_cosine_adds_and_what_a_shuffled_one_does(task, two, second, fitted):  # noqa: F811
    adapted = oracle(task)
    stages = {number: seeing(two, cosines) for number, cosines in adapted.without.items()}
    fresh = without_their_needs(two, second.choice.setting, seeing=stages)
    assert set(fresh[TWO_SEEING]["query"]) == set(task.queries_of("evaluation"))
    scores = scores_seeing(two, second, fitted.scores, adapted.known)
    shuffled = evaluation_shuffled(two, second, fitted.scores, adapted.known)
    gains = what_it_adds(two, second, scores, shuffled, fresh, adapted).set_index("queries")
    assert gains.index.tolist() == list(ROWS)
    assert gains["n"].tolist() == [len(task.queries_of("training")), *[len(task.queries_of("evaluation"))] * 5]
    np.testing.assert_allclose(gains["with"] - gains["without"], gains["difference"])
    assert gains["with"].iloc[[0, 1, 4]].min() > 95  # told the labels
    assert gains["difference"].iloc[[2, 3]].abs().max() < 15  # told nothing
    assert gains["difference"].iloc[5] < 0
    assert isinstance(fresh[TWO_SEEING], pd.DataFrame)
