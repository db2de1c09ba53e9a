import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lib.workbook.inputs import InputError
from lib.workflows import pairs as module
from lib.workflows.language import parse, validate
from lib.workflows.pairs import (
    apply_review,
    dsl_hash,
    is_judged,
    nearest_training_pairs,
    read_pairs,
    read_reworded,
    request_vectors,
    review_lines,
    sample,
)
from lib.workflows.scoring import similarity

DATA = Path(__file__).parents[2] / "data"

# Appendix A.1 of the workflow paper.
PAPER_REQUEST = "Post a message in the channel of teams, when a new form is created in the forms"
PAPER_FLOW = """triggerOutputs = await shared_microsoftforms.CreateFormWebhook({});
outputs_shared_teams_PostMessageToConversation = shared_teams.PostMessageToConversation({"poster": "User"});"""
PAPER_PREDICTION = ["shared_microsoftforms.CreateFormWebhook", "shared_office365users.MyProfile_V2",
                    "shared_teams.PostMessageToConversation"]  # fmt: skip


def of(pairs, split):
    return pairs[pairs["split"] == split]


def test_the_papers_example_is_a_flow_of_our_catalogue(tmp_path, catalogue):
    path = tmp_path / "pairs.jsonl"
    pair = {"request": PAPER_REQUEST, "dsl": PAPER_FLOW}
    path.write_text("\n".join(json.dumps(pair | {"split": split}) for split in ("training", "test")), encoding="utf-8")
    pairs = read_pairs(path, catalogue)
    assert pairs["pair"].tolist() == ["training-00001", "test-00002"]
    assert pairs.loc[0, "apis"] == ["shared_microsoftforms.CreateFormWebhook", "shared_teams.PostMessageToConversation"]
    assert validate(parse(PAPER_FLOW), catalogue).made_up_parameters == ()
    assert similarity(PAPER_PREDICTION, pairs.loc[0, "apis"]) == pytest.approx(2 / 3)


def test_what_the_catalogue_lacks_is_counted_and_the_first_named(tmp_path, catalogue, caplog):
    path = tmp_path / "pairs.jsonl"
    wrong = [PAPER_FLOW.replace('"poster"', '"postr"'), "x = await shared_x.OnIt();"]
    lines = [{"request": "A", "dsl": dsl, "split": split} for split in ("training", "test") for dsl in wrong]
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    read_pairs(path, catalogue)
    (said,) = caplog.messages
    assert said == (
        f"{path}: 4 flows use what the catalogue lacks; line 1: shared_teams.PostMessageToConversation has no "
        "parameter postr; did you mean poster?"
    )


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ({"request": "A", "dsl": "x = await shared_x.OnIt("}, "line 2: dsl: line 1, column 2"),
        ({"request": "A", "dsl": PAPER_FLOW, "id": "first"}, "line 2: id: 'first' is there twice"),
        ({"request": "A", "dsl": "if (true) { }"}, "line 2: dsl: "),
    ],
)
def test_bad_pairs_name_file_line_and_field(tmp_path, catalogue, line, words):
    path = tmp_path / "pairs.jsonl"
    first = {"request": "B", "dsl": PAPER_FLOW, "id": "first"}
    path.write_text(json.dumps(first) + "\n" + json.dumps(line), encoding="utf-8")
    with pytest.raises(InputError, match=re.escape(f"{path}, {words}")):
        read_pairs(path, catalogue)


@pytest.mark.parametrize("missing", ["training", "test"])
def test_pairs_to_learn_from_and_to_test_on_are_needed(tmp_path, catalogue, missing):
    path = tmp_path / "pairs.jsonl"
    splits = {"training", "test", "unseen"} - {missing}
    path.write_text("\n".join(json.dumps({"request": "A", "dsl": PAPER_FLOW, "split": split}) for split in splits))
    with pytest.raises(InputError, match=re.escape(f"{path}: split: no pair is a {missing} pair")):
        read_pairs(path, catalogue)


def test_reworded_requests_of_this_worlds_flows_are_kept(tmp_path, pairs):
    first, second = of(pairs, "test").iloc[0], of(pairs, "test").iloc[1]
    path = tmp_path / "reworded.yaml"
    record = '- {{pair: {}, dsl: "{}", request: in my own words}}\n'
    records = [(second["pair"], dsl_hash(first["dsl"])), ("nobody", "0" * 12), (first["pair"], dsl_hash(first["dsl"]))]
    path.write_text("".join(record.format(*one) for one in records), encoding="utf-8")
    found = read_reworded(path, pairs)
    assert list(found) == [*pairs.columns, "original"]
    assert found[["pair", "request", "original", "dsl"]].to_numpy().tolist() == [
        [first["pair"], "in my own words", first["request"], first["dsl"]]
    ]
    none = read_reworded(path, of(pairs, "unseen"))
    assert (len(none), list(none)) == (0, list(found))
    path.write_text("- {pair: test-00000, dsl: x}")
    with pytest.raises(InputError, match=r"reworded\.yaml: record 1\.request: Field required"):
        read_reworded(path, pairs)


