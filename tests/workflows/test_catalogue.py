import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from lib.workbook.inputs import InputError
from lib.workflows.apis import (
    MOST_DESCRIBED,
    MOST_RECORD,
    Field,
    Operation,
)
from lib.workflows.catalogue import Catalogue

DATA = Path(__file__).parents[2] / "data"
CONNECTOR = """
connector: shared_boxes
name: Boxes
called: ["Boxes", "My Boxes"]
category: files
operations:
- id: OnNewBox
  name: When a box arrives
  description: Starts when a box arrives.
  trigger: true
  returns:
    id: id:box | box id
    from/address: person_email | sender | Who sent it
  phrases: ["a box arrives in {app}"]
- id: Ship-Box_V2
  name: Ship a box (V2)
  description: Sends a box on.
  dynamic: true
  parameters:
    box*: id:box | Box | Box to send
    body/to*: person_email | To | Who gets it
    body/priority: choice | Priority | | Low; High
    body/Due Date: date
    $top: {kind: count, summary: Top, type: integer, examples: [1, 2], format: int64}
  phrases: ["ship the box to {to}", "send it with {app}"]
- id: Ship-Box
  like: Ship-Box_V2
  name: Ship a box (V1)
  held_out: true
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "boxes.yaml").write_text(CONNECTOR, encoding="utf-8")
    return tmp_path


@pytest.fixture
def boxes(folder):
    return Catalogue.load(folder)


def test_metadata_is_that_of_the_appendix(boxes):
    told = boxes["shared_boxes.OnNewBox"].metadata
    names = "FunctionName Description IsInTrainingSet DisplayName ParametersInfo ResponseSchema IsTrigger"
    assert list(told) == names.split()
    assert told["ResponseSchema"] == [
        {"Key": "id", "Type": "String", "Summary": "box id", "Format": "", "Description": ""},
        {"Key": "from/address", "Type": "String", "Summary": "sender", "Format": "email", "Description": "Who sent it"},
    ]
    to, priority, due, top = boxes["shared_boxes.Ship-Box_V2"].metadata["ParametersInfo"][1:]
    assert (to["Key"], to["Format"]) == ("body/to", "email")
    assert (priority["Summary"], priority["Description"]) == ("Priority", "")
    assert (due["Key"], due["Format"], due["Summary"]) == ("body/Due Date", "date", "")
    assert (top["Type"], top["Format"]) == ("Integer", "int64")


def test_a_sibling_takes_over_what_it_does_not_say(boxes):
    new, old = boxes["shared_boxes.Ship-Box_V2"], boxes["shared_boxes.Ship-Box"]
    assert (old.parameters, old.phrases, old.family) == (new.parameters, new.phrases, new.family)
    assert (old.display_name, old.in_training) == ("Ship a box (V1)", False)


def test_a_record_is_that_of_the_appendix_without_whose_test_it_is_for(catalogue):
    api = catalogue["shared_outlook.SendEmailV2"]
    record = json.loads(api.definition_in("record"))
    assert record == {name: value for name, value in api.metadata.items() if name != "IsInTrainingSet"}
    assert replace(api, in_training=not api.in_training).definition_in("record") == api.definition_in("record")


def test_every_form_is_bounded_whatever_a_document_holds():
    long = Field("k" * 44, summary="s" * 9000, description="word " * 9000, type="t" * 300, format="f" * 300)
    fields = tuple(replace(long, key=f"{long.key}{number}") for number in range(40))
    wordy = Operation("shared_a", "B", "title " * 900, "A", "word " * 9000, parameters=fields, returns=fields)
    compact, described, record = (wordy.definition_in(form) for form in ("compact", "described", "record"))
    assert len(described) < MOST_DESCRIBED + 1300
    shown = [parameter["Key"] for parameter in json.loads(record)["ParametersInfo"]]
    assert len(shown) == len(compact.partition(" Keys: ")[2].split(", ")) - 1 == 18
    assert described.endswith("; 22 more")
    few = replace(wordy, parameters=fields[:1]).definition_in("record")
    assert 0 < len(json.loads(few)["ResponseSchema"]) < 40
    assert len(few) <= MOST_RECORD


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("connector: shared_boxes", "connector: boxes", ["connector", "shared_"]),
        ("id: Ship-Box\n", "id: OnNewBox\n", ["operation 3 (OnNewBox)", "twice"]),
        ("like: Ship-Box_V2", "like: Ship", ["operation 3", "like", "'Ship'"]),
        ("box*: id:box", "box*: parcel", ["operation 2 (Ship-Box_V2)", "parameters.box*", "pattern"]),
        ("| | Low; High", "| | Low | High", ["parameters.body/priority", "at most"]),
        ("to {to}", "to {whom}", ["operation 2", "phrases", "{whom}"]),
        (CONNECTOR, "[1, 2", ["cannot be read"]),
    ],
)
def test_errors_name_file_operation_and_field(folder, old, new, words):
    (folder / "boxes.yaml").write_text(CONNECTOR.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(InputError) as error:
        Catalogue.load(folder)
    for word in ["boxes.yaml", *words]:
        assert word in str(error.value)


def test_a_connector_in_two_files_is_an_error(folder):
    (folder / "more.yaml").write_text(CONNECTOR, encoding="utf-8")
    with pytest.raises(InputError, match=r"more\.yaml: connector shared_boxes is in another file"):
        Catalogue.load(folder)


def test_the_example_of_a_connector_is_one(tmp_path):
    shutil.copy(DATA / "examples" / "parcels.yaml", tmp_path)
    catalogue = Catalogue.load(tmp_path)
    assert [api.operation for api in catalogue] == ["OnNewParcel", "LabelParcel", "LabelParcel_V1"]


def test_a_catalogue_on_disk_is_the_same_catalogue(catalogue):
    lines = catalogue.to_lines()
    again = Catalogue.from_lines(lines)
    assert len(lines) == len(again) == 698
    assert again == catalogue
    assert list(again.apis) == list(catalogue.apis)
