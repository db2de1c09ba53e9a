"""Tables, figures and sentences of notebook 05_lambdamart_rrf about what ranking one query's context costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.transforms import Bbox

from lib.assistant.pages.common import ranker_name
from lib.assistant.pages.lambdamart_rrf import TableTwo
from lib.assistant.ranking_cost import WITHOUT_TEXT_SCORES, Cost, cost_table, pareto_table, stage_table
from lib.evaluation.comparison import compare, summarise
from lib.workbook.display import Drawing, Table, interval, label_points, set_title
from lib.workbook.methods import METHODS, colour, marker

CHAINS = {"cot": "a zero-shot chain of thought", "cot_distilled": "a distilled one"}
PARETO_K = 5
VARIANT = "#7A3B69", "P"  # colour and marker of a ranker that is in no Table 2


@dataclass(frozen=True)
class Costs:
    """Costs of the methods of Table 2, of variants of the ranker, and of LambdaMART-RRF without the text scores.

    Attributes:
        two: the methods.
        costs: by method.
        variants: the variants' scores on the evaluation queries, as `per_query_scores` returns them.
    """

    two: TableTwo
    costs: Mapping[str, Cost]
    variants: pd.DataFrame

    @cached_property
    def methods(self) -> list[str]:
        """In the order of the page, the variants last."""
        return [*self.two.scored.methods, *self.variants.columns.unique("method")]

    @cached_property
    def summary(self) -> pd.DataFrame:
        """Means with intervals, as `lib.assistant.context_scores.ContextScores.summary`, with those of the variants."""
        scored = self.two.scored
        asked, in_cot = scored.asked, scored.asked.in_cot
        groups = asked.by_kind("all", asked.everyone) | (asked.by_kind("cot", in_cot) if in_cot.any() else {})
        return pd.concat([scored.summary, summarise(self.variants, groups, scored.resampling)], ignore_index=True)

    @property
    def table(self) -> pd.DataFrame:
        """`lib.assistant.ranking_cost.cost_table` of these, the methods in the order of the page."""
        return cost_table({method: self.costs[method] for method in (*self.methods, WITHOUT_TEXT_SCORES)})

    @property
    def of_methods(self) -> pd.DataFrame:
        return self.table[self.table["method"] != WITHOUT_TEXT_SCORES]

    @property
    def medians(self) -> pd.Series:
        """Milliseconds by method, the quickest first."""
        return self.of_methods.set_index("method")["p50_ms"].sort_values()

    @cached_property
    def sample(self) -> str:
        """The queries on which every method is scored: all, or those with chains of thought."""
        return "all" if set(self.two.scored.methods) == set(self.two.scored.complete) else "cot"

    @property
    def k(self) -> int:
        """The cutoff of the Pareto front: `PARETO_K` where it is among the cutoffs, else the first."""
        return PARETO_K if PARETO_K in self.two.scored.cutoffs else self.two.scored.k

    @cached_property
    def pareto(self) -> pd.DataFrame:
        """`lib.assistant.ranking_cost.pareto_table` of the methods, all on the same queries."""
        return pareto_table(self.of_methods, self.recall(self.sample, self.k))

    def recall(self, sample: str, k: int) -> pd.DataFrame:
        """Mean recall of all kinds of query with its interval, by method."""
        rows = self.summary
        here = (rows["sample"] == sample) & (rows["kind"] == "all")
        return rows[here & (rows["metric"] == "recall") & (rows["k"] == k)].set_index("method")

    @property
    def front(self) -> pd.DataFrame:
        """Those on the Pareto front."""
        return self.pareto[self.pareto["on_front"]].reset_index(drop=True)

    @property
    def chains(self) -> dict[str, str]:
        """The methods with chains of thought, as a sentence names them."""
        return {method: words for method, words in CHAINS.items() if method in self.two.scored.methods}


def costs_table(costs: Costs) -> Table:
    two, table = costs.two, costs.of_methods
    recall = costs.recall("all", two.scored.k)
    recall = pd.concat([recall, costs.recall("cot", two.scored.k).drop(index=recall.index, errors="ignore")])
    shown = table.assign(
        method=[two.names.get(method, method) for method in table["method"]],
        timed=[len(costs.costs[method].times) for method in table["method"]],
        recall=[interval(*recall.loc[method, ["value", "ci_low", "ci_high"]]) for method in table["method"]],
    )
    columns = {
        "timed": "queries timed",
        "p50_ms": "median, ms",
        "p95_ms": "95th percentile, ms",
        "tokens_in": "tokens read",
        "tokens_out": "tokens written",
        "recall": f"Recall@{two.scored.k}, %",
    }
    sampled = (
        ""
        if two.scored.asked.in_cot.all()
        else "Recall of methods with CoT is on the CoT sample, of the others on all queries. "
    )
    return Table(
        shown.rename(columns=columns),
        "Cost of ranking one query's context. The fine-tuned encoder has the pretrained one's shape and cost; "
        f"LambdaMART with it encodes a query twice. {sampled}Chains of thought by {two.authors}: their tokens are "
        "means over all evaluation queries, their times those of the queries timed; a chain of one word is quick.",
    )


def stages_table(stages: pd.DataFrame) -> Table:
    """The stages of LambdaMART-RRF, from `lib.assistant.ranking_cost.time_queries`."""
    table = stage_table(stages)
    names = {
        "predict_fused": "prediction by all fused rankers",
        "together": "signals, prediction and fusion together",
    }
    table["stage"] = table["stage"].replace(names)
    return Table(
        table.rename(columns={"p50_ms": "median, ms", "p95_ms": "95th percentile, ms"}),
        f"Stages of LambdaMART-RRF for one query, n = {len(stages)}.",
    )


def pareto_figure(costs: Costs) -> Drawing:
    """Time against recall of every method, the Pareto front as a line."""
    table, front, n = costs.pareto, costs.front, costs.two.scored.samples[costs.sample][0].sum()
    figure, axis = plt.subplots(figsize=(9, 6))
    for row in table.itertuples():
        axis.errorbar(
            row.p50_ms,
            row.recall,
            yerr=[[row.recall - row.ci_low], [row.ci_high - row.recall]],
            marker=_style(row.method)[1],
            linestyle="none",
            color=_style(row.method)[0],
            capsize=3,
            markersize=8,
        )
    axis.plot(front["p50_ms"], front["recall"], color="#999999", linewidth=1.2, zorder=0)
    axis.set(
        xscale="log",
        xlim=(table["p50_ms"].min() / 3, table["p50_ms"].max() * 3),
        xlabel="median time for one query, ms (log scale); grey line: the Pareto front",
        ylabel=f"Recall@{costs.k}, % (bars: 95% interval), n = {n}",
        ylim=(0, 105),
    )
    names = ", ".join(map(ranker_name, front["method"]))
    finding = f"No other method is as quick and finds as much as one of these: {names}"
    set_title(figure, finding)
    points = {ranker_name(row.method): (row.p50_ms, row.recall, _style(row.method)[0]) for row in table.itertuples()}
    bars = [Bbox([[row.p50_ms, row.ci_low], [row.p50_ms, row.ci_high]]) for row in table.itertuples()]
    label_points(axis, points, bars)
    each = "; ".join(f"{ranker_name(row.method)} {row.p50_ms:.2g} ms, {row.recall:.0f}%" for row in table.itertuples())
    alt = f"Recall at {costs.k} against the median time for one query, logarithmic. {each}. The Pareto front: {names}."
    return Drawing(figure, "cost_against_recall", finding, alt, table)


def _style(method: str) -> tuple:
    """A method's colour and marker."""
    return (colour(method), marker(method)) if method in METHODS else VARIANT


