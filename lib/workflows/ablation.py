"""The ablation of the workflow paper's section 5: conditions are rows of one frame; write, ask, score, compare.

A condition says whose few-shots a prompt shows and how many, which definitions, which model continues it and what that
may write. The in-context reader is two models: one learned on half of the connectors, one on the other; a flow is asked
of the one that learned on the half that the flow's connectors are not of, and flows with connectors of both halves are
not asked of it. The instruct model is a larger one as it comes, asked through its chat template.

    asked = to_ask(asked_rows(parameters), …)          a row a condition
    prompts = write_prompts(asked, materials, kept)
    answers = pd.concat(ask_model(part, models[name], …) for name, part in prompts.groupby("model"))
    compare_conditions(score(answers, flows, catalogue), pairs, samples, seed)

For the paper's tables and claims the instruct model stands for GPT-4 where it answered, else the in-context reader:
both sides of a difference are always by one of them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from pydantic import BaseModel, Field

from lib.evaluation.comparison import rate_differences, rates
from lib.evaluation.forensics import chained
from lib.generation.answers import estimate_tokens, whole_units
from lib.generation.local import load_tokenizer
from lib.generation.models import locate
from lib.workbook.inputs import InputError, validated
from lib.workbook.parameters import Parameters, is_remote
from lib.workflows.catalogue import Catalogue
from lib.workflows.few_shots import few_shot_definitions, shot_positions, usual_number
from lib.workflows.grammars import flow_grammar
from lib.workflows.in_context import OTHER
from lib.workflows.language import called_apis, parse
from lib.workflows.pairs import sample
from lib.workflows.prompts import PARTS, STOPS, flow_of, flow_prompts, metaprompt_parts, token_counter
from lib.workflows.scoring import PERCENT, outcomes, score_flows

Counter = Callable[[str], int]
HALF_FIRST: dict[str, Any] = {"key": lambda half: half.eq(""), "kind": "stable"}  # flows of one half before all others
MEASURED = ("pretrained", "tst")  # selectors whose few-shots bring a number of definitions, as many as SFD may show
MOST_KEPT = 120  # flows of a condition, at most, whose answers come with the project
INSTRUCT_TOKENS = 256  # of the instruct model's flows, at most, whatever a profile says: what it wrote takes hours
WINDOW = 8192  # tokens that prompt and answer may have, however many more a model takes
TEST_SETS = ("test", "test_same")  # requests in new wordings, and in those of training
UNSEEN = "unseen"  # the test set of flows with APIs held out of training
UNSEEN_SHOTS = 5  # in the prompts that ask for these
NEW_SHOTS = (0, 1)  # examples of each API held out that are added to the few-shots to choose from
FINETUNED, UNSEEN_FINETUNED = "no_shots_finetuned", "unseen: fine-tuned"
HELD = "catalogue"  # after the name of either: under the grammar with the catalogue's names and keys
COPIES = {"copy_pretrained": "pretrained", "copy_tst": "tst"}  # conditions without a model: whose few-shot is copied


# ---------------------------------------------------------------- conditions


class _Row(BaseModel, strict=True):
    """What a condition of a profile may be, and how many flows of each test set are asked."""

    selector: Literal["pretrained", "tst", "random", "other"]
    shots: int = Field(ge=0, le=100)
    definitions: Literal["none", "fd", "sfd", "fd_sfd"]
    generator: Literal["untuned", "finetuned", "in_context", "instruct"]
    decoding: Literal["free", "catalogue", "snapped"]
    flows: int = Field(ge=1)


class Condition(NamedTuple):
    """What a prompt shows and who continues it. Definitions called `gold` are those of the right flow's APIs, which no
    method could know. Decoding is free, under the grammar with the catalogue's names and keys, or free and snapped to
    these afterwards (see `lib.workflows.repair`)."""

    selector: str  # whose few-shots: by the pretrained encoder or TST, drawn at random, or `other`: another request's
    shots: int
    definitions: str = "none"
    generator: str = "untuned"  # the model as it comes; fine-tuned on requests and flows; taught to read; instruct
    decoding: str = "free"

    @property
    def name(self) -> str:
        """What the condition is called in artifacts, such as `tst_20_fd_sfd`."""
        parts = [self.selector if self.shots else "no", str(self.shots or "shots")]
        return "_".join([*parts, *(part for part in self[2:] if part not in ("none", "untuned", "free"))])


FIELDS = [*Condition._fields]


def readers_of(parameters: Parameters) -> tuple[str, ...]:
    """The generators that stand for the paper's GPT-4; its tables and claims are by the first one whose answers are
    there, the last is asked in every run."""
    return ("untuned",) if parameters.untuned_generator else ("instruct", "in_context")


def asked_rows(parameters: Parameters) -> pd.DataFrame:
    """The rows of a profile (`ablation` of notebook 09) as a frame: columns condition (the name), `FIELDS`, flows (of
    each test set). Raises InputError where a row is none, two are the same, or one is missing that all others are
    compared with."""
    columns, rows, remote = [*_Row.model_fields], parameters.ablation, is_remote(parameters.untuned_generator)
    for row in rows:
        if not isinstance(row, list | tuple) or len(row) != len(columns):
            raise InputError(f"ablation: a row must have {len(columns)} entries: {', '.join(columns)}; not {row}")
        one = validated(_Row, dict(zip(columns, row, strict=True)), f"ablation: {row}")
        if one.selector not in MEASURED and "sfd" in one.definitions:
            raise InputError(f"ablation: SFD needs the few-shots of one of {', '.join(MEASURED)}: {row}")
        if one.generator == "finetuned" and (one.shots or one.definitions != "none"):
            raise InputError(f"ablation: the fine-tuned model reads no few-shots and no definitions: {row}")
        if one.decoding == HELD and (one.generator == "instruct" or (remote and one.generator == "untuned")):
            raise InputError(f"ablation: a model that is asked in a chat is not held to a grammar here: {row}")
    frame = pd.DataFrame(rows, columns=columns)
    frame.insert(0, "condition", [Condition(*row[:-1]).name for row in rows])
    if twice := frame.loc[frame["condition"].duplicated(), "condition"].tolist():
        raise InputError(f"ablation: two rows are {twice[0]}")
    usual = Condition("pretrained", 5, "none", readers_of(parameters)[-1])
    for wanted in (usual, Condition("pretrained", 0, "none", "finetuned")):
        if wanted.name not in set(frame["condition"]):
            raise InputError(f"ablation: the paper's row {[*wanted]} is missing")
    return frame


def to_ask(
    rows: pd.DataFrame, sizes: Mapping[str, int], added: Sequence[int], unseen_flows: int, readers: Sequence[str]
) -> pd.DataFrame:
    """Every condition that is asked: the rows on each test set of some size, and with so many unseen flows (0: none)
    those about APIs held out, of each reader, with some examples of each API added; of the in-context reader, which
    learned from shorter prompts, without definitions. Columns as of `asked_rows`, test_set, and added."""
    parts = [rows.assign(test_set=name, flows=rows["flows"].clip(upper=n), added=0) for name, n in sizes.items()]
    unseen = [
        (unseen_name(n, what, reader), *Condition("pretrained", UNSEEN_SHOTS, what, reader), n)
        for reader in readers
        for n in added
        for what in (("none", "fd_sfd") if n else ("none", "sfd", "gold"))
        if what == "none" or reader != "in_context"
    ]
    for name, decoding in ((UNSEEN_FINETUNED, "free"), (f"{UNSEEN_FINETUNED}, {HELD}", HELD)):
        unseen.append((name, *Condition("pretrained", 0, "none", "finetuned", decoding), 0))
    if unseen_flows:
        columns = ["condition", *FIELDS, "added"]
        parts.append(pd.DataFrame(unseen, columns=columns).assign(flows=unseen_flows, test_set=UNSEEN))
    return pd.concat(parts, ignore_index=True)


def unseen_name(added: int, definitions: str, reader: str) -> str:
    """The name of a condition on APIs held out of training, such as `unseen: 1 new, fd_sfd, instruct`."""
    return f"unseen: {added} new, {definitions}, {reader}"


# ---------------------------------------------------------------- flows and few-shots


def order_of_asking(flows: pd.DataFrame, test_sets: Sequence[str], seed: int) -> dict[str, pd.DataFrame]:
    """{test set: its flows in the order of asking}, of which every condition takes the first; only sets that have any.
    Those of one half come first: any sample then shares its flows with the in-context reader's, which has no others."""
    ordered = {name: sample(flows, name, len(flows), seed).sort_values("half", **HALF_FIRST) for name in test_sets}
    return {name: part for name, part in ordered.items() if len(part)}


