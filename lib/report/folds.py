"""What a page shows at once, and what it keeps one click away.

At once: a section's first table or figure, the first sentences of findings and captions. The rest is folded; links open
it, and it is printed."""

from __future__ import annotations

import re
from typing import NamedTuple

from bs4 import BeautifulSoup, NavigableString, Tag

LONG_TABLE, WORDY_TABLE = 18, 160  # rows, and words that are no numbers, without the caption
LONG_FINDING, LONG_CAPTION = 32, 22  # words; a longer one shows the sentences that end within this
LONG_TEXT = 6  # lines of what is printed as it is, such as a prompt
REST_FROM = 12  # words: a shorter rest is not worth a fold
SENTENCE_END = r"(?<=[a-z)])[.:;] "
STOP = re.compile(r"(?<=[\w%)\]”\"])\.\s+(?=[^\sa-z]|$)")


def fold(soup: BeautifulSoup) -> None:
    """Fold what is not read at a glance (see the module); sections begin with `h2` or `h3`.

    Open stay: a section's first table, unless a figure stands before it, and findings and captions that are short.
    """
    for paragraph in soup.select("main .outputs p"):
        if not paragraph.find_parent(["details", "table", "figure"]):
            fold_rest(soup, paragraph, LONG_FINDING, "More on this")
    for text in soup.select("main .outputs pre"):
        lines = len(text.get_text().strip().splitlines())
        if lines >= LONG_TEXT and not text.find_parent("details"):
            _wrap(soup, text, f"Show the text ({lines} lines)")
    fold_tables(soup)
    for caption in soup.select("main div.table caption"):
        fold_rest(soup, caption, LONG_CAPTION, "How to read this table")


def fold_tables(soup: BeautifulSoup) -> None:
    """Fold tables under the first sentence of their caption: all of a section but its first, that one where a figure
    stands before it, and those of more than `LONG_TABLE` rows or `WORDY_TABLE` words, which are read line by line."""
    shown = False
    for element in soup.select("main h2, main h3, main div.table, main .outputs figure"):
        if element.name in ("h2", "h3"):
            shown = False
        elif element.name == "figure" or not element.caption or element.find_parent("details"):
            shown = True
        elif shown or is_long(element):
            said = element.caption.get_text().strip().removesuffix("#")
            _wrap(soup, element, f"Table: {re.split(SENTENCE_END, said)[0].rstrip('.')}")
        else:
            shown = True


def is_long(table: Tag) -> bool:
    rows = table.select("tbody tr")
    words = [word for row in rows for word in row.get_text(" ").split() if any(map(str.isalpha, word))]
    return len(rows) > LONG_TABLE or len(words) > WORDY_TABLE


def count_words(element: Tag) -> int:
    return len(element.get_text(" ").split())


def _wrap(soup: BeautifulSoup, element: Tag, title: str) -> None:
    folded = soup.new_tag("details", attrs={"class": "more"})
    folded.append(_summary(soup, title))
    element.wrap(folded)


def _summary(soup: BeautifulSoup, title: str) -> Tag:
    summary = soup.new_tag("summary")
    summary.string = title
    return summary


class Place(NamedTuple):
    """Where a text is cut: the number of the child node, and the character in it where the rest begins."""

    child: int
    offset: int


def cut_after_sentences(element: Tag, most: int) -> Place | None:
    """The end of the last sentence within the first `most` words, else of the first sentence; None where the rest would
    be shorter than `REST_FROM` words. Sentences end in the element's own text, not inside a link or emphasis."""
    before, found = 0, None
    total = count_words(element)
    for number, child in enumerate(element.children):
        text = child.get_text()
        if isinstance(child, NavigableString):
            for stop in STOP.finditer(text):
                words = before + len(text[: stop.start()].split())
                if (words > most and found) or total - words < REST_FROM:
                    return found
                found = Place(number, stop.end())
        before += len(text.split())
    return found


def fold_rest(soup: BeautifulSoup, element: Tag, most: int, title: str) -> None:
    """Leave the first sentences of a paragraph or a caption, up to `most` words but one sentence at least, and fold the
    others away: behind a paragraph, inside a caption. The caption's link to itself stays in sight."""
    place = cut_after_sentences(element, most) if count_words(element) > most else None
    if place is None:
        return
    cut, *after = list(element.contents)[place.child :]
    text = str(cut)
    cut.replace_with(NavigableString(f"{text[: place.offset].rstrip()} "))
    rest = soup.new_tag("p")
    rest.append(NavigableString(text[place.offset :]))
    for node in after:
        if not (isinstance(node, Tag) and "permalink" in (node.get("class") or [])):
            rest.append(node.extract())
    folded = soup.new_tag("details", attrs={"class": "more"})
    folded.append(_summary(soup, title))
    folded.append(rest)
    if element.name == "caption":
        element.append(folded)
    else:
        element.insert_after(folded)
