"""The ablation of the workflow paper's section 5: conditions are rows of one frame; write, ask, score, compare.

A condition says whose few-shots a prompt shows and how many, which definitions, which model continues it and what that
may write. The in-context reader is two models: one learned on half of the connectors, one on the other; a flow is asked
of the one that learned on the half that the flow's connectors are not of, and flows with connectors of both halves are
not asked of it.

    rows = asked_rows(parameters)          a row a condition
    asked = to_ask(rows, {"test": 1000}, [0, 1], 60, "in_context")
    prompts = write_prompts(asked, materials, kept)
    answers = pd.concat(ask_model(part, models[name], …) for name, part in prompts.groupby("model"))
    compare_conditions(score(answers, flows, catalogue), pairs, samples, seed)
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from lib.evaluation.comparison import rate_differences, rates
from lib.evaluation.forensics import chained
from lib.evaluation.inference import percent
from lib.generation.answers import whole_units
from lib.generation.local import load_tokenizer
from lib.generation.models import locate
from lib.generation.remote import estimate_tokens
from lib.workbook.inputs import InputError
from lib.workbook.parameters import Parameters, is_remote
from lib.workflows.apis import DefinitionForm
from lib.workflows.catalogue import Catalogue
from lib.workflows.few_shots import few_shot_definitions, shot_positions, usual_number
from lib.workflows.grammars import flow_grammar
from lib.workflows.in_context import OTHER, reader_part
from lib.workflows.language import FlowError, called_apis, parse
from lib.workflows.pairs import sample
from lib.workflows.prompts import PARTS, STOPS, flow_in_chat, flow_of, flow_prompts, metaprompt_parts, token_counter
from lib.workflows.scoring import PERCENT, outcomes, score_flows

Counter = Callable[[str], int]

FIELDS = ["selector", "shots", "definitions", "generator", "decoding"]
MAY_BE = {
    "selector": ("pretrained", "tst", "random", "other", "oracle_shots"),
    "definitions": ("none", "instruction", "fd", "sfd", "fd_sfd", "gold"),
    "generator": ("untuned", "finetuned", "in_context", "instruct"),
    "decoding": ("free", "grammar", "catalogue"),
}
MEASURED = ("pretrained", "tst")  # selectors whose few-shots bring a number of definitions, as many as SFD may show
MOST_KEPT = 100  # flows of a condition, at most, whose answers come with the project
UNSEEN = "unseen"  # the test set of flows with APIs held out of training
UNSEEN_SHOTS = 5  # in the prompts that ask for these
FINETUNED, UNSEEN_FINETUNED = "no_shots_finetuned", "unseen: fine-tuned"
HELD = "catalogue"  # after the name of either: under the grammar with the catalogue's names and keys
COPIES = {
    "copy_pretrained": "pretrained",
    "copy_tst": "tst",
}  # conditions without a model, and whose few-shot is copied


# ---------------------------------------------------------------- conditions


class Condition(NamedTuple):
    """What a prompt shows and who continues it.

    Attributes:
        selector: whose few-shots: by the pretrained encoder or by TST; drawn at random; `other`: those of another
            request; `oracle_shots`: the nearest by the right flow, which no method could know.
        shots: few-shots in the prompt.
        definitions: none; FD, SFD or both, after the few-shots; `instruction`: how to use definitions, without any;
            `gold`: those of the right flow's APIs, which no method could know.
        generator: the language model as it comes; fine-tuned on requests and flows; in_context: taught to read
            few-shots on connectors that it is not asked about; an instruct model, asked through its chat template.
        decoding: free, under the grammar, or under the grammar with the catalogue's names and keys.
    """

    selector: str
    shots: int
    definitions: str = "none"
    generator: str = "untuned"
    decoding: str = "free"

    @property
    def name(self) -> str:
        """What the condition is called in artifacts, such as `tst_20_fd_sfd`."""
        parts = [self.selector if self.shots else "no", str(self.shots or "shots")]
        return "_".join([*parts, *(part for part in self[2:] if part not in ("none", "untuned", "free"))])


def reader_of(parameters: Parameters) -> str:
    """The generator that stands for the paper's GPT-4: the untuned one where it has a name, else the in-context one."""
    return "untuned" if parameters.untuned_generator else "in_context"


