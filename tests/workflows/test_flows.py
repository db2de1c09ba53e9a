import json
import os
import random
import re
import sys
import time
from collections import Counter, defaultdict
from dataclasses import asdict
from pathlib import Path

import pandas as pd
import psutil
import pytest
from pydantic import ValidationError

from lib.workbook.inputs import InputError
from lib.workbook.parameters.worlds import FlowKnobs
from lib.workflows.catalogue import Catalogue
from lib.workflows.flows import (
    World,
    _Planner,
    ambiguity,
    dsl_hash,
    generate,
    make_pair,
    match_reworded,
    normal_form,
    read_pairs,
    read_reworded,
    statistics,
)
from lib.workflows.frames import split_wordings
from lib.workflows.language import Call, If, Reference, called_apis, calls, parse, print_flow, validate, variables_used
from lib.workflows.pair_checks import read_values
from lib.workflows.requests import Planned, Wordings, partner, write
from lib.workflows.scoring import similarity

DATA = Path(__file__).parents[2] / "data"
SMALL = FlowKnobs(n_training_pairs=1200, n_test_pairs=400, n_unseen_pairs=204)

# Appendix A.1 of the workflow paper.
PAPER_REQUEST = "Post a message in the channel of teams, when a new form is created in the forms"
PAPER_FLOW = """triggerOutputs = await shared_microsoftforms.CreateFormWebhook({});
outputs_shared_teams_PostMessageToConversation = shared_teams.PostMessageToConversation({"poster": "User"});"""
PAPER_PREDICTION = ["shared_microsoftforms.CreateFormWebhook", "shared_office365users.MyProfile_V2",
                    "shared_teams.PostMessageToConversation"]  # fmt: skip


@pytest.fixture(scope="module")
def catalogue():
    return Catalogue.load(DATA / "catalogue")


@pytest.fixture(scope="module")
def values():
    return read_values(DATA / "values.yaml")


@pytest.fixture(scope="module")
def pairs(catalogue, values):
    return generate(catalogue, values, SMALL)


def of(pairs, split):
    return pairs[pairs["split"] == split]


def test_sizes_and_splits(pairs):
    assert dict(Counter(pairs["split"])) == {"training": 1200, "test": 400, "unseen": 204}
    assert pairs["pair"].is_unique


def test_the_same_knobs_give_the_same_pairs_in_any_number_of_processes(catalogue, values, pairs):
    knobs = FlowKnobs(n_training_pairs=1010, n_test_pairs=5, n_unseen_pairs=2)
    again = generate(catalogue, values, knobs, processes=2)
    first = of(pairs, "training").head(1010).reset_index(drop=True)
    assert again.head(1010).equals(first)
    assert not generate(catalogue, values, knobs.model_copy(update={"seed": 8}))["request"].equals(again["request"])


MAKE_MANY = """
from pathlib import Path
from lib.workbook.parameters.worlds import FlowKnobs
from lib.workflows.pair_checks import read_values
from lib.workflows.catalogue import Catalogue
from lib.workflows.flows import generate
if __name__ == "__main__":
    data = Path(__import__("sys").argv[1])
    generate(Catalogue.load(data / "catalogue"), read_values(data / "values.yaml"), FlowKnobs(), processes=2)
"""


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


@pytest.mark.parametrize(("n", "held"), [(1, 1), (2, 1), (3, 1), (8, 2), (9, 3)])
def test_a_third_of_the_wordings_is_for_the_test(n, held):
    parts = split_wordings([str(i) for i in range(n)], seed=7, name="x")
    assert len(parts["test"]) == held
    assert len(parts["training"]) == max(1, n - held)
    assert n == 1 or not set(parts["training"]) & set(parts["test"])


def test_about_a_third_of_the_flows_have_conditions_with_all_shapes(pairs):
    training = of(pairs, "training")
    assert (training["conditions"] > 0).mean() == pytest.approx(1 / 3, abs=0.045)
    ifs = [s for dsl in training["dsl"] for s in parse(dsl).statements if isinstance(s, If)]
    shapes = {(len(statement.branches) > 1, bool(statement.otherwise)) for statement in ifs}
    assert shapes == {(False, False), (False, True), (True, False), (True, True)}


def test_lengths_follow_the_knobs(pairs):
    shares = of(pairs, "training")["n_calls"].value_counts(normalize=True)
    for length, share in enumerate(SMALL.length_shares, start=1):
        assert shares[length] == pytest.approx(share, abs=0.05)


def outputs_of(flow, catalogue):
    """API of each variable."""
    return {call.variable: catalogue[call.api] for call in calls(flow)}


def references(node):
    if isinstance(node, Reference):
        yield node
    elif isinstance(node, Call):
        for _, value in node.parameters.pairs:
            yield from references(value)


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


