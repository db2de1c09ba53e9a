"""Notebook 08: few-shots, and what target similarity tuning (TST) makes of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import pandas as pd

from lib.evaluation.comparison import compare_family
from lib.evaluation.inference import Resampling, bootstrap_interval, settled
from lib.retrieval.stores import seeded_order
from lib.workbook.display import Drawing, Table, interval, label_lines, number
from lib.workbook.methods import colour, label, marker
from lib.workflows.pages.common import api_uses, intervals, p_values, rarest_use

PUBLISHED_PAIRS = 100_000  # that the paper tunes on
ENCODERS = ("pretrained", "tst")
BY = {"pretrained": "by the pretrained encoder", "tst": "by TST"}
SELECTORS = ("random", "bm25t", *ENCODERS, "oracle_shots")
NAMES = {name: label(name) for name in SELECTORS} | {"random": "random few-shots"}
MEASURES = {
    "jaccard": "Jaccard",
    "jaccard_best": "best Jaccard",
    "lcs": "LCS",
    "lcs_best": "best LCS",
    "coverage": "coverage",
}
RIVALS = [("tst", "pretrained"), ("tst", "bm25t")]
DIFFERENCE = ["difference", "ci_low", "ci_high"]
SWEPT = (1, 3, 5, 10, 20)  # numbers of few-shots in the figure, besides those of a prompt


def change(test) -> str:
    """The difference of a row, with its interval."""
    return interval(test.difference, test.ci_low, test.ci_high, 3)


# ---------------------------------------------------------------- requests and pairs


def asked_requests(flows: pd.DataFrame, reworded: pd.DataFrame) -> pd.DataFrame:
    """Everything that few-shots are looked up for: flows outside training, then test requests reworded by people.

    Args:
        flows: columns pair, split and whatever else.
        reworded: columns pair (of the test request) and whatever else.

    Returns:
        the columns of both, sample (test, unseen or reworded) and original (the test request); a range index.
    """
    asked = flows[flows["split"] != "training"]
    asked = asked.assign(original=asked["pair"], sample=asked["split"])
    free = reworded.assign(original=reworded["pair"], pair=reworded["pair"] + " reworded", sample="reworded")
    return pd.concat([asked, free], ignore_index=True)


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


# ---------------------------------------------------------------- selectors


def selector_values(table: pd.DataFrame, samples: int, seed: int) -> pd.DataFrame:
    """The mean of each column of `lib.workflows.target_similarity.score_table`.

    Returns:
        columns method, metric, k, value, ci_low, ci_high (95%), n.
    """
    low, high = bootstrap_interval(table.to_numpy(), [table.index], samples, seed)
    values = table.mean().rename("value").reset_index()
    return values.assign(ci_low=low, ci_high=high, n=len(table))


def cells_of(values: pd.DataFrame) -> pd.Series:
    """The values alone, indexed by (method, metric, k)."""
    return values.set_index(["method", "metric", "k"])["value"]


def selectors_table(values: pd.DataFrame, shots: Sequence[int]) -> Table:
    """All measures of all selectors.

    Args:
        values: of `selector_values`.
        shots: numbers of few-shots.
    """
    texts = values.assign(text=intervals(values)).pivot(index=["k", "method"], columns="metric", values="text")
    wide = texts.loc[[(k, name) for k in shots for name in SELECTORS], list(MEASURES)].reset_index()
    wide["method"] = wide["method"].map(NAMES)
    return Table(
        wide.rename(columns={"k": "few-shots", "method": "selector", **MEASURES}),
        f"Few-shots and the flow that is wanted, from 0 to 1: means over {values['n'].iloc[0]:,} test requests with "
        "95% intervals.",
    )


def tst_tests(table: pd.DataFrame, shots: Sequence[int], samples: int, seed: int) -> pd.DataFrame:
    """`RIVALS` in all measures: columns of `compare_family`, and settled."""
    tests = compare_family(table, RIVALS, list(MEASURES), shots, Resampling([table.index], samples, seed))
    return tests.assign(settled=settled(tests))


def tst_tests_table(tests: pd.DataFrame, n: int) -> Table:
    """What TST changes against the pretrained encoder; `tests` of `tst_tests`, over n requests."""
    tests = tests[tests["b"] == "pretrained"].reset_index(drop=True)
    frame = pd.DataFrame(
        {
            "few-shots": tests["k"],
            "measure": tests["metric"].map(MEASURES),
            "TST minus pretrained": intervals(tests, DIFFERENCE, 3),
            "p (Holm)": p_values(tests["p_holm"], 4),
            "settled": tests["settled"].map({True: "yes", False: "no"}),
        }
    )
    return Table(
        frame,
        f"What TST changes: paired over {n:,} test requests, 95% intervals; randomisation test (at least 0.0001), Holm "
        "over these rows and as many against BM25T. Settled: adjusted p of at most 0.05, and the interval excludes 0.",
    )


def share_in_common(found: Mapping[str, pd.DataFrame], pairs: Sequence[str], k: int) -> float:
    """Share of the first k few-shots that are the same under both encoders, over some requests."""
    both = pd.concat([found[name][found[name]["rank"] <= k] for name in ENCODERS])
    chosen = both[both["pair"].isin(pairs)]
    return chosen.groupby(["pair", "shot"]).size().eq(2).sum() / (k * len(pairs))


def verdict(tests: pd.DataFrame, cells: pd.Series, pairs: int, in_common: float) -> str:
    """Whether few-shots are better after TST.

    Args:
        tests: of `tst_tests`.
        cells: of `cells_of`.
        pairs: that TST's encoder was tuned on.
        in_common: of `share_in_common`, at the smallest number of few-shots.
    """
    against, by_words = (tests[tests["b"] == name] for name in ("pretrained", "bm25t"))
    clear = against.loc[against["settled"], "difference"]
    better, worse = (clear > 0).sum(), (clear < 0).sum()
    verb = "changes" if bool(better) == bool(worse) else "improves" if better else "worsens"
    first = against[against["metric"] == "jaccard"].iloc[0]
    of_words = by_words[by_words["metric"] == "coverage"].iloc[0]
    gap = cells["oracle_shots", "jaccard", first["k"]] - cells["pretrained", "jaccard", first["k"]]
    return (
        f"**Tuned on {tuned_on(pairs)}, the encoder {verb} {better + worse} of {len(against)} measures** settledly "
        f"({better} for the better, {worse} for the worse); one training run, whose chance the intervals do not cover. "
        f"With {first['k']} few-shots their mean Jaccard similarity with the right flow changes by {change(first)}; "
        f"the oracle is {number(gap, 3)} above the pretrained encoder. {in_common:.0%} of the {first['k']} few-shots "
        f"are the same under both. Against the words alone (BM25T) TST changes coverage by {change(of_words)}."
        + (" So few pairs give no verdict on the paper's TST." if pairs < PUBLISHED_PAIRS else "")
    )


def selectors_drawing(values: pd.DataFrame, k: int) -> Drawing:
    """Jaccard similarity and coverage against the number of few-shots; the finding is about k of them.

    Args:
        values: of `selector_values`.
    """
    figure, axes = plt.subplots(1, 2, figsize=(10, 3.9))
    measures = {"jaccard": "mean Jaccard with the right flow", "coverage": "share of wanted APIs shown"}
    for axis, (measure, said) in zip(axes, measures.items(), strict=True):
        ends = {}
        for name in SELECTORS:
            part = values[(values["method"] == name) & (values["metric"] == measure)].sort_values("k")
            axis.plot(part["k"], part["value"], color=colour(name), marker=marker(name))
            axis.fill_between(part["k"], part["ci_low"], part["ci_high"], color=colour(name), alpha=0.15, linewidth=0)
            ends[NAMES[name]] = (part["k"].iloc[-1], part["value"].iloc[-1], colour(name))
        axis.set(xlabel="few-shots", ylabel=said, ylim=(0, 1), xticks=sorted(values["k"].unique()))
        label_lines(axis, ends, 0.06)
    shown = cells_of(values).xs(("coverage", k), level=("metric", "k")).map("{:.0%}".format)
    finding = (
        f"{k} few-shots show {shown['pretrained']} of the wanted APIs by the pretrained encoder, {shown['tst']} after "
        f"TST, {shown['oracle_shots']} by the oracle"
    )
    alt = (
        f"Two line plots against the number of few-shots, for {len(SELECTORS)} selectors: mean Jaccard similarity with "
        "the right flow, and share of wanted APIs shown. Bands: 95% intervals."
    )
    return Drawing(figure, "few_shot_retrieval", finding, alt, values)


# ---------------------------------------------------------------- groups of requests

EVERY_TEST, FROM_TRAINING = "all test requests", "training requests"


def drawn(pairs: pd.DataFrame, n: int, seed: int) -> pd.DataFrame:
    """At most n rows, drawn by a hash of their column pair, in their order."""
    return pairs[pairs["pair"].isin(seeded_order(pairs["pair"], seed)[:n])]


def fresh_requests(training: pd.DataFrame, tuned: pd.DataFrame, n: int, seed: int) -> pd.DataFrame:
    """At most n training requests, drawn among those that are in no tuned pair.

    Args:
        training: column pair.
        tuned: columns a, b.
    """
    return drawn(training[~training["pair"].isin({*tuned["a"], *tuned["b"]})], n, seed)


def groups_of_requests(asked: pd.DataFrame, training: pd.DataFrame, fresh: Sequence[str]) -> dict[str, pd.Series]:
    """The pairs of each group.

    Args:
        asked: of `asked_requests`, with columns dsl, apis, n_calls, conditions.
        training: columns dsl, apis.
        fresh: training pairs that TST was not tuned on.
    """
    pair, is_test = asked["pair"], asked["sample"] == "test"
    same = asked["dsl"].isin(set(training["dsl"]))
    thirds = thirds_by_rarity(asked[is_test], training)
    composed = asked.loc[asked["sample"] == "reworded", "original"]
    return {
        "same flow in training": pair[is_test & same],
        "flow not in training": pair[is_test & ~same],
        **{f"rarest API: {name}": pair[thirds.index[thirds == name]] for name in ("rare", "middling", "common")},
        "one or two calls": pair[is_test & (asked["n_calls"] <= 2)],
        "three calls or more": pair[is_test & (asked["n_calls"] > 2)],
        "with a condition": pair[is_test & (asked["conditions"] > 0)],
        "reworded by people": pair[asked["sample"] == "reworded"],
        "the same, as composed": pair[is_test & pair.isin(composed)],
        "held-out APIs": pair[asked["sample"] == "unseen"],
        EVERY_TEST: pair[is_test],
        FROM_TRAINING: pd.Series(fresh),
    }


def thirds_by_rarity(test: pd.DataFrame, training: pd.DataFrame) -> pd.Series:
    """Which third of the requests each is in by the rarest API that its flow needs: rare, middling or common."""
    if len(test) < 3:
        return pd.Series("rare", index=test.index)
    rarest = rarest_use(test["apis"], api_uses(training))
    return pd.qcut(rarest.rank(method="first"), 3, labels=["rare", "middling", "common"])


# ---------------------------------------------------------------- the page's finding


def tuned_on(pairs: int) -> str:
    """How many pairs, beside the paper's."""
    share = number(pairs * 100 / PUBLISHED_PAIRS, 1)
    return f"{pairs:,} pairs, {share}% of the paper's {PUBLISHED_PAIRS:,}"


