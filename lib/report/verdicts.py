"""Verdicts on the papers' claims, gathered from the notebooks that tested them: a table, and a part of the index."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from lib.evaluation.claim_records import ABOUT, ClaimError, read_claims
from lib.evaluation.claims import BY_ROW, COLUMNS, by_row, tally
from lib.evaluation.families import Wobbles, read_wobbles
from lib.evaluation.judgement import NOT_TESTABLE, OPEN, VERDICTS
from lib.report import agreement
from lib.report.families import close_in_words, decide_papers, open_share
from lib.report.finish import commands_html, place_html
from lib.report.main_questions import answer
from lib.report.method_table import anchors_of, method_rows, sentence, table_html
from lib.report.trace import Place, definitions, line_of
from lib.workbook.artifacts import ArtifactError, Workbook, sidecar_of
from lib.workbook.parameters.base import Parameters
from lib.workbook.profiles import NOTEBOOKS

# Shapes that differ in greyscale, too.
SYMBOLS = {
    "reproduced": "✔", "same direction": "↗", "equivalent": "≈", "contradicted": "✘", "undecided": "◐",
    "underpowered": "?", NOT_TESTABLE: "∅",
}  # fmt: skip
CLAIMS, WOBBLES = "data/claims.yaml", "data/processors.csv"
# Where a notebook's claims and the means behind them can be read.
TESTED_ON = {
    "05_lambdamart_rrf": ["claims", "context_retrieval"],
    "06_tool_retrieval": ["claims", "tool_retrieval"],
    "07_planner": ["claims", "planner"],
    "09_dsl_ablation": ["claims", "dsl_fair"],
}
WRITTEN = [*(name for name in BY_ROW if name != "reason"), "turns"]  # columns of tables/claims.csv
UNITS = {"points": " points", "percent": "%", "fold": "-fold"}
# Each paper's title, which models of ours stand for which of its own, and what the rows of its table show.
PAPERS = {
    "assistant": (
        "Context Tuning for Retrieval Augmented Generation",
        "Models of ours, by default far smaller, stand for GPT-4, which writes chains of thought, and for "
        "OpenLLaMA-v2-7B, the planner; each notebook names its own.",
        "Effects with 95% intervals. A claim made for several methods or K shows the weakest one, named below its "
        "statement with the number of queries n, those with a value at either K where NDCG of the retrieved list is "
        "compared between two K.",
    ),
    "workflow": (
        "A Comparative Study of DSL Code Generation",
        "One model of ours, by default far smaller, stands for both GPT-4, which writes with few-shots, and Codex, "
        "which is fine-tuned; the notebooks name it, and notebook 09 which prompts are longer than any that it learned "
        "from.",
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


class Places(NamedTuple):
    """Where things are that the index links: the report's profile, the project's folder, and headings of pages."""

    profile: str
    root: Path
    anchors: Mapping[tuple[str, str], str]


def statements(root: Path) -> dict[str, str]:
    """{statement: name} of every claim; none where their file is missing or no list of claims, as the index says."""
    path = root / CLAIMS
    try:
        return {claim.statement: claim.claim for claim in read_claims(path)} if path.exists() else {}
    except ClaimError:
        return {}


def gather_verdicts(
    record: Mapping,
    root: Path,
    figures: Mapping[str, str] | None = None,
    headings: Mapping[str, list[tuple[str, str]]] | None = None,
) -> str:
    """Write `tables/claims.csv`, one row for each claim and cutoff, and `tables/methods.csv`, or remove older ones
    where nothing was tested or done; returns the index page's answers.

    Args:
        record: of the run, as `run.json` has it.
        figures: HTML of the figure that says it all, by paper.
        headings: of each notebook's page as (id, text).
    """
    profile, status = record["profile"], record["status"]
    book = Workbook("index", Parameters(profile=profile), root)
    verdicts, problems = read_verdicts(book, status)
    wobbles = read_wobbles(root / WOBBLES)
    verdicts, undecided = decide_papers(verdicts, root / CLAIMS, wobbles)
    rows = method_rows(book.report, status, verdicts, profile, record["device"])
    tables = {"claims": _written(verdicts), "methods": rows}
    for name, table in tables.items():
        if table.empty:
            (book.report / "tables" / f"{name}.csv").unlink(missing_ok=True)
        else:
            book.write_table(name, table)
    places = Places(profile, root, anchors_of(headings or {}))
    problems += undecided
    return answers_html(verdicts, problems, rows, places, figures or {}, read_full(profile, root), wobbles)


def _written(verdicts: pd.DataFrame) -> pd.DataFrame:
    """What `tables/claims.csv` says; empty where no claim was tested."""
    if verdicts.empty:
        return verdicts
    turns = [one.get("turns", "") for rows in verdicts["rows"] for one in rows]
    return by_row(verdicts).assign(turns=turns)[WRITTEN]


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


def answers_html(
    verdicts: pd.DataFrame,
    problems: list[str],
    rows: pd.DataFrame,
    places: Places,
    figures: Mapping[str, str],
    full: pd.DataFrame | None = None,
    wobbles: Wobbles | None = None,
) -> str:
    """For each paper a sentence, the count of its claims, its methods and its figure; then, folded, each claim.

    A paper's count is of claims about methods; the other groups stand apart, each with the reason.

    Args:
        rows: of `tables/methods.csv`.
        full: `tables/claims.csv` of the report `full`, where this one stands beside it.
        wobbles: by how much rows were seen to differ between processors.
    """
    warnings = "".join(f"<p class='problem' role='alert'>{html.escape(problem)}</p>" for problem in problems)
    papers = [paper for paper in PAPERS if paper in {*verdicts["paper"], *rows["paper"]}]
    if not papers:
        return warnings
    agreed = "" if full is None or verdicts.empty else agreement.in_words(agreement.beside_full(by_row(verdicts), full))
    theirs = None if full is None or not agreed else agreement.of_claims(full)
    parts = {paper: verdicts[verdicts["paper"] == paper] for paper in papers}
    apart = set(verdicts.loc[verdicts["about"] != "method", "claim"]) if len(verdicts) else set()
    tables = {paper: table_html(rows, paper, mark, places.anchors, apart) for paper in papers}
    answers = "".join(_answer(paper, part, rows, tables[paper]) for paper, part in parts.items())
    drawn = "".join(f"<div>{figures[paper]}</div>" for paper in papers if figures.get(paper))
    tested = {paper: part for paper, part in parts.items() if len(part)}
    meanings = "".join(f"<dt>{mark(verdict)}</dt><dd>{meaning}</dd>" for verdict, meaning in VERDICTS.items())
    folded = f"""<h2 id="verdicts">Each claim</h2>
{f"<p class='agreement'>{html.escape(agreed)}</p>" if agreed else ""}
{"".join(_table(paper, part, theirs, places, wobbles or {}) for paper, part in tested.items())}
<details><summary>What the verdicts mean</summary><dl>{meanings}</dl></details>
"""
    drawn = f"<div class='papers'>{drawn}</div>" if drawn else ""
    return f"{warnings}<div class='papers'>{answers}</div>{_legend(rows)}{drawn}{folded if tested else ''}"


def _legend(rows: pd.DataFrame) -> str:
    """What the columns of the tables of methods are; empty where there is no row."""
    if rows.empty:
        return ""
    first = rows.iloc[0]
    return (
        f"<p class='small'>Ours: profile <b>{html.escape(first['profile'])}</b> on {html.escape(first['device'])}, "
        "with 95% intervals; n counts queries or flows. A dash: not asked in this profile, nothing published, or "
        "no claim. A verdict is on the claim at the row's K or number of few-shots, where it has one; the whole claim "
        "may take more. Workflows: requests in "
        "wordings that training lacks, by the simulator too. Counted apart: something else than the method may decide "
        "it. <a href='tables/methods.csv'>methods.csv</a></p>"
    )


def _answer(paper: str, verdicts: pd.DataFrame, rows: pd.DataFrame, methods: str) -> str:
    """One paper at a glance: the answer to its question, a sentence of numbers, the count of each verdict, and every
    method (HTML)."""
    title, stand_ins, _ = PAPERS[paper]
    said = sentence(rows, paper, verdicts)
    opening, clauses = answer(verdicts, paper)
    linked = "; ".join(f"<a href='#claim-{one.claim}'>{html.escape(one.text)}</a>" for one in clauses)
    return f"""<section id="{paper}"><h2><i>{title}</i></h2>
{f"<p class='main'><b>{html.escape(opening)}: {linked}.</b></p>" if clauses else ""}
{f"<p class='answer'>{html.escape(said)}</p>" if said else ""}
{_counts(paper, verdicts) if len(verdicts) else ""}
{methods}
<p class="small">{stand_ins}</p></section>
"""


def _counts(paper: str, verdicts: pd.DataFrame) -> str:
    """How many of a paper's claims came out as it has them, and the count of each verdict; those apart look apart."""
    first, *apart = tally(verdicts).to_dict("records")
    counts = "".join(f"<li class='{css(verdict)}'><b>{first[verdict]}</b> {mark(verdict)}</li>" for verdict in VERDICTS)
    others = "".join(
        f"<li><b>{group['as_claimed']} of {group['claims']}</b> {html.escape(group['why'])}</li>" for group in apart
    )
    in_all, as_claimed = (sum(group[count] for group in apart) for count in ("claims", "as_claimed"))
    others = (
        f"<details class='apart'><summary>{in_all} more are counted apart, since something else than the method may "
        f"decide them: {as_claimed} came out as the paper has them</summary>"
        f"<ul>{others}</ul></details>"
        if others
        else ""
    )
    about = verdicts[verdicts["about"] == first["about"]]
    came = about[~about["as_claimed"]]["verdict"].value_counts()
    unasked = int((about["n"] == 0).sum())
    here = f", <b>{unasked}</b> of them because this profile asks nothing" if unasked else ""
    many = "flows" if paper == "workflow" else "queries"
    told = [
        (first["as_claimed"], "came out as the paper has them"),
        (came.get("same direction", 0), "leaning the paper's way, but perhaps by chance or not as far"),
        (came.get("equivalent", 0), "with no difference worth the name"),
        (came.get("contradicted", 0), "against it"),
        (sum(came.get(word, 0) for word in OPEN), f"open: more {many} would be needed to tell{here}"),
        (came.get(NOT_TESTABLE, 0), "not testable here"),
    ]
    said = "; ".join(f"<b>{number}</b> {words}" for place, (number, words) in enumerate(told) if number or not place)
    return f"""<p>Of the <b>{first["claims"]}</b> claims {html.escape(first["why"])} tested here, {said}
(<a href="#claims-{paper}">each claim</a>).</p>
<ul class="tally">{counts}</ul>
{others}
"""


