"""What a planner learns from, who plans, and the plans: of a profile's planner, and of a larger model, which stands
where the paper has GPT-4.

The larger model learned from the planner's own pairs; its adapter would not fit into the project, so its plans are kept
under a hash of base model, lesson and settings in the place of weights.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from lib.assistant.chains import equal_shares
from lib.assistant.planner import LABELLED, SETTINGS, Desk, Material, score_plans, with_other_plans
from lib.assistant.queries import held_out_needs
from lib.assistant.toolbox import DEFAULT_API
from lib.generation.answers import INSTRUCT_MODEL, Answers, KeptModel, whole_units
from lib.generation.finetune import Training, finetune_language_model, log_probabilities
from lib.generation.local import LocalModel, fingerprint, kept_model, weights_of
from lib.generation.models import locate
from lib.workbook.artifacts import ROOT, Workbook
from lib.workbook.parameters import Parameters
from lib.workbook.parts import Shipped, keep_arrays, kept_arrays, shipped

PLANNER, SHIPPED_PAIRS = "planner", 4_338  # the part that comes with the project, and how many queries it learned from
PLAN_TOKENS, LARGER_TOKENS = 64, 96  # of a plan; the larger model's are other ones than the planner's
THOUGHT_SHARE = 0.1  # of a planner's training queries are learned with a chain of thought, as far as there are any
# As Hu et al. (2022) and Dettmers et al. (2023) train models of billions; that of the small planner, six times higher,
# was chosen for it alone. One pass over the pairs; more were not tried.
LARGER_RATE, LARGER_EPOCHS = 5e-4, 1


# ---------------------------------------------------------------- what a planner learns from


@dataclass(frozen=True)
class PlannerLesson:
    """What a planner learns from.

    Attributes:
        material: of the prompts.
        opens: usage log, columns item, time, place: the rankers read it.
        thoughts: a chain of thought by query.
        retrieval: names of what retrieved, wrote and worded: encoder, writer, tool_wording.
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
        """Training queries of needs that are not held out, at most so many, in random order, each with the form of
        prompt it is learned in (`setting`).

        The forms take turns and are then shuffled, so that all occur as often. Queries that have a chain of thought are
        taken first.
        """
        queries = self.material.queries
        need = self.material.gold.set_index("query")["need"].reindex(queries["query"]).to_numpy()
        usable = queries[(queries["split"] == "training").to_numpy() & ~np.isin(need, list(self.held_out))]
        rng = np.random.default_rng(self.seed)
        order = rng.permutation(len(usable))
        first = usable["query"].isin(set(self.thoughts)).to_numpy()[order]
        chosen = rng.permutation(order[np.argsort(~first, kind="stable")][:size])
        forms = rng.permutation(np.resize(list(SETTINGS), len(chosen)))
        return usable.iloc[chosen].assign(setting=forms)

    def pairs(self, queries: pd.DataFrame) -> pd.DataFrame:
        """What a planner learns from some queries (of `queries`): each prompt with its gold plan, a tenth with a chain
        of thought, while the prompts of Table 3 show none; of plans of two calls also the second call after the first.

        Returns:
            columns query, setting, step (1 or 2), thought (bool), prompt, target, second steps after all others.
        """
        material, labels = self.material, self.material.gold.set_index("query")
        able = queries[queries["query"].isin(set(self.thoughts))]
        n = min(len(able), round(THOUGHT_SHARE * len(queries)))
        thoughts = {query: self.thoughts[query] for query in able["query"].sample(n, random_state=self.seed)}
        inputs = pd.concat([material.shown(rows, [setting]) for setting, rows in queries.groupby("setting")])
        inputs = with_gold_tools(inputs, material.gold, self.seed)
        inputs = material.prompted(inputs.set_index("query").loc[queries["query"]].reset_index(), thoughts)
        whole = inputs[["query", "setting"]].assign(
            step=1,
            thought=inputs["query"].isin(set(thoughts)),
            prompt=inputs["prompt"],
            target=inputs["query"].map(labels["plan"]),
        )
        of_two = inputs[inputs["query"].map(labels["apis"].str.len()) == 2]
        second = material.second_steps(of_two, of_two["query"].map(labels["plan"]))
        targets = second["query"].map(labels["plan"]).str.split("\n").str[1]
        second = second.assign(step=2, thought=False, target=targets)[whole.columns]
        return pd.concat([whole, second], ignore_index=True)

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


