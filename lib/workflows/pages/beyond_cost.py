"""Notebook 12: what a point of quality costs for workflows, and what compressed prompts save and lose."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd

from lib.evaluation.pareto import shared_quality
from lib.evaluation.prices import REQUESTS, Price, cost_columns, with_costs
from lib.evaluation.rates import rates_with_intervals
from lib.workbook.display import Drawing, Table
from lib.workbook.methods import colour, label, marker
from lib.workbook.parameters.dsl_ablation import Condition
from lib.workbook.pareto import DRAWN, pareto_drawing
from lib.workflows.ablation import title
from lib.workflows.apis import DefinitionForm
from lib.workflows.catalogue import Catalogue
from lib.workflows.definitions import coverage_summary, gold_coverage
from lib.workflows.pages.common import METRIC, TEST_SETS, intervals
from lib.workflows.repair_rates import Rates
from lib.workflows.scoring import executed_outcomes, outcomes

SHOWN = ("similarity", "executed")
DEFINITIONS = "definitions"
CONDITION = re.compile(
    r"(?P<selector>no|pretrained|tst_affine|tst|random|other|oracle_shots)_(?P<shots>shots|\d+)"
    r"(?:_(?P<definitions>instruction|fd_sfd|fd_first|fd|sfd|gold))?"
    r"(?:_(?P<generator>finetuned|in_context|instruct))?(?:_(?P<decoding>grammar|catalogue|grounded))?"
)
COPIED = "copy_"
SEARCHING = ("pretrained", "tst", "tst_affine", "oracle_shots")  # selectors that search for few-shots
SEARCHED = ("sfd", "sfd_clauses")  # definitions by their own search, not by few-shots
CEILINGS = ("oracle_shots", "gold")
STYLES = {  # colour and marker by who writes
    "untuned": ("pretrained", "v"),
    "in_context": ("tst", "o"),
    "finetuned": ("finetuned_dsl", "D"),
    "instruct": ("fd_sfd", "s"),
    "copy": ("random", "x"),
}
WRITERS = {
    "finetuned": "the fine-tuned model",
    "in_context": "the in-context model",
    "copy": "copied flows",
    "untuned": "the untuned model",
    "instruct": "the instruct model",
}
POINT = [
    "row",
    "condition",
    "test_set",
    "metric",
    "name",
    "value",
    "ci_low",
    "ci_high",
    "n",
    "seconds",
    "tokens_in",
    "tokens_out",
]


def condition_of(name: str) -> Condition | None:
    """The condition that notebook 09 calls so (see `Condition.name`); None for one that is none of its grid's."""
    found = CONDITION.fullmatch(name)
    if not found:
        return None
    parts = found.groupdict()
    none = parts["selector"] == "no"
    row = [
        "pretrained" if none else parts["selector"],
        0 if none else int(parts["shots"]),
        parts["definitions"] or "none",
        parts["generator"] or "untuned",
        parts["decoding"] or "free",
        1,
    ]
    return Condition.model_validate(row)


def at_rates(scores: pd.DataFrame, rates: Mapping[str, Rates]) -> pd.DataFrame:
    """Scored answers with the seconds that their tokens take at measured rates: of kept answers only some were timed,
    and these may be longer than the others. Those of a model without rates keep the seconds that they have.

    Args:
        scores: notebook 09's `ablation_scores`.
        rates: by generator.
    """
    rows = {name: condition_of(name) for name in scores["condition"].unique()}
    known = {name: (row, rates[row.generator]) for name, row in rows.items() if row and row.generator in rates}
    reading = scores["condition"].map({name: rate.reading for name, (_, rate) in known.items()})
    writing = scores["condition"].map(
        {name: rate.writing if row.decoding == "free" else rate.held for name, (row, rate) in known.items()}
    )
    seconds = scores["tokens_in"] * reading + scores["tokens_out"] * writing
    return scores.assign(seconds=seconds.fillna(scores["seconds"]))


