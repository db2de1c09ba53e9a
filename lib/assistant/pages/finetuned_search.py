"""What notebook 04_finetuned_search shows of the rankings; see `finetuned_search_training` for the training and
`finetuned_search_reach` for what training never showed, and for the controls.

`samples` are everywhere those of `samples_of`, `methods` semantic search and, where anything was trained, fine-tuned
search; `retrieval` is the notebook's table of values with intervals, `printed` the published values by (method, metric,
k).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from lib.assistant.pages.common import (
    Scored,
    beside_published_table,
    dots_by_kind,
    intervals,
    shown_cell,
    shown_tests,
    values_by_kind,
    with_published,
)
from lib.assistant.pages.finetuned_search_reach import HELD_OUT
from lib.evaluation.comparison import compare, summarise
from lib.evaluation.inference import holm_adjust, settled
from lib.evaluation.intervals import difference_interval
from lib.retrieval.finetune import Finished
from lib.workbook.cases import case_address
from lib.workbook.display import Drawing, Table, label_lines, legend_below, number, p_text
from lib.workbook.forest import forest_of_tests
from lib.workbook.methods import label

SAMPLES = {
    "all": ("semantic", "finetuned"),
    "cot": ("semantic", "finetuned", "finetuned_subset", "finetuned_cot"),
    "unseen_needs": ("semantic", "finetuned", "finetuned_unseen_needs"),
}
SAMPLE_NAMES = {"cot": "queries with CoT"}  # the needs held out are other ones on other figures: see `paired_figure`
FAMILY = (  # of all queries and of each kind, (finetuned, semantic) comes before these
    ("cot", "finetuned_cot", "finetuned_subset"),
    ("cot", "finetuned_cot", "semantic"),
    ("cot", "finetuned_subset", "semantic"),
    ("cot", "finetuned", "finetuned_subset"),
    ("unseen_needs", "finetuned", "semantic"),
    ("unseen_needs", "finetuned_unseen_needs", "semantic"),
    ("unseen_needs", "finetuned", "finetuned_unseen_needs"),
)
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


def overall_cells(retrieval: pd.DataFrame, k: int) -> pd.DataFrame:
    """Recall at k over all queries, indexed by method."""
    chosen = (retrieval["sample"] == "all") & (retrieval["kind"] == "all") & (retrieval["metric"] == "recall")
    return retrieval[chosen & (retrieval["k"] == k)].set_index("method")


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
    finding = "Nothing was trained"
    if "finetuned" in methods:
        change = {
            kind: cells.loc[("finetuned", kind), "value"] - cells.loc[("semantic", kind), "value"] for kind in counts
        }
        each = ", ".join(
            f"{number(change[kind], 0)} for {kind}"
            for kind in sorted(change, key=lambda kind: change[kind], reverse=True)
        )
        finding = f"Fine-tuning changes Recall@{k}, in points, by {each}"
    data = retrieval[(retrieval["metric"] == "recall") & (retrieval["sample"] == "all")]
    alt = f"Recall at {k} by kind of query: {values_by_kind(cells, methods, counts)}."
    return Drawing(figure, "finetuned_by_kind", finding, alt, data)


def kinds_table(retrieval: pd.DataFrame, methods: Sequence[str], scored: Scored) -> Table:
    """Recall by kind of query at each K."""
    cells = kind_cells(retrieval)
    frame = pd.DataFrame({"kind": list(scored.counts), "n": list(scored.counts.values())})
    for k in scored.cutoffs:
        for method in methods:
            frame[f"@{k}, {label(method)}"] = intervals(cells.loc[(k, method)].loc[list(scored.counts)])
    cases = {
        f"@{k}, {label(method)}": [case_address("queries", kind=kind, method=method, k=k) for kind in scored.counts]
        for k in scored.cutoffs
        for method in methods
    }
    return Table(frame, "Recall@K in percent by kind of query, 95% intervals.", cases=cases)


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
    whom = SAMPLE_NAMES.get(sample, "all evaluation queries")
    n = rows["n"].iloc[0]
    apart = (
        "The last two learned from the queries with CoT, without those about needs held out: compare them with each "
        "other alone. "
        if "finetuned_cot" in set(rows["method"])
        else ""
    )
    caption = f"{whom}, n = {n}; encoder {encoder}. {trained_on}{apart}Paper: GTR-T5-XL on its own data."
    return beside_published_table(rows, metric, caption)._replace(text_columns=["method"])


def tests_of(scored: Scored, samples: Mapping[str, Sample]) -> pd.DataFrame:
    """The paired comparisons for which there are rankings, Holm over all of them.

    Returns:
        columns of `compare`, kind, sample, n; without a row where nothing was trained.
    """
    family = [(kind, "all", "finetuned", "semantic") for kind in ("all", *scored.counts)]
    return paired_tests(scored, samples, [*family, *(("all", *comparison) for comparison in FAMILY)])


def paired_tests(
    scored: Scored, samples: Mapping[str, Sample], family: Iterable[tuple[str, str, str, str]]
) -> pd.DataFrame:
    """Those paired comparisons of Recall at the first K for which a sample has both methods, Holm over all of them.

    Args:
        family: kind of query (or all), sample, and the two methods of each.

    Returns:
        columns of `compare`, kind, sample, n; without a row where nothing was trained.
    """
    parts = []
    for kind, sample, a, b in family:
        if sample in samples and {a, b} <= set(samples[sample].methods):
            chosen = samples[sample].queries & ((scored.kind == kind) | (kind == "all"))
            test = compare(scored.table[chosen], [(a, b)], "recall", scored.k, scored.resampling.among(chosen))
            parts.append(test.assign(kind=kind, sample=sample, n=chosen.sum()))
    if not parts:
        return pd.DataFrame(columns=["a", "b", "difference", "p_value", "p_holm", "kind", "sample", "n"])
    tests = pd.concat(parts, ignore_index=True)
    return tests.assign(p_holm=holm_adjust(tests["p_value"]))


def tests_figure(tests: pd.DataFrame, k: int) -> Drawing:
    """`paired_figure` of this notebook's family, from `tests_of`."""
    return paired_figure(tests, k, "finetuned_search_tests", "first fold of needs held out")


