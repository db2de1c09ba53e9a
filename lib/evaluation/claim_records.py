"""The papers' claims as records: what each says of which methods, and where its boundary lies.

`data/claims.yaml` holds them; `lib.evaluation.claims` tests them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from lib.workbook.inputs import InputError, read_yaml

# What a claim is about, and why the groups after the first one are counted apart.
ABOUT = {
    "method": "about methods",
    "writer": "on text that our small language model wrote: the paper's own writer, far larger, is not tested here",
    "definition": "about trends under one of several definitions of a metric: they test the definition, which the "
    "paper leaves open, more than a method",
    "world": "on queries that leave out what a call takes: part of ours say it, and in the world hard, where none "
    "does, the verdict is another (pages 06 and 07)",
    "training_size": "where training sets may decide: the methods learned from sets of very different size, or ours "
    "(such as our fine-tuned model or our TST encoder) from far fewer examples than the paper's, or from none of the "
    "kind asked about (our in-context model from no prompt that shows neither few-shots nor definitions)",
    "all_flows": "on valid flows (they parse and make nothing up) among all: the paper counts made-up names and keys "
    "among the flows that parse, and few-shots and definitions change which these are",
}

Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
Text = Annotated[str, Field(min_length=1)]


class ClaimError(InputError):
    """A file of claims that cannot be used; names the file, the claim and the field."""


def _rising(values: list) -> list:
    if values != sorted(set(values)):
        raise ValueError("must rise, without repetition")
    return values


Cutoffs = Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1), AfterValidator(_rising)]
Column = tuple[str, str, int]  # method, metric, k


class Claim(BaseModel):
    """What all claims have. `margin` is the smallest effect worth the name, in the unit of the effect.

    `about` says what decides the claim (see `ABOUT`). `published_as` names the published row that stands for one of our
    methods where it has another name.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    claim: Name
    test: str
    paper: Literal["assistant", "workflow"]
    source: Text
    statement: Text
    scores: Name
    metric: Name
    a: Annotated[list[Name], Field(min_length=1)]
    cutoffs: Cutoffs
    margin: Annotated[float, Field(gt=0)]
    about: Literal["method", "writer", "definition", "world", "training_size", "all_flows"] = "method"
    published_as: dict[Name, Name] = {}

    unit: ClassVar[str] = "points"

    @property
    def own_values(self) -> bool:
        """Whether each side averages the queries that have a value there, whatever the other side has."""
        return False

    def cells(self, known: set[int]) -> list[tuple[str, str, Column, Column | float]]:
        """(method, K, left column, right column or constant) of everything that must hold, at cutoffs we scored."""
        return [
            (method, str(k), (method, self.metric, k), self.against(k))
            for method in self.a
            for k in self.cutoffs
            if k in known
        ]

    def against(self, k: int) -> Column | float:
        """What a method is held against at a cutoff: a column, or a constant."""
        raise NotImplementedError

    def effect(self, left, right):
        """The effect from the means of both sides."""
        return left - right

    @property
    def boundaries(self) -> list[float]:
        """Effects that separate the claimed side from the other one."""
        return [0.0]

    def depth(self, effect: float) -> float:
        """How far an effect lies on the claimed side; negative on the other one."""
        return effect - self.boundaries[0]


class Paired(Claim):
    """Each of `a` against `b`.

    Where it is `conditional`, each side averages the queries that have a value there, as a table of rates does, and the
    p-value is that of the queries that have one on both; otherwise a query that one side lacks counts for neither.
    """

    b: Name
    conditional: bool = False

    @property
    def own_values(self):
        return self.conditional

    def against(self, k):
        return self.b, self.metric, k


class Comparison(Paired):
    """`greater` or `less`; `not_less` or `not_more` by more than the margin; the `same` within the margin."""

    test: Literal["greater", "less", "not_less", "not_more", "same"]

    @property
    def boundaries(self):
        away = {"not_less": [-self.margin], "not_more": [self.margin], "same": [-self.margin, self.margin]}
        return away.get(self.test, [0.0])

    def depth(self, effect):
        if self.test == "same":
            return self.margin - abs(effect)
        return -super().depth(effect) if self.test in ("less", "not_more") else super().depth(effect)


class Ratio(Paired):
    """Each of `a` at least `size` times `b`."""

    test: Literal["ratio"]
    size: Annotated[float, Field(gt=1)]

    unit = "fold"

    def effect(self, left, right):
        return np.divide(left, right, out=np.full(np.shape(right), np.nan), where=np.asarray(right) != 0)

    @property
    def boundaries(self):
        return [1.0]


class Below(Claim):
    """Each of `a` below a fixed `level`, in percent."""

    test: Literal["below"]
    level: float

    unit = "percent"

    def against(self, k):
        return self.level

    def effect(self, left, right):
        return left

    @property
    def boundaries(self):
        return [self.level]

    def depth(self, effect):
        return self.level - effect


class Trend(Claim):
    """Each of `a` `rises` or `falls` from the first cutoff to each later one.

    Each mean has its own queries; the p-value is that of the queries with a value at both cutoffs.
    """

    test: Literal["rises", "falls"]
    cutoffs: Annotated[Cutoffs, Field(min_length=2)]

    @property
    def own_values(self):
        return True

    def cells(self, known):
        first, *later = self.cutoffs
        return [
            (method, f"{first} to {k}", (method, self.metric, k), (method, self.metric, first))
            for method in self.a
            for k in later
            if {first, k} <= known
        ]

    def depth(self, effect):
        return effect if self.test == "rises" else -effect


RECORD = TypeAdapter(Annotated[Comparison | Ratio | Below | Trend, Field(discriminator="test")])


def read_claims(path: str | Path) -> list[Claim]:
    """The claims of a file, in its order.

    Raises:
        ClaimError: the file is no YAML list of claims, a field is missing, unknown or wrong, or a name stands twice.
    """
    path = Path(path)
    try:
        records = read_yaml(path)
    except InputError as error:
        raise ClaimError(str(error)) from error
    if not isinstance(records, list):
        raise ClaimError(f"{path}: expected a list of claims")
    claims: list[Claim] = []
    for number, record in enumerate(records, start=1):
        name = record.get("claim") if isinstance(record, dict) else None
        where = f"{path}: claim {name or f'number {number}'}"
        try:
            claim = RECORD.validate_python(record)
        except ValidationError as error:
            problem = error.errors()[0]
            # The first part of a location is the value of `test`, by which the model was chosen.
            field = ".".join(str(part) for part in problem["loc"][1:]) or "test"
            raise ClaimError(f"{where}: {field}: {problem['msg']} (given {problem['input']!r})") from error
        if claim.claim in {other.claim for other in claims}:
            raise ClaimError(f"{where}: claim: the name stands twice")
        claims.append(claim)
    return claims
