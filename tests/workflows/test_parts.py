"""What comes trained with the project: its names, what it learns from, what a notebook takes and what it trains."""

import json
from dataclasses import asdict, replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from lib.generation.finetune import Training
from lib.generation.local import load_tokenizer
from lib.report import train as command
from lib.retrieval.dense import load_encoder, weights_hash
from lib.retrieval.training import Tuning
from lib.workbook.artifacts import ROOT
from lib.workbook.parameters import notebook_parameters, read_profile
from lib.workbook.parts import FOLDER, RECORD, Adapter, Shipped, shipped
from lib.workflows import in_context
from lib.workflows import parts as module
from lib.workflows.catalogue import Catalogue
from lib.workflows.in_context import HALVES, half_of
from lib.workflows.parts import (
    SELECTOR,
    SMALL_WRITER,
    WRITER,
    Part,
    World,
    find,
    longest_learned,
    make,
    parts,
    readers,
    rows_of,
    runs,
)
from tests.generation.conftest import build_model
from tests.retrieval.conftest import build_encoder

TRAINED = {"curve": [[1, 0.5]], "columns": ["step", "loss"], "rows": 9, "tokens": 90, "seconds": 1.0, "device": "a GPU"}


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
    assert {part.name for part in parts()} == {
        *("nl2dsl-2048", "nl2dsl-67000", "tst-3000", "tst-12000", "tst-100000", "tst_shuffled-100000"),
        *("tst-a", "tst-b", "in_context-a", "in_context-b"),
    }


def test_every_part_that_is_there_is_in_the_table():
    """Else nobody could make it again."""
    ours = ("nl2dsl", "tst", "tst_shuffled", "in_context")
    there = {folder.name for folder in (ROOT / FOLDER).iterdir() if folder.name.split("-")[0] in ours}
    assert there <= {part.name for part in parts()}


# ---------------------------------------------------------------- what they learn from


def test_pairs_of_a_half_lie_in_it(world):
    apis = world.training.set_index("request")["apis"]
    for half in HALVES:
        rows = rows_of(Part("tst", 60, SELECTOR, half), world)
        assert len(rows) == 60
        for side in ("sentence1", "sentence2"):
            assert {half_of(names, world.halves) for names in apis[rows[side]]} == {half}


def test_shuffled_targets_are_the_same_pairs(world):
    plain, control = (rows_of(Part(kind, 48, SELECTOR), world) for kind in ("tst", "tst_shuffled"))
    assert plain["sentence1"].equals(control["sentence1"])
    assert sorted(plain["score"]) == sorted(control["score"])
    assert not plain["score"].equals(control["score"])


@pytest.fixture
def asked(monkeypatch):
    """What the training of a language model was asked, which does not take place."""
    asked = {}

    def adapter_for(part, name, prompts, targets, output, settings, **machine):
        asked.update(prompts=prompts, targets=targets, output=output, settings=settings)
        return Adapter(output, False, "", pd.DataFrame(), len(prompts), 1, 1.0, "here", {})

    monkeypatch.setattr(module, "adapter_for", adapter_for)
    monkeypatch.setattr(in_context, "TRIED", 30)  # in a world of few flows most sorts of prompts are given up
    return asked


def test_an_in_context_model_reads_few_shots_of_an_encoder_tuned_on_its_half(world, tmp_path, asked, monkeypatch):
    monkeypatch.setattr(module, "HALF_PAIRS", 32)
    monkeypatch.setattr(module, "SHORT_PROMPTS", 10)
    adapter = make(Part("in_context", 12, SMALL_WRITER, "b"), world, tmp_path / "in_context-b", tmp_path)
    assert adapter.reason == "No trained part in_context-b is shipped."
    assert (tmp_path / "tst-b" / "adapter_model.safetensors").exists()
    assert len(asked["prompts"]) == len(asked["targets"]) == 12
    assert not any(name in prompt for prompt in asked["prompts"] for name in ("shared_teams.", "shared_office365."))


def test_without_a_gpu_it_reads_fewer_and_shorter_prompts_of_the_pretrained_encoder(world, tmp_path, asked):
    sizes = {gpu: {part.name: part.size for part in parts(gpu)}["in_context-a"] for gpu in (True, False)}
    assert sizes == {True: 7_000, False: 960}
    part = next(part for part in parts(on_gpu=False) if part.name == "in_context-a")
    make(part._replace(size=12), world, tmp_path / "in_context-a", tmp_path)
    assert not (tmp_path / "tst-a").exists()
    tokenizer, _ = load_tokenizer(world.generator)
    assert max(len(tokenizer(prompt)["input_ids"]) for prompt in asked["prompts"]) <= 1_000
    assert asked["settings"].batch_size == 4
    assert asked["settings"].seed == world.seed


