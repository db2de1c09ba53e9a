"""Rankings of one's own as a function, a frame or a run file, scored as ir_measures scores them."""

import ir_measures
import numpy as np
import pandas as pd
import pytest
from ir_measures import R, nDCG

from lib.assistant.own_ranking import open_bench, read_trec_run
from lib.assistant.queries import held_out_needs, qrels_of
from lib.assistant.schemas import WorldKnobs
from lib.assistant.world import frames, simulate
from lib.evaluation.comparison import per_query_scores
from lib.workbook.artifacts import ROOT, Workbook
from lib.workbook.inputs import InputError
from lib.workbook.parameters import notebook_parameters

KEPT = ("semantic", "finetuned", "finetuned_new_topics", "lambdamart_no_usage")


def letters(query, items):
    """A score without ties: how many letters texts share, and a little of the item's place."""
    shared = [len(set(query.text.lower()) & set(text.lower())) for text in items["text"]]
    return np.array(shared) + np.arange(len(items)) / 1000


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    """On a small world, and on rankings that notebook 05 might have kept."""
    root = tmp_path_factory.mktemp("own")
    (root / "data").mkdir()
    (root / "data" / "published").symlink_to(ROOT / "data" / "published")
    tables = frames(simulate(ROOT / "data", WorldKnobs(n_personas=12, n_training_queries=40, n_evaluation_queries=14)))
    asked = tables["queries"].query("split == 'evaluation'")
    run = asked[["query", "persona"]].merge(tables["items"], on="persona")
    run["rank"] = run.groupby("query").cumcount() + 1
    scores = per_query_scores(dict.fromkeys(KEPT, run), qrels_of(tables["gold"]), asked["query"], [3, 5, 10])
    tables["context_scores"] = scores.melt(ignore_index=False).reset_index()
    for name in ("items", "opens", "queries", "gold", "context_scores"):
        notebook = "05_lambdamart_rrf" if name == "context_scores" else "01_data_gen"
        Workbook(notebook, notebook_parameters(notebook, profile="smoke"), root).write(name, tables[name])
    return open_bench("smoke", root)


@pytest.fixture
def frame(bench):
    """The same as `letters`, by score and in no order; training queries are among them."""
    parts = []
    for query in bench.queries.itertuples():
        items = bench.items[bench.items["persona"] == query.persona].sort_values("item")[["item", "text"]]
        parts.append(items.assign(query=query.query, score=letters(query, items))[["query", "item", "score"]])
    return pd.concat(parts).sample(frac=1, random_state=0).reset_index(drop=True)


def test_function_frame_and_run_file_are_one_ranking_and_score_as_ir_measures_says(bench, frame, tmp_path):
    path = tmp_path / "mine.run"
    path.write_text("".join(f"{query} Q0 {item} 1 {score} mine\n" for query, item, score in frame.to_numpy()))
    ranked = frame.assign(rank=frame.groupby("query")["score"].rank(ascending=False).astype(int)).drop(columns="score")
    scores = bench.scores({"function": letters, "frame": frame, "ranks": ranked, "file": path})["known"]
    for name in ("frame", "ranks", "file"):
        pd.testing.assert_frame_equal(scores[name], scores["function"])
    qrels = [ir_measures.Qrel(query, item, 1) for query, item in bench.qrels[["query", "item"]].to_numpy()]
    names = {R @ 3: ("recall", 3), nDCG @ 10: ("ndcg", 10)}
    found = ir_measures.iter_calc([*names], qrels, ir_measures.read_trec_run(str(path)))
    theirs = {(one.query_id, *names[one.measure]): 100 * one.value for one in found if one.query_id in scores.index}
    assert len(theirs) == 28
    assert {key: scores.loc[key[0], ("file", *key[1:])] for key in theirs} == pytest.approx(theirs, abs=1e-9)


def test_the_summary_has_both_kinds_of_topics_beside_what_was_kept_and_published(bench):
    scores = bench.scores({"mine": letters}, {"mine": letters})
    found = bench.summary(scores).query("metric == 'recall' and k == 3").set_index(["topics", "method"])
    assert found.index.tolist() == [(side, name) for side in scores for name in ("mine", "semantic", "finetuned")]
    values, mine = scores["known"]["mine", "recall", 3], found.loc[("known", "mine")]
    topics = values.groupby(bench.asked.set_index("query")["topic"]).mean()
    assert (mine["value"], mine["over_queries"]) == pytest.approx((topics.mean(), values.mean()))
    assert (mine["n_topics"], mine["n"]) == (len(topics), 14)
    assert found["published"].dropna().to_dict() == {("known", "semantic"): 23.74, ("known", "finetuned"): 73.48}
    assert "mine" not in bench.scores({"mine": letters})["new"]


def test_queries_that_are_not_ranked_find_nothing_and_are_counted(bench, frame, caplog):
    lost = bench.asked["query"].iloc[0]
    scores = bench.scores({"mine": frame[frame["query"] != lost]})["known"]
    assert not scores["mine"].loc[lost, ["recall", "ndcg"]].any()
    assert "mine: 1 evaluation queries of 14 are not ranked" in caplog.text


WRONG = {
    ("query", "q-other"): "there is no query q-other, but p",
    ("item", "p0-other"): "item 'p0-other' is none of those of the persona that asks",
    ("score", float("nan")): r"score of query p\d+-q\d, item p.*: is no finite number",
}


@pytest.mark.parametrize(("column", "value"), WRONG)
def test_a_wrong_value_is_refused_in_one_sentence(bench, frame, column, value):
    frame = frame.astype(object)
    frame.loc[frame["query"].isin(bench.asked["query"]).idxmax(), column] = value
    with pytest.raises(InputError, match=rf"^mine.*{WRONG[column, value]}[^\n]*$"):
        bench.scores({"mine": frame})


def test_a_wrong_form_is_refused_in_one_sentence(bench, frame, tmp_path):
    path = tmp_path / "mine.run"
    path.write_text("q1\tQ0 a 1 2.5 tag\n\nq1 Q0 b 2 -1e-3 tag\n")
    assert read_trec_run(path).to_numpy().tolist() == [["q1", "a", 2.5], ["q1", "b", -0.001]]
    path.write_text("q1 Q0 a 1 2.5 tag\nq1 Q0 a 1 high tag\n")
    wrong = {
        r"query p\d+-q\d: \d+ items, but scores of shape \(1,\)": lambda query, items: [1.0],
        "has no column score: it needs query, item, and rank or score": frame.drop(columns="score"),
        "mine: ranks no evaluation query": frame[~frame["query"].isin(bench.asked["query"])],
        "semantic: a ranking of Table 2 has this name": letters,
        "0 is below 1": frame.assign(rank=frame.groupby("query").cumcount()),
        "ranks are not 1, 2, 3": frame.assign(rank=2 * frame.groupby("query").cumcount() + 1),
        r"mine\.run, line 2: expected `query Q0 item rank score tag`": path,
    }
    for said, given in wrong.items():
        with pytest.raises(InputError, match=said):
            bench.scores({"semantic" if given is letters else "mine": given})


def test_the_first_fold_has_the_topics_that_one_split_keeps_apart(bench):
    folds = bench.queries.groupby("topic")["fold"].max()
    assert set(folds.index[folds == 0]) == held_out_needs(folds.index, bench.made.seed)
