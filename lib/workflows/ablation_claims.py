"""The ablation's scores and the published differences as `lib.evaluation.claims.evaluate` takes them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import pandas as pd

from lib.evaluation.forensics import chained
from lib.workflows.ablation import Condition
from lib.workflows.ablation_grid import UNSEEN_FINETUNED, UNSEEN_SHOTS, unseen_name
from lib.workflows.scoring import outcomes

COLUMNS = ["flow", "method", "metric", "k", "value"]

Methods = dict[str, list[tuple[str, int]]]


def claimed_methods(rows: Sequence[Condition], reader: str, new_shots: Collection[int], unseen: bool) -> Methods:
    """The methods of `data/claims.yaml` that each condition stands for, with their numbers of few-shots.

    The fine-tuned model, which has none, stands at both numbers.

    Args:
        reader: the generator that stands for the paper's GPT-4; claims are about its rows alone.
        new_shots: examples of each API held out of training that are added; the fewest are what claims are about.
        unseen: whether such APIs were asked for.
    """
    methods = {
        row.name: [(method_name(row.selector, row.definitions), row.shots)]
        for row in rows
        if (row.generator, row.decoding) == (reader, "free")
        and row.selector in ("pretrained", "tst")
        and row.definitions != "instruction"
    }
    methods["no_shots_finetuned"] = [("finetuned_dsl", 5), ("finetuned_dsl", 20)]
    if not unseen:
        return methods
    names = {
        unseen_name(0, "none"): "unseen_pretrained",
        unseen_name(0, "sfd"): "unseen_sfd",
        UNSEEN_FINETUNED: "unseen_finetuned_dsl",
    }
    for n in sorted({*new_shots} - {0})[:1]:
        names[unseen_name(n, "none")] = "unseen_new_shot"
        names[unseen_name(n, "fd_sfd")] = "unseen_fd_sfd_new_shot"
    return methods | {name: [(method, UNSEEN_SHOTS)] for name, method in names.items()}


def method_name(selector: str, definitions: str) -> str:
    """The name of a method in the claims, such as `tst_fd`."""
    return f"{selector}_{definitions}".removesuffix("_none")


def claimed_scores(scores: pd.DataFrame, methods: Methods, called: pd.DataFrame | None = None) -> pd.DataFrame:
    """One row for each flow, method, metric and number of few-shots; similarity and rates are 0–100.

    Args:
        scores: what `lib.workflows.ablation.score` returned, with a column condition.
        methods: of `claimed_methods`.
        called: what `lib.workflows.ablation.new_apis_called` returned: the metric `new_apis_called`.

    Returns:
        `COLUMNS`; the value is NaN where the metric does not count the flow.
    """
    counts = outcomes(scores[scores["condition"].isin(methods)])
    counts["value"] = 100 * counts["numerator"] / counts["denominator"].where(counts["denominator"] > 0)
    claimed = counts.assign(method=counts["condition"].map(methods)).explode("method", ignore_index=True)
    claimed[["method", "k"]] = claimed["method"].tolist()
    claimed = claimed.rename(columns={"unit": "flow"})[COLUMNS]
    if called is None:
        return claimed
    return pd.concat([claimed, _calls_as_scores(called, methods)], ignore_index=True)


def _calls_as_scores(called: pd.DataFrame, methods: Mapping[str, list[tuple[str, int]]]) -> pd.DataFrame:
    kept = called[[name for name in methods if name in called]]
    long = kept.melt(ignore_index=False, var_name="condition").rename_axis("flow").reset_index()
    names = [methods[name][0][0] for name in long["condition"]]
    return long.assign(method=names, metric="new_apis_called", k=UNSEEN_SHOTS)[COLUMNS]


def published_for_claims(published: pd.DataFrame) -> pd.DataFrame:
    """The paper's rows on one scale (`chained`), columns method, metric, k, value; similarity times 100."""
    scale = chained(published)
    names = [method_name(*row) for row in zip(scale["selector"], scale["definitions"], strict=True)]
    scale = scale.assign(
        method=names, k=scale["shots"], value=scale["value"] * np.where(scale["metric"] == "similarity", 100, 1)
    )
    of_finetuned = scale[scale["method"] == "finetuned"].assign(method="finetuned_dsl")
    parts = [scale[scale["method"] != "finetuned"], of_finetuned.assign(k=5), of_finetuned.assign(k=20)]
    return pd.concat(parts)[["method", "metric", "k", "value"]]
