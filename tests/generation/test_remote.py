"""Models behind an endpoint: every fault is survived or said, nothing is paid for twice, the key is written nowhere."""

import functools
import hashlib
import json
import logging
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
import traceback
from email.utils import formatdate

import pytest

from lib.generation import remote
from lib.generation.answers import key_of
from lib.generation.load import load_language_model
from lib.generation.local import Cost, Usage
from lib.generation.models import ModelError
from lib.generation.remote import Counters, DryRun, RemoteModel, SpendingLimit
from lib.workbook.artifacts import ROOT
from tests.generation.endpoint import ENDS, TRANSIENT, TRICKLES, Endpoint

KEY = "sk-a-secret-that-is-nowhere-1234567890"
CREATE_CONTEXT = functools.cache(ssl.create_default_context)  # reading certificates takes 20 ms a client
PROMPTS = ["one two", "three", "four five six", "seven", "eight", "nine ten"]


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    for name in list(os.environ):
        if name.startswith("OPENAI_") or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setattr(remote, "FIRST_BACKOFF", 0.001)
    monkeypatch.setattr(ssl, "create_default_context", CREATE_CONTEXT)


@pytest.fixture
def endpoint(monkeypatch):
    with Endpoint() as running:
        monkeypatch.setenv("OPENAI_BASE_URL", running.url)
        yield running


@pytest.fixture
def make(endpoint, tmp_path):
    """A model of `endpoint` with a cache; another one made with it reads the same cache."""
    return lambda **settings: RemoteModel("tiny", **{"cache": tmp_path / "answers", "timeout": 5} | settings)


@pytest.fixture
def left(endpoint, tmp_path):
    """How many of prompts a model made with `make` would still ask, and what these would cost."""

    def left(prompts, chat=False, max_new_tokens=128, **settings):
        model = DryRun("tiny", cache=tmp_path / "answers", **settings)
        model.generate(prompts, chat=chat, max_new_tokens=max_new_tokens)
        return model.counters.calls, model.counters.cost

    return left


def backwards(prompts):
    return [prompt[::-1] for prompt in prompts]


def lines(folder):
    """Of all answers that are kept below a folder."""
    return sum(path.read_bytes().count(b"\n") for path in folder.rglob("*.jsonl"))


def paid_once(endpoint, prompts=PROMPTS):
    return endpoint.paid == dict.fromkeys(prompts, 1)


# ---------------------------------------------------------------- answers


@pytest.mark.parametrize("chat", [False, True])
def test_answers_in_order_and_equal_prompts_asked_once(endpoint, make, chat):
    prompts = [*PROMPTS, PROMPTS[2], PROMPTS[0]]
    model = make()
    assert model.generate(prompts, max_new_tokens=2, chat=chat) == [
        "owt eno", "eerht", "xis evif", "neves", "thgie", "net enin", "xis evif", "owt eno",
    ]  # fmt: skip
    assert paid_once(endpoint)
    assert model.finished == [True, True, False, True, True, True, False, True]
    assert [(cost.tokens_in, cost.tokens_out) for cost in model.costs[:3]] == [(2, 2), (1, 1), (3, 2)]
    assert model.costs[2] == model.costs[6]
    assert all(isinstance(cost, Cost) and cost.seconds > 0 for cost in model.costs)
    assert model.usage == Usage(6, 10, 9, sum(cost.seconds for cost in model.costs[:6]), 0)
    assert model.counters == Counters(calls=6, tokens_in=10, tokens_out=9)
    assert {request["path"] for request in endpoint.requests} == {"/v1/chat/completions" if chat else "/v1/completions"}


def test_what_is_sent(endpoint, make):
    model = make()
    model.generate(["a"], max_new_tokens=7, chat=True)
    model.generate(["b"], stop=["\n", "END"], temperature=0.5, seed=3)
    chat, bare = (request["body"] for request in endpoint.requests)
    assert chat == {
        "model": "tiny", "messages": [{"role": "user", "content": "a"}], "max_tokens": 7, "temperature": 0,
    }  # fmt: skip
    assert bare == {
        "model": "tiny", "prompt": "b", "max_tokens": 128, "temperature": 0.5, "seed": 3, "stop": ["\n", "END"],
    }  # fmt: skip
    assert endpoint.requests[0]["headers"]["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize(
    "count",
    ["9" * 5000, "9" * 400, "10000000000", "-1", "true", '"7"', "1.0", "NaN", "1e999", "null", "[]"],
    ids=lambda count: count[:8],
)
def test_a_token_count_that_cannot_be_is_replaced_by_an_estimate_and_the_answer_kept(endpoint, make, count):
    usage = f'{{"prompt_tokens": {count}, "completion_tokens": 3}}'
    body = f'{{"choices": [{{"text": "yes", "finish_reason": "stop"}}], "usage": {usage}}}'
    endpoint.faults = {"abc de": [body.encode()]}
    model = make(price_in=1, price_out=1, limit=1, count_tokens=len)
    assert model.generate(["abc de"]) == make().generate(["abc de"]) == ["yes"]
    assert (model.costs[0].tokens_in, model.costs[0].tokens_out) == (6, 3)
    assert len(endpoint.requests) == 1


