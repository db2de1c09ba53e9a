"""Tables, figures and sentences of notebook 05_lambdamart_rrf about what ranking one query's context costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import matplotlib.pyplot as plt
import pandas as pd

from lib.assistant.pages.lambdamart_rrf import TableTwo
from lib.assistant.ranking_cost import WITHOUT_TEXT_SCORES, Cost, cost_table, stage_table
from lib.workbook.display import Drawing, Table, label_lines
from lib.workbook.methods import colour, label, marker

CHAINS = {"cot": "a zero-shot chain of thought", "cot_distilled": "a distilled one"}
FAR_APART = 10  # times: names of methods nearer than this in time stand in one column


@dataclass(frozen=True)
class Costs:
    """Costs of the methods of Table 2, by method, and of LambdaMART-RRF without the text scores."""

    two: TableTwo
    costs: Mapping[str, Cost]

    @property
    def table(self) -> pd.DataFrame:
        """`lib.assistant.ranking_cost.cost_table` of these, the methods in the order of the page."""
        return cost_table({method: self.costs[method] for method in (*self.two.scored.methods, WITHOUT_TEXT_SCORES)})

    @property
    def of_methods(self) -> pd.DataFrame:
        return self.table[self.table["method"] != WITHOUT_TEXT_SCORES]

    @property
    def medians(self) -> pd.Series:
        """Milliseconds by method, the quickest first."""
        return self.of_methods.set_index("method")["p50_ms"].sort_values()

    @property
    def front(self) -> list[str]:
        """The methods that find more than every quicker one, the quickest first: the Pareto front."""
        at, front = self.medians, list[str]()
        for method in sorted(at.index, key=lambda name: (at[name], -self.two.value(name))):
            if not front or self.two.value(method) > self.two.value(front[-1]):
                front.append(method)
        return front

    @property
    def chains(self) -> dict[str, str]:
        """The methods with chains of thought, as a sentence names them."""
        return {method: words for method, words in CHAINS.items() if method in self.two.scored.methods}


def costs_table(costs: Costs) -> Table:
    two, table = costs.two, costs.of_methods
    shown = table.assign(
        method=table["method"].map(two.names),
        timed=[len(costs.costs[method].times) for method in table["method"]],
        recall=[two.interval(method) for method in table["method"]],
    )
    columns = {
        "timed": "queries timed",
        "p50_ms": "median, ms",
        "p95_ms": "95th percentile, ms",
        "tokens_in": "tokens read",
        "tokens_out": "tokens written",
        "recall": f"Recall@{two.scored.k}, %",
    }
    return Table(
        shown.rename(columns=columns),
        "Cost of ranking one query's context. The fine-tuned encoder has the pretrained one's shape and cost. Recall "
        "of methods with CoT is on the CoT sample, of the others on all queries, so that no best is marked. Chains of "
        f"thought by {two.authors}.",
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


def cost_figure(costs: Costs) -> Drawing:
    two, table, at = costs.two, costs.of_methods, costs.medians
    figure, axis = plt.subplots(figsize=(8.5, 4.6))
    for row in table.itertuples():
        point = two.scored.mean(row.method)
        axis.errorbar(
            row.p50_ms,
            point["value"],
            yerr=[[point["value"] - point["ci_low"]], [point["ci_high"] - point["value"]]],
            marker=marker(row.method),
            linestyle="none",
            color=colour(row.method),
            capsize=3,
            markersize=8,
        )
    front = costs.front
    axis.plot(at[front], [two.value(method) for method in front], color="#999999", linewidth=1, zorder=0)
    axis.set(
        xscale="log",
        xlabel="median time for one query, ms (log scale); grey line: what nothing quicker beats",
        ylabel=f"Recall@{two.scored.k}, % (bars: 95% interval)",
        ylim=(0, 100),
    )
    for _, near in at.groupby((at > FAR_APART * at.shift()).cumsum()):
        ends = {label(method): (near.max(), two.value(method), colour(method)) for method in near.index}
        label_lines(axis, ends, gap=4.5)  # right of the slowest of them
    return Drawing(
        figure,
        "cost_against_recall",
        cost_finding(costs),
        f"Recall at {two.scored.k} against the median time for one query, logarithmic. "
        + "; ".join(
            f"{label(row.method)} {row.p50_ms:.2g} ms, {two.value(row.method):.0f}%" for row in table.itertuples()
        )
        + f". The line joins those that nothing quicker beats: {', '.join(map(label, front))}.",
        table.assign(recall=[two.value(method) for method in table["method"]]),
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
        f"prediction, fusion) takes {alone:.1f} ms at the median: "
        + ", ".join(
            f"{words} takes {costs.medians[name] / alone:.0f} times as long" for name, words in costs.chains.items()
        )
        + "."
    )
