import pandas as pd
import pytest

from lib.workflows.ablation import contract
from lib.workflows.pages.dsl_ablation_full import AUDITED, FullReport, audited
from tests.workflows.pages.studies import FIVE, FIVE_TST, study_of


@pytest.fixture(scope="module")
def table():
    study = study_of({FIVE: [0.4, 0.6] * 7, FIVE_TST: [0.8, 0.9] * 7})
    return contract(study.compare([FIVE, FIVE_TST], FIVE), study.rows)


def test_the_full_reports_values_beside_a_samples(table):
    known = table.assign(value=table["value"] + 0.01, delta=-table["delta"]).drop(index=0)
    beside = FullReport({"dsl_shots": known, "dsl_cost": pd.DataFrame({"condition": ["x"]})}).beside(table)
    assert beside.index.equals(table.index)
    assert beside["full_value"].isna().tolist() == [True] + [False] * 11
    assert beside.loc[6, "full_value"] == pytest.approx(0.86)


def test_how_many_agree(table):
    similar = table["metric"] == "similarity"
    known = table[similar].assign(delta=[None, -0.3], delta_ci_low=[None, -0.4], delta_ci_high=[None, -0.2])
    text = FullReport({"dsl_shots": known}).in_words(table)
    assert text == (
        " Beside the full report: of 2 values 2 lie within its interval, and 2 of its values within the interval here; "
        "of 1 differences whose interval there excludes 0, 0 have the same sign here."
    )
    same = FullReport({"dsl_shots": table[similar]}).in_words(table)
    assert same.endswith("of 1 differences whose interval there excludes 0, 1 have the same sign here.")


def test_nothing_is_said_where_there_is_no_full_report(table):
    none = FullReport({})
    assert none.beside(table).empty
    assert none.in_words(table) == none.audit(pd.DataFrame()) == ""
    elsewhere = FullReport({"dsl_shots": table.assign(generator="another model")})
    assert elsewhere.in_words(table) == ""


def test_answers_are_audited_to_the_letter():
    scores = study_of({FIVE: [0.5] * (AUDITED + 5), "copy_pretrained": [0.5] * 2}).scores
    scores.loc[scores["condition"] == "copy_pretrained", "tokens_in"] = None  # no model wrote it
    kept = audited(scores)
    assert len(kept) == AUDITED
    assert kept["answer"].str.fullmatch("[0-9a-f]{12}").all()
    other = audited(scores.assign(text=["other();", *scores["text"].tolist()[1:]]))
    assert FullReport({"dsl_answers": other}).audit(kept[:4]) == (
        "Of 4 answers that the full report has, too, 3 are the same to the letter (75 [30, 95]%) and 4 have the same "
        "similarity."
    )
    assert FullReport({"dsl_answers": other.assign(unit="x")}).audit(kept) == ""
