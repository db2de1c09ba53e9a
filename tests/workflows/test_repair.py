import itertools
from dataclasses import dataclass, field
from types import SimpleNamespace

import pandas as pd
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from lib.generation.local import Cost
from lib.workflows.apis import API, Field
from lib.workflows.catalogue import Catalogue
from lib.workflows.language import Branch, Call, Flow, If, Object, Reference, called_apis, parse, print_flow, validate
from lib.workflows.prompts import END, START
from lib.workflows.repair import (
    Snapper,
    all_ways,
    both_kept,
    likeness,
    mend,
    parses,
    problem_of,
    second_prompt,
    to_repair,
)


@dataclass
class Api:
    name: str
    keys: frozenset = field(default_factory=frozenset)
    dynamic: bool = False


APIS = Catalogue(
    {
        one.name: one
        for one in (
            Api("shared_todo.CreateToDoV3", frozenset({"body/title", "folderId"})),
            Api("shared_todoist.CloseTask", frozenset({"task_id"})),
            Api("shared_todoist.CreateProject", frozenset({"body/name"})),
            Api("shared_teams.PostMessage", frozenset({"message", "location"}), dynamic=True),
            Api("shared_teams.OnNewMessage"),
        )
    },
    {},
)
GOOD = "x = await shared_teams.OnNewMessage();\nshared_todoist.CloseTask({\"task_id\": x?['body']});"


@pytest.fixture(scope="module")
def snapper():
    return Snapper(APIS)


# ---------------------------------------------------------------- the checker


def test_a_valid_flow_has_no_problem():
    assert problem_of(GOOD, APIS) == ""


def test_what_the_checker_says():
    made_up = 'shared_todo.Make({"a": 1}); shared_todo.Make(); shared_todoist.CloseTask({"id": 1});'
    assert problem_of(made_up, APIS) == "there is no API shared_todo.Make; shared_todoist.CloseTask has no key id"
    assert problem_of("nothing", APIS).startswith("line 1, column 8: expected")


# ---------------------------------------------------------------- mending


@pytest.mark.parametrize(
    ("text", "mended"),
    [
        (GOOD, GOOD),
        ('a.B({"k": "v"', 'a.B({"k": "v"});'),
        ('a.B({"k": "v",', 'a.B({"k": "v"});'),
        ('a.B({"k": ["v"', 'a.B({"k": ["v"]});'),
        ('if (x) {\n  a.B();\n  a.C({"k": 1', 'if (x) {\n  a.B();\n  a.C({"k": 1});\n}'),
        ("if (x) {\n  a.B();", "if (x) {\n  a.B();\n}"),
        ('a.B();\na.C({"k": "v', "a.B();"),
        ('a.B();\na.C({"k":', "a.B();"),
        ("a.B();\n}\n}", "a.B();"),
        ("a.B();\nThis flow doesn't wait.", "a.B();"),
        ('if (x) {\n  a.B();\n  a.C({"k": "v', "if (x) {\n  a.B();\n}"),
        ("if (x) {\n  a.B();\n} else {", "if (x) {\n  a.B();\n}"),
    ],
)
def test_a_text_that_breaks_off_is_mended(text, mended):
    assert parse(mend(text)) == parse(mended)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I cannot do that.",
        'a.B({"k": "v);\na.C();',  # a string that is not closed, and a statement after it
        'a.B({"k": "v");\na.C();',  # a brace that is missing within
        'a.B({"k" "v"});\na.C();',
        'a.B();\na.C({"k": "v);',  # dropping this call would be a guess
        "if (x",
    ],
)
def test_what_would_be_a_guess_is_left(text):
    assert mend(text) == text


@settings(deadline=None)
@given(st.text(alphabet="ab.({[]});\"'\n ,:", max_size=60))
def test_mending_any_text_gives_a_flow_or_leaves_it(text):
    mended = mend(text)
    assert parses(mended) or mended == text


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 200))
def test_a_flow_cut_anywhere_is_mended_to_its_first_calls_or_left(at):
    flow = print_flow(
        parse(f'{GOOD} if (x?["a"] == "b") {{ a.B({{"k": "v; w", "l": [1, 2]}}); a.C(); }} else {{ a.D(); }}')
    )
    assume(at < len(flow))
    mended = mend(flow[:at])
    if parses(mended):
        calls = called_apis(parse(mended))
        assert calls == called_apis(parse(flow))[: len(calls)]


