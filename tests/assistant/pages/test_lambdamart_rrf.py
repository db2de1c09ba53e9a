"""What the page of notebook 05 says, shows and draws, on small frames: each sentence for each thing it can say."""

import re
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.text import Text

from lib.assistant.context_scores import ContextScores, EvaluationQueries, RankerScores
from lib.assistant.controls import HALFWAY, REFERENCES
from lib.assistant.pages import lambdamart_rrf as page
from lib.assistant.pages import lambdamart_rrf_controls as doubts
from lib.assistant.pages import lambdamart_rrf_cost as costing
from lib.assistant.pages import lambdamart_rrf_parts as parts
from lib.assistant.ranking_cost import WITHOUT_TEXT_SCORES, Cost
from lib.assistant.sweeps import COMPARED, HABIT_KNOBS, SIGNAL_KNOBS, SIGNALS_COMPARED, SWEEPS, Sweep
from lib.assistant.unseen_needs import UnseenNeeds
from lib.evaluation.claims import Ratio
from lib.evaluation.inference import Resampling
from lib.retrieval.fusion import Fusion
from lib.workbook.artifacts import ROOT
from lib.workbook.methods import label

N = 60
KINDS = np.array(["meaning", "habit", "either"] * (N // 3))
IN_COT = np.arange(N) < 30
PUBLISHED = pd.DataFrame(
    [
        (method, metric, k, value + k)
        for method, value in (("semantic", 20.0), ("lambdamart_rrf", 60.0))
        for metric in ("recall", "ndcg")
        for k in (3, 5)
    ],
    columns=["method", "metric", "k", "value"],
)


@pytest.fixture(autouse=True)
def _closed_figures():
    yield
    plt.close("all")


def asked():
    names = [f"q{number}" for number in range(N)]
    persona = np.array([f"p{number // 3}" for number in range(N)])
    need = np.array([f"n{number % 12}" for number in range(N)])
    return EvaluationQueries(names, persona, need, KINDS, np.full(N, 2), IN_COT)


def table_of(means, cutoffs=(3, 5)):
    """Scores with given means: {method: a mean, or one a kind}; they scatter by ±5 and grow by 2 a cutoff."""
    columns = {}
    for method, mean in means.items():
        level = np.array([mean[kind] if isinstance(mean, dict) else mean for kind in KINDS], dtype=float)
        for metric in ("recall", "ndcg", "ndcg_retrieved"):
            for place, k in enumerate(cutoffs):
                columns[method, metric, k] = level + np.tile([-5, -5, -5, 5, 5, 5], N // 6) + 2 * place
    table = pd.DataFrame(columns, index=pd.Index(asked().names, name="query"))
    table.columns = table.columns.set_names(["method", "metric", "k"])
    return table


MEANS = {
    "random": 10,
    "semantic": {"meaning": 60, "habit": 10, "either": 40},
    "cot": 30,
    "finetuned": {"meaning": 65, "habit": 15, "either": 45},
    "lambdamart": {"meaning": 50, "habit": 70, "either": 80},
    "lambdamart_rrf": {"meaning": 55, "habit": 60, "either": 75},
}


def scored_with(**changes):
    table = table_of(MEANS | changes)
    table.loc[~IN_COT, ["cot"]] = np.nan
    return ContextScores(asked(), table, ("cot",), [3, 5], asked().resampling(100, 0))


def two_with(**changes):
    scored = scored_with(**changes)
    names = page.names_with_pairs(scored.methods, pd.DataFrame({"model": ["finetuned"], "pairs": [1200]}))
    return page.TableTwo(scored, PUBLISHED, names, "a small model")


def rankers_with(**means):
    return RankerScores.beside_methods(scored_with(), ["lambdamart", "semantic", "random"], table_of(means))


def test_what_the_ranker_sees():
    mask = np.array([True] * 30 + [False] * 10)
    task = SimpleNamespace(
        features=pd.DataFrame(columns=["opens", "app", "bm25t"]),
        pairs=range(40),
        groups={"numerical": ["opens"], "categorical": ["app"], "text": ["bm25t"]},
        persona=np.array(["a"] * 15 + ["b"] * 15 + ["c"] * 10),
        training=mask,
        evaluation=~mask,
        relevant=np.arange(40) < 4,
    )
    assert page.what_the_ranker_sees(task) == (
        "3 features of 40 pairs of query and item (1 numerical, 1 categorical, 1 text); 30 pairs of 2 training "
        "personas, "
        "10 of 1 evaluation personas. One candidate in 10.0 is relevant."
    )


# ---- by kind, and Table 2


def test_names_say_how_many_pairs_a_model_learned_from():
    models = pd.DataFrame({"model": ["finetuned", "finetuned_unseen_needs"], "pairs": [1200, 900]})
    names = page.names_with_pairs(["semantic", "finetuned"], models)
    assert names == {"semantic": "semantic search", "finetuned": "fine-tuned search (1,200 pairs)"}
    assert page.names_unseen(names, models)["finetuned"] == "fine-tuned search (900 pairs)"
    assert page.names_unseen(names, models[:1]) == names


def test_the_figure_by_kind_names_the_best_of_each():
    drawing = page.by_kind_figure(two_with())
    assert drawing.finding == (
        "Who finds most: meaning queries: fine-tuned search (65%); habit queries: LambdaMART (70%); either queries: "
        "LambdaMART (80%)"
    )
    assert "habit: semantic search 10%, CoT 30%, fine-tuned search 15%" in drawing.alt
    assert set(drawing.data["method"]) == set(MEANS) - {"random"}
    assert set(drawing.data["k"]) == {3}
    legend = [text.get_text() for text in drawing.figure.axes[0].get_legend().get_texts()]
    assert legend[1:3] == ["CoT, n = 30", "fine-tuned search (1,200 pairs)"]


def test_the_table_by_kind_says_which_queries_a_method_is_tested_on():
    table = page.by_kind_table(two_with())
    rows = table.frame.set_index("method")
    assert rows["queries"].to_dict()["CoT"] == "CoT sample"
    assert (rows["queries"] == "all").sum() == 5
    assert rows.loc["LambdaMART", "habit"].startswith("70.0 [")
    assert list(rows)[1:] == ["meaning", "habit", "either", "all kinds"]
    habit = dict(zip(rows.index, table.cases["habit"], strict=True))
    assert habit["LambdaMART"] == "queries.html#kind=habit&method=lambdamart&k=3"
    assert table.cases["all kinds"][-1] == f"queries.html#method={two_with().scored.methods[-1]}&k=3"
    assert "60 queries, 30 in the CoT sample" in table.caption


def test_table_two_is_shown_for_each_sample_and_metric():
    tables = page.table_two(two_with())
    assert len(tables) == 6
    first, *_, last = tables
    assert first.caption.startswith(
        "Recall@K, percent with 95% intervals; all 60 evaluation queries. Chains of thought by a small model."
    )
    assert "CoT" not in first.frame["method"].tolist()
    assert first.frame.set_index("method").loc["LambdaMART-RRF", ["@3, paper", "@5, paper"]].tolist() == [63.0, 65.0]
    assert first.best == {"@3, ours": "max", "@5, ours": "max"}
    assert "CoT sample, 30 evaluation queries" in last.caption
    assert last.caption.endswith("No star: each method has its own queries here.")
    assert not last.best
    ours = dict(zip(last.frame["method"], last.cases["@5, ours"], strict=True))
    assert ours["LambdaMART-RRF"] == "queries.html#sample=cot&method=lambdamart_rrf&k=5"
    assert "CoT" in last.frame["method"].tolist()


def two_with_expert(mean=99.0):
    scored = scored_with(cot_expert=mean)
    scored.scores.loc[~IN_COT, ["cot_expert"]] = np.nan
    scored = ContextScores(asked(), scored.scores, ("cot", "cot_expert"), [3, 5], asked().resampling(100, 0))
    return page.TableTwo(scored, PUBLISHED, two_with().names, "a small model")


def test_the_expert_is_a_row_of_the_sample_and_gets_no_star():
    with_expert, without = page.table_two(two_with_expert()), page.table_two(two_with())
    name = label("cot_expert")
    for ours, before in zip(with_expert, without, strict=True):
        rows = ours.frame.set_index("method")
        pd.testing.assert_frame_equal(rows.drop(index=name, errors="ignore"), before.frame.set_index("method"))
        in_sample = "CoT sample, 30" in ours.caption
        assert (name in rows.index) == in_sample == ("In parentheses: made from labels" in ours.caption)
    first = with_expert[3].frame.set_index("method").loc[name, "@3, ours"]
    assert first.startswith("(99.0 [")  # text that no star's comparison reads as a number
    assert np.isnan(pd.to_numeric(first.split()[0], errors="coerce"))


def test_no_sentence_names_the_expert_as_a_rival():
    ours, before = two_with_expert(), two_with()
    assert page.main_finding(ours) == page.main_finding(before)
    assert page.best_by_kind(ours) == page.best_by_kind(before)
    assert page.recall_figure(ours).alt == page.recall_figure(before).alt
    pd.testing.assert_frame_equal(page.by_kind_table(ours).frame, page.by_kind_table(before).frame)
    assert page.expert_in_words(before, asked().names) == ""
    text = page.expert_in_words(ours, asked().names[3:])
    assert "find 99.0 [" in text
    assert "on the CoT sample (n = 30; 3 of them have none and are searched by the query alone)" in text
    assert "not a method" in text
    assert "(n = 30), " in page.expert_in_words(ours, asked().names)


def test_with_chains_for_every_query_no_sample_is_spoken_of():
    every = replace(asked(), in_cot=np.ones(N, dtype=bool))
    table = table_of(MEANS | {"cot_expert": 99.0})
    scored = ContextScores(every, table, ("cot", "cot_expert"), [3, 5], every.resampling(100, 0))
    two = page.TableTwo(scored, PUBLISHED, two_with().names, "a small model")
    by_kind = page.by_kind_table(two)
    assert "queries" not in by_kind.frame
    assert (by_kind.among, by_kind.caption.partition("; ")[2].partition(" ★")[0]) == (None, "60 queries.")
    assert "on all queries (n = 60)" in page.expert_in_words(two, every.names)
    assert "sample" not in costing.costs_table(costs_with(two, cot=CHAIN)).caption
    assert "is on the CoT sample" in costing.costs_table(costs_with(cot=CHAIN)).caption


def test_who_leads():
    ahead = pd.DataFrame(
        [(3, "lambdamart", "semantic", 9.0, 4.0, 12.0), (5, "semantic", "lambdamart", 1.0, -1.0, 3.0)],
        columns=["k", "best", "second", "difference", "ci_low", "ci_high"],
    )
    assert page.who_leads(ahead, "all", 60).startswith(
        "Best on all 60 queries: at K = 3 LambdaMART, 9.0 [4.0, 12.0] points before semantic search; "
        "at K = 5 "
        "semantic search, 1.0 [−1.0, 3.0] points before LambdaMART. The intervals are paired"
    )
    assert page.who_leads(ahead, "cot", 30).startswith("Best on the CoT sample, 30 queries")


def test_the_figure_of_table_two_stands_beside_the_published_one():
    drawing = page.recall_figure(two_with())
    assert drawing.finding == (
        "LambdaMART-RRF finds 63% in its first 3, 1.7 times semantic search (published: 2.7 times)"
    )
    ours, published = drawing.figure.axes
    assert (len(ours.lines), len(published.lines)) == (5, 2)
    assert "Ours at 3: semantic search 37%" in drawing.alt
    assert "random order" not in drawing.alt, "it is not drawn"
    assert set(drawing.data["kind"]) == {"all"}
    assert "published" in drawing.data


def test_the_main_finding():
    text = page.main_finding(two_with())
    assert "LambdaMART-RRF finds **63.3 [" in text
    assert text.endswith(
        "highest by kind, settled or not: meaning queries fine-tuned search, habit queries LambdaMART, either "
        "queries LambdaMART."
    )
    two = two_with()
    scores = two.scored.scores.drop(columns="finetuned", level="method")
    less = ContextScores(two.scored.asked, scores, ("cot",), [3, 5], two.scored.resampling)
    assert "fine-tuned search –%" in page.main_finding(page.TableTwo(less, PUBLISHED, two.names, ""))


# ---- claims


VERDICTS = pd.DataFrame(
    {
        "statement": ["It wins", "It falls"],
        "source": ["Table 2", "section 4"],
        "about": ["method", "definition"],
        "effect": [5.0, np.nan],
        "ci_low": [1.0, np.nan],
        "ci_high": [9.0, np.nan],
        "published": [6.0, np.nan],
        "k": ["3", "3 to 5"],
        "n": [60, 0],
        "p_value": [0.0123, np.nan],
        "verdict": ["reproduced", "underpowered"],
        "reason": ["it is significant", "no query"],
        "as_claimed": [True, False],
    }
)


def test_claims_for_readers():
    frame = page.claims_table(VERDICTS).frame
    assert frame["where"].tolist() == ["Table 2", "section 4\ncounted apart: definition"]
    assert frame["effect here"].tolist() == ["5.0 [1.0, 9.0]", "–"]
    assert frame["p, Holm"].tolist() == ["0.0123", "–"]
    assert frame["verdict"].tolist() == ["reproduced\nit is significant", "underpowered\nno query"]


def test_claims_are_counted_by_what_decides_them():
    text = page.claims_counted(VERDICTS)
    assert text.startswith(
        "As the paper has them came out **1 of 1** about methods. Counted apart:\n\n- **0 of 1** about trends"
    )


def test_a_ratio_that_nothing_could_reach_is_named():
    claims = [SimpleNamespace(test="greater"), Ratio.model_construct(size=3.5)]
    assert page.out_of_reach(two_with(semantic=10), claims) == ""
    assert page.out_of_reach(two_with(semantic=28), claims) == (
        "3.5 times as much as semantic search is impossible here at K = 5: it finds so much by itself that even all of "
        "the context would be only 3.33 times as much (K = 5)."
    )
    assert "K = 3, 5: " in page.out_of_reach(two_with(semantic=40), claims)


def test_ndcg_rises_or_falls_by_definition():
    drawing = page.ndcg_figure(two_with())
    assert drawing.finding == (
        "Methods whose NDCG rises from K = 3 to 5: 4 of 4 under the standard ideal, 4 under the retrieved one, 2 "
        "in the paper"
    )
    assert len(drawing.data) == 12
    assert "ndcg semantic search +2" in drawing.alt
    scored = scored_with()
    scored.scores["semantic", "ndcg_retrieved", 5] -= 30
    assert (
        "4 of 4 under the standard ideal, 3 under" in page.ndcg_figure(page.TableTwo(scored, PUBLISHED, {}, "")).finding
    )


def claim(metric, a="semantic"):
    return SimpleNamespace(metric=metric, a=[a], test="falls", about="definition")


@pytest.mark.parametrize(
    ("verdicts", "says"),
    [
        (
            ["reproduced", "contradicted"],
            "Of the 1 trends that the paper claims, 1 is reproduced under one definition and contradicted under "
            "the other: "
            "they tell the definitions apart, not the methods.",
        ),
        (["reproduced", "reproduced"], "0 are reproduced under one definition and contradicted under the other."),
        (["reproduced", "underpowered"], "0 are reproduced under one definition and contradicted under the other."),
    ],
)  # fmt: skip
def test_trends_by_definition(verdicts, says):
    claims = [claim("ndcg"), claim("ndcg_retrieved"), SimpleNamespace(about="method")]
    text = page.trends_by_definition(scored_with(), claims, [*verdicts, "reproduced"])
    assert text.startswith(
        "A random order of the items, beside these: its NDCG changes by 2.0 points under the standard"
    )
    assert text.endswith(says)


# ---- features


def test_importance_is_shared_out_among_groups():
    weights = pd.DataFrame(
        {
            "feature": ["hour_share", "bm25t", "opens"],
            "mean_abs_shap": [0.6, 0.3, 0.1],
            "group": ["habitual", "text", "numerical"],
        }
    )
    drawing = parts.importance_figure(weights)
    assert drawing.finding == "Share of all SHAP weight: habitual 60%, text 30%, numerical 10%"
    assert drawing.alt.endswith("hour_share 0.60, bm25t 0.30, opens 0.10")
    labels = [text.get_text() for text in drawing.figure.axes[0].get_yticklabels()]
    assert labels == ["opens (numerical)", "bm25t (text)", "hour share (habitual)"]
    assert drawing.data is weights


GROUPS = ("text", "habitual")
FEWER = {
    "without text": 55,
    "without habitual": {"meaning": 60, "habit": 12, "either": 40},
    "lambdamart_no_usage": 40,
    "text alone": 30,
}


def test_the_ablation_compares_with_the_whole_ranker():
    table = parts.ablation_table(rankers_with(**FEWER), GROUPS)
    rows = table.frame.set_index("ranker")
    assert rows.index.tolist() == [
        "LambdaMART", "without text", "without habitual", "LambdaMART without usage", "text alone",
    ]  # fmt: skip
    assert rows.loc["LambdaMART", ["minus LambdaMART", "p, Holm"]].tolist() == ["–", "–"]
    assert rows.loc["without text", "minus LambdaMART"].startswith("−11.7 [")
    assert rows.loc["without habitual", ["meaning", "habit", "either"]].tolist() == pytest.approx([60, 12, 40])


def test_what_the_ranker_can_spare_least():
    text = parts.what_it_needs_most(rankers_with(**FEWER), GROUPS)
    assert text == (
        "What LambdaMART can spare least: without habitual features it loses 29.3 points of Recall@3. It finds 10.0 "
        "[−6.8, 26.8] points more for meaning queries, which is not settled (Holm over 8 tests)."
    )
    clear = parts.what_it_needs_most(
        rankers_with(**FEWER | {"without habitual": {"meaning": 90, "habit": 2, "either": 2}}), GROUPS
    )
    assert "It finds 40.0 [" in clear
    assert clear.endswith("points more for meaning queries, settled (Holm over 8 tests).")
    plain = parts.what_it_needs_most(rankers_with(**FEWER | {"without habitual": 10}), GROUPS)
    assert plain.endswith("it loses 56.7 points of Recall@3.")


def test_a_gain_that_luck_explains_is_not_settled():
    """Half of the queries of a kind gain 50 points and half lose 48: on average a point more, and nothing shown."""
    rankers = rankers_with(**FEWER)
    column = ("without habitual", "recall", 3)
    swing = np.where(np.arange(N) % 2, 50.0, -48.0)
    shifted = rankers.scores["lambdamart", "recall", 3] + swing
    rankers.scores.loc[rankers.asked.of_kind("meaning"), column] = shifted[rankers.asked.of_kind("meaning")]
    text = parts.what_it_needs_most(rankers, GROUPS)
    assert "It finds 1.0 [" in text
    assert text.endswith("points more for meaning queries, which is not settled (Holm over 8 tests).")


# ---- fusion


def effects(*rows):
    return pd.DataFrame(rows, columns=["group", "n", "difference", "ci_low", "ci_high", "p_holm"])


def test_where_fusion_helps_and_where_it_harms():
    tests = effects(("one app", 20, -4.0, -7.0, -1.0, 0.01), ("several apps", 40, 5.0, 2.0, 8.0, 0.01))
    assert parts.where_fusion_helps(tests, 3) == (
        "Fusion harms where the relevant items lie in one app (−4.0 [−7.0, −1.0] points of Recall@3, n = 20); it helps "
        "where the relevant items lie in several apps (5.0 [2.0, 8.0] points of Recall@3, n = 40)."
    )
    unclear = effects(("one app", 20, 4.0, 1.0, 7.0, 0.2), ("several apps", 40, 3.0, -2.0, 8.0, 0.2))
    text = parts.where_fusion_helps(unclear, 3)
    assert text.count("neither clearly helps nor harms") == 2
    assert text.endswith(
        "The two estimates are not in the order that this explanation expects; their difference is not tested."
    )
    assert parts.where_fusion_helps(unclear[:1], 3).endswith("n = 20).")
    nothing = parts.where_fusion_helps(tests.assign(difference=0.0), 3)
    assert nothing == "This fusion leaves Recall@3 as it is in both groups, so it cannot test that explanation."


SPREAD = {"LambdaMART": 2.4, "LambdaMART-RRF": 2.6, "the relevant items": 1.75}


def test_the_spread_over_apps():
    table = parts.spread_table(SPREAD, 3, 2.0)
    assert table.frame.to_dict("list") == {"ranking": list(SPREAD), "apps among the first 3": [2.4, 2.6, 1.75]}
    assert "(2.0 on average)" in table.caption


@pytest.mark.parametrize(
    ("fused", "says"),
    [
        (70, "find 70.0%: 10.0 points more than the better of them, 5.0 points less than one ranker that sees both."),
        (50, "find 50.0%: 10.0 points less than the better of them, 25.0 points less than one ranker that sees both."),
        (80, "find 80.0%: 20.0 points more than the better of them, 5.0 points more than one ranker that sees both."),
    ],
)
def test_what_fusion_does(fused, says):
    fusions = table_of(
        {
            "usage alone": 60,
            "text alone": 30,
            "usage alone + text alone, fused, k = 1": 20,
            "usage alone + text alone, fused, k = 60": fused,
            "all features, not fused": 75,
        }
    )
    text = parts.what_fusion_does(scored_with(), fusions, SPREAD)
    assert "LambdaMART's first 3 lie in 2.40, after fusion in 2.60; Recall@3 changes by −3.3 points." in text
    assert "the best of the 2 constants" in text
    assert text.endswith(says)
    table = parts.fusions_table(scored_with(), fusions)
    assert table.frame["rankings"].tolist() == list(fusions.columns.get_level_values("method").unique())
    assert table.frame["all"].tolist() == pytest.approx([60, 30, 20, fused, 75])


# ---- kinds


def told(*rows):
    names = ("lambdamart_minus_semantic", "told_minus_lambdamart", "told_minus_semantic")
    frame = pd.DataFrame(rows, columns=["kind", "semantic", "lambdamart", "told", "misled"])
    for name in names:
        a, b = name.split("_minus_")
        frame[name] = frame[a] - frame[b]
        frame[f"{name}_low"], frame[f"{name}_high"] = frame[name] - 1, frame[name] + 1
    return frame


def test_a_kind_that_the_others_mislead_is_named():
    table = told(("meaning", 60, 50, 58, True), ("either", 40, 35, 36, False), ("habit", 10, 70, 70, False))
    assert parts.who_is_misled(table) == (
        "For meaning queries LambdaMART lies −10.0 [−11.0, −9.0] points from plain semantic search; told the "
        "kind, −2.0 "
        "[−3.0, −1.0]. Being told changes it by 8.0 [7.0, 9.0] points: what it learned on the other kinds misleads it "
        "here. For either queries LambdaMART lies −5.0 [−6.0, −4.0] points from plain semantic search; told the kind, "
        "−4.0 [−5.0, −3.0]. Being told changes it by 1.0 [0.0, 2.0] points: that the other kinds mislead it is "
        "not settled."
    )
    assert parts.who_is_misled(table[2:]) == (
        "LambdaMART finds no less than semantic search for any kind, on average. Told the kind, it changes by 0.0 "
        "[−1.0, 1.0] points for habit queries."
    )
    shown = parts.told_table(table, 3).frame
    assert list(shown) == [
        "kind", "semantic search", "LambdaMART", "LambdaMART told the kind", "LambdaMART − semantic",
        "told − LambdaMART", "told − semantic",
    ]  # fmt: skip
    assert shown.loc[0, "told − semantic"] == "−2.0 [−3.0, −1.0]"


# ---- with the fine-tuned encoder


def test_usage_and_meaning_add_up_only_where_both_are_settled():
    methods = scored_with().scores[["finetuned", "lambdamart_rrf"]]

    def variant(mean):
        runs = table_of({parts.WITH_FINETUNED: mean, parts.RRF_WITH_FINETUNED: mean - 5})
        return rankers_with(**FEWER).with_scores(runs.join(methods))

    more = variant(90)
    assert parts.variant_finding(more).startswith(
        "LambdaMART that also sees the fine-tuned encoder's cosine finds 90.0%, 23.3 ["
    )
    values = {parts.WITH_FINETUNED: 71, "lambdamart": 64, parts.CROSS_FITTED: 72, parts.TWO_CROSS_FITTED: 75}
    fresh = SimpleNamespace(methods=[*values][:2], scores=table_of(values), k=3)
    assert parts.variant_finding(more, fresh).endswith(
        ". On needs that neither it nor its encoders met it finds 71.0%, LambdaMART without that cosine 64.0%"
    )
    cross = table_of({parts.CROSS_FITTED: 82, parts.TWO_CROSS_FITTED: 85})
    both = more.with_scores(cross)
    every = SimpleNamespace(methods=[*values], scores=fresh.scores, k=3)
    assert parts.variant_finding(both, every).endswith(
        "Cross-fitted by need, it finds 82.0% where the need was met and 72.0% where it was not; our two stages, so "
        "trained, 85.0 and 75.0%"
    )
    fresh.methods.clear()
    assert parts.variant_finding(more, fresh) == parts.variant_finding(more)
    assert parts.usage_and_meaning(more).endswith(
        "On needs that training met, usage and learned meaning add up: neither LambdaMART nor the fine-tuned encoder "
        "alone finds as much. Needs that it did not meet are further below."
    )
    less = variant(60)
    assert parts.usage_and_meaning(less).endswith("That both parts are needed is not settled.")
    table = parts.variant_table(more, Fusion(("whole", "store by store"), 5, (4.0, 1.0)))
    assert table.frame["ranker"].tolist() == [
        "LambdaMART", "LambdaMART-RRF", "fine-tuned search", parts.WITH_FINETUNED, parts.RRF_WITH_FINETUNED,
    ]  # fmt: skip
    more_rows = parts.variant_table(both, Fusion(("whole",), 5)).frame["ranker"].tolist()
    assert more_rows[-2:] == [parts.CROSS_FITTED, label(parts.TWO_CROSS_FITTED)]
    assert table.caption.endswith("fused in the variant: whole + store by store, weight 4, k = 5.")


# ---- floors and controls


def test_floors():
    apis, needs = pd.Series(["a", "a", "b", "b"]), pd.Series(["x", "x", "y", "y"], index=range(4, 8))
    table = doubts.api_table(40.0, 25.0, apis, needs)
    assert table.frame["value"].tolist() == [40.0, 25.0, 1.0, 0.0]
    unlearned = dict.fromkeys(doubts.UNLEARNED, 30) | {doubts.QUERY_UNSEEN: 20, doubts.TWO_QUERY_UNSEEN: 25}
    floors = doubts.floors_table(rankers_with(**unlearned)).frame
    unseen = [doubts.QUERY_UNSEEN, doubts.TWO_QUERY_UNSEEN]
    assert floors["ranker"].tolist() == ["LambdaMART", *doubts.UNLEARNED, *unseen, "random order"]


def controls(holds, kinds=("all", "habit")):
    rows = [
        {
            "control": name,
            "queries": kind,
            "recall": 20.0,
            "backward": 16.0,
            "reference": reference,
            "reference_recall": 18.0,
            "difference": 2.0,
            "ci_low": -1.0,
            "ci_high": 3.0,
            "test": "two-sided",
            "holds": name in holds,
            "deviation": float(number),
        }
        for number, (name, reference) in enumerate(REFERENCES.items())
        for kind in kinds
    ]
    return pd.DataFrame(rows)


def test_controls_that_hold_on_every_group_are_counted():
    half = controls(["logs permuted", "labels permuted"])
    half.loc[0, "holds"] = False  # on one of its two groups
    assert doubts.controls_held(half) == "1 of 4 negative controls hold"
    text = doubts.what_controls_say(half, rankers_with(**FEWER))
    assert text.startswith("1 of 4 controls hold on both groups of queries.")
    assert "3.0 points (moments shuffled at evaluation only, all queries)" in text
    assert text.endswith("Habit queries fall from 70% to 20% once the moments are shuffled.")
    draws = {"labels permuted": 5, "logs permuted": 2}
    ours = doubts.controls_table(half, 3, draws, "lambdamart_2").caption
    assert ours.startswith("Negative controls of LambdaMART, two stages (ours), percent")
    frame = doubts.controls_table(half, 3, draws).frame
    assert frame["within 4 points"].tolist() == ["not shown", *["holds"] * 3, *["not shown"] * 4]
    assert frame["compared with"].tolist()[:3:2] == ["LambdaMART without usage", HALFWAY]
    assert frame["difference [90% interval]"][0] == "2.0 [−1.0, 3.0]"


def test_what_rankers_of_permuted_labels_find_stands_beside_a_random_order():
    text = doubts.what_dealt_labels_find(controls(REFERENCES), 9.73)
    assert text.startswith("Rankers of permuted labels find 20.0%, their rankings reversed 16.0%, a random order 9.7%.")


def test_without_habit_queries_there_is_one_group():
    text = doubts.what_controls_say(controls(REFERENCES, kinds=("all",)), rankers_with(**FEWER))
    assert text == (
        "4 of 4 controls hold. The largest deviation in a tested direction is 3.0 points (moments shuffled at "
        "evaluation "
        "only, all queries)."
    )


def unseen_with(lambdamart, **others):
    fresh = {"random": 10, "semantic": 30, "lambdamart": lambdamart, **others}
    known = table_of({"finetuned": 50, "lambdamart": 60, "lambdamart_rrf": 60})
    resampling = Resampling([asked().persona, asked().need], 100, 0)
    wobble = np.tile([-0.01, 0.01], N // 2)[:, None]  # where nothing varies an interval is wide
    return UnseenNeeds({"n0", "n1"}, asked().kinds, KINDS, table_of(fresh) + wobble, known, 3, resampling)


@pytest.mark.parametrize(
    ("recall", "says"),
    [
        (58, "All of the interval lies above −4: what it learned carries over."),
        (50, "Part of what it learned is about the needs it saw."),
    ],
)
def test_what_carries_over_to_unseen_needs(recall, says):
    change = f"−{60 - recall}.0 [−{60 - recall}.0, −{60 - recall}.0]"
    assert doubts.does_it_carry_over(unseen_with(recall)) == (
        f"On needs it never saw LambdaMART finds {recall}.0%, {change} points from what it finds when trained "
        "with them. "
        f"{says}"
    )


def test_a_loss_that_is_not_excluded():
    unseen = unseen_with(60)
    unseen.scores["lambdamart", "recall", 3] += np.tile([-60.0, 59.0], N // 2)
    assert doubts.does_it_carry_over(unseen).endswith("A loss of 4 points or more is not excluded.")


def test_the_table_of_unseen_needs_leaves_out_what_was_not_trained():
    names = {
        "random": "random order",
        "semantic": "semantic search",
        "finetuned": "fine-tuned (900)",
        "lambdamart": "LambdaMART",
    }
    table = doubts.unseen_table(unseen_with(58, finetuned=45), names)
    rows = table.frame.set_index("method")
    assert rows.index.tolist() == list(names.values())
    assert rows["without − with"].tolist() == ["–", "–", "−5.0 [−5.0, −5.0]", "−2.0 [−2.0, −2.0]"]
    assert rows["trained with them"].isna().tolist() == [True, True, False, False]
    assert rows.loc["LambdaMART", ["n", "trained with them"]].tolist() == [60, 60.0]
    assert "60 evaluation queries of 2 needs" in table.caption


# ---- other worlds

SWEEP = Sweep("smoke", 7, 8)


def swept(lost=()):
    rows = []
    for knob, level in SWEEP.settings:
        shown = [*COMPARED, "lambdamart_rrf − semantic", "lambdamart_rrf − lambdamart"]
        if knob in SIGNAL_KNOBS:
            shown += [*SIGNALS_COMPARED, doubts.TO_TEXT, doubts.TO_HABITS, doubts.DUE_ADDS]
        for method in shown:
            low = -1.0 if (knob, level) in lost else 1.0
            rows.append((knob, level, method, 12.0, low, 20.0, 30))
    return pd.DataFrame(rows, columns=["knob", "level", "method", "recall@3", "ci_low", "ci_high", "n"])


def test_the_default_world_counts_once():
    edge = doubts.edges(SWEEP, swept())
    assert len(edge) == len(SWEEP.changes)
    assert edge["world"].tolist().count("the default") == 1
    assert "habit strength 0.4" in edge["world"].tolist()


def test_worlds_in_which_it_does_not_win_are_named():
    table = swept(lost=[("hour_noise", 6.0), ("hard_distractors", 24.0)])
    edge = doubts.edges(SWEEP, table)
    n = len(edge)
    assert doubts.worlds_won(edge) == (
        f"LambdaMART-RRF's lead over semantic search has an interval above 0 in {n - 2} of {n} distinct small worlds, "
        "each by itself (not at hour noise 6; hard distractors 24)"
    )
    drawing = doubts.sweep_figure(table, edge, 3)
    assert drawing.finding.endswith("(not adjusted for their number); not at hour noise 6; hard distractors 24")
    assert "hour_noise 6: +12" in drawing.alt
    assert [axis.get_xlabel() for axis in drawing.figure.axes] == [doubts.KNOBS[knob] for knob in HABIT_KNOBS]


def test_worlds_are_all_won():
    edge = doubts.edges(SWEEP, swept())
    assert doubts.worlds_won(edge).endswith(f"in {len(edge)} of {len(edge)} distinct small worlds, each by itself")
    assert doubts.sweep_figure(swept(), edge, 3).finding.endswith("for their number)")


def test_the_table_of_worlds_has_a_row_a_setting():
    table = doubts.sweep_table(SWEEP, swept(), 3)
    assert list(table.frame) == ["knob", "level", "LambdaMART-RRF − LambdaMART", "LambdaMART-RRF − semantic search"]
    assert len(table.frame) == sum(len(SWEEPS[knob]) for knob in HABIT_KNOBS)
    assert table.frame.iloc[1].tolist() == ["meaning share", "0.33", "12.0 [1.0, 20.0]", "12.0 [1.0, 20.0]"]
    assert table.caption.endswith(
        "in worlds of 8 personas; the defaults are meaning share 0.33, habit strength 0.8, hour noise 1, hard "
        "distractors 6."
    )


def valued(worth):
    """A swept frame in which the difference or method at a knob's level is worth so much."""
    table = swept()
    at = pd.MultiIndex.from_frame(table[["knob", "level", "method"]])
    table["recall@3"] = [worth.get(key, value) for key, value in zip(at, table["recall@3"], strict=True)]
    return table


def test_a_signals_worth_is_drawn_and_said_by_the_strength_of_its_knob():
    table = valued(
        {
            ("recency_strength", 0.0, doubts.TO_TEXT): 0.5,
            ("recency_strength", 0.3, doubts.TO_TEXT): 3.0,
            ("recency_strength", 0.6, doubts.TO_TEXT): 9.0,
            ("recency_strength", 0.0, doubts.TO_HABITS): -0.25,
            ("recency_strength", 0.3, doubts.TO_HABITS): 0.0,
            ("recency_strength", 0.6, doubts.TO_HABITS): 5.0,
            ("due_rivals", 0.0, doubts.DUE_ADDS): 9.5,
            ("due_rivals", 1.0, doubts.DUE_ADDS): 7.0,
            ("recency_strength", 0.6, "recency"): 34.0,
        }
    )
    drawing = doubts.signals_figure(table, 3)
    assert drawing.finding == (
        "At recency strength 0, 0.3 and 0.6, numerical signals change Recall@3 by 0.5, 3.0 and 9.0 points in a "
        "LambdaMART without habitual ones, by −0.2, 0.0 and 5.0 in one with them; due times by 9.5 at due rivals 0, by "
        "7.0 at 1: intervals in the table"
    )
    assert "most recent first, recency strength 0: 12%, 0.6: 34%" in drawing.alt
    assert [axis.get_xlabel() for axis in drawing.figure.axes] == [doubts.KNOBS[knob] for knob in SIGNAL_KNOBS]
    assert [len(axis.lines) for axis in drawing.figure.axes] == [5, 5, 3]
    assert set(drawing.data["knob"]) == set(SIGNAL_KNOBS)


def test_the_table_of_signals_has_a_row_a_level_and_a_column_a_reading():
    table = doubts.signals_table(SWEEP, swept(), 3)
    assert list(table.frame) == [
        "knob",
        "level",
        "most recent first",
        "most opened first",
        "due soonest first",
        "LambdaMART without habitual signals − LambdaMART without usage",
        "LambdaMART − LambdaMART without numerical signals",
        "LambdaMART with due times − LambdaMART",
        "LambdaMART-RRF − semantic search",
    ]
    assert table.frame["knob"].unique().tolist() == [knob.replace("_", " ") for knob in SIGNAL_KNOBS]
    assert table.frame["level"].tolist() == ["0", "0.3", "0.6", "0", "0.3", "0.6", "0", "0.5", "1"]
    assert "in worlds of 8 personas" in table.caption


# ---- cost


def costs_with(two=None, variant=60, **chains):
    cheap = {method: Cost(pd.Series([20.0] * 50), 12.0, 0.0) for method in (*MEANS, WITHOUT_TEXT_SCORES)}
    cheap["random"] = Cost(pd.Series([0.1] * 50), 0.0, 0.0)
    cheap[WITHOUT_TEXT_SCORES] = Cost(pd.Series([4.0] * 50), 0.0, 0.0)
    cheap[parts.WITH_FINETUNED] = Cost(pd.Series([40.0] * 50), 24.0, 0.0)
    return costing.Costs(two or two_with(), cheap | chains, table_of({parts.WITH_FINETUNED: variant}))


CHAIN = Cost(pd.Series([1000.0, 3000.0]), 150.0, 20.0)


def test_chains_of_thought_are_named_where_they_were_timed():
    with_chain = costs_with(cot=CHAIN)
    finding = (
        "LambdaMART-RRF takes 20.0 ms for one query (median, n = 50), a zero-shot chain of thought 2.0 s (100 times as "
        "long, n = 2)"
    )
    assert costing.cost_finding(with_chain) == finding
    assert costing.own_work(with_chain) == (
        f"{finding}. Without the text scores that it shares with plain search, its own work (signals, prediction, "
        "fusion) "
        "takes 4.0 ms at the median; a whole search with its chain takes 500 times that (a zero-shot chain of thought)."
    )
    both = costs_with(two_with(cot_distilled=25), cot=CHAIN, cot_distilled=CHAIN)
    assert costing.own_work(both).endswith("500 times that (a distilled one).")


def test_without_chains_there_is_nothing_to_compare_with():
    scored = scored_with()
    scores = scored.scores.drop(columns="cot", level="method")
    scored = ContextScores(scored.asked, scores, (), [3, 5], scored.resampling)
    costs = costs_with().costs
    without = costing.Costs(
        page.TableTwo(scored, PUBLISHED, {}, ""),
        {name: cost for name, cost in costs.items() if name != "cot"},
        table_of({parts.WITH_FINETUNED: 60}),
    )
    assert costing.own_work(without) == ""
    assert costing.cost_finding(without) == "LambdaMART-RRF takes 20.0 ms for one query (median, n = 50)"


def test_the_figure_and_the_tables_of_cost():
    costs = costs_with(cot=CHAIN)
    assert costs.table["method"].tolist() == [*MEANS, parts.WITH_FINETUNED, WITHOUT_TEXT_SCORES]
    frame = costing.costs_table(costs).frame.set_index("method")
    assert frame.loc["CoT", ["median, ms", "tokens read", "tokens written", "queries timed"]].tolist() == [
        2000,
        150,
        20,
        2,
    ]
    assert np.isnan(frame.loc["CoT", "95th percentile, ms"])
    assert frame.loc["fine-tuned search (1,200 pairs)", "Recall@3, %"].startswith("41.7 [")
    assert frame.loc["CoT", "Recall@3, %"] == costs.two.interval("cot")
    assert frame.loc[parts.WITH_FINETUNED, ["median, ms", "tokens read"]].tolist() == [40, 24]
    assert frame.loc[parts.WITH_FINETUNED, "Recall@3, %"].startswith("60.0 [")


def test_the_front_holds_what_no_other_beats():
    costs = costs_with(cot=CHAIN)
    assert (costs.sample, costs.k) == ("cot", 5)
    # Of equals in time the one that finds most; CoT takes longer and finds less.
    assert costs.front["method"].tolist() == ["random", "lambdamart"]
    assert set(costs.pareto["method"]) == {*MEANS, parts.WITH_FINETUNED}
    scores = costs.two.scored.scores.loc[IN_COT, [("lambdamart", "recall", 5)]]
    (row,) = costs.front[costs.front["method"] == "lambdamart"].to_dict("records")
    assert row["recall"] == pytest.approx(scores.mean().item())  # on the queries that have every method
    quick = costs_with(cot=Cost(pd.Series([0.05]), 150.0, 20.0))
    assert quick.front["method"].tolist() == ["cot", "lambdamart"]


def test_a_variant_that_finds_most_is_on_the_front():
    costs = costs_with(variant=90, cot=CHAIN)
    assert costs.front["method"].tolist() == ["random", "lambdamart", parts.WITH_FINETUNED]
    assert f"; {parts.WITH_FINETUNED} finds 23.3 [" in costing.pareto_in_words(costs)
    assert costing.pareto_figure(costs).finding.endswith(f", LambdaMART, {parts.WITH_FINETUNED}")
    rows = costs.pareto.set_index("method")
    assert rows.loc[parts.WITH_FINETUNED, "recall"] == pytest.approx(92.0)


def test_the_expert_is_on_no_front():
    assert "cot_expert" not in set(costs_with(two_with_expert(), cot=CHAIN).pareto["method"])


def test_the_next_better_on_the_front():
    text = costing.pareto_in_words(costs_with(cot=CHAIN))
    assert text.startswith(
        "On the Pareto front of time and Recall@5 lie 2 of 7 methods (all on the same 30 queries), the quickest being "
        "random order (0.1 ms, 12.0%). What the next better costs: LambdaMART finds 56.7 ["
    )
    assert "points more for 20 ms more (200.0 times as long). Where" in text
    best = costs_with(two_with(random=99), cot=CHAIN)
    assert best.front["method"].tolist() == ["random"]
    assert "What the next" not in costing.pareto_in_words(best)


def test_no_name_in_the_figure_covers_another():
    rng = np.random.default_rng(0)
    for spread in (0.0, 0.3):  # all but two methods take like times, or the same
        costs = costs_with(cot=CHAIN)
        each = {name: Cost(cost.times * np.exp(spread * rng.normal()), 0.0, 0.0) for name, cost in costs.costs.items()}
        drawing = costing.pareto_figure(costing.Costs(costs.two, each, costs.variants))
        drawing.figure.canvas.draw()
        axis, renderer = drawing.figure.axes[0], drawing.figure.canvas.get_renderer()
        boxes = {text.get_text(): Text.get_window_extent(text, renderer) for text in axis.texts}
        assert set(boxes) == {*map(label, MEANS), parts.WITH_FINETUNED}
        names = list(boxes)
        for place, name in enumerate(names):
            assert not any(boxes[name].overlaps(boxes[other]) for other in names[place + 1 :]), name
            assert axis.get_window_extent().padded(1).contains(*boxes[name].min), name
            assert axis.get_window_extent().padded(1).contains(*boxes[name].max), name
        assert axis.get_xscale() == "log"
        assert "The Pareto front: random order, " in drawing.alt


def test_the_stages_of_cost():
    names = ["signals", "predict", "predict_fused", "fuse", "fuse_text", "second"]
    stages = pd.DataFrame([[1.0, 32.0, 2.0, 4.0, 8.0, 16.0]] * 60, columns=names)
    table = costing.stages_table(stages)
    assert table.frame["stage"].tolist() == [
        "signals", "prediction by all fused rankers", "fuse", "signals, prediction and fusion together",
    ]  # fmt: skip
    assert table.frame["median, ms"].tolist() == [1, 2, 4, 7]
    assert table.caption == "Stages of LambdaMART-RRF for one query, n = 60."


# ---- the modules


PAGES = [
    "lambdamart_rrf", "lambdamart_rrf_parts", "lambdamart_rrf_controls", "lambdamart_rrf_cost",
    "lambdamart_rrf_readings", "lambdamart_rrf_second",
]  # fmt: skip


def test_no_other_module_and_no_other_notebook_imports_these_pages():
    """A change of this page's words trains nothing else again."""
    own = {f"{name}.py" for name in PAGES}
    others = [path for path in (ROOT / "lib").rglob("*.py") if not (path.parent.name == "pages" and path.name in own)]
    others += [path for path in (ROOT / "notebooks").glob("*.ipynb") if path.stem != "05_lambdamart_rrf"]
    importing = re.compile(r"pages(\.| import )lambdamart_rrf")
    assert [path.name for path in others if importing.search(path.read_text(encoding="utf-8"))] == []
    assert importing.search((ROOT / "notebooks" / "05_lambdamart_rrf.ipynb").read_text(encoding="utf-8"))


def test_the_pages_load_no_model_library():
    modules = ", ".join(f"lib.assistant.pages.{module}" for module in PAGES)
    check = (
        f"import sys, {modules}; print([name for name in ('torch', 'lightgbm', 'transformers') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", check], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
