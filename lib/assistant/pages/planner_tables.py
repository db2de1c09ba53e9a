"""The tables of notebook 07_planner."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pandas as pd

from lib.assistant.needs import KINDS
from lib.assistant.pages.planner import MEASURED, OURS, SHORT, over_topics
from lib.assistant.plan_comparison import WITH_CONTEXT, needs_no_argument
from lib.assistant.planner import ALONE_BY_RANKER, BY_RANKER, METRICS, SETTINGS
from lib.assistant.plans import CAUSES
from lib.workbook.cases import case_address
from lib.workbook.display import Table, interval, p_text

# Settings with retrieved tools, those without context first.
BY_RETRIEVER = ("rag", ALONE_BY_RANKER, "context_tuned_rag", BY_RANKER)


def _cells(summary: pd.DataFrame, metric: str) -> tuple[list[str], list[float]]:
    """Ours, with intervals, and the published values of one metric, setting by setting."""
    rows = summary[summary["metric"] == metric].set_index("setting").loc[list(SETTINGS)]
    return [interval(*row) for row in rows[["value", "ci_low", "ci_high"]].to_numpy()], rows["published"].tolist()


def plan_cases(columns: Iterable[str], **filters: str) -> dict[str, list[str]]:
    """{column: for each setting, a row each, the address of the queries planned in it}."""
    rows = [case_address("queries", **filters, setting=setting) for setting in SETTINGS]
    return dict.fromkeys(columns, rows)


def by_setting(plans: pd.DataFrame, columns: Mapping) -> pd.DataFrame:
    """One row a setting; each column is what its function says of the setting's plans."""
    rows = [
        {"setting": SHORT[setting]} | {name: of(plans[plans["setting"] == setting]) for name, of in columns.items()}
        for setting in SETTINGS
    ]
    return pd.DataFrame(rows)


def table_3(summary: pd.DataFrame, n: int) -> Table:
    """Table 3, ours beside published.

    Args:
        summary: see `lib.assistant.plan_comparison.summary`.
        n: queries in each setting.
    """
    columns: dict[str, list] = {"setting": list(SHORT.values())}
    for metric in METRICS:
        columns[f"{MEASURED[metric]}, ours"], columns[f"{MEASURED[metric]}, paper"] = _cells(summary, metric)
    columns["executed right, ours"] = _cells(summary, "executed")[0]
    caption = f"Table 3, ours beside published, percent of {n} queries (published: 936), with 95% intervals."
    return Table(pd.DataFrame(columns), caption, cases=plan_cases(name for name in columns if name.endswith("ours")))


def by_our_ranker(summary: pd.DataFrame, shown: pd.Series, n: int) -> Table:
    """Retrieved tools by search and by our ranker, in the same measures.

    Args:
        summary: see `lib.assistant.plan_comparison.summary`, of the settings with retrieved tools.
        shown: by setting, percent of the prompts that show all right tools.
        n: queries in each setting.
    """
    names = {name: (SHORT | OURS)[name] for name in BY_RETRIEVER}
    columns: dict[str, list] = {
        "setting": list(names.values()),
        "right tools shown": shown.loc[list(names)].tolist(),
    }
    for metric in ("ast_accuracy", "right_api", "arguments"):
        rows = summary[summary["metric"] == metric].set_index("setting").loc[list(names)]
        columns[MEASURED[metric]] = [interval(*row) for row in rows[["value", "ci_low", "ci_high"]].to_numpy()]
    caption = f"Tools by search, as in the paper, and by our ranker: percent of {n} queries with 95% intervals."
    return Table(pd.DataFrame(columns), caption, decimals=1)


def retriever_tests(compared: pd.DataFrame, n: int) -> Table:
    """The differences behind `by_our_ranker`.

    Args:
        compared: see `lib.assistant.plan_comparison.contrasts`.
    """
    names = SHORT | OURS
    rows = {
        "first": compared["a"].map(names),
        "second": compared["b"].map(names),
        "measure": compared["metric"].map(MEASURED),
        "first − second": [interval(*row) for row in compared[["difference", "ci_low", "ci_high"]].to_numpy()],
        "queries that differ": compared["differing"],
        "p": [p_text(p) for p in compared["p_value"]],
    }
    return Table(pd.DataFrame(rows), f"The same {n} queries, points.", decimals=0)


def behind_table_3(summary: pd.DataFrame, prompts: pd.DataFrame, n: int) -> Table:
    """The right API, what a prompt spells out, calls of tools not shown, and the length of prompts.

    Args:
        prompts: columns setting, tokens.
    """
    columns: dict[str, list] = {"setting": list(SHORT.values())}
    for metric in ("right_api", "answerable", "outside_shown"):
        columns[MEASURED[metric]] = _cells(summary, metric)[0]
    lengths = prompts.groupby("setting")["tokens"].mean().loc[list(SETTINGS)]
    columns["tokens of a prompt"] = [round(mean) for mean in lengths]
    caption = f"What stands behind Table 3, percent of {n} queries."
    return Table(pd.DataFrame(columns), caption, cases=plan_cases([*columns][1:4]))


