"""The pages of cases, `queries.html` and `flows.html`: every evaluation query and test flow, filtered in the page.

They open from disk with the network off. The data are in the page, as gzipped JSON in base64: no server is needed, no
text in them can become markup, and a page of thousands of flows stays small. The page's only script reads them; its
content security policy lets nothing else run and nothing load.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
from collections.abc import Iterable, Mapping
from difflib import SequenceMatcher
from pathlib import Path
from string import Template
from typing import Any

import pandas as pd

from lib.assistant.needs import KINDS
from lib.assistant.plans import CAUSES
from lib.assistant.schemas import APP_NAMES
from lib.workbook.artifacts import ROOT, ArtifactError, Workbook, sidecar_of
from lib.workbook.inputs import InputError
from lib.workbook.methods import METHODS
from lib.workbook.parameters import Parameters
from lib.workflows import errors
from lib.workflows.ablation import asked_rows, reader_of, titles, to_ask
from lib.workflows.catalogue import Catalogue
from lib.workflows.language import parse, print_flow

TITLES = {"queries": "Every query, case by case", "flows": "Every flow, case by case"}
SHOWN = 10  # results of a ranking
LIMIT = 4_000_000  # bytes of a page
KEPT = (None, 250, 50)  # answers of each condition and test set, where a page would be larger than that: None is all
ONE_DRAW = "random"  # a shuffle, where the tables have what shuffling gives on average
# The first that has a method counts.
RANKINGS = ("context_rankings", "baseline_rankings", "cot_rankings", "finetuned_rankings")
TEST_SETS = {"test": "new wordings", "test_same": "known wordings", "unseen": "APIs held out of training"}
RESULTS = {
    "same": "the wanted flow",
    "calls": "its calls, other arguments or conditions",
    "some": "some of its calls",
    "none": "similarity 0",
}


def write_pages(record: Mapping[str, Any], folder: Path, root: Path = ROOT) -> list[str]:
    """Write the pages whose artifacts are there into a folder; returns their names.

    Args:
        record: `lib.report.record.run_record`; what notebooks wrote whose status is not `ok` is left out.
    """
    book, done = Workbook("cases", Parameters(profile=record["profile"]), root), record["status"]
    pages = [page for page in (queries_page(book, done), flows_page(book, done)) if page is not None]
    for data in pages:
        (folder / f"{data['page']}.html").write_text(rendered(data), encoding="utf-8")
    return [data["page"] for data in pages]


def rendered(data: Mapping[str, Any]) -> str:
    """A page of cases as HTML."""
    page, style, script = (
        Path(__file__).with_name(f"cases.{kind}").read_text(encoding="utf-8") for kind in ("html", "css", "js")
    )
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    heading = html.escape(TITLES[data["page"]])
    return Template(page).substitute(title=heading, style=style, data=gzipped(data), script=script, digest=digest)


def gzipped(data: Mapping[str, Any]) -> str:
    """Data as JSON, gzipped, in base64: the same bytes for the same data."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def read_if_done(book: Workbook, name: str, status: Mapping[str, str]) -> pd.DataFrame | None:
    """A table that a notebook wrote whose status is `ok`; None where there is none, or it is damaged."""
    try:
        meta = json.loads(sidecar_of(book.data / f"{name}.parquet").read_text(encoding="utf-8"))
        return book.read(name) if status.get(meta["notebook"]) == "ok" else None
    except (OSError, ValueError, KeyError, TypeError, ArtifactError):
        return None


def facet(name: str, label: str, options: list[list[str]], group: str) -> dict[str, Any]:
    """A filter as a select: its name in the address, its label, its options (value, label), and where it stands."""
    return {"name": name, "label": label, "options": options, "group": group}


def flag(value: Any) -> int | None:
    """A percentage of one case, or a truth value, as 0 or 1; None where it is missing."""
    return None if value is None or value != value else int(value > 0)


