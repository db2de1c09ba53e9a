import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from lib.assistant.leaks import api_classifier
from lib.assistant.schemas import InputError
from lib.assistant.tool_retrieval import (
    WORDINGS,
    ToolTask,
    app_run,
    appendix_text,
    apps_of_tools,
    best_context,
    best_rank,
    ceiling,
    chance_of_any_plan,
    classifier_scores,
    context_words,
    first_item_in_app,
    frequency_scores,
    gold_tools,
    oracle_context,
    other_tools,
    others_context,
    random_app_recall,
    random_context,
    recall_of_context,
    scores_on_unseen_needs,
    setting_texts,
    share_found_whole,
    task_of_functions,
    task_of_world,
    tool_pairs,
    tool_scores,
    tool_texts,
    trained_scores,
    with_words,
)
from lib.assistant.toolbox import FunctionAPI, Toolbox
from lib.retrieval.stores import rank_pairs

TOOLS = pd.DataFrame(
    {
        "item": ["open_note", "send_mail", "read_mail", "call"],
        "app": ["notes", "mail", "mail", "phone_call"],
        "text": ["open note", "send mail", "read mail", "call somebody"],
    }
)


def run_of(**ranked):
    rows = [(query, item, rank) for query, names in ranked.items() for rank, item in enumerate(names, start=1)]
    return pd.DataFrame(rows, columns=["query", "item", "rank"])


@pytest.fixture
def world():
    """Four queries of two personas; q0 and q1 train. The labels of q2 start with the plan's item, which sorts last."""
    queries = pd.DataFrame(
        {
            "query": ["q0", "q1", "q2", "q3"],
            "persona": ["p", "p", "r", "r"],
            "split": ["training", "training", "evaluation", "evaluation"],
            "text": ["where", "who", "what", "anything"],
        }
    )
    gold = queries[["query", "split"]].assign(
        need=["n", "n", "m", "o"],
        kind=pd.Categorical(["habit", "meaning", "habit", "either"]),
        relevant=[["a"], ["b"], ["e", "d", "c"], ["c"]],
        apis=[["call"], ["read_mail"], ["send_mail", "open_note"], ["default"]],
        apps=[["mail", "notes", "music"]] * 4,
    )
    items = pd.DataFrame(
        {
            "item": list("abcde"),
            "persona": list("pprrr"),
            "app": ["mail", "notes", "notes", "notes", "calendar"],
            "title": ["A", "B", "C", "D", "E"],
            "text": ["A a", "B b", "C c", "D d", "E e"],
        }
    )
    retrieved = run_of(q0=["a", "b"], q1=["b", "a"], q2=["d", "e"], q3=["c", "d"])
    toolbox = TOOLS.rename(columns={"item": "api"})
    return task_of_world(queries, gold, items, toolbox, {"query_plus_context": retrieved}, seed=3)


def test_a_query_that_no_tool_fits_has_no_gold(world):
    assert world.gold.to_records(index=False).tolist() == [
        ("q0", "call"),
        ("q1", "read_mail"),
        ("q2", "send_mail"),
        ("q2", "open_note"),
    ]


def test_a_call_made_twice_is_one_tool():
    assert gold_tools(pd.Series(["q"]), pd.Series([["call", "call"]]))["item"].tolist() == ["call"]


def test_only_evaluation_queries_are_evaluated(world):
    assert world.evaluated["query"].tolist() == ["q2", "q3"]
    assert world.units.tolist() == ["m", "o"]


def test_the_oracle_does_not_tell_the_plans_item(world):
    oracle = world.contexts["oracle_context"]
    assert oracle[oracle["query"] == "q2"].sort_values("rank")["item"].tolist() == ["c", "d", "e"]


def test_random_context_is_the_personas_own_and_seeded(world):
    random = world.contexts["query_plus_random_context"]
    assert set(random["query"]) == {"q2", "q3"}
    assert set(random[random["query"] == "q2"]["item"]) == {"c", "d", "e"}
    queries = pd.DataFrame({"query": [f"q{i}" for i in range(50)], "persona": "p"})
    items = pd.DataFrame({"item": list("abcdef"), "persona": "p"})
    first, again, other = (random_context(queries, items, seed) for seed in (1, 1, 2))
    pd.testing.assert_frame_equal(first, again)
    assert not first["item"].equals(other["item"])
    assert first[first["rank"] == 1]["item"].nunique() == 6


