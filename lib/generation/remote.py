"""Language models behind an OpenAI-compatible endpoint: prompts in, answers out.

Address and key come from `OPENAI_BASE_URL` and `OPENAI_API_KEY`; the key is written nowhere. An answer is kept as soon
as it arrives, under what was asked and of whom: no answer that has arrived is paid for twice. A request that was under
way when the process was killed, or cut off after the service had done its work, may be.

Three kinds of fault are told apart. One that passes (time-out, cut connection, 408, 409, 429, 5xx) is met by the
client, which asks again. A prompt that is refused has an empty answer. Any other fault ends the call.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, parse_qsl, urlsplit, urlunsplit

import openai
from tqdm.auto import tqdm

from lib.generation.answers import Answer, Answers, Asked, Cost, encodable
from lib.generation.local import check_arguments
from lib.generation.models import ModelError
from lib.workbook.artifacts import atomic_path

log = logging.getLogger(__name__)
for library in ("httpx", "httpx2"):  # they log each request with its whole address, a password included
    logging.getLogger(library).setLevel(logging.WARNING)

ATTEMPTS = 8  # of the client, for one prompt; its waits add up to half a minute, more where `Retry-After` asks for it
REFUSALS = (400, 413, 422)  # statuses that speak of the prompt


class SpendingLimit(ModelError):
    """The next call might cost more than the spending limit leaves; says what was spent and what is left to do."""


@dataclass
class Counters:
    """What a `RemoteModel` has spent; money in the currency of its prices.

    Attributes:
        calls: prompts sent.
        tokens_in: tokens of the prompts that were answered.
        tokens_out: tokens of their answers.
        cost: of these tokens, and at most of requests that brought no answer but may be charged.
    """

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost: float = 0.0


def estimate_tokens(text: str) -> int:
    """A third of the characters: English has some four characters a token, flows and API definitions 3.0 to 3.6
    (SmolLM2's tokenizer), so that limits err on the safe side; text in other scripts may take more."""
    return math.ceil(len(text) / 3)


class RemoteModel(Asked):
    """A language model behind an OpenAI-compatible endpoint, with the interface of `lib.generation.local.LocalModel`.

    Redirects are not followed: prompts and key would go with them. A lone surrogate in an answer, which no file could
    hold, is replaced by U+FFFD. The seconds of an answer are those of the request that brought it.

    Example:
        >>> model = RemoteModel("gpt-4", cache="data/generated/paper/answers", price_in=30, price_out=60, limit=20)
        >>> model.generate(prompts, max_new_tokens=400, chat=True)

    Attributes:
        refused: why each prompt that was refused has no answer.
        counters: what this object has spent since it was made.
    """

    dtype = ""
    said_beside = ""  # the name, in the record
    default_address = ""

    def __init__(
        self,
        name: str,
        cache: Answers | str | Path | None = None,
        concurrency: int = 8,
        timeout: float = 120.0,
        price_in: float = 0.0,
        price_out: float = 0.0,
        limit: float | None = None,
        count_tokens: Callable[[str], int] = estimate_tokens,
        record: str | Path | None = None,
    ):
        """
        Args:
            name: the model's name at the endpoint.
            cache: keeps answers, or a folder for them; None keeps them as long as this object.
            concurrency: prompts under way at most.
            timeout: seconds that the endpoint may be silent; after eight times as many, a prompt is given up.
            price_in: of a million tokens of prompts.
            price_out: of a million tokens of answers.
            limit: what the answers that this object gives may cost, kept ones included; None is no limit. It is as
                exact as `count_tokens`, and counts a prompt once however often the client sends it.
            count_tokens: tokens of a text, for the limit, and where the endpoint reports no usage.
            record: JSON file that is given `name` and the counters when `generate` begins and when it ends, by an error
                too; None writes none.

        Raises:
            ModelError: `OPENAI_BASE_URL` is missing or no address.
            ValueError: there is a limit, but no price.
        """
        if limit is not None and price_in + price_out <= 0:
            raise ValueError("a spending limit needs prices")
        self._url = read_address(self.default_address)
        self.endpoint = self._url.netloc.rpartition("@")[2].lower() + self._url.path.rstrip("/")
        super().__init__(f"{self.endpoint} {name}", Answers.at(cache))
        self.name = name
        self.concurrency, self.timeout = concurrency, timeout
        self.prices, self.limit = (price_in, price_out), math.inf if limit is None else limit
        self.count_tokens = count_tokens
        self.record = Path(record) if record is not None else None
        self.refused: dict[str, str] = {}
        self.counters = Counters()
        self._reserved: list[float] = []  # what each prompt under way may cost
        self._kept: dict[str, float] = {}  # what each answer cost before; nothing where it is in the counters

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
        """Answers in the order of `prompts`; equal prompts are asked once.

        A prompt that is refused for good (an answer without text, as a content filter gives it, is a refusal too)
        stands as an empty answer and is listed in `refused`. A fault that lasts, the spending limit or an interruption
        ends the call: requests under way are waited for and their answers kept.

        Args:
            prompts, max_new_tokens, stop, temperature, progress: see `LocalModel.generate`.
            chat: whether a prompt is a user's message (`/chat/completions`) rather than bare text (`/completions`).
            seed: of the draws; few services promise the same answer to the same seed.
            grammars: must be None: there is no common way to give an endpoint a grammar.

        Raises:
            TypeError, ValueError: as `LocalModel.generate`, or grammars are given.
            ModelError: the key is missing or refused, a prompt was not answered, or all were refused: names the prompt
                and the fault.
            SpendingLimit: the next call might exceed the limit.
            ArtifactError: an answer cannot be kept.
        """
        if grammars is not None:
            raise ValueError("grammars are not supported by a remote endpoint: use lib.generation.local")
        check_arguments(prompts, max_new_tokens, stop, temperature)
        if not all(prompts):
            raise ValueError("a prompt is empty")
        settings: dict[str, Any] = {"stop": list(stop), "chat": chat, "temperature": temperature, "seed": seed}
        keys = self.keys(prompts, max_new_tokens, **settings)
        found = {key: one for key, one in zip(keys, self.cache.get(keys), strict=True) if one}
        self._kept = {key: self._price(one.cost) for key, one in found.items()} | self._kept
        missing = {key: prompt for key, prompt in zip(keys, prompts, strict=True) if key not in found}
        self._write_record()
        try:
            fresh = self._ask(missing, {"max_new_tokens": max_new_tokens, **settings}, progress) if missing else {}
        finally:
            self._write_record()
        texts = self.tell(keys, found | fresh, len(found))
        answers = zip(prompts, ((found | fresh)[key] for key in keys), strict=True)
        if said := {prompt: answer.refused for prompt, answer in answers if answer.refused}:
            self.refused |= said
            log.warning("%s: %d prompts have no answer, such as %r: %s", self.name, len(said), *said.popitem())
        return texts

    def _price(self, cost: Cost) -> float:
        return (cost.tokens_in * self.prices[0] + cost.tokens_out * self.prices[1]) / 1e6

    def _write_record(self) -> None:
        if self.record:
            with atomic_path(self.record) as temporary:
                record = {"model": self.name + self.said_beside} | asdict(self.counters)
                temporary.write_text(json.dumps(record) + "\n", encoding="utf-8")

    def _ask(self, prompts: dict[str, str], settings: dict[str, Any], progress: bool) -> dict[str, Answer]:
        """The answers to prompts by their keys. The event loop has its own thread: a notebook's runs one already."""
        secret, stopped, answers = read_key(), threading.Event(), {}

        async def ask(client, turns: asyncio.Semaphore, key: str, prompt: str) -> None:
            async with turns:
                if stopped.is_set():
                    return
                try:
                    answer = answers[key] = await self._answer(client, prompt, settings)
                    if not answer.refused or answer.cost != Cost():  # a refusal without cost may be asked for again
                        self._kept[key] = 0.0
                        self.cache.add({key: answer})
                except Exception:
                    stopped.set()
                    raise
                bar.update()

        async def ask_all() -> list:
            async with openai.AsyncOpenAI(
                api_key=secret,
                base_url=urlunsplit(self._url._replace(query="", fragment="")),
                default_query=dict(parse_qsl(self._url.query)),
                timeout=self.timeout,
                max_retries=ATTEMPTS - 1,
                http_client=openai.DefaultAsyncHttpxClient(follow_redirects=False),
            ) as client:
                turns = asyncio.Semaphore(self.concurrency)
                asking = [ask(client, turns, *one) for one in prompts.items()]
                return await asyncio.gather(*asking, return_exceptions=True)

        bar = tqdm(total=len(prompts), disable=not progress, unit="prompt", desc="asking")
        with bar, ThreadPoolExecutor(1) as pool:
            asked = pool.submit(asyncio.run, ask_all())
            try:
                while not asked.done():
                    wait([asked], timeout=1)  # without end it would miss a Ctrl-C that comes just before it begins
            finally:
                stopped.set()  # on an interruption too: prompts under way are waited for
        failure = next((one for one in asked.result() if one is not None), None)
        if not failure and len(answers) > 1 and all(answer.refused for answer in answers.values()):
            key = next(iter(answers))
            failure = self._fault(answers[key].refused, prompts[key])
        if isinstance(failure, ModelError):
            raise type(failure)(f"{failure}; {len(answers)} of {len(prompts)} new prompts are answered and kept")
        if failure:
            raise failure
        return answers

    async def _answer(self, client, prompt: str, settings: dict[str, Any]) -> Answer:
        """The answer to a prompt, or that it is refused; what it cost is held against the limit."""
        worst = self._price(Cost(self.count_tokens(prompt), settings["max_new_tokens"]))
        while self._reserved and sum(self._reserved) + worst > self._left():
            await asyncio.sleep(0.02)  # it fits if those under way cost less than they may
        if worst > (left := self._left()):
            raise SpendingLimit(
                f"the spending limit of {self.limit:g} leaves {max(left, 0):.4g} after {self.limit - left:.4g} and the "
                f"next call may cost {worst:.4g}: run again with a higher limit"
            )
        self._reserved.append(worst)
        self.counters.calls += 1
        spent, answer = worst, None
        try:
            async with asyncio.timeout(ATTEMPTS * self.timeout):
                answer = await self._send(client, prompt, settings)
            spent = self._price(answer.cost)
        except openai.APIStatusError as error:  # not charged
            spent, reason = 0.0, _said(error, client.api_key)
            if error.status_code in REFUSALS:
                answer = Answer("", False, refused=reason)
        except (openai.APIConnectionError, TimeoutError):
            reason = "no answer in time, or the connection cannot be made or was cut"
        except ValueError as error:
            reason = str(error)
        finally:
            self._reserved.remove(worst)
            self.counters.cost += spent
        if (
            answer is None
        ):  # raised out here, the error brings no other one along: those hold the request, and so the key
            raise self._fault(reason, prompt)
        self.counters.tokens_in += answer.cost.tokens_in
        self.counters.tokens_out += answer.cost.tokens_out
        return answer

    def _left(self) -> float:
        return self.limit - self.counters.cost - sum(self._kept.values()) + 1e-9  # sums of floats are not exact

    def _fault(self, reason: str, prompt: str) -> ModelError:
        return ModelError(f"{self.name} at {self.endpoint}: {reason}: prompt {prompt[:150]!r}")

    async def _send(self, client, prompt: str, settings: dict[str, Any]) -> Answer:
        """The answer of the endpoint. Raises ValueError where its body is none."""
        arguments: dict[str, Any] = {"model": self.name, "max_tokens": settings["max_new_tokens"], "temperature": 0.0}
        if settings["stop"]:
            arguments["stop"] = settings["stop"]
        if settings["temperature"]:
            arguments |= {"temperature": settings["temperature"], "seed": settings["seed"]}
        arguments |= {"messages": [{"role": "user", "content": prompt}]} if settings["chat"] else {"prompt": prompt}
        asked = client.chat.completions if settings["chat"] else client.completions
        response = await asked.with_raw_response.create(**arguments)
        text, end, tokens = read_body(response.content, settings["chat"])
        tokens = tokens or (self.count_tokens(prompt), self.count_tokens(text or ""))
        # One without text would be paid for again, and end the same.
        refused = f"an answer without text, ended by {end}" if text is None else ""
        cost = Cost(*tokens, response.elapsed.total_seconds())
        return Answer(text or "", end == "stop" and not refused, cost, refused=refused)


class DryRun(RemoteModel):
    """Counts what would be asked, with answers as long as they may be, asks nobody and answers with `PLACEHOLDER`; what
    is kept is taken from there. Needs neither address nor key, and spends nothing of the limit."""

    PLACEHOLDER = "placeholder"
    said_beside = " (dry run)"
    default_address = "http://dry-run"

    def _ask(self, prompts: dict[str, str], settings: dict[str, Any], progress: bool) -> dict[str, Answer]:
        answers = {}
        for key, prompt in prompts.items():
            calls = int(key not in self._kept)  # one that was asked before would be kept
            answers[key] = Answer(self.PLACEHOLDER, cost=self.expect([prompt], calls, settings["max_new_tokens"]))
        self._kept |= dict.fromkeys(prompts, 0.0)
        return answers

    def expect(self, prompts: Sequence[str], calls: int, max_new_tokens: int) -> Cost:
        """Count calls whose prompts are as long as these on average; returns the tokens of prompts and of answers."""
        read = round(calls * sum(map(self.count_tokens, prompts)) / max(len(prompts), 1))
        cost = Cost(read, calls * max_new_tokens)
        self.counters.calls += calls
        self.counters.tokens_in += cost.tokens_in
        self.counters.tokens_out += cost.tokens_out
        self.counters.cost += self._price(cost)
        return cost


def _said(error: openai.APIStatusError, key: str) -> str:
    """A status in words, without the key, which some services repeat, whole or in part, where they refuse it."""
    if error.status_code < 400:
        return f"status {error.status_code}, a redirect, which is not followed: see OPENAI_BASE_URL"
    said = "" if error.status_code in (401, 403) else error.message.replace(key, "***")
    said = " ".join("".join(filter(str.isprintable, said)).split())[:200].removeprefix(
        f"Error code: {error.status_code}"
    )
    return f"status {error.status_code}" + (f" ({said.lstrip(' -')})" if said else "")


def read_body(body: bytes, chat: bool) -> tuple[str | None, Any, tuple[int, int] | None]:
    """Text of an answer, what ended it, and the tokens of prompt and answer.

    There is no text where a limit or a filter ended the answer before its first word, and no tokens where the endpoint
    reports none that can be. Lone surrogates in the text are replaced.

    Raises:
        ValueError: the body is no answer.
    """
    try:
        content = json.loads(body)
        choice, usage = content["choices"][0], content.get("usage") or {}
        text, end = (choice["message"].get("content") if chat else choice["text"]), choice.get("finish_reason")
        tokens = usage.get("prompt_tokens"), usage.get("completion_tokens")
    except (ValueError, AttributeError, LookupError, TypeError, RecursionError):
        text = end = None
    if not isinstance(text, str) and end not in ("length", "content_filter"):
        raise ValueError("a malformed body, without an answer")
    counted = all(type(number) is int and number >= 0 for number in tokens)
    return encodable(text) if isinstance(text, str) else None, end, tokens if counted else None


def read_address(default: str = "") -> SplitResult:
    """The address in the environment.

    Raises:
        ModelError: it is missing or none; does not show it, as it may hold a password.
    """
    text = os.environ.get("OPENAI_BASE_URL", "").strip() or default
    try:
        url = urlsplit(text)
        usable = url.scheme in ("http", "https") and url.hostname and url.port != 0 and text.isprintable()
    except ValueError:
        usable = False
    if not usable:
        raise ModelError(
            "a remote model needs an address: set the environment variable OPENAI_BASE_URL, "
            "such as https://api.openai.com/v1 or http://localhost:8000/v1"
        )
    return url


def read_key() -> str:
    """The key in the environment. Raises ModelError where it is missing or cannot be sent."""
    key = os.environ.get("OPENAI_API_KEY", "").strip()
    if not (key and key.isascii() and key.isprintable()):
        raise ModelError(
            "a remote model needs a key: set the environment variable OPENAI_API_KEY "
            "(to any text for a server that asks for none)"
        )
    return key
