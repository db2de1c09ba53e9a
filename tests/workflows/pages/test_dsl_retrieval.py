"""What notebook 08 shows of few-shots."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from lib.workflows.pages import dsl_retrieval as page

KS = [1, 5, 20]
JACCARD = {"random": 0.1, "bm25t": 0.3, "pretrained": 0.4, "tst": 0.5, "oracle_shots": 0.9}


@pytest.fixture
def table():
    """Twenty test requests whose few-shots of a selector all score the same."""
    columns = {
        (name, measure, k): np.full(20, value)
        for name, value in JACCARD.items()
        for measure in page.MEASURES
        for k in KS
    }
    index = pd.Index([f"q{i}" for i in range(20)], name="pair")
    return pd.DataFrame(columns, index=index).rename_axis(columns=["method", "metric", "k"])


@pytest.fixture
def values(table):
    return page.selector_values(table, 100, 0)


@pytest.fixture
def flows():
    rows = [
        ("a", "training", "one", ["f.New", "m.Send"]),
        ("b", "test", "one", ["f.New", "m.Send"]),
        ("c", "test", "two", ["f.New", "rare.Do", "m.Send"]),
        ("d", "test", "six", ["f.New"]),
        ("e", "unseen", "new", ["new.Do"]),
    ]
    flows = pd.DataFrame(rows, columns=["pair", "split", "dsl", "apis"])
    return flows.assign(request=flows["pair"] + "!", n_calls=flows["apis"].map(len), conditions=[0, 0, 1, 0, 0])


def grouped(*rows):
    columns = ["group", "n", "a", "b", "difference", "ci_low", "ci_high", "p_value", "p_holm"]
    return pd.DataFrame(rows, columns=columns)


def rival_tests(*rows):
    columns = ["a", "b", "metric", "k", "difference", "ci_low", "ci_high", "p_holm", "settled"]
    return pd.DataFrame([("tst", *row) for row in rows], columns=columns)


WORDS = ("bm25t", "coverage", 5, 0.2, 0.1, 0.3, 0.01, True)
GAIN = ("pretrained", "jaccard", 5, 0.1, 0.05, 0.15, 0.01, True)
LOSS = ("pretrained", "lcs", 5, -0.1, -0.15, -0.05, 0.01, True)
NOTHING = ("pretrained", "jaccard", 5, 0.1, -0.05, 0.25, 0.9, False)


def test_everything_asked_is_looked_up(flows):
    reworded = pd.DataFrame({"pair": ["c"], "request": ["other words"], "dsl": ["two"], "apis": [["f.New"]]})
    asked = page.asked_requests(flows, reworded)
    assert asked["pair"].tolist() == ["b", "c", "d", "e", "c reworded"]
    assert asked["sample"].tolist() == ["test", "test", "test", "unseen", "reworded"]
    assert asked["original"].tolist() == ["b", "c", "d", "e", "c"]
    assert len(page.asked_requests(flows, reworded[:0])) == 4


def test_the_example_shows_three_few_shots_in_order():
    training = pd.DataFrame({"pair": list("wxyz"), "request": list("WXYZ"), "dsl": list("1234")})
    shots = pd.DataFrame({"pair": ["b"] * 4 + ["c"], "rank": [1, 2, 3, 4, 1], "shot": ["z", "x", "w", "y", "y"]})
    table = page.example_table(pd.Series({"pair": "b", "request": "B", "dsl": "0"}), shots, training)
    assert table.frame["request"].tolist() == ["B", "Z", "X", "W"]
    assert table.frame["flow"].tolist() == ["0", "4", "2", "1"]
    assert table.frame[""].tolist() == ["the request", "few-shot 1", "few-shot 2", "few-shot 3"]
    assert "its three nearest of 4 training requests" in table.caption


def test_selectors_are_tabulated_by_number_of_few_shots(values):
    frame = page.selectors_table(values, [5, 20]).frame
    assert frame.columns.tolist() == ["few-shots", "selector", *page.MEASURES.values()]
    assert frame["few-shots"].tolist() == [5] * 5 + [20] * 5
    assert frame["selector"].tolist()[:2] == ["random few-shots", "BM25T"]
    assert frame["best LCS"].tolist()[3] == "0.50 [0.50, 0.50]"


def test_tst_is_compared_in_all_measures(table):
    tests = page.tst_tests(table, [5, 20], 100, 0)
    assert len(tests) == 20
    assert tests["settled"].all()
    np.testing.assert_allclose(tests.loc[tests["b"] == "bm25t", "difference"], 0.2)
    shown = page.tst_tests_table(tests, 10)
    assert len(shown.frame) == 10
    assert shown.frame["TST minus pretrained"][0] == "0.100 [0.100, 0.100]"
    assert set(shown.frame["settled"]) == {"yes"}


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([GAIN], "improves 1 of 1 measures** settledly (1 for the better, 0 for the worse)"),
        ([NOTHING, LOSS], "worsens 1 of 2 measures** settledly (0 for the better, 1 for the worse)"),
        ([GAIN, LOSS], "changes 2 of 2 measures** settledly (1 for the better, 1 for the worse)"),
        ([NOTHING], "changes 0 of 1 measures** settledly (0 for the better, 0 for the worse)"),
    ],
)
def test_the_verdict_on_tst(values, rows, said):
    cells = page.cells_of(values)
    verdict = page.verdict(rival_tests(*rows, WORDS), cells, 3000, 0.25)
    assert verdict.startswith(f"**Tuned on 3,000 pairs, 3.0% of the paper's 100,000, the encoder {said}")
    assert "With 5 few-shots their mean Jaccard similarity with the right flow changes by 0.100 [" in verdict
    assert "the oracle is 0.500 above the pretrained encoder. 25% of the 5 few-shots are the same" in verdict
    assert "changes coverage by 0.200 [0.100, 0.300]." in verdict
    assert verdict.endswith("So few pairs give no verdict on the paper's TST.")
    assert page.verdict(rival_tests(*rows, WORDS), cells, 100_000, 0.25).endswith("0.300].")


def test_few_shots_in_common_are_counted_up_to_k():
    found = {
        "pretrained": pd.DataFrame({"pair": ["b", "b", "z"], "rank": [1, 2, 1], "shot": ["x", "y", "x"]}),
        "tst": pd.DataFrame({"pair": ["b", "b", "z"], "rank": [1, 2, 1], "shot": ["y", "x", "x"]}),
    }
    assert page.share_in_common(found, ["b"], 1) == 0
    assert page.share_in_common(found, ["b"], 2) == 1


def test_selectors_are_drawn(values):
    drawing = page.selectors_drawing(values, 20)
    assert drawing.finding == (
        "20 few-shots show 40% of the wanted APIs by the pretrained encoder, 50% after TST, 90% by the oracle"
    )
    assert "for 5 selectors" in drawing.alt
    assert [len(axis.lines) for axis in drawing.figure.axes] == [5, 5]
    assert drawing.data is values
    plt.close(drawing.figure)


def test_drawn_rows_are_seeded_and_keep_their_order(flows):
    some = page.drawn(flows, 3, seed=1)
    assert len(some) == 3
    assert some.index.is_monotonic_increasing
    assert len(page.drawn(flows, 99, seed=1)) == len(flows)
    assert {tuple(page.drawn(flows, 3, seed)["pair"]) for seed in range(9)} != {tuple(some["pair"])}


def test_fresh_requests_are_in_no_tuned_pair(flows):
    tuned = pd.DataFrame({"a": ["a", "c"], "b": ["c", "e"]})
    assert page.fresh_requests(flows, tuned, 10, 0)["pair"].tolist() == ["b", "d"]
    assert len(page.fresh_requests(flows, tuned, 1, 0)) == 1


def test_groups_of_requests(flows):
    reworded = pd.DataFrame({"pair": ["c"], "request": ["other"], "dsl": ["two"], "apis": [["f.New"]]})
    training = flows[flows["split"] == "training"]
    groups = page.groups_of_requests(page.asked_requests(flows, reworded), training, ["a"])
    assert {name: list(pairs) for name, pairs in groups.items()} == {
        "same flow in training": ["b"],
        "flow not in training": ["c", "d"],
        "rarest API: rare": ["c"],
        "rarest API: middling": ["b"],
        "rarest API: common": ["d"],
        "one or two calls": ["b", "d"],
        "three calls or more": ["c"],
        "with a condition": ["c"],
        "reworded by people": ["c reworded"],
        "the same, as composed": ["c"],
        "held-out APIs": ["e"],
        "all test requests": ["b", "c", "d"],
        "training requests": ["a"],
    }


def test_too_few_requests_make_no_thirds(flows):
    assert page.thirds_by_rarity(flows[1:3], flows[:1]).tolist() == ["rare", "rare"]


def test_the_finding_says_what_tst_changes_and_where(values):
    cells = page.cells_of(values)
    test = ("all test requests", 10, 0.5, 0.4, 0.1, 0.05, 0.15, 0.01, 0.02)
    said = page.finding(cells, grouped(test), [5, 20], 600, 3000)
    assert said == (
        "Few-shots for 10 workflow requests out of 600 pairs: target similarity tuning on 3,000 pairs, 3.0% of the "
        "paper's 100,000, changes the Jaccard similarity of 5 few-shots with the right flow by **0.100 [0.050, "
        "0.150]** (pretrained 0.40, oracle 0.90). 20 few-shots by TST show 50% of the wanted APIs."
    )
    own = ("training requests", 10, 0.5, 0.4, 0.2, 0.1, 0.3, 0.01, 0.02)
    said = page.finding(cells, grouped(test, own), [5, 20], 600, 0)
    assert "target similarity tuning on no pair, changes" in said
    assert (
        "**0.100 [0.050, 0.150]** on test requests and by 0.200 [0.100, 0.300] on training requests that it was not "
        "tuned on (pretrained" in said
    )


def test_the_better_encoder_is_the_one_that_shows_more(values):
    cells = page.cells_of(values)
    assert page.best_encoder(cells, 20) == "tst"
    assert page.best_encoder(cells.where(cells.index.get_level_values("method") != "tst", 0.0), 20) == "pretrained"
    assert page.best_encoder(cells * 0, 20) == "pretrained"
