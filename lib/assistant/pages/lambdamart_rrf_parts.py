"""Tables, figures and sentences of notebook 05_lambdamart_rrf about what each part contributes: features, fusion, the
kinds of query, and the fine-tuned encoder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import pandas as pd

from lib.assistant.context_scores import ContextScores, RankerScores, compare_by_kind
from lib.assistant.fusion_effects import HALVES, NO_FUSION
from lib.assistant.pages.common import ranker_name
from lib.assistant.ranker_ablation import CROSS_FITTED, TEXT_ALONE, TWO_CROSS_FITTED, WITH_FINETUNED
from lib.assistant.unseen_needs import UnseenNeeds
from lib.evaluation.inference import settled
from lib.evaluation.intervals import NOTHING
from lib.retrieval.fusion import Fusion
from lib.workbook.display import Drawing, Table, interval, number, p_text
from lib.workbook.methods import label

GROUP_COLOURS = {"numerical": "#0072B2", "categorical": "#E69F00", "habitual": "#CC79A7", "text": "#009E73"}
BARS = 15
RRF_WITH_FINETUNED = "LambdaMART-RRF with the fine-tuned encoder"


# ---- features


def importance_figure(weights: pd.DataFrame) -> Drawing:
    """Bars of the features with the most weight.

    Args:
        weights: from `lib.assistant.ranking_task.RankingTask.importance`.
    """
    first = weights.head(BARS)[::-1]
    figure, axis = plt.subplots(figsize=(8, 4.6))
    axis.barh(range(len(first)), first["mean_abs_shap"], color=first["group"].map(GROUP_COLOURS).tolist())
    axis.set(
        yticks=range(len(first)),
        yticklabels=[f"{row.feature.replace('_', ' ')} ({row.group})" for row in first.itertuples()],
        xlabel="mean |SHAP value| within a query, units of the score",
    )
    axis.grid(axis="y", visible=False)
    by_group = weights.groupby("group")["mean_abs_shap"].sum().sort_values(ascending=False)
    shares = by_group / weights["mean_abs_shap"].sum() * 100
    return Drawing(
        figure,
        "importance",
        "Share of all SHAP weight: " + ", ".join(f"{group} {share:.0f}%" for group, share in shares.items()),
        "Bars of the fifteen features with the largest mean absolute SHAP value: "
        + ", ".join(f"{row.feature} {row.mean_abs_shap:.2f}" for row in first[::-1].itertuples()),
        weights,
    )


def rankers_table(rankers: RankerScores, names: Sequence[str], against: str = "lambdamart") -> pd.DataFrame:
    """Recall of rankers by kind of query, and paired differences to one of them."""
    tests, rows = rankers.tests(names, against), rankers.by_kind(names)
    rows[f"minus {ranker_name(against)}"] = [
        interval(*row) for row in tests[["difference", "ci_low", "ci_high"]].to_numpy()
    ]
    rows["p, Holm"] = [p_text(p) for p in tests["p_holm"]]
    return rows.rename(index=ranker_name).rename_axis("ranker").reset_index()


def _without(groups: Sequence[str]) -> list[str]:
    return [f"without {group}" for group in groups]


def ablation_table(rankers: RankerScores, groups: Sequence[str]) -> Table:
    """LambdaMART without some features.

    Args:
        groups: of features.
    """
    names = ["lambdamart", *_without(groups), "lambdamart_no_usage", TEXT_ALONE]
    return Table(
        rankers_table(rankers, names),
        f"Recall@{rankers.k} in percent by kind of query when LambdaMART is trained without some features; “without "
        f"usage” lacks the numerical and the habitual ones. n = {len(rankers.asked.names)}.",
        decimals=1,
        best=dict.fromkeys([*rankers.asked.kinds, "all"], "max"),
    )


def what_it_needs_most(rankers: RankerScores, groups: Sequence[str]) -> str:
    """Without which features LambdaMART loses most, and for which kinds of query it then finds more, with a paired test
    of each gain: Holm over all of these groups and kinds.

    Args:
        groups: of features.
    """
    tests = compare_by_kind(rankers, "lambdamart", _without(groups))
    whole = tests[tests["group"] == "all"]
    most = whole.loc[whole["difference"].idxmax()]
    more = tests[(tests["other"] == most["other"]) & (tests["group"] != "all") & (tests["difference"] < 0)]
    rows = zip(more.itertuples(), settled(more), strict=True)
    gains = [
        f"{interval(-row.difference, -row.ci_high, -row.ci_low)} points more for {row.group} queries, "
        + ("settled" if clear else "which is not settled")
        for row, clear in rows
    ]
    loses = f"{most['other']} features it loses {number(most['difference'], 1)} points of Recall@{rankers.k}"
    gains_too = f" It finds {'; '.join(gains)} (Holm over {len(tests)} tests)." if gains else ""
    return f"What LambdaMART can spare least: {loses}.{gains_too}"


# ---- fusion


def spread_table(spread: Mapping[str, float], k: int, n_relevant: float) -> Table:
    """In how many apps the first results lie.

    Args:
        spread: mean number of apps by ranking, the relevant items last.
        n_relevant: mean number of relevant items a query.
    """
    frame = pd.DataFrame({"ranking": list(spread), f"apps among the first {k}": list(spread.values())})
    return Table(
        frame,
        f"Mean number of different apps among the first {k} results, and among a query's relevant items "
        f"({n_relevant:.1f} on average).",
    )


def where_fusion_helps(tests: pd.DataFrame, k: int) -> str:
    """What fusion does to queries with relevant items in one app and in several.

    Args:
        tests: from `lib.assistant.fusion_effects.compare_by_spread`.
    """
    if (tests["difference"].abs() < NOTHING).all():
        return f"This fusion leaves Recall@{k} as it is in both groups, so it cannot test that explanation."
    rows = []
    for row, clear in zip(tests.itertuples(), settled(tests), strict=True):
        effect = ("helps" if row.difference > 0 else "harms") if clear else "neither clearly helps nor harms"
        change = interval(row.difference, row.ci_low, row.ci_high)
        rows.append(
            f"{effect} where the relevant items lie in {row.group} ({change} points of Recall@{k}, n = {row.n})"
        )
    unexpected = len(tests) == 2 and tests["difference"].iloc[1] <= tests["difference"].iloc[0]
    return f"Fusion {'; it '.join(rows)}." + (
        " The two estimates are not in the order that this explanation expects; their difference is not tested."
        if unexpected
        else ""
    )


def fusions_table(scored: ContextScores, fusions: pd.DataFrame) -> Table:
    """Single rankings and their fusions.

    Args:
        fusions: scores of what `lib.assistant.fusion_effects.fusions_to_explain` returns.
    """
    asked, names = scored.asked, fusions.columns.get_level_values("method").unique()
    rows = [
        {
            "rankings": name,
            **{
                kind: fusions.loc[asked.of_kind(kind), (name, "recall", scored.k)].mean()
                for kind in (*asked.kinds, "all")
            },
        }
        for name in names
    ]
    return Table(
        pd.DataFrame(rows),
        f"Recall@{scored.k} in percent of single rankings and of their fusions; n = {len(asked.names)} evaluation "
        "queries, for explanation only: nothing is chosen by this table.",
        decimals=1,
        best={"all": "max"},
    )


def what_fusion_does(scored: ContextScores, fusions: pd.DataFrame, spread: Mapping[str, float]) -> str:
    """Over how many apps fusion spreads the results, and whether two rankers that know different things gain by it.

    Args:
        fusions: as in `fusions_table`.
        spread: as in `spread_table`, with the methods' labels and `the relevant items`.
    """
    k = scored.k
    recall = fusions.xs(("recall", k), axis=1, level=["metric", "k"]).mean()
    of_halves = recall[recall.index.str.startswith(f"{HALVES[0]} + ")]
    best_half, fused, both = recall[list(HALVES)].max(), of_halves.max(), recall[NO_FUSION]
    change = (scored.scores["lambdamart_rrf", "recall", k] - scored.scores["lambdamart", "recall", k]).mean()
    return (
        f"The relevant items of a query lie in {spread['the relevant items']:.2f} apps. LambdaMART's first {k} lie in "
        f"{spread[label('lambdamart')]:.2f}, after fusion in {spread[label('lambdamart_rrf')]:.2f}; Recall@{k} changes "
        f"by {number(change, 1)} points. Two rankers that know different things, fused with the best of the "
        f"{len(of_halves)} constants (picked on these very queries, so a flattering value), find {fused:.1f}%: "
        f"{number(abs(fused - best_half), 1)} points {'more' if fused > best_half else 'less'} than the better of "
        f"them, {number(abs(both - fused), 1)} points {'less' if fused < both else 'more'} than one ranker that sees "
        "both."
    )


# ---- kinds of query


def told_table(told: pd.DataFrame, k: int) -> Table:
    """A ranker that learned on one kind of query alone, beside the one that learned on all.

    Args:
        told: from `lib.assistant.context_scores.compare_told`.
    """
    return Table(
        pd.DataFrame(
            {
                "kind": told["kind"],
                "semantic search": told["semantic"],
                "LambdaMART": told["lambdamart"],
                "LambdaMART told the kind": told["told"],
                "LambdaMART − semantic": _intervals(told, "lambdamart_minus_semantic"),
                "told − LambdaMART": _intervals(told, "told_minus_lambdamart"),
                "told − semantic": _intervals(told, "told_minus_semantic"),
            }
        ),
        f"Recall@{k} in percent when a ranker is trained and tested on one kind; differences in points with 95% "
        "intervals.",
        decimals=1,
    )


def _intervals(told: pd.DataFrame, difference: str) -> list[str]:
    return [interval(*row) for row in told[[difference, f"{difference}_low", f"{difference}_high"]].to_numpy()]


def who_is_misled(told: pd.DataFrame) -> str:
    """For which kinds LambdaMART finds less than semantic search, and whether the other kinds mislead it there."""
    hurt = told[told["lambdamart"] < told["semantic"]]
    if hurt.empty:
        gains = zip(told["kind"], _intervals(told, "told_minus_lambdamart"), strict=True)
        return (
            "LambdaMART finds no less than semantic search for any kind, on average. Told the kind, it changes by "
            + ", ".join(f"{change} points for {kind} queries" for kind, change in gains)
            + "."
        )
    differences = ("lambdamart_minus_semantic", "told_minus_semantic", "told_minus_lambdamart")
    rows = zip(hurt["kind"], hurt["misled"], *(_intervals(hurt, name) for name in differences), strict=True)
    return " ".join(
        f"For {kind} queries LambdaMART lies {behind} points from plain semantic search; told the kind, {left}. "
        f"Being told changes it by {change} points: "
        + (
            "what it learned on the other kinds misleads it here."
            if misled
            else "that the other kinds mislead it is not settled."
        )
        for kind, misled, behind, left, change in rows
    )


# ---- with the fine-tuned encoder


def variant_table(rankers: RankerScores, fusion: Fusion) -> Table:
    """The ranker that also sees the fine-tuned encoder's cosine; `fusion` is what its RRF fuses."""
    names = ["lambdamart", "lambdamart_rrf", "finetuned", WITH_FINETUNED, RRF_WITH_FINETUNED]
    there = rankers.scores.columns.get_level_values("method")
    names += [name for name in (CROSS_FITTED, TWO_CROSS_FITTED) if name in there]
    return Table(
        rankers_table(rankers, names),
        f"Recall@{rankers.k} in percent by kind of query, n = {len(rankers.asked.names)}; fused in the variant: "
        f"{' + '.join(fusion.rankings)}, weight {max(fusion.weights, default=1):g}, k = {fusion.k}.",
        decimals=1,
        best=dict.fromkeys([*rankers.asked.kinds, "all"], "max"),
    )