def paired_figure(tests: pd.DataFrame, k: int, name: str, unseen: str) -> Drawing:
    """The paired comparisons and on whom they were made.

    Args:
        tests: from `paired_tests`.
        name: of the figure's file.
        unseen: what the sample unseen_needs is, for readers.
    """
    names = SAMPLE_NAMES | {"unseen_needs": unseen}
    whom = tests["sample"].map(names).where(tests["sample"] != "all", tests["kind"] + " queries")
    rows = shown_tests(tests)["comparison"] + ", " + whom + [f" (n = {n})" for n in tests["n"]]
    unit = f"points of Recall@{k}, 95% intervals; Holm over all {len(tests)}"
    return forest_of_tests(tests.assign(settled=settled(tests)), rows, name, unit)


def gain_in_words(tests: pd.DataFrame, cells: pd.DataFrame, printed: pd.Series, k: int) -> str:
    """What fine-tuning changes over all queries, beside the paper.

    Args:
        tests: from `tests_of`.
        cells: from `overall_cells`.
    """
    main = tests.iloc[0]
    before, after = (number(printed.get((method, "recall", k), np.nan), 1) for method in ("semantic", "finetuned"))
    return (
        f"Over all queries fine-tuning {'raises' if main['difference'] > 0 else 'lowers'} Recall@{k} by "
        f"**{shown_cell(main, 'difference')}** points, from {cells.loc['semantic', 'value']:.1f}% to "
        f"{cells.loc['finetuned', 'value']:.1f}%; among the {len(tests)} comparisons here this is "
        f"{'' if settled(tests).iloc[0] else 'not '}settled (Holm's p {p_text(main['p_holm'])}; the overview "
        "adjusts over all claims of the paper, which asks for more). "
        f"Published, with another encoder on other data: {before}% to {after}%."
    )


def cot_test(tests: pd.DataFrame) -> pd.Series | None:
    """The comparison of the two models that differ in nothing but CoT; None where they could not be compared."""
    found = tests[(tests["a"] == "finetuned_cot") & (tests["b"] == "finetuned_subset")]
    return None if found.empty else found.iloc[0].copy()


