"""The review file: written, judged by people who make mistakes, read back and applied."""

import json
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.workbook.inputs import InputError
from lib.workflows.generating import generate
from lib.workflows.pairs import COLUMNS
from lib.workflows.review import apply_review, is_judged, read_review, review_lines

DATA = Path(__file__).parents[2] / "data"
FORM = "triggerOutputs = await shared_microsoftforms.CreateFormWebhook();"
MAIL = f'{FORM}\nshared_outlook.SendEmailV2({{"emailMessage/To": "ana@contoso.com"}});'


@pytest.fixture(scope="module")
def pairs(catalogue, values):
    sizes = {"training": 20, "test": 8, "unseen": 3}
    return generate(catalogue, values, sizes)


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


def test_every_test_pair_is_there_once_in_a_seeded_order(pairs):
    records = [json.loads(line) for line in review_lines(pairs, 7)]
    tests = pairs[pairs["split"] == "test"]
    assert sorted(record["id"] for record in records) == sorted(tests["pair"])
    assert [record["id"] for record in records] != tests["pair"].tolist()
    assert list(records[0]) == ["id", "request", "dsl", "decision", "request_fixed", "dsl_fixed"]
    own = tests.set_index("pair")
    assert all((r["request"], r["dsl"]) == tuple(own.loc[r["id"], ["request", "dsl"]]) for r in records)


def test_an_untouched_file_changes_nothing(path, pairs, catalogue):
    judge(path, pairs)
    result, counts = apply_review(pairs, read_review(path), catalogue)
    pd.testing.assert_frame_equal(result, pairs)
    assert counts["pairs"].tolist() == [0, 0, 0, 8, 0]
    assert not is_judged(path)


def test_pairs_are_kept_fixed_and_dropped(path, pairs, catalogue):
    before = pairs.copy(deep=True)
    ids = judge(
        path,
        pairs,
        {"decision": "keep"},
        {"decision": "drop"},
        {"decision": "fix", "request_fixed": " Mail Ana about each form "},
        {"decision": "fix", "dsl_fixed": MAIL},
        {"decision": "fix", "request_fixed": "Start with a form", "dsl_fixed": FORM.replace("()", "({})")},
    )
    path.write_text("\n\n".join(path.read_text().split("\n")[:6]), encoding="utf-8")  # two lines were deleted
    result, counts = apply_review(pairs, read_review(path), catalogue)
    assert dict(counts.to_numpy()) == {"keep": 1, "fix": 3, "drop": 1, "undecided": 1, "not in the file": 2}
    assert result["pair"].tolist() == [pair for pair in pairs["pair"] if pair != ids[1]]
    rows, old = result.set_index("pair"), pairs.set_index("pair")
    untouched = [pair for pair in rows.index if pair not in ids[2:5]]
    pd.testing.assert_frame_equal(rows.loc[untouched], old.loc[untouched])
    assert rows.loc[ids[2], "request"] == "Mail Ana about each form"
    kept = ["dsl", "apis", "said"]
    assert rows.loc[ids[2], kept].tolist() == old.loc[ids[2], kept].tolist()
    apis = ["shared_microsoftforms.CreateFormWebhook", "shared_outlook.SendEmailV2"]
    assert rows.loc[ids[3], ["request", "dsl", "apis"]].tolist() == [old.loc[ids[3], "request"], MAIL, apis]
    assert rows.loc[ids[4], ["request", "dsl"]].tolist() == ["Start with a form", FORM]
    pd.testing.assert_frame_equal(pairs, before)
    assert is_judged(path)


def test_the_example_of_a_judgement(path, pairs, catalogue):
    example = json.loads((DATA / "examples" / "review.jsonl").read_text(encoding="utf-8"))
    row = pairs[pairs["split"] == "test"].iloc[0].copy()
    row["pair"], row["request"], row["dsl"] = (example[field] for field in ("id", "request", "dsl"))
    path.write_text(json.dumps(example))
    result, counts = apply_review(pd.DataFrame([pairs.iloc[0], row]), read_review(path), catalogue)
    assert result["request"].iloc[1] == example["request_fixed"]
    assert counts["pairs"].tolist() == [0, 1, 0, 0, 0]


