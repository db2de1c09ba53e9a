"""Tables of notebook 11: plans of WorkBench."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from lib.assistant.pages.common import intervals
from lib.assistant.queries import print_call
from lib.assistant.workbench_plans import SETTINGS, TEMPLATE
from lib.workbook.display import Table
from lib.workbook.markup import plain
from lib.workbook.methods import label

# ---------------------------------------------------------------- WorkBench


def setting_label(name: str) -> str:
    """A setting for readers."""
    return "template without a model (floor)" if name == TEMPLATE else label(name)


def plans_table(rates: pd.DataFrame, data: str, measures: Mapping[str, str]) -> Table:
    """Shares of plans by setting.

    Args:
        rates: of `lib.assistant.workbench_plans.rates`.
        data: whose requests.
        measures: {measure: its words}.
    """
    shown = rates.assign(shown=intervals(rates))
    wide = shown.pivot(index="setting", columns="measure", values="shown").loc[list(dict.fromkeys(rates["setting"]))]
    frame = pd.DataFrame({"shown to the planner": list(map(setting_label, wide.index))})
    for measure, said in measures.items():
        frame[f"{said}, %"] = wide[measure].to_numpy()
    return Table(frame, f"Plans for {int(rates['n'].max())} of {data}; Wilson's 95% intervals.")


def plan_examples(plans: pd.DataFrame, queries: pd.DataFrame, n: int = 2) -> Table:
    """Requests with plans by retrieved and by right tools: of as many right tools the shortest request each."""
    asked, wide = queries.set_index("query"), plans.pivot(index="query", columns="setting", values="text")
    rows = [
        {
            "request": plain(asked.loc[query, "text"]),
            "answer": "\n".join(print_call(tool, given) for tool, given in asked.loc[query, "calls"]),
            **{setting_label(name): wide.loc[query, name] for name in SETTINGS[1:]},
        }
        for query in _shortest(asked.loc[list(dict.fromkeys(plans["query"]))], n)
    ]
    caption = f"{len(rows)} requests of WorkBench, their answers and the planner's plans."
    return Table(pd.DataFrame(rows), caption, code_columns=("answer", *map(setting_label, SETTINGS[1:])))


def _shortest(asked: pd.DataFrame, n: int) -> list[str]:
    """The shortest request for each of the `n` tools first called that have the shortest ones."""
    tools = asked["calls"].map(lambda calls: calls[0][0])
    order = asked["text"].str.len().sort_values(kind="stable").index
    return tools.loc[order].drop_duplicates().index[:n].tolist()
