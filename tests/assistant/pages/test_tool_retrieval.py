"""Notebook 06's page: each sentence in each thing it can say, and what tables and figures show."""

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from lib.assistant.pages import tool_retrieval as page
from lib.assistant.pages import tool_retrieval_figures as figures
from lib.assistant.pages import tool_retrieval_tables as tables
from lib.assistant.pages import tool_retrieval_words as words
from lib.assistant.pages.tool_retrieval import Results, cutoffs_of
from lib.assistant.tool_retrieval import ToolTask
from lib.assistant.tool_search import WordEffects, WordingTrial
from lib.evaluation.inference import Resampling

APPS = ["mail", "mail", "notes", "music", "calendar"]
SETTINGS = [*page.MAIN, *page.FLOORS, page.BY_CONTENT, "right_app", "random_app", "context_only"]
REFERENCES = [*page.UNTOUCHED, *page.UNMET]
SEARCHES = [
    f"{name}/{way}" for name in ("query_only", "query_plus_context", "oracle_context") for way in ("bm25t", "rrf")
]


def context(*rows):
    frame = pd.DataFrame(rows, columns=["query", "item", "rank", "app"])
    return frame.assign(title=frame["item"], text=frame["item"])


@pytest.fixture
def task():
    """Four evaluated queries, the last of which no tool fits, and one training query."""
    names = ["q0", "q1", "q2", "q3"]
    queries = pd.DataFrame(
        {
            "query": ["t0", *names],
            "text": ["train", "one", "two", "three", "four"],
            "split": ["training"] + ["evaluation"] * 4,
            "persona": ["p", "a", "a", "b", "b"],
            "need": ["n", "n", "m", "n", "m"],
            "kind": ["habit", "habit", "meaning", "either", "habit"],
        }
    )
    retrieved = context(
        ("q0", "i0", 1, "mail"), ("q1", "i1", 1, "notes"), ("q2", "i2", 1, "mail"), ("q3", "i3", 1, "mail")
    )
    oracle = context(
        ("q0", "i0", 1, "mail"), ("q1", "i1", 1, "notes"), ("q2", "i9", 1, "notes"), ("q3", "i3", 1, "mail")
    )
    return ToolTask(
        queries=queries,
        tools=pd.DataFrame({"item": list("vwxyz"), "app": APPS, "text": ["a mail", "send", "a note", "play", "meet"]}),
        gold=pd.DataFrame({"query": ["t0", "q0", "q1", "q2"], "item": ["v", "v", "y", "x"]}),
        gold_apps=pd.DataFrame({"query": names, "item": ["mail", "music", "notes", "calendar"]}),
        contexts={"query_plus_context": retrieved, "query_plus_semantic_context": oracle, "oracle_context": oracle},
    )


def results_of(task, **levels):
    """Every method finds 40% of everything at every K, unless `levels` says otherwise."""
    cutoffs = cutoffs_of(len(task.tools))
    columns = {
        (method, metric, k): np.full(4, float(levels.get(method.replace("/", "_"), 40)))
        for metric in ("recall", "app_recall")
        for method in [*SETTINGS, *REFERENCES, *SEARCHES]
        for k in cutoffs.all
    }
    scores = pd.DataFrame(columns, index=pd.Index(["q0", "q1", "q2", "q3"], name="query"))
    scores.columns = scores.columns.set_names(["method", "metric", "k"])
    return Results(task, scores, cutoffs, Resampling(task.clusters, 50, 1))


@pytest.fixture
def results(task):
    return results_of(task, query_only=20, oracle_context=70, right_app=60)


def paired(*rows, **columns):
    """Paired tests (a, b, difference); settled where the difference is 5 or more."""
    frame = pd.DataFrame(rows, columns=["a", "b", "difference"]).assign(**columns)
    firm = frame["difference"].abs() >= 5
    return frame.assign(
        ci_low=frame["difference"] - np.where(firm, 1, 9),
        ci_high=frame["difference"] + np.where(firm, 1, 9),
        p_value=np.where(firm, 0.001, 0.5),
        p_holm=np.where(firm, 0.001, 0.5),
    )


