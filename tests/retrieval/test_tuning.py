"""LoRA tuning of an encoder on scored pairs: a tiny one made on the spot."""

import itertools
import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

from lib.retrieval import tuning as module
from lib.retrieval.dense import encode, has_bfloat16, load_encoder
from lib.retrieval.tuning import Tuning, encoder_for, plan_rows, rows_hash, tune_encoder, weights_hash
from lib.workbook.artifacts import ArtifactError
from lib.workbook.checkpoints import Checkpoints
from lib.workbook.parts import FOLDER, RECORD, WEIGHTS, ship
from tests.retrieval.conftest import WORDS

SETTINGS = Tuning(rank=4, alpha=8, learning_rate=2e-2, batch_size=8, seed=1, checkpoint_every=5)


@pytest.fixture
def scored():
    """Pairs of three to six words each; the score is the share of words that the two have in common."""
    rng = np.random.default_rng(4)
    pairs = [(rng.choice(WORDS, 3 + i % 4, replace=False), rng.choice(WORDS[:8], 3, replace=False)) for i in range(96)]
    return pd.DataFrame(
        {
            "sentence1": [" ".join(one) for one, _ in pairs],
            "sentence2": [" ".join(other) for _, other in pairs],
            "score": [len(set(one) & set(other)) / 3 for one, other in pairs],
        }
    )


def squared_errors(encoder, rows, a=1.0, b=0.0):
    one, other = (encode(encoder, rows[side].tolist()) for side in ("sentence1", "sentence2"))
    return (a * (one * other).sum(axis=1) + b - rows["score"].to_numpy()) ** 2


@pytest.mark.parametrize("loss", ["squared", "affine"])
def test_tuning_brings_cosines_close_to_the_scores(tiny, scored, tmp_path, loss):
    rows = pd.concat([scored] * 3, ignore_index=True)
    record = tune_encoder(tiny, rows, tmp_path / "a", replace(SETTINGS, loss=loss))
    tuned = load_encoder(tiny, adapter=tmp_path / "a")
    before, after = squared_errors(load_encoder(tiny), scored), squared_errors(tuned, scored, *record["affine"])
    assert after.mean() < before.mean() / 2
    assert [step for step, _ in record["curve"]] == list(range(1, 37))
    assert (record["affine"] == [1, 0]) == (loss == "squared")
    assert record["rows"] == 288
    assert record["tokens"] == sum(len(text.split()) for side in ("sentence1", "sentence2") for text in rows[side])
    assert [path.name for path in tmp_path.iterdir()] == ["a"], "neither checkpoints nor temporary folders stay"


def test_the_first_loss_is_the_squared_error_of_the_pretrained_encoder(tiny, scored, tmp_path):
    record = tune_encoder(tiny, scored.head(8), tmp_path / "a", SETTINGS)
    assert record["curve"][0][1] == pytest.approx(squared_errors(load_encoder(tiny), scored.head(8)).mean(), abs=0.01)


def test_the_affine_loss_can_move_the_level_of_cosines_without_the_encoder(tiny, scored, tmp_path):
    rows, still = scored.assign(score=0.1), replace(SETTINGS, learning_rate=1e-9, affine_rate=0.1)
    for loss, falls in (("squared", False), ("affine", True)):
        curve = tune_encoder(tiny, rows, tmp_path / loss, replace(still, loss=loss))["curve"]
        assert (curve[-1][1] < curve[0][1] / 5) == falls


def test_the_adapter_alone_is_trained_and_the_merged_encoder_is_what_was_trained(tiny, scored, tmp_path):
    record = tune_encoder(tiny, scored, tmp_path / "a", replace(SETTINGS, learning_rate=1e-9))
    plain, same = load_encoder(tiny), load_encoder(tiny, adapter=tmp_path / "a")
    assert encode(same, WORDS) == pytest.approx(encode(plain, WORDS), abs=1e-5)
    assert record["model"] == weights_hash(plain)


def kill_after(monkeypatch, saves):
    save, count = Checkpoints.save, []

    def then_die(*arguments):
        save(*arguments)
        count.append(1)
        if len(count) == saves:
            raise KeyboardInterrupt

    monkeypatch.setattr(Checkpoints, "save", then_die)


@pytest.mark.parametrize("loss", ["squared", "affine"])
def test_a_killed_run_goes_on_and_gives_the_same_adapter(tiny, scored, tmp_path, loss):
    settings = replace(SETTINGS, loss=loss)
    whole = tune_encoder(tiny, scored, tmp_path / "whole", settings)
    for saves in (1, 1):
        with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
            kill_after(patch, saves)
            tune_encoder(tiny, scored, tmp_path / "cut", settings)
    steps, train_step = [], module.train_step
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "train_step", lambda *rest: steps.append(1) or train_step(*rest))
        cut = tune_encoder(tiny, scored, tmp_path / "cut", settings)
    assert len(steps) == 2, "of twelve steps ten were in the checkpoints"
    assert (tmp_path / "cut" / WEIGHTS).read_bytes() == (tmp_path / "whole" / WEIGHTS).read_bytes()
    assert (cut["curve"], cut["affine"]) == (whole["curve"], whole["affine"])