def _table(paper: str, verdicts: pd.DataFrame, theirs: pd.DataFrame | None, places: Places, wobbles: Wobbles) -> str:
    """A paper's claims, folded: those about methods, then each group that is counted apart under its reason."""
    title, _, caption = PAPERS[paper]
    wide = 4 if theirs is None else 5
    body = ""
    for about, why in ABOUT.items():
        group = verdicts[verdicts["about"] == about].to_dict("records")
        if group and about != "method":
            said = html.escape(why)
            body += f"<tr class='group'><th colspan='{wide}' scope='rowgroup'>Counted apart: {said}</th></tr>"
        body += "".join(_row(row, theirs, places) for row in group)
    about = verdicts[verdicts["about"] == "method"]
    sure = html.escape(f"{open_share(about)}{close_in_words(about, wobbles)}")
    beside = "" if theirs is None else " Full: the report of profile full, with its own weakest row."
    head = "" if theirs is None else "<th scope='col'>Full</th>"
    return f"""<details class="claims" id="claims-{paper}">
<summary>The {len(verdicts)} claims of <i>{title}</i></summary>
<p class="small">{sure}</p>
<div class="table"><table class="workbook verdicts"><caption>{caption} Significant: p ≤ .05 after Holm's
adjustment.{beside}</caption>
<thead><tr><th scope="col">Verdict</th><th scope="col">What the paper claims</th><th scope="col">Ours</th>
{head}<th scope="col">Published</th></tr></thead>
<tbody>{body}</tbody></table></div></details>
"""


