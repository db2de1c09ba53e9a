"""Controls of LambdaMART in a small simulated world, with counts of letters in the encoder's place."""

import numpy as np
import pytest

from lib.assistant.controls import REFERENCES
from lib.assistant.pages.tool_worlds import controls_in_rows, controls_in_words, controls_table
from lib.assistant.ranking_task import Learning
from lib.assistant.world import frames
from lib.assistant.world_controls import controls_in

SIZE = {"n_personas": 60, "n_training_queries": 330, "n_evaluation_queries": 90}


def letters(texts):
    counts = np.array([[text.lower().count(letter) for letter in "abcdefghijklmnopqrstuvwxyz"] for text in texts])
    return (counts / np.linalg.norm(counts, axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture(scope="module")
def found(make_world):
    worlds = {name: frames(make_world(seed=3, world=name, **SIZE)) for name in ("explicit", "hard")}
    return {
        name: controls_in(
            world, {part: letters(world[part]["text"]) for part in ("items", "queries")}, Learning([3], 3, 2), 2
        )
        for name, world in worlds.items()
    }


@pytest.mark.parametrize("name", ["explicit", "hard"])
def test_a_cut_link_costs_what_it_brought(found, name):
    rows = found[name][found[name]["queries"] == "all"].set_index("control")
    assert list(rows.index) == list(REFERENCES)
    assert (rows["n"] == SIZE["n_evaluation_queries"]).all()
    assert (rows.loc["labels permuted", "recall"] < rows["lambdamart"] - 20).all()
    assert rows["difference"].abs().max() < 15


def test_where_habits_decide_a_cut_log_costs_most(found):
    """The encoder knows letters alone; in `explicit` nearly no query is left to habit."""
    rows = found["hard"].set_index(["control", "queries"])
    for name in ("logs permuted", "moments shuffled"):
        assert rows.loc[(name, "habit"), "recall"] < rows.loc[(name, "habit"), "lambdamart"] - 20


def test_the_page_shows_every_world(found):
    rows = controls_in_rows(found)
    assert rows["world"].drop_duplicates().tolist() == ["explicit", "hard"]
    table = controls_table(found).frame
    assert len(table) == len(rows)
    assert set(table["within 4 points"]) <= {"holds", "not shown"}
    held = [(part.loc[part["queries"] == "all", "holds"].sum(), part["control"].nunique()) for part in found.values()]
    (explicit, n), (hard, _) = held
    text = controls_in_words(found)
    assert text.startswith(f"Controls that hold on all queries: explicit: {explicit} of {n}, hard: {hard} of {n}.")
