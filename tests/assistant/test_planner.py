import json

import numpy as np
import pandas as pd
import pytest

from lib.assistant.planner import (
    MEASURES,
    NOTHING_FOUND,
    SETTINGS,
    SOURCES,
    Desk,
    Material,
    Planner,
    answerable,
    asked_queries,
    called_twice,
    claim_scores,
    failure_rows,
    first_call_right,
    guessed_apis,
    material_of,
    names_person,
    per_query,
    plan,
    plan_second_calls,
    planner_prompts,
    published_values,
    score_plans,
    second_steps,
    shows_right_tools,
    template_floor,
    template_plan,
    values_by_topics,
    with_other_plans,
)
from lib.assistant.planners import training_inputs, training_pairs, training_sample, with_gold_tools
from lib.assistant.plans import CAUSES
from lib.assistant.schemas import InputError
from lib.assistant.toolbox import signature
from lib.assistant.tools import ALONE, BY_SEARCH, CONTEXT, named_world
from lib.assistant.tools import RETRIEVED as ITEMS_OF
from lib.evaluation.inference import mean_interval
from lib.generation.answers import Answer, Answers, Cost, KeptModel, key_of

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


def inputs(setting, n_tools=2, n_items=1, rows=QUERIES, gold=GOLD, tools=TOOLS):
    desk = Desk(ITEMS, PEOPLE, FUNCTIONS, APPS)
    return Material(desk, rows, gold, tools, RETRIEVED, n_tools, n_items).shown(rows, setting)


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
        inputs("rag", tools=TOOLS[:0])


def test_the_order_of_labels_never_shows():
    turned = GOLD.assign(
        apis=GOLD["apis"].map(lambda names: names[::-1]), relevant=GOLD["relevant"].map(lambda x: x[::-1])
    )
    for setting in SETTINGS:
        assert inputs(setting).equals(inputs(setting, gold=turned))


def test_labels_reach_no_prompt_but_the_upper_bounds(desk):
    other = GOLD.assign(apis=[["open_note"]] * 3, relevant=[["ana-1"], ["bo-1"], ["bo-1"]], plan="", answers="[]")
    for setting, sources in SETTINGS.items():
        frames = [inputs(setting, gold=labels) for labels in (GOLD, other)]
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
        'find_event(title="Steering round")': (100, 100, 0, 100, ""),
        "find_event( title='steering-round' )": (100, 0, 0, 100, ""),
        'send_mail(to="a", subject="b")': (0, 0, 0, 0, "wrong_api"),
        'find_meeting(title="Steering round")': (0, 0, 100, 0, "wrong_api"),
        'find_meeting(title="Steer': (0, 0, 100, 0, "unparsed"),
        'find_event(title="Steering")': (0, 0, 0, 100, "wrong_value"),
        "no idea": (0, 0, 0, 0, "unparsed"),
    }
    plans = pd.DataFrame({"query": "q3", "text": list(texts)})
    scored = score_plans(plans, GOLD, FUNCTIONS)
    columns = ["ast_accuracy", "exact_match", "hallucination", "right_api", "failure"]
    assert scored[columns].apply(tuple, axis=1).tolist() == list(texts.values())


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
    plans = pd.DataFrame({"query": "q3", "text": list(texts)})
    gold = with_other_plans(GOLD, OTHERS)
    columns = ["ast_accuracy", "exact_match", "right_api", "failure"]
    scored = score_plans(plans, gold, FUNCTIONS)
    assert scored[columns].apply(tuple, axis=1).tolist() == list(texts.values())
    elsewhere = score_plans(plans.assign(query="q2"), gold, FUNCTIONS)
    assert not elsewhere["ast_accuracy"].any()
    assert not elsewhere["right_api"].any()


def test_without_other_plans_the_gold_one_alone_is_right():
    plans = pd.DataFrame({"query": "q3", "text": OTHERS["plan"]})
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
    scored = score_plans(pd.DataFrame({"query": [], "text": []}), GOLD, FUNCTIONS)
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
    plans = pd.DataFrame({"query": ["q2", "q3"], "text": "default()"})
    scored = score_plans(plans, GOLD, FUNCTIONS)
    assert scored["ast_accuracy"].tolist() == [100, 0]
    assert scored["hallucination"].tolist() == [0, 0]


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


# ---------------------------------------------------------------- planning


