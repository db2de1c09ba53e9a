import pickle

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lib.workflows.catalogue import Catalogue
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
    called_apis,
    parse,
    print_flow,
    validate,
)

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


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("a.b({});", "a.b();"),
        ("a.b({'k':'it\\'s \"x\"'});", 'a.b({"k": "it\'s \\"x\\""});'),
        ('a.b({"k": x[\'p\'][0]?["it\'s"]});', "a.b({\"k\": x?['p']?[0]?['it\\'s']});"),
        ('a.b({"k": "\\u00e9\\ud83d\\ude00\\/\\n\\\\u0041"});', 'a.b({"k": "é😀/\\n\\\\u0041"});'),
        ("if ((a == 1) || ((b && (c)))) {}", "if (a == 1 || b && c) {\n}"),
        ("if ((a || b) && !(c == null)) {}", "if ((a || b) && !(c == null)) {\n}"),
        ("if (!(endsWith(a,'b'))) {}", 'if (!endsWith(a, "b")) {\n}'),
        ('a.b({"": 1E2, "k": 0.50, "k": -0});', 'a.b({"": 100.0, "k": 0.5, "k": 0});'),
        ("for (of of of) {for (for of for) {}}", "for (of of of) {\n  for (for of for) {\n  }\n}"),
    ],
)
def test_canonical_text(text, canonical):
    assert print_flow(parse(text)) == canonical
    assert parse(canonical) == parse(text)


@pytest.mark.parametrize(
    ("text", "line", "column", "problem"),
    [
        (" \n ", 2, 2, "the text ends before the flow does"),
        ("a.b();\nsend_email();", 2, 11, "'(' cannot stand here"),
        ('a.b({"k": "v});', 1, 11, "a string that is not closed on its line"),
        ('a.b({"k": "\\q"});', 1, 11, "unknown escape"),
        ('a.b({"k": "\\ud800"});', 1, 11, "half a surrogate pair"),
        ('a.b({"k": 1e999});', 1, 11, "too large"),
        (None, 1, 1, "a flow is text, not NoneType"),
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


def test_hostile_texts_are_refused():
    for text in (filled("", "("), filled('a.b({"k": "', '\\"'), filled("", "a.b();", "x"), "a" * 5_000_000):
        with pytest.raises(FlowError):
            parse(text)


def test_the_largest_flows_are_read():
    for text in (filled('a.b({"k": [', "1,", "1]});"), "for(x of y){" * (MAX_NESTING - 1) + "a.b();" + "}" * 31):
        validate(parse(text), NOTHING)
    with pytest.raises(FlowError, match=f"more than {MAX_NESTING} brackets"):
        parse("for(x of y){" * (MAX_NESTING + 1))


def test_what_no_text_can_say_is_not_printed():
    held = (Object((("k", value),)) for value in (Reference("x", (-1,)), float("inf")))
    for call in (Call("send"), Call("a.b", variable="if"), *(Call("a.b", one) for one in held)):
        with pytest.raises(ValueError):
            print_flow(Flow((call,)))


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


flows = flows_of(st.recursive(call_statements, lambda held: ifs_of(held) | loops_of(held), max_leaves=5))


@pytest.mark.slow
@given(flows)
@relaxed
def test_every_flow_round_trips(flow):
    text = print_flow(flow)
    back = parse(text)
    assert back == flow
    assert repr(back) == repr(flow), "True is not 1, nor 1.0"
    assert print_flow(back) == text


pieces = st.sampled_from(
    ["x", "=", "await ", "a.b", "a", ".", "(", ")", "{", "}", "[", "]", "?[", "if", "else", "else ", "==", "!", "&&",
     "||", '"', "'", '"k"', ":", ",", ";", "1", "-1", "0.5", "true", "null", "contains", "\\", "\n", " ",
     "for", "of", " of ", "\x00", "\ud800"]
)  # fmt: skip


@given(st.text(max_size=60) | st.lists(pieces, max_size=25).map("".join) | st.binary(max_size=40))
@settings(relaxed, max_examples=400)
def test_no_text_raises_anything_but_the_one_error(text):
    """Either a flow that round-trips, or an error that points into the text."""
    problem = None
    try:
        flow = parse(text)
    except FlowError as error:
        problem = error
    if problem is None:
        assert parse(print_flow(flow)) == flow
        return
    lines = text.split("\n") if isinstance(text, str) else [""]
    assert 1 <= problem.line <= len(lines)
    assert 1 <= problem.column <= len(lines[problem.line - 1]) + 1
    str(problem).encode("utf-8")


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
    assert [name.partition(".")[2] for name in called_apis(flow)] == ["ListIssues", "CreateTask", "SendEmail", "Post"]


# ---------------------------------------------------------------- validation


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
        (LOOP, ()),
        ('for (x of y) { a.b({"k": x}); } a.b({"k": x});', ("y", "x")),
        ('x = a.b(); for (y of x) { y = a.b(); } a.b({"k": y});', ()),
        ("x = a.b(); if (x) { for (y of x) { z = a.b(); } } else { for (z of z) {} }", ("z",)),
        ("if (!(y && contains(z, 'a')) || u == v) {}", ("y", "z", "u", "v")),
        ('if (1) { x = a.b(); } else { a.b({"k": x}); }', ("x",)),
        ('if (1) { x = a.b(); a.b({"k": x}); } a.b({"k": x});', ()),
        ('if (1) { if (2) { x = a.b(); } a.b({"k": x}); } else { a.b({"k": x, "l": y, "m": y}); }', ("x", "y")),
    ],
)
def test_variables_used_before_assignment(text, unassigned):
    assert validate(parse(text), NOTHING).unassigned == unassigned
