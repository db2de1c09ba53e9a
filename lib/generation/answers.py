"""Answers of language models, kept: one store under what was asked of whom.

A file has one JSON line an answer. Data type and processor are no part of its key: in bfloat16 an answer depends on
them, and on its batch; whichever was written first is the answer. A file that comes with the project
(`data/answers/<family>.jsonl`) is only read; a run adds to another one (`data/generated/<profile>/answers/`). Lines are
appended whole, by several processes at once if need be: a killed writer leaves at most half a line, which is passed
over.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import json
import logging
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from tqdm.auto import tqdm

from lib.generation.models import ModelError
from lib.workbook.artifacts import ArtifactError, Workbook

log = logging.getLogger(__name__)

LONE_SURROGATE = re.compile("[\ud800-\udfff]")  # half a character, which JSON can hold and UTF-8 cannot
INSTRUCT_MODEL = "Qwen2.5-Coder-1.5B-Instruct"  # whose plans, flows and worlds come with the project
KEY_LENGTH = 24  # hexadecimal digits: two of ten million prompts share a key once in 10^15 files


class Cost(NamedTuple):
    """What one answer cost when it was computed: tokens of the prompt; tokens generated, the one that ended the answer
    included; its share of the seconds that its batch took."""

    tokens_in: int = 0
    tokens_out: int = 0
    seconds: float = 0.0


UNKNOWN = Cost()


@dataclass(frozen=True, slots=True)
class Answer:
    """A kept answer, and whether it ended by itself. Data type and processor are noted where they are known, and why an
    endpoint gave none."""

    text: str
    finished: bool = True
    cost: Cost = UNKNOWN
    dtype: str = ""
    device: str = ""
    refused: str = ""


def encodable(text: str) -> str:
    """A text with U+FFFD in place of each lone surrogate."""
    return LONE_SURROGATE.sub("\ufffd", text)


def check_encodable(texts: Iterable[str]) -> None:
    """Raises ValueError for a text that has no UTF-8."""
    for text in texts:
        if LONE_SURROGATE.search(text):
            raise ValueError(f"a text holds a lone surrogate, half a character; it begins {text[:60]!r}")


def estimate_tokens(text: str) -> int:
    """A third of the characters: English has some four characters a token, flows and API definitions 3.0 to 3.6
    (SmolLM2's tokenizer), so that limits err on the safe side; text in other scripts may take more."""
    return math.ceil(len(text) / 3)


def key_of(
    weights: str,
    prompt: str,
    max_new_tokens: int,
    grammar: str | None = None,
    stop: Sequence[str] = (),
    chat: bool = False,
    temperature: float = 0.0,
    seed: int = 0,
) -> str:
    """What an answer is kept under; `weights` tells the model from every other (`lib.generation.local.weights_of`), or
    are endpoint and name. A greedy answer has no seed."""
    draws = [float(temperature), seed, 0] if temperature else None
    asked = [weights, prompt, max_new_tokens, grammar or "", list(stop), bool(chat), draws]
    return hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:KEY_LENGTH]


