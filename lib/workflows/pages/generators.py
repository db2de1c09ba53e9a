"""Tables and sentence of notebook 10, the workflows' half: requests that a language model writes for flows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from lib.evaluation.diversity import distinct, ngrams
from lib.evaluation.inference import percent
from lib.workbook.display import Table, interval
from lib.workbook.markup import plain
from lib.workflows.written_requests import REASONS


def requests_table(requests: Mapping[str, Sequence[str]], ranks: Mapping[str, np.ndarray], n_flows: int) -> Table:
    """Requests for the same flows by who wrote them, and where search ranks the right flow.

    Args:
        requests: texts by name of the writer; as many of each, one at least.
        ranks: of each text's flow among all, from 1, by the same names.
        n_flows: that are searched.
    """
    words = {name: ngrams(texts, 1) for name, texts in requests.items()}
    fewest, rows = min(map(len, words.values())), []
    for name, texts in requests.items():
        first, five = (interval(*percent((ranks[name] <= k).sum(), len(texts)), 0) for k in (1, 5))
        rows.append(
            {
                "requests by": name,
                "requests": len(texts),
                "words": len(words[name]) / len(texts),
                "distinct-1, %": 100 * distinct(words[name], fewest),
                "right flow first, %": first,
                "among the first 5, %": five,
            }
        )
    return Table(
        pd.DataFrame(rows),
        f"Requests for the same flows, and where search ranks the right flow among {n_flows}; 95% Wilson intervals. By "
        f"chance {100 / n_flows:.1f}% and {500 / n_flows:.1f}%. Distinct-1 over the first {fewest:,} words of each.",
        decimals=1,
    )


def written_sentence(counts: pd.Series, writer: str) -> str:
    """How many requests the model wrote, and why answers were refused.

    Args:
        counts: of one split, as `lib.workflows.written_requests.write_requests` returns them.
    """
    refused = ", ".join(f"{reason} {counts[reason]}" for reason in REASONS if counts[reason]) or "none"
    return (
        f"{plain(writer)} wrote {counts['at_once'] + counts['repaired']} of {counts['pairs']} requests "
        f"({counts['at_once']} at once, {counts['repaired']} after being told what was wrong); of {counts['answers']} "
        f"answers, refused were: {refused}."
    )


def example_table(pair: pd.Series, written: str, writer: str) -> Table:
    """A flow with the simulator's request and the model's.

    Args:
        pair: dsl, request.
        written: the model's request.
    """
    texts = [pair["dsl"], pair["request"], written]
    shown = pd.DataFrame({"": ["the flow", "the simulator", writer], "text": texts})
    return Table(shown, "The first flow with a written request.", text_columns=["text"])
