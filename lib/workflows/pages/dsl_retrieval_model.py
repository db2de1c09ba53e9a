"""Notebook 08: the fine-tuned model, what it writes, and from how many pairs on it beats copying."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import matplotlib.pyplot as plt
import pandas as pd

from lib.evaluation.comparison import rates
from lib.workbook.cases import case_address
from lib.workbook.display import Drawing, Table, listed
from lib.workbook.methods import colour, marker
from lib.workflows.pages.common import SETTLED, error_bars, intervals, metric_intervals, p_values, wide_by_metric
from lib.workflows.pages.dsl_retrieval import DIFFERENCE, SETS, of_sizes, tested
from lib.workflows.scoring import PERCENT, outcomes

if TYPE_CHECKING:
    from lib.workflows.parts import Run

ASKED = SETS | {"reworded": "reworded by hand", "unseen": "held-out APIs"}
COPIED = "copy, pretrained"


def finetuned(pairs: int) -> str:
    """The condition of the model that learned from so many pairs."""
    return f"fine-tuned, {pairs:,} pairs"


def constrained(pairs: int) -> str:
    """The same under the catalogue's grammar."""
    return f"{finetuned(pairs)}, catalogue's grammar"


def copied(pairs: int) -> str:
    """The condition that copies the nearest of so many pairs."""
    return f"copy of the {pairs:,}, pretrained"


def on_shared_flows(scores: pd.DataFrame, conditions: Iterable[str]) -> pd.DataFrame:
    """The scores of conditions on those flows of each test set that all of them have that are asked there.

    Args:
        scores: columns condition, test_set, unit and whatever else.
    """
    kept = scores[scores["condition"].isin(conditions)]
    asked = kept.groupby("test_set")["condition"].transform("nunique")
    return kept[kept.groupby(["test_set", "unit"])["condition"].transform("nunique") == asked]


class Task(NamedTuple):
    """What one training run is asked to write: a condition of the page.

    Attributes:
        grammar: whether the catalogue's grammar holds the answers.
    """

    run: Run
    condition: str
    asks: pd.DataFrame
    grammar: bool = False


