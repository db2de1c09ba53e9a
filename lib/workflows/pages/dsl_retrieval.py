"""Notebook 08: few-shots, and what target similarity tuning (TST) makes of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes

from lib.evaluation.comparison import compare
from lib.evaluation.inference import Resampling, mean_interval, settled
from lib.retrieval.stores import seeded_order
from lib.workbook.display import Drawing, Table, interval, label_lines, listed
from lib.workbook.forest import forest
from lib.workbook.methods import colour, label, marker
from lib.workflows.pages.common import intervals

TUNED = ("tst", "tst_affine")
ENCODERS = ("pretrained", *TUNED)
SELECTORS = ("random", "bm25t", *ENCODERS, "oracle_shots")
NAMES = {name: label(name) for name in SELECTORS} | {"random": "random few-shots"}
SETS = {"test": "new wordings", "test_same": "known wordings"}
MEASURES = {
    "jaccard": "Jaccard",
    "jaccard_best": "best Jaccard",
    "lcs": "LCS",
    "lcs_best": "best LCS",
    "coverage": "coverage",
}
TABULATED = ("jaccard", "jaccard_best", "coverage")
RIVALS = [("tst", "pretrained"), ("tst_affine", "pretrained"), ("tst_affine", "tst"), ("tst", "bm25t")]
DIFFERENCE = ["difference", "ci_low", "ci_high"]
SWEPT = (1, 3, 5, 10, 20)  # numbers of few-shots in the figure, besides those of a prompt


def change(test) -> str:
    """The difference of a row, with its interval."""
    return interval(test.difference, test.ci_low, test.ci_high, 3)


# ---------------------------------------------------------------- requests and pairs


def asked_requests(flows: pd.DataFrame, reworded: pd.DataFrame) -> pd.DataFrame:
    """Everything that few-shots are looked up for: flows outside training, then test requests reworded by hand.

    Args:
        flows: columns pair, split and whatever else.
        reworded: columns pair (of the test request) and whatever else.

    Returns:
        the columns of both, sample (test, test_same, unseen or reworded) and original (the test request); a range
        index.
    """
    asked = flows[flows["split"] != "training"]
    asked = asked.assign(original=asked["pair"], sample=asked["split"])
    free = reworded.assign(original=reworded["pair"], pair=reworded["pair"] + " reworded", sample="reworded")
    return pd.concat([asked, free], ignore_index=True)


def sets_of(asked: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The requests of each test set that has any; `asked` of `asked_requests`."""
    parts = {name: asked[asked["sample"] == name] for name in SETS}
    return {name: part for name, part in parts.items() if len(part)}


def example_table(example: pd.Series, shots: pd.DataFrame, training: pd.DataFrame) -> Table:
    """A request with its three nearest few-shots.

    Args:
        example: entries pair, request, dsl.
        shots: columns pair, rank, shot.
        training: columns pair, request, dsl.
    """
    near = shots[(shots["pair"] == example["pair"]) & (shots["rank"] <= 3)]
    found = training.set_index("pair").loc[near["shot"]]
    frame = pd.DataFrame(
        {
            "": ["the request", *(f"few-shot {rank}" for rank in near["rank"])],
            "request": [example["request"], *found["request"]],
            "flow": [example["dsl"], *found["dsl"]],
        }
    )
    caption = (
        f"A test request with the flow that is wanted, and its three nearest of {len(training):,} training requests."
    )
    return Table(frame, caption, text_columns=["request"], code_columns=["flow"])


def drawn(pairs: pd.DataFrame, n: int, seed: int) -> pd.DataFrame:
    """At most n rows, drawn by a hash of their column pair, in their order."""
    return pairs[pairs["pair"].isin(seeded_order(pairs["pair"], seed)[:n])]


def of_pairs(found: Mapping[str, pd.DataFrame], asked: pd.DataFrame, k: int | None = None) -> dict[str, pd.DataFrame]:
    """The few-shots of some requests, of each selector; the first k of each where given."""
    kept = {name: shots[shots["pair"].isin(asked["pair"])] for name, shots in found.items()}
    return {name: shots[shots["rank"] <= k] if k else shots for name, shots in kept.items()}


