"""The review file: written, judged by people who make mistakes, read back and applied."""

import json
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.workbook.inputs import InputError
from lib.workflows.generating import generate
from lib.workflows.pairs import COLUMNS, normal_form, read_values
from lib.workflows.planning import FlowKnobs
from lib.workflows.review import OUTCOMES, apply_review, is_judged, read_review, review_lines

DATA = Path(__file__).parents[2] / "data"
FORM = "triggerOutputs = await shared_microsoftforms.CreateFormWebhook();"
MAIL = f'{FORM}\nshared_outlook.SendEmailV2({{"emailMessage/To": "ana@contoso.com"}});'


@pytest.fixture(scope="module")
def pairs(catalogue):
    knobs = FlowKnobs(n_training_pairs=20, n_test_pairs=8, n_unseen_pairs=3, n_test_same_pairs=0)
    return generate(catalogue, read_values(DATA / "values.yaml"), knobs)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "review.jsonl"


def judge(path, pairs, *decisions):
    """Write the file with these decisions on its first lines; returns the ids of all lines."""
    records = [json.loads(line) for line in review_lines(pairs, 7)]
    for record, decision in zip(records, decisions, strict=False):
        record.update(decision)
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return [record["id"] for record in records]


def judged(path, pairs, catalogue, *decisions):
    ids = judge(path, pairs, *decisions)
    result, counts = apply_review(pairs, read_review(path), catalogue)
    return ids, result, dict(zip(counts["decision"], counts["pairs"], strict=True))


def test_every_test_pair_is_there_once_in_a_seeded_order(pairs):
    records = [json.loads(line) for line in review_lines(pairs, 7)]
    tests = pairs[pairs["split"] == "test"]
    assert sorted(record["id"] for record in records) == sorted(tests["pair"])
    assert [record["id"] for record in records] != tests["pair"].tolist()
    assert list(records[0]) == ["id", "request", "dsl", "decision", "request_fixed", "dsl_fixed"]
    own = tests.set_index("pair")
    assert all((r["request"], r["dsl"]) == tuple(own.loc[r["id"], ["request", "dsl"]]) for r in records)
    assert review_lines(pairs, 7) == review_lines(pairs, 7) != review_lines(pairs, 8)


def test_an_untouched_file_changes_nothing(path, pairs, catalogue):
    _, result, counts = judged(path, pairs, catalogue)
    pd.testing.assert_frame_equal(result, pairs)
    assert counts == dict.fromkeys(OUTCOMES, 0) | {"undecided": 8}
    assert not is_judged(path)


def test_pairs_are_kept_fixed_and_dropped(path, pairs, catalogue):
    before = pairs.copy(deep=True)
    ids, result, counts = judged(
        path, pairs, catalogue,
        {"decision": "keep"},
        {"decision": " Drop "},
        {"decision": "fix", "request_fixed": " Mail Ana about each form "},
        {"decision": "fix", "dsl_fixed": MAIL},
        {"decision": "fix", "request_fixed": "Start with a form", "dsl_fixed": FORM.replace("()", "({})")},
    )  # fmt: skip
    assert counts == {"keep": 1, "fix": 3, "drop": 1, "undecided": 3, "not in the file": 0}
    assert result["pair"].tolist() == [pair for pair in pairs["pair"] if pair != ids[1]]
    rows, old = result.set_index("pair"), pairs.set_index("pair")
    untouched = [pair for pair in rows.index if pair not in ids[2:5]]
    pd.testing.assert_frame_equal(rows.loc[untouched], old.loc[untouched])
    assert rows.loc[ids[2], "request"] == "Mail Ana about each form"
    assert rows.loc[ids[2], ["dsl", "apis", "n_calls"]].tolist() == old.loc[ids[2], ["dsl", "apis", "n_calls"]].tolist()
    assert rows.loc[ids[3], "request"] == old.loc[ids[3], "request"]
    apis = ["shared_microsoftforms.CreateFormWebhook", "shared_outlook.SendEmailV2"]
    assert rows.loc[ids[3], ["dsl", "apis", "trigger", "n_calls", "conditions"]].tolist() == [MAIL, apis, apis[0], 2, 0]
    assert rows.loc[ids[4], ["request", "dsl", "n_calls"]].tolist() == ["Start with a form", FORM, 1]
    for pair in ids[2:5]:
        assert rows.loc[pair, ["frame", "wordings", "quoted"]].tolist() == ["", [], []]
    pd.testing.assert_frame_equal(pairs, before)
    assert is_judged(path)


