"""Verdicts on the papers' claims, gathered from the notebooks that tested them: a table, and a part of the index."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from lib.evaluation.claims import COLUMNS, VERDICTS, tally
from lib.workbook.artifacts import ArtifactError, Workbook, sidecar_of
from lib.workbook.parameters.base import Parameters
from lib.workbook.profiles import NOTEBOOKS

# Shapes that differ in greyscale, too.
SYMBOLS = {"reproduced": "✔", "same direction": "↗", "equivalent": "≈", "contradicted": "✘", "underpowered": "?"}
UNITS = {"points": " points", "percent": "%", "fold": "-fold"}
# Each paper's title, which models of ours stand for which of its own, and what the rows of its table show.
PAPERS = {
    "assistant": (
        "Context Tuning for Retrieval Augmented Generation",
        "Models of ours, by default far smaller, stand for GPT-4, which writes chains of thought, and for "
        "OpenLLaMA-v2-7B, the planner; each notebook names its own.",
        "Effects with 95% intervals. A claim made for several methods or K shows the weakest one, named below its "
        "statement with the number of queries n.",
    ),
    "workflow": (
        "A Comparative Study of DSL Code Generation",
        "One model of ours, by default far smaller, stands for both GPT-4, which writes with few-shots, and Codex, "
        "which is fine-tuned; the notebooks name it.",
        "Effects with 95% intervals: percentage points, or points of similarity (0–100). A claim made for several "
        "methods or numbers of few-shots shows the weakest one, named below its statement with the number of test "
        "flows n.",
    ),
}


def read_verdicts(book: Workbook, status: dict[str, str]) -> tuple[pd.DataFrame, list[str]]:
    """All verdicts of a profile, in the notebooks' order, and what could not be read.

    Args:
        book: of the profile.
        status: of each notebook; those that are not `ok` have no say.

    Returns:
        the columns of `lib.evaluation.claims.evaluate` and `notebook`; empty where nothing was tested.
    """
    frames, problems = {}, []
    for path in sorted(book.data.glob("claims_*.parquet")):
        try:
            frame = book.read(path.stem)
        except ArtifactError as error:
            problems.append(str(error))
            continue
        notebook = json.loads(sidecar_of(path).read_text(encoding="utf-8"))["notebook"]
        if status.get(notebook) == "ok":
            frames[list(NOTEBOOKS).index(notebook), path.name] = frame.assign(notebook=notebook)
    found = [frames[key] for key in sorted(frames)]
    return (pd.concat(found, ignore_index=True) if found else pd.DataFrame(columns=COLUMNS)), problems


def gather_verdicts(profile: str, status: dict[str, str], root: Path, figures: Mapping[str, str] | None = None) -> str:
    """Write `tables/claims.csv`, or remove an older one where no claim was tested; returns the index page's section.

    Args:
        figures: HTML of the figure that says it all, by paper.
    """
    book = Workbook("index", Parameters(profile=profile), root)
    verdicts, problems = read_verdicts(book, status)
    if len(verdicts):
        book.write_table("claims", verdicts[COLUMNS])
    else:
        (book.report / "tables" / "claims.csv").unlink(missing_ok=True)
    return verdicts_html(verdicts, problems, figures or {})


def verdicts_html(verdicts: pd.DataFrame, problems: list[str], figures: Mapping[str, str] | None = None) -> str:
    """How many claims of each paper reproduced, its figure, and each claim with our effect beside the published one.

    A paper's tally counts claims about methods; the other groups stand apart, each with the reason.
    """
    warnings = "".join(f"<p class='problem' role='alert'>{html.escape(problem)}</p>" for problem in problems)
    if verdicts.empty:
        return warnings
    parts = {paper: verdicts[verdicts["paper"] == paper] for paper in PAPERS if paper in set(verdicts["paper"])}
    meanings = "".join(f"<dt>{_mark(verdict)}</dt><dd>{meaning}</dd>" for verdict, meaning in VERDICTS.items())
    return f"""{warnings}