def test_another_querys_context_is_never_its_own():
    queries = [f"q{i}" for i in range(9)]
    run = run_of(**{query: [f"of {query}", "second"] for query in queries}, elsewhere=["x"])
    given = others_context(run, queries, seed=5)
    firsts = given[given["rank"] == 1].set_index("query")["item"]
    assert sorted(firsts.index) == queries
    assert sorted(firsts) == sorted(f"of {query}" for query in queries)
    assert all(item != f"of {query}" for query, item in firsts.items())


@pytest.mark.parametrize(
    ("wording", "words"),
    [
        ("app", "Notes, Mail"),
        ("title", "T1, T2, T3"),
        ("text", "one, two, three"),
        ("app: title", "Notes: T1, Notes: T2, Mail: T3"),
        ("app: text", "Notes: one, Notes: two, Mail: three"),
    ],
)
def test_context_in_words_best_first_and_each_wording_once(wording, words):
    context = pd.DataFrame(
        {
            "query": "q",
            "rank": [3, 1, 2, 4],
            "app": ["mail", "notes", "notes", "music"],
            "title": ["T3", "T1", "T2", "T4"],
            "text": ["three", "one", "two", "four"],
        }
    )
    assert context_words(context, wording, 3).to_dict() == {"q": words}
    assert set(WORDINGS) == {"app", "title", "text", "app: title", "app: text"}


def test_words_follow_their_query_and_a_query_without_context_stays():
    queries = pd.DataFrame({"query": ["q1", "q2"], "text": ["first", "second"]})
    assert with_words(queries, pd.Series({"q2": "Mail"})) == ["first", "second Mail"]


def test_what_is_searched_with(world):
    texts = setting_texts(world, "app", 1)
    assert texts["query_only"] == ["what", "anything"]
    assert texts["query_plus_context"] == ["what Notes", "anything Notes"]
    assert texts["oracle_context"] == ["what Notes, Calendar", "anything Notes"]


def test_titles_of_all_items_are_the_oracles(world):
    texts = setting_texts(world, "title", 2)
    assert texts["query_plus_context"][0] == "what D, E"
    assert texts["oracle_context"][0] == "what C, D, E"


def test_apps_of_tools_are_named_once_and_in_alphabetical_order():
    gold = pd.DataFrame({"query": "q", "item": ["open_note", "send_mail", "read_mail"]})
    assert apps_of_tools(gold, TOOLS)["app"].tolist() == ["mail", "notes"]


def test_every_tool_is_a_candidate_of_every_query(world):
    pairs = tool_pairs(world.evaluated, world.tools)
    assert len(pairs) == 8
    assert pairs.groupby("query")["item"].nunique().tolist() == [4, 4]
    assert (world.tools["item"].to_numpy()[pairs["item_row"]] == pairs["item"]).all()


def test_frequency_counts_plans_of_training(world):
    pairs = tool_pairs(world.evaluated, world.tools)
    gold = pd.DataFrame({"query": ["x", "y", "z"], "item": ["call", "call", "read_mail"]})
    scores = pd.Series(frequency_scores(pairs, gold), index=pairs["item"])
    assert scores["call"].eq(2).all()
    assert scores["read_mail"].eq(1).all()
    assert scores["open_note"].eq(0).all()


def test_a_classifier_scores_the_tools_it_learned(world):
    rng = np.random.default_rng(0)
    vectors = np.vstack([rng.normal([0, 3], 0.1, (20, 2)), rng.normal([3, 0], 0.1, (20, 2))])
    model = api_classifier(vectors, pd.Series(["call"] * 20 + ["send_mail"] * 20))
    pairs = tool_pairs(world.evaluated, world.tools)
    scores = classifier_scores(pairs, np.array([[0.0, 3.0], [3.0, 0.0]]), model)
    table = pairs.assign(score=scores).pivot(index="query", columns="item", values="score")
    assert table.loc["q2", "call"] > 0.9 > 0.1 > table.loc["q2", "send_mail"]
    assert table.loc["q3", "send_mail"] > 0.9
    assert (table[["open_note", "read_mail"]] == 0).all(axis=None)


def test_an_app_stands_where_its_first_tool_does():
    apps = app_run(run_of(q=["send_mail", "read_mail", "call", "open_note"]), TOOLS)
    assert apps[["item", "rank"]].to_records(index=False).tolist() == [("mail", 1), ("phone_call", 3), ("notes", 4)]


