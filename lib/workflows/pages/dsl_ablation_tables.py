"""Notebook 09: rows beside a baseline, the paper's Tables 1 to 4 rebuilt, and their figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from lib.evaluation.inference import LEVEL
from lib.workbook.display import Drawing, Table, number
from lib.workbook.markup import plain
from lib.workbook.methods import colour, label
from lib.workflows.ablation import DELTAS, VALUES, contract
from lib.workflows.pages.common import (
    METRIC,
    SETTLED,
    TEST_SETS,
    change,
    condition_cases,
    error_bars,
    metric_intervals,
    settled_deltas,
    wide_by_set,
    without_unit,
)
from lib.workflows.pages.dsl_ablation import BESIDE, FINETUNED, LONGER, Study
from lib.workflows.pages.dsl_ablation_full import FullReport
from lib.workflows.scoring import METRICS
from lib.workflows.target_similarity import jaccard

MARKS = (
    " Flows: tested, and in brackets those that the other row has too, on which the difference Δ is taken; the value "
    "of a row is over all of its own. After a difference: on how many flows it is tested, where fewer count in both "
    f"rows. {SETTLED} settled among the differences of this table; further down they are tested beside more. {LONGER} "
    "prompts mostly longer than any that the in-context model learned from. Valid flows parse and make up neither a "
    "name nor a parameter. Executed right, which the paper does not have: its value alone, outside of all tests."
)


def compared_table(study: Study, compared: pd.DataFrame, caption: str) -> Table:
    """Rows with their values and differences, a group of columns a test set: what `Study.compare` returned, where there
    is one with columns published_delta, full_value."""
    table = wide_by_set(compared, "condition", compared_cells(compared), flows_of(compared))
    table.insert(0, ("", "condition"), table.index.map(study.titles))
    frame, cases = table.reset_index(drop=True), condition_cases(compared)
    return Table(frame, caption + MARKS, text_columns=[("", "condition")], cases=cases)


def compared_cells(compared: pd.DataFrame) -> list[str]:
    """What stands in a cell: the value, and of how many where not of all; its difference; the published one; the full
    report's value."""
    parsed = np.where(compared["counted"] == compared["n"], "", " of " + compared["counted"].map("{:.0f}".format))
    printed = compared.get("published_delta", pd.Series(np.nan, compared.index))
    beside = ["" if value != value else f"\npublished Δ {number(value, 2)}" for value in printed]
    parts = metric_intervals(compared), parsed, _differences(compared), beside, _full(compared)
    return ["".join(one) for one in zip(*parts, strict=True)]


def _full(compared: pd.DataFrame) -> list[str]:
    if "full_value" not in compared:
        return [""] * len(compared)
    texts = metric_intervals(compared, [f"full_{name}" for name in VALUES])
    return ["" if text == "–" else f"\nfull report {text}" for text in texts]


def _differences(compared: pd.DataFrame) -> list[str]:
    marks = np.where(settled_deltas(compared), f" {SETTLED}", "")
    counted = zip(compared["counted_both"], compared["shared"], strict=True)
    fewer = [f" of {n:.0f}" if n < shared else "" for n, shared in counted]
    texts = metric_intervals(compared, DELTAS)
    return ["" if text == "–" else f"\nΔ {text}{n}{mark}" for text, n, mark in zip(texts, fewer, marks, strict=True)]


def flows_of(compared: pd.DataFrame) -> list[str]:
    """For each row its condition's flows, and in brackets those shared with the baseline."""
    sizes = zip(compared["n"], compared["shared"], strict=True)
    return [f"{n:.0f}" + (f" ({shared:.0f})" if shared == shared else "") for n, shared in sizes]


def changes(study: Study, compared: pd.DataFrame) -> str:
    """Which differences of a table are settled, and how many could not be."""
    tested, several = compared.dropna(subset=["delta"]), len(set(compared["test_set"])) > 1
    texts = [
        f"{study.titles[row.condition]}: {without_unit(row.metric)} {change(row)}"
        + (f", {TEST_SETS[row.test_set]}" if several else "")
        for row in compared[settled_deltas(compared)].itertuples()
    ]
    return (
        f"**{len(texts)} of {len(tested)} differences are settled**"
        + (f" ({'; '.join(texts)})" if texts else "")
        + too_few(tested)
    )


def too_few(tested: pd.DataFrame) -> str:
    """A sentence's end: how many of the differences no outcome could settle."""
    smallest_p = 2.0 ** (1 - tested["counted_both"])  # of the exchanges of so many flows
    hopeless = (smallest_p * len(tested) > LEVEL).sum()
    return f"; {hopeless} could not be, whatever the outcome: too few flows count in both rows. " if hopeless else ". "


class Rebuilt(NamedTuple):
    """A table of the paper, rebuilt: its rows beside the baseline, the report's columns, and what a page shows; without
    a table where no two of its rows are asked."""

    compared: pd.DataFrame
    contract: pd.DataFrame
    table: Table | None
    words: str


