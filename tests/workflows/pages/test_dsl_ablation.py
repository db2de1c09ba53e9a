from dataclasses import replace

import pandas as pd

from lib.workbook.parts import Adapter
from lib.workflows.ablation import CONDITION, cost_of
from lib.workflows.ablation_grid import UNSEEN_FINETUNED, UNSEEN_HELD, unseen_name
from lib.workflows.in_context import LIMIT
from lib.workflows.in_context_models import SHORT, SHORT_PROMPTS, longest_learned
from lib.workflows.pages.dsl_ablation import (
    FINETUNED,
    HELD,
    cost_table,
    described,
    longer_than_learned,
    marked,
    mean_tokens,
    models_table,
)
from tests.workflows.pages.studies import ASKED, BASE, FIVE, WRITERS, study_of


def test_the_reports_columns_of_each_condition():
    rows = described(ASKED, WRITERS)
    assert rows.columns.tolist() == CONDITION
    assert rows.loc["tst_5_fd_in_context"].tolist() == ["tst", 5, "fd", f"{BASE}, in-context", "free", 0]
    assert rows.loc[FINETUNED].tolist() == ["none", 0, "none", f"{BASE}, fine-tuned", "free", 512]
    assert rows.loc[HELD, ["selector", "decoding", "train_pairs"]].tolist() == ["none", "catalogue", 512]
    assert rows.loc[UNSEEN_FINETUNED].tolist() == rows.loc[FINETUNED].tolist()
    assert rows.loc[UNSEEN_HELD, ["selector", "decoding"]].tolist() == ["none", "catalogue"]
    assert rows.loc["copy_tst"].tolist() == ["tst", 1, "none", "copy", "free", 0]


def adapter(tokens, shipped):
    return Adapter(None, shipped, "", pd.DataFrame(), 60, tokens, 5.0, "a GPU", {})


def test_what_the_models_learned_from():
    readers = {"in_context-a": adapter(1000, True), "in_context-b": adapter(2000, False)}
    frame = models_table(WRITERS, readers, adapter(9000, True)).frame
    assert frame["model"].tolist() == ["fine-tuned model", "in_context-a", "in_context-b"]
    assert frame["tokens"].tolist() == [9000, 1000, 2000]
    assert frame["shipped"].tolist() == ["yes", "yes", "no"]
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
    assert longer_than_learned(study, ["in_context-a"], 1001).empty, "half is not most"
    assert longer_than_learned(study, [], 1000).empty


def test_what_the_shipped_models_learned_from_at_most():
    shipped = replace(adapter(1000, True), rows=SHORT_PROMPTS)
    assert longest_learned({"a": shipped, "b": shipped}) == SHORT == 1000
    assert longest_learned({"a": shipped, "b": replace(shipped, shipped=False)}) == LIMIT == 3000
    assert longest_learned({"a": replace(shipped, rows=7000)}) == longest_learned({}) == LIMIT


def test_the_cost_of_test_flows():
    unseen = unseen_name(0, "none")
    study = study_of({FIVE: [0.5] * 3, unseen: [0.5]})
    shown = cost_table(study, cost_of(study.scores))
    assert shown.frame["condition"].tolist() == ["pretrained encoder, 5 few-shots"]
    assert shown.frame.iloc[0, 1:].tolist() == [3, 100.0, 10.0, "0.5", 0, 0]
