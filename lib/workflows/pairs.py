"""Pairs of a request in plain English and a flow: those that people wrote, judged or reworded, and what sides share.

JSON lines, a pair a line; `data/README.md` shows examples. The values that simulated pairs are made with are read
here, too.
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
from lib.workbook.inputs import InputError, Strict, Text, did_you_mean, read_records, read_yaml, validated
from lib.workflows.apis import KINDS
from lib.workflows.catalogue import Catalogue
from lib.workflows.language import Flow, FlowError, called_apis, calls, parse, print_flow, validate
from lib.workflows.scoring import similarity

log = logging.getLogger(__name__)

# In the order of the rows: a set added later comes last, so that it moves no other's pairs.
Split = Literal["training", "test", "unseen", "test_same"]
SPLITS: tuple[Split, ...] = get_args(Split)
# Of a frame of pairs; `lib.workflows.generating.generate` tells what they hold.
COLUMNS = "pair split request dsl apis said".split()
FIRST_UNSEEN = 408  # unseen pairs whose requests are encoded with those of training and test
DECISIONS = ("keep", "drop", "undecided", "not in the file")


def training_hash(pairs: pd.DataFrame, how: Any) -> str:
    """SHA-256 over the training pairs, ids, requests and flows in their order, and over how they are learned from (what
    JSON holds)."""
    digest = hashlib.sha256(json.dumps(how).encode())
    for _, column in pairs.loc[pairs["split"] == "training", ["pair", "request", "dsl"]].items():
        digest.update("\0".join(column).encode() + b"\0\0")
    return digest.hexdigest()


def pair_of(name: str, split: str, request: str, flow: Flow, said: list[list[str]] | None = None) -> dict[str, Any]:
    """A pair, by `COLUMNS`. It is taken to say all arguments unless `said` has the keys of each call that it says."""
    told = {"pair": name, "split": split, "request": request, "dsl": print_flow(flow), "apis": called_apis(flow)}
    return told | {"said": said or [list(call.keys) for call in calls(flow)]}


def normal_form(request: str) -> str:
    """A request without case, punctuation and white space: two that share it are the same request."""
    return " ".join(re.findall(r"\w+", request.casefold()))


def dsl_hash(dsl: str) -> str:
    return hashlib.sha256(dsl.encode()).hexdigest()[:12]


def sample(pairs: pd.DataFrame, split: str, n: int, seed: int) -> pd.DataFrame:
    """The first n pairs of one seeded order of a split, or all that there are: samples of different sizes nest."""
    rows = pairs[pairs["split"] == split]
    return rows.iloc[np.random.default_rng(seed).permutation(len(rows))[:n]]


class WrittenPair(Strict):
    """A pair of one's own."""

    request: Text
    dsl: Text
    id: Text | None = None
    split: Split = "training"


def read_pairs(path: str | Path, catalogue: Catalogue) -> pd.DataFrame:
    """Your own pairs, as `lib.workflows.generating.generate` returns them; `said` has all arguments.

    A record has `request` and `dsl`, and where wanted `id` and `split` (training unless given). A warning counts the
    flows with an API or a parameter that the catalogue lacks, and names the first.

    Raises:
        InputError: no training or no test pair, a wrong field, an id there twice, or a flow that does not parse or
            calls nothing; names file, line and field.
    """
    written: dict[str, dict[str, Any]] = {}
    lacking: list[str] = []
    for number, record in read_records(path):
        where = f"{path}, line {number}"
        one = validated(WrittenPair, record, where)
        try:
            flow = parse(one.dsl)
        except FlowError as error:
            raise InputError(f"{where}: dsl: {error}") from error
        name = one.id or f"{one.split}-{number:05d}"
        if name in written:
            raise InputError(f"{where}: id: {name!r} is there twice")
        written[name] = pair_of(name, one.split, one.request, flow)
        if not written[name]["apis"]:
            raise InputError(f"{where}: dsl: calls no API")
        report = validate(flow, catalogue)
        unknown = [f"{api} is unknown{did_you_mean(api, catalogue.apis)}" for api in report.made_up_names]
        unknown += [f"{api} has no parameter {key}{did_you_mean(key, catalogue[api].keys)}"
                    for api, key in report.made_up_parameters]  # fmt: skip
        lacking += [f"line {number}: {what}" for what in unknown[:1]]
    pairs = pd.DataFrame(list(written.values()), columns=COLUMNS)
    for split in ("training", "test"):
        if split not in set(pairs["split"]):
            raise InputError(f'{path}: split: no pair is a {split} pair ("split": "{split}")')
    if lacking:
        log.warning("%s: %d flows use what the catalogue lacks; %s", path, len(lacking), lacking[0])
    return pairs


class Reworded(Strict):
    """A request in somebody's own words for a pair's flow."""

    pair: Text
    dsl: Text
    request: Text


def read_reworded(path: str | Path, pairs: pd.DataFrame) -> pd.DataFrame:
    """Rows of `pairs` whose request people have reworded, with the new one and the old as `original`.

    The file is a YAML list of `pair`, `dsl` (`dsl_hash` of its flow) and `request`; InputError names what is wrong.
    What is reworded of pairs that are not here or have another flow here, as of another seed, is left out.
    """
    reworded = read_yaml(path, TypeAdapter(list[Reworded]))
    hashes = pd.DataFrame([(one.pair, one.dsl, one.request) for one in reworded], columns=["pair", "hash", "reworded"])
    found = hashes.merge(pairs[pairs["pair"].isin(hashes["pair"])], on="pair")
    found = found[found["dsl"].map(dsl_hash) == found["hash"]].reset_index(drop=True)
    return found.assign(original=found["request"], request=found["reworded"])[[*pairs.columns, "original"]]


