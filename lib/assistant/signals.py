"""Usage signals: what a persona's log says about a candidate item at the moment of a query, of the kinds that the
assistant paper names (section 3.2: frequency, usage history, correlation with geo-temporal features), in groups:

    numerical    how often and how recently the item was opened; blind to the query
    categorical  the item's app; the query's part of the day, kind of day and place
    habitual     how the item's past opens agree with the query's hour, weekday and place
    text         scores given from outside, and their ranks within the query

Opens at or after the query's own time are left out. Recency is counted from the latest open of all the query's
candidates: counted from the query, an item last opened exactly 7.00 days ago is one opened at this hour of this
weekday, so that trees would see habits without the habitual group. The time an item shows (start of an event, due time)
is not among them: how soon it is due says which one is asked for more plainly than any habit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd

from lib.assistant.schemas import APPS, PLACES

HOUR_BANDWIDTH = 1.5  # hours: standard deviation of the kernel over hours of the day
HALF_LIFE = 14.0  # days: an open of two weeks ago counts half in what is `_recent`
DAY_PARTS = (6, 12, 18)  # hours at which morning, afternoon and evening begin; night before
WINDOWS = (1, 7, 28)  # days
PLACE_CODES = {place: code for code, place in enumerate(PLACES)}

NUMERICAL = (
    "opens", "opens_1d", "opens_7d", "opens_28d", "share_of_opens", "days_behind_latest_open", "days_of_use",
)  # fmt: skip
CATEGORICAL = ("app", "day_part", "weekend", "place")
AGREEMENTS = ("hour", "weekday", "day_kind", "place", "hour_place", "hour_weekday", "moment", "moment_recent")
HABITUAL = tuple(f"{name}_{kind}" for kind in ("count", "share") for name in AGREEMENTS) + tuple(
    f"{name}_correlation" for name in ("hour", "weekday", "place")
)


class Log(NamedTuple):
    """Items and opens as numbers, which do not change with a query."""

    app: np.ndarray  # of each item, its position in `APPS`
    item: np.ndarray  # row of its item, −1: not there
    used: dict[str, np.ndarray]  # when and where, see `_moments`

    @classmethod
    def of(cls, items: pd.DataFrame, opens: pd.DataFrame) -> Log:
        """Of frames as `signals` takes them."""
        app, item = pd.Index(APPS).get_indexer(items["app"]), pd.Index(items["item"]).get_indexer(opens["item"])
        return cls(app, item, _moments(opens))


def signals(
    pairs: pd.DataFrame,
    queries: pd.DataFrame,
    items: pd.DataFrame,
    opens: pd.DataFrame,
    text_scores: Mapping[str, np.ndarray],
    log: Log | None = None,
) -> pd.DataFrame:
    """Features of candidate pairs, floats: columns `NUMERICAL`, `CATEGORICAL` (codes), `HABITUAL` and the text scores,
    one row a pair, in their order and with their index.

    A count sums, over the item's opens before the query, how far each agrees with the query: `hour` by a Gaussian
    kernel on the clock (1 at the same time of day), `weekday`, `day_kind` (working day or weekend) and `place` by 0 or
    1; `hour_place`, `hour_weekday` and `moment` (hour, kind of day and place) by products, `moment_recent` also by 2 to
    the minus age over `HALF_LIFE`. A share is the count over the number of opens. A correlation is Pearson's, between
    the item's histogram over 24 hours, 7 weekdays or the places and the query's own (its hour blurred by the kernel); 0
    for a flat histogram. What is undefined for an item never opened is NaN.

    The numerical columns count opens: all, those of the last 1, 7 and 28 days (to the latest open of the query's
    candidates), their share of the candidates' opens, the days from the item's last open to that latest one, and those
    from its first open to its last.

    Args:
        pairs: from `lib.retrieval.stores.candidate_pairs` over `queries` and `items`.
        queries: columns time, place (ValueError where it is not one of `PLACES`) and, maybe, weekday (0 = Monday).
        items: columns item, app.
        opens: columns item, time, place; opens of other items are ignored.
        text_scores: name → one score a pair; they become columns `<name>` and `<name>_rank` (1 = best of the query).
        log: of items and opens, where it is kept from query to query.
    """
    query_row, item_row = pairs["query_row"].to_numpy(), pairs["item_row"].to_numpy()
    columns = _usage(query_row, item_row, queries, log or Log.of(items, opens))
    for name, scores in text_scores.items():
        columns[name] = np.asarray(scores, dtype=float)
        columns[f"{name}_rank"] = rank_within(query_row, columns[name])
    # One block of floats: for one query's few rows, a frame of many blocks takes longer than what it holds.
    values = np.array([*columns.values()], dtype=float)
    return pd.DataFrame(values.T, columns=[*columns], index=pairs.index)


def feature_groups(features: pd.DataFrame) -> dict[str, list[str]]:
    """Columns of a frame from `signals` by group: numerical, categorical, habitual, and, the rest, text."""
    groups = {"numerical": list(NUMERICAL), "categorical": list(CATEGORICAL), "habitual": list(HABITUAL)}
    known = {name for names in groups.values() for name in names}
    return groups | {"text": [name for name in features.columns if name not in known]}


def rank_within(group: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Rank of each score within its group, highest first, from 1; equal scores share the best of their ranks."""
    order = np.lexsort((-scores, group))
    group, scores, n = group[order], scores[order], len(order)
    new = np.ones(n, dtype=bool)
    new[1:] = (group[1:] != group[:-1]) | (scores[1:] != scores[:-1])
    first_of_ties = np.maximum.accumulate(np.where(new, np.arange(n), 0))
    ranks = np.empty(n)
    ranks[order] = first_of_ties - np.searchsorted(group, group) + 1
    return ranks


