"""A cosine for the second stage, from maps that never saw the query's persona or need."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from lib.assistant import adapted_cosine
from lib.assistant.adapted_cosine import ENOUGH, OF_ENCODERS, ROWS, cross_fitted, what_it_adds
from lib.assistant.controls import evaluation_shuffled
from lib.assistant.ranker_ablation import (
    TWO_WITH_COSINE,
    TWO_WITHOUT_COSINE,
    folds_of_pairs,
    settings_by_name,
    without_their_needs,
)
from lib.assistant.second_stage import FOLDS, Choice, Setting, TwoStages
from tests.assistant.test_second_stage import fitted, recall, second, task, told, two, world  # noqa: F401


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


@pytest.mark.parametrize("half", [False, True])
def test_no_map_is_asked_about_what_it_learned_from(task, world, lessons, half):  # noqa: F811
    """Also where other pairs than those of training queries are learned from."""
    learned = task.training & np.isin(task.persona, [f"p{number}" for number in range(14)]) if half else task.training
    adapted = cross_fitted(task, world[1], learned=learned)
    known = adapted.known
    assert len(lessons) == 1 + 2 * 4, "maps for unseen needs are learned when they are asked for"
    need, fold = task.gold.set_index("query")["need"], folds_of_pairs(task)
    final = known[~learned]
    assert (final == final[0]).all()
    (first,) = np.unique(final).astype(int)
    without, unseen = adapted.without, adapted.unseen
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
    assert (unseen[~learned] > 0).all()
    assert not (unseen == first).any()
    assert not unseen[learned].any()


def test_maps_learn_from_the_labels_given_with_the_seed_of_the_task(task, world, lessons):  # noqa: F811
    labels = ~task.relevant
    _ = cross_fitted(task, world[1], labels).known
    where = {
        (query, item): label for query, item, label in zip(task.pairs["query"], task.pairs["item"], labels, strict=True)
    }
    for taught, _, given, settings in lessons:
        expected = [where[pair] for pair in zip(taught["query"], taught["item"], strict=True)]
        assert given.tolist() == expected
        assert settings.seed == task.learning.seed


def test_where_too_few_personas_are_left_the_cosine_says_nothing(task, two, world, fitted):  # noqa: F811
    few = task.training & np.isin(task.persona, [f"p{number}" for number in range(ENOUGH - 1)])
    adapted = cross_fitted(task, world[1], learned=few)
    assert not adapted.known.any()
    assert not adapted.unseen.any()
    np.testing.assert_array_equal(adapted.adapter, np.eye(len(adapted.adapter)))
    scores = two.seeing(adapted.known).scores_without(Setting(adapted=True), few, task.evaluation)
    assert not np.any(scores)
    assert ENOUGH == 2 * FOLDS
    enough = task.training & np.isin(task.persona, [f"p{number}" for number in range(ENOUGH)])
    assert cross_fitted(task, world[1], learned=enough).known.all()


def oracle(task):  # noqa: F811
    """Cosines that know the labels of known needs and nothing of others."""
    noise = np.random.default_rng(1).normal(size=len(task.pairs))
    without = {int(number): noise for number in np.unique(folds_of_pairs(task))}
    return SimpleNamespace(known=told(task), without=without, unseen=noise)


@pytest.mark.parametrize("ours", [True, False])
def test_what_a_cosine_adds_and_what_a_shuffled_one_does(task, two, fitted, ours):  # noqa: F811
    adapted = oracle(task)
    both, one = two.seeing(adapted.known), Setting(leaves=7, adapted=ours)
    choice = Choice(one, pd.DataFrame(), np.zeros(0), one._replace(top=1, adapted=not ours))
    settings = settings_by_name(choice)
    side = {True: TWO_WITHOUT_COSINE, False: TWO_WITH_COSINE}[ours]
    assert settings == {"lambdamart_2": choice.setting, side: choice.side}
    fresh = without_their_needs(two, settings, cosines=adapted.without)
    assert set(fresh[side]["query"]) == set(task.queries_of("evaluation"))
    scores = {name: both.scores(fitted.scores, setting) for name, setting in settings.items()}
    without, seeing = (side, "lambdamart_2") if ours else ("lambdamart_2", side)
    shuffled = evaluation_shuffled(both, settings[seeing], fitted.scores)
    gains = what_it_adds(task, settings, scores, shuffled, fresh, adapted).set_index("queries")
    assert gains.index.tolist() == list(ROWS)
    assert gains["n"].tolist() == [len(task.queries_of("training")), *[len(task.queries_of("evaluation"))] * 5]
    np.testing.assert_allclose(gains["with"] - gains["without"], gains["difference"])
    assert gains["with"].iloc[[0, 1, 4]].min() > 95  # told the labels
    assert gains["difference"].iloc[[2, 3]].abs().max() < 15  # told nothing
    assert gains["difference"].iloc[5] < 0
    assert gains.loc[ROWS[2], ["without", "with"]].tolist() == [recall(task, fresh[name]) for name in (without, seeing)]
    # Encoders' rankings stand beside the same stages without a cosine: the best possible, a random one, and no change.
    known = task.rank_by(scores[without])
    by_encoders = task.rank_by(told(task)), task.rank_by(np.zeros(len(task.pairs))), known
    more = what_it_adds(task, settings, scores, shuffled, fresh, adapted, by_encoders).set_index("queries")
    assert more.index.tolist() == [*ROWS, *OF_ENCODERS]
    pd.testing.assert_frame_equal(more.loc[list(ROWS)].drop(columns="p_holm"), gains.drop(columns="p_holm"))
    assert (more.loc[list(ROWS), "p_holm"] >= gains["p_holm"]).all(), "a larger family"
    assert more.loc[list(OF_ENCODERS), "with"].tolist() == [recall(task, run) for run in by_encoders]
    expected = [recall(task, run) for run in (known, fresh[without], known)]
    assert more.loc[list(OF_ENCODERS), "without"].tolist() == expected


def test_on_unseen_needs_the_stage_sees_what_learned_nothing_of_them(task, two, monkeypatch):  # noqa: F811
    """The cosines of each fold of needs go to the queries about that fold alone."""
    fold, seen = folds_of_pairs(task), []
    cosines = {int(number): np.full(len(task.pairs), float(number)) for number in np.unique(fold)}

    def second_without(self, first, setting, learned, asked, labels=None):
        assert set(self.cosine) == set(fold[asked])
        assert not set(self.cosine) & set(fold[learned])
        seen.append(setting.adapted)
        return np.zeros(asked.sum())

    monkeypatch.setattr(TwoStages, "second_without", second_without)
    settings = {"lambdamart_2": Setting(adapted=True), TWO_WITHOUT_COSINE: Setting()}
    assert set(settings) < set(without_their_needs(two, settings, cosines=cosines))
    assert seen == [True, False] * len(cosines)
