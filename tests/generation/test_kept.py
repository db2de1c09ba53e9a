"""Answers that are kept with the project: under weights, length and prompt, and under nothing else."""

import json

import pandas as pd
import pytest

from lib.generation.kept import Keeper, Kept, key_of, where_from
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
