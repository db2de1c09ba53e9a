import copy
import pickle
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lark import Lark
from lark.exceptions import LarkError

import lib.workflows.language as language
from lib.workflows.apis import API, Field
from lib.workflows.catalogue import Catalogue
from lib.workflows.generating import generate
from lib.workflows.language import (
    MAX_CHARACTERS,
    MAX_NESTING,
    RESERVED,
    And,
    Branch,
    Call,
    Comparison,
    Flow,
    FlowError,
    For,
    If,
    Not,
    Object,
    Or,
    Reference,
    assigned_in,
    called_apis,
    calls,
    parse,
    print_flow,
    unfilled,
    validate,
    variables_used,
)
from lib.workflows.pairs import read_values
from lib.workflows.planning import FlowKnobs

DATA = Path(__file__).parents[2] / "data"
NOTHING = Catalogue({}, {})
relaxed = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None)

INVOICE = """\
triggerOutputs = await shared_office365.OnNewEmailV3({"folderPath": "Inbox"});
if (triggerOutputs?['body']?['subject'] == "invoice") {
  teams_msg = shared_teams.PostMessageToConversation({"body/messageBody": "Start Approval process"});
} else if (contains(triggerOutputs?['body']?['subject'], "urgent") && !triggerOutputs?['body']?['isRead']) {
  shared_office365.SendEmailV2({"emailMessage/To": triggerOutputs?['body']?['from'], "cc": ["a", 1, -2.5, true, null]});
} else {
  shared_service-now.Create-record({"item": {"$value": teams_msg, "line item": {}}});
}"""
SUBJECT = Reference("triggerOutputs", ("body", "subject"))


def test_the_tree_of_a_flow():
    flow = parse(INVOICE)
    trigger, branches = flow.statements
    assert trigger == Call("shared_office365.OnNewEmailV3", Object((("folderPath", "Inbox"),)), "triggerOutputs", True)
    assert isinstance(branches, If)
    first, second = branches.branches
    assert first.condition == Comparison("==", SUBJECT, "invoice")
    assert second.condition == And(
        (Comparison("contains", SUBJECT, "urgent"), Not(Reference("triggerOutputs", ("body", "isRead"))))
    )
    assert second.body[0].parameters.pairs[1] == ("cc", ("a", 1, -2.5, True, None))
    assert branches.otherwise[0].api == "shared_service-now.Create-record"
    assert print_flow(flow) == INVOICE


def test_what_a_flow_says():
    flow = parse(INVOICE)
    assert called_apis(flow) == [
        "shared_office365.OnNewEmailV3",
        "shared_teams.PostMessageToConversation",
        "shared_office365.SendEmailV2",
        "shared_service-now.Create-record",
    ]
    assert [call.keys for call in calls(flow)] == [
        ("folderPath",), ("body/messageBody",), ("emailMessage/To", "cc"), ("item",),
    ]  # fmt: skip
    assert list(assigned_in(flow.statements)) == ["triggerOutputs", "teams_msg"]
    assert variables_used(flow) == ["triggerOutputs", "teams_msg"]


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("a.b({});", "a.b();"),
        ("  x=await\ta.b ( )\r\n;", "x = await a.b();"),
        ("a.b({'k':'it\\'s \"x\"'});", 'a.b({"k": "it\'s \\"x\\""});'),
        ('a.b({"k": x[\'p\'][0]?["it\'s"]});', "a.b({\"k\": x?['p']?[0]?['it\\'s']});"),
        ('a.b({"k": "\\u00e9\\ud83d\\ude00\\/\\n\\\\u0041"});', 'a.b({"k": "é😀/\\n\\\\u0041"});'),
        ('a["b"]();', "a.b();"),
        ('a["/api/status/get"]();', 'a["/api/status/get"]();'),
        ("a.if();", "a.if();"),
        ("if(((x))){}", "if (x) {\n}"),
        ("if (x) {} else {}", "if (x) {\n}"),
        ("if ((a == 1) || ((b && (c)))) {}", "if (a == 1 || b && c) {\n}"),
        ("if ((a || b) && !(c == null)) {}", "if ((a || b) && !(c == null)) {\n}"),
        ("if (a && (b && c)) {}", "if (a && (b && c)) {\n}"),
        ("if (!(!a)) {}", "if (!(!a)) {\n}"),
        ("if (!(endsWith(a,'b'))) {}", 'if (!endsWith(a, "b")) {\n}'),
        ("iffy = awaited.trueish(); nullable = a.b();", "iffy = awaited.trueish();\nnullable = a.b();"),
        ('a.b({"": 1E2, "k": 0.50, "k": -0});', 'a.b({"": 100.0, "k": 0.5, "k": 0});'),
        ("for(x of xs['v']){a.b();}", "for (x of xs?['v']) {\n  a.b();\n}"),
        ("for (of of of) {for (for of for) {}}", "for (of of of) {\n  for (for of for) {\n  }\n}"),
        ("for = await for.of(); of = of.for();", "for = await for.of();\nof = of.for();"),
        ("form = fort.of(); for.a();", "form = fort.of();\nfor.a();"),
    ],
)
def test_canonical_text(text, canonical):
    assert print_flow(parse(text)) == canonical
    assert parse(canonical) == parse(text)