def cot_in_words(tests: pd.DataFrame, writer: str, done: Mapping[str, Finished], printed: pd.Series, k: int) -> str:
    """What CoT adds to fine-tuning, beside the paper; empty where the two models could not be compared.

    Args:
        tests: from `tests_of`.
        writer: who wrote the CoT.
        done: {model: record of its training}.
    """
    added = cot_test(tests)
    if added is None:
        return ""
    sure = settled(tests).loc[added.name]
    theirs = printed.get(("finetuned_cot", "recall", k), np.nan) - printed.get(("finetuned", "recall", k), np.nan)
    return (
        f"CoT of the writer “{label(writer)}” changes Recall@{k} of a model trained on the same "
        f"{done['finetuned_cot'].rows:,} pairs by {shown_cell(added, 'difference')} points (n = {added['n']}), which "
        f"{'is' if sure else 'is not'} settled. The paper prints a difference of {number(theirs, 2)} points, "
        "with CoT by GPT-4. Notebook 03 shows what this writer's CoT adds before any fine-tuning, and how many "
        "training queries ask in phrasings that the writer learned from."
    )


def ndcg_rises(scored: Scored, methods: Sequence[str]) -> pd.DataFrame:
    """NDCG at the last K minus that at the first, in percentage points, query by query: columns value, ci_low,
    ci_high and n, indexed by (method, metric)."""
    columns = pd.MultiIndex.from_product([methods, ("ndcg", "ndcg_retrieved")], names=["method", "metric"])
    later, earlier = (
        scored.table[[(*column, k) for column in columns]].to_numpy() for k in (scored.cutoffs[-1], scored.cutoffs[0])
    )
    low, high = difference_interval(later, earlier, scored.resampling)
    rise = later - earlier
    found = {"value": np.nanmean(rise, axis=0), "ci_low": low, "ci_high": high, "n": (~np.isnan(rise)).sum(axis=0)}
    return pd.DataFrame(found, index=columns)


def ndcg_table(rises: pd.DataFrame, methods: Sequence[str], scored: Scored, printed: pd.Series) -> Table:
    """How NDCG changes with K, ours beside published.

    Args:
        rises: from `ndcg_rises`.
    """
    first, last = scored.cutoffs[0], scored.cutoffs[-1]
    theirs = [
        printed.get((method, "ndcg", last), np.nan) - printed.get((method, "ndcg", first), np.nan) for method in methods
    ]
    frame = pd.DataFrame(
        {
            "method": [label(method) for method in methods],
            "standard ideal": [shown_cell(rises.loc[(method, "ndcg")]) for method in methods],
            "retrieved ideal, same queries": [shown_cell(rises.loc[(method, "ndcg_retrieved")]) for method in methods],
            "published": theirs,
        }
    )
    means = scored.table.mean()
    of_means = "; ".join(
        f"{number(means[method, 'ndcg_retrieved', last] - means[method, 'ndcg_retrieved', first], 1)} "
        f"for {label(method)}"
        for method in methods
    )
    return Table(
        frame,
        f"NDCG@{last} minus NDCG@{first}, percentage points with 95% intervals, n = {scored.n}. The retrieved ideal is "
        f"of queries with a hit at K = {first}, the same at both K. A table of means takes those with a hit at each K: "
        f"that changes by {of_means}.",
    )


def ndcg_in_words(rises: pd.DataFrame, methods: Sequence[str]) -> str:
    """Whether NDCG rises or falls with K under the two ideals.

    Args:
        rises: from `ndcg_rises`.
    """
    return (
        f"Under the standard ideal NDCG {_directions(rises, methods, 'ndcg', ' with K')}; under the retrieved ideal, "
        f"over the same queries, it {_directions(rises, methods, 'ndcg_retrieved')}."
    )


def _directions(rises: pd.DataFrame, methods: Sequence[str], metric: str, to: str = "") -> str:
    said = []
    for method in methods:
        low, high = rises.loc[(method, metric), ["ci_low", "ci_high"]]
        way = "rises" if low > 0 else "falls" if high < 0 else "neither clearly rises nor falls"
        said.append(f"{way}{to} for {label(method)}")
    return "; ".join(said)


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
    return Drawing(figure, "learning_curve", _steps(overall, scored), alt, curve)


def _steps(overall: pd.DataFrame, scored: Scored) -> str:
    """What the first pairs of a curve and its last step change, with intervals.

    Args:
        overall: columns method, pairs, by pairs.
    """
    pairs, methods, k = overall["pairs"].tolist(), overall["method"].tolist(), scored.k
    steps = compare(scored.table, [*zip(methods[1:], methods[:-1], strict=True)], "recall", k, scored.resampling)
    said = (
        f"The first {pairs[1]:,} training pairs change Recall@{k} by {shown_cell(steps.iloc[0], 'difference')} points"
    )
    if len(pairs) < 3:
        return said
    return f"{said}, going from {pairs[-2]:,} to {pairs[-1]:,} by {shown_cell(steps.iloc[-1], 'difference')}"


