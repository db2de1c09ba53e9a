"""Requests written back from flows, by models that answer what a test tells them to."""

import hashlib
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.workbook.parameters.worlds import FlowKnobs
from lib.workflows.generating import generate
from lib.workflows.language import parse, print_flow
from lib.workflows.pair_checks import leaks, read_values
from lib.workflows.pairs import normal_form, read_pairs
from lib.workflows.written_requests import (
    EXAMPLE,
    MAX_NEW_TOKENS,
    MOST_WORDS,
    REASONS,
    REPAIRS,
    code_names,
    manner_of,
    prompt,
    read_answer,
    spoken_values,
    write_requests,
)

DATA = Path(__file__).parents[2] / "data"
FLOW = """triggerOutputs = await shared_microsoftforms.CreateFormWebhook({"form_id": "Visitors"});
if (contains(triggerOutputs?['body']?['responder'], "@contoso.com") && triggerOutputs?['body']?['resourceData/responseId'] != "x") {
  outputs_mail = shared_outlook.SendEmailV2({"emailMessage/To": "ana@contoso.com", "emailMessage/Subject": "New {visitor}"});
}"""  # noqa: E501
PLAIN = "When somebody answers the Visitors form, send ana@contoso.com a mail from Outlook."


@pytest.fixture(scope="module")
def pairs(catalogue):
    knobs = FlowKnobs(n_training_pairs=30, n_test_pairs=12, n_unseen_pairs=6, n_test_same_pairs=0)
    return generate(catalogue, read_values(DATA / "values.yaml"), knobs)


class Scripted:
    """Answers by a function of the prompt; as a real model, it gives equal prompts equal answers."""

    def __init__(self, answer):
        self.answer, self.asked, self.finished = answer, [], []

    def generate(self, prompts, max_new_tokens, stop, chat, progress):
        assert chat
        assert max_new_tokens == MAX_NEW_TOKENS
        assert "\nFlow:" in stop
        assert all(prompts)
        self.asked.append(list(prompts))
        answers = [self.answer(prompt) for prompt in prompts]
        answers = [answer if isinstance(answer, tuple) else (answer, True) for answer in answers]
        self.finished = [finished for _, finished in answers]
        return [text for text, _ in answers]


def digest(text):
    return hashlib.sha256(text.encode()).hexdigest()[:10]


def new_words(prompt):
    return f"Please take care of matter {digest(prompt)} for me"


def refused_once(bad):
    return lambda prompt: new_words(prompt) if "An earlier answer was refused" in prompt else bad


# ---------------------------------------------------------------- the prompt


def test_a_prompt_shows_definitions_and_flow_and_nothing_of_the_old_wording(catalogue, pairs):
    for row in pairs.itertuples():
        text = prompt(row.dsl, catalogue, manner_of(row.pair, 7))
        assert text.endswith(f"\nFlow:\n{row.dsl}\nRequest:")
        assert all(f"\n{name}: {catalogue[name].text}\n" in text for name in row.apis)
        assert row.request not in text
        assert text.count("\nFlow:\n") == 2


def test_the_example_is_a_flow_of_its_own_with_a_usable_request(catalogue):
    dsl, request = EXAMPLE.split("Flow:\n")[1].split("\nRequest: ")
    assert print_flow(parse(dsl)) == dsl
    assert read_answer(request, True, dsl, catalogue) == (request, "")
    assert not any(name.split(":")[0] in catalogue for name in EXAMPLE.split("\n")[1:4])


def test_equal_flows_are_asked_for_in_different_manners():
    manners = [manner_of(f"training-{number:06d}", 7) for number in range(200)]
    assert len(set(manners)) > 100
    assert manners[0] != manner_of("training-000000", 8)


def test_an_api_that_the_catalogue_lacks_has_no_definition(catalogue):
    text = prompt("x = await shared_own.OnIt();", catalogue, "somehow")
    assert text.endswith("\n\nAPIs:\nFlow:\nx = await shared_own.OnIt();\nRequest:")


