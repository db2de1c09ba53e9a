import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from lib.evaluation.prices import Price
from lib.workflows.pages import beyond_cost as page
from lib.workflows.repair_rates import Rates
from tests.workflows.pages.studies import ROWS, scored

PRICE = Price(model="gpt-x", input=30, output=60, since="2023-03-14", source="a page")
SCORES = pd.concat(
    [
        scored("tst_5_fd_in_context", [0.5, 1.0, 0.5, 0.0], tokens_in=1190.0, tokens_out=90.0, seconds=14.0),
        scored("pretrained_5_gold_in_context", [1.0] * 4),
        scored("oracle_shots_5_in_context", [1.0] * 4),
        scored("no_shots_finetuned", [1.0, 1.0, 0.5, 1.0], tokens_in=45.0, tokens_out=92.0, seconds=1.0),
        scored("copy_tst", [0.5, 0.0, 0.0, 1.0], tokens_in=np.nan, tokens_out=np.nan, seconds=np.nan),
        scored("unseen: 0 new, none, free", [1.0] * 3),
        scored("no_shots_finetuned", [1.0] * 3, "test_same", tokens_in=45.0, tokens_out=92.0, seconds=1.0),
    ],
    ignore_index=True,
)
COVERAGE = pd.DataFrame(
    [
        ("test", "fd", "tst", 5, 75.0, 4.9, 510.0),
        ("test", "sfd", np.nan, 5, 45.0, 8.0, 759.0),
        ("test", "sfd_clauses", "", 5, 50.0, 8.0, 700.0),
        ("test_same", "fd", "tst", 5, 86.0, 4.5, 461.0),
    ],
    columns=["sample", "kind", "selector", "shots", "share", "definitions", "tokens"],
).assign(ci_low=40.0, ci_high=90.0, n=1000)


def flow_points(scores=SCORES):
    return page.flow_points(scores, "in_context", 0.25, 100, 0)


@pytest.fixture
def points():
    both = pd.concat([flow_points(), page.definition_points(COVERAGE)], ignore_index=True)
    return page.priced(both, PRICE, page.shared_flows(SCORES, "in_context"))


def test_names_of_conditions_are_read_back():
    for row in ROWS:
        found = page.condition_of(row.name)
        assert found.name == row.name
        assert found.generator == row.generator
    assert page.condition_of("copy_tst") is None
    assert page.condition_of("unseen: 0 new, none, free") is None


def test_quality_and_cost_of_every_condition_that_can_be_paid():
    table = flow_points()
    once = table[table["row"] == "similarity test"].set_index("condition")
    assert list(once.index) == ["tst_5_fd_in_context", "no_shots_finetuned", "copy_tst"]
    assert once.loc["tst_5_fd_in_context", ["value", "seconds", "tokens_in", "n"]].tolist() == [50, 14.25, 1190, 4]
    assert once.loc["no_shots_finetuned", "seconds"] == 1.0, "nothing is searched"
    assert once.loc["copy_tst", ["seconds", "tokens_in", "tokens_out"]].tolist() == [0.25, 0, 0]
    assert once["name"].tolist() == [
        "TST, 5 few-shots, FD",
        "fine-tuned model, no few-shots",
        "nearest flow copied, TST",
    ]
    ran = table[table["row"] == "executed test"].set_index("condition")["value"]
    assert ran.to_dict() == {"tst_5_fd_in_context": 25, "no_shots_finetuned": 75, "copy_tst": 25}
    assert set(table["row"]) == {"similarity test", "executed test", "similarity test_same", "executed test_same"}


def test_seconds_are_those_of_all_tokens_at_measured_rates():
    """Of kept answers a few were timed, by chance long ones."""
    held = scored("no_shots_finetuned_catalogue", [1.0], tokens_in=100.0, tokens_out=10.0, seconds=9.0)
    free = scored("no_shots_finetuned", [1.0] * 2, tokens_in=100.0, tokens_out=[10.0, 30.0], seconds=[np.nan, 9.0])
    other = scored("tst_5_in_context", [1.0], seconds=7.0)
    copy = scored("copy_tst", [1.0], tokens_in=np.nan, tokens_out=np.nan, seconds=np.nan)
    rates = {"finetuned": Rates(0.01, 0.1, 0.2, 5, (1.0, 0.9, 1.1))}
    found = page.at_rates(pd.concat([held, free, other, copy], ignore_index=True), rates)["seconds"]
    assert found[:4].tolist() == pytest.approx([3.0, 2.0, 4.0, 7.0])
    assert np.isnan(found[4])


def test_all_rows_are_over_the_flows_that_the_in_context_model_is_asked():
    other = SCORES.assign(half=["" if unit.endswith("q0") else "a" for unit in SCORES["unit"]])
    assert set(flow_points(other)["n"]) == {3, 2}
    assert set(page.flow_points(other, "untuned", 0.0, 50, 0)["n"]) == {4, 3}


