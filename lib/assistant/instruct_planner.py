"""An instruct model that was not tuned, asked for the plans of Table 3: what it is shown, what is kept, its worth.

It is told the rules as the system, and shown a few training queries with their plans as earlier turns of a
conversation, in the form of the setting that it is asked in; then comes what the tuned planner is shown. Its plans
take two cores hours, so they are kept with the project (`lib.generation.answers`).

The examples are kept, too (`kept_examples`): in two settings they show what was retrieved, and where another
processor ranks one of these tools or items otherwise, all conversations would be other ones.

Rules and turns were chosen on 40 training queries, before any evaluation query was asked. With rules and examples in
one message, as the tuned planner's prompts one after another, the model wrote further requests or `default()`, and
planned 0 to 18% right with the right tool and context; as turns 55%. Eight examples instead of four (57.5%; with what
is retrieved 12.5% instead of 15%) and sterner words against a second call (55%; 12.5%) made no difference worth their
tokens.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pandas as pd

from lib.assistant.cot import equal_shares
from lib.assistant.execution import executed_right
from lib.assistant.plan_comparison import per_query
from lib.assistant.planner import (
    LABELLED,
    SETTINGS,
    Material,
    answerable,
    planner_prompts,
    prompts_asked,
    score_plans,
)
from lib.assistant.planner_training import PlannerLesson, with_gold_tools
from lib.evaluation import comparison
from lib.evaluation.inference import Resampling
from lib.generation.answers import Answers, KeptModel
from lib.generation.local import Conversations, weights_of

FILE = Path("data") / "answers" / "instruct_plans.jsonl"
EXAMPLES_FILE = Path("data") / "answers" / "instruct_examples.jsonl"  # the examples that these were asked with
MODEL = "Qwen2.5-Coder-1.5B-Instruct"  # whose plans are kept
EXAMPLES = 4  # training queries with their plans, before every request
MAX_TOKENS = 96  # of a plan: its tokens are other ones than the tuned planner's
TUNED, UNTUNED, LARGER = "tuned", "untuned", "larger tuned"  # the planner, the instruct model, and the latter tuned
PREFIXES = {TUNED: "", UNTUNED: "instruct/", LARGER: "larger/"}  # of their settings' names
RULES = (
    "You are the assistant on somebody's phone. Answer each request with a call of one of the tools listed under it, "
    "or, where it needs two, with two calls on two lines; write nothing else. Copy the values of arguments word for "
    "word from the request, the context or the contacts; write times as 2023-12-07 18:30. Leave out an argument marked "
    "with ? where nothing is said about it. Where no tools are listed, call the one that you expect there to be. "
    "default() means that no tool can serve the request, which is rare."
)


class Compared(NamedTuple):
    """Other models beside the tuned planner, on the same queries.

    Attributes:
        scores: as `lib.assistant.plan_comparison.per_query`, of all models; settings have the `PREFIXES`.
        resampling: of these queries.
        tests: columns of `lib.evaluation.comparison.compare`, model minus against (of `PREFIXES`), setting,
            metric (ast_accuracy, right_api).
    """

    scores: pd.DataFrame
    resampling: Resampling
    tests: pd.DataFrame

    @property
    def models(self) -> list[str]:
        """Those of `PREFIXES` that are compared."""
        return [name for name in PREFIXES if name in {TUNED, *self.tests["model"]}]

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Each two of them: model and against."""
        return [(model, against) for against, model in combinations(self.models, 2)]

    def scores_of(self, model: str) -> pd.DataFrame:
        """Those of one model, as `lib.assistant.plan_comparison.per_query` has them: settings by their plain names."""
        plain = {PREFIXES[model] + setting: setting for setting in SETTINGS}
        part = self.scores.loc[:, self.scores.columns.get_level_values("method").isin(list(plain))]
        return part.rename(columns=plain, level="method")

    def accuracy(self, model: str, against: str = TUNED) -> pd.DataFrame:
        """The tests of AST accuracy of two models, by setting."""
        of_both = (self.tests["model"] == model) & (self.tests["against"] == against)
        return self.tests[of_both & (self.tests["metric"] == "ast_accuracy")].set_index("setting")


