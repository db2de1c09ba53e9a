"""What notebook 08 shows of the fine-tuned model."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from lib.workflows.pages import dsl_retrieval_model as page

CONDITIONS = ["copy, TST", "fine-tuned, 8 pairs", "fine-tuned, 16 pairs"]


def scores_of(conditions, n=8):
    """Each condition's flows are all right or all wrong, in turn."""
    parts = [
        pd.DataFrame(
            {
                "unit": [f"t{i}" for i in range(n)],
                "condition": condition,
                "parsed": True,
                "valid": bool(number % 2),
                "similarity": float(number % 2),
                "made_up_names": [() if number % 2 else ("own.Do",)] * n,
                "made_up_parameters": [()] * n,
                "text": [f"flow {i}" for i in range(n)],
                "finished": True,
            }
        )
        for number, condition in enumerate(conditions)
    ]
    return pd.concat(parts, ignore_index=True)


@pytest.fixture
def scores():
    return scores_of(CONDITIONS)


def answers(similarity, made_up=(), finished=True):
    n = len(similarity)
    index = pd.Index([f"t{i}" for i in range(n)], name="unit")
    columns = {"similarity": similarity, "valid": np.asarray(similarity) > 0, "finished": finished}
    return pd.DataFrame(columns, index=index).assign(made_up_names=[tuple(made_up)] * n)


def test_losses_are_drawn_by_pairs_seen():
    curve = {"step": range(1, 11), "tokens": 10, "target_tokens": 5, "seconds": 1.0}
    curves = {size: pd.DataFrame(curve | {"loss": np.linspace(size, 1, 10)}) for size in (8, 16)}
    drawing = page.loss_drawing(curves, 4)
    assert drawing.finding == "The loss goes from 16.00 to 1.00 nats a token over 16 pairs"
    assert [line.get_label() for line in drawing.figure.axes[0].lines] == ["8 pairs", "16 pairs"]
    assert drawing.figure.axes[0].lines[0].get_xdata()[-1] == 40
    assert drawing.data.columns.tolist() == ["step", "loss", "tokens", "target_tokens", "pairs"]
    assert drawing.data["pairs"].tolist() == [8] * 10 + [16] * 10
    plt.close(drawing.figure)


def test_what_was_learned_from():
    training = pd.DataFrame({"apis": [["a", "b"], ["c"], ["a"]]})
    curve = pd.DataFrame({"epoch": [1, 1, 2], "tokens": [500, 600, 700], "target_tokens": [1, 2, 3]})
    assert page.training_in_words("my_model", training, {"a", "b"}, curve, 2, 0.003) == (
        "my\\_model, 2 of 3 training pairs, 2 epoch(s), 1,800 tokens read, 6 learned, learning rate 0.003. These pairs "
        "use 2 of the 3 APIs that training uses; what the model writes of the others, it has not seen."
    )


def test_flows_are_tabulated_by_condition(scores):
    table = page.flows_table(scores, page.metric_values(scores, 100, 0), 8, 16)
    assert table.frame[""].tolist() == CONDITIONS
    assert table.frame.columns.tolist() == [
        "", "similarity", "unparsed, %", "made-up names, %", "made-up parameters, %", "P(valid)", "similarity if valid"
    ]  # fmt: skip
    assert table.frame["P(valid)"].tolist() == [0, 1, 0]
    assert table.frame["similarity"].str[:4].tolist() == ["0.00", "1.00", "0.00"]
    assert table.frame["made-up names, %"].str.split(" ").str[0].tolist() == ["100", "0", "100"]
    assert table.caption.startswith("Flows written for 8 test requests")
    assert table.caption.endswith("than the 16.")


def test_the_model_is_compared_with_all_else(scores):
    tests = page.similarity_tests(scores, 16, 100, 0)
    assert list(zip(tests["a"], tests["b"], strict=True)) == [
        ("fine-tuned, 16 pairs", "copy, TST"), ("fine-tuned, 16 pairs", "fine-tuned, 8 pairs")
    ]  # fmt: skip
    assert tests["delta"].tolist() == [0, -1]
    assert tests["p_holm"].iloc[1] == pytest.approx(min(1, 2 * tests["p_value"].iloc[1]))
    frame = page.similarity_table(tests).frame
    assert frame["comparison"].tolist()[1] == "fine-tuned, 16 pairs minus fine-tuned, 8 pairs"
    assert frame["similarity"].tolist()[1].startswith("−1.00 [")
    again = scores_of([*CONDITIONS, "fine-tuned, 16 pairs, reworded"])
    tests = page.similarity_tests(again, 16, 100, 0)
    assert tests["a"].tolist()[-1] == "fine-tuned, 16 pairs, reworded"
    assert tests["b"].tolist() == ["copy, TST", "fine-tuned, 8 pairs", "fine-tuned, 16 pairs"]


def test_flows_whose_apis_are_all_known():
    flows = pd.DataFrame({"pair": ["x", "y"], "apis": [["a", "b", "a"], ["a", "c"]]})
    assert page.all_known(flows, ["a", "b"]).to_dict() == {"x": True, "y": False}


def test_too_few_answers_are_not_split():
    mine = answers([0.5, 0.0, 1.0], finished=[True, False, True])
    said = page.answers_in_words(mine, pd.Series([True, True, False], mine.index), 0.25, 256)
    assert said == (
        "The fine-tuned model reaches a similarity of 0.50; 2 of its 3 flows are valid. All APIs that are wanted occur "
        "among the pairs it learned from for 2 of these 3 flows (25% of all test flows); too few flows are on one side "
        "to compare. It made up no name. Cut at 256 tokens: 1 of 3."
    )


def test_answers_are_split_by_what_was_learned():
    mine = answers([1.0] * 20 + [0.5] * 20, made_up=["own.Do", 'x["a`b\nc"]'])
    familiar = pd.Series([True] * 20 + [False] * 20, mine.index)
    said = page.answers_in_words(mine, familiar, 0.5, 256)
    assert "for 20 of these 40 flows (50% of all test flows): similarity 1.00 there, 0.50 elsewhere. " in said
    assert 'Names it made up: `own.Do`, `x["ab c"]`. ' in said
    few = page.answers_in_words(mine[:39], familiar[:39], 0.5, 256)
    assert "too few flows are on one side" in few


def test_examples_go_from_the_worst_to_the_best():
    mine = answers([0.9, 0.0, 0.3, 0.0, 0.6]).assign(text=list("abcde"))
    written = pd.DataFrame({"pair": mine.index, "request": list("ABCDE"), "dsl": list("12345")}).sample(
        frac=1, random_state=0
    )
    table = page.examples_table(mine, written)
    assert table.frame["request"].tolist() == ["B", "D", "E", "A"]
    assert table.frame["similarity"].tolist() == [0, 0, 0.6, 0.9]
    assert table.frame["flow"][0] == "// wanted\n2\n\n// written\nb"
    assert len(page.examples_table(answers([0.0]).assign(text="a"), written[written["pair"] == "t0"]).frame) == 1


def test_the_finding_names_the_pairs_and_the_flows():
    assert page.finding(answers([0.5, 1.0]), 3000) == (
        "A model fine-tuned on 3,000 pairs reaches a similarity of 0.75 (2 flows)."
    )
