"""Chains of thought that come with the project, and what is written beside them."""

import pytest

from lib.assistant.cot import ONE_PARAGRAPH
from lib.assistant.kept_chains import FILE, writer
from lib.assistant.prompts import CONTEXT_TYPES, cot_prompt, distilled_cot_prompt
from lib.generation.kept import KeptCalls
from lib.workbook.artifacts import ROOT, Workbook
from lib.workbook.parameters.cot_augmentation import CoTAugmentation
from lib.workbook.parts import FOLDER
from tests.generation.conftest import build_model

QUERY = "Where was I?"


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return str(build_model(tmp_path_factory.mktemp("model")))


def book_in(root):
    return Workbook("03_cot_augmentation", CoTAugmentation(profile="tiny"), root)


def test_the_projects_chains_are_the_shipped_writers(tmp_path, monkeypatch):
    """They are found without a model, with what they took; one of another query, or longer ones, are not."""
    parameters = CoTAugmentation(profile="quick")
    book = book_in(tmp_path)
    (tmp_path / FILE).parent.mkdir(parents=True)
    (tmp_path / FILE).symlink_to(ROOT / FILE)
    adapter = ROOT / FOLDER / f"cot_writer-{parameters.shipped_writer_pairs}"
    zero_shot, distilled = writer(parameters.writer, book), writer(parameters.writer, book, adapter)
    prompts = [cot_prompt(QUERY, types) for types in CONTEXT_TYPES.values()]
    monkeypatch.setattr("lib.assistant.kept_chains.LocalModel", None)
    length = parameters.cot_max_tokens
    chains = zero_shot.generate(prompts, length, **ONE_PARAGRAPH)
    chains += distilled.generate([distilled_cot_prompt(QUERY)], length)
    assert len(set(chains)) == 3
    assert all("\n" not in chain for chain in chains[:2])
    assert zero_shot.usage.cached == 2
    assert min(zero_shot.usage.tokens_in, zero_shot.usage.tokens_out, zero_shot.usage.seconds) > 0
    assert not distilled.has(prompts, max_new_tokens=length, **ONE_PARAGRAPH)
    assert not zero_shot.has(prompts, max_new_tokens=length + 1, **ONE_PARAGRAPH)
    assert not zero_shot.has([f"{prompts[0]} "], max_new_tokens=length, **ONE_PARAGRAPH)


def test_what_is_not_kept_is_written_and_kept_beside(tmp_path, tiny):
    book = book_in(tmp_path)
    model = writer(tiny, book)
    chains = model.generate(["Where to look?", "And when?"], 4)
    beside = book.data / "answers" / FILE.name
    assert len(model.asked) == 2
    again = KeptCalls(beside, model.weights, tmp_path / "other.jsonl")
    assert again.generate(["Where to look?", "And when?"], 4) == chains
    assert again.usage.tokens_out == model.usage.tokens_out > 0
    assert not (tmp_path / FILE).exists()
