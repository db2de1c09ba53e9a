"""Training encoders: tiny ones made on the spot, wholly or with an adapter, and maps upon embeddings."""

import itertools

import numpy as np
import pandas as pd
import pytest
import torch

from lib.retrieval import training as module
from lib.retrieval.dense import encode, load_encoder
from lib.retrieval.stores import candidate_pairs, cosine_of_pairs
from lib.workbook.artifacts import ArtifactError
from lib.workbook.parts import WEIGHTS
from lib.workbook.training import Checkpoints, code_hashes
from tests.retrieval.conftest import WORDS, unit


@pytest.fixture
def world():
    """Twelve personas with two to nine items and two queries each; the relevant items of a query are one to three."""
    rng = np.random.default_rng(3)
    people = [(f"p{person}", 2 + person % 8) for person in range(12)]
    queries = [(f"{p}-q{n}", p, " ".join(rng.choice(WORDS, 3))) for p, _ in people for n in range(2)]
    items = [(p, f"{p}-i{n}", " ".join(rng.choice(WORDS, 4))) for p, owned in people for n in range(owned)]
    qrels = [(f"{p}-q{n}", f"{p}-i{i}") for p, owned in people for n in range(2) for i in range(min(1 + 2 * n, owned))]
    return (
        pd.DataFrame(queries, columns=["query", "persona", "text"]),
        pd.DataFrame(items, columns=["persona", "item", "text"]),
        pd.DataFrame(qrels, columns=["query", "item"]),
    )


def negatives_of(world, number):
    queries, items, qrels = world
    pairs = candidate_pairs(queries, items, "persona")
    scores = np.random.default_rng(1).random(len(pairs))
    return module.hardest_negatives(pairs, scores, qrels, number), pairs.assign(score=scores)


def test_negatives_are_the_best_irrelevant_items_of_the_same_persona(world):
    negatives, pairs = negatives_of(world, 4)
    relevant = set(map(tuple, world[2].to_numpy()))
    for query, group in pairs.groupby("query"):
        wrong = group[[(query, item) not in relevant for item in group["item"]]]
        best = wrong.sort_values("score", ascending=False)["item"].tolist()
        found = negatives[negatives["query"] == query].sort_values("rank")["item"].tolist()
        assert found == best[:4]


def test_a_query_without_an_irrelevant_item_has_no_negative(world):
    queries, items, qrels = world
    queries = queries[queries["query"] == "p0-q1"]
    negatives = module.hardest_negatives(candidate_pairs(queries, items, "persona"), np.ones(2), qrels, 2)
    assert negatives.empty
    rows = module.training_rows(queries, items, qrels, negatives, epochs=1, seed=0)
    assert rows.empty
    with pytest.raises(ValueError, match="nothing to train on"):
        module.finetune_encoder("unused", rows, "unused")


def test_rows_take_other_items_each_epoch(world):
    queries, items, qrels = world
    negatives, _ = negatives_of(world, 2)
    rows = module.training_rows(queries, items, qrels, negatives, epochs=2, seed=5)
    assert len(rows) == 2 * negatives["query"].nunique()
    text = items.set_index("item")["text"]
    trained = queries[queries["query"].isin(negatives["query"])].reset_index(drop=True)
    for i, query in enumerate(trained["query"]):
        pair = rows.iloc[2 * i : 2 * i + 2]
        assert set(pair["query"]) == {trained["text"][i]}
        for side, frame in (("positive", qrels), ("negative", negatives)):
            those = set(frame.loc[frame["query"] == query, "item"].map(text))
            assert set(pair[side]) <= those
            assert pair[side].nunique() == min(2, len(those))
    again = module.training_rows(queries, items, qrels.sample(frac=1, random_state=0), negatives, epochs=2, seed=5)
    pd.testing.assert_frame_equal(rows, again)


@pytest.fixture
def rows(world):
    queries, items, qrels = world
    negatives, _ = negatives_of(world, 1)
    return module.training_rows(queries, items, qrels, negatives, epochs=4, seed=0)


