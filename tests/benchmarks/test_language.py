"""How long the workflow DSL takes to read and print; no time is asserted."""

import numpy as np
import pytest

from lib.workflows.language import parse, print_flow

FLOWS = 2000
TRIGGER = 'triggerOutputs = await shared_office365.OnNewEmailV3({"folderPath": "Inbox", "importance": "High"});'
POST = (
    'outputs_%d = shared_teams.PostMessageToConversation({"poster": "User", "location": "Channel", '
    '"body/messageBody": triggerOutputs?[\'body\']?[\'subject\'], "body/recipient": "someone%d@contoso.com"});'
)
CONDITION = "if (triggerOutputs?['body']?['subject'] == \"invoice\") {\n  %s\n}"


@pytest.fixture(scope="module")
def texts():
    """Flows of one to five calls, a third of them with a condition; about 480 characters each."""
    rng = np.random.default_rng(0)

    def text():
        calls = [POST % (number, rng.integers(1000)) for number in range(rng.integers(0, 5))]
        if calls and rng.random() < 1 / 3:
            calls[0] = CONDITION % calls[0]
        return "\n".join([TRIGGER, *calls])

    return [text() for _ in range(FLOWS)]


@pytest.mark.benchmark(group="language")
def test_parse(benchmark, texts):
    flows = benchmark.pedantic(lambda: [parse(text) for text in texts], rounds=3, warmup_rounds=1)
    benchmark.extra_info.update(flows=FLOWS, characters=sum(map(len, texts)))
    assert len(flows) == FLOWS


@pytest.mark.benchmark(group="language")
def test_print(benchmark, texts):
    flows = [parse(text) for text in texts]
    printed = benchmark.pedantic(lambda: [print_flow(flow) for flow in flows], rounds=3, warmup_rounds=1)
    benchmark.extra_info.update(flows=FLOWS)
    assert printed == texts
