"""Language models behind an OpenAI-compatible endpoint: prompts in, answers out.

Address and key come from `OPENAI_BASE_URL` and `OPENAI_API_KEY`; the key is written nowhere. An answer is kept as soon
as it arrives, under what was asked and of whom: no answer that has arrived is paid for twice. A request that was under
way when the process was killed, or cut off after the service had done its work, may be.

Three kinds of fault are told apart. One that passes (time-out, cut connection, 408, 409, 429, 5xx) is met by the
client, which asks again. A prompt that is refused, or answered without text, as by a content filter, has an empty
answer and is warned of. Any other fault ends the call.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import re
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import openai
from tqdm.auto import tqdm

from lib.generation.answers import UNKNOWN, Answer, Answers, Cost, LanguageModel, encodable, estimate_tokens
from lib.generation.models import ModelError
from lib.workbook.artifacts import atomic_path

log = logging.getLogger(__name__)
for library in ("httpx", "httpx2"):  # they log each request with its whole address, a secret in it included
    logging.getLogger(library).setLevel(logging.WARNING)

ATTEMPTS = 8  # of the client, for one prompt; its waits add up to half a minute, more where `Retry-After` asks for it
REFUSALS = (400, 413, 422)  # statuses that speak of the prompt
WHOLE = (
    "stop",
    "stop_sequence",
    "eos",
    "eos_token",
    "end_turn",
    "complete",
)  # words for a whole answer's end
TEXTS = ("text", "output_text")  # types of the parts of a message that are its text
MOST_TOKENS = 10**9  # that an endpoint is believed to have counted
ADDRESS = re.compile(r"(https?://([\w.-]+(?::\d+)?)(/[^\s?#]*|))(?:\?(\S*))?")


class SpendingLimit(ModelError):
    """The next call might cost more than the spending limit leaves."""


@dataclass
class Counters:
    """What a `RemoteModel` has spent: calls (prompts sent), tokens of the prompts that were answered and of their
    answers, cost of these (in the currency of the prices) and at most of what brought no answer but may be charged."""

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost: float = 0.0


class RemoteModel(LanguageModel):
    """A language model behind an OpenAI-compatible endpoint.

    A fault that lasts, the spending limit or an interruption ends the call: prompts under way are waited for and their
    answers kept. Redirects are not followed: prompts and key would go with them. The seconds of an answer are those of
    the request that brought it.

    Example:
        >>> model = RemoteModel("gpt-4", cache="data/generated/paper/answers", price_in=30, price_out=60, limit=20)
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
        record: str | Path | None = None,
    ):
        """`name` is the model's at the endpoint; `cache` keeps answers, or is a folder for them. `concurrency` prompts
        are under way at most; the endpoint may be silent for `timeout` seconds, and after eight times as many a prompt
        is given up. Prices are of a million tokens of prompts and of answers, `limit` is what this object may spend: as
        exact as `estimate_tokens`, it counts a prompt once however often the client sends it. `record` is a JSON file
        that is given `name` and the counters at each call.

        Raises ModelError where `OPENAI_BASE_URL` is missing or no address, ValueError where a limit has no price.
        """
        if limit is not None and price_in + price_out <= 0:
            raise ValueError("a spending limit needs prices")
        address = os.environ.get("OPENAI_BASE_URL", "").strip() or self.default_address
        if not (found := ADDRESS.fullmatch(address)):
            such = "such as https://api.openai.com/v1 or http://localhost:8000/v1 (a password cannot stand in it)"
            raise ModelError(f"a remote model needs an address: set the environment variable OPENAI_BASE_URL, {such}")
        self.address, self.query = found[1], dict(parse_qsl(found[4] or ""))
        self.endpoint = found[2].lower() + found[3].rstrip("/")
        super().__init__(f"{self.endpoint} {name}", Answers.at(cache))
        self.name, self.concurrency, self.timeout, self.record = name, concurrency, timeout, record
        self.prices, self.limit = (price_in, price_out), math.inf if limit is None else limit
        self.counters = Counters()
        self._reserved: list[float] = []  # what each prompt under way may cost

    def _price(self, cost: Cost) -> float:
        return (cost.tokens_in * self.prices[0] + cost.tokens_out * self.prices[1]) / 1e6

    def _fault(self, reason: str, prompt: str) -> ModelError:
        return ModelError(f"{self.name} at {self.endpoint}: {reason}: prompt {prompt[:150]!r}")

    def ask(self, asked: Mapping[str, tuple[str, str]], bar: tqdm, **settings: Any) -> dict[str, Answer]:
        """The answers to prompts by their keys. Raises ValueError where there is a grammar: there is no common way to
        give an endpoint one."""
        if any(grammar for _, grammar in asked.values()):
            raise ValueError("grammars are not supported by a remote endpoint: use lib.generation.local")
        try:
            answers = self._asked({key: prompt for key, (prompt, _) in asked.items()}, bar, settings)
        finally:
            if self.record:
                record = {"model": self.name + self.said_beside} | asdict(self.counters)
                with atomic_path(self.record) as temporary:
                    temporary.write_text(json.dumps(record) + "\n", encoding="utf-8")
        faults = [self._fault(one.refused, asked[key][0]) for key, one in answers.items() if one.refused]
        if len(answers) > 1 and all(one.refused and one.cost == UNKNOWN for one in answers.values()):
            raise faults[0]  # not a single one was read: it is not the prompts
        for fault in faults:
            log.warning("%s", fault)
        return answers

    def _asked(self, prompts: Mapping[str, str], bar: tqdm, settings: dict[str, Any]) -> dict[str, Answer]:
        secret = os.environ.get("OPENAI_API_KEY", "").strip()
        if not (secret and secret.isascii() and secret.isprintable()):
            how = "set the environment variable OPENAI_API_KEY (to any text for a server that asks for none)"
            raise ModelError(f"a remote model needs a key: {how}")
        stopped, answers = threading.Event(), dict[str, Answer]()

        async def ask_one(client, turns: asyncio.Semaphore, key: str, prompt: str) -> None:
            async with turns:
                if stopped.is_set():
                    return
                try:
                    answer = answers[key] = await self._answer(client, prompt, settings)
                    if not answer.refused or answer.cost != UNKNOWN:  # a refusal without cost may be asked for again
                        self.cache.add({key: answer})
                except Exception:
                    stopped.set()
                    raise
                bar.update()

        async def ask_all() -> list:
            async with openai.AsyncOpenAI(
                api_key=secret,
                base_url=self.address,
                default_query=self.query,
                timeout=self.timeout,
                max_retries=ATTEMPTS - 1,
                http_client=openai.DefaultAsyncHttpxClient(follow_redirects=False),
            ) as client:
                turns = asyncio.Semaphore(self.concurrency)
                asking = [ask_one(client, turns, *one) for one in prompts.items()]
                return await asyncio.gather(*asking, return_exceptions=True)

        with ThreadPoolExecutor(1) as pool:  # the event loop has its own thread: a notebook's runs one already
            done = pool.submit(asyncio.run, ask_all())
            try:
                while not done.done():
                    wait([done], timeout=1)  # without end it would miss a Ctrl-C that comes just before it begins
            finally:
                stopped.set()  # on an interruption too: prompts under way are waited for
        for failure in filter(None, done.result()):
            if isinstance(failure, ModelError):
                raise type(failure)(f"{failure}; {len(answers)} of {len(prompts)} new prompts are answered and kept")
            raise failure
        return answers

    async def _answer(self, client, prompt: str, settings: dict[str, Any]) -> Answer:
        """The answer to a prompt, or that it is refused; what it cost is held against the limit."""
        worst = self._price(Cost(estimate_tokens(prompt), settings["max_new_tokens"]))
        left = self.limit * (1 + 1e-9)  # sums of floats are not exact
        while self._reserved and self.counters.cost + sum(self._reserved) + worst > left:
            await asyncio.sleep(0.02)  # it fits if those under way cost less than they may
        if (spent := self.counters.cost) + worst > left:
            raise SpendingLimit(
                f"the spending limit of {self.limit:g} leaves {max(left - spent, 0):.4g} after {spent:.4g} and the "
                f"next call may cost {worst:.4g}: run again to go on"
            )
        self._reserved.append(worst)
        self.counters.calls += 1
        cost, answer = worst, None
        try:
            async with asyncio.timeout(ATTEMPTS * self.timeout):
                answer = await self._send(client, prompt, settings)
            cost = self._price(answer.cost)
        except openai.APIStatusError as error:  # not charged
            cost, reason = 0.0, _said(error, client.api_key)
            if error.status_code in REFUSALS:
                answer = Answer("", False, refused=reason)
        except (openai.APIConnectionError, TimeoutError):
            reason = "no answer in time, or the connection cannot be made or was cut"
        except ValueError as error:
            reason = "".join(filter(str.isprintable, str(error).replace(client.api_key, "***")))[:200]
        finally:
            self._reserved.remove(worst)
            self.counters.cost += cost
        if answer is None:  # raised out here, it brings no other error along: those hold the request, and so the key
            raise self._fault(reason, prompt)
        self.counters.tokens_in += answer.cost.tokens_in
        self.counters.tokens_out += answer.cost.tokens_out
        return answer

    async def _send(self, client, prompt: str, settings: dict[str, Any]) -> Answer:
        """The answer of the endpoint. Raises ValueError where its body is none."""
        chat, drawn = settings["chat"], settings["temperature"]
        body = {"model": self.name, "max_tokens": settings["max_new_tokens"], "temperature": drawn}
        body |= {"messages": [{"role": "user", "content": prompt}]} if chat else {"prompt": prompt}
        body |= {"stop": settings["stop"]} if settings["stop"] else {}
        body |= {"seed": settings["seed"]} if drawn else {}
        asked = client.chat.completions if chat else client.completions
        response = await asked.with_raw_response.create(**body)
        text, end, tokens = read_body(response.content, chat)
        tokens = tokens or (estimate_tokens(prompt), estimate_tokens(text or ""))
        cost = Cost(*tokens, response.elapsed.total_seconds())
        if text is None:  # asked for again, it would be paid for again, and end the same
            return Answer("", False, cost, refused=f"an answer without text, ended by {end[:80]}")
        return Answer(text, end.lower() in WHOLE, cost)


