"""What a planner learns from, and who plans: the planner of a profile, and a larger model, untuned and tuned, which
stands where the paper has GPT-4.

A planner learns training queries in the five forms of prompt by turns, each with its gold plan. Gold labels enter
prompts in the two settings that are upper bounds, and prompts and targets of training queries; nowhere else.

Plans of all three come with the project (`lib.generation.answers`): those of the larger model take two cores hours.

Untuned, it is told the rules as the system, and shown a few training queries with their plans as earlier turns of a
conversation, in the form of the setting that it is asked in; then comes what the planner is shown. Rules and turns were
chosen on 40 training queries, before any evaluation query was asked. With rules and examples in one message the model
wrote further requests or `default()`, and planned 0 to 18% right with the right tool and context; as turns 55%. Eight
examples instead of four (57.5%) and sterner words against a second call (55%) were not worth their tokens.

Tuned, it learned from the planner's own pairs. Its adapter would not fit into the project, so its plans are kept under
a hash of base model, lesson and settings in the place of weights.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lib.assistant.chains import equal_shares
from lib.assistant.planner import (
    LABELLED,
    SETTINGS,
    Desk,
    Material,
    Planner,
    answerable,
    planner_prompts,
    second_steps,
    shows_right_tools,
    with_other_plans,
)
from lib.assistant.queries import held_out_needs
from lib.assistant.toolbox import DEFAULT_API
from lib.generation.answers import INSTRUCT_MODEL, Answers, KeptModel
from lib.generation.finetune import Training, adapter_for
from lib.generation.load import kept_model
from lib.generation.local import Conversations, LocalModel, fingerprint, weights_of
from lib.generation.models import locate
from lib.workbook.artifacts import ROOT, Workbook
from lib.workbook.parameters import Parameters
from lib.workbook.parts import NONE, Shipped, shipped

PLANNER = "planner"  # begins the name of the part that comes with the project
THOUGHT_SHARE = 0.1  # of a planner's training queries are learned with a chain of thought, as far as there are any
EXAMPLES_FILE = Path("data") / "answers" / "instruct_examples.jsonl"  # the examples that kept plans were asked with
EXAMPLES = 4  # training queries with their plans, before every request
MAX_TOKENS = 96  # of a plan: its tokens are other ones than the planner's
# As Hu et al. (2022) and Dettmers et al. (2023) train models of billions; that of the small planner, six times higher,
# was chosen for it alone. One pass over the pairs; more were not tried.
LARGER_RATE, LARGER_EPOCHS = 5e-4, 1
RULES = (
    "You are the assistant on somebody's phone. Answer each request with a call of one of the tools listed under it, "
    "or, where it needs two, with two calls on two lines; write nothing else. Copy the values of arguments word for "
    "word from the request, the context or the contacts; write times as 2023-12-07 18:30. Leave out an argument marked "
    "with ? where nothing is said about it. Where no tools are listed, call the one that you expect there to be. "
    "default() means that no tool can serve the request, which is rare."
)


# ---------------------------------------------------------------- what a planner learns from


def training_sample(
    queries: pd.DataFrame, gold: pd.DataFrame, with_thought: Iterable[str], held_out: Iterable[str], n: int, seed: int
) -> pd.DataFrame:
    """Training queries of needs that are not held out, at most n, each with the form of prompt it is learned in.

    The forms take turns and are then shuffled, so that all occur as often. Queries that have a chain of thought are
    taken first.

    Returns:
        the queries in random order, with the column `setting`.
    """
    need = gold.set_index("query")["need"].reindex(queries["query"]).to_numpy()
    usable = queries[(queries["split"] == "training").to_numpy() & ~np.isin(need, list(held_out))]
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(usable))
    first = usable["query"].isin(set(with_thought)).to_numpy()[order]
    chosen = rng.permutation(order[np.argsort(~first, kind="stable")][:n])
    forms = rng.permutation(np.resize(list(SETTINGS), len(chosen)))
    return usable.iloc[chosen].assign(setting=forms)


def with_gold_tools(inputs: pd.DataFrame, gold: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Retrieved tools of training prompts with the gold ones always among them, as in RAFT (Zhang et al., 2024): a
    planner whose targets are mostly not among the tools shown learns to ignore them.

    A missing gold tool takes the place of the last retrieved ones, at a random position. Prompts that show the labels'
    tools, or none, stay as they are, and so does one whose tools are all gold.

    Args:
        inputs: see `Material.shown`.
    """
    rng = np.random.default_rng(seed)
    apis = gold.set_index("query")["apis"]
    completed = []
    for row in inputs.itertuples():
        tools = row.tools
        if SETTINGS[row.setting][0] not in LABELLED:
            right, tools = set(apis[row.query]), list(tools)
            for name in sorted(right - set(tools)):
                others = [tool for tool in tools if tool not in right | {DEFAULT_API}]
                if not others:
                    break
                tools.remove(others[-1])
                tools.insert(rng.integers(len(tools)), name)  # `default` stays last
        completed.append(tools)
    return inputs.assign(tools=completed)


