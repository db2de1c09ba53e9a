import time

import numpy as np
import pytest

from lib.workflows.clauses import clause_definitions, cut_by_rules


@pytest.mark.parametrize(
    ("request_", "clauses"),
    [
        ("new row -> post in Teams -> create a task", ["new row", "post in Teams", "create a task"]),
        ("Post it whenever a file arrives", ["Post it", "a file arrives"]),
        ("When mail comes, if its subject has x, delete it, otherwise file it", ["mail comes", "delete it", "file it"]),
        ('When I get "go, and send it", send a note', ['I get "go, and send it"', "send a note"]),
        ("1. When a bug is filed 2. Send a mail", ["a bug is filed", "Send a mail"]),
        ("When it rains, post a tweet. Thank you!", ["it rains", "post a tweet"]),
        ("Save it, and mail Ana but only if she asks", ["Save it", "mail Ana"]),
        ("then.", ["then."]),
        ("", [""]),
    ],
)
def test_the_rules(request_, clauses):
    assert cut_by_rules(request_) == clauses


@pytest.mark.parametrize("repeated", ["and ", "but only ", ", ", "“a ", "if and ", "and send ", "please "])
def test_cutting_takes_time_in_proportion_to_the_text(repeated):
    started = time.perf_counter()
    cut_by_rules(repeated * 10_000)
    assert time.perf_counter() - started < 5  # half a second; a search from each word to the end takes minutes


TEXTS = np.array([[1, 0], [0.98, 0.2], [0.1, 0.995], [0.3, 0.954]], np.float32)
VECTORS = {"it rains": [1, 0], "call Ana": [0, 1], "go": [0.6, 0.8]}


def embed(texts):
    return np.array([VECTORS[text] for text in texts], np.float32)


def test_each_clause_brings_its_nearest_api_in_turn():
    """Of two clauses that want the same API the surer one has it, and the other its second."""
    assert clause_definitions(["it rains, call Ana", "go"], embed, TEXTS, 2).tolist() == [[0, 2], [3, 2]]
    assert clause_definitions(["it rains, call Ana"], embed, TEXTS, 9).tolist() == [[0, 2, 1, 3]]
    assert clause_definitions(["it rains. it rains"], embed, TEXTS, 3).tolist() == [[0, 1, 3]]
    assert clause_definitions([], lambda _: np.empty((0, 2)), TEXTS, 3).shape == (0, 3)
