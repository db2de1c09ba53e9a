"""Which queries cross-encoder and late interaction learn from, and how they rank: a tiny encoder made on the spot."""

import json

import pandas as pd
import pytest

from lib.assistant import interaction_training as module
from lib.assistant.interaction_training import (
    CROSS,
    LATE,
    READERS,
    UNSEEN,
    all_readers,
    kept_reader,
    make,
    method_of,
    name_of,
    parts,
    rank_for_others,
    rank_with,
    reader_for,
    settings_of,
    share_in_shortlist,
)
from lib.workbook.artifacts import Workbook
from lib.workbook.parameters.finetuned_search import FinetunedSearch
from lib.workbook.trained import FOLDER, RECORD, ship
from tests.assistant.readers_world import ITEMS, SMALL, TRAINING, first_of, lesson_of


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(module, "SETTINGS", SMALL)


def test_no_label_of_evaluation_reaches_training(small_world):
    queries, _, gold, _ = small_world
    lesson = lesson_of(small_world)
    theirs = set(queries["query"][queries["split"] == "evaluation"])
    assert not theirs & {*lesson.queries["query"], *lesson.qrels["query"], *lesson.negatives["query"]}
    assert set(lesson.items["persona"]) == {f"p{p}" for p in range(TRAINING)}
    others = queries["split"] == "evaluation"
    relevant = gold["relevant"].where(~others.to_numpy(), pd.Series([["p7-i5"]] * len(gold)))
    text = queries["text"].where(~others, "mirror")
    other = lesson_of(small_world, gold=gold.assign(relevant=relevant), queries=queries.assign(text=text))
    for reader in READERS:
        pd.testing.assert_frame_equal(lesson.groups(reader, 10), other.groups(reader, 10))
        assert lesson.source(reader, 10) == other.source(reader, 10)


def test_held_out_needs_never_reach_those_that_shall_not_meet_them(small_world):
    lesson = lesson_of(small_world)
    assert lesson.held_out
    for reader in READERS:
        met = set(lesson.queries_of(reader, 10)["need"])
        assert bool(met & lesson.held_out) != reader.endswith(UNSEEN)
    seen, unseen = (lesson.groups(reader, 10) for reader in (CROSS, CROSS + UNSEEN))
    assert len(unseen) < len(seen) == 10
    assert (seen["documents"].str.len() == 1 + module.NEGATIVES).all()
    pd.testing.assert_frame_equal(seen, lesson.groups(LATE, 10))  # both learn from the same


def test_the_hash_is_of_what_is_learned_from(small_world):
    _, items, gold, _ = small_world
    source = lesson_of(small_world).source(CROSS, 10)
    assert source == lesson_of(small_world).source(CROSS, 10) == lesson_of(small_world).source(LATE, 10)
    assert source not in {lesson_of(small_world).source(CROSS + UNSEEN, 10), lesson_of(small_world).source(CROSS, 4)}
    mended = items.assign(text=items["text"].where(items["item"] != "p0-i0", "lemon"))
    assert lesson_of(small_world, items=mended).source(CROSS, 10) != source
    relevant = gold["relevant"].where(gold["query"] != "p0-q0", pd.Series([["p0-i5"]] * len(gold)))
    assert lesson_of(small_world, gold=gold.assign(relevant=relevant)).source(CROSS, 10) != source


def test_a_shipped_reader_is_taken_where_it_fits(tiny, small_world, tmp_path):
    lesson = lesson_of(small_world)
    made = reader_for(CROSS, lesson, tiny, tmp_path / "made", 0, 10)
    assert (made.shipped, made.rows, made.reason) == (False, 10, "")
    ship(tmp_path / "made", name_of(CROSS, 10), lesson.source(CROSS, 10), tmp_path)
    taken = reader_for(CROSS, lesson, tiny, tmp_path / "taken", 10, 4, root=tmp_path)
    assert taken.shipped
    assert taken.folder == tmp_path / "taken"
    assert kept_reader(tmp_path / "taken").record["head"] == made.record["head"]
    mended = lesson_of(small_world, items=small_world[1].assign(text="lemon"))
    here = reader_for(CROSS, mended, tiny, tmp_path / "taken", 10, 4, root=tmp_path)
    assert (here.shipped, here.rows) == (False, 4)
    assert "other pairs" in here.reason
    with pytest.raises(ValueError, match="nothing to train on"):
        reader_for(
            CROSS,
            lesson_of(small_world, queries=small_world[0].assign(split="evaluation")),
            tiny,
            tmp_path / "x",
            0,
            10,
        )


