"""The one table of methods."""

from lib.workbook.methods import METHODS


def test_methods_differ_in_name_colour_and_marker():
    styled = [method for method in METHODS.values() if method.colour]
    for attribute in ("colour", "marker"):
        assert len({str(getattr(method, attribute)) for method in styled}) == len(styled)
    assert len({method.label for method in METHODS.values()}) == len(METHODS)
