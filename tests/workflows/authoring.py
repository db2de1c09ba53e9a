"""What a catalogue has to have before flows are made from it."""

import re

from lib.workflows.apis import APP, SLOT, said
from lib.workflows.catalogue import Catalogue

CONJUNCTIONS = re.compile(r"(when|whenever|if|once|after|every time|each time|as soon as|please|then)\b", re.IGNORECASE)


def authoring_problems(catalogue: Catalogue, values: dict[str, list]) -> list[str]:
    """Why flows cannot be made from these APIs yet, one line a problem; empty where they can."""
    problems = []
    for api in catalogue:
        asked = {parameter.key for text in (*api.phrases, *api.clauses) for parameter in api.slots(text)}
        unsaid = [p.key for p in api.parameters if p.key in asked and not (said(p.kind) or p.examples)]
        needed = [p for p in api.parameters if p.required and said(p.kind) and p.kind not in ("choice", "boolean")]
        wrong = {
            "six phrases and two terse ones, each once": len({text.lower() for text in api.phrases}) < 6
            or len(set(api.terse)) < 2,
            "no conjunctions": any(CONJUNCTIONS.match(text) for text in api.phrases),
            "two phrases that name the app": sum(f"{{{APP}}}" in text for text in api.phrases) < 2,
            "slots in clauses": not all(SLOT.findall(text) for text in api.clauses),
            "outputs of a trigger": api.trigger and not any(output.summary for output in api.returns),
            "values that people say": unsaid or [p for p in needed if not (p.examples or values.get(p.kind))],
            "words for what is required": [p.key for p in needed if p.key not in asked],
        }
        problems += [f"{api.name}: needs {what}" for what, is_wrong in wrong.items() if is_wrong]
    return problems
