import pytest

from lib.workbook.references import References

SCHEMAS = {
    "Bed": {"allOf": [{"type": "object"}, {"properties": {"soil": {}}}]},
    "Pot": {"$anchor": "pot", "$id": "https://a.b/pot", "type": "object", "$defs": {"Lid": {"type": "number"}}},
    "a/b": {"type": "string", "description": "Old", "properties": {"x": {}}},
    "Loop": {"$ref": "#/s/Loop"},
}


@pytest.mark.parametrize(
    ("reference", "found"),
    [
        ("#/s/Bed/allOf/1", {"properties": {"soil": {}}}),
        ("#/s/Bed/allOf/2", {}),
        ("#/s/Bed/allOf/x", {}),
        ("#/s/a~1b/description", "Old"),
        ("#pot", SCHEMAS["Pot"]),
        ("https://a.b/pot#/type", "object"),
        ("#/$defs/Lid", {"type": "number"}),
        ("#/$defs/No", {}),
        ("#/s/Loop", {}),
        ("part.json#/deep/0", 7),
        ("none.json", {}),
    ],
)
def test_what_a_reference_stands_for(reference, found):
    files = {"part.json": {"deep": [7]}}
    references = References({"s": SCHEMAS}, files.get)
    node = {"$ref": reference}
    assert references.resolve({"$ref": reference}) == found
    assert bool(references.lost) == (found == {})
    assert references.resolve(node) is references.resolve(node)


def test_what_stands_beside_a_reference():
    references = References({"s": SCHEMAS})
    told = {"$ref": "#/s/a~1b", "description": "New", "enum": ["x"]}
    assert references.resolve(told) == SCHEMAS["a/b"] | {"description": "New", "enum": ["x"]}
    wider = {"$ref": "#/s/a~1b", "properties": {"y": {}}}
    assert references.resolve(wider) == {"properties": {"y": {}}, "allOf": [SCHEMAS["a/b"]]}
