"""Kinds of errors: hand-made flows for each, and what ties them to the similarity."""

from collections import Counter
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.workflows.errors import COLUMNS, GROUPS, KINDS, error_table, flow_errors
from lib.workflows.generating import generate
from lib.workflows.language import Call, Flow, FlowError, Object, parse, print_flow
from lib.workflows.pairs import read_values
from lib.workflows.planning import FlowKnobs
from lib.workflows.scoring import score_flow, similarity

DATA = Path(__file__).parents[2] / "data"

NEW_MAIL = "shared_office365.OnNewEmailV3"
SEND, SEND_OLD = "shared_office365.SendEmailV2", "shared_office365.SendEmail"
CHAT, POST = "shared_teams.PostUserNotification", "shared_teams.PostMessageToConversation"
SLACK, SLACK_OLD = "shared_slack.PostMessage_V2", "shared_slack.PostMessage"
GOLD = [NEW_MAIL, SEND, CHAT]

LINES = 'x = await shared_office365.OnNewEmailV3({"folderPath": "Inbox"});\n'
CONDITION = "if (x?['body']?['subject'] == \"a\") {"
CALL = 'shared_teams.PostUserNotification({"body/messageBody": "b"});'


@pytest.fixture(scope="module")
def flows(catalogue):
    knobs = FlowKnobs(n_training_pairs=60, n_test_pairs=20, n_unseen_pairs=20, n_test_same_pairs=0)
    return generate(catalogue, read_values(DATA / "values.yaml"), knobs)["dsl"].tolist()


def text(names, *keys):
    """A flow that calls these APIs in this order; the first call has these keys."""
    first = Object(tuple((key, "a value") for key in keys))
    return print_flow(Flow(tuple(Call(name, Object() if i else first) for i, name in enumerate(names))))


SYNTAX = [
    ("", "no_call"),
    (None, "no_call"),
    ("Sorry, I can't do this: there is no such app (yet).", "no_call"),
    ("triggerOutputs = await shared_teams;", "no_call"),
    ("[]{}", "no_call"),
    (LINES.replace('Inbox"', "Inbox"), "quote"),
    (LINES.replace('Inbox"', 'Inbox""'), "quote"),
    (LINES.replace('"Inbox', "Inbox"), "quote"),
    (LINES + CONDITION.replace("subject'", "subject") + CALL + "}", "quote"),
    (LINES.replace("Inbox", "Inbox\n"), "quote"),
    (LINES + CONDITION + CALL, "bracket"),
    (LINES + CONDITION + CALL + "}}", "bracket"),
    (LINES + CONDITION.replace(")", "") + CALL + "}", "bracket"),
    (LINES.replace("})", "])"), "bracket"),
    (LINES.replace("})", ")"), "bracket"),
    (LINES.replace("({", "("), "bracket"),
    ('shared_hashify["/api/status/get"]({);', "bracket"),
    ("shared_hashify['/api/status/get']({);", "bracket"),
    (LINES.replace(";", ""), "other_syntax"),
    (LINES.replace("Inbox", "a } bracket, it's all right :("), None),
    (LINES.replace("Inbox", "a } bracket, it's all right :(").replace(";", ""), "other_syntax"),
    (LINES.replace("Inbox", 'an \\" and a }').replace(";", ""), "other_syntax"),
    (LINES.replace('"Inbox"', "'an \\' and a }'").replace(";", ""), "other_syntax"),
    (LINES.replace('"Inbox"', "2024-01-14"), "other_syntax"),
    (LINES.replace('"Inbox"', '"C:\\Inbox"'), "other_syntax"),
    (LINES + CONDITION.replace("] ==", "]? ==") + CALL + "}", "other_syntax"),
    ("Here's the flow:\n" + LINES, "other_syntax"),
    (f"```\n{LINES}```", "other_syntax"),
]


