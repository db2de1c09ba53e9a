"""The in-context model: halves of the connectors, renamed names, prompts to learn from, and who answers what."""

import random
import re
import zlib

import numpy as np
import pandas as pd
import pytest

from lib.workflows import in_context
from lib.workflows.in_context import (
    DEFINED,
    ODD,
    SHOTS,
    WORD,
    Known,
    Renaming,
    catalogue_names,
    connectors_of,
    definition_names,
    flow_fields,
    flow_names,
    half_of,
    halves,
    mixture,
    pool_of,
    training_prompts,
    words,
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
    return halves(catalogue, pairs, seed=1)


@pytest.fixture(scope="module")
def pools(catalogue, pairs, split):
    vectors = {"pretrained": vectors_of(pairs["request"])}
    texts = vectors_of([api.text for api in catalogue])
    return {half: pool_of(half, split, pairs, vectors, catalogue, texts) for half in "ab"}


@pytest.fixture(scope="module")
def made(pools):
    """Definitions of half a are compact, those of half b described as far as they fit."""
    forms = {"a": "compact", "b": "described"}
    return {half: training_prompts(pool, 60, 3, count, form=forms[half]) for half, pool in pools.items()}


@pytest.fixture(scope="module")
def known(catalogue):
    return catalogue_names(catalogue)


@pytest.fixture(scope="module")
def taken(catalogue):
    return Known.of(catalogue)


NONE = Known(frozenset(), frozenset())


# ---------------------------------------------------------------- halves


def test_halves_are_disjoint_even_and_the_same_again(catalogue, pairs, split):
    assert set(split) == set(catalogue.connectors)
    assert set(split.values()) == {"a", "b"}
    assert split == halves(catalogue, pairs, seed=1)
    used = pairs.loc[pairs["split"] == "training", "apis"].map(connectors_of).explode().map(split)
    assert used.value_counts(normalize=True).between(0.44, 0.56).all()
    unused = [split[name] for name in split if name not in {c for apis in pairs["apis"] for c in connectors_of(apis)}]
    assert abs(unused.count("a") - unused.count("b")) <= 1


def test_more_flows_lie_in_one_half_than_by_chance(pairs, split):
    apis = pairs.loc[pairs["split"] == "training", "apis"]
    names = sorted(split)
    rng = np.random.default_rng(0)
    drawn = [dict(zip(names, rng.permutation(list(split.values())), strict=True)) for _ in range(10)]
    pure = [np.mean([half_of(one, cut) != "" for one in apis]) for cut in drawn]
    assert np.mean([half_of(one, split) != "" for one in apis]) > max(pure)


def test_halves_read_no_test_flow(catalogue, pairs, split):
    shuffled = pairs.copy()
    other = (pairs["split"] != "training").to_numpy()
    shuffled.loc[other, "apis"] = pairs.loc[other, "apis"].sample(frac=1, random_state=0).to_numpy()[::-1]
    assert halves(catalogue, shuffled, seed=1) == split


def test_two_groups_that_never_meet_are_the_halves(catalogue):
    names = sorted(catalogue.connectors)
    groups = [names[0::2], names[1::2]]
    rng = np.random.default_rng(0)
    apis = [[f"{name}.X" for name in rng.choice(groups[i % 2], 2)] for i in range(4000)]
    split = halves(catalogue, pd.DataFrame({"split": "training", "apis": apis}), seed=0)
    assert {frozenset(name for name in names if split[name] == half) for half in "ab"} == set(map(frozenset, groups))


def test_the_half_of_a_flow():
    split = {"shared_x": "a", "shared_y": "b"}
    assert half_of(["shared_x.A", "shared_x.B.C"], split) == "a"
    assert half_of(["shared_x.A", "shared_y.A"], split) == ""
    assert half_of(["shared_x.A", "shared_z.A"], split) == ""
    assert half_of([], split) == ""


# ---------------------------------------------------------------- new names


@pytest.mark.parametrize("kept", [0.0, 0.5, 1.0])
def test_every_name_becomes_another_one_and_two_names_two(known, taken, kept):
    new = Renaming(known, taken, kept, random.Random(1))
    renamed = {name: new.name(name) for name in known}
    assert len(set(renamed.values())) == len(known)
    assert not known & set(renamed.values())


def test_names_keep_their_shape():
    new = Renaming(
        {"emailMessage/To", "SendEmailV2", "shared_service-now", "$filter", "123"}, NONE, 0, random.Random(2)
    )
    assert re.fullmatch(r"[a-z]+[A-Z][a-z]+/[A-Z][a-z]+", new.name("emailMessage/To"))
    assert re.fullmatch(r"(?:[A-Z][a-z]+){2}V2", new.name("SendEmailV2"))
    assert re.fullmatch(r"shared_[a-z]+-[a-z]+", new.name("shared_service-now"))
    assert re.fullmatch(r"\$[a-z]+", new.name("$filter"))
    assert re.fullmatch(r"[a-z]+", new.name("123"))
    assert new.name("emailMessage/To") == new.name("emailMessage/To")
    assert new.name("SendEmailV2")[:-2] == new.name("SendEmail")  # versions stay siblings


def test_some_words_stay_and_at_least_one_goes():
    name = "CreateApprovalTaskForManager"
    shared = [
        set(words(Renaming({name}, NONE, 0.5, random.Random(seed)).name(name))) & set(words(name)) for seed in range(50)
    ]
    assert {len(one) for one in shared} > {1, 2, 3}
    assert all(len(one) < 5 for one in shared)
    assert Renaming({name}, NONE, 0, random.Random(0)).name(name) != name


def test_a_flow_keeps_all_but_its_names(pairs, known, taken):
    for dsl in pairs["dsl"].head(300):
        flow = parse(dsl)
        assert flow_names(flow) <= known
        renamed = Renaming(flow_names(flow), taken, 0, random.Random(1)).flow(flow)
        assert parse(print_flow(renamed)) == renamed
        assert not flow_names(renamed) & known
        assert len(flow_names(renamed)) == len(flow_names(flow))
        assert re.sub(r"[A-Za-z]+", "", print_flow(renamed)) == re.sub(r"[A-Za-z]+", "", print_flow(flow))


def test_outputs_of_a_call_are_renamed_with_it():
    text = (
        'outputs_CreateTask = shared_todo.CreateTask({"title": "Call"});\n'
        "if (outputs_CreateTask?['body']?['taskId'] == 1 && !contains(triggerOutputs?['body']?['tags']?[0], \"x\")) {\n"
        "  shared_todo.Close({\"id\": outputs_CreateTask?['body']?['taskId']});\n"
        "}"
    )
    flow = parse(text)
    assert flow_fields(flow) == {"taskId", "tags"}
    new = Renaming(flow_names(flow), NONE, 0, random.Random(1))
    create, task, close = (new.name(word) for word in ("Create", "Task", "Close"))
    todo, title, tag, id_ = (new.name(word) for word in ("todo", "title", "tags", "id"))
    field = f"{task.lower()}{id_.capitalize()}"
    assert print_flow(new.flow(flow)) == (
        f'outputs_{create}{task} = shared_{todo}.{create}{task}({{"{title}": "Call"}});\n'
        f"if (outputs_{create}{task}?['body']?['{field}'] == 1 && "
        f"!contains(triggerOutputs?['body']?['{tag}']?[0], \"x\")) {{\n"
        f"  shared_{todo}.{close}({{\"{id_}\": outputs_{create}{task}?['body']?['{field}']}});\n"
        "}"
    )


def test_a_loop_is_renamed_with_what_it_goes_through():
    flow = parse('for (issue of issues?["list"]) { shared_jira.Close({"id": issue?["key"]}); }')
    assert flow_names(flow) == {"list", "shared_jira", "Close", "id", "key"}
    new = Renaming(flow_names(flow), NONE, 0, random.Random(1))
    issue, issues = new.name("issue"), new.name("issues")
    assert print_flow(new.flow(flow)) == (
        f"for ({issue} of {issues}?['{new.name('list')}']) {{\n"
        f"  {new.full('shared_jira.Close')}({{\"{new.name('id')}\": {issue}?['{new.name('key')}']}});\n}}"
    )


def test_a_definition_is_renamed_and_its_words_are_not(catalogue, known, taken):
    for api in list(catalogue)[::7]:
        new = Renaming(definition_names(api), taken, 0, random.Random(1))
        renamed = new.api(api)
        assert not definition_names(renamed) & known
        assert [len(one.summary.split()) for one in renamed.parameters] == [
            len(p.summary.split()) for p in api.parameters
        ]
        assert renamed.definition_in().split(": ", 1)[0] == new.full(api.name)
        assert not known & set(re.findall(r'"Key": "([^"]*)"', renamed.definition_in("record")))
        described = renamed.definition_in("described")
        assert not known & set(DESCRIBED_KEY.findall(described))
        assert len(DESCRIBED_KEY.findall(described)) == len(DESCRIBED_KEY.findall(api.definition_in("described")))


def test_odd_names_in_a_text_are_exchanged(taken):
    """DateTime is a name of other APIs, the prompt has none of its words."""
    new = Renaming({"emailMessage/To", "title"}, taken, 1.0, random.Random(1))
    assert new.text("The title and the DateTime.") == f"The title and the {new.name('DateTime')}."
    assert new.text("See emailMessage/To.") == f"See {new.name('emailMessage/To')}."
    assert not {"DateTime", "emailMessage/To"} & {new.name("DateTime"), new.name("emailMessage/To")}


# ---------------------------------------------------------------- prompts to learn from


def test_no_name_of_the_catalogue_is_in_a_prompt_or_its_target(made, known):
    unmistakable = [name for name in known if ODD.search(name) and WORD.search(name)]
    listed = re.compile(r"(?<![\w$@/.-])(?:" + "|".join(map(re.escape, unmistakable)) + r")(?![\w@/-])")
    for prompts in made.values():
        for prompt, target in zip(prompts["prompt"], prompts["target"], strict=True):
            rest = prompt.removeprefix(INSTRUCTION).replace(USE_OF_DEFINITIONS, "")
            *shots, asked = rest.split("\n\nRequest: ")[1:]
            flows = [shot.split("\n\n")[0].split("\nFlow:\n", 1)[1] for shot in shots] + [target.removesuffix(STOP[0])]
            for flow in flows:
                assert not flow_names(parse(flow)) & known
                assert not listed.search(flow)
            for name, says in DEFINITION.findall(rest):
                keys = DESCRIBED_KEY.findall(says) or says.partition(" Keys: ")[2].split(", ")
                assert not {*name.split(".", 1), *keys} & known
                assert not listed.search(f"{name}: {says}")
            assert asked.endswith("\nFlow:\n")


def test_everything_in_a_target_is_shown_in_its_prompt(made):
    for prompts in made.values():
        for prompt, target in zip(prompts["prompt"], prompts["target"], strict=True):
            flow = parse(target)
            assert all(api in prompt for api in called_apis(flow))
            assert all(name in prompt for name in flow_names(flow))
            assert target.endswith(STOP[0])


def test_names_are_drawn_afresh_in_each_prompt(made):
    for prompts in made.values():
        again = prompts[prompts.duplicated("pair", keep=False) & (prompts["kept"] == 0)]
        names = again["target"].map(lambda target: frozenset(called_apis(parse(target))))
        for _, part in names.groupby(again["pair"]):
            assert len(frozenset().union(*part)) == sum(map(len, part))
        assert len(again) > 5


def test_the_pool_of_a_half_holds_nothing_of_the_other(pools, split, catalogue):
    for half, pool in pools.items():
        assert len(pool.pairs) > 100
        assert {split[name] for apis in pool.pairs["apis"] for name in connectors_of(apis)} == {half}
        assert {split[api.connector] for api in pool.apis.values()} == {half}
        assert all(api.in_training for api in pool.apis.values())
        assert set(pool.pairs["split"]) == {"training"}
        assert len(pool.api_vectors) == len(pool.apis)
        texts = vectors_of([catalogue[name].text for name in pool.apis])
        assert np.allclose(texts, pool.api_vectors)
        assert np.allclose(vectors_of(pool.pairs["request"]), pool.vectors["pretrained"])


def test_prompts_for_fewer_are_the_first_of_more(pools, made):
    pd.testing.assert_frame_equal(training_prompts(pools["a"], 20, 3, count, form="compact"), made["a"].head(20))
    assert not training_prompts(pools["a"], 20, 4, count, form="compact")["prompt"].isin(made["a"]["prompt"]).any()


def test_the_mixture_is_uniform():
    cells = pd.DataFrame(mixture(["pretrained", "tst"]))
    assert len(set(cells["shots"].value_counts())) == 1
    assert set(cells["shots"]) == set(SHOTS)
    shown = cells[cells["shots"] > 0]
    assert set(shown["definitions"]) == set(DEFINED)
    assert len(set(shown.groupby(["definitions", "kind"]).size())) == 1
    assert len(set(shown["selector"].value_counts())) == 1
    assert set(cells.loc[cells["shots"] == 0, "definitions"]) == {"sfd"}


def test_few_shots_of_each_kind(pools, made):
    """As the parts of the prompt show it: the flow itself never, wrong ones and missing APIs where the kind says so."""
    for half, prompts in made.items():
        own = set(pools[half].pairs["request"])
        for row in prompts.itertuples():
            _, *parts = row.prompt.split("\n\nRequest: ")
            shots = [part.split("\n\n")[0].split("\nFlow:\n", 1) for part in parts[:-1]]
            target = set(called_apis(parse(row.target)))
            called = [set(called_apis(parse(flow))) for _, flow in shots]
            assert len(shots) == row.shown <= row.shots
            assert {" ".join(request.split()) for request, _ in shots} <= {" ".join(text.split()) for text in own}
            defined = [name for name, _ in DEFINITION.findall(row.prompt)]
            assert len(defined) == row.defined
            assert (row.definitions == "none") == (not defined)
            if row.kind == "nearest wrong":
                assert target not in called
            if row.kind == "definition only":
                alone = target.difference(*called)
                assert alone
                assert alone <= set(defined)
        assert set(prompts["kind"]) == set(in_context.KINDS)


def test_prompts_fit(pools):
    short = training_prompts(pools["b"], 30, 3, count, limit=1200)
    assert short["tokens"].max() <= 1200
    assert (short["shown"] < short["shots"]).any()


def test_a_pool_that_is_too_small_gives_what_it_can(pools, split, pairs, catalogue):
    few = pairs[pairs["pair"].isin(pools["a"].pairs["pair"].head(4))].reset_index(drop=True)
    texts = vectors_of([api.text for api in catalogue])
    pool = pool_of("a", split, few, {"pretrained": vectors_of(few["request"])}, catalogue, texts)
    assert set(training_prompts(pool, 30, 0, count)["shots"]) <= {0, 1, 3}
    nothing = pool_of("a", split, few.head(0), {"pretrained": np.empty((0, 64), np.float32)}, catalogue, texts)
    assert training_prompts(nothing, 30, 0, count).empty