class DryRun(RemoteModel):
    """Counts what would be asked, with answers as long as they may be, and answers with `PLACEHOLDER`; what is kept is
    taken from there. Needs neither address nor key, and spends nothing of the limit."""

    PLACEHOLDER = "placeholder"
    said_beside = " (dry run)"
    default_address = "http://dry-run"

    def __init__(self, name: str, **settings: Any):
        super().__init__(name, **settings)
        self._given: dict[str, Answer] = {}  # placeholders by key: what was asked before would be kept

    def _asked(self, prompts: Mapping[str, str], bar: tqdm, settings: dict[str, Any]) -> dict[str, Answer]:
        for key in prompts.keys() - self._given.keys():
            cost = self.expect([prompts[key]], 1, settings["max_new_tokens"])
            self._given[key] = Answer(self.PLACEHOLDER, cost=cost)
        return {key: self._given[key] for key in prompts}

    def expect(self, prompts: Sequence[str], calls: int, max_new_tokens: int) -> Cost:
        """Count calls whose prompts are as long as these on average; returns the tokens of prompts and of answers."""
        read = round(calls * sum(map(estimate_tokens, prompts)) / max(len(prompts), 1))
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
    said = "".join(filter(str.isprintable, said)).removeprefix(f"Error code: {error.status_code}")[:200].strip(" -")
    return f"status {error.status_code}" + (f" ({said})" if said else "")