def flow_points(scores: pd.DataFrame, reader: str, searching: float, samples: int, seed: int) -> pd.DataFrame:
    """All conditions of the ablation on test flows, and copied flows, with quality and cost.

    Args:
        scores: of `at_rates`.
        reader: the generator that stands for GPT-4: the in-context model is asked flows of one half alone, so that then
            all rows are over these.
        searching: seconds of a search for few-shots (see `seconds_a_search`), added where few-shots are searched.
        samples, seed: of the bootstrap.

    Returns:
        `POINT` with a row for each condition, test set and metric of `SHOWN`, in percent both; row is `<metric>
        <test set>`. Conditions that read the right flow (oracle few-shots, gold definitions) are left out: nobody can
        pay for them.
    """
    rows, asked = _compared(scores, reader)
    parts = []
    for test_set, part in asked.groupby("test_set", sort=False):
        counted = pd.concat([outcomes(part), executed_outcomes(part)])
        counted = counted[counted["metric"].isin(SHOWN)]
        parts.append(rates_with_intervals(counted, SHOWN, samples, seed).assign(test_set=test_set))
    table = pd.concat(parts, ignore_index=True)
    costs = asked.groupby(["condition", "test_set"])[["seconds", "tokens_in", "tokens_out"]].mean()
    table = table.join(costs, on=["condition", "test_set"])
    copies = table["condition"].str.startswith(COPIED)
    table.loc[copies, ["seconds", "tokens_in", "tokens_out"]] = 0.0
    searched = [copied or _searches(rows[name]) for name, copied in zip(table["condition"], copies, strict=True)]
    table["seconds"] += searching * np.array(searched, float)
    names = [_name(name, rows[name], reader) for name in table["condition"]]
    table = table.assign(name=names, row=table["metric"] + " " + table["test_set"])
    return table[POINT]


def _compared(scores: pd.DataFrame, reader: str) -> tuple[dict[str, Condition | None], pd.DataFrame]:
    """All conditions by name, and the answers of those that are compared (see `flow_points`)."""
    rows = {name: condition_of(name) for name in scores["condition"].unique()}
    kept = [
        name
        for name, row in rows.items()
        if name.startswith(COPIED)
        or (row is not None and not (row.selector in CEILINGS and row.shots) and row.definitions not in CEILINGS)
    ]
    asked = scores[scores["condition"].isin(kept)]
    if reader == "in_context":
        asked = asked[asked["half"] != ""]
    return rows, asked[_of_those_written(asked)]


def shared_flows(scores: pd.DataFrame, reader: str) -> dict[str, pd.DataFrame]:
    """Of each row of `flow_points` the quality of any two conditions on the requests that both were asked (see
    `lib.evaluation.pareto.shared_quality`): fewer requests may be easier ones."""
    _, asked = _compared(scores, reader)
    return {
        f"{metric} {test_set}": shared_quality(
            part.assign(value=100 * part[metric].astype(float)).pivot(index="unit", columns="condition", values="value")
        )
        for test_set, part in asked.groupby("test_set", sort=False)
        for metric in SHOWN
    }


def _of_those_written(asked: pd.DataFrame) -> pd.Series:
    """Which rows stay: of flows that were copied those of requests that the most asked condition of a model was asked,
    so that both are compared on the same ones; all where no model was asked."""
    copied = asked["condition"].str.startswith(COPIED)
    kept = pd.Series(True, asked.index)
    for _, part in asked.groupby("test_set"):
        written = part[~copied[part.index]]
        if len(written):
            most = written[written["condition"] == written["condition"].value_counts().idxmax()]
            kept[part.index] = ~copied[part.index] | part["unit"].isin(most["unit"])
    return kept


def _searches(row: Condition | None) -> bool:
    return row is not None and row.shots > 0 and row.selector in SEARCHING and row.generator != "copy"


def _name(condition: str, row: Condition | None, reader: str) -> str:
    if row is None:
        return f"nearest flow copied, {label(condition.removeprefix(COPIED))}"
    return title(row, reader)


