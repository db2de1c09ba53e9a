import matplotlib.pyplot as plt
import pandas as pd
import pytest

from lib.assistant.pages import beyond_cost as page
from lib.assistant.plan_comparison import sweep_points, variants
from lib.evaluation.inference import Resampling
from lib.evaluation.intervals import mean_interval
from lib.evaluation.prices import Price
from lib.generation.local import Cost

PRICE = Price(model="gpt-x", input=30, output=60, since="2023-03-14", source="a page")
PRICES = {"gpt-x": PRICE, "gpt-small": PRICE.model_copy(update={"model": "gpt-small", "input": 0.15, "output": 0.6})}
COST = pd.DataFrame(
    [
        ("random", 0.1, 0.0, 0.0),
        ("bm25t", 0.5, 0.0, 0.0),
        ("semantic", 15.0, 13.0, 0.0),
        ("rrf_text", 16.0, 13.0, 0.0),
        ("lambdamart", 20.0, 13.0, 0.0),
        ("lambdamart_rrf", 23.0, 13.0, 0.0),
        ("cot", 600.0, 168.0, 22.0),
    ],
    columns=["method", "p50_ms", "tokens_in", "tokens_out"],
)


def retrieval_of(values, sample="cot"):
    rows = [("all", sample, "recall", 3, name, value) for name, value in values.items()]
    table = pd.DataFrame(rows, columns=["kind", "sample", "metric", "k", "method", "value"])
    return table.assign(ci_low=table["value"] - 5, ci_high=table["value"] + 5, n=300)


FOUND = {"random": 10.0, "bm25t": 27.0, "semantic": 41.0, "lambdamart_rrf": 69.0, "cot": 40.0}
RETRIEVAL = pd.concat(
    [retrieval_of(FOUND), retrieval_of({name: value + 1 for name, value in FOUND.items() if name != "cot"}, "all")]
)
TOOLS = pd.DataFrame(
    [
        ("query_only", "semantic", "api", 3, 46.0),
        ("query_only", "bm25t", "api", 3, 30.0),
        ("query_plus_context", "lambdamart", "api", 3, 83.0),
        ("query_plus_context", "lambdamart", "app", 3, 99.0),
        ("oracle_context", "semantic", "api", 3, 90.0),
        ("query_only", "frequency", "api", 3, 20.0),
    ],
    columns=["setting", "retriever", "target", "k", "recall"],
).assign(ci_low=1.0, ci_high=99.0, n=936)
PLANNER = pd.DataFrame(
    [
        (setting, metric, value, value - 5, value + 5, 102)
        for setting, value in (("rag", 30.0), ("context_tuned_upper_bound", 77.0))
        for metric in ("ast_accuracy", "exact_match")
    ],
    columns=["setting", "metric", "value", "ci_low", "ci_high", "n"],
)
VARIANTS = pd.DataFrame(
    [
        ("items", 3, 30, 145.0, 60.0, 31.0, 83.0),
        ("titles", 3, 30, 110.0, 50.0, 22.0, 78.0),
        ("tools", 1, 30, 147.0, 30.0, 9.0, 65.0),
        ("rag_cot", None, 102, None, 37.0, 25.0, 51.0),
    ],
    columns=["variant", "number", "n", "tokens", "ast_accuracy", "ast_accuracy_low", "ast_accuracy_high"],
)
ASKED = pd.DataFrame(
    {"tokens_in": [100.0, 150.0], "tokens_out": 20.0, "seconds": [0.5, 1.5]},
    index=pd.Index(["rag", "context_tuned_upper_bound"], name="setting"),
)


@pytest.fixture
def points():
    parts = [
        page.context_points(RETRIEVAL, COST),
        page.tool_points(TOOLS, COST, {"query_only": 13.0, "query_plus_context": 40.0}),
        page.plan_points(PLANNER, VARIANTS, ASKED),
    ]
    return page.priced(pd.concat(parts, ignore_index=True), PRICE)


