"""A world that a language model writes: whatever it answers, what is written is a valid world or one clear error."""

import hashlib
import json
import os
import subprocess
import sys
import time
from collections import Counter
from datetime import datetime

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lib.assistant import data_writer
from lib.assistant.data_writer import (
    arguments_form,
    arguments_of,
    items_question,
    kept_trials,
    query_question,
    rehearse,
    thought_question,
    toolbox_question,
    trial_outcomes,
    trials,
    voicing,
    write_world,
)
from lib.assistant.needs import parse_call
from lib.assistant.schemas import APPS, ITEM_TYPES, Apps, Persona
from lib.assistant.toolbox import Toolbox
from lib.assistant.world import FILES, frames, read_world
from lib.generation import remote
from lib.generation.constrained import Grammar, vocabulary
from lib.generation.local import load_tokenizer
from lib.generation.remote import DryRun, RemoteModel
from lib.generation.structured import AnswerError, ask, grammar_of, read_answer, schema_of
from lib.workbook.inputs import InputError
from lib.workbook.parameters import notebook_parameters
from tests.assistant.conftest import ROOT
from tests.generation.conftest import build_model
from tests.generation.endpoint import Endpoint

TOOLBOX = Toolbox.from_yaml(ROOT / "data" / "toolbox.yaml")
TODAY = datetime(2023, 12, 7, 6)
CUE = "The schema of your answer:\n"
HOSTILE = [
    "", "no", "{}", "[]", "null", "<script>alert(1)</script>", "{" * 500, '{"items": ' * 500, "x" * 50_000, "\x00",
    '{"items": []}', '{"items": [{}]}', '{"text": "\\ud83d"}', '{"api": "no_such_tool"}', '{"thought": "Photos"}',
]  # fmt: skip


STEPS = ["personas", "items", "queries", "tools", "plans", "thoughts"]


def digest(*parts):
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:6], "big")


def instance(schema, salt, defs):
    """Something that the schema allows, whole and different for each salt."""
    if "$ref" in schema:
        schema = defs[schema["$ref"].rpartition("/")[2]]
    if "enum" in schema:
        return schema["enum"][digest(salt) % len(schema["enum"])]
    if "const" in schema:
        return schema["const"]
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


def right(prompt, schema=None):
    """A right answer to any prompt of the steps, the same for the same prompt."""
    schema = schema or shown_schema(prompt)
    return json.dumps(instance(schema, prompt.split("\n\nYou answered")[0], schema.get("$defs", {})))


class Scripted:
    """A model that answers with `answer(prompt, number of times it was asked this question before)`."""

    def __init__(self, answer=lambda prompt, before: right(prompt)):
        self.answer, self.asked, self.calls = answer, Counter(), []

    def generate(self, prompts, **settings):
        self.calls.append((list(prompts), settings))
        answers = []
        for prompt in prompts:
            question = prompt.split("\n\nYou answered")[0]
            answers.append(self.answer(prompt, self.asked[question]))
            self.asked[question] += 1
        return answers


def step_of(prompt):
    """Which step a prompt belongs to."""
    keys = shown_schema(prompt)["properties"]
    one = {"name": "personas", "items": "items", "apis": "toolbox", "text": "queries", "api": "tools"}
    return next((step for key, step in one.items() if key in keys and "description" not in keys[key]), None) or (
        "thoughts" if set(keys) == {"thought"} else "plans"
    )


def failing(step, how="no", every=2, rounds=9):
    """Right answers, but every so many questions of a step get `how` for their first rounds."""

    def answer(prompt, before):
        question = prompt.split("\n\nYou answered")[0]
        bad = step_of(prompt) == step and digest(question) % every == 0 and before < rounds
        return how if bad else right(prompt)

    return answer


def write(folder, model=None, toolbox=TOOLBOX, n=6, training=12, evaluation=6, seed=3, **more):
    return write_world(model or Scripted(), folder, toolbox, n, training, evaluation, seed, **more).set_index("step")


