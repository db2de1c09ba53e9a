"""Claims of several notebooks as one family, and verdicts that another processor might turn."""

import math
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lib.evaluation.claim_records import RECORD, read_claims
from lib.evaluation.claims import decide
from lib.evaluation.families import close_calls, evidence_of, measured_wobbles, one_family, read_wobbles
from lib.evaluation.inference import holm_adjust
from lib.evaluation.judgement import Evidence

ROOT = Path(__file__).parents[2]


def claim(name, **changes):
    record = {
        "claim": name, "paper": "assistant", "source": "section 4", "statement": "a beats b", "scores": "scores",
        "metric": "recall", "a": ["a"], "b": "b", "cutoffs": [3], "test": "greater", "margin": 2.0,
    }  # fmt: skip
    return RECORD.validate_python(record | changes)


def shows(effect, p, se=1.0, k="3", method="a", **changes):
    numbers = {"effect": effect, "ci_low": effect - 1.96 * se, "ci_high": effect + 1.96 * se, "se": se, "p_value": p}
    return Evidence(method=method, k=k, n=500, clusters=400, published=10.0, other=40.0, **(numbers | changes))


def verdicts_of(claims, cells):
    return decide(claims, [{cell.k: [cell] for cell in row} for row in cells])


def close(claims, cells, wobbles):
    family = one_family(verdicts_of(claims, cells), claims)
    return close_calls(family, claims, wobbles)


# ---------------------------------------------------------------- one family


def test_holm_covers_the_claims_of_all_notebooks():
    """Each notebook's one claim is settled alone at p = .03; together with the other it is not."""
    claims = [claim("one"), claim("two")]
    cells = [[shows(8, 0.03)], [shows(8, 0.04)]]
    apart = pd.concat([verdicts_of(claims[:1], cells[:1]), verdicts_of(claims[1:], cells[1:])], ignore_index=True)
    assert apart["verdict"].tolist() == ["reproduced", "reproduced"]
    together = one_family(apart.assign(notebook=["05", "06"]), claims)
    assert together["p_value"].tolist() == holm_adjust([0.03, 0.04]).tolist()
    assert together["verdict"].tolist() == ["undecided", "undecided"]
    assert together["alone"].tolist() == ["reproduced", "reproduced"]
    assert together["notebook"].tolist() == ["05", "06"]
    assert (together["n_needed"] > 500).all()


def test_one_notebook_is_a_family_already():
    claims = [claim("one", cutoffs=[3, 10]), claim("two", test="same", margin=5.0)]
    cells = [[shows(8, 0.001), shows(1, 0.6, k="10")], [shows(1, 0.001)]]
    alone = verdicts_of(claims, cells)
    pd.testing.assert_frame_equal(one_family(alone, claims)[list(alone)], alone)


def test_evidence_survives_a_file(tmp_path):
    """Also where there is nothing to test on, whose numbers are missing or infinite."""
    claims = [claim("one"), claim("two")]
    rows = [{"3": [shows(8, 0.03), shows(9, 0.02, method="c")]}, {"": [Evidence()]}]
    table = decide(claims, rows)
    table.to_parquet(tmp_path / "claims.parquet")
    for row, expected in zip(pd.read_parquet(tmp_path / "claims.parquet").to_dict("records"), rows, strict=True):
        found = evidence_of(row)
        assert list(found) == list(expected)
        for k, cells in expected.items():
            for one, other in zip(found[k], cells, strict=True):
                np.testing.assert_equal(asdict(one), asdict(other))


def test_a_claim_that_is_not_known_is_named():
    table = verdicts_of([claim("one")], [[shows(8, 0.03)]])
    with pytest.raises(KeyError, match="one"):
        one_family(table, [claim("two")])


# ---------------------------------------------------------------- processors


