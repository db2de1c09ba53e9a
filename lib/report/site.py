"""The report: one self-contained HTML page a notebook, an index, and `run.json`.

Pages open from disk with the network off: images and styles are inside, there are no scripts at all.
"""

from __future__ import annotations

import base64
import html
import json
import os
import platform
import re
import subprocess
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

import nbformat

from lib.report.timing import device, keep_cold_seconds
from lib.report.verdicts import gather_verdicts
from lib.workbook.artifacts import ROOT, atomic_path
from lib.workbook.display import table_style
from lib.workbook.machine import processor
from lib.workbook.markup import safe_markdown
from lib.workbook.profiles import NOTEBOOKS
from lib.workbook.spending import money, read_spending

TEMPLATES = Path(__file__).parent / "templates"
TITLE = "Context tuning and DSL generation: a reproduction workbook"
HERE = " aria-current='page'"
HEADLINES = {"assistant": "05_lambdamart_rrf", "workflow": "09_dsl_ablation"}  # whose first figure says it all
COMMITTED = {  # profiles whose reports the repository carries
    "full": "everything at the papers' sizes",
    "quick": "all retrieval at the papers' sizes, language models on samples of the test cases",
}
PACKAGES = (
    "jupyterlab", "papermill", "pandas", "numpy", "scipy", "matplotlib", "seaborn", "torch", "transformers",
    "sentence-transformers", "rank-bm25", "lightgbm", "peft", "bitsandbytes", "snakemake",
)  # fmt: skip


def executed_path(notebook: str, profile: str, root: Path = ROOT) -> Path:
    return root / "data" / "generated" / profile / "executed" / f"{notebook}.ipynb"


def read_status(notebook: str, profile: str, root: Path = ROOT) -> dict:
    """What became of a notebook: {status: ok, outdated, failed, stopped or missing; seconds; error; ran}.

    Stopped is one that reached its spending limit: its answers are kept, and a higher limit goes on from there. ran is
    papermill's record.
    """
    path = executed_path(notebook, profile, root)
    try:
        executed = nbformat.read(path, as_version=4)
    except (OSError, ValueError, AttributeError, nbformat.ValidationError):
        return {"status": "missing", "seconds": None, "error": "not run", "ran": {}}
    record = executed.metadata.get("papermill", {})
    errors = [
        f"{output.ename}: {output.evalue}"
        for cell in executed.cells
        for output in cell.get("outputs", [])
        if output.output_type == "error"
    ]
    finished = record.get("end_time") is not None and not record.get("exception") and not errors
    seconds = record.get("duration")
    changed = changed_input(notebook, path.parents[1]) if finished else ""
    error = f"not run again since {changed} changed" if changed else "" if finished else "did not finish"
    unfinished = "stopped" if errors and errors[0].startswith("SpendingLimit:") else "failed"
    return {
        "status": "outdated" if changed else "ok" if finished else unfinished,
        "seconds": round(seconds, 1) if seconds else None,
        "error": errors[0] if errors else error,
        "ran": dict(record),
    }


def changed_input(notebook: str, data: Path) -> str:
    """An artifact that a notebook read and that is gone or another one now, since a notebook before it failed or
    changed; empty if there is none. The sidecars tell."""
    try:
        metas = {
            path.name.removesuffix(".meta.json"): json.loads(path.read_text(encoding="utf-8"))
            for path in sorted(data.glob("*.meta.json"), key=lambda path: path.stat().st_mtime)
        }
        # The last one that a notebook wrote names all that it had read.
        read: dict[str, str] = next(
            (meta["inputs"] for meta in reversed(metas.values()) if meta["notebook"] == notebook), {}
        )
        return next((n for n, sha in read.items() if not (data / n).exists() or metas[n]["sha256"] != sha), "")
    except (OSError, ValueError, KeyError, TypeError):
        return "an artifact's sidecar"


def navigation(current: str) -> str:
    """Links between the index and the notebooks' pages."""
    pages = {"index": "Workbook"} | {notebook: notebook.replace("_", " ") for notebook in NOTEBOOKS}
    links = [
        f"<a href='{page}.html'{HERE if page == current else ''}>{html.escape(title)}</a>"
        for page, title in pages.items()
    ]
    return f"<nav class='site' aria-label='Pages'>{''.join(links)}</nav>"


def style_sheet() -> str:
    from pygments.formatters import HtmlFormatter

    own = (TEMPLATES / "report" / "report.css").read_text(encoding="utf-8")
    return own + table_style() + HtmlFormatter(style="friendly").get_style_defs(".highlight")


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
    resources = {
        "report": {
            "title": title_of(executed, notebook),
            "css": style_sheet(),
            "navigation": navigation(notebook),
            "banner": banner,
            "footer": f"<footer>profile {html.escape(profile)} · notebook {notebook}{took}</footer>",
        }
    }
    body, _ = exporter.from_notebook_node(executed, resources=resources)
    target = root / "reports" / profile / f"{notebook}.html"
    with atomic_path(target) as temporary:
        # Warnings and tracebacks name files by their full path: the page shows them relative to the project.
        found = read_highlights(notebook, profile, root) if status["status"] == "ok" else []
        page = add_opening(body, finding_html(found, target.parent) + contents_html(body))
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
    items = "".join(f"<li><a href='#{anchor}'>{title}</a></li>" for anchor, title in entries)
    return f"<nav class='toc' aria-label='Contents'>On this page<ol>{items}</ol></nav>" if entries else ""