# ---------------------------------------------------------------- what it is shown


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

    They are where the planner may learn from all of their queries, the gold plans are theirs, and so are the prompts
    with nothing retrieved in them. A prompt with retrieved tools is as it was when the kept plans were asked for.

    Args:
        root: the project's folder.

    Returns:
        {setting: prompts, each with the gold plan}.
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


def completed(material: Material, training: pd.DataFrame, setting: str, seed: int) -> pd.DataFrame:
    """`lib.assistant.planner.Material.prompted` of training queries, with the gold tools among retrieved ones."""
    inputs = with_gold_tools(material.shown(training, setting), material.gold, seed)
    return inputs.assign(prompt=planner_prompts(material.desk, inputs, material.queries))


def turns(shown: Sequence[tuple[str, str]], prompt: str) -> list[dict[str, str]]:
    """A conversation, as chat templates take it: the rules, examples, and a prompt of the planner.

    Args:
        shown: prompts with their plans.
    """
    said = [("system", RULES)]
    for asked, plan in shown:
        said += [("user", _asked(asked)), ("assistant", plan)]
    return [{"role": role, "content": text} for role, text in [*said, ("user", _asked(prompt))]]


def _asked(prompt: str) -> str:
    """A planner's prompt without the cue that it completes."""
    return prompt.removesuffix("Plan:\n").rstrip()


def with_turns(shown: Mapping[str, Sequence[tuple[str, str]]], prompts: pd.DataFrame) -> pd.DataFrame:
    """Prompts of the tuned planner with the column turns: the conversation that stands for each, as JSON.

    Args:
        shown: of `examples`.
        prompts: columns setting, prompt.
    """
    rows = zip(prompts["setting"], prompts["prompt"], strict=True)
    return prompts.assign(turns=[json.dumps(turns(shown[setting], prompt)) for setting, prompt in rows])


# ---------------------------------------------------------------- who is asked, and for what


class Planned(NamedTuple):
    """What the instruct model wrote.

    Attributes:
        plans: the prompts that it was asked (columns query, setting, tools and more), turns, and text: its plan.
        keeper: which of these were kept with the project.
        model: its name.
    """

    plans: pd.DataFrame
    keeper: KeptModel
    model: str


class Asking(NamedTuple):
    """Who is asked, and for how much.

    Attributes:
        examples: see the function.
        seed: of the sample of queries.
        name: of the model; empty: only kept plans are taken.
        queries: evaluation queries that it is asked, at least.
        root: the project's folder.
        own: folder of the profile's data, for what is written now.
        machine: threads, quantization of `lib.generation.local.LocalModel`.
        progress: show a progress bar.
    """

    examples: Mapping[str, Sequence[tuple[str, str]]]
    seed: int
    name: str
    queries: int
    root: Path
    own: Path
    machine: Mapping[str, Any] = MappingProxyType({})
    progress: bool = False


def planned(prompts: pd.DataFrame, kinds: pd.Series, asking: Asking) -> Planned | None:
    """The instruct model's plans: kept ones, or written now where a model is named; None where neither is there.

    Args:
        prompts: columns query, setting, prompt: those of the tuned planner.
        kinds: of the queries, by query.
    """
    answers = Answers(asking.root / FILE, asking.own / "answers" / FILE.name)
    load = functools.partial(Conversations, asking.name, cache=answers, **asking.machine) if asking.name else None
    model = KeptModel(answers, weights_of(asking.name or MODEL), load)

    def said(queries: pd.DataFrame) -> pd.DataFrame:
        return with_turns(asking.examples, prompts[prompts["query"].isin(queries["query"])])

    def kept(shown: pd.DataFrame) -> list[bool]:
        return model.has(shown["turns"].tolist(), MAX_TOKENS)

    shown = prompts_asked(prompts[["query"]].drop_duplicates(), kinds, said, kept, asking.queries, asking.seed)
    if not asking.name and not all(kept(shown)):
        return None
    texts = model.generate(shown["turns"].tolist(), MAX_TOKENS, progress=asking.progress)
    return Planned(shown.assign(text=[plan_of(text) for text in texts]), model, asking.name or MODEL)


