"""What published tables can and cannot be, from their own numbers.

First the first paper's tables of means ("context tuning"): bounds of NDCG, and which percentages are counts. Then the
second paper's ablation ("DSL generation"): `data/published/workflow_ablation.csv` holds its Tables 1-4, differences
from each table's own baseline with columns table, selector, shots, definitions, metric, delta. All functions named
`published` take that frame. Similarity runs from 0 to 1, the three failure rates are percentages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
from scipy.optimize import linprog
from scipy.sparse import coo_array, csr_array, vstack

from lib.evaluation.inference import LEVEL, mcnemar_at_best, mcnemar_counts
from lib.evaluation.ranking import discounts, hit_matrix, recall_from_hits

Score = Literal["all", "retrieved_or_zero"]
MAX_RELEVANT = 40
ROUNDING = 5e-5  # published percentages have two decimals

CONDITION = ["selector", "shots", "definitions"]
# Baselines of the ablation's tables: Tables 1 and 2, Table 3, Table 4. The last is not a row of any other table.
BASELINE = ("pretrained", 5, "none")
BASELINE_3 = ("pretrained", 20, "none")
FINETUNED = ("finetuned", 0, "none")
SHARED_WITH_4 = ("tst", 20, "fd")  # the row that Tables 3 and 4 both have
SOURCES = {1: "Table 1", 2: "Table 2", 3: "Tables 1, 3", 4: "Tables 1, 3, 4"}
SELECTORS = {"pretrained": "Pre-trained", "tst": "TST", "finetuned": "Fine-tuned"}
DEFINITIONS = {"none": "", "fd": " + FD", "sfd": " + SFD", "fd_sfd": " + FD + SFD"}
LAST_DIGIT = 0.01  # printed numbers have two decimals, so sums and differences of three are off by this much


@cache
def _outcomes(cutoffs: tuple[int, ...], max_relevant: int) -> np.ndarray:
    """All (relevant, hits@k1, hits@k2, …) a query can have: int array (outcomes, 1 + cutoffs)."""
    rows = [[n] for n in range(1, max_relevant + 1)]
    for i, k in enumerate(cutoffs):
        previous_k = cutoffs[i - 1] if i else 0
        extended = []
        for row in rows:
            previous = row[-1] if i else 0
            most = min(row[0], k, previous + k - previous_k)
            extended += [[*row, hits] for hits in range(previous, most + 1)]
        rows = extended
    return np.array(rows)


def _best_dcg(outcomes: np.ndarray, cutoffs: tuple[int, ...], k: int) -> np.ndarray:
    """The largest DCG@k of each outcome: the hits between two cutoffs stand right behind the first of them."""
    gain = np.concatenate([[0.0], np.cumsum(discounts(max(cutoffs)))])
    total = np.zeros(len(outcomes))
    previous_k, previous = 0, np.zeros(len(outcomes), dtype=int)
    for i, cutoff in enumerate(cutoffs):
        if cutoff > k:
            break
        hits = outcomes[:, 1 + i]
        total += gain[previous_k + hits - previous] - gain[previous_k]
        previous_k, previous = cutoff, hits
    return total


def ndcg_upper_bound(
    recall: Mapping[int, float],
    k: int,
    reference: Mapping[int, float],
    score: Score = "all",
    max_relevant: int = MAX_RELEVANT,
) -> float:
    """The largest mean NDCG@k a method can have, given its mean recalls and those of another on the same queries.

    A linear program over the joint distribution of how many items are relevant and how many of them each method finds
    by each cutoff (binary relevance; the two methods meet only in the number of relevant items, which is the same for
    both). Recalls hold within their rounding.

    Args:
        recall: the method's mean recall by cutoff, 0 to 1; `k` is one of the cutoffs.
        k: cutoff of the NDCG.
        reference: mean recall by cutoff of the method that constrains the number of relevant items.
        score: `all` for the standard ideal; `retrieved_or_zero` for the ideal of the retrieved list, where queries
            without a hit count 0 (it is then at most the share of queries with a hit).
        max_relevant: largest number of relevant items considered.

    Raises:
        ValueError: k is no cutoff of `recall`, or no distribution has such recalls.
    """
    cutoffs = tuple(sorted(recall))
    if k not in cutoffs or tuple(sorted(reference)) != cutoffs:
        raise ValueError("both methods need recalls at the same cutoffs, k among them")
    outcomes = _outcomes(cutoffs, max_relevant)
    relevant, size = outcomes[:, 0], len(outcomes)
    if score == "all":
        ideal = np.concatenate([[0.0], np.cumsum(discounts(k))])[np.minimum(relevant, k)]
        value = _best_dcg(outcomes, cutoffs, k) / ideal
    else:
        value = (outcomes[:, 1 + cutoffs.index(k)] > 0).astype(float)
    # Variables: the method's outcome probabilities, then the reference's.
    share = outcomes[:, 1:].T / relevant
    upper, bounds_of = [], []
    for i, cutoff in enumerate(cutoffs):
        for offset, target in ((0, recall[cutoff]), (size, reference[cutoff])):
            row = np.zeros(2 * size)
            row[offset : offset + size] = share[i]
            upper += [row, -row]
            bounds_of += [target + ROUNDING, -(target - ROUNDING)]
    same = coo_array(
        (np.r_[np.ones(size), -np.ones(size)], (np.r_[relevant, relevant] - 1, np.arange(2 * size))),
        shape=(max_relevant, 2 * size),
    ).tocsr()
    total = np.r_[np.ones(size), np.zeros(size)]
    found = linprog(
        -np.r_[value, np.zeros(size)],
        A_ub=csr_array(np.array(upper)),
        b_ub=bounds_of,
        A_eq=vstack([same, csr_array(total[None, :])]).tocsr(),
        b_eq=np.r_[np.zeros(max_relevant), 1.0],
        bounds=(0, None),
        method="highs",
    )
    if not found.success:
        raise ValueError(f"no distribution of relevant items has these recalls: {found.message}")
    return float(-found.fun)


def is_share_of(percentage: float, n: int, decimals: int = 2) -> bool:
    """Whether a printed percentage is some count over `n`, rounded to `decimals`."""
    count = round(percentage * n / 100)
    return any(
        round(100 * c / n, decimals) == round(percentage, decimals)
        for c in (count - 1, count, count + 1)
        if 0 <= c <= n
    )


def random_recall(n_items: np.ndarray, k: int) -> float:
    """Expected recall@k of a random ranking, averaged over queries with `n_items` candidates each."""
    return float(np.mean(np.minimum(k / np.asarray(n_items, dtype=float), 1.0)))


def cut_to_recall(
    run: pd.DataFrame, qrels: pd.DataFrame, queries: Sequence, k: int, target: float
) -> tuple[pd.DataFrame, float]:
    """Drop results below one score threshold, the highest at which mean recall@k still reaches `target`.

    Returns:
        (shortened run, threshold); the whole run and its lowest score where even that does not reach the target.
    """
    low, high = 0, len(run) - 1
    scores = np.sort(run["score"].to_numpy())
    while low < high:  # recall falls as the threshold rises: find the last position that still reaches the target
        middle = (low + high + 1) // 2
        hits, n_relevant = hit_matrix(run[run["score"] >= scores[middle]], qrels, queries, k)
        if recall_from_hits(hits, n_relevant, k).mean() >= target:
            low = middle
        else:
            high = middle - 1
    return run[run["score"] >= scores[low]], float(scores[low])


def _on_one_scale(published: pd.DataFrame) -> pd.DataFrame:
    """The printed cells with two more columns: their table's `baseline`, and their `value`, where `BASELINE` is 0."""
    cells = published.set_index(["table", *CONDITION, "metric"], verify_integrity=True)["delta"].sort_index()
    of_3 = cells.loc[(1, *BASELINE_3)]
    finetuned = of_3 + cells.loc[(3, *SHARED_WITH_4)] - cells.loc[(4, *SHARED_WITH_4)]
    zero = pd.Series(0.0, of_3.index)
    baselines = pd.concat({1: zero, 2: zero, 3: of_3, 4: finetuned}, names=["table"]).round(2)
    rows = published.join(baselines.rename("baseline"), on=["table", "metric"])
    return rows.assign(value=(rows["baseline"] + rows["delta"]).round(2))


