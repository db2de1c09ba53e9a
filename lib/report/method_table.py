"""The index page's table of methods: what each does, with its interval, the published value and a verdict."""

from __future__ import annotations

import html
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from lib.assistant.ranker_ablation import TWO_CROSS_FITTED
from lib.workbook.display import interval, number
from lib.workbook.methods import METHODS, label
from lib.workbook.profiles import NOTEBOOKS

COLUMNS = [
    "paper", "question", "method", "metric", "value", "ci_low", "ci_high", "published", "n", "notebook", "verdict",
    "k", "verdict_k", "verdict_there", "claim", "table", "section", "profile", "device",
]  # fmt: skip


class Question(NamedTuple):
    """What a block of rows asks, and where its numbers come from.

    Attributes:
        table: CSV in the report's `tables/`; section: heading of the notebook's page that shows it.
        metric: in words, with its unit.
        same: {column: value} of each of its rows.
        columns: names of the columns of value, interval and published value; a table without the last has none.
    """

    paper: str
    text: str
    metric: str
    notebook: str
    section: str
    table: str
    same: Mapping[str, object]
    columns: tuple[str, ...] = ("value", "ci_low", "ci_high", "published")


class Row(NamedTuple):
    """One method: its {column: value} in the question's table, its name, and the claim that the paper makes of it."""

    where: Mapping[str, object]
    name: str
    claim: str = ""
    metric: str = ""


# Questions that the sentence answers.
FOUND = "Is the relevant context found?"
FOUND_UNSEEN = "And where no training query asks about the need?"
TOOLS = "Does context find the right tools?"
PLANS = "Does context make plans right?"
PLANS_UNSEEN = "And on needs that the planner never learned?"
FEW_SHOTS = "Are better few-shots found?"
AS_GOOD = "Is retrieval as good as fine-tuning? Difference from the fine-tuned model"
NEAR = "How near do flows come to the wanted one?"
CHANGE = ("delta", "delta_ci_low", "delta_ci_high", "published_delta")
NAMES, KEYS = "made-up API names, change in points", "made-up parameter keys, change in points"
AGAINST = "made-up API names, points more than the fine-tuned model's"
LIKENESS = "similarity, difference from the fine-tuned model"
SHORT = {  # of metrics that stand beside others in one block
    NAMES: "made-up names, points",
    KEYS: "made-up keys, points",
    AGAINST: "made-up names, points",
    LIKENESS: "similarity",
}


def _context(method: str, claim: str = "") -> Row:
    return Row({"method": method}, label(method) if method in METHODS else f"{method} (ours)", claim)


def _tools(setting: str, retriever: str, claim: str = "", note: str = "") -> Row:
    return Row({"setting": setting, "retriever": retriever}, label(setting) + note, claim)


def _plans(setting: str, claim: str = "") -> Row:
    return Row({"setting": setting}, label(setting), claim)


def _prompt(selector: str, shots: int, definitions: str, metric: str, words: str, claim: str) -> Row:
    name = label(selector) + ("" if definitions == "none" else f" + {label(definitions)}") + f", {shots} few-shots"
    return Row({"selector": selector, "shots": shots, "definitions": definitions, "metric": metric}, name, claim, words)


