"""What several of the assistant's pages show: methods scored on the same queries, beside the published rows, by kind of
query, and compared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from lib.assistant.controls import MARGIN
from lib.assistant.needs import KINDS
from lib.evaluation.comparison import compare
from lib.evaluation.inference import Resampling
from lib.workbook.cases import case_address
from lib.workbook.display import Table, beside_published, interval, label_lines, p_text
from lib.workbook.methods import METHODS, colour, label, marker

METRICS = {"recall": "Recall@K", "ndcg": "NDCG@K (standard ideal)"}
SOURCES = {  # what an item was made for, as `provenance` names it
    "need": "need asked about",
    "unasked": "need not asked about",
    "stale": "gone stale",
    "decoy": "lookalike",
    "background": "background",
}


@dataclass(frozen=True)
class Scored:
    """Methods scored on the same queries, with what tests and figures about them need.

    Attributes:
        table: percent, one row a query and a column for each (method, metric, k); see `per_query_scores`.
        kind: kind of each query.
        cutoffs: values of K.
        resampling: of the queries.
    """

    table: pd.DataFrame
    kind: np.ndarray
    cutoffs: Sequence[int]
    resampling: Resampling

    @property
    def k(self) -> int:
        """The smallest K, which tests and figures by kind are about."""
        return self.cutoffs[0]

    @property
    def n(self) -> int:
        """Number of queries."""
        return len(self.table)

    @property
    def everyone(self) -> np.ndarray:
        """All queries, as a bool array."""
        return np.ones(len(self.table), dtype=bool)

    @property
    def counts(self) -> dict[str, int]:
        """Number of queries of each kind that occurs."""
        return {name: int((self.kind == name).sum()) for name in KINDS if (self.kind == name).any()}

    def groups(self, samples: Mapping[str, np.ndarray]) -> dict[tuple[str, str], np.ndarray]:
        """All queries and those of each kind, of each sample of queries, as `summarise` takes them."""
        return {
            (name, sample): mask & ((self.kind == name) | (name == "all"))
            for sample, mask in samples.items()
            for name in ("all", *self.counts)
        }

    def compare(self, pairs: Sequence[tuple[str, str]], metric: str = "recall") -> pd.DataFrame:
        """`lib.evaluation.comparison.compare` at the smallest K."""
        return compare(self.table, pairs, metric, self.k, self.resampling)


def ranker_name(ranker: str, names: Mapping[str, str] | None = None) -> str:
    """A method's name: the page's own where `names` has one, else the workbook's; a variant of the ranker is named by
    what it is."""
    return named(ranker, names) if ranker in METHODS or ranker in (names or {}) else ranker


def control_rows(controls: pd.DataFrame, recall: str) -> pd.DataFrame:
    """Negative controls as a table shows them, a row each, last whether the control holds.

    Args:
        controls: from `lib.assistant.controls.weigh_controls`.
        recall: name of the column of the control's own recall.
    """
    return pd.DataFrame(
        {
            "control": controls["control"],
            "queries": controls["queries"],
            recall: controls["recall"],
            "compared with": controls["reference"].map(ranker_name),
            "its recall": controls["reference_recall"],
            "difference": intervals(controls, "difference"),
            f"within {MARGIN:g} points": np.where(controls["holds"], "holds", "not shown"),
        }
    )


def named(method: str, names: Mapping[str, str] | None = None) -> str:
    """A method's name for readers: the page's own where `names` has one, else the workbook's."""
    return names[method] if names and method in names else label(method)


def intervals(rows: pd.DataFrame, value: str = "value") -> list[str]:
    """`23.7 [21.2, 26.3]` of each row: columns `value`, ci_low, ci_high."""
    return [interval(*row) for row in rows[[value, "ci_low", "ci_high"]].to_numpy()]


def shown_cell(row: pd.Series, value: str = "value") -> str:
    """`23.7 [21.2, 26.3]` of one row: entries `value`, ci_low, ci_high."""
    return interval(*row[[value, "ci_low", "ci_high"]])


def values_by_kind(
    cells: pd.DataFrame, methods: Sequence[str], kinds: Iterable[str], names: Mapping[str, str] | None = None
) -> str:
    """`habit: BM25T 12%, semantic search 20%; meaning: …`, for alt texts.

    Args:
        cells: column value, indexed by (method, kind).
    """
    return "; ".join(
        f"{kind}: "
        + ", ".join(f"{named(method, names)} {cells.loc[(method, kind), 'value']:.0f}%" for method in methods)
        for kind in kinds
    )


def printed_values(published: pd.DataFrame, both_ideals: bool = True) -> pd.Series:
    """Percent of the paper's Table 2 by (method, metric, k).

    Args:
        published: columns method, metric, k, value: `data/published/context_retrieval.csv`.
        both_ideals: whether its NDCG, whose ideal the paper does not define, stands for `ndcg_retrieved` too.
    """
    values = published.set_index(["method", "metric", "k"])["value"]
    if not both_ideals:
        return values
    retrieved = published[published["metric"] == "ndcg"].assign(metric="ndcg_retrieved")
    return pd.concat([values, retrieved.set_index(["method", "metric", "k"])["value"]])