def read_body(body: bytes, chat: bool) -> tuple[str | None, str, tuple[int, int] | None]:
    """Text of an answer, without lone surrogates; what ended it; the tokens of prompt and answer, or None where the
    endpoint reports none that can be.

    A message's text may come in parts; those that are no text, such as thoughts, are passed over. It is None where
    there is none: a limit or a filter ended the answer before its first word, whatever the service calls that. Raises
    ValueError where the body is no answer.
    """
    content = None
    try:
        content = json.loads(body)
        choice, usage = content["choices"][0], content.get("usage") or {}
        end, said = choice.get("finish_reason"), (choice.get("message") or {}) if chat else choice
        said = said.get("content" if chat else "text")
        tokens: tuple[Any, Any] = usage.get("prompt_tokens"), usage.get("completion_tokens")
    except (ValueError, AttributeError, LookupError, TypeError, RecursionError):
        said = end = None
    if isinstance(said, list):
        parts = [part.get("text") for part in said if isinstance(part, dict) and part.get("type", "text") in TEXTS]
        said = "".join(part for part in parts if isinstance(part, str)) or None
    if not isinstance(said, str | None) or said is end is None:
        error = content.get("error") if isinstance(content, dict) else None
        told = error.get("message") if isinstance(error, dict) else error
        raise ValueError("a malformed body, without an answer" + (f" ({told})" if told else ""))
    text, end = encodable(said or ""), encodable(str(end))
    counted = all(type(number) is int and 0 <= number < MOST_TOKENS for number in tokens)
    return text if text or (said == "" and end.lower() in WHOLE) else None, end, tokens if counted else None