# The metric of a prompt is that of the claim which the paper makes of it.
QUESTIONS: list[tuple[Question, list[Row]]] = [
    (Question(
        "assistant", FOUND, "Recall@3, %", "05_lambdamart_rrf",
        "Table 2, ours beside published", "context_retrieval", {"kind": "all", "metric": "recall", "k": 3},
    ), [
        _context("bm25t"),
        _context("semantic", "vector_beats_text"),
        _context("finetuned", "finetuning_improves_search"),
        _context("lambdamart", "usage_signals_help"),
        _context("lambdamart_rrf", "lambdamart_rrf_beats_finetuned"),
        _context("lambdamart_2"),
        _context(TWO_CROSS_FITTED),
    ]),
    (Question(
        "assistant", FOUND_UNSEEN, "Recall@3, %", "05_lambdamart_rrf",
        "Needs that no training query asks about", "context_retrieval",
        {"kind": "all", "metric": "recall", "k": 3, "sample": "unseen_needs"},
    ), [
        _context("finetuned"),
        _context("lambdamart_rrf"),
        _context("lambdamart_2"),
        _context(TWO_CROSS_FITTED),
    ]),
    (Question(
        "assistant", "What does a fine-tuned encoder's cosine give our rankers?", "Recall@3, %", "05_lambdamart_rrf",
        "A variant that may use the fine-tuned encoder", "context_ablation",
        {"kind": "all", "metric": "recall", "k": 3, "sample": "all"}, columns=("value", "ci_low", "ci_high"),
    ), [
        _context(TWO_CROSS_FITTED),
    ]),
    (Question(
        "assistant", "Does a chain of thought help? On the same queries", "Recall@3, %", "05_lambdamart_rrf",
        "Table 2, ours beside published", "context_retrieval",
        {"kind": "all", "metric": "recall", "k": 3, "sample": "cot"},
    ), [
        _context("semantic"),
        _context("cot", "cot_improves_search"),
        _context("cot_distilled", "distilled_cot_improves_search"),
        _context("finetuned"),
        _context("finetuned_cot", "cot_adds_little_once_finetuned"),
    ]),
    (Question(
        "assistant", TOOLS, "Recall@5, %", "06_tool_retrieval",
        "Figure 2: how many of the right tools are found?", "tool_retrieval", {"target": "api", "k": 5},
        columns=("recall", "ci_low", "ci_high"),
    ), [
        _tools("query_only", "semantic", "query_alone_is_not_enough"),
        _tools("query_plus_context", "semantic", "context_improves_tool_retrieval"),
        _tools("oracle_context", "semantic"),
        _tools("query_only", "lambdamart", note=", learned ranker (ours)"),
        _tools("query_plus_context", "lambdamart", note=", learned ranker (ours)"),
    ]),
    (Question(
        "assistant", PLANS, "AST accuracy, %", "07_planner", "Table 3", "planner",
        {"metric": "ast_accuracy"},
    ), [
        _plans("lower_bound"),
        _plans("rag", "retrieval_improves_plans"),
        _plans("context_tuned_rag", "context_improves_plans"),
        _plans("upper_bound", "right_tool_beats_retrieved_tools"),
        _plans("context_tuned_upper_bound", "labels_beat_retrieval"),
    ]),
    (Question(
        "assistant", PLANS_UNSEEN, "AST accuracy, %", "07_planner",
        "Which queries, and needs it never saw", "planner_needs",
        {"metric": "ast_accuracy", "model": "tuned", "needs": "held out"},
        columns=("value", "ci_low", "ci_high"),
    ), [
        _plans("rag"),
        _plans("context_tuned_rag"),
        _plans("context_tuned_upper_bound"),
    ]),
    (Question(
        "workflow", FEW_SHOTS, "Jaccard of 5 few-shots with the wanted flow", "08_dsl_retrieval",
        "Are the few-shots better?", "few_shot_retrieval", {"metric": "jaccard", "shots": 5, "test_set": "test"},
        columns=("value", "ci_low", "ci_high"),
    ), [
        Row({"selector": "bm25t"}, label("bm25t")),
        Row({"selector": "pretrained"}, label("pretrained")),
        Row({"selector": "tst"}, label("tst")),
    ]),
    (Question(
        "workflow", "What does a prompt gain on the plain one (pretrained, 5 few-shots)?", NAMES,
        "09_dsl_ablation", "Table 1: five few-shots or twenty", "dsl_shots", {"test_set": "test"}, columns=CHANGE,
    ), [
        _prompt("pretrained", 20, "none", "made_up_names", NAMES, "more_shots_reduce_made_up_names"),
        _prompt("tst", 5, "none", "made_up_names", NAMES, "tst_makes_up_fewer_names"),
    ]),
    (Question(
        "workflow", "And with definitions?", NAMES, "09_dsl_ablation",
        "Table 2: definitions beside five few-shots", "dsl_definitions_5", {"test_set": "test"}, columns=CHANGE,
    ), [
        _prompt("pretrained", 5, "fd", "made_up_parameters", KEYS, "fd_reduces_made_up_parameters_with_pretrained"),
        _prompt("tst", 5, "fd", "made_up_names", NAMES, "optimised_rag_makes_up_fewer_names"),
    ]),
    (Question(
        "workflow", AS_GOOD, LIKENESS,
        "09_dsl_ablation", "Table 4: FD, SFD, both, against the fine-tuned model", "dsl_semantic_definitions",
        {"test_set": "test"}, columns=CHANGE,
    ), [
        _prompt("tst", 20, "fd", "similarity", "", "rag_matches_the_finetuned_model"),
        _prompt("tst", 20, "sfd", "made_up_names", AGAINST, "finetuned_makes_up_fewer_names"),
        _prompt("tst", 20, "fd_sfd", "made_up_names", AGAINST, "finetuned_makes_up_fewer_names"),
    ]),
    (Question(
        "workflow", NEAR, "similarity, 0 to 1", "08_dsl_retrieval",
        "Where does fine-tuning overtake retrieval?", "finetuned_dsl", {"metric": "similarity", "test_set": "test"},
        columns=("value", "ci_low", "ci_high"),
    ), [
        Row({"condition": "copy, pretrained"}, "nearest few-shot copied, pretrained encoder"),
        Row({"condition": "copy, TST"}, "nearest few-shot copied, TST"),
        Row({"condition": r"fine-tuned, [\d,]+ pairs"}, "fine-tuned model"),
    ]),
    (Question(
        "workflow", "Are new APIs called?", "flows that call a new API they need, %", "09_dsl_ablation",
        "APIs that nobody trained on", "dsl_unseen_called", {}, columns=("value", "ci_low", "ci_high"),
    ), [
        Row({"condition": "unseen: 0 new, sfd, free"}, "SFD, no example", "sfd_helps_on_unseen_apis"),
        Row({"condition": "unseen: 1 new, none, free"}, "an example of each", "rag_beats_finetuned_on_unseen_apis"),
        Row({"condition": "unseen: fine-tuned"}, "fine-tuned model"),
    ]),
]  # fmt: skip


