"""What notebook 03_cot_augmentation shows of search with chains of thought (CoT); see `cot_writers` for the CoTs.

`names` are everywhere the names of `names_of`, `writers` those of `cot` and `cot_distilled` that wrote, `against` what
`against_semantic` returns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from lib.assistant.pages.common import (
    Scored,
    capitalised,
    dots_by_kind,
    intervals,
    shown_cell,
    shown_tests,
    values_by_kind,
)
from lib.assistant.pages.cot_writers import TRAINING_OF
from lib.evaluation.inference import settled
from lib.workbook.display import Drawing, Table, legend_below, number
from lib.workbook.markup import plain
from lib.workbook.methods import colour, label, marker

EXPERT = {"color": "#333333", "marker": "d"}  # no method, so no entry among the methods


def names_of(writers: Sequence[str], other_types: str) -> dict[str, str]:
    """Names of all rows: semantic search, the methods, the controls and the reference.

    Args:
        other_types: name of the list of context types that the prompt of `cot_other_types` has.
    """
    names = {name: label(name) for name in ("semantic", *writers)}
    if "cot_distilled" in writers:
        names["cot"] = "CoT, zero-shot"
    names |= {"cot_other_types": f"{names['cot']}, types: {other_types}", "expert": "expert's CoT (not a method)"}
    return names | {f"{name}_of_another": f"{names[name]}, of another query" for name in writers}


def caption(n: int, authors: str, encoder: str) -> str:
    """How the captions of the tables beside the published rows go on."""
    return (
        f"n = {n} queries; writer {authors}, encoder {encoder}. Paper: the rows Semantic Search and CoT Augmentation "
        "of the paper's Table 2, whose writer is GPT-4 and whose encoder is GTR-T5-XL, on its own data."
    )


def with_verdicts(tests: pd.DataFrame) -> pd.DataFrame:
    """Tests with a last column `verdict`: higher, lower or not settled."""
    direction = np.where(tests["difference"] > 0, "higher", "lower")
    return tests.assign(verdict=np.where(settled(tests), direction, "not settled"))


def tests_table(tests: pd.DataFrame, names: Mapping[str, str], k: int, n: int) -> Table:
    """The paired comparisons with their verdicts."""
    return Table(
        shown_tests(tests, names)[["comparison", "difference", "p", "p, Holm", "verdict"]],
        f"Differences in Recall@{k}, percentage points with 95% intervals; n = {n}.",
        decimals=4,
    )


def against_semantic(tests: pd.DataFrame) -> pd.DataFrame:
    """The comparisons with semantic search, indexed by what is compared, with the gain in words in column `points`.

    Args:
        tests: from `with_verdicts`.
    """
    against = tests[tests["b"] == "semantic"].set_index("a")
    return against.assign(points=[f"{text} points" for text in intervals(against, "difference")])


def gain_drawing(
    tests: pd.DataFrame, names: Mapping[str, str], writers: Sequence[str], authors: str, k: int
) -> Drawing:
    """What each CoT changes, as dots: filled for methods, hollow for controls and references.

    Args:
        tests: from `with_verdicts`.
    """
    against = against_semantic(tests)
    figure, axis = plt.subplots(figsize=(8, 0.5 * len(against) + 1.4))
    place = np.arange(len(against))[::-1]
    for at, (name, row) in zip(place, against.iterrows(), strict=True):
        axis.errorbar(
            row["difference"],
            at,
            xerr=[[row["difference"] - row["ci_low"]], [row["ci_high"] - row["difference"]]],
            markersize=8,
            capsize=3,
            **_style(name, writers),
        )
    axis.axvline(0, color=colour("semantic"), linewidth=1.5)
    axis.set(
        yticks=place,
        yticklabels=[names[name] for name in against.index],
        xlabel=f"Recall@{k} minus semantic search, percentage points (bars: 95% interval; hollow: no method)",
    )
    finding = f"CoT by {authors} changes Recall@{k} of semantic search by " + " and ".join(
        f"{against.loc[name, 'points']} {TRAINING_OF[name]} ({against.loc[name, 'verdict']})" for name in writers
    )
    each = "; ".join(f"{names[row.Index]}: {row.points}, {row.verdict}" for row in against.itertuples())
    alt = (
        f"Differences in Recall at {k} from semantic search with 95% intervals; filled: methods, hollow: controls and "
        f"references. {each}."
    )
    return Drawing(figure, "cot_gain", finding, alt, tests)


def _style(name: str, writers: Sequence[str]) -> dict:
    """Colour and marker of a writer, hollow for what is made from it and is no method."""
    if name in writers:
        return {"color": colour(name), "marker": marker(name)}
    base = name.removesuffix("_of_another").replace("cot_other_types", "cot")
    own = {"color": colour(base), "marker": marker(base)} if base in writers else EXPERT
    return {**own, "markerfacecolor": "white"}


def gain_in_words(
    against: pd.DataFrame, writers: Sequence[str], authors: str, k: int, n: int, published: pd.Series
) -> str:
    """What the CoTs change, beside what the paper's change.

    Args:
        published: the published rows by (method, metric, k), from `printed_values`.
    """
    ours = " and ".join(
        f"{against.loc[name, 'points']} with the {TRAINING_OF[name]} writer ({against.loc[name, 'verdict']})"
        for name in writers
    )
    said = f"CoT moves Recall@{k} of semantic search by {ours} (n = {n}, {plain(authors)})"
    printed = published.get(("cot", "recall", k), np.nan) - published.get(("semantic", "recall", k), np.nan)
    return f"{said}; the paper's GPT-4 moves it by {printed:+.1f}." if printed == printed else f"{said}."


def controls_in_words(against: pd.DataFrame, writers: Sequence[str]) -> str:
    """What the CoT of another query and the expert's change; empty where neither was tried."""
    sentences = [
        f"Taken from another query, the CoT of the {TRAINING_OF[name]} writer moves it by {row['points']} "
        f"({row['verdict']})."
        for name in writers
        if f"{name}_of_another" in against.index
        for row in [against.loc[f"{name}_of_another"]]
    ]
    if "expert" in against.index:
        expert = against.loc["expert"]
        sentences.append(
            f"The expert's CoT moves it by {expert['points']} ({expert['verdict']}): it was written beforehand for the "
            "need behind the query, without knowing where this persona keeps its items; for habit queries it does not "
            "name the matter."
        )
    return " ".join(sentences)


