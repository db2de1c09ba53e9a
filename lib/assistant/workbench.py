"""WorkBench: 690 requests to an office assistant, the calls that answer them, and the items that these calls name.

Styles et al. 2024 (arXiv:2405.00823), MIT; `data/README.md` says how to get it. A request's relevant items are those
whose id its answer names, its right tools those that the answer calls:

    Delete my last email from nadia        email.delete_email.func(email_id="00000479")

Everybody asks about the same mails, meetings, tasks and customers. There is no log of what a user opened, so that a
method which needs one cannot be asked. Requests are made from templates, ten from each, and cluster by these.

The planner that comes with the project learned from this workbook's personas and has seen none of these. A prompt shows
WorkBench's functions as signatures, and as context items with their ids and the people that the request names:

    Request (Thursday 2023-11-30 00:00, office): Delete my last email from nadia
    Context:
    Email: email_id 00000479. inbox. nadia.moreau@atlas.com. …
    Contact: Nadia Moreau, nadia.moreau@atlas.com
    Tools:
    email.delete_email(email_id)

Plans are judged by AST match: the same calls with the same values. Where an answer has several calls, all are wanted.
"""

from __future__ import annotations

import ast
import csv
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from lib.assistant.planner import names_person
from lib.assistant.plans import api_names, ast_match, hallucinated
from lib.assistant.prompts import planner_prompt
from lib.assistant.queries import print_call
from lib.assistant.toolbox import DEFAULT_API, Toolbox, signature
from lib.evaluation.comparison import per_query_scores, random_order_scores
from lib.retrieval.dense import encode
from lib.retrieval.fusion import fuse_runs
from lib.retrieval.stores import bm25t_scores, candidate_pairs, cosine_of_pairs, rank_pairs
from lib.workbook.inputs import InputError, one_line, read_text

SOURCE = "https://github.com/olly-styles/WorkBench"
ANSWERS = "queries_and_answers"


class StoredApp(NamedTuple):
    """`name` for readers; `file` and `key` of its items; `title` and `text`: the columns that say what an item is."""

    name: str
    file: str
    key: str
    title: str
    text: Sequence[str]


APPS = {
    "email": StoredApp("Email", "emails.csv", "email_id", "subject",
                       ["inbox/outbox", "sender/recipient", "subject", "sent_datetime", "body"]),
    "calendar": StoredApp("Calendar", "calendar_events.csv", "event_id", "event_name",
                          ["event_name", "participant_email", "event_start", "duration"]),
    "project_management": StoredApp("Project Management", "project_tasks.csv", "task_id", "task_name",
                                    ["task_name", "assigned_to_email", "list_name", "due_date", "board"]),
    "customer_relationship_manager": StoredApp(
        "Customer Relationship Manager", "customer_relationship_manager_data.csv", "customer_id", "customer_name",
        ["customer_name", "assigned_to_email", "customer_email", "customer_phone", "last_contact_date",
         "product_interest", "status", "follow_up_by", "notes"]),
}  # fmt: skip
TOPICS = ("analytics", "calendar", "customer_relationship_manager", "email", "multi_domain", "project_management")
ANSWER_FILES = [f"{topic}_queries_and_answers.csv" for topic in TOPICS]
FILES = [*(app.file for app in APPS.values()), *(f"{ANSWERS}/{name}" for name in ANSWER_FILES)]
CUTOFFS, TOOL_CUTOFFS = (3, 5, 10), (1, 3, 5)
SCORES = ["query", "template", "method", "metric", "k", "value"]
_CALL = re.compile(r"(\w+)\.(\w+)\.func")


class WorkBench(NamedTuple):
    """`items`: item, app, title, text. `queries`: query, template, text, calls (of the answer: tool and arguments).
    `relevant`: query, item, one row an item that the answer names. `tools`: item (`email.delete_email`), app, text.
    `called`: query, item (of a tool)."""

    items: pd.DataFrame
    queries: pd.DataFrame
    relevant: pd.DataFrame
    tools: pd.DataFrame
    called: pd.DataFrame