class Titles:
    """A model that calls the first tool that it is shown with the first item's title, and takes note of prompts."""

    dtype = "float32"

    def __init__(self):
        self.prompts = []

    def generate(self, prompts, max_new_tokens, progress=False):
        self.prompts += prompts
        self.finished, self.costs = [True] * len(prompts), [Cost()] * len(prompts)
        return [self.answer(prompt.split("\n")) for prompt in prompts]

    @staticmethod
    def answer(lines):
        tool = lines[lines.index("Tools:") + 1].partition("(")[0] if "Tools:" in lines else "default"
        item = lines[lines.index("Context:") + 1] if "Context:" in lines else "?"
        return f'{tool}(title="{item.partition(": ")[2].partition(".")[0]}")'


@pytest.fixture
def material(desk):
    return Material(desk, QUERIES, with_other_plans(GOLD, OTHERS), TOOLS, RETRIEVED, 2, 1)


@pytest.fixture
def planner():
    model = Titles()
    return Planner(KeptModel(Answers(), "w", lambda: model), 20), model


def test_a_plan_is_made_from_its_settings_prompt_and_judged(material, planner):
    one, model = planner
    asked = material.evaluated
    found = plan("context_tuned_rag", material, one, asked, {"q3": "Check."}).iloc[0]
    assert model.prompts == [found["prompt"]]
    assert "Thought: Check." in found["prompt"]
    assert found["text"] == 'find_event(title="Steering round")'
    assert found[["ast_accuracy", "answerable", "need", "setting"]].tolist() == [100, 100, "late", "context_tuned_rag"]
    assert plan("rag", material, one, asked)["right_api"].tolist() == [100], "open_note does as well"


def test_a_second_call_is_planned_after_the_first_was_made(material, planner):
    one, model = planner
    at_once = plan("context_tuned_upper_bound", material, one, QUERIES[:1])
    assert called_twice(at_once).tolist() == [False]
    assert first_call_right(at_once.assign(text=TWO_CALLS), material) == [True]
    assert first_call_right(at_once.assign(text=TWO_CALLS.split("\n")[1]), material) == [False]
    found = plan_second_calls(at_once.assign(text=TWO_CALLS), material, one)
    assert found["text"].iloc[0].startswith(TWO_CALLS.split("\n")[0] + "\nfind_event(")
    assert "Result: Calendar: Steering round" in model.prompts[-1]
    assert found["ast_accuracy"].tolist() == [0]


def test_floors_fill_in_the_title_of_the_first_item_of_the_apps(material, planner):
    ours = plan("context_tuned_rag", material, planner[0], material.evaluated)
    assert template_floor(material, ours)["text"].tolist() == ['find_event(title="Steering round")']
    for guess, text in {"open_note": "default()", "find_event": 'find_event(title="Steering round")'}.items():
        assert template_floor(material, ours, pd.Series({"q3": guess}))["text"].tolist() == [text]


def test_the_classifier_learns_from_training_queries_alone(desk):
    names = [f"q{i:02}" for i in range(40)]
    gold = pd.DataFrame({"query": names, "apis": [["a"] if i % 2 else ["b"] for i in range(40)]})
    world = Material(desk, pd.DataFrame({"query": names}), gold, TOOLS, RETRIEVED, 2, 1)
    vectors = np.array([[1.0, 0.0] if i % 2 else [0.0, 1.0] for i in range(40)])
    assert guessed_apis(vectors, world, names[:21], ["q30", "q31"]).to_dict() == {"q30": "b", "q31": "a"}


# ---------------------------------------------------------------- values


def judged_plans(rights, n=40):
    """Plans of some settings, of which the first so many queries' are right; ten topics."""
    frames = []
    for setting, right in rights.items():
        scores = np.where(np.arange(n) < right, 100.0, 0.0)
        frame = {"query": [f"q{i:02}" for i in range(n)], "need": [f"need{i % 10}" for i in range(n)]}
        frame |= dict.fromkeys(("ast_accuracy", "exact_match"), scores) | {"right_api": np.maximum(scores, 0)}
        frame |= {"hallucination": 0.0, "answerable": 100.0, "failure": np.where(scores > 0, "", "wrong_api")}
        frames.append(pd.DataFrame(frame).assign(setting=setting))
    return pd.concat(frames, ignore_index=True)