# ---------------------------------------------------------------- snapping


def test_a_name_becomes_the_one_most_alike(snapper):
    found = snapper.repair('shared_tods.CreateToDo({"body/title": "a"});')
    assert found == 'shared_todo.CreateToDoV3({"body/title": "a"});'


def test_a_connector_that_exists_is_kept(snapper):
    """Though the operation exists elsewhere, under a connector of almost this name."""
    assert called_apis(parse(snapper.repair("shared_todoist.CreateToDoV3();"))) == ["shared_todoist.CreateProject"]


def test_ties_go_to_the_first_name():
    apis = [Api("b.Do"), Api("a.Do")]
    for order in itertools.permutations(apis):
        assert Snapper(Catalogue({api.name: api for api in order}, {})).repair("c.Do();") == "a.Do();"


def test_a_key_becomes_the_one_most_alike_that_the_call_does_not_have(snapper):
    found = snapper.repair('shared_todo.CreateToDoV3({"body/titel": "a", "folder": "b"});')
    assert found == 'shared_todo.CreateToDoV3({"body/title": "a", "folderId": "b"});'
    found = snapper.repair('shared_todo.CreateToDoV3({"body/title": "a", "body/titel": "b"});')
    assert found == 'shared_todo.CreateToDoV3({"body/title": "a", "folderId": "b"});'


def test_the_pairs_most_alike_come_first(snapper):
    """`title` is asked first and would take `body/title`, which the second key is nearer to."""
    found = snapper.repair('shared_todo.CreateToDoV3({"title": "a", "body/titles": "b"});')
    assert found == 'shared_todo.CreateToDoV3({"folderId": "a", "body/title": "b"});'


def test_a_key_is_dropped_where_none_is_left(snapper):
    found = snapper.repair('shared_todoist.CloseTask({"task_id": 1, "more": 2});')
    assert found == 'shared_todoist.CloseTask({"task_id": 1});'
    assert snapper.repair('shared_teams.OnNewMessage({"a": 1});') == "shared_teams.OnNewMessage();"


def test_a_made_up_key_that_stands_twice_stays_one_key(snapper):
    found = snapper.repair('shared_todoist.CloseTask({"id": 1, "id": 2});')
    assert found == 'shared_todoist.CloseTask({"task_id": 1, "task_id": 2});'


def test_undeclared_keys_of_a_dynamic_api_stay(snapper):
    text = 'shared_teams.PostMessage({"body/anything": 1});'
    assert snapper.repair(text) == text
    mixed = snapper.repair('shared_teams.PostMessage({"body/anything": 1, "mesage": 2});')
    assert mixed == 'shared_teams.PostMessage({"body/anything": 1, "message": 2});'


def test_keys_are_those_of_the_new_name(snapper):
    found = snapper.repair('shared_todoist.CloseTasks({"id": 1});')
    assert found == 'shared_todoist.CloseTask({"task_id": 1});'


def test_calls_in_branches_and_loops_are_repaired(snapper):
    text = "if (a) { shared_todoist.A(); } else if (b) { shared_todoist.CloseTsk(); } else { shared_teams.Post(); }"
    loop = f"for (one of x) {{ {text} }}"
    for flow in (text, loop):
        repaired = parse(snapper.repair(flow))
        assert not validate(repaired, APIS).made_up_names
        assert called_apis(repaired)[1:] == ["shared_todoist.CloseTask", "shared_teams.PostMessage"]


def test_a_text_is_mended_and_then_snapped(snapper):
    found = snapper.repair('shared_todoist.CloseTsk({"task_id": 1')
    assert found == 'shared_todoist.CloseTask({"task_id": 1});'


def test_a_text_that_cannot_be_mended_is_left(snapper):
    assert snapper.repair("Sorry!") == "Sorry!"


