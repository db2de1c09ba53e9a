"""What notebook 04 shows of fine-tuned search."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from lib.assistant.pages import finetuned_search as page
from lib.assistant.pages.common import Scored, with_published
from lib.evaluation.inference import Resampling
from lib.retrieval.finetune import Finished

KIND = np.array(["meaning", "habit"] * 4)
BOTH = ["semantic", "finetuned"]
COT_MODELS = ["finetuned_subset", "finetuned_cot", "finetuned_unseen_needs"]
PRINTED = pd.Series(
    {
        ("semantic", "recall", 3): 23.74,
        ("finetuned", "recall", 3): 73.48,
        ("finetuned_cot", "recall", 3): 73.55,
        ("semantic", "ndcg", 3): 65.0,
        ("semantic", "ndcg", 10): 64.0,
    }
).rename_axis(["method", "metric", "k"])
DONE = {name: Finished(pd.DataFrame(), rows, 0, 1.0) for name, rows in (("finetuned", 1200), ("finetuned_cot", 80))}


def scored_of(recall):
    """Eight queries; NDCG is 10 points higher at K = 10, with the retrieved ideal 10 points lower."""
    change = {"recall": 20, "ndcg": 10, "ndcg_retrieved": -10}
    table = pd.DataFrame(
        {
            (method, metric, k): np.zeros(8) + values + (change[metric] if k == 10 else 0)
            for method, values in recall.items()
            for metric in change
            for k in (3, 10)
        },
        index=pd.Index([f"q{i}" for i in range(8)], name="query"),
    )
    table.columns = table.columns.set_names(["method", "metric", "k"])
    return Scored(table, KIND, [3, 10], Resampling([np.arange(8)], 200, 0))


@pytest.fixture
def scored():
    """Fine-tuning adds 40 points for *habit* and takes 10 for *meaning*."""
    recall = {"semantic": 30.0, "finetuned": np.where(KIND == "habit", 70.0, 20.0)}
    return scored_of(recall | dict.fromkeys(COT_MODELS, 35.0))


@pytest.fixture
def samples(scored):
    queries = {"all": scored.everyone, "cot": np.arange(8) < 6, "unseen_needs": np.arange(8) > 4}
    return page.samples_of(queries, scored.table.columns.get_level_values("method").unique())


def table_of(scored, samples):
    summary = page.summary_of(scored, samples)
    return with_published(summary, PRINTED, (summary["kind"] == "all") & (summary["sample"] == "all"))


@pytest.fixture
def retrieval(scored, samples):
    return table_of(scored, samples)


@pytest.fixture
def untrained():
    """What there is where nothing was trained: scores, samples, values."""
    scored = scored_of({"semantic": 30.0})
    samples = page.samples_of(
        {"all": scored.everyone, "cot": ~scored.everyone, "unseen_needs": KIND == "habit"}, BOTH[:1]
    )
    return scored, samples, table_of(scored, samples)


def test_samples_hold_a_query_and_methods_that_answered(samples, untrained):
    assert samples["cot"].methods == ["semantic", "finetuned", "finetuned_subset", "finetuned_cot"]
    assert {name: sample.methods for name, sample in untrained[1].items()} == {
        "all": ["semantic"],
        "unseen_needs": ["semantic"],
    }


def test_only_all_queries_are_summarised_by_kind(retrieval):
    kinds = retrieval.groupby("sample")["kind"].unique().map(set).to_dict()
    assert kinds == {"all": {"all", "meaning", "habit"}, "cot": {"all"}, "unseen_needs": {"all"}}
    assert retrieval.loc[retrieval["published"].notna(), "sample"].unique().tolist() == ["all"]


def test_kinds_are_drawn_before_and_after(retrieval, scored):
    drawing = page.kinds_drawing(retrieval, BOTH, scored)
    assert drawing.finding == "Fine-tuning changes Recall@3, in points, by 40 for habit, −10 for meaning"
    assert drawing.alt == (
        "Recall at 3 by kind of query: meaning: semantic search 30%, fine-tuned search 20%; "
        "habit: semantic search 30%, fine-tuned search 70%."
    )
    axis = drawing.figure.axes[0]
    assert [tick.get_text() for tick in axis.get_xticklabels()] == ["meaning (n = 4)", "habit (n = 4)"]
    assert set(drawing.data["metric"]) == {"recall"}
    assert set(drawing.data["k"]) == {3, 10}
    plt.close(drawing.figure)


def test_nothing_trained_is_drawn_as_such(untrained):
    scored, _, retrieval = untrained
    drawing = page.kinds_drawing(retrieval, ["semantic"], scored)
    assert drawing.finding == "Nothing was trained"
    assert drawing.alt.endswith("meaning: semantic search 30%; habit: semantic search 30%.")
    plt.close(drawing.figure)


def test_kinds_stand_beside_each_other_at_each_k(retrieval, scored):
    table = page.kinds_table(retrieval, BOTH, scored)
    frame = table.frame
    assert table.cases["@10, fine-tuned search"][1] == "queries.html#kind=habit&method=finetuned&k=10"
    assert list(frame.columns) == [
        "kind", "n", "@3, semantic search", "@3, fine-tuned search", "@10, semantic search", "@10, fine-tuned search",
    ]  # fmt: skip
    assert frame.iloc[1].tolist() == [
        "habit", 4, "30.0 [30.0, 30.0]", "70.0 [70.0, 70.0]", "50.0 [50.0, 50.0]", "90.0 [90.0, 90.0]",
    ]  # fmt: skip


def test_ours_stands_beside_published_on_both_samples(retrieval, untrained):
    table = page.published_table(retrieval, "all", "recall", PRINTED, DONE, "mini")
    assert table.frame["@3, paper"].tolist() == [23.74, 73.48]
    assert table.caption == (
        "Recall@K in percent with 95% intervals, all evaluation queries, n = 8; encoder mini. Pairs trained on: "
        "fine-tuned search 1,200. Paper: GTR-T5-XL on its own data."
    )
    with_cot = page.published_table(retrieval, "cot", "recall", PRINTED, DONE, "mini")
    assert with_cot.frame["@3, paper"].tolist()[::3] == [23.74, 73.55]
    assert with_cot.frame["@3, paper"].isna().tolist() == [False, False, True, False]
    assert "queries with CoT, n = 6; encoder mini. Pairs trained on: fine-tuned search 1,200, fine-tuned with" in (
        with_cot.caption
    )
    bare = page.published_table(untrained[2], "all", "ndcg", PRINTED, {}, "mini")
    assert bare.caption.startswith("NDCG@K (standard ideal) in percent")
    assert "Pairs trained on" not in bare.caption


def test_comparisons_are_those_that_have_rankings(scored, samples, untrained):
    tests = page.tests_of(scored, samples)
    assert len(tests) == 3 + len(page.FAMILY)
    assert tests[["kind", "n"]].iloc[:3].to_numpy().tolist() == [["all", 8], ["meaning", 4], ["habit", 4]]
    assert tests["difference"].iloc[:3].tolist() == [15.0, -10.0, 40.0]
    assert (tests["p_holm"] >= tests["p_value"]).all()
    assert (tests["p_holm"] > tests["p_value"]).any()
    none = page.tests_of(*untrained[:2])
    assert none.empty
    assert page.cot_test(none) is None


def sure(tests):
    return tests.assign(p_holm=0.01, ci_low=1.0, ci_high=3.0)


def test_tests_say_on_whom_and_whether_settled(scored, samples):
    tests = page.tests_of(scored, samples)
    tests.loc[0, ["p_holm", "ci_low", "ci_high"]] = [0.01, 1.0, 2.0]
    drawing = page.tests_figure(tests, 3)
    whom = drawing.data["comparison"].str.extract(r", ([^,]+) \(n = \d+\)$")[0]
    assert whom.unique().tolist() == [
        "all queries", "meaning queries", "habit queries", "queries with CoT", "first fold of needs held out",
    ]  # fmt: skip
    assert drawing.data["comparison"].iloc[0].startswith("fine-tuned search − semantic search, all queries (n = ")
    assert drawing.data["settled"].tolist() == [True] + [False] * 9
    assert drawing.finding.startswith(
        "1 of 10 differences are settled, the largest of these: fine-tuned search − semantic"
    )
    plt.close(drawing.figure)


def test_the_gain_is_told_with_its_direction(scored, samples, retrieval):
    cells, tests = page.overall_cells(retrieval, 3), page.tests_of(scored, samples)
    said = page.gain_in_words(tests, cells, PRINTED, 3)
    assert said.startswith("Over all queries fine-tuning raises Recall@3 by **15.0 [")
    assert "from 30.0% to 45.0%; among the 10 comparisons here this is not settled (Holm's p " in said
    assert said.endswith("Published, with another encoder on other data: 23.7% to 73.5%.")
    assert "this is settled (Holm's p 0.0100; " in page.gain_in_words(sure(tests), cells, PRINTED, 3)
    worse = page.gain_in_words(tests.assign(difference=-2.0), cells, PRINTED.head(0), 3)
    assert "fine-tuning lowers Recall@3 by **−2.0" in worse
    assert worse.endswith("–% to –%.")


def test_cot_is_told_beside_the_paper(scored, samples):
    tests = page.tests_of(scored, samples)
    assert page.cot_in_words(tests, "cot_distilled", DONE, PRINTED, 3) == (
        "CoT of the writer “CoT, distilled” changes Recall@3 of a model trained on the same 80 pairs by "
        "0.0 [0.0, 0.0] points (n = 6), which is not settled. The paper prints a difference of 0.07 points, "
        "with CoT by GPT-4. Notebook 03 shows what this writer's CoT adds before any fine-tuning, and how many "
        "training queries ask in phrasings that the writer learned from."
    )
    assert "(n = 6), which is settled." in page.cot_in_words(sure(tests), "cot", DONE, PRINTED, 3)
    assert page.cot_in_words(tests.head(3), "", {}, PRINTED, 3) == ""


def test_ndcg_rises_under_one_ideal_and_falls_under_the_other(scored):
    rises = page.ndcg_rises(scored, BOTH)
    table = page.ndcg_table(rises, BOTH, scored, PRINTED)
    assert table.frame["standard ideal"].tolist() == ["10.0 [10.0, 10.0]"] * 2
    assert table.frame["retrieved ideal, same queries"].tolist() == ["−10.0 [−10.0, −10.0]"] * 2
    assert table.frame["published"].fillna(0).tolist() == [-1.0, 0.0]
    assert table.caption.startswith("NDCG@10 minus NDCG@3, percentage points with 95% intervals, n = 8")
    assert table.caption.endswith("that changes by −10.0 for semantic search; −10.0 for fine-tuned search.")
    assert page.ndcg_in_words(rises, BOTH) == (
        "Under the standard ideal NDCG rises with K for semantic search; rises with K for fine-tuned search; under the "
        "retrieved ideal, over the same queries, it falls for semantic search; falls for fine-tuned search."
    )
    unclear = page.ndcg_in_words(rises.assign(ci_low=-1.0, ci_high=1.0), ["semantic"])
    assert unclear.startswith(
        "Under the standard ideal NDCG neither clearly rises nor falls with K for semantic search"
    )


def test_the_retrieved_ideal_compares_queries_with_a_hit_at_both_cutoffs(scored):
    scored.table.loc["q0", ("semantic", "ndcg_retrieved", 3)] = np.nan
    rises = page.ndcg_rises(scored, ["semantic"])
    assert rises["n"].tolist() == [8, 7]


@pytest.mark.parametrize(
    ("pairs", "finding"),
    [
        (
            {"semantic": 0, "finetuned_cot": 100, "finetuned": 2000},
            "The first 100 training pairs change Recall@3 by 5.0 [5.0, 5.0] points, going from 100 to 2,000 by 10.0 [",
        ),
        ({"semantic": 0, "finetuned": 100}, "The first 100 training pairs change Recall@3 by 15.0 ["),
    ],
)
def test_the_learning_curve_tells_its_first_and_last_step(scored, pairs, finding):
    curve = page.learning_curve(scored, pairs)
    assert set(curve["metric"]) == {"recall"}
    assert set(curve["k"]) == {3}
    assert curve["kind"].unique().tolist() == ["all", "meaning", "habit"]
    drawing = page.curve_drawing(curve, scored)
    assert drawing.finding.startswith(finding)
    assert drawing.alt.startswith("Recall at 3 over all queries against training pairs: 30% with 0, ")
    labels = [text.get_text() for text in drawing.figure.axes[0].texts]
    assert sorted(labels) == ["all kinds", "habit", "meaning"]
    plt.close(drawing.figure)


def test_changes_are_counted_by_kind(scored):
    change = page.changes_of(scored)
    frame = page.changes_table(change, scored).frame.set_index("kind")
    assert frame.loc["habit"].tolist() == [4, 0, 0]
    assert frame.loc["meaning"].tolist() == [0, 0, 4]


@pytest.fixture
def asked(scored):
    queries = scored.table.index.tolist()
    return pd.DataFrame({"query": queries, "text": [f"{q}?" for q in queries], "kind": KIND, "relevant": [["j"]] * 8})


def test_the_largest_changes_are_shown(scored, asked):
    items = pd.DataFrame({"item": ["i", "j"], "text": ["one", "two"]})
    runs = {
        method: pd.DataFrame({"query": np.repeat(asked["query"], 2), "item": order * 8, "rank": [1, 2] * 8})
        for method, order in (("semantic", ["i", "j"]), ("finetuned", ["j", "i"]))
    }
    shown = page.extremes_table(page.changes_of(scored), asked, runs, items, 1, seed=0).frame
    assert shown[""].tolist() == ["found more"] * 3 + ["found less"] * 3
    assert shown["kind"].tolist() == ["habit"] * 3 + ["meaning"] * 3
    assert shown["query"].nunique() == 6
    for column, text in (("relevant", "• two"), ("pretrained finds", "• one"), ("fine-tuned finds", "• two")):
        assert set(shown[column]) == {text}
    both = page.extremes_table(page.changes_of(scored), asked, runs, items, 2, seed=0).frame
    assert both["fine-tuned finds"].iloc[0] == "• two\n• one"
    none = page.extremes_table(page.changes_of(scored) * 0, asked, runs, items, 1, seed=0)
    assert none.frame.empty


def test_the_published_rows_stand_once_where_both_samples_ask_all_queries(samples):
    asked = samples["all"].queries
    few = asked & (np.arange(len(asked)) > 0)
    assert page.published_samples(samples | {"cot": page.Sample(asked, ["semantic"])}) == ["cot"]
    assert page.published_samples(samples | {"cot": page.Sample(few, ["semantic"])}) == ["all", "cot"]
    assert page.published_samples({"all": samples["all"]}) == ["all"]


def test_the_finding_tells_what_was_tried(scored, samples, retrieval):
    cells, tests = page.overall_cells(retrieval, 3), page.tests_of(scored, samples)
    reach = pd.DataFrame(
        [("first fold of needs, trained without them", 3, 2.0, -1.0, 5.0)],
        columns=["on", "n", "gain", "ci_low", "ci_high"],
    )
    said = page.finding(cells, tests, reach, DONE, PRINTED, 3)
    assert said.startswith("Fine-tuned on 1,200 pairs, semantic search finds **45.0 [")
    assert "pretrained 30.0 [30.0, 30.0]% (published with a larger encoder on other data: 73.5% and 23.7%)." in said
    assert (
        "Of two models trained on the same 80 pairs, the one that also reads a small writer's CoT lies 0.0 [0.0, "
        in said
    )
    assert said.endswith("On needs kept out of training fine-tuning gains 2.0 [−1.0, 5.0] points (n = 3).")
    alone = page.finding(cells, tests.head(3), reach.head(0), DONE, PRINTED, 3)
    assert alone.endswith("23.7%).")
    assert page.finding(cells, tests, reach, {}, PRINTED, 3) == "No training query: the encoder was not fine-tuned."
