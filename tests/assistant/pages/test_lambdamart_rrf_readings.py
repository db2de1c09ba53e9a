import pandas as pd
import pytest

from lib.assistant.context_scores import ContextScores, EvaluationQueries
from lib.assistant.pages import lambdamart_rrf_readings as page
from lib.assistant.rrf_readings import TWO_QUERIES
from lib.retrieval.fusion import Fusion

STORES = ("whole", "store by store")


def tried(*rows):
    """Rows of (reading, rankings, k, weights, mean), best first."""
    return pd.DataFrame(
        [
            {
                "fusion": Fusion(names, k, weights),
                "rankings": " + ".join(names),
                "k": k,
                "recall@3": mean - 1,
                "ndcg@3": mean - 2,
                "mean": mean,
                "gain": mean - 59.5,
                "gain_low": mean - 60.5,
                "gain_high": mean - 58.5,
                "reading": reading,
                "weight": max(weights, default=1.0),
                "queries": 40,
            }
            for reading, names, k, weights, mean in rows
        ]
    )


TRIALS = tried(
    ("both", STORES, 60, (4.0, 1.0), 60.0),
    ("both", STORES, 5, (4.0, 1.0), 59.0),
    ("both", STORES, 60, (), 58.0),
    ("one LambdaMART", ("whole", "bm25t"), 5, (2.0, 1.0), 57.0),
    ("one LambdaMART", ("whole", "semantic"), 5, (), 50.0),
)
CHOSEN = Fusion(STORES, 60, (4.0, 1.0))
CHAINS = tried(
    (TWO_QUERIES, ("whole", "semantic", "cot"), 20, (), 56.0),
    ("both", STORES, 60, (4.0, 1.0), 55.0),
    (TWO_QUERIES, ("semantic", "cot"), 1, (), 45.0),
).assign(queries=9)


def alone(mean):
    return pd.DataFrame({"rankings": ["whole"], "k": [0], "recall@3": [mean], "ndcg@3": [mean], "mean": [mean]})


def test_the_table_shows_the_best_of_each_reading_and_marks_the_chosen():
    table = page.readings_table(TRIALS, alone(59.5), CHAINS, CHOSEN, 5)
    frame = table.frame
    assert frame["k"].tolist() == ["60", "60", "5", "5", "–", "20", "60"]
    assert frame["chosen"].tolist() == ["←", *[""] * 6]
    assert frame["queries"].tolist() == [40] * 5 + [9] * 2
    assert frame[page.CHANGE].tolist()[3:5] == ["−9.5 [−10.5, −8.5]", "–"]
    assert frame["reading"].tolist()[4:] == ["LambdaMART alone, not fused", TWO_QUERIES, "both"]
    assert frame.index.is_unique  # a star goes to a row by its label
    assert "(5 folds; rankers of a store or a signal group: 3): of 5 fusions" in table.caption
    assert len(page.readings_table(TRIALS, alone(59.5), pd.DataFrame(), CHOSEN, 5).frame) == 5


@pytest.mark.parametrize(
    ("mean", "effect"),
    [
        (
            62.5,
            "no fusion is as good as the ranking it starts from (the best changes it by −2.50 [−3.50, −1.50] points)",
        ),
        (60.0, "fusion gains 0.00 [−1.00, 1.00] points"),
        (58.0, "fusion gains 2.00 [1.00, 3.00] points, chosen on these very queries"),
    ],
)
def test_what_is_fused(mean, effect):
    gains = {name: TRIALS["mean"] - mean + off for name, off in (("gain", 0), ("gain_low", -1), ("gain_high", 1))}
    text = page.what_is_fused(TRIALS.assign(**gains), alone(mean), 0.5, 3)
    assert text.startswith("Chosen: **both** (whole + store by store), weight 4, k = 60, mean recall 60.0%.")
    assert f"has {mean:.1f}%: {effect}. Without weights the best is both" in text
    assert "no fusion at all" not in text


def test_a_fusion_that_changes_next_to_nothing_is_called_that():
    text = page.what_is_fused(TRIALS, alone(60.0), 0.97, 3)
    assert "leaves LambdaMART's first 3 as they were for 97% of these queries" in text
    assert "Without weights" not in page.what_is_fused(TRIALS[2:], alone(60.0), 0.5, 3)


def test_two_queries():
    text = page.two_queries_in_words(CHAINS)
    assert "tried on the 9 training queries that have a chain: the two searches fused find 45.0%" in text
    assert "at best 56.0% (whole + semantic + cot, weight 1, k = 20), the chosen reading 55.0%." in text
    assert page.two_queries_in_words(pd.DataFrame()) == ""


def test_what_it_changes_on_evaluation_queries():
    names = [f"q{number}" for number in range(40)]
    queries = pd.DataFrame({"query": names, "persona": [f"p{n // 4}" for n in range(40)], "split": "evaluation"})
    gold = pd.DataFrame(
        {"query": names, "need": [f"n{n % 5}" for n in range(40)], "kind": "habit", "relevant": [["x"]] * 40}
    )
    asked = EvaluationQueries.of_world(queries, gold, [])
    levels = {"lambdamart": [60.0, 40.0] * 20, "lambdamart_rrf": [58.0, 41.0] * 20}
    scores = pd.DataFrame({(name, "recall", 3): values for name, values in levels.items()}, index=names)
    scores.columns = scores.columns.set_names(["method", "metric", "k"])
    text = page.on_evaluation(ContextScores(asked, scores, (), [3], asked.resampling(50, 0)), 0.75)
    assert text.startswith("On the 40 evaluation queries the chosen fusion changes LambdaMART's Recall@3 by −0.5 [")
    assert text.endswith("leaves its first 3 as they were for 75% of them.")
