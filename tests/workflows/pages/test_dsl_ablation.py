import pandas as pd
import pytest

from lib.generation.local import Usage
from lib.workbook.parameters.dsl_ablation import Condition
from lib.workflows.ablation import CONDITION, cost_of
from lib.workflows.ablation_grid import UNSEEN_FINETUNED, UNSEEN_HELD, Asked, unseen_name
from lib.workflows.pages.dsl_ablation import (
    COPY,
    HELD,
    Writers,
    copied_selectors,
    cost_caption,
    cost_table,
    described,
    fair_comparisons,
    in_short,
    retrieval_or_finetuning,
    titles,
    usage_in_words,
    way_title,
)
from tests.workflows.pages.studies import ASKED, WRITERS, study_of

REMOTE = Writers("remote:gpt-4", "SmolLM2-135M-Instruct", 512)
COPIES = [COPY, "copy, TST", "copy of the 512, pretrained", "copy of the 512, TST"]


def test_the_writers_by_name():
    assert WRITERS.names == "SmolLM2-135M-Instruct"
    assert WRITERS.also_tuned == ""
    assert REMOTE.names == "remote:gpt-4 (with few-shots) and SmolLM2-135M-Instruct (fine-tuned)"
    assert REMOTE.also_tuned == "; SmolLM2-135M-Instruct was fine-tuned"
    assert [REMOTE.of(name) for name in ("untuned", "finetuned")] == [
        "remote:gpt-4", "SmolLM2-135M-Instruct, fine-tuned",
    ]  # fmt: skip


def test_whose_few_shot_is_copied():
    found = copied_selectors([*COPIES, "pretrained_5"])
    assert list(found.values()) == ["pretrained", "tst", "pretrained_learned", "tst_learned"]


def test_what_conditions_are_called():
    named = titles(ASKED, copied_selectors(COPIES), 512)
    assert named["tst_20_fd_sfd"] == "TST, 20 few-shots, FD + SFD"
    assert named["finetuned"] == "fine-tuned model (512 pairs), no few-shots"
    assert named["copy of the 512, TST"] == "nearest few-shot copied, TST among the learned pairs"
    assert named[COPY] == "nearest few-shot copied, pretrained encoder"
    assert named[unseen_name((0, False), "none")] == "no examples of the new APIs, no definitions"
    assert named[unseen_name((0, False), "gold", "grounded")] == (
        "no examples of the new APIs, gold definitions, only the APIs shown"
    )
    assert named[unseen_name((1, True), "fd_sfd")] == "1 example of each added, a slot kept, FD + SFD"
    assert named[UNSEEN_HELD] == "fine-tuned model, no few-shots, under the grammar and the catalogue"


def test_ways_of_adding_examples():
    assert way_title((2, False)) == "2 examples of each added"
    assert way_title((1, True)) == "1 example of each added, a slot kept"


def test_the_reports_columns_of_each_condition():
    rows = described(ASKED, copied_selectors(COPIES), REMOTE)
    assert rows.columns.tolist() == CONDITION
    assert rows.loc["tst_5_fd"].tolist() == ["tst", 5, "fd", "remote:gpt-4", "free", 0]
    assert rows.loc["finetuned"].tolist() == ["none", 0, "none", "SmolLM2-135M-Instruct, fine-tuned", "free", 512]
    assert rows.loc[HELD, ["selector", "decoding", "train_pairs"]].tolist() == ["pretrained", "catalogue", 512]
    assert rows.loc[UNSEEN_FINETUNED].tolist() == rows.loc["finetuned"].tolist()
    assert rows.loc[UNSEEN_HELD, ["selector", "decoding"]].tolist() == ["none", "catalogue"]
    assert rows.loc["copy, TST"].tolist() == ["tst", 1, "none", "copy", "free", 0]


def test_in_short_says_what_beats_copying():
    study = study_of({COPY: [0.5] * 14, "pretrained_5": [0.0] * 14, "finetuned": [1.0] * 12 + [None, 1.0]})
    text = in_short(study)
    assert text.startswith(
        "Similarity on the same 14 flows: copying the nearest flow 0.50 [0.50, 0.50]; five few-shots"
    )
    assert (
        "Significantly better than copying (Holm over these rows and the four metrics): the fine-tuned model." in text
    )
    assert text.endswith("Worse: five few-shots.")