def chained(published: pd.DataFrame) -> pd.DataFrame:
    """All conditions of the workflow paper's Tables 1-4 on one scale, on which the baseline of Tables 1 and 2 is 0.

    Table 3's baseline is a row of Table 1. Table 4's, the fine-tuned model, follows from the row TST + FD, which Tables
    3 and 4 share. Where a condition is printed twice, the table with the lower number counts: it needs fewer links.
    `conflicts` has what the other one says.

    Returns:
        columns selector, shots, definitions, metric, value, source (the tables it comes from). The fine-tuned model has
        the selector `finetuned`, 0 shots and no definitions.

    Raises:
        ValueError: a cell is there twice.
        KeyError: a row that links two tables is missing.
    """
    rows = _on_one_scale(published).sort_values("table", kind="stable")
    rows = rows.assign(source=rows["table"].map(SOURCES))
    baselines = rows[rows["table"].isin([1, 4])].drop_duplicates(["table", "metric"])
    baselines = baselines.assign(value=baselines["baseline"])
    first, last = (
        baselines[baselines["table"] == table].assign(**dict(zip(CONDITION, condition, strict=True)))
        for table, condition in ((1, BASELINE), (4, FINETUNED))
    )
    scale = pd.concat([first, rows, last])[[*CONDITION, "metric", "value", "source"]]
    return scale.drop_duplicates([*CONDITION, "metric"], ignore_index=True)


