"""A small world for methods that are trained on a tiny encoder."""

import numpy as np
import pandas as pd

from lib.assistant.interaction_training import CROSS, LATE, Lesson
from lib.retrieval.dense import encode, load_encoder
from lib.retrieval.interaction import Interaction
from lib.retrieval.stores import candidate_pairs, cosine_of_pairs, rank_pairs
from tests.retrieval.conftest import WORDS

PERSONAS, ITEMS, TRAINING = 8, 6, 5
SMALL = {CROSS: Interaction(kind="cross", rank=2, batch_size=4), LATE: Interaction(kind="late", rank=2, batch_size=4)}


def make_world(tiny):
    """Two queries a persona about one of four needs; the first five personas are of training."""
    rng = np.random.default_rng(5)
    rows = [
        (f"p{p}-i{i}", f"p{p}", " ".join(rng.permutation(WORDS)[:3])) for p in range(PERSONAS) for i in range(ITEMS)
    ]
    items = pd.DataFrame(rows, columns=["item", "persona", "text"])
    asked = [
        (f"p{p}-q{n}", f"p{p}", "training" if p < TRAINING else "evaluation", " ".join(rng.permutation(WORDS)[:2]))
        for p in range(PERSONAS)
        for n in range(2)
    ]
    queries = pd.DataFrame(asked, columns=["query", "persona", "split", "text"])
    gold = pd.DataFrame(
        {
            "query": queries["query"],
            "need": [f"need {n % 4}" for n in range(len(queries))],
            "relevant": [[f"{persona}-i{n % 3}"] for n, persona in enumerate(queries["persona"])],
        }
    )
    encoder = load_encoder(tiny)
    vectors = {
        name: encode(encoder, frame["text"].tolist()) for name, frame in (("queries", queries), ("items", items))
    }
    return queries, items, gold, vectors


def lesson_of(world, **changed):
    queries, items, gold, vectors = world
    return Lesson.of_world(
        changed.get("queries", queries), changed.get("items", items), changed.get("gold", gold), vectors, 4, 7
    )


def first_of(world):
    queries, items, _, vectors = world
    pairs = candidate_pairs(queries, items, on="persona")
    return rank_pairs(pairs, cosine_of_pairs(pairs, vectors["queries"], vectors["items"]))
