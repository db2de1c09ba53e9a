import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.generation.decoding import repeats, stop_tokens
from lib.generation.local import load_tokenizer
from lib.generation.models import ModelError, locate
from lib.workflows.apis import API, Field
from lib.workflows.prompts import (
    CHAT_STOP,
    CHAT_TASK,
    CLOSING,
    END,
    INSTRUCTION,
    OPENING,
    STOP,
    USE_OF_DEFINITIONS,
    chat_parts,
    finetuned_prompt,
    finetuned_target,
    fit,
    flow_in_chat,
    flow_of,
    flow_prompts,
    metaprompt_parts,
    token_counter,
)

NEAR, FAR = ("near", "a.Near();"), ("far", "a.Far();")
FLOW = 'triggerOutputs = await a.New();\nif (triggerOutputs?[\'body\'] == "x") {\n  b.Post({"text": "hi"});\n}'


def words(text):
    return len(text.split())


def metaprompt(*arguments, **how):
    return "".join(metaprompt_parts(*arguments, **how))


def test_the_prompt_word_for_word():
    assert metaprompt("do  this\nnow", [NEAR, FAR], ["a.Near(key): nears"]) == (
        f"{INSTRUCTION}\n\n"
        "Request: far\nFlow:\na.Far();\n\n"
        "Request: near\nFlow:\na.Near();\n\n"
        f"{USE_OF_DEFINITIONS}\na.Near(key): nears\n\n"
        "Request: do this now\nFlow:\n"
    )
    assert metaprompt("x") == f"{INSTRUCTION}\n\nRequest: x\nFlow:\n"


def test_the_instruction_on_definitions_comes_with_them_unless_told_otherwise():
    assert USE_OF_DEFINITIONS not in metaprompt("x", [NEAR])
    assert USE_OF_DEFINITIONS in metaprompt("x", [NEAR], explain=True)
    without = metaprompt("x", [NEAR], ["a.Near(key): nears"], explain=False)
    assert USE_OF_DEFINITIONS not in without
    assert "\n\nAPI definitions:\na.Near(key): nears\n\n" in without


def test_conditions_of_a_flow_share_all_before_the_definitions():
    shots = [NEAR, FAR]
    fd, more = ["a.Near(): nears"], ["a.Near(): nears", "b.Post(text): posts"]
    shared = metaprompt("x", shots).removesuffix("Request: x\nFlow:\n")
    assert shared.endswith("a.Near();\n\n")
    for definitions, explain in [([], True), (fd, None), (more, None)]:
        assert metaprompt("x", shots, definitions, explain).startswith(shared)
    assert metaprompt("x", shots, more).startswith(f"{shared}{USE_OF_DEFINITIONS}\na.Near(): nears\n")
    assert metaprompt("x", shots, fd).startswith(f"{shared}{USE_OF_DEFINITIONS}\na.Near(): nears\n")


def test_definitions_may_come_before_the_few_shots():
    assert metaprompt("x", [NEAR, FAR], ["a.Near: nears."], first=True) == (
        f"{INSTRUCTION}\n\n{USE_OF_DEFINITIONS}\na.Near: nears.\n\n"
        "Request: far\nFlow:\na.Far();\n\n"
        "Request: near\nFlow:\na.Near();\n\n"
        "Request: x\nFlow:\n"
    )
    assert metaprompt("x", [NEAR], first=True) == metaprompt("x", [NEAR])


def test_an_answer_in_the_form_of_the_few_shots_ends_at_a_stop_text():
    prompt = metaprompt("x", [NEAR, ("y", FLOW)])
    assert not any(stop in flow for stop in STOP for flow in (NEAR[1], FLOW))
    assert all(stop in prompt.partition(FLOW)[2] for stop in STOP)


SHOTS = [("near", "one two"), ("middle", "one two three"), ("far", "one two three four")]


def in_form(form):
    """Three definitions, which say more of themselves where they are described."""
    return [name + " says" * (5 if form == "compact" else 50) for name in ("first", "second", "third")]


def none_at_all(form):
    return []


