"""What notebook 01 shows and says of personas, queries and items, for each thing that it can say."""

from datetime import datetime
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from bs4 import BeautifulSoup
from nbconvert.filters import markdown2html

from lib.assistant.leaks import BY_DUE_TIME, BY_WORD, check_split, commonest_api_shares
from lib.assistant.pages import data_gen as page
from lib.assistant.personas import ITEMS_PER_APP
from lib.assistant.schemas import APPS, Apps, Persona
from lib.workbook.markup import safe_markdown

HOSTILE = (
    "<script>alert(1)</script> **bold** _it_ [a](javascript:alert(1)) ![p](x) `c` <img src=x onerror=alert(1)>\n# h"
)
SIMULATED, OWN, WRITTEN = page.Source(), page.Source(folder="mine"), page.Source(writer="remote:a_b*c*")


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


def rendered(sentence):
    return BeautifulSoup(markdown2html(safe_markdown(sentence)), "html.parser")


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


# ---- who made the world


@pytest.mark.parametrize(
    ("source", "words", "simulated"),
    [
        (SIMULATED, "A simulated world", True),
        (OWN, "A world of your own", False),
        (WRITTEN, r"A world written by remote:a\_b\*c\*", False),
    ],
)
def test_the_source_in_words(source, words, simulated):
    assert str(source) == words
    assert source.simulated is simulated


def test_overview_counts_and_says_who_repeats_nothing():
    tables = {
        "items": pd.DataFrame({"item": range(1200)}),
        "opens": pd.DataFrame({"item": range(5)}),
        "queries": pd.DataFrame({"text": ["a", "a", "b"]}),
    }
    said = page.overview(world(), tables, SIMULATED)
    assert said == (
        "**2 personas** with 1,200 context items, opened 5 times, ask 3 queries, 2 of them different in text "
        "(the simulator repeats none). The toolbox holds 3 APIs."
    )
    assert "repeats" not in page.overview(world(), tables, OWN)


def test_how_long_the_world_took():
    assert page.made_in(12.34, SIMULATED) == "A simulated world, drawn in 12.3 s."
    assert page.made_in(0.5, OWN) == "A world of your own, read in 0.5 s."


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


def test_how_far_the_sizes_are_and_why():
    exact = pd.Series(ITEMS_PER_APP).mul(100).round().astype(int).to_dict()
    items = pd.DataFrame({"app": [app for app, count in exact.items() for _ in range(count)], "persona": "p"})
    assert page.largest(items, 100) == pytest.approx(0, abs=0.5)
    assert "at most 0.0%. Counts and means are set to the published ones" in page.sizes_sentence(items, 100, SIMULATED)
    assert "These are your own personas." in page.sizes_sentence(items, 100, OWN)
    assert r"Sizes are what remote:a\_b\*c\* made of the task." in page.sizes_sentence(items, 100, WRITTEN)
    nobody_keeps_notes = items[items["app"] != "notes"]
    assert page.largest(nobody_keeps_notes, 100) == pytest.approx(100)


def test_items_per_app_says_how_far_the_means_are():
    drawing = page.items_per_app(items_of({"google": 6, "mail": 2}))
    assert drawing.finding == "A persona keeps 8 items on average, 75% of them in google"
    assert "our means lie within 100.0% of the published ones, from 2.23 in notes to 9.57 in google" in drawing.alt
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
    said = page.shares_sentence(some, "mixed")
    assert "Of 58.0% of the queries" in said
    assert "38.0% say them, 20.0% need none" in said
    assert "In 50.0% the need alone" in said
    assert "at most 2.0 points (the call's arguments stand in the query)" in said
    exact = page.shares_sentence(shares([40.0] * 5, [40.0] * 5), "mixed")
    assert exact.endswith("at most 0.0 points.")


def test_shares_of_a_world_of_ones_own():
    own = shares([10.0, 80, 10, np.nan, np.nan], np.nan)
    table = page.shares_table(own, "", 20)
    assert list(table.frame) == ["queries", "here, %"]
    assert len(table.frame) == 3
    assert "world" not in table.caption
    said = page.shares_sentence(own, "")
    assert "the need alone" not in said
    assert "planned" not in said


def test_examples_are_evaluation_queries_by_where_their_arguments_stand():
    queries = pd.DataFrame(
        {"query": list("abcdefg"), "split": ["training"] + ["evaluation"] * 6, "text": list("ABCDEFG")}
    )
    gold = pd.DataFrame({"query": list("abcdefg"), "plan": list("tuvwxyz")})
    sources = pd.Series(["none", "none", *["query"] * 5], index=list("abcdefg"))
    frame = page.source_examples(queries, gold, sources, 7).frame
    assert frame["arguments"].tolist() == ["query"] * 4 + ["none"]
    assert frame.iloc[-1].tolist() == ["none", "B", "u"]


# ---- one persona


def test_the_shown_persona_is_the_first_who_asks():
    people = [persona(id=name) for name in ("a", "b", "c")]
    assert page.shown_persona(people, pd.DataFrame({"persona": ["c", "b"]})).id == "b"


def test_persona_in_a_sentence():
    assert page.persona_sentence(persona(), 4) == (
        "Ana, 30, baker in Sandmere; likes chess; car. 4 items, collected up to Sunday 10 December 2023, 06:00."
    )


@pytest.mark.parametrize("field", ["name", "profession", "city", "hobbies", "traits"])
def test_what_a_person_wrote_stands_there_as_it_is(field):
    text = [HOSTILE] if field in ("hobbies", "traits") else HOSTILE
    shown = rendered(page.persona_sentence(persona(**{field: text}), 4))
    assert [tag.name for tag in shown.find_all(True)] == ["p"], "a paragraph and nothing else"
    wanted = " ".join(HOSTILE.split())
    assert (wanted.lower() if field in ("profession", "hobbies") else wanted) in shown.text


