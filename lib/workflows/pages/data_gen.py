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
COMMONEST = 50


# ---------------------------------------------------------------- the catalogue


def shape_table(shape: pd.DataFrame, openapi_folder: str) -> Table:
    """The figures of a catalogue (`lib.workflows.pair_checks.shape`), beside what was planned where it is ours."""
    shown = shape.assign(ours=shape["ours"].map("{:.3g}".format))
    if openapi_folder:
        return Table(shown[["quantity", "ours"]], f"Shape of your own catalogue, from {openapi_folder}.")
    planned = [
        f"{least:g}" if least == most else f"{least:g} to {most:g}"
        for least, most in zip(shape["least"], shape["most"], strict=True)
    ]
    return Table(
        shown.assign(planned=planned)[["quantity", "planned", "ours"]],
        "Shape of the catalogue: planned, most of it from the real operations' figures (how many are held out is our "
        "choice), and as it is.",
    )


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


def lengths_table(pairs: pd.DataFrame, lengths: pd.DataFrame) -> Table:
    """Flows by number of calls, and those with a condition, percent of each split.

    Args:
        pairs: columns split, conditions.
        lengths: columns split, n_calls, share (0–1).
    """
    shares = lengths.pivot(index="n_calls", columns="split", values="share").mul(100)
    shares = shares.reindex(columns=list(SPLITS))
    shares.loc["with a condition"] = (pairs["conditions"] > 0).groupby(pairs["split"]).mean().mul(100)
    shares = shares.dropna(axis=1, how="all")
    sizes = ", ".join(f"{len(of_split(pairs, split)):,} {split}" for split in shares)
    return Table(
        shares.rename_axis("API calls").reset_index(),
        "Flows by number of API calls, the trigger counted, and flows that test a condition; percent of "
        f"{sizes} pairs.",
        decimals=1,
    )


def use_figure(usage: pd.DataFrame) -> Drawing:
    """Calls of an API against its rank.

    Args:
        usage: columns rank, calls; most used first.
    """
    commonest = min(COMMONEST, len(usage))
    figure, axis = plt.subplots(figsize=(8, 3.4))
    axis.loglog(usage["rank"], usage["calls"], color="#0072B2", marker=".", linestyle="none")
    axis.axvline(commonest, color="#D55E00", linestyle="--", label=f"the {commonest} commonest")
    axis.set(xlabel="API, by rank", ylabel="calls in training flows")
    axis.legend()
    return Drawing(
        figure,
        "api_use",
        "Calls of an API in training flows, by rank",
        f"Calls of an API against its rank, both on logarithmic axes: from {usage['calls'].max():,} calls of the "
        f"commonest down to {usage['calls'].min()}.",
        usage,
    )


def pair_examples(pairs: pd.DataFrame, examples: pd.Series) -> Table:
    """Five training pairs at most, short to long.

    Args:
        pairs: columns pair, request, dsl, n_calls, conditions.
        examples: ids of pairs to choose from.
    """
    known = pairs.set_index("pair").loc[examples].sort_values(["n_calls", "conditions"])
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


def targets_table(mined: pd.DataFrame, scores: pd.Series) -> Table:
    """What tuning learns from, by kind of pair.

    Args:
        mined: columns cosine, positive (bool).
        scores: target of each mined pair, 0–1.
    """
    kind = pd.Series(np.where(mined["positive"], "positive", "negative"), name="kind")
    by_kind = pd.DataFrame({"cosine": mined["cosine"].to_numpy(), "score": scores.to_numpy()}).groupby(kind)
    targets = by_kind.agg(
        pairs=("score", "size"),
        cosine=("cosine", "mean"),
        target=("score", "mean"),
        nothing=("score", lambda score: 100 * (score == 0).mean()),
        same=("score", lambda score: 100 * (score == 1).mean()),
    )
    heads = {
        "cosine": "mean cosine",
        "target": "mean target",
        "nothing": "no API in common, %",
        "same": "the same APIs, %",
    }
    caption = f"The {len(mined):,} mined pairs; the target is the Jaccard similarity of API names, 0 to 1."
    return Table(targets.reset_index().rename(columns=heads), caption)


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
