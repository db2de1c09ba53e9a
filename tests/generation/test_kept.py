"""Answers that are kept with the project: under weights, length and prompt, and under nothing else."""

import json

import pandas as pd
import pytest

from lib.generation.kept import Keeper, Kept, KeptCalls, key_of, where_from
from lib.generation.local import Cost, Usage
from lib.generation.models import ModelError
from lib.workbook.artifacts import ArtifactError


class Model:
    fingerprint, dtype = "w1", "float32"

    def __init__(self):
        self.asked = []

    def generate(self, prompts, max_new_tokens, progress=False):
        self.asked.append((list(prompts), max_new_tokens))
        return [f"{prompt}!" for prompt in prompts]


@pytest.fixture
def path(tmp_path):
    keeper = Keeper(Model(), Kept("w1", 8, {}), tmp_path / "kept.jsonl")
    keeper.generate(["one", "two\u2028lines\n"])
    return tmp_path / "kept.jsonl"


def test_what_is_kept_is_not_asked(path, tmp_path):
    model, own = Model(), tmp_path / "own.jsonl"
    keeper = Keeper(model, Kept.read(path, "w1", 8), own)
    assert keeper.generate(["two\u2028lines\n", "three", "one"]) == ["two\u2028lines\n!", "three!", "one!"]
    assert model.asked == [(["three"], 8)]
    assert (keeper.used, keeper.asked) == ({"one", "two\u2028lines\n"}, {"three"})
    assert keeper.dtypes == {"float32"}
    assert [json.loads(line)["text"] for line in own.read_text().splitlines()] == ["three!"]


def test_all_kept_needs_no_model(path, tmp_path):
    keeper = Keeper(None, Kept.read(path, "w1", 8), tmp_path / "own.jsonl")
    assert keeper.generate(["one"]) == ["one!"]
    assert keeper.generate([]) == []
    assert not (tmp_path / "own.jsonl").exists()


@pytest.mark.parametrize(("weights", "length"), [("w2", 8), ("w1", 9), ("", 8)])
def test_other_weights_or_lengths_find_nothing(path, weights, length):
    assert Kept.read(path, weights, length).found(["one"]) == [None]


def test_without_a_file_nothing_is_kept(tmp_path):
    assert Kept.read(tmp_path / "none.jsonl", "w1", 8).found(["one"]) == [None]


def test_a_group_is_whole_or_not(path):
    prompts = pd.DataFrame({"query": ["q", "q", "r"], "prompt": ["one", "other", "one"]}, index=[4, 2, 0])
    assert Kept.read(path, "w1", 8).whole(prompts, ["query"]).to_dict() == {4: False, 2: False, 0: True}


def test_answers_are_added_to_ones_own(path):
    Keeper(Model(), Kept("w1", 8, {}), path).generate(["one", "three"])
    kept = Kept.read(path, "w1", 8)
    assert [answer is not None for answer in kept.found(["one", "two\u2028lines\n", "three"])] == [True] * 3


@pytest.mark.parametrize("line", ["[1]", '{"key": "a"}', "broken"])
def test_a_damaged_file_names_the_line(path, line):
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(ArtifactError, match="line 3: no answer"):
        Kept.read(path, "w1", 8)


def test_keys_tell_the_parts_apart():
    assert len({key_of("a", 1, "b"), key_of("a", 11, "b"), key_of("a", 1, "1b"), key_of("ab", 1, "")}) == 4


def test_a_page_says_where_answers_are_from(tmp_path):
    kept = Kept("w1", 8, {key_of("w1", 8, "one"): ("1", "bfloat16")})
    keeper = Keeper(Model(), kept, tmp_path / "own.jsonl")
    assert where_from(keeper, "plans", "M") == "All 0 plans of M were written in this run."
    keeper.generate(["one"])
    assert where_from(keeper, "plans", "M") == (
        "1 plans of M were written once, in bfloat16, and are kept with the project under the prompts that they answer."
    )
    keeper.generate(["two"])
    assert where_from(keeper, "plans", "M").endswith("that they answer; 1 were written in this run.")


class Caller:
    """Answers that end by themselves where the prompt is short."""

    dtype = "float32"

    def __init__(self):
        self.calls, self.finished = [], []

    def generate(self, prompts, progress=False, grammars=None, **settings):
        self.calls.append((list(prompts), grammars, settings))
        self.finished = [len(prompt) < 4 for prompt in prompts]
        self.costs = [Cost(len(prompt), 2, 9.0) for prompt in prompts]
        self.usage = Usage(len(set(prompts)), seconds=0.25 * len(set(prompts)))
        return [f"{prompt} at {settings.get('temperature', 0)}" for prompt in prompts]