def test_values_are_over_topics_known_and_new():
    scores, over = per_query(judged_plans({"rag": 4, "upper_bound": 40}), 200, 0)
    table = values_by_topics(scores, over, {"need0", "need1"}).set_index(["setting", "topics", "metric"])
    assert set(table.index.get_level_values("metric")) == set(MEASURES)
    assert table.loc[("rag", "all", "ast_accuracy"), "value"] == pytest.approx(10)
    assert table.loc[("rag", "new", "ast_accuracy"), ["value", "n_topics", "n"]].tolist() == [25, 2, 8]
    assert table.loc[("rag", "known", "ast_accuracy"), ["n_topics", "n"]].tolist() == [8, 32]
    best = table.loc[("upper_bound", "all", "ast_accuracy")]
    assert best["value"] == best["ci_high"] == 100
    assert 90 < best["ci_low"] < 92  # Wilson for 40 of 40
    assert table.loc[("rag", "all", "hallucination"), "ci_high"] == pytest.approx(8.76, abs=0.01)


def test_accuracy_is_the_product_of_its_parts():
    plans = judged_plans({"rag": 10})
    plans["right_api"] = np.where(np.arange(40) < 20, 100.0, 0.0)
    means = per_query(plans, 100, 0)[0].mean()
    assert means["rag", "arguments", 1] == 50
    assert means["rag", "ast_accuracy", 1] == means["rag", "right_api", 1] * means["rag", "arguments", 1] / 100


def test_published_accuracy_is_the_product_of_its_parts_too(root):
    table = published_values(root / "data" / "published" / "planner.csv").set_index(["setting", "metric"])["published"]
    assert table["lower_bound", "right_api"] == pytest.approx(47.85, abs=0.01)
    assert table["rag", "right_api"] == pytest.approx(83.51, abs=0.01)
    assert table["context_tuned_rag", "right_api"] == pytest.approx(93.04, abs=0.01)
    assert table["upper_bound", "right_api"] == 100
    assert table["rag", "arguments"] == 91.47
    assert table["rag", "right_api"] * table["rag", "arguments"] / 100 == pytest.approx(table["rag", "ast_accuracy"])


def test_causes_of_failure_have_intervals_over_topics():
    plans = judged_plans({"rag": 10, "upper_bound": 30})
    _, over = per_query(plans, 200, 0)
    rows = failure_rows(plans.sample(frac=1, random_state=0), over)
    assert rows.groupby("setting")["percent"].sum().to_numpy() == pytest.approx(100)
    assert len(rows) == 2 * (1 + len(CAUSES))
    row = rows.set_index(["setting", "failure"]).loc[("rag", "wrong_api")]
    found = mean_interval(np.where(np.arange(40) < 10, 0.0, 100.0), over)
    assert row[["percent", "ci_low", "ci_high"]].tolist() == pytest.approx(list(found))


def test_scores_of_claims_name_the_need():
    scores = claim_scores(judged_plans({"rag": 1}))
    assert scores["metric"].value_counts().to_dict() == dict.fromkeys(
        ("ast_accuracy", "exact_match", "hallucination", "right_api"), 40
    )
    row = scores[(scores["query"] == "q05") & (scores["metric"] == "right_api")].iloc[0]
    assert row[["need", "k", "method", "value"]].tolist() == ["need5", 1, "rag", 0.0]


# ---------------------------------------------------------------- the named worlds

SIZE = pd.DataFrame({"persona": [f"p{n % 40}" for n in range(160)], "split": ["training"] * 100 + ["evaluation"] * 60})
NAMES = ("explicit", "mixed", "hard")
# the first tool of every query
FIRST = {
    ALONE: "play_song", BY_SEARCH: "open_note", CONTEXT: "find_place", f"{ALONE}/lambdamart": "play_album",
    f"{BY_SEARCH}/lambdamart": "read_mail", f"{CONTEXT}/lambdamart": "find_reminder",
}  # fmt: skip
SEEN = {
    BY_SEARCH: {
        "rag": "play_song", "rag/lambdamart": "play_album", "context_tuned_rag": "open_note",
        "context_tuned_rag/lambdamart": "read_mail",
    },
    CONTEXT: {"context_tuned_rag": "find_place", "context_tuned_rag/lambdamart": "find_reminder"},
}  # fmt: skip


@pytest.fixture(scope="module")
def worlds(data):
    return {name: named_world(data, name, SIZE, 3) for name in NAMES}


