"""What notebook 01 says of the readings."""

from pathlib import Path

import pandas as pd
import pytest

from lib.assistant.pages import query_review as page
from lib.assistant.query_review import (
    FOLDER,
    Alternatives,
    alternatives,
    blind_answers,
    foils_caught,
    judgements,
    read_readings,
)

NONE_KNOWN = Alternatives(0, 0)

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def readings():
    return read_readings(sorted((ROOT / FOLDER).glob("reader_*.jsonl")))


@pytest.fixture(scope="module")
def gold(readings):
    """As if every label were what the first reader answered blind."""
    first = readings[readings["reader"] == "A"]
    return pd.DataFrame(
        {
            "query": first["query"],
            "kind": "meaning",
            "relevant": first["items"].map(lambda items: items[:1] or ["none"]),
            "apis": [[plan.split("(")[0]] for plan in first["plan"].str.split("\n").str[0]],
        }
    )


@pytest.fixture(scope="module")
def found(readings, gold):
    return blind_answers(readings, gold, pd.DataFrame({"query": [], "apis": []}))


def test_how_much_was_read(readings):
    assert page.read_sentence(readings[:0], readings[:0]) == "No query has been read yet."
    assert "are of another world" in page.read_sentence(readings, readings[:0])
    assert page.read_sentence(readings, readings) == (
        "2 readers read 240 evaluation queries; of 40 the proposal was wrong on purpose."
    )
    fewer = readings[readings["query"] != readings["query"].iloc[0]]
    assert "239 evaluation queries (1 more have been mended" in page.read_sentence(readings, fewer)


def test_table_has_a_row_a_question_with_both_readers_and_their_agreement(readings):
    table = page.judged_table(judgements(readings))
    assert len(table.frame) == 6
    assert list(table.frame)[1:] == ["A: yes, %", "B: yes, %", "both say the same, %", "Cohen's kappa"]
    assert "200 labels" in table.caption
    alone = page.judged_table(judgements(readings[readings["reader"] == "A"]))
    assert list(alone.frame)[1:] == ["A: yes, %"]


def test_blind_table_is_by_kind(found):
    table = page.blind_table(found)
    assert table.frame["queries"].tolist() == ["all", "meaning"]
    assert table.frame["n"].tolist() == [240, 240]
    assert table.frame["A: first item relevant, %"].iloc[0] > table.frame["B: first item relevant, %"].iloc[0]


def test_the_sentence_is_of_the_numbers(readings, found):
    text = page.said(judgements(readings), foils_caught(readings), found, Alternatives(25, 21))
    labels = readings[readings["proposed"] == "label"]
    clear = labels.groupby("reader")["clear"].agg(lambda said: 100 * (said == "yes").mean())
    assert f"call {clear.min():.0f} to {clear.max():.0f}% of the queries clear" in text
    doubted = readings.assign(clear="no")
    assert "call 0% of the queries clear" in page.said(judgements(doubted), foils_caught(doubted), found, NONE_KNOWN)
    fooled = readings.assign(api_right="yes", arguments_right="yes", items_right="yes")
    assert "the readers refused 0 [0, 9]%" in page.said(judgements(fooled), foils_caught(fooled), found, NONE_KNOWN)
    assert "refused" not in page.said(judgements(labels), foils_caught(labels), found, NONE_KNOWN)


def test_queries_with_another_call_are_counted(readings, found):
    """25 labels of which both readers said so; a foil, or what one reader alone said, is none of them."""
    none = pd.DataFrame({"query": []})
    assert alternatives(readings, none) == (25, 0)
    both = readings[(readings["proposed"] == "label") & (readings["another"] == "yes")]
    both = both[both.duplicated("query")]
    assert alternatives(readings, both[["query"]].iloc[:7]) == (25, 7)
    assert alternatives(readings[readings["reader"] == "A"], both) == (0, 0)
    text = page.said(judgements(readings), foils_caught(readings), found, Alternatives(25, 7))
    assert "Of the 25 queries for which every reader knows one, 7 have another plan that counts as right" in text
    assert "every reader" not in page.said(judgements(readings), foils_caught(readings), found, NONE_KNOWN)
