"""How much a seed moves a method: means, spreads and intervals over queries and seeds."""

import numpy as np
import pandas as pd
import pytest

from lib.assistant import training_seeds as module
from lib.assistant.pages import training_seeds as page
from lib.assistant.ranker_ablation import WITH_FINETUNED
from lib.assistant.training_seeds import OURS, PAIRS, over_seeds
from lib.evaluation.inference import Resampling
from lib.evaluation.intervals import difference_interval, mean_interval
from lib.evaluation.over_seeds import in_rows, widened

N = 60


def table_of(columns):
    frame = pd.DataFrame({(name, "recall", 3): values for name, values in columns.items()})
    frame.columns = frame.columns.set_names(["method", "metric", "k"])
    return frame


@pytest.fixture
def resampling():
    rng = np.random.default_rng(0)
    return Resampling([rng.integers(0, 20, N), rng.integers(0, 15, N)], 100, 0)


def base():
    return np.random.default_rng(1).uniform(0, 100, N)


def test_a_seed_that_changes_nothing_adds_nothing(resampling):
    same = base()
    own, further = table_of({OURS: same}), table_of({f"{OURS}/1": same, f"{OURS}/2": same})
    values, changes = over_seeds(own, further, resampling, 3)
    assert changes.empty
    row = values.iloc[0]
    assert (row["of"], row["seeds"], row["n"], row["spread"]) == (OURS, 3, N, 0)
    low, high = mean_interval(same, resampling)
    assert row[["value", "ci_low", "ci_high"]].tolist() == pytest.approx([same.mean(), low, high])


def test_a_seed_that_moves_the_mean_widens_the_interval(resampling):
    own = table_of({OURS: base()})
    further = table_of({f"{OURS}/1": base() - 6, f"{OURS}/2": base() + 6})
    row = over_seeds(own, further, resampling, 3)[0].iloc[0]
    low, high = mean_interval(base(), resampling)
    assert row["spread"] == pytest.approx(6)
    assert row["value"] == pytest.approx(base().mean())
    wider = widened((high - low) / 2, 14, 6 / np.sqrt(3), 2)
    assert wider > 1
    assert row["ci_high"] - row["value"] == pytest.approx(wider * (high - base().mean()))
    assert row["value"] - row["ci_low"] == pytest.approx(wider * (base().mean() - low))
    assert (row["lowest"], row["highest"]) == pytest.approx((base().mean() - 6, base().mean() + 6))


def test_differences_are_paired_by_query_and_seed(resampling):
    """Both move with the seed by the same: their difference does not."""
    moves = {"": 0, "/1": -5, "/2": 5}
    own = table_of({OURS: base(), "lambdamart": base() - 2})
    further = table_of(
        {f"{name}{seed}": base() - off + move for name, off in ((OURS, 0), ("lambdamart", 2))
         for seed, move in moves.items() if seed}
    )  # fmt: skip
    values, changes = over_seeds(own, further, resampling, 3)
    assert values["of"].tolist() == ["lambdamart", OURS]
    assert changes["of"].tolist() == [(OURS, "lambdamart")]
    row = changes.iloc[0]
    ends = difference_interval(base(), base() - 2, resampling)
    assert row[["value", "ci_low", "ci_high", "spread"]].tolist() == pytest.approx([2, *ends, 0])
    rows = in_rows(values, changes)
    assert rows["of"].tolist() == ["lambdamart", OURS, f"{OURS} - lambdamart"]
    assert page.table(values, {}, "Recall@3").frame["standard deviation"].tolist() == pytest.approx([5, 5])
    shown = page.changes_table(changes, {}, "Recall@3").frame
    assert shown["difference"].tolist() == ["LambdaMART, two stages (ours) − LambdaMART"]
    said = page.in_words(values, changes, {})
    assert said.startswith("No seed turns the sign of one of these differences. No difference is clear of zero. The ")
    assert said.endswith(" most, by a standard deviation of 5.0 points.")
    named = {OURS: "ours", "lambdamart": "its first stage"}
    elsewhere = values.assign(of=["query_only/lambdamart", WITH_FINETUNED])
    names = {"query_only/lambdamart": "the query alone"}  # no method of any table
    assert page.table(elsewhere, names, "Recall@3").frame["method"].tolist() == ["the query alone", WITH_FINETUNED]
    assert page.changes_table(changes, named, "Recall@3").frame["difference"].tolist() == ["ours − its first stage"]
    clear = page.in_words(values, changes.assign(ci_low=1.0), {})
    assert "clear of zero: LambdaMART, two stages (ours) − LambdaMART 2.0 [1.0, " in clear


def test_an_order_that_turns_is_named(resampling):
    own = table_of({OURS: base(), "lambdamart": base() - 1})
    further = table_of(
        {f"{OURS}/1": base(), f"{OURS}/2": base(), "lambdamart/1": base() + 4, "lambdamart/2": base() - 4}
    )
    said = page.in_words(*over_seeds(own, further, resampling, 3), {})
    assert "The sign turns with the seed for LambdaMART, two stages (ours) − LambdaMART" in said
    assert " No difference is clear of zero. " in said


def test_a_method_without_further_seeds_is_left_out(resampling):
    own = table_of({OURS: base(), "finetuned": base()})
    further = table_of({f"{OURS}/1": base()})
    values, changes = over_seeds(own, further, resampling, 3)
    assert values["of"].tolist() == [OURS]
    assert changes.empty
    assert page.in_words(values.head(0), changes, {}) == "No method was trained with further seeds."


def test_every_pair_is_of_methods():
    assert {name for pair in PAIRS for name in pair} <= set(module.METHODS)
