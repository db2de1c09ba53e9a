"""Flows mended after they were written, beside flows that a grammar held while they were.

free       the likeliest answer
snapped    the same: broken texts closed or cut, made-up names and keys snapped to the catalogue
reasked    the same; where the checker has something against it, a second prompt says what
catalogue  constrained decoding: the likeliest answer under the grammar with the catalogue's names and keys

Nothing here reads a right flow. A flow that the checker has nothing against (see `problem_of`) is never changed.
Source: ours.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from functools import cache

import numpy as np
import pandas as pd

from lib.workbook.inputs import InputError
from lib.workflows.ablation import FIELDS, HELD, Condition, Counter, ask_model, kept_by
from lib.workflows.grammars import flow_grammar
from lib.workflows.language import (
    Call,
    Flow,
    FlowError,
    For,
    If,
    Object,
    Statement,
    made_up_keys,
    parse,
    print_flow,
    validate,
)
from lib.workflows.prompts import END, START, STOPS

WAYS = ("free", "snapped", "reasked", HELD)
READERS = {
    "in_context": Condition("pretrained", 5, "fd", "in_context"),
    "finetuned": Condition("pretrained", 0, "none", "finetuned"),
}  # how each model is asked
MOST_REPAIRED = 200  # flows of a row, at most, whose answers come with the project


def problem_of(text: str, catalogue) -> str:
    """What the checker says against a flow, in one line: the parser's message, or the names and keys that the catalogue
    does not have; empty where the flow is valid."""
    try:
        report = validate(parse(text), catalogue)
    except FlowError as error:
        return str(error)
    names = [f"there is no API {name}" for name in dict.fromkeys(report.made_up_names)]
    keys = [f"{api} has no key {key}" for api, key in dict.fromkeys(report.made_up_parameters)]
    return "; ".join([*names, *keys])


# ---------------------------------------------------------------- texts that do not parse

_PIECE = re.compile(r""""[^"\\\n]*(?:\\.[^"\\\n]*)*"|'[^'\\\n]*(?:\\.[^'\\\n]*)*'|["'()\[\]{};]""")
_PAIRS = {"(": ")", "[": "]", "{": "}"}


def mend(text: str) -> str:
    """A text that does not parse, made to parse where nothing has to be guessed; else as it was.

    Where it breaks off outside a string, the brackets still open are closed in their order (with a semicolon after the
    last call). Else what follows the last whole statement is dropped, and the blocks still open are closed, where what
    is dropped holds no whole statement.
    """
    return text if parses(text) else next(filter(parses, _candidates(text)), text)


def _candidates(text: str) -> Iterator[str]:
    opened: list[str] = []
    whole: tuple[int, int] | None = None  # where the last whole statement ends, and how many blocks are open there
    for piece in _PIECE.finditer(text):
        mark = piece[0]
        if mark in ('"', "'"):  # a string that is not closed: what follows is inside it or not
            break
        if mark in _PAIRS:
            opened.append(mark)
        elif mark in _PAIRS.values() and not (opened and _PAIRS[opened.pop()] == mark):
            break
        elif mark in ("}", ";") and set(opened) <= {"{"}:
            whole = piece.end(), len(opened)
    else:
        blocks = len(list(itertools.takewhile("{".__eq__, opened)))
        body = text.rstrip().removesuffix(",") + "".join(_PAIRS[mark] for mark in reversed(opened[blocks:]))
        for ending in ("", ";"):
            yield f"{body}{ending}{_closed(blocks)}"
    if whole and not _STATEMENT.search(text, whole[0]):
        yield text[: whole[0]] + _closed(whole[1])


def _closed(blocks: int) -> str:
    return "\n" + "}" * blocks if blocks else ""


_STATEMENT = re.compile(r"""\w(?:\.\s*[A-Za-z_][\w-]*|\["[^"\n]*"\])\([^\n]*\);""")


def parses(text: str) -> bool:
    """Whether a text is a flow."""
    try:
        parse(text)
    except FlowError:
        return False
    return True


# ---------------------------------------------------------------- names and keys


def likeness(left: str, right: str) -> float:
    """Twice the matching characters over all characters (Ratcliff and Obershelp), 0–1; case does not count."""
    return SequenceMatcher(None, left.casefold(), right.casefold(), autojunk=False).ratio()


class Snapper:
    """Repairs flows against a catalogue, without a model.

    A made-up name becomes the API whose connector and operation are most alike, each counted half; a connector that
    exists is kept. A made-up key becomes the key of that API that is most alike and that the call does not have, the
    pairs most alike first. Ties go to the name that comes first. A key is dropped where the API has none left. Keys
    that a dynamic API may have undeclared stay.

    Example:
        >>> Snapper(catalogue).repair('x = await shared_teams.PostMesage({"mesage": "hi"});')
    """

    def __init__(self, catalogue):
        """`catalogue`: iterated over, gives APIs with name, connector, operation, keys, dynamic.

        Raises:
            ValueError: it is empty.
        """
        self.catalogue = catalogue
        self.names = sorted(api.name for api in catalogue)
        if not self.names:
            raise ValueError("there is no API to snap to")
        self.nearest = cache(self._nearest)

    def repair(self, text: str) -> str:
        """The text as it was where it is valid or cannot be mended; else a flow that parses and has no made-up name or
        key."""
        mended = mend(text)
        if not parses(mended) or not problem_of(mended, self.catalogue):
            return mended
        return print_flow(Flow(self._statements(parse(mended).statements)))

    def _statements(self, statements: tuple[Statement, ...]) -> tuple[Statement, ...]:
        return tuple(map(self._statement, statements))

    def _statement(self, statement: Statement) -> Statement:
        if isinstance(statement, Call):
            return self._call(statement)
        if isinstance(statement, For):
            return replace(statement, body=self._statements(statement.body))
        branches = tuple(replace(one, body=self._statements(one.body)) for one in statement.branches)
        return If(branches, self._statements(statement.otherwise))

    def _call(self, call: Call) -> Call:
        api = self.catalogue[call.api if call.api in self.catalogue else self.nearest(call.api)]
        made_up = made_up_keys(call, api)
        free = sorted(set(api.keys) - set(call.keys))
        chosen: dict[str, str] = {}
        pairs = sorted((-likeness(before, after), before, after) for before in made_up for after in free)
        for _, before, after in pairs:
            if before not in chosen and after not in chosen.values():
                chosen[before] = after
        dropped = set(made_up) - set(chosen)
        kept = [(chosen.get(key, key), value) for key, value in call.parameters.pairs if key not in dropped]
        return replace(call, api=api.name, parameters=Object(tuple(kept)))

    def _nearest(self, made_up: str) -> str:
        connector, _, operation = made_up.partition(".")
        own = [name for name in self.names if name.startswith(f"{connector}.")]
        halves = cache(likeness)  # a connector is compared once

        def alike(name: str) -> float:
            other, _, its = name.partition(".")
            return round(halves(connector, other) + likeness(operation, its), 9)

        return max(own or self.names, key=alike)  # of several the first


# ---------------------------------------------------------------- a second prompt


def second_prompt(prompt: str, generator: str, request: str, text: str, problem: str) -> str:
    """The prompt of a second round: the first one with the flow that it led to, what the checker says, and the request
    again. Neither model has seen such a prompt in training.

    Args:
        prompt: of the first round; it ends where the flow begins.
        generator: as in `lib.workflows.prompts.STOPS`; each is asked in its own form.
        text, problem: of the flow, and of `problem_of`.
    """
    request = " ".join(request.split())
    said = " ".join(problem.split())
    if generator == "finetuned":
        return f"{prompt}{text}\n{END}\n\nThis flow is wrong: {said}.\n{request}\n{START}\n"
    return (
        f"{prompt}{text}\n\nThis flow is wrong: {said}. Write it without this mistake.\n\nRequest: {request}\nFlow:\n"
    )


# ---------------------------------------------------------------- every way


def to_repair(rows: Sequence[Sequence]) -> pd.DataFrame:
    """What is asked, as `lib.workflows.ablation.write_prompts` takes it.

    Args:
        rows: lists of model (`finetuned`, or `in_context` with few-shots and FD), test set, flows.

    Raises:
        InputError: a row is none.
    """
    known = {("finetuned", "test"), ("finetuned", "test_same"), ("finetuned", "unseen")}
    known |= {("in_context", "test"), ("in_context", "test_same")}
    for row in rows:
        if len(row) != 3 or (row[0], row[1]) not in known or type(row[2]) is not int or row[2] < 1:
            raise InputError(f"repairs: a row is a model, a test set and a number of flows, not {row}")
    asked = [(READERS[model].name, *READERS[model], test_set, flows, 0) for model, test_set, flows in rows]
    return pd.DataFrame(asked, columns=["condition", *FIELDS, "test_set", "flows", "added"])


def held_prompts(prompts: pd.DataFrame, catalogue) -> pd.DataFrame:
    """The same prompts, their answers under the catalogue's grammar."""
    generators = prompts["model"].str.split("-").str[0]
    grammars = {name: flow_grammar(catalogue, stop=STOPS[name]) for name in generators.unique()}
    return prompts.assign(grammar=generators.map(grammars))


def both_kept(prompts: pd.DataFrame, models: Mapping, catalogue, max_new_tokens: int) -> np.ndarray:
    """Whether the free answer to each prompt is kept, and the one under the grammar."""
    ways = prompts, held_prompts(prompts, catalogue)
    return np.all([kept_by(one, models, max_new_tokens) for one in ways], axis=0)


def all_ways(
    prompts: pd.DataFrame,
    models: Mapping,
    requests: Mapping[str, str],
    catalogue,
    max_new_tokens: int,
    room: Mapping[str, tuple[int, Counter]],
    progress: bool = False,
) -> pd.DataFrame:
    """What each of `WAYS` makes of the answers to prompts. No reading is shared: each answer costs its whole prompt,
    each second round both.

    Args:
        prompts: of `lib.workflows.ablation.write_prompts`.
        models: by the name in the column model.
        requests: by unit.
        room: as for `lib.workflows.ablation.Materials`; a second prompt that does not fit is not asked.

    Returns:
        one row for each prompt and way: condition (model and way, such as `finetuned, snapped`), test_set, unit, half,
        text, finished, tokens_in, tokens_out.
    """
    snapper, parts = Snapper(catalogue), []
    for name, part in prompts.groupby("model", sort=False):
        generator, model = str(name).split("-")[0], models[str(name)]
        how = model, generator, max_new_tokens, False, progress
        free, held = ask_model(part, *how), ask_model(held_prompts(part, catalogue), *how)
        problems = [problem_of(text, catalogue) for text in free["text"]]
        rows = zip(part["prompt"], part["unit"].map(requests), free["text"], problems, strict=True)
        again = [second_prompt(prompt, generator, request, text, said) for prompt, request, text, said in rows]
        limit, count = room[generator]
        wrong = np.array([bool(said) and count(one) <= limit for one, said in zip(again, problems, strict=True)])
        reasked = free.copy()
        if wrong.any():
            second = ask_model(part.assign(prompt=again)[wrong], *how)
            valid = second["text"].map(lambda text: not problem_of(text, catalogue))
            reasked.loc[second.index, ["tokens_in", "tokens_out"]] += second[["tokens_in", "tokens_out"]]
            reasked.loc[second.index[valid], "text"] = second["text"][valid]
        snapped = free.assign(text=[snapper.repair(text) for text in free["text"]])
        for way, made in zip(WAYS, (free, snapped, reasked, held), strict=True):
            parts.append(made.assign(condition=f"{generator}, {way}"))
    columns = ["condition", "test_set", "unit", "half", "text", "finished", "tokens_in", "tokens_out"]
    return pd.concat(parts, ignore_index=True)[columns]