def css(verdict: str) -> str:
    """The class of a verdict."""
    return f"verdict-{verdict.replace(' ', '-')}"


def mark(verdict: str) -> str:
    """A verdict as HTML, with its shape."""
    return f"<span aria-hidden='true'>{SYMBOLS[verdict]}</span> {verdict}"


def _row(row: dict, theirs: pd.DataFrame | None, places: Places) -> str:
    from lib.workbook.methods import label

    at, flows = (f"{row['k']} few-shots", " flows") if row["paper"] == "workflow" else (f"K = {row['k']}", "")
    paired = f" ({row['clusters']} on both sides)" if flows and row["clusters"] < row["n"] else ""
    where = f"{label(row['method'])}, {at}, n = {row['n']:,}{flows}{paired}" if row["n"] else "no query to test it on"
    apart = "" if row["about"] == "method" else f" · counted apart: {row['about'].replace('_', ' ')}"
    link = f"{row['notebook']}.html#claim-{row['claim']}"
    notebook = f"<a href='{link}'>notebook {row['notebook'].split('_')[0]}</a>"
    ours = f"{_effect(row['effect'], row['unit'])}<br><small>{_interval(row)}</small>" if row["n"] else "–"
    return (
        f"<tr id='claim-{row['claim']}'{'' if row['about'] == 'method' else ' class=apart'}>"
        f"<td class='label {css(row['verdict'])}'>{mark(row['verdict'])}<br>"
        f"<small>{html.escape(row['reason'])}{_needed(row, flows or ' queries')}{_otherwise(row)}</small></td>"
        f"<td class='text'>{html.escape(row['statement'])}<br>"
        f"<small>{html.escape(row['source'])} · {html.escape(where)} · {notebook}{apart}</small>{_each(row)}"
        f"{_trace(row, places)}</td>"
        f"<td class='number' data-label='Ours'>{ours}</td>{_theirs(row, theirs)}"
        f"<td class='number' data-label='Published'>{_effect(row['published'], row['unit'])}</td></tr>"
    )


