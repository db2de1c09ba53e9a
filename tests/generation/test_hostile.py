"""Random damage to what comes from outside: nothing but the project's own errors comes of it."""

import json
import random

import pytest

from lib.generation.remote import read_body

ANSWER = {
    "id": "1",
    "choices": [
        {"index": 0, "text": "yes", "message": {"role": "assistant", "content": "yes"}, "finish_reason": "stop"}
    ],
    "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
}
VALUES = [
    "null", "true", "-1", "0", "1.0", "1e999", "NaN", "-Infinity", "9" * 5000, "9" * 30, '""', '"\\ud83d"', '"\\u0000"',
    '"\\udfff\\ud83d"', '"length"', '"content_filter"', "[]", "{}", "[[]]", '{"0": {}}', "[" * 3000 + "]" * 3000,
]  # fmt: skip


def places(value, path=()):
    """The path of each value within a JSON value."""
    yield path
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(inner, (*path, key))


def replaced(value, path, new):
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = replaced(value[path[0]], path[1:], new)
    return copy


def hostile_body(draw):
    """An answer with some values replaced and some bytes changed."""
    body = ANSWER
    marks = []
    for _ in range(draw.randint(1, 3)):
        path = draw.choice(list(places(body)))
        marks.append(draw.choice(VALUES))
        body = replaced(body, path, f"@{len(marks) - 1}@")
    text = json.dumps(body)
    for i, value in enumerate(marks):
        text = text.replace(f'"@{i}@"', value)
    return damaged(draw, text.encode()) if draw.random() < 0.3 else text.encode()


def damaged(draw, content):
    """Bytes changed, cut off, left out or doubled."""
    content = bytearray(content)
    for _ in range(draw.randint(1, 4)):
        start = draw.randrange(len(content) + 1)
        stop = start + draw.choice([0, 1, 1, 4, 30])
        content[start:stop] = draw.choice(
            [b"", draw.randbytes(1), draw.randbytes(stop - start), content[start:stop] * 2]
        )
    return bytes(content[: draw.choice([None, None, len(content) // 2])])


@pytest.mark.parametrize("chat", [False, True])
def test_answers(chat):
    draw, read = random.Random(0), 0
    for _ in range(1500):
        try:
            text, _, tokens = read_body(hostile_body(draw), chat)
        except ValueError:
            continue
        assert text is None or text.encode() is not None
        assert tokens is None or all(type(count) is int and count >= 0 for count in tokens)
        read += 1
    assert read > 300
