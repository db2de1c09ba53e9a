"""What readers are shown and what their answers are worth, on a small world."""

import json
from pathlib import Path

import pandas as pd
import pytest

from lib.assistant.plans import api_names, parse_plan
from lib.assistant.query_review import (
    FOILS,
    FOLDER,
    N_FOILS,
    N_LABELS,
    Reading,
    blind_answers,
    foils_caught,
    judgements,
    label_hashes,
    of_this_world,
    read_readings,
    sheet_lines,
    sheets,
)
from lib.assistant.world import frames
from lib.workbook.inputs import InputError

ROOT = Path(__file__).resolve().parents[2]
YES = {"items_right": "yes", "api_right": "yes", "arguments_right": "yes", "another": "no", "clear": "yes"}


@pytest.fixture(scope="module")
def tables(make_world):
    return frames(make_world(n_personas=150, n_training_queries=400, n_evaluation_queries=300))


@pytest.fixture(scope="module")
def asked(tables):
    return sheets(tables)


@pytest.fixture(scope="module")
def gold(tables):
    return tables["gold"].set_index("query")


def reading(query, reader="A", proposed="label", **fields):
    given = {"understood": "yes", "items": ["i1"], "plan": "default()", **YES, **fields}
    return Reading(reader=reader, query=query, label="h", proposed=proposed, **given).model_dump()


# ---------------------------------------------------------------- sheets


