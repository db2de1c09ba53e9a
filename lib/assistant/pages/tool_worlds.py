"""Notebook 06's part on the three named worlds: its figure and tables."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt
import pandas as pd

from lib.assistant.pages.tool_retrieval import PUBLISHED_RATIO, Cutoffs, Results
from lib.assistant.pages.tool_retrieval_figures import INK, draw_ceiling, draw_line
from lib.assistant.pages.tool_retrieval_tables import retriever_name, retriever_of, setting_of
from lib.assistant.tool_worlds import (
    ALONE,
    CLASSIFIER,
    CONTEXT,
    FREQUENCY,
    ORACLE,
    OTHER,
    RANDOM,
    RANKER_ALONE,
    RANKER_CONTEXT,
    RANKER_TUNED,
    TUNED,
    UNSEEN_ALONE,
    UNSEEN_TUNED,
    ToolsFound,
)
from lib.evaluation.comparison import ratios
from lib.evaluation.inference import Resampling
from lib.workbook.display import Drawing, Table, interval
from lib.workbook.methods import colour, label

METHODS = (
    RANDOM, FREQUENCY, CLASSIFIER, ALONE, CONTEXT, TUNED, ORACLE, OTHER,
    RANKER_ALONE, RANKER_CONTEXT, RANKER_TUNED, UNSEEN_ALONE, UNSEEN_TUNED,
)  # fmt: skip
DRAWN = (ALONE, TUNED, ORACLE, RANKER_ALONE, RANKER_TUNED, FREQUENCY)
WITHOUT = dict.fromkeys((CONTEXT, TUNED, ORACLE, OTHER), ALONE)
WITHOUT |= dict.fromkeys((RANKER_CONTEXT, RANKER_TUNED), RANKER_ALONE)
WITHOUT[UNSEEN_TUNED] = UNSEEN_ALONE


def results_of(found: Mapping[str, ToolsFound], cutoffs: Cutoffs, samples: int, seed: int) -> dict[str, Results]:
    """Each world's scores with their resampling; at least one world."""
    return {
        world: Results(part.task, part.scores, cutoffs, Resampling(part.task.units, samples, seed))
        for world, part in found.items()
    }


def in_rows(results: Mapping[str, Results]) -> pd.DataFrame:
    """As `tables/tool_worlds.csv` has it: world, setting, retriever, k, recall in percent with its interval (ci_low,
    ci_high), how many times that of the same retriever by the query alone it is (gain, gain_low, gain_high), n_topics
    and n."""
    frames = []
    for world, part in results.items():
        gains = [
            ratios(part.scores, method, alone, "recall", part.cutoffs.all, part.resampling).assign(method=method)
            for method, alone in WITHOUT.items()
        ]
        gained = pd.concat(gains).rename(columns={"ratio": "gain", "ci_low": "gain_low", "ci_high": "gain_high"})
        summary = part.summary[part.summary["metric"] == "recall"].rename(columns={"value": "recall"})
        frames.append(summary.merge(gained, on=["method", "k"], how="left").assign(world=world))
    rows = pd.concat(frames, ignore_index=True)
    rows["setting"] = rows["method"].map(setting_of)
    rows["retriever"] = rows["method"].str.partition("/")[2].replace("", "semantic")
    names = ["recall", "ci_low", "ci_high", "gain", "gain_low", "gain_high", "n_topics", "n"]
    return rows[["world", "setting", "retriever", "k", *names]]


def gains_at(results: Mapping[str, Results], k: int) -> pd.DataFrame:
    """The gains at one K, indexed by world and run: ratio, ci_low, ci_high."""
    rows = {
        (world, method): ratios(part.scores, method, alone, "recall", [k], part.resampling).iloc[0]
        for world, part in results.items()
        for method, alone in WITHOUT.items()
    }
    return pd.DataFrame(rows).T[["ratio", "ci_low", "ci_high"]]


def panels_figure(results: Mapping[str, Results]) -> Drawing:
    """Recall against K, a panel a world: search solid, the learned ranker dotted, 1.5 times search by the query alone
    dashed."""
    figure, axes = plt.subplots(1, len(results), figsize=(4.3 * len(results), 4.6), sharey=True, squeeze=False)
    for axis, (world, part) in zip(axes[0], results.items(), strict=True):
        for method in DRAWN:
            line, style = part.value.loc[(method, "recall")], setting_of(method)
            draw_line(axis, line, style, strong=method == style)
            axis.lines[-1].set_label(retriever_name(method))
            if method == FREQUENCY:  # a floor, in no colour of a method
                axis.lines[-1].set(marker="x", color="#8a8a8a")
            if method in (ALONE, TUNED):
                axis.fill_between(line.index, line["ci_low"], line["ci_high"], color=colour(style), alpha=0.15)
        alone = part.value.loc[(ALONE, "recall"), "value"]
        published = f"published gain: {PUBLISHED_RATIO} times semantic search, query alone"
        axis.plot(
            alone.index, PUBLISHED_RATIO * alone, color="#000000", linestyle=(0, (5, 3)), linewidth=1, label=published
        )
        draw_ceiling(axis, part)
        axis.lines[-1].set(linestyle="-.", label="best possible", color=INK)
        axis.set_title(f"{world} (n = {part.n:,})", fontsize=11)
    axes[0][0].set_ylabel("Recall@K of the right tools, %\n(bands: 95% interval, of two solid lines)")
    handles, names = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, names, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncol=2, fontsize=9)
    alt = f"Recall of the right tools against K in {len(results)} worlds."
    return Drawing(figure, "tool_worlds", "Right tools found in three worlds", alt, in_rows(results))


def recall_table(results: Mapping[str, Results]) -> Table:
    """Recall of every run, a column a world."""
    k = next(iter(results.values())).k
    worlds = {f"`{world}` (n = {part.n:,})": part for world, part in results.items()}
    rows = [_row_of(method) | {name: part.interval(method, k) for name, part in worlds.items()} for method in METHODS]
    caption = f"Recall@{k} of the right tools in percent, with 95% intervals."
    return Table(pd.DataFrame(rows), caption)


def gains_table(results: Mapping[str, Results]) -> Table:
    """How many times its recall by the query alone each run with context has, a column a world."""
    k = next(iter(results.values())).k
    gains = gains_at(results, k)
    rows = [_row_of(method) | {f"`{world}`": _gain(gains, world, method) for world in results} for method in WITHOUT]
    caption = f"Recall@{k} with context as a multiple of that by the query alone; published: {PUBLISHED_RATIO}."
    return Table(pd.DataFrame(rows), caption)


def _row_of(method: str) -> dict[str, str]:
    return {"ranked by": retriever_of(method), "with": label(setting_of(method))}


def _gain(gains: pd.DataFrame, world: str, method: str) -> str:
    ratio, low, high = gains.loc[(world, method)]
    return interval(ratio, low, high, 2)
