"""Who plans: what an instruct model is shown that was not tuned, what identifies a planner, whose plans are kept."""

import json
from dataclasses import replace

import pandas as pd
import pytest

from lib.assistant import planners as module
from lib.assistant.planner import SETTINGS, Desk, Material, with_other_plans
from lib.assistant.planners import (
    EXAMPLES,
    INSTRUCT_MODEL,
    LARGER_RATE,
    MAX_TOKENS,
    RULES,
    PlannerLesson,
    completed,
    examples,
    kept_examples,
    larger_planner,
    plan_of,
    source_key,
    turns,
    untuned_planner,
)
from lib.assistant.plans import RightPlan, api_names
from lib.assistant.tools import named_world
from lib.generation import local, models
from lib.generation.answers import Answer, Answers, Cost, key_of
from lib.generation.finetune import Training
from lib.workbook.artifacts import Workbook
from lib.workbook.parameters import Parameters
from tests.assistant.test_planner import SIZE


@pytest.fixture(scope="module")
def lesson(data):
    """A small world in which the right tools and items are retrieved for every other query."""
    frames = named_world(data, "mixed", SIZE, 3)
    gold = with_other_plans(frames["gold"], frames["other_plans"])
    rows = []
    for number, (query, apis, relevant) in enumerate(gold[["query", "apis", "relevant"]].itertuples(index=False)):
        found = number % 2 == 0
        tools = [*apis, "call_contact"] if found else ["open_note", "call_contact"]
        for setting in ("query_only", "query_plus_context"):
            rows += [(setting, query, tool, rank) for rank, tool in enumerate(dict.fromkeys(tools), 1)]
        rows += [("context", query, item, rank) for rank, item in enumerate(relevant if found else [], 1)]
    ranked = pd.DataFrame(rows, columns=["setting", "query", "item", "rank"])
    context = ranked["setting"] == "context"
    desk = Desk.from_tables(frames["items"], frames["people"], frames["toolbox"])
    material = Material(desk, frames["queries"], gold, ranked[~context], ranked[context], 3, 2)
    return PlannerLesson(material, pd.DataFrame(), {}, {}, 3)


@pytest.fixture(scope="module")
def prompts(lesson):
    material = lesson.material
    return material.prompted(material.queries.query("split == 'evaluation'"), SETTINGS)


def test_examples_are_the_same_training_queries_in_every_setting_and_can_be_read_off(lesson):
    shown, material = examples(lesson), lesson.material
    assert list(shown) == list(SETTINGS)
    assert 0 < len(shown["rag"]) <= EXAMPLES
    plans = {setting: [plan for _, plan in pairs] for setting, pairs in shown.items()}
    assert all(of_setting == plans["rag"] for of_setting in plans.values())
    side = material.queries.set_index("query")["split"]
    labels = material.gold.set_index("query")
    training = labels[side.loc[labels.index] == "training"]
    assert set(plans["rag"]) <= set(training["plan"])
    texts = set(material.queries.query("split == 'training'")["text"])
    for asked, _ in shown["lower_bound"]:
        assert asked.split("\n")[0].split("): ", 1)[1] in texts
    needs = training.reset_index().groupby("plan")["need"].agg(set)
    assert not any(needs[plan] <= lesson.held_out for plan in plans["rag"])
    assert len({tuple(api_names(plan)) for plan in plans["rag"]}) == len(plans["rag"])


def test_another_plan_makes_no_example(lesson):
    """Each shows the gold plan: that another one, without arguments, can be read off every prompt does not help."""
    gold = lesson.material.gold
    plans = [RightPlan(list(apis), "", json.dumps([{api: {}} for api in apis])) for apis in gold["apis"]]
    told = gold.assign(also=[[plan] for plan in plans])
    assert examples(replace(lesson, material=replace(lesson.material, gold=told))) == examples(lesson)