@pytest.mark.parametrize(("written", "kind"), SYNTAX)
def test_syntax(catalogue, written, kind):
    if kind is None:
        assert parse(written)
    else:
        assert flow_errors(written, LINES, catalogue) == (kind,)


def test_every_kind_of_syntax_error_is_tried():
    assert {kind for _, kind in SYNTAX} - {None} == GROUPS["syntax"].keys() - {"cut"}


def test_a_text_is_cut_only_if_it_does_not_parse(catalogue):
    assert flow_errors(LINES[:-6], LINES, catalogue, finished=False) == ("cut",)
    assert flow_errors(LINES[:-6], LINES, catalogue, finished=True) == ("quote",)
    assert flow_errors(LINES, LINES, catalogue, finished=False) == ()
    assert flow_errors(LINES, LINES + CALL, catalogue, finished=False) == ("missing",)


NAMES = [
    ("shared_office365.SendEmailV3", "made_up_version"),
    ("shared_office365.SendEmail_V2", "made_up_version"),
    ("shared_teams.PostMessageToConversationV2", "made_up_version"),
    ("shared_slack.ListChannels", "made_up_version"),  # there is a V3 only
    ("shared_slack.SendEmailV2", "misplaced_operation"),
    ("shared_slack.SendEmailV3", "made_up_operation"),  # another connector's, but not in this version
    ("shared_slack.SendMessage2You", "made_up_operation"),
    ("shared_slack.postmessage", "made_up_operation"),
    ("shared_outlook365.SendEmailV2", "made_up_connector"),
    ("shared_Slack.PostMessage", "made_up_connector"),
]


@pytest.mark.parametrize(("name", "kind"), NAMES)
def test_names(catalogue, name, kind):
    """In place of a wanted call and after them all; its keys are not judged."""
    assert name not in catalogue
    assert flow_errors(text([name, SEND, CHAT], "no such key"), text(GOLD), catalogue) == (kind,)
    assert flow_errors(text([*GOLD, name, name]), text(GOLD), catalogue) == (kind, kind)


def test_every_kind_of_name_error_is_tried():
    assert {kind for _, kind in NAMES} == GROUPS["names"].keys()


CALLS = [
    (GOLD, ()),
    ([NEW_MAIL, SEND_OLD, CHAT], ("other_version",)),
    ([NEW_MAIL, SEND, POST], ("other_api",)),
    ([NEW_MAIL, SEND, SLACK], ("other_connector",)),
    ([NEW_MAIL, SEND, SEND], ("repeated",)),
    ([NEW_MAIL, SEND, SEND, CHAT], ("repeated",)),
    ([NEW_MAIL, SEND], ("missing",)),
    ([CHAT], ("missing", "missing")),
    ([NEW_MAIL, CHAT, SEND], ("order",)),
    ([CHAT, NEW_MAIL, SEND], ("order",)),
    ([CHAT, SEND, NEW_MAIL], ("order", "order")),
    ([*GOLD, SEND_OLD], ("other_version",)),
    ([*GOLD, SLACK_OLD], ("other_connector",)),
    ([NEW_MAIL, SLACK], ("other_connector", "missing")),
    ([CHAT, SEND_OLD, POST, SLACK, SLACK], ("other_version", "other_api", "other_connector", "other_connector")),
    ([CHAT, SEND_OLD, NEW_MAIL, SLACK, "shared_slack.No"],
     ("made_up_operation", "other_version", "other_connector", "order")),
    (["shared_no.No"], ("made_up_connector", "missing", "missing")),
]  # fmt: skip


@pytest.mark.parametrize(("called", "kinds"), CALLS)
def test_calls(catalogue, called, kinds):
    assert flow_errors(text(called), text(GOLD), catalogue) == kinds


def test_every_kind_of_call_error_is_tried():
    assert {kind for _, kinds in CALLS for kind in kinds} >= GROUPS["calls"].keys()


