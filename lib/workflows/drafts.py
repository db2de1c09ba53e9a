"""A request and its flow while they are being written: in what manner, and what has been said so far.

Text is built with a placeholder (a private-use character) for every value and app name, so that typing manners change
the words around a value and never the value. The words of a step stand between two marks (characters of another
private-use plane) until the request is typed, so that it is known which stretch of it says which call.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field
from typing import Any

from lib.workflows.apis import API
from lib.workflows.language import Reference, Value
from lib.workflows.wordings import Wordings

FIRST_PLACEHOLDER = 0xE000
PLACEHOLDER = re.compile("[\ue000-\uf8ff]")
FIRST_MARK = 0xF0000
MARK = re.compile("[\U000f0000-\U000ffffd]")
FIRST_NAME_WEIGHT = 3.0  # of what people call an app; its other names weigh 1


@dataclass(slots=True)
class Draft:
    """What the parts of one request share.

    Attributes:
        rng: the pair's own generator.
        wordings: of the catalogue.
        split: one of `lib.workflows.pairs.SPLITS`.
        terse: whether the request is in telegraph style.
        conditional: whether its flow has an `if`.
        day_layout, clock: how this person writes days and times; an empty layout is the ISO moment itself.
        tokens: text of each placeholder, and whether it is an app's name.
        quoted: values that stand in quotation marks.
        apps: by connector, the name that this request calls it by.
        said_before: by (connector, last part of the key), the value that was said.
        variables: names of outputs that the flow has.
        used: which phrases of which API the request uses.
        referred: outputs that a step has taken up.
        said: of each call, the keys of the arguments that the request says.
        literals: values named in the step at hand, or in the conditions.
        steps: how many calls there are.
        last_connector: of the call before, empty at the start of a branch.
    """

    rng: random.Random
    wordings: Wordings
    split: str
    terse: bool
    conditional: bool
    day_layout: str
    clock: str
    tokens: list[tuple[str, bool]] = field(default_factory=list)
    quoted: list[str] = field(default_factory=list)
    apps: dict[str, str] = field(default_factory=dict)
    said_before: dict[tuple[str, str], Value] = field(default_factory=dict)
    variables: set[str] = field(default_factory=set)
    used: list[tuple[str, str]] = field(default_factory=list)
    referred: set[Reference] = field(default_factory=set)
    said: list[list[str]] = field(default_factory=list)
    literals: set[str] = field(default_factory=set)
    steps: int = 0
    last_connector: str = ""

    @property
    def side(self) -> str:
        """Whose wordings it uses: those of training or those of the test."""
        return "training" if self.split in ("training", "test_same") else "test"

    @property
    def frames(self) -> dict:
        return self.wordings.frames[self.side]

    def pick(self, name: str) -> Any:
        """One of the frames of this name: a template, or a tuple of those that go together."""
        return self.rng.choice(self.frames[name])

    def token(self, text: str, app: bool = False) -> str:
        """A placeholder for the text."""
        self.tokens.append((text, app))
        return chr(FIRST_PLACEHOLDER + len(self.tokens) - 1)

    def app(self, api: API) -> str:
        """A placeholder for what this request calls the API's app."""
        if api.connector not in self.apps:
            called = self.wordings.connectors[api.connector].called
            weights = [FIRST_NAME_WEIGHT] + [1.0] * (len(called) - 1)
            self.apps[api.connector] = self.rng.choices(called, weights)[0]
        return self.token(self.apps[api.connector], app=True)

    def known(self, api: API, key: str) -> Value | None:
        """The value that an earlier step of the connector has for such a key."""
        return self.said_before.get((api.connector, last_part(key)))


def marked(text: str, step: int) -> str:
    """The words of a step, the first being 0, between its marks."""
    mark = chr(FIRST_MARK + step)
    return f"{mark}{text}{mark}"


def last_part(key: str) -> str:
    """`subject` of `item/Subject`."""
    return key.rpartition("/")[2].lower()
