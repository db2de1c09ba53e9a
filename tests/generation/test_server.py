"""A real model behind a real server, through a proxy that injects faults: nothing lost, nothing paid for twice."""

import os

import numpy as np
import pytest

from lib.assistant.toolbox import Toolbox
from lib.assistant.world import frames, read_world
from lib.assistant.written_world import FILES, draw_circumstances, persona_question, write_world
from lib.generation import remote
from lib.generation.local import LocalModel
from lib.generation.remote import RemoteModel
from lib.generation.structured import ask
from lib.workbook.artifacts import ROOT
from tests.assistant.test_written_world import right
from tests.generation.server import FAULTS, FaultyProxy, ModelServer

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    for name in list(os.environ):
        if name.startswith("OPENAI_") or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-test")
    monkeypatch.setattr(remote, "FIRST_BACKOFF", 0.02)


@pytest.fixture
def behind(monkeypatch, tmp_path):
    """A model behind a server behind a faulty proxy: (the remote model, the server, the proxy)."""
    running = []

    def start(generate, model=None, **settings):
        server = ModelServer(generate, model).__enter__()
        running.append(server)
        proxy = FaultyProxy(server.url, **settings).__enter__()
        running.append(proxy)
        monkeypatch.setenv("OPENAI_BASE_URL", proxy.url)
        return lambda: RemoteModel("served", cache=tmp_path / "answers", concurrency=4, timeout=60), server, proxy

    yield start
    for one in reversed(running):
        one.__exit__()


def paid_once(server):
    return set(server.paid.values()) == {1}


@pytest.mark.parametrize("chat", [False, True])
def test_a_local_model_behind_a_server_answers_as_it_does_here(tiny, behind, chat):
    words = ("quick", "lazy", "brown", "dog and the", "music room", "evening", "every", "guitar")
    prompts = [f"the {word} fox plays" for word in words]
    here = LocalModel(tiny, dtype="float32", batch_size=1, threads=1)
    expected, costs = [], []
    for prompt in prompts:
        expected += here.generate([prompt], max_new_tokens=8, stop=["x"], chat=chat)
        costs += here.costs
    served = LocalModel(tiny, dtype="float32", batch_size=1, threads=1)
    make, server, proxy = behind(served.generate, served, every=2)
    model = make()
    assert model.generate(prompts, max_new_tokens=8, stop=["x"], chat=chat) == expected
    assert len(server.paid) == len(prompts)
    assert paid_once(server)
    assert {fault for fault in proxy.injected if fault} == set(FAULTS)
    assert model.counters.calls == proxy.requests
    assert [cost.tokens_in for cost in model.costs] == [cost.tokens_in for cost in costs]
    assert [cost.tokens_out for cost in model.costs] == [cost.tokens_out for cost in costs]


def scripted(prompts, **settings):
    return [right(prompt) for prompt in prompts]


def test_a_generation_of_20_personas_survives_every_fault(behind, tmp_path):
    """Nothing is lost: the world is the one of a server without faults; nothing is paid for twice."""
    make, server, proxy = behind(scripted, every=3, delay=0.05, retry_after="0.05")
    toolbox = Toolbox.from_yaml(ROOT / "data" / "toolbox.yaml")
    counts = write_world(make(), tmp_path / "world", toolbox, 20, 40, 20, seed=7).set_index("step")
    assert counts.loc["whole personas", "kept"] == 20
    assert counts.loc["whole queries", "kept"] == 60
    assert paid_once(server)
    assert all(proxy.injected[fault] >= 5 for fault in FAULTS)
    assert len(frames(read_world(tmp_path / "world"))["queries"]) == 60

    with ModelServer(scripted) as faultless, pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_BASE_URL", faultless.url)
        write_world(RemoteModel("served"), tmp_path / "same", toolbox, 20, 40, 20, seed=7)
        assert faultless.paid == server.paid
    for name in FILES:
        assert (tmp_path / "same" / name).read_bytes() == (tmp_path / "world" / name).read_bytes()

    model = make()
    write_world(model, tmp_path / "again", toolbox, 20, 40, 20, seed=7)
    assert model.counters.calls == 0


def test_a_model_is_asked_for_20_personas_through_every_fault(behind):
    """It gets none right, which is none of this test's business: every answer arrives, at its own question, and is paid
    for once."""
    model = LocalModel("tiny-lm", batch_size=1)
    make, server, proxy = behind(model.generate, model, every=3, delay=0.1)
    questions = [persona_question(*one) for one in draw_circumstances(20, np.random.default_rng(7))]
    asking = make()
    replies = ask(asking, questions, max_new_tokens=12, temperature=0.7, rounds=0)
    assert [reply.answers for reply in replies] == [[server.answers[question.text]] for question in questions]
    assert len(set(server.answers.values())) > 10
    assert len(server.paid) == 20
    assert paid_once(server)
    assert {fault for fault in proxy.injected if fault} == set(FAULTS)
    assert asking.counters.tokens_out == sum(cost.tokens_out for cost in asking.costs) <= 20 * 12
    again = make()
    assert [reply.answers for reply in ask(again, questions, 12, temperature=0.7, rounds=0)] == [
        reply.answers for reply in replies
    ]
    assert again.counters.calls == 0
