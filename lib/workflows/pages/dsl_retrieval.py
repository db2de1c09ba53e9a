"""Notebook 08: few-shots, and what target similarity tuning (TST) makes of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes

from lib.evaluation.comparison import compare, compare_family
from lib.evaluation.inference import Resampling, bootstrap_interval, holm_adjust, settled
from lib.retrieval.stores import seeded_order
from lib.workbook.display import Drawing, Table, interval, label_lines, listed, number
from lib.workbook.forest import forest
from lib.workbook.methods import colour, label, marker
from lib.workflows.pages.common import api_uses, intervals, rarest_use

PUBLISHED_PAIRS = 100_000  # that the paper tunes on
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


def outcome(test) -> str:
    """What a row says of its method: helps, harms or not settled."""
    return ("helps" if test.difference > 0 else "harms") if test.settled else "not settled"


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
    """Of both levels of the index (pair, seed): requests and training runs, of which there are a few at most."""
    levels = [table.index.get_level_values(level) for level in table.index.names]
    return Resampling(levels, samples, seed, bootstrap=True)


def of_requests(table: pd.DataFrame, pairs: Sequence[str]) -> pd.DataFrame:
    """The rows of some requests; `table` has the index (pair, seed)."""
    return table[table.index.get_level_values("pair").isin(pairs)]


def paired(one: pd.DataFrame, other: pd.DataFrame, value: str) -> pd.DataFrame:
    """Two sides of a comparison on the requests of both, as `lib.evaluation.comparison.compare` takes them.

    Args:
        one, other: columns pair, seed (of the training run) and `value`. A side with one run stands beside each run of
            the other.

    Returns:
        columns (a, `value`, 0) and (b, `value`, 0), index (pair, seed).
    """
    runs = [side["seed"].nunique() for side in (one, other)]
    on = ["pair", "seed"] if min(runs) > 1 else ["pair"]
    left, right = (one, other) if runs[0] >= runs[1] else (other, one)
    both = left[["pair", "seed", value]].merge(right[[*on, value]], on=on, suffixes=("_left", "_right"))
    both = both.set_index(["pair", "seed"])
    names = {"a": "left", "b": "right"} if left is one else {"a": "right", "b": "left"}
    return pd.DataFrame({(name, value, 0): both[f"{value}_{side}"] for name, side in names.items()})


def tested(pairs: Mapping[tuple, tuple[pd.DataFrame, pd.DataFrame]], value: str, samples: int, seed: int):
    """Paired differences of several comparisons: the randomisation test, Holm over all of them.

    Args:
        pairs: by key the two sides of a comparison, as `paired` takes them.

    Returns:
        one row a comparison in order: difference, ci_low, ci_high (over requests and training runs), p_value, n
        (requests), p_holm, settled.
    """
    rows = []
    for one, other in pairs.values():
        both = paired(one, other, value)
        row = compare(both, [("a", "b")], value, 0, resampling(both, samples, seed), top=1.0).iloc[0]
        rows.append([*row[[*DIFFERENCE, "p_value"]], both.index.get_level_values("pair").nunique()])
    tests = pd.DataFrame(rows, columns=[*DIFFERENCE, "p_value", "n"])
    tests["p_holm"] = holm_adjust(tests["p_value"])
    return tests.assign(settled=settled(tests))


def from_which(tests: pd.DataFrame, does: str, do: str) -> str:
    """From which of the tried numbers of training pairs on all rows are settled gains, in words.

    Args:
        tests: columns pairs, difference, settled.
        does, do: a verb, as in `helps` and `help`.
    """
    gains = (tests["settled"] & (tests["difference"] > 0)).groupby(tests["pairs"]).all().sort_index()
    sizes = gains.index.tolist()
    if not gains.any():
        return f"{does} at no size up to {sizes[-1]:,} pairs"
    if not gains.iloc[-1]:
        return f"{does} at {listed([f'{size:,}' for size in sizes if gains[size]])} pairs, not at {sizes[-1]:,}"
    if gains.all():
        few = " already" if len(sizes) > 1 else ""
        return f"{does}{few} at {sizes[0]:,} pairs{', the fewest tried' if few else ''}"
    last = max(i for i, size in enumerate(sizes) if not gains[size])
    return f"begins to {do} between {sizes[last]:,} and {sizes[last + 1]:,} pairs"


def selector_values(
    table: pd.DataFrame, sets: Mapping[str, pd.DataFrame], pairs: Mapping[str, int], samples: int, seed: int
) -> pd.DataFrame:
    """The mean of each column of `lib.workflows.target_similarity.score_table` over each test set.

    Args:
        table: of `lib.workflows.target_similarity.over_seeds`.
        sets: of `sets_of`.
        pairs: that each tuned encoder learned from.

    Returns:
        columns test_set, selector, train_pairs and seeds (0 for selectors that learned nothing), metric, shots, value,
        ci_low, ci_high (95%), n (requests).
    """
    runs = table.index.get_level_values("seed").nunique()
    parts = []
    for name, requests in sets.items():
        part = of_requests(table, requests["pair"])
        over = resampling(part, samples, seed)
        low, high = bootstrap_interval(part.to_numpy(), over.clusters, over.samples, over.seed)
        values = part.mean().rename("value").reset_index().assign(ci_low=low, ci_high=high)
        parts.append(values.assign(test_set=name, n=len(requests)))
    values = pd.concat(parts, ignore_index=True).rename(columns={"method": "selector", "k": "shots"})
    learned = values["selector"].map(pairs).fillna(0).astype(int)
    values = values.assign(train_pairs=learned, seeds=runs * (learned > 0))
    return values[
        ["test_set", "selector", "train_pairs", "seeds", "metric", "shots", "value", "ci_low", "ci_high", "n"]
    ]


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
        f"Few-shots and the flow that is wanted, from 0 to 1: means over {asked}, with 95% intervals "
        f"{covered(values['seeds'].max())}.",
    )


def covered(runs: int, everywhere: bool = True) -> str:
    """What intervals cover, in words.

    Args:
        runs: of training, at most.
        everywhere: whether each trained row has as many.
    """
    if runs > 1:
        return f"over requests and {runs} training runs" + ("" if everywhere else ", where there are as many")
    return "over requests" + (" (one training run: its chance is not covered)" if runs else "")


def tst_tests(
    table: pd.DataFrame, sets: Mapping[str, pd.DataFrame], shots: Sequence[int], samples: int, seed: int
) -> pd.DataFrame:
    """`RIVALS`, those that the table has, in the `TABULATED` measures on each test set: columns of `compare_family`,
    test_set and settled; Holm over all rows."""
    scored = set(table.columns.get_level_values("method"))
    rivals = [pair for pair in RIVALS if scored.issuperset(pair)]
    parts = []
    for name, requests in sets.items():
        part = of_requests(table, requests["pair"])
        tests = compare_family(part, rivals, TABULATED, shots, resampling(part, samples, seed), top=1.0)
        parts.append(tests.assign(test_set=name))
    tests = pd.concat(parts, ignore_index=True)
    tests["p_holm"] = holm_adjust(tests["p_value"])
    return tests.assign(settled=settled(tests))


def tst_tests_drawing(tests: pd.DataFrame) -> Drawing:
    """What TST changes, a panel a test set; `tests` of `tst_tests`, those against the words alone left out."""
    rows = tests[tests["b"] != "bm25t"]
    told = [f"{MEASURES[row.metric]} of {row.k}: {label(row.a)} − {label(row.b)}" for row in rows.itertuples()]
    rows = rows.assign(comparison=told, panel=rows["test_set"].map(SETS))
    clear = rows.loc[rows["settled"], "difference"]
    finding = (
        f"{len(clear)} of {len(rows)} differences between the encoders' few-shots are settled (gains: "
        f"{(clear > 0).sum()}, losses: {(clear < 0).sum()})"
    )
    unit = "difference of scores from 0 to 1, with its 95% interval"
    return forest(rows, "few_shot_tests", finding, unit, panel="panel", decimals=3)


def verdict(tests: pd.DataFrame, cells: pd.Series, pairs: Mapping[str, int]) -> str:
    """Whether few-shots are better after TST, plain and affine, on each test set, at the fewest few-shots.

    Args:
        tests: of `tst_tests`.
        cells: of `cells_of`.
        pairs: that each tuned encoder learned from.
    """
    k = tests["k"].min()
    first = tests[(tests["k"] == k) & (tests["metric"] == "jaccard")].set_index(["a", "b", "test_set"])
    sets = list(dict.fromkeys(tests["test_set"]))
    parts = []
    for name in pairs:
        said = [_effect(first.loc[name, "pretrained", where], cells, name, where, k) for where in sets]
        parts.append(f"**{label(name)}: {'; '.join(said)}.**")
    both = {where: first.loc["tst_affine", "tst", where] for where in sets} if "tst_affine" in pairs else {}
    apart = [f"{_which(test)} ({SETS[where]}, {change(test)})" for where, test in both.items()]
    of_the_two = f" Of the two, {listed(apart)}." if apart else ""
    words = [f"{change(first.loc['tst', 'bm25t', where])} ({SETS[where]})" for where in sets]
    return (
        f"Mean Jaccard similarity of {k} few-shots with the right flow, encoders tuned on {tuned_on(pairs)}, against "
        f"the pretrained encoder. {' '.join(parts)}{of_the_two} Against the words alone (BM25T) TST changes it by "
        f"{listed(words)}."
        + (" So few pairs give no verdict on the paper's TST." if max(pairs.values()) < PUBLISHED_PAIRS else "")
    )


def _effect(test, cells: pd.Series, name: str, where: str, k: int) -> str:
    before, after, most = (cells[where, one, "jaccard", k] for one in ("pretrained", name, "oracle_shots"))
    said = f"{outcome(test)} on {SETS[where]}, {change(test)}"
    if outcome(test) != "helps" or most <= before:
        return said
    return f"{said}, {(after - before) / (most - before):.0%} of the way to the oracle"


def _which(test) -> str:
    if not test.settled:
        return "neither is settled as the better"
    return "the affine one is better" if test.difference > 0 else "the plain one is better"


def selectors_drawing(values: pd.DataFrame, k: int) -> Drawing:
    """Jaccard similarity against the number of few-shots, one panel a test set; the finding is about k of them.

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
    cells = cells_of(values)
    said = {"pretrained": "by the pretrained encoder", "tst": "after TST", "tst_affine": "after affine TST"}
    shown = [
        listed(
            [f"{number(cells[where, name, 'jaccard', k], 2)} {how}" for name, how in said.items() if name in selectors]
        )
        + f" on {SETS[where]}"
        for where in sets
    ]
    alt = (
        f"Line plots of the mean Jaccard similarity with the right flow against the number of few-shots, for "
        f"{len(selectors)} selectors, on {listed([SETS[where] for where in sets])}. Bands: 95% intervals."
    )
    return Drawing(figure, "few_shot_retrieval", f"Jaccard of {k} few-shots: {'; '.join(shown)}", alt, values)


