"""Notebook 09 beyond the paper's tables: validity, the number of few-shots, grammars."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from lib.evaluation.inference import percent
from lib.evaluation.rates import rates_with_intervals
from lib.workbook.cases import case_address
from lib.workbook.display import Drawing, Table, interval, number
from lib.workbook.methods import colour
from lib.workbook.parameters.dsl_ablation import Condition
from lib.workflows.ablation import DELTAS, contract, free_counterparts, sweep_rows
from lib.workflows.pages.common import (
    METRIC,
    SETTLED,
    TEST_SETS,
    change,
    error_bars,
    intervals,
    metric_intervals,
    settled_deltas,
    wide_by_set,
    without_unit,
)
from lib.workflows.pages.dsl_ablation import COPY, COPY_TST, Study
from lib.workflows.pages.dsl_ablation_tables import changes
from lib.workflows.scoring import rates

LEVEL_OFF = 0.05  # of similarity: a step whose interval lies within is shown to change little


def valid_table(study: Study, rows: Sequence[Condition]) -> Table:
    """Similarity as P(valid) times similarity if valid, and made-up names and parameters over all flows."""
    names = study.present([*(row.name for row in rows), COPY, COPY_TST])
    columns = [
        "test set",
        "condition",
        "flows",
        "no made-up name, %",
        "similarity of these",
        "similarity",
        "executed right, %",
        "made-up names, % of all",
        "made-up parameters, % of all",
    ]
    caption = (
        "Similarity as the share of flows that parse and make up no name, times the similarity of these (its interval "
        "stands in the tables above), and rates over all flows; 95% intervals (Wilson for rates, bootstrap for "
        "similarity)."
    )
    cells = {(one, name): _split(study, one, name) for one in study.sets() for name in names}
    there = {key: row for key, row in cells.items() if row}
    addresses = [case_address("flows", set=test_set, condition=name) for test_set, name in there]
    frame = pd.DataFrame([*there.values()], columns=columns)
    return Table(frame, caption, text_columns=["condition"], cases=dict.fromkeys(columns[2:], addresses))


def _split(study: Study, test_set: str, name: str) -> list:
    part = study.scores[(study.scores["condition"] == name) & (study.scores["test_set"] == test_set)]
    if part.empty:
        return []
    flags = [part[name].astype(bool) for name in ("valid", "executed")]
    flags += [part[f"made_up_{what}"].map(len) > 0 for what in ("names", "parameters")]
    valid, *others = [interval(*percent(flag.sum(), len(part)), 0) for flag in flags]
    similar = _among_valid(study, part), rates(part)["similarity"]
    return [TEST_SETS[test_set], study.titles[name], len(part), valid, *similar, *others]


def _among_valid(study: Study, part: pd.DataFrame) -> str:
    valid = part[part["valid"].astype(bool)]
    if valid.empty:
        return "–"
    as_rate = valid[["unit"]].assign(
        condition="", metric="similarity", numerator=valid["similarity"].astype(float), denominator=1
    )
    (shown,) = intervals(rates_with_intervals(as_rate, [], study.samples, study.seed))
    return f"{shown} of {len(valid)}"


@dataclass(frozen=True)
class Sweep:
    """Conditions that differ in the number of few-shots alone.

    Attributes:
        rows: fewest few-shots first; there are at least two.
        cost: of `lib.workflows.ablation.cost_of`.
    """

    study: Study
    rows: Sequence[Condition]
    cost: pd.DataFrame

    @cached_property
    def compared(self) -> pd.DataFrame:
        """Each against five few-shots."""
        return self.study.compare([row.name for row in self.rows], self.study.name("pretrained", 5))

    @cached_property
    def amounts(self) -> pd.DataFrame:
        """The same with columns shots, tokens_in and seconds (means of an answer)."""
        return self._with_cost(self.compared)

    @cached_property
    def curve(self) -> pd.DataFrame:
        """As `amounts`, on the flows of each test set that all of them have."""
        names = [row.name for row in self.rows]
        return self._with_cost(self.study.on_shared(names).compare(names, self.study.name("pretrained", 5)))

    def _with_cost(self, compared: pd.DataFrame) -> pd.DataFrame:
        shots = compared["condition"].map({row.name: row.shots for row in self.rows})
        return compared.assign(shots=shots).join(self.cost[["tokens_in", "seconds"]], on="condition")

    @cached_property
    def steps(self) -> pd.DataFrame:
        """Each number of few-shots against the one before it; p_holm is over all steps, metrics and test sets."""
        pairs = {(b.name, a.name): f"{a.shots} to {b.shots}" for a, b in itertools.pairwise(self.rows)}
        table = self.study.compare_pairs(list(pairs))
        return table.assign(step=[pairs[pair] for pair in zip(table["condition"], table["against"], strict=True)])


def sweep(study: Study, rows: Sequence[Condition], cost: pd.DataFrame) -> Sweep:
    return Sweep(study, sweep_rows(rows, study.writers.reader), cost)


def sweep_drawing(swept: Sweep) -> Drawing:
    """Similarity, failure rates and cost against the number of few-shots; quality on the flows that all have."""
    figure, axes = plt.subplots(1, 3, figsize=(11, 4))
    first = swept.study.sets()[0]
    similar = swept.curve[swept.curve["metric"] == "similarity"]
    for (test_set, part), (method, aside) in zip(
        similar.groupby("test_set", sort=False), (("pretrained", 0.0), ("tst", 0.3)), strict=False
    ):
        _sweep_line(axes[0], part, TEST_SETS[test_set], colour(method), aside)
    of_first = swept.curve[swept.curve["test_set"] == first]
    for metric, color, aside in (
        ("unparsed", "#8A8D91", -0.3),
        ("made_up_names", "#D1570A", 0.0),
        ("made_up_parameters", "#7B5EA7", 0.3),
    ):
        _sweep_line(axes[1], of_first[of_first["metric"] == metric], METRIC[metric], color, aside)
    _cost_panel(axes[2], of_first[of_first["metric"] == "similarity"])
    axes[0].set(xlabel="few-shots", ylabel="similarity (the same flows)", ylim=(0, 1))
    axes[1].set(xlabel="few-shots", ylabel=f"flows, % ({TEST_SETS[first]}, the same)", ylim=(0, 100))
    for axis in axes[:2]:
        axis.legend(fontsize=8)
    levels = [
        f"{TEST_SETS[name]}, {part['n'].iloc[0]:.0f} flows: {_levels(part)}"
        for name, part in similar.groupby("test_set", sort=False)
    ]
    finding = f"Similarity by the number of few-shots, on the same flows. {'; '.join(levels)}"
    alt = (
        "Three panels: similarity on each test set against the number of few-shots, the three failure rates against it "
        "(bars: 95% intervals), all on the flows that every number has, and seconds an answer against tokens of the "
        "prompt."
    )
    return Drawing(figure, "dsl_sweep", finding, alt, swept.curve)


def _levels(part: pd.DataFrame) -> str:
    return ", ".join(f"{number(row.value, 2)} with {row.shots}" for row in part.itertuples())


def _sweep_line(axis: Axes, part: pd.DataFrame, name: str, color: str, aside: float) -> None:
    at = part["shots"] + aside
    axis.errorbar(at, part["value"], yerr=error_bars(part), color=color, marker="o", capsize=2, label=name)


def _cost_panel(axis: Axes, once: pd.DataFrame) -> None:
    axis.plot(once["tokens_in"], once["seconds"], marker="o", color=colour("pretrained"))
    for row in once.itertuples():
        offset = (4, -11 if row.shots else 5)
        axis.annotate(f"{row.shots}", (row.tokens_in, row.seconds), offset, textcoords="offset points", fontsize=8)
    axis.set(
        xlabel="tokens of the prompt (number: few-shots)", ylabel="seconds an answer", ylim=(0, None), xlim=(0, None)
    )


def steps_table(swept: Sweep) -> Table:
    """What each step in the number of few-shots changes."""
    steps = swept.steps
    marks = np.where(settled_deltas(steps), f" {SETTLED}", "")
    texts = [text + mark for text, mark in zip(metric_intervals(steps, DELTAS), marks, strict=True)]
    frame = wide_by_set(steps, "step", texts, [f"{n:.0f}" for n in steps["shared"]])
    frame.insert(0, ("", "few-shots"), frame.index)
    caption = (
        "What each step in the number of few-shots changes, on the flows that both have; 95% intervals; "
        f"{SETTLED} settled (Holm over all of the table)."
    )
    return Table(frame.reset_index(drop=True), caption)


def amounts_table(swept: Sweep) -> Table:
    """Quality and cost by the number of few-shots."""
    rows = swept.amounts
    frame = wide_by_set(rows, "shots", metric_intervals(rows), [f"{n:.0f}" for n in rows["n"]])
    once = rows.drop_duplicates("shots").set_index("shots")
    frame.insert(0, ("", "few-shots"), frame.index)
    frame["cost", "prompt, tokens"] = once["tokens_in"].round().astype(int)
    frame["cost", "seconds an answer"] = once["seconds"].round(1).astype(str)
    caption = (
        "Quality and cost by the number of few-shots (pretrained encoder, no definitions), each over all of its own "
        "flows (the figure: over those that all have); 95% intervals."
    )
    return Table(frame.reset_index(drop=True), caption)


def steps_in_words(swept: Sweep) -> str:
    """Which steps are settled, and whether the last one is shown to change little."""
    steps = swept.steps
    gains = [
        f"{without_unit(row.metric)} from {row.step} few-shots by {change(row)} ({TEST_SETS[row.test_set]})"
        for row in steps[settled_deltas(steps)].itertuples()
    ]
    last = steps[steps["metric"] == "similarity"].groupby("test_set", sort=False).tail(1)
    ends = [_levelled(row) for row in last.itertuples()]
    return (
        f"Settled: {', '.join(gains) if gains else 'no single step'}. The last step changes similarity: "
        f"{'; '.join(ends)}."
    )


def _levelled(last) -> str:
    flat = abs(last.delta_ci_low) < LEVEL_OFF and abs(last.delta_ci_high) < LEVEL_OFF
    off = f"it is shown to level off (within {LEVEL_OFF})" if flat else "too uncertain to say that it levels off"
    return f"{TEST_SETS[last.test_set]}, {last.step} few-shots, by {change(last)}: {off}"


def constrained(study: Study, rows: Sequence[Condition]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rows under a grammar, each against the same prompts decoded freely.

    Returns:
        the differences, p_holm over all; and the same after the free rows, which have none (NaN), as a table shows
        them. Both are empty where the profile has no such row.
    """
    free_of = free_counterparts(rows)
    pairs = [(name, free) for name, free in free_of.items() if len(study.present([name, free])) == 2]
    if not pairs:
        return pd.DataFrame(), pd.DataFrame()
    tested = study.compare_pairs(pairs)
    free = study.present(dict.fromkeys(free_of.values()))
    levels = study.compare(free, free[0]).assign(**dict.fromkeys([*DELTAS, "p_holm", "shared"], np.nan))
    return tested, pd.concat([levels, study.with_executed(tested)], ignore_index=True)


