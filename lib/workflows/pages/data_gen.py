"""Tables and figures of notebook 01, the workflows' half: catalogue, requests and flows."""

from __future__ import annotations

import json

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from lib.workbook.display import Drawing, Table
from lib.workflows.apis import APP
from lib.workflows.catalogue import Catalogue
from lib.workflows.pairs import SPLITS
from lib.workflows.phraser import Phrased

SHOWN_API = "shared_outlook.SendEmailV2"  # where the catalogue has it


# ---------------------------------------------------------------- the catalogue


def skipped_table(catalogue: Catalogue) -> Table:
    """The documents that could not be read, and why."""
    shown = pd.DataFrame(catalogue.skipped, columns=["file", "reason"])
    return Table(shown, "Documents left out.", text_columns=["file", "reason"])


def catalogue_figure(catalogue: Catalogue) -> Drawing:
    """APIs of each connector, and APIs by number of parameters."""
    overview = pd.DataFrame(
        [
            {"api": api.name, "connector": api.connector, "parameters": len(api.parameters), "trigger": api.trigger}
            for api in catalogue
        ]
    )
    sizes, takes = overview["connector"].value_counts(), overview["parameters"]
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.2))
    left.bar(range(len(sizes)), sizes, width=0.85, color="#0072B2")
    left.set(xlabel=f"{len(sizes)} connectors, sorted", ylabel="APIs", xticks=[])
    right.bar(*np.unique(takes, return_counts=True), width=0.85, color="#0072B2")
    right.set(xlabel="parameters", ylabel="APIs", xticks=range(0, takes.max() + 1, max(2, takes.max() // 10)))
    return Drawing(
        figure,
        "catalogue_shape",
        "APIs of each connector, and their parameters",
        f"Two bar charts: APIs of each connector, from {sizes.max()} down to {sizes.min()}, and APIs by number of "
        f"parameters, from {takes.min()} to {takes.max()}.",
        overview,
    )


def left_out_table(phrased: Phrased) -> Table:
    """Operations without phrases by reason, with one of each."""
    reasons = phrased.left_out.groupby("reason", sort=False)
    shown = reasons.agg(operations=("api", "size"), example=("api", "first"), summary=("summary", "first"))
    shown = shown.sort_values("operations", ascending=False, kind="stable").reset_index()
    return Table(
        shown, "Operations that no phrase was made for, and why.", text_columns=["reason", "example", "summary"]
    )


def phrases_table(phrased: Phrased, seed: int) -> Table:
    """Some operations at random, with what their documents say and three ways of asking for each."""
    offered = [api for api in phrased.catalogue if api.phrases]
    picked = np.random.default_rng(seed).permutation(len(offered))[:12]
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


def api_table(catalogue: Catalogue) -> Table:
    """One API in the forms in which it is used."""
    api = catalogue[SHOWN_API] if SHOWN_API in catalogue else next(iter(catalogue))
    some = {name: api.metadata[name][:2] for name in ("ParametersInfo", "ResponseSchema")}
    forms = {
        "record (A.2)": json.dumps(api.metadata | some, indent=2, ensure_ascii=False),
        "definition, compact": api.definition,
        "definition, described": api.described,
        "text for retrieval": api.text,
    }
    return Table(
        pd.DataFrame(forms.items(), columns=["form", api.name]),
        f"One API in four forms; of its {len(api.parameters)} parameters and {len(api.returns)} response fields the "
        "record shows the first two each.",
        code_columns=[api.name],
    )


def review_table(decided: pd.DataFrame, review_file: str) -> Table:
    """What people decided (`lib.workflows.review.apply_review`)."""
    return Table(decided, f"What people decided about the test pairs, by {review_file}.", decimals=0)


# ---------------------------------------------------------------- the pairs


def of_split(pairs: pd.DataFrame, split: str) -> pd.DataFrame:
    return pairs[pairs["split"] == split]


def lengths_table(pairs: pd.DataFrame) -> Table:
    """Flows by number of calls, and those with a condition, percent of each split; columns split, n_calls,
    conditions."""
    shares = pairs.groupby("split")["n_calls"].value_counts(normalize=True).unstack("split").sort_index().mul(100)
    shares = shares.reindex(columns=list(SPLITS))
    shares.loc["with a condition"] = (pairs["conditions"] > 0).groupby(pairs["split"]).mean().mul(100)
    shares = shares.dropna(axis=1, how="all")
    sizes = ", ".join(f"{len(of_split(pairs, split)):,} {split}" for split in shares)
    caption = f"Flows by number of API calls, the trigger counted, and with a condition; percent of {sizes} pairs."
    return Table(shares.rename_axis("API calls").reset_index(), caption, decimals=1)


def pair_examples(pairs: pd.DataFrame, seed: int) -> Table:
    """Five training pairs at most, short to long; columns split, request, dsl, n_calls, conditions."""
    shuffled = of_split(pairs, "training").sample(frac=1, random_state=seed)
    known = shuffled.drop_duplicates(["n_calls", "conditions"]).sort_values(["n_calls", "conditions"])
    picked = known.iloc[np.unique(np.linspace(0, len(known) - 1, 5).astype(int))]
    return Table(
        picked[["request", "dsl"]].rename(columns={"dsl": "flow"}),
        "Requests and their flows.",
        text_columns=["request"],
        code_columns=["flow"],
    )


def reworded_table(reworded: pd.DataFrame) -> Table:
    """The first three requests that people reworded."""
    return Table(
        reworded[["original", "request"]].head(3).rename(columns={"request": "reworded"}),
        "Test requests, as composed and as reworded by hand.",
        text_columns=["original", "reworded"],
    )


# ---------------------------------------------------------------- pairs to tune on, sizes


def dataset(published: pd.DataFrame, pairs: pd.DataFrame, catalogue: Catalogue, n_mined: int) -> pd.DataFrame:
    """The published sizes with `ours` beside them.

    Args:
        published: columns quantity, published.
        n_mined: pairs to tune on.
    """
    ours = {f"workflow {split} pairs": len(of_split(pairs, split)) for split in ("training", "test")}
    ours |= {"workflow APIs": len(catalogue), "TST pairs": n_mined}
    return published.assign(ours=published["quantity"].map(ours))


def sizes_table(dataset: pd.DataFrame, profile: str) -> Table:
    """Published sizes and ours."""
    caption = f"Sizes, published and ours (profile {profile}). The paper gives the number of APIs as about 700."
    return Table(dataset, caption)
