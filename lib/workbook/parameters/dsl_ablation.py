"""Parameters of notebook 09_dsl_ablation: the rows of the ablation and how they are asked."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from lib.workbook.parameters.base import LanguageModelName, LocalModelName, is_remote
from lib.workbook.parameters.shared import HeldModel, RemoteKnobs

MAY_STAND_BESIDE_SFD = ("pretrained", "tst", "tst_affine")  # selectors whose few-shots bring a number of definitions


class Condition(BaseModel):
    """A row of the ablation's table, given as a list in the order of these fields.

    Attributes:
        selector: whose few-shots: by the pretrained encoder, by TST or by TST with a learned scale before its loss;
            drawn at random; `other`: those of another request; `oracle_shots`: the nearest by the right flow, which no
            method could know.
        shots: few-shots in the prompt.
        definitions: none; FD, SFD or both, after the few-shots; `instruction`: how to use definitions, without any;
            `gold`: those of the right flow's APIs, which no method could know.
        generator: the language model as it comes; fine-tuned on requests and flows; in_context: taught to read
            few-shots on connectors that it is not asked about; an instruct model, asked through its chat template.
        decoding: free, under the grammar, or under the grammar with the catalogue's names and keys.
        flows: of each test set that it is tried on, the first ones of one order.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    selector: Literal["pretrained", "tst", "tst_affine", "random", "other", "oracle_shots"]
    shots: int = Field(ge=0, le=100)
    definitions: Literal["none", "instruction", "fd", "sfd", "fd_sfd", "gold"]
    generator: Literal["untuned", "finetuned", "in_context", "instruct"]
    decoding: Literal["free", "grammar", "catalogue"]
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
        if self.selector not in MAY_STAND_BESIDE_SFD and self.definitions in ("sfd", "fd_sfd"):
            beside = ", ".join(MAY_STAND_BESIDE_SFD)
            raise ValueError(f"SFD shows as many definitions as FD: it needs the few-shots of one of {beside}")
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
BASELINE = "no_shots_finetuned"  # of Table 4

COMPARED_WITH = [PUBLISHED_ROWS[0], PUBLISHED_ROWS[2]]  # five few-shots: what Tables 1 and 2 cannot do without

ABLATION = [
    *([selector, 5, "none", "in_context", "free", 12] for selector in ("pretrained", "tst")),
    *([selector, 5, "fd", "in_context", "free", 6] for selector in ("pretrained", "tst")),
    *([selector, 20, what, "in_context", "free", 2] for selector in ("pretrained", "tst") for what in ("none", "fd")),
    *(["tst", 20, what, "in_context", "free", 2] for what in ("sfd", "fd_sfd")),
    ["pretrained", 0, "none", "in_context", "free", 6],
    ["random", 5, "none", "in_context", "free", 6],
    ["other", 5, "none", "in_context", "free", 6],
    ["pretrained", 0, "none", "finetuned", "free", 12],
    ["pretrained", 0, "none", "finetuned", "catalogue", 6],
]


class DSLAblation(HeldModel, RemoteKnobs):
    notebook: ClassVar[str] = "09_dsl_ablation"

    generator: LocalModelName = Field(default="SmolLM2-135M-Instruct", min_length=1)
    untuned_generator: LanguageModelName = Field(
        default="", description="stands for GPT-4; empty: the in-context model"
    )
    workflow_encoder: LocalModelName = Field(default="all-MiniLM-L6-v2", min_length=1)
    instruct_generator: LocalModelName = Field(
        default="", description="an instruct model; empty: its rows are left out"
    )
    prompt_window: int = Field(default=8192, ge=256, description="tokens that prompt and answer may have at most")
    dsl_max_tokens: int = Field(default=256, ge=1, le=4096)
    test_sets: list[Literal["test", "test_same"]] = Field(default=["test", "test_same"], min_length=1, max_length=2)
    definition_form: Literal["compact", "described", "record"] = "described"
    shipped_in_context: bool = Field(default=True, description="take the shipped in-context model where it fits")
    in_context_prompts: int = Field(default=60, ge=1, description="that each half learns from where it is trained here")
    ablation: list[Condition] = Field(default=ABLATION, validate_default=True)
    new_shots: list[Annotated[int, Field(ge=0, le=100)]] = Field(default=[0, 1], min_length=1, max_length=5)
    unseen_flows: int = Field(default=3, ge=1)
    bootstrap_samples: int = Field(default=2000, ge=100, le=100_000)

    @property
    def reader(self) -> str:
        """The generator that stands for GPT-4: the untuned one where it has a name, else the in-context one."""
        return "untuned" if self.untuned_generator else "in_context"

    @property
    def rows(self) -> list[Condition]:
        """The conditions that are asked: those of the instruct model only where the profile names one."""
        return [row for row in self.ablation if row.generator != "instruct" or self.instruct_generator]

    @model_validator(mode="after")
    def _rows(self) -> DSLAblation:
        names = [row.name for row in self.ablation]
        twice = next((name for name in names if names.count(name) > 1), "")
        if twice:
            raise ValueError(f"ablation: two rows are {twice}")
        plain = {
            (row.selector, row.shots, row.definitions)
            for row in self.ablation
            if (row.generator, row.decoding) == (self.reader, "free")
        }
        for row in COMPARED_WITH:
            if row not in plain:
                raise ValueError(f"ablation: the paper's row {[*row, self.reader, 'free']} is missing")
        if BASELINE not in names:
            raise ValueError("ablation: Table 4 needs the row [pretrained, 0, none, finetuned, free, …]")
        if len(set(self.test_sets)) < len(self.test_sets):
            raise ValueError("test_sets: one of them stands there twice")
        return self

    @model_validator(mode="after")
    def _no_grammar_for_an_endpoint(self) -> DSLAblation:
        bound = [row.name for row in self.ablation if row.generator == "untuned" and row.decoding != "free"]
        if is_remote(self.untuned_generator) and bound:
            raise ValueError(
                f"ablation: {self.untuned_generator} cannot be held to a grammar, as {', '.join(bound)} must be: "
                "give these rows the decoding free or leave them out"
            )
        if self.dsl_max_tokens >= self.prompt_window:
            raise ValueError("prompt_window: must be larger than dsl_max_tokens")
        return self
