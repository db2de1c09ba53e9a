"""Notebook 08: the fine-tuned model, how it learned and what it writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import pandas as pd

from lib.evaluation.inference import holm_adjust
from lib.evaluation.rates import paired_deltas, rates_with_intervals
from lib.workbook.display import Drawing, Table, number
from lib.workbook.markup import plain
from lib.workbook.methods import colour
from lib.workflows.pages.common import intervals, metric_intervals, p_values, wide_by_metric
from lib.workflows.pages.dsl_retrieval_tuning import ends_of
from lib.workflows.scoring import PERCENT, outcomes, rates

FEWEST = 20  # flows on a side that are compared in a sentence


def finetuned(pairs: int) -> str:
    """The condition of the model that learned from so many pairs."""
    return f"fine-tuned, {pairs:,} pairs"


def reworded(pairs: int) -> str:
    """The same, asked in people's own words."""
    return f"{finetuned(pairs)}, reworded"


# ---------------------------------------------------------------- training


def loss_drawing(curves: Mapping[int, pd.DataFrame], batch_size: int) -> Drawing:
    """The training loss (moving mean) by pairs seen.

    Args:
        curves: of `lib.generation.finetune.finetune_language_model`, by number of pairs, ascending.
        batch_size: pairs a step.
    """
    largest = max(curves)
    first, last, _ = ends_of(curves[largest]["loss"])
    figure, axis = plt.subplots(figsize=(8, 3.2))
    for size, steps in curves.items():
        smooth = steps["loss"].rolling(max(1, len(steps) // 10), min_periods=1).mean()
        axis.plot(
            steps["step"] * batch_size,
            smooth,
            color=colour("finetuned_dsl"),
            alpha=1 if size == largest else 0.45,
            linewidth=2,
            label=f"{size:,} pairs",
        )
    axis.set(xlabel="pairs seen", ylabel="loss on the flow's tokens, nats", ylim=(0, None))
    axis.legend()
    columns = ["step", "loss", "tokens", "target_tokens"]
    return Drawing(
        figure,
        "nl2dsl_loss",
        f"The loss goes from {first:.2f} to {last:.2f} nats a token over {largest:,} pairs",
        "Training loss (moving mean) against pairs seen, one line a size of the training sample.",
        pd.concat([steps[columns].assign(pairs=size) for size, steps in curves.items()]),
    )


def training_in_words(
    generator: str, training: pd.DataFrame, known: Sequence[str], curve: pd.DataFrame, pairs: int, learning_rate: float
) -> str:
    """What the model learned from.

    Args:
        training: all training pairs, column apis.
        known: the APIs of the pairs that it learned from.
        curve: of its training.
        pairs: that it learned from.
    """
    return (
        f"{plain(generator)}, {pairs:,} of {len(training):,} training pairs, {curve['epoch'].max()} epoch(s), "
        f"{curve['tokens'].sum():,} tokens read, {curve['target_tokens'].sum():,} learned, learning rate "
        f"{learning_rate:g}. These pairs use {len(known)} of the {training['apis'].explode().nunique()} APIs that "
        "training uses; what the model writes of the others, it has not seen."
    )


# ---------------------------------------------------------------- what it writes


def metric_values(scores: pd.DataFrame, samples: int, seed: int) -> pd.DataFrame:
    """The four metrics of each condition, see `lib.evaluation.rates.rates_with_intervals`.

    Args:
        scores: of `lib.workflows.nl2dsl.scored_answers`, of all conditions.
        samples, seed: of the bootstrap.
    """
    return rates_with_intervals(outcomes(scores), PERCENT, samples, seed)


def flows_table(scores: pd.DataFrame, table: pd.DataFrame, flows: int, pairs: int) -> Table:
    """The four metrics of all conditions, and similarity as a product.

    Args:
        scores: as for `metric_values`.
        table: what it returned.
        flows: how many test requests were asked.
        pairs: that the model learned from.
    """
    parts = scores.groupby("condition", sort=False).apply(rates, include_groups=False)
    wide = wide_by_metric(table, "condition", metric_intervals(table)).loc[parts.index]
    wide = wide.assign(**{"P(valid)": parts["p_valid"], "similarity if valid": parts["similarity_if_valid"]})
    return Table(
        wide.rename_axis("").reset_index(),
        f"Flows written for {flows} test requests: the paper's four metrics with 95% intervals, and similarity as "
        f"P(valid) times similarity if valid. TST's encoder was tuned on more pairs than the {pairs:,}.",
    )


def similarity_tests(scores: pd.DataFrame, pairs: int, samples: int, seed: int) -> pd.DataFrame:
    """The fine-tuned model against all else in similarity, and its reworded requests against the composed ones.

    Args:
        scores: as for `metric_values`.
        pairs: that the model learned from.
        samples, seed: of the bootstrap and the tests.

    Returns:
        columns of `paired_deltas`, Holm over these rows.
    """
    model, again = finetuned(pairs), reworded(pairs)
    names = scores["condition"].unique()
    rivals = [(model, name) for name in names if name not in (model, again)]
    rivals += [(again, model)] if again in names else []
    tests = paired_deltas(outcomes(scores), rivals, PERCENT, samples, seed)
    tests = tests[tests["metric"] == "similarity"]
    return tests.assign(p_holm=holm_adjust(tests["p_value"]))


def similarity_table(tests: pd.DataFrame) -> Table:
    """`tests` of `similarity_tests`."""
    frame = pd.DataFrame(
        {
            "comparison": tests["a"] + " minus " + tests["b"],
            "similarity": intervals(tests, ["delta", "ci_low", "ci_high"]),
            "p (Holm)": p_values(tests["p_holm"]),
            "n": tests["n"],
        }
    )
    return Table(
        frame,
        "Paired differences in similarity, 95% intervals, not adjusted; randomisation test, Holm over these rows.",
    )


def all_known(flows: pd.DataFrame, known: Sequence[str]) -> pd.Series:
    """For each pair whether all APIs of its flow are known. `flows`: columns pair, apis."""
    return flows.set_index("pair")["apis"].map(set(known).issuperset)


def answers_in_words(mine: pd.DataFrame, familiar: pd.Series, everywhere: float, max_tokens: int) -> str:
    """How well the model writes, and whether it is the APIs that it learned.

    Args:
        mine: its scored answers, indexed by pair.
        familiar: of `all_known`, over the same pairs.
        everywhere: the share of all test flows for which that is true.
        max_tokens: of the longest answer.
    """
    known, other = (mine.loc[familiar.index[familiar == side], "similarity"] for side in (True, False))
    apart = (
        f": similarity {number(known.mean(), 2)} there, {number(other.mean(), 2)} elsewhere. "
        if min(len(known), len(other)) >= FEWEST
        else "; too few flows are on one side to compare. "
    )
    invented = sorted({name for names in mine["made_up_names"] for name in names})
    made_up = f"Names it made up: {', '.join(map(_code, invented[:5]))}. " if invented else "It made up no name. "
    return (
        f"The fine-tuned model reaches a similarity of {number(mine['similarity'].mean(), 2)}; {mine['valid'].sum()} "
        f"of its {len(mine)} flows are valid. All APIs that are wanted occur among the pairs it learned from for "
        f"{len(known)} of these {len(mine)} flows ({everywhere:.0%} of all test flows){apart}{made_up}"
        f"Cut at {max_tokens} tokens: {(~mine['finished'].astype(bool)).sum()} of {len(mine)}."
    )


def _code(name: str) -> str:
    """A code span: a name that a model made up may hold whatever a string of the language holds."""
    return f"`{' '.join(name.replace('`', '').split())}`"


def examples_table(mine: pd.DataFrame, written: pd.DataFrame) -> Table:
    """Flows from the worst to the best.

    Args:
        mine: the model's scored answers, indexed by pair.
        written: columns pair, request, dsl.
    """
    scale = mine["similarity"].sort_values(kind="stable")
    some = scale[scale > 0]
    picks = list(dict.fromkeys([*scale.index[:2], *some.index[len(some) // 2 :][:1], *scale.index[-1:]]))
    gold, shown = written.set_index("pair").loc[picks], mine.loc[picks]
    frame = pd.DataFrame(
        {
            "request": gold["request"].tolist(),
            "similarity": shown["similarity"].tolist(),
            "flow": [
                f"// wanted\n{one}\n\n// written\n{other}"
                for one, other in zip(gold["dsl"], shown["text"], strict=True)
            ],
        }
    )
    caption = "Two of its worst flows, one in the middle of those above 0, and one of its best."
    return Table(frame, caption, text_columns=["request"], code_columns=["flow"])


def finding(mine: pd.DataFrame, pairs: int) -> str:
    """How well the model writes; `mine`: its scored answers, `pairs`: that it learned from."""
    return (
        f"A model fine-tuned on {pairs:,} pairs reaches a similarity of {number(mine['similarity'].mean(), 2)} "
        f"({len(mine)} flows)."
    )
