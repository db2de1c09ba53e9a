"""Notebook 10's part on what is learned from one generator's queries and asked in another's words."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from lib.assistant.crossed_generators import (
    DISTINCT_TEXTS,
    METHODS,
    OTHER,
    SAME,
    SIDES,
    SIMULATOR,
    UNTRAINED,
    WRITER,
    Crossed,
    Transfer,
)
from lib.assistant.generators import DRAWS, shared_words
from lib.assistant.pages.common import shown_cell
from lib.workbook.display import Drawing, Table, legend_below, number
from lib.workbook.methods import label

LOOKS = {"": ("D", "#666666"), SIMULATOR: ("o", "#0072B2"), WRITER: ("s", "#D55E00")}
VARIETY = {"distinct_1": "distinct-1", "distinct_2": "distinct-2"}
LEFT_OUT = "This part is left out: the kept requests are of another world, and the profile names no `crossed_writer`."


def named(side: str, model: str) -> str:
    """Whose words they are, for readers."""
    return "the simulator's" if side == SIMULATOR else f"{model}'s"


def words_table(data: Crossed, varied: pd.DataFrame, model: str) -> Table:
    """What the requests are like in both wordings.

    Args:
        varied: see `requests_diversity`.
    """
    gold = data.world["gold"].set_index("query")["relevant"]
    text = data.world["items"].set_index("item")["text"]
    about, rows = [" ".join(text[list(gold[query])]) for query in data.texts["query"]], []
    counted = varied.set_index(["side", "measure"])
    for side in SIDES:
        row = {"requests in words of": named(side, model), "words": counted.loc[(side, "words"), "value"]}
        for measure, head in {DISTINCT_TEXTS: "different texts", **VARIETY}.items():
            row[f"{head}, %"] = counted.loc[(side, measure), "value"]
        rows.append(row | {"content words shared with the items, %": shared_words(data.texts[side], about)})
    others = "; the others got no usable answer" if len(data.texts) < data.asked else ""
    return Table(
        pd.DataFrame(rows),
        f"{len(data.texts)} requests about the same items, of {data.asked} that {model} was asked for{others}. Words: "
        f"of a request. Distinct-1 and distinct-2 at equal numbers of words: means of {DRAWS} draws; no interval says "
        f"how far another sample would differ. They are {varied['personas'].max()} personas' requests.",
        decimals=1,
        text_columns=["requests in words of"],
    )


def variety_sentence(varied: pd.DataFrame, model: str) -> str:
    """Whose requests are the more varied, of those that there are.

    Args:
        varied: see `requests_diversity`.
    """
    table = varied.pivot(index="measure", columns="side", values="value")
    values, texts = table.loc[list(VARIETY)], table.loc[DISTINCT_TEXTS]
    counts = {
        "less": int((values[WRITER] < values[SIMULATOR]).sum()),
        "more": int((values[WRITER] > values[SIMULATOR]).sum()),
    }
    (first, most), (second, fewest) = sorted(counts.items(), key=lambda count: -count[1])
    also = f" and {second} by {fewest}" if fewest else ""
    shares = ", ".join(
        f"{head} {row[WRITER]:.1f}% (the simulator's {row[SIMULATOR]:.1f}%)"
        for head, (_, row) in zip(VARIETY.values(), values.iterrows(), strict=True)
    )
    return (
        f"These requests of {model} are {first} varied than the simulator's by {most} of {len(VARIETY)} measures"
        f"{also}: {shares}. Different texts do not count ({texts[WRITER]:.1f}% beside {texts[SIMULATOR]:.1f}%): the "
        "simulator refuses to say a text twice."
    )


def examples_table(data: Crossed, model: str, number_of: int = 3) -> Table:
    """Some requests in both wordings, with the first relevant item, drawn with the seed."""
    some = data.texts.sample(min(number_of, len(data.texts)), random_state=data.seed)
    first = data.world["gold"].set_index("query")["relevant"].str[0]
    text = data.world["items"].set_index("item")["text"]
    frame = pd.DataFrame(
        {
            "the item": [text[first[query]] for query in some["query"]],
            **{named(side, model): some[side].to_numpy() for side in SIDES},
        }
    )
    return Table(frame, "Drawn with the seed.", text_columns=list(frame.columns))


def figure(found: Transfer, k: int, model: str) -> Drawing:
    """Recall of each method, asked in either wording, by what it learned from."""
    rows = [(method, asked) for method in METHODS for asked in SIDES]
    places = np.arange(len(rows))[::-1].astype(float)
    cells = found.values.set_index(["method", "learned", "asked"])
    drawn, axis = plt.subplots(figsize=(9, 4.8))
    for shift, (learned, (marker, colour)) in zip((0.22, 0.0, -0.22), LOOKS.items(), strict=True):
        keys = [(method if learned else UNTRAINED, learned, asked) for method, asked in rows]
        part = cells.loc[keys]
        errors = np.abs(part[["ci_low", "ci_high"]].to_numpy().T - part["value"].to_numpy())
        named_as = f"learned from {named(learned, model)}" if learned else f"{label(UNTRAINED)}, untrained"
        axis.errorbar(part["value"], places + shift, xerr=errors, fmt=marker, color=colour, capsize=3, label=named_as)
    names = [f"{label(method)},\nin {named(asked, model)} words" for method, asked in rows]
    axis.set(yticks=places, yticklabels=names, xlim=(0, 100))
    axis.set_xlabel(f"Recall@{k}, percent of {int(found.values['n'].max())} evaluation queries, with its 95% interval")
    legend_below(axis, 3)
    alt = f"Recall at {k}: " + "; ".join(
        f"{label(method)} asked in {named(asked, model)} words, learned from "
        + ", ".join(f"{named(side, model)} {number(cells.loc[(method, side, asked), 'value'], 1)}%" for side in SIDES)
        for method, asked in rows
    )
    return Drawing(drawn, "crossed_generators", served_words(found), f"{alt}.", found.values)


def table(found: Transfer, k: int, model: str) -> Table:
    """The same in numbers, with what learning from either generator's words adds."""
    cells = found.values.set_index(["method", "learned", "asked"])
    rows = []
    for method in METHODS:
        for own, other in ((SIMULATOR, WRITER), (WRITER, SIMULATOR)):
            rows.append(
                {
                    "method": label(method),
                    "asked in words of": named(own, model),
                    "untrained": shown_cell(cells.loc[(UNTRAINED, "", own)]),
                    "learned from the other": shown_cell(cells.loc[(method, other, own)]),
                    "learned from the same": shown_cell(cells.loc[(method, own, own)]),
                    "other − untrained": _change(found.test(method, own, OTHER)),
                    "same − other": _change(found.test(method, own, SAME)),
                }
            )
    return Table(
        pd.DataFrame(rows),
        f"Recall@{k} in percent of {int(found.values['n'].max())} evaluation queries, 95% intervals over personas and "
        f"needs; differences paired, in points, * settled (Holm over all {len(found.tests)}). Untrained is semantic "
        "search; LambdaMART sees the usage log, too.",
        text_columns=["method", "asked in words of"],
    )


