"""Tables, figures and sentences of notebook 01, the workflows' half: catalogue, requests and flows."""

from __future__ import annotations

import json
from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from lib.workbook.display import Drawing, Table
from lib.workflows.catalogue import Catalogue
from lib.workflows.pair_checks import offered, outside_the_catalogue
from lib.workflows.pairs import SPLITS

SHOWN_API = "shared_outlook.SendEmailV2"  # where the catalogue has it
COMMONEST = 50


@dataclass(frozen=True)
class Source:
    """Where APIs, pairs and requests come from; what is not named is the workbook's own.

    Attributes:
        apis: folder with your own OpenAPI documents.
        pairs: file with your own requests and flows.
    """

    apis: str = ""
    pairs: str = ""


# ---------------------------------------------------------------- the catalogue


def shape_table(shape: pd.DataFrame, source: Source) -> Table:
    """The figures of a catalogue (`lib.workflows.pair_checks.shape`), beside what was planned where it is ours."""
    shown = shape.assign(ours=shape["ours"].map("{:.3g}".format))
    if source.apis:
        return Table(shown[["quantity", "ours"]], f"Shape of your own catalogue, from {source.apis}.")
    planned = [
        f"{least:g}" if least == most else f"{least:g} to {most:g}"
        for least, most in zip(shape["least"], shape["most"], strict=True)
    ]
    return Table(
        shown.assign(planned=planned)[["quantity", "planned", "ours"]],
        "Shape of the catalogue: planned, most of it from the real operations' figures (how many are held out is our "
        "choice), and as it is.",
    )


