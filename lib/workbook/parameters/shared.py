"""What several notebooks' parameters share."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from lib.workbook.parameters.base import LanguageModelName, LocalModelName, Parameters, is_remote

Cutoffs = Annotated[list[Annotated[int, Field(ge=1, le=100)]], Field(min_length=1, max_length=10)]


class RemoteKnobs(Parameters):
    """How an endpoint is asked, for notebooks that may ask one. Prices are those of the model that they ask."""

    remote_concurrency: int = Field(default=8, ge=1, le=256, description="requests under way at most")
    remote_price_in: float = Field(default=0.0, ge=0, le=1e6, description="of a million tokens of prompts")
    remote_price_out: float = Field(default=0.0, ge=0, le=1e6, description="of a million tokens of answers")
    spending_limit: float | None = Field(default=None, ge=0, description="of each notebook; None is no limit")

    dry_run: bool = Field(default=False, description="count what would be asked, ask nobody, go on with placeholders")

    @model_validator(mode="after")
    def _prices_for_the_limit(self) -> RemoteKnobs:
        if self.spending_limit is not None and self.remote_price_in + self.remote_price_out <= 0:
            raise ValueError("spending_limit needs remote_price_in or remote_price_out: without prices nothing costs")
        return self

    @property
    def remote(self) -> dict[str, Any]:
        """These settings as `lib.generation.load.load_language_model` takes them."""
        return {
            "concurrency": self.remote_concurrency,
            "price_in": self.remote_price_in,
            "price_out": self.remote_price_out,
            "limit": self.spending_limit,
            "dry_run": self.dry_run,
        }


class ContextRetrieval(Parameters):
    """What all notebooks on context retrieval share."""

    encoder: LocalModelName = Field(default="all-MiniLM-L6-v2", min_length=1)
    cutoffs: Cutoffs = [3, 5, 10]
    bootstrap_samples: int = Field(default=2000, ge=100, le=100_000)


class CoTWriters(ContextRetrieval, RemoteKnobs):
    """The language models that write chains of thought."""

    writer: LanguageModelName = Field(default="SmolLM2-135M-Instruct", min_length=1)
    distilled_writer: LocalModelName = Field(default="", description="learns from experts; empty: the writer itself")

    @model_validator(mode="after")
    def _one_that_can_be_distilled(self) -> CoTWriters:
        if is_remote(self.writer) and not self.distilled_writer:
            raise ValueError(
                "distilled_writer: a model behind an endpoint cannot be fine-tuned: name a local one beside writer, "
                "such as `distilled_writer: SmolLM2-135M-Instruct`"
            )
        return self


class HeldModel(Parameters):
    """How the weights of a language model on this machine are held."""

    quantization: Literal["none", "nf4"] = Field(default="none", description="nf4: in 4 bits (QLoRA)")


class TunedModel(HeldModel):
    """How a language model is fine-tuned."""

    training_processes: int = Field(default=1, ge=1, le=64, description="of accelerate launch, one a GPU")
