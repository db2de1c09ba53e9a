"""A language model tried step by step: the same n for each, and right means right as the simulator has it."""

import json

import numpy as np
import pandas as pd
import pytest

from lib.assistant.generators import (
    FEW,
    FILE,
    MODEL,
    SMALL,
    answering,
    fault_of,
    items_diversity,
    outcomes,
    rank_in_persona,
    refused_thoughts,
    requests_beside_simulated,
    requests_in_numbers,
    right_counts,
    simulated_items,
    trials,
    try_out,
    usable_rates,
    written_items,
    written_queries,
)
from lib.assistant.needs import parse_call
from lib.generation.kept import KeptCalls
from lib.generation.local import Cost, Usage
from lib.generation.structured import AnswerError, Reply, json_in, read_answer
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


def test_a_smaller_trial_is_part_of_a_larger_one(simulated, asked):
    larger = trials(simulated, n_personas=3, n_items=2, n_queries=12, max_tokens=200, seed=3)
    for step in ("items", "queries", "plans"):
        assert [question.text for question in asked[step].questions] == [
            question.text for question in larger[step].questions[: len(asked[step].questions)]
        ]


def test_faults_are_counted_by_kind_and_repairs_apart(simulated, asked):
    bad = {"personas": "no", "items": '{"items": [{"ti', "queries": "{'a': 1}", "tools": '{"api": "x"}'}
    model = Scripted(lambda prompt, before: right(prompt) if before else bad.get(step_of(prompt), right(prompt)))
    table = outcomes(asked, try_out(model, asked, 1, constrained=False, rounds=1), simulated)
    shares = table.groupby("step", sort=False)[["at_once", "valid"]].mean()
    assert shares["valid"].tolist() == [1] * 6
    assert shares["at_once"].tolist() == [0, 0, 0, 0, 1, 1]
    faults = table.groupby("step", sort=False)["fault"].agg(set)
    assert faults.tolist() == [{"no JSON"}, {"cut off"}, {"broken JSON"}, {"schema"}, {""}, {""}]
    once = outcomes(asked, try_out(model, asked, 1, constrained=False, rounds=0), simulated)
    assert once["valid"].all()  # each was asked before


def test_no_repairs_where_none_are_wanted(asked):
    model = Scripted(lambda prompt, before: "no")
    replies = try_out(model, asked, 1, constrained=True, rounds=0)
    assert len(model.calls) == 6
    assert all(len(reply.answers) == 1 for step in STEPS for reply in replies[step])
    assert written_items(asked["items"], replies["items"]).empty
    assert written_queries(asked["queries"], replies["queries"]).empty


def test_the_simulators_own_labels_are_right_and_others_are_not(simulated, asked):
    gold = {entry.query: entry for entry in simulated.gold}
    truth = {}
    for step in ("tools", "plans"):
        for question, query in zip(asked[step].questions, asked[step].about["query"], strict=True):
            api, arguments = parse_call(gold[query].plan)
            truth[question.text] = json.dumps({"api": api} if step == "tools" else arguments)
    knowing = Scripted(lambda prompt, before: truth.get(prompt, right(prompt)))
    table = outcomes(asked, try_out(knowing, asked, 1, constrained=False, rounds=0), simulated)
    judged = table[table["step"].isin(["tools", "plans"])]
    assert judged["right"].tolist() == [1.0] * 16
    assert table.loc[~table["step"].isin(["tools", "plans"]), "right"].isna().all()
    guessing = outcomes(asked, try_out(Scripted(), asked, 1, constrained=False, rounds=0), simulated)
    assert guessing.loc[guessing["step"] == "plans", "right"].sum() == 0


def test_items_and_requests_stand_beside_the_simulators(simulated, asked):
    replies = try_out(Scripted(), asked, 1, constrained=False, rounds=0)
    items = written_items(asked["items"], replies["items"])
    assert items.groupby(["persona", "app"]).size().le(2).all()
    assert set(items["persona"]) <= set(simulated_items(simulated)["persona"])
    queries = written_queries(asked["queries"], replies["queries"])
    assert len(queries) == 8
    assert (queries["written"] != queries["text"]).all()


