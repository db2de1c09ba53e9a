"""How many wrong flows are caught when they run, and what a comparison takes."""

import pytest

from lib.workbook.parameters.worlds import FlowKnobs
from lib.workflows.catalogue import Catalogue
from lib.workflows.execution import executed_alike, never_made
from lib.workflows.generating import generate
from lib.workflows.language import parse, print_flow
from lib.workflows.mutants import drawn
from lib.workflows.pair_checks import read_values

MUTANTS = 10_000


@pytest.fixture(scope="module")
def flows():
    catalogue = Catalogue.load("data/catalogue")
    knobs = FlowKnobs(n_training_pairs=100, n_test_pairs=2_000, n_test_same_pairs=1_000, n_unseen_pairs=500, seed=7)
    pairs = generate(catalogue, read_values("data/values.yaml"), knobs)
    flows = [(parse(dsl), said) for dsl, said in zip(pairs["dsl"], pairs["said"], strict=True)]
    whole = [(flow, said) for flow, said in flows if not never_made(flow)]
    print(f"{len(flows) - len(whole):,} of {len(flows):,} flows have a call that is never made, and are left out")
    return whole


def test_mutants_are_caught(flows, benchmark):
    made = [(wrong, flow, said) for _, wrong, flow, said in drawn(flows, MUTANTS, 7)]
    assert len(made) == MUTANTS
    missed = benchmark.pedantic(
        lambda: [print_flow(wrong) for wrong, flow, said in made if executed_alike(wrong, flow, said)], rounds=1
    )
    print(f"{MUTANTS - len(missed):,} of {MUTANTS:,} mutants caught")
    assert not missed, missed[:3]