def test_lines_that_were_deleted_are_counted(path, pairs, catalogue):
    judge(path, pairs, {"decision": "keep"})
    path.write_text("\ufeff" + "\r\n\r\n".join(path.read_text().split("\n")[:3]), encoding="utf-8")
    _, counts = apply_review(pairs, read_review(path), catalogue)
    assert counts["pairs"].tolist() == [1, 0, 0, 2, 5]


def test_the_example_of_the_documentation(path, pairs, catalogue):
    section = (DATA / "README.md").read_text(encoding="utf-8").split("\n## Judging test pairs")[1]
    example = json.loads(section.split("```json\n")[1].split("\n```")[0])
    row = pairs[pairs["split"] == "test"].iloc[0].copy()
    row["pair"], row["request"], row["dsl"] = (example[field] for field in ("id", "request", "dsl"))
    own = pd.DataFrame([pairs.iloc[0], row])
    assert list(example) == list(json.loads(review_lines(own, 7)[0]))
    path.write_text(json.dumps(example))
    result, counts = apply_review(own, read_review(path), catalogue)
    assert result["request"].iloc[1] == example["request_fixed"]
    assert counts["pairs"].tolist() == [0, 1, 0, 0, 0]


def test_a_condition_in_a_fixed_flow_is_counted(path, pairs, catalogue):
    dsl = f"{FORM}\nif (triggerOutputs?['body'] == 1) {{\n  shared_outlook.SendEmailV2();\n}}"
    ids, result, _ = judged(path, pairs, catalogue, {"decision": "fix", "dsl_fixed": dsl})
    assert result.set_index("pair").loc[ids[0], ["n_calls", "conditions"]].tolist() == [2, 1]


FAULTS = [
    ({"decision": "maybe"}, "line 1: decision: "),
    ({"decision": None}, "line 1: decision: "),
    ({"decision": "fix"}, "line 1: decision: fix needs a request_fixed or a dsl_fixed"),
    ({"decision": "fix", "request_fixed": " "}, "line 1: decision: fix needs"),
    ({"decision": "keep", "request_fixed": "Hi"}, "line 1: request_fixed: is there, but decision is keep, not fix"),
    ({"dsl_fixed": FORM}, "line 1: dsl_fixed: is there, but decision is empty, not fix"),
    ({"decision": "fix", "dsl_fixed": "x = await shared_a.B("}, "line 1: dsl_fixed: line 1, column "),
    ({"decision": "fix", "dsl_fixed": "if (1 == 1) {}"}, "line 1: dsl_fixed: calls no API"),
    ({"decision": "fix", "dsl_fixed": "x = await shared_a.B();"}, "line 1: dsl_fixed: shared_a.B is no API"),
    ({"decision": "fix", "dsl_fixed": MAIL.replace("/To", "/Too")},
     "line 1: dsl_fixed: shared_outlook.SendEmailV2 has no parameter 'emailMessage/Too'"),
    ({"decision": "fix", "dsl_fixed": MAIL.replace('"ana@contoso.com"', "y?['body']")},
     "line 1: dsl_fixed: y is used before it has a value"),
    ({"decision": "fix", "request_fixed": "?!"}, "line 1: request_fixed: holds no word"),
    ({"note": "nice"}, "line 1: note: "),
    ({"id": "test-99999"}, "line 1: id: 'test-99999' is no test pair"),
    ({"id": "training-00000"}, "line 1: id: 'training-00000' is no test pair"),
    ({"id": ""}, "line 1: id: "),
    ({"request": "Something else"}, "line 1: request: has changed since the file was written; it is now "),
    ({"dsl": FORM}, "line 1: dsl: has changed since the file was written; it is now "),
]  # fmt: skip