def test_an_item_is_ranked_among_its_own_personas():
    items = pd.DataFrame({"persona": ["a", "a", "b", "b"], "item": ["1", "2", "3", "4"]})
    queries = pd.DataFrame({"persona": ["a", "b"], "item": ["2", "3"]})
    vectors = np.eye(4)[:2] * 1.0
    item_vectors = np.array([[1, 0], [0, 1], [0, 0.5], [1, 1]]) @ np.eye(4)[:2]
    assert rank_in_persona(vectors, queries, item_vectors, items).tolist() == [2, 2]


def test_requests_in_numbers():
    items = pd.DataFrame({"persona": ["a"] * 4, "item": list("1234"), "text": ["Guitar lesson", "Rent", "Bus", "Tea"]})
    queries = pd.DataFrame({"persona": ["a", "a", "a"], "item": ["1", "1", "2"]})
    said = ["When is my guitar concert?", "The lesson", "?!"]
    numbers = requests_in_numbers(said, queries, items, np.array([1, 4, 3]))
    assert numbers == {"requests": 3, "words": 7 / 3, "shared": pytest.approx(75), "found": 2, "chance": 75.0}


def test_the_kinds_of_faults_are_those_of_the_messages(asked):
    question = asked["tools"].questions[0]
    for text, kind in (("hm", "no JSON"), ('{"api": "a', "cut off"), ("{a}", "broken JSON"), ('{"api": 1}', "schema")):
        with pytest.raises(AnswerError) as caught:
            read_answer(text, question)
        assert fault_of(str(caught.value)) == kind
    assert json_in("hm")[0] == []


def embed(texts):
    """Unit vectors that depend on nothing but the text."""
    vectors = np.stack([np.random.default_rng(len(text)).normal(size=8) for text in texts])
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.fixture(scope="module")
def both_ways(asked):
    """Right answers under the schema; freely, no items and no requests."""

    def little(prompt, before):
        return "no" if step_of(prompt) in ("items", "queries") else right(prompt)

    models = {"free": Scripted(little), "schema": Scripted()}
    return {way: try_out(model, asked, 1, constrained=False, rounds=0) for way, model in models.items()}


def test_rates_of_usable_and_counts_of_right_answers(simulated, asked, both_ways):
    parts = [outcomes(asked, replies, simulated).assign(way=way) for way, replies in both_ways.items()]
    table = pd.concat(parts, ignore_index=True)
    rates = usable_rates(table)
    assert rates["step"].tolist() == STEPS * 2
    free = rates[rates["way"] == "free"].set_index("step")
    assert free.loc["tools", ["n", "valid", "valid_rate"]].tolist() == [8, 8, 100]
    assert free.loc["queries", ["n", "valid", "valid_rate", "valid_low"]].tolist() == [8, 0, 0, 0]
    assert 30 < free.loc["queries", "valid_high"] <= 100, "eight answers cannot rule out a third"
    assert free.loc["personas", "personas"] == 8
    assert free.loc["queries", "personas"] == asked["queries"].about["persona"].nunique()
    judged = right_counts(table)
    assert judged["step"].tolist() == ["tools", "plans"] * 2
    assert judged["n"].tolist() == [8] * 4
    assert (
        judged["right"].tolist()
        == table.dropna(subset="right").groupby(["way", "step"], sort=False)["right"].sum().tolist()
    )


def test_intervals_are_over_personas_and_never_narrower_than_over_answers():
    """Two personas, one with all answers usable and one with none; then both with every second one."""
    rows = [("tools", "free", persona, int(persona == "a")) for persona in "ab" for _ in range(20)]
    apart = pd.DataFrame(rows, columns=["step", "way", "persona", "valid"]).assign(at_once=0)
    (row,) = usable_rates(apart).to_dict("records")
    assert [row[f"valid_{end}"] for end in ("rate", "low", "high")] == [50, 0, 100]
    alike = apart.assign(valid=[number % 2 for number in range(40)])
    (row,) = usable_rates(alike).to_dict("records")
    assert [row[f"valid_{end}"] for end in ("low", "high")] == pytest.approx([35.2, 64.8], abs=0.1)
    assert (row["n"], row["valid"], row["personas"]) == (40, 20, 2)