def test_recall_of_tools_and_of_apps(world):
    runs = {"m": run_of(q2=["send_mail", "read_mail", "open_note", "call"], q3=["open_note", "call"])}
    scores = tool_scores(runs, world, ["q2", "q3"], [1, 2, 3])
    assert scores.loc["q2", "m"]["recall"].tolist() == [50, 50, 100]
    assert scores.loc["q3", "m"]["recall"].tolist() == [0, 0, 0], "no tool fits: nothing to find, and counted"
    np.testing.assert_allclose(scores.loc["q2", "m"]["app_recall"], [100 / 3, 100 / 3, 200 / 3])
    assert scores.index.tolist() == ["q2", "q3"]


def test_the_best_possible_recall_is_bounded_by_cutoff_and_missing_tools(world):
    assert ceiling(world.gold, ["q2", "q3"], [1, 2, 3]) == [25, 50, 50]
    assert ceiling(world.gold, ["q0", "q2"], [1]) == [75]


def test_all_tools_of_a_plan_or_none(world):
    runs = {"m": run_of(q0=["call"], q2=["send_mail", "call", "open_note"], q3=["call"])}
    scores = tool_scores(runs, world, ["q0", "q2", "q3"], [2, 3])
    assert share_found_whole(scores, world.gold, ["m"], 2)["m"].to_dict() == {"q0": 100, "q2": 0}
    assert share_found_whole(scores, world.gold, ["m"], 3)["m"].to_dict() == {"q0": 100, "q2": 100}


def test_the_rank_of_the_first_right_tool(world):
    run = run_of(q2=["call", "open_note", "send_mail"], q3=["call"])
    assert best_rank(run, world.gold).to_dict() == {"q2": 2}


def toolbox_of(*names):
    return Toolbox([FunctionAPI.from_definition({"name": name, "description": name}) for name in names])


def test_a_file_of_queries_has_neither_context_nor_apps():
    queries = pd.DataFrame(
        {"query": ["a", "b"], "text": ["add", "none"], "apis": [["math.add", "math.add"], ["default"]], "place": ""}
    )
    task = task_of_functions(queries, toolbox_of("math.add", "math.halve"))
    assert task.contexts == {}
    assert task.evaluated["query"].tolist() == ["a", "b"]
    assert task.units.tolist() == ["a", "b"]
    scores = tool_scores({"query_only": run_of(a=["math.add"], b=["math.add"])}, task, ["a", "b"], [1])
    assert scores.columns.tolist() == [("query_only", "recall", 1)]
    assert scores.iloc[:, 0].tolist() == [100, 0]


def test_an_answer_outside_the_toolbox_is_one_clear_error():
    queries = pd.DataFrame({"query": ["a"], "text": ["add"], "apis": [["math.ad"]], "place": ["q.json, line 3"]})
    words = r"^q\.json, line 3, query a: its answer calls math\.ad, which is not in the toolbox; did you mean math\.add"
    with pytest.raises(InputError, match=words):
        task_of_functions(queries, toolbox_of("math.add"))


def test_the_oracle_numbers_items_from_one():
    gold = pd.DataFrame({"query": ["b", "a"], "relevant": [["y", "x"], ["z"]]})
    assert oracle_context(gold).to_records(index=False).tolist() == [("a", "z", 1), ("b", "x", 1), ("b", "y", 2)]


def test_a_task_is_not_changed_by_accident(world):
    with pytest.raises(AttributeError):
        world.gold = pd.DataFrame()
    assert isinstance(world, ToolTask)


def test_methods_of_context_are_compared_on_the_queries_given():
    rankings = pd.concat(
        [
            run_of(q=["a", "b", "c"], other=["z"]).assign(method="good"),
            run_of(q=["c", "a"], other=["x"]).assign(method="poor"),
        ]
    )
    gold = pd.DataFrame({"query": ["q"], "relevant": [["a", "b"]]})
    table = recall_of_context(rankings, gold, [1, 2])
    assert table.loc["good"].tolist() == [50, 100]
    assert table.loc["poor"].tolist() == [0, 50]


