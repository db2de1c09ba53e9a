"""Target similarity: scores by hand and by brute force, samples, controls, and few-shots of the bounds."""

import numpy as np
import pandas as pd
import pytest

from lib.workflows.apis import API
from lib.workflows.few_shots import (
    SUMMARY,
    balanced_sample,
    coverage_summary,
    curve_scores,
    few_shot_definitions,
    few_shot_scores,
    gold_coverage,
    jaccard,
    lexical_shots,
    mine_training_pairs,
    nearest_shots,
    oracle_shots,
    permuted_targets,
    random_shots,
    ranked_shots,
    score_table,
    scored_pairs,
    semantic_definitions,
    shot_positions,
    tuning_rows,
    usual_number,
    ways_to_define,
)
from lib.workflows.scoring import similarity

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


def test_jaccard_is_of_sets():
    assert jaccard(["a", "b", "b"], ["b", "c"]) == pytest.approx(1 / 3)
    assert jaccard(["a", "b"], ["b", "a", "a"]) == 1.0
    assert jaccard(["a"], []) == jaccard(["a"], ["b"]) == 0.0
    assert jaccard([], []) == 1.0


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
    assert list(rows) == ["sentence1", "sentence2", "score", "positive"]
    by_id = training.set_index("pair")
    for i in (0, 7, len(rows) - 1):
        one, other = by_id.loc[mined["a"].iloc[i]], by_id.loc[mined["b"].iloc[i]]
        assert rows.loc[i, ["sentence1", "sentence2"]].tolist() == [one["request"], other["request"]]
        assert rows["score"][i] == jaccard(one["apis"], other["apis"])
    assert rows["score"].between(0, 1).all()
    assert rows["score"].nunique() > 3
    assert (rows["positive"].to_numpy() == mined["positive"].to_numpy()).all()
    with pytest.raises(KeyError):
        scored_pairs(mined, training.iloc[5:])
    assert scored_pairs(mined.iloc[:0], training).empty


def test_permuted_targets_stay_with_their_kind(mined, training):
    rows = scored_pairs(mined, training)
    control = permuted_targets(rows, seed=1)
    for kind in (True, False):
        before, after = (frame.loc[frame["positive"] == kind, "score"] for frame in (rows, control))
        assert sorted(before) == sorted(after)
        assert (before != after).any()
    texts = ["sentence1", "sentence2", "positive"]
    pd.testing.assert_frame_equal(rows[texts], control[texts])
    pd.testing.assert_frame_equal(control, permuted_targets(rows, seed=1))
    assert (control["score"] != permuted_targets(rows, seed=2)["score"]).any()


# ---------------------------------------------------------------- few-shots


def test_ranked_shots_name_rows():
    shots = ranked_shots(["x", "y"], ["p", "q", "r"], np.array([[2, 0], [1, 2]]))
    expected = [("x", 1, "r"), ("x", 2, "p"), ("y", 1, "q"), ("y", 2, "r")]
    assert list(shots.itertuples(index=False, name=None)) == expected


def test_the_oracle_shows_the_most_similar_flows(flows, training):
    shots = oracle_shots(flows, training, 6, seed=0)
    right, names = flows.set_index("pair")["apis"], training.set_index("pair")["apis"]
    shots["jaccard"] = [jaccard(right[p], names[s]) for p, s in zip(shots["pair"], shots["shot"], strict=True)]
    for pair, group in shots.groupby("pair"):
        best = sorted((jaccard(right[pair], other) for other in names), reverse=True)[:6]
        assert group["jaccard"].tolist() == best
        assert group["rank"].tolist() == [1, 2, 3, 4, 5, 6]
        assert group["shot"].is_unique


def test_ties_of_the_oracle_depend_on_the_seed_and_not_on_the_order(flows, training):
    first = oracle_shots(flows, training, 4, seed=0)
    again = oracle_shots(flows, training.sample(frac=1, random_state=0), 4, seed=0)
    pd.testing.assert_frame_equal(first, again)
    assert (first["shot"] != oracle_shots(flows, training, 4, seed=1)["shot"]).any()


def test_a_flow_without_calls_is_most_similar_to_another_one():
    flows = pd.DataFrame({"pair": ["x"], "apis": [[]]})
    training = pd.DataFrame({"pair": ["p", "q", "r"], "apis": [["a"], [], ["b"]]})
    assert oracle_shots(flows, training, 1, seed=0)["shot"].tolist() == ["q"]


