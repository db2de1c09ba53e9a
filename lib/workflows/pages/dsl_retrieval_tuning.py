"""Notebook 08: how target similarity tuning (TST) went, from how many pairs on it helps, and for which requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import pandas as pd

from lib.evaluation.comparison import compare_in_groups
from lib.evaluation.inference import bootstrap_interval, settled
from lib.workbook.display import Drawing, Table, listed, number
from lib.workbook.markup import plain
from lib.workbook.methods import colour, label, marker
from lib.workflows.pages.common import error_bars, intervals, p_values
from lib.workflows.pages.dsl_retrieval import (
    DIFFERENCE,
    SETS,
    TUNED,
    change,
    covered,
    from_which,
    of_requests,
    of_sizes,
    outcome,
    resampling,
    tested,
)

NOTHING_TO_TUNE = "No pair was mined, so nothing can be tuned: below, TST stands for the pretrained encoder."
SHUFFLED = "tst_shuffled"
METHOD_OF = {name: name for name in (*TUNED, SHUFFLED)} | {"nl2dsl": "finetuned_dsl"}  # by the kind of a training run


def targets_table(pairs: pd.DataFrame) -> Table:
    """What there is to learn: targets of all mined pairs, of `lib.workflows.target_similarity.scored_pairs`."""
    kinds = pairs.groupby("positive")["score"]
    frame = pd.DataFrame(
        {
            "pairs": [f"{'cosine above' if sign else 'not above'} the threshold" for sign in kinds.groups],
            "mined": kinds.size().to_numpy(),
            "mean target": kinds.mean().to_numpy(),
            "no API in common, %": 100 * kinds.agg(lambda score: (score == 0).mean()).to_numpy(),
            "the same APIs, %": 100 * kinds.agg(lambda score: (score == 1).mean()).to_numpy(),
        }
    )
    return Table(frame, f"Targets of the {len(pairs):,} mined pairs: Jaccard similarity of the two flows' API names.")


# ---------------------------------------------------------------- training


def ends_of(loss: pd.Series) -> tuple[float, float, int]:
    """Mean loss of the first and of the last tenth of the steps, and how many steps that is."""
    window = max(1, len(loss) // 10)
    return loss.iloc[:window].mean(), loss.iloc[-window:].mean(), window


def runs_table(runs: pd.DataFrame, what: str) -> Table:
    """The training runs of this page: what each learned from, and where.

    Args:
        runs: one row a run: columns name, pairs, seed, curve (a frame with a column loss), tokens, seconds, device,
            shipped.
        what: was trained, and in what its loss is.
    """
    ends = [ends_of(curve["loss"]) for curve in runs["curve"]]
    frame = pd.DataFrame(
        {
            "": runs["name"].map(METHOD_OF).map(label),
            "pairs": runs["pairs"],
            "seed": runs["seed"],
            "loss, first tenth": [first for first, _, _ in ends],
            "last tenth": [last for _, last, _ in ends],
            "tokens": runs["tokens"],
            "seconds": [number(seconds, 0) for seconds in runs["seconds"]],
            "trained": ["shipped, on " + device if shipped else "here, on " + device
                        for shipped, device in runs[["shipped", "device"]].itertuples(index=False)],
        }
    )  # fmt: skip
    return Table(frame, f"Training runs of {what}; each pair is read once an epoch.", decimals=3)


def refused_in_words(runs: pd.DataFrame) -> str:
    """Which shipped parts were not taken, and why; nothing where none was refused. `runs`: a column reason."""
    return plain(" ".join(reason for reason in dict.fromkeys(runs["reason"]) if reason))


# ---------------------------------------------------------------- learning curve

AT = ["method", "pairs"]


def curve_values(scores: pd.DataFrame, samples: int, seed: int) -> pd.DataFrame:
    """Means of the points of the learning curve.

    Args:
        scores: columns test_set, method, pairs (0: not tuned), seed, pair, jaccard.

    Returns:
        columns test_set, method, pairs, value, ci_low, ci_high (over requests and training seeds), n, seeds.
    """
    rows = []
    for key, part in scores.groupby(["test_set", *AT], sort=False):
        table = part.set_index(["pair", "seed"])["jaccard"]
        over = resampling(table, samples, seed)
        low, high = bootstrap_interval(table.to_numpy(), over.clusters, samples, seed)
        rows.append((*key, table.mean(), low, high, part["pair"].nunique(), part["seed"].nunique()))
    return pd.DataFrame(rows, columns=["test_set", *AT, "value", "ci_low", "ci_high", "n", "seeds"])


def contrasts(scores: pd.DataFrame) -> list[tuple[tuple[str, int], tuple[str, int]]]:
    """Every tuned point against the pretrained encoder, and the shuffled targets against true ones."""
    points = list(scores[AT].drop_duplicates().itertuples(index=False, name=None))
    tuned = [point for point in points if point[0] != "pretrained"]
    shuffled = [size for method, size in tuned if method == SHUFFLED]
    true = [(("tst", size), (SHUFFLED, size)) for size in shuffled if ("tst", size) in tuned]
    return [*((point, ("pretrained", 0)) for point in tuned), *true]


def curve_tests(scores: pd.DataFrame, samples: int, seed: int) -> pd.DataFrame:
    """`contrasts` on each test set, Holm over all.

    Args:
        scores: as for `curve_values`.

    Returns:
        columns test_set, method, pairs, against (the other's method), difference, ci_low, ci_high, p_value, p_holm,
        settled.
    """
    sides = {
        (where, *one, other[0]): tuple(part[(part[AT] == list(point)).all(axis=1)] for point in (one, other))
        for where, part in scores.groupby("test_set", sort=False)
        for one, other in contrasts(scores)
    }
    keys = pd.DataFrame(list(sides), columns=["test_set", *AT, "against"])
    return keys.join(tested(sides, "jaccard", samples, seed))


def curve_drawing(values: pd.DataFrame, tests: pd.DataFrame, k: int, pool: int) -> Drawing:
    """Jaccard similarity of k few-shots against the pairs that encoders were tuned on, one panel a test set.

    Args:
        values, tests: of `curve_values` and `curve_tests`.
        pool: training requests searched.
    """
    sets = list(dict.fromkeys(values["test_set"]))
    figure, axes = plt.subplots(1, len(sets), figsize=(5.2 * len(sets), 3.8), sharey=True, squeeze=False)
    for axis, where in zip(axes[0], sets, strict=True):
        here = values[values["test_set"] == where]
        base = here[here["method"] == "pretrained"].iloc[0]
        axis.axhline(base["value"], color=colour("pretrained"), label=label("pretrained"))
        axis.axhspan(base["ci_low"], base["ci_high"], color=colour("pretrained"), alpha=0.12, linewidth=0)
        for name in (*TUNED, SHUFFLED):
            part = here[here["method"] == name].sort_values("pairs")
            if len(part):
                axis.errorbar(part["pairs"], part["value"], error_bars(part), color=colour(name), marker=marker(name),
                              capsize=3, label=label(name))  # fmt: skip
                axis.fill_between(part["pairs"], part["ci_low"], part["ci_high"], color=colour(name), alpha=0.12)
        of_sizes(axis, here.loc[here["pairs"] > 0, "pairs"], "pairs tuned on")
        axis.set(ylim=(0, 1.08 * values["ci_high"].max()), title=SETS[where])
    axes[0][0].set_ylabel(f"mean Jaccard of {k} few-shots")
    axes[0][-1].legend(loc="lower right", fontsize=9)
    alt = (
        f"Mean Jaccard similarity of {k} few-shots with the right flow against the number of pairs tuned on "
        f"(logarithmic), on {listed([SETS[where] for where in sets])}: plain and affine TST and shuffled targets, the "
        "pretrained encoder as a line. Bars and bands: 95% intervals."
    )
    begins = "; ".join(_begins(tests, name) for name in TUNED)
    whole = ", on each test set" if len(tests["test_set"].unique()) > 1 else ""
    finding = f"Out of {pool:,} training requests: {begins}{whole}"
    return Drawing(figure, "tst_learning_curve", finding, alt, values)


def _begins(tests: pd.DataFrame, method: str) -> str:
    """From how many pairs on a method helps on every test set."""
    against = tests[(tests["method"] == method) & (tests["against"] == "pretrained")]
    return f"{label(method)} {from_which(against, 'helps', 'help')}"


def curve_table(values: pd.DataFrame, tests: pd.DataFrame, k: int, pool: int) -> Table:
    """All points of the curve, beside the pretrained encoder."""
    against = tests[tests["against"] == "pretrained"].set_index(["test_set", *AT])
    rows: dict[tuple[str, int], dict] = {}
    for row in values.itertuples():
        cells = rows.setdefault((row.method, row.pairs), {"encoder": label(row.method), "pairs": row.pairs or "–"})
        cells["seeds"] = row.seeds if row.pairs else "–"
        cells[f"Jaccard, {SETS[row.test_set]}"] = intervals(pd.DataFrame([row._asdict()]))[0]
        if row.pairs:
            test = against.loc[(row.test_set, row.method, row.pairs)]
            cells[f"against pretrained, {SETS[row.test_set]}"] = f"{change(test)}, {outcome(test)}"
    frame = pd.DataFrame(rows.values()).fillna("–")
    counts = values.drop_duplicates("test_set")["n"].map("{:,}".format)
    caption = (
        f"{k} few-shots out of {pool:,} training requests, {listed(list(counts))} test requests; 95% intervals "
        f"{covered(values['seeds'].max(), everywhere=False)}; paired randomisation tests, Holm over all rows and "
        "those of shuffled targets against true ones."
    )
    return Table(frame, caption)


def curve_in_words(tests: pd.DataFrame) -> str:
    """Where tuning begins to help, plain and affine, and whether it is the flows; `tests` of `curve_tests`."""
    said = []
    for name in TUNED:
        for where, part in tests[(tests["method"] == name) & (tests["against"] == "pretrained")].groupby(
            "test_set", sort=False
        ):
            harmed = part.loc[part["settled"] & (part["difference"] < 0), "pairs"]
            harm = f" and harms at {listed([f'{size:,}' for size in sorted(harmed)])}" if len(harmed) else ""
            said.append(f"{label(name)} {from_which(part, 'helps', 'help')}{harm} ({SETS[where]}).")
    return " ".join([f"**{' '.join(said)}**", *_control(tests)])


def _control(tests: pd.DataFrame) -> list[str]:
    """Whether shuffled targets help, which they must not."""
    shuffled = tests[tests["method"] == SHUFFLED]
    if shuffled.empty:
        return []
    size = shuffled["pairs"].iloc[0]
    rows = [f"{outcome(test)} on {SETS[test.test_set]}, {change(test)}" for test in shuffled.itertuples()]
    helped = (shuffled["settled"] & (shuffled["difference"] > 0)).any()
    true = [
        f"{change(test)} ({SETS[test.test_set]}{'' if test.settled else ', not settled'})"
        for test in tests[tests["against"] == SHUFFLED].itertuples()
    ]
    return [
        f"The control with targets shuffled among {size:,} pairs, positive ones and negative ones apart, against the "
        "pretrained encoder: "
        f"{'; '.join(rows)}. "
        + (
            "So part of a gain owes nothing to the flows."
            if helped
            else "Without the right targets no gain is settled."
        )
        + (f" True targets against shuffled ones: {listed(true)}." if true else "")
    ]


# ---------------------------------------------------------------- groups of requests


def grouped_tests(
    table: pd.DataFrame, groups: Mapping[str, Sequence[str]], k: int, samples: int, seed: int
) -> pd.DataFrame:
    """TST against the pretrained encoder in each group that has a request: mean Jaccard similarity of k few-shots.

    Args:
        table: of `lib.workflows.target_similarity.over_seeds`, rows of all groups.
        groups: of `lib.workflows.pages.dsl_retrieval.groups_of_requests`.
    """
    named = table.index.get_level_values("pair")
    masks = {name: named.isin(pairs) for name, pairs in groups.items()}
    tests = compare_in_groups(table, "tst", "pretrained", masks, "jaccard", k, resampling(table, samples, seed))
    counts = {
        name: of_requests(table, pairs).index.get_level_values("pair").nunique() for name, pairs in groups.items()
    }
    return tests.assign(n=tests["group"].map(counts), settled=settled(tests))


def groups_table(grouped: pd.DataFrame, k: int) -> Table:
    """What TST changes by group; `grouped` of `grouped_tests`."""
    frame = pd.DataFrame(
        {
            "requests": grouped["group"],
            "n": grouped["n"],
            "pretrained": grouped["b"],
            "TST": grouped["a"],
            "difference": intervals(grouped, DIFFERENCE, 3),
            "p (Holm)": p_values(grouped["p_holm"], 4),
        }
    )
    return Table(
        frame,
        f"Mean Jaccard similarity of {k} few-shots with the right flow, by group: of requests in new wordings, "
        "reworded by hand, or for held-out APIs (groups overlap); 95% intervals, randomisation test, Holm over the "
        "groups. That one group is settled and another is not says nothing about their difference.",
        decimals=3,
    )


def groups_in_words(grouped: pd.DataFrame) -> str:
    """In which groups the change is settled."""
    clear = grouped[grouped["settled"]].set_index("group")["difference"]
    largest = clear.abs().idxmax() if len(clear) else ""
    return (
        f"Settled in {len(clear)} of {len(grouped)} groups ({(clear > 0).sum()} gains, {(clear < 0).sum()} losses)"
        + (f", with the largest change for {largest} ({number(clear[largest], 3)})." if largest else ".")
    )
