"""Tiny random models, which `locate` finds by name."""

import pytest
import torch

from lib.generation import tiny
from lib.generation.models import folder_hash, locate


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("models")


@pytest.mark.slow
@pytest.mark.parametrize("name", tiny.TINY)
def test_they_are_the_same_wherever_they_are_made(name, cache, tmp_path):
    state = torch.random.get_rng_state()
    assert folder_hash(locate(name, cache)) == folder_hash(locate(name, tmp_path))
    assert torch.equal(torch.random.get_rng_state(), state), "what is drawn later must not depend on who made them"
    made = sorted((path, path.stat().st_mtime_ns) for path in cache.rglob("*.json"))
    locate(name, cache)
    assert sorted((path, path.stat().st_mtime_ns) for path in cache.rglob("*.json")) == made