WHOLE = module.Finetuning(learning_rate=3e-3, batch_size=8, seed=1)


def test_training_lowers_the_loss_and_is_read_back(tiny, rows, tmp_path):
    encoder, done = module.finetune_encoder(tiny, rows, tmp_path / "encoder", WHOLE)
    assert [step for step, _ in done["curve"]] == list(range(1, len(done["curve"]) + 1))
    losses = [loss for _, loss in done["curve"]]
    assert np.mean(losses[-3:]) < np.mean(losses[:3])
    assert done["rows"] == len(rows)
    assert done["tokens"] == sum(len(text.split()) for column in rows for text in rows[column])
    assert [path.name for path in tmp_path.iterdir()] == ["encoder"], "neither checkpoints nor temporary folders stay"
    assert (encode(encoder, WORDS) == encode(load_encoder(str(tmp_path / "encoder")), WORDS)).all()


def test_a_finished_run_is_not_repeated_but_an_unfinished_one_is(tiny, rows, tmp_path, monkeypatch):
    calls, output, train = [], tmp_path / "encoder", module.train_whole
    monkeypatch.setattr(module, "train_whole", lambda *arguments: calls.append(1) or train(*arguments))
    encoder, first = module.finetune_encoder(tiny, rows, output, WHOLE)
    same, again = module.finetune_encoder(tiny, rows, output, WHOLE)
    assert len(calls) == 1
    assert first == again
    assert code_hashes() == first["code"][-1:]
    assert (encode(encoder, WORDS) == encode(same, WORDS)).all()
    (output / module.RECORD).write_text("{")
    _, redone = module.finetune_encoder(tiny, rows, output, WHOLE)
    assert redone["curve"] == first["curve"]
    _, other = module.finetune_encoder(tiny, rows, output, module.Finetuning(3e-3, 8, seed=2))
    assert other["curve"] != first["curve"]
    assert len(calls) == 3


SETTINGS = module.Tuning(rank=4, alpha=8, learning_rate=2e-2, batch_size=8, seed=1)


@pytest.fixture
def scored():
    """Pairs of three to six words each; the score is the share of words that the two have in common."""
    rng = np.random.default_rng(4)
    pairs = [(rng.choice(WORDS, 3 + i % 4, replace=False), rng.choice(WORDS[:8], 3, replace=False)) for i in range(96)]
    rows = [(" ".join(one), " ".join(other), len(set(one) & set(other)) / 3) for one, other in pairs]
    return pd.DataFrame(rows, columns=["sentence1", "sentence2", "score"])


def squared_errors(encoder, rows):
    one, other = (encode(encoder, rows[side].tolist()) for side in ("sentence1", "sentence2"))
    return ((one * other).sum(axis=1) - rows["score"].to_numpy()) ** 2


def test_tuning_brings_cosines_close_to_the_scores(tiny, scored, tmp_path):
    rows = pd.concat([scored] * 3, ignore_index=True)
    made = module.tune_encoder(tiny, rows, tmp_path / "a", SETTINGS)
    tuned = load_encoder(tiny, adapter=tmp_path / "a")
    before, after = squared_errors(load_encoder(tiny), scored), squared_errors(tuned, scored)
    assert after.mean() < before.mean() / 2
    assert made.curve["step"].tolist() == list(range(1, 37))
    assert [path.name for path in tmp_path.iterdir()] == ["a"], "neither checkpoints nor temporary folders stay"


def test_a_killed_run_goes_on_and_gives_the_same_adapter(tiny, scored, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "CHECKPOINT_EVERY", 5)
    whole, save = module.tune_encoder(tiny, scored, tmp_path / "whole", SETTINGS), Checkpoints.save

    def then_die(*arguments):
        save(*arguments)
        raise KeyboardInterrupt

    for _ in range(2):
        with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(Checkpoints, "save", then_die)
            module.tune_encoder(tiny, scored, tmp_path / "cut", SETTINGS)
    steps, embed = [], module.embed_tokens
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "embed_tokens", lambda *rest: steps.append(1) or embed(*rest))
        cut = module.tune_encoder(tiny, scored, tmp_path / "cut", SETTINGS)
    assert len(steps) == 2 * 2, "of twelve steps, of two sides, ten were in the checkpoints"
    assert (tmp_path / "cut" / WEIGHTS).read_bytes() == (tmp_path / "whole" / WEIGHTS).read_bytes()
    pd.testing.assert_frame_equal(cut.curve, whole.curve)


