"""How `lib/` is built: which way imports run, how large it is, and the map of it all."""

import ast
import re

import pytest

from lib.report.dag import imported_modules, lib_files
from lib.workbook.artifacts import ROOT
from lib.workbook.parameters import FOLDER, NOTEBOOKS

LIB = ROOT / "lib"
MODULES = sorted(path for path in LIB.rglob("*.py") if path.name != "__init__.py")
BELOW_WORLDS = ("lib.retrieval", "lib.generation", "lib.evaluation", "lib.workbook")
# What each room may import besides itself.
BELOW = {
    "report": ("lib.assistant", "lib.workflows", *BELOW_WORLDS),
    "assistant": BELOW_WORLDS,
    "workflows": BELOW_WORLDS,
    "retrieval": ("lib.evaluation", "lib.workbook"),
    "generation": ("lib.evaluation", "lib.workbook"),
    "evaluation": ("lib.workbook.inputs",),
    "workbook": (),
}
HEAVY = {"torch", "transformers", "sentence_transformers", "lightgbm", "faiss", "peft", "bitsandbytes"}


def named(path):
    return str(path.relative_to(LIB))


def climbing_imports(source, room):
    """Modules of `lib` that a module of a room imports from a room that is not below it."""
    allowed = (f"lib.{room}", *BELOW[room])
    found = {module for module in imported_modules(source) if module != "lib"}
    return sorted(module for module in found if not any(f"{module}.".startswith(f"{name}.") for name in allowed))


def packages_at_the_top(source):
    """Packages that are imported as soon as the module is."""
    found, waiting = set(), [ast.parse(source)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").split(".")[0])
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            typing = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
            waiting += node.orelse if typing else ast.iter_child_nodes(node)
    return found


# ---- the rules


@pytest.mark.parametrize("path", MODULES, ids=named)
def test_imports_run_downwards(path):
    source = path.read_text()
    assert climbing_imports(source, path.relative_to(LIB).parts[0]) == []
    # A relative import would hide from `lib.report.dag`, and a change of the imported file would rerun nothing.
    assert not [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom) and node.level]


@pytest.mark.parametrize("notebook", sorted(path.stem for path in FOLDER.glob("*.ipynb")))
def test_no_notebook_needs_what_renders_it(notebook):
    assert not [file for file in lib_files(ROOT / "notebooks" / f"{notebook}.ipynb", ROOT) if "lib/report/" in file]


@pytest.mark.parametrize(
    "path", [path for path in MODULES if path.relative_to(LIB).parts[0] in ("workbook", "report")], ids=named
)
def test_the_workbook_starts_quickly(path):
    assert not packages_at_the_top(path.read_text()) & HEAVY


def circles(arrows):
    """Names that lead back to themselves. Args: {name: names that it leads to}."""

    def reached(start):
        found, waiting = set(), list(arrows[start])
        while waiting:
            name = waiting.pop()
            if name in arrows and name not in found:
                found.add(name)
                waiting += arrows[name]
        return found

    return sorted(name for name in arrows if name in reached(name))


def test_no_modules_import_each_other_in_a_circle():
    """Not even behind TYPE_CHECKING, or within a function."""
    names = {f"lib.{named(path).removesuffix('.py').replace('/', '.')}": path for path in MODULES}
    assert circles({name: imported_modules(path.read_text()) for name, path in names.items()}) == []
    assert circles({"a": ["b"], "b": ["c", "d"], "c": ["a"], "d": []}) == ["a", "b", "c"]


def lines(folder):
    """Of all Python files in a folder of the project."""
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in (ROOT / folder).rglob("*.py"))


def test_the_house_stays_small():
    """Ceilings, to be lowered and never raised: what does not fit takes something else's place."""
    assert lines("lib") <= 27_600
    assert len(MODULES) <= 96
    assert lines("tests") <= 23_500


# ---- the rules can be broken


@pytest.mark.parametrize(
    ("room", "source"),
    [
        ("workbook", "from lib.evaluation.claims import evaluate"),
        ("evaluation", "from lib.workbook.artifacts import ROOT"),
        ("evaluation", "from lib.workbook import artifacts"),
        ("retrieval", "def late():\n    import lib.generation.local"),
        ("assistant", "from lib.workflows import language"),
        ("workflows", "from lib import assistant"),
        ("generation", "import lib.report.book"),
    ],
)
def test_a_climbing_import_is_noticed(room, source):
    assert climbing_imports(source, room)


def test_a_fair_import_is_not():
    assert not climbing_imports("from lib.workbook.inputs import read_yaml\nimport json", "evaluation")
    assert not climbing_imports("from lib.assistant import plans\nfrom lib.generation import load", "assistant")


def test_a_heavy_import_is_noticed():
    late = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import peft\ndef train():\n    import torch"
    assert not packages_at_the_top(late) & HEAVY
    assert packages_at_the_top("try:\n    import torch.nn\nexcept ImportError:\n    pass") & HEAVY == {"torch"}
    assert packages_at_the_top("class A:\n    from peft import LoraConfig") & HEAVY == {"peft"}


# ---- the map


def modules_on_the_map():
    """`folder/module` as lib/README.md has them: under `### folder`, the names that open each line of a list."""
    rooms = (LIB / "README.md").read_text().split("\n## Rooms\n")[1].split("\n## ")[0]
    found = []
    for section in re.split(r"^### ", rooms, flags=re.M)[1:]:
        folder = section.splitlines()[0]
        opening = " ".join(re.findall(r"^- (.*?): ", section, flags=re.M))
        found += [f"{folder}/{name}" for name in re.findall(r"`(\w+)`", opening)]
    return sorted(found)


def test_every_module_is_on_the_map_and_nothing_else():
    there, drawn = [named(path).removesuffix(".py") for path in MODULES], modules_on_the_map()
    missing, gone = sorted({*there} - {*drawn}), sorted({*drawn} - {*there})
    assert not missing, f"lib/README.md lacks {', '.join(missing)}"
    assert not gone, f"lib/README.md names what is gone: {', '.join(gone)}"
    assert len(drawn) == len(there), "lib/README.md names a module twice"


def test_every_notebook_is_told_and_run():
    """In both tables for readers; a rule for each that the report runs."""
    for path in FOLDER.glob("*.ipynb"):
        for readme in (ROOT / "README.md", ROOT / "notebooks" / "README.md"):
            assert path.stem in readme.read_text(), readme
    rules = (ROOT / "notebooks" / "Snakefile").read_text()
    for notebook in NOTEBOOKS:
        assert f'sources("{notebook}")' in rules
        assert f'/executed/{notebook}.ipynb"' in rules
        assert f'needs("{notebook}"' in rules
