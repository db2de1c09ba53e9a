"""Flow-Bench: 101 requests for workflows and for edits of workflows, with their flows and the 546 APIs they may call.

Duesterwald et al. 2025 (arXiv:2505.11646), Apache-2.0; `data/README.md` says how to get it. Its flows are Python of a
few statements, and flows of our language once they are read:

    for issue in issues:                               for (issue of issues) {
      if "bug" in issue.labels and not issue.done:       if (contains(issue?['labels'], "bug") && !issue?['done']) {
        x = Jira_Issue__2_0_0__updatewithwhere_Issue()     x = Jira.Issue__2_0_0__updatewithwhere_Issue();
        y = user_task("look at it")                        y = person.user_task({"task": "look at it"});

An API's connector is the application that its id begins with. A task for a person is one more API of the catalogue.

An edit and the request whose flow it edits are of one family, and so are edits of one flow and edits of an edit; a
request's few-shots come from other families, so that none shows the flow that is asked for, not even as the one to be
edited. A request for an edit brings the flow to edit, in the few-shots as in the question.
"""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
from pydantic import AliasPath, BaseModel, Field, TypeAdapter
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from lib.generation.answers import estimate_tokens
from lib.retrieval.neighbours import nearest
from lib.workbook.inputs import InputError, Text, one_line, read_json_records, read_yaml, validated
from lib.workflows import few_shots
from lib.workflows.apis import Connector, Operation
from lib.workflows.apis import Field as Parameter
from lib.workflows.catalogue import Catalogue
from lib.workflows.grammars import flow_grammar
from lib.workflows.language import MAX_CHARACTERS, Flow, called_apis, parse, print_flow
from lib.workflows.prompts import FENCE, chat_parts, flow_prompts

TESTS, APIS = "conditional_ootb.yaml", "ootb_catalog.json"
SOURCE = "https://github.com/IBM/flow-bench"
USER_TASK = Operation(
    "person",
    "user_task",
    display_name="user task",
    app_name="Person",
    description="A task that a person does, where no API can",
    parameters=(Parameter("task", kind="text", summary="Task", description="What the person is to do"),),
)
COLUMNS = ["pair", "request", "prior", "dsl", "apis", "family"]


class _Test(BaseModel):
    uid: int = Field(validation_alias=AliasPath("_metadata", "uid"))
    request: Text = Field(validation_alias=AliasPath("input", "utterance"))
    prior: Literal[""] | tuple[Text] = Field(validation_alias=AliasPath("input", "prior_sequence"))
    flow: tuple[Text] = Field(validation_alias=AliasPath("expected_output", "sequence"))


class _Tests(BaseModel):
    tests: list[_Test] = Field(min_length=1)


class _Api(BaseModel):
    id: Text
    description: Text


class FlowBench(NamedTuple):
    """`catalogue`: its APIs in their order, then `USER_TASK`. `pairs`: one row a request, in the order of the file:
    pair (`flow_bench-1`), request, prior (the flow to edit, empty where one is asked for from nothing), dsl (the right
    flow), apis (the list of those it calls, in order of text), family (one text a family, see `families`)."""

    catalogue: Catalogue
    pairs: pd.DataFrame


def read_if_there(root: Path, folder: str) -> tuple[FlowBench, str]:
    """The benchmark of a folder, relative to the project's `root` or absolute, and an empty text; where its files are
    missing one without requests, and a sentence that says how to get them. Raises as `read_flow_bench`."""
    missing = [name for name in (TESTS, APIS) if not (root / folder / name).is_file()]
    if not missing:
        return read_flow_bench(root / folder), ""
    sentence = (
        f"Flow-Bench is not here, so that nothing was measured on it: {folder} lacks {' and '.join(missing)}; get them "
        f"from {SOURCE} (folder data), or name their folder in flow_bench_folder."
    )
    return FlowBench(Catalogue({}, {}), pd.DataFrame(columns=COLUMNS)), sentence