def _usage(query_row: np.ndarray, item_row: np.ndarray, queries: pd.DataFrame, log: Log) -> dict[str, np.ndarray]:
    """The columns that need no text. Works on one row for each (pair, open before the query)."""
    n = len(query_row)
    asked, used = _moments(queries), log.used
    query_weekday = queries["weekday"].to_numpy() if "weekday" in queries else asked["weekday"]

    by_item = np.argsort(log.item, kind="stable")
    first = np.searchsorted(log.item[by_item], np.arange(len(log.app) + 1))
    size = np.diff(first)[item_row]
    pair = np.repeat(np.arange(n), size)
    entry = by_item[first[item_row][pair] + np.arange(len(pair)) - np.repeat(np.cumsum(size) - size, size)]
    query = query_row[pair]
    age = (asked["minutes"][query] - used["minutes"][entry]) / 1440  # days
    before = age > 0
    pair, entry, query, age = pair[before], entry[before], query[before], age[before]

    newest, oldest = np.full(n, np.inf), np.full(n, -np.inf)
    np.minimum.at(newest, pair, age)
    np.maximum.at(oldest, pair, age)
    latest = np.full(len(queries), np.inf)
    np.minimum.at(latest, query_row, newest)
    behind = age - latest[query]

    count = np.bincount(pair, minlength=n).astype(float)
    of_query = np.bincount(query_row, weights=count, minlength=len(queries))[query_row]
    columns = {"opens": count}
    columns |= {f"opens_{days}d": np.bincount(pair, behind <= days, n) for days in WINDOWS}
    columns["share_of_opens"] = count / np.where(of_query > 0, of_query, np.nan)
    never = count == 0
    newest[never] = oldest[never] = np.nan
    columns["days_behind_latest_open"] = newest - latest[query_row]
    columns["days_of_use"] = oldest - newest

    columns["app"] = log.app[item_row]
    columns["day_part"] = np.searchsorted(DAY_PARTS, asked["hour"], side="right")[query_row]
    columns["weekend"] = (query_weekday >= 5).astype(int)[query_row]
    columns["place"] = asked["place"][query_row]

    weekday, day = used["weekday"][entry], query_weekday[query]
    hour = hour_kernel(used["hour"][entry] - asked["hour"][query])
    place = used["place"][entry] == asked["place"][query]
    day_kind = (weekday >= 5) == (day >= 5)
    agreement = {
        "hour": hour,
        "weekday": weekday == day,
        "day_kind": day_kind,
        "place": place,
        "hour_place": hour * place,
        "hour_weekday": hour * (weekday == day),
        "moment": hour * place * day_kind,
        "moment_recent": hour * place * day_kind * 0.5 ** (age / HALF_LIFE),
    }
    counts = {name: np.bincount(pair, agreement[name], n) for name in AGREEMENTS}
    columns |= {f"{name}_count": value for name, value in counts.items()}
    columns |= {f"{name}_share": value / np.where(never, np.nan, count) for name, value in counts.items()}

    blurred = hour_kernel(np.arange(24) + 0.5 - asked["hour"][:, None])
    histograms = {
        "hour": (used["hour"][entry].astype(int), blurred),
        "weekday": (weekday, np.eye(7)[query_weekday]),
        "place": (used["place"][entry], np.eye(len(PLACES))[asked["place"]]),
    }
    for name, (bins, profile) in histograms.items():
        width = profile.shape[1]
        histogram = np.bincount(pair * width + bins, minlength=n * width).reshape(n, width)
        a, b = (x - x.mean(axis=1, keepdims=True) for x in (histogram, profile[query_row]))
        scale = np.sqrt((a**2).sum(axis=1) * (b**2).sum(axis=1))
        pearson = np.divide((a * b).sum(axis=1), scale, out=np.zeros(n), where=scale > 1e-12)  # 0 where one is flat
        columns[f"{name}_correlation"] = np.where(never, np.nan, pearson)
    return columns