def test_a_gpu_trains_anew_what_learned_from_fewer_prompts(world, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "shipped", lambda *_: Shipped(tmp_path, {"rows": 12}, ""))
    part = Part("in_context", 12, SMALL_WRITER, "a")
    assert find(part, world, tmp_path).folder == tmp_path
    assert "learned from fewer prompts" in find(part._replace(size=13), world, tmp_path).reason


def test_an_in_context_models_source_is_training_pairs_catalogue_seed_and_form(world):
    def source(**changes):
        return module.source_of(Part("in_context", 12, SMALL_WRITER, "a"), replace(world, **changes))

    def reworded(split):
        return world.flows.assign(request=world.flows["request"].where(world.flows["split"] != split, "another"))

    few = Catalogue(dict(list(world.catalogue.apis.items())[:-1]), world.catalogue.connectors)
    assert source(flows=reworded("test")) == source(), "nobody learns from a test flow"
    changed = {"flows": reworded("training"), "catalogue": few, "seed": 8, "form": "compact"}
    assert len({source(), *(source(**{name: value}) for name, value in changed.items())}) == 5


# ---------------------------------------------------------------- what a notebook takes, and what it trains


@pytest.fixture
def read(world, tmp_path, monkeypatch, asked):
    """`readers` in a project whose shipped parts fit by their names."""
    prompts = pd.DataFrame({"prompt": ["p"] * 9, "target": ["t"] * 9})
    monkeypatch.setattr(in_context, "training_prompts", lambda pool, n, *_: prompts.head(n))

    def read(fit, prompts=2, **how):
        def look_up(part, *_):
            return Shipped(tmp_path, TRAINED, "") if part in fit else Shipped(None, {}, f"{part} is another world's.")

        monkeypatch.setattr(module, "shipped", look_up)
        return readers(world, prompts, tmp_path / "adapters", root=tmp_path, **how)

    return read


def test_in_context_models_are_taken_where_both_fit(read, asked):
    found = read({"in_context-a", "in_context-b"}, prompts=7_000)
    assert list(found) == ["in_context-a", "in_context-b"]
    assert all(one.shipped and one.tokens == 90 for one in found.values())
    assert not asked
    assert longest_learned(found) == in_context.LIMIT


def test_where_one_does_not_fit_both_are_trained(read, tmp_path):
    found = read({"in_context-a"})
    assert {name: (one.folder, one.rows, one.shipped) for name, one in found.items()} == {
        name: (tmp_path / "adapters" / name, 2, False) for name in ("in_context-a", "in_context-b")
    }
    assert [one.reason for one in found.values()] == ["", "in_context-b is another world's."]


def test_shipped_in_context_models_may_not_be_wanted(read):
    found = read({"in_context-a", "in_context-b"}, take_shipped=False)
    assert [(one.shipped, one.reason) for one in found.values()] == [(False, ""), (False, "")]


def test_a_world_without_prompts_over_a_half_says_so(read):
    with pytest.raises(ValueError, match="too small to teach an in-context model: no prompt over half a"):
        read(set(), prompts=0)


@pytest.fixture
def trainer(world, tmp_path, monkeypatch):
    """`runs` in a project whose shipped parts fit by their names in `fit`; notes what it would train in `calls`."""
    calls, fit = [], set()

    def look_up(part, model, pairs, root, settings):
        assert settings.batch_size == 2
        found = root / "data" / "trained" / part if part in fit else None
        return Shipped(found, TRAINED, "" if found else f"The shipped part {part} is not used: other pairs.")

    def train(part, name, *rows, **own):
        *rows, output, _ = rows
        calls.append((output.name, len(rows[0]), sorted(own)))
        return Adapter(output, False, "", pd.DataFrame({"loss": [0.4]}), len(rows[0]), 90, 1.0, "a laptop", {})

    def tune(*given, **own):
        return train("", *given, **own)

    for name, value in {"shipped": look_up, "adapter_for": train, "tune_encoder": tune}.items():
        monkeypatch.setattr(module, name, value)
    settings = {"tst": Tuning(batch_size=2), "nl2dsl": Training(batch_size=2)}

    def run(kind, wanted, here, fewer=()):
        return runs(kind, world, lambda _: settings[kind], wanted, here, fewer, tmp_path / "runs", tmp_path, threads=1)

    return SimpleNamespace(run=run, calls=calls, fit=fit)


def test_a_shipped_part_is_taken_and_smaller_ones_that_fit(trainer):
    trainer.fit.update({"tst-40", "tst-20"})
    made = trainer.run("tst", 40, 30, fewer=[20, 10, 40, 50])
    assert {size: one.shipped for size, one in made.items()} == {10: False, 20: True, 40: True}
    assert list(made) == [10, 20, 40]
    assert [one.reason for one in made.values()] == ["The shipped part tst-10 is not used: other pairs.", "", ""]
    assert trainer.calls == [("tst-10", 10, ["threads"])]