FINDING_ALT = (
    "Line plots: mean Jaccard similarity with the right flow and share of wanted APIs shown, against the number of "
    f"few-shots, for {len(SELECTORS)} selectors."
)


def best_encoder(cells: pd.Series, k: int) -> str:
    """The encoder whose k few-shots show more of the wanted APIs; `cells` of `cells_of`."""
    return max(ENCODERS, key=lambda name: cells[name, "coverage", k])


def finding(cells: pd.Series, grouped: pd.DataFrame, shots: Sequence[int], training: int, pairs: int) -> str:
    """What TST changes, and how many of the wanted APIs few-shots show.

    Args:
        cells: of `cells_of`.
        grouped: of `lib.workflows.pages.dsl_retrieval_tuning.grouped_tests`.
        shots: numbers of few-shots, ascending.
        training: pairs that few-shots come from.
        pairs: that TST's encoder was tuned on.
    """
    by_group, best = grouped.set_index("group"), best_encoder(cells, shots[-1])
    pretrained, oracle = (number(cells[name, "jaccard", shots[0]], 2) for name in ("pretrained", "oracle_shots"))
    elsewhere = (
        f" on test requests and by {change(by_group.loc[FROM_TRAINING])} on training requests that it was not tuned on"
        if FROM_TRAINING in by_group.index
        else ""
    )
    return (
        f"Few-shots for {by_group.loc[EVERY_TEST, 'n']:,} workflow requests out of {training:,} pairs: target "
        f"similarity tuning on {tuned_on(pairs) if pairs else 'no pair'}, changes the Jaccard similarity of {shots[0]} "
        f"few-shots with the right flow by **{change(by_group.loc[EVERY_TEST])}**{elsewhere} (pretrained {pretrained}, "
        f"oracle {oracle}). {shots[-1]} few-shots {BY[best]} show {cells[best, 'coverage', shots[-1]]:.0%} of the "
        "wanted APIs."
    )
