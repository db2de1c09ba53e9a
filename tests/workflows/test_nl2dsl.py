import pandas as pd
import pytest

from lib.generation.decoding import stop_tokens
from lib.generation.local import load_tokenizer
from lib.generation.models import ModelError, locate
from lib.workflows.metaprompt import flow_of
from lib.workflows.nl2dsl import END, prompt, sample, target

FLOW = "triggerOutputs = await a.New();\nb.Post();"


def test_prompt_and_target_put_the_markers_around_the_flow():
    assert prompt(" When it\nrains ") + target(FLOW) == f"When it rains\n<START>\n{FLOW}\n<END>"
    assert flow_of(target(FLOW)) == FLOW


def test_the_markers_are_text_that_ends_an_answer():
    """With SmolLM2's tokenizer; skipped where the model cannot be fetched."""
    try:
        tokenizer, _ = load_tokenizer(locate("SmolLM2-135M-Instruct"))
    except ModelError as error:
        pytest.skip(str(error))

    class Model:
        generation_config = None

    assert stop_tokens(Model(), tokenizer, [END])[1] == [END]
    apart = [tokenizer(text)["input_ids"] for text in (prompt("When it rains"), target(FLOW))]
    assert apart[0] + apart[1] == tokenizer(prompt("When it rains") + target(FLOW))["input_ids"]


def test_samples_nest_and_stay_in_their_split():
    splits = ["training", "test"] * 50
    pairs = pd.DataFrame({"pair": [f"p{i}" for i in range(100)], "split": splits}, index=range(1000, 1100))
    whole = sample(pairs, "test", 50, seed=7)
    assert set(whole["split"]) == {"test"}
    assert sorted(whole["pair"]) == sorted(pairs.loc[pairs["split"] == "test", "pair"])
    for n in (1, 12, 30):
        assert sample(pairs, "test", n, seed=7)["pair"].tolist() == whole["pair"].tolist()[:n]
    assert len(sample(pairs, "test", 60, seed=7)) == 50
    orders = {tuple(sample(pairs, "test", 50, seed=seed)["pair"]) for seed in range(3)}
    assert len(orders) == 3
    assert len(sample(pairs, "unseen", 5, seed=7)) == 0