def test_random_shots_are_distinct_and_seeded_by_the_flow(flows, training):
    shots = random_shots(flows, training, 10, seed=0)
    assert shots.groupby("pair")["shot"].nunique().eq(10).all()
    assert set(shots["shot"]) <= set(training["pair"])
    part = random_shots(flows.iloc[3:5], training, 10, seed=0)
    assert part["shot"].tolist() == shots[shots["pair"].isin(part["pair"])]["shot"].tolist()
    assert (shots["shot"] != random_shots(flows, training, 10, seed=1)["shot"]).any()
    assert len(random_shots(flows, training.iloc[:4], 10, seed=0)) == 4 * len(flows)


def test_scores_of_few_shots_by_hand():
    flows = pd.DataFrame({"pair": ["x", "y"], "apis": [["a", "b", "c"], ["d"]]})
    training = pd.DataFrame({"pair": ["p", "q", "r"], "apis": [["a", "b"], ["c", "a", "b", "z"], ["d", "d"]]})
    shots = ranked_shots(flows["pair"], training["pair"], np.array([[0, 1, 2], [0, 2, 1]]))
    scores = few_shot_scores(shots, flows, training, [1, 2, 3]).set_index(["pair", "k", "metric"])["value"]
    expected = {
        ("x", 1): {"jaccard": 2 / 3, "jaccard_best": 2 / 3, "lcs": 2 / 3, "lcs_best": 2 / 3, "coverage": 2 / 3},
        ("x", 2): {"jaccard": (2 / 3 + 3 / 4) / 2, "jaccard_best": 3 / 4, "lcs": (2 / 3 + 2 / 4) / 2, "lcs_best": 2 / 3,
                   "coverage": 1.0},
        ("x", 3): {"jaccard": (2 / 3 + 3 / 4) / 3, "lcs": (2 / 3 + 2 / 4) / 3, "coverage": 1.0},
        ("y", 1): {"jaccard": 0.0, "jaccard_best": 0.0, "lcs": 0.0, "lcs_best": 0.0, "coverage": 0.0},
        ("y", 2): {"jaccard": 1 / 2, "jaccard_best": 1.0, "lcs": 1 / 4, "lcs_best": 1 / 2, "coverage": 1.0},
        ("y", 3): {"jaccard": 1 / 3, "jaccard_best": 1.0, "lcs": 1 / 6, "lcs_best": 1 / 2, "coverage": 1.0},
    }  # fmt: skip
    for (pair, k), values in expected.items():
        for metric, value in values.items():
            assert scores[pair, k, metric] == pytest.approx(value), (pair, k, metric)
    assert len(scores) == 2 * 3 * 5


def test_scores_of_few_shots_by_brute_force(flows, training):
    shots = random_shots(flows, training, 8, seed=5).sample(frac=1, random_state=0)
    scores = few_shot_scores(shots, flows, training, [3, 8, 20])
    right, names = flows.set_index("pair")["apis"], training.set_index("pair")["apis"]
    assert len(scores) == len(flows) * 3 * 5
    for pair, k, metric, value in scores.itertuples(index=False):
        chosen = shots[(shots["pair"] == pair) & (shots["rank"] <= k)]["shot"].map(names)
        one = jaccard if metric.startswith("jaccard") else similarity
        each = [one(apis, right[pair]) for apis in chosen]
        shown = set().union(*chosen) & set(right[pair])
        expected = (
            len(shown) / len(set(right[pair])) if metric == "coverage"
            else max(each) if metric.endswith("best") else np.mean(each)
        )  # fmt: skip
        assert value == pytest.approx(expected), (pair, k, metric)


def test_a_shot_that_nobody_knows_is_an_error(flows, training):
    shots = random_shots(flows, training, 2, seed=0)
    with pytest.raises(KeyError):
        few_shot_scores(shots, flows, training[training["pair"] != shots["shot"][0]], [2])
    with pytest.raises(KeyError):
        few_shot_scores(shots, flows.iloc[1:], training, [2])


def test_mined_pairs_are_of_training_and_named_by_their_ids():
    pairs = pd.DataFrame({"pair": list("abcd"), "split": ["test", "training", "training", "training"]})
    vectors = np.array([[1, 0], [1, 0], [1, 0], [0, 1]], dtype=np.float32)
    found, positives = mine_training_pairs(pairs, vectors, 2, 0.7, seed=3)
    assert positives == 1
    assert found.loc[found["positive"], ["a", "b"]].to_numpy().tolist() == [["b", "c"]]
    assert set(found["a"]) | set(found["b"]) == {"b", "c", "d"}