@pytest.mark.parametrize("chat", [False, True])
def test_a_lone_surrogate_in_an_answer_is_replaced_before_it_is_kept(endpoint, make, chat):
    answer = r'{"message": {"content": "\ud83d!"}}' if chat else r'{"text": "\ud83d!"}'
    endpoint.faults = {"a": [f'{{"choices": [{answer}]}}'.encode()]}
    model = make()
    assert model.generate(["a"], chat=chat) == make().generate(["a"], chat=chat) == ["\ufffd!"]
    assert json.loads(model.cache.own.read_text())["text"] == "\ufffd!"
    assert len(endpoint.requests) == 1


@pytest.mark.parametrize(
    ("arguments", "kind", "said"),
    [
        ({"prompts": "text"}, TypeError, "list of texts"),
        ({"prompts": [1]}, TypeError, "list of texts"),
        ({"prompts": ["a", ""]}, ValueError, "empty"),
        ({"prompts": ["half \ud83d"]}, ValueError, "a prompt holds a lone surrogate.*it begins 'half"),
        ({"prompts": ["a"], "stop": ["\udfff"]}, ValueError, "stop text holds a lone surrogate"),
        ({"prompts": ["a"], "max_new_tokens": 0}, ValueError, "max_new_tokens"),
        ({"prompts": ["a"], "temperature": -1}, ValueError, "temperature"),
        ({"prompts": ["a"], "stop": "END"}, ValueError, "stop"),
        ({"prompts": ["a"], "grammars": "start: /a/"}, ValueError, "grammars are not supported"),
    ],
)
def test_bad_arguments(endpoint, make, arguments, kind, said):
    with pytest.raises(kind, match=said):
        make().generate(**arguments)
    assert not endpoint.requests


def test_keys_of_kept_answers(endpoint, make):
    """Answers of earlier runs are found under them."""
    settings = {"max_new_tokens": 9, "stop": ["\n"], "chat": True, "temperature": 0.5, "seed": 3}
    model = make()
    model.generate(["Hello"], **settings)
    (answer,) = model.cache.get([key_of(f"{model.endpoint} tiny", "Hello", **settings)])
    assert answer.text == "olleH"


# ---------------------------------------------------------------- faults


@pytest.mark.parametrize("fault", TRANSIENT)
def test_a_passing_fault_is_survived_and_every_prompt_paid_for_once(endpoint, make, fault, left):
    model = make(timeout=0.25 if fault == "delay" else 5, concurrency=2)
    started = time.monotonic()
    for chat in (False, True):
        endpoint.faults = {"three": [fault, fault], "eight": [fault]}
        assert model.generate(PROMPTS, chat=chat) == backwards(PROMPTS)
    assert time.monotonic() - started < 10
    assert endpoint.paid == dict.fromkeys(PROMPTS, 2)
    assert len(endpoint.requests) == 18
    # A connection that the server closed just before a request went out costs a try that never reached it.
    assert model.counters.calls - model.counters.retries == 12
    assert model.counters.retries >= 6
    assert left(PROMPTS) == left(PROMPTS, chat=True) == (0, 0)


@pytest.mark.parametrize("form", ["seconds", "date"])
def test_retry_after_is_honoured(endpoint, make, form):
    asked = time.time() + 0.3 if form == "seconds" else int(time.time()) + 2
    header = "0.3" if form == "seconds" else formatdate(asked, usegmt=True)
    endpoint.faults = {"a": [("429", header)]}
    assert make().generate(["a", "b"]) == ["a", "b"]
    _, second = endpoint.asked("a")
    assert asked <= second["time"] < asked + 2
    assert paid_once(endpoint, ["a", "b"])