def test_refused_chains_of_thought_are_counted_by_their_first_answers():
    def refused(answer, error):
        return Reply(None, [answer, "again"], [error, error])

    schema = "thought: must name one or more"
    free = [refused("Check the calendar.", "there is no JSON object in the answer"), Reply("fine", ["{}"], [])]
    under = [
        refused('{"thought": "Check the calendar, or Mail."}', schema),
        refused('{"thought": "Check Mail and my e-mails."}', schema),
    ]
    assert refused_thoughts({"free": {"thoughts": free}, "schema": {"thoughts": under}}) == (3, 1, 1)


def test_items_are_compared_where_some_were_written(simulated, asked, both_ways):
    varied = items_diversity(asked["items"], both_ways, simulated_items(simulated), seed=1)
    assert set(varied["way"]) == {"schema"}
    assert set(varied["side"]) == {"ours", "theirs"}
    assert set(varied["answers"]) == {len(asked["items"].questions)}
    assert set(varied["personas"]) == {2}


def test_requests_are_compared_where_some_are_usable(simulated, asked, both_ways):
    found = requests_beside_simulated(asked["queries"], both_ways, simulated_items(simulated), embed)
    assert found[["way", "side"]].to_numpy().tolist() == [["schema", "ours"], ["schema", "theirs"]]
    assert found["requests"].tolist() == [8, 8]
    nothing = requests_beside_simulated(
        asked["queries"], {"free": both_ways["free"]}, simulated_items(simulated), embed
    )
    assert len(nothing) == 0
    assert "chance" in nothing


class Counting:
    """Answers alike, and counts what it is asked."""

    dtype = "float32"

    def __init__(self, name):
        self.name, self.asked, self.finished = name, 0, []

    def generate(self, prompts, **settings):
        self.asked += len(prompts)
        self.finished, self.costs = [True] * len(prompts), [Cost(1, 1, 1.0)] * len(prompts)
        self.usage = Usage(len(prompts))
        return ["{}"] * len(prompts)


def test_a_model_that_is_named_answers_all(asked, tmp_path):
    found = answering("remote:m", asked, 3, tmp_path, tmp_path, Counting)
    assert (found.model.name, found.name, found.asked) == ("remote:m", "remote:m", asked)


def test_without_kept_answers_a_small_model_is_asked_a_little(asked, tmp_path):
    found = answering("", asked, 3, tmp_path, tmp_path, Counting)
    assert (found.model.name, found.name) == (SMALL, SMALL)
    assert {len(trial.questions) for trial in found.asked.values()} == {FEW}
    assert {len(trial.about) for trial in found.asked.values()} == {FEW}


@pytest.mark.parametrize("constrained", [False, True])
def test_what_the_kept_model_was_asked_is_not_asked_again(asked, tmp_path, constrained):
    loaded = []
    first = answering(MODEL, asked, 3, tmp_path, tmp_path, lambda name: loaded.append(Counting(name)) or loaded[-1])
    assert isinstance(first.model, KeptCalls)
    replies = try_out(first.model, first.asked, 3, constrained, 1)
    assert [(model.name, model.asked > 0) for model in loaded] == [(MODEL, True)]
    (tmp_path / FILE).parent.mkdir(parents=True)
    (tmp_path / FILE.name).rename(tmp_path / FILE)
    again = answering("", asked, 3, tmp_path, tmp_path, Counting)
    if constrained:  # a file that lacks the free answers is of no use
        assert again.name == SMALL
        return
    assert (again.name, again.asked) == (MODEL, asked)
    assert try_out(again.model, again.asked, 3, constrained, 1) == replies
    assert answering("", asked, 4, tmp_path, tmp_path, Counting).name == SMALL
