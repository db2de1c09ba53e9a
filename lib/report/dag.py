"""What each notebook depends on in `lib/`, read from its imports, so that a change reruns exactly its consumers."""

from __future__ import annotations

import ast
import json
from functools import cache
from pathlib import Path


@cache  # notebooks share most of `lib/`: each of its files is read once, not once a notebook
def imported_modules(source: str) -> tuple[str, ...]:
    """Names of `lib` modules that Python source imports, at any depth (imports inside functions count), and of what it
    takes from them, which may be modules, too."""
    found: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return tuple(name for name in found if name.split(".")[0] == "lib")


def lib_files(notebook: Path, root: Path) -> list[str]:
    """Paths, relative to `root`, of all `lib/` files that a notebook imports, directly or through others, and of the
    files beside them whose names stand in quotes in their source: a grammar, say."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    lines = [line for cell in cells if cell["cell_type"] == "code" for line in [*cell["source"], "\n"]]
    waiting = [*imported_modules("".join(line for line in lines if not line.lstrip().startswith(("%", "!"))))]
    found: set[Path] = set()
    while waiting:
        parts = waiting.pop().split(".")
        packages = [root.joinpath(*parts[:depth], "__init__.py") for depth in range(1, len(parts) + 1)]
        for path in (root.joinpath(*parts).with_suffix(".py"), *packages):
            if path not in found and path.exists():
                text = path.read_text(encoding="utf-8")
                beside = [other for other in path.parent.iterdir() if other.is_file() and other.suffix != ".py"]
                found |= {path, *(other for other in beside if f'"{other.name}"' in text)}
                waiting += imported_modules(text)
    return sorted(str(path.relative_to(root)) for path in found)
