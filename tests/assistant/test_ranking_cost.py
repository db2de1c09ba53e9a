from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from lib.assistant import ranking_cost
from lib.assistant.context_scores import ORDER
from lib.assistant.ranker_ablation import TWO_CROSS_FITTED
from lib.assistant.ranking_cost import (
    ChainWriter,
    Cost,
    chain_writers,
    cost_of_chains,
    cost_table,
    index_personas,
    ranking_costs,
    sample_to_time,
    time_queries,
)
from lib.assistant.rrf_readings import WHOLE, FusedRankers
from lib.retrieval.fusion import Fusion
from lib.workbook.parameters import notebook_parameters

NAMES = ["encode", "cosine", "bm25t", "signals", "predict", "sort", "predict_fused", "fuse", "fuse_text", "second"]
STAGES = pd.DataFrame([[1, 2, 4, 8, 16, 32, 64, 128, 256, 512]] * 2, columns=NAMES, dtype=float)


class Writer:
    """Answers at once; an endpoint's last request took two seconds."""

    def __init__(self):
        self.asked = []
        self.costs = [SimpleNamespace(seconds=2.0)]

    def generate(self, prompts, **settings):
        self.asked.append((list(prompts), settings))
        return ["Check notes"]


def test_a_method_costs_the_stages_that_it_needs():
    costs = ranking_costs(STAGES, tokens=12.0)
    assert {method: cost.times.tolist() for method, cost in costs.items()} == {
        "random": [32, 32],
        "recency": [32, 32],
        "bm25t": [36, 36],
        "semantic": [35, 35],
        "finetuned": [35, 35],
        "rrf_text": [263, 263],
        "lambdamart": [63, 63],
        "lambdamart_rrf": [207, 207],
        "lambdamart_2": [575, 575],
        TWO_CROSS_FITTED: [578, 578],
    }
    assert {method for method, cost in costs.items() if cost.tokens_in == 12.0} == {
        "semantic",
        "finetuned",
        "rrf_text",
        "lambdamart",
        "lambdamart_rrf",
        "lambdamart_2",
    }
    assert costs[TWO_CROSS_FITTED].tokens_in == 24.0, "it encodes a query twice"
    assert {cost.tokens_out for cost in costs.values()} == {0.0}
    chains = {"cot", "cot_distilled", "finetuned_cot"}  # timed with their language models
    assert {*costs, *chains} == set(ORDER), "a method of Table 2 without a cost"


@pytest.mark.parametrize(("remote", "took"), [(False, 7.0), (True, 2000.0)])
def test_a_chain_of_thought_costs_its_writing_and_a_search(monkeypatch, remote, took):
    monkeypatch.setattr(ranking_cost, "milliseconds", lambda step, *given, **named: (7.0, step(*given, **named)))
    writer, seen = Writer(), []
    usage = pd.Series({"prompts": 10, "tokens_in": 500, "tokens_out": 80})
    cost = cost_of_chains(
        ChainWriter(writer, ["p0", "p1"], {"chat": True}, remote), ["t0", "t1"], usage, seen.append, 100.0, 12.0, 64
    )
    assert seen == ["t0 Check notes", "t1 Check notes"]
    assert writer.asked == [([prompt], {"max_new_tokens": 64, "chat": True}) for prompt in ("p0", "p0", "p1")]
    assert (cost.tokens_in, cost.tokens_out) == (50 + 12 + 8, 8)
    assert cost.times.tolist() == [took + 7.0 + 100.0] * 2


