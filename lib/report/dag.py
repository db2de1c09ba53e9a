"""What each notebook depends on in `lib/`, read from its imports, so that a change reruns exactly its consumers."""

from __future__ import annotations

import ast
import json
from functools import cache
from pathlib import Path
from typing import NamedTuple


class Named(NamedTuple):
    """What Python source names: modules of `lib` that it imports, and its strings."""

    modules: tuple[str, ...]
    strings: frozenset[str]


@cache  # notebooks share most of `lib/`: each of its files is read once, not once a notebook
def named_in(source: str) -> Named:
    modules, strings = [], set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            modules += [alias.name for alias in node.names if alias.name.split(".")[0] == "lib"]
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "lib":
            modules += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            strings.add(node.value)
    return Named(tuple(modules), frozenset(strings))


def imported_modules(source: str) -> tuple[str, ...]:
    """Names of `lib` modules that Python source imports, at any depth (imports inside functions count)."""
    return named_in(source).modules


def module_files(module: str, root: Path) -> list[Path]:
    """Files of a module and of the packages above it; empty for a name that is no module (a function, say)."""
    parts = module.split(".")
    own = root.joinpath(*parts)
    files = [path for path in (own.with_suffix(".py"), own / "__init__.py") if path.exists()]
    if files:
        files += [
            init for depth in range(1, len(parts)) if (init := root.joinpath(*parts[:depth], "__init__.py")).exists()
        ]
    return files


def files_named(module: Path) -> list[Path]:
    """Files beside a module, other than Python's, whose name stands as a string in its source: a grammar, say."""
    names = named_in(module.read_text(encoding="utf-8")).strings
    beside = (path for path in module.parent.iterdir() if path.is_file() and path.suffix != ".py")
    return sorted(path for path in beside if path.name in names)


def lib_files(notebook: Path, root: Path) -> list[str]:
    """Paths, relative to `root`, of all `lib/` files that a notebook imports, directly or through others, and of the
    files beside them that they read."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    source = "\n".join(
        "".join(line for line in cell["source"] if not line.lstrip().startswith(("%", "!")))
        for cell in cells
        if cell["cell_type"] == "code"
    )
    found: set[Path] = set()
    waiting = list(imported_modules(source))
    while waiting:
        for path in module_files(waiting.pop(), root):
            if path not in found:
                found |= {path, *files_named(path)}
                waiting += imported_modules(path.read_text(encoding="utf-8"))
    return sorted(str(path.relative_to(root)) for path in found)