def completed(material: Material, training: pd.DataFrame, setting: str, seed: int) -> pd.DataFrame:
    """`Material.prompted` of training queries, with the gold tools among retrieved ones."""
    inputs = with_gold_tools(material.shown(training, setting), material.gold, seed)
    return inputs.assign(prompt=planner_prompts(material.desk, inputs, material.queries))


def training_pairs(
    desk: Desk, inputs: pd.DataFrame, queries: pd.DataFrame, gold: pd.DataFrame, thoughts: Mapping[str, str]
) -> pd.DataFrame:
    """What a planner learns: each prompt with its gold plan; for plans of two calls also the second call after the
    first (see `second_steps`).

    Args:
        inputs: see `Material.shown`; each row is learned once.
        thoughts: a chain of thought by query; a query that has one is learned with it.

    Returns:
        columns query, setting, step (1 or 2), thought (bool), prompt, target; second steps stand after all others.
    """
    labels = gold.set_index("query")
    whole = inputs[["query", "setting"]].assign(
        step=1,
        thought=inputs["query"].isin(set(thoughts)),
        prompt=planner_prompts(desk, inputs, queries, thoughts=thoughts),
        target=inputs["query"].map(labels["plan"]),
    )
    of_two = inputs[inputs["query"].map(labels["apis"].str.len()) == 2]
    second = second_steps(desk, of_two, queries, of_two["query"].map(labels["plan"]))
    targets = second["query"].map(labels["plan"]).str.split("\n").str[1]
    second = second.assign(step=2, thought=False, target=targets)
    return pd.concat([whole, second[whole.columns]], ignore_index=True)


def training_inputs(material: Material, training: pd.DataFrame, seed: int) -> tuple[pd.DataFrame, float]:
    """What training prompts show, each in its own setting and with the gold tools among retrieved ones.

    Args:
        training: see `training_sample`.

    Returns:
        the inputs (see `with_gold_tools`) in the order of `training`, and the share of the prompts with retrieved
        tools in which retrieval had missed a gold one (0 to 1).
    """
    inputs = pd.concat([material.shown(rows, setting) for setting, rows in training.groupby("setting")])
    listed = inputs[inputs["setting"].isin(["rag", "context_tuned_rag"])]
    targets = material.gold.drop(columns="also", errors="ignore")  # only the gold plan is learned
    missed = float(np.mean(~shows_right_tools(listed, targets)))
    completed = with_gold_tools(inputs, material.gold, seed).set_index("query")
    return completed.loc[training["query"]].reset_index(), missed