def absent_sentence(root: Path, folder: str) -> str:
    """Says how to get the data where files are missing from `folder`, relative to the project or absolute; empty where
    all are there."""
    missing = [name for name in FILES if not (root / folder / name).is_file()]
    if not missing:
        return ""
    named = missing[0] if len(missing) == 1 else f"{missing[0]} and {len(missing) - 1} more files"
    return (
        f"WorkBench is not here, so that nothing was measured on it: {folder} lacks {named}; get the data from "
        f"{SOURCE} (folder data/processed), or name their folder in workbench_folder."
    )


def read_workbench(folder: str | Path) -> WorkBench:
    """The benchmark in a folder that has all of `FILES`.

    Raises:
        InputError: a file is missing or lacks a column, an id stands twice, an answer is no list of calls or names an
            item that is not there; one sentence that names file and row.
    """
    folder = Path(folder)
    items = pd.concat([_read_items(folder, key, app) for key, app in APPS.items()], ignore_index=True)
    known, queries, relevant, called = set(items["item"]), [], [], []
    arguments: dict[str, list[str]] = {}
    for name in ANSWER_FILES:
        path = folder / ANSWERS / name
        for row, record in enumerate(_read_rows(path, ["query", "answer", "base_template"]), start=1):
            query, where = f"{name.removesuffix('_queries_and_answers.csv')}-{row}", f"{path}, row {row}"
            calls = _calls(record["answer"], where)
            named = list(dict.fromkeys(item for call in calls for item in _named(*call)))
            unknown = [item for item in named if item not in known]
            if unknown:
                raise InputError(f"{where}: answer: no item {one_line(unknown[0], 80)}")
            queries.append((query, record["base_template"], record["query"], calls))
            relevant += [(query, item) for item in named]
            called += [(query, tool) for tool in dict.fromkeys(tool for tool, _ in calls)]
            for tool, given in calls:
                arguments.setdefault(tool, list(given))
    return WorkBench(
        items,
        pd.DataFrame(queries, columns=["query", "template", "text", "calls"]),
        pd.DataFrame(relevant, columns=["query", "item"]),
        _tools(arguments),
        pd.DataFrame(called, columns=["query", "item"]),
    )


def _read_rows(path: Path, columns: Sequence[str]) -> list[dict[str, str]]:
    """The rows of a CSV file, all of it text."""
    reader = csv.DictReader(read_text(path).splitlines(keepends=True))
    try:
        rows = list(reader)
    except csv.Error as error:
        raise InputError(f"{path}, line {reader.line_num}: {error}") from error
    lacking = [name for name in columns if name not in (reader.fieldnames or [])]
    if lacking:
        raise InputError(f"{path}: no column {lacking[0]}")
    for number, row in enumerate(rows, start=1):
        if any(row[name] is None for name in columns):
            raise InputError(f"{path}, row {number}: a field is missing")
    return rows


def _read_items(folder: Path, key: str, app: StoredApp) -> pd.DataFrame:
    """Items of an app; an id is the app's and the file's, since two apps may have the same."""
    path = folder / app.file
    rows = _read_rows(path, [app.key, *app.text])
    frame = pd.DataFrame(
        {
            "item": [f"{key}-{row[app.key]}" for row in rows],
            "app": key,
            "title": [row[app.title] for row in rows],
            "text": [". ".join(filter(None, (row[name].strip() for name in app.text))) for row in rows],
        }
    )
    twice = frame["item"][frame["item"].duplicated()]
    if len(twice):
        raise InputError(f"{path}: {app.key}: {one_line(twice.iloc[0], 80)} stands twice")
    return frame


