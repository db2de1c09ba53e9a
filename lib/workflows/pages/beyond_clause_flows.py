"""Notebook 12: what retrieval by clause does to the flows that are written."""

from __future__ import annotations

import numpy as np
import pandas as pd

from lib.workbook.display import Table
from lib.workflows.ablation import DELTAS
from lib.workflows.clause_flows import MEASURED
from lib.workflows.pages.common import METRIC, SETTLED, TEST_SETS, metric_intervals

FLOW_WAYS = {
    "nearest": "nearest few-shots", "set": "few-shots as a set for coverage alone",
    "near_set": "few-shots as a set that stays alike", "whole": "nearest few-shots, SFD by the whole request",
    "clauses": "nearest few-shots, SFD by clause",
}  # fmt: skip


def flows_table(found: pd.DataFrame) -> Table:
    """`lib.workflows.clause_flows.compared` for readers."""
    marks = np.where(found["settled"], f" {SETTLED}", "")
    ends = metric_intervals(found, DELTAS)
    changed = ["" if text == "–" else f"\nΔ {text}{mark}" for text, mark in zip(ends, marks, strict=True)]
    texts = [f"{text}{more}" for text, more in zip(metric_intervals(found), changed, strict=True)]
    keys = ["test_set", "condition"]
    wide = found.assign(text=texts).pivot(index=keys, columns="metric", values="text")
    once = found.drop_duplicates(keys).set_index(keys)
    frame = pd.DataFrame({
        "requests": [TEST_SETS[test_set] for test_set, _ in once.index],
        "prompt": [FLOW_WAYS[way] for _, way in once.index],
        "flows": once["n"].tolist(),
        **{METRIC[metric]: wide.loc[once.index, metric].tolist() for metric in MEASURED},
        "tokens read": once["tokens_in"].round().astype(int).tolist(),
    })  # fmt: skip
    caption = (
        "Flows that the in-context model writes with five few-shots by TST. Δ: of few-shots as a set from the nearest, "
        f"of SFD by clause from SFD by the whole request, on the same requests; {SETTLED} settled (randomisation test, "
        f"Holm over the {int(found['p_holm'].notna().sum())} differences). 95% intervals over requests."
    )
    return Table(frame, caption, decimals=0, text_columns=["prompt"])


def kept_in_words(answers: pd.DataFrame) -> str:
    """Where the flows come from: kept with the project, or written now.

    Args:
        answers: with a column dtype where they were kept.
    """
    if "dtype" not in answers:
        return "These flows were written for this report."
    said = " and ".join(sorted(answers["dtype"].unique()))
    return (
        f"The flows for {answers['prompt'].nunique():,} prompts were written once by the shipped models, in {said}, "
        "and are kept with the project."
    )


def flows_in_words(found: pd.DataFrame) -> str:
    """What is settled of the flows written, or what so many could show."""
    tested = found.dropna(subset=["delta"])
    clear = tested[tested["settled"]]
    ends = metric_intervals(clear, DELTAS)
    said = [
        f"{FLOW_WAYS[row.condition]}, {TEST_SETS[row.test_set]}: {METRIC[row.metric].split(',')[0]} {text}"
        for row, text in zip(clear.itertuples(), ends, strict=True)
    ]
    if said:
        return f"Settled in the flows written: {'; '.join(said)}."
    return (
        f"In the flows written none of {len(tested)} differences is settled on {int(tested['n'].max())} requests of a "
        "test set; their intervals say how large a gain or loss stays open."
    )
