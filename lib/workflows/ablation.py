"""The ablation of the workflow paper's section 5: one runner over a grid of conditions.

A condition (`Condition`) says whose few-shots a prompt shows and how many, which
definitions, which model continues it and what that may write. All conditions of a model are answered in one call, so
that prompts that begin alike are read once; the values of each row are compared on the flows of a test set that both
rows have. `lib.workflows.ablation_grid` says which conditions are asked.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from lib.evaluation.comparison import rate_differences, rates
from lib.retrieval.neighbours import nearest
from lib.workbook.inputs import InputError, describe_error
from lib.workbook.parameters import Parameters, is_remote
from lib.workflows.apis import DefinitionForm
from lib.workflows.catalogue import Catalogue
from lib.workflows.grammars import flow_grammar
from lib.workflows.language import FlowError, called_apis, parse
from lib.workflows.pairs import sample
from lib.workflows.prompts import PARTS, STOPS, flow_in_chat, flow_of, flow_prompts, metaprompt_parts
from lib.workflows.scoring import PERCENT, executed_outcomes, outcomes, score_flows

MAY_STAND_BESIDE_SFD = ("pretrained", "tst", "tst_affine")  # selectors whose few-shots bring a number of definitions


class Condition(BaseModel):
    """A row of the ablation's table, given as a list in the order of these fields.

    Attributes:
        selector: whose few-shots: by the pretrained encoder, by TST or by TST with a learned scale before its loss;
            drawn at random; `other`: those of another request; `oracle_shots`: the nearest by the right flow, which no
            method could know.
        shots: few-shots in the prompt.
        definitions: none; FD, SFD or both, after the few-shots; `instruction`: how to use definitions, without any;
            `gold`: those of the right flow's APIs, which no method could know.
        generator: the language model as it comes; fine-tuned on requests and flows; in_context: taught to read
            few-shots on connectors that it is not asked about; an instruct model, asked through its chat template.
        decoding: free, under the grammar, or under the grammar with the catalogue's names and keys.
        flows: of each test set that it is tried on, the first ones of one order.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    selector: Literal["pretrained", "tst", "tst_affine", "random", "other", "oracle_shots"]
    shots: int = Field(ge=0, le=100)
    definitions: Literal["none", "instruction", "fd", "sfd", "fd_sfd", "gold"]
    generator: Literal["untuned", "finetuned", "in_context", "instruct"]
    decoding: Literal["free", "grammar", "catalogue"]
    flows: int = Field(ge=1)

    @model_validator(mode="before")
    @classmethod
    def _from_row(cls, row: Any) -> Any:
        fields = list(cls.model_fields)
        if not isinstance(row, list):
            return row
        if len(row) != len(fields):
            raise ValueError(f"a row must have {len(fields)} entries: {', '.join(fields)}")
        return dict(zip(fields, row, strict=True))

    @model_validator(mode="after")
    def _possible(self) -> Condition:
        if self.selector not in MAY_STAND_BESIDE_SFD and self.definitions in ("sfd", "fd_sfd"):
            beside = ", ".join(MAY_STAND_BESIDE_SFD)
            raise ValueError(f"SFD shows as many definitions as FD: it needs the few-shots of one of {beside}")
        if self.generator == "finetuned" and self.definitions != "none":
            raise ValueError("the fine-tuned model reads no definitions")
        return self

    @property
    def name(self) -> str:
        """What the condition is called in artifacts, such as `tst_20_fd_sfd`."""
        parts = [self.selector if self.shots else "no", str(self.shots or "shots")]
        usual = {"none", "untuned", "free"}
        return "_".join(
            [*parts, *(part for part in (self.definitions, self.generator, self.decoding) if part not in usual)]
        )


# The rows of the paper's Tables 1 to 4, baselines included: selector, few-shots, definitions.
PUBLISHED_ROWS = [
    *((selector, shots, what) for shots in (5, 20) for selector in ("pretrained", "tst") for what in ("none", "fd")),
    ("tst", 20, "sfd"),
    ("tst", 20, "fd_sfd"),
]
BASELINE = "no_shots_finetuned"  # of Table 4
COMPARED_WITH = [PUBLISHED_ROWS[0], PUBLISHED_ROWS[2]]  # five few-shots: what Tables 1 and 2 cannot do without


