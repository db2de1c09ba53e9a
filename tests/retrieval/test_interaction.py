"""Query and document read together, or token by token: a tiny random encoder made on the spot."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lib.retrieval import interaction as module
from lib.retrieval.interaction import (
    CrossEncoder,
    Interaction,
    LateInteraction,
    first_results,
    late_scores,
    max_sim,
    rerank,
    train_interaction,
    training_groups,
)
from lib.retrieval.stores import candidate_pairs
from lib.workbook.checkpoints import Checkpoints
from lib.workbook.trained import RECORD, WEIGHTS, adapter_of
from tests.retrieval.conftest import WORDS

SETTINGS = Interaction(learning_rate=1e-2, head_rate=1e-1, batch_size=8, seed=1, checkpoint_every=5)
KINDS = ["cross", "late"]


@pytest.fixture
def groups():
    """Which of two words a document must hold depends on the query: no document is right by itself, and no word of
    the query is in it."""
    rng = np.random.default_rng(3)
    rows = []
    for i in range(96):
        asked, (right, wrong) = WORDS[i % 2], WORDS[2:4] if i % 2 else WORDS[3:1:-1]
        first, *others = rng.permutation(WORDS[4:])
        documents = [f"{others[n]} {wrong} {others[n + 6]}" for n in range(1 + i % 3)]
        rows.append((f"{asked} {first}", [f"{others[9]} {right} {others[10]} {others[11]}", *documents]))
    return pd.DataFrame(rows, columns=["query", "documents"])


def scores_of(kind, path, adapter, groups):
    """Of each group's documents, a list of arrays."""
    if kind == "cross":
        model = CrossEncoder.of(path, adapter)
        return [model.scores([row.query] * len(row.documents), row.documents) for row in groups.itertuples()]
    late = LateInteraction.of(path, adapter)
    pairs = groups["documents"].explode().reset_index().set_axis(["query_row", "text"], axis=1)
    pairs["item_row"] = np.arange(len(pairs))
    found = late_scores(pairs, late.tokens(groups["query"].tolist()), late.tokens(pairs["text"].tolist()))
    return [part.to_numpy() for _, part in pd.Series(found).groupby(pairs["query_row"])]


@pytest.mark.parametrize("kind", KINDS)
def test_training_lowers_the_loss_and_puts_right_documents_first(tiny, groups, tmp_path, kind):
    rows = pd.concat([groups] * (4 if kind == "late" else 8), ignore_index=True)
    record = train_interaction(tiny, rows, tmp_path / "a", replace(SETTINGS, kind=kind))
    losses = [loss for _, loss in record["curve"]]
    assert np.mean(losses[-5:]) < 0.3 * np.mean(losses[:5])
    assert record["rows"] == len(rows)
    assert len(record["head"]) == (16 if kind == "cross" else 0)
    found = scores_of(kind, tiny, adapter_of(tmp_path / "a", record), groups)
    assert np.mean([scores.argmax() == 0 for scores in found]) > 0.95
    assert [path.name for path in tmp_path.iterdir()] == ["a"], "neither checkpoints nor temporary folders stay"


@pytest.mark.parametrize("kind", KINDS)
def test_the_scores_are_those_that_training_sees(tiny, groups, tmp_path, kind):
    """At a rate of nearly nothing the first loss is that of the scores of the model that is read back."""
    few = groups.head(8)
    settings = replace(SETTINGS, kind=kind, learning_rate=1e-9, head_rate=1e-9)
    record = train_interaction(tiny, few, tmp_path / "a", settings)
    found = scores_of(kind, tiny, adapter_of(tmp_path / "a", record), few)
    losses = [np.log(np.exp(scores - scores[0]).sum()) for scores in found]
    assert np.mean(losses) == pytest.approx(record["curve"][0][1], abs=0.02)


@pytest.mark.parametrize("kind", KINDS)
def test_a_killed_run_goes_on_and_gives_the_same_weights(tiny, groups, tmp_path, monkeypatch, kind):
    settings = replace(SETTINGS, kind=kind)
    whole = train_interaction(tiny, groups, tmp_path / "whole", settings)
    save = Checkpoints.save

    def then_die(*arguments):
        save(*arguments)
        raise KeyboardInterrupt

    for _ in range(2):
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(Checkpoints, "save", then_die)
            train_interaction(tiny, groups, tmp_path / "cut", settings)
    losses, group_loss = [], module.group_loss
    monkeypatch.setattr(module, "group_loss", lambda *rest: losses.append(1) or group_loss(*rest))
    cut = train_interaction(tiny, groups, tmp_path / "cut", settings)
    assert len(losses) == 2, "of twelve steps ten were in the checkpoints"
    assert (tmp_path / "cut" / WEIGHTS).read_bytes() == (tmp_path / "whole" / WEIGHTS).read_bytes()
    assert (cut["curve"], cut["head"]) == (whole["curve"], whole["head"])
    assert train_interaction(tiny, groups, tmp_path / "cut", settings) == cut
    assert len(losses) == 2, "a finished run is not repeated"
    assert (tmp_path / "cut" / RECORD).exists()