def test_a_sample_of_evaluation_queries_with_foils_between(tables, asked):
    side = tables["queries"].set_index("query")["split"]
    assert len({sheet.query for sheet in asked}) == len(asked) == N_LABELS + N_FOILS
    assert all(side[sheet.query] == "evaluation" for sheet in asked)
    kinds = pd.Series([sheet.proposed for sheet in asked])
    assert kinds.value_counts().to_dict() == {"label": N_LABELS, **dict.fromkeys(FOILS, N_FOILS // len(FOILS))}
    assert (kinds != "label")[:120].any()
    assert (kinds != "label")[120:].any()


def test_labels_are_proposed_as_they_are_and_foils_are_wrong_as_they_say(asked, gold):
    for sheet in asked:
        label, (items, plan) = gold.loc[sheet.query], sheet.proposal
        same_items, same_plan = set(items) == set(label["relevant"]), plan == label["plan"]
        if sheet.proposed in ("label", "items"):
            assert same_plan
            assert same_items == (sheet.proposed == "label")
        elif sheet.proposed == "other":
            assert not same_items
        else:
            assert same_items
            assert not same_plan
            assert (api_names(plan) == api_names(label["plan"])) == (sheet.proposed == "argument")
        assert parse_plan(plan)


def test_readers_see_what_a_method_sees(tables, asked):
    ask, judge = sheet_lines(asked, tables)
    lines = [json.loads(line) for line in ask]
    assert [line["query"] for line in lines] == [json.loads(line)["query"] for line in judge]
    owned = tables["items"].groupby("persona")["item"].agg(sorted)
    persona = tables["queries"].set_index("query")["persona"]
    assert set(lines[0]) == {"query", "text", "time", "place", "contacts", "items"}
    for line in lines:
        kept = [item["item"] for item in line["items"]]
        assert sorted(kept) == owned[persona[line["query"]]]
        assert set(line["items"][0]) == {"item", "app", "shown", "text", "use"}
    assert set(json.loads(judge[0])) == {"query", "text", "items", "plan"}, "not whether it is a foil"


def test_use_is_told_up_to_the_query(tables, asked):
    late = tables["opens"].assign(time=pd.Timestamp("2040-01-01"))
    ask, _ = sheet_lines(asked[:1], {**tables, "opens": late})
    assert {item["use"] for item in json.loads(ask[0])["items"]} == {"never opened"}


# ---------------------------------------------------------------- readings


def test_a_reading_counts_while_query_and_label_are_the_same(tables):
    hashes = label_hashes(tables["queries"], tables["gold"])
    first, second = hashes.index[:2]
    readings = pd.DataFrame([reading(first) | {"label": hashes[first]}, reading(second) | {"label": "another"}])
    assert of_this_world(readings, tables["queries"], tables["gold"])["query"].tolist() == [first]
    mended = tables["gold"].assign(plan="default()")
    assert not len(of_this_world(readings, tables["queries"], mended))
    reworded = tables["queries"].assign(text="something else")
    assert not len(of_this_world(readings, reworded, tables["gold"]))


def test_agreement_is_cohens(tables):
    said = [("q1", "yes", "yes"), ("q2", "yes", "no"), ("q3", "no", "no"), ("q4", "yes", "yes")]
    readings = pd.DataFrame([reading(q, r, clear=v) for q, *both in said for r, v in zip("AB", both, strict=True)])
    rows = judgements(readings).set_index(["question", "reader"])
    assert rows.loc[("clear", "A"), "percent"] == 75
    assert rows.loc[("clear", "agreement"), "percent"] == 75
    assert rows.loc[("clear", "agreement"), "kappa"] == pytest.approx((0.75 - 0.5) / 0.5)  # by chance 3/4·2/4 + 1/4·2/4
    assert rows.loc[("clear", "agreement"), "n"] == 4
    assert pd.isna(rows.loc[("items_right", "agreement"), "kappa"]), "both always say yes"
    foil = pd.DataFrame([reading("q5", "A", "api", clear="no"), reading("q5", "B", "api", clear="no")])
    assert judgements(pd.concat([readings, foil])).equals(judgements(readings)), "foils are no labels"


def test_foils_are_refused_at_the_question_about_them():
    rows = [
        reading("q1", proposed="api", api_right="no"),
        reading("q2", proposed="api", items_right="no"),
        reading("q3", proposed="items", items_right="partly"),
        reading("q4", proposed="argument", arguments_right="yes"),
    ]
    caught = foils_caught(pd.DataFrame(rows)).set_index("proposed")["percent"]
    assert caught.to_dict() == {"api": 50, "items": 100, "argument": 0}


def test_blind_answers_are_scored_as_a_methods(tables):
    gold, others = tables["gold"], tables["other_plans"]
    one, two = gold.iloc[0], gold[~gold["query"].isin(others["query"])].iloc[1]
    rows = [
        reading(one["query"], items=[one["relevant"][0]], plan=one["plan"]),
        reading(two["query"], items=["elsewhere", two["relevant"][0]], plan='unknown(x="1")'),
    ]
    found = blind_answers(pd.DataFrame(rows), gold, others).set_index(["kind", "found"])["percent"]
    assert found["all", "first item"] == 50
    assert found["all", "call"] == 50
    served = others.iloc[0]
    rows = [reading(served["query"], plan=served["plan"])]
    assert (
        blind_answers(pd.DataFrame(rows), gold, others).set_index(["kind", "found"]).loc[("all", "call"), "percent"]
        == 100
    )


@pytest.mark.parametrize(("name", "column", "lacking"), [("gold", "need", "other"), ("toolbox", "api", "api")])
def test_a_world_with_nothing_else_to_propose_proposes_labels(tables, asked, name, column, lacking):
    """One need, or one API; the other sheets stay as they are."""
    alone = tables[name].assign(need="one") if column == "need" else tables[name].head(1)
    made = sheets({**tables, name: alone})
    assert [sheet.proposed for sheet in made] == ["label" if a.proposed == lacking else a.proposed for a in asked]


def test_wrong_lines_are_named(tmp_path):
    path = tmp_path / "a.jsonl"
    good = json.dumps(reading("q1"))
    path.write_text(good + "\n" + good.replace('"clear": "yes"', '"clear": "maybe"') + "\n")
    with pytest.raises(InputError, match=r"line 2: clear"):
        read_readings([path])
    path.write_text(good + "\n" + good + "\n")
    with pytest.raises(InputError, match="q1 twice"):
        read_readings([path])
    assert read_readings([]).empty


def test_the_readings_that_come_with_the_project_are_whole():
    readings = read_readings(sorted((ROOT / FOLDER).glob("reader_*.jsonl")))
    per_reader = readings.groupby("reader")["query"].agg(frozenset)
    assert len(per_reader) == 2
    assert len(set(per_reader)) == 1, "both read the same queries"
    assert readings["proposed"].value_counts().to_dict() == {
        "label": 2 * N_LABELS,
        **dict.fromkeys(FOILS, 2 * N_FOILS // len(FOILS)),
    }