@pytest.mark.parametrize(
    ("recall", "taken"),
    [
        ({"semantic": 57.0, "lambdamart": 74.6, "lambdamart_rrf": 74.7}, "lambdamart"),
        ({"semantic": 74.3, "lambdamart": 74.6, "lambdamart_rrf": 74.7}, "semantic"),
        ({"semantic": 57.0, "lambdamart": 70.0, "lambdamart_rrf": 74.7}, "lambdamart_rrf"),
        ({"mine": 80.0, "semantic": 57.0}, "mine"),
    ],
)
def test_of_two_rankings_of_context_that_are_as_good_the_simpler_one_is_taken(recall, taken):
    found = pd.DataFrame({3: recall, 10: recall, "app": dict.fromkeys(recall, 99.0)})
    assert best_context(found) == taken


def test_how_often_the_first_item_names_the_right_app():
    items = pd.DataFrame({"item": ["a", "b"], "app": ["mail", "notes"]})
    rankings = pd.concat(
        [
            run_of(q=["a", "b"], r=["b", "a"], no_tool=["a"]).assign(method="one"),
            run_of(q=["b", "a"], r=["b", "a"]).assign(method="two"),
        ]
    )
    apps = pd.DataFrame({"query": ["q", "q", "r"], "app": ["mail", "music", "mail"]})
    assert first_item_in_app(rankings, items, apps).to_dict() == {"one": 50, "two": 0}


def test_tool_texts_of_the_paper_name_the_app():
    toolbox = Toolbox.from_yaml("data/toolbox.yaml")
    frame = pd.DataFrame(
        [(api.api, api.app, api.text, json.dumps(api.function)) for api in toolbox],
        columns=["api", "app", "text", "function"],
    )
    texts = dict(zip(frame["api"], tool_texts(frame, "paper"), strict=True))
    assert texts["read_mail"].startswith("Mail App's read_mail API is used to ")
    described = toolbox["read_mail"].description
    assert described[1:] in texts["read_mail"]
    assert texts["read_mail"].endswith(
        "; ".join(f"{n}: {a.description}" for n, a in toolbox["read_mail"].arguments.items())
    )
    assert tool_texts(frame, "terse") == frame["text"].tolist()
    homeless = frame.assign(app=None)
    assert tool_texts(homeless, "paper") == frame["text"].tolist(), "a tool of no app keeps its text"


def test_a_description_in_the_papers_form_stays():
    function = {"name": "f", "description": "Messages App's f API is used to read."}
    assert appendix_text("Mail", function) == function["description"]
    assert appendix_text("Mail", function | {"description": "Read."}) == "Mail App's f API is used to read."


@pytest.fixture
def taught():
    """Two needs, told apart by the vector; the plan of each calls its own tool."""
    known = pd.Index([f"k{i}" for i in range(20)] + ["unknown plan"])
    asked = pd.DataFrame({"query": ["x", "y"]})
    gold = pd.DataFrame({"query": known[:20], "item": ["call"] * 12 + ["send_mail"] * 8})
    gold = pd.concat([gold, pd.DataFrame({"query": ["x", "y"], "item": ["read_mail", "read_mail"]})])
    needs = pd.Series(["n"] * 12 + ["m"] * 9 + ["n", "m"], index=[*known, "x", "y"])
    vectors = np.array([[3.0, 0.0], [0.0, 3.0]])
    known_vectors = np.repeat(vectors, [12, 9], axis=0)
    return tool_pairs(asked, TOOLS), vectors, gold, known, known_vectors, needs


def firsts(pairs, scores):
    ranked = rank_pairs(pairs, scores)
    return ranked[ranked["rank"] == 1].set_index("query")["item"].to_dict()


def test_trained_floors_know_training_plans_alone(taught):
    pairs, vectors, gold, known, known_vectors, _ = taught
    scores = trained_scores(pairs, vectors, gold, known, known_vectors)
    assert scores["frequency"].max() == 12
    assert scores["frequency"][(pairs["item"] == "read_mail").to_numpy()].tolist() == [0, 0]
    assert firsts(pairs, scores["frequency"]) == {"x": "call", "y": "call"}
    assert firsts(pairs, scores["classifier"]) == {"x": "call", "y": "send_mail"}


def test_a_classifier_of_one_tool_or_none_is_a_count(taught):
    pairs, vectors, gold, known, known_vectors, _ = taught
    for n in (12, 0):
        scores = trained_scores(pairs, vectors, gold, known[:n], known_vectors[:n])
        np.testing.assert_array_equal(scores["classifier"], scores["frequency"])
        assert scores["frequency"].max() == n