def reader_of(parameters: Parameters) -> str:
    """The generator that stands for GPT-4: the untuned one where it has a name, else the in-context one."""
    return "untuned" if parameters.untuned_generator else "in_context"


def asked_rows(parameters: Parameters) -> list[Condition]:
    """The conditions that notebook 09 asks: those of the instruct model only where its parameters name one.

    Raises:
        InputError: a row is none or stands twice, or one that the tables need is missing.
    """
    try:
        rows = [Condition.model_validate(row) for row in parameters.ablation]
    except ValidationError as error:
        raise InputError(f"ablation: {describe_error(error)}") from None
    names, reader = [row.name for row in rows], reader_of(parameters)
    if twice := next((name for name in names if names.count(name) > 1), ""):
        raise InputError(f"ablation: two rows are {twice}")
    free = [row for row in rows if (row.generator, row.decoding) == (reader, "free")]
    for needed in COMPARED_WITH:
        if needed not in [(row.selector, row.shots, row.definitions) for row in free]:
            raise InputError(f"ablation: the paper's row {[*needed, reader, 'free']} is missing")
    if BASELINE not in names:
        raise InputError("ablation: Table 4 needs the row [pretrained, 0, none, finetuned, free, …]")
    bound = [row.name for row in rows if row.generator == "untuned" and row.decoding != "free"]
    if is_remote(parameters.untuned_generator) and bound:
        raise InputError(
            f"ablation: {parameters.untuned_generator} cannot be held to a grammar, as {', '.join(bound)} must be: "
            "give these rows the decoding free or leave them out"
        )
    if parameters.dsl_max_tokens >= parameters.prompt_window:
        raise InputError("prompt_window: must be larger than dsl_max_tokens")
    return [row for row in rows if row.generator != "instruct" or parameters.instruct_generator]


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
    form: DefinitionForm = "compact",
) -> pd.DataFrame:
    """The prompts of one condition, and what the answers may be.

    Args:
        condition: its `flows` and `selector` are not read: the caller chooses the requests and their few-shots.
        asked: the requests, columns pair, request, apis (the right flow's, read by `definitions: gold` alone).
        shots: for each request positions of training pairs, nearest first; the first `condition.shots` are shown.
        training: columns request, dsl, apis.
        limit, count: as for `lib.workflows.prompts.fit`.
        semantic: for each request API names, nearest first: the definitions of SFD, as many as are to be shown.
        first: whether definitions come before the few-shots.
        form: of definitions.

    Returns:
        One row a request: unit (the pair), what `flow_prompts` returns, and grammar (None where decoding is free).
    """
    what = condition.definitions
    chosen = {"gold": asked["apis"], "sfd": semantic, "fd_sfd": semantic}.get(what)
    parts = PARTS.get(condition.generator, metaprompt_parts)
    if condition.generator != "finetuned":
        parts = functools.partial(parts, first=first)
    prompts = flow_prompts(
        asked["request"].tolist(),
        [list(near[: condition.shots]) for near in shots],
        training,
        catalogue,
        limit,
        count,
        few_shot=what in ("fd", "fd_sfd"),
        semantic=None if chosen is None else list(chosen),
        explain=True if what == "instruction" else None,
        parts=parts,
        form=form,
    )
    stop = STOPS[condition.generator]
    held = {"free": None, "grammar": flow_grammar(stop=stop), "catalogue": flow_grammar(catalogue, stop=stop)}
    prompts["grammar"] = held[condition.decoding]
    return prompts.assign(unit=asked["pair"].tolist())


def answer(
    prompts: pd.DataFrame,
    model,
    stop: Sequence[str],
    max_new_tokens: int,
    progress: bool = False,
    chat: bool = False,
    read: Callable[[str], str] = flow_of,
) -> pd.DataFrame:
    """The flows that a model writes, greedily, all prompts in one call.

    Args:
        prompts: columns prompt, grammar (text or None).
        model: a `lib.generation.local.LocalModel`, or where no prompt has a grammar a model behind an endpoint.
        stop: texts that end an answer.
        chat: whether a prompt is a user's message. A blank line does not end the answer then: what chat models like to
            say first ends with one.
        read: the flow in an answer.

    Returns:
        `prompts` with columns text (the flow), finished (bool), tokens_in, tokens_out, seconds.
    """
    asked = asked_with(prompts, stop, max_new_tokens, chat)
    answers = model.generate(prompts["prompt"].tolist(), progress=progress, **asked)
    costs = pd.DataFrame(
        [(cost.tokens_in, cost.tokens_out, cost.seconds) for cost in model.costs],
        columns=["tokens_in", "tokens_out", "seconds"],
        index=prompts.index,
    )
    return prompts.assign(text=list(map(read, answers)), finished=model.finished).join(costs)


