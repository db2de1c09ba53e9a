"""What notebook 04 shows of the cross-encoder and late interaction."""

from dataclasses import replace
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from lib.assistant.interaction_training import READERS, method_of
from lib.assistant.pages import finetuned_search_reading as page
from lib.assistant.pages.common import Scored
from lib.evaluation.comparison import summarise
from lib.evaluation.inference import Resampling
from lib.workbook.trained import Adapter

KIND = np.array(["meaning", "habit"] * 12)
IS_UNSEEN = np.arange(24) >= 16
QUERIES = [f"q{i}" for i in range(24)]


def table_of(recall):
    """NDCG is ten points higher than recall."""
    table = pd.DataFrame(
        {
            (method, metric, k): np.zeros(24) + values + add
            for method, values in recall.items()
            for metric, add in (("recall", 0), ("ndcg", 10), ("ndcg_retrieved", 20))
            for k in (3, 10)
        },
        index=pd.Index(QUERIES, name="query"),
    )
    table.columns = table.columns.set_names(["method", "metric", "k"])
    return table


@pytest.fixture
def scored():
    """Late interaction finds 40 points more than any search, the cross-encoder 20 less; not on held-out needs."""
    noise = np.tile([-3.0, 3.0, 0.0, 1.0], 6)
    recall = {"semantic": 40.0 + noise, "finetuned": 40.0 - noise, "cross_encoder": 20.0, "late_interaction": 80.0}
    recall |= {"finetuned_unseen_needs": 40.0, "cross_encoder_unseen_needs": np.where(IS_UNSEEN, 25.0, np.nan)}
    return Scored(table_of(recall), KIND, [3, 10], Resampling([np.arange(24)], 200, 0))


def untrained():
    return Scored(table_of({"semantic": 30.0}), KIND, [3, 10], Resampling([np.arange(24)], 200, 0))


def test_each_method_is_compared_with_both_searches(scored):
    tests = page.tests_of(scored, IS_UNSEEN)
    assert tests.groupby(["sample", "kind"]).size().to_dict() == {
        ("all", "all"): 4, ("all", "habit"): 4, ("all", "meaning"): 4, ("unseen_needs", "all"): 3,
    }  # fmt: skip
    overall = tests[(tests["sample"] == "all") & (tests["kind"] == "all")].set_index(["a", "b"])
    assert overall.loc[("late_interaction", "finetuned"), "difference"] == pytest.approx(39.75, abs=0.6)
    assert (tests["p_holm"] >= tests["p_value"]).all()
    assert tests["n"].tolist()[-3:] == [8, 8, 8]
    assert page.tests_of(untrained(), IS_UNSEEN).empty
    said = page.in_words(tests, 0.9)
    assert said.startswith("Over all queries 4 of 4 comparisons are settled")
    assert "late interaction above fine-tuned search by 4" in said
    assert "Where no training query told of the need, " in said
    assert "cross-encoder, needs held out below fine-tuned, needs held out by 15.0 points" in said
    assert said.endswith("hold 90% of the relevant items: the cross-encoder can lift no other.")


def test_tables_and_figures_hold_the_methods_and_the_held_out_needs(scored):
    summary = page.summary_of(scored, IS_UNSEEN)
    tests = page.tests_of(scored, IS_UNSEEN)
    drawing = page.kinds_drawing(summary, scored, tests)
    assert drawing.finding == (
        "Settledly above fine-tuned search: late interaction, meaning queries; late interaction, habit queries"
    )
    none = page.kinds_drawing(summary, scored, tests.assign(p_holm=0.2))
    assert none.finding == "Settledly above fine-tuned search: neither closer reader, for any kind of query"
    plt.close("all")
    table = page.kinds_table(summary, scored, "ndcg").frame
    assert table["method"].tolist() == ["semantic search", "fine-tuned search", "cross-encoder", "late interaction"]
    assert table["all"].iloc[3].startswith("90.0")
    held = page.held_out_table(summary, 3)
    assert held.frame["method"].tolist()[-1] == "cross-encoder, needs held out"
    assert held.frame["Recall@3"].iloc[-1].startswith("25.0")
    assert "n = 8" in held.caption
    assert page.held_out_table(page.summary_of(scored, IS_UNSEEN & False), 3) is None
    drawn = page.tests_figure(page.tests_of(scored, IS_UNSEEN), 3)
    assert drawn.name == "reading_tests"
    plt.close("all")


