"""Plans compared, on frames small enough to count by hand."""

import json

import numpy as np
import pandas as pd
import pytest

from lib.assistant.pages import planner_tables as tables
from lib.assistant.pages import planner_words as words
from lib.assistant.plan_comparison import (
    BY_RETRIEVER,
    against_floors,
    claim_scores,
    classifier_floor,
    contrast,
    contrasts,
    effect_of_thought,
    failure_rows,
    failure_shares,
    first_tools,
    guessed_apis,
    needs_no_argument,
    on_common_queries,
    per_query,
    summary,
    sweep_inputs,
    sweep_part,
    sweep_points,
    sweep_tests,
    template_floor,
    two_call_plans,
    variants,
    with_choice,
)
from lib.assistant.planner import ALONE_BY_RANKER, BY_RANKER, SETTINGS, TAUGHT, Desk, Material
from lib.assistant.plans import CAUSES
from lib.evaluation.inference import Resampling
from lib.evaluation.intervals import mean_interval

N = 40
NAMES = [f"q{i:02}" for i in range(N)]
FUNCTIONS = [
    {"name": name, "parameters": {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]}}
    for name in ("open_note", "find_event")
]
ITEMS = pd.DataFrame(
    [(f"i{i}", "ana", "notes" if i % 2 else "calendar", f"T{i}", f"Text {i}") for i in range(12)],
    columns=["item", "persona", "app", "title", "text"],
)
QUERIES = pd.DataFrame(
    {
        "query": NAMES,
        "persona": [f"p{i % 10}" for i in range(N)],
        "text": [f"Request {i}" for i in range(N)],
        "time": pd.Timestamp("2024-03-04 08:50"),
        "place": "home",
    }
)
GOLD = pd.DataFrame(
    {
        "query": NAMES,
        "need": [f"need{i % 4}" for i in range(N)],
        "apis": [["open_note"] if i % 4 else ["default"] for i in range(N)],
        "relevant": [["i1"]] * N,
        "plan": ['open_note(title="T1")' if i % 4 else "default()" for i in range(N)],
        "answers": [json.dumps([{"open_note": {"title": ["T1"]}} if i % 4 else {"default": {}}]) for i in range(N)],
    }
)


def judged(setting, right, **columns):
    """Plans of which the first `right` are right."""
    scores = np.where(np.arange(N) < right, 100.0, 0.0)
    values = {
        "exact_match": scores,
        "executed": scores,
        "right_api": scores,
        "hallucination": 0.0,
        "outside_shown": 0.0,
        "answerable": 100.0,
    }
    frame = {
        "query": NAMES,
        "setting": setting,
        "text": "default()",
        "tools": [["default"]] * N,
        "ast_accuracy": scores,
    }
    clusters = {
        "persona": QUERIES.set_index("query").loc[NAMES, "persona"].tolist(),
        "need": GOLD.set_index("query").loc[NAMES, "need"].tolist(),
    }
    return pd.DataFrame(frame | values | clusters | {"failure": np.where(scores > 0, "", "wrong_api")} | columns)


def study(rights, samples=200):
    plans = pd.concat([judged(setting, right) for setting, right in rights.items()], ignore_index=True)
    return plans, *per_query(plans, QUERIES, GOLD, samples, seed=0)


RIGHTS = dict(zip(SETTINGS, (0, 4, 30, 8, 40), strict=True))


@pytest.fixture
def desk():
    people = pd.DataFrame(columns=["persona", "name", "email", "phone"])
    return Desk(ITEMS, people, FUNCTIONS, {"open_note": "notes", "find_event": "calendar"})


def test_default_needs_no_argument():
    assert needs_no_argument(GOLD).tolist() == [i % 4 == 0 for i in range(N)]


