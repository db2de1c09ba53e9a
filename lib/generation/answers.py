"""Answers of language models, kept: one store under what was asked of whom.

A file has one JSON line an answer. Its key is a hash of the weights, the settings that change the answer, the whole
prompt and the grammar: a prompt or a model that has changed since finds none. Data type, processor and engine stand
beside: in bfloat16 an answer depends on them, and on its batch; whichever was written first is the answer.

Answers come in two layers: a file that comes with the project (`data/answers/<family>.jsonl`), which is only read, and
one that a run adds to (`data/generated/<profile>/answers/<family>.jsonl`). Lines are appended whole, by several
processes at once if need be: a killed writer leaves at most half a line, which is passed over.
"""

from __future__ import annotations

import errno
import fcntl
import functools
import hashlib
import json
import logging
import os
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from lib.generation.models import ModelError
from lib.workbook.artifacts import ArtifactError, Workbook

log = logging.getLogger(__name__)

LONE_SURROGATE = re.compile("[\ud800-\udfff]")  # half a character, which JSON can hold and UTF-8 cannot
INSTRUCT_MODEL = "Qwen2.5-Coder-1.5B-Instruct"  # the untuned model whose plans, flows and worlds come with the project
KEY_LENGTH = 24  # hexadecimal digits: two of ten million prompts share a key once in 10^15 files


@dataclass
class Usage:
    """What the answers of one call cost when they were computed, whether now or before (cached).

    Attributes:
        prompts: distinct prompts, each as often as answers were drawn for it.
        tokens_in: tokens of the prompts; a shared prefix counts for every prompt.
        tokens_out: tokens generated, the token that ended an answer included.
        seconds: of computation, loading the model excluded; on a CPU the sum over batches, several of which are
            answered at a time, by one core each.
        cached: distinct prompts whose answer was kept.
    """

    prompts: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    seconds: float = 0.0
    cached: int = 0


@dataclass(frozen=True, slots=True)
class Cost:
    """What one answer cost when it was computed, whether now or before (cached).

    Attributes:
        tokens_in: tokens of the prompt.
        tokens_out: tokens generated, the token that ended the answer included.
        seconds: of reading the whole prompt, as if no other shared its beginning, and the answer's share of the steps
            of its batch; on a CPU of one core, or of all where there was one batch only.
    """

    tokens_in: int = 0
    tokens_out: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Answer:
    """A kept answer.

    Attributes:
        finished: whether it ended by itself.
        cost: zeros where nobody wrote it down.
        dtype, device, engine: what computed it, as far as that was written down; no engine is our own.
        refused: why there is none, of an endpoint.
    """

    text: str
    finished: bool = True
    cost: Cost = Cost()
    dtype: str = ""
    device: str = ""
    engine: str = ""
    refused: str = ""


def encodable(text: str) -> str:
    """A text with U+FFFD in place of each lone surrogate."""
    return LONE_SURROGATE.sub("\ufffd", text)


def key_of(
    weights: str,
    prompt: str,
    max_new_tokens: int,
    grammar: str | None = None,
    stop: Sequence[str] = (),
    chat: bool = False,
    temperature: float = 0.0,
    seed: int = 0,
    draw: int = 0,
) -> str:
    """What an answer is kept under.

    Args:
        weights: what tells the model from every other (`lib.generation.local.weights_of`), or endpoint and name.
        draw: which of several answers drawn for a prompt, from 0; without a temperature all are one.
    """
    draws = [float(temperature), seed, draw] if temperature else None
    asked = [weights, prompt, max_new_tokens, grammar or "", list(stop), bool(chat), draws]
    return hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:KEY_LENGTH]


class Answers:
    """Answers of one family: those that come with the project under those that runs have added.

    Example:
        >>> answers = Answers(own=Path("data/generated/quick/answers/plans.jsonl"))
        >>> answers.add({key_of("weights", "a prompt", 20): Answer("an answer")})
    """

    def __init__(self, shipped: Path | None = None, own: Path | None = None):
        """Both files are read when they are first needed; None, or a missing one, is empty, and without `own` nothing
        is written."""
        self.shipped, self.own = shipped, own
        self._lock = threading.Lock()

    @classmethod
    def of(cls, book: Workbook, family: str) -> Answers:
        """Those of a notebook."""
        return cls(book.root / "data" / "answers" / f"{family}.jsonl", book.data / "answers" / f"{family}.jsonl")

    @classmethod
    def at(cls, where: Answers | str | Path | None) -> Answers | None:
        """A store as a model is given it: itself, or a folder for answers of all kinds; None keeps none."""
        return where if where is None or isinstance(where, Answers) else cls(own=Path(where) / "answers.jsonl")

    @functools.cached_property
    def _found(self) -> dict[str, Answer]:
        return _read(self.shipped, whole=True) | _read(self.own, whole=False)

    def get(self, keys: Iterable[str]) -> list[Answer | None]:
        """The answer under each key; None where there is none.

        Raises:
            ArtifactError: a line of the project's file is not one of an answer.
        """
        return [self._found.get(key) for key in keys]

    def add(self, answers: Mapping[str, Answer]) -> None:
        """Keep answers under their keys, in place of what was there.

        Raises:
            ArtifactError: the file cannot be written or the disk is full; the lines before stay.
        """
        with self._lock:
            self._found.update(answers)
            if self.own is None or not answers:
                return
            lines = "".join(_line(key, answer) for key, answer in answers.items()).encode()
            try:
                self.own.parent.mkdir(parents=True, exist_ok=True)
                with open(self.own, "a+b", buffering=0) as file:
                    fcntl.flock(file, fcntl.LOCK_EX)
                    end = file.seek(0, os.SEEK_END)
                    file.seek(max(end - 1, 0))
                    lines = lines if file.read(1) in (b"\n", b"") else b"\n" + lines
                    try:
                        if file.write(lines) < len(lines):
                            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                        os.fsync(file.fileno())
                    except OSError:
                        file.truncate(end)
                        raise
            except OSError as error:
                raise ArtifactError(f"{self.own}: cannot be written: {error.strerror or error}") from error