def test_methods_of_context_are_compared_on_the_same_queries():
    table = page.context_points(RETRIEVAL, COST).set_index("condition")
    assert table["value"].to_dict() == FOUND, "those with chains of thought are on a sample"
    assert table.loc["cot", ["seconds", "tokens_in", "tokens_out", "n"]].tolist() == [0.6, 168, 22, 300]
    without = page.context_points(RETRIEVAL, COST[COST["method"] != "cot"]).set_index("condition")
    assert without.loc["bm25t", "value"] == 28, "all queries, where all methods have them"


def test_a_search_for_tools_costs_its_context_and_its_own_search():
    table = page.tool_points(TOOLS, COST, {"query_only": 13.0, "query_plus_context": 40.0}).set_index("condition")
    assert list(table.index) == ["query_only/semantic", "query_only/bm25t", "query_plus_context/lambdamart"]
    with_context = table.loc["query_plus_context/lambdamart"]
    assert with_context["seconds"] == pytest.approx(0.043)
    assert with_context["tokens_in"] == 53
    assert with_context["value"] == 83, "of APIs, not of apps"
    assert table.loc["query_only/bm25t", ["tokens_in", "seconds"]].tolist() == [0, 0.0005]
    assert with_context["name"] == "ranker learned from plans, with context"


def test_shorter_prompts_stand_in_a_row_of_their_own():
    table = page.plan_points(PLANNER, VARIANTS, ASKED).set_index("condition")
    assert table["row"].to_dict() == {
        "rag": "plans", "context_tuned_upper_bound": "plans", "items_3": "prompts", "titles_3": "prompts",
        "tools_1": "prompts",
    }  # fmt: skip
    assert table.loc["titles_3", "name"] == "3 titles of items and the right tool"
    assert table.loc["tools_1", "name"] == "1 retrieved tool and context"
    titles = table.loc["titles_3"]
    assert titles["seconds"] == pytest.approx(1.1)
    assert table.loc["rag", ["tokens_in", "tokens_out", "value"]].tolist() == [100, 20, 30]


def test_intervals_are_those_of_the_tables(points):
    """Queries repeat personas and needs: an interval counted anew from a rate and its n would be too narrow."""
    found = points.set_index("condition")[["ci_low", "ci_high"]]
    assert found.loc["items_3"].tolist() == [31, 83], "Wilson's interval of 18 of 30 would be [42, 75]"
    assert found.loc["tools_1"].tolist() == [9, 65]
    assert found.loc["rag"].tolist() == [25, 35]
    assert found.loc["query_only/semantic"].tolist() == [1, 99]
    assert found.loc["bm25t"].tolist() == [22, 32]


def test_intervals_of_prompts_are_over_personas_and_needs():
    """Four needs, each always right or always wrong: 40 plans tell no more than four, whatever their number."""
    plans = pd.DataFrame({"persona": [f"p{i // 4}" for i in range(40)], "need": [f"n{i % 4}" for i in range(40)]})
    right = 100.0 * plans["need"].isin(["n0", "n1"])
    plans = plans.assign(varied="items", number=3, tokens=70.0, ast_accuracy=right, right_api=right)
    table = page.plan_points(PLANNER, variants(sweep_points(plans), {}), ASKED).set_index("condition")
    low, high = mean_interval(right.to_numpy(), Resampling([plans["persona"], plans["need"]]))
    assert table.loc["items_3", ["ci_low", "ci_high"]].tolist() == pytest.approx([low, high])
    assert high - low > 80


def test_what_plans_cost():
    plans = pd.DataFrame({"setting": ["rag", "rag", "lower_bound"], "prompt": ["a b", "a b c d", "a"], "text": "x y"})
    table = page.planned(plans, lambda text: len(text.split()), {"rag": 0.5})
    assert table.index.tolist() == ["lower_bound", "rag"]
    assert table.loc["rag"].tolist() == [3, 2, 0.5]
    assert table.loc["lower_bound", "seconds"] != table.loc["lower_bound", "seconds"]


