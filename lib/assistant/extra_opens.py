"""Opens beside the habits: what is asked for was also opened lately, or is opened often.

Two knobs, `recency_strength` and `frequency_strength`, say of how many queries that is so; at 0 neither the last open
nor the number of opens tells what is asked for. Of each such query the same happens to `RIVALS` other items, so that
recency and frequency are hints and not the answer.

Texts, labels and all other draws stay as they are. The last opens of a query come after the persona's data were
collected, so its log goes on until then (`Persona.log_until`); no method may see an open at or after its query.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import numpy as np

from lib.assistant.personas import LOG_DAYS, WAKING_HOURS, Life, draw_moments, somewhere
from lib.assistant.queries import Gold, Query
from lib.assistant.schemas import APPS, Item, Open, Place
from lib.workbook.parameters.worlds import WorldKnobs

RIVALS = 3  # items that are opened as lately, or as often, as the answer to a query
RECENT = timedelta(hours=24)
TIMES_AS_OFTEN = 2.0  # opens that are added, in units of `opens_per_item`


def open_lately(life: Life, asked: Sequence[tuple[Query, Gold]], knobs: WorldKnobs, rng: np.random.Generator) -> None:
    """Open the relevant items of a `recency_strength` share of the queries, and as many rivals as there are, once each
    in the `RECENT` hours before the query, at any waking moment. More strength only adds queries."""
    for (query, gold), own in zip(asked, rng.spawn(len(asked)), strict=True):
        if own.random() < knobs.recency_strength:
            for item in hinted_at(life, gold, own):
                moment = lately(query.time, own)
                _open(item, [(moment, somewhere(moment, life.places, own))])


def open_often(life: Life, asked: Sequence[tuple[Query, Gold]], knobs: WorldKnobs, rng: np.random.Generator) -> None:
    """Open the relevant items of a `frequency_strength` share of the queries, and as many rivals as there are, more
    often: a Poisson number of times, at any waking moments of the log's eight weeks."""
    first = life.today - timedelta(days=LOG_DAYS)
    for (_, gold), own in zip(asked, rng.spawn(len(asked)), strict=True):
        if own.random() < knobs.frequency_strength:
            for item in hinted_at(life, gold, own):
                size = int(own.poisson(TIMES_AS_OFTEN * knobs.opens_per_item))
                _open(item, draw_moments(None, first, life.today, size, life.places, knobs, own))


def hinted_at(life: Life, gold: Gold, rng: np.random.Generator) -> list[Item]:
    """The relevant items of a query, and `RIVALS` others of the persona, as far as it has them; none that went stale,
    whose log has ended."""
    stale = {entry.item_id for entry in life.provenance if entry.source == "stale"}
    items = [item for app in APPS for item in life.items[app]]
    relevant = [item for item in items if item.id in gold.relevant]
    others = [item for item in items if item.id not in gold.relevant and item.id not in stale]
    return relevant + [others[number] for number in rng.permutation(len(others))[:RIVALS]]


def lately(moment: datetime, rng: np.random.Generator) -> datetime:
    """A waking moment drawn from the `RECENT` hours before another; both on the minute."""
    before = np.arange(1, RECENT // timedelta(minutes=1) + 1)
    minute = (moment.hour * 60 + moment.minute - before) % (24 * 60)
    awake = before[(minute >= WAKING_HOURS[0] * 60) & (minute < WAKING_HOURS[1] * 60)]
    return moment - timedelta(minutes=int(awake[rng.integers(len(awake))]))


def _open(item: Item, moments: Sequence[tuple[datetime, Place]]) -> None:
    item.opens += [Open.model_construct(time=time, place=place) for time, place in moments]
    item.opens.sort(key=lambda opened: opened.time)
