import pytest

from lib.workflows.english import (
    article,
    base_form,
    is_participle,
    is_plural,
    lowered,
    plural,
    singular,
    third_person,
    verb_of_participle,
    with_article,
    with_inner_articles,
)  # fmt: skip


@pytest.mark.parametrize(
    ("word", "verb"),
    [("Creates", "create"), ("gets", "get"), ("Getting", "get"), ("copies", "copy"), ("searches", "search"),
     ("running", "run"), ("updating", "update"), ("table", None), ("is", None)],
)  # fmt: skip
def test_base_form(word, verb):
    assert base_form(word) == verb


@pytest.mark.parametrize(
    ("participle", "verb"),
    [("created", "create"), ("submitted", "submit"), ("sent", "send"), ("copied", "copy"), ("closed", "close"),
     ("red", None)],
)  # fmt: skip
def test_verb_of_participle(participle, verb):
    assert verb_of_participle(participle) == verb


def test_an_unknown_verb_has_participles_too():
    assert is_participle("frobnicated")
    assert not is_participle("feed")


def test_forms_of_verbs_and_nouns():
    assert [third_person(verb) for verb in ("create", "push", "copy", "look up", "play")] == [
        "creates", "pushes", "copies", "looks up", "plays",
    ]  # fmt: skip
    nouns = {"task": "tasks", "entry": "entries", "box": "boxes", "status": "statuses", "day": "days"}
    assert {noun: plural(noun) for noun in nouns} == nouns
    assert {singular(many) for many in ("tasks", "entries", "boxes", "days")} == {"task", "entry", "box", "day"}
    assert not any(map(is_plural, ("status", "analysis", "address")))


def test_articles_follow_the_sound():
    words = ("asset", "user", "URL", "HTML page", "SMS", "hour", "unit", "update", "PDF", "image")
    assert [article(word) for word in words] == ["an", "a", "a", "an", "an", "an", "a", "an", "a", "an"]


def test_with_article():
    assert with_article("ticket", definite=False) == "a ticket"
    assert with_article("tickets of a group", definite=False) == "tickets of a group"
    assert with_article("ticket", definite=True) == "the ticket"
    assert with_article("my ticket", definite=True) == "my ticket"
    assert with_article("feedback", definite=False) == "feedback"
    assert with_inner_articles("tasks in folder of users") == "tasks in the folder of users"
    assert with_inner_articles("text from PDF document") == "text from the PDF document"
    assert with_inner_articles("file to PDF") == "file to PDF"


def test_capitals_of_titles_go_and_names_stay():
    assert lowered("Document Group Fields") == "document group fields"
    assert lowered("the PDF of SharePoint item") == "the PDF of SharePoint item"
    assert lowered("a message in Teams as the bot") == "a message in Teams as the bot"
    assert lowered("list all Users of it", common=frozenset({"users"})) == "list all users of it"
    assert lowered("Zoho Record", frozenset({"zoho"})) == "Zoho record"
