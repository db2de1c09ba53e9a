import json
import re
import warnings
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lib.workbook.inputs import InputError
from lib.workflows.catalogue import Catalogue
from lib.workflows.openapi import MOST_RETURNED


def swagger(**more):
    operation = {"operationId": "GetBox", "summary": "Get a box", "description": "Fetches a box.", "responses": {}}
    return {"swagger": "2.0", "info": {"title": "Boxes"}, "paths": {"/box": {"get": operation | more}}}


def openapi(**more):
    return swagger(**more) | {"openapi": "3.0.1"}


def read(tmp_path, document, name="boxes.json"):
    """The catalogue from one document (data, text or bytes), and the warnings' texts."""
    text = document if isinstance(document, str | bytes) else json.dumps(document)
    (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
    return load(tmp_path / name)


def load(path):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        catalogue = Catalogue.from_openapi(path)
    return catalogue, [str(warning.message) for warning in caught]


def quiet(tmp_path, document):
    """The only API of a document that is read without a warning."""
    catalogue, warned = read(tmp_path, document)
    assert warned == []
    (api,) = catalogue
    return api


def parameter(name, place="query", **more):
    return {"name": name, "in": place, "type": "string"} | more


def test_choices_lists_and_use_are_read(tmp_path):
    declared = [
        parameter("priority", enum=["high", "low", "a  b"]),
        parameter("only", enum=["one"]),
        parameter("board", **{"x-ms-dynamic-values": {"operationId": "GetBoards"}}),
        parameter("plain", example="Whitby"),
    ]
    read = quiet(tmp_path, swagger(parameters=declared, **{"x-ms-visibility": "important"}))
    assert [(field.kind, field.examples) for field in read.parameters] == [
        ("choice", ("high", "low", "a b")), ("any", ("one",)), ("container", ()), ("any", ("Whitby",)),
    ]  # fmt: skip
    assert (read.use, read.internal) == ("core", False)


def test_the_metadata_of_a_plain_document(tmp_path):
    document = swagger(
        parameters=[
            parameter("id", "path", required=True, **{"x-ms-summary": "Id"}),
            parameter("$top", type="integer", format="int32", description="How many\n at most"),
            {"name": "item", "in": "body", "required": True, "schema": {
                "type": "object", "required": ["to"],
                "properties": {"to": {"type": "string", "format": "email", "title": "To"},
                               "size": {"properties": {"high": {"type": "number"}}},
                               "tags": {"type": "array", "items": {"type": "object", "properties": {"x": {}}}}}}},
        ],
        responses={"200": {"schema": {"properties": {"name": {"type": "string", "description": "Its name"}}}}},
    )  # fmt: skip
    api = quiet(tmp_path, document)
    assert api.name == "shared_boxes.GetBox"
    assert [(one.key, one.type, one.summary, one.format, one.description, one.required) for one in api.parameters] == [
        ("id", "string", "Id", "", "", True),
        ("$top", "integer", "", "int32", "How many at most", False),
        ("item/to", "string", "To", "email", "", True),
        ("item/size/high", "number", "", "", "", False),
        ("item/tags", "array", "", "", "", False),
    ]
    assert [field.key for field in api.returns] == ["name"]
    assert (api.display_name, api.description, api.app_name) == ("Get a box", "Fetches a box.", "Boxes")
    assert (api.trigger, api.dynamic, api.internal, api.in_training) == (False, False, False, False)


def test_openapi_3_bodies_parameters_and_responses(tmp_path):
    schema = {"required": ["to"], "properties": {"to": {"type": ["null", "string"]}}}
    document = openapi(
        parameters=[{"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}}],
        requestBody={"required": True, "content": {"text/csv": {}, "application/json": {"schema": schema}}},
        responses={201: {"content": {"application/json": {"schema": {"properties": {"id": {"type": "integer"}}}}}}},
    )
    api = quiet(tmp_path, document)
    assert [(field.key, field.type, field.required) for field in api.parameters] == [
        ("id", "integer", True),
        ("body/to", "string", True),
    ]
    assert [field.key for field in api.returns] == ["id"]


def test_fields_of_a_form_have_no_prefix_and_a_plain_body_is_one_key(tmp_path):
    form = {"content": {"multipart/form-data": {"schema": {"properties": {"file": {"format": "binary"}}}}}}
    assert quiet(tmp_path, openapi(requestBody=form)).keys == {"file"}
    plain = {"content": {"text/plain": {"schema": {"type": "string"}}}}
    assert quiet(tmp_path, openapi(requestBody=plain)).keys == {"body"}
    assert quiet(tmp_path, swagger(parameters=[{"name": "image", "in": "body", "schema": {}}])).keys == {"image"}


def test_yaml(tmp_path):
    text = """
openapi: 3.0.0
info: {title: Boxes, version: 2024-01-01}
paths: {/box: {get: {operationId: GetBox, parameters: [{name: on, schema: {enum: [no, 2024-01-01, true]}}],
  responses: {200: {content: {application/json: {schema: {properties: {x: {}}}}}}}}}}
"""
    catalogue, warned = read(tmp_path, text, "boxes.yml")
    assert warned == []
    (api,) = catalogue
    assert [(field.key, field.examples) for field in api.parameters] == [("on", ("no", "2024-01-01", True))]
    assert [field.key for field in api.returns] == ["x"]


def test_parameters_by_reference_and_of_the_path(tmp_path):
    document = swagger(parameters=[{"$ref": "#/parameters/page~1no"}, parameter("id", "path", description="New")])
    document["parameters"] = {"page/no": parameter("page")}
    document["paths"]["/box"]["parameters"] = [parameter("id", "path", description="Old"), parameter("area", "path")]
    api = quiet(tmp_path, document)
    assert [(field.key, field.description) for field in api.parameters] == [("id", "New"), ("area", ""), ("page", "")]


def test_all_of_joins_and_alternatives_are_all_legal(tmp_path):
    document = swagger(parameters=[{"name": "body", "in": "body", "required": True, "schema": {
        "allOf": [{"$ref": "#/definitions/Named"}, {"properties": {"size": {}}, "required": ["size"]}],
        "oneOf": [{"properties": {"a": {}}, "required": ["a"]}, {"properties": {"b": {}}}],
        "properties": {"own": {}}}}])  # fmt: skip
    document["definitions"] = {"Named": {"properties": {"name": {}}, "required": ["name"]}}
    api = quiet(tmp_path, document)
    assert {field.key: field.required for field in api.parameters} == {
        "body/name": True, "body/size": True, "body/own": False, "body/a": False, "body/b": False,
    }  # fmt: skip


def test_all_of_that_holds_itself_and_references_in_a_circle_end(tmp_path):
    document = swagger(parameters=[{"name": "body", "in": "body", "schema": {"$ref": "#/definitions/A"}},
                                   {"$ref": "#/parameters/x"}, {"in": "query"}, parameter("q")])  # fmt: skip
    document["definitions"] = {"A": {"allOf": [{"$ref": "#/definitions/A"}, {"properties": {"a": {}}}]}}
    document["parameters"] = {"x": {"$ref": "#/parameters/y"}, "y": {"$ref": "#/parameters/x"}}
    catalogue, warned = read(tmp_path, document)
    assert catalogue["shared_boxes.GetBox"].keys == {"body/a", "q"}
    assert re.search("GetBox: a parameter without name is left out.*circle", warned[0])


def test_definitions_that_double_at_each_level_are_cut_with_a_warning(tmp_path):
    document = swagger(parameters=[{"name": "body", "in": "body", "schema": {"$ref": "#/definitions/D0"}}])
    document["definitions"] = {
        f"D{i}": {"properties": {f"p{j}": {"$ref": f"#/definitions/D{i + 1}"} for j in range(9)}, "required": ["p0"],
                  "allOf": [{"$ref": f"#/definitions/D{i + 1}"}] * 9} for i in range(30)}  # fmt: skip
    catalogue, warned = read(tmp_path, document)
    assert len(catalogue["shared_boxes.GetBox"].keys) > 100
    assert "GetBox: a schema has more than 2,000 fields" in warned[0]


def test_triggers_internal_operations_and_dynamic_schemas(tmp_path):
    document = swagger(**{"x-ms-trigger": "single", "x-ms-visibility": "internal"})
    dynamic = {"type": "object", "x-ms-dynamic-schema": {"operationId": "S"}}
    hidden = parameter("key", **{"x-ms-visibility": "internal"})
    post = {"operationId": "PostBox", "parameters": [{"name": "item", "in": "body", "schema": dynamic}, hidden]}
    notified = {"schema": {"properties": {"boxId": {}}}}
    document["paths"]["/box"] |= {"x-ms-notification-content": notified, "post": post}
    catalogue, warned = read(tmp_path, document)
    trigger, action = catalogue
    assert (trigger.trigger, trigger.internal, trigger.dynamic) == (True, True, False)
    assert [field.key for field in trigger.returns] == ["boxId"]
    assert (action.trigger, action.internal, action.dynamic) == (False, False, True)
    assert action.keys == {"item", "key"}
    assert [field["Key"] for field in action.metadata["ParametersInfo"]] == ["item"]
    assert warned == []


def test_a_batch_trigger_returns_one_item(tmp_path):
    items = {"type": "array", "items": {"properties": {"subject": {}}}}
    for schema in (items, {"properties": {"value": items, "count": {}}}):
        document = swagger(responses={"200": {"schema": schema}}, **{"x-ms-trigger": "batch"})
        assert [field.key for field in quiet(tmp_path, document).returns] == ["subject"]


def test_what_is_only_read_is_no_parameter(tmp_path):
    properties = {"id": {"readOnly": True}, "name": {}}
    document = swagger(parameters=[{"name": "body", "in": "body", "schema": {"properties": properties}}],
                       responses={"default": {"schema": {"properties": properties}}})  # fmt: skip
    api = quiet(tmp_path, document)
    assert api.keys == {"body/name"}
    assert [field.key for field in api.returns] == ["id", "name"]


@pytest.mark.parametrize(
    ("given", "expected"),
    [("/api/status/get", "api_status_get"), ("2Get", "_2Get"), (None, "get_box")],
)
def test_ids_that_are_no_identifiers(tmp_path, given, expected):
    catalogue, warned = read(tmp_path, swagger(operationId=given))
    assert [api.operation for api in catalogue] == [expected]
    assert f"operation id {given!r} of get /box: now {expected}" in warned[0]


GOOD = json.dumps(swagger(parameters=[parameter("a"), parameter("b")]), indent=1)


@pytest.mark.parametrize(
    "text",
    [
        b"\xef\xbb\xbf" + GOOD.encode(),
        GOOD.replace("Boxes", "Bøxes").encode("cp1252"),
        GOOD.replace("Fetches", "Fet\tch\x01es"),
        GOOD[: GOOD.rindex("}")] + ",}",  # a comma too many
        "// exported\n" + GOOD.replace("Fetches", "http://a /* b */") + "/* end */",
        "swagger: 2\ninfo: {title: Boxes}\npaths: {/: {get: {operationId: GetBox, parameters: [name: a, name: b]}}}",
    ],
)
def test_encodings_and_control_characters(tmp_path, text):
    catalogue, warned = read(tmp_path, text)
    assert warned == []
    (api,) = catalogue
    assert (api.operation, api.keys) == ("GetBox", {"a", "b"})
    assert api.app_name in ("Boxes", "Bøxes")


def bodies(tmp_path, schema, **components):
    """The fields of a body of this schema."""
    document = openapi(requestBody={"content": {"application/json": {"schema": schema}}})
    document["components"] = {"schemas": components}
    return {field.key: field for field in quiet(tmp_path, document).parameters}


def test_null_is_no_alternative_and_choices_are_joined(tmp_path):
    fields = bodies(tmp_path, {"properties": {
        "depth": {"anyOf": [{"type": "null"}, {"type": "integer"}]},
        "way": {"oneOf": [{"title": "Drip", "const": "drip"}, {"title": "Spray", "const": "spray"}]},
        "level": {"type": "integer", "oneOf": [{"const": 1}, {"const": 2}]},
        "mode": {"anyOf": [{"type": "string", "enum": ["drip", "spray"]}, {"$ref": "#/components/schemas/Mist"}]},
        "version": {"const": 2},
    }}, Mist={"enum": ["mist"]})  # fmt: skip
    assert {key: (one.type, one.kind, one.examples, one.summary) for key, one in fields.items()} == {
        "body/depth": ("integer", "any", (), ""),
        "body/way": ("string", "choice", ("drip", "spray"), ""),
        "body/level": ("integer", "choice", (1, 2), ""),
        "body/mode": ("string", "choice", ("drip", "spray", "mist"), ""),
        "body/version": ("integer", "any", (2,), ""),
    }


def test_a_path_and_a_form_may_have_parameters_of_one_name(tmp_path):
    form = {"content": {"multipart/form-data": {"schema": {"properties": {"id": {"type": "integer"}}}}}}
    document = openapi(parameters=[{"name": "id", "in": "path", "schema": {"type": "string"}}], requestBody=form)
    fields = quiet(tmp_path, document).parameters
    assert [(field.key, field.type) for field in fields] == [("id", "string"), ("body/id", "integer")]


def test_examples_of_a_parameter(tmp_path):
    named = {"one": {"value": "tomato"}, "two": {"$ref": "#/components/examples/Leek"}, "far": {"externalValue": "x"}}
    crop = {"name": "crop", "in": "query", "schema": {"type": "string"}, "examples": named}
    bed = {"name": "bed", "in": "query", "schema": {"type": "string", "examples": ["north"]}}
    document = openapi(parameters=[crop, bed]) | {"components": {"examples": {"Leek": {"value": "leek"}}}}
    assert [field.examples for field in quiet(tmp_path, document).parameters] == [("tomato", "leek"), ("north",)]


def test_the_first_response_that_has_fields_counts_and_their_number_is_bounded(tmp_path):
    many = {f"f{number}": {"type": "string"} for number in range(MOST_RETURNED + 1)}
    later = {"content": {"application/json": {"schema": {"properties": many}}}}
    responses = {"200": {"description": "done"}, "201": {"content": {"text/plain": {}}}, "202": later}
    catalogue, warned = read(tmp_path, openapi(responses=responses))
    assert len(catalogue["shared_boxes.GetBox"].returns) == MOST_RETURNED
    assert f"GetBox: a schema has more than {MOST_RETURNED} fields" in warned[0]


def test_references_to_files_below_the_documents_folder(tmp_path):
    (tmp_path / "parts").mkdir()
    (tmp_path / "outside.json").write_text('{"operationId": "Outside"}')
    home = tmp_path / "parts"
    (home / "ops").mkdir()
    (home / "ops/list.json").write_text('{"operationId": "ListBoxes", "parameters": [{"$ref": "../row.yaml#/row"}]}')
    (home / "row.yaml").write_text("row: {name: row, in: query}")
    document = swagger()
    document["paths"] = {"/a": {"get": {"$ref": "ops/list.json"}}, "/b": {"get": {"$ref": "../outside.json"}}}
    (home / "api.json").write_text(json.dumps(document))
    catalogue, warned = load(home)
    assert catalogue["shared_api.ListBoxes"].keys == {"row"}
    assert [api.operation for api in catalogue] == ["ListBoxes", "get_b"]
    assert "reference ../outside.json leads nowhere" in warned[0]
    assert catalogue.skipped == [], "parts of a document are no documents"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"a": 1}', "neither a Swagger 2 nor an OpenAPI 3"),
        ('{"swagger": "2.0", "paths": {}}', "no operation"),
        ('{"swagger": "2.0",\n "paths": {', "is not JSON: .*line 2"),
        ("[" * 100_000, "nested too deeply"),
        ('{"a": ' + "9" * 5000 + ', "swagger": 2}', "is not JSON: Exceeds the limit"),
        ("\0" * 9, "is not JSON"),
    ],
)
def test_a_file_that_is_of_no_use_is_skipped_and_counted(tmp_path, text, reason):
    (tmp_path / "boxes.json").write_text(text)
    (tmp_path / "good.json").write_text(json.dumps(swagger()))
    catalogue, warned = load(tmp_path)
    ((file, why),) = catalogue.skipped
    assert [api.name for api in catalogue] == ["shared_good.GetBox"]
    assert file.endswith("boxes.json")
    assert re.search(reason, why)
    assert warned == [f"{file}: skipped: {why}"]


