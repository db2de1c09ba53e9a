"""Tables and sentences of notebook 11: plans of WorkBench."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from lib.assistant.pages.common import intervals
from lib.assistant.plans import CAUSES
from lib.assistant.queries import print_call
from lib.assistant.workbench_plans import SETTINGS, TEMPLATE
from lib.evaluation.inference import LEVEL, percent
from lib.workbook.display import Table, interval
from lib.workbook.markup import plain
from lib.workbook.methods import label


def share(successes, n: int, decimals: int = 1) -> str:
    """A percentage with Wilson's 95% interval."""
    value, low, high = map(float, percent(int(successes), n))
    return interval(value, low, high, decimals) + "%"


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


def planner_finding(plans: pd.DataFrame) -> str:
    """For the top of the page and the index."""
    best = max(SETTINGS, key=lambda name: plans.loc[plans["setting"] == name, "right"].sum())
    mine = plans[plans["setting"] == best]
    right = int(mine["right"].sum())
    where = "whatever it is shown" if right == 0 else f"at best, with {setting_label(best)}"
    return (
        f"The shipped planner is right for {right} of {len(mine)} of WorkBench's requests "
        f"({share(right, len(mine))}), {where}."
    )


def plans_words(plans: pd.DataFrame, tests: pd.DataFrame) -> str:
    """Whether the planner plans on data that it did not learn from.

    Args:
        plans: of `lib.assistant.workbench_plans.judged`.
        tests: of `differences`, of the measure tools.
    """
    floor = plans.loc[plans["setting"] == TEMPLATE, "right"]
    said = f"{planner_finding(plans)} The floor is right for {int(floor.sum())}."
    worse = [row.a for row in tests.itertuples() if row.p_holm <= LEVEL and row.only_b > row.only_a]
    if worse:
        *most, last = map(setting_label, worse)
        listed = f"{', '.join(most)} and with {last}" if most else last
        said += f" The floor calls the right tools more often than the planner with {listed} (McNemar, Holm)."
    wrong = plans[(plans["setting"] == SETTINGS[1]) & (plans["category"] != "")]["category"].value_counts()
    if len(wrong):
        said += f" Commonest with {setting_label(SETTINGS[1])}: {CAUSES[wrong.index[0]]} ({wrong.iloc[0]})."
    return said


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
