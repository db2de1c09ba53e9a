"""Flow-Bench: 101 requests for workflows and for edits of workflows, with their flows and the 546 APIs they may call.

Duesterwald et al. 2025 (arXiv:2505.11646), Apache-2.0; `data/README.md` says how to get it. Its flows are Python of a
few statements, and flows of our language once they are read:

    for issue in issues:                               for (issue of issues) {
      if "bug" in issue.labels and not issue.done:       if (contains(issue?['labels'], "bug") && !issue?['done']) {
        x = Jira_Issue__2_0_0__updatewithwhere_Issue()     x = Jira.Issue__2_0_0__updatewithwhere_Issue();
        y = user_task("look at it")                        y = person.user_task({"task": "look at it"});

An API's connector is the application that its id begins with; nothing of the id is lost. A task for a person, which the
list of APIs lacks, is one more API of the catalogue.
"""

from __future__ import annotations

import ast
import itertools
import re
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from lib.evaluation.inference import Resampling, mean_interval
from lib.evaluation.ranking import recall_at_k
from lib.workbook.inputs import InputError, Text, describe_error, one_line, read_json_records, read_yaml
from lib.workflows.apis import API, Connector
from lib.workflows.apis import Field as Parameter
from lib.workflows.catalogue import Catalogue
from lib.workflows.clauses import clause_texts, cut_by_rules
from lib.workflows.language import (
    MAX_CHARACTERS,
    And,
    Branch,
    Call,
    Comparison,
    Condition,
    Flow,
    For,
    If,
    Not,
    Object,
    Operand,
    Or,
    Reference,
    Statement,
    called_apis,
    parse,
    print_flow,
)

TESTS, APIS = "conditional_ootb.yaml", "ootb_catalog.json"
SOURCE = "https://github.com/IBM/flow-bench"
USER_TASK = API(
    "person",
    "user_task",
    display_name="user task",
    app_name="Person",
    description="A task that a person does, where no API can",
    parameters=(Parameter("task", kind="text", summary="Task", description="What the person is to do"),),
)
COLUMNS = ["pair", "kind", "update", "request", "prior", "dsl", "apis", "new_apis"]


class _Meta(BaseModel):
    uid: int
    tags: list[str]


class _Input(BaseModel):
    utterance: Text
    prior_sequence: Literal[""] | tuple[Text]


class _Output(BaseModel):
    sequence: tuple[Text]


class _Test(BaseModel):
    meta: _Meta = Field(alias="_metadata")
    input: _Input
    expected_output: _Output


class _Tests(BaseModel):
    tests: list[_Test] = Field(min_length=1)


class _Api(BaseModel):
    id: Text
    description: Text


class FlowBench(NamedTuple):
    """`catalogue`: its APIs in their order, then `USER_TASK`. `pairs`: one row a request, in the order of the file:
    pair (`flow_bench-1`), kind (linear or conditional), update (add, replace, delete; empty where a flow is asked for
    from nothing), request, prior (the flow to edit, empty where there is none), dsl (the right flow), apis (the list of
    those it calls, in order of text), new_apis (those of them, each once, that the flow to edit does not call)."""

    catalogue: Catalogue
    pairs: pd.DataFrame


def read_if_there(root: Path, folder: str) -> tuple[FlowBench, str]:
    """The benchmark, and an empty text; where its files are missing one without requests, and a sentence that says how
    to get them.

    Args:
        root: of the project.
        folder: relative to it, or absolute.

    Raises:
        InputError: as `read_flow_bench`, for files that are there.
    """
    missing = [name for name in (TESTS, APIS) if not (root / folder / name).is_file()]
    if not missing:
        return read_flow_bench(root / folder), ""
    sentence = (
        f"Flow-Bench is not here, so that nothing was measured on it: {folder} lacks {' and '.join(missing)}; get them "
        f"from {SOURCE} (folder data), or name their folder in flow_bench_folder."
    )
    return FlowBench(Catalogue({}, {}), pd.DataFrame(columns=COLUMNS)), sentence


