import pandas as pd
import pytest

from lib.workflows.pages import beyond_export as page
from lib.workflows.power_automate import ExportError

PLAIN = "x = await a.New(); b.Do({'t': x?['body/id']});"
CHOOSING = "x = await a.New(); if (x?['n'] > 5) { b.Do({'t': x?['body/id']}); }"
TRIGGERLESS = "b.Do({'t': 1});"


def test_flows_that_can_be_exported_come_back():
    trips = page.round_trips([PLAIN, CHOOSING, TRIGGERLESS])
    assert trips["same"].tolist() == [True, True, False]
    assert trips["problem"].tolist()[:2] == ["", ""]
    said = page.export_in_words(trips)
    assert said.startswith("Of 3 right flows 2 are exported; read back and run on mocked connectors, 2 of these")
    assert "The others: a flow begins with its trigger, an awaited call (1)." in said


def test_what_the_export_loses_is_seen(monkeypatch):
    kept = page.to_power_automate
    monkeypatch.setattr(page, "to_power_automate", lambda flow: kept(flow) | {"actions": {}})
    assert page.round_trips([PLAIN])["same"].tolist() == [False]


def test_the_example_has_a_condition_where_one_is_exported():
    row = page.example_table(page.round_trips([PLAIN, CHOOSING])).frame.iloc[0]
    assert row["flow"] == CHOOSING
    assert '"type": "If"' in row["definition"]
    assert page.example_table(page.round_trips([PLAIN])).frame["flow"].tolist() == [PLAIN]


def test_an_error_that_is_none_of_the_export_is_not_hidden():
    with pytest.raises(Exception) as found:
        page.round_trips(["not a flow"])
    assert not isinstance(found.value, ExportError)


def test_all_exported():
    said = page.export_in_words(pd.DataFrame({"text": ["a"], "problem": [""], "same": [True]}))
    assert "The others" not in said