# ---------------------------------------------------------------- answers


@pytest.mark.parametrize(
    "answer",
    [
        PLAIN,
        f"  {PLAIN}\n",
        f"Request: {PLAIN}",
        f"**Request:** {PLAIN}",
        f'"{PLAIN}"',
        f"“{PLAIN}”",
        f"Sure! Here is the request:\n\n{PLAIN}",
        f"Sure, here's a possible request: {PLAIN}",
        f"{PLAIN}\n\nThis covers the trigger and the mail.",
        f"{PLAIN}\nFlow:\nx = await shared_a.B();",
        f"{PLAIN}\nRequest: another one of these",
        PLAIN.replace(" the ", "\nthe "),
        PLAIN.replace(" ", "\t"),
        PLAIN.replace("form", "fo\x00rm\u202e\ud800"),
    ],
)
def test_what_stands_around_a_request_is_taken_off(answer, catalogue):
    assert read_answer(answer, True, FLOW, catalogue) == (PLAIN, "")


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("", "empty"),
        ('\n\n""\n', "empty"),
        ("Request:", "empty"),
        ("🙂 …", "empty"),
        ("I'm sorry, but I cannot help with that request.", "declined"),
        ("As an AI, I have no flows to offer you.", "declined"),
        ("- When a form is answered\n- mail ana@contoso.com", "several"),
        ("1. When a form is answered, mail Ana.\n2. Mail Ana about forms.", "several"),
        ("Send mail", "length"),
        ("mail " * (MOST_WORDS + 1), "length"),
        ("word" * 100_000, "length"),
        ("When it rains " + "word" * 100_000, "length"),
        ("```\nWhen a form comes, mail Ana\n```", "code"),
        ("triggerOutputs = await shared_microsoftforms.CreateFormWebhook();", "code"),
        ("When a form comes call shared_teams.Anything", "code"),
        ("if (x == 3) { mail Ana about it }", "code"),
        ("When a form comes, <b>mail</b> Ana", "code"),
        ("When a form comes, <START> mail Ana", "code"),
        ("When a form comes, <script>alert(1)</script> mail Ana", "code"),
        ('{"request": "When a form comes, mail Ana"}', "code"),
        ("On CreateFormWebhook send Ana a mail", "names"),
        ("When a form comes, run SendEmailV2 for Ana", "names"),
        ("When a form comes, mail Ana and set emailMessage/Subject", "names"),
        ("When a form comes, look at resourceData/responseId first", "names"),
        ("When a form comes, mail Ana and keep outputs_mail", "names"),
    ],
)
def test_what_is_no_request_is_refused_with_the_reason(answer, reason, catalogue):
    assert read_answer(answer, True, FLOW, catalogue)[1] == reason


def test_an_answer_cut_off_is_refused_unless_the_request_was_complete(catalogue):
    assert read_answer(PLAIN, False, FLOW, catalogue)[1] == "cut off"
    assert read_answer(f"{PLAIN}\n\nI chose these words bec", False, FLOW, catalogue) == (PLAIN, "")


@pytest.mark.parametrize(
    "asked",
    [
        "Request approval: whenever a form is answered, ask Ana",
        "Here is what should happen when a pull request comes in: post it in the channel",
        "On a new pull request: post it in the channel",
        "Sure thing wanted: mail Ana about each form",
    ],
)
def test_what_only_looks_like_a_label_stays(asked, catalogue):
    assert read_answer(asked, True, FLOW, catalogue) == (asked, "")


def test_quotes_around_first_and_last_words_stay(catalogue):
    request = '"Visitors" answered? Then mail Ana about "New {visitor}"'
    assert read_answer(request, True, FLOW, catalogue) == (request, "")


