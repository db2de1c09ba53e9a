"""Tables and sentences of notebook 05_lambdamart_rrf about which rankings LambdaMART-RRF fuses."""

from __future__ import annotations

import pandas as pd

from lib.assistant.context_scores import ContextScores
from lib.assistant.rrf_readings import FOLDS, TWO_QUERIES
from lib.evaluation.comparison import compare
from lib.retrieval.fusion import GAIN, Fusion
from lib.workbook.display import Table, interval, number

CHANGE = "from LambdaMART alone"
NEARLY_ALL = 0.9  # of the queries: then fusion changes next to nothing


def readings_table(
    trials: pd.DataFrame, alone: pd.DataFrame, two_queries: pd.DataFrame, chosen: Fusion, folds: int
) -> Table:
    """The best fusion of each reading, with text rankings and without, weighted and not.

    Args:
        trials, two_queries: from `lib.assistant.rrf_readings`, best first.
        alone: LambdaMART without fusion, from `RankingTask.recall_alone`.
    """
    here = trials["fusion"].map(chosen.__eq__)
    kinds = [trials["reading"], trials["rankings"].str.contains(r"bm25t|semantic"), trials["weight"] > 1]
    best = trials[~pd.concat(kinds, axis=1).duplicated() | here].assign(chosen="")
    best.loc[here, "chosen"] = "←"
    unfused = alone.assign(reading="LambdaMART alone, not fused", rankings="–", k="–", weight="–", change="–")
    parts = [_with_change(best), unfused.assign(queries=trials["queries"].iloc[0])]
    if len(two_queries):
        parts.append(_with_change(two_queries[~two_queries["reading"].duplicated()]))
    shown = pd.concat([part.assign(k=part["k"].map(_short), weight=part["weight"].map(_short)) for part in parts])
    measured = [name for name in trials if name.startswith(("recall@", "ndcg@"))]
    columns = ["reading", "rankings", "weight", "k", "queries", *measured, "mean", "change", "chosen"]
    shown = shown.reset_index(drop=True)[columns].fillna({"chosen": ""})
    return Table(
        shown.rename(columns={"rankings": "fused rankings", "mean": "mean recall", "change": CHANGE}),
        f"Recall and NDCG in percent on training queries, each ranked by models that did not see its persona ({folds} "
        f"folds; rankers of a store or a signal group: {min(folds, FOLDS)}): of {len(trials)} fusions the best of each "
        "reading, with text rankings and without, weighted and not. "
        "The weight is that of LambdaMART's rankings, or of the one of all stores beside others; the rest weigh 1. A "
        "store holds one context type here: one LambdaMART a context type is one a store. Last: the change of the mean "
        "recall, paired by query, in points with 95% intervals.",
        best={"mean recall": "max"},
        among="queries",
        text_columns=["reading", "fused rankings", "chosen"],
    )


def _with_change(trials: pd.DataFrame) -> pd.DataFrame:
    """With the gain over LambdaMART alone as text."""
    return trials.assign(change=[interval(*row) for row in trials[list(GAIN)].to_numpy()])


def _short(value: object) -> str:
    return value if isinstance(value, str) else f"{value:g}"


def what_is_fused(trials: pd.DataFrame, alone: pd.DataFrame, same: float, k: int) -> str:
    """The chosen reading beside LambdaMART alone and the best one without weights.

    Args:
        same: share of the training queries whose first k results are those of LambdaMART alone.
    """
    chosen, unfused = trials.iloc[0], alone["mean"].iloc[0]
    gain, low, high = chosen[list(GAIN)]
    change = interval(gain, low, high, 2)
    effect = (
        f"no fusion is as good as the ranking it starts from (the best changes it by {change} points)"
        if high < 0
        else f"no fusion is shown to find more than the ranking it starts from (the best changes it by {change} points)"
        if gain < 0
        else f"fusion gains {change} points"
    )
    effect += ", chosen on these very queries" if low > 0 else ""
    even = trials[trials["weight"] == 1].iloc[0]
    said = (
        f"Chosen: **{chosen['reading']}** ({chosen['rankings']}), weight {chosen['weight']:g}, k = {chosen['k']:g}, "
        f"mean recall {chosen['mean']:.1f}%. LambdaMART alone, without fusion, has {unfused:.1f}%: {effect}."
    )
    if chosen["weight"] > 1:
        said += (
            f" Without weights the best is {even['reading']} ({even['rankings']}), k = {even['k']:g}: "
            f"{even['mean']:.1f}%, {number(even['mean'] - unfused, 1)} points from LambdaMART alone."
        )
    if same >= NEARLY_ALL:
        said += (
            f" The chosen fusion leaves LambdaMART's first {k} as they were for {100 * same:.0f}% of these queries: "
            "the choice comes close to no fusion at all."
        )
    return f"{said} LambdaMART-RRF, the paper's method, fuses in any case; both are reported."


def two_queries_in_words(two_queries: pd.DataFrame) -> str:
    """Whether the query and its chain of thought as two queries do better than the chosen reading on the queries that
    have one; empty where none has."""
    if two_queries.empty:
        return ""
    ours = two_queries[two_queries["reading"] == TWO_QUERIES].iloc[0]
    chosen = two_queries[two_queries["reading"] != TWO_QUERIES].iloc[0]
    by_text = two_queries[two_queries["rankings"] == "semantic + cot"].iloc[0]
    return (
        f"Query and chain of thought as two queries are tried on the {ours['queries']:,} training queries that have a "
        f"chain: the two searches fused find {by_text['mean']:.1f}%, with LambdaMART's rankings at best "
        f"{ours['mean']:.1f}% ({ours['rankings']}, weight {ours['weight']:g}, k = {ours['k']:g}), the chosen reading "
        f"{chosen['mean']:.1f}%. It is no candidate: LambdaMART-RRF ranks every query, and a chain "
        "costs a language model."
    )


def on_evaluation(scored: ContextScores, same: float) -> str:
    """What the chosen fusion changes on the evaluation queries.

    Args:
        same: share of them whose first k results are those of LambdaMART alone.
    """
    (test,) = compare(
        scored.scores, [("lambdamart_rrf", "lambdamart")], "recall", scored.k, scored.resampling
    ).itertuples()
    return (
        f"On the {len(scored.asked.names)} evaluation queries the chosen fusion changes LambdaMART's Recall@{scored.k} "
        f"by {interval(test.difference, test.ci_low, test.ci_high)} points, and leaves its first {scored.k} as they "
        f"were for {100 * same:.0f}% of them."
    )
