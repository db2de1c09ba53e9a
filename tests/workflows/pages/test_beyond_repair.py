import re

import matplotlib.pyplot as plt
import pandas as pd
import pytest

from lib.workflows.pages.beyond_repair import (
    curve_finding,
    equal_cost_in_words,
    equal_cost_table,
    finding,
    repair_drawing,
    repair_in_words,
    repair_table,
    way_label,
)
from lib.workflows.repair_costs import compare, curve
from lib.workflows.repair_ways import HELD
from tests.workflows.test_repair_costs import way


@pytest.fixture(scope="module")
def made():
    """Snapping is right on all flows, constrained decoding on none; three samples cost what it does."""
    parts = [
        way("free", 1, 0.25, 20, 0.5),
        way("snapped", 1, 1.0, 20, 0.5),
        way("reasked", 1, 0.25, 60, 1.5),
        way(HELD, 1, 0.0, 30, 1),
        *(way(name, n, 0.3, 10 * n, 0.5 * n) for n in range(1, 5) for name in ("best", "best_snapped")),
    ]
    return pd.concat(parts, ignore_index=True)


@pytest.fixture(scope="module")
def compared(made):
    return compare(made, 200, 0)


def test_names_of_ways():
    assert way_label("best", 8.0) == "best of 8"
    assert way_label("best_snapped", 2.46) == "best of 2.5, snapped"
    assert way_label(HELD, 1) == "constrained"
    assert way_label("best", 1.04) == "one draw"
    assert way_label("best_snapped", 1) == "one draw, snapped"


def test_the_table_of_ways(compared):
    table = repair_table(compared)
    rows = table.frame.set_index("way")
    assert rows.index.tolist() == ["free", "free, snapped", "free, asked again", "constrained", "best of 4",
                                   "best of 4, snapped"]  # fmt: skip
    assert rows.loc["free, snapped", "similarity"].startswith("1.00 [")
    assert rows.loc["free, snapped", "Δ similarity"].startswith("+1.00 [")
    assert rows.loc["constrained", "Δ similarity"] == "–"
    assert rows["tokens written"].tolist() == [10] * 6
    assert rows["seconds"].tolist() == [0.5, 0.5, 1.5, 1, 2, 2]
    assert set(rows["requests"]) == {"APIs held out of training"}
    assert "33 tests" in table.caption


def test_what_has_fewer_flows_is_told_beside_constrained_decoding_on_these(made, compared):
    assert "drawn for the first flows alone" not in repair_table(compared).caption
    held = made["way"] == HELD
    right = made.assign(similarity=made["similarity"].mask(held & (made["unit"] == "q0"), 1.0))
    right["executed"] = right["executed"].mask(held & (made["unit"] == "q0"), 1.0)
    few = right[~made["way"].str.startswith("best") | made["unit"].isin(["q0", "q1"])]
    caption = repair_table(compare(few, 200, 0)).caption
    assert "fine-tuned model, APIs held out of training, 2 flows: similarity 0.50, executed right 50%." in caption


def test_settled_differences_are_marked(compared):
    settled = compared.assign(p_holm=compared["p_value"])
    marked = repair_table(settled).frame.set_index("way")["Δ similarity"].str.endswith("●")
    assert marked["free, snapped"]
    assert not marked["constrained"]
    hopeless = repair_table(compared.assign(p_holm=1.0)).frame["Δ similarity"]
    assert not hopeless.str.contains("●").any()


def test_the_table_at_equal_cost(compared):
    frame = equal_cost_table(compared).frame
    assert frame["budget"].tolist() == ["equal tokens"] * 5 + ["equal seconds"] * 5
    assert frame["way"].tolist() == [
        "free, snapped", "constrained", "25% of those not valid asked again", "best of 3", "best of 3, snapped",
        "free, snapped", "constrained", "50% of those not valid asked again", "best of 2", "best of 2, snapped",
    ]  # fmt: skip
    assert frame["spent, %"].tolist() == [67, 100, 100, 100, 100, 50, 100, 100, 100, 100]
    own = repair_table(compared).frame.set_index("way")["similarity"]
    assert frame.set_index("way").loc["constrained", "similarity"].tolist() == [own["constrained"]] * 2


def test_the_figure_has_a_panel_for_tokens_and_one_for_seconds(made):
    rows = curve(made, 200, 0)
    drawing = repair_drawing(rows)
    assert drawing.name == "dsl_repair_similarity"
    assert len(drawing.figure.axes) == 2
    assert drawing.finding == (
        "Best of 4 against constrained decoding, similarity: fine-tuned model, APIs held out of training: 0.30 against "
        "0.00 for 1.3 times the tokens"
    )
    assert "constrained: 0.00" in drawing.alt
    assert set(drawing.data["metric"]) == {"similarity"}
    plt.close(drawing.figure)


def test_without_samples_the_figure_says_what_it_shows(made):
    rows = curve(made[~made["way"].str.startswith("best")], 200, 0)
    finding = curve_finding(rows[rows["metric"] == "executed"])
    assert finding == "Executed right, % and cost of repair and constrained decoding"


def test_the_words_on_ways(compared):
    settled = compared.assign(p_holm=compared["p_value"])
    text = repair_in_words(settled)
    assert "constrained decoding 0.00 [0.00, " in text
    assert "snapping the free answer 1.00" in text
    assert "for 50% of its seconds" in text
    assert "free, snapped above it in similarity by 1.00" in text
    assert "None of 15 differences from it is settled" in repair_in_words(compared.assign(p_holm=1.0))


def test_the_words_on_equal_cost(compared):
    text = equal_cost_in_words(compared.assign(p_holm=1.0))
    assert "pays for 3.0 samples at equal tokens and 2.0 samples at equal seconds" in text
    assert "none of 18 differences" in text


def test_the_finding_is_of_the_row_with_most_flows(made, compared):
    few = made.groupby(["way", "n"]).head(5).assign(test_set="test")
    both = compare(pd.concat([few, made], ignore_index=True), 200, 0)
    text = finding(both)
    assert text.startswith("Similarity of the fine-tuned model's flows, ")
    assert "APIs held out of training" in text
    assert "snapped to the catalogue 1.00 [" in text
    assert re.search(r"; executed right, in this order, \d+ \[\d+, \d+\]%, \d+ \[\d+, \d+\]%", text)
    assert finding(compared) == text
