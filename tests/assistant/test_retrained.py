"""Fine-tuned search trained once more without each fold of needs: a tiny encoder, a small world."""

import pandas as pd
import pytest

from lib.assistant import retrained
from lib.assistant.retrained import DEPTH, FILE, NO_RANKINGS, Retraining, kept, rankings, to_keep, trained, without
from lib.retrieval.finetune import Finetuning, hardest_negatives
from lib.retrieval.stores import candidate_pairs, cosine_of_pairs
from lib.workbook.inputs import InputError

SETTINGS = Finetuning(1e-3, 2, seed=7)


def retraining_of(small_world, encoder="none", **changed):
    frames, vectors = small_world
    queries, items = frames["queries"], frames["items"]
    training = (queries["split"] == "training").to_numpy()
    pairs = candidate_pairs(queries[training], items, on="persona")
    cosines = cosine_of_pairs(pairs, vectors["queries"][training], vectors["items"])
    qrels = frames["gold"].explode("relevant").rename(columns={"relevant": "item"})
    negatives = hardest_negatives(pairs, cosines, qrels, 4)
    return Retraining.of_world(frames | changed, negatives, 4, SETTINGS, 1, encoder)


def test_every_query_is_asked_in_one_fold_and_labels_of_evaluation_queries_are_not_kept(small_world):
    again, queries = retraining_of(small_world), small_world[0]["queries"]
    evaluation = set(queries["query"][queries["split"] == "evaluation"])
    assert set(again.asked["query"]) == evaluation
    assert again.folds == sorted(again.asked["fold"].unique())
    assert not evaluation & {*again.qrels["query"], *again.negatives["query"], *again.learned["query"]}


def test_no_model_met_the_needs_that_it_is_asked_about(small_world, tiny, tmp_path, monkeypatch):
    again, gold = retraining_of(small_world, tiny), small_world[0]["gold"].set_index("query")["need"]
    met = []

    def watched(queries, *rest):
        met.append(set(gold[queries["query"]]))
        return original(queries, *rest)

    original = retrained.training_rows
    monkeypatch.setattr(retrained, "training_rows", watched)
    found = trained(again, tmp_path)
    later = [fold for fold in again.folds if fold]
    assert found["variant"].unique().tolist() == [without(fold) for fold in later]
    for fold, learned in zip(later, met, strict=True):
        asked = again.asked[again.asked["fold"] == fold]
        assert set(found["query"][found["variant"] == without(fold)]) == set(asked["query"])
        assert not set(asked["need"]) & learned


def test_what_is_kept_is_found_again_in_this_world_alone(small_world, tiny, tmp_path):
    again, (frames, _) = retraining_of(small_world, tiny), small_world
    rows = pd.DataFrame({"variant": without(1), "query": "q", "item": [f"i{n}" for n in range(DEPTH + 2)]})
    rows = rows.assign(rank=range(1, DEPTH + 3), score=0.5)
    assert kept(again, DEPTH, tmp_path) is None
    (tmp_path / FILE).parent.mkdir(parents=True)
    to_keep(rows, again.key).to_parquet(tmp_path / FILE)
    pd.testing.assert_frame_equal(kept(again, DEPTH, tmp_path), rows.head(DEPTH))
    pd.testing.assert_frame_equal(rankings(again, DEPTH, True, tmp_path, tmp_path), rows.head(DEPTH))
    assert kept(again, DEPTH + 1, tmp_path) is None
    queries, items = frames["queries"], frames["items"]
    asked_other = queries.assign(text=queries["text"].where(queries["split"] == "training", "lemon"))
    mended = items.assign(text=items["text"].where(items["item"] != "p0-i0", "lemon"))
    for other in ({"queries": asked_other}, {"items": mended}):
        assert kept(retraining_of(small_world, tiny, **other), DEPTH, tmp_path) is None
    (tmp_path / FILE).write_text("no parquet")
    with pytest.raises(InputError, match=FILE.name):
        kept(again, DEPTH, tmp_path)


def test_a_profile_may_leave_it_out(small_world, tiny, tmp_path):
    assert rankings(retraining_of(small_world, tiny), 3, False, tmp_path, tmp_path).empty
    to_keep(NO_RANKINGS, "key").to_parquet(tmp_path / "nothing.parquet")
    assert list(pd.read_parquet(tmp_path / "nothing.parquet")) == [*NO_RANKINGS, "key"]
