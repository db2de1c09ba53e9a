"""Tables, figures and sentences of notebook 05_lambdamart_rrf: what is fused, Table 2, the paper's claims."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from lib.assistant.context_scores import REFERENCES, ContextScores, published_value, with_published
from lib.assistant.pages.common import kind_cases, ranking_cases
from lib.evaluation.claims import Claim, Ratio, tally
from lib.evaluation.comparison import compare
from lib.workbook.display import Drawing, Table, beside_published, interval, label_lines, legend_below, number, p_text
from lib.workbook.methods import colour, label, marker

if TYPE_CHECKING:
    from lib.assistant.ranking_task import RankingTask
    from lib.assistant.shipped_ranker import Again, Taken

BY_KIND = (
    "bm25t", "semantic", "cot", "cot_distilled", "finetuned", "cross_encoder", "late_interaction", "lambdamart",
    "lambdamart_rrf", "lambdamart_2", "lambdamart_2_finetuned",
)  # fmt: skip
LINES = (
    "bm25t", "semantic", "cot", "finetuned", "finetuned_cot", "lambdamart", "lambdamart_rrf", "lambdamart_2",
    "lambdamart_2_finetuned",
)  # fmt: skip
NOT_IN_NDCG = ("lambdamart", "lambdamart_2", "lambdamart_2_finetuned")  # of three panels side by side
TITLES = {
    "recall": "Recall@K",
    "ndcg": "NDCG@K, standard ideal",
    "ndcg_retrieved": "NDCG@K, ideal of the retrieved, queries without a hit left out",
}
IDEALS = {
    "ndcg": "ours, standard ideal",
    "ndcg_retrieved": "ours, retrieved ideal, hits only",
    "published": "published",
}


@dataclass(frozen=True)
class TableTwo:
    """What the page is about.

    Attributes:
        scored: the methods on the evaluation queries.
        published: the paper's Table 2, columns method, metric, k, value.
        names: of the methods, with the number of pairs that a fine-tuned one learned from.
        authors: of the chains of thought.
    """

    scored: ContextScores
    published: pd.DataFrame
    names: Mapping[str, str]
    authors: str

    @cached_property
    def summary(self) -> pd.DataFrame:
        """The means with the paper's beside them."""
        return with_published(self.scored.summary, self.published)

    def value(self, method: str, metric: str = "recall", at: int | None = None, kind: str = "all") -> float:
        return self.scored.mean(method, metric, at, kind)["value"]

    def interval(self, method: str, kind: str = "all") -> str:
        return interval(*self.scored.mean(method, kind=kind)[["value", "ci_low", "ci_high"]])

    def printed(self, method: str, metric: str, at: int) -> float:
        return published_value(self.published, method, metric, at)

    def shown(self, methods: Iterable[str]) -> list[str]:
        """Those of the methods that were scored."""
        return [method for method in methods if method in self.scored.methods]


def names_with_pairs(methods: Iterable[str], models: pd.DataFrame) -> dict[str, str]:
    """The methods' names; of a fine-tuned one, with the number of pairs it learned from.

    Args:
        models: columns model, pairs.
    """
    pairs = models.set_index("model")["pairs"]
    return {
        method: f"{label(method)} ({pairs[method]:,} pairs)" if method in pairs else label(method) for method in methods
    }


def names_unseen(names: Mapping[str, str], models: pd.DataFrame) -> dict[str, str]:
    """The same where the fine-tuned method is the one that was trained without some needs, if there is one."""
    pairs = models.set_index("model")["pairs"]
    if "finetuned_unseen_needs" not in pairs:
        return dict(names)
    return {**names, "finetuned": f"{label('finetuned')} ({pairs['finetuned_unseen_needs']:,} pairs)"}


def what_the_ranker_sees(task: RankingTask) -> str:
    groups = ", ".join(f"{len(names)} {name}" for name, names in task.groups.items())
    sides = {
        side: (mask.sum(), len(set(task.persona[mask])))
        for side, mask in (("training", task.training), ("evaluation", task.evaluation))
    }
    return (
        f"{len(task.features.columns)} features of {len(task.pairs):,} pairs of query and item ({groups}); "
        f"{sides['training'][0]:,} pairs of {sides['training'][1]} training personas, "
        f"{sides['evaluation'][0]:,} of {sides['evaluation'][1]} evaluation personas. "
        f"One candidate in {1 / task.relevant.mean():.1f} is relevant."
    )


