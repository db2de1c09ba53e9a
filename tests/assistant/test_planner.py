import json

import numpy as np
import pandas as pd
import pytest

from lib.assistant.planner import (
    NOTHING_FOUND,
    SETTINGS,
    Desk,
    Material,
    answerable,
    names_person,
    planner_prompts,
    score_plans,
    second_steps,
    shown,
    shows_right_tools,
    template_plan,
    with_other_plans,
)
from lib.assistant.planner_training import training_inputs, training_pairs, training_sample, with_gold_tools
from lib.assistant.schemas import InputError
from lib.assistant.toolbox import signature

FUNCTIONS = [
    {
        "name": "find_event",
        "description": "Looks up an appointment.",
        "parameters": {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]},
    },
    {
        "name": "send_mail",
        "description": "Sends a message.",
        "parameters": {
            "type": "object",
            "properties": {"to": {"type": "string"}, "subject": {"type": "string"}, "body": {"type": "string"}},
            "required": ["to", "subject"],
        },
    },
    {
        "name": "open_note",
        "description": "Opens a note.",
        "parameters": {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]},
    },
]
APPS = {"find_event": "calendar", "send_mail": "mail", "open_note": "notes"}
ITEMS = pd.DataFrame(
    [
        ("ana-2", "ana", "calendar", "Steering round", "Steering round. Room 4. Dana Ruiz"),
        ("ana-1", "ana", "notes", "For Dana", "For Dana. cost per head"),
        ("bo-1", "bo", "calendar", "Steering round", "Steering round. Room 9"),
    ],
    columns=["item", "persona", "app", "title", "text"],
)
PEOPLE = pd.DataFrame(
    [("ana", "boss", "Dana Ruiz", "dana@x.example", "+1 5"), ("bo", "boss", "Dana Ito", "ito@x.example", "+1 6")],
    columns=["persona", "role", "name", "email", "phone"],
)
TWO_CALLS = 'find_event(title="Steering round")\nsend_mail(to="dana@x.example", subject="Steering round")'
QUERIES = pd.DataFrame(
    [
        ("q1", "ana", "training", "I'm running late.", pd.Timestamp("2024-03-04 08:50"), 0, "commute"),
        ("q2", "bo", "training", "What was it again?", pd.Timestamp("2024-03-05 12:00"), 1, "home"),
        ("q3", "bo", "evaluation", "Where am I going?", pd.Timestamp("2024-03-06 12:00"), 2, "home"),
    ],
    columns=["query", "persona", "split", "text", "time", "weekday", "place"],
)
GOLD = pd.DataFrame(
    {
        "query": ["q1", "q2", "q3"],
        "need": ["late", "list", "late"],
        "apis": [["send_mail", "find_event"][::-1], ["default"], ["find_event"]],
        "relevant": [["ana-2", "ana-1"], ["bo-1"], ["bo-1"]],
        "plan": [TWO_CALLS, "default()", 'find_event(title="Steering round")'],
        "answers": [
            json.dumps(
                [
                    {"find_event": {"title": ["Steering round"]}},
                    {"send_mail": {"to": ["dana@x.example"], "subject": ["Steering round"], "body": ["", "late"]}},
                ]
            ),
            json.dumps([{"default": {}}]),
            json.dumps([{"find_event": {"title": ["Steering round"]}}]),
        ],
    }
)
TOOLS = pd.DataFrame(
    [
        (setting, query, item, rank)
        for setting, order in {
            "query_only": ["open_note", "send_mail", "find_event"],
            "query_plus_context": ["find_event", "open_note", "send_mail"],
        }.items()
        for query in ("q1", "q2", "q3")
        for rank, item in enumerate(order, start=1)
    ],
    columns=["setting", "query", "item", "rank"],
)
RETRIEVED = pd.DataFrame(
    [("q1", "ana-1", 1), ("q1", "ana-2", 2), ("q2", "bo-1", 1), ("q3", "bo-1", 1)], columns=["query", "item", "rank"]
)


@pytest.fixture
def desk():
    return Desk(ITEMS, PEOPLE, FUNCTIONS, APPS)


def inputs(setting, n_tools=2, n_items=1, rows=QUERIES):
    return shown(rows, setting, TOOLS, RETRIEVED, GOLD, n_tools, n_items)


