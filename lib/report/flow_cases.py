"""The workflows' test flows as the page of cases shows them: request, wanted flow, and every condition's as a diff.

Frames in, one record of plain lists and dicts out. Flows that parse are compared in canonical print, so that a diff
shows no mere layout; an answer that several conditions gave is kept once.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import SequenceMatcher
from typing import Any

import pandas as pd

from lib.report.query_cases import facet, flag, said
from lib.workflows.catalogue import Catalogue
from lib.workflows.errors import GROUPS, KINDS, flow_errors
from lib.workflows.language import parse, print_flow
from lib.workflows.pages.common import TEST_SETS

RESULTS = {
    "same": "the wanted flow",
    "calls": "its calls, other arguments or conditions",
    "some": "some of its calls",
    "none": "similarity 0",
}


def flow_cases(
    frames: Mapping[str, pd.DataFrame], titles: Mapping[str, str], first: int | None = None
) -> dict[str, Any]:
    """What `flows.html` shows.

    Args:
        frames: flows of notebook 01, and where they are there reworded; `answers`: see `judge_answers`.
        titles: conditions for readers; one that is left out keeps its name.
        first: answers kept of each condition and test set, in their order; None keeps all.

    Returns:
        facets (see `lib.report.query_cases.facet`), conditions (name, title), kinds of errors (name, label, group), and
        a record for each pair that is no training pair, those first that most conditions were asked.
    """
    flows = frames["flows"][frames["flows"]["split"] != "training"]
    answers = frames["answers"]
    total, conditions = len(answers), answers["condition"].unique().tolist()
    if first is not None:
        split = answers["unit"].map(flows.set_index("pair")["split"])
        answers = answers[answers.groupby(["condition", split]).cumcount() < first]
    own = {unit: part.to_dict("records") for unit, part in answers.groupby("unit")}
    halves = answers[answers["half"] != ""].groupby("unit")["half"].first().to_dict()
    reworded = frames.get("reworded")
    in_other_words = {} if reworded is None else reworded.set_index("pair")["request"].to_dict()
    records = [
        {
            "id": row.pair,
            "set": row.split,
            "text": row.request,
            "reworded": in_other_words.get(row.pair, ""),
            "gold": canonical(row.dsl).splitlines(),
            "apis": list(row.apis),
            "half": halves.get(row.pair, ""),
            **answers_of(own.get(row.pair, []), conditions),
        }
        for row in flows.itertuples()
    ]
    records.sort(key=lambda record: -len(record["by"]))  # the page opens with what most conditions were asked
    return {
        "page": "flows",
        "facets": facets(records, conditions, titles),
        "conditions": [[name, titles.get(name, name)] for name in conditions],
        "sets": TEST_SETS,
        "kinds": [[kind, label, group] for group, kinds in GROUPS.items() for kind, label in kinds.items()],
        "cases": records,
        "kept": len(answers),
        "total": total,
    }


def canonical(text: str) -> str:
    """A flow in canonical print; as it is where it does not parse."""
    try:
        return print_flow(parse(text))
    except ValueError:  # a FlowError among them
        return text


def answers_of(rows: list[dict], conditions: list[str]) -> dict[str, Any]:
    """The answers to one request: `answers`, each once, and `by`: {position of the condition: position of its
    answer}."""
    answers: list[list] = []
    by: dict[int, int] = {}
    known: dict[tuple[str, bool], int] = {}
    for row in rows:
        if row["same"] not in known:
            known[row["same"]] = len(answers)
            answers.append(row["judged"])
        by[conditions.index(row["condition"])] = known[row["same"]]
    return {"answers": answers, "by": by}


def judge_answers(answers: pd.DataFrame, flows: pd.DataFrame, catalogue: Catalogue) -> pd.DataFrame:
    """The flows written for pairs that are no training pairs, each beside the wanted one.

    Args:
        answers: columns condition, unit (the pair), text, finished, parsed, valid, similarity; perhaps half, error,
            made_up_names, made_up_parameters and executed.
        flows: columns pair, split, dsl.
        catalogue: that they are checked against.

    Returns:
        condition, unit, half (empty where it is missing), same (equal where two answers to a request are) and judged:
        [changes (see `changed_lines`), similarity, parsed, valid, result (of `RESULTS`), positions of its errors in
        `KINDS`, what does not parse, names and keys made up, whether it ended by itself, whether it is executed right
        (None where that was not measured)].
    """
    golds = flows[flows["split"] != "training"].set_index("pair")["dsl"].map(canonical)
    asked = answers[answers["unit"].isin(golds.index)].drop_duplicates(["condition", "unit"])
    rows = asked.to_dict("records")
    same = [(canonical(said(row["text"])), bool(row["finished"])) for row in rows]
    known: dict[tuple[str, str, bool], list] = {}
    for row, key in zip(rows, same, strict=True):
        if (row["unit"], *key) not in known:
            known[row["unit"], *key] = judge(row, *key, golds[row["unit"]], catalogue)
    judged = [known[row["unit"], *key] for row, key in zip(rows, same, strict=True)]
    half = [said(row.get("half")) for row in rows]
    return asked[["condition", "unit"]].assign(half=half, same=same, judged=judged)


def judge(row: Mapping, text: str, finished: bool, gold: str, catalogue: Catalogue) -> list:
    """One of `judge_answers`.

    Args:
        text, gold: in canonical print.
    """
    similarity, kinds = float(row["similarity"]), list(KINDS)
    made_up = [str(name) for name in listed(row.get("made_up_names"))]
    made_up += [" · ".join(map(str, pair)) for pair in listed(row.get("made_up_parameters"))]
    return [
        changed_lines(gold, text),
        round(similarity, 3),
        flag(row["parsed"]),
        int(flag(row["parsed"]) == 1 and not made_up),
        result_of(text, gold, similarity),
        [kinds.index(kind) for kind in flow_errors(text, gold, catalogue, finished)],
        said(row.get("error")),
        made_up,
        int(finished),
        flag(row.get("executed")),
    ]


def listed(value: Any) -> list:
    return [] if value is None or isinstance(value, float) else list(value)


def result_of(text: str, gold: str, similarity: float) -> str:
    """Which of `RESULTS` a flow is; both in canonical print."""
    if text == gold:
        return "same"
    return "calls" if similarity == 1 else "some" if similarity > 0 else "none"


def changed_lines(gold: str, text: str) -> list[list]:
    """A flow as what differs from the wanted one: [first line, line after the last, the lines instead of them]."""
    wanted, written = gold.splitlines(), text.splitlines()
    matcher = SequenceMatcher(None, wanted, written, autojunk=False)
    return [
        [start, end, written[new_start:new_end]]
        for tag, start, end, new_start, new_end in matcher.get_opcodes()
        if tag != "equal"
    ]


def facets(records: list[dict], conditions: list[str], titles: Mapping[str, str]) -> list[dict[str, Any]]:
    """The filters that these flows have."""
    sets = [[name, label] for name, label in TEST_SETS.items() if any(record["set"] == name for record in records)]
    sets += [[name, name] for name in sorted({record["set"] for record in records} - {*TEST_SETS})]
    apis = sorted({api for record in records for api in record["apis"]})
    there = {kind for record in records for answer in record["answers"] for kind in answer[5]}
    errors = []
    for group, kinds in GROUPS.items():
        inside = [[kind, f"  {label}"] for kind, label in kinds.items() if list(KINDS).index(kind) in there]
        errors += [[group, f"{group}, any"], *inside] if inside else []
    return [
        facet("set", "Test set", sets, "Request"),
        facet("api", "Wanted API", [[api, api] for api in apis], "Request"),
        facet("half", "Connectors", [["one", "of one half"]], "Request"),
        facet("condition", "Condition", [[name, titles.get(name, name)] for name in conditions], "Flow written"),
        facet("result", "Result", [[name, label] for name, label in RESULTS.items()], "Flow written"),
        facet("valid", "Valid", [["yes", "valid"], ["no", "not valid"]], "Flow written"),
        facet("error", "Error", errors, "Flow written"),
    ]
