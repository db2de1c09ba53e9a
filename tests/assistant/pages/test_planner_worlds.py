"""Notebook 07's part on the three named worlds: what figure, tables and sentences say of numbers that are given."""

import numpy as np
import pandas as pd
import pytest

from lib.assistant.pages import planner_worlds as page
from lib.assistant.plan_comparison import MEASURES
from lib.assistant.planner import METRICS
from lib.assistant.planner_worlds import (
    PLANNED,
    published_parts,
    scores_of,
    steps,
    summaries,
)

N = 200
NAMES = [f"q{n:03}" for n in range(N)]
PUBLISHED = pd.DataFrame(
    [
        (setting, "ast_accuracy", value)
        for setting, value in {
            "lower_bound": 43.77,
            "rag": 76.39,
            "context_tuned_rag": 85.24,
            "upper_bound": 91.47,
            "context_tuned_upper_bound": 91.62,
        }.items()
    ],
    columns=["setting", "metric", "value"],
)
AS_PUBLISHED = dict(zip(PLANNED, (44, 76, 76, 80, 80, 85, 70, 91, 91), strict=True))
HARD = dict(zip(PLANNED, (4, 5, 5, 20, 30, 30, 45, 6, 90), strict=True))


class World:
    """Just what `scores_of` reads of a material."""

    queries = pd.DataFrame({"query": NAMES, "persona": [f"p{n % 50}" for n in range(N)]})
    gold = pd.DataFrame({"query": NAMES, "need": [f"n{n % 20}" for n in range(N)]})


def found_in(spelled=90.0, **levels):
    """Worlds in which so many percent of the plans are right, spread evenly; ten points more have the right tool."""
    frames, order = [], np.random.default_rng(0).permutation(N)
    for world, level in levels.items():
        for setting, percent in level.items():
            right = 100.0 * (order < N * percent / 100)
            columns = dict.fromkeys(MEASURES, right) | {"right_api": 100.0 * (order < N * (percent + 10) / 100)}
            columns |= {"executed": 100.0 * (order < N * (percent + 2) / 100), "answerable": spelled}
            frames.append(pd.DataFrame({"query": NAMES, "setting": setting, "world": world} | columns))
    scored = scores_of(dict.fromkeys(levels, World()), pd.concat(frames, ignore_index=True), 100, 1)
    return page.WorldsFound(summaries(scored, published_parts(PUBLISHED)), steps(scored))


@pytest.fixture
def found():
    return found_in(explicit=AS_PUBLISHED, hard=HARD)


def test_the_written_table_has_a_row_for_each_number(found):
    rows = page.in_rows(found.summary)
    assert list(rows) == [
        "world",
        "setting",
        "metric",
        "value",
        "ci_low",
        "ci_high",
        "n_topics",
        "n",
        "over_queries",
        "published",
    ]
    assert len(rows) == 2 * len(PLANNED) * len(MEASURES)
    assert {*METRICS, "executed", "p_tool", "p_arguments"} < set(rows["metric"])
    by = rows.set_index(["world", "setting", "metric"])
    assert by.loc[("explicit", "rag", "p_tool"), "value"] == 86
    assert by.loc[("explicit", "rag", "p_tool"), "published"] == pytest.approx(83.5, abs=0.1)
    cell = by.loc[("explicit", "rag", "p_arguments")]
    assert cell["over_queries"] == pytest.approx(100 * 76 / 86)
    assert cell["n"] == 172
    assert cell["ci_low"] < cell["value"] < cell["ci_high"]

    # In `hard` the plans are settled to be better with our tools, in `explicit` to be worse.
