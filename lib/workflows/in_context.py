"""The in-context reader: what its two models learn from. `lib.workflows.parts` takes or trains them.

It stands for a model that reads few-shots and definitions well and has never seen these APIs, as GPT-4 is in the
workflow paper. The connectors are cut into two halves; a model learns on prompts over the flows of one half, every name
in them renamed afresh, so that it must copy from the prompt, and is asked about flows over the other half. Few-shots,
definitions and grammar are the whole catalogue's when it is asked.

A new name keeps its shape: `shared_gmail.SendEmailV2` may become `shared_larch.PonduGraniteV2`, its key
`emailMessage/To` `graniteBorel/Tasim`. Words are exchanged, not names, so that what shares a word still does: versions
of an operation, keys below one object, and the variable `outputs_SendEmailV2`. What a request or a description says
stays as it is. Halves of the project's own connectors and syllables of new names: `data/flows/in_context.yaml`.
"""

from __future__ import annotations

import itertools
import random
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
import yaml
from tqdm.auto import tqdm

from lib.retrieval.neighbours import nearest
from lib.workbook.artifacts import ROOT
from lib.workflows.apis import Operation
from lib.workflows.catalogue import Catalogue
from lib.workflows.few_shots import few_shot_definitions, usual_number
from lib.workflows.language import Call, Flow, Object, Reference, calls, nodes, parse, print_flow
from lib.workflows.prompts import STOP, fit

Half = Literal["a", "b"]
HalfOrNone = Literal["a", "b", ""]
OTHER: dict[HalfOrNone, HalfOrNone] = {"a": "b", "b": "a", "": ""}
HALVES: tuple[Half, Half] = ("a", "b")
WITH: dict[str, Any] = yaml.safe_load((ROOT / "data" / "flows" / "in_context.yaml").read_text(encoding="utf-8"))


# ---------------------------------------------------------------- halves


def halves(catalogue: Catalogue, flows: pd.DataFrame) -> dict[str, Half]:
    """The connectors in two halves of about equal use: the project's own as `WITH` has them; others, the one that most
    training flows (columns split, apis) use first, go to the half of less use."""
    training = flows.loc[flows["split"] == "training", "apis"]
    used = Counter(name for apis in training for name in {api.split(".", 1)[0] for api in apis})
    found: dict[str, Half] = {name: half for half in HALVES for name in WITH["halves"][half]}
    found = {name: half for name, half in found.items() if name in catalogue.connectors}
    total = {half: sum(used[name] for name, own in found.items() if own == half) for half in HALVES}
    for name in sorted({*catalogue.connectors, *used} - found.keys(), key=lambda name: (-used[name], name)):
        found[name] = min(HALVES, key=lambda half: total[half])
        total[found[name]] += max(used[name], 1)
    return found


def half_of(apis: Iterable[str], split: Mapping[str, Half]) -> HalfOrNone:
    """The half that all connectors of a flow's APIs belong to; empty where it has some of both, or one of neither."""
    found = {split.get(name.split(".", 1)[0], "") for name in apis}
    own: HalfOrNone = next((half for half in HALVES if found == {half}), "")
    return own


# ---------------------------------------------------------------- new names

# A run of capitals, or a word with or without a capital; the V of a version and other signs stay as they are.
WORD = re.compile(r"(?![Vv][0-9])(?:[A-Z]+(?![a-z])|[A-Z]?[a-z]+)")
ODD = re.compile(r"[a-z][A-Z]|[^A-Za-z ]")  # in a name that is no word of a sentence
NAME = re.compile(r"[\w$@/-]+(?:\.[\w$@/-]+)*")  # what may be a name in a sentence
FRAME = frozenset({"shared", "body", "item", "outputs", "trigger"})  # the form of names, the same in all connectors
TRIGGER = "triggerOutputs"


def words(name: str) -> list[str]:
    """The words of a name, in small letters: email, message, to of `emailMessage/To_V2`."""
    return [word.lower() for word in WORD.findall(name)]


def flow_names(flow: Flow) -> tuple[set[str], set[str]]:
    """Names in a flow: connectors, operations and keys; and fields of outputs below their body, as `user` and `login`
    of `x?['body']?['user']?['login']`."""
    names: set[str] = set()
    outputs: set[str] = set()
    for node in nodes(flow):
        match node:
            case Call(api):
                names.update(api.split(".", 1))
            case Object(pairs):
                names.update(key for key, _ in pairs)
            case Reference(_, path):
                below = path[1:] if path[:1] == ("body",) else path
                outputs.update(key for key in below if isinstance(key, str))
    return names, outputs


