"""What a planner learns from, what identifies a planner, whose plans are kept, and who is asked."""

from dataclasses import replace

import pandas as pd
import pytest

from lib.assistant import planners as module
from lib.assistant.planner import SETTINGS, with_other_plans
from lib.generation import local, models
from lib.generation.answers import Answer, Answers, KeptModel, key_of
from lib.generation.finetune import Training
from lib.workbook.artifacts import Workbook
from lib.workbook.parameters import Parameters
from tests.assistant.test_planner import GOLD, OTHERS, QUERIES, TOOLS, TWO_CALLS, material_of


def lesson_of(queries=QUERIES, gold=GOLD, thoughts=None, held_out=(), **how):
    material = replace(material_of(gold, **how), queries=queries)
    lesson = module.PlannerLesson(material, pd.DataFrame(), thoughts or {}, {}, 3)
    lesson.__dict__["held_out"] = set(held_out)
    return lesson


def test_training_leaves_held_out_needs_and_evaluation_alone():
    assert lesson_of(thoughts={"q3": "Check."}, held_out=["late"]).queries(10)["query"].tolist() == ["q2"]
    assert set(lesson_of().queries(10)["query"]) == {"q1", "q2"}
    assert lesson_of().queries(10).equals(lesson_of().queries(10))


def test_forms_occur_equally_often_and_thoughts_come_first():
    many = pd.DataFrame({"query": [f"t{i}" for i in range(40)], "split": "training"})
    sample = lesson_of(many, many.assign(need="late"), {"t3": "", "t5": ""}).queries(20)
    assert sample["setting"].value_counts().to_dict() == dict.fromkeys(SETTINGS, 4)
    assert {"t3", "t5"} <= set(sample["query"])
    assert len(set(sample["query"])) == 20


def test_plans_of_two_calls_are_also_learned_step_by_step(monkeypatch):
    monkeypatch.setattr(module, "THOUGHT_SHARE", 0.5)
    rows = QUERIES[:2].assign(setting="context_tuned_rag")
    pairs = lesson_of(thoughts={"q2": "Check."}).pairs(rows)
    assert pairs["query"].tolist() == ["q1", "q2", "q1"]
    assert pairs["step"].tolist() == [1, 1, 2]
    assert pairs["thought"].tolist() == [False, True, False]
    assert pairs["target"].tolist() == [TWO_CALLS, "default()", TWO_CALLS.split("\n")[1]]
    assert "Thought: Check." in pairs["prompt"][1]
    assert pairs["prompt"][2].endswith(
        'Plan:\nfind_event(title="Steering round")\nResult: Calendar: Steering round. Room 4. Dana Ruiz; '
        "Contact: Dana Ruiz, dana@x.example, +1 5\nThen:\n"
    )


def test_training_prompts_show_the_gold_tools_and_teach_the_gold_plan():
    gold = with_other_plans(GOLD, OTHERS)
    rows = material_of(gold, n_tools=1).shown(QUERIES[1:], SETTINGS)
    for before, after in zip(rows.itertuples(), module.with_gold_tools(rows, gold, seed=0).itertuples(), strict=True):
        if SETTINGS[before.setting][0] in ("none", "gold"):
            assert after.tools == before.tools
        else:
            assert set(GOLD.set_index("query").loc[after.query, "apis"]) <= set(after.tools)
            assert after.tools[-1] == "default"
            assert len(after.tools) == len(set(after.tools)) == len(before.tools)
    rag = material_of(gold).shown(QUERIES[2:], ["rag"])
    assert {module.with_gold_tools(rag, gold, seed)["tools"].iloc[0].index("find_event") for seed in range(9)} == {0, 1}
    pairs = lesson_of(gold=gold).pairs(QUERIES[2:].assign(setting="rag"))
    assert pairs["target"].tolist() == [GOLD["plan"].iloc[2]]


class Titles:
    """A model that calls the first tool that it is shown with the first item's title, and takes note of prompts."""

    def __init__(self, name="", adapter=None, cache=None, **machine):
        self.prompts, self.cache = [], Answers() if cache is None else cache

    def ask(self, asked, bar, **settings):
        self.prompts += [prompt for prompt, _ in asked.values()]
        made = {key: Answer(self.answer(prompt.split("\n"))) for key, (prompt, _) in asked.items()}
        self.cache.add(made)
        return made

    @staticmethod
    def answer(lines):
        tool, item = (lines[lines.index(name) + 1] if name in lines else "?" for name in ("Tools:", "Context:"))
        return f'{tool.partition("(")[0]}(title="{item.partition(": ")[2].partition(".")[0]}")'


@pytest.fixture
def material():
    return material_of(with_other_plans(GOLD, OTHERS))


@pytest.fixture
def planner():
    model = Titles()
    return module.Planner(KeptModel(Answers(), "w", lambda: model), 20), model


def test_a_plan_is_made_from_its_settings_prompt_and_judged(material, planner):
    one, model = planner
    found = module.plan(["context_tuned_rag"], material, one, QUERIES[2:], thoughts={"q3": "Check."}).iloc[0]
    assert model.prompts == [found["prompt"]]
    assert "Thought: Check." in found["prompt"]
    assert found["text"] == 'find_event(title="Steering round")'
    assert found[["ast_accuracy", "need", "setting"]].tolist() == [100, "late", "context_tuned_rag"]