# ---------------------------------------------------------------- selectors


def resampling(table: pd.DataFrame, samples: int, seed: int) -> Resampling:
    """Of the index, requests."""
    return Resampling(table.index.to_numpy(), samples, seed)


def tested(pairs: Mapping[tuple, tuple[pd.DataFrame, pd.DataFrame]], value: str, samples: int, seed: int):
    """Paired differences of several comparisons.

    Args:
        pairs: by key the two sides of a comparison, columns pair and `value`; compared on the requests of both.

    Returns:
        one row a comparison in order: difference, ci_low, ci_high, p_value, n (requests), settled.
    """
    rows = []
    for one, other in pairs.values():
        sides = {(name, value, 0): side.set_index("pair")[value] for name, side in (("a", one), ("b", other))}
        both = pd.concat(sides, axis=1, join="inner")
        row = compare(both, [("a", "b")], value, 0, resampling(both, samples, seed), top=1.0).iloc[0]
        rows.append([*row[[*DIFFERENCE, "p_value"]], len(both)])
    tests = pd.DataFrame(rows, columns=[*DIFFERENCE, "p_value", "n"])
    return tests.assign(settled=settled(tests))


def selector_values(
    table: pd.DataFrame, sets: Mapping[str, pd.DataFrame], pairs: Mapping[str, int], samples: int, seed: int
) -> pd.DataFrame:
    """The mean of each column of `lib.workflows.few_shots.score_table` over each test set.

    Args:
        sets: of `sets_of`.
        pairs: that each tuned encoder learned from.

    Returns:
        columns test_set, selector, train_pairs (0 for selectors that learned nothing), metric, shots, value, ci_low,
        ci_high (95%), n (requests).
    """
    parts = []
    for name, requests in sets.items():
        part = table[table.index.isin(requests["pair"])]
        found = mean_interval(part.to_numpy(float), resampling(part, samples, seed), 1.0)
        values = part.columns.to_frame(index=False).assign(value=found.value, ci_low=found.low, ci_high=found.high)
        parts.append(values.assign(test_set=name, n=len(requests)))
    values = pd.concat(parts, ignore_index=True).rename(columns={"method": "selector", "k": "shots"})
    learned = values["selector"].map(pairs).fillna(0).astype(int)
    values = values.assign(train_pairs=learned)
    return values[["test_set", "selector", "train_pairs", "metric", "shots", "value", "ci_low", "ci_high", "n"]]


def cells_of(values: pd.DataFrame) -> pd.Series:
    """The values alone, indexed by (test_set, selector, metric, shots)."""
    return values.set_index(["test_set", "selector", "metric", "shots"])["value"]


def selectors_table(values: pd.DataFrame, shots: Sequence[int]) -> Table:
    """`TABULATED` measures of all selectors, one group of columns a test set.

    Args:
        values: of `selector_values`.
        shots: numbers of few-shots.
    """
    texts = values.assign(text=intervals(values))
    wide = texts.pivot(index=["shots", "selector"], columns=["test_set", "metric"], values="text")
    sets = list(dict.fromkeys(values["test_set"]))
    columns = [(name, metric) for name in sets for metric in TABULATED]
    wide = wide.loc[[(k, name) for k in shots for name in SELECTORS if (k, name) in wide.index], columns]
    wide.columns = [f"{MEASURES[metric]}, {SETS[name]}" for name, metric in columns]
    wide = wide.reset_index().assign(selector=lambda rows: rows["selector"].map(NAMES))
    counts = values.drop_duplicates("test_set").set_index("test_set")["n"]
    many = {name: "1 test request" if counts[name] == 1 else f"{counts[name]:,} test requests" for name in sets}
    asked = listed([f"{number} in {SETS[name]}" for name, number in many.items()])
    return Table(
        wide.rename(columns={"shots": "few-shots"}),
        f"Few-shots and the flow that is wanted, from 0 to 1: means over {asked}, with 95% intervals.",
    )


