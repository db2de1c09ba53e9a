"""Flow-Bench: its flows in our language, its edits, its APIs; what is wrong with a file is one sentence."""

import json
import re
import zlib
from pathlib import Path

import numpy as np
import pytest
import yaml

from lib.workbook.inputs import InputError
from lib.workflows.flow_bench import (
    APIS,
    TESTS,
    USER_TASK,
    api_name,
    api_texts,
    flow_of,
    read_flow_bench,
    read_if_there,
    recall_by_reading,
    retrieval_recall,
)
from lib.workflows.grammars import flow_grammar
from lib.workflows.language import MAX_CHARACTERS, called_apis, parse, print_flow, validate
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


def test_flows_say_what_their_python_says(real):
    """As many calls, loops, tests, and the calls in the same order."""
    written = yaml.safe_load((SHARED / TESTS).read_text())["tests"]
    for test, dsl, apis in zip(written, real.pairs["dsl"], real.pairs["apis"], strict=True):
        code = test["expected_output"]["sequence"][0]
        called = [
            line.split("(")[0].split("= ")[-1].strip() for line in code.splitlines() if line.endswith((")", ") "))
        ]
        lines = [line.strip() for line in code.splitlines()]
        called = [line.split(" = ")[1].split("(")[0] for line in lines if " = " in line]
        assert [name.replace(".", "_", 1).removeprefix("person_") for name in apis] == called
        for python, ours in (("for ", "for ("), ("if ", "if ("), ("elif ", "} else if ("), ("else:", "} else {")):
            assert sum(line.startswith(python) for line in lines) == sum(
                line.strip().startswith(ours) for line in dsl.splitlines()
            )


def test_edits_have_a_flow_to_edit(real):
    pairs = real.pairs
    counts = pairs.groupby("update").size().to_dict()
    assert counts == {"": 53, "add": 21, "replace": 13, "delete": 14}
    assert ((pairs["prior"] != "") == (pairs["update"] != "")).all()
    edited = pairs[pairs["prior"] != ""]
    assert (edited["prior"] != edited["dsl"]).all()
    for prior, apis, new in zip(edited["prior"], edited["apis"], edited["new_apis"], strict=True):
        assert set(new) == set(apis) - set(called_apis(parse(prior)))
    assert not edited.loc[edited["update"] == "delete", "new_apis"].map(len).any()


def test_ids_stay_apart_and_connectors_are_applications(real):
    ids = [entry["id"] for entry in json.loads((SHARED / APIS).read_text())]
    assert [api_name(id_).replace(".", "_", 1) for id_ in ids] == ids
    assert len(real.catalogue.connectors) == 36
    assert {"Jira", "Slack", "Zendesk_Service", "Microsoft_Dynamics_365_for_Sales"} < set(real.catalogue.connectors)


def test_all_flows_can_be_decoded_under_the_grammar_with_loops(real):
    llguidance = pytest.importorskip("llguidance")
    tokens = llguidance.LLTokenizer("byte")
    start = llguidance.LLMatcher(tokens, flow_grammar(real.catalogue, loops=True))
    for dsl in real.pairs["dsl"]:
        matcher, ids = start.deep_copy(), tokens.tokenize_str(dsl)
        assert matcher.try_consume_tokens(ids) == len(ids), dsl
        assert matcher.is_accepting()


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
    assert print_flow(flow_of(code)) == dsl


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
    assert print_flow(flow_of(f"if {test}: user_task('t')")).startswith(f"if ({condition}) {{")


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("", "expected a statement"),
        ("x = ", "line 1: no Python"),
        (f"x = {ISSUE}()\nwhile x: pass", "line 2: a flow of the benchmark has no While here"),
        (f"x = {ISSUE}(1)", "no Call here"),
        ("x = print()", "'print' is no id such as"),
        (f"x = {'a__1_1_1__' * 200}b()", "is no id such as"),
        (f"x, y = {ISSUE}()", "no Assign here"),
        (f"if 1 < x < 2: {ISSUE}()", "no Compare here"),
        (f"for x in f(): {ISSUE}()", "no Call here"),
        (f"for x in y: {ISSUE}()\nelse: {ISSUE}()", "no For here"),
        (f"true = {ISSUE}()", "reserved word"),
        (f"é = {ISSUE}()", "is no name"),
        ("if x == 1" + "0" * 60 + f": {ISSUE}()", "digits"),
        ("if " + "not " * 5000 + f"x: {ISSUE}()", "nested too deeply"),
        (f"if x{'.y' * 15_000}: {ISSUE}()", "nested too deeply"),
        ("".join(f"{' ' * level}if x:\n" for level in range(60)) + " " * 60 + f"{ISSUE}()", "brackets are open"),
        ("x" * (MAX_CHARACTERS + 1), "at most"),
        ("x = \x00", "null bytes"),
    ],
    ids=lambda text: f"{text[:24]!r}x{len(text)}",
)
def test_what_is_no_flow_is_one_sentence(code, problem):
    with pytest.raises(ValueError, match=problem) as caught:
        flow_of(code)
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
    assert pairs["update"].tolist() == ["", "add"]
    assert pairs["prior"].tolist() == ["", "x = Jira.Issue__2_0_0__create_Issue();"]
    assert pairs["new_apis"].tolist()[1] == ["Asana.Tasks__2_0_0__create_Tasks", USER_TASK.name]
    texts = api_texts(catalogue)
    assert texts["both"].tolist()[0] == f"{ISSUE}: Create an issue in Jira"
    assert len(texts) == 2


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda c: c["tests"].clear(), "tests: List should have at least 1 item"),
        (lambda c: c["tests"].append(c["tests"][0]), "test 1: this uid stands twice"),
        (lambda c: c["tests"][1]["input"].pop("utterance"), "tests.1.input.utterance: Field required"),
        (lambda c: c["tests"][1]["input"].update(prior_sequence=""), "test 2: tags: an edit needs a prior sequence"),
        (lambda c: c["tests"][0]["expected_output"].update(sequence=["x = 1"]), "test 1: line 1: a flow"),
        (lambda c: c["apis"].pop(0), "test 1: ootb_catalog.json has no API Jira.Issue"),
        (lambda c: c["apis"].append(c["apis"][0]), "record 3: id: 'Jira_Issue__2_0_0__create_Issue' stands twice"),
        (lambda c: c["apis"][0].update(id="create issue"), "record 1: id: 'create issue' is no id"),
        (lambda c: c["apis"].append(7), "record 3: "),
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


