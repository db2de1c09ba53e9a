"""Pairs of a request in plain English and a flow: those that people wrote are read, and what training and test share.

The values that simulated pairs are made with are read here, too.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from pydantic import TypeAdapter

from lib.retrieval.dense import encode
from lib.retrieval.neighbours import nearest
from lib.workbook.inputs import InputError, Strict, Text, did_you_mean, read_records, read_yaml, validated
from lib.workflows.apis import KINDS
from lib.workflows.catalogue import Catalogue
from lib.workflows.language import Flow, FlowError, If, called_apis, calls, inside, parse, print_flow, validate
from lib.workflows.scoring import similarity

log = logging.getLogger(__name__)

# In the order of the rows: a set added later comes last, so that it moves no other's pairs.
Split = Literal["training", "test", "unseen", "test_same"]
SPLITS: tuple[Split, ...] = get_args(Split)
TEST_SETS: tuple[Split, ...] = ("test", "test_same")  # in other wordings than training's, and in the same
REQUESTS, FRAMES = "requests, without case and punctuation", "frames of requests"  # what simulated splits keep apart
# Of a frame of pairs; `lib.workflows.generating.generate` tells what they hold.
COLUMNS = "pair split request dsl apis trigger n_calls conditions said frame wordings quoted clauses".split()
FIRST_UNSEEN = 408  # unseen pairs whose requests are encoded with those of training and test
JSON_TYPES: dict[str, Any] = {"string": str, "number": (int, float), "integer": int, "boolean": bool}


def training_hash(pairs: pd.DataFrame, how: Any) -> str:
    """SHA-256 over the training pairs, ids, requests and flows in their order, and over how they are learned from.

    Args:
        pairs: columns pair, split, request, dsl.
        how: anything that JSON holds.
    """
    digest = hashlib.sha256(json.dumps(how).encode())
    for _, column in pairs.loc[pairs["split"] == "training", ["pair", "request", "dsl"]].items():
        digest.update("\0".join(column).encode() + b"\0\0")
    return digest.hexdigest()


def pair_of(name: str, split: str, request: str, flow: Flow, **how: Any) -> dict[str, Any]:
    """A pair, by `COLUMNS`, with what its flow tells. How the request was made (frame, wordings, quoted, clauses) is
    empty unless given, and it is taken to say all arguments unless `said` has the keys of each call that it says."""
    apis = called_apis(flow)
    pair: dict[str, Any] = {
        "pair": name,
        "split": split,
        "request": request,
        "dsl": print_flow(flow),
        "apis": apis,
        "trigger": apis[0],
    }
    pair |= {"n_calls": len(apis), "conditions": count_conditions(flow), "frame": "", "wordings": [], "quoted": []}
    return pair | {"said": [list(call.keys) for call in calls(flow)], "clauses": []} | how


def normal_form(request: str) -> str:
    """A request without case, punctuation and white space: two that share it are the same request."""
    return " ".join(re.findall(r"\w+", request.casefold()))


def count_conditions(flow: Flow) -> int:
    """How many conditions a flow tests: the branches of its `if`s without `else`."""
    return sum(len(statement.branches) for statement in inside(flow.statements) if isinstance(statement, If))


class WrittenPair(Strict):
    """A pair of one's own."""

    request: Text
    dsl: Text
    id: Text | None = None
    split: Split = "training"


