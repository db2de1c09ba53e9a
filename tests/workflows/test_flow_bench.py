"""Flow-Bench: its flows in our language, its edits, its APIs; what is wrong with a file is one sentence."""

import json
import re
import zlib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from lib.workbook.inputs import InputError
from lib.workflows import flow_bench
from lib.workflows.apis import Connector, Operation
from lib.workflows.catalogue import Catalogue
from lib.workflows.flow_bench import (
    APIS,
    TESTS,
    USER_TASK,
    FlowBench,
    api_name,
    api_recall,
    flow_of_python,
    read_flow_bench,
    read_if_there,
)
from lib.workflows.language import MAX_CHARACTERS, parse, print_flow, validate
from lib.workflows.scoring import score_flow

SHARED = Path(__file__).parents[3] / "shared/external/flow-bench"
ISSUE, TASK = "Jira_Issue__2_0_0__create_Issue", "Asana_Tasks__2_0_0__create_Tasks"


@pytest.fixture(scope="module")
def real():
    if not SHARED.is_dir():
        pytest.skip("Flow-Bench is not part of the repository")
    return read_flow_bench(SHARED)


def test_all_flows_round_trip_and_call_what_there_is(real):
    catalogue, pairs = real
    assert len(pairs) == 101
    assert len(catalogue) == 546 + 1
    for dsl in pairs["dsl"]:
        flow = parse(dsl)
        assert print_flow(flow) == dsl
        report = validate(flow, catalogue)
        assert (report.made_up_names, report.made_up_parameters) == ((), ())
        assert score_flow(dsl, dsl, catalogue).similarity == 1


def test_ids_stay_apart_and_connectors_are_applications(real):
    ids = [entry["id"] for entry in json.loads((SHARED / APIS).read_text())]
    assert [api_name(id_).replace(".", "_", 1) for id_ in ids] == ids
    assert len(real.catalogue.connectors) == 36
    assert {"Jira", "Slack", "Zendesk_Service", "Microsoft_Dynamics_365_for_Sales"} < set(real.catalogue.connectors)


# ---------------------------------------------------------------- Python to a flow


@pytest.mark.parametrize(
    ("code", "dsl"),
    [
        (f"x = {ISSUE}()", "x = Jira.Issue__2_0_0__create_Issue();"),
        ('user_task("say \'hi\'")', 'person.user_task({"task": "say \'hi\'"});'),
        ("for x in xs.value:\n    y = user_task('t')",
         "for (x of xs?['value']) {\n  y = person.user_task({\"task\": \"t\"});\n}"),
        ("if a: user_task('t')\nelif not b.c: user_task('u')\nelse: user_task('v')",
         'if (a) {\n  person.user_task({"task": "t"});\n} else if (!b?[\'c\']) {\n  person.user_task({"task": "u"});\n'
         '} else {\n  person.user_task({"task": "v"});\n}'),
    ],
)  # fmt: skip
def test_statements(code, dsl):
    assert print_flow(flow_of_python(code)) == dsl


@pytest.mark.parametrize(
    ("test", "condition"),
    [
        ("'401k' in dm.messages", "contains(dm?['messages'], \"401k\")"),
        ("x not in y", "!contains(y, x)"),
        ("a == None and (b is not Null or c <= -1.5)", "a == null && (b != null || c <= -1.5)"),
        ("not (a > 1)", "!(a > 1)"),
        ("a == True and b == false", "a == true && b == false"),
    ],
)
def test_conditions(test, condition):
    assert print_flow(flow_of_python(f"if {test}: user_task('t')")).startswith(f"if ({condition}) {{")


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("x = ", "line 1: no Python"),
        (f"x = {ISSUE}()\nwhile x: pass", "line 2: a flow of the benchmark has no While here"),
        (f"x = {ISSUE}(1)", "no Call here"),
        ("x = print()", "'print' is no id such as"),
        (f"true = {ISSUE}()", "reserved word"),
        ("if " + "not " * 5000 + f"x: {ISSUE}()", "nested too deeply"),
        ("x" * (MAX_CHARACTERS + 1), "at most"),
    ],
    ids=lambda text: f"{text[:24]!r}x{len(text)}",
)
def test_what_is_no_flow_is_one_sentence(code, problem):
    with pytest.raises(ValueError, match=problem) as caught:
        flow_of_python(code)
    assert "\n" not in str(caught.value)


# ---------------------------------------------------------------- files


@pytest.fixture
def folder(tmp_path):
    """A benchmark of two tests; called with changes, it writes them."""
    made = {"_metadata": {"uid": 1, "tags": ["1", "linear"]},
            "input": {"utterance": "Make an issue", "prior_sequence": "", "prior_context": []},
            "expected_output": {"sequence": [f"x = {ISSUE}()"], "bpmn": None}}  # fmt: skip
    edit = {"_metadata": {"uid": 2, "tags": ["2", "linear_update", "linear_update_add"]},
            "input": {"utterance": "And a task", "prior_sequence": [f"x = {ISSUE}()"]},
            "expected_output": {"sequence": [f"x = {ISSUE}()\ny = {TASK}()\nz = user_task('t')"]}}  # fmt: skip
    apis = [{"id": ISSUE, "description": "Create an issue in Jira"}, {"id": TASK, "description": "Create a task"}]

    def write(change=None):
        content = {"tests": [json.loads(json.dumps(made)), json.loads(json.dumps(edit))], "apis": list(map(dict, apis))}
        if change:
            change(content)
        (tmp_path / TESTS).write_text(yaml.safe_dump({"ibm_internal": True, "tests": content["tests"]}))
        (tmp_path / APIS).write_text(json.dumps(content["apis"]))
        return tmp_path

    return write


