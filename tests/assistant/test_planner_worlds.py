"""The planner in the three named worlds, small, with a generator that writes the labels' plan or none."""

import numpy as np
import pandas as pd
import pytest

from lib.assistant.named_worlds import WORLDS
from lib.assistant.plan_comparison import needs_no_argument
from lib.assistant.planner import ALONE_BY_RANKER, BY_RANKER, SETTINGS
from lib.assistant.planner_worlds import (
    BESIDE,
    BY_OURS,
    BY_SEARCH,
    CONTEXT_TUNED,
    OURS,
    PAPERS_STEPS,
    PLANNED,
    TUNED_BY_RANKER,
    judged,
    materials_of,
    published_parts,
    scores_of,
    steps,
    summaries,
    world_prompts,
)
from lib.assistant.tool_worlds import (
    ALONE,
    CONTEXT,
    RANKER_ALONE,
    RANKER_CONTEXT,
    RANKER_TUNED,
    RETRIEVED,
    TUNED,
    simulated,
)
from lib.workbook.inputs import InputError

SIZE = pd.DataFrame({"persona": [f"p{n % 40}" for n in range(160)], "split": ["training"] * 100 + ["evaluation"] * 60})
# the first tool of every query
FIRST = {
    ALONE: "play_song", CONTEXT: "open_note", TUNED: "find_place",
    RANKER_ALONE: "play_album", RANKER_CONTEXT: "read_mail", RANKER_TUNED: "find_reminder",
}  # fmt: skip
ASKED = 24


def rankings_in(worlds):
    """Of every evaluation query: one and the same tool first in each run, and an item of its persona: its first by
    search, its last by LambdaMART."""
    frames = []
    for world, frame in worlds.items():
        asked = frame["queries"].query("split == 'evaluation'")
        items = frame["items"].groupby("persona")["item"].agg(["first", "last"])
        for setting, tool in FIRST.items():
            for rank, name in enumerate((tool, "call_contact"), start=1):
                frames.append(pd.DataFrame({"query": asked["query"], "item": name, "rank": rank, "setting": setting}))
                frames[-1]["world"] = world
        for context, which in ((CONTEXT, "first"), (TUNED, "last")):
            found = {"query": asked["query"], "item": asked["persona"].map(items[which]), "rank": 1}
            frames.append(pd.DataFrame(found).assign(world=world, setting=RETRIEVED[context]))
    return pd.concat(frames, ignore_index=True)


@pytest.fixture(scope="module")
def worlds(data):
    return simulated(data, SIZE, "smoke", 3)


@pytest.fixture(scope="module")
def materials(worlds, rankings):
    return materials_of(worlds, rankings, n_tools=1, n_items=1)


@pytest.fixture(scope="module")
def rankings(worlds):
    return rankings_in(worlds)


def none_kept(prompts):
    return [False] * len(prompts)


@pytest.fixture(scope="module")
def prompts(materials, rankings):
    return world_prompts(materials, rankings, ASKED, 3, none_kept)


@pytest.fixture(scope="module")
def plans(materials, prompts):
    """By a planner that writes the gold plan where a prompt with the right tool would spell it out, but never with
    the tools of `rag`, and `default()` elsewhere."""
    gold = {world: material.gold.set_index("query")["plan"] for world, material in materials.items()}
    spelled = prompts[prompts["setting"] == "upper_bound"].set_index(["world", "query"])["answerable"]
    texts = [
        gold[row.world][row.query]
        if row.setting != "rag" and (row.setting == "context_tuned_upper_bound" or spelled[row.world, row.query])
        else "default()"
        for row in prompts.itertuples()
    ]
    return judged(materials, prompts, texts)


@pytest.fixture(scope="module")
def scored(materials, plans):
    return scores_of(materials, plans, 100, 3)


def test_every_world_asks_the_same_queries_in_every_setting(prompts):
    assert list(prompts["world"].unique()) == list(WORLDS)
    sizes = prompts.groupby(["world", "setting"])["query"].agg(["size", "nunique"])
    assert (sizes == ASKED).all(axis=None)
    assert len(sizes) == 3 * len(PLANNED)
    asked = prompts.groupby(["world", "setting"])["query"].agg(frozenset)
    assert all(len(set(part)) == 1 for _, part in asked.groupby("world"))


