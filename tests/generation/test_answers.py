"""Kept answers: found by what was asked of whom, in two layers, never half a line, usable after a kill."""

import json

import pandas as pd
import pytest

from lib.generation.answers import Answer, Answers, Cost, KeptModel, key_of, whole_units
from lib.generation.models import ModelError
from lib.workbook.artifacts import ArtifactError

ASKED = {"weights": "w", "prompt": "a prompt", "max_new_tokens": 8}
KEY = key_of(**ASKED)
OTHER = key_of("w", "another", 8)
WHOLE = Answer("nein, Ölfarbe\u2028\n", False, Cost(3, 4, 0.5), "bfloat16", "a processor", "why not")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "answers" / "plans.jsonl"


def test_the_key_of_a_kept_answer():
    """Answers that come with the project are found under it."""
    assert key_of("w", "a prompt", 8, "start: x", ["\n"], True, 0.7, 1) == "98c10b19ddc00e43093c5f5a"
    assert KEY == "60d678042a53084bbf952e58"
    assert key_of(**ASKED, seed=5, grammar="", stop=()) == KEY, "a greedy answer has no seed"


def test_what_was_added_is_found_again(path):
    answers = Answers(own=path)
    assert answers.get([KEY, OTHER]) == [None, None]
    answers.add({KEY: WHOLE, OTHER: Answer("yes")})
    for there in (answers, Answers(own=path), Answers(shipped=path)):
        assert there.get([OTHER, KEY, "none"]) == [Answer("yes"), WHOLE, None]
    first, second = map(json.loads, path.read_text().splitlines())
    assert (first["cost"], second) == ([3, 4, 0.5], {"key": OTHER, "text": "yes"}), "what says nothing is left out"


@pytest.mark.parametrize("line", ["broken", "[" * 100_000, '{"key": "a", "text": "b", "cost": [{}]}'])
def test_a_damaged_line_is_an_error_of_the_project_and_passed_over_in_a_run(path, line):
    Answers(own=path).add({KEY: Answer("half a sign: \ud83d")})
    with open(path, "ab") as file:
        file.write(line.encode(errors="surrogateescape") + b"\n")
    with pytest.raises(ArtifactError, match="line 2: no answer"):
        Answers(path).get([KEY])
    assert Answers(own=path).get([KEY]) == [Answer("half a sign: \ufffd")]


def test_a_kill_in_a_write_leaves_what_was_there(path):
    Answers(own=path).add({KEY: Answer("yes")})
    with open(path, "ab") as file:
        file.write(b'{"key": "long", "text": "xxx')
    Answers(own=path).add({OTHER: Answer("no")})
    assert Answers(own=path).get([KEY, OTHER, "long"]) == [Answer("yes"), Answer("no"), None]


class Model:
    """Answers that end by themselves where the prompt is short."""

    def __init__(self, cache):
        self.cache, self.calls = cache, []

    def ask(self, asked, bar, max_new_tokens, **settings):
        self.calls.append((list(asked.values()), settings["seed"]))
        made = {key: Answer(f"{text} 0", len(text) < 4, Cost(len(text), 2, 0.25)) for key, (text, _) in asked.items()}
        self.cache.add(made)
        return made


DRAWN = {"temperature": 0.7, "seed": 1}


@pytest.fixture
def there(path):
    """A file of two drawn answers, one of them under a grammar."""
    answers = Answers(own=path)
    KeptModel(answers, "w", lambda: Model(answers)).generate(["one", "three"], 8, grammars=[None, "start: x"], **DRAWN)
    return path


def test_all_kept_needs_no_model(there):
    kept = KeptModel(Answers(there), "w")
    asked = ["three", "one", "one"], 8
    assert kept.generate(*asked, grammars=["start: x", None, None], **DRAWN) == ["three 0", "one 0", "one 0"]
    assert kept.finished == [False, True, True]
    assert kept.costs == [Cost(5, 2, 0.25), *[Cost(3, 2, 0.25)] * 2]
    assert kept.has(["three"], 8, **DRAWN) == [False], "it was given under a grammar"
    assert kept.generate([], 8) == []
    with pytest.raises(ModelError, match="1 answers are not kept"):
        kept.generate(["three"], 8)


def test_only_what_is_missing_is_asked_and_kept_beside(there, tmp_path):
    answers = Answers(there, tmp_path / "own.jsonl")
    model, asked = Model(answers), ["one", "five", "five", "six"]
    kept = KeptModel(answers, "w", lambda: model)
    texts = kept.generate(asked, 8, grammars=[None, None, None, "start: y"], **DRAWN)
    assert texts == [f"{prompt} 0" for prompt in asked]
    assert model.calls == [([("five", ""), ("six", "start: y")], 1)]
    assert kept.costs == [Cost(len(prompt), 2, 0.25) for prompt in asked]
    key = key_of("w", "six", 8, "start: y", **DRAWN)
    own = Answers(own=tmp_path / "own.jsonl").get([key, key_of("w", "one", 8, **DRAWN)])
    assert own == [Answer("six 0", True, Cost(3, 2, 0.25)), None]


def test_a_comparison_is_made_on_the_units_that_all_its_conditions_have():
    units = pd.Series(["q", "r", "s", "q", "r", "s"], index=[5, 4, 3, 2, 1, 0])
    assert whole_units(units, [True, True, True, True, False, True]) == ["q", "s"]
    assert whole_units(units, [False] * 6) == whole_units(units[:0], []) == []
