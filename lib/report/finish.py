"""A notebook's page after nbconvert: anchors, numbers set to the decimal point, and where each result comes from."""

from __future__ import annotations

import base64
import hashlib
import html
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from bs4 import BeautifulSoup, Tag

from lib.report.folds import fold
from lib.report.glossary import explain
from lib.report.trace import Cell, Place

VALUE = re.compile(r"(?P<value>[+−<-]?\d[\d,]*(?:\.\d+)?%?)(?P<tail>\s*\[[^\]]*\])?(?P<star>\s*★)?")
MISSING = ("–", "")
CARDS_FROM = 4  # columns


class Page(NamedTuple):
    """What is known of a page besides its HTML.

    Attributes:
        folder: of the report.
        cells: what each code cell does, as `lib.report.trace` tells.
        claims: {statement: name}; terms: {term: meaning}.
    """

    notebook: str
    profile: str
    folder: Path
    cells: Sequence[Cell]
    claims: Mapping[str, str]
    terms: Mapping[str, str]


def finish(page: str, known: Page) -> str:
    """The page with an id for each table, figure and claim, figures' data to download, and a fold at the end of each
    section that says where its numbers come from; terms of the glossary show their meaning. What is not read at a
    glance is folded (see `lib.report.folds`)."""
    soup = BeautifulSoup(page, "html.parser")
    set_numbers(soup)
    name_cells(soup)
    name_tables(soup)
    name_claims(soup, known.claims)
    name_figures(soup, known.folder)
    lead_upwards(soup)
    fold(soup)
    add_traces(soup, known)
    explain(soup, dict(known.terms))
    return str(soup)


def set_numbers(soup: BeautifulSoup) -> None:
    """Set columns of numbers, with or without an interval, to the right, so that decimal points stand in line."""
    for table in soup.select("table.workbook"):
        rows = [row.find_all("td", recursive=False) for row in table.select("tbody tr")]
        width = max(map(len, rows), default=0)
        heads = table.select("thead tr:last-child th")
        for place in range(width):
            cells = [row[place] for row in rows if len(row) == width]
            found = [VALUE.fullmatch(cell.get_text()) for cell in cells]
            others = [cell for cell, match in zip(cells, found, strict=True) if not match]
            if len(others) == len(cells) or any(cell.get_text() not in MISSING for cell in others):
                continue
            tails = [f"{match['tail'] or ''}{match['star'] or ''}" if match else "" for match in found]
            longest = max(map(len, tails))
            for cell, match, tail in zip(cells, found, tails, strict=True):
                cell["class"] = "number"
                if longest:
                    _split(soup, cell, match["value"] if match else cell.get_text(), tail, longest)
            if len(heads) == width:
                heads[place]["class"] = "number"


def _split(soup: BeautifulSoup, cell: Tag, value: str, tail: str, longest: int) -> None:
    """Write a cell as its value and what follows it, the latter as wide as the column's longest."""
    inner = cell
    while len(inner.contents) == 1 and isinstance(inner.contents[0], Tag):  # bold, or a link
        inner = inner.contents[0]
    inner.clear()
    inner.append(value)
    span = soup.new_tag("span", attrs={"class": "tail", "style": f"min-width: {longest}ch"})
    span.string = tail
    inner.append(span)


def name_cells(soup: BeautifulSoup) -> None:
    """Give each cell its column's name, so that a row of a wide table can be a card where the window is narrow; tables
    whose heads have several levels are left to scroll."""
    for table in soup.select("table.workbook"):
        rows = [row.find_all("td", recursive=False) for row in table.select("tbody tr")]
        heads = [head.get_text(" ", strip=True) for head in table.select("thead th")]
        if len(table.select("thead tr")) != 1 or len(heads) < CARDS_FROM or any(len(row) != len(heads) for row in rows):
            continue
        table["class"] = "workbook cards"
        for row in rows:
            for cell, head in zip(row, heads, strict=True):
                cell["data-label"] = head


def slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def name_tables(soup: BeautifulSoup) -> None:
    """Give each table an id made of its section's heading and its number there, and a link to itself."""
    counted: dict[str, int] = {}
    section = "start"
    for element in soup.find_all(["h2", "h3", "table"]):
        if element.name != "table":
            section = slug(_heading(element)) or section
        elif "workbook" in (element.get("class") or ""):
            counted[section] = counted.get(section, 0) + 1
            name = f"table-{section}-{counted[section]}"
            element["id"] = name
            if element.caption:
                element.caption.append(_permalink(soup, name, "this table"))


def _heading(element: Tag) -> str:
    return element.get_text().removesuffix("¶").strip()