def _trace(row: dict, places: Places) -> str:
    """From a claim to its record, the numbers it was tested on, the code that judged it, and the commands."""
    judge = places.root / "lib" / "evaluation" / "claims.py"
    record = places.root / CLAIMS
    parts = []
    if record.exists():
        line = line_of(record, f"- claim: {row['claim']}")
        parts.append(("Record", place_html(Place(row["claim"], CLAIMS, line))))
    csv = TESTED_ON.get(row["notebook"], [])
    there = [name for name in csv if (places.root / "reports" / places.profile / "tables" / f"{name}.csv").exists()]
    parts.append(("Tables", ", ".join(f"<a href='tables/{name}.csv' download>{name}.csv</a>" for name in there)))
    if judge.exists():
        parts.append(
            ("Code", place_html(Place("evaluate", "lib/evaluation/claims.py", definitions(judge)["evaluate"])))
        )
    parts.append(("Again", commands_html(row["notebook"], places.profile)))
    listed = "".join(f"<dt>{name}</dt><dd>{text}</dd>" for name, text in parts)
    return f"<details class='trace'><summary>Sources</summary><dl>{listed}</dl></details>"


def _needed(row: dict, what: str) -> str:
    """How many queries would decide an open claim; empty for the others."""
    return f"; {row['n_needed']:,.0f}{what} would decide it" if row["n_needed"] == row["n_needed"] else ""


def _otherwise(row: dict) -> str:
    """The verdict among its notebook's claims alone, and that on another processor, where they may be another word."""
    said = f"; among this notebook's claims alone: {row['alone']}" if row["alone"] != row["verdict"] else ""
    if row["turns"]:
        moved = _effect(row["wobble"], row["unit"]).removeprefix("+")
        said += f"; close: {moved} away, as between processors, it would be {row['turns']}"
    return said


def _each(row: dict) -> str:
    """The verdict at each cutoff, where there is more than one."""
    if len(row["rows"]) < 2:
        return ""
    name = "" if row["paper"] == "workflow" else "K = "
    said = " · ".join(
        f"{name}{html.escape(one['k'])}: {mark(one['verdict'])}{' (close)' if one.get('turns') else ''}"
        for one in row["rows"]
    )
    return f"<br><small class='each'>{said}</small>"


def _theirs(row: dict, theirs: pd.DataFrame | None) -> str:
    """A cell with the verdict and effect of the report `full`; none where there is no such report."""
    if theirs is None:
        return ""
    found = theirs.loc[row["claim"]].to_dict() if row["claim"] in theirs.index else {}
    if found.get("verdict") not in SYMBOLS:
        return "<td class='number' data-label='Full'>–</td>"
    if not found["n"]:
        return f"<td class='number' data-label='Full'>{mark(found['verdict'])}</td>"
    effect, interval = _effect(found["effect"], row["unit"]), _interval(found | {"unit": row["unit"]})
    sample = f"{interval}, n = {found['n']:,}"
    return f"<td class='number' data-label='Full'>{mark(found['verdict'])}<br>{effect}<br><small>{sample}</small></td>"


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