def where_the_ranker_is_from(taken: Taken, again: Again | None) -> str:
    """Whether the ranker came with the project, and what training it here would change."""
    if again is None:
        return f"The ranker was trained here. {taken.reason}"
    return (
        f"The ranker came with the project, trained on {taken.device}: which of two splits that gain the same a tree "
        "takes turns with the last bits of the embeddings, so that each processor would learn another one. Trained "
        f"here once more, on the same queries, it finds {again.here:.1f}% instead of {again.shipped:.1f}% "
        f"(Recall@{again.k}, evaluation queries) and has other first {again.k} items for {again.others:.1f}% of them."
    )


# ---- by kind of query


def best_by_kind(two: TableTwo) -> dict[str, str]:
    """The method with the highest recall for each kind of query."""
    methods = two.shown(BY_KIND)
    return {kind: max(methods, key=lambda method: two.value(method, kind=kind)) for kind in two.scored.asked.kinds}


def by_kind_figure(two: TableTwo) -> Drawing:
    scored, methods, kinds = two.scored, two.shown(BY_KIND), two.scored.asked.kinds
    figure, axis = plt.subplots(figsize=(9, 4.6))
    for position, method in enumerate(methods):
        part = pd.DataFrame([scored.mean(method, kind=kind) for kind in kinds])
        axis.errorbar(
            np.arange(len(kinds)) + (position - (len(methods) - 1) / 2) * 0.9 / len(methods),
            part["value"],
            yerr=[part["value"] - part["ci_low"], part["ci_high"] - part["value"]],
            marker=marker(method),
            linestyle="none",
            color=colour(method),
            capsize=2,
            markersize=7,
            label=two.names[method] + ("" if method in scored.complete else f", n = {scored.asked.in_cot.sum()}"),
        )
    axis.set(
        xticks=range(len(kinds)),
        xticklabels=[f"{kind}\n(n = {scored.asked.of_kind(kind).sum()})" for kind in kinds],
        ylabel=f"Recall@{scored.k}, % (bars: 95% interval)",
        ylim=(0, 100),
    )
    legend_below(axis, columns=3)
    finding = "Who finds most: " + "; ".join(
        f"{kind} queries: {label(method)} ({two.value(method, kind=kind):.0f}%)"
        for kind, method in best_by_kind(two).items()
    )
    summary = two.scored.summary
    data = summary[(summary["metric"] == "recall") & (summary["k"] == scored.k) & summary["method"].isin(methods)]
    return Drawing(figure, "context_by_kind", finding, by_kind_alt(two), data)


def by_kind_alt(two: TableTwo) -> str:
    """What the figure by kind shows, for those who cannot see it."""
    methods = two.shown(BY_KIND)
    return f"Recall at {two.scored.k} by kind of query with 95% intervals. " + "; ".join(
        f"{kind}: " + ", ".join(f"{label(method)} {two.value(method, kind=kind):.0f}%" for method in methods)
        for kind in two.scored.asked.kinds
    )


def by_kind_table(two: TableTwo) -> Table:
    scored, kinds = two.scored, two.scored.asked.kinds
    n, in_cot = len(scored.asked.names), scored.asked.in_cot.sum()
    rows = [
        {
            "method": two.names[method],
            "queries": "all" if method in scored.complete else "CoT sample",
            **{kind: two.interval(method, kind) for kind in kinds},
            "all kinds": two.interval(method),
        }
        for method in scored.methods
    ]
    frame, sampled = pd.DataFrame(rows), in_cot < n
    return Table(
        frame if sampled else frame.drop(columns="queries"),
        f"Recall@{scored.k} in percent by kind of query, 95% intervals for other personas and other needs; "
        f"{n} queries{f', {in_cot} in the CoT sample' if sampled else ''}.",
        best=dict.fromkeys([*kinds, "all kinds"], "max"),
        among="queries" if sampled else None,
        cases=kind_cases(scored.methods, kinds, scored.k) | ranking_cases(scored.methods, [scored.k], "all kinds"),
    )


