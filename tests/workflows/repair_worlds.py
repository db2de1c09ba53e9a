"""A small catalogue, requests with their flows, and a model that says what it is told, for the tests of repair."""

from dataclasses import dataclass, field
from types import SimpleNamespace

import pandas as pd

from lib.generation.local import Cost
from lib.workflows.apis import API, Field
from lib.workflows.catalogue import Catalogue
from lib.workflows.repair_asking import Asking


def api(name: str, *keys: str) -> API:
    connector, _, operation = name.partition(".")
    fields = tuple(map(Field, keys))
    return API(connector, operation, display_name=operation, app_name=connector, parameters=fields)


CATALOGUE = Catalogue(
    {
        one.name: one
        for one in (
            api("shared_mail.OnNew"),
            api("shared_mail.Send", "to", "subject"),
            api("shared_chat.Post", "message"),
        )
    },
    {},
)
TRIGGER = "x = await shared_mail.OnNew();\n"
GOLD = TRIGGER + 'shared_chat.Post({"message": "hi"});'
MADE_UP = TRIGGER + 'shared_chat.Pots({"message": "hi"});'
OTHER = TRIGGER + 'shared_mail.Send({"to": "a"});'
UNITS = ("q0", "q1", "q2")
ASKED = pd.DataFrame(
    {
        "request": ["when mail comes, say hi"] * 3,
        "dsl": [GOLD] * 3,
        "said": [[[], ["message"]]] * 3,
    },
    index=pd.Index(UNITS, name="pair"),
)
PROMPTS = pd.DataFrame(
    {
        "test_set": "unseen",
        "unit": UNITS,
        "request": ASKED["request"].tolist(),
        "prompt": [f"prompt {unit}\n<START>\n" for unit in UNITS],
        "model": "finetuned",
    }
)
ASKING = Asking(max_new_tokens=16, room=100, count=lambda text: len(text.split()))


@dataclass
class Told:
    """A model that answers each prompt from a list: free, constrained and second ones."""

    answers: dict[str, list[str]]
    calls: list = field(default_factory=list)

    def generate(self, prompts, max_new_tokens, stop, grammars=None, **settings):
        second = any("This flow is wrong" in prompt for prompt in prompts)
        way = "catalogue" if grammars else "second" if second else "free"
        given = self.answers[way]
        self.calls.append(SimpleNamespace(way=way, prompts=prompts))
        self.finished = [True] * len(given)
        self.costs = [Cost(10 + len(way), 5, 1.0 + i) for i in range(len(given))]
        assert len(given) == len(prompts)
        return given


def told() -> Told:
    """The first flow is right at once, the second after repair or a second prompt, the third is another flow."""
    return Told(
        {
            "free": [GOLD, MADE_UP, OTHER],
            "catalogue": [GOLD, OTHER, OTHER],
            "second": [GOLD],
        }
    )
