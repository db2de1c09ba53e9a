"""What notebook 02_context_baselines shows of its own rankings; see `context_forensics` for the published table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from lib.assistant.pages.common import (
    SOURCES,
    Scored,
    capitalised,
    dots_by_kind,
    intervals,
    kind_cases,
    recall_lines,
    shown_cell,
    shown_tests,
    values_by_kind,
)
from lib.evaluation.coverage import STRICT, latent_shares
from lib.evaluation.inference import settled
from lib.retrieval.stores import relevant_pairs_mask
from lib.workbook.display import Drawing, Table, legend_below, number
from lib.workbook.forest import forest_of_tests
from lib.workbook.methods import label

TEXT_METHODS = ("bm25t", "semantic")
DRAWN = ("random", "recency", *TEXT_METHODS)
COVERING = {"two_way": "two-way", "crossed": "crossed bootstrap", "personas": "personas alone"}  # intervals
FAMILY = (
    ("semantic", "bm25t"),
    ("semantic", "random"),
    ("semantic", "recency"),
    ("bm25t", "random"),
    ("bm25t", "recency"),
    ("recency", "random"),
    ("bm25t", "bm25t_per_store"),
)


def what_is_searched(queries: pd.DataFrame, per_query: pd.Series) -> str:
    """How many queries meet how many items.

    Args:
        queries: column persona.
        per_query: number of candidates of each query.
    """
    return (
        f"{len(queries)} evaluation queries of {queries['persona'].nunique()} personas, each against the "
        f"{per_query.mean():.1f} items its persona holds on average ({per_query.min()} to {per_query.max()}): "
        f"{per_query.sum():,} candidate pairs."
    )


def with_expected_random(table: pd.DataFrame, floor: pd.DataFrame) -> pd.DataFrame:
    """Scores whose one shuffle is replaced by what a random order scores on average; columns in their order.

    Args:
        table: from `per_query_scores`, with a method `random`.
        floor: from `random_order_scores`, rows in the same order.
    """
    methods = table.columns.get_level_values("method").unique().tolist()
    return table.drop(columns="random", level="method").join(floor.set_index(table.index))[methods]


def over_all_queries(retrieval: pd.DataFrame) -> pd.DataFrame:
    """The rows about all queries."""
    return retrieval[(retrieval["kind"] == "all") & (retrieval["sample"] == "all")]


def cells_of(retrieval: pd.DataFrame) -> pd.DataFrame:
    """The rows about all queries, indexed by (method, metric, k)."""
    return over_all_queries(retrieval).set_index(["method", "metric", "k"]).sort_index()


def recall_by_kind(retrieval: pd.DataFrame, k: int) -> pd.DataFrame:
    """The rows about one kind of query each: Recall at k."""
    chosen = (retrieval["sample"] == "all") & (retrieval["kind"] != "all")
    return retrieval[chosen & (retrieval["metric"] == "recall") & (retrieval["k"] == k)]


def better_of_the_two(cells: pd.DataFrame, k: int, n_items: float) -> str:
    """What the better text method finds, beside the other floor and methods.

    Args:
        cells: from `cells_of`.
        n_items: items a query is searched among, on average.
    """
    recall = cells.xs("recall", level="metric").xs(k, level="k")
    best = max(TEXT_METHODS, key=lambda method: recall.loc[method, "value"])
    other = recall["value"].map("{:.1f}%".format)
    return (
        f"The better of the two, {label(best)}, finds **{shown_cell(recall.loc[best])}%** of the relevant items among "
        f"the first {k} of {n_items:.1f}; BM25T finds {other['bm25t']}, a random order {other['random']} and the most "
        f"recent items {other['recency']}."
    )


def recall_drawing(retrieval: pd.DataFrame, k: int) -> Drawing:
    """Recall against K of the floors and the two methods."""
    rows = over_all_queries(retrieval)
    rows = rows[rows["metric"] == "recall"]
    figure, axis = plt.subplots(figsize=(8, 4.2))
    recall_lines(axis, rows, DRAWN, gap=4.5)
    percent = rows.set_index(["method", "k"])["value"].map("{:.0f}%".format)
    finding = (
        f"Semantic search finds {percent['semantic', k]} of the context in its first {k} results, "
        f"BM25T {percent['bm25t', k]}, chance {percent['random', k]}"
    )
    each = "; ".join(
        f"{label(method)}: " + ", ".join(f"{value} at {at}" for at, value in percent[method].items())
        for method in DRAWN
    )
    alt = f"Recall against K with 95% intervals. {each}. Dotted: the published rows."
    data = over_all_queries(retrieval)
    data = data[data["metric"] == "recall"].drop(columns="metric").set_index(["method", "k"]).reset_index()
    return Drawing(figure, "recall_baselines", finding, alt, data)


def tests_figure(tests: pd.DataFrame, k: int, n: int) -> Drawing:
    """The paired comparisons of `FAMILY`."""
    rows = shown_tests(tests)["comparison"]
    unit = f"points of Recall@{k}, 95% intervals, n = {n}"
    return forest_of_tests(tests.assign(settled=settled(tests)), rows, "context_baselines_tests", unit)


def shares_in_words(scores: pd.DataFrame, clusters: Sequence[np.ndarray], k: int) -> str:
    """How much of each text method's latent variance needs and personas hold.

    Args:
        scores: Recall@k of each query, percent; a column for each method.
        clusters: a persona's and a need's label for each query.
    """
    held = []
    for method in TEXT_METHODS:
        persona, need = latent_shares(scores[method].to_numpy(), clusters)
        held.append(f"{100 * need:.0f}% for {label(method)} (who asks: {100 * persona:.0f}%)")
    return (
        f"Which need is asked about explains of the variation in Recall@{k}, as a method of moments estimates it, "
        f"{' and '.join(held)}. So the {len(np.unique(clusters[1]))} needs decide how wide intervals are, more than n."
    )


def coverage_table(found: pd.DataFrame) -> Table:
    """How often intervals cover a known truth.

    Args:
        found: of `lib.evaluation.coverage.coverage_table`.
    """
    frame = pd.DataFrame({
        "queries": [f"{name} ({n})" for name, n in zip(found["sample"], found["n"], strict=True)],
        "true rate, difference or ratio": [_truth(*row) for row in found[["rates", "ratio", "truth"]].to_numpy()],
    })  # fmt: skip
    frame["personas, %"], frame["needs, %"] = 100 * found["persona"], 100 * found["need"]
    frame["likeness, %"] = (100 * found["likeness"]).where(found["rates"].str.len() > 1)
    for name, words in COVERING.items():
        frame[f"{words} covers, %"] = found[name]
        frame[f"{words}: width"] = found[f"{name}_width"] * np.where(found["ratio"], 100 / found["truth"], 1)
    frame[f"p ≤ {STRICT:g}, %"] = found["strict"]
    replicates = found["replicates"].iloc[0]
    error = 100 * (0.95 * 0.05 / replicates) ** 0.5
    return Table(
        frame,
        "Simulated answers, right or wrong, to the queries of the same personas about the same needs as here: how "
        "often 95% intervals cover the true rate (or the difference or ratio of two methods' rates) in percent, and "
        "their mean width in points (of a ratio, in percent of it). Personas and needs have the given shares of the "
        "variance; likeness is the correlation of what makes the two methods right. Last, how often the two-way "
        f"p-value against the truth is at most {STRICT:g}, the first of Holm's levels for twenty tests. In brackets "
        f"the number of queries; {replicates:,} worlds a row, so that a coverage of 95% has a standard error of "
        f"{error:.1f}.",
        decimals=1,
    )


def _truth(rates: Sequence[float], ratio: bool, truth: float) -> str:
    if len(rates) == 1:
        return f"{truth:g}"
    return f"{(' / ' if ratio else ' − ').join(f'{rate:g}' for rate in rates)} = {truth:.3g}"


def coverage_in_words(found: pd.DataFrame) -> str:
    """What `coverage_table` shows."""
    covers = {
        name: f"{number(found[name].min(), 1)} to {number(found[name].max(), 1)}%"
        for name in ("two_way", "crossed", "personas", "strict")
    }
    wider = found["crossed_width"] / found["two_way_width"]
    return (
        f"Intervals that shall cover 95% cover {covers['two_way']} of these worlds, whether needs matter little or "
        f"decide almost everything. The crossed bootstrap's, which resample personas and needs at once, cover "
        f"{covers['crossed']} and are {number(wider.min(), 1)} to {number(wider.max(), 1)} times as wide. Intervals "
        f"over personas alone, which take the needs as given, cover {covers['personas']}: a test that exchanges the "
        "answers of whole personas errs as often as these miss. So p-values come from the two-way intervals: they are "
        f"at most {STRICT:g} by chance in {covers['strict']} of the worlds."
    )


def kinds_drawing(rows: pd.DataFrame, scored: Scored) -> Drawing:
    """Recall by kind of query of the floors and the two methods.

    Args:
        rows: from `recall_by_kind`.
    """
    cells, k = rows.set_index(["method", "kind"]), scored.k
    figure, axis = plt.subplots(figsize=(8, 3.8))
    dots_by_kind(axis, cells, DRAWN, scored.counts, k)
    legend_below(axis, columns=len(DRAWN))
    found = [
        f"{cells.loc[('semantic', kind), 'value']:.0f}% of the context of {kind} queries" for kind in scored.counts
    ]
    alt = f"Recall at {k} by kind of query with 95% intervals. {values_by_kind(cells, DRAWN, scored.counts)}"
    return Drawing(figure, "recall_by_kind", f"Semantic search finds {', '.join(found)}", alt, rows)


def kinds_table(rows: pd.DataFrame, scored: Scored) -> Table:
    """Recall by kind of query of all methods.

    Args:
        rows: from `recall_by_kind`.
    """
    methods = scored.table.columns.get_level_values("method").unique()
    shown = rows.assign(recall=intervals(rows)).pivot(index="method", columns="kind", values="recall")
    return Table(
        shown.loc[methods, list(scored.counts)].rename(index=label).rename_axis("method").reset_index(),
        f"Recall@{scored.k} in percent by kind of query, 95% intervals.",
        best=dict.fromkeys(scored.counts, "max"),
        cases=kind_cases(methods, scored.counts, scored.k),
    )


def chance_table(tests: pd.DataFrame, k: int) -> Table:
    """Each text method against a random order, by kind of query.

    Args:
        tests: from `Scored.compare_by_kind`.
    """
    difference = "points above random"
    return Table(
        shown_tests(tests, difference=difference)[["kind", "method", difference, "p", "p, Holm"]],
        f"Recall@{k} above the random order, percentage points with 95% intervals.",
        decimals=4,
    )


def who_beats_chance(tests: pd.DataFrame) -> str:
    """For which kinds of query each text method is settled to be above a random order."""
    above = tests[settled(tests) & (tests["difference"] > 0)]
    kinds = {method: " and ".join(above["kind"][above["a"] == method]) or "no kind of" for method in TEXT_METHODS}
    return " ".join(
        f"{capitalised(label(method))} beats chance for {names} queries." for method, names in kinds.items()
    )


def apps_table(runs: Mapping[str, pd.DataFrame], qrels: pd.DataFrame, items: pd.DataFrame, k: int) -> Table:
    """The share of relevant items that each method finds, by the app that holds them.

    Args:
        runs: ranking of each method: columns query, item, rank.
        qrels: columns query, item, one row a relevant item.
        items: columns item, app.
    """
    app = qrels["item"].map(items.set_index("item")["app"])
    found = {
        label(method): pd.Series(relevant_pairs_mask(qrels, run[run["rank"] <= k]), index=qrels.index)
        .groupby(app)
        .mean()
        * 100
        for method, run in runs.items()
    }
    frame = pd.DataFrame(found)
    frame.insert(0, "relevant items", app.value_counts())
    return Table(
        frame.sort_values("relevant items", ascending=False).rename_axis("app").reset_index(),
        f"Share of relevant items among the first {k}, percent, by the app that holds them. Random order: one shuffle.",
        decimals=1,
    )


def wrong_firsts_table(
    runs: Mapping[str, pd.DataFrame], qrels: pd.DataFrame, items: pd.DataFrame, provenance: pd.DataFrame
) -> Table:
    """What the wrong first results of each method were made for.

    Args:
        runs, qrels, items: as for `apps_table`.
        provenance: columns item, source.
    """
    source = provenance.set_index("item")["source"].map(SOURCES)
    first = pd.concat([run[run["rank"] == 1].assign(method=method) for method, run in runs.items()], ignore_index=True)
    wrong = first[~relevant_pairs_mask(first, qrels)]
    shares = pd.crosstab(wrong["method"], wrong["item"].map(source), normalize="index").mul(100)
    shares = shares.reindex(list(runs)).rename(index=label)
    shares.loc["all items"] = items["item"].map(source).value_counts(normalize=True).mul(100)
    return Table(
        shares.rename_axis("method").reset_index(),
        "What a wrong first result was, percent of wrong first results; last row: share of all items. "
        "Random order: one shuffle.",
        decimals=1,
    )


def failures_table(
    asked: pd.DataFrame, run: pd.DataFrame, recall: pd.Series, items: pd.DataFrame, k: int, seed: int
) -> Table:
    """Two queries of each kind, drawn at random, whose first k results of semantic search hold nothing relevant.

    Args:
        asked: columns query, text, kind, need, relevant; one row a query.
        run: columns query, item, rank.
        recall: Recall at k, in the order of `asked`.
        items: columns item, text.
    """
    missed = asked[(recall == 0).to_numpy()]
    drawn = missed.groupby("kind", group_keys=False, observed=True).sample(2, random_state=seed, replace=True)
    drawn = drawn.drop_duplicates("query")
    text_of = items.set_index("item")["text"]
    top = run[run["rank"] <= k].groupby("query")["item"].apply(list)
    frame = pd.DataFrame(
        {
            "kind": drawn["kind"],
            "need": drawn["need"].str.replace("_", " "),
            "query": drawn["text"],
            "relevant": [_bullets(text_of[list(relevant)]) for relevant in drawn["relevant"]],
            "found instead": [_bullets(text_of[top[query]]) for query in drawn["query"]],
        }
    )
    return Table(
        frame,
        f"Queries whose first {k} results of semantic search hold nothing relevant.",
        text_columns=["need", "query", "relevant", "found instead"],
    )


def _bullets(texts: Sequence[str]) -> str:
    return "\n".join(f"• {text}" for text in texts)


def ndcg_table(cells: pd.DataFrame, scored: Scored) -> Table:
    """NDCG of the text methods under three definitions.

    Args:
        cells: from `cells_of`.
    """
    rows = []
    for method in TEXT_METHODS:
        for k in scored.cutoffs:
            retrieved = cells.loc[(method, "ndcg_retrieved", k)]
            rows.append(
                {
                    "method": label(method),
                    "K": k,
                    "standard": shown_cell(cells.loc[(method, "ndcg", k)]),
                    "retrieved ideal, no-hit left out": shown_cell(retrieved),
                    "queries with a hit": int(retrieved["n"]),
                    "retrieved ideal, no-hit 0": scored.table[method, "ndcg_retrieved", k].fillna(0).mean(),
                    "published": retrieved["published"],
                }
            )
    return Table(
        pd.DataFrame(rows),
        f"NDCG@K in percent under three definitions, 95% intervals; n = {scored.n} for the first and the last "
        "definition.",
        decimals=1,
    )


def finding(cells: pd.DataFrame, by_kind: pd.DataFrame, chance: pd.DataFrame, k: int) -> str:
    """How much of the context the methods and floors find, and for which kind of query semantic search finds least.

    Args:
        cells: from `cells_of`.
        by_kind: from `recall_by_kind`.
        chance: tests against a random order, from `Scored.compare_by_kind`.
    """
    recall = cells.xs("recall", level="metric").xs(k, level="k")
    semantic = by_kind[by_kind["method"] == "semantic"].set_index("kind")
    lowest = semantic["value"].idxmin()
    floors = by_kind[by_kind["kind"] == lowest].set_index("method")["value"]
    above = chance[settled(chance) & (chance["difference"] > 0) & (chance["a"] == "semantic")]
    beyond = "" if lowest in set(above["kind"]) else "not "
    return (
        f"Pretrained semantic search finds **{shown_cell(recall.loc['semantic'])}%** of the relevant context in its "
        f"first {k} results{_published(recall.loc['semantic'], ' with a larger encoder on other data')}, "
        f"BM25T **{shown_cell(recall.loc['bm25t'])}%**{_published(recall.loc['bm25t'])}, "
        f"the most recently opened items {recall.loc['recency', 'value']:.1f}%, a random order "
        f"{recall.loc['random', 'value']:.1f}%. "
        f"Worst for {lowest} queries (n = {semantic.loc[lowest, 'n']:.0f}): semantic search "
        f"{shown_cell(semantic.loc[lowest])}%, {beyond}settledly above a random order ({floors['random']:.1f}%); the "
        f"most recently opened items {floors['recency']:.1f}%."
    )


def _published(row: pd.Series, where: str = "") -> str:
    """The published value in brackets; empty where the paper has none at this K."""
    return f" (published {row['published']:.1f}%{where})" if row["published"] == row["published"] else ""
