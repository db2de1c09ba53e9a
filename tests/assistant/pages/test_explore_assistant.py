"""The widgets of the explorer, driven as a user would, without models; and that nothing in them is live markup."""

import subprocess
import sys

import pandas as pd
import pytest
from bs4 import BeautifulSoup

from lib.assistant.explorer import read_saved
from lib.assistant.pages import explore_assistant
from lib.assistant.pages.explore_assistant import (
    SAVED,
    TYPED,
    Explorer,
    answer_html,
    explore,
    first_query,
    items_html,
    verdict_html,
    worked_example,
)
from lib.assistant.planner import SETTINGS
from lib.generation.models import ModelError
from lib.workbook.artifacts import ArtifactError
from lib.workbook.parameters import ProfileError

HOSTILE = "<img src=x onerror=alert(1)></td></div><script>alert(1)</script>&amp;"
ELEMENTS = {
    "style", "div", "h4", "p", "b", "ol", "ul", "li", "code", "table", "tbody", "tr", "th", "td", "span", "br",
    "details", "summary",
}  # fmt: skip


def soup(html):
    """The parsed HTML, after a check that nothing in it is live but what the page module writes."""
    parsed = BeautifulSoup(html, "html.parser")
    for tag in parsed.find_all():
        assert tag.name in ELEMENTS, tag
        assert set(tag.attrs) <= {"class", "scope", "rowspan", "role"}, tag
    return parsed


def rows_of(html):
    """The rows of the last table: lists of the cells' texts."""
    table = soup(html).find_all("table")[-1]
    return [[cell.get_text(" ", strip=True) for cell in row.find_all(["td", "th"])] for row in table.find_all("tr")]


@pytest.fixture
def explorer(book, own_tables, make_assistant):
    loads = []

    def load():
        loads.append(explorer.button.disabled)
        return make_assistant(own_tables)

    explorer = Explorer(read_saved(book), load, seed=7)
    explorer.loads = loads
    return explorer


def test_the_explorer_opens_with_a_query_and_without_models(explorer):
    assert explorer.persona.options == (("Person b, 30, Baker (b)", "b"),)
    assert [name for _, name in explorer.query.options] == ["b-q0", "b-q1"]
    assert "Voiced Monday 2023-12-11 07:30" in explorer.voiced.value
    kept = soup(explorer.kept.value)
    assert kept.summary.get_text() == "What this persona keeps in its apps (2 items)"
    assert "flour, water, salt" in kept.get_text()
    assert (explorer.of_query.layout.display, explorer.of_typed.layout.display) == ("", "none")
    assert explorer.loads == []
    assert explorer.answer.value == ""


def test_a_saved_query_is_answered_beside_its_gold_plan(explorer):
    explorer.query.value = "b-q1"
    assert explorer.place.value == "work"
    explorer.button.click()
    answer = soup(explorer.answer.value)
    assert "“And how is that done?”" in answer.get_text()
    assert [heading.get_text() for heading in answer.find_all("h4")] == ["Retrieved context", "Tools found", "Plans"]
    assert "✓ relevant" in answer.ol.get_text()
    head, first, *_, last = rows_of(explorer.answer.value)
    assert head == ["shown to the planner", "plan", "verdict", "gold plan"]
    assert first[2].startswith("✗ unparsed")
    assert "does not parse" in first[2]
    assert first[3] == 'open_note(title="Dough")'
    assert last[1:] == ['open_note(title="Dough")', "✓ right"]
    assert len(rows_of(explorer.answer.value)) == 1 + len(SETTINGS)
    assert "Answered in" in explorer.status.value


def test_models_are_loaded_once_and_the_button_is_busy_meanwhile(explorer):
    descriptions = []
    explorer.button.observe(lambda change: descriptions.append(change["new"]), "description")
    explorer.button.click()
    explorer.button.click()
    assert explorer.loads == [True]
    assert descriptions == ["Working …", "Ask"] * 2
    assert explorer.button.disabled is False


