"""What notebook 04_finetuned_search shows.

`samples` are everywhere those of `samples_of`, `methods` semantic search and, where anything was trained, fine-tuned
search; `retrieval` is the notebook's table of values with intervals, `printed` the published values by (method, metric,
k), `done` {model: record of its training}, in the order trained.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from lib.assistant.pages.common import (
    Scored,
    beside_published_table,
    dots_by_kind,
    intervals,
    shown_tests,
    values_by_kind,
    with_published,
)
from lib.evaluation.comparison import compare, summarise
from lib.retrieval.finetune import Finished
from lib.workbook.display import Drawing, Table, label_lines, legend_below
from lib.workbook.methods import label

SAMPLES = {
    "all": ("semantic", "finetuned"),
    "cot": ("semantic", "finetuned", "finetuned_subset", "finetuned_cot"),
    "unseen_needs": ("semantic", "finetuned", "finetuned_unseen_needs"),
}
SAMPLE_NAMES = {"all": "all evaluation queries", "cot": "queries with CoT", "unseen_needs": "needs held out"}
FAMILY = (
    ("all", "finetuned", "semantic"),
    ("cot", "finetuned_cot", "finetuned_subset"),
    ("cot", "finetuned_cot", "semantic"),
    ("cot", "finetuned_subset", "semantic"),
    ("unseen_needs", "finetuned", "semantic"),
    ("unseen_needs", "finetuned_unseen_needs", "semantic"),
)
MODELS = {  # that are no methods
    "half_0": "half of the personas, first",
    "half_1": "half of the personas, second",
    "permuted": "relevant items dealt anew (control)",
}
KIND_STYLES = {
    "all": ("#000000", "o"),
    "meaning": ("#0072B2", "s"),
    "habit": ("#D55E00", "^"),
    "either": ("#009E73", "D"),
}


class Sample(NamedTuple):
    """Some of the evaluation queries (a bool array over all) and the methods that are compared on them."""

    queries: np.ndarray
    methods: list[str]


def samples_of(queries: Mapping[str, np.ndarray], answered: Collection[str]) -> dict[str, Sample]:
    """The samples of `SAMPLES` that hold a query, with their methods that answered.

    Args:
        queries: {name of a sample: bool array over the evaluation queries}.
        answered: methods that have a ranking.
    """
    return {
        name: Sample(queries[name], [method for method in methods if method in answered])
        for name, methods in SAMPLES.items()
        if queries[name].any()
    }


def summary_of(scored: Scored, samples: Mapping[str, Sample]) -> pd.DataFrame:
    """Values with intervals of each sample's methods; by kind of query for all queries alone. See `summarise`."""
    parts = []
    for name, sample in samples.items():
        groups = scored.groups({name: sample.queries})
        if name != "all":
            groups = {("all", name): sample.queries}
        parts.append(summarise(scored.table[sample.methods], groups, scored.resampling))
    return pd.concat(parts)


def published_samples(samples: Mapping[str, Sample]) -> list[str]:
    """The samples set beside the published rows; not all queries where those with CoT are the same ones."""
    same = "cot" in samples and samples["cot"].queries.all()
    return [name for name in samples if name == "cot" or (name == "all" and not same)]


def kind_cells(retrieval: pd.DataFrame) -> pd.DataFrame:
    """Recall over all queries and by kind, indexed by (k, method, kind)."""
    chosen = (retrieval["sample"] == "all") & (retrieval["metric"] == "recall")
    return retrieval[chosen].set_index(["k", "method", "kind"]).sort_index()


def kinds_drawing(retrieval: pd.DataFrame, methods: Sequence[str], scored: Scored) -> Drawing:
    """Recall by kind of query before and after fine-tuning."""
    k, counts = scored.k, scored.counts
    cells = kind_cells(retrieval).loc[k]
    figure, axis = plt.subplots(figsize=(8, 3.8))
    dots_by_kind(axis, cells, methods, counts, k, styles={method: {"markersize": None} for method in methods}, gap=0.16)
    ticks = [f"{kind} (n = {n})" for kind, n in counts.items()]
    axis.set(xticklabels=ticks, xlim=(-0.5, len(counts) - 0.5))
    legend_below(axis, columns=2)
    data = retrieval[(retrieval["metric"] == "recall") & (retrieval["sample"] == "all")]
    alt = f"Recall at {k} by kind of query: {values_by_kind(cells, methods, counts)}."
    return Drawing(figure, "finetuned_by_kind", "Recall before and after fine-tuning", alt, data)