def test_the_summary_has_a_wilson_interval_where_there_is_nothing_to_resample():
    _, scores, resampling = study(RIGHTS)
    published = pd.DataFrame({"setting": ["rag"], "metric": ["ast_accuracy"], "value": [67.35]})
    table = summary(scores, resampling, published).set_index(["setting", "metric"])
    assert list(table.index.get_level_values(0).unique()) == list(SETTINGS)
    row = table.loc[("context_tuned_upper_bound", "ast_accuracy")]
    assert row["value"] == row["ci_high"] == 100
    assert 90 < row["ci_low"] < 92  # Wilson for 40 of 40
    assert table.loc[("rag", "hallucination"), "ci_high"] == pytest.approx(8.76, abs=0.01)  # Wilson for 0 of 40
    assert table.loc[("rag", "ast_accuracy"), "published"] == 67.35
    assert table["published"].notna().sum() == 1
    assert list(table.columns) == ["value", "ci_low", "ci_high", "n", "published"]


def test_contrasts_leave_out_what_cannot_be_and_settle_what_is_clear():
    _, scores, resampling = study(RIGHTS)
    compared = contrasts(scores, resampling)
    outside = compared[compared["metric"] == "outside_shown"]
    assert not outside[["a", "b"]].eq("lower_bound").any(axis=None)
    assert len(compared) == 4 * 6 + 5
    gain = contrast(compared, "context_tuned_rag", "rag")
    assert (gain["difference"], gain["differing"], gain["settled"]) == (65.0, 26, True)
    small = contrast(compared, "rag", "lower_bound")
    assert (small["differing"], small["settled"]) == (4, False)
    assert contrast(compared, "rag", "lower_bound", "hallucination")["differing"] == 0
    assert (compared["p_holm"] >= compared["p_value"]).all()


def test_tools_by_our_ranker_stand_beside_those_of_search():
    rights = RIGHTS | {ALONE_BY_RANKER: 20, BY_RANKER: 36}
    _, scores, resampling = study(rights)
    compared = contrasts(scores, resampling, BY_RETRIEVER, ("ast_accuracy", "right_api"))
    assert len(compared) == 2 * 4, "no planner learned from our ranker's tools"
    assert "is kept for this world" in words.learned_from_our_tools(compared, pd.DataFrame())
    assert contrast(compared, ALONE_BY_RANKER, "rag")["difference"] == pytest.approx(40.0)  # 20 − 4 of 40
    assert contrast(compared, BY_RANKER, "context_tuned_rag", "right_api")["differing"] == 6
    published = pd.DataFrame({"setting": ["rag"], "metric": ["ast_accuracy"], "value": [67.35]})
    table = summary(scores, resampling, published)
    shown = pd.Series({name: 10.0 * place for place, name in enumerate(rights)})
    frame = tables.by_our_ranker(table, shown, N).frame
    assert frame["right tools shown"].tolist() == [10.0, 50.0, 20.0, 60.0]
    assert frame["setting"].str.contains("our ranker").tolist() == [False, True, False, True]
    assert frame["AST accuracy"].str.split().str[0].tolist() == ["10.0", "50.0", "75.0", "90.0"]
    tests = tables.retriever_tests(compared, N).frame
    assert tests["first − second"].str.split().str[0].tolist()[:2] == ["40.0", "15.0"]
    assert "change AST accuracy by 15.0 [" in words.tools_by_our_ranker(compared, shown)
    assert "Context adds 40.0 [" in words.tools_by_our_ranker(compared, shown)
    assert "in 60.0% of the prompts, those of search in 20.0%." in words.tools_by_our_ranker(compared, shown)


