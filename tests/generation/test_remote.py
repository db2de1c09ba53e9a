"""Models behind an endpoint: every fault is survived or said, nothing is paid for twice, the key is written nowhere."""

import functools
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

import pytest

from lib.generation import remote
from lib.generation.answers import key_of
from lib.generation.local import load_language_model
from lib.generation.models import ModelError
from lib.generation.remote import Counters, DryRun, RemoteModel, SpendingLimit, read_body
from lib.workbook.artifacts import ROOT
from tests.generation.endpoint import Endpoint

KEY = "sk-a-secret-that-is-nowhere-1234567890"
CREATE_CONTEXT = functools.cache(ssl.create_default_context)  # reading certificates takes 20 ms a client
PROMPTS = ["one two", "three", "four five six", "seven", "eight", "nine ten"]
PRICES = {"price_in": 1e6, "price_out": 2e6}  # 1 and 2 a token


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    for name in list(os.environ):
        if name.startswith("OPENAI_") or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.001)
    monkeypatch.setattr(ssl, "create_default_context", CREATE_CONTEXT)
    monkeypatch.setattr(remote, "estimate_tokens", lambda text: len(text.split()))


@pytest.fixture
def endpoint(monkeypatch):
    with Endpoint() as running:
        monkeypatch.setenv("OPENAI_BASE_URL", running.url)
        yield running


@pytest.fixture
def make(endpoint, tmp_path):
    """A model of `endpoint` with a cache; another one made with it reads the same cache."""
    return lambda **settings: RemoteModel("tiny", **{"cache": tmp_path / "answers", "timeout": 5} | settings)


def backwards(prompts):
    return [prompt[::-1] for prompt in prompts]


def lines(folder):
    """Of all answers that are kept below a folder."""
    return sum(path.read_bytes().count(b"\n") for path in folder.rglob("*.jsonl"))


def paid_once(endpoint, prompts=PROMPTS):
    return endpoint.paid == dict.fromkeys(prompts, 1)


@pytest.mark.parametrize("chat", [False, True])
def test_answers_in_order_and_equal_prompts_asked_once(endpoint, make, chat):
    model = make()
    assert model.generate([*PROMPTS, PROMPTS[2]], max_new_tokens=2, chat=chat) == [
        "owt eno", "eerht", "xis evif", "neves", "thgie", "net enin", "xis evif",
    ]  # fmt: skip
    assert paid_once(endpoint)
    assert model.finished == [True, True, False, True, True, True, False]
    assert [cost[:2] for cost in model.costs[:3]] == [(2, 2), (1, 1), (3, 2)]
    assert model.costs[2] == model.costs[6]
    assert all(cost.seconds > 0 for cost in model.costs)
    assert model.counters == Counters(calls=6, tokens_in=10, tokens_out=9)
    assert {request["path"] for request in endpoint.requests} == {"/v1/chat/completions" if chat else "/v1/completions"}


def test_what_is_sent_and_what_it_is_kept_under(endpoint, make):
    model, drawn = make(), {"stop": ["\n", "END"], "temperature": 0.5, "seed": 3}
    model.generate(["a"], max_new_tokens=7, chat=True)
    model.generate(["b"], **drawn)
    chat, bare = (request["body"] for request in endpoint.requests)
    messages = [{"role": "user", "content": "a"}]
    assert chat == {"model": "tiny", "messages": messages, "max_tokens": 7, "temperature": 0}
    assert bare == {"model": "tiny", "prompt": "b", "max_tokens": 128} | drawn
    key = key_of(f"{endpoint.url.removeprefix('http://')} tiny", "b", 128, **drawn)
    assert model.cache.get([key])[0].text == "b", "answers of earlier runs are found under it"


def body_of(end="stop", **message):
    """An answer of a chat."""
    return json.dumps({"choices": [{"message": message, "finish_reason": end}]}).encode()


THOUGHT = {"type": "thinking", "thinking": []}


@pytest.mark.parametrize(
    ("body", "read"),
    [
        (body_of(content="a \ud83d"), ("a \ufffd", "stop", None)),
        (body_of(content=[THOUGHT, {"type": "text", "text": "hel"}, {"text": "lo"}]), ("hello", "stop", None)),
        (body_of(content=[THOUGHT]), (None, "stop", None)),
        (body_of("safety", content=""), (None, "safety", None)),
        (body_of(content=""), ("", "stop", None)),
        (b'{"choices": [{"text": "a"}], "usage": {"prompt_tokens": 1, "completion_tokens": 2}}', ("a", "None", (1, 2))),
        (body_of(content=5), None),
        (body_of(None), None),
        (b"[" * 100_000, None),
        (b'{"error": {"message": "no credit"}}', None),
    ],
    ids=range(10),
)
def test_a_body_is_read_or_refused(body, read):
    if read:
        assert read_body(body, chat=b"message" in body) == read
    else:
        with pytest.raises(ValueError, match="malformed" if b"error" not in body else "no credit"):
            read_body(body, chat=True)