def pareto_in_words(costs: Costs) -> str:
    """Which methods lie on the Pareto front, and what the next better one costs at each step."""
    scored = costs.two.scored
    front = costs.front.drop_duplicates(["p50_ms", "recall"], ignore_index=True)  # between equals there is no step
    chosen, _ = scored.samples[costs.sample]
    first = front.iloc[0]
    said = (
        f"On the Pareto front of time and Recall@{costs.k} lie {len(costs.front)} of {len(costs.pareto)} methods (all "
        f"on the same {chosen.sum()} queries), the quickest being {ranker_name(first['method'])} "
        f"({first['p50_ms']:.2g} ms, {first['recall']:.1f}%)."
    )
    steps = list(zip(front["method"][1:], front["method"][:-1], strict=True))
    if not steps:
        return said
    tests = compare(
        scored.scores.join(costs.variants)[chosen], steps, "recall", costs.k, scored.resampling.among(chosen)
    )
    times = front["p50_ms"].to_numpy()
    next_better = "; ".join(
        f"{ranker_name(test.a)} finds {interval(test.difference, test.ci_low, test.ci_high)} points more for "
        f"{after - before:.2g} ms more ({after / before:.1f} times as long)"
        for test, before, after in zip(tests.itertuples(), times, times[1:], strict=False)
    )
    return (
        f"{said} What the next better costs: {next_better}. Where an interval holds 0, that the step finds more is not "
        "shown."
    )


def cost_finding(costs: Costs) -> str:
    """How long LambdaMART-RRF takes, and chains of thought beside it; without a full stop."""
    at = costs.medians
    own = at["lambdamart_rrf"]
    return f"LambdaMART-RRF takes {own:.1f} ms for one query (median, n = {_timed(costs, 'lambdamart_rrf')})" + "".join(
        f", {words} {at[name] / 1000:.1f} s ({at[name] / own:.0f} times as long, n = {_timed(costs, name)})"
        for name, words in costs.chains.items()
    )


def _timed(costs: Costs, method: str) -> int:
    return len(costs.costs[method].times)


def own_work(costs: Costs) -> str:
    """The same without the text scores that LambdaMART-RRF shares with search; empty where no chain was timed."""
    if not costs.chains:
        return ""
    alone = costs.costs[WITHOUT_TEXT_SCORES].times.median()
    return (
        f"{cost_finding(costs)}. Without the text scores that it shares with plain search, its own work (signals, "
        f"prediction, fusion) takes {alone:.1f} ms at the median; a whole search with its chain takes "
        + ", ".join(f"{costs.medians[name] / alone:.0f} times that ({words})" for name, words in costs.chains.items())
        + "."
    )