# ---- Table 2


def table_two(two: TableTwo) -> list[Table]:
    """Ours beside published: for each sample, a table of each metric; references in parentheses, which no star gets."""
    tables = []
    for sample, (chosen, _) in two.scored.samples.items():
        which = "all" if sample == "all" else "CoT sample,"
        # Where all queries have chains of thought, references have rows of the sample `cot` alone.
        here = two.summary["sample"] == sample
        here |= (sample == "all") & (chosen == two.scored.asked.in_cot).all() & _is_reference(two.summary["method"])
        for metric, title in TITLES.items():
            rows = two.summary[here & (two.summary["kind"] == "all") & (two.summary["metric"] == metric)]
            starred = metric != "ndcg_retrieved"
            caption = (
                f"{title}, percent with 95% intervals; {which} {chosen.sum()} evaluation queries. "
                f"Chains of thought by {two.authors}. Paper: its Table 2, on its own data and with its own models."
                + ("" if starred else " No star: each method has its own queries here.")
            )
            if _is_reference(rows["method"]).any():
                caption += " In parentheses: made from labels, a reference and no method."
            best = {f"@{k}, ours": "max" for k in two.scored.cutoffs if starred}
            filters = {} if sample == "all" else {"sample": "cot"}
            cases = ranking_cases(rows["method"].unique(), two.scored.cutoffs, **filters)
            frame = _in_parentheses(beside_published(rows, two.names), two)
            tables.append(Table(frame, caption, best=best, cases=cases))
    return tables


def _is_reference(methods: pd.Series) -> pd.Series:
    return methods.isin(REFERENCES)


def _in_parentheses(frame: pd.DataFrame, two: TableTwo) -> pd.DataFrame:
    """A table of `beside_published` with our values of references in parentheses."""
    rows = frame["method"].isin([label(name) for name in two.scored.references])
    ours = [f"@{k}, ours" for k in two.scored.cutoffs]
    return frame.assign(**{name: frame[name].where(~rows, "(" + frame[name] + ")") for name in ours})


def expert_in_words(two: TableTwo, written: Collection[str]) -> str:
    """What the expert's chains of thought find beside semantic search; empty where they are not scored.

    Args:
        written: ids of the queries that have one.
    """
    scored, asked = two.scored, two.scored.asked
    if "cot_expert" not in scored.references:
        return ""
    inside = asked.in_cot
    n, without = inside.sum(), int((inside & ~np.isin(asked.names, list(written))).sum())
    (test,) = compare(
        scored.scores[inside], [("cot_expert", "semantic")], "recall", scored.k, scored.resampling.among(inside)
    ).itertuples()
    missing = f"; {without} of them have none and are searched by the query alone" if without else ""
    where = "all queries" if inside.all() else "the CoT sample"
    return (
        f"{label('cot_expert')}: query and chain of thought of an expert who knows the need, by the pretrained "
        f"encoder, find {two.interval('cot_expert')}% at K = {scored.k} on {where} (n = {n}{missing}), "
        f"{interval(test.difference, test.ci_low, test.ci_high)} points from semantic search. It is made from the "
        "labels of these very queries: a reference for what a writer could bring, not a method. No method learns from "
        "it or fuses it, and no sentence names it as the best."
    )


def who_leads(ahead: pd.DataFrame, sample: str, n_queries: int) -> str:
    """Who is best on a sample, all or cot, and by how much.

    Args:
        ahead: from `lib.evaluation.comparison.leads`.
    """
    rows = "; ".join(
        f"at K = {row.k} {label(row.best)}, {interval(row.difference, row.ci_low, row.ci_high)} points before "
        f"{label(row.second)}"
        for row in ahead.itertuples()
    )
    return (
        f"Best on {'all' if sample == 'all' else 'the CoT sample,'} {n_queries} queries: {rows}. "
        "The intervals are paired, and not corrected for these two having been picked as the best."
    )


