from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from lib.generation.remote import estimate_tokens
from lib.workbook.artifacts import ROOT
from lib.workflows import ablation_grid
from lib.workflows.ablation import Condition
from lib.workflows.ablation_grid import (
    UNSEEN_FINETUNED,
    UNSEEN_HELD,
    Asked,
    Materials,
    Unseen,
    asked_conditions,
    definitions_beside,
    held_out,
    in_one_half_first,
    may_be_asked,
    order_of_asking,
    reading_windows,
    shots_by_selector,
    unseen_name,
    with_new_shots,
    write_prompts,
)
from lib.workflows.catalogue import Catalogue
from tests.workflows.ablation_rows import ABLATION

ROWS = [Condition.model_validate(row) for row in ABLATION]


def row(selector="pretrained", shots=2, definitions="none", generator="in_context", decoding="free", flows=9):
    return Condition.model_validate([selector, shots, definitions, generator, decoding, flows])


def test_every_row_is_asked_on_the_flows_that_there_are():
    asked = asked_conditions(ROWS, {"test": 20, "test_same": 2}, [0], 0, "in_context")
    assert [one.name for one in asked] == [one.name for one in ROWS] * 2
    assert [one.test_set for one in asked] == ["test"] * len(ROWS) + ["test_same"] * len(ROWS)
    assert {one.condition.flows for one in asked if one.test_set == "test"} == {one.flows for one in ROWS}
    assert {one.condition.flows for one in asked if one.test_set == "test_same"} == {2}
    assert all(one.added is None for one in asked)


def test_apis_held_out_are_asked_for_with_examples_and_without():
    asked = asked_conditions([], {}, [0, 1], 6, "in_context")
    assert [one.name for one in asked] == [
        *(unseen_name(0, what) for what in ("none", "sfd", "gold")),
        *(unseen_name(1, what) for what in ("none", "fd_sfd")),
        UNSEEN_FINETUNED,
        UNSEEN_HELD,
    ]
    assert {one.condition.flows for one in asked} == {6}
    assert [(one.condition.shots, one.condition.decoding) for one in asked[-2:]] == [(0, "free"), (0, "catalogue")]
    assert {one.condition.generator for one in asked[:-2]} == {"in_context"}
    assert {one.test_set for one in asked} == {"unseen"}
    assert unseen_name(1, "fd_sfd") == "unseen: 1 new, fd_sfd, free"


FLOWS = pd.DataFrame(
    {
        "pair": ["t0", "t1", "u0", "u1", "u2", "q0"],
        "split": ["training", "training", "unseen", "unseen", "unseen", "test"],
        "request": ["mail me", "post it", "form one", "form two", "form three", "mail and post"],
        "dsl": ["a.Mail();", "b.Post();", "c.Form();", "c.Form();", "c.Form();", "a.Mail();"],
        "apis": [["a.Mail"], ["b.Post"], ["c.Form"], ["c.Form"], ["c.Form", "a.Mail"], ["a.Mail"]],
        "half": ["a", "b", "a", "a", "", "a"],
    }
)
VECTORS = np.array([[1, 0], [0, 1], [0.8, 0.6], [0.8, 0.6], [0.8, 0.6], [0.6, 0.8]], dtype=np.float32)


class API:
    def __init__(self, name, in_training):
        self.name, self.in_training = name, in_training


APIS = [API("a.Mail", True), API("b.Post", True), API("c.Form", False)]


def test_what_is_held_out_and_its_few_shots(monkeypatch):
    monkeypatch.setattr(ablation_grid, "UNSEEN_SHOTS", 2)
    unseen = held_out(FLOWS, APIS, VECTORS, [0, 1], seed=0)
    assert len(unseen.requests) == 1
    assert unseen.new == {"c.Form"}
    assert [len(pool) for pool in unseen.pools.values()] == [2, 3]
    assert set(unseen.requests["pair"]).isdisjoint(unseen.pools[1]["pair"])
    assert unseen.shots == {0: [[0, 1]], 1: [[2, 0]]}
    assert [unseen.shown(n).tolist() for n in unseen.shots] == [[0], [100]]
    assert unseen.covered([{"a.Mail"}]).tolist() == [0]


