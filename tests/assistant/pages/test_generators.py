"""What notebook 10 shows and says of a language model in the simulator's place, for each thing that it can say."""

from types import SimpleNamespace

import matplotlib.pyplot as plt
import pandas as pd
import pytest
from bs4 import BeautifulSoup
from nbconvert.filters import markdown2html

from lib.assistant.generators import RefusedThoughts, Trial, right_counts, usable_rates
from lib.assistant.pages import generators as page
from lib.evaluation.diversity import MEASURES
from lib.generation.structured import Reply
from lib.workbook.markup import safe_markdown

HOSTILE = "<script>alert(1)</script> **bold** _it_ [a](javascript:alert(1)) `c` <img src=x onerror=alert(1)>"
NONE_REFUSED, REFUSED_FOUR = RefusedThoughts(0, 0, 0), RefusedThoughts(4, 2, 1)
BOTH, FREE = page.Writer("small_model", ("free", "schema")), page.Writer("small_model", ("free",))


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


def rendered(sentence):
    return BeautifulSoup(markdown2html(safe_markdown(sentence)), "html.parser")


def outcomes(*ways):
    """Two answers a step and way: of `free` the first is usable after a repair, of `schema` both at once."""
    rows = []
    for way in ways:
        for step in page.STEPS:
            right = step in ("tools", "plans")
            rows.append(
                (step, way, "p", int(way == "schema"), 1, 1.0 if right else None, "" if way == "schema" else "no JSON")
            )
            late = way == "schema"
            rows.append((step, way, "q", int(late), int(late), 0.0 if right else None, "" if late else "cut off"))
    frame = pd.DataFrame(rows, columns=["step", "way", "persona", "at_once", "valid", "right", "fault"])
    return frame.astype({"right": float})


def rates(*ways):
    return usable_rates(outcomes(*ways))


def reply(**value):
    return Reply(SimpleNamespace(**value), ["{}"], [])


REFUSED = Reply(None, ["x" * 500, "again"], ["there is no JSON", "there is no JSON"])
QUERIES = Trial([], pd.DataFrame({"persona": "p", "text": ["a", "b"], "kind": "habit", "item": ["i", "j"]}), 9)
ITEMS = pd.DataFrame({"item": ["i", "j"], "text": ["Dough", "Yeast"]})


# ---- the question


def test_a_question_is_quoted_as_it_was_asked():
    shown = rendered(page.question_sentence(BOTH, f"Write *items*.\n\nOf {HOSTILE}"))
    assert shown.find("strong").text == "small_model"
    assert not shown.find_all(["script", "img", "a", "em", "code"])
    assert "Write *items*." in shown.find("blockquote").text
    assert HOSTILE in shown.find("blockquote").text


def test_a_models_name_stands_there_as_it_is():
    writer = page.Writer(HOSTILE, ("free",))
    shown = rendered(page.finding(rates("free"), right_counts(outcomes("free")), NONE_REFUSED, writer))
    assert not shown.find_all(["script", "img", "a", "em", "code"])
    assert HOSTILE in shown.text


# ---- usable answers


def test_usable_answers_by_step():
    table = page.usable_table(rates("free", "schema"), BOTH, repairs=1)
    first = table.frame.iloc[0]
    assert first.tolist() == ["a persona", "free", 2, "0 [0, 66]", 1, "50 [0, 100]", 1]
    assert set(table.frame["answers"]) == {"free", "under the schema"}
    assert "is asked for again once; 95% intervals over personas (2 a step), none narrower than" in table.caption
    assert "up to 3 times;" in page.usable_table(rates("free"), FREE, repairs=3).caption


def test_usable_answers_in_words():
    said = page.usable_sentence(rates("free", "schema"), outcomes("free", "schema"), REFUSED_FOUR)
    assert said.startswith(
        "Free, of the 12 answers 0% are usable at once and 50% in the end; faults of the first answers: cut off 6, "
        "no JSON 6. Under the schema, of the 12 answers 100%"
    )
    assert "Their question asks for sentences, and then for one JSON object alone." in said
    assert "faults of the first answers: none." in said
    assert "An endpoint takes no grammar" not in said
    free = page.usable_sentence(rates("free"), outcomes("free"), NONE_REFUSED)
    assert free.endswith("so there is no second row.")
    assert "Their question" not in free


def test_rates_without_chains_of_thought():
    table = outcomes("free")
    table.loc[table["step"] == "thoughts", "valid"] = 0
    assert page.in_all(usable_rates(table)).loc["free", ["at_once", "valid", "rest"]].tolist() == ["0%", "42%", "50%"]
    assert page.without_thoughts(usable_rates(table), REFUSED_FOUR) == (
        "Without chains of thought it is 50% free in the end: of 4 refused ones 2 are sentences without JSON, and 1 "
        "are JSON and write an app's name in another letter case."
    )
    assert page.without_thoughts(rates("free", "schema"), NONE_REFUSED) == (
        "Without chains of thought it is 50% free and 100% under the schema in the end."
    )


def test_faults_stand_by_how_often_they_are():
    found = pd.DataFrame({"fault": ["a", "b", "b", "", "c"]})
    assert page._faults(found).startswith("b 2, ")