def test_each_setting_shows_what_table_3_says():
    assert inputs("lower_bound")[["tools", "items"]].isna().all(axis=None)
    rag = inputs("rag").set_index("query").loc["q1"]
    assert (rag["tools"], rag["items"]) == (["open_note", "send_mail", "default"], None)
    tuned = inputs("context_tuned_rag").set_index("query").loc["q1"]
    assert (tuned["tools"], tuned["items"]) == (["find_event", "open_note", "default"], ["ana-1"])
    upper = inputs("upper_bound").set_index("query")
    assert upper["tools"].tolist() == [["find_event", "send_mail"], ["default"], ["find_event"]]
    assert upper["items"].isna().all()
    assert inputs("context_tuned_upper_bound").set_index("query").loc["q1", "items"] == ["ana-1", "ana-2"]


def test_queries_without_tools_are_named():
    with pytest.raises(InputError, match="query_only for query q1: run notebook 06"):
        shown(QUERIES, "rag", TOOLS[:0], RETRIEVED, GOLD, 2, 1)


def test_the_order_of_labels_never_shows():
    turned = GOLD.assign(
        apis=GOLD["apis"].map(lambda names: names[::-1]), relevant=GOLD["relevant"].map(lambda x: x[::-1])
    )
    for setting in SETTINGS:
        assert inputs(setting).equals(shown(QUERIES, setting, TOOLS, RETRIEVED, turned, 2, 1))


def test_labels_reach_no_prompt_but_the_upper_bounds(desk):
    other = GOLD.assign(apis=[["open_note"]] * 3, relevant=[["ana-1"], ["bo-1"], ["bo-1"]], plan="", answers="[]")
    for setting, sources in SETTINGS.items():
        frames = [shown(QUERIES, setting, TOOLS, RETRIEVED, labels, 2, 1) for labels in (GOLD, other)]
        prompts = [planner_prompts(desk, frame, QUERIES) for frame in frames]
        assert (prompts[0] == prompts[1]) == ("gold" not in sources)


def test_a_prompt_reads_as_documented(desk):
    prompt = planner_prompts(
        desk, inputs("context_tuned_rag", n_items=2), QUERIES, thoughts={"q1": "Check 'Calendar'."}
    )[0]
    assert prompt == (
        "Request (Monday 2024-03-04 08:50, commute): I'm running late.\nThought: Check 'Calendar'.\n"
        "Context:\nNotes: For Dana. cost per head\nCalendar: Steering round. Room 4. Dana Ruiz\n"
        "Contact: Dana Ruiz, dana@x.example, +1 5\nTools:\nfind_event(title)\nopen_note(title)\ndefault()\nPlan:\n"
    )
    titles = planner_prompts(desk, inputs("context_tuned_rag", n_items=2), QUERIES, titles=True)[0]
    assert "Calendar: Steering round\n" in titles
    assert "Room 4" not in titles


def test_contacts_are_the_personas_own_and_named(desk):
    assert desk.contact_lines("bo", "tell dana") == ["Contact: Dana Ito, ito@x.example, +1 6"]
    assert desk.contact_lines("bo", "tell Danae") == []
    assert desk.contact_lines("nobody", "tell Dana") == []
    assert names_person("the Ruiz account", "Dana Ruiz")
    assert not names_person("the ruiz account", "Dana Ruiz")
    assert names_person("ask ana", "Ana")


def test_a_call_returns_the_item_that_it_names(desk):
    assert desk.execute("ana", ("find_event", {"title": "steering round"})).startswith(
        "Calendar: Steering round. Room 4"
    )
    assert "dana@x.example" in desk.execute("ana", ("find_event", {"title": "Steering round"}))
    assert "Room 9" in desk.execute("bo", ("find_event", {"title": "Steering round"}))
    for call in (
        ("open_note", {"title": "Steering round"}),
        ("find_event", {"title": 3}),
        ("made_up", {}),
        ("find_event", {}),
    ):
        assert desk.execute("ana", call) == NOTHING_FOUND
    assert desk.execute("nobody", ("find_event", {"title": "Steering round"})) == NOTHING_FOUND


def test_the_template_reads_nothing_but_apps_and_titles(desk):
    assert template_plan(desk, ["send_mail", "open_note", "find_event"], ["ana-2"]) == TWO_CALLS.split("\n")[0]
    assert template_plan(desk, ["send_mail", "open_note"], ["ana-2", "ana-1"]) == 'open_note(title="For Dana")'
    assert template_plan(desk, ["send_mail", "default"], ["ana-2"]) == "default()"
    assert template_plan(desk, ["find_event"], []) == "default()"


def test_training_leaves_held_out_needs_and_evaluation_alone():
    sample = training_sample(QUERIES, GOLD, ["q3"], ["late"], 10, seed=1)
    assert sample["query"].tolist() == ["q2"]
    assert training_sample(QUERIES, GOLD, [], [], 10, seed=1).equals(training_sample(QUERIES, GOLD, [], [], 10, seed=1))


