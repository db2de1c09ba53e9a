"""NESTFUL's nested calls through the planner's parser and AST match; its data are read where they are."""

import json
import zipfile
from pathlib import Path

import pytest

from lib.assistant import nestful
from lib.assistant.pages import transfer_plans as page
from lib.workbook.artifacts import ROOT
from lib.workbook.inputs import InputError

FOLDERS = [ROOT.parent / "nestful", Path(__file__).parents[3] / "shared/external/nestful"]
CALLS = [
    ("find_airport", {"query": "London"}),
    ("find_hotel", {"town": "London", "stars": 4}),
    ("book_flight", {"to": "$var1.id$", "days": [1, 2], "seat": {"row": 3, "side": "left"}}),
    ("var_result", {"flight": "$var3$", "hotel": "$var2$"}),
]
FUNCTIONS = [
    {"name": name, "parameters": {"type": "object", "properties": {key: {} for key in keys}, "required": keys[:1]}}
    for name, keys in {"find_airport": ["query"], "find_hotel": ["town", "stars"],
                       "book_flight": ["to", "days", "seat"]}.items()
]  # fmt: skip


def wheel(folder, cases=None, member=True):
    """A wheel of the package's form, with two cases a set."""
    records = cases or [
        {"input": "a flight", "output": [{"name": name, "arguments": given, "label": "x"} for name, given in CALLS]},
        {"input": "money", "output": [{"name": "change_money", "arguments": {"from": "USD", "amount": 3}}]},
    ]
    specs = [
        {"name": "find_airport", "description": "Finds one", "host": "x",
         "query_parameters": {"query": {"type": "string", "required": True, "description": "what"}}},
        {"name": "change_money", "query_parameters": {"from": {"required": True}, "amount": {"type": None}}},
    ]  # fmt: skip
    with zipfile.ZipFile(folder / nestful.WHEEL, "w") as made:
        for path in list(nestful.SETS.values())[: None if member else 1]:
            made.writestr(f"{path}-data.json", json.dumps(records))
            made.writestr(f"{path}-spec.json", json.dumps(specs))
    return folder


def test_a_wheel_is_read_without_installing_it(tmp_path):
    bench = nestful.read_nestful(wheel(tmp_path))
    assert bench.cases["case"].tolist()[:3] == ["executable-1", "executable-2", "glaive-1"]
    assert bench.cases["calls"].iloc[0] == CALLS
    function = bench.functions["sgd"][0]
    assert function["parameters"]["required"] == ["query"]
    assert function["parameters"]["properties"]["query"] == {"description": "what", "type": "string"}
    assert "type" not in bench.functions["sgd"][1]["parameters"]["properties"]["amount"]


def test_what_is_wrong_with_a_wheel_is_one_sentence(tmp_path):
    assert nestful.WHEEL in nestful.absent_sentence(tmp_path, ".")
    with pytest.raises(InputError, match="cannot be read"):
        nestful.read_nestful(tmp_path)
    assert nestful.absent_sentence(wheel(tmp_path, member=False), ".") == ""
    with pytest.raises(InputError, match=r"glaive-data\.json"):
        nestful.read_nestful(tmp_path)
    with pytest.raises(InputError, match="input"):
        nestful.read_nestful(wheel(tmp_path, cases=[{"output": []}]))


def test_a_nested_plan_is_itself_and_right():
    assert nestful.right(CALLS, CALLS, FUNCTIONS) == ""
    assert nestful.right(CALLS, CALLS, FUNCTIONS, content=True) == ""
    assert nestful.plan_of(CALLS).splitlines()[2].startswith('book_flight(to="$var1.id$", days=[1, 2]')


@pytest.mark.parametrize("kind", nestful.MUTANTS)
def test_a_wrong_plan_is_wrong_by_content(kind):
    wrong = nestful.mutant(CALLS, kind, FUNCTIONS)
    assert wrong is not None
    assert wrong != CALLS
    assert nestful.right(wrong, CALLS, FUNCTIONS, content=True)
    assert bool(nestful.right(wrong, CALLS, FUNCTIONS)) == (kind != "swapped")


def test_the_same_plan_in_another_order_is_right_by_content_alone():
    other = [CALLS[1], CALLS[0], ("book_flight", {**CALLS[2][1], "to": "$var2.id$"}),
             ("var_result", {"flight": "$var3$", "hotel": "$var1$"})]  # fmt: skip
    assert nestful.right(other, CALLS, FUNCTIONS, content=True) == ""
    assert nestful.right(other, CALLS, FUNCTIONS).startswith("wrong_value")


def test_references_that_mean_nothing_stay_as_they_are():
    calls = [("f", {"x": "$var1$", "y": ["$var7.z$", {"deep": "$var0$"}]})]
    assert nestful.by_content(calls) == calls
    assert list(nestful.places(calls[0][1])) == [1, 7, 0]


def test_there_is_nothing_to_make_wrong_in_a_plan_of_one_call():
    one = [("f", {})]
    assert [nestful.mutant(one, kind, []) for kind in nestful.MUTANTS] == [None] * len(nestful.MUTANTS)


def test_round_trips_and_what_is_said_of_them(tmp_path):
    trips = nestful.round_trips(nestful.read_nestful(wheel(tmp_path)))
    assert trips["matches"].tolist() == [True, False] * 3  # no argument can be called `from`
    assert trips["same_plan"].tolist() == [True, False] * 3
    said = page.held_words(trips)
    assert said.startswith("3 of 6 right plans (50.0 [")
    assert page.held_finding(trips).startswith("3 of NESTFUL's 6 plans (50.0 [")
    assert said.endswith(" 3 name an argument by a word of Python (from), which no plan can say.")
    other = page.held_words(trips.assign(keyword="", reason="missing"))
    assert other.endswith(" 3 are wrong for another reason, such as: missing.")
    assert "it sees 0 of 3 such plans as wrong, and 3 of 3 where" in page.swapped_words(trips)
    assert page.mutants_words(trips).count("(3 of 3)") == len(nestful.MUTANTS) - 1
    assert page.swapped_words(trips.assign(swapped=None)) == "No plan has two calls to exchange."
    assert page.held_words(trips[trips["matches"]]).endswith("right by AST match.")
    assert list(trips) == nestful.COLUMNS


def test_nestful_itself():
    folder = next((folder for folder in FOLDERS if not nestful.absent_sentence(folder, ".")), None)
    if folder is None:
        pytest.skip(f"NESTFUL is not in {' or '.join(map(str, FOLDERS))}")
    trips = nestful.round_trips(nestful.read_nestful(folder))
    assert len(trips) == 300
    assert trips["matches"].sum() > 250
    right = trips[trips["matches"]]
    for kind in nestful.MUTANTS:
        assert right[f"{kind}_by_content"].dropna().all()