def printed_twice(published: pd.DataFrame) -> pd.DataFrame:
    """Cells of the workflow paper's Tables 1-4 that follow from a table before theirs as well.

    The row that links Tables 3 and 4 is left out: the fine-tuned model's values come from it, so it agrees by itself.

    Returns:
        columns table, selector, shots, definitions, metric, printed, follows (what `chained` has, from the table's own
        baseline), difference (printed - follows), source (the tables that `follows` comes from).
    """
    rows = _on_one_scale(published)
    links = (rows["table"] == 4) & (rows[CONDITION] == list(SHARED_WITH_4)).all(axis=1)
    rows = rows[~links].merge(chained(published), on=[*CONDITION, "metric"], suffixes=("", "_chained"))
    rows = rows[rows["source"] != rows["table"].map(SOURCES)].rename(columns={"delta": "printed"})
    rows["follows"] = (rows["value_chained"] - rows["baseline"]).round(2)
    rows["difference"] = (rows["printed"] - rows["follows"]).round(2)
    return rows[["table", *CONDITION, "metric", "printed", "follows", "difference", "source"]].reset_index(drop=True)


def conflicts(published: pd.DataFrame, tolerance: float = LAST_DIGIT) -> pd.DataFrame:
    """The cells of `printed_twice` whose two values differ by more than `tolerance`; rounding explains 0.01."""
    twice = printed_twice(published)
    return twice[twice["difference"].abs() > tolerance].reset_index(drop=True)


def definition_effects(published: pd.DataFrame) -> pd.DataFrame:
    """What function definitions change against none, same selector and shots, on the scale of `chained`.

    FD has four such pairs (Tables 2 and 3). SFD and FD + SFD have one each, which no table shows: Table 4 measures them
    from the fine-tuned model.

    Returns:
        columns selector, shots, definitions, metric, effect.
    """
    scale = chained(published)
    without = scale["definitions"] == "none"
    pairs = scale[~without].merge(scale[without], on=["selector", "shots", "metric"], suffixes=("", "_without"))
    pairs["effect"] = (pairs["value"] - pairs["value_without"]).round(2)
    return pairs[[*CONDITION, "metric", "effect"]]


def not_counts(published: pd.DataFrame, n: int) -> pd.DataFrame:
    """Printed deltas of unparsed flows that are no difference of two counts over `n` flows (section 5: n = 1000).

    The other rates are over the flows that parse (equations 4 and 5), a number that nobody knows. Averages over several
    runs would not be counts over n either; the paper mentions none.
    """
    unparsed = published[published["metric"] == "unparsed"]
    return unparsed[[not is_share_of(abs(delta), n) for delta in unparsed["delta"]]].reset_index(drop=True)


