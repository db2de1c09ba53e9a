"""The ablation of the workflow paper's section 5: one runner over a grid of conditions.

A condition (`lib.workbook.profiles.Condition`) says whose few-shots a prompt shows and how many, which definitions,
which model continues it and what that may write. All conditions of a model are answered in one call, so that prompts
that begin alike are read once; the values of each row are compared on the test flows that both rows have.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd

from lib.evaluation.rates import paired_deltas, rates_with_intervals
from lib.workbook.parameters.dsl_ablation import Condition
from lib.workflows import nl2dsl
from lib.workflows.catalogue import Catalogue
from lib.workflows.grammars import flow_grammar
from lib.workflows.metaprompt import STOP, flow_of, flow_prompts, prompt_parts
from lib.workflows.scoring import PERCENT, outcomes, score_flows

STOPS = {"untuned": STOP, "finetuned": (nl2dsl.END,)}


def write_condition(
    condition: Condition,
    asked: pd.DataFrame,
    shots: Sequence[Sequence[int]],
    training: pd.DataFrame,
    catalogue: Catalogue,
    limit: int,
    count: Callable[[str], int],
    semantic: Sequence[Sequence[str]] = (),
    first: bool = False,
) -> pd.DataFrame:
    """The prompts of one condition, and what the answers may be.

    Args:
        condition: its `flows` and `selector` are not read: the caller chooses the requests and their few-shots.
        asked: the requests, columns pair, request, apis (the right flow's, read by `definitions: gold` alone).
        shots: for each request positions of training pairs, nearest first; the first `condition.shots` are shown.
        training: columns request, dsl, apis.
        limit, count: as for `lib.workflows.metaprompt.fit`.
        semantic: for each request API names, nearest first: the definitions of SFD, as many as are to be shown.
        first: whether definitions come before the few-shots, as they do in a condition of `fd_first`.

    Returns:
        One row a request: unit (the pair), what `flow_prompts` returns, and grammar (None where decoding is free;
        grounded decoding allows the whole catalogue where the prompt has room for no API at all).
    """
    what = condition.definitions
    chosen = {"gold": asked["apis"], "sfd": semantic, "fd_sfd": semantic}.get(what)
    parts = nl2dsl.prompt_parts
    if condition.generator == "untuned":
        parts = functools.partial(prompt_parts, first=first or what == "fd_first")
    prompts = flow_prompts(
        asked["request"].tolist(),
        [list(near[: condition.shots]) for near in shots],
        training,
        catalogue,
        limit,
        count,
        few_shot=what in ("fd", "fd_first", "fd_sfd"),
        semantic=None if chosen is None else list(chosen),
        explain=True if what == "instruction" else None,
        parts=parts,
    )
    stop = STOPS[condition.generator]
    if condition.decoding == "grounded":
        examples = training["apis"].tolist()
        shown = [
            {*defined, *(name for shot in near[:kept] for name in examples[shot] if name in catalogue)}
            for near, kept, defined in zip(shots, prompts["shots"], prompts["definitions"], strict=True)
        ]
        prompts["grammar"] = [flow_grammar(catalogue, names or None, stop) for names in shown]
    else:
        known = {"free": None, "grammar": flow_grammar(stop=stop), "catalogue": flow_grammar(catalogue, stop=stop)}
        prompts["grammar"] = known[condition.decoding]
    return prompts.assign(unit=asked["pair"].tolist())


def answer(
    prompts: pd.DataFrame,
    model,
    stop: Sequence[str],
    max_new_tokens: int,
    progress: bool = False,
    chat: bool = False,
) -> pd.DataFrame:
    """The flows that a model writes, greedily, all prompts in one call.

    Args:
        prompts: columns prompt, grammar (text or None).
        model: a `lib.generation.local.LocalModel`, or where no prompt has a grammar a model behind an endpoint.
        stop: texts that end an answer.
        chat: whether a prompt is a user's message. A blank line does not end the answer then: what chat models like to
            say first ends with one.

    Returns:
        `prompts` with columns text (the flow), finished (bool), tokens_in, tokens_out, seconds.
    """
    grammars = [grammar if isinstance(grammar, str) else None for grammar in prompts["grammar"]]
    answers = model.generate(
        prompts["prompt"].tolist(),
        max_new_tokens=max_new_tokens,
        stop=[text for text in stop if text.strip() or not chat],
        chat=chat,
        grammars=grammars if any(grammars) else None,
        progress=progress,
    )
    costs = pd.DataFrame(
        [(cost.tokens_in, cost.tokens_out, cost.seconds) for cost in model.costs],
        columns=["tokens_in", "tokens_out", "seconds"],
        index=prompts.index,
    )
    return prompts.assign(text=list(map(flow_of, answers)), finished=model.finished).join(costs)


def score(answers: pd.DataFrame, golds: Mapping[str, str], catalogue: Catalogue) -> pd.DataFrame:
    """Answers with their scores.

    Args:
        answers: columns unit and text, whatever else.
        golds: the right flow's text of each unit.

    Returns:
        `answers` with the columns of `score_flows`.
    """
    found = score_flows(answers["text"], answers["unit"].map(golds), catalogue)
    return pd.concat([answers.reset_index(drop=True), found], axis=1)


UNSEEN_SHOTS = 5  # in the prompts that ask for APIs held out of training


def unseen_grid(ways: Sequence[tuple[int, bool]], grammars: bool = True) -> list[tuple[tuple[int, bool], str, str]]:
    """The conditions under which APIs held out of training are asked for.

    Args:
        ways: of adding examples of such APIs to the few-shots: how many of each, and whether a slot is kept for one.
        grammars: whether the model can be held to one.

    Returns:
        (way, definitions, decoding) each.
    """
    free = [
        (way, what, "free")
        for way in ways
        for what in ("none", "fd", "sfd", "fd_sfd", "gold")
        if not way[0] or what in ("none", "fd_sfd") or (what == "gold" and not way[1])
    ]
    grounded = {(0, False): ("sfd", "gold")} | {way: ("fd_sfd",) for way in ways if way[1]}
    return free + [(way, what, "grounded") for way in ways if grammars for what in grounded.get(way, ())]


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


CONDITION = ["selector", "shots", "definitions", "generator", "decoding", "train_pairs"]
VALUES = ["value", "ci_low", "ci_high"]
DELTAS = ["delta", "delta_ci_low", "delta_ci_high"]


def compare_conditions(
    scores: pd.DataFrame, conditions: Sequence[str], baseline: str, samples: int, seed: int
) -> pd.DataFrame:
    """The four metrics of conditions, and how they differ from those of a baseline.

    Args:
        scores: what `score` returned, with a column condition.
        conditions: names, in the order of the rows; the baseline may be among them.
        samples, seed: of the bootstrap.

    Returns:
        columns condition, metric, `VALUES`, n, counted (of these, the flows that the metric counts), `DELTAS`, p_value,
        p_holm (over all rows), shared (test flows that both have), counted_both (of these, the flows that it counts in
        both: those tested). The deltas are on shared flows, NaN in the baseline's own rows. Intervals are 95%.
    """
    chosen = list(dict.fromkeys([*conditions, baseline]))
    counted = outcomes(scores[scores["condition"].isin(chosen)])
    values = rates_with_intervals(counted, PERCENT, samples, seed)
    rivals = [(name, baseline) for name in conditions if name != baseline]
    deltas = paired_deltas(counted, rivals, PERCENT, samples, seed).drop(columns="b")
    deltas = deltas.rename(columns={"a": "condition", "ci_low": DELTAS[1], "ci_high": DELTAS[2], "n": "shared"})
    order = pd.MultiIndex.from_product([conditions, counted["metric"].unique()], names=["condition", "metric"])
    table = values.merge(deltas, on=["condition", "metric"], how="left").set_index(["condition", "metric"])
    return table.loc[order].reset_index()


def contract(compared: pd.DataFrame, rows: pd.DataFrame, published: pd.DataFrame | None = None) -> pd.DataFrame:
    """The columns of the report's `dsl_*.csv`.

    Args:
        compared: what `compare_conditions` returned.
        rows: `CONDITION` of each condition, indexed by its name.
        published: columns selector, shots, definitions, metric, delta; None leaves the column out.

    Returns:
        `CONDITION`, metric, `VALUES`, `DELTAS`, n and, where given, published_delta; one row for each of `compared`.
    """
    table = compared.join(rows[CONDITION], on="condition")
    columns = [*CONDITION, "metric", *VALUES, *DELTAS, "n"]
    if published is None:
        return table[columns]
    keys = ["selector", "shots", "definitions", "metric"]
    printed = published.set_index(keys)["delta"].rename("published_delta")
    return table.join(printed, on=keys)[[*columns, "published_delta"]]


SELECTED = {
    "pretrained": "pretrained encoder",
    "tst": "TST",
    "random": "drawn at random",
    "pretrained_learned": "pretrained encoder among the learned pairs",
}
DEFINED = {
    "none": "",
    "instruction": "with the instruction on definitions, without any",
    "fd": "FD",
    "fd_first": "FD before the few-shots",
    "sfd": "SFD",
    "fd_sfd": "FD + SFD",
    "gold": "gold definitions",
}
DECODED = {
    "free": "",
    "grammar": "under the grammar",
    "catalogue": "under the grammar and the catalogue",
    "grounded": "under the grammar and the APIs shown",
}


def title(condition: Condition) -> str:
    """A condition's name for readers, such as `TST, 20 few-shots, FD + SFD`."""
    shots = f"{SELECTED[condition.selector]}, {condition.shots} few-shot{'s' if condition.shots > 1 else ''}"
    parts = [
        "fine-tuned model" if condition.generator == "finetuned" else "",
        shots if condition.shots else "no few-shots",
        DEFINED[condition.definitions],
        DECODED[condition.decoding],
    ]
    return ", ".join(part for part in parts if part)


def with_slot(shots: np.ndarray, added: Sequence[int]) -> np.ndarray:
    """Few-shots whose last one gives way to another, unless that is among them.

    Args:
        shots: (requests, few-shots), nearest first.
        added: (requests,), what is to be among them; it comes last.
    """
    added = np.asarray(added)[:, None]
    absent = ~(shots == added).any(axis=1)
    kept = shots.copy()
    kept[absent, -1:] = added[absent]
    return kept