def test_one_training_pair_has_no_pairs_to_mine():
    pairs = pd.DataFrame({"pair": ["a", "b"], "split": ["test", "training"]})
    found, positives = mine_training_pairs(pairs, np.eye(2, dtype=np.float32), 2, 0.7, seed=3)
    assert (len(found), positives) == (0, 0)
    assert list(found) == ["a", "b", "cosine", "positive"]
    assert found["positive"].dtype == bool


# ---------------------------------------------------------------- selectors


CIRCLE = np.array([[1, 0], [0.8, 0.6], [0, 1], [-1, 0]], dtype=np.float32)


def test_nearest_shots_go_by_cosine():
    shots = nearest_shots(["x", "y"], ["p", "q", "r", "s"], CIRCLE, CIRCLE[[0, 3]], 2)
    assert shots["shot"].tolist() == ["p", "q", "s", "r"]
    assert shots["pair"].tolist() == ["x", "x", "y", "y"]


def test_lexical_shots_share_words_and_ties_keep_the_order():
    training = pd.DataFrame({"pair": list("pqr"), "request": ["mail me", "post a form", "wake up"]})
    asked = pd.DataFrame({"pair": ["x"], "request": ["Post this form, please"]})
    assert lexical_shots(asked, training, 3)["shot"].tolist() == ["q", "p", "r"]
    assert lexical_shots(asked, training, 1)["shot"].tolist() == ["q"]


def test_the_table_has_a_column_for_each_method_metric_and_number(flows, training):
    shots = {"late": random_shots(flows, training, 5, 0), "best": oracle_shots(flows, training, 5, 0)}
    table = score_table(shots, flows, training, [1, 5])
    assert table.index.tolist() == sorted(flows["pair"])
    assert table.columns.get_level_values("method").unique().tolist() == ["late", "best"]
    long = few_shot_scores(shots["best"], flows, training, [5]).set_index(["pair", "metric"])["value"]
    for pair in flows["pair"]:
        assert table.loc[pair, ("best", "coverage", 5)] == long[pair, "coverage"]


def test_positions_are_indexed_by_pair():
    shots = ranked_shots(["x", "y"], ["p", "q", "r"], np.array([[2, 0], [1, 2]]))
    assert shot_positions(shots, ["r", "q", "p"], 2).to_dict() == {"x": [0, 2], "y": [1, 0]}
    assert shot_positions(shots, ["r", "q", "p"], 1)["y"] == [1]


def test_tuning_repeats_the_pairs_of_a_sample(mined, training):
    rows = tuning_rows(mined, training, 10, 3, seed=3)
    once = scored_pairs(balanced_sample(mined, 10, seed=3), training)
    assert len(rows) == 30
    assert rows.index.is_unique
    pd.testing.assert_frame_equal(rows.iloc[20:].reset_index(drop=True), once)


def test_the_points_of_a_learning_curve_are_scored_on_one_pool():
    pool = pd.DataFrame({"pair": ["p", "q"], "apis": [["a"], ["b"]]})
    asked = pd.DataFrame({"pair": ["x", "y"], "sample": ["test", "test_same"], "apis": [["a"], ["b"]]}, index=[7, 3])
    right, wrong = np.eye(2, dtype=np.float32), np.eye(2, dtype=np.float32)[::-1]
    vectors = {("pretrained", 0): (right, wrong), ("tst", 9): (right, right)}
    scores = curve_scores(vectors, asked, pool, 1)
    assert list(scores) == ["test_set", "method", "pairs", "pair", "jaccard"]
    assert scores["jaccard"].tolist() == [0, 0, 1, 1]
    assert scores["test_set"].tolist() == ["test", "test_same"] * 2
    assert scores.iloc[2][["method", "pairs", "pair"]].tolist() == ["tst", 9, "x"]


# ---------------------------------------------------------------- definitions


def test_few_shot_definitions_name_each_api_once_nearest_shot_first():
    apis = [["a.New", "a.Add"], ["b.Post", "a.New"], ["c.Get"]]
    assert few_shot_definitions([1, 0], apis) == ["b.Post", "a.New", "a.Add"]
    assert few_shot_definitions([], apis) == []