def method_rows(
    folder: Path, status: Mapping[str, str], verdicts: pd.DataFrame, profile: str, device: str
) -> pd.DataFrame:
    """The rows of `tables/methods.csv`; none of a notebook that is not done.

    Args:
        folder: of the report.
        status: of each notebook.
        verdicts: as `lib.report.verdicts.read_verdicts` gives them.

    Returns:
        columns `COLUMNS`; value is missing where a profile leaves a condition out. n is that of the row's own queries.
    """
    decided = {one["claim"]: one for one in verdicts.to_dict("records")}
    rows = []
    for question, methods in QUESTIONS:
        path = folder / "tables" / f"{question.table}.csv"
        if status.get(question.notebook) != "ok" or not path.exists():
            continue
        table = pd.read_csv(path)
        for row in methods:
            found = _find(table, question.same, row.where)
            value, low, high, *published = (found.get(name, float("nan")) for name in question.columns)
            at = {**question.same, **row.where}
            k = str(at.get("k", at.get("shots", "")))
            claim = decided.get(row.claim, {})
            rows.append(
                (
                    question.paper, question.text, row.name, row.metric or question.metric, value, low, high,
                    published[0] if published else float("nan"), found.get("n", 0), question.notebook,
                    claim.get("verdict", ""), k, *_at_cutoff(claim, k), row.claim, question.table,
                    question.section, profile, device,
                )
            )  # fmt: skip
    return pd.DataFrame(rows, columns=COLUMNS)


def _at_cutoff(claim: Mapping, asked: str) -> tuple[str, str]:
    """The cutoff of a claim that a row is about, else that of its weakest row, and the verdict there; empty where the
    row or the claim has none."""
    by_cutoff = {one["k"]: one["verdict"] for one in claim.get("rows", ())}
    if not asked or not by_cutoff:
        return "", ""
    cutoff = asked if asked in by_cutoff else str(claim["k"])
    return cutoff, by_cutoff.get(cutoff, "")