def test_there_must_be_something_to_snap_to():
    with pytest.raises(ValueError, match="no API"):
        Snapper(Catalogue({}, {}))


def test_likeness():
    assert likeness("abc", "ABC") == 1
    assert likeness("abcd", "abxy") == 0.5


# Names and keys of the catalogue, and made-up ones near them.
NAMES = st.sampled_from(sorted(APIS.apis))
MADE_UP = st.from_regex(r"[a-z_]{1,9}\.[A-Za-z_]{1,9}", fullmatch=True) | NAMES.map(lambda name: name[:-1] + "x")
ANY_KEY = st.sampled_from(["task_id", "task", "body/title", "body/x", "item/y", "message", "zz", "folderId"])


@st.composite
def flows(draw, names):
    def call():
        keys = draw(st.lists(ANY_KEY, max_size=3))
        values = st.sampled_from(["v", 1, Reference("x", ("a",)), None])
        return Call(draw(names), Object(tuple((key, draw(values)) for key in keys)))

    statements = [call() for _ in range(draw(st.integers(1, 3)))]
    if draw(st.booleans()):
        statements.append(If((Branch(Reference("x"), (call(),)),), (call(),)))
    return Flow(tuple(statements))


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(flows(NAMES | MADE_UP))
def test_what_is_repaired_makes_nothing_up_and_valid_flows_are_untouched(flow):
    assume(all(call not in {"if", "else", "for"} for name in called_apis(flow) for call in name.split(".")))
    text = print_flow(flow)
    assume(parses(text))
    found = Snapper(APIS).repair(text)
    report = validate(parse(found), APIS)
    assert not report.made_up_names
    assert not report.made_up_parameters
    assert found == Snapper(APIS).repair(text)
    assert (found == text) == (not problem_of(text, APIS))
    assert len(called_apis(parse(found))) == len(called_apis(flow))


def test_flows_of_the_generator_are_untouched(pairs, catalogue):
    snapper = Snapper(catalogue)
    for dsl in pairs["dsl"].head(300):
        assert snapper.repair(dsl) == dsl


# ---------------------------------------------------------------- a second prompt


def test_the_second_prompt_of_the_fine_tuned_model():
    first = f"mail me\n{START}\n"
    second = second_prompt(first, "finetuned", "mail  me", "a.B();", "there is no API a.B")
    assert second == f"{first}a.B();\n{END}\n\nThis flow is wrong: there is no API a.B.\nmail me\n{START}\n"


def test_the_second_prompt_of_the_in_context_model():
    second = second_prompt("… Request: mail me\nFlow:\n", "in_context", "mail me", "a.B();", "no\nAPI")
    assert second.startswith("… Request: mail me\nFlow:\na.B();\n\nThis flow is wrong: no API.")
    assert second.endswith("\n\nRequest: mail me\nFlow:\n")


# ---------------------------------------------------------------- every way


def an_api(name: str, *keys: str) -> API:
    connector, _, operation = name.partition(".")
    fields = tuple(map(Field, keys))
    return API(connector, operation, display_name=operation, app_name=connector, parameters=fields)


CATALOGUE = Catalogue(
    {
        one.name: one
        for one in (
            an_api("shared_mail.OnNew"),
            an_api("shared_mail.Send", "to", "subject"),
            an_api("shared_chat.Post", "message"),
        )
    },
    {},
)
TRIGGER = "x = await shared_mail.OnNew();\n"
GOLD = TRIGGER + 'shared_chat.Post({"message": "hi"});'
MADE_UP = TRIGGER + 'shared_chat.Pots({"message": "hi"});'
OTHER = TRIGGER + 'shared_mail.Send({"to": "a"});'
UNITS = ("q0", "q1", "q2")
ASKED = pd.DataFrame(
    {
        "request": ["when mail comes, say hi"] * 3,
        "dsl": [GOLD] * 3,
        "said": [[[], ["message"]]] * 3,
    },
    index=pd.Index(UNITS, name="pair"),
)
PROMPTS = pd.DataFrame(
    {
        "test_set": "unseen",
        "unit": UNITS,
        "prompt": [f"prompt {unit}\n<START>\n" for unit in UNITS],
        "model": "finetuned",
        "grammar": None,
        "half": "a",
    }
)
ROOM = {"finetuned": (100, lambda text: len(text.split()))}


