"""What comes trained with the project: its names, its rows, and `make train` on a small world."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from lib.generation.local import load_tokenizer
from lib.report import train as command
from lib.retrieval.dense import load_encoder
from lib.retrieval.training import Tuning, weights_hash
from lib.workbook.parts import FOLDER, Shipped, shipped
from lib.workflows import in_context
from lib.workflows import parts as module
from lib.workflows.in_context import HALVES, half_of
from lib.workflows.parts import Part, World, half_rows, make_reader, parts
from tests.generation.conftest import build_model
from tests.retrieval.conftest import build_encoder


@pytest.fixture(scope="module")
def bases(tmp_path_factory):
    """Folders of a tiny encoder and a tiny language model."""
    folder = tmp_path_factory.mktemp("bases")
    return build_encoder(folder / "encoder"), str(build_model(folder / "model"))


@pytest.fixture
def world(bases, pairs, catalogue):
    vectors = np.random.default_rng(0).standard_normal((len(pairs), 16)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    ids = pairs.loc[pairs["split"] == "training", "pair"].to_numpy()[:96].reshape(-1, 2)
    mined = pd.DataFrame({"a": ids[:, 0], "b": ids[:, 1], "positive": np.arange(48) % 2 == 0})
    return World(pairs, mined, *bases, 7, vectors, catalogue, 0.3)


def test_names_say_kind_and_size():
    every = parts()
    assert set(every) == {
        *("nl2dsl-67000", "tst-100000", "tst_affine-100000", "tst_shuffled-100000"),
        *("tst-3000", "tst-12000", "tst-40000", "tst_affine-3000", "tst_affine-12000", "nl2dsl-2048"),
        *("tst-a", "tst-b", "in_context-a", "in_context-b"),
    }
    assert all(str(part.size) in name or name[-1] in HALVES for name, part in every.items())


def test_pairs_of_a_half_lie_in_it(world):
    rows = {half: half_rows(world, 60, half) for half in HALVES}
    apis = world.flows[world.flows["split"] == "training"].set_index("request")["apis"]
    for half, of_half in rows.items():
        assert len(of_half) == 60
        for side in ("sentence1", "sentence2"):
            assert {half_of(names, world.source.halves) for names in apis[of_half[side]]} == {half}


def test_shuffled_targets_are_the_same_pairs(world):
    plain, control = (rows(world, 48) for rows in (module.selector_rows, module.shuffled_rows))
    assert plain["sentence1"].equals(control["sentence1"])
    assert sorted(plain["score"]) == sorted(control["score"])
    assert not plain["score"].equals(control["score"])


@pytest.fixture
def book(world, tmp_path):
    read = {"flows": world.flows, "tst_pairs": world.mined}
    parameters = {
        "workflow_encoder": world.encoder,
        "generator": world.generator,
        "seed": 7,
        "definition_form": "compact",
    }
    return SimpleNamespace(
        parameters=SimpleNamespace(**parameters),
        data=tmp_path / "data" / "generated" / "tiny",
        read=read.__getitem__,
        read_arrays=lambda _: {"requests": world.vectors},
        read_lines=lambda _: world.catalogue.to_lines(),
        made_with=lambda _: {"tst_threshold": world.threshold},
    )


def made(chosen, book, root):
    return {name: module.ship_part(name, part, book, root) for name, part in chosen.items()}


def test_a_part_is_made_once_and_anew_where_one_pair_changed(book, world, tmp_path):
    chosen = {"tst-48": Part(48, Tuning(rank=2, batch_size=16), module.selector_rows)}
    assert made(chosen, book, tmp_path)["tst-48"].startswith("48 rows in")
    assert made(chosen, book, tmp_path) == {"tst-48": ""}
    model = weights_hash(load_encoder(world.encoder))
    kept = module.mined_from(world, "tst-48")
    assert shipped("tst-48", model, kept, tmp_path).folder == tmp_path / FOLDER / "tst-48"

    row = world.flows.index[world.flows["pair"] == world.mined["a"][0]][0]
    changed = world.flows.copy()
    changed.loc[row, "request"] += " now"
    book.read = {"flows": changed, "tst_pairs": world.mined}.__getitem__
    assert made(chosen, book, tmp_path)["tst-48"].startswith("48 rows in")
    assert "other pairs" in shipped("tst-48", model, kept, tmp_path).reason


def test_a_world_that_is_too_small_says_so(book, tmp_path):
    with pytest.raises(ValueError, match="tst-90: this world has 48 of the 90"):
        made({"tst-90": Part(90, Tuning(), module.selector_rows)}, book, tmp_path)


@pytest.fixture
def asked(monkeypatch):
    """What the training of a language model was asked, which does not take place."""
    asked = {}

    def adapter_for(part, name, prompts, targets, output, settings):
        asked.update(part=part, prompts=prompts, targets=targets, output=output, settings=settings)
        return module.Adapter(output, False, "", pd.DataFrame(), len(prompts), 1, 1.0, "here", {})

    monkeypatch.setattr(module, "adapter_for", adapter_for)
    monkeypatch.setattr(in_context, "TRIED", 30)  # in a world of few flows most sorts of prompts are given up
    return asked


def test_an_in_context_model_reads_few_shots_of_an_encoder_tuned_on_its_half(world, tmp_path, asked, monkeypatch):
    monkeypatch.setattr(module, "HALF_PAIRS", 32)
    part = replace(parts()["in_context-b"], size=12)
    adapter, made_from = make_reader("in_context-b", part, world, tmp_path / "in_context-b", tmp_path)
    assert adapter.reason == "No trained part in_context-b is shipped."
    assert made_from == world.source.hash
    assert (tmp_path / "tst-b" / "adapter_model.safetensors").exists()
    assert len(asked["prompts"]) == len(asked["targets"]) == 12
    assert not any(name in prompt for prompt in asked["prompts"] for name in ("shared_teams.", "shared_office365."))


def test_without_a_gpu_it_reads_fewer_and_shorter_prompts_of_the_pretrained_encoder(world, tmp_path, asked):
    assert parts()["in_context-a"].size == 7_000
    part = replace(parts(on_gpu=False)["in_context-a"], size=12)
    make_reader("in_context-a", part, world, tmp_path / "in_context-a", tmp_path)
    assert not (tmp_path / "tst-a").exists()
    tokenizer, _ = load_tokenizer(world.generator)
    assert max(len(tokenizer(prompt)["input_ids"]) for prompt in asked["prompts"]) <= 1_000
    assert asked["settings"].batch_size == 4
    assert asked["settings"].seed == world.seed


def test_a_gpu_trains_anew_what_learned_from_fewer_prompts(world, tmp_path, asked, monkeypatch):
    record = {"rows": 12, "tokens": 1, "seconds": 1.0, "device": "two cores", "curve": [], "columns": []}
    monkeypatch.setattr(module, "shipped", lambda *_: Shipped(tmp_path, record, ""))
    few, more = (replace(parts(on_gpu=False)["in_context-a"], size=size) for size in (12, 13))
    assert make_reader("in_context-a", few, world, tmp_path / "made", tmp_path)[0].shipped
    assert not asked
    assert not make_reader("in_context-a", more, world, tmp_path / "made", tmp_path)[0].shipped
    assert len(asked["prompts"]) == 13


def test_a_part_that_does_not_exist_is_an_error(capsys):
    assert command.main(["smoke", "tst-10000"]) == 1
    assert "no part is called tst-10000; did you mean tst-100000?" in capsys.readouterr().err
    assert command.main([]) == 2