def definition_points(coverage: pd.DataFrame, sample: str = "test") -> pd.DataFrame:
    """Which of the wanted APIs definitions bring into the prompt, and for how many tokens; no model reads them.

    Args:
        coverage: the report's `definition_coverage.csv`, or of `lib.workflows.definitions.coverage_summary`; of the
            kind `sfd_clauses` are definitions that were searched by clause.

    Returns:
        `POINT`; no seconds are known.
    """
    rows = coverage[coverage["sample"] == sample]
    names = [_definitions(row) for row in rows.itertuples()]
    table = rows.assign(
        row=f"{DEFINITIONS} {sample}",
        condition=[f"{row.kind}_{row.shots}" for row in rows.itertuples()],
        test_set=sample,
        metric=DEFINITIONS,
        name=names,
        value=rows["share"],
        seconds=np.nan,
        tokens_in=rows["tokens"],
        tokens_out=0.0,
    )
    return table[POINT].reset_index(drop=True)


def definitions_by_clause(
    requests: pd.DataFrame,
    found: Mapping[int, Sequence[Sequence[str]]],
    catalogue: Catalogue,
    count: Callable[[str], int],
    form: DefinitionForm,
    samples: int,
    seed: int,
    sample: str = "test",
) -> pd.DataFrame:
    """Definitions that were searched by clause, as `definition_points` reads them.

    Args:
        requests: columns pair, sample, apis.
        found: {k: names for each request}, as many as SFD has beside k few-shots.
        catalogue, count, form: as for `lib.workflows.definitions.gold_coverage`.
        samples, seed: of the bootstrap.
    """
    here = (requests["sample"] == sample).to_numpy()
    ways = {
        ("sfd_clauses", "", k): [some for some, kept in zip(names, here, strict=True) if kept]
        for k, names in found.items()
    }
    coverage = gold_coverage(requests[here], ways, catalogue, count, form).assign(sample=sample)
    return coverage_summary(coverage, samples, seed)


def _definitions(row) -> str:
    if row.kind in SEARCHED:
        return f"{label(row.kind)}, {row.definitions:.0f} definitions"
    return f"{label(row.kind)} of {row.shots} few-shots, {label(row.selector)}"


def seconds_a_search(encode: Callable[[Sequence[str]], np.ndarray], pool: np.ndarray, requests: Sequence[str]) -> float:
    """Median seconds of a search for few-shots: a request's embedding, and its cosine with every training request.

    Args:
        encode: unit vectors of texts.
        pool: unit vectors of the training requests.
        requests: each is searched alone; the first is not counted.
    """
    times = []
    for request in requests:
        start = time.perf_counter()
        scores = pool @ encode([request])[0]
        np.argpartition(scores, -20 if len(scores) > 20 else -len(scores))
        times.append(time.perf_counter() - start)
    return float(np.median(times[1:]))