def content(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.fixture(scope="module")
def simulated(make_world):
    return make_world(seed=1, n_personas=4, n_training_queries=6, n_evaluation_queries=4)


@pytest.fixture(scope="module")
def tiny_tokens(tmp_path_factory):
    tokenizer, _ = load_tokenizer(str(build_model(tmp_path_factory.mktemp("tiny"))))
    return vocabulary(tokenizer, len(tokenizer), [tokenizer.eos_token_id])


# ---------------------------------------------------------------- what is written


def test_the_world_is_whole_and_read_as_one_of_your_own(tmp_path):
    model = Scripted()
    counts = write(tmp_path / "world", model)
    world = read_world(tmp_path / "world")
    assert sorted(content(tmp_path / "world")) == sorted(FILES)
    assert (len(world.personas), len(world.queries)) == (6, 18)
    assert Counter(world.sides.values()) == {"training": 12, "evaluation": 6}
    assert counts.index.tolist() == STEPS
    assert (counts["at_once"] == counts["asked"]).all()
    assert counts.loc[["personas", "queries"], "kept"].tolist() == [6, 18]
    by_side = {side: {q.persona for q in world.queries if world.sides[q.id] == side} for side in world.sides.values()}
    assert not by_side["training"] & by_side["evaluation"]
    assert all(gold.cot and gold.need for gold in world.gold)
    assert len(frames(world)["items"]) == counts.loc["items", "kept"]
    assert [{step_of(prompt) for prompt in prompts} for prompts, _ in model.calls] == [{step} for step in STEPS]
    drawn = [settings["temperature"] > 0 for _, settings in model.calls]
    assert drawn == [True, True, True, False, False, False]


def test_a_toolbox_of_its_own(tmp_path):
    model = Scripted()
    counts = write(tmp_path / "world", model, toolbox=None)
    toolbox = Toolbox.from_yaml(tmp_path / "world" / "toolbox.yaml")
    assert {api.app for api in toolbox} == set(APPS)
    assert counts.loc["toolbox", ["asked", "kept"]].tolist() == [7, len(toolbox)]
    read_world(tmp_path / "world")


def test_same_answers_same_bytes(tmp_path):
    for name, model in (("a", Scripted()), ("b", Scripted()), ("c", Scripted(failing("items", rounds=1)))):
        write(tmp_path / name, model)
    assert content(tmp_path / "a") == content(tmp_path / "b") == content(tmp_path / "c")
    write(tmp_path / "d", seed=4)
    assert content(tmp_path / "a") != content(tmp_path / "d")


def test_an_earlier_world_is_replaced_and_anything_else_is_left_alone(tmp_path):
    write(tmp_path / "world")
    before = content(tmp_path / "world")
    write(tmp_path / "world", seed=4)
    assert content(tmp_path / "world") != before
    (tmp_path / "world" / "mine.txt").write_text("mine")
    model = Scripted()
    with pytest.raises(InputError, match=r"mine\.txt"):
        write(tmp_path / "world", model)
    assert not model.calls


# ---------------------------------------------------------------- wrong answers


@pytest.mark.parametrize("step", STEPS)
def test_a_fault_is_repaired_or_left_out_and_counted(tmp_path, step):
    write(tmp_path / "a")
    counts = write(tmp_path / "b", Scripted(failing(step, every=1, rounds=1)))
    assert content(tmp_path / "a") == content(tmp_path / "b"), "all put right"
    assert counts.loc[step, ["at_once", "valid"]].tolist() == [0, counts.loc[step, "asked"]]
    counts = write(tmp_path / "c", Scripted(failing(step, how='{"a": 1}', every=3)), n=9, training=30, evaluation=12)
    world = read_world(tmp_path / "c")
    assert counts.loc[step, "valid"] < counts.loc[step, "asked"]
    if step == "thoughts":
        assert sum(not gold.cot for gold in world.gold) == counts.loc[step, "asked"] - counts.loc[step, "valid"] > 0
    elif step == "personas":
        assert len(world.personas) < 9
    elif step != "items":
        assert len(world.queries) < 42


def test_nothing_stands_twice_and_a_persona_that_lost_most_apps_is_dropped(tmp_path):
    def answer(prompt, before):
        made = json.loads(right(prompt))
        if step_of(prompt) == "items":
            made["items"][1:2] = [dict(made["items"][0], opens=[])]
            kept = any(f"{app} app" in prompt for app in ("Mail", "Notes", "Music"))
            if not kept and digest(prompt.split(";")[0].split("person: ")[1]) % 2:
                return "no"
        if step_of(prompt) == "queries":
            made["text"] = made["text"] if digest(prompt) % 2 else "Play my USUAL!"
        return json.dumps(made)

    counts = write(tmp_path / "world", Scripted(answer), n=12, training=24, evaluation=12)
    world = read_world(tmp_path / "world")
    assert 2 <= len(world.personas) < 12 == counts.loc["personas", "kept"]
    assert sum(query.text == "Play my USUAL!" for query in world.queries) == 1
    assert max(len(persona.apps.mail) for persona in world.personas) == 1
    assert counts.loc["queries", "kept"] == len(world.queries) < counts.loc["queries", "valid"] == 36


@pytest.mark.parametrize("step", ["personas", "items", "queries", "tools", "plans", "toolbox"])
def test_nothing_left_is_one_error_and_no_file(tmp_path, step):
    model = Scripted(failing(step, every=1))
    with pytest.raises(InputError, match=rf"{step}: 0 of|no usable API") as caught:
        write(tmp_path / "world", model, toolbox=None if step == "toolbox" else TOOLBOX)
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())


