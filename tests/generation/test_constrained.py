"""Constrained decoding with a tiny random Llama: every answer is what the grammar says, and the likeliest such one."""

import functools

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from lib.generation.decoding import Constraint, Grammar, GrammarError, vocabulary
from lib.generation.local import LocalModel

WORDS = 'start: word (" " word){0,3}\nword: "fox" | "dog" | "guitar" | "é"'
NUMBER = "start: /[0-9]{2,5}/"
LOOP = "start: /[a-z ]{500,}/"
PROMPTS = ["the fox", "a lazy dog plays guitar every evening and then", "music", "zebra, 42!", "jumps over"]
END = 1


@pytest.fixture(scope="module")
def tokenizer(tiny):
    return AutoTokenizer.from_pretrained(tiny)


@pytest.fixture(scope="module")
def tokens(tokenizer):
    return vocabulary(tokenizer, len(tokenizer), [END])


@pytest.fixture(scope="module")
def reference(tiny, tokenizer, tokens):
    """Greedy answers, one prompt at a time, each token of the vocabulary tried by itself."""
    model = AutoModelForCausalLM.from_pretrained(tiny, dtype=torch.float32).eval()

    @functools.cache
    def answer(prompt, grammar, max_new_tokens=24):
        matcher = Grammar(grammar, tokens).matcher()
        ids = tokenizer(prompt)["input_ids"]
        output = []
        while len(output) < max_new_tokens and not matcher.is_stopped():
            with torch.inference_mode():
                logits = model(torch.tensor([ids + output])).logits[0, -1]
            likeliest = logits.argsort(descending=True).tolist()
            token = next(i for i in matcher.compute_ff_tokens() or likeliest if matcher.validate_tokens([i]))
            if token == END:
                break
            output.append(token)
            matcher.consume_token(token)
        return tokenizer.decode(output, skip_special_tokens=True)

    return answer


def test_a_grammar_accepts_whole_texts_only(tokens):
    grammar = Grammar(WORDS, tokens)
    assert grammar.accepts("fox é dog")
    for text in ("", "fo", "fox ", "fox dog fox dog fox", "fox cat", "</s>", "fox</s>"):
        assert not grammar.accepts(text)


@pytest.mark.parametrize("text", ["start: word", "start: /(/"])
def test_a_text_that_is_no_grammar_is_refused(tokens, text):
    with pytest.raises(GrammarError):
        Grammar(text, tokens)


def test_the_end_is_allowed_where_the_text_is_complete(tokens, tokenizer):
    constraint = Constraint([Grammar('start: "a" "b"?', tokens), None, Grammar('start: "b"', tokens)], threads=1)

    def allowed(rows):
        masked = constraint(torch.zeros(len(rows), len(tokenizer)), rows)
        return [[tokenizer.decode([i]) for i in torch.nonzero(row == 0)[:, 0]] for row in masked]

    first, free, finished = allowed([0, 1, None])
    assert (first, len(free), len(finished)) == (["a"], len(tokenizer), len(tokenizer))
    ids = [tokenizer.convert_tokens_to_ids(token) for token in "ab"]
    assert not constraint.advance(0, ids[0])
    assert not constraint.advance(1, ids[0])
    assert allowed([2, 0]) == [["b"], ["</s>", "b"]]
    assert constraint.advance(0, ids[1])
    with pytest.raises(GrammarError):
        constraint.advance(2, ids[0])


@pytest.mark.parametrize("batch_size", [1, 3])
def test_answers_are_the_likeliest_that_the_grammar_allows(tiny, reference, batch_size):
    model = LocalModel(tiny, dtype="float32", threads=1)
    model.batch_size = batch_size
    for grammar in (WORDS, NUMBER, LOOP):
        assert model.generate(PROMPTS, max_new_tokens=24, grammars=grammar) == [reference(p, grammar) for p in PROMPTS]
        assert model.finished == [grammar != LOOP] * len(PROMPTS)
