"""The one table of methods."""

import pytest

from lib.workbook.methods import METHODS, UnknownMethod, colour, label, marker


def test_methods_differ_in_name_colour_and_marker():
    styled = [method for method in METHODS.values() if method.colour]
    for attribute in ("colour", "marker"):
        assert len({getattr(method, attribute) for method in styled}) == len(styled)
    assert len({method.label for method in METHODS.values()}) == len(METHODS)


def test_an_unknown_method_fails_and_names_the_nearest():
    assert (label("bm25t"), colour("bm25t"), marker("bm25t")) == ("BM25T", "#E69F00", "s")
    for look_up in (label, colour, marker):
        with pytest.raises(UnknownMethod, match="did you mean 'bm25t'"):
            look_up("bm25")


def test_a_method_that_no_figure_draws_has_no_style():
    assert label("rrf") == "RRF of both"
    with pytest.raises(UnknownMethod, match="no colour"):
        colour("rrf")