def ratios_of(*rows):
    return pd.DataFrame(rows, columns=["k", "ratio", "ci_low", "ci_high"])


# ---------------------------------------------------------------- cutoffs and shared pieces


@pytest.mark.parametrize(
    ("n_tools", "shown", "k"), [(1, [1], 1), (4, [1, 3], 1), (7, [1, 3, 5], 3), (59, [1, 3, 5, 10], 5)]
)
def test_cutoffs_stop_at_the_number_of_tools(n_tools, shown, k):
    cutoffs = cutoffs_of(n_tools)
    assert (cutoffs.shown, cutoffs.k) == (shown, k)
    assert cutoffs.all == list(range(1, min(n_tools, 10) + 1))


def test_a_run_is_named_after_its_retriever_where_it_is_not_semantic_search():
    assert page.named("query_only") == "query alone"
    assert page.named("query_only/random") == "random order"


def test_results_are_means_with_intervals(results):
    assert (results.k, results.n) == (3, 4)
    assert results.mean("oracle_context") == 70
    assert results.interval("query_only", 1) == "20.0 [0.0, 80.2]"  # four queries that do not differ say little


def test_the_report_gets_setting_retriever_and_target(results):
    table = page.published_columns(results)
    assert list(table) == ["setting", "retriever", "target", "k", "recall", "ci_low", "ci_high", "n"]
    assert set(table["target"]) == {"api", "app"}
    plain = table[
        (table["setting"] == "oracle_context") & (table["retriever"] == "semantic") & (table["target"] == "api")
    ]
    assert plain["recall"].tolist() == [70] * 5
    assert set(table["retriever"]) == {
        "semantic", "bm25t", "rrf", "random", "frequency", "classifier", "frequency_unseen", "classifier_unseen",
    }  # fmt: skip


def test_scores_in_rows_leave_other_retrievers_out(results):
    rows = page.scores_in_rows(results, {"query_only": [], "right_app": []})
    assert list(rows) == ["query", "persona", "need", "kind", "method", "metric", "k", "value"]
    assert set(rows["method"]) == {"query_only", "right_app"}
    assert len(rows) == 4 * 2 * 2 * 5


# ---------------------------------------------------------------- what is searched, and with which words


def test_what_is_searched(task):
    table = tables.toolbox(task.tools)
    assert table.frame.loc[0].tolist() == ["Mail", 2, "a mail"]
    assert "The 5 tools" in table.caption
    said = words.evaluated(task, 5)
    assert "4 queries are evaluated. **1** of them (25.0%)" in said
    assert "No method can pass 75.0% at K = 5" in said


def test_the_context_taken():
    found = pd.DataFrame(
        {3: [10.0, 30.0], 5: [20.0, 40.0], 10: [30.0, 50.0], "app": [11.0, 44.0]},
        index=["lambdamart_rrf", "lambdamart"],
    )
    said = words.context_taken(found)
    assert "Taken: **LambdaMART**" in said
    assert "differs from it by −20.0 points" in said
    assert "44.0% with the one taken and for 11.0% with the paper's" in said
    table = tables.context_found(found, 1234)
    assert table.frame["ranking of context"].tolist() == ["LambdaMART-RRF", "LambdaMART"]
    assert "1,234 training queries" in table.caption
    assert set(table.best) == {"Recall@3", "Recall@5", "Recall@10"}


@pytest.fixture
def trial():
    """Names of apps help most, of three items; texts help by their content."""
    options = [("app", 1), ("app", 3), ("title", 1), ("text", 1), ("app: text", 1)]
    gains = [5.0, 8.0, -2.0, 1.0, 3.0]
    recall = pd.DataFrame(
        {3: [*np.add(10, gains).tolist(), 10.0]}, index=[f"{name}|{n}" for name, n in options] + ["query_only"]
    )
    said = {option: pd.Series(["one two", None]) for option in options}
    return WordingTrial(pd.DataFrame({"query": ["a", "b"]}), pd.DataFrame(), said, {}, recall.assign(mean=recall[3]))