def test_a_small_benchmark(folder):
    catalogue, pairs = read_flow_bench(folder())
    assert list(catalogue.apis) == [
        "Jira.Issue__2_0_0__create_Issue",
        "Asana.Tasks__2_0_0__create_Tasks",
        USER_TASK.name,
    ]
    assert pairs["pair"].tolist() == ["flow_bench-1", "flow_bench-2"]
    assert pairs["prior"].tolist() == ["", "x = Jira.Issue__2_0_0__create_Issue();"]
    assert pairs["given"].tolist() == [[], ["Jira.Issue__2_0_0__create_Issue"]]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda c: c["tests"].append(c["tests"][0]), "test 1: this uid stands twice"),
        (lambda c: c["tests"][0]["expected_output"].update(sequence=["x = 1"]), "test 1: line 1: a flow"),
        (lambda c: c["apis"].pop(0), "test 1: ootb_catalog.json has no API Jira.Issue"),
        (lambda c: c["apis"].append(c["apis"][0]), "record 3: id: 'Jira_Issue__2_0_0__create_Issue' stands twice"),
        (lambda c: c["apis"][0].update(id="create issue"), "record 1: id: 'create issue' is no id"),
    ],
)
def test_bad_files_name_file_and_place(folder, change, problem):
    with pytest.raises(InputError) as caught:
        read_flow_bench(folder(change))
    assert problem in str(caught.value)
    assert TESTS in str(caught.value) or APIS in str(caught.value)
    assert "\n" not in str(caught.value)


def test_without_the_files_there_are_no_requests_and_a_sentence(folder, tmp_path):
    bench, sentence = read_if_there(tmp_path, "gone")
    assert len(bench.catalogue) == len(bench.pairs) == 0
    assert "gone lacks conditional_ootb.yaml and ootb_catalog.json; get them from https://github.com/" in sentence
    assert str(tmp_path) not in sentence, "a page of a report says nothing about the machine"
    folder()
    bench, sentence = read_if_there(tmp_path, "")
    assert (len(bench.pairs), sentence) == (2, "")
    (tmp_path / APIS).unlink()
    assert "lacks ootb_catalog.json;" in read_if_there(tmp_path, "")[1]
    with pytest.raises(InputError, match=APIS):
        read_flow_bench(tmp_path)


# ---------------------------------------------------------------- retrieval


def bag_of_words(texts):
    """Unit vectors of hashed words."""
    vectors = np.full((len(texts), 2048), 1e-6)
    for row, text in enumerate(texts):
        for word in re.findall(r"[a-z]+", text.lower()):
            vectors[row, zlib.crc32(word.encode()) % 2048] += 1
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def test_recall_counts_what_a_request_needs_and_what_is_given(folder):
    """Twelve APIs have the very words of the second request, so that they are found and what it needs is not."""

    def crowd(content):
        more = [{"id": f"Crowd_Task__2_0_{i}__see_Task", "description": "And a task"} for i in range(1, 13)]
        content["apis"] = more + content["apis"]

    found = api_recall(read_flow_bench(folder(crowd)), bag_of_words)
    ten = found[(found["k"] == 10) & (found["asked"] == "request")].pivot(
        index="pair", columns="reading", values="value"
    )
    # The first request's words find its issue; the second needs issue and task, of which it has the issue.
    assert ten["flow"].tolist() == [100, 0]
    assert ten["given"].tolist() == [100, 50]
    assert (found.loc[found["k"] == 50, "value"] == 100).all()


# ---------------------------------------------------------------- few-shots

PAIRS = pd.DataFrame(
    [
        ("p1", "", "a.b();", ["a.b"], []),
        ("p2", "a.b();", "a.b(); a.c();", ["a.b", "a.c"], ["a.b"]),  # edits p1
        ("p3", "", "a.b(); x.y();", ["a.b", "x.y"], []),
        ("p4", "", "z.z();", ["z.z"], []),
    ],
    columns=["pair", "prior", "dsl", "apis", "given"],
)


