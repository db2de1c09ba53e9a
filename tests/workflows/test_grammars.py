"""Grammars for constrained decoding: whatever walks through them to the end parses, and every flow can be written."""

import hashlib
import random

import pytest
import torch
from transformers import PreTrainedTokenizerFast

from lib.generation.decoding import Constraint, Grammar, vocabulary
from lib.workflows.apis import Field, Operation
from lib.workflows.catalogue import Catalogue
from lib.workflows.generating import generate
from lib.workflows.grammars import flow_grammar
from lib.workflows.language import Call, Flow, Object, calls, nodes, parse, print_flow, validate
from tests.generation.conftest import learned_pairs

END = 0
STOP = ["\n\n", "<END>"]


@pytest.fixture(scope="module")
def flows(catalogue, values):
    return generate(catalogue, values, {"training": 60, "test": 20, "unseen": 20})["dsl"].tolist()


@pytest.fixture(scope="module")
def tokenizer(flows):
    """Byte-level pairs learned from flows, so that tokens span what the grammar keeps apart, as `?['` and `": "` do."""
    return PreTrainedTokenizerFast(tokenizer_object=learned_pairs(flows, 900, ["</s>"]), eos_token="</s>")


@pytest.fixture(scope="module")
def compiled(tokenizer):
    tokens = vocabulary(tokenizer, len(tokenizer), [END])
    return lambda *args, **more: Grammar(flow_grammar(*args, **more), tokens)


@pytest.fixture(scope="module")
def walk(tokenizer):
    """The text that a model writes which draws among the allowed tokens; it must come to its end.

    Some walks hurry to close what is open and to end; some prefer tokens without letters, which open something new.
    """
    texts = [tokenizer.decode([i]) for i in range(len(tokenizer))]
    closing = torch.tensor([i == END or bool(set(text) & set("\"')};]")) for i, text in enumerate(texts)])
    opening = torch.tensor([text == "if" or (text and not any(map(str.isalnum, text))) for text in texts])
    opening[END] = False
    everything = torch.zeros(1, len(texts))

    def walk(grammar, seed, start=""):
        generator = random.Random(seed)
        shares = ((closing, generator.choice([0.02, 0.2, 0.6])), (opening, generator.choice([0.0, 0.3, 0.8])))
        constraint = Constraint([grammar], threads=1)
        output = tokenizer.encode(start)
        assert not any(constraint.advance(0, token) for token in output)
        while len(output) < 3000:
            allowed = constraint(everything, [0])[0] == 0
            for wanted, share in shares:
                if generator.random() < share and (allowed & wanted).any():
                    allowed &= wanted
            token = generator.choice(torch.nonzero(allowed)[:, 0].tolist())
            if token == END:
                return tokenizer.decode(output)
            output.append(token)
            if constraint.advance(0, token):
                return tokenizer.decode(output)
        pytest.fail(f"no end: {tokenizer.decode(output)!r}")

    return walk


def without_stop(text):
    return min((text.split(stop)[0] for stop in STOP), key=len)


def kinds(flow):
    """Names of all the classes in a tree."""
    return {type(node).__name__ for node in nodes(flow)}


# ---------------------------------------------------------------- whatever is allowed is right


@pytest.mark.slow
@pytest.mark.parametrize("loops", [False, True])
def test_whatever_ends_parses_and_makes_nothing_up(compiled, walk, catalogue, loops):
    grammar = compiled(catalogue, STOP, loops)
    texts = [walk(grammar, seed, "for (" * (seed % 2) * loops) for seed in range(100 if loops else 300)]
    flows = [parse(without_stop(text)) for text in texts]
    for flow in flows:
        report = validate(flow, catalogue)
        assert (report.made_up_names, report.made_up_parameters) == ((), ())
    called = [call for flow in flows for call in calls(flow)]
    assert len({call.api for call in called}) > 150
    assert sum(len(call.keys) for call in called) > 100
    wanted = {"For", "If"} if loops else {"If", "Comparison", "Reference", "Object", "tuple", "str", "Not", "And"}
    assert set().union(*map(kinds, flows)) >= wanted
    assert {text[-2:] for text in texts} >= {"\n\n", "D>", ");"}


# ---------------------------------------------------------------- whatever is right is allowed


def test_every_flow_can_be_written(compiled, catalogue, flows):
    known = compiled(catalogue, STOP)
    for dsl in flows:
        assert known.accepts(dsl)
        assert known.accepts(f"{dsl}\n<END>")


