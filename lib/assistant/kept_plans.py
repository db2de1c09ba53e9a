"""Plans of the shipped planner that are kept with the project, and which evaluation queries are asked.

Two cores write all plans of Table 3 in a quarter of an hour, those of three worlds in another half: kept, they stand in
every report at the paper's size. They are found under prompt and weights (`lib.generation.kept`), so that on another
processor, whose last bits of an embedding may show another tool, some queries are left out rather than asked anew.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from lib.assistant.cot import equal_shares
from lib.assistant.planner import Material
from lib.generation.kept import Keeper, Kept
from lib.generation.local import fingerprint
from lib.generation.models import locate
from lib.workbook.parameters.planner import PlannerTuning
from lib.workbook.trained import Shipped

FILE = Path("data") / "answers" / "plans.jsonl"


def kept_plans(parameters: PlannerTuning, shipped: Shipped, root: Path) -> Kept:
    """Those of the shipped planner, where it fits this world; else none.

    Args:
        root: the project's folder.
    """
    weights = ""
    if shipped.folder:
        weights = fingerprint(locate(parameters.planner), shipped.folder, parameters.quantization)
    return Kept.read(root / FILE, weights, parameters.planner_max_tokens)


def prompts_asked(material: Material, settings: Iterable[str], kept: Kept, n: int, seed: int) -> pd.DataFrame:
    """The prompts of the evaluation queries that are asked, the same ones in every setting.

    These are all whose plans are kept in every setting, if there are more than n; else n, as even by kind of need as
    there are.

    Returns:
        as `lib.assistant.planner.Material.prompted`.
    """
    settings = list(settings)
    asked = material.queries[material.queries["split"] == "evaluation"]
    if kept.weights and kept.answers:
        everyone = material.prompted(asked, settings)
        whole = everyone[kept.whole(everyone, ["query"])]
        if whole["query"].nunique() > n:
            return whole.reset_index(drop=True)
    kinds = material.gold.set_index("query")["kind"].loc[asked["query"]]
    return material.prompted(equal_shares(asked, kinds, n, seed), settings)


def kept_in_words(keeper: Keeper) -> str:
    """How many plans were kept with the project rather than written for this report."""
    if not keeper.used:
        return "All plans were written for this report."
    said = " and ".join(sorted(keeper.dtypes))
    return (
        f"{keeper.used:,} plans were written once by the shipped planner, in {said}, and are kept with the project "
        "under their very prompts; the others were written for this report."
    )
