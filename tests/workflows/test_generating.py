import itertools
import json
import os
import random
import re
import sys
import time
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from lib.workbook.inputs import InputError
from lib.workflows.generating import FlowSource, generate, make_pair, settings_of, without_unused, write
from lib.workflows.language import (
    Call,
    If,
    Object,
    Reference,
    called_apis,
    calls,
    parse,
    print_flow,
    validate,
    variables_used,
)
from lib.workflows.pairs import dsl_hash, normal_form
from lib.workflows.planning import FlowKnobs, FlowPlan
from lib.workflows.steps import Output, partner
from lib.workflows.wording import Wordings

DATA = Path(__file__).parents[2] / "data"


def of(pairs, split):
    return pairs[pairs["split"] == split]


def test_sizes_and_splits(pairs):
    assert dict(Counter(pairs["split"])) == {"training": 1200, "test": 400, "unseen": 204, "test_same": 400}
    assert pairs["pair"].is_unique
    assert pairs["pair"].iloc[-1] == "test_same-00399"


@pytest.mark.slow
def test_the_same_knobs_give_the_same_pairs_in_any_number_of_processes(catalogue, values, pairs):
    knobs = FlowKnobs(n_training_pairs=1010, n_test_pairs=5, n_unseen_pairs=2, n_test_same_pairs=0)
    again = generate(catalogue, values, knobs, processes=2)
    first = of(pairs, "training").head(1010).reset_index(drop=True)
    assert again.head(1010).equals(first)
    assert not generate(catalogue, values, replace(knobs, seed=8))["request"].equals(again["request"])


def test_further_pairs_move_no_other(catalogue, values, pairs, small):
    sizes = {"n_training_pairs": 300, "n_test_pairs": 60, "n_unseen_pairs": 30, "n_test_same_pairs": 0}
    few = generate(catalogue, values, replace(small, **sizes))
    known = pairs.set_index("pair")
    common = few[few["pair"].isin(known.index)].set_index("pair")
    # fewer pairs have fewer requests to differ from, so one that is drawn again may be another
    same = (common[["request", "dsl"]] == known.loc[common.index, ["request", "dsl"]]).all(axis=1)
    assert len(common) == 390
    assert same.sum() >= 389
    with_same = generate(catalogue, values, replace(small, **sizes | {"n_test_same_pairs": 50}))
    assert with_same.head(390).equals(few)


def test_the_pairs_stay_those_that_shipped_parts_learned_from(catalogue, values):
    """Whoever changes the world on purpose puts the new hash here, and trains anew."""
    source = FlowSource.of(catalogue, values, FlowKnobs())
    numbers = {"training": (0, 1, 2, 33_000, 66_999), "test": (0, 1, 500, 999), "unseen": (0, 200, 407)}
    made = [make_pair(source, split, number) for split, some in numbers.items() for number in some]
    text = "\n".join(f"{pair['pair']}\n{pair['request']}\n{pair['dsl']}" for pair in made)
    assert dsl_hash(text) == "ff6f2b29794e"


MAKE_MANY = """
from pathlib import Path
from lib.workflows.planning import FlowKnobs
from lib.workflows.pairs import read_values
from lib.workflows.catalogue import Catalogue
from lib.workflows.generating import generate
if __name__ == "__main__":
    data = Path(__import__("sys").argv[1])
    generate(Catalogue.load(data / "catalogue"), read_values(data / "values.yaml"), FlowKnobs(), processes=2)
"""


@pytest.mark.slow
def test_workers_end_with_a_process_that_is_killed(tmp_path):
    script = tmp_path / "make_many.py"
    script.write_text(MAKE_MANY)
    maker = psutil.Popen(
        [sys.executable, str(script), str(DATA)], cwd=DATA.parent, env=os.environ | {"PYTHONPATH": "."}
    )
    deadline = time.monotonic() + 120
    while len(workers := [child for child in maker.children() if "spawn_main" in " ".join(child.cmdline())]) < 2:
        assert maker.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.2)
    time.sleep(2)
    maker.kill()
    maker.wait()
    _, left = psutil.wait_procs(workers, timeout=120)
    for worker in left:
        worker.kill()
    assert not left


def test_every_flow_round_trips_and_validates(pairs, catalogue):
    for dsl in pairs["dsl"]:
        flow = parse(dsl)
        assert print_flow(flow) == dsl
        report = validate(flow, catalogue)
        assert (report.made_up_names, report.made_up_parameters, report.unassigned) == ((), (), ())


def test_the_trigger_comes_first_and_is_awaited_alone(pairs, catalogue):
    for dsl in pairs["dsl"]:
        made = list(calls(parse(dsl)))
        assert [catalogue[call.api].trigger for call in made] == [True] + [False] * (len(made) - 1)
        assert [call.awaited for call in made] == [True] + [False] * (len(made) - 1)
        assert 1 <= len(made) <= 5