@pytest.mark.parametrize("status", ["401", "403", "404"])
def test_a_refused_key_or_model_ends_the_call_and_names_the_prompt(endpoint, make, status):
    prompt = "x" * 200
    said = " (told to fail)" if status == "404" else ""  # a refused key may stand in what is said about it
    endpoint.faults = {prompt: [status]}
    with pytest.raises(ModelError) as caught:
        make(concurrency=1).generate([*PROMPTS, prompt, "never asked"])
    assert str(caught.value).startswith(
        f"tiny at {endpoint.url.removeprefix('http://')}: status {status}{said}, asked once: "
        f"prompt '{'x' * 150} … ({hashlib.sha256(prompt.encode()).hexdigest()[:12]})'; "
        "6 of 8 prompts are answered and kept in "
    )
    assert len(endpoint.asked(prompt)) == 1
    assert make().generate([*PROMPTS, prompt]) == backwards([*PROMPTS, prompt])
    assert paid_once(endpoint, [*PROMPTS, prompt])


def test_a_prompt_that_is_refused_stands_empty_and_the_others_are_answered(endpoint, make, tmp_path):
    endpoint.faults = {"three": ["400"], "eight": ["400", "..."]}
    model = make(record=tmp_path / "record.json", concurrency=1)
    assert model.generate(PROMPTS) == ["owt eno", "", "xis evif ruof", "neves", "", "net enin"]
    assert model.finished == [True, False, True, True, False, True]
    assert model.refused == dict.fromkeys(["three", "eight"], "status 400 (told to fail)")
    assert (model.counters.calls, model.counters.retries, model.counters.refused) == (6, 0, 2)
    assert json.loads((tmp_path / "record.json").read_text())["reasons"] == [
        {"prompt": prompt, "reason": reason} for prompt, reason in model.refused.items()
    ]
    assert model.generate(["eight"]) == [""]  # alone, and still no reason to give up
    again = make()
    assert again.generate(PROMPTS)[1::3] == ["eerht", ""]  # asked again: a refusal cost nothing
    assert again.counters.refused == 1
    assert all(count == 1 for count in endpoint.paid.values())


@pytest.mark.parametrize("end", ENDS)
def test_an_answer_without_text_is_paid_for_once(endpoint, make, end):
    endpoint.faults = {"eight": [end, "..."]}
    reason = f"an answer without text, ended by {end}"
    for _ in range(2):
        model = make()
        assert model.generate(PROMPTS, chat=True)[4] == ""
        assert (model.refused, model.counters.refused) == ({"eight": reason}, 1)
    assert len(endpoint.asked("eight")) == 1
    assert model.counters.calls == 0


@pytest.mark.parametrize(("fault", "said"), [("503", "status 503"), ("cut", "connection cut"), ("null", "malformed")])
def test_a_lasting_fault_is_said_with_the_prompt_and_the_answers_paid_for_are_kept(endpoint, make, fault, said):
    endpoint.faults = {"seven": [fault, "..."]}
    model = make()
    with pytest.raises(ModelError, match=rf"{said}.*, asked {remote.ATTEMPTS} times: prompt 'seven'"):
        model.generate(PROMPTS)
    assert len(endpoint.asked("seven")) == remote.ATTEMPTS
    assert (model.usage.prompts, model.finished, model.costs) == (6, [], [])
    assert model.usage.tokens_in == model.counters.tokens_in == sum(len(text.split()) for text in endpoint.paid)
    endpoint.faults = {}
    assert make().generate(PROMPTS) == backwards(PROMPTS)
    assert paid_once(endpoint)


def test_a_server_that_is_down(endpoint, make):
    model = make(price_in=1, limit=1)
    endpoint.server.shutdown()
    endpoint.server.server_close()
    with pytest.raises(ModelError, match="no connection, asked 8 times"):
        model.generate(["a"])
    assert model.counters == Counters(calls=8, retries=7)


@pytest.mark.parametrize("fault", TRICKLES)
def test_a_request_ends_in_time_though_bytes_keep_coming(endpoint, make, monkeypatch, fault):
    monkeypatch.setattr(remote, "ATTEMPTS", 2)
    endpoint.faults = {"three": [fault, "..."], "eight": [fault]}
    with pytest.raises(ModelError, match="time-out, asked 2 times: prompt 'three'"):
        make(timeout=0.3, concurrency=1).generate(["three"])
    assert len(endpoint.asked("three")) == 2
    model = make(timeout=0.3, **PRICES)
    assert model.generate(["eight"], max_new_tokens=4) == ["thgie"]
    assert (model.counters.retries, model.counters.cost_lost) == (1, 9)  # it may have been charged


