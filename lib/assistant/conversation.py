"""Queries that the paper leaves out: which way of retrieving context survives a follow-up, and which a hop?

A small simulated world holds plain queries, follow-ups that lean on the turn before (`lib.assistant.follow_ups`) and
hops, whose item is reachable through another item alone (`lib.assistant.hop_needs`). Everything learned is cross-fitted
by persona, as in `lib.assistant.sensitivity`.

A dozen needs or more of each kind recur in many lives, and with them their phrasings. A model that never saw a
persona may still have learned each need by heart. So everything learned also ranks each query without having met its
need, nor, with it, any of its phrasings (`UNSEEN`). What else could make such results look better than they are:
`lib.assistant.conversation_controls`. Searches that were trained elsewhere (`TRAINED_BEFORE`) are asked as they are:
`lib.assistant.conversation_searches`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from lib.assistant.adapted_cosine import AdaptedCosines, cross_fitted
from lib.assistant.ranker_ablation import folds_of_pairs
from lib.assistant.ranking_task import Learning, RankingTask, clusters_of
from lib.assistant.rrf_readings import cross_fit, needed, rank_without
from lib.assistant.second_stage import Setting, TwoStages
from lib.assistant.signals import opens_before
from lib.assistant.sweeps import small_knobs
from lib.evaluation.comparison import compare, per_query_scores
from lib.evaluation.inference import Resampling, holm_adjust
from lib.evaluation.intervals import mean_interval
from lib.retrieval.finetune import folds_of
from lib.retrieval.fusion import Fusion
from lib.retrieval.stores import cosine_of_pairs, rank_pairs
from lib.workbook.parameters.worlds import WorldKnobs

FOLLOW_UPS = HOPS = 0.3  # shares of the world's queries
KINDS = ("plain", "follow-up", "hop")
OF_PHRASING = {"follow_up": "follow-up", "hop": "hop"}  # of `KINDS`, by the kind that a phrasing's id names
WITH_HISTORY, WITH_WORDS = "semantic_history", "semantic_words_before"
TOLD = (WITH_WORDS, WITH_HISTORY)  # searches that see the turn before
RANKER_TOLD = "lambdamart_history"  # LambdaMART that also sees the cosine of the last of them
TUNED = {"semantic_tuned": "queries", "semantic_tuned_history": WITH_HISTORY}  # after a learned map, and of which text
TWO_TOLD = "lambdamart_2_history"  # our two stages that also see it
RANKERS = ("lambdamart", "lambdamart_rrf", "lambdamart_2", RANKER_TOLD, TWO_TOLD)
# Trained in the workbook's main world, with other people: by the name of the same search with the turn before.
TRAINED_BEFORE = {name: f"{name}_history" for name in ("finetuned", "late_interaction")}
UNTRAINED = ("recency", "bm25t", "semantic", *TOLD)
TRAINED = (*TUNED, *RANKERS)  # on the needs of other personas, which are the same ones
UNSEEN = "_unseen"  # ends the name of a trained method that has not met the query's need
ELSEWHERE = tuple(name for both in TRAINED_BEFORE.items() for name in both)
METHODS = (*UNTRAINED, *ELSEWHERE, *(f"{name}{end}" for name in TRAINED for end in ("", UNSEEN)))
# What ranks a query without a turn before as another method does.
ALSO_TOLD = {**dict.fromkeys(TOLD, "semantic"), **{told: name for name, told in TRAINED_BEFORE.items()}}
KNOWN = "the same, needs known"


@dataclass(frozen=True)
class Learner:
    """How everything is learned in a small world.

    Attributes:
        setting: of the second stage.
        fusion: of LambdaMART-RRF.
        learning: how rankers are trained.
        bm25_b: BM25T's length normalisation.
    """

    setting: Setting
    fusion: Fusion
    learning: Learning
    bm25_b: float = 0.75

    def cross_fitted(
        self, world: Mapping[str, pd.DataFrame], vectors: Mapping[str, np.ndarray]
    ) -> tuple[RankingTask, np.ndarray, np.ndarray]:
        """A world's task, and the scores of its pairs by LambdaMART and by its second stage, each by models that saw
        none of its persona's queries. The maps behind the fine-tuned cosine, where the setting has it, are learned from
        the same queries as both stages, and cross-fitted among these (`lib.assistant.adapted_cosine`).

        Where fewer than four personas are left to learn from, nothing is learned: the cosine and all scores are 0.

        Args:
            world: frames items, opens, queries, gold.
            vectors: unit-length embeddings of items and queries, in frame order.
        """
        task = RankingTask.of_world(world, vectors, self.learning, self.bm25_b)
        return task, *self.two_stages(TwoStages.of(task, vectors["items"]), self.maps(task, vectors))

    def maps(self, task: RankingTask, vectors: Mapping[str, np.ndarray]) -> list[AdaptedCosines]:
        """What the fine-tuned cosine is from in each of `folds`, learned from all pairs but those asked about; none
        where the setting does not have it.

        Args:
            vectors: unit-length embeddings of items and queries, in frame order.
        """
        if not self.setting.adapted:
            return []
        return [cross_fitted(task, vectors, learned=~asked) for asked in self.folds(task)]

    def two_stages(self, stages: TwoStages, maps: Sequence[AdaptedCosines]) -> tuple[np.ndarray, np.ndarray]:
        """The scores of all pairs by both stages, as `cross_fitted` has them.

        Args:
            maps: from `maps`, of the same pairs.
        """
        task = stages.task
        first, second = np.zeros(len(task.pairs)), np.zeros(len(task.pairs))
        for number, asked in enumerate(self.folds(task)):
            seeing = stages.seeing(maps[number].known) if maps else stages
            first[asked], second[asked] = seeing.scores_without(self.setting, ~asked, asked)
        return first, second

    def on_new_needs(self, stages: TwoStages, maps: Sequence[AdaptedCosines]) -> tuple[np.ndarray, np.ndarray]:
        """As `two_stages`, each by models that saw no query of its need either, nor did the maps behind the fine-tuned
        cosine."""
        task = stages.task
        fold = folds_of_pairs(task)
        first, second = np.zeros(len(task.pairs)), np.zeros(len(task.pairs))
        for place, theirs in enumerate(self.folds(task)):
            for number in np.unique(fold[theirs]):
                learned, asked = ~theirs & (fold != number), theirs & (fold == number)
                seeing = stages.seeing(maps[place].without[number]) if maps else stages
                first[asked], second[asked] = seeing.scores_without(self.setting, learned, asked)
        return first, second

    def folds(self, task: RankingTask) -> list[np.ndarray]:
        """Which pairs are asked about in each fold, bools: those of some personas; the rest is learned from."""
        fold = folds_of(pd.Series(task.persona), self.learning.folds, self.learning.seed + 1)
        return [fold == number for number in range(self.learning.folds)]

    def lessons(self, task: RankingTask, new_needs: bool) -> list[tuple[np.ndarray, np.ndarray]]:
        """The pairs learned from and those asked about, bools, no persona in both: of each of `folds`; with `new_needs`
        of each with each fold of needs (`lib.assistant.queries.folds_of_needs`), no need in both either. Together the
        pairs asked about are all pairs, each once."""
        if not new_needs:
            return [(~asked, asked) for asked in self.folds(task)]
        fold = folds_of_pairs(task)
        return [
            (~theirs & (fold != number), theirs & (fold == number))
            for theirs in self.folds(task)
            for number in np.unique(fold[theirs])
        ]

    def tuned_cosine(self, task: RankingTask, vectors: Mapping[str, np.ndarray], new_needs: bool = False) -> np.ndarray:
        """The cosine of each pair after one linear map (`lib.retrieval.adapter`) that saw none of its persona's
        queries; 0 where there are too few personas to learn from.

        Args:
            vectors: unit-length embeddings of items and queries, in frame order.
            new_needs: whether it saw no query of its need either.
        """
        maps = (AdaptedCosines(task, vectors, task.relevant, *each) for each in self.lessons(task, new_needs))
        return np.sum([cosines.asked_about for cosines in maps], axis=0)

    def fused_on_new_needs(self, task: RankingTask, first: np.ndarray) -> pd.DataFrame:
        """The ranking of all pairs by LambdaMART-RRF, by rankers that saw neither their personas' queries nor their
        needs'.

        Args:
            first: LambdaMART's scores, from `on_new_needs`.
        """
        parts = []
        for learned, asked in self.lessons(task, new_needs=True):
            fused = rank_without(task, needed(self.fusion.rankings), learned, asked)
            parts.append(self.fusion.of(task.rankings(first[asked], asked) | fused))
        return pd.concat(parts, ignore_index=True)


def conversation_knobs(profile: str, seed: int, personas: int) -> WorldKnobs:
    """Of a world with so many personas, as many queries each as in the default one, and all three kinds of query.

    Its seed is not `seed`, the main world's: the same seed would draw the same people, and what was trained on them
    (`TRAINED_BEFORE`) is asked here.
    """
    shares = {"follow_up_share": FOLLOW_UPS, "hop_share": HOPS}
    return small_knobs(WorldKnobs(profile=profile, seed=seed + 1), personas, **shares)


def kinds_of(gold: pd.DataFrame) -> np.ndarray:
    """Which of `KINDS` each query is, by its phrasing."""
    return np.array([OF_PHRASING.get(phrasing.split("/")[1], "plain") for phrasing in gold["phrasing"]])


def turns_of(world: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """The turns before (columns query, text, plan); none where no query leans on any."""
    return world.get("turns", pd.DataFrame(columns=["query", "text", "plan"]))


def with_turn_before(queries: pd.DataFrame, turns: pd.DataFrame, plans: bool = True) -> list[str]:
    """The text of each query behind that of the turn before, where there was one.

    Args:
        queries: columns query, text.
        turns: columns query, text, plan, as in `lib.assistant.world.frames`.
        plans: whether the plan that served the turn before follows its text.
    """
    before = {turn.query: f"{turn.text} {turn.plan} " if plans else f"{turn.text} " for turn in turns.itertuples()}
    return [before.get(name, "") + text for name, text in zip(queries["query"], queries["text"], strict=True)]


def embed_conversation(
    world: Mapping[str, pd.DataFrame], encode: Callable[[list[str]], np.ndarray]
) -> dict[str, np.ndarray]:
    """Unit-length embeddings, in frame order, of the items, the queries, and by each of `TOLD` the queries behind the
    turn before."""
    items, queries, turns = world["items"], world["queries"], turns_of(world)
    texts = {"items": items["text"].tolist(), "queries": queries["text"].tolist()}
    texts |= {WITH_WORDS: with_turn_before(queries, turns, False), WITH_HISTORY: with_turn_before(queries, turns)}
    return {name: encode(those) for name, those in texts.items()}


def score_conversation(
    world: Mapping[str, pd.DataFrame],
    vectors: Mapping[str, np.ndarray],
    learner: Learner,
    before: Mapping[str, pd.DataFrame],
) -> pd.DataFrame:
    """Scores of `METHODS` on every query of a world, one row a query: what is learned, from other personas' queries,
    and, where the name ends in `UNSEEN`, from queries about other folds' needs alone.

    Args:
        world: frames items, opens, queries, gold and, where there are follow-ups, turns.
        vectors: from `embed_conversation`.
        before: rankings of `ELSEWHERE`, from `lib.assistant.conversation_searches.trained_before`; one that is missing
            has no scores.

    Returns:
        as `lib.evaluation.comparison.per_query_scores`.
    """
    task = RankingTask.of_world(world, vectors, learner.learning, learner.bm25_b)
    every_pair = np.ones(len(task.pairs), dtype=bool)
    told = {name: cosine_of_pairs(task.pairs, vectors[name], vectors["items"]) for name in TOLD}
    seeing = task.with_text_scores(WITH_HISTORY, told[WITH_HISTORY])
    stages, maps = TwoStages.of(task, vectors["items"]), learner.maps(task, vectors)
    stages_told = replace(stages, task=seeing, columns=list(seeing.features.columns))
    first, second = learner.two_stages(stages, maps)
    first_told, second_told = learner.two_stages(stages_told, maps)
    new_first, new_second = learner.on_new_needs(stages, maps)
    new_first_told, new_second_told = learner.on_new_needs(stages_told, maps)
    scores = {
        "recency": opens_before(task.pairs, task.queries, task.items, task.opens)[1],
        **task.text,
        **told,
        "lambdamart": first,
        "lambdamart_2": second,
        RANKER_TOLD: first_told,
        TWO_TOLD: second_told,
        f"lambdamart{UNSEEN}": new_first,
        f"lambdamart_2{UNSEEN}": new_second,
        f"{RANKER_TOLD}{UNSEEN}": new_first_told,
        f"{TWO_TOLD}{UNSEEN}": new_second_told,
    }
    for name, of in TUNED.items():
        arrays = {"queries": vectors[of], "items": vectors["items"]}
        scores[name] = learner.tuned_cosine(task, arrays)
        scores[f"{name}{UNSEEN}"] = learner.tuned_cosine(task, arrays, new_needs=True)
    runs = {method: rank_pairs(task.pairs, values) for method, values in scores.items()} | dict(before)
    parts = cross_fit(task, needed(learner.fusion.rankings), every_pair)
    runs["lambdamart_rrf"] = learner.fusion.of(task.rankings(first, every_pair) | parts)
    runs[f"lambdamart_rrf{UNSEEN}"] = learner.fused_on_new_needs(task, new_first)
    found = per_query_scores(runs, task.qrels, task.queries["query"].tolist(), learner.learning.cutoffs)
    return found[methods_of(found)]


def methods_of(scores: pd.DataFrame) -> list[str]:
    """Those of `METHODS` that have scores, in their order."""
    there = set(scores.columns.get_level_values("method"))
    return [name for name in METHODS if name in there]


def phrasings_of(world: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """How often needs and phrasings recur among the personas of a world.

    Args:
        world: frames queries and gold.

    Returns:
        indexed by kind (`KINDS`, those that occur): needs, phrasings, shared (phrasings in which more than one persona
        asks), asked_in_shared (percent of the queries that are in one of these).
    """
    table = world["gold"].assign(kind=kinds_of(world["gold"]))
    table["persona"] = table["query"].map(world["queries"].set_index("query")["persona"])
    shared = table.groupby("phrasing")["persona"].transform("nunique") > 1
    kinds = table.assign(shared=table["phrasing"].where(shared), asked=100.0 * shared).groupby("kind")
    found = kinds.agg(
        needs=("need", "nunique"),
        phrasings=("phrasing", "nunique"),
        shared=("shared", "nunique"),
        asked_in_shared=("asked", "mean"),
    )
    return found.reindex([kind for kind in KINDS if kind in found.index])


def resampling_of(world: Mapping[str, pd.DataFrame], scores: pd.DataFrame, seed: int) -> Resampling:
    """Personas and needs of the queries that are the rows of `scores`."""
    return Resampling(clusters_of(world["queries"], world["gold"], scores.index), seed=seed)


def _by_kind(
    world: Mapping[str, pd.DataFrame], scores: pd.DataFrame, seed: int
) -> Iterator[tuple[str, pd.DataFrame, Resampling]]:
    """Each of `KINDS` that occurs, with the scores of its queries and how these cluster."""
    everything = resampling_of(world, scores, seed)
    kinds = kinds_of(world["gold"].set_index("query").loc[scores.index])
    for kind in KINDS:
        chosen = kinds == kind
        if chosen.any():
            yield kind, scores[chosen], everything.among(chosen)


def summarise_conversation(world: Mapping[str, pd.DataFrame], scores: pd.DataFrame, k: int, seed: int) -> pd.DataFrame:
    """Mean recall at K of every method on each kind of query, and how far it lies above semantic search.

    Args:
        world: frames queries and gold.
        scores: from `score_conversation`.
        k: K.
        seed: of the tests.

    Returns:
        columns kind, method, metric (recall@K), value in percent, ci_low, ci_high, n, gain, gain_low, gain_high,
        p_holm: the paired difference to semantic search, in points, Holm over the methods and kinds that are compared;
        NaN where a method cannot differ from semantic search, or from what is compared already: semantic search itself,
        and `ALSO_TOLD` where there was no turn before. A kind without queries has no row, nor has a method without
        scores.
    """
    methods, parts = methods_of(scores), []
    for kind, part, over in _by_kind(world, scores, seed):
        values = np.column_stack([part[method, "recall", k] for method in methods])
        low, high = mean_interval(values, over)
        columns = {"kind": kind, "method": methods, "metric": f"recall@{k}", "value": values.mean(axis=0)}
        table = pd.DataFrame(columns | {"ci_low": low, "ci_high": high, "n": len(part)})
        compared = [name for name in methods if name != "semantic" and (name not in ALSO_TOLD or kind == "follow-up")]
        tests = compare(part, [(name, "semantic") for name in compared], "recall", k, over).drop(
            columns=["b", "p_holm"]
        )
        tests.columns = ["method", "gain", "gain_low", "gain_high", "p_value"]
        parts.append(table.merge(tests, on="method", how="left", validate="one_to_one"))
    found = pd.concat(parts, ignore_index=True)
    tested = found["p_value"].notna()
    found.loc[tested, "p_holm"] = holm_adjust(found.loc[tested, "p_value"])
    return found.drop(columns="p_value")


def weigh_training(world: Mapping[str, pd.DataFrame], scores: pd.DataFrame, k: int, seed: int) -> pd.DataFrame:
    """What is left of each trained method's recall at K on needs that it has not met: against the same method where it
    has met them (`KNOWN`), and against the best of `UNTRAINED` there, which is picked on the same queries.

    Args:
        world: frames queries and gold.
        scores: from `score_conversation`.
        k: K.
        seed: of the tests.

    Returns:
        columns kind, method (of `TRAINED`), against (`KNOWN` or one of `UNTRAINED`), value (needs unseen), other,
        difference (value − other, in points), ci_low, ci_high, p_holm (over all rows), n.
    """
    parts = []
    for kind, part, over in _by_kind(world, scores, seed):
        means = part[[(method, "recall", k) for method in methods_of(scores)]].mean().droplevel(["metric", "k"])
        best = means[list(UNTRAINED)].idxmax()
        pairs = [(f"{name}{UNSEEN}", other) for name in TRAINED for other in (name, best)]
        tests = compare(part, pairs, "recall", k, over)
        names = {"kind": kind, "method": tests["a"].str.removesuffix(UNSEEN)}
        names["against"] = tests["b"].where(tests["b"].isin(UNTRAINED), KNOWN)
        values = {"value": tests["a"].map(means), "other": tests["b"].map(means)}
        rest = tests[["difference", "ci_low", "ci_high", "p_value"]]
        parts.append(pd.DataFrame(names | values).join(rest).assign(n=len(part)))
    found = pd.concat(parts, ignore_index=True)
    found.insert(8, "p_holm", holm_adjust(found.pop("p_value")))
    return found