def rankings_in(frames):
    """Of every evaluation query: one and the same tool first in each run, and an item of its persona: its first by
    search, its last by LambdaMART."""
    asked, rows = frames["queries"].query("split == 'evaluation'"), []
    items = frames["items"].groupby("persona")["item"].agg(["first", "last"])
    for setting, tool in FIRST.items():
        for rank, name in enumerate((tool, "call_contact"), start=1):
            rows.append(pd.DataFrame({"query": asked["query"], "item": name, "rank": rank, "setting": setting}))
    for context, which in ((BY_SEARCH, "first"), (CONTEXT, "last")):
        found = {"query": asked["query"], "item": asked["persona"].map(items[which]), "rank": 1}
        rows.append(pd.DataFrame(found).assign(setting=ITEMS_OF[context]))
    return pd.concat(rows, ignore_index=True)


@pytest.mark.parametrize("context", [BY_SEARCH, CONTEXT])
def test_tools_and_items_are_those_of_the_world_and_context(worlds, context):
    frames = worlds["hard"]
    there = material_of(frames, rankings_in(frames), context, 1, 1)
    prompts = there.prompted(there.evaluated, SEEN[context]).set_index("setting")
    for setting, tool in SEEN[context].items():
        assert all(tools == [tool, "default"] for tools in prompts.loc[setting, "tools"])
    asker = frames["queries"].set_index("query")["persona"]
    items = frames["items"].groupby("persona")["item"].agg("first" if context == BY_SEARCH else "last")
    shown_there = prompts.loc["context_tuned_rag"]
    assert [items_[0] for items_ in shown_there["items"]] == shown_there["query"].map(asker).map(items).tolist()
    with pytest.raises(InputError, match="run notebook 06"):
        lacking = rankings_in(frames).query("setting != @ALONE")
        there = material_of(frames, lacking, context, 1, 1)
        there.prompted(there.evaluated, ["rag"])


def test_no_label_of_a_world_stands_in_a_prompt_but_those_of_the_upper_bounds(worlds):
    frames = worlds["mixed"]
    gold = frames["gold"]
    lied = gold.assign(apis=[["snooze_reminder"]] * len(gold), relevant=[[]] * len(gold), plan="x()")
    before, after = (
        material_of(frames | {"gold": labels}, rankings_in(frames), BY_SEARCH, 1, 1) for labels in (gold, lied)
    )
    one, two = (there.prompted(there.evaluated, SOURCES) for there in (before, after))
    bound = one["setting"].str.contains("upper_bound")
    assert (one["prompt"] == two["prompt"])[~bound].all()
    assert (one["prompt"] != two["prompt"])[bound].mean() > 0.9


def kept(prompts):
    """A store of plans for some prompts, of the model `w`."""
    answers = Answers()
    answers.add({key_of("w", prompt, 20): Answer("default()") for prompt in prompts})
    return answers


def test_as_many_queries_are_asked_as_have_all_their_plans_kept(worlds):
    """If as many as wanted have; of contexts and settings together, else as even by kind as there are."""
    frames = worlds["hard"]
    views = [
        (material_of(frames, rankings_in(frames), context, 1, 1), list(settings)) for context, settings in SEEN.items()
    ]
    among = views[0][0].evaluated
    prompts = pd.concat([there.prompted(among, settings) for there, settings in views])
    some = prompts[prompts["query"].isin(among["query"][1:])]["prompt"]
    rest = prompts[prompts["query"] == among["query"].iloc[0]]["prompt"]
    one = Planner(KeptModel(kept([*some, *rest[1:]]), "w"), 20)
    assert asked_queries(views, one, among, 4, 3)["query"].tolist() == among["query"].tolist()[1:]
    assert len(asked_queries(views, one, among, len(among), 3)) == len(among)
    nothing = Planner(KeptModel(Answers(), "w"), 20)
    drawn = asked_queries(views, nothing, among, 6, 3)
    kinds = frames["gold"].set_index("query")["kind"].loc[drawn["query"]]
    assert len(drawn) == 6
    assert kinds.value_counts().max() <= 3
    nothing.asks = False
    assert asked_queries(views, nothing, among, 6, 3).empty, "nobody to ask"


def test_without_retrieval_hard_gives_nothing_away(worlds):
    """But explicit does: there most requests say their arguments."""
    spelled = {}
    for name in ("explicit", "hard"):
        there = material_of(worlds[name], rankings_in(worlds[name]), BY_SEARCH, 1, 1)
        prompts = there.prompted(there.evaluated, ["upper_bound"])
        spelled[name] = answerable(prompts["prompt"], prompts, there.gold).mean()
    assert spelled["hard"] < 20 < 70 < spelled["explicit"]
