"""Parameters: what a notebook's cell tagged `parameters` declares, and the profiles that change it.

The cell is the one place: `name: type = default  # comment`, a line each. A comment may end with what values may be:
`1 to 100`, `at least 1`, `above 0`, `at most 8`, `below 1` (of each number, in a list), or `one of: compact, full`.
Those stand after a comma or a semicolon. A value may be empty, or None, where its default is, or where the comment has
`empty:`; a language model may be behind an endpoint where the comment has `remote:NAME`.

A profile is a YAML file of such names with the values that differ from the defaults, for all notebooks at once. A name
that no notebook has, a wrong type or a value out of range is an error before any work starts.
"""

from __future__ import annotations

import ast
import io
import json
import operator
import re
import tokenize
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pydantic import TypeAdapter

from lib.workbook.inputs import InputError, did_you_mean, one_line, read_yaml

FOLDER = Path(__file__).resolve().parents[2] / "notebooks"
# What `make report` runs, in the order of its pages. Other notebooks stand beside the report.
NOTEBOOKS = (*sorted(path.stem for path in FOLDER.glob("[0-9][0-9]_*.ipynb")), "index")
REMOTE = "remote:"  # begins the name of a language model behind an OpenAI-compatible endpoint
# Words that YAML or Snakemake would read as a number, a truth value or nothing.
NO_NAMES = {"inf", "infinity", "nan", "true", "false", "yes", "no", "on", "off", "y", "n", "null"}

MOST = 1e15  # no number is larger: no NaN and no infinity is below it
NUMBER = r"-?\d+(?:,\d{3})*(?:\.\d+)?"
BOUNDS = re.compile(rf"(?:^|[,;] )(?:({NUMBER}) to ({NUMBER})|(at least|above|at most|below) ({NUMBER}))(?=$|[,;])")
CHOICES = re.compile(r"(?:^|[,;] )one of: ([^;]+)")
# Whether a number is out of a bound.
BEYOND = {"at least": operator.lt, "above": operator.le, "at most": operator.gt, "below": operator.ge}


class ProfileError(InputError):
    """A profile or a notebook's parameters that cannot be used."""


class Parameters(SimpleNamespace):
    """The values of a notebook's parameters, by name: `parameters.seed`."""

    profile: str
    seed: int


@dataclass(frozen=True)
class Parameter:
    """One line of a notebook's cell of parameters."""

    name: str
    kind: str  # as written, such as `list[int]`
    default: Any
    comment: str

    @property
    def bounds(self) -> list[tuple[str, float]]:
        """(word of `BEYOND`, number), that each number keeps."""
        found: list[tuple[str, str]] = []
        for low, high, word, bound in BOUNDS.findall(self.comment):
            found += [(word, bound)] if word else [("at least", low), ("at most", high)]
        return [(word, float(bound.replace(",", ""))) for word, bound in found]

    @property
    def choices(self) -> list[str]:
        """What each text may be; empty where it is free."""
        found = CHOICES.search(self.comment)
        return [re.sub(r" \(.*\)$", "", choice.strip()) for choice in found[1].split(", ")] if found else []

    def fault(self, value: Any) -> str:
        """What is wrong with a value; empty where it may be one."""
        if value is None and self.default is None:
            return ""
        if not _is_a(self.kind, value):
            return f"must be {self.kind}"
        if value in ("", []) and self.default not in ("", []) and "empty:" not in self.comment:
            return "must not be empty"
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, str):
                if self.choices and part not in self.choices:
                    return f"must be one of {', '.join(self.choices)}{did_you_mean(part, self.choices)}"
                if is_remote(part) and f"{REMOTE}NAME" not in self.comment:
                    return "a model behind an endpoint cannot be fine-tuned or embed texts here: name a local one"
                if part.strip() == REMOTE:
                    return f"{REMOTE} must be followed by the model's name at the endpoint"
            elif isinstance(part, int | float) and not isinstance(part, bool):
                for word, bound in self.bounds:
                    if BEYOND[word](part, bound):
                        return f"must be {word} {bound:,g}"
        return ""


def _is_a(kind: str, value: Any) -> bool:
    """Whether a value is of a type as written. "7" is no integer and 1 is no boolean, but 1 is a float."""
    if kind.startswith("list"):
        return isinstance(value, list) and (kind == "list" or all(_is_a(kind[5:-1], part) for part in value))
    if kind in ("int", "float"):
        return type(value).__name__ in ("int", kind) and abs(value) < MOST
    return type(value).__name__ == kind


