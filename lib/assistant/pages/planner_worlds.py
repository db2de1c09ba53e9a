"""Notebook 07's part on the three named worlds: its figure, tables and sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.patches import Patch

from lib.assistant.pages.planner import OURS, SHORT
from lib.assistant.planner import ALONE_BY_RANKER, BY_RANKER
from lib.assistant.planner_worlds import BY_OURS, BY_SEARCH, CONTEXT_TUNED, PAPERS_STEPS, PLANNED, TUNED_BY_RANKER
from lib.workbook.display import Drawing, Table, interval, listed, number, p_text
from lib.workbook.methods import colour

NAMES = SHORT | {
    BY_SEARCH: "RAG, context by search",
    ALONE_BY_RANKER: OURS[ALONE_BY_RANKER],
    BY_RANKER: "RAG, context by search, tools by our ranker",
    CONTEXT_TUNED: "context-tuned RAG",
    TUNED_BY_RANKER: "context-tuned RAG, tools by our ranker",
}
# What our ranker's tools and cosine's have beside them.
BESIDE_TOOLS = {
    "rag": "without context",
    BY_SEARCH: "with context by search",
    CONTEXT_TUNED: "with context by LambdaMART",
}
ALL_LEARNED = TUNED_BY_RANKER, CONTEXT_TUNED  # against cosine's tools with the same context
HATCH = "///"
CALLED = {"right_api": "p_tool", "arguments": "p_arguments"}  # what the written table calls these measures
UPPER = PAPERS_STEPS[-1]  # what context adds to the right tool
BARE, ORACLE = "lower_bound", "upper_bound"


CHANGE = ["difference", "ci_low", "ci_high"]


class WorldsFound(NamedTuple):
    """What `lib.assistant.planner_worlds` found: its summaries, steps, found_or_given and told_before."""

    summary: pd.DataFrame
    steps: pd.DataFrame
    gaps: pd.DataFrame
    told: pd.DataFrame

    @property
    def worlds(self) -> list[str]:
        return self.summary["world"].unique().tolist()

    def row(self, world: str, setting: str, metric: str = "ast_accuracy") -> pd.Series:
        """Of the summaries."""
        return self.summary.set_index(["world", "setting", "metric"]).loc[(world, setting, metric)]

    def cell(self, world: str, setting: str, metric: str = "ast_accuracy") -> str:
        """The value with its interval."""
        return interval(*self.row(world, setting, metric)[["value", "ci_low", "ci_high"]])

    def step(self, world: str, pair: tuple[str, str]) -> pd.Series:
        """Of the steps, between two settings."""
        return self.steps.set_index(["world", "a", "b"]).loc[(world, *pair)]

    def published(self, setting: str, metric: str = "ast_accuracy") -> float:
        """NaN where the paper has no such value."""
        return float(self.row(self.worlds[0], setting, metric)["published"])

    def published_step(self, a: str, b: str) -> float:
        """The published difference of two settings; NaN where the paper does not compare them."""
        return self.published(a) - self.published(b) if (a, b) in PAPERS_STEPS else float("nan")


def in_rows(summary: pd.DataFrame) -> pd.DataFrame:
    """As `tables/planner_worlds.csv` has it: world, setting, metric (with p_tool, the share of plans whose APIs are
    right, and p_arguments, the share of right ones among those), value in percent, ci_low, ci_high, n, published."""
    names = ["world", "setting", "metric", "value", "ci_low", "ci_high", "n", "published"]
    return summary.assign(metric=summary["metric"].replace(CALLED))[names]


def table_3(found: WorldsFound) -> Table:
    """A row a world and setting, with the published values."""
    rows = [
        {
            "world": world,
            "setting": NAMES[setting],
            "AST accuracy, ours": found.cell(world, setting),
            "AST accuracy, paper": found.published(setting),
            "answerable": found.row(world, setting, "answerable")["value"],
            "n": int(found.row(world, setting)["n"]),
        }
        for world in found.worlds
        for setting in PLANNED
    ]
    caption = (
        "Table 3 in each world, percent with 95% intervals. Context-tuned RAG has context by a LambdaMART that learned "
        "in that world, as in the paper; *by search*: by semantic search; *tools by our ranker*: by one that learned "
        "from that world's training plans, in the place of cosine. Published values are of the paper's world; "
        "*answerable* (the prompt spells out the answer) has none where no tools are shown."
    )
    return Table(pd.DataFrame(rows), caption, decimals=1)


def parts_table(found: WorldsFound) -> Table:
    """P(tool right) and P(arguments right | tool right), a row a world and setting."""
    rows = [
        {
            "world": world,
            "setting": NAMES[setting],
            "P(tool), ours": found.cell(world, setting, "right_api"),
            "P(tool), paper": found.published(setting, "right_api"),
            "P(arguments | tool), ours": found.cell(world, setting, "arguments"),
            "P(arguments | tool), paper": found.published(setting, "arguments"),
            "plans with the right tool": int(found.row(world, setting, "arguments")["n"]),
        }
        for world in found.worlds
        for setting in PLANNED
    ]
    caption = (
        "AST accuracy as the product of two probabilities, in percent with 95% intervals. The paper prints only the "
        "product; its factors are worked out as said above."
    )
    return Table(pd.DataFrame(rows), caption, decimals=1)


def steps_table(found: WorldsFound) -> Table:
    """What each setting adds to the one below it, and our ranker's tools to cosine's."""
    frame = pd.DataFrame(
        {
            "world": found.steps["world"],
            "setting": found.steps["a"].map(NAMES),
            "against": found.steps["b"].map(NAMES),
            "difference, points": [
                interval(*row) for row in found.steps[["difference", "ci_low", "ci_high"]].to_numpy()
            ],
            "published": [found.published_step(a, b) for a, b in found.steps[["a", "b"]].to_numpy()],
            "p (Holm)": [p_text(p, 3) for p in found.steps["p_holm"]],
            "settled": found.steps["settled"].map({True: "yes", False: "no"}),
            "n": found.steps["n"],
        }
    )
    caption = (
        "AST accuracy of neighbouring settings, and of our ranker's tools against cosine's: paired differences with "
        "95% intervals, p over personas and needs, Holm over the table. n counts the queries that both settings have."
    )
    return Table(frame, caption)


def panels_figure(found: WorldsFound) -> Drawing:
    """AST accuracy of the settings, a panel a world: ours with intervals, P(tool right), published values as marks.
    Where our ranker found the tools, bars are hatched."""
    rows = np.arange(len(PLANNED))[::-1]
    figure, axes = plt.subplots(
        1, len(found.worlds), figsize=(3.2 + 3.3 * len(found.worlds), 5.0), sharey=True, squeeze=False
    )
    for axis, world in zip(axes[0], found.worlds, strict=True):
        ours = pd.DataFrame([found.row(world, setting) for setting in PLANNED])
        tools = [found.row(world, setting, "right_api")["value"] for setting in PLANNED]
        value = ours["value"].to_numpy()
        reach = np.abs(ours[["ci_low", "ci_high"]].to_numpy().T - value)
        paints = [colour(setting.partition("/")[0]) for setting in PLANNED]
        hatches = [HATCH if setting in BY_OURS.values() else "" for setting in PLANNED]
        axis.barh(rows, value, height=0.6, color=paints, hatch=hatches, edgecolor="white", linewidth=0)
        axis.errorbar(value, rows, xerr=reach, fmt="none", ecolor="#333333", capsize=3)
        axis.plot(tools, rows, "D", color="#333333", markersize=5, label="right API (P(tool right))")
        published = [found.published(setting) for setting in PLANNED]
        axis.plot(
            published, rows, "o", markerfacecolor="none", markeredgecolor="#777777", label="published AST accuracy"
        )
        axis.set(yticks=rows, yticklabels=[NAMES[setting] for setting in PLANNED], xlim=(0, 103))
        axis.set_title(f"{world} ({in_words(ours['n'])})", fontsize=11, loc="left")
    axes[0][len(found.worlds) // 2].set_xlabel("percent of queries; bars: AST accuracy with its 95% interval")
    marks, _ = axes[0][0].get_legend_handles_labels()
    ours = Patch(facecolor="#888888", edgecolor="white", hatch=HATCH, linewidth=0, label="tools by our ranker")
    figure.legend(handles=[*marks, ours], loc="upper center", bbox_to_anchor=(0.5, 0.0), ncol=3, fontsize=9)
    said = "; ".join(
        f"{world}: "
        + ", ".join(f"{NAMES[setting]} {number(found.row(world, setting)['value'], 0)}%" for setting in PLANNED)
        for world in found.worlds
    )
    alt = f"AST accuracy of {len(PLANNED)} settings in {len(found.worlds)} worlds, bars. {said}."
    return Drawing(figure, "planner_worlds", finding(found), alt, in_rows(found.summary))


def in_words(n: pd.Series) -> str:
    """How many queries the settings have, in the order of `PLANNED`: the ranker's fewer where it was asked for fewer.

    Args:
        n: a count a setting.
    """
    counts = dict(zip(PLANNED, n.astype(int), strict=True))
    fewer = f", {counts[BY_RANKER]:,} by our ranker" if counts[BY_RANKER] < counts[BARE] else ""
    return f"n = {counts[BARE]:,}{fewer}"


def _listed(worlds: list[str]) -> str:
    return "in " + " and ".join(worlds) if worlds else "in no world"


def _each(found: WorldsFound, setting: str, metric: str = "ast_accuracy") -> str:
    return ", ".join(f"{found.cell(world, setting, metric)}% in {world}" for world in found.worlds)


def _settled(step: pd.Series, up: bool) -> bool:
    """Whether a step is settled, upwards or downwards."""
    return bool(step["settled"] and (step["ci_low"] > 0 if up else step["ci_high"] < 0))


def settled_steps(found: WorldsFound, up: bool) -> dict[str, list[tuple[str, str]]]:
    """The steps of Table 3 that are settled, upwards as published or the other way, by world."""
    return {world: [pair for pair in PAPERS_STEPS if _settled(found.step(world, pair), up)] for world in found.worlds}


def finding(found: WorldsFound) -> str:
    """The figure's title: what the right tool alone gives in each world, and where the published order holds."""
    rising, down = settled_steps(found, up=True), settled_steps(found, up=False)
    of = ", ".join(f"{len(rising[world])} in {world}" for world in found.worlds)
    falls = [
        f"in {world} {NAMES[a]} is below {NAMES[b]} ({interval(*found.step(world, (a, b))[CHANGE])} points)"
        for world in found.worlds
        for a, b in down[world]
    ]
    return (
        f"The right tool without context gives right plans for {_each(found, ORACLE)} of the queries (published: "
        f"{number(found.published(ORACLE), 1)}%). The paper's five settings rise in {len(PAPERS_STEPS)} steps; settled "
        f"are {of}; " + ("; ".join(falls) if falls else "no step down is settled")
    )


