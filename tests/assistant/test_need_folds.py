"""Text search trained without each fold of needs: a tiny encoder, and the small world of its readers."""

import pandas as pd
import pytest

from lib.assistant import interaction_training, need_folds
from lib.assistant.interaction_training import CROSS, LATE
from lib.assistant.need_folds import (
    DEPTH,
    FILE,
    FINETUNED,
    METHODS,
    NeedFolds,
    kept,
    to_keep,
    trained,
    with_other_folds,
)
from lib.assistant.queries import folds_of_needs, held_out_needs
from lib.retrieval.finetune import Finetuning
from lib.workbook.inputs import InputError
from lib.workbook.parameters.finetuned_search import FinetunedSearch
from tests.assistant.readers_world import SMALL, first_of, lesson_of, make_world
from tests.retrieval.conftest import build_encoder

SETTINGS = Finetuning(1e-3, 2, seed=7)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return build_encoder(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def world(tiny):
    return make_world(tiny)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(interaction_training, "SETTINGS", SMALL)


def folds_of(world, **changed):
    queries, items, gold, _ = world
    lesson = lesson_of(world, **changed)
    asked = changed.get("queries", queries).query("split == 'evaluation'").reset_index(drop=True)
    items = changed.get("items", items)
    first = first_of(world)
    return NeedFolds.of_world(lesson, asked, items, first[first["query"].isin(asked["query"])], gold, SETTINGS, 1)


def test_the_first_fold_are_the_held_out_needs_and_each_need_has_one(world):
    needs = world[2]["need"]
    fold_of = folds_of_needs(needs, held_out_needs(needs.unique(), 7), 7)
    assert set(fold_of) == set(needs)
    folds = folds_of(world)
    assert {need for need, fold in folds.fold_of.items() if fold == 0} == set(folds.lesson.held_out)
    asked = pd.concat([folds.asked(number) for number in (0, *folds.numbers)])
    assert sorted(asked["query"]) == sorted(folds.queries["query"])


def test_no_model_met_the_needs_that_it_is_asked_about(world, tiny, tmp_path, monkeypatch):
    folds, gold = folds_of(world), world[2].set_index("query")["need"]
    met = []

    def watched(queries, *rest):
        met.append(set(gold[queries["query"]]))
        return original(queries, *rest)

    original = need_folds.training_rows
    monkeypatch.setattr(need_folds, "training_rows", watched)
    found = trained(folds, tiny, tmp_path, 10)
    assert set(found["method"]) == set(METHODS)
    for number, learned in zip(folds.numbers, met, strict=True):
        lesson = folds.lesson_without(number)
        theirs = set(gold[folds.asked(number)["query"]])
        assert theirs
        assert not theirs & learned
        for reader in (CROSS, LATE):
            assert not theirs & set(lesson.queries_of(reader + "_unseen", 10)["need"])
    asked = {query for number in folds.numbers for query in folds.asked(number)["query"]}
    assert all(set(rows["query"]) == asked for _, rows in found.groupby("method"))


def test_what_is_kept_is_found_again_in_this_world_alone(world, tiny, tmp_path):
    folds = folds_of(world)
    queries, items, _, _ = world
    asked = folds.asked(folds.numbers[0])["query"]
    rows = pd.DataFrame({"method": LATE, "query": asked.iloc[0], "item": [f"i{n}" for n in range(DEPTH + 2)]})
    rows = rows.assign(rank=range(1, DEPTH + 3), score=0.5)
    assert kept(folds, tiny, DEPTH, tmp_path) is None
    (tmp_path / FILE).parent.mkdir(parents=True)
    to_keep(rows, folds.key(tiny)).to_parquet(tmp_path / FILE)
    pd.testing.assert_frame_equal(kept(folds, tiny, DEPTH, tmp_path), rows.head(DEPTH))
    assert kept(folds, tiny, DEPTH + 1, tmp_path) is None
    asked_other = queries.assign(text=queries["text"].where(queries["split"] == "training", "lemon"))
    mended = items.assign(text=items["text"].where(items["item"] != "p0-i0", "lemon"))
    for other in (folds_of(world, queries=asked_other), folds_of(world, items=mended)):
        assert kept(other, tiny, DEPTH, tmp_path) is None
    (tmp_path / FILE).write_text("no parquet")
    with pytest.raises(InputError, match=FILE.name):
        kept(folds, tiny, DEPTH, tmp_path)


def test_a_profile_may_leave_the_folds_out(world, tiny, tmp_path):
    off = FinetunedSearch(profile="p", seed=7, shipped_interaction_queries=0)
    found, from_project = need_folds.rankings(folds_of(world), tiny, 3, off, tmp_path, tmp_path, False)
    assert (len(found), from_project) == (0, False)
    assert with_other_folds({}, found) == {}


def test_the_folds_are_joined_with_the_first(world):
    first = pd.DataFrame({"query": ["a"], "item": ["x"], "rank": [1], "score": [0.1]})
    others = first.assign(query="b", method=FINETUNED)
    joined = with_other_folds({"finetuned_unseen_needs": first}, others)
    assert joined["finetuned_unseen_needs"]["query"].tolist() == ["a", "b"]
    assert list(joined) == ["finetuned_unseen_needs"]
