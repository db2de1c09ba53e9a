"""Target similarity: scores by hand and by brute force, samples, controls, and few-shots of the bounds."""

import numpy as np
import pandas as pd
import pytest

from lib.workflows.apis import Operation
from lib.workflows.few_shots import (
    asked_requests,
    balanced_sample,
    definition_coverage,
    few_shot_scores,
    lexical_shots,
    random_shots,
    ranked_shots,
    scored_pairs,
)

APIS = list("abcdefgh")


def flows_of(number, prefix, seed=0):
    rng = np.random.default_rng(seed)
    apis = [rng.choice(APIS, size=rng.integers(1, 6)).tolist() for _ in range(number)]
    ids = [f"{prefix}-{i}" for i in range(number)]
    return pd.DataFrame({"pair": ids, "request": [f"please {' '.join(names)}" for names in apis], "apis": apis})


@pytest.fixture
def flows():
    return flows_of(15, "test", seed=1)


@pytest.fixture
def training():
    return flows_of(80, "training")


@pytest.fixture
def mined(training):
    rng = np.random.default_rng(2)
    a, b = np.triu_indices(40, k=1)
    names = training["pair"].to_numpy()
    return pd.DataFrame({"a": names[a], "b": names[b], "positive": rng.random(len(a)) < 0.2})


# ---------------------------------------------------------------- pairs to tune on


def test_samples_are_balanced_and_nested_and_do_not_depend_on_the_order(mined):
    small, large = (balanced_sample(mined, size, seed=3) for size in (31, 100))
    assert (len(small), small["positive"].sum()) == (31, 15)
    assert (len(large), large["positive"].sum()) == (100, 50)
    assert set(small.index) < set(large.index)
    shuffled = balanced_sample(mined.sample(frac=1, random_state=0), 31, seed=3)
    assert set(shuffled.index) == set(small.index)
    assert set(balanced_sample(mined, 31, seed=4).index) != set(small.index)
    every = balanced_sample(mined, 10_000, seed=3)
    assert set(every.index) == set(mined.index), "where one kind runs short, all of it"


def test_scored_pairs_hold_both_requests_and_the_similarity_of_their_flows(mined, training):
    rows = scored_pairs(mined, training.sample(frac=1, random_state=1))
    by_id = training.set_index("pair")
    for i in (0, 7, len(rows) - 1):
        one, other = by_id.loc[mined["a"].iloc[i]], by_id.loc[mined["b"].iloc[i]]
        assert rows.loc[i, ["sentence1", "sentence2"]].tolist() == [one["request"], other["request"]]
        left, right = set(one["apis"]), set(other["apis"])
        assert rows["score"][i] == len(left & right) / len(left | right)
    assert (rows["positive"].to_numpy() == mined["positive"].to_numpy()).all()
    assert scored_pairs(mined.iloc[:0], training).empty


# ---------------------------------------------------------------- few-shots


def test_random_shots_are_distinct_and_seeded_by_the_flow(flows, training):
    shots = random_shots(flows, training, 10, seed=0)
    assert shots.groupby("pair")["shot"].nunique().eq(10).all()
    part = random_shots(flows.iloc[3:5], training, 10, seed=0)
    assert part["shot"].tolist() == shots[shots["pair"].isin(part["pair"])]["shot"].tolist()
    assert len(random_shots(flows, training.iloc[:4], 10, seed=0)) == 4 * len(flows)


def test_scores_of_few_shots_by_hand():
    flows = pd.DataFrame({"pair": ["x", "y"], "apis": [["a", "b", "c"], ["d"]]})
    training = pd.DataFrame({"pair": ["p", "q", "r"], "apis": [["a", "b"], ["c", "a", "b", "z"], ["d", "d"]]})
    shots = ranked_shots(flows["pair"], training["pair"], np.array([[0, 1, 2], [0, 2, 1]]))
    scores = few_shot_scores(shots, flows, training, [1, 2, 3]).set_index(["pair", "k", "metric"])["value"]
    expected = {
        ("x", 1): {"jaccard": 2 / 3, "lcs": 2 / 3, "coverage": 2 / 3},
        ("x", 2): {"jaccard": (2 / 3 + 3 / 4) / 2, "lcs": (2 / 3 + 2 / 4) / 2, "coverage": 1.0},
        ("x", 3): {"jaccard": (2 / 3 + 3 / 4) / 3, "lcs": (2 / 3 + 2 / 4) / 3, "coverage": 1.0},
        ("y", 1): {"jaccard": 0.0, "lcs": 0.0, "coverage": 0.0},
        ("y", 2): {"jaccard": 1 / 2, "lcs": 1 / 4, "coverage": 1.0},
        ("y", 3): {"jaccard": 1 / 3, "lcs": 1 / 6, "coverage": 1.0},
    }
    for (pair, k), values in expected.items():
        for metric, value in values.items():
            assert scores[pair, k, metric] == pytest.approx(value), (pair, k, metric)
    assert len(scores) == 2 * 3 * 3


def test_lexical_shots_share_words_and_ties_keep_the_order():
    training = pd.DataFrame({"pair": list("pqr"), "request": ["mail me", "post a form", "wake up"]})
    asked = pd.DataFrame({"pair": ["x"], "request": ["Post this form, please"]})
    assert lexical_shots(asked, training, 3)["shot"].tolist() == ["q", "p", "r"]
    assert lexical_shots(asked, training, 1)["shot"].tolist() == ["q"]


# ---------------------------------------------------------------- definitions


def api(name):
    connector, operation = name.split(".")
    return Operation(connector, operation, operation, connector, f"Does {operation}.")


def test_definitions_count_what_a_flow_needs():
    catalogue = [api(name) for name in ("mail.Send", "mail.SendV2", "mail.New", "chat.Post")]
    pairs = pd.DataFrame(
        {"pair": ["p", "q"], "sample": "test", "apis": [["mail.New", "mail.SendV2", "mail.SendV2"], ["own.Do"]]},
        index=[7, 3],
    )
    by_shots = [["mail.SendV2", "mail.New", "mail.New"], ["chat.Post", "own.Do"]]
    found = definition_coverage(pairs, by_shots, catalogue, lambda text: len(text.split())).set_index("pair")
    measures = ["share", "all_covered", "definitions", "tokens"]
    assert found.loc["p", measures].tolist() == [1, True, 2, 6]
    assert found.loc["q", measures].tolist() == [0, False, 1, 3]
    found = definition_coverage(pairs, [["mail.Send", "no.Api"], []], catalogue, len).set_index("pair")
    assert found.loc["p", ["share", "all_covered", "definitions"]].tolist() == [0, False, 1]
    assert found.loc["q", ["definitions", "tokens"]].tolist() == [0, 0]


def test_reworded_requests_stand_beside_their_originals():
    flows = pd.DataFrame({"pair": ["a", "b", "c"], "split": ["training", "test", "unseen"], "request": list("xyz")})
    found = asked_requests(flows, pd.DataFrame({"pair": ["b"], "request": ["why"]}))
    assert found["pair"].tolist() == ["b", "c", "b reworded"]
    assert found["sample"].tolist() == ["test", "unseen", "reworded"]
    assert found["original"].tolist() == ["b", "c", "b"]