def test_on_unseen_needs_nothing_was_learned_from_the_same_need(taught):
    pairs, vectors, gold, known, known_vectors, needs = taught
    scores = scores_on_unseen_needs(pairs, vectors, gold, known, known_vectors, needs, seed=0, folds=2)
    for name in ("frequency", "classifier"):
        assert firsts(pairs, scores[name]) == {"x": "send_mail", "y": "call"}


def test_a_random_order_finds_large_apps_more_often(world):
    table = random_app_recall(world, ["q2", "none"], [1, 2, 4])
    # mail has 2 of 4 tools, notes 1, music none
    np.testing.assert_allclose(table.loc["q2"], [25, 100 * (5 / 6 + 1 / 2) / 3, 200 / 3])
    assert (table.loc["none"] == 0).all()


# ---------------------------------------------------------------- plans that do as well

OTHERS = pd.DataFrame(
    [("q2", ["call"]), ("q2", ["read_mail", "read_mail", "call"]), ("q3", ["default"])], columns=["query", "apis"]
)


def test_other_plans_are_tools_of_their_own(world):
    tools = other_tools(OTHERS)
    assert tools.to_records(index=False).tolist() == [("q2", 0, "call"), ("q2", 1, "read_mail"), ("q2", 1, "call")]
    also = replace(world, also=tools)
    assert also.plans_of("q2") == [["send_mail", "open_note"], ["call"], ["read_mail", "call"]]
    assert also.plans_of("q3") == []
    assert also.plans_of("q0") == [["call"]]
    right = also.right
    assert right[right["query"] == "q2"]["item"].tolist() == ["send_mail", "open_note", "call", "read_mail"]
    assert also.answerable.tolist() == [True, False], "that no tool fits is no tool"


def test_a_query_is_served_by_the_plan_of_which_most_is_found(world):
    runs = {
        "gold": run_of(q2=["send_mail", "open_note"], q3=["call"]),
        "other": run_of(q2=["call", "send_mail"], q3=["call"]),
        "half": run_of(q2=["read_mail", "open_note"], q3=["call"]),
    }
    task = replace(world, also=other_tools(OTHERS))
    names = ["q2", "q3"]
    before, after = tool_scores(runs, world, names, [1, 2]), tool_scores(runs, task, names, [1, 2])
    assert before.loc["q2"].xs("recall", level="metric").tolist() == [50, 100, 0, 50, 0, 50]
    assert after.loc["q2"].xs("recall", level="metric").tolist() == [50, 100, 100, 100, 50, 50]
    pd.testing.assert_series_equal(after.loc["q3"], before.loc["q3"])
    apps = [column for column in after if column[1] == "app_recall"]
    pd.testing.assert_frame_equal(after[apps], before[apps])
    assert share_found_whole(after, task.right, ["other"], 1)["other"].to_dict() == {"q2": 100}


def test_without_other_plans_no_score_moves(world):
    runs = {"one": run_of(q2=["call", "send_mail"], q3=["call"])}
    none = replace(world, also=other_tools(OTHERS[:0]))
    pd.testing.assert_frame_equal(tool_scores(runs, none, ["q2", "q3"], [1, 2]), tool_scores(
        runs, world, ["q2", "q3"], [1, 2]
    ))  # fmt: skip
    pd.testing.assert_frame_equal(world.right, world.gold)
    assert ceiling(none.shortest, ["q2", "q3"], [1, 2]) == ceiling(world.gold, ["q2", "q3"], [1, 2]) == [25, 50]


def test_the_shortest_plan_bounds_what_can_be_found(world):
    task = replace(world, also=other_tools(OTHERS))
    assert task.shortest[task.shortest["query"] == "q2"]["item"].tolist() == ["call"]
    assert ceiling(task.shortest, ["q2", "q3"], [1, 2]) == [50, 50]


def test_chance_finds_one_of_several_plans_more_often():
    rng = np.random.default_rng(0)
    assert chance_of_any_plan([[0], [1]], 4, [1, 2], rng) == pytest.approx([50, 100 * 5 / 6], abs=4)
    # One of two tools is found half, either of them whole by the plan of one.
    assert chance_of_any_plan([[0, 1], [1]], 4, [1], rng) == pytest.approx([100 * (1 / 4 + 1 / 8)], abs=4)
