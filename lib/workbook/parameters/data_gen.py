"""Parameters of notebook 01_data_gen."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field, model_validator

from lib.workbook.parameters.base import LanguageModelName, LocalModelName
from lib.workbook.parameters.shared import RemoteKnobs
from lib.workbook.parameters.worlds import FlowKnobs, WorldKnobs


class DataGen(WorldKnobs, FlowKnobs, RemoteKnobs):
    notebook: ClassVar[str] = "01_data_gen"

    world_folder: str = Field(default="", description="your own personas; empty: simulate some")
    data_writer: LanguageModelName = Field(default="", description="model that writes personas; empty: simulate some")
    written_toolbox: bool = Field(default=False, description="data_writer writes the toolbox, too")
    openapi_folder: str = Field(default="", description="your own APIs; empty: the catalogue in data/")
    pairs_file: str = Field(default="", description="your own requests and flows; empty: simulate some")
    review_file: str = Field(default="", description="what people decided about test pairs; empty: nothing yet")
    workflow_encoder: LocalModelName = Field(default="all-MiniLM-L6-v2", min_length=1)
    tst_pairs: int = Field(default=100_000, ge=2)
    tst_threshold: float = Field(default=0.7, gt=-1, lt=1)

    @model_validator(mode="after")
    def _one_world(self) -> DataGen:
        if self.written_toolbox and not self.data_writer:
            raise ValueError("written_toolbox needs a data_writer: it writes the toolbox")
        if self.world_folder and self.data_writer:
            raise ValueError("world_folder and data_writer exclude each other: one of them gives the personas")
        return self