def asked_with(prompts: pd.DataFrame, stop: Sequence[str], max_new_tokens: int, chat: bool = False) -> dict[str, Any]:
    """The settings that a model is asked prompts with; arguments as of `answer`."""
    grammars = [grammar if isinstance(grammar, str) else None for grammar in prompts["grammar"]]
    return {
        "max_new_tokens": max_new_tokens,
        "stop": [text for text in stop if text.strip() or not chat],
        "chat": chat,
        "grammars": grammars if any(grammars) else None,
    }


def kept_by(prompts: pd.DataFrame, models: Mapping[str, Any], max_new_tokens: int) -> list[bool]:
    """Whether the answer that `answer_as` gives to each prompt is kept.

    Args:
        prompts: columns model, prompt, grammar.
        models: by name; those of another are not kept.
    """
    there = pd.Series(False, prompts.index)
    for name, part in prompts.groupby("model"):
        if name in models:
            generator = str(name).split("-")[0]
            asked = asked_with(part, STOPS[generator], max_new_tokens, generator == "instruct")
            there[part.index] = models[str(name)].has(part["prompt"].tolist(), **asked)
    return there.tolist()


def answer_as(
    name: str, prompts: pd.DataFrame, model, max_new_tokens: int, remote: bool = False, progress: bool = False
) -> pd.DataFrame:
    """`answer` as a generator is asked: with its stop texts, an instruct or remote model through its chat template.

    Args:
        name: of the generator, or of one of the in-context models, such as `in_context-a`.
        remote: whether it is behind an endpoint.
    """
    generator = name.split("-")[0]
    chats = generator == "instruct"
    read = flow_in_chat if chats else flow_of
    return answer(prompts, model, STOPS[generator], max_new_tokens, progress, chats or remote, read)


def score(answers: pd.DataFrame, asked: pd.DataFrame, catalogue: Catalogue) -> pd.DataFrame:
    """Answers with their scores.

    Args:
        answers: columns unit and text, whatever else.
        asked: by unit: dsl (the right flow's text), and said (see `lib.workflows.generating.generate`) where it is
            known.

    Returns:
        `answers` with the columns of `score_flows`.
    """
    said = answers["unit"].map(asked["said"]) if "said" in asked else None
    found = score_flows(answers["text"], answers["unit"].map(asked["dsl"]), catalogue, said)
    return pd.concat([answers.reset_index(drop=True), found], axis=1)


def copied(
    near: Mapping[str, pd.Series], asked: Mapping[str, pd.DataFrame], training: pd.DataFrame, answered: pd.DataFrame
) -> pd.DataFrame:
    """What writes without any model: for each request that a model was asked, the flow of its nearest few-shot. Over
    more requests copies would stand beside models on other ones.

    Args:
        near: {selector: few-shots by pair, as positions in `training`, nearest first}.
        asked: {test set: its requests}, columns pair, half.
        training: column dsl.
        answered: by models: columns test_set, unit.

    Returns:
        columns condition (`copy_` and the selector), test_set, unit, half, text, finished.
    """
    units = answered.groupby("test_set")["unit"].agg(set)
    written = {name: flows[flows["pair"].isin(units.get(name, set()))] for name, flows in asked.items()}
    parts = [
        flows[["half"]].assign(
            condition=f"copy_{selector}",
            test_set=test_set,
            unit=flows["pair"],
            text=[training["dsl"].iloc[shots[0]] for shots in near[selector][flows["pair"]]],
            finished=True,
        )
        for test_set, flows in written.items()
        for selector in near
    ]
    return pd.concat(parts, ignore_index=True)