def test_a_folder_of_many_odd_files_warns_in_one_line_each(tmp_path):
    for number in range(9):
        (tmp_path / f"bad{number}.json").write_text("{,}")
        (tmp_path / f"odd{number}.json").write_text(json.dumps(swagger(operationId="a b")))
    catalogue, warned = load(tmp_path)
    assert len(catalogue.skipped) == len(catalogue) == 9
    assert [text.count(": 9 of 18 files have such a warning as ") for text in warned] == [1, 1]


def test_a_folder_with_good_and_bad_files(tmp_path):
    for place in ("one", "two"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "apiDefinition.swagger.json").write_text(GOOD)
    (tmp_path / "One.YAML").write_text(GOOD)
    (tmp_path / "bad.json").write_text("{,}")
    (tmp_path / "notes.txt").write_text("not read")
    catalogue, _ = load(tmp_path)
    assert set(catalogue.connectors) == {"shared_one", "shared_one_2", "shared_two"}
    assert len(catalogue) == 3
    assert [Path(file).name for file, _ in catalogue.skipped] == ["bad.json"]


@pytest.mark.parametrize("name", ["", "missing.json"])
def test_nothing_to_read_is_an_error(tmp_path, name):
    with pytest.raises(InputError, match=r"holds no|no such"):
        Catalogue.from_openapi(tmp_path / name)


values = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["", "a", "object", "#/definitions/A", "#/paths"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["$ref", "properties", "items", "allOf", "required", "type", "schema", "name", "in", "content",
                         "parameters", "responses", "200", "get", "requestBody", "x-ms-trigger", "operationId"]),
        inner, max_size=4),
    max_leaves=25,
)  # fmt: skip


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(operation=values, item=values, definition=values)
def test_no_document_however_odd_raises(tmp_path, operation, item, definition):
    paths = {"/a": {"get": operation, "parameters": item}, "/b": item, "/c": {"$ref": "#/definitions/A"}}
    paths["/ok"] = {"get": {"operationId": "Ok", "parameters": [{"$ref": "#/definitions/A"}]}}
    catalogue, _ = read(tmp_path, {"swagger": "2.0", "paths": paths, "definitions": {"A": definition}})
    assert "shared_boxes.Ok" in catalogue
    json.dumps([api.metadata for api in catalogue])
