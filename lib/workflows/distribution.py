"""How likely which API follows which in a flow, and what calls need from each other."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Sequence

import numpy as np

from lib.workbook.inputs import InputError
from lib.workbook.parameters.worlds import FlowKnobs
from lib.workflows.apis import API, ID, SHARED_IDS, Connector, family_heads, said
from lib.workflows.catalogue import Catalogue

# Weight of an API = that of its connector times that of its operation times a log-normal factor.
CONNECTOR_WEIGHT = {"core": 8.0, "common": 2.0, "rare": 0.7}
OPERATION_WEIGHT = {"core": 8.0, "common": 2.5, "rare": 0.9}
OLDER_SIBLING = 0.1  # nobody can ask for an older form by words, so flows that have one are rare
PARTNERS: dict[str, tuple[str, ...]] = {
    "mail": ("tasks", "files", "chat", "approvals", "crm", "support", "calendar", "data", "devices", "documents"),
    "chat": ("tasks", "mail", "files", "calendar", "data", "support", "devices", "people"),
    "calendar": ("chat", "mail", "tasks", "devices", "documents", "people"),
    "tasks": ("chat", "mail", "calendar", "devices", "data", "development"),
    "files": ("mail", "chat", "documents", "approvals", "data", "ai", "signing"),
    "documents": ("mail", "files", "chat", "approvals", "tasks"),
    "forms": ("data", "mail", "chat", "approvals", "crm", "tasks", "support", "files", "marketing"),
    "data": ("mail", "chat", "approvals", "analytics", "files", "tasks", "devices"),
    "crm": ("mail", "chat", "tasks", "marketing", "calendar", "data", "documents"),
    "support": ("mail", "chat", "tasks", "development", "crm", "devices", "ai"),
    "development": ("chat", "mail", "tasks", "devices", "data"),
    "social": ("chat", "mail", "data", "ai", "analytics", "marketing", "devices"),
    "marketing": ("mail", "crm", "data", "chat", "forms"),
    "shop": ("mail", "chat", "data", "finance", "crm", "devices"),
    "finance": ("mail", "chat", "data", "crm", "shop", "devices"),
    "people": ("mail", "chat", "tasks", "calendar", "data", "approvals"),
    "approvals": ("mail", "chat", "files", "data", "tasks"),
    "signing": ("mail", "chat", "files", "data", "crm"),
    "analytics": ("mail", "chat", "devices", "tasks"),
    "security": ("mail", "chat", "data"),
    "ai": ("mail", "chat", "data", "files", "social"),
    "media": ("chat", "mail", "social", "data"),
    "devices": ("mail", "chat", "tasks"),
    "places": ("mail", "chat", "calendar", "devices"),
    "events": ("mail", "chat", "data", "marketing", "calendar", "crm"),
    "web": ("mail", "chat", "social", "data", "devices"),
}
PARTNER, SAME_CATEGORY, STRANGER = 4.0, 1.0, 0.15
GONE = re.compile(r"delet|remov|cancel", re.IGNORECASE)
# Looking something up is for a later step; a list of records is of less use to it than single fields.
READER_LAST, READER_EARLIER, LISTER_EARLIER = 0.1, 0.6, 0.15
READERS = re.compile(
    r"(get|list|lists|search|find|retrieve|query|perform|optical|analyze|describe|sentiment|key|languages|named|entity|"
    r"predict|chat|completion|embeddings|translate|transliterate|download|extract|check|convert|pdf|show|encrypt|decrypt)\b",
    re.IGNORECASE,
)

Need = tuple[str, str]  # connector (empty where all share it) and kind of an id; ("", "file") for a file


class FlowDistribution:
    """Weights of a catalogue's APIs, over the actions as arrays of shape (actions,) unless said otherwise.

    Attributes:
        knobs: shares and seed.
        triggers, actions: APIs that designers offer, with phrases.
        tail: APIs of training; a share of the flows has one drawn evenly.
        weight: by API.
        category: by API, its connector's.
        base: the actions' weights.
        affinity: by category, how well the actions go with it.
        trained: which actions training may use.
        trained_triggers: which triggers training may use, and their weights, added up.
        of_connector: by connector, which actions are its own.
        reader: which actions look something up.
        destroys: which actions delete something.
        last, earlier: factors for an action that ends a flow or branch, and for one before it.
        number: by action, its place in the arrays.
        exchange: what calls need and give.

    Raises:
        InputError: no trigger or no action has phrases and is for training.
    """

    def __init__(self, catalogue: Catalogue, knobs: FlowKnobs):
        self.knobs = knobs
        connectors = catalogue.connectors
        offered = [api for api in catalogue if not api.internal and api.phrases and api.terse]
        self.triggers = [api for api in offered if api.trigger]
        self.actions = actions = [api for api in offered if not api.trigger]
        if not any(a.in_training for a in self.triggers) or not any(a.in_training for a in actions):
            raise InputError("the catalogue has no trigger or no action with phrases that training may use")
        self.tail = [api for api in offered if api.in_training]
        heads = family_heads(catalogue)
        self.weight = {api.name: _weight(api, connectors, heads[api.name] == api.name, knobs) for api in offered}
        self.category = {api.name: connectors[api.connector].category for api in offered}
        self.affinity = {
            one: np.array([_affinity(one, self.category[a.name]) for a in actions])
            for one in sorted(set(self.category.values()))
        }
        self.base = np.array([self.weight[a.name] for a in actions])
        self.trained = np.array([a.in_training for a in actions])
        trained = [trigger for trigger in self.triggers if trigger.in_training]
        self.trained_triggers = trained, list(itertools.accumulate(self.weight[trigger.name] for trigger in trained))
        self.of_connector = {c: np.array([a.connector == c for a in actions]) for c in connectors}
        self.reader = np.array([bool(READERS.match(a.display_name)) and bool(a.returns) for a in actions])
        self.destroys = np.array([bool(GONE.match(a.display_name)) for a in actions])
        speakable = np.array([any(said(o.kind) for o in a.returns) for a in actions])
        self.last = np.where(self.reader, READER_LAST, 1.0)
        self.earlier = np.where(self.reader, np.where(speakable, READER_EARLIER, LISTER_EARLIER), 1.0)
        self.number = {api.name: number for number, api in enumerate(actions)}
        self.exchange = Exchange(offered, actions)


class Exchange:
    """What actions need and calls give: ids within their connector, shared ids, files.

    Attributes:
        gives: by API, what it returns.
        column: by need that some call can meet, its place in the arrays.
        needs, provides: (actions, columns), 1 where an action needs it or returns it; small whole numbers, as floats
            because NumPy multiplies matrices of these much faster.
        takes_id: like `needs`, without files.
    """

    def __init__(self, offered: Sequence[API], actions: Sequence[API]):
        self.gives = {api.name: _gives(api) for api in offered}
        given = set().union(*self.gives.values())
        met = sorted({need for api in actions for need in _needs(api)} & given)
        self.column = {need: number for number, need in enumerate(met)}
        self.needs = np.zeros((len(actions), len(met)), dtype=np.float32)
        self.provides = np.zeros_like(self.needs)
        for row, api in enumerate(actions):
            self.needs[row, self.columns(_needs(api))] = 1
            self.provides[row, self.columns(self.gives[api.name])] = 1
        self.takes_id = self.needs.copy()
        self.takes_id[:, [column for need, column in self.column.items() if need[1] == "file"]] = 0

    def columns(self, needs: set[Need]) -> list[int]:
        """Places of those that some call can meet and some action has."""
        return [self.column[need] for need in needs if need in self.column]


def _weight(api: API, connectors: dict[str, Connector], is_head: bool, knobs: FlowKnobs) -> float:
    spread = random.Random(f"{knobs.seed}:{api.name}").gauss(0, knobs.api_spread)
    weight = CONNECTOR_WEIGHT[connectors[api.connector].use] * OPERATION_WEIGHT[api.use]
    return weight * float(np.exp(spread)) * (1.0 if is_head else OLDER_SIBLING)


def _affinity(one: str, other: str) -> float:
    return PARTNER if other in PARTNERS.get(one, ()) else SAME_CATEGORY if one == other else STRANGER


def _scope(api: API, kind: str) -> Need:
    return ("" if kind in SHARED_IDS else api.connector, kind)


def _needs(api: API) -> set[Need]:
    needs = {_scope(api, p.kind) for p in api.parameters if p.required and p.kind.startswith(ID)}
    if any(p.required and p.kind == "file_content" for p in api.parameters):
        needs.add(("", "file"))
    return needs


def _gives(api: API) -> set[Need]:
    gives = {_scope(api, output.kind) for output in api.returns if output.kind.startswith(ID)}
    attached = any(output.kind == "boolean" and "attachment" in output.summary for output in api.returns)
    if attached or any(output.kind == "file_content" for output in api.returns):
        gives.add(("", "file"))
    return gives