def text_of(value: Any) -> str:
    """A text; empty where it is missing."""
    return value if isinstance(value, str) else ""


# ---- the assistant's queries


def queries_page(book: Workbook, status: Mapping[str, str]) -> dict[str, Any] | None:
    """What `queries.html` shows; None without the queries, their labels or their items."""
    queries, gold, items = (read_if_done(book, name, status) for name in ("queries", "gold", "items"))
    if queries is None or gold is None or items is None:
        return None
    asked = queries[queries["split"] == "evaluation"].merge(gold.drop(columns="split"), on="query")
    items = items[items["persona"].isin(asked["persona"])].reset_index(drop=True)
    at = pd.Series(items.index, items["item"])

    def only(name: str) -> list[dict]:
        frame = read_if_done(book, name, status)
        return [] if frame is None else frame[frame["query"].isin(asked["query"])].to_dict("records")

    rankings: dict[str, dict[str, list[int]]] = {}  # {method: {query: positions of items}}
    for rows in map(only, RANKINGS):
        found = pd.DataFrame(rows, columns=["method", "query", "item", "rank"])
        found = found[~found["method"].isin([ONE_DRAW, *rankings])]
        rankings |= top_results(found, "method", at)
    tools = pd.DataFrame(only("tool_rankings"), columns=["setting", "query", "item", "rank"])
    apis = sorted({*asked["apis"].explode().dropna(), *tools["item"]})
    chosen = top_results(tools, "setting", pd.Series(range(len(apis)), apis))
    plans: dict[str, dict[str, list]] = {}
    for row in only("plans"):
        judged = [flag(row.get(name)) for name in ("ast_accuracy", "exact_match", "hallucination")]
        told = [text_of(row["text"]), *judged, text_of(row["failure"]), text_of(row.get("why"))]
        plans.setdefault(row["setting"], {})[row["query"]] = told
    thoughts: dict[str, list] = {}
    for row in only("cot"):
        thoughts.setdefault(row["query"], []).append([named(row["writer"]), text_of(row["text"])])
    others: dict[str, list] = {}
    for row in only("other_plans"):
        others.setdefault(row["query"], []).append(row["plan"])
    methods, settings, tool_settings = in_order(rankings), in_order(plans), in_order(chosen)
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
            "found": of_query(rankings, methods, row.query),
            "tools": of_query(chosen, tool_settings, row.query),
            "plans": of_query(plans, settings, row.query),
        }
        for row in asked.itertuples()
    ]
    made_with = book.made_with("queries.parquet")
    return {
        "page": "queries",
        "world": made_with.get("world_folder") or made_with.get("world") or "",
        "facets": query_facets(records, methods, settings),
        "items": [[APP_NAMES.get(row.app, row.app), row.title, rest_of(row)] for row in items.itertuples()],
        "tools": apis,
        "methods": [[name, named(name)] for name in methods],
        "settings": [[name, named(name)] for name in settings],
        "tool_settings": [[name, named(name)] for name in tool_settings],
        "causes": CAUSES,
        "cases": records,
        "first": max(records, key=lambda record: telling(record, methods, settings))["id"] if records else "",
    }


def named(name: str) -> str:
    """A method's name for readers; its own where `METHODS` has none, as `setting/retriever` of tools."""
    return " · ".join(METHODS[part].label if part in METHODS else part for part in str(name).split("/"))


def in_order(names: Iterable[str]) -> list[str]:
    """Names in the order of `METHODS`, those that it lacks last."""
    order = list(METHODS)
    return sorted(names, key=lambda name: (order.index(name) if name in METHODS else len(order), name))


def rest_of(item: Any) -> str:
    """An item's text without the title it begins with."""
    return item.text.removeprefix(item.title).lstrip(".: ") if item.text.startswith(item.title) else item.text