def read_values(path: str | Path) -> dict[str, list]:
    """The values that people name, by kind, from a YAML mapping; InputError names file and kind of what is wrong."""
    values = read_yaml(path, TypeAdapter(dict[str, list[bool | int | float | str]]), strict=True)
    if unknown := values.keys() - KINDS.keys():
        raise InputError(f"{path}: unknown kinds: {', '.join(sorted(unknown))}")
    return values


class Judged(Strict):
    """A line of the review file: a test pair, and what somebody decided about it."""

    id: Text
    request: str
    dsl: str
    decision: Literal["", "keep", "drop"] = ""


def review_lines(pairs: pd.DataFrame, seed: int) -> list[str]:
    """The test pairs in a seeded order, a JSON text each, with nothing decided: the first n are a random sample."""
    asked = sample(pairs, "test", len(pairs), seed)[["pair", "request", "dsl"]]
    records = asked.rename(columns={"pair": "id"}).assign(decision="").to_dict("records")
    return [json.dumps(record, ensure_ascii=False) for record in records]


def is_judged(path: str | Path) -> bool:
    """Whether somebody has worked on a review file: it decides something, or is no longer one that can be read."""
    try:
        return any(record.get("decision") for _, record in read_records(path))
    except InputError:
        return Path(path).exists()


def apply_review(pairs: pd.DataFrame, path: str | Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The pairs without the test pairs that people dropped, as the workflow paper's judges did (section 4.1); and
    decision, pairs: how many were kept and dropped, are still undecided, and not in the file.

    Raises:
        InputError: the file cannot be read or has no lines, a field is wrong, a pair is there twice, is no test pair or
            has another request or flow by now, or no test pair is left; names file, line and field.
    """
    known = pairs[pairs["split"] == "test"].set_index("pair")
    decided: dict[str, str] = {}
    for number, record in read_records(path):
        where = f"{path}, line {number}"
        line = validated(Judged, record, where)
        if line.id in decided:
            raise InputError(f"{where}: id: {line.id!r} is there twice")
        if line.id not in known.index:
            raise InputError(f"{where}: id: {line.id!r} is no test pair: the file was written for other pairs")
        for field in ("request", "dsl"):
            if getattr(line, field) != (now := known.loc[line.id, field]):
                raise InputError(f"{where}: {field}: has changed since the file was written; it is now {now!r}")
        decided[line.id] = line.decision or "undecided"
    dropped = [name for name, decision in decided.items() if decision == "drop"]
    if not decided or len(dropped) == len(known):
        raise InputError(f"{path}: decision: " + ("every test pair is dropped" if decided else "holds no test pair"))
    found = pd.Series([decided.get(name, DECISIONS[-1]) for name in known.index]).value_counts()
    counts = found.reindex(DECISIONS, fill_value=0).rename_axis("decision").reset_index(name="pairs")
    return pairs[~pairs["pair"].isin(dropped)].reset_index(drop=True), counts


def request_vectors(encoder, pairs: pd.DataFrame, progress: bool = False, keep: Path | None = None) -> np.ndarray:
    """Unit vectors of the requests, one row a pair: float32 (pairs, dimensions).

    The last bits of a vector depend on the texts that are encoded beside it. So what came later, the set `test_same`
    and further unseen pairs, is encoded apart: it moves no vector of the others, nor the pairs mined from them.
    `keep`: a folder for the next run, see `lib.retrieval.dense.encode`.
    """
    later = pairs["split"] == "test_same"
    later |= (pairs["split"] == "unseen") & (pairs.groupby("split").cumcount() >= FIRST_UNSEEN)
    made = {}
    for name, rows in (("requests", ~later), ("later_requests", later)):
        if rows.any() or name == "requests":
            kept = keep / f"{name}.safetensors" if keep else None
            made[name] = encode(encoder, pairs.loc[rows, "request"].tolist(), progress=progress, keep=kept)
    order = np.argsort(np.concatenate([np.flatnonzero(~later), np.flatnonzero(later)]))
    return np.concatenate(list(made.values()))[order]


def nearest_training_pairs(pairs: pd.DataFrame, rows: np.ndarray, cosines: np.ndarray) -> pd.DataFrame:
    """The training pair whose request is nearest, for each pair that is not for training.

    `rows`: for each of these, in order, the row number of its nearest among the training pairs, with their `cosines`.
    Returns pair, split, nearest (the training pair), cosine, similarity (LCS of the two flows' APIs over the longer,
    0-1), same_flow (the two flows are equal word for word).
    """
    trained = pairs["split"] == "training"
    found, others = pairs[trained].iloc[rows].reset_index(drop=True), pairs[~trained].reset_index(drop=True)
    alike = [similarity(*apis) for apis in zip(found["apis"], others["apis"], strict=True)]
    equal = found["dsl"] == others["dsl"]
    told = {"nearest": found["pair"], "cosine": cosines, "similarity": alike, "same_flow": equal}
    return others[["pair", "split"]].assign(**told)
