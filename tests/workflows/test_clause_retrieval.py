import numpy as np
import pandas as pd
import pytest

from lib.workflows.clause_retrieval import (
    ALIKE,
    SETS,
    Asked,
    Weights,
    ask,
    choose_definition_weight,
    choose_shot_weights,
    chosen_shots,
    chosen_weights,
    clause_definitions,
    definition_scores,
    shot_scores,
)
from lib.workflows.definitions import semantic_definitions
from lib.workflows.target_similarity import nearest_shots

NAMES = ["a.1", "a.2", "b.1", "b.2"]
TEXTS = np.array([[1, 0], [0.98, 0.2], [0.1, 0.995], [0.3, 0.954]], np.float32)
# The whole request lies near the a's; its second clause is about b.
ASKED = Asked(np.array([[0.95, 0.31]], np.float32), np.array([[1, 0], [0, 1]], np.float32), np.array([2]))


def test_each_clause_brings_its_nearest_api_in_turn():
    assert clause_definitions(ASKED, TEXTS, NAMES, 2, 0.0) == [["a.1", "b.1"]]
    assert clause_definitions(ASKED, TEXTS, NAMES, 4, 0.0) == [["a.1", "b.1", "a.2", "b.2"]]
    assert len(clause_definitions(ASKED, TEXTS, NAMES, 9, 0.0)[0]) == 4


def test_with_the_whole_weight_it_is_the_search_by_the_whole_request():
    for n in (1, 2, 3):
        whole = semantic_definitions(ASKED.whole, TEXTS, NAMES, n)
        assert [set(names) for names in clause_definitions(ASKED, TEXTS, NAMES, n, 1.0)] == [set(whole[0])]


def test_an_api_that_two_clauses_want_counts_once():
    twice = ASKED._replace(clauses=np.array([[1, 0], [1, 0]], np.float32))
    assert clause_definitions(twice, TEXTS, NAMES, 3, 0.0) == [["a.1", "a.2", "b.2"]]


POOL = pd.DataFrame({"pair": ["p", "q", "r", "s"], "apis": [["a.1"], ["a.1"], ["a.1", "a.2"], ["b.1"]]})


def few(k, coverage, new, **more):
    return chosen_shots(["t"], ASKED, POOL, TEXTS, k, Weights(coverage, new), **more)["shot"].tolist()


def test_without_weights_they_are_the_nearest():
    near = nearest_shots(["t"], POOL["pair"], TEXTS, ASKED.whole, 3)
    pd.testing.assert_frame_equal(near, chosen_shots(["t"], ASKED, POOL, TEXTS, 3, Weights(0, 0)))


def test_a_set_covers_clauses_and_new_apis():
    assert few(2, 0, 0) == ["q", "p"]
    assert few(2, 1, 0) == ["s", "p"] or set(few(2, 1, 0)) == {"p", "r"}
    assert set(few(2, 0, 1)) & {"s", "r"}


def test_a_request_is_not_shown_itself():
    assert "q" not in few(3, 0.5, 0.1, leave_out=["q"])


def test_vectors_of_clauses_are_those_of_their_request():
    def embed(texts):
        return np.array([[len(text), 1] for text in texts], np.float32)

    asked = ask(["ab cde", "f"], lambda text: [(0, 2), (3, 6)] if " " in text else [(0, 1)], embed)
    assert asked.clauses[asked.of(0)].tolist() == [[2, 1], [3, 1]]
    assert asked.clauses[asked.of(1)].tolist() == [[1, 1]]
    assert asked.whole[:, 0].tolist() == [6, 1]


def test_the_weight_that_finds_most_of_held_aside_requests_is_taken():
    table = choose_definition_weight(ASKED, [["a.1", "b.1"]], TEXTS, NAMES, [2])
    assert table.loc[table["chosen"], "value"].tolist() == [1.0]
    assert table.loc[table["weight"] == 1, "value"].item() == 0.5
    assert not table.loc[table["weight"] == 1, "chosen"].item()


def test_weights_of_shots_are_chosen_without_the_request_itself():
    held = POOL.iloc[[2]]
    asked = Asked(TEXTS[[2]], np.array([[0, 1], [1, 0]], np.float32), np.array([2]))
    table = choose_shot_weights(held, asked, POOL, TEXTS, [1])
    assert table["value"].max() <= 0.5, "only the pair itself shows both of its APIs"
    for way in SETS:
        assert table[way].sum() == 1
        assert chosen_weights(table, way)[1] in {Weights(row.coverage, row.new) for row in table.itertuples()}


def test_a_near_set_keeps_the_likeness_of_the_nearest():
    """Two clauses, a.1 and b.1: the nearest two few-shots show a.1 alone; a set covers both and is less alike."""
    pool = pd.DataFrame(
        {
            "pair": ["p", "q", "r", "asked"],
            "apis": [["a.1"], ["a.1"], ["b.1", "b.2", "b.3", "b.4", "b.5", "b.6"], ["a.1", "b.1"]],
        }
    )
    vectors = np.array([[1, 0], [0.999, 0.045], [0.1, 0.995], [0.95, 0.31]], np.float32)
    asked = Asked(vectors[[3]], np.array([[1, 0], [0, 1]], np.float32), np.array([2]))
    table = choose_shot_weights(pool.iloc[[3]], asked, pool, vectors, [2])
    rows = {way: table[table[way]].iloc[0] for way in SETS}
    nearest = table[(table["coverage"] == 0) & (table["new"] == 0)].iloc[0]
    assert (rows["set"]["value"], nearest["value"]) == (1, 0.5)
    assert rows["set"]["jaccard"] < ALIKE * nearest["jaccard"], "or this example shows nothing"
    assert rows["near_set"]["jaccard"] >= ALIKE * nearest["jaccard"]
    assert rows["near_set"]["value"] == 0.5


REQUESTS = pd.DataFrame({"pair": ["t"], "sample": ["test"], "apis": [["a.1", "b.1", "a.1"]]})


def test_scores_of_definitions():
    ways = {"whole": [["a.1", "a.2"]], "learned": [["a.1", "b.1"]]}
    found = definition_scores(REQUESTS, ways, "pretrained", 5).set_index(["way", "metric"])["value"]
    assert found["whole", "coverage"] == 0.5
    assert found["whole", "all_covered"] == 0
    assert found["learned", "coverage"] == found["learned", "all_covered"] == 1


def test_scores_of_shots():
    shots = pd.DataFrame({"pair": ["t", "t"], "rank": [1, 2], "shot": ["p", "s"]})
    found = shot_scores(REQUESTS, {"set": shots}, POOL, "tst", 2).set_index("metric")["value"]
    assert found.to_dict() == pytest.approx({"coverage": 1.0, "jaccard": 0.5, "jaccard_best": 0.5})