@pytest.mark.parametrize(
    ("text", "line", "column", "problem"),
    [
        ("", 1, 1, "expected a statement, found the end of the text"),
        (" \n ", 2, 2, "expected a statement, found the end of the text"),
        ("a.b()", 1, 6, "expected ';', found the end of the text"),
        ("a.b();\nsend_email();", 2, 11, "expected '.', '=' or '[', found '('"),
        ("a.b(); }", 1, 8, "expected a statement or the end of the text, found '}'"),
        ("if (x) {\n a.b();", 2, 8, "expected a statement or '}', found the end of the text"),
        ("if (x) a.b();", 1, 8, "expected '{', found 'a'"),
        ("if (x = 1) {}", 1, 7, "or a comparison such as ==, found '='"),
        ("if () {}", 1, 5, "expected a condition, found ')'"),
        ("if (!a == b) {}", 1, 8, "found '=='"),
        ("else {}", 1, 6, "found '{'"),
        ("if (x) {} else if {}", 1, 19, "expected '(', found '{'"),
        ("x = ;", 1, 5, "expected a call, found ';'"),
        ("x = await ;", 1, 11, "expected a name, found ';'"),
        ("for (x in xs) {}", 1, 8, "expected 'of', found 'in'"),
        ("for (x of [1]) {}", 1, 11, "expected a name, found '['"),
        ("for (x of xs) a.b();", 1, 15, "expected '{', found 'a'"),
        ("for (if of xs) {}", 1, 6, "'if' is a reserved word"),
        ("for x of xs {}", 1, 5, "found 'x'"),
        ("x = for (y of ys) {}", 1, 9, "expected '.' or '[', found '('"),
        ("x = true;", 1, 9, "expected '.' or '[', found ';'"),
        ("x = if.b();", 1, 5, "'if' is a reserved word"),
        ('a.b({"k": else});', 1, 11, "'else' is a reserved word"),
        ('a.b("k");', 1, 5, "expected ')' or '{'"),
        ("a.b({k: 1});", 1, 6, "expected '}' or a string, found 'k'"),
        ('a.b({"k": });', 1, 11, "expected a value, found '}'"),
        ('a.b({"k": 1,});', 1, 13, "expected a string, found '}'"),
        ('a.b({"k": 01});', 1, 12, "expected ',' or '}', found '1'"),
        ('a.b({"k": x[-1]});', 1, 13, "expected a string or a whole number, found '-1'"),
        ('a.b({"k": "v});', 1, 11, "a string that is not closed on its line"),
        ('a.b({"k": "\\q"});', 1, 11, "unknown escape"),
        ('a.b({"k": "\\ud800"});', 1, 11, "half a surrogate pair"),
        ('a.b({"k": "\ud800"});', 1, 12, "half a surrogate pair"),
        ('a.b({"k": "v"}); \x00', 1, 18, r"found '\x00'"),
        ("“a”", 1, 1, r"expected a statement, found '\u201c'"),
        ('a.b({"k": 1e999});', 1, 11, "too large"),
        (f'a.b({{"k": {"9" * 5000}}});', 1, 11, "too large or longer than"),
        (f"{'y' * 1000}", 1, 1001, "expected '.', '=' or '['"),
        (f"a.b {'y' * 1000}", 1, 5, f"found '{'y' * 30}…'"),
        (None, 1, 1, "a flow is text, not NoneType"),
        (b"a.b();", 1, 1, "a flow is text, not bytes"),
    ],
)
def test_errors_say_where_and_what(text, line, column, problem):
    with pytest.raises(FlowError) as caught:
        parse(text)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert problem in caught.value.problem
    assert str(caught.value) == f"line {line}, column {column}: {caught.value.problem}"
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def filled(head: str, unit: str, tail: str = "") -> str:
    """As many repetitions as a text may be long."""
    return head + unit * ((MAX_CHARACTERS - len(head) - len(tail)) // len(unit)) + tail


@pytest.mark.parametrize(
    "text",
    [
        filled("", "("),
        filled("", ")"),
        filled("if (", "!", "x) {}"),
        filled("", '"'),
        filled('a.b({"k": "', '\\"'),
        filled("", "\"'"),
        filled("", '\r\n"'),
        filled("", "\x00"),
        filled("", " "),
        filled('a.b({"k": ', "9", "});"),
        filled('a.b({"k": 0.', "0", "});"),
        filled('a.b({"k": [', "1,"),
        filled('a.b({"k": x', "[0]"),
        filled("", "a.b();", "x"),
        filled("", "a"),
        "[" * 5_000_000,
        "a" * 5_000_000,
        filled("", "if(x){"),
        filled("", "for(x of y){"),
        filled("", "for "),
        filled('a.b({"k":', '{"k":'),
    ],
    ids=lambda text: f"{text[:14]!r}x{len(text)}",
)
def test_hostile_texts_are_refused(text):
    with pytest.raises(FlowError):
        parse(text)


@pytest.mark.parametrize(
    "text",
    [
        filled('a.b({"k": [', "1,", "1]});"),
        filled("", "a.b();"),
        filled("", "if(x){}"),
        filled("", "for(x of y){}"),
        "for(x of y){" * (MAX_NESTING - 1) + "a.b();" + "}" * (MAX_NESTING - 1),
        filled("if(x){}", "else if(x){}"),
        filled("if(", "x&&", "x){}"),
        filled('a.b({"k":x', "[0]", "});"),
        filled('a.b({"k": "', "\\ud83d\\ude00", '"});'),
        "if(x){" * (MAX_NESTING - 1) + "a.b();" + "}" * (MAX_NESTING - 1),
        'a.b({"k":' + "[" * (MAX_NESTING - 2) + "]" * (MAX_NESTING - 2) + "});",
    ],
    ids=lambda text: f"{text[:14]!r}x{len(text)}",
)
def test_the_largest_flows_are_read(text):
    flow = parse(text)
    canonical = print_flow(flow)
    if len(canonical) <= MAX_CHARACTERS:
        assert parse(canonical) == flow
    assert hash(flow) == hash(copy.deepcopy(flow))
    validate(flow, NOTHING)


def test_brackets_in_strings_do_not_nest():
    text = "({[" * 100
    assert parse(f'a.b({{"k": "{text}\\"", "l": \'{text}\\\'\'}});').statements[0].parameters.pairs[0][1] == text + '"'


def test_one_bracket_too_many():
    def nested(n):
        return 'a.b({"k": ' + "[" * n + "]" * n + "});"

    assert parse(nested(MAX_NESTING - 2))
    with pytest.raises(FlowError, match=f"more than {MAX_NESTING} brackets"):
        parse(nested(MAX_NESTING - 1))


@pytest.mark.parametrize(
    "call",
    [
        Call("send"),
        Call("a.b", variable="if"),
        Call("a.b", variable=""),
        Call("a b.c"),
        Call("a.b", Object((("k", Reference("x y")),))),
        Call("a.b", Object((("k", Reference("x", (-1,))),))),
        Call("a.b", Object((("k", Reference("x", (10**9,))),))),
        Call("a.b", Object((("k", float("inf")),))),
        Call("a.b", Object((("k", float("nan")),))),
        Call("a.b", Object((("k", 10**50),))),
        Call("a.b", Object((("\ud800", 1),))),
        Call("a.b", Object((("k", ["a list"]),))),
    ],
    ids=repr,
)
def test_what_no_text_can_say_is_not_printed(call):
    with pytest.raises(ValueError):
        print_flow(Flow((call,)))


def test_terminals_are_regular():
    """A grammar for constrained decoding is derived from this one: its regular expressions know no lookaround."""
    grammar = Path(language.__file__).with_name("grammar.lark").read_text(encoding="utf-8")
    assert "STRING:" in grammar
    assert re.search(r"\(\?|\\[bB1-9]", grammar.replace("bfnrt", "")) is None


# ---------------------------------------------------------------- properties

names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_-]{0,7}", fullmatch=True).filter(lambda n: n not in RESERVED)
names = names | st.sampled_from(["for", "of"])
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    ["emailMessage/To", "$filter", "line item", 'say "it"', "it's", "a\\b", "\x00\n\t\r\x7f", "😀", "});", "\u2028"]
)
numbers = st.integers(-(10**38), 10**38) | st.floats(allow_nan=False, allow_infinity=False)
references = st.builds(
    Reference, names, st.lists(texts | st.integers(0, 10**9 - 1), max_size=3).map(tuple)
)  # fmt: skip
operands = references | texts | numbers | st.booleans() | st.none()