def with_gold_tools(inputs: pd.DataFrame, gold: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Retrieved tools of training prompts (`Material.shown`) with the gold ones always among them, as in RAFT (Zhang et
    al., 2024): a planner whose targets are mostly not among the tools shown learns to ignore them.

    A missing gold tool takes the place of the last retrieved one, at a random position; all others stay as they are.
    """
    rng = np.random.default_rng(seed)
    apis, completed = gold.set_index("query")["apis"], []
    for row in inputs.itertuples():
        tools = row.tools if SETTINGS[row.setting][0] in LABELLED else list(row.tools)
        right = set() if SETTINGS[row.setting][0] in LABELLED else set(apis[row.query])
        for name in sorted(right - set(tools or [])):
            others = [tool for tool in tools if tool not in right | {DEFAULT_API}]
            if others:
                tools.remove(others[-1])
                tools.insert(rng.integers(len(tools)), name)  # `default` stays last
        completed.append(tools)
    return inputs.assign(tools=completed)


def read_planner_lesson(book: Workbook) -> PlannerLesson:
    """The planner's, from the artifacts of notebooks 01 to 06, read for notebook 07."""
    parameters, written, writers = book.parameters, book.read("cot"), book.parameters_of("cot.parquet")
    material = Material(
        Desk(book.read("items"), book.read("people"), book.read("toolbox")),
        book.read("queries"),
        with_other_plans(book.read("gold"), book.read("other_plans")),
        book.read("tool_rankings"),
        book.read("retrieved_context"),
        parameters.shown_tools,
        parameters.shown_items,
    )
    thoughts = written[written["writer"] == "cot_distilled"].set_index("query")["text"].to_dict()
    retrieval = {
        "encoder": book.parameters_of("tool_rankings.parquet").encoder,
        "tool_wording": "paper",
        "writer": writers.distilled_writer or writers.writer,
    }
    return PlannerLesson(material, book.read("opens"), thoughts, retrieval, parameters.seed)


def planner_settings(parameters: Parameters) -> Training:
    """Those that the profile asks for."""
    rate, epochs = parameters.planner_learning_rate, parameters.planner_epochs
    return Training(learning_rate=rate, epochs=epochs, batch_size=8, seed=parameters.seed)


def shipped_planner(
    parameters: Parameters, lesson: PlannerLesson, root: Path = ROOT, size: int = SHIPPED_PAIRS
) -> Shipped:
    """The planner that comes with the project, where it fits this world, model and settings."""
    model = fingerprint(locate(parameters.planner), quantization=parameters.quantization)
    return shipped(f"{PLANNER}-{size}", model, lesson.source(size), root, planner_settings(parameters))


# ---------------------------------------------------------------- who plans


@dataclass(frozen=True)
class Planner:
    """Who plans.

    Attributes:
        model: is asked, or has its plans kept.
        max_tokens: of a plan.
        progress: show a progress bar.
    """

    model: KeptModel
    max_tokens: int
    progress: bool = False

    def write(self, prompts: Iterable[str]) -> list[str]:
        """The plan of each prompt, whether or not it parses."""
        return self.model.generate(list(prompts), self.max_tokens, progress=self.progress)


def planners_of(
    book: Workbook, lesson: PlannerLesson, adapter: Path, size: int, settings: Training, progress: bool, **machine
) -> dict[str, Planner]:
    """Who plans, by name: `tuned`, the profile's; and `larger tuned`, the larger model, tuned on the planner's own
    pairs: trained and asked where `instruct_planner` names it and a plan is not kept.

    Args:
        adapter: of the profile's planner.
        size: training queries that the larger model learns from, at most.
        settings: of the planner's training; rate and passes of the larger one's are `LARGER_RATE` and `LARGER_EPOCHS`.
        machine: quantization, threads.
    """
    larger, name = Answers.of(book, "retrained_plans"), book.parameters.instruct_planner or INSTRUCT_MODEL
    settings = replace(settings, learning_rate=LARGER_RATE, epochs=LARGER_EPOCHS)
    how = {key: value for key, value in asdict(settings).items() if key != "checkpoint_every"}
    source = [weights_of(name), machine.get("quantization", "none"), lesson.source(size), how]
    key = hashlib.sha256(json.dumps(source, sort_keys=True).encode()).hexdigest()

    def load_larger() -> LocalModel:
        pairs = lesson.pairs(lesson.queries(size))
        texts, output = (pairs["prompt"].tolist(), pairs["target"].tolist()), book.data / "runs" / "planner_larger"
        made = finetune_language_model(name, *texts, output, settings, progress=progress, **machine)
        return LocalModel(name, adapter=made.folder, cache=larger, **machine)

    tuned = kept_model(book.parameters.planner, Answers.of(book, "plans"), adapter, **machine)
    larger_tuned = KeptModel(larger, key, load_larger if book.parameters.instruct_planner else None)
    return {
        "tuned": Planner(tuned, PLAN_TOKENS, progress),
        "larger tuned": Planner(larger_tuned, LARGER_TOKENS, progress),
    }


# ---------------------------------------------------------------- plans


def plan(
    settings: Iterable[str],
    world: Material,
    planner: Planner,
    queries: pd.DataFrame,
    wanted: int | None = None,
    thoughts: Mapping[str, str] | None = None,
    seed: int = 0,
) -> pd.DataFrame:
    """A planner's plans for queries of a world, the same ones in each setting, judged.

    Args:
        settings: of `lib.assistant.planner.SOURCES`.
        queries: those that may be asked.
        wanted: how many are asked: all whose plans are kept in every setting, where these are as many as wanted; else
            so many, as even by kind as there are, and none where the planner cannot be asked. None: all.
        thoughts: a chain of thought by query, which its prompt shows.
        seed: of the draw.

    Returns:
        columns of `Material.prompted`, text, and those of `score_plans`.
    """
    prompts = world.prompted(world.shown(queries, settings), thoughts)
    if wanted is not None:
        there = planner.model.has(prompts["prompt"].tolist(), planner.max_tokens)
        asked = whole_units(prompts["query"], there)
        if len(asked) < min(wanted, len(queries)):
            kinds = world.gold.set_index("query")["kind"].loc[queries["query"]]
            asked = equal_shares(queries, kinds, wanted, seed)["query"].tolist() if planner.model.load else []
        prompts = prompts[prompts["query"].isin(asked)]
    return score_plans(prompts.assign(text=planner.write(prompts["prompt"])), world)


def plan_second_calls(at_once: pd.DataFrame, world: Material, planner: Planner) -> pd.DataFrame:
    """Plans of two calls step by step: the first calls of those made at once (`plan`) are made, then the second ones
    are planned, after what the first returned (Figure 1)."""
    steps = world.second_steps(at_once, at_once["text"])
    rows = at_once[["query", "setting", "tools", "items", "prompt"]]
    texts = [f"{a}\n{b}" for a, b in zip(steps["first"], planner.write(steps["prompt"]), strict=True)]
    return score_plans(rows.assign(text=texts), world)


def sureness(plans: pd.DataFrame, model: KeptModel, kept: Path, own: Path, progress: bool = False) -> np.ndarray:
    """The log-probability that a planner gives to each of its plans (columns prompt, text), (n,). Those that come with
    the project (`kept`) or were computed before (`own`) are found by a hash of planner, prompt and plan."""
    texts = list(zip(plans["prompt"], plans["text"], strict=True))
    hashes = [hashlib.sha256(json.dumps([model.weights, *one]).encode()).digest()[:8] for one in texts]
    keys, known = np.frombuffer(b"".join(hashes), dtype=np.uint64), dict[int, float]()
    for path in (kept, own):
        if arrays := kept_arrays(path):
            known |= dict(zip(arrays["plan"].tolist(), arrays["nats"].tolist(), strict=True))
    missing = {key: one for key, one in zip(keys.tolist(), texts, strict=True) if key not in known}
    if missing:
        prompts, answers = zip(*missing.values(), strict=True)
        nats = log_probabilities(model.loaded(len(missing)), prompts, answers, progress)
        known |= dict(zip(missing, nats.tolist(), strict=True))
        keep_arrays(own, {"plan": np.array([*known], dtype=np.uint64), "nats": np.array([*known.values()], np.float32)})
    return np.array([known[key] for key in keys.tolist()])
