"""Seconds that a model takes to read and to write a token, free and under a grammar, measured side by side.

What answers took says little beside each other: they were asked in batches, at other times, perhaps on other machines.
So the same prompts are asked again in one warm loop, one at a time, in turn for one token, for a free answer and for a
constrained one; an answer's seconds are its tokens times these rates. Ways are then compared like with like, and as one
user who waits sees them; in a batch masks take a larger share, since the model's steps are shared and they are not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from lib.generation.local import LocalModel
from lib.workflows.ablation import STOPS
from lib.workflows.catalogue import Catalogue
from lib.workflows.grammars import flow_grammar
from lib.workflows.repair_asking import Asking
from lib.workflows.repair_ways import HELD


class Rates(NamedTuple):
    """Of one model, in seconds a token.

    Attributes:
        reading, writing, held: reading, writing freely, writing under the grammar.
        prompts: so many were timed.
        more: held / writing − 1 with its 95% interval, from a bootstrap over the prompts.
    """

    reading: float
    writing: float
    held: float
    prompts: int
    more: tuple[float, float, float]


def measured_rates(
    prompts: pd.DataFrame,
    models: Mapping[str, LocalModel],
    catalogue: Catalogue,
    asking: Asking,
    each: int,
    samples: int = 2000,
) -> dict[str, Rates]:
    """The rates of each generator, over the first prompts of each of its models and test sets.

    Args:
        prompts: of `lib.workflows.repair_asking.all_first_prompts`.
        models: by name, as in `prompts`; kept answers are not read.
        each: prompts of each model and test set; one is asked before, so that nothing is loaded while the clock runs.
        samples: of the bootstrap.

    Returns:
        {generator: rates}.
    """
    times: dict[str, list[np.ndarray]] = {}
    for name, part in prompts.groupby("model", sort=False):
        generator = str(name).split("-")[0]
        grammar = flow_grammar(catalogue, stop=STOPS[generator])
        asked = part.groupby("test_set", sort=False)["prompt"].head(each).tolist()
        timed = _timed(asked, models[str(name)].without_cache(), grammar, STOPS[generator], asking.max_new_tokens)
        times.setdefault(generator, []).append(timed)
    return {generator: _rates(np.concatenate(parts), samples, asking.seed) for generator, parts in times.items()}


def _timed(prompts: Sequence[str], model: LocalModel, grammar: str, stop: Sequence[str], most: int) -> np.ndarray:
    """(prompts, 3, 3): for one token, a free and a constrained answer: tokens read, tokens written, seconds."""
    rows = []
    for prompt in [prompts[0], *prompts]:
        row = []
        for length, held in ((1, None), (most, None), (most, grammar)):
            model.generate([prompt], max_new_tokens=length, stop=stop, grammars=held)
            cost = model.costs[0]
            row.append((cost.tokens_in, cost.tokens_out, cost.seconds))
        rows.append(row)
    return np.array(rows[1:], dtype=float)


def _rates(timed: np.ndarray, samples: int, seed: int) -> Rates:
    reading, writing, held = _of_totals(timed.sum(axis=0))
    drawn = np.random.default_rng(seed).integers(len(timed), size=(samples, len(timed)))
    ratios = [
        held / writing - 1 for _, writing, held in (_of_totals(timed[rows].sum(axis=0)) for rows in drawn) if writing
    ]
    low, high = np.quantile(ratios, [0.025, 0.975]) if ratios else (np.nan, np.nan)
    more = held / writing - 1 if writing else np.nan
    return Rates(reading, writing, held, len(timed), (more, float(low), float(high)))


def _of_totals(totals: np.ndarray) -> tuple[float, float, float]:
    """Reading, writing and held, of (3, 3): tokens read, tokens written and seconds of the three kinds of answer."""
    first, free, held = totals

    def writing(answers: np.ndarray) -> float:
        return max(0.0, answers[2] - first[2]) / max(1.0, answers[1] - first[1])

    return max(0.0, first[2] - writing(free) * first[1]) / first[0], writing(free), writing(held)


def at_rates(answers: pd.DataFrame, rates: Mapping[str, Rates]) -> pd.DataFrame:
    """Answers with the seconds that their tokens take.

    Args:
        answers: of `lib.workflows.repair_asking.ask_all`.
        rates: by generator.
    """
    of_model = pd.DataFrame({name: rate[:3] for name, rate in rates.items()}, index=Rates._fields[:3]).T
    of_model = of_model.loc[answers["model"]]
    writing = np.where(answers["way"] == HELD, of_model["held"], of_model["writing"])
    seconds = answers["tokens_in"] * of_model["reading"].to_numpy() + answers["tokens_out"] * writing
    return answers.assign(seconds=seconds)


def rates_table(rates: Mapping[str, Rates]) -> pd.DataFrame:
    """`rates` as a frame: model, reading_ms, writing_ms, held_ms (a token), prompts, more, more_low, more_high (percent
    that a token takes longer under the grammar)."""
    rows = [
        (name, *(1000 * rate for rate in one[:3]), one.prompts, *(100 * end for end in one.more))
        for name, one in rates.items()
    ]
    columns = ["model", "reading_ms", "writing_ms", "held_ms", "prompts", "more", "more_low", "more_high"]
    return pd.DataFrame(rows, columns=columns)
