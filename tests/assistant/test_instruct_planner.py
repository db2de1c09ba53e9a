"""What an instruct model that was not tuned is shown, which of its plans are kept, and how they are compared."""

import json
from dataclasses import replace
from itertools import pairwise

import pandas as pd
import pytest

from lib.assistant import instruct_planner as module
from lib.assistant.instruct_planner import (
    EXAMPLES,
    LARGER,
    MODEL,
    PREFIXES,
    RULES,
    TUNED,
    UNTUNED,
    Asking,
    compare,
    compare_in_worlds,
    completed,
    examples,
    kept_examples,
    plan_of,
    planned,
    planned_in_worlds,
    turns,
    with_turns,
)
from lib.assistant.pages import planner_instruct as page
from lib.assistant.plan_comparison import by_needs
from lib.assistant.planner import SETTINGS, Desk, Material, score_plans, with_other_plans
from lib.assistant.planner_training import PlannerLesson
from lib.assistant.planner_worlds import STEPS, steps
from lib.assistant.plans import RightPlan, api_names
from lib.assistant.tool_worlds import simulated
from lib.generation import local, models
from lib.generation.answers import Answer, Answers, Cost, KeptModel, key_of
from tests.assistant.test_planner_worlds import SIZE


@pytest.fixture(scope="module")
def lesson(data):
    """A small world in which the right tools and items are retrieved for every other query."""
    frames = simulated(data, SIZE, "smoke", 3)["mixed"]
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


def kinds(lesson):
    return lesson.material.gold.set_index("query")["kind"]


def asking(lesson, queries, folder=None, name=""):
    return Asking(examples(lesson), lesson.seed, name, queries, folder, folder)


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