@pytest.mark.parametrize("address", ["http://user:secret@{}/v1/completions?key=secret", "//{}/v1", "https://{}/v1"])
def test_a_redirect_to_another_host_is_refused_and_nothing_sent_there(endpoint, make, monkeypatch, address):
    monkeypatch.setattr(remote, "ATTEMPTS", 1)
    with socket.create_server(("127.0.0.1", 0)) as other:
        host = f"127.0.0.1:{other.getsockname()[1]}"
        endpoint.faults = {"a": [("redirect", address.format(host))]}
        with pytest.raises(
            ModelError, match=rf"status 307, a redirect to \S*{host}, .*OPENAI_BASE_URL.*once"
        ) as caught:
            make(timeout=0.5).generate(["a"])
        other.setblocking(False)
        with pytest.raises(BlockingIOError):
            other.accept()
    assert "secret" not in str(caught.value)


# ---------------------------------------------------------------- interruptions


@pytest.fixture
def ctrl_c():
    """Ctrl-C reaches Python even where the tests run in the background, which starts them with it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield lambda: os.kill(os.getpid(), signal.SIGINT)
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("number", [1, 4])
def test_ctrl_c_at_any_call_keeps_what_is_under_way(endpoint, make, ctrl_c, number):
    endpoint.on_request = lambda seen: ctrl_c() if seen == number else None
    endpoint.delay = 0.3
    model = make(concurrency=2)
    with pytest.raises(KeyboardInterrupt):
        model.generate(PROMPTS)
    asked = len(endpoint.requests)
    assert number <= asked <= number + 2
    assert sum(endpoint.paid.values()) == asked
    assert make().generate(PROMPTS) == backwards(PROMPTS)
    assert paid_once(endpoint)


KILLED = """
import sys
from pathlib import Path
from lib.generation.remote import RemoteModel
from tests.generation.test_remote import PROMPTS
RemoteModel("tiny", cache=Path(sys.argv[1]), timeout=20, concurrency=2).generate(PROMPTS)
"""


@pytest.mark.parametrize("answered", [0, 3])
def test_a_kill_after_any_answer_resumes_from_the_cache(endpoint, make, tmp_path, answered):
    endpoint.held = answered
    with subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path / "answers")], cwd=ROOT) as child:
        deadline = time.monotonic() + 120
        while lines(tmp_path) < answered or len(endpoint.requests) <= answered:
            assert time.monotonic() < deadline
            assert child.poll() is None
            time.sleep(0.005)
        child.kill()
    endpoint.held = None
    model = make()
    assert model.generate(PROMPTS) == backwards(PROMPTS)
    assert (model.usage.cached, model.counters.calls) == (answered, 6 - answered)
    assert paid_once(endpoint)


# ---------------------------------------------------------------- dry run and spending limit

PRICES = {"price_in": 1e6, "price_out": 2e6, "count_tokens": lambda text: len(text.split())}  # 1 and 2 a token


def test_a_dry_run_counts_asks_nobody_and_goes_on(endpoint, make, monkeypatch, tmp_path):
    make().generate(PROMPTS[:2], max_new_tokens=5)
    monkeypatch.delenv("OPENAI_API_KEY")
    settings = {"cache": tmp_path / "answers", "record": tmp_path / "spending.json"} | PRICES
    model = load_language_model(
        "remote:tiny", dry_run=True, **{k: v for k, v in settings.items() if k != "count_tokens"}
    )
    assert isinstance(model, DryRun)
    model = DryRun("tiny", limit=1, **settings)
    answers = model.generate([*PROMPTS, PROMPTS[3]], max_new_tokens=5)
    assert answers == [*backwards(PROMPTS[:2]), *[DryRun.PLACEHOLDER] * 5]
    assert model.counters == Counters(calls=4, tokens_in=7, tokens_out=20, cost=47, cost_cached=9)
    assert [cost.tokens_out for cost in model.costs[2:]] == [5] * 5
    model.generate(PROMPTS, max_new_tokens=5)
    assert model.counters.calls == 4, "asked before"
    model.expect(["a b", "c d e f"], 10, 3)
    assert (model.counters.calls, model.counters.tokens_in, model.counters.tokens_out) == (14, 37, 50)
    assert len(endpoint.requests) == 2
    assert json.loads((tmp_path / "spending.json").read_text())["model"] == "tiny (dry run)"
    assert lines(tmp_path) == 2


@pytest.mark.parametrize("concurrency", [1, 2, 8])
def test_the_limit_stops_cleanly_and_a_higher_one_goes_on(endpoint, make, concurrency):
    """A prompt of one word costs 3 and 1 + 2 · 4 = 9 at worst."""
    endpoint.delay = 0.01
    prompts = [f"prompt{i}" for i in range(10)]
    with pytest.raises(SpendingLimit, match=r"limit of 20 leaves 8 after 12 .*cost 9.*; 4 of 10 prompts .* kept in"):
        make(concurrency=concurrency, limit=20, **PRICES).generate(prompts, max_new_tokens=4)
    assert sum(endpoint.paid.values()) == 4
    with pytest.raises(SpendingLimit):
        make(concurrency=concurrency, limit=20, **PRICES).generate(prompts, max_new_tokens=4)
    assert sum(endpoint.paid.values()) == 4
    model = make(concurrency=concurrency, limit=36, **PRICES)
    assert model.generate(prompts, max_new_tokens=4) == backwards(prompts)
    assert (model.counters.cost, model.counters.cost_cached) == (18, 12)
    assert paid_once(endpoint, prompts)


def test_what_may_have_been_charged_counts_against_the_limit(endpoint, make):
    endpoint.faults = {"a": ["cut", "503", "null", "..."]}
    model = make(limit=30, **PRICES)
    with pytest.raises(SpendingLimit, match="leaves 3 after 27"):
        model.generate(["a"], max_new_tokens=4)
    assert model.counters == Counters(calls=4, retries=3, cost_lost=27)


# ---------------------------------------------------------------- address and key


@pytest.mark.parametrize("address", [None, "", "  ", "host/v1", "ftp://host", "http://", "http://[host", "http://h:x/"])
def test_a_missing_or_bad_address_names_the_variable(monkeypatch, address):
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    if address is not None:
        monkeypatch.setenv("OPENAI_BASE_URL", address)
    with pytest.raises(ModelError, match="environment variable OPENAI_BASE_URL"):
        RemoteModel("tiny")


@pytest.mark.parametrize("key", [None, "", " \n", "sk-\u2019", "sk-\n1"])
def test_a_missing_or_bad_key_names_the_variable(endpoint, make, monkeypatch, key):
    monkeypatch.delenv("OPENAI_API_KEY")
    if key is not None:
        monkeypatch.setenv("OPENAI_API_KEY", key)
    with pytest.raises(ModelError, match="environment variable OPENAI_API_KEY"):
        make().generate(["a"])
    assert not endpoint.requests


def everything_reachable(error):
    """An exception, what it was raised from, and what was being handled, whether shown or not."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


