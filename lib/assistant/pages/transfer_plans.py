"""Tables and sentences of notebook 11: plans of NESTFUL and WorkBench."""

from __future__ import annotations

import pandas as pd

from lib.assistant.nestful import MUTANTS
from lib.assistant.plans import CAUSES
from lib.assistant.queries import print_call
from lib.assistant.workbench_plans import MEASURES, SETTINGS, TEMPLATE
from lib.evaluation.inference import LEVEL, percent
from lib.workbook.display import Table, interval
from lib.workbook.markup import plain
from lib.workbook.methods import label


def share(successes, n: int, decimals: int = 1) -> str:
    """A percentage with Wilson's 95% interval."""
    value, low, high = map(float, percent(int(successes), n))
    return interval(value, low, high, decimals) + "%"


def held_finding(trips: pd.DataFrame) -> str:
    """For the top of the page and the index."""
    held = int(trips["matches"].sum())
    return f"{held} of NESTFUL's {len(trips)} nested plans ({share(held, len(trips))}) are plans of ours."


def held_words(trips: pd.DataFrame) -> str:
    """How many of NESTFUL's plans the plan language holds, and what it does not.

    Args:
        trips: of `lib.assistant.nestful.round_trips`.
    """
    held, nested = int(trips["matches"].sum()), int((trips["nested"] > 0).sum())
    said = (
        f"{held} of {len(trips)} right plans ({share(held, len(trips))}; {nested} have a call that uses another's "
        "result) are themselves after printing and parsing, and right by AST match."
    )
    lost = trips[~trips["matches"]]
    if lost.empty:
        return said
    unparsed = lost["reason"].str.contains("does not parse")
    return f"{said} Of the others {int(unparsed.sum())} do not parse. One of them: {plain(lost['reason'].iloc[0])}."


def swapped_words(trips: pd.DataFrame) -> str:
    """Whether AST match sees that a reference has come to mean another call."""
    counted = trips[trips["matches"] & trips["swapped"].notna()]
    if counted.empty:
        return "No plan has two calls to exchange."
    flat, content = (int(counted[name].astype(bool).sum()) for name in ("swapped", "swapped_by_content"))
    return (
        "AST match takes calls in any order, and a reference names a place: where two calls are exchanged, it sees "
        f"{flat} of {len(counted)} such plans as wrong, and {content} of {len(counted)} where references are compared "
        "by the call that they mean."
    )


def mutants_table(trips: pd.DataFrame) -> Table:
    """Which wrong plans are found wrong, among plans that are right before."""
    rows = []
    for kind, said in MUTANTS.items():
        counted = trips[trips["matches"] & trips[kind].notna()]
        found = [int(counted[f"{kind}{way}"].astype(bool).sum()) for way in ("", "_by_content")]
        shown = [share(one, len(counted)) if len(counted) else "" for one in found]
        rows.append({"made wrong by": said, "plans": len(counted), "AST match, %": shown[0].rstrip("%"),
                     "references by content, %": shown[1].rstrip("%")})  # fmt: skip
    caption = "NESTFUL's right plans, each made wrong in one place: share that is found wrong, 95% intervals."
    return Table(pd.DataFrame(rows), caption)


# ---------------------------------------------------------------- WorkBench


def setting_label(name: str) -> str:
    """A setting for readers."""
    return "template without a model (floor)" if name == TEMPLATE else label(name)


def plans_table(rates: pd.DataFrame) -> Table:
    """Shares of plans by setting.

    Args:
        rates: of `lib.assistant.workbench_plans.rates`.
    """
    shown = rates.assign(shown=[interval(a, b, c, 1) for a, b, c in rates[["value", "ci_low", "ci_high"]].to_numpy()])
    wide = shown.pivot(index="setting", columns="measure", values="shown").loc[list(dict.fromkeys(rates["setting"]))]
    frame = pd.DataFrame({"shown to the planner": list(map(setting_label, wide.index))})
    for measure, said in MEASURES.items():
        frame[f"{said}, %"] = wide[measure].to_numpy()
    n = int(rates["n"].max())
    return Table(frame, f"Plans for {n} of WorkBench's requests, one a template; Wilson's 95% intervals.")


def planner_finding(plans: pd.DataFrame) -> str:
    """For the top of the page and the index."""
    best = max(SETTINGS, key=lambda name: plans.loc[plans["setting"] == name, "right"].sum())
    mine = plans[plans["setting"] == best]
    right = int(mine["right"].sum())
    return (
        f"The shipped planner is right for {right} of {len(mine)} of WorkBench's requests at best "
        f"({share(right, len(mine))}; {setting_label(best)})."
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
        listed = ", ".join(map(setting_label, worse))
        said += f" The floor calls the right tools more often than the planner with {listed} (McNemar, Holm)."
    wrong = plans[(plans["setting"] == SETTINGS[1]) & (plans["category"] != "")]["category"].value_counts()
    if len(wrong):
        said += f" Commonest with {setting_label(SETTINGS[1])}: {CAUSES[wrong.index[0]]} ({wrong.iloc[0]})."
    return said


def plan_examples(plans: pd.DataFrame, queries: pd.DataFrame, n: int = 3) -> Table:
    """The first requests of the sample with plans by retrieved and by right tools."""
    asked, wide = queries.set_index("query"), plans.pivot(index="query", columns="setting", values="text")
    rows = [
        {
            "request": plain(asked.loc[query, "text"]),
            "answer": "\n".join(print_call(tool, given) for tool, given in asked.loc[query, "calls"]),
            **{setting_label(name): wide.loc[query, name] for name in SETTINGS[1:]},
        }
        for query in list(dict.fromkeys(plans["query"]))[:: max(1, plans["query"].nunique() // n)][:n]
    ]
    caption = f"{len(rows)} requests of WorkBench, their answers and the planner's plans."
    return Table(pd.DataFrame(rows), caption, code_columns=("answer", *map(setting_label, SETTINGS[1:])))
