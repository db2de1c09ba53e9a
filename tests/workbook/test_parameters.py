import json

import pytest
import yaml

from lib.workbook.parameters import (
    FOLDER,
    Parameter,
    ProfileError,
    check_parameters,
    declared,
    notebook_parameters,
    read_profile,
)

PROFILES = sorted((FOLDER / "profiles").glob("*.yaml"))
EVERY = {path.stem: declared(path.stem) for path in sorted(FOLDER.glob("*.ipynb"))}


def test_a_cell_is_read_with_types_defaults_and_comments(tmp_path):
    source = 'name: str = "#a"  # one of: #a, b (the other)\nrows: list = [\n    [1, 2],\n]  # two a row\nn: int = 3'
    cell = {"cell_type": "code", "metadata": {"tags": ["parameters"]}, "source": source.splitlines(keepends=True)}
    (tmp_path / "x.ipynb").write_text(json.dumps({"cells": [cell, cell | {"metadata": {}}]}))
    found = declared("x", tmp_path)
    assert found == {
        "name": Parameter("name", "str", "#a", "one of: #a, b (the other)"),
        "rows": Parameter("rows", "list", [[1, 2]], "two a row"),
        "n": Parameter("n", "int", 3, ""),
    }
    assert found["name"].choices == ["#a", "b"]
    (tmp_path / "y.ipynb").write_text(json.dumps({"cells": [cell | {"source": ["a = 1"]}]}))
    with pytest.raises(ProfileError, match="a parameter is"):
        declared("y", tmp_path)


@pytest.mark.parametrize(
    ("parameter", "good", "bad"),
    [
        (Parameter("n", "int", 3, "at least 1"), [1, 10**9], [0, "7", 7.0, True, None]),
        (Parameter("x", "float", 0.5, "0 to 1"), [0, 1, 0.3], [1.01, -0.1, float("nan"), 10**400, True]),
        (Parameter("n", "int", 200, "published: 1 to 5 of them; at most; 100 to 100,000"), [100_000], [99, 100_001]),
        (Parameter("x", "float", None, "at least 0"), [None, 0, 2.5], [-1, "no"]),
        (Parameter("k", "list[int]", [3], "1 to 100"), [[1, 100]], [[], [0], [101], 3, ["3"], [3.0], [True]]),
        (Parameter("s", "str", "a", "one of: a, b"), ["b"], ["c", "", 3]),
        (Parameter("m", "str", "m", "a model, or remote:NAME"), ["remote:gpt"], ["remote:", "remote: ", ""]),
    ],
)
def test_what_a_value_may_be(parameter, good, bad):
    assert [value for value in good if parameter.fault(value)] == []
    assert [value for value in bad if not parameter.fault(value)] == []


def test_a_name_has_the_same_type_default_and_range_in_every_notebook():
    """`profile` alone may differ: a notebook beside the report may write into a folder of its own."""
    first = {}
    for notebook, parameters in EVERY.items():
        for name, parameter in parameters.items():
            said = parameter.kind, parameter.default, parameter.bounds, parameter.choices
            if name != "profile":
                assert first.setdefault(name, said) == said, (notebook, name)


def test_a_name_that_papermill_injects_must_be_known():
    cells = ["import os", "seed = 3\nworld = 'hard'", "writer = 'x'", "total = seed + 1"]
    values = {"seed": 3, "world": "hard", "writer": "x", "total": 4, "profile": "quick"}
    parameters = check_parameters("01_data_gen", {"In": cells} | values)
    assert (parameters.seed, parameters.world, parameters.n_personas) == (3, "hard", 791)
    assert not hasattr(parameters, "writer")
    with pytest.raises(ProfileError, match=r"notebook 01_data_gen: n_persnas: no notebook.* did you mean n_personas"):
        check_parameters("01_data_gen", {"In": ["", "# Parameters\nn_persnas = 5\n"], "n_persnas": 5})
    with pytest.raises(ProfileError, match="02_context_baselines has no parameter writer"):
        notebook_parameters("02_context_baselines", writer="x")


@pytest.mark.parametrize(
    ("notebook", "values", "words"),
    [
        ("07_planner", {"planner": "remote:a"}, "planner: a model behind an endpoint cannot be fine-tuned"),
        ("03_cot_augmentation", {"spending_limit": -1.0}, "spending_limit: must be at least 0"),
        ("02_context_baselines", {"profile": "yes"}, "cannot name a profile"),
    ],
)
def test_what_a_notebook_refuses_is_one_sentence(notebook, values, words):
    with pytest.raises(ProfileError, match=words) as caught:
        notebook_parameters(notebook, values)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("path", PROFILES, ids=lambda path: path.stem)
def test_every_profile_is_valid_and_holds_only_what_differs(path):
    values = read_profile(path)
    assert yaml.safe_load(path.read_text()) == values, "papermill reads the same values"
    for name in values.keys() - {"profile"}:
        default = next(parameters[name].default for parameters in EVERY.values() if name in parameters)
        assert values[name] != default, f"{name} is the default"


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ("n_personas: 14", "n_persona: 28", "n_persona: no notebook has this parameter; did you mean n_personas"),
        ("", "world: persona\n", "world: must be one of explicit, mixed, hard"),
        ("profile: smoke", "profile: quick", "profile"),
    ],
)
def test_an_error_names_the_file_and_the_key(tmp_path, old, new, key):
    text, path = (FOLDER / "profiles" / "smoke.yaml").read_text(), tmp_path / "smoke.yaml"
    path.write_text(text.replace(old, new, 1) if old else text + new)
    with pytest.raises(ProfileError) as caught:
        read_profile(path)
    assert str(path) in str(caught.value)
    assert key in str(caught.value)
    assert "\n" not in str(caught.value)
    with pytest.raises(ProfileError, match=r"no such profile \(there are: smoke\)"):
        read_profile(tmp_path / "smke.yaml")
