from dataclasses import replace

import pandas as pd

from lib.workbook.parameters.dsl_ablation import Condition
from lib.workbook.trained import Adapter
from lib.workflows.ablation import CONDITION, cost_of
from lib.workflows.ablation_grid import UNSEEN, UNSEEN_FINETUNED, UNSEEN_HELD, Asked, unseen_name
from lib.workflows.in_context import LIMIT
from lib.workflows.in_context_models import SHORT, SHORT_PROMPTS, longest_learned
from lib.workflows.pages.dsl_ablation import (
    COPY,
    COPY_TST,
    FINETUNED,
    HELD,
    cost_caption,
    cost_table,
    described,
    in_short,
    kept_in_words,
    longer_in_words,
    longer_than_learned,
    marked,
    mean_tokens,
    models_in_words,
    opening,
    timed_on,
    titles,
    usage_in_words,
    way_title,
)
from tests.workflows.pages.studies import ASKED, BASE, FIVE, FIVE_TST, REMOTE, WRITERS, study_of


def test_the_writers_by_name():
    assert WRITERS.names == f"the in-context model, catalogue unseen ({BASE}) and the fine-tuned model ({BASE})"
    assert REMOTE.names == f"the untuned model (remote:gpt-4) and the fine-tuned model ({BASE})"
    assert [WRITERS.of(name) for name in ("untuned", "finetuned", "in_context", "instruct")] == [
        BASE, f"{BASE}, fine-tuned", f"{BASE}, in-context", "Qwen",
    ]  # fmt: skip


def test_what_conditions_are_called():
    named = titles(ASKED, WRITERS)
    assert named["tst_20_fd_sfd_in_context"] == "TST, 20 few-shots, FD + SFD"
    assert named["other_5_in_context"] == "of another request, 5 few-shots"
    assert named["pretrained_5"] == "untuned model, pretrained encoder, 5 few-shots"
    assert named["pretrained_5_instruct"] == "instruct model, pretrained encoder, 5 few-shots"
    assert named[FINETUNED] == "fine-tuned model, no few-shots"
    assert named[COPY] == "nearest few-shot copied, pretrained encoder"
    assert named[unseen_name((0, False), "none")] == "no examples of the new APIs, no definitions"
    assert named[unseen_name((0, False), "sfd", "grounded")] == (
        "no examples of the new APIs, SFD, only the APIs shown"
    )
    assert named[unseen_name((1, True), "fd_sfd")] == "1 example of each added, a slot kept, FD + SFD"
    assert named[UNSEEN_HELD] == "fine-tuned model, no few-shots, under the grammar and the catalogue"
    assert titles([Asked("pretrained_5", ASKED[-1].condition)], REMOTE)["pretrained_5"].startswith("fine-tuned model")


def test_ways_of_adding_examples():
    assert way_title((2, False)) == "2 examples of each added"
    assert way_title((1, True)) == "1 example of each added, a slot kept"


def test_the_reports_columns_of_each_condition():
    rows = described(ASKED, WRITERS)
    assert rows.columns.tolist() == CONDITION
    assert rows.loc["tst_5_fd_in_context"].tolist() == ["tst", 5, "fd", f"{BASE}, in-context", "free", 0]
    assert rows.loc[FINETUNED].tolist() == ["none", 0, "none", f"{BASE}, fine-tuned", "free", 512]
    assert rows.loc[HELD, ["selector", "decoding", "train_pairs"]].tolist() == ["none", "catalogue", 512]
    assert rows.loc[UNSEEN_FINETUNED].tolist() == rows.loc[FINETUNED].tolist()
    assert rows.loc[UNSEEN_HELD, ["selector", "decoding"]].tolist() == ["none", "catalogue"]
    assert rows.loc["copy_tst"].tolist() == ["tst", 1, "none", "copy", "free", 0]


def adapter(tokens, shipped, reason=""):
    return Adapter(None, shipped, reason, pd.DataFrame(), 60, tokens, 5.0, "a GPU", {})


