"""Parameters of notebook 11_transfer."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from lib.workbook.parameters.base import LocalModelName, Parameters


class Transfer(Parameters):
    notebook: ClassVar[str] = "11_transfer"

    encoder: LocalModelName = Field(default="all-MiniLM-L6-v2", min_length=1)
    flow_bench_folder: str = Field(
        default="../flow-bench", description="with Flow-Bench's two files, if they are there"
    )
    workbench_folder: str = Field(default="../workbench", description="with WorkBench's data, if they are there")
    tst_part: str = Field(default="tst-100000", description="the shipped encoder tuned on this workbook's requests")
    generator: LocalModelName = Field(default="SmolLM2-135M-Instruct", min_length=1)
    quantization: Literal["none", "nf4"] = "none"
    flow_bench_flows: int = Field(default=40, ge=2, description="requests that flows are written for")
    instruct_generator: LocalModelName = Field(
        default="", description="an instruct model that writes them, too; empty: its kept answers are shown"
    )
    workbench_plans: int = Field(default=40, ge=2, description="templates of which one request is planned")
    bootstrap_samples: int = Field(default=2000, ge=100, le=100_000)
