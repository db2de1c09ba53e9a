from types import SimpleNamespace

import pandas as pd
import pytest

from lib.generation.local import Cost
from lib.workflows.pages.beyond_repair import rates_in_words
from lib.workflows.repair_rates import Rates, at_rates, measured_rates, rates_table
from tests.workflows.repair_worlds import ASKING, CATALOGUE, PROMPTS


class Clocked:
    """A model that reads a token in 1 ms and writes one after the first in 10 ms, 15 ms under a grammar; an answer has
    as many tokens as the prompt has letters, and loading is dear."""

    def __init__(self, kept=True):
        self.kept, self.calls = kept, []

    def without_cache(self):
        self.twin = Clocked(kept=False)
        return self.twin

    def generate(self, prompts, max_new_tokens, stop, grammars=None):
        (prompt,) = prompts
        written = min(max_new_tokens, len(prompt))
        loading = 0 if self.calls else 1000
        self.calls.append(SimpleNamespace(prompt=prompt, most=max_new_tokens, held=bool(grammars)))
        seconds = loading + 0.001 * 100 + (0.015 if grammars else 0.01) * (written - 1)
        self.costs = [Cost(100, written, 0.0 if self.kept else seconds)]
        return ["flow"]


def test_rates_are_measured_in_turn_by_a_model_without_kept_answers():
    model = Clocked()
    found = measured_rates(PROMPTS, {"finetuned": model}, CATALOGUE, ASKING, 2)["finetuned"]
    assert not model.calls, "what it has kept would take no time"
    asked = [(call.most, call.held) for call in model.twin.calls]
    assert asked == [(1, False), (16, False), (16, True)] * 3, "the first request is asked twice: it loads"
    assert found.writing == pytest.approx(0.01)
    assert found.held == pytest.approx(0.015)
    assert found.reading == pytest.approx((0.1 - 0.01) / 100)
    assert found.prompts == 2
    assert found.more == pytest.approx((0.5, 0.5, 0.5))


def test_each_test_set_is_timed():
    prompts = PROMPTS.assign(test_set=["test", "unseen", "unseen"])
    assert measured_rates(prompts, {"finetuned": Clocked()}, CATALOGUE, ASKING, 1)["finetuned"].prompts == 2


def test_the_halves_of_a_model_are_timed_together():
    prompts = PROMPTS.assign(model=["in_context-a", "in_context-b", "in_context-b"])
    models = {"in_context-a": Clocked(), "in_context-b": Clocked()}
    found = measured_rates(prompts, models, CATALOGUE, ASKING, 5)
    assert set(found) == {"in_context"}
    assert found["in_context"].prompts == 3


def test_answers_of_one_token_have_a_rate():
    prompts = PROMPTS.head(1).assign(prompt="x")
    found = measured_rates(prompts, {"finetuned": Clocked()}, CATALOGUE, ASKING, 1)["finetuned"]
    assert found.writing == 0
    assert found.reading == pytest.approx(0.001)


def test_seconds_are_tokens_at_rates():
    answers = pd.DataFrame(
        {
            "model": ["finetuned", "finetuned", "in_context", "finetuned"],
            "way": ["free", "catalogue", "second", "sample"],
            "tokens_in": [100, 100, 50, 100],
            "tokens_out": [10, 10, 20, 30],
            "seconds": [9.0] * 4,
        }
    )
    rates = {
        "finetuned": Rates(0.001, 0.01, 0.02, 5, (1, 0.9, 1.1)),
        "in_context": Rates(0.002, 0.05, 0.06, 5, (0.2, 0.1, 0.3)),
    }
    assert at_rates(answers, rates)["seconds"].tolist() == pytest.approx([0.2, 0.3, 1.1, 0.4])
    assert answers["seconds"].tolist() == [9.0] * 4
    assert rates_table(rates).iloc[0].tolist() == pytest.approx(["finetuned", 1, 10, 20, 5, 100, 90, 110])
    said = rates_in_words(rates)
    assert (
        "the fine-tuned model reads a token in 1.0 ms and writes one in 10.0 ms, which the grammar changes by 100.0"
        in said
    )
