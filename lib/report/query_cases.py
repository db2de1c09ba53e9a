"""The assistant's evaluation queries as the page of cases shows them: labels, rankings, tools, plans.

Frames in, one record of plain lists and dicts out. Items and tools stand in it once; all else names them by position.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from lib.assistant.needs import KINDS
from lib.assistant.plans import CAUSES
from lib.assistant.schemas import APP_NAMES
from lib.workbook.methods import METHODS

SHOWN = 10  # results of a ranking
ONE_DRAW = "random"  # a shuffle, where the tables have what shuffling gives on average


def named(name: str) -> str:
    """A method's name for readers; its own where `METHODS` has none, as `setting/retriever` of tools."""
    return " · ".join(METHODS[part].label if part in METHODS else part for part in str(name).split("/"))


def query_cases(frames: Mapping[str, pd.DataFrame], world: str) -> dict[str, Any]:
    """What `queries.html` shows.

    Args:
        frames: queries, gold and items of notebook 01; where they are there other_plans, cot, tool_rankings, toolbox,
            plans, and under `rankings` the rankings of all methods (columns method, query, item, rank).
        world: its name.

    Returns:
        facets (see `facet`), items (app, title, the rest of the text), tools, methods, settings and tool_settings
        (name, label), causes, queries: one record each, in the order of the frame.
    """
    queries = frames["queries"][frames["queries"]["split"] == "evaluation"]
    asked = queries.merge(frames["gold"].drop(columns="split"), on="query", validate="one_to_one")
    items = frames["items"][frames["items"]["persona"].isin(queries["persona"])].reset_index(drop=True)
    at = pd.Series(items.index, items["item"])
    rankings = only(frames.get("rankings"), asked, ["method", "query", "item", "rank"])
    rankings = rankings[rankings["method"] != ONE_DRAW]
    tool_rankings = only(frames.get("tool_rankings"), asked, ["setting", "query", "item", "rank"])
    plans = only(frames.get("plans"), asked, ["setting", "query", "text", "ast_accuracy", "failure"])
    cot = only(frames.get("cot"), asked, ["query", "writer", "text"])
    methods, settings = in_order(rankings["method"]), in_order(plans["setting"])
    tool_settings = in_order(tool_rankings["setting"])
    apis = sorted({*asked["apis"].explode().dropna(), *tool_rankings["item"]})
    tool_at = pd.Series(range(len(apis)), apis)
    found = first_ranked(rankings, "method", methods, at)
    tools = first_ranked(tool_rankings, "setting", tool_settings, tool_at)
    planned, thoughts = plans_of(plans, settings), thoughts_of(cot)
    others = only(frames.get("other_plans"), asked, ["query", "plan"]).groupby("query")["plan"].agg(list)
    records = [
        {
            "id": row.query,
            "persona": row.persona,
            "text": row.text,
            "when": f"{row.time:%A %Y-%m-%d %H:%M}, {row.place}",
            "kind": row.kind,
            "need": row.need,
            "relevant": [int(at[item]) for item in row.relevant if item in at],
            "apis": list(row.apis),
            "apps": [APP_NAMES.get(app, app) for app in row.apps],
            "plan": row.plan,
            "others": others.get(row.query, []),
            "thoughts": thoughts.get(row.query, []),
            "found": found.get(row.query, {}),
            "tools": tools.get(row.query, {}),
            "plans": planned.get(row.query, {}),
        }
        for row in asked.itertuples()
    ]
    return {
        "page": "queries",
        "world": world,
        "facets": facets(asked, methods, settings, plans, bool(len(cot))),
        "items": [[APP_NAMES.get(row.app, row.app), row.title, rest_of(row)] for row in items.itertuples()],
        "tools": apis,
        "methods": [[name, named(name)] for name in methods],
        "settings": [[name, named(name)] for name in settings],
        "tool_settings": [[name, named(name)] for name in tool_settings],
        "causes": CAUSES,
        "cases": records,
    }


def only(frame: pd.DataFrame | None, asked: pd.DataFrame, columns: list[str]) -> pd.DataFrame:
    """The rows about the queries asked; none where there is no frame."""
    if frame is None or frame.empty:
        return pd.DataFrame(columns=columns)
    return frame[frame["query"].isin(asked["query"])]