def is_remote(model: str) -> bool:
    """Whether a language model's name means one behind an endpoint rather than one on this machine."""
    return model.startswith(REMOTE)


def check_profile_name(name: str) -> None:
    """Raises ProfileError unless a profile may have the name, which names folders and is none for Snakemake."""
    if not re.fullmatch("[a-z][a-z0-9_-]*", name) or name in NO_NAMES:
        raise ProfileError(
            f"{name!r} cannot name a profile: a name begins with a small letter, has small letters, digits, _ and - "
            "only, and is no number or truth value"
        )


@cache
def declared(notebook: str, folder: Path = FOLDER) -> dict[str, Parameter]:
    """The parameters of a notebook, in the order of its cell. Raises ProfileError where there is no such notebook, or
    its cell has anything but declarations."""
    path = folder / f"{notebook}.ipynb"
    if not path.exists():
        raise ProfileError(f"there is no notebook {notebook}")
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    source = "\n".join("".join(cell["source"]) for cell in cells if "parameters" in cell["metadata"].get("tags", []))
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = {token.start[0]: token.string.lstrip("# ") for token in tokens if token.type == tokenize.COMMENT}
    found = {}
    for line in ast.parse(source).body:
        if not (isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name) and line.value):
            raise ProfileError(f"notebook {notebook}: a parameter is `name: type = default  # comment`")
        name, kind, default = line.target.id, ast.unparse(line.annotation), ast.literal_eval(line.value)
        found[name] = Parameter(name, kind, default, comments.get(line.end_lineno or line.lineno, ""))
    return found


def check_names(names: Iterable[str], where: str) -> None:
    """Raises ProfileError for a name that no notebook declares, one beside the report neither."""
    known = {name for path in FOLDER.glob("*.ipynb") for name in declared(path.stem)}
    for name in names:
        if name not in known:
            raise ProfileError(f"{where}: {name}: no notebook has this parameter{did_you_mean(str(name), known)}")


def notebook_parameters(notebook: str, values: dict[str, Any] | None = None, /, **changes: Any) -> Parameters:
    """The defaults of a notebook, changed by those of some values (a profile, say) that it knows, and by `changes`,
    which it must know. Raises ProfileError, which names notebook and parameter, for a value that cannot be."""
    made, known, values = {}, declared(notebook), (values or {}) | changes
    for name in changes.keys() - known.keys():
        raise ProfileError(f"notebook {notebook} has no parameter {name}{did_you_mean(name, known)}")
    for name, parameter in known.items():
        made[name] = values.get(name, parameter.default)
        if fault := parameter.fault(made[name]):
            raise ProfileError(f"notebook {notebook}: {name}: {fault} (given {one_line(repr(made[name]), 80)})")
    check_profile_name(made["profile"])
    return Parameters(**made)


def check_parameters(notebook: str, namespace: dict[str, Any]) -> Parameters:
    """A notebook's parameters out of its `globals()`. Raises as `notebook_parameters`, and for a name that papermill,
    which only warns of it, injected and no notebook has; a whole profile can be passed."""
    injected = [cell for cell in namespace.get("In", []) if cell.startswith("# Parameters\n")]
    check_names(re.findall(r"^(\w+) = ", "\n".join(injected), flags=re.MULTILINE), f"notebook {notebook}")
    return notebook_parameters(notebook, namespace)


def read_profile(path: str | Path) -> dict[str, Any]:
    """What a profile file sets, checked against every notebook that knows it. Raises ProfileError where the file is
    missing or no mapping, a key stands twice or is unknown to all notebooks, a value has a wrong type or is out of
    range, or `profile` differs from the file's name."""
    path = Path(path)
    if not path.exists():
        others = ", ".join(sorted(other.stem for other in path.parent.glob("*.yaml"))) or "none"
        raise ProfileError(f"{path}: no such profile (there are: {others})")
    try:
        values = read_yaml(path, TypeAdapter(dict[str, Any]))
        check_names(values, str(path))
        if values.get("profile") != path.stem:
            raise InputError(f"profile: must be {path.stem!r}, the file's name (given {values.get('profile')!r})")
        for notebook in sorted(other.stem for other in FOLDER.glob("*.ipynb")):
            notebook_parameters(notebook, values)
    except InputError as error:
        said = str(error).removeprefix(f"{path}: ")
        raise ProfileError(f"{path}: {said}") from error
    return values
