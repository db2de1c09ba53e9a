"""A linear map is learned where there is something linear to learn."""

import numpy as np
import pandas as pd
import pytest

from lib.retrieval.adapter import Adapting, adapted_cosines, fit_adapter
from lib.retrieval.stores import cosine_of_pairs

SETTINGS = Adapting(epochs=30, learning_rate=3e-2)


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.fixture
def task():
    """Of five items one agrees with the query in four dimensions; the other twelve are noise."""
    rng = np.random.default_rng(0)
    queries = np.concatenate([rng.normal(size=(200, 4)), 2 * rng.normal(size=(200, 12))], axis=1)
    items = np.concatenate([rng.normal(size=(1000, 4)), 2 * rng.normal(size=(1000, 12))], axis=1)
    items[::5, :4] = queries[:, :4]
    pairs = pd.DataFrame({"query_row": np.repeat(np.arange(200), 5), "item_row": np.arange(1000)})
    return pairs, np.arange(1000) % 5 == 0, np.repeat(np.arange(50), 20), unit(queries), unit(items)


def found(scores, rows):
    return (scores.reshape(-1, 5).argmax(axis=1) == 0)[rows].mean()


def test_it_finds_more_for_collections_that_it_never_saw(task):
    pairs, relevant, collections, *vectors = task
    seen = collections < 35
    adapter = fit_adapter(pairs[seen], relevant[seen], collections[seen], *vectors, SETTINGS)
    fresh = slice(140, None)
    before = found(cosine_of_pairs(pairs, *vectors), fresh)
    assert found(adapted_cosines(pairs, *vectors, adapter), fresh) > before + 0.15


def test_labels_of_other_pairs_do_not_matter(task):
    pairs, relevant, collections, *vectors = task
    seen = collections < 35
    other = np.where(seen, relevant, ~relevant)
    maps = [
        fit_adapter(pairs[seen], labels[seen], collections[seen], *vectors, Adapting()) for labels in (relevant, other)
    ]
    np.testing.assert_array_equal(*maps)
    assert not np.allclose(maps[0], np.eye(16), atol=1e-4)


def test_without_pairs_it_changes_nothing(task):
    pairs, relevant, collections, *vectors = task
    adapter = fit_adapter(pairs[:0], relevant[:0], collections[:0], *vectors, Adapting())
    np.testing.assert_array_equal(adapter, np.eye(16))
    same = adapted_cosines(pairs[10:], *vectors, adapter)
    np.testing.assert_allclose(same, cosine_of_pairs(pairs[10:], *vectors), atol=1e-6)