def counted(up: int, steps: int, down: Sequence[Sequence[str]]) -> str:
    """How many of the published steps up are settled, and which steps are settled the other way (the upper setting,
    the lower one)."""
    falls = ", ".join(f"{NAMES[a]} below {NAMES[b]}" for a, b in down)
    return f"{up} of {steps} steps up are settled, " + (
        f"settled the other way: {falls}" if falls else "none the other way"
    )


def order_of_settings(found: WorldsFound) -> str:
    """In which worlds the five settings stand in the published order: step by step, settled or not."""
    words = []
    for world in found.worlds:
        up, down = (settled_steps(found, way)[world] for way in (True, False))
        words.append(f"`{world}`: {counted(len(up), len(PAPERS_STEPS), down)}")
    return (
        "The paper's settings rise from no retrieval to the right tool with context. "
        + "; ".join(words)
        + ". A step that is not settled says nothing against the order."
    )


def context_on_the_right_tool(found: WorldsFound) -> str:
    """What context adds where the right tool is given, beside the published difference."""
    published = found.published(UPPER[0]) - found.published(UPPER[1])
    rows = {world: found.step(world, UPPER) for world in found.worlds}
    told = ", ".join(
        f"{interval(*row[['difference', 'ci_low', 'ci_high']])} points in `{world}`" for world, row in rows.items()
    )
    around = [f"`{world}`" for world, row in rows.items() if row["ci_low"] <= published <= row["ci_high"]]
    return (
        f"Context adds to the right tool {told}. The published {number(published, 2)} points lie within the interval "
        f"{_listed(around)}."
    )