def of_sizes(axis: Axes, sizes: Iterable[int], label: str) -> None:
    """A logarithmic x axis with a tick at each number of training pairs."""
    ticks = sorted(set(sizes))
    axis.set_xscale("log")
    axis.set_xticks(ticks, [f"{size:,}" for size in ticks], rotation=30, ha="right")
    axis.minorticks_off()
    axis.set_xlabel(label)


# ---------------------------------------------------------------- groups of requests


def groups_of_requests(asked: pd.DataFrame, training: pd.DataFrame) -> dict[str, pd.Series]:
    """The pairs of each group.

    Args:
        asked: of `asked_requests`, with columns dsl, apis.
        training: columns dsl, apis.
    """
    pair, is_test = asked["pair"], asked["sample"] == "test"
    same = asked["dsl"].isin(set(training["dsl"]))
    thirds = thirds_by_rarity(asked[is_test], training)
    composed = asked.loc[asked["sample"] == "reworded", "original"]
    return {
        "same flow in training": pair[is_test & same],
        **{f"rarest API: {name}": pair[thirds.index[thirds == name]] for name in ("rare", "middling", "common")},
        "reworded by hand": pair[asked["sample"] == "reworded"],
        "the same, as composed": pair[is_test & pair.isin(composed)],
        "held-out APIs": pair[asked["sample"] == "unseen"],
    }