def test_in_short_where_nothing_is_settled():
    text = in_short(study_of({COPY: [0.5, 0.4], "pretrained_5": [0.4, 0.5, 1.0]}))
    assert "the same 2 flows" in text
    assert text.endswith("four metrics): none of these. Worse: none.")


def test_fair_comparisons_are_those_whose_sides_were_asked():
    study = study_of({COPY: [0.5] * 3, "pretrained_5": [0.5] * 3, "random_5": [0.2] * 3, "tst_5": [0.1] * 3})
    fair = fair_comparisons(study)
    assert fair["why"].unique().tolist() == [
        "does the model add to its nearest few-shot?",
        "does it matter which few-shots?",
    ]
    assert len(fair) == 8


@pytest.mark.parametrize(("level", "said"), [(1.0, "settled"), (0.01, "not settled")])
def test_retrieval_or_finetuning(level, said):
    conditions = {
        "pretrained_5": [0.0] * 14,
        COPY: [0.0] * 14,
        "pretrained_5_catalogue": [level] * 7 + [1.0 - level if level < 1 else 1.0] * 7,
        HELD: [0.0] * 7 + [1.0 if level < 1 else 0.0] * 7,
    }
    text = retrieval_or_finetuning(fair_comparisons(study_of(conditions)), 512, 67_000)
    assert "with few-shots from all 67,000 pairs" in text
    assert text.endswith(f"({said}).")
    assert "learned from" not in text


def test_retrieval_or_finetuning_may_not_be_tested():
    fair = fair_comparisons(study_of({COPY: [0.5] * 3, "pretrained_5": [0.5] * 3}))
    assert retrieval_or_finetuning(fair, 512, 67_000).endswith("in similarity by: not tested in this profile.")


def test_the_cost_of_test_flows():
    unseen = unseen_name((0, False), "none")
    study = study_of({"pretrained_5": [0.5] * 3, unseen: [0.5]})
    shown = cost_table(study, cost_of(study.scores), {("tst", 20): 31, ("pretrained", 5): 9, ("tst", 1): 2}, 2, 256)
    assert shown.frame["condition"].tolist() == ["pretrained encoder, 5 few-shots"]
    assert shown.frame.iloc[0, 1:].tolist() == [3, 100.0, 10.0, "0.5", 0, 0]
    assert shown.caption.endswith("same selector: 9 beside 5 by pretrained encoder, 31 beside 20 by TST.")
    assert "on 2 cores. Cut: answers that reached 256 tokens. The model is SmolLM2" in shown.caption


def test_the_cost_of_a_model_behind_an_endpoint():
    caption = cost_caption(REMOTE, {}, 2, 256)
    assert "on 2 cores; of a model behind an endpoint, those of its request. Cut" in caption
    assert "The models are remote:gpt-4 (with few-shots) and" in caption
    assert "(135 million parameters; the paper's are GPT-4" in caption
    assert "(the paper's are GPT-4" in cost_caption(Writers("a", "a", 1), {}, 2, 256)


def test_what_all_answers_took():
    usages = [Usage(prompts=2, tokens_in=1000, tokens_out=7), Usage(prompts=1, tokens_in=500, tokens_out=3)]
    cost = pd.DataFrame({"dropped": [0, 0]})
    text = usage_in_words(usages, cost, [8192, 8192])
    assert text.startswith("3 distinct prompts, 1,500 tokens read (a shared beginning counted for each), 10 written.")
    assert text.endswith("Every prompt fits into a window of 8,192 tokens.")
    text = usage_in_words(usages, pd.DataFrame({"dropped": [0, 4]}), [8192, 2048], "It cost 3.")
    assert "4 few-shots did not fit into a window of 8,192 or 2,048 tokens. Its prompts are measured" in text
    assert text.endswith("by an estimate. It cost 3.")


def test_a_condition_without_definitions_needs_no_method_of_that_name():
    row = Condition.model_validate(["pretrained", 5, "none", "untuned", "free", 1])
    assert titles([Asked("x", row, (0, False))], {}, 1)["x"].endswith("no definitions")
