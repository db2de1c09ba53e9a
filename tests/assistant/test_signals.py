"""Usage signals against a slow loop, in which numerical ones are blind to the query, and all to what comes after."""

import math

import numpy as np
import pandas as pd
import pytest

from lib.assistant.schemas import APPS, PLACES
from lib.assistant.signals import HABITUAL, HALF_LIFE, HOUR_BANDWIDTH, NUMERICAL, rank_within, signals
from lib.retrieval.stores import candidate_pairs


def random_task(seed: int = 0):
    """(queries, items, opens): some items never opened, some opens after the queries, some of unknown items."""
    rng = np.random.default_rng(seed)

    def at_times(frame, first, days):
        minutes = rng.integers(days * 1440, size=len(frame))
        time = pd.Timestamp(first) + pd.to_timedelta(minutes, unit="min")
        return frame.assign(time=time, place=rng.choice(PLACES[:3], len(frame)))

    items = pd.DataFrame({"item": [f"i{i}" for i in rng.permutation(18)], "persona": ["p0", "p1", "p2"] * 6})
    queries = pd.DataFrame({"query": [f"q{i}" for i in range(8)], "persona": [f"p{i % 3}" for i in range(8)]})
    queries = at_times(queries, "2024-01-10", 7)
    opens = pd.DataFrame({"item": rng.choice([*items["item"][:14], "unknown"], size=150)})
    return (
        queries.assign(weekday=queries["time"].dt.day_of_week),
        items.assign(app=rng.choice(APPS, size=18)),
        at_times(opens, "2023-11-20", 55),
    )


def signals_of(queries, items, opens, **text_scores) -> pd.DataFrame:
    pairs = candidate_pairs(queries, items, "persona")
    return signals(pairs, queries, items, opens, text_scores).set_index([pairs["query"], pairs["item"]])


def slow_pearson(a: list[float], b: list[float]) -> float:
    if len(set(a)) == 1 or len(set(b)) == 1:
        return 0.0
    return float(np.corrcoef(a, b)[0, 1])


def slow_signals(queries, items, opens) -> dict[tuple[str, str], dict[str, float]]:
    """The same definitions, one pair and one open at a time."""
    rows = {}
    for query in queries.itertuples():
        mine = [item for item in items.itertuples() if item.persona == query.persona]
        logs = {
            item.item: [o for o in opens.itertuples() if o.item == item.item and o.time < query.time] for item in mine
        }
        # Counted from the query, recency would tell the hour and weekday of the last open.
        latest = max((o.time for log in logs.values() for o in log), default=None)
        hour = query.time.hour + query.time.minute / 60
        for item in mine:
            log = logs[item.item]
            counts = dict.fromkeys((name for name in HABITUAL if name.endswith("_count")), 0.0)
            row = dict.fromkeys(NUMERICAL + HABITUAL, math.nan)
            row["app"], row["place"] = APPS.index(item.app), PLACES.index(query.place)
            row["day_part"], row["weekend"] = query.time.hour // 6, int(query.time.day_of_week >= 5)
            row["opens"] = len(log)
            for days in (1, 7, 28):
                row[f"opens_{days}d"] = sum((latest - o.time).total_seconds() <= days * 86400 for o in log)
            row["share_of_opens"] = len(log) / sum(len(other) for other in logs.values()) if latest else math.nan
            for o in log:
                apart = abs(o.time.hour + o.time.minute / 60 - hour)
                near = math.exp(-0.5 * (min(apart, 24 - apart) / HOUR_BANDWIDTH) ** 2)
                weekday = float(o.time.day_of_week == query.time.day_of_week)
                kind = float((o.time.day_of_week >= 5) == (query.time.day_of_week >= 5))
                place = float(o.place == query.place)
                age = (query.time - o.time).total_seconds() / 86400
                counts["hour_count"] += near
                counts["weekday_count"] += weekday
                counts["day_kind_count"] += kind
                counts["place_count"] += place
                counts["hour_place_count"] += near * place
                counts["hour_weekday_count"] += near * weekday
                counts["moment_count"] += near * place * kind
                counts["moment_recent_count"] += near * place * kind * 0.5 ** (age / HALF_LIFE)
            row |= counts
            if log:
                row |= {name.replace("_count", "_share"): count / len(log) for name, count in counts.items()}
                first, last = min(o.time for o in log), max(o.time for o in log)
                row["days_behind_latest_open"] = (latest - last).total_seconds() / 86400
                row["days_of_use"] = (last - first).total_seconds() / 86400
                profile = []
                for bin_ in range(24):
                    apart = abs(bin_ + 0.5 - hour)
                    profile.append(math.exp(-0.5 * (min(apart, 24 - apart) / HOUR_BANDWIDTH) ** 2))
                used = [sum(o.time.hour == bin_ for o in log) for bin_ in range(24)]
                row["hour_correlation"] = slow_pearson(used, profile)
                used = [sum(o.time.day_of_week == day for o in log) for day in range(7)]
                row["weekday_correlation"] = slow_pearson(used, [query.time.day_of_week == day for day in range(7)])
                used = [sum(o.place == place for o in log) for place in PLACES]
                row["place_correlation"] = slow_pearson(used, [query.place == place for place in PLACES])
            rows[query.query, item.item] = row
    return rows


@pytest.mark.parametrize("seed", range(2))
def test_signals_equal_a_slow_loop(seed):
    task = random_task(seed)
    fast = signals_of(*task)
    slow = pd.DataFrame.from_dict(slow_signals(*task), orient="index").loc[fast.index, fast.columns]
    np.testing.assert_allclose(fast.to_numpy(dtype=float), slow.to_numpy(dtype=float), rtol=1e-9, atol=1e-12)
    assert fast["days_of_use"].isna().any()
    assert (task[2]["time"] >= task[0]["time"].min()).any()


def test_ranks_within_a_query():
    group = np.array([5, 1, 5, 5, 1, 5])
    scores = np.array([0.2, 7.0, 0.9, 0.2, 8.0, 0.1])
    assert rank_within(group, scores).tolist() == [2, 2, 1, 2, 1, 4]
    assert rank_within(group[:0], scores[:0]).tolist() == []
