"""The methods of both papers and ours as a reader meets them: one name, one colour and one marker in all notebooks."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from lib.workbook.inputs import read_yaml


class Method(NamedTuple):
    """What stands for a method on a page; one that no figure draws has a label alone."""

    label: str
    colour: str = ""
    marker: str | list = ""


METHODS = {name: Method(*style) for name, style in read_yaml(Path(__file__).with_name("methods.yaml")).items()}
# A method without a style in `METHODS` is drawn like one of these, by its name.
SPARE = (("#B03060", "H"), ("#556B2F", "P"), ("#8B4513", "X"), ("#483D8B", "d"))


def method_of(name: str) -> Method:
    """The entry of a method; what it lacks is made of the method's own name."""
    known = METHODS.get(name, Method(str(name).replace("_", " ")))
    return known if known.colour else Method(known.label, *SPARE[sum(str(name).encode()) % len(SPARE)])


def label(name: str) -> str:
    """A method's name for readers."""
    return method_of(name).label


def colour(name: str) -> str:
    """A method's colour."""
    return method_of(name).colour


def marker(name: str) -> str | tuple:
    """A method's marker, as matplotlib takes it."""
    shape = method_of(name).marker
    return tuple(shape) if isinstance(shape, list) else shape