def test_samples_nest_and_stay_in_their_split():
    pairs = pd.DataFrame({"pair": [f"p{i}" for i in range(100)], "split": ["training", "test"] * 50})
    whole = sample(pairs, "test", 60, seed=7)
    assert sorted(whole["pair"]) == sorted(pairs.loc[pairs["split"] == "test", "pair"])
    assert sample(pairs, "test", 12, seed=7)["pair"].tolist() == whole["pair"].tolist()[:12]
    assert sample(pairs, "test", 60, seed=8)["pair"].tolist() != whole["pair"].tolist()
    assert len(sample(pairs, "unseen", 5, seed=7)) == 0


class LengthEncoder:
    """Vectors that show how many texts were encoded together."""

    def encode(self, texts, **_):
        return np.tile([[1.0, len(texts)]], (len(texts), 1)) / np.hypot(1, len(texts))


def test_sets_that_came_later_move_no_others_vectors(monkeypatch):
    monkeypatch.setattr(module, "FIRST_UNSEEN", 1)
    texts = [f"text {number}" for number in range(7)]
    splits = ["training", "training", "test", "unseen", "unseen", "test_same", "test_same"]
    pairs = pd.DataFrame({"split": splits, "request": texts})
    vectors = request_vectors(LengthEncoder(), pairs)
    assert (vectors[:, 1] / vectors[:, 0]).round().tolist() == [4, 4, 4, 4, 3, 3, 3]
    assert np.array_equal(request_vectors(LengthEncoder(), pairs.head(4)), vectors[:4])


def test_the_nearest_training_pair_of_each_other_pair():
    rows = [("a", "training", "x;", ["s.On", "s.Post"]), ("b", "training", "y;", ["s.On", "s.Mail"]),
            ("c", "test", "x;", ["s.On", "s.Post"]), ("d", "unseen", "z;", ["s.On", "s.Mail", "s.File"])]  # fmt: skip
    pairs = pd.DataFrame(rows, columns=["pair", "split", "dsl", "apis"])
    found = nearest_training_pairs(pairs, np.array([0, 1]), np.array([0.9, 0.8]))
    told = ["c", "test", "a", 0.9, 1.0, True], ["d", "unseen", "b", 0.8, pytest.approx(2 / 3), False]
    assert found.to_numpy().tolist() == list(told)


@pytest.fixture
def sheet(tmp_path, pairs):
    """Writes the review file of 20 pairs with these decisions on its first lines; returns path, pairs and records."""
    few = pd.concat([of(pairs, "training").head(12), of(pairs, "test").head(8)], ignore_index=True)

    def write(*decisions):
        records = [json.loads(line) for line in review_lines(few, 7)]
        for record, decision in zip(records, decisions, strict=False):
            record.update(decision)
        path = tmp_path / "review.jsonl"
        path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
        return path, few, records

    return write


def test_pairs_are_kept_and_dropped(sheet):
    path, few, records = sheet()
    tests = of(few, "test").set_index("pair")
    assert sorted(record["id"] for record in records) == sorted(tests.index)
    assert [record["id"] for record in records] != tests.index.tolist(), "a seeded order"
    assert all((r["request"], r["dsl"]) == tuple(tests.loc[r["id"], ["request", "dsl"]]) for r in records)
    assert not is_judged(path)
    pd.testing.assert_frame_equal(apply_review(few, path)[0], few)
    sheet({"decision": "keep"}, {"decision": "drop"})
    path.write_text("\n\n".join(path.read_text().split("\n")[:6]), encoding="utf-8")  # two lines were deleted
    result, counts = apply_review(few, path)
    assert dict(counts.to_numpy()) == {"keep": 1, "drop": 1, "undecided": 4, "not in the file": 2}
    assert result["pair"].tolist() == [pair for pair in few["pair"] if pair != records[1]["id"]]
    assert is_judged(path)
    path.write_text(path.read_text()[:-30])
    assert is_judged(path), "somebody's editor was at it"


@pytest.mark.parametrize(
    ("decision", "complaint"),
    [
        ({"decision": "maybe"}, "decision: "),
        ({"id": "training-00000"}, "id: 'training-00000' is no test pair"),
        ({"request": "Something else"}, "request: has changed since the file was written; it is now "),
    ],
)
def test_a_fault_of_the_sheet_names_file_line_and_field(sheet, decision, complaint):
    path, few, _ = sheet(decision)
    with pytest.raises(InputError, match=re.escape(f"{path}, line 1: {complaint}")):
        apply_review(few, path)


def test_sheets_that_are_no_review(sheet):
    path, few, _ = sheet(*[{"decision": "drop"}] * 8)
    with pytest.raises(InputError, match="decision: every test pair is dropped"):
        apply_review(few, path)
    path.write_text(path.read_text() + path.read_text().split("\n")[2] + "\n")
    with pytest.raises(InputError, match=r"line 9: id: '.*' is there twice"):
        apply_review(few, path)
    path.write_text("\n\n")
    with pytest.raises(InputError, match="holds no test pair"):
        apply_review(few, path)
