"""Where a result comes from: what each code cell of a notebook reads, calls, shows and writes, and at which line of
`lib/` it is made."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

SHOWS = {"show", "say", "show_drawing"}


class Place(NamedTuple):
    """A function or class of `lib/`: its name, its file relative to the project, its line."""

    name: str
    path: str
    line: int


class Cell(NamedTuple):
    """What a code cell does.

    Attributes:
        reads: artifacts; writes: artifacts; tables: CSVs of the report.
        calls: functions of `lib/` that compute; shows: those that make what is shown.
    """

    reads: list[str]
    calls: list[Place]
    shows: list[Place]
    writes: list[str]
    tables: list[str]


def trace_cells(sources: Sequence[str], root: Path) -> list[Cell]:
    """What each cell does; nothing of one that is no Python (a magic, say).

    Args:
        sources: the notebook's code cells, in their order.
    """
    trees = [_parsed(source) for source in sources]
    names = _imported(trees)
    return [_trace(tree, names, root) for tree in trees]


def label(cell: Cell) -> str:
    """The most telling of what a cell does, in a few words: `shows tests table, …`; empty where nothing is known of it.
    What else it reads and writes stands in its code and, for the section, in its sources."""
    kinds = {
        "shows": [place.name for place in cell.shows],
        "writes": [*cell.tables, *cell.writes],
        "computes": [place.name for place in cell.calls],
        "reads": cell.reads,
    }
    verb, named = next(((verb, named) for verb, named in kinds.items() if named), ("", []))
    words = list(dict.fromkeys(name.replace("_", " ").strip() for name in named))
    return f"{verb} {words[0]}{', …' if len(words) > 1 else ''}" if words else ""


def _parsed(source: str) -> ast.Module:
    try:
        return ast.parse(source)
    except SyntaxError:
        return ast.parse("")


def _imported(trees: Sequence[ast.Module]) -> dict[str, str]:
    """{name in the notebook: its dotted name} of what is imported from `lib`."""
    names: dict[str, str] = {}
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "lib":
                names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    return names


def _trace(tree: ast.Module, names: dict[str, str], root: Path) -> Cell:
    calls = sorted(
        (node for node in ast.walk(tree) if isinstance(node, ast.Call)), key=lambda node: (node.lineno, node.col_offset)
    )
    shown = {
        id(inner)
        for call in calls
        if isinstance(call.func, ast.Name) and call.func.id in SHOWS
        for inner in ast.walk(call)
        if inner is not call
    }
    shown |= {
        id(inner) for call in calls if _method(call) == "highlight" for inner in ast.walk(call) if inner is not call
    }
    found = Cell([], [], [], [], [])
    for call in calls:
        first = call.args[0].value if call.args and isinstance(call.args[0], ast.Constant) else None
        method = _method(call)
        if isinstance(first, str) and method in ("read", "read_arrays", "read_lines"):
            found.reads.append(first)
        elif isinstance(first, str) and method in ("write", "write_arrays", "write_lines"):
            found.writes.append(first)
        elif isinstance(first, str) and method == "write_table":
            found.tables.append(first)
        place = _place(ast.unparse(call.func), names, root)
        if place and place.name not in SHOWS:
            (found.shows if id(call) in shown else found.calls).append(place)
    return Cell(*(list(dict.fromkeys(part)) for part in found))  # type: ignore[arg-type]


def _method(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""


def _place(called: str, names: dict[str, str], root: Path) -> Place | None:
    """Where a called name (`page.tests_table`) is defined in `lib/`; None for what comes from elsewhere."""
    first, _, rest = called.partition(".")
    if first not in names:
        return None
    parts = [*names[first].split("."), *(rest.split(".") if rest else [])]
    for cut in range(len(parts) - 1, 0, -1):
        path = root.joinpath(*parts[:cut]).with_suffix(".py")
        if path.is_file():
            line = definitions(path).get(".".join(parts[cut:])) or definitions(path).get(parts[cut])
            return Place(parts[-1], str(path.relative_to(root)), line) if line else None
    return None


@cache
def definitions(path: Path) -> dict[str, int]:
    """{name: line} of a module's functions, classes and (`Class.name`) methods."""
    found = {}
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found[node.name] = node.lineno
        if isinstance(node, ast.ClassDef):
            inner = [member for member in node.body if isinstance(member, ast.FunctionDef)]
            found |= {f"{node.name}.{member.name}": member.lineno for member in inner}
    return found


def line_of(path: Path, text: str) -> int:
    """The first line of a file that holds a text; 1 where none does."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return next((number for number, line in enumerate(lines, start=1) if text in line), 1)
