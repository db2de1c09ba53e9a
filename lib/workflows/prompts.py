"""What models are asked for a flow, and the flow in what they answer (workflow paper, section 3 and Figure 1).

Three forms. The *fine-tuned* model sees the request alone; `<START>` and `<END>` stand around the flow. Both are plain
text, not tokens of the vocabulary, so that any model can be tuned; `<START>` closes the prompt. Of the *metaprompt*
instruction and few-shots come first, definitions and request last, as in the paper's Figure 1: conditions of one flow
that differ in definitions then share the longest prefix, which is read once. Definitions may also come before the
few-shots. An *instruct* model is asked the same as a message, through its chat template: shown requests with flows in
code blocks it answers with one, where bare text would make it write on. Wording is our own.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import pandas as pd

from lib.workflows.apis import DefinitionForm
from lib.workflows.few_shots import few_shot_definitions

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


# ---------------------------------------------------------------- forms


def finetuned_prompt(request: str) -> str:
    """What the model continues with a flow.

    >>> finetuned_prompt("When it rains, mail me")
    'When it rains, mail me\\n<START>\\n'
    """
    return f"{' '.join(request.split())}\n{START}\n"


def finetuned_parts(
    request: str, shots: Iterable[tuple[str, str]] = (), definitions: Iterable[str] = (), explain: bool | None = None
) -> list[str]:
    """The prompt with few-shots before it, each as the model saw it in training; for `fit`.

    Raises:
        ValueError: there are definitions; the model learned from none.
    """
    if list(definitions) or explain:
        raise ValueError("the fine-tuned model reads no definitions")
    return [
        *(f"{finetuned_prompt(other)}{finetuned_target(dsl)}\n\n" for other, dsl in reversed(list(shots))),
        finetuned_prompt(request),
    ]


def finetuned_target(dsl: str) -> str:
    """What the model learns to answer."""
    return f"{dsl}\n{END}"


def metaprompt_parts(
    request: str,
    shots: Iterable[tuple[str, str]] = (),
    definitions: Iterable[str] = (),
    explain: bool | None = None,
    first: bool = False,
) -> list[str]:
    """What a model continues with the flow for a request, in parts, to be joined without anything between them.

    A part begins with a line break and ends without one, but for the cue, so that most tokenizers, SmolLM2's among
    them, cut the prompt into the same tokens as its parts.

    Args:
        request: its line breaks become spaces.
        shots: requests and flows, nearest first; the prompt shows the nearest last, next to the request.
        definitions: one line each, in the order of the prompt.
        explain: whether the prompt says how to use definitions; None says so where there are any.
        first: whether definitions come before the few-shots.
    """
    lines = [f"\n{definition}" for definition in definitions]
    explain = bool(lines) if explain is None else explain
    heading = [f"\n\n{USE_OF_DEFINITIONS if explain else 'API definitions:'}"] if explain or lines else []
    examples = list(reversed([_example(*shot) for shot in shots]))
    grounding = [*heading, *lines, *examples] if first else [*examples, *heading, *lines]
    return [INSTRUCTION, *grounding, _example(request, "")]


def _example(request: str, dsl: str) -> str:
    return f"\n\nRequest: {' '.join(request.split())}\nFlow:\n{dsl}"


def chat_parts(
    request: str,
    shots: Iterable[tuple[str, str]] = (),
    definitions: Iterable[str] = (),
    explain: bool | None = None,
    first: bool = False,
) -> list[str]:
    """A user's message in parts; arguments as for `metaprompt_parts`."""
    blocks = [(other, f"{OPENING}{dsl}{CLOSING}") for other, dsl in shots]
    instruction, *middle, _ = metaprompt_parts(request, blocks, definitions, explain, first)
    return [f"{instruction} {CHAT_TASK}", *middle, f"\n\nRequest: {' '.join(request.split())}"]


STOPS = {"untuned": STOP, "finetuned": (END,), "in_context": STOP, "instruct": CHAT_STOP}  # that end an answer
PARTS: dict[str, Callable[..., list[str]]] = {"finetuned": finetuned_parts, "instruct": chat_parts}  # else metaprompt's


# ---------------------------------------------------------------- length