def factors(found: WorldsFound) -> str:
    """Whether it is the tool or the arguments that each world's settings want."""
    bare, tuned = "rag", CONTEXT_TUNED
    words = [
        f"`{world}`: the tool is right in {found.cell(world, bare, 'right_api')}% with retrieved tools and "
        f"{found.cell(world, tuned, 'right_api')}% with context, the arguments then in "
        f"{found.cell(world, bare, 'arguments')}% and {found.cell(world, tuned, 'arguments')}%"
        for world in found.worlds
    ]
    paper = ", ".join(number(found.published(setting, "right_api"), 0) for setting in (BARE, bare, tuned))
    return (
        f"If the paper's arguments do not depend on how the tool was found, three of its settings have the "
        f"right tool in {paper}% of the queries (lower bound, RAG, context-tuned RAG). Here: {'; '.join(words)}."
    )


def assumption(found: WorldsFound) -> str:
    """Whether arguments depend on how the tool was found, which the published factors assume they do not."""
    gaps = found.gaps.set_index("world")
    told = ", ".join(f"{interval(*gaps.loc[world])} in `{world}`" for world in found.worlds)
    off = [f"`{name}`" for name, row in gaps.iterrows() if row["ci_low"] > 0 or row["ci_high"] < 0]
    return (
        "That assumption can be looked at here: P(arguments right | tool right) with retrieved tools minus that with "
        f"the right tool given is, in points, {told}. "
        + (
            f"It does not hold {_listed(off)}."
            if off
            else "Nothing here speaks against it, or there are too few plans."
        )
    )