def test_rankers_are_asked_on_as_many_queries_as_all_else(materials, rankings):
    """On those whose plans are kept in every setting, if as many as wanted are."""
    asked = materials["hard"].evaluated["query"].tolist()

    def kept(prompts):
        there = prompts["setting"].ne(PLANNED[-1]) | prompts["query"].isin(asked[1:])
        return there.tolist()

    prompts = world_prompts(materials, rankings, 4, 3, kept)
    sizes = prompts.groupby(["world", "setting"]).size()
    assert (sizes.loc["hard"] == len(asked) - 1).all()
    assert set(prompts.loc[prompts["world"] == "hard", "query"]) == set(asked[1:])
    prompts = world_prompts(materials, rankings, len(asked), 3, kept)
    assert (prompts.groupby(["world", "setting"]).size().loc["hard"] == len(asked)).all()


def test_tools_and_items_are_those_of_the_world_and_setting(worlds, prompts):
    tools = prompts.set_index("setting")["tools"]
    assert all(shown == ["play_song", "default"] for shown in tools["rag"])
    assert all(shown == ["open_note", "default"] for shown in tools["context_tuned_rag"])
    assert all(shown == ["read_mail", "default"] for shown in tools[BY_RANKER])
    assert all(shown == ["find_place", "default"] for shown in tools[CONTEXT_TUNED])
    assert all(shown == ["play_album", "default"] for shown in tools[ALONE_BY_RANKER])
    assert all(shown == ["find_reminder", "default"] for shown in tools[TUNED_BY_RANKER])
    without = ["lower_bound", "rag", ALONE_BY_RANKER, "upper_bound"]
    assert prompts.loc[prompts["setting"].isin(without), "items"].isna().all()
    for world, frames in worlds.items():
        owner = frames["items"].set_index("item")["persona"]
        asker = frames["queries"].set_index("query")["persona"]
        here = prompts[prompts["world"] == world].set_index("setting")
        items = frames["items"].groupby("persona")["item"].agg(["first", "last"])
        by_search, tuned = (BY_SEARCH, BY_RANKER), (CONTEXT_TUNED, TUNED_BY_RANKER)
        for setting, which in (dict.fromkeys(by_search, "first") | dict.fromkeys(tuned, "last")).items():
            asked = here.loc[setting]
            assert [owner[shown[0]] for shown in asked["items"]] == asked["query"].map(asker).tolist()
            assert [shown[0] for shown in asked["items"]] == asked["query"].map(asker).map(items[which]).tolist()


def test_no_label_stands_in_a_prompt_but_those_of_the_upper_bounds(worlds, prompts):
    """Other labels, the same prompts."""
    lied = {
        world: frames | {"gold": frames["gold"].assign(apis=[["snooze_reminder"]] * len(frames["gold"]), plan="x()")}
        for world, frames in worlds.items()
    }
    lied = {
        world: frames | {"gold": frames["gold"].assign(relevant=[[]] * len(frames["gold"]))}
        for world, frames in lied.items()
    }
    rankings = rankings_in(worlds)
    again = world_prompts(materials_of(lied, rankings, 1, 1), rankings, ASKED, 3, none_kept)
    upper = prompts["setting"].isin(["upper_bound", "context_tuned_upper_bound"])
    pd.testing.assert_series_equal(again.loc[~upper, "prompt"], prompts.loc[~upper, "prompt"])
    assert (again.loc[upper, "prompt"] != prompts.loc[upper, "prompt"]).mean() > 0.9


def test_a_world_without_rankings_is_refused(worlds):
    rankings = rankings_in(worlds)
    with pytest.raises(InputError, match="run notebook 06"):
        lacking = rankings[rankings["world"] != "hard"]
        world_prompts(materials_of(worlds, lacking, 1, 1), lacking, 4, 3, none_kept)


def test_without_retrieval_hard_gives_nothing_away(materials, prompts, scored):
    """But explicit does: there most requests say their arguments."""
    bare = {world: scores["lower_bound", "ast_accuracy", 1].mean() for world, (scores, _) in scored.items()}
    none_due = needs_no_argument(materials["hard"].gold)[scored["hard"][0].index]
    assert bare["hard"] == pytest.approx(100 * none_due.mean())
    assert bare["hard"] < 20
    assert bare["explicit"] > 70
    spelled = prompts[prompts["setting"] == "upper_bound"].groupby("world")["answerable"].mean()
    assert spelled["hard"] < 20 < 70 < spelled["explicit"]


