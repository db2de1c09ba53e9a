"""What models are asked for a flow, and the flow in what they answer (workflow paper, section 3 and Figure 1).

Three forms. The *fine-tuned* model sees the request alone; `<START>` and `<END>` stand around the flow. Both are plain
text, not tokens of the vocabulary, so that any model can be tuned; `<START>` closes the prompt. Of the *metaprompt*
instruction and few-shots come first, definitions and request last, as in the paper's Figure 1: conditions of one flow
that differ in definitions then share the longest prefix, which is read once. An *instruct* model is asked the same as a
message, through its chat template: shown requests with flows in code blocks it answers with one, where bare text would
make it write on. Wording is our own.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import pandas as pd

from lib.workflows.apis import Operation

START, END = "<START>", "<END>"
INSTRUCTION = (
    "Turn a request into a workflow. A flow has one API call a line, written connector.Operation({\"key\": value}). "
    "The first line awaits the trigger; triggerOutputs?['body']?['key'] is a field of what it returned. Conditions are "
    "written if (...) { ... } else { ... }. Write the flow alone, without comments or blank lines."
)  # fmt: skip
USE_OF_DEFINITIONS = (
    "API definitions: name, what the API does, and its parameter keys. Choose the APIs that the request needs, spell "
    "their names and keys as their definitions do, and leave out keys that the request says nothing about."
)
STOP = ("\n\n", "\nRequest:")  # no flow has a blank line
CHAT_TASK = "Answer the last request with one code block that holds its flow, and nothing else."
CHAT_STOP = ("\n```\n", "\nRequest:")  # a block that opens names its language, so that the first is the end of one
OPENING, CLOSING = FENCE = "```flow\n", "\n```"


def finetuned_prompt(request: str) -> str:
    """What the fine-tuned model continues; it learns to answer with the flow, a line break and `END`."""
    return f"{' '.join(request.split())}\n{START}\n"


def metaprompt_parts(
    request: str,
    shots: Iterable[tuple[str, str]] = (),
    definitions: Iterable[str] = (),
    first: bool = False,
) -> list[str]:
    """What a model continues with the flow for a request, in parts, to be joined without anything between them.

    A part begins with a line break and ends without one, but for the cue, so that most tokenizers, SmolLM2's among
    them, cut the prompt into the same tokens as its parts.

    Few-shots are requests and flows, nearest first; the prompt shows the nearest last, next to the request, and
    definitions, under a word on their use, after them or before (`first`).
    """
    lines = [f"\n{definition}" for definition in definitions]
    heading = [f"\n\n{USE_OF_DEFINITIONS}"] if lines else []
    told = [*reversed(list(shots)), (request, "")]
    *examples, asked = (f"\n\nRequest: {' '.join(one.split())}\nFlow:\n{dsl}" for one, dsl in told)
    grounding = [*heading, *lines, *examples] if first else [*examples, *heading, *lines]
    return [INSTRUCTION, *grounding, asked]


def chat_parts(request: str, shots: Iterable[tuple[str, str]] = (), definitions: Iterable[str] = ()) -> list[str]:
    """A user's message in parts; arguments as for `metaprompt_parts`."""
    blocks = [(other, f"{OPENING}{dsl}{CLOSING}") for other, dsl in shots]
    instruction, *middle, _ = metaprompt_parts(request, blocks, definitions)
    return [f"{instruction} {CHAT_TASK}", *middle, f"\n\nRequest: {' '.join(request.split())}"]


STOPS = {"untuned": STOP, "finetuned": (END,), "in_context": STOP, "instruct": CHAT_STOP}  # that end an answer
# What makes the parts of a prompt for `fit`, where the metaprompt does not; the fine-tuned model reads nothing else.
PARTS: dict[str, Callable[..., list[str]]] = {
    "finetuned": lambda request, *shown: [finetuned_prompt(request)],
    "instruct": chat_parts,
}


# ---------------------------------------------------------------- what fits


def token_counter(tokenizer) -> Callable[[str], int]:
    """Tokens of a text, start and end tokens not counted; a text is counted once."""
    how = {"add_special_tokens": False, "split_special_tokens": True}
    return functools.cache(lambda text: len(tokenizer(text, **how)["input_ids"]))


