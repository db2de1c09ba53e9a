"""Tables, figure and sentences of notebook 11: WorkBench, and claims asked of both worlds."""

from __future__ import annotations

import itertools

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from lib.assistant.workbench import NEED_LOGS, WorkBench
from lib.evaluation.inference import Resampling
from lib.evaluation.intervals import mean_interval
from lib.workbook.display import Drawing, Table, interval, number
from lib.workbook.markup import plain
from lib.workbook.methods import label

FIGURE = "transfer"
ALT = (
    "Effects of claims in points in this workbook's worlds (across) against the same effects on WorkBench and "
    "Flow-Bench (up), with 95% intervals; on the dashed line both are the same."
)
COLOURS = ["#0072B2", "#E69F00", "#009E73", "#8C6BB1", "#C23B00", "#00785A", "#C0392B", "#7A9E00", "#000000"]
MARKERS = "osD^vP*Xh"
CLUSTERS = {"template": "templates", "family": "families of requests"}
AGREE = ("reproduced", "same direction", "equivalent")


def workbench_words(bench: WorkBench, context: pd.DataFrame) -> str:
    """What there is to find, and what cannot be asked."""
    asked = context["query"].nunique()
    most = bench.relevant["query"].value_counts().max()
    unasked = ", ".join(label(name) for name in NEED_LOGS)
    return (
        f"Of {len(bench.queries)} requests from {bench.queries['template'].nunique()} templates {asked} have an answer "
        f"that names items, up to {most} each, among {len(bench.items):,}; "
        f"{(bench.queries['n_calls'] > 0).sum()} have an answer that calls one of {len(bench.tools)} tools. The data "
        f"have no log of what a user opened: {unasked} cannot be asked."
    )


def scores_table(scores: pd.DataFrame, what: str, cluster: str, rows: list[str]) -> Table:
    """Means with 95% intervals over clusters, a row a method (and sample), a column a metric and cutoff.

    Args:
        scores: long form, columns method, metric, k, value, `cluster` and those of `rows` besides the method.
        what: begins the caption.
    """
    means = scores.groupby([*rows, "metric", "k"], sort=False)[["value", cluster]].apply(_mean, cluster)
    wide = means.reset_index(name="shown")
    wide["column"] = wide["metric"] + "@" + wide["k"].astype(str) + ", %"
    wide = wide.pivot(index=rows, columns="column", values="shown")
    known = list(dict.fromkeys(scores["metric"] + "@" + scores["k"].astype(str) + ", %"))
    frame = wide[known].reindex(list(scores[rows].drop_duplicates().itertuples(index=False, name=None)) if len(rows) > 1
                                else list(dict.fromkeys(scores[rows[0]]))).reset_index()  # fmt: skip
    frame["method"] = frame["method"].map(label)
    return Table(frame, f"{what}, with 95% intervals over {CLUSTERS[cluster]}.")


def _mean(group: pd.DataFrame, cluster: str) -> str:
    values = group["value"].to_numpy()
    low, high = mean_interval(values, Resampling([group[cluster]]))
    return interval(values.mean(), float(low), float(high), 1)


def transfer_table(transfer: pd.DataFrame) -> Table:
    """Each claim here and there, at its first cutoff: of several methods each side's weakest, by its name."""
    transfer = transfer.drop_duplicates("claim")
    named = zip(*([label(name) for name in transfer[f"{side}_method"]] for side in ("here", "there")), strict=True)
    frame = pd.DataFrame(
        {
            "claim": [plain(text) for text in transfer["statement"]],
            "method": [here if here == there else f"{here} here, {there} there" for here, there in named],
            "K": transfer["k"],
            **{
                f"{side}{what}": values
                for side, name in (("here", "here"), ("there", "there"))
                for what, values in (
                    ("", [_effect(row, name) for row in transfer.to_dict("records")]),
                    (": verdict", transfer[f"{name}_verdict"]),
                )
            },
            "n here, there": [f"{a:,}, {b:,}" for a, b in transfer[["here_n", "there_n"]].to_numpy()],
            "tests here, there": [f"{a}, {b}" for a, b in transfer[["here_tests", "there_tests"]].to_numpy()],
        }
    )
    caption = (
        "Effects here and there with 95% intervals (points; percent below a level, fold for ratios) and each world's "
        "verdict, at the first K; all K are in the figure and in tables/transfer.csv. Of a claim about several "
        "methods, each side's weakest. Verdicts here judge against the claim's margin, with Holm over the number of "
        "tests named, so that one may differ from the index, which judges against published effects, and from the "
        "comparisons above."
    )
    return Table(frame, caption)


def _effect(row: dict, side: str) -> str:
    digits = 2 if row["unit"] == "fold" else 1
    return interval(row[f"{side}_effect"], row[f"{side}_ci_low"], row[f"{side}_ci_high"], digits)


