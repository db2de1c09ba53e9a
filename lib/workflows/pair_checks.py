"""The values that flows are made with, and what training and test pairs share."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from pydantic import TypeAdapter

from lib.retrieval.dense import encode
from lib.retrieval.neighbours import nearest
from lib.workbook.inputs import InputError, read_yaml
from lib.workflows.apis import KINDS
from lib.workflows.catalogue import Catalogue
from lib.workflows.language import parse, validate
from lib.workflows.pairs import TEST_SETS, normal_form
from lib.workflows.scoring import similarity

REQUESTS, FRAMES = "requests, without case and punctuation", "frames of requests"  # what simulated splits keep apart
FIRST_UNSEEN = 408  # unseen pairs whose requests are encoded with those of training and test
JSON_TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "number": (int, float),
    "integer": int,
    "boolean": bool,
}


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