def test_the_farthest_few_shots_are_dropped_until_it_fits():
    whole = fit("x", SHOTS, none_at_all, 10_000, words)
    assert (whole.shots, whole.tokens) == (3, words(whole.prompt))
    assert fit("x", SHOTS, none_at_all, whole.tokens, words) == whole
    shorter = fit("x", SHOTS, none_at_all, whole.tokens - 1, words)
    assert (shorter.shots, shorter.prompt) == (2, metaprompt("x", SHOTS[:2]))
    none = fit("x", SHOTS, none_at_all, words(metaprompt("x")), words)
    assert (none.shots, none.prompt) == (0, metaprompt("x"))
    with pytest.raises(ValueError, match="begins 'x'"):
        fit("x", SHOTS, in_form, words(metaprompt("x")) - 1, words)


def test_what_definitions_say_is_dropped_first_then_definitions_then_few_shots():
    def fitted(limit, form="described"):
        return fit("x", SHOTS, in_form, limit, words, form=form)

    def kept(found):
        return found.shots, found.definitions, found.form

    whole = fitted(10_000)
    assert kept(whole) == (3, 3, "described")
    assert whole.prompt == metaprompt("x", SHOTS, in_form("described"))
    compact = fitted(whole.tokens - 1)
    assert kept(compact) == (3, 3, "compact")
    assert compact.prompt == metaprompt("x", SHOTS, in_form("compact")) == fitted(10_000, "compact").prompt
    seen = [compact]
    while seen[-1].shots:
        seen.append(fitted(seen[-1].tokens - 1))
    assert [(one.shots, one.definitions) for one in seen] == [
        (3, 3), (3, 2), (3, 1), (3, 0), (2, 0), (1, 0), (0, 0)
    ]  # fmt: skip
    assert seen[1].prompt == metaprompt("x", SHOTS, in_form("compact")[:2])


def test_the_use_of_definitions_is_told_where_none_fits():
    told = words(metaprompt("x", explain=True))
    assert fit("x", [], in_form, told, words, explain=True).prompt == metaprompt("x", explain=True)


def test_a_text_is_counted_once():
    seen = []

    def tokenizer(text, add_special_tokens, split_special_tokens):
        assert (add_special_tokens, split_special_tokens) == (False, True)
        seen.append(text)
        return {"input_ids": text.split()}

    count = token_counter(tokenizer)
    for request in ("x", "y"):
        assert fit(request, [NEAR, FAR], none_at_all, 10_000, count).shots == 2
    assert len(seen) == len(set(seen)) == 5  # the instruction, two shots, two requests


# ---------------------------------------------------------------- a condition


def api(name, *keys):
    connector, operation = name.split(".")
    return API(connector, operation, operation, connector, f"Does {operation}.", parameters=tuple(map(Field, keys)))


@pytest.fixture
def world():
    """Training pairs and a catalogue that lacks `b.Unknown`."""
    training = pd.DataFrame(
        {
            "request": ["first", "second", "third"],
            "dsl": ["a.New();\na.Add();", "b.Unknown();", "a.New();\nb.Post();"],
            "apis": [["a.New", "a.Add"], ["b.Unknown"], ["a.New", "b.Post"]],
        },
        index=[7, 8, 9],  # shots are positions, not labels
    )
    return training, {name: api(name, "key") for name in ("a.New", "a.Add", "b.Post", "c.Get")}


def test_flow_prompts(world):
    training, catalogue = world
    prompts = flow_prompts(["x", "y"], [[2, 1], [0]], training, catalogue, 10_000, words)
    assert prompts["definitions"].tolist() == [[], []]
    assert prompts["prompt"][0] == metaprompt("x", [("third", "a.New();\nb.Post();"), ("second", "b.Unknown();")])
    assert prompts["tokens"].tolist() == prompts["prompt"].map(words).tolist()
    grounded = flow_prompts(
        ["x", "y"], [[2, 1, 0], []], training, catalogue, 10_000, words, True, [["c.Get", "a.New"], ["c.Get", "no.Api"]]
    )
    assert grounded["definitions"].tolist() == [["a.New", "b.Post", "a.Add", "c.Get"], ["c.Get"]]
    assert "\na.New: Does New. Keys: key\nb.Post: Does Post. Keys: key\n" in grounded["prompt"][0]
    assert grounded[["shots", "dropped"]].to_numpy().tolist() == [[3, 0], [0, 0]]
    with pytest.raises(ValueError, match="shorter"):
        flow_prompts(["x", "y"], [[0]], training, catalogue, 10_000, words)


