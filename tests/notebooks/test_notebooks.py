"""The notebooks as files: stripped, tagged, documented, and built the way all of them are."""

import ast
import subprocess
import sys

import nbformat
import pytest

from lib.workbook.artifacts import ROOT
from lib.workbook.parameters import FOLDER, declared

PATHS = sorted(FOLDER.glob("*.ipynb"))
each_notebook = pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)


def read(path):
    return nbformat.read(path, as_version=4)


@each_notebook
def test_outputs_are_stripped(path):
    for cell in read(path).cells:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None
    done = subprocess.run([sys.executable, "-m", "nbstripout", "--verify", path], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


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


LINES, CELL_LINES, WIDTH = 300, 25, 120


def code_cells(path):
    """The source of each code cell but the one of parameters."""
    cells = [cell for cell in read(path).cells if cell.cell_type == "code"]
    return [cell.source for cell in cells if "parameters" not in cell.metadata.get("tags", [])]


@each_notebook
def test_a_notebook_is_light(path):
    sources = code_cells(path)
    lines = [line for source in sources for line in source.splitlines() if line.strip()]
    assert len(lines) <= LINES
    assert max(len(source.splitlines()) for source in sources) <= CELL_LINES
    assert max(map(len, lines)) <= WIDTH


@each_notebook
def test_one_cell_of_parameters_and_its_check(path):
    cells = [cell for cell in read(path).cells if cell.cell_type == "code"]
    assert sum("parameters" in cell.metadata.get("tags", []) for cell in cells) == 1
    assert (
        max(map(len, next(c.source for c in cells if "parameters" in c.metadata.get("tags", [])).splitlines())) <= WIDTH
    )
    assert any(f'check_parameters("{path.stem}", globals())' in cell.source for cell in cells)


@each_notebook
def test_no_class_and_no_long_function(path):
    for cell in read(path).cells:
        if cell.cell_type == "code":
            for node in ast.walk(ast.parse(cell.source)):
                assert not isinstance(node, ast.ClassDef)
                if isinstance(node, ast.FunctionDef):
                    assert node.end_lineno - node.lineno < 10


@pytest.mark.slow
@each_notebook
def test_help_documents_every_parameter(path):
    command = [sys.executable, "-m", "papermill", "--help-notebook", path]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for name in declared(path.stem):
        assert f"{name}:" in shown


def test_ruff_is_content():
    for command in (["check"], ["format", "--check"]):
        done = subprocess.run([sys.executable, "-m", "ruff", *command, "."], cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
