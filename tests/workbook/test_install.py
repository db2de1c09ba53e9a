import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from lib.workbook import install
from lib.workbook.install import requirements

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "environment.yml").read_text()


def pip_block():
    return next(entry["pip"] for entry in yaml.safe_load(TEXT)["dependencies"] if isinstance(entry, dict))


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
    import ast

    ast.parse((ROOT / "lib" / "workbook" / "install.py").read_text(), feature_version=(3, 5))


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A checkout whose path no shell should see bare, and what would be run in it."""
    root = tmp_path / "a b'c;d\"e$(f)"
    root.mkdir()
    for name in ("environment.yml", "pyproject.toml"):
        shutil.copy(ROOT / name, root)
    monkeypatch.setattr(install, "ROOT", root)
    monkeypatch.setattr(install, "VENV", root / ".venv")
    monkeypatch.setattr(install, "STAMP", root / ".venv" / "installed.sha256")
    commands = []

    def run(command, **settings):
        assert all(isinstance(part, str | Path) for part in command)
        assert not settings.get("shell")
        commands.append(command)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(install.subprocess, "run", run)
    monkeypatch.setattr(install.venv, "create", lambda folder, **_: Path(folder).mkdir(exist_ok=True))
    return root, commands


def test_it_installs_once_and_leaves_no_other_file(checkout):
    root, commands = checkout
    install.set_up()
    install.set_up()
    assert len(commands) == 1
    assert commands[0][0] == root / ".venv" / "bin" / "python"
    assert Path(commands[0][-1]).read_text() == requirements(TEXT)
    assert {path.name for path in root.iterdir()} == {".venv", ".venv.lock", "environment.yml", "pyproject.toml"}


def test_every_import_is_a_listed_requirement():
    """An import that only works because another package happens to bring it is a missing pin."""
    import ast

    modules = set()
    for path in [*(ROOT / "lib").rglob("*.py"), *(ROOT / "tests").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                modules |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                modules.add(node.module.split(".")[0])
    listed = {re.split(r"==", line)[0].lower().replace("-", "_") for line in pip_block()}
    names = {
        "yaml": "pyyaml",
        "PIL": "pillow",
        "Stemmer": "pystemmer",
        "IPython": "ipykernel",
        "markdown_it": "markdown_it_py",
        "bs4": "beautifulsoup4",
        "sklearn": "scikit_learn",
        "faiss": "faiss_cpu",
        "websocket": "websocket_client",
    }
    third_party = modules - set(sys.stdlib_module_names) - {"lib", "tests"}
    assert {module for module in third_party if names.get(module, module).lower() not in listed} == set()