def top_results(rankings: pd.DataFrame, column: str, at: pd.Series) -> dict[str, dict[str, list[int]]]:
    """{method or setting: {query: positions of its first `SHOWN` results, best first}}."""
    rows = rankings[(rankings["rank"] <= SHOWN) & rankings["item"].isin(at.index)].sort_values("rank")
    found: dict[str, dict[str, list[int]]] = {}
    for (name, query), part in rows.groupby([column, "query"], sort=False)["item"]:
        found.setdefault(name, {})[query] = [int(place) for place in at.loc[part]]
    return found


def of_query(table: Mapping[str, Mapping[str, list]], names: list[str], query: str) -> dict[int, list]:
    """What a table has of a query: {position of the name: value}."""
    return {number: table[name][query] for number, name in enumerate(names) if query in table[name]}


def telling(record: Mapping[str, Any], methods: list[str], settings: list[str]) -> int:
    """How well a query explains the page: usage finds what words do not, and the plan is right with context alone."""

    def hits(method: str) -> int:
        ranking = record["found"].get(methods.index(method), []) if method in methods else []
        return len({*record["relevant"]} & {*ranking[:3]})

    def right(setting: str) -> bool:
        return setting in settings and record["plans"].get(settings.index(setting), [""] * 2)[1] == 1

    points = 2 * (hits("lambdamart") == len(record["relevant"]) > hits("semantic"))
    points += 2 * (right("context_tuned_rag") and not right("rag") and "rag" in settings)
    return points + bool(record["thoughts"]) + ("lesson" in record["need"]) + (len(record["relevant"]) == 2)


def query_facets(records: list[dict], methods: list[str], settings: list[str]) -> list[dict[str, Any]]:
    """The filters that these queries, methods and settings have."""
    kinds = [kind for kind in KINDS if any(record["kind"] == kind for record in records)]
    needs = sorted({record["need"] for record in records})
    apis = sorted({api for record in records for api in record["apis"]})
    ranked, planned = [[name, named(name)] for name in methods], [[name, named(name)] for name in settings]
    found = [
        facet("kind", "Kind", [[kind, kind] for kind in kinds], "Query"),
        facet("need", "Topic", [[need, need.replace("_", " ")] for need in needs], "Query"),
        facet("tool", "Right tool", [[api, api] for api in apis], "Query"),
    ]
    if any(record["thoughts"] for record in records):
        found.append(facet("sample", "Sample", [["cot", "with chains of thought"]], "Query"))
    if methods:
        outcomes = [["all", "all of them"], ["some", "some of them"], ["none", "none of them"]]
        found += [
            facet("method", "Method", ranked, "Context found"),
            facet("k", "Among the first", [[str(k), str(k)] for k in (1, 3, 5, SHOWN)], "Context found"),
            facet("found", "Relevant items found", outcomes, "Context found"),
            facet("missed_by", "Not all found by", ranked, "Context found"),
        ]
    if settings:
        failed = {plan[4] for record in records for plan in record["plans"].values()}
        causes = [[name, words] for name, words in CAUSES.items() if name in failed]
        found += [
            facet("setting", "Setting", planned, "Plan"),
            facet("right", "Right", [["yes", "right"], ["no", "wrong"]], "Plan"),
            facet("wrong_in", "And wrong in", planned, "Plan"),
            facet("cause", "What is wrong", causes, "Plan"),
        ]
    return found


# ---- the workflows' flows