def test_the_wording_chosen(trial):
    assert trial.best() == ("app", 3)
    assert "Chosen: **app** of **3** items, +8.0 points" in words.wording_chosen(trial)
    assert "The best of another wording is app: text of 1, 3.0 points" in words.wording_chosen(trial)
    assert "title −2.0, text 1.0 points" in words.content_alone(trial)
    assert "by content alone, text of 1," in words.content_alone(trial)
    table = tables.wordings(trial)
    assert table.frame["wording"].tolist()[-1] == "query alone"
    assert table.frame["words added"].tolist() == [1.0] * 5 + [0.0]
    assert "on 2 training queries" in table.caption


def test_what_the_words_of_one_item_do():
    columns = ["alone", "alone_in_app", "in_app", "recall_right", "recall_elsewhere"]
    rows = {
        "app": [30, 90, 80, 50, 10],
        "title": [11, 20, 21, 22, 23],
        "text": [12, 20, 24, 22, 23],
        "query_only": [np.nan, np.nan, 17, 20, 19],
    }
    effects = WordEffects(pd.DataFrame(rows, index=columns, dtype=float).T, 8, 3, 4)
    said = words.app_name_steers(effects, 5)
    assert (
        "with it 80% of the first 5 tools belong to the first item's app, with the title 21%, with the text 24%" in said
    )
    assert "50.0% where the item lies in the right tool's app (the query alone: 20.0%) and 10.0% elsewhere" in said
    table = tables.effects(effects, 5)
    assert table.frame["words of the first item"].tolist() == ["app", "title", "text"]
    assert "8 training queries" in table.caption
    assert "(3 queries) and 19.0% elsewhere (4, without queries that no tool fits)" in table.caption


# ---------------------------------------------------------------- how many are found


def test_the_figure_of_recall(results):
    drawing = figures.recall_figure(results, "a finding")
    assert (drawing.name, drawing.finding) == ("tool_recall", "a finding")
    assert "At K = 3: query alone 20%" in drawing.alt
    assert "best possible 75%" in drawing.alt
    assert set(drawing.data["method"]) == {*page.MAIN, *page.FLOORS, *page.UNTOUCHED}
    assert len(drawing.figure.axes[0].lines) == len(set(drawing.data["method"])) + 1
    plt.close(drawing.figure)


def test_times_as_many():
    ratios = ratios_of((1, 1.2, 0.9, 1.6), (3, 1.5, 1.1, 2.0), (5, 1.4, 1.0, 1.9))
    said = words.times_as_many(ratios, 3)
    assert said == "1.50 [1.10, 2.00] times as many; 1.20 to 1.50 over K = 1 to 5 (published: 1.5, no K)"


def test_the_finding_of_recall(results):
    said = words.recall_finding(results, "twice")
    assert said == (
        "Among the first 3 tools are 20% of the right ones for the query alone, 40% with retrieved context: twice"
    )


@pytest.mark.parametrize(
    ("gain", "over_random", "over_other", "words_of"),
    [
        (2, 9, 9, "No gain at K = 5 is settled, so whether any added words would bring it is not asked."),
        (-9, 9, 9, "No gain at K = 5 is settled"),
        (9, 8, 7, "Words as such do not explain the gain (retrieved context against random context: 8.0 [7.0, 9.0]"),
        (9, 8, 1, "is not settled against every floor"),
    ],
)
def test_whether_any_words_would_do(gain, over_random, over_other, words_of):
    tests = paired(
        ("query_plus_context", "query_only", gain),
        ("query_plus_context", "query_plus_random_context", over_random),
        ("query_plus_context", "query_plus_other_context", over_other),
    )
    assert words_of in words.beyond_any_words(tests, 5)


def test_one_wording_serves_two_contexts():
    tests = paired(("query_plus_context", "query_only", 1), ("query_plus_context", "query_plus_semantic_context", 8.9))
    assert words.whose_wording(tests).endswith("first in their difference of 8.9 [7.9, 9.9] points (settled).")
    tests.loc[1, "p_holm"] = 0.5
    assert words.whose_wording(tests).endswith("(not settled).")


