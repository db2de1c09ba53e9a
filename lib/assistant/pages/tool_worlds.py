"""Notebook 06's part on the three named worlds: its figure, table and sentences."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt
import pandas as pd

from lib.assistant import tool_ranker
from lib.assistant.argument_sources import SHARES
from lib.assistant.leaks import BY_DUE_TIME, BY_NEED, BY_WORD, LAST_OPENED, MOST_OPENED
from lib.assistant.pages.common import control_rows
from lib.assistant.pages.tool_ranker import draws_of, rows_of_controls, weighed
from lib.assistant.pages.tool_retrieval import PUBLISHED_RATIO, Cutoffs, Results
from lib.assistant.pages.tool_retrieval_figures import INK, draw_ceiling, draw_line
from lib.assistant.pages.tool_retrieval_tables import retriever_name, retriever_of, setting_of
from lib.assistant.tool_retrieval import ceiling
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
    RANKER_OTHER,
    RANKER_TUNED,
    TUNED,
    UNSEEN_ALONE,
    UNSEEN_TUNED,
    ToolsFound,
)
from lib.assistant.world_controls import NAMED, ON_EVALUATION, PLANNED
from lib.evaluation.comparison import compare, ratios
from lib.evaluation.inference import Resampling
from lib.workbook.display import Drawing, Table, interval, listed, number
from lib.workbook.methods import colour, label

METHODS = (
    RANDOM, FREQUENCY, CLASSIFIER, ALONE, CONTEXT, TUNED, ORACLE, OTHER,
    RANKER_ALONE, RANKER_CONTEXT, RANKER_TUNED, RANKER_OTHER, UNSEEN_ALONE, UNSEEN_TUNED,
)  # fmt: skip
DRAWN = (ALONE, TUNED, ORACLE, RANKER_ALONE, RANKER_TUNED, FREQUENCY)
WITHOUT = dict.fromkeys((CONTEXT, TUNED, ORACLE, OTHER), ALONE)
WITHOUT |= dict.fromkeys((RANKER_CONTEXT, RANKER_TUNED, RANKER_OTHER), RANKER_ALONE)
WITHOUT[UNSEEN_TUNED] = UNSEEN_ALONE
# Questions to a world (see `lib.assistant.world_controls.leaks_in`) on what may give an answer away.
GIVEN_AWAY = {
    NAMED: "the API by the query's text",
    BY_NEED: "the API by the need",
    **{question: f"the item by words of {kind} queries" for kind, question in BY_WORD.items()},
    BY_DUE_TIME: "the item by being due soon",
    MOST_OPENED: "the item by being opened most",
    LAST_OPENED: "the item by being opened last",
}


def results_of(found: Mapping[str, ToolsFound], cutoffs: Cutoffs, samples: int, seed: int) -> dict[str, Results]:
    """Each world's scores with their resampling; at least one world."""
    return {
        world: Results(part.task, part.scores, cutoffs, Resampling(part.task.clusters, samples, seed))
        for world, part in found.items()
    }


def in_rows(results: Mapping[str, Results]) -> pd.DataFrame:
    """As `tables/tool_worlds.csv` has it: world, setting, retriever, k, recall in percent with its interval (ci_low,
    ci_high), how many times that of the same retriever by the query alone it is (gain, gain_low, gain_high), n."""
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
    names = ["recall", "ci_low", "ci_high", "gain", "gain_low", "gain_high", "n"]
    return rows[["world", "setting", "retriever", "k", *names]]


def gains_at(results: Mapping[str, Results], k: int) -> pd.DataFrame:
    """The gains at one K, indexed by world and run: ratio, ci_low, ci_high."""
    rows = {
        (world, method): ratios(part.scores, method, alone, "recall", [k], part.resampling).iloc[0]
        for world, part in results.items()
        for method, alone in WITHOUT.items()
    }
    return pd.DataFrame(rows).T[["ratio", "ci_low", "ci_high"]]


