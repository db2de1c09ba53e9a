"""What the in-context model learns from: prompts over one half of the connectors, under names that only they hold.

It stands for a model that reads few-shots and definitions well and has never seen these APIs, as GPT-4 is in the
workflow paper. The connectors are cut into two halves; a model learns on prompts over the flows of one half, every name
in them renamed afresh (`lib.workflows.renaming`), so that it must copy from the prompt, and is asked about flows over
the other half; then the halves change places, and both are pooled. Few-shots, definitions and grammar are the whole
catalogue's when it is asked.
"""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
from tqdm.auto import tqdm

from lib.retrieval.neighbours import nearest
from lib.workflows.apis import API, DefinitionForm
from lib.workflows.catalogue import Catalogue
from lib.workflows.few_shots import few_shot_definitions, usual_number
from lib.workflows.language import Flow, calls, parse, print_flow
from lib.workflows.prompts import STOP, Fitted, fit
from lib.workflows.renaming import Known, Renaming, api_names, flow_fields, flow_names

Half = Literal["a", "b"]
HalfOrNone = Literal["a", "b", ""]
OTHER: dict[HalfOrNone, HalfOrNone] = {"a": "b", "b": "a", "": ""}
HALVES: tuple[Half, Half] = ("a", "b")
STARTS = 40  # random halves from which a better one is searched
UNEVEN = 0.05  # a half has 45% to 55% of all uses of connectors


# ---------------------------------------------------------------- halves


def connectors_of(apis: Iterable[str]) -> set[str]:
    """The connectors of API names."""
    return {name.split(".", 1)[0] for name in apis}


def halves(catalogue: Catalogue, flows: pd.DataFrame, seed: int) -> dict[str, Half]:
    """The connectors in two halves of about equal use, so that many training flows lie wholly in one.

    Kernighan and Lin's exchange (1970) on the graph of connectors that stand in a flow together, from several random
    starts; the one with most such flows is taken. A connector that no training flow has goes to a half by turns.

    Args:
        flows: columns split, apis; rows of other splits than training are not read.
        seed: of the starts.
    """
    used = [" ".join(sorted(connectors_of(apis))) for apis in flows.loc[flows["split"] == "training", "apis"]]
    counts = pd.Series(used, dtype=object).value_counts().sort_index()
    names = sorted({*catalogue.connectors, *(name for found in counts.index for name in found.split())})
    place = {name: i for i, name in enumerate(names)}
    member = np.zeros((len(counts), len(names)))
    for row, found in enumerate(counts.index):
        member[row, [place[name] for name in found.split()]] = 1
    weight, size = counts.to_numpy(), member.sum(axis=1)
    # A flow's weight is shared among its pairs of connectors; times 60 it is whole for up to seven of them, so that no
    # sum depends on its order.
    together = (member * (60 * weight / np.maximum(size - 1, 1))[:, None]).T @ member
    np.fill_diagonal(together, 0)
    use = weight @ member
    rng = np.random.default_rng(seed)
    starts = [_exchanged(together, use, rng.permutation(len(names))) for _ in range(STARTS)]
    inside = [member @ start for start in starts]
    best = starts[int(np.argmax([weight[(one == 0) | (one == size)].sum() for one in inside]))]
    unused = rng.permutation(np.flatnonzero(use == 0))
    best[unused] = np.arange(len(unused)) % 2 == 0
    return {name: "a" if first == best[0] else "b" for name, first in zip(names, best, strict=True)}


