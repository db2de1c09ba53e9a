"""What notebook 04_finetuned_search shows of the two methods that compare query and item more closely: a cross-encoder
and late interaction (`lib.assistant.interaction_training`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from lib.assistant.interaction_training import CROSS, DEPTH, LATE, READERS, method_of
from lib.assistant.pages import finetuned_search
from lib.assistant.pages.common import (
    METRICS,
    Scored,
    dots_by_kind,
    intervals,
    settled_comparisons,
    shown_cell,
    values_by_kind,
)
from lib.assistant.retrained import FILE, WITHOUT, Retraining
from lib.evaluation.comparison import per_query_scores
from lib.evaluation.inference import settled
from lib.workbook.display import Drawing, Table, legend_below
from lib.workbook.methods import label
from lib.workbook.trained import Adapter

METHODS = ("semantic", "finetuned", CROSS, LATE)
FRESH = ("finetuned_unseen_needs", *(method_of(reader) for reader in READERS[2:]))  # their models never met the need
ON_HELD_OUT = (*METHODS, *FRESH)


def learned_table(adapters: Mapping[str, Adapter]) -> Table:
    """What each reader learned from, and where.

    Args:
        adapters: by reader.
    """
    rows = [
        {
            "model": label(method_of(reader)),
            "queries": adapter.rows,
            "tokens": adapter.tokens,
            "loss, first tenth": _tenth(adapter.curve["loss"]),
            "loss, last tenth": _tenth(adapter.curve["loss"][::-1]),
            "seconds": round(adapter.seconds),
            "where": ("with the project: " if adapter.shipped else "here: ") + adapter.device,
        }
        for reader, adapter in adapters.items()
    ]
    return Table(
        pd.DataFrame(rows),
        "What was trained: queries, each once with a relevant item and hard negatives; tokens read; loss in nats; "
        "seconds of training, and where.",
        text_columns=["model", "where"],
    )


def _tenth(losses: pd.Series) -> float:
    return losses.head(max(1, len(losses) // 10)).mean()


def closer(scored: Scored, runs: Mapping[str, pd.DataFrame], qrels: pd.DataFrame) -> tuple[Scored, np.ndarray]:
    """With the columns of the readers, and those of models that never met a query's need on all queries that they rank;
    and which queries all of these rank, as bools.

    Args:
        scored: the methods without the readers.
        runs: rankings by method.
        qrels: columns query, item.
    """
    names = [name for name in ON_HELD_OUT if name in runs and name not in ("semantic", "finetuned")]
    table, never_met = scored.table, scored.everyone
    there = [name for name in names if name in table.columns.get_level_values("method")]
    table = table.drop(columns=there, level="method")
    for name in names:
        ranked = table.index.isin(runs[name]["query"])
        if ranked.any():
            table = table.join(
                per_query_scores({name: runs[name]}, qrels, table.index[ranked].tolist(), scored.cutoffs)
            )
        if name in FRESH:
            never_met &= ranked
    return replace(scored, table=table), never_met & any(name in FRESH for name in names)


def samples_of(scored: Scored, is_unseen: np.ndarray) -> dict[str, finetuned_search.Sample]:
    """`METHODS` on all queries, and on those that models rank which never met their need, all that are scored there.

    Args:
        scored: with the columns of the readers; those of methods that were not trained are missing.
        is_unseen: whether each query is ranked by models that never met its need.
    """
    samples = {"all": finetuned_search.Sample(scored.everyone, _scored(scored, METHODS))}
    if is_unseen.any():
        samples["unseen_needs"] = finetuned_search.Sample(is_unseen, _scored(scored, ON_HELD_OUT))
    return samples


def summary_of(scored: Scored, is_unseen: np.ndarray) -> pd.DataFrame:
    """Values with intervals, see `lib.assistant.pages.finetuned_search.summary_of`, on `samples_of`."""
    return finetuned_search.summary_of(scored, samples_of(scored, is_unseen)).reset_index(drop=True)


def _scored(scored: Scored, methods: Sequence[str]) -> list[str]:
    there = set(scored.table.columns.get_level_values("method"))
    return [method for method in methods if method in there]


def kinds_drawing(summary: pd.DataFrame, scored: Scored, tests: pd.DataFrame) -> Drawing:
    """Recall by kind of query.

    Args:
        summary: from `summary_of`.
        tests: from `tests_of`.
    """
    k, counts, methods = scored.k, scored.counts, _scored(scored, METHODS)
    data = summary[(summary["sample"] == "all") & (summary["metric"] == "recall") & (summary["k"] == k)]
    cells = data.set_index(["method", "kind"])
    figure, axis = plt.subplots(figsize=(8, 3.8))
    dots_by_kind(axis, cells, methods, counts, k, gap=0.16)
    legend_below(axis, columns=4)
    of_kinds = tests[(tests["sample"] == "all") & (tests["kind"] != "all") & (tests["b"] == "finetuned")]
    above = of_kinds[settled(of_kinds) & (of_kinds["difference"] > 0)]
    who = "; ".join(f"{label(row.a)}, {row.kind} queries" for row in above.itertuples())
    finding = f"Settledly above fine-tuned search: {who or 'neither closer reader, for any kind of query'}"
    alt = f"Recall at {k} by kind of query: {values_by_kind(cells, methods, counts)}."
    return Drawing(figure, "reading_by_kind", finding, alt, data)


def kinds_table(summary: pd.DataFrame, scored: Scored, metric: str) -> Table:
    """A metric at the first K by kind of query.

    Args:
        summary: from `summary_of`.
        metric: recall or ndcg.
    """
    rows = summary[(summary["sample"] == "all") & (summary["metric"] == metric) & (summary["k"] == scored.k)]
    cells, kinds = rows.set_index(["method", "kind"]), ["all", *scored.counts]
    methods = _scored(scored, METHODS)
    frame = pd.DataFrame({"method": [label(method) for method in methods]})
    for kind in kinds:
        frame[kind] = intervals(cells.loc[[(method, kind) for method in methods]])
    title = METRICS[metric].replace("@K", f"@{scored.k}")
    caption = f"{title} in percent by kind of query, 95% intervals, n = {scored.n}."
    return Table(frame, caption, best=dict.fromkeys(kinds, "max"))


def tests_of(scored: Scored, is_unseen: np.ndarray) -> pd.DataFrame:
    """Both methods against search, pretrained and fine-tuned: on all queries, in each kind, and where nothing was
    trained on a query's need. A family of their own: Holm over all of them.

    Returns:
        columns of `compare`, kind, sample, n; without a row where nothing was trained.
    """
    family = [
        (kind, "all", method, other)
        for kind in ("all", *scored.counts)
        for method in (CROSS, LATE)
        for other in ("semantic", "finetuned")
    ]
    family += [
        ("all", "unseen_needs", method, other)
        for method in FRESH
        for other in ("semantic", FRESH[0])
        if method != other
    ]
    return finetuned_search.paired_tests(scored, samples_of(scored, is_unseen), family)


def tests_figure(tests: pd.DataFrame, k: int) -> Drawing:
    """`lib.assistant.pages.finetuned_search.paired_figure` of this family, from `tests_of`."""
    return finetuned_search.paired_figure(tests, k, "reading_tests", "needs never met")


def held_out_table(summary: pd.DataFrame, k: int) -> Table | None:
    """The methods on needs that were left out of training, trained with them and without; None where no query asks
    about one.

    Args:
        summary: from `summary_of`.
    """
    rows = summary[(summary["sample"] == "unseen_needs") & (summary["k"] == k)]
    if rows.empty:
        return None
    cells = rows.set_index(["metric", "method"])
    methods = list(dict.fromkeys(rows["method"]))
    frame = pd.DataFrame({"method": [label(method) for method in methods]})
    for metric, title in METRICS.items():
        frame[title.replace("@K", f"@{k}")] = intervals(cells.loc[[(metric, method) for method in methods]])
    return Table(
        frame,
        "Evaluation queries, each asked of models trained with its need and, “needs held out”, of models that never "
        f"met it: n = {rows['n'].max()}; percent, 95% intervals.",
    )


def folds_in_words(retraining: Retraining, retrained: pd.DataFrame, from_project: bool, never_met: np.ndarray) -> str:
    """Which queries are asked of models that never met their needs, and where those models' rankings are from.

    Args:
        retrained: rankings of `lib.assistant.retrained`.
        from_project: whether they were kept with the project.
        never_met: of `closer`.
    """
    asked = f"{never_met.sum():,} of {len(never_met):,} evaluation queries"
    if not retrained["variant"].str.startswith(WITHOUT).any():
        return (
            f"Only the held-out needs are left out here, those of {asked}: the kept rankings of five folds are of "
            "another world, and `retrain_text_search` is off."
        )
    where = (
        f"what their models rank first was computed once and is kept with the project ({FILE.name})"
        if from_project
        else "their models were trained here"
    )
    return (
        f"{asked} are ranked by models that met no query of their need, over {1 + len(retraining.folds)} folds of "
        f"needs. The first fold are the held-out needs; of the others {where}."
    )


def writers_in_words(rewritten: pd.DataFrame, from_project: bool) -> str:
    """Where the rankings by writers of chains of thought that were trained once more are from.

    Args:
        rewritten: rankings of `lib.assistant.retrained_writers`.
        from_project: whether they were kept with the project.
    """
    if rewritten.empty:
        return "No writer of chains of thought was trained once more here: `retrain_writers` does so."
    writers = rewritten["variant"].nunique()
    if from_project:
        return f"Writers of chains of thought were trained {writers} more times; rankings with these are kept, too."
    return f"Writers of chains of thought were trained {writers} more times here."


def in_words(tests: pd.DataFrame, relevant_in_shortlist: float) -> str:
    """What the comparisons over all queries say, those of models that never met the need, and what no reranking could
    reach.

    Args:
        tests: from `tests_of`.
        relevant_in_shortlist: share of the relevant items that the cross-encoder is shown, 0 to 1.
    """
    overall, fresh = (
        tests[(tests["sample"] == sample) & (tests["kind"] == "all")] for sample in ("all", "unseen_needs")
    )
    of_fresh = f" Where no training query told of the need, {settled_comparisons(fresh)}" if len(fresh) else ""
    return (
        f"Over all queries {settled_comparisons(overall)}{of_fresh} The first {DEPTH} of the pretrained search hold "
        f"{100 * relevant_in_shortlist:.0f}% of the relevant items: the cross-encoder can lift no other."
    )


def control_scores(
    scored: Scored, swapped: Mapping[str, pd.DataFrame], floor: pd.DataFrame, qrels: pd.DataFrame
) -> pd.DataFrame:
    """Scores at the first K of a random order, of both methods, and of these with another persona's query, on the
    queries of the control.

    Args:
        scored: with the columns of both methods.
        swapped: from `lib.assistant.interaction_training.rank_for_others`, at least one ranking.
        floor: scores of a random order, method `random`, one row for each query of `scored`.
        qrels: columns query, item.
    """
    names = scored.table.index[scored.table.index.isin(next(iter(swapped.values()))["query"])].tolist()
    right = scored.table.loc[names, _scored(scored, (CROSS, LATE))]
    right = right.loc[:, right.columns.get_level_values("k") == scored.k]
    return floor.loc[names].join(right).join(per_query_scores(swapped, qrels, names, [scored.k]))


def controls_table(summary: pd.DataFrame, k: int, n: int) -> Table:
    """Recall with the right query and with another persona's.

    Args:
        summary: Recall at k: columns method (a method, and for the control its name with `_swapped`, and random),
            value, ci_low, ci_high.
        n: queries.
    """
    names = [
        f"{label(name.removesuffix('_swapped'))}, query of another persona" if name.endswith("_swapped")
        else "random order (expectation)" if name == "random" else label(name)
        for name in summary["method"]
    ]  # fmt: skip
    return Table(
        pd.DataFrame({"ranking": names, f"Recall@{k}": intervals(summary)}),
        f"Control: Recall@{k} in percent, 95% intervals, n = {n} queries drawn at random.",
    )


def finding(tests: pd.DataFrame, summary: pd.DataFrame, k: int) -> str:
    """What both methods find beside fine-tuned search; empty where nothing was trained."""
    if tests.empty:
        return ""
    rows = summary[(summary["sample"] == "all") & (summary["kind"] == "all") & (summary["metric"] == "recall")]
    cells = rows[rows["k"] == k].set_index("method")
    against = tests[(tests["sample"] == "all") & (tests["kind"] == "all") & (tests["b"] == "finetuned")]
    each = "; ".join(
        f"{label(row['a'])} {cells.loc[row['a'], 'value']:.1f}% ({shown_cell(row, 'difference')} points from "
        f"fine-tuned search, {'settled' if sure else 'not settled'})"
        for (_, row), sure in zip(against.iterrows(), settled(tests)[against.index], strict=True)
    )
    fresh = tests[(tests["sample"] == "unseen_needs") & (tests["a"] == FRESH[0]) & (tests["b"] == "semantic")]
    never_told = "".join(
        f" Where no training query told of the need, fine-tuned search adds {shown_cell(row, 'difference')} points to "
        f"the pretrained one ({'settled' if sure else 'not settled'})."
        for (_, row), sure in zip(fresh.iterrows(), settled(tests)[fresh.index], strict=True)
    )
    return (
        f"Reading query and item together, tuned with LoRA, finds in its first {k} results: {each}. Fine-tuned search "
        f"trains all weights, and the cross-encoder reranks {DEPTH} results of the pretrained one.{never_told}"
    )