def tasks(runs: Iterable[Run], asks: pd.DataFrame) -> list[Task]:
    """What the runs write: the largest all, and some under the grammar; smaller ones half of each test set.

    Args:
        runs: of `lib.workflows.parts.Trainer.runs`.
        asks: of `lib.workflows.ablation.questions`.
    """
    tests, runs = asks[asks["test_set"].isin(SETS)], list(runs)
    place = tests.groupby("test_set").cumcount()
    half, quarter = (tests[place < -(-tests.groupby("test_set")["unit"].transform("size") // part)] for part in (2, 4))
    most, made = max(run.pairs for run in runs), []
    for run in runs:
        if run.pairs < most:
            made.append(Task(run, finetuned(run.pairs), half))
        else:
            made += [Task(run, finetuned(most), asks), Task(run, constrained(most), quarter, True)]
    return made


SIZES = (64, 256, 1_024, 4_096, 16_384)  # of the pairs to copy from, beside the sizes of the models


def curve_sizes(runs: Iterable[Run], training: int) -> list[int]:
    """From how many pairs flows are copied: as many as each run learned from, some sizes between, and all."""
    sizes = {run.pairs for run in runs}
    return sorted({*sizes, *(size for size in SIZES if min(sizes) <= size < training), training})


def for_later(scores: pd.DataFrame, pairs: int) -> pd.DataFrame:
    """What notebook 09 reads: the model's flows, free and under the grammar, and those copied out of all training
    pairs, on both test sets."""
    named = scores["condition"].isin([finetuned(pairs), constrained(pairs), COPIED, "copy, TST"])
    return scores[named & scores["test_set"].isin(SETS)]


# ---------------------------------------------------------------- what it writes


def metric_values(scores: pd.DataFrame, samples: int, seed: int) -> pd.DataFrame:
    """The four metrics and `executed` of each condition on each set of requests, see
    `lib.evaluation.comparison.rates`.

    Args:
        scores: of `lib.workflows.ablation.scored_answers`, of all conditions, with columns test_set and pairs
            (learned or copied from).
        samples, seed: of the bootstrap.

    Returns:
        columns test_set, condition, pairs, metric, value, ci_low, ci_high, n, counted.
    """
    parts = []
    for where, part in scores.groupby("test_set", sort=False):
        about = part.groupby("condition")["pairs"].first()
        counted = outcomes(part)[lambda rows: rows["metric"] != "wrong_at_1"]
        values = rates(counted, PERCENT, samples, seed)
        parts.append(values.join(about, on="condition").assign(test_set=where))
    columns = ["test_set", "condition", "pairs", "metric", "value", "ci_low", "ci_high", "n", "counted"]
    return pd.concat(parts, ignore_index=True)[columns]


def flows_table(table: pd.DataFrame) -> Table:
    """The four metrics of all conditions, one group of rows a set of requests.

    Args:
        table: of `metric_values`.
    """
    parts: list[pd.DataFrame] = []
    addresses: list[str] = []
    table = table[~table["condition"].str.startswith("copy of")]  # the learning curve's
    for where, part in table.groupby("test_set", sort=False):
        wide = wide_by_metric(part, "condition", metric_intervals(part)).rename_axis(None).reset_index(names="")
        wide.insert(0, "requests", ASKED[where])
        wide["n"] = part.drop_duplicates("condition")["n"].to_numpy()
        parts.append(wide)
        kept = where in SETS  # the flows of the others are not kept
        addresses += [case_address("flows", set=where, condition=name) if kept else "" for name in wide[""]]
    columns = [name for name in parts[0] if name not in ("", "requests")] if parts else []
    return Table(
        pd.concat(parts, ignore_index=True),
        "Flows written: the paper's four metrics, and executed right beside similarity, 95% intervals. Copying takes "
        "the flow of the nearest training request. "
        "Under the grammar fewer requests are asked: compare it by the paired differences below. Notebook 09 asks "
        "about other flows, each of one half of the connectors, so that its numbers for the same model are others.",
        decimals=0,
        cases=dict.fromkeys(columns, addresses),
    )


def similarity_tests(scores: pd.DataFrame, pairs: int, samples: int, seed: int) -> pd.DataFrame:
    """The fine-tuned model against copying and itself under the grammar in similarity, on each set of requests.

    Args:
        scores: as for `metric_values`.
        pairs: that the model learned from.

    Returns:
        columns test_set, a, b and those of `lib.workflows.pages.dsl_retrieval.tested`.
    """
    scores = scores.rename(columns={"unit": "pair"})
    sides = {}
    for where, part in scores.groupby("test_set", sort=False):
        by_name = dict(tuple(part.groupby("condition", sort=False)))
        for name in by_name:
            if name in (COPIED, "copy, TST"):
                sides[where, finetuned(pairs), name] = by_name[finetuned(pairs)], by_name[name]
            elif name == constrained(pairs):
                sides[where, name, finetuned(pairs)] = by_name[name], by_name[finetuned(pairs)]
    keys = pd.DataFrame(list(sides), columns=["test_set", "a", "b"])
    return keys.join(tested(sides, "similarity", samples, seed))


def similarity_table(tests: pd.DataFrame) -> Table:
    """`tests` of `similarity_tests`."""
    frame = pd.DataFrame(
        {
            "requests": tests["test_set"].map(ASKED),
            "comparison": tests["a"] + " minus " + tests["b"],
            "similarity": intervals(tests, DIFFERENCE),
            "p": p_values(tests["p_value"]),
            "n": tests["n"],
        }
    )
    return Table(
        frame,
        "Paired differences in similarity, 95% intervals and sign flips.",
    )


def examples_table(mine: pd.DataFrame, written: pd.DataFrame) -> Table:
    """Flows from the worst to the best.

    Args:
        mine: the model's scored answers, indexed by unit.
        written: columns unit, request, dsl.
    """
    scale = mine["similarity"].sort_values(kind="stable")
    some = scale[scale > 0]
    picks = list(dict.fromkeys([*scale.index[:2], *some.index[len(some) // 2 :][:1], *scale.index[-1:]]))
    gold, shown = written.set_index("unit").loc[picks], mine.loc[picks]
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


# ---------------------------------------------------------------- learning curve


def curve_tests(scores: pd.DataFrame, samples: int, seed: int) -> pd.DataFrame:
    """The model against copying the nearest of the very pairs that it learned from, at each size and on each test set.

    Args:
        scores: as for `metric_values`.

    Returns:
        columns test_set, pairs and those of `lib.workflows.pages.dsl_retrieval.tested`.
    """
    scores = scores[scores["test_set"].isin(SETS)].rename(columns={"unit": "pair"})
    by_name = dict(tuple(scores.groupby(["test_set", "condition"], sort=False)))
    sides = {
        (where, size): (by_name[where, finetuned(size)], by_name[where, copied(size)])
        for where in scores["test_set"].unique()
        for size in sorted(scores["pairs"].unique())
        if (where, finetuned(size)) in by_name
    }
    keys = pd.DataFrame(list(sides), columns=["test_set", "pairs"])
    return keys.join(tested(sides, "similarity", samples, seed))


def curve_values(scores: pd.DataFrame, samples: int, seed: int) -> pd.DataFrame:
    """`metric_values` of the learning curve's models and copies, on the flows of each test set that all of them have;
    `scores` as there."""
    scores = scores[scores["test_set"].isin(SETS)]
    names = {name(size) for size in scores["pairs"].unique() for name in (finetuned, copied)}
    return metric_values(on_shared_flows(scores, names), samples, seed)


def curve_drawing(table: pd.DataFrame) -> Drawing:
    """Similarity against the pairs learned from, beside copying the nearest of as many.

    Args:
        table: of `curve_values`.
    """
    values = table[table["metric"] == "similarity"]
    sets = list(dict.fromkeys(values["test_set"]))
    figure, axes = plt.subplots(1, len(sets), figsize=(5.2 * len(sets), 3.8), sharey=True, squeeze=False)
    lines = {
        "fine-tuned on the pairs": (finetuned, "finetuned_dsl"),
        "nearest of the same pairs, copied": (copied, "pretrained"),
    }
    drawn = []
    for axis, where in zip(axes[0], sets, strict=True):
        for said, (name, style) in lines.items():
            here = values[(values["test_set"] == where) & (values["condition"] == values["pairs"].map(name))]
            here = here.sort_values("pairs")
            axis.errorbar(here["pairs"], here["value"], error_bars(here), color=colour(style), marker=marker(style),
                          capsize=3, label=said)  # fmt: skip
            axis.fill_between(here["pairs"], here["ci_low"], here["ci_high"], color=colour(style), alpha=0.12)
            drawn.append(here)
        of_sizes(axis, values["pairs"], "training pairs")
        flows = values.loc[values["test_set"] == where, "n"].iloc[0]
        axis.set(ylim=(0, 1), title=f"{SETS[where]}, the same {flows:.0f} flows")
    axes[0][0].set_ylabel("similarity")
    axes[0][0].legend(loc="upper left", fontsize=9)
    alt = (
        "Similarity of the written flow with the right one against the number of training pairs (logarithmic), on "
        f"{listed([SETS[where] for where in sets])}: the model fine-tuned on these pairs, and the flow of the nearest "
        "of the same pairs by the pretrained encoder, copied. Bars and bands: 95% intervals."
    )
    return Drawing(
        figure, "nl2dsl_learning_curve", "Fine-tuning beside copying, by training pairs", alt, pd.concat(drawn)
    )


def curve_table(tests: pd.DataFrame) -> Table:
    """`curve_tests` for readers."""
    marks = [f" {SETTLED}" if clear else "" for clear in tests["settled"]]
    texts = [f"{text}{mark}" for text, mark in zip(intervals(tests, DIFFERENCE), marks, strict=True)]
    frame = pd.DataFrame({
        "requests": tests["test_set"].map(SETS),
        "training pairs": tests["pairs"],
        "similarity, fine-tuned minus copied": texts,
        "n": tests["n"],
    })  # fmt: skip
    return Table(
        frame, f"Fine-tuned minus copied on the flows of both, 95% intervals; {SETTLED}: beside 0.", decimals=0
    )
