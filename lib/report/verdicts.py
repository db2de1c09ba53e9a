"""Verdicts on the papers' claims, gathered from the notebooks that tested them: a table, and a part of the index."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from lib.evaluation.claims import BY_ROW, COLUMNS, by_row, tally
from lib.evaluation.judgement import NOT_TESTABLE, OPEN, VERDICTS
from lib.report import agreement
from lib.workbook.artifacts import ArtifactError, Workbook, sidecar_of
from lib.workbook.parameters.base import Parameters
from lib.workbook.profiles import NOTEBOOKS

# Shapes that differ in greyscale, too.
SYMBOLS = {
    "reproduced": "✔", "same direction": "↗", "equivalent": "≈", "contradicted": "✘", "undecided": "◐",
    "underpowered": "?", NOT_TESTABLE: "∅",
}  # fmt: skip
WRITTEN = [name for name in BY_ROW if name != "reason"]  # columns of tables/claims.csv
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
        if "rows" not in frame:
            problems.append(f"{path.name}: another version wrote it: run `make report` again")
            continue
        notebook = json.loads(sidecar_of(path).read_text(encoding="utf-8"))["notebook"]
        if status.get(notebook) == "ok":
            frames[list(NOTEBOOKS).index(notebook), path.name] = frame.assign(notebook=notebook)
    found = [frames[key] for key in sorted(frames)]
    return (pd.concat(found, ignore_index=True) if found else pd.DataFrame(columns=COLUMNS)), problems


def gather_verdicts(profile: str, status: dict[str, str], root: Path, figures: Mapping[str, str] | None = None) -> str:
    """Write `tables/claims.csv`, one row for each claim and cutoff, or remove an older one where no claim was tested;
    returns the index page's section.

    Args:
        figures: HTML of the figure that says it all, by paper.
    """
    book = Workbook("index", Parameters(profile=profile), root)
    verdicts, problems = read_verdicts(book, status)
    if verdicts.empty:
        (book.report / "tables" / "claims.csv").unlink(missing_ok=True)
        return verdicts_html(verdicts, problems, figures or {})
    book.write_table("claims", by_row(verdicts)[WRITTEN])
    return verdicts_html(verdicts, problems, figures or {}, read_full(profile, root))


def read_full(profile: str, root: Path) -> pd.DataFrame | None:
    """The verdicts of the report `full`, for another profile's; None where there is no such report."""
    path = root / "reports" / agreement.FULL / "tables" / "claims.csv"
    if profile == agreement.FULL or not path.exists():
        return None
    try:
        table = pd.read_csv(path, dtype={"k": str}, keep_default_na=False, na_values=[""])
    except (ValueError, OSError):  # an empty or broken file
        return None
    return table if {*COLUMNS, "overall", "weakest"} <= set(table) else None


def verdicts_html(
    verdicts: pd.DataFrame,
    problems: list[str],
    figures: Mapping[str, str] | None = None,
    full: pd.DataFrame | None = None,
) -> str:
    """How many claims of each paper reproduced, its figure, and each claim with our effect beside the published one.

    A paper's tally counts claims about methods; the other groups stand apart, each with the reason.

    Args:
        full: `tables/claims.csv` of the report `full`, where this one stands beside it.
    """
    warnings = "".join(f"<p class='problem' role='alert'>{html.escape(problem)}</p>" for problem in problems)
    if verdicts.empty:
        return warnings
    parts = {paper: verdicts[verdicts["paper"] == paper] for paper in PAPERS if paper in set(verdicts["paper"])}
    agreed = "" if full is None else agreement.in_words(agreement.beside_full(by_row(verdicts), full))
    theirs = None if full is None or not agreed else agreement.of_claims(full)
    meanings = "".join(f"<dt>{_mark(verdict)}</dt><dd>{meaning}</dd>" for verdict, meaning in VERDICTS.items())
    return f"""{warnings}
<h2 id="verdicts">What reproduced, and what did not</h2>
{f"<p class='agreement'>{html.escape(agreed)}</p>" if agreed else ""}
{"".join(_tally(paper, part) + (figures or {}).get(paper, "") for paper, part in parts.items())}
<details><summary>What the verdicts mean</summary><dl>{meanings}</dl></details>
{"".join(_table(paper, part, theirs) for paper, part in parts.items())}
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
    few, hidden = sum(first[word] for word in OPEN), first[NOT_TESTABLE]
    undecided = f"; <b>{few}</b> stayed open, for want of queries or flows" if few else ""
    undecided += f"; <b>{hidden}</b> cannot be tested here" if hidden else ""
    return f"""<h3>{title}</h3>