def test_fronts_are_of_the_requests_that_both_were_asked():
    """Copies cost nothing and are there for all requests; a condition that was asked few may have had easy ones."""
    few = scored("pretrained_5_in_context", [1.0, 1.0], tokens_in=9.0, tokens_out=9.0, seconds=0.1)
    more = scored("copy_pretrained", [1.0] * 9, tokens_in=np.nan, tokens_out=np.nan, seconds=np.nan)
    scores = pd.concat([SCORES, few, more], ignore_index=True)
    points = page.priced(flow_points(scores), PRICE, page.shared_flows(scores, "in_context"))
    once = points[points["row"] == "similarity test"].set_index("condition")
    assert once["n"].to_dict() == {
        "tst_5_fd_in_context": 4, "no_shots_finetuned": 4, "copy_tst": 4, "pretrained_5_in_context": 2,
        "copy_pretrained": 4,
    }  # fmt: skip
    fronts = ["front_seconds", "front_tokens", "front_dollars"]
    assert not once.loc["pretrained_5_in_context", fronts].any(), "copies are as good there, and cost less"
    assert once.loc["pretrained_5_in_context", "value"] == 100
    assert once.loc["copy_pretrained", "front_tokens"]
    worse = scores[scores["condition"] != "copy_pretrained"]
    points = page.priced(flow_points(worse), PRICE, page.shared_flows(worse, "in_context"))
    once = points[points["row"] == "similarity test"].set_index("condition")
    assert once.loc["pretrained_5_in_context", fronts].all(), "better on its two than what was asked four"
    easy = worse.assign(similarity=worse["similarity"].mask(worse["condition"] == "no_shots_finetuned", 1.0))
    easy.loc[easy["condition"] == "no_shots_finetuned", ["tokens_in", "seconds"]] = [8.0, 0.01]
    points = page.priced(flow_points(easy), PRICE, page.shared_flows(easy, "in_context"))
    once = points[points["row"] == "similarity test"].set_index("condition")
    assert not once.loc["pretrained_5_in_context", "front_seconds"]


def test_definitions_have_tokens_and_no_seconds():
    table = page.definition_points(COVERAGE)
    assert table["name"].tolist() == ["FD of 5 few-shots, TST", "SFD, 8 definitions", "SFD by clause, 8 definitions"]
    assert table["seconds"].isna().all()
    assert table["row"].unique().tolist() == ["definitions test"]
    assert table["value"].tolist() == [75, 45, 50]


def test_a_search_is_timed():
    seen = []

    def encode(texts):
        seen.extend(texts)
        return np.ones((len(texts), 2), np.float32)

    assert 0 < page.seconds_a_search(encode, np.ones((50, 2), np.float32), ["a", "b", "c"]) < 1
    assert seen == ["a", "b", "c"]


def test_fronts_and_styles(points):
    rows = points.set_index(["row", "condition"])
    assert rows.loc[("executed test", "no_shots_finetuned"), ["front_tokens", "front_seconds"]].all()
    assert not rows.loc[("executed test", "tst_5_fd_in_context"), ["front_tokens", "front_seconds"]].any()
    assert rows.loc[("executed test", "copy_tst"), "front_tokens"], "it reads and writes nothing"
    assert rows.loc[("definitions test", "fd_5"), "front_tokens"]
    assert not rows.loc[("definitions test", "fd_5"), "front_seconds"]
    amount = rows.loc[("similarity test", "tst_5_fd_in_context"), "dollars"]
    assert amount == pytest.approx(1000 * (1190 * 30 + 90 * 60) / 1e6)
    styles = points.drop_duplicates("condition").set_index("condition")["marker"]
    assert styles["copy_tst"] == "x"
    assert styles["sfd_clauses_5"] == "P"
    assert styles["no_shots_finetuned"] == "D"


def test_they_are_drawn_and_told(points):
    drawing = page.cost_drawing(points, PRICE)
    assert drawing.name == "workflow_cost"
    assert drawing.finding == (
        "Best for their cost in flows executed right: copied flows, the fine-tuned model; the in-context model is "
        "beaten by what costs less"
    )
    assert len(drawing.figure.axes) == 4
    assert "Best of executed right, new wordings: fine-tuned model, no few-shots 75%, 137 tokens" in drawing.alt
    plt.close(drawing.figure)
    said = page.cost_in_words(points)
    assert "flows executed right, new wordings: nearest flow copied, TST (25%, 0); fine-tuned model" in said
    assert "need not differ significantly" in said


def test_the_table(points):
    table = page.cost_table(points, {"gpt-x": PRICE})
    frame = table.frame
    row = frame[(frame["condition"] == "TST, 5 few-shots, FD") & (frame["measure"] == "similarity, %")].iloc[0]
    assert row[["n", "seconds", "tokens read", "US dollars, gpt-x", "on the front of"]].tolist() == [
        4, "14", 1190, "41", "",
    ]  # fmt: skip
    assert frame.loc[frame["measure"] == "wanted APIs defined, %", "seconds"].tolist() == ["–"] * 3
    assert "Training is not counted" in table.caption
    assert "its tokens at the rates measured above" in table.caption


def test_definitions_by_clause_are_those_of_the_sample(catalogue):
    names = [api.name for api in catalogue if not api.internal][:3]
    requests = pd.DataFrame(
        {"pair": ["p", "q", "r"], "sample": ["test", "test", "test_same"], "apis": [names[:2], names[2:], names[:1]]}
    )
    found = {5: [[names[0]], [names[2]], [names[1]]]}
    table = page.definitions_by_clause(requests, found, catalogue, lambda text: len(text.split()), "compact", 100, 0)
    (row,) = page.definition_points(table).itertuples()
    assert (row.name, row.value, row.n) == ("SFD by clause, 1 definitions", 75, 2)
    assert row.tokens_in > 0