@pytest.mark.parametrize(("change", "verdict"), [(-8, "−8.0 [−9.0, −7.0] points: settled."), (1, "not settled.")])
def test_context_without_app_names(change, verdict):
    tests = paired(("query_plus_context", "query_only", 9), ("query_plus_context_text", "query_only", change))
    said = words.without_app_names(tests, ("text", 3))
    assert "(text of 3)" in said
    assert said.endswith(verdict)


def test_where_the_published_ratio_is_reached():
    never = ratios_of((1, 1.1, 0.9, 1.3), (3, 1.2, 1.1, 1.4))
    assert words.ratio_finding(never) == (
        "Retrieved context finds 1.10 to 1.20 times as many right tools as the query alone; no estimate reaches 1.5; "
        "1.5 lies within the 95% interval at 0 of 2 K, and 1 at K = 1"
    )
    assert words.where_published_ratio_is_reached(never) == (
        "The estimate reaches 1.5 at 0 of 2 values of K; the interval lies wholly below 1.5 at 2 (1, 3)."
    )
    partly = ratios_of((1, 1.1, 1.05, 1.3), (3, 1.6, 1.1, 1.9), (5, 1.4, 1.2, 1.7))
    assert "the estimate reaches 1.5 at K = 3; 1.5 lies within the 95% interval at 2 of 3 K" in words.ratio_finding(
        partly
    )
    assert words.ratio_finding(partly).endswith("of 3 K")
    assert words.where_published_ratio_is_reached(partly) == (
        "The estimate reaches 1.5 at 1 of 3 values of K (3); the interval lies wholly below 1.5 at 1 (1); undecided: 5."
    )


def test_the_figure_and_table_of_ratios(results):
    ratios = {name: ratios_of(*((k, 1.5, 1.0, 2.0) for k in range(1, 6))) for name in page.MAIN[1:]}
    drawing = figures.ratio_figure(ratios, "a finding")
    assert drawing.alt.endswith(
        "With retrieved context: K = 1: 1.50, K = 2: 1.50, K = 3: 1.50, K = 4: 1.50, K = 5: 1.50"
    )
    assert set(drawing.data["setting"]) == set(page.MAIN[1:])
    plt.close(drawing.figure)
    table = tables.times_as_many(results, ratios)
    assert list(table.frame) == ["gain over the query alone", "K = 1", "K = 3", "K = 5"]
    assert table.frame["K = 3"].tolist() == ["1.50 [1.00, 2.00]"] * 3


def test_tables_of_recall_mark_the_best(results):
    table = tables.recall(results)
    assert table.frame["searched with"].tolist()[0] == "query alone"
    assert table.frame["Recall@5"].tolist()[3] == "70.0 [9.8, 100.0]"
    assert set(table.best) == {"Recall@1", "Recall@3", "Recall@5"}
    assert "n = 4, semantic search over 5 tools" in table.caption
    tests = paired(("query_plus_context", "query_only", 9), ("oracle_context", "query_plus_context", 1))
    differences = figures.differences(results, tests)
    assert differences.data["comparison"].tolist()[0] == "query + retrieved context − query alone"
    assert differences.data["settled"].tolist() == [True, False]
    assert differences.finding == (
        "Retrieved context against the query alone: 9.0 [8.0, 10.0] points of Recall@3, settled"
    )
    assert figures.differences(results, tests[1:]).finding.endswith("1.0 [−8.0, 10.0] points of Recall@3, not settled")


# ---------------------------------------------------------------- apps


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ((9, 1, -9), "context raises app recall at K = 1 and lowers it at K = 5"),
        ((9, 8, 1), "context raises app recall at K = 1, 3; no loss is settled"),
        ((1, 1, 1), "no gain in app recall is settled; no loss is settled"),
        ((1, 1, -9), "no gain in app recall is settled and lowers it at K = 5"),
    ],
)
def test_where_app_recall_changes(changes, said):
    rows = [("query_plus_context", "query_only", change) for change in changes]
    tests = paired(*rows, k=[1, 3, 5])
    assert words.app_finding(tests) == said
    assert tables.app_differences(tests).frame["K"].tolist() == [1, 3, 5]