def damaged(made, path, value):
    """A copy of an answer with something else at a place in it."""
    copy = json.loads(json.dumps(made))
    *way, last = path
    place = copy
    for key in way:
        place = place[key]
    place[last] = value
    return json.dumps(copy)


CALENDAR = {"title": "Lesson", "start": "2023-12-09T10:00:00", "end": "2023-12-09T11:00:00", "opens": []}


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("opens",), [{"time": "2023-12-07T06:01:00", "place": "home"}], "not after 2023-12-07T06:00:00"),
        (("opens",), [{"time": "2020-12-01T06:00:00", "place": "home"}], "at most a year before"),
        (("opens",), [{"time": "2023-12-01T06:00:00", "place": "moon"}], "place"),
        (("opens",), [{"time": "2023-12-01T06:00:00", "place": "home"}] * 5, "at most 4"),
        (("start",), "2023-12-09T10:00:00+01:00", "timezone"),
        (("start",), "9999-12-09T10:00:00", "not after"),
        (("start",), "soon", "start"),
        (("title",), "", "title"),
        (("title",), 3, "title"),
        (("title",), "a" * 500, "characters"),
        (("id",), "mail-1", "Extra inputs"),
        (("attendees",), ["a"] * 9, "at most 8"),
    ],
)
def test_items_that_are_not_as_asked_for(path, value, said):
    persona = Persona(id="p", name="A B", age=30, profession="x", today=TODAY, apps=Apps())
    question = items_question(persona, "calendar", 2)
    read_answer(json.dumps({"items": [CALENDAR]}), question)
    with pytest.raises(AnswerError, match=said):
        read_answer(damaged({"items": [CALENDAR]}, ("items", 0, *path), value), question)
    with pytest.raises(AnswerError, match="at most 2"):
        read_answer(json.dumps({"items": [CALENDAR] * 3}), question)


