import numpy as np
import pandas as pd
import pytest

from lib.evaluation.inference import wilson_interval
from lib.workflows.repair_asking import ask
from lib.workflows.repair_costs import BUDGETS, OWN, REPAIR, at_budget, compare, curve, penalty, repairs
from lib.workflows.repair_ways import HELD, QUALITY, ways
from tests.workflows.repair_worlds import ASKED, ASKING, CATALOGUE, GOLD, MADE_UP, OTHER, PROMPTS, told


def way(name, n, values, tokens, seconds):
    """A way whose flows all have this similarity, or each its own."""
    values = np.broadcast_to(values, 8).astype(float)
    return pd.DataFrame(
        {
            "model": "finetuned", "test_set": "unseen", "way": name, "n": n, "unit": [f"q{i}" for i in range(8)],
            "similarity": values, "valid": (values > 0).astype(float), "executed": (values == 1).astype(float),
            "tokens_in": tokens - 10.0, "tokens_out": 10.0, "tokens": float(tokens), "seconds": float(seconds),
            "text": None,
        }
    )  # fmt: skip


@pytest.fixture(scope="module")
def study():
    """Constrained decoding costs 30 tokens, two and a half samples, and 1 second, half a sample."""
    samples = [way("best", n, 0.2 * n, 12 * n, 2 * n) for n in range(1, 5)]
    snapped = [way("best_snapped", n, 0.25 * n, 12 * n, 2 * n) for n in range(1, 5)]
    alone = [
        way("free", 1, 0.1, 20, 0.5),
        way("snapped", 1, 0.3, 20, 0.6),
        way("reasked", 1, 0.5, 60, 2.5),
        way(HELD, 1, [0, 0, 0, 0, 0, 0, 0, 1], 30, 1),
    ]
    return pd.concat([*alone, *samples, *snapped], ignore_index=True)


def test_the_budget_is_spent_whole(study):
    tokens = at_budget(study, "tokens").groupby("way").mean(numeric_only=True)
    assert tokens.loc["best", "n"] == pytest.approx(2.5)
    assert tokens.loc["best", "similarity"] == pytest.approx(0.5)
    assert tokens.loc["best_snapped", "similarity"] == pytest.approx(0.625)
    assert tokens.loc["reasked", "n"] == pytest.approx(0.25)  # of the second prompts
    assert tokens.loc["reasked", "similarity"] == pytest.approx(0.1 + 0.25 * 0.4)
    assert tokens["tokens"].tolist() == pytest.approx([30] * 3)


def test_a_budget_outside_the_prices_takes_the_nearest(study):
    seconds = at_budget(study, "seconds").groupby("way").mean(numeric_only=True)
    assert seconds.loc["best", ["n", "similarity", "seconds"]].tolist() == pytest.approx([1, 0.2, 2])
    rich = study.assign(tokens=study["tokens"].where(study["way"] != HELD, 1000.0))
    assert at_budget(rich, "tokens").groupby("way")["n"].first().to_dict() == {
        "best": 4,
        "best_snapped": 4,
        "reasked": 1,
    }


def test_the_budget_is_that_of_the_flows_with_samples(study):
    few = study[(study["way"].isin(["free", "snapped", "reasked", HELD])) | (study["unit"] == "q0")]
    few = few.assign(tokens=few["tokens"].where((few["way"] != HELD) | (few["unit"] == "q0"), 100.0))
    found = at_budget(few, "tokens").set_index("way")
    assert found.loc["best", "n"] == pytest.approx(2.5)
    assert found.loc["reasked", "n"].iloc[0] == 1


def test_without_samples_only_the_second_prompt_has_a_price(study):
    alone = study[~study["way"].str.startswith("best")]
    assert set(at_budget(alone, "tokens")["way"]) == {"reasked"}
    table = compare(alone, 200, 0)
    assert set(table.loc[table["budget"] == OWN, "way"]) == {"free", "snapped", "reasked", HELD}


def test_every_way_beside_constrained_decoding(study):
    table = compare(study, 500, 0)
    assert list(table.columns) == REPAIR
    own = table[table["budget"] == OWN].set_index(["way", "metric"])
    assert set(own.index.unique("way")) == {"free", "snapped", "reasked", "best", "best_snapped", HELD}
    assert own.loc[("best", "similarity"), "value"] == pytest.approx(0.8)
    assert own.loc[("best", "similarity"), "n"] == 4
    assert own.loc[("best", "similarity"), "delta"] == pytest.approx(0.8 - 0.125)
    assert own.loc[("best", "valid"), "delta"] == pytest.approx(100 * 7 / 8)
    assert own.loc[("best", "similarity"), "spent_tokens"] == pytest.approx(160)
    assert own.loc[("free", "similarity"), "spent_seconds"] == pytest.approx(50)
    assert own.loc[HELD, "p_value"].isna().all()
    tested = table.dropna(subset=["p_value"])
    assert len(tested) == len(QUALITY) * (5 + 2 * 3)
    assert (tested["p_holm"] >= tested["p_value"]).all()
    assert (table["ci_low"] <= table["value"] + 1e-9).all()
    assert (table["value"] <= table["ci_high"] + 1e-9).all()