def test_there_must_be_a_wrong_document(tiny, groups, tmp_path):
    for rows in (groups.head(0), groups.assign(documents=groups["documents"].str[:1])):
        with pytest.raises(ValueError, match="nothing to train on"):
            train_interaction(tiny, rows, tmp_path / "a", SETTINGS)
    with pytest.raises(ValueError, match="must be one of cross, late"):
        Interaction(kind="early")


def test_groups_hold_one_right_document_and_so_many_wrong_ones():
    queries = pd.DataFrame({"query": ["q2", "q1", "q3", "q4"], "text": ["two", "one", "three", "four"]})
    items = pd.DataFrame({"item": list("abcdef"), "text": list("ABCDEF")})
    qrels = pd.DataFrame([("q1", "a"), ("q1", "b"), ("q2", "c"), ("q3", "d"), ("q9", "f")], columns=["query", "item"])
    wrong = [("q1", "c"), ("q1", "d"), ("q1", "e"), ("q2", "a"), ("q4", "a"), ("q9", "a")]
    negatives = pd.DataFrame(wrong, columns=["query", "item"])
    groups = training_groups(queries, items, qrels, negatives, 2, seed=0)
    assert groups["query"].tolist() == ["two", "one"]  # q3 has no wrong document, q4 no right one
    assert groups["documents"][0] == ["C", "A"]
    right, *others = groups["documents"][1]
    assert right in "AB"
    assert len(set(others)) == 2
    assert set(others) < set("CDE")
    pd.testing.assert_frame_equal(
        groups, training_groups(queries, items[::-1], qrels[::-1], negatives[::-1], 2, seed=0)
    )
    assert training_groups(queries.head(0), items, qrels, negatives, 2, seed=0).empty


def test_max_sim_by_hand():
    query = np.array([[1.0, 0.0], [0.0, 1.0]])
    documents = np.array([[1.0, 0.0], [0.6, 0.8], [-1.0, 0.0]])
    assert max_sim(query, documents, np.array([0, 2])).tolist() == [1.8, -1.0 + 0.0]


def test_a_shortlist_is_put_in_order_and_the_rest_follows():
    run = pd.DataFrame({"query": ["q"] * 4 + ["p"] * 2, "item": [*"abcd", *"xy"], "rank": [1, 2, 3, 4, 1, 2]})
    queries = pd.DataFrame({"query": ["p", "q"], "text": ["of p", "of q"]})
    items = pd.DataFrame({"item": list("abcdxy"), "text": list("ABCDXY")})
    first = first_results(run, queries, items, 3)
    assert first["asked"].tolist() == ["of q"] * 3 + ["of p"] * 2
    assert first["text"].tolist() == list("ABCXY")
    ranked = rerank(run, first, [1.0, 5.0, 5.0, 2.0, 9.0])
    assert ranked["item"].tolist() == ["b", "c", "a", "d", "y", "x"]  # b before c, as before
    assert ranked["rank"].tolist() == [1, 2, 3, 4, 1, 2]
    assert ranked["score"].tolist() == [5, 5, 1, 0, 9, 2]
    with pytest.raises(ValueError, match="one finite score"):
        rerank(run, first, [1.0, np.nan, 2.0, 3.0, 4.0])
    assert rerank(run.head(0), first.head(0), []).empty


def test_nothing_is_read_of_nothing(tiny, groups, tmp_path):
    record = train_interaction(tiny, groups.head(8), tmp_path / "a", SETTINGS)
    assert CrossEncoder.of(tiny, adapter_of(Path(tmp_path / "a"), record)).scores([], []).shape == (0,)
    late = train_interaction(tiny, groups.head(8), tmp_path / "b", replace(SETTINGS, kind="late"))
    assert LateInteraction.of(tiny, adapter_of(tmp_path / "b", late)).tokens([]) == []
    nothing = pd.DataFrame({"query": [], "item": [], "persona": []})
    assert late_scores(candidate_pairs(nothing, nothing, "persona"), [], []).shape == (0,)


def test_scores_do_not_depend_on_the_company(tiny, groups, tmp_path):
    record = train_interaction(tiny, groups, tmp_path / "a", SETTINGS)
    model = CrossEncoder.of(tiny, adapter_of(tmp_path / "a", record))
    documents = groups["documents"].explode()
    asked = groups["query"][documents.index]
    together = model.scores(asked.tolist(), documents.tolist())
    alone = [model.scores([query], [text])[0] for query, text in zip(asked[:9], documents[:9], strict=True)]
    assert together[:9] == pytest.approx(alone, abs=1e-4)
