"""What every notebook's parameters have in common, and the check of those that a notebook was given.

A notebook's parameters stand in its cell tagged `parameters`; their types, ranges and defaults are a pydantic model in
a module of this package named after the notebook. A name that no notebook knows, a wrong type or a value out of range
is an error before any work starts.
"""

from __future__ import annotations

import ast
import json
import re
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from lib.workbook.inputs import InputError, did_you_mean

NOTEBOOKS = Path(__file__).resolve().parents[3] / "notebooks"


# Words that YAML or Snakemake would read as a number, a truth value or nothing.
NO_NAMES = {"inf", "infinity", "nan", "true", "false", "yes", "no", "on", "off", "y", "n", "null"}


REMOTE = "remote:"  # begins the name of a language model behind an OpenAI-compatible endpoint


class ProfileError(InputError):
    """A profile or a notebook's parameters that cannot be used."""


def is_remote(model: str) -> bool:
    """Whether a language model's name means one behind an endpoint rather than one on this machine."""
    return model.startswith(REMOTE)


def _on_this_machine(model: str) -> str:
    if is_remote(model):
        raise ValueError("a model behind an endpoint cannot be fine-tuned or embed texts here: name a local one")
    return model


def _named(model: str) -> str:
    if is_remote(model) and not model.removeprefix(REMOTE).strip():
        raise ValueError(f"{REMOTE} must be followed by the model's name at the endpoint")
    return model


def check_profile_name(name: str) -> str:
    """The name, if a profile may have it: it names folders, and Snakemake must not take it for something else.

    Raises:
        ProfileError: it may not.
    """
    if not re.fullmatch("[a-z][a-z0-9_-]*", name) or name in NO_NAMES:
        raise ProfileError(
            f"{name!r} cannot name a profile: a name begins with a small letter, has small letters, digits, _ and - "
            "only, and is no number or truth value"
        )
    return name


ProfileName = Annotated[str, AfterValidator(check_profile_name)]
LocalModelName = Annotated[str, AfterValidator(_on_this_machine)]


LanguageModelName = Annotated[str, AfterValidator(_named)]


class Parameters(BaseModel):
    """Parameters that every notebook has. Types are strict: "7" is no integer and 1 is no boolean.

    Attributes:
        notebook: whose parameters they are, its file's name without the ending; stated by each notebook's model.
    """

    notebook: ClassVar[str] = ""

    model_config = ConfigDict(extra="forbid", strict=True)

    profile: ProfileName = Field(default="quick", description="names the folders of data and report")
    seed: int = Field(default=7, ge=0, lt=2**32, description="seed of everything drawn at random")


NotebookParameters = TypeVar("NotebookParameters", bound=Parameters)


def check_parameters(model: type[NotebookParameters], namespace: dict[str, Any]) -> NotebookParameters:
    """A notebook's parameters out of its `globals()`, validated.

    papermill only warns of names it does not find, so every name set by a cell of plain assignments (the one tagged
    `parameters`, the one papermill injects) must be known to some notebook. Names of other notebooks are let through,
    so that a whole profile can be passed.

    Raises:
        ProfileError: naming the notebook and the parameter.
    """
    known, cells = known_names(), namespace.get("In")
    given = set(namespace) if cells is None else {name for cell in cells for name in literal_assignments(cell)}
    for name in sorted(given):
        if name not in known:
            raise ProfileError(
                f"notebook {model.notebook}: {name}: no notebook has this parameter{did_you_mean(name, known)}"
            )
    try:
        return model.model_validate(select(namespace, model))
    except ValidationError as error:
        raise ProfileError(f"notebook {model.notebook}: {describe(error)}") from None  # the sentence says it all


@cache
def known_names() -> frozenset[str]:
    """The names in the cells tagged `parameters` of all notebooks."""
    cells = (cell for path in sorted(NOTEBOOKS.glob("*.ipynb")) for cell in parameters_cells(path))
    return frozenset(name for cell in cells for name in literal_assignments(cell))


def parameters_cells(notebook: Path) -> list[str]:
    """The source of each cell of a notebook that is tagged `parameters`."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if "parameters" in cell["metadata"].get("tags", [])]


def literal_assignments(source: str) -> dict[str, Any]:
    """{name: value} that a cell sets, if it does nothing but assign literals; otherwise nothing."""
    found = {}
    try:
        for statement in ast.parse(source).body:
            if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
                target, value = statement.targets[0], statement.value
            elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
                target, value = statement.target, statement.value
            else:
                return {}
            if not isinstance(target, ast.Name):
                return {}
            found[target.id] = ast.literal_eval(value)
    except (SyntaxError, ValueError):
        return {}
    return found


def select(values: dict[str, Any], model: type[Parameters]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name in model.model_fields}


def describe(error: ValidationError) -> str:
    """Every problem of a pydantic error as `key: what is wrong, not value`."""
    parts = []
    for problem in error.errors():
        key = ".".join(str(part) for part in problem["loc"])
        message = re.sub(r"^Value error, ", "", problem["msg"])
        parts.append(f"{key}: {message} (given {problem['input']!r})" if key else message)
    return "; ".join(parts)
