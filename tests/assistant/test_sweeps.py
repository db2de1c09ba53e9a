import numpy as np
import pandas as pd
import pytest

from lib.assistant.sweeps import (
    COMPARED,
    DIFFERENCES,
    HABIT_KNOBS,
    SIGNAL_DIFFERENCES,
    SIGNAL_KNOBS,
    SIGNALS_COMPARED,
    SWEEPS,
    Sweep,
)

SWEEP = Sweep("smoke", seed=3, personas=20)


def test_the_default_world_stands_in_every_panel_and_is_made_once():
    defaults = [key for key, changes in SWEEP.settings.items() if not changes]
    assert [knob for knob, _ in defaults] == list(SWEEPS)
    assert all(level == getattr(SWEEP.base, knob) for knob, level in defaults)
    assert len(SWEEP.changes) == sum(map(len, SWEEPS.values())) - len(defaults) + 1
    assert len(SWEEP.knobs) == len(SWEEP.changes)
    assert {knobs.n_personas for knobs in SWEEP.knobs} == {20}


def test_habit_and_either_queries_share_what_meaning_leaves():
    assert SWEEP.settings["meaning_share", 0.0] == {"meaning_share": 0.0, "habit_share": 0.5}
    assert SWEEP.settings["hour_noise", 6.0] == {"hour_noise": 6.0}


def test_signals_are_read_in_their_knobs_worlds_and_the_default_one():
    assert tuple(SWEEPS) == HABIT_KNOBS + SIGNAL_KNOBS
    read = [changes for changes, wanted in zip(SWEEP.changes, SWEEP.reads_signals, strict=True) if wanted]
    turned = [{knob: level} for knob in SIGNAL_KNOBS for level in SWEEPS[knob] if level != getattr(SWEEP.base, knob)]
    assert sorted(map(str, read)) == sorted(map(str, [{}, *turned]))


def test_each_setting_is_summarised_from_its_own_world():
    queries = pd.DataFrame({"query": ["p", "q"], "persona": ["a", "b"]})
    world = {"queries": queries, "gold": pd.DataFrame({"query": ["q", "p"], "need": ["walk", "bake"]})}
    scores = [
        pd.DataFrame(
            {
                (method, "recall", 3): np.array([0.0, number]) + shift
                for shift, method in enumerate(("bm25t", *COMPARED, *(SIGNALS_COMPARED if wanted else ())))
            },
            index=queries["query"],
        )
        for number, wanted in enumerate(SWEEP.reads_signals)
    ]
    swept = SWEEP.summarise([world] * len(scores), scores, 3)
    assert list(swept) == ["knob", "level", "method", "recall@3", "ci_low", "ci_high", "n"]
    shown = {knob: {*COMPARED, *(" − ".join(pair) for pair in DIFFERENCES)} for knob in SWEEPS}
    for knob in SIGNAL_KNOBS:
        shown[knob] |= {*SIGNALS_COMPARED, *(" − ".join(pair) for pair in SIGNAL_DIFFERENCES)}
    for (knob, _), part in swept.groupby(["knob", "level"]):
        assert sorted(part["method"]) == sorted(shown[knob])
    values = swept.set_index(["knob", "level", "method"])["recall@3"]
    for (knob, level), changes in SWEEP.settings.items():
        assert values[knob, level, "semantic"] == SWEEP.changes.index(changes) / 2 + 1
        assert values[knob, level, "lambdamart_rrf − semantic"] == pytest.approx(3)
        assert values[knob, level, "lambdamart_rrf − lambdamart"] == pytest.approx(1)
    assert (swept["n"] == 2).all()
    assert (swept["ci_low"] <= swept["recall@3"] + 1e-9).all()
