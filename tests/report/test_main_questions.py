"""Each paper's main question and what the verdicts answer."""

import pandas as pd
import pytest

from lib.evaluation.claim_records import ABOUT, read_claims
from lib.evaluation.judgement import VERDICTS
from lib.report import main_questions
from lib.report.main_questions import MAIN, NO, NOT_DECIDED, PARTLY, YES, Question, clause, in_one_sentence, together
from lib.workbook.artifacts import ROOT

DIFFERENCE = Question(("one",), "A beats B", "A does not beat B")
SAMENESS = Question(("one",), "A is as good as B", "A is worse than B", "A is better than B")
TWO = DIFFERENCE._replace(claims=("one", "two"))


def verdicts(*found, effect=-1.0, n=9, about="method"):
    """A row a claim from (claim, verdict)."""
    rows = [{"claim": name, "verdict": verdict, "effect": effect, "n": n, "about": about} for name, verdict in found]
    return pd.DataFrame(rows, columns=["claim", "verdict", "effect", "n", "about"])


@pytest.mark.parametrize(
    ("verdict", "answer", "text"),
    [
        ("reproduced", YES, "A beats B"),
        (
            "same direction",
            NOT_DECIDED,
            "whether A beats B is not decided (it leans the paper's way, but perhaps by chance or not as far)",
        ),
        ("equivalent", NO, "A does not beat B (no difference worth the name)"),
        ("contradicted", NO, "A does not beat B"),
        (
            "undecided",
            NOT_DECIDED,
            "whether A beats B is not decided (clear by itself, but not among all that is tested)",
        ),
        ("underpowered", NOT_DECIDED, "whether A beats B is not decided (too few flows to tell)"),
        ("not testable here", NOT_DECIDED, "whether A beats B cannot be tested here (it has no room to show)"),
    ],
)
def test_what_each_verdict_says(verdict, answer, text):
    said = clause(DIFFERENCE, verdicts(("one", verdict)), "flows")
    assert (said.answer, said.text, said.claim) == (answer, text, "one")
    assert said.whole == (answer != NOT_DECIDED)


@pytest.mark.parametrize(
    ("verdict", "effect", "answer", "text"),
    [
        ("equivalent", -1.0, YES, "A is as good as B"),
        ("equivalent", 1.0, YES, "A is as good as B"),
        ("contradicted", -1.0, NO, "A is worse than B"),
        ("contradicted", 1.0, NO, "A is better than B"),
        ("underpowered", 1.0, NOT_DECIDED, "whether A is as good as B is not decided (too few queries to tell)"),
    ],
)
def test_what_is_said_of_sameness(verdict, effect, answer, text):
    said = clause(SAMENESS, verdicts(("one", verdict), effect=effect))
    assert (said.answer, said.text) == (answer, text)


@pytest.mark.parametrize(
    ("one", "two", "answer", "text"),
    [
        ("reproduced", "reproduced", YES, "A beats B"),
        ("reproduced", "contradicted", PARTLY, "A beats B (by some of its claims, against others)"),
        ("reproduced", "underpowered", YES, "A beats B (as far as it is decided)"),
        ("contradicted", "undecided", NO, "A does not beat B (as far as it is decided)"),
        ("underpowered", "underpowered", NOT_DECIDED, "whether A beats B is not decided (too few queries to tell)"),
        (
            "underpowered",
            "not testable here",
            NOT_DECIDED,
            "whether A beats B is not decided (too few queries to tell; it has no room to show)",
        ),
    ],
)
def test_several_claims_answer_together(one, two, answer, text):
    said = clause(TWO, verdicts(("one", one), ("two", two)))
    assert (said.answer, said.text) == (answer, text)


def test_a_claim_that_is_not_asked_or_not_there_is_not_decided():
    assert clause(DIFFERENCE, verdicts(("one", "underpowered"), n=0)).text == (
        "whether A beats B is not decided (not asked here)"
    )
    said = clause(TWO, verdicts(("two", "reproduced")))
    assert (said.answer, said.whole, said.text) == (YES, False, "A beats B (as far as it is decided)")