@pytest.mark.parametrize(("decision", "complaint"), FAULTS)
def test_a_fault_names_file_line_and_field(path, pairs, catalogue, decision, complaint):
    judge(path, pairs, decision)
    with pytest.raises(InputError) as error:
        apply_review(pairs, read_review(path), catalogue)
    assert str(error.value).startswith(f"{path}, {complaint}"), error.value
    assert "\n" not in str(error.value).split("it is now")[0]


def test_apis_held_out_of_training_are_no_fix_for_a_test_pair(path, pairs, catalogue):
    held = next(api for api in catalogue if api.trigger and not api.in_training)
    judge(path, pairs, {"decision": "fix", "dsl_fixed": f"triggerOutputs = await {held.name}();"})
    with pytest.raises(InputError, match=f"dsl_fixed: {held.name} is held out of training"):
        apply_review(pairs, read_review(path), catalogue)


def test_a_fixed_request_is_no_other_pairs(path, pairs, catalogue):
    training = pairs["request"].iloc[0]
    judge(path, pairs, {"decision": "fix", "request_fixed": f"{training.upper()} !"})
    with pytest.raises(InputError, match="line 1: request_fixed: training pair 'training-00000' has this request"):
        apply_review(pairs, read_review(path), catalogue)
    twice = {"decision": "fix", "request_fixed": "Mail Ana about each form"}
    judge(path, pairs, twice, twice)
    with pytest.raises(InputError, match="line 1: request_fixed: test pair"):
        apply_review(pairs, read_review(path), catalogue)


def test_the_request_of_a_dropped_pair_is_free(path, pairs, catalogue):
    first = json.loads(review_lines(pairs, 7)[0])["request"]
    ids, result, _ = judged(path, pairs, catalogue, {"decision": "drop"}, {"decision": "fix", "request_fixed": first})
    assert result.set_index("pair").loc[ids[1], "request"] == first
    assert result["request"].map(normal_form).is_unique


def test_something_must_be_left(path, pairs, catalogue):
    judge(path, pairs, *[{"decision": "drop"}] * 8)
    with pytest.raises(InputError) as error:
        apply_review(pairs, read_review(path), catalogue)
    assert str(error.value) == f"{path}: decision: every test pair is dropped"


def test_files_that_are_no_review(path, pairs):
    judge(path, pairs, {"decision": "keep"})
    path.write_text(path.read_text() + path.read_text().split("\n")[2] + "\n")
    with pytest.raises(InputError, match=r"line 9: id: '.*' is also in line 3"):
        read_review(path)
    path.write_text(path.read_text()[:-30])
    assert is_judged(path), "somebody's editor was at it"
    with pytest.raises(InputError, match="line 9: not JSON"):
        read_review(path)
    path.write_text("\n\n")
    with pytest.raises(InputError, match="holds no test pair"):
        read_review(path)
    path.unlink()
    assert not is_judged(path)
    with pytest.raises(InputError, match="cannot be read"):
        read_review(path)


@given(text=st.text())
def test_what_people_write_survives_the_file(tmp_path_factory, text):
    path = tmp_path_factory.getbasetemp() / "survives.jsonl"
    row = ["test-1", "test", text or "x", FORM, ["a.b"], "a.b", 1, 0, [[]], "", [], [], []]
    pairs = pd.DataFrame([row, ["test-2", *row[1:2], "y z", *row[3:]]], columns=COLUMNS)
    path.write_text("".join(f"{line}\n" for line in review_lines(pairs, 7)), encoding="utf-8", newline="")
    result, _ = apply_review(pairs, read_review(path), {})
    pd.testing.assert_frame_equal(result, pairs)