def in_order(names: pd.Series) -> list[str]:
    """Each name once, in the order of `METHODS`, those that it lacks last."""
    order = list(METHODS)
    return sorted(names.unique(), key=lambda name: (order.index(name) if name in METHODS else len(order), name))


def rest_of(item: Any) -> str:
    """An item's text without the title it begins with."""
    return item.text.removeprefix(item.title).lstrip(".: ") if item.text.startswith(item.title) else item.text


def first_ranked(
    rankings: pd.DataFrame, column: str, names: list[str], at: pd.Series
) -> dict[str, dict[int, list[int]]]:
    """{query: {position of the method or setting: positions of its first `SHOWN` results, best first}}."""
    rows = rankings[(rankings["rank"] <= SHOWN) & rankings["item"].isin(at.index)].sort_values("rank")
    rows = rows.assign(number=at.loc[rows["item"]].to_numpy(), which=rows[column].map(names.index))
    found: dict[str, dict[int, list[int]]] = {}
    for (query, which), part in rows.groupby(["query", "which"], sort=True)["number"]:
        found.setdefault(query, {})[int(which)] = part.tolist()
    return found


def plans_of(plans: pd.DataFrame, settings: list[str]) -> dict[str, dict[int, list]]:
    """{query: {position of the setting: [plan, right, exact match, hallucination, cause, why]}}; 0 or 1 each, or None
    where it was not judged."""
    found: dict[str, dict[int, list]] = {}
    for row in plans.to_dict("records"):
        judged = [flag(row.get(name)) for name in ("ast_accuracy", "exact_match", "hallucination")]
        told = [said(row["text"]), *judged, said(row["failure"]), said(row.get("why"))]
        found.setdefault(row["query"], {})[settings.index(row["setting"])] = told
    return found


def flag(value: float | None) -> int | None:
    """A percentage of one case as 0 or 1; None where it is missing."""
    return None if value is None or value != value else int(value > 0)


def said(value: Any) -> str:
    """A text; empty where it is missing."""
    return value if isinstance(value, str) else ""


def thoughts_of(cot: pd.DataFrame) -> dict[str, list[list[str]]]:
    """{query: [[writer, chain of thought]]}."""
    found: dict[str, list[list[str]]] = {}
    for row in cot.itertuples():
        found.setdefault(row.query, []).append([named(row.writer), said(row.text)])
    return found


def facet(name: str, label: str, options: list[list[str]], group: str) -> dict[str, Any]:
    """A filter as a select: its name in the address, its label, its options (value, label), and where it stands."""
    return {"name": name, "label": label, "options": options, "group": group}


def facets(
    asked: pd.DataFrame, methods: list[str], settings: list[str], plans: pd.DataFrame, thoughts: bool
) -> list[dict[str, Any]]:
    """The filters that this world and these methods have."""
    kinds = [kind for kind in KINDS if kind in set(asked["kind"])]
    needs, apis = sorted(asked["need"].unique()), sorted(asked["apis"].explode().dropna().unique())
    found = [
        facet("kind", "Kind", [[kind, kind] for kind in kinds], "Query"),
        facet("need", "Need", [[need, need.replace("_", " ")] for need in needs], "Query"),
        facet("tool", "Right tool", [[api, api] for api in apis], "Query"),
    ]
    if thoughts:
        found.append(facet("sample", "Sample", [["cot", "with chains of thought"]], "Query"))
    if methods:
        outcomes = [["all", "all of them"], ["some", "some of them"], ["none", "none of them"]]
        found += [
            facet("method", "Method", [[name, named(name)] for name in methods], "Context found"),
            facet("k", "Among the first", [[str(k), str(k)] for k in (1, 3, 5, SHOWN)], "Context found"),
            facet("found", "Relevant items found", outcomes, "Context found"),
        ]
    if settings:
        causes = [[name, words] for name, words in CAUSES.items() if name in set(plans["failure"])]
        found += [
            facet("setting", "Setting", [[name, named(name)] for name in settings], "Plan"),
            facet("right", "Right", [["yes", "right"], ["no", "wrong"]], "Plan"),
            facet("cause", "What is wrong", causes, "Plan"),
        ]
    return found
