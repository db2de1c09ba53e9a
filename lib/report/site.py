"""The report: one self-contained HTML page a notebook, an index, and `run.json`.

Pages open from disk with the network off: images, styles and the one script are inside, and a content security policy
lets nothing else run and nothing load.
"""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import nbformat

from lib.report import browser
from lib.report.finish import Page, finish
from lib.report.glossary import read_glossary
from lib.report.index import headline_figures, render_index
from lib.report.record import executed_path, read_highlights, read_status, run_record, title_of
from lib.report.shell import TEMPLATES, highlight_html, navigation, pager, policy, profile_switch, script, style_sheet
from lib.report.timing import in_gib
from lib.report.trace import label, trace_cells
from lib.report.verdicts import gather_verdicts, statements
from lib.workbook.artifacts import ROOT, atomic_path
from lib.workbook.profiles import NOTEBOOKS

# each opens all folds of its kind, and closes them again: see report.js
BUTTONS = "".join(
    f"<button type='button' class='all-folds' data-folds='{folds}' data-what='{what}' aria-pressed='false' hidden>"
    f"Show {what}</button> "
    for what, folds in (("all tables and notes", "details.more"), ("all code", "details.source, details.setup"))
)


def annotate(executed, root: Path) -> list:
    """Write into the notebook's cells what the template says of them; returns what each code cell does.

    Set-up cells stand in one fold from the first to the last of those that follow each other at the top.
    """
    cells = [cell for cell in executed.cells if cell.cell_type == "code"]
    traced = trace_cells([cell.source for cell in cells], root)
    top = 0
    while top < len(cells) and {"setup", "parameters", "injected-parameters"} & {*cells[top].metadata.get("tags", [])}:
        top += 1
    failed = any(output.output_type == "error" for cell in cells[:top] for output in cell.outputs)
    for number, (cell, found) in enumerate(zip(cells, traced, strict=True)):
        cell.metadata["report"] = {
            "number": number,
            "label": label(found),
            "opens_setup": number == 0 and top > 0,
            "closes_setup": number == top - 1,
            "failed": failed,
        }
    return traced


def render_page(notebook: str, profile: str, root: Path = ROOT) -> Path | None:
    """The executed notebook as `reports/<profile>/<notebook>.html`, marked as failed where it failed."""
    from nbconvert import HTMLExporter

    status = read_status(notebook, profile, root)
    if status["status"] == "missing":
        return None
    executed = nbformat.read(executed_path(notebook, profile, root), as_version=4)
    executed.cells = [cell for cell in executed.cells if not is_papermill_marker(cell)]
    banner = ""
    if status["status"] == "failed":
        banner = f"<div class='banner' role='alert'>This notebook failed: {html.escape(status['error'])}</div>"
    if status["status"] == "stopped":
        said = html.escape(status["error"].removeprefix("SpendingLimit: "))
        banner = f"<div class='banner' role='alert'>This notebook stopped at its spending limit: {said}</div>"
    if status["status"] == "outdated":
        banner = f"<div class='banner' role='alert'>This page is outdated: {html.escape(status['error'])}</div>"
    exporter = HTMLExporter(template_name="report", extra_template_basedirs=[str(TEMPLATES)])
    took = f" · {status['seconds']:.0f} s" if status["seconds"] else ""
    took += f" · {in_gib(status['peak_mib'])} GiB" if status["peak_mib"] else ""
    resources = {
        "report": {
            "title": title_of(executed, notebook),
            "css": style_sheet(),
            "policy": policy(script()),
            "script": script(),
            "navigation": navigation(notebook, profile_switch(profile, notebook, root)),
            "pager": pager(notebook),
            "banner": banner,
            "footer": f"<footer>profile {html.escape(profile)} · notebook {notebook}{took}</footer>",
        }
    }
    cells = annotate(executed, root)
    body, _ = exporter.from_notebook_node(executed, resources=resources)
    target = root / "reports" / profile / f"{notebook}.html"
    with atomic_path(target) as temporary:
        # Warnings and tracebacks name files by their full path: the page shows them relative to the project.
        found = read_highlights(notebook, profile, root) if status["status"] == "ok" else []
        page = add_opening(body, finding_html(found, target.parent) + contents_html(body))
        page = browser.link_cases(page, target.parent)
        page = finish(page, Page(notebook, profile, target.parent, cells, statements(root), read_glossary(root)))
        temporary.write_text(page.replace(f"{root}/", "").replace(html.escape(f"{root}/"), ""), encoding="utf-8")
    return target


def is_papermill_marker(cell) -> bool:
    """The cells papermill adds to point at an exception; the banner says it already."""
    return "papermill-error-cell-tag" in cell.metadata.get("tags", [])


def finding_html(highlights: list[dict], folder: Path) -> str:
    """What the notebook found: its highlights, with the first one's figure; empty where there is none."""
    if not highlights:
        return ""
    said = "".join(highlight_html(entry, folder, picture=number == 0) for number, entry in enumerate(highlights))
    return f"<section class='finding' aria-label='What was found'>{said}</section>"


def contents_html(page: str) -> str:
    """A table of contents of the second-level headings; empty where there is none."""
    entries = re.findall(r'<h2 id="([^"]+)">(.*?)<a class="anchor-link"', page)
    items = "".join(f'<li><a href="#{anchor}">{title}</a></li>' for anchor, title in entries)
    return f"<nav class='toc' aria-label='Contents'>On this page<ol>{items}</ol>{BUTTONS}</nav>" if entries else ""


def add_opening(page: str, opening: str) -> str:
    """The page with what it found and its contents after the first heading of level one."""
    return re.sub(r"(</h1>)", lambda match: match.group(1) + opening, page, count=1)


def headings(notebook: str, profile: str, root: Path) -> list[tuple[str, str]]:
    """(id, text) of the headings of a notebook's page, as it lies in the report."""
    path = root / "reports" / profile / f"{notebook}.html"
    page = path.read_text(encoding="utf-8") if path.exists() else ""
    found = re.findall(r'<h[23] id="([^"]+)">(.*?)<a class="anchor-link"', page)
    return [(html.unescape(place), html.unescape(re.sub("<[^>]+>", "", text))) for place, text in found]


def build(profile: str, root: Path = ROOT) -> dict:
    """Render every page, the index and `run.json`; returns the record that `run.json` holds."""
    record = run_record(profile, root)
    browser.write_pages(profile, record["status"], style_sheet(), navigation("cases"), root)
    for notebook in NOTEBOOKS:
        render_page(notebook, profile, root)
    with atomic_path(root / "reports" / profile / "run.json") as temporary:
        temporary.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    figures = headline_figures(record["status"], profile, root)
    places = {notebook: headings(notebook, profile, root) for notebook in NOTEBOOKS}
    render_index(record, gather_verdicts(record, root, figures, places), root)
    return record
