import re
from datetime import date

import numpy as np
import pandas as pd
import pytest

from lib.evaluation.prices import dollars, price_of, read_prices, with_costs
from lib.workbook.artifacts import ROOT
from lib.workbook.inputs import InputError

HEAD = "model,input,output,since,source\n"
ROW = 'gpt-x,30,60,2023-03-14,"page of the model, seen"\n'


@pytest.fixture
def price_file(tmp_path):
    def write(text):
        path = tmp_path / "prices.csv"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_the_projects_prices_are_read():
    prices = read_prices(ROOT / "data" / "prices.csv")
    assert {name: (price.input, price.output) for name, price in prices.items()} == {
        "gpt-4": (30, 60),
        "gpt-4-turbo": (10, 30),
        "gpt-4o": (2.5, 10),
        "gpt-4o-mini": (0.15, 0.6),
    }
    assert all(price.since.year >= 2023 and "OpenAI" in price.source for price in prices.values())


def test_what_a_thousand_requests_cost(price_file):
    price = read_prices(price_file("# a remark\n\n" + HEAD + ROW))["gpt-x"]
    assert (price.since, price.source) == (date(2023, 3, 14), "page of the model, seen")
    assert dollars(np.array([1000.0, 0.0]), np.array([100.0, 0.0]), price).tolist() == [36.0, 0.0]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (HEAD + ROW.replace("30", "-1"), "record 1: input: Input should be greater than or equal to 0"),
        (HEAD + ROW.replace("60", "nan"), "record 1: output: Input should be a finite number"),
        (HEAD + ROW.replace("30", "dear"), "record 1: input: Input should be a valid number"),
        (HEAD + ROW.replace("2023-03-14", "March"), "record 1: since: "),
        (HEAD + ROW.replace("gpt-x", " "), "record 1: model: "),
        (HEAD + ROW + ROW, "record 2: model: gpt-x stands twice"),
        (HEAD + ROW.strip() + ",more\n", "record 1: more: Extra inputs are not permitted"),
        (HEAD + "gpt-x,30\n", "record 1: output: "),
        (HEAD, "has no price"),
        (ROW, "columns: must be model, input, output, since, source"),
        ("", "columns: must be"),
    ],
)
def test_a_mistake_is_one_sentence_with_the_place(price_file, text, problem):
    path = price_file(text)
    with pytest.raises(InputError) as raised:
        read_prices(path)
    assert str(path) in str(raised.value)
    assert problem in str(raised.value)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        read_prices(tmp_path / "none.csv")


def test_an_unknown_model_gets_a_suggestion():
    prices = read_prices(ROOT / "data" / "prices.csv")
    assert price_of("gpt-4", prices) is prices["gpt-4"]
    with pytest.raises(InputError, match=r"has no model 'gpt-9'; did you mean gpt-4\? \(there are: gpt-4, "):
        price_of("gpt-9", prices)


def test_the_line_of_the_readme_makes_a_price(price_file):
    row = re.search(r"`(gpt-9,[^`]*)`", (ROOT / "data" / "README.md").read_text(encoding="utf-8"))[1]
    assert read_prices(price_file(HEAD + row))["gpt-9"].output == 15


def test_costs_that_print_the_same_put_nothing_ahead(price_file):
    """12.945 and 12.982 tokens are both 13: the better of the two alone is on the front."""
    price = read_prices(price_file(HEAD + ROW))["gpt-x"]
    points = pd.DataFrame(
        {"row": "tools", "value": [34.1, 76.5, 80.0], "seconds": [0.012, 0.0111, 0.05], "tokens_out": 0.0}
    ).assign(tokens_in=[12.945, 12.982, 40.0])
    table = with_costs(points, price)
    assert table["front_tokens"].tolist() == table["front_dollars"].tolist() == [False, True, True]
    assert table["tokens"].tolist() == [12.945, 12.982, 40.0]
