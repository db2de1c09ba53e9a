"""Notebook 12: definitions found by clause, repair beside constrained decoding, and flows exported."""

from __future__ import annotations

import json
from collections.abc import Iterable

import numpy as np
import pandas as pd

from lib.evaluation.comparison import rate_differences, rates
from lib.evaluation.inference import settled
from lib.workbook.display import Drawing, Table
from lib.workbook.forest import forest
from lib.workflows.ablation import DELTAS
from lib.workflows.execution import executed_alike
from lib.workflows.language import parse
from lib.workflows.pages.common import METRIC, SETTLED, TEST_SETS, intervals, metric_intervals, settled_deltas
from lib.workflows.power_automate import ExportError, from_power_automate, to_power_automate
from lib.workflows.repair_asking import HELD, QUALITY

SAMPLES = {"test": "new wordings", "test_same": "known wordings", "reworded": "reworded by hand"}
WAYS = {"whole": "whole request", "clauses": "by clause"}
COVERAGE = {"coverage": "wanted APIs, %", "all_covered": "all wanted APIs, %"}
MODELS = {"finetuned": "fine-tuned model", "in_context": "in-context model"}
REPAIRS = {"free": "free", "snapped": "free, snapped", "reasked": "free, asked again", HELD: "constrained"}
VALUE = ["value", "ci_low", "ci_high"]


# ---------------------------------------------------------------- definitions by clause


def _outcomes(scores: pd.DataFrame) -> pd.DataFrame:
    renamed = scores.rename(columns={"way": "condition", "pair": "unit", "value": "numerator"})
    return renamed.assign(denominator=1.0)


def retrieval_values(scores: pd.DataFrame, samples: int, seed: int) -> pd.DataFrame:
    """Means of `lib.workflows.clauses.definition_scores`, in percent: columns k, sample, way, metric, value, ci_low,
    ci_high, n."""
    parts = []
    for (k, sample), part in _outcomes(scores).groupby(["k", "sample"], sort=False):
        parts.append(rates(part, COVERAGE, samples, seed).assign(k=k, sample=sample))
    table = pd.concat(parts, ignore_index=True).rename(columns={"condition": "way"})
    return table[["k", "sample", "way", "metric", *VALUE, "n"]]


def retrieval_tests(scores: pd.DataFrame, samples: int, seed: int) -> pd.DataFrame:
    """By clause minus the whole request, in points, paired: columns k, sample, metric, difference, ci_low, ci_high,
    p_value, n, settled, comparison."""
    parts = []
    for (k, sample), part in _outcomes(scores).groupby(["k", "sample"], sort=False):
        parts.append(rate_differences(part, [("clauses", "whole")], COVERAGE, samples, seed).assign(k=k, sample=sample))
    tests = pd.concat(parts, ignore_index=True).rename(columns={"delta": "difference"})
    tests["settled"] = settled(tests)
    tests["comparison"] = [
        f"{COVERAGE[row.metric].split(',')[0]}, as many as beside {row.k} shots" for row in tests.itertuples()
    ]
    return tests.drop(columns=["a", "b", "counted_both"])


def retrieval_table(values: pd.DataFrame) -> Table:
    """`retrieval_values` for readers."""
    keys = ["sample", "k", "way"]
    wide = values.assign(text=intervals(values, VALUE, 0)).pivot(index=keys, columns="metric", values="text")
    once = values.drop_duplicates(keys).set_index(keys)["n"]
    frame = pd.DataFrame({
        "requests": [SAMPLES[sample] for sample, _, _ in once.index],
        "number": once.tolist(),
        "few-shots": [k for _, k, _ in once.index],
        "searched": [WAYS[way] for _, _, way in once.index],
        **{said: wide.loc[once.index, metric].tolist() for metric, said in COVERAGE.items()},
    })  # fmt: skip
    caption = (
        "Wanted APIs with a definition in the prompt, as many definitions either way. 95% intervals over requests."
    )
    return Table(frame, caption, text_columns=["requests", "searched"])