def definition_names(api: Operation) -> set[str]:
    """Names that a definition shows: the connector's, the operation's, parameter keys, and fields that are returned."""
    return {api.connector, api.operation, *(one.key for one in (*api.parameters, *api.returns))}


class Known(NamedTuple):
    """What no new name may hold, and what no text of a prompt may."""

    words: frozenset[str]  # of all names of a catalogue
    odd: frozenset[str]  # names that are no words of a sentence, such as emailMessage/To

    @classmethod
    def of(cls, apis: Iterable[Operation]) -> Known:
        """What a catalogue's APIs know; the names of a field `user/login` that is returned are itself and its parts."""
        names: set[str] = set()
        for api in apis:
            names |= definition_names(api).union(*(one.key.split("/") for one in api.returns))
        return cls(frozenset(word for name in names for word in words(name)), frozenset(filter(ODD.search, names)))


class Renaming:
    """One prompt's new names, for all names of its flows and definitions; the same name always becomes the same other
    one, two names two others. A share of words (`kept`) stays, but at least one word of each name is exchanged."""

    def __init__(self, names: Collection[str], known: Known, kept: float, rng: random.Random):
        self._rng, self._used, self._odd = rng, set(known.words), known.odd
        parts = {name: words(name) for name in sorted(names)}
        self._kept = {word for word in sorted(set().union(*parts.values())) if rng.random() < kept} | FRAME
        for found in parts.values():
            if found and self._kept.issuperset(found):
                self._kept.remove(rng.choice([word for word in found if word not in FRAME] or found))
        self._new: dict[str, str] = {}

    def name(self, name: str) -> str:
        """The new name for one of the names given; of `connector.Operation` that of both."""

        def exchanged(found: re.Match) -> str:
            word = found[0]
            if word.lower() in self._kept:
                return word
            new = self._invented(word.lower())
            if len(word) > 1 and word.isupper():
                return new.upper()
            return new.capitalize() if word[0].isupper() else new

        return WORD.sub(exchanged, name) if WORD.search(name) else self._invented(name)

    def _invented(self, word: str) -> str:
        while word not in self._new:
            syllables = (WITH["onsets"], WITH["vowels"], WITH["ends"]) * 2
            new = "".join(map(self._rng.choice, (WITH["nouns"],) if self._rng.random() < 0.5 else syllables))
            if new not in self._used:
                self._used.add(new)
                self._new[word] = new
        return self._new[word]

    def text(self, text: str) -> str:
        """A text in which odd names of the catalogue are exchanged."""

        def mentioned(found: re.Match) -> str:
            name = found[0]
            if name not in self._odd:
                return name
            new = self.name(name)
            return self._invented(name) if new == name else new  # it is none of the prompt's names

        return NAME.sub(mentioned, text)

    def api(self, api: Operation) -> Operation:
        """An API that its definition shows under new names."""
        fields, given = [], len(api.parameters)
        for one in (*api.parameters, *api.returns):
            key = self.name(one.key)
            fields.append(replace(one, key=key, summary=self.text(one.summary), description=self.text(one.description)))
        return replace(
            api,
            parameters=tuple(fields[:given]),
            returns=tuple(fields[given:]),
            connector=self.name(api.connector),
            operation=self.name(api.operation),
            description=self.text(api.description),
        )

    def flow(self, node):
        """A flow, or what stands in one, with new names; what its arguments say stays."""
        match node:
            case Call(api, parameters, name, awaited):
                new = ".".join(map(self.name, api.split(".", 1))), self.flow(parameters)
                return Call(*new, None if name is None else self.flow(Reference(name)).variable, awaited)
            case Reference(name, path):
                body = path[:1] if path[:1] == ("body",) else ()
                below = (key if isinstance(key, int) else self.name(key) for key in path[len(body) :])
                return Reference(name if name == TRIGGER else self.name(name), (*body, *below))
            case Object(pairs):
                return Object(tuple((self.name(key), self.flow(value)) for key, value in pairs))
            case tuple():
                return tuple(map(self.flow, node))
        parts = {name: self.flow(getattr(node, name)) for name in getattr(node, "__slots__", ())}
        return replace(node, **parts) if parts else node


# ---------------------------------------------------------------- prompts to learn from