def test_a_request_of_ones_own_has_no_gold_plan(explorer):
    explorer.kind.value = TYPED
    assert (explorer.of_query.layout.display, explorer.of_typed.layout.display) == ("none", "")
    explorer.typed.value = "  When do I leave? "
    explorer.place.value = "gym"
    explorer.button.click()
    assert "Monday 2023-12-11 07:30, gym: “When do I leave?”" in soup(explorer.answer.value).get_text()
    rows = rows_of(explorer.answer.value)
    assert rows[0] == ["shown to the planner", "plan"]
    assert len(rows) == 4
    assert "✓" not in explorer.answer.value


@pytest.mark.parametrize(
    ("typed", "moment", "words"),
    [(" ", pd.Timestamp("2024-01-01"), "The request is empty"), ("Call her.", None, "The request needs a time")],
)
def test_what_is_missing_from_a_request_is_said(explorer, typed, moment, words):
    explorer.kind.value = TYPED
    explorer.typed.value, explorer.moment.value = typed, moment
    explorer.button.click()
    assert words in soup(explorer.answer.value).get_text()
    assert explorer.loads == []
    assert explorer.button.disabled is False
    explorer.kind.value = SAVED
    explorer.button.click()
    assert "✓ right" in explorer.answer.value


def test_a_missing_model_is_told_in_the_widget_and_asked_for_again(explorer, make_assistant, own_tables):
    def fail():
        raise ModelError("model tiny: not there. Get it with `pip download tiny`")

    explorer.load = fail
    explorer.button.click()
    assert "Get it with `pip download tiny`" in soup(explorer.answer.value).get_text()
    assert (explorer.status.value, explorer.button.disabled) == ("", False)
    explorer.load = lambda: make_assistant(own_tables)
    explorer.button.click()
    assert "✓ right" in explorer.answer.value


def test_an_error_that_nobody_foresaw_is_told_and_logged(explorer):
    explorer.load = lambda: {}["no such key"]
    with pytest.raises(KeyError):
        explorer._asked()
    assert "Unexpected KeyError: 'no such key'" in soup(explorer.answer.value).get_text()
    assert explorer.button.disabled is False


def test_another_persona_brings_its_own_queries(book, own_tables, make_assistant):
    saved = read_saved(book)
    other = saved.queries.iloc[[0]].assign(persona="a", query="a-q9", text="Mine?")
    saved = type(saved)(**(vars(saved) | {"queries": pd.concat([saved.queries, other], ignore_index=True)}))
    explorer = Explorer(saved, lambda: make_assistant(own_tables), seed=7)
    explorer.persona.value = "a"
    assert explorer.query.options == (("Mine?", "a-q9"),)
    explorer.persona.value = "b"
    assert explorer.query.value == "b-q0"


def test_missing_artifacts_are_told_in_the_widget(book):
    (book.data / "gold.parquet").unlink()
    shown = soup(explore(book, 7).value).get_text()
    assert "01_data_gen (gold.parquet): run `make report PROFILE=smoke`" in shown


def test_damaged_artifacts_are_told_in_the_widget(book):
    (book.data / "gold.parquet").write_bytes(b"no table")
    assert "damaged" in soup(explore(book, 7).value).get_text()


def test_a_world_without_evaluation_queries_is_told(book, own_tables, monkeypatch):
    saved = read_saved(book)
    monkeypatch.setattr(
        explore_assistant, "read_saved", lambda _: type(saved)(**(vars(saved) | {"queries": saved.queries[:0]}))
    )
    assert "no evaluation queries" in soup(explore(book, 7).value).get_text()


def test_a_batch_run_shows_one_worked_example(book, own_tables, make_assistant, monkeypatch):
    monkeypatch.setattr(explore_assistant, "open_assistant", lambda *_: make_assistant(own_tables))
    example = worked_example(book, seed=7)
    assert rows_of(example)[0][-1] == "gold plan"
    own = worked_example(book, seed=7, query=" When do I leave? ", persona="b")
    assert "“When do I leave?”" in soup(own).get_text()
    assert rows_of(own)[0] == ["shown to the planner", "plan"]
    (book.data / "lambdamart.txt").unlink()
    with pytest.raises(ArtifactError, match="05_lambdamart_rrf"):
        worked_example(book, seed=7)


