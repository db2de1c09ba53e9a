import json
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


# What may lack an import by its name: commands, themes, what pandas, transformers or peft load, a formula's source.
LOADED_BY_OTHERS = {
    "jupyterlab", "snakemake", "sphinx", "myst_nb", "sphinx_book_theme", "ipywidgets", "pyarrow", "pillow",
    "sentencepiece", "protobuf", "gguf", "accelerate", "bitsandbytes", "rank_bm25", "onnx",
}  # fmt: skip
NAMES = {
    "yaml": "pyyaml", "PIL": "pillow", "Stemmer": "pystemmer", "IPython": "ipykernel", "bs4": "beautifulsoup4",
    "markdown_it": "markdown_it_py", "sklearn": "scikit_learn", "faiss": "faiss_cpu",
}  # fmt: skip


def imported(*patterns):
    """The requirements that files of the project import."""
    modules = set()
    for path in (path for pattern in patterns for path in ROOT.glob(pattern)):
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".ipynb":
            text = "".join(line for cell in json.loads(text)["cells"] for line in [*cell["source"], "\n"])
        modules |= {*re.findall(r"^ *(?:import|from) (\w+)[\w.]*(?: import | as |$)", text, flags=re.MULTILINE)}
    known = set(sys.stdlib_module_names) | {"lib", "tests"}
    return {NAMES.get(module, module).lower() for module in modules - known}


def test_what_lib_and_the_notebooks_touch_is_what_the_report_installs():
    """An import that only works because another package happens to bring it is a missing pin, and what nothing of the
    report loads is no part of its environment."""
    report, checks = (
        {line.partition("==")[0].lower().replace("-", "_") for line in requirements(f"- pip:{part}").splitlines()}
        for part in TEXT.partition("- pip:")[2].split("# checks")
    )
    report = {name for name in report if not name.startswith("_e")}
    touched = imported("lib/**/*.py", "notebooks/*.ipynb")
    assert touched <= report
    assert report - touched <= LOADED_BY_OTHERS
    assert imported("tests/**/*.py") <= report | checks
