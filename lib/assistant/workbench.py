"""WorkBench: 690 requests to an office assistant, the calls that answer them, and the items that these calls name.

Styles et al. 2024 (arXiv:2405.00823), MIT; `data/README.md` says how to get it. A request's relevant items are those
whose id its answer names, its right tools those that the answer calls:

    Delete my last email from nadia        email.delete_email.func(email_id="00000479")

Everybody asks about the same mails, meetings, tasks and customers. There is no log of what a user opened, so that a
method which needs one cannot be asked. Requests are made from templates, ten from each, and cluster by these.
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

from lib.evaluation.comparison import per_query_scores, random_order_scores
from lib.retrieval.dense import encode
from lib.retrieval.fusion import fuse_runs
from lib.retrieval.stores import bm25t_scores, candidate_pairs, cosine_of_pairs, rank_pairs
from lib.workbook.inputs import InputError, one_line, read_text

SOURCE = "https://github.com/olly-styles/WorkBench"
ANSWERS = "queries_and_answers"


class App(NamedTuple):
    """`name` for readers; `file` and `key` of its items; `title` and `text`: the columns that say what an item is."""

    name: str
    file: str
    key: str
    title: str
    text: Sequence[str]


APPS = {
    "email": App("Email", "emails.csv", "email_id", "subject",
                 ["inbox/outbox", "sender/recipient", "subject", "sent_datetime", "body"]),
    "calendar": App("Calendar", "calendar_events.csv", "event_id", "event_name",
                    ["event_name", "participant_email", "event_start", "duration"]),
    "project_management": App("Project Management", "project_tasks.csv", "task_id", "task_name",
                              ["task_name", "assigned_to_email", "list_name", "due_date", "board"]),
    "customer_relationship_manager": App(
        "Customer Relationship Manager", "customer_relationship_manager_data.csv", "customer_id", "customer_name",
        ["customer_name", "assigned_to_email", "customer_email", "customer_phone", "last_contact_date",
         "product_interest", "status", "follow_up_by", "notes"]),
}  # fmt: skip
TOPICS = ("analytics", "calendar", "customer_relationship_manager", "email", "multi_domain", "project_management")
ANSWER_FILES = [f"{topic}_queries_and_answers.csv" for topic in TOPICS]
FILES = [*(app.file for app in APPS.values()), *(f"{ANSWERS}/{name}" for name in ANSWER_FILES)]
CUTOFFS, TOOL_CUTOFFS = (3, 5, 10), (1, 3, 5)
SCORES = ["query", "template", "sample", "method", "metric", "k", "value"]
_CALL = re.compile(r"(\w+)\.(\w+)\.func")


class WorkBench(NamedTuple):
    """`items`: item, app, title, text. `queries`: query, template, text, n_calls. `relevant`: query, item, one row an
    item that the answer names. `tools`: item (`email.delete_email`), app, text. `called`: query, item (of a tool)."""

    items: pd.DataFrame
    queries: pd.DataFrame
    relevant: pd.DataFrame
    tools: pd.DataFrame
    called: pd.DataFrame


def missing_files(folder: Path) -> list[str]:
    """Those of `FILES` that a folder lacks."""
    return [name for name in FILES if not (folder / name).is_file()]


def absent_sentence(root: Path, folder: str) -> str:
    """Says how to get the data where files are missing from `folder`, relative to the project or absolute; empty where
    all are there."""
    missing = missing_files(root / folder)
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
            queries.append((query, record["base_template"], record["query"], len(calls), calls))
            relevant += [(query, item) for item in named]
            called += [(query, tool) for tool in dict.fromkeys(tool for tool, _ in calls)]
            for tool, given in calls:
                arguments.setdefault(tool, list(given))
    return WorkBench(
        items,
        pd.DataFrame(queries, columns=["query", "template", "text", "n_calls", "calls"]),
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


def _read_items(folder: Path, key: str, app: App) -> pd.DataFrame:
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


# ---------------------------------------------------------------- context


def context_runs(bench: WorkBench, queries: pd.DataFrame, encoders: Mapping[str, object]) -> dict[str, pd.DataFrame]:
    """All items ranked for each query: by BM25T, by cosine under each encoder, and by RRF of BM25T and `semantic`.

    Args:
        queries: rows of `bench.queries`.
        encoders: {method: encoder}, `semantic` among them.
    """
    asked, items = queries.assign(all="all"), bench.items.assign(all="all")
    pairs = candidate_pairs(asked, items, "all")
    runs = {"bm25t": rank_pairs(pairs, bm25t_scores(pairs, asked, items, ["all"]))}
    for method, encoder in encoders.items():
        texts, documents = (encode(encoder, frame["text"].tolist()) for frame in (asked, items))
        runs[method] = rank_pairs(pairs, cosine_of_pairs(pairs, texts, documents))
    return runs | {"rrf_text": fuse_runs([runs["bm25t"], runs["semantic"]])[["query", "item", "rank", "score"]]}


def context_scores(bench: WorkBench, runs: Mapping[str, pd.DataFrame], seed: int) -> pd.DataFrame:
    """Scores of the queries whose answer names an item, columns `SCORES`, in percent; `random` is the floor."""
    asked = bench.queries[bench.queries["query"].isin(bench.relevant["query"])].reset_index(drop=True)
    names = asked["query"].tolist()
    scores = per_query_scores(runs, bench.relevant, names, CUTOFFS)
    n_relevant = bench.relevant["query"].value_counts().loc[names].to_numpy()
    floor = random_order_scores([len(bench.items)] * len(names), n_relevant, CUTOFFS, seed=seed)
    return _in_rows(scores.join(floor.set_axis(scores.index)), asked.assign(sample="names an item"))


# ---------------------------------------------------------------- tools


def tool_scores(bench: WorkBench, context: pd.DataFrame, encoder, seed: int) -> pd.DataFrame:
    """Recall of the tools that an answer calls, columns `SCORES`, searched for with the query alone and with context.

    Context is the name of an app: of the first item that `context` ranks (`query_plus_semantic_context`), of an item
    drawn at random, of the relevant items (`oracle_context`; nothing is added where an answer names none).

    Args:
        context: a ranking of the items, for every query.
        encoder: that reads queries and tools.
        seed: of the draw.
    """
    asked = bench.queries[bench.queries["n_calls"] > 0].reset_index(drop=True)
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
    searched, tools = asked.assign(all="all"), bench.tools.assign(all="all")
    pairs, documents = candidate_pairs(searched, tools, "all"), encode(encoder, tools["text"].tolist())
    runs = {}
    for setting, words in added.items():
        texts = (asked["text"] + " " + words).str.strip().tolist()
        runs[setting] = rank_pairs(pairs, cosine_of_pairs(pairs, encode(encoder, texts), documents))
    sample = np.where(asked["query"].isin(bench.relevant["query"]), "names an item", "names none")
    scores = per_query_scores(runs, bench.called, asked["query"].tolist(), TOOL_CUTOFFS)
    return _in_rows(scores.xs("recall", axis=1, level="metric", drop_level=False), asked.assign(sample=sample))


def _in_rows(scores: pd.DataFrame, asked: pd.DataFrame) -> pd.DataFrame:
    """Scores in long form with what they cluster by."""
    rows = scores.melt(ignore_index=False, value_name="value").reset_index()
    return rows.merge(asked[["query", "template", "sample"]], on="query")[SCORES]


def by_query(scores: pd.DataFrame) -> pd.DataFrame:
    """Scores, columns `SCORES`, with a row a query and a column for each method, metric and cutoff, such as
    `bm25t recall@3`: a request's template is told once, not with each of its values."""
    named = scores.assign(column=scores["method"] + " " + scores["metric"] + "@" + scores["k"].astype(str))
    columns = named["column"].unique()
    wide = named.pivot(index=["query", "template", "sample"], columns="column", values="value")
    order = pd.MultiIndex.from_frame(named[["query", "template", "sample"]].drop_duplicates())
    return wide.reindex(index=order, columns=columns).rename_axis(columns=None).reset_index()
