"""Plans of the shipped planner that are kept with the project, and which evaluation queries are asked.

Two cores write all plans of Table 3 in a quarter of an hour, those of each named world in another: kept, they stand in
a report at the paper's size. They are found under prompt and weights (`lib.generation.kept`). On another processor,
whose last bits of an embedding may show another tool, a few queries are left out; where more are missing, the world or
what prompts show is another one, and all are asked anew: the queries that a change did not touch are no fair sample.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pandas as pd

from lib.assistant.cot import equal_shares
from lib.assistant.planner import Material
from lib.generation.kept import ENOUGH, Kept
from lib.generation.local import fingerprint
from lib.generation.models import locate
from lib.workbook.parameters.planner import PlannerTuning
from lib.workbook.parts import Shipped

FILE = Path("data") / "answers" / "plans.jsonl"
KEPT = 936  # evaluation queries whose plans are kept, of Table 3 and of each named world


def kept_plans(parameters: PlannerTuning, shipped: Shipped, root: Path) -> Kept:
    """Those of the shipped planner, where it fits this world and fewer are asked than are kept; else none.

    Args:
        root: the project's folder.
    """
    weights = ""
    if shipped.folder and parameters.planner_queries < KEPT:
        weights = fingerprint(locate(parameters.planner), shipped.folder, parameters.quantization)
    return Kept.read(root / FILE, weights, parameters.planner_max_tokens)


def prompts_asked(
    material: Material, settings: Iterable[str], kept: Kept, n: int, most: int, seed: int
) -> pd.DataFrame:
    """The prompts of the evaluation queries that are asked, the same ones in every setting, as even by kind of need as
    there are.

    These are the queries whose plans are kept in every setting, if they are more than n and at least `ENOUGH` of those
    that were kept; else n.

    Args:
        most: how many were kept.

    Returns:
        as `lib.assistant.planner.Material.prompted`.
    """
    settings = list(settings)
    asked = material.queries[material.queries["split"] == "evaluation"]
    kinds = material.gold.set_index("query")["kind"].loc[asked["query"]]
    if kept.weights and n < most:
        once = equal_shares(asked, kinds, most, seed)
        found = nearly_all(material.prompted(once, settings), kept)
        if found is not None and found["query"].nunique() > n:
            return found
    return material.prompted(equal_shares(asked, kinds, n, seed), settings)


def nearly_all(prompts: pd.DataFrame, kept: Kept, text: str = "prompt") -> pd.DataFrame | None:
    """The prompts of the queries whose plans are all kept; None where these are fewer than `ENOUGH`.

    Args:
        text: the column that plans are kept under.
    """
    whole = prompts[kept.whole(prompts.assign(prompt=prompts[text]), ["query"])]
    enough = whole["query"].nunique() >= ENOUGH * prompts["query"].nunique()
    return whole.reset_index(drop=True) if enough else None


def kept_or_some(
    prompts: pd.DataFrame,
    kinds: pd.Series,
    kept: Kept,
    n: int,
    most: int,
    seed: int,
    said: Callable[[pd.DataFrame], pd.DataFrame] = lambda rows: rows,
    text: str = "prompt",
) -> pd.DataFrame:
    """The prompts that another planner is asked: of `most` queries where n are no more and nearly all of these plans
    are kept, without the queries that are not whole; else of n. Queries are drawn as even by kind as there are.

    Args:
        prompts: columns query, prompt and more: those of the shipped planner's queries.
        kinds: of the queries, by query.
        most: queries whose plans are kept.
        said: adds the column `text`, which the planner is asked, to such prompts.
    """
    queries = prompts[["query"]].drop_duplicates()

    def some(number: int) -> pd.DataFrame:
        chosen = equal_shares(queries, kinds.loc[queries["query"]], number, seed)
        return said(prompts[prompts["query"].isin(chosen["query"])].reset_index(drop=True))

    found = nearly_all(some(most), kept, text) if n <= most and kept.answers else None
    return some(n) if found is None else found