def test_a_writers_name_stands_there_as_it_is():
    source = page.Source(writer=HOSTILE)
    for sentence in (
        page.sizes_sentence(items_of({"mail": 1}), 2, source),
        page.finding(world(), 3, SHARES, sceptic(own=np.nan), source),
    ):
        assert not rendered(sentence).find_all(["script", "img", "a", "em", "code", "h1"])
        assert " ".join(HOSTILE.split()) in rendered(sentence).text


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


def test_hours_apart_by_kind():
    rows = [("habit", "gold item", 0.5), ("habit", "gold item", 7.0), ("habit", "other item", 12.0)]
    rows += [("meaning", "other item", 1.0)]
    drawing = page.hours_figure(pd.DataFrame(rows, columns=["kind", "which", "hours"]))
    assert drawing.finding.endswith("meaning queries –% against 100%; habit queries 50% against 0%")
    assert "habit queries 50% against 0%." in drawing.alt
    assert [axis.get_title(loc="left") or axis.get_title() for axis in drawing.figure.axes] == ["meaning", "habit"]
    habit = drawing.data[(drawing.data["kind"] == "habit") & (drawing.data["which"] == "gold item")]
    assert habit[["bin", "percent"]].to_numpy().tolist() == [[0, 50], [7, 50]]


@pytest.mark.parametrize(
    ("left", "needs", "words"),
    [
        (0.5, ["a", "a"], "what is left depends on where the persona keeps things"),
        (0.1, ["a", "b"], "every query has a need of its own"),
        (0.1, ["a", "a"], "the need all but determines it"),
    ],
)
def test_what_the_need_gives_away(left, needs, words):
    said = page.sceptic_sentence(sceptic(left=left), pd.Series(needs), SIMULATED)
    assert said.startswith(f"Knowing the need leaves {left:.2f} of 4.00 bits of the API open: {words}.")
    assert "in 2.8% of the cases, other items in 1.3%" in said


def test_what_is_due_gives_away():
    needs = pd.Series(["a"])
    said = page.sceptic_sentence(sceptic(), needs, SIMULATED)
    assert "One shortcut is there by construction: of the events" in said
    assert "80% are gold, because people ask about what comes next." in said
    said = page.sceptic_sentence(sceptic(soon=np.nan), needs, OWN)
    assert "1.3%. Of the events" in said
    assert "none are gold. No method" in said
    assert "open: what is left depends on where the persona keeps things. Of the events" in page.sceptic_sentence(
        sceptic(own=np.nan), needs, OWN
    )


def test_sceptics_table_counts_queries():
    table = page.sceptic_table(sceptic(), 1234)
    assert "over 1,234 queries" in table.caption
    assert len(table.frame) == 4


def test_the_commonest_api_of_a_need():
    gold = pd.DataFrame({"need": ["a", "a", "a", "b"], "apis": [["x"], ["x"], ["y"], ["y", "x"]]})
    spread, overall = commonest_api_shares(gold)
    assert spread.round(1).to_dict() == {"a": 66.7, "b": 100.0}
    assert spread.is_monotonic_increasing
    assert overall == 50
    drawing = page.api_given_need(gold)
    assert drawing.finding == (
        "Guessing each need's commonest API is right for 75% of the queries (the commonest of all: 50%); for half of "
        "the needs it is right in at most 83%"
    )
    assert "from 67 to 100 percent" in drawing.alt
    assert drawing.data["need"].tolist() == ["a", "b"]


# ---- training and evaluation


SHARED = pd.DataFrame({"what": ["personas", "query texts", "phrasings", "needs asked for"], "shared": [0, 0, 0, 5]})


def test_a_split_that_keeps_its_promise_passes_and_another_names_what_it_shares():
    check_split(SHARED, "phrasing")
    with pytest.raises(ValueError, match=r"share needs asked for$"):
        check_split(SHARED, "need")
    with pytest.raises(ValueError, match=r"share personas and phrasings$"):
        check_split(SHARED.assign(shared=[1, 0, 2, 0]), "phrasing")


@pytest.mark.parametrize(
    ("source", "caption", "words"),
    [
        (
            SIMULATED,
            "split: need",
            "As `split: need` promises, the two sides share no personas and no needs asked for.",
        ),
        (OWN, "your own split", "The sides are those of your files."),
        (WRITTEN, "by persona", "what else they share is as the writer made it"),
    ],
)
def test_what_the_sides_share(source, caption, words):
    assert caption in page.shared_table(SHARED, "need", source).caption
    assert words in page.split_sentence("need", source)


# ---- the report's finding


SHARES = pd.DataFrame(
    [("argument_source", "query", 40.0), ("argument_source", "items", 40.0), ("argument_source", "none", 20.0)],
    columns=["knob", "value", "here"],
)


def test_finding_says_how_much_the_words_give_away():
    said = page.finding(world(), 1234, SHARES, sceptic(), SIMULATED)
    assert said == (
        "A simulated world: **2 personas** ask 1,234 queries, to be answered with 3 APIs; 60% of the queries can be "
        "planned without any context. A meaning query shares a content word with 2.8% of the items that answer it, and "
        "with 1.3% of other items."
    )
    unknown = SHARES.assign(here=np.nan)
    bare = page.finding(world(), 5, unknown, sceptic(own=np.nan), OWN)
    assert bare.endswith("ask 5 queries, to be answered with 3 APIs.")


def test_written_table_names_the_writer():
    table = page.written_table(pd.DataFrame({"step": ["personas"], "kept": [3]}), "some model")
    assert table.caption == "What some model was asked to write, and what became of it."
