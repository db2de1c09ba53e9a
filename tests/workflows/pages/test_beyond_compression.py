import pandas as pd

from lib.evaluation.prices import Price
from lib.workflows.compression import WHOLE
from lib.workflows.pages import beyond_compression as page
from tests.workflows.pages.studies import scored

PRICES = {"gpt-x": Price(model="gpt-x", input=30, output=60, since="2023-03-14", source="a page")}


def lengths_of(tokens, shots=5):
    parts = [
        pd.DataFrame({"pair": [f"p{i}" for i in range(len(given))], "way": way, "tokens": given})
        for way, given in tokens.items()
    ]
    return pd.concat(parts, ignore_index=True).assign(shots=shots, shown=shots, dropped=0, definitions=3)


LENGTHS = pd.concat(
    [
        lengths_of({WHOLE: [1000, 2000, 3000], "values elided": [900, 1900, 2900], "all three": [500, 1000, 1500]}),
        lengths_of({WHOLE: [4000, 6000], "values elided": [3000, 5000], "all three": [1000, 1000]}, 20),
    ]
)


def test_what_is_saved_of_the_whole_prompts():
    saved = page.saved_tokens(LENGTHS, 500, 0).set_index(["shots", "way"])
    assert saved.loc[(5, WHOLE), ["tokens", "saved", "saved_low", "saved_high"]].tolist() == [2000, 0, 0, 0]
    row = saved.loc[(5, "all three")]
    assert (row["tokens"], row["saved"], row["n"]) == (1000, 50, 3)
    assert row["saved_low"] < 50 < row["saved_high"]
    assert saved.loc[(5, "values elided"), "saved"] == 5
    assert saved.loc[(20, "all three"), "saved"] == 80


def test_the_order_of_requests_does_not_matter():
    mixed = LENGTHS.sample(frac=1, random_state=3)
    both = (page.saved_tokens(one, 50, 0).set_index(["shots", "way"])["saved"] for one in (LENGTHS, mixed))
    first, second = both
    assert first.to_dict() == second.to_dict()


def test_savings_for_readers():
    saved = page.saved_tokens(LENGTHS, 500, 0)
    frame = page.saved_table(saved).frame
    assert frame["few-shots"].tolist() == [5] * 3 + [20] * 3
    assert frame.loc[2, "saved, %"].startswith("50.0 [")
    said = page.saved_in_words(saved)
    assert "with 5 few-shots 50 [" in said
    assert "(all three), most of it by values elided (5%); with 20 few-shots 80 [" in said


def scores_of(whole, shorter):
    parts = [
        scored(WHOLE, whole, tokens_in=1000.0, seconds=14.0),
        scored("all three", shorter, tokens_in=400.0, seconds=6.0),
    ]
    return pd.concat(parts, ignore_index=True)


def test_flows_from_shorter_prompts_are_tested_on_the_same_requests():
    tests = page.compressed_tests(scores_of([1.0] * 12, [0.0] * 12), 200, 0).set_index(["condition", "metric"])
    row = tests.loc[("all three", "executed")]
    assert (row["value"], row["delta"], row["settled"]) == (0, -100, True)
    assert row[["tokens_in", "seconds"]].tolist() == [400, 6]
    assert tests.loc[WHOLE, "delta"].isna().all()
    assert not tests.loc[WHOLE, "settled"].any()
    assert tests.loc[(WHOLE, "similarity"), "value"] == 1, "similarity is 0 to 1"


def test_what_compression_does_in_words_and_as_a_table():
    lost = page.compressed_tests(scores_of([1.0] * 12, [0.0] * 12), 200, 0)
    assert page.compressed_in_words(lost).startswith("Settled on 12 requests: all three: similarity −1.00 [")
    same = page.compressed_tests(scores_of([1.0] * 12, [1.0] * 11 + [0.5]), 200, 0)
    assert page.compressed_in_words(same).startswith("On 12 requests no difference from whole prompts is settled")
    frame = page.compressed_table(same, PRICES).frame
    assert frame["prompt"].tolist() == [WHOLE, "all three"]
    assert frame["tokens read"].tolist() == [1000, 400]
    assert frame["US dollars, gpt-x"].tolist() == ["31", "13"]
    assert "\nΔ −0.04 [" in frame.loc[1, "similarity"]
    assert "●" in page.compressed_table(lost, PRICES).frame.loc[1, "similarity"]


def test_without_a_shorter_prompt():
    alone = page.compressed_tests(scored(WHOLE, [1.0] * 4), 50, 0)
    assert page.compressed_in_words(alone) == "Only whole prompts were asked."