def test_what_the_models_learned_from():
    asked = {"test": pd.DataFrame({"half": ["a", "", "b"]})}
    readers = {"in_context-a": adapter(1000, True), "in_context-b": adapter(2000, False, "Another world.")}
    text = models_in_words(WRITERS, readers, adapter(9000, True), asked)
    assert text.startswith("The fine-tuned model learned from 512 pairs (9,000 tokens; shipped).")
    assert "a shipped (60 prompts, 1,000 tokens, 5 s on a GPU)" in text
    assert "b trained here (60 prompts, 2,000 tokens, 5 s on a GPU) Another world." in text
    assert text.endswith("Flows that lie in one half: 2 of 3 (new wordings).")
    assert models_in_words(WRITERS, {}, adapter(9000, False), asked).endswith("tokens; trained by notebook 08).")
    assert mean_tokens(readers) == {"in_context": 1500}
    assert mean_tokens({}) == {}


def test_rows_beyond_what_a_model_learned_from_are_named():
    study = study_of({FIVE: [0.5] * 4, FINETUNED: [0.5] * 4})
    asked = study.scores.assign(model="in_context-a", tokens_in=[900, 1001, 1002, 1003] + [9000] * 4)
    asked.loc[asked["condition"] == FINETUNED, "model"] = "finetuned"
    study = replace(study, scores=asked)
    longer = longer_than_learned(study, ["in_context-a"], 1000)
    assert longer.to_dict() == {FIVE: 976.5}
    told = marked(study, longer.index)
    assert told.titles[FIVE] == "pretrained encoder, 5 few-shots †"
    assert told.titles[FINETUNED] == study.titles[FINETUNED]
    text = longer_in_words(told, longer, 1000)
    assert "prompts of at most 1,000 tokens" in text
    assert "marked †, are longer: pretrained encoder, 5 few-shots † (976 tokens on average). What" in text
    assert longer_than_learned(study, ["in_context-a"], 1001).empty, "half is not most"
    assert longer_than_learned(study, [], 1000).empty
    assert longer_in_words(study, longer[:0], 1000) == ""


def test_what_the_shipped_models_learned_from_at_most():
    shipped = replace(adapter(1000, True), rows=SHORT_PROMPTS)
    assert longest_learned({"a": shipped, "b": shipped}) == SHORT == 1000
    assert longest_learned({"a": shipped, "b": replace(shipped, shipped=False)}) == LIMIT == 3000
    assert longest_learned({"a": replace(shipped, rows=7000)}) == longest_learned({}) == LIMIT


def test_in_short_says_what_beats_copying_on_each_test_set():
    values = {COPY: [0.5] * 14, FIVE: [0.0] * 14, FINETUNED: [1.0] * 12 + [None, 1.0]}
    text = in_short(study_of(values, same={COPY: [0.5, 0.4], FIVE: [0.4, 0.5]}))
    assert text.startswith(
        "New wordings, similarity on the same 14 flows, each of one half of the connectors: copying the pretrained "
        "encoder's nearest flow 0.50 [0.50, 0.50]; five few-shots"
    )
    copy = "Settled on these to be better than copying the pretrained encoder's nearest flow: "
    assert f"{copy}the fine-tuned model; worse: five few-shots. Known" in text
    assert text.endswith(f"{copy}none; worse: none.")


def test_in_short_tests_on_the_flows_whose_levels_it_gives():
    values = {COPY: [0.5] * 14, FIVE: [0.5] * 3 + [0.0] * 11, FINETUNED: [0.5] * 3}
    text = in_short(study_of(values))
    assert "on the same 3 flows" in text
    assert text.endswith("worse: none."), "five few-shots are worse on flows that the fine-tuned model was not asked"


def test_the_page_opens_with_three_of_these():
    values = {COPY: [0.5] * 4, FIVE: [0.0, 1.0, 0.5, 0.5], HELD: [1.0] * 4, FINETUNED: [1.0] * 3 + [None]}
    text = opening(study_of(values, same={COPY: [0.4]}))
    assert text.startswith(
        "New wordings, similarity on the same 4 flows, each of one half of the connectors: five few-shots 0"
    )
    assert ": five few-shots 0.50 [" in text
    assert "; the fine-tuned model 0.75 [" in text
    assert "; copying the pretrained encoder's nearest flow 0.50 [0.50, 0.50]. What the model adds" in text
    assert text.endswith(", not settled.")