def test_where_the_largest_does_not_fit_all_are_trained_here(trainer):
    trainer.fit.add("tst-20")
    made = trainer.run("tst", 40, 30, fewer=[20])
    assert {size: one.shipped for size, one in made.items()} == {20: False, 30: False}
    assert made[30].reason == "The shipped part tst-40 is not used: other pairs."
    assert made[20].reason == ""


def test_a_world_with_fewer_pairs_takes_no_shipped_part(trainer, world):
    trainer.fit.add("nl2dsl-67000")
    most = len(world.training)
    made = trainer.run("nl2dsl", 67_000, most + 2)
    assert list(made) == [most]
    assert made[most].reason == (
        f"The shipped part nl2dsl-67000 is not used: this world has {most:,} of its 67,000 pairs."
    )
    assert trainer.calls == [(f"nl2dsl-{most}", most, ["quantization", "threads"])]


def test_no_part_is_looked_for_where_none_is_wanted(trainer):
    trainer.fit.add("tst-40")
    made = trainer.run("tst", 0, 40, fewer=[20])
    assert [(size, one.shipped, one.reason) for size, one in made.items()] == [(20, False, ""), (40, False, "")]


def test_settings_that_nobody_asks_for_suit_the_number_of_pairs():
    assert module.writer_settings(67_000) == WRITER
    assert module.writer_settings(2_048) == SMALL_WRITER
    asked = module.writer_settings(67_000, learning_rate=1e-4, epochs=2)
    assert asked == replace(WRITER, learning_rate=1e-4, epochs=2)


@pytest.mark.parametrize("profile", ["quick", "full"])
def test_profiles_ask_for_the_settings_that_the_parts_were_trained_with(profile):
    """Else they would train their own."""
    values = read_profile(ROOT / "notebooks" / "profiles" / f"{profile}.yaml")
    told = notebook_parameters("08_dsl_retrieval", values)
    tuning = Tuning(learning_rate=told.tst_learning_rate, batch_size=told.tst_batch_size)
    for part in parts():
        record = ROOT / FOLDER / part.name / RECORD
        if record.exists() and part.kind != "in_context":
            how = told.dsl_learning_rate, told.dsl_epochs, told.dsl_batch_size
            asked = tuning if part.kind.startswith("tst") else module.writer_settings(part.size, *how)
            assert asked == part.settings
            had = json.loads(record.read_text())["settings"]
            assert {
                name: value for name, value in asdict(asked).items() if name != "checkpoint_every"
            }.items() <= had.items()


# ---------------------------------------------------------------- `make train`


@pytest.fixture
def book(world, tmp_path):
    told = {"workflow_encoder": world.encoder, "generator": world.generator, "seed": 7, "definition_form": "compact"}
    return SimpleNamespace(
        parameters=SimpleNamespace(quantization="none", **told),
        data=tmp_path / "data" / "generated" / "tiny",
        read={"flows": world.flows, "tst_pairs": world.mined}.__getitem__,
        read_arrays=lambda _: {"requests": world.vectors},
        read_lines=lambda _: world.catalogue.to_lines(),
        made_with=lambda _: {"tst_threshold": world.threshold},
    )


def test_a_part_is_made_once_and_anew_where_one_pair_changed(book, world, tmp_path):
    part = Part("tst", 48, Tuning(rank=2, batch_size=16))
    assert module.ship_part(part, book, tmp_path).startswith("48 rows in")
    assert module.ship_part(part, book, tmp_path) == ""
    known = weights_hash(load_encoder(world.encoder)), module.source_of(part, world)
    assert shipped("tst-48", *known, tmp_path).folder == tmp_path / FOLDER / "tst-48"

    row = world.flows.index[world.flows["pair"] == world.mined["a"][0]][0]
    changed = world.flows.copy()
    changed.loc[row, "request"] += " now"
    book.read = {"flows": changed, "tst_pairs": world.mined}.__getitem__
    assert module.ship_part(part, book, tmp_path).startswith("48 rows in")
    assert "other pairs" in shipped("tst-48", *known, tmp_path).reason


def test_a_world_that_is_too_small_says_so(book, tmp_path):
    with pytest.raises(ValueError, match="tst-90: this world has 48 of the 90"):
        module.ship_part(Part("tst", 90, Tuning()), book, tmp_path)


def test_a_part_that_does_not_exist_is_an_error(capsys):
    assert command.make_parts(["smoke", "tst-10000"]) == 1
    assert "no part is called tst-10000; did you mean tst-100000?" in capsys.readouterr().err
    assert command.make_parts([]) == 2
