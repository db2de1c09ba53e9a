"""Answers of a shipped model that are kept with the project: thousands, which a laptop takes an hour to write.

A file has one JSON line an answer: `key`, a hash of the weights, the longest answer and the prompt; `text`; and
`dtype`, that of the computation. A prompt or a model that has changed since finds none. What a keeper finds depends on
the prompt alone, so that it may be asked for any part of what is kept.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import pandas as pd

from lib.generation import local, models
from lib.generation.local import LocalModel, Usage
from lib.generation.models import ModelError
from lib.generation.registry import REGISTRY
from lib.workbook.artifacts import ArtifactError, atomic_path

ENOUGH = 0.95  # of the requests that were kept must be found: those that a change did not touch are no fair sample
KEY_LENGTH = 24  # hexadecimal digits: two of ten million prompts share a key once in 10^15 files


def key_of(weights: str, max_new_tokens: int, prompt: str) -> str:
    """What an answer is kept under."""
    return hashlib.sha256(f"{weights}\0{max_new_tokens}\0{prompt}".encode()).hexdigest()[:KEY_LENGTH]


def weights_of(name: str, default: str, quantization: str = "none") -> str:
    """What answers of a model are kept under: its fingerprint, for the registered model `default` the published hash of
    its weights, which need not be there."""
    if name == default:
        return next(iter(REGISTRY[default].files.values()))
    return local.fingerprint(models.locate(name), quantization=quantization)


@dataclass(frozen=True)
class Kept:
    """Answers of one model.

    Attributes:
        weights: its fingerprint (`lib.generation.local.fingerprint`); empty: no answer is looked for.
        max_new_tokens: of an answer.
        answers: {key: (text, dtype)}, of any model.
    """

    weights: str
    max_new_tokens: int
    answers: dict[str, tuple[str, str]] = field(repr=False)

    @classmethod
    def of_model(cls, path: Path, default: str, name: str, max_new_tokens: int) -> Kept:
        """Those of a model, in a file that comes with the project.

        Args:
            default: the registered model whose answers the file has; it need not be there, its published hash will do.
            name: of the model; empty: the default.
        """
        return cls.read(path, weights_of(name or default, default), max_new_tokens)

    @classmethod
    def read(cls, path: Path, weights: str, max_new_tokens: int) -> Kept:
        """Those in a file; none where there is no file.

        Raises:
            ArtifactError: a line is not one of an answer.
        """
        found = _lines(path, ("text", "dtype")) if weights else {}
        answers = {key: (row["text"], row["dtype"]) for key, row in found.items()}
        return cls(weights, max_new_tokens, answers)

    def found(self, prompts: Iterable[str]) -> list[tuple[str, str] | None]:
        """Text and dtype of each prompt's answer; None where none is kept."""
        return [self.answers.get(key_of(self.weights, self.max_new_tokens, prompt)) for prompt in prompts]

    def whole(self, prompts: pd.DataFrame, by: Sequence[str]) -> pd.Series:
        """Whether an answer is kept to a prompt and to all others of its group.

        Args:
            prompts: columns prompt and `by`, which tell the groups, such as a query's settings.
        """
        there = pd.Series([one is not None for one in self.found(prompts["prompt"])], prompts.index)
        return there.groupby([prompts[name] for name in by]).transform("all")


class Asked(Protocol):
    """Who answers: `lib.generation.local.LocalModel`, or `Conversations`."""

    fingerprint: str
    dtype: str

    def generate(self, prompts: Sequence[str], max_new_tokens: int, *, progress: bool = False) -> list[str]: ...


class Conversations:
    """A local model that is asked in conversations, each as JSON (`lib.generation.local.conversation`).

    Attributes:
        fingerprint: under which its answers are kept.
    """

    def __init__(self, model: LocalModel, fingerprint: str):
        self.model, self.fingerprint, self.dtype = model, fingerprint, model.dtype

    def generate(self, prompts: Sequence[str], max_new_tokens: int, *, progress: bool = False) -> list[str]:
        """The answer to each conversation."""
        texts = [local.conversation(self.model.tokenizer, json.loads(prompt)) for prompt in prompts]
        return self.model.generate(texts, max_new_tokens, progress=progress)


class Keeper:
    """A model that is asked for what is not kept, and keeps that beside.

    Attributes:
        used, asked: prompts whose answers were kept with the project, and those asked now, so far.
        dtypes: that the kept ones were written in.
    """

    def __init__(self, model: Asked | None, kept: Kept, own: Path):
        """
        Args:
            model: the one whose answers are kept; None will do where all are.
            own: a file to add answers to that are asked now.
        """
        self.model, self.kept, self.own = model, kept, own
        self.used: set[str] = set()
        self.asked: set[str] = set()
        self.dtypes: set[str] = set()

    def generate(self, prompts: Sequence[str], progress: bool = False) -> list[str]:
        """Answers in the order of `prompts`; see `lib.generation.local.LocalModel.generate`."""
        found = self.kept.found(prompts)
        missing = [prompt for prompt, answer in zip(prompts, found, strict=True) if answer is None]
        texts: list[str] = []
        if missing:
            assert self.model is not None
            texts = self.model.generate(missing, self.kept.max_new_tokens, progress=progress)
            self._keep(missing, texts)
        self.asked |= set(missing)
        self.used |= set(prompts) - self.asked
        self.dtypes |= {answer[1] for answer in found if answer}
        fresh = iter(texts)
        return [answer[0] if answer else next(fresh) for answer in found]

    def _keep(self, prompts: Sequence[str], texts: Sequence[str]) -> None:
        assert self.model is not None
        weights = self.kept.weights or self.model.fingerprint
        keys = [key_of(weights, self.kept.max_new_tokens, prompt) for prompt in prompts]
        answers = {key: {"text": text, "dtype": self.model.dtype} for key, text in zip(keys, texts, strict=True)}
        _add_lines(self.own, answers)


