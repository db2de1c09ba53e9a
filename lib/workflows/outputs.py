"""What a flow's calls return: which parameter an output may fill, and in what words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from lib.workflows.apis import API, ID, Field, fits
from lib.workflows.drafts import Draft
from lib.workflows.language import Reference
from lib.workflows.values import DATED, partner

# How often words for an earlier output fill a slot, where one fits.
REFERENCE_CHANCE = {
    "subject": 0.4, "title": 0.4, "text": 0.45, "query": 0.4, "person_email": 0.4, "person_name": 0.35, "phone": 0.5,
    "company": 0.5, "place": 0.4, "file_name": 0.5, "file_path": 0.6, "url": 0.6, "amount": 0.6, "date": 0.5,
    "datetime": 0.5, "language": 0.3, "tag": 0.15,
}  # fmt: skip
# Weight of an output's kind where the parameter is of another kind.
KIND_WEIGHT = {"subject": 3.0, "title": 3.0, "file_name": 2.0, "url": 2.0, "text": 3.0}
MOMENTS = ("start", "end", "due")  # an output may fill a date only if both speak of the same moment
# Outputs that nobody tests or passes on.
UNTESTED = {
    "sequence number", "version number", "visibility", "postal code", "partition key", "content type", "media type",
    "file type", "copyright notice", "reference", "ticket number", "request number", "row key", "language code",
    "passcode", "group name", "latitude", "longitude", "first name", "last name", "name in the row", "path",
    "app that wrote the page", "chart markup", "conditions", "new value", "previous value",
}  # fmt: skip
GENERIC = {"name", "title", "status", "link", "description", "summary", "priority"}  # of what?
THINGS = {"message": "message", "file": "file", "item": "item", "task": "task", "card": "card", "row": "row",
          "event": "event", "issue": "issue", "ticket": "ticket", "lead": "lead", "deal": "deal", "contact": "contact",
          "order": "order", "tweet": "tweet", "response": "response", "entry": "entry", "submission": "submission",
          "envelope": "envelope", "page": "page", "post": "post", "video": "video", "todo": "to-do",
          "pull": "pull request", "record": "record", "document": "document", "meeting": "meeting",
          "appointment": "appointment", "project": "project", "comment": "comment"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Output:
    """A field that a call returned, as later steps see it. `step` counts calls, the trigger is 0."""

    step: int
    api: API
    variable: str
    field: Field

    @property
    def reference(self) -> Reference:
        return Reference(self.variable, ("body", *self.field.key.split("/")))


@cache
def thing(api: API) -> str:
    """What people call that which a call returns: "email", "card"; empty where its fields do not tell."""
    if any(output.kind == "file_name" for output in api.returns):
        return "file"
    for output in api.returns:
        what = output.kind.removeprefix(ID)
        if output.kind.startswith(ID) and what in THINGS:
            mail = what == "message" and re.search(r"e-?mail", f"{api.display_name} {api.app_name}", re.IGNORECASE)
            return "email" if mail else THINGS[what]
    return ""


def same_moment(parameter: Field, source: Field) -> bool:
    """Whether both dates are a start, an end or a due date."""
    words = f"{parameter.key} {parameter.summary}".lower()
    return any(moment in words and moment in source.summary.lower() for moment in MOMENTS)


def is_new(draft: Draft, output: Output) -> bool:
    """Whether an action, not the trigger, returned it and no step has taken it up."""
    return bool(output.step) and output.reference not in draft.referred


def candidates(draft: Draft, api: API, parameter: Field, visible: Sequence[Output]) -> list[tuple[Output, float]]:
    """Earlier outputs that may fill the parameter, with their weights."""
    kind = parameter.kind
    if kind not in REFERENCE_CHANCE or (parameter.examples and kind in ("tag", "text", "file_name")):
        return []  # such a parameter names something that is there already
    if partner(api, parameter.key):
        return []  # nobody knows whether it comes before the other end
    return [(output, _weight(draft, kind, output)) for output in visible if _may_fill(api, parameter, output)]


def _may_fill(api: API, parameter: Field, output: Output) -> bool:
    kind, source = parameter.kind, output.field
    if not source.summary or not fits(source.kind, kind, output.api.connector == api.connector):
        return False
    if source.summary in UNTESTED or source.kind in ("boolean", "count", "number"):
        return False
    if kind in DATED:
        return same_moment(parameter, source)
    return source.kind not in DATED and (kind != "file_name" or source.kind == "file_name")


def _weight(draft: Draft, kind: str, output: Output) -> float:
    source = output.field.kind
    weight = 6.0 if source == kind else KIND_WEIGHT.get(source, 0.6)
    if kind == "title" and source in ("person_name", "company"):
        weight = 0.3
    if is_new(draft, output):
        weight *= 3.0  # what a step looked up is there to be used
    if output.reference in draft.referred:
        weight *= 0.3
    return weight


def describe(draft: Draft, output: Output, visible: Sequence[Output], possessive: bool = False) -> str | None:
    """Words for an earlier output; None where another one would be meant as well.

    `possessive`: "its subject" is possible, too, of the trigger's outputs and before any action.
    """
    summary, noun = output.field.summary, thing(output.api)
    rivals = [o for o in visible if o.field.summary == summary and o.variable != output.variable]
    plain = re.search(r" (of|in|to|who|that) |'s", summary) or (noun and re.search(rf"\b{noun}\b", summary))
    if rivals:
        if plain or not noun or any(thing(o.api) == noun for o in rivals):
            return None
        return draft.rng.choice((f"the {summary} of the {noun}", f"the {noun}'s {summary}"))
    if plain or not noun:
        return f"the {summary}"
    forms, weights = [f"the {summary}", f"the {summary} of the {noun}", f"the {noun}'s {summary}"], [4.0, 2.0, 1.5]
    if summary in GENERIC:
        weights[0] = 0.7
    if possessive and output.step == 0 and draft.steps <= 1:
        forms.append(f"its {summary}")
        weights.append(1.5)
    return draft.rng.choices(forms, weights)[0]
