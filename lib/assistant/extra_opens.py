"""Opens beside the habits: what is asked for was also opened lately, or is opened often.

Two knobs, `recency_strength` and `frequency_strength`, say of how many queries that is so; at 0 neither the last open
nor the number of opens tells what is asked for. Of each such query the same happens to `RIVALS` other items, so that
recency and frequency are hints and not the answer.

Texts, labels and all other draws stay as they are, and what a text says of its item's use stays true: what is
opened often is so after it came and before the last use that it shows; lately is after the persona's data were
collected, so its log goes on until then (`Persona.log_until`). No method may see an open at or after its query.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import numpy as np

from lib.assistant.personas import LOG_DAYS, WAKING_HOURS, Life, draw_moments, somewhere
from lib.assistant.queries import Gold, Query
from lib.assistant.schemas import APPS, ITEM_TYPES, TIME_FIELDS, Item, Open, Place, WorldKnobs

RIVALS = 3  # items that are opened as lately, or as often, as the answer to a query
RECENT = timedelta(hours=24)
TIMES_AS_OFTEN = 2.0  # opens that are added, in units of `opens_per_item`


def open_lately(life: Life, asked: Sequence[tuple[Query, Gold]], knobs: WorldKnobs, rng: np.random.Generator) -> None:
    """Open the relevant items of a `recency_strength` share of the queries, and as many rivals as there are, once each
    in the `RECENT` hours before the query, at any waking moment since the data were collected. More strength only adds
    queries."""
    for (query, gold), own in zip(asked, rng.spawn(len(asked)), strict=True):
        if own.random() < knobs.recency_strength:
            for item in hinted_at(life, gold, own):
                if moment := lately(query.time, life.today, own):
                    _open(item, [(moment, somewhere(moment, life.places, own))])


def open_often(life: Life, asked: Sequence[tuple[Query, Gold]], knobs: WorldKnobs, rng: np.random.Generator) -> None:
    """Open the relevant items of a `frequency_strength` share of the queries, and as many rivals as there are, more
    often: a Poisson number of times, at any waking moments of the log's eight weeks at which it may be opened."""
    for (_, gold), own in zip(asked, rng.spawn(len(asked)), strict=True):
        if own.random() < knobs.frequency_strength:
            for item in hinted_at(life, gold, own):
                size = int(own.poisson(TIMES_AS_OFTEN * knobs.opens_per_item))
                first, last = openable(item, life.today)
                if first < last:
                    _open(item, draw_moments(None, first, last, size, life.places, knobs, own))


def hinted_at(life: Life, gold: Gold, rng: np.random.Generator) -> list[Item]:
    """The relevant items of a query, and `RIVALS` others of the persona, as far as it has them; none that went stale,
    whose log has ended."""
    stale = {entry.item_id for entry in life.provenance if entry.source == "stale"}
    items = [item for app in APPS for item in life.items[app]]
    relevant = [item for item in items if item.id in gold.relevant]
    others = [item for item in items if item.id not in gold.relevant and item.id not in stale]
    return relevant + [others[number] for number in rng.permutation(len(others))[:RIVALS]]


def openable(item: Item, today: datetime) -> tuple[datetime, datetime]:
    """From when, and until when, an item may be opened in the eight weeks before `today`, when data are collected: a
    mail or note came before its first open; a search, song or call shows its last."""
    app = next(app for app, kind in ITEM_TYPES.items() if isinstance(item, kind))
    first = item.opens[0].time if app in ("mail", "notes") else today - timedelta(days=LOG_DAYS)
    last = getattr(item, TIME_FIELDS[app]) if app in ("google", "music", "phone_call") else today
    return first, min(last, today)


def lately(moment: datetime, since: datetime, rng: np.random.Generator) -> datetime | None:
    """A waking moment drawn from the `RECENT` hours before another, but not before `since`; all on the minute. None
    where there is none."""
    before = np.arange(1, min(RECENT, moment - since) // timedelta(minutes=1) + 1)
    minute = (moment.hour * 60 + moment.minute - before) % (24 * 60)
    awake = before[(minute >= WAKING_HOURS[0] * 60) & (minute < WAKING_HOURS[1] * 60)]
    return moment - timedelta(minutes=int(awake[rng.integers(len(awake))])) if len(awake) else None


def _open(item: Item, moments: Sequence[tuple[datetime, Place]]) -> None:
    item.opens += [Open.model_construct(time=time, place=place) for time, place in moments]
    item.opens.sort(key=lambda opened: opened.time)
