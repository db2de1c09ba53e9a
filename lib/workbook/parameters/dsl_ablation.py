"""Parameters of notebook 09_dsl_ablation: the rows of the ablation and how they are asked."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from lib.workbook.parameters.base import LanguageModelName, LocalModelName, is_remote
from lib.workbook.parameters.shared import HeldModel, RemoteKnobs


class Condition(BaseModel):
    """A row of the ablation's table, given as a list in the order of these fields.

    Attributes:
        selector: whose few-shots: by the pretrained encoder or by TST, or drawn at random; `_learned` searches only the
            pairs that the fine-tuned model learned from.
        shots: few-shots in the prompt.
        definitions: none; FD, SFD or both, after the few-shots; FD before them; `instruction`: how to use definitions,
            without any; `gold`: those of the right flow's APIs, which no method could know.
        generator: the language model as it comes, or fine-tuned on requests and flows.
        decoding: free, under the grammar, under the grammar with the catalogue's names and keys, or with those of the
            APIs that the prompt shows.
        flows: test flows it is tried on, the first ones of the order of notebook 08.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    selector: Literal["pretrained", "tst", "pretrained_learned", "random"]
    shots: int = Field(ge=0, le=100)
    definitions: Literal["none", "instruction", "fd", "fd_first", "sfd", "fd_sfd", "gold"]
    generator: Literal["untuned", "finetuned"]
    decoding: Literal["free", "grammar", "catalogue", "grounded"]
    flows: int = Field(ge=1)

    @model_validator(mode="before")
    @classmethod
    def _from_row(cls, row: Any) -> Any:
        fields = list(cls.model_fields)
        if not isinstance(row, list):
            return row
        if len(row) != len(fields):
            raise ValueError(f"a row must have {len(fields)} entries: {', '.join(fields)}")
        return dict(zip(fields, row, strict=True))

    @model_validator(mode="after")
    def _possible(self) -> Condition:
        if self.decoding == "grounded" and not self.shots and self.definitions in ("none", "instruction"):
            raise ValueError("decoding grounded needs few-shots or definitions: their APIs are what may be called")
        if self.selector in ("pretrained_learned", "random") and self.definitions in ("sfd", "fd_sfd"):
            raise ValueError("SFD shows as many definitions as FD: it needs the few-shots of pretrained or tst")
        if self.generator == "finetuned" and self.definitions != "none":
            raise ValueError("the fine-tuned model reads no definitions")
        return self

    @property
    def name(self) -> str:
        """What the condition is called in artifacts, such as `tst_20_fd_sfd`."""
        parts = [self.selector if self.shots else "no", str(self.shots or "shots")]
        usual = {"none", "untuned", "free"}
        return "_".join(
            [*parts, *(part for part in (self.definitions, self.generator, self.decoding) if part not in usual)]
        )


# The rows of the paper's Tables 1 to 4, baselines included: selector, few-shots, definitions.
PUBLISHED_ROWS = [
    *((selector, shots, what) for shots in (5, 20) for selector in ("pretrained", "tst") for what in ("none", "fd")),
    ("tst", 20, "sfd"),
    ("tst", 20, "fd_sfd"),
]


ABLATION = [
    *([selector, shots, what, "untuned", "free", 30 if shots == 5 else 12] for selector, shots, what in PUBLISHED_ROWS),
    *(["pretrained", shots, "none", "untuned", "free", 30 if shots < 5 else 12] for shots in (0, 1, 3, 10)),
    ["random", 5, "none", "untuned", "free", 30],
    ["pretrained", 5, "instruction", "untuned", "free", 30],
    ["pretrained", 5, "fd_first", "untuned", "free", 30],
    ["pretrained", 5, "fd_first", "untuned", "grounded", 30],
    ["pretrained_learned", 5, "none", "untuned", "free", 30],
    ["pretrained_learned", 5, "none", "untuned", "catalogue", 30],
    *(["pretrained", 5, "none", "untuned", decoding, 30] for decoding in ("grammar", "catalogue", "grounded")),
    ["tst", 5, "none", "finetuned", "free", 30],
    ["pretrained", 0, "none", "finetuned", "catalogue", 30],
]


class DSLAblation(HeldModel, RemoteKnobs):
    notebook: ClassVar[str] = "09_dsl_ablation"

    generator: LocalModelName = Field(default="SmolLM2-135M-Instruct", min_length=1)
    untuned_generator: LanguageModelName = Field(default="", description="reads few-shots; empty: the generator")
    remote_window: int = Field(default=8192, ge=256, description="tokens that prompt and answer may have")
    dsl_max_tokens: int = Field(default=256, ge=1, le=4096)
    ablation: list[Condition] = Field(default=ABLATION, validate_default=True)
    new_shots: list[Annotated[int, Field(ge=0, le=100)]] = Field(default=[0, 1], min_length=1, max_length=5)
    unseen_flows: int = Field(default=12, ge=1)
    bootstrap_samples: int = Field(default=2000, ge=100, le=100_000)

    @model_validator(mode="after")
    def _rows(self) -> DSLAblation:
        names = [row.name for row in self.ablation]
        twice = next((name for name in names if names.count(name) > 1), "")
        if twice:
            raise ValueError(f"ablation: two rows are {twice}")
        plain = {
            (row.selector, row.shots, row.definitions)
            for row in self.ablation
            if (row.generator, row.decoding) == ("untuned", "free")
        }
        for row in PUBLISHED_ROWS:
            if row not in plain:
                raise ValueError(f"ablation: the paper's row {[*row, 'untuned', 'free']} is missing")
        return self

    @model_validator(mode="after")
    def _no_grammar_for_an_endpoint(self) -> DSLAblation:
        bound = [row.name for row in self.ablation if row.generator == "untuned" and row.decoding != "free"]
        if is_remote(self.untuned_generator) and bound:
            raise ValueError(
                f"ablation: {self.untuned_generator} cannot be held to a grammar, as {', '.join(bound)} must be: "
                "give these rows the decoding free or leave them out"
            )
        if is_remote(self.untuned_generator) and self.dsl_max_tokens >= self.remote_window:
            raise ValueError("remote_window: must be larger than dsl_max_tokens")
        return self
