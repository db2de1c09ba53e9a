"""Notebook 08: the fine-tuned model, what it writes, and from how many pairs on it beats copying."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import matplotlib.pyplot as plt
import pandas as pd

from lib.evaluation.rates import rates_with_intervals
from lib.workbook.cases import case_address
from lib.workbook.display import Drawing, Table, interval, listed, number
from lib.workbook.markup import plain
from lib.workbook.methods import colour, marker
from lib.workflows.ablation import on_shared_flows
from lib.workflows.pages.common import error_bars, intervals, metric_intervals, p_values, wide_by_metric
from lib.workflows.pages.dsl_retrieval import DIFFERENCE, SETS, change, covered, from_which, of_sizes, tested
from lib.workflows.scoring import PERCENT, executed_outcomes, nothing_made_up, outcomes

if TYPE_CHECKING:
    from lib.workflows.training_runs import Run

FEWEST = 20  # flows on a side that are compared in a sentence
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
    """What the runs write: the largest of the first seed all, and some under the grammar; its other seeds both test
    sets; smaller ones half of each.

    Args:
        runs: of `lib.workflows.training_runs.Trainer.runs`.
        asks: of `lib.workflows.nl2dsl.questions`.
    """
    tests, runs = asks[asks["test_set"].isin(SETS)], list(runs)
    place = tests.groupby("test_set").cumcount()
    half, quarter = (tests[place < -(-tests.groupby("test_set")["unit"].transform("size") // part)] for part in (2, 4))
    most, made = max(run.pairs for run in runs), []
    for run in runs:
        if run.pairs < most:
            made.append(Task(run, finetuned(run.pairs), half))
        else:
            made.append(Task(run, finetuned(most), tests if run.seed else asks))
            made += [Task(run, constrained(most), quarter, True)] if not run.seed else []
    return made


SIZES = (64, 256, 1_024, 4_096, 16_384)  # of the pairs to copy from, beside the sizes of the models


def curve_sizes(runs: Iterable[Run], training: int) -> list[int]:
    """From how many pairs flows are copied: as many as each run learned from, some sizes between, and all."""
    sizes = {run.pairs for run in runs}
    return sorted({*sizes, *(size for size in SIZES if min(sizes) <= size < training), training})


def for_later(scores: pd.DataFrame, pairs: int) -> pd.DataFrame:
    """What notebook 09 reads: the model's flows by the first training seed, free and under the grammar, and those
    copied out of all training pairs, on both test sets."""
    named = scores["condition"].isin([finetuned(pairs), constrained(pairs), COPIED, "copy, TST"])
    return scores[named & (scores["run"] == 0) & scores["test_set"].isin(SETS)].drop(columns="run")


def training_in_words(
    generator: str, training: pd.DataFrame, known: Sequence[str], runs: pd.DataFrame, learning_rate: float
) -> str:
    """What the largest model learned from.

    Args:
        training: all training pairs, column apis.
        known: the APIs of the pairs that it learned from.
        runs: of `lib.workflows.pages.dsl_retrieval_tuning.runs_table`, the largest last.
        learning_rate: of what is trained here.
    """
    pairs, used = runs["pairs"].iloc[-1], training["apis"].explode().nunique()
    rest = "" if len(known) == used else "; what the model writes of the others, it has not seen"
    return (
        f"{plain(generator)} learned from at most {pairs:,} of {len(training):,} training pairs, which use "
        f"{len(known)} of the {used} APIs that training uses{rest}."
        + ("" if runs["shipped"].all() else f" What is trained here has a learning rate of {learning_rate:g}.")
    )


# ---------------------------------------------------------------- what it writes


def metric_values(scores: pd.DataFrame, samples: int, seed: int) -> pd.DataFrame:
    """The four metrics and `executed` of each condition on each set of requests, see
    `lib.evaluation.rates.rates_with_intervals`.

    Args:
        scores: of `lib.workflows.nl2dsl.scored_answers`, of all conditions, with columns test_set, pairs (learned or
            copied from) and run.
        samples, seed: of the bootstrap.

    Returns:
        columns test_set, condition, pairs, runs, metric, value, ci_low, ci_high, n, counted.
    """
    parts = []
    for where, part in scores.groupby("test_set", sort=False):
        about = part.groupby("condition").agg(pairs=("pairs", "first"), runs=("run", "nunique"))
        ran = executed_outcomes(part)
        counted = pd.concat([outcomes(part), ran[ran["metric"] == "executed"]])
        values = rates_with_intervals(counted, PERCENT, samples, seed)
        parts.append(values.join(about, on="condition").assign(test_set=where))
    columns = ["test_set", "condition", "pairs", "runs", "metric", "value", "ci_low", "ci_high", "n", "counted"]
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
        "Flows written: the paper's four metrics, and executed right beside similarity, 95% intervals "
        f"{covered(table['runs'].max(), everywhere=False)}. Copying takes the flow of the nearest training request. "
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
    scores = scores.rename(columns={"unit": "pair", "run": "seed"})
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
            "p (Holm)": p_values(tests["p_holm"]),
            "n": tests["n"],
        }
    )
    return Table(
        frame,
        "Paired differences in similarity, 95% intervals, not adjusted; randomisation test, Holm over these rows.",
    )


def answers_in_words(mine: pd.DataFrame, same: pd.Series, max_tokens: int) -> str:
    """How well the model writes, and whether it is flows that it learned by heart.

    Args:
        mine: its scored answers to one test set, indexed by unit.
        same: whether the wanted flow, values included, is one that it learned; over the same index.
        max_tokens: of the longest answer.
    """
    where = ASKED[mine["test_set"].iloc[0]]
    there, other = (mine.loc[same.index[same == side], "similarity"] for side in (True, False))
    apart = (
        f": similarity {number(there.mean(), 2)} there, {number(other.mean(), 2)} elsewhere. "
        if min(len(there), len(other)) >= FEWEST
        else "; too few flows are on one side to compare. "
    )
    invented = sorted({name for names in mine["made_up_names"] for name in names})
    made_up = f"Names it made up: {', '.join(map(_code, invented[:5]))}. " if invented else "It made up no name. "
    return (
        f"On {where} the fine-tuned model reaches a similarity of {number(mine['similarity'].mean(), 2)}; "
        f"{nothing_made_up(mine).sum()} of its {len(mine)} flows are valid. Exactly the wanted flow is among what it "
        f"learned for {len(there)} of them{apart}{made_up}"
        f"Cut at {max_tokens} tokens or for repetition: {(~mine['finished'].astype(bool)).sum()} of {len(mine)}."
    )


def _code(name: str) -> str:
    """A code span: a name that a model made up may hold whatever a string of the language holds."""
    return f"`{' '.join(name.replace('`', '').split())}`"


def elsewhere_in_words(table: pd.DataFrame, tests: pd.DataFrame, pairs: int) -> str:
    """The model on reworded requests and on held-out APIs, and under the grammar, there beside the same requests
    answered freely.

    Args:
        table, tests: of `metric_values` and `similarity_tests`.
        pairs: that the model learned from.
    """
    rows = table.set_index(["test_set", "condition", "metric"])
    asked = {"reworded": "Reworded by people", "unseen": "Held-out APIs"}
    said = []
    for where, name in asked.items():
        if (where, finetuned(pairs), "similarity") in rows.index:
            names = rows.loc[(where, finetuned(pairs), "made_up_names")]
            parsed = f"a made-up name in {number(names['value'], 0)}% of the flows that parse"
            parsed = parsed if names["counted"] else "no flow parses"
            said.append(f"{name}: {_similarity(rows.loc[(where, finetuned(pairs), 'similarity')], parsed)}.")
    if ("test", constrained(pairs), "similarity") in rows.index:
        row = rows.loc[("test", constrained(pairs), "similarity")]
        paired = tests[(tests["test_set"] == "test") & (tests["a"] == constrained(pairs))]
        beside = [f"; {change(test)} more than free answers to the same requests" for test in paired.itertuples()]
        said.append(f"Under the catalogue's grammar, on {SETS['test']}: {_similarity(row)}{''.join(beside)}.")
    return " ".join(said)


def _similarity(row, more: str = "") -> str:
    value = interval(row["value"], row["ci_low"], row["ci_high"], 2)
    return f"similarity {value}{', ' * bool(more)}{more} (n = {row['n']:.0f})"


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
    scores = scores[scores["test_set"].isin(SETS)].rename(columns={"unit": "pair", "run": "seed"})
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


def curve_drawing(table: pd.DataFrame, tests: pd.DataFrame) -> Drawing:
    """Similarity against the pairs learned from, beside copying the nearest of as many.

    Args:
        table: of `curve_values`.
        tests: of `curve_tests`.
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
    return Drawing(figure, "nl2dsl_learning_curve", f"Fine-tuning {overtakes(tests)}", alt, pd.concat(drawn))


