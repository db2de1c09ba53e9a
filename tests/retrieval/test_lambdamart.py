"""LambdaMART: what it learns, and what must not show in its predictions."""

import numpy as np
import pandas as pd
import pytest

from lib.retrieval import lambdamart
from lib.retrieval.lambdamart import LambdaMART, train
from lib.retrieval.stores import rank_pairs


def make_task(seed: int = 0, n_collections: int = 30):
    """(pairs, features, relevant, collections), of four queries a collection with twelve candidates each: `signal` and
    store 2 are relevant, `lure` is noise."""
    rng, row = np.random.default_rng(seed), np.arange(48 * n_collections)
    collection = np.array([f"c{i // 48}" for i in row])
    pairs = pd.DataFrame({"query": [f"q{i // 12}" for i in row], "query_row": row // 12})
    pairs["item"] = [f"c{i // 48}-i{i % 12}" for i in row]
    features = pd.DataFrame({"signal": rng.normal(size=len(row)), "lure": rng.normal(size=len(row))})
    features["store"] = rng.integers(0, 4, size=len(row))
    merit = features["signal"] + 2.0 * (features["store"] == 2) + 0.3 * rng.normal(size=len(pairs))
    relevant = merit.groupby(pairs["query"]).rank(ascending=False).to_numpy() <= 2
    return pairs, features, relevant, collection


def fit(pairs, features, relevant, collections, seed=0, threads=1, **how) -> LambdaMART:
    return train(pairs, features, relevant, collections, ["store"], cutoff=5, seed=seed, threads=threads, **how)


@pytest.fixture(scope="module")
def task():
    return make_task()


@pytest.fixture(scope="module")
def model(task):
    return fit(*task)


def recall_at_2(pairs, scores, relevant) -> float:
    run = rank_pairs(pairs, scores)
    top = run[run["rank"] <= 2].merge(pairs.assign(relevant=relevant), on=["query", "item"])
    return float(top["relevant"].sum() / relevant.sum())


def test_it_learns_what_there_is_to_learn(model):
    pairs, features, relevant, _ = make_task(seed=1)
    assert recall_at_2(pairs, model.predict(features), relevant) > 0.75
    assert recall_at_2(pairs, features["signal"].to_numpy(), relevant) < 0.6


def test_the_order_of_rows_does_not_matter(task, model):
    pairs, features, relevant, collections = task
    rows = np.random.default_rng(0).permutation(len(pairs))
    mixed = fit(pairs.iloc[rows], features.iloc[rows], relevant[rows], collections[rows])
    assert mixed.text == model.text
    np.testing.assert_array_equal(mixed.predict(features.iloc[rows]), model.predict(features)[rows])


def test_the_same_seed_gives_the_same_model_whatever_the_threads(task, model):
    assert fit(*task, seed=5).text != model.text
    tiny = make_task(n_collections=4)
    np.testing.assert_allclose(fit(*tiny, threads=2).predict(tiny[1]), fit(*tiny).predict(tiny[1]), rtol=1e-9)


def test_columns_may_stand_in_any_order_but_must_be_there(task, model):
    features = task[1]
    again = LambdaMART.from_text(model.text)
    assert again.columns == model.columns == list(features)
    np.testing.assert_array_equal(again.predict(features[features.columns[::-1]]), model.predict(features))
    np.testing.assert_array_equal(model.predict(features.to_numpy()[3:7]), model.predict(features[3:7]))
    with pytest.raises(KeyError, match="store"):
        model.predict(features.drop(columns="store"))


@pytest.mark.parametrize("name", ["time [s]: day", 0])
def test_a_feature_may_have_any_name(task, model, name):
    """LightGBM would write time_of_day, and take neither brackets nor numbers."""
    pairs, features, *rest = task
    renamed = features.rename(columns={"signal": name})
    other = fit(pairs, renamed, *rest)
    assert other.columns == [str(name), "lure", "store"]
    np.testing.assert_array_equal(other.predict(renamed), model.predict(features))


def test_a_rising_feature_never_lowers_a_score(task):
    """The larger the signal, the worse: what may only rise is of no use then, and no score falls with it."""
    pairs, features, relevant, collections = task
    falling = features.assign(signal=-features["signal"])
    free, model = (fit(pairs, falling, relevant, collections, rising=names) for names in ((), ["signal"]))
    rows = falling.iloc[:50]
    change = model.predict(rows.assign(signal=rows["signal"] + 1)) - model.predict(rows)
    assert (change >= 0).all()
    assert (free.predict(rows.assign(signal=rows["signal"] + 1)) < free.predict(rows)).any()


def test_what_cannot_be_learned_is_said(task, monkeypatch):
    pairs, features, relevant, collections = task
    with pytest.raises(ValueError, match="store is categorical"):  # it would end the process
        fit(*task, rising=["lure", "store"])
    for name in ("lure", ""):
        with pytest.raises(ValueError, match="a name of its own"):
            fit(pairs, features.rename(columns={"signal": name}), relevant, collections)
    with pytest.raises(ValueError, match="no column sginal"):  # it would not rise
        fit(*task, rising=["sginal"])
    with pytest.raises(ValueError, match=r"1 or 0, not .*-1"):  # -1 would be relevant, too
        fit(pairs, features, np.where(relevant, 1, -1), collections)
    with pytest.raises(ValueError, match="two collections"):
        fit(pairs, features, relevant, np.full(len(pairs), "only"))
    with pytest.raises(ValueError, match="same length"):
        fit(pairs, features, relevant[1:], collections)
    monkeypatch.setattr(lambdamart, "MOST_ITEMS", 11)
    with pytest.raises(ValueError, match="q0 has 12 items"):
        fit(*task)
