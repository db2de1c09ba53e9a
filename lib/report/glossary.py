"""Terms of the glossary on a page: where one first appears, its meaning shows on hover and by keyboard."""

from __future__ import annotations

import html
import re
from pathlib import Path

from bs4 import BeautifulSoup, NavigableString, Tag

from lib.workbook.inputs import InputError, read_yaml

FILE = "data/glossary.yaml"
WHERE = "main p, main li"
NOT_IN = ["a", "code", "pre", "summary", "nav", "table", "button", "figure"]


def read_glossary(root: Path) -> dict[str, str]:
    """{term: meaning}; empty where the project has no glossary.

    Raises:
        InputError: the file holds something else.
    """
    path = root / FILE
    if not path.exists():
        return {}
    terms = read_yaml(path)
    if not isinstance(terms, dict) or not all(isinstance(part, str) for pair in terms.items() for part in pair):
        raise InputError(f"{path}: expected terms with their meanings")
    return terms


def explain(soup: BeautifulSoup, terms: dict[str, str]) -> None:
    """Mark the first appearance of each term in running text, with its meaning beside it."""
    if not terms:
        return
    by_length = sorted(terms, key=len, reverse=True)  # SFD before FD
    pattern = re.compile("|".join(f"(?P<t{n}>{_as_pattern(term)})" for n, term in enumerate(by_length)))
    left = set(terms)
    for block in soup.select(WHERE):
        for text in [*block.find_all(string=True)]:
            if left and not text.find_parent(NOT_IN) and not text.find_parent(class_="term"):
                _explain_in(soup, text, pattern, by_length, terms, left)


def _as_pattern(term: str) -> str:
    numbered = re.escape(term).replace("@K", r"@(?:K|\d+)")
    return rf"(?<![\w-]){numbered}(?![\w-])"


def _explain_in(
    soup: BeautifulSoup,
    text: NavigableString,
    pattern: re.Pattern,
    by_length: list[str],
    terms: dict[str, str],
    left: set[str],
) -> None:
    parts: list[str | Tag] = []
    end = 0
    for match in pattern.finditer(text):
        term = by_length[int(str(match.lastgroup)[1:])]
        if term in left:
            left.remove(term)
            parts += [text[end : match.start()], _marked(soup, match.group(), terms[term], len(left))]
            end = match.end()
    if parts:
        text.replace_with(*(NavigableString(part) if isinstance(part, str) else part for part in [*parts, text[end:]]))


def _marked(soup: BeautifulSoup, shown: str, meaning: str, number: int) -> Tag:
    name = f"meaning-{number}"
    term = soup.new_tag("span", attrs={"class": "term", "tabindex": "0", "aria-describedby": name})
    term.string = shown
    tip = soup.new_tag("span", attrs={"class": "meaning", "role": "tooltip", "id": name})
    tip.string = meaning
    term.append(tip)
    return term


def glossary_html(terms: dict[str, str]) -> str:
    """All terms with their meanings, folded; empty where there is none."""
    listed = "".join(f"<dt>{html.escape(term)}</dt><dd>{html.escape(text)}</dd>" for term, text in terms.items())
    return f"<details id='glossary'><summary>Glossary</summary><dl>{listed}</dl></details>" if terms else ""