class KeptCalls:
    """A local model whose answers are kept with the settings of the call: the `generate`, `finished` and `usage` of
    `lib.generation.local.LocalModel`, for `lib.generation.structured.ask` and whoever draws answers or stops them.

    Attributes:
        finished: whether each answer of the last call ended by itself.
        usage: what the last call took when its answers were computed; the seconds of one are the mean of its call.
        used, asked, dtypes: see `Keeper`.
    """

    def __init__(self, path: Path, weights: str, own: Path, model: Callable[[], LocalModel] | None = None):
        """
        Args:
            path: a file with a JSON line an answer: key, text, finished, dtype, and cost (tokens in, tokens out,
                seconds); it need not be there.
            weights: fingerprint of the model.
            own: a file to add answers to that are asked now.
            model: loads it where an answer is not kept; without it, only what is kept can be asked.

        Raises:
            ArtifactError: a line is not one of an answer.
        """
        self.weights, self.own = weights, own
        self.answers = _lines(path, ("text", "finished", "dtype", "cost"))
        self._load = model and functools.cache(model)
        self.finished: list[bool] = []
        self.usage = Usage()
        self.used: set[str] = set()
        self.asked: set[str] = set()
        self.dtypes: set[str] = set()

    def has(self, prompts: Sequence[str], grammars: Sequence[str | None] | None = None, **settings) -> bool:
        """Whether the answers to all prompts under these settings are kept."""
        return self.answers.keys() >= set(self._keys(prompts, grammars, settings))

    def generate(
        self,
        prompts: Sequence[str],
        max_new_tokens: int = 128,
        grammars: Sequence[str | None] | None = None,
        progress: bool = False,
        **settings,
    ) -> list[str]:
        """Answers in the order of `prompts`.

        Raises:
            ModelError: one is not kept, and there is no model to ask.
        """
        settings["max_new_tokens"] = max_new_tokens
        keys = self._keys(prompts, grammars, settings)
        missing = [i for i, key in enumerate(keys) if key not in self.answers]
        if missing:
            if not self._load:
                raise ModelError(f"{len(missing)} of {len(keys)} answers are not kept, and no model is named to ask")
            model = self._load()
            some = [grammars[i] for i in missing] if grammars else None
            texts = model.generate([prompts[i] for i in missing], progress=progress, grammars=some, **settings)
            each = model.usage.seconds / model.usage.prompts
            for i, text, finished, cost in zip(missing, texts, model.finished, model.costs, strict=True):
                spent = [cost.tokens_in, cost.tokens_out, round(each, 4)]
                self.answers[keys[i]] = {"text": text, "finished": bool(finished), "dtype": model.dtype, "cost": spent}
                self.asked.add(keys[i])
            _add_lines(self.own, {keys[i]: self.answers[keys[i]] for i in missing})
        found = [self.answers[key] for key in keys]
        self.used |= set(keys) - self.asked
        self.dtypes |= {self.answers[key]["dtype"] for key in self.used}
        self.finished = [answer["finished"] for answer in found]
        distinct = dict(zip(keys, found, strict=True))
        costs = [answer["cost"] for answer in distinct.values()]
        self.usage = Usage(len(distinct), *(sum(column) for column in zip(*costs, strict=True)))
        self.usage.cached = len(distinct) - len({keys[i] for i in missing})
        return [answer["text"] for answer in found]

    def _keys(self, prompts: Sequence[str], grammars: Sequence[str | None] | None, settings: Mapping) -> list[str]:
        said = json.dumps(settings, sort_keys=True)
        pairs = zip(prompts, grammars or [None] * len(prompts), strict=True)
        return [key_of(f"{self.weights}\0{said}\0{grammar or ''}", 0, prompt) for prompt, grammar in pairs]


def _lines(path: Path, entries: Sequence[str]) -> dict[str, dict]:
    """The lines of a file by their key; none where there is no file.

    Raises:
        ArtifactError: a line lacks an entry.
    """
    found = {}
    lines = path.read_text(encoding="utf-8").split("\n") if path.exists() else []
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        try:
            row = json.loads(line)
            found[row["key"]] = {name: row[name] for name in entries}
        except (ValueError, KeyError, TypeError) as error:
            raise ArtifactError(f"{path}, line {number}: no answer ({error})") from error
    return found


def _add_lines(path: Path, answers: Mapping[str, Mapping]) -> None:
    """Add answers to a file, one line a key."""
    lines = {}
    if path.exists():
        lines = {json.loads(line)["key"]: line for line in path.read_text(encoding="utf-8").splitlines()}
    lines |= {key: json.dumps({"key": key, **answer}) for key, answer in answers.items()}
    with atomic_path(path) as temporary:
        temporary.write_text("".join(f"{line}\n" for line in lines.values()), encoding="utf-8")


def where_from(keeper: Keeper | KeptCalls, what: str, who: str) -> str:
    """Where answers are from: a sentence.

    Args:
        what: the answers, in the plural.
        who: wrote them.
    """
    if not keeper.used:
        return f"All {len(keeper.asked):,} {what} of {who} were written in this run."
    more = f"; {len(keeper.asked):,} were written in this run" if keeper.asked else ""
    dtypes = " and ".join(sorted(keeper.dtypes))
    return (
        f"{len(keeper.used):,} {what} of {who} were written once, in {dtypes}, and are kept with the project under the "
        f"prompts that they answer{more}."
    )
