"""Notebook 09: whether flows do what the right ones do, and how much of similarity 1 is the right names alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import pandas as pd

from lib.evaluation.inference import holm_adjust, percent
from lib.evaluation.rates import paired_deltas, rates_with_intervals
from lib.workbook.cases import case_address
from lib.workbook.display import Drawing, Table, interval
from lib.workbook.parameters.dsl_ablation import Condition
from lib.workflows.ablation import DELTAS, VALUES
from lib.workflows.execution import Types, strictness, undeclared
from lib.workflows.language import parse
from lib.workflows.pages.common import TEST_SETS, change, intervals, metric_intervals, p_values, settled_deltas
from lib.workflows.pages.dsl_ablation import COPIES, COPY_TST, FINETUNED, HELD, Study
from lib.workflows.scoring import PERCENT, executed_outcomes, outcomes

RATES = ("same_names", "executed", "wrong_at_1")
MUTANTS = 10_000  # right flows made wrong in one place, which must be caught
LEAST = 0.5  # of the flows of the most asked condition, that one must have to be named the best
KINDS = {
    "argument": "a said argument changed",
    "condition": "a condition's sense turned",
    "api": "an API exchanged",
    "dropped": "a call left out",
    "reference": "a said reference led elsewhere",
}
LABELS = {"same_names": "same API names in the same order", "executed": "executed right"}
COLOURS = {"same_names": "#8a8a8a", "executed": "#0b5fa5"}
ROW = ["test_set", "condition", "metric", *VALUES, "n", "counted"]


def executed_rates(study: Study, rows: Sequence[Condition]) -> pd.DataFrame:
    """Of each condition asked, and of what copies: the share of flows with the right API names in order (similarity 1),
    of those executed right, and of similarity 1 the share that is not; percent, 95% intervals.

    Returns:
        `ROW`; a row of `wrong_at_1` that counts no flow has no value.
    """
    names = study.present([*(row.name for row in rows), *COPIES])
    parts = []
    for test_set in study.sets():
        scores = study.scores[(study.scores["test_set"] == test_set) & study.scores["condition"].isin(names)]
        outcomes = executed_outcomes(scores)
        alike = outcomes[outcomes["metric"] == "wrong_at_1"]
        same = alike.assign(metric="same_names", numerator=alike["denominator"], denominator=1.0)
        found = rates_with_intervals(pd.concat([same, outcomes]), RATES, study.samples, study.seed)
        parts.append(found.assign(test_set=test_set))
    place = {name: i for i, name in enumerate(names)}
    order = ["test_set", "condition"]
    table = pd.concat(parts, ignore_index=True)
    keys = {"test_set": {name: i for i, name in enumerate(study.sets())}, "condition": place}
    return table.sort_values(order, key=lambda part: part.map(keys[part.name]), kind="stable", ignore_index=True)[ROW]


def executed_table(study: Study, rates: pd.DataFrame) -> Table:
    """`executed_rates` for readers, beside similarity."""
    texts = rates.assign(text=intervals(rates, decimals=0))
    texts.loc[texts["counted"] == 0, "text"] = "–"
    wide = texts.pivot(index=["test_set", "condition"], columns="metric", values="text")
    keys = list(dict.fromkeys(zip(rates["test_set"], rates["condition"], strict=True)))
    wide = wide.loc[keys]
    similar = [_similarity(study, test_set) for test_set in study.sets()]
    means = pd.concat(similar).set_index(["test_set", "condition"])["text"]
    counts = rates[rates["metric"] == "executed"].set_index(["test_set", "condition"])["n"]
    frame = pd.DataFrame(
        {
            "test set": [TEST_SETS[test_set] for test_set, _ in keys],
            "condition": [study.titles[name] for _, name in keys],
            "flows": [int(counts[key]) for key in keys],
            "similarity": [means[key] for key in keys],
            "right names, %": wide["same_names"].tolist(),
            "executed right, %": wide["executed"].tolist(),
            "of right names, wrong, %": wide["wrong_at_1"].tolist(),
        }
    )
    addresses = [case_address("flows", set=test_set, condition=name) for test_set, name in keys]
    caption = (
        "Flows that are executed right: run on mocked connectors they make the calls of the right flow, with the "
        "arguments that the request says, whichever way its conditions turn out, and make nothing up. Right names: "
        "similarity 1. 95% intervals: Wilson's for shares of all flows, else bootstrapped."
    )
    return Table(frame, caption, text_columns=["condition"], cases=dict.fromkeys(frame.columns[2:], addresses))


def _similarity(study: Study, test_set: str) -> pd.DataFrame:
    """Columns test_set, condition, text: similarity with its interval."""
    counted = outcomes(study.scores[study.scores["test_set"] == test_set])
    rates = rates_with_intervals(counted[counted["metric"] == "similarity"], [], study.samples, study.seed)
    return rates.assign(test_set=test_set, text=intervals(rates, decimals=2))


def executed_drawing(study: Study, rates: pd.DataFrame, compared: pd.DataFrame) -> Drawing:
    """Right names and executed right, a panel a test set.

    Args:
        rates: of `executed_rates`.
        compared: of `parity`; where it has rows, the title is about these alone: rates pooled over all conditions hang
            on which of them were asked.
    """
    sets = list(dict.fromkeys(rates["test_set"]))
    names = list(dict.fromkeys(rates["condition"]))
    figure, axes = plt.subplots(
        1, len(sets), figsize=(10, 1.4 + 0.3 * len(names)), sharey=True, sharex=True, squeeze=False
    )
    drawn = rates[rates["metric"].isin(LABELS)]
    for axis, test_set in zip(axes[0], sets, strict=True):
        for (metric, said), shift in zip(LABELS.items(), (-0.13, 0.13), strict=True):
            part = drawn[(drawn["test_set"] == test_set) & (drawn["metric"] == metric)]
            place = part["condition"].map(names.index) + shift
            errors = [part["value"] - part["ci_low"], part["ci_high"] - part["value"]]
            axis.errorbar(part["value"], place, xerr=errors, fmt="o", markersize=5, color=COLOURS[metric], label=said)
        axis.set_title(TEST_SETS[test_set], fontsize=10, loc="left")
        axis.set_xlabel("% of flows (95% interval)")
    axes[0][0].set_yticks(range(len(names)), [study.titles[name] for name in names])
    axes[0][0].set_ylim(len(names) - 0.5, -0.5)
    handles, said = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, said, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncol=2, fontsize=9)
    told = [
        f"{study.titles[row.condition]}, {TEST_SETS[row.test_set]}: {interval(row.value, row.ci_low, row.ci_high, 0)}%"
        for row in rates[rates["metric"] == "executed"].head(10).itertuples()
    ]
    alt = f"Share of flows with the right API names and share executed right, by condition. Right: {'; '.join(told)}."
    written = rates[~rates["condition"].isin(COPIES)]
    finding = executed_finding(written, "flows that models wrote")
    if len(compared):
        own, other = (_wrong_of_right(study, compared, side) for side in ("condition", "against"))
        finding = (
            f"Right names, and yet something else when they run: {own} flows by few-shots of TST, {other} by the "
            "fine-tuned model"
        )
    return Drawing(figure, "dsl_executed", finding[:1].upper() + finding[1:], alt, drawn)


def executed_finding(rates: pd.DataFrame, what: str = "flows") -> str:
    """How much of similarity 1 is not executed right, over all conditions.

    Args:
        what: the flows are called.
    """
    counted = rates[(rates["metric"] == "wrong_at_1") & (rates["counted"] > 0)]
    same = counted["counted"].sum()
    wrong = (counted["value"] * counted["counted"] / 100).sum()
    if not same:
        return f"none of the {what} has the right API names in order"
    return f"{wrong / same:.0%} of the {same:,.0f} {what} with the right API names do something else when they run"


def executed_in_words(study: Study, rates: pd.DataFrame) -> str:
    """The same for models and for copied flows apart, and the condition with most flows executed right: of those asked
    at least `LEAST` as often as the most asked one, on the flows that all these have."""
    copied = rates["condition"].isin(COPIES)
    parts = [
        f"{who}: {executed_finding(rates[chosen])}"
        for who, chosen in (("Models", ~copied), ("Copied flows", copied))
        if chosen.any()
    ]
    best = []
    for test_set in dict.fromkeys(rates["test_set"]):
        part = rates[(rates["test_set"] == test_set) & (rates["metric"] == "executed") & ~copied]
        names = part.loc[part["n"] >= LEAST * part["n"].max(), "condition"].tolist()
        scores = study.on_shared(names).scores
        scores = scores[scores["test_set"] == test_set]
        right = scores["executed"].astype(float).groupby(scores["condition"]).sum()
        if len(right):
            name, n = right.idxmax(), scores["unit"].nunique()
            numbers = interval(*percent(right[name], n), 0)
            best.append(f"on {TEST_SETS[test_set]} by {study.titles[name]} ({numbers}% of the same {n} flows)")
    return f"{'. '.join(parts)}. Most are executed right {'; '.join(best)}." if best else f"{'. '.join(parts)}."


# ---------------------------------------------------------------- retrieval beside fine-tuning


def parity(study: Study) -> pd.DataFrame:
    """Few-shots by TST against the fine-tuned model on the flows that both have: does a difference in similarity, or
    its absence, hold once the flows run? A family of tests of its own.

    Returns:
        one row a comparison, test set and metric (similarity, executed): condition, against, test_set, metric, `DELTAS`
        (executed in points), p_holm (over all rows), shared (flows), and of either side how many of its flows have the
        right names (right, right_against) and how many of these are wrong when they run (wrong, wrong_against). Empty
        where no two were asked.
    """
    name = study.name
    pairs = [(name("tst", 5), FINETUNED), (name("tst", 5, "fd", "catalogue"), HELD), (name("tst", 20, "fd"), FINETUNED)]
    parts = [_beside(study, pair, test_set) for pair in pairs for test_set in study.sets()]
    found = [part for part in parts if part is not None]
    if not found:
        return pd.DataFrame(columns=["condition", "against", "test_set", "metric", *DELTAS, "p_holm", "shared"])
    table = pd.concat(found, ignore_index=True)
    return table.assign(p_holm=holm_adjust(table["p_value"]))


def _beside(study: Study, pair: tuple[str, str], test_set: str) -> pd.DataFrame | None:
    scores = _both(study, pair, test_set)
    if scores.empty:
        return None
    counted = pd.concat([outcomes(scores), executed_outcomes(scores)])
    counted = counted[counted["metric"].isin(("similarity", "executed"))]
    tests = paired_deltas(counted, [pair], PERCENT, study.samples, study.seed)
    tests = tests.rename(columns={"a": "condition", "b": "against", "ci_low": DELTAS[1], "ci_high": DELTAS[2]})
    alike = scores[scores["similarity"] == 1]
    for side, condition in zip(("", "_against"), pair, strict=True):
        own = alike[alike["condition"] == condition]
        tests[f"right{side}"], tests[f"wrong{side}"] = len(own), int((~own["executed"].astype(bool)).sum())
    return tests.assign(test_set=test_set).rename(columns={"n": "shared"})


def _both(study: Study, pair: tuple[str, str], test_set: str) -> pd.DataFrame:
    """The scores of two conditions on the flows of a test set that both have; empty where one was not asked."""
    scores = study.on_shared(pair).scores
    scores = scores[scores["test_set"] == test_set]
    return scores if scores["condition"].nunique() == 2 else scores.head(0)


def parity_table(study: Study, rows: pd.DataFrame) -> Table:
    """`parity` for readers: a row a comparison and test set."""
    keys = ["condition", "against", "test_set"]
    texts = rows.assign(text=metric_intervals(rows, DELTAS), p=p_values(rows["p_holm"]))
    first = texts[texts["metric"] == "similarity"].set_index(keys)
    ran = texts[texts["metric"] == "executed"].set_index(keys).loc[first.index]
    frame = pd.DataFrame(
        {
            "retrieval": [study.titles[a] for a, _, _ in first.index],
            "against": [study.titles[b] for _, b, _ in first.index],
            "test set": [TEST_SETS[test_set] for _, _, test_set in first.index],
            "flows": first["shared"].to_numpy(),
            "similarity, difference": first["text"].to_numpy(),
            "p of it": first["p"].to_numpy(),
            "executed right, difference, points": ran["text"].to_numpy(),
            "p of this": ran["p"].to_numpy(),
            "right names, wrong flow": [
                f"{row.wrong} of {row.right} / {row.wrong_against} of {row.right_against}" for row in first.itertuples()
            ],
        }
    )
    caption = (
        "Retrieval minus fine-tuning on the flows that both have: in similarity, which compares names, and in flows "
        "executed right. 95% intervals; p: paired randomisation tests, Holm over this table. Right names, wrong flow: "
        "of the flows of similarity 1, those that do something else when they run, of retrieval / of the other."
    )
    return Table(frame, caption, text_columns=["retrieval", "against"])


def parity_in_words(study: Study, rows: pd.DataFrame) -> str:
    """How much of parity in names is left when flows run; a flow that stands in two comparisons is counted once."""
    if rows.empty:
        return "This profile asks nothing of both retrieval and the fine-tuned model."
    marked = rows.assign(settled=settled_deltas(rows))
    said = []
    for (condition, _, test_set), part in marked.groupby(["condition", "against", "test_set"], sort=False):
        texts = [f"{change(row)} ({'' if row.settled else 'not '}settled)" for row in part.itertuples()]
        said.append(
            f"{study.titles[condition]}, {TEST_SETS[test_set]}: similarity {texts[0]}, executed right {texts[1]}"
        )
    own, other = (_wrong_of_right(study, rows, side) for side in ("condition", "against"))
    return (
        f"Retrieval minus fine-tuning, in names and when flows run (points). {'; '.join(said)}. Settled or not after "
        f"Holm's adjustment over these {len(rows)} tests. Of retrieval's flows "
        f"with the right names {own} are wrong, of the fine-tuned model's {other}."
    )


def beside_copying(study: Study) -> str:
    """Five few-shots by TST against copying TST's nearest flow, in similarity and in flows executed right; empty where
    not both are there."""
    pair = study.name("tst", 5), COPY_TST
    parts = [_beside(study, pair, test_set) for test_set in study.sets()] if len(study.present(pair)) == 2 else []
    found = [part for part in parts if part is not None]
    if not found:
        return ""
    rows = pd.concat(found, ignore_index=True)
    rows = rows.assign(p_holm=holm_adjust(rows["p_value"]))
    sure = settled_deltas(rows)
    texts = [
        f"{'executed right, in points,' if row.metric == 'executed' else row.metric} {change(row)} "
        f"({TEST_SETS[row.test_set]}, n = {row.shared}, {'' if clear else 'not '}settled)"
        for row, clear in zip(rows.itertuples(), sure, strict=True)
    ]
    return (
        f"And what do few-shots add to their nearest one? {study.titles[pair[0]]} minus {study.titles[pair[1]]}: "
        f"{'; '.join(texts)}. Holm's adjustment over these {len(rows)} tests."
    )


def _wrong_of_right(study: Study, rows: pd.DataFrame, side: str) -> str:
    """Of the flows of one side (condition or against) of `parity`, how many of those with the right names are wrong."""
    compared = rows[["condition", "against", "test_set"]].drop_duplicates().itertuples(index=False, name=None)
    scores = pd.concat([_both(study, (a, b), test_set) for a, b, test_set in compared])
    own = scores[scores["condition"].isin(rows[side]) & (scores["similarity"] == 1)]
    own = own.drop_duplicates(["condition", "test_set", "unit"])
    return f"{(~own['executed'].astype(bool)).sum()} of {len(own)}"


def mutants_in_words(caught: pd.DataFrame, left_out: int) -> str:
    """How many wrong flows are caught, by what is wrong.

    Args:
        caught, left_out: of `lib.workflows.mutants.caught`.
    """
    told = [f"{row.caught:,} of {row.mutants:,} with {KINDS[row.kind]}" for row in caught.itertuples() if row.mutants]
    if not told:
        return "No right flow can be made wrong here."
    which = "with a call that is never made"
    left = f"One flow {which} is" if left_out == 1 else f"{left_out} flows {which} are"
    besides = f" {left} left out." if left_out else ""
    return (
        "Does running flows catch what is wrong? Right flows of the test requests, each made wrong in one place: of "
        f"{caught['mutants'].sum():,} such mutants {caught['caught'].sum():,} are caught ({'; '.join(told)}).{besides}"
    )


def strictness_in_words(study: Study, golds: Mapping[str, str], types: Types = undeclared) -> str:
    """Of models' flows executed right, how many agree with the right flow in what the request does not say, too.

    Args:
        golds: the right flow's text by unit.
        types: see `lib.workflows.execution.executed_alike`.
    """
    scores = study.scores
    right = scores[(scores["executed"] == True) & ~scores["condition"].isin(COPIES)]  # noqa: E712  None where unknown
    right = right[right["test_set"].isin(study.sets())]
    if right.empty:
        return "No model's flow is executed right."
    texts = zip(right["text"], right["unit"].map(golds), strict=True)
    counts = Counter(strictness(parse(text), parse(gold), types) for text, gold in texts)
    share = {name: f"{counts[name]} ({counts[name] / len(right):.0%})" for name in ("exact", "more", "unsaid")}
    return (
        "Executed right asks for the arguments that the request says, and for no others. Of the "
        f"{len(right):,} flows of models that are executed right, for {right['unit'].nunique()} requests, "
        f"{share['exact']} have the right flow's arguments and "
        f"no more, {share['more']} have keys besides that it lacks, and in {share['unsaid']} an argument differs or "
        "is absent that the request does not say."
    )