def test_a_prompt_names_the_definitions_that_it_kept(world):
    training, catalogue = world

    def prompt(limit, form="compact"):
        chosen = [["c.Get", "a.Add", "no.Api", "a.New"]]
        return flow_prompts(["x"], [[0]], training, catalogue, limit, words, semantic=chosen, form=form).iloc[0]

    described = prompt(10_000, "described")
    assert (described["definitions"], described["form"]) == (["c.Get", "a.Add", "a.New"], "described")
    assert "\nc.Get: Does Get. Keys: key (string)\n" in described["prompt"]
    whole = prompt(described["tokens"] - 1, "described")
    assert (whole["definitions"], whole["form"]) == (["c.Get", "a.Add", "a.New"], "compact")
    assert whole["prompt"] == prompt(10_000)["prompt"]
    cut = prompt(whole["tokens"] - 1)
    assert (cut["shots"], cut["definitions"]) == (1, ["c.Get", "a.Add"])


def test_definitions_go_before_the_few_shots_that_brought_them(world):
    training, catalogue = world
    whole = flow_prompts(["x"], [[2, 0]], training, catalogue, 10_000, words, True, [["c.Get"]]).iloc[0]
    shorter = flow_prompts(["x"], [[2, 0]], training, catalogue, whole["tokens"] - 1, words, True, [["c.Get"]]).iloc[0]
    assert whole["definitions"] == ["a.New", "b.Post", "a.Add", "c.Get"]
    assert shorter["definitions"] == ["a.New", "b.Post", "a.Add"]
    assert (shorter["shots"], shorter["dropped"]) == (2, 0)


@pytest.fixture(scope="module")
def tokenizer():
    """SmolLM2's; skipped where the model cannot be fetched."""
    try:
        return load_tokenizer(locate("SmolLM2-135M-Instruct"))[0]
    except ModelError as error:
        pytest.skip(str(error))


@pytest.mark.slow
def test_no_right_flow_is_taken_for_an_endless_repetition(pairs, tokenizer):
    flows = pairs.drop_duplicates("dsl")["dsl"]
    for ids in tokenizer(flows.tolist())["input_ids"]:
        assert not any(repeats(ids[:end]) for end in range(len(ids) + 1))
    line = tokenizer('shared_teams.PostMessage({"text": "a new lead"});\n' * 20)["input_ids"]
    assert any(repeats(line[:end]) for end in range(len(line) + 1))


@pytest.mark.slow
def test_parts_have_the_tokens_of_the_whole(tokenizer):
    count = token_counter(tokenizer)
    for definitions, explain in [([], None), ([], True), (["a.Do(x): does 12."], None), (["a.Do(x)", "b.C()"], False)]:
        parts = metaprompt_parts(
            "When it's 10:30, post “hi”", [("one", FLOW), ("two ", "x.Y();")], definitions, explain
        )
        assert sum(map(count, parts)) == count("".join(parts))


# ---------------------------------------------------------------- answers


@pytest.mark.parametrize(
    "answer",
    [
        FLOW,
        f"\n{FLOW}\n\nRequest: another\nFlow:\nc.Do();",
        f"{FLOW}\nRequest: another",
        f"{FLOW}\n  \nThis flow waits for a trigger.",
        f"{FLOW}\n<END>",
        f"{FLOW}<END>\nc.Do();",
        f"Of course.\n<START>\n{FLOW}\n<END> <START>",
        f"```\n{FLOW}\n```",
        f"```javascript\n{FLOW}\n```\nIt does what you asked for.",
        f"Here it is:\n\n```js\n{FLOW}\n```",
        f"```js\n{FLOW}",
        f"{FLOW}\n```",
    ],
)
def test_flow_of(answer):
    assert flow_of(answer) == FLOW


def test_flow_of_keeps_blank_lines_inside_a_fence_and_fences_inside_a_string():
    assert flow_of("```\na.Do();\n\nb.Do();\n```") == "a.Do();\n\nb.Do();"
    text = 'a.Do({"text": "```"});'
    assert flow_of(text) == text


