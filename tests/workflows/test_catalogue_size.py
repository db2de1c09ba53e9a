import numpy as np
import pandas as pd

from lib.workflows.apis import API
from lib.workflows.catalogue_size import ELSEWHERE, distractors, percentiles, recall_by_size, time_searches
from lib.workflows.clause_retrieval import Asked

OWN = [API("shared_new", f"Op{i}", f"Do thing {i}", "New app") for i in range(3)]


def test_operations_of_a_folder_come_first_and_the_rest_is_made(catalogue):
    found = distractors(catalogue, [*OWN, next(iter(catalogue))], 50, 7)
    assert len(found) == 50
    assert found["made"].tolist() == [False] * 3 + [True] * 47
    assert found["api"].head(3).str.startswith("shared_new.").all()
    assert found["api"].tail(47).str.startswith(ELSEWHERE).all()


def test_a_distractor_is_never_counted_as_right(catalogue):
    found = distractors(catalogue, OWN, 2000, 7)
    assert not set(found["api"]) & {api.name for api in catalogue}
    assert not set(found["text"]) & {api.text for api in catalogue}
    assert found["text"].is_unique


def test_the_same_seed_gives_the_same_distractors(catalogue):
    first = distractors(catalogue, [], 30, 7)
    assert first.equals(distractors(catalogue, [], 30, 7))
    assert not first.equals(distractors(catalogue, [], 30, 8))


def test_there_may_be_enough_for_sixteen_thousand_operations(catalogue):
    assert len(distractors(catalogue, [], 16_000, 7)) == 16_000


ASKED = Asked(np.array([[1, 0]], np.float32), np.array([[1, 0], [0, 1]], np.float32), np.array([2]))
WANTED = pd.DataFrame({"pair": ["t"], "sample": ["test"], "apis": [["a.1", "b.1"]]})


def test_recall_falls_where_nearer_operations_join():
    texts, more = np.array([[0.9, 0.4], [0.4, 0.9]], np.float32), np.array([[1, 0], [0.95, 0.3], [0, 1]], np.float32)
    found = recall_by_size(ASKED, WANTED, texts, ["a.1", "b.1"], more, ["x.1", "x.2", "x.3"], [3, 5, 99], 2, 0.0)
    shares = found.set_index(["size", "way"])["share"].to_dict()
    assert shares == {(2, "whole"): 1, (2, "clauses"): 1, (3, "whole"): 0.5, (3, "clauses"): 0.5,
                      (5, "whole"): 0, (5, "clauses"): 0}  # fmt: skip


def test_the_first_request_is_not_timed_cold():
    ticks = iter(np.arange(100.0))
    asked = []

    def embed(texts):
        asked.append(texts)
        return np.eye(2, dtype=np.float32)[[0] * len(texts)]

    times = time_searches(
        ["a b", "c"], lambda text: [(0, 1)], embed, np.eye(2, dtype=np.float32), ["x.1", "x.2"], 1, 0.5,
        lambda: next(ticks),
    )  # fmt: skip
    assert asked == [["a b", "a"], ["a b", "a"], ["c", "c"]]
    assert times.to_numpy().tolist() == [[1000, 1000, 1000, 3000]] * 2
    summary = percentiles(times)
    assert summary[["step", "p50_ms", "n"]].to_numpy().tolist()[-1] == ["all", 3000, 2]
