"""What comes trained with the project: its names, what it learns from, what a notebook takes and what it trains."""

import json
from dataclasses import asdict, replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from lib.generation.local import load_tokenizer
from lib.retrieval.training import Tuning
from lib.workbook.artifacts import ROOT
from lib.workbook.parameters import notebook_parameters, read_profile
from lib.workbook.parts import FOLDER, RECORD, Adapter, Shipped, shipped
from lib.workflows import in_context
from lib.workflows import parts as module
from lib.workflows.catalogue import Catalogue
from lib.workflows.parts import (
    ALL_PARTS,
    SMALL_WRITER,
    WRITER,
    FlowWorld,
    Part,
    learning_curve,
    part_of,
    reader_parts,
    readers,
    rows_of,
    source_of,
)
from lib.workflows.search import Search
from tests.generation.conftest import build_model
from tests.retrieval.conftest import build_encoder

READERS = ["in_context-a", "in_context-b"]
TRAINED = {"curve": [[1, 0.5]], "columns": ["step", "loss"], "rows": 9, "tokens": 90, "seconds": 1.0, "device": "a GPU"}


@pytest.fixture(scope="module")
def bases(tmp_path_factory):
    """Folders of a tiny encoder and a tiny language model."""
    folder = tmp_path_factory.mktemp("bases")
    return build_encoder(folder / "encoder"), str(build_model(folder / "model"))


