"""The one table of methods."""

from lib.workbook.methods import METHODS, colour, label, marker


def test_methods_differ_in_name_colour_and_marker():
    styled = [method for method in METHODS.values() if method.colour]
    for attribute in ("colour", "marker"):
        assert len({getattr(method, attribute) for method in styled}) == len(styled)
    assert len({method.label for method in METHODS.values()}) == len(METHODS)


def test_a_method_without_an_entry_can_be_shown():
    assert (label("bm25t"), colour("bm25t"), marker("bm25t")) == ("BM25T", "#E69F00", "s")
    assert (label("my_ranking"), colour("my_ranking")) == ("my ranking", colour("my_ranking"))
    assert colour("my_ranking").startswith("#")
    assert marker("my_ranking")
