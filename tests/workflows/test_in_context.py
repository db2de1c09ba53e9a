"""The in-context reader: halves of the connectors, renamed names, and prompts to learn from."""

import random
import re
import zlib

import numpy as np
import pandas as pd
import pytest

from lib.workflows import in_context
from lib.workflows.catalogue import Catalogue
from lib.workflows.in_context import (
    ODD,
    WORD,
    Known,
    Renaming,
    definition_names,
    flow_names,
    halves,
    pool_of,
    training_prompts,
)
from lib.workflows.language import called_apis, parse, print_flow
from lib.workflows.prompts import INSTRUCTION, STOP, USE_OF_DEFINITIONS


def vectors_of(texts):
    """Unit vectors of texts: hashed words, so that texts with common words are near."""
    vectors = np.full((len(texts), 64), 1e-3, dtype=np.float32)
    for row, text in enumerate(texts):
        for word in re.findall(r"\w+", text.lower()):
            vectors[row, zlib.crc32(word.encode()) % 64] += 1
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


DESCRIBED_KEY = re.compile(r"(?:Keys: |; )([^;:]+?) \((?:string|integer|number|boolean|array|object)\)")
DEFINITION = re.compile(r"^(shared_[^\s(]+): (.*)$", re.MULTILINE)


def count(text):
    return len(text) // 4


@pytest.fixture(scope="module")
def split(catalogue, pairs):
    return halves(catalogue, pairs)


@pytest.fixture(scope="module")
def pools(catalogue, pairs, split):
    vectors = vectors_of(pairs["request"])
    texts = vectors_of([api.text for api in catalogue])
    return {half: pool_of(half, split, pairs, vectors, catalogue, texts) for half in "ab"}


@pytest.fixture(scope="module")
def made(pools):
    return pd.concat(training_prompts(pool, 60, 3, count).assign(half=half) for half, pool in pools.items())


@pytest.fixture(scope="module")
def names(catalogue):
    """Every name that a definition of the catalogue shows."""
    return set().union(*(definition_names(api).union(*(one.key.split("/") for one in api.returns))
                         for api in catalogue))  # fmt: skip


@pytest.fixture(scope="module")
def taken(catalogue):
    return Known.of(catalogue)


NONE = Known(frozenset(), frozenset())


def connectors(apis):
    return {name.split(".")[0] for name in apis}


def all_names(text):
    return set().union(*flow_names(parse(text)))


# ---------------------------------------------------------------- halves


def test_halves_are_disjoint_and_even(catalogue, pairs, split):
    assert set(split) == set(catalogue.connectors)
    used = pairs.loc[pairs["split"] == "training", "apis"].map(connectors).explode().map(split)
    assert used.value_counts(normalize=True).between(0.44, 0.56).all()


def test_other_connectors_are_dealt_by_their_use_in_training_flows():
    apis = [["x.A", "y.A"]] * 3 + [["z.A"]] * 2 + [["w.A"]] + [["w.A"]] * 9
    flows = pd.DataFrame({"split": ["training"] * 6 + ["test"] * 9, "apis": apis})
    assert halves(Catalogue({}, {"v": None}), flows) == {"x": "a", "y": "b", "z": "a", "w": "b", "v": "b"}


# ---------------------------------------------------------------- new names


@pytest.mark.parametrize("kept", [0.0, 1.0])
def test_every_name_becomes_another_one_and_two_names_two(names, taken, kept):
    new = Renaming(names, taken, kept, random.Random(1))
    renamed = {name: new.name(name) for name in names}
    assert len(set(renamed.values())) == len(names)
    assert not names & set(renamed.values())


def test_names_keep_their_shape():
    given = {"emailMessage/To", "SendEmailV2", "shared_service-now", "$filter", "123"}
    new = Renaming(given, NONE, 0, random.Random(2))
    assert re.fullmatch(r"[a-z]+[A-Z][a-z]+/[A-Z][a-z]+", new.name("emailMessage/To"))
    assert re.fullmatch(r"(?:[A-Z][a-z]+){2}V2", new.name("SendEmailV2"))
    assert re.fullmatch(r"shared_[a-z]+-[a-z]+", new.name("shared_service-now"))
    assert re.fullmatch(r"\$[a-z]+", new.name("$filter"))
    assert re.fullmatch(r"[a-z]+", new.name("123"))
    assert new.name("SendEmailV2")[:-2] == new.name("SendEmail")  # versions stay siblings


def test_a_flow_keeps_all_but_its_names(pairs, names, taken):
    for dsl in pairs["dsl"].head(200):
        own = all_names(dsl)
        assert own <= names
        renamed = print_flow(Renaming(own, taken, 0, random.Random(1)).flow(parse(dsl)))
        assert not all_names(renamed) & names
        assert len(all_names(renamed)) == len(own)
        assert re.sub(r"[A-Za-z]+", "", renamed) == re.sub(r"[A-Za-z]+", "", dsl)