<h2 id="verdicts">What reproduced, and what did not</h2>
{"".join(_tally(paper, part) + (figures or {}).get(paper, "") for paper, part in parts.items())}
<details><summary>What the verdicts mean</summary><dl>{meanings}</dl></details>
{"".join(_table(paper, part) for paper, part in parts.items())}
"""


def _tally(paper: str, verdicts: pd.DataFrame) -> str:
    """One paper's result at a glance: how many claims came out as it has them, and the count of each verdict."""
    title, stand_ins, _ = PAPERS[paper]
    first, *apart = tally(verdicts).to_dict("records")
    counts = "".join(
        f"<li class='{_css(verdict)}'><b>{first[verdict]}</b> {_mark(verdict)}</li>" for verdict in VERDICTS
    )
    others = "".join(
        f"<li><b>{group['as_claimed']} of {group['claims']}</b> {html.escape(group['why'])}</li>" for group in apart
    )
    others = f"<p>Counted apart:</p><ul class='apart'>{others}</ul>" if others else ""
    few = first["underpowered"]
    undecided = f"; <b>{few}</b> stayed undecided, with too few queries or flows to show such an effect" if few else ""
    return f"""<h3>{title}</h3>
<p><b>{first["as_claimed"]} of the {first["claims"]}</b> claims {html.escape(first["why"])} tested here
came out as the paper has them{undecided} (<a href="#claims-{paper}">each claim</a>).</p>
<ul class="tally">{counts}</ul>
{others}
<p>{stand_ins}</p>
"""


def _table(paper: str, verdicts: pd.DataFrame) -> str:
    title, _, caption = PAPERS[paper]
    rows = "".join(_row(row) for row in verdicts.to_dict("records"))
    return f"""<h3 id="claims-{paper}">The claims of <i>{title}</i></h3>
<div class="table"><table class="workbook verdicts"><caption>{caption} Significant: p ≤ .05 after Holm's
adjustment.</caption>
<thead><tr><th scope="col">Verdict</th><th scope="col">What the paper claims</th><th scope="col">Ours</th>
<th scope="col">Published</th></tr></thead>
<tbody>{rows}</tbody></table></div>
"""


def _css(verdict: str) -> str:
    return f"verdict-{verdict.replace(' ', '-')}"


def _mark(verdict: str) -> str:
    return f"<span aria-hidden='true'>{SYMBOLS[verdict]}</span> {verdict}"


def _row(row: dict) -> str:
    from lib.workbook.methods import label

    at, flows = (f"{row['k']} few-shots", " flows") if row["paper"] == "workflow" else (f"K = {row['k']}", "")
    paired = f" ({row['clusters']} on both sides)" if flows and row["clusters"] < row["n"] else ""
    where = f"{label(row['method'])}, {at}, n = {row['n']:,}{flows}{paired}" if row["n"] else "no query to test it on"
    apart = "" if row["about"] == "method" else f" · counted apart: {row['about'].replace('_', ' ')}"
    notebook = f"<a href='{row['notebook']}.html'>notebook {row['notebook'].split('_')[0]}</a>"
    ours = f"{_effect(row['effect'], row['unit'])}<br><small>{_interval(row)}</small>" if row["n"] else "–"
    return (
        f"<tr><td class='label {_css(row['verdict'])}'>{_mark(row['verdict'])}<br>"
        f"<small>{html.escape(row['reason'])}</small></td>"
        f"<td class='text'>{html.escape(row['statement'])}<br>"
        f"<small>{html.escape(row['source'])} · {html.escape(where)} · {notebook}{apart}</small></td>"
        f"<td class='number'>{ours}</td><td class='number'>{_effect(row['published'], row['unit'])}</td></tr>"
    )


def _decimals(unit: str) -> int:
    return 2 if unit == "fold" else 1


def _effect(value: float, unit: str) -> str:
    from lib.workbook.display import number

    if value != value:
        return "–"
    sign = "+" if unit == "points" and value > 0 else ""
    return f"{sign}{number(value, _decimals(unit))}{UNITS[unit]}"


def _interval(row: dict) -> str:
    from lib.workbook.display import number

    return "[" + ", ".join(number(row[end], _decimals(row["unit"])) for end in ("ci_low", "ci_high")) + "]"