def test_variables_are_assigned_once_and_those_of_actions_used(pairs):
    for dsl in pairs["dsl"]:
        variables = [call.variable for call in calls(parse(dsl)) if call.variable]
        assert len(set(variables)) == len(variables)
        assert set(variables_used(parse(dsl))) >= set(variables) - {"triggerOutputs"}


def test_only_apis_that_training_may_use_and_no_internal_ones(pairs, catalogue):
    for split in ("training", "test"):
        assert all(catalogue[api].in_training for apis in of(pairs, split)["apis"] for api in apis)
    assert all(not catalogue[api].internal for apis in pairs["apis"] for api in apis)


def test_every_unseen_flow_has_an_api_held_out_and_every_such_api_occurs(pairs, catalogue):
    unseen = of(pairs, "unseen")
    held = {api.name for api in catalogue if not api.in_training}
    assert all(held & set(apis) for apis in unseen["apis"])
    assert held == held & {api for apis in unseen["apis"] for api in apis}


def test_what_a_request_has_in_quotes_stands_in_the_flow(pairs):
    quotes = re.compile(r'"([^"]+)"|“([^”]+)”|(?<!\w)\'([^\']+)\'(?!\w)')
    found = 0
    for pair in pairs.itertuples():
        texts = set(re.findall(r'"((?:[^"\\]|\\.)*)"', pair.dsl))
        for match in quotes.finditer(pair.request):
            found += 1
            assert next(filter(None, match.groups())) in {json.loads(f'"{text}"') for text in texts}, pair.request
    assert found > 500


def test_no_request_occurs_twice_in_any_split(pairs):
    assert pairs["request"].map(normal_form).is_unique


def test_no_slot_or_placeholder_is_left(pairs):
    assert not pairs["request"].str.contains("[{}\ue000-\uf8ff]").any()
    assert not pairs["request"].str.contains("  ").any()


def test_the_second_test_set_is_said_in_the_wordings_and_frames_of_training(pairs, wordings, catalogue, values):
    same, training, test = (of(pairs, split) for split in ("test_same", "training", "test"))
    lists = ("phrases", "terse", "clauses")
    for api, phrase in {wording for used in same["wordings"] for wording in used}:
        assert any(phrase in wordings.apis[api, name, "training"] for name in lists)
    frames = set(same["frame"])
    assert frames <= set(training["frame"])
    assert not frames & set(test["frame"])
    assert set(test["frame"]) - set(training["frame"])
    # flows of its own: no more of them occur in training than of the other test set's, about
    known = set(training["dsl"])
    assert same["dsl"].isin(known).mean() < 0.1
    assert all(catalogue[api].in_training for apis in same["apis"] for api in apis)


def test_phrases_are_split_between_training_and_test(pairs, catalogue):
    seen = {split: {w for used in of(pairs, split)["wordings"] for w in used} for split in ("training", "test")}
    for api, phrase in seen["training"] & seen["test"]:
        lists = [texts for texts in (catalogue[api].phrases, catalogue[api].terse, catalogue[api].clauses)
                 if phrase in texts]  # fmt: skip
        assert any(len(texts) == 1 for texts in lists), phrase


def test_frames_are_split_between_training_and_test(pairs):
    training, test = set(of(pairs, "training")["frame"]), set(of(pairs, "test")["frame"])
    assert len(training) > 50
    assert len(test) > 25
    assert not training & test
    assert not training & set(of(pairs, "unseen")["frame"])


def test_about_a_third_of_the_flows_have_conditions_with_all_shapes(pairs):
    training = of(pairs, "training")
    assert (training["conditions"] > 0).mean() == pytest.approx(1 / 3, abs=0.045)
    ifs = [s for dsl in training["dsl"] for s in parse(dsl).statements if isinstance(s, If)]
    shapes = {(len(statement.branches) > 1, bool(statement.otherwise)) for statement in ifs}
    assert shapes == {(False, False), (False, True), (True, False), (True, True)}


def test_lengths_follow_the_knobs(pairs, small):
    shares = of(pairs, "training")["n_calls"].value_counts(normalize=True)
    for length, share in enumerate(small.length_shares, start=1):
        assert shares[length] == pytest.approx(share, abs=0.05)


def outputs_of(flow, catalogue):
    """API of each variable."""
    return {call.variable: catalogue[call.api] for call in calls(flow)}


