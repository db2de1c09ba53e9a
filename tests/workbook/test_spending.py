"""What a notebook spent at an endpoint."""

import json

from lib.workbook.spending import COUNTERS, money, read_spending, spending_table

SPENT = {"model": "gpt<4>", **dict.fromkeys(COUNTERS, 2), "cost": 1.5, "reasons": []}


def test_the_record_as_a_table(tmp_path):
    path = tmp_path / "spent.json"
    assert spending_table(path).frame.empty
    path.write_text(json.dumps(SPENT | {"other": 1}))
    assert read_spending(path) == SPENT
    assert spending_table(path).frame[["model", "tokens in", "cost"]].to_numpy().tolist() == [["gpt<4>", 2, 1.5]]
    path.write_text("{}")
    assert read_spending(path) is None


def test_amounts():
    assert [money(amount) for amount in (0, 1234.5, 0.0625)] == ["0.00", "1,234.50", "0.0625"]
