"""Prompts of the assistant world, in our own wording."""

from __future__ import annotations

from collections.abc import Sequence

from lib.assistant.schemas import APP_NAMES

# What a chain of thought may name: the seven apps of this world, or the fourteen types of the paper's appendix A.6.
CONTEXT_TYPES: dict[str, tuple[str, ...]] = {
    "apps": tuple(APP_NAMES.values()),
    "paper": (
        "Mail", "Calendar", "Reminders", "Notes", "Photos", "PhoneCall", "Message", "Messenger", "Maps", "Google Maps",
        "Music", "Spotify", "Find My", "Workout",
    ),
}  # fmt: skip


CUE = "Check"  # the word that a chain of thought is asked to begin with


def cot_prompt(query: str, context_types: Sequence[str]) -> str:
    """Asks a model, without examples, where an under-specified query's context is (assistant paper, appendix A.6).

    Role, task, context types, query and cue are the paper's, the words are ours.
    """
    types = ", ".join(f"'{name}'" for name in context_types)
    return (
        "You are an expert on requests that leave something out. Write one or two sentences that begin with "
        f'"{CUE}" '
        "and say in which of these context types to look and what the item there may say, so that the sentences "
        f"resemble the items that matter. Context types: {types}. Use no others.\n\n"
        f"Request: {query}\n\n"
        "Your expert chain of thought:"
    )


def distilled_cot_prompt(query: str) -> str:
    """The short prompt of a writer that has learned from experts' chains of thought and needs no instructions."""
    return f"{query}\nWhere to look:"


def planner_prompt(
    request: str,
    moment: str,
    tools: Sequence[str] | None = None,
    context: Sequence[str] | None = None,
    thought: str = "",
    done: str = "",
) -> str:
    """What a planner completes with a call of an API (assistant paper, section 3.4 and appendix A.5, in our words).

    The request comes first: a model that reads from left to right then reads context and tools with it in mind (Liu et
    al., 2023, "Lost in the Middle", section 4.2).

    Args:
        request: the query's text.
        moment: when and where it was voiced.
        tools: signatures of the tools to choose from; None shows none.
        context: lines of context; None shows none.
        thought: a chain of thought.
        done: the call that was made already, and what it returned.
    """
    parts = [f"Request ({moment}): {request}"]
    if thought:
        parts.append(f"Thought: {thought}")
    if context is not None:
        parts += ["Context:", *context]
    if tools is not None:
        parts += ["Tools:", *tools]
    parts.append("Plan:")
    if done:
        parts.append(done)
    return "\n".join(parts) + "\n"