def _exchanged(together: np.ndarray, use: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Which vertices are in the first half: dealt in an order to the half of less use, then moved or exchanged one by
    one as long as this puts more weight inside the halves."""
    first, room = np.zeros(len(use), dtype=bool), use.sum() * (0.5 + UNEVEN)
    dealt = 0.0  # what the first half has of the use dealt so far, above or below what the other has
    for vertex in order:
        first[vertex] = dealt <= 0
        dealt += use[vertex] if first[vertex] else -use[vertex]
    while True:
        sign = np.where(first, 1.0, -1.0)
        gain = -sign * (together @ sign)  # of a move to the other half
        heavier = use[first].sum() - sign * use
        moves = np.where(np.maximum(heavier, use.sum() - heavier) <= room, gain, 0)
        after = heavier[:, None] - (sign * use)[None, :]
        fits = np.maximum(after, use.sum() - after) <= room
        swaps = np.where(fits & (sign[:, None] != sign), gain[:, None] + gain - 2 * together, 0)
        if max(moves.max(), swaps.max()) < 1e-9:
            return first
        chosen = [moves.argmax()] if moves.max() >= swaps.max() else list(np.unravel_index(swaps.argmax(), swaps.shape))
        first[chosen] ^= True


def half_of(apis: Iterable[str], split: Mapping[str, Half]) -> HalfOrNone:
    """The half that all connectors of a flow's APIs belong to; empty where it has some of both, or one of neither."""
    found = {split.get(connector, "") for connector in connectors_of(apis)}
    own: HalfOrNone = next((half for half in HALVES if found == {half}), "")
    return own


def asked_of(apis: Iterable[str], split: Mapping[str, Half]) -> HalfOrNone:
    """Which in-context model may be asked for a flow: the one that learned from the half without its connectors; empty
    where neither may."""
    return OTHER[half_of(apis, split)]


# ---------------------------------------------------------------- prompts to learn from

SHOTS = (0, 1, 3, 5, 10, 20)
DEFINED = ("none", "fd", "sfd", "fd_sfd")
KINDS = ("usual", "definition only", "nearest wrong")
NEAR = 100  # few-shots that are searched, of which some may be left out
MOST_SEMANTIC = 40
BLOCK = 512  # flows whose neighbours are searched at a time
LIMIT = 3000  # tokens of a prompt
TRIED = 300  # flows, until a sort of prompt is given up
COMPACT: DefinitionForm = "compact"
KEPT = (0.0, 0.5)  # share of words that stay in a prompt's new names


class Cell(NamedTuple):
    """One sort of prompt.

    Attributes:
        shots: few-shots at most, fewer where they do not fit.
        definitions: none, of the few-shots' APIs (FD), of those nearest to the request (SFD), or both.
        kind: usual; "definition only": one API of the flow is in no few-shot; "nearest wrong": no few-shot calls the
            same APIs as the flow.
        selector: whose few-shots.
        beside: SFD shows as many definitions as FD has on average for so many few-shots.
    """

    shots: int
    definitions: str
    kind: str
    selector: str
    beside: int


def mixture(selectors: Sequence[str]) -> list[Cell]:
    """Every sort of prompt; all are equally frequent, and so are all numbers of few-shots.

    Without few-shots there is no FD, and without definitions nothing to copy from: SFD is left, repeated. An API is in
    definitions only where these are chosen by the request, and few-shots can only be wrong where there are some.
    """
    cells = [
        Cell(shots, what, kind, selector, shots)
        for shots, what, kind, selector in itertools.product(SHOTS[1:], DEFINED, KINDS, selectors)
        if kind != "definition only" or what in ("sfd", "fd_sfd")
    ]
    bare = itertools.cycle(Cell(0, "sfd", "usual", selectors[0], beside) for beside in SHOTS[1:])
    return [*itertools.islice(bare, len(cells) // len(SHOTS[1:])), *cells]


@dataclass(frozen=True)
class Pool:
    """The flows of one half, from which requests and few-shots are drawn.

    Attributes:
        pairs: columns pair, request, dsl, apis; a range index.
        vectors: {selector: unit vectors of the requests, (pairs, dimensions)}.
        apis: those that a definition may be shown of, by name.
        api_vectors: of their `API.text`, by the encoder of the vectors called pretrained.
        known: what new names may not hold.
    """

    pairs: pd.DataFrame
    vectors: Mapping[str, np.ndarray]
    apis: Mapping[str, API]
    api_vectors: np.ndarray
    known: Known

    @functools.cached_property
    def sets(self) -> list[frozenset[str]]:
        """The API names of each flow."""
        return [frozenset(apis) for apis in self.pairs["apis"]]

    @functools.cached_property
    def read(self) -> Callable[[int], Read]:
        """A flow by its row, read once."""
        texts = self.pairs["dsl"].tolist()

        @functools.cache
        def read(row: int) -> Read:
            flow = parse(texts[row])
            names = flow_names(flow)
            facts = {(call.api, key) for call in calls(flow) for key in ("", *call.keys)}
            return Read(flow, frozenset(names), frozenset(facts | {("", field) for field in flow_fields(flow)}))

        return read


class Read(NamedTuple):
    """A flow's tree, its names, and what a prompt must show for it: (API, ""), (API, key) and ("", output field)."""

    flow: Flow
    names: frozenset[str]
    facts: frozenset[tuple[str, str]]


class Candidate(NamedTuple):
    """A flow, its nearest other ones by selector, and the API names nearest to its request."""

    row: int
    near: dict[str, list[int]]
    semantic: list[str]


def pool_of(
    half: Half,
    split: Mapping[str, Half],
    flows: pd.DataFrame,
    vectors: Mapping[str, np.ndarray],
    catalogue: Catalogue,
    api_vectors: np.ndarray,
) -> Pool:
    """The training flows whose connectors all lie in a half, and the APIs of this half that training may use.

    Args:
        split: of `halves`.
        flows: columns pair, split, request, dsl, apis.
        vectors: {selector: unit vectors of the requests, (flows, dimensions)}, one called pretrained.
        api_vectors: of each API's `text`, in the catalogue's order, by the pretrained encoder.
    """
    own = (flows["split"] == "training") & (flows["apis"].map(lambda apis: half_of(apis, split)) == half)
    shown = [api.in_training and split[api.connector] == half for api in catalogue]
    apis = {api.name: api for api, chosen in zip(catalogue, shown, strict=True) if chosen}
    inside = {name: one[own.to_numpy()] for name, one in vectors.items()}
    return Pool(flows[own].reset_index(drop=True), inside, apis, api_vectors[shown], Known.of(catalogue))


def candidates(pool: Pool, seed: int) -> Iterator[Candidate]:
    """The flows of a pool in seeded order, again and again in other orders."""
    names = list(pool.apis)
    for turn in itertools.count():
        order = np.random.default_rng([seed, turn]).permutation(len(pool.pairs))
        for start in range(0, len(order), BLOCK):
            rows = order[start : start + BLOCK]
            found = {name: nearest(all_, all_[rows], NEAR + 1)[0] for name, all_ in pool.vectors.items()}
            fields = nearest(pool.api_vectors, pool.vectors["pretrained"][rows], MOST_SEMANTIC)[0]
            for i, row in enumerate(rows.tolist()):
                near = {name: [other for other in one[i].tolist() if other != row] for name, one in found.items()}
                yield Candidate(row, near, [names[field] for field in fields[i]])


def training_prompts(
    pool: Pool,
    n: int,
    seed: int,
    count: Callable[[str], int],
    limit: int = LIMIT,
    form: DefinitionForm = "described",
    progress: bool = False,
) -> pd.DataFrame:
    """Prompts of the metaprompt's form with the flows that answer them, under names that are renamed in each prompt.

    Every name of the flow that answers stands in its prompt, in a few-shot or a definition: nobody could know another.
    Half of the prompts have names of invented words only; in the other half each word is exchanged with a chance of a
    half and at least one a name is, so that names have some meaning, as real ones do, and still cannot be remembered.
    Source: own; the paper's model is not trained.

    Args:
        pool: of `pool_of`.
        n: prompts; the first of any larger number with the same seed. A pool that is too small for some sort of prompt
            has none of that sort, one that is too small for all of them gives fewer prompts.
        seed: of all draws.
        count: tokens of a text, as for `lib.workflows.prompts.fit`.
        limit: tokens of a prompt.
        form: of definitions, where a prompt has room for it; else they are compact.
        progress: show a progress bar.

    Returns:
        columns pair, prompt, target (flow and stop text), tokens (of the prompt), shown (few-shots that fitted),
        defined (definitions), kept (share of words that stay), and the fields of `Cell`; one row a prompt.
    """
    drawn = itertools.islice(_prompts(pool, seed, functools.partial(_prompt, count=count, limit=limit, form=form)), n)
    columns = ["pair", "prompt", "target", "tokens", "shown", "defined", "kept", *Cell._fields]
    return pd.DataFrame(tqdm(drawn, total=n, disable=not progress, desc="prompts"), columns=columns)


def _prompts(pool: Pool, seed: int, write: Callable[..., tuple | None]) -> Iterator[tuple]:
    """The rows of `training_prompts` without end, round by round of the mixture; ends where no sort is left."""
    if not len(pool.pairs):
        return
    stream = candidates(pool, seed)
    usual = _usual_numbers(pool, list(itertools.islice(candidates(pool, seed), BLOCK)))
    cells, rng = mixture(list(pool.vectors)), random.Random(seed)
    while cells:
        for cell in rng.sample(cells, len(cells)):
            kept, number = rng.choice(KEPT), usual[cell.selector, cell.beside]
            tried = itertools.islice(stream, min(TRIED, len(pool.pairs)))
            made = next(filter(None, (write(pool, one, cell, number, kept, rng) for one in tried)), None)
            if made:
                yield (*made, kept, *cell)
            else:
                cells.remove(cell)


def _usual_numbers(pool: Pool, some: Sequence[Candidate]) -> dict[tuple[str, int], int]:
    """How many definitions FD has on average, by selector and number of few-shots."""
    apis = pool.pairs["apis"].tolist()
    return {
        (name, k): usual_number([few_shot_definitions(one.near[name][:k], apis) for one in some])
        for name in pool.vectors
        for k in SHOTS[1:]
    }


def _chosen(pool: Pool, candidate: Candidate, cell: Cell, number: int, rng: random.Random) -> tuple[list, list] | None:
    """The few-shots of a cell, as rows of the pool, nearest first, and the names of SFD; None where there are none."""
    own = pool.sets[candidate.row]
    semantic = candidate.semantic[:number] if "sfd" in cell.definitions else []
    near = candidate.near[cell.selector]
    if cell.kind == "nearest wrong":
        near = [row for row in near if pool.sets[row] != own]
    if cell.kind == "definition only":
        alone = rng.choice(sorted(own))
        near = [row for row in near if alone not in pool.sets[row]]
        if alone not in semantic:
            semantic = semantic[:-1]
            semantic.insert(rng.randint(0, len(semantic)), alone)
    near = near[: cell.shots]
    return (near, semantic) if len(near) == cell.shots and pool.apis.keys() >= {*semantic} else None


def _prompt(
    pool: Pool,
    candidate: Candidate,
    cell: Cell,
    number: int,
    kept: float,
    rng: random.Random,
    count: Callable[[str], int],
    limit: int,
    form: DefinitionForm,
) -> tuple | None:
    """Pair, prompt, target, tokens, few-shots and definitions of a prompt; None where the flow does not suit the cell
    or something in it is not in the prompt."""
    chosen = _chosen(pool, candidate, cell, number, rng)
    if chosen is None:
        return None
    near, semantic = chosen
    if not pool.sets[candidate.row] <= {*semantic}.union(*(pool.sets[row] for row in near)):
        return None  # quick, for most that are not answerable
    target, requests, called = pool.read(candidate.row), pool.pairs["request"], pool.pairs["apis"]

    def names(shown: int) -> list[str]:
        first = few_shot_definitions(near[:shown], called) if cell.definitions in ("fd", "fd_sfd") else []
        return list(dict.fromkeys([*first, *semantic]))

    def answerable(shown: int) -> bool:
        facts = {(name, key) for name in names(shown) for key in ("", *pool.apis[name].keys)}
        return target.facts <= facts.union(*(pool.read(row).facts for row in near[:shown]))

    every = names(len(near))
    if not answerable(len(near)):
        return None
    held = target.names.union(*(pool.read(row).names for row in near), *(api_names(pool.apis[name]) for name in every))
    new = Renaming(held, pool.known, kept, rng)
    shots = [(requests[row], print_flow(new.flow(pool.read(row).flow))) for row in near]
    apis = {name: new.api(pool.apis[name]) for name in every}

    def fitted_with(shown: int) -> Fitted:
        chosen = [apis[name] for name in names(shown)]
        texts = {one: [api.definition_in(one) for api in chosen] for one in dict.fromkeys([form, COMPACT])}
        return fit(requests[candidate.row], shots[:shown], texts.__getitem__, limit, count, form=form)

    # At test time definitions give way to few-shots in a far larger window; here they must not, or 20 few-shots with
    # definitions would be 20 few-shots.
    attempts = ((shown, fitted_with(shown)) for shown in range(len(near), -1, -1))
    fitted = next((one for shown, one in attempts if (one.shots, one.definitions) == (shown, len(names(shown)))), None)
    if fitted is None or not answerable(fitted.shots):
        return None
    answer = print_flow(new.flow(target.flow)) + STOP[0]
    return pool.pairs["pair"][candidate.row], fitted.prompt, answer, fitted.tokens, fitted.shots, fitted.definitions
