"""Plans compared, on frames small enough to count by hand."""

import json

import numpy as np
import pandas as pd
import pytest

from lib.assistant.pages import planner_tables as tables
from lib.assistant.plan_comparison import (
    BY_RETRIEVER,
    against_floors,
    claim_scores,
    classifier_floor,
    contrasts,
    effect_of_thought,
    failure_rows,
    failure_shares,
    guessed_apis,
    needs_no_argument,
    per_query,
    summary,
    template_floor,
    two_call_plans,
    variants,
)
from lib.assistant.planner import ALONE_BY_RANKER, BY_RANKER, SETTINGS, Desk
from lib.assistant.plans import CAUSES
from lib.evaluation.inference import Resampling, mean_interval

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


def contrast(compared, a, b, metric="ast_accuracy"):
    return compared[(compared["metric"] == metric) & (compared["a"] == a) & (compared["b"] == b)].iloc[0]


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
    assert list(table.columns) == ["value", "ci_low", "ci_high", "n_topics", "n", "over_queries", "published"]


def test_contrasts_leave_out_what_cannot_be_and_settle_what_is_clear():
    _, scores, resampling = study(RIGHTS)
    compared = contrasts(scores, resampling)
    outside = compared[compared["metric"] == "outside_shown"]
    assert not outside[["a", "b"]].eq("lower_bound").any(axis=None)
    assert len(compared) == 4 * 6 + 5
    gain = contrast(compared, "context_tuned_rag", "rag")
    assert (gain["difference"], gain["differing"], gain["settled"]) == (65.0, 26, True)
    small = contrast(compared, "rag", "lower_bound")
    assert small["differing"] == 4
    assert contrast(compared, "rag", "lower_bound", "hallucination")["differing"] == 0


def test_tools_by_our_ranker_stand_beside_those_of_search():
    rights = RIGHTS | {ALONE_BY_RANKER: 20, BY_RANKER: 36}
    _, scores, resampling = study(rights)
    compared = contrasts(scores, resampling, BY_RETRIEVER, ("ast_accuracy", "right_api"))
    assert len(compared) == 2 * 4, "no planner learned from our ranker's tools"
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


def test_the_classifier_learns_from_training_queries_alone():
    gold = GOLD.assign(apis=[["a"] if i % 2 else ["b"] for i in range(N)])
    vectors = np.array([[1.0, 0.0] if i % 2 else [0.0, 1.0] for i in range(N)])
    guesses = guessed_apis(vectors, QUERIES, gold, NAMES[:21], ["q30", "q31"])
    assert guesses.to_dict() == {"q30": "b", "q31": "a"}


def test_floors_fill_in_the_title_of_the_first_item_of_the_apps(desk):
    inputs = pd.DataFrame({"query": ["q01"], "setting": "context_tuned_rag", "items": [["i0", "i1"]]})
    template = template_floor(desk, inputs.assign(tools=[["open_note"]]), GOLD)
    assert template[["text", "ast_accuracy"]].values.tolist() == [['open_note(title="T1")', 100.0]]
    for guess, plan in {"find_event": 'find_event(title="T0")', "default": "default()"}.items():
        guessed = classifier_floor(desk, inputs.assign(tools=[["open_note"]]), pd.Series({"q01": guess}), GOLD)
        assert guessed[["text", "ast_accuracy"]].values.tolist() == [[plan, 0.0]]


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
    shares = failure_shares(plans)
    assert list(shares.index) == list(SETTINGS)
    assert shares.loc["rag", ["", "wrong_api", "unparsed"]].tolist() == [25.0, 75.0, 0.0]


def test_causes_of_failure_have_intervals_over_topics():
    plans = pd.concat([judged(setting, 10) for setting in SETTINGS])
    rows = failure_rows(plans)
    assert rows["percent"].groupby(rows["setting"]).sum().eq(100).all()
    assert len(rows) == len(SETTINGS) * (1 + len(CAUSES))
    row = rows.set_index(["setting", "failure"]).loc[("rag", "wrong_api")]
    found = mean_interval(np.where(np.arange(N) < 10, 0.0, 100.0), Resampling(plans["need"].to_numpy()[:N]))
    assert row[["percent", "ci_low", "ci_high"]].tolist() == pytest.approx(list(found))


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
    table = variants({"": judged("context_tuned_rag_cot", 4), "_two_calls_at_once": judged("rag", 0)})
    assert table["variant"].tolist() == ["context_tuned_rag_cot", "rag_two_calls_at_once"]
    assert table["ast_accuracy"].tolist() == [10.0, 0.0]
    assert list(table.columns[:5]) == ["variant", "n", "ast_accuracy", "ast_accuracy_low", "ast_accuracy_high"]
    assert (table["ast_accuracy_low"] <= table["ast_accuracy"]).all()
    assert (table["right_api_high"] >= table["right_api"]).all()
