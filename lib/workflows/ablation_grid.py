"""What the ablation asks: every condition, on each test set and on APIs held out of training, and the prompts of each.

The in-context model is two: one learned on half of the connectors, one on the other. A flow is asked of the one that
learned on the half that the flow's connectors are not of; flows with connectors of both halves are not asked of it.

`asked_conditions` says which conditions and on how many flows, `write_prompts` writes their prompts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from lib.generation.answers import whole_units
from lib.generation.local import load_tokenizer
from lib.generation.models import locate
from lib.generation.remote import estimate_tokens
from lib.retrieval.neighbours import nearest
from lib.workbook.parameters import is_remote
from lib.workflows.ablation import Condition, write_condition
from lib.workflows.apis import DefinitionForm
from lib.workflows.catalogue import Catalogue
from lib.workflows.few_shots import few_shot_definitions
from lib.workflows.pairs import sample
from lib.workflows.prompts import token_counter

KEPT = 100  # flows of a condition, at most, whose answers come with the project
UNSEEN_SHOTS = 5  # in the prompts that ask for APIs held out of training
UNSEEN_FINETUNED, UNSEEN_HELD = "unseen: fine-tuned", "unseen: fine-tuned, catalogue"
UNSEEN = "unseen"  # the test set of flows with such APIs
OTHER_HALF = {"a": "b", "b": "a"}

Counter = Callable[[str], int]


class Asked(NamedTuple):
    """A condition that is asked.

    Attributes:
        name: in the artifacts.
        condition: its `flows` is the number of requests of the test set that are asked.
        test_set: `test` (wordings held out of training), `test_same` (those of training) or `UNSEEN`.
        added: examples of each API held out of training that are added to the few-shots; None for test flows.
    """

    name: str
    condition: Condition
    test_set: str = "test"
    added: int | None = None


def asked_conditions(
    rows: Sequence[Condition], test_flows: Mapping[Any, int], new_shots: Iterable[int], unseen_flows: int, reader: str
) -> list[Asked]:
    """Every condition that is asked, in the order of asking.

    Args:
        rows: of the ablation, each asked on its `flows` of each test set or as many as there are.
        test_flows: {test set: how many there are}.
        new_shots: examples of each API held out of training that are added to the few-shots, the fewest first.
        unseen_flows: requests for such APIs; with 0 none of their conditions is asked.
        reader: the generator that is asked for these, beside the fine-tuned one.
    """
    asked = [
        Asked(row.name, row.model_copy(update={"flows": min(row.flows, there)}), test_set)
        for test_set, there in test_flows.items()
        for row in rows
    ]
    if not unseen_flows:
        return asked
    for n in new_shots:
        for what in ("none", "fd_sfd") if n else ("none", "sfd", "gold"):
            row = Condition.model_validate(["pretrained", UNSEEN_SHOTS, what, reader, "free", unseen_flows])
            asked.append(Asked(unseen_name(n, what), row, UNSEEN, n))
    for name, decoding in ((UNSEEN_FINETUNED, "free"), (UNSEEN_HELD, "catalogue")):
        row = Condition.model_validate(["pretrained", 0, "none", "finetuned", decoding, unseen_flows])
        asked.append(Asked(name, row, UNSEEN, 0))
    return asked


def unseen_name(added: int, definitions: str) -> str:
    """The name of a condition on APIs held out of training, such as `unseen: 1 new, fd_sfd, free`."""
    return f"unseen: {added} new, {definitions}, free"


def with_new_shots(
    training: pd.DataFrame, unseen: pd.DataFrame, tested: Sequence[str], new: set[str], n: int, seed: int
) -> pd.DataFrame:
    """The training pairs and, for each API that they never use, n pairs that do: few-shots added without retraining.

    Args:
        training, unseen: columns pair, request, dsl, apis, one index for both (rows of the same array of vectors).
        tested: pairs of `unseen` that are asked about, and so are never added.
        new: names of the APIs held out of training.
        n: pairs for each of them; fewer where there are not as many.
        seed: of the draw.

    Returns:
        rows of `training` and then of `unseen`, their index kept.
    """
    rest = unseen[~unseen["pair"].isin(set(tested))]
    rest = rest.iloc[np.random.default_rng(seed).permutation(len(rest))]
    added = dict.fromkeys(new, 0)
    chosen = []
    for row, apis in zip(rest.index, rest["apis"], strict=True):
        wanted = new.intersection(apis)
        if any(added[name] < n for name in wanted):
            chosen.append(row)
            for name in wanted:
                added[name] += 1
    return pd.concat([training, unseen.loc[chosen]])


@dataclass(frozen=True)
class Unseen:
    """Requests for APIs held out of training, and their few-shots.

    Attributes:
        requests: those that may be asked, the first of them are; columns pair, request, apis, half.
        new: names of the APIs held out.
        pools: {examples of each: pairs to choose few-shots from}, the training pairs first.
        shots: {examples of each: for each request positions in the pool, nearest first}; empty where nothing may be
            asked.
    """

    requests: pd.DataFrame
    new: Collection[str]
    pools: Mapping[int, pd.DataFrame]
    shots: Mapping[int, list[list[int]]]

    def wanted(self) -> list[list[str]]:
        """For each request the APIs held out that it needs."""
        return [sorted(set(self.new).intersection(apis)) for apis in self.requests["apis"]]

    def shown(self, added: int) -> np.ndarray:
        """For each request the share of these, in percent, that one of its few-shots calls."""
        apis = self.pools[added]["apis"]
        called = [set(apis.iloc[list(shots)].explode()) for shots in self.shots[added]]
        return self.covered(called)

    def covered(self, names: Sequence[Collection[str]]) -> np.ndarray:
        """For each request the share of the wanted APIs held out, in percent, that is among its `names`."""
        return np.array(
            [
                100 * np.mean([name in among for name in wanted])
                for among, wanted in zip(names, self.wanted(), strict=True)
            ]
        )


def held_out(
    flows: pd.DataFrame, catalogue: Catalogue, vectors: np.ndarray, new_shots: Collection[int], seed: int
) -> Unseen:
    """Which requests for APIs held out of training may be asked, a third of them, and their few-shots.

    Args:
        flows: columns pair, split, request, dsl, apis, half; a range index.
        vectors: of their requests, (flows, dimensions), from the pretrained encoder.
        new_shots: examples of each such API to add; a number that no pair is left for gives none.
        seed: of the draws.
    """
    new = {api.name for api in catalogue if not api.in_training}
    training, unseen = flows[flows["split"] == "training"], flows[flows["split"] == "unseen"]
    drawn = in_one_half_first(unseen.iloc[np.random.default_rng(seed).permutation(len(unseen))].head(len(unseen) // 3))
    pools = {n: with_new_shots(training, unseen, drawn["pair"], new, n, seed) for n in sorted({0, *new_shots})}
    asked = vectors[drawn.index]
    shots = {
        n: nearest(vectors[pool.index], asked, UNSEEN_SHOTS)[0].tolist()
        for n, pool in pools.items()
        if len(drawn) and (not n or len(pool) > len(training))
    }
    return Unseen(drawn, new, pools, shots)


def shots_by_selector(
    few_shots: pd.DataFrame, training: pd.DataFrame, rows: Sequence[Condition]
) -> dict[str, pd.Series]:
    """Each selector's few-shots, by pair, as positions in the training pairs, nearest first.

    Args:
        few_shots: columns selector, pair, shot (a training pair), rank (from 1).
        rows: of the ablation, whose few-shots are needed.

    Raises:
        ValueError: fewer were kept than a row needs, and there are more training pairs; or none by its selector.
    """
    chosen = set(few_shots["selector"])
    kept, most = few_shots["rank"].max(), max(row.shots for row in rows)
    if kept < min(most, len(training)):
        raise ValueError(f"notebook 08 kept {kept} few-shots a request, a row needs {most}: set its `shots`")
    if missing := next((row for row in rows if row.selector == "tst_affine" and "tst_affine" not in chosen), None):
        raise ValueError(
            f"notebook 08 kept no few-shots by tst_affine, which the row {missing.name} needs: name it in "
            "`searched_whole`"
        )
    position = {pair: i for i, pair in enumerate(training["pair"])}
    return {
        name: part["shot"].map(position).groupby(part["pair"], sort=False).agg(list)
        for name, part in few_shots.groupby("selector")
    }


def in_one_half_first(flows: pd.DataFrame) -> pd.DataFrame:
    """The same rows, those whose connectors are of one half (column half) first: any sample then shares its flows with
    that of the in-context model, which is asked no others."""
    return flows.iloc[np.argsort(flows["half"].eq("").to_numpy(), kind="stable")]


def order_of_asking(flows: pd.DataFrame, test_sets: Sequence[str], seed: int) -> dict[str, pd.DataFrame]:
    """{test set: its flows in the order of asking}, of which every condition takes the first; only sets that have any.

    Args:
        flows: columns pair, split, half and whatever else.
        seed: of the order.
    """
    ordered = {name: in_one_half_first(sample(flows, name, len(flows), seed)) for name in test_sets}
    return {name: part for name, part in ordered.items() if len(part)}


def may_be_asked(unseen: Unseen, reader: str) -> int:
    """How many requests for APIs held out of training a generator may be asked."""
    return int((unseen.requests["half"] != "").sum()) if reader == "in_context" else len(unseen.requests)


def definitions_beside(
    rows: Sequence[Condition], near: Mapping[str, pd.Series], pairs: Sequence[str], apis: Sequence[Sequence[str]]
) -> dict[tuple[str, int], int]:
    """How many definitions SFD shows beside the few-shots of each (selector, shots): as many as FD has on average, and
    at least one.

    Args:
        near: few-shots by pair, of each selector that SFD may stand beside.
        pairs: over which the mean is taken.
        apis: of each training pair, by position.
    """
    beside = {(row.selector, row.shots) for row in rows if row.shots and row.selector in near}
    numbers = {}
    for selector, shots in sorted(beside | {("pretrained", UNSEEN_SHOTS)}):
        sizes = [len(few_shot_definitions(shown[:shots], apis)) for shown in near[selector][list(pairs)]]
        numbers[selector, shots] = max(1, round(np.mean(sizes)))
    return numbers


def reading_windows(models: Mapping[str, str], prompt_window: int) -> dict[str, tuple[int, Counter]]:
    """For each role its model's window, in tokens and at most `prompt_window`, and what counts the tokens of a text (of
    a model behind an endpoint an estimate)."""
    found: dict[str, tuple[int, Counter]] = {}
    for model in dict.fromkeys(models.values()):
        if is_remote(model):
            found[model] = prompt_window, estimate_tokens
        else:
            tokenizer, config = load_tokenizer(locate(model))
            found[model] = min(config.max_position_embeddings, prompt_window), token_counter(tokenizer)
    return {role: found[model] for role, model in models.items()}


@dataclass(frozen=True)
class Materials:
    """What prompts are written from.

    Attributes:
        training: the pairs that few-shots come from, columns request, dsl, apis.
        catalogue: has the definitions.
        asked: {test set: its flows in the order of asking}, columns pair, request, apis, half.
        near: {selector: few-shots by pair, as positions in `training`, nearest first}; those drawn at random and those
            of another request are not among them.
        semantic: the API names nearest to each pair's request (SFD).
        beside: of `definitions_beside`.
        room: {generator: (tokens that a prompt may have, what counts them)}.
        unseen: requests for APIs held out of training.
        seed: of the few-shots drawn at random.
        form: of definitions.
    """

    training: pd.DataFrame
    catalogue: Catalogue
    asked: Mapping[str, pd.DataFrame]
    near: Mapping[str, pd.Series]
    semantic: pd.Series
    beside: Mapping[tuple[str, int], int]
    room: Mapping[str, tuple[int, Counter]]
    unseen: Unseen
    seed: int
    form: DefinitionForm = "described"

    def shots(self, row: Condition, test_set: str, pairs: Sequence[str]) -> list[list[int]]:
        """The few-shots of test requests; those drawn at random are other ones for each request, and those of another
        request are the nearest ones of the next request in the order of asking."""
        if row.selector == "random":
            draw, size = np.random.default_rng([self.seed, row.shots]), min(row.shots, len(self.training))
            return [draw.choice(len(self.training), size, replace=False).tolist() for _ in pairs]
        if row.selector == "other":
            order = self.asked[test_set]["pair"].tolist()
            following = dict(zip(order, [*order[1:], *order[:1]], strict=True))
            return self.near["pretrained"][[following[pair] for pair in pairs]].tolist()
        return self.near[row.selector][list(pairs)].tolist()


def prompts_asked(
    asked: Sequence[Asked],
    write: Callable[[Sequence[Asked]], pd.DataFrame],
    kept: Callable[[pd.DataFrame], Sequence[bool]],
) -> tuple[list[Asked], pd.DataFrame]:
    """The conditions, each on all of its first `KEPT` flows whose answers are kept, where these are as many as it is to
    be asked on; else on so many. And their prompts.

    Args:
        write: the prompts of conditions, see `write_prompts`.
        kept: whether the answer to each prompt is kept.
    """
    conditions, parts = [], []
    for one in asked:
        wanted = one.condition.flows

        def of_flows(n: int, one=one) -> Asked:
            return one._replace(condition=one.condition.model_copy(update={"flows": n}))

        prompts = write([of_flows(max(wanted, KEPT))])
        units = whole_units(prompts["unit"], kept(prompts))
        chosen = units if len(units) >= wanted else prompts["unit"].tolist()[:wanted]
        conditions.append(of_flows(len(chosen)))
        parts.append(prompts[prompts["unit"].isin(chosen)])
    return conditions, pd.concat(parts, ignore_index=True) if parts else write([])


def write_prompts(asked: Sequence[Asked], materials: Materials) -> pd.DataFrame:
    """The prompts of conditions: what `write_condition` returns, with columns condition (its name), test_set, half (of
    the flow's connectors) and model: the generator, of the in-context model which of its two."""
    parts = [_prompts(one, materials) for one in asked]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=["condition", "test_set", "model"])


def _prompts(asked: Asked, materials: Materials) -> pd.DataFrame:
    row, unseen = asked.condition, materials.unseen
    requests = unseen.requests if asked.added is not None else materials.asked[asked.test_set]
    if row.generator == "in_context":
        requests = requests[requests["half"] != ""]
    requests = requests.head(row.flows)
    if asked.added is None:
        pool, shots = materials.training, materials.shots(row, asked.test_set, requests["pair"])
    else:
        place = dict(zip(unseen.requests["pair"], unseen.shots[asked.added], strict=True))
        pool, shots = unseen.pools[asked.added], [place[pair] for pair in requests["pair"]]
    number = materials.beside.get((row.selector, row.shots), 0)
    prompts = write_condition(
        row,
        requests,
        shots,
        pool,
        materials.catalogue,
        *materials.room[row.generator],
        [list(materials.semantic[pair][:number]) for pair in requests["pair"]],
        first=asked.added is not None,
        form=materials.form,
    )
    half = requests["half"].to_numpy()
    of_half = [f"in_context-{OTHER_HALF[one]}" for one in half] if row.generator == "in_context" else row.generator
    return prompts.assign(condition=asked.name, test_set=asked.test_set, half=half, model=of_half)
