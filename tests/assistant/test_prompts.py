"""What the prompts for chains of thought hold, and that a query cannot change the rest of them."""

import pytest

from lib.assistant.prompts import CONTEXT_TYPES, cot_prompt, distilled_cot_prompt
from lib.assistant.schemas import APP_NAMES, APPS


def test_the_seven_apps_are_named_as_the_expert_names_them():
    assert CONTEXT_TYPES["apps"] == tuple(APP_NAMES[app] for app in APPS)


def test_the_papers_fourteen_lack_google_and_have_types_without_a_store():
    paper = set(CONTEXT_TYPES["paper"])
    assert len(CONTEXT_TYPES["paper"]) == len(paper) == 14
    assert set(CONTEXT_TYPES["apps"]) - paper == {"Google"}
    assert paper - set(CONTEXT_TYPES["apps"]) >= {"Photos", "Spotify", "Find My", "Workout"}


@pytest.mark.parametrize("types", CONTEXT_TYPES.values(), ids=CONTEXT_TYPES)
def test_the_prompt_holds_the_query_and_every_type_once(types):
    prompt = cot_prompt("When is my next lesson?", types)
    assert prompt.count("When is my next lesson?") == 1
    for name in types:
        assert prompt.count(f"'{name}'") == 1


@pytest.mark.parametrize("query", ["", "braces {query} {0} %s", "a\nsecond line", "Über 'Mail'?"])
def test_any_query_stands_in_the_prompt_as_it_is(query):
    assert query in cot_prompt(query, CONTEXT_TYPES["apps"])
    assert distilled_cot_prompt(query).startswith(query)


def test_prompts_of_two_queries_share_their_beginning():
    """The instructions come first: a model reads them once for all queries."""
    one, two = (cot_prompt(text, CONTEXT_TYPES["apps"]) for text in ("A?", "B?"))
    assert one.index("A?") == two.index("B?") > 200
    assert one[: one.index("A?")] == two[: two.index("B?")]
