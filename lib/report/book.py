"""The book: the executed notebooks as pages of a Sphinx site, `reports/<profile>/`, which opens from disk.

Its pages are the notebooks, the front page first; their order is that of their names. What a reader should not see
(warnings, papermill's cells, paths of this machine) is taken out before Sphinx reads them.
"""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from lib.report import cases
from lib.report.record import read_executed, run_record
from lib.workbook.artifacts import ROOT, ArtifactError, atomic_path
from lib.workbook.markup import safe_markdown
from lib.workbook.parameters import NOTEBOOKS

TITLE = "Context tuning and DSL generation"
CONF = """\
import lib.report
project = html_title = {title!r}
author = copyright = ""
extensions = ["myst_nb"]
myst_heading_anchors = 3
nb_execution_mode = "off"
nb_code_prompt_show, nb_code_prompt_hide = "Show code", "Hide code"
nb_merge_streams = True
html_theme = "sphinx_book_theme"
html_theme_options = {{
    "home_page_in_toc": True,
    "show_toc_level": 2,
    "toc_title": "On this page",
    "use_download_button": False,
    "use_fullscreen_button": False,
    **dict.fromkeys(("navbar_start", "navbar_center", "navbar_end", "navbar_persistent"), []),
    "extra_footer": {footer!r},
}}
html_sidebars = {{"**": ["search-button-field", "sbt-sidebar-nav"]}}  # the theme's title lies outside any landmark
html_static_path, html_css_files = ["_static"], ["book.css"]
html_context = {{"default_mode": "auto"}}
html_copy_source = html_show_sourcelink = html_use_index = html_domain_indices = False
html_show_sphinx = html_show_copyright = False
html_show_search_summary = False  # it reads other pages by fetch, which fails from disk
"""
SHOWN = ("text/html", "image/png", "text/plain")  # what a page shows of an output, the first that is there
BANNERS = {
    "failed": "This notebook failed",
    "stopped": "This notebook stopped at its spending limit",
    "outdated": "This page is outdated",
    "missing": "This notebook was not run",
}
PYTHON = {
    "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"},
    "language_info": {"name": "python", "pygments_lexer": "ipython3"},
}
REMOVED = {"injected-parameters", "papermill-error-cell-tag"}
OUTSIDE = re.compile(r"\[([^\]]+)\]\(\.\./([^)\s]+)\)")  # a link to a file of the project


def build(profile: str, root: Path = ROOT) -> dict:
    """Write the book of a profile and `run.json`; returns the record that this holds.

    Raises:
        ArtifactError: Sphinx warned of something; the book is there, and the message has the warnings.
    """
    record = run_record(profile, root)
    work, report = root / "data" / "generated" / profile / "book", root / "reports" / profile
    shutil.rmtree(work, ignore_errors=True)
    write_sources(work / "source", record, root)
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", "-d", str(work / "doctrees")]
    done = subprocess.run(
        [*command, str(work / "source"), str(work / "html")], cwd=root, capture_output=True, text=True
    )
    if not (work / "html" / "index.html").exists():
        raise ArtifactError(f"the book could not be made: {done.stderr.strip()}")
    shutil.copytree(work / "cases", work / "html", dirs_exist_ok=True)  # in the place of their stubs
    prune(work / "html")
    for old in (*report.glob("*.html"), *report.glob("*.js"), report / "_static", report / "_images"):
        shutil.rmtree(old) if old.is_dir() else old.unlink(missing_ok=True)
    shutil.copytree(work / "html", report, dirs_exist_ok=True)
    shutil.rmtree(work)
    with atomic_path(report / "run.json") as temporary:
        temporary.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    if done.returncode:
        raise ArtifactError(f"the book has faults: {done.stderr.strip()}")
    return record


def write_sources(source: Path, record: dict, root: Path) -> None:
    """What Sphinx reads: conf.py, the style sheet, a notebook a page, and a stub for each page of cases, which takes
    its place later: so Sphinx knows where links to them lead, and searches none of their text."""
    (source / "_static").mkdir(parents=True)
    (source.parent / "cases").mkdir()
    shutil.copy(Path(__file__).with_name("book.css"), source / "_static")
    commit = (record["commit"] or "unknown")[:9]
    footer = f"Profile {html.escape(record['profile'])}, commit {html.escape(commit)}, {html.escape(record['device'])}"
    (source / "conf.py").write_text(CONF.format(title=TITLE, footer=footer), encoding="utf-8")
    browsers = cases.write_pages(record, source.parent / "cases", root)
    for name in cases.TITLES:
        missing = "" if name in browsers else "\n\nThe notebooks that make these cases were not run.\n"
        (source / f"{name}.md").write_text(f"# {cases.TITLES[name]}{missing}", encoding="utf-8")
    pages = [name for name in NOTEBOOKS if name != "index"]
    for name in NOTEBOOKS:
        page = prepared(name, record, root)
        if name == "index":
            listed = "\n".join([*pages, *cases.TITLES])
            page.cells.append(new_markdown_cell(f"```{{toctree}}\n:hidden:\n\n{listed}\n```"))
        text = nbformat.writes(page)
        for path, shown in {f"{root}/": "", str(root): ".", f"{Path.home()}/": "~/"}.items():
            for form in (path, html.escape(path)):
                text = text.replace(json.dumps(form)[1:-1], shown)
        (source / f"{name}.ipynb").write_text(text, encoding="utf-8")