def thirds_by_rarity(test: pd.DataFrame, training: pd.DataFrame) -> pd.Series:
    """Which third of the requests each is in by the rarest API that its flow needs: rare, middling or common."""
    if len(test) < 3:
        return pd.Series("rare", index=test.index)
    rarest = rarest_use(test["apis"], api_uses(training))
    return pd.qcut(rarest.rank(method="first"), 3, labels=["rare", "middling", "common"])


# ---------------------------------------------------------------- the page's finding


def tuned_on(pairs: Mapping[str, int]) -> str:
    """How many pairs each tuned encoder learned from, beside the paper's number."""
    sizes = list(dict.fromkeys(pairs.values()))
    if not any(sizes):
        return "no pair"
    if sizes == [PUBLISHED_PAIRS]:
        return f"{PUBLISHED_PAIRS:,} pairs, as many as the paper's"
    return f"{' and '.join(f'{size:,}' for size in sizes)} pairs (the paper: {PUBLISHED_PAIRS:,})"


FINDING_ALT = (
    "Line plots: mean Jaccard similarity with the right flow against the number of few-shots, a line a selector."
)


def best_encoder(cells: pd.Series, k: int) -> str:
    """The encoder whose k few-shots show more of the APIs that test requests want; `cells` of `cells_of`."""
    selectors = cells.index.get_level_values("selector")
    return max((name for name in ENCODERS if name in selectors), key=lambda name: cells["test", name, "coverage", k])