def order_table(orders: pd.DataFrame, methods: dict[str, list[str]]) -> Table:
    """Kendall's tau of the methods' order by family."""
    frame = pd.DataFrame(
        {
            "order of": orders["family"],
            "methods": [", ".join(label(name) for name in methods.get(key, [])) for key in orders["family"]],
            "pairs": orders["pairs"],
            "Kendall's tau": [
                interval(tau, low, high, 2) for tau, low, high in orders[["tau", "ci_low", "ci_high"]].to_numpy()
            ],
        }
    )
    caption = (
        "Agreement of the methods' order here and there, floors and oracles among them; 95% intervals by bootstrap "
        "over clusters of queries on both sides."
    )
    return Table(frame, caption)


def transfer_drawing(transfer: pd.DataFrame, orders: pd.DataFrame) -> Drawing:
    """Effect here against effect there, of the claims in points."""
    drawn = transfer[transfer["unit"] == "points"]
    figure, axis = plt.subplots(figsize=(8.5, 5.5))
    styles = zip(COLOURS, MARKERS, strict=True)
    for (colour, marker), (name, rows) in zip(
        itertools.cycle(styles), drawn.groupby("claim", sort=False), strict=False
    ):
        axis.errorbar(
            rows["here_effect"],
            rows["there_effect"],
            xerr=_bars(rows, "here"),
            yerr=_bars(rows, "there"),
            color=colour,
            fmt=marker,
            label=str(name).replace("_", " "),
        )
    axis.axline((0, 0), slope=1, color="#777777", linestyle="--", linewidth=1)
    axis.axhline(0, color="#777777", linewidth=0.8)
    axis.axvline(0, color="#777777", linewidth=0.8)
    axis.set(xlabel="effect in this workbook's worlds, points", ylabel="effect on others' data, points")
    axis.legend(loc="upper left", bbox_to_anchor=(1.01, 1), title="claim, each K a point")
    return Drawing(figure, FIGURE, finding(transfer, orders).rstrip("."), ALT, transfer)


def _bars(rows: pd.DataFrame, side: str) -> np.ndarray:
    """How far intervals reach below and above their effects, as matplotlib takes it."""
    ends = rows[[f"{side}_effect", f"{side}_ci_low", f"{side}_ci_high"]].to_numpy(dtype=float)
    return np.array([ends[:, 0] - ends[:, 1], ends[:, 2] - ends[:, 0]])


def directions(transfer: pd.DataFrame) -> tuple[int, int]:
    """Of the claims in points, at every K: how many effects have the same sign, and how many there are."""
    drawn = transfer[transfer["unit"] == "points"]
    return int((drawn["here_effect"] * drawn["there_effect"] > 0).sum()), len(drawn)


def finding(transfer: pd.DataFrame, orders: pd.DataFrame) -> str:
    """For the figure, the top of the page and the index."""
    same, of = directions(transfer)
    row = orders.iloc[-1]
    here = transfer.loc[transfer["here_verdict"] == "reproduced", "there_verdict"]
    held, turned = ((here == verdict).sum() for verdict in ("reproduced", "contradicted"))
    return (
        f"Of {len(here)} claims that are reproduced here (each K counts) others' data reproduce {held} and contradict "
        f"{turned}; the rest is open there. {same} of {of} effects point the same way; order of methods: tau "
        f"{interval(row['tau'], row['ci_low'], row['ci_high'], 2)}."
    )


def turned_words(transfer: pd.DataFrame) -> str:
    """The claims that hold here and not there, or the other way round, by the verdicts."""
    settled = {"reproduced": 1, "contradicted": -1}
    turned = transfer[transfer["here_verdict"].map(settled) * transfer["there_verdict"].map(settled) < 0]
    if turned.empty:
        return "No claim is reproduced on one side and contradicted on the other."
    parts = [
        f"“{plain(row['statement'].rstrip('.'))}” at {row['k']} "
        f"({_effect(row, 'here')} here, {_effect(row, 'there')} there)"
        for row in turned.to_dict("records")
    ]
    return f"Reproduced on one side and contradicted on the other: {'; '.join(parts)}."


def explained_words(bench: WorkBench, runs: dict[str, pd.DataFrame]) -> str:
    """A request that one search answers with the first item and another misses, and how far down that one finds it."""
    ranks = {
        name: runs[name].merge(bench.relevant, on=["query", "item"]).groupby("query")["rank"].min()
        for name in ("bm25t", "semantic")
    }
    table = pd.DataFrame(ranks).dropna()
    ahead = "bm25t" if (table["bm25t"] < table["semantic"]).sum() * 2 >= len(table) else "semantic"
    behind = "semantic" if ahead == "bm25t" else "bm25t"
    best = table[table[ahead] == table[ahead].min()]
    query = best[behind].idxmax()
    text = bench.queries.set_index("query").loc[query, "text"]
    title = bench.items.set_index("item").loc[bench.relevant.set_index("query")["item"].loc[[query]].iloc[0], "title"]
    wins = (table[ahead] < table[behind]).sum()
    return (
        f"{label(ahead)} has its first relevant item higher than {label(behind)} for {wins} of {len(table)} requests. "
        f"Where they differ most, “{plain(text)}” asks for “{plain(title)}”: place {number(best.loc[query, ahead], 0)} "
        f"by {label(ahead)}, {number(best.loc[query, behind], 0)} by {label(behind)}."
    )
