"""Notebook 09: the published tables read closely, and the paper's claims."""

from __future__ import annotations

import pandas as pd

from lib.evaluation.forensics import chained, level_bounds, readings, what_n_could_show
from lib.workbook.display import Table, number
from lib.workbook.methods import label
from lib.workflows.ablation import CONDITION
from lib.workflows.pages.common import METRIC, intervals, p_values
from lib.workflows.scoring import METRICS

ROW = CONDITION[:3]
PAPERS_FLOWS = 1000  # that the paper tested (section 5)


def _ordered(values: pd.DataFrame) -> pd.DataFrame:
    """Published rows, one a condition and a column a metric, by few-shots and selector."""
    wide = values.pivot(index=ROW, columns="metric", values="value")[list(METRICS)].reset_index()
    return wide.sort_values(["shots", "selector"], kind="stable", ignore_index=True)


def printed_name(selector: str, shots: int, definitions: str) -> str:
    """A published row's name."""
    parts = [
        label("finetuned_dsl" if selector == "finetuned" else selector),
        f"{shots} few-shots" if shots else "",
        "" if definitions == "none" else label(definitions),
    ]
    return ", ".join(part for part in parts if part)


def _named(rows: pd.DataFrame) -> pd.DataFrame:
    """The same with the names in front, instead of `ROW`."""
    names = [printed_name(*row) for row in rows[ROW].itertuples(index=False)]
    table = rows.drop(columns=ROW).rename_axis(columns=None)
    table.insert(0, "", names)
    return table


def scale_table(published: pd.DataFrame) -> Table:
    """All published rows on one scale."""
    caption = "All published rows on one scale: differences from the pretrained encoder with 5 few-shots."
    return Table(_named(_ordered(chained(published))).rename(columns=METRIC), caption)


def bounds_table(published: pd.DataFrame) -> Table:
    """What the differences say about the values that the paper leaves out."""
    columns = {metric: f"{METRIC[metric]}, at {'most' if metric == 'similarity' else 'least'}" for metric in METRICS}
    caption = "Bounds of the values that the paper leaves out: no rate is below 0."
    return Table(_named(_ordered(level_bounds(published))).rename(columns=columns), caption)


def readings_table(published: pd.DataFrame) -> Table:
    """What the paper's text says beside what its tables give."""
    caption = "What the text says, and what the tables give on the chained scale."
    return Table(readings(published), caption, text_columns=["statement", "where", "tables", "verdict"])


def power_table(published: pd.DataFrame) -> Table:
    """Which published differences of rates the paper's number of flows could have shown."""
    rows = what_n_could_show(published, PAPERS_FLOWS)
    frame = pd.DataFrame(
        {
            "table": rows["table"],
            "condition": [printed_name(*row) for row in rows[ROW].itertuples(index=False)],
            "rate": rows["metric"].map(METRIC),
            "difference": [number(delta, 2, sign=True) for delta in rows["delta"]],
            "flows that differ, at best": rows["pairs"],
            "p at best": p_values(rows["p_best"]),
            "flows that differ, if independent": [
                f"{row.only_first} and {row.only_second}" for row in rows.itertuples()
            ],
            "p if independent": p_values(rows["p_independent"]),
            "could be shown": rows["shown"],
        }
    )
    caption = f"Could {PAPERS_FLOWS:,} flows show each published difference of a rate? McNemar's test, two-sided."
    return Table(frame, caption, text_columns=["condition", "rate", "could be shown"])


def claims_table(verdicts: pd.DataFrame) -> Table:
    """The verdicts of `lib.evaluation.claims.evaluate`, one row a claim."""
    frame = pd.DataFrame(
        {
            "claim": verdicts["statement"],
            "ours": intervals(verdicts, ["effect", "ci_low", "ci_high"], decimals=1),
            "p (Holm)": p_values(verdicts["p_value"]),
            "published": verdicts["published"],
            "n": verdicts["n"],
            "verdict": verdicts["verdict"],
            "why": verdicts["reason"],
        }
    )
    caption = "Claims about workflows: effects in points, similarity from 0 to 100, with 95% intervals."
    return Table(frame, caption, decimals=1, text_columns=["claim", "why"])