@pytest.mark.parametrize("fault", ["delay", 429, "cut"])
def test_a_passing_fault_is_survived_and_every_prompt_paid_for_once(endpoint, make, fault):
    endpoint.faults = {"three": [fault, fault], "eight": [fault]}
    model = make(timeout=0.25 if fault == "delay" else 5, concurrency=2)
    assert model.generate(PROMPTS) == backwards(PROMPTS)
    assert len(endpoint.requests) == 9
    assert paid_once(endpoint)


@pytest.mark.parametrize(
    ("fault", "said"),
    [(404, r"status 404 \(told to fail\)"), (503, "status 503"), ("cut", "was cut"), ("web page", "malformed")],
)
def test_a_lasting_fault_ends_the_call_and_the_answers_paid_for_are_kept(endpoint, make, fault, said):
    endpoint.faults = {"seven": [fault, "..."]}
    with pytest.raises(ModelError, match=rf"^tiny at 127.*/v1: .*{said}.*: prompt 'seven'; 3 of 5 new prompts are"):
        make(concurrency=1).generate([*PROMPTS[:4], "never asked"])
    assert len(endpoint.asked("seven")) == (remote.ATTEMPTS if fault in (503, "cut") else 1)
    endpoint.faults = {}
    assert make().generate(PROMPTS) == backwards(PROMPTS)
    assert paid_once(endpoint)


def test_a_prompt_that_is_refused_stands_empty_and_the_others_are_answered(endpoint, make, caplog):
    endpoint.faults = {"three": [400], "eight": [422, "..."]}
    model = make(concurrency=1)
    assert model.generate(PROMPTS) == ["owt eno", "", "xis evif ruof", "neves", "", "net enin"]
    assert model.finished == [True, False, True, True, False, True]
    assert "status 400 (told to fail): prompt 'three'" in caplog.text
    assert make().generate(PROMPTS)[1::3] == ["eerht", ""]  # asked again: a refusal cost nothing
    endpoint.faults = {"a": [400, "..."], "b": [400, "..."]}
    with pytest.raises(ModelError, match="status 400"):
        make().generate(["a", "b"])  # then it is not the prompts


def test_answers_without_text_are_paid_for_once_and_stop_nothing(endpoint, make, caplog):
    endpoint.faults = {prompt: ["no text", "..."] for prompt in PROMPTS[4:]}
    for _ in range(2):
        model = make()
        assert model.generate(PROMPTS[4:], chat=True) == ["", ""]
        assert model.finished == [False, False]
    assert [len(endpoint.asked(prompt)) for prompt in PROMPTS[4:]] == [1, 1]
    assert "without text, ended by stop: prompt 'eight'" in caplog.text


def test_a_request_ends_in_time_though_bytes_keep_coming(endpoint, make, monkeypatch):
    monkeypatch.setattr(remote, "ATTEMPTS", 2)
    endpoint.faults = {"three": ["trickle", "..."]}
    model, started = make(timeout=0.2, **PRICES), time.monotonic()
    with pytest.raises(ModelError, match=r"no answer in time.*'three'"):
        model.generate(["three"], max_new_tokens=4)
    assert time.monotonic() - started < 2
    assert model.counters == Counters(calls=1, cost=9), "it may have been charged"


def test_a_redirect_to_another_host_is_refused_and_nothing_sent_there(endpoint, make):
    with socket.create_server(("127.0.0.1", 0)) as other:
        endpoint.faults = {"a": [("redirect", f"http://user:secret@127.0.0.1:{other.getsockname()[1]}/v1/completions")]}
        with pytest.raises(ModelError, match=r"status 307, a redirect, .*OPENAI_BASE_URL") as caught:
            make(timeout=0.5).generate(["a"])
        other.setblocking(False)
        with pytest.raises(BlockingIOError):
            other.accept()
    assert "secret" not in str(caught.value)


KILLED = """
import sys
from tests.generation.test_remote import PROMPTS, RemoteModel
RemoteModel("tiny", cache=sys.argv[1], timeout=5, concurrency=2).generate(PROMPTS)
"""


@pytest.mark.slow
def test_a_killed_run_goes_on_without_paying_twice(endpoint, make, tmp_path):
    endpoint.held = 3
    with subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path / "answers")], cwd=ROOT) as child:
        while lines(tmp_path) < 3 or len(endpoint.requests) <= 3:
            assert child.poll() is None, "it gives up after 40 seconds of silence"
            time.sleep(0.005)
        child.kill()
    endpoint.held = None
    model = make()
    assert model.generate(PROMPTS) == backwards(PROMPTS)
    assert model.counters.calls == 3
    assert paid_once(endpoint)


