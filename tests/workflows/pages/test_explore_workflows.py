"""The widgets of the explorer of workflows, driven as a user would, with a model that answers what it is told to."""

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from bs4 import BeautifulSoup

from lib.generation.models import ModelError
from lib.workbook.artifacts import ArtifactError
from lib.workflows.ablation import Condition
from lib.workflows.explorer import FlowWriter, Selector, Written, read_saved
from lib.workflows.pages import explore_workflows
from lib.workflows.pages.explore_workflows import (
    TESTED,
    TYPED,
    Explorer,
    answer_html,
    check_html,
    compared_html,
    definition_html,
    explore,
    few_shots_html,
    first_test,
    lines_html,
    worked_example,
)

HOSTILE = "<img src=x onerror=alert(1)></td></div><script>alert(1)</script>&amp;"
FORM = 'x = await shared_microsoftforms.CreateFormWebhook({"form_id": "Leads"});'
MAIL = 'shared_office365.SendEmailV2({"emailMessage/To": "a@b.c"});'
POST = 'shared_teams.PostMessageToConversation({"poster": "Flow bot"});'
ELEMENTS = {
    "style", "div", "h4", "p", "b", "ul", "li", "code", "mark", "table", "tr", "th", "td", "span", "details", "summary",
}  # fmt: skip


def soup(html):
    """The parsed HTML, after a check that nothing in it is live but what the page module writes."""
    parsed = BeautifulSoup(html, "html.parser")
    for tag in parsed.find_all():
        assert tag.name in ELEMENTS, tag
        assert set(tag.attrs) <= {"class", "scope", "role"}, tag
    return parsed


def shown(html):
    """The text of a page, without its style."""
    return " ".join((soup(html).div or soup(html)).get_text(" ", strip=True).split())


@pytest.fixture
def make_writer(writing_model):
    """A writer whose fine-tuned model posts, and whose untuned model mails."""

    def make(saved):
        flows = {"finetuned": f"{FORM}\n{POST}", "untuned": f"{FORM}\n{MAIL}"}
        models = {role: writing_model(flow) for role, flow in flows.items()}
        vectors = np.array([[1, 0], [0, 1], [0.6, 0.8]], np.float32)
        selector = Selector(vectors, lambda texts: np.float32([[0.8, 0.6]] * len(texts)))
        return FlowWriter(saved.training, saved.catalogue, lambda _: selector, models.__getitem__, 32)

    return make


@pytest.fixture
def explorer(flow_book, make_writer):
    saved = read_saved(flow_book)
    return Explorer(saved, make_writer(saved), seed=7)


def test_the_explorer_opens_with_a_test_request_and_without_models(explorer):
    assert explorer.test.options == (("Post my leads", "test-0"),)
    assert shown(explorer.whole.value) == "Post my leads"
    assert (explorer.of_test.layout.display, explorer.typed.layout.display) == ("", "none")
    assert explorer.shots.options == (0, 1, 3)
    assert explorer.shots.value == 3
    assert [name for _, name in explorer.selector.options] == ["tst", "pretrained"]
    assert explorer.generator.options[0] == ("fine-tuned on 2 pairs: reads the request alone", "finetuned")
    assert explorer.generator.value == "finetuned"
    assert (explorer.writer.models, explorer.writer.selectors, explorer.answer.value) == ({}, {}, "")


def test_a_test_request_is_answered_beside_the_flow_that_is_wanted(explorer):
    explorer.button.click()
    answer = soup(explorer.answer.value)
    assert [heading.get_text() for heading in answer.find_all("h4")] == [
        "The flow that the model writes",
        "Checked against the catalogue",
        "What differs from the flow that is wanted",
        "As a Power Automate definition",
        "Few-shots",
        "Definitions",
    ]
    assert [cell.get_text() for cell in answer.table.find_all("td")] == [f"{FORM}\n{POST}"] * 2
    assert answer.mark is None
    words = shown(explorer.answer.value)
    assert "Similarity 1.00" in words
    assert "No error of calls or keys" in words
    assert words.count("✓") == 5  # four checks, and the few-shot that has this flow
    first = answer.find_all("table")[1].find_all("tr")[1]
    assert [cell.get_text() for cell in first.find_all("td")][:3] == ["1", "0.960", "Mail and post"]
    assert "3 definitions: the APIs of these few-shots (FD) shared_microsoftforms.CreateFormWebhook: Starts" in words