def read_flow_bench(folder: str | Path) -> FlowBench:
    """The benchmark in a folder with its two files, `TESTS` and `APIS`.

    Raises:
        InputError: a file is missing or has a wrong field, an id stands twice, or a flow cannot be said in our language
            or calls an API that is not there; one sentence that names file and place.
    """
    catalogue = _read_apis(Path(folder) / APIS)
    path = Path(folder) / TESTS
    read = read_yaml(path, TypeAdapter(_Tests)).tests
    rows: dict[int, tuple] = {}
    for test in read:
        where = f"{path}, test {test.meta.uid}"
        if test.meta.uid in rows:
            raise InputError(f"{where}: this uid stands twice")
        rows[test.meta.uid] = _pair(test, catalogue, where)
    return FlowBench(catalogue, pd.DataFrame(list(rows.values()), columns=COLUMNS))


def _read_apis(path: Path) -> Catalogue:
    catalogue = Catalogue({}, {})
    for place, record in read_json_records(path):
        where = f"{path}, {place}"
        try:
            written = _Api.model_validate(record)
            name = api_name(written.id)
        except ValidationError as error:
            raise InputError(f"{where}: {describe_error(error)}") from error
        except ValueError as error:
            raise InputError(f"{where}: id: {error}") from error
        if name in catalogue:
            raise InputError(f"{where}: id: {one_line(written.id, 80)!r} stands twice")
        connector, _, operation = name.partition(".")
        app, does = connector.replace("_", " ").strip(), operation.rpartition("__")[2].replace("_", " ")
        catalogue.connectors[connector] = Connector(connector, app, (app,))
        catalogue.apis[name] = API(connector, operation, does, app, written.description)
    catalogue.connectors[USER_TASK.connector] = Connector(USER_TASK.connector, USER_TASK.app_name, ())
    catalogue.apis[USER_TASK.name] = USER_TASK
    return catalogue


def _pair(test: _Test, catalogue: Catalogue, where: str) -> tuple:
    """A row of the pairs."""
    try:
        prior = flow_of(test.input.prior_sequence[0]) if test.input.prior_sequence else None
        flow = flow_of(test.expected_output.sequence[0])
    except ValueError as error:
        raise InputError(f"{where}: {error}") from error
    apis = called_apis(flow)
    unknown = [name for name in apis if name not in catalogue]
    if unknown:
        raise InputError(f"{where}: {APIS} has no API {one_line(unknown[0], 120)}")
    before = called_apis(prior) if prior else []
    tags = set(test.meta.tags)
    kind = "conditional" if any(tag.startswith("conditional") for tag in tags) else "linear"
    update = next((what for what in ("add", "replace", "delete") if f"{kind}_update_{what}" in tags), "")
    if bool(update) != bool(prior):
        raise InputError(f"{where}: tags: an edit needs a prior sequence, and a prior sequence an edit")
    return (
        f"flow_bench-{test.meta.uid}",
        kind,
        update,
        test.input.utterance,
        print_flow(prior) if prior else "",
        print_flow(flow),
        apis,
        [name for name in dict.fromkeys(apis) if name not in before],
    )


# ---------------------------------------------------------------- Python to a flow

# What it is of an application, that thing's version, what is done with it: Jira_Issue__2_0_0__create_Issue.
_ID = re.compile(r"([A-Za-z]\w*?)__\d+_\d+_\d+__([A-Za-z]\w*)", re.ASCII)
MOST_ID_CHARACTERS = 1000
_COMPARED: dict[type, str] = {
    ast.Eq: "==", ast.Is: "==", ast.NotEq: "!=", ast.IsNot: "!=",
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
}  # fmt: skip
# Some flows have other languages' words for True, False and None.
_CONSTANTS: Mapping[str, bool | None] = {"true": True, "false": False, "null": None, "Null": None}


def api_name(api_id: str) -> str:
    """`connector.Operation` of an API's id: after the application comes a full stop in place of an underscore.

    The operation ends with the name of a thing, and so does what stands before the version; what is left there is the
    application.

    Raises:
        ValueError: it is no id of this form.

    >>> api_name("Zendesk_Service_Ticket__2_0_0__create_Ticket")
    'Zendesk_Service.Ticket__2_0_0__create_Ticket'
    """
    found = _ID.fullmatch(api_id) if len(api_id) <= MOST_ID_CHARACTERS else None
    if not found:
        raise ValueError(f"{one_line(api_id, 80)!r} is no id such as Jira_Issue__2_0_0__create_Issue")
    subject, operation = found.groups()
    things = [operation[place.end() :] for place in re.finditer("_", operation)]
    application = next(
        (subject.removesuffix(f"_{thing}") for thing in things if subject.endswith(f"_{thing}")), subject
    )
    return f"{application}.{api_id[len(application) + 1 :]}"