def test_calls_that_the_gold_repeats(catalogue):
    gold = text([NEW_MAIL, SEND, SEND])
    assert flow_errors(gold, gold, catalogue) == ()
    assert flow_errors(text([NEW_MAIL, SEND]), gold, catalogue) == ("missing",)
    assert flow_errors(text([NEW_MAIL, SEND, SEND, SEND]), gold, catalogue) == ("repeated",)


@pytest.mark.parametrize(
    ("name", "keys", "kinds"),
    [
        (SEND, ["emailMessage/To", "emailMessage/From"], ()),
        (SEND, ["emailMessage/IsHtml"], ("misplaced_key",)),  # of the older version
        (SEND, ["folderPath"], ("misplaced_key",)),  # of the trigger
        (SEND, ["message/text"], ("made_up_key",)),  # of another connector
        (SEND, ["To", "emailMessage/to", "folderPath"], ("misplaced_key", "made_up_key", "made_up_key")),
        (SEND, ["To", "To"], ("made_up_key",)),
        (POST, ["body/anything"], ()),  # a dynamic API
        (POST, ["anything"], ("made_up_key",)),
    ],
)
def test_parameters(catalogue, name, keys, kinds):
    assert flow_errors(text([name], *keys), text([name]), catalogue) == kinds


def test_keys_are_those_of_the_api_that_is_called(catalogue):
    assert flow_errors(text([SEND_OLD], "emailMessage/IsHtml"), text([SEND]), catalogue) == ("other_version",)


def test_a_right_flow_has_no_error(catalogue, flows):
    assert [flow_errors(gold, gold, catalogue) for gold in flows] == [()] * 100
    with pytest.raises(FlowError):
        flow_errors(LINES, CALL[:-1], catalogue)


names = st.lists(st.sampled_from([*GOLD, SEND_OLD, SLACK, "shared_slack.No", "shared_no.No"]), min_size=1, max_size=6)
golds = st.lists(st.sampled_from([*GOLD, SEND_OLD, SLACK]), min_size=1, max_size=6)


@given(called=names, wanted=golds, keys=st.sets(st.sampled_from(["folderPath", "no such key"])))
def test_errors_of_names_and_calls_are_what_similarity_loses(catalogue, called, wanted, keys):
    kinds = flow_errors(text(called, *keys), text(wanted), catalogue)
    groups = Counter(group for kind in kinds for group, its in GROUPS.items() if kind in its)
    longer = max(len(called), len(wanted))
    assert groups["names"] + groups["calls"] == longer - round(similarity(called, wanted) * longer)
    score = score_flow(text(called, *keys), text(wanted), catalogue)
    assert (score.similarity == 1) == (groups["names"] + groups["calls"] == 0)
    assert groups["names"] == len(score.made_up_names)
    assert groups["parameters"] == len(score.made_up_parameters)
    assert list(kinds) == sorted(kinds, key=list(KINDS).index)


def test_error_table(catalogue):
    frame = pd.DataFrame(
        [
            ("a", "test-1", text(GOLD), True),
            ("a", "test-2", text([NEW_MAIL, SLACK, SLACK], "To"), True),
            ("b", "test-1", LINES[:-6], False),
            ("b", "test-2", LINES[:-6], True),
        ],
        columns=["condition", "unit", "text", "finished"],
    ).assign(dsl=text(GOLD))
    table = error_table(frame, catalogue)
    assert table.columns.tolist() == COLUMNS
    assert list(table.itertuples(index=False, name=None)) == [
        ("a", "test-2", "other_connector", 2),
        ("a", "test-2", "made_up_key", 1),
        ("b", "test-1", "cut", 1),
        ("b", "test-2", "quote", 1),
    ]
    empty = error_table(frame[:1], catalogue)
    assert (empty.columns.tolist(), len(empty)) == (COLUMNS, 0)
    shuffled = frame[["finished", "dsl", "unit", "text", "condition"]].set_axis([7, 7, 7, 7])
    pd.testing.assert_frame_equal(error_table(shuffled, catalogue), table)