def _calls(answer: str, where: str) -> list[tuple[str, dict[str, object]]]:
    """(tool, its arguments) of every call of an answer, which is read and never run."""
    try:
        calls = ast.literal_eval(answer)
        parsed = [ast.parse(call, mode="eval").body for call in calls]
        read = [(_tool(call), {word.arg: ast.literal_eval(word.value) for word in call.keywords}) for call in parsed]
    except (ValueError, TypeError, AttributeError, SyntaxError, RecursionError, MemoryError):
        raise InputError(f"{where}: answer: no list of calls such as email.delete_email.func(email_id='1')") from None
    return read


def _tool(call) -> str:
    found = _CALL.fullmatch(ast.unparse(call.func))
    if not found or call.args:
        raise ValueError
    return f"{found[1]}.{found[2]}"


def _named(tool: str, arguments: Mapping[str, object]) -> list[str]:
    """The item that a call names, if it names one."""
    app = tool.split(".")[0]
    key = APPS[app].key if app in APPS else ""
    return [f"{app}-{arguments[key]}"] if key in arguments else []


def _tools(arguments: Mapping[str, Sequence[str]]) -> pd.DataFrame:
    """All that the data say of their tools: app, name and arguments of those that any answer calls."""
    rows = []
    for tool in sorted(arguments):
        app, _, name = tool.partition(".")
        said, given = (APPS[app].name if app in APPS else app.title()), ", ".join(arguments[tool])
        rows.append((tool, app, f"{said}: {name} ({given})".replace("_", " ")))
    return pd.DataFrame(rows, columns=["item", "app", "text"])


# ---------------------------------------------------------------- context and tools


def ranked_by_cosine(
    queries: pd.DataFrame, documents: pd.DataFrame, encoder, texts: Sequence[str] | None = None
) -> pd.DataFrame:
    """All documents ranked for each query by the cosine under an encoder: query, item, rank, score.

    Args:
        queries: columns query, text.
        documents: columns item, text.
        texts: searched for in place of the queries' own.
    """
    pairs = candidate_pairs(queries.assign(all="all"), documents.assign(all="all"), "all")
    asked = encode(encoder, queries["text"].tolist() if texts is None else list(texts))
    return rank_pairs(pairs, cosine_of_pairs(pairs, asked, encode(encoder, documents["text"].tolist())))


def context_runs(bench: WorkBench, queries: pd.DataFrame, encoders: Mapping[str, object]) -> dict[str, pd.DataFrame]:
    """All items ranked for each query: by BM25T, by cosine under each encoder, and by RRF of BM25T and `semantic`.

    Args:
        queries: rows of `bench.queries`.
        encoders: {method: encoder}, `semantic` among them.
    """
    asked, items = queries.assign(all="all"), bench.items.assign(all="all")
    pairs = candidate_pairs(asked, items, "all")
    runs = {"bm25t": rank_pairs(pairs, bm25t_scores(pairs, asked, items, ["all"]))}
    runs |= {method: ranked_by_cosine(queries, bench.items, encoder) for method, encoder in encoders.items()}
    return runs | {"rrf_text": fuse_runs([runs["bm25t"], runs["semantic"]])[["query", "item", "rank", "score"]]}


def context_scores(bench: WorkBench, runs: Mapping[str, pd.DataFrame], seed: int) -> pd.DataFrame:
    """Scores of the queries whose answer names an item, columns `SCORES`, in percent; `random` is the floor."""
    names = bench.queries.loc[bench.queries["query"].isin(bench.relevant["query"]), "query"].tolist()
    scores = per_query_scores(runs, bench.relevant, names, CUTOFFS)
    n_relevant = bench.relevant["query"].value_counts().loc[names].to_numpy()
    floor = random_order_scores([len(bench.items)] * len(names), n_relevant, CUTOFFS, seed=seed)
    return _in_rows(scores.join(floor.set_axis(scores.index)), bench)