def test_forms_occur_equally_often_and_thoughts_come_first():
    many = pd.DataFrame({"query": [f"t{i}" for i in range(40)], "split": "training"})
    gold = many.assign(need="late")
    sample = training_sample(many, gold, ["t3", "t5"], [], 20, seed=3)
    assert sample["setting"].value_counts().to_dict() == dict.fromkeys(SETTINGS, 4)
    assert {"t3", "t5"} <= set(sample["query"])
    assert len(set(sample["query"])) == 20


def test_plans_of_two_calls_are_also_learned_step_by_step(desk):
    rows = QUERIES[QUERIES["split"] == "training"]
    pairs = training_pairs(desk, inputs("context_tuned_rag", rows=rows), QUERIES, GOLD, {"q2": "Check."})
    assert pairs[["query", "step", "thought"]].to_numpy().tolist() == [
        ["q1", 1, False],
        ["q2", 1, True],
        ["q1", 2, False],
    ]
    assert pairs["target"].tolist() == [TWO_CALLS, "default()", TWO_CALLS.split("\n")[1]]
    second = pairs["prompt"].iloc[2]
    assert second.endswith(
        'Plan:\nfind_event(title="Steering round")\nResult: Calendar: Steering round. Room 4. Dana Ruiz; '
        "Contact: Dana Ruiz, dana@x.example, +1 5\nThen:\n"
    )


def test_the_second_step_follows_what_was_planned_not_the_label(desk):
    steps = second_steps(desk, inputs("rag", rows=QUERIES[:1]), QUERIES, ["open_note(title='For Dana')\nnonsense("])
    assert steps["first"].iloc[0] == 'open_note(title="For Dana")'
    assert "Result: Notes: For Dana" in steps["prompt"].iloc[0]
    hopeless = second_steps(desk, inputs("rag", rows=QUERIES[:1]), QUERIES, ["no plan at all"])
    assert hopeless["first"].iloc[0] == "default()"
    assert f"Result: {NOTHING_FOUND}" in hopeless["prompt"].iloc[0]


def test_plans_are_scored_by_every_measure():
    texts = {
        'find_event(title="Steering round")': (100, 100, 0, 0, 100, ""),
        "find_event( title='steering-round' )": (100, 0, 0, 0, 100, ""),
        'send_mail(to="a", subject="b")': (0, 0, 0, 100, 0, "wrong_api"),
        'find_meeting(title="Steering round")': (0, 0, 100, 100, 0, "wrong_api"),
        'find_meeting(title="Steer': (0, 0, 100, 100, 0, "unparsed"),
        'find_event(title="Steering")': (0, 0, 0, 0, 100, "wrong_value"),
        "no idea": (0, 0, 0, 0, 0, "unparsed"),
    }
    plans = pd.DataFrame({"query": "q3", "text": list(texts), "tools": [["find_event", "open_note"]] * len(texts)})
    scored = score_plans(plans, GOLD, FUNCTIONS)
    columns = ["ast_accuracy", "exact_match", "hallucination", "outside_shown", "right_api", "failure"]
    assert scored[columns].apply(tuple, axis=1).tolist() == list(texts.values())
    assert np.isnan(score_plans(plans[:1].assign(tools=[None]), GOLD, FUNCTIONS)["outside_shown"].iloc[0])


OTHERS = pd.DataFrame(
    {
        "query": ["q3"],
        "apis": [["open_note"]],
        "plan": ['open_note(title="Steering")'],
        "answers": [json.dumps([{"open_note": {"title": ["Steering"]}}])],
    }
)


def test_a_plan_that_does_as_well_is_right_for_its_query_alone():
    """What is wrong with a plan is told by the right plan that calls the same APIs."""
    texts = {
        'open_note(title="Steering")': (100, 100, 100, ""),
        "open_note(title='steering')": (100, 0, 100, ""),
        'open_note(title="For Dana")': (0, 0, 100, "wrong_value"),
        'find_event(title="Steering round")': (100, 100, 100, ""),
        'find_event(title="Steering")': (0, 0, 100, "wrong_value"),
        'send_mail(to="a", subject="b")': (0, 0, 0, "wrong_api"),
        'find_event(title="Steering round")\nopen_note(title="Steering")': (0, 0, 0, "wrong_number_of_calls"),
    }
    plans = pd.DataFrame({"query": "q3", "text": list(texts), "tools": None})
    gold = with_other_plans(GOLD, OTHERS)
    columns = ["ast_accuracy", "exact_match", "right_api", "failure"]
    scored = score_plans(plans, gold, FUNCTIONS)
    assert scored[columns].apply(tuple, axis=1).tolist() == list(texts.values())
    elsewhere = score_plans(plans.assign(query="q2"), gold, FUNCTIONS)
    assert not elsewhere["ast_accuracy"].any()
    assert not elsewhere["right_api"].any()


