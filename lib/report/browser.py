"""The pages of cases, `queries.html` and `flows.html`: every evaluation query and test flow, filtered in the page.

They open from disk with the network off. The data are in the page, as gzipped JSON in base64: no server is needed, no
text in them can become markup, and a page of thousands of flows stays small. The page's only script reads them; its
content security policy lets nothing else run and nothing load. `lib.workbook.cases` has the addresses of views.
"""

from __future__ import annotations

import base64
import gzip
import html
import json
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from string import Template
from typing import Any
from urllib.parse import parse_qsl

import pandas as pd

from lib.report.flow_cases import flow_cases, judge_answers
from lib.report.query_cases import query_cases
from lib.report.shell import policy
from lib.retrieval.fusion import fuse_runs
from lib.workbook.artifacts import ROOT, ArtifactError, Workbook, atomic_path, sidecar_of
from lib.workbook.cases import FILTERS
from lib.workbook.methods import label
from lib.workbook.parameters.base import Parameters
from lib.workbook.parameters.dsl_ablation import DSLAblation
from lib.workflows.ablation import title
from lib.workflows.ablation_grid import UNSEEN_FINETUNED, UNSEEN_HELD, unseen_parts
from lib.workflows.catalogue import Catalogue
from lib.workflows.pages.dsl_ablation import COPIES, title_of_unseen

TEMPLATES = Path(__file__).parent / "templates" / "report"
LIMIT = 4_000_000  # bytes of a page; there are two
KEPT = (None, 500, 250, 100, 50)  # answers of each condition and test set: None is all
TITLES = {
    "queries": ("Every query, case by case", "the assistant's evaluation queries"),
    "flows": ("Every test flow, case by case", "the workflows' test requests"),
}
# The first that has a method counts.
RANKINGS = ("context_rankings", "baseline_rankings", "cot_rankings", "finetuned_rankings")
QUERY_FRAMES = ("other_plans", "cot", "tool_rankings", "plans")
FLOW_FRAMES = ("ablation_scores", "finetuned_flows")
CELL = re.compile(
    r"""(?P<opening><td class=["']\w+["']) data-cases=(?P<quote>["'])"""
    r"""(?P<address>(?P<page>queries|flows)\.html#[^'"<>]*)(?P=quote)>(?P<text>.*?)</td>""",
    re.DOTALL,
)  # what `lib.workbook.display.show_table` writes; nbconvert changes its quotes


def write_pages(
    profile: str, status: Mapping[str, str], style: str, navigation: str, root: Path = ROOT
) -> dict[str, Path]:
    """Write the pages whose artifacts are there, and remove those whose artifacts are not; returns them by name.

    Args:
        status: of each notebook; what those that are not `ok` wrote is left out.
        style: the report's style sheet.
        navigation: HTML of the links to its pages.
    """
    book, made = Workbook("cases", Parameters(profile=profile), root), {}
    for name, gather in {"queries": gather_queries, "flows": gather_flows}.items():
        target, data = book.report / f"{name}.html", gather(book, status)
        if data is None:
            target.unlink(missing_ok=True)
            continue
        with atomic_path(target) as temporary:
            temporary.write_text(fitting(data, name, style, navigation), encoding="utf-8")
        made[name] = target
    return made


def fitting(data: Callable[[int | None], dict], name: str, style: str, navigation: str) -> str:
    """The page of the first of `KEPT` with which it is no larger than `LIMIT`, else of the last.

    Args:
        data: gives what the page shows, for one of `KEPT`.
    """
    page = ""
    for kept in KEPT:
        page = render(data(kept), name, style, navigation)
        if len(page.encode()) <= LIMIT:
            break
    return page


def read_if_done(book: Workbook, name: str, status: Mapping[str, str]) -> pd.DataFrame | None:
    """A table that a notebook wrote whose status is `ok`; None where there is none, or it is damaged."""
    try:
        meta = json.loads(sidecar_of(book.data / f"{name}.parquet").read_text(encoding="utf-8"))
        return book.read(name) if status.get(meta["notebook"]) == "ok" else None
    except (OSError, ValueError, KeyError, TypeError, ArtifactError):
        return None


def gather_queries(book: Workbook, status: Mapping[str, str]) -> Callable[[int | None], dict] | None:
    """What `queries.html` shows; None without the queries, their labels or their items."""
    frames = {name: read_if_done(book, name, status) for name in ("queries", "gold", "items")}
    if any(frame is None for frame in frames.values()):
        return None
    frames |= {name: read_if_done(book, name, status) for name in QUERY_FRAMES}
    rankings = [frame for name in RANKINGS if (frame := read_if_done(book, name, status)) is not None]
    if rankings:
        first = pd.concat(rankings, ignore_index=True).drop_duplicates(["method", "query", "item"])
        frames["rankings"] = pd.concat([first, fused_texts(first)], ignore_index=True)
    made_with = book.made_with("queries.parquet")
    there = {name: frame for name, frame in frames.items() if frame is not None}
    data = query_cases(there, made_with.get("world_folder") or made_with.get("world") or "")
    return lambda _: data


