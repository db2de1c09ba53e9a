import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.evaluation.comparison import rates
from lib.workflows.language import FlowError, called_apis, parse
from lib.workflows.scoring import (
    METRICS,
    PERCENT,
    outcomes,
    score_flow,
    score_flows,
    similarity,
)

# Appendix A.1, with its line breaks and without the escapes of the typesetting.
GOLD = """triggerOutputs =
await shared_microsoftforms.CreateFormWebhook({});
outputs_shared_teams_PostMessageToConversation =
shared_teams.PostMessageToConversation(
{ "poster": "User" });"""
PREDICTION = """triggerOutputs =
await shared_microsoftforms.CreateFormWebhook({});
outputs_Get_my_profile_V2 = shared_office365users.
MyProfile_V2({}); outputs_shared_teams_PostMessage
= shared_teams.PostMessageToConversation(
{"poster": "User","location": "Channel"});"""
MADE_UP = "triggerOutputs = await shared_microsoftforms.CreateFormWebhook(); shared_teams.PostMessage({});"
WRONG_KEY = GOLD.replace('"poster"', '"sender"')
UNPARSED = GOLD.removesuffix(";")


def test_appendix_a1(six_apis):
    assert called_apis(parse(GOLD)) == [
        "shared_microsoftforms.CreateFormWebhook", "shared_teams.PostMessageToConversation",
    ]  # fmt: skip
    score = score_flow(PREDICTION, GOLD, six_apis)
    assert score.similarity == 2 / 3
    assert score.valid
    assert (score.made_up_names, score.made_up_parameters, score.error) == ((), (), "")
    by_names = score._replace(executed=None)
    assert score_flow(PREDICTION, called_apis(parse(GOLD)), six_apis) == by_names


@given(st.lists(st.sampled_from("abc"), max_size=6), st.lists(st.sampled_from("abc"), max_size=6))
def test_similarity_is_that_of_all_subsequences(left, right):
    def subsequences(items):
        return {part for n in range(len(items) + 1) for part in itertools.combinations(items, n)}

    common = max(len(part) for part in subsequences(left) & subsequences(right))
    assert similarity(left, right) == (common / max(len(left), len(right)) if left or right else 1)
    assert similarity(left, right) == similarity(right, left)


def test_a_made_up_name_costs_the_similarity_and_a_made_up_parameter_does_not(six_apis):
    name = score_flow(MADE_UP, GOLD, six_apis)
    assert (name.parsed, name.valid, name.similarity) == (True, False, 0)
    assert name.made_up_names == ("shared_teams.PostMessage",)
    key = score_flow(WRONG_KEY, GOLD, six_apis)
    assert (key.parsed, key.valid, key.similarity) == (True, True, 1)
    assert key.made_up_parameters == (("shared_teams.PostMessageToConversation", "sender"),)


@pytest.mark.parametrize("text", [UNPARSED, "", None, float("nan"), "Sorry, I cannot do that.", "(" * 100_000])
def test_what_does_not_parse_scores_nothing(six_apis, text):
    score = score_flow(text, GOLD, six_apis)
    assert (score.parsed, score.valid, score.similarity, score.made_up_names) == (False, False, 0, ())
    assert score.error.startswith("line ")


def test_a_gold_flow_that_does_not_parse_is_an_error(six_apis):
    with pytest.raises(FlowError):
        score_flow(GOLD, UNPARSED, six_apis)
    with pytest.raises(ValueError, match="shorter"):
        score_flows([GOLD, GOLD], [GOLD], six_apis)


def test_outcomes_add_up_to_rates(six_apis):
    """Of six flows three are wrong: a name, a key and a syntax error."""
    scores = score_flows([PREDICTION, MADE_UP, WRONG_KEY, UNPARSED, GOLD, GOLD], [GOLD] * 6, six_apis)
    table = rates(outcomes(scores.assign(condition="a", unit=range(6))), PERCENT, 200, 0).set_index("metric")["value"]
    assert table["similarity"] == pytest.approx((2 / 3 + 0 + 1 + 0 + 1 + 1) / 6)
    assert set(table.index) == {*METRICS, "valid", "executed", "wrong_at_1"}
    assert table["unparsed"] == pytest.approx(100 / 6)
    assert table["made_up_names"] == table["made_up_parameters"] == 20.0
    assert table["valid"] == 50


def test_a_flow_is_executed_right_or_not(six_apis):
    assert score_flow(GOLD, GOLD, six_apis).executed is True
    other = GOLD.replace('"User"', '"Bot"')
    assert score_flow(other, GOLD, six_apis).similarity == 1
    assert score_flow(other, GOLD, six_apis).executed is False
    assert score_flow(other, GOLD, six_apis, said=[[], []]).executed is True
    assert score_flow(WRONG_KEY, GOLD, six_apis, said=[[], []]).executed is False  # a parameter that does not exist
    assert score_flow(UNPARSED, GOLD, six_apis).executed is False
    assert score_flow(GOLD, called_apis(parse(GOLD)), six_apis).executed is None


def test_a_right_flow_with_a_call_that_is_never_reached_judges_none(six_apis):
    start = "x = await shared_microsoftforms.CreateFormWebhook();"
    one, other = "shared_office365users.MyProfile_V2();", 'shared_teams.PostMessageToConversation({"poster": "User"});'
    gold = f"{start} if (x?['n'] != 'a') {{ {one} }} else if (x?['n'] == 'b') {{ {other} }}"
    assert score_flow(gold, gold, six_apis).executed is None
    scores = score_flows([gold, GOLD, "no flow"], [gold, GOLD, gold], six_apis).assign(condition="c", unit=range(3))
    assert scores["executed"].tolist() == [None, True, None]
    ran = rates(outcomes(scores), PERCENT, 100, 0).set_index("metric").loc["executed"]
    assert (ran["value"], ran["n"], ran["counted"]) == (100, 3, 1)


@pytest.mark.parametrize("catalogue", ["data/catalogue", {}, None])
def test_what_is_no_catalogue_is_refused(catalogue):
    with pytest.raises(TypeError, match=rf"must be a Catalogue, .* not {type(catalogue).__name__}"):
        score_flow(GOLD, GOLD, catalogue)


def test_executed_flows_are_counted_among_all_and_among_those_of_right_names(six_apis):
    texts = [GOLD, GOLD.replace('"User"', '"Bot"'), PREDICTION, UNPARSED]
    scores = score_flows(texts, [GOLD] * 4, six_apis).assign(condition="c", unit=range(4))
    rates_of = rates(outcomes(scores), ["executed", "wrong_at_1"], 100, 0).set_index("metric")
    assert rates_of["value"][["executed", "wrong_at_1"]].tolist() == [25, 50]
    assert rates_of["counted"][["executed", "wrong_at_1"]].tolist() == [4, 2]
    with pytest.raises(ValueError, match=r"longer|shorter"):
        score_flows(texts, [GOLD] * 4, six_apis, said=[None])