def planned_in_worlds(materials: Mapping[str, Material], prompts: pd.DataFrame, asking: Asking) -> dict[str, Planned]:
    """`planned` in each named world, where its plans are there. The examples are of the world in which the
    tuned planner learned.

    Args:
        materials, prompts: see `each_world`.
    """
    return each_world(materials, prompts, functools.partial(planned, asking=asking))


def each_world(
    materials: Mapping[str, Material],
    prompts: pd.DataFrame,
    ask: Callable[[pd.DataFrame, pd.Series], Planned | None],
) -> dict[str, Planned]:
    """A model's plans in each named world in which it has any.

    Args:
        materials: of the worlds (`lib.assistant.planner_worlds.materials_of`).
        prompts: column world and as for `planned`; other settings than Table 3's are left out.
        ask: for plans, by a world's prompts and the kinds of its queries.
    """
    prompts = prompts[prompts["setting"].isin(list(SETTINGS))]
    found = {
        world: ask(prompts[prompts["world"] == world], material.gold.set_index("query")["kind"])
        for world, material in materials.items()
    }
    return {world: plans for world, plans in found.items() if plans is not None}


def judged(plans: pd.DataFrame, material: Material) -> pd.DataFrame:
    """`lib.assistant.planner.score_plans` with the column executed (`lib.assistant.execution.executed_right`)."""
    scored = score_plans(plans, material.gold, material.desk.functions)
    return scored.assign(executed=executed_right(material.desk, scored, material.queries, material.gold))


def plan_of(answer: str) -> str:
    """The lines of an answer up to the first empty one, without those of a code fence; no promise that they parse."""
    lines = [line.strip() for line in answer.strip().split("\n") if not line.strip().startswith("```")]
    return "\n".join(lines[: next((place for place, line in enumerate(lines) if not line), len(lines))])


def compare(plans: Mapping[str, pd.DataFrame], material: Material, samples: int, seed: int) -> Compared:
    """All models on the queries that each of them was asked.

    Args:
        plans: see `judged`; `TUNED` and at least one other of `PREFIXES`, in their order. `LARGER` are those of
            the instruct model after it was tuned (`lib.assistant.retrained_planner`).
        samples, seed: of `per_query`.
    """
    common = set.intersection(*(set(part["query"]) for part in plans.values()))
    asked = [
        part[part["query"].isin(common) & part["setting"].isin(list(SETTINGS))].assign(
            setting=PREFIXES[model] + part["setting"]
        )
        for model, part in plans.items()
    ]
    scores, resampling = per_query(pd.concat(asked), material.queries, material.gold, samples, seed)
    frames = []
    for against, model in combinations(plans, 2):
        pairs = [(PREFIXES[model] + setting, PREFIXES[against] + setting) for setting in SETTINGS]
        for metric in ("ast_accuracy", "right_api"):
            tests = comparison.compare(scores, pairs, metric, 1, resampling)
            frames.append(tests.assign(metric=metric, setting=list(SETTINGS), model=model, against=against))
    return Compared(scores, resampling, pd.concat(frames, ignore_index=True))


def compare_in_worlds(
    materials: Mapping[str, Material],
    tuned: pd.DataFrame,
    others: Mapping[str, Mapping[str, Planned]],
    samples: int,
    seed: int,
) -> dict[str, Compared]:
    """`compare` in each world where another model's plans are there.

    Args:
        tuned: plans of the tuned planner (`lib.assistant.planner_worlds.judged`).
        others: {`UNTUNED` or `LARGER`: {world: its plans}}.
    """
    found = {}
    for world, material in materials.items():
        plans = {TUNED: tuned[tuned["world"] == world]}
        plans |= {name: judged(there[world].plans, material) for name, there in others.items() if world in there}
        if len(plans) > 1:
            found[world] = compare(plans, material, samples, seed)
    return found
