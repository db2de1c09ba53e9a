"""The notebooks as files: stripped, tagged, documented, and built the way all of them are."""

import ast
import subprocess
import sys

import nbformat
import papermill
import pytest

from lib.workbook.artifacts import ROOT
from lib.workbook.parameters import FOLDER, declared

PATHS = sorted(FOLDER.glob("*.ipynb"))
LINES, CELL_LINES, WIDTH = 300, 25, 120
each_notebook = pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)


def read(path):
    return nbformat.read(path, as_version=4)


@each_notebook
def test_outputs_are_stripped(path):
    """As nbstripout does it, which runs before each commit."""
    for cell in read(path).cells:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None
        assert "papermill" not in cell.metadata


@each_notebook
def test_it_opens_with_its_heading_and_says_what_to_change(path):
    cells = [cell.source for cell in read(path).cells if cell.cell_type == "markdown"]
    headings = [line for source in cells for line in source.splitlines() if line.startswith("#")]
    assert [line for line in headings if line.startswith("# ")] == headings[:1]
    assert read(path).cells[0].source.startswith("# ")
    assert any("change" in line.lower() for line in headings)


@each_notebook
def test_set_up_is_collapsed_and_the_story_is_not(path):
    """JupyterLab hides the source of cells with this mark: a reader who opens the notebook meets the story first."""
    for cell in read(path).cells:
        if cell.cell_type == "code":
            tags, hidden = cell.metadata.get("tags", []), cell.metadata.get("jupyter", {}).get("source_hidden", False)
            imports = cell.source.startswith(("import ", "from "))
            assert hidden == ("setup" in tags), cell.source
            assert "setup" in tags or not imports, cell.source


@each_notebook
def test_a_notebook_is_light(path):
    cells = [cell for cell in read(path).cells if cell.cell_type == "code"]
    sources = [cell.source for cell in cells if "parameters" not in cell.metadata.get("tags", [])]
    lines = [line for source in sources for line in source.splitlines() if line.strip()]
    assert len(lines) <= LINES
    assert max(len(source.splitlines()) for source in sources) <= CELL_LINES
    assert max(map(len, lines)) <= WIDTH
    for node in (node for source in sources for node in ast.walk(ast.parse(source))):
        assert not isinstance(node, ast.ClassDef)
        assert not isinstance(node, ast.FunctionDef) or node.end_lineno - node.lineno < 10


@each_notebook
def test_one_cell_of_parameters_its_check_and_help(path):
    cells = [cell for cell in read(path).cells if cell.cell_type == "code"]
    (declaring,) = [cell.source for cell in cells if "parameters" in cell.metadata.get("tags", [])]
    assert max(map(len, declaring.splitlines())) <= WIDTH
    assert any(f'check_parameters("{path.stem}", globals())' in cell.source for cell in cells)
    assert list(papermill.inspect_notebook(path)) == list(declared(path.stem))


def test_ruff_is_content():
    for command in (["check"], ["format", "--check"]):
        done = subprocess.run([sys.executable, "-m", "ruff", *command, "."], cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
