"""What a planner is shown, what a plan is worth, and what gold labels never reach."""

import json

import numpy as np
import pandas as pd
import pytest

from lib.assistant.planner import (
    MEASURES,
    NOTHING_FOUND,
    SETTINGS,
    Desk,
    Material,
    naming,
    per_query,
    score_plans,
    values_by_topics,
    with_other_plans,
)
from lib.assistant.schemas import InputError
from tests.assistant.conftest import table

TEXT = {"type": "string"}
FUNCTIONS = [
    {"name": name, "parameters": {"properties": dict.fromkeys(names.split(), TEXT), "required": needed.split()}}
    for name, names, needed in (
        ("find_event", "title", "title"),
        ("send_mail", "to subject body", "to subject"),
        ("open_note", "title", "title"),
    )
]


TOOLBOX = pd.DataFrame({"api": [one["name"] for one in FUNCTIONS], "app": ["calendar", "mail", "notes"]})
TOOLBOX["function"] = list(map(json.dumps, FUNCTIONS))
ITEMS = table(
    "item persona app title text",
    ("ana-2", "ana", "calendar", "Steering round", "Steering round. Room 4. Dana Ruiz"),
    ("ana-1", "ana", "notes", "For Dana", "For Dana. cost per head"),
    ("bo-1", "bo", "calendar", "Steering round", "Steering round. Room 9"),
)
PEOPLE = table(
    "persona name email phone",
    ("ana", "Dana Ruiz", "dana@x.example", "+1 5"),
    ("bo", "Dana Ito", "ito@x.example", "+1 6"),
)
TWO_CALLS = 'find_event(title="Steering round")\nsend_mail(to="dana@x.example", subject="Steering round")'
QUERIES = table(
    "query persona split text time place",
    ("q1", "ana", "training", "I'm running late.", pd.Timestamp("2024-03-04 08:50"), "commute"),
    ("q2", "bo", "training", "What was it again?", pd.Timestamp("2024-03-05 12:00"), "home"),
    ("q3", "bo", "evaluation", "Where am I going?", pd.Timestamp("2024-03-06 12:00"), "home"),
)
FIND = {"find_event": {"title": ["Steering round"]}}
SEND = {"send_mail": {"to": ["dana@x.example"], "subject": ["Steering round"], "body": ["", "late"]}}
GOLD = table(
    "query need apis relevant plan answers",
    ("q1", "late", ["find_event", "send_mail"], ["ana-2", "ana-1"], TWO_CALLS, json.dumps([FIND, SEND])),
    ("q2", "list", ["default"], ["bo-1"], "default()", json.dumps([{"default": {}}])),
    ("q3", "late", ["find_event"], ["bo-1"], 'find_event(title="Steering round")', json.dumps([FIND])),
).assign(kind="habit")
NOTE = json.dumps([{"open_note": {"title": ["Steering"]}}])
OTHERS = table("query apis plan answers", ("q3", ["open_note"], 'open_note(title="Steering")', NOTE))
ORDERS = {
    "query_only": ["open_note", "send_mail", "find_event"],
    "query_plus_context": ["find_event", "open_note", "send_mail"],
}
TOOLS = table(
    "setting query item rank",
    *(
        (setting, query, item, rank)
        for setting, order in ORDERS.items()
        for query in ("q1", "q2", "q3")
        for rank, item in enumerate(order, start=1)
    ),
)
RETRIEVED = table("query item rank", ("q1", "ana-1", 1), ("q1", "ana-2", 2), ("q2", "bo-1", 1), ("q3", "bo-1", 1))
DESK = Desk(ITEMS, PEOPLE, TOOLBOX)


def material_of(gold=GOLD, tools=TOOLS, n_tools=2, n_items=1):
    return Material(DESK, QUERIES, gold, tools, RETRIEVED, n_tools, n_items)


def shown(setting, **how):
    return material_of(**how).shown(QUERIES, [setting]).set_index("query")


def test_each_setting_shows_what_table_3_says():
    assert shown("lower_bound")[["tools", "items"]].isna().all(axis=None)
    rag = shown("rag").loc["q1"]
    assert (rag["tools"], rag["items"]) == (["open_note", "send_mail", "default"], None)
    tuned = shown("context_tuned_rag").loc["q1"]
    assert (tuned["tools"], tuned["items"]) == (["find_event", "open_note", "default"], ["ana-1"])
    upper = shown("upper_bound")
    assert upper["tools"].tolist() == [["find_event", "send_mail"], ["default"], ["find_event"]]
    assert upper["items"].isna().all()
    assert shown("context_tuned_upper_bound").loc["q1", "items"] == ["ana-1", "ana-2"]


def test_queries_without_tools_are_named():
    with pytest.raises(InputError, match="query_only for query q1: run notebook 06"):
        shown("rag", tools=TOOLS[:0])


def test_labels_reach_no_prompt_but_the_upper_bounds_and_there_their_order_never_shows():
    turned = GOLD.assign(**{name: GOLD[name].map(lambda names: names[::-1]) for name in ("apis", "relevant")})
    other = GOLD.assign(apis=[["open_note"]] * 3, relevant=[["ana-1"], ["bo-1"], ["bo-1"]], plan="", answers="[]")
    worlds = [material_of(gold) for gold in (GOLD, turned, other)]
    for setting, sources in SETTINGS.items():
        once, again, lied = (world.prompted(world.shown(QUERIES, [setting])) for world in worlds)
        assert once.equals(again)
        assert once["prompt"].equals(lied["prompt"]) == ("gold" not in sources)


