"""Prompts of the assistant world, in our own wording."""

from __future__ import annotations

from collections.abc import Sequence

from lib.assistant.schemas import APP_NAMES, App

# What a chain of thought may name: the seven apps of this world, or the fourteen types of the paper's appendix A.6.
CONTEXT_TYPES: dict[str, tuple[str, ...]] = {
    "apps": tuple(APP_NAMES.values()),
    "paper": (
        "Mail", "Calendar", "Reminders", "Notes", "Photos", "PhoneCall", "Message", "Messenger", "Maps", "Google Maps",
        "Music", "Spotify", "Find My", "Workout",
    ),
}  # fmt: skip


def cot_prompt(query: str, context_types: Sequence[str]) -> str:
    """Asks a model, without examples, where an under-specified query's context is (assistant paper, appendix A.6). Its
    role, task, context types, query and cue are the paper's, the words are ours."""
    types = ", ".join(f"'{name}'" for name in context_types)
    return (
        "You are an expert on requests that leave something out. Write one or two sentences that begin with "
        '"Check" and say in which of these context types to look and what the item there may say, so that the '
        f"sentences resemble the items that matter. Context types: {types}. Use no others.\n\n"
        f"Request: {query}\n\n"
        "Your expert chain of thought:"
    )


def distilled_cot_prompt(query: str) -> str:
    """The short prompt of a writer that has learned from experts' chains of thought and needs no instructions."""
    return f"{query}\nWhere to look:"


APP_CONTENTS = {
    "mail": "messages the person received",
    "calendar": "events in the person's calendar",
    "google": "searches the person made, each with the page it led to",
    "music": "songs the person listened to",
    "reminders": "reminders the person set",
    "notes": "notes the person took",
    "phone_call": "entries of the person's call log",
}
MANNERS = {
    "meaning": "The words hint at the matter, but leave out what only the entry tells, such as names, times or titles",
    "habit": "The words do not say what it is about (such as: play my usual); only the time, the place and what the "
    "person always does then give it away",
    "either": "The words hint at the matter a little, and the time and the place do too",
}


def persona_prompt(age: int, sector: str, initials: str) -> str:
    """Asks for somebody to write data about (assistant paper, appendix A.1)."""
    return (
        "Invent a person who uses a phone, as different from a typical example as real people are. "
        f"Age: {age}. Works, studies or used to work in: {sector}. Initials: {initials}. "
        "Give the person's circumstances and tastes, and three to five people of their life with made-up addresses at "
        "example.org. "
        "`traits` are ways of life, such as pet, car, children, partner, student, renter."
    )


def items_prompt(person: str, app: App, n: int, now: str, first: str, last: str) -> str:
    """Asks for what one app holds (assistant paper, appendix A.2: traits, app, number, dates, schema)."""
    return (
        f"The phone of a person is to be filled with made-up data. The person: {person}\n"
        f"Write {APP_CONTENTS[app]}, {n} in all, as their {APP_NAMES[app]} app would have them: concrete, all "
        "different, such as this person would have.\n"
        f"It is now {now}. The entries are of the days from {first} to {last}. Times look like 2023-12-07T18:30:00. "
        "`opens` is when and where the person looked at the entry in the last two weeks: none to four times, always "
        "before now."
    )


def query_prompt(person: str, entries: Sequence[str], about: str, manner: str, moment: str) -> str:
    """Asks for a request that leaves out what an entry tells (assistant paper, sections 1 and 3.1)."""
    return "\n".join(
        [
            f"A person says something short to the assistant on their phone. The person: {person}",
            "What the phone holds:",
            *entries,
            f"Write what the person says on {moment}, so that the assistant needs the entry {about} to help. "
            f"{MANNERS[manner]}. Not a copy of the entry, at most 20 words, in the first person.",
            f"`also` names further entries that the assistant needs, usually none and never {about}; `apps` the one to "
            "three apps to look in, the likeliest first; `topic` the matter in one to three words.",
        ]
    )


def call_prompt(tools: Sequence[str], request: str, moment: str, entries: Sequence[str], chosen: bool) -> str:
    """Asks which tool serves a request, or none (assistant paper, appendix A.4), or for the arguments of the one that
    was `chosen` (A.5). Unlike there, the entries that the request is about are shown: where somebody keeps a matter
    decides which tool is right."""
    asked = [f"Somebody says ({moment}): {request}", "It is about:", *entries]
    if not chosen:
        question = "Which single tool should be called? Where none of them helps, the answer is default."
        return "\n".join(["An assistant can call these tools:", *tools, "", *asked, question])
    question = (
        "Give the call's arguments. Take their values from the entries, word for word; leave optional arguments "
        "out where nothing is said about them. Write times as 2023-12-07 18:30."
    )
    return "\n".join([*asked, f"An assistant answers with one call of this tool: {tools[0]}", question])