def test_without_other_plans_the_gold_one_alone_is_right():
    plans = pd.DataFrame({"query": "q3", "text": OTHERS["plan"], "tools": None})
    none = with_other_plans(GOLD, OTHERS[:0])
    for gold in (GOLD, none):
        assert score_plans(plans, gold, FUNCTIONS)["failure"].tolist() == ["wrong_api"]
    assert none["also"].tolist() == [[], [], []]


def test_a_prompt_may_spell_out_another_plan(desk):
    rows = pd.DataFrame({"query": "q3", "tools": [["open_note"], ["find_event"], ["send_mail"], None]})
    gold = with_other_plans(GOLD, OTHERS)
    assert shows_right_tools(rows, GOLD).tolist() == [False, True, False, False]
    assert shows_right_tools(rows, gold).tolist() == [True, True, False, False]
    prompts = ["It is about Steering."] * 4  # the title of the note, not that of the event
    assert answerable(prompts, rows, GOLD)[:3].tolist() == [0, 0, 0]
    assert answerable(prompts, rows, gold)[:3].tolist() == [100, 0, 0]


def test_only_the_gold_plan_is_taught(desk):
    """Retrieval that found the other plan's tool alone has missed the gold one."""
    rankings = pd.DataFrame(
        [
            (setting, query, "open_note", 1)
            for setting in ("query_only", "query_plus_context")
            for query in GOLD["query"]
        ],
        columns=["setting", "query", "item", "rank"],
    )
    retrieved = pd.DataFrame(columns=["query", "item", "rank"])
    asked = QUERIES[2:].assign(setting="rag")
    gold = with_other_plans(GOLD, OTHERS)
    material = Material(desk, QUERIES, gold, rankings, retrieved, 2, 2)
    found, missed = training_inputs(material, asked, seed=0)
    assert missed == 1
    assert found["tools"].iloc[0] == ["find_event", "default"]
    assert training_pairs(desk, found, QUERIES, gold, {})["target"].tolist() == [GOLD["plan"].iloc[2]]


def test_no_plan_is_no_score():
    scored = score_plans(pd.DataFrame({"query": [], "text": [], "tools": []}), GOLD, FUNCTIONS)
    assert scored.empty
    assert {"ast_accuracy", "failure"} <= set(scored)


def test_training_prompts_show_the_gold_tools():
    rows = pd.concat([inputs(setting) for setting in SETTINGS], ignore_index=True)
    completed = with_gold_tools(rows, GOLD, seed=0)
    for before, after in zip(rows.itertuples(), completed.itertuples(), strict=True):
        if SETTINGS[before.setting][0] in ("none", "gold"):
            assert after.tools == before.tools
        else:
            assert set(GOLD.set_index("query").loc[after.query, "apis"]) <= set(after.tools)
            assert after.tools[-1] == "default"
            assert len(after.tools) == len(set(after.tools)) == len(before.tools)
    places = [with_gold_tools(inputs("rag")[2:], GOLD, seed)["tools"].iloc[0].index("find_event") for seed in range(9)]
    assert set(places) == {0, 1}


def test_no_tool_fits_is_never_made_up():
    plans = pd.DataFrame({"query": ["q2", "q3"], "text": "default()", "tools": [["open_note"], ["open_note"]]})
    scored = score_plans(plans, GOLD, FUNCTIONS)
    assert scored["ast_accuracy"].tolist() == [100, 0]
    assert scored["hallucination"].tolist() == scored["outside_shown"].tolist() == [0, 0]


def test_answerable_means_that_the_prompt_spells_it_out(desk):
    def share(setting, **numbers):
        rows = inputs(setting, **numbers)
        return answerable(planner_prompts(desk, rows, QUERIES), rows, GOLD).tolist()

    assert np.isnan(share("lower_bound")).all()
    assert share("upper_bound") == [0, 100, 0]
    assert share("context_tuned_upper_bound") == [100, 100, 100]
    assert share("context_tuned_rag") == [0, 100, 100]  # q1: send_mail is not among the first two tools
    assert share("context_tuned_rag", n_tools=3, n_items=2) == [100, 100, 100]


def test_signatures_mark_optional_arguments():
    assert signature(FUNCTIONS[1]) == "send_mail(to, subject, body?)"
    assert signature({"name": "now"}) == "now()"
