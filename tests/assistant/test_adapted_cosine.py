"""A cosine for the second stage, from maps that never saw the query's persona or need."""

from dataclasses import replace

import numpy as np
import pytest

from lib.assistant import adapted_cosine
from lib.assistant.adapted_cosine import ENOUGH, AdaptedCosines
from lib.assistant.ranker_ablation import folds_of_pairs, without_their_needs
from lib.assistant.second_stage import FOLDS, TwoStages
from tests.assistant.test_second_stage import adapted, task, two, world  # noqa: F401


@pytest.fixture
def lessons(monkeypatch):
    """What each map learned from, and all that it was asked, in turn; maps are not learned."""
    seen = []

    def fit(pairs, relevant, collections, *rest):
        seen.append([pairs, [], relevant, rest[-1]])
        return np.full((1, 1), float(len(seen)))

    def cosines(pairs, queries, items, adapter):
        number = int(adapter.item())
        seen[number - 1][1].append(pairs)
        return np.full(len(pairs), float(number))

    monkeypatch.setattr(adapted_cosine, "fit_adapter", fit)
    monkeypatch.setattr(adapted_cosine, "adapted_cosines", cosines)
    return seen


def test_no_map_is_asked_about_what_it_learned_from(task, world, lessons):  # noqa: F811
    learned, cosines = task.training, AdaptedCosines(task, world[1])
    known = cosines.known
    assert len(lessons) == 1 + 2 * 4, "maps for unseen needs are learned when they are asked for"
    need, fold = task.gold.set_index("query")["need"], folds_of_pairs(task)
    final = known[~learned]
    assert (final == final[0]).all()
    (first,) = np.unique(final).astype(int)
    without = cosines.without
    assert len(lessons) == 1 + 5 + 2 * 10, "each pair of folds once"
    used = set(task.pairs["query"][learned])
    for number, (taught, asked, *_) in enumerate(lessons, 1):
        assert set(taught["query"]) <= used
        for pairs in asked:
            assert not set(taught["persona"]) & set(pairs["persona"])
            if number != first:
                assert not set(taught["query"].map(need)) & set(pairs["query"].map(need))
    assert set(lessons[first - 1][0]["query"]) == used
    assert (known > 0).all()
    for number, values in without.items():
        needs = set(need[task.pairs["query"][fold == number]])
        assert (values[learned & (fold != number)] > 0).all()
        for place in np.unique(values[values > 0]).astype(int) - 1:
            assert not set(lessons[place][0]["query"].map(need)) & needs
        assert not values[learned & (fold == number)].any()
    assert {settings.seed for *_, settings in lessons} == {task.learning.seed}


def test_where_too_few_personas_are_left_the_cosine_says_nothing(task, world):  # noqa: F811
    for number, says in ((ENOUGH - 1, False), (ENOUGH, True)):
        side = np.where(
            task.queries["persona"].isin([f"p{person}" for person in range(number)]), "training", "evaluation"
        )
        cosines = AdaptedCosines(replace(task, queries=task.queries.assign(split=side)), world[1])
        assert cosines.known.any() == says
        assert (cosines.adapter == np.eye(len(cosines.adapter))).all() != says
    assert ENOUGH == 2 * FOLDS


def test_on_unseen_needs_the_stage_sees_what_learned_nothing_of_them(task, two, monkeypatch):  # noqa: F811
    """The cosines of each fold of needs go to the queries about that fold alone."""
    fold, seen = folds_of_pairs(task), []
    cosines = {int(number): np.full(len(task.pairs), float(number)) for number in np.unique(fold)}

    def second_without(self, first, learned, asked):
        assert set(self.cosine) == set(fold[asked])
        assert not set(self.cosine) & set(fold[learned])
        seen.append(asked.sum())
        return np.zeros(asked.sum())

    monkeypatch.setattr(TwoStages, "second_without", second_without)
    assert "lambdamart_2" in without_their_needs(two, cosines)
    assert sum(seen) == task.evaluation.sum()