def test_references_that_find_more_apps_are_named_and_undo_what_was_found(task):
    tests = paired(*[("query_plus_context", "query_only", change) for change in (9, 1, -9)], k=[1, 3, 5])
    low, learned = results_of(task), results_of(task, query_only_classifier=80)
    assert words.apps_settled(low, "nothing") == "Settled: nothing."
    assert words.apps_beyond_floors(low, tests) == words.app_finding(tests)
    assert words.apps_settled(learned, "nothing") == (
        "Settled: nothing. Without a tool's text more apps are found than with context by: classifier of queries at "
        "K = 1 (80.0%), 3 (80.0%), 5 (80.0%)."
    )
    assert words.apps_beyond_floors(learned, tests) == words.app_finding(tests), "it reads the query"
    low.scores["query_only/random", "app_recall", 5] = 70.0
    said = words.apps_settled(low := replace(low), "nothing")
    assert "than with context by: random order at K = 5 (70.0%). At K = 5 that holds of tools in random order" in said
    assert said.endswith("beyond the first results the measure rewards tools spread over apps, not right tools.")
    assert words.apps_beyond_floors(low, tests) == (
        "context raises app recall at K = 1; no loss is settled (of K = 1, 3; at K = 5 a random order or the commonest "
        "tools find more of them than context, so nothing follows)"
    )
    high = results_of(task, query_only_frequency=80)
    assert words.apps_beyond_floors(high, tests).startswith("nothing follows, since at K = 1, 3, 5 a random order")
    assert "Best possible: 100.0 at K = 1" in tables.apps_found(low).caption


def test_apps_of_the_first_tools():
    fewer = words.apps_of_first_tools({"query_only": 3.0, "query_plus_context": 2.0}, 5)
    assert "query alone 3.0, query + retrieved context 2.0. Context concentrates" in fewer
    assert words.apps_of_first_tools({"query_only": 2.0, "query_plus_context": 2.0}, 5).endswith("context 2.0.")


# ---------------------------------------------------------------- who gains, and through what


def groups_of(*changes):
    rows = [("", "", change) for change in changes]
    names = ["resolved by habit", "tool in Mail", "tool in Notes"][: len(changes)]
    return paired(*rows).assign(group=names, n=10, a=30.0, b=20.0)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ((9, -9, 1), "interval agrees: resolved by habit; such losses: tool in Mail"),
        ((9, 8, 1), "interval agrees: resolved by habit, tool in Mail; no such loss"),
        ((1, 1, 1), "No group's gain is significant with an interval that agrees; no such loss"),
    ],
)
def test_who_gains(changes, said):
    assert words.group_finding(groups_of(*changes)).endswith(said)


def test_the_figure_and_tables_of_groups(results):
    parted = groups_of(9, -9, 1)
    drawing = figures.group_figure(parted, 5, "a finding")
    assert drawing.alt.endswith("by group: resolved by habit +9; tool in Mail -9; tool in Notes +1")
    assert drawing.figure.axes[0].get_yticklabels()[0].get_text() == "resolved by habit (n = 10)"
    plt.close(drawing.figure)
    table = tables.groups(results, parted)
    assert table.frame["settled"].tolist() == ["yes", "yes", "no"]
    assert "the 1 queries whose own plan takes no tool" in table.caption
    apart = pd.DataFrame({"first_item": [50.0], "if_named": [12.0], "spelled": [100.0]}, index=["Mail"])
    assert len(tables.gain_by_app(apart.assign(spelled=40.0), parted, 5).frame.columns) == 5
    by_app = tables.gain_by_app(apart, parted, 5).frame
    assert not by_app.columns.str.contains("word of its name").any(), "the same for every app"
    assert by_app.loc[0, "app of the right tool"] == "Mail"
    assert by_app.loc[0, "gain, points"] == -9


def test_what_the_first_item_is(results):
    led = paired(("", "", 9)).assign(group="in the right tool's app", n=2, a=30.0, b=20.0)
    table = tables.first_items(results, led)
    assert table.frame["share, %"].tolist() == [pytest.approx(200 / 3)]
    assert "the 3 queries that some tool fits" in table.caption