def test_usable_answers_in_a_figure():
    drawing = page.usable_figure(rates("free", "schema"), BOTH)
    assert drawing.finding == (
        "Usable answers of small_model in the end: free, 50% (50% without chains of thought); under the schema, 100% "
        "(100% without chains of thought)"
    )
    assert drawing.alt.startswith("Usable answers by step: a persona (free) 50 [0, 100]%; ")
    assert drawing.alt.endswith("a chain of thought (under the schema) 100 [34, 100]%.")
    (axis,) = drawing.figure.axes
    assert [text.get_text() for text in axis.get_legend().get_texts()] == [
        "free, in the end", "free, at once", "under the schema, in the end", "under the schema, at once",
    ]  # fmt: skip
    alone = page.usable_figure(rates("free"), FREE)
    assert alone.finding.endswith("free, 50% (50% without chains of thought)")
    assert list(alone.figure.axes[0].lines[0].get_ydata()) == [0, 1, 2, 3, 4, 5], "nothing stands beside it"


def test_right_labels():
    judged = right_counts(outcomes("free", "schema"))
    assert judged["step"].tolist() == ["tools", "plans", "tools", "plans"]
    assert judged["n"].tolist() == [2] * 4
    table = page.right_table(judged, 50)
    assert table.frame["right, %"].tolist() == ["50 [0, 100]"] * 4
    assert "is right in 2.0%. Both are shown the relevant entries, the arguments also the right tool;" in table.caption


# ---- items and requests


def diversity(*ways):
    rows = [
        (side, name, 10.0, 5.0, 15.0, 3, way, 7, 2) for way in ways for side in ("ours", "theirs") for name in MEASURES
    ]
    return pd.DataFrame(
        rows, columns=["side", "measure", "value", "draws_low", "draws_high", "n", "way", "answers", "personas"]
    )


def test_diversity_by_side():
    table = page.diversity_table(diversity("free", "schema"), BOTH)
    assert "no interval says how far another sample would differ" in table.caption
    assert table.caption.endswith("free, 7 answers for 2 personas; under the schema, 7 answers for 2 personas.")
    frame = page.diversity_table(diversity("free"), FREE).frame
    assert frame["items by"].tolist() == ["small_model, free", "the simulator (beside free)"]
    assert frame["items"].tolist() == [3, 3]
    assert frame["words"].tolist() == [10.0] * 2


def test_how_many_items_were_written():
    items = Trial([], pd.DataFrame({"persona": ["p"], "app": ["notes"], "n": [4]}), 9)
    replies = {"free": {"items": [REFUSED]}, "schema": {"items": [REFUSED]}}
    assert page.items_sentence(items, replies, diversity("free")) == (
        "Free, 0 of 4 items asked for were written. Under the schema, 0 of 4 items asked for were written, so there is "
        "nothing to compare."
    )


def test_requests_by_side():
    rows = [("schema", "ours", 4, 5.0, 50.0, 2, 10.0), ("schema", "theirs", 4, 7.0, 10.0, 4, 10.0)]
    found = pd.DataFrame(rows, columns=["way", "side", "requests", "words", "shared", "found", "chance"])
    table = page.requests_table(found, BOTH, "some encoder", 2)
    assert table.frame["requests by"].tolist() == [
        "small_model, under the schema",
        "the simulator (beside under the schema)",
    ]
    assert table.frame["item among the first 3, %"].tolist() == ["50 [15, 85]", "100 [51, 100]"]
    assert "search by some encoder" in table.caption
    assert table.caption.endswith("they are of 2 personas, so the intervals are too narrow.")


def test_the_first_usable_request_is_one_under_the_schema_where_there_is_one():
    free, schema = [REFUSED, reply(text="free words")], [reply(text="words"), reply(text="more")]
    replies = {"free": {"queries": free}, "schema": {"queries": schema}}
    table = page.request_example(QUERIES, replies, ITEMS, BOTH)
    assert table.frame["text"].tolist() == ["Dough", "a", "words"]
    assert table.frame[""].iloc[2] == "small_model, under the schema"
    assert table.caption == "One request of kind habit."
    table = page.request_example(QUERIES, {"free": {"queries": schema}}, ITEMS, FREE)
    assert table.frame["text"].tolist() == ["Dough", "a", "words"], "the first, not the last"
    table = page.request_example(QUERIES, replies | {"schema": {"queries": [REFUSED] * 2}}, ITEMS, BOTH)
    assert table.frame["text"].tolist() == ["Yeast", "b", "free words"]
    assert page.request_example(QUERIES, {"free": {"queries": [REFUSED] * 2}}, ITEMS, FREE) is None


def test_the_first_refused_answer_is_cut():
    table = page.refused_example({"personas": [reply()], "items": [REFUSED]})
    assert table.frame.iloc[0].tolist() == ["x" * 400, "there is no JSON"]
    assert page.refused_example({"personas": [reply()]}) is None


# ---- the report's finding


def test_finding_with_and_without_a_grammar():
    both = outcomes("free", "schema")
    assert page.finding(usable_rates(both), right_counts(both), REFUSED_FOUR, BOTH) == (
        r"Asked for data as JSON, small\_model gives usable answers in **0%** of 12 cases at once and "
        "50% in the end; with the schema as a grammar, in **100%** at once. Without chains of thought it is 50% free "
        "and 100% under the schema in the end: of 4 refused ones 2 are sentences without JSON, and 1 are JSON and "
        "write an app's name in another letter case. Usable is not right: the tool is the simulator's in 50 [0, 100]% "
        "of 2 requests under the schema."
    )
    free = page.finding(rates("free"), right_counts(outcomes("free")), NONE_REFUSED, FREE)
    assert "grammar" not in free
    assert free.endswith("in 50 [0, 100]% of 2 requests.")