def tool_scores(bench: WorkBench, context: pd.DataFrame, encoder, seed: int) -> pd.DataFrame:
    """Recall of the tools that an answer calls, columns `SCORES`, searched for with the query alone and with context,
    of the queries whose answer names an item.

    Context is the name of an app: of the first item that `context` ranks (`query_plus_semantic_context`), of an item
    drawn at random, of the relevant items (`oracle_context`).

    Args:
        context: a ranking of the items, for every query with a call.
        encoder: that reads queries and tools.
        seed: of the draw.
    """
    asked = bench.queries[bench.queries["calls"].map(len) > 0].reset_index(drop=True)
    names = bench.items.set_index("item")["app"].map({key: app.name for key, app in APPS.items()})
    first = context[context["rank"] == 1].set_index("query")["item"].map(names)
    drawn = np.random.default_rng(seed).choice(names.to_numpy(), size=len(asked))
    relevant = bench.relevant.assign(app=bench.relevant["item"].map(names)).drop_duplicates(["query", "app"])
    added = {
        "query_only": pd.Series("", index=asked.index),
        "query_plus_semantic_context": asked["query"].map(first),
        "query_plus_random_context": pd.Series(drawn, index=asked.index),
        "oracle_context": asked["query"].map(relevant.groupby("query")["app"].agg(", ".join)).fillna(""),
    }
    runs = {
        setting: ranked_by_cosine(asked, bench.tools, encoder, (asked["text"] + " " + words).str.strip())
        for setting, words in added.items()
    }
    named = asked.loc[asked["query"].isin(bench.relevant["query"]), "query"].tolist()
    scores = per_query_scores(runs, bench.called, named, TOOL_CUTOFFS)
    return _in_rows(scores.xs("recall", axis=1, level="metric", drop_level=False), bench)


def _in_rows(scores: pd.DataFrame, bench: WorkBench) -> pd.DataFrame:
    """Scores in long form with the templates that they cluster by."""
    rows = scores.melt(ignore_index=False, value_name="value").reset_index()
    return rows.merge(bench.queries[["query", "template"]], on="query")[SCORES]


# ---------------------------------------------------------------- plans

NOW = "Thursday 2023-11-30 00:00, office"  # the day that the data's answers are given on; they say no place
SHOWN_TOOLS, SHOWN_ITEMS = 10, 3
ASKED_SETTINGS = ("rag", "context_tuned_rag", "context_tuned_upper_bound")
TEMPLATE = "template"  # writes without a model
MOST_TOKENS = 96  # of a plan
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


def one_a_template(bench: WorkBench, n: int, seed: int) -> pd.DataFrame:
    """One request of each of `n` templates whose answer has a call (of all where there are no more), drawn without a
    look at the answers otherwise; requests of different templates count as independent."""
    asked = bench.queries[bench.queries["calls"].map(len) > 0]
    one = asked.sample(frac=1, random_state=seed).drop_duplicates("template")
    return one.head(n).sort_index().reset_index(drop=True)


def context_lines(bench: WorkBench, request: str, items: Sequence[str]) -> list[str]:
    """One line an item, with its id, then one for each person whom the request names and whose address stands in any
    item, such as nadia.moreau@atlas.com."""
    texts, lines = dict(zip(bench.items["item"], bench.items["text"], strict=True)), []
    for item in items:
        app, _, number = item.rpartition("-")
        lines.append(f"{APPS[app].name}: {APPS[app].key} {number}. {texts[item]}")
    found = (match for text in bench.items["text"] for match in _ADDRESS.finditer(text))
    people = {f"{match[1].title()} {match[2].title()}": match[0].lower() for match in found}
    return lines + [f"Contact: {name}, {address}" for name, address in people.items() if names_person(request, name)]


