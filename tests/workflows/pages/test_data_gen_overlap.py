"""What notebook 01 shows and says of what its tests share with training."""

import pandas as pd

from lib.workflows.pages import data_gen_overlap as page

# ---- the nearest training request


def nearest():
    rows = [
        ("c", "test", "a", 0.9, 1.0, True),
        ("e", "test", "b", 0.7, 0.5, False),
        ("f", "test", "b", 0.42, 0.0, False),
        ("d", "unseen", "a", 0.8, 0.5, False),
        ("g", "test_same", "a", 0.95, 1.0, False),
    ]
    return pd.DataFrame(rows, columns=["pair", "split", "nearest", "cosine", "similarity", "same_flow"])


def test_nearest_requests_with_intervals():
    table = page.nearest_table(nearest(), 2, "some encoder", seed=7)
    assert table.frame["pairs"].tolist() == ["test", "unseen", "test_same"]
    first = table.frame.iloc[0]
    assert first[["pairs", "n"]].tolist() == ["test", 3]
    assert first["cosine, median (10% to 90%)"] == "0.70 (0.48 to 0.86)"
    assert first["similarity of its flow"].startswith("0.50 [0.")
    assert first["same flow, %"] == "33.3 [6.1, 79.2]"
    assert "of 2; encoder some encoder" in table.caption