def tst_tests(
    table: pd.DataFrame, sets: Mapping[str, pd.DataFrame], shots: Sequence[int], samples: int, seed: int
) -> pd.DataFrame:
    """`RIVALS`, those that the table has, in the `TABULATED` measures on each test set: columns of `compare`,
    metric, k, test_set and settled."""
    scored = set(table.columns.get_level_values("method"))
    rivals = [pair for pair in RIVALS if scored.issuperset(pair)]
    parts = []
    for name, requests in sets.items():
        part = table[table.index.isin(requests["pair"])]
        over = resampling(part, samples, seed)
        parts += [
            compare(part, rivals, metric, k, over, top=1.0).assign(metric=metric, k=k, test_set=name)
            for k in shots
            for metric in TABULATED
        ]
    tests = pd.concat(parts, ignore_index=True)
    return tests.assign(settled=settled(tests))


def tst_tests_drawing(tests: pd.DataFrame) -> Drawing:
    """What TST changes, a panel a test set; `tests` of `tst_tests`, those against the words alone left out."""
    rows = tests[tests["b"] != "bm25t"]
    told = [f"{MEASURES[row.metric]} of {row.k}: {label(row.a)} − {label(row.b)}" for row in rows.itertuples()]
    rows = rows.assign(comparison=told, panel=rows["test_set"].map(SETS))
    unit = "difference of scores from 0 to 1, with its 95% interval"
    return forest(rows, "few_shot_tests", "What TST changes in few-shots", unit, panel="panel", decimals=3)


def selectors_drawing(values: pd.DataFrame) -> Drawing:
    """Jaccard similarity against the number of few-shots, one panel a test set.

    Args:
        values: of `selector_values`.
    """
    sets = list(dict.fromkeys(values["test_set"]))
    selectors = [name for name in SELECTORS if name in set(values["selector"])]
    figure, axes = plt.subplots(1, len(sets), figsize=(5.2 * len(sets), 3.9), sharey=True, squeeze=False)
    for axis, where in zip(axes[0], sets, strict=True):
        ends = {}
        for name in selectors:
            chosen = (values["test_set"] == where) & (values["selector"] == name) & (values["metric"] == "jaccard")
            part = values[chosen].sort_values("shots")
            axis.plot(part["shots"], part["value"], color=colour(name), marker=marker(name))
            axis.fill_between(
                part["shots"], part["ci_low"], part["ci_high"], color=colour(name), alpha=0.15, linewidth=0
            )
            ends[NAMES[name]] = (part["shots"].iloc[-1], part["value"].iloc[-1], colour(name))
        axis.set(xlabel="few-shots", ylim=(0, 1), xticks=sorted(values["shots"].unique()), title=SETS[where])
        label_lines(axis, ends, 0.08)
    axes[0][0].set_ylabel("mean Jaccard with the right flow")
    alt = (
        f"Line plots of the mean Jaccard similarity with the right flow against the number of few-shots, for "
        f"{len(selectors)} selectors, on {listed([SETS[where] for where in sets])}. Bands: 95% intervals."
    )
    return Drawing(figure, "few_shot_retrieval", "Few-shots and the right flow, by who selects", alt, values)


def of_sizes(axis: Axes, sizes: Iterable[int], label: str) -> None:
    """A logarithmic x axis with a tick at each number of training pairs."""
    ticks = sorted(set(sizes))
    axis.set_xscale("log")
    axis.set_xticks(ticks, [f"{size:,}" for size in ticks], rotation=30, ha="right")
    axis.minorticks_off()
    axis.set_xlabel(label)


# ---------------------------------------------------------------- the page's finding


def best_encoder(cells: pd.Series, k: int) -> str:
    """The encoder whose k few-shots show more of the APIs that test requests want; `cells` of `cells_of`."""
    selectors = cells.index.get_level_values("selector")
    return max((name for name in ENCODERS if name in selectors), key=lambda name: cells["test", name, "coverage", k])