def flows_page(book: Workbook, status: Mapping[str, str]) -> dict[str, Any] | None:
    """What `flows.html` shows; None without the pairs, the catalogue or any answer. Flows that parse are compared in
    canonical print, so that a difference is none of layout; an answer that several conditions gave is kept once."""
    flows, reworded = (read_if_done(book, name, status) for name in ("flows", "reworded"))
    answers = [read_if_done(book, name, status) for name in ("ablation_scores", "finetuned_flows")]
    there = [frame for frame in answers if frame is not None]
    if flows is None or not there:
        return None
    try:
        catalogue = Catalogue.from_lines(book.read_lines("catalogue"))
    except ArtifactError:
        return None
    flows = flows[flows["split"] != "training"]
    asked = pd.concat(there, ignore_index=True).drop_duplicates(["condition", "unit"])
    asked = asked[asked["unit"].isin(flows["pair"])]
    judged = judge_all(asked.to_dict("records"), flows.set_index("pair")["dsl"].map(canonical), catalogue)
    in_other_words = {} if reworded is None else reworded.set_index("pair")["request"].to_dict()
    conditions = list(dict.fromkeys(row["condition"] for row in judged))
    titles = [[name, words] for name, words in condition_titles(book, conditions).items()]
    data: dict[str, Any] = {}
    for kept in KEPT:
        part = first_of_each(judged, flows.set_index("pair")["split"], kept)
        data = flow_data(flows, part, titles, in_other_words) | {"kept": len(part), "total": len(judged)}
        if len(gzipped(data)) <= LIMIT:
            break
    return data


def condition_titles(book: Workbook, names: Iterable[str]) -> dict[str, str]:
    """{condition: its name for readers}: notebook 09's by their titles there."""
    try:
        asked = book.parameters_of("ablation_scores.parquet")
        reader = reader_of(asked)
        named = titles(to_ask(asked_rows(asked), {"test": 1}, asked.new_shots, 1, reader), reader)
    except (ArtifactError, InputError):
        named = {}
    return {name: named.get(name, name.replace("_", " ")) for name in names}


def canonical(text: str) -> str:
    """A flow in canonical print; as it is where it does not parse."""
    try:
        return print_flow(parse(text))
    except ValueError:  # a FlowError among them
        return text


def judge_all(rows: list[dict], golds: Mapping[str, str], catalogue: Catalogue) -> list[dict]:
    """Flows that were written, each beside the wanted one.

    Args:
        rows: condition, unit (the pair), text, finished, parsed, similarity; perhaps half, error, made_up_names,
            made_up_parameters and executed.
        golds: wanted flows in canonical print, by pair.

    Returns:
        condition, unit, half (empty where it is missing) and judged: [changes (see `changed_lines`), similarity,
        parsed, valid, result (of `RESULTS`), positions of its errors in `errors.KINDS`, what does not parse, names and
        keys made up, whether it ended by itself, whether it runs right (None where that was not measured)]. Equal
        answers to a request have the same list.
    """
    known: dict[tuple, list] = {}
    found = []
    for row in rows:
        key = row["unit"], canonical(text_of(row["text"])), bool(row["finished"])
        if key not in known:
            known[key] = judge(row, *key[1:], golds[row["unit"]], catalogue)
        named_part = {"condition": row["condition"], "unit": row["unit"], "half": text_of(row.get("half"))}
        found.append(named_part | {"judged": known[key]})
    return found


def judge(row: Mapping, text: str, finished: bool, gold: str, catalogue: Catalogue) -> list:
    """`judged` of one of `judge_all`; text and gold in canonical print."""
    similarity, kinds, parsed = float(row["similarity"]), list(errors.KINDS), flag(row["parsed"])
    names, keys = (listed(row.get(column)) for column in ("made_up_names", "made_up_parameters"))
    made_up = [*map(str, names), *(" · ".join(map(str, pair)) for pair in keys)]
    result = "same" if text == gold else "calls" if similarity == 1 else "some" if similarity > 0 else "none"
    return [
        changed_lines(gold, text),
        round(similarity, 3),
        parsed,
        int(parsed == 1 and not made_up),
        result,
        [kinds.index(kind) for kind in errors.flow_errors(text, gold, catalogue, finished)],
        text_of(row.get("error")),
        made_up,
        int(finished),
        flag(row.get("executed")),
    ]


def listed(value: Any) -> list:
    return [] if value is None or isinstance(value, float) else list(value)