def test_a_world_without_training_leaves_empty_records(tiny, small_world, tmp_path):
    nothing = lesson_of(small_world, queries=small_world[0].assign(split="evaluation"))
    assert all_readers(nothing, tiny, tmp_path, 0, 10) == {}
    assert {path.parent.name for path in tmp_path.glob(f"*/{RECORD}")} == set(READERS)
    with pytest.raises(KeyError):
        kept_reader(tmp_path / CROSS)


def test_the_cross_encoder_moves_the_first_alone_and_late_interaction_ranks_all(
    tiny, small_world, tmp_path, monkeypatch
):
    monkeypatch.setattr(module, "DEPTH", 3)
    queries, items, gold, vectors = small_world
    adapters = all_readers(lesson_of(small_world), tiny, tmp_path, 0, 10)
    assert list(adapters) == list(READERS)
    ours = queries[queries["split"] == "evaluation"].reset_index(drop=True)
    first = first_of(small_world)
    for reader, adapter in adapters.items():
        ranked = rank_with(reader, adapter, tiny, first, ours, items)
        assert set(ranked["query"]) == set(ours["query"])
        for query, part in ranked.groupby("query"):
            before = first.loc[first["query"] == query, "item"].tolist()
            assert part["rank"].tolist() == list(range(1, ITEMS + 1))
            assert sorted(part["item"]) == sorted(before)
            if reader.startswith(CROSS):
                assert set(part["item"][:3]) == set(before[:3])
                assert part["item"].tolist()[3:] == before[3:]
        assert rank_with(reader, adapter, tiny, first, ours.head(0), items).empty
    own = {"queries": vectors["queries"][(queries["split"] == "evaluation").to_numpy()], "items": vectors["items"]}
    swapped = rank_for_others(adapters, tiny, ours, items, own, seed=0)
    assert list(swapped) == [f"{CROSS}_swapped", f"{LATE}_swapped"]
    assert set(swapped[f"{LATE}_swapped"]["query"]) == set(ours["query"])
    qrels = gold[["query", "relevant"]].explode("relevant").set_axis(["query", "item"], axis=1)
    assert share_in_shortlist(first, qrels) == (first.merge(qrels)["rank"] <= 3).mean()


def test_parts_are_made_from_a_worlds_files(tiny, small_world, tmp_path, monkeypatch):
    queries, items, gold, vectors = small_world
    maker = Workbook("02_context_baselines", FinetunedSearch(profile="smoke"), tmp_path)
    for name, frame in (("queries", queries), ("items", items), ("gold", gold)):
        maker.write(name, frame)
    maker.write_arrays("embeddings_pretrained", vectors)
    every = parts()
    assert list(every) == [f"{reader}-4338" for reader in READERS]
    book = Workbook("04_finetuned_search", FinetunedSearch(profile="smoke", encoder=tiny, hard_negatives=4), tmp_path)
    part = module.Part(LATE, 10, settings_of(LATE, 0), FinetunedSearch, {})
    made, source, about = make("late_interaction-10", part, book, tmp_path / "out", tmp_path)
    assert (made.shipped, made.rows, about) == (False, 10, {})
    ship(tmp_path / "out", "late_interaction-10", source, tmp_path, about)
    again, same, _ = make("late_interaction-10", part, book, tmp_path / "out", tmp_path)
    assert (again.shipped, same) == (True, source)
    record = json.loads((tmp_path / FOLDER / "late_interaction-10" / RECORD).read_text())
    assert record["settings"]["seed"] == book.parameters.seed
    with pytest.raises(ValueError, match="this world has 10 of the 4,338"):
        make("late_interaction-4338", every["late_interaction-4338"], book, tmp_path / "out", tmp_path)


def test_rankings_of_a_reader_have_the_name_of_a_method():
    assert [method_of(reader) for reader in READERS] == [
        CROSS, LATE, "cross_encoder_unseen_needs", "late_interaction_unseen_needs",
    ]  # fmt: skip