def test_what_comes_last_is_the_tuned_planner_s_prompt_without_its_cue(lesson, prompts):
    some = with_turns(examples(lesson), prompts.groupby("setting").head(2))
    assert set(some["setting"]) == set(SETTINGS)
    for said, prompt in zip(some["turns"], some["prompt"], strict=True):
        system, *middle, last = json.loads(said)
        assert system == {"role": "system", "content": RULES}
        assert last == {"role": "user", "content": prompt.removesuffix("Plan:\n").rstrip()}
        assert [turn["role"] for turn in middle] == ["user", "assistant"] * (len(middle) // 2)


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


def keep(folder, lesson, prompts, text):
    """Keep an answer to prompts, as with the project."""
    turns = with_turns(examples(lesson), prompts)["turns"]
    keys = [key_of(local.weights_of(MODEL), said, module.MAX_TOKENS) for said in turns]
    Answers(own=folder / module.FILE).add(dict.fromkeys(keys, Answer(text, dtype="bfloat16")))


def test_kept_plans_are_shown_where_as_many_as_wanted_are_there(lesson, prompts, tmp_path):
    assert planned(prompts, kinds(lesson), asking(lesson, 2, tmp_path)) is None
    some = prompts[prompts["query"].isin(prompts["query"].unique()[:5])]
    keep(tmp_path, lesson, some, "```\ndefault()\n```")
    found = planned(prompts, kinds(lesson), asking(lesson, 2, tmp_path))
    assert found.model == MODEL
    assert set(found.plans["query"]) == set(some["query"])
    assert set(found.plans["text"]) == {"default()"}
    assert not found.keeper.asked
    assert planned(prompts, kinds(lesson), asking(lesson, 6, tmp_path)) is None


def test_a_model_that_is_named_is_asked_and_its_plans_are_kept_as_its_own(lesson, prompts, tmp_path, monkeypatch):
    class Model:
        dtype = "float32"

        def __init__(self, name, cache, threads):
            assert (name, threads) == ("my-model", 1)

        def generate(self, texts, max_new_tokens, progress=False):
            assert max_new_tokens == module.MAX_TOKENS
            self.finished, self.costs = [True] * len(texts), [Cost()] * len(texts)
            return [f"find_note(title='{len(json.loads(text)[-1]['content'])}')" for text in texts]

    monkeypatch.setattr(local, "fingerprint", lambda path, *_: "w")
    monkeypatch.setattr(models, "locate", lambda name: name)
    monkeypatch.setattr(module, "Conversations", Model)
    found = planned(prompts, kinds(lesson), asking(lesson, 2, tmp_path, "my-model")._replace(machine={"threads": 1}))
    assert found.model == "my-model"
    assert len(found.keeper.asked) == len(set(found.plans["turns"]))
    longest = found.plans["prompt"].str.removesuffix("Plan:\n").str.rstrip().str.len()
    assert found.plans["text"].tolist() == [f"find_note(title='{n}')" for n in longest]
    own = KeptModel(Answers(own=tmp_path / "answers" / module.FILE.name), "w")
    assert all(own.has(found.plans["turns"], module.MAX_TOKENS))


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


def plans_of(lesson, prompts, right):
    """Plans of which those of `right` queries are the gold ones."""
    plans = lesson.material.gold.set_index("query")["plan"]
    texts = [plans[query] if query in right else "default_2()" for query in prompts["query"]]
    rows = score_plans(
        prompts.assign(text=texts, answerable=100.0), lesson.material.gold, lesson.material.desk.functions
    )
    return rows.assign(executed=rows["ast_accuracy"])


def test_all_are_compared_on_the_queries_of_the_instruct_model(lesson, prompts):
    queries = prompts["query"].unique().tolist()
    tuned = plans_of(lesson, prompts, queries)
    untuned = plans_of(lesson, prompts[prompts["query"].isin(queries[:40])], queries[:10])
    compared = compare({TUNED: tuned, UNTUNED: untuned}, lesson.material, 100, 0)
    assert len(compared.scores) == 40
    assert compared.models == [TUNED, UNTUNED]
    assert compared.accuracy(UNTUNED)["over_queries"].tolist() == [-75.0] * len(SETTINGS)
    published = pd.DataFrame(columns=["setting", "metric", "value"])
    shown = page.values(compared, published)
    assert set(shown["setting"]) == set(SETTINGS)
    value = shown.set_index(["model", "setting", "metric"])["over_queries"]
    assert value[UNTUNED, "rag", "ast_accuracy"] == 25
    assert value[TUNED, "rag", "ast_accuracy"] == 100
    names = {TUNED: "small", UNTUNED: "large", LARGER: "large"}
    table = page.table_3(shown, compared, names)
    assert table.frame["model"].iloc[:2].tolist() == ["small, tuned", "large, untuned"]
    assert table.frame["AST accuracy"].iloc[0].startswith("100.0")
    assert table.caption.endswith("percent of 40 queries.")
    differences = page.tests_table(compared, names).frame
    assert list(differences) == ["setting", "large, untuned − small, tuned"]


def test_each_model_is_scored_on_needs_held_out(lesson, prompts):
    about = prompts["query"].map(lesson.material.gold.set_index("query")["need"])
    unseen = set(prompts.loc[about.isin(lesson.held_out), "query"])
    assert 0 < len(unseen) < prompts["query"].nunique()
    judged = {
        TUNED: plans_of(lesson, prompts, set(prompts["query"]) - unseen),
        UNTUNED: plans_of(lesson, prompts, unseen),
    }
    found = by_needs(judged, lesson)
    value = found.set_index(["model", "needs", "setting", "metric"])["value"]
    for setting in SETTINGS:
        assert (
            value[TUNED, "held out", setting, "ast_accuracy"] == value[UNTUNED, "learned", setting, "ast_accuracy"] == 0
        )
        assert value[TUNED, "learned", setting, "ast_accuracy"] == 100
    names = {TUNED: "small", UNTUNED: "large"}
    table = page.needs_table(found, names).frame
    assert table["needs"].tolist() == ["learned", "held out"] * 2
    assert table["n"].tolist()[1] == len(unseen)
    assert table.iloc[1]["RAG"].startswith("0.0 [0.0, ")
    alone = page.needs_table(found[found["needs"] == "learned"], names).frame
    assert alone.iloc[1][["n", "RAG"]].tolist() == [0, "–"]


def test_the_larger_model_tuned_stands_beside_both(lesson, prompts):
    queries = prompts["query"].unique().tolist()
    asked = prompts[prompts["query"].isin(queries[:40])]
    tuned = plans_of(lesson, prompts, queries[:4])
    untuned = plans_of(lesson, asked, queries[:10])
    larger = plans_of(lesson, asked[asked["query"].isin(queries[:30])], queries)
    compared = compare({TUNED: tuned, UNTUNED: untuned, LARGER: larger}, lesson.material, 100, 0)
    assert len(compared.scores) == 30
    assert compared.models == list(PREFIXES) == [TUNED, UNTUNED, LARGER]
    assert compared.pairs == [(UNTUNED, TUNED), (LARGER, TUNED), (LARGER, UNTUNED)]
    gains = compared.accuracy(LARGER)["over_queries"], compared.accuracy(LARGER, UNTUNED)["over_queries"]
    assert [gain.round(1).tolist() for gain in gains] == [[86.7] * 5, [66.7] * 5]
    assert len(compared.tests) == 3 * 2 * len(SETTINGS)
    shown = page.values(compared, pd.DataFrame(columns=["setting", "metric", "value"]))
    value = shown.set_index(["model", "setting", "metric"])["value"]
    assert value[LARGER, "rag", "ast_accuracy"] == 100
    names = {TUNED: "small", UNTUNED: "large", LARGER: "large"}
    assert "large, tuned − large, untuned" in page.tests_table(compared, names).frame


def test_each_world_whose_plans_are_there_is_compared(lesson, prompts, tmp_path):
    """Two worlds alike; of the second no plan is kept."""
    every = prompts["query"].nunique()
    materials = {"mixed": lesson.material, "hard": lesson.material}
    changed = prompts.assign(prompt="Hard. " + prompts["prompt"])
    asked = pd.concat([prompts.assign(world="mixed"), changed.assign(world="hard")], ignore_index=True)
    keep(tmp_path, lesson, prompts, "no_call()")
    others = asked.head(3).assign(setting="context_tuned_rag/lambdamart")
    untuned = planned_in_worlds(materials, pd.concat([asked, others]), asking(lesson, 2, tmp_path))
    assert list(untuned) == ["mixed"]
    assert untuned["mixed"].plans["query"].nunique() == every
    tuned = plans_of(lesson, asked.assign(answerable=100.0), prompts["query"].unique())
    found = compare_in_worlds(materials, tuned, {UNTUNED: untuned}, 100, 0)
    assert list(found) == ["mixed"]
    assert (found["mixed"].accuracy(UNTUNED)["difference"] < -90).all()
    names = {TUNED: "small", UNTUNED: "large"}
    shown = page.in_rows(found, pd.DataFrame(columns=["setting", "metric", "value"]))
    table = page.worlds_table(found, shown, names)
    assert table.frame["world"].tolist() == ["mixed"] * len(SETTINGS)
    assert "RAG, context by search" in table.frame["setting"].tolist(), "not the paper's context-tuned RAG"
    assert f"queries: mixed {every}." in table.caption
    assert table.frame["untuned − tuned"].str.endswith("]").all()
    assert compare_in_worlds(materials, tuned, {}, 100, 0) == {}
    both = {"mixed": untuned["mixed"], "hard": untuned["mixed"]}
    larger = {"mixed": untuned["mixed"]._replace(plans=untuned["mixed"].plans.assign(text="default()"))}
    found = compare_in_worlds(materials, tuned, {UNTUNED: both, LARGER: larger}, 100, 0)
    shown = page.in_rows(found, pd.DataFrame(columns=["setting", "metric", "value"]))
    table = page.worlds_table(found, shown, names | {LARGER: "large"})
    columns = table.frame.set_index("world")[["AST, larger tuned", "larger tuned − tuned"]]
    assert (columns.loc["hard"] == "–").all(axis=None)
    assert (columns.loc["mixed"] != "–").all(axis=None)
    assert columns["larger tuned − tuned"]["mixed"].str.endswith("]").all()
    larger_alone = {"mixed": (found["mixed"].scores_of(LARGER), found["mixed"].resampling)}
    up = steps(larger_alone, STEPS)
    assert list(zip(up["b"], up["a"], strict=True)) == list(pairwise(SETTINGS))
