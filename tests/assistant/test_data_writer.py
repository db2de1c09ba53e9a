"""A world that a language model writes: whatever it answers, what is written is a valid world or one clear error."""

import hashlib
import json
from collections import Counter
from datetime import datetime

import pytest

from lib.assistant import data_writer as module
from lib.assistant.needs import parse_call
from lib.assistant.schemas import WorldKnobs
from lib.assistant.toolbox import Toolbox
from lib.assistant.world import read_world
from lib.generation.structured import AnswerError, ask, read_answer
from lib.workbook.inputs import InputError
from tests.assistant.conftest import ROOT

FILE = ROOT / "data" / "toolbox.yaml"
TOOLBOX = Toolbox.from_yaml(FILE)
TODAY = datetime(2023, 12, 7, 6)
CUE = "The schema of your answer:\n"
STEPS = ["personas", "items", "queries", "tools", "plans", "thoughts"]


def digest(*parts):
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:6], "big")


def instance(schema, salt, defs):
    """Something that the schema allows, whole and different for each salt."""
    if "$ref" in schema:
        schema = defs[schema["$ref"].rpartition("/")[2]]
    if "enum" in schema:
        return schema["enum"][digest(salt) % len(schema["enum"])]
    kind = schema["type"]
    if kind == "object":
        return {name: instance(part, f"{salt}.{name}", defs) for name, part in schema["properties"].items()}
    if kind == "array":
        n = min(schema.get("maxItems", 2), max(schema.get("minItems", 0), 2))
        return [instance(schema["items"], f"{salt}.{i}", defs) for i in range(n)]
    if schema.get("format") == "date-time":
        return f"{schema.get('pattern', '^(2023-12-06')[2:12]}T10:00:00"
    word = f"z{digest(salt):x}"
    if salt.endswith(".thought"):
        return f"Check 'Calendar' for <b>{word}</b>."
    return {"string": word, "integer": digest(salt) % 9, "number": 0.5, "boolean": True}[kind]


def shown_schema(prompt):
    return json.loads(prompt.split(CUE)[1].split("\n")[0])


def right(prompt):
    """A right answer to any prompt of the steps, the same for the same prompt."""
    schema = shown_schema(prompt)
    return json.dumps(instance(schema, prompt.split("\n\nYou answered")[0], schema.get("$defs", {})))


class Scripted:
    """A model that answers with `answer(prompt)`."""

    def __init__(self, answer=right):
        self.answer, self.calls = answer, []

    def generate(self, prompts, **settings):
        self.calls.append((list(prompts), settings))
        return [self.answer(prompt) for prompt in prompts]


def step_of(prompt):
    """Which step a prompt belongs to."""
    keys = shown_schema(prompt)["properties"]
    one = {"name": "personas", "items": "items", "apis": "toolbox", "text": "queries", "api": "tools"}
    return next((step for key, step in one.items() if key in keys and "description" not in keys[key]), None) or (
        "thoughts" if set(keys) == {"thought"} else "plans"
    )


def failing(step, how="no", every=1):
    """Right answers, but every so many questions of a step get `how`."""

    def answer(prompt):
        bad = step_of(prompt) == step and digest(prompt.split("\n\nYou answered")[0]) % every == 0
        return how if bad else right(prompt)

    return answer


def write(folder, model=None, n=6, training=12, evaluation=6):
    knobs = WorldKnobs(seed=3, n_personas=n, n_training_queries=training, n_evaluation_queries=evaluation)
    return module.write_world(model or Scripted(), folder, FILE, knobs).set_index("step")


@pytest.fixture(scope="module")
def simulated(make_world):
    return make_world(seed=1, n_personas=4, n_training_queries=6, n_evaluation_queries=4)