def shape_sentence(shape: pd.DataFrame, catalogue: Catalogue, source: Source) -> str:
    """How many documents were read, or how many figures lie where they were planned."""
    if source.apis:
        left_out = " and are left out:" if catalogue.skipped else "."
        return f"{len(catalogue.connectors)} documents were read, **{len(catalogue.skipped)} could not be**{left_out}"
    outside = shape.loc[~shape["within"], "quantity"]
    names = f": outside are {', '.join(outside)}" if len(outside) else ""
    return f"{len(shape) - len(outside)} of the {len(shape)} figures lie in their range{names}."


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
    half = int(np.searchsorted(sizes.cumsum(), len(catalogue) / 2)) + 1
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.2))
    left.bar(range(len(sizes)), sizes, width=0.85, color="#0072B2")
    left.set(xlabel=f"{len(sizes)} connectors, sorted", ylabel="APIs", xticks=[])
    right.bar(*np.unique(takes, return_counts=True), width=0.85, color="#0072B2")
    right.set(xlabel="parameters", ylabel="APIs", xticks=range(0, takes.max() + 1, max(2, takes.max() // 10)))
    return Drawing(
        figure,
        "catalogue_shape",
        f"{half} of {len(sizes)} connectors hold half of the {len(catalogue)} APIs; an API takes {takes.median():.0f} "
        f"parameters in the median, {takes.max()} at most",
        f"Two bar charts: APIs of each connector, from {sizes.max()} down to {sizes.min()}, and APIs by number of "
        f"parameters, from {takes.min()} to {takes.max()}.",
        overview,
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


def review_sentence(decided: pd.DataFrame) -> str:
    """How many test pairs are dropped, fixed, left, and judged among those left.

    Args:
        decided: columns decision, pairs.
    """
    number = decided.set_index("decision")["pairs"]
    judged = number["keep"] + number["fix"]
    return (
        f"{number['drop']} of {number.sum()} test pairs are dropped and {number['fix']} fixed. **Of the "
        f"{number.sum() - number['drop']} that are left, {judged} {'was' if judged == 1 else 'were'} judged.**"
    )


# ---------------------------------------------------------------- the pairs


def of_split(pairs: pd.DataFrame, split: str) -> pd.DataFrame:
    return pairs[pairs["split"] == split]


def pairs_sentence(pairs: pd.DataFrame, catalogue: Catalogue, source: Source) -> str:
    """How many pairs there are, and what was checked of them; of simulated ones, `check_held_out` must have passed."""
    if source.pairs:
        names, keys = outside_the_catalogue(pairs, catalogue)
        checked = (
            f"These are your own; {names} flow{' calls' if names == 1 else 's call'} APIs and {keys} "
            f"flow{' has' if keys == 1 else 's have'} parameters that the catalogue lacks."
        )
    else:
        held = sum(not api.in_training for api in offered(catalogue))
        checked = (
            "As it was made, each flow was printed, parsed back to the same and validated against the catalogue: "
            f"{len(pairs):,} of {len(pairs):,} passed (one failure stops this page). The {held} APIs held out occur in "
            "no training or test pair; every unseen pair has one."
        )
    sizes = {split: len(of_split(pairs, split)) for split in SPLITS}
    same = f", {sizes['test_same']:,} to test in training's own wordings (`test_same`)" if sizes["test_same"] else ""
    return (
        f"**{len(pairs):,} pairs** of a request and a flow: {sizes['training']:,} for training, {sizes['test']:,} for "
        f"the test, {sizes['unseen']:,} with APIs that training has not seen{same}. {checked}"
    )


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


def lengths_sentence(pairs: pd.DataFrame) -> str:
    """How long training flows and their requests are, and how many sequences of APIs there are."""
    training = of_split(pairs, "training")
    words, sequences = training["request"].str.split().str.len(), set(map(tuple, training["apis"]))
    return (
        f"A training flow has {training['n_calls'].mean():.1f} calls on average and its request {words.median():.0f} "
        f"words in the median (9 of 10 between {words.quantile(0.05):.0f} and {words.quantile(0.95):.0f}); "
        f"{len(sequences):,} different sequences of APIs."
    )


def use_figure(usage: pd.DataFrame) -> Drawing:
    """Calls of an API against its rank.

    Args:
        usage: columns rank, calls; most used first.
    """
    commonest = min(COMMONEST, len(usage))
    covered = 100 * usage["calls"].head(commonest).sum() / usage["calls"].sum()
    figure, axis = plt.subplots(figsize=(8, 3.4))
    axis.loglog(usage["rank"], usage["calls"], color="#0072B2", marker=".", linestyle="none")
    axis.axvline(commonest, color="#D55E00", linestyle="--", label=f"the {commonest} commonest")
    axis.set(xlabel="API, by rank", ylabel="calls in training flows")
    axis.legend()
    return Drawing(
        figure,
        "api_use",
        f"The {commonest} commonest of {len(usage)} APIs make {covered:.0f}% of the calls in training flows; the "
        f"median API is called {usage['calls'].median():.0f} times, the rarest {usage['calls'].min()}",
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


def reworded_sentence(n_matched: int, n_written: int) -> str:
    """How many of the reworded requests belong to these pairs."""
    rest = "." if n_matched == n_written else "; the others were reworded for other flows and are left out."
    return f"{n_matched} of the {n_written} reworded requests belong to these pairs{rest}"


def reworded_table(reworded: pd.DataFrame) -> Table:
    """The first three requests that people reworded."""
    return Table(
        reworded[["original", "request"]].head(3).rename(columns={"request": "reworded"}),
        "Test requests, as composed and as reworded by hand.",
        text_columns=["original", "reworded"],
    )


# ---------------------------------------------------------------- pairs to tune on, sizes, finding


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


def mined_sentence(n_mined: int, positives: int, n_training: int, threshold: float) -> str:
    """How many pairs of training requests lie above the threshold.

    Args:
        n_mined: pairs that were taken.
        positives: pairs above the threshold, among all.
        n_training: training pairs.
    """
    if not n_mined:
        return f"{n_training} training pair: nothing can be mined, and nothing tuned."
    possible = n_training * (n_training - 1) // 2
    return (
        f"Of the {possible:,} pairs of training requests {positives:,} ({100 * positives / possible:.2g}%) have a "
        f"cosine above {threshold}."
    )


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


def finding(pairs: pd.DataFrame, catalogue: Catalogue, nearest: pd.DataFrame, source: Source) -> str:
    """The workflows' half of what the report shows of this notebook."""
    world = "Workflows of your own" if source.pairs else "Simulated workflows"
    training, test = (len(of_split(pairs, split)) for split in ("training", "test"))
    alike = {split: part["similarity"].mean() for split, part in nearest.groupby("split")}
    same = f" ({alike['test_same']:.2f} in training's own wordings)" if "test_same" in alike else ""
    sides = {split: of_split(pairs, split) for split in ("training", "test")}
    known = set(sides["training"]["apis"].map(tuple))
    again = 100 * sides["test"]["apis"].map(tuple).isin(known).mean()
    copied = sides["test"]["request"].isin(set(sides["training"]["request"])).sum()
    return (
        f"{world}: **{training:,} training and {test:,} test pairs** over {len(catalogue)} APIs. "
        f"{copied or 'No'} test request{'s stand' if copied > 1 else ' stands'} in training, {again:.0f}% of the test "
        "flows' API sequences do; the flow of the training pair with the nearest request has a similarity of "
        f"{alike['test']:.2f}{same} to the right one, where 1 is the same APIs in the same order."
    )
