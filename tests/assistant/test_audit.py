"""A sceptic's questions, on tables small enough to answer them by hand."""

import hashlib
import json

import numpy as np
import pandas as pd
import pytest

from lib.assistant import audit


@pytest.mark.parametrize(
    ("text", "call", "source"),
    [
        ("put Oat-milk on it", {"append_to_note": {"text": ["oat milk"]}}, "query"),
        ("put boat milkshake on it", {"append_to_note": {"text": ["oat milk"]}}, "items"),
        ("call Tom", {"call_contact": {"contact": ["Tom", "Tom Baker"]}}, "query"),
        ("what's on today?", {"list_events": {"date": ["2023-12-14"]}}, "none"),
        ("what's on tomorrow?", {"list_events": {"date": ["2023-12-15"]}}, "query"),
        ("call Tom and her", {"start_conference_call": {"contacts": [["Tom", "Ana"]]}}, "items"),
        ("decline the gala", {"answer_invitation": {"title": ["gala"], "accept": [False]}}, "query"),
    ],
)
def test_where_arguments_stand(text, call, source):
    queries = pd.DataFrame({"query": ["q"], "text": [text], "time": [pd.Timestamp("2023-12-14 15:10")]})
    gold = pd.DataFrame({"query": ["q"], "answers": [json.dumps([call])]})
    assert audit.argument_sources(queries, gold)["q"] == source


def test_what_both_sides_have_is_counted(small_tables):
    queries = small_tables["queries"].copy()
    flipped = queries["query"].isin(queries["query"][::2])
    queries["split"] = queries["split"].where(~flipped, "evaluation")
    found = audit.shared_values(small_tables | {"queries": queries}).set_index("what")
    both = queries.groupby("persona")["split"].nunique() == 2
    assert found.loc["personas", "shared"] == both.sum() > 0
    assert found.loc["query texts", "shared"] == 0


def reading(query, reader="A", proposed="label", label="h", **answers):
    given = dict.fromkeys(audit.QUESTIONS, "yes") | answers
    return {"reader": reader, "query": query, "label": label, "proposed": proposed, **given}


def test_agreement_is_cohens_over_what_is_asked_as_it_was_read(small_tables):
    queries, gold = small_tables["queries"], small_tables["gold"]
    rows = queries.merge(gold, on="query")[["query", "text", "time", "place", "relevant", "plan"]].head(7)
    hashes = {}
    for query, text, time, place, relevant, plan in rows.itertuples(index=False):
        label = json.dumps([text, str(time.isoformat()), place, sorted(relevant), plan])
        hashes[query] = hashlib.sha256(label.encode()).hexdigest()[:16]
    names = list(hashes)
    said = zip(names, [("yes", "yes"), ("yes", "no"), ("no", "no"), ("yes", "yes")], strict=False)
    rows = [
        reading(query, reader, label=hashes[query], clear=answer)
        for query, both in said
        for reader, answer in zip("AB", both, strict=True)
    ]
    rows += [reading(names[5], reader, "api", hashes[names[5]], clear="no") for reader in "AB"]  # a foil
    rows += [reading(names[6], reader, clear="no") for reader in "AB"]  # of another label
    found = audit.agreement(pd.DataFrame(rows), queries, gold).set_index("question")
    clear = found.loc[audit.QUESTIONS["clear"]]
    assert clear.tolist() == [75, 50, 75, pytest.approx((0.75 - 0.5) / 0.5), 4]  # by chance 3/4·2/4 + 1/4·2/4
    assert np.isnan(found.loc[audit.QUESTIONS["items_right"], "kappa"]), "both always say yes"
    assert audit.agreement(pd.DataFrame(rows), queries, gold.assign(plan="another()")).empty