def recall_figure(two: TableTwo) -> Drawing:
    scored = two.scored
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.6), sharey=True)
    for axis, source in zip(axes, ("ours", "published"), strict=True):
        ends = _recall_lines(axis, two, source)
        axis.set(xlabel="K", xticks=scored.cutoffs, title=source, ylim=(0, 102))
        label_lines(axis, ends, gap=5.5)
    axes[0].set_ylabel("Recall@K, % (bands: 95% interval)")
    ours = two.value("lambdamart_rrf")
    theirs = two.printed("lambdamart_rrf", "recall", scored.k) / two.printed("semantic", "recall", scored.k)
    return Drawing(
        figure,
        "table_two_recall",
        f"LambdaMART-RRF finds {ours:.0f}% in its first {scored.k}, {ours / two.value('semantic'):.1f} times semantic "
        f"search (published: {theirs:.1f} times)",
        f"Recall against K, ours left and published right. Ours at {scored.k}: "
        + ", ".join(f"{label(method)} {two.value(method):.0f}%" for method in two.shown(LINES)),
        two.summary[(two.summary["kind"] == "all") & (two.summary["metric"] == "recall")],
    )


def _recall_lines(axis, two: TableTwo, source: str) -> dict[str, tuple[float, float, str]]:
    """Draw the lines of a panel, ours or published; their names and ends."""
    scored, ours = two.scored, source == "ours"
    ends: dict[str, tuple[float, float, str]] = {}
    for method in two.shown(LINES):
        if not ours and np.isnan(two.printed(method, "recall", scored.k)):
            continue
        points = pd.DataFrame([scored.mean(method, at=k) for k in scored.cutoffs])
        heights = points["value"].tolist() if ours else [two.printed(method, "recall", k) for k in scored.cutoffs]
        axis.plot(scored.cutoffs, heights, color=colour(method), marker=marker(method), linestyle="-" if ours else ":")
        if ours:
            axis.fill_between(scored.cutoffs, points["ci_low"], points["ci_high"], color=colour(method), alpha=0.12)
        ends[two.names[method] if ours else label(method)] = (scored.cutoffs[-1], heights[-1], colour(method))
    return ends


# ---- claims


def claims_table(verdicts: pd.DataFrame) -> Table:
    """Verdicts from `lib.evaluation.claims.evaluate` for readers."""
    apart = "\ncounted apart: " + verdicts["about"].str.replace("_", " ")
    return Table(
        pd.DataFrame(
            {
                "the paper says": verdicts["statement"],
                "where": verdicts["source"] + apart.where(verdicts["about"] != "method", ""),
                "effect here": [interval(*row) for row in verdicts[["effect", "ci_low", "ci_high"]].to_numpy()],
                "published": verdicts["published"],
                "K": verdicts["k"],
                "n": verdicts["n"],
                "p, Holm": [p_text(p) for p in verdicts["p_value"]],
                "verdict": verdicts["verdict"] + "\n" + verdicts["reason"],
            }
        ),
        "Claims about context retrieval. Effects are percentage points (a percentage where the claim is about a level, "
        "a ratio where it is about one), with 95% intervals. What chain of thought adds once search is fine-tuned is "
        "measured against a model fine-tuned on the same few queries without it (notebook 04), not against the row of "
        "the table above.",
        text_columns=["the paper says", "where", "verdict"],
    )


def claims_counted(verdicts: pd.DataFrame) -> str:
    """How many claims came out as the paper has them, by what decides them."""
    first, *others = [f"**{row.as_claimed} of {row.claims}** {row.why}" for row in tally(verdicts).itertuples()]
    return f"As the paper has them came out {first}. Counted apart:\n\n" + "\n".join(f"- {other}." for other in others)


def out_of_reach(two: TableTwo, claims: Sequence[Claim]) -> str:
    """Where all of the context would not be as many times what semantic search finds as the paper claims."""
    claimed = next(claim.size for claim in claims if isinstance(claim, Ratio))
    possible = {k: 100 / max(two.value("semantic", at=k), 1e-9) for k in two.scored.cutoffs}
    beyond = [k for k, ratio in possible.items() if ratio < claimed]
    if not beyond:
        return ""
    return (
        f"{claimed:g} times as much as semantic search is impossible here at K = {', '.join(map(str, beyond))}: "
        "it finds so much by itself that even all of the context would be only "
        + ", ".join(f"{possible[k]:.2f} times as much (K = {k})" for k in beyond)
        + "."
    )


# ---- NDCG against K