def test_references_name_fields_that_the_earlier_call_returns(pairs, catalogue):
    count = 0
    for dsl in pairs["dsl"]:
        flow = parse(dsl)
        apis = outputs_of(flow, catalogue)
        for variable, path in re.findall(r"(\w[\w-]*)((?:\?\['[^']+'\])+)", dsl):
            keys = re.findall(r"\['([^']+)'\]", path)
            assert keys[0] == "body"
            assert "/".join(keys[1:]) in {output.key for output in apis[variable].returns}
            count += 1
    assert count > 1000


def test_ids_come_from_earlier_calls_and_nobody_says_them(pairs, catalogue):
    for dsl in pairs["dsl"]:
        for call in calls(parse(dsl)):
            kinds = {parameter.key: parameter.kind for parameter in catalogue[call.api].parameters}
            for key, value in call.parameters.pairs:
                assert not kinds[key].startswith("id:") or isinstance(value, Reference)


def test_ranges_are_in_order(pairs, catalogue):
    count = 0
    for dsl in pairs["dsl"]:
        for call in calls(parse(dsl)):
            named = dict(call.parameters.pairs)
            for key, low in named.items():
                end = partner(catalogue[call.api], key)
                if end and end[1] and end[0] in named:
                    high = named[end[0]]
                    if isinstance(low, str | int | float) and isinstance(high, type(low)):
                        field = next(p for p in catalogue[call.api].parameters if p.key == key)
                        if field.kind in ("date", "datetime", "number", "amount", "count"):
                            count += 1
                            assert low < high
    assert count > 5


def test_a_choice_that_nobody_makes_takes_the_first_example(pairs, catalogue):
    for pair in of(pairs, "test").itertuples():
        for call in calls(parse(pair.dsl)):
            for parameter in catalogue[call.api].parameters:
                value = dict(call.parameters.pairs).get(parameter.key)
                if parameter.required and parameter.kind == "choice" and parameter.examples:
                    assert isinstance(value, str)
                if not isinstance(value, str) or parameter.kind != "choice" or not parameter.required:
                    continue
                said = value.lower() in pair.request.lower()
                assert said or value == parameter.examples[0] or value in pair.dsl.split(call.api)[0]


def test_common_apis_are_used_most(pairs, catalogue):
    used = Counter(api for apis in of(pairs, "training")["apis"] for api in apis)
    by_use = defaultdict(list)
    for api in catalogue:
        if api.in_training:
            by_use[api.use].append(used[api.name])
    mean = {use: sum(counts) / len(counts) for use, counts in by_use.items()}
    assert mean["core"] > 3 * mean["common"] > 6 * mean["rare"] > 0


@pytest.mark.parametrize(
    "wrong",
    [{"length_shares": [1.0]}, {"length_shares": [1.0, 0, 0, 0, 0]}, {"condition_share": 1.0}],
)
def test_knobs_out_of_range(wrong):
    with pytest.raises(InputError):
        FlowKnobs(**wrong)


def test_flows_around_rare_apis_use_what_weights_would_not(catalogue, values):
    rare = {api.name for api in catalogue if api.in_training and api.use == "rare"}
    share = {}
    for tail in (0.0, 1.0):
        source = FlowSource.of(catalogue, values, FlowKnobs(tail_share=tail))
        flows = [make_pair(source, "training", index) for index in range(300)]
        share[tail] = sum(bool(rare & set(flow["apis"])) for flow in flows)
    assert share[1.0] > 2 * share[0.0]


def test_a_request_tells_which_stretch_of_it_says_which_call(pairs):
    for pair in pairs.itertuples():
        stretches = sorted(pair.clauses)
        assert len(pair.clauses) == pair.n_calls
        said = [pair.request[start:end] for start, end in stretches]
        assert all(text and text == text.strip() for text in said)
        assert all(one[1] <= other[0] for one, other in itertools.pairwise(stretches))
        assert re.fullmatch("[^\ue000-\uf8ff\U000f0000-\U000fffff]*", pair.request)


def test_the_papers_plan_can_be_put_into_words(catalogue, values):
    apis = ["shared_microsoftforms.CreateFormWebhook", "shared_teams.PostMessageToConversation"]
    plan = FlowPlan(catalogue[apis[0]], [catalogue[apis[1]]])
    wordings = Wordings(catalogue, values, seed=7)
    written = [write(plan, wordings, "training", random.Random(seed)) for seed in range(50)]
    assert all(called_apis(flow) == apis for flow, _ in written)
    assert len({how["request"] for _, how in written}) == 50


def test_a_condition_does_not_test_what_the_trigger_is_set_to(catalogue, values):
    weather = catalogue["shared_msnweather.OnCurrentWeatherChange"]
    plan = FlowPlan(weather, [], [[catalogue["shared_teams.PostMessageToConversation"]]])
    wordings = Wordings(catalogue, values, seed=7)
    found = 0
    for seed in range(40):
        flow = write(plan, wordings, "training", random.Random(seed))[0]
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
