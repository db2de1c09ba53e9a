"""Each paper's own main question, answered from the verdicts on its claims: yes, no, partly or not decided.

The rules, the same for every report:

1. A verdict answers its claim (`PLAIN`): `reproduced` is a yes, `contradicted` a no, and `equivalent` a no, but a yes
   where the paper claims that two sides are the same. Every other verdict leaves it not decided.
2. Answers together (`together`), of a question's claims as of a paper's questions: partly if there is a yes and a no;
   otherwise the yes or the no, as far as it is decided; not decided if there is neither.
3. A claim that a report lacks, or asks nothing for, is not decided.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import pandas as pd

from lib.evaluation.judgement import NOT_TESTABLE

YES, NO, PARTLY, NOT_DECIDED = "yes", "no", "partly", "not decided"
# Each verdict's answer, and the reason that stands behind it in brackets.
PLAIN = {
    "reproduced": (YES, ""),
    "same direction": (NOT_DECIDED, "it leans the paper's way, but perhaps by chance or not as far"),
    "equivalent": (NO, "no difference worth the name"),
    "contradicted": (NO, ""),
    "undecided": (NOT_DECIDED, "clear by itself, but not among all that is tested"),
    "underpowered": (NOT_DECIDED, "too few {cases} to tell"),
    NOT_TESTABLE: (NOT_DECIDED, "it has no room to show"),
}
NOT_ASKED = "not asked here"
CASES = {"assistant": "queries", "workflow": "flows"}
# What may decide a claim instead of its method, by what it is about (`lib.evaluation.claim_records.ABOUT`).
APART = {
    "writer": "on text that our small model wrote",
    "definition": "by one definition of the metric",
    "world": "how much queries say may decide this",
    "training_size": "how our models were trained may decide this",
    "all_flows": "counted among all flows",
}


class Question(NamedTuple):
    """What a paper asks, and what is said of it.

    Attributes:
        claims: names in `data/claims.yaml`.
        yes, no: what holds then.
        ahead: what holds where two sides that the paper calls the same differ in favour of the first, `no` being for
            the second; empty for claims of a difference.
    """

    claims: tuple[str, ...]
    yes: str
    no: str
    ahead: str = ""


class Main(NamedTuple):
    """A paper's main question, the questions whose answers make its answer, and what else the sentence tells."""

    text: str
    questions: tuple[Question, ...]
    further: tuple[Question, ...] = ()


class Clause(NamedTuple):
    """What is said of one question: its answer, whether all its claims are decided, the words, and its first claim."""

    answer: str
    whole: bool
    text: str
    claim: str


MAIN = {
    "assistant": Main(
        "Does context tuning work as claimed?",
        (
            Question(
                ("context_improves_plans", "context_improves_exact_plans"),
                "retrieved context makes more plans right",
                "retrieved context does not make more plans right",
            ),
            Question(
                ("context_improves_tool_retrieval",),
                "context finds more of the right tools",
                "context does not find more of the right tools",
            ),
            Question(
                ("context_reduces_hallucination", "context_reduces_hallucination_with_the_right_tool"),
                "context spares made-up APIs",
                "context does not spare made-up APIs",
            ),
            Question(
                ("lambdamart_rrf_beats_finetuned", "lambdamart_rrf_beats_finetuned_cot"),
                "LambdaMART-RRF beats fine-tuned search",
                "LambdaMART-RRF does not beat fine-tuned search",
            ),
        ),
    ),
    "workflow": Main(
        "Does retrieval match fine-tuning?",
        (
            Question(
                ("rag_matches_the_finetuned_model",),
                "flows written with retrieved examples are as like the wanted ones as the fine-tuned model's",
                "flows written with retrieved examples are less like the wanted ones than the fine-tuned model's",
                "flows written with retrieved examples are more like the wanted ones than the fine-tuned model's",
            ),
        ),
        (
            Question(
                (
                    "fd_reduces_made_up_names_with_pretrained",
                    "fd_reduces_made_up_names_with_tst",
                    "sfd_beside_fd_reduces_made_up_names",
                ),
                "definitions of APIs reduce made-up names",
                "definitions of APIs do not reduce made-up names",
            ),
        ),
    ),
}


def together(answers: Collection[str]) -> str:
    """Several answers as one."""
    decided = {*answers} - {NOT_DECIDED}
    if len(decided) > 1:
        return PARTLY
    return decided.pop() if decided else NOT_DECIDED


def clause(question: Question, verdicts: pd.DataFrame, cases: str = "queries") -> Clause:
    """What the verdicts say of a question.

    Args:
        verdicts: columns claim, verdict, effect, n, about; one row a claim.
        cases: what n counts.
    """
    found = verdicts[verdicts["claim"].isin(question.claims)].to_dict("records")
    asked = [row for row in found if row["n"]]
    plain = [_plain(row, question) for row in asked]
    missing = [(NOT_DECIDED, NOT_ASKED)] * (len(question.claims) - len(asked))
    answers = [answer for answer, _ in plain + missing]
    answer, whole = together(answers), NOT_DECIDED not in answers
    if answer == NOT_DECIDED:
        verb = "is not decided"
        if not missing and {row["verdict"] for row in asked} == {NOT_TESTABLE}:
            verb = "cannot be tested here"
        reasons = dict.fromkeys(reason for _, reason in plain + missing)
        text = f"whether {question.yes} {verb} ({'; '.join(reasons).format(cases=cases)})"
        return Clause(answer, whole, text, question.claims[0])
    kept = [row for row, (said, _) in zip(asked, plain, strict=True) if said != NOT_DECIDED]
    notes = list(dict.fromkeys(reason for said, reason in plain if said != NOT_DECIDED and reason))
    if answer == PARTLY:
        notes = ["by some of its claims, against others"]
    elif not whole:
        notes.append("as far as it is decided")
    abouts = {row["about"] for row in kept}
    if len(abouts) == 1 and (about := abouts.pop()) in APART:
        notes.append(APART[about])
    ahead = bool(question.ahead) and all(row["effect"] > 0 for row in kept)
    words = (question.ahead if ahead else question.no) if answer == NO else question.yes
    return Clause(answer, whole, f"{words} ({'; '.join(notes)})" if notes else words, question.claims[0])


def _plain(row: dict, question: Question) -> tuple[str, str]:
    """A verdict's answer and reason; what is equivalent is as claimed where the claim is of sameness."""
    return (YES, "") if question.ahead and row["verdict"] == "equivalent" else PLAIN[row["verdict"]]


def answer(verdicts: pd.DataFrame, paper: str) -> tuple[str, list[Clause]]:
    """A paper's main question with its answer, and what is said of each of its questions; nothing where no claim of
    them was tested."""
    main = MAIN[paper]
    names = {name for question in main.questions + main.further for name in question.claims}
    if verdicts.empty or not verdicts["claim"].isin(names).any():
        return "", []
    clauses = [clause(question, verdicts, CASES[paper]) for question in main.questions + main.further]
    leading = clauses[: len(main.questions)]
    word = together([one.answer for one in leading])
    limit = ", as far as it is decided" if word in (YES, NO) and not all(one.whole for one in leading) else ""
    return f"{main.text} {word.capitalize()}{limit}", clauses


def in_one_sentence(verdicts: pd.DataFrame, paper: str) -> str:
    """A paper's main question and its answer in words, without HTML; empty where no claim of it was tested."""
    opening, clauses = answer(verdicts, paper)
    return f"{opening}: {'; '.join(one.text for one in clauses)}." if clauses else ""