def test_a_definition_is_renamed_and_its_words_are_not(catalogue, names, taken):
    for api in list(catalogue)[::7]:
        new = Renaming(definition_names(api), taken, 0, random.Random(1))
        renamed = new.api(api)
        assert not definition_names(renamed) & names
        assert renamed.definition_in("compact").split(": ", 1)[0] == ".".join(map(new.name, api.name.split(".")))
        described = renamed.definition_in("described")
        assert not names & set(DESCRIBED_KEY.findall(described))
        assert len(DESCRIBED_KEY.findall(described)) == len(DESCRIBED_KEY.findall(api.definition_in("described")))


def test_odd_names_in_a_text_are_exchanged(taken):
    """DateTime is a name of other APIs, the prompt has none of its words."""
    new = Renaming({"emailMessage/To", "title"}, taken, 1.0, random.Random(1))
    assert new.text("The title and the DateTime.") == f"The title and the {new.name('DateTime')}."
    assert new.text("See emailMessage/To.") == f"See {new.name('emailMessage/To')}."
    assert not {"DateTime", "emailMessage/To"} & {new.name("DateTime"), new.name("emailMessage/To")}


# ---------------------------------------------------------------- prompts to learn from


@pytest.mark.slow
def test_a_prompt_has_no_name_of_the_catalogue_and_all_of_its_target(made, names):
    unmistakable = [name for name in names if ODD.search(name) and WORD.search(name)]
    listed = re.compile(r"(?<![\w$@/.-])(?:" + "|".join(map(re.escape, unmistakable)) + r")(?![\w@/-])")
    for prompt, target in zip(made["prompt"], made["target"], strict=True):
        assert all(name in prompt for name in [*called_apis(parse(target)), *all_names(target)])
        rest = prompt.removeprefix(INSTRUCTION).replace(USE_OF_DEFINITIONS, "")
        *shots, asked = rest.split("\n\nRequest: ")[1:]
        flows = [shot.split("\n\n")[0].split("\nFlow:\n", 1)[1] for shot in shots] + [target.removesuffix(STOP[0])]
        for flow in flows:
            assert not all_names(flow) & names
            assert not listed.search(flow)
        for name, says in DEFINITION.findall(rest):
            keys = DESCRIBED_KEY.findall(says) or says.partition(" Keys: ")[2].split(", ")
            assert not {*name.split(".", 1), *keys} & names
            assert not listed.search(f"{name}: {says}")
        assert asked.endswith("\nFlow:\n")


@pytest.mark.slow
def test_the_pool_of_a_half_holds_nothing_of_the_other(pools, split, catalogue, pairs):
    training = set(pairs.loc[pairs["split"] == "training", "pair"])
    for half, pool in pools.items():
        assert len(pool.rows) > 100
        assert {split[name] for row in pool.rows for name in connectors(row.apis)} == {half}
        assert {split[api.connector] for api in pool.apis.values()} == {half}
        assert all(api.in_training for api in pool.apis.values())
        assert {row.pair for row in pool.rows} <= training
        assert np.allclose(vectors_of([catalogue[name].text for name in pool.apis]), pool.api_vectors)
        assert np.allclose(vectors_of([row.request for row in pool.rows]), pool.vectors)


@pytest.mark.slow
def test_few_shots_of_each_kind(pools, made):
    """As the parts of the prompt show it: the flow itself never, wrong ones and missing APIs where the kind says so."""
    own = {half: {" ".join(row.request.split()) for row in pool.rows} for half, pool in pools.items()}
    for row in made.itertuples():
        _, *parts = row.prompt.split("\n\nRequest: ")
        shots = [part.split("\n\n")[0].split("\nFlow:\n", 1) for part in parts[:-1]]
        target = set(called_apis(parse(row.target)))
        called = [set(called_apis(parse(flow))) for _, flow in shots]
        assert len(shots) == row.shown <= row.shots
        assert {" ".join(request.split()) for request, _ in shots} <= own[row.half]
        defined = [name for name, _ in DEFINITION.findall(row.prompt)]
        assert (row.definitions == "none") == (not defined)
        if row.kind == "nearest wrong":
            assert target not in called
        if row.kind == "definition only":
            alone = target.difference(*called)
            assert alone
            assert alone <= set(defined)
    assert set(made["kind"]) == set(in_context.KINDS)


@pytest.mark.slow
def test_a_pool_that_is_too_small_gives_what_it_can(pools, split, pairs, catalogue):
    few = pairs[pairs["pair"].isin([row.pair for row in pools["a"].rows[:4]])].reset_index(drop=True)
    pool = pool_of("a", split, few, vectors_of(few["request"]), catalogue, vectors_of([api.text for api in catalogue]))
    assert set(training_prompts(pool, 30, 0, count)["shots"]) <= {0, 1, 3}
    assert training_prompts(pool._replace(rows=[]), 30, 0, count).empty