@pytest.fixture
def make_world(bases, pairs, catalogue, tmp_path):
    """A world whose requests are never encoded: its vectors and the pairs mined of them are random."""
    vectors = np.random.default_rng(0).standard_normal((len(pairs), 16)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    ids = pairs.loc[pairs["split"] == "training", "pair"].to_numpy()[:96].reshape(-1, 2)
    mined = pd.DataFrame({"a": ids[:, 0], "b": ids[:, 1], "positive": np.arange(48) % 2 == 0})

    def make_world(**changes):
        search = Search(bases[0], tmp_path / "data", root=tmp_path)
        world = replace(FlowWorld(pairs, search, bases[1], 7, catalogue), **changes)
        vars(world).update(vectors=vectors, mined=mined)
        return world

    return make_world


@pytest.fixture
def world(make_world):
    return make_world()


def test_names_say_kind_and_size_and_every_part_that_is_there_is_in_the_table():
    """Else nobody could make it again."""
    names = {part.name for part in ALL_PARTS}
    sizes = ("nl2dsl-2048", "nl2dsl-67000", "tst-3000", "tst-12000", "tst-100000", "tst_shuffled-100000")
    assert names == {*sizes, *READERS}
    ours = ("nl2dsl", "tst", "tst_shuffled", "in_context")
    assert {folder.name for folder in (ROOT / FOLDER).iterdir() if folder.name.split("-")[0] in ours} <= names


# ---------------------------------------------------------------- what they learn from


def test_mined_pairs_are_of_training_and_named_by_their_ids(make_world):
    flows = pd.DataFrame({"pair": list("abcd"), "split": ["test", *["training"] * 3], "request": list("abcd")})
    world = make_world(flows=flows)
    del vars(world)["mined"]
    vars(world)["vectors"] = np.array([[1, 0], [1, 0], [1, 0], [0, 1]], dtype=np.float32)
    found = world.mined
    assert found.loc[found["positive"], ["a", "b"]].to_numpy().tolist() == [["b", "c"]]
    assert set(found["a"]) | set(found["b"]) == {"b", "c", "d"}
    alone = make_world(flows=flows.head(2))
    del vars(alone)["mined"]
    assert len(alone.mined) == 0


def test_a_writer_learns_the_flow_between_markers(world):
    rows = rows_of(part_of("nl2dsl", 4), world)
    assert rows["prompt"].str.endswith("\n<START>\n").all()
    flows = rows["target"].str.removesuffix("\n<END>")
    assert (rows["target"] != flows).all()
    assert set(flows) <= set(world.training["dsl"])


def test_the_controls_scores_are_shuffled_among_pairs_of_one_kind(world):
    rows, control = (rows_of(part_of(kind, 48), world) for kind in ("tst", "tst_shuffled"))
    for kind in (True, False):
        before, after = (frame.loc[frame["positive"] == kind, "score"] for frame in (rows, control))
        assert sorted(before) == sorted(after)
        assert (before != after).any()
    texts = ["sentence1", "sentence2", "positive"]
    pd.testing.assert_frame_equal(rows[texts], control[texts])


@pytest.mark.slow
def test_an_in_context_model_reads_short_prompts_over_its_half(world, monkeypatch):
    monkeypatch.setattr(in_context, "TRIED", 30)  # in a world of few flows most sorts of prompts are given up
    rows = rows_of(reader_parts(12)[1], world)
    assert len(rows) == 12
    assert not any(name in prompt for prompt in rows["prompt"] for name in ("shared_teams.", "shared_office365."))
    tokenizer, _ = load_tokenizer(world.generator)
    assert max(len(tokenizer(prompt)["input_ids"]) for prompt in rows["prompt"]) <= 1_000


def test_an_in_context_models_source_is_training_pairs_catalogue_and_seed(make_world, pairs, catalogue):
    def source(**changes):
        return source_of(reader_parts(12)[0], make_world(**changes))

    def reworded(split):
        return pairs.assign(request=pairs["request"].where(pairs["split"] != split, "another"))

    few = Catalogue(dict(list(catalogue.apis.items())[:-1]), catalogue.connectors)
    assert source(flows=reworded("test")) == source(), "nobody learns from a test flow"
    changed = {"flows": reworded("training"), "catalogue": few, "seed": 8}
    assert len({source(), *(source(**{name: value}) for name, value in changed.items())}) == 4


# ---------------------------------------------------------------- what a notebook takes, and what it trains


@pytest.fixture
def trainer(world, tmp_path, monkeypatch):
    """A project whose shipped parts fit by their names in `fit`; notes what it would train in `calls`."""
    calls, fit = [], set()

    def look_up(part, *_):
        return Shipped(tmp_path, TRAINED, "") if part in fit else Shipped(None, {}, f"{part} is another world's.")

    def train(rows, output, settings, **own):
        calls.append((output.name, len(rows), settings.batch_size, sorted(own)))
        return Adapter(output, False, "", pd.DataFrame({"loss": [0.4]}), len(rows), 1.0, "a laptop", {})

    def finetune(name, prompts, targets, *how, **own):
        return train(prompts, *how, **own)

    def tune(name, *how, **own):
        return train(*how, **own)

    for name, value in {"shipped": look_up, "finetune_language_model": finetune, "tune_encoder": tune}.items():
        monkeypatch.setattr(module, name, value)

    def run(kind, sizes, here):
        return learning_curve(lambda n: part_of(kind, n), world, sizes, here, tmp_path / "runs", threads=1)

    return SimpleNamespace(run=run, calls=calls, fit=fit)


def test_a_shipped_part_is_taken_and_smaller_ones_that_fit(trainer):
    trainer.fit.update({"tst-40", "tst-20"})
    made = trainer.run("tst", [40, 20, 10], 5)
    assert [(size, one.shipped, one.reason) for size, one in made.items()] == [
        (10, False, "tst-10 is another world's."), (20, True, ""), (40, True, "")
    ]  # fmt: skip
    assert trainer.calls == [("tst-10", 10, 64, ["threads"])]


def test_where_the_largest_does_not_fit_all_are_trained_here_on_no_more_than_there_are(trainer, world):
    trainer.fit.add("tst-20")
    assert {size: one.shipped for size, one in trainer.run("tst", [20, 60], 40).items()} == {20: True, 40: False}
    most = len(world.training)
    assert list(trainer.run("nl2dsl", [67_000], most + 2)) == [most]
    assert trainer.calls[-1] == (f"nl2dsl-{most}", most, 4, ["quantization", "threads"])
    vars(world)["mined"] = world.mined.head(0)
    assert trainer.run("tst", [20, 60], 40) == {}


@pytest.fixture
def read(world, tmp_path, trainer, monkeypatch):
    prompts = pd.DataFrame({"prompt": ["p"] * 9, "target": ["t"] * 9})
    monkeypatch.setattr(in_context, "training_prompts", lambda pool, n, *_: prompts.head(n))
    return lambda prompts: readers(world, prompts, tmp_path / "adapters")


def test_in_context_models_are_taken_where_both_fit(read, trainer):
    trainer.fit.add(READERS[0])
    trained = read(2)
    assert {name: (one.rows, one.shipped) for name, one in trained.items()} == dict.fromkeys(READERS, (2, False))
    trainer.fit.add(READERS[1])
    assert all(one.shipped for one in read(7_000).values())


def test_a_world_without_prompts_over_a_half_says_so(read):
    with pytest.raises(ValueError, match="too small for in_context-a"):
        read(0)


def test_settings_suit_the_number_of_pairs_and_are_those_that_parts_were_trained_with():
    """Else profiles would train their own."""
    assert part_of("nl2dsl", 67_000).settings == WRITER
    assert part_of("nl2dsl", 2_048, 1e-4).settings == replace(SMALL_WRITER, learning_rate=1e-4)
    for profile in ("quick", "full"):
        told = notebook_parameters(
            "08_dsl_retrieval", read_profile(ROOT / "notebooks" / "profiles" / f"{profile}.yaml")
        )
        assert told.dsl_learning_rate == 0
    for part in ALL_PARTS:
        had = json.loads((ROOT / FOLDER / part.name / RECORD).read_text())["settings"]
        asked = asdict(part.settings).items()
        ours = {name: value for name, value in asked if name != "checkpoint_every" and part.kind != "in_context"}
        assert ours.items() <= had.items()


# ---------------------------------------------------------------- `make train`


def test_a_part_is_made_once_and_anew_where_one_pair_changed(make_world, tmp_path, monkeypatch):
    worlds = [make_world()]
    monkeypatch.setattr(FlowWorld, "of", lambda *_: worlds[-1])
    book, part = SimpleNamespace(data=tmp_path / "data"), Part("tst", 48, Tuning(rank=2, batch_size=16))
    assert module.ship_part(part, book, tmp_path).startswith("48 rows in")
    assert module.ship_part(part, book, tmp_path) == ""
    known = worlds[0].search.base, source_of(part, worlds[0])
    assert shipped("tst-48", *known, tmp_path).folder == tmp_path / FOLDER / "tst-48"

    changed = worlds[0].flows.copy()
    changed.loc[changed["pair"] == worlds[0].mined["a"][0], "request"] += " now"
    worlds.append(make_world(flows=changed))
    assert module.ship_part(part, book, tmp_path).startswith("48 rows in")
    assert "other pairs" in shipped("tst-48", *known, tmp_path).reason
    with pytest.raises(ValueError, match="too small for tst-90: it has 48 rows"):
        module.ship_part(part_of("tst", 90), book, tmp_path)