def test_ctrl_c_keeps_what_is_under_way(endpoint, make):
    """It reaches Python even where the tests run in the background, which starts them with it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    endpoint.on_request = lambda seen: os.kill(os.getpid(), signal.SIGINT) if seen == 3 else None
    endpoint.delay = 0.3
    with pytest.raises(KeyboardInterrupt):
        make(concurrency=2).generate(PROMPTS)
    signal.signal(signal.SIGINT, before)
    assert 3 <= len(endpoint.requests) == sum(endpoint.paid.values()) <= 5
    assert make().generate(PROMPTS) == backwards(PROMPTS)
    assert paid_once(endpoint)


def test_a_dry_run_counts_asks_nobody_and_goes_on(endpoint, make, monkeypatch, tmp_path):
    make().generate(PROMPTS[:2], max_new_tokens=5)
    monkeypatch.delenv("OPENAI_API_KEY")
    assert isinstance(load_language_model("remote:tiny", dry_run=True), DryRun)
    model = DryRun("tiny", limit=1, cache=tmp_path / "answers", record=tmp_path / "spending.json", **PRICES)
    answers = model.generate([*PROMPTS, PROMPTS[3]], max_new_tokens=5)
    assert answers == [*backwards(PROMPTS[:2]), *[DryRun.PLACEHOLDER] * 5]
    assert model.counters == Counters(calls=4, tokens_in=7, tokens_out=20, cost=47)
    model.generate(PROMPTS, max_new_tokens=5)
    assert model.counters.calls == 4, "asked before"
    model.expect(["a b", "c d e f"], 10, 3)
    assert (model.counters.calls, model.counters.tokens_in, model.counters.tokens_out) == (14, 37, 50)
    assert (len(endpoint.requests), lines(tmp_path)) == (2, 2)
    assert json.loads((tmp_path / "spending.json").read_text())["model"] == "tiny (dry run)"


@pytest.mark.parametrize("concurrency", [1, 8])
def test_the_limit_stops_cleanly_and_another_run_goes_on(endpoint, make, concurrency):
    """A prompt of one word costs 3 and 1 + 2 · 4 = 9 at worst."""
    endpoint.delay = 0.01
    prompts = [f"prompt{i}" for i in range(10)]
    with pytest.raises(SpendingLimit, match=r"limit of 20 leaves 8 after 12 .*cost 9.*; 4 of 10 new prompts are"):
        make(concurrency=concurrency, limit=20, **PRICES).generate(prompts, max_new_tokens=4)
    assert sum(endpoint.paid.values()) == 4
    model = make(concurrency=concurrency, limit=24, **PRICES)
    assert model.generate(prompts, max_new_tokens=4) == backwards(prompts)
    assert model.counters.cost == 18
    assert paid_once(endpoint, prompts)


@pytest.mark.parametrize("address", ["  ", "ftp://host", "http://user:password@host/"])
def test_a_missing_or_bad_address_names_the_variable(monkeypatch, address):
    monkeypatch.setenv("OPENAI_BASE_URL", address)
    with pytest.raises(ModelError, match="environment variable OPENAI_BASE_URL") as caught:
        RemoteModel("tiny")
    assert "user" not in str(caught.value)


def everything_reachable(error):
    """An exception, what it was raised from, and what was being handled, whether shown or not."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


@pytest.mark.parametrize("fault", [401, 404, "cut"])
def test_the_key_is_in_no_file_log_output_or_exception(endpoint, make, tmp_path, caplog, capfd, monkeypatch, fault):
    queried = "a-queried-secret-1234567890"
    monkeypatch.setenv("OPENAI_BASE_URL", f"{endpoint.url}?code={queried}")
    monkeypatch.setattr(remote, "ATTEMPTS", 2)
    endpoint.said = f"Incorrect API key provided: {KEY}"
    endpoint.faults = {"seven": [fault, "..."]}
    model = make(limit=10_000, record=tmp_path / "record.json", **PRICES)
    with caplog.at_level(logging.DEBUG), pytest.raises(ModelError) as caught:
        model.generate(PROMPTS, progress=True)
    assert any(request["path"].endswith(queried) for request in endpoint.requests)  # it was sent, and is yet nowhere
    places = {
        "log": caplog.text,
        "output": "".join(capfd.readouterr()),
        "traceback": "".join(traceback.format_exception(caught.value)),
        "exceptions": " ".join(f"{error} {error.args} {vars(error)}" for error in everything_reachable(caught.value)),
        "files": " ".join(f"{path} {path.read_text() if path.is_file() else ''}" for path in tmp_path.rglob("*")),
    }
    assert "seven" in places["traceback"]
    for place, text in places.items():
        for secret in (KEY, KEY[3:20], queried):
            assert secret not in text, f"{place}: {secret}"