def retrieval_drawing(tests: pd.DataFrame) -> Drawing:
    """The differences as a forest plot, a panel a group of requests."""
    rows = tests.assign(panel=tests["sample"].map(SAMPLES))
    title = "Definitions found by clause, against the whole request"
    return forest(rows, "clause_definitions", title, "points more than by the whole request", panel="panel")


def weights_table(chosen: pd.DataFrame) -> Table:
    """The weight of the whole request against its clauses, chosen on training requests held aside."""
    frame = chosen.assign(value=100 * chosen["value"], chosen=chosen["chosen"].map({True: "●", False: ""}))
    names = {"n": "definitions", "weight": "weight of the whole request", "value": "wanted APIs, %"}
    caption = "Wanted APIs defined for training requests held aside, by weight; ●: taken."
    return Table(frame.rename(columns=names), caption, decimals=2)


# ---------------------------------------------------------------- repair


def repair_table(compared: pd.DataFrame) -> Table:
    """Every way to a flow, and what it costs.

    Args:
        compared: of `lib.workflows.repair_asking.compare`.
    """
    keys = ["model", "test_set", "way"]
    marks = np.where(settled_deltas(compared), f" {SETTLED}", "")
    changed = [f"{text}{mark}" for text, mark in zip(metric_intervals(compared, DELTAS), marks, strict=True)]
    texts = compared.assign(text=metric_intervals(compared), change=changed)
    wide = texts.pivot(index=keys, columns="metric", values=["text", "change"])
    once = compared.drop_duplicates(keys).set_index(keys)
    wide = wide.loc[once.index]
    frame = pd.DataFrame({
        "model": [MODELS[model] for model, _, _ in once.index],
        "requests": [TEST_SETS[test_set] for _, test_set, _ in once.index],
        "way": [REPAIRS[way] for _, _, way in once.index],
        "flows": once["n"].tolist(),
        **{METRIC[metric]: wide["text", metric].tolist() for metric in QUALITY},
        "Δ similarity": wide["change", "similarity"].tolist(),
        "Δ executed right": wide["change", "executed"].tolist(),
        "tokens read": once["tokens_in"].round().astype(int).tolist(),
        "tokens written": once["tokens_out"].round().astype(int).tolist(),
    })  # fmt: skip
    caption = (
        "Ways to a flow, and the tokens of one. Valid: it parses, and no name or key is made up. Δ: from constrained "
        f"decoding on the same flows; {SETTLED}: beside 0. 95% intervals over flows."
    )
    return Table(frame, caption, text_columns=["way"])


# ---------------------------------------------------------------- export


def round_trips(texts: Iterable[str]) -> pd.DataFrame:
    """Flows written as definitions, as JSON, and read back.

    Returns:
        one row a flow: text, problem (why it cannot be exported; empty where it can), same (read back and run it does
        what the flow does: False where it cannot be exported).
    """
    rows = []
    for text in texts:
        flow = parse(text)
        try:
            definition = json.loads(json.dumps(to_power_automate(flow)))
            rows.append((text, "", executed_alike(from_power_automate(definition), flow)))
        except ExportError as error:
            rows.append((text, str(error), False))
    return pd.DataFrame(rows, columns=["text", "problem", "same"])


def export_table(trips: pd.DataFrame) -> Table:
    """How many flows are exported, how many come back as they were, and why the others are not."""
    problems = trips["problem"].replace("", "exported")
    frame = trips.groupby(problems, sort=False).agg(flows=("same", "size"), same=("same", "sum")).reset_index()
    frame = frame.rename(columns={"problem": "what became of it", "same": "read back, it does the same"})
    return Table(frame, "Right flows as Power Automate's definitions.", text_columns=["what became of it"])


def example_table(trips: pd.DataFrame) -> Table:
    """The shortest exported flow with a condition, or without one, beside its definition."""
    written = trips.loc[trips["problem"] == "", "text"].drop_duplicates()
    with_condition = written[written.str.contains("if (", regex=False)]
    text = min(with_condition if len(with_condition) else written, key=len)
    definition = json.dumps(to_power_automate(parse(text)), indent=2, ensure_ascii=False)
    frame = pd.DataFrame({"flow": [text], "definition": [definition]})
    return Table(frame, "A flow, and what is imported into Power Automate.", code_columns=["flow", "definition"])