@pytest.fixture
def called(tmp_path):
    """A file of answers that were drawn at 0.7, one of them under a grammar."""
    path, caller = tmp_path / "calls.jsonl", Caller()
    calls = KeptCalls(tmp_path / "none.jsonl", "w1", path, lambda: caller)
    calls.generate(["one", "three"], 8, grammars=[None, "start: x"], temperature=0.7, seed=1)
    return path


def test_kept_calls_are_answered_without_a_model(called, tmp_path):
    calls = KeptCalls(called, "w1", tmp_path / "own.jsonl")
    assert calls.generate(["three", "one"], 8, ["start: x", None], seed=1, temperature=0.7) == [
        "three at 0.7",
        "one at 0.7",
    ]
    assert calls.finished == [False, True]
    assert (len(calls.used), calls.asked, calls.dtypes) == (2, set(), {"float32"})
    assert "2 answers of W were written once, in float32" in where_from(calls, "answers", "W")
    assert not (tmp_path / "own.jsonl").exists()


def test_a_repeated_prompt_counts_once_and_its_answer_is_asked_once_a_call(called, tmp_path):
    calls = KeptCalls(called, "w1", tmp_path / "own.jsonl")
    assert calls.generate(["one", "one"], 8, temperature=0.7, seed=1) == ["one at 0.7"] * 2
    assert len(calls.used) == 1
    assert calls.usage == Usage(1, 3, 2, 0.25, 1)


@pytest.mark.parametrize(
    ("weights", "length", "grammar", "settings"),
    [
        ("w2", 8, None, {"temperature": 0.7, "seed": 1}),
        ("w1", 9, None, {"temperature": 0.7, "seed": 1}),
        ("w1", 8, "start: x", {"temperature": 0.7, "seed": 1}),
        ("w1", 8, None, {"temperature": 0.7, "seed": 2}),
        ("w1", 8, None, {"temperature": 0.0, "seed": 1}),
        ("w1", 8, None, {"temperature": 0.7, "seed": 1, "chat": True}),
    ],
)
def test_whatever_an_answer_depends_on_is_part_of_its_key(called, tmp_path, weights, length, grammar, settings):
    calls, asked = KeptCalls(called, weights, tmp_path / "own.jsonl"), (["one"], [grammar])
    assert not calls.has(*asked, max_new_tokens=length, **settings)
    with pytest.raises(ModelError, match="1 of 1 answers are not kept, and no model is named"):
        calls.generate(asked[0], length, asked[1], **settings)
    own = KeptCalls(called, "w1", tmp_path / "own.jsonl")
    assert own.has(["one"], max_new_tokens=8, temperature=0.7, seed=1)


def test_only_what_is_missing_is_asked_and_kept_beside(called, tmp_path):
    caller, own = Caller(), tmp_path / "own.jsonl"
    calls = KeptCalls(called, "w1", own, lambda: caller)
    assert calls.generate(["one", "five", "six"], 8, temperature=0.7, seed=1)[1:] == ["five at 0.7", "six at 0.7"]
    assert caller.calls == [(["five", "six"], None, {"temperature": 0.7, "seed": 1, "max_new_tokens": 8})]
    assert calls.finished == [True, False, True]
    assert (len(calls.used), len(calls.asked)) == (1, 2)
    assert calls.usage == Usage(3, 3 + 4 + 3, 6, 0.75, 1)
    calls.generate(["five"], 8, temperature=0.7, seed=1)
    assert calls.usage == Usage(1, 4, 2, 0.25, 1)
    calls.generate([], 8)
    assert calls.usage == Usage()
    assert "2 were written in this run" in where_from(calls, "answers", "W")
    again = KeptCalls(own, "w1", tmp_path / "other.jsonl")
    assert again.has(["five", "six"], max_new_tokens=8, temperature=0.7, seed=1)


def test_a_damaged_file_of_calls_says_where(tmp_path):
    path = tmp_path / "calls.jsonl"
    path.write_text('{"key": "k", "text": "t", "finished": true, "dtype": "float32"}\n')
    with pytest.raises(ArtifactError, match="line 1: no answer"):
        KeptCalls(path, "w", tmp_path / "own.jsonl")
