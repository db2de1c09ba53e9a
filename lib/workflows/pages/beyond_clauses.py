"""Notebook 12: requests cut into clauses, what is found by clause, and how that holds in a larger catalogue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import pandas as pd

from lib.evaluation.inference import holm_adjust, settled
from lib.evaluation.rates import paired_deltas, rates_with_intervals
from lib.workbook.display import Drawing, Table, interval
from lib.workbook.forest import forest
from lib.workflows.clause_retrieval import ALIKE, SETS
from lib.workflows.clauses import Cut, clause_texts
from lib.workflows.pages.common import intervals

SAMPLES = {
    "test": "new wordings", "test_same": "known wordings", "reworded": "reworded by hand", "flow_bench": "Flow-Bench",
}  # fmt: skip
CUTTERS = {"rules": "rules", "learned": "learned cutter"}
CUT_METRICS = {
    "precision": "precision, %", "recall": "recall, %", "f1": "F1, %", "exact": "all boundaries right, %",
    "same_count": "as many clauses as calls, %",
}  # fmt: skip
WAYS = {
    "whole": "whole request", "rules": "by clause (rules)", "learned": "by clause (learned cutter)",
    "nearest": "nearest", "set": "set for coverage alone", "near_set": "set that stays alike",
}  # fmt: skip
METRICS = {
    "coverage": "wanted APIs, %", "all_covered": "all wanted APIs, %", "jaccard": "mean Jaccard, %",
    "jaccard_best": "best Jaccard, %",
}  # fmt: skip
SHOWN = {"definitions": "definitions as beside {} shots", "few-shots": "{} shots"}
BASES = {"definitions": "by the whole request", "few-shots": "the nearest few-shots"}
ENCODERS = {"pretrained": "pretrained", "tst": "TST"}
GROUP = ["question", "encoder", "k", "sample"]
VALUE = ["value", "ci_low", "ci_high"]


# ---------------------------------------------------------------- cutting


def _cut_outcomes(scores: pd.DataFrame) -> pd.DataFrame:
    """`lib.evaluation.rates` outcomes of `cut_scores` with columns cutter and sample."""
    known = scores.dropna(subset=["wanted"])
    parts = {
        "precision": (known, known["right"], known["found"]),
        "recall": (known, known["right"], known["wanted"]),
        "f1": (known, 2 * known["right"], known["found"] + known["wanted"]),
        "exact": (known, known["exact"], 1.0),
        "same_count": (scores, scores["same_count"], 1.0),
    }
    return pd.concat([
        rows[["sample", "cutter", "pair"]].rename(columns={"cutter": "condition", "pair": "unit"})
        .assign(metric=metric, numerator=over, denominator=under)
        for metric, (rows, over, under) in parts.items()
    ])  # fmt: skip


def cut_values(scores: pd.DataFrame, samples: int, seed: int) -> pd.DataFrame:
    """How well requests are cut: precision, recall and F1 of the boundaries between clauses, shares of requests.

    Args:
        scores: of `lib.workflows.clauses.cut_scores`, with columns cutter (of `CUTTERS`) and sample (of `SAMPLES`).
        samples, seed: of the bootstrap.

    Returns:
        columns sample, cutter, metric, value, ci_low, ci_high (percent), n (requests).
    """
    parts = []
    for sample, part in _cut_outcomes(scores).groupby("sample", sort=False):
        rates = rates_with_intervals(part, CUT_METRICS, samples, seed).rename(columns={"condition": "cutter"})
        parts.append(rates.assign(sample=sample))
    return pd.concat(parts, ignore_index=True)[["sample", "cutter", "metric", *VALUE, "n"]]


def cut_tests(scores: pd.DataFrame, samples: int, seed: int) -> pd.DataFrame:
    """The learned cutter minus the rules in requests cut exactly right and in counts, paired, Holm over all rows.

    Returns:
        columns sample, metric, difference, ci_low, ci_high (points), p_value, p_holm, n, settled, comparison.
    """
    parts = []
    outcomes = _cut_outcomes(scores)
    for sample, part in outcomes[outcomes["metric"].isin(["exact", "same_count"])].groupby("sample", sort=False):
        tests = paired_deltas(part, [("learned", "rules")], CUT_METRICS, samples, seed)
        parts.append(tests.assign(sample=sample))
    tests = pd.concat(parts, ignore_index=True).rename(columns={"delta": "difference"})
    tests["p_holm"] = holm_adjust(tests["p_value"])
    tests["settled"] = settled(tests)
    named = zip(tests["sample"], tests["metric"], strict=True)
    tests["comparison"] = [f"{CUT_METRICS[metric].split(',')[0]}, {SAMPLES[sample]}" for sample, metric in named]
    return tests.drop(columns=["a", "b", "counted_both"])


def cuts_table(values: pd.DataFrame) -> Table:
    """`cut_values` for readers."""
    wide = values.assign(text=intervals(values, VALUE, 0)).pivot(
        index=["sample", "cutter"], columns="metric", values="text"
    )
    wide = wide.reindex(columns=list(CUT_METRICS))  # where no clause is known, numbers of clauses alone are judged
    keys = list(dict.fromkeys(zip(values["sample"], values["cutter"], strict=True)))
    counts = values[values["metric"] == "same_count"].set_index(["sample", "cutter"])["n"]
    frame = pd.DataFrame({
        "requests": [SAMPLES[sample] for sample, _ in keys],
        "number": [int(counts[key]) for key in keys],
        "cutter": [CUTTERS[cutter] for _, cutter in keys],
        **{said: wide.reindex(keys)[metric].fillna("–").tolist() for metric, said in CUT_METRICS.items()},
    })  # fmt: skip
    caption = (
        "Boundaries between clauses found, and requests cut right. A boundary is right if it takes no word of either "
        "clause. Of reworded requests and of Flow-Bench's only the number of clauses can be judged, by that of the "
        "calls; of Flow-Bench's those that ask for a flow from nothing. 95% intervals over requests."
    )
    return Table(frame, caption, text_columns=["requests", "cutter"])


def cuts_in_words(values: pd.DataFrame, tests: pd.DataFrame, learned_from: int) -> str:
    """F1 of both cutters in each test set, and which differences are settled."""
    cells = values.set_index(["sample", "cutter", "metric"])
    told = []
    for sample in [name for name in SAMPLES if (name, "learned", "f1") in cells.index]:
        f1 = {name: intervals(cells.loc[[(sample, name, "f1")]], VALUE, 0)[0] for name in CUTTERS}
        told.append(f"on {SAMPLES[sample]} the learned cutter has F1 {f1['learned']}%, the rules {f1['rules']}%")
    clear = tests[tests["settled"]]
    ends = intervals(clear, ["difference", "ci_low", "ci_high"], 0)
    said = [f"{what} ({text} points)" for what, text in zip(clear["comparison"], ends, strict=True)]
    found = f"Settled, learned minus rules: {'; '.join(said)}." if said else "No difference between them is settled."
    return f"Learned from {learned_from:,} training requests: {'; '.join(told)}. {found}"


def cut_examples(pairs: pd.DataFrame, scores: pd.DataFrame, cut: Cut, most: int = 6) -> Table:
    """Requests that a cutter cuts wrong, with its clauses and the right ones; `scores` of `cut_scores` for it."""
    wrong = scores.loc[scores["exact"] == 0, "pair"].head(most)
    shown = pairs.set_index("pair").loc[wrong]
    frame = pd.DataFrame({
        "request": shown["request"].tolist(),
        "cut": [" | ".join(clause_texts(text, cut(text))) for text in shown["request"]],
        "right": [" | ".join(clause_texts(row.request, sorted(map(tuple, row.clauses)))) for row in shown.itertuples()],
    })  # fmt: skip
    return Table(frame, "Requests cut wrong by the learned cutter, the first ones.", text_columns=list(frame))


# ---------------------------------------------------------------- retrieval


def _outcomes(scores: pd.DataFrame) -> pd.DataFrame:
    renamed = scores.rename(columns={"way": "condition", "pair": "unit", "value": "numerator"})
    return renamed.assign(denominator=1.0)


def retrieval_values(scores: pd.DataFrame, samples: int, seed: int) -> pd.DataFrame:
    """Means of `lib.workflows.clause_retrieval`'s scores, in percent, with 95% intervals.

    Returns:
        columns question, encoder, k, sample, way, metric, value, ci_low, ci_high, n.
    """
    parts = []
    for key, part in _outcomes(scores).groupby(GROUP, sort=False):
        rates = rates_with_intervals(part, METRICS, samples, seed).rename(columns={"condition": "way"})
        parts.append(rates.assign(**dict(zip(GROUP, key, strict=True))))
    return pd.concat(parts, ignore_index=True)[[*GROUP, "way", "metric", *VALUE, "n"]]


def retrieval_tests(scores: pd.DataFrame, samples: int, seed: int) -> pd.DataFrame:
    """By clause minus whole, and a set minus the nearest, in points; paired, Holm over all rows.

    Returns:
        columns question, encoder, k, sample, way, metric, difference, ci_low, ci_high, p_value, p_holm, n, settled,
        comparison.
    """
    parts = []
    for key, part in _outcomes(scores).groupby(GROUP, sort=False):
        base = "whole" if key[0] == "definitions" else "nearest"
        pairs = [(way, base) for way in dict.fromkeys(part["condition"]) if way != base]
        tests = paired_deltas(part, pairs, METRICS, samples, seed)
        parts.append(tests.assign(**dict(zip(GROUP, key, strict=True))))
    tests = pd.concat(parts, ignore_index=True).rename(columns={"a": "way", "delta": "difference"})
    tests["p_holm"] = holm_adjust(tests["p_value"])
    tests["settled"] = settled(tests)
    tests["comparison"] = [
        f"{METRICS[row.metric].split(',')[0]}, {SHOWN[row.question].format(row.k)}, {ENCODERS[row.encoder]}, "
        f"{WAYS[row.way]}"
        for row in tests.itertuples()
    ]
    return tests.drop(columns=["b", "counted_both"])


def retrieval_table(values: pd.DataFrame, question: str) -> Table:
    """The values of one question, "definitions" or "few-shots"."""
    mine = values[values["question"] == question]
    rows = ["sample", "encoder", "k", "way"]
    wide = mine.assign(text=intervals(mine, VALUE, 0)).pivot(index=rows, columns="metric", values="text")
    keys = list(dict.fromkeys(map(tuple, mine[rows].to_numpy())))
    counts = mine.groupby(rows)["n"].first()
    frame = pd.DataFrame({
        "requests": [SAMPLES[key[0]] for key in keys],
        "number": [int(counts[key]) for key in keys],
        "encoder": [ENCODERS[key[1]] for key in keys],
        "few-shots": [key[2] for key in keys],
        "chosen": [WAYS[key[3]] for key in keys],
        **{said: wide.reindex(keys)[metric].tolist() for metric, said in METRICS.items() if metric in wide},
    })  # fmt: skip
    what = {
        "definitions": "Wanted APIs with a definition in the prompt, as many definitions either way",
        "few-shots": "Wanted APIs that the few-shots call, and Jaccard similarity of their APIs with the right ones",
    }[question]
    return Table(frame, f"{what}. 95% intervals over requests.", text_columns=["requests", "encoder", "chosen"])


def retrieval_drawing(tests: pd.DataFrame, question: str) -> Drawing:
    """The differences of one question as a forest plot, a panel a group of requests."""
    mine = tests[tests["question"] == question].copy()
    mine["panel"] = mine["sample"].map(SAMPLES)
    coverage = mine[mine["metric"] == "coverage"]
    better, worse = ((coverage["settled"] & (sign * coverage["difference"] > 0)).sum() for sign in (1, -1))
    what = {"definitions": "Definitions by clause", "few-shots": "Few-shots as a set"}[question]
    finding = (
        f"{what} show more of the wanted APIs, settled in {better} of the {len(coverage)} comparisons of them, fewer "
        f"in {worse}"
    )
    near = mine[mine["metric"] == "jaccard"]
    if len(near):
        less = int((near["settled"] & (near["difference"] < 0)).sum())
        finding += f"; their mean Jaccard similarity falls, settled, in {less} of {len(near)}"
    name = {"definitions": "clause_definitions", "few-shots": "clause_shots"}[question]
    return forest(mine, name, finding, f"points more than {BASES[question]}", panel="panel")


def retrieval_in_words(tests: pd.DataFrame) -> str:
    """Of each question the settled differences in coverage, and what they cost in Jaccard similarity."""
    said = []
    for question, part in tests.groupby("question", sort=False):
        coverage, near = (part[part["metric"] == metric] for metric in ("coverage", "jaccard"))
        clear = coverage[coverage["settled"]]
        if clear.empty:
            said.append(f"Of {len(coverage)} differences in coverage by {question} none is settled")
        else:
            ends = clear.loc[[clear["difference"].idxmin(), clear["difference"].idxmax()]].drop_duplicates()
            told = [
                f"{interval(row.difference, row.ci_low, row.ci_high)} points ({row.comparison}, {SAMPLES[row.sample]})"
                for row in ends.itertuples()
            ]
            sign = f"{(clear['difference'] > 0).sum()} gain, {(clear['difference'] < 0).sum()} lose"
            said.append(
                f"Of {len(coverage)} differences in coverage by {question} {len(clear)} are settled ({sign}): "
                f"{' to '.join(told)}"
            )
        for way, part_of_way in near.groupby("way", sort=False):
            lost = part_of_way["settled"] & (part_of_way["difference"] < 0)
            said.append(
                f"The mean Jaccard similarity of a {WAYS[way]} falls, settled, in {int(lost.sum())} of {len(lost)}"
            )
    return ". ".join(said) + "."


def finding(values: pd.DataFrame) -> str:
    """What clauses bring to the fewest definitions and few-shots of the first test set, beside the whole request."""
    k, sample = values.loc[values["metric"] == "coverage", "k"].min(), values["sample"].iloc[0]
    fewest = values[values["k"] == k]
    keys = zip(*(fewest[name] for name in ("sample", "metric", "question", "encoder", "way")), strict=True)
    texts = dict(zip(keys, intervals(fewest, VALUE, 0), strict=True))
    best = next(way for way in ("learned", "rules") if (sample, "coverage", "definitions", "pretrained", way) in texts)

    def told(group: str, question: str, way: str, metric: str = "coverage") -> str:
        return texts[group, metric, question, "pretrained", way]

    parts = [
        f"Searched clause by clause, definitions hold {told(sample, 'definitions', best)}% of the wanted APIs; "
        f"searched by the whole request, as many hold {told(sample, 'definitions', 'whole')}% ({SAMPLES[sample]})"
    ]
    if ("reworded", "coverage", "definitions", "pretrained", best) in texts:
        by_hand, whole = (told("reworded", "definitions", way) for way in (best, "whole"))
        parts.append(f"{SAMPLES['reworded']} {by_hand}% against {whole}%")
    alike = fewest[(fewest["metric"] == "jaccard") & (fewest["sample"] == sample)].set_index(["encoder", "way"])[
        "value"
    ]

    def shown(way: str) -> str:
        return f"{told(sample, 'few-shots', way)}% (mean Jaccard {alike['pretrained', way] / 100:.2f})"

    parts.append(
        f"{k} few-shots chosen as a set show {shown('set')}, chosen so that they stay alike {shown('near_set')}, the "
        f"nearest {shown('nearest')}"
    )
    return f"{'; '.join(parts)}."


def definition_weights_table(chosen: pd.DataFrame) -> Table:
    """The weight of the whole request against its clauses, chosen on training requests held aside."""
    frame = chosen.assign(value=100 * chosen["value"], chosen=chosen["chosen"].map({True: "●", False: ""}))
    frame = frame.rename(columns={"n": "definitions", "weight": "weight of the whole request",
                                  "value": "wanted APIs, %"})  # fmt: skip
    return Table(frame, "Wanted APIs defined for training requests held aside, by weight; ●: taken.", decimals=2)


def shot_weights_table(chosen: pd.DataFrame, encoder: str) -> Table:
    """The weights of coverage and of new APIs, chosen on training requests held aside.

    Args:
        encoder: that of the search, a key of `ENCODERS`.
    """
    frame = chosen.copy()
    frame[list(SETS)] = frame[list(SETS)].replace({True: "●", False: ""}).astype(object)
    frame[["value", "jaccard"]] *= 100
    names = {"k": "few-shots", "coverage": "weight of coverage", "new": "weight of new APIs",
             "value": "wanted APIs, %", "jaccard": "mean Jaccard, %", **{one: WAYS[one] for one in SETS}}  # fmt: skip
    caption = (
        f"Few-shots chosen as a set (encoder: {ENCODERS[encoder]}) for training requests held aside, out of the other "
        "ones, by weights; ●: taken. "
        f"Still alike: at least {ALIKE:.0%} of the mean Jaccard similarity of the nearest (weights of 0)."
    )
    return Table(frame.rename(columns=names), caption, decimals=2)


def lost_table(
    requests: pd.DataFrame, found: Mapping[str, Sequence[Sequence[str]]], cut: Cut, way: str, most: int = 6
) -> Table:
    """Requests of which a search by clause loses most wanted APIs that the whole request finds.

    Args:
        requests: columns request, apis.
        found: names for each request, by "whole" and `way`.
    """
    lost = [
        (set(gold) & set(whole)) - set(parts)
        for gold, whole, parts in zip(requests["apis"], found["whole"], found[way], strict=True)
    ]
    order = sorted(range(len(lost)), key=lambda row: -len(lost[row]))[:most]
    rows = [row for row in order if lost[row]]
    texts = requests["request"].tolist()
    frame = pd.DataFrame({
        "request": [texts[row] for row in rows],
        "clauses": [" | ".join(clause_texts(texts[row], cut(texts[row]))) for row in rows],
        "lost": [", ".join(sorted(lost[row])) for row in rows],
    })  # fmt: skip
    some = sum(map(bool, lost))
    caption = (
        f"Requests of which the search by clause loses most wanted APIs; it loses any of {some:,} of {len(lost):,}."
    )
    return Table(frame, caption, text_columns=list(frame))


# ---------------------------------------------------------------- catalogue size


def size_values(recalls: pd.DataFrame, samples: int, seed: int) -> pd.DataFrame:
    """Mean share of the wanted APIs found, by size of the catalogue: columns size, sample, way, value, ci_low, ci_high
    (percent), n.

    Args:
        recalls: of `lib.workflows.catalogue_size.recall_by_size`.
    """
    parts = []
    for (size, sample), part in recalls.groupby(["size", "sample"], sort=False):
        outcomes = part.rename(columns={"way": "condition", "pair": "unit", "share": "numerator"})
        rates = rates_with_intervals(outcomes.assign(metric="recall", denominator=1.0), ["recall"], samples, seed)
        parts.append(rates.rename(columns={"condition": "way"}).assign(size=size, sample=sample))
    return pd.concat(parts, ignore_index=True)[["size", "sample", "way", *VALUE, "n"]]


def size_tests(recalls: pd.DataFrame, samples: int, seed: int) -> pd.DataFrame:
    """By clause minus whole at each size, paired, Holm over all rows; columns size, sample, difference, ci_low,
    ci_high (points), p_value, p_holm, n, settled."""
    parts = []
    for (size, sample), part in recalls.groupby(["size", "sample"], sort=False):
        outcomes = part.rename(columns={"way": "condition", "pair": "unit", "share": "numerator"})
        outcomes = outcomes.assign(metric="recall", denominator=1.0)
        parts.append(paired_deltas(outcomes, [("clauses", "whole")], ["recall"], samples, seed).assign(
            size=size, sample=sample))  # fmt: skip
    tests = pd.concat(parts, ignore_index=True).rename(columns={"delta": "difference"})
    tests["p_holm"] = holm_adjust(tests["p_value"])
    return tests.assign(settled=settled(tests)).drop(columns=["a", "b", "metric", "counted_both"])


def size_drawing(values: pd.DataFrame, definitions: int) -> Drawing:
    """Recall against the size of the catalogue, a panel a test set."""
    names = [name for name in SAMPLES if name in set(values["sample"])]
    figure, axes = plt.subplots(1, len(names), figsize=(3 + 3.3 * len(names), 4), sharey=True, squeeze=False)
    styles = {"whole": ("whole request", "#8a8a8a", "o"), "clauses": ("by clause", "#0b5fa5", "s")}
    for axis, name in zip(axes[0], names, strict=True):
        for way, (said, colour, mark) in styles.items():
            line = values[(values["sample"] == name) & (values["way"] == way)].sort_values("size")
            axis.plot(line["size"], line["value"], color=colour, marker=mark, label=said)
            axis.fill_between(line["size"], line["ci_low"], line["ci_high"], color=colour, alpha=0.2)
        axis.set(xscale="log", xlabel="operations in the catalogue", title=SAMPLES[name])
        sizes = sorted(values["size"].unique())
        axis.set_xticks(sizes, [f"{size:,}" for size in sizes], rotation=30)
        axis.minorticks_off()
    axes[0][0].set_ylabel(f"wanted APIs among {definitions} definitions, %\n(95% interval)")
    axes[0][0].legend(loc="lower left")
    alt = f"Share of the wanted APIs among {definitions} definitions, by size of the catalogue. {_by_size(values)}"
    return Drawing(figure, "catalogue_size", _by_size(values, first=True), alt, values)


def _by_size(values: pd.DataFrame, first: bool = False) -> str:
    """From the smallest to the largest catalogue."""
    small, large = values["size"].min(), values["size"].max()
    cells, told = values.set_index(["sample", "way", "size"])["value"], []
    for sample in dict.fromkeys(values["sample"]):
        parts = [
            f"{said} from {cells[sample, way, small]:.0f}% to {cells[sample, way, large]:.0f}%"
            for way, said in (("whole", "by the whole request"), ("clauses", "by clause"))
        ]
        told.append(f"{' and '.join(parts)} ({SAMPLES[sample]})")
    said = f"Recall from {small:,} to {large:,} operations: {'; '.join(told[:1] if first else told)}"
    return said if first else f"{said}."


def size_in_words(values: pd.DataFrame, tests: pd.DataFrame, made: int, added: int) -> str:
    """What was added to the catalogue, what recall loses, and whether clauses help at the largest size."""
    largest = tests[tests["size"] == tests["size"].max()]
    told = [
        f"{interval(row.difference, row.ci_low, row.ci_high)} points on {SAMPLES[row.sample]}"
        f"{'' if row.settled else ', not settled'}"
        for row in largest.itertuples()
    ]
    return (
        f"{_by_size(values)} Of the {added:,} operations added, {made:,} are operations of the catalogue under another "
        f"connector's name: near-duplicates of what is wanted, which count as wrong. At the largest size the search by "
        f"clause differs from that by the whole request by {' and '.join(told)}."
    )


def times_table(times: pd.DataFrame, operations: int, device: str) -> Table:
    """`lib.workflows.catalogue_size.percentiles` for readers.

    Args:
        device: what computes, such as `2 cores of X`.
    """
    said = {"cut": "cut into clauses", "encode": "encode request and clauses", "search": "search", "all": "all"}
    frame = pd.DataFrame({
        "step": times["step"].map(said), "median, ms": times["p50_ms"], "95th percentile, ms": times["p95_ms"],
    })  # fmt: skip
    caption = (
        f"{times['n'].max():,} requests in new wordings, one after the other, over {operations:,} operations, on "
        f"{device}; encoder and index are loaded before."
    )
    return Table(frame, caption, decimals=1)


def times_in_words(times: pd.DataFrame, operations: int) -> str:
    """How long a request takes, in milliseconds, and how much of that is the search."""
    by_step = times.set_index("step")
    row = by_step.loc["all"]
    return (
        f"A request over {operations:,} operations takes {row['p50_ms']:.0f} ms in the median and "
        f"{row['p95_ms']:.0f} ms at the 95th percentile. The search itself takes "
        f"{by_step.loc['search', 'p50_ms']:.0f} ms in the median, the rest goes to cutting and encoding the request."
    )