def read_pairs(path: str | Path, catalogue: Catalogue) -> pd.DataFrame:
    """Your own pairs from JSON lines: `request` and `dsl`, and where wanted `id` and `split` (training unless given).

    Returns:
        As `lib.workflows.generating.generate`, with `unknown` (APIs of the flow that the catalogue lacks; a warning
        tells how many); `frame`, `wordings`, `quoted` and `clauses` are empty, and `said`
        has all arguments. Another warning names the first parameter that its API lacks.

    Raises:
        InputError: the file holds no training or no test pair, a record has a wrong field, an id is there twice, or a
            flow does not parse or calls nothing; names file, line and field.
    """
    written: list[dict[str, Any]] = []
    lines: dict[str, int] = {}
    lacking: list[tuple[str, str, str]] = []  # place, API and key of each flow's first parameter that is none
    for number, record in read_records(path):
        where = f"{path}, line {number}"
        pair, flow = _pair_of(record, number, where)
        lacking += [(where, *made_up) for made_up in validate(flow, catalogue).made_up_parameters[:1]]
        if pair["pair"] in lines:
            raise InputError(f"{where}: id: {pair['pair']!r} is also in line {lines[pair['pair']]}")
        lines[pair["pair"]] = number
        written.append(pair)
    pairs = pd.DataFrame(written, columns=COLUMNS)
    for split in ("training", "test"):
        if split not in set(pairs["split"]):
            raise InputError(f'{path}: split: no pair is a {split} pair ("split": "{split}")')
    pairs["unknown"] = [[api for api in dict.fromkeys(apis) if api not in catalogue] for apis in pairs["apis"]]
    strange = sorted({api for unknown in pairs["unknown"] for api in unknown})
    if strange:
        flows = int(pairs["unknown"].map(bool).sum())
        using = "1 flow uses" if flows == 1 else f"{flows} flows use"
        log.warning("%s: %s APIs that the catalogue lacks: %s", path, using, ", ".join(strange[:5]))
    if lacking:
        where, api, key = lacking[0]
        close, others = did_you_mean(key, catalogue[api].keys), len(lacking) - 1
        having = "1 more flow has" if others == 1 else f"{others} more flows have"
        more = f"; {having} parameters that the catalogue lacks" if others else ""
        log.warning("%s: %s has no parameter %s%s%s", where, api, key, close, more)
    return pairs


def _pair_of(record: dict, number: int, where: str) -> tuple[dict[str, Any], Flow]:
    written = validated(WrittenPair, record, where)
    try:
        flow = parse(written.dsl)
    except FlowError as error:
        raise InputError(f"{where}: dsl: {error}") from error
    apis = called_apis(flow)
    if not apis:
        raise InputError(f"{where}: dsl: calls no API")
    name = written.id or f"{written.split}-{number:05d}"
    return pair_of(name, written.split, written.request, flow), flow


def dsl_hash(dsl: str) -> str:
    return hashlib.sha256(dsl.encode()).hexdigest()[:12]


class Reworded(Strict):
    """A request in somebody's own words for the flow of a pair, whose hash is `dsl`."""

    pair: Text
    dsl: Text
    request: Text


def read_reworded(path: str | Path) -> pd.DataFrame:
    """Requests that people have reworded, from a YAML list of `pair`, `dsl` (`dsl_hash` of its flow) and `request`.

    Raises:
        InputError: a record has a wrong field, or a pair is there twice; names file, record and field.
    """
    records = read_yaml(path)
    if not isinstance(records, list) or not records:
        raise InputError(f"{path}: expected a list of records")
    read: dict[str, Reworded] = {}
    for number, record in enumerate(records, start=1):
        where = f"{path}, record {number}"
        reworded = validated(Reworded, record, where)
        if reworded.pair in read:
            raise InputError(f"{where}: pair: {reworded.pair!r} is there twice")
        read[reworded.pair] = reworded
    return pd.DataFrame([record.model_dump() for record in read.values()])


def match_reworded(reworded: pd.DataFrame, pairs: pd.DataFrame) -> pd.DataFrame:
    """The pairs whose flow is the one that was reworded, with the new request, and the old one as `original`.

    Another seed or size of the world has other pairs; what is reworded of pairs that are not here, or have another
    flow here, is left out.

    Args:
        reworded: as `read_reworded` returns it.
        pairs: as `lib.workflows.generating.generate` returns it.

    Returns:
        Their rows of `pairs` in the order of `reworded`, with the column `original`; which stretch of them says which
        call is not known.
    """
    hashes = reworded.rename(columns={"dsl": "hash", "request": "reworded"})
    found = hashes.merge(pairs[pairs["pair"].isin(reworded["pair"])], on="pair")
    found = found[found["dsl"].map(dsl_hash) == found["hash"]].reset_index(drop=True)
    found = found.assign(original=found["request"], request=found["reworded"])
    if "clauses" in found:
        found["clauses"] = [[] for _ in found["pair"]]
    return found[[*pairs.columns, "original"]]