def test_scored_pairs_that_cannot_be_learned_say_so(tiny, scored, tmp_path):
    with pytest.raises(ValueError, match="nothing to train on"):
        module.tune_encoder(tiny, scored.head(0), tmp_path / "a")
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ArtifactError, match="cannot be written"):
        module.tune_encoder(tiny, scored.head(8), tmp_path / "file" / "a", SETTINGS)


@pytest.mark.parametrize("rate", [module.rise_and_fall, module.rise_from_zero])
@pytest.mark.parametrize("steps", [7, 40])
def test_the_learning_rate_never_exceeds_its_highest(steps, rate):
    rates = [rate(step, steps, 0.5) for step in range(steps)]
    assert max(rates) == pytest.approx(0.5)
    assert max(rates) <= 0.5
    assert all(after <= before for before, after in itertools.pairwise(rates[-(-steps // 10) :]))


def test_batches_are_of_similar_lengths_and_hold_each_row_once():
    lengths = np.random.default_rng(0).integers(5, 60, size=(330, 2))
    batches = module.like_length_batches(lengths, 32, seed=1)
    assert sorted(np.concatenate(batches)) == list(range(330))
    assert [len(batch) for batch in batches] == [32] * 10 + [10]
    assert np.mean([np.ptp(lengths[batch].max(axis=1)) for batch in batches[:-1]]) < 12
    assert all(map(np.array_equal, batches, module.like_length_batches(lengths, 32, seed=1)))
    assert not all(map(np.array_equal, batches, module.like_length_batches(lengths, 32, seed=2)))
    assert [len(batch) for batch in module.like_length_batches(lengths[:3], 8, seed=0)] == [3]


@pytest.fixture
def ranked():
    """Of five items one agrees with the query in four dimensions; the other twelve are noise."""
    rng = np.random.default_rng(0)
    queries = np.concatenate([rng.normal(size=(200, 4)), 2 * rng.normal(size=(200, 12))], axis=1)
    items = np.concatenate([rng.normal(size=(1000, 4)), 2 * rng.normal(size=(1000, 12))], axis=1)
    items[::5, :4] = queries[:, :4]
    pairs = pd.DataFrame({"query_row": np.repeat(np.arange(200), 5), "item_row": np.arange(1000)})
    return pairs, np.arange(1000) % 5 == 0, np.repeat(np.arange(50), 20), unit(queries), unit(items)


def first_found(scores, rows):
    return (scores.reshape(-1, 5).argmax(axis=1) == 0)[rows].mean()


def test_it_finds_more_for_collections_that_it_never_saw(ranked, monkeypatch):
    monkeypatch.setattr(module, "MAP_EPOCHS", 30)
    monkeypatch.setattr(module, "MAP_RATE", 3e-2)
    pairs, relevant, collections, *vectors = ranked
    seen = collections < 35
    mapping = module.fit_map(pairs[seen], relevant[seen], collections[seen], *vectors, seed=0)
    fresh = slice(140, None)
    before = first_found(cosine_of_pairs(pairs, *vectors), fresh)
    assert first_found(module.mapped_cosines(pairs, *vectors, mapping), fresh) > before + 0.15


def test_the_loss_is_the_cross_entropy_of_the_relevant_document():
    rng = np.random.default_rng(5)
    queries, documents = (torch.tensor(rng.normal(size=(rows, 4))) for rows in (3, 6))
    cosines = unit(queries.numpy()) @ unit(documents.numpy()).T
    odds = np.exp(20 * cosines)
    expected = -np.log(odds[np.arange(3), np.arange(3)] / odds.sum(axis=1)).mean()
    assert module.softmax_loss(queries, documents, 20.0).item() == pytest.approx(expected)