PAPERS_TABLES = {  # number: the rows, and what they are compared with; None is the fine-tuned model
    1: ([("pretrained", 20, "none"), ("tst", 5, "none"), ("tst", 20, "none")], ("pretrained", 5, "none")),
    2: ([("pretrained", 5, "fd"), ("tst", 5, "none"), ("tst", 5, "fd")], ("pretrained", 5, "none")),
    3: ([("pretrained", 20, "fd"), ("tst", 20, "none"), ("tst", 20, "fd")], ("pretrained", 20, "none")),
    4: ([("tst", 20, "fd"), ("tst", 20, "sfd"), ("tst", 20, "fd_sfd")], None),
}


def rebuilt(study: Study, published: pd.DataFrame, number: int, full: FullReport) -> Rebuilt:
    """Table `number` of the paper: its rows against its baseline, of the generator that stands for GPT-4, then of those
    that stand beside it; `published` has the printed differences."""
    found = [_against(study, number, generator) for generator in (study.writers.reader, *BESIDE)]
    parts = [part for part in found if part is not None]
    if not parts:
        none = study.compare([FINETUNED], FINETUNED).iloc[:0].assign(table=number, published_delta=np.nan, writer="")
        words = f"This profile asks no two rows of Table {number}; profile `full` asks all."
        return Rebuilt(none, contract(none, study.rows).assign(published_delta=np.nan), None, words)
    compared = pd.concat(parts, ignore_index=True)
    compared = compared.drop_duplicates(["test_set", "condition", "metric"], ignore_index=True)
    table = contract(compared, study.rows, published[published["table"] == number])
    compared = compared.assign(published_delta=table["published_delta"], table=number)
    beside = full.beside(table)
    compared = compared.assign(**{name: beside[name] for name in beside if name.startswith("full_")})
    in_one_half = " Asked: flows whose connectors lie in one half, mostly shorter ones."
    caption = (
        f"Table {number} of the paper, rebuilt. Differences from: {_baselines(study, compared)}. Where no model is "
        f"named, {study.writers.named(study.writers.reader)} writes."
        + in_one_half
        * (study.writers.reader == "in_context")
    )
    words = changes(study, compared) + with_published(compared) + full.in_words(table)
    return Rebuilt(compared, table, compared_table(study, compared, caption), words)


def _against(study: Study, number: int, generator: str) -> pd.DataFrame | None:
    rows, base = PAPERS_TABLES[number]
    names = study.present(study.name(*row, generator=generator) for row in rows)
    baseline = FINETUNED if base is None else study.name(*base, generator=generator)
    if not names or not study.present([baseline]):
        return None
    return study.compare([baseline, *names], baseline).assign(baseline=baseline, writer=generator)


def _baselines(study: Study, compared: pd.DataFrame) -> str:
    """Each baseline by its title."""
    return " and, of its own, ".join(study.titles[name] for name in compared["baseline"].unique())


def with_published(compared: pd.DataFrame) -> str:
    """How often our interval holds the published difference, and how often that says something."""
    beside = compared.dropna(subset=["published_delta", "delta", "delta_ci_low"])
    inside = beside["published_delta"].between(beside["delta_ci_low"], beside["delta_ci_high"])
    also = beside.loc[inside, "delta_ci_low"] * beside.loc[inside, "delta_ci_high"] <= 0
    return (
        f"Our interval holds the published difference for {inside.sum()} of {len(beside)}; for {also.sum()} of these "
        f"it holds 0 as well, so it tells the two apart in {inside.sum() - also.sum()}."
    )


def tuning_in_words(near: Mapping[str, pd.Series], asked: Mapping[str, pd.DataFrame], apis: Sequence) -> str:
    """What each encoder's few-shots have in common with the right flows, before any model reads them.

    Args:
        near: {selector: few-shots by pair, as positions in `apis`}.
        asked: {test set: its requests}, columns pair, apis.
        apis: of each training pair.
    """
    texts = [
        f"{label(name)} {number(_mean_jaccard(near[name], flows, apis), 2)} ({TEST_SETS[test_set]})"
        for test_set, flows in asked.items()
        for name in near
    ]
    return (
        "Before any model reads them, five few-shots have a mean Jaccard similarity with the right flow of: "
        f"{'; '.join(texts)}. Notebook 08 says how many pairs each encoder learned from."
    )


def _mean_jaccard(near: pd.Series, asked: pd.DataFrame, apis: Sequence) -> float:
    shown = zip(near[asked["pair"].tolist()], asked["apis"], strict=True)
    return np.mean([np.mean([jaccard(apis[shot], wanted) for shot in shots[:5]]) for shots, wanted in shown])


