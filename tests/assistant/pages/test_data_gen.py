"""What notebook 01 shows and says of personas, queries and items, for each thing that it can say."""

from datetime import datetime
from types import SimpleNamespace

import pandas as pd
import pytest

from lib.assistant.leaks import check_split
from lib.assistant.pages import data_gen as page
from lib.assistant.schemas import Apps, Persona


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


# ---- training and evaluation


SHARED = pd.DataFrame({"what": ["personas", "query texts", "phrasings", "needs asked for"], "shared": [0, 0, 0, 5]})


def test_a_split_that_keeps_its_promise_passes_and_another_names_what_it_shares():
    check_split(SHARED, "phrasing")
    with pytest.raises(ValueError, match=r"share needs asked for$"):
        check_split(SHARED, "need")
    with pytest.raises(ValueError, match=r"share personas and phrasings$"):
        check_split(SHARED.assign(shared=[1, 0, 2, 0]), "phrasing")
