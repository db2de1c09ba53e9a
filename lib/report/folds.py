"""What a page shows at once, and what it keeps one click away.

At once: the question, a section's figure or else its first table where that is read at a glance, the first sentences of
findings, captions and what the notebook tells in between. The rest is folded; links open it, and it is printed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from bs4 import BeautifulSoup, NavigableString, Tag

LONG_TABLE, WORDY_TABLE = 12, 100  # rows, and words that are no numbers, without the caption
LONG_FINDING, LONG_CAPTION, LONG_TEXT = 24, 16, 20  # words; a longer one shows the sentences that end within this
LONG_PRINT = 6  # lines of what is printed as it is, such as a prompt
REST_FROM = 12  # words: a shorter rest is not worth a fold
REST = "More"
PASSAGE = ("p", "ul", "ol", "pre", "table", "blockquote")
SENTENCE_END = re.compile(r"(?<=[\w)%])[.:;] ")
PUBLISHED = re.compile(r"\b(paper|published)\b", re.IGNORECASE)
STOP = re.compile(r"(?<=[\w%)\]”\"])\.\s+(?=[^\sa-z]|$)")


def fold(soup: BeautifulSoup) -> None:
    """Fold what is not read at a glance (see the module); sections begin with `h2` or `h3`.

    Open stay: a section's first table, unless the section has a figure, and texts that are short.
    """
    for paragraph in soup.select("main .outputs p"):
        if not paragraph.find_parent(["details", "table", "figure"]):
            fold_rest(soup, paragraph, LONG_FINDING)
    for cell in soup.select("main .cell.text"):
        if not cell.find_parent("details"):
            fold_text(soup, cell)
    for text in soup.select("main .outputs pre"):
        lines = len(text.get_text().strip().splitlines())
        if lines >= LONG_PRINT and not text.find_parent("details"):
            _wrap(soup, text, f"Show the text ({lines} lines)")
    fold_tables(soup)
    for caption in soup.select("main div.table caption"):
        fold_rest(soup, caption, LONG_CAPTION)


def fold_text(soup: BeautifulSoup, cell: Tag) -> None:
    """Fold what a text tells under each of its headings, but for the first sentences: the rest of their paragraph and
    those that follow are one fold. A question is never cut."""
    passages: list[list[Tag]] = [[]]
    for element in cell.find_all(True, recursive=False):
        if element.name in PASSAGE:
            passages[-1].append(element)
        elif passages[-1]:
            passages.append([])
    for first, *others in filter(None, passages):
        if first.name != "p" or count_words(first) + sum(map(count_words, others)) <= LONG_TEXT:
            continue
        asks = first.find("strong") is not None and first.get_text().startswith("Question.")
        folded = None if asks else fold_rest(soup, first, LONG_TEXT, others)
        if folded is None and sum(map(count_words, others)) >= REST_FROM:
            folded = soup.new_tag("details", attrs={"class": "more"})
            folded.append(_summary(soup, REST))
            first.insert_after(folded)
            folded.extend([element.extract() for element in others])


def shorten(fragment: str) -> str:
    """Paragraphs (HTML) of which the first sentences are shown, as `fold_text` does."""
    soup = BeautifulSoup(f"<div>{fragment}</div>", "html.parser")
    if soup.div:
        fold_text(soup, soup.div)
    return soup.div.decode_contents() if soup.div else fragment


def fold_tables(soup: BeautifulSoup) -> None:
    """Fold tables under the first sentence of their caption: all of a section but its first, that one where the section
    has a figure and the table does not set our values beside published ones, and those of more than `LONG_TABLE` rows
    or `WORDY_TABLE` words, which are read line by line."""
    sections: list[list[Tag]] = [[]]
    for element in soup.select("main h2, main h3, main div.table, main .outputs figure"):
        if element.name in ("h2", "h3"):
            sections.append([])
        else:
            sections[-1].append(element)
    for section in sections:
        drawn, shown = any(element.name == "figure" for element in section), False
        for table in section:
            if table.name == "figure" or table.find_parent("details"):
                continue
            if not table.caption:
                shown = True
            elif shown or is_long(table) or (drawn and not beside_published(table)):
                said = table.caption.get_text().strip().removesuffix("#")
                _wrap(soup, table, f"Table: {title_of(said)}")
            else:
                shown = True


def title_of(caption: str) -> str:
    """A caption's first sentence, up to a colon or semicolon; none of these ends it inside brackets."""
    ends = [end.start() for end in SENTENCE_END.finditer(caption)]
    whole = (end for end in ends if _brackets_closed(caption[:end]))
    return caption[: next(whole, None)].rstrip(".")


def _brackets_closed(text: str) -> bool:
    return text.count("(") == text.count(")") and text.count("[") == text.count("]")


def beside_published(table: Tag) -> bool:
    """Whether a column of the table has the paper's values."""
    return any(PUBLISHED.search(head.get_text()) for head in table.select("thead th"))


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


def fold_rest(soup: BeautifulSoup, element: Tag, most: int, others: Sequence[Tag] = ()) -> Tag | None:
    """Leave the first sentences of a paragraph or a caption, up to `most` words but one sentence at least, and fold the
    rest away: behind a paragraph, inside a caption. The caption's link to itself stays in sight.

    Args:
        others: elements that go into the fold after the rest.

    Returns:
        the fold; None where the rest alone would not be worth one.
    """
    place = cut_after_sentences(element, most) if count_words(element) > most else None
    if place is None:
        return None
    cut, *after = list(element.contents)[place.child :]
    text = str(cut)
    cut.replace_with(NavigableString(f"{text[: place.offset].rstrip()} "))
    rest = soup.new_tag("p", attrs={"class": "rest"})
    rest.append(NavigableString(text[place.offset :]))
    for node in after:
        if not (isinstance(node, Tag) and "permalink" in (node.get("class") or [])):
            rest.append(node.extract())
    folded = soup.new_tag("details", attrs={"class": "more"})
    folded.extend([_summary(soup, REST), rest, *(other.extract() for other in others)])
    if element.name == "caption":
        element.append(folded)
    else:
        element.insert_after(folded)
    return folded
