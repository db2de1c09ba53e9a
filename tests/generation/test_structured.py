"""JSON in a language model's answers: found, validated, asked for again, and never more than was said."""

import json

import pytest
from pydantic import Field, NaiveDatetime

from lib.generation.decoding import Grammar, vocabulary
from lib.generation.local import load_tokenizer
from lib.generation.structured import (
    MAX_LIST,
    MAX_TEXT,
    ROUNDS,
    AnswerError,
    Question,
    ask,
    grammar_of,
    read_answer,
)
from lib.workbook.inputs import Strict, Text


class Pet(Strict):
    title: Text
    age: int = Field(default=0, ge=0)
    names: list[str] = []
    born: NaiveDatetime | None = None


def not_rex(pet):
    if pet.title == "Rex":
        raise ValueError("title: Rex is taken")


@pytest.fixture(scope="module")
def tokenizer(tiny):
    return load_tokenizer(str(tiny))[0]


QUESTION = Question("Name a pet.", Pet, not_rex)
GOOD = '{"title": "Ada", "age": 3}'


class Scripted:
    """Answers each prompt with what `script` has for its question and round."""

    def __init__(self, script):
        self.script, self.calls = script, []

    def generate(self, prompts, **settings):
        self.calls.append((list(prompts), settings))
        return [self.script[int(prompt.split("#")[1].split("#")[0])][len(self.calls) - 1] for prompt in prompts]


def questions(n):
    return [Question(f"Name pet #{number}#.", Pet, not_rex) for number in range(n)]


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        f"Braces {{like these}} come first: ```json\n{GOOD}\n```",
        f'{{"title": "Bo"}} is shorter than {GOOD}',
        '{"title": " \\u0000Ada\\n", "age": "3"}',
    ],
)
def test_json_is_found(text):
    assert read_answer(text, QUESTION).title == "Ada"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("I cannot do that.", "no JSON object"),
        ('{"title": "Ada", "age": 3', "cut off"),
        ("{'title': 'Ada'}", "not JSON"),
        ('{"title": "Ada", "age": ' + "9" * 5000 + "}", "nested too deeply, or a number"),
        ('{"title": "Rex"}', "Rex is taken"),
        ('{"title": "\\ud83d"}', "surrogate"),
        ('{"title": "' + "a" * (MAX_TEXT + 1) + '"}', "characters"),
        (json.dumps({"title": "Ada", "names": ["a"] * (MAX_LIST + 1)}), "entries"),
        ('{"names": ' * 3000, "nested too deeply"),
    ],
)
def test_what_is_wrong_is_said(text, said):
    with pytest.raises(AnswerError, match=said) as caught:
        read_answer(text, QUESTION)
    assert len(str(caught.value)) < 500
    assert "\n" not in str(caught.value)


def test_a_wrong_answer_is_held_up_with_its_fault_and_the_others_are_not_asked_again():
    model = Scripted([[GOOD], ['{"age": 1}', GOOD], ["no", "no", GOOD], ["no"] * (ROUNDS + 1)])
    answers = ask(model, questions(4), max_new_tokens=9, temperature=0.5, seed=3)
    assert [answer and answer.title for answer in answers] == ["Ada", "Ada", "Ada", None]
    assert [len(prompts) for prompts, _ in model.calls] == [4, 3, 2]
    first, again = model.calls[0][0][1], model.calls[1][0][0]
    assert again.startswith(first)
    assert '{"age": 1}' in again.removeprefix(first)
    assert "title: Field required" in again
    assert model.calls[0][1] == {"max_new_tokens": 9, "chat": True, "temperature": 0.5, "seed": 3, "grammars": None}


def test_the_grammar_takes_what_the_schema_does(tokenizer):
    grammar = Grammar(grammar_of(Pet), vocabulary(tokenizer, len(tokenizer), [tokenizer.eos_token_id]))
    for text, right in {
        '{"title": "Ada"}': True,
        '{"title": "Ada", "age": 3, "names": ["A", "B"]}': True,
        '{"title": "Ada", "born": "2023-12-07T18:30:00"}': True,
        '{"title": "Ada", "born": "2023-13-07T18:30:00"}': False,
        '{"age": 3}': False,
        '{"title": "Ada", "colour": "red"}': False,
        '{"title": "' + "a" * (MAX_TEXT + 1) + '"}': False,
        '{"title":\n"Ada"}': False,
    }.items():
        assert grammar.accepts(text) is right, text