def published_table(
    retrieval: pd.DataFrame,
    sample: str,
    metric: str,
    printed: pd.Series,
    done: Mapping[str, Finished],
    encoder: str,
) -> Table:
    """One metric of a sample's methods, ours beside published.

    Args:
        sample: "all" or "cot".
        done: {model: record of its training}.
    """
    chosen = (retrieval["sample"] == sample) & (retrieval["kind"] == "all") & (retrieval["metric"] == metric)
    rows = with_published(retrieval[chosen], printed)
    counts = [f"{label(method)} {done[method].rows:,}" for method in rows["method"].unique() if method in done]
    trained_on = f"Pairs trained on: {', '.join(counts)}. " if counts else " "
    whom = SAMPLE_NAMES[sample]
    n = rows["n"].iloc[0]
    apart = (
        "The last two learned from the queries with CoT, without those about needs held out: compare them with each "
        "other alone. "
        if "finetuned_cot" in set(rows["method"])
        else ""
    )
    caption = f"{whom}, n = {n}; encoder {encoder}. {trained_on}{apart}Paper: GTR-T5-XL on its own data."
    return beside_published_table(rows, metric, caption)._replace(text_columns=["method"])


def learning_curve(scored: Scored, pairs: Mapping[str, int]) -> pd.DataFrame:
    """Recall at the smallest K by number of training pairs: columns of `summarise`, and pairs.

    Args:
        pairs: that each method of the curve was trained on; 0 for the encoder before fine-tuning.
    """
    scores = scored.table[list(pairs)].xs(scored.k, axis=1, level="k", drop_level=False)
    scores = scores.loc[:, (slice(None), "recall")]
    groups = scored.groups({"all": scored.everyone})
    curve = summarise(scores, groups, scored.resampling)
    return curve.assign(pairs=curve["method"].map(pairs))


def curve_drawing(curve: pd.DataFrame, scored: Scored) -> Drawing:
    """Recall against the number of training pairs, over all queries and by kind.

    Args:
        curve: from `learning_curve`.
    """
    k = scored.k
    figure, axis = plt.subplots(figsize=(8, 4))
    ends = {}
    for kind in ("all", *scored.counts):
        rows, (shade, shape) = curve[curve["kind"] == kind], KIND_STYLES[kind]
        before, part = rows[rows["pairs"] == 0]["value"].iloc[0], rows[rows["pairs"] > 0].sort_values("pairs")
        bars = [part["value"] - part["ci_low"], part["ci_high"] - part["value"]]
        axis.errorbar(part["pairs"], part["value"], yerr=bars, color=shade, marker=shape, capsize=3)
        axis.axhline(before, color=shade, linestyle="--", linewidth=0.8, alpha=0.7)
        name = "all kinds" if kind == "all" else kind
        ends[name] = (part["pairs"].iloc[-1], part["value"].iloc[-1], shade)
    axis.set(
        xscale="log",
        xlabel="training pairs (log scale); dashed: the pretrained encoder",
        ylabel=f"Recall@{k}, % (bars: 95% interval)",
        ylim=(0, None),
    )
    ticks = sorted(set(curve["pairs"]) - {0})
    axis.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    axis.minorticks_off()
    label_lines(axis, ends, gap=0.06 * axis.get_ylim()[1])
    overall = curve[curve["kind"] == "all"].sort_values("pairs")
    each = ", ".join(f"{row.value:.0f}% with {row.pairs:,}" for row in overall.itertuples())
    alt = f"Recall at {k} over all queries against training pairs: {each}."
    return Drawing(figure, "learning_curve", "Recall against the number of training pairs", alt, curve)


def tests_table(scored: Scored, samples: Mapping[str, Sample]) -> Table:
    """The paired comparisons of `FAMILY` for which there are rankings."""
    parts = []
    for name, a, b in FAMILY:
        if name in samples and {a, b} <= set(samples[name].methods):
            chosen = samples[name].queries
            test = compare(scored.table[chosen], [(a, b)], "recall", scored.k, scored.resampling.among(chosen))
            parts.append(test.assign(queries=SAMPLE_NAMES[name]))
    tests = pd.concat(parts, ignore_index=True)
    shown = shown_tests(tests, difference="difference, points")
    columns = ["comparison", "queries", "n", "difference, points", "p"]
    return Table(shown[columns], f"Differences in Recall@{scored.k}, paired by query.")


def models_trained(done: Mapping[str, Finished], sets: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """One row a model: columns model, queries, pairs, tokens, loss (mean of the last tenth of the steps, nats).

    Args:
        sets: {model: the queries it was trained on}.
    """
    rows = []
    for name, record in done.items():
        losses = record.curve["loss"]
        last = losses.tail(max(1, len(losses) // 10)).mean()
        rows.append((name, len(sets[name]), record.rows, record.tokens, last))
    return pd.DataFrame(rows, columns=["model", "queries", "pairs", "tokens", "loss"])


def model_name(model: str) -> str:
    """A trained model's name for readers."""
    if model.startswith("first_"):
        return f"first {model.removeprefix('first_')} queries"
    return MODELS[model] if model in MODELS else label(model)


def controls_table(summary: pd.DataFrame, names: Mapping[str, str], k: int, n: int) -> Table:
    """Recall of the controls.

    Args:
        summary: Recall at k: columns method, value, ci_low, ci_high.
        names: of the rankings for readers, in the order shown.
    """
    rows = summary.set_index("method").loc[list(names)]
    frame = pd.DataFrame({"ranking": list(names.values()), f"Recall@{k}": intervals(rows)})
    return Table(frame, f"Controls: Recall@{k} in percent, 95% intervals, n = {n}.")
