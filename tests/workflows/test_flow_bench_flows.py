"""Flows written for Flow-Bench: what is asked, by whom, under which grammar, and how it is judged."""

import numpy as np
import pandas as pd
import pytest

from lib.workflows import flow_bench_flows as flows
from lib.workflows.apis import API, Connector
from lib.workflows.catalogue import Catalogue
from lib.workflows.flow_bench import FlowBench

APIS = [API("a", name, name, "A", f"Does {name}") for name in ("b", "c", "d")]
CATALOGUE = Catalogue({api.name: api for api in APIS}, {"a": Connector("a", "A", ())})
PAIRS = pd.DataFrame(
    [
        ("p1", "make b\n", "", "a.b();", ["a.b"]),
        ("p2", "add c", "a.b();", "a.b();\na.c();", ["a.b", "a.c"]),  # edits p1
        ("p3", "make c", "", "a.c();", ["a.c"]),
        ("p4", "make b, too", "", "a.b();\na.d();", ["a.b", "a.d"]),
    ],
    columns=["pair", "request", "prior", "dsl", "apis"],
)
BENCH = FlowBench(CATALOGUE, PAIRS)
FREE = flows.BASE.name
VECTORS = np.array([[1.0, 0], [0.99, 0.14], [0, 1], [0.9, 0.43]])
NEAR = {"pretrained": flows.nearest_of_others(PAIRS, VECTORS @ VECTORS.T)}


def prompted(rows=(0, 1, 2)):
    return flows.prompts(BENCH, rows, NEAR, VECTORS, np.eye(3)[:, :2], len)


def test_an_edit_brings_the_flow_to_edit():
    assert flows.asked_texts(PAIRS)[:2] == ["make b", "add c Edit this flow: a.b();"]


def test_families_are_dealt_to_the_two_models():
    assert flows.written_by(PAIRS) == ["in_context-a", "in_context-a", "in_context-b", "in_context-a"]


def test_few_shots_are_of_other_families_nearest_first():
    assert NEAR["pretrained"] == [[3, 2], [3, 2], [3, 1, 0], [1, 0, 2]]


def test_a_sample_is_seeded_and_in_order():
    drawn = flows.sample(PAIRS, 2, seed=1)
    assert list(drawn) == sorted(flows.sample(PAIRS, 2, seed=1))
    assert list(flows.sample(PAIRS, 99, seed=1)) == [0, 1, 2, 3]


def test_prompts_hold_no_right_flow_of_their_own():
    made = prompted()
    ways = [way for way in flows.WAYS if way.selector == "pretrained"]
    assert made["condition"].unique().tolist() == [way.name for way in ways]
    assert [len(part) for _, part in made.groupby("condition")] == [3] * len(ways)
    assert made["grammar"].isna().tolist() == [way.decoding == "free" for way in ways for _ in range(3)]
    first = made.iloc[1]
    assert (first["unit"], first["family"], first["model"]) == ("p2", "a.b();", "in_context-a")
    assert first["prompt"].rstrip().endswith("Request: add c Edit this flow: a.b();\nFlow:")
    assert "a.b();\na.c();" not in first["prompt"]
    assert "a.b();\na.d();" in first["prompt"]
    assert "Does b" in first["prompt"]


def test_an_instruct_model_is_asked_the_same_in_its_own_form():
    made = prompted([1])
    by = made.set_index("condition")
    plain, asked = by.loc[flows.BASE.name], by.loc[flows.BASE._replace(writer="instruct").name]
    assert asked["model"] == "instruct"
    assert asked["definitions"] == plain["definitions"]
    assert "```flow\na.b();\na.d();\n```" in asked["prompt"]
    assert asked["prompt"].endswith("Request: add c Edit this flow: a.b();")
    grammar = by.loc[flows.BASE._replace(writer="instruct", decoding="grammar").name, "grammar"]
    assert grammar.startswith('start: "```flow\\n" lines "\\n```"\n')
    assert "for" in grammar


def test_definitions_are_those_of_the_way():
    shown = prompted([0]).set_index("condition")["definitions"]
    assert list(shown[flows.BASE._replace(definitions="none").name]) == []
    assert set(shown[flows.BASE._replace(definitions="fd").name]) == {"a.b", "a.c", "a.d"}
    assert len(shown[flows.BASE.name]) > 0


def test_each_model_is_asked_for_its_requests(monkeypatch):
    def answer(name, prompts, model, most, progress):
        return prompts.assign(text=f"{model}: {name}")

    monkeypatch.setattr(flows, "answer_as", answer)
    made = flows.written(prompted(), {"in_context-a": "A", "in_context-b": "B"})
    assert set(zip(made["unit"], made["text"], strict=True)) == {
        ("p1", "A: in_context-a"), ("p2", "A: in_context-a"), ("p3", "B: in_context-b")}  # fmt: skip


def test_models_that_do_not_fit_are_not_used(tmp_path, monkeypatch):
    monkeypatch.setattr(flows, "fingerprint", lambda path, quantization: "x")
    monkeypatch.setattr(flows, "locate", lambda name: name)
    models, reason = flows.writers("some", "none", tmp_path, tmp_path, 1)
    assert (models, reason) == ({}, "No trained part in_context-a is shipped.")


def test_floors_copy():
    floors = flows.floors(BENCH, [0, 1], NEAR).set_index(["condition", "unit"])["text"]
    assert floors["copy_pretrained", "p1"] == "a.b();\na.d();"
    assert floors["copy_prior", "p1"] == "a.b();\na.d();"
    assert floors["copy_prior", "p2"] == "a.b();"


@pytest.fixture
def scores():
    texts = [
        (FREE, "p1", "a.b();"),
        (FREE, "p2", "a.b()); oh"),
        (FREE, "p3", "a.new();"),
        *(("copy_pretrained", unit, "a.b();") for unit in ("p1", "p2", "p3")),
    ]
    frame = pd.DataFrame(texts, columns=["condition", "unit", "text"])
    family = {"p1": "a.b();", "p2": "a.b();", "p3": "a.c();"}
    return flows.scored(frame.assign(family=frame["unit"].map(family)), BENCH)


def test_values_count_what_they_say(scores):
    values = flows.values(scores, 200, 1).set_index(["condition", "metric"])
    free = values.loc[FREE]
    assert free.loc["similarity", "value"] == pytest.approx(100 / 4)  # two of three requests are one family
    assert free.loc["executed", ["value", "n"]].tolist() == pytest.approx([100 / 3, 3])
    assert free.loc["unparsed", ["value", "n"]].tolist() == pytest.approx([100 / 3, 3])
    assert free.loc["made_up_names", ["value", "n"]].tolist() == pytest.approx([50, 2])
    assert (values["ci_low"] <= values["value"]).all()


def test_differences_are_of_the_same_requests(scores):
    tests = flows.differences(scores, 200, 1)
    assert tests[["a", "b", "n"]].to_numpy().tolist() == [[FREE, "copy_pretrained", 3]]
    assert tests["over_queries"].item() == pytest.approx(100 / 3 - (100 + 50 + 0) / 3)
    assert (tests["difference"].item(), tests["n_topics"].item()) == (-12.5, 2)