SHOTS = (0, 1, 3, 5, 10, 20)
DEFINED = ("none", "fd", "sfd", "fd_sfd")
KINDS = ("usual", "definition only", "nearest wrong")
NEAR = 100  # few-shots that are searched, of which some may be left out
MOST_SEMANTIC = 40
BLOCK = 512  # flows whose neighbours are searched at a time
LIMIT = 3000  # tokens of a prompt
TRIED = 300  # flows, until a sort of prompt is given up
KEPT = (0.0, 0.5)  # share of words that stay in a prompt's new names


class Cell(NamedTuple):
    """One sort of prompt. Of kind "definition only" one API of the flow is in no few-shot; of kind "nearest wrong" no
    few-shot calls the same APIs as the flow."""

    shots: int  # at most, fewer where they do not fit
    definitions: str  # none, of the few-shots' APIs (FD), of those nearest to the request (SFD), or both
    kind: str
    beside: int  # few-shots that FD has as many definitions for, on average, as SFD shows


# Every sort of prompt; all are equally frequent, and so are all numbers of few-shots. Without few-shots there is no FD,
# and without definitions nothing to copy from: SFD is left, repeated. An API is in definitions only where these are
# chosen by the request, and few-shots can only be wrong where there are some.
SHOWN = [
    Cell(shots, what, kind, shots)
    for shots, what, kind in itertools.product(SHOTS[1:], DEFINED, KINDS)
    if kind != "definition only" or what in ("sfd", "fd_sfd")
]
BARE = itertools.cycle(Cell(0, "sfd", "usual", beside) for beside in SHOTS[1:])
MIXTURE = [*itertools.islice(BARE, len(SHOWN) // len(SHOTS[1:])), *SHOWN]


class Row(NamedTuple):
    """A flow of a pool: its tree, its names, and what a prompt must show for it: (API, ""), (API, key) and ("", output
    field)."""

    pair: str
    request: str
    apis: list[str]
    flow: Flow
    names: set[str]
    facts: set[tuple[str, str]]


class Pool(NamedTuple):
    """The flows of one half, from which requests and few-shots are drawn."""

    rows: list[Row]
    vectors: np.ndarray  # unit vectors of the requests, (rows, dimensions)
    apis: Mapping[str, Operation]  # those that a definition may be shown of
    api_vectors: np.ndarray  # of each one's `text`
    known: Known

    def candidates(self, seed: int) -> Iterator[tuple[int, list[int], list[str]]]:
        """The flows in seeded order, again and again in other orders: the row of each, those of its nearest other
        ones, and the APIs nearest to it."""
        names = list(self.apis)
        for turn in itertools.count():
            order = np.random.default_rng([seed, turn]).permutation(len(self.rows))
            for start in range(0, len(order), BLOCK):
                rows = order[start : start + BLOCK]
                found = nearest(self.vectors, self.vectors[rows], NEAR + 1)[0]
                semantic = nearest(self.api_vectors, self.vectors[rows], MOST_SEMANTIC)[0]
                for row, near, places in zip(rows.tolist(), found.tolist(), semantic, strict=True):
                    yield row, [other for other in near if other != row], [names[place] for place in places]


def pool_of(
    half: HalfOrNone,
    split: Mapping[str, Half],
    flows: pd.DataFrame,
    vectors: np.ndarray,
    catalogue: Catalogue,
    api_vectors: np.ndarray,
) -> Pool:
    """The training flows whose connectors all lie in a half, and the APIs of this half that training may use; vectors
    are those of all flows' requests, and of all APIs in the catalogue's order."""
    own = (flows["split"] == "training") & (flows["apis"].map(lambda apis: half_of(apis, split)) == half)
    shown = [api.in_training and split[api.connector] == half for api in catalogue]
    apis = {api.name: api for api, chosen in zip(catalogue, shown, strict=True) if chosen}
    rows = []
    for pair, request, called, dsl in flows.loc[own, ["pair", "request", "apis", "dsl"]].itertuples(index=False):
        flow = parse(dsl)
        names, outputs = flow_names(flow)
        facts = {(call.api, key) for call in calls(flow) for key in ("", *call.keys)} | {("", one) for one in outputs}
        rows.append(Row(pair, request, list(called), flow, names | outputs, facts))
    return Pool(rows, vectors[own.to_numpy()], apis, api_vectors[shown], Known.of(catalogue))


def training_prompts(
    pool: Pool, n: int, seed: int, count: Callable[[str], int], limit: int = LIMIT, progress: bool = False
) -> pd.DataFrame:
    """Prompts of the metaprompt's form with the flows that answer them, under names that are renamed in each prompt.

    Every name of the flow that answers stands in its prompt, in a few-shot or a definition: nobody could know another.
    Half of the prompts have names of invented words only; in the other half each word is exchanged with a chance of a
    half and at least one a name is, so that names have some meaning, as real ones do, and still cannot be remembered.
    Source: own; the paper's model is not trained.

    Args:
        n: prompts; the first of any larger number with the same seed. A pool that is too small for some sort of prompt
            has none of that sort, one that is too small for all of them gives fewer prompts.
        count, limit: tokens of a text, and of a prompt at most.

    Returns:
        columns pair, prompt, target (flow and stop text), tokens (of the prompt), shown (few-shots that fitted), kept
        (share of words that stay), and the fields of `Cell`; one row a prompt.
    """

    def drawn() -> Iterator[tuple]:
        """Round by round of the mixture; ends where no sort is left."""
        cells, rng, stream = [*MIXTURE], random.Random(seed), pool.candidates(seed)
        some, apis = list(itertools.islice(pool.candidates(seed), BLOCK)), [row.apis for row in pool.rows]
        usual = {k: usual_number([few_shot_definitions(near[:k], apis) for _, near, _ in some]) for k in SHOTS[1:]}
        while cells:
            for cell in rng.sample(cells, len(cells)):
                kept, number = rng.choice(KEPT), usual[cell.beside]
                tried = itertools.islice(stream, min(TRIED, len(pool.rows)))
                if found := next(filter(None, (prompt(*one, cell, number, kept, rng) for one in tried)), None):
                    yield (*found, kept, *cell)
                else:
                    cells.remove(cell)

    def prompt(row: int, near: list[int], semantic: list[str], cell: Cell, number: int, kept: float, rng) -> tuple:
        """Pair, prompt, target, tokens and few-shots of a prompt with so many definitions of SFD; empty where the flow
        does not suit the cell or something in it is not in the prompt."""
        target, semantic = pool.rows[row], semantic[:number] if "sfd" in cell.definitions else []
        if cell.kind == "nearest wrong":
            near = [other for other in near if set(pool.rows[other].apis) != set(target.apis)]
        if cell.kind == "definition only":
            alone = rng.choice(sorted(set(target.apis)))
            near = [other for other in near if alone not in pool.rows[other].apis]
            if alone not in semantic:
                semantic = semantic[:-1]
                semantic.insert(rng.randint(0, len(semantic)), alone)
        shots = [pool.rows[other] for other in near[: cell.shots]]
        if len(shots) < cell.shots or not pool.apis.keys() >= {*semantic}:
            return ()

        def defined(shown: int) -> tuple[list[Operation], bool]:
            """The APIs that are defined beside so many few-shots, and whether all of the flow stands in the prompt."""
            called = [name for one in shots[:shown] for name in one.apis] if "fd" in cell.definitions.split("_") else []
            found = [pool.apis[name] for name in dict.fromkeys([*called, *semantic])]
            facts = {(api.name, key) for api in found for key in ("", *api.keys)}
            return found, target.facts <= facts.union(*(one.facts for one in shots[:shown]))

        whole, answerable = defined(len(shots))
        if not answerable:
            return ()
        held = target.names.union(*(one.names for one in shots), *map(definition_names, whole))
        new = Renaming(held, pool.known, kept, rng)
        texts = [(one.request, print_flow(new.flow(one.flow))) for one in shots]
        apis = {api.name: new.api(api) for api in whole}
        # At test time definitions give way to few-shots in a far larger window; here they must not, or 20 few-shots
        # with definitions would be 20 few-shots.
        for shown in range(len(shots), -1, -1):
            found, answerable = defined(shown)
            chosen = [apis[api.name] for api in found]
            fitted = fit(target.request, texts[:shown], chosen, limit, count)
            if (fitted.shots, fitted.definitions) == (shown, len(chosen)):
                answer = print_flow(new.flow(target.flow)) + STOP[0]
                return (target.pair, fitted.prompt, answer, fitted.tokens, shown) if answerable else ()
        return ()

    rows = itertools.islice(drawn(), n) if pool.rows else []
    columns = ["pair", "prompt", "target", "tokens", "shown", "kept", *Cell._fields]
    return pd.DataFrame(tqdm(rows, total=n, disable=not progress, desc="prompts"), columns=columns)