def on_shared_flows(scores: pd.DataFrame, conditions: Collection[str]) -> pd.DataFrame:
    """The scores of conditions on those flows of each test set that all of them have that are asked there.

    Args:
        scores: columns condition, test_set, unit and whatever else.
    """
    kept = scores[scores["condition"].isin(conditions)]
    asked = kept.groupby("test_set")["condition"].transform("nunique")
    return kept[kept.groupby(["test_set", "unit"])["condition"].transform("nunique") == asked]


def as_artifact(scores: pd.DataFrame) -> pd.DataFrame:
    """The scores as later notebooks read them: without prompts, and with lists where a table cannot hold tuples."""
    kept = scores.drop(columns=["prompt", "grammar", "definitions"], errors="ignore")
    return kept.assign(
        made_up_parameters=kept["made_up_parameters"].map(lambda made: [list(one) for one in made]),
        made_up_names=kept["made_up_names"].map(list),
    )


def cost_of(scores: pd.DataFrame) -> pd.DataFrame:
    """What an answer costs, one row a condition (index) that a model answered.

    Returns:
        columns n (answers), tokens_in, tokens_out (means), seconds (mean of those that were timed), timed (their
        number), dropped (few-shots that did not fit, in all), cut (answers that did not end by themselves: they
        reached the token limit, or only repeated themselves).
    """
    return (
        scores.dropna(subset=["tokens_in"])
        .groupby("condition", sort=False)
        .agg(
            n=("unit", "size"),
            tokens_in=("tokens_in", "mean"),
            tokens_out=("tokens_out", "mean"),
            seconds=("seconds", "mean"),
            timed=("seconds", "count"),
            dropped=("dropped", "sum"),
            cut=("finished", lambda done: int((~done.astype(bool)).sum())),
        )
    )


def new_apis_called(scores: pd.DataFrame, wanted: Mapping[str, Collection[str]]) -> pd.DataFrame:
    """100 where a flow calls at least one of the APIs that are wanted of its unit, else 0: units by conditions.

    Args:
        scores: columns condition, unit, text.
        wanted: names for each unit.
    """
    hits = [
        100 * (not called.isdisjoint(wanted[unit]))
        for unit, called in zip(scores["unit"], scores["text"].map(_calls), strict=True)
    ]
    return scores.assign(value=hits).pivot(index="unit", columns="condition", values="value")


def _calls(text: str) -> set[str]:
    try:
        return set(called_apis(parse(text)))
    except FlowError:
        return set()


CONDITION = ["selector", "shots", "definitions", "generator", "decoding", "train_pairs"]
VALUES = ["value", "ci_low", "ci_high"]
DELTAS = ["delta", "delta_ci_low", "delta_ci_high"]


def compare_conditions(
    scores: pd.DataFrame, conditions: Sequence[str], baseline: str, samples: int, seed: int
) -> pd.DataFrame:
    """The metrics of conditions on each test set, and how they differ from those of a baseline.

    Args:
        scores: what `score` returned, with columns condition and test_set.
        conditions: names, in the order of the rows; the baseline may be among them. A test set that lacks the baseline
            is left out, and so is a condition where a test set lacks it.
        samples, seed: of the bootstrap.

    Returns:
        columns test_set, condition, metric, `VALUES`, n, counted (of these, the flows that the metric counts),
        `DELTAS`, p_value, shared (flows that both have), counted_both (of these, the flows that it counts in both:
        those compared). The deltas are NaN in the baseline's own rows. Intervals are 95%.
    """
    parts = []
    for test_set, part in scores.groupby("test_set", sort=False):
        there = set(part["condition"])
        if baseline in there and (names := [name for name in dict.fromkeys(conditions) if name in there]):
            parts.append(_compared(part, names, baseline, samples, seed).assign(test_set=test_set))
    table = pd.concat(parts, ignore_index=True)
    return table[["test_set", *table.columns.drop("test_set")]]


def counted(scores: pd.DataFrame) -> pd.DataFrame:
    """The published metrics, `valid` and `executed` of scored flows, for `lib.evaluation.comparison.rates`."""
    ran = executed_outcomes(scores)
    return pd.concat([outcomes(scores), ran[ran["metric"] == "executed"]], ignore_index=True)