def with_published(summary: pd.DataFrame, printed: pd.Series, beside: pd.Series | bool = True) -> pd.DataFrame:
    """A summary with the published values in a last column, NaN where the paper has none.

    Args:
        summary: columns method, metric, k and any others.
        printed: from `printed_values`.
        beside: the rows that a published value may stand beside.
    """
    values = printed.reindex(pd.MultiIndex.from_frame(summary[["method", "metric", "k"]])).to_numpy()
    return summary.assign(published=np.where(beside, values, np.nan)).reset_index(drop=True)


def ranking_cases(
    methods: Iterable[str], cutoffs: Iterable[int], column: str = "@{}, ours", **filters: str
) -> dict[str, list[str]]:
    """{column of each K: for each method the address of the queries behind its number}, for a table of the methods.

    Args:
        column: its name, K in the place of the braces.
        filters: see `lib.workbook.cases`.
    """
    rows = list(methods)
    return {
        column.format(k): [case_address("queries", **filters, method=method, k=k) for method in rows] for k in cutoffs
    }


def kind_cases(methods: Iterable[str], kinds: Iterable[str], k: int, **filters: str) -> dict[str, list[str]]:
    """The same for Recall at k by kind of query, a column a kind."""
    rows = list(methods)
    return {
        kind: [case_address("queries", **filters, kind=kind, method=method, k=k) for method in rows] for kind in kinds
    }


def beside_published_table(
    rows: pd.DataFrame, metric: str, caption: str, names: Mapping[str, str] | None = None, starred: bool = True
) -> Table:
    """One metric at each K, our value with its interval and the paper's.

    Args:
        rows: columns method, metric, k, value, ci_low, ci_high, published.
        metric: a key of `METRICS`, whose title opens the caption.
        caption: how it goes on.
        starred: whether the best of ours is marked at each K.
    """
    part = rows[rows["metric"] == metric]
    best = {f"@{k}, ours": "max" for k in part["k"].unique()} if starred else None
    filters = {"sample": "cot"} if set(part.get("sample", ())) == {"cot"} else {}
    return Table(
        beside_published(part, names),
        f"{METRICS[metric]} in percent with 95% intervals, {caption}",
        best=best,
        cases=ranking_cases(part["method"].unique(), part["k"].unique(), **filters),
    )


def shown_tests(
    tests: pd.DataFrame, names: Mapping[str, str] | None = None, difference: str = "difference"
) -> pd.DataFrame:
    """Tests as readers see them: `comparison` (a − b), `method` (a), the difference with its interval (in the column
    that `difference` names), `p`, and the other columns as they are."""
    first, second = (tests[side].map(lambda method: named(method, names)) for side in ("a", "b"))
    return tests.assign(
        comparison=first + " − " + second,
        method=first,
        **{difference: intervals(tests, "difference")},
        p_value=[p_text(p) for p in tests["p_value"]],
    ).rename(columns={"p_value": "p"})


def recall_lines(axis: Axes, rows: pd.DataFrame, methods: Sequence[str], gap: float) -> None:
    """Recall against K with 95% intervals, the published rows dotted, each line named at its end.

    Args:
        rows: columns method, k, value, ci_low, ci_high, published; one row for each method and K.
        gap: smallest vertical distance between two names, percentage points.
    """
    ends = {}
    for method in methods:
        part = rows[rows["method"] == method]
        axis.errorbar(
            part["k"],
            part["value"],
            yerr=[part["value"] - part["ci_low"], part["ci_high"] - part["value"]],
            color=colour(method),
            marker=marker(method),
            capsize=3,
        )
        ends[label(method)] = (part["k"].iloc[-1], part["value"].iloc[-1], colour(method))
        if part["published"].notna().any():
            axis.plot(
                part["k"],
                part["published"],
                color=colour(method),
                linestyle=":",
                marker=marker(method),
                markerfacecolor="white",
            )
            ends[f"{label(method)}, published"] = (part["k"].iloc[-1], part["published"].iloc[-1], colour(method))
    axis.set(xlabel="K", ylabel="Recall@K, % (bars: 95% interval)", xticks=part["k"].tolist(), ylim=(0, None))
    label_lines(axis, ends, gap=gap)


def dots_by_kind(
    axis: Axes,
    cells: pd.DataFrame,
    methods: Sequence[str],
    counts: Mapping[str, int],
    k: int,
    names: Mapping[str, str] | None = None,
    styles: Mapping[str, Mapping] | None = None,
    gap: float = 0.15,
) -> None:
    """Recall of each method in each kind of query, side by side, with 95% intervals.

    Args:
        cells: columns value, ci_low, ci_high, indexed by (method, kind).
        counts: number of queries of each kind, in the order drawn.
        k: the cutoff, for the axis's label.
        styles: {method: options of `errorbar`} that differ from a method's usual ones.
        gap: distance between two methods, in units of the distance between two kinds.
    """
    for position, method in enumerate(methods):
        part = cells.loc[method].reindex(list(counts))
        style = (styles or {}).get(method, {})
        if "fmt" not in style:
            style = {"marker": marker(method), "linestyle": "none", "color": colour(method), **style}
        axis.errorbar(
            np.arange(len(counts)) + (position - (len(methods) - 1) / 2) * gap,
            part["value"],
            yerr=[part["value"] - part["ci_low"], part["ci_high"] - part["value"]],
            label=named(method, names),
            **{"capsize": 3, "markersize": 7, **style},
        )
    axis.set(
        xticks=range(len(counts)),
        xticklabels=[f"{kind}\n(n = {n})" for kind, n in counts.items()],
        ylabel=f"Recall@{k}, % (bars: 95% interval)",
        ylim=(0, None),
    )