def variant_finding(rankers: RankerScores, unseen: UnseenNeeds | None = None) -> str:
    """What the fine-tuned encoder's cosine adds; without a full stop.

    Args:
        unseen: scores on needs that neither the ranker nor an encoder behind it met.
    """
    gain = _over(rankers, "lambdamart").iloc[0]
    text = (
        f"LambdaMART that also sees the fine-tuned encoder's cosine finds {rankers.recall(WITH_FINETUNED):.1f}%, "
        f"{interval(*gain[['difference', 'ci_low', 'ci_high']])} points more than with the pretrained one"
    )
    if unseen is None or WITH_FINETUNED not in unseen.methods:
        return text
    fresh = {method: unseen.scores[method, "recall", unseen.k].mean() for method in unseen.methods}
    text += (
        f". On needs that neither it nor its encoders met it finds {fresh[WITH_FINETUNED]:.1f}%, LambdaMART without "
        f"that cosine {fresh['lambdamart']:.1f}%"
    )
    if TWO_CROSS_FITTED not in fresh:
        return text
    return (
        f"{text}. Cross-fitted by need, it finds {rankers.recall(CROSS_FITTED):.1f}% where the need was met and "
        f"{fresh[CROSS_FITTED]:.1f}% where it was not; our two stages, so trained, "
        f"{rankers.recall(TWO_CROSS_FITTED):.1f} and {fresh[TWO_CROSS_FITTED]:.1f}%"
    )


def usage_and_meaning(rankers: RankerScores) -> str:
    """Whether usage and learned meaning add up."""
    over_usage, over_text = _over(rankers, "lambdamart"), _over(rankers, "finetuned")
    both = all(settled(test).item() and test["difference"].item() > 0 for test in (over_usage, over_text))
    return (
        f"{variant_finding(rankers)}, and {interval(*over_text[['difference', 'ci_low', 'ci_high']].iloc[0])} points "
        "more than the fine-tuned encoder alone. "
        + (
            "On needs that training met, usage and learned meaning add up: neither LambdaMART nor the fine-tuned "
            "encoder alone finds as much. Needs that it did not meet are further below."
            if both
            else "That both parts are needed is not settled."
        )
    )


def _over(rankers: RankerScores, other: str) -> pd.DataFrame:
    return rankers.tests([WITH_FINETUNED], other)