def recall_by_kind(summary: pd.DataFrame, k: int) -> pd.DataFrame:
    """Recall at k in each kind of query, indexed by (method, kind)."""
    chosen = (summary["kind"] != "all") & (summary["metric"] == "recall") & (summary["k"] == k)
    return summary[chosen].set_index(["method", "kind"])


def kinds_drawing(
    cells: pd.DataFrame, drawn: Sequence[str], names: Mapping[str, str], scored: Scored, tests: pd.DataFrame
) -> Drawing:
    """Recall by kind of query of semantic search, the writers and the expert.

    Args:
        cells: from `recall_by_kind`.
        drawn: semantic search, the writers and, where there is one, the expert.
        tests: of these against semantic search, from `Scored.compare_by_kind`.
    """
    k = scored.k
    figure, axis = plt.subplots(figsize=(8, 3.8))
    expert = {"fmt": EXPERT["marker"], "color": EXPERT["color"], "markerfacecolor": "white"}
    dots_by_kind(axis, cells, drawn, scored.counts, k, names, styles={"expert": expert})
    legend_below(axis, columns=len(drawn))
    last = [name for name in drawn if name in TRAINING_OF][-1]
    sure = tests[settled(tests) & (tests["a"] == last)].set_index("kind")["difference"]
    finding = f"{label(last)} settledly changes Recall@{k} for no kind of query"
    if len(sure):
        finding = f"{label(last)} changes Recall@{k}, in points, by " + ", ".join(
            f"{number(points, 0, sign=True)} for {kind} queries" for kind, points in sure.items()
        )
    alt = f"Recall at {k} by kind of query with 95% intervals. {values_by_kind(cells, drawn, scored.counts, names)}"
    return Drawing(figure, "cot_by_kind", finding, alt, cells.reset_index())


def kinds_table(tests: pd.DataFrame, names: Mapping[str, str], k: int) -> Table:
    """What each CoT changes in each kind of query.

    Args:
        tests: from `Scored.compare_by_kind`.
    """
    difference = "difference from semantic search"
    return Table(
        shown_tests(tests, names, difference)[["kind", "method", difference, "p", "p, Holm"]],
        f"Recall@{k} with CoT minus without, percentage points with 95% intervals, Holm over this table.",
        decimals=4,
    )


