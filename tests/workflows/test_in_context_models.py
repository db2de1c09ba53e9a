import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lib.workbook.artifacts import ROOT, sha256_of
from lib.workflows import in_context_models
from lib.workflows.catalogue import Catalogue
from lib.workflows.in_context_models import Source, adapter_in, part_of

CURVE = {"columns": ["step", "loss"], "curve": [[1, 2.0]], "rows": 60, "tokens": 900, "seconds": 3.0, "device": "x"}


@pytest.fixture(scope="module")
def source():
    flows = pd.DataFrame({"pair": ["t", "q"], "split": ["training", "test"], "request": ["mail", "post"]})
    flows = flows.assign(dsl="shared_gmail.SendEmailV2();", apis=[["shared_gmail.SendEmailV2"]] * 2)
    return Source(flows, Catalogue.load(ROOT / "data" / "catalogue"), {"shared_gmail": "a"}, 7, "described")


def test_the_source_is_training_pairs_catalogue_halves_seed_and_form(source):
    same = source.flows.assign(request=["mail", "another"])  # of a test flow: nobody learns from it
    assert Source(same, source.catalogue, source.halves, 7, "described").hash == source.hash
    other = source.flows.assign(request=["mails", "post"])
    few = list(source.catalogue)[1:]
    changed = [
        Source(other, source.catalogue, source.halves, 7, "described"),
        Source(source.flows, few, source.halves, 7, "described"),
        Source(source.flows, source.catalogue, {"shared_gmail": "b"}, 7, "described"),
        Source(source.flows, source.catalogue, source.halves, 8, "described"),
        Source(source.flows, source.catalogue, source.halves, 7, "compact"),
    ]
    assert len({source.hash, *(one.hash for one in changed)}) == 6


@pytest.fixture
def models(source, monkeypatch, tmp_path):
    """How to get both models of a project whose shipped parts are of the source with the given hash."""
    trained = []

    def train(part, name, prompts, targets, output, training, **machine):
        assert part == "", "no shipped part is taken by its prompts"
        trained.append((Path(output).name, len(prompts)))
        return adapter_in(shipped_part(tmp_path, Path(output).name, "here"))

    monkeypatch.setattr(in_context_models, "fingerprint", lambda path, quantization: "base")
    monkeypatch.setattr(in_context_models, "locate", lambda name: name)
    monkeypatch.setattr(in_context_models, "adapter_for", train)
    monkeypatch.setattr(in_context_models.dense, "load_encoder", lambda path, threads: None)
    monkeypatch.setattr(in_context_models.dense, "encode", lambda encoder, texts: np.zeros((len(texts), 2)))
    monkeypatch.setattr(in_context_models, "pool_of", lambda half, *rest: half)
    prompts = pd.DataFrame({"prompt": ["p"] * 9, "target": ["t"] * 9})
    monkeypatch.setattr(in_context_models, "training_prompts", lambda pool, n, *rest, **how: prompts.head(n))

    def get(made_from, n=2, **how):
        for half in "ab":
            shipped_part(tmp_path / "data" / "trained", part_of(half), made_from)
        found = in_context_models.in_context_models(
            source, "base model", np.zeros((2, 2)), "encoder", n, tmp_path / "adapters", len, root=tmp_path, **how
        )
        return found, trained

    return get


def shipped_part(folder, part, pairs):
    target = folder / part
    target.mkdir(parents=True, exist_ok=True)
    (target / "adapter_model.safetensors").write_bytes(b"weights")
    (target / "adapter_config.json").write_text("{}")
    record = CURVE | {
        "settings": {},
        "model": "base",
        "pairs": pairs,
        "sha256": sha256_of(target / "adapter_model.safetensors"),
    }
    (target / "training.json").write_text(json.dumps(record | ({"part": part} if pairs != "here" else {})))
    return target


def test_shipped_models_are_taken_where_their_source_fits(source, models):
    found, trained = models(source.hash)
    assert list(found) == ["in_context-a", "in_context-b"]
    assert all(one.shipped and one.tokens == 900 for one in found.values())
    assert trained == []


def test_models_of_another_world_are_named_and_not_used(source, models):
    found, trained = models("another world")
    assert trained == [("in_context-a", 2), ("in_context-b", 2)]
    assert not any(one.shipped for one in found.values())
    assert found["in_context-a"].reason == (
        "The shipped part in_context-a is not used: it was trained on other pairs than these."
    )


def test_shipped_models_may_not_be_wanted(source, models):
    found, trained = models(source.hash, take_shipped=False)
    assert len(trained) == 2
    assert found["in_context-b"].reason == ""


def test_a_world_that_is_too_small_says_so(models):
    with pytest.raises(ValueError, match="too small to teach an in-context model: no prompt over half a"):
        models("another world", n=0)
