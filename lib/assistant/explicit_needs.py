"""Needs whose phrasings say the arguments of the call: "put oat milk on my shopping list".

One YAML file a need, in `data/needs/explicit/`. `said` holds values drawn anew for each query, `vars` values drawn once
a persona, which its items may name, too; `{when.day}`, `{when.on_day}` and `{when.clock}` say a moment that the plan
has as `{when.moment}` or `{when.date}`. Every argument of a plan stands in every phrasing, word for word or as such a
moment, but for `{now.date}`, the day on which the query is voiced. The items have to do with the matter and are gold,
though the call can be made without them.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Annotated, Self

import numpy as np
from pydantic import Field, model_validator

from lib.assistant.needs import AnyNeed, Group, Phrasing, alternatives, check_slots, read_forms, slots_of
from lib.assistant.spoken import MEANT_PARTS, SAID_PARTS, Now, When, draw_moment
from lib.assistant.toolbox import Toolbox
from lib.workbook.inputs import Text

SAID_WHEN = {f"when.{part}" for part in SAID_PARTS}
MEANT_WHEN = {f"{{when.{part}}}" for part in MEANT_PARTS}
TODAY = "{now.date}"


class ExplicitNeed(AnyNeed):
    """A need whose phrasings say all that the call takes, or whose call takes nothing but the day it is asked on.

    One keep is enough: the call may not depend on where the persona keeps the matter.

    Attributes:
        same_day: its events take place on the day that its queries are about; all of them are voiced on one day.
    """

    said: dict[str, Annotated[list[Text], Field(min_length=2)]] = {}
    when: When | None = None
    same_day: bool = False
    phrasings: list[Phrasing] = Field(min_length=6)
    cot: list[Text] = Field(min_length=2)

    @property
    def voiced(self) -> dict[str, list[str]]:
        return {"explicit": self.phrasings}

    @property
    def group(self) -> Group:
        if any(keep.kind_of_plan == "default" for keep in self.keeps.values()):
            return "unserved"
        if all(value == TODAY for _, _, value in self._plan_texts()):
            return "unfilled"
        return "said" if self.api_source == "need" else "placed"

    def thoughts(self, kind: str) -> list[str]:
        return self.cot

    def draw_said(self, now: datetime, rng: np.random.Generator, day: date | None = None) -> dict[str, object]:
        """What one query, voiced at `now`, says: a value of each slot of `said`, and the moment, on `day` where one is
        given."""
        said: dict[str, object] = {name: values[rng.integers(len(values))] for name, values in self.said.items()}
        meant = {"when": draw_moment(self.when, now, rng, day)} if self.when else {}
        return said | {"now": Now(f"{now:%Y-%m-%d}")} | meant

    def day_asked(self, now: datetime, rng: np.random.Generator) -> date | None:
        if not self.same_day:
            return None
        return now.date() + timedelta(days=int(rng.integers(*self.when.days, endpoint=True)) if self.when else 0)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if twice := sorted(set(self.said) & set(self.vars)):
            raise ValueError(f"{twice[0]!r} stands in said and in vars")
        if len({keep.kind_of_plan == "default" for keep in self.keeps.values()}) == 2:
            raise ValueError("either every keep's plan is default() or none is")
        for where, value in self._item_texts():
            check_slots(slots_of(value), self.vars, where)
        sayable = {*self.vars, *self.said, *(SAID_WHEN if self.when else ())}
        forms = [form for text in self.phrasings for form in alternatives(text)]
        for form in forms:
            check_slots(slots_of(form), sayable, "phrasing")
        for where, _, value in self._plan_texts():
            for part in value if isinstance(value, list) else [value]:
                if silent := [form for form in forms if not _says(form, str(part))]:
                    raise ValueError(f"{where}: the phrasing {silent[0]!r} does not say {part!r}")
        return self

    def _fits(self, value: object, json_type: str) -> bool:
        """A number may be one slot whose values are all digits."""
        if json_type == "integer" and isinstance(value, str):
            values = (self.said | self.vars).get(value.strip("{}"), [""])
            return value.startswith("{") and all(text.isdecimal() for text in values)
        return super()._fits(value, json_type)


def _says(form: str, value: str) -> bool:
    """Whether a phrasing without alternatives says an argument, both with their slots unfilled."""
    if value == TODAY:
        return True
    if value in MEANT_WHEN:
        said = set(slots_of(form))
        return bool(said & {"when.day", "when.on_day"}) and (value == "{when.date}" or "when.clock" in said)
    return value.lower() in form.lower()


def read_explicit_needs(folder: str | Path, toolbox: Toolbox) -> list[ExplicitNeed]:
    """The explicit needs of a folder, by file name, checked against the toolbox; raises as `read_forms` does."""
    return read_forms(folder, toolbox, ExplicitNeed)
