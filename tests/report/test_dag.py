import json
import re
from fnmatch import fnmatch

from lib.report.dag import lib_files
from lib.workbook.artifacts import ROOT


def test_files_follow_imports_of_imports(tmp_path):
    sources = dict.fromkeys(["__init__", "a/__init__", "b/__init__", "b/three", "b/unused"], "")
    sources |= {"a/one": "from lib.a import two", "a/two": "def f():\n    from lib.b.three import g"}
    for name, text in sources.items():
        path = tmp_path / "lib" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    cells = [{"cell_type": "code", "source": ["%matplotlib inline\n", "from lib.a.one import x\n"]}]
    notebook = tmp_path / "n.ipynb"
    notebook.write_text(json.dumps({"cells": cells}))
    used = ["__init__", "a/__init__", "a/one", "a/two", "b/__init__", "b/three"]
    assert lib_files(notebook, tmp_path) == [f"lib/{name}.py" for name in used]


def test_a_file_beside_a_module_counts_where_the_module_names_it(tmp_path):
    folder = tmp_path / "lib" / "a"
    folder.mkdir(parents=True)
    for name, text in {"one.py": 'open("grammar.lark")', "two.py": "", "grammar.lark": "", "notes.txt": ""}.items():
        (folder / name).write_text(text)
    notebook = tmp_path / "n.ipynb"
    for module, files in {"one": ["lib/a/grammar.lark", "lib/a/one.py"], "two": ["lib/a/two.py"]}.items():
        notebook.write_text(json.dumps({"cells": [{"cell_type": "code", "source": [f"import lib.a.{module}"]}]}))
        assert lib_files(notebook, tmp_path) == files


def test_every_kept_answer_is_an_input_of_a_rule():
    """Or a report would not be made again where the answers that it shows are others."""
    snakefile = (ROOT / "notebooks" / "Snakefile").read_text(encoding="utf-8")
    patterns = ["/".join(pair) for pair in re.findall(r'found_in\("(data/answers[^"]*)", "([^"]+)"\)', snakefile)]
    answers = [str(path.relative_to(ROOT)) for path in (ROOT / "data" / "answers").rglob("*") if path.is_file()]
    assert answers
    assert [name for name in answers if not any(fnmatch(name, pattern) for pattern in patterns)] == []