@dataclass
class Told:
    """A model that answers each prompt from a list: free, constrained and second ones."""

    answers: dict[str, list[str]]
    calls: list = field(default_factory=list)

    def generate(self, prompts, max_new_tokens, stop, grammars=None, **settings):
        second = any("This flow is wrong" in prompt for prompt in prompts)
        way = "catalogue" if grammars else "second" if second else "free"
        given = self.answers[way]
        self.calls.append(SimpleNamespace(way=way, prompts=prompts))
        self.finished = [True] * len(given)
        self.costs = [Cost(10 + len(way), 5, 1.0 + i) for i in range(len(given))]
        assert len(given) == len(prompts)
        return given


def told() -> Told:
    """The first flow is right at once, the second after repair or a second prompt, the third is another flow."""
    return Told(
        {
            "free": [GOLD, MADE_UP, OTHER],
            "catalogue": [GOLD, OTHER, OTHER],
            "second": [GOLD],
        }
    )


def made(model, room=ROOM):
    ways = all_ways(PROMPTS, {"finetuned": model}, ASKED["request"], CATALOGUE, 16, room)
    return {way: part.set_index("unit") for way, part in ways.groupby("condition")}


def test_each_way_is_asked_for_apart_and_gives_its_flow():
    model = told()
    ways = made(model)
    assert [call.way for call in model.calls] == ["free", "catalogue", "second"]
    assert [len(call.prompts) for call in model.calls] == [3, 3, 1]
    assert "there is no API shared_chat.Pots" in model.calls[2].prompts[0]
    assert {way: part["text"].tolist() for way, part in ways.items()} == {
        "finetuned, free": [GOLD, MADE_UP, OTHER],
        "finetuned, snapped": [GOLD, GOLD, OTHER],
        "finetuned, reasked": [GOLD, GOLD, OTHER],
        "finetuned, catalogue": [GOLD, OTHER, OTHER],
    }


def test_a_second_flow_that_is_not_valid_is_not_taken():
    model = told()
    model.answers["second"] = ["not a flow"]
    assert made(model)["finetuned, reasked"]["text"].tolist() == [GOLD, MADE_UP, OTHER]


def test_nothing_is_asked_again_where_all_is_valid_or_nothing_fits():
    model = told()
    made(model, {"finetuned": (9, ROOM["finetuned"][1])})
    assert [call.way for call in model.calls] == ["free", "catalogue"]
    model = told()
    model.answers["free"] = [GOLD] * 3
    made(model)
    assert [call.way for call in model.calls] == ["free", "catalogue"]


def test_a_second_round_costs_both_prompts_and_both_answers():
    ways = made(told())
    free, again, snapped = (ways[f"finetuned, {way}"][["tokens_in", "tokens_out"]].sum(axis=1).tolist()
                            for way in ("free", "reasked", "snapped"))  # fmt: skip
    assert free == snapped == [19, 19, 19]
    assert again == [19, 19 + 21, 19]


def test_a_flow_is_kept_where_its_free_and_its_constrained_answer_are():
    class Kept:
        def has(self, prompts, grammars, **settings):
            return [place < (2 if grammars else 3) for place in range(len(prompts))]

    assert both_kept(PROMPTS, {"finetuned": Kept()}, CATALOGUE, 16).tolist() == [True, True, False]


def test_whom_a_test_set_is_asked_of():
    asked = to_repair([["finetuned", "unseen", 4], ["in_context", "test", 2]])
    assert asked["condition"].tolist() == ["no_shots_finetuned", "pretrained_5_fd_in_context"]
    assert asked[["test_set", "flows"]].to_numpy().tolist() == [["unseen", 4], ["test", 2]]
    for row in (["finetuned", "test"], ["in_context", "unseen", 3], ["untuned", "test", 3], ["finetuned", "test", 0]):
        with pytest.raises(ValueError, match="repairs: a row is a model, a test set and a number of flows"):
            to_repair([row])