def add_opening(page: str, opening: str) -> str:
    """The page with what it found and its contents after the first heading of level one."""
    return re.sub(r"(</h1>)", lambda match: match.group(1) + opening, page, count=1)


def git_commit(root: Path) -> str | None:
    """The commit, with a plus where tracked files other than the reports differ from it; None outside a repository."""
    try:
        commit = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=root, capture_output=True, text=True, check=True
        ).stdout.strip()
        changed = subprocess.run(
            ["git", "status", "--porcelain", "--untracked-files=no", "--", ".", ":!reports"],
            cwd=root, capture_output=True, text=True, check=True,
        ).stdout.strip()  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        return None
    return commit + ("+" if changed else "")


def run_record(profile: str, root: Path = ROOT) -> dict:
    """What `run.json` holds: profile, commit, versions, machine, device, and seconds (of the last run and of the last
    cold one) and status of each notebook."""
    import psutil

    data = root / "data" / "generated" / profile
    statuses = {notebook: read_status(notebook, profile, root) for notebook in NOTEBOOKS}
    spending = {notebook: read_last_spending(notebook, profile, root) for notebook in NOTEBOOKS}
    versions: dict[str, str | None] = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = None
    return {
        "profile": profile,
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": git_commit(root),
        "versions": versions,
        "machine": {
            "system": f"{platform.system()} {platform.machine()}",
            "processor": processor(),
            "cores": os.cpu_count(),
            "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        },
        "device": device(),
        "status": {notebook: status["status"] for notebook, status in statuses.items()},
        "errors": {notebook: status["error"] for notebook, status in statuses.items() if status["error"]},
        "seconds": {notebook: status["seconds"] for notebook, status in statuses.items()},
        "cold_seconds": {
            notebook: keep_cold_seconds(notebook, data, status["ran"], status["status"] in ("ok", "outdated"))
            for notebook, status in statuses.items()
        },
        "spending": {notebook: spent for notebook, spent in spending.items() if spent},
    }


def read_last_spending(notebook: str, profile: str, root: Path = ROOT) -> dict | None:
    """What the last run of a notebook spent at an endpoint; None where it asked none.

    A record older than the run is of an earlier one, whose profile named a remote model.
    """
    record = root / "data" / "generated" / profile / f"{notebook}.spending.json"
    try:
        executed = nbformat.read(executed_path(notebook, profile, root), as_version=4)
        started = datetime.fromisoformat(executed.metadata["papermill"]["start_time"])
        written = datetime.fromtimestamp(record.stat().st_mtime, UTC)
        return read_spending(record) if written >= started.astimezone(UTC) else None
    except (OSError, ValueError, AttributeError, KeyError, TypeError, nbformat.ValidationError):
        return None


def spending_html(spending: dict[str, dict]) -> str:
    """A table of what endpoints were paid, a row a notebook; empty where none was asked."""
    if not spending:
        return ""
    columns = ("calls", "retries", "refused", "tokens_in", "tokens_out")
    heads = (
        "Notebook",
        "Model",
        "Requests",
        "of them repeated",
        "Refused",
        "Tokens read",
        "Tokens written",
        "Cost",
        "Saved",
    )
    head = "".join(f"<th scope='col'>{name}</th>" for name in heads)
    rows = "".join(
        f"<tr><td>{notebook.replace('_', ' ')}</td><td>{html.escape(spent['model'])}</td>"
        + "".join(f"<td class='number'>{spent[name]:,}</td>" for name in columns)
        + f"<td class='number'>{money(spent['cost'] + spent['cost_lost'])}</td>"
        f"<td class='number'>{money(spent['cost_cached'])}</td></tr>"
        for notebook, spent in spending.items()
    )
    return (
        "<div class='table'><table class='workbook'><caption>Models behind an endpoint: what each notebook's last run "
        "asked, at the profile's prices. Cost: with what requests without a readable answer may be charged. Saved: by "
        "answers kept from before.</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def read_title(notebook: str, profile: str, root: Path) -> str:
    """The first heading of the executed notebook."""
    executed = nbformat.read(executed_path(notebook, profile, root), as_version=4)
    return title_of(executed, notebook)


def title_of(executed, notebook: str) -> str:
    first = next((cell.source for cell in executed.cells if cell.cell_type == "markdown" and cell.source), notebook)
    return first.splitlines()[0].lstrip("# ")


def read_highlights(notebook: str, profile: str, root: Path) -> list[dict]:
    path = root / "data" / "generated" / profile / f"{notebook}.highlights.json"
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []


def render_index(record: dict, verdicts: str, root: Path = ROOT) -> Path:
    """`index.html`: the verdicts (HTML), what each notebook found, its headline figures, and how long all took."""
    profile = record["profile"]
    folder = root / "reports" / profile
    sections, rows = [], []
    for notebook in NOTEBOOKS:
        status, seconds = record["status"][notebook], record["seconds"][notebook]
        page = f"<a href='{notebook}.html'>{notebook.replace('_', ' ')}</a>" if status != "missing" else notebook
        took, cold = (
            "–" if number is None else f"{number:.0f}" for number in (seconds, record["cold_seconds"][notebook])
        )
        error = html.escape(record["errors"].get(notebook, ""))
        rows.append(
            f"<tr><td>{page}</td><td class='status-{status}'>{status}</td>"
            f"<td class='number'>{took}</td><td class='number'>{cold}</td><td>{error}</td></tr>"
        )
        if status == "ok" and (found := read_highlights(notebook, profile, root)):
            title = html.escape(read_title(notebook, profile, root))
            sections.append(
                f"<h2><a href='{notebook}.html'>{title}</a></h2>"
                + "".join(
                    highlight_html(entry, folder, picture=not (verdicts and notebook in HEADLINES.values()))
                    for entry in found
                )
            )
    total = sum(seconds for seconds in record["seconds"].values() if seconds)
    machine = record["machine"]
    body = f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{TITLE}</title><style>{style_sheet()}</style></head><body>
{navigation("index")}
<main>
<h1>{TITLE}</h1>
<p>Two papers, rebuilt from their texts: retrieving a user's own context for under-specified queries
(<i>Context Tuning for Retrieval Augmented Generation</i>) and generating workflow code over hundreds of APIs
(<i>A Comparative Study of DSL Code Generation</i>). Brackets hold 95% intervals. By default our data are simulated and
our default models small; published numbers stand beside ours to compare patterns, not to be matched.</p>
<p class="run">This is the report of profile <b>{html.escape(profile)}</b>, computed on
{html.escape(record["device"])}.{other_reports(profile, root)}</p>
{verdicts}
{"".join(sections)}
<h2>This run</h2>
<div class="table"><table class="workbook"><caption>Profile {html.escape(profile)}: {total:.0f} s of notebook time on
{html.escape(record["device"])}, {machine["memory_gib"]} GiB of memory. From nothing: seconds of a notebook's last run
that found no answers or training of its own from before.
Details in <a href="run.json">run.json</a>.</caption>
<thead><tr><th scope="col">Notebook</th><th scope="col">Status</th><th scope="col">Seconds</th>
<th scope="col">From nothing</th><th scope="col">Error</th></tr></thead>
<tbody>{"".join(rows)}</tbody></table></div>
{spending_html(record["spending"])}
</main>
<footer>commit {html.escape(record["commit"] or "unknown")} · {html.escape(record["finished"])}</footer>
</body></html>
"""
    target = folder / "index.html"
    with atomic_path(target) as temporary:
        temporary.write_text(body, encoding="utf-8")
    return target


def other_reports(profile: str, root: Path) -> str:
    """Links to the committed reports of other profiles, where they are there."""
    there = [name for name in COMMITTED if name != profile and (root / "reports" / name / "index.html").exists()]
    links = [f"the report of profile <a href='../{name}/index.html'>{name}</a>: {COMMITTED[name]}" for name in there]
    return f" Beside it stands {'; '.join(links)}." if links else ""


def highlight_html(entry: dict, folder: Path, picture: bool = True) -> str:
    """A sentence (Markdown) and, where named, a figure embedded with its alt text."""
    from nbconvert.filters import markdown2html

    return markdown2html(safe_markdown(entry["text"])) + (figure_html(entry, folder) if picture else "")


def figure_html(entry: dict, folder: Path) -> str:
    """The figure that a highlight names, with its alt text; empty where there is none."""
    path = folder / "figures" / f"{entry['figure']}.png"
    if not entry["figure"] or not path.exists():
        return ""
    picture = base64.b64encode(path.read_bytes()).decode()
    alt = html.escape(entry["alt"], quote=True)
    return f"<figure><img src='data:image/png;base64,{picture}' alt='{alt}'></figure>"


def headline_figures(status: dict[str, str], profile: str, root: Path) -> dict[str, str]:
    """For each paper the figure that says it all, where its notebook is done."""
    done = {paper: notebook for paper, notebook in HEADLINES.items() if status[notebook] == "ok"}
    found = {paper: read_highlights(notebook, profile, root)[:1] for paper, notebook in done.items()}
    folder = root / "reports" / profile
    return {paper: figure_html(entries[0], folder) for paper, entries in found.items() if entries}


def build(profile: str, root: Path = ROOT) -> dict:
    """Render every page, the index and `run.json`; returns the record that `run.json` holds."""
    for notebook in NOTEBOOKS:
        render_page(notebook, profile, root)
    record = run_record(profile, root)
    with atomic_path(root / "reports" / profile / "run.json") as temporary:
        temporary.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    figures = headline_figures(record["status"], profile, root)
    render_index(record, gather_verdicts(profile, record["status"], root, figures), root)
    return record