def test_the_world_is_whole_and_read_as_one_of_your_own(tmp_path):
    model = Scripted()
    counts = write(tmp_path / "world", model)
    world = read_world(tmp_path / "world")
    assert (len(world.personas), len(world.queries)) == (6, 18)
    assert Counter(world.sides.values()) == {"training": 12, "evaluation": 6}
    assert counts.index.tolist() == STEPS
    assert (counts["valid"] == counts["asked"]).all()
    assert all(gold.cot and gold.need for gold in world.gold)
    drawn = [settings["temperature"] > 0 for _, settings in model.calls]
    assert drawn == [True, True, True, False, False, False]


@pytest.mark.parametrize("step", ["plans", "thoughts"])
def test_a_fault_is_left_out_and_counted(tmp_path, step):
    model = Scripted(failing(step, how='{"a": 1}', every=3))
    counts = write(tmp_path / "world", model, n=9, training=30, evaluation=12)
    world, lost = read_world(tmp_path / "world"), counts.loc[step, "asked"] - counts.loc[step, "valid"]
    assert lost > 0
    assert lost == (42 - len(world.queries) if step == "plans" else sum(not gold.cot for gold in world.gold))


def test_nothing_left_is_one_error_and_no_file(tmp_path):
    with pytest.raises(InputError, match=r"tools: 0 of") as caught:
        write(tmp_path / "world", Scripted(failing("tools")))
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_a_request_names_entries_of_the_persona_only(simulated):
    persona = simulated.personas[0]
    item = persona.items[0][1]
    question = module.query_question(persona, item.id, "meaning", TODAY, "home")
    answer = {"text": "What about it?", "also": ["e2"], "apps": ["mail"], "topic": "it"}
    assert read_answer(json.dumps(answer), question).also == ["e2"]
    for change, said in (
        ({"also": ["e1"]}, "also"),
        ({"topic": " . "}, "must have words"),
        ({"text": item.headline.upper()}, "not a copy"),
    ):
        with pytest.raises(AnswerError, match=said):
            read_answer(json.dumps(answer | change), question)


def test_arguments_are_those_of_the_tool_and_a_thought_names_apps_alone(simulated):
    query, persona = simulated.queries[0], simulated.personas[0]
    form = module.call_question(query, persona, [], TOOLBOX, "play_song").form
    given = {"song": "One", "artist": "U"}
    assert form.model_validate(given).model_dump(by_alias=True, exclude_unset=True) == given
    for wrong in ({}, {"song": 3}, {"song": "One", "year": 1}):
        with pytest.raises(ValueError, match="validation error"):
            form.model_validate(wrong)
    question = module.thought_question(query)
    read_answer('{"thought": "Check \'Mail\' or the Phone Call for a ticket."}', question)
    for thought in ("Look around.", "Check 'Notes' and Google Maps."):
        with pytest.raises(AnswerError, match="must name one or more of Mail"):
            read_answer(json.dumps({"thought": thought}), question)


def test_the_simulators_own_labels_are_right_and_others_are_not(simulated):
    questions, labels = module.trials(simulated, n_personas=2, n_items=2, n_queries=5, seed=3)
    for step in ("tools", "plans"):
        truth = {}
        for question, gold in zip(questions[step], labels, strict=True):
            api, arguments = parse_call(gold.plan)
            truth[question.text] = json.dumps({"api": api} if step == "tools" else arguments)
        for answer, expected in ((truth.get, True), (lambda prompt: "no", False)):
            answers = ask(Scripted(answer), questions[step], max_new_tokens=9, rounds=0)
            assert {module.is_right(step, *pair, TOOLBOX) for pair in zip(answers, labels, strict=True)} == {expected}
    guessed = ask(Scripted(), questions["plans"], max_new_tokens=9)
    assert not any(module.is_right("plans", *pair, TOOLBOX) for pair in zip(guessed, labels, strict=True))


@pytest.mark.slow
def test_kept_answers_are_those_to_the_kept_questions():
    table = module.kept_trials(ROOT, 7)
    assert table.groupby(["way", "step"]).size().min() > 20
    assert table.groupby("step")["valid"].mean()["plans"] == 1
    assert table.groupby("step")["right"].mean()[["tools", "plans"]].between(0.1, 0.9).all()
    assert module.kept_trials(ROOT, 8).empty
