"""A sceptic's questions to a world of personas: could its numbers be an artefact? Frames in, frames out.

These read gold labels and provenance, which no retrieval method may see.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from lib.assistant.needs import KINDS
from lib.assistant.queries import normal_form
from lib.assistant.signals import opens_before
from lib.retrieval.bm25 import content_terms
from lib.retrieval.stores import candidate_pairs, relevant_pairs_mask

# What a simulated world's `split` keeps apart besides personas, in the words of `leaks`.
KEPT_APART = {
    "phrasing": ["query texts", "phrasings"],
    "item_template": ["item templates of relevant items"],
    "need": ["needs asked for"],
}

# Questions of `sceptic_table` on what gives an answer away: the need, a word, the hour, or opens.
BY_NEED = "queries whose API is their need's commonest, %"
BY_WORD = {kind: f"{kind} queries: gold items that share a content word, %" for kind in KINDS}
BY_DUE_TIME = "events and reminders due within 2 h after a query that are gold, %"
MOST_OPENED = "queries whose gold holds the most opened item, %"
LAST_OPENED = "queries whose gold holds the most recently opened item, %"


def entropy_bits(labels: pd.Series) -> float:
    """Shannon entropy of the labels' distribution, in bits."""
    p = labels.value_counts(normalize=True).to_numpy()
    return float(-(p * np.log2(p)).sum())


def conditional_entropy_bits(labels: pd.Series, given: pd.Series) -> float:
    """H(labels | given), in bits."""
    weights = given.value_counts(normalize=True)
    return float(sum(weights[value] * entropy_bits(part) for value, part in labels.groupby(given)))


def relevant_pairs(gold: pd.DataFrame) -> pd.DataFrame:
    """One row (query, item, kind) for each relevant item."""
    return (
        gold[["query", "kind", "relevant"]]
        .explode("relevant")
        .rename(columns={"relevant": "item"})
        .reset_index(drop=True)
    )


def candidates_with_gold(queries: pd.DataFrame, items: pd.DataFrame, gold: pd.DataFrame) -> pd.DataFrame:
    """Every (query, item) of the same persona with the columns of both frames (but `text`), the query's kind, and
    whether the item is gold (`is_gold`, bool)."""
    pairs = queries.drop(columns="text").merge(items.drop(columns="text"), on="persona")
    pairs = pairs.merge(relevant_pairs(gold)[["query", "item"]], on=["query", "item"], how="left", indicator="found")
    pairs["is_gold"] = pairs.pop("found").eq("both").to_numpy()
    pairs["kind"] = pairs["query"].map(gold.set_index("query")["kind"]).astype(str)
    return pairs


def which_items(is_gold: pd.Series) -> np.ndarray:
    return np.where(is_gold, "gold item", "other item")


def lexical_overlap(queries: pd.DataFrame, items: pd.DataFrame, gold: pd.DataFrame) -> pd.DataFrame:
    """Share of (query, item) pairs, in percent, with a content word (stem) in common, by kind of query: with the gold
    items, and with the other items of the same persona."""
    terms_of_item = {
        item: frozenset(content_terms(text)) for item, text in zip(items["item"], items["text"], strict=True)
    }
    terms_of_query = {
        query: frozenset(content_terms(text)) for query, text in zip(queries["query"], queries["text"], strict=True)
    }
    pairs = candidates_with_gold(queries, items, gold)
    pairs["shared"] = [
        bool(terms_of_query[query] & terms_of_item[item])
        for query, item in zip(pairs["query"], pairs["item"], strict=True)
    ]
    pairs["which"] = which_items(pairs["is_gold"])
    return 100 * pairs.pivot_table(index="kind", columns="which", values="shared", aggfunc="mean").reindex(
        index=list(KINDS), columns=["gold item", "other item"]
    )


def usage_shortcuts(
    queries: pd.DataFrame, items: pd.DataFrame, opens: pd.DataFrame, gold: pd.DataFrame
) -> pd.DataFrame:
    """How often a gold item is the persona's most opened or most recently opened item at the moment of the query,
    beside chance, in percent."""
    if opens.empty:
        return pd.DataFrame(columns=["question", "here", "by chance"])
    pairs = candidate_pairs(queries, items, on="persona")
    count, last = opens_before(pairs, queries, items, opens)
    pairs["gold"] = relevant_pairs_mask(pairs, relevant_pairs(gold))
    usage = pairs.assign(count=count, last=last).sort_values(["query_row", "item_row"])
    by_query = usage.groupby("query_row")
    chance = 100 * by_query["gold"].mean().mean()
    tops = {MOST_OPENED: "count", LAST_OPENED: "last"}
    rows = [(question, 100 * usage.loc[by_query[of].idxmax(), "gold"].mean(), chance) for question, of in tops.items()]
    return pd.DataFrame(rows, columns=["question", "here", "by chance"])