def few_shots_of(few_shots: pd.DataFrame, flows: pd.DataFrame, rows: pd.DataFrame) -> dict[str, pd.Series]:
    """Each selector's few-shots (columns selector, pair, shot, rank), by pair, as rows of `flows`, nearest first.
    Raises ValueError where fewer were kept than a row needs, and there are more training pairs."""
    kept, most = few_shots["rank"].max(), rows["shots"].max()
    if kept < min(most, (flows["split"] == "training").sum()):
        raise ValueError(f"notebook 08 kept {kept} few-shots a request, a row needs {most}: set its `shots`")
    pairs = flows["pair"].tolist()
    return {str(name): shot_positions(part, pairs, kept) for name, part in few_shots.groupby("selector")}


def asked_of_new_apis(
    flows: pd.DataFrame, new: Collection[str], find: Callable[..., np.ndarray], seed: int
) -> tuple[pd.DataFrame, dict[int, pd.Series]]:
    """Requests for APIs held out of training (`new`), in the order of asking, and {of `NEW_SHOTS`: their few-shots by
    pair, as rows of `flows`, nearest first}, without a number that no pair is left for.

    A third of the flows that use such an API may be asked about; the rest gives the examples, which are added to the
    pairs to choose from without any training.

    Args:
        flows: columns pair, split, request, dsl, apis, half; a range index.
        find: from row numbers of the flows to choose from, those of the flows asked about and a number to as many
            places among the first for each, nearest first.
    """
    training, unseen = flows[flows["split"] == "training"], flows[flows["split"] == UNSEEN]
    drawn = unseen.iloc[np.random.default_rng(seed).permutation(len(unseen))].head(len(unseen) // 3)
    rest = unseen[~unseen["pair"].isin(set(drawn["pair"]))]
    rest = rest.iloc[np.random.default_rng(seed).permutation(len(rest))]
    drawn, shots = drawn.sort_values("half", **HALF_FIRST), {}
    for n in NEW_SHOTS:
        times, examples = dict.fromkeys(new, 0), []
        for row, apis in zip(rest.index, rest["apis"], strict=True):
            wanted = times.keys() & set(apis)
            if any(times[name] < n for name in wanted):
                examples.append(row)
                times |= {name: times[name] + 1 for name in wanted}
        if len(drawn) and (not n or examples):
            pool = np.array([*training.index, *examples])
            found = pool[find(pool, drawn.index, UNSEEN_SHOTS)]
            shots[n] = pd.Series(found.tolist(), drawn["pair"])
    return drawn, shots


def reading_room(models: Mapping[str, str], max_new_tokens: int) -> dict[str, tuple[int, Counter]]:
    """For each role's model, how many tokens a prompt may have, and what counts them (behind an endpoint estimated)."""
    room: dict[str, tuple[int, Counter]] = {}
    for model in set(models.values()):
        if is_remote(model):
            room[model] = WINDOW - max_new_tokens, estimate_tokens
            continue
        tokenizer, config = load_tokenizer(locate(model))
        room[model] = min(config.max_position_embeddings, WINDOW) - max_new_tokens, token_counter(tokenizer)
    return {role: room[model] for role, model in models.items()}


def definitions_beside(rows: pd.DataFrame, near: Mapping[str, pd.Series], pairs, flows: pd.DataFrame) -> dict:
    """{(selector, shots): how many definitions SFD shows beside them}: as many as FD has on average over some pairs."""
    used = {(row.selector, row.shots) for row in rows.itertuples() if row.shots and row.selector in near}
    apis, found = flows["apis"].tolist(), {}
    for selector, shots in used | {("pretrained", UNSEEN_SHOTS)}:
        named = [few_shot_definitions(one[:shots], apis) for one in near[selector][list(pairs)]]
        found[selector, shots] = usual_number(named)
    return found


# ---------------------------------------------------------------- write


@dataclass(frozen=True)
class Materials:
    """What prompts are written from."""

    flows: pd.DataFrame  # all pairs, columns split, request, dsl, apis; a range index. Few-shots are rows of it
    catalogue: Catalogue
    asked: Mapping[str, pd.DataFrame]  # {test set: of `order_of_asking`}
    near: Mapping[str | int, pd.Series]  # {selector, or of `UNSEEN` the examples added: few-shots, as `few_shots_of`}
    semantic: pd.Series  # the API names nearest to each pair's request (SFD)
    beside: Mapping[tuple[str, int], int]  # of `definitions_beside`
    room: Mapping[str, tuple[int, Counter]]  # of `reading_room`
    seed: int  # of the few-shots drawn at random

    def shots(self, row, pairs: Sequence[str]) -> list[list[int]]:
        """The few-shots of requests; those drawn at random are other ones for each request, and those of another
        request are the nearest ones of the next request in the order of asking."""
        if not row.shots:
            return [[] for _ in pairs]
        if row.selector == "random":
            training = np.flatnonzero(self.flows["split"] == "training")
            draw, size = np.random.default_rng([self.seed, row.shots]), min(row.shots, len(training))
            return [training[draw.choice(len(training), size, replace=False)].tolist() for _ in pairs]
        near = self.near[row.added if row.test_set == UNSEEN else row.selector.replace("other", "pretrained")]
        if row.selector == "other":
            order = self.asked[row.test_set]["pair"].tolist()
            following = dict(zip(order, [*order[1:], *order[:1]], strict=True))
            pairs = [following[pair] for pair in pairs]
        return [list(found[: row.shots]) for found in near[list(pairs)]]

    def prompts(self, row, flows: int) -> pd.DataFrame:
        """The prompts of a row of `to_ask` on the first flows of its test set: what `flow_prompts` returns, with
        columns unit (the pair), condition, test_set, half (of the flow's connectors), grammar (None where decoding is
        free) and model: the generator, of the in-context reader which of its two.

        The right flow's APIs are read for the definitions called `gold` alone."""
        requests, reads = self.asked[row.test_set], row.generator == "in_context"
        requests = (requests[requests["half"] != ""] if reads else requests).head(flows)
        pairs, what, parts = requests["pair"].tolist(), row.definitions, PARTS.get(row.generator, metaprompt_parts)
        if row.test_set == UNSEEN and row.generator not in PARTS:
            parts = functools.partial(parts, first=True)
        semantic = None
        if "sfd" in what:
            semantic = [list(self.semantic[pair][: self.beside[row.selector, row.shots]]) for pair in pairs]
        prompts = flow_prompts(
            requests["request"].tolist(),
            self.shots(row, pairs),
            self.flows,
            self.catalogue,
            *self.room[row.generator],
            few_shot=what in ("fd", "fd_sfd"),
            semantic=requests["apis"].tolist() if what == "gold" else semantic,
            parts=parts,
        )
        half = requests["half"].to_numpy()
        model = [f"in_context-{OTHER[one]}" for one in half] if reads else row.generator
        prompts["grammar"] = flow_grammar(self.catalogue, STOPS[row.generator]) if row.decoding == HELD else None
        return prompts.assign(unit=pairs, condition=row.condition, test_set=row.test_set, half=half, model=model)


def write_prompts(
    asked: pd.DataFrame,
    materials: Materials,
    kept: Callable[[pd.DataFrame], Sequence[bool]],
    only_kept: bool = False,
) -> pd.DataFrame:
    """The prompts of `to_ask`, each condition on all of its first `MOST_KEPT` flows whose answers are kept, where these
    are as many as it is to be asked on; else on so many. With `only_kept` the instruct model is not asked: its
    conditions with fewer kept answers are left out."""
    parts = []
    for row in asked.itertuples(index=False):
        away = only_kept and row.generator == "instruct"
        prompts = materials.prompts(row, max(row.flows, MOST_KEPT))
        units = whole_units(prompts["unit"], kept(prompts))
        if len(units) < row.flows:
            units = [] if away else prompts["unit"].tolist()[: row.flows]
        parts.append(prompts[prompts["unit"].isin(units)])
    return pd.concat(parts, ignore_index=True)


# ---------------------------------------------------------------- ask


def ask_model(
    prompts: pd.DataFrame, model, generator: str, max_new_tokens: int, remote: bool = False, progress: bool = False
) -> pd.DataFrame:
    """The flows that a model writes, greedily, all prompts in one call, so that those that begin alike are read once.

    Args:
        prompts: columns prompt, grammar (text or None).
        generator: whose stop texts end an answer; an instruct model is asked through its chat template, and so is one
            behind an endpoint (`remote`), which takes no grammar.

    Returns:
        `prompts` with columns text (the flow) and finished (bool).
    """
    asked = _asked_with(prompts, generator, max_new_tokens, remote)
    answers = model.generate(prompts["prompt"].tolist(), progress=progress, **asked)
    return prompts.assign(
        text=[flow_of(answer, generator == "instruct") for answer in answers],
        finished=model.finished,
    )


def _asked_with(prompts: pd.DataFrame, generator: str, max_new_tokens: int, remote: bool = False) -> dict[str, Any]:
    """A blank line does not end an answer of a chat: what chat models like to say first ends with one."""
    chat = remote or generator == "instruct"
    grammars = [grammar if isinstance(grammar, str) else None for grammar in prompts["grammar"]]
    return {
        "max_new_tokens": min(max_new_tokens, INSTRUCT_TOKENS) if generator == "instruct" else max_new_tokens,
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
    """What writes without any model: for each request that one answered, the flow of its nearest few-shot, by the
    selectors that there are: columns condition (of `COPIES`), test_set, unit, half, text, finished."""
    asked, dsl = answered[["test_set", "unit", "half"]].drop_duplicates("unit"), flows["dsl"].to_numpy()
    parts = []
    for name, selector in COPIES.items():
        if selector in near:
            texts = dsl[[shots[0] for shots in near[selector][asked["unit"]]]]
            parts.append(asked.assign(condition=name, text=texts, finished=True))
    return pd.concat(parts, ignore_index=True)


# ---------------------------------------------------------------- score and compare


def score(answers: pd.DataFrame, flows: pd.DataFrame, catalogue: Catalogue) -> pd.DataFrame:
    """Answers (columns unit, text, whatever else) with the columns of `score_flows`; flows by unit have dsl, the right
    flow's text, and where they are known said, and new: the APIs held out of training that it calls. Then there is a
    column called, too: whether a flow calls one of them, None where there are none."""
    known = answers["unit"].map
    said = known(flows["said"]) if "said" in flows else None
    found = score_flows(answers["text"], known(flows["dsl"]), catalogue, said)
    scores = pd.concat([answers.reset_index(drop=True), found], axis=1)
    if "new" in flows:
        rows = zip(scores["text"], known(flows["new"]), scores["parsed"], strict=True)
        called = [parsed and not new.isdisjoint(called_apis(parse(text))) if new else None
                  for text, new, parsed in rows]  # fmt: skip
        scores["called"] = pd.Series(called, dtype=object)
    return scores


DELTAS = ["delta", "delta_ci_low", "delta_ci_high"]
CONTRACT = [*FIELDS, "test_set", "metric", "value", "ci_low", "ci_high", *DELTAS, "n", "shared"]
CONTRACT += ["published_delta", "table"]


def compare_conditions(scores: pd.DataFrame, pairs: pd.DataFrame, samples: int, seed: int) -> pd.DataFrame:
    """The metrics of conditions on each test set, and how they differ from those of others on the same flows.

    Args:
        scores: what `score` returned, with columns condition and test_set.
        pairs: columns condition, against (a condition, or the same one: no difference), and whatever else; these come
            back with test_set, metric, `DELTAS`, shared (flows that both have) and the columns of `rates`.
    """
    parts = []
    for test_set, part in scores.groupby("test_set", sort=False):
        there = pairs[pairs[["condition", "against"]].isin(set(part["condition"])).all(axis=1)]
        of_flows = outcomes(part[part["condition"].isin({*there["condition"], *there["against"]})])
        rivals = there.loc[there["condition"] != there["against"], ["condition", "against"]].drop_duplicates()
        deltas = rate_differences(of_flows, list(rivals.itertuples(index=False, name=None)), PERCENT, samples, seed)
        names = {"a": "condition", "b": "against", "ci_low": DELTAS[1], "ci_high": DELTAS[2], "n": "shared"}
        deltas = deltas.rename(columns=names).astype(dict.fromkeys(DELTAS, float))
        values = there.merge(rates(of_flows, PERCENT, samples, seed), on="condition")
        parts.append(values.merge(deltas, on=["condition", "against", "metric"], how="left").assign(test_set=test_set))
    return pd.concat(parts, ignore_index=True)


def comparisons(asked: pd.DataFrame, published: pd.DataFrame, readers: Sequence[str]) -> pd.DataFrame:
    """Which conditions are compared with which: columns condition, against, table.

    The paper's tables, by each of `readers_of`: `1` to `4`, of `published` (columns table, selector, shots,
    definitions, metric, delta). Ours: `fair`: each with five few-shots by the pretrained encoder, read by the last
    reader; `definitions`: each with the same without definitions; `grammar`: each with the same decoded freely;
    `instruct`: each of that model with the nearest flow copied, and with its own five few-shots; `unseen`: APIs held
    out, with few-shots that lack them, each reader with its own.
    """
    found = []
    for reader in readers:
        five, twenty = (Condition("pretrained", shots, "none", reader).name for shots in (5, 20))
        against = {1: five, 2: five, 3: twenty, 4: FINETUNED}
        found += [(name, name, str(number)) for number, name in against.items()]
        for row in published.drop_duplicates(["table", *FIELDS[:3]]).itertuples():
            name = Condition(row.selector, row.shots, row.definitions, reader).name
            found.append((name, against[row.table], str(row.table)))
    own = Condition("pretrained", 5, "none", "instruct").name
    unseen = asked["test_set"] == UNSEEN
    for row in asked[~unseen].drop_duplicates("condition").itertuples():
        one = Condition(*row[2:7])
        if one.generator == "instruct":
            found += [(one.name, other, "instruct") for other in (f"copy_{one.selector}", own)]
        else:
            found.append((one.name, five, "fair"))
        if one.definitions != "none":
            found.append((one.name, one._replace(definitions="none").name, "definitions"))
        if one.decoding != "free":
            found.append((one.name, one._replace(decoding="free").name, "grammar"))
    for name in COPIES:
        found += [(name, five, "fair"), (name, unseen_name(0, "none", reader), "unseen")]
    for name, who in asked.loc[unseen, ["condition", "generator"]].itertuples(index=False):
        found.append((name, unseen_name(0, "none", who if who in readers else reader), "unseen"))
    return pd.DataFrame(found, columns=["condition", "against", "table"]).drop_duplicates()


def contract(compared: pd.DataFrame, asked: pd.DataFrame, published: pd.DataFrame) -> pd.DataFrame:
    """The rows of `tables/dsl_ablation.csv`: `CONTRACT`, condition, against, of `compare_conditions` with a column
    table. `definitions` has as published what the printed cells say of definitions against none."""
    about = {row.condition: [*row[2:7]] for row in asked.itertuples()}
    about |= {name: [selector, 1, "none", "copy", "free"] for name, selector in COPIES.items()}
    for name in {*compared["condition"]} - about.keys():  # of notebook 08
        about[name] = ["none", 0, "none", "finetuned" if name.startswith("fine-tuned") else "copy", "free"]
    fields = pd.DataFrame.from_dict(about, orient="index", columns=FIELDS)
    fields.loc[fields["shots"] == 0, "selector"] = "none"
    keys = [*FIELDS[:3], "metric"]
    scale = chained(published)
    defined = scale[scale["definitions"] != "none"]
    without = scale.set_index(keys)["value"].reindex(pd.MultiIndex.from_frame(defined[keys].assign(definitions="none")))
    defined = defined.assign(table="definitions", delta=(defined["value"] - without.to_numpy()).round(2))
    printed = pd.concat([published.astype({"table": str}), defined]).set_index(["table", *keys])["delta"]
    table = compared.join(fields, on="condition").join(printed.rename("published_delta"), on=["table", *keys])
    return table[[*CONTRACT, "condition", "against"]]


# ---------------------------------------------------------------- claims


def claimed_methods(rows: pd.DataFrame, reader: str) -> pd.DataFrame:
    """The methods of `data/claims.yaml` that conditions stand for: columns condition, method, k (few-shots; the
    fine-tuned model, which has none, stands at both numbers), those with few-shots by one reader alone."""
    own = rows[(rows["generator"] == reader) & (rows["decoding"] == "free") & rows["selector"].isin(MEASURED)]
    methods = (own["selector"] + "_" + own["definitions"]).str.removesuffix("_none")
    found = list(zip(own["condition"], methods, own["shots"], strict=True))
    found += [(FINETUNED, "finetuned_dsl", shots) for shots in (5, 20)]
    named = {(0, "none"): "unseen_pretrained", (0, "sfd"): "unseen_sfd", (1, "none"): "unseen_new_shot"}
    found += [(unseen_name(*shown, reader), method, UNSEEN_SHOTS) for shown, method in named.items()]
    found.append((UNSEEN_FINETUNED, "unseen_finetuned_dsl", UNSEEN_SHOTS))
    return pd.DataFrame(found, columns=["condition", "method", "k"])


def claimed_scores(scores: pd.DataFrame, methods: pd.DataFrame) -> pd.DataFrame:
    """What each flow scored under `claimed_methods`, 0–100: columns flow, method, metric, k, value (NaN where the
    metric does not count the flow)."""
    counts = outcomes(scores[scores["condition"].isin(methods["condition"])])
    counts["value"] = 100 * counts["numerator"] / counts["denominator"].where(counts["denominator"] > 0)
    counts = counts.merge(methods, on="condition").rename(columns={"unit": "flow"})
    return counts[["flow", "method", "metric", "k", "value"]]


def published_for_claims(published: pd.DataFrame) -> pd.DataFrame:
    """The paper's rows on one scale (`chained`), columns method, metric, k, value; similarity times 100."""
    scale = chained(published)
    scale["method"] = (scale["selector"] + "_" + scale["definitions"]).str.removesuffix("_none")
    scale["value"] *= np.where(scale["metric"] == "similarity", 100, 1)
    tuned = scale["method"] == "finetuned"
    twice = [scale[tuned].assign(method="finetuned_dsl", shots=k) for k in (5, 20)]
    return pd.concat([scale[~tuned], *twice]).rename(columns={"shots": "k"})[["method", "metric", "k", "value"]]