class Answers:
    """Answers of one family: those that come with the project under those that runs have added. Both files are read
    when they are first needed; None, or a missing one, is empty, and without `own` nothing is written."""

    def __init__(self, shipped: Path | None = None, own: Path | None = None):
        self.shipped, self.own = shipped, own

    @classmethod
    def of(cls, book: Workbook, family: str) -> Answers:
        """Those of a notebook."""
        return cls(book.root / "data" / "answers" / f"{family}.jsonl", book.data / "answers" / f"{family}.jsonl")

    @classmethod
    def at(cls, where: Answers | str | Path | None) -> Answers:
        """A store as a model is given it: itself, or a folder for answers of all kinds; None is written nowhere."""
        return where if isinstance(where, Answers) else cls(own=Path(where) / "answers.jsonl" if where else None)

    @functools.cached_property
    def _found(self) -> dict[str, Answer]:
        found: dict[str, Answer] = {}
        for path in filter(None, (self.shipped, self.own)):
            lines = path.read_bytes().split(b"\n") if path.exists() else []
            for number, line in enumerate(lines, 1):
                try:
                    found |= _read(line) if line else {}
                except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                    if path == self.shipped:
                        raise ArtifactError(f"{path}, line {number}: no answer ({error})") from error
                    log.warning("%s, line %d: a damaged answer, asked for again", path, number)
        return found

    def get(self, keys: Iterable[str]) -> list[Answer | None]:
        """The answer under each key, or None. Raises ArtifactError where a line of the project's file is no answer."""
        return [self._found.get(key) for key in keys]

    def add(self, answers: Mapping[str, Answer]) -> None:
        """Keep answers under their keys; what was not noted of one is left out. Raises ArtifactError where the file
        cannot be written."""
        self._found.update(answers)
        if self.own is None or not answers:
            return
        lines = ""
        for key, answer in answers.items():
            noted = {name: value for name, value in asdict(answer).items() if value != getattr(Answer(""), name)}
            lines += json.dumps({"key": key, "text": answer.text} | noted) + "\n"  # a cost is a list then
        try:
            self.own.parent.mkdir(parents=True, exist_ok=True)
            with open(self.own, "a+b") as file:
                fcntl.flock(file, fcntl.LOCK_EX)  # other threads and processes write, too
                file.seek(max(file.seek(0, os.SEEK_END) - 1, 0))
                file.write(b"\n" * (file.read(1) not in (b"\n", b"")) + lines.encode())
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise ArtifactError(f"{self.own}: cannot be written: {error.strerror or error}") from error


def _read(line: bytes) -> dict[str, Answer]:
    """The answer of a line, under its key. Raises what another line leads to."""
    row = json.loads(line)
    key, text, cost = row.pop("key"), encodable(row.pop("text")), Cost(*row.pop("cost", ()))
    answer = Answer(text, cost=cost, **row)
    same = [type(getattr(answer, name)) is type(value) for name, value in asdict(Answer("")).items() if name != "cost"]
    if not (all(same) and isinstance(key, str) and all(isinstance(number, int | float) for number in cost)):
        raise TypeError("a value is of another type")
    return {key: answer}


