from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from lib.assistant import ranking_cost
from lib.assistant.context_scores import ORDER
from lib.assistant.ranker_ablation import CROSS_FITTED, SEEING, TWO_CROSS_FITTED, WITH_FINETUNED
from lib.assistant.ranking_cost import (
    WITHOUT_TEXT_SCORES,
    ChainWriter,
    Cost,
    chain_writers,
    cost_of_chains,
    cost_table,
    cross_encoder_cost,
    index_personas,
    late_interaction_cost,
    pareto_table,
    ranking_costs,
    sample_to_time,
    stage_table,
    time_queries,
)
from lib.assistant.rrf_readings import WHOLE, FusedRankers
from lib.retrieval.fusion import Fusion
from lib.workbook.parameters.lambdamart_rrf import LambdaMARTRRF

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
        WITH_FINETUNED: [66, 66],
        CROSS_FITTED: [66, 66],
        TWO_CROSS_FITTED: [578, 578],
        WITHOUT_TEXT_SCORES: [200, 200],
    }
    assert {method for method, cost in costs.items() if cost.tokens_in == 12.0} == {
        "semantic",
        "finetuned",
        "rrf_text",
        "lambdamart",
        "lambdamart_rrf",
        "lambdamart_2",
    }
    assert {costs[method].tokens_in for method in SEEING} == {24.0}, "they encode a query twice"
    assert {cost.tokens_out for cost in costs.values()} == {0.0}
    chains = {"cot", "cot_distilled", "finetuned_cot"}  # timed with their language models
    readers = {"cross_encoder", "late_interaction"}  # loaded to be timed
    assert {*costs, *chains, *readers} == {*ORDER, *SEEING, WITHOUT_TEXT_SCORES}, "a method of Table 2 without a cost"


class Reader:
    """Reads a text as one token a word."""

    def __init__(self):
        self.asked = []
        self.encoder = SimpleNamespace(max_seq_length=9, tokenizer=self.tokenizer)

    def tokenizer(self, texts, others=None, **cut):
        both = zip(texts, others, strict=True) if others else ((text,) for text in texts)
        return {"input_ids": [" ".join(pair).split() for pair in both]}

    def scores(self, queries, documents):
        self.asked.append((queries, documents))
        return np.zeros(len(queries))

    def tokens(self, texts):
        self.asked.append(texts)
        return [np.eye(3)[: len(text.split())] for text in texts]


@pytest.fixture
def asked():
    items = pd.DataFrame({"item": ["a", "b"], "persona": "p", "app": "notes", "text": ["dough", "a walk"]})
    opens = pd.DataFrame({"item": ["a"], "time": pd.Timestamp("2023-12-01"), "place": "home"})
    queries = pd.DataFrame({"persona": "p", "text": ["call her now", "play it"]})
    return index_personas(items, opens, np.eye(2), ["p"], b=0.75), queries


def test_a_cross_encoder_costs_a_search_and_reading_a_shortlist(monkeypatch, asked):
    monkeypatch.setattr(ranking_cost, "milliseconds", lambda step, *given: (7.0, step(*given)))
    reader = Reader()
    cost = cross_encoder_cost(STAGES, reader, *asked, tokens=12.0)
    assert cost.times.tolist() == [35 + 7.0] * 2
    assert reader.asked[1:] == [([text] * 2, ["dough", "a walk"]) for text in ("call her now", "play it")]
    assert (cost.tokens_in, cost.tokens_out) == (12 + ((3 + 1 + 3 + 2) + (2 + 1 + 2 + 2)) / 2, 0)


def test_late_interaction_reads_the_items_before_a_query_comes(monkeypatch, asked):
    timed = []
    monkeypatch.setattr(ranking_cost, "milliseconds", lambda step, *given: (7.0, timed.append(given) or step(*given)))
    reader = Reader()
    cost = late_interaction_cost(STAGES, reader, *asked)
    assert reader.asked[0] == ["dough", "a walk"]
    assert reader.asked[1:] == [["call her now"], ["call her now"], ["play it"]]  # the first call is slow
    assert timed == [("p", "call her now"), ("p", "play it")]
    assert cost.times.tolist() == [32 + 7.0] * 2
    assert (cost.tokens_in, cost.tokens_out) == (2.5, 0)


def test_neither_is_loaded_where_nothing_was_trained(asked, tmp_path):
    indexes, queries = asked
    assert ranking_cost.reader_costs(["semantic"], tmp_path, "", STAGES, indexes, queries, 12.0) == {}


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
    here = chain_writers(LambdaMARTRRF(writer="small"), ["Call her", "Play it"], tmp_path, answers, record)
    assert here["cot"].model[0] == ("small", None)
    assert not here["cot"].remote
    assert here["cot_distilled"].model == ("small", tmp_path)
    assert here["cot_distilled"].prompts == ["Call her\nWhere to look:", "Play it\nWhere to look:"]
    assert "'Notes'" in here["cot"].prompts[0]
    assert "Call her" in here["cot"].prompts[0]
    there = LambdaMARTRRF(writer="remote:large", distilled_writer="small", remote_concurrency=3)
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


def test_the_pareto_front_by_hand():
    costs = pd.DataFrame({"method": list("abcdef"), "p50_ms": [1.0, 2.0, 2.0, 3.0, 1.0, 4.0]})
    recall = pd.DataFrame({"value": [10, 30, 20, 30, 10, 40], "ci_low": 0, "ci_high": 99}, index=list("fedcba")[::-1])
    table = pareto_table(costs, recall).set_index("method")
    # c finds less than b in the same time, d as much in a longer one; a and e are alike.
    assert table["on_front"].to_dict() == {"a": True, "b": True, "c": False, "d": False, "e": True, "f": True}
    assert table["p50_ms"].is_monotonic_increasing
    assert table.loc["d", ["recall", "ci_low", "ci_high", "p50_ms"]].tolist() == [30, 0, 99, 3]


def test_stages_of_few_queries_have_no_95th_percentile():
    table = stage_table(STAGES).set_index("stage")
    assert not {"predict", "fuse_text", "second"} & set(table.index)  # LambdaMART-RRF has neither
    assert table.loc["together", "p50_ms"] == 200
    assert table["p95_ms"].isna().all()
    assert stage_table(pd.concat([STAGES] * 25)).set_index("stage").loc["together", "p95_ms"] == 200


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
    from lib.assistant.second_stage import SecondStage, Setting
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
    timed = time_queries(indexes, queries, None, ranker, fused, SecondStage(ranker, Setting(), []))
    assert calls == [("P", "t0", 1, fusion), ("P", "t0", 1, fusion), ("Q", "t1", 1, fusion)]
    assert timed["encode"].tolist() == [2.0, 3.0]
    assert ready == [(3, 0), (4, 0)], "what items and log alone say is there before the first query"
