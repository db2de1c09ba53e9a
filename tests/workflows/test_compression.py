import pandas as pd
import pytest

from lib.workbook.parameters.dsl_ablation import Condition
from lib.workflows.compression import (
    WAYS,
    WHOLE,
    Way,
    compress,
    elide,
    first_of_each,
    prompt_lengths,
    prompts_of_ways,
)
from lib.workflows.language import FlowError, called_apis, parse, variables_used

FLOW = """x = await shared_a.New({"team": "Sales team of the north", "n": 3});
if (x?['kind'] == "urgent") {
  shared_b.Send({"to": x?['mail'], "lines": ["one", {"k": "two"}]});
} else {
  shared_c.Log({});
}
for (i of x?['items']) {
  shared_b.Post({"text": "Hello"});
}"""


def count(text):
    return len(text.split())


def test_texts_are_left_out_of_calls_and_nothing_else():
    made = elide(FLOW)
    assert "Sales" not in made
    assert '"lines": ["...", {"k": "..."}]' in made
    assert "x?['kind'] == \"urgent\"" in made, "what a condition tests stays"
    assert '"n": 3' in made
    assert "\"to\": x?['mail']" in made
    assert called_apis(parse(made)) == called_apis(parse(FLOW))
    assert variables_used(parse(made)) == variables_used(parse(FLOW))
    assert elide(made) == made
    with pytest.raises(FlowError):
        elide("shared_a.Do(")


def test_every_simulated_flow_can_be_elided(pairs):
    for dsl in pairs["dsl"].head(200):
        assert called_apis(parse(elide(dsl))) == called_apis(parse(dsl))


def test_a_skeleton_is_shown_once_by_its_nearest():
    apis = [["a", "b"], ["a", "c"], ["a", "b"], ["b", "a"], ["a", "c"]]
    assert first_of_each([2, 1, 0, 3, 4], apis) == [2, 1, 3]
    assert first_of_each([], apis) == []


@pytest.fixture
def training(catalogue):
    names = [api.name for api in catalogue if not api.internal][:4]
    flows = [f'x = await {names[0]}({{"q": "a long text of {i}"}});\n{name}({{}});' for i, name in enumerate(names[1:])]
    return pd.DataFrame(
        {
            "request": [f"do {i}" for i in range(4)],
            "dsl": [*flows, flows[0].replace("of 0", "of three")],
            "apis": [*([names[0], name] for name in names[1:]), names[:2]],
        }
    )


def test_only_what_is_shown_is_rewritten(training):
    few = compress(Way(elided=True, once=True), [[0, 3], [3]], training)
    assert few.shots == [[0], [3]]
    assert "a long text" not in few.training["dsl"][0]
    assert few.training["dsl"][1] == training["dsl"][1]
    assert compress(Way(), [[0, 3]], training).training is training
    assert "a long text" in training["dsl"][0], "the pairs given stay as they are"


ASKED = pd.DataFrame({"pair": ["p", "q"], "request": ["do it", "do that"], "apis": [["x"], ["y"]], "half": ["a", "b"]})
NEAR = pd.Series({"p": [0, 3, 1, 2], "q": [3, 0, 2, 1]})


def test_every_way_saves_tokens(training, catalogue):
    table = prompt_lengths(ASKED, NEAR, [2, 4], training, catalogue, 10**6, count, "described")
    assert len(table) == 2 * 2 * len(WAYS)
    mean = table.groupby(["shots", "way"])["tokens"].mean()
    for shots in (2, 4):
        assert (mean[shots].drop(WHOLE) < mean[shots, WHOLE]).all()
        assert mean[shots].idxmin() == "all three"
    shown = table.groupby(["shots", "way"])["shown"].first()
    assert shown[4, WHOLE] == 4
    assert shown[4, "skeletons once"] == 3
    assert (table["dropped"] == 0).all()


def test_the_in_context_model_of_the_other_half_is_asked(training, catalogue):
    row = Condition.model_validate(["pretrained", 4, "fd", "in_context", "free", 2])
    ways = {name: WAYS[name] for name in (WHOLE, "all three")}
    prompts = prompts_of_ways(row, ASKED, NEAR, training, catalogue, 10**6, count, "described", ways)
    assert prompts["condition"].tolist() == [WHOLE, WHOLE, "all three", "all three"]
    assert prompts["model"].tolist() == ["in_context-b", "in_context-a"] * 2
    assert prompts["unit"].tolist() == ["p", "q"] * 2
    assert "a long text" in prompts["prompt"][0]
    assert "a long text" not in prompts["prompt"][2]
    assert prompts["form"].tolist() == ["described"] * 2 + ["compact"] * 2
    assert prompts["grammar"].isna().all()