def _find(table: pd.DataFrame, same: Mapping[str, object], where: Mapping[str, object]) -> dict:
    """The row that has these values: of several samples the whole one where none is named, of several sizes of training
    the largest."""
    for column, value in {**same, **where}.items():
        if column not in table:
            return {}
        if column == "sample" and value == "cot" and not (table["sample"] == value).any():
            value = "all"  # every query is in the sample
        cells = table[column]
        table = table[cells.str.fullmatch(value) if column == "condition" and value else cells == value]
    if "sample" in table and "sample" not in same:
        table = table[table["sample"].isin(["all", "cot"])].sort_values("sample", kind="stable")
    for size in ("pairs", "train_pairs"):
        if size in table:
            table = table.sort_values(size, ascending=False, kind="stable")
    return dict(zip(table.columns, table.iloc[0], strict=True)) if len(table) else {}


def table_html(
    rows: pd.DataFrame, paper: str, mark, anchors: Mapping[tuple[str, str], str], apart: Collection[str] = ()
) -> str:
    """One paper's table of methods, narrow enough for two to stand side by side; empty where nothing of it is done.

    Args:
        rows: of `method_rows`.
        mark: a verdict as HTML.
        anchors: {(notebook, heading): id on its page}.
        apart: claims that are counted apart.
    """
    rows = rows[rows["paper"] == paper]
    if rows.empty:
        return ""
    body = ""
    for text, block in rows.groupby("question", sort=False):
        several = len(set(block["metric"])) > 1
        cells = [_row_html(row, mark, several, row["claim"] in apart) for row in block.to_dict("records")]
        body += f"<tbody>{_question_html(text, block, anchors)}<tr>{'</tr><tr>'.join(cells)}</tr></tbody>"
    heads = ("Method", "Ours", "Published", "Verdict on the claim")
    return (
        "<div class='table'><table class='workbook methods'><caption>Ours with its 95% interval</caption>"
        f"<thead><tr>{''.join(f'<th scope=col>{name}</th>' for name in heads)}</tr></thead>{body}</table></div>"
    )


def _question_html(text: str, block: pd.DataFrame, anchors: Mapping[tuple[str, str], str]) -> str:
    """The row above a question's methods: the question, its metric where they share one, n, and its section. A
    difference rests on those of the n that both its rows have and count."""
    first = block.iloc[0]
    place = anchors.get((first["notebook"], first["section"]), "")
    link = html.escape(f"{first['notebook']}.html{'#' + place if place else ''}")
    metric = html.escape(first["metric"]) if len(set(block["metric"])) == 1 else ""
    counts = sorted({int(n) for n in block["n"] if n})
    sizes = f"n = {' to '.join(f'{n:,}' for n in dict.fromkeys([counts[0], counts[-1]]))}" if counts else ""
    if sizes and all(_is_difference(one) for one in block["metric"]):
        sizes += " asked, compared where both rows count"
    about = ", ".join(part for part in (metric, sizes) if part)
    return (
        f"<tr><th colspan='4' scope='rowgroup'><a href='{link}'>{html.escape(text)}</a>"
        f"{f' <small>{about}</small>' if about else ''}</th></tr>"
    )


def _is_difference(metric: str) -> bool:
    return any(word in metric for word in ("change", "difference", "more"))


def _row_html(row: Mapping, mark, several: bool, apart: bool) -> str:
    from lib.report.verdicts import css

    signed = _is_difference(row["metric"])
    value, _, tail = interval(row["value"], row["ci_low"], row["ci_high"], decimals_of(row["metric"])).partition(" ")
    verdict = "–"
    if row["verdict"] and not row["n"]:
        verdict = f"<a href='#claim-{row['claim']}'>not asked</a>"
    elif row["verdict"]:
        here = row["verdict_there"] or row["verdict"]
        verdict = f"<a class='{css(here)}' href='#claim-{row['claim']}'>{mark(here)}</a>"
        notes = [f"at K = {row['verdict_k']}"] if row["verdict_k"] != row["k"] and row["verdict_k"] else []
        notes += [f"the whole claim: {row['verdict']}"] if here != row["verdict"] else []
        notes += ["counted apart"] if apart else []
        verdict += f" <small>({'; '.join(notes)})</small>" if notes else ""
    metric = f" <small>{html.escape(SHORT[row['metric']])}</small>" if several else ""
    asked = f" title='n = {int(row['n']):,}'" if row["n"] else ""
    cells = {
        "Method": ("label", html.escape(row["method"]) + metric),
        "Ours": ("number", f"<b>{value}</b> <small>{tail}</small>" if tail else f"<b>{value}</b>"),
        "Published": ("number", number(row["published"], 2, sign=signed)),
        "Verdict on the claim": ("label", verdict),
    }
    return "".join(
        f'<td class="{kind}" data-label="{name}"{asked if name == "Ours" else ""}>{text}</td>'
        for name, (kind, text) in cells.items()
    )


