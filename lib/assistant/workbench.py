"""WorkBench: 690 requests to an office assistant, the calls that answer them, and the items that these calls name.

Styles et al. 2024 (arXiv:2405.00823), MIT; `data/README.md` says how to get it. A request's relevant items are those
whose id its answer names, its right tools those that the answer calls:

    Delete my last email from nadia        email.delete_email.func(email_id="00000479")

Everybody asks about the same mails, meetings, tasks and customers. There is no log of what a user opened, so that a
method which needs one cannot be asked. Requests are made from templates, ten from each, and cluster by these.

Plans are not asked for: the planner that comes with the project has seen none of these tools and got 0 of 40 requests
right, whatever it was shown.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from lib.assistant.tools import run_of
from lib.evaluation.comparison import per_query_scores, random_order_scores
from lib.retrieval.dense import search
from lib.retrieval.lambdamart import hash_of
from lib.retrieval.stores import bm25t_scores, candidate_pairs, rank_pairs
from lib.workbook.artifacts import ROOT
from lib.workbook.inputs import InputError, one_line
from lib.workbook.parts import kept_arrays

SOURCE = "https://github.com/olly-styles/WorkBench"
ANSWERS = "queries_and_answers"
# Of each app: its name, the file and the key of its items, and the columns that say what an item is.
APPS = {
    "email": ("Email", "emails.csv", "email_id", "inbox/outbox sender/recipient subject sent_datetime body"),
    "calendar": ("Calendar", "calendar_events.csv", "event_id", "event_name participant_email event_start duration"),
    "project_management": (
        "Project Management", "project_tasks.csv", "task_id", "task_name assigned_to_email list_name due_date board"
    ),
    "customer_relationship_manager": (
        "Customer Relationship Manager",
        "customer_relationship_manager_data.csv",
        "customer_id",
        "customer_name assigned_to_email customer_email customer_phone last_contact_date product_interest status "
        "follow_up_by notes",
    ),
}  # fmt: skip
TOPICS = ("analytics", "calendar", "customer_relationship_manager", "email", "multi_domain", "project_management")
ASKED = {topic: f"{ANSWERS}/{topic}_queries_and_answers.csv" for topic in TOPICS}
FILES = {file: [key, *columns.split()] for _, file, key, columns in APPS.values()}  # what is read of each file
FILES |= {file: ["query", "answer", "base_template"] for file in ASKED.values()}
CUTOFFS, TOOL_CUTOFFS = (3, 5, 10), (1, 3, 5)
SCORES = ["query", "template", "method", "metric", "k", "value"]
LISTS = Path("data") / "answers" / "workbench.npz"
LISTED, AUDITED = 10, 10  # items of a kept run; requests of it that are searched for again
METHODS = ("bm25t", "semantic", "finetuned")  # of items
ADDED = ("query_only", "query_plus_semantic_context")  # what tools are searched with
_CALL = re.compile(r"(\w+\.\w+)\.func")


class WorkBench(NamedTuple):
    """`items`: item, app, text. `queries`: query, template, text, calls (of the answer: tool and arguments). `asked`:
    those whose answer has a call: no other has a right tool. `relevant`: query, item, one row an item that the answer
    names. `tools`: item (`email.delete_email`), app, text. `called`: query, item (of a tool)."""

    items: pd.DataFrame
    queries: pd.DataFrame
    asked: pd.DataFrame
    relevant: pd.DataFrame
    tools: pd.DataFrame
    called: pd.DataFrame


# ---------------------------------------------------------------- reading


def absent_sentence(root: Path, folder: str) -> str:
    """Says how to get the data where files are missing from `folder`, relative to the project or absolute; empty where
    all are there."""
    missing = [name for name in FILES if not (root / folder / name).is_file()]
    if not missing:
        return ""
    return (
        f"WorkBench is not here, so that nothing was measured on it: {folder} lacks {missing[0]}; get the data from "
        f"{SOURCE} (folder data/processed), or name their folder in workbench_folder."
    )


def read_workbench(folder: str | Path) -> WorkBench:
    """The benchmark in a folder that has all of `FILES`.

    A tool's text is all that the data say of it: app, name and, of the first call, arguments. An item's id is the app's
    and the file's, since two apps may have the same.

    Raises:
        InputError: a file lacks a column, an id stands twice, an answer is no list of calls or names an item
            that is not there; one sentence that names file and row.
    """
    items, queries, relevant, called = [], [], [], []
    arguments_of: dict[str, Mapping] = {}
    tables = {}
    for name, needed in FILES.items():
        path = Path(folder) / name
        try:
            tables[name] = pd.read_csv(path, dtype=str, keep_default_na=False, index_col=False)[needed]
        except (OSError, ValueError, KeyError) as error:
            raise InputError(f"{path}: no table with {', '.join(needed)}: {one_line(error)}") from error
    for app, (_, file, key, columns) in APPS.items():
        rows = tables[file]
        texts = [". ".join(filter(None, map(str.strip, row))) for row in rows[columns.split()].to_numpy()]
        items.append(pd.DataFrame({"item": f"{app}-" + rows[key], "app": app, "text": texts}))
        if (twice := items[-1]["item"].duplicated()).any():
            found = one_line(items[-1]["item"][twice].iloc[0], 80)
            raise InputError(f"{Path(folder) / file}: {key}: {found} stands twice")
    known = pd.concat(items, ignore_index=True)
    for topic in TOPICS:
        for row, record in enumerate(tables[ASKED[topic]].itertuples(), start=1):
            query, where = f"{topic}-{row}", f"{Path(folder) / ASKED[topic]}, row {row}"
            calls = _calls(record.answer, where)
            named = [f"{app}-{given[APPS[app][2]]}" for tool, given in calls
                     if (app := tool.split(".")[0]) in APPS and APPS[app][2] in given]  # fmt: skip
            if unknown := sorted(set(named) - set(known["item"])):
                raise InputError(f"{where}: answer: no item {one_line(unknown[0], 80)}")
            queries.append((query, record.base_template, record.query, calls))
            relevant += [(query, item) for item in dict.fromkeys(named)]
            called += [(query, tool) for tool in dict.fromkeys(tool for tool, _ in calls)]
            arguments_of = dict(calls[::-1]) | arguments_of
    tools = []
    for tool, arguments in sorted(arguments_of.items()):
        app, _, name = tool.partition(".")
        said = APPS[app][0] if app in APPS else app.title()
        tools.append((tool, app, f"{said}: {name} ({', '.join(arguments)})".replace("_", " ")))
    frame = pd.DataFrame(queries, columns=["query", "template", "text", "calls"])
    return WorkBench(
        known,
        frame,
        frame[frame["calls"].map(len) > 0].reset_index(drop=True),
        pd.DataFrame(relevant, columns=["query", "item"]),
        pd.DataFrame(tools, columns=["item", "app", "text"]),
        pd.DataFrame(called, columns=["query", "item"]),
    )


def _calls(answer: str, where: str) -> list[tuple[str, dict[str, object]]]:
    """(tool, its arguments) of every call of an answer, which is read and never run."""
    read = []
    try:
        for text in ast.literal_eval(answer):
            call = ast.parse(text, mode="eval").body
            found = _CALL.fullmatch(ast.unparse(call.func))
            if not found or call.args:
                raise ValueError
            read.append((found[1], {word.arg: ast.literal_eval(word.value) for word in call.keywords}))
    except (ValueError, TypeError, AttributeError, SyntaxError, RecursionError, MemoryError):
        raise InputError(f"{where}: answer: no list of calls such as email.delete_email.func(email_id='1')") from None
    return read


# ---------------------------------------------------------------- context and tools


def kept_runs(bench: WorkBench, weights: str, root: Path = ROOT) -> dict[str, pd.DataFrame]:
    """The first `LISTED` items, or tools, of each request with a call that come with the project: `semantic` and
    `finetuned`, by the pretrained encoder (`weights` is their hash) and by the fine-tuned one of the project, and each
    of `ADDED` tools. None for other data or another encoder."""
    key = hash_of([weights], [bench.queries[["query", "text"]], bench.items, bench.tools])
    kept, asked = kept_arrays(root / LISTS, key), bench.asked
    return {name: run_of(rows, asked, bench.tools if name in ADDED else bench.items) for name, rows in kept.items()}


def agreed(bench: WorkBench, kept: pd.DataFrame, encoder, seed: int) -> int:
    """For how many of `AUDITED` requests the kept first ten items are found again, among all that these have and as
    many others."""
    some = bench.asked.sample(AUDITED, random_state=seed).reset_index(drop=True)
    kept = kept[kept["query"].isin(some["query"])]
    held = bench.items["item"].isin(kept["item"])
    among = pd.concat([bench.items[held], bench.items[~held].sample(frac=1, random_state=seed).head(held.sum())])
    again = search(encoder, some, among)
    both = kept.merge(again, on=["query", "item", "rank"])
    return int((both.groupby("query").size() == LISTED).sum())


def context_runs(bench: WorkBench, encoders: Mapping[str, object]) -> dict[str, pd.DataFrame]:
    """All items ranked for each request with a call: by BM25T, and by cosine under each encoder."""
    asked = bench.asked
    pairs = candidate_pairs(asked, bench.items)
    runs = {"bm25t": rank_pairs(pairs, bm25t_scores(pairs, asked, bench.items))}
    return runs | {method: search(encoder, asked, bench.items) for method, encoder in encoders.items()}


def tool_runs(bench: WorkBench, context: pd.DataFrame, encoder) -> dict[str, pd.DataFrame]:
    """All tools ranked for each request with a call, searched for with the query alone and with context: the name of
    the app of the first item that `context`, a ranking of the items, has for it."""
    asked, first = bench.asked, context[context["rank"] == 1].set_index("query")["item"]
    names = bench.items.set_index("item")["app"].map({key: app[0] for key, app in APPS.items()})
    added = dict(zip(ADDED, ("", " " + asked["query"].map(first.map(names))), strict=True))
    return {
        setting: search(encoder, asked.assign(text=asked["text"].str.strip() + words), bench.tools)
        for setting, words in added.items()
    }


def scores_of(bench: WorkBench, runs: Mapping[str, pd.DataFrame], seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Scores in percent, columns `SCORES`, of the requests whose answer names an item: of their context, where `random`
    is the floor, and recall of the tools that the answer calls; of `runs` those of `METHODS` and of `ADDED`."""
    names = bench.asked.loc[bench.asked["query"].isin(bench.relevant["query"]), "query"].tolist()
    of_items = {method: runs[method] for method in METHODS if method in runs}
    context = per_query_scores(of_items, bench.relevant, names, CUTOFFS)
    n_relevant = bench.relevant["query"].value_counts().loc[names].to_numpy()
    floor = random_order_scores([len(bench.items)] * len(names), n_relevant, CUTOFFS, seed=seed)
    context = context.join(floor.set_axis(context.index))
    tools = per_query_scores({method: runs[method] for method in ADDED}, bench.called, names, TOOL_CUTOFFS)
    found = []
    for scores in (context, tools.xs("recall", axis=1, level="metric", drop_level=False)):
        rows = scores.melt(ignore_index=False, value_name="value").reset_index()
        found.append(rows.merge(bench.queries[["query", "template"]], on="query")[SCORES])
    return found[0], found[1]
