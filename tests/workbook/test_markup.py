"""Text from outside never becomes live markup."""

import pytest
from bs4 import BeautifulSoup
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.workbook.markup import plain, safe_markdown

HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "[click](javascript:alert(1))",
    "![](http://elsewhere.example/pixel.png)",
    "`<b>` and ``<script>`` and `` ` <i> ``",
    "a `\nb `![x](http://elsewhere.example/t.png)` c",
    "| `a | [x](http://elsewhere.example) | b` |",
]
LIVE = ("script", "img", "a", "iframe", "svg", "b", "i", "style", "link", "object", "form")


def live(page: str) -> list[str]:
    """The tags of a rendered text that could do something."""
    return [tag.name for tag in BeautifulSoup(page, "html.parser").find_all(LIVE)]


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_hostile_is_live(text):
    assert live(safe_markdown(text)) == []
    assert live(safe_markdown(f"A sentence about {plain(text)} and *more*.")) == []


@settings(deadline=None, derandomize=True, database=None, max_examples=300)
@given(st.text(alphabet="<>[]()`!&;:\\#\n ajvscript*_\ud83d\0\"'=/x", max_size=60))
def test_no_text_is_live(text):
    assert live(safe_markdown(text)) == []
    assert live(safe_markdown(f"before {plain(text)} after")) == []


def test_emphasis_and_code_stay():
    page = BeautifulSoup(safe_markdown("**bold** `name` `<START>` a < b & c"), "html.parser")
    assert page.find("strong").text == "bold"
    assert [code.text for code in page.find_all("code")] == ["name", "<START>"]
    assert page.text.strip() == "bold name <START> a < b & c"