def objects_of(held):
    return st.lists(st.tuples(texts, held), max_size=3).map(lambda pairs: Object(tuple(pairs)))


values = st.recursive(operands, lambda held: objects_of(held) | st.lists(held, max_size=3).map(tuple), max_leaves=8)
comparisons = st.builds(
    Comparison,
    st.sampled_from(["==", "!=", "<", "<=", ">", ">=", "contains", "startsWith", "endsWith"]),
    operands,
    operands,
)
conditions = st.recursive(
    operands | comparisons,
    lambda held: st.one_of(
        st.builds(Not, held),
        st.builds(And, st.lists(held, min_size=2, max_size=3).map(tuple)),
        st.builds(Or, st.lists(held, min_size=2, max_size=3).map(tuple)),
    ),
    max_leaves=6,
)
apis = st.builds("{}.{}".format, names, names | texts | st.sampled_from(["if", "contains", "/api/get", "Users.List"]))
call_statements = st.builds(Call, apis, objects_of(values), st.none() | names, st.booleans())


def ifs_of(statement):
    body = st.lists(statement, max_size=2).map(tuple)
    return st.builds(If, st.lists(st.builds(Branch, conditions, body), min_size=1, max_size=3).map(tuple), body)


def loops_of(statement):
    return st.builds(For, names, references, st.lists(statement, max_size=2).map(tuple))


