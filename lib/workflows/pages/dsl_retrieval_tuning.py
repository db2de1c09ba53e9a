"""Notebook 08: how target similarity tuning (TST) went, and from how many pairs on it helps."""

from __future__ import annotations

import matplotlib.pyplot as plt
import pandas as pd

from lib.evaluation.inference import Resampling, mean_interval
from lib.workbook.display import Drawing, Table, listed, number
from lib.workbook.methods import colour, label, marker
from lib.workflows.pages.common import SETTLED, error_bars, intervals
from lib.workflows.pages.dsl_retrieval import (
    SETS,
    TUNED,
    change,
    of_sizes,
    tested,
)

SHUFFLED = "tst_shuffled"
METHOD_OF = {name: name for name in (*TUNED, SHUFFLED)} | {"nl2dsl": "finetuned_dsl"}  # by the kind of a training run


def targets_table(pairs: pd.DataFrame) -> Table:
    """What there is to learn: targets of all mined pairs, of `lib.workflows.few_shots.scored_pairs`."""
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
        runs: one row a run: columns name, pairs, curve (a frame with a column loss), tokens, seconds, device,
            shipped.
        what: was trained, and in what its loss is.
    """
    ends = [ends_of(curve["loss"]) for curve in runs["curve"]]
    frame = pd.DataFrame(
        {
            "": runs["name"].map(METHOD_OF).map(label),
            "pairs": runs["pairs"],
            "loss, first tenth": [first for first, _, _ in ends],
            "last tenth": [last for _, last, _ in ends],
            "tokens": runs["tokens"],
            "seconds": [number(seconds, 0) for seconds in runs["seconds"]],
            "trained": ["shipped, on " + device if shipped else "here, on " + device
                        for shipped, device in runs[["shipped", "device"]].itertuples(index=False)],
        }
    )  # fmt: skip
    return Table(frame, f"Training runs of {what}; each pair is read once an epoch.", decimals=3)


# ---------------------------------------------------------------- learning curve

AT = ["method", "pairs"]


def curve_values(scores: pd.DataFrame, samples: int, seed: int) -> pd.DataFrame:
    """Means of the points of the learning curve.

    Args:
        scores: columns test_set, method, pairs (0: not tuned), pair, jaccard.

    Returns:
        columns test_set, method, pairs, value, ci_low, ci_high, n.
    """
    rows = []
    for key, part in scores.groupby(["test_set", *AT], sort=False):
        found = mean_interval(part["jaccard"].to_numpy(float), Resampling(part["pair"].to_numpy(), samples, seed), 1.0)
        rows.append((*key, *found, len(part)))
    return pd.DataFrame(rows, columns=["test_set", *AT, "value", "ci_low", "ci_high", "n"])


def contrasts(scores: pd.DataFrame) -> list[tuple[tuple[str, int], tuple[str, int]]]:
    """Every tuned point against the pretrained encoder, and the shuffled targets against true ones."""
    points = list(scores[AT].drop_duplicates().itertuples(index=False, name=None))
    tuned = [point for point in points if point[0] != "pretrained"]
    shuffled = [size for method, size in tuned if method == SHUFFLED]
    true = [(("tst", size), (SHUFFLED, size)) for size in shuffled if ("tst", size) in tuned]
    return [*((point, ("pretrained", 0)) for point in tuned), *true]


def curve_tests(scores: pd.DataFrame, samples: int, seed: int) -> pd.DataFrame:
    """`contrasts` on each test set.

    Args:
        scores: as for `curve_values`.

    Returns:
        columns test_set, method, pairs, against (the other's method), difference, ci_low, ci_high, p_value, settled.
    """
    sides = {
        (where, *one, other[0]): tuple(part[(part[AT] == list(point)).all(axis=1)] for point in (one, other))
        for where, part in scores.groupby("test_set", sort=False)
        for one, other in contrasts(scores)
    }
    keys = pd.DataFrame(list(sides), columns=["test_set", *AT, "against"])
    return keys.join(tested(sides, "jaccard", samples, seed))


def curve_drawing(values: pd.DataFrame, k: int) -> Drawing:
    """Jaccard similarity of k few-shots against the pairs that encoders were tuned on, one panel a test set.

    Args:
        values: of `curve_values`.
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
    return Drawing(figure, "tst_learning_curve", "Few-shots by the number of pairs tuned on", alt, values)


def curve_table(values: pd.DataFrame, tests: pd.DataFrame, k: int, pool: int) -> Table:
    """All points of the curve, beside the pretrained encoder."""
    against = tests[tests["against"] == "pretrained"].set_index(["test_set", *AT])
    rows: dict[tuple[str, int], dict] = {}
    for row in values.itertuples():
        cells = rows.setdefault((row.method, row.pairs), {"encoder": label(row.method), "pairs": row.pairs or "–"})
        cells[f"Jaccard, {SETS[row.test_set]}"] = intervals(pd.DataFrame([row._asdict()]))[0]
        if row.pairs:
            test = against.loc[(row.test_set, row.method, row.pairs)]
            mark = f" {SETTLED}" if test.settled else ""
            cells[f"against pretrained, {SETS[row.test_set]}"] = f"{change(test)}{mark}"
    frame = pd.DataFrame(rows.values()).fillna("–")
    counts = values.drop_duplicates("test_set")["n"].map("{:,}".format)
    caption = (
        f"{k} few-shots out of {pool:,} training requests, {listed(list(counts))} test requests; 95% intervals; "
        f"{SETTLED}: beside 0."
    )
    return Table(frame, caption)
