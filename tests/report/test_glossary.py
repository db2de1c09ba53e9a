"""Terms and their meanings on a page."""

import pytest
from bs4 import BeautifulSoup

from lib.report.glossary import explain, glossary_html, read_glossary
from lib.workbook.artifacts import ROOT
from lib.workbook.inputs import InputError

TERMS = {"FD": "definitions", "SFD": "near <ones>", "Recall@K": "a share"}


def explained(inner):
    soup = BeautifulSoup(f"<main>{inner}</main>", "html.parser")
    text = soup.get_text()
    explain(soup, TERMS)
    for tip in (copy := BeautifulSoup(str(soup), "html.parser")).select(".meaning"):
        tip.decompose()
    assert copy.get_text() == text, "only meanings are added"
    return soup


def marked(soup):
    return [(term.contents[0], term.select_one(".meaning").get_text()) for term in soup.select(".term")]


def test_the_first_appearance_is_marked_and_no_later_one():
    soup = explained("<p>With SFD, <b>FD</b> or SFD: Recall@3.</p><p>FD and Recall@K</p>")
    assert marked(soup) == [("SFD", "near <ones>"), ("FD", "definitions"), ("Recall@3", "a share")]
    for term in soup.select(".term"):
        assert term["tabindex"] == "0"
        assert soup.find(id=term["aria-describedby"])["role"] == "tooltip"
    assert len({tip["id"] for tip in soup.select(".meaning")}) == 3


@pytest.mark.parametrize(
    "inner", ["<h2>FD</h2>", "<p><a href='x'>FD</a> <code>SFD</code></p>", "<p>FDs, no-FD, aFD, Recall@</p>", "FD"]
)
def test_headings_links_code_and_parts_of_words_are_left(inner):
    assert marked(explained(inner)) == []


def test_the_projects_glossary_is_read_and_listed():
    terms = read_glossary(ROOT)
    assert len(terms) > 10
    page = BeautifulSoup(glossary_html(terms), "html.parser")
    assert [term.get_text() for term in page.find_all("dt")] == list(terms)


def test_a_project_without_a_glossary_or_with_a_broken_one(tmp_path):
    assert read_glossary(tmp_path) == {}
    assert glossary_html({}) == ""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "glossary.yaml").write_text("- FD\n")
    with pytest.raises(InputError, match="expected terms"):
        read_glossary(tmp_path)