def _compared(scores: pd.DataFrame, conditions: Sequence[str], baseline: str, samples: int, seed: int) -> pd.DataFrame:
    of_flows = counted(scores[scores["condition"].isin([*conditions, baseline])])
    values = rates(of_flows, PERCENT, samples, seed)
    rivals = [(name, baseline) for name in conditions if name != baseline]
    deltas = rate_differences(of_flows, rivals, PERCENT, samples, seed).drop(columns="b")
    deltas = deltas.rename(columns={"a": "condition", "ci_low": DELTAS[1], "ci_high": DELTAS[2], "n": "shared"})
    order = pd.MultiIndex.from_product([conditions, of_flows["metric"].unique()], names=["condition", "metric"])
    table = values.merge(deltas, on=["condition", "metric"], how="left").set_index(["condition", "metric"])
    return table.loc[order].reset_index()


def compare_pairs(scores: pd.DataFrame, pairs: Sequence[tuple[str, str]], samples: int, seed: int) -> pd.DataFrame:
    """`compare_conditions` of each (condition, against), its own baseline's rows left out.

    Returns:
        its columns and against.
    """
    parts = [compare_conditions(scores, [a], b, samples, seed).assign(against=b) for a, b in pairs]
    return pd.concat(parts, ignore_index=True)


def free_counterparts(rows: Sequence[Condition]) -> dict[str, str]:
    """{condition under a grammar: the same decoded freely}."""
    return {row.name: row.model_copy(update={"decoding": "free"}).name for row in rows if row.decoding != "free"}


def sweep_rows(rows: Sequence[Condition], generator: str) -> list[Condition]:
    """A generator's conditions that differ in the number of few-shots alone, fewest first."""
    plain = ("pretrained", "none", generator, "free")
    found = (row for row in rows if (row.selector, row.definitions, row.generator, row.decoding) == plain)
    return sorted(found, key=lambda row: row.shots)


def contract(compared: pd.DataFrame, rows: pd.DataFrame, published: pd.DataFrame | None = None) -> pd.DataFrame:
    """The columns of the report's `dsl_*.csv`.

    Args:
        compared: what `compare_conditions` returned.
        rows: `CONDITION` of each condition, indexed by its name.
        published: columns selector, shots, definitions, metric, delta; None leaves the column out.

    Returns:
        `CONDITION`, test_set, metric, `VALUES`, `DELTAS`, n and, where given, published_delta; one row for each of
        `compared`.
    """
    table = compared.join(rows[CONDITION], on="condition")
    columns = [*CONDITION, "test_set", "metric", *VALUES, *DELTAS, "n"]
    if published is None:
        return table[columns]
    keys = ["selector", "shots", "definitions", "metric"]
    printed = published.set_index(keys)["delta"].rename("published_delta")
    return table.join(printed, on=keys)[[*columns, "published_delta"]]


SELECTED = {
    "pretrained": "pretrained encoder",
    "tst": "TST",
    "tst_affine": "TST, affine",
    "random": "drawn at random",
    "other": "of another request",
    "oracle_shots": "nearest by the right flow (oracle)",
}
DEFINED = {
    "none": "",
    "instruction": "with the instruction on definitions, without any",
    "fd": "FD",
    "sfd": "SFD",
    "fd_sfd": "FD + SFD",
    "gold": "gold definitions",
}
DECODED = {
    "free": "",
    "grammar": "under the grammar",
    "catalogue": "under the grammar and the catalogue",
}


GENERATED = {
    "untuned": "untuned model",
    "finetuned": "fine-tuned model",
    "in_context": "in-context model",
    "instruct": "instruct model",
}


def title(condition: Condition, usual: str) -> str:
    """A condition's name for readers, such as `TST, 20 few-shots, FD + SFD`; the usual generator goes unnamed."""
    shots = f"{SELECTED[condition.selector]}, {condition.shots} few-shot{'s' if condition.shots > 1 else ''}"
    parts = [
        GENERATED[condition.generator] if condition.generator != usual else "",
        shots if condition.shots else "no few-shots",
        DEFINED[condition.definitions],
        DECODED[condition.decoding],
    ]
    return ", ".join(part for part in parts if part)


# ---------------------------------------------------------------- of notebook 08


