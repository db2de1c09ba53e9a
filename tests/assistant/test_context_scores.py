import pandas as pd
import pytest

from lib.assistant.context_scores import (
    EvaluationQueries,
    by_method,
    long_form,
    score_methods,
)

QUERIES = pd.DataFrame(
    {
        "query": ["t0", "e0", "e1", "e2", "e3"],
        "persona": ["a", "b", "b", "c", "c"],
        "split": ["training"] + ["evaluation"] * 4,
    }
)
GOLD = pd.DataFrame(
    {
        "query": ["e3", "e2", "e1", "e0", "t0"],
        "kind": ["habit", "meaning", "habit", "meaning", "either"],
        "need": ["walk", "bake", "walk", "bake", "call"],
        "relevant": [["z"], ["x"], ["x", "y"], ["x"], ["x"]],
    }
)
PUBLISHED = pd.DataFrame(
    [("semantic", "recall", 1, 12.5), ("semantic", "ndcg", 1, 34.0)], columns=["method", "metric", "k", "value"]
)


def ranking(method, **items):
    rows = [(method, query, item, rank) for query, ranked in items.items() for rank, item in enumerate(ranked, start=1)]
    return pd.DataFrame(rows, columns=["method", "query", "item", "rank"])


def scores(with_chains, expert=None):
    asked = EvaluationQueries.of_world(QUERIES, GOLD, with_chains)
    runs = by_method(
        ranking("semantic", e0="xyz", e1="xyz", e2="yxz", e3="xyz"),
        ranking("lambdamart", e0="x", e1="x", e2="x", e3="z"),
    )
    helped = by_method(ranking("cot", e0="zyx")) if with_chains else {}
    helped |= by_method(ranking("cot_expert", e0=expert)) if expert else {}
    qrels = GOLD[["query", "relevant"]].explode("relevant").rename(columns={"relevant": "item"})
    return score_methods(asked, runs, helped, [3] * 4, qrels, [1, 3], asked.resampling(50, 0))


def test_queries_keep_their_order_and_their_labels():
    asked = EvaluationQueries.of_world(QUERIES, GOLD, ["e1", "t0"])
    assert asked.names == ["e0", "e1", "e2", "e3"]
    assert asked.persona.tolist() == ["b", "b", "c", "c"]
    assert asked.kind.tolist() == ["meaning", "habit", "meaning", "habit"]
    assert asked.need.tolist() == ["bake", "walk", "bake", "walk"]
    assert asked.n_relevant.tolist() == [1, 2, 1, 1]
    assert asked.in_cot.tolist() == [False, True, False, False]
    assert asked.kinds == ["meaning", "habit"]
    groups = asked.by_kind("cot", asked.in_cot)
    assert {name: mask.tolist() for name, mask in groups.items()} == {
        ("all", "cot"): [False, True, False, False],
        ("meaning", "cot"): [False] * 4,
        ("habit", "cot"): [False, True, False, False],
    }


def test_a_method_is_reported_on_the_queries_that_it_has():
    scored = scores(["e0"])
    assert scored.methods == ["random", "semantic", "cot", "lambdamart"]
    assert scored.complete == ["random", "semantic", "lambdamart"]
    assert {name: methods for name, (_, methods) in scored.samples.items()} == {
        "all": scored.complete,
        "cot": scored.methods,
    }
    assert scored.mean("semantic")["value"] == pytest.approx(100 * (1 + 0.5 + 0 + 0) / 4)
    assert scored.mean("semantic", at=3, kind="habit")["value"] == 100
    assert scored.mean("cot", at=3)[["value", "n"]].tolist() == [100, 1]
    assert scored.scores["cot", "recall", 1].isna().tolist() == [False, True, True, True]
    assert scored.mean("random")["value"] == pytest.approx(100 / 3, abs=3)


def test_where_all_queries_have_chains_there_is_one_sample():
    scored = scores(["e0", "e1", "e2", "e3"])
    assert list(scored.samples) == ["all"]
    assert scored.complete == scored.methods == ["random", "semantic", "cot", "lambdamart"]
    assert scored.mean("cot", at=3)["value"] == 25


def test_without_chains_of_thought_there_is_one_sample():
    scored = scores([])
    assert list(scored.samples) == ["all"]
    assert set(scored.summary["sample"]) == {"all"}


@pytest.mark.parametrize("with_chains", [["e0"], ["e0", "e1", "e2", "e3"]])
def test_a_reference_is_summarised_and_is_no_method(with_chains):
    without, scored = scores(with_chains), scores(with_chains, expert="xzy")
    assert scored.references == ["cot_expert"]
    assert not without.references
    for name in ("methods", "complete"):
        assert getattr(scored, name) == getattr(without, name)
    assert {name: methods for name, (_, methods) in scored.samples.items()} == {
        name: methods for name, (_, methods) in without.samples.items()
    }
    rows = scored.summary[scored.summary["method"] == "cot_expert"]
    assert set(rows["sample"]) == {"cot"}
    mean = scored.mean("cot_expert", at=1)
    assert mean[["over_queries", "n"]].tolist() == [100 / len(with_chains), len(with_chains)]
    others = scored.summary[scored.summary["method"] != "cot_expert"].reset_index(drop=True)
    pd.testing.assert_frame_equal(others, without.summary)


def test_the_long_form_has_a_row_for_each_query_method_metric_and_k():
    scored = scores(["e0"])
    long = long_form(scored.scores, scored.asked)
    assert list(long) == ["query", "persona", "need", "kind", "in_cot_sample", "method", "metric", "k", "value"]
    assert len(long) == 4 * 4 * 3 * 2
    found = long.set_index(["query", "method", "metric", "k"]).loc[("e1", "semantic", "recall", 1)]
    assert found[["persona", "need", "kind", "in_cot_sample", "value"]].tolist() == ["b", "walk", "habit", False, 50.0]
