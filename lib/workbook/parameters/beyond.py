"""Parameters of notebook 12_beyond."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from lib.workbook.parameters.base import LocalModelName
from lib.workbook.parameters.shared import HeldModel


class Repair(BaseModel):
    """Whom a test set is asked of, given as a list in the order of these fields.

    Attributes:
        generator: the fine-tuned model, or the in-context model with five few-shots and their definitions.
        test_set: requests in new wordings, in those of training, or for APIs held out of training.
        flows: the first ones of the order of asking.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    generator: Literal["finetuned", "in_context"]
    test_set: Literal["test", "test_same", "unseen"]
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


REPAIRS = [["finetuned", "test", 24], ["finetuned", "unseen", 40], ["in_context", "test", 8]]


class Beyond(HeldModel):
    notebook: ClassVar[str] = "12_beyond"

    workflow_encoder: LocalModelName = Field(default="all-MiniLM-L6-v2", min_length=1)
    generator: LocalModelName = Field(default="SmolLM2-135M-Instruct", min_length=1)
    definition_form: Literal["compact", "described", "record"] = "described"
    dsl_max_tokens: int = Field(default=256, ge=1, le=4096)
    shipped_in_context: bool = Field(default=True, description="take the shipped in-context model where it fits")
    in_context_prompts: int = Field(default=60, ge=1, description="that each half learns from where it is trained here")
    held_requests: int = Field(default=400, ge=10, description="training requests on which a constant is chosen")
    clause_requests: int = Field(default=1000, ge=2, description="of each test set, searched clause by clause")
    repairs: list[Repair] = Field(default=REPAIRS, min_length=1, validate_default=True)
    bootstrap_samples: int = Field(default=2000, ge=100, le=100_000)
