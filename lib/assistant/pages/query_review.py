"""Notebook 01's part on what two readers said of the queries."""

from __future__ import annotations

import numpy as np
import pandas as pd

from lib.assistant.query_review import QUESTIONS, Alternatives
from lib.evaluation.inference import percent
from lib.workbook.display import Table, interval, number


def read_sentence(readings: pd.DataFrame, kept: pd.DataFrame) -> str:
    """How much was read, and how much of it is still of this world.

    Args:
        readings: all that there are.
        kept: those of this world.
    """
    n_read, n_kept = readings["query"].nunique(), kept["query"].nunique()
    if not n_read:
        return "No query has been read yet."
    if not n_kept:
        return f"The {n_read} queries that were read are of another world than this one: their readings are not shown."
    changed = n_read - n_kept
    gone = f" ({changed} more have been mended since, or are no longer asked, and are left out)" if changed else ""
    foils = kept.loc[kept["proposed"] != "label", "query"].nunique()
    return (
        f"{kept['reader'].nunique()} readers read {n_kept} evaluation queries{gone}; of {foils} the proposal was wrong "
        "on purpose."
    )


def judged_table(judged: pd.DataFrame) -> Table:
    """Share of yes of each reader, and how far they agree, a row a question (`query_review.judgements`)."""
    readers = [name for name in judged["reader"].unique() if name != "agreement"]
    cells = {name: rows.set_index("question") for name, rows in judged.groupby("reader")}
    rows = []
    for question, words in QUESTIONS.items():
        row: dict[str, object] = {"question": words}
        for name in readers:
            row[f"{name}: yes, %"] = _cell(cells[name], question)
        if "agreement" in cells:
            row["both say the same, %"] = _cell(cells["agreement"], question)
            row["Cohen's kappa"] = number(cells["agreement"].loc[question, "kappa"], 2)
        rows.append(row)
    n = int(judged["n"].max())
    caption = f"What readers said of {n} labels, and how far they agree; in brackets Wilson's 95% intervals."
    return Table(pd.DataFrame(rows), caption, text_columns=["question"])


def _cell(rows: pd.DataFrame, question: str) -> str:
    return interval(*rows.loc[question, ["percent", "ci_low", "ci_high"]])


def blind_table(found: pd.DataFrame) -> Table:
    """What each reader found blind, by kind of query (`query_review.blind_answers`)."""
    shown = found.assign(cell=[interval(*row) for row in found[["percent", "ci_low", "ci_high"]].to_numpy()])
    shown["of"] = (
        shown["reader"] + ": " + shown["found"].map({"first item": "first item relevant, %", "call": "right call, %"})
    )
    wide = shown.pivot(index="kind", columns="of", values="cell")
    order = ["all", *(kind for kind in ("meaning", "habit", "either") if kind in wide.index)]
    wide.insert(0, "n", found.groupby("kind")["n"].max())
    caption = (
        "What readers found before any label was shown, by kind of query (95% intervals: Wilson). A call is right if "
        "the label or another plan that counts has it; some of the other plans were added because readers named them."
    )
    return Table(wide.loc[order].rename_axis("queries").reset_index(), caption)


def said(judged: pd.DataFrame, caught: pd.DataFrame, found: pd.DataFrame, others: Alternatives) -> str:
    """What follows: how good the labels are, whether the readers can be trusted, what is left for a method to find."""
    share = judged[judged["reader"] != "agreement"].groupby("question")["percent"].agg(["min", "max"])
    blind = found[found["kind"] == "all"].groupby("found")["percent"].agg(["min", "max"])

    def between(table: pd.DataFrame, name: str) -> str:
        low, high = table.loc[name]
        return f"{low:.0f}%" if round(low) == round(high) else f"{low:.0f} to {high:.0f}%"

    refused = ""
    if len(caught):
        shown = int(caught["n"].sum()) // caught["reader"].nunique()  # the same ones to each reader
        caught_all = round(shown * float(np.average(caught["percent"], weights=caught["n"])) / 100)
        refused = (
            f" Of {shown} wrong proposals, planted among the labels, the readers "
            f"refused {interval(*percent(caught_all, shown), 0)}% at the question about what is wrong."
        )
    kappa = judged.loc[judged["reader"] == "agreement", "kappa"].dropna()
    agree = ""
    if len(kappa):
        agree = f" Their agreement beyond chance is a kappa of {kappa.min():.2f} to {kappa.max():.2f}."
    counted = (
        f" Of the {others.known} queries for which every reader knows one, {others.counted} have another plan that "
        "counts as right; the others differ in which item is meant, or name a call that does not follow from the need."
        if others.known
        else ""
    )
    return (
        f"The readers call {between(share, 'clear')} of the queries clear, {between(share, 'items_right')} of the "
        f"labelled items, {between(share, 'api_right')} of the calls and {between(share, 'arguments_right')} of the "
        f"arguments right, and know another call that would serve as well for {between(share, 'another')}.{counted}"
        f"{agree}{refused} Blind, their first item is relevant for {between(blind, 'first item')} of the queries and "
        f"their call right for {between(blind, 'call')}, counting plans that count because readers named them."
    )