def changes_of(scored: Scored) -> pd.Series:
    """Recall at the smallest K of fine-tuned minus pretrained search, percentage points, by query."""
    table = scored.table
    return (table["finetuned", "recall", scored.k] - table["semantic", "recall", scored.k]).round(6)


def changes_table(change: pd.Series, scored: Scored) -> Table:
    """How many queries of each kind gain and lose.

    Args:
        change: from `changes_of`.
    """
    way = np.select([change.to_numpy() > 0, change.to_numpy() < 0], ["found more", "found less"], "the same")
    counts = pd.crosstab(scored.kind, way).reindex(columns=["found more", "the same", "found less"], fill_value=0)
    return Table(
        counts.rename_axis("kind").reset_index().rename_axis(None, axis=1),
        "Queries by whether fine-tuned search finds more or less of their context in the first "
        f"{scored.k} than pretrained search.",
    )


def extremes_table(
    change: pd.Series,
    asked: pd.DataFrame,
    runs: Mapping[str, pd.DataFrame],
    items: pd.DataFrame,
    k: int,
    seed: int,
) -> Table:
    """Three queries drawn among those that gain most and three among those that lose most; no row where none does.

    Args:
        change: from `changes_of`.
        asked: columns query, text, kind, relevant.
        runs: rankings of semantic and fine-tuned search: columns query, item, rank.
        items: columns item, text.
    """
    rng = np.random.default_rng(seed)
    extremes = {
        "found more": (change == change.max()) & (change > 0),
        "found less": (change == change.min()) & (change < 0),
    }
    text_of, asked = items.set_index("item")["text"], asked.set_index("query")
    top = {name: run[run["rank"] <= k].groupby("query")["item"].apply(list) for name, run in runs.items()}
    rows = []
    for word, chosen in extremes.items():
        for query in rng.permutation(change.index[chosen])[:3]:
            row = asked.loc[query]
            lists = (row["relevant"], top["semantic"][query], top["finetuned"][query])
            found = ["\n".join("• " + text_of[list(names)]) for names in lists]
            rows.append((word, row["kind"], row["text"], *found))
    columns = ["", "kind", "query", "relevant", "pretrained finds", "fine-tuned finds"]
    return Table(
        pd.DataFrame(rows, columns=columns),
        f"First {k} results before and after fine-tuning.",
        text_columns=columns[2:],
    )


def finding(
    cells: pd.DataFrame,
    tests: pd.DataFrame,
    reach: pd.DataFrame,
    done: Mapping[str, Finished],
    printed: pd.Series,
    k: int,
) -> str:
    """What fine-tuning brings, what CoT adds to it, and what is left of it on needs kept out of training.

    Args:
        cells: from `overall_cells`.
        tests: from `tests_of`.
        reach: from `lib.assistant.pages.finetuned_search_reach.gains`.
        done: {model: record of its training}; empty where nothing was trained.
    """
    if not done:
        return "No training query: the encoder was not fine-tuned."
    theirs = [number(printed.get((method, "recall", k), np.nan), 1) for method in ("finetuned", "semantic")]
    after, before = shown_cell(cells.loc["finetuned"]), shown_cell(cells.loc["semantic"])
    said = (
        f"Fine-tuned on {done['finetuned'].rows:,} pairs, semantic search finds **{after}%** of the relevant context "
        f"in its first {k} results, pretrained {before}% (published with a larger encoder on other data: {theirs[0]}% "
        f"and {theirs[1]}%)."
    )
    added = cot_test(tests)
    if added is not None:
        said += (
            f" Of two models trained on the same {done['finetuned_cot'].rows:,} pairs, the one that also reads a small "
            f"writer's CoT lies {shown_cell(added, 'difference')} points from the other: that tests this writer, not "
            "GPT-4's CoT."
        )
    without = reach[reach["on"] == HELD_OUT["without"]]
    if len(without):
        row = without.iloc[0]
        said += f" On needs kept out of training fine-tuning gains {shown_cell(row, 'gain')} points (n = {row['n']})."
    return said
