"""What a notebook's cells do, and where it is defined."""

import json

import pytest

from lib.report.trace import label, line_of, trace_cells
from lib.workbook.artifacts import ROOT
from lib.workbook.profiles import NOTEBOOKS

MODULE = '''"""A module."""


def rows(frame):
    return frame


class Task:
    @classmethod
    def of(cls):
        return cls()


def table(frame):
    return frame
'''


@pytest.fixture
def root(tmp_path):
    (tmp_path / "lib" / "pages").mkdir(parents=True)
    (tmp_path / "lib" / "pages" / "one.py").write_text(MODULE)
    return tmp_path


IMPORTS = "import pandas as pd\nfrom lib.pages import one as page\nfrom lib.pages.one import Task, table\n"


def test_what_is_read_computed_shown_and_written(root):
    cell = (
        'items = book.read("items")\nmade = page.rows(items)\nshow(table(made))\n'
        'book.write_table("sizes", made)\nbook.write("made", made)\npd.DataFrame()'
    )
    _, found = trace_cells([IMPORTS, cell], root)
    assert (found.reads, found.tables, found.writes) == (["items"], ["sizes"], ["made"])
    assert [tuple(place) for place in found.calls] == [("rows", "lib/pages/one.py", 4)]
    assert [tuple(place) for place in found.shows] == [("table", "lib/pages/one.py", 14)]
    assert label(found) == "shows table"


def test_a_method_of_a_class_has_its_own_line(root):
    _, found = trace_cells([IMPORTS, "task = Task.of()"], root)
    assert [tuple(place) for place in found.calls] == [("of", "lib/pages/one.py", 10)]
    assert label(found) == "computes of"


@pytest.mark.parametrize("source", ["%matplotlib inline", "", "x = 1", "book.read(name)", "unknown.rows(1)"])
def test_what_says_nothing_has_no_label(root, source):
    _, found = trace_cells([IMPORTS, source], root)
    assert label(found) == ""


def test_what_is_written_tells_more_than_what_is_read(root):
    _, found = trace_cells([IMPORTS, 'book.write("made", page.rows(book.read("items")))'], root)
    assert label(found) == "writes made"


def test_the_first_of_a_list_is_named(root):
    _, found = trace_cells([IMPORTS, 'for n in (book.read("a"), book.read("b"), book.read("c")): pass'], root)
    assert label(found) == "reads a, …"


def test_a_line_of_a_file(root):
    path = root / "claims.yaml"
    path.write_text("# head\n\n- claim: one\n- claim: two\n")
    assert (line_of(path, "- claim: two"), line_of(path, "- claim: three")) == (4, 1)


@pytest.mark.parametrize("notebook", NOTEBOOKS)
def test_most_of_what_is_shown_is_found_in_lib(notebook):
    cells = json.loads((ROOT / "notebooks" / f"{notebook}.ipynb").read_text(encoding="utf-8"))["cells"]
    traced = trace_cells(["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"], ROOT)
    showing = [cell for cell in traced if cell.shows]
    assert len(showing) >= 4
    for place in {place for cell in showing for place in cell.shows}:
        line = (ROOT / place.path).read_text(encoding="utf-8").splitlines()[place.line - 1]
        assert place.name in line