def test_accuracy_is_the_product_of_its_parts(scored):
    for scores, _ in scored.values():
        means = scores.mean()
        for setting in PLANNED:
            right, tool, arguments = (means[setting, name, 1] for name in ("ast_accuracy", "right_api", "arguments"))
            assert right == pytest.approx(tool * (0 if np.isnan(arguments) else arguments) / 100)
            assert scores[setting, "arguments", 1].notna().sum() == (scores[setting, "right_api", 1] > 0).sum()


def test_summaries_have_an_interval_and_the_published_parts(scored):
    published = pd.DataFrame(
        {"setting": list(SETTINGS), "metric": "ast_accuracy", "value": [43.77, 76.39, 85.24, 91.47, 91.62]}
    )
    table = summaries(scored, published_parts(published)).set_index(["world", "setting", "metric"])
    assert table.loc[("hard", "lower_bound", "right_api"), "published"] == pytest.approx(47.85, abs=0.01)
    assert table.loc[("mixed", "rag", "right_api"), "published"] == pytest.approx(83.51, abs=0.01)
    assert table.loc[("mixed", "context_tuned_rag", "right_api"), "published"] == pytest.approx(93.04, abs=0.01)
    assert table.loc[("hard", "upper_bound", "right_api"), "published"] == 100
    assert table.loc[("hard", "rag", "arguments"), "published"] == 91.47
    assert table.loc[("mixed", CONTEXT_TUNED, "right_api"), "published"] == pytest.approx(93.04, abs=0.01)
    ours = [("hard", setting, "ast_accuracy") for setting in BY_OURS.values()]
    assert table.loc[ours, "published"].isna().all(), "the paper has no such tools"
    row = table.loc[("mixed", "upper_bound", "ast_accuracy")]
    assert row["ci_low"] < row["value"] < row["ci_high"]
    assert row["n"] == ASKED
    best = table.loc[("mixed", "context_tuned_upper_bound", "ast_accuracy")]
    assert best["value"] == best["ci_high"] == 100 > best["ci_low"]


def test_steps_go_from_each_setting_to_the_one_below_it(scored):
    table = steps(scored)
    assert list(table[table["world"] == "hard"][["a", "b"]].itertuples(index=False, name=None)) == [
        *PAPERS_STEPS,
        *BESIDE,
        *OURS,
    ]
    assert [pair for pair in PAPERS_STEPS if BY_SEARCH in pair] == []
    by = table.set_index(["world", "a", "b"]).sort_index()
    context = by.loc[[(world, "context_tuned_upper_bound", "upper_bound") for world in ("hard", "mixed")]]
    assert context["difference"].iloc[0] > 80
    assert context["ci_low"].iloc[0] > 0
    assert context["ci_low"].iloc[1] > 0
    bare = by.loc[("explicit", "rag", "lower_bound")]
    assert bare["ci_high"] < 0, "this planner forgets what it knows at the sight of tools"
    ours = by.loc[("explicit", BY_RANKER, BY_SEARCH)]
    assert ours["difference"] == 0
    assert ours["ci_low"] < 0 < ours["ci_high"]


def test_our_tools_are_compared_with_cosines_beside_the_same_context(scored):
    """This planner knows better wherever it is not shown the tools of `rag`."""
    assert OURS[-1] == (TUNED_BY_RANKER, ALONE_BY_RANKER)
    assert all((PLANNED.index(ours) - PLANNED.index(theirs)) == 1 for theirs, ours in BY_OURS.items())
    assert all((theirs in SETTINGS or theirs == CONTEXT_TUNED) and theirs != ours for ours, theirs in OURS[:-1])
    by = steps(scored).set_index(["world", "a", "b"]).sort_index()
    assert by.loc[("explicit", ALONE_BY_RANKER, "rag"), "difference"] > 50
    assert by.loc[("explicit", ALONE_BY_RANKER, "rag"), "ci_low"] > 0
    assert by.loc[("explicit", TUNED_BY_RANKER, CONTEXT_TUNED), "difference"] == 0
    assert by.loc[("hard", TUNED_BY_RANKER, ALONE_BY_RANKER), "difference"] == 0
    assert len(by) == 3 * (len(PAPERS_STEPS) + len(BESIDE) + len(OURS))
