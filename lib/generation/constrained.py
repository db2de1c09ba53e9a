"""Constrained decoding: a grammar says which tokens may come next.

Grammars are Lark text in llguidance's dialect. llguidance follows a text byte by byte, so that a token may begin or end
anywhere within a terminal. Where a grammar leaves one way to go on, it only allows the tokenizer's own tokens for that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import torch
from llguidance import LLExecutor, LLMatcher, LLTokenizer
from llguidance.hf import from_tokenizer
from llguidance.numpy import allocate_token_bitmask, fill_next_token_bitmask_par


class GrammarError(ValueError):
    """A grammar that cannot be compiled or followed."""


def vocabulary(tokenizer, size: int, ends: Iterable[int]) -> LLTokenizer:
    """A fast `transformers` tokenizer as llguidance wants it, which takes about a second; `size` is of the model's
    output, `ends` are the tokens that end an answer: masks have them where the grammar is complete, and only there."""
    return from_tokenizer(tokenizer, n_vocab=size, eos_token=sorted(ends))


class Grammar:
    """A grammar compiled for a vocabulary. Raises GrammarError where the text is none; says the place."""

    def __init__(self, text: str, tokens: LLTokenizer):
        self.tokens = tokens
        self._start = LLMatcher(tokens, text, log_level=0)
        raise_fault(self._start)

    def matcher(self) -> LLMatcher:
        """A matcher at the beginning of a text."""
        return self._start.deep_copy()

    def accepts(self, text: str) -> bool:
        """Whether a text is complete under the grammar."""
        # not the tokenizer's own way, which takes the name of a special token for the token
        ids, matcher = self.tokens.greedy_tokenize(text), self.matcher()
        return matcher.try_consume_tokens(ids) == len(ids) and matcher.is_accepting()


def raise_fault(matcher: LLMatcher) -> None:
    """Matchers never raise: they keep their error and go on."""
    if matcher.is_error():
        raise GrammarError(f"a grammar that cannot be followed: {matcher.get_error().strip()}")


class Constraint:
    """What each row of a batch may say next; without a grammar it may say anything. `threads` compute masks."""

    def __init__(self, grammars: Sequence[Grammar | None], threads: int):
        self.matchers = [grammar.matcher() if grammar else None for grammar in grammars]
        self.executor = LLExecutor(num_threads=threads)

    def __call__(self, logits: torch.Tensor, rows: Sequence[int | None]) -> torch.Tensor:
        """Logits (rows, vocabulary) with -infinity at the tokens that may not come next; `rows` are the rows of the
        batch that they continue, None for finished ones. Raises GrammarError for a grammar too ambiguous to follow."""
        bits = allocate_token_bitmask(*logits.shape)  # all tokens allowed
        under = [(self.matchers[row], i) for i, row in enumerate(rows) if row is not None]
        if wanted := [(matcher, i) for matcher, i in under if matcher]:
            fill_next_token_bitmask_par(self.executor, wanted, bits)
        for matcher, _ in wanted:
            raise_fault(matcher)
        allowed = np.unpackbits(bits.view(np.uint8), axis=1, count=logits.shape[1], bitorder="little").view(bool)
        return logits.masked_fill(~torch.from_numpy(allowed).to(logits.device), float("-inf"))

    def advance(self, row: int, token: int) -> bool:
        """Note the token that a row went on with; returns whether its text is complete and nothing can follow."""
        if not (matcher := self.matchers[row]):
            return False
        matcher.consume_token(token)
        raise_fault(matcher)
        return matcher.is_stopped()