def plan_prompts(
    bench: WorkBench, asked: pd.DataFrame, toolbox: Toolbox, tools: pd.DataFrame, context: pd.DataFrame
) -> pd.DataFrame:
    """What the planner is asked in each of `ASKED_SETTINGS`.

    Args:
        asked: rows of `bench.queries`.
        toolbox: of `functions_of`.
        tools, context: rankings (query, item, rank) of tools and of items.

    Returns:
        query, template, method (the setting), tools, items (lists of names; None where none is shown), prompt.
        Retrieved tools come best first, with `default` last; the right ones, an upper bound, in the order of their
        names.
    """
    signatures = {function["name"]: signature(function) for function in toolbox.functions}
    signatures[DEFAULT_API] = f"{DEFAULT_API}()"
    first = {
        name: ranking[ranking["rank"] <= most].sort_values(["query", "rank"]).groupby("query")["item"].agg(list)
        for name, ranking, most in (("tools", tools, SHOWN_TOOLS), ("items", context, SHOWN_ITEMS))
    }
    relevant = bench.relevant.groupby("query")["item"].agg(sorted)
    rows = []
    for query in asked.itertuples():
        found = [*first["tools"][query.query], DEFAULT_API]
        gold = sorted({tool for tool, _ in query.calls}), list(relevant.get(query.query, []))
        shown = dict(zip(ASKED_SETTINGS, [(found, None), (found, first["items"][query.query]), gold], strict=True))
        for setting, (names, items) in shown.items():
            lines = None if items is None else context_lines(bench, query.text, items)
            text = planner_prompt(query.text, NOW, [signatures[name] for name in names], lines)
            rows.append((query.query, query.template, setting, names, items, text))
    return pd.DataFrame(rows, columns=["query", "template", "method", "tools", "items", "prompt"])


def template_plans(prompted: pd.DataFrame, toolbox: Toolbox) -> pd.DataFrame:
    """A floor that asks no model: the first tool found that belongs to the app of the first item found, with that
    item's id as its id; the first tool without arguments where there is none.

    Args:
        prompted: of `plan_prompts`.

    Returns:
        the rows of the setting with retrieved context, method `TEMPLATE`, with text.
    """
    rows = prompted[prompted["method"] == "context_tuned_rag"]
    texts = []
    for tools, items in zip(rows["tools"], rows["items"], strict=True):
        app, _, number = (items or ["-"])[0].rpartition("-")
        key = APPS[app].key if app in APPS else ""
        fits = [tool for tool in tools if tool in toolbox and key and key in toolbox[tool].arguments]
        texts.append(print_call(fits[0], {key: number}) if fits else print_call(tools[0], {}))
    return rows.assign(method=TEMPLATE, text=texts)


def plan_scores(plans: pd.DataFrame, bench: WorkBench, toolbox: Toolbox) -> pd.DataFrame:
    """Plans by the calls of WorkBench's answers, each value the only acceptable one: columns `SCORES` (K 1), 0 or 100:
    `ast_accuracy` (right by AST match), `right_api` (calls the right tools, each as often), `unparsed`, `hallucination`
    (calls a tool that is not there).

    Args:
        plans: columns query, template, method, text.
    """
    calls, known = bench.queries.set_index("query")["calls"], {function["name"] for function in toolbox.functions}
    rows = []
    for plan in plans.itertuples():
        wanted = calls[plan.query]
        answers = [{name: {key: [_acceptable(value)] for key, value in given.items()}} for name, given in wanted]
        match = ast_match(plan.text, answers, toolbox.functions)
        found = {
            "ast_accuracy": bool(match),
            "right_api": sorted(api_names(plan.text)) == sorted(tool for tool, _ in wanted),
            "unparsed": match.category == "unparsed",
            "hallucination": hallucinated(plan.text, known),
        }
        rows += [(plan.query, plan.template, plan.method, metric, 1, 100.0 * hit) for metric, hit in found.items()]
    return pd.DataFrame(rows, columns=SCORES)


def _acceptable(value: object) -> object:
    """A value of an answer in the Berkeley format: those of a dict are lists of acceptable ones."""
    if isinstance(value, dict):
        return {key: [_acceptable(part)] for key, part in value.items()}
    return [_acceptable(part) for part in value] if isinstance(value, list) else value
