"""The readers of what people write: one clear sentence for whatever a file holds."""

import random

import pytest
import yaml

from lib.workbook import inputs
from lib.workbook.artifacts import ROOT
from lib.workbook.inputs import (
    DEEPEST,
    MOST_YAML_BYTES,
    InputError,
    parse_json,
    parse_yaml,
    read_records,
    read_text,
    read_yaml,
)

BOMB = "a0: &a0 [1]\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 12)}]\n" for i in range(1, 9))
DEEP = DEEPEST + 2


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a: 1\nb:\n  c: 2\n  c: 3", r"key 'c' stands twice \(line 3\)"),
        ("[a]: 1", r"a key must be a plain value \(line 1\)"),
        ("a: !!python/object:os.system x", r"tag tag:yaml.org,2002:python/object:os.system is not known"),
        (BOMB, "its aliases expand without bound"),
        ("[" * DEEP + "]" * DEEP, r"nested too deeply \(line 1\)"),
        ("a: 1\n---\nb: 2", "single document"),
    ],
)
def test_yaml_that_nobody_meant_is_one_sentence(tmp_path, monkeypatch, text, complaint):
    monkeypatch.setattr(inputs, "MOST_YAML_VALUES", 10_000)
    path = tmp_path / "some.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=complaint) as caught:
        read_yaml(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 700


def test_the_projects_own_files_read_as_pyyaml_reads_them():
    paths = sorted((ROOT / "data").rglob("*.yaml"))[::12] + sorted((ROOT / "notebooks" / "profiles").glob("*.yaml"))
    for path in paths:
        if not path.is_relative_to(ROOT / "data" / "generated"):
            assert read_yaml(path) == yaml.safe_load(path.read_text(encoding="utf-8"))


def test_files_that_are_missing_too_large_or_no_text(tmp_path):
    with pytest.raises(InputError, match=r"none\.yaml: cannot be read: No such file"):
        read_yaml(tmp_path / "none.yaml")
    with pytest.raises(InputError, match="cannot be read"):
        read_text("a\0b")
    large = tmp_path / "large.yaml"
    with open(large, "wb") as file:
        file.truncate(MOST_YAML_BYTES + 1)
    with pytest.raises(InputError, match=r"more than 8,388,608"):
        read_yaml(large)
    (tmp_path / "latin.yaml").write_bytes(b"a: \xe9")
    with pytest.raises(InputError, match="cannot be read: 'utf-8' codec"):
        read_yaml(tmp_path / "latin.yaml")


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ('{"a": 1, "a": 2}', "key 'a' stands twice"),
        ('{"a": {"b": ["x", "\\ud83d"]}}', "half a surrogate pair"),
        ('{"a": NaN}', "NaN is no JSON"),
    ],
)
def test_json_lines_that_nobody_meant_are_one_sentence(tmp_path, line, complaint):
    path = tmp_path / "some.jsonl"
    path.write_text('{"fine": "\\ud83d\\ude00"}\n\n' + line, encoding="utf-8")
    with pytest.raises(InputError, match=complaint) as caught:
        list(read_records(path))
    assert str(caught.value).startswith(f"{path}, line 3: ")
    assert "\n" not in str(caught.value)
    str(caught.value).encode()


PIECES = """{ } [ ] : , " ' a 1 - &a *a <<: !!bool ? | > \\ud83d é --- %TAG 2024-13-01 1e999 # null ~""".split(" ")
PIECES += ["\n", "  ", "- ", ": ", "\0", "\ufeff", "\t", "9" * 30]


@pytest.mark.parametrize("parse", [parse_yaml, parse_json])
def test_whatever_the_text_no_other_error_comes_out(parse):
    rng = random.Random(5)
    outcomes = {"read": 0, "refused": 0}
    for _ in range(3_000):
        text = "".join(rng.choices(PIECES, k=rng.randrange(1, 14)))
        try:
            parse(text)
            outcomes["read"] += 1
        except ValueError as error:
            str(error).encode()
            outcomes["refused"] += 1
    assert min(outcomes.values()) > 15