def ndcg_figure(two: TableTwo) -> Drawing:
    cutoffs = two.scored.cutoffs
    figure, axes = plt.subplots(1, 3, figsize=(12, 4.2), sharey=True)
    changes = []
    for axis, (ideal, title) in zip(axes, IDEALS.items(), strict=True):
        ends: dict[str, tuple[float, float, str]] = {}
        for method in two.shown(name for name in LINES if name not in NOT_IN_NDCG):
            heights = [
                two.printed(method, "ndcg", k) if ideal == "published" else two.value(method, ideal, k) for k in cutoffs
            ]
            axis.plot(cutoffs, heights, color=colour(method), marker=marker(method))
            ends[label(method)] = (cutoffs[-1], heights[-1], colour(method))
            changes.append((ideal, method, heights[-1] - heights[0]))
        axis.set(xlabel="K", xticks=cutoffs, title=title, ylim=(0, 102))
        label_lines(axis, ends, gap=6)
    axes[0].set_ylabel("NDCG@K, %")
    trend = pd.DataFrame(changes, columns=["ideal", "method", "change"])
    rising = trend[trend["change"] > 0].groupby("ideal").size().reindex(list(IDEALS), fill_value=0)
    return Drawing(
        figure,
        "ndcg_with_k",
        f"Methods whose NDCG rises from K = {cutoffs[0]} to {cutoffs[-1]}: {rising['ndcg']} of "
        f"{trend['method'].nunique()} under the standard ideal, {rising['ndcg_retrieved']} under the retrieved one, "
        f"{rising['published']} in the paper",
        "NDCG against K in three panels: ours under the standard ideal, ours under the retrieved ideal, and published. "
        "Change from the smallest to the largest K: "
        + "; ".join(f"{row.ideal} {label(row.method)} {row.change:+.0f}" for row in trend.itertuples()),
        trend,
    )


def trends_by_definition(scored: ContextScores, claims: Sequence[Claim], verdicts: Sequence[str]) -> str:
    """How NDCG changes with K for a random order, and how many claimed trends hold under one definition alone.

    Args:
        claims, verdicts: the claims, each with its verdict.
    """
    random, first, last = scored.scores["random"], scored.cutoffs[0], scored.cutoffs[-1]
    chance = {ideal: random[ideal, last].mean() - random[ideal, first].mean() for ideal in ("ndcg", "ndcg_retrieved")}
    twins = pd.DataFrame(
        [
            (claim.metric, f"{claim.a} {claim.test}", verdict)
            for claim, verdict in zip(claims, verdicts, strict=True)
            if claim.about == "definition"
        ],
        columns=["metric", "trend", "verdict"],
    ).pivot(index="trend", columns="metric", values="verdict")
    decided = twins.isin(["reproduced", "contradicted"]).all(axis=1)
    split = int((decided & (twins["ndcg"] != twins["ndcg_retrieved"])).sum())
    return (
        f"A random order of the items, beside these: its NDCG changes by {number(chance['ndcg'], 1)} points under the "
        f"standard ideal and by {number(chance['ndcg_retrieved'], 1)} under the retrieved one. "
        f"Of the {len(twins)} trends that the paper claims, {split} {'is' if split == 1 else 'are'} reproduced under "
        "one definition and contradicted under the other"
        + (": they tell the definitions apart, not the methods." if split == len(twins) else ".")
    )


# ---- what it comes to


def main_finding(two: TableTwo) -> str:
    lead = two.scored.leads("all").iloc[0]
    finetuned = two.interval("finetuned") if "finetuned" in two.scored.methods else "–"
    return (
        f"LambdaMART-RRF finds **{two.interval('lambdamart_rrf')}%** of the relevant context in its first "
        f"{two.scored.k} results, LambdaMART without fusion **{two.interval('lambdamart')}%**, "
        f"fine-tuned search {finetuned}%, semantic search {two.interval('semantic')}%. "
        f"Highest overall: {label(lead['best'])}, by "
        f"{interval(lead['difference'], lead['ci_low'], lead['ci_high'])} points over {label(lead['second'])}; "
        "highest by kind, settled or not: "
        + ", ".join(f"{kind} queries {label(method)}" for kind, method in best_by_kind(two).items())
        + "."
    )
