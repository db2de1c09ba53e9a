"""NESTFUL's requests asked of the planner that comes with the project.

It learned plans of one or two calls from this workbook's personas, and no reference to what another call returned.
Tools are shown as signatures, nearest to the request first or exactly those that the answer calls (an upper bound).
What is given back at the end (`var_result`) is no call and is not asked for.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from lib.assistant.nestful import RETURNED, Nestful, answers_of, right
from lib.assistant.plans import Call, PlanError, api_names, ast_match, hallucinated, parse_plan
from lib.assistant.prompts import planner_prompt
from lib.assistant.toolbox import DEFAULT_API, signature
from lib.assistant.workbench_plans import NOW, SHOWN_TOOLS
from lib.retrieval.dense import encode

SETTINGS = ("rag", "upper_bound")
MEASURES = {
    "right": "right by AST match",
    "first": "first call right",
    "tools": "calls the right tools",
    "unparsed": "does not parse",
    "made_up": "calls a tool that is not there",
}
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
    rows = []
    for name, part in asked.groupby("set", sort=False):
        functions = {function["name"]: function for function in bench.functions[name]}
        texts = [f"{title}: {function.get('description', '')}" for title, function in functions.items()]
        scores = encode(encoder, part["request"].tolist()) @ encode(encoder, texts).T
        for query, near in zip(part.itertuples(), scores, strict=True):
            order = np.argsort(-near, kind="stable")[:SHOWN_TOOLS]
            gold = sorted({api for api, _ in query.calls} & set(functions))
            shown = dict(
                zip(SETTINGS, ([*np.array(list(functions), dtype=object)[order], DEFAULT_API], gold), strict=True)
            )
            for setting, tools in shown.items():
                signatures = [signature(functions[tool]) if tool in functions else f"{tool}()" for tool in tools]
                rows.append((query.case, setting, tools, planner_prompt(query.request, NOW, signatures)))
    return pd.DataFrame(rows, columns=["case", "setting", "tools", "prompt"])


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
    match = ast_match(text, answers_of(wanted), functions)
    try:
        made = parse_plan(text)
    except PlanError:
        made = []
    first = bool(made) and not right(made[:1], wanted[:1], functions)
    tools = sorted(api_names(text)) == sorted(api for api, _ in wanted)
    known = {function["name"] for function in functions}
    return bool(match), first, tools, match.category == "unparsed", hallucinated(text, known)