def test_a_prompt_reads_as_documented():
    made = material_of().prompted(shown("context_tuned_rag", n_items=2).reset_index(), {"q1": "Check 'Calendar'."})
    assert made["prompt"][0] == (
        "Request (Monday 2024-03-04 08:50, commute): I'm running late.\nThought: Check 'Calendar'.\n"
        "Context:\nNotes: For Dana. cost per head\nCalendar: Steering round. Room 4. Dana Ruiz\n"
        "Contact: Dana Ruiz, dana@x.example, +1 5\nTools:\nfind_event(title)\nopen_note(title)\ndefault()\nPlan:\n"
    )


def test_contacts_are_the_personas_own_and_named():
    assert DESK.context_lines("bo", "tell dana", []) == ["Contact: Dana Ito, ito@x.example, +1 6"]
    assert DESK.context_lines("bo", "tell Danae", []) == DESK.context_lines("nobody", "tell Dana", []) == []
    assert naming("Dr. Dana Ruiz").search("the Ruiz account")
    assert not naming("Dana Ruiz").search("the ruiz account")
    assert not naming("Dr. Dana Ruiz").search("ask Dr. Who")


def test_a_call_returns_the_item_that_it_names():
    found = DESK.execute("ana", ("find_event", {"title": "steering round"}))
    assert found.startswith("Calendar: Steering round. Room 4")
    assert "dana@x.example" in found
    assert "Room 9" in DESK.execute("bo", ("find_event", {"title": "Steering round"}))
    for call in (("open_note", {"title": "Steering round"}), ("find_event", {"title": 3}), ("made_up", {})):
        assert DESK.execute("ana", call) == NOTHING_FOUND
    assert DESK.execute("nobody", ("find_event", {"title": "Steering round"})) == NOTHING_FOUND


def test_the_second_step_follows_what_was_planned_not_the_label():
    rows = material_of().shown(QUERIES[:1], ["rag"])
    steps = material_of().second_steps(rows, ["open_note(title='For Dana')\nnonsense("])
    assert steps["first"].tolist() == ['open_note(title="For Dana")']
    assert "Result: Notes: For Dana" in steps["prompt"].iloc[0]
    hopeless = material_of().second_steps(rows, ["no plan at all"])
    assert f"default()\nResult: {NOTHING_FOUND}" in hopeless["prompt"].iloc[0]


def scored(query, texts, gold=GOLD):
    return score_plans(pd.DataFrame({"query": query, "text": list(texts)}), material_of(gold))


def test_plans_are_scored_by_every_measure():
    texts = {
        'find_event(title="Steering round")': (100, 100, 0, 100, ""),
        '\r\n  find_event(title="Steering  round") \n\n': (100, 100, 0, 100, ""),
        'find_event( title="steering round" )': (100, 0, 0, 100, ""),
        'send_mail(to="a", subject="b")': (0, 0, 0, 0, "wrong_api"),
        'find_meeting(title="Steering round")': (0, 0, 100, 0, "wrong_api"),
        'find_meeting(title="Steer': (0, 0, 100, 0, "unparsed"),
        'find_event(title="Steering")': (0, 0, 0, 100, "wrong_value"),
        "no idea": (0, 0, 0, 0, "unparsed"),
        "default()": (0, 0, 0, 0, "wrong_api"),
    }
    found = scored("q3", texts)
    columns = ["ast_accuracy", "exact_match", "hallucination", "right_api", "failure"]
    assert found[columns].apply(tuple, axis=1).tolist() == list(texts.values())
    assert found["arguments"].dropna().tolist() == [100, 100, 100, 0], "of plans whose API is right"
    assert scored("q2", ["default()"])["ast_accuracy"].tolist() == [100]
    assert {"ast_accuracy", "failure"} <= set(scored("q3", []))


def test_a_plan_that_does_as_well_is_right_for_its_query_alone():
    """What is wrong with a plan is told by the right plan that calls the same APIs."""
    texts = {
        'open_note(title="Steering")': (100, 100, 100, ""),
        'open_note(title="For Dana")': (0, 0, 100, "wrong_value"),
        'find_event(title="Steering round")': (100, 100, 100, ""),
        'send_mail(to="a", subject="b")': (0, 0, 0, "wrong_api"),
        'find_event(title="Steering round")\nopen_note(title="Steering")': (0, 0, 0, "wrong_number_of_calls"),
    }
    gold = with_other_plans(GOLD, OTHERS)
    columns = ["ast_accuracy", "exact_match", "right_api", "failure"]
    assert scored("q3", texts, gold)[columns].apply(tuple, axis=1).tolist() == list(texts.values())
    assert not scored("q2", texts, gold)[["ast_accuracy", "right_api"]].any(axis=None)
    assert scored("q3", OTHERS["plan"])["failure"].tolist() == ["wrong_api"], "without other plans"


def test_values_are_over_topics_known_and_new():
    topics = [f"need{n % 10}" for n in range(40)]
    one = pd.DataFrame({"query": [f"q{n:02}" for n in range(40)], "need": topics, "hallucination": 0.0})
    one = one.assign(**dict.fromkeys(set(MEASURES) - {"hallucination"}, np.where(np.arange(40) < 10, 100.0, 0.0)))
    scores, over = per_query(one.assign(setting="rag"), 200, 0)
    table = values_by_topics(scores, over, {"need0", "need1"}).set_index(["setting", "topics", "metric"])
    assert set(table.index.get_level_values("metric")) == set(MEASURES)
    assert table.loc[("rag", "all", "ast_accuracy"), ["value", "over_queries"]].tolist() == [25, 25]
    assert table.loc[("rag", "new", "ast_accuracy"), ["value", "n_topics", "n"]].tolist() == [25, 2, 8]
    assert table.loc[("rag", "known", "ast_accuracy"), ["n_topics", "n"]].tolist() == [8, 32]
