from types import SimpleNamespace

import matplotlib.pyplot as plt
import pandas as pd
import psutil
import pytest
from bs4 import BeautifulSoup

from lib.workbook import display
from lib.workbook.artifacts import Workbook
from lib.workbook.parameters import notebook_parameters


@pytest.fixture
def shown(monkeypatch):
    """What was displayed, as (object, keyword arguments)."""
    outputs = []
    monkeypatch.setattr(display, "display", lambda value, **options: outputs.append((value, options)))
    return outputs


def table_of(shown):
    return BeautifulSoup(shown[-1][0].data, "html.parser")


def test_everything_in_a_table_is_escaped(shown):
    frame = pd.DataFrame({"<b>head</b>": ["<script>alert(1)</script>", "a & b"]})
    display.show_table(frame, "caption with <i>markup</i>", text_columns=["<b>head</b>"])
    soup = table_of(shown)
    assert not soup.find_all(["script", "i"])
    assert soup.caption.get_text() == "caption with <i>markup</i>"
    assert soup.th.get_text() == "<b>head</b>"
    assert [cell.get_text() for cell in soup.find_all("td")] == ["<script>alert(1)</script>", "a & b"]


def test_code_is_set_as_it_is_and_numbers_with_fixed_decimals(shown):
    frame = pd.DataFrame({"flow": ["if (a) {\n  b<c>();\n}"], "n": [12345], "x": [1.23456], "t": ["one\ntwo"]})
    display.show_table(frame, "c", decimals=3, code_columns=["flow"])
    assert table_of(shown).td.pre.get_text() == "if (a) {\n  b<c>();\n}"
    cells = [cell.decode_contents() for cell in table_of(shown).find_all("td")[1:]]
    assert cells == ["12,345", "1.235", "one<br/>two"]


def test_the_best_of_a_column_is_marked(shown):
    frame = pd.DataFrame({"a": ["1,002.1 [1, 2]", "999.0 [1, 2]", "–"], "b": [3.0, -4.0, float("nan")]}, [7, 7, 9])
    display.show_table(frame, "c", decimals=0, best={"a": "max", "b": "min"})
    assert [cell.get_text() for cell in table_of(shown).find_all("b")] == ["1,002.1 [1, 2]\xa0★", "−4\xa0★"]


def test_a_figure_is_saved_and_shown_with_its_words(shown, tmp_path):
    book = Workbook("01_data_gen", notebook_parameters("01_data_gen", profile="smoke"), root=tmp_path)
    pictures = []
    for _ in range(2):
        figure, axis = plt.subplots()
        axis.plot([1, 2])
        display.show_figure(book, "line", figure, "Rises by 1", "A line from 1 to 2.", "lines")
        pictures.append((tmp_path / "reports/smoke/figures/line.png").read_bytes())
        assert figure.get_suptitle() == "Rises by 1"
        assert not plt.fignum_exists(figure.number)
    assert shown[-1][1]["metadata"]["image/png"]["alt"] == "A line from 1 to 2. Drawn from tables/lines.csv."
    assert pictures[0] == pictures[1], "the same figure gives the same bytes"


def test_a_method_is_a_row_with_ours_and_the_papers_value_at_each_k():
    rows = pd.DataFrame({"method": ["bm25t", "mine"] * 2, "k": [3, 3, 5, 5], "value": [10.0, 20.0, 30.0, 40.0]})
    ends = {"ci_low": rows["value"] - 1, "ci_high": rows["value"] + 1, "over_queries": rows["value"] + 2}
    table = display.beside_published(rows.assign(**ends, published=[11.0, float("nan")] * 2), {"mine": "my own"})
    assert table["method"].tolist() == ["BM25T", "my own"]
    assert table["@3, over queries (paper)"].tolist() == ["12.0 (11.0)", "22.0"]
    assert table["@5, ours"].tolist() == ["30.0 [29.0, 31.0]", "40.0 [39.0, 41.0]"]


def test_numbers_read_as_text():
    assert display.interval(23.74, 21.2, 26.31) == "23.7 [21.2, 26.3]"
    assert display.interval(-0.04, -1234.5, 0.04) == "0.0 [−1,234.5, 0.0]"
    assert [display.number(value, 1, sign=True) for value in (2.04, -0.04, float("nan"))] == ["+2.0", "0.0", "–"]
    assert [display.p_text(p, 3) for p in (0.0312, 0.0004, 0.0)] == ["0.031", "≤ 0.001", "≤ 0.001"]


@pytest.mark.parametrize(("starter", "shown"), [("jupyterlab", True), ("papermill", False)])
def test_progress_is_shown_to_people_alone(monkeypatch, starter, shown):
    monkeypatch.delenv("WORKBOOK_BATCH", raising=False)
    monkeypatch.setattr(psutil.Process, "parent", lambda self: SimpleNamespace(cmdline=lambda: ["-m", starter]))
    assert display.show_progress() is shown