def _permalink(soup: BeautifulSoup, name: str, what: str) -> Tag:
    link = soup.new_tag("a", attrs={"class": "permalink", "href": f"#{name}", "aria-label": f"Link to {what}"})
    link.string = "#"
    return link


def name_claims(soup: BeautifulSoup, claims: Mapping[str, str]) -> None:
    """Give the row of each claim the id `claim-<name>`, and link it to the claim on the index page."""
    named = set()
    for cell in soup.select("table.workbook td"):
        name = claims.get(cell.get_text())
        if name and cell.parent is not None and name not in named:
            named.add(name)
            cell.parent["id"] = f"claim-{name}"
            link = soup.new_tag("a", attrs={"class": "permalink", "href": f"index.html#claim-{name}"})
            link["aria-label"] = "This claim on the index page"
            link.string = "#"
            cell.append(link)


def name_figures(soup: BeautifulSoup, folder: Path) -> None:
    """Under each picture that lies in the report's `figures/`: links to the numbers behind it and to its full size."""
    known = {hashlib.sha256(path.read_bytes()).digest(): path.stem for path in sorted(folder.glob("figures/*.png"))}
    for picture in soup.select("figure img"):
        data = str(picture["src"]).partition("base64,")[2]
        name = known.get(hashlib.sha256(base64.b64decode(data)).digest())
        if not name or picture.parent is None:
            continue
        if not soup.find(id=f"figure-{name}"):
            picture.parent["id"] = f"figure-{name}"
        caption = "<figcaption>"
        if (folder / "figures" / f"{name}.csv").exists():
            caption += f"<a href='figures/{name}.csv' download>data (CSV)</a> · "
        caption += f"<a href='figures/{name}.png'>full size</a></figcaption>"
        picture.parent.append(BeautifulSoup(caption, "html.parser"))


def lead_upwards(soup: BeautifulSoup) -> None:
    """Links of a notebook's text start in `notebooks/`; a page lies one folder deeper."""
    for link in soup.select("main .cell.text a[href^='../']"):
        link["href"] = f"../{link['href']}"


def add_traces(soup: BeautifulSoup, known: Page) -> None:
    """At the end of each section, a fold with its tables, the code that made what it shows, and the commands."""
    sections: list[tuple[Tag, list[Cell]]] = []  # last element of a section, its cells
    for element in soup.select("main .cell"):
        if element.find("h2"):
            sections.append((element, []))
        elif sections:
            number = str(element.get("data-cell", ""))
            own = [known.cells[int(number)]] if number.isdigit() and int(number) < len(known.cells) else []
            if own or element.select_one("table, figure, .outputs"):
                sections[-1] = (element, [*sections[-1][1], *own])
    for last, cells in sections:
        told = trace_html(cells, known)
        if told:
            last.insert_after(BeautifulSoup(told, "html.parser"))


def trace_html(cells: Sequence[Cell], known: Page) -> str:
    """The fold of a section; empty where its cells show and write nothing."""
    tables = dict.fromkeys(name for cell in cells for name in cell.tables)
    there = [name for name in tables if (known.folder / "tables" / f"{name}.csv").exists()]
    read = dict.fromkeys(name for cell in cells for name in cell.reads)
    made = dict.fromkeys(place for cell in cells for place in [*cell.shows, *cell.calls])
    if not (there or any(cell.shows for cell in cells)):
        return ""
    parts = []
    if there:
        parts.append(("Tables", ", ".join(f"<a href='tables/{name}.csv' download>{name}.csv</a>" for name in there)))
    if made:
        parts.append(("Code", ", ".join(map(place_html, made))))
    if read:
        parts.append(("Reads", ", ".join(html.escape(name) for name in read)))
    parts.append(("Again", commands_html(known.notebook, known.profile)))
    listed = "".join(f"<dt>{name}</dt><dd>{text}</dd>" for name, text in parts)
    return f"<details class='trace'><summary>Sources</summary><dl>{listed}</dl></details>"


def place_html(place: Place) -> str:
    """A function as a link to its file in the repository, with the line."""
    link = f"../../{quote(place.path)}#L{place.line}"
    return f"<a href='{link}'>{html.escape(place.path)}:{place.line}</a> <code>{html.escape(place.name)}</code>"


def commands_html(notebook: str, profile: str) -> str:
    """The commands that make a notebook's results again: whatever is out of date, and this notebook alone."""
    one = (
        f".venv/bin/papermill --cwd notebooks -f notebooks/profiles/{profile}.yaml notebooks/{notebook}.ipynb out.ipynb"
    )
    return (
        f"<code>make report PROFILE={html.escape(profile)}</code>; this notebook alone: <code>{html.escape(one)}</code>"
    )
