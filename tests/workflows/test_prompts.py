"""Prompts for flows: their wording, what of them fits, and the flow in an answer."""

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.workflows.apis import Field, Operation
from lib.workflows.prompts import (
    INSTRUCTION,
    PARTS,
    USE_OF_DEFINITIONS,
    finetuned_prompt,
    fit,
    flow_of,
    flow_prompts,
    metaprompt_parts,
    token_counter,
)

NEAR, FAR = ("near", "a.Near();"), ("far", "a.Far();")
FLOW = 'triggerOutputs = await a.New();\nif (triggerOutputs?[\'body\'] == "x") {\n  b.Post({"text": "hi"});\n}'


def words(text):
    return len(text.split())


def metaprompt(*arguments, **how):
    return "".join(metaprompt_parts(*arguments, **how))


# ---------------------------------------------------------------- wording


def test_the_prompt_word_for_word():
    assert metaprompt("do  this\nnow", [NEAR, FAR], ["a.Near(key): nears"]) == (
        f"{INSTRUCTION}\n\n"
        "Request: far\nFlow:\na.Far();\n\n"
        "Request: near\nFlow:\na.Near();\n\n"
        f"{USE_OF_DEFINITIONS}\na.Near(key): nears\n\n"
        "Request: do this now\nFlow:\n"
    )
    first = metaprompt("x", [NEAR], ["a.Near: nears."], first=True)
    assert first.index("a.Near: nears.") < first.index("Request: near") < first.index("Request: x")


def test_the_fine_tuned_model_reads_the_request_between_markers():
    whole = finetuned_prompt(" When it\nrains ")
    assert whole == "When it rains\n<START>\n"
    assert PARTS["finetuned"]("x", [], []) == [finetuned_prompt("x")]


# ---------------------------------------------------------------- what fits


def api(name, *keys):
    connector, operation = name.split(".")
    fields = (Field(key, summary="says so") for key in keys)
    return Operation(connector, operation, operation, connector, f"Does {operation}.", parameters=tuple(fields))


SHOTS = [("near", "one two"), ("middle", "one two three"), ("far", "one two three four")]
APIS = [api("a.First", "key"), api("b.Second", "key"), api("c.Third", "key")]


def test_what_definitions_say_is_dropped_first_then_definitions_then_few_shots():
    described, compact = ([one.definition_in(form) for one in APIS] for form in ("described", "compact"))
    whole = fit("x", SHOTS, APIS, 10_000, words)
    assert (whole.prompt, whole.tokens) == (metaprompt("x", SHOTS, described), words(whole.prompt))
    assert fit("x", SHOTS, APIS, whole.tokens, words) == whole
    with pytest.raises(ValueError, match="begins 'x'"):
        fit("x", SHOTS, APIS, words(metaprompt("x")) - 1, words)
    seen = [fit("x", SHOTS, APIS, whole.tokens - 1, words)]
    assert seen[0].prompt == metaprompt("x", SHOTS, compact)
    while seen[-1].shots:
        seen.append(fit("x", SHOTS, APIS, seen[-1].tokens - 1, words))
    assert [(one.shots, one.definitions) for one in seen] == [
        (3, 3), (3, 2), (3, 1), (3, 0), (2, 0), (1, 0), (0, 0)
    ]  # fmt: skip
    assert seen[1].prompt == metaprompt("x", SHOTS, compact[:2])


def test_special_tokens_in_a_text_are_text():
    def tokenizer(text, add_special_tokens, split_special_tokens):
        assert (add_special_tokens, split_special_tokens) == (False, True)
        return {"input_ids": text.split()}

    assert token_counter(tokenizer)("a </s> b") == 3


TRAINING = pd.DataFrame(
    {
        "request": ["first", "second", "third"],
        "dsl": ["a.New();\na.Add();", "b.Unknown();", "a.New();\nb.Post();"],
        "apis": [["a.New", "a.Add"], ["b.Unknown"], ["a.New", "b.Post"]],
    },
    index=[7, 8, 9],  # shots are positions, not labels
)
CATALOGUE = {name: api(name, "key") for name in ("a.New", "a.Add", "b.Post", "c.Get")}  # it lacks `b.Unknown`


def test_flow_prompts():
    prompts = flow_prompts(["x", "y"], [[2, 1], [0]], TRAINING, CATALOGUE, 10_000, words)
    assert prompts["definitions"].tolist() == [[], []]
    assert prompts["prompt"][0] == metaprompt("x", [("third", "a.New();\nb.Post();"), ("second", "b.Unknown();")])
    assert prompts["tokens"].tolist() == prompts["prompt"].map(words).tolist()
    others = [["c.Get", "a.New"], ["c.Get", "no.Api"]]
    grounded = flow_prompts(["x", "y"], [[2, 1, 0], []], TRAINING, CATALOGUE, 10_000, words, True, others)
    assert grounded["definitions"].tolist() == [["a.New", "b.Post", "a.Add", "c.Get"], ["c.Get"]]
    assert "\na.New: Does New. Keys: key (string): says so\nb.Post: Does Post." in grounded["prompt"][0]
    assert grounded["shots"].tolist() == [3, 0]
    with pytest.raises(ValueError, match="shorter"):
        flow_prompts(["x", "y"], [[0]], TRAINING, CATALOGUE, 10_000, words)


# ---------------------------------------------------------------- answers


@pytest.mark.parametrize("chat", [False, True])
@pytest.mark.parametrize(
    "answer",
    [
        FLOW,
        f"\n{FLOW}\n\nRequest: another\nFlow:\nc.Do();",
        f"{FLOW}\n  \nThis flow waits for a trigger.",
        f"Of course.\n<START>\n{FLOW}\n<END> <START>",
        f"Here it is:\n\n```js\n{FLOW}\n```",
        f"{FLOW}\n```",
    ],
)
def test_the_flow_in_an_answer_is_found(answer, chat):
    assert flow_of(answer, chat) == FLOW


def test_a_block_that_does_not_end_is_the_answer_in_a_chat_alone():
    answer = f"Here is the flow:\n```flow\n{FLOW}"
    assert flow_of(answer, chat=True) == FLOW
    assert flow_of(answer) == "Here is the flow:"


@given(st.text(alphabet="`ab\n <>STAREND;Request:") | st.text(), st.booleans())
def test_any_answer_is_read(answer, chat):
    flow = flow_of(answer, chat)
    assert flow == flow.strip()
    assert flow in answer