def api_classifier(vectors: np.ndarray, apis: pd.Series):
    """A logistic regression from a query's embedding to the first API of its plan, fitted.

    Newton's method, in float64 and until it has converged: L-BFGS stops where rounding has it, while the probabilities
    are off by up to 0.03, and takes far longer where labels were dealt anew.

    Args:
        vectors: embeddings of the queries to learn from, (queries, dimensions).
        apis: the first API of each query's gold plan, in the same order.
    """
    from sklearn.dummy import DummyClassifier
    from sklearn.linear_model import LogisticRegression

    if len(set(apis)) == 1:  # there is nothing to tell apart
        return DummyClassifier().fit(vectors, np.asarray(apis))
    model = LogisticRegression(C=10.0, solver="newton-cg", tol=1e-6, max_iter=1000)
    return model.fit(np.asarray(vectors, dtype=float), np.asarray(apis))


def due_soon(queries: pd.DataFrame, items: pd.DataFrame, gold: pd.DataFrame, hours: float = 2.0) -> tuple[float, float]:
    """Events and reminders due within `hours` after a query of their persona: share that is gold, in percent, beside
    the share of gold among all its events and reminders. NaN where there is none."""
    timed = items[items["app"].isin(["calendar", "reminders"])]
    pairs = candidates_with_gold(queries, timed, gold)
    right = pairs["is_gold"].to_numpy()
    soon = ((pairs["shown"] - pairs["time"]).dt.total_seconds() / 3600).between(0, hours).to_numpy()
    return (100 * right[soon].mean() if soon.any() else np.nan, 100 * right.mean() if len(right) else np.nan)


def leaks(frames: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """What training and evaluation have in common: personas, query texts, phrasings, item templates and needs.

    Item templates count where their items are relevant to some query, so under `split: item_template` none is shared.

    Returns:
        columns what, training, evaluation, shared (numbers of distinct values).
    """
    queries, gold = frames["queries"], frames["gold"]
    template = (
        frames["provenance"].set_index("item")["template"] if len(frames["provenance"]) else pd.Series(dtype=object)
    )
    values = {
        "personas": queries.set_index("query")["persona"],
        "query texts": queries.set_index("query")["text"].map(normal_form),
        "phrasings": gold.set_index("query")["phrasing"],
        "item templates of relevant items": relevant_pairs(gold).set_index("query")["item"].map(template).dropna(),
        "needs asked for": gold.set_index("query")["need"],
    }
    side = queries.set_index("query")["split"]
    rows = []
    for what, series in values.items():
        sides = {name: set(series[series.index.map(side) == name]) for name in ("training", "evaluation")}
        rows.append(
            (what, len(sides["training"]), len(sides["evaluation"]), len(sides["training"] & sides["evaluation"]))
        )
    return pd.DataFrame(rows, columns=["what", "training", "evaluation", "shared"])


def check_split(shared: pd.DataFrame, split: str) -> None:
    """That a simulated world keeps apart what its `split` promises to.

    Args:
        shared: as `leaks` returns it.
        split: a key of `KEPT_APART`.

    Raises:
        ValueError: training and evaluation share personas, or what `split` keeps apart; names it.
    """
    in_both = shared.set_index("what")["shared"]
    broken = [what for what in ("personas", *KEPT_APART[split]) if in_both[what]]
    if broken:
        raise ValueError(f"training and evaluation share {' and '.join(broken)}")


def sceptic_table(frames: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """The questions as one table: question, here, by chance."""
    queries, items, gold = frames["queries"], frames["items"], frames["gold"]
    first = gold["apis"].str[0]
    shares = gold["kind"].value_counts(normalize=True)
    rows = [(f"queries of kind {kind}, %", 100 * shares.get(kind, 0.0), np.nan) for kind in KINDS]
    rows += [
        ("H(API), bits", entropy_bits(first), np.nan),
        ("H(API | need), bits", conditional_entropy_bits(first, gold["need"]), np.nan),
        (
            BY_NEED,
            100 * first.groupby(gold["need"]).transform(lambda apis: apis.mode().iloc[0]).eq(first).mean(),
            100 * first.value_counts(normalize=True).iloc[0],
        ),
        ("queries that no API serves, %", 100 * (first == "default").mean(), np.nan),
        ("queries whose plan takes two calls, %", 100 * (gold["apis"].str.len() > 1).mean(), np.nan),
    ]
    overlap = lexical_overlap(queries, items, gold)
    rows += [
        (BY_WORD[kind], overlap.loc[kind, "gold item"], overlap.loc[kind, "other item"])
        for kind in KINDS
        if pd.notna(overlap.loc[kind, "gold item"])
    ]
    rows.append((BY_DUE_TIME, *due_soon(queries, items, gold)))
    table = pd.DataFrame(rows, columns=["question", "here", "by chance"])
    return pd.concat([table, usage_shortcuts(queries, items, frames["opens"], gold)], ignore_index=True)
