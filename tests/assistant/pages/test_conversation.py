import numpy as np
import pandas as pd

from lib.assistant.conversation import KINDS, METHODS
from lib.assistant.conversation_controls import REFERENCES
from lib.assistant.pages.conversation import conversation_in_words, conversation_table, links_in_words, links_table
from lib.workbook.methods import label


def rows(**best):
    """Every method finds 20%, but for the one that a kind names, which finds 50%, settled."""
    table = pd.DataFrame([(kind, method) for kind in KINDS for method in METHODS], columns=["kind", "method"])
    table["value"] = [
        50.0 if best.get(row.kind.replace("-", "_")) == row.method else 20.0 for row in table.itertuples()
    ]
    table["gain"] = table["value"] - 20
    ends = {"ci_low": table["value"] - 5, "ci_high": table["value"] + 5, "gain_low": table["gain"] - 9}
    p = np.where(table["method"] == "semantic", np.nan, 0.001)
    return table.assign(**ends, gain_high=table["gain"] + 9, p_holm=p, metric="recall@3", n=table["kind"].map(len))


def test_the_table_has_a_column_a_kind_and_a_row_a_method():
    table = conversation_table(rows(), 3)
    assert list(table.frame) == ["method", *KINDS]
    assert table.frame["method"].tolist() == [label(method) for method in METHODS]
    assert table.frame.loc[0, "hop"] == "20.0 [15.0, 25.0]"
    assert "5 plain, 9 follow-up, 3 hop" in table.caption


def test_the_sentence_follows_the_numbers():
    text = conversation_in_words(rows(follow_up="semantic_history", hop="lambdamart_2"), 3)
    assert text.startswith("Recall@3 of semantic search is 20.0% on plain queries; on follow-ups")
    assert f"{label('semantic_history')} the most, 50.0%: 30.0 [21.0, 39.0] points more" in text
    assert f"{label('lambdamart_2')} the most" in text
    assert "not settled" not in text
    assert "(without the plan 20.0%)" in text
    assert f"one family of {len(KINDS) * (len(METHODS) - 1)}" in text


def test_the_sentence_says_where_nothing_helps_or_is_sure():
    assert conversation_in_words(rows(follow_up="semantic", hop="semantic"), 3).count("as much as any method") == 2
    wide, likely = rows(hop="bm25t"), rows(hop="bm25t")
    wide["gain_low"] -= 30
    likely["p_holm"] = 0.2
    for unsure in (wide, likely):
        assert "points more, which is not settled" in conversation_in_words(unsure, 3)


def links():
    """Each control finds 30 points less than the 50% of its method, settled."""
    pairs = [(kind, name, method) for kind, (method, names) in REFERENCES.items() for name in names]
    table = pd.DataFrame(pairs, columns=["kind", "control", "method"])
    values = {"value": 20.0, "ci_low": 15.0, "ci_high": 25.0, "n": 9, "whole": 50.0, "p_holm": 0.001}
    ends = {"difference": -30.0, "difference_low": -39.0, "difference_high": -21.0, "metric": "recall@3"}
    return table.assign(**values, **ends)


def test_the_table_of_links_has_a_row_a_control():
    table = links_table(links(), 3)
    assert len(table.frame) == sum(len(names) for _, names in REFERENCES.values())
    assert table.frame.loc[0, ["Recall@3", "its own", "difference"]].tolist() == [
        "20.0 [15.0, 25.0]",
        "50.0",
        "−30.0 [−39.0, −21.0]",
    ]


def test_the_sentence_of_links_says_what_is_kept_and_what_is_not_settled():
    cut = links()
    text = links_in_words(cut)
    assert f"On hops, {label('lambdamart_2')} finds 50.0%; with a link cut it finds 20.0% (item between hidden)" in text
    assert text.count("length of text alone finds 20.0% at most") == 2
    assert "not settled" not in text
    cut.loc[0, "p_holm"] = 0.3
    assert links_in_words(cut).count("(item between hidden; not settled)") == 1
