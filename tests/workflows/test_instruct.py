"""What an instruct model is asked, and the flow in its answer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.workflows import instruct, metaprompt
from lib.workflows.instruct import STOP, TASK, flow_of, prompt_parts

NEAR, FAR = ("near", "a.Near();"), ("far", "a.Far();")
FLOW = 'triggerOutputs = await a.New();\nif (triggerOutputs?[\'body\'] == "x") {\n  b.Post({"text": "hi"});\n}'


def test_the_message_word_for_word():
    assert "".join(prompt_parts("do  this\nnow", [NEAR, FAR], ["a.Near(key): nears"])) == (
        f"{metaprompt.INSTRUCTION} {TASK}\n\n"
        "Request: far\nFlow:\n```flow\na.Far();\n```\n\n"
        "Request: near\nFlow:\n```flow\na.Near();\n```\n\n"
        f"{metaprompt.USE_OF_DEFINITIONS}\na.Near(key): nears\n\n"
        "Request: do this now"
    )
    assert "".join(prompt_parts("x")) == f"{metaprompt.INSTRUCTION} {TASK}\n\nRequest: x"


def test_definitions_and_their_instruction_stand_where_the_metaprompt_has_them():
    for explain in (None, True, False):
        for first in (False, True):
            ours = prompt_parts("x", [NEAR], ["a.Near: nears"], explain, first)
            theirs = metaprompt.prompt_parts("x", [NEAR], ["a.Near: nears"], explain, first)
            assert len(ours) == len(theirs)
            assert [part for part in ours if "near: nears" in part.lower() or "API definitions" in part] == [
                part for part in theirs if "near: nears" in part.lower() or "API definitions" in part
            ]


@pytest.mark.parametrize(
    "answer",
    [
        f"```flow\n{FLOW}",  # stopped by the text that ends it
        f"```flow\n{FLOW}\n```",
        f"```\n{FLOW}\n```",
        f"```javascript\n{FLOW}\n```",
        f"Here is the flow:\n\n```flow\n{FLOW}\n```",
        f"Here is the flow:\n\n```flow\n{FLOW}",
        f"```flow\n{FLOW}\n```\nThis flow waits.\n```flow\na.Other();\n```",
        FLOW,
        f"{FLOW}\n```",
        f"{FLOW}\n\nThis flow waits.",
        f"{FLOW}\nRequest: another",
        f"  \n{FLOW}\n",
    ],
)
def test_the_flow_is_found(answer):
    assert flow_of(answer) == FLOW


@pytest.mark.parametrize("answer", ["", "```", "```flow\n", "\n\n", "```\n```"])
def test_an_answer_without_a_flow_has_none(answer):
    assert flow_of(answer) == ""


def test_the_text_that_ends_an_answer_does_not_begin_it():
    opened = f"Here it is:\n{instruct.OPENING}{FLOW}"
    assert not any(text in opened for text in STOP)
    assert any(text in f"{opened}{instruct.CLOSING}\nThis flow waits." for text in STOP)
    assert all(text.strip() for text in STOP)  # a chat's answer may begin with a blank line


@given(st.text())
def test_any_text_is_read(answer):
    assert isinstance(flow_of(answer), str)
