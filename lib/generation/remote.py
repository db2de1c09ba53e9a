"""Language models behind an OpenAI-compatible endpoint: prompts in, answers out.

Address and key come from `OPENAI_BASE_URL` and `OPENAI_API_KEY`; the key is written nowhere. An answer is kept as soon
as it arrives, under what was asked and of whom: no answer that has arrived is paid for twice. A request that was under
way when the process was killed, or cut off after the service had done its work, may be.

Requests run in an event loop, since only there one can be ended wherever it is. They are tried again here and not by
the client, so that each is held against the spending limit.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import logging
import math
import os
import random
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass
from email.utils import parsedate_to_datetime
from http.cookiejar import CookieJar, DefaultCookiePolicy
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, parse_qsl, urlsplit, urlunsplit

import openai
from tqdm.auto import tqdm

from lib.generation.answers import Answer, Answers, Cost, Usage, encodable, key_of
from lib.generation.local import check_arguments, check_encodable
from lib.generation.models import ModelError
from lib.workbook.artifacts import atomic_path

ATTEMPTS = 8  # for one prompt; the waits between them add up to a minute on average, the window of most rate limits
FIRST_BACKOFF = 1.0  # seconds at most before the second attempt; doubled before each further one
LONGEST_BACKOFF = 60.0
LONGEST_RETRY_AFTER = 600.0  # seconds; an endpoint that asks for more has refused
LARGEST_BODY = 2 * 2**20  # bytes; ten times the longest answer, and read within a second whatever it holds
MOST_TOKENS = 10**9  # of a prompt or an answer that an endpoint is believed
REFUSALS = 32  # prompts refused before any answer that end a call: then it is not the prompts


class SpendingLimit(ModelError):
    """The next call might cost more than the spending limit leaves; says what was spent and what is left to do."""


@dataclass
class Counters:
    """What a `RemoteModel` has spent; money in the currency of its prices.

    Attributes:
        calls: requests sent, repeated ones included.
        retries: of these, the repeated ones.
        tokens_in: tokens of the prompts that were answered.
        tokens_out: tokens of their answers.
        cost: of these tokens.
        cost_lost: of requests that brought no readable answer but may be charged (time-out, cut connection, malformed
            body), at most. An error status counts as not charged.
        cost_cached: of the answers that were kept, when they were asked for.
        refused: prompts without an answer that asking again would not bring.
    """

    calls: int = 0
    retries: int = 0
    refused: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost: float = 0.0
    cost_lost: float = 0.0
    cost_cached: float = 0.0


def estimate_tokens(text: str) -> int:
    """A third of the characters: English has some four characters a token, flows and API definitions 3.0 to 3.6
    (SmolLM2's tokenizer), so that limits err on the safe side; text in other scripts may take more."""
    return math.ceil(len(text) / 3)


class RemoteModel:
    """A language model behind an OpenAI-compatible endpoint, with the interface of `lib.generation.local.LocalModel`.

    A time-out, a cut connection, a malformed body, 408, 429 and 5xx are tried again, up to eight times in all, after a
    random wait below 1, 2, 4 … 60 seconds, and after what `Retry-After` asks for. Redirects are not followed: prompts
    and key would go with them. A lone surrogate in an answer, which no file could hold, is replaced by U+FFFD.

    Example:
        >>> model = RemoteModel("gpt-4", cache="data/generated/paper/answers", price_in=30, price_out=60, limit=20)
        >>> model.generate(prompts, max_new_tokens=400, chat=True)

    Attributes:
        usage: what the answers of the last call of `generate` cost; of one that failed, those that it had.
        finished: for each of its prompts, whether the answer ended by itself rather than at `max_new_tokens`.
        costs: for each of its prompts, what the answer cost; its seconds are those of the request that brought it.
        refused: why each prompt that was refused has no answer, since the object was made.
        counters: what this object has spent since it was made.
    """

    said_beside = ""  # the name, in the record

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
            cache: keeps answers, or a folder for them; None keeps none.
            concurrency: requests under way at most.
            timeout: seconds that a request may take as a whole, from the connection (half of them at most) to the last
                byte of the answer.
            price_in: of a million tokens of prompts.
            price_out: of a million tokens of answers.
            limit: what the answers that this object gives may cost, kept ones included, and what it lost; None is no
                limit. It is as exact as `count_tokens`.
            count_tokens: tokens of a text, for the limit, and where the endpoint reports no usage.
            record: JSON file that is given `name` and the counters when `generate` begins and when it ends, by an error
                too; None writes none.

        Raises:
            ModelError: `OPENAI_BASE_URL` is missing or no address.
            ValueError: a setting makes no sense.
        """
        if concurrency < 1 or timeout <= 0 or price_in < 0 or price_out < 0:
            raise ValueError("concurrency must be 1 or more, timeout above 0, prices 0 or more")
        if limit is not None and not (limit >= 0 and price_in + price_out > 0):
            raise ValueError("a spending limit must be 0 or more and needs prices")
        check_encodable([name], "the model's name")
        self.name = name
        self.cache = Answers.at(cache)
        self.concurrency = concurrency
        self.timeout = timeout
        self.prices = (price_in, price_out)
        self.limit = math.inf if limit is None else limit
        self.count_tokens = count_tokens
        self.record = Path(record) if record is not None else None
        self._url = self._address()
        self.endpoint = self._url.netloc.rpartition("@")[2].lower() + self._url.path.rstrip("/")
        self.usage = Usage()
        self.finished: list[bool] = []
        self.costs: list[Cost] = []
        self.refused: dict[str, str] = {}
        self.counters = Counters()
        self._reserved: list[float] = []  # what each call under way may cost
        self._counted: set[str] = set()  # keys of the answers whose cost is in the counters
        self._answers = False  # whether the endpoint has ever given one

    def _address(self) -> SplitResult:
        return _base_url()

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

        A prompt that is refused for good (status 400, 413 or 422; an answer without text, as a content filter gives
        it) stands as an empty answer and is listed in `refused`. A fault that lasts, the spending limit or an
        interruption ends the call: requests under way are waited for and their answers kept.

        Args:
            prompts: texts that the model continues.
            max_new_tokens: length of an answer at most.
            stop: texts that end an answer, and are not part of it; many services take four at most.
            chat: whether a prompt is a user's message (`/chat/completions`) rather than bare text (`/completions`).
            temperature: 0 takes the likeliest token as far as the service does; else tokens are drawn.
            seed: of the draws; few services promise the same answer to the same seed.
            progress: show a progress bar over distinct prompts.
            grammars: must be None: there is no common way to give an endpoint a grammar.

        Raises:
            TypeError: `prompts` is one text or holds something else than texts.
            ValueError: a prompt is empty or holds a lone surrogate, a setting makes no sense, or grammars are given.
            ModelError: the key is missing or refused, a prompt was not answered, or the first ones were all refused:
                names the prompt, the last fault, and how often it was tried.
            SpendingLimit: the next call might exceed the limit.
            ArtifactError: an answer cannot be kept.
        """
        if grammars is not None:
            raise ValueError("grammars are not supported by a remote endpoint: use lib.generation.local")
        check_arguments(prompts, max_new_tokens, stop, temperature)
        if not all(prompts):
            raise ValueError("a prompt is empty")
        settings: dict[str, Any] = {"max_new_tokens": max_new_tokens, "stop": list(stop), "chat": chat}
        settings |= {"temperature": temperature, "seed": seed}
        keys = {prompt: key_of(f"{self.endpoint} {self.name}", prompt, **settings) for prompt in prompts}
        self.usage, self.finished, self.costs = Usage(prompts=len(keys)), [], []
        self._write_record()
        answers: dict[str, Answer] = {}
        for (prompt, key), answer in zip(keys.items(), self._get(keys.values()), strict=True):
            if answer is not None:
                answers[prompt] = answer
                self._note(prompt, answer)
                self.usage.cached += 1
                if key not in self._counted:
                    self._counted.add(key)
                    self.counters.cost_cached += self._price(answer.cost)
        try:
            self._ask(keys, settings, answers, progress)
        finally:
            for answer in answers.values():
                self.usage.tokens_in += answer.cost.tokens_in
                self.usage.tokens_out += answer.cost.tokens_out
                self.usage.seconds += answer.cost.seconds
            self._write_record()
        self.finished = [answers[prompt].finished for prompt in prompts]
        self.costs = [answers[prompt].cost for prompt in prompts]
        return [answers[prompt].text for prompt in prompts]

    def _get(self, keys: Iterable[str]) -> list[Answer | None]:
        return self.cache.get(keys) if self.cache else [None for _ in keys]

    def _write_record(self) -> None:
        if self.record:
            with atomic_path(self.record) as temporary:
                refused = [{"prompt": _named(prompt), "reason": reason} for prompt, reason in self.refused.items()]
                record = {"model": self.name + self.said_beside} | asdict(self.counters) | {"reasons": refused}
                temporary.write_text(json.dumps(record) + "\n", encoding="utf-8")

    def _note(self, prompt: str, answer: Answer) -> None:
        """Take down that a prompt has an answer, or why it has none."""
        if answer.refused:
            self.refused[prompt] = answer.refused
            self.counters.refused = len(self.refused)
        else:
            self._answers = True

    def _price(self, cost: Cost) -> float:
        return (cost.tokens_in * self.prices[0] + cost.tokens_out * self.prices[1]) / 1e6

    # ---- asking

    def _ask(self, keys: dict[str, str], settings: dict, answers: dict[str, Answer], progress: bool) -> None:
        """Put the answers that are missing into `answers`, and keep them. The event loop has a thread of its own: a
        notebook's has one already."""
        missing = [prompt for prompt in keys if prompt not in answers]
        if not missing:
            return
        key, stopped = self._key(), threading.Event()

        def take(prompt: str, answer: Answer) -> None:
            answers[prompt] = answer
            self._counted.add(keys[prompt])
            if self.cache and answer.cost != Cost():  # a refusal that costs nothing may be asked for again
                self.cache.add({keys[prompt]: answer})
            self._note(prompt, answer)
            bar.update()
            if not self._answers and len(self.refused) >= REFUSALS:
                raise self._no_answer(prompt, answer.refused, 1)

        bar = tqdm(total=len(keys), initial=len(answers), disable=not progress, unit="prompt", desc="asking")
        with bar, ThreadPoolExecutor(1) as pool:
            asked = pool.submit(asyncio.run, self._ask_all(key, missing, settings, take, stopped))
            try:
                while not asked.done():
                    wait([asked], timeout=1)  # one without end would miss a Ctrl-C that comes just before it begins
            finally:
                stopped.set()  # on an interruption too: requests under way are waited for
        failure = asked.result()
        if not (failure or self._answers) and len(missing) > 1:  # so each of them was refused
            failure = self._no_answer(missing[0], self.refused[missing[0]], 1)
        if isinstance(failure, ModelError):
            kept = f" and kept in {self.cache.own}" if self.cache else ""
            answered = sum(not answer.refused for answer in answers.values())
            raise type(failure)(f"{failure}; {answered} of {len(keys)} prompts are answered{kept}")
        if failure:
            raise failure

    async def _ask_all(
        self, key: str, prompts: Sequence[str], settings: dict, take: Callable, stopped: threading.Event
    ) -> Exception | None:
        """Give each answer to `take`; returns the first error, after which only requests under way go on."""
        turns, settled = asyncio.Semaphore(self.concurrency), asyncio.Condition()
        failures: list[Exception] = []

        async def ask(prompt: str) -> None:
            async with turns:
                try:
                    if not stopped.is_set() and (
                        answer := await self._answer(client, prompt, settings, stopped, settled)
                    ):
                        take(prompt, answer)
                except Exception as error:
                    failures.append(error)
                    stopped.set()

        async with _client(key, self._url, self.timeout) as client:
            await asyncio.gather(*map(ask, prompts))
        return failures[0] if failures else None

    async def _answer(
        self, client, prompt: str, settings: dict, stopped: threading.Event, settled: asyncio.Condition
    ) -> Answer | None:
        """The answer to a prompt; None where `stopped` came before it."""
        worst = self._price(Cost(self.count_tokens(prompt), settings["max_new_tokens"]))
        for tried in range(1, ATTEMPTS + 1):
            if not await self._reserve(worst, stopped, settled):
                return None
            cost, lost = Cost(), worst
            try:
                answer = await self._send(client, prompt, settings)
                cost, lost = answer.cost, 0.0
                return answer
            except _Fault as error:
                fault = error
                lost = worst if fault.charged else 0.0
            finally:
                await self._settle(worst, cost, lost, tried > 1, settled)
            if fault.refused:
                return Answer("", False, refused=str(fault))
            if not fault.passing or tried == ATTEMPTS:
                break
            seconds = fault.retry_after + random.uniform(0, min(FIRST_BACKOFF * 2 ** (tried - 1), LONGEST_BACKOFF))
            await _sleep(seconds, stopped)
        # Raised out here, the error brings no other one along: those hold the request, and so the key.
        raise self._no_answer(prompt, str(fault), tried)

    def _no_answer(self, prompt: str, reason: str, tried: int) -> ModelError:
        times = "once" if tried == 1 else f"{tried} times"
        return ModelError(f"{self.name} at {self.endpoint}: {reason}, asked {times}: prompt {_named(prompt)!r}")

    async def _reserve(self, worst: float, stopped: threading.Event, settled: asyncio.Condition) -> bool:
        """Hold `worst` back for a call; where it only fits if calls under way cost less than reserved, wait for them.
        False where `stopped` came first. Raises SpendingLimit where it does not fit."""
        async with settled:
            while not stopped.is_set():
                spent = self.counters.cost + self.counters.cost_lost + self.counters.cost_cached
                left = self.limit - spent + 1e-9 * self.limit  # sums of floats are not exact
                if worst > left:
                    raise SpendingLimit(
                        f"the spending limit of {self.limit:g} leaves {max(self.limit - spent, 0):.4g} after "
                        f"{spent:.4g} and the next call may cost {worst:.4g}: run again with a higher limit"
                    )
                if sum(self._reserved) + worst <= left:
                    self._reserved.append(worst)
                    return True
                await settled.wait()
        return False

    async def _settle(self, worst: float, cost: Cost, lost: float, again: bool, settled: asyncio.Condition) -> None:
        """Replace what was reserved for a call by what it cost."""
        self._reserved.remove(worst)
        self.counters.calls += 1
        self.counters.retries += again
        self.counters.tokens_in += cost.tokens_in
        self.counters.tokens_out += cost.tokens_out
        self.counters.cost += self._price(cost)
        self.counters.cost_lost += lost
        async with settled:
            settled.notify_all()

    async def _send(self, client, prompt: str, settings: dict) -> Answer:
        """The answer from one request. Raises _Fault."""
        arguments: dict[str, Any] = {"model": self.name, "max_tokens": settings["max_new_tokens"], "temperature": 0.0}
        if settings["stop"]:
            arguments["stop"] = settings["stop"]
        if settings["temperature"]:
            arguments["temperature"], arguments["seed"] = settings["temperature"], settings["seed"]
        arguments |= {"messages": [{"role": "user", "content": prompt}]} if settings["chat"] else {"prompt": prompt}
        asked, started = client.chat.completions if settings["chat"] else client.completions, time.perf_counter()
        try:
            body = (await asked.with_raw_response.create(**arguments)).content
        except (openai.APIError, TimeoutError) as error:
            raise _fault(error, client.api_key) from error
        seconds = time.perf_counter() - started
        text, end, tokens = read_body(body, settings["chat"])
        tokens = tokens or (self.count_tokens(prompt), self.count_tokens(text or ""))
        # One without text would be paid for again, and end the same.
        refused = f"an answer without text, ended by {end}" if text is None else ""
        return Answer(text or "", end == "stop" and not refused, Cost(*tokens, seconds), refused=refused)

    def _key(self) -> str:
        """Raises ModelError where `OPENAI_API_KEY` is missing or cannot be sent."""
        key = os.environ.get("OPENAI_API_KEY", "").strip()
        if not key:
            raise ModelError(
                f"{self.endpoint} needs a key: set the environment variable OPENAI_API_KEY "
                "(to any text for a server that asks for none)"
            )
        if not (key.isascii() and key.isprintable()):
            raise ModelError("the environment variable OPENAI_API_KEY holds characters that no key has")
        return key


class DryRun(RemoteModel):
    """Counts what would be asked, with answers as long as they may be, asks nobody and answers with `PLACEHOLDER`; what
    is kept is taken from there. Needs neither address nor key, and spends nothing of the limit."""

    PLACEHOLDER = "placeholder"
    said_beside = " (dry run)"

    def __init__(self, name: str, **settings):
        super().__init__(name, **settings)
        self._given: dict[str, Answer] = {}  # placeholders by key

    def _address(self) -> SplitResult:
        return _base_url() if os.environ.get("OPENAI_BASE_URL") else urlsplit("http://dry-run")

    def _get(self, keys: Iterable[str]) -> list[Answer | None]:
        keys = list(keys)
        return [self._given.get(key) or answer for key, answer in zip(keys, super()._get(keys), strict=True)]

    def _ask(self, keys: dict[str, str], settings: dict, answers: dict[str, Answer], progress: bool) -> None:
        for prompt, key in keys.items():
            if prompt not in answers:
                self._counted.add(key)
                cost = self.expect([prompt], 1, settings["max_new_tokens"])
                answers[prompt] = self._given[key] = Answer(self.PLACEHOLDER, cost=cost)

    def expect(self, prompts: Sequence[str], calls: int, max_new_tokens: int) -> Cost:
        """Count calls whose prompts are as long as these on average; returns the tokens of prompts and of answers."""
        read = round(calls * sum(map(self.count_tokens, prompts)) / max(len(prompts), 1))
        cost = Cost(read, calls * max_new_tokens)
        self.counters.calls += calls
        self.counters.tokens_in += cost.tokens_in
        self.counters.tokens_out += cost.tokens_out
        self.counters.cost += self._price(cost)
        return cost


# ---------------------------------------------------------------- requests


async def _sleep(seconds: float, stopped: threading.Event) -> None:
    """Wait, at most until `stopped`."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0 and not stopped.is_set():
        await asyncio.sleep(min(left, 0.2))


def _client(key: str, url: SplitResult, seconds: float) -> openai.AsyncOpenAI:
    """The client of one call of `generate`."""
    for library in ("httpx", "httpx2"):  # they log each request with its whole address, a password included
        logging.getLogger(library).setLevel(logging.WARNING)
    return openai.AsyncOpenAI(
        api_key=key,
        base_url=urlunsplit(url._replace(query="", fragment="")),
        default_query=dict(parse_qsl(url.query)),
        default_headers={"Accept-Encoding": "identity"},  # else a small body may hold a very large one
        timeout=openai.Timeout(None, connect=seconds / 2),
        max_retries=0,
        http_client=_HTTPClient(seconds),
    )


class _HTTPClient(openai.DefaultAsyncHttpxClient):
    """Follows no redirect, keeps no cookie (one that is not ASCII would make every later request fail), and ends a
    request that takes too long as a whole or whose answer is too large."""

    def __init__(self, seconds: float):
        super().__init__(follow_redirects=False, cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])))
        self.seconds = seconds

    async def send(self, request, **settings):
        async with asyncio.timeout(self.seconds):
            response = await super().send(request, **(settings | {"stream": True}))
            try:
                body = bytearray()
                async for part in response.aiter_bytes():
                    body += part
                    if len(body) > LARGEST_BODY:
                        raise _Fault(f"malformed body of more than {LARGEST_BODY // 2**20} MiB")
            finally:
                await response.aclose()
        response.headers.pop("Content-Encoding", None)  # it is decoded
        return type(response)(response.status_code, headers=response.headers, content=bytes(body), request=request)


# ---------------------------------------------------------------- faults


class _Fault(Exception):
    """A request without an answer.

    Attributes:
        passing: whether another attempt may help.
        refused: whether it is this prompt that the endpoint does not take.
        charged: whether the request may be charged all the same.
        retry_after: seconds to wait at least.
    """

    def __init__(
        self, reason: str, passing: bool = True, charged: bool = True, retry_after: float = 0.0, refused: bool = False
    ):
        super().__init__(reason)
        self.passing = passing
        self.refused = refused
        self.charged = charged
        self.retry_after = retry_after


def _fault(error: Exception, key: str) -> _Fault:
    """What an error of the client means; its text without the key, which some services repeat."""
    if isinstance(error, TimeoutError):
        return _Fault("time-out")
    if isinstance(error, openai.APIConnectionError):
        sent = type(error.__cause__).__name__ not in ("ConnectError", "ConnectTimeout")  # of httpx or httpx2
        return _Fault("connection cut" if sent else "no connection", charged=sent)
    if not isinstance(error, openai.APIStatusError):
        return _Fault("malformed body")
    status, headers = error.status_code, error.response.headers
    if status < 400:
        where = _host(headers.get("location", ""))
        reason = f"status {status}, a redirect{where and ' to '}{where}, which is not followed: see OPENAI_BASE_URL"
        return _Fault(reason, passing=False, charged=False)
    # Some services repeat the key, whole or in part, where they refuse it.
    said = "" if status in (401, 403) else error.message.replace(key, "***")
    said = "".join(character if character.isprintable() else " " for character in said)
    said = " ".join(said.split()).removeprefix(f"Error code: {status}").lstrip(" -")
    reason = f"status {status}" + (f" ({said[:200]})" if said else "")
    wait = retry_after(headers.get("retry-after", ""))
    if wait > LONGEST_RETRY_AFTER:
        return _Fault(f"{reason} and a wait of {wait:.0f} s asked for", passing=False, charged=False)
    passing, refused = status in (408, 429) or status >= 500, status in (400, 413, 422)
    return _Fault(reason, passing, charged=False, retry_after=wait, refused=refused)


def _host(location: str) -> str:
    """Scheme, host and port of an address, without what else may stand there, such as a password; "" without a host."""
    with contextlib.suppress(ValueError):
        url = urlsplit(location)
        host = "".join(filter(str.isprintable, url.netloc.rpartition("@")[2]))[:100]
        return f"{url.scheme}://{host}".removeprefix("://") if host else ""
    return ""


# ---------------------------------------------------------------- answers


def read_body(body: bytes, chat: bool) -> tuple[str | None, Any, tuple[int, int] | None]:
    """Text of an answer, what ended it, and the tokens of prompt and answer.

    There is no text where a limit or a filter ended the answer before its first word. There are no tokens where the
    endpoint reports none, or what nobody can have used. Lone surrogates in the text are replaced.

    Raises:
        _Fault: the body is no answer.
    """
    try:
        content = json.loads(body, parse_int=_whole_number)
    except (ValueError, RecursionError) as error:
        raise _Fault("malformed body") from error
    try:
        choice = content["choices"][0]
        text, end = (choice["message"].get("content") if chat else choice["text"]), choice.get("finish_reason")
    except (AttributeError, LookupError, TypeError):
        text = end = None
    if not isinstance(text, str) and end not in ("length", "content_filter"):
        raise _Fault("malformed body without an answer")
    usage = content.get("usage")
    tokens: tuple[Any, Any] = (None, None)
    if isinstance(usage, dict):
        tokens = usage.get("prompt_tokens"), usage.get("completion_tokens")
    believed = all(type(number) is int and 0 <= number <= MOST_TOKENS for number in tokens)
    return encodable(text) if isinstance(text, str) else None, end, tokens if believed else None


def _whole_number(digits: str) -> float:
    """A number of JSON; infinity for one that is too long to be read in reasonable time."""
    return int(digits) if len(digits) < 20 else math.inf


def _named(prompt: str) -> str:
    """A prompt in an error: those of one step begin and end alike, so where it is long a part of it and its hash."""
    return prompt if len(prompt) <= 160 else f"{prompt[:150]} … ({hashlib.sha256(prompt.encode()).hexdigest()[:12]})"


def retry_after(header: str) -> float:
    """Seconds that a `Retry-After` header (RFC 9110, 10.2.3: seconds or a date) asks for; 0 where it cannot be read."""
    try:
        seconds = float(header)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(header).timestamp() - time.time()
        except (ValueError, OverflowError):
            return 0.0
    return seconds if seconds > 0 else 0.0


def _base_url() -> SplitResult:
    """The address in the environment; errors do not show it, as it may hold a password."""
    text = os.environ.get("OPENAI_BASE_URL", "").strip()
    if not text:
        raise ModelError(
            "a remote model needs an address: set the environment variable OPENAI_BASE_URL, "
            "such as https://api.openai.com/v1 or http://localhost:8000/v1"
        )
    try:
        url = urlsplit(text)
        usable = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0 and text.isprintable()
    except ValueError:
        usable = False
    if not usable:
        raise ModelError("the environment variable OPENAI_BASE_URL is no address such as https://api.openai.com/v1")
    return url