@given(st.text(alphabet="`ab\n <>STAREND;Request:") | st.text())
def test_flow_of_never_raises(answer):
    flow = flow_of(answer)
    assert flow == flow.strip()
    assert flow in answer


def test_the_message_word_for_word():
    assert "".join(chat_parts("do  this\nnow", [NEAR, FAR], ["a.Near(key): nears"])) == (
        f"{INSTRUCTION} {CHAT_TASK}\n\n"
        "Request: far\nFlow:\n```flow\na.Far();\n```\n\n"
        "Request: near\nFlow:\n```flow\na.Near();\n```\n\n"
        f"{USE_OF_DEFINITIONS}\na.Near(key): nears\n\n"
        "Request: do this now"
    )
    assert "".join(chat_parts("x")) == f"{INSTRUCTION} {CHAT_TASK}\n\nRequest: x"


def test_definitions_and_their_instruction_stand_where_the_metaprompt_has_them():
    for explain in (None, True, False):
        for first in (False, True):
            ours = chat_parts("x", [NEAR], ["a.Near: nears"], explain, first)
            theirs = metaprompt_parts("x", [NEAR], ["a.Near: nears"], explain, first)
            assert len(ours) == len(theirs)
            assert [part for part in ours if "near: nears" in part.lower() or "API definitions" in part] == [
                part for part in theirs if "near: nears" in part.lower() or "API definitions" in part
            ]


@pytest.mark.parametrize(
    "answer",
    [
        f"```flow\n{FLOW}",  # stopped by the text that ends it
        f"```flow\n{FLOW}\n```",
        f"```\n{FLOW}\n```",
        f"```javascript\n{FLOW}\n```",
        f"Here is the flow:\n\n```flow\n{FLOW}\n```",
        f"Here is the flow:\n\n```flow\n{FLOW}",
        f"```flow\n{FLOW}\n```\nThis flow waits.\n```flow\na.Other();\n```",
        FLOW,
        f"{FLOW}\n```",
        f"{FLOW}\n\nThis flow waits.",
        f"{FLOW}\nRequest: another",
        f"  \n{FLOW}\n",
    ],
)
def test_the_flow_in_a_chats_answer_is_found(answer):
    assert flow_in_chat(answer) == FLOW


@pytest.mark.parametrize("answer", ["", "```", "```flow\n", "\n\n", "```\n```"])
def test_an_answer_without_a_flow_has_none(answer):
    assert flow_in_chat(answer) == ""


def test_the_text_that_ends_an_answer_does_not_begin_it():
    opened = f"Here it is:\n{OPENING}{FLOW}"
    assert not any(text in opened for text in CHAT_STOP)
    assert any(text in f"{opened}{CLOSING}\nThis flow waits." for text in CHAT_STOP)
    assert all(text.strip() for text in CHAT_STOP)  # a chat's answer may begin with a blank line


@given(st.text())
def test_any_answer_in_a_chat_is_read(answer):
    assert isinstance(flow_in_chat(answer), str)


FINETUNED_FLOW = "triggerOutputs = await a.New();\nb.Post();"


def test_prompt_and_target_put_the_markers_around_the_flow():
    whole = finetuned_prompt(" When it\nrains ") + finetuned_target(FINETUNED_FLOW)
    assert whole == f"When it rains\n<START>\n{FINETUNED_FLOW}\n<END>"
    assert flow_of(finetuned_target(FINETUNED_FLOW)) == FINETUNED_FLOW


@pytest.mark.slow
def test_the_markers_are_text_that_ends_an_answer():
    """With SmolLM2's tokenizer; skipped where the model cannot be fetched."""
    try:
        tokenizer, _ = load_tokenizer(locate("SmolLM2-135M-Instruct"))
    except ModelError as error:
        pytest.skip(str(error))

    class Model:
        generation_config = None

    assert stop_tokens(Model(), tokenizer, [END])[1] == [END]
    prompt, target = finetuned_prompt("When it rains"), finetuned_target(FINETUNED_FLOW)
    apart = [tokenizer(text)["input_ids"] for text in (prompt, target)]
    assert apart[0] + apart[1] == tokenizer(prompt + target)["input_ids"]