<p><b>{first["as_claimed"]} of the {first["claims"]}</b> claims {html.escape(first["why"])} tested here
came out as the paper has them{undecided} (<a href="#claims-{paper}">each claim</a>).</p>
<ul class="tally">{counts}</ul>
{others}
<p>{stand_ins}</p>
"""


def _table(paper: str, verdicts: pd.DataFrame, theirs: pd.DataFrame | None) -> str:
    title, _, caption = PAPERS[paper]
    rows = "".join(_row(row, theirs) for row in verdicts.to_dict("records"))
    beside = "" if theirs is None else " Full: the report of profile full, with its own weakest row."
    head = "" if theirs is None else "<th scope='col'>Full</th>"
    return f"""<h3 id="claims-{paper}">The claims of <i>{title}</i></h3>
<div class="table"><table class="workbook verdicts"><caption>{caption} Significant: p ≤ .05 after Holm's
adjustment.{beside}</caption>
<thead><tr><th scope="col">Verdict</th><th scope="col">What the paper claims</th><th scope="col">Ours</th>
{head}<th scope="col">Published</th></tr></thead>
<tbody>{rows}</tbody></table></div>
"""


def _css(verdict: str) -> str:
    return f"verdict-{verdict.replace(' ', '-')}"


def _mark(verdict: str) -> str:
    return f"<span aria-hidden='true'>{SYMBOLS[verdict]}</span> {verdict}"


def _row(row: dict, theirs: pd.DataFrame | None) -> str:
    from lib.workbook.methods import label

    at, flows = (f"{row['k']} few-shots", " flows") if row["paper"] == "workflow" else (f"K = {row['k']}", "")
    paired = f" ({row['clusters']} on both sides)" if flows and row["clusters"] < row["n"] else ""
    where = f"{label(row['method'])}, {at}, n = {row['n']:,}{flows}{paired}" if row["n"] else "no query to test it on"
    apart = "" if row["about"] == "method" else f" · counted apart: {row['about'].replace('_', ' ')}"
    notebook = f"<a href='{row['notebook']}.html'>notebook {row['notebook'].split('_')[0]}</a>"
    ours = f"{_effect(row['effect'], row['unit'])}<br><small>{_interval(row)}</small>" if row["n"] else "–"
    return (
        f"<tr><td class='label {_css(row['verdict'])}'>{_mark(row['verdict'])}<br>"
        f"<small>{html.escape(row['reason'])}{_needed(row, flows or ' queries')}</small></td>"
        f"<td class='text'>{html.escape(row['statement'])}<br>"
        f"<small>{html.escape(row['source'])} · {html.escape(where)} · {notebook}{apart}</small>{_each(row)}</td>"
        f"<td class='number'>{ours}</td>{_theirs(row, theirs)}"
        f"<td class='number'>{_effect(row['published'], row['unit'])}</td></tr>"
    )


def _needed(row: dict, what: str) -> str:
    """How many queries would decide an open claim; empty for the others."""
    return f"; {row['n_needed']:,.0f}{what} would decide it" if row["n_needed"] == row["n_needed"] else ""


def _each(row: dict) -> str:
    """The verdict at each cutoff, where there is more than one."""
    if len(row["rows"]) < 2:
        return ""
    name = "" if row["paper"] == "workflow" else "K = "
    said = " · ".join(f"{name}{html.escape(one['k'])}: {_mark(one['verdict'])}" for one in row["rows"])
    return f"<br><small class='each'>{said}</small>"


def _theirs(row: dict, theirs: pd.DataFrame | None) -> str:
    """A cell with the verdict and effect of the report `full`; none where there is no such report."""
    if theirs is None:
        return ""
    found = theirs.loc[row["claim"]].to_dict() if row["claim"] in theirs.index else {}
    if found.get("verdict") not in SYMBOLS:
        return "<td class='number'>–</td>"
    if not found["n"]:
        return f"<td class='number'>{_mark(found['verdict'])}</td>"
    effect, interval = _effect(found["effect"], row["unit"]), _interval(found | {"unit": row["unit"]})
    sample = f"{interval}, n = {found['n']:,}"
    return f"<td class='number'>{_mark(found['verdict'])}<br>{effect}<br><small>{sample}</small></td>"


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
