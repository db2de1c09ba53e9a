"""Notebook 12: what compressed prompts save in tokens, and what that does to the flows written from them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from lib.evaluation.inference import bootstrap_interval, settled
from lib.evaluation.prices import REQUESTS, Price, dollars
from lib.evaluation.rates import paired_deltas, rates_with_intervals
from lib.workbook.display import Table, interval
from lib.workflows.ablation import DELTAS
from lib.workflows.compression import WAYS, WHOLE
from lib.workflows.pages.common import METRIC, SETTLED, intervals, metric_intervals, p_values
from lib.workflows.scoring import PERCENT, executed_outcomes, outcomes

MEASURED = ("similarity", "executed")


def saved_tokens(lengths: pd.DataFrame, samples: int, seed: int) -> pd.DataFrame:
    """What each way saves of the whole prompts' tokens.

    Args:
        lengths: of `lib.workflows.compression.prompt_lengths`.
        samples, seed: of the bootstrap over requests.

    Returns:
        one row a number of few-shots and way: shots, way, tokens, tokens_low, tokens_high (means), saved, saved_low,
        saved_high (percent of the whole prompts' mean), shown (few-shots), dropped (few-shots that did not fit, in
        all), n.
    """
    rows = []
    for shots, part in lengths.groupby("shots", sort=False):
        by_way = {way: one.set_index("pair") for way, one in part.groupby("way", sort=False)}
        whole = by_way[WHOLE]["tokens"]
        for way, one in by_way.items():
            tokens = one["tokens"].loc[whole.index]
            low, high = bootstrap_interval(tokens.to_numpy(float), [whole.index], samples, seed)
            less = (whole - tokens).to_numpy(float)
            ends = bootstrap_interval(less, [whole.index], samples, seed)
            saved, first, last = (100 * value / whole.mean() for value in (less.mean(), *ends))
            rows.append((shots, way, tokens.mean(), low, high, saved, first, last, one["shown"].mean(),
                         one["dropped"].sum(), len(whole)))  # fmt: skip
    columns = [
        "shots",
        "way",
        "tokens",
        "tokens_low",
        "tokens_high",
        "saved",
        "saved_low",
        "saved_high",
        "shown",
        "dropped",
        "n",
    ]
    return pd.DataFrame(rows, columns=columns)


def saved_table(saved: pd.DataFrame) -> Table:
    """`saved_tokens` for readers."""
    frame = pd.DataFrame(
        {
            "few-shots": saved["shots"],
            "prompt": saved["way"],
            "tokens": intervals(saved, ["tokens", "tokens_low", "tokens_high"], 0),
            "saved, %": intervals(saved, ["saved", "saved_low", "saved_high"], 1),
            "few-shots shown": saved["shown"].round(1),
            "few-shots that did not fit": saved["dropped"].astype(int),
        }
    )
    caption = (
        f"Tokens of {saved['n'].max():,} test requests' prompts with FD, whole and compressed: definitions without "
        "descriptions of keys, few-shots with three dots in place of each text in their calls, and few-shots without "
        "the calls that a nearer one shows. Saved: of the whole prompts' mean. 95% intervals over requests."
    )
    return Table(frame, caption, text_columns=["prompt"])


def saved_in_words(saved: pd.DataFrame) -> str:
    """The way that saves most, for each number of few-shots."""
    said = []
    for shots, part in saved[saved["way"] != WHOLE].groupby("shots", sort=False):
        best, alone = part.loc[part["saved"].idxmax()], part[part["way"] != "all three"]
        most = alone.loc[alone["saved"].idxmax()]
        said.append(
            f"with {shots} few-shots {interval(best['saved'], best['saved_low'], best['saved_high'], 0)}% "
            f"({best['way']}), most of it by {most['way']} ({most['saved']:.0f}%)"
        )
    return f"Compression saves of a prompt with FD: {'; '.join(said)}."


def compressed_tests(scores: pd.DataFrame, samples: int, seed: int) -> pd.DataFrame:
    """Each way's flows beside those of whole prompts, on the same requests; Holm over all rows.

    Args:
        scores: scored answers (`lib.workflows.ablation.score`), condition being the way.

    Returns:
        columns condition, metric (similarity, executed), value, ci_low, ci_high, n, delta, delta_ci_low, delta_ci_high,
        p_holm, tokens_in, tokens_out, seconds, settled; no difference in the rows of `WHOLE`.
    """
    counted = pd.concat([outcomes(scores), executed_outcomes(scores)])
    counted = counted[counted["metric"].isin(MEASURED)]
    values = rates_with_intervals(counted, PERCENT, samples, seed)
    pairs = [(way, WHOLE) for way in scores["condition"].unique() if way != WHOLE]
    columns = ["condition", "metric", *DELTAS, "p_holm"]
    deltas = pd.DataFrame(columns=columns)
    if pairs:
        deltas = paired_deltas(counted, pairs, PERCENT, samples, seed)
        deltas = deltas.rename(columns={"a": "condition", "ci_low": DELTAS[1], "ci_high": DELTAS[2]})[columns]
    table = values.merge(deltas, on=["condition", "metric"], how="left")
    costs = scores.groupby("condition")[["tokens_in", "tokens_out", "seconds"]].mean()
    table = table.join(costs, on="condition")
    return table.assign(settled=settled(table, *DELTAS[1:]))


def compressed_table(tests: pd.DataFrame, prices: Mapping[str, Price]) -> Table:
    """`compressed_tests` for readers."""
    marks = np.where(tests["settled"], f" {SETTLED}", "")
    ends = metric_intervals(tests, DELTAS)
    changed = ["" if text == "–" else f"\nΔ {text}{mark}" for text, mark in zip(ends, marks, strict=True)]
    texts = [f"{text}{more}" for text, more in zip(metric_intervals(tests), changed, strict=True)]
    wide = tests.assign(text=texts).pivot(index="condition", columns="metric", values="text")
    order = [way for way in WAYS if way in wide.index]
    once = tests.drop_duplicates("condition").set_index("condition").loc[order]
    frame = pd.DataFrame(
        {
            "prompt": order,
            "similarity": wide.loc[order, "similarity"].tolist(),
            METRIC["executed"]: wide.loc[order, "executed"].tolist(),
            "tokens read": once["tokens_in"].round().astype(int).tolist(),
            "tokens written": once["tokens_out"].round().astype(int).tolist(),
            "seconds": once["seconds"].round(1).tolist(),
        }
    )
    for name, price in prices.items():
        frame[f"US dollars, {name}"] = [
            f"{value:.2g}" for value in dollars(once["tokens_in"], once["tokens_out"], price)
        ]
    caption = (
        f"Flows that the in-context model writes from whole and compressed prompts, the same {tests['n'].max()} "
        f"requests (new wordings). Δ: paired difference from whole prompts; {SETTLED} settled (randomisation test, "
        f"Holm over the {int(tests['p_holm'].notna().sum())} differences). Seconds: of an answer in a batch. "
        f"US dollars: of {REQUESTS:,} such requests at list price. 95% intervals."
    )
    return Table(frame, caption, text_columns=["prompt"])


def compressed_in_words(tests: pd.DataFrame) -> str:
    """What compression does to flows, and whether so many requests could show it."""
    tested = tests.dropna(subset=["delta"])
    if tested.empty:
        return "Only whole prompts were asked."
    n = int(tested["n"].min())
    said = [
        f"{row.condition}: {'similarity' if row.metric == 'similarity' else 'executed right'} "
        f"{interval(row.delta, row.delta_ci_low, row.delta_ci_high, 2 if row.metric == 'similarity' else 0)}"
        for row in tested[tested["settled"]].itertuples()
    ]
    p = p_values([tested["p_holm"].min()])[0]
    if said:
        return f"Settled on {n} requests: {'; '.join(said)}."
    return (
        f"On {n} requests no difference from whole prompts is settled (smallest p after Holm {p}); the intervals say "
        "how large a loss they leave open."
    )