def test_semantic_definitions_are_the_nearest_in_order_of_their_similarity():
    texts = np.array([[1, 0], [0, 1], [0.6, 0.8], [0, 1]], dtype=np.float32)
    requests = np.array([[0, 1], [1, 0]], dtype=np.float32)
    names = ["a", "b", "c", "d"]
    assert semantic_definitions(requests, texts, names, 3) == [["b", "d", "c"], ["a", "c", "b"]]
    assert semantic_definitions(requests, texts, names, 9) == [["b", "d", "c", "a"], ["a", "c", "b", "d"]]
    assert semantic_definitions(requests, texts, names, 0) == [[], []]
    with pytest.raises(ValueError, match="4 vectors and 3 names"):
        semantic_definitions(requests, texts, names[:3], 2)


def api(name):
    connector, operation = name.split(".")
    return API(connector, operation, operation, connector, f"Does {operation}.")


def test_gold_coverage():
    catalogue = {name: api(name) for name in ("mail.Send", "mail.SendV2", "mail.New", "chat.Post")}
    pairs = pd.DataFrame(
        {"pair": ["p", "q"], "apis": [["mail.New", "mail.SendV2", "mail.SendV2"], ["mail.New", "own.Do"]]}
    )
    ways = {
        "fd": [["mail.SendV2", "mail.New", "mail.New"], ["chat.Post", "own.Do"]],
        "sfd": [["mail.Send", "no.Api"], []],
    }
    found = gold_coverage(pairs, ways, catalogue, lambda text: len(text.split()))
    assert found["way"].tolist() == ["fd", "fd", "sfd", "sfd"]
    found = found.set_index(["way", "pair"])
    assert found.loc[("fd", "p")].to_dict() == {
        "apis": 2, "share": 1, "all_covered": True, "sibling_share": 0, "definitions": 2, "tokens": 6
    }  # fmt: skip
    assert found.loc[("fd", "q")].to_dict() == {
        "apis": 2, "share": 0, "all_covered": False, "sibling_share": 0, "definitions": 1, "tokens": 3
    }  # fmt: skip
    assert found.loc[("sfd", "p")].to_dict() == {
        "apis": 2, "share": 0, "all_covered": False, "sibling_share": 0.5, "definitions": 1, "tokens": 3
    }  # fmt: skip
    assert found.loc[("sfd", "q"), ["share", "definitions", "tokens"]].tolist() == [0, 0, 0]
    with pytest.raises(ValueError, match="shorter"):
        gold_coverage(pairs, {"fd": [[]]}, catalogue, len)


def test_as_many_as_few_shots_bring_on_average_and_at_least_one():
    assert usual_number([["a"], ["a", "b", "c", "d"], ["a", "b", "c"]]) == 3
    assert usual_number([[], ["a"], []]) == 1


def test_the_ways_are_fd_sfd_and_both():
    fd = {("tst", 5): [["a"], ["b"]], ("pretrained", 5): [[], ["c"]]}
    ways = ways_to_define(fd, {5: [["x"], ["b"]]})
    assert list(ways) == [
        ("fd", "tst", 5), ("fd", "pretrained", 5), ("sfd", "", 5), ("fd_sfd", "tst", 5), ("fd_sfd", "pretrained", 5)
    ]  # fmt: skip
    assert ways["fd_sfd", "tst", 5] == [["a", "x"], ["b", "b"]]


def test_coverage_is_summed_up_by_sample_and_way():
    coverage = pd.DataFrame(
        {
            "pair": ["p", "q", "u", "p", "q", "u"],
            "sample": ["test", "test", "unseen"] * 2,
            "way": [("sfd", "", 5)] * 3 + [("fd", "tst", 5)] * 3,
            "share": [1, 0.5, 0, 0, 0, 0],
            "all_covered": [True, False, False] + [False] * 3,
            "sibling_share": [0, 0.5, 0, 0, 0, 0],
            "definitions": [3, 4, 5, 1, 1, 1],
            "tokens": [30, 50, 70, 10, 10, 10],
        }
    )
    summary = coverage_summary(coverage, 100, 0)
    assert set(summary) == set(SUMMARY)
    keys = summary[["sample", "kind", "selector", "shots"]].astype(object).to_numpy().tolist()
    assert keys == [
        ["test", "fd", "tst", 5], ["test", "sfd", "", 5], ["unseen", "fd", "tst", 5], ["unseen", "sfd", "", 5]
    ]  # fmt: skip
    row = summary.loc[1]
    assert row[["share", "all_covered", "sibling_share", "definitions", "tokens", "n"]].tolist() == [
        75,
        50,
        25,
        3.5,
        40,
        2,
    ]
    assert (row["ci_low"], row["ci_high"]) == (50, 100)