class FittedPrompt(NamedTuple):
    """A prompt that fits, its tokens, how many of the nearest few-shots and of the definitions it kept."""

    prompt: str
    tokens: int
    shots: int
    definitions: int


def fit(
    request: str,
    shots: Sequence[tuple[str, str]],
    apis: Sequence[Operation],
    limit: int,
    count: Callable[[str], int],
    parts: Callable[..., list[str]] = metaprompt_parts,
) -> FittedPrompt:
    """The prompt with as much as fits. What the definitions say of keys is dropped first, of all at once; then
    definitions, the last ones before the others; where none is left, few-shots, the farthest before the others.

    Args:
        request, shots: as for `metaprompt_parts`.
        apis: whose definitions are shown, nearest first.
        limit: tokens of the prompt at most. Raises ValueError where the request alone has more.
        count: tokens of a text, see `token_counter`; parts of the prompt are counted apart and added up.
        parts: of `PARTS`.
    """
    described, compact = ([api.definition_in(form) for api in apis] for form in ("described", "compact"))
    attempts = [(len(shots), described), *((len(shots), compact[:n]) for n in range(len(compact), -1, -1))]
    attempts += [(kept, []) for kept in range(len(shots) - 1, -1, -1)]
    for kept, shown in attempts:
        texts = parts(request, shots[:kept], shown)
        tokens = sum(map(count, texts))
        if tokens <= limit:
            return FittedPrompt("".join(texts), tokens, kept, len(shown))
    alone = f"a prompt of the request alone has {tokens} tokens, at most {limit} fit"
    raise ValueError(f"{alone}; it begins {request[:60]!r}")


def flow_prompts(
    requests: Sequence[str],
    shots: Sequence[Sequence[int]],
    training: pd.DataFrame,
    catalogue,
    limit: int,
    count: Callable[[str], int],
    few_shot: bool = False,
    semantic: Sequence[Sequence[str]] | None = None,
    **how,
) -> pd.DataFrame:
    """The prompts of one condition.

    Args:
        shots: for each request positions of training pairs (columns request, dsl, apis), nearest first.
        catalogue: has the definitions; APIs that it lacks get none.
        few_shot: whether the definitions of the few-shots' APIs are shown (FD).
        semantic: names of other APIs whose definitions each request's prompt shows after those of FD (SFD).
        limit, count, how: as for `fit`.

    Returns:
        One row a request: prompt, tokens, shots (that fitted), definitions (API names in the order of the prompt).
    """
    used = sorted({shot for near in shots for shot in near})
    rows = training.iloc[used][["request", "dsl", "apis"]].itertuples(index=False, name=None)
    pairs = dict(zip(used, rows, strict=True))
    made = []
    for request, near, others in zip(requests, shots, semantic or [()] * len(requests), strict=True):
        found = [name for shot in near for name in pairs[shot][2]] if few_shot else []
        names = [name for name in dict.fromkeys([*found, *others]) if name in catalogue]
        apis = [catalogue[name] for name in names]
        fitted = fit(request, [pairs[shot][:2] for shot in near], apis, limit, count, **how)
        made.append([*fitted[:3], names[: fitted.definitions]])
    return pd.DataFrame(made, columns=["prompt", "tokens", "shots", "definitions"])


# ---------------------------------------------------------------- answers

_FENCE = re.compile(r"^[ \t]*```.*$", re.MULTILINE)
_AFTER_FLOW = re.compile(r"\n[ \t]*\n|\nRequest:")


def flow_of(answer: str, chat: bool = False) -> str:
    """The DSL text in a model's answer, whatever stands around it; no promise that it parses.

    Of an answer with a code block, what the first one holds; in a chat also one that does not end after other text.
    Else the text up to a blank line or the next request; `<START>` and what precedes it, `<END>` and what follows go.
    """
    text = answer.split(START, 1)[-1].split(END)[0].strip()
    before, *fenced = _FENCE.split(text)
    inside = fenced[0].strip() if fenced else ""
    whole = bool(fenced) and (len(fenced) > 1 or not before.strip())
    return inside if (inside if chat else whole) else _AFTER_FLOW.split(before)[0].strip()
