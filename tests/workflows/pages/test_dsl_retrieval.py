"""What notebook 08 shows of few-shots."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from lib.workflows.pages import dsl_retrieval as page
from lib.workflows.target_similarity import over_seeds

KS = [1, 5, 20]
JACCARD = {"random": 0.1, "bm25t": 0.3, "pretrained": 0.4, "tst": 0.5, "tst_affine": 0.6, "oracle_shots": 0.9}
PAIRS = {"tst": 100_000, "tst_affine": 100_000}
ASKED = {name: pd.DataFrame({"pair": [f"{name}-{i}" for i in range(20)]}) for name in page.SETS}


def scores(jaccard):
    """Twenty requests of each test set whose few-shots of a selector all score the same."""
    columns = {
        (name, measure, k): np.full(40, value)
        for name, value in jaccard.items()
        for measure in page.MEASURES
        for k in KS
    }
    index = pd.Index(pd.concat(list(ASKED.values()))["pair"], name="pair")
    return pd.DataFrame(columns, index=index).rename_axis(columns=["method", "metric", "k"])


@pytest.fixture
def table():
    return over_seeds([scores(JACCARD)])


@pytest.fixture
def values(table):
    return page.selector_values(table, ASKED, PAIRS, 100, 0)


@pytest.fixture
def flows():
    rows = [
        ("a", "training", "one", ["f.New", "m.Send"]),
        ("b", "test", "one", ["f.New", "m.Send"]),
        ("c", "test", "two", ["f.New", "rare.Do", "m.Send"]),
        ("d", "test", "six", ["f.New"]),
        ("s", "test_same", "six", ["f.New"]),
        ("e", "unseen", "new", ["new.Do"]),
    ]
    flows = pd.DataFrame(rows, columns=["pair", "split", "dsl", "apis"])
    return flows.assign(request=flows["pair"] + "!")


def rows_of_tests(changes, settled=True):
    """Tests at five few-shots; `changes`: by (a, b, test set) the difference in mean Jaccard similarity."""
    rows = [(a, b, where, "jaccard", 5, change, change - 0.05, change + 0.05, 0.01, settled and abs(change) > 0.05)
            for (a, b, where), change in changes.items()]  # fmt: skip
    columns = ["a", "b", "test_set", "metric", "k", "difference", "ci_low", "ci_high", "p_holm", "settled"]
    return pd.DataFrame(rows, columns=columns)


def changes(plain, affine, apart, words):
    found = {}
    for where in page.SETS:
        found |= {
            ("tst", "pretrained", where): plain,
            ("tst_affine", "pretrained", where): affine,
            ("tst_affine", "tst", where): apart,
            ("tst", "bm25t", where): words,
        }
    return rows_of_tests(found)


def test_everything_asked_is_looked_up(flows):
    reworded = pd.DataFrame({"pair": ["c"], "request": ["other words"], "dsl": ["two"], "apis": [["f.New"]]})
    asked = page.asked_requests(flows, reworded)
    assert asked["pair"].tolist() == ["b", "c", "d", "s", "e", "c reworded"]
    assert asked["sample"].tolist() == ["test", "test", "test", "test_same", "unseen", "reworded"]
    assert asked["original"].tolist() == ["b", "c", "d", "s", "e", "c"]
    assert len(page.asked_requests(flows, reworded[:0])) == 5
    assert {name: part["pair"].tolist() for name, part in page.sets_of(asked).items()} == {
        "test": ["b", "c", "d"],
        "test_same": ["s"],
    }
    assert list(page.sets_of(asked[asked["sample"] != "test_same"])) == ["test"]


def test_the_example_shows_three_few_shots_in_order():
    training = pd.DataFrame({"pair": list("wxyz"), "request": list("WXYZ"), "dsl": list("1234")})
    shots = pd.DataFrame({"pair": ["b"] * 4 + ["c"], "rank": [1, 2, 3, 4, 1], "shot": ["z", "x", "w", "y", "y"]})
    table = page.example_table(pd.Series({"pair": "b", "request": "B", "dsl": "0"}), shots, training)
    assert table.frame["request"].tolist() == ["B", "Z", "X", "W"]
    assert table.frame["flow"].tolist() == ["0", "4", "2", "1"]
    assert table.frame[""].tolist() == ["the request", "few-shot 1", "few-shot 2", "few-shot 3"]
    assert "its three nearest of 4 training requests" in table.caption


def test_few_shots_of_some_requests():
    shots = pd.DataFrame({"pair": ["b", "b", "c"], "rank": [1, 2, 1], "shot": ["x", "y", "z"]})
    asked = pd.DataFrame({"pair": ["b"]})
    assert page.of_pairs({"tst": shots}, asked)["tst"]["shot"].tolist() == ["x", "y"]
    assert page.of_pairs({"tst": shots}, asked, 1)["tst"]["shot"].tolist() == ["x"]


def test_values_say_what_was_learned_from(values):
    assert list(values) == [
        "test_set", "selector", "train_pairs", "seeds", "metric", "shots", "value", "ci_low", "ci_high", "n"
    ]  # fmt: skip
    assert len(values) == 2 * 6 * 5 * 3
    assert set(values["n"]) == {20}
    learned = values.groupby("selector")[["train_pairs", "seeds"]].max()
    assert learned.loc["tst_affine"].tolist() == [100_000, 1]
    assert learned.loc["pretrained"].tolist() == [0, 0]


def test_intervals_cover_requests_and_training_runs():
    by_run = over_seeds([scores(JACCARD | {"tst": value}) for value in (0.3, 0.5, 0.7)])
    values = page.selector_values(by_run, ASKED, PAIRS, 500, 0).set_index(["test_set", "selector", "metric", "shots"])
    tuned, fixed = (values.loc["test", name, "jaccard", 5] for name in ("tst", "pretrained"))
    assert tuned["value"] == pytest.approx(0.5)
    assert (tuned["ci_low"], tuned["ci_high"]) == pytest.approx((0.3, 0.7))  # a resample may hold one run alone
    assert (fixed["ci_low"], fixed["ci_high"]) == pytest.approx((0.4, 0.4))
    assert tuned["seeds"] == 3
    assert tuned["n"] == 20
    assert page.covered(3) == "over requests and 3 training runs"
    assert page.covered(0) == "over requests"
    assert page.covered(1) == "over requests (one training run: its chance is not covered)"


def test_selectors_are_tabulated_by_number_of_few_shots(values):
    table = page.selectors_table(values, [5, 20])
    assert table.frame.columns.tolist() == [
        "few-shots", "selector", "Jaccard, new wordings", "best Jaccard, new wordings", "coverage, new wordings",
        "Jaccard, known wordings", "best Jaccard, known wordings", "coverage, known wordings",
    ]  # fmt: skip
    assert table.frame["few-shots"].tolist() == [5] * 6 + [20] * 6
    assert table.frame["selector"].tolist()[:2] == ["random few-shots", "BM25T"]
    assert table.frame["Jaccard, known wordings"].tolist()[3] == "0.50 [0.50, 0.50]"
    assert "means over 20 test requests in new wordings and 20 test requests in known wordings" in table.caption
    assert "means over 1 test request in new wordings and" in page.selectors_table(values.assign(n=1), [5]).caption
    alone = page.selectors_table(values[values["test_set"] == "test"], [5])
    assert alone.frame.shape == (6, 5)


def test_tst_is_compared_in_all_measures_on_both_sets(table):
    tests = page.tst_tests(table, ASKED, [5, 20], 100, 0)
    assert len(tests) == 2 * 4 * 3 * 2
    assert tests["settled"].all()
    assert tests["p_holm"].max() == pytest.approx(min(1, 48 * tests["p_value"].max()), rel=0.5)
    np.testing.assert_allclose(tests.loc[tests["b"] == "bm25t", "difference"], 0.2)
    drawing = page.tst_tests_drawing(tests)
    assert drawing.finding == "36 of 36 differences between the encoders' few-shots are settled (gains: 36, losses: 0)"
    mixed = tests.assign(difference=tests["difference"].where(tests.index != 0, -0.1))
    assert page.tst_tests_drawing(mixed).finding.endswith("are settled (gains: 35, losses: 1)")
    assert drawing.data["comparison"].nunique() == 18
    assert drawing.data["comparison"].tolist()[:2] == [
        "Jaccard of 5: TST − pretrained encoder",
        "Jaccard of 5: affine TST − pretrained encoder",
    ]
    assert [axis.get_title(loc="left") for axis in drawing.figure.axes] == ["new wordings", "known wordings"]
    assert {"p_value", "p_holm"} <= set(drawing.data)
    plt.close(drawing.figure)


@pytest.mark.parametrize(
    ("plain", "affine", "apart", "said"),
    [
        (0.1, 0.2, 0.1, "**TST: helps on new wordings, 0.100 [0.050, 0.150], 20% of the way to the oracle; helps"),
        (-0.1, 0.2, 0.3, "**TST: harms on new wordings, −0.100 [−0.150, −0.050]; harms on known wordings"),
        (0.01, 0.2, 0.1, "**TST: not settled on new wordings, 0.010 [−0.040, 0.060]; not settled on known"),
        (0.1, 0.2, 0.1, "**affine TST: helps on new wordings, 0.200 [0.150, 0.250], 40% of the way to the oracle; "),
        (0.1, -0.2, -0.3, "**affine TST: harms on new wordings, −0.200 [−0.250, −0.150]; harms on"),
        (0.1, 0.01, 0.1, "**affine TST: not settled on new wordings, 0.010"),
        (0.1, 0.2, 0.1, "Of the two, the affine one is better (new wordings, 0.100 [0.050, 0.150]) and the affine one"),
        (0.1, 0.2, -0.1, "Of the two, the plain one is better (new wordings, −0.100"),
        (0.1, 0.2, 0.0, "Of the two, neither is settled as the better (new wordings, 0.000"),
    ],
)
def test_the_verdict_on_tst(values, plain, affine, apart, said):
    cells = page.cells_of(values)
    verdict = page.verdict(changes(plain, affine, apart, 0.2), cells, PAIRS)
    assert said in verdict
    assert verdict.startswith(
        "Mean Jaccard similarity of 5 few-shots with the right flow, encoders tuned on 100,000 pairs, as many as the "
        "paper's, against the pretrained encoder. **TST: "
    )
    assert verdict.endswith(
        "TST changes it by 0.200 [0.150, 0.250] (new wordings) and 0.200 [0.150, 0.250] (known wordings)."
    )


def test_few_pairs_give_no_verdict_on_the_papers_tst(values):
    cells, few = page.cells_of(values), {"tst": 3000, "tst_affine": 3000}
    verdict = page.verdict(changes(0.1, 0.2, 0.1, 0.2), cells, few)
    assert "encoders tuned on 3,000 pairs (the paper: 100,000), against" in verdict
    assert verdict.endswith("So few pairs give no verdict on the paper's TST.")
    assert page.tuned_on({"tst": 3000, "tst_affine": 100_000}) == "3,000 and 100,000 pairs (the paper: 100,000)"
    assert page.tuned_on({"tst": 0, "tst_affine": 0}) == "no pair"


def test_two_sides_meet_on_their_requests_and_runs():
    one = pd.DataFrame({"pair": ["x", "y"] * 3, "seed": [0, 0, 1, 1, 2, 2], "score": [1, 2, 3, 4, 5, 6.0]})
    other = pd.DataFrame({"pair": ["y", "x", "z"], "seed": 0, "score": [20, 10, 30.0]})
    both = page.paired(one, other, "score")
    assert both["a", "score", 0].to_dict() == {
        ("x", 0): 1,
        ("y", 0): 2,
        ("x", 1): 3,
        ("y", 1): 4,
        ("x", 2): 5,
        ("y", 2): 6,
    }
    assert both["b", "score", 0].loc["x"].tolist() == [10, 10, 10]
    turned = page.paired(other, one, "score")
    assert (turned["a", "score", 0].loc["x"] == 10).all()
    assert turned["b", "score", 0].loc["y"].tolist() == [2, 4, 6]
    fewer = page.paired(one, one[one["seed"] < 2].assign(score=0.0), "score")
    assert sorted(fewer.index.get_level_values("seed").unique()) == [0, 1]
    tests = page.tested({"first": (one, other), "again": (other, other)}, "score", 100, 0)
    assert tests["difference"].tolist() == [pytest.approx(3.5 - 15), 0]
    assert tests["n"].tolist() == [2, 3]
    assert not tests["settled"].any()


@pytest.mark.parametrize(
    ("gains", "said"),
    [
        ({750: False, 3000: False}, "helps at no size up to 3,000 pairs"),
        ({750: True, 3000: False}, "helps at 750 pairs, not at 3,000"),
        ({750: True, 3000: True}, "helps already at 750 pairs, the fewest tried"),
        ({750: False, 3000: True, 9000: True}, "begins to help between 750 and 3,000 pairs"),
        ({750: True, 3000: False, 9000: True}, "begins to help between 3,000 and 9,000 pairs"),
        ({9000: True}, "helps at 9,000 pairs"),
    ],
)
def test_from_which_size_on_it_helps(gains, said):
    tests = pd.DataFrame({"pairs": list(gains), "difference": 0.1, "settled": list(gains.values())})
    assert page.from_which(tests, "helps", "help") == said
    harmed = tests.assign(difference=-0.1, settled=True)
    assert page.from_which(harmed, "helps", "help").startswith("helps at no size")


def test_selectors_are_drawn(values):
    drawing = page.selectors_drawing(values, 20)
    assert drawing.finding == (
        "Jaccard of 20 few-shots: 0.40 by the pretrained encoder, 0.50 after TST and 0.60 after affine TST on new "
        "wordings; 0.40 by the pretrained encoder, 0.50 after TST and 0.60 after affine TST on known wordings"
    )
    assert "for 6 selectors, on new wordings and known wordings" in drawing.alt
    assert [len(axis.lines) for axis in drawing.figure.axes] == [6, 6]
    assert drawing.data is values
    plt.close(drawing.figure)
    alone = page.selectors_drawing(values[values["test_set"] == "test"], 20)
    assert len(alone.figure.axes) == 1
    plt.close(alone.figure)


def test_drawn_rows_are_seeded_and_keep_their_order(flows):
    some = page.drawn(flows, 3, seed=1)
    assert len(some) == 3
    assert some.index.is_monotonic_increasing
    assert len(page.drawn(flows, 99, seed=1)) == len(flows)
    assert {tuple(page.drawn(flows, 3, seed)["pair"]) for seed in range(9)} != {tuple(some["pair"])}


def test_groups_of_requests(flows):
    reworded = pd.DataFrame({"pair": ["c"], "request": ["other"], "dsl": ["two"], "apis": [["f.New"]]})
    training = flows[flows["split"] == "training"]
    groups = page.groups_of_requests(page.asked_requests(flows, reworded), training)
    assert {name: list(pairs) for name, pairs in groups.items()} == {
        "same flow in training": ["b"],
        "rarest API: rare": ["c"],
        "rarest API: middling": ["b"],
        "rarest API: common": ["d"],
        "reworded by hand": ["c reworded"],
        "the same, as composed": ["c"],
        "held-out APIs": ["e"],
    }


def test_too_few_requests_make_no_thirds(flows):
    assert page.thirds_by_rarity(flows[1:3], flows[:1]).tolist() == ["rare", "rare"]


def test_the_finding_says_what_tst_changes_and_where(values):
    cells = page.cells_of(values)
    said = page.finding(changes(0.1, 0.2, 0.1, 0.2), cells, [5, 20], 600, PAIRS)
    assert said == (
        "Few-shots out of 600 pairs: target similarity tuning on 100,000 pairs, as many as the paper's, measured by "
        "the Jaccard similarity of 5 few-shots with the right flow, **helps** on new wordings: 0.40 → 0.50, 0.100 "
        "[0.050, 0.150] (oracle 0.90); **helps** on known wordings: 0.40 → 0.50, 0.100 [0.050, 0.150] (oracle 0.90). "
        "20 few-shots by affine TST show 60% of the APIs that new wordings want."
    )
    assert "**harms** on new wordings" in page.finding(changes(-0.1, 0, 0, 0), cells, [5, 20], 600, PAIRS)
    assert "**not settled** on new" in page.finding(changes(0.01, 0, 0, 0), cells, [5, 20], 600, PAIRS)


def test_the_better_encoder_is_the_one_that_shows_more(values):
    cells = page.cells_of(values)
    assert page.best_encoder(cells, 20) == "tst_affine"
    assert page.by("tst_affine") == "by affine TST"
    assert page.best_encoder(cells * 0, 20) == "pretrained"
    assert page.by("pretrained") == "by the pretrained encoder"


def test_an_encoder_that_searches_a_sample_only_is_left_out():
    plain = {name: value for name, value in JACCARD.items() if name != "tst_affine"}
    table, pairs = over_seeds([scores(plain)]), {"tst": 100_000}
    values = page.selector_values(table, ASKED, pairs, 100, 0)
    tests = page.tst_tests(table, ASKED, [5], 100, 0)
    assert set(tests["a"] + tests["b"]) == {"tstpretrained", "tstbm25t"}
    assert page.selectors_table(values, [5]).frame["selector"].tolist() == [
        page.NAMES[name] for name in page.SELECTORS if name != "tst_affine"
    ]
    text = page.verdict(tests, page.cells_of(values), pairs)
    assert "affine" not in text
    assert "Of the two" not in text
    drawing = page.selectors_drawing(values, 5)
    assert "0.40 by the pretrained encoder and 0.50 after TST on new wordings" in drawing.finding
    assert "for 5 selectors" in drawing.alt
    plt.close(drawing.figure)
    assert page.best_encoder(page.cells_of(values), 20) in ("pretrained", "tst")