def level_bounds(published: pd.DataFrame) -> pd.DataFrame:
    """What the deltas of the workflow paper's Tables 1-4 say about the values that they leave out, within rounding.

    No rate is below 0, so each condition's is at least its distance from the lowest one. Flows that do not parse or
    have a made-up name count as similarity 0 (section 4.2.1), so no condition's similarity exceeds its share of other
    flows, and the tightest such bound carries over to the rest. It holds whether made-up names are counted over the
    flows that parse (equation 4) or over all flows (the sentence before it).

    Returns:
        columns selector, shots, definitions, metric, bound (`at least` for rates, `at most` for similarity), value.
    """
    values = chained(published).pivot(index=CONDITION, columns="metric", values="value")
    rates = values.drop(columns="similarity")
    least = rates - rates.min()
    usable = (1 - least["unparsed"] / 100) * (1 - least["made_up_names"] / 100)
    most = values[["similarity"]] + (usable - values["similarity"]).min()
    parts = [
        part.melt(ignore_index=False).assign(bound=bound) for part, bound in ((least, "at least"), (most, "at most"))
    ]
    return pd.concat(parts).round(3).reset_index()[[*CONDITION, "metric", "bound", "value"]]


def what_n_could_show(published: pd.DataFrame, n: int) -> pd.DataFrame:
    """Which printed differences of a rate `n` paired test flows could have shown, by McNemar's exact test.

    At best all flows on which the two conditions differ are on one side (`mcnemar_at_best`). More plausible is that
    either fails independently of the other: with rates a and b, n·a·(1 − b) and n·b·(1 − a) flows differ. The rates
    are the lowest that the tables allow (`level_bounds`), which leaves the fewest such flows. All n flows count, also
    for rates over the flows that parse. A difference that two tables print stands once.

    Returns:
        columns table, selector, shots, definitions, metric, delta (points), pairs (flows that differ at best), p_best,
        only_first and only_second (flows that fail in one condition alone, if failures are independent),
        p_independent, and shown: `no`, `only at best`, or `yes`.
    """
    rows = _on_one_scale(published)
    rows = rows[rows["metric"] != "similarity"].sort_values("table", kind="stable")
    rows = rows.drop_duplicates([*CONDITION, "metric", "delta", "baseline"], ignore_index=True)
    lowest = rows["metric"].map(_lowest(published))
    first, second = (rows[side] / 100 - lowest / 100 for side in ("value", "baseline"))
    counts = {
        "only_first": (n * first * (1 - second)).round().astype(int),
        "only_second": (n * second * (1 - first)).round().astype(int),
    }
    at_best = [mcnemar_at_best(delta, n) for delta in rows["delta"]]
    independent = [mcnemar_counts(*pair) for pair in zip(*counts.values(), strict=True)]
    shown = np.select([np.array(at_best) > LEVEL, np.array(independent) > LEVEL], ["no", "only at best"], "yes")
    pairs = (rows["delta"].abs() * n / 100).round().astype(int)
    table = rows[["table", *CONDITION, "metric", "delta"]].assign(pairs=pairs, p_best=at_best, **counts)
    return table.assign(p_independent=independent, shown=shown)


def _lowest(published: pd.DataFrame) -> pd.Series:
    """The lowest value of each metric on the scale of `chained`: no rate is below 0, so this one is at least that."""
    return chained(published).groupby("metric")["value"].min()


class _Reading(NamedTuple):
    """A sentence of the workflow paper, as changes from one condition to another.

    `expected` has a rule of `RULES` for each metric that the sentence is about, or the size of the change in points,
    a whole number or with two decimals.
    """

    statement: str
    where: str
    pairs: tuple[tuple[tuple[str, int, str], tuple[str, int, str]], ...]
    expected: Mapping[str, str | int | float]