def flow_of(code: str) -> Flow:
    """The flow that a benchmark's Python says.

    Raises:
        ValueError: it is no Python of this subset, or a flow of it would be beyond the bounds of our language.
    """
    if len(code) > MAX_CHARACTERS:
        raise ValueError(f"a flow has at most {MAX_CHARACTERS:,} characters, not {len(code):,}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of escapes that Python will refuse one day
            module = ast.parse(code)
        flow = Flow(_statements(module.body))
        if parse(print_flow(flow)) != flow:
            raise ValueError("a flow that our language says differently")
    except SyntaxError as error:
        raise ValueError(f"line {error.lineno or 1}: no Python: {error.msg}") from error
    except (RecursionError, MemoryError):
        raise ValueError("nested too deeply") from None
    return flow


def _statements(nodes: Sequence[ast.stmt]) -> tuple[Statement, ...]:
    return tuple(map(_statement, nodes))


def _statement(node: ast.stmt) -> Statement:
    match node:
        case ast.Assign(targets=[ast.Name(id=variable)], value=ast.Call() as call):
            return _call(call, variable)
        case ast.Expr(value=ast.Call() as call):
            return _call(call, None)
        case ast.For(target=ast.Name(id=variable), iter=items, body=body, orelse=[]):
            return For(variable, _reference(items), _statements(body))
        case ast.If():
            return _if(node)
    raise _unknown(node)


def _if(node: ast.If) -> If:
    branches = [Branch(_condition(node.test), _statements(node.body))]
    otherwise = node.orelse
    while len(otherwise) == 1 and isinstance(otherwise[0], ast.If):  # `elif`
        node = otherwise[0]
        branches.append(Branch(_condition(node.test), _statements(node.body)))
        otherwise = node.orelse
    return If(tuple(branches), _statements(otherwise))


def _call(node: ast.Call, variable: str | None) -> Call:
    match node:
        case ast.Call(func=ast.Name(id="user_task"), args=[ast.Constant(value=str(task))], keywords=[]):
            return Call(USER_TASK.name, Object((("task", task),)), variable)
        case ast.Call(func=ast.Name(id=api), args=[], keywords=[]):
            return Call(api_name(api), variable=variable)
    raise _unknown(node)


def _condition(node: ast.expr) -> Condition:
    match node:
        case ast.BoolOp(op=operator, values=parts):
            conditions = tuple(map(_condition, parts))
            return And(conditions) if isinstance(operator, ast.And) else Or(conditions)
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            return Not(_condition(inner))
        case ast.Compare(left=left, ops=[ast.In() | ast.NotIn() as operator], comparators=[right]):
            found = Comparison("contains", _operand(right), _operand(left))
            return found if isinstance(operator, ast.In) else Not(found)
        case ast.Compare(left=left, ops=[operator], comparators=[right]) if type(operator) in _COMPARED:
            return Comparison(_COMPARED[type(operator)], _operand(left), _operand(right))
    return _operand(node)


def _operand(node: ast.expr) -> Operand:
    match node:
        case ast.Constant(value=None | bool() | int() | float() | str() as value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return -value
        case ast.Name(id=name) if name in _CONSTANTS:
            return _CONSTANTS[name]
    return _reference(node)


def _reference(node: ast.expr) -> Reference:
    path: list[str] = []
    while isinstance(node, ast.Attribute):
        path.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        raise _unknown(node)
    return Reference(node.id, tuple(reversed(path)))


def _unknown(node: ast.stmt | ast.expr) -> ValueError:
    return ValueError(f"line {node.lineno}: a flow of the benchmark has no {type(node).__name__} here")


# ---------------------------------------------------------------- which APIs a request needs

CUTOFFS = (10, 50)  # of the published recall
# What a request needs, and what of it is searched for. The published recall tells neither, nor which text of an API was
# read.
READINGS = {
    "flow": "all APIs of the flow",
    "given": "all APIs of the flow, of which those in the flow to be edited are found beforehand",
    "new": "APIs that the flow to edit lacks",
}
ASKED = {"request": "the whole request", "clauses": "its clauses"}
RECALL = ["texts", "asked", "reading", "k", "value", "ci_low", "ci_high", "n"]


def api_texts(catalogue: Catalogue) -> pd.DataFrame:
    """What an encoder can read of the benchmark's APIs, `USER_TASK` left out, one row an API in their order.

    Returns:
        api (name), id (the benchmark's), description, both.
    """
    apis = [api for api in catalogue if api is not USER_TASK]
    frame = pd.DataFrame({"api": [api.name for api in apis], "description": [api.description for api in apis]})
    frame.insert(1, "id", frame["api"].str.replace(".", "_", n=1, regex=False))
    return frame.assign(both=frame["id"] + ": " + frame["description"])


def retrieval_recall(
    scores: np.ndarray,
    names: Sequence[str],
    needed: Sequence[Collection[str]],
    given: Sequence[Collection[str]] | None = None,
) -> pd.DataFrame:
    """Recall of the APIs with the highest scores; of equals the first in the catalogue.

    Args:
        scores: (requests, APIs).
        names: of the APIs, in the order of the columns.
        needed: the APIs that each request needs; those not among `names`, such as `USER_TASK`, do not count.
        given: APIs that are known to each request without a search and count as found.

    Returns:
        one row a request that needs any and a cutoff of `CUTOFFS`: request (its row), k, recall (0–1), needed (APIs).

    Raises:
        ValueError: a number of rows or columns is wrong.
    """
    if scores.shape != (len(needed), len(names)):
        raise ValueError(f"scores {scores.shape} of {len(needed)} requests and {len(names)} APIs")
    known: Sequence[Collection[str]] = [()] * len(needed) if given is None else given
    order = np.argsort(-scores, axis=1, kind="stable")
    rows = []
    for row, (wanted, there) in enumerate(zip(needed, known, strict=True)):
        wanted = set(names).intersection(wanted)
        searched = wanted.difference(there)
        ranked = [names[column] for column in order[row]]
        for k in CUTOFFS if wanted else ():
            missed = len(searched) * (1 - recall_at_k(ranked, searched, k))
            rows.append((row, k, 1 - missed / len(wanted), len(wanted)))
    return pd.DataFrame(rows, columns=["request", "k", "recall", "needed"])


def recall_by_reading(bench: FlowBench, embed: Callable[[list[str]], np.ndarray]) -> pd.DataFrame:
    """Mean recall of the APIs by what is read of them, what is searched for and what a request is taken to need.

    An API is as near to a request as to its nearest clause, where its clauses are searched for.

    Args:
        embed: texts to unit vectors, one row a text.

    Returns:
        one row each: texts (a column of `api_texts`), asked (of `ASKED`), reading (of `READINGS`), k, value (%),
        ci_low, ci_high (95%, over requests), n (requests that need an API).
    """
    pairs, texts = bench.pairs, api_texts(bench.catalogue)
    names = texts["api"].tolist()
    clauses = pairs["request"].map(lambda request: clause_texts(request, cut_by_rules(request)))
    starts = np.cumsum([0, *clauses.map(len)])[:-1]
    whole, parts = embed(pairs["request"].tolist()), embed(clauses.explode().tolist())
    before = [called_apis(parse(prior)) if prior else [] for prior in pairs["prior"]]
    needs = {"flow": (pairs["apis"], None), "given": (pairs["apis"], before), "new": (pairs["new_apis"], None)}
    rows = []
    for text in texts.columns.drop("api"):
        vectors = embed(texts[text].tolist()).T
        scores = {"request": whole @ vectors, "clauses": np.maximum.reduceat(parts @ vectors, starts)}
        for asked, (reading, (needed, given)) in itertools.product(ASKED, needs.items()):
            found = retrieval_recall(scores[asked], names, needed.tolist(), given)
            for k, of_k in found.groupby("k"):
                values = 100 * of_k["recall"].to_numpy()
                found = mean_interval(values, Resampling(of_k["request"].to_numpy()))
                rows.append((text, asked, reading, k, *found, len(values)))
    return pd.DataFrame(rows, columns=RECALL)