def test_a_model_here_is_timed_anew_and_an_endpoints_answers_are_kept(monkeypatch, tmp_path):
    from lib.generation import load, local

    monkeypatch.setattr(load, "load_language_model", lambda *given, **named: (given, named))
    monkeypatch.setattr(local, "LocalModel", lambda name, adapter: (name, adapter))
    answers, record = tmp_path / "answers", tmp_path / "spending.json"
    here = chain_writers(
        notebook_parameters("05_lambdamart_rrf", writer="small"), ["Call her", "Play it"], tmp_path, answers, record
    )
    assert here["cot"].model[0] == ("small", None)
    assert not here["cot"].remote
    assert here["cot_distilled"].model == ("small", tmp_path)
    assert here["cot_distilled"].prompts == ["Call her\nWhere to look:", "Play it\nWhere to look:"]
    assert "'Notes'" in here["cot"].prompts[0]
    assert "Call her" in here["cot"].prompts[0]
    there = notebook_parameters(
        "05_lambdamart_rrf", writer="remote:large", distilled_writer="small", remote_concurrency=3
    )
    writers = chain_writers(there, ["Call her"], None, answers, record)
    assert list(writers) == ["cot"]
    assert writers["cot"].remote
    (name, cache), settings = writers["cot"].model
    assert (name, cache, settings["record"], settings["concurrency"]) == ("remote:large", answers, record, 3)


def test_a_95th_percentile_needs_fifty_queries():
    costs = {"few": Cost(pd.Series([1.0] * 49), 1.0, 0.0), "many": Cost(pd.Series([1.0] * 49 + [9.0]), 2.0, 3.0)}
    table = cost_table(costs).set_index("method")
    assert np.isnan(table.loc["few", "p95_ms"])
    assert table.loc["many"].tolist() == [1.0, 1.0, 2.0, 3.0]


def test_evaluation_queries_alone_are_timed(monkeypatch):
    queries = pd.DataFrame({"query": range(6), "split": ["training"] * 2 + ["evaluation"] * 4})
    assert sorted(sample_to_time(queries, 0)["query"]) == [2, 3, 4, 5]
    monkeypatch.setattr(ranking_cost, "TIMED_QUERIES", 3)
    timed = sample_to_time(queries, 0)
    assert timed.index.tolist() == [0, 1, 2]
    assert set(timed["query"]) < {2, 3, 4, 5}


def test_every_persona_has_its_own_items_and_vectors():
    items = pd.DataFrame(
        {"item": ["b", "a", "c"], "persona": ["p", "p", "q"], "app": "notes", "text": ["dough", "walk", "call"]}
    )
    opens = pd.DataFrame({"item": ["a", "c"], "time": pd.Timestamp("2023-12-01"), "place": "home"})
    adapter = np.diag([2.0, 1.0, 1.0])
    indexes = index_personas(items, opens, np.eye(3), ["p"], 0.75, adapter)
    assert indexes["p"].adapter is adapter
    assert list(indexes) == ["p"]
    assert indexes["p"].names == ["a", "b"]
    np.testing.assert_array_equal(indexes["p"].vectors, np.eye(3)[[1, 0]])
    assert indexes["p"].opens["item"].tolist() == ["a"]


def test_the_first_query_is_timed_twice_and_on_one_thread(monkeypatch):
    from lib.assistant.second_stage import SecondStage
    from lib.retrieval.lambdamart import LambdaMART

    calls = []

    def stages(index, query, encode, ranker, fused, second):
        assert second.ranker.threads == fused.rankers[WHOLE][WHOLE].threads == 1
        calls.append((index.name, query["text"].item(), ranker.threads, fused.fusion))
        return {"encode": float(len(calls))}

    monkeypatch.setattr(ranking_cost, "time_stages", stages)
    queries = pd.DataFrame({"text": ["t0", "t1"], "persona": ["p", "q"], "time": [3, 4]})
    ready = []
    indexes = {
        name: SimpleNamespace(name=name.upper(), before=lambda times: ready.append((times.item(), len(calls))))
        for name in "pq"
    }
    ranker, fusion = LambdaMART(None, threads=4), Fusion((WHOLE, "semantic"), 5)
    fused = FusedRankers(fusion, {WHOLE: {WHOLE: ranker}})
    timed = time_queries(indexes, queries, None, ranker, fused, SecondStage(ranker, []))
    assert calls == [("P", "t0", 1, fusion), ("P", "t0", 1, fusion), ("Q", "t1", 1, fusion)]
    assert timed["encode"].tolist() == [2.0, 3.0]
    assert ready == [(3, 0), (4, 0)], "what items and log alone say is there before the first query"
