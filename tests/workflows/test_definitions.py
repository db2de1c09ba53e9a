import numpy as np
import pandas as pd
import pytest

from lib.workflows.apis import API
from lib.workflows.definitions import (
    SUMMARY,
    coverage_summary,
    few_shot_definitions,
    gold_coverage,
    semantic_definitions,
    usual_number,
    ways_to_define,
)


def test_few_shot_definitions_name_each_api_once_nearest_shot_first():
    apis = [["a.New", "a.Add"], ["b.Post", "a.New"], ["c.Get"]]
    assert few_shot_definitions([1, 0], apis) == ["b.Post", "a.New", "a.Add"]
    assert few_shot_definitions([], apis) == []


def test_semantic_definitions_are_the_nearest_in_order_of_their_similarity():
    texts = np.array([[1, 0], [0, 1], [0.6, 0.8], [0, 1]], dtype=np.float32)
    requests = np.array([[0, 1], [1, 0]], dtype=np.float32)
    names = ["a", "b", "c", "d"]
    assert semantic_definitions(requests, texts, names, 3) == [["b", "d", "c"], ["a", "c", "b"]]
    assert semantic_definitions(requests, texts, names, 9) == [["b", "d", "c", "a"], ["a", "c", "b", "d"]]
    assert semantic_definitions(requests, texts, names, 0) == [[], []]
    with pytest.raises(ValueError, match="4 vectors and 3 names"):
        semantic_definitions(requests, texts, names[:3], 2)


def api(name):
    connector, operation = name.split(".")
    return API(connector, operation, operation, connector, f"Does {operation}.")


def test_gold_coverage():
    catalogue = {name: api(name) for name in ("mail.Send", "mail.SendV2", "mail.New", "chat.Post")}
    pairs = pd.DataFrame(
        {"pair": ["p", "q"], "apis": [["mail.New", "mail.SendV2", "mail.SendV2"], ["mail.New", "own.Do"]]}
    )
    ways = {
        "fd": [["mail.SendV2", "mail.New", "mail.New"], ["chat.Post", "own.Do"]],
        "sfd": [["mail.Send", "no.Api"], []],
    }
    found = gold_coverage(pairs, ways, catalogue, lambda text: len(text.split()))
    assert found["way"].tolist() == ["fd", "fd", "sfd", "sfd"]
    found = found.set_index(["way", "pair"])
    assert found.loc[("fd", "p")].to_dict() == {
        "apis": 2, "share": 1, "all_covered": True, "sibling_share": 0, "definitions": 2, "tokens": 6
    }  # fmt: skip
    assert found.loc[("fd", "q")].to_dict() == {
        "apis": 2, "share": 0, "all_covered": False, "sibling_share": 0, "definitions": 1, "tokens": 3
    }  # fmt: skip
    assert found.loc[("sfd", "p")].to_dict() == {
        "apis": 2, "share": 0, "all_covered": False, "sibling_share": 0.5, "definitions": 1, "tokens": 3
    }  # fmt: skip
    assert found.loc[("sfd", "q"), ["share", "definitions", "tokens"]].tolist() == [0, 0, 0]
    with pytest.raises(ValueError, match="shorter"):
        gold_coverage(pairs, {"fd": [[]]}, catalogue, len)


def test_as_many_as_few_shots_bring_on_average_and_at_least_one():
    assert usual_number([["a"], ["a", "b", "c", "d"], ["a", "b", "c"]]) == 3
    assert usual_number([[], ["a"], []]) == 1


def test_the_ways_are_fd_sfd_and_both():
    fd = {("tst", 5): [["a"], ["b"]], ("pretrained", 5): [[], ["c"]]}
    ways = ways_to_define(fd, {5: [["x"], ["b"]]})
    assert list(ways) == [
        ("fd", "tst", 5), ("fd", "pretrained", 5), ("sfd", "", 5), ("fd_sfd", "tst", 5), ("fd_sfd", "pretrained", 5)
    ]  # fmt: skip
    assert ways["fd_sfd", "tst", 5] == [["a", "x"], ["b", "b"]]


def test_coverage_is_summed_up_by_sample_and_way():
    coverage = pd.DataFrame(
        {
            "pair": ["p", "q", "u", "p", "q", "u"],
            "sample": ["test", "test", "unseen"] * 2,
            "way": [("sfd", "", 5)] * 3 + [("fd", "tst", 5)] * 3,
            "share": [1, 0.5, 0, 0, 0, 0],
            "all_covered": [True, False, False] + [False] * 3,
            "sibling_share": [0, 0.5, 0, 0, 0, 0],
            "definitions": [3, 4, 5, 1, 1, 1],
            "tokens": [30, 50, 70, 10, 10, 10],
        }
    )
    summary = coverage_summary(coverage, 100, 0)
    assert set(summary) == set(SUMMARY)
    keys = summary[["sample", "kind", "selector", "shots"]].astype(object).to_numpy().tolist()
    assert keys == [
        ["test", "fd", "tst", 5], ["test", "sfd", "", 5], ["unseen", "fd", "tst", 5], ["unseen", "sfd", "", 5]
    ]  # fmt: skip
    row = summary.loc[1]
    assert row[["share", "all_covered", "sibling_share", "definitions", "tokens", "n"]].tolist() == [
        75,
        50,
        25,
        3.5,
        40,
        2,
    ]
    assert (row["ci_low"], row["ci_high"]) == (50, 100)