def test_a_request_of_ones_own_has_nothing_to_compare_with(explorer):
    explorer.kind.value = TYPED
    assert (explorer.of_test.layout.display, explorer.typed.layout.display) == ("none", "")
    explorer.typed.value = "  When a lead comes in, post it \n"
    explorer.selector.value = "pretrained"
    explorer.shots.value, explorer.definitions.value = 1, False
    explorer.decoding.value = "catalogue"
    explorer.button.click()
    words = shown(explorer.answer.value)
    assert words.startswith("“When a lead comes in, post it” The flow that the model writes x = await")
    assert "fine-tuned model, no few-shots, under the grammar and the catalogue: 8 tokens read, 3 written." in words
    assert "The fine-tuned model reads the request alone." in words
    assert not {"wanted", "Similarity", "Definitions"} & set(words.split())
    explorer.kind.value, explorer.generator.value = TESTED, "untuned"
    explorer.button.click()
    assert "untuned model, pretrained encoder, 1 few-shot, under the" in shown(explorer.answer.value)


def test_a_request_given_as_a_parameter_stands_there_already(flow_book, make_writer):
    saved = read_saved(flow_book)
    explorer = Explorer(saved, make_writer(saved), 7, "Post a lead")
    assert (explorer.of_test.layout.display, explorer.typed.layout.display) == ("none", "")
    explorer.button.click()
    assert shown(explorer.answer.value).startswith("“Post a lead” The flow")


def test_an_empty_request_is_told_and_nothing_loaded(explorer):
    explorer.kind.value = TYPED
    explorer.typed.value = " \n"
    explorer.button.click()
    assert "The request is empty: type one" in shown(explorer.answer.value)
    assert explorer.writer.models == {}
    assert explorer.button.disabled is False


def test_a_request_too_long_is_told(explorer):
    explorer.kind.value = TYPED
    explorer.typed.value = "word " * 480
    explorer.button.click()
    assert "The request is too long for the model" in shown(explorer.answer.value)
    assert "at most 468 fit" in shown(explorer.answer.value)


def test_words_narrow_the_list_of_test_requests(flow_book, make_writer):
    saved = read_saved(flow_book)
    more = saved.tests.assign(pair="unseen-0", split="unseen", request="Mail (urgent) leads " + "on and on " * 20)
    saved = replace(saved, tests=pd.concat([saved.tests, more], ignore_index=True))
    explorer = Explorer(saved, make_writer(saved), seed=7)
    assert [name for _, name in explorer.test.options] == ["test-0", "unseen-0"]
    label = explorer.test.options[1][0]
    assert label.startswith("(with an API that no few-shot has) Mail (urgent) leads")
    assert label.endswith(" …")
    explorer.words.value = "LEADS (urgent"
    assert explorer.test.value == "unseen-0"
    assert shown(explorer.whole.value) == more["request"].iloc[0].strip()
    explorer.words.value = "post urgent"
    assert explorer.test.options == ()
    assert shown(explorer.whole.value) == "No test request has these words."
    explorer.button.click()
    assert "No test request has these words: try others." in shown(explorer.answer.value)
    explorer.words.value = ""
    assert explorer.test.value == "test-0"


def test_a_missing_model_is_told_in_the_widget_and_asked_for_again(explorer):
    load = explorer.writer.load_model

    def fail(role):
        raise ModelError("model tiny: not there. Get it with `pip download tiny`")

    explorer.writer.load_model = fail
    explorer.button.click()
    assert "Get it with `pip download tiny`" in shown(explorer.answer.value)
    explorer.writer.load_model = load
    explorer.button.click()
    assert "Similarity 1.00" in shown(explorer.answer.value)


def test_missing_and_damaged_artifacts_are_told_in_the_widget(flow_book):
    assert "children" in explore(flow_book, 7).keys
    (flow_book.data / "flows.parquet").write_bytes(b"no table")
    assert "damaged" in shown(explore(flow_book, 7).value)
    (flow_book.data / "flows.parquet").unlink()
    words = shown(explore(flow_book, 7).value)
    assert "01_data_gen (flows.parquet): run `make report PROFILE=smoke`" in words