def test_values_of_the_flow_may_look_like_code(catalogue):
    dsl = 'x = await shared_a.OnIt_V2({"p": "SendEmailV2", "q": "https://a.example/b_c?[x]"});\nshared_b.SendEmailV2();'
    text = "If it happens, post SendEmailV2 to https://a.example/b_c?[x] at once"
    assert read_answer(text, True, dsl, catalogue) == (text, "")
    assert read_answer("If it happens, run OnIt_V2 at once", True, dsl, catalogue)[1] == "names"


def test_names_that_look_like_words_may_be_said(catalogue):
    names = code_names(FLOW, catalogue)
    assert {"CreateFormWebhook", "shared_outlook.SendEmailV2", "emailMessage/To", "outputs_mail", "form_id"} <= names
    assert {"responder", "Subject", "To", "body"}.isdisjoint(names)
    assert spoken_values(FLOW) == {"Visitors", "@contoso.com", "x", "ana@contoso.com", "New {visitor}"}


def test_the_simulators_requests_would_all_pass(catalogue, pairs):
    for row in pairs.itertuples():
        assert read_answer(row.request, True, row.dsl, catalogue)[1] == "", row.request


@settings(max_examples=300, deadline=None)
@given(st.text() | st.text(alphabet='ab \n"`*<>{}()[]?=:;._-|&1#'))
def test_whatever_a_model_answers_is_a_printable_line_or_refused(answer):
    request, reason = read_answer(answer, True, FLOW, {})
    assert reason in ("", *REASONS)
    assert "\n" not in request
    assert request == request.strip()
    request.encode()
    if not reason:
        assert "<START>" not in request
        assert len(normal_form(request).split()) <= MOST_WORDS
        assert read_answer(request, True, FLOW, {})[1] == "", "what was accepted is accepted again"


# ---------------------------------------------------------------- all flows


def test_every_pair_gets_a_request_and_keeps_the_rest(catalogue, pairs):
    result, counts = write_requests(Scripted(new_words), pairs, catalogue, 7)
    assert result["written"].all()
    assert result["request"].tolist() == [
        new_words(prompt(row.dsl, catalogue, manner_of(row.pair, 7))) for row in pairs.itertuples()
    ]
    for column in ("pair", "split", "dsl", "apis", "n_calls", "conditions", "trigger"):
        assert result[column].tolist() == pairs[column].tolist()
    assert set(result["frame"]) == {""}
    assert result["wordings"].map(len).sum() == result["quoted"].map(len).sum() == 0
    assert counts[["split", "pairs", "at_once", "repaired", "kept", "answers"]].to_numpy().tolist() == [
        ["training", 30, 30, 0, 0, 30],
        ["test", 12, 12, 0, 0, 12],
        ["unseen", 6, 6, 0, 0, 6],
    ]
    shared = leaks(result).set_index("what")["shared"]
    assert shared["requests, without case and punctuation"] == 0


@pytest.mark.parametrize(
    ("bad", "reason"),
    [("x = await y.z()", "code"), ("", "empty"), (("When it rains, stop the", False), "cut off")],
)
def test_a_refused_answer_is_asked_for_again_with_the_reason(bad, reason, catalogue, pairs):
    model = Scripted(refused_once(bad))
    result, counts = write_requests(model, pairs, catalogue, 7)
    assert result["written"].all()
    assert (counts["repaired"] == counts["pairs"]).all()
    assert (counts[reason] == counts["pairs"]).all()
    assert (counts["answers"] == 2 * counts["pairs"]).all()
    assert len(model.asked) == 2
    assert all(f"An earlier answer was refused: {REASONS[reason]}." in text for text in model.asked[1])


def test_a_pair_without_usable_answer_keeps_its_wording_and_is_counted(catalogue, pairs):
    unlucky = pairs["dsl"].iloc[-1]
    before = pairs.copy(deep=True)
    model = Scripted(lambda text: "" if text.endswith(f"{unlucky}\nRequest:") else new_words(text))
    result, counts = write_requests(model, pairs, catalogue, 7)
    left = result[~result["written"]]
    assert set(left["dsl"]) == {unlucky}
    pd.testing.assert_frame_equal(left.drop(columns="written"), pairs[pairs["dsl"] == unlucky])
    assert counts["kept"].sum() == len(left)
    assert counts["empty"].sum() == len(left) * (1 + REPAIRS)
    assert len(model.asked) == 1 + REPAIRS
    pd.testing.assert_frame_equal(pairs, before)


