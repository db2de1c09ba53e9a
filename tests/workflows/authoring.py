"""What a catalogue has to have before flows are made from it."""

import re
from collections import defaultdict

from lib.workflows.apis import API, APP, SLOT, said
from lib.workflows.catalogue import Catalogue

JSON_TYPES = {"string": (str,), "number": (int, float), "integer": (int,), "boolean": (bool,)}
LEAST_PHRASES, LEAST_TERSE = 6, 2
CONJUNCTIONS = re.compile(r"(when|whenever|if|once|after|every time|each time|as soon as|please|then)\b", re.IGNORECASE)


def authoring_problems(catalogue: Catalogue, values: dict[str, list]) -> list[str]:
    """Why flows cannot be made from these APIs yet, one line a problem; empty where they can."""
    problems = [f"{api.name}: {problem}" for api in catalogue for problem in _problems_of(api, values)]
    askers: dict[str, set[str]] = defaultdict(set)
    for api in catalogue:
        for phrase in api.phrases:
            if f"{{{APP}}}" not in phrase:
                askers[SLOT.sub("{}", phrase.lower())].add(api.name)
    for phrase, names in askers.items():
        if len({catalogue[name].family for name in names}) > 1:
            problems.append(f"{', '.join(sorted(names))}: all have the phrase {phrase!r}, which names no app")
    return problems


def _problems_of(api: API, values: dict[str, list]) -> list[str]:
    problems = []
    for name, texts, least in (("phrases", api.phrases, LEAST_PHRASES), ("terse", api.terse, LEAST_TERSE)):
        if len({text.lower() for text in texts}) < max(least, len(texts)):
            problems.append(f"{name}: needs at least {least}, each once")
        problems += [f"{name}: {text!r} ends with punctuation" for text in texts if re.search(r"[.,;:?!]$", text)]
    problems += [f"phrases: {text!r} begins with a conjunction" for text in api.phrases if CONJUNCTIONS.match(text)]
    problems += [f"clauses: {text!r} has no slot" for text in api.clauses if not SLOT.findall(text)]
    if sum(f"{{{APP}}}" in text for text in api.phrases) < 2:
        problems.append("phrases: at least two must name the app with {app}")
    if not 3 <= len(api.description.split()) <= 20:
        problems.append("description: needs 3 to 20 words")
    if api.trigger and not any(output.summary for output in api.returns):
        problems.append("returns: a trigger needs outputs to test or to pass on")
    if len(api.parameters) > 20:
        problems.append("parameters: at most 20")
    asked = {parameter.key for text in (*api.phrases, *api.clauses) for parameter in api.slots(text)}
    for field in (*api.parameters, *api.returns):
        if field.kind == "choice" and len(field.examples) < 2:
            problems.append(f"{field.key}: a choice needs at least two examples")
        problems += [f"{field.key}: {e!r} is no {field.type}" for e in field.examples
                     if type(e) not in JSON_TYPES.get(field.type, (type(e),))]  # fmt: skip
    # A returned field may have the key of a parameter that people say: a slot means the parameter.
    for parameter in api.parameters:
        spoken = said(parameter.kind) and parameter.kind != "choice"
        if parameter.key in asked and not (said(parameter.kind) or parameter.examples):
            problems.append(
                f"{parameter.key}: nobody says a {parameter.kind}: take it out of the phrases or give examples"
            )
        elif parameter.required and spoken and not (parameter.examples or values.get(parameter.kind)):
            problems.append(f"{parameter.key}: kind {parameter.kind} has no values: give examples")
        if parameter.required and spoken and parameter.kind != "boolean" and parameter.key not in asked:
            problems.append(f"{parameter.key}: required, but no phrase or clause has it")
    return problems