def _change(row: pd.Series) -> str:
    return shown_cell(row, "difference") + ("*" if row["settled"] else "")


def served_words(found: Transfer) -> str:
    """In how many cases what is learned from the one generator serves the other."""
    rows = found.tests[found.tests["learned"] == OTHER]
    return (
        f"Trained on the other generator's queries, rankings beat semantic search in {_better(rows).sum()} of "
        f"{len(rows)} cases, settled"
    )


def _better(rows: pd.DataFrame) -> pd.Series:
    return rows["settled"].astype(bool) & (rows["difference"] > 0)


def finding(found: Transfer, k: int, model: str) -> str:
    """Whether what is learned from the one serves the other, and what learning from the same words adds; without a full
    stop."""
    others, same = (found.tests[found.tests["learned"] == learned] for learned in (OTHER, SAME))
    better, own = (
        [
            f"{label(row['method'])} in {named(row['asked'], model)} words {shown_cell(row, 'difference')}"
            for _, row in rows[_better(rows)].iterrows()
        ]
        for rows in (others, same)
    )
    low, high = (number(end, 1, sign=True) for end in (same["difference"].min(), same["difference"].max()))
    return (
        f"{served_words(found)}, at K = {k}"
        + (f" ({'; '.join(better)} points)" if better else "")
        + "; LambdaMART sees the usage log, which search does not; training on the same generator's instead changes "
        f"Recall@{k} by {low if low == high else f'{low} to {high}'} points, "
        + (f"settled for {'; '.join(own)}" if own else "none of it settled")
        + f", and up to {number(same['ci_high'].max(), 1)} points are not excluded"
    )