def parts_of_accuracy(plans: pd.DataFrame, gold: pd.DataFrame, n: int) -> Table:
    """Is the API right, and are the arguments, given that it is?"""
    bare = needs_no_argument(gold)
    columns = {
        "right API": lambda part: over_topics(part, "right_api"),
        "plans with the right API": lambda part: int((part["right_api"] > 0).sum()),
        "AST, of plans with the right API, %": lambda part: over_topics(part[part["right_api"] > 0], "ast_accuracy"),
        "answerable": lambda part: part["answerable"].mean(),
        "AST, of answerable prompts, %": lambda part: over_topics(part[part["answerable"] > 0], "ast_accuracy"),
        "right, not answerable": lambda part: int(((part["answerable"] == 0) & (part["ast_accuracy"] > 0)).sum()),
        "AST where arguments are due": lambda part: over_topics(part[~bare[part["query"]].to_numpy()], "ast_accuracy"),
    }
    caption = f"Right API, and right arguments given it: percent of {n} queries or of the part named."
    return Table(by_setting(plans, columns), caption, decimals=1, cases=plan_cases(columns))


def floors(compared: pd.DataFrame, n: int) -> Table:
    """The planner beside its floors (see `lib.assistant.plan_comparison.against_floors`)."""
    frame = pd.DataFrame(
        {
            "setting": compared["setting"].map(SHORT),
            "planner": compared["of_planner"],
            "floor": compared["floor"],
            "of the floor": compared["of_floor"],
            "difference, points": [interval(*row) for row in compared[["difference", "ci_low", "ci_high"]].to_numpy()],
            "p": [p_text(p, 3) for p in compared["p_value"]],
        }
    )
    caption = f"AST accuracy of the planner and of floors without a language model, percent of {n} queries."
    return Table(frame, caption, decimals=1)


def kinds_and_needs(named: pd.DataFrame) -> Table:
    """Scores by kind of query and by whether the planner saw the need in training.

    Args:
        named: judged plans with the columns persona, need, kind and held_out (bool).
    """
    parts = {f"kind: {kind}": named["kind"] == kind for kind in KINDS}
    parts |= {"needs seen in training": ~named["held_out"], "needs held out": named["held_out"]}
    settings = {name: SHORT[name] for name in ("rag", *WITH_CONTEXT)}
    rows = []
    for name, chosen in parts.items():
        row = {"queries": name, "n": int((chosen & (named["setting"] == "rag")).sum())}
        for setting, short in settings.items():
            part = named[chosen & (named["setting"] == setting)]
            row |= {
                f"API, {short}": over_topics(part, "right_api"),
                f"AST, {short}": over_topics(part, "ast_accuracy"),
            }
        rows.append(row)
    caption = "Right API and AST accuracy by kind of query and by whether the need was learned, percent."
    cases = {
        f"{what}, {short}": [
            case_address("queries", kind=name.removeprefix("kind: "), setting=setting) if "kind" in name else ""
            for name in parts
        ]
        for setting, short in settings.items()
        for what in ("API", "AST")
    }
    return Table(pd.DataFrame(rows), caption, cases=cases)


def thought(compared: pd.DataFrame, n: int, writer: str) -> Table:
    """A chain of thought in the prompt (see `lib.assistant.plan_comparison.effect_of_thought`)."""
    frame = pd.DataFrame(
        {
            "metric": compared["metric"].map(MEASURED),
            "without CoT": compared["without"],
            "with CoT": compared["with"],
            "difference, points": [interval(*row) for row in compared[["difference", "ci_low", "ci_high"]].to_numpy()],
            "p": [p_text(p, 3) for p in compared["p_value"]],
        }
    )
    caption = f"A chain of thought in the prompt ({writer}, distilled), percent of {n} queries."
    return Table(frame, caption, decimals=1)


def two_calls(ways: Mapping[str, pd.DataFrame]) -> Table:
    """Plans of two calls, by setting and way.

    Args:
        ways: see `lib.assistant.plan_comparison.two_call_plans`, by how they were planned, at once first.
    """
    columns = {
        "n": len,
        "first call right": lambda part: 100 * part["first_right"].mean(),
        "both calls right": lambda part: part["ast_accuracy"].mean(),
        "APIs of both right": lambda part: part["right_api"].mean(),
        "two calls written": lambda part: 100 * part["pair"].mean(),
        "both right, where two were written at once": lambda part: part.loc[part["fair"], "ast_accuracy"].mean(),
    }
    first = next(iter(ways.values()))
    written = pd.MultiIndex.from_frame(first.loc[first["pair"], ["query", "setting"]])
    ways = {
        how: part.assign(fair=pd.MultiIndex.from_frame(part[["query", "setting"]]).isin(written))
        for how, part in ways.items()
    }
    settings = [setting for setting in SETTINGS if any(setting in set(part["setting"]) for part in ways.values())]
    rows = [
        {"setting": SHORT[setting], "planned": how}
        | {name: of(part[part["setting"] == setting]) for name, of in columns.items()}
        for setting in settings
        for how, part in ways.items()
    ]
    caption = "Queries that need two calls, percent of n; last column: where two were written at once."
    return Table(pd.DataFrame(rows), caption, decimals=1)


def examples(plans: pd.DataFrame, queries: pd.DataFrame, gold: pd.DataFrame, seed: int) -> Table:
    """Up to two right and two wrong plans of each setting that shows tools and items, drawn with the seed."""
    settings = plans["setting"].isin(["context_tuned_rag", "context_tuned_upper_bound"])
    groups = plans[settings].groupby(["setting", plans["failure"].eq("")], sort=False)
    drawn = pd.concat([part.sample(min(2, len(part)), random_state=seed) for _, part in groups])
    frame = pd.DataFrame(
        {
            "setting": drawn["setting"].map(SHORT),
            "request": drawn["query"].map(queries.set_index("query")["text"]),
            "plan": drawn["text"],
            "gold plan": drawn["query"].map(gold.set_index("query")["plan"]),
            "verdict": drawn["failure"].map(CAUSES).fillna("right"),
        }
    )
    return Table(frame, "A few plans beside the gold ones.", text_columns=["request", "plan", "gold plan"])