@given(st.data())
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_the_model_answers_the_world_is_valid_or_there_is_one_error(tmp_path_factory, data):
    seed = data.draw(st.integers(0, 2**16))
    rng = np.random.default_rng(seed)
    wrong = data.draw(st.sampled_from([0.0, 0.1, 0.5, 0.9]))

    def answer(prompt, before):
        good = right(prompt)
        if rng.random() >= wrong:
            return [good, f"```json\n{good}\n```", f"Here: {good} OK?"][rng.integers(3)]
        made = json.loads(good)
        key = list(made)[rng.integers(len(made))] if made else "x"
        values = [None, "", [], {}, 7, -1.5, "\u2028", "a" * 300, [[]], "2023-12-01T10:00:00", "<b>", [made]]
        damage = json.dumps(made | {key: values[rng.integers(len(values))]})
        return [damage, good[: len(good) // 2], HOSTILE[rng.integers(len(HOSTILE))]][rng.integers(3)]

    folder = tmp_path_factory.mktemp("any") / "world"
    try:
        counts = write(folder, Scripted(answer), n=4, training=6, evaluation=3)
    except InputError as error:
        message = str(error)
    else:
        message = ""
        world = read_world(folder)
        frames(world)
        assert counts.loc["queries", "kept"] >= len(world.queries)
    assert ("is left of what the model wrote" in message) == bool(message)
    assert [path.name for path in folder.parent.iterdir()] == ([] if message else ["world"])


# ---------------------------------------------------------------- parts


def test_numbers_that_make_no_sense(tmp_path):
    for more in ({"n": 1}, {"training": 0}, {"evaluation": 0}):
        with pytest.raises(ValueError, match="two personas or more"):
            write(tmp_path / "world", **more)


@pytest.mark.parametrize("kind", ["meaning", "habit", "either"])
def test_requests_are_voiced_in_the_week_after_and_habits_at_their_hour(kind):
    opens = [{"time": "2023-11-13T17:20:00", "place": "gym"}, {"time": "2023-12-07T06:00:00", "place": "gym"}]
    item = ITEM_TYPES["notes"](id="n", title="Plan", modified="2023-11-01T10:00:00", opens=opens)
    at_the_hour = []
    for seed in range(200):
        moment, place = voicing(item, kind, TODAY, np.random.default_rng(seed))
        assert TODAY <= moment <= datetime(2023, 12, 15)
        near = [
            abs(moment.hour + moment.minute / 60 - hour)
            for day, hour in ((0, 17.33), (3, 6))
            if moment.weekday() == day
        ]
        at_the_hour.append(place == "gym" and bool(near) and min(near) < 3)
    share = np.mean(at_the_hour)
    assert share < 0.2 if kind == "meaning" else 0.7 < share < 0.95  # as often as the simulator keeps to a habit
    moments = {voicing(item, "habit", TODAY, np.random.default_rng(seed))[0].minute for seed in range(50)}
    assert len(moments) > 20  # never just the minute of an open


def test_a_request_names_entries_of_the_persona_only(simulated):
    persona = simulated.personas[0]
    ids = list(data_writer.items_of(persona))
    question = query_question(persona, ids[0], "meaning", TODAY, "home")
    answer = {"text": "What about it?", "also": ["e2"], "apps": ["mail"], "topic": "it"}
    assert read_answer(json.dumps(answer), question).also == ["e2"]
    assert data_writer.entry_labels(persona)["e2"] == ids[1]
    copied = data_writer.items_of(persona)[ids[0]][0].headline.upper()
    for change, said in (
        ({"also": [f"e{len(ids) + 1}"]}, "also"),
        ({"also": ["e1"]}, "also"),
        ({"also": ["e2", "e3", "e4", "e5", "e6"]}, "at most 4"),
        ({"apps": ["photos"]}, "apps"),
        ({"apps": []}, "apps"),
        ({"text": "?!"}, "must have words"),
        ({"topic": " . "}, "must have words"),
        ({"text": copied}, "not a copy"),
        ({"text": "word " * 45}, "text"),
    ):
        with pytest.raises(AnswerError, match=said):
            read_answer(json.dumps(answer | change), question)


def test_arguments_are_those_of_the_tool_and_of_its_types():
    api = TOOLBOX["play_song"]
    form = arguments_form(api)
    assert arguments_of(form.model_validate({"song": "One"})) == {"song": "One"}
    assert arguments_of(form.model_validate({"song": "One", "artist": "U"})) == {"song": "One", "artist": "U"}
    for wrong in ({}, {"song": ""}, {"song": 3}, {"song": "One", "year": 1}, {"song": "One", "artist": None}):
        with pytest.raises(ValueError, match="validation error"):
            form.model_validate(wrong)


@pytest.mark.parametrize("thought", ["Look around.", "Check 'Photos' for it.", "Check 'Mail' and 'Spotify'."])
def test_a_thought_names_apps_and_nothing_else(thought, simulated):
    question = thought_question(simulated.queries[0])
    read_answer('{"thought": "Check \'Mail\' for a ticket."}', question)
    with pytest.raises(AnswerError, match="must name one or more of Mail"):
        read_answer(json.dumps({"thought": thought}), question)


def test_tools_have_names_that_a_plan_can_call():
    question = toolbox_question("mail")
    tool = {"api": "send", "description": "Send.", "arguments": [{"name": "to", "description": "who"}]}
    read_answer(json.dumps({"apis": [tool]}), question)
    for change, said in (
        ({"api": "default"}, "reserved"),
        ({"api": "import"}, "reserved"),
        ({"api": "Send mail"}, "pattern"),
        ({"arguments": [{"name": "from", "description": "who"}]}, "reserved"),
        ({"arguments": tool["arguments"] * 2}, "two arguments"),
    ):
        with pytest.raises(AnswerError, match=said):
            read_answer(json.dumps({"apis": [tool | change]}), question)


def test_every_form_is_a_grammar_that_takes_right_answers(simulated, tiny_tokens):
    persona, query = simulated.personas[0], simulated.queries[0]
    ids = list(data_writer.items_of(persona))
    questions = [
        data_writer.persona_question(30, "trade", "A. B."),
        *(items_question(persona, app, 3) for app in APPS),
        query_question(persona, ids[0], "habit", TODAY, "home"),
        data_writer.tool_question(query, persona, ids[:2], TOOLBOX),
        *(data_writer.plan_question(query, persona, ids[:2], api) for api in TOOLBOX),
        thought_question(query),
        *(toolbox_question(app) for app in APPS),
    ]
    for question in questions:
        grammar = Grammar(grammar_of(question.form), tiny_tokens)
        answer = right(question.text, schema_of(question.form))
        assert grammar.accepts(answer), answer
        read_answer(answer, question)
        assert not grammar.accepts('{"x": 1}')
        assert not grammar.accepts(f"{answer}.")


# ---------------------------------------------------------------- behind an endpoint


@pytest.fixture
def endpoint(monkeypatch):
    for name in list(os.environ):
        if name.startswith("OPENAI_") or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setattr(remote, "FIRST_BACKOFF", 0.001)
    seen = Counter()

    def answer(prompt):  # the first answer to every third question is wrong
        question = prompt.split("\n\nYou answered")[0]
        seen[question] += prompt == question
        return "no" if prompt == question and digest(prompt) % 3 == 0 else right(prompt)

    with Endpoint(answer) as running:
        monkeypatch.setenv("OPENAI_BASE_URL", running.url)
        yield running


def lines(folder):
    return sum(path.read_bytes().count(b"\n") for path in folder.glob("*.jsonl"))


KILLED = """
import sys
from pathlib import Path
from lib.generation.remote import RemoteModel
from tests.assistant.test_data_writer import write
folder = Path(sys.argv[1])
model = RemoteModel("tiny", cache=folder / "answers", timeout=20, concurrency=4)
write(folder / "world", model, n=2, training=3, evaluation=2)
"""


def test_killed_in_the_middle_it_goes_on_without_paying_twice(endpoint, tmp_path):
    def model():
        return RemoteModel("tiny", cache=tmp_path / "answers", timeout=20, concurrency=4)

    endpoint.held = 20
    with subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)], cwd=ROOT) as child:
        deadline = time.monotonic() + 120
        while lines(tmp_path / "answers") < 20 or len(endpoint.requests) <= 20:
            assert time.monotonic() < deadline
            assert child.poll() is None
            time.sleep(0.005)
        child.kill()
    assert not (tmp_path / "world").exists()
    endpoint.held = None
    last = model()
    counts = write(tmp_path / "world", last, n=2, training=3, evaluation=2)
    assert set(endpoint.paid.values()) == {1}
    assert last.counters.calls == len(endpoint.paid) - 20
    assert (counts["at_once"] < counts["valid"]).any()
    assert (counts["valid"] == counts["asked"]).all()
    before = content(tmp_path / "world")
    again = model()
    write(tmp_path / "world", again, n=2, training=3, evaluation=2)
    assert again.counters.calls == 0
    assert content(tmp_path / "world") == before