def asked_rows(parameters: Parameters) -> pd.DataFrame:
    """The rows of a profile as a frame: columns condition (the name), `FIELDS`, flows (of each test set); those of the
    instruct model only where its parameters name one.

    Args:
        parameters: of notebook 09; `ablation` has lists in the order of `FIELDS` and flows.

    Raises:
        InputError: a row is none, two are the same, or the paper's tables lack a row that all others are compared with.
    """
    rows, reader, remote = parameters.ablation, reader_of(parameters), is_remote(parameters.untuned_generator)
    if parameters.dsl_max_tokens >= parameters.prompt_window:
        raise InputError("prompt_window: must be larger than dsl_max_tokens")
    made = [_condition(row, remote) for row in rows]
    frame = pd.DataFrame(made, columns=FIELDS).assign(flows=[row[-1] for row in rows])
    frame.insert(0, "condition", [one.name for one in made])
    if twice := frame.loc[frame["condition"].duplicated(), "condition"].tolist():
        raise InputError(f"ablation: two rows are {twice[0]}")
    needed = [Condition("pretrained", 5, what, reader) for what in ("none", "fd")]
    for one in (*needed, Condition("pretrained", 0, "none", "finetuned")):
        if one.name not in set(frame["condition"]):
            raise InputError(f"ablation: the paper's row {[*one]} is missing")
    return frame[(frame["generator"] != "instruct") | bool(parameters.instruct_generator)]


def _condition(row: Sequence, remote: bool) -> Condition:
    if not isinstance(row, list | tuple) or len(row) != len(FIELDS) + 1:
        raise InputError(f"ablation: a row must have {len(FIELDS) + 1} entries: {', '.join(FIELDS)}, flows; not {row}")
    made, flows = Condition(*row[:-1]), row[-1]
    wrong = {
        f"{field} must be one of {', '.join(known)}": getattr(made, field) not in known
        for field, known in MAY_BE.items()
    }
    wrong |= {
        "few-shots must be a whole number from 0 to 100": type(made.shots) is not int or not 0 <= made.shots <= 100,
        "flows must be a whole number from 1": type(flows) is not int or flows < 1,
        f"SFD shows as many definitions as FD: it needs the few-shots of one of {', '.join(MEASURED)}": (
            made.selector not in MEASURED and made.definitions in ("sfd", "fd_sfd")
        ),
        "the fine-tuned model reads no definitions": made.generator == "finetuned" and made.definitions != "none",
        "a model behind an endpoint cannot be held to a grammar": (
            remote and made.generator == "untuned" and made.decoding != "free"
        ),
    }
    for message, found in wrong.items():
        if found:
            raise InputError(f"ablation: {message}: {row}")
    return made


def to_ask(
    rows: pd.DataFrame, sizes: Mapping[str, int], added: Sequence[int], unseen_flows: int, reader: str
) -> pd.DataFrame:
    """Every condition that is asked: the rows on each test set, and those about APIs held out of training.

    Args:
        sizes: {test set: its flows}.
        added: examples of each API held out that are added to the few-shots; the fewest first.
        unseen_flows: requests for such APIs; with 0 none is asked.

    Returns:
        the columns of `asked_rows`, test_set, and added (0 for test flows).
    """
    parts = [rows.assign(test_set=name, flows=rows["flows"].clip(upper=n), added=0) for name, n in sizes.items()]
    unseen = [
        (unseen_name(n, what), *Condition("pretrained", UNSEEN_SHOTS, what, reader), n)
        for n in added
        for what in (("none", "fd_sfd") if n else ("none", "sfd", "gold"))
    ]
    for name, decoding in ((UNSEEN_FINETUNED, "free"), (f"{UNSEEN_FINETUNED}, {HELD}", HELD)):
        unseen.append((name, *Condition("pretrained", 0, "none", "finetuned", decoding), 0))
    if unseen_flows:
        columns = ["condition", *FIELDS, "added"]
        parts.append(pd.DataFrame(unseen, columns=columns).assign(flows=unseen_flows, test_set=UNSEEN))
    return pd.concat(parts, ignore_index=True)


def unseen_name(added: int, definitions: str) -> str:
    """The name of a condition on APIs held out of training, such as `unseen: 1 new, fd_sfd, free`."""
    return f"unseen: {added} new, {definitions}, free"


WORDS = {
    "pretrained": "pretrained encoder",
    "tst": "TST",
    "random": "drawn at random",
    "other": "of another request",
    "oracle_shots": "nearest by the right flow (oracle)",
    "instruction": "with the instruction on definitions, without any",
    "fd": "FD",
    "sfd": "SFD",
    "fd_sfd": "FD + SFD",
    "gold": "gold definitions",
    "grammar": "under the grammar",
    "catalogue": "under the grammar and the catalogue",
    "untuned": "untuned model",
    "finetuned": "fine-tuned model",
    "in_context": "in-context reader",
    "instruct": "instruct model",
}