def at_a_glance(study: Study, tables: Sequence[Rebuilt]) -> pd.DataFrame:
    """The rows of all tables that have a difference, of the generator that stands for GPT-4, with columns name (how
    the figure calls them) and longer (whether they or their baseline are marked `LONGER`)."""
    everything = pd.concat([one.compared for one in tables], ignore_index=True).dropna(subset=["delta"])
    everything = everything[everything["writer"] == study.writers.reader]
    short = everything["condition"].map(study.titles).str.replace("pretrained encoder", "pretrained")
    names = "Table " + everything["table"].astype(str) + ": " + short.str.replace(" few-shots", "")
    sides = [everything[side].map(study.titles).str.endswith(LONGER) for side in ("condition", "baseline")]
    return everything.assign(name=names, longer=sides[0] | sides[1])


def verdict(everything: pd.DataFrame) -> str:
    """How our differences agree with the published ones, a comparison printed in two tables counted once."""
    once = everything.dropna(subset=["published_delta"])
    once = once.drop_duplicates(["test_set", "condition", "metric", "baseline"])
    inside = once["published_delta"].between(once["delta_ci_low"], once["delta_ci_high"])
    undecided = inside & (once["delta_ci_low"] * once["delta_ci_high"] <= 0)
    opposite = (once["delta"] * once["published_delta"] < 0) & settled_deltas(once)
    from_none = ((once["published_delta"] == 0) & settled_deltas(once)).sum()
    printed_none = f", and {from_none} {'is' if from_none == 1 else 'are'} settled where the paper prints 0.00"
    longer = int(once["longer"].sum())
    of_longer = f"; {longer} of the {len(once)} have a row marked {LONGER}, with prompts longer than the model learned"
    return (
        f"our 95% intervals hold {inside.sum()} of {len(once)} published differences, but {undecided.sum()} of these "
        f"intervals hold 0 as well; {opposite.sum() or 'none'} of our differences "
        f"{'is' if opposite.sum() == 1 else 'are'} settled the other way{printed_none * bool(from_none)}"
        f"{of_longer * bool(longer)}"
    )


def glance_drawing(everything: pd.DataFrame) -> Drawing:
    """A panel a metric: our differences on each test set with their intervals, and the published ones."""
    names = list(dict.fromkeys(everything["name"]))[::-1]
    figure, axes = plt.subplots(2, 2, figsize=(11, 7.6), sharey=True)
    for axis, metric in zip(axes.flat, METRICS, strict=True):
        _glance_panel(axis, everything[everything["metric"] == metric], names, metric)
    for axis in axes[:, 1]:
        axis.tick_params(labelleft=False)
    figure.supxlabel("difference from the table's baseline (Table 4: from the fine-tuned model)", fontsize=10)
    figure.legend(*axes[1][0].get_legend_handles_labels(), loc="upper center", bbox_to_anchor=(0.5, 0), ncol=3)
    said = verdict(everything)
    alt = (
        f"Four panels, one a metric, with {len(names)} rows of Tables 1 to 4: our difference from the table's baseline "
        "on each test set with its 95% interval, and the published one as a diamond."
    )
    return Drawing(figure, "dsl_ablation", said[0].upper() + said[1:], alt, everything)


SET_STYLE = {
    "test": ("rag", "o", 0.14),
    "test_same": ("context_tuned_rag", "s", -0.14),
}  # method's colour, marker, aside


def _glance_panel(axis: Axes, part: pd.DataFrame, names: Sequence[str], metric: str) -> None:
    axis.axvline(0, color="#333333", linewidth=0.8)
    for test_set, rows in part.groupby("test_set", sort=False):
        method, marker, aside = SET_STYLE[test_set]
        rows = rows.set_index("name").reindex(names)
        bars = error_bars(rows, DELTAS)
        axis.errorbar(rows["delta"], np.arange(len(names)) + aside, xerr=bars, fmt=marker, color=colour(method),
                      capsize=2, markersize=4, label=f"ours, {TEST_SETS[test_set]}")  # fmt: skip
    printed = part.drop_duplicates("name").set_index("name").reindex(names)["published_delta"]
    axis.plot(
        printed, np.arange(len(names)), "D", markersize=5, mfc="none", color=colour("published"), label="published"
    )
    better = "right" if metric == "similarity" else "left"
    axis.set(title=f"{METRIC[metric]} ({better} is better)", yticks=np.arange(len(names)), yticklabels=names)


def highlight(study: Study, everything: pd.DataFrame, opening: str) -> tuple[str, str, str]:
    """The page's finding: text, figure, alt text.

    Args:
        everything: of `at_a_glance`.
        opening: of `lib.workflows.pages.dsl_ablation.opening`.
    """
    text = (
        f"{opening} Tables 1 to 4 of the workflow paper with {plain(study.writers.names)} as the writers: "
        f"{verdict(everything)}."
    )
    alt = (
        f"Four panels, one a metric: for {everything['name'].nunique()} rows of Tables 1 to 4 our difference from the "
        "table's baseline with its 95% interval, and the published one."
    )
    return text, "dsl_ablation", alt