def test_an_expected_share_of_hardly_any_hits_has_wilsons_interval(study):
    """Half of the budget's draws are right on one flow of eight, the others on none."""
    one = study.assign(executed=((study["unit"] == "q0") & (study["way"] == "best") & (study["n"] == 3)).astype(float))
    table = compare(one, 200, 0).set_index(["budget", "way", "metric"])
    row = table.loc[("tokens", "best", "executed")]
    assert row["value"] == pytest.approx(100 / 16)
    low, high = wilson_interval(0.5, 8)
    assert row[["ci_low", "ci_high"]].tolist() == pytest.approx([100 * low, 100 * high])


def test_budgets_are_rows_of_their_own(study):
    table = compare(study, 200, 0)
    for measure in BUDGETS:
        rows = table[(table["budget"] == measure) & (table["metric"] == "similarity")]
        assert rows["way"].tolist() == ["reasked", "best", "best_snapped"]
    tokens = table[table["budget"] == "tokens"]
    assert tokens["spent_tokens"].tolist() == pytest.approx([100] * 9)


def test_the_same_seed_gives_the_same_table(study):
    pd.testing.assert_frame_equal(compare(study, 200, 1), compare(study, 200, 1))


def test_models_and_test_sets_stay_apart(study):
    both = pd.concat([study, study.assign(model="in_context", similarity=0.0)], ignore_index=True)
    table = compare(both, 200, 0)
    other = table[(table["model"] == "in_context") & (table["metric"] == "similarity")]
    assert (other["value"] == 0).all()
    assert len(table) == 2 * len(compare(study, 200, 0))
    assert table["p_holm"].max() <= 1


def test_the_curve_is_over_the_flows_with_samples(study):
    few = study[~study["way"].str.startswith("best") | study["unit"].isin(["q6", "q7"])]
    table = curve(few, 200, 0)
    assert set(table["flows"]) == {2}
    held = table[(table["way"] == HELD) & (table["metric"] == "similarity")].iloc[0]
    assert held["value"] == pytest.approx(0.5)
    best = table[(table["way"] == "best") & (table["metric"] == "similarity")]
    assert best["n"].tolist() == [1, 2, 3, 4]
    assert best["value"].tolist() == pytest.approx([0.2, 0.4, 0.6, 0.8])
    assert best["tokens"].tolist() == [12, 24, 36, 48]
    assert table.loc[table["metric"] == "valid", "value"].max() == 100


def test_answers_of_a_model_are_compared_from_end_to_end():
    answers = ask(PROMPTS, "finetuned", told(), CATALOGUE, ASKING).assign(model="finetuned")
    table = compare(ways(answers, ASKED, CATALOGUE), 200, 0).set_index(["budget", "way", "metric"])
    assert table.loc[(OWN, "snapped", "executed"), "value"] == pytest.approx(200 / 3)
    assert table.loc[(OWN, "best", "executed"), "flows"] == 2


# ---------------------------------------------------------------- what was repaired


def repaired(*texts):
    units = [f"q{i}" for i in range(len(texts))]
    answers = pd.DataFrame({"model": "m", "test_set": "t", "unit": units, "way": "free", "text": texts})
    return repairs(answers, ASKED, CATALOGUE)


def test_a_snapped_name_is_right_where_the_right_flow_calls_it():
    found = repaired(GOLD, MADE_UP, MADE_UP.replace("chat.Pots", "mail.Sent"))
    assert found[["unit", "kind", "after", "right"]].to_numpy().tolist()[:2] == [
        ["q1", "name", "shared_chat.Post", True],
        ["q2", "name", "shared_mail.Send", False],
    ]


def test_a_snapped_key_is_right_where_the_right_call_has_it():
    found = repaired(GOLD.replace('"message"', '"mesage"'), OTHER.replace('"to"', '"tos"'))
    assert found[["kind", "before", "after", "right"]].to_numpy().tolist() == [
        ["key", "mesage", "message", True],
        ["key", "tos", "to", False],
    ]


def test_a_mended_text_is_right_where_its_calls_are():
    found = repaired(GOLD[:-3], GOLD[:-4], "Sorry")
    assert found[["kind", "right"]].to_numpy().tolist() == [["closed", True], ["cut", False], ["left", False]]


def test_other_answers_are_not_looked_at():
    answers = pd.DataFrame({"model": "m", "test_set": "t", "unit": ["q0"], "way": ["sample"], "text": ["Sorry"]})
    assert repairs(answers, ASKED, CATALOGUE).empty


def test_the_end_of_the_penalty_is_told_from_repair():
    """A made-up name beside a right one: half the calls are right before any repair, all of them after it."""
    answers = ask(PROMPTS, "finetuned", told(), CATALOGUE, ASKING).assign(model="finetuned")
    row = penalty(ways(answers, ASKED, CATALOGUE), ASKED).iloc[0]
    assert row["flows"] == 3
    assert row[["free", "lifted", "snapped"]].tolist() == pytest.approx([1.5 / 3, 2 / 3, 2.5 / 3])