def constrained_in_words(
    study: Study, rows: Sequence[Condition], tested: pd.DataFrame, cost: pd.DataFrame, max_tokens: int
) -> str:
    """What grammars let through after all, how often an answer was cut, and which differences are settled.

    Args:
        tested: the differences of `constrained`, empty where there is none.
        cost: of `lib.workflows.ablation.cost_of`.
        max_tokens: of the longest answer.
    """
    if tested.empty:
        return "The profile has no row under a grammar."
    bound = {row.name: row.decoding for row in rows if row.decoding != "free"}
    done = study.scores[study.scores["condition"].isin(bound)]
    done = done[done["finished"].astype(bool)]
    known = done[done["condition"].map(bound) != "grammar"]
    names, parameters = ((known[f"made_up_{what}"].map(len) > 0).sum() for what in ("names", "parameters"))
    held = cost.loc[study.present(bound)]
    return (
        f"Of {len(done)} finished answers under a grammar {(~done['parsed'].astype(bool)).sum()} do not parse; of "
        f"{len(known)} under the catalogue {names} make up a name and {parameters} a parameter key. Cut at "
        f"{max_tokens} tokens: {held['cut'].sum()} of {held['n'].sum()}. " + changes(study, tested)
    )


def beyond_contract(
    study: Study, parts: Mapping[str, pd.DataFrame], unseen_experiments: Mapping[str, str]
) -> pd.DataFrame:
    """The columns of the report's `dsl_beyond.csv`.

    Args:
        parts: {experiment: differences}; those with a column against name the other row in their experiment.
        unseen_experiments: {condition: its experiment} of conditions that have one of their own.
    """
    tables = [
        contract(part, study.rows).assign(experiment=_experiments(study, name, part, unseen_experiments))
        for name, part in ((name, _with_executed(study, part)) for name, part in parts.items())
    ]
    table = pd.concat(tables)
    return table[["experiment", *table.columns.drop("experiment")]]


def _with_executed(study: Study, part: pd.DataFrame) -> pd.DataFrame:
    return part if part["metric"].eq("executed").any() else study.with_executed(part)


def _experiments(study: Study, name: str, part: pd.DataFrame, own: Mapping[str, str]) -> Iterable[str]:
    if "against" in part:
        return [f"{name}, against {study.titles[rival]}" for rival in part["against"]]
    return [own.get(condition, name) for condition in part["condition"]]