@dataclass(frozen=True)
class PlannerLesson:
    """What a planner learns from.

    Attributes:
        material: of the prompts.
        opens: usage log, columns item, time, place: the rankers read it.
        thoughts: a chain of thought by query.
        retrieval: names of what retrieved, wrote and worded: encoder, writer, tool_wording; tools, where these are not
            found by search.
        seed: of the held-out needs and the samples.
    """

    material: Material
    opens: pd.DataFrame
    thoughts: Mapping[str, str]
    retrieval: Mapping[str, str]
    seed: int

    @functools.cached_property
    def held_out(self) -> set[str]:
        """Needs that no planner learns from."""
        return held_out_needs(self.material.gold["need"].unique(), self.seed)

    def queries(self, size: int) -> pd.DataFrame:
        """Of `training_sample`, at most so many."""
        known = self.material.queries, self.material.gold, self.thoughts, self.held_out
        return training_sample(*known, size, self.seed)

    def pairs(self, queries: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, Any]]:
        """What a planner learns from some queries (see `training_pairs`), and in numbers:
        queries, personas, second_calls, thoughts, and the share of the prompts with retrieved tools in which retrieval
        had missed a gold one (missed, 0 to 1)."""
        material = self.material
        inputs, missed = training_inputs(material, queries, self.seed)
        thoughts = self.learned_thoughts(queries)
        pairs = training_pairs(material.desk, inputs, material.queries, material.gold, thoughts)
        return pairs, {
            "queries": len(queries),
            "personas": int(queries["persona"].nunique()),
            "second_calls": int(pairs["step"].eq(2).sum()),
            "thoughts": int(pairs["thought"].sum()),
            "missed": missed,
        }

    def learned_thoughts(self, queries: pd.DataFrame) -> dict[str, str]:
        """The chains of thought that a planner learns from: of a `THOUGHT_SHARE` of the queries, drawn with the seed
        from those that have one. The prompts of Table 3 show none."""
        able = queries[queries["query"].isin(set(self.thoughts))]
        n = min(len(able), round(THOUGHT_SHARE * len(queries)))
        return {query: self.thoughts[query] for query in able["query"].sample(n, random_state=self.seed)}

    def source(self, size: int) -> str:
        """SHA-256 of what the prompts of so many training queries are made from.

        Not of the prompts themselves: what they show was retrieved and generated, which depends on the last bits of
        embeddings, and these on the processor. Nor of the sizes of samples on which retrieval was tuned.
        """
        material, desk = self.material, self.material.desk
        training = material.queries[material.queries["split"] == "training"]
        labels = material.gold[material.gold["query"].isin(training["query"])]
        personas = sorted(set(training["persona"]))
        items = desk.items[desk.items["persona"].isin(personas)].reset_index()
        frames = (
            training[["query", "persona", "text", "time", "place"]],
            labels[["query", "need", "relevant", "apis", "plan", "cot"]],
            items[["item", "persona", "app", "title", "text"]],
            self.opens.loc[self.opens["item"].isin(items["item"]), ["item", "time", "place"]],
        )
        people = [[name, desk.people.get(name, [])] for name in personas]
        shown = material.n_tools, material.n_items, SETTINGS
        how = [size, self.seed, sorted(self.held_out), shown, sorted(self.retrieval.items()), THOUGHT_SHARE]
        digest = hashlib.sha256(json.dumps([how, people, desk.functions, sorted(desk.app_of.items())]).encode())
        for frame in frames:
            digest.update(frame.to_json(orient="values", date_format="iso").encode())
        return digest.hexdigest()


def read_planner_lesson(book: Workbook) -> PlannerLesson:
    """The planner's, from the artifacts of notebooks 01 to 06, read for notebook 07."""
    parameters = book.parameters
    desk = Desk.from_tables(book.read("items"), book.read("people"), book.read("toolbox"))
    gold = with_other_plans(book.read("gold"), book.read("other_plans"))
    ranked = book.read("tool_rankings"), book.read("retrieved_context")
    shown = parameters.shown_tools, parameters.shown_items
    written, tools = book.read("cot"), book.parameters_of("tool_rankings.parquet")
    writers = book.parameters_of("cot.parquet")
    return PlannerLesson(
        Material(desk, book.read("queries"), gold, *ranked, *shown),
        book.read("opens"),
        written[written["writer"] == "cot_distilled"].set_index("query")["text"].to_dict(),
        {
            "encoder": tools.encoder,
            "tool_wording": tools.tool_wording,
            "writer": writers.distilled_writer or writers.writer,
        },
        parameters.seed,
    )


