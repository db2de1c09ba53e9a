"""Which evaluation queries are planned: all whose plans are kept, where they are more than would be asked."""

import pandas as pd
import pytest

from lib.assistant.kept_plans import kept_plans, prompts_asked
from lib.assistant.planner_worlds import PLANNED, materials_of, world_prompts
from lib.assistant.tool_worlds import simulated
from lib.generation.kept import Kept, key_of
from lib.workbook.artifacts import ROOT
from lib.workbook.parameters.planner import PlannerTuning
from lib.workbook.parts import FOLDER, NONE, Shipped
from tests.assistant.test_planner_worlds import SIZE, rankings_in

SETTINGS = ("rag", "upper_bound")


@pytest.fixture(scope="module")
def worlds(data):
    return simulated(data, SIZE, "smoke", 3)


@pytest.fixture(scope="module")
def materials(worlds):
    return materials_of(worlds, rankings_in(worlds), n_tools=1, n_items=1)


@pytest.fixture
def material(materials):
    return materials["mixed"]


def keeping(prompts):
    return Kept("w", 9, {key_of("w", 9, prompt): ("default()", "float32") for prompt in prompts})


def test_queries_that_are_kept_whole_are_asked(material):
    """All but one of the world's: nearly all, so that they may stand for it."""
    asked = material.queries[material.queries["split"] == "evaluation"]
    everyone = material.prompted(asked, SETTINGS)
    lacking = everyone[everyone["setting"] == "upper_bound"].drop_duplicates("prompt", keep=False).iloc[0]
    kept = keeping(everyone["prompt"].drop(lacking.name))
    found = prompts_asked(material, SETTINGS, kept, 2, len(asked), seed=3)
    assert len(asked) >= 20, "or one is more than a twentieth"
    assert set(asked["query"]) - set(found["query"]) == {lacking["query"]}
    assert len(set(found.groupby("setting")["query"].agg(frozenset))) == 1
    some = found.set_index(["query", "setting"])["prompt"]
    pd.testing.assert_series_equal(some, everyone.set_index(["query", "setting"])["prompt"].loc[some.index])


@pytest.mark.parametrize("share", [0.3, 0.9])
def test_what_a_change_left_alone_is_not_enough(material, share):
    asked = material.queries[material.queries["split"] == "evaluation"]
    kept = keeping(material.prompted(asked.head(int(share * len(asked))), SETTINGS)["prompt"])
    fresh = prompts_asked(material, SETTINGS, Kept("", 9, {}), 4, len(asked), seed=3)
    found = prompts_asked(material, SETTINGS, kept, 4, len(asked), seed=3)
    pd.testing.assert_frame_equal(found, fresh)
    assert fresh["query"].nunique() == 4


def test_each_world_has_its_own(worlds, materials):
    mixed = materials["mixed"]
    asked = mixed.queries[mixed.queries["split"] == "evaluation"]
    kept = keeping(mixed.prompted(asked, PLANNED)["prompt"])
    counts = world_prompts(materials, rankings_in(worlds), 4, 3, kept).groupby("world")["query"].nunique()
    assert counts["mixed"] == len(asked)
    assert counts.drop("mixed").eq(4).all()


def test_a_profile_that_asks_as_many_reads_none():
    shipped = Shipped(ROOT / FOLDER / "planner-4338", {}, "")
    parameters = PlannerTuning(profile="full", planner_queries=936)
    assert not kept_plans(parameters, shipped, ROOT).answers


def test_without_a_shipped_planner_nothing_is_looked_for():
    kept = kept_plans(PlannerTuning(profile="quick"), NONE, ROOT)
    assert (kept.weights, kept.answers) == ("", {})


def test_the_projects_plans_are_the_shipped_planners():
    """A prompt of Table 3 without retrieval, which no processor changes."""
    kept = kept_plans(PlannerTuning(profile="quick"), Shipped(ROOT / FOLDER / "planner-4338", {}, ""), ROOT)
    asked = "Request (Monday 2024-01-01 19:07, home): Where was I?\nPlan:\n"
    assert kept.found([asked, f"{asked} "]) == [('play_voicemail(contact="Rafael Vargas")', "bfloat16"), None]
    assert len(kept.answers) > 30_000
