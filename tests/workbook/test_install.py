import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path

from lib.workbook import install
from lib.workbook.install import requirements

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "environment.yml").read_text()


def test_every_requirement_is_pinned_and_says_why():
    for line in requirements(TEXT).splitlines():
        assert line.startswith("-e .") or re.match(r"[A-Za-z0-9-]+==[\w.]+\s", line), line
        assert re.search(r"\s#\s*\S", line), f"no reason given: {line}"


def test_a_wrong_python_gets_one_sentence(tmp_path):
    """The installer is run with a version it does not take, by changing the one it wants."""
    script = tmp_path / "install.py"
    shutil.copy(ROOT / "lib" / "workbook" / "install.py", script)
    script.write_text(script.read_text().replace("WANTED = (3, 11)", "WANTED = (3, 99)"))
    done = subprocess.run([sys.executable, script], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "needs Python 3.99" in done.stderr
    assert "make PYTHON=" in done.stderr


def test_an_old_python_can_read_as_far_as_that_sentence():
    ast.parse((ROOT / "lib" / "workbook" / "install.py").read_text(), feature_version=(3, 5))


def test_it_installs_once_and_through_no_link(tmp_path, monkeypatch):
    """In a checkout whose path no shell should see bare."""
    root, elsewhere, commands = tmp_path / "a b'c;d\"e$(f)", tmp_path / "elsewhere", []
    for folder in (root, elsewhere):
        folder.mkdir()
    for name in ("environment.yml", "pyproject.toml"):
        shutil.copy(ROOT / name, root)
    (root / ".venv").symlink_to(elsewhere)
    for name, path in {"ROOT": root, "VENV": root / ".venv", "STAMP": root / ".venv" / "installed.sha256"}.items():
        monkeypatch.setattr(install, name, path)

    def run(command, **settings):
        commands.append(command)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(install.subprocess, "run", run)
    monkeypatch.setattr(install.venv, "create", lambda folder, **_: Path(folder).mkdir(exist_ok=True))
    install.set_up()
    install.set_up()
    assert len(commands) == 1
    assert commands[0][0] == root / ".venv" / "bin" / "python"
    assert Path(commands[0][-1]).read_text() == requirements(TEXT)
    assert list(elsewhere.iterdir()) == []


def test_every_import_is_a_listed_requirement():
    """An import that only works because another package happens to bring it is a missing pin."""
    modules = set()
    for path in [*(ROOT / "lib").rglob("*.py"), *(ROOT / "tests").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                modules |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                modules.add(node.module.split(".")[0])
    listed = {line.partition("==")[0].lower().replace("-", "_") for line in requirements(TEXT).splitlines()}
    names = {
        "yaml": "pyyaml", "PIL": "pillow", "Stemmer": "pystemmer", "IPython": "ipykernel", "bs4": "beautifulsoup4",
        "markdown_it": "markdown_it_py", "sklearn": "scikit_learn", "faiss": "faiss_cpu",
    }  # fmt: skip
    third_party = modules - set(sys.stdlib_module_names) - {"lib", "tests"}
    assert {module for module in third_party if names.get(module, module).lower() not in listed} == set()