def test_a_finished_run_is_not_repeated_but_a_damaged_or_another_one_is(tiny, scored, tmp_path, monkeypatch):
    first = tune_encoder(tiny, scored, tmp_path / "a", SETTINGS)
    calls, train = [], module.train
    monkeypatch.setattr(module, "train", lambda *arguments: calls.append(1) or train(*arguments))
    assert tune_encoder(tiny, scored.assign(positive=True), tmp_path / "a", SETTINGS) == first
    assert not calls
    weights = tmp_path / "a" / WEIGHTS
    good = weights.read_bytes()
    weights.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    tune_encoder(tiny, scored, tmp_path / "a", SETTINGS)
    assert weights.read_bytes() == good
    tune_encoder(tiny, scored.iloc[::-1], tmp_path / "a", SETTINGS)
    assert json.loads((tmp_path / "a" / RECORD).read_text())["pairs"] == rows_hash(scored.iloc[::-1])
    assert len(calls) == 2


def test_what_cannot_be_trained_says_so(tiny, scored, tmp_path):
    with pytest.raises(ValueError, match="nothing to train on"):
        tune_encoder(tiny, scored.head(0), tmp_path / "a")
    with pytest.raises(KeyError, match="sentence2"):
        tune_encoder(tiny, scored.drop(columns="sentence2"), tmp_path / "a")
    with pytest.raises(ValueError, match="squared, affine"):
        Tuning(loss="plain")
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ArtifactError, match="cannot be written"):
        tune_encoder(tiny, scored.head(8), tmp_path / "file" / "a", SETTINGS)


def test_a_shipped_encoder_is_taken_for_its_own_pairs_only(tiny, scored, tmp_path):
    trained = encoder_for("tst-96", tiny, scored, tmp_path / "a", SETTINGS, root=tmp_path)
    assert (trained.shipped, trained.reason) == (False, "No trained part tst-96 is shipped.")
    ship(tmp_path / "a", "tst-96", rows_hash(scored), tmp_path)
    found = encoder_for("tst-96", tiny, scored, tmp_path / "b", SETTINGS, root=tmp_path)
    assert (found.shipped, found.reason, found.folder) == (True, "", tmp_path / FOLDER / "tst-96")
    assert not (tmp_path / "b").exists()
    assert (found.rows, found.tokens, found.device) == (trained.rows, trained.tokens, trained.device)
    one, other = (encode(load_encoder(tiny, adapter=part.folder), WORDS) for part in (trained, found))
    assert one == pytest.approx(other, abs=0.05), "bfloat16 rounds"
    assert not np.allclose(other, encode(load_encoder(tiny), WORDS), atol=0.05)

    scored.loc[95, "score"] += 0.01  # a world changed by one pair
    other = encoder_for("tst-96", tiny, scored, tmp_path / "b", SETTINGS, root=tmp_path)
    assert other.reason == "The shipped part tst-96 is not used: it was trained on other pairs than these."
    assert not other.shipped
    assert other.folder == tmp_path / "b"
    assert encoder_for("", tiny, scored, tmp_path / "b", SETTINGS, root=tmp_path).reason == ""


def test_the_base_computes_in_bfloat16_where_the_machine_does(tiny):
    encoder = load_encoder(tiny)
    adapted, weights = module.add_adapter(encoder, SETTINGS)
    expected = "torch.bfloat16" if has_bfloat16() else "torch.float32"
    assert {str(value.dtype) for value in adapted.parameters()} == {expected}
    assert not [name for name in weights if "pooler" in name]


@pytest.mark.parametrize("steps", [1, 7, 10, 19, 40])
def test_the_learning_rate_never_exceeds_its_highest(tmp_path, steps, monkeypatch):
    monkeypatch.setattr(module, "copy_weights", lambda *_: None)
    optimizer, rates = SimpleNamespace(param_groups=[{"highest": 0.5}]), []

    def one_step(_):
        rates.append(optimizer.param_groups[0]["lr"])
        return torch.tensor(0.0)

    batches = [np.array([0])] * steps
    module.take_steps(one_step, batches, {}, {}, optimizer, 50, Checkpoints(tmp_path, "run"))
    assert max(rates) == pytest.approx(0.5)
    assert max(rates) <= 0.5
    assert all(after <= before for before, after in itertools.pairwise(rates[max(1, steps // 10) :]))


def test_the_plan_is_a_permutation_of_similar_lengths():
    lengths = np.random.default_rng(0).integers(5, 60, size=330)
    order = plan_rows(lengths, 32, seed=1)
    assert sorted(order) == list(range(330))
    spread = np.mean([np.ptp(lengths[order[i : i + 32]]) for i in range(0, 320, 32)])
    assert spread < 12
    assert (order == plan_rows(lengths, 32, seed=1)).all()
    assert (order != plan_rows(lengths, 32, seed=2)).any()
    assert len(plan_rows(np.array([], dtype=int), 8, seed=0)) == 0