def title(condition: Condition, usual: str) -> str:
    """A condition's name for readers, such as `TST, 20 few-shots, FD + SFD`; the usual generator goes unnamed."""
    shots = f"{WORDS[condition.selector]}, {condition.shots} few-shot{'s' if condition.shots > 1 else ''}"
    parts = [
        WORDS[condition.generator] if condition.generator != usual else "",
        shots if condition.shots else "no few-shots",
        WORDS.get(condition.definitions, ""),
        WORDS.get(condition.decoding, ""),
    ]
    return ", ".join(part for part in parts if part)


def titles(asked: pd.DataFrame, reader: str) -> dict[str, str]:
    """{condition: its name for readers}, those that copy too; `asked` of `to_ask`."""
    tests, unseen = asked[asked["test_set"] != UNSEEN], asked[asked["test_set"] == UNSEEN]
    named = {row.condition: title(Condition(*row[2:7]), reader) for row in tests.itertuples()}
    for row in unseen.itertuples():
        added = (
            f"{row.added} example{'s' if row.added > 1 else ''} of each added" if row.added else "no examples of them"
        )
        words = [added, WORDS.get(row.definitions, "no definitions")]
        if row.generator == "finetuned":
            words = [WORDS["finetuned"], WORDS.get(row.decoding, "")]
        named[row.condition] = ", ".join(filter(None, words))
    return named | {name: f"nearest flow copied, {WORDS[selector]}" for name, selector in COPIES.items()}


# ---------------------------------------------------------------- flows and few-shots


def order_of_asking(flows: pd.DataFrame, test_sets: Sequence[str], seed: int) -> dict[str, pd.DataFrame]:
    """{test set: its flows in the order of asking}, of which every condition takes the first; only sets that have any.

    Those whose connectors are of one half (column half) come first: any sample then shares its flows with that of the
    in-context reader, which is asked no others.

    Args:
        flows: columns pair, split, half and whatever else.
        seed: of the order.
    """
    ordered = {name: _in_one_half_first(sample(flows, name, len(flows), seed)) for name in test_sets}
    return {name: part for name, part in ordered.items() if len(part)}


def _in_one_half_first(flows: pd.DataFrame) -> pd.DataFrame:
    return flows.iloc[np.argsort(flows["half"].eq("").to_numpy(), kind="stable")]


def few_shots_of(few_shots: pd.DataFrame, flows: pd.DataFrame, rows: pd.DataFrame) -> dict[str, pd.Series]:
    """Each selector's few-shots, by pair, as rows of `flows`, nearest first.

    Args:
        few_shots: columns selector, pair, shot (a training pair), rank (from 1).
        rows: of `asked_rows`, whose few-shots are needed.

    Raises:
        ValueError: fewer were kept than a row needs, and there are more training pairs.
    """
    kept, most = few_shots["rank"].max(), rows["shots"].max()
    if kept < min(most, (flows["split"] == "training").sum()):
        raise ValueError(f"notebook 08 kept {kept} few-shots a request, a row needs {most}: set its `shots`")
    pairs = flows["pair"].tolist()
    return {str(name): shot_positions(part, pairs, kept) for name, part in few_shots.groupby("selector")}