def _line(key: str, answer: Answer) -> str:
    """An answer as it is written: what was not noted is left out."""
    row = asdict(answer)
    row["cost"] = [answer.cost.tokens_in, answer.cost.tokens_out, answer.cost.seconds]
    nothing = asdict(Answer("")) | {"text": None, "cost": [0, 0, 0.0]}
    return json.dumps({"key": key} | {name: value for name, value in row.items() if value != nothing[name]}) + "\n"


def _read(path: Path | None, whole: bool) -> dict[str, Answer]:
    """The answers of a file by their keys.

    Args:
        whole: whether a line that is none is an error; else it is passed over.
    """
    found = {}
    lines = path.read_bytes().split(b"\n") if path and path.exists() else []
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        try:
            row = json.loads(line)
            cost = Cost(*row.pop("cost")) if "cost" in row else Cost()
            key, text = row.pop("key"), encodable(row.pop("text"))
            found[key] = Answer(text, cost=cost, **row)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            if whole:
                raise ArtifactError(f"{path}, line {number}: no answer ({error})") from error
            log.warning("%s, line %d: a damaged answer, asked for again", path, number)
    return found


class KeptModel:
    """A model that is asked for what is not kept, with the interface of `lib.generation.local.LocalModel`. It is loaded
    when that is needed: where all answers are kept, its weights need not be there.

    Attributes:
        finished, costs, usage: of the last call, as of `LocalModel`.
        used, asked: keys of the answers that were there, and of those asked for, so far.
    """

    def __init__(self, answers: Answers, weights: str, load: Callable[[], Any] | None = None):
        """
        Args:
            weights: see `key_of`.
            load: gives the model; one that keeps its answers in `answers` has each there as soon as it is computed.
                Without it, only what is kept can be asked.
        """
        self.answers, self.weights = answers, weights
        self._load = load
        self._model: Any = None
        self.finished: list[bool] = []
        self.costs: list[Cost] = []
        self.usage = Usage()
        self.used: set[str] = set()
        self.asked: set[str] = set()

    def has(self, prompts: Sequence[str], max_new_tokens: int = 128, **settings: Any) -> list[bool]:
        """Whether the answer to each prompt is kept; `settings` as for `generate`, one answer a prompt."""
        return [one is not None for one in self.answers.get(self._keys(prompts, max_new_tokens, **settings))]

    def generate(
        self, prompts: Sequence[str], max_new_tokens: int = 128, progress: bool = False, **settings: Any
    ) -> list[str]:
        """Answers in the order of `prompts`; see `lib.generation.local.LocalModel.generate`.

        Raises:
            ModelError: one is not kept, and there is no model to ask.
        """
        keys = self._keys(prompts, max_new_tokens, **settings)
        missing = list(dict.fromkeys(key for key, one in zip(keys, self.answers.get(keys), strict=True) if one is None))
        if missing:
            self._ask(prompts, keys, set(missing), max_new_tokens, progress, settings)
        found = dict(zip(keys, self.answers.get(keys), strict=True))
        self.asked |= set(missing)
        self.used |= set(keys) - self.asked
        self.finished, self.costs = [found[key].finished for key in keys], [found[key].cost for key in keys]
        costs = [asdict(answer.cost) for answer in found.values()]
        spent = {name: sum(cost[name] for cost in costs) for name in ("tokens_in", "tokens_out", "seconds")}
        self.usage = Usage(len(found), **spent, cached=len(found) - len(missing))
        return [found[key].text for key in keys]

    def unload(self) -> None:
        """Let go of the weights of a model that was loaded."""
        if self._model:
            self._model.unload()

    def _ask(self, prompts, keys: list[str], missing: set[str], max_new_tokens: int, progress: bool, settings) -> None:
        if not self._load:
            raise ModelError(f"{len(missing)} of {len(set(keys))} answers are not kept, and no model is named to ask")
        model = self._model = self._model or self._load()
        ask = [i for i, key in enumerate(keys) if key in missing]
        if isinstance(grammars := settings.get("grammars"), Sequence) and not isinstance(grammars, str):
            settings = settings | {"grammars": [grammars[i] for i in ask]}
        texts = model.generate([prompts[i] for i in ask], max_new_tokens, progress=progress, **settings)
        fresh = zip([keys[i] for i in ask], texts, model.finished, model.costs, strict=True)
        made = {key: Answer(text, finished, cost, model.dtype) for key, text, finished, cost in fresh if key in missing}
        there = zip(made, self.answers.get(made), strict=True)  # a model that keeps them here, too, has added them
        self.answers.add({key: made[key] for key, answer in there if answer is None})

    def _keys(self, prompts: Sequence[str], max_new_tokens: int, grammars=None, **settings) -> list:
        each = [grammars] * len(prompts) if grammars is None or isinstance(grammars, str) else grammars
        return [
            key_of(self.weights, prompt, max_new_tokens, grammar, **settings)
            for prompt, grammar in zip(prompts, each, strict=True)
        ]


def whole_units(units: pd.Series, there: Sequence[bool]) -> list:
    """The units that a comparison can be made on without asking: those of which the answers of all its conditions are
    kept, in their order.

    Args:
        units: of each prompt of all conditions.
        there: whether its answer is kept.
    """
    whole = pd.Series(there, dtype=bool).groupby(units.to_numpy(), sort=False).all()
    return whole.index[whole.to_numpy()].tolist()
