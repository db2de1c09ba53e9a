import random
import re

from lib.workflows.language import Call, Object, called_apis, calls, parse, print_flow
from lib.workflows.outputs import Output
from lib.workflows.planning import FlowPlan
from lib.workflows.requests import settings_of, without_unused, write
from lib.workflows.wordings import Wordings


def test_the_papers_plan_can_be_put_into_words(catalogue, values):
    apis = ["shared_microsoftforms.CreateFormWebhook", "shared_teams.PostMessageToConversation"]
    plan = FlowPlan(catalogue[apis[0]], [catalogue[apis[1]]])
    wordings = Wordings(catalogue, values, seed=7)
    written = [write(plan, wordings, "training", random.Random(seed)) for seed in range(50)]
    assert all(called_apis(pair.flow) == apis for pair in written)
    assert len({pair.request for pair in written}) == 50


def test_a_condition_does_not_test_what_the_trigger_is_set_to(catalogue, values):
    weather = catalogue["shared_msnweather.OnCurrentWeatherChange"]
    plan = FlowPlan(weather, [], [[catalogue["shared_teams.PostMessageToConversation"]]])
    wordings = Wordings(catalogue, values, seed=7)
    found = 0
    for seed in range(40):
        flow = write(plan, wordings, "training", random.Random(seed)).flow
        measure = dict(next(calls(flow)).parameters.pairs).get("Measure")
        tested = re.findall(r"\['current'\]\?\['(\w+)'\] [<>]", print_flow(flow))
        field = {"temperature": "temp", "humidity": "rh", "wind speed": "windSpd"}[measure]
        assert field not in tested
        found += len(tested)
    assert found > 10


def test_what_the_trigger_is_set_to_is_a_setting(catalogue):
    weather = catalogue["shared_msnweather.OnCurrentWeatherChange"]
    call = Call(weather.name, Object((("Measure", "humidity"),)), "triggerOutputs", awaited=True)
    visible = [Output(0, weather, "triggerOutputs", output) for output in weather.returns]
    assert {"measure", "humidity"} <= settings_of(weather, call, visible)
    assert settings_of(weather, Call(weather.name, Object(()), "triggerOutputs", awaited=True), visible) == set()


def test_only_outputs_that_are_used_have_names():
    flow = parse("triggerOutputs = await a.On({});\nx = a.Get({});\ny = a.Get({});\na.Put({\"k\": y?['body']});")
    assert [call.variable for call in calls(without_unused(flow))] == ["triggerOutputs", None, "y", None]


def test_in_a_loop_too():
    flow = parse('xs = a.b(); for (x of xs) { y = a.b(); z = a.b({"k": y}); }')
    assert [call.variable for call in calls(without_unused(flow))] == ["xs", "y", None]
    assert without_unused(flow).statements[1].variable == "x"