def token_counter(tokenizer) -> Callable[[str], int]:
    """Tokens of a text, start and end tokens not counted; a text is counted once."""

    @functools.cache
    def count(text: str) -> int:
        return len(tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"])

    return count


@dataclass(frozen=True, slots=True)
class FittedPrompt:
    """A prompt that fits: its text, its tokens, how many of the nearest few-shots and of the definitions it kept, and
    the form of these."""

    prompt: str
    tokens: int
    shots: int
    definitions: int
    form: DefinitionForm


def fit(
    request: str,
    shots: Sequence[tuple[str, str]],
    definitions: Callable[[DefinitionForm], Sequence[str]],
    limit: int,
    count: Callable[[str], int],
    explain: bool | None = None,
    parts: Callable[..., list[str]] = metaprompt_parts,
    form: DefinitionForm = "compact",
) -> FittedPrompt:
    """The prompt with as much as fits. What the definitions say of keys is dropped first, of all at once; then
    definitions, the last ones before the others; where none is left, few-shots, the farthest before the others.

    Args:
        request, shots, explain: as for `metaprompt_parts`.
        definitions: the texts of the definitions, nearest first, by form.
        limit: tokens of the prompt at most: the model's window without the room for the answer (and without what a chat
            template adds).
        count: tokens of a text, quick for one that it has seen (see `token_counter`). Parts of the prompt are counted
            apart and added up.
        parts: what makes the parts of a prompt; the fine-tuned model has a form of its own.
        form: of the definitions, where the prompt has room for it; else they are compact.

    Raises:
        ValueError: the request alone is too long.
    """
    shortest: DefinitionForm = "compact"
    wanted, compact = definitions(form), definitions(shortest)
    attempts = itertools.chain(
        [(len(shots), wanted, form)],
        ((len(shots), compact[:n], shortest) for n in range(len(compact), -1, -1)),
        ((kept, compact[:0], shortest) for kept in range(len(shots) - 1, -1, -1)),
    )
    for kept, shown, used in attempts:
        texts = parts(request, shots[:kept], shown, explain)
        tokens = sum(map(count, texts))
        if tokens <= limit:
            return FittedPrompt("".join(texts), tokens, kept, len(shown), used)
    raise ValueError(
        f"a prompt of the request alone has {tokens} tokens, at most {limit} fit; it begins {request[:60]!r}"
    )


def flow_prompts(
    requests: Sequence[str],
    shots: Sequence[Sequence[int]],
    training: pd.DataFrame,
    catalogue,
    limit: int,
    count: Callable[[str], int],
    few_shot: bool = False,
    semantic: Sequence[Sequence[str]] | None = None,
    explain: bool | None = None,
    parts: Callable[..., list[str]] = metaprompt_parts,
    form: DefinitionForm = "compact",
) -> pd.DataFrame:
    """The prompts of one condition.

    Args:
        requests: (n,).
        shots: for each request positions of training pairs, nearest first.
        training: columns request, dsl, apis.
        catalogue: the `Catalogue`; APIs that it lacks get no definition.
        limit, count, explain, parts, form: as for `fit`.
        few_shot: whether the definitions of the few-shots' APIs are shown (FD).
        semantic: names of other APIs whose definitions each request's prompt shows after those of FD (SFD).

    Returns:
        One row a request: prompt, tokens, shots (kept), dropped (few-shots that did not fit), definitions (API names in
        the order of the prompt), form (of the definitions).

    Raises:
        ValueError: numbers of rows differ, or a prompt does not fit even without few-shots.
    """
    examples = list(zip(training["request"], training["dsl"], strict=True))
    apis = training["apis"].tolist()
    if semantic is None:
        semantic = [()] * len(requests)

    def names(near: Sequence[int], others: Sequence[str]) -> list[str]:
        found = few_shot_definitions(near, apis) if few_shot else []
        return [name for name in dict.fromkeys([*found, *others]) if name in catalogue]

    def texts(chosen: Sequence[str], form: DefinitionForm) -> list[str]:
        return [catalogue[name].definition_in(form) for name in chosen]

    rows = []
    for request, near, others in zip(requests, shots, semantic, strict=True):
        chosen = names(near, others)
        definitions = functools.partial(texts, chosen)
        fitted = fit(request, [examples[shot] for shot in near], definitions, limit, count, explain, parts, form)
        kept = chosen[: fitted.definitions]
        rows.append([fitted.prompt, fitted.tokens, fitted.shots, len(near) - fitted.shots, kept, fitted.form])
    return pd.DataFrame(rows, columns=["prompt", "tokens", "shots", "dropped", "definitions", "form"])


# ---------------------------------------------------------------- answers

_FENCE = re.compile(r"^[ \t]*```.*$", re.MULTILINE)
_AFTER_FLOW = re.compile(r"\n[ \t]*\n|\nRequest:")


def flow_of(answer: str) -> str:
    """The DSL text in a model's answer, whatever stands around it; no promise that it parses.

    Of an answer with a code fence, what the first one holds; otherwise the text up to a blank line or the next request.
    `<START>` and what precedes it go, and `<END>` with what follows.
    """
    text = answer.split(START, 1)[-1].split(END)[0].strip()
    before, *fenced = _FENCE.split(text)
    if len(fenced) > 1 or (fenced and not before.strip()):
        return fenced[0].strip()
    return _AFTER_FLOW.split(before)[0].strip()


_CHAT_FENCE = re.compile(r"^[ \t]*```[^\n]*\n?", re.MULTILINE)


def flow_in_chat(answer: str) -> str:
    """The DSL text in an answer; no promise that it parses.

    It is what the first code block holds, whether or not the block ends; without one, what
    `flow_of` finds.
    """
    before, *blocks = _CHAT_FENCE.split(answer, maxsplit=2)
    if blocks and blocks[0].strip():
        return blocks[0].strip()
    return flow_of(before)