def read_flow_bench(folder: Path) -> FlowBench:
    """The benchmark in a folder with its two files, `TESTS` and `APIS`. Raises InputError where one is missing or has a
    wrong field, an id stands twice, or a flow cannot be said in our language or calls an API that is not there."""
    catalogue, path, rows = _read_apis(folder / APIS), folder / TESTS, {}
    for test in read_yaml(path, TypeAdapter(_Tests)).tests:
        try:
            if test.uid in rows:
                raise ValueError("this uid stands twice")
            flow, *prior = (flow_of_python("".join(code)) for code in (test.flow, test.prior) if code)
            apis = called_apis(flow)
            if unknown := [name for name in apis if name not in catalogue]:
                raise ValueError(f"{APIS} has no API {one_line(unknown[0], 120)}")
        except ValueError as error:
            raise InputError(f"{path}, test {test.uid}: {error}") from error
        texts = "".join(map(print_flow, prior)), print_flow(flow)
        rows[test.uid] = (f"flow_bench-{test.uid}", test.request, *texts, apis)
    pairs = pd.DataFrame(list(rows.values()), columns=COLUMNS[:-1])
    return FlowBench(catalogue, pairs.assign(family=families(pairs)))


def _read_apis(path: Path) -> Catalogue:
    catalogue = Catalogue({}, {})
    for place, record in read_json_records(path):
        written = validated(_Api, record, f"{path}, {place}")
        try:
            name = api_name(written.id)
            if name in catalogue:
                raise ValueError(f"{one_line(written.id, 80)!r} stands twice")
        except ValueError as error:
            raise InputError(f"{path}, {place}: id: {error}") from error
        connector, _, operation = name.partition(".")
        app, does = connector.replace("_", " ").strip(), operation.rpartition("__")[2].replace("_", " ")
        catalogue.connectors[connector] = Connector(connector, app, (app,))
        catalogue.apis[name] = Operation(connector, operation, does, app, written.description)
    catalogue.connectors[USER_TASK.connector] = Connector(USER_TASK.connector, USER_TASK.app_name, ())
    catalogue.apis[USER_TASK.name] = USER_TASK
    return catalogue


# ---------------------------------------------------------------- Python to a flow

# What it is of an application, that thing's version, what is done with it: Jira_Issue__2_0_0__create_Issue.
_ID = re.compile(r"([A-Za-z]\w*?)__\d+_\d+_\d+__([A-Za-z]\w*)", re.ASCII)
MOST_ID_CHARACTERS = 1000
_COMPARED: dict[type, str] = {
    ast.Eq: "==", ast.Is: "==", ast.NotEq: "!=", ast.IsNot: "!=",
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
}  # fmt: skip


def api_name(api_id: str) -> str:
    """`connector.Operation` of an API's id: after the application comes a full stop in place of an underscore. The
    operation ends with the name of a thing, and so does what stands before the version; what is left there is the
    application. Raises ValueError where it is no id of this form.

    >>> api_name("Zendesk_Service_Ticket__2_0_0__create_Ticket")
    'Zendesk_Service.Ticket__2_0_0__create_Ticket'
    """
    found = _ID.fullmatch(api_id) if len(api_id) <= MOST_ID_CHARACTERS else None
    if not found:
        raise ValueError(f"{one_line(api_id, 80)!r} is no id such as Jira_Issue__2_0_0__create_Issue")
    subject, operation = found.groups()
    ends = [operation[place.start() :] for place in re.finditer("_", operation)]
    application = subject.removesuffix(next(filter(subject.endswith, ends), ""))
    return f"{application}.{api_id[len(application) + 1 :]}"