def test_what_else_may_decide_it_is_said():
    rows = verdicts(("one", "contradicted"), about="training_size")
    assert clause(DIFFERENCE, rows).text == "A does not beat B (how our models were trained may decide this)"
    mixed = pd.concat([rows, verdicts(("two", "contradicted"))])
    assert clause(TWO, mixed).text == "A does not beat B"


@pytest.mark.parametrize(
    ("answers", "word"),
    [
        ([YES, YES], YES),
        ([NO, NO], NO),
        ([YES, NO], PARTLY),
        ([YES, PARTLY], PARTLY),
        ([NOT_DECIDED, NO, YES], PARTLY),
        ([NOT_DECIDED, NO], NO),
        ([NOT_DECIDED, YES], YES),
        ([NOT_DECIDED, NOT_DECIDED], NOT_DECIDED),
    ],
)
def test_answers_together(answers, word):
    assert together(answers) == word


@pytest.mark.parametrize(
    ("found", "opening"),
    [
        ({"one": "reproduced", "two": "contradicted"}, "Is it so? Partly: A beats B; C does not beat D"),
        ({"one": "reproduced", "two": "reproduced"}, "Is it so? Yes: A beats B; C beats D"),
        (
            {"one": "reproduced"},
            "Is it so? Yes, as far as it is decided: A beats B; whether C beats D is not decided (",
        ),
        ({"two": "contradicted"}, "Is it so? No, as far as it is decided: whether A beats B is not decided ("),
        ({"one": "underpowered", "two": "undecided"}, "Is it so? Not decided: whether A beats B is not decided ("),
    ],
)
def test_a_papers_answer_is_that_of_its_questions(monkeypatch, found, opening):
    other = Question(("two",), "C beats D", "C does not beat D")
    further = Question(("three",), "E beats F", "E does not beat F")
    monkeypatch.setitem(main_questions.MAIN, "workflow", main_questions.Main("Is it so?", (DIFFERENCE, other)))
    assert in_one_sentence(verdicts(*found.items()), "workflow").startswith(opening)
    monkeypatch.setitem(
        main_questions.MAIN, "workflow", main_questions.Main("Is it so?", (DIFFERENCE, other), (further,))
    )
    said = in_one_sentence(verdicts(*found.items(), ("three", "contradicted")), "workflow")
    assert said.startswith(opening), "what is told besides has no say in the answer"
    assert said.endswith("; E does not beat F.")


@pytest.mark.parametrize("paper", MAIN)
def test_nothing_is_said_where_no_claim_of_it_was_tested(paper):
    assert in_one_sentence(verdicts(("other", "reproduced")), paper) == ""
    assert in_one_sentence(verdicts(), paper) == ""


def test_every_verdict_and_every_reason_to_count_apart_has_words():
    assert list(main_questions.PLAIN) == list(VERDICTS)
    assert [*main_questions.APART] == [about for about in ABOUT if about != "method"]


@pytest.mark.parametrize("paper", MAIN)
def test_the_questions_ask_for_claims_of_their_paper(paper):
    claims = {claim.claim: claim for claim in read_claims(ROOT / "data" / "claims.yaml")}
    for question in MAIN[paper].questions + MAIN[paper].further:
        assert {claims[name].paper for name in question.claims} == {paper}
        assert {claims[name].test == "same" for name in question.claims} == {bool(question.ahead)}


@pytest.mark.parametrize("paper", MAIN)
def test_the_readme_has_the_answer_of_the_committed_verdicts(paper):
    claims = {claim.claim: claim for claim in read_claims(ROOT / "data" / "claims.yaml")}
    table = pd.read_csv(ROOT / "reports" / "quick" / "tables" / "claims.csv").query("weakest")
    table = table.assign(verdict=table["overall"], about=[claims[name].about for name in table["claim"]])
    said = in_one_sentence(table[table["paper"] == paper], paper)
    assert f"**{said}**" in " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