def planner_settings(parameters: Parameters) -> Training:
    """Those that the profile asks for."""
    how = {"epochs": parameters.planner_epochs, "batch_size": parameters.planner_batch_size, "seed": parameters.seed}
    return Training(learning_rate=parameters.planner_learning_rate, **how)


def shipped_planner(parameters: Parameters, lesson: PlannerLesson, root: Path = ROOT) -> Shipped:
    """The planner that comes with the project, where it fits this world and one is wanted."""
    size = parameters.shipped_planner_pairs
    if not size:
        return NONE
    model = fingerprint(locate(parameters.planner), quantization=parameters.quantization)
    return shipped(f"{PLANNER}-{size}", model, lesson.source(size), root, planner_settings(parameters))


# ---------------------------------------------------------------- who plans


def tuned_planner(book: Workbook, name: str, adapter: Path, max_tokens: int, progress: bool, **machine) -> Planner:
    """A profile's planner.

    Args:
        name: of the base model.
        machine: quantization, threads.
    """
    model = kept_model(name, Answers.of(book, "plans"), adapter, **machine)
    return Planner(model, max_tokens, progress=progress)


def untuned_planner(book: Workbook, lesson: PlannerLesson, name: str, progress: bool, **machine) -> Planner:
    """An instruct model that was not tuned.

    Args:
        name: of the model; empty: only kept plans are taken.
    """
    answers = Answers.of(book, "instruct_plans")
    load = functools.partial(Conversations, name, cache=answers, **machine) if name else None
    examples = kept_examples(lesson, book.root)

    def asked(prompts: pd.DataFrame) -> list[str]:
        rows = zip(prompts["setting"], prompts["prompt"], strict=True)
        return [json.dumps(turns(examples[setting], prompt)) for setting, prompt in rows]

    model = KeptModel(answers, weights_of(name or INSTRUCT_MODEL), load)
    return Planner(model, MAX_TOKENS, asked, plan_of, asks=bool(name), progress=progress)


def larger_planner(
    book: Workbook,
    lesson: PlannerLesson,
    size: int,
    settings: Training,
    name: str,
    train: bool,
    progress: bool,
    **machine,
) -> Planner:
    """The larger model, tuned on the planner's own pairs.

    Args:
        size: training queries that it learns from, at most.
        settings: of the planner's training; rate and passes are `LARGER_RATE` and `LARGER_EPOCHS`.
        name: of the base model; empty: `INSTRUCT_MODEL`.
        train: whether it is trained here where its plans are not kept.
    """
    settings = replace(settings, learning_rate=LARGER_RATE, epochs=LARGER_EPOCHS)
    source, answers = lesson.source(size), Answers.of(book, "retrained_plans")
    key = source_key(name or INSTRUCT_MODEL, machine.get("quantization", "none"), source, settings)

    def load() -> LocalModel:
        pairs, _ = lesson.pairs(lesson.queries(size))
        texts, output = (pairs["prompt"].tolist(), pairs["target"].tolist()), book.data / "runs" / "planner_larger"
        how = {"progress": progress, **machine}
        adapter = adapter_for("", name or INSTRUCT_MODEL, *texts, output, settings, **how)
        model = LocalModel(name or INSTRUCT_MODEL, adapter=adapter.folder, cache=answers, **machine)
        model.weights = key
        return model

    return Planner(KeptModel(answers, key, load if train else None), MAX_TOKENS, asks=train, progress=progress)


def source_key(model: str, quantization: str, source: str, settings: Training) -> str:
    """SHA-256 of what a planner comes from: base model, lesson and settings of training."""
    how = {name: value for name, value in asdict(settings).items() if name != "checkpoint_every"}
    content = [weights_of(model), quantization, source, how]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


# ---------------------------------------------------------------- what the untuned model is shown