def flow_of_python(code: str) -> Flow:
    """The flow that a benchmark's Python says. Raises ValueError where it is no Python of this subset, or a flow of it
    would be beyond the bounds of our language."""
    if len(code) > MAX_CHARACTERS:
        raise ValueError(f"a flow has at most {MAX_CHARACTERS:,} characters, not {len(code):,}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of escapes that Python will refuse one day
            module = ast.parse(code)
        return parse(" ".join(map(_said, module.body)))
    except SyntaxError as error:
        raise ValueError(f"line {error.lineno or 1}: no Python: {error.msg}") from error
    except (RecursionError, MemoryError):
        raise ValueError("nested too deeply") from None


def _said(node: ast.AST | list[ast.stmt]) -> str:
    """What a node, or a block of them, says in our language; conditions stand in brackets, so that they are refused
    where a value must."""
    match node:
        case list():
            return f"{{{' '.join(map(_said, node))}}}"
        case ast.Assign(targets=[ast.Name(id=variable)], value=ast.Call() as call):
            return f"{variable} = {_said(call)}"
        case ast.Expr(value=ast.Call() as call):
            return _said(call)
        case ast.Call(func=ast.Name(id="user_task"), args=[ast.Constant(value=str(task))], keywords=[]):
            return f"{USER_TASK.name}({json.dumps({'task': task})});"
        case ast.Call(func=ast.Name(id=api), args=[], keywords=[]):
            return f"{api_name(api)}();"
        case ast.For(target=ast.Name(id=variable), iter=items, body=body, orelse=[]):
            return f"for ({variable} of {_said(items)}) {_said(body)}"
        case ast.If(test=test, body=body, orelse=otherwise):
            further = len(otherwise) == 1 and isinstance(otherwise[0], ast.If)
            rest = f" else {_said(otherwise[0] if further else otherwise)}" if otherwise else ""
            return f"if ({_said(test)}) {_said(body)}{rest}"
        case ast.BoolOp(op=operator, values=parts):
            return f"({(' && ' if isinstance(operator, ast.And) else ' || ').join(map(_said, parts))})"
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            return f"(!{_said(inner)})"
        case ast.Compare(left=left, ops=[ast.In() | ast.NotIn() as operator], comparators=[right]):
            return f"({'!' * isinstance(operator, ast.NotIn)}contains({_said(right)}, {_said(left)}))"
        case ast.Compare(left=left, ops=[operator], comparators=[right]):
            return f"({_said(left)} {_COMPARED[type(operator)]} {_said(right)})"
        case ast.Constant(value=None | bool() | int() | float() | str() as value):
            return json.dumps(value, allow_nan=False)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return f"-{json.dumps(value, allow_nan=False)}"
        case ast.Name(id=name):
            return "null" if name == "Null" else name  # some flows have other languages' words for True, False and None
        case ast.Attribute(value=of, attr=key):
            return f"{_said(of)}?['{key}']"
    raise ValueError(f"line {getattr(node, 'lineno', 1)}: a flow of the benchmark has no {type(node).__name__} here")


# ---------------------------------------------------------------- few-shots

SHOTS = 5


def families(pairs: pd.DataFrame) -> list[str]:
    """One label a request, the same for an edit, other edits of the same flow, the request for that flow and the edits
    of any of these: a text, the first of the family."""
    links = [(prior or dsl, dsl) for prior, dsl in zip(pairs["prior"], pairs["dsl"], strict=True)]
    place, texts = pd.factorize(pd.Series([text for link in links for text in link], dtype=object))
    graph = coo_array((np.ones(len(links)), (place[::2], place[1::2])), shape=(len(texts), len(texts)))
    _, component = connected_components(graph, directed=False)
    _, first = np.unique(component, return_index=True)
    return texts[first[component[place[1::2]]]].tolist()


def shots_of_others(pairs: pd.DataFrame, nearness: np.ndarray, k: int = SHOTS) -> pd.DataFrame:
    """The `k` nearest requests of other families: columns pair, rank (from 1), shot. `nearness`: (requests, requests),
    of each to the one of the row."""
    names, ids = pairs["family"].to_numpy(), pairs["pair"].to_numpy()
    scores = np.where(names[:, None] != names[None, :], nearness, -np.inf)
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    shots = few_shots.ranked_shots(ids, ids, order)
    return shots[np.take_along_axis(scores, order, axis=1).ravel() > -np.inf].reset_index(drop=True)


def shot_scores(pairs: pd.DataFrame, vectors: Mapping[str, np.ndarray]) -> pd.DataFrame:
    """Scores of the first and of five few-shots by who selects them: columns method, family and those of
    `lib.workflows.few_shots.few_shot_scores`. Besides the encoders (`vectors`: unit vectors of the requests, one row a
    request) this is `random`, the mean over all that may be shown."""
    scored, ks = partial(few_shots.few_shot_scores, flows=pairs, training=pairs), [1, SHOTS]
    near = {method: shots_of_others(pairs, rows @ rows.T) for method, rows in vectors.items()}
    parts = [scored(shots, ks=ks).assign(method=method) for method, shots in near.items()]
    every = scored(shots_of_others(pairs, np.zeros((len(pairs), len(pairs))), len(pairs)), ks=[len(pairs)])
    parts += [every[every["metric"] != "coverage"].assign(method="random", k=k) for k in ks]
    return pd.concat(parts, ignore_index=True).merge(pairs[["pair", "family"]], on="pair")


# ---------------------------------------------------------------- flows

MOST_TOKENS = 256  # of a flow; the longest right one has fewer
LIMIT = 3000  # tokens of a prompt, as estimated
# Which definitions an instruct model is shown, and whether the grammar with the benchmark's catalogue holds its answer.
CONDITIONS = (("none", "free"), ("fd", "free"), ("sfd", "free"), ("sfd", "grammar"))


def bench_prompts(
    bench: FlowBench, rows: Sequence[int], shots: pd.DataFrame, request_vectors: np.ndarray, api_vectors: np.ndarray
) -> pd.DataFrame:
    """The prompts of all `CONDITIONS`. One for an edit asks for it with the flow to edit in one line.

    Args:
        rows: positions of the requests that are asked.
        shots: of every request, of `shots_of_others`.
        request_vectors, api_vectors: by the pretrained encoder, of the requests and of the texts of the catalogue.

    Returns:
        condition (such as `instruct_sfd_grammar`), unit, family, prompt, grammar (None where free), and what
        `flow_prompts` tells of a prompt.
    """
    pairs, catalogue, rows = bench.pairs, bench.catalogue, list(rows)
    edits = [f" Edit this flow: {' '.join(prior.split())}" if prior else "" for prior in pairs["prior"]]
    examples = pairs.assign(request=pairs["request"].str.strip() + edits)
    near = few_shots.shot_positions(shots, pairs["pair"].tolist(), SHOTS).reindex(pairs["pair"])
    fd = [few_shots.few_shot_definitions(chosen, pairs["apis"].tolist()) for chosen in near]
    names = np.array([api.name for api in catalogue], dtype=object)
    sfd = names[nearest(api_vectors, request_vectors[rows], few_shots.usual_number(fd))[0]].tolist()
    about, parts = pairs[["pair", "family"]].rename(columns={"pair": "unit"}).iloc[rows].reset_index(drop=True), []
    for definitions, decoding in CONDITIONS:
        made = flow_prompts(
            examples["request"].iloc[rows].tolist(),
            near.iloc[rows].tolist(),
            examples,
            catalogue,
            LIMIT,
            estimate_tokens,
            few_shot=definitions == "fd",
            semantic=sfd if definitions == "sfd" else None,
            parts=chat_parts,
        ).join(about)
        made["condition"] = f"instruct_{definitions}" + "_grammar" * (decoding == "grammar")
        made["grammar"] = flow_grammar(catalogue, loops=True, fence=FENCE) if decoding == "grammar" else None
        parts.append(made)
    return pd.concat(parts, ignore_index=True)


def bench_copies(bench: FlowBench, rows: Sequence[int], shots: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """What writes without a model: the nearest few-shot's flow as it stands, by selector, and where there is a flow to
    edit, that flow as it stands (`copy_prior`; where there is none, the first selector's nearest). Columns condition,
    unit, family, text."""
    pairs, texts = bench.pairs.iloc[list(rows)], {}
    for selector, found in shots.items():
        first = found[found["rank"] == 1].set_index("pair")["shot"]
        texts[f"copy_{selector}"] = bench.pairs.set_index("pair")["dsl"][first[pairs["pair"]]].tolist()
    copied = next(iter(texts.values()))
    texts["copy_prior"] = [prior or other for prior, other in zip(pairs["prior"], copied, strict=True)]
    about = pairs[["pair", "family"]].rename(columns={"pair": "unit"})
    return pd.concat([about.assign(condition=name, text=made) for name, made in texts.items()], ignore_index=True)