def test_the_wobble_is_the_largest_over_cutoffs(tmp_path):
    table = pd.DataFrame(
        [("a", "recall", 3, 37.0, 34.6), ("a", "recall", 5, 40.0, 40.1), ("b", "ndcg", 3, 1.0, 1.5)],
        columns=["method", "metric", "k", "one", "other"],
    )
    expected = {("a", "recall"): pytest.approx(2.4), ("b", "ndcg"): pytest.approx(0.5)}
    assert measured_wobbles(table) == expected
    path = tmp_path / "processors.csv"
    assert read_wobbles(path) == {}
    path.write_text("# how it was measured\n" + table.to_csv(index=False))
    assert read_wobbles(path) == expected


def test_the_projects_measurements_are_of_rows_that_claims_are_about_and_of_our_rankers():
    wobbles = read_wobbles(ROOT / "data" / "processors.csv")
    claims = [claim for claim in read_claims(ROOT / "data" / "claims.yaml") if claim.paper == "assistant"]
    methods = {method for claim in claims for method in [*claim.a, getattr(claim, "b", "")]}
    assert "lambdamart_2" in {method for method, _ in wobbles} - methods
    assert {metric for _, metric in wobbles} <= {claim.metric for claim in claims}
    assert max(wobbles.values()) > 0


@pytest.mark.parametrize(
    ("wobbles", "turns", "wobble"),
    [
        ({}, "", 0.0),
        ({("a", "ndcg"): 9.0}, "", 0.0),  # another metric
        ({("a", "recall"): 0.1}, "", 0.1),
        ({("a", "recall"): 0.3}, "same direction", 0.3),  # 2.2 ± 1.96
        ({("a", "recall"): 0.15, ("b", "recall"): 0.15}, "same direction", 0.3),
    ],
)
def test_a_verdict_is_close_where_the_interval_could_reach_its_threshold(wobbles, turns, wobble):
    (row,) = close([claim("one")], [[shows(2.2, 0.03)]], wobbles).to_dict("records")
    assert row["verdict"] == "reproduced"
    assert (row["turns"], row["wobble"]) == (turns, pytest.approx(wobble))
    assert [one["turns"] for one in row["rows"]] == [turns]


def test_the_p_value_moves_with_the_effect():
    """Far from zero by its interval, but Holm's adjustment over ten tests hangs on a tenth of a standard error."""
    claims = [claim(f"c{number}") for number in range(10)]
    cells = [[shows(2.85, 0.0048)], *[[shows(0.1, 0.9)]] * 9]
    near = close(claims, cells, {("a", "recall"): 0.2}).iloc[0]
    assert (near["verdict"], near["turns"]) == ("reproduced", "undecided")
    clear = close(claims, [[shows(8, 1e-4)], *cells[1:]], {("a", "recall"): 0.2}).iloc[0]
    assert (clear["verdict"], clear["turns"]) == ("reproduced", "")


def test_each_cutoff_is_close_by_itself():
    cells = [[shows(2.1, 0.03), shows(9, 1e-4, k="10")]]
    (row,) = close([claim("one", cutoffs=[3, 10])], cells, {("a", "recall"): 0.5}).to_dict("records")
    assert [one["turns"] for one in row["rows"]] == [row["turns"], ""]
    assert row["turns"]


def test_a_ratios_wobble_is_in_its_own_unit():
    """1 point more of a, or fewer of b, where b has 40: a ratio of 1.5 moves by (1 + 1.5) / 40."""
    ratio = claim("one", test="ratio", size=1.4)
    cells = [[shows(1.5, 1e-4, se=0.1)]]
    row = close([ratio], cells, {("a", "recall"): 1.0, ("b", "recall"): 1.0}).iloc[0]
    assert row["wobble"] == pytest.approx(2.5 / 40)


def test_what_can_settle_nothing_stays():
    few = Evidence(method="a", k="3", n=3, clusters=3, effect=2.0, se=1.0)
    row = close([claim("one")], [[few]], {("a", "recall"): 5.0}).iloc[0]
    assert (row["verdict"], row["turns"]) == ("underpowered", "")
    assert math.isinf(few.detectable)
