"""Flows that language models write for Flow-Bench's requests, and the floors that need none.

The two in-context models that come with the project read few-shots and definitions; neither has seen these APIs, nor a
request for an edit. Families of requests are dealt to them in turn, so that each request is written once. An instruct
model that was not tuned here is asked the same through its chat template. A prompt shows the few-shots nearest among
the other families, and definitions: of the APIs in these few-shots (FD), or of those nearest to the request (SFD). A
request for an edit brings the flow to edit, in the few-shots as in the question:

    Request: Send a mail instead of the message. Edit this flow: await Slack.…; await Gmail.…;
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from lib.evaluation.comparison import compare
from lib.evaluation.inference import Resampling, mean_interval, percent, settled
from lib.generation.local import LocalModel, fingerprint
from lib.generation.models import locate
from lib.workbook.parts import shipped
from lib.workflows.ablation import ask, score
from lib.workflows.few_shots import few_shot_definitions, semantic_definitions, usual_number
from lib.workflows.flow_bench import FlowBench
from lib.workflows.flow_bench_shots import SHOTS, families
from lib.workflows.grammars import flow_grammar
from lib.workflows.in_context import HALVES, LIMIT, part_of
from lib.workflows.prompts import FENCE, STOP, flow_prompts, metaprompt_parts
from lib.workflows.prompts import PARTS as PROMPT_PARTS

PARTS = tuple(map(part_of, HALVES))
INSTRUCT = "instruct"
INSTRUCT_MODEL = "Qwen2.5-Coder-1.5B-Instruct"  # whose flows come with the project


class Way(NamedTuple):
    """How flows are asked for.

    Attributes:
        writer: in_context (the models of `PARTS`) or instruct.
        selector: of the few-shots.
        definitions: none, fd or sfd.
        decoding: free, or under the grammar with the benchmark's catalogue.
    """

    writer: str
    selector: str
    definitions: str
    decoding: str

    @property
    def name(self) -> str:
        return ", ".join(self)


BASE = Way("in_context", "pretrained", "sfd", "free")
WAYS = (
    BASE,
    BASE._replace(definitions="fd"),
    BASE._replace(definitions="none"),
    BASE._replace(decoding="grammar"),
    BASE._replace(writer=INSTRUCT),
    BASE._replace(writer=INSTRUCT, definitions="fd"),
    BASE._replace(writer=INSTRUCT, decoding="grammar"),
)
MOST_TOKENS = 256  # of a flow; the longest right one has fewer


def asked_texts(pairs: pd.DataFrame) -> list[str]:
    """What a prompt asks for: the request, and where it asks for an edit, the flow to edit in one line."""
    return [
        f"{request.strip()} Edit this flow: {' '.join(prior.split())}" if prior else request.strip()
        for request, prior in zip(pairs["request"], pairs["prior"], strict=True)
    ]


def written_by(pairs: pd.DataFrame) -> list[str]:
    """Which of `PARTS` writes for each request: families in their order of appearance, dealt in turn."""
    names = list(dict.fromkeys(families(pairs)))
    turn = {name: PARTS[i % len(PARTS)] for i, name in enumerate(names)}
    return [turn[name] for name in families(pairs)]


def sample(pairs: pd.DataFrame, n: int, seed: int) -> np.ndarray:
    """Positions of `n` requests, or all where there are no more, in their order; drawn without a look at the flows."""
    drawn = np.random.default_rng(seed).permutation(len(pairs))[:n]
    return np.sort(drawn)


def nearest_of_others(pairs: pd.DataFrame, similarity: np.ndarray) -> list[list[int]]:
    """For each request the `SHOTS` nearest requests of other families, nearest first, as positions.

    Args:
        similarity: (requests, requests), how near each is to the one of the row.
    """
    names = np.array(families(pairs), dtype=object)
    scores = np.where(names[:, None] != names[None, :], similarity, -np.inf)
    order = np.argsort(-scores, axis=1, kind="stable")[:, :SHOTS]
    return [[int(j) for j in row if scores[i, j] > -np.inf] for i, row in enumerate(order)]


def prompts(
    bench: FlowBench,
    rows: Sequence[int],
    near: Mapping[str, Sequence[Sequence[int]]],
    request_vectors: np.ndarray,
    api_vectors: np.ndarray,
    count: Callable[[str], int],
) -> pd.DataFrame:
    """The prompts of every way.

    Args:
        rows: positions of the requests that are asked.
        near: {selector: few-shots of every request, of `nearest_of_others`}.
        request_vectors, api_vectors: by the pretrained encoder, of the requests and of `API.text` of the catalogue.
        count: tokens of a text, the same for all writers, so that they are shown the same.

    Returns:
        condition (`Way.name`), unit, family, model (one of `PARTS`, or instruct), prompt, grammar (None where free),
        and what `flow_prompts` tells of a prompt.
    """
    pairs, catalogue, rows = bench.pairs, bench.catalogue, list(rows)
    examples = pairs.assign(request=asked_texts(pairs))
    fd = [few_shot_definitions(shots, pairs["apis"].tolist()) for shots in near[BASE.selector]]
    names = [api.name for api in catalogue]
    sfd = semantic_definitions(request_vectors[rows], api_vectors, names, usual_number(fd))
    asked = examples.iloc[rows]
    about = {"unit": asked["pair"].tolist(), "family": np.array(families(pairs), dtype=object)[rows]}
    dealt = np.array(written_by(pairs), dtype=object)[rows]
    grammars = {
        ("in_context", "grammar"): flow_grammar(catalogue, stop=STOP, loops=True),
        (INSTRUCT, "grammar"): flow_grammar(catalogue, loops=True, fence=FENCE),
    }

    @functools.cache
    def prompts_of(way: Way) -> pd.DataFrame:
        """Those of a way that decodes freely: under a grammar they are the same."""
        return flow_prompts(
            asked["request"].tolist(),
            [list(near[way.selector][row]) for row in rows],
            examples,
            catalogue,
            LIMIT,
            count,
            few_shot=way.definitions == "fd",
            semantic=sfd if way.definitions == "sfd" else None,
            parts=PROMPT_PARTS.get(way.writer, metaprompt_parts),
            form="described",
        )

    parts = []
    for way in WAYS:
        model, grammar = INSTRUCT if way.writer == INSTRUCT else dealt, grammars.get((way.writer, way.decoding))
        made = prompts_of(way._replace(decoding="free"))
        parts.append(made.assign(condition=way.name, grammar=grammar, model=model, **about))
    return pd.concat(parts, ignore_index=True)


def written(prompted: pd.DataFrame, models: Mapping[str, object], progress: bool = False) -> pd.DataFrame:
    """The flows of all prompts.

    Args:
        prompted: of `prompts`.
        models: by the names in the column model; prompts of another are left out.

    Returns:
        what `lib.workflows.ablation.ask` returns.
    """
    parts = [
        ask(
            prompted[prompted["model"] == name].reset_index(drop=True),
            model,
            name.split("-")[0],
            MOST_TOKENS,
            progress=progress,
        )
        for name, model in models.items()
        if (prompted["model"] == name).any()
    ]
    return pd.concat(parts, ignore_index=True)


def writers(
    generator: str, quantization: str, root: Path, cache: Path, threads: int
) -> tuple[dict[str, LocalModel], str]:
    """The in-context models that come with the project, by the names of `PARTS`, and an empty text; no model, and why
    not, where they do not fit the base model.

    Args:
        generator: name of the base model.
        root: the project's folder.
        cache: folder of answers.
    """
    base = fingerprint(locate(generator), quantization=quantization)
    found = {part: shipped(part, base, None, root) for part in PARTS}
    if reasons := [one.reason for one in found.values() if not one.folder]:
        return {}, reasons[0]
    machine: dict[str, Any] = {"cache": cache, "threads": threads, "quantization": quantization}
    return {part: LocalModel(generator, adapter=one.folder, **machine) for part, one in found.items()}, ""


def floors(bench: FlowBench, rows: Collection[int], near: Mapping[str, Sequence[Sequence[int]]]) -> pd.DataFrame:
    """What writes without a model: the nearest few-shot's flow as it stands, by selector, and where there is a flow to
    edit, that flow as it stands (`copy_prior`; where there is none, the first selector's nearest).

    Returns:
        condition, unit, family, text.
    """
    pairs = bench.pairs
    dsl, priors = pairs["dsl"].tolist(), pairs["prior"].tolist()
    texts = {f"copy_{name}": [dsl[shots[row][0]] for row in rows] for name, shots in near.items()}
    first = next(iter(texts.values()))
    texts["copy_prior"] = [priors[row] or copied for row, copied in zip(rows, first, strict=True)]
    labels = {
        "unit": pairs["pair"].to_numpy()[list(rows)],
        "family": np.array(families(pairs), dtype=object)[list(rows)],
    }
    return pd.concat([pd.DataFrame({"condition": name, **labels, "text": made}) for name, made in texts.items()],
                     ignore_index=True)  # fmt: skip


# ---------------------------------------------------------------- how good they are

MEASURES = {
    "similarity": "similarity, points",
    "executed": "executed right, %",
    "unparsed": "unparsed, %",
    "made_up_names": "made-up names, %",
    "made_up_parameters": "made-up keys, %",
}
VALUES = ["condition", "metric", "value", "ci_low", "ci_high", "n"]
COMPARED = [
    (BASE.name, "copy_pretrained"),
    (BASE._replace(decoding="grammar").name, "copy_prior"),
    (BASE._replace(writer=INSTRUCT).name, "copy_pretrained"),
    (BASE._replace(writer=INSTRUCT, decoding="grammar").name, "copy_prior"),
    (BASE._replace(decoding="grammar").name, BASE.name),
    (BASE._replace(writer=INSTRUCT, decoding="grammar").name, BASE._replace(writer=INSTRUCT).name),
    (BASE.name, BASE._replace(definitions="none").name),
    (BASE._replace(definitions="fd").name, BASE._replace(definitions="none").name),
    (BASE._replace(writer=INSTRUCT).name, BASE._replace(writer=INSTRUCT, definitions="fd").name),
    (BASE._replace(writer=INSTRUCT).name, BASE.name),
]


def scored(texts: pd.DataFrame, bench: FlowBench) -> pd.DataFrame:
    """Flows with the scores of `lib.workflows.scoring.score_flows`, and `value`: 100 times the similarity.

    Args:
        texts: columns condition, unit, family, text.
    """
    found = score(texts, bench.pairs.set_index("pair")[["dsl"]], bench.catalogue)
    return found.assign(value=100 * found["similarity"])


def values(scores: pd.DataFrame, samples: int, seed: int) -> pd.DataFrame:
    """Each condition's metrics: similarity over families of flows; executed right and unparsed of all
    flows and made-up names and keys of those that parse, Wilson's intervals.

    Returns:
        condition, metric (of `MEASURES`), value, ci_low, ci_high, n (flows counted); NaN where none is.
    """
    rows: list[tuple] = []
    for condition, part in scores.groupby("condition", sort=False):
        found = mean_interval(part["value"].to_numpy(float), Resampling(part["family"].to_numpy(), samples, seed))
        rows.append((condition, "similarity", *found, len(part)))
        parsed = part[part["parsed"].astype(bool)]
        for metric, hits, of in (
            ("executed", int(part["executed"].astype(bool).sum()), len(part)),
            ("unparsed", len(part) - len(parsed), len(part)),
            *((name, int(parsed[name].map(len).gt(0).sum()), len(parsed)) for name in list(MEASURES)[3:]),
        ):
            shown = map(float, percent(hits, of)) if of else [float("nan")] * 3
            rows.append((condition, metric, *shown, of))
    return pd.DataFrame(rows, columns=VALUES)


def differences(scores: pd.DataFrame, samples: int, seed: int) -> pd.DataFrame:
    """Differences in similarity of `COMPARED`, on the same requests, in points.

    Returns:
        columns of `lib.evaluation.comparison.compare` (the unit is a family), settled.
    """
    wide = scores.pivot(index=["unit", "family"], columns="condition", values="value")
    wide.columns = pd.MultiIndex.from_tuples([(name, "similarity", 1) for name in wide.columns])
    there = set(scores["condition"])
    pairs = [pair for pair in COMPARED if there.issuperset(pair)]
    over = Resampling(wide.index.get_level_values("family").to_numpy(), samples, seed)
    tests = compare(wide, pairs, "similarity", 1, over)
    return tests.assign(settled=settled(tests))
