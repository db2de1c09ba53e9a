"""Who plans: the planner of a profile, and a larger model, untuned and tuned, which stands where the paper has GPT-4.

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
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import pandas as pd

from lib.assistant.chains import equal_shares
from lib.assistant.planner import LABELLED, SETTINGS, Planner, answerable
from lib.assistant.planner_training import PlannerLesson, completed
from lib.generation.answers import Answers, KeptModel
from lib.generation.finetune import Training, adapter_for
from lib.generation.load import kept_model
from lib.generation.local import Conversations, LocalModel, weights_of
from lib.workbook.artifacts import Workbook

EXAMPLES_FILE = Path("data") / "answers" / "instruct_examples.jsonl"  # the examples that kept plans were asked with
MODEL = "Qwen2.5-Coder-1.5B-Instruct"  # whose plans are kept
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

    model = KeptModel(answers, weights_of(name or MODEL), load)
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
        name: of the base model; empty: `MODEL`.
        train: whether it is trained here where its plans are not kept.
    """
    settings = replace(settings, learning_rate=LARGER_RATE, epochs=LARGER_EPOCHS)
    source, answers = lesson.source(size), Answers.of(book, "retrained_plans")
    key = source_key(name or MODEL, machine.get("quantization", "none"), source, settings)

    def load() -> LocalModel:
        pairs, _ = lesson.pairs(lesson.queries(size))
        texts, output = (pairs["prompt"].tolist(), pairs["target"].tolist()), book.data / "runs" / "planner_larger"
        how = {"progress": progress, **machine}
        adapter = adapter_for("", name or MODEL, *texts, output, settings, **how)
        model = LocalModel(name or MODEL, adapter=adapter.folder, cache=answers, **machine)
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
