"""Claims: what the file may say, what the scores say of them, and the word that follows from the interval."""

import numpy as np
import pandas as pd
import pytest

from lib.evaluation.claims import WORDS, Claim, add_holm, evaluate, read_claims, side_by_side, word
from lib.evaluation.inference import Resampling, difference_interval, holm_adjust, ratio_interval, sign_flip_test
from lib.workbook.inputs import InputError

HOLDS, REVERSED, NO_DIFFERENCE, NOT_SHOWN, NOT_TESTABLE = WORDS
NONE = pd.DataFrame(columns=["method", "metric", "k", "value"])
NEED = np.repeat([f"need {n}" for n in range(30)], [20, *[1, 2, 3] * 9, 4, 5])
N = len(NEED)


def claim(**fields) -> Claim:
    """Fine-tuned search finds more than semantic search at K = 3, or what `fields` say."""
    usual = {
        "claim": "one", "paper": "assistant", "source": "section 4", "statement": "More.", "scores": "context_scores",
        "metric": "recall", "test": "greater", "a": "finetuned", "b": "semantic", "cutoffs": [3],
    }  # fmt: skip
    return Claim.model_validate(usual | fields)


def scores(**methods) -> pd.DataFrame:
    """Recall at K = 3 of `N` queries about 30 needs."""
    parts = [
        pd.DataFrame({"query": range(N), "need": NEED, "method": name, "metric": "recall", "k": 3, "value": values})
        for name, values in methods.items()
    ]
    return pd.concat(parts, ignore_index=True)


def some(mean: float, seed: int, spread: float = 15) -> np.ndarray:
    return np.clip(mean + spread * np.random.default_rng(seed).normal(size=N), 0, 100)


def row(one: Claim, table: pd.DataFrame, published: pd.DataFrame = NONE, **options) -> pd.Series:
    return evaluate([one], table, published, 500, 0, **options).iloc[0]


@pytest.mark.parametrize(
    ("test", "low", "high", "expected"),
    [
        ("greater", 0.1, 5, HOLDS),
        ("less", 0.1, 5, REVERSED),
        ("less", -5, -0.1, HOLDS),
        ("less", 0, 5, NO_DIFFERENCE),
        ("same", -3.9, 3.9, HOLDS),
        ("same", -4.1, 1, NOT_SHOWN),
        ("same", -9, -4.1, REVERSED),
        ("ratio", 0.8, 1.2, NO_DIFFERENCE),
        ("greater", np.nan, np.nan, NOT_TESTABLE),
    ],
)
def test_the_word_follows_from_the_interval_and_the_margin(test, low, high, expected):
    assert word(test, low, high, 4.0 if test == "same" else None) == expected


def test_a_row_is_the_difference_over_topics_and_its_test():
    a, b = some(70, 1), some(60, 2)
    found = row(claim(), scores(finetuned=a, semantic=b))
    over = Resampling(NEED, 500, 0)
    assert tuple(found[["effect", "ci_low", "ci_high"]]) == tuple(difference_interval(a, b, over))
    assert found["p_value"] == sign_flip_test(a, b, over)
    assert found["over_queries"] == pytest.approx((a - b).mean())
    assert found["comparator"] == pytest.approx(pd.Series(b).groupby(NEED).mean().mean())
    assert (found["n_topics"], found["n"], found["share"], found["unit"]) == (30, N, 1, "points")


def test_a_ratio_has_its_own_interval_and_the_test_of_the_difference():
    a, b = some(70, 1), some(35, 2)
    found = row(claim(test="ratio", size=3.5), scores(finetuned=a, semantic=b))
    over = Resampling(NEED, 500, 0)
    assert tuple(found[["effect", "ci_low", "ci_high"]]) == tuple(ratio_interval(a, b, over))
    assert found["p_value"] == sign_flip_test(a, b, over)
    assert (found["published"], found["inside"], found["word"]) == (3.5, False, HOLDS)