def log_similarities(items: pd.DataFrame, opens: pd.DataFrame, queries: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """How alike the logs of one persona's items are: (states, items, items), one for each state of the log that a query
    finds, and each query's state. A log is a histogram over the hour of the day (blurred by `hour_kernel`), the kind of
    day and the place, of the opens before the query; similarity is the cosine, 0 where an item was never opened."""
    asked, (_, item, used) = _moments(queries), Log.of(items, opens)
    cell = ((item * 2 + (used["weekday"] >= 5)) * len(PLACES) + used["place"]) * 24 + used["hour"].astype(int)
    # The number of earlier opens says which they are: states of a log are nested.
    earlier = np.searchsorted(np.sort(used["minutes"]), asked["minutes"])
    _, first, state = np.unique(earlier, return_index=True, return_inverse=True)
    hours = np.arange(24)
    kernel = hour_kernel(hours[:, None] - hours)
    alike = np.empty((len(first), len(items), len(items)))
    for number, query in enumerate(first):
        seen = cell[(used["minutes"] < asked["minutes"][query]) & (item >= 0)]
        counts = np.bincount(seen, minlength=len(items) * 2 * len(PLACES) * 24).reshape(-1, 24)
        log = (counts @ kernel).reshape(len(items), -1)
        length = np.linalg.norm(log, axis=1, keepdims=True)
        log = np.divide(log, length, out=np.zeros_like(log), where=length > 0)
        alike[number] = log @ log.T
    return alike, state


def hour_kernel(difference: np.ndarray) -> np.ndarray:
    """Gaussian kernel of differences between hours of the day, 1 at 0; the clock is round: 23 and 1 are 2 apart."""
    apart = np.abs(difference) % 24
    apart = np.minimum(apart, 24 - apart)
    return np.exp(-0.5 * (apart / HOUR_BANDWIDTH) ** 2)


def _moments(rows: pd.DataFrame) -> dict[str, np.ndarray]:
    """Of columns time and place: minutes since 1970, hour of the day with its fraction, weekday (0 = Monday), position
    in `PLACES`."""
    place = np.array([PLACE_CODES.get(place, -1) for place in rows["place"].tolist()], dtype=np.intp)
    if (place < 0).any():  # an unknown place would pass for the last one
        unknown = rows["place"].iloc[int(np.argmin(place))]
        raise ValueError(f"no such place: {unknown!r} (there are: {', '.join(PLACES)})")
    minutes = rows["time"].to_numpy().astype("datetime64[s]").astype(np.int64) / 60
    return {
        "minutes": minutes,
        "hour": minutes % 1440 / 60,
        "weekday": (minutes // 1440 + 3).astype(np.int64) % 7,  # 1 January 1970 was a Thursday
        "place": place,
    }