def overtakes(tests: pd.DataFrame) -> str:
    """From how many pairs on fine-tuning beats copying the nearest of the same pairs, on each test set."""
    said = {
        where: from_which(part, "is ahead of copying", "be ahead of copying")
        for where, part in tests.groupby("test_set", sort=False)
    }
    if len(set(said.values())) == 1:
        sets = listed([SETS[where] for where in said])
        return f"{next(iter(said.values()))} ({sets})"
    return "; ".join(f"{words} ({SETS[where]})" for where, words in said.items())


def curve_in_words(tests: pd.DataFrame, runs: pd.DataFrame) -> str:
    """Where fine-tuning overtakes retrieval, and what the points rest on.

    Args:
        tests: of `curve_tests`.
        runs: of `lib.workflows.pages.dsl_retrieval_tuning.runs_table`.
    """
    rows = [
        f"{row.pairs:,} pairs: {change(row)}" + f" (n = {row.n}{'' if row.settled else ', not settled'})"
        for row in tests[tests["test_set"] == tests["test_set"].iloc[0]].itertuples()
    ]
    shipped = runs["shipped"].astype(bool)
    made = [
        f"{listed([f'{size:,}' for size in sorted(set(runs.loc[mask, 'pairs']))])} pairs {where}"
        for mask, where in ((~shipped, "trained here"), (shipped, "shipped"))
        if mask.any()
    ]
    return (
        f"**Fine-tuning {overtakes(tests)}.** Its similarity minus that of the nearest of the same pairs by the "
        "pretrained encoder, copied, on "
        f"{SETS[tests['test_set'].iloc[0]]}, on all flows that both wrote (the figure has those that every model "
        f"wrote): {'; '.join(rows)}. Models: {listed(made)}."
    )


def finding(table: pd.DataFrame, tests: pd.DataFrame, pairs: int) -> str:
    """How well the model writes, and from which size on it beats copying.

    Args:
        table, tests: of `metric_values` and `curve_tests`.
        pairs: that the model learned from.
    """
    mine = table[(table["condition"] == finetuned(pairs)) & (table["metric"] == "similarity")]
    said = [
        f"{interval(row.value, row.ci_low, row.ci_high, 2)} on {ASKED[row.test_set]} ({row.n:.0f} flows)"
        for row in mine.itertuples()
    ]
    return (
        f"A model fine-tuned on {pairs:,} pairs, which retrieves nothing, reaches a similarity of {listed(said)}. "
        f"Beside the nearest of the same pairs by the pretrained encoder, copied: fine-tuning {overtakes(tests)}."
    )
