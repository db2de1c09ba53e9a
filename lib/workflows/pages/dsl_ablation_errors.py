"""Notebook 09: which errors remain, and one request written in several ways."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

import pandas as pd

from lib.evaluation.inference import percent
from lib.workbook.cases import case_address
from lib.workbook.display import Table, interval, number
from lib.workflows.catalogue import Catalogue
from lib.workflows.errors import GROUP_OF, KINDS, error_table
from lib.workflows.pages.dsl_ablation import COPY, FINETUNED, HELD, Study
from lib.workflows.scoring import nothing_made_up

LONGEST = 600  # characters of a flow that is shown


def counted_errors(study: Study, golds: Mapping[str, str], catalogue: Catalogue) -> pd.DataFrame:
    """The errors of some conditions' flows; `golds` has the right flow of each unit.

    Returns:
        columns condition, kind, flows (that have it), times (that it occurs), n (flows of the condition).
    """
    rows = [("pretrained", 5, "none"), ("pretrained", 5, "fd"), ("pretrained", 20, "none"), ("tst", 20, "fd")]
    names = [*(study.name(*row) for row in rows), study.name("pretrained", 5, decoding="catalogue"), FINETUNED]
    scores = study.scores[study.scores["condition"].isin(names)]
    scores = scores.assign(dsl=scores["unit"].map(golds), finished=scores["finished"].astype(bool))
    kinds = error_table(scores, catalogue).groupby(["condition", "kind"], sort=False)
    counted = kinds.agg(flows=("unit", "nunique"), times=("count", "sum")).reset_index()
    return counted.assign(n=counted["condition"].map(scores["condition"].value_counts()))


def kinds_table(study: Study, counted: pd.DataFrame) -> Table:
    """`counted_errors` for readers: the share of flows with an error of each kind, one column a condition."""
    flows = counted.set_index(["kind", "condition"])["flows"].unstack(fill_value=0)
    kinds = [kind for kind in KINDS if kind in flows.index]
    sizes = counted.drop_duplicates("condition").set_index("condition")["n"]
    columns, cases = {}, {}
    for name, n in sizes.items():
        head = f"{brief(study.titles[name])} (n = {n})"
        columns[head] = [interval(*percent(flows.loc[kind, name], n), 0) for kind in kinds]
        cases[head] = [case_address("flows", condition=name, error=kind) for kind in kinds]
    frame = pd.DataFrame({"kind of error": [f"{GROUP_OF[kind]}: {KINDS[kind]}" for kind in kinds]} | columns)
    caption = "Flows of all test sets with an error of each kind, % of all flows, with Wilson's 95% intervals."
    return Table(frame, caption, text_columns=["kind of error"], cases=cases)


def brief(title: str) -> str:
    """A condition's name that fits into a table's head."""
    for long, short in (
        ("pretrained encoder", "pretrained"),
        (", no few-shots", ""),
        (" few-shots", ""),
        ("under the grammar and the ", ""),
    ):
        title = title.replace(long, short)
    return title


def typical_flow(study: Study) -> str:
    """Of the valid flows with five few-shots (of all, where none is) the one nearest to their mean similarity."""
    usual = study.scores[study.scores["condition"] == study.name("pretrained", 5)].set_index("unit")
    valid = nothing_made_up(usual)
    usual = usual[valid] if valid.any() else usual
    return (usual["similarity"] - usual["similarity"].mean()).abs().idxmin()


def several_ways_table(study: Study, unit: str, asked: pd.DataFrame) -> Table:
    """One request as several conditions write it; `asked` has columns request, dsl and is indexed by pair."""
    texts = study.scores[study.scores["unit"] == unit].set_index("condition")
    five = [
        study.name("pretrained", 5),
        study.name("pretrained", 5, "fd"),
        study.name("pretrained", 5, "none", "catalogue"),
    ]
    names = [name for name in (COPY, *five, FINETUNED, HELD) if name in texts.index]
    titles = [
        f"{study.titles[name]} (similarity {number(texts.loc[name, 'similarity'], 2)}, executed "
        f"{'right' if texts.loc[name, 'executed'] else 'wrong'})"
        for name in names
    ]
    flows = [asked.loc[unit, "dsl"], *map(_shortened, texts.loc[names, "text"])]
    frame = pd.DataFrame({"": ["the flow that is wanted", *titles], "flow": flows})
    return Table(frame, f"Request: {asked.loc[unit, 'request']}", text_columns=[""], code_columns=["flow"])


def _shortened(text: str) -> str:
    return textwrap.shorten(text, LONGEST, placeholder=" …") if len(text) > LONGEST else text


def prompt_table(study: Study, unit: str, condition: str) -> Table | None:
    """The whole prompt of a condition for a request; None where it was not asked."""
    scores = study.scores[(study.scores["unit"] == unit) & (study.scores["condition"] == condition)]
    if scores.empty:
        return None
    caption = f"The whole prompt for this request, {study.titles[condition]}."
    return Table(scores[["prompt"]], caption, code_columns=["prompt"])