def test_the_planner_that_learned_from_our_tools_stands_beside():
    rights = RIGHTS | {ALONE_BY_RANKER: 20, BY_RANKER: 24, TAUGHT[ALONE_BY_RANKER]: 20, TAUGHT[BY_RANKER]: 38}
    _, scores, resampling = study(rights)
    compared = contrasts(scores, resampling, BY_RETRIEVER, ("ast_accuracy",))
    assert list(zip(compared["a"], compared["b"], strict=True)) == list(BY_RETRIEVER)
    order = pd.DataFrame({"follows": [46.0, 79.0], "first": [67.0, 67.0], "right": [45.0, 65.0]})
    text = words.learned_from_our_tools(compared, order.set_axis([BY_RANKER, TAUGHT[BY_RANKER]]))
    assert "Where one call is due, the ranker's first tool is right in 67%. The newly trained planner calls it" in text
    assert text.endswith("in 79%, the first planner in 46%; the API that the new one calls is right in 65%.")
    assert "changes AST accuracy by 35.0 [" in text
    assert "it is 20.0 [" in text
    assert "] points (not settled) above the first planner with tools by search." in text
    assert "Context adds 45.0 [" in text
    table = summary(scores, resampling, pd.DataFrame({"setting": ["rag"], "metric": ["ast_accuracy"], "value": [1.0]}))
    frame = tables.by_our_ranker(table, pd.Series(50.0, list(rights)), N).frame
    assert frame["setting"].str.endswith("learned from such").tolist() == [False, False, True] * 2
    worse = compared.assign(difference=-20.0, ci_low=-30.0, ci_high=-10.0, settled=True)
    text = words.learned_from_our_tools(worse, order.set_axis([BY_RANKER, TAUGHT[BY_RANKER]]))
    assert "it is 20.0 [10.0, 30.0] points (settled) below the first planner" in text


def test_plans_that_follow_the_order_of_their_tools():
    plans = pd.DataFrame(
        {
            "query": ["a", "b", "c", "a", "d"],  # c needs two calls, d none of the tools
            "setting": ["rag", "rag", "rag", "lower_bound", "rag"],
            "tools": [["open_note", "find_event"], ["open_note", "find_event"], ["open_note"], None, ["open_note"]],
            "text": ['open_note(title="T")', 'find_event(title="T")', "default()", "default()", "default()"],
            "right_api": [100.0, 100.0, 0.0, 0.0, 100.0],
        }
    )
    answer = json.dumps([{"find_event": {"title": ["T"]}}])
    gold = pd.DataFrame({"query": list("abcd"), "plan": "x", "answers": answer})
    gold["apis"] = [["open_note"], ["find_event"], ["open_note", "find_event"], ["default"]]
    found = first_tools(plans, gold)
    assert found.index.tolist() == ["rag"]
    assert found.loc["rag"].tolist() == [50.0, 50.0, 100.0]


def test_plans_are_compared_on_queries_that_all_have():
    frames = [pd.DataFrame({"query": list("abc"), "x": 1}), pd.DataFrame({"query": list("bcd"), "x": 2})]
    assert on_common_queries(frames)["query"].tolist() == ["b", "c", "b", "c"]


def test_a_thought_is_compared_on_the_same_queries():
    silent, thinking = judged("context_tuned_rag", 4), judged("context_tuned_rag_cot", 30)
    effect = effect_of_thought(silent, thinking, QUERIES, GOLD, 200, 0).set_index("metric")
    assert effect.loc["right_api", ["without", "with", "difference"]].tolist() == [10.0, 75.0, 65.0]
    assert effect["settled"].all()
    assert not effect_of_thought(silent, silent.assign(setting="context_tuned_rag_cot"), QUERIES, GOLD, 200, 0)[
        "settled"
    ].any()


def test_scores_of_claims_name_persona_and_need():
    scores = claim_scores(judged("rag", 1), QUERIES, GOLD)
    assert scores.groupby("metric").size().to_dict() == {
        "ast_accuracy": N,
        "exact_match": N,
        "executed": N,
        "hallucination": N,
        "right_api": N,
    }
    row = scores[(scores["query"] == "q05") & (scores["metric"] == "right_api")].iloc[0]
    assert (row["persona"], row["need"], row["k"], row["method"], row["value"]) == ("p5", "need1", 1, "rag", 0.0)