def flows_to_write(pairs: pd.DataFrame, reworded: Sequence[str], n: int, seed: int) -> pd.DataFrame:
    """The test flows that the model writes: first those whose requests people reworded, so that both can be compared.

    Args:
        pairs, n, seed: as for `sample`.
        reworded: pairs.
    """
    too = pairs["pair"].isin(reworded)
    return pd.concat([sample(part, "test", n, seed) for part in (pairs[too], pairs[~too])]).head(n)


def questions(pairs: pd.DataFrame, reworded: pd.DataFrame, n: int, seed: int) -> pd.DataFrame:
    """The requests whose flows are to be written: n of each test set, half as many of those reworded by hand (of the
    test requests chosen) and of those that need held-out APIs.

    Args:
        pairs, n, seed: as for `sample`; column said, where it is known.
        reworded: columns pair (the test request), request, dsl, apis.

    Returns:
        columns test_set (test, test_same, reworded, unseen), unit (the composed pair), pair (of the request asked),
        request, dsl, apis, and said where `pairs` has it (of the composed pair); a range index.
    """
    half = -(-n // 2)
    tests = flows_to_write(pairs, reworded["pair"], n, seed)
    free = reworded.set_index("pair", drop=False).reindex(tests["pair"]).dropna(subset=["request"]).head(half)
    parts = {
        "test": tests,
        "test_same": sample(pairs, "test_same", n, seed),
        "reworded": free,
        "unseen": sample(pairs, "unseen", half, seed),
    }
    asked = pd.concat([part.assign(test_set=name) for name, part in parts.items()], ignore_index=True)
    asked = asked.assign(unit=asked["pair"])
    asked.loc[asked["test_set"] == "reworded", "pair"] += " reworded"
    columns = ["test_set", "unit", "pair", "request", "dsl", "apis"]
    if "said" not in pairs:
        return asked[columns]
    said = pairs.drop_duplicates("pair").set_index("pair")["said"]
    return asked.assign(said=asked["unit"].map(said))[[*columns, "said"]]


def copied_flows(pool: pd.DataFrame, pool_vectors: np.ndarray, vectors: np.ndarray) -> pd.DataFrame:
    """What writes without any model: for each request the flow of the nearest training pair.

    Args:
        pool: the training pairs, column dsl.
        pool_vectors, vectors: unit vectors of their requests and of those asked.

    Returns:
        columns text, finished (all True).
    """
    found = nearest(pool_vectors, vectors, 1)[0][:, 0]
    return pd.DataFrame({"text": pool["dsl"].iloc[found].tolist(), "finished": True})


def scored_answers(condition: str, answers: pd.DataFrame, asks: pd.DataFrame, catalogue) -> pd.DataFrame:
    """Answers with their scores, as `lib.workflows.scoring.outcomes` takes them.

    Args:
        condition: who wrote them.
        answers: column text, and whatever else.
        asks: what was asked, a row an answer: columns unit (the test pair), dsl (the right flow), and said (see
            `lib.workflows.generating.generate`) where it is known.

    Returns:
        columns of `score_flows`, those of `answers`, condition, unit; a range index.
    """
    scores = score_flows(answers["text"], asks["dsl"], catalogue, asks.get("said"))
    return scores.join(answers.reset_index(drop=True)).assign(condition=condition, unit=asks["unit"].tolist())


def scored_copies(
    condition: str, pool: pd.DataFrame, pool_vectors: np.ndarray, asks: pd.DataFrame, vectors: np.ndarray, catalogue
) -> pd.DataFrame:
    """`copied_flows` of a pool with their scores.

    Args:
        pool, pool_vectors, vectors: as for `copied_flows`.
        asks: of `questions`.

    Returns:
        as `scored_answers`, with columns test_set and pairs (of the pool).
    """
    copied = copied_flows(pool, pool_vectors, vectors)
    scores = scored_answers(condition, copied, asks, catalogue)
    return scores.assign(test_set=asks["test_set"].to_numpy(), pairs=len(pool))


def with_lists(scores: pd.DataFrame) -> pd.DataFrame:
    """Scored answers whose made-up names and parameters are lists, which Parquet holds."""
    names, parameters = scores["made_up_names"], scores["made_up_parameters"]
    return scores.assign(
        made_up_parameters=parameters.map(lambda made: [list(one) for one in made]), made_up_names=names.map(list)
    )