def kept_in(folder, shown, queries):
    """The file of kept examples, of `examples` and their queries."""
    path = folder / module.EXAMPLES_FILE
    path.parent.mkdir(parents=True)
    rows = [
        {"setting": setting, "query": query, "prompt": prompt, "plan": plan}
        for setting, pairs in shown.items()
        for query, (prompt, plan) in zip(queries, pairs, strict=True)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_kept_examples_stand_where_only_what_was_retrieved_is_another(lesson, tmp_path, monkeypatch):
    """Another processor that ranks two tools otherwise shows other prompts, and finds no kept plan without these."""
    asked = []
    monkeypatch.setattr(module, "completed", lambda *of: asked.append(of[1]["query"].tolist()) or completed(*of))
    shown = examples(lesson)
    kept_in(tmp_path, shown, asked[-1])
    material = lesson.material
    reverse = material.tool_rankings.assign(rank=-material.tool_rankings["rank"]).sort_values(
        ["setting", "query", "rank"]
    )
    elsewhere = replace(lesson, material=replace(material, tool_rankings=reverse))
    assert examples(elsewhere)["rag"] != shown["rag"]
    assert kept_examples(elsewhere, tmp_path) == shown
    assert kept_examples(lesson, tmp_path / "nowhere") == shown


def test_kept_examples_of_another_world_are_not_shown(lesson, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(module, "completed", lambda *of: asked.append(of[1]["query"].tolist()) or completed(*of))
    shown, material = examples(lesson), lesson.material
    first = asked[-1][0]
    marked = {setting: [(prompt + "kept", plan) for prompt, plan in pairs] for setting, pairs in shown.items()}
    retrieved = ("rag", "context_tuned_rag")
    kept_in(tmp_path, {name: (marked if name in retrieved else shown)[name] for name in shown}, asked[-1])
    assert kept_examples(lesson, tmp_path)["rag"] == marked["rag"]
    of_first = material.gold["query"] == first
    told = material.gold.assign(plan=material.gold["plan"].mask(of_first, "default()"))
    evaluated = material.queries.assign(
        split=material.queries["split"].mask(material.queries["query"] == first, "evaluation")
    )
    said = material.queries.assign(
        text=material.queries["text"].mask(material.queries["query"] == first, "Where is it?")
    )
    for changed in ({"gold": told}, {"queries": evaluated}, {"queries": said}):
        other = replace(lesson, material=replace(material, **changed))
        assert kept_examples(other, tmp_path) == examples(other)


def test_no_label_of_an_evaluation_query_is_shown_but_in_the_upper_bounds(lesson, prompts):
    """What is retrieved may hold it, by right; what the labels alone know does not."""
    gold, asked = lesson.material.gold, prompts["query"].unique()
    other = gold.assign(plan="nothing()", apis=[["show_lyrics"]] * len(gold), relevant=[[]] * len(gold))
    changed = replace(lesson, material=replace(lesson.material, gold=gold.where(~gold["query"].isin(asked), other)))
    assert examples(changed) == examples(lesson)
    bounds = prompts["setting"].str.contains("upper_bound")
    again = changed.material.prompted(changed.material.queries.query("split == 'evaluation'"), SETTINGS)
    assert (again["prompt"] == prompts["prompt"])[~bounds].all()
    assert (again["prompt"] != prompts["prompt"])[bounds].mean() > 0.9


# ---------------------------------------------------------------- the untuned model


@pytest.fixture
def book(tmp_path, monkeypatch):
    monkeypatch.setattr(models, "locate", lambda name: name)
    monkeypatch.setattr(local, "fingerprint", lambda path, *_: f"weights of {path}")
    return Workbook("07_planner", Parameters(profile="tiny", seed=3), tmp_path)


class Model:
    """In the place of a language model: its plans name how long what it was last told is."""

    dtype = "float32"

    def __init__(self, name, adapter=None, cache=None, **machine):
        self.about = name, adapter, machine

    def generate(self, texts, max_new_tokens, progress=False):
        assert max_new_tokens == MAX_TOKENS
        self.finished, self.costs = [True] * len(texts), [Cost()] * len(texts)
        return [f"```\nplan({len(text)})\n```" for text in texts]


def test_what_comes_last_is_the_planners_prompt_without_its_cue(lesson, prompts, book):
    some = prompts.groupby("setting").head(2)
    asked = untuned_planner(book, lesson, "", False).asked(some)
    for said, prompt in zip(asked, some["prompt"], strict=True):
        system, *middle, last = json.loads(said)
        assert system == {"role": "system", "content": RULES}
        assert last == {"role": "user", "content": prompt.removesuffix("Plan:\n").rstrip()}
        assert [turn["role"] for turn in middle] == ["user", "assistant"] * (len(middle) // 2)
        assert middle


def test_only_kept_plans_are_taken_where_no_model_is_named(lesson, prompts, book):
    untuned, some = untuned_planner(book, lesson, "", False), prompts.head(3)
    assert not untuned.asks
    assert untuned.has(some) == [False] * 3
    keys = [key_of(local.weights_of(INSTRUCT_MODEL), said, MAX_TOKENS) for said in untuned.asked(some)]
    Answers.of(book, "instruct_plans").add(dict.fromkeys(keys, Answer("```\ndefault()\n```")))
    again = untuned_planner(book, lesson, "", False)
    assert again.has(prompts.head(4)) == [True] * 3 + [False]
    assert again.write(some) == ["default()"] * 3


def test_a_model_that_is_named_is_asked_and_its_plans_are_kept_as_its_own(lesson, prompts, book, monkeypatch):
    monkeypatch.setattr(module, "Conversations", Model)
    untuned, some = untuned_planner(book, lesson, "my-model", False, threads=1), prompts.head(2)
    assert untuned.asks
    assert untuned.write(some) == [f"plan({len(said)})" for said in untuned.asked(some)]
    assert all(untuned_planner(book, lesson, "my-model", False).has(some))
    assert not any(untuned_planner(book, lesson, "", False).has(some))


@pytest.mark.parametrize(
    ("answer", "plan"),
    [
        ("default()", "default()"),
        ("```python\nsend_mail(to='a')\n```", "send_mail(to='a')"),
        (" find_event(title='a')\nsend_mail(to='b')\n\nThis finds it.", "find_event(title='a')\nsend_mail(to='b')"),
        ("", ""),
    ],
)
def test_the_plan_in_an_answer(answer, plan):
    assert plan_of(answer) == plan


def test_turns_without_examples():
    assert [turn["role"] for turn in turns([], "Request: x\nPlan:\n")] == ["system", "user"]


# ---------------------------------------------------------------- the larger one, tuned

SETTLED = Training(learning_rate=3e-3, epochs=2, seed=7)


def test_a_key_changes_with_all_that_a_planner_comes_from(book):
    """What is left out changes no weights: how often checkpoints are written."""
    key = source_key("small", "none", "a lesson", SETTLED)
    others = [
        source_key("large", "none", "a lesson", SETTLED),
        source_key("small", "nf4", "a lesson", SETTLED),
        source_key("small", "none", "another", SETTLED),
        source_key("small", "none", "a lesson", replace(SETTLED, seed=8)),
        source_key("small", "none", "a lesson", replace(SETTLED, rank=8)),
    ]
    assert len({key, *others}) == 6
    assert source_key("small", "none", "a lesson", replace(SETTLED, checkpoint_every=1)) == key


def test_the_larger_one_is_trained_where_the_profile_says_so_at_a_rate_of_its_own(lesson, prompts, book, monkeypatch):
    trained = []

    def adapter_for(part, name, asked, targets, output, settings, **machine):
        trained.append((part, name, len(asked), output.name, settings.learning_rate, settings.epochs, machine))
        return type("Adapter", (), {"folder": "an adapter"})

    pairs = pd.DataFrame({"prompt": ["a", "b"], "target": ["c()", "d()"]})
    monkeypatch.setattr(PlannerLesson, "source", lambda self, size: f"{size} queries")
    monkeypatch.setattr(PlannerLesson, "pairs", lambda self, queries: (pairs, {}))
    monkeypatch.setattr(module, "adapter_for", adapter_for)
    monkeypatch.setattr(module, "LocalModel", Model)
    how = lesson, 20, SETTLED, "small"
    away = larger_planner(book, *how, False, False, threads=1)
    assert not away.asks
    some = prompts.head(2)
    assert away.has(some) == [False, False]
    here = larger_planner(book, *how, True, False, threads=1)
    assert here.write(some) == [f"```\nplan({len(prompt)})\n```" for prompt in some["prompt"]]
    machine = {"progress": False, "threads": 1}
    assert trained == [("", "small", 2, "planner_larger", LARGER_RATE, 1, machine)]
    assert all(larger_planner(book, *how, False, False, threads=1).has(some)), "kept under what it comes from"
    assert not any(larger_planner(book, lesson, 21, SETTLED, "small", False, False).has(some))
