"""LambdaMART over tools: which tool a query needs, learned from training plans, with or without retrieved context.

A query's candidates are all tools; labels are the gold APIs of training queries. What a classifier of queries and the
plans' frequencies say of a training query is learned without its fold, so that the ranker sees how far to trust them
where they have not seen the answer.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from lib.retrieval.lambdamart import train
from lib.retrieval.stores import bm25t_scores, candidate_pairs, cosine_of_pairs, rank_pairs, relevant_pairs_mask

ITEM_NUMBERS = (1, 3, 5)  # how many of the first context items are compared with a tool's text
APP_DEPTHS = (5, 10)  # how many of them have a say on a tool's app
CODES = ["app"]
# What is learned without a fold knows least of the very tools that the fold calls: a ranker that took a low value for a
# good sign would read the labels off the folds.
RISING = ["classifier", "frequency"]
FOLDS = 5
NO_FOLD = -1  # of queries that are never learned from
UNITS = ("need", "phrasing", "persona")
HOW_LEARNED = [ITEM_NUMBERS, APP_DEPTHS, CODES, RISING, FOLDS, UNITS]


# ---------------------------------------------------------------- what a ranker sees


@dataclass(eq=False)
class RankerTask:
    """What rankers of tools learn from and are asked.

    Attributes:
        queries: columns query, text, split, persona, need, phrasing; of both sides.
        tools: columns item (name of the API), app, text.
        gold: columns query, item, one row for each API of a plan. A query that no tool fits has none.
        vectors, tool_vectors: unit-length embeddings of queries and tools.
        training: whether each query is one to learn from.
        pairs: every query with every tool, query by query; features, labels and scores have one row a pair.
        query_row: which query each pair is of.
        fixed: features that no plan has taught: cosine, bm25t and app.
    """

    queries: pd.DataFrame
    tools: pd.DataFrame
    gold: pd.DataFrame
    vectors: np.ndarray
    tool_vectors: np.ndarray
    seed: int = 0
    threads: int = 1
    training: np.ndarray = field(init=False)
    pairs: pd.DataFrame = field(init=False)
    query_row: np.ndarray = field(init=False)
    fixed: pd.DataFrame = field(init=False)

    def __post_init__(self) -> None:
        self.training = (self.queries["split"] == "training").to_numpy()
        self.pairs = candidate_pairs(self.queries, self.tools)
        self.query_row = self.pairs["query_row"].to_numpy()
        self.fixed = pd.DataFrame(
            {
                "cosine": cosine_of_pairs(self.pairs, self.vectors, self.tool_vectors),
                "bm25t": bm25t_scores(self.pairs, self.queries, self.tools),
                "app": pd.factorize(self.tools["app"], sort=True)[0][self.pairs["item_row"]],
            }
        )

    def context_features(self, context: pd.DataFrame, items: pd.DataFrame, item_vectors: np.ndarray) -> pd.DataFrame:
        """What retrieved context (query, item, rank; of training queries by what had not seen them) says of each tool;
        missing where a query has none.

        One row a pair: the highest and the mean cosine of the first items (item, app; `item_vectors` are of unit
        length) and the tool (`item_cosine_max_3`, …), and the share of the first items, discounted by log2(rank + 1),
        that lie in its app (`app_mass_5`, …).
        """
        rows = np.full((len(self.queries), max(APP_DEPTHS)), -1)  # which item stands at each rank
        first = context[(context["rank"] <= rows.shape[1]) & context["query"].isin(self.queries["query"])]
        place = pd.Index(self.queries["query"]).get_indexer(first["query"]), first["rank"] - 1
        rows[place] = pd.Index(items["item"]).get_indexer(first["item"])
        there, features = rows >= 0, {}
        cosines = item_vectors[rows[:, : max(ITEM_NUMBERS)]] @ self.tool_vectors.T
        for n in ITEM_NUMBERS:
            part, known = cosines[:, :n], there[:, :n, None]
            count = np.where(known.any(axis=1), known.sum(axis=1), np.nan)
            features[f"item_cosine_max_{n}"] = np.where(known, part, -1).max(axis=1) + 0 * count
            if n > 1:
                features[f"item_cosine_mean_{n}"] = np.where(known, part, 0).sum(axis=1) / count
        weight = there / np.log2(np.arange(2, there.shape[1] + 2))
        app, apps = pd.factorize(self.tools["app"], sort=True)
        in_app = (items["app"].to_numpy()[rows][:, :, None] == np.asarray(apps, dtype=object)) * weight[:, :, None]
        for n in APP_DEPTHS:
            total = weight[:, :n].sum(axis=1, keepdims=True)
            features[f"app_mass_{n}"] = (in_app[:, :n].sum(axis=1) / np.where(total > 0, total, np.nan))[:, app]
        tool = self.pairs["item_row"].to_numpy()
        return pd.DataFrame({name: values[self.query_row, tool] for name, values in features.items()})


# ---------------------------------------------------------------- what plans teach, cross-fitted


@dataclass(frozen=True)
class PlanLessons:
    """What a classifier of queries and the frequencies of plans say of each pair, learned without some folds, and the
    rankers that see it.

    Attributes:
        task: the queries and tools.
        fold: of each query; `NO_FOLD` for one that belongs to none.
        unit: of `UNITS`, of which a ranker's early stopping holds some out.
    """

    task: RankerTask
    fold: np.ndarray
    unit: str
    _kept: dict[frozenset[int], np.ndarray] = field(default_factory=dict)

    @classmethod
    def of(cls, task: RankerTask, topics: str = "known") -> PlanLessons:
        """For `known` topics evaluation queries are asked of what learned from all training queries, and each of these
        of other folds of the coarsest of `UNITS` that evaluation does not share with training; personas it never
        shares. For `new` ones every query is asked of what learned from other topics, by five folds."""
        dealt = task.training | (topics == "new")
        apart = (name for name in UNITS if not set(task.queries[name][dealt]) & set(task.queries[name][~dealt]))
        units = task.queries[next(apart, UNITS[-1])]
        names = np.random.default_rng(task.seed).permutation(sorted(set(units[dealt])))
        fold = units.map({unit: place % FOLDS for place, unit in enumerate(names)})
        return cls(task, fold.where(dealt, NO_FOLD).to_numpy(dtype=int), "need" if topics == "new" else "persona")

    def without(self, folds: frozenset[int]) -> np.ndarray:
        """Of each pair, learned from the training queries of other folds, (pairs, 2): the probability that a classifier
        of queries gives the tool, 0 for one it has not learned; and the share of plans that call it, whatever the
        query, which is the first, too, where there are fewer than two APIs to tell apart."""
        if folds not in self._kept:
            from sklearn.linear_model import LogisticRegression

            task = self.task
            learned = task.training & ~np.isin(self.fold, list(folds))
            queries = task.queries["query"][learned]
            gold, called = task.gold[task.gold["query"].isin(queries)], task.pairs["item"]
            share = called.map(gold["item"].value_counts()).fillna(0).to_numpy(dtype=float) / max(1, len(queries))
            chance, apis = share, queries.map(gold.drop_duplicates("query").set_index("query")["item"])
            if len(set(apis.dropna())) > 1:
                # In float64 until it has converged: L-BFGS stops where rounding has it, with probabilities off by 0.03.
                model = LogisticRegression(C=10.0, solver="newton-cg", tol=1e-6, max_iter=1000)
                model.fit(task.vectors[learned][apis.notna().to_numpy()].astype(float), apis.dropna().to_numpy())
                column = called.map({name: place for place, name in enumerate(model.classes_)})
                given = model.predict_proba(task.vectors)[task.query_row, column.fillna(0).astype(int)]
                chance = np.where(column.isna(), 0.0, given)
            self._kept[folds] = np.column_stack([chance, share])
        return self._kept[folds]

    def features(self, outer: int, context: pd.DataFrame | None = None) -> pd.DataFrame:
        """What a ranker sees of each pair that is asked about the fold `outer`: what no plan has taught; classifier and
        frequency, of each query learned from training queries neither of its own fold nor of `outer`; and context
        (`RankerTask.context_features`), where it does not see the query alone."""
        of_pair = self.fold[self.task.query_row]
        values = np.empty((len(of_pair), 2))
        for own in np.unique(self.fold).tolist():
            rows = of_pair == own
            values[rows] = self.without(frozenset({own, outer}))[rows]
        taught = pd.DataFrame(values, columns=RISING)
        return pd.concat([self.task.fixed, taught, *([] if context is None else [context])], axis=1)

    def rank(self, context: pd.DataFrame | None) -> pd.DataFrame:
        """All tools ranked for each evaluation query: columns query, item, rank, score.

        Each fold of these is ranked by what has learned from the training queries of the other folds; tools tie where
        there are none. Where all that it learns from are of one `unit`, personas are held out for early stopping.
        Whatever ranked the context may have learned from all.
        """
        task, of_pair, asked = self.task, self.task.query_row, ~self.task.training
        scores, relevant = np.zeros(len(of_pair)), relevant_pairs_mask(task.pairs, task.gold)
        for fold in np.unique(self.fold[asked]).tolist():
            learned = (task.training & (self.fold != fold))[of_pair]
            if not learned.any():
                continue
            units = task.queries[self.unit].to_numpy()[of_pair[learned]]
            if len(set(units)) < 2:
                units = task.queries["persona"].to_numpy()[of_pair[learned]]
            here, seen = (asked & (self.fold == fold))[of_pair], self.features(fold, context)
            lessons = task.pairs[learned], seen[learned], relevant[learned], units
            model = train(*lessons, CODES, min(10, len(task.tools)), task.seed, task.threads, RISING)
            scores[here] = model.predict(seen[here])
        return rank_pairs(task.pairs[asked[of_pair]], scores[asked[of_pair]])