def sample(pairs: pd.DataFrame, split: str, n: int, seed: int) -> pd.DataFrame:
    """The first n pairs of one seeded order of a split, so that samples of different sizes nest.

    Args:
        pairs: columns pair, split, and whatever else.
        split: one of `SPLITS`.
        n: how many; all of them where there are fewer.
        seed: of the order.

    Returns:
        Rows of `pairs` in the seeded order.
    """
    rows = pairs[pairs["split"] == split]
    return rows.iloc[np.random.default_rng(seed).permutation(len(rows))[:n]]


# ---------------------------------------------------------------- values, and what training and test share


def read_values(path: str | Path) -> dict[str, list]:
    """The values that people name, by kind, from a YAML mapping.

    Raises:
        InputError: the file cannot be read, names an unknown kind, or a kind has a value twice, fewer than eight values
            (two where there are no more) or one of the wrong type.
    """
    values = read_yaml(path, TypeAdapter(dict[str, list[bool | int | float | str]]), strict=True)
    for kind, examples in values.items():
        if kind not in KINDS:
            raise InputError(f"{path}, {kind}: unknown kind")
        if len(set(examples)) < len(examples) or len(examples) < (2 if kind == "boolean" else 8):
            raise InputError(f"{path}, {kind}: needs at least eight values, each once")
        wrong = [example for example in examples if not has_type(example, KINDS[kind][0])]
        if wrong:
            raise InputError(f"{path}, {kind}: {wrong[0]!r} is no {KINDS[kind][0]}")
    return values


def has_type(value: object, type_name: str) -> bool:
    if type_name in ("array", "object"):
        return True
    return isinstance(value, JSON_TYPES[type_name]) and (type_name == "boolean") == isinstance(value, bool)


def leaks(pairs: pd.DataFrame) -> pd.DataFrame:
    """What training and test pairs have in common, for each set of `TEST_SETS` that there is.

    Args:
        pairs: as `lib.workflows.generating.generate` returns it; of your own pairs, frames and wordings are empty and
            left out here.

    Returns:
        test_set; what; training, test (distinct values on each side); shared (distinct values in both); affected
        (percent of the test pairs that have a shared one).
    """
    things = {
        REQUESTS: pairs["request"].map(normal_form).map(lambda form: [form]),
        FRAMES: pairs["frame"].map(lambda frame: [frame] if frame else []),
        "wordings of an API": pairs["wordings"].map(lambda used: [tuple(wording) for wording in used]),
        "flows, word for word": pairs["dsl"].map(lambda dsl: [dsl]),
        "sequences of APIs": pairs["apis"].map(lambda apis: [tuple(apis)]),
        "APIs": pairs["apis"].map(list),
    }
    known = {what: set(values[pairs["split"] == "training"].explode().dropna()) for what, values in things.items()}
    rows = []
    for test_set in TEST_SETS:
        asked = pairs["split"] == test_set
        if not asked.any():
            continue
        for what, values in things.items():
            training, test = known[what], set(values[asked].explode().dropna())
            if training or test:
                affected = 100 * values[asked].map(lambda held, known=training: not known.isdisjoint(held)).mean()
                rows.append((test_set, what, len(training), len(test), len(training & test), affected))
    return pd.DataFrame(rows, columns=["test_set", "what", "training", "test", "shared", "affected"])