RULES = {
    "better": lambda gain: gain > 0,
    "worse": lambda gain: gain < 0,
    "not better": lambda gain: gain <= 0,
    "same": lambda gain: abs(gain) <= LAST_DIGIT,
}
METRICS = ["similarity", "unparsed", "made_up_names", "made_up_parameters"]
MADE_UP = ["made_up_names", "made_up_parameters"]
SELECTED = [(selector, shots) for shots in (5, 20) for selector in ("pretrained", "tst")]
RAG_AGAINST_FINETUNED = tuple((("tst", 20, definitions), FINETUNED) for definitions in ("fd", "sfd", "fd_sfd"))
FD_AGAINST_NONE = tuple(((*pair, "fd"), (*pair, "none")) for pair in SELECTED)
READINGS = (
    _Reading(
        "20 few-shots are better than 5 on all metrics",
        "section 5.1, Table 1",
        tuple(((selector, 20, "none"), (selector, 5, "none")) for selector in ("pretrained", "tst")),
        dict.fromkeys(METRICS, "better"),
    ),
    _Reading(
        "at 20 few-shots TST is level in similarity, makes up fewer names and is slightly behind on the other two",
        "section 5.2, Table 1",
        ((("tst", 20, "none"), ("pretrained", 20, "none")),),
        {"similarity": "same", "unparsed": "worse", "made_up_names": "better", "made_up_parameters": "worse"},
    ),
    _Reading(
        "definitions lower made-up names and parameters",
        "section 5.2, Tables 2 and 3",
        FD_AGAINST_NONE,
        dict.fromkeys(MADE_UP, "better"),
    ),
    _Reading(
        "definitions thereby improve the response rate (undefined; here similarity and unparsed flows)",
        "section 5.2, Tables 2 and 3",
        FD_AGAINST_NONE,
        {"similarity": "better", "unparsed": "better"},
    ),
    _Reading(
        "SFD instead of FD lowers similarity and raises unparsed flows and made-up parameters",
        "section 5.3, Table 4",
        ((("tst", 20, "sfd"), ("tst", 20, "fd")),),
        {"similarity": "worse", "unparsed": "worse", "made_up_parameters": "worse"},
    ),
    _Reading(
        "FD instead of SFD is better in similarity and makes up less",
        "section 5.3, Table 4",
        ((("tst", 20, "fd"), ("tst", 20, "sfd")),),
        {"similarity": "better"} | dict.fromkeys(MADE_UP, "better"),
    ),
    _Reading(
        "SFD on top of FD lowers made-up names",
        "section 5.3, Table 4",
        ((("tst", 20, "fd_sfd"), ("tst", 20, "fd")),),
        {"made_up_names": "better"},
    ),
    _Reading(
        "adding SFD raises made-up parameters by 6.76 points",
        "section 6, Table 4",
        (
            (("tst", 20, "sfd"), ("tst", 20, "none")),
            (("tst", 20, "sfd"), ("tst", 20, "fd")),
            (("tst", 20, "fd_sfd"), ("tst", 20, "fd")),
        ),
        {"made_up_parameters": 6.76},
    ),
    _Reading(
        "few-shots (20 for 5) do more than definitions (FD for none)",
        "section 6, Tables 1 and 2",
        tuple(((selector, 20, "none"), (selector, 5, "fd")) for selector in ("pretrained", "tst")),
        dict.fromkeys(METRICS, "better"),
    ),
    _Reading(
        "optimised retrieval lowers made-up names by 6.29 points and parameters by about 20",
        "section 6, Table 2",
        ((("tst", 5, "fd"), ("pretrained", 5, "none")),),
        {"made_up_names": -6.29, "made_up_parameters": -20},
    ),
    _Reading(
        "the fine-tuned model makes up fewer names and parameters than retrieval",
        "sections 5.3 and 6, Table 4",
        RAG_AGAINST_FINETUNED,
        dict.fromkeys(MADE_UP, "worse"),
    ),
    _Reading(
        "retrieval parses more often than the fine-tuned model",
        "section 6, Table 4",
        RAG_AGAINST_FINETUNED,
        {"unparsed": "better"},
    ),
    _Reading(
        "no model is more similar than the fine-tuned one",
        "abstract, Table 4",
        RAG_AGAINST_FINETUNED,
        {"similarity": "not better"},
    ),
    _Reading(
        "retrieval is level with the fine-tuned model in similarity",
        "abstract, Table 4",
        RAG_AGAINST_FINETUNED,
        {"similarity": "same"},
    ),
)
ABSTRACT = {"unparsed": -2, "made_up_names": 1, "made_up_parameters": 2}


def readings(published: pd.DataFrame) -> pd.DataFrame:
    """Sentences of the workflow paper beside its Tables 1-4, in which each verdict is computed.

    A sentence is one or more changes between two conditions, all taken from `chained`. "The same" means within one unit
    of the last printed digit; every other sign counts, however small.

    Returns:
        columns statement (in our words), where, tables (the numbers), verdict.
    """
    values = chained(published).set_index([*CONDITION, "metric"])["value"]
    rows = [(reading.statement, reading.where, *_check(reading, values)) for reading in READINGS]
    rows += [*_best_at(5, "Table 2", values), *_best_at(20, "Table 3", values), _abstract(values), *_shots(published)]
    return pd.DataFrame(rows, columns=["statement", "where", "tables", "verdict"])