class LanguageModel:
    """What is asked and finds its answers kept. A subclass has `ask`, for those that are missing.

    Attributes:
        finished: for each prompt of the last call of `generate`, whether the answer ended by itself rather than at
            `max_new_tokens`; under a grammar, whether it is complete.
        costs: for each of its prompts, what the answer cost.
    """

    def __init__(self, weights: str, cache: Answers):
        self.weights, self.cache = weights, cache
        self.finished, self.costs = list[bool](), list[Cost]()

    def keys(self, prompts: Sequence[str], max_new_tokens: int = 128, grammars=None, **settings: Any) -> list[str]:
        """What the answers to prompts are kept under; arguments as of `generate`."""
        asked = zip(prompts, _each(prompts, grammars), strict=True)
        return [key_of(self.weights, prompt, max_new_tokens, grammar, **settings) for prompt, grammar in asked]

    def has(self, prompts: Sequence[str], max_new_tokens: int = 128, **settings: Any) -> list[bool]:
        """Whether the answer to each prompt is kept; arguments as of `generate`."""
        return [one is not None for one in self.cache.get(self.keys(prompts, max_new_tokens, **settings))]

    def generate(
        self,
        prompts: Sequence[str],
        max_new_tokens: int = 128,
        stop: Sequence[str] = (),
        chat: bool = False,
        temperature: float = 0.0,
        seed: int = 0,
        progress: bool = False,
        grammars: str | Sequence[str | None] | None = None,
    ) -> list[str]:
        """Answers in the order of `prompts`; equal prompts under equal grammars are asked once.

        Args:
            prompts: texts that the model continues.
            max_new_tokens: length of an answer at most. On this machine a greedy answer without a grammar also stops,
                unfinished, where it does nothing but repeat itself (see `lib.generation.decoding.REPEATS`).
            stop: texts that end an answer, and are not part of it; so do special tokens that they name.
            chat: whether a prompt is a user's message, put into the model's chat template, rather than bare text.
            temperature: 0 takes the likeliest token (greedy); else tokens are drawn from softmax(logits / temperature).
            seed: of the draws; few services behind an endpoint promise the same answer to the same seed.
            progress: show a progress bar over distinct prompts.
            grammars: what answers may be (see `lib.generation.decoding`), for all prompts or for each; None leaves
                them free. A stop text must be allowed by the grammar itself. An endpoint takes none.

        Raises ValueError for an empty prompt, one too long for the model, a lone surrogate, a setting that makes no
        sense or a bad grammar; ModelError where the model does not answer; ArtifactError where nothing can be kept.
        """
        each = _each(prompts, grammars)
        if isinstance(prompts, str) or isinstance(stop, str) or not all([*stop, *prompts]):
            raise ValueError("prompts and stop must be lists of non-empty texts")
        if max_new_tokens < 1 or temperature < 0:
            raise ValueError("max_new_tokens must be 1 or more, temperature 0 or more")
        check_encodable([*prompts, *stop, *filter(None, each)])
        settings: dict[str, Any] = {"stop": list(stop), "chat": chat, "temperature": temperature, "seed": seed}
        keys = self.keys(prompts, max_new_tokens, each, **settings)
        found = {key: answer for key, answer in zip(keys, self.cache.get(keys), strict=True) if answer}
        asked = {key: (prompt, grammar or "") for key, prompt, grammar in zip(keys, prompts, each, strict=True)}
        missing = {key: one for key, one in asked.items() if key not in found}
        with tqdm(total=len(asked), initial=len(found), disable=not progress, unit="prompt", desc="asking") as bar:
            if missing:
                found |= self.ask(missing, bar, max_new_tokens=max_new_tokens, **settings)
        self.finished, self.costs = [found[key].finished for key in keys], [found[key].cost for key in keys]
        return [found[key].text for key in keys]

    def ask(self, asked: Mapping[str, tuple[str, str]], bar: tqdm, **settings: Any) -> dict[str, Answer]:
        """The answers to prompts (each with its grammar or "") by their keys, kept as soon as they are there. Settings
        are max_new_tokens, stop, chat, temperature and seed."""
        raise NotImplementedError


def _each(prompts: Sequence[str], grammars: str | Sequence[str | None] | None) -> Sequence[str | None]:
    return [grammars] * len(prompts) if grammars is None or isinstance(grammars, str) else grammars


class KeptModel(LanguageModel):
    """A model that `load` gives, with the same store, when an answer is not kept: where all are, its weights need not
    be there. Without `load`, only what is kept can be asked."""

    def __init__(self, answers: Answers, weights: str, load: Callable[[], LanguageModel] | None = None):
        super().__init__(weights, answers)
        self.load = load
        self.model: Any = None

    def loaded(self, lacking: int) -> Any:
        """The model, loaded when so many answers first lack. Raises ModelError where there is none to ask."""
        if not self.load:
            raise ModelError(f"{lacking} answers are not kept, and no model is named to ask")
        self.model = self.model or self.load()
        return self.model

    def ask(self, asked: Mapping[str, tuple[str, str]], bar: tqdm, **settings: Any) -> dict[str, Answer]:
        """Raises ModelError where there is no model to ask."""
        return self.loaded(len(asked)).ask(asked, bar, **settings)

    def unload(self) -> None:
        """Let go of the weights of a model that was loaded."""
        if self.model:
            self.model.unload()


def whole_units(units: pd.Series, there: Sequence[bool]) -> list:
    """The units that a comparison can be made on without asking: those of which the answers of all its conditions are
    kept (`there`), in the order of `units`, which has one for each prompt of all conditions."""
    whole = pd.Series(there, dtype=bool).groupby(units.to_numpy(), sort=False).all()
    return whole.index[whole.to_numpy()].tolist()
