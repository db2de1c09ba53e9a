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
from collections.abc import Callable, Iterable, Mapping
from difflib import SequenceMatcher
from functools import lru_cache
from pathlib import Path
from string import Template
from typing import Any

import pandas as pd

from lib.assistant.plans import CAUSES
from lib.assistant.schemas import APP_NAMES
from lib.workbook.artifacts import ROOT, ArtifactError, Workbook, sidecar_of
from lib.workbook.methods import METHODS, label
from lib.workbook.parameters import Parameters
from lib.workflows.language import parse, print_flow

TITLES = {"queries": "Every query, case by case", "flows": "Every flow, case by case"}
SHOWN = 10  # results of a ranking
MOST = 500  # answers of a condition on a test set
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
    book = Workbook("cases", Parameters(profile=record["profile"]), root)

    def read(name: str) -> pd.DataFrame:
        try:
            frame = book.read(name)
            writer = json.loads(sidecar_of(book.data / f"{name}.parquet").read_text(encoding="utf-8"))["notebook"]
        except ArtifactError:
            return pd.DataFrame()
        return frame if record["status"].get(writer) == "ok" else pd.DataFrame()

    parts = [Path(__file__).with_name(f"cases.{kind}").read_text(encoding="utf-8") for kind in ("html", "css", "js")]
    digest = base64.b64encode(hashlib.sha256(parts[2].encode()).digest()).decode()
    made = []
    for name, page_of in {"queries": queries_page, "flows": flows_page}.items():
        if data := page_of(read):
            text = json.dumps({"page": name, **data}, separators=(",", ":"), allow_nan=False)
            packed = base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()
            fields = {"title": html.escape(TITLES[name]), "style": parts[1], "script": parts[2], "digest": digest}
            (folder / f"{name}.html").write_text(Template(parts[0]).substitute(data=packed, **fields), encoding="utf-8")
            made.append(name)
    return made


def facet(name: str, title: str, options: Mapping[str, str] | Iterable[str], group: str) -> dict[str, Any]:
    """A filter as a select: its name in the address, its label, its options (value, label), and where it stands."""
    pairs = options.items() if isinstance(options, Mapping) else [(one, one.replace("_", " ")) for one in options]
    return {"name": name, "label": title, "options": list(pairs), "group": group}


def queries_page(read: Callable[[str], pd.DataFrame]) -> dict[str, Any]:
    """What `queries.html` shows; nothing without the queries, their labels or their items."""
    queries, gold, items, plans = map(read, ("queries", "gold", "items", "plans"))
    if queries.empty or gold.empty or items.empty:
        return {}
    asked = queries[queries["split"] == "evaluation"].merge(gold.drop(columns="split"), on="query")
    items = items[items["persona"].isin(asked["persona"])].reset_index(drop=True)
    at = pd.Series(items.index, items["item"])
    ranked = pd.concat([pd.DataFrame(columns=["method", "query", "item", "rank"]), *map(read, RANKINGS)])
    ranked = ranked[(ranked["rank"] <= SHOWN) & ranked["query"].isin(asked["query"]) & ranked["item"].isin(at.index)]
    # The first file that has a method counts. One shuffle is no method: the tables have what all give on average.
    ranked = ranked[ranked["method"] != "random"].drop_duplicates(["method", "query", "rank"]).sort_values("rank")
    found: dict[str, dict[str, list[int]]] = {}  # of each query and method: positions of items
    for (query, method), part in ranked.groupby(["query", "method"])["item"]:
        found.setdefault(query, {})[method] = at[part].tolist()
    written: dict[str, dict[str, list]] = {}  # of each query and setting: text, right, what is wrong
    # Of several worlds and planners, the first are the main ones.
    for row in plans.fillna({"text": "", "failure": ""}).to_dict("records"):
        told = [row["text"], int(row["ast_accuracy"] > 0), row["failure"]]
        written.setdefault(row["query"], {}).setdefault(row["setting"], told)
    records: list[dict[str, Any]] = [
        {
            "id": row.query,
            "persona": row.persona,
            "text": row.text,
            "when": f"{row.time:%A %Y-%m-%d %H:%M}, {row.place}",
            "kind": row.kind,
            "need": row.need,
            "relevant": [int(at[item]) for item in row.relevant if item in at],
            "apis": list(row.apis),
            "plan": row.plan,
            "found": found.get(row.query, {}),
            "plans": written.get(row.query, {}),
        }
        for row in asked.itertuples()
    ]

    def telling(record: Mapping[str, Any]) -> int:
        """How well a query explains the page: usage finds what words do not, and context makes the plan right."""
        more, fewer = (
            {*record["found"].get(name, [])[:3]} & {*record["relevant"]} for name in ("lambdamart", "semantic")
        )
        right, wrong = (record["plans"].get(name, [""] * 2)[1] for name in ("context_tuned_rag", "rag"))
        return 2 * (len(more) > len(fewer)) + 2 * (right == 1 and wrong == 0)

    methods, settings = in_order(ranked["method"]), in_order(plans["setting"] if len(plans) else ())
    outcomes = {"all": "all of them", "some": "some of them", "none": "none of them"}
    facets = [
        facet("kind", "Kind", sorted({record["kind"] for record in records}), "Query"),
        facet("need", "Topic", sorted({record["need"] for record in records}), "Query"),
        facet("method", "Method", methods, "Context found"),
        facet("found", "Relevant items among the first 3", outcomes, "Context found"),
        facet("missed_by", "And not all found by", methods, "Context found"),
        facet("setting", "Setting", settings, "Plan"),
        facet("right", "Right", {"yes": "right", "no": "wrong"}, "Plan"),
        facet("wrong_in", "And wrong in", settings, "Plan"),
        facet("cause", "What is wrong", CAUSES, "Plan"),
    ]
    return {
        "facets": [one for one in facets if one["options"]],
        "items": [
            [APP_NAMES.get(row.app, row.app), row.title, row.text.removeprefix(row.title).lstrip(".: ")]
            for row in items.itertuples()
        ],
        "methods": methods,
        "settings": settings,
        "causes": CAUSES,
        "cases": records,
        "first": max(records, key=telling)["id"] if records else "",
    }