def changed_lines(gold: str, text: str) -> list[list]:
    """A flow as what differs from the wanted one: [first line, line after the last, the lines instead of them]."""
    wanted, written = gold.splitlines(), text.splitlines()
    matcher = SequenceMatcher(None, wanted, written, autojunk=False)
    return [[a, b, written[c:d]] for tag, a, b, c, d in matcher.get_opcodes() if tag != "equal"]


def first_of_each(judged: list[dict], splits: Mapping[str, str], kept: int | None) -> list[dict]:
    """The first answers of each condition and test set."""
    counted: dict[tuple[str, str], int] = {}
    found = []
    for row in judged:
        key = row["condition"], splits[row["unit"]]
        counted[key] = counted.get(key, 0) + 1
        if kept is None or counted[key] <= kept:
            found.append(row)
    return found


def flow_data(
    flows: pd.DataFrame, judged: list[dict], titles: list[list[str]], reworded: Mapping[str, str]
) -> dict[str, Any]:
    """What the page of flows shows; those first that most conditions were asked."""
    numbers = {name: number for number, (name, _) in enumerate(titles)}
    by: dict[str, Any] = {}  # of each pair, like the next two
    answers: dict[str, Any] = {}
    halves: dict[str, Any] = {}
    for row in judged:
        own = answers.setdefault(row["unit"], [])
        place = next((place for place, answer in enumerate(own) if answer is row["judged"]), len(own))
        if place == len(own):
            own.append(row["judged"])
        by.setdefault(row["unit"], {})[numbers[row["condition"]]] = place
        halves.setdefault(row["unit"], row["half"])
    records = [
        {
            "id": row.pair,
            "set": row.split,
            "text": row.request,
            "reworded": reworded.get(row.pair, ""),
            "gold": canonical(row.dsl).splitlines(),
            "apis": list(row.apis),
            "half": halves.get(row.pair, ""),
            "answers": answers.get(row.pair, []),
            "by": by.get(row.pair, {}),
        }
        for row in flows.itertuples()
    ]
    records.sort(key=lambda record: -len(record["by"]))

    def right_and_wrong(record: Mapping[str, Any]) -> int:
        right = [record["answers"][place][4] == "same" for place in record["by"].values()]
        return min(sum(right), len(right) - sum(right))

    return {
        "page": "flows",
        "facets": flow_facets(records, titles),
        "conditions": titles,
        "sets": TEST_SETS,
        "results": RESULTS,
        "kinds": [[kind, label, group] for group, kinds in errors.GROUPS.items() for kind, label in kinds.items()],
        "cases": records,
        "first": max(records, key=right_and_wrong)["id"] if records else "",
    }


def flow_facets(records: list[dict], titles: list[list[str]]) -> list[dict[str, Any]]:
    """The filters that these flows have."""
    sets = [[name, TEST_SETS.get(name, name)] for name in dict.fromkeys(record["set"] for record in records)]
    apis = sorted({api for record in records for api in record["apis"]})
    there = {kind for record in records for answer in record["answers"] for kind in answer[5]}
    wrong = []
    for group, kinds in errors.GROUPS.items():
        inside = [[k, f"  {label}"] for k, label in kinds.items() if list(errors.KINDS).index(k) in there]
        wrong += [[group, f"{group}, any"], *inside] if inside else []
    return [
        facet("set", "Test set", sets, "Request"),
        facet("api", "Wanted API", [[api, api] for api in apis], "Request"),
        facet("half", "Connectors", [["one", "of one half"]], "Request"),
        facet("condition", "Condition", titles, "Flow written"),
        facet("result", "Result", [[name, label] for name, label in RESULTS.items()], "Flow written"),
        facet("valid", "Valid", [["yes", "valid"], ["no", "not valid"]], "Flow written"),
        facet("error", "Error", wrong, "Flow written"),
        facet("wrong_under", "And not the wanted flow under", titles, "Flow written"),
    ]