def asked_of_new_apis(
    flows: pd.DataFrame, new: Collection[str], find: Callable[..., np.ndarray], added: Collection[int], seed: int
) -> tuple[pd.DataFrame, dict[int, pd.Series]]:
    """Requests for APIs held out of training, and their few-shots with examples of these APIs among them.

    A third of the flows that use such an API may be asked about; the rest gives the examples, which are added to the
    pairs to choose from without any training.

    Args:
        flows: columns pair, split, request, dsl, apis, half; a range index.
        new: names of the APIs held out.
        find: from row numbers of the flows to choose from, those of the flows asked about and a number to as many
            places among the first for each, nearest first.
        added: examples of each such API; a number that no pair is left for gives no few-shots.
        seed: of the draws.

    Returns:
        the requests in the order of asking; {examples of each: few-shots by pair, as rows of `flows`, nearest first}.
    """
    training, unseen = flows[flows["split"] == "training"], flows[flows["split"] == UNSEEN]
    drawn = unseen.iloc[np.random.default_rng(seed).permutation(len(unseen))].head(len(unseen) // 3)
    drawn = _in_one_half_first(drawn)
    rest = unseen[~unseen["pair"].isin(set(drawn["pair"]))]
    shots = {}
    for n in sorted({0, *added}):
        examples = _examples(rest, set(new), n, seed)
        if len(drawn) and (not n or examples):
            pool = np.array([*training.index, *examples])
            found = pool[find(pool, drawn.index, UNSEEN_SHOTS)]
            shots[n] = pd.Series(found.tolist(), drawn["pair"])
    return drawn, shots


def _examples(pairs: pd.DataFrame, new: set[str], n: int, seed: int) -> list[int]:
    """Rows that use each new API n times, or as often as there are pairs that do."""
    pairs = pairs.iloc[np.random.default_rng(seed).permutation(len(pairs))]
    times, chosen = dict.fromkeys(new, 0), []
    for row, apis in zip(pairs.index, pairs["apis"], strict=True):
        wanted = new.intersection(apis)
        if any(times[name] < n for name in wanted):
            chosen.append(row)
            for name in wanted:
                times[name] += 1
    return chosen


def reading_room(models: Mapping[str, str], window: int, max_new_tokens: int) -> dict[str, tuple[int, Counter]]:
    """For each role how many tokens a prompt may have, and what counts them (of a model behind an endpoint an
    estimate).

    Args:
        models: names by role.
        window: tokens of prompt and answer at most, however many more a model takes.
    """
    found: dict[str, tuple[int, Counter]] = {}
    for model in dict.fromkeys(models.values()):
        if is_remote(model):
            found[model] = window - max_new_tokens, estimate_tokens
        else:
            tokenizer, config = load_tokenizer(locate(model))
            found[model] = min(config.max_position_embeddings, window) - max_new_tokens, token_counter(tokenizer)
    return {role: found[model] for role, model in models.items()}


def definitions_beside(rows: pd.DataFrame, near: Mapping[str, pd.Series], pairs, flows: pd.DataFrame) -> dict:
    """{(selector, shots): how many definitions SFD shows beside them}: as many as FD has on average over some pairs."""
    used = {(row.selector, row.shots) for row in rows.itertuples() if row.shots and row.selector in near}
    apis = flows["apis"].tolist()
    named = {}
    for selector, shots in sorted(used | {("pretrained", UNSEEN_SHOTS)}):
        named[selector, shots] = [few_shot_definitions(one[:shots], apis) for one in near[selector][list(pairs)]]
    return {key: usual_number(names) for key, names in named.items()}


# ---------------------------------------------------------------- write


def write_condition(
    condition,
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
        condition: a `Condition`, or what has its fields; the selector is not read: the caller chooses few-shots.
        asked: the requests, columns pair, request, apis (the right flow's, read by `definitions: gold` alone).
        shots: for each request positions in `training`, nearest first; the first `condition.shots` are shown.
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
    known = catalogue if condition.decoding == "catalogue" else None
    held = condition.decoding != "free"
    prompts["grammar"] = flow_grammar(known, stop=STOPS[condition.generator]) if held else None
    return prompts.assign(unit=asked["pair"].tolist())


@dataclass(frozen=True)
class Materials:
    """What prompts are written from.

    Attributes:
        flows: all pairs, columns split, request, dsl, apis; a range index. Few-shots are rows of it.
        catalogue: has the definitions.
        asked: {test set: its flows in the order of asking}, columns pair, request, apis, half.
        near: {selector, or for `UNSEEN` the number of examples added: few-shots by pair, nearest first}.
        semantic: the API names nearest to each pair's request (SFD).
        beside: of `definitions_beside`.
        room: {generator: (tokens that a prompt may have, what counts them)}.
        seed: of the few-shots drawn at random.
        form: of definitions.
    """

    flows: pd.DataFrame
    catalogue: Catalogue
    asked: Mapping[str, pd.DataFrame]
    near: Mapping[str | int, pd.Series]
    semantic: pd.Series
    beside: Mapping[tuple[str, int], int]
    room: Mapping[str, tuple[int, Counter]]
    seed: int
    form: DefinitionForm = "described"

    def shots(self, row, pairs: Sequence[str]) -> list[list[int]]:
        """The few-shots of requests; those drawn at random are other ones for each request, and those of another
        request are the nearest ones of the next request in the order of asking."""
        if not row.shots:
            return [[] for _ in pairs]
        if row.test_set == UNSEEN:
            return self.near[row.added][list(pairs)].tolist()
        if row.selector == "random":
            training = np.flatnonzero(self.flows["split"] == "training")
            draw, size = np.random.default_rng([self.seed, row.shots]), min(row.shots, len(training))
            return [training[draw.choice(len(training), size, replace=False)].tolist() for _ in pairs]
        if row.selector == "other":
            order = self.asked[row.test_set]["pair"].tolist()
            following = dict(zip(order, [*order[1:], *order[:1]], strict=True))
            return self.near["pretrained"][[following[pair] for pair in pairs]].tolist()
        return self.near[row.selector][list(pairs)].tolist()

    def prompts(self, row, flows: int) -> pd.DataFrame:
        """The prompts of a row of `to_ask` on the first flows of its test set: what `write_condition` returns, with
        columns condition, test_set, half (of the flow's connectors) and model: the generator, of the in-context reader
        which of its two."""
        requests, reads = self.asked[row.test_set], row.generator == "in_context"
        requests = (requests[requests["half"] != ""] if reads else requests).head(flows)
        number = self.beside.get((row.selector, row.shots), 0)
        prompts = write_condition(
            row,
            requests,
            self.shots(row, requests["pair"]),
            self.flows,
            self.catalogue,
            *self.room[row.generator],
            semantic=[list(self.semantic[pair][:number]) for pair in requests["pair"]],
            first=row.test_set == UNSEEN,
            form=self.form,
        )
        half = requests["half"].to_numpy()
        model = [reader_part(OTHER[one]) for one in half] if reads else row.generator
        return prompts.assign(condition=row.condition, test_set=row.test_set, half=half, model=model)


def write_prompts(
    asked: pd.DataFrame,
    materials: Materials,
    kept: Callable[[pd.DataFrame], Sequence[bool]],
    most: int = MOST_KEPT,
) -> pd.DataFrame:
    """The prompts of conditions, each on all of its first flows whose answers are kept, where these are as many as it
    is to be asked on; else on so many.

    Args:
        asked: of `to_ask`.
        kept: whether the answer to each prompt is kept.
        most: flows that are looked for among those that are kept.
    """
    parts = []
    for row in asked.itertuples(index=False):
        prompts = materials.prompts(row, max(row.flows, most))
        units = whole_units(prompts["unit"], kept(prompts))
        chosen = units if len(units) >= row.flows else prompts["unit"].tolist()[: row.flows]
        parts.append(prompts[prompts["unit"].isin(chosen)])
    return pd.concat(parts, ignore_index=True)


# ---------------------------------------------------------------- ask


def ask_model(
    prompts: pd.DataFrame, model, generator: str, max_new_tokens: int, remote: bool = False, progress: bool = False
) -> pd.DataFrame:
    """The flows that a model writes, greedily, all prompts in one call, so that those that begin alike are read once.

    Args:
        prompts: columns prompt, grammar (text or None).
        model: a `lib.generation.local.LocalModel`, or where no prompt has a grammar a model behind an endpoint.
        generator: whose stop texts end an answer; an instruct model is asked through its chat template.
        remote: whether it is behind an endpoint: then, too.

    Returns:
        `prompts` with columns text (the flow), finished (bool), tokens_in, tokens_out, seconds.
    """
    asked = _asked_with(prompts, generator, max_new_tokens, remote)
    answers = model.generate(prompts["prompt"].tolist(), progress=progress, **asked)
    read = flow_in_chat if generator == "instruct" else flow_of
    costs = pd.DataFrame(
        [(cost.tokens_in, cost.tokens_out, cost.seconds) for cost in model.costs],
        columns=["tokens_in", "tokens_out", "seconds"],
        index=prompts.index,
    )
    return prompts.assign(text=list(map(read, answers)), finished=model.finished).join(costs)


def _asked_with(prompts: pd.DataFrame, generator: str, max_new_tokens: int, remote: bool = False) -> dict[str, Any]:
    """A blank line does not end an answer of a chat: what chat models like to say first ends with one."""
    chat = remote or generator == "instruct"
    grammars = [grammar if isinstance(grammar, str) else None for grammar in prompts["grammar"]]
    return {
        "max_new_tokens": max_new_tokens,
        "stop": [text for text in STOPS[generator] if text.strip() or not chat],
        "chat": chat,
        "grammars": grammars if any(grammars) else None,
    }


def kept_by(prompts: pd.DataFrame, models: Mapping[str, Any], max_new_tokens: int) -> list[bool]:
    """Whether the answer that `ask_model` gives to each prompt is kept; `models` by the name in the column model."""
    there = pd.Series(False, prompts.index)
    for name, part in prompts.groupby("model"):
        if name in models:
            asked = _asked_with(part, str(name).split("-")[0], max_new_tokens)
            there[part.index] = models[str(name)].has(part["prompt"].tolist(), **asked)
    return there.tolist()


def copied(near: Mapping, flows: pd.DataFrame, answered: pd.DataFrame) -> pd.DataFrame:
    """What writes without any model: for each request that a model was asked, the flow of its nearest few-shot. Over
    more requests copies would stand beside models on other ones.

    Args:
        near: of `few_shots_of`; selectors that it lacks give no copies.
        flows: as for `Materials`.
        answered: by models: columns test_set, unit, half.

    Returns:
        columns condition (of `COPIES`), test_set, unit, half, text, finished.
    """
    asked = answered[["test_set", "unit", "half"]].drop_duplicates("unit")
    parts = []
    for name, selector in COPIES.items():
        if selector in near:
            nearest_shot = [shots[0] for shots in near[selector][asked["unit"]]]
            parts.append(asked.assign(condition=name, text=flows["dsl"].to_numpy()[nearest_shot], finished=True))
    return pd.concat(parts, ignore_index=True)


# ---------------------------------------------------------------- score and compare


def score(answers: pd.DataFrame, flows: pd.DataFrame, catalogue: Catalogue) -> pd.DataFrame:
    """Answers with their scores.

    Args:
        answers: columns unit and text, whatever else.
        flows: by unit: dsl (the right flow's text), and said (see `lib.workflows.generating.generate`) where it is
            known.

    Returns:
        `answers` with the columns of `score_flows`.
    """
    said = answers["unit"].map(flows["said"]) if "said" in flows else None
    found = score_flows(answers["text"], answers["unit"].map(flows["dsl"]), catalogue, said)
    return pd.concat([answers.reset_index(drop=True), found], axis=1)


def with_lists(scores: pd.DataFrame) -> pd.DataFrame:
    """Scores as an artifact has them: without prompts, and with lists where Parquet cannot hold tuples."""
    kept = scores.drop(columns=["prompt", "grammar", "definitions"], errors="ignore")
    return kept.assign(
        made_up_parameters=kept["made_up_parameters"].map(lambda made: [list(one) for one in made]),
        made_up_names=kept["made_up_names"].map(list),
    )


DELTAS = ["delta", "delta_ci_low", "delta_ci_high"]


def compare_conditions(scores: pd.DataFrame, pairs: pd.DataFrame, samples: int, seed: int) -> pd.DataFrame:
    """The metrics of conditions on each test set, and how they differ from those of others on the same flows.

    Args:
        scores: what `score` returned, with columns condition and test_set.
        pairs: columns condition, against (a condition, or the same one: no difference), and whatever else.
        samples, seed: of the bootstrap.

    Returns:
        the columns of `pairs`, test_set, metric, value, ci_low, ci_high, n, counted (of these, the flows that the
        metric counts), `DELTAS`, shared (flows that both have), counted_both (of these, those that it counts in both).
        Intervals are 95%. A test set that lacks a side is left out.
    """
    parts = []
    for test_set, part in scores.groupby("test_set", sort=False):
        there = pairs[pairs[["condition", "against"]].isin(set(part["condition"])).all(axis=1)]
        named = {*there["condition"], *there["against"]}
        of_flows = outcomes(part[part["condition"].isin(named)])
        rivals = there.loc[there["condition"] != there["against"], ["condition", "against"]].drop_duplicates()
        deltas = rate_differences(of_flows, list(rivals.itertuples(index=False, name=None)), PERCENT, samples, seed)
        names = {"a": "condition", "b": "against", "ci_low": DELTAS[1], "ci_high": DELTAS[2], "n": "shared"}
        deltas = deltas.rename(columns=names).drop(columns="p_value").astype(dict.fromkeys(DELTAS, float))
        values = there.merge(rates(of_flows, PERCENT, samples, seed), on="condition")
        parts.append(values.merge(deltas, on=["condition", "against", "metric"], how="left").assign(test_set=test_set))
    return pd.concat(parts, ignore_index=True)


def comparisons(asked: pd.DataFrame, published: pd.DataFrame, reader: str) -> pd.DataFrame:
    """Which conditions are compared with which: columns condition, against, table.

    The paper's tables: `1` to `4`. Ours: `fair`: each with five few-shots by the pretrained encoder; `definitions`:
    each with the same without definitions, and with their instruction alone; `shots`: with the next fewer few-shots;
    `grammar`: with the same decoded freely; `unseen`: APIs held out, with few-shots that do not have them.

    Args:
        asked: of `to_ask`.
        published: columns table, selector, shots, definitions, metric, delta.
        reader: the generator that stands for the paper's GPT-4.
    """
    five, twenty = (Condition("pretrained", shots, "none", reader).name for shots in (5, 20))
    against = {1: five, 2: five, 3: twenty, 4: FINETUNED}
    found = [(name, name, str(number)) for number, name in against.items()]
    for row in published.drop_duplicates(["table", *FIELDS[:3]]).itertuples():
        name = Condition(row.selector, row.shots, row.definitions, reader).name
        found.append((name, against[row.table], str(row.table)))
    fewer: dict[Any, Any] = {}
    for row in asked[asked["test_set"] != UNSEEN].drop_duplicates("condition").sort_values("shots").itertuples():
        one = Condition(*row[2:7])
        found.append((one.name, five, "fair"))
        if one.definitions not in ("none", "instruction"):
            found += [
                (one.name, one._replace(definitions=what).name, "definitions") for what in ("none", "instruction")
            ]
        if one.decoding != "free":
            found.append((one.name, one._replace(decoding="free").name, "grammar"))
        if one == Condition("pretrained", one.shots, "none", reader):
            found += [(one.name, name, "shots") for name in [*fewer.values()][-1:]]
            fewer[one.shots] = one.name
    found += [(name, five, "fair") for name in COPIES]
    unseen = asked.loc[asked["test_set"] == UNSEEN, "condition"]
    found += [(name, unseen_name(0, "none"), "unseen") for name in (*unseen, *COPIES)]
    return pd.DataFrame(found, columns=["condition", "against", "table"])


def with_definitions(published: pd.DataFrame) -> pd.DataFrame:
    """The printed cells, and what they say of definitions against none: more rows, of the table `definitions`."""
    scale = chained(published).set_index([*FIELDS[:3], "metric"])["value"]
    defined = scale.reset_index().query("definitions != 'none'")
    without = defined.assign(definitions="none").set_index([*FIELDS[:3], "metric"])
    delta = defined["value"].to_numpy() - scale.reindex(without.index).to_numpy()
    more = defined.assign(table="definitions", delta=delta.round(2)).drop(columns="value")
    return pd.concat([published.astype({"table": str}), more], ignore_index=True)


CONTRACT = [*FIELDS, "test_set", "metric", "value", "ci_low", "ci_high", *DELTAS, "n", "published_delta", "table"]


def contract(compared: pd.DataFrame, asked: pd.DataFrame, published: pd.DataFrame) -> pd.DataFrame:
    """The rows of `tables/dsl_ablation.csv`: `CONTRACT`, condition, against.

    Args:
        compared: of `compare_conditions`, its pairs with a column table.
        asked: of `to_ask`.
        published: columns table, selector, shots, definitions, metric, delta.
    """
    about = asked.drop_duplicates("condition").set_index("condition")[FIELDS]
    copies = {name: [selector, 1, "none", "copy", "free"] for name, selector in COPIES.items()}
    about = pd.concat([about, pd.DataFrame.from_dict(copies, orient="index", columns=FIELDS)])
    others = compared.loc[~compared["condition"].isin(about.index), "condition"].drop_duplicates()  # of notebook 08
    kinds = ["finetuned" if name.startswith("fine-tuned") else "copy" for name in others]
    about = pd.concat([about, pd.DataFrame([["none", 0, "none", kind, "free"] for kind in kinds], others, FIELDS)])
    about.loc[about["shots"] == 0, "selector"] = "none"
    keys = ["table", *FIELDS[:3], "metric"]
    printed = published.astype({"table": str}).set_index(keys)["delta"].rename("published_delta")
    table = compared.join(about, on="condition").join(printed, on=keys)
    return table[[*CONTRACT, "condition", "against"]]


def new_apis_called(scores: pd.DataFrame, wanted: Mapping[str, Collection[str]]) -> pd.DataFrame:
    """100 where a flow calls at least one of the APIs that are wanted of its unit, else 0: units by conditions.

    Args:
        scores: columns condition, unit, text.
        wanted: names for each unit.
    """
    called = [100 * (not set(wanted[unit]).isdisjoint(_calls(text))) for unit, text in scores[["unit", "text"]].values]
    return scores.assign(value=called).pivot(index="unit", columns="condition", values="value")


def called_rates(called: pd.DataFrame) -> pd.DataFrame:
    """The columns of `new_apis_called` as rates in percent with Wilson's interval, as `compare_conditions` has rows."""
    n = called.notna().sum()
    value, low, high = percent(called.sum() / 100, n)
    rates = pd.DataFrame({"condition": n.index, "value": value, "ci_low": low, "ci_high": high, "n": n.to_numpy()})
    return rates.assign(against=rates["condition"], table="unseen", test_set=UNSEEN, metric="new_apis_called")


def _calls(text: str) -> list[str]:
    try:
        return called_apis(parse(text))
    except FlowError:
        return []


# ---------------------------------------------------------------- claims


def claimed_methods(rows: pd.DataFrame, reader: str, added: Collection[int]) -> dict[str, list[tuple[str, int]]]:
    """The methods of `data/claims.yaml` that each condition stands for, with their numbers of few-shots.

    The fine-tuned model, which has none, stands at both numbers.

    Args:
        rows: of `asked_rows`.
        reader: the generator that stands for the paper's GPT-4; claims are about its rows alone.
        added: examples of each API held out of training; the fewest but none are what claims are about.
    """
    own = rows[(rows["generator"] == reader) & (rows["decoding"] == "free") & rows["selector"].isin(MEASURED)]
    own = own[~own["definitions"].isin(["instruction", "gold"])]
    methods = {row.condition: [(_method(row.selector, row.definitions), row.shots)] for row in own.itertuples()}
    methods[FINETUNED] = [("finetuned_dsl", 5), ("finetuned_dsl", 20)]
    names = {
        unseen_name(0, "none"): "unseen_pretrained",
        unseen_name(0, "sfd"): "unseen_sfd",
        UNSEEN_FINETUNED: "unseen_finetuned_dsl",
    }
    for n in sorted({*added} - {0})[:1]:
        names[unseen_name(n, "none")] = "unseen_new_shot"
        names[unseen_name(n, "fd_sfd")] = "unseen_fd_sfd_new_shot"
    return methods | {name: [(method, UNSEEN_SHOTS)] for name, method in names.items()}


def _method(selector: str, definitions: str) -> str:
    return f"{selector}_{definitions}".removesuffix("_none")


def claimed_scores(scores: pd.DataFrame, methods: Mapping[str, list], called: pd.DataFrame) -> pd.DataFrame:
    """One row for each flow, method, metric and number of few-shots; similarity and rates are 0–100.

    Args:
        scores: what `score` returned, with a column condition.
        methods: of `claimed_methods`.
        called: of `new_apis_called`: the metric of that name.

    Returns:
        columns flow, method, metric, k, value; the value is NaN where the metric does not count the flow.
    """
    counts = outcomes(scores[scores["condition"].isin(methods)]).rename(columns={"unit": "flow"})
    counts["value"] = 100 * counts["numerator"] / counts["denominator"].where(counts["denominator"] > 0)
    calls = called.melt(ignore_index=False, var_name="condition").rename_axis("flow").reset_index()
    rows = pd.concat([counts, calls[calls["condition"].isin(methods)].assign(metric="new_apis_called")])
    claimed = rows.assign(method=rows["condition"].map(methods)).explode("method", ignore_index=True)
    claimed[["method", "k"]] = claimed["method"].tolist()
    return claimed[["flow", "method", "metric", "k", "value"]]


def published_for_claims(published: pd.DataFrame) -> pd.DataFrame:
    """The paper's rows on one scale (`chained`), columns method, metric, k, value; similarity times 100."""
    scale = chained(published)
    methods = [_method(*row) for row in zip(scale["selector"], scale["definitions"], strict=True)]
    hundred = np.where(scale["metric"] == "similarity", 100, 1)
    scale = scale.assign(method=methods, k=scale["shots"], value=scale["value"] * hundred)
    of_finetuned = scale[scale["method"] == "finetuned"].assign(method="finetuned_dsl")
    parts = [scale[scale["method"] != "finetuned"], of_finetuned.assign(k=5), of_finetuned.assign(k=20)]
    return pd.concat(parts)[["method", "metric", "k", "value"]]