def priced(points: pd.DataFrame, price: Price, shared: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """`lib.evaluation.prices.with_costs`, and group, colour and marker.

    Args:
        shared: of `shared_flows`.
    """
    table = with_costs(points, price, shared=shared)
    styles = [_style(name) for name in table["condition"]]
    table[["group", "colour", "marker"]] = pd.DataFrame(styles, columns=["group", "colour", "marker"], dtype=object)
    return table


def _style(condition: str) -> tuple[str, str, str | tuple]:
    """What stands for a condition: in words, its colour and its marker."""
    kind = condition.rpartition("_")[0]
    if kind == "sfd_clauses":
        return f"definitions: {label(kind)}", colour("sfd"), "P"
    if kind in ("fd", "sfd", "fd_sfd"):  # definitions that no model has read
        return f"definitions: {label(kind)}", colour(kind), marker(kind)
    writer = _writer(condition)
    name, shape = STYLES[writer]
    return WRITERS[writer], colour(name), shape


def _writer(condition: str) -> str:
    row = condition_of(condition)
    return "copy" if row is None else row.generator


def row_titles(points: pd.DataFrame) -> dict[str, str]:
    """What the y axis of each row of panels says."""
    said = {
        "similarity": "similarity, %",
        "executed": "flows executed right, %",
        DEFINITIONS: "wanted APIs defined, %",
    }
    once = points.drop_duplicates("row")
    return {row.row: f"{said[row.metric]}\n({TEST_SETS[row.test_set]}, 95% interval)" for row in once.itertuples()}


def cost_drawing(points: pd.DataFrame, price: Price) -> Drawing:
    """Quality against seconds and money on the first test set, a row of panels a measure; the table has tokens, the
    other test set, and definitions that no model read."""
    written = points[points["metric"].isin(SHOWN)]
    drawn = written[written["test_set"] == written["test_set"].iloc[0]]
    best = "; ".join(_best(part) for _, part in drawn.groupby("row", sort=False))
    alt = (
        f"Panels of quality against seconds and US dollars at {price.model}'s list price; the Pareto front as a line. "
        f"{best}."
    )
    return pareto_drawing(drawn, "workflow_cost", cost_finding(points), row_titles(drawn), alt, DRAWN)


def _best(part: pd.DataFrame) -> str:
    row = part.loc[part["value"].idxmax()]
    what = {"similarity": "similarity", "executed": "executed right", DEFINITIONS: "APIs defined"}[row["metric"]]
    return (
        f"Best of {what}, {TEST_SETS[row['test_set']]}: {row['name']} {row['value']:.0f}%, {row['tokens']:,.0f} tokens"
    )


def cost_finding(points: pd.DataFrame) -> str:
    """Who writes what lies on the front of tokens and of seconds, in flows executed right."""
    ran = points[points["metric"] == "executed"]
    on = ran[ran["front_tokens"] | ran["front_seconds"]]
    writers = list(dict.fromkeys(_writer(name) for name in on.sort_values("tokens")["condition"]))
    off = [said for one, said in WRITERS.items() if one not in writers and one in set(map(_writer, ran["condition"]))]
    beaten = f"; {' and '.join(off)} {'is' if len(off) == 1 else 'are'} beaten by what costs less" if off else ""
    return f"Best for their cost in flows executed right: {', '.join(WRITERS[one] for one in writers)}{beaten}"


def cost_table(points: pd.DataFrame, prices: Mapping[str, Price]) -> Table:
    """All conditions with their costs, a column of money for each list price."""
    rows = points.assign(place=points["row"].map({row: i for i, row in enumerate(points["row"].unique())}))
    rows = rows.sort_values(["place", "tokens", "seconds"], kind="stable")
    what = METRIC | {DEFINITIONS: "wanted APIs defined, %", "similarity": "similarity, %"}
    frame = pd.DataFrame(
        {
            "measure": rows["metric"].map(what),
            "test set": rows["test_set"].map(TEST_SETS),
            "condition": rows["name"],
            "quality": intervals(rows, decimals=0),
            "n": rows["n"].astype(int),
        }
    ).join(cost_columns(rows, prices))
    caption = (
        "Quality and what one request costs: mean seconds of an answer, its tokens at the rates measured above (of a "
        "model that was not measured, of the answers that were timed), with the search for its few-shots, tokens of "
        f"prompt and answer, and US dollars: what the tokens of {REQUESTS:,} requests would cost at the model's list "
        "price (`data/prices.csv`), though another model read and wrote them. Training is not counted. 95% intervals. "
        "On a front is what no other beats on the requests that both were asked: none that costs no more is as good. "
        "Under *Repaired, or constrained?* the same model has other values: other requests were drawn there, and kept "
        "answers may have been written in another precision."
    )
    return Table(frame.reset_index(drop=True), caption, decimals=0, text_columns=["condition"])


def cost_in_words(points: pd.DataFrame) -> str:
    """For each measure and test set: the front of tokens, from the cheapest to the best."""
    said = []
    for _, part in points.groupby("row", sort=False):
        front = part[part["front_tokens"]].sort_values(["tokens", "value"])
        steps = [f"{one.name} ({one.value:.0f}%, {one.tokens:,.0f})" for one in front.itertuples(index=False)]
        first = part.iloc[0]
        measure = row_titles(part)[first["row"]].partition("\n")[0].partition(",")[0]
        said.append(f"{measure}, {TEST_SETS[first['test_set']]}: {'; '.join(steps)}")
    return (
        f"On the front of quality and tokens (quality, tokens a request). {'. '.join(said)}. A front compares values: "
        "two neighbours on it need not differ significantly."
    )