def test_a_world_without_test_requests_is_told(flow_book):
    saved = read_saved(flow_book)
    with pytest.raises(ArtifactError, match="no test requests"):
        first_test(replace(saved, tests=saved.tests[:0]), 7)


def test_a_batch_run_shows_one_worked_example(flow_book, make_writer, monkeypatch):
    monkeypatch.setattr(explore_workflows, "open_writer", lambda _, saved: make_writer(saved))
    words = shown(worked_example(flow_book, seed=7))
    assert "fine-tuned model, no few-shots: " in words
    assert "Similarity 1.00" in words
    assert "Similarity 1.00" in shown(worked_example(flow_book, seed=7, request=" "))
    words = shown(worked_example(flow_book, seed=7, request=" Post a lead "))
    assert words.startswith("“Post a lead” The flow that the model writes")
    assert "Similarity" not in words
    (flow_book.data / "catalogue.jsonl").unlink()
    with pytest.raises(ArtifactError, match="01_data_gen"):
        worked_example(flow_book, seed=7)


@pytest.fixture
def written():
    shots = {"cosine": [0.9, 0.5], "request": ["Mail", "Post"], "dsl": [FORM, POST], "shown": [True, True]}
    apis = [["shared_microsoftforms.CreateFormWebhook"], ["shared_teams.PostMessageToConversation"]]
    condition = Condition.model_validate(["tst", 2, "fd", "untuned", "free", 1])
    return Written(condition, pd.DataFrame(shots | {"apis": apis}), [], f"{FORM}\n{POST}", True, 9, 31, 0.9, 0.5)


@pytest.mark.parametrize(
    ("text", "finished", "said"),
    [
        (f"{FORM}\n{POST}", True, ["✓ parses", "✓ every name", "✓ every key", "✓ every variable"]),
        (f"{FORM}\n{POST}", False, ["✗ stopped after 31 tokens: it only repeated itself", "✓ parses"]),
        ("shared_teams.Post(", False, ["✗ stopped after", "✗ does not parse: line 1, column 19", "not checked"]),
        ("shared_team.Send();", True, ["✗ made-up name: shared_team.Send", "✓ every key"]),
        (POST.replace("Conversation", "Conversatio"), True, ["did you mean shared_teams.PostMessageToConversation?"]),
        (POST.replace("poster", "who"), True, ["✗ made-up key: who of shared_teams.PostMessageToConversation"]),
        (POST.replace('"Flow bot"', "z"), True, ["✗ variable used before assignment: z"]),
    ],
)
def test_the_check_says_what_is_wrong(written, catalogue, text, finished, said):
    words = shown(check_html(replace(written, text=text, finished=finished), 32, catalogue))
    for part in said:
        assert part in words
    assert ("✗" in words) == any("✗" in part or "did you mean" in part for part in said)


@pytest.mark.parametrize(("nearest", "unlike"), [(0.49, True), (0.5, False)])
def test_a_request_unlike_those_learned_from_is_told(written, catalogue, nearest, unlike):
    words = shown(answer_html("hello", replace(written, nearest=nearest), 32, catalogue))
    said = "a cosine of 0.49 with it (TST), where 99% of them have another one at 0.50 or more."
    assert (said in words) == ("This request is unlike" in words) == unlike


def test_an_answer_of_most_tokens_was_cut(written, catalogue):
    words = shown(check_html(replace(written, finished=False, tokens_out=32), 32, catalogue))
    assert "✗ cut at 32 tokens, the most that a flow may have here" in words
    assert "repeated" not in words


def test_lines_of_one_flow_alone_are_marked():
    lines = soup(lines_html(f"{FORM}\n  {POST}\n  {MAIL}", f"{POST}\n{FORM}"))
    assert [line.get_text() for line in lines.find_all("mark")] == [MAIL]
    assert lines.get_text() == f"{FORM}\n  {POST}\n  {MAIL}"


def test_an_empty_answer_is_shown_as_such(written, catalogue):
    assert "(nothing)" in shown(answer_html("Post", replace(written, text=""), 32, catalogue))