def prepared(notebook: str, record: dict, root: Path) -> NotebookNode:
    """An executed notebook as a page shows it; its own text where it was not run."""
    executed = read_executed(notebook, record["profile"], root)
    if executed is None:
        executed = nbformat.read(root / "notebooks" / f"{notebook}.ipynb", as_version=4)
    page = new_notebook(metadata=PYTHON)
    for cell in executed.cells:
        if REMOVED & {*cell.metadata.get("tags", [])}:
            continue
        parts = list(prepared_cell(cell))
        if page.cells and page.cells[-1].cell_type == cell.cell_type == "code" and not page.cells[-1].outputs:
            # code that shows nothing shares a fold with the code after it
            parts[0].source = f"{page.cells.pop().source}\n\n{parts[0].source}"
        page.cells += parts
    if (status := record["status"][notebook]) in BANNERS:
        error = html.escape(record["errors"][notebook])
        said = f"<p class='admonition-title'>{BANNERS[status]}</p><p>{error}</p>"
        banner = f"<div class='admonition warning banner' role='alert'>{said}</div>"
        page.cells.insert(1, shown_alone(new_output("display_data", data={"text/html": banner})))
    return page


def prepared_cell(cell: NotebookNode) -> Iterator[NotebookNode]:
    """A cell with its code hidden and one figure; every further figure in a cell of its own. A cell with the tag
    `hide-output` shows its tables in a fold, and no code."""
    if cell.cell_type != "code":
        yield new_markdown_cell(OUTSIDE.sub(r"<a href='../../\2'>\1</a>", cell.source))
        return
    own = new_code_cell(cell.source, metadata={"tags": ["hide-input"]})
    if "hide-output" in cell.metadata.get("tags", []):
        prompts = {"code_prompt_show": "Show the table", "code_prompt_hide": "Hide the table"}
        own.metadata = {"tags": ["remove-input", "hide-output"], "mystnb": prompts}
    further: list[Any] = []
    for output in filter(None, map(prepared_output, cell.outputs)):
        alone = shown_alone(output)
        if further or ("mystnb" in alone.metadata and "mystnb" in own.metadata):
            further.append(alone)
        else:
            own.outputs.append(output)
            own.metadata = alone.metadata | own.metadata
    yield from [own, *further]


def prepared_output(output: NotebookNode) -> NotebookNode | None:
    """An output as a page shows it; None for what it does not: warnings, widgets, scripts."""
    if output.output_type == "stream":
        return output if output.name == "stdout" else None
    if output.output_type == "error":
        return output
    data = dict(output.data)
    if "text/markdown" in data:
        data["text/html"] = safe_markdown(data["text/markdown"])
    mime = next((mime for mime in SHOWN if mime in data), None)
    if mime is None or any("widget" in other for other in data):
        return None
    return new_output("display_data", data={mime: data[mime]}, metadata=output.metadata)


def shown_alone(output: NotebookNode) -> NotebookNode:
    """A cell that shows an output and no code; of a figure with the alternative text, as MyST-NB takes it."""
    metadata: dict[str, Any] = {"tags": ["remove-input"]}
    if "image/png" in output.get("data", {}):
        metadata["mystnb"] = {"image": {"alt": output.metadata.get("image/png", {}).get("alt", "figure")}}
    return new_code_cell("# shown alone", outputs=[output], metadata=metadata)


def prune(folder: Path) -> None:
    """Delete what no page uses: the theme's translations and fonts, source maps, the inventory for other books."""
    for name in ("objects.inv", ".buildinfo", "genindex.html"):
        (folder / name).unlink(missing_ok=True)
    for name in ("_sources", "_static/locales", "_static/locale"):
        shutil.rmtree(folder / name, ignore_errors=True)
    text = [path for path in folder.rglob("*") if path.suffix in (".html", ".css", ".js")]
    used = "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in text)
    for path in sorted((folder / "_static").rglob("*"), reverse=True):  # a folder after what is in it
        if path.is_file() and (path.name not in used or path.suffix == ".map"):
            path.unlink()
        elif path.is_dir() and not any(path.iterdir()):
            path.rmdir()
