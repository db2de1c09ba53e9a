"""BM25T: BM25 with a term-specific k1 (Trotman, Puurula and Burgess, 2014, "Improvements to BM25 and Language Models
Examined", section 3.5; after Lv and Zhai, 2012, log-logistic term frequency normalisation)."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import Stemmer
from scipy import sparse

STEMMER = Stemmer.Stemmer("english")
UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff"  # Thai to Han: no blanks between words
WORD = re.compile(rf"[{UNSPACED}]|[^\W_{UNSPACED}]+")


def words_of(text: str) -> list[str]:
    """Lower-case runs of letters and digits, composed (Unicode's NFC); apostrophes join what they stand between. Of
    scripts without blanks between words, each character.

    >>> words_of("Ana's cafe\N{COMBINING ACUTE ACCENT}") == ["anas", "café"]
    True
    """
    return WORD.findall(unicodedata.normalize("NFC", text).lower().replace("'", "").replace("’", ""))


def tokenize(text: str) -> list[str]:
    """Lower-case Snowball (English) stems of the words and numbers in `text`, in order; no word is dropped."""
    return STEMMER.stemWords(words_of(text))


def term_k1(mean_log: np.ndarray) -> np.ndarray:
    """Solve k1·ln(k1)/(k1 − 1) = `mean_log` for each element by Newton's method.

    The left side g rises from 0 (k1 → 0) through its limit 1 at k1 = 1, with g′(k) = (k − 1 − ln k)/(k − 1)² and
    g′(1) = ½, so there is one root for every positive mean. ln 2 gives ½; 1 gives 1.

    Args:
        mean_log: positive values of any shape, the mean of ln(c + 1) over the documents that hold the term.
    """
    target = np.asarray(mean_log, dtype=float)
    if np.any(target <= 0):
        raise ValueError("the mean of ln(c + 1) must be positive")
    # In x = ln k1 the function is smooth and increasing: g = x / (1 − e^−x).
    x = np.log(np.maximum(target, 1e-300))
    for _ in range(100):
        small = np.abs(x) < 1e-4
        safe = np.where(small, 1.0, x)
        decay = -np.expm1(-safe)
        value = np.where(small, 1 + x / 2 + x * x / 12, safe / decay)
        slope = np.where(small, 0.5 + x / 6, (decay - safe * np.exp(-safe)) / decay**2)
        step = (value - target) / slope
        x = x - np.clip(step, -3, 3)
        if np.all(np.abs(step) <= 1e-12 * np.maximum(1, np.abs(x))):
            break
    return np.exp(x)


class BM25T:
    """BM25T over tokenised documents.

    c = tf / (1 − b + b·dl/avgdl); the k1 of each term solves k1·ln(k1)/(k1 − 1) = mean of ln(c + 1) over the documents
    that hold it; idf = ln((N + 1)/df), as `rank_bm25` sketches it for this variant; the score is the usual sum of
    idf·(k1 + 1)·c/(k1 + c), a repeated query term counting each time.

    Args:
        corpus: list of documents, each a list of tokens, or what `tokenizer` makes one of.
        b: length normalisation, 0 to 1.

    Raises:
        ValueError: an empty corpus, or a text where a list of tokens is due.

    >>> BM25T([["guitar", "class"], ["rent", "due"]]).get_scores(["guitar"]).argmax()
    np.int64(0)
    """

    def __init__(self, corpus: Sequence, b: float = 0.75, tokenizer: Callable[..., Sequence[str]] | None = None):
        if len(corpus) == 0:
            raise ValueError("BM25T needs at least one document")
        if not tokenizer and any(isinstance(document, str) for document in corpus):
            raise ValueError("a document is a text, not a list of tokens: give a tokenizer")
        counts = [Counter(tokenizer(document) if tokenizer else document) for document in corpus]
        self._row = {word: row for row, word in enumerate(dict.fromkeys(word for each in counts for word in each))}
        rows = np.fromiter((self._row[word] for each in counts for word in each), dtype=np.int64)
        docs = np.repeat(np.arange(len(counts)), [len(each) for each in counts])
        tf = np.fromiter((number for each in counts for number in each.values()), dtype=float)
        length = np.bincount(docs, weights=tf, minlength=len(counts))
        c = tf / (1 - b + b * (length / (length.sum() / len(counts) or 1))[docs])
        df = np.bincount(rows, minlength=len(self._row))
        # Summed in ascending order, so that the order of documents does not show in the last bit and ties stay ties.
        order = np.lexsort((c, rows))
        total = np.bincount(rows[order], weights=np.log1p(c[order]), minlength=len(self._row))
        k1 = term_k1(total / df) if len(df) else df
        weights = np.log((len(counts) + 1) / df)[rows] * (k1[rows] + 1) * c / (k1[rows] + c)
        # (terms × documents), so that a query is a sum of rows
        self._weights = sparse.csr_array((weights, (rows, docs)), shape=(len(self._row), len(counts)))

    def get_scores(self, query: Sequence[str]) -> np.ndarray:
        """Scores of all documents for a tokenised query: float array of shape (documents,). Raises as above."""
        if isinstance(query, str):
            raise ValueError(f"the query is the text {query!r}, not a list of tokens")
        rows = [self._row[word] for word in query if word in self._row]
        return np.asarray(self._weights[rows].sum(axis=0), dtype=float).reshape(self._weights.shape[1])
