"""What notebook 04_finetuned_search shows of fine-tuning on what training never showed, and its negative controls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from lib.assistant.encoder_training import TrainingSets
from lib.assistant.pages.common import Scored, intervals, shown_cell
from lib.evaluation.comparison import compare
from lib.retrieval.finetune import Finished
from lib.retrieval.stores import relevant_pairs_mask
from lib.workbook.display import Drawing, Table, number
from lib.workbook.methods import colour

HELD_OUT = {word: f"first fold of needs, trained {word} them" for word in ("with", "without")}
CHECKS = (("permuted", "semantic"), ("swapped", "random"), ("blank", "random"))


class Trial(NamedTuple):
    """Fine-tuned against pretrained search on some of the queries (or relevant items) that were scored.

    Attributes:
        on: what they are, for readers.
        method: the fine-tuned encoder; the pretrained one is `semantic`.
        scored: all of them.
        among: which of them, as bools.
    """

    on: str
    method: str
    scored: Scored
    among: np.ndarray


def by_knownness(what: str, method: str, scored: Scored, known: np.ndarray) -> list[Trial]:
    """A trial on what training showed and one on what it did not.

    Args:
        what: how the trials are called, with {} for the word known or new.
        known: which of the scored training showed, as bools.
    """
    return [Trial(what.format(word), method, scored, mask) for word, mask in (("known", known), ("new", ~known))]


def on_held_out_needs(scored: Scored, is_unseen: np.ndarray) -> list[Trial]:
    """A trial of the model that was trained on the held-out needs and one of the model that was not.

    Args:
        is_unseen: which queries ask about a held-out need, as bools.
    """
    models = {"with": "finetuned", "without": "finetuned_unseen_needs"}
    return [Trial(HELD_OUT[word], model, scored, is_unseen) for word, model in models.items()]


def item_scores(runs: Mapping[str, pd.DataFrame], wanted: pd.DataFrame, k: int) -> pd.DataFrame:
    """Whether each relevant item is among its query's first k, in percent (0 or 100): columns as `per_query_scores`
    makes for Recall.

    Args:
        runs: ranking of each method: columns query, item, rank.
        wanted: columns query, item, one row a relevant item.
    """
    found = {
        (method, "recall", k): 100.0 * relevant_pairs_mask(wanted, run[run["rank"] <= k])
        for method, run in runs.items()
    }
    return pd.DataFrame(found, index=wanted.index)


def gains(trials: Iterable[Trial]) -> pd.DataFrame:
    """Recall at the smallest K before and after fine-tuning; a trial on nothing, or of no model, is left out.

    Returns:
        columns on, n, pretrained, fine-tuned (percent), gain, ci_low, ci_high (percentage points).
    """
    rows = []
    for trial in trials:
        scored, k = trial.scored, trial.scored.k
        if trial.among.any() and trial.method in scored.table.columns.get_level_values(0):
            part = scored.table[trial.among]
            resampling = scored.resampling.among(trial.among)
            test = compare(part, [(trial.method, "semantic")], "recall", k, resampling).iloc[0]
            means = [part[method, "recall", k].mean() for method in ("semantic", trial.method)]
            rows.append((trial.on, len(part), *means, *test[["difference", "ci_low", "ci_high"]]))
    return pd.DataFrame(rows, columns=["on", "n", "pretrained", "fine-tuned", "gain", "ci_low", "ci_high"])


def reach_table(reach: pd.DataFrame, k: int) -> Table:
    """The gains with their intervals.

    Args:
        reach: from `gains`.
    """
    return Table(
        reach.assign(gain=intervals(reach, "gain")).drop(columns=["ci_low", "ci_high"]),
        f"Recall@{k} in percent and the gain from fine-tuning in points, 95% intervals; n counts queries, in the last "
        "rows relevant items.",
        decimals=1,
    )


def reach_drawing(reach: pd.DataFrame, k: int) -> Drawing:
    """The gains as dots.

    Args:
        reach: from `gains`.
    """
    figure, axis = plt.subplots(figsize=(8, 0.42 * len(reach) + 1.2))
    place = np.arange(len(reach))[::-1]
    bars = [reach["gain"] - reach["ci_low"], reach["ci_high"] - reach["gain"]]
    axis.errorbar(reach["gain"], place, xerr=bars, fmt="o", color=colour("finetuned"), capsize=3)
    axis.axvline(0, color="#000000", linewidth=0.8)
    axis.set(
        yticks=place,
        yticklabels=[f"{row.on} (n = {row.n:,})" for row in reach.itertuples()],
        xlabel=f"gain in Recall@{k}, points (95% interval)",
        ylim=(-0.6, len(reach) - 0.4),
    )
    gain = reach.set_index("on")["gain"]
    finding = (
        f"Gains of fine-tuning lie between {number(gain.min(), 1)} and {number(gain.max(), 1)} points"
        if not set(HELD_OUT.values()) <= set(gain.index)
        else f"On needs held out the gain is {_cell(reach, 'without')} points, {_cell(reach, 'with')} when training "
        "includes them"
    )
    each = "; ".join(f"{row.on}: {number(row.gain, 1)} points" for row in reach.itertuples())
    return Drawing(figure, "finetuned_reach", finding, f"Gain of fine-tuned over pretrained search: {each}.", reach)


def _cell(reach: pd.DataFrame, how: str) -> str:
    """The gain on the needs held out, with its interval; `how` of `HELD_OUT`."""
    return shown_cell(reach.set_index("on").loc[HELD_OUT[how]], "gain")


def held_out_in_words(reach: pd.DataFrame) -> str:
    """Whether what fine-tuning learns carries over to needs kept out of training; empty where that was not tried.

    Args:
        reach: from `gains`.
    """
    rows = reach.set_index("on")
    if not set(HELD_OUT.values()) <= set(rows.index):
        return ""
    without = rows.loc[HELD_OUT["without"]]
    verdict = "has not been shown to carry over to them"
    if without["ci_low"] > 0:
        verdict = "carries over to them"
    elif without["ci_high"] < 0:
        verdict = "harms them"
    return (
        f"On the {int(without['n'])} queries about the needs held out, one fold of five, the model that never saw "
        "these needs is "
        f"{shown_cell(without, 'gain')} points from the pretrained encoder; with them in training it is "
        f"{shown_cell(rows.loc[HELD_OUT['with']], 'gain')}. What fine-tuning learns about some needs {verdict}."
    )


# ---------------------------------------------------------------- controls


def control_names(sets: TrainingSets, done: Mapping[str, Finished]) -> dict[str, str]:
    """The rankings of the controls with their names for readers, in the order shown.

    Args:
        done: {model: record of its training}; empty where nothing was trained.
    """
    names = {"random": "random order (expectation)", "semantic": "pretrained"}
    if not done:
        return names
    return names | {
        "permuted": f"relevant items dealt anew, {done['permuted'].rows} pairs",
        sets.twin: f"true relevant items, {done[sets.twin].rows} pairs",
        "finetuned": "fine-tuned",
        "swapped": "fine-tuned, query of another persona",
        "blank": "fine-tuned, no query",
    }


def controls_table(summary: pd.DataFrame, names: Mapping[str, str], k: int, n: int) -> Table:
    """Recall of the controls.

    Args:
        summary: Recall at k: columns method, value, ci_low, ci_high.
        names: from `control_names`.
    """
    rows = summary.set_index("method").loc[list(names)]
    return Table(
        pd.DataFrame({"ranking": list(names.values()), f"Recall@{k}": intervals(rows)}),
        f"Controls: Recall@{k} in percent, 95% intervals, n = {n}.",
    )


def controls_in_words(checks: pd.DataFrame, twin: str) -> str:
    """Whether the controls hold.

    Args:
        checks: the pairs of `CHECKS` and (twin, semantic), from `lib.evaluation.comparison.compare`.
        twin: model trained on the true labels of the queries of `permuted`.
    """
    rows = checks.set_index(["a", "b"])
    points = {a: shown_cell(row, "difference") for (a, _), row in rows.iterrows()}
    holds = "holds" if rows.loc[("permuted", "semantic"), "ci_low"] <= 0 else "**fails**"
    return (
        f"With relevant items dealt anew the model lies {points['permuted']} points from the pretrained encoder, its "
        f"twin with true ones {points[twin]}: the control {holds}. With another persona's query the ranking is "
        f"{points['swapped']} points from a random order. Without a query the ranking is {points['blank']} points from "
        "a random order. A gain there would be what the encoder learned about items that people ask for at all."
    )