def fused_texts(rankings: pd.DataFrame) -> pd.DataFrame:
    """The method `rrf_text`, which no notebook keeps, out of the rankings it fuses; empty where one is missing."""
    runs = [rankings[rankings["method"] == method] for method in ("bm25t", "semantic")]
    asked = runs[0]["query"].unique()
    if any(run.empty for run in runs):
        return rankings.iloc[:0]
    return fuse_runs([run[run["query"].isin(asked)] for run in runs]).assign(method="rrf_text")


def gather_flows(book: Workbook, status: Mapping[str, str]) -> Callable[[int | None], dict] | None:
    """What `flows.html` shows, by the number of answers kept of each condition and test set; None without the pairs or
    without any answer."""
    flows, reworded = (read_if_done(book, name, status) for name in ("flows", "reworded"))
    answers = [frame for name in FLOW_FRAMES if (frame := read_if_done(book, name, status)) is not None]
    if flows is None or not answers:
        return None
    try:
        catalogue = Catalogue.from_lines(book.read_lines("catalogue"))
    except ArtifactError:
        return None
    frames = {"flows": flows, "answers": judge_answers(pd.concat(answers, ignore_index=True), flows, catalogue)}
    if reworded is not None:
        frames["reworded"] = reworded
    titles = condition_titles(book, frames["answers"]["condition"].unique())
    return lambda kept: flow_cases(frames, titles, kept)


def condition_titles(book: Workbook, conditions: Iterable[str]) -> dict[str, str]:
    """Conditions for readers: notebook 09's by their titles there, notebook 08's by their names and its number; none
    before notebook 09 ran."""
    try:
        asked = book.parameters_of("ablation_scores.parquet", DSLAblation)
    except ArtifactError:
        return {}
    assert isinstance(asked, DSLAblation)
    named = {row.name: title(row, asked.reader) for row in asked.rows}
    named |= {name: f"nearest few-shot copied, {label(selector)}" for name, selector in COPIES.items()}
    named |= {
        UNSEEN_FINETUNED: "fine-tuned model",
        UNSEEN_HELD: "fine-tuned model, under the grammar and the catalogue",
    }
    for name in conditions:
        if held_out := unseen_parts(name):
            named[name] = title_of_unseen(*held_out)
        if name.startswith("unseen: "):
            named[name] = f"held-out APIs: {named.get(name, name)}"
        elif name not in named:
            named[name] = f"{name} (notebook 08)"
    return named


# ---- the page


def render(data: Mapping[str, Any], name: str, style: str, navigation: str) -> str:
    """A page of cases."""
    heading, about = TITLES[name]
    script = (TEMPLATES / "browser.js").read_text(encoding="utf-8")
    filters = "".join(
        f"<dt><code>{html.escape(key)}</code></dt><dd>{html.escape(said)}</dd>" for key, said in FILTERS[name].items()
    )
    page = Template((TEMPLATES / "browser.html").read_text(encoding="utf-8"))
    return page.substitute(
        title=html.escape(heading),
        about=html.escape(about + _asked(data)),
        page=name,
        style=style + (TEMPLATES / "browser.css").read_text(encoding="utf-8"),
        navigation=navigation,
        filters=filters,
        data=packed(data),
        script=script,
        policy=policy(script, pictures="'none'"),
    )


def _asked(data: Mapping[str, Any]) -> str:
    """For how many of a page's flows a condition was asked; nothing on a page of queries."""
    if data["page"] != "flows":
        return ""
    written = sum(bool(case["by"]) for case in data["cases"])
    return f" ({written:,} of {len(data['cases']):,} have a flow that a model wrote or copied)"


def packed(data: Mapping[str, Any]) -> str:
    """Data as JSON, gzipped, in base64: the same bytes for the same data."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def unpacked(page: str) -> dict[str, Any]:
    """The data of a page."""
    found = re.search(r'<script type="text/plain" id="data">([^<]*)</script>', page)
    if found is None:
        raise ValueError("no page of cases")
    return json.loads(gzip.decompress(base64.b64decode(found[1])))


# ---- links to it


def link_cases(page: str, folder: Path) -> str:
    """A report's page in which every number with an address of cases is a link to them, where the page of cases has
    what the address asks for."""
    choices = {name: choices_of(folder / f"{name}.html") for name in TITLES}

    def link(cell: re.Match) -> str:
        asked = parse_qsl(html.unescape(cell["address"]).partition("#")[2])
        known = all(value in choices[cell["page"]].get(name, ()) for name, value in asked)
        text = f"<a class='cases' href='{cell['address']}'>{cell['text']}</a>" if asked and known else cell["text"]
        return f"{cell['opening']}>{text}</td>"

    return CELL.sub(link, page)


def choices_of(path: Path) -> dict[str, set[str]]:
    """{filter: its values} of a page of cases; empty where there is none."""
    if not path.exists():
        return {}
    facets = unpacked(path.read_text(encoding="utf-8"))["facets"]
    return {facet["name"]: {value for value, _ in facet["options"]} for facet in facets}


def pages_html(folder: Path) -> str:
    """Links to the pages of cases that are there, for the index."""
    links = [
        f"<li><a href='{name}.html'>{html.escape(heading)}</a>: {html.escape(about)}, with all that was retrieved and "
        "written for them.</li>"
        for name, (heading, about) in TITLES.items()
        if (folder / f"{name}.html").exists()
    ]
    return f"<h2 id='cases'>The cases behind the numbers</h2><ul>{''.join(links)}</ul>" if links else ""
