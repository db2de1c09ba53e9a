"""One query at a time gets what it gets among all; its steps, and what methods cost."""

import numpy as np
import pandas as pd
import pytest

from lib.assistant.one_query import PersonaIndex, context_costs
from lib.assistant.ranking import STORES, WHOLE
from lib.assistant.signals import signals
from lib.retrieval.fusion import Fusion, rank_per_store
from lib.retrieval.stores import rank_pairs

FUSION = Fusion((WHOLE, STORES, "semantic"), 5, (2.0, 1.0, 1.0))


@pytest.mark.parametrize("row", [0, 99])
def test_one_query_alone_gets_what_it_gets_among_all(task, drawn_vectors, row):
    model, query = task.learn(), task.queries.iloc[[row]].reset_index(drop=True)
    mine = (task.items["persona"] == query["persona"].item()).to_numpy()
    opens = task.opens[task.opens["item"].isin(task.items["item"][mine])]
    index = PersonaIndex(task.items[mine], opens, drawn_vectors["items"][mine])
    scores = {"bm25t": index.bm25t(query["text"].iloc[0]), "semantic": index.vectors @ drawn_vectors["queries"][row]}
    alone = signals(index.pairs, query, index.items, index.opens, scores, index.log)
    rows = (task.pairs["query_row"] == row).to_numpy()
    pd.testing.assert_frame_equal(alone, task.features[rows].reset_index(drop=True))

    # Of two stores one has a ranker; the other's items tie. What is fused for one query is fused for all.
    part = task.store[rows][0]
    scores |= {WHOLE: model.predict(alone), STORES: index.by_store({part: model, "another": model}, alone)}
    np.testing.assert_array_equal(scores[STORES], np.where(task.store[rows] == part, scores[WHOLE], 0))
    by_store = rank_pairs(task.pairs[rows], scores[STORES])
    runs = {
        WHOLE: rank_pairs(task.pairs[rows], scores[WHOLE]),
        STORES: rank_per_store(by_store, by_store["item"].map(task.items.set_index("item")["app"])),
        "semantic": rank_pairs(task.pairs[rows], task.text["semantic"][rows]),
    }
    assert index.fuse(FUSION, scores) == FUSION.of(runs)["item"].tolist()


NAMES = ["encode", "cosine", "bm25t", "signals", "predict", "sort", "by_store", "fuse", "fuse_text", "second"]
TOOK = pd.DataFrame([[1, 2, 4, 8, 16, 32, 64, 128, 256, 512]] * 50, columns=NAMES, dtype=float)


def test_a_method_costs_the_steps_that_it_needs_and_a_95th_percentile_needs_fifty_queries():
    chains = pd.DataFrame({"writer": ["cot", "cot", "cot_distilled"], "ms": [1000.0, 2000.0, 500.0]})
    costs = context_costs(TOOK, chains).set_index("method")
    assert costs["p50_ms"].loc[["semantic", "cot", "cot_distilled", "finetuned_cot"]].tolist() == [35, 1534, 534, 534]
    assert costs["p95_ms"].isna().sum() == 3
    assert costs.loc["bm25t", "p95_ms"] == 36
    assert context_costs(TOOK.head(49), chains)["p95_ms"].isna().all()
