"""Notebook 09: what the published tables say when they are read closely, and the verdicts on the paper's claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from lib.evaluation.forensics import (
    chained,
    conflicts,
    definition_effects,
    level_bounds,
    not_counts,
    printed_twice,
    readings,
    what_n_could_show,
)
from lib.evaluation.judgement import OPEN
from lib.evaluation.rates import FEWEST_UNITS
from lib.workbook.display import Table, number
from lib.workbook.methods import label
from lib.workflows.ablation import CONDITION
from lib.workflows.pages.common import METRIC, intervals, p_values, without_unit
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
    caption = (
        "All published rows on one scale: differences from the pretrained encoder with 5 few-shots and no definitions."
    )
    return Table(_named(_ordered(chained(published))).rename(columns=METRIC), caption)


def bounds_table(published: pd.DataFrame) -> Table:
    """What the differences say about the values that the paper leaves out."""
    columns = {metric: f"{METRIC[metric]}, at {'most' if metric == 'similarity' else 'least'}" for metric in METRICS}
    caption = (
        "What the differences say about the values that the paper leaves out: no rate is below 0, and a flow that "
        "fails has similarity 0."
    )
    return Table(_named(_ordered(level_bounds(published))).rename(columns=columns), caption)


def readings_table(published: pd.DataFrame) -> Table:
    """What the paper's text says beside what its tables give."""
    caption = (
        "What the text says, what the tables give (from the chained scale), and whether one follows from the other."
    )
    return Table(readings(published), caption, text_columns=["statement", "where", "tables", "verdict"])


def consistency(published: pd.DataFrame) -> str:
    """Where the published tables disagree with each other, with the text, and with counts of flows."""
    twice, wrong = printed_twice(published), conflicts(published)
    effects = definition_effects(published).groupby(["definitions", "metric"])["effect"].agg(list)
    fractions, unparsed = not_counts(published, PAPERS_FLOWS), (published["metric"] == "unparsed").sum()
    clash = [
        f"{without_unit(row.metric)} of Table {row.table}: {row.printed:+.2f} is printed, {row.follows:+.2f} follows"
        for row in wrong.itertuples()
    ]
    disagree = f"{len(wrong)} {'disagrees' if len(wrong) == 1 else 'disagree'}"
    if len(wrong):
        disagree += f" ({'; '.join(clash)})"
    by_fd = np.array(effects["fd", "unparsed"])
    return (
        f"Of {len(twice)} cells that follow from two tables {disagree}. "
        f"FD raises unparsed flows in {(by_fd > 0).sum()} of {len(by_fd)} published pairs. SFD changes made-up "
        f"parameters by {number(effects['sfd', 'made_up_parameters'][0], 2)} points against no definitions; the +6.76 "
        f"in the conclusion is measured from the fine-tuned model. {len(fractions)} of the {unparsed} differences in "
        f"unparsed flows are no multiples of 0.1 points, so no differences of two counts out of {PAPERS_FLOWS:,}."
    )


def power_table(published: pd.DataFrame) -> Table:
    """Which published differences of rates the paper's number of flows could have shown."""
    rows = what_n_could_show(published, PAPERS_FLOWS)
    frame = pd.DataFrame(
        {
            "table": rows["table"],
            "condition": [printed_name(*row) for row in rows[ROW].itertuples(index=False)],
            "rate": rows["metric"].map(without_unit),
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
    caption = (
        f"Could {PAPERS_FLOWS:,} test flows show each published difference of a rate, in points from its table's "
        "baseline? McNemar's exact test, two-sided. At best: all flows on which two rows differ are on one side, which "
        f"takes at least {FEWEST_UNITS}. If independent: either row fails regardless of the other, at the lowest rates "
        "that the tables allow. A difference printed in two tables stands once."
    )
    return Table(frame, caption, text_columns=["condition", "rate", "could be shown"])


def power_in_words(published: pd.DataFrame) -> str:
    """How many published differences the paper's number of flows could have shown."""
    rows = what_n_could_show(published, PAPERS_FLOWS)
    counts = rows["shown"].value_counts()
    hidden = rows[rows["shown"] == "no"]
    smallest = ", ".join(
        f"{without_unit(row.metric)} {number(row.delta, 2, sign=True)} in Table {row.table}"
        for row in hidden.itertuples()
    )
    return (
        f"Of {len(rows)} published differences of rates {PAPERS_FLOWS:,} flows could have shown "
        f"**{counts.get('yes', 0)}** if failures of two rows are independent and **{counts.get('only at best', 0)}** "
        "more only if the flows on which they differ lie (nearly) all on one side; "
        f"**{counts.get('no', 0)}** they could not have shown at all{f' ({smallest})' if smallest else ''}."
    )


def claims_table(verdicts: pd.DataFrame) -> Table:
    """The verdicts of `lib.evaluation.claims.evaluate`, one row a claim."""
    rows = list(verdicts.itertuples())
    frame = pd.DataFrame(
        {
            "claim": verdicts["statement"],
            "weakest row": [f"{label(row.method)}, {row.k} few-shots" if row.n else "–" for row in rows],
            "ours": intervals(verdicts, ["effect", "ci_low", "ci_high"], decimals=1),
            "p (Holm)": p_values(verdicts["p_value"]),
            "published": verdicts["published"],
            "n": [f"{row.n} ({row.clusters})" if row.clusters < row.n else f"{row.n}" for row in rows],
            "verdict": verdicts["verdict"],
            "by few-shots": [_by_shots(row.rows) for row in rows],
            "why": verdicts["reason"],
            "n to decide it": [number(row.n_needed, 0) for row in rows],
        }
    )
    caption = (
        "Claims about workflows: effects in points, similarity from 0 to 100, with 95% intervals. A claim about "
        "several rows shows its weakest one; n: flows with a value on either side; in brackets, where fewer, those on "
        "both, which the p-value uses. By few-shots: the verdict at each number of them. N to decide it: how many "
        "flows would show the published effect, or the margin where none is published, with 80% power."
    )
    return Table(frame, caption, decimals=1, text_columns=["claim", "weakest row", "by few-shots", "why"])


def _by_shots(rows: Sequence[Mapping]) -> str:
    """A claim's verdict at each number of few-shots, where there is more than one."""
    return "\n".join(f"{row['k']}: {row['verdict']}" for row in rows) if len(rows) > 1 else ""


def claims_in_words(verdicts: pd.DataFrame) -> str:
    """How many of the paper's claims have each verdict, and how many of those restated over all flows."""
    restated = verdicts["about"] == "all_flows"
    said = _counted(verdicts[~restated], "claims")
    return said + (f" {_counted(verdicts[restated], 'restated over all flows')}" if restated.any() else "")


def _counted(verdicts: pd.DataFrame, what: str) -> str:
    counts = verdicts["verdict"].value_counts()
    left = int(verdicts["verdict"].isin(OPEN).sum())
    most = "All" if left == len(verdicts) else "Most" if left > len(verdicts) / 2 else ""
    return f"Of {len(verdicts)} {what}: {', '.join(f'{n} {verdict}' for verdict, n in counts.items())}." + (
        f" {most} are open: too few flows to tell." if most else ""
    )
