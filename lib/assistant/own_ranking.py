"""Your own ranking of the assistant's context, scored beside those of Table 2; nothing is written."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from lib.assistant.queries import qrels_of, topic_folds
from lib.evaluation.comparison import per_query_scores, summarise
from lib.evaluation.inference import Resampling
from lib.retrieval.stores import candidate_pairs, rank_pairs, relevant_pairs_mask
from lib.workbook.artifacts import ROOT, Workbook
from lib.workbook.inputs import InputError, read_text
from lib.workbook.parameters import Parameters, check_profile_name

log = logging.getLogger(__name__)

Given: TypeAlias = Callable[[Any, pd.DataFrame], Sequence[float]] | pd.DataFrame | str | Path
ON_NEW = "_new_topics"  # ends the name of a method's kept scores on topics that its training never met
UNTAUGHT = ("random", "recency", "bm25t", "semantic", "semantic_mpnet", "cot", "rrf_text")  # learn nothing of topics
NO_METHODS = ("finetuned_subset", "lambdamart_no_usage")  # kept for claims: no rows of Table 2
COLUMNS = "method topics metric k value ci_low ci_high n_topics n over_queries published".split()


def read_trec_run(path: str | Path) -> pd.DataFrame:
    """Columns query, item, score of a TREC run file, `query Q0 item rank score tag` a line. As with trec_eval, scores
    order it. Raises InputError, which names file and line."""
    rows = []
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        if parts := line.split():
            try:
                query, _, item, _, score, _ = parts
                rows.append((query, item, float(score)))
            except ValueError:
                raise InputError(f"{path}, line {number}: expected `query Q0 item rank score tag`") from None
    return pd.DataFrame(rows, columns=["query", "item", "score"])


@dataclass(frozen=True)
class RetrievalBench:
    """A world's queries, the items that each may find, and how the methods of Table 2 do on them.

    Attributes:
        queries: of training and evaluation (`split`): query, persona, text, time, weekday, place, topic, fold (of the
            topic, see `topic_folds`).
        asked: those of evaluation.
        items: item, persona, app, title, text, shown; a query may find those of its persona.
        opens: the usage log: item, time, place.
        qrels: query, item: the relevant pairs. Those of training queries are there to learn from.
        kept: of evaluation queries, what notebook 05 kept: query, method, metric, k, value (percent).
        published: method, metric, k, value of the paper's Table 2.
        made: the parameters of notebook 05.
    """

    queries: pd.DataFrame
    asked: pd.DataFrame
    items: pd.DataFrame
    opens: pd.DataFrame
    qrels: pd.DataFrame
    kept: pd.DataFrame
    published: pd.DataFrame
    made: Parameters

    def ranking(self, given: Given, name: str = "ranking") -> pd.DataFrame:
        """The ranking (columns query, item, rank) of the evaluation queries that a function, frame or run file gives.

        Args:
            given: a function of a query (its columns are attributes) and the frame of its persona's items, which
                returns a score for each; a frame of query, item and rank (from 1), or score; or a TREC run file. Rows
                of training queries are left out. A query that is not ranked finds nothing; a warning counts these.
            name: for error messages.

        Raises:
            InputError: a sentence on a missing column, an unknown query, somebody else's item, scores not finite or
                not one for each item. On wrong ranks `lib.evaluation.ranking.checked_run` raises.
        """
        pairs = candidate_pairs(self.asked, self.items, on="persona")
        if callable(given):
            own, scores = dict(list(self.items.sort_values("item").groupby("persona"))), []
            for query in self.asked.itertuples(index=False):
                items = own[query.persona].reset_index(drop=True)
                found, n = given(query, items.copy()), len(items)
                scores.append(np.asarray(found.reindex(items.index) if isinstance(found, pd.Series) else found))
                if scores[-1].shape != (n,):
                    raise InputError(f"{name}, query {query.query}: {n} items, but scores of shape {scores[-1].shape}")
            given = pairs.assign(score=np.concatenate(scores))
        run = read_trec_run(given) if isinstance(given, str | Path) else given
        if not isinstance(run, pd.DataFrame):
            raise InputError(f"{name}: is a {type(run).__name__}, but may be a function, a frame or a path")
        by = "rank" if "rank" in run else "score"
        if lacking := {"query", "item", by} - set(run):
            raise InputError(f"{name}: has no column {min(lacking)}: it needs query, item, and rank or score")
        unknown = run.loc[~run["query"].isin(self.queries["query"]), "query"]
        if len(unknown):
            raise InputError(f"{name}: there is no query {unknown.iloc[0]}, but {self.asked['query'].iloc[0]}, say")
        run = run.loc[run["query"].isin(self.asked["query"]), ["query", "item", by]].reset_index(drop=True)
        if len(run) == 0:
            raise InputError(f"{name}: ranks no evaluation query")
        if lost := len(self.asked) - run["query"].nunique():
            log.warning("%s: %d evaluation queries of %d are not ranked and find nothing", name, lost, len(self.asked))
        if len(foreign := run[~relevant_pairs_mask(run, pairs)]):
            query, item = foreign.iloc[0][["query", "item"]]
            raise InputError(f"{name}: item {item!r} is none of those of the persona that asks {query}")
        if by == "rank":
            found = pd.to_numeric(run["rank"], errors="coerce").groupby(run["query"]).agg(["min", "max", "size"])
            if len(wrong := found.index[(found["min"] > 1) | (found["max"] > found["size"])]):
                raise InputError(f"{name}: rank of query {wrong[0]}: ranks are not 1, 2, 3 and so on")
            return run
        run["score"], asked = pd.to_numeric(run["score"], errors="coerce"), pd.factorize(run["query"])[0]
        if len(wrong := run[~np.isfinite(run["score"])]):
            query, item = wrong.iloc[0][["query", "item"]]
            raise InputError(f"{name}: score of query {query}, item {item}: is no finite number")
        return rank_pairs(run.assign(query_row=asked), run["score"].to_numpy(float))

    def scores(self, runs: Mapping[str, Given], new: Mapping[str, Given] | None = None) -> dict[str, pd.DataFrame]:
        """Scores a query of your rankings and of the kept ones, on known and on new topics.

        Args:
            runs: rankings by name, as `ranking` takes them.
            new: those of models that met no query of the asked one's topic, see `topic_folds`. For what learns nothing
                from training queries they are the same.

        Returns:
            {known, new: percent, a row an evaluation query, a column for each (method, metric, k)}, yours first.
        """
        asked = self.asked["query"].tolist()
        kept = self.kept.pivot(index="query", columns=["method", "metric", "k"], values="value").loc[asked]
        names = kept.columns.unique("method")
        if taken := set(runs) & set(names):
            raise InputError(f"{min(taken)}: a ranking of Table 2 has this name: choose another for yours")
        known = kept[[name for name in names if not name.endswith(ON_NEW) and name not in NO_METHODS]]
        fresh = kept[[name for name in names if name.endswith(ON_NEW) or name in UNTAUGHT]]
        fresh = fresh.rename(columns=lambda name: name.removesuffix(ON_NEW), level="method")
        found = {}
        for topics, given, theirs in (("known", runs, known), ("new", new or {}, fresh)):
            ours = {name: self.ranking(one, name) for name, one in given.items()}
            mine = [per_query_scores(ours, self.qrels, asked, self.made.cutoffs)] if ours else []
            found[topics] = pd.concat([*mine, theirs], axis=1)
        return found

    def summary(self, scores: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
        """Means over topics of what `scores` returned, with 95% intervals and published values: `COLUMNS`, as in the
        report's `context_retrieval.csv`."""
        over = Resampling(self.asked["topic"].to_numpy(), self.made.bootstrap_samples, self.made.seed)
        everyone = {("all", "all"): np.ones(len(self.asked), dtype=bool)}
        parts = [summarise(part, everyone, over).assign(topics=side) for side, part in scores.items()]
        printed = self.published.rename(columns={"value": "published"}).assign(topics="known")
        return pd.concat(parts).merge(printed, on=["method", "topics", "metric", "k"], how="left")[COLUMNS]


def open_bench(profile: str = "quick", root: str | Path = ROOT) -> RetrievalBench:
    """The bench on what `make report PROFILE=profile` left. Raises ArtifactError, which names a missing file
    and says how it is made, or ProfileError for what is no name of a profile."""
    check_profile_name(profile)
    book = Workbook("explore_retrieval", Parameters(profile=profile), root)
    gold, made = book.read("gold"), book.parameters_of("context_scores.parquet")
    queries = book.read("queries").join(topic_folds(gold, made.seed), on="query")
    asked = queries[queries["split"] == "evaluation"].reset_index(drop=True)
    kept = book.read("context_scores")[["query", "method", "metric", "k", "value"]]
    published = pd.read_csv(book.root / "data/published/context_retrieval.csv").drop(columns="label")
    items, opens = book.read("items"), book.read("opens")
    return RetrievalBench(queries, asked, items, opens, qrels_of(gold), kept, published, made)
