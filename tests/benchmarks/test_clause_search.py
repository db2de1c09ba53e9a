"""What cutting a request and searching for each clause adds to one search over 16,000 operations: compare the rows."""

import numpy as np
import pytest

from lib.workbook.parameters.worlds import FlowKnobs
from lib.workflows.catalogue import Catalogue
from lib.workflows.catalogue_size import percentiles, time_searches
from lib.workflows.clauses import cut_by_rules, learn_cutter
from lib.workflows.generating import generate
from lib.workflows.pair_checks import read_values

OPERATIONS = 16_000  # about as many as public connectors have

REQUESTS, DEFINITIONS = 60, 12


@pytest.fixture(scope="module")
def pairs():
    knobs = FlowKnobs(n_training_pairs=600, n_test_pairs=REQUESTS, n_test_same_pairs=0, n_unseen_pairs=0, seed=7)
    return generate(Catalogue.load("data/catalogue"), read_values("data/values.yaml"), knobs)


@pytest.fixture(scope="module")
def embed():
    """The pretrained encoder; skipped where it cannot be fetched."""
    from functools import partial

    from lib.generation.models import ModelError, locate
    from lib.retrieval.dense import encode, load_encoder

    try:
        return partial(encode, load_encoder(locate("all-MiniLM-L6-v2")))
    except ModelError as error:
        pytest.skip(str(error))


@pytest.mark.benchmark(group="16,000 operations searched")
@pytest.mark.parametrize("way", ["whole request", "clauses by rules", "clauses by the learned cutter"])
def test_search(pairs, embed, benchmark, rate, way):
    training = pairs[pairs["split"] == "training"]
    learned = learn_cutter(training["request"].tolist(), training["clauses"].tolist(), 7)
    cut = {
        "whole request": lambda text: [(0, len(text))],
        "clauses by rules": cut_by_rules,
        "clauses by the learned cutter": learned.cut,
    }[way]
    vectors = np.random.default_rng(0).normal(size=(OPERATIONS, embed(["x"]).shape[1])).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    names = [f"a.{i}" for i in range(OPERATIONS)]
    asked = pairs.loc[pairs["split"] == "test", "request"].tolist()
    times = benchmark.pedantic(
        lambda: time_searches(asked, cut, embed, vectors, names, DEFINITIONS, 0.5), rounds=3, warmup_rounds=1
    )
    print(f"\n{way}\n{percentiles(times).to_string(index=False, float_format='%.1f')}")
    rate(way, len(asked), "requests")