def test_the_published_effect_is_compared_with_ours_over_queries():
    """One need has 20 of the queries and all of the effect: over queries 40 points, over topics far fewer."""
    b = np.full(N, 50.0) + np.arange(N) % 2
    a = np.clip(b + np.where(NEED == "need 0", 40.0, 0.0) + some(0, 3, 4) - 2, 0, 100)
    printed = pd.DataFrame({"method": ["finetuned", "semantic"], "metric": "recall", "k": 3, "value": [60.0, 49.0]})
    found = row(claim(), scores(finetuned=a, semantic=b), printed)
    assert found["published"] == pytest.approx(11)
    assert found["over_queries"] > found["ci_high"]
    assert found["inside"]
    assert row(claim(), scores(finetuned=a, semantic=b))["inside"] is pd.NA, "nothing is published"


def test_rates_over_parsed_flows_are_compared_on_the_flows_that_both_parse():
    """The one flow with a made-up name does not parse on the other side, where it says nothing."""
    a, b = np.full(N, 0.0), np.full(N, 50.0)
    a[0], b[0] = 100.0, np.nan
    found = row(claim(), scores(finetuned=a, semantic=b))
    assert (found["effect"], found["n"], found["share"]) == (-50, N - 1, (N - 1) / N)


def test_each_cutoff_is_a_row_and_a_comparator_may_have_another_one():
    table = scores(finetuned=some(60, 1), semantic=some(50, 2))
    later = table.assign(k=5, value=table["value"] + 1)
    rows = evaluate([claim(cutoffs=[3, 5])], pd.concat([table, later]), NONE, 50, 0)
    assert rows["k"].tolist() == [3, 5]
    growth = claim(a="semantic", b="semantic", cutoffs=[5], against_k=3)
    assert row(growth, pd.concat([table, later]))["effect"] == pytest.approx(1)
    both = side_by_side(rows, evaluate([claim(cutoffs=[3, 10])], table, NONE, 50, 0))
    assert both[["k", "here_effect", "there_n"]].to_numpy().tolist() == [[3, rows["effect"][0], N]]


def test_a_side_that_is_not_fit_makes_a_claim_not_testable_whatever_its_interval():
    unfit = {("semantic", 3): "a stand-in"}
    found = row(claim(), scores(finetuned=some(90, 1), semantic=some(10, 2)), unfit=unfit)
    assert (found["word"], found["reason"]) == (NOT_TESTABLE, "a stand-in")
    assert found["ci_low"] > 0


def test_sameness_is_tested_against_the_nearer_margin():
    a, b = some(52, 1, 5), some(50, 2, 5)
    found = row(claim(test="same", margin=4.0), scores(finetuned=a, semantic=b))
    assert found["p_value"] == max(sign_flip_test(a - b, end, Resampling(NEED, 500, 0)) for end in (-4, 4))


@pytest.mark.parametrize(("value", "end"), [(0.0, "floor"), (100.0, "ceiling")])
def test_both_sides_at_the_floor_or_the_ceiling_are_not_testable(value, end):
    a, b = np.full((2, N), value)
    b[-1] = 50.0
    found = row(claim(test="less"), scores(finetuned=a, semantic=b))
    assert (found["word"], found["reason"].partition(":")[0]) == (NOT_TESTABLE, end)


def test_holm_is_over_all_testable_claims_of_a_paper():
    rows = pd.DataFrame(
        {
            "paper": ["assistant"] * 4 + ["workflow"],
            "word": [HOLDS, NO_DIFFERENCE, NOT_TESTABLE, REVERSED, HOLDS],
            "p_value": [0.01, 0.3, 0.0001, 0.02, 0.04],
        }
    )
    found = add_holm(rows)
    assert found["p_holm"][[0, 1, 3]].tolist() == holm_adjust([0.01, 0.3, 0.02]).tolist()
    assert np.isnan(found["p_holm"][2])
    assert found["star"].tolist() == [True, False, False, True, True]


@pytest.mark.parametrize(
    ("fields", "problem"),
    [({"test": "same"}, "margin"), ({"about": "writer"}, "about"), ({"scores": "context_score"}, "scores")],
)
def test_a_file_that_cannot_be_used_names_claim_and_field(tmp_path, fields, problem):
    record = claim().model_dump(exclude_none=True)
    path = tmp_path / "claims.yaml"
    path.write_text(f"- {record}\n- {record | {'claim': 'two'} | fields}")
    with pytest.raises(InputError, match=rf"record 2.*{problem}"):
        read_claims(path)
    path.write_text(f"- {record}\n- {record}")
    with pytest.raises(InputError, match="one stands twice"):
        read_claims(path)