def in_order(names: Iterable[str]) -> dict[str, str]:
    """{name: its label}, in the order of `METHODS`, those that it lacks last."""
    order = list(METHODS)
    known = sorted(set(names), key=lambda name: (order.index(name) if name in METHODS else len(order), name))
    return {name: label(name) for name in known}


def flows_page(read: Callable[[str], pd.DataFrame]) -> dict[str, Any]:
    """What `flows.html` shows; nothing without the pairs or any answer. Flows that parse are compared in canonical
    print, so that a difference is none of layout; an answer that several conditions gave is kept once."""
    flows, answers = read("flows"), pd.concat([read("ablation_scores"), read("finetuned_flows")], ignore_index=True)
    if flows.empty or answers.empty:
        return {}
    cases: dict[str, dict[str, Any]] = {
        row.pair: {"id": row.pair, "set": row.split, "text": row.request, "gold": canonical(row.dsl).splitlines(),
                   "apis": list(row.apis), "answers": [], "by": {}}
        for row in flows[flows["split"] != "training"].itertuples()
    }  # fmt: skip
    answers = answers[answers["unit"].isin(cases)].drop_duplicates(["condition", "unit"])
    answers = answers.groupby(["condition", answers["unit"].map(lambda unit: cases[unit]["set"])]).head(MOST)
    for row in answers.fillna({"text": "", "error": ""}).to_dict("records"):
        case = cases[row["unit"]]
        answer = beside_wanted(row, case["gold"])
        if answer not in case["answers"]:
            case["answers"].append(answer)
        case["by"][row["condition"]] = case["answers"].index(answer)
    records = sorted(cases.values(), key=lambda case: -len(case["by"]))

    def right_and_wrong(case: Mapping[str, Any]) -> int:
        right = [case["answers"][place][2] == "same" for place in case["by"].values()]
        return min(sum(right), len(right) - sum(right))

    conditions = {name: str(name).replace("_", " ") for name in answers["condition"].unique()}
    apis = sorted({api for case in records for api in case["apis"]})
    return {
        "facets": [
            facet("set", "Test set", TEST_SETS, "Request"),
            facet("api", "Wanted API", dict(zip(apis, apis, strict=True)), "Request"),
            facet("condition", "Condition", conditions, "Flow written"),
            facet("result", "Result", RESULTS, "Flow written"),
            facet("wrong_under", "And not the wanted flow under", conditions, "Flow written"),
        ],
        "conditions": conditions,
        "sets": TEST_SETS,
        "results": RESULTS,
        "most": MOST,
        "cases": records,
        "first": max(records, key=right_and_wrong)["id"] if records else "",
    }


@lru_cache(maxsize=100_000)
def canonical(text: str) -> str:
    """A flow in canonical print; as it is where it does not parse."""
    try:
        return print_flow(parse(text))
    except ValueError:  # a FlowError among them
        return text


def beside_wanted(row: Mapping[str, Any], wanted: list[str]) -> list:
    """A flow that was written, beside the wanted one: [its changes, similarity, result (of `RESULTS`), whether it runs
    right (None where that was not measured), what does not parse, names and keys made up, whether it ended by itself].
    A change is [first line, line after the last, the lines instead of them]."""
    written, similarity = canonical(row["text"]).splitlines(), float(row["similarity"])
    matcher = SequenceMatcher(None, wanted, written, autojunk=False)
    changes = [[a, b, written[c:d]] for tag, a, b, c, d in matcher.get_opcodes() if tag != "equal"]
    result = "calls" if similarity == 1 else "some" if similarity > 0 else "none"
    made_up = [" · ".join(one) if not isinstance(one, str) else one
               for column in ("made_up_names", "made_up_parameters") for one in row[column]]  # fmt: skip
    ran = None if row.get("executed") is None or pd.isna(row["executed"]) else int(row["executed"])
    return [changes, round(similarity, 3), result if changes else "same", ran, row["error"], made_up,
            int(row["finished"])]  # fmt: skip