def test_nothing_from_data_or_a_model_is_live_markup(written, catalogue):
    (api,) = (api for api in catalogue if api.name == "shared_teams.PostMessageToConversation")
    wicked = type(catalogue)({**catalogue.apis, HOSTILE: replace(api, description=HOSTILE)}, catalogue.connectors)
    shots = written.few_shots.assign(request=HOSTILE, dsl=HOSTILE, apis=[[HOSTILE], ["x"]])
    wild = replace(written, text=HOSTILE, few_shots=shots, definitions=[HOSTILE])
    for gold in (None, pd.Series({"dsl": f"{FORM}\n{POST}", "apis": [HOSTILE, HOSTILE + "2"]})):
        words = shown(answer_html(HOSTILE, wild, 32, wicked, gold))
        assert words.count("<script>alert(1)</script>&amp;") >= 7
    quoted = f'shared_{{}}["{HOSTILE}"]({{"{HOSTILE}": 1}});'.replace("{}", "x")
    flow = f'{quoted}\nshared_teams.PostMessageToConversation({{"{HOSTILE}": 1}});'
    assert shown(check_html(replace(written, text=flow), 32, catalogue)).count("<script>") >= 1


def test_opening_loads_neither_torch_nor_transformers():
    code = (
        "import sys, lib.workflows.pages.explore_workflows;"
        "print([name for name in ('torch', 'transformers', 'sentence_transformers', 'faiss') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_flow_is_shown_as_a_definition_that_reads_back(written, catalogue):
    html = definition_html(written)
    code = soup(html).find("details").code.get_text()
    definition = json.loads(code)
    assert [action["inputs"]["host"]["operationId"] for action in definition["actions"].values()] == [
        "PostMessageToConversation"
    ]
    assert "Read back, it is the same flow" in shown(html)
    hostile = replace(written, text=f"{FORM}\n{POST}".replace("Flow bot", HOSTILE))
    assert (
        HOSTILE
        in json.loads(soup(definition_html(hostile)).find("details").code.get_text())["actions"][
            "PostMessageToConversation"
        ]["inputs"]["parameters"]["poster"]
    )


def test_required_keys_left_out_are_named_and_are_no_error(written, catalogue):
    html = check_html(written, 32, catalogue)
    assert "Still to fill in: location of shared_teams.PostMessageToConversation ." in shown(html)
    assert "✗" not in shown(html)
    filled = replace(written, text=written.text.replace('"poster"', '"location": "Channel", "poster"'))
    assert "fill in" not in shown(check_html(filled, 32, catalogue))


def test_what_differs_is_said(written, catalogue):
    words = shown(compared_html(replace(written, text=POST), f"{FORM}\n{POST}", catalogue))
    assert "Similarity 0.50" in words
    assert "Errors: " in words
    assert "No error" in shown(compared_html(written, written.text, catalogue))


def test_few_shots_say_whether_they_fit_and_are_copied(written):
    assert "its flow is the answer" not in shown(few_shots_html(written))
    assert "Post ✓ its flow is the answer" in shown(few_shots_html(replace(written, text=POST + "\n")))
    fewer = written.few_shots.assign(shown=[True, False])
    assert "Only the nearest 1 of the 2 fit" in shown(few_shots_html(replace(written, few_shots=fewer)))
    none = written.few_shots.assign(shown=False)
    assert "None of the 2 fit into" in shown(few_shots_html(replace(written, few_shots=none)))
    assert "None were asked for" in shown(few_shots_html(replace(written, few_shots=fewer[:0])))


@pytest.mark.parametrize(("flow", "said"), [(FORM, "its call (JSON)"), (f"{FORM}\n{POST}", "its 2 calls (JSON)")])
def test_one_call_is_not_many(written, catalogue, flow, said):
    html = definition_html(replace(written, text=flow))
    assert shown(html).count(f"The definition of {said}") == 1


def test_what_cannot_be_exported_says_why(written, catalogue):
    assert definition_html(replace(written, text="shared_a.Do(")) == ""
    said = shown(definition_html(replace(written, text=POST)))
    assert said.endswith("cannot be exported: a flow begins with its trigger, an awaited call.")
