"""What notebook 01 shows of phrases that rules made from OpenAPI documents."""

from __future__ import annotations

import numpy as np
import pandas as pd

from lib.workbook.display import Table
from lib.workflows.apis import APP
from lib.workflows.phrase_readings import FRESH, PhraseReading, connectors_read, goodness
from lib.workflows.phraser import Phrased

N_EXAMPLES = 12


def phrased_sentence(phrased: Phrased) -> str:
    """How many operations got phrases, how many wordings each, and whose triggers begin the flows."""
    own = [api for api in phrased.catalogue if not (phrased.started and api.connector in _starts(phrased))]
    offered = [api for api in own if api.phrases]
    wordings = np.median([len({*api.phrases, *api.terse}) for api in offered])
    held = sum(not api.in_training for api in offered)
    triggers = sum(api.trigger for api in offered)
    begin = (
        "None is a trigger, and a flow has to begin with one: schedule, button and request of the workbook's own do."
        if phrased.started
        else f"{triggers} of them are triggers."
    )
    return (
        f"**{len(offered)} of {len(own)} operations can be asked for**, each in {wordings:.0f} wordings in the median; "
        f"{held} of them are held out for the unseen pairs. {begin} The other {len(phrased.left_out)} are in no flow; "
        "they stay in the catalogue, in which definitions are searched."
    )


def _starts(phrased: Phrased) -> set[str]:
    """The connectors of triggers that are the workbook's."""
    return {api.connector for api in phrased.catalogue if api.trigger and api.phrases}


def left_out_table(phrased: Phrased) -> Table:
    """Operations without phrases by reason, with one of each."""
    reasons = phrased.left_out.groupby("reason", sort=False)
    shown = reasons.agg(operations=("api", "size"), example=("api", "first"), summary=("summary", "first"))
    shown = shown.sort_values("operations", ascending=False, kind="stable").reset_index()
    return Table(
        shown, "Operations that no phrase was made for, and why.", text_columns=["reason", "example", "summary"]
    )


def example_table(phrased: Phrased, seed: int) -> Table:
    """Some operations at random, with what their documents say and three ways of asking for each."""
    offered = [api for api in phrased.catalogue if api.phrases]
    picked = np.random.default_rng(seed).permutation(len(offered))[:N_EXAMPLES]
    rows = []
    for api in (offered[index] for index in sorted(picked)):
        called = phrased.catalogue.connectors[api.connector].called[0]
        texts = [api.phrases[0], api.phrases[len(api.phrases) // 2], api.terse[-1], *api.clauses[:1]]
        said = "; ".join(f"“{text.replace(f'{{{APP}}}', called)}”" for text in texts)
        rows.append((api.name, api.display_name, said))
    return Table(
        pd.DataFrame(rows, columns=["operation", "summary", "asked for as"]),
        "Operations drawn at random: two phrases, one in telegraph style and, where there is one, an ending. Words in "
        "braces are filled with values.",
        text_columns=["operation", "summary", "asked for as"],
    )


def goodness_sentence(readings: list[PhraseReading]) -> str:
    """How good such phrases are, by those that were read."""
    if not readings:
        return "No phrase has been read yet."
    fresh = [reading for reading in readings if reading.sample == FRESH]
    found, before = goodness(fresh), goodness([reading for reading in readings if reading.sample != FRESH])
    text = (
        f"How good are such phrases? Of {found.read} of {connectors_read(fresh)} real connectors, one an operation "
        f"and drawn at random, **{found.good} were judged good: {found.share:.0f}%** (95% interval {found.low:.0f} to "
        f"{found.high:.0f}): a person could say it, and it means this operation. They were drawn and read when the "
        "rules were done. "
    )
    if before.read:
        text += (
            f"Of {before.read} phrases of other operations, read before, {before.good} were good ({before.share:.0f}%, "
            f"{before.low:.0f} to {before.high:.0f}); the rules were then mended by what was bad in those. "
        )
    return text + (
        "One reader judged both samples, a large language model that had also worked on the rules, with other "
        "operations of the same connectors before it. Yours may be better or worse: read the examples above."
    )


def written_sentence(pairs_file: str) -> str:
    """Why no phrases were made."""
    why = "your own requests are taken as they are" if pairs_file else "the catalogue in `data/` says how people ask"
    return f"No phrase is made by rules here: {why}."
