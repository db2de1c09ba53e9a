"""The index: the answers, a card a notebook, the pages of cases, and how long all took."""

from __future__ import annotations

import html
from pathlib import Path

from lib.report import browser
from lib.report.folds import shorten
from lib.report.glossary import glossary_html, read_glossary
from lib.report.record import read_highlights, read_title
from lib.report.shell import (
    COMMITTED,
    figure_html,
    highlight_html,
    navigation,
    policy,
    profile_switch,
    script,
    style_sheet,
)
from lib.report.timing import in_gib
from lib.workbook.artifacts import ROOT, atomic_path
from lib.workbook.profiles import NOTEBOOKS
from lib.workbook.spending import money

BEYOND = "12_beyond"
COSTS = {"assistant": "assistant_cost", "workflow": "workflow_cost"}  # its figures of quality against cost
TITLE = "Context tuning and DSL generation: a reproduction workbook"
HEADLINES = {"assistant": "05_lambdamart_rrf", "workflow": "09_dsl_ablation"}  # whose first figure says it all


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


def card_html(notebook: str, record: dict, root: Path) -> str:
    """A notebook's card on the index: its title and the first sentences of what it found, the others folded; or what
    became of it."""
    profile, status = record["profile"], record["status"][notebook]
    if status == "missing":
        return f"<li class='card'><h3>{notebook.replace('_', ' ')}</h3><p>Not run.</p></li>"
    title = html.escape(read_title(notebook, profile, root))
    found = read_highlights(notebook, profile, root) if status == "ok" else []
    said = shorten("".join(highlight_html(entry, root / "reports" / profile, picture=False) for entry in found))
    if status != "ok":
        said = f"<p class='status-{status}'>{status}: {html.escape(record['errors'].get(notebook, ''))}</p>"
    return f"<li class='card'><h3><a href='{notebook}.html'>{title}</a></h3>{said}</li>"


def run_html(record: dict) -> str:
    """The index's table of the run: status, seconds and peak memory of each notebook."""
    rows, peaks = [], record.get("peak_mib", {})  # records of before have none
    for notebook in NOTEBOOKS:
        status, seconds = record["status"][notebook], record["seconds"][notebook]
        page = f"<a href='{notebook}.html'>{notebook.replace('_', ' ')}</a>" if status != "missing" else notebook
        took, cold = (
            "–" if number is None else f"{number:.0f}" for number in (seconds, record["cold_seconds"][notebook])
        )
        error = html.escape(record["errors"].get(notebook, ""))
        rows.append(
            f"<tr><td>{page}</td><td class='status-{status}'>{status}</td>"
            f"<td class='number'>{took}</td><td class='number'>{cold}</td>"
            f"<td class='number'>{in_gib(peaks.get(notebook))}</td><td>{error}</td></tr>"
        )
    total = sum(seconds for seconds in record["seconds"].values() if seconds)
    return f"""<h2 id="run">This run</h2>
<div class="table"><table class="workbook"><caption>Profile {html.escape(record["profile"])}: {total:.0f} s of notebook
time on {html.escape(record["device"])}, {record["machine"]["memory_gib"]} GiB of memory. From nothing: seconds of a
notebook's last run that found no answers or training of its own from before. Memory: the most that one process of the
last run held (resident; not a GPU's).
Details in <a href="run.json">run.json</a>.</caption>
<thead><tr><th scope="col">Notebook</th><th scope="col">Status</th><th scope="col">Seconds</th>
<th scope="col">From nothing</th><th scope="col">Memory, GiB</th><th scope="col">Error</th></tr></thead>
<tbody>{"".join(rows)}</tbody></table></div>
{spending_html(record["spending"])}"""


def render_index(record: dict, verdicts: str, root: Path = ROOT) -> Path:
    """`index.html`: the answers (HTML of `lib.report.verdicts`), a card a notebook, and how long all took."""
    profile, terms = record["profile"], read_glossary(root)
    meanings = "; the <a href='#glossary'>glossary</a> what words mean" if terms else ""
    body = f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy(script())}">
<title>{TITLE}</title><style>{style_sheet()}</style></head><body>
<a class="skip" href="#main">Skip to the content</a>
{navigation("index", profile_switch(profile, "index", root))}
<main id="main" tabindex="-1" class="index">
<h1>{TITLE}</h1>
<p class="run">Profile <b>{html.escape(profile)}</b>, computed on
{html.escape(record["device"])}.{other_reports(profile, root)}</p>
<p class="small">Small open models stand for the papers' large ones: what the papers claim of methods is tested, not
their numbers. <a href="01_data_gen.html">Notebook 01</a> says who asks, and what{meanings}.</p>
{verdicts}
{costs_html(record["status"], profile, root)}
<h2 id="notebooks">The notebooks</h2>
<ul class="cards">{"".join(card_html(notebook, record, root) for notebook in NOTEBOOKS)}</ul>
{browser.pages_html(root / "reports" / profile)}
{run_html(record)}
{glossary_html(terms)}
</main>
<footer>commit {html.escape(record["commit"] or "unknown")} · {html.escape(record["finished"])}</footer>
<script>{script()}</script>
</body></html>
"""
    target = root / "reports" / profile / "index.html"
    with atomic_path(target) as temporary:
        temporary.write_text(body, encoding="utf-8")
    return target


def other_reports(profile: str, root: Path) -> str:
    """Links to the committed reports of other profiles, where they are there."""
    there = [name for name in COMMITTED if name != profile and (root / "reports" / name / "index.html").exists()]
    links = [f"the report of profile <a href='../{name}/index.html'>{name}</a>: {COMMITTED[name]}" for name in there]
    return f" Beside it stands {'; '.join(links)}." if links else ""


def costs_html(status: dict[str, str], profile: str, root: Path) -> str:
    """Each paper's figure of quality against cost, with its alt text and a link to it; empty where the report has none.

    Args:
        status: of each notebook.
    """
    found = read_highlights(BEYOND, profile, root) if status.get(BEYOND) == "ok" else []
    entries = {entry["figure"]: entry for entry in found}
    drawn = {
        paper: figure_html(entries[name], root / "reports" / profile)
        for paper, name in COSTS.items()
        if name in entries
    }
    shown = [
        f"<div><h3>The {paper} paper</h3>{figure}<p><a href='{BEYOND}.html#figure-{COSTS[paper]}'>All conditions, "
        "their tables, and how this was computed</a></p></div>"
        for paper, figure in drawn.items()
        if figure
    ]
    return (
        f'<h2 id="cost">What a point of quality costs</h2>\n<div class="papers">{"".join(shown)}</div>' if shown else ""
    )


def headline_figures(status: dict[str, str], profile: str, root: Path) -> dict[str, str]:
    """For each paper the figure that says it all, where its notebook is done."""
    done = {paper: notebook for paper, notebook in HEADLINES.items() if status[notebook] == "ok"}
    found = {paper: read_highlights(notebook, profile, root)[:1] for paper, notebook in done.items()}
    folder = root / "reports" / profile
    return {paper: figure_html(entries[0], folder) for paper, entries in found.items() if entries}
