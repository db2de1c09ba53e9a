"""What an instruct model is asked through its chat template, and the flow in its answer.

Asked with the metaprompt as bare text such a model writes the flow and runs on: another request, an explanation. As a
message it is shown requests with flows in code blocks and answers with one. The words are otherwise those of
`lib.workflows.metaprompt`, so that conditions differ in what the prompt shows alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from lib.workflows import metaprompt

TASK = "Answer the last request with one code block that holds its flow, and nothing else."
STOP = ("\n```\n", "\nRequest:")  # a block that opens names its language, so that the first is the end of one
OPENING, CLOSING = FENCE = "```flow\n", "\n```"

_FENCE = re.compile(r"^[ \t]*```[^\n]*\n?", re.MULTILINE)


def prompt_parts(
    request: str,
    shots: Iterable[tuple[str, str]] = (),
    definitions: Iterable[str] = (),
    explain: bool | None = None,
    first: bool = False,
) -> list[str]:
    """A user's message in parts, to be joined without anything between them; arguments as for
    `lib.workflows.metaprompt.metaprompt`."""
    blocks = [(other, f"{OPENING}{dsl}{CLOSING}") for other, dsl in shots]
    instruction, *middle, _ = metaprompt.prompt_parts(request, blocks, definitions, explain, first)
    return [f"{instruction} {TASK}", *middle, f"\n\nRequest: {' '.join(request.split())}"]


def flow_of(answer: str) -> str:
    """The DSL text in an answer; no promise that it parses.

    It is what the first code block holds, whether or not the block ends; without one, what
    `lib.workflows.metaprompt.flow_of` finds.
    """
    before, *blocks = _FENCE.split(answer, maxsplit=2)
    if blocks and blocks[0].strip():
        return blocks[0].strip()
    return metaprompt.flow_of(before)