def by(selector: str) -> str:
    """Whose few-shots, in words."""
    return "by the pretrained encoder" if selector == "pretrained" else f"by {label(selector)}"


def finding(
    tests: pd.DataFrame, cells: pd.Series, shots: Sequence[int], training: int, pairs: Mapping[str, int]
) -> str:
    """What TST changes, and how many of the wanted APIs few-shots show.

    Args:
        tests: of `tst_tests`.
        cells: of `cells_of`.
        shots: numbers of few-shots, ascending.
        training: pairs that few-shots come from.
        pairs: that each tuned encoder learned from.
    """
    few, most, best = shots[0], shots[-1], best_encoder(cells, shots[-1])
    plain = tests[(tests["a"] == "tst") & (tests["b"] == "pretrained") & (tests["metric"] == "jaccard")]
    said = []
    for test in plain[plain["k"] == few].itertuples():
        ends = [number(cells[test.test_set, name, "jaccard", few], 2) for name in ("pretrained", "tst")]
        most_possible = number(cells[test.test_set, "oracle_shots", "jaccard", few], 2)
        said.append(
            f"**{outcome(test)}** on {SETS[test.test_set]}: {' → '.join(ends)}, {change(test)} (oracle {most_possible})"
        )
    return (
        f"Few-shots out of {training:,} pairs: target similarity tuning on {tuned_on(pairs)}, "
        f"measured by the Jaccard similarity of {few} few-shots with the right flow, {'; '.join(said)}. {most} "
        f"few-shots {by(best)} show {cells['test', best, 'coverage', most]:.0%} of the APIs that {SETS['test']} want."
    )
