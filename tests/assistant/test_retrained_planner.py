"""Planners trained once more: what identifies them, which of their plans are kept."""

from dataclasses import replace

import pandas as pd
import pytest

from lib.assistant import retrained_planner as module
from lib.assistant.instruct_planner import MAX_TOKENS, MODEL
from lib.assistant.planner import SETTINGS
from lib.assistant.retrained_planner import LARGER_RATE, Again, Retraining, from_larger, planned
from lib.generation import local, models
from lib.generation.answers import Answer, Answers, Cost, KeptModel, key_of
from lib.generation.finetune import Training
from tests.assistant.test_instruct_planner import kinds, lesson, plans_of, prompts  # noqa: F401

SETTLED = Training(learning_rate=3e-3, seed=7)


@pytest.fixture
def how(lesson, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.setattr(models, "locate", lambda name: name)
    monkeypatch.setattr(local, "fingerprint", lambda path, *_: f"weights of {path}")
    monkeypatch.setattr(type(lesson), "source", lambda self, size: f"{size} queries")
    return Retraining(lesson, 20, False, tmp_path, tmp_path / "generated")


def keep(how, again, texts, share=1.0):
    """Keep answers to prompts, {prompt: text}."""
    some = list(texts.items())[: int(share * len(texts))]
    kept = {key_of(how.key(again), prompt, again.max_tokens): Answer(text, dtype="bfloat16") for prompt, text in some}
    Answers(own=how.root / module.FILE).add(kept)


def small(seed=8):
    return Again("small", "small", replace(SETTLED, seed=seed), 64)


def test_the_larger_one_is_trained_at_a_rate_of_its_own():
    larger = from_larger(SETTLED)
    assert replace(larger.settings, learning_rate=3e-3) == SETTLED
    assert from_larger(replace(SETTLED, epochs=2)) == larger
    assert (larger.model, larger.settings.learning_rate, larger.max_tokens) == (MODEL, LARGER_RATE, MAX_TOKENS)
    assert from_larger(SETTLED, "another").model == "another"


def test_a_key_changes_with_all_that_a_planner_comes_from(how):
    """What is left out changes no weights: how often checkpoints are written."""
    again = small()
    others = [
        how.key(again._replace(model="large")),
        how.key(small(seed=9)),
        how.key(again._replace(settings=replace(again.settings, rank=8))),
        replace(how, size=21).key(again),
        replace(how, machine={"quantization": "nf4"}).key(again),
        how.key(from_larger(SETTLED)),
        how.key(again),
    ]
    assert len(set(others)) == len(others)
    assert how.key(again._replace(settings=replace(again.settings, checkpoint_every=1))) == how.key(again)


def test_kept_plans_are_taken_and_missing_ones_are_not_made_up(how, lesson, prompts):  # noqa: F811
    first, second = small(), small(seed=9)
    texts = {prompt: f"default({number})" for number, prompt in enumerate(prompts["prompt"])}
    assert planned(prompts, kinds(lesson), first, how, 2) is None
    keep(how, first, texts)
    found = planned(prompts, kinds(lesson), first, how, 2)
    assert found.plans["text"].tolist() == [texts[prompt] for prompt in found.plans["prompt"]]
    assert set(found.plans["query"]) == set(prompts["query"])
    assert not found.keeper.asked
    assert planned(prompts, kinds(lesson), second, how, 2) is None
    keep(how, second, texts, 0.05)
    assert planned(prompts, kinds(lesson), second, how, prompts["query"].nunique()) is None


def test_a_planner_is_trained_where_the_profile_says_so(how, lesson, prompts, monkeypatch):  # noqa: F811
    trained, asked, unloaded = [], [], []

    class Model:
        fingerprint, dtype = "other", "float32"

        def __init__(self, name, adapter, cache, threads):
            assert (name, adapter, threads) == ("small", "an adapter", 1)

        def generate(self, texts, max_new_tokens, progress=False):
            asked.extend(texts)
            self.finished, self.costs = [True] * len(texts), [Cost()] * len(texts)
            return ["default()"] * len(texts)

        def unload(self):
            unloaded.append(self)

    class Adapter:
        folder = "an adapter"

    def adapter_for(part, name, asked, targets, output, settings, **machine):
        trained.append((part, name, len(asked), output.name, settings.seed, machine))
        return Adapter()

    pairs = pd.DataFrame({"prompt": ["a", "b"], "target": ["c()", "d()"]})
    monkeypatch.setattr(type(lesson), "queries", lambda self, size: size)
    monkeypatch.setattr(type(lesson), "pairs", lambda self, queries: (pairs, {}))
    monkeypatch.setattr(module, "adapter_for", adapter_for)
    monkeypatch.setattr(module, "LocalModel", Model)
    here = replace(how, here=True, machine={"threads": 1})
    again = small()
    found = planned(prompts, kinds(lesson), again, here, 2)
    assert trained == [("", "small", 2, "planner_small", 8, {"progress": False, "processes": 1, "threads": 1})]
    assert len(unloaded) == 1
    assert found.plans["query"].nunique() == 2
    assert set(found.plans["setting"]) == set(SETTINGS)
    assert asked == found.plans["prompt"].tolist()
    again = KeptModel(Answers(own=here.folder / "answers" / module.FILE.name), here.key(again))
    assert all(again.has(found.plans["prompt"], 64)), "what is written is found under the planner's key again"
