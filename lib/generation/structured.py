"""Answers as JSON: taken out of what a language model says, validated, and asked for again with what is wrong."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ValidationError

from lib.generation.answers import LONE_SURROGATE

ROUNDS = 2  # of asking again
MAX_TEXT, MAX_LIST = 240, 40  # characters of one text in it, entries of one list
STARTS = 20  # braces of an answer at which JSON is looked for
QUOTED = 1200  # characters of a wrong answer that are held up to the model
TOO_DEEP = "not JSON that can be read: nested too deeply, or a number too long"
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
# A local time without offset; a day that every month has.
MOMENT = r"^20[0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])T([01][0-9]|2[0-3]):[0-5][0-9]:00$"


Form = TypeVar("Form", bound=BaseModel)


class AnswerError(ValueError):
    """An answer that is not what was asked for; the message can be told to the model."""


@dataclass(frozen=True)
class Question(Generic[Form]):
    """What to ask, the form of the answer, and a check of what the form cannot say, which raises ValueError."""

    prompt: str
    form: type[Form]
    check: Callable[[Form], None] = lambda answer: None

    @property
    def text(self) -> str:
        """The whole prompt: matter, instruction, schema, in which a pattern of dates would take many tokens."""
        schema = json.dumps(schema_of(self.form, without="pattern"), ensure_ascii=False)
        return (
            f"{self.prompt}\n\n"
            "Answer with one JSON object and nothing else: no explanation, no comment. It must be an instance of a "
            'JSON schema. For the schema {"type": "object", "properties": {"colours": {"type": "array", "items": '
            '{"type": "string"}}}}, one right answer is {"colours": ["red", "green"]}. '
            f"The schema of your answer:\n{schema}"
        )


def ask(
    model: Any,
    questions: Sequence[Question[Form]],
    constrained: bool = False,
    rounds: int = ROUNDS,
    **settings: Any,
) -> list[Form | None]:
    """The valid answer to each question, or None. All questions of a round go to the model together; a wrong answer is
    held up to it together with what is wrong with it, `rounds` times at most. The model's `generate` gets the
    `settings` and, if `constrained`, each schema as a grammar (local models only). Raises as `generate` does.
    """
    values: list[Form | None] = [None] * len(questions)
    prompts, waiting = [question.text for question in questions], list(range(len(questions)))
    grammars = [grammar_of(question.form) for question in questions] if constrained else []
    for _ in range(rounds + 1):
        forms = [grammars[i] for i in waiting] if constrained else None
        asked = [prompts[i] for i in waiting]
        answers = model.generate(asked, chat=True, grammars=forms, **settings) if waiting else []
        for i, answer in zip(waiting, answers, strict=True):
            try:
                values[i] = read_answer(answer, questions[i])
            except AnswerError as error:
                quoted = answer if len(answer) <= QUOTED else f"{answer[:QUOTED]} …"
                prompts[i] = (
                    f"{questions[i].text}\n\nYou answered:\n{quoted or '(nothing)'}\n\nThat cannot be used: {error}\n"
                    "Give the whole answer again with this put right, as one JSON object and nothing else."
                )
        waiting = [i for i in waiting if values[i] is None]
    return values


def read_answer(text: str, question: Question[Form]) -> Form:
    """The valid answer in a text, its texts one line each, without control characters. Raises AnswerError where there
    is none; says why, in one line of at most 400 characters: it may hold what the model said."""
    objects, fault = json_in(text)
    for found in objects:
        try:
            answer = question.form.model_validate(tidy(found))
            question.check(answer)
            return answer
        except ValidationError as error:
            problems = [f"{'.'.join(map(str, part['loc'])) or 'object'}: {part['msg']}" for part in error.errors()[:4]]
            fault = fault or "; ".join(problems)
        except (RecursionError, ValueError) as error:
            fault = fault or (str(error) if isinstance(error, ValueError) else TOO_DEEP)
    fault = " ".join(CONTROL.sub(" ", fault).split())
    raise AnswerError(fault if len(fault) <= 400 else f"{fault[:400]} …")


def json_in(text: str) -> tuple[list[dict], str]:
    """JSON objects in a text, the largest first, and what is wrong with one that cannot be read (empty: nothing).

    What stands around them, such as prose and fences, is passed over. Braces of prose are no fault where an object
    stands before them.
    """
    objects: list[tuple[int, dict]] = []
    fault, start, starts = "", text.find("{"), 0
    while start >= 0 and starts < STARTS:
        end, problem, starts = start + 1, "", starts + 1
        try:
            found, end = json.JSONDecoder().raw_decode(text, start)
            objects.append((end - start, found))
        except json.JSONDecodeError as error:
            problem = f"not JSON: {error.msg} before {text[error.pos : error.pos + 20]!r}"
            if error.msg.startswith("Unterminated") or error.pos >= len(text.rstrip()):
                problem, end = "the JSON object is cut off: it has no end, be shorter", len(text)
        except (ValueError, RecursionError):
            problem = TOO_DEEP
        fault = fault or ("" if objects else problem)
        start = text.find("{", end)
    found = [one for _, one in sorted(objects, key=lambda pair: -pair[0])]
    return found, fault or ("" if objects else "there is no JSON object in the answer")


def tidy(value: object) -> object:
    """JSON with each text on one line and without control characters. Raises AnswerError where a text or list is too
    long, or a text holds half a character."""
    if isinstance(value, str):
        text = " ".join(CONTROL.sub(" ", value).split())
        if len(text) > MAX_TEXT:
            raise AnswerError(f"the text {text[:30]!r} … has {len(text)} characters, more than {MAX_TEXT}")
        if LONE_SURROGATE.search(text):
            raise AnswerError("a text holds half of a surrogate pair")
        return text
    if isinstance(value, list):
        if len(value) > MAX_LIST:
            raise AnswerError(f"a list has {len(value)} entries, more than {MAX_LIST}")
        return [tidy(part) for part in value]
    return {tidy(key): tidy(part) for key, part in value.items()} if isinstance(value, dict) else value


def schema_of(form: type[BaseModel], without: str = "") -> dict:
    """The JSON schema of an answer, without titles and defaults; texts and lists have a largest length, and times a
    pattern (they are local, while JSON schema's `date-time` has an offset), `without` which or their "format"."""

    def bounded(schema: Any, named: bool = False) -> Any:
        if isinstance(schema, list):
            return [bounded(part) for part in schema]
        if not isinstance(schema, dict):
            return schema
        left = () if named else ("title", "default")  # a property may be called so
        kept = {key: bounded(part, key in ("properties", "$defs")) for key, part in schema.items() if key not in left}
        if kept.get("format") == "date-time":
            kept.setdefault("pattern", MOMENT)
            kept.pop(without, None)
        elif kept.get("type") == "string" and not {"enum", "const", "pattern"} & set(kept):
            kept.setdefault("maxLength", MAX_TEXT)
        elif kept.get("type") == "array":
            kept.setdefault("maxItems", MAX_LIST)
        return kept

    return bounded(form.model_json_schema())


def grammar_of(form: type[BaseModel]) -> str:
    """The schema of an answer as a grammar for `lib.generation.decoding`; keys in its order, single spaces."""
    layout = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
    return f"start: %json {json.dumps(schema_of(form, without='format') | {'x-guidance': layout})}"