def decimals_of(metric: str) -> int:
    """Decimals that a metric is shown with: percentages one, numbers from 0 to 1 two."""
    return 2 if metric.startswith(("similarity", "Jaccard")) else 1


def sentence(rows: pd.DataFrame, paper: str, verdicts: pd.DataFrame | None = None) -> str:
    """A paper's result in a few words, from the rows that are there; empty where there are none.

    Args:
        verdicts: of the claims, for the paired difference in right plans.
    """
    at = {(row["question"], row["method"]): row for row in rows[rows["paper"] == paper].to_dict("records")}
    questions = {question.text: question for question, _ in QUESTIONS}

    def value(text: str, method: str) -> str:
        question = questions[text]
        row = at.get((text, method), {})
        if row.get("value", float("nan")) != row.get("value", float("nan")):
            return ""
        unit = "%" if "%" in question.metric else ""
        return interval(row["value"], row["ci_low"], row["ci_high"], decimals_of(question.metric)) + unit

    parts = [text for text in _parts(paper, value, _gain(verdicts)) if text]
    said = "; ".join(parts)
    return f"{said[0].upper()}{said[1:]}." if said else ""


def _gain(verdicts: pd.DataFrame | None) -> str:
    """What context adds to right plans, paired by query, in brackets."""
    if verdicts is None or "effect" not in verdicts:
        return ""
    found = verdicts[(verdicts["claim"] == "context_improves_plans") & (verdicts["n"] > 0)]
    said = [interval(*row) for row in found[["effect", "ci_low", "ci_high"]].to_numpy()]
    return f" (a difference of {said[0]} points, paired by query)" if said else ""


def _parts(paper: str, value, gain: str) -> list[str]:
    if paper == "assistant":
        said = [
            ("LambdaMART-RRF finds {0} of the relevant context among its first 3 items, pretrained search {1}",
             (FOUND, label("lambdamart_rrf")), (FOUND, label("semantic"))),
            ("the query with retrieved context finds {0} of the right tools among 5, the query alone {1}",
             (TOOLS, label("query_plus_context")), (TOOLS, label("query_only"))),
            ("with retrieved context {0} of the plans are right, without {1}" + gain,
             (PLANS, label("context_tuned_rag")), (PLANS, label("rag"))),
            ("of needs that no training query asks about LambdaMART-RRF finds {0} of the context, fine-tuned search "
             "{1}",
             (FOUND_UNSEEN, label("lambdamart_rrf")), (FOUND_UNSEEN, label("finetuned"))),
            ("of needs that the planner never learned {0} of the plans are right with retrieved context, without {1}",
             (PLANS_UNSEEN, label("context_tuned_rag")), (PLANS_UNSEEN, label("rag"))),
        ]  # fmt: skip
    else:
        said = [
            ("five few-shots chosen by TST share {0} of their APIs with the wanted flow, by the pretrained encoder {1}",
             (FEW_SHOTS, label("tst")), (FEW_SHOTS, label("pretrained"))),
            ("on page 08's requests the fine-tuned model's flows reach a similarity of {0}; on page 09's, retrieval "
             "(TST with FD, 20 few-shots) differs from that model by {1}",
             (NEAR, "fine-tuned model"), (AS_GOOD, "TST + FD, 20 few-shots")),
        ]  # fmt: skip
    filled = []
    for text, *places in said:
        values = [value(*place) for place in places]
        filled.append(text.format(*values) if all(values) else "")
    return filled


def anchors_of(headings: Mapping[str, list[tuple[str, str]]]) -> dict[tuple[str, str], str]:
    """{(notebook, heading): id} from each notebook's headings as (id, text)."""
    return {(notebook, text): place for notebook in NOTEBOOKS for place, text in headings.get(notebook, [])}
