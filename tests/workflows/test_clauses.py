import itertools
import time

import numpy as np
import pytest

from lib.workflows.clauses import (
    Asked,
    ask,
    choose_weight,
    clause_definitions,
    clause_texts,
    cut_by_rules,
)
from lib.workflows.few_shots import semantic_definitions


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


def test_spans_are_in_order_and_apart():
    for request in ("when when a and b, then", "post a note post a note", "(call) Ana, if x: make a task; go"):
        found = cut_by_rules(request)
        assert all(0 <= start < end <= len(request) for start, end in found)
        assert all(one[1] <= other[0] for one, other in itertools.pairwise(found))


@pytest.mark.parametrize("repeated", ["and ", "but only ", ", ", "“a ", "if and ", "and send ", "please "])
def test_cutting_takes_time_in_proportion_to_the_text(repeated):
    started = time.perf_counter()
    cut_by_rules(repeated * 10_000)
    assert time.perf_counter() - started < 5  # half a second; a search from each word to the end takes minutes


def test_words_that_lead_to_a_condition_are_cut_with_it():
    request = "Save it, and mail Ana but only if she asks"
    assert clause_texts(request, cut_by_rules(request)) == ["Save it", "mail Ana"]


NAMES = ["a.1", "a.2", "b.1", "b.2"]
TEXTS = np.array([[1, 0], [0.98, 0.2], [0.1, 0.995], [0.3, 0.954]], np.float32)
# The whole request lies near the a's; its second clause is about b.
ASKED = Asked(np.array([[0.95, 0.31]], np.float32), np.array([[1, 0], [0, 1]], np.float32), np.array([2]))


def test_each_clause_brings_its_nearest_api_in_turn():
    assert clause_definitions(ASKED, TEXTS, NAMES, 2, 0.0) == [["a.1", "b.1"]]
    assert clause_definitions(ASKED, TEXTS, NAMES, 4, 0.0) == [["a.1", "b.1", "a.2", "b.2"]]
    assert len(clause_definitions(ASKED, TEXTS, NAMES, 9, 0.0)[0]) == 4


def test_with_the_whole_weight_it_is_the_search_by_the_whole_request():
    for n in (1, 2, 3):
        whole = semantic_definitions(ASKED.whole, TEXTS, NAMES, n)
        assert [set(names) for names in clause_definitions(ASKED, TEXTS, NAMES, n, 1.0)] == [set(whole[0])]


def test_an_api_that_two_clauses_want_counts_once():
    twice = ASKED._replace(clauses=np.array([[1, 0], [1, 0]], np.float32))
    assert clause_definitions(twice, TEXTS, NAMES, 3, 0.0) == [["a.1", "a.2", "b.2"]]


def test_vectors_of_clauses_are_those_of_their_request():
    def embed(texts):
        return np.array([[len(text), 1] for text in texts], np.float32)

    asked = ask(["it rains, call Ana", "go"], embed)
    assert asked.clauses[asked.of(0)].tolist() == [[8, 1], [8, 1]]
    assert asked.clauses[asked.of(1)].tolist() == [[2, 1]]
    assert asked.whole[:, 0].tolist() == [18, 2]


def test_the_weight_that_finds_most_of_held_aside_requests_is_taken():
    table = choose_weight(ASKED, [["a.1", "b.1"]], TEXTS, NAMES, [2])
    assert table.loc[table["chosen"], "value"].tolist() == [1.0]
    assert table.loc[table["weight"] == 1, "value"].item() == 0.5
    assert not table.loc[table["weight"] == 1, "chosen"].item()
