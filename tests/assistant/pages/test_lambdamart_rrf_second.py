"""What the page of notebook 05 says and shows of our own ranker, on small frames."""

from dataclasses import replace
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from lib.assistant.adapted_cosine import OF_ENCODERS, ROWS
from lib.assistant.context_scores import ContextScores, EvaluationQueries, compare_by_kind
from lib.assistant.pages import lambdamart_rrf_second as page
from lib.assistant.ranker_ablation import CROSS_FITTED, TWO_CROSS_FITTED, WITH_FINETUNED
from lib.assistant.second_stage import COSINE_STEP, Choice, Setting
from lib.assistant.unseen_needs import UnseenNeeds
from lib.evaluation.inference import Resampling, holm_adjust, settled
from lib.workbook.methods import label

N = 60
KINDS = np.array(["meaning", "habit", "either"] * (N // 3))


def asked():
    persona = np.array([f"p{number // 3}" for number in range(N)])
    need = np.array([f"n{number % 12}" for number in range(N)])
    names = [f"q{number}" for number in range(N)]
    return EvaluationQueries(names, persona, need, KINDS, np.full(N, 2), np.zeros(N, dtype=bool))


def table_of(means):
    """Scores with given means: {method: a mean, or one a kind}; they scatter a little."""
    wobble = np.tile([-0.3, 0.3, 0.1, -0.1], N // 4)
    scores = pd.DataFrame(
        {
            (method, metric, k): np.array([mean[kind] if isinstance(mean, dict) else mean for kind in KINDS])
            + place * wobble
            for place, (method, mean) in enumerate(means.items())
            for metric in ("recall", "ndcg", "ndcg_retrieved")
            for k in (3, 5)
        },
        index=pd.Index(asked().names, name="query"),
    )
    scores.columns = scores.columns.set_names(["method", "metric", "k"])
    return scores


MEANS = {
    "random": 10.0,
    "semantic": 38.0,
    "lambdamart": {"meaning": 50.0, "habit": 70.0, "either": 80.0},
    "lambdamart_rrf": 66.0,
    "lambdamart_2": {"meaning": 55.0, "habit": 79.0, "either": 80.0},
}


def scored(**changes):
    return ContextScores(asked(), table_of(MEANS | changes), (), [3, 5], asked().resampling(100, 7))


def trials(*rows):
    named = []
    for step, setting, found in rows:
        compared = " + ".join(setting.groups + ("passed on",) * setting.passed_on)
        named.append((step, setting, compared, setting.top, setting.leaves, setting.adapted, found - 9, found))
    names = ["step", "setting", "compared", "top", "leaves", "adapted", "recall@3", "mean"]
    return pd.DataFrame(named, columns=names)


BOTH, FLAT = Setting(("text", "log"), False, 3, 7), Setting((), False, 3, 15)
MORE = BOTH._replace(passed_on=True)
ALONE = pd.DataFrame({"rankings": ["whole"], "k": [0], "recall@3": [68.0], "mean": [70.0]})


def test_what_was_tried_and_what_was_chosen():
    tried = trials(("features", BOTH, 75.0), ("features", FLAT, 71.0), ("leaves", BOTH, 75.0))
    choice = Choice(BOTH, tried, np.zeros(3))
    table = page.choice_table(choice, ALONE, 4338)
    assert table.frame["step"].tolist() == ["first stage alone", "features", "features", "leaves"]
    assert table.frame["compared with top items by"].tolist() == ["–", "text, usage log", "nothing", "text, usage log"]
    assert table.frame["chosen"].tolist() == ["", "", "", "←"]
    assert table.frame["mean"].tolist() == [70.0, 75.0, 71.0, 75.0]
    assert table.frame["adapted cosine"].tolist() == ["–", "no", "no", "no"]
    assert "4,338 training queries" in table.caption
    assert page.what_is_chosen(choice, ALONE, 120) == (
        "Chosen: items are compared with the first stage's 3 best by **text, usage log**, 7 leaves. Mean recall on the "
        "training queries 75.0%, 5.0 points from the first stage alone. Trained on all of them, the second stage has "
        "120 trees."
    )
    more = Choice(MORE, trials(("leaves", MORE, 76.0)), np.zeros(3))
    assert (
        page.choice_table(more, ALONE, 9)
        .frame["compared with top items by"]
        .tolist()[1]
        .endswith("neighbours' signals")
    )
    assert "**text, usage log** and see what their neighbours' own signals say, 7" in page.what_is_chosen(
        more, ALONE, 1
    )
    worse = Choice(FLAT, trials(("leaves", FLAT, 69.0)), np.zeros(3))
    text = page.what_is_chosen(worse, ALONE, 9)
    assert text.startswith("Chosen: items are not compared, 15 leaves.")
    assert "−1.0 points from the first stage alone" in text


@pytest.mark.parametrize("seen", [True, False])
def test_whether_the_cosine_is_seen_stands_with_both_recalls(seen):
    one, other = BOTH._replace(adapted=seen), FLAT._replace(adapted=not seen)
    tried = trials(
        ("leaves", one, 75.0), ("leaves", other, 74.625), (COSINE_STEP, one, 75.0), (COSINE_STEP, other, 74.625)
    )
    choice = Choice(one, tried, np.zeros(3), other)
    frame = page.choice_table(choice, ALONE, 9).frame
    assert frame["chosen"].tolist() == ["", "", "", "←", ""]
    assert frame["adapted cosine"].tolist()[3:] == (["yes", "no"] if seen else ["no", "yes"])
    best, less = "75.00% (Recall@3 66.0%)", "74.62% (Recall@3 65.6%)"
    both = (best, less) if seen else (less, best)
    says = "sees it" if seen else "does without"
    text = page.what_is_chosen(choice, ALONE, 9)
    assert f" With the adapted cosine it is {both[0]}, without it {both[1]}: so the second stage {says}. " in text


def test_ours_is_tested_against_each_on_each_kind():
    tests = compare_by_kind(scored(), "lambdamart_2", page.OTHERS)
    assert len(tests) == 12
    np.testing.assert_allclose(tests["p_holm"], holm_adjust(tests["p_value"]))
    rows = tests.set_index(["other", "group"])
    assert rows.loc[("lambdamart", "habit"), "difference"] == pytest.approx(9.0, abs=0.1)
    drawing = page.tests_figure(tests, 3, "ours", "lambdamart_2")
    assert drawing.data["comparison"].nunique() == 12
    assert drawing.data["comparison"].str.contains(r", (?:all|meaning|habit|either) \(n = \d+\)$").all()
    above = rows.loc["lambdamart"]
    n = int((settled(above) & (above["difference"] > 0)).sum())
    assert "LambdaMART, two stages (ours), settled: " in drawing.finding
    assert f"{n} of 4 rows above LambdaMART" in drawing.finding
    assert drawing.data["settled"].any()
    plt.close(drawing.figure)


def test_a_gain_is_named_only_where_it_is_settled():
    text = page.where_it_gains(compare_by_kind(scored(), "lambdamart_2", page.OTHERS), 3)
    assert text.startswith(
        "LambdaMART, two stages (ours) finds 71.3% at K = 3, LambdaMART 66.7%: a difference of 4.7 ["
    )
    assert "] points (settled); by kind: meaning 5.0 [" in text
    assert text.endswith("Settled is a gain for meaning and habit queries.")
    tests = compare_by_kind(scored(), "lambdamart_2", page.OTHERS)
    near = (tests["other"] == "semantic") & (tests["group"] == "meaning")
    tests.loc[near, ["ci_low", "ci_high"]] = -1, 2
    text = page.where_it_gains(tests, 3)
    assert "Over semantic search its gain is not settled for meaning queries (" in text
    assert text.endswith("[−1.0, 2.0]).")
    worse = scored(lambdamart_2={"meaning": 40.0, "habit": 70.0, "either": 80.0})
    text = page.where_it_gains(compare_by_kind(worse, "lambdamart_2", page.OTHERS), 3)
    assert "A gain is settled for no kind alone. It finds less for meaning queries." in text


def test_two_stages_with_an_encoder_are_tested_where_they_are():
    without = page.variant_tests(scored())
    assert page.variant_figures(without, 3) == []
    assert page.variant_in_words(without, 3, 81.27) == ""
    with_it = scored()
    alike = {TWO_CROSS_FITTED: "lambdamart", "finetuned": "semantic"}
    columns = {(name, *key[1:]): with_it.scores[key] for name, of in alike.items() for key in with_it.scores[[of]]}
    with_it = replace(with_it, scores=with_it.scores.join(pd.DataFrame(columns)))
    tests = page.variant_tests(with_it)
    (drawing,) = page.variant_figures(tests, 3)
    assert drawing.name == "two_stages_cross_fitted_tests"
    assert len(drawing.data) == 12
    assert (drawing.data.loc[drawing.data["other"] == "lambdamart", "difference"] == 0).all()
    plt.close(drawing.figure)
    text = page.variant_in_words(tests, 3, 81.27)
    assert text.startswith("Two stages + fine-tuned encoder (ours) find 66.7% at K = 3; the paper's ")
    assert "LambdaMART-RRF finds 81.3% in its own world. Beside semantic search that is, by kind: meaning " in text
    gains = tests[
        (tests["other"] == "semantic") & (tests["group"] != "all") & settled(tests) & (tests["difference"] > 0)
    ]
    assert gains["group"].tolist() == ["meaning", "habit", "either"]
    assert text.endswith("Settled is a gain for meaning, habit and either queries.")
    on_meaning = tests.assign(p_holm=tests["p_holm"].where(tests["group"] == "meaning", 1.0))
    assert page.variant_in_words(on_meaning, 3, 81.27).endswith("Settled is a gain for meaning queries.")
    nowhere = tests.assign(difference=-1.0)
    assert page.variant_in_words(nowhere, 3, float("nan")).endswith("A gain is settled for no kind alone.")
    assert "in its own world" not in page.variant_in_words(nowhere, 3, float("nan"))


def unseen(ours=70.0, **text):
    resampling = Resampling([asked().persona, asked().need], 100, 0)
    fresh = {"random": 10.0, "semantic": 38.0, "lambdamart": 65.0, "lambdamart_rrf": 64.0, "lambdamart_2": ours} | text
    return UnseenNeeds(set(asked().need), asked().kinds, KINDS, table_of(fresh), table_of(MEANS | text), 3, resampling)


def test_needs_unseen():
    names = {method: method for method in MEANS}
    table = page.needs_table(unseen(), names, 5)
    rows = table.frame.set_index("method")
    assert rows["n"].tolist() == [N] * 5
    assert rows["without − with"].tolist()[:2] == ["–", "–"]
    assert rows.loc["lambdamart_2", "without − with"].startswith("−1.3 [")
    assert rows.loc["lambdamart_2", "trained with them"] == pytest.approx(71.3, abs=0.1)
    assert table.caption.startswith("Recall@3 in percent with 95% intervals. 5 folds of needs")
    text = page.on_other_needs(unseen())
    assert text.startswith(
        "On needs it never saw LambdaMART, two stages (ours) finds 70.0% at K = 3, LambdaMART 65.0%: a difference of "
        "5.0 [4.7, 5.3] points (settled). Trained with them it finds 71.3%; not having seen them makes a difference of "
        "−1.3 ["
    )
    assert "(not settled)" in page.on_other_needs(unseen(ours=65.0))
    assert "an encoder trained" not in text
    with_text = page.on_other_needs(unseen(cross_encoder=60.0, **{WITH_FINETUNED: 70.0}))
    said = "What sees an encoder trained without them, and the gain of LambdaMART, two stages (ours) on it: "
    assert said in with_text
    assert "cross-encoder 60.0% (10.0 [" in with_text
    assert f"] points, settled); {WITH_FINETUNED} 70.0% (0.0 [" in with_text
    known = {WITH_FINETUNED: 70.0}
    assert page.needs_table(unseen(**known), names, 5).frame["method"].tolist()[-1] == WITH_FINETUNED
    assert with_text.endswith("points, not settled).")


def test_what_cross_fitting_by_need_costs_and_brings():
    resampling = Resampling([asked().persona, asked().need], 100, 0)
    rankers = SimpleNamespace(scores=table_of({WITH_FINETUNED: 85.0, CROSS_FITTED: 80.0}), k=3, resampling=resampling)
    fresh = unseen(**{WITH_FINETUNED: 66.0, CROSS_FITTED: 72.0})
    text = page.what_trust_costs(rankers, fresh)
    assert text.startswith("Cross-fitting the encoder's cosine by need changes LambdaMART by −5.0 [")
    assert "] points where training knows the need (a settled loss), by 6.0 [" in text
    assert text.endswith("] where it does not (a settled gain).")
    assert "does not say `retrain_encoders`" in page.what_trust_costs(rankers, unseen())


def test_what_chains_of_thought_add_on_new_needs():
    assert "does not say `retrain_writers`" in page.what_chains_add(unseen())
    text = page.what_chains_add(unseen(semantic=50.0, cot_distilled=60.0, finetuned=70.0, finetuned_cot=70.0))
    assert text.startswith("Chains of thought by a writer that did not meet the need either: ")
    assert f"{label('cot_distilled')} against {label('semantic')} 10.0 [" in text
    assert "] points (settled); " in text
    assert f"{label('finetuned_cot')} against {label('finetuned')} 0.0 [" in text
    assert "(not settled)" in text


def gains(*differences, p_holm=0.01):
    names = [*ROWS, *OF_ENCODERS][: len(differences)]
    return pd.DataFrame(
        [
            (name, 100, 70.0, 70.0 + gain, gain, gain - 1, gain + 1, p_holm)
            for name, gain in zip(names, differences, strict=True)
        ],
        columns=["queries", "n", "without", "with", "difference", "ci_low", "ci_high", "p_holm"],
    )


def test_what_the_cosine_adds():
    text = page.adds_in_words(gains(1.0, 9.0, -2.0, 0.5, 20.0, 0.0))
    assert "find 79.0%, without it 70.0%: 9.0 [8.0, 10.0] points (a settled gain)" in text
    assert (
        "that nothing learned from they find 68.0%, without it 70.0%: −2.0 [−3.0, −1.0] points (a settled loss)" in text
    )
    assert text.endswith("Shuffled, the cosine makes 0.5 [−0.5, 1.5] points: no gain that is settled, as it must be.")
    unsure = page.adds_in_words(gains(1.0, 9.0, -2.0, 0.5, 20.0, 0.0, p_holm=0.06))
    assert "9.0 [8.0, 10.0] points (not settled)" in unsure, "an interval alone settles nothing"
    fake = page.adds_in_words(gains(1.0, 0.5, 0.0, 5.0, 20.0, 0.0))
    assert "points (not settled). On" in fake
    assert "**it must not, so the gain above is an artefact in part**" in fake
    assert (
        page.adds_table(gains(1.0, 9.0, -2.0, 0.5, 20.0, 0.0), 3).frame["difference"].tolist()[1] == "9.0 [8.0, 10.0]"
    )


def test_what_an_encoders_cosine_adds_stands_beside_it():
    alone = gains(1.0, 9.0, -2.0, 0.5, 20.0, 0.0)
    assert "encoder" not in page.adds_in_words(alone)
    assert "An encoder's" not in page.adds_table(alone, 3).caption
    both = gains(1.0, 9.0, -2.0, 0.5, 20.0, 0.0, 11.0, 4.0, 0.5)
    assert page.adds_in_words(both) == page.adds_in_words(alone) + (
        " With an encoder's cosine in its place they find 81.0%, 11.0 [10.0, 12.0] points more than without any (a "
        "settled gain); on needs that nothing learned from 74.0%, 4.0 [3.0, 5.0] points (a settled gain). Shuffled, "
        "that cosine makes 0.5 [−0.5, 1.5] points: no gain that is settled, as it must be."
    )
    assert page.adds_in_words(gains(*[0.0] * 8, 5.0)).endswith(
        "**it must not, so the gain above is an artefact in part**."
    )
    assert page.adds_table(both, 3).caption.endswith("in the rows that name it.")


def test_a_variant_is_named_by_what_it_is():
    name = "two stages without the adapted cosine"
    tests = compare_by_kind(scored(**{name: 60.0}), "lambdamart_2", (name, "semantic"))
    drawing = page.tests_figure(tests, 3, "with_and_without", "lambdamart_2")
    assert f"{name}, all (n = {N})" in drawing.data["comparison"].tolist()
    plt.close(drawing.figure)


def test_the_finding():
    tests = compare_by_kind(scored(), "lambdamart_2", page.OTHERS)
    text = page.finding(tests, unseen())
    assert text.endswith("] points (settled); on needs that training never showed it finds 70.0%")
    with_text = page.finding(tests, unseen(finetuned=44.0))
    assert with_text.endswith("it finds 70.0%, fine-tuned search 44.0% (with them 44.0%)")
