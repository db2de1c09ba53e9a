"""What notebook 03_cot_augmentation shows: what is written, and what search finds with it.

`names` are everywhere the names of `names_of`, `writers` those of `cot` and `cot_distilled` that wrote.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from lib.assistant.pages.common import Scored, dots_by_kind, intervals, shown_tests, values_by_kind
from lib.generation.local import Usage
from lib.workbook.display import Drawing, Table, legend_below
from lib.workbook.methods import colour, label, marker

EXPERT = {"color": "#333333", "marker": "d"}  # no method, so no entry among the methods
WRITERS = ("cot", "cot_distilled")


def cot_frame(
    sample: pd.DataFrame, texts: Mapping[str, Sequence[str]], written_for: pd.DataFrame, for_training: Sequence[str]
) -> pd.DataFrame:
    """All CoTs as later notebooks read them: columns query, split, writer, text.

    Args:
        texts: of the writers alone; the last of them wrote for the training queries.
        written_for, for_training: training queries and their CoTs; may be empty.
    """
    parts = [
        pd.DataFrame({"query": sample["query"].to_numpy(), "split": "evaluation", "writer": name, "text": written})
        for name, written in texts.items()
    ]
    if len(written_for):
        training = {"query": written_for["query"].to_numpy(), "split": "training", "writer": [*texts][-1]}
        parts.append(pd.DataFrame(training | {"text": for_training}))
    return pd.concat(parts, ignore_index=True)


def usage_frame(usage: Mapping[tuple[str, str], Usage], writers: Sequence[str]) -> pd.DataFrame:
    """What the writers' CoTs took: columns writer, split, prompts, tokens_in, tokens_out, seconds.

    Args:
        usage: of each (split, writer), others too.
    """
    rows = [
        (name, split, used.prompts, used.tokens_in, used.tokens_out, used.seconds)
        for (split, name), used in usage.items()
        if name in writers
    ]
    return pd.DataFrame(rows, columns=["writer", "split", "prompts", "tokens_in", "tokens_out", "seconds"])


def examples_table(
    sample: pd.DataFrame, texts: Mapping[str, Sequence[str]], names: Mapping[str, str], authors: str, seed: int
) -> Table:
    """What each writer writes for one query of each kind, drawn at random, beside the expert's CoT.

    Args:
        sample: columns kind, text, cot (the expert's).
        texts: of the writers that are shown.
        authors: names of the models.
    """
    written = {names[name]: cots for name, cots in texts.items()}
    drawn = sample.assign(**written).groupby("kind", observed=True).sample(1, random_state=seed)
    return Table(
        drawn[["kind", "text", *written, "cot"]].rename(columns={"text": "query", "cot": "expert"}),
        f"CoTs by {authors} and the expert's.",
        text_columns=["query", "expert", *written],
    )


def names_of(writers: Sequence[str]) -> dict[str, str]:
    """Names of all rows: semantic search, the methods, the controls and the reference."""
    names = {name: label(name) for name in ("semantic", *writers)}
    if "cot_distilled" in writers:
        names["cot"] = "CoT, zero-shot"
    names |= {"expert": "expert's CoT (not a method)"}
    return names | {f"{name}_of_another": f"{names[name]}, of another query" for name in writers}


def caption(n: int, authors: str, encoder: str) -> str:
    """How the captions of the tables beside the published rows go on."""
    return (
        f"n = {n} queries; writer {authors}, encoder {encoder}. Paper: the rows Semantic Search and CoT Augmentation "
        "of the paper's Table 2, whose writer is GPT-4 and whose encoder is GTR-T5-XL, on its own data."
    )


def tests_table(tests: pd.DataFrame, names: Mapping[str, str], k: int, n: int) -> Table:
    """The paired comparisons."""
    return Table(
        shown_tests(tests, names)[["comparison", "difference", "p"]],
        f"Differences in Recall@{k}, percentage points with 95% intervals; n = {n}.",
        decimals=4,
    )


def gain_drawing(tests: pd.DataFrame, names: Mapping[str, str], writers: Sequence[str], k: int) -> Drawing:
    """What each CoT changes, as dots: filled for methods, hollow for controls and references.

    Args:
        tests: from `Scored.compare`.
    """
    against = tests[tests["b"] == "semantic"].set_index("a")
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
    points = zip(against.index, intervals(against, "difference"), strict=True)
    each = "; ".join(f"{names[name]}: {gain} points" for name, gain in points)
    alt = (
        f"Differences in Recall at {k} from semantic search with 95% intervals; filled: methods, hollow: controls and "
        f"references. {each}."
    )
    return Drawing(figure, "cot_gain", "What chains of thought change", alt, tests)


def _style(name: str, writers: Sequence[str]) -> dict:
    """Colour and marker of a writer, hollow for what is made from it and is no method."""
    if name in writers:
        return {"color": colour(name), "marker": marker(name)}
    base = name.removesuffix("_of_another")
    own = {"color": colour(base), "marker": marker(base)} if base in writers else EXPERT
    return {**own, "markerfacecolor": "white"}


def recall_by_kind(summary: pd.DataFrame, k: int) -> pd.DataFrame:
    """Recall at k in each kind of query, indexed by (method, kind)."""
    chosen = (summary["kind"] != "all") & (summary["metric"] == "recall") & (summary["k"] == k)
    return summary[chosen].set_index(["method", "kind"])


def kinds_drawing(cells: pd.DataFrame, drawn: Sequence[str], names: Mapping[str, str], scored: Scored) -> Drawing:
    """Recall by kind of query of semantic search, the writers and the expert.

    Args:
        cells: from `recall_by_kind`.
        drawn: semantic search, the writers and, where there is one, the expert.
    """
    k = scored.k
    figure, axis = plt.subplots(figsize=(8, 3.8))
    expert = {"fmt": EXPERT["marker"], "color": EXPERT["color"], "markerfacecolor": "white"}
    dots_by_kind(axis, cells, drawn, scored.counts, k, names, styles={"expert": expert})
    legend_below(axis, columns=len(drawn))
    alt = f"Recall at {k} by kind of query with 95% intervals. {values_by_kind(cells, drawn, scored.counts, names)}"
    return Drawing(figure, "cot_by_kind", "Recall by kind of query, with and without CoT", alt, cells.reset_index())