def test_plans_are_timed_one_at_a_time():
    class Model:
        def __init__(self):
            self.asked = []

        def generate(self, prompts, max_new_tokens):
            self.asked.append(prompts)
            self.costs = [Cost(1, 1, float(len(prompts[0])))]

    model = Model()
    plans = pd.DataFrame({"setting": ["rag", "rag", "rag", "upper_bound"], "prompt": ["a", "bbb", "ccccc", "dd"]})
    assert page.seconds_a_plan(plans, model, 8, 2) == {"rag": 2.0, "upper_bound": 2.0}
    assert model.asked == [["a"], ["a"], ["bbb"], ["dd"]], "the first one loads the model and is not counted"


def test_mean_tokens_of_what_is_searched_with():
    assert page.searched_tokens({"query_only": ["a b", "a b c d"], "none": []}, lambda text: len(text.split())) == {
        "query_only": 3
    }


def test_fronts_are_of_a_question_each(points):
    by_name = points.set_index("condition")
    assert by_name.loc["cot", "dollars"] == pytest.approx(1000 * (168 * 30 + 22 * 60) / 1e6)
    assert by_name.loc["cot", "tokens"] == 190
    assert not by_name.loc["cot", ["front_seconds", "front_tokens", "front_dollars"]].any()
    assert by_name.loc["lambdamart_rrf", ["front_seconds", "front_tokens"]].all()
    assert by_name.loc["query_only/semantic", "front_tokens"], "beaten by a method of another question only"
    given = by_name[by_name.index.str.startswith(page.LABELLED)]
    assert {"titles_3", "upper_bound"} & set(given.index)
    assert given["value"].notna().all()
    assert not given[["front_seconds", "front_tokens", "front_dollars"]].any(axis=None), "the labels cannot be paid for"


def test_they_are_drawn_and_told(points):
    drawing = page.cost_drawing(points, PRICE)
    assert drawing.name == "assistant_cost"
    assert len(drawing.figure.axes) == 6
    drawn = points[(points["row"] != page.PROMPTS) & ~points["condition"].str.startswith(page.LABELLED)]
    said = (
        f" of {len(drawn)} methods (5 for context, 3 for tools, 1 for plans) are best for their cost: none that costs"
    )
    assert said in drawing.finding
    assert drawing.finding.endswith(" that write chains of thought none")
    assert "Best of tools: ranker learned from plans, with context 83%, 53 tokens" in drawing.alt
    plt.close(drawing.figure)
    assert "context: BM25T (27%, 0); LambdaMART-RRF (69%, 13)" in page.cost_in_words(points)


def test_the_table_has_a_column_of_money_for_each_price(points):
    table = page.cost_table(points, PRICES)
    frame = table.frame.set_index("condition")
    assert frame.loc["CoT", ["US dollars, gpt-x", "US dollars, gpt-small"]].tolist() == ["6.4", "0.038"]
    assert frame.loc["BM25T", "US dollars, gpt-x"] == "0"
    assert frame.loc["LambdaMART-RRF", "on the front of"] == "seconds, tokens, dollars"
    assert frame.loc["LambdaMART-RRF", "quality, %"] == "69.0 [64.0, 74.0]"
    assert frame["question"].unique().tolist() == ["context", "tools", "plans", "compressed context"]
    assert "would cost at the model's list price" in table.caption


def test_context_is_searched_with_as_notebook_06_words_it():
    queries = pd.DataFrame({"query": ["q", "r", "t"], "text": ["when?", "who?", "what?"],
                            "split": ["evaluation", "evaluation", "training"]})  # fmt: skip
    items = pd.DataFrame({"item": ["i", "j"], "app": ["mail", "notes"], "title": ["Lesson", "Ana"], "text": ["x", "y"]})
    run = pd.DataFrame({"query": ["q", "q"], "item": ["j", "i"], "rank": [2, 1], "method": "semantic"})
    texts = page.searched_texts(queries, items, {"query_plus_context": run}, "title", 1)
    assert texts["query_only"] == ["when?", "who?"]
    first, second = texts["query_plus_context"]
    assert first.startswith("when?")
    assert "Lesson" in first
    assert "Ana" not in first, "one item is worded"
    assert second == "who?"