def flows_of(statement):
    return st.lists(statement, min_size=1, max_size=4).map(lambda parts: Flow(tuple(parts)))


flows_without_loops = flows_of(st.recursive(call_statements, ifs_of, max_leaves=5))
flows = flows_of(st.recursive(call_statements, lambda held: ifs_of(held) | loops_of(held), max_leaves=5))


@given(flows)
@relaxed
def test_every_flow_round_trips(flow):
    text = print_flow(flow)
    back = parse(text)
    assert back == flow
    assert repr(back) == repr(flow), "True is not 1, nor 1.0"
    assert print_flow(back) == text


def check_answer_to(text):
    """Either a flow that round-trips, or an error that points into the text."""
    problem = None
    try:
        flow = parse(text)
    except FlowError as error:
        problem = error
    if problem is None:
        assert parse(print_flow(flow)) == flow
    else:
        lines = text.split("\n") if isinstance(text, str) else [""]
        assert 1 <= problem.line <= len(lines)
        assert 1 <= problem.column <= len(lines[problem.line - 1]) + 1
        str(problem).encode("utf-8")


pieces = st.sampled_from(
    ["x", "=", "await ", "a.b", "a", ".", "(", ")", "{", "}", "[", "]", "?[", "if", "else", "else ", "==", "!", "&&",
     "||", '"', "'", '"k"', ":", ",", ";", "1", "-1", "0.5", "true", "null", "contains", "\\", "\n", " ",
     "for", "of", " of ", "\x00", "\ud800"]
)  # fmt: skip


@given(st.text(max_size=60) | st.lists(pieces, max_size=25).map("".join) | st.binary(max_size=40))
@settings(relaxed, max_examples=400)
def test_no_text_raises_anything_but_the_one_error(text):
    check_answer_to(text)


@given(st.binary(max_size=60))
@relaxed
def test_undecodable_bytes_as_surrogates(data):
    check_answer_to(data.decode("utf-8", errors="surrogateescape"))


@given(flows.map(print_flow), st.data())
@relaxed
def test_a_mutated_flow_is_read_or_refused(text, data):
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        end = min(len(text), start + data.draw(st.integers(0, 4)))
        text = text[:start] + data.draw(pieces | st.just("") | st.characters()) + text[end:]
    check_answer_to(text)