@pytest.mark.parametrize(
    ("decision", "complaint"),
    [
        ({"decision": "maybe"}, "decision: "),
        ({"decision": "fix", "request_fixed": " "}, "decision: fix and a request_fixed or a dsl_fixed go together"),
        ({"decision": "keep", "request_fixed": "Hi"}, "decision: fix and a "),
        ({"decision": "fix", "dsl_fixed": "x = await shared_a.B("}, "dsl_fixed: line 1, column "),
        ({"decision": "fix", "dsl_fixed": "if (1 == 1) {}"}, "dsl_fixed: calls no API"),
        (
            {"decision": "fix", "dsl_fixed": "x = await shared_a.B();"},
            "dsl_fixed: 'shared_a.B' is not in the catalogue",
        ),
        ({"decision": "fix", "dsl_fixed": MAIL.replace("/To", "/Too")}, "dsl_fixed: ('shared_outlook.SendEmailV2', "),
        ({"decision": "fix", "dsl_fixed": MAIL.replace('"ana@contoso.com"', "y?['body']")}, "dsl_fixed: 'y' is "),
        ({"id": "training-00000"}, "id: 'training-00000' is no test pair"),
        ({"request": "Something else"}, "request: has changed since the file was written; it is now "),
        ({"dsl": FORM}, "dsl: has changed since the file was written; it is now "),
    ],
)
def test_a_fault_names_file_line_and_field(path, pairs, catalogue, decision, complaint):
    judge(path, pairs, decision)
    with pytest.raises(InputError) as error:
        apply_review(pairs, read_review(path), catalogue)
    assert str(error.value).startswith(f"{path}, line 1: {complaint}"), error.value


def test_apis_held_out_of_training_are_no_fix_for_a_test_pair(path, pairs, catalogue):
    held = next(api for api in catalogue if api.trigger and not api.in_training)
    judge(path, pairs, {"decision": "fix", "dsl_fixed": f"triggerOutputs = await {held.name}();"})
    with pytest.raises(InputError, match=f"dsl_fixed: '{held.name}' is .* held out"):
        apply_review(pairs, read_review(path), catalogue)


def test_a_fixed_request_is_no_other_pairs_unless_that_is_dropped(path, pairs, catalogue):
    training = pairs["request"].iloc[0]
    judge(path, pairs, {"decision": "fix", "request_fixed": f"{training.upper()} !"})
    with pytest.raises(InputError, match="line 1: request_fixed: another pair has this request"):
        apply_review(pairs, read_review(path), catalogue)
    first = json.loads(review_lines(pairs, 7)[0])["request"]
    ids = judge(path, pairs, {"decision": "drop"}, {"decision": "fix", "request_fixed": first})
    result, _ = apply_review(pairs, read_review(path), catalogue)
    assert result.set_index("pair").loc[ids[1], "request"] == first


def test_files_that_are_no_review(path, pairs, catalogue):
    judge(path, pairs, *[{"decision": "drop"}] * 8)
    with pytest.raises(InputError, match="decision: every test pair is dropped"):
        apply_review(pairs, read_review(path), catalogue)
    path.write_text(path.read_text() + path.read_text().split("\n")[2] + "\n")
    with pytest.raises(InputError, match=r"line 9: id: '.*' is there twice"):
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


@given(text=st.text())
def test_what_people_write_survives_the_file(tmp_path_factory, text):
    path = tmp_path_factory.getbasetemp() / "survives.jsonl"
    row = ["test-1", "test", text or "x", FORM, ["a.b"], [[]]]
    pairs = pd.DataFrame([row, ["test-2", *row[1:2], "y z", *row[3:]]], columns=COLUMNS)
    path.write_text("".join(f"{line}\n" for line in review_lines(pairs, 7)), encoding="utf-8", newline="")
    result, _ = apply_review(pairs, read_review(path), {})
    pd.testing.assert_frame_equal(result, pairs)