NAMES = [f"a.b{i}" for i in range(60)]
IN_ORDER = -np.arange(60.0)[None, :].repeat(3, axis=0)  # b0 first, then b1, …


def test_recall_counts_what_a_request_needs_among_the_nearest():
    needed = [["a.b0", "a.b10", "a.b49", "a.b50"], [USER_TASK.name], ["a.b9", "a.b9", USER_TASK.name]]
    found = retrieval_recall(IN_ORDER, NAMES, needed)
    assert found.to_numpy().tolist() == [[0, 10, 0.25, 4], [0, 50, 0.75, 4], [2, 10, 1.0, 1], [2, 50, 1.0, 1]]
    with pytest.raises(ValueError, match="60 APIs"):
        retrieval_recall(IN_ORDER[:1], NAMES, needed)


def test_what_is_given_counts_as_found():
    needed = [["a.b0", "a.b10", "a.b49", "a.b50"], ["a.b59"], ["a.b59"]]
    found = retrieval_recall(IN_ORDER, NAMES, needed, [["a.b10"], ["a.b59"], ["a.b0"]])
    assert found["recall"].tolist() == [0.5, 0.75, 1.0, 1.0, 0.0, 0.0]


def bag_of_words(texts):
    """Unit vectors of hashed words."""
    vectors = np.full((len(texts), 2048), 1e-6)
    for row, text in enumerate(texts):
        for word in re.findall(r"[a-z]+", text.lower()):
            vectors[row, zlib.crc32(word.encode()) % 2048] += 1
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def test_recall_by_what_a_request_needs(folder):
    """Twelve APIs have the very words of the second request, so that they are found and what it needs is not."""

    def crowd(content):
        more = [{"id": f"Jira_Issue__2_0_{i}__create_Issue", "description": "And a task"} for i in range(1, 13)]
        content["apis"] = more + content["apis"]

    bench = read_flow_bench(folder(crowd))
    found = recall_by_reading(bench, bag_of_words)
    ten = found[(found["texts"] == "description") & (found["k"] == 10)].set_index(["asked", "reading"])
    # Request 1 needs the issue, which its words find; request 2 issue and task, of which it has the issue.
    assert ten.loc["request", "value"].to_dict() == {"flow": 50, "given": 75, "new": 50}
    assert (ten["n"] == 2).all()
    assert (found.loc[found["k"] == 50, "value"] == 100).all()
    assert (found["ci_low"] < found["ci_high"]).all()


def test_a_request_is_as_near_as_its_nearest_clause(folder):
    """The words of its second clause lead to the API; in the whole request they drown."""

    def crowd(content):
        words = "please kindly look through everything"
        more = [{"id": f"Jira_Issue__2_0_{i}__create_Issue", "description": words} for i in range(1, 13)]
        content["apis"] = more + content["apis"]
        content["tests"] = content["tests"][:1]
        content["tests"][0]["input"]["utterance"] = f"{words} that anybody sent today, and make an issue in Jira"

    found = recall_by_reading(read_flow_bench(folder(crowd)), bag_of_words)
    ten = found[(found["texts"] == "description") & (found["k"] == 10) & (found["reading"] == "flow")]
    assert ten.set_index("asked")["value"].to_dict() == {"request": 0, "clauses": 100}


def test_recall_on_the_real_requests(real):
    found = recall_by_reading(real, bag_of_words).set_index(["texts", "asked", "k", "reading"])
    assert (found.xs(50, level="k")["value"] >= found.xs(10, level="k")["value"]).all()
    assert (found.xs("given", level="reading")["value"] >= found.xs("flow", level="reading")["value"]).all()
    assert found.xs("flow", level="reading")["n"].unique().tolist() == [101]
    new = real.pairs["new_apis"].map(lambda apis: bool(set(apis) - {USER_TASK.name})).sum()
    assert found.xs("new", level="reading")["n"].unique().tolist() == [new]
    assert found["value"].max() > 60, "words alone find much of it, and nothing would if rows were mixed up"