@pytest.mark.parametrize("fault", ["401", "503", "cut", "null", "web page"])
def test_the_key_is_in_no_file_log_output_or_exception(endpoint, make, tmp_path, caplog, capfd, monkeypatch, fault):
    password, queried = "a-password-1234567890", "a-queried-secret-1234567890"
    address = endpoint.url.replace("://", f"://user:{password}@") + f"?code={queried}"
    monkeypatch.setenv("OPENAI_BASE_URL", address)
    monkeypatch.setenv("OPENAI_API_KEY", KEY + "\n")
    monkeypatch.setattr(remote, "ATTEMPTS", 2)
    endpoint.said = f"Incorrect API key provided: {KEY}"
    endpoint.faults = {"seven": [fault, "..."]}
    model = make(**PRICES, limit=10_000)
    with caplog.at_level(logging.DEBUG), pytest.raises(ModelError) as caught:
        model.generate(PROMPTS, progress=True)
    assert any(request["path"].endswith(queried) for request in endpoint.requests)  # it was sent, and is yet nowhere
    output = capfd.readouterr()
    places = {
        "log": caplog.text,
        "output": output.out + output.err,
        "object": f"{model!r} {model} {model.counters} {model.usage}",
        "traceback": "".join(traceback.format_exception(caught.value)),
        "exceptions": " ".join(f"{error} {error.args} {vars(error)}" for error in everything_reachable(caught.value)),
        "files": " ".join(f"{path} {path.read_text() if path.is_file() else ''}" for path in tmp_path.rglob("*")),
    }
    assert "seven" in places["traceback"]
    assert lines(tmp_path)
    for place, text in places.items():
        for secret in (KEY, KEY[3:20], password, queried):
            assert secret not in text, f"{place}: {secret}"