def test_a_second_call_is_planned_after_the_first_was_made(material, planner):
    one, model = planner
    at_once = module.plan(["context_tuned_upper_bound"], material, one, QUERIES[:1])
    found = module.plan_second_calls(at_once.assign(text=TWO_CALLS), material, one)
    assert found["text"].iloc[0].startswith(TWO_CALLS.split("\n")[0] + "\nfind_event(")
    assert "Result: Calendar: Steering round" in model.prompts[-1]
    assert found["ast_accuracy"].tolist() == [0]


def test_as_many_queries_are_asked_as_have_all_their_plans_kept():
    """If as many as wanted have; else as even by kind as there are, or none where nobody can be asked."""
    queries = pd.concat([QUERIES.assign(query=f"q{n}", text=f"Request {n}")[:1] for n in range(9)])
    gold = pd.concat([GOLD.assign(query=f"q{n}", kind="b" if n % 3 else "a")[:1] for n in range(9)])
    tools = pd.concat([TOOLS[TOOLS["query"] == "q1"].assign(query=f"q{n}") for n in range(9)])
    there = replace(material_of(gold, tools), queries=queries)
    prompts, answers = there.prompted(there.shown(queries, SETTINGS)), Answers()
    kept = prompts[(prompts["query"] != "q4") | (prompts["setting"] != "rag")]["prompt"]
    answers.add({key_of("w", prompt, 20): Answer("default()") for prompt in kept})
    one = module.Planner(KeptModel(answers, "w"), 20)
    found = module.plan(SETTINGS, there, one, queries, wanted=4)
    assert found["query"].value_counts().to_dict() == {f"q{n}": 5 for n in range(9) if n != 4}
    away = module.Planner(KeptModel(Answers(), "w"), 20)
    assert module.plan(SETTINGS, there, away, queries, wanted=4).empty
    here = module.Planner(KeptModel(Answers(), "w", Titles), 20)
    drawn = module.plan(SETTINGS, there, here, queries, wanted=6, seed=3)["query"].unique()
    assert gold.set_index("query")["kind"].loc[drawn].value_counts().to_dict() == {"a": 3, "b": 3}


def test_how_sure_a_planner_is_of_a_plan_is_computed_once(tmp_path, monkeypatch):
    read, files, one = [], (tmp_path / "kept.npz", tmp_path / "own.npz"), KeptModel(Answers(), "w", Titles)
    monkeypatch.setattr(module, "log_probabilities", lambda *_: read.append(1) or pd.Series([-len(read)] * 2))
    plans = pd.DataFrame({"prompt": ["p", "q", "p"], "text": "a()"})
    assert module.sureness(plans, one, *files).tolist() == [-1, -1, -1]
    files[1].rename(files[0])
    assert module.sureness(plans, KeptModel(Answers(), "w"), *files).tolist() == [-1, -1, -1], "those of the project"
    assert module.sureness(plans.assign(text=["a()", "b()", "c()"]), one, *files).tolist() == [-1, -2, -2], "others"


SETTLED = Training(learning_rate=3e-3, epochs=2, seed=7)


@pytest.fixture
def larger(tmp_path, monkeypatch):
    """The larger planner, where the profile names it so."""
    monkeypatch.setattr(models, "locate", lambda name: name)
    monkeypatch.setattr(local, "fingerprint", lambda path, *_: f"weights of {path}")
    monkeypatch.setattr(module, "LocalModel", Titles)
    monkeypatch.setattr(module.PlannerLesson, "source", lambda self, size: f"{size} queries")

    def planner(name="", size=20, settings=SETTLED, **machine):
        parameters = Parameters(profile="tiny", seed=3, planner="small", instruct_planner=name)
        book = Workbook("07_planner", parameters, tmp_path)
        return module.planners_of(book, lesson_of(), None, size, settings, False, **machine)["larger tuned"]

    return planner


def test_the_larger_one_is_trained_where_it_is_named_at_a_rate_of_its_own(larger, material, monkeypatch):
    trained = []

    def finetune(name, asked, targets, output, settings, **machine):
        trained.append((name, len(asked), output.name, settings.learning_rate, settings.epochs))
        return type("Adapter", (), {"folder": "an adapter"})

    monkeypatch.setattr(module, "finetune_language_model", finetune)
    prompts = material.prompted(material.shown(QUERIES[2:], SETTINGS))["prompt"]
    assert larger("small").write(prompts) == [Titles.answer(prompt.split("\n")) for prompt in prompts]
    assert trained == [("small", 3, "planner_larger", module.LARGER_RATE, 1)]
    assert all(larger("small").model.has(prompts, module.LARGER_TOKENS)), "kept under what it comes from"
    assert not any(larger("small", 21).model.has(prompts, module.LARGER_TOKENS))
    with pytest.raises(models.ModelError, match="no model is named"):
        larger().write(prompts)


def test_a_key_changes_with_all_that_a_planner_comes_from(larger):
    """What is left out changes no weights: how often checkpoints are written."""
    others = larger("large"), larger(size=21), larger(settings=replace(SETTLED, seed=8)), larger(quantization="nf4")
    key = larger().model.weights
    assert len({key, *(one.model.weights for one in others)}) == 5
    assert larger(settings=replace(SETTLED, checkpoint_every=1)).model.weights == key
