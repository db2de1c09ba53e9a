"""A language model tried step by step: the same n for each, and right means right as the simulator has it."""

import json

import pytest

from lib.assistant.generators import kept_trials, outcomes, rehearse, trials
from lib.assistant.needs import parse_call
from lib.assistant.written_world import toolbox_questions
from lib.generation.remote import DryRun
from lib.generation.structured import ask
from lib.workbook.artifacts import ROOT
from lib.workbook.parameters import notebook_parameters
from tests.assistant.test_written_world import Scripted, right, step_of

STEPS = ["personas", "items", "queries", "tools", "plans", "thoughts"]


@pytest.fixture(scope="module")
def simulated(make_world):
    return make_world(seed=1, n_personas=6, n_training_queries=30, n_evaluation_queries=10)


@pytest.fixture(scope="module")
def asked(simulated):
    return trials(simulated, n_personas=2, n_items=2, n_queries=8, max_tokens=200, seed=3)


def test_the_same_number_of_questions_whatever_was_lost_before(asked):
    assert list(asked) == STEPS
    assert {step: len(trial.questions) for step, trial in asked.items() if step != "items"} == dict.fromkeys(
        [step for step in STEPS if step != "items"], 8
    )
    assert asked["items"].about["persona"].nunique() == 2
    assert asked["items"].about["n"].between(1, 2).all()
    assert all(len(trial.questions) == len(trial.about) for trial in asked.values())


def test_a_written_world_is_rehearsed_on_a_simulated_one(simulated):
    knobs = notebook_parameters(
        "01_data_gen", n_personas=6, n_training_queries=30, n_evaluation_queries=10, data_writer="remote:m"
    )
    model = DryRun("m", price_in=1.0, price_out=1.0)
    rehearse(model, simulated, knobs)
    assert model.counters.calls > 6 + 4 * 40, "a question a persona, four a query, and those for items"
    assert model.counters.tokens_in > 100 * model.counters.calls
    assert model.counters.cost > 0
    alone = model.counters.calls
    rehearse(model, simulated, type(knobs)(**vars(knobs) | {"written_toolbox": True}))
    assert model.counters.calls - alone == alone + len(toolbox_questions())


def test_a_smaller_trial_is_part_of_a_larger_one(simulated, asked):
    larger = trials(simulated, n_personas=3, n_items=2, n_queries=12, max_tokens=200, seed=3)
    for step in ("items", "queries", "plans"):
        assert [question.text for question in asked[step].questions] == [
            question.text for question in larger[step].questions[: len(asked[step].questions)]
        ]


def replied(model, asked, rounds=0):
    return {
        step: ask(model, trial.questions, max_new_tokens=trial.tokens, rounds=rounds) for step, trial in asked.items()
    }


def test_repaired_answers_are_not_usable_at_once(simulated, asked):
    bad = {"personas": "no", "items": '{"items": [{"ti', "queries": "{'a': 1}", "tools": '{"api": "x"}'}
    model = Scripted(lambda prompt, before: right(prompt) if before else bad.get(step_of(prompt), right(prompt)))
    table = outcomes(asked, replied(model, asked, rounds=1), simulated)
    shares = table.groupby("step", sort=False)[["at_once", "valid"]].mean()
    assert shares["valid"].tolist() == [1] * 6
    assert shares["at_once"].tolist() == [0, 0, 0, 0, 1, 1]


def test_the_simulators_own_labels_are_right_and_others_are_not(simulated, asked):
    gold = {entry.query: entry for entry in simulated.gold}
    truth = {}
    for step in ("tools", "plans"):
        for question, query in zip(asked[step].questions, asked[step].about["query"], strict=True):
            api, arguments = parse_call(gold[query].plan)
            truth[question.text] = json.dumps({"api": api} if step == "tools" else arguments)
    knowing = Scripted(lambda prompt, before: truth.get(prompt, right(prompt)))
    table = outcomes(asked, replied(knowing, asked), simulated)
    judged = table[table["step"].isin(["tools", "plans"])]
    assert judged["right"].tolist() == [1.0] * 16
    assert table.loc[~table["step"].isin(["tools", "plans"]), "right"].isna().all()
    guessing = outcomes(asked, replied(Scripted(), asked), simulated)
    assert guessing.loc[guessing["step"] == "plans", "right"].sum() == 0


def test_kept_answers_are_those_to_the_kept_questions():
    table = kept_trials(ROOT, 7)
    assert table.groupby(["way", "step"]).size().min() > 20
    assert table.groupby("step")["valid"].mean()["plans"] == 1
    assert kept_trials(ROOT, 8).empty
