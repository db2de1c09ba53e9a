"""How long each of the named worlds takes at the paper's size, 791 personas and 5,274 queries; no time is asserted.

A world should take less than 60 seconds. They are the processor's, which is what one thread takes where nothing else
runs: other work does not count.
"""

import time

import pytest

from lib.assistant.named_worlds import WORLDS
from lib.assistant.world import frames, simulate
from lib.workbook.artifacts import ROOT
from lib.workbook.parameters.worlds import WorldKnobs


@pytest.mark.benchmark(group="named worlds at the paper's size", timer=time.process_time)
@pytest.mark.parametrize("name", WORLDS)
def test_simulate(benchmark, rate, name):
    knobs = WorldKnobs(profile="benchmark", world=name, seed=7)
    world = benchmark.pedantic(simulate, args=(ROOT / "data", knobs), rounds=1)
    tables = frames(world)
    assert tables["items"]["persona"].nunique() == 791
    assert tables["queries"]["split"].value_counts().to_dict() == {"training": 4338, "evaluation": 936}
    rate(name, len(tables["queries"]), "queries")
