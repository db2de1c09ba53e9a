"""BM25T against its formulas."""

import math
from collections import Counter
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.retrieval.bm25 import BM25T, term_k1, tokenize


def solve_k1(mean_log: float) -> float:
    """k1·ln(k1)/(k1 − 1) = mean_log by bisection in ln(k1)."""
    low, high = -60.0, 60.0
    for _ in range(200):
        middle = (low + high) / 2
        value = 1.0 if middle == 0 else middle / -math.expm1(-middle)
        low, high = (middle, high) if value < mean_log else (low, middle)
    return math.exp((low + high) / 2)


def slow_scores(corpus, query, b=0.75) -> list[float]:
    """BM25T, formula by formula."""
    average = sum(len(document) for document in corpus) / len(corpus)
    counts = [Counter(document) for document in corpus]

    def normalised(word, i):
        return counts[i][word] / (1 - b + b * len(corpus[i]) / average)

    scores = [0.0] * len(corpus)
    for word in query:
        holders = [i for i, count in enumerate(counts) if word in count]
        if not holders:
            continue
        idf = math.log((len(corpus) + 1) / len(holders))
        k1 = solve_k1(sum(math.log(normalised(word, i) + 1) for i in holders) / len(holders))
        for i in holders:
            c = normalised(word, i)
            scores[i] += idf * (k1 + 1) * c / (k1 + c)
    return scores


def test_k1_solves_its_equation_over_a_wide_range():
    near_one = [1 + sign * 10.0**-power for power in range(2, 13) for sign in (-1, 1)]
    targets = np.concatenate([np.geomspace(1e-6, 50, 600), near_one])
    with localcontext() as context:
        context.prec = 50
        for target, k1 in zip(targets.tolist(), term_k1(targets).tolist(), strict=True):
            k = Decimal(k1)
            left = k * k.ln() / (k - 1) if k != 1 else Decimal(1)
            assert abs(float(left / Decimal(target)) - 1) < 1e-12


@settings(deadline=None, derandomize=True, database=None, max_examples=150)
@given(
    st.lists(st.lists(st.sampled_from("abcd"), max_size=6), min_size=1, max_size=6),
    st.lists(st.sampled_from("abcde"), max_size=5),
    st.sampled_from([0.0, 0.4, 0.75, 1.0]),
)
def test_agreement_with_the_formulas(corpus, query, b):
    expected = slow_scores(corpus, query, b) if any(corpus) else [0.0] * len(corpus)
    assert BM25T(corpus, b=b).get_scores(query) == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_an_empty_corpus_and_texts_in_place_of_tokens_are_refused():
    for corpus in ([], ["windy day", "calm night"]):
        with pytest.raises(ValueError, match="document"):
            BM25T(corpus)
    with pytest.raises(ValueError, match="text 'windy'"):
        BM25T([["windy"]]).get_scores("windy")


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Guitar LESSONS at 5:30pm", ["guitar", "lesson", "at", "5", "30pm"]),
        ("don't can’t", ["dont", "cant"]),
        ("the the and", ["the", "the", "and"]),
        ("e-mail, running; runs!", ["e", "mail", "run", "run"]),
        (" …!? ", []),
        ("東京の会議 room7", ["東", "京", "の", "会", "議", "room7"]),
    ],
)
def test_tokenize(text, tokens):
    assert tokenize(text) == tokens


def test_texts_are_searched_by_a_tokenizer_of_ones_own():
    scores = BM25T(["windy in london", "hello there"], tokenizer=lambda text: text.split()).get_scores(["windy"])
    assert scores.argmax() == 0 < scores[0]