def test_floors_fill_in_the_title_of_the_first_item_of_the_apps(desk):
    inputs = pd.DataFrame({"query": ["q01"], "setting": "context_tuned_rag", "items": [["i0", "i1"]]})
    template = template_floor(desk, inputs.assign(tools=[["open_note"]]), GOLD)
    assert template[["text", "ast_accuracy"]].values.tolist() == [['open_note(title="T1")', 100.0]]
    for guess, plan in {"find_event": 'find_event(title="T0")', "default": "default()"}.items():
        guessed = classifier_floor(desk, inputs.assign(tools=[["open_note"]]), pd.Series({"q01": guess}), GOLD)
        assert guessed[["text", "ast_accuracy"]].values.tolist() == [[plan, 0.0]]


def test_the_classifier_learns_from_training_queries_alone():
    gold = GOLD.assign(apis=[["a"] if i % 2 else ["b"] for i in range(N)])
    vectors = np.array([[1.0, 0.0] if i % 2 else [0.0, 1.0] for i in range(N)])
    guesses, commonest = guessed_apis(vectors, QUERIES, gold, NAMES[:21], ["q30", "q31"])
    assert guesses.to_dict() == {"q30": "b", "q31": "a"}
    assert commonest == "b"  # 11 of the first 21


def test_the_planner_is_set_against_each_floor_where_it_is():
    plans = pd.concat([judged(setting, right) for setting, right in RIGHTS.items()])
    floors = {
        "template": pd.concat([judged("context_tuned_rag", 2), judged("context_tuned_upper_bound", 40)]),
        "classifier": judged("context_tuned_rag", 28),
    }
    found = against_floors(plans, floors, QUERIES, GOLD, 200, 0)
    assert found[["setting", "floor", "of_planner", "of_floor", "settled"]].values.tolist() == [
        ["context_tuned_rag", "template", 75.0, 5.0, True],
        ["context_tuned_upper_bound", "template", 100.0, 100.0, False],
        ["context_tuned_rag", "classifier", 75.0, 70.0, False],
    ]


def test_choices_and_failures_are_read_off_the_plans():
    plans = judged("rag", 10)
    plans["tools"] = [None, ["open_note"], *[["default"]] * (N - 2)]
    plans["text"] = ["what?", "open_note(", *["default()"] * (N - 2)]
    chosen = with_choice(plans, GOLD)
    assert chosen["shows"].head(5).tolist() == [False, True, False, False, True]
    assert chosen["first"].head(3).tolist() == ["none", "open_note", "default"]
    shares = failure_shares(plans)
    assert list(shares.index) == list(SETTINGS)
    assert shares.loc["rag", ["", "wrong_api", "unparsed"]].tolist() == [25.0, 75.0, 0.0]


def test_causes_of_failure_have_intervals_over_personas_and_needs():
    plans = pd.concat([judged(setting, 10) for setting in SETTINGS])
    rows = failure_rows(plans)
    assert rows["percent"].groupby(rows["setting"]).sum().eq(100).all()
    assert len(rows) == len(SETTINGS) * (1 + len(CAUSES))
    row = rows.set_index(["setting", "failure"]).loc[("rag", "wrong_api")]
    assert row["percent"] == 75
    over = Resampling([plans["persona"].to_numpy()[:N], plans["need"].to_numpy()[:N]])
    low, high = mean_interval(np.where(np.arange(N) < 10, 0.0, 100.0), over)
    assert row[["ci_low", "ci_high"]].tolist() == pytest.approx([low, high])


def test_a_sweep_varies_one_thing_at_a_time(desk):
    rankings = pd.DataFrame(
        [(setting, "q01", f"api{i}", i) for setting in ("query_only", "query_plus_context") for i in range(1, 31)],
        columns=["setting", "query", "item", "rank"],
    )
    retrieved = pd.DataFrame([("q01", f"i{i}", i + 1) for i in range(12)], columns=["query", "item", "rank"])
    desk.signatures |= {f"api{i}": f"api{i}()" for i in range(31)}
    material = Material(desk, QUERIES, GOLD, rankings, retrieved, 5, 3)
    inputs = sweep_inputs(material, QUERIES[1:2])
    found = [(row.varied, row.number, len(row.tools), len(row.items)) for row in inputs.itertuples()]
    assert found == [
        ("tools", 1, 2, 3),
        ("tools", 20, 21, 3),
        ("items", 1, 1, 1),
        ("items", 3, 1, 3),
        ("items", 10, 1, 10),
        ("titles", 3, 1, 3),
    ]
    assert ("Text 1" in inputs["prompt"].iloc[3], "Text 1" in inputs["prompt"].iloc[5]) == (True, False)
    tuned = material.prompted(QUERIES[1:2], ["rag", "context_tuned_rag"])
    assert tuned["tools"].map(len).tolist() == [6, 6]
    assert "Context:" not in tuned["prompt"].iloc[0]