def check_requests_apart(shared: pd.DataFrame) -> None:
    """That training and a test set of simulated pairs share no request, and training and `test` no frame.

    Args:
        shared: as `leaks` returns it.

    Raises:
        ValueError: they do; names what.
    """
    kept_apart = (shared["what"] == REQUESTS) | ((shared["what"] == FRAMES) & (shared["test_set"] == "test"))
    for test_set, rows in shared[kept_apart & (shared["shared"] > 0)].groupby("test_set", sort=False):
        raise ValueError(f"training and {test_set} share {' and '.join(rows['what'])}")


def check_held_out(pairs: pd.DataFrame, catalogue: Catalogue) -> None:
    """That APIs held out are in each unseen pair and in no other.

    Args:
        pairs: columns split, apis.

    Raises:
        ValueError: they are not.
    """
    held = {api.name for api in catalogue if not api.in_training}
    unseen = pairs["split"] == "unseen"
    without = pairs["apis"].map(held.isdisjoint)
    if not without[~unseen].all():
        raise ValueError("training or test pairs use an API held out")
    if without[unseen].any():
        raise ValueError("an unseen pair uses no API held out")


def outside_the_catalogue(pairs: pd.DataFrame, catalogue: Catalogue) -> tuple[int, int]:
    """How many flows call an API that the catalogue lacks, and how many have a parameter that it lacks."""
    reports = [validate(parse(dsl), catalogue) for dsl in pairs["dsl"]]
    names = sum(bool(report.made_up_names) for report in reports)
    return names, sum(bool(report.made_up_parameters) for report in reports)


def request_vectors(encoder, pairs: pd.DataFrame, progress: bool = False, keep: Path | None = None) -> np.ndarray:
    """Unit vectors of the requests, one row a pair: float32 (pairs, dimensions).

    The last bits of a vector depend on the texts that are encoded beside it. So what came later, the set `test_same`
    and further unseen pairs, is encoded apart: it moves no vector of the others, nor the pairs mined from them.

    Args:
        encoder: of `lib.retrieval.dense.load_encoder`.
        pairs: columns split, request.
        keep: a folder for the next run, see `lib.retrieval.dense.encode`.
    """
    kept = {name: keep / f"{name}.safetensors" if keep else None for name in ("requests", "later_requests")}
    place = pairs.groupby("split").cumcount()
    later = (pairs["split"] == "test_same") | ((pairs["split"] == "unseen") & (place >= FIRST_UNSEEN))
    requests = pairs["request"]
    vectors = encode(encoder, requests[~later].tolist(), progress=progress, keep=kept["requests"])
    if not later.any():
        return vectors
    both = np.empty((len(pairs), vectors.shape[1]), dtype=np.float32)
    both[~later] = vectors
    both[later] = encode(encoder, requests[later].tolist(), progress=progress, keep=kept["later_requests"])
    return both


def nearest_training_pairs(pairs: pd.DataFrame, vectors: np.ndarray) -> pd.DataFrame:
    """For each pair that is not for training, the training pair whose request is nearest.

    Args:
        pairs: columns pair, split, apis, dsl.
        vectors: unit vectors of the requests, one row a pair, in the same order.

    Returns:
        pair, split, nearest (the training pair), cosine, similarity (LCS of the two flows' APIs over the longer, 0-1),
        same_flow (the two flows are equal word for word).
    """
    trained = (pairs["split"] == "training").to_numpy()
    training, others = pairs[trained], pairs[~trained]
    indices, cosines = nearest(vectors[trained], vectors[~trained], 1)
    found = training.iloc[indices[:, 0]]
    return pd.DataFrame(
        {
            "pair": others["pair"].to_numpy(),
            "split": others["split"].to_numpy(),
            "nearest": found["pair"].to_numpy(),
            "cosine": cosines[:, 0],
            "similarity": [similarity(*apis) for apis in zip(found["apis"], others["apis"], strict=True)],
            "same_flow": found["dsl"].to_numpy() == others["dsl"].to_numpy(),
        }
    )
