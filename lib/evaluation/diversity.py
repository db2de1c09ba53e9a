"""How varied texts are. Such measures fall as texts are added, so samples are compared at equal numbers only."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import chain, islice

import numpy as np
import pandas as pd

MEASURES = ("distinct_titles", "distinct_1", "distinct_2", "words")
SIZES = (1, 2)  # of n-grams
TAIL = [2.5, 97.5]


def words_of(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def ngrams(texts: Sequence[str], n: int) -> list[tuple[str, ...]]:
    """All sequences of `n` words within a text, of all texts in order."""
    return [tuple(words[i : i + n]) for words in map(words_of, texts) for i in range(len(words) - n + 1)]


def distinct(grams: Iterable[tuple[str, ...]], first: int | None = None) -> float:
    """Distinct-n: different n-grams over all n-grams (Li et al., 2016, "A diversity-promoting objective function",
    section 5); with n = 1 the type-token ratio. NaN where there is none.

    Args:
        first: only so many n-grams count, the first ones.

    >>> distinct(ngrams(["a song", "a song again"], 1))
    0.6
    """
    counted = list(islice(grams, first))
    return len(set(counted)) / len(counted) if counted else float("nan")


def with_ngrams(texts: pd.DataFrame) -> pd.DataFrame:
    """Texts with a column for each of `SIZES`: lists of their n-grams, in order.

    Args:
        texts: column text.
    """
    table = texts.copy()
    for size in SIZES:
        table[size] = [ngrams([text], size) for text in texts["text"]]
    return table


def matched_diversity(
    ours: pd.DataFrame, theirs: pd.DataFrame, cells: Sequence[str], draws: int, seed: int
) -> pd.DataFrame:
    """The diversity of two sets of texts, each measured on as many of them and on as many n-grams.

    For each draw, as many texts of a cell are taken from either side as the side with fewer has there, in random order;
    distinct-n is over the first n-grams, as many as the side with fewer has.

    Args:
        ours, theirs: columns title, text and `cells`.
        cells: columns whose values must agree, such as the app.
        draws: samples to average over; where a side has no more texts than are taken, it is the same in each.
        seed: of the draws.

    Returns:
        columns side (ours, theirs), measure (of `MEASURES`; shares in percent, words a text), value (mean over draws),
        draws_low, draws_high (the middle 95% of draws: a point for a side of which all is taken; no interval, since
        they do not say how far another sample would differ), n (texts a draw); no row where no cell is in both.
    """
    sides = {"ours": with_ngrams(ours), "theirs": with_ngrams(theirs)}
    groups = {side: dict(list(frame.groupby(list(cells), sort=True))) for side, frame in sides.items()}
    shared = [cell for cell in groups["ours"] if cell in groups["theirs"]]
    rng = np.random.default_rng(seed)
    values: dict[tuple[str, str], list[float]] = {(side, measure): [] for side in sides for measure in MEASURES}
    n = sum(min(len(groups[side][cell]) for side in sides) for cell in shared)
    for _ in range(draws if n else 0):
        drawn = {}
        for side in sides:
            parts = []
            for cell in shared:
                size = min(len(groups[other][cell]) for other in sides)
                parts.append(groups[side][cell].iloc[rng.permutation(len(groups[side][cell]))[:size]])
            drawn[side] = pd.concat(parts).iloc[rng.permutation(n)]
        for size in SIZES:
            fewest = min(int(frame[size].str.len().sum()) for frame in drawn.values())
            for side, frame in drawn.items():
                values[side, f"distinct_{size}"].append(100 * distinct(chain.from_iterable(frame[size]), fewest))
        for side, frame in drawn.items():
            titles = frame["title"].str.lower().str.split().str.join(" ")
            values[side, "distinct_titles"].append(100 * titles.nunique() / n)
            values[side, "words"].append(float(frame[1].str.len().mean()))
    rows = [
        (side, measure, np.mean(drawn), *np.percentile(drawn, TAIL), n)
        for (side, measure), drawn in values.items()
        if drawn
    ]
    return pd.DataFrame(rows, columns=["side", "measure", "value", "draws_low", "draws_high", "n"])
