"""Needs whose query names one thing and whose item another: "directions to whoever teaches Ana".

One YAML file a need, in `data/needs/hops/`. Every keep has two items, in this order: `via` names what the query names
and somebody or something else, `to` names the latter and answers the query. No word leads from the query to `to`. What
both name is a person or a place, or a title, in two parts of `vars`: so few personas have the same one.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator

from lib.assistant.needs import (
    AnyNeed,
    Group,
    Keep,
    Phrasing,
    alternatives,
    check_slots,
    content_of,
    read_forms,
    slots_of,
    texts_of,
)
from lib.assistant.toolbox import Toolbox
from lib.workbook.inputs import Text

ITEMS = ["via", "to"]


class HopNeed(AnyNeed):
    """A need whose answer is reachable through another item alone."""

    phrasings: list[Phrasing] = Field(min_length=12)
    cot: Annotated[list[Text], Field(min_length=2)]

    @property
    def voiced(self) -> dict[str, list[str]]:
        return {"hop": self.phrasings}

    @property
    def group(self) -> Group:
        return "hop"

    def thoughts(self, kind: str) -> list[str]:
        return self.cot

    def answers(self, item: str) -> bool:
        return item == "to"

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        forms = [form for text in self.phrasings for form in alternatives(text)]
        for form in forms:
            check_slots(slots_of(form), self.vars, "phrasing")
        for where, value in self._item_texts():
            check_slots(slots_of(value), self.vars, where)
        for where, keep, value in self._plan_texts():
            self._check_plan_slots(where, keep, slots_of(value))
        for name, keep in self.keeps.items():
            try:
                self._check_way(keep, forms)
            except ValueError as error:
                raise ValueError(f"keep {name}: {error}") from None
        return self

    def _check_way(self, keep: Keep, forms: Collection[str]) -> None:
        """Raises ValueError unless there is a way from every form through every wording of `via` to every one of `to`,
        and no shorter one."""
        if list(keep.items) != ITEMS:
            raise ValueError("must have the items via and to, in this order")
        if "to" not in keep.always:
            raise ValueError("its plan must name the item to")
        if shared := sorted(content_of(forms, self.vars) & content_of(texts_of(keep.items["to"]), self.vars)):
            raise ValueError(f"phrasings share {shared[0]!r} with the item to")
        via, to = ([_named(wording.values()) for wording in keep.items[name].wordings] for name in ITEMS)
        for form in forms:
            asked = _named([form])
            if shared := sorted(asked & set().union(*to)):
                raise ValueError(f"the phrasing {form!r} names {shared[0]!r}, as the item to does")
            if not all(asked & names for names in via):
                raise ValueError(f"a wording of via names nothing that the phrasing {form!r} names")
        if not all(names & others for names in via for others in to):
            raise ValueError("a wording of via names nothing that a wording of to names")


def _named(values: Collection[str | list[str]]) -> set[str]:
    """Roles, facts and variables that texts name, whatever part of them."""
    return {slot.partition(".")[0] for value in values for slot in slots_of(value)}


def read_hop_needs(folder: str | Path, toolbox: Toolbox) -> list[HopNeed]:
    """The hops of a folder, by file name, checked against the toolbox; raises as `read_forms` does."""
    return read_forms(folder, toolbox, HopNeed)
