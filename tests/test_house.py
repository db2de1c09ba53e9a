"""How `lib/` is built: which way imports run, how large it is, what is named twice, and the map of it all."""

import ast
import re
from collections import defaultdict

import pytest

from lib.report.dag import imported_modules, lib_files
from lib.workbook.artifacts import ROOT
from lib.workbook.parameters import FOLDER, NOTEBOOKS

LIB = ROOT / "lib"
SOURCES = {path: path.read_text(encoding="utf-8") for path in sorted(LIB.rglob("*.py")) if path.name != "__init__.py"}
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
# The least that a function of lib has on average, in lines: what is shorter stands where it is called.
MEAN_LINES = 13.2


def named(path):
    return str(path.relative_to(LIB))


@pytest.mark.parametrize("room", BELOW)
def test_imports_run_downwards(room):
    allowed = (f"lib.{room}", *BELOW[room])
    for path, source in SOURCES.items():
        if path.relative_to(LIB).parts[0] == room:
            found = {module for module in imported_modules(source) if module != "lib"}
            assert not [one for one in found if not any(f"{one}.".startswith(f"{name}.") for name in allowed)], path
            # A relative import would hide from `lib.report.dag`, and a change of the imported file would rerun nothing.
            assert not [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom) and node.level]


def test_no_modules_import_each_other_in_a_circle():
    """Not even behind TYPE_CHECKING, or within a function."""
    arrows = {f"lib.{named(path)[:-3].replace('/', '.')}": imported_modules(text) for path, text in SOURCES.items()}

    def reached(start):
        found, waiting = set(), list(arrows[start])
        while waiting:
            name = waiting.pop()
            if name in arrows and name not in found:
                found.add(name)
                waiting += arrows[name]
        return found

    assert [name for name in arrows if name in reached(name)] == []
    assert "lib.workbook.inputs" in reached("lib.report.run")


@pytest.mark.parametrize("notebook", sorted(path.stem for path in FOLDER.glob("*.ipynb")))
def test_no_notebook_needs_what_renders_it(notebook):
    assert not [file for file in lib_files(ROOT / "notebooks" / f"{notebook}.ipynb", ROOT) if "lib/report/" in file]


def test_workbook_and_report_start_quickly():
    """No heavy package is imported as soon as one of their modules is."""
    for path, source in SOURCES.items():
        if path.relative_to(LIB).parts[0] in ("workbook", "report"):
            top = "\n".join(line for line in source.splitlines() if line.startswith(("import ", "from ")))
            assert not {name.split(".")[0] for name in re.findall(r"^(?:import|from) (\S+)", top, flags=re.M)} & HEAVY


def lines(folder):
    """Of all Python files in a folder of the project."""
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in (ROOT / folder).rglob("*.py"))


def test_the_house_stays_small():
    """Ceilings, to be lowered and never raised: what does not fit takes something else's place."""
    assert lines("lib") <= 18_773
    assert len(SOURCES) <= 91
    assert lines("tests") <= 12_967


def test_no_public_name_stands_twice():
    where = defaultdict(set)
    for path, source in SOURCES.items():
        for node in ast.parse(source).body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name[0] != "_":
                where[node.name].add(named(path))
    twice = {name: sorted(paths) for name, paths in where.items() if len(paths) > 1}
    assert twice == {}


def test_functions_are_read_from_top_to_bottom():
    nodes = (node for source in SOURCES.values() for node in ast.walk(ast.parse(source)))
    lengths = [node.end_lineno - node.lineno + 1 for node in nodes if isinstance(node, ast.FunctionDef)]
    assert sum(lengths) / len(lengths) >= MEAN_LINES


def test_every_module_is_on_the_map_and_nothing_else():
    """lib/README.md has them under `### folder`, as the names that open each line of a list."""
    rooms = (LIB / "README.md").read_text().split("\n## Rooms\n")[1].split("\n## ")[0]
    drawn = []
    for section in re.split(r"^### ", rooms, flags=re.M)[1:]:
        opening = " ".join(re.findall(r"^- (.*?): ", section, flags=re.M))
        drawn += [f"{section.splitlines()[0]}/{name}.py" for name in re.findall(r"`(\w+)`", opening)]
    assert sorted(drawn) == [named(path) for path in SOURCES]


def test_every_notebook_is_told_and_run():
    """In both READMEs for readers; a rule for each that the report runs."""
    for path in FOLDER.glob("*.ipynb"):
        for readme in (ROOT / "README.md", ROOT / "notebooks" / "README.md"):
            assert path.stem in readme.read_text(), readme
    rules = (ROOT / "notebooks" / "Snakefile").read_text()
    for notebook in NOTEBOOKS:
        assert f'sources("{notebook}")' in rules
        assert f'/executed/{notebook}.ipynb"' in rules
        assert f'needs("{notebook}"' in rules
