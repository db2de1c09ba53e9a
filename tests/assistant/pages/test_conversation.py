import numpy as np
import pandas as pd

from lib.assistant.conversation import ELSEWHERE, KINDS, KNOWN, METHODS, TRAINED, UNSEEN
from lib.assistant.conversation_controls import REFERENCES
from lib.assistant.pages.conversation import (
    conversation_in_words,
    conversation_table,
    links_in_words,
    links_table,
    training_table,
)
from lib.workbook.methods import label

FAMILIES = f"one family of {len(KINDS) * (len(METHODS) - 1)}", f"one of {len(KINDS) * len(TRAINED) * 2}"
PHRASINGS = pd.DataFrame(
    {"needs": [9, 3, 2], "phrasings": [12, 6, 5], "shared": [1, 4, 5], "asked_in_shared": [8.3, 66.7, 100.0]},
    index=list(KINDS),
)

MET = pd.DataFrame({"needs": [100.0, 60.0, 0.0], "phrasings": [55.2, 0.0, 0.0]}, index=list(KINDS))


def rows(**best):
    """Every method finds 20%, but for those that a kind names with what they find; all differences are settled."""
    table = pd.DataFrame([(kind, method) for kind in KINDS for method in METHODS], columns=["kind", "method"])
    table["value"] = [best.get(row.kind.replace("-", "_"), {}).get(row.method, 20.0) for row in table.itertuples()]
    table["gain"] = table["value"] - 20
    ends = {"ci_low": table["value"] - 5, "ci_high": table["value"] + 5, "gain_low": table["gain"] - 9}
    p = np.where(table["method"] == "semantic", np.nan, 0.001)
    return table.assign(**ends, gain_high=table["gain"] + 9, p_holm=p, metric="recall@3", n=table["kind"].map(len))


def training(found, **changed):
    """What `lib.assistant.conversation.weigh_training` says of `rows`: against known needs and against recency."""
    value = found.set_index(["kind", "method"])["value"]
    names = [(kind, name, against) for kind in KINDS for name in TRAINED for against in (KNOWN, "recency")]
    table = pd.DataFrame(names, columns=["kind", "method", "against"])
    table["value"] = [value[row.kind, row.method + UNSEEN] for row in table.itertuples()]
    table["other"] = [
        value[row.kind, row.method if row.against == KNOWN else row.against] for row in table.itertuples()
    ]
    table["difference"] = table["value"] - table["other"]
    ends = {"ci_low": table["difference"] - 4, "ci_high": table["difference"] + 4}
    return table.assign(**ends, p_holm=0.001, n=table["kind"].map(len)).assign(**changed)


def words(found, **changed):
    return conversation_in_words(found, training(found, **changed), MET, 3)


def test_the_table_has_a_column_a_kind_and_a_row_a_method():
    table = conversation_table(rows(), PHRASINGS, MET, 3)
    assert list(table.frame) == ["method", *KINDS]
    assert table.frame["method"].tolist() == [label(method) for method in METHODS]
    assert table.frame.loc[0, "hop"] == "20.0 [15.0, 25.0]"
    assert "5 plain, 9 follow-up, 3 hop" in table.caption
    assert (
        "the hop queries are about 2 needs in 5 phrasings, 5 of which more than one persona uses, in 100% of these"
    ) in table.caption
    trained = "fine-tuned search and late interaction"
    shares = "of plain queries 100% and 55%, of follow-ups 60% and 0%, of hops 0% and 0%"
    assert f"and asked here as they are: {trained}. " in table.caption
    assert f"in the phrasing, {shares}." in table.caption


def without_trained_before(found):
    return found[~found["method"].isin(ELSEWHERE)].reset_index(drop=True)


def test_where_nothing_was_trained_in_the_main_world_nothing_is_said_of_it():
    found = without_trained_before(rows(hop={"finetuned": 90.0}))
    table = conversation_table(found, PHRASINGS, MET, 3)
    assert "main world" not in table.caption + words(found)
    assert len(table.frame) == len(METHODS) - len(ELSEWHERE)