# ---------------------------------------------------------------- step by step, about a simulated world


@pytest.fixture(scope="module")
def asked(simulated):
    return trials(simulated, n_personas=2, n_items=2, n_queries=5, seed=3)


def replied(model, asked, rounds=0):
    return {step: ask(model, trial.questions, max_new_tokens=9, rounds=rounds) for step, trial in asked.items()}


def test_a_smaller_trial_is_part_of_a_larger_one(simulated, asked):
    assert list(asked) == STEPS
    larger = trials(simulated, n_personas=3, n_items=2, n_queries=7, seed=3)
    for step in ("items", "queries", "plans"):
        texts = [question.text for question in asked[step].questions]
        assert texts == [question.text for question in larger[step].questions[: len(texts)]]


def test_the_simulators_own_labels_are_right_and_others_are_not(simulated, asked):
    gold = {entry.query: entry for entry in simulated.gold}
    truth = {}
    for step in ("tools", "plans"):
        for question, query in zip(asked[step].questions, asked[step].queries, strict=True):
            api, arguments = parse_call(gold[query].plan)
            truth[question.text] = json.dumps({"api": api} if step == "tools" else arguments)
    knowing = Scripted(lambda prompt, before: truth.get(prompt, right(prompt)))
    table = trial_outcomes(asked, replied(knowing, asked), simulated)
    judged = table["step"].isin(["tools", "plans"])
    assert table.loc[judged, "right"].tolist() == [1.0] * judged.sum()
    assert table.loc[~judged, "right"].isna().all()
    guessing = trial_outcomes(asked, replied(Scripted(), asked), simulated)
    assert guessing.loc[guessing["step"] == "plans", "right"].sum() == 0