def test_how_often_context_misleads(task):
    said = words.how_often_misled(task)
    assert "for 33% of these queries (by semantic search: 67%). Some relevant item does for 67%: for the others" in said
    task.contexts["oracle_context"] = context(("q0", "i", 1, "mail"), ("q1", "i", 1, "music"), ("q2", "i", 1, "notes"))
    assert "does for 100%: a wrong name is a matter of which item comes first" in words.how_often_misled(task)


def test_examples_of_ranks(results):
    ranks = pd.DataFrame({"before": [5, 1, 2], "after": [1, 4, 2]}, index=["q0", "q1", "q2"])
    assert words.rises_and_falls(ranks) == "Of 3 queries, the tool rose for 1 and fell for 1."
    table = tables.examples(results, ranks, ["q1", "q0"], pd.Series({"q0": "Mail"}))
    assert table.frame["query"].tolist() == ["two", "one"]
    assert table.frame["tool it needs"].tolist() == ["y", "v"]
    assert table.frame["rank with context"].tolist() == [4, 1]


def test_an_example_that_default_serves_names_the_tool_that_does_as_well(task):
    task = replace(task, also=pd.DataFrame({"query": ["q3"], "plan": [0], "item": ["w"]}))
    ranks = pd.DataFrame({"before": [5.0, 1], "after": [1.0, 4]}, index=["q3", "q0"])
    table = tables.examples(results_of(task), ranks, ["q3", "q0"], pd.Series(dtype=str))
    assert table.frame["tool it needs"].tolist() == ["w", "v"]


def naming_tests(gain, alone):
    return paired(("query_only", "query_plus_context", gain), ("context_only", "query_plus_context", alone))


@pytest.mark.parametrize(
    ("gain", "alone", "wording", "has", "lacks"),
    [
        (
            -20,
            -9,
            "app",
            ["50% of what the right name gives", "the gain **is** that", "the query still counts."],
            "settled",
        ),
        (-20, 9, "text", ["50% of what", "the query's words only get in its way."], "**is**"),
        (-1, 1, "app", [": no gain is settled. ", "whether the query still counts is not settled at K = 3."], "**is**"),
    ],
)
def test_how_much_naming_explains(results, gain, alone, wording, has, lacks):
    said = words.gain_by_naming(results, naming_tests(gain, alone), wording)
    assert said.startswith("Naming the right app gives 40.0 points of Recall@3, a random app's name 20.0; ")
    for part in has:
        assert part in said
    assert lacks not in said


def test_a_right_name_that_gives_nothing_has_no_share(task):
    nothing = results_of(task, query_only=20, right_app=20)
    said = words.gain_by_naming(nothing, naming_tests(-20, 1), "text")
    assert "retrieved context gives 20.0 points. Without the query's own words" in said


def test_the_number_of_apps_keeps_its_count():
    parts = pd.DataFrame({"n": [3], "query_only": [20.0]}, index=[2])
    frame = tables.by_named_apps(parts, 5).frame
    assert list(frame) == ["apps among the relevant items", "n", "query alone"]
    assert frame.loc[0].tolist() == ["2", 3, 20.0]


def test_what_would_make_it_fake(task):
    by_letter = groups_of(9, 1)
    said = words.repeated_names(by_letter, task.tools, 5)
    assert "40% of the tools' texts have a word of their app's name" in said
    assert "9.0 [8.0, 10.0] points of Recall@5 resolved by habit (n = 10); 1.0" in said
    every = words.repeated_names(by_letter[:1], task.tools.assign(text=task.tools["app"]), 5)
    assert every == (
        "- **Repeated names.** All tools' texts name their app, so its effect cannot be told apart in them; the next "
        "point searches other texts. The right app's name gives 9.0 [8.0, 10.0] points of Recall@5 (n = 10)."
    )
    runs = {f"query_{name}/semantic_terse": value for name, value in (("only", 10.0), ("plus_context", 20.0))}
    scores = results_of(task).scores
    for run, value in runs.items():
        for k in (1, 2, 3, 4, 5):
            scores[run, "recall", k] = value
    other = Results(task, scores, cutoffs_of(5), Resampling(task.clusters, 50, 1))
    over = words.over_other_texts(other, task.tools, ratios_of((3, 2.0, 1.5, 2.5)), "semantic_terse")
    assert "Over terse texts, of which 40% have a word of their app's name" in over
    assert "finds 10.0 [0.0, 70.2]% at K = 3" in over
    assert over.endswith("20.0 [0.0, 80.2]%: 2.00 [1.50, 2.50] times as many.")
    decided = words.needs_that_decide(task)
    assert "(all 5 queries;" in decided
    assert "uncertainty is 1.92 bits, and 0.95 bits" in decided