def test_few_shots_stand_beside_the_copy_by_their_own_encoder():
    """A weaker encoder's copy would make the model look as if it added something."""
    values = {FIVE_TST: [0.5] * 14, COPY_TST: [0.5] * 13 + [0.4], COPY: [0.1] * 14, FINETUNED: [1.0] * 14}
    text = opening(study_of(values))
    assert "pretrained" not in text
    assert "five few-shots by TST 0.50" in text
    assert "copying TST's nearest flow 0.49" in text
    assert text.endswith(" settled.")
    assert "What the model adds to that copy: 0.01 [" in text
    both = in_short(study_of(values))
    assert "better than copying TST's nearest flow: the fine-tuned model; worse: none." in both
    better = "better than copying the pretrained encoder's nearest flow: five few-shots by TST; the fine-tuned model"
    assert better in both


def test_flows_of_one_half_are_said_to_be():
    study = study_of({FIVE: [0.5] * 3, COPY: [0.4] * 3})
    halves = study.scores.assign(half="a")
    assert "3 flows, each of one half of the connectors: " in opening(replace(study, scores=halves))
    assert "3 flows: " in opening(replace(study, scores=halves.assign(half=["a", "b", ""] * 2)))


def test_in_short_has_no_point_interval_where_all_flows_are_right():
    text = in_short(study_of({COPY: [0.5, 0.2, 0.8], FINETUNED: [1.0] * 3}))
    assert "the fine-tuned model 1.00 [0.44, 1.00]" in text


def test_the_cost_of_test_flows():
    unseen = unseen_name((0, False), "none")
    study = study_of({FIVE: [0.5] * 3, unseen: [0.5]})
    shown = cost_table(study, cost_of(study.scores), {("tst", 20): 31, ("pretrained", 5): 9, ("tst", 1): 2}, "2 x", 256)
    assert shown.frame["condition"].tolist() == ["pretrained encoder, 5 few-shots"]
    assert shown.frame.iloc[0, 1:].tolist() == [3, 100.0, 10.0, "0.5", 3, 0, 0]
    assert shown.caption.endswith("same selector: 9 beside 5 by pretrained encoder, 31 beside 20 by TST.")
    cut = "reached 256 tokens, or were stopped before where they only repeated themselves"
    assert f"on 2 x. Cut: answers that {cut}. Where no model is named, the in-context" in shown.caption


def test_the_cost_of_a_model_behind_an_endpoint():
    caption = cost_caption(REMOTE, {}, "2 cores", 256)
    assert "on 2 cores; of a model behind an endpoint, those of its request. Cut" in caption
    assert "the untuned model (remote:gpt-4) writes; the paper's models are GPT-4" in caption


def test_where_answers_come_from():
    kept = pd.DataFrame({"device": ["2 cores of A", "2 cores of A", "H"], "dtype": ["float32", "float32", "bfloat16"]})
    kept["seconds"] = [1.5, None, 2.0]
    text = kept_in_words(kept, 4)
    assert "2 with the seconds that they took, asked one by one; 4 were" in text
    assert text.startswith(
        "3 answers were written once by the shipped models, on 2 cores of A, in float32 and on H, in"
    )
    assert "; 4 were written for this report." in text
    assert "none was written for this report" in kept_in_words(kept, 0)
    assert kept_in_words(kept.head(0), 4) == "All answers were written for this report."
    assert timed_on(kept.assign(device=["A", None, "A"]), "here") == "A or here"
    assert timed_on(pd.DataFrame({"text": ["x"]}), "here") == "here"


def test_what_all_answers_took():
    answers = pd.DataFrame(
        [("a", "one", None, 400, 3), ("a", "two", None, 600, 4), ("a", "two", None, 600, 4), ("b", "one", "g", 500, 3)],
        columns=["model", "prompt", "grammar", "tokens_in", "tokens_out"],
    )
    cost = pd.DataFrame({"dropped": [0, 0]})
    text = usage_in_words(answers, cost, [8192, 8192])
    assert text.startswith("3 distinct prompts, 1,500 tokens read (a shared beginning counted for each), 10 written.")
    assert text.endswith("Every prompt fits into a window of 8,192 tokens.")
    text = usage_in_words(answers, pd.DataFrame({"dropped": [0, 4]}), [8192, 2048], "It cost 3.")
    assert "4 few-shots did not fit into a window of 8,192 or 2,048 tokens. Its prompts are measured" in text
    assert text.endswith("by an estimate. It cost 3.")


def test_a_condition_without_definitions_needs_no_method_of_that_name():
    row = Condition.model_validate(["pretrained", 5, "none", "untuned", "free", 1])
    assert titles([Asked("x", row, UNSEEN, (0, False))], WRITERS)["x"].endswith("no definitions")
