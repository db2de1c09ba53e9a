"""Notebook 09 beside the report of profile `full`: its values beside a smaller sample's, and answers asked again."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from lib.evaluation.inference import percent
from lib.workbook.display import interval
from lib.workflows.ablation import CONDITION, DELTAS, VALUES

ROW = [*(name for name in CONDITION if name != "train_pairs"), "test_set", "metric"]
AUDITED = 12  # flows of each condition and test set whose answers are kept, the first ones in the order of asking
ANSWER = ["condition", "test_set", "unit"]


@dataclass(frozen=True)
class FullReport:
    """The tables of profile `full`, where there are any.

    Attributes:
        tables: {name: the report's `dsl_*.csv`}; empty in `full` itself, and where no report is there.
    """

    tables: Mapping[str, pd.DataFrame]

    def beside(self, table: pd.DataFrame) -> pd.DataFrame:
        """The same row of the full report for each row of a table.

        Args:
            table: of `lib.workflows.ablation.contract`.

        Returns:
            columns full_value, full_ci_low, full_ci_high, full_delta, full_delta_ci_low, full_delta_ci_high, NaN where
            the full report has no such row; none at all where there is no full report. Index as that of `table`.
        """
        rows = [part[[*ROW, *VALUES, *DELTAS]] for part in self.tables.values() if {*ROW, *DELTAS} <= set(part)]
        if not rows:
            return pd.DataFrame(index=table.index)
        known = pd.concat(rows).drop_duplicates(ROW).set_index(ROW).add_prefix("full_")
        return table[ROW].join(known, on=ROW).drop(columns=ROW)

    def in_words(self, table: pd.DataFrame) -> str:
        """How a sample's values and differences agree with the full report's; nothing where there is none."""
        beside = self.beside(table)
        if beside.empty or beside["full_value"].isna().all():
            return ""
        both = table.join(beside).dropna(subset=["value", "full_value"])
        inside = both["value"].between(both["full_ci_low"], both["full_ci_high"])
        holds = both["full_value"].between(both["ci_low"], both["ci_high"])
        clear = both[both["full_delta_ci_low"] * both["full_delta_ci_high"] > 0].dropna(subset=["delta"])
        same = np.sign(clear["delta"]) == np.sign(clear["full_delta"])
        return (
            f" Beside the full report: of {len(both)} values {inside.sum()} lie within its interval, and "
            f"{holds.sum()} of its values within the interval here; of {len(clear)} differences whose interval there "
            f"excludes 0, {same.sum()} have the same sign here."
        )

    def audit(self, answers: pd.DataFrame) -> str:
        """How many answers are those of the full report, to the letter and in similarity.

        Args:
            answers: of `audited`.
        """
        if "dsl_answers" not in self.tables:
            return ""
        kept = self.tables["dsl_answers"].astype({"answer": str})
        both = answers.merge(kept, on=ANSWER, suffixes=("", "_full"))
        if both.empty:
            return ""
        letters, similar = (both[name] == both[f"{name}_full"] for name in ("answer", "similarity"))
        share = interval(*percent(letters.sum(), len(both)), 0)
        return (
            f"Of {len(both)} answers that the full report has, too, {letters.sum()} are the same to the letter "
            f"({share}%) and {similar.sum()} have the same similarity."
        )


def audited(scores: pd.DataFrame) -> pd.DataFrame:
    """The first answers of each condition and test set, as `tables/dsl_answers.csv` keeps them for an audit.

    Returns:
        `ANSWER`, answer (the first 12 digits of the text's SHA-256), similarity (4 decimals).
    """
    first = scores.dropna(subset=["tokens_in"]).groupby(["condition", "test_set"], sort=False).head(AUDITED)
    digests = [hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:12] for text in first["text"]]
    return first[ANSWER].assign(answer=digests, similarity=first["similarity"].round(4))
