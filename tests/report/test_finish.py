"""A page after nbconvert: anchors, numbers in line, traces."""

import base64

import pytest
from bs4 import BeautifulSoup

from lib.report.finish import Page, finish
from lib.report.trace import Cell, Place

PIXEL = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII=")
CELL = Cell(
    ["items"], [Place("evaluate", "lib/evaluation/x.py", 7)], [Place("sizes", "lib/a b/y.py", 3)], [], ["sizes"]
)


@pytest.fixture
def known(tmp_path):
    for folder in ("tables", "figures"):
        (tmp_path / folder).mkdir()
    (tmp_path / "tables" / "sizes.csv").write_text("a\n1\n")
    (tmp_path / "figures" / "share.png").write_bytes(PIXEL)
    (tmp_path / "figures" / "share.csv").write_text("a\n1\n")
    return Page("02_context_baselines", "quick", tmp_path, [CELL], {"A beats <B>.": "a_beats_b"}, {})


def finished(known, inner):
    return BeautifulSoup(finish(f"<main>{inner}</main>", known), "html.parser")


def table(*rows, heads=2, caption="c"):
    body = "".join(f"<tr>{''.join(f'<td class=label>{cell}</td>' for cell in row)}</tr>" for row in rows)
    head = "<th scope='col'>h</th>" * heads
    return (
        f"<div class='table'><table class='workbook'><caption>{caption}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


def test_intervals_stand_to_the_right_of_values_in_line(known):
    rows = [("x", "<b>66.1 [7.5, 80.8]&nbsp;★</b>"), ("y", "1,025.3 [−9.9, 51.2]"), ("z", "–")]
    page = finished(known, table(*rows))
    cells = [row.find_all("td")[1] for row in page.select("tbody tr")]
    assert [cell["class"] for cell in cells] == [["number"]] * 3
    assert [cell.get_text() for cell in cells] == ["66.1 [7.5, 80.8]\xa0★", "1,025.3 [−9.9, 51.2]", "–"]
    assert len({cell.select_one(".tail")["style"] for cell in cells}) == 1, "tails of one width"
    assert cells[0].b
    assert [head.get("class") for head in page.select("th")] == [None, ["number"]]


def test_a_number_that_is_a_link_stays_one(known):
    cell = finished(known, table(("x", "<a href='q.html'>66.1 [7.5, 80.8]</a>"))).select("td")[1]
    assert cell.a["href"] == "q.html"
    assert cell.a.get_text() == cell.get_text() == "66.1 [7.5, 80.8]"


def test_a_p_value_below_what_is_printed_is_a_number(known):
    cells = [
        row.find_all("td")[1] for row in finished(known, table(("x", "&lt;0.0001"), ("y", "0.0312"))).select("tr")[1:]
    ]
    assert [cell["class"] for cell in cells] == [["number"]] * 2
    assert [cell.get_text() for cell in cells] == ["<0.0001", "0.0312"]


@pytest.mark.parametrize("cells", [("12", "a word"), ("text", "more"), ("–", "–"), ("3 of 4", "5")])
def test_a_column_with_words_is_left_as_it_is(known, cells):
    page = finished(known, table(*(("x", cell) for cell in cells)))
    assert not page.select(".number, .tail")


def test_tables_are_named_after_their_section_and_counted(known):
    heading = '<div class="cell text"><h2 id="A">By kind: who?<a class="anchor-link" href="#A">¶</a></h2></div>'
    page = finished(known, table(("x", "1")) + heading + table(("x", "1")) + table(("x", "1")))
    names = [each["id"] for each in page.find_all("table")]
    assert names == ["table-start-1", "table-by-kind-who-1", "table-by-kind-who-2"]
    assert [each.caption.a["href"] for each in page.find_all("table")] == [f"#{name}" for name in names]


def test_a_claim_has_an_address_once(known):
    rows = table(("A beats &lt;B&gt;.", "1")) + table(("A beats &lt;B&gt;.", "1"))
    page = finished(known, rows)
    (row,) = page.select("[id=claim-a_beats_b]")
    assert row.name == "tr"
    assert row.a["href"] == "index.html#claim-a_beats_b"


def test_a_figure_offers_its_data(known):
    picture = base64.b64encode(PIXEL).decode()
    other = base64.b64encode(PIXEL + b"x").decode()
    page = finished(
        known, "".join(f"<figure><img src='data:image/png;base64,{data}'></figure>" for data in (picture, other))
    )
    first, second = page.find_all("figure")
    assert first["id"] == "figure-share"
    assert [link["href"] for link in first.find_all("a")] == ["figures/share.csv", "figures/share.png"]
    assert not second.find("a")


def test_a_section_ends_with_where_it_comes_from(known):
    cells = '<div class="cell text"><h2 id="A">A</h2></div><div class="cell code" data-cell="0"></div>'
    page = finished(known, cells + '<div class="cell text"><h2 id="B">B</h2></div><div class="cell text">x</div>')
    (fold,) = page.select("details.trace")
    assert fold.find_previous_sibling()["data-cell"] == "0"
    assert fold.find_next_sibling().h2["id"] == "B"
    told = {term.get_text(): term.find_next_sibling() for term in fold.find_all("dt")}
    assert told["Tables"].a["href"] == "tables/sizes.csv"
    assert [link["href"] for link in told["Code"].find_all("a")] == [
        "../../lib/a%20b/y.py#L3",
        "../../lib/evaluation/x.py#L7",
    ]
    assert told["Reads"].get_text() == "items"
    assert "make report PROFILE=quick" in told["Again"].get_text()
    assert "notebooks/02_context_baselines.ipynb" in told["Again"].get_text()


def test_rows_of_wide_tables_can_be_cards(known):
    wide, narrow = table(("x", "1", "2", "3"), heads=4), table(("x", "1"))
    page = finished(known, wide + narrow)
    assert [cell["data-label"] for cell in page.select("table.cards td")] == ["h"] * 4
    assert len(page.select("table.cards")) == 1
