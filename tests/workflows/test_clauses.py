import itertools

import numpy as np
import pandas as pd
import pytest

from lib.workflows.clauses import best_cutter, clause_texts, cut_by_rules, cut_scores, held_aside, learn_cutter


@pytest.mark.parametrize(
    ("request_", "clauses"),
    [
        ("When a form is sent, save it and mail Ana the name and date.",
         ["a form is sent", "save it", "mail Ana the name and date"]),
        ("new row -> post in Teams -> create a task", ["new row", "post in Teams", "create a task"]),
        ("Post it whenever a file arrives", ["Post it", "a file arrives"]),
        ("When mail comes, if its subject has x, delete it, otherwise file it", ["mail comes", "delete it", "file it"]),
        ('When I get "go, and send it", send a note', ['I get "go, and send it"', "send a note"]),
        ("1. When a bug is filed 2. Send a mail", ["a bug is filed", "Send a mail"]),
        ("When it rains, post a tweet. Thank you!", ["it rains", "post a tweet"]),
        ("then.", ["then."]),
        ("", [""]),
    ],
)  # fmt: skip
def test_the_rules(request_, clauses):
    assert clause_texts(request_, cut_by_rules(request_)) == clauses


def spans(request, *clauses):
    return [[request.index(text), request.index(text) + len(text)] for text in clauses]


A, B, C, D = "a mail arrives", "post a note", "make a task", "call Ana"
FRAMES = ("when {}, {}", "when {} then {}", "whenever {}, please {}")


@pytest.fixture(scope="module")
def cutter():
    pairs = [(one, other) for one in (A, B, C, D) for other in (A, B, C, D) if one != other]
    requests = [frame.format(*pair) for frame in FRAMES for pair in pairs]
    return learn_cutter(requests, [spans(text, *pair) for text, pair in zip(requests, pairs * 3, strict=True)], 7)


def test_a_cutter_learns_what_stands_between_clauses(cutter):
    assert clause_texts("when a file arrives then post a card", cutter.cut("when a file arrives then post a card")) == [
        "a file arrives",
        "post a card",
    ]


def test_a_cutter_gives_the_whole_where_no_clause_begins(cutter):
    assert cutter.cut("") == [(0, 0)]
    assert cutter.cut("please") == [(0, 6)]


def test_spans_are_in_order_and_apart(cutter):
    for cut in (cutter.cut, cut_by_rules):
        for request in ("when when a and b, then", "post a note post a note", "(call) Ana, if x: make a task; go"):
            found = cut(request)
            assert all(0 <= start < end <= len(request) for start, end in found)
            assert all(one[1] <= other[0] for one, other in itertools.pairwise(found))


def test_nothing_is_learned_from_requests_without_clauses():
    with pytest.raises(ValueError, match="no request has a clause"):
        learn_cutter(["when a mail arrives"], [[]], 7)


def test_the_same_seed_learns_the_same(cutter):
    request = "When a mail arrives, post a note"
    again = learn_cutter([request] * 8, [spans(request, A, B)] * 8, 3).model.coef_
    assert np.array_equal(again, learn_cutter([request] * 8, [spans(request, A, B)] * 8, 3).model.coef_)


TEXT = "When it rains, if cold, go home and then eat soup. Thanks"


def scored(*cut, known=True):
    pair = {"pair": "p", "request": TEXT, "n_calls": 3}
    pair["clauses"] = spans(TEXT, "eat soup", "it rains", "go home") if known else []
    return cut_scores(pd.DataFrame([pair]), lambda _: [tuple(span) for span in spans(TEXT, *cut)]).iloc[0]


def test_a_boundary_is_right_if_it_takes_no_word_of_either_clause():
    right = scored("When it rains", "go home", "then eat soup. Thanks")
    assert right[["right", "found", "wanted", "exact", "same_count"]].tolist() == [2, 2, 2, 1, 1]
    short = scored("it rains", "go", "eat soup")  # it leaves "home" out
    assert short[["right", "found", "wanted", "exact", "same_count"]].tolist() == [1, 2, 2, 0, 1]


def test_a_clause_too_many_or_too_few_is_not_right():
    more = scored("it rains", "if cold", "go home", "eat soup")
    assert more[["right", "found", "wanted", "exact", "same_count"]].tolist() == [2, 3, 2, 0, 0]
    fewer = scored("it rains", "go home and then eat soup")
    assert fewer[["right", "found", "wanted", "exact", "clauses"]].tolist() == [1, 1, 2, 0, 2]


def test_of_unknown_clauses_only_the_number_is_judged():
    found = scored("it rains", "go home", "eat soup", known=False)
    assert found[["right", "found", "wanted", "exact"]].isna().all()
    assert (found["same_count"], found["clauses"], found["calls"]) == (1, 3, 3)


def test_constants_are_chosen_on_pairs_that_no_cutter_learns_from():
    training = pd.DataFrame({"pair": range(30)})
    learn, held = held_aside(training, 10, 5, 7)
    assert (len(learn), len(held)) == (10, 5)
    assert not set(learn["pair"]) & set(held["pair"])
    few, rest = held_aside(training.head(6), 10, 5, 7)
    assert (len(few), len(rest)) == (4, 2)


def test_the_better_cutter_is_taken_on_what_is_held_aside():
    request = "save it and mail Ana"
    known = pd.DataFrame(
        {"pair": ["a"], "request": [request], "n_calls": [2], "clauses": [spans(request, "save it", "mail Ana")]}
    )
    cutters = {"whole": lambda text: [(0, len(text))], "two": lambda text: [(0, 7), (12, 20)]}
    assert best_cutter(known, cutters) == "two"
    assert best_cutter(known, {"whole": cutters["whole"], "same": cutters["whole"]}) == "whole"
    unknown = known.assign(clauses=[[]])
    assert best_cutter(unknown, cutters) == "two"
    assert best_cutter(unknown.assign(n_calls=1), cutters) == "whole"