def test_repaired_answers_are_not_usable_at_once(simulated, asked):
    bad = {"personas": "no", "items": '{"items": [{"ti', "queries": "{'a': 1}", "tools": '{"api": "x"}'}
    model = Scripted(lambda prompt, before: right(prompt) if before else bad.get(step_of(prompt), right(prompt)))
    table = trial_outcomes(asked, replied(model, asked, rounds=1), simulated)
    shares = table.groupby("step", sort=False)[["at_once", "valid"]].mean()
    assert shares["valid"].tolist() == [1] * 6
    assert shares["at_once"].tolist() == [0, 0, 0, 0, 1, 1]


def test_kept_answers_are_those_to_the_kept_questions():
    table = kept_trials(ROOT, 7)
    assert table.groupby(["way", "step"]).size().min() > 20
    assert table.groupby("step")["valid"].mean()["plans"] == 1
    assert kept_trials(ROOT, 8).empty


def test_a_written_world_is_rehearsed_on_a_simulated_one(simulated):
    parameters = notebook_parameters("01_data_gen", data_writer="remote:m")
    model = DryRun("m", price_in=1.0, price_out=1.0)
    rehearse(model, simulated, parameters)
    assert model.counters.calls > 4 + 4 * 10, "a question a persona, four a query, and those for items"
    assert model.counters.cost > 0
    alone = model.counters.calls
    rehearse(model, simulated, notebook_parameters("01_data_gen", data_writer="remote:m", written_toolbox=True))
    assert model.counters.calls - alone == alone + len(APPS)