def test_nothing_is_asked_where_too_few_flows_need_such_apis():
    few = FLOWS.drop(index=[3, 4]).reset_index(drop=True)
    unseen = held_out(few, APIS, VECTORS[[0, 1, 2, 5]], [0, 1], seed=0)
    assert unseen.shots == {}
    assert unseen.wanted() == []
    nothing_left = held_out(FLOWS, [API("z.Z", False)], VECTORS, [0, 1], seed=0)
    assert list(nothing_left.shots) == [0]


def test_few_shots_are_positions_of_training_pairs():
    kept = pd.DataFrame({"selector": "tst", "pair": "q0", "shot": ["t1", "t0"], "rank": [1, 2]})
    near = shots_by_selector(kept, FLOWS[:2], [row("tst", 20)])
    assert near["tst"]["q0"] == [1, 0]
    with pytest.raises(ValueError, match="notebook 08 kept 1 few-shots a request, a row needs 2: set its `shots`"):
        shots_by_selector(kept[:1], FLOWS[:2], [row("tst", 1), row("tst", 2)])
    with pytest.raises(ValueError, match=r"by tst_affine, which the row tst_affine_2.* needs: name it in `searched_wh"):
        shots_by_selector(kept, FLOWS[:2], [row("tst_affine", 2)])


def test_flows_of_one_half_are_asked_first():
    flows = pd.DataFrame({"pair": list("abcdef"), "split": "test", "half": ["", "a", "", "b", "a", ""]})
    ordered = order_of_asking(flows, ["test", "test_same"], 0)
    assert list(ordered) == ["test"]
    assert ordered["test"]["half"].ne("").tolist() == [True] * 3 + [False] * 3
    assert sorted(ordered["test"]["pair"]) == list("abcdef")
    assert in_one_half_first(flows)["pair"].tolist() == list("bdeacf")


def test_of_requests_for_new_apis_the_in_context_model_is_asked_those_of_one_half():
    unseen = Unseen(FLOWS[2:5], {"c.Form"}, {}, {})
    assert [may_be_asked(unseen, name) for name in ("in_context", "untuned")] == [2, 3]


def test_sfd_shows_as_many_definitions_as_fd():
    near = {name: pd.Series([[0, 1, 2]] * 2, ["q", "r"]) for name in ("pretrained", "tst")}
    rows = [row("tst", 2), row("pretrained", 0), row("random", 3)]
    assert definitions_beside(rows, near, ["q", "r"], [["a", "b"], ["b"], ["c"]]) == {
        ("pretrained", 5): 3, ("tst", 2): 2,
    }  # fmt: skip
    assert definitions_beside([row("tst", 1)], near, ["q"], [[], [], []])["tst", 1] == 1


def test_windows_of_models_here_and_behind_an_endpoint(monkeypatch):
    class Config:
        max_position_embeddings = 2048

    read = []
    monkeypatch.setattr(ablation_grid, "locate", lambda model: model)
    monkeypatch.setattr(ablation_grid, "load_tokenizer", lambda path: (read.append(path), Config))
    windows = reading_windows({"untuned": "remote:m", "finetuned": "s"}, 9000)
    assert windows["untuned"] == (9000, estimate_tokens)
    assert windows["finetuned"][0] == 2048
    assert reading_windows({"untuned": "s", "finetuned": "s"}, 9000)["untuned"][0] == 2048
    assert read == ["s", "s"]


@pytest.fixture(scope="module")
def materials():
    catalogue = Catalogue.load(ROOT / "data" / "catalogue")
    mail, post, form = (
        "shared_gmail.SendEmailV2",
        "shared_teams.PostMessageToConversation",
        "shared_planner.CreateTask_V4",
    )
    training = pd.DataFrame({"request": ["mail me", "post it"], "dsl": ["m();", "p();"], "apis": [[mail], [post]]})
    pool = pd.concat([training, pd.DataFrame({"request": ["new one"], "dsl": ["f();"], "apis": [[form]]})])
    asked = pd.DataFrame(
        {"pair": ["q", "r"], "request": ["first", "second"], "apis": [[mail], [mail]], "half": ["a", "b"]}
    )
    return Materials(
        training,
        catalogue,
        {"test": asked, "test_same": asked.assign(half=["", "a"])},
        {"pretrained": pd.Series([[0, 1], [1, 0]], ["q", "r"])},
        pd.Series([[form, mail], [form, mail]], ["q", "r"]),
        {("pretrained", 1): 1},
        dict.fromkeys(("untuned", "finetuned", "in_context"), (4000, len)),
        Unseen(asked.assign(apis=[[form], [form]]), {form}, {0: training, 1: pool}, {1: [[2, 0], [0, 2]]}),
        seed=7,
    )