def test_points_of_a_sweep_are_tested_against_the_usual_one():
    parts = [("tools", 5, 20), ("tools", 1, 0), ("items", 3, 20), ("items", 10, 15), ("titles", 3, 0)]
    sweep = pd.concat([judged("x", right, varied=varied, number=n, tokens=n) for varied, n, right in parts])
    points = sweep_points(sweep).set_index(["varied", "number"])
    assert points.loc[("items", 10), ["n", "tokens", "ast_accuracy"]].tolist() == [N, 10, 37.5]
    assert points.loc[("items", 10), "ast_accuracy_low"] < 37.5 < points.loc[("items", 10), "ast_accuracy_high"]
    tests = sweep_tests(sweep, n_tools=5, n_items=3)
    assert tests[tests["metric"] == "right_api"][["varied", "number", "difference"]].values.tolist() == [
        ["items", 10, -12.5],
        ["titles", 3, -50.0],
        ["tools", 1, -50.0],
    ]
    assert tests["settled"].tolist() == [False, False, True, True, True, True]
    assert (tests["ci_low"] < tests["difference"]).all()
    assert (tests["difference"] < tests["ci_high"]).all()
    assert sweep_part(sweep, "items", 10)["ast_accuracy"].sum() == 1500


def test_a_point_of_a_sweep_that_differs_in_one_need_alone_is_not_settled():
    """Ten queries about one need say little of other needs."""
    one_need = np.where(np.arange(N) < 10, "a", "b")
    frames = [judged("x", right, varied="tools", number=n, tokens=n) for n, right in ((5, 10), (1, 0))]
    frames.append(judged("x", 0, varied="items", number=3, tokens=3))
    tests = sweep_tests(pd.concat(frames).assign(need=np.tile(one_need, 3)), n_tools=5, n_items=3)
    assert (tests["p_holm"] > 0.05).all()
    assert (tests["ci_high"] > 0).all()
    assert not tests["settled"].any()


def test_plans_of_two_calls_are_read_call_by_call():
    first, second = 'open_note(title="T1")', 'find_event(title="T0")'
    answers = json.dumps([{"open_note": {"title": ["T1"]}}, {"find_event": {"title": ["T0"]}}])
    gold = pd.DataFrame(
        {"query": "a", "apis": [["open_note", "find_event"]], "plan": f"{first}\n{second}", "answers": answers}
    )
    plans = pd.DataFrame({"query": "a", "text": [f"{first}\n{second}", f"{second}\n{first}", first, "?"]})
    found = two_call_plans(plans, gold, FUNCTIONS)
    assert found["pair"].tolist() == [True, True, False, False]
    assert found["first_right"].tolist() == [True, False, True, False]


def test_all_variants_stand_in_one_table():
    points = sweep_points(judged("x", 10, varied="items", number=3, tokens=70.0))
    table = variants(points, {"": judged("context_tuned_rag_cot", 4), "_two_calls_at_once": judged("rag", 0)})
    assert table["variant"].tolist() == ["items", "context_tuned_rag_cot", "rag_two_calls_at_once"]
    assert table["ast_accuracy"].tolist() == [25.0, 10.0, 0.0]
    assert list(table.columns[:5]) == ["variant", "number", "n", "tokens", "ast_accuracy"]
    assert (table["ast_accuracy_low"] <= table["ast_accuracy"]).all()
    assert (table["right_api_high"] >= table["right_api"]).all()
