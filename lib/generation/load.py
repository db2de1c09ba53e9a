"""A language model by the name that a profile gives it: on this machine, or behind an OpenAI-compatible endpoint."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from lib.generation.answers import Answers, KeptModel
from lib.generation.local import LocalModel, weights_of
from lib.workbook.inputs import InputError
from lib.workbook.parameters import REMOTE, Parameters, is_remote


def load_language_model(
    name: str,
    cache: Answers | str | Path | None = None,
    threads: int = 2,
    quantization: str = "none",
    dry_run: bool = False,
    **settings: Any,
) -> Any:
    """The model that a profile names: `remote:NAME` is NAME behind the endpoint of `OPENAI_BASE_URL`, all else a
    `LocalModel`. Settings of the other kind do not matter; `dry_run` counts what an endpoint would be asked."""
    if not is_remote(name):
        return LocalModel(name, cache=cache, threads=threads, quantization=quantization)
    from lib.generation.remote import DryRun, RemoteModel  # their client takes a while to import

    return (DryRun if dry_run else RemoteModel)(name.removeprefix(REMOTE), cache=cache, **settings)


def remote_settings(parameters: Parameters) -> dict[str, Any]:
    """How an endpoint is asked, of a notebook's parameters, as `load_language_model` takes it. Raises InputError where
    there is a limit, but no price."""
    if parameters.spending_limit is not None and parameters.remote_price_in + parameters.remote_price_out <= 0:
        raise InputError("spending_limit needs remote_price_in or remote_price_out: without prices nothing costs")
    return {
        "price_in": parameters.remote_price_in,
        "price_out": parameters.remote_price_out,
        "limit": parameters.spending_limit,
        "dry_run": parameters.dry_run,
    }


def kept_model(
    name: str, answers: Answers, adapter: str | Path | None = None, quantization: str = "none", **machine
) -> KeptModel:
    """A model on this machine (arguments as of `LocalModel`), loaded where one of its answers is not kept."""
    load = functools.partial(LocalModel, name, adapter, answers, quantization=quantization, **machine)
    return KeptModel(answers, weights_of(name, adapter, quantization), load)