def test_prompts_of_test_flows(materials):
    asked = [Asked("one", row(shots=1, flows=2)), Asked("sfd", row(shots=1, definitions="sfd", flows=1))]
    prompts = write_prompts(asked, materials)
    assert prompts[["condition", "unit", "test_set", "half", "model"]].to_numpy().tolist() == [
        ["one", "q", "test", "a", "in_context-b"],
        ["one", "r", "test", "b", "in_context-a"],
        ["sfd", "q", "test", "a", "in_context-b"],
    ]
    assert ["mail me" in text for text in prompts["prompt"]] == [True, False, True]
    assert prompts["definitions"].tolist() == [[], [], ["shared_planner.CreateTask_V4"]]
    assert prompts.index.tolist() == [0, 1, 2]


def test_the_in_context_model_is_asked_flows_of_one_half_alone(materials):
    both = [Asked(name, row(shots=1, generator=name, flows=2), "test_same") for name in ("in_context", "finetuned")]
    prompts = write_prompts(both, materials)
    assert prompts[["unit", "model"]].to_numpy().tolist() == [
        ["r", "in_context-b"], ["q", "finetuned"], ["r", "finetuned"],
    ]  # fmt: skip
    none = write_prompts([Asked("x", row(flows=2), "test_same")], replace(materials, asked={"test_same": UNASKED}))
    assert none.empty


UNASKED = pd.DataFrame({"pair": ["q"], "request": ["first"], "apis": [["a.B"]], "half": [""]})


def test_few_shots_of_another_request_are_the_next_ones(materials):
    assert materials.shots(row("pretrained", 1), "test", ["q", "r"]) == [[0, 1], [1, 0]]
    assert materials.shots(row("other", 1), "test", ["q", "r"]) == [[1, 0], [0, 1]]
    assert materials.shots(row("other", 1), "test", ["q"]) == [[1, 0]]


def test_random_few_shots_are_drawn_anew_for_each_request(materials):
    draws = materials.shots(row("random", 1), "test", [f"q{i}" for i in range(40)])
    assert {shots[0] for shots in draws} == {0, 1}
    assert draws == materials.shots(row("random", 1), "test", [f"r{i}" for i in range(40)])
    assert sorted(materials.shots(row("random", 9), "test", ["q"])[0]) == [0, 1]


def test_prompts_for_apis_held_out_have_their_own_pool(materials):
    asked = [
        Asked("new", row(shots=1, definitions="fd", flows=1), "unseen", 1),
        Asked("tuned", row(shots=0, generator="finetuned", flows=1), "unseen", 1),
    ]
    prompts = write_prompts(asked, materials).set_index("condition")["prompt"]
    assert "new one" in prompts["new"]
    assert prompts["new"].index("shared_planner.CreateTask_V4") < prompts["new"].index("new one")  # definitions first
    assert "new one" not in prompts["tuned"]


def pairs(name, apis):
    return pd.DataFrame({"pair": [f"{name}{i}" for i in range(len(apis))], "apis": apis})


def test_new_few_shots_cover_each_new_api_without_what_is_asked():
    training = pairs("t", [["a"], ["b"]])
    unseen = pairs("u", [["new"], ["new"], ["new", "other"], ["other"], ["a", "new"]]).set_index(pd.Index(range(2, 7)))
    pool = with_new_shots(training, unseen, ["u0", "u3"], {"new", "other"}, 1, seed=0)
    added = pool.iloc[2:]
    assert pool.index[:2].tolist() == [0, 1]
    assert set(added.index) <= {3, 4, 6}
    for name in ("new", "other"):
        assert added["apis"].map(lambda apis, name=name: name in apis).any()
    assert len(with_new_shots(training, unseen, ["u0"], {"new"}, 0, seed=0)) == 2
    assert len(with_new_shots(training, unseen, list(unseen["pair"]), {"new"}, 5, seed=0)) == 2
    everything = with_new_shots(training, unseen, [], {"new", "other"}, 9, seed=0)
    assert sorted(everything.index) == list(range(7))