def test_older_siblings_are_rare_and_counted(pairs, catalogue):
    share = ambiguity(pairs, catalogue).set_index("split")
    assert 0 < share.loc["training", "older"] < 0.02 < share.loc["training", "with_siblings"]
    newest = {"pair": ["a"], "split": ["s"], "apis": [["shared_office365.SendEmailV2"]]}
    older = {"pair": ["b"], "split": ["s"], "apis": [["shared_office365.SendEmail"]]}
    both = ambiguity(pd.concat([pd.DataFrame(newest), pd.DataFrame(older)]), catalogue)
    assert both[["n", "with_siblings", "older"]].to_numpy().tolist() == [[2, 1.0, 0.5]]


def test_statistics_are_frames(pairs, catalogue):
    frames = statistics(pairs, catalogue, n_examples=7)
    assert frames["lengths"].groupby("split")["share"].sum().to_numpy() == pytest.approx(1)
    assert frames["conditions"]["pairs"].sum() == len(pairs)
    assert frames["apis"]["calls"].is_monotonic_decreasing
    assert frames["apis"]["calls"].sum() == of(pairs, "training")["n_calls"].sum()
    assert len(frames["examples"]) == 7


def test_the_papers_example_is_a_flow_of_our_catalogue(tmp_path, catalogue):
    path = tmp_path / "pairs.jsonl"
    pair = {"request": PAPER_REQUEST, "dsl": PAPER_FLOW}
    path.write_text("\n".join(json.dumps(pair | {"split": split}) for split in ("training", "test")), encoding="utf-8")
    pairs = read_pairs(path, catalogue)
    assert pairs.loc[0, "apis"] == ["shared_microsoftforms.CreateFormWebhook", "shared_teams.PostMessageToConversation"]
    assert pairs.loc[0, "unknown"] == []
    assert validate(parse(PAPER_FLOW), catalogue).made_up_parameters == ()
    assert similarity(PAPER_PREDICTION, pairs.loc[0, "apis"]) == pytest.approx(2 / 3)


def test_the_papers_plan_can_be_put_into_words(catalogue, values):
    apis = [PAPER_PREDICTION[0], PAPER_PREDICTION[2]]
    plan = Planned(catalogue[apis[0]], [catalogue[apis[1]]])
    wordings = Wordings(catalogue, values, seed=7)
    written = [write(plan, wordings, "training", random.Random(seed)) for seed in range(50)]
    assert all(called_apis(pair.flow) == apis for pair in written)
    assert len({pair.request for pair in written}) == 50


def test_the_example_of_the_readme_can_be_read(tmp_path, catalogue):
    section = (DATA / "README.md").read_text().split("\n## Your own requests and flows")[1].split("\n## ")[0]
    path = tmp_path / "pairs.jsonl"
    path.write_text(re.search(r"```json\n(.*?)```", section, flags=re.DOTALL)[1], encoding="utf-8")
    pairs = read_pairs(path, catalogue)
    assert pairs["split"].tolist() == ["training", "test"]
    assert not any(pairs["unknown"])


def test_unknown_apis_in_ones_own_pairs_are_counted(tmp_path, catalogue, caplog):
    path = tmp_path / "pairs.jsonl"
    lines = [
        {"request": "A", "dsl": "x = await shared_x.OnIt();", "id": "one", "split": "test"},
        {"request": "B", "dsl": PAPER_FLOW},
    ]
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    pairs = read_pairs(path, catalogue)
    assert pairs["pair"].tolist() == ["one", "training-00002"]
    assert pairs["split"].tolist() == ["test", "training"]
    assert pairs["unknown"].tolist() == [["shared_x.OnIt"], []]
    assert "1 flows use APIs that the catalogue lacks: shared_x.OnIt" in caplog.text


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ({"request": "A", "dsl": "x = await shared_x.OnIt("}, "line 2: dsl: line 1, column 25: expected"),
        ({"request": "", "dsl": PAPER_FLOW}, "line 2: request: "),
        ({"request": "A"}, "line 2: dsl: Field required"),
        ({"request": "A", "dsl": PAPER_FLOW, "note": "x"}, "line 2: note: "),
        ({"request": "A", "dsl": PAPER_FLOW, "id": "first"}, "line 2: id: 'first' is also in line 1"),
        ({"request": "A", "dsl": "if (true) { }"}, "line 2: dsl: "),
        ({"request": "A", "dsl": PAPER_FLOW, "split": "dev"}, "line 2: split: Input should be 'training', "),
    ],
)
def test_bad_pairs_name_file_line_and_field(tmp_path, catalogue, line, words):
    path = tmp_path / "pairs.jsonl"
    first = {"request": "B", "dsl": PAPER_FLOW, "id": "first"}
    path.write_text(json.dumps(first) + "\n" + json.dumps(line), encoding="utf-8")
    with pytest.raises(InputError, match=re.escape(f"{path}, {words}")):
        read_pairs(path, catalogue)


