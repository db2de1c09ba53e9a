"""Fine-tuning an encoder: rows to train on, and training a tiny one made on the spot."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest

from lib.retrieval import finetune as module
from lib.retrieval.dense import encode, load_encoder, search
from lib.retrieval.finetune import (
    RECORD,
    Finetuning,
    finetune_encoder,
    folds_of,
    hardest_negatives,
    nested_sample,
    training_rows,
)
from lib.retrieval.stores import candidate_pairs
from lib.workbook.artifacts import ArtifactError
from tests.retrieval.conftest import WORDS


@pytest.fixture
def world():
    """Twelve personas with two to nine items and two queries each; the relevant items of a query are one to three."""
    rng = np.random.default_rng(3)
    items, queries, qrels = [], [], []
    for person in range(12):
        owned = [f"p{person}-i{n}" for n in range(2 + person % 8)]
        items += [(f"p{person}", name, " ".join(rng.choice(WORDS, 4))) for name in owned]
        for number in range(2):
            query = f"p{person}-q{number}"
            queries.append((query, f"p{person}", " ".join(rng.choice(WORDS, 3))))
            for name in rng.choice(owned, size=min(1 + number * 2, len(owned)), replace=False):
                qrels.append((query, name))
    return (
        pd.DataFrame(queries, columns=["query", "persona", "text"]),
        pd.DataFrame(items, columns=["persona", "item", "text"]),
        pd.DataFrame(qrels, columns=["query", "item"]),
    )


def negatives_of(world, number):
    queries, items, qrels = world
    pairs = candidate_pairs(queries, items, "persona")
    scores = np.random.default_rng(1).random(len(pairs))
    return hardest_negatives(pairs, scores, qrels, number), pairs.assign(score=scores)


@pytest.mark.parametrize("number", [1, 4])
def test_negatives_are_the_best_irrelevant_items_of_the_same_persona(world, number):
    queries, items, qrels = world
    negatives, pairs = negatives_of(world, number)
    owner = items.set_index("item")["persona"]
    persona = queries.set_index("query")["persona"]
    assert (negatives["item"].map(owner).to_numpy() == negatives["query"].map(persona).to_numpy()).all()
    relevant = set(map(tuple, qrels.to_numpy()))
    assert not relevant & set(map(tuple, negatives[["query", "item"]].to_numpy()))
    for query, group in pairs.groupby("query"):
        wrong = group[[(query, item) not in relevant for item in group["item"]]]
        best = wrong.sort_values("score", ascending=False)["item"].tolist()
        found = negatives[negatives["query"] == query].sort_values("rank")["item"].tolist()
        assert found == best[:number]


def test_a_query_without_an_irrelevant_item_has_no_negative():
    queries = pd.DataFrame({"query": ["q"], "persona": ["a"], "text": ["where"]})
    items = pd.DataFrame({"persona": ["a"], "item": ["i"], "text": ["here"]})
    qrels = pd.DataFrame({"query": ["q"], "item": ["i"]})
    negatives = hardest_negatives(candidate_pairs(queries, items, "persona"), np.ones(1), qrels, 2)
    assert negatives.empty
    rows = training_rows(queries, items, qrels, negatives, epochs=1, seed=0)
    assert rows.empty
    with pytest.raises(ValueError, match="nothing to train on"):
        finetune_encoder("unused", rows, "unused")


def test_rows_take_other_items_each_epoch(world):
    queries, items, qrels = world
    negatives, _ = negatives_of(world, 2)
    rows = training_rows(queries, items, qrels, negatives, epochs=2, seed=5)
    assert list(rows) == ["query", "positive", "negative"]
    assert rows.notna().all().all()
    assert len(rows) == 2 * negatives["query"].nunique()
    text = items.set_index("item")["text"]
    relevant = qrels.assign(text=qrels["item"].map(text)).groupby("query")["text"].apply(set)
    hard = negatives.assign(text=negatives["item"].map(text)).groupby("query")["text"].apply(set)
    trained = queries[queries["query"].isin(negatives["query"])].reset_index(drop=True)
    for i, query in enumerate(trained["query"]):
        pair = rows.iloc[2 * i : 2 * i + 2]
        assert set(pair["query"]) == {trained["text"][i]}
        assert set(pair["positive"]) <= relevant[query]
        assert set(pair["negative"]) <= hard[query]
        if len(relevant[query]) > 1:
            assert pair["positive"].nunique() == 2
        if len(hard[query]) > 1:
            assert pair["negative"].nunique() == 2
    again = training_rows(queries, items, qrels.sample(frac=1, random_state=0), negatives, epochs=2, seed=5)
    pd.testing.assert_frame_equal(rows, again)


def test_samples_are_nested_and_hold_whole_personas(world):
    queries, _, _ = world
    small, large = (nested_sample(queries, size, "persona", seed=1) for size in (6, 15))
    assert (len(small), len(large)) == (6, 15)
    assert set(small["query"]) < set(large["query"])
    assert small["persona"].nunique() == 3
    assert set(nested_sample(queries, 6, "persona", seed=2)["query"]) != set(small["query"])
    assert len(nested_sample(queries, 99, "persona", seed=1)) == len(queries)


def test_folds_keep_a_persona_together(world):
    queries, _, _ = world
    folds = folds_of(queries["persona"], 2, seed=1)
    assert set(folds) == {0, 1}
    assert pd.Series(folds).groupby(queries["persona"].to_numpy()).nunique().eq(1).all()
    assert (folds == folds_of(queries["persona"][::-1], 2, seed=1)[::-1]).all()


# ---------------------------------------------------------------- training


@pytest.fixture
def rows(world):
    queries, items, qrels = world
    negatives, _ = negatives_of(world, 1)
    return training_rows(queries, items, qrels, negatives, epochs=4, seed=0)


SETTINGS = Finetuning(learning_rate=3e-3, batch_size=8, seed=1)


def test_training_lowers_the_loss_and_is_read_back(tiny, rows, world, tmp_path, capsys):
    encoder, done = finetune_encoder(tiny, rows, tmp_path / "encoder", SETTINGS)
    assert done.curve["step"].tolist() == list(range(1, len(done.curve) + 1))
    assert done.curve["loss"].tail(3).mean() < done.curve["loss"].head(3).mean()
    assert done.rows == len(rows)
    assert done.tokens == sum(len(text.split()) for column in rows for text in rows[column])
    assert [path.name for path in tmp_path.iterdir()] == ["encoder"], "neither checkpoints nor temporary folders stay"
    queries, items, _ = world
    assert (encode(encoder, WORDS) == encode(load_encoder(str(tmp_path / "encoder")), WORDS)).all()
    run = search(encoder, queries, items, "persona")
    assert len(run) == len(candidate_pairs(queries, items, "persona"))
    shown = capsys.readouterr()
    assert "loss" not in shown.out


@pytest.mark.slow
def test_two_trainings_are_equal_and_another_seed_is_not(tiny, rows, tmp_path):
    vectors, losses = [], []
    for name, settings in (("a", SETTINGS), ("b", SETTINGS), ("c", Finetuning(3e-3, 8, seed=2))):
        encoder, done = finetune_encoder(tiny, rows, tmp_path / name, settings)
        losses.append(done.curve["loss"].tolist())
        vectors.append(encode(encoder, WORDS))
    assert losses[0] == losses[1] != losses[2]
    assert (vectors[0] == vectors[1]).all()
    assert (vectors[0] != vectors[2]).any()


def counted(monkeypatch):
    calls = []
    train = module.train
    monkeypatch.setattr(module, "train", lambda *arguments: calls.append(1) or train(*arguments))
    return calls


@pytest.mark.slow
def test_a_finished_run_is_not_repeated_but_a_damaged_one_is(tiny, rows, tmp_path, monkeypatch):
    calls = counted(monkeypatch)
    output = tmp_path / "encoder"
    encoder, first = finetune_encoder(tiny, rows, output, SETTINGS)
    same, again = finetune_encoder(tiny, rows, output, SETTINGS)
    assert len(calls) == 1
    pd.testing.assert_frame_equal(first.curve, again.curve)
    assert (encode(encoder, WORDS) == encode(same, WORDS)).all()
    weights = next(output.rglob("*.safetensors"))
    good = weights.read_bytes()
    for damage in (
        lambda: weights.write_bytes(good[:-10]),
        lambda: weights.write_bytes(good[:-1] + bytes([good[-1] ^ 1])),
        weights.unlink,
        (output / "modules.json").unlink,
        (output / RECORD).unlink,
        lambda: (output / RECORD).write_text("{"),
        lambda: shutil.rmtree(output),
    ):
        before = len(calls)
        damage()
        _, redone = finetune_encoder(tiny, rows, output, SETTINGS)
        assert len(calls) == before + 1
        assert next(output.rglob("*.safetensors")).read_bytes() == good
        pd.testing.assert_frame_equal(redone.curve, first.curve)


@pytest.mark.slow
def test_other_rows_settings_or_weights_train_anew(tiny, rows, tmp_path, monkeypatch):
    calls = counted(monkeypatch)
    output = tmp_path / "encoder"
    finetune_encoder(tiny, rows, output, SETTINGS)
    finetune_encoder(tiny, rows.iloc[1:], output, SETTINGS)
    finetune_encoder(tiny, rows.iloc[1:], output, Finetuning(3e-3, 4, seed=1))
    finetune_encoder(str(output), rows.iloc[1:], tmp_path / "second", SETTINGS)
    assert len(calls) == 4
    assert json.loads((output / RECORD).read_text())["settings"]["batch_size"] == 4


def test_a_folder_that_cannot_be_written_is_one_clear_error(tiny, rows, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ArtifactError, match="cannot be written"):
        finetune_encoder(tiny, rows, tmp_path / "file" / "encoder", SETTINGS)
    assert (tmp_path / "file").read_text() == "in the way"


# ---------------------------------------------------------------- scored pairs


@pytest.fixture
def scored():
    """Pairs of three words each; the score is the share of words that the two have in common."""
    rng = np.random.default_rng(4)
    pairs = [(rng.choice(WORDS, 3, replace=False), rng.choice(WORDS[:8], 3, replace=False)) for _ in range(96)]
    return pd.DataFrame(
        {
            "sentence1": [" ".join(one) for one, _ in pairs],
            "sentence2": [" ".join(other) for _, other in pairs],
            "score": [len(set(one) & set(other)) / 3 for one, other in pairs],
        }
    )


def squared_errors(encoder, rows):
    one, other = (encode(encoder, rows[side].tolist()) for side in ("sentence1", "sentence2"))
    return ((one * other).sum(axis=1) - rows["score"].to_numpy()) ** 2


def test_scored_pairs_bring_cosines_close_to_the_scores(tiny, scored, tmp_path):
    settings = Finetuning(learning_rate=3e-3, batch_size=8, seed=1)
    encoder, done = finetune_encoder(tiny, pd.concat([scored] * 3), tmp_path / "encoder", settings)
    before, after = squared_errors(load_encoder(tiny), scored).mean(), squared_errors(encoder, scored).mean()
    assert after < before / 2
    assert done.curve["loss"].tail(3).mean() < done.curve["loss"].head(3).mean()
    assert done.rows == 3 * len(scored)
    assert done.tokens == 3 * 6 * len(scored)


def test_the_loss_of_scored_pairs_is_the_squared_error(tiny, scored):
    import torch

    encoder = load_encoder(tiny)
    for layer in encoder.modules():
        if isinstance(layer, torch.nn.Dropout):
            layer.p = 0.0
    expected = squared_errors(encoder, scored.head(8)).mean()
    record = module.train(encoder, scored.head(8), Finetuning(learning_rate=1e-6, batch_size=8))
    assert record["curve"][0][1] == pytest.approx(expected, abs=0.01)


def test_other_columns_are_ignored_and_other_scores_are_another_run(tiny, scored, tmp_path, monkeypatch):
    calls = counted(monkeypatch)
    output = tmp_path / "encoder"
    finetune_encoder(tiny, scored, output, SETTINGS)
    finetune_encoder(
        tiny, scored.assign(positive=True)[["positive", "score", "sentence2", "sentence1"]], output, SETTINGS
    )
    assert len(calls) == 1
    finetune_encoder(tiny, scored.assign(score=scored["score"][::-1].to_numpy()), output, SETTINGS)
    assert len(calls) == 2
    with pytest.raises(KeyError, match="sentence2"):
        finetune_encoder(tiny, scored.drop(columns="sentence2"), output, SETTINGS)
