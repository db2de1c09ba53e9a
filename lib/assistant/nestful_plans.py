"""NESTFUL's requests asked of the planner that comes with the project.

It learned plans of one or two calls from this workbook's personas, and no reference to what another call returned.
Tools are shown as signatures, nearest to the request first or exactly those that the answer calls (an upper bound).
What is given back at the end (`var_result`) is no call and is not asked for.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from lib.assistant.nestful import RETURNED, Nestful, right
from lib.assistant.plans import Call, parse_plan
from lib.assistant.prompts import planner_prompt
from lib.assistant.toolbox import DEFAULT_API, signature
from lib.assistant.workbench_plans import MEASURES as OF_A_PLAN
from lib.assistant.workbench_plans import NOW, SHOWN_TOOLS, outcome, tool_ranking

SETTINGS = ("rag", "upper_bound")
MEASURES = {"right": OF_A_PLAN["right"], "first": "first call right"} | OF_A_PLAN
MOST_TOKENS = 128  # of a plan


def sample(bench: Nestful, n: int, seed: int) -> pd.DataFrame:
    """`n` cases, or all where there are no more, in their order; drawn without a look at the answers."""
    drawn = np.random.default_rng(seed).permutation(len(bench.cases))[:n]
    return bench.cases.iloc[np.sort(drawn)].reset_index(drop=True)


def prompts(bench: Nestful, asked: pd.DataFrame, encoder) -> pd.DataFrame:
    """What the planner is asked in each of `SETTINGS`.

    Args:
        asked: of `sample`.
        encoder: ranks each set's functions, by name and description, for its requests.

    Returns:
        case, setting, tools (names), prompt.
    """
    functions = {name: {one["name"]: one for one in bench.functions[name]} for name in asked["set"].unique()}
    rows = [(name, title, f"{title}: {one.get('description', '')}") for name, of_set in functions.items()
            for title, one in of_set.items()]  # fmt: skip
    tools = pd.DataFrame(rows, columns=["set", "item", "text"])
    ranked = tool_ranking(asked.rename(columns={"case": "query", "request": "text"}), tools, encoder, "set")
    nearest = ranked[ranked["rank"] <= SHOWN_TOOLS].sort_values(["query", "rank"]).groupby("query")["item"].agg(list)
    made = []
    for query in asked.itertuples():
        known = functions[query.set]
        gold = sorted({api for api, _ in query.calls} & set(known))
        for setting, shown in zip(SETTINGS, ([*nearest[query.case], DEFAULT_API], gold), strict=True):
            signatures = [signature(known[tool]) if tool in known else f"{tool}()" for tool in shown]
            made.append((query.case, setting, shown, planner_prompt(query.request, NOW, signatures)))
    return pd.DataFrame(made, columns=["case", "setting", "tools", "prompt"])


def judged(plans: pd.DataFrame, bench: Nestful) -> pd.DataFrame:
    """Plans by NESTFUL's answers.

    Args:
        plans: columns case, setting, text.

    Returns:
        case, setting, text, and `MEASURES` (bool).
    """
    cases = bench.cases.set_index("case")
    rows = [
        (plan.case, plan.setting, plan.text, *_judged(plan.text, cases.loc[plan.case, "calls"], bench.functions[name]))
        for plan, name in zip(plans.itertuples(), plans["case"].map(cases["set"]), strict=True)
    ]
    return pd.DataFrame(rows, columns=["case", "setting", "text", *MEASURES])


def _judged(text: str, calls: Sequence[Call], functions: Sequence[dict]) -> tuple[bool, ...]:
    wanted = [call for call in calls if call[0] != RETURNED]
    whole = outcome(text, wanted, functions)
    first = not whole.unparsed and not right(parse_plan(text)[:1], wanted[:1], functions)
    return whole.right, first, whole.tools, whole.unparsed, whole.made_up
