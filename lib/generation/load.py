"""A language model by the name that a profile gives it: on this machine, or behind an OpenAI-compatible endpoint."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lib.generation.answers import Answers, KeptModel
from lib.generation.local import CPU_ROWS, LocalModel, weights_of
from lib.workbook.inputs import InputError
from lib.workbook.parameters import REMOTE, Parameters, is_remote

if TYPE_CHECKING:
    from lib.generation.remote import RemoteModel


def load_language_model(
    name: str,
    cache: Answers | str | Path | None = None,
    *,
    batch_size: int = CPU_ROWS,
    threads: int = 2,
    quantization: str = "none",
    record: str | Path | None = None,
    concurrency: int = 8,
    price_in: float = 0.0,
    price_out: float = 0.0,
    limit: float | None = None,
    dry_run: bool = False,
) -> LocalModel | RemoteModel:
    """The model that a profile names; settings of the other kind of model do not matter.

    Example:
        >>> model = load_language_model(writer, book.data / "answers", **remote_settings(parameters))

    Args:
        name: `remote:NAME` for NAME behind the endpoint of `OPENAI_BASE_URL`; else a registered name, a folder or a
            Hugging Face id.
        cache: keeps answers, or a folder for them; None keeps none.
        batch_size, threads, quantization: of a local model (see `LocalModel`).
        record, concurrency, price_in, price_out, limit: of a remote one (see `RemoteModel`).
        dry_run: count what a remote one would be asked, and ask nobody (see `DryRun`).

    Raises:
        ModelError: the model cannot be found, or the endpoint's address is missing.
    """
    if not is_remote(name):
        return LocalModel(name, cache=cache, batch_size=batch_size, threads=threads, quantization=quantization)
    from lib.generation.remote import DryRun, RemoteModel  # their client takes a while to import

    return (DryRun if dry_run else RemoteModel)(
        name.removeprefix(REMOTE),
        cache=cache,
        record=record,
        concurrency=concurrency,
        price_in=price_in,
        price_out=price_out,
        limit=limit,
    )


def remote_settings(parameters: Parameters) -> dict[str, Any]:
    """How an endpoint is asked, of a notebook's parameters, as `load_language_model` takes it.

    Raises:
        InputError: there is a limit, but no price.
    """
    if parameters.spending_limit is not None and parameters.remote_price_in + parameters.remote_price_out <= 0:
        raise InputError("spending_limit needs remote_price_in or remote_price_out: without prices nothing costs")
    return {
        "concurrency": parameters.remote_concurrency,
        "price_in": parameters.remote_price_in,
        "price_out": parameters.remote_price_out,
        "limit": parameters.spending_limit,
        "dry_run": parameters.dry_run,
    }


def kept_model(
    name: str,
    answers: Answers,
    adapter: str | Path | None = None,
    quantization: str = "none",
    kind: type[LocalModel] = LocalModel,
    **machine,
) -> KeptModel:
    """A model on this machine, loaded where one of its answers is not kept.

    Args:
        name, adapter, quantization, machine: see `LocalModel`.
    """
    load = functools.partial(kind, name, adapter, answers, quantization=quantization, **machine)
    return KeptModel(answers, weights_of(name, adapter, quantization), load)


def loader(**settings) -> Callable[[str], LocalModel | RemoteModel]:
    """`load_language_model` with these settings, by name; a model is loaded once, however often it is asked for."""
    return functools.cache(functools.partial(load_language_model, **settings))