@given(flows, st.data())
@relaxed
def test_a_missing_bracket_or_semicolon_is_an_error(flow, data):
    text = print_flow(flow)
    strings = [found.span() for found in re.finditer(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'', text)]
    inside = {place for start, end in strings for place in range(start, end)}
    places = [i for i, character in enumerate(text) if character in "(){}[];" and i not in inside]
    place = data.draw(st.sampled_from(places))
    with pytest.raises(FlowError):
        parse(text[:place] + text[place + 1 :])


@given(flows)
@relaxed
def test_what_is_assigned_first_is_never_reported(flow):
    unassigned = validate(flow, NOTHING).unassigned
    assert set(unassigned) <= set(variables_used(flow))
    assert set(unassigned) >= set(variables_used(flow)) - set(assigned_in(flow.statements))
    first = tuple(Call("a.b", variable=name) for name in unassigned)
    assert validate(Flow((*first, *flow.statements)), NOTHING).unassigned == ()


# ---------------------------------------------------------------- loops

LOOP = """\
issues = shared_jira.ListIssues();
for (issue of issues?['value']) {
  task = shared_asana.CreateTask({"name": issue?['title']});
  if (issue?['priority'] == "urgent") {
    for (watcher of issue?['watchers']) {
      shared_gmail.SendEmail({"to": watcher?['mail']});
    }
  }
}
shared_teams.Post({"text": task?['id']});"""


def test_the_tree_of_a_loop():
    flow = parse(LOOP)
    loop = flow.statements[1]
    assert (loop.variable, loop.items) == ("issue", Reference("issues", ("value",)))
    assert isinstance(loop.body[1].branches[0].body[0], For)
    assert print_flow(flow) == LOOP
    assert called_apis(flow) == [
        "shared_jira.ListIssues", "shared_asana.CreateTask", "shared_gmail.SendEmail", "shared_teams.Post",
    ]  # fmt: skip
    assert list(assigned_in(flow.statements)) == ["issues", "issue", "task", "watcher"]
    assert variables_used(flow) == ["issues", "issue", "watcher", "task"]


@pytest.mark.parametrize(
    ("text", "unassigned"),
    [
        (LOOP, ()),
        ("for (x of xs) { a.b(); }", ("xs",)),
        ("for (x of x) { a.b(); }", ("x",)),
        ('for (x of y) { a.b({"k": x}); } a.b({"k": x});', ("y", "x")),
        ('x = a.b(); for (x of x) { a.b({"k": x}); } a.b({"k": x});', ()),
        ('x = a.b(); for (y of x) { y = a.b(); } a.b({"k": y});', ()),
        ("x = a.b(); if (x) { for (y of x) { z = a.b(); } } else { for (z of z) {} }", ("z",)),
    ],
)
def test_a_loops_variable_is_known_in_its_body(text, unassigned):
    assert validate(parse(text), NOTHING).unassigned == unassigned


def test_names_and_keys_in_a_loop_are_checked(six_apis):
    report = validate(
        parse('for (x of xs) { shared_teams.Post(); shared_office365.SendEmailV2({"Too": 1}); }'), six_apis
    )
    assert report.made_up_names == ("shared_teams.Post",)
    assert report.made_up_parameters == (("shared_office365.SendEmailV2", "Too"),)


@pytest.fixture(scope="module")
def grammar_of_the_paper():
    """The grammar without the loop and its word."""
    grammar = Path(language.__file__).with_name("grammar.lark").read_text(encoding="utf-8")
    for line in ('          | FOR "(" NAME "of" reference ")" block -> loop\n', "?word: NAME | FOR\n", 'FOR: "for"\n'):
        assert grammar.count(line) == 1
        grammar = grammar.replace(line, "")
    return Lark(re.sub(r"\bword\b", "NAME", grammar), parser="lalr", transformer=language._Builder())


@given(flows_without_loops.map(print_flow), st.data())
@relaxed
def test_a_text_without_a_loop_is_read_as_the_papers_language_has_it(grammar_of_the_paper, text, data):
    if data.draw(st.booleans()):
        place = data.draw(st.integers(0, len(text)))
        text = (
            text[:place]
            + data.draw(pieces.filter(str.isprintable) | st.sampled_from(["for = ", "for.of();", "of"]))
            + text[place:]
        )
    try:
        right = grammar_of_the_paper.parse(text)
    except (LarkError, FlowError):
        right = None
    if right is not None:
        assert parse(text) == right
    else:
        check_answer_to(text)


