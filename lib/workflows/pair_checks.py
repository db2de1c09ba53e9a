"""What a catalogue has to have before flows are made from it, its shape, and what training and test pairs share."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pandas as pd
from pydantic import TypeAdapter

from lib.retrieval.dense import encode
from lib.retrieval.neighbours import nearest
from lib.workbook.inputs import InputError, read_yaml
from lib.workflows.apis import API, APP, KINDS, SLOT, said
from lib.workflows.catalogue import Catalogue
from lib.workflows.language import parse, validate
from lib.workflows.pairs import SPLITS, TEST_SETS, normal_form
from lib.workflows.scoring import similarity

LEAST_PHRASES, LEAST_TERSE = 6, 2
CONJUNCTIONS = re.compile(r"(when|whenever|if|once|after|every time|each time|as soon as|please|then)\b", re.IGNORECASE)
REQUESTS, FRAMES = "requests, without case and punctuation", "frames of requests"  # what simulated splits keep apart
FIRST_UNSEEN = 408  # unseen pairs whose requests are encoded with those of training and test
JSON_TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "number": (int, float),
    "integer": int,
    "boolean": bool,
}
# DESIGN's figures, taken from 16,381 operations of real connectors, as (quantity, least, most).
TARGETS: tuple[tuple[str, float, float], ...] = (
    ("APIs", 680, 720),
    ("connectors", 85, 100),
    ("connectors with 12 to 25 APIs", 10, 14),
    ("connectors with 6 to 10 APIs", 35, 45),
    ("connectors with 2 to 5 APIs", 35, 45),
    ("triggers", 90, 110),
    ("parameters per API, median", 3, 3),
    ("parameters per API, 90th percentile", 9, 11),
    ("parameters per API, most", 11, 20),
    ("parameters without description, %", 11, 15),
    ("parameters below a body, %", 20, 60),
    ("APIs with an older or newer sibling", 30, 90),
    ("operation ids in several connectors", 10, 60),
    ("names or keys with - $ or a space", 10, 60),
    ("APIs with a dynamic schema, %", 1.5, 2.5),
    ("APIs held out", 40, 80),
    ("connectors held out", 4, 10),
)


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
        wrong = [example for example in examples if not _has_type(example, KINDS[kind][0])]
        if wrong:
            raise InputError(f"{path}, {kind}: {wrong[0]!r} is no {KINDS[kind][0]}")
    return values


def authoring_problems(catalogue: Catalogue, values: dict[str, list]) -> list[str]:
    """Why flows cannot be made from these APIs yet, one line a problem; empty where they can."""
    problems = [f"{api.name}: {problem}" for api in catalogue for problem in _problems_of(api, values)]
    askers: dict[str, set[str]] = defaultdict(set)
    for api in catalogue:
        for phrase in api.phrases:
            if f"{{{APP}}}" not in phrase:
                askers[SLOT.sub("{}", phrase.lower())].add(api.name)
    for phrase, names in askers.items():
        if len({catalogue[name].family for name in names}) > 1:
            problems.append(f"{', '.join(sorted(names))}: all have the phrase {phrase!r}, which names no app")
    return problems


def _problems_of(api: API, values: dict[str, list]) -> list[str]:
    problems = []
    for name, texts, least in (("phrases", api.phrases, LEAST_PHRASES), ("terse", api.terse, LEAST_TERSE)):
        if len({text.lower() for text in texts}) < max(least, len(texts)):
            problems.append(f"{name}: needs at least {least}, each once")
        problems += [f"{name}: {text!r} ends with punctuation" for text in texts if re.search(r"[.,;:?!]$", text)]
    problems += [f"phrases: {text!r} begins with a conjunction" for text in api.phrases if CONJUNCTIONS.match(text)]
    problems += [f"clauses: {text!r} has no slot" for text in api.clauses if not SLOT.findall(text)]
    if sum(f"{{{APP}}}" in text for text in api.phrases) < 2:
        problems.append("phrases: at least two must name the app with {app}")
    if not 3 <= len(api.description.split()) <= 20:
        problems.append("description: needs 3 to 20 words")
    if api.trigger and not any(output.summary for output in api.returns):
        problems.append("returns: a trigger needs outputs to test or to pass on")
    if len(api.parameters) > 20:
        problems.append("parameters: at most 20")
    asked = {api.parameter(s).key for t in (*api.phrases, *api.clauses) for s in SLOT.findall(t) if s != APP}
    for field in (*api.parameters, *api.returns):
        if field.kind == "choice" and len(field.examples) < 2:
            problems.append(f"{field.key}: a choice needs at least two examples")
        problems += [f"{field.key}: {e!r} is no {field.type}" for e in field.examples if not _has_type(e, field.type)]
    # A returned field may have the key of a parameter that people say: a slot means the parameter.
    for parameter in api.parameters:
        spoken = said(parameter.kind) and parameter.kind != "choice"
        if parameter.key in asked and not (said(parameter.kind) or parameter.examples):
            problems.append(
                f"{parameter.key}: nobody says a {parameter.kind}: take it out of the phrases or give examples"
            )
        elif parameter.required and spoken and not (parameter.examples or values.get(parameter.kind)):
            problems.append(f"{parameter.key}: kind {parameter.kind} has no values: give examples")
        if parameter.required and spoken and parameter.kind != "boolean" and parameter.key not in asked:
            problems.append(f"{parameter.key}: required, but no phrase or clause has it")
    return problems


def _has_type(value: object, type_name: str) -> bool:
    if type_name in ("array", "object"):
        return True
    return isinstance(value, JSON_TYPES[type_name]) and (type_name == "boolean") == isinstance(value, bool)


def offered(catalogue: Catalogue) -> list[API]:
    """The APIs that requests can ask for: what has no phrase is not held out, but left out. All, where none has one."""
    return [api for api in catalogue if api.phrases] or list(catalogue)


def shape(catalogue: Catalogue) -> pd.DataFrame:
    """The catalogue's shape beside the intended one; columns quantity, least, most, ours, within."""
    apis = list(catalogue)
    parameters = [parameter for api in apis for parameter in api.parameters]
    counts = np.array([len(api.parameters) for api in apis])
    sizes = Counter(api.connector for api in apis)
    asked_for = offered(catalogue)
    trained = {api.connector for api in asked_for if api.in_training}
    families = Counter(api.family for api in apis)
    repeated = Counter(api.operation for api in apis)
    names = {api.operation for api in apis} | {parameter.key for parameter in parameters}
    ours = {
        "APIs": len(apis),
        "connectors": len(sizes),
        "connectors with 12 to 25 APIs": sum(12 <= size <= 25 for size in sizes.values()),
        "connectors with 6 to 10 APIs": sum(6 <= size <= 10 for size in sizes.values()),
        "connectors with 2 to 5 APIs": sum(2 <= size <= 5 for size in sizes.values()),
        "triggers": sum(api.trigger for api in apis),
        "parameters per API, median": np.median(counts),
        "parameters per API, 90th percentile": np.percentile(counts, 90),
        "parameters per API, most": counts.max(),
        "parameters without description, %": 100 * np.mean([not parameter.description for parameter in parameters]),
        "parameters below a body, %": 100 * np.mean(["/" in parameter.key for parameter in parameters]),
        "APIs with an older or newer sibling": sum(families[api.family] > 1 for api in apis),
        "operation ids in several connectors": sum(count > 1 for count in repeated.values()),
        "names or keys with - $ or a space": sum(bool(re.search(r"[-$ ]", name)) for name in names),
        "APIs with a dynamic schema, %": 100 * np.mean([api.dynamic for api in apis]),
        "APIs held out": sum(not api.in_training for api in asked_for),
        "connectors held out": len({api.connector for api in asked_for} - trained),
    }
    frame = pd.DataFrame(TARGETS, columns=["quantity", "least", "most"])
    frame["ours"] = frame["quantity"].map(ours).astype(float)
    frame["within"] = frame["ours"].between(frame["least"], frame["most"])
    return frame


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


def skeletons(pairs: pd.DataFrame) -> pd.DataFrame:
    """How often flows repeat a skeleton, the sequence of the APIs that they call.

    Args:
        pairs: columns split, apis.

    Returns:
        One row a split: split, n, skeletons (distinct), repeated (percent of the flows whose skeleton an earlier flow
        of the split has), commonest (flows of the commonest one), in_training (percent of the flows whose skeleton a
        training flow has; NaN for training).
    """
    sequences = pairs["apis"].map(tuple)
    training = set(sequences[pairs["split"] == "training"])
    rows = []
    for split in SPLITS:
        own = sequences[pairs["split"] == split]
        if len(own):
            inside = np.nan if split == "training" else 100 * own.isin(training).mean()
            counts = own.value_counts()
            rows.append((split, len(own), len(counts), 100 * own.duplicated().mean(), counts.iloc[0], inside))
    return pd.DataFrame(rows, columns=["split", "n", "skeletons", "repeated", "commonest", "in_training"])


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