def test_the_finding_says_what_both_find_and_whether_it_is_settled(scored):
    summary, tests = page.summary_of(scored, IS_UNSEEN), page.tests_of(scored, IS_UNSEEN)
    said = page.finding(tests, summary, 3)
    assert said.startswith("Reading query and item together, tuned with LoRA, finds in its first 3 results: cross-")
    assert "late interaction 80.0% (" in said
    assert "points from fine-tuned search, settled). Fine-tuned search trains all weights, and the cross-enc" in said
    assert "results of the pretrained one. Where no training query told of the need, fine-tuned" in said
    assert said.endswith("points to the pretrained one (not settled).")
    assert page.finding(page.tests_of(untrained(), IS_UNSEEN), page.summary_of(untrained(), IS_UNSEEN), 3) == ""


def test_what_was_learned_says_where(tmp_path):
    curve = pd.DataFrame({"step": range(1, 21), "loss": np.linspace(2.0, 0.1, 20)})
    adapter = Adapter(tmp_path, True, "", curve, 4338, 500_000, 61.4, "a processor", {})
    frame = page.learned_table(dict.fromkeys(READERS, adapter)).frame
    assert frame["where"].tolist() == ["with the project: a processor"] * 4
    assert frame.loc[0, ["queries", "seconds"]].tolist() == [4338, 61]
    assert frame.loc[0, "loss, first tenth"] == pytest.approx(1.95)
    assert frame.loc[0, "loss, last tenth"] == pytest.approx(0.15)
    assert len(set(frame["model"])) == len({method_of(reader) for reader in READERS})


def test_the_control_stands_beside_the_right_query(scored):
    ranked = pd.DataFrame(
        [(q, f"i{n}", n, -n) for q in QUERIES[:6] for n in (1, 2)], columns=["query", "item", "rank", "score"]
    )
    qrels = pd.DataFrame({"query": QUERIES, "item": "i2"})
    floor = table_of({"random": 10.0})[[("random", "recall", 3)]]
    table = page.control_scores(scored, {"cross_encoder_swapped": ranked}, floor, qrels)
    assert table.index.tolist() == QUERIES[:6]
    assert table[("cross_encoder_swapped", "recall", 3)].tolist() == [100.0] * 6
    found = summarise(table, {("all", "all"): np.ones(6, dtype=bool)}, Resampling([np.arange(6)], 200, 0))
    shown = page.controls_table(found[found["metric"] == "recall"], 3, 6)
    assert "cross-encoder, query of another persona" in shown.frame["ranking"].tolist()
    assert "random order (expectation)" in shown.frame["ranking"].tolist()
    assert "n = 6" in shown.caption


def test_models_that_never_met_a_need_are_scored_where_all_of_them_rank(scored):
    fresh = ["finetuned_unseen_needs", "cross_encoder_unseen_needs", "late_interaction_unseen_needs"]
    ranked = dict.fromkeys(fresh, QUERIES[:20]) | {fresh[1]: QUERIES[:12]}
    runs = {
        name: pd.DataFrame({"query": queries, "item": "right", "rank": 1, "score": 1.0})
        for name, queries in ranked.items()
    }
    qrels = pd.DataFrame({"query": QUERIES, "item": "right"})
    found, never_met = page.closer(replace(scored, table=scored.table.drop(columns=fresh[1], level=0)), runs, qrels)
    assert never_met.tolist() == [name in QUERIES[:12] for name in QUERIES]
    assert (found.table.loc[QUERIES[:20], (fresh[0], "recall", 3)] == 100).all()  # its former column is replaced
    assert found.table[fresh[1], "recall", 3].notna().sum() == 12
    assert not page.closer(scored, {}, qrels)[1].any()


def test_the_page_says_whose_rankings_it_shows_of_needs_never_met():
    folds = SimpleNamespace(folds=[1, 2, 3, 4])
    some = pd.DataFrame({"variant": ["without_1", "seed_1"]})
    kept = page.folds_in_words(folds, some, True, IS_UNSEEN | True)
    assert kept.startswith("24 of 24 evaluation queries are ranked by models that met no query of their need, over 5 ")
    assert "kept with the project (retrained.parquet)" in kept
    assert "trained here" in page.folds_in_words(folds, some, False, IS_UNSEEN)
    off = page.folds_in_words(folds, some.tail(1), False, IS_UNSEEN)
    assert "those of 8 of 24 evaluation queries" in off
    assert "`retrain_text_search` is off" in off
