import re

import matplotlib.pyplot as plt
import pandas as pd
import pytest

from lib.workflows.catalogue_size import percentiles
from lib.workflows.clause_retrieval import SCORES
from lib.workflows.pages import beyond_clauses as page

SEED, SAMPLES = 7, 200


@pytest.fixture
def cuts():
    """Of forty requests the learned cutter cuts 30 right, the rules 10; of ten of Flow-Bench only counts are known."""
    rows = []
    for cutter, right in (("rules", 10), ("learned", 30)):
        for i in range(40):
            good = float(i < right)
            rows.append(("test", cutter, f"p{i}", good, 1.0, 1.0, good, good, 1 + good, 2.0))
        rows += [("flow_bench", cutter, f"f{i}", *[float("nan")] * 4, 1.0, 2.0, 2.0) for i in range(10)]
    columns = ["sample", "cutter", "pair", "right", "found", "wanted", "exact", "same_count", "clauses", "calls"]
    return pd.DataFrame(rows, columns=columns)


def test_values_of_cuts(cuts):
    values = page.cut_values(cuts, SAMPLES, SEED)
    cells = values.set_index(["sample", "cutter", "metric"]).sort_index()
    assert cells.loc[("test", "learned"), "value"].to_dict() == pytest.approx(
        {"precision": 75, "recall": 75, "f1": 75, "exact": 75, "same_count": 75}
    )
    assert cells.loc[("flow_bench", "rules"), "value"].to_dict() == {"same_count": 100}
    assert cells.loc[("flow_bench", "rules", "same_count"), "ci_low"] < 80
    table = page.cuts_table(values)
    assert table.frame.loc[0, "F1, %"].startswith("25 [")
    assert table.frame["F1, %"].tolist()[-1] == "–"


def test_tests_of_cuts_are_paired_and_adjusted(cuts):
    tests = page.cut_tests(cuts, SAMPLES, SEED)
    assert len(tests) == 3, "exact is not known of Flow-Bench"
    assert (tests["p_holm"] >= tests["p_value"]).all()
    exact = tests[tests["metric"] == "exact"].iloc[0]
    assert (exact["difference"], exact["settled"]) == (50, True)
    said = page.cuts_in_words(page.cut_values(cuts, SAMPLES, SEED), tests, 400)
    assert "from 400 training requests" in said
    assert "all boundaries right, new wordings (50 [" in said
    nothing = page.cuts_in_words(page.cut_values(cuts, SAMPLES, SEED), tests.assign(settled=False), 400)
    assert nothing.endswith("No difference between them is settled.")


def test_examples_show_what_is_cut_wrong():
    pairs = pd.DataFrame({"pair": ["p"], "request": ["when a b, c d"], "clauses": [[[10, 13], [5, 8]]]})
    scores = pd.DataFrame({"pair": ["p"], "exact": [0.0]})
    table = page.cut_examples(pairs, scores, lambda _: [(0, 13)])
    assert table.frame.iloc[0].tolist() == ["when a b, c d", "when a b, c d", "a b | c d"]


@pytest.fixture
def scores():
    """Definitions by clause find 20 points more of forty requests; a set of few-shots as much, at a lower Jaccard."""
    rows = []
    sides = {
        "definitions": (("whole", 0.5, 0.6), ("learned", 0.7, 0.4)),
        "few-shots": (("nearest", 0.5, 0.6), ("set", 0.7, 0.4), ("near_set", 0.6, 0.6)),
    }
    for question, ways in sides.items():
        for way, share, near in ways:
            for i in range(40):
                wiggle = 0.01 * (i % 3)
                values = {"coverage": share + wiggle}
                if question == "few-shots":
                    values["jaccard"] = near + wiggle * (way == "set")
                rows += [(question, "pretrained", 5, "test", f"p{i}", way, metric, v) for metric, v in values.items()]
    return pd.DataFrame(rows, columns=SCORES)


def test_retrieval_by_clause(scores):
    values, tests = page.retrieval_values(scores, SAMPLES, SEED), page.retrieval_tests(scores, SAMPLES, SEED)
    assert values["n"].eq(40).all()
    coverage = tests[tests["metric"] == "coverage"]
    assert coverage["difference"].tolist() == pytest.approx([20, 20, 10])
    assert tests.loc[tests["way"] != "near_set", "settled"].all()
    assert page.retrieval_table(values, "definitions").frame["chosen"].tolist() == [
        "whole request", "by clause (learned cutter)"]  # fmt: skip
    said = page.retrieval_in_words(tests)
    assert "Of 1 differences in coverage by definitions 1 are settled (1 gain, 0 lose): 20.0 [" in said
    assert "of a set for coverage alone falls, settled, in 1 of 1" in said
    assert "of a set that stays alike falls, settled, in 0 of 1" in said
    drawing = page.retrieval_drawing(tests, "few-shots")
    assert drawing.finding == (
        "Few-shots as a set show more of the wanted APIs, settled in 2 of the 2 comparisons of them, fewer in 0; "
        "their mean Jaccard similarity falls, settled, in 1 of 2"
    )
    assert "definitions as beside 5 shots" in tests.loc[tests["question"] == "definitions", "comparison"].iloc[0]
    plt.close(drawing.figure)