def test_the_query_asked_first_may_be_of_one_persona(book):
    saved = read_saved(book)
    own = saved.queries.assign(persona=["a", *saved.queries["persona"].iloc[1:]])
    saved = type(saved)(**(vars(saved) | {"queries": own}))
    assert {first_query(saved, seed, "a")["persona"] for seed in range(9)} == {"a"}
    assert {first_query(saved, seed)["persona"] for seed in range(9)} == {"a", "b"}


@pytest.mark.parametrize(
    ("persona", "hint"), [("p0001", "; did you mean p0000?"), ("Ada", "; there are 2, such as p0000")]
)
def test_an_unknown_persona_is_told_before_any_model_is_loaded(book, monkeypatch, persona, hint):
    saved = read_saved(book)
    named = saved.queries.assign(persona=["p0000", *["q"] * (len(saved.queries) - 1)])
    monkeypatch.setattr(explore_assistant, "read_saved", lambda _: type(saved)(**(vars(saved) | {"queries": named})))
    for ask in (worked_example, explore):
        with pytest.raises(ProfileError) as error:
            ask(book, 7, "Where?", persona)
        assert f"persona: nobody with an evaluation query is called '{persona}'{hint}" in str(error.value)


def test_a_query_given_as_a_parameter_stands_there_already(book, own_tables, make_assistant):
    explorer = Explorer(read_saved(book), lambda: make_assistant(own_tables), 7, "When do I leave?", "b")
    assert (explorer.of_query.layout.display, explorer.of_typed.layout.display) == ("none", "")
    explorer.button.click()
    assert "“When do I leave?”" in soup(explorer.answer.value).get_text()


def test_relevant_items_that_were_not_found_are_listed(own_tables):
    answer = pd.DataFrame(
        {
            "setting": ["rag", "context_tuned_rag"],
            "items": [[], ["b-song"]],
            "context": [[], ["Music: Yeast", "Contact: Ana"]],
            "tools": [["default"], ["open_note", "default"]],
            "plan": ["", "default()"],
            "failure": ["unparsed", "wrong_api"],
            "why": ["", "default instead of open_note"],
        }
    )
    query, gold = own_tables["queries"].iloc[1], own_tables["gold"].iloc[1]
    html = answer_html(query, "Person b", answer, own_tables["items"], gold)
    shown = soup(html).get_text("|")
    assert "|Contact: Ana|" in shown
    assert "Relevant, but not found: Notes: Dough. flour, water, salt" in shown
    assert rows_of(html)[1][1:3] == ["(nothing)", "✗ unparsed"]
    assert rows_of(html)[2][2] == "✗ wrong API default instead of open_note"


def test_nothing_from_data_or_a_model_is_live_markup():
    answer = pd.DataFrame(
        {
            "setting": ["rag", "context_tuned_rag"],
            "items": [[], ["i"]],
            "context": [[], [HOSTILE, HOSTILE]],
            "tools": [[HOSTILE], [HOSTILE]],
            "plan": HOSTILE,
            "failure": HOSTILE,
            "why": HOSTILE,
        }
    )
    query = pd.Series({"text": HOSTILE, "time": pd.Timestamp("2024-01-01"), "place": HOSTILE})
    items = pd.DataFrame({"item": ["i", "j"], "app": "notes", "text": HOSTILE})
    gold = pd.Series({"relevant": ["i", "j"], "apis": [HOSTILE], "plan": HOSTILE})
    shown = soup(answer_html(query, HOSTILE, answer, items, gold)).get_text()
    assert shown.count("<script>alert(1)</script>&amp;") == 15
    assert "<script>alert(1)</script>" in soup(items_html(items)).get_text()
    soup(verdict_html(HOSTILE, HOSTILE))


def test_opening_loads_neither_torch_nor_transformers():
    code = (
        "import sys, lib.assistant.pages.explore_assistant;"
        "print([name for name in ('torch', 'transformers', 'sentence_transformers') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