def _check(reading: _Reading, values: pd.Series) -> tuple[str, str]:
    found, held = [], []
    for condition, origin in reading.pairs:
        changes = {metric: _change(values, condition, origin, metric) for metric in reading.expected}
        found.append(f"{_name(condition)} against {_name(origin)}: {_listed(changes)}")
        held += [_holds(metric, change, reading.expected[metric]) for metric, change in changes.items()]
    return "; ".join(found), f"holds in {sum(held)} of {len(held)}"


def _holds(metric: str, change: float, expected: str | int | float) -> bool:
    if isinstance(expected, str):
        return RULES[expected](change if metric == "similarity" else -change)
    return round(change, 0 if isinstance(expected, int) else 2) == expected


def _best_at(shots: int, where: str, values: pd.Series) -> Iterator[tuple[str, str, str, str]]:
    """How far TST + FD is behind the best of the four options, by metric."""
    options = [(selector, shots, definitions) for definitions in ("none", "fd") for selector in ("pretrained", "tst")]
    behind, ranks = {}, {}
    for metric in METRICS:
        scores = [values[*option, metric] * (1 if metric == "similarity" else -1) for option in options]
        behind[metric] = round(max(scores) - scores[-1], 2)
        ranks[metric] = 1 + sum(score > scores[-1] for score in scores)
    best = sum(rank == 1 for rank in ranks.values())
    worst = max(ranks, key=ranks.__getitem__)
    last = "" if best == len(ranks) else f"; in {_words(worst)} number {ranks[worst]} of {len(options)}"
    yield (
        f"with {shots} few-shots TST + FD is best overall, and close to the best on every metric",
        f"section 5.2, {where}",
        "behind the best: " + ", ".join(f"{_words(metric)} {gap:.2f}" for metric, gap in behind.items()),
        f"best in {best} of {len(ranks)}{last}",
    )


def _abstract(values: pd.Series) -> tuple[str, str, str, str]:
    """Which row of Table 4 the abstract's points are."""
    found, off = [], {}
    for condition, origin in RAG_AGAINST_FINETUNED:
        changes = {metric: _change(values, condition, origin, metric) for metric in ABSTRACT}
        found.append(f"{_name(condition)}: {_listed(changes)}")
        off[condition] = max(abs(changes[metric] - points) for metric, points in ABSTRACT.items())
    nearest = min(off, key=off.__getitem__)
    recommended = ("tst", 20, "fd")  # section 5.3
    other = "" if nearest == recommended else f"; {_name(recommended)} is off by up to {off[recommended]:.2f}"
    return (
        "retrieval is 2 points better at parsing, 1 worse at names and 2 worse at parameters than the fine-tuned model",
        "abstract, Table 4",
        "; ".join(found),
        f"nearest is {_name(nearest)}, off by up to {off[nearest]:.2f}{other}",
    )


def _shots(published: pd.DataFrame) -> Iterator[tuple[str, str, str, str]]:
    """Two sentences on few-shots that need rows which the tables may not have."""
    in_4 = sorted(published.loc[published["table"] == 4, "shots"].unique())
    yield (
        "few-shots are what makes syntax right and flows similar",
        "section 6, which names Table 4",
        f"few-shots in the rows of Table 4: {', '.join(map(str, in_4))}",
        f"{'varied' if len(in_4) > 1 else 'not varied'} in that table",
    )
    anywhere = sorted({BASELINE[1], *published["shots"]})
    beyond = [shots for shots in anywhere if shots > 20]
    yield (
        "gains level off beyond 20 few-shots",
        "section 5.1",
        f"few-shots in all rows: {', '.join(map(str, anywhere))}",
        f"printed for {', '.join(map(str, beyond))}" if beyond else "not in the tables",
    )


def _change(values: pd.Series, condition: tuple, origin: tuple, metric: str) -> float:
    return round(values[*condition, metric] - values[*origin, metric], 2) + 0.0  # no -0.00


def _listed(changes: Mapping[str, float]) -> str:
    return ", ".join(f"{_words(metric)} {f'{change:+.2f}'.replace('-', '−')}" for metric, change in changes.items())


def _name(condition: tuple[str, int, str]) -> str:
    selector, shots, definitions = condition
    return SELECTORS[selector] + DEFINITIONS[definitions] + (f" ({shots})" if shots else "")


def _words(metric: str) -> str:
    return metric.replace("made_up_", "made-up ")