# ---------------------------------------------------------------- other retrievers, the planner, the claims


def test_retrievers_stand_by_setting(results):
    frame = tables.retrievers(results).frame
    assert frame["searched with"].tolist()[:8] == ["query alone"] * 8
    assert frame["searched with"].tolist()[8:] == ["retrieved context"] * 3 + ["all relevant context"] * 3
    assert len(frame) == 3 * 3 + 5


def test_other_retrievers_are_named_with_what_they_searched(results):
    tests = paired(("query_only/bm25t", "query_only", -9))
    drawing = figures.retriever_differences(results, tests)
    assert drawing.data["comparison"].tolist() == ["BM25T, query alone − semantic search, query alone"]


def test_search_against_references(results):
    tests = paired(
        ("query_plus_context", "query_only/random", 9),
        ("query_plus_context", "query_only/classifier", -9),
        ("query_plus_context", "query_only/frequency", 1),
    )
    said = words.against_references(results, tests)
    assert "Settled below it: random order. Settled above it: classifier. Undecided: commonest tools." in said
    assert "have seen 1 training queries with their plans, and 50% of the evaluated" in said
    none = words.against_references(results, tests[:1])
    assert "Settled above it: none. Undecided: none." in none
    drawing = figures.reference_differences(results, tests)
    assert drawing.data["comparison"].tolist()[0] == "search with retrieved context − random order"


def test_what_the_planner_is_shown(results):
    index = pd.Index(["q0", "q1", "q2"])
    shares = {"query_only": [0, 0, 100], "query_plus_context": [0, 100, 100], "query_only/frequency": [100, 100, 100]}
    whole = pd.DataFrame(shares, index=index, dtype=float)
    table = tables.shown_to_the_planner(whole, results.resampling.among(results.task.answerable), 10)
    assert table.frame["shown to the planner"].tolist()[2] == "commonest tools, whatever the query"
    assert table.frame["all tools shown, %"].tolist()[2] == "100.0 [43.9, 100.0]"  # Wilson's, of 3
    said = words.shut_out(whole, 10)
    assert "for 67% of these queries when the query alone is searched with, for 33% with retrieved context" in said
    assert "and for 0% if everybody were shown the same 10" in said


def test_claims_have_effects_in_their_unit():
    row = {
        "statement": "s", "source": "abstract", "effect": 1.234, "ci_low": 1.0, "ci_high": 2.0, "unit": "fold",
        "k": 5, "n": 60, "p_value": 0.04, "verdict": "reproduced", "reason": "r", "as_claimed": True,
    }  # fmt: skip
    verdicts = pd.DataFrame([row, row | {"unit": "points", "as_claimed": False}])
    assert tables.claims(verdicts).frame["effect here"].tolist() == ["1.23 [1.00, 2.00]", "1.2 [1.0, 2.0]"]
    assert words.claims_counted(verdicts) == "**1 of 2** came out as the paper has them."


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (
            ("app", 1),
            "With the name of the app of the first retrieved item beside the query (a name, not the item's content)",
        ),
        (("text", 3), "With the text of the first 3 retrieved items beside the query (the item's content),"),
        (("app: title", 1), "(the item's content after its app's name),"),
    ],
)
def test_the_answer(results, option, said):
    answer = words.answer(results, option, "twice", "nothing")
    assert said in answer
    assert "**40.0 [0.0, 100.0]%** of the right tools are among the first 3 of 5" in answer
    assert "with the query alone 20.0 [0.0, 80.2]%: twice." in answer
    assert answer.endswith("Of a query's apps: nothing.")
