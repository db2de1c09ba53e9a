"""What a planner learns from: training queries in the five forms of prompt by turns, each with its gold plan.

Gold labels enter prompts in the two settings that are upper bounds, and prompts and targets of training queries;
nowhere else.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lib.assistant.planner import (
    LABELLED,
    SETTINGS,
    Desk,
    Material,
    planner_prompts,
    second_steps,
    shows_right_tools,
    with_other_plans,
)
from lib.assistant.queries import held_out_needs
from lib.assistant.toolbox import DEFAULT_API
from lib.generation.finetune import Training
from lib.generation.local import fingerprint
from lib.generation.models import locate
from lib.workbook.artifacts import ROOT, Workbook
from lib.workbook.parameters import Parameters
from lib.workbook.parts import NONE, Shipped, shipped

PLANNER = "planner"  # begins the name of the part that comes with the project
THOUGHT_SHARE = 0.1  # of a planner's training queries are learned with a chain of thought, as far as there are any


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
