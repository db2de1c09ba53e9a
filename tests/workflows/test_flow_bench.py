"""Flow-Bench: its flows in our language, its families; what is wrong with a file is one sentence."""

import json

import numpy as np
import pandas as pd
import pytest
import yaml

from lib.workbook.inputs import InputError
from lib.workflows import flow_bench
from lib.workflows.apis import Connector, Operation
from lib.workflows.catalogue import Catalogue
from lib.workflows.flow_bench import APIS, TESTS, USER_TASK, FlowBench, flow_of_python, read_flow_bench
from lib.workflows.language import MAX_CHARACTERS, print_flow

ISSUE, TASK = "Jira_Issue__2_0_0__create_Issue", "Asana_Tasks__2_0_0__create_Tasks"

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
        ("x not in y and z == True", "!contains(y, x) && z == true"),
        ("a == None and (b is not Null or c <= -1.5)", "a == null && (b != null || c <= -1.5)"),
        ("not (a > 1)", "!(a > 1)"),
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
        (f"if (a and b) == c: {ISSUE}()", "line 1"),
        (f"if a > 1e999: {ISSUE}()", "not JSON compliant"),
        ("if " + "not " * 5000 + f"x: {ISSUE}()", "nested too deeply"),
        ("x" * (MAX_CHARACTERS + 1), "at most"),
    ],
    ids=range(9),
)
def test_what_is_no_flow_is_one_sentence(code, problem):
    with pytest.raises(ValueError, match=problem) as caught:
        flow_of_python(code)
    assert "\n" not in str(caught.value)


# ---------------------------------------------------------------- files


@pytest.fixture
def folder(tmp_path):
    """A benchmark of two tests; called with changes, it writes them."""
    made = {"_metadata": {"uid": 1}, "input": {"utterance": "Make an issue", "prior_sequence": ""},
            "expected_output": {"sequence": [f"x = {ISSUE}()"], "bpmn": None}}  # fmt: skip
    edit = {"_metadata": {"uid": 2}, "input": {"utterance": "And a task", "prior_sequence": [f"x = {ISSUE}()"]},
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
    calls = ["Jira.Issue__2_0_0__create_Issue", "Asana.Tasks__2_0_0__create_Tasks", USER_TASK.name]
    assert list(catalogue.apis) == calls
    assert pairs["pair"].tolist() == ["flow_bench-1", "flow_bench-2"]
    assert pairs["prior"].tolist() == ["", "x = Jira.Issue__2_0_0__create_Issue();"]
    assert pairs["apis"].tolist() == [calls[:1], calls]
    assert pairs["family"][0] == pairs["family"][1]


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
    bench, sentence = flow_bench.read_if_there(tmp_path, "gone")
    assert len(bench.catalogue) == len(bench.pairs) == 0
    assert "gone lacks conditional_ootb.yaml and ootb_catalog.json; get them from https://github.com/" in sentence
    assert str(tmp_path) not in sentence, "a page of a report says nothing about the machine"
    bench, sentence = flow_bench.read_if_there(folder(), "")
    assert (len(bench.pairs), sentence) == (2, "")


# ---------------------------------------------------------------- few-shots


def benchmark(*rows):
    pairs = pd.DataFrame(rows, columns=["pair", "request", "prior", "dsl", "apis"])
    return pairs.assign(family=flow_bench.families(pairs))


ROWS = [
    ("p1", "make b\n", "", "a.b();", ["a.b"]),
    ("p2", "add c", "a.b();", "a.b();\na.c();", ["a.b", "a.c"]),  # edits p1
    ("p3", "make b, too", "", "a.b();\nx.y();", ["a.b", "x.y"]),
    ("p4", "make z", "", "z.z();", ["z.z"]),
]


def test_a_few_shot_is_never_of_the_same_family():
    near = np.array([[1.0, 0], [0.999, 0.04], [0.8, 0.6], [0, 1]])  # p1's nearest is its own edit
    found = flow_bench.shot_scores(benchmark(*ROWS), {"pretrained": near})
    value = found.set_index(["pair", "method", "metric", "k"])["value"]
    assert value["p1", "pretrained", "lcs", 1] == pytest.approx(1 / 2)  # p3's flow for p1's
    assert value["p1", "pretrained", "jaccard", 5] == pytest.approx(1 / 4)  # p3 and p4: a half and nothing
    assert value["p1", "random", "lcs", 1] == value["p1", "random", "jaccard", 5] == pytest.approx(1 / 4)


def test_edits_of_an_edit_are_of_its_family_in_any_order():
    """Else the edit of p2 would show p2's flow, the one to be edited, among the few-shots of p2."""
    rows = [*ROWS, ("p5", "", "a.b();\na.c();", "a.d();", ["a.d"]), ("p6", "", "z.z();", "z.y();", ["z.y"])]
    for order in ([0, 1, 2, 3, 4, 5], [4, 2, 5, 0, 3, 1]):
        pairs = benchmark(*(rows[place] for place in order))
        family = pairs.set_index("pair")["family"]
        assert family["p1"] == family["p2"] == family["p5"]
        assert family["p4"] == family["p6"]
        assert len({family[name] for name in ("p1", "p3", "p4")}) == 3
        shots = flow_bench.shots_of_others(pairs, np.ones((6, 6)), 6)
        assert len(shots) == 22
        text = pairs.set_index("pair")[["prior", "dsl"]]
        shown = zip(text.loc[shots["pair"], "dsl"], text.loc[shots["shot"]].itertuples(index=False), strict=True)
        assert not any(dsl in other for dsl, other in shown)


# ---------------------------------------------------------------- flows

VECTORS = np.array([[1.0, 0], [0.99, 0.14], [0.9, 0.43], [0, 1]])


@pytest.fixture
def bench():
    apis = [Operation("a", name, name, "A", f"Does {name}") for name in ("b", "c", "d")]
    catalogue = Catalogue({api.name: api for api in apis}, {"a": Connector("a", "A", ())})
    return FlowBench(catalogue, benchmark(*ROWS))


def test_prompts_hold_no_right_flow_of_their_own_and_copies_write_what_was_shown(bench):
    shots = flow_bench.shots_of_others(bench.pairs, VECTORS @ VECTORS.T)
    made = flow_bench.bench_prompts(bench, [0, 1, 3], shots, VECTORS, np.eye(3)[:, :2])
    conditions = "instruct_none instruct_fd instruct_sfd instruct_sfd_grammar".split()
    assert made.groupby("condition", sort=False).size().to_dict() == dict.fromkeys(conditions, 3)
    assert made["grammar"].notna().tolist() == [name.endswith("grammar") for name in made["condition"]]
    first = made.iloc[1]
    assert (first["unit"], first["family"]) == ("p2", "a.b();")
    assert first["prompt"].rstrip().endswith("Request: add c Edit this flow: a.b();")
    assert "a.b();\na.c();" not in first["prompt"]
    assert "a.b();\nx.y();" in first["prompt"]
    shown = made[made["unit"] == "p1"].set_index("condition")["definitions"]
    assert list(shown["instruct_none"]) == []
    assert set(shown["instruct_fd"]) == {"a.b"}, "of its few-shots' APIs the one that the catalogue has"
    assert len(shown["instruct_sfd"]) > 0

    texts = flow_bench.bench_copies(bench, [0, 1], {"pretrained": shots}).set_index(["condition", "unit"])["text"]
    assert texts["copy_pretrained", "p1"] == texts["copy_prior", "p1"] == "a.b();\nx.y();"
    assert texts["copy_prior", "p2"] == "a.b();"