def examples(lesson: PlannerLesson) -> dict[str, list[tuple[str, str]]]:
    """{setting: `EXAMPLES` of its prompts, each with the gold plan}, of the same training queries in each.

    They are drawn, as even by kind as there are, no two with the same APIs, among those whose prompt with retrieved
    tools and context spells out the gold plan: one that cannot be read off its prompt would teach to invent. Missing
    gold tools are put in, as in training. None asks about a need that training keeps out.
    """
    material, seed = lesson.material, lesson.seed
    labels = material.gold.set_index("query")
    usable = lesson.queries(len(material.queries)).sort_index()
    spelled = completed(material, usable, "context_tuned_rag", seed)
    labelled = material.gold.drop(columns="also", errors="ignore")  # an example shows the gold plan, not another one
    spelled = spelled[answerable(spelled["prompt"].tolist(), spelled, labelled) == 100]
    usable = usable[usable["query"].isin(spelled["query"])].sample(frac=1, random_state=seed)
    usable = usable[~labels["apis"].loc[usable["query"]].map(tuple).duplicated().to_numpy()]
    chosen = equal_shares(usable, labels["kind"].loc[usable["query"]], EXAMPLES, seed)
    plans = labels.loc[chosen["query"], "plan"]
    return {
        setting: list(zip(completed(material, chosen, setting, seed)["prompt"], plans, strict=True))
        for setting in SETTINGS
    }


def kept_examples(lesson: PlannerLesson, root: Path) -> dict[str, list[tuple[str, str]]]:
    """Those of `EXAMPLES_FILE` where they are of this world and seed, else those of `examples`.

    Kept, since in two settings they show what was retrieved: where another processor ranks one of these tools or items
    otherwise, all conversations would be other ones. They are of this world where the planner may learn from all of
    their queries, the gold plans are theirs, and so are the prompts with nothing retrieved in them.

    Args:
        root: the project's folder.
    """
    path = root / EXAMPLES_FILE
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []
    table = pd.DataFrame(rows, columns=["setting", "query", "prompt", "plan"])
    if not _of_this_world(table, lesson):
        return examples(lesson)
    return {
        setting: list(part[["prompt", "plan"]].itertuples(index=False, name=None))
        for setting, part in table.groupby("setting", sort=False)
    }


def _of_this_world(kept: pd.DataFrame, lesson: PlannerLesson) -> bool:
    material = lesson.material
    usable = lesson.queries(len(material.queries)).set_index("query")
    if set(kept["setting"]) != set(SETTINGS) or not set(kept["query"]) <= set(usable.index):
        return False
    if kept["plan"].tolist() != material.gold.set_index("query")["plan"].loc[kept["query"]].tolist():
        return False
    for setting, (tools, items) in SETTINGS.items():
        part = kept[kept["setting"] == setting]
        if tools in LABELLED and items in LABELLED:
            now = completed(material, usable.loc[part["query"]].reset_index(), setting, lesson.seed)
            if now["prompt"].tolist() != part["prompt"].tolist():
                return False
    return True


def turns(shown: Sequence[tuple[str, str]], prompt: str) -> list[dict[str, str]]:
    """A conversation, as chat templates take it: the rules, examples, and a prompt of the planner.

    Args:
        shown: prompts with their plans.
    """
    said = [("system", RULES)]
    for example, plan in shown:
        said += [("user", _without_cue(example)), ("assistant", plan)]
    return [{"role": role, "content": text} for role, text in [*said, ("user", _without_cue(prompt))]]


def _without_cue(prompt: str) -> str:
    """A planner's prompt without the cue that it completes."""
    return prompt.removesuffix("Plan:\n").rstrip()


def plan_of(answer: str) -> str:
    """The lines of an answer up to the first empty one, without those of a code fence; no promise that they parse."""
    lines = [line.strip() for line in answer.strip().split("\n") if not line.strip().startswith("```")]
    return "\n".join(lines[: next((place for place, line in enumerate(lines) if not line), len(lines))])