def test_generated_flows_are_read_as_the_papers_language_has_them(grammar_of_the_paper, catalogue):
    knobs = FlowKnobs(n_training_pairs=60, n_test_pairs=20, n_unseen_pairs=20, n_test_same_pairs=0)
    for dsl in generate(catalogue, read_values(DATA / "values.yaml"), knobs)["dsl"]:
        assert parse(dsl) == grammar_of_the_paper.parse(dsl)
        assert print_flow(parse(dsl)) == dsl
        assert not re.search(r"\bfor \(", dsl)


# ---------------------------------------------------------------- validation


def test_a_sound_flow_has_an_empty_report(six_apis):
    text = """
    triggerOutputs = await shared_office365.OnNewEmailV3({"folderPath": "Inbox"});
    shared_teams.PostMessageToConversation({"poster": "User", "body/anything": triggerOutputs, "item/x": {"free": 1}});
    shared_office365.SendEmailV2({"$select": "id", "line item": 1, "line item": 2});
    """
    report = validate(parse(text), six_apis)
    assert (report.made_up_names, report.made_up_parameters, report.unassigned) == ((), (), ())


def test_made_up_names_and_parameters(six_apis):
    text = """
    shared_teams.Post({"whatever": 1});
    if (1 == 1) { shared_office365.SendEmailV2({"To": "a", "To": "b", "emailMessage": {"To": "a"}, "body/x": 1}); }
    else { shared_teams.PostMessageToConversation({"messages": 1, "bodyguard": 2, "body": 3}); shared_teams.Post(); }
    Shared_Teams.PostMessageToConversation();
    shared_office365.SendEmailV2({"To": "a"});
    """
    report = validate(parse(text), six_apis)
    assert report.made_up_names == (
        "shared_teams.Post", "shared_teams.Post", "Shared_Teams.PostMessageToConversation",
    )  # fmt: skip
    send, post = "shared_office365.SendEmailV2", "shared_teams.PostMessageToConversation"
    assert report.made_up_parameters == (
        (send, "To"), (send, "emailMessage"), (send, "body/x"),
        (post, "messages"), (post, "bodyguard"), (post, "body"), (send, "To"),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "unassigned"),
    [
        ('a.b({"k": x}); x = a.b();', ("x",)),
        ('x = a.b({"k": x});', ("x",)),
        ('x = a.b(); a.b({"k": [{"l": x}]});', ()),
        ("if (!(y && contains(z, 'a')) || u == v) {}", ("y", "z", "u", "v")),
        ('if (1) { x = a.b(); } else { a.b({"k": x}); }', ("x",)),
        ("if (1) { x = a.b(); } else if (x) {}", ("x",)),
        ('if (1) { x = a.b(); a.b({"k": x}); } a.b({"k": x});', ()),
        ('if (1) {} else { x = a.b(); } a.b({"k": x});', ()),
        ('if (1) { if (2) { x = a.b(); } a.b({"k": x}); } else { a.b({"k": x, "l": y, "m": y}); }', ("x", "y")),
    ],
)
def test_variables_used_before_assignment(text, unassigned):
    assert validate(parse(text), NOTHING).unassigned == unassigned


def test_required_keys_that_a_flow_leaves_out_are_named_once(catalogue):
    text = """x = await shared_teams.OnNewChannelMessage({"groupId": "Sales"});
    if (x) {
      shared_office365.SendEmailV2({"emailMessage/To": "a@b.c", "emailMessage/Subject": "b", "emailMessage/Cc": "c"});
      shared_office365.SendEmailV2({"emailMessage/Body": "d", "emailMessage/Subject": "b", "emailMessage/To": "e"});
      shared_office365.SendEmailV2({"emailMessage/To": "a@b.c"});
      shared_team.MadeUp();
    }"""
    mail = "shared_office365.SendEmailV2"
    assert unfilled(parse(text), catalogue) == (
        ("shared_teams.OnNewChannelMessage", "channelId"),
        (mail, "emailMessage/Body"),
        (mail, "emailMessage/Subject"),
    )


def test_a_part_of_a_required_object_fills_it_and_what_is_not_offered_is_not_asked_for():
    fields = (Field("body/items", required=True), Field("body/item", required=True), Field("key"))
    api = API("x", "Do", "", "", parameters=(*fields, Field("version", required=True, internal=True)))
    flow = parse('x.Do({"body/items/name": "a"});')
    assert unfilled(flow, {"x.Do": api}) == (("x.Do", "body/item"),)