def asked(found: Mapping[str, ToolsFound]) -> str:
    """How many queries each world is asked, and which wording of context was chosen there."""
    words = []
    for world, part in found.items():
        wording, n = part.wording
        words.append(
            f"{world}: {len(part.task.evaluated):,} evaluation queries, {len(part.task.training):,} training queries, "
            f"{part.task.also['query'].nunique():,} queries with another plan that does as well; context worded as "
            f"{wording} of {n} item{'s' if n > 1 else ''}"
        )
    return "; ".join(words) + (
        ". The wording is chosen with context by semantic search and serves the paper's context, too, which it may "
        "suit less."
    )


# ---- what the worlds promise, and what they give away


def leaks_in_rows(leaks: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """As `tables/world_leaks.csv` has it: world, then the columns of `lib.assistant.world_controls.leaks_in`: question,
    here, reference, reference_is. Percent, bits or numbers of distinct values, as the question says."""
    return _with_world(leaks)


def leaks_table(rows: pd.DataFrame, n_queries: int) -> Table:
    """A row a question and a column a world (see `leaks_in_rows`), each cell with its reference.

    Args:
        n_queries: of each world, on both sides.
    """
    cells = rows.assign(
        cell=[
            " / ".join(number(value, _decimals_of(question)) for value in values)
            for question, *values in rows[["question", "here", "reference"]].itertuples(index=False)
        ]
    )
    # Some world may not pose every question: their order is that of the world that poses most.
    order = max((part["question"].tolist() for _, part in rows.groupby("world")), key=len)
    shown = cells.pivot(index="question", columns="world", values="cell").reindex(
        index=list(dict.fromkeys([*order, *rows["question"]])), columns=rows["world"].unique()
    )
    shown = shown.fillna("–").rename_axis(columns=None)
    shown.insert(0, "after the slash", rows.drop_duplicates("question").set_index("question")["reference_is"])
    promised = {f"{knob}: {value}, %": f"queries where {words}, %" for (knob, value), words in SHARES.items()}
    shown = shown.rename(index=promised).reset_index()
    return Table(
        shown,
        "What each world's name promises, what could give an answer away, and what training and evaluation share, of "
        f"{n_queries:,} queries a world. After the slash stands what the second column names. The classifier learned "
        "from the training queries that are asked here and is tested on the evaluation queries that an API serves.",
        text_columns=["question", "after the slash"],
    )


def _decimals_of(question: str) -> int:
    return 1 if question.endswith(", %") else 2 if question.endswith(", bits") else 0


def leaks_in_words(rows: pd.DataFrame) -> str:
    """How far each world is from what its name promises, what it gives away most, and what its sides do not share."""
    planned = rows[rows["reference_is"] == PLANNED]
    off = (planned["here"] - planned["reference"]).abs().groupby(planned["world"], sort=False).max()
    promised = listed([f"{number(points, 1)} in `{world}`" for world, points in off.items()])
    sides = rows[rows["reference_is"] == ON_EVALUATION].groupby("question", sort=False)["here"].max()
    apart = listed([question.removesuffix(" on both sides") for question in sides.index[sides == 0]])
    return (
        f"The shares differ from those promised by at most, in points, {promised}. {_given_away_most(rows)} "
        f"In none of these worlds do training and evaluation share {apart}."
    )


def _given_away_most(rows: pd.DataFrame) -> str:
    """By world, what of `GIVEN_AWAY` stands farther above its reference than in any other world, and how far in the
    next."""
    above = rows.assign(points=rows["here"] - rows["reference"])
    above = above.pivot(index="question", columns="world", values="points").dropna(how="all")
    most: dict[str, list[str]] = {world: [] for world in rows["world"].unique()}
    for question, words in GIVEN_AWAY.items():
        if question not in above.index:
            continue
        first, *others = above.loc[question].dropna().sort_values(ascending=False, kind="stable").items()
        if first[1] > 0:
            beside = f" ({number(others[0][1], 1)})" if others else ""
            most[str(first[0])].append(f"{words} {number(first[1], 1)}{beside}")
    parts = [f"`{world}` {listed(found)}" for world, found in most.items() if found]
    return (
        f"Where each stands farthest above its reference, in points (the next world's in brackets): {'; '.join(parts)}."
    )


def panels_figure(results: Mapping[str, Results], finding: str) -> Drawing:
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
    k = next(iter(results.values())).k
    means = "; ".join(
        f"{world}: " + ", ".join(f"{retriever_name(method)} {part.mean(method, k):.0f}%" for method in DRAWN)
        for world, part in results.items()
    )
    alt = f"Recall of the right tools against K in {len(results)} worlds. At K = {k}: {means}."
    return Drawing(figure, "tool_worlds", finding, alt, in_rows(results))


def recall_table(results: Mapping[str, Results]) -> Table:
    """Recall of every run, a column a world."""
    k = next(iter(results.values())).k
    worlds = {f"`{world}` (n = {part.n:,})": part for world, part in results.items()}
    rows = [_row_of(method) | {name: part.interval(method, k) for name, part in worlds.items()} for method in METHODS]
    caption = (
        f"Recall@{k} of the right tools in percent, with 95% intervals. {label(TUNED).capitalize()}: by a LambdaMART "
        f"that learned in that world, as the paper does; this context is also the one that queries exchange."
    )
    return Table(pd.DataFrame(rows), caption)


def gains_table(results: Mapping[str, Results]) -> Table:
    """How many times its recall by the query alone each run with context has, a column a world."""
    k = next(iter(results.values())).k
    gains = gains_at(results, k)
    rows = [_row_of(method) | {f"`{world}`": _gain(gains, world, method) for world in results} for method in WITHOUT]
    caption = (
        f"Recall@{k} with context as a multiple of the same retriever's by the query alone, with 95% intervals. "
        f"Published, of the first row but one: {PUBLISHED_RATIO}, without a K."
    )
    return Table(pd.DataFrame(rows), caption)


def _row_of(method: str) -> dict[str, str]:
    return {"ranked by": retriever_of(method), "with": label(setting_of(method))}


def _gain(gains: pd.DataFrame, world: str, method: str) -> str:
    ratio, low, high = gains.loc[(world, method)]
    return interval(ratio, low, high, 2)


def _each(results: Mapping[str, Results], gains: pd.DataFrame, method: str) -> str:
    return ", ".join(f"{_gain(gains, world, method)} in {world}" for world in results)


def _worlds_where(gains: pd.DataFrame, method: str, value: float) -> dict[str, list[str]]:
    """The worlds by where the interval of a run's gain lies: above, below or around a value; none where the gain has no
    interval, since nothing was found without context."""
    part = gains.xs(method, level=1)
    return {
        "above": part.index[part["ci_low"] > value].tolist(),
        "below": part.index[part["ci_high"] < value].tolist(),
        "around": part.index[(part["ci_low"] <= value) & (part["ci_high"] >= value)].tolist(),
    }


def _in(worlds: list[str]) -> str:
    return "in " + " and ".join(worlds) if worlds else "in no world"


def finding(results: Mapping[str, Results]) -> str:
    """The figure's title: what retrieved context gains in each world, and where that agrees with the paper."""
    k = next(iter(results.values())).k
    gains = gains_at(results, k)
    return (
        f"The paper's context multiplies what search finds of the right tools among the first {k} by "
        f"{_each(results, gains, TUNED)}: the published {PUBLISHED_RATIO} lies within the interval "
        f"{_in(_worlds_where(gains, TUNED, PUBLISHED_RATIO)['around'])}"
    )


def what_context_gains(results: Mapping[str, Results]) -> str:
    """Where context helps search and the learned ranker, and whether another query's context would do as well."""
    k = next(iter(results.values())).k
    gains = gains_at(results, k)

    def said(method: str) -> str:
        where = _worlds_where(gains, method, 1.0)
        return f"above 1 {_in(where['above'])}, below 1 {_in(where['below'])}"

    return (
        f"At K = {k} the interval of the gain by retrieved context is {said(TUNED)}; context by search instead, which "
        f"learns nothing, gains {_each(results, gains, CONTEXT)}. With all relevant context the gain of search is "
        f"{_each(results, gains, ORACLE)}. The gain of the ranker learned from plans is "
        f"{_each(results, gains, RANKER_TUNED)}: {said(RANKER_TUNED)}. The control, another query's context, must "
        f"gain nothing: its interval is {said(OTHER)} for search, {said(RANKER_OTHER)} for the ranker. With its own "
        f"context instead of another query's the ranker finds, in points of Recall@{k}: "
        f"{', '.join(f'{_own_against_others(part, k)} in {world}' for world, part in results.items())}."
    )


def _own_against_others(part: Results, k: int) -> str:
    """What the ranker finds with each query's own context minus with another's, points with a 95% interval."""
    change = compare(part.scores, [(RANKER_TUNED, RANKER_OTHER)], "recall", k, part.resampling).iloc[0]
    return interval(change["difference"], change["ci_low"], change["ci_high"])


def ours_beside_the_query_alone(results: Mapping[str, Results]) -> str:
    """How many times what search finds by the query alone our ranker finds with context, of needs never learned, too,
    and without context; beside the most that there is to find."""
    k = next(iter(results.values())).k
    found = {}
    for world, part in results.items():
        rows = {method: _times(part, method, k) for method in (RANKER_TUNED, UNSEEN_TUNED, RANKER_ALONE)}
        most = ceiling(part.task.shortest, part.scores.index, [k])[0] / max(part.mean(ALONE, k), 1e-9)
        found[world] = (
            f"`{world}` {rows[RANKER_TUNED]} (needs never learned {rows[UNSEEN_TUNED]}; without context "
            f"{rows[RANKER_ALONE]}; at most {most:.2f})"
        )
    return (
        f"Recall@{k} of our ranker with context as a multiple of the paper's search by the query alone: "
        f"{'; '.join(found.values())}."
    )


def _times(part: Results, method: str, k: int) -> str:
    row = ratios(part.scores, method, ALONE, "recall", [k], part.resampling).iloc[0]
    return interval(row["ratio"], row["ci_low"], row["ci_high"], 2)


def room_for_the_published_gain(results: Mapping[str, Results]) -> str:
    """In which worlds the query alone leaves so little to find that no search could gain what the paper prints."""
    k = next(iter(results.values())).k
    wanted = {world: PUBLISHED_RATIO * part.mean(ALONE, k) for world, part in results.items()}
    best = {world: ceiling(part.task.shortest, part.scores.index, [k])[0] for world, part in results.items()}
    full = [world for world in results if wanted[world] > best[world]]
    cells = ", ".join(
        f"{wanted[world]:.1f}% in `{world}` ({best[world]:.1f}% is the most possible)" for world in results
    )
    return f"{PUBLISHED_RATIO} times what the query alone finds would be a recall of {cells}. " + (
        f"No search can have it {_in(full)}." if full else "Every world has room for it."
    )


def answer(results: Mapping[str, Results]) -> str:
    """The worlds' part of what the page found."""
    k = next(iter(results.values())).k
    gains = gains_at(results, k)
    return (
        f"Across the three named worlds, the paper's context multiplies recall at K = {k} by "
        f"{_each(results, gains, TUNED)} (published: {PUBLISHED_RATIO})."
    )


# ---- negative controls of the ranker of tools


def tool_controls_in_rows(
    results: Mapping[str, Results], cut: Mapping[str, tuple[pd.DataFrame, list[pd.DataFrame]]]
) -> pd.DataFrame:
    """As `tables/tool_world_controls.csv` has it: world, the columns of `lib.assistant.tool_ranker.weigh_controls`, the
    recall of the ranker with every link whole (ranker), k and n.

    Args:
        cut: from `lib.assistant.tool_ranker.control_runs`, by world.
    """
    frames = [
        weighed(part, *cut[world]).assign(world=world, ranker=part.mean(RANKER_TUNED, part.k), k=part.k, n=part.n)
        for world, part in results.items()
    ]
    rows = pd.concat(frames, ignore_index=True)
    return rows[["world", *rows.columns.drop("world")]]


def tool_controls_table(rows: pd.DataFrame) -> Table:
    """A row a world and control (see `tool_controls_in_rows`)."""
    shown = rows_of_controls(rows, "control's recall")
    shown.insert(0, "world", rows["world"])
    shown.insert(2, "n", rows["n"])
    shown.insert(3, "our ranker", rows["ranker"])
    return Table(
        shown,
        f"Negative controls of our ranker of tools in each world, Recall@{rows['k'].iloc[0]} in percent; labels are "
        f"permuted in {draws_of(rows)}. A control may find less than its reference, and not more by more than the "
        "margin.",
        decimals=1,
    )


def tool_controls_in_words(rows: pd.DataFrame) -> str:
    """How many of them hold, and which are not shown to."""
    missed = [f"{name} in `{world}`" for world, name in rows.loc[~rows["holds"], ["world", "control"]].to_numpy()]
    text = f"Of the ranker's {len(rows)} controls {rows['holds'].sum()} hold."
    text += f" Not shown to hold: {'; '.join(missed)}." if missed else ""
    return text + "".join(
        f" In `{row.world}`, with {row.control}, the ranker still finds "
        f"{interval(row.difference, row.ci_low, row.ci_high)} points more than with none, with its own "
        f"{number(row.ranker - row.reference_recall, 1)}: that part of the gain is not the context's."
        for row in rows[rows["control"] == tool_ranker.OTHER].itertuples()
        if row.ci_low > 0
    )


# ---- negative controls of context retrieval


def controls_in_rows(controls: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """As `tables/world_controls.csv` has it: world, then the columns of `lib.assistant.world_controls.controls_in`."""
    return _with_world(controls)


def _with_world(frames: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    frame = pd.concat([rows.assign(world=world) for world, rows in frames.items()], ignore_index=True)
    return frame[["world", *frame.columns.drop("world")]]


def controls_table(controls: Mapping[str, pd.DataFrame]) -> Table:
    """A row a world, control and group of queries."""
    rows = controls_in_rows(controls)
    shown = control_rows(rows, "control's recall")
    shown.insert(0, "world", rows["world"])
    shown.insert(3, "n", rows["n"])
    shown.insert(4, "LambdaMART", rows["lambdamart"])
    shown.insert(shown.shape[1] - 1, "test", rows["test"])
    return Table(
        shown,
        "Negative controls of LambdaMART in each world, Recall@3 in percent. One-sided: it must not exceed the "
        "reference by more than the margin, and may fall below.",
        decimals=1,
    )


def controls_in_words(controls: Mapping[str, pd.DataFrame]) -> str:
    """How many controls hold on all queries of each world, and where too few habit queries decide nothing."""
    words = []
    for world, rows in controls.items():
        whole = rows[rows["queries"] == "all"]
        words.append(f"{world}: {whole['holds'].sum()} of {len(whole)}")
    few = [
        f"{world} ({rows.loc[rows['queries'] == 'habit', 'n'].iloc[0]})"
        for world, rows in controls.items()
        if not rows.loc[rows["queries"] == "habit", "holds"].all()
    ]
    text = f"Controls that hold on all queries: {', '.join(words)}."
    if few:
        text += f" Not every control is shown to hold on the habit queries by themselves of {', '.join(few)}."
    return text