def test_a_few_shot_is_never_of_the_same_family():
    near = np.array([[1.0, 0], [0.999, 0.04], [0.8, 0.6], [0, 1]])  # p1's nearest is its own edit
    found = flow_bench.shot_scores(PAIRS, {"pretrained": near})
    value = found.set_index(["pair", "method", "metric", "k"])["value"]
    assert value["p1", "pretrained", "lcs", 1] == pytest.approx(1 / 2)  # p3's flow for p1's
    assert value["p1", "pretrained", "jaccard", 5] == pytest.approx(1 / 4)  # p3 and p4: a half and nothing
    assert value["p1", "random", "lcs", 1] == value["p1", "random", "jaccard", 5] == pytest.approx(1 / 4)
    assert value["p3", "oracle_shots", "lcs", 1] == pytest.approx(1 / 2)
    family = found.groupby("pair")["family"].first()
    assert family["p1"] == family["p2"] != family["p3"]
    mean = found[found["metric"] == "jaccard"].groupby("method")["value"].mean()
    assert mean["oracle_shots"] >= mean["random"]


def test_edits_of_an_edit_are_of_its_family_in_any_order():
    """Else the edit of p2 would show p2's flow, the one to be edited, among the few-shots of p2."""
    chain = pd.DataFrame(
        [("p5", "a.b(); a.c();", "a.d();", ["a.d"], []), ("p6", "z.z();", "z.y();", ["z.y"], [])],
        columns=PAIRS.columns,
    )
    pairs = pd.concat([PAIRS, chain], ignore_index=True)
    for order in ([0, 1, 2, 3, 4, 5], [4, 2, 5, 0, 3, 1]):
        part = pairs.iloc[order].reset_index(drop=True)
        family = dict(zip(part["pair"], flow_bench.families(part), strict=True))
        assert family["p1"] == family["p2"] == family["p5"]
        assert family["p4"] == family["p6"]
        assert len({family[name] for name in ("p1", "p3", "p4")}) == 3
        shots = flow_bench.shots_of_others(part, np.ones((6, 6)), 6)
        assert len(shots) == 22
        text = part.set_index("pair")[["prior", "dsl"]]
        shown = zip(text.loc[shots["pair"], "dsl"], text.loc[shots["shot"]].itertuples(index=False), strict=True)
        assert not any(dsl in other for dsl, other in shown)


# ---------------------------------------------------------------- flows


@pytest.fixture(scope="module")
def bench():
    apis = [Operation("a", name, name, "A", f"Does {name}") for name in ("b", "c", "d")]
    pairs = pd.DataFrame(
        [
            ("p1", "make b\n", "", "a.b();", ["a.b"], []),
            ("p2", "add c", "a.b();", "a.b();\na.c();", ["a.b", "a.c"], ["a.b"]),  # edits p1
            ("p3", "make c", "", "a.c();", ["a.c"], []),
            ("p4", "make b, too", "", "a.b();\na.d();", ["a.b", "a.d"], []),
        ],
        columns=["pair", "request", "prior", "dsl", "apis", "given"],
    )
    return FlowBench(Catalogue({api.name: api for api in apis}, {"a": Connector("a", "A", ())}), pairs)


VECTORS = np.array([[1.0, 0], [0.99, 0.14], [0, 1], [0.9, 0.43]])


@pytest.fixture(scope="module")
def shots(bench):
    return flow_bench.shots_of_others(bench.pairs, VECTORS @ VECTORS.T)


def test_a_sample_is_seeded_and_in_order(bench):
    drawn = flow_bench.some_requests(bench.pairs, 2, seed=1)
    assert list(drawn) == sorted(flow_bench.some_requests(bench.pairs, 2, seed=1))
    assert list(flow_bench.some_requests(bench.pairs, 99, seed=1)) == [0, 1, 2, 3]


def test_prompts_hold_no_right_flow_of_their_own(bench, shots):
    made = flow_bench.bench_prompts(bench, [0, 1, 2], shots, VECTORS, np.eye(3)[:, :2], len)
    conditions = "in_context_sfd in_context_fd in_context_none instruct_sfd instruct_fd instruct_sfd_grammar".split()
    assert made.groupby("condition", sort=False).size().to_dict() == dict.fromkeys(conditions, 3)
    assert made["model"].head(3).tolist() == ["in_context-a", "in_context-a", "in_context-b"], "families in turn"
    assert made["grammar"].notna().tolist() == [name.endswith("grammar") for name in made["condition"]]
    first = made.iloc[1]
    assert (first["unit"], first["family"], first["model"]) == ("p2", "a.b();", "in_context-a")
    assert first["prompt"].rstrip().endswith("Request: add c Edit this flow: a.b();\nFlow:")
    assert "a.b();\na.c();" not in first["prompt"]
    assert "a.b();\na.d();" in first["prompt"]
    assert "Does b" in first["prompt"]
    shown = made[made["unit"] == "p1"].set_index("condition")["definitions"]
    assert list(shown["in_context_none"]) == []
    assert set(shown["in_context_fd"]) == {"a.b", "a.c", "a.d"}
    assert len(shown["in_context_sfd"]) > 0


def test_what_writes_without_a_model_copies(bench, shots):
    made = flow_bench.bench_copies(bench, [0, 1], {"pretrained": shots}).set_index(["condition", "unit"])["text"]
    assert made["copy_pretrained", "p1"] == "a.b();\na.d();"
    assert made["copy_prior", "p1"] == "a.b();\na.d();"
    assert made["copy_prior", "p2"] == "a.b();"
