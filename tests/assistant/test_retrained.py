"""Text search trained once more, without each fold of needs and with other seeds: a tiny encoder, a small world."""

import pandas as pd
import pytest

from lib.assistant import interaction_training, retrained
from lib.assistant.interaction_training import CROSS, LATE
from lib.assistant.queries import folds_of_needs, held_out_needs
from lib.assistant.retrained import (
    DEPTH,
    FILE,
    FINETUNED,
    METHODS,
    SEED,
    SEEDS,
    WITHOUT,
    Retraining,
    Variant,
    kept,
    never_told,
    of_other_seeds,
    to_keep,
    trained,
)
from lib.retrieval.finetune import Finetuning
from lib.workbook.inputs import InputError
from lib.workbook.parameters.finetuned_search import FinetunedSearch
from tests.assistant.readers_world import SMALL, first_of, lesson_of

SETTINGS = Finetuning(1e-3, 2, seed=7)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(interaction_training, "SETTINGS", SMALL)


def retraining_of(small_world, encoder="none", **changed):
    queries, items, gold, _ = small_world
    lesson = lesson_of(small_world, **changed)
    asked = changed.get("queries", queries).query("split == 'evaluation'").reset_index(drop=True)
    items = changed.get("items", items)
    first = first_of(small_world)
    return Retraining.of_world(
        lesson, asked, items, first[first["query"].isin(asked["query"])], gold, SETTINGS, 1, encoder
    )


def test_the_first_fold_are_the_held_out_needs_and_each_need_has_one(small_world):
    needs = small_world[2]["need"]
    fold_of = folds_of_needs(needs, held_out_needs(needs.unique(), 7), 7)
    assert set(fold_of) == set(needs)
    again = retraining_of(small_world)
    assert {need for need, fold in again.fold_of.items() if fold == 0} == set(again.lesson.held_out)
    asked = pd.concat([again.asked(Variant(WITHOUT, number)) for number in (0, *again.folds)])
    assert sorted(asked["query"]) == sorted(again.queries["query"])


def test_no_model_met_the_needs_that_it_is_asked_about(small_world, tiny, tmp_path, monkeypatch):
    again, gold = retraining_of(small_world, tiny), small_world[2].set_index("query")["need"]
    met = []

    def watched(queries, *rest):
        met.append(set(gold[queries["query"]]))
        return original(queries, *rest)

    original = retrained.training_rows
    monkeypatch.setattr(retrained, "training_rows", watched)
    found = trained(again, tmp_path, 10)
    assert set(found["method"]) == set(METHODS)
    assert [variant.name for variant in again.variants] == list(found["variant"].unique())
    for variant, learned in zip(again.variants, met, strict=True):
        lesson, asked = again.lesson_of(variant), again.asked(variant)
        theirs = set(gold[asked["query"]])
        rankings = found[found["variant"] == variant.name]
        assert all(set(rows["query"]) == set(asked["query"]) for _, rows in rankings.groupby("method"))
        if variant.kind == WITHOUT:
            assert theirs
            assert not theirs & learned
            for reader in (CROSS, LATE):
                assert not theirs & set(lesson.queries_of(reader + "_unseen", 10)["need"])
        else:
            assert learned == set(again.lesson.queries["need"])
            assert set(asked["query"]) == set(again.queries["query"])


def test_another_seed_is_another_training(small_world, tiny, tmp_path):
    again = retraining_of(small_world)
    seeds = [again.lesson_of(variant).seed for variant in again.variants if variant.kind == SEED]
    assert seeds == [again.lesson.seed + number + 1 for number in range(SEEDS)]
    sources = {again.lesson_of(Variant(SEED, number)).source(CROSS, 10) for number in range(SEEDS + 1)}
    assert len(sources) == SEEDS + 1


def test_what_is_kept_is_found_again_in_this_world_alone(small_world, tiny, tmp_path):
    again = retraining_of(small_world, tiny)
    queries, items, _, _ = small_world
    rows = pd.DataFrame(
        {"variant": "seed_1", "method": LATE, "query": "q", "item": [f"i{n}" for n in range(DEPTH + 2)]}
    )
    rows = rows.assign(rank=range(1, DEPTH + 3), score=0.5)
    assert kept(again, DEPTH, tmp_path) is None
    (tmp_path / FILE).parent.mkdir(parents=True)
    to_keep(rows, again.key).to_parquet(tmp_path / FILE)
    pd.testing.assert_frame_equal(kept(again, DEPTH, tmp_path), rows.head(DEPTH))
    assert kept(again, DEPTH + 1, tmp_path) is None
    asked_other = queries.assign(text=queries["text"].where(queries["split"] == "training", "lemon"))
    mended = items.assign(text=items["text"].where(items["item"] != "p0-i0", "lemon"))
    for other in (
        retraining_of(small_world, tiny, queries=asked_other),
        retraining_of(small_world, tiny, items=mended),
    ):
        assert kept(other, DEPTH, tmp_path) is None
    (tmp_path / FILE).write_text("no parquet")
    with pytest.raises(InputError, match=FILE.name):
        kept(again, DEPTH, tmp_path)


def test_a_profile_may_leave_it_out(small_world, tiny, tmp_path):
    off = FinetunedSearch(profile="p", seed=7, shipped_interaction_queries=0)
    found, from_project = retrained.rankings(retraining_of(small_world), 3, off, tmp_path, tmp_path, False)
    assert (len(found), from_project) == (0, False)
    assert never_told({}, found) == {} == of_other_seeds(found)


def test_folds_are_joined_with_the_first_and_seeds_stand_apart(small_world):
    first = pd.DataFrame({"query": ["a"], "item": ["x"], "rank": [1], "score": [0.1]})
    found = pd.concat(
        [
            first.assign(query="b", method=FINETUNED, variant="without_2"),
            first.assign(query="a", method=LATE, variant="seed_1"),
        ]
    )
    joined = never_told({"finetuned_unseen_needs": first}, found)
    assert joined["finetuned_unseen_needs"]["query"].tolist() == ["a", "b"]
    assert list(joined) == ["finetuned_unseen_needs"]
    seeds = of_other_seeds(found)
    assert list(seeds) == ["late_interaction/1"]
    pd.testing.assert_frame_equal(seeds["late_interaction/1"], first)


def test_nothing_retrained_is_written_and_read_as_nothing(tmp_path):
    nothing = to_keep(pd.DataFrame(columns=retrained.COLUMNS), "key")
    nothing.to_parquet(tmp_path / "nothing.parquet")
    found = pd.read_parquet(tmp_path / "nothing.parquet")
    assert never_told({}, found) == {} == of_other_seeds(found)