@pytest.mark.parametrize(
    ("splits", "missing"), [([], "training"), (["training", "unseen"], "test"), (["test"], "training")]
)
def test_pairs_to_learn_from_and_to_test_on_are_needed(tmp_path, catalogue, splits, missing):
    path = tmp_path / "pairs.jsonl"
    lines = [json.dumps({"request": "A", "dsl": PAPER_FLOW, "split": split}) for split in splits]
    path.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(InputError, match=re.escape(f"{path}: split: no pair is a {missing} pair")):
        read_pairs(path, catalogue)


@pytest.mark.parametrize(
    "wrong",
    [{"length_shares": [1.0]}, {"length_shares": [1.0, 0, 0, 0, 0]}, {"condition_share": 1.0}, {"n_training_pairs": 0}],
)
def test_knobs_out_of_range(wrong):
    with pytest.raises(ValidationError):
        FlowKnobs(**wrong)


def test_a_catalogue_without_phrases_is_an_error(catalogue, values):
    bare = Catalogue({}, catalogue.connectors)
    with pytest.raises(InputError, match="no trigger or no action with phrases"):
        World(bare, values, FlowKnobs())


def test_ends_of_ranges(catalogue):
    event = catalogue["shared_office365.V4CalendarPostItem"]
    assert partner(event, "item/start") == ("item/end", True)
    assert partner(event, "item/end") == ("item/start", False)
    assert partner(event, "item/subject") is None
    meeting = catalogue["shared_teams.CreateTeamsMeeting"]
    assert partner(meeting, "item/start/dateTime") == ("item/end/dateTime", True)


RECORD = '- {{pair: {}, dsl: "{}", request: in my own words}}\n'


def test_reworded_requests_of_this_worlds_flows_are_kept(tmp_path, pairs):
    first, second = of(pairs, "test").iloc[0], of(pairs, "test").iloc[1]
    path = tmp_path / "reworded.yaml"
    records = [(second["pair"], dsl_hash(first["dsl"])), ("nobody", "0" * 12), (first["pair"], dsl_hash(first["dsl"]))]
    path.write_text("".join(RECORD.format(*record) for record in records), encoding="utf-8")
    found = match_reworded(read_reworded(path), pairs)
    assert list(found) == [*pairs.columns, "original"]
    assert found[["pair", "request", "original", "dsl"]].to_numpy().tolist() == [
        [first["pair"], "in my own words", first["request"], first["dsl"]]
    ]
    none = match_reworded(read_reworded(path), of(pairs, "unseen"))
    assert (len(none), list(none)) == (0, list(found))


def test_bad_reworded_requests_name_record_and_field(tmp_path):
    path = tmp_path / "reworded.yaml"
    for text, words in [
        (RECORD.format("test-00000", "0" * 12) * 2, "record 2: pair: .* is there twice"),
        ("- {pair: test-00000, dsl: x}", "record 1: request: Field required"),
        ("- 3\n", "record 1: "),
        ("a: [", "cannot be read"),
        ("{}", "expected a list"),
    ]:
        path.write_text(text, encoding="utf-8")
        with pytest.raises(InputError, match=words):
            read_reworded(path)


def test_our_reworded_requests_belong_to_the_flows_of_seed_7(catalogue, values):
    world = World(catalogue, values, FlowKnobs(seed=7))
    pairs = pd.DataFrame([asdict(make_pair(world, "test", index)) for index in range(100)])
    reworded = match_reworded(read_reworded(DATA / "flows" / "reworded.yaml"), pairs)
    assert len(reworded) == 100
    forms = reworded["request"].map(normal_form)
    assert forms.is_unique
    assert not set(forms) & set(pairs["request"].map(normal_form))


def test_flows_around_rare_apis_use_what_weights_would_not(catalogue, values):
    rare = {api.name for api in catalogue if api.in_training and api.use == "rare"}
    share = {}
    for tail in (0.0, 1.0):
        world = World(catalogue, values, FlowKnobs(tail_share=tail))
        flows = [make_pair(world, "training", index) for index in range(300)]
        share[tail] = sum(bool(rare & set(flow.apis)) for flow in flows)
    assert share[1.0] > 2 * share[0.0]


def test_what_the_flow_has_just_made_is_not_deleted(catalogue, values):
    world = World(catalogue, values, FlowKnobs())
    deleted = 0
    for seed in range(400):
        planner = _Planner(
            world, random.Random(seed), catalogue["shared_microsoftforms.CreateFormWebhook"], world.trained
        )
        planner.add(catalogue["shared_commondataserviceforapps.CreateRecord"])
        deleted += planner.draw(1, last=True)[-1].name == "shared_commondataserviceforapps.DeleteRecord"
    assert deleted <= 1


def test_a_condition_does_not_test_what_the_trigger_is_set_to(catalogue, values):
    weather = catalogue["shared_msnweather.OnCurrentWeatherChange"]
    plan = Planned(weather, [], [[catalogue["shared_teams.PostMessageToConversation"]]])
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