def test_what_is_not_settled_is_not_claimed(scores):
    same = scores.assign(value=0.5)
    assert "none is settled" in page.retrieval_in_words(page.retrieval_tests(same, SAMPLES, SEED))


def test_lost_apis_are_named():
    requests = pd.DataFrame({"request": ["do a, b", "x"], "apis": [["a.1", "b.1"], ["c.1"]]})
    found = {"whole": [["a.1", "b.1"], ["c.1"]], "learned": [["a.1", "x.1"], ["c.1"]]}
    table = page.lost_table(requests, found, lambda text: [(0, len(text))], "learned")
    assert table.frame["lost"].tolist() == ["b.1"]
    assert "any of 1 of 2" in table.caption


def test_chosen_constants_are_marked():
    weights = pd.DataFrame({"n": [6, 6], "weight": [0.0, 1.0], "value": [0.5, 0.6], "chosen": [False, True]})
    assert page.definition_weights_table(weights).frame["wanted APIs, %"].tolist() == [50, 60]
    shots = pd.DataFrame(
        {
            "k": [5],
            "coverage": [0.5],
            "new": [0.1],
            "value": [0.5],
            "jaccard": [0.4],
            "set": [True],
            "near_set": [False],
        }
    )
    assert page.shot_weights_table(shots, "tst").frame.iloc[0].tolist() == [5, 0.5, 0.1, 50, 40, "●", ""]


@pytest.fixture
def recalls():
    rows = [
        (size, way, f"p{i}", "test", share + 0.01 * (i % 2))
        for size, way, share in ((700, "whole", 0.8), (700, "clauses", 0.8), (16_000, "whole", 0.4),
                                 (16_000, "clauses", 0.6))
        for i in range(30)
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=["size", "way", "pair", "sample", "share"])


def test_a_larger_catalogue(recalls):
    values, tests = page.size_values(recalls, SAMPLES, SEED), page.size_tests(recalls, SAMPLES, SEED)
    assert tests["difference"].tolist() == pytest.approx([0, 20])
    assert tests["settled"].tolist() == [False, True]
    drawing = page.size_drawing(values, 12)
    assert drawing.finding.startswith("Recall from 700 to 16,000 operations: by the whole request from 80% to 4")
    plt.close(drawing.figure)
    said = page.size_in_words(values, tests, 15_000, 15_300)
    assert "15,000 are operations of the catalogue under another connector's name" in said
    assert "20.0 [" in said
    assert "not settled" in page.size_in_words(values, tests.assign(settled=False), 1, 2)


def test_times():
    times = percentiles(pd.DataFrame({"cut": [1.0, 1], "encode": [20.0, 20], "search": [4.0, 4], "all": [25.0, 100]}))
    assert page.times_table(times, 16_000, "2 x").frame["median, ms"].tolist() == [1, 20, 4, 62.5]
    assert "on 2 x; encoder" in page.times_table(times, 16_000, "2 x").caption
    said = page.times_in_words(times, 16_000)
    assert said.startswith(
        "A request over 16,000 operations takes 62 ms in the median and 96 ms at the 95th percentile."
    )
    assert "The search itself takes 4 ms" in said


def test_the_finding_names_what_clauses_bring(scores):
    text = page.finding(page.retrieval_values(scores, SAMPLES, SEED))
    assert text.startswith("Searched clause by clause, definitions hold ")
    assert "(new wordings); " in text
    set_and_nearest = (
        r"as a set show .+% \(mean Jaccard 0\.\d\d\), .+ stay alike .+% .+, the nearest .+% \(mean Jaccard 0\.\d\d\)\.$"
    )
    assert re.search(set_and_nearest, text)


def test_where_no_clause_is_known_only_their_number_is_judged(cuts):
    """As of requests that people bring: the rules alone cut them."""
    unknown = cuts[cuts["cutter"] == "rules"].assign(right=None, found=None, wanted=None, exact=None)
    unknown = unknown.astype(dict.fromkeys(["right", "found", "wanted", "exact"], float))
    values = page.cut_values(unknown, SAMPLES, SEED)
    assert set(values["metric"]) == {"same_count"}
    frame = page.cuts_table(values).frame
    assert (frame["F1, %"] == "–").all()
    assert not frame["as many clauses as calls, %"].eq("–").any()
