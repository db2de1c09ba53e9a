"""What notebook 01 shows and says of personas, queries and items, for each thing that it can say."""

from datetime import datetime
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from lib.assistant.leaks import BY_DUE_TIME, BY_WORD, check_split
from lib.assistant.pages import data_gen as page
from lib.assistant.schemas import APPS, Apps, Persona


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


def sceptic(left=1.0, own=2.8, others=1.3, soon=80.0):
    rows = [("H(API), bits", 4.0, np.nan), ("H(API | need), bits", left, np.nan), (BY_DUE_TIME, soon, 10.0)]
    rows += [] if np.isnan(own) else [(BY_WORD["meaning"], own, others)]
    return pd.DataFrame(rows, columns=["question", "here", "by chance"])


def world(n_personas=2, n_apis=3):
    return SimpleNamespace(personas=[None] * n_personas, toolbox=[None] * n_apis)


def items_of(counts):
    """Items of personas `p0`, `p1` …, each as many in an app as `counts` says."""
    rows = [(f"p{i}", app) for i in range(2) for app, count in counts.items() for _ in range(count)]
    return pd.DataFrame(rows, columns=["persona", "app"])


def persona(**more):
    fields = {"id": "p", "name": "Ana", "age": 30, "profession": "Baker", "city": "Sandmere", "hobbies": ["Chess"]}
    return Persona(**fields | {"traits": ["car"], "today": datetime(2023, 12, 10, 6), "apps": Apps()} | more)


def test_sizes_beside_the_published_ones():
    tables = {
        "items": items_of({"mail": 3}),
        "toolbox": pd.DataFrame({"app": ["mail", "mail", "notes"]}),
        "queries": pd.DataFrame({"split": ["training", "training", "evaluation"]}),
    }
    quantities = [
        "personas",
        "APIs",
        "training queries",
        "mail items per persona",
        "notes items per persona",
        "notes APIs",
    ]
    published = pd.DataFrame({"quantity": quantities, "published": [4, 3, 2, 2, 2, 4]})
    dataset = page.dataset(published, world(), tables)
    assert dataset["ours"].tolist() == [2, 3, 2, 3, 0, 1]
    table = page.sizes_table(dataset, 2, "smoke")
    assert table.frame["difference, %"].tolist() == [-50, 0, 0, 50, -100, -75]
    assert "profile smoke" in table.caption
    assert "over 2 personas" in table.caption


def test_items_per_app_says_how_far_the_means_are():
    drawing = page.items_per_app(items_of({"google": 6, "mail": 2}))
    assert drawing.data.set_index("app").loc["google", ["mean", "published"]].tolist() == [6, 9.57]
    assert set(drawing.data["app"]) == set(APPS)


# ---- which world


def shares(here, planned):
    knobs = ["argument_source"] * 3 + ["api_source"] * 2
    values = ["query", "items", "none", "need", "place"]
    return pd.DataFrame({"knob": knobs, "value": values, "here": here, "planned": planned})


def test_shares_are_told_beside_the_planned_ones():
    some = shares([38.0, 42, 20, 50, 50], [40.0, 40, 20, 50, 50])
    table = page.shares_table(some, "mixed", 1234)
    assert table.frame["difference, points"].tolist() == [-2, 2, 0, 0, 0]
    assert "world mixed, 1,234 queries" in table.caption


def test_shares_of_a_world_of_ones_own():
    own = shares([10.0, 80, 10, np.nan, np.nan], np.nan)
    table = page.shares_table(own, "", 20)
    assert list(table.frame) == ["queries", "here, %"]
    assert len(table.frame) == 3
    assert "world" not in table.caption


# ---- one persona


def test_the_shown_persona_is_the_first_who_asks():
    people = [persona(id=name) for name in ("a", "b", "c")]
    assert page.shown_persona(people, pd.DataFrame({"persona": ["c", "b"]})).id == "b"


def test_a_personas_items_with_their_usage():
    items = pd.DataFrame(
        [("p", "i1", "notes", "Dough"), ("p", "i2", "mail", "Offer"), ("q", "i3", "mail", "Other")],
        columns=["persona", "item", "app", "text"],
    )
    times = pd.to_datetime(["2023-12-01 08:00", "2023-12-02 09:30", "2023-12-03 10:00"])
    opens = pd.DataFrame({"item": ["i1", "i1", "i3"], "time": times, "place": ["home", "home", "work"]})
    frame = page.persona_items(items, opens, "p", 7).frame
    assert frame["app"].tolist() == ["mail", "notes"]
    assert frame["text"].tolist() == ["Offer", "Dough"]
    assert frame.iloc[1][["opens", "last", "mostly"]].tolist() == [2, "Sat 02 Dec 09:30", "home"]
    assert frame.iloc[0][["opens", "last", "mostly"]].isna().all()
    many = pd.DataFrame({"persona": "p", "item": [f"i{n}" for n in range(30)], "app": "mail", "text": "x"})
    assert len(page.persona_items(many, opens, "p", 7).frame) == 12


# ---- queries


def asked():
    names = ["q0", "q1", "q2", "q3"]
    splits = ["evaluation", "evaluation", "evaluation", "training"]
    time = pd.to_datetime("2023-12-11 07:30")
    queries = pd.DataFrame({"query": names, "split": splits, "text": names, "time": time, "place": "home"})
    gold = pd.DataFrame({"query": names, "split": splits, "kind": ["habit", "habit", "either", "meaning"]})
    more = {"relevant": [["i", "j"]] * 4, "plan": "open()", "apps": [["notes", "mail"]] * 4, "cot": "Look there."}
    return queries, gold.assign(**more)


def test_example_queries_are_evaluation_queries_of_each_kind():
    examples = page.example_queries(*asked(), seed=7)
    assert set(examples["kind"]) == {"habit", "either"}
    assert examples["query"].is_unique
    assert len(page.example_queries(*asked(), seed=7)) <= 4


def test_queries_with_their_labels():
    examples = page.example_queries(*asked(), seed=7)
    table = page.queries_table(examples, pd.DataFrame({"item": ["i", "j"], "text": ["Dough", "Yeast"]}))
    row = table.frame.iloc[0]
    assert row["voiced"] == "Mon 07:30, home"
    assert row["relevant context"] == "• Dough\n• Yeast"
    assert row["apps, best first"] == "notes, mail"
    thoughts = page.thoughts_table(examples).frame
    assert thoughts.columns.tolist() == ["query", "expert's chain of thought"]
    assert set(thoughts.iloc[:, 1]) == {"Look there."}


# ---- habits and shortcuts


def test_sceptics_table_counts_queries():
    table = page.sceptic_table(sceptic(), 1234)
    assert "over 1,234 queries" in table.caption
    assert len(table.frame) == 4


# ---- training and evaluation


SHARED = pd.DataFrame({"what": ["personas", "query texts", "phrasings", "needs asked for"], "shared": [0, 0, 0, 5]})


def test_a_split_that_keeps_its_promise_passes_and_another_names_what_it_shares():
    check_split(SHARED, "phrasing")
    with pytest.raises(ValueError, match=r"share needs asked for$"):
        check_split(SHARED, "need")
    with pytest.raises(ValueError, match=r"share personas and phrasings$"):
        check_split(SHARED.assign(shared=[1, 0, 2, 0]), "phrasing")


def test_what_the_sides_share_names_the_split():
    assert "split: need" in page.shared_table(SHARED, "split: need").caption


def test_written_table_names_the_writer():
    table = page.written_table(pd.DataFrame({"step": ["personas"], "kept": [3]}), "some model")
    assert table.caption == "What some model was asked to write, and what became of it."
