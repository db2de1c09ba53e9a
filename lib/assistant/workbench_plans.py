"""WorkBench's requests asked of the planner that comes with the project, its plans judged by WorkBench's answers.

The planner learned from this workbook's personas and tools and has seen none of these. A prompt shows WorkBench's
functions as signatures, and as context items with their ids and the people that the request names:

    Request (Thursday 2023-11-30 00:00, office): Delete my last email from nadia
    Context:
    Email: email_id 00000479. inbox. nadia.moreau@atlas.com. …
    Contact: Nadia Moreau, nadia.moreau@atlas.com
    Tools:
    email.delete_email(email_id)

Plans are judged by AST match: the same calls with the same values. Where an answer has several calls, all are wanted.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from lib.assistant.parts import SIZES, name_of
from lib.assistant.planner import names_person
from lib.assistant.planner_training import PLANNER
from lib.assistant.plans import Answers, Call, api_names, ast_match, hallucinated
from lib.assistant.prompts import planner_prompt
from lib.assistant.queries import print_call
from lib.assistant.toolbox import DEFAULT_API, Toolbox, signature
from lib.assistant.workbench import APPS, WorkBench
from lib.evaluation.inference import percent
from lib.generation.local import LocalModel, fingerprint
from lib.generation.models import locate
from lib.retrieval.dense import encode
from lib.retrieval.stores import candidate_pairs, cosine_of_pairs, rank_pairs
from lib.workbook.parts import shipped

NOW = "Thursday 2023-11-30 00:00, office"  # the day that the data's answers are given on; they say no place
SHOWN_TOOLS, SHOWN_ITEMS = 10, 3
SETTINGS = ("rag", "context_tuned_rag", "context_tuned_upper_bound")
TEMPLATE = "template"  # writes without a model
MEASURES = {
    "right": "right by AST match",
    "tools": "calls the right tools",
    "unparsed": "does not parse",
    "made_up": "calls a tool that is not there",
}
MOST_TOKENS = 96  # of a plan
PLANS = ["query", "template", "setting", "text", *MEASURES, "category"]
RATES = ["setting", "measure", "value", "ci_low", "ci_high", "n"]
_ADDRESS = re.compile(r"\b([a-z]+)\.([a-z]+)@[\w.]+\w", re.IGNORECASE)


def functions_of(bench: WorkBench) -> list[dict]:
    """WorkBench's functions as OpenAI-style definitions, by all that the data say of them: app, name and arguments.
    Required are those that every call has. `Toolbox.from_functions` reads them."""
    called: dict[str, list[Mapping]] = {}
    for calls in bench.queries["calls"]:
        for tool, arguments in calls:
            called.setdefault(tool, []).append(arguments)
    definitions = []
    for tool, described in zip(bench.tools["item"], bench.tools["text"], strict=True):
        names = list(dict.fromkeys(name for arguments in called[tool] for name in arguments))
        required = [name for name in names if all(name in arguments for arguments in called[tool])]
        properties = {name: {"type": "string", "description": name.replace("_", " ")} for name in names}
        text = described.partition(" (")[0]
        parameters = {"type": "object", "properties": properties, "required": required}
        definitions.append({"name": tool, "description": text, "parameters": parameters})
    return definitions


def sample(bench: WorkBench, n: int, seed: int) -> pd.DataFrame:
    """One request of each of `n` templates whose answer has a call (of all where there are no more), drawn without a
    look at the answers otherwise; requests of different templates count as independent."""
    asked = bench.queries[bench.queries["n_calls"] > 0]
    one = asked.sample(frac=1, random_state=seed).drop_duplicates("template")
    return one.head(n).sort_index().reset_index(drop=True)


def contacts(bench: WorkBench) -> dict[str, str]:
    """{name: address} of everybody whose address stands in an item, such as nadia.moreau@atlas.com."""
    found = (match for text in bench.items["text"] for match in _ADDRESS.finditer(text))
    return {f"{match[1].title()} {match[2].title()}": match[0].lower() for match in found}


def context_lines(texts: Mapping[str, str], people: Mapping[str, str], request: str, items: Sequence[str]) -> list[str]:
    """One line an item, with its id, then one for each person whom the request names.

    Args:
        texts: {item: text}.
        people: of `contacts`.
    """
    lines = []
    for item in items:
        app, _, number = item.rpartition("-")
        lines.append(f"{APPS[app].name}: {APPS[app].key} {number}. {texts[item]}")
    return lines + [f"Contact: {name}, {address}" for name, address in people.items() if names_person(request, name)]


def tool_ranking(asked: pd.DataFrame, tools: pd.DataFrame, encoder, among: str) -> pd.DataFrame:
    """Tools ranked for each request by the cosine under an encoder: query, item (tool), rank, score.

    Args:
        asked: columns query, text and `among`.
        tools: columns item, text and `among`: a request is answered by tools that share its value.
    """
    pairs = candidate_pairs(asked, tools, among)
    texts, documents = (encode(encoder, frame["text"].tolist()) for frame in (asked, tools))
    return rank_pairs(pairs, cosine_of_pairs(pairs, texts, documents))


def planner_of(
    generator: str, quantization: str, root: Path, cache: Path, threads: int
) -> tuple[LocalModel | None, str]:
    """The planner that comes with the project, and an empty text; None, and why not, where it does not fit the model.

    Args:
        generator: name of the base model.
        root: the project's folder.
        cache: folder of answers.
    """
    base = fingerprint(locate(generator), quantization=quantization)
    found = shipped(name_of(PLANNER, SIZES[PLANNER]), base, None, root)
    if not found.folder:
        return None, found.reason
    return LocalModel(generator, adapter=found.folder, cache=cache, threads=threads, quantization=quantization), ""


def prompts(
    bench: WorkBench, asked: pd.DataFrame, toolbox: Toolbox, tools: pd.DataFrame, context: pd.DataFrame
) -> pd.DataFrame:
    """What the planner is asked in each of `SETTINGS`.

    Args:
        asked: rows of `bench.queries`.
        toolbox: of `functions_of`.
        tools, context: rankings (query, item, rank) of tools and of items.

    Returns:
        query, template, setting, tools, items (lists of names; None where none is shown), prompt. Retrieved tools come
        best first, with `default` last; the right ones, an upper bound, in the order of their names.
    """
    signatures = {function["name"]: signature(function) for function in toolbox.functions}
    signatures[DEFAULT_API] = f"{DEFAULT_API}()"
    first = {
        name: ranking[ranking["rank"] <= most].sort_values(["query", "rank"]).groupby("query")["item"].agg(list)
        for name, ranking, most in (("tools", tools, SHOWN_TOOLS), ("items", context, SHOWN_ITEMS))
    }
    relevant = bench.relevant.groupby("query")["item"].agg(sorted)
    texts, people = dict(zip(bench.items["item"], bench.items["text"], strict=True)), contacts(bench)
    rows = []
    for query in asked.itertuples():
        found = [*first["tools"][query.query], DEFAULT_API]
        gold = sorted({tool for tool, _ in query.calls}), list(relevant.get(query.query, []))
        shown = dict(zip(SETTINGS, [(found, None), (found, first["items"][query.query]), gold], strict=True))
        for setting, (names, items) in shown.items():
            lines = None if items is None else context_lines(texts, people, query.text, items)
            text = planner_prompt(query.text, NOW, [signatures[name] for name in names], lines)
            rows.append((query.query, query.template, setting, names, items, text))
    return pd.DataFrame(rows, columns=["query", "template", "setting", "tools", "items", "prompt"])


def template_plans(prompted: pd.DataFrame, toolbox: Toolbox) -> pd.DataFrame:
    """A floor that asks no model: the first tool found that belongs to the app of the first item found, with that
    item's id as its id; the first tool without arguments where there is none.

    Args:
        prompted: of `prompts`.

    Returns:
        the rows of the setting with retrieved context, setting `TEMPLATE`, with text.
    """
    rows = prompted[prompted["setting"] == "context_tuned_rag"]
    texts = []
    for tools, items in zip(rows["tools"], rows["items"], strict=True):
        app, _, number = (items or ["-"])[0].rpartition("-")
        key = APPS[app].key if app in APPS else ""
        fits = [tool for tool in tools if tool in toolbox and key and key in toolbox[tool].arguments]
        texts.append(print_call(fits[0], {key: number}) if fits else print_call(tools[0], {}))
    return rows.assign(setting=TEMPLATE, text=texts)


def judged(plans: pd.DataFrame, bench: WorkBench, toolbox: Toolbox) -> pd.DataFrame:
    """Plans by WorkBench's answers.

    Args:
        plans: columns query, template, setting, text.

    Returns:
        columns `PLANS`, of which the last are those of `Outcome`.
    """
    answers = bench.queries.set_index("query")["calls"]
    rows = [
        (
            plan.query,
            plan.template,
            plan.setting,
            plan.text,
            *outcome(plan.text, answers[plan.query], toolbox.functions),
        )
        for plan in plans.itertuples()
    ]
    return pd.DataFrame(rows, columns=PLANS)


class Outcome(NamedTuple):
    """Of a plan: right by AST match, `tools` (calls the right tools, each as often), unparsed, made_up (calls a tool
    that is not there), and category (of `lib.assistant.plans.CAUSES`; empty where the plan is right)."""

    right: bool
    tools: bool
    unparsed: bool
    made_up: bool
    category: str


def outcome(text: str, calls: Sequence[Call], functions: Sequence[dict]) -> Outcome:
    """A plan by the calls that are wanted, each value the only acceptable one.

    Args:
        functions: OpenAI-style definitions of all tools that there are.
    """
    match = ast_match(text, answers_of(calls), functions)
    same = sorted(api_names(text)) == sorted(tool for tool, _ in calls)
    made_up = hallucinated(text, {function["name"] for function in functions})
    return Outcome(bool(match), same, match.category == "unparsed", made_up, match.category or "")


def rates(plans: pd.DataFrame, measures: Collection[str] = tuple(MEASURES)) -> pd.DataFrame:
    """Each setting's shares in percent, with Wilson's 95% intervals over requests.

    Args:
        plans: columns setting and `measures` (bool).

    Returns:
        setting, measure, value, ci_low, ci_high, n.
    """
    rows = [
        (setting, measure, *map(float, percent(int(part[measure].sum()), len(part))), len(part))
        for setting, part in plans.groupby("setting", sort=False)
        for measure in measures
    ]
    return pd.DataFrame(rows, columns=RATES)


def answers_of(calls: Sequence[Call]) -> Answers:
    """The same calls as gold answers in the Berkeley format: each value is the only acceptable one."""
    return [{name: {key: [_acceptable(value)] for key, value in arguments.items()}} for name, arguments in calls]


def _acceptable(value: object) -> object:
    """A value of an answer: those of a dict are lists of acceptable ones."""
    if isinstance(value, dict):
        return {key: [_acceptable(part)] for key, part in value.items()}
    return [_acceptable(part) for part in value] if isinstance(value, list) else value