def control(found: WorldsFound, world: str) -> str:
    """Without retrieval a planner can be right only where the request says the arguments, or none are due."""
    spelled = found.row(world, ORACLE, "answerable")["value"]
    row = found.row(world, BARE)
    holds = row["ci_low"] <= spelled
    return (
        f"Control: in `{world}` a request with the right tool spells out the arguments, or needs none, for "
        f"{number(spelled, 1)}% of the queries; all else stands in the persona's items. Without retrieval "
        f"{found.cell(world, BARE)}% are right, "
        + ("no more than that allows." if holds else "more than that allows: something gives the answers away.")
    )


def by_lambdamart(found: WorldsFound) -> str:
    """What context by LambdaMART changes, the paper's method, against context by semantic search."""
    told = _changes(found, (CONTEXT_TUNED, BY_SEARCH))
    return f"Context by LambdaMART instead of search, tools by cosine, changes AST accuracy by {told} points."


def _changes(found: WorldsFound, pair: tuple[str, str]) -> str:
    """The difference of two settings in each world, and whether it is settled."""
    rows = {world: found.step(world, pair) for world in found.worlds}
    return ", ".join(
        f"{interval(*row[['difference', 'ci_low', 'ci_high']])} in `{world}`" + (" (settled)" if row["settled"] else "")
        for world, row in rows.items()
    )


def by_our_ranker(found: WorldsFound) -> str:
    """What tools by the learned ranker change, against tools by cosine with the same context, and where that is
    settled."""
    told = "; ".join(f"{how}, {_changes(found, (BY_OURS[cosine], cosine))}" for cosine, how in BESIDE_TOOLS.items())
    asked = ", ".join(f"{found.step(world, ALL_LEARNED)['n']:,}" for world in found.worlds)
    better, worse = (_where_settled(found, up) for up in (True, False))
    return (
        f"Tools by the learned ranker instead of cosine change AST accuracy by these points: {told} (on {asked} "
        f"queries). Our tools are settled to be better {better}, worse {worse}."
    )


def _where_settled(found: WorldsFound, up: bool) -> str:
    """In which worlds, and beside which context, a change by our ranker's tools is settled, upwards or downwards."""
    where = []
    for cosine, how in BESIDE_TOOLS.items():
        pair = BY_OURS[cosine], cosine
        of = [f"`{world}`" for world in found.worlds if _settled(found.step(world, pair), up)]
        where += [f"{how} in {listed(of)}"] if of else []
    return "; ".join(where) if where else "nowhere"


def answers_shown(found: WorldsFound) -> str:
    """How often the prompt spells out the answer with our ranker's tools and with cosine's, context by LambdaMART, and
    where that makes no more plans right."""
    ours, theirs = ALL_LEARNED
    shown = {
        world: [found.row(world, setting, "answerable")["value"] for setting in (ours, theirs)]
        for world in found.worlds
    }
    told = listed(
        [f"{number(more, 1)} instead of {number(less, 1)}% in `{world}`" for world, (more, less) in shown.items()]
    )
    unused = [
        f"`{world}`"
        for world, (more, less) in shown.items()
        if more > less and not _settled(found.step(world, ALL_LEARNED), up=True)
    ]
    return f"With context by LambdaMART and our ranker's tools the prompt spells out the answer for {told}." + (
        f" That is more, but no settled gain in right plans, in {listed(unused)}: the planner learned from tools that "
        "cosine found."
        if unused
        else ""
    )


def all_learned(found: WorldsFound) -> str:
    """What our ranker's tools come to with the paper's context, and what this context adds to them."""
    adds = _changes(found, (TUNED_BY_RANKER, ALONE_BY_RANKER))
    return (
        "Where all is learned, tools by our ranker and context by LambdaMART, the plan is right for "
        f"{_each(found, TUNED_BY_RANKER)} of the queries; with cosine's tools and that context for "
        f"{_each(found, CONTEXT_TUNED)}; with the right tool and context for {_each(found, UPPER[0])}. Beside our "
        f"ranker's tools that context changes AST accuracy by {adds} points."
    )


def learned_elsewhere(found: WorldsFound, world: str) -> str:
    """How much of each world the planner has met in training.

    Args:
        world: of its training.
    """
    means = 100 * found.told.groupby("world")[["need", "text"]].mean()
    told = "; ".join(
        f"`{name}`: {number(means.loc[name, 'need'], 0)}% are of needs it learned from, "
        f"{number(means.loc[name, 'text'], 0)}% word for word among its training queries"
        for name in found.worlds
    )
    return (
        f"The planner is the one of this page: it learned in the world of notebook 01 ({world}) and nowhere else. Of "
        f"the queries asked, {told}. A low value may be the world's or the distance to what was learned."
    )


def answer(found: WorldsFound) -> str:
    """The worlds' part of what the page found."""
    told = _changes(found, ALL_LEARNED)
    return f"{finding(found)}. Tools by our ranker change context-tuned RAG by {told} points."