def test_what_was_trained_in_the_main_world_is_the_best_only_where_it_has_not_met_the_needs():
    """Follow-ups are about needs that it met in plain queries, hops are not."""
    text = words(
        rows(follow_up={"finetuned_history": 90.0, "finetuned": 30.0, "semantic": 50.0}, hop={"late_interaction": 80.0})
    )
    follow_ups, hops = text.split("On hops")
    assert (
        "On follow-ups, semantic search finds 50.0%, as much as any method that has not met their needs" in follow_ups
    )
    assert (
        f"Of the searches trained in the main world, {label('finetuned_history')} finds the most, 90.0% (without it "
        "30.0%); of these queries, 60% are about needs and 0% in phrasings that it was trained on."
    ) in follow_ups
    assert f"of methods that have not met their needs, {label('late_interaction')} finds the most, 80.0%" in hops
    assert f"{label('late_interaction')} finds the most, 80.0%; of these queries, 0% are about needs" in hops


def test_the_table_of_training_has_a_row_a_trained_method_and_kind():
    table = training_table(training(rows(hop={"lambdamart": 50.0})), 3).frame
    assert len(table) == len(KINDS) * len(TRAINED)
    row = table[(table["queries"] == "hops") & (table["method"] == label("lambdamart"))].iloc[0]
    assert row.tolist()[2:] == [
        "50.0",
        "20.0",
        "−30.0 [−34.0, −26.0]",
        f"{label('recency')}, 20.0",
        "0.0 [−4.0, 4.0]",
    ]


def test_the_sentence_follows_the_numbers():
    text = words(rows(follow_up={"semantic_history": 50.0}, hop={f"lambdamart_2{UNSEEN}": 50.0}))
    assert text.startswith("Recall@3 of semantic search is 20.0% on plain queries. On follow-ups")
    assert f"{label('semantic_history')} finds the most, 50.0%: 30.0 [21.0, 39.0] points more" in text
    ours = f"of methods that have not met their needs, {label('lambdamart_2')} finds the most, 50.0%"
    assert f"On hops, semantic search finds 20.0%; {ours}" in text
    assert f"without training, {label('recency')}, finds 20.0%: training adds 30.0 [26.0, 34.0] points" in text
    assert "not settled" not in text
    assert "(without the plan 20.0%)" in text
    assert "has met the very needs" not in text
    assert all(each in text for each in FAMILIES)


def test_a_method_that_leads_where_it_has_met_the_needs_is_not_called_the_best():
    """The winner is of new needs; what it finds of known ones stands beside, as what it is."""
    found = rows(follow_up={"semantic_tuned_history": 90.0, "semantic_history": 60.0})
    text = words(found)
    assert f"of methods that have not met their needs, {label('semantic_history')} finds the most, 60.0%" in text
    assert (
        f"Where it has met the very needs with other people, {label('semantic_tuned_history')} finds 90.0%; of needs "
        "unseen 20.0%, a change of −70.0 [−74.0, −66.0] points."
    ) in text


def test_the_sentence_says_where_nothing_helps_or_is_sure():
    nothing = rows(follow_up={"semantic": 50.0}, hop={"semantic": 50.0})
    assert words(nothing).count("as much as any method that has not met their needs") == 2
    wide, likely = (rows(hop={"bm25t": 50.0}) for _ in range(2))
    wide["gain_low"] -= 30
    likely["p_holm"] = 0.2
    for unsure in (wide, likely):
        assert "points more, which is not settled" in words(unsure)
    found = rows(hop={f"lambdamart{UNSEEN}": 50.0, "lambdamart": 60.0})
    assert words(found, p_holm=0.2).count("points, which is not settled") == 2
    assert "not settled" not in words(found).split("On hops")[1]


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
    assert f"On hops, {label('lambdamart_2')} finds 50.0%; with a link cut it finds 20.0%, 40% of that (" in text
    assert text.count("length of text alone finds 20.0% at most") == 2
    assert "not settled" not in text
    cut.loc[0, "p_holm"] = 0.3
    assert links_in_words(cut).count("(item between hidden; not settled)") == 1
