"""A sceptic's questions, on tables small enough to answer them by hand."""

import json

import numpy as np
import pandas as pd
import pytest

from lib.assistant import audit
from lib.assistant.world import frames


@pytest.fixture(scope="module")
def small(make_world):
    return frames(make_world(seed=5, n_personas=60, n_training_queries=300, n_evaluation_queries=60))


@pytest.mark.parametrize(
    ("text", "call", "source"),
    [
        ("put Oat-milk on it", {"append_to_note": {"text": ["oat milk"]}}, "query"),
        ("put boat milkshake on it", {"append_to_note": {"text": ["oat milk"]}}, "items"),
        ("put milk on my list", {"append_to_note": {"title": ["Groceries"], "text": ["milk"]}}, "items"),
        ("call Tom", {"call_contact": {"contact": ["Tom", "Tom Baker"]}}, "query"),
        ("call him", {"call_contact": {"contact": ["Tom", "Tom Baker"]}}, "items"),
        ("stop in 30 minutes", {"set_sleep_timer": {"minutes": [30]}}, "query"),
        ("what's on today?", {"list_events": {"date": ["2023-12-14"]}}, "none"),
        ("what's on tomorrow?", {"list_events": {"date": ["2023-12-15"]}}, "query"),
        ("what's on next?", {"list_events": {"date": ["2023-12-15"]}}, "items"),
        ("take a photo", {"default": {}}, "none"),
        ("call Tom and Ana", {"start_conference_call": {"contacts": [["Tom", "Ana"]]}}, "query"),
        ("call Tom and her", {"start_conference_call": {"contacts": [["Tom", "Ana"]]}}, "items"),
        ("decline the gala", {"answer_invitation": {"title": ["gala"], "accept": [False]}}, "query"),
    ],
)
def test_where_arguments_stand(text, call, source):
    queries = pd.DataFrame({"query": ["q"], "text": [text], "time": [pd.Timestamp("2023-12-14 15:10")]})
    gold = pd.DataFrame({"query": ["q"], "answers": [json.dumps([call])]})
    assert audit.argument_sources(queries, gold)["q"] == source


def test_a_simulated_world_keeps_its_sides_apart_and_a_spoilt_one_is_named(small):
    assert audit.shared_values(small, apart=True).set_index("what").loc["needs asked for", "shared"] > 10
    queries = small["queries"].copy()
    flipped = queries["query"].isin(queries["query"][::2])
    queries["split"] = queries["split"].where(~flipped, "evaluation")
    with pytest.raises(ValueError, match="share personas"):
        audit.shared_values(small | {"queries": queries}, apart=True)
    found = audit.shared_values(small | {"queries": queries}).set_index("what")
    both = queries.groupby("persona")["split"].nunique() == 2
    assert found.loc["personas", "shared"] == both.sum() > 0


def reading(query, reader="A", proposed="label", label="h", **answers):
    given = dict.fromkeys(audit.QUESTIONS, "yes") | answers
    return {"reader": reader, "query": query, "label": label, "proposed": proposed, **given}


def test_agreement_is_cohens_over_what_is_asked_as_it_was_read(small):
    queries, gold = small["queries"], small["gold"]
    hashes = audit.label_hashes(queries, gold)
    said = zip(hashes.index, [("yes", "yes"), ("yes", "no"), ("no", "no"), ("yes", "yes")], strict=False)
    rows = [
        reading(query, reader, label=hashes[query], clear=answer)
        for query, both in said
        for reader, answer in zip("AB", both, strict=True)
    ]
    rows += [reading(hashes.index[5], reader, "api", hashes.iloc[5], clear="no") for reader in "AB"]  # a foil
    rows += [reading(hashes.index[6], reader, clear="no") for reader in "AB"]  # of another label
    found = audit.agreement(pd.DataFrame(rows), queries, gold).set_index("question")
    clear = found.loc[audit.QUESTIONS["clear"]]
    assert clear.tolist() == [75, 50, 75, pytest.approx((0.75 - 0.5) / 0.5), 4]  # by chance 3/4·2/4 + 1/4·2/4
    assert np.isnan(found.loc[audit.QUESTIONS["items_right"], "kappa"]), "both always say yes"
    assert audit.agreement(pd.DataFrame(rows), queries, gold.assign(plan="another()")).empty