ANY = tuple(map(Field, ("a", "b", "c", "key")))
SMALL = [Operation("shared_a", name, "", "", parameters=ANY) for name in ("Do", "/api/x y", "New")]
SMALL = Catalogue({api.name: api for api in SMALL}, {})


def test_grammars_stay_as_they_are():
    """Answers are kept under the hash of their grammar."""
    known = "a1fe5c1ad130439e9119d9a5bef19985c16edfb53ea96b828604914b0cc93c2e"
    assert hashlib.sha256(flow_grammar(SMALL).encode()).hexdigest() == known


CALL = "shared_a.Do();"
LONG = "x" * 120


@pytest.mark.parametrize(
    "text",
    [
        f"if (a && !(b || c?[0]?['it\\'s'] >= -1.5)) {{\n  {CALL}\n}} else if (!contains(a, \"x\")) {{\n  {CALL}\n}}",
        f"if (a || !b && true) {{\n  if (null == a) {{\n    {CALL}\n  }} else {{\n    {CALL}\n  }}\n}}\n{CALL}",
        'x = await shared_a.Do({"a": [1, {"k": null}, []], "b": {}, "c": "\\n\\"\\\\ é€😀\\u001f"});',
        f'shared_a["/api/x y"]({{"key": "{LONG}"}});',
    ],
)
def test_constructs(compiled, text):
    assert print_flow(parse(text)) == text
    assert compiled(SMALL).accepts(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n".join([CALL] * 9),
        f'shared_a.Do({{"key": "{LONG}x"}});',
        'shared_a.Do({"a": [[["deep"]]]});',
        f"if (a) {{\n  if (b) {{\n    if (c) {{\n      {CALL}\n    }}\n  }}\n}}",
        'shared_a.Do({"a": "\\ud83d"});',
        "if = shared_a.Do();",
    ],
)
def test_what_does_not_parse_or_goes_on_and_on_is_refused(compiled, text):
    assert not compiled(SMALL).accepts(text)


def test_names_and_keys_as_importers_find_them(compiled):
    """Operation ids that are no names, hyphens, keys with quotes, blanks and line breaks, dynamic, many keys."""
    wide = [f"column{i:02}" for i in range(70)]
    apis = [
        Operation("shared_hashify", "/api/{id}", "", "", parameters=(Field("$filter"), Field('line "item"'))),
        Operation(
            "shared_service-now", "Create-record", "", "", parameters=(Field("a\nb"), Field("body/id")), dynamic=True
        ),
        Operation("shared_service-now", "Create-record2", "", "", dynamic=True),
        Operation("shared_service", "Ping", "", ""),
        Operation("shared_service", "Bulk", "", "", parameters=tuple(map(Field, wide))),
    ]
    catalogue = Catalogue({api.name: api for api in apis}, {})
    grammar = compiled(catalogue)

    def accepts(api, *keys):
        return grammar.accepts(print_flow(Flow((Call(api, Object(tuple((key, 1) for key in keys))),))))

    for api in apis:
        assert accepts(api.name)
        assert all(accepts(api.name, key) for key in api.keys)
        assert accepts(api.name, "body/new") == accepts(api.name, "item/new") == api.dynamic
        assert not accepts(api.name, "new")
        assert not accepts(api.name, "body")
    assert accepts("shared_hashify./api/{id}", 'line "item"', "$filter")
    assert not accepts("shared_hashify./api/{id}", "$filter", "$filter")
    assert accepts("shared_service-now.Create-record", "item/b", "body/id", "a\nb")
    assert not accepts("shared_service-now.Create-record2", *(f"body/{i}" for i in range(21)))
    assert accepts("shared_service.Bulk", *wide)
    assert not accepts("shared_service.Bulk", *wide[:70], *[wide[-1]] * 20)


def test_a_flow_is_complete_once_its_stop_text_is_cut_off(compiled):
    """A fine-tuned model ends with <END> on a line of its own: what is left then ends with a line break."""
    grammar = compiled(SMALL, ["<END>"])
    flow = "triggerOutputs = await shared_a.New();"
    for text in (flow, f"{flow}\n", f"{flow}\n<END>", f"{flow}<END>"):
        assert grammar.accepts(text)
        assert parse(text.split("<END>")[0])
    assert not grammar.accepts(f"{flow}\n\n")
    assert not grammar.accepts("triggerOutputs = await shared_a.")
