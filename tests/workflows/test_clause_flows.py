import pandas as pd
import pytest

from lib.workflows.clause_flows import MEASURED, WAYS, Shown, compared, prompts_of_ways
from lib.workflows.pages.beyond_clause_flows import flows_in_words, flows_table, kept_in_words

ASKED = pd.DataFrame(
    {
        "pair": ["p", "q", "r"],
        "request": ["do it", "do that", "do both"],
        "apis": [["x"], ["y"], ["x"]],
        "half": ["a", "", "b"],
    }
)


def count(text):
    return len(text.split())


def test_prompts_of_the_ways_differ_in_what_they_show(catalogue):
    names = [api.name for api in catalogue if not api.internal][:4]
    training = pd.DataFrame(
        {
            "request": ["first", "second", "third"],
            "dsl": [f"x = await {name}({{}});" for name in names[:3]],
            "apis": [[name] for name in names[:3]],
        }
    )
    by_pair = ["p", "q", "r"]
    shown = Shown(
        {
            "nearest": pd.Series([[0, 1]] * 3, by_pair),
            "set": pd.Series([[2, 1]] * 3, by_pair),
            "near_set": pd.Series([[0, 2]] * 3, by_pair),
        },
        {"whole": pd.Series([[names[0]]] * 3, by_pair), "clauses": pd.Series([[names[3]]] * 3, by_pair)},
    )
    made = prompts_of_ways({"test": ASKED}, 2, shown, training, catalogue, 10**6, count, "compact")
    assert made["condition"].tolist() == [way for way in WAYS for _ in range(2)]
    assert made["unit"].tolist() == ["p", "r"] * 5, "a flow of both halves is asked of neither model"
    assert made["model"].tolist() == ["in_context-b", "in_context-a"] * 5
    prompts = made.groupby("condition")["prompt"].first()
    assert "first" in prompts["nearest"]
    assert "third" not in prompts["nearest"]
    assert "third" in prompts["set"]
    assert "third" in prompts["near_set"]
    assert names[3] in prompts["clauses"]
    assert names[3] not in prompts["whole"]
    assert made.groupby("condition")["definitions"].first().map(list).to_dict() == {
        "nearest": [],
        "set": [],
        "near_set": [],
        "whole": [names[0]],
        "clauses": [names[3]],
    }


def scores(clauses_right, units=30):
    """Definitions by clause make so many of the flows right, the whole request none; the rest is alike."""
    rows = []
    for way in WAYS:
        for unit in range(units):
            right = way == "clauses" and unit < clauses_right
            rows.append((way, f"u{unit}", True, True, float(right), (), (), right, 100.0 + 10 * (way == "clauses")))
    columns = ["condition", "unit", "parsed", "valid", "similarity", "made_up_names", "made_up_parameters", "executed"]
    return pd.DataFrame(rows, columns=[*columns, "tokens_in"]).assign(test_set="test")


def test_ways_are_compared_on_the_same_requests():
    found = compared(scores(24), 200, 0)
    cells = found.set_index(["condition", "metric"])
    assert len(found) == len(WAYS) * len(MEASURED)
    assert cells.loc[("clauses", "executed"), "delta"] == pytest.approx(80)
    assert cells.loc[("clauses", "similarity"), "value"] == pytest.approx(0.8)
    assert cells.loc[("clauses", "executed"), "settled"]
    assert not cells.loc[("set", "executed"), "settled"]
    assert cells["delta"].notna().groupby("condition").any().to_dict() == {
        "nearest": False,
        "set": True,
        "near_set": True,
        "whole": False,
        "clauses": True,
    }
    table = flows_table(found).frame.set_index("prompt")
    assert table.loc["nearest few-shots, SFD by clause", "tokens read"] == 110
    assert "Δ 80 [" in table.loc["nearest few-shots, SFD by clause", "executed right, %"]
    assert "SFD by clause, new wordings: executed right 80 [" in flows_in_words(found)


def test_what_is_not_settled_is_said():
    assert "none of 9 differences is settled on 30 requests" in flows_in_words(compared(scores(0), 200, 0))


def test_the_page_says_whether_flows_were_kept():
    assert kept_in_words(pd.DataFrame({"text": ["a"]})) == "These flows were written for this report."
    kept = pd.DataFrame({"prompt": ["p", "p", "q"], "dtype": "float32"})
    assert "The flows for 2 prompts were written once by the shipped models, in float32" in kept_in_words(kept)