def settled_by_kind(tests: pd.DataFrame, names: Mapping[str, str]) -> str:
    """Which of the differences by kind are settled."""
    sure = tests[settled(tests)]
    which = "; ".join(f"{names[row.a]}, {row.kind} queries" for row in sure.itertuples())
    return (
        f"{len(sure)} of these {len(tests)} differences {'is' if len(sure) == 1 else 'are'} settled"
        f"{f': {which}' if which else ''}."
    )


def tests_of_parts(dissected: Sequence[str], scored: Scored) -> pd.DataFrame:
    """The whole CoT, its names of types alone and its other words, each against semantic search.

    Args:
        dissected: rows whose parts are the rows with `_names` and `_words` at the end.

    Returns:
        columns of `compare`, name (of the row), part (of its CoT) and recall (percent, with that part).
    """
    parts = {"": "whole", "_names": "names of types only", "_words": "all but these names"}
    tests = scored.compare([(f"{name}{ending}", "semantic") for name in dissected for ending in parts])
    return tests.assign(
        name=np.repeat(list(dissected), len(parts)),
        part=[*parts.values()] * len(dissected),
        recall=[scored.table[a, "recall", scored.k].mean() for a in tests["a"]],
    )


def parts_table(tests: pd.DataFrame, names: Mapping[str, str], k: int, n: int) -> Table:
    """Recall with each part of a CoT.

    Args:
        tests: from `tests_of_parts`.
    """
    frame = pd.DataFrame(
        {
            "what is added": tests["name"].map(names) + ": " + tests["part"],
            f"Recall@{k}": tests["recall"].map("{:.1f}".format),
            "minus semantic search": intervals(tests, "difference"),
            "p": tests["p_value"],
            "p, Holm": tests["p_holm"],
        }
    )
    return Table(
        frame,
        f"Recall@{k} in percent when a part of the CoT is added to the query, and the difference from the query alone "
        f"in percentage points with 95% intervals; n = {n}.",
        decimals=4,
    )


def parts_in_words(tests: pd.DataFrame, names: Mapping[str, str], k: int) -> str:
    """What each part of a CoT changes.

    Args:
        tests: from `tests_of_parts`.
    """
    points = tests.assign(points=[number(value, 1) for value in tests["difference"]])
    points = points.pivot(index="name", columns="part", values="points").loc[tests["name"].unique()]
    return " ".join(
        f"{capitalised(names[name])} moves Recall@{k} by {row['whole']} points as a whole, by "
        f"{row['names of types only']} with the names of types alone and by {row['all but these names']} with all but "
        "these names."
        for name, row in points.iterrows()
    )


def is_it_a_ceiling(cut: pd.Series) -> str:
    """Whether the expert's CoT finds less than without the names of types.

    Args:
        cut: the test of the expert's words against the expert's CoT, from `compare`.
    """
    said = (
        "Leaving the names of types out changes what the expert's whole CoT finds by "
        f"{shown_cell(cut, 'difference')} points"
    )
    return f"{said}: the expert's CoT is no ceiling." if cut["ci_low"] > 0 else f"{said}."


def extremes_table(
    table: pd.DataFrame,
    texts: Mapping[str, Sequence[str]],
    sample: pd.DataFrame,
    items: pd.DataFrame,
    k: int,
    seed: int,
) -> Table:
    """For each writer the two queries that gain and the two that lose most NDCG; ties are broken by a seeded draw.

    Args:
        table: scores, rows in the order of `sample`; see `per_query_scores`.
        texts: CoTs of each writer, in the order of `sample`.
        sample: columns text, relevant.
        items: columns item, text.
        k: cutoff of the NDCG.
    """
    text_of, parts = items.set_index("item")["text"], []
    for name, written in texts.items():
        change = (table[name, "ndcg", k] - table["semantic", "ndcg", k]).to_numpy()
        everyone = pd.DataFrame(
            {
                "method": label(name),
                "query": sample["text"].to_numpy(),
                "CoT": written,
                "relevant items": ["\n".join("• " + text_of[list(relevant)]) for relevant in sample["relevant"]],
                "change": change,
            }
        ).sample(frac=1, random_state=seed)
        extremes = pd.concat([everyone.nlargest(2, "change"), everyone.nsmallest(2, "change").iloc[::-1]])
        parts.append(extremes[~extremes.index.duplicated()])
    return Table(
        pd.concat(parts, ignore_index=True),
        f"Largest gains and losses in NDCG@{k}, percentage points.",
        decimals=0,
        text_columns=["query", "CoT", "relevant items"],
    )
