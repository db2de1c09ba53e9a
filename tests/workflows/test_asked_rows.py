"""The rows of the ablation, as a profile gives them."""

import pytest

from lib.workbook.inputs import InputError
from lib.workbook.parameters import notebook_parameters
from lib.workflows.ablation import COMPARED_WITH, asked_rows
from tests.workflows.ablation_rows import ABLATION

UNTUNED = [[*row[:3], "untuned", *row[4:]] for row in ABLATION if row[3] == "in_context"]
UNTUNED += [row for row in ABLATION if row[3] == "finetuned"]


def rows(ablation, **values):
    return asked_rows(notebook_parameters("09_dsl_ablation", ablation=ablation, **values))


def test_a_row_is_a_list_and_has_a_name():
    row = next(row for row in rows(ABLATION) if row.definitions == "fd_sfd")
    assert (row.selector, row.shots, row.generator, row.name) == ("tst", 20, "in_context", "tst_20_fd_sfd_in_context")


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (["tst", 20, "fd"], "a row must have 6 entries: selector, shots, definitions, generator, decoding, flows"),
        (["tst", 20, "all", "untuned", "free", 12], "definitions"),
        (["tst", "20", "fd", "untuned", "free", 12], "shots"),
        (["tst", 5, "fd", "untuned", "free", 0], "flows"),
        (["tst", 5, "fd", "finetuned", "free", 9], "reads no definitions"),
        (["tst", 5, "fd", "in_context", "free", 9], "two rows are tst_5_fd_in_context"),
        (["random", 5, "sfd", "in_context", "free", 9], "needs the few-shots of one of pretrained, tst, tst_affine"),
    ],
)
def test_an_impossible_row_says_what_is_wrong(row, words):
    with pytest.raises(InputError, match=words):
        rows([*ABLATION, row])


@pytest.mark.parametrize("missing", COMPARED_WITH)
def test_the_papers_rows_with_five_few_shots_must_be_there(missing):
    with pytest.raises(InputError, match=r"the paper's row .* is missing"):
        rows([row for row in ABLATION if row[:3] != [*missing] or row[3:5] != ["in_context", "free"]])


def test_a_grammar_and_a_small_window_are_refused_where_they_cannot_be():
    with pytest.raises(InputError, match="remote:a cannot be held to a grammar"):
        rows(UNTUNED, untuned_generator="remote:a")
    with pytest.raises(InputError, match="prompt_window"):
        rows(ABLATION, prompt_window=256)


def test_rows_of_an_instruct_model_need_its_name():
    row = ["pretrained", 5, "none", "instruct", "free", 1]
    assert rows([*ABLATION, row]) == rows(ABLATION)
    assert rows([*ABLATION, row], instruct_generator="Qwen")[-1].name == "pretrained_5_instruct"