def test_a_model_that_always_says_the_same_writes_one_request(catalogue, pairs):
    result, counts = write_requests(Scripted(lambda _: "Do the usual thing, please!"), pairs, catalogue, 7)
    assert result["written"].tolist() == [True] + [False] * (len(pairs) - 1)
    assert counts["duplicate"].sum() == (len(pairs) - 1) * (1 + REPAIRS)


def test_no_written_request_is_another_pairs_old_one(catalogue, pairs):
    training = pairs["request"].iloc[0]
    asked = [pairs["dsl"].iloc[row] for row in (1, 40)]
    steals = Scripted(
        lambda text: training.upper() if any(f"{dsl}\nRequest:" in text for dsl in asked) else new_words(text)
    )
    result, _ = write_requests(steals, pairs, catalogue, 7)
    assert not result["written"].iloc[[1, 40]].any(), "the first pair's old wording, though it got a new one"
    own = Scripted(lambda text: training if f"{pairs['dsl'].iloc[0]}\nRequest:" in text else new_words(text))
    result, _ = write_requests(own, pairs, catalogue, 7)
    assert result["written"].all(), "a pair's own old wording is no duplicate"
    assert result["request"].iloc[0] == training


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_whatever_a_model_answers_no_two_requests_are_equal(data, catalogue, pairs):
    hostile = st.sampled_from(
        ["", "Do it now, please", "do it NOW please", "<script>x</script> y z", "word " * 500, pairs["request"].iloc[0],
         "\ud800\x00 when it rains", "Request: " * 50, "{" * 5000, pairs["dsl"].iloc[0], "When a mail comes, \u2028 go"]
    )  # fmt: skip
    script = {}

    def answer(text):
        if text not in script:
            script[text] = (data.draw(hostile | st.text(max_size=40)), data.draw(st.booleans()))
        return script[text]

    few = pairs.iloc[[0, 1, 2, 30, 31, 42]].reset_index(drop=True)
    result, counts = write_requests(Scripted(answer), few, catalogue, 7)
    assert result["request"].map(normal_form).is_unique
    result["request"].str.encode("utf-8")
    assert (result.loc[~result["written"], "request"] == few.loc[~result["written"], "request"]).all()
    assert (counts["at_once"] + counts["repaired"] + counts["kept"] == counts["pairs"]).all()
    assert (counts["answers"] == counts[["at_once", "repaired", *REASONS]].sum(axis=1)).all()
    again, same = write_requests(Scripted(answer), few, catalogue, 7)
    pd.testing.assert_frame_equal(again, result)
    pd.testing.assert_frame_equal(same, counts)


def test_pairs_of_ones_own_can_be_worded_anew(tmp_path, catalogue):
    path = tmp_path / "pairs.jsonl"
    path.write_text(
        '{"request": "A", "dsl": "x = await shared_own.OnIt();"}\n'
        '{"request": "B", "dsl": "x = await shared_own.OnIt();", "split": "test"}\n'
    )
    result, counts = write_requests(Scripted(new_words), read_pairs(path, catalogue), catalogue, 7)
    assert result["written"].all()
    assert result["request"].is_unique
    assert counts["split"].tolist() == ["training", "test"]


def test_what_a_loop_says_and_names(catalogue):
    dsl = 'for (newIssue of allIssues?["value"]) { shared_jira.Close({"k": "said", "l": newIssue?["theKey"]}); }'
    assert spoken_values(dsl) == {"said"}
    assert {"newIssue", "allIssues", "theKey"} <= code_names(dsl, catalogue)
