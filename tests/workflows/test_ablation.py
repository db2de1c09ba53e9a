"""The ablation: its conditions, prompts, answers, scores, comparisons and claims."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from lib.retrieval.neighbours import nearest
from lib.workbook.artifacts import ROOT
from lib.workbook.inputs import InputError
from lib.workbook.parameters import notebook_parameters
from lib.workflows import ablation
from lib.workflows.ablation import FINETUNED, UNSEEN_FINETUNED, Condition, Materials, to_ask, unseen_name, write_prompts
from lib.workflows.prompts import END, START, STOPS, USE_OF_DEFINITIONS

PUBLISHED = pd.read_csv(ROOT / "data" / "published" / "workflow_ablation.csv")
PRINTED = PUBLISHED[["selector", "shots", "definitions"]].drop_duplicates().to_numpy().tolist()
PRINTED = [["pretrained", 5, "none"], *PRINTED]
KINDS = ("none", "fd", "sfd", "fd_sfd", "gold")  # of definitions
ROWS = [
    *([*row, "in_context", "free", 3 if row[1] == 5 else 2] for row in PRINTED),
    *([by, 5, "none", "in_context", "free", 3] for by in ("random", "other")),
    ["pretrained", 5, "none", "in_context", "snapped", 3],
    ["pretrained", 0, "none", "finetuned", "free", 8],
    ["pretrained", 0, "none", "finetuned", "catalogue", 8],
    ["pretrained", 5, "none", "untuned", "free", 3],
]


def rows_of(rows=ROWS, **values):
    return ablation.asked_rows(notebook_parameters("09_dsl_ablation", ablation=rows, **values))


# ---------------------------------------------------------------- conditions


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (["tst", 20, "fd"], "a row must have 6 entries: selector, shots, definitions, generator, decoding, flows"),
        (["tst", 20, "all", "untuned", "free", 12], "definitions: Input should be 'none', 'fd'"),
        (["tst", 0, "fd", "finetuned", "free", 9], "reads no few-shots and no definitions"),
        (["tst", 5, "fd", "in_context", "free", 9], "two rows are tst_5_fd_in_context"),
        (["random", 5, "sfd", "in_context", "free", 9], "needs the few-shots of one of pretrained, tst"),
        (["tst", 5, "none", "untuned", "catalogue", 9], "not held to a grammar here"),
    ],
)
def test_an_impossible_row_says_what_is_wrong(row, words):
    rows = [row for row in ROWS if row[3] != "untuned"] + [[*row[:3], "untuned", *row[4:]] for row in ROWS[:12]]
    with pytest.raises(InputError, match=f"ablation: .*{words}"):
        rows_of([*rows, row], untuned_generator="remote:m")


def test_what_is_asked():
    rows = rows_of([*ROWS, ["tst", 5, "none", "instruct", "free", 60]])
    asked = to_ask(rows, {"test": 20, "test_same": 2}, [0, 1], 6, ["instruct", "in_context"])
    assert asked.loc[asked["test_set"] == "test", "flows"].tolist() == rows["flows"].clip(upper=20).tolist()
    same = asked[asked["test_set"] == "test_same"]
    assert same["condition"].tolist() == rows["condition"].tolist()
    assert set(same["flows"]) == {2}
    unseen = asked[asked["test_set"] == "unseen"].set_index("condition")
    some = [unseen_name(0, "gold", "instruct"), unseen_name(1, "fd_sfd", "instruct"), UNSEEN_FINETUNED]
    assert [*unseen.loc[some, "added"]] == [0, 1, 0]
    assert unseen["generator"].value_counts().to_dict() == {"instruct": 5, "in_context": 2, "finetuned": 2}
    assert "unseen" not in set(to_ask(rows, {"test": 20}, [0], 0, ["in_context"])["test_set"])


# ---------------------------------------------------------------- flows and few-shots

FLOWS = pd.DataFrame(
    {
        "pair": ["t0", "t1", "u0", "u1", "u2", "q0"],
        "split": ["training", "training", "unseen", "unseen", "unseen", "test"],
        "request": ["mail me", "post it", "form one", "form two", "form three", "mail and post"],
        "dsl": ["a.Mail();", "b.Post();", "c.Form();", "c.Form();", "c.Form();", "a.Mail();"],
        "apis": [["a.Mail"], ["b.Post"], ["c.Form"], ["c.Form"], ["c.Form", "a.Mail"], ["a.Mail"]],
        "half": ["a", "b", "a", "a", "", "a"],
    }
)
VECTORS = np.array([[1, 0], [0, 1], [0.8, 0.6], [0.8, 0.6], [0.8, 0.6], [0.6, 0.8]], dtype=np.float32)


def find(pool, asked, k):
    return nearest(VECTORS[pool], VECTORS[asked], k)[0]


def test_examples_of_new_apis_are_few_shots_and_never_what_is_asked(monkeypatch):
    monkeypatch.setattr(ablation, "UNSEEN_SHOTS", 2)
    requests, shots = ablation.asked_of_new_apis(FLOWS, {"c.Form"}, find, seed=0)
    (pair,) = requests["pair"]
    assert shots[0][pair] == [0, 1]
    assert shots[1][pair][0] in {2, 3, 4} - set(requests.index)
    assert shots[1][pair][1] == 0, "one example of the API, though there are two"
    assert list(ablation.asked_of_new_apis(FLOWS, {"z.Z"}, find, seed=0)[1]) == [0]


def test_few_shots_are_rows_of_the_flows():
    kept = pd.DataFrame({"selector": "tst", "pair": "q0", "shot": ["t1", "t0"], "rank": [1, 2]})
    rows = pd.DataFrame({"shots": [1, 20]})
    assert ablation.few_shots_of(kept, FLOWS, rows)["tst"]["q0"] == [1, 0]
    with pytest.raises(ValueError, match="notebook 08 kept 1 few-shots a request, a row needs 2: set its `shots`"):
        ablation.few_shots_of(kept[:1], FLOWS, pd.DataFrame({"shots": [1, 2]}))


# ---------------------------------------------------------------- write

MAIL, POST, TASK = "shared_gmail.SendEmailV2", "shared_teams.PostMessageToConversation", "shared_planner.CreateTask_V4"


@pytest.fixture(scope="module")
def materials(catalogue):
    flows = pd.DataFrame(
        {
            "split": ["training", "training", "unseen"],
            "request": ["mail me", "post it", "new one"],
            "dsl": ["m();", "p();", "f();"],
            "apis": [[MAIL], [POST], [TASK]],
        }
    )
    asked = pd.DataFrame({"pair": ["q", "r"], "request": ["first", "second"], "apis": [[MAIL]] * 2, "half": ["a", "b"]})
    return Materials(
        flows,
        catalogue,
        {"test": asked, "test_same": asked.assign(half=["", "a"]), "unseen": asked.assign(apis=[[TASK], [TASK]])},
        {"pretrained": pd.Series([[0, 1], [1, 0]], ["q", "r"]), 1: pd.Series([[2, 0], [0, 2]], ["q", "r"])},
        pd.Series([[TASK, MAIL], [TASK, MAIL]], ["q", "r"]),
        {("pretrained", 1): 1},
        dict.fromkeys(("untuned", "finetuned", "in_context", "instruct"), (4000, len)),
        seed=7,
    )


def a_row(selector="pretrained", shots=1, definitions="none", generator="in_context", decoding="free", **asked):
    one = Condition(selector, shots, definitions, generator, decoding)
    asked = {"test_set": "test", "flows": 2, "added": 0} | asked
    columns = ["condition", *ablation.FIELDS, *asked]
    return pd.DataFrame([[one.name, *one, *asked.values()]], columns=columns)


def written(materials, *rows, kept=()):
    return write_prompts(pd.concat(rows), materials, lambda prompts: prompts["unit"].isin(kept))


def test_definitions_of_each_kind(materials):
    made = {kind: written(materials, a_row(definitions=kind, flows=1)).iloc[0] for kind in KINDS}
    assert {kind: row["definitions"] for kind, row in made.items()} == {
        "none": [], "fd": [MAIL], "sfd": [TASK], "fd_sfd": [MAIL, TASK], "gold": [MAIL],
    }  # fmt: skip
    assert [kind for kind, row in made.items() if USE_OF_DEFINITIONS not in row["prompt"]] == ["none"]


def test_the_right_apis_reach_the_prompt_only_as_gold_definitions(materials):
    """The label is read by `gold` alone: with another right flow every other prompt stays as it is."""
    other = replace(materials, asked={"test": materials.asked["test"].assign(apis=[[POST], [POST]])})
    for kind in KINDS:
        for decoding in ("free", "catalogue"):
            ours, theirs = (one.prompts(next(a_row(definitions=kind, decoding=decoding).itertuples()), 2)
                            for one in (materials, other))  # fmt: skip
            same = ours["prompt"].equals(theirs["prompt"]) and ours["grammar"].equals(theirs["grammar"])
            assert same == (kind != "gold")


def test_a_condition_is_asked_on_all_flows_that_are_kept_where_these_are_enough(materials):
    assert written(materials, a_row(flows=1))["unit"].tolist() == ["q"]
    assert written(materials, a_row(flows=1), kept=["r"])["unit"].tolist() == ["r"]
    assert written(materials, a_row(flows=1), kept=["q", "r"])["unit"].tolist() == ["q", "r"]
    assert written(materials, a_row(flows=2), kept=["r"])["unit"].tolist() == ["q", "r"]


def test_conditions_of_a_model_that_is_not_asked_are_on_the_flows_that_are_kept(materials):
    rows = [a_row(generator="instruct", definitions=what, flows=1) for what in ("none", "fd", "sfd")]
    there = {"pretrained_1_instruct": "qr", "pretrained_1_fd_instruct": "r", "pretrained_1_sfd_instruct": ""}

    def kept(prompts):
        return [row.unit in there.get(row.condition, "") for row in prompts.itertuples()]

    asked = pd.concat([*rows, a_row(flows=2)])
    shown = write_prompts(asked, materials, kept, only_kept=True)
    assert shown[["condition", "unit"]].to_numpy().tolist() == [
        ["pretrained_1_instruct", "q"], ["pretrained_1_instruct", "r"], ["pretrained_1_fd_instruct", "r"],
        ["pretrained_1_in_context", "q"], ["pretrained_1_in_context", "r"],
    ]  # fmt: skip
    assert shown["prompt"].iloc[2].endswith("Request: second")
    assert len(write_prompts(asked, materials, kept)) == 6


def test_the_in_context_reader_is_asked_flows_of_one_half_alone(materials):
    rows = [("in_context", "test"), ("in_context", "test_same"), ("finetuned", "test_same")]
    prompts = written(materials, *(a_row(generator=name, shots=0, test_set=test_set) for name, test_set in rows))
    assert prompts["unit"].tolist() == ["q", "r", "r", "q", "r"]
    assert prompts["model"].tolist() == ["in_context-b", "in_context-a", "in_context-b", "finetuned", "finetuned"]
    assert prompts["prompt"].iloc[3] == f"first\n{START}\n"


def shots(materials, pairs, **row):
    return materials.shots(next(a_row(**row).itertuples()), pairs)


def test_few_shots_of_another_request_are_the_next_ones(materials):
    assert shots(materials, ["q", "r"], shots=2) == [[0, 1], [1, 0]]
    assert shots(materials, ["q", "r"], shots=2, selector="other") == [[1, 0], [0, 1]]
    assert shots(materials, ["q"], selector="other") == [[1]]


def test_random_few_shots_are_training_pairs_drawn_anew_for_each_request(materials):
    draws = shots(materials, [f"q{i}" for i in range(40)], selector="random")
    assert {found[0] for found in draws} == {0, 1}
    late = replace(materials, flows=materials.flows.iloc[::-1].reset_index(drop=True))
    assert sorted(shots(late, ["q"], selector="random", shots=9)[0]) == [1, 2], "row 0 is no training pair now"


# ---------------------------------------------------------------- ask


class Writer:
    def generate(self, prompts, max_new_tokens, stop, chat, grammars, progress):
        self.asked = stop, chat, grammars
        self.finished = [True, False]
        return ["a.B();\n\nRequest: more", "c.D("]


def test_every_generator_is_asked_in_its_own_way():
    prompts = pd.DataFrame({"prompt": ["one", "two"], "grammar": [None, "g"]}, index=[7, 9])
    asked = {}
    for name, remote in (("in_context", False), ("finetuned", False), ("instruct", False), ("untuned", True)):
        writer = Writer()
        found = ablation.ask_model(prompts, writer, name, 9, remote)
        asked[name] = writer.asked
    assert asked["in_context"] == (list(STOPS["untuned"]), False, [None, "g"])
    assert asked["finetuned"] == ([END], False, [None, "g"])
    assert asked["instruct"] == (list(STOPS["instruct"]), True, [None, "g"])
    assert asked["untuned"] == (["\nRequest:"], True, [None, "g"]), "a chat's answer may begin with a blank line"
    assert found["text"].tolist() == ["a.B();", "c.D("]
    assert found["finished"].tolist() == [True, False]
    assert found.index.tolist() == [7, 9]


def test_flows_that_are_copied():
    near = {"tst": pd.Series([[1, 0], [5, 1]], ["q", "r"])}
    units = {"test_set": ["test", "test", "test_same"], "unit": ["q", "q", "r"], "half": ["a", "a", ""]}
    found = ablation.copied(near, FLOWS, pd.DataFrame(units))
    assert found[["condition", "test_set", "unit", "half", "text"]].to_numpy().tolist() == [
        ["copy_tst", "test", "q", "a", "b.Post();"], ["copy_tst", "test_same", "r", "", "a.Mail();"],
    ]  # fmt: skip
    assert found["finished"].all()


# ---------------------------------------------------------------- score and compare


def outcome(condition, unit, similarity, parsed=True, test_set="test"):
    flow = {"similarity": similarity, "parsed": parsed, "valid": parsed, "made_up_names": (), "made_up_parameters": ()}
    return {"condition": condition, "test_set": test_set, "unit": unit, "executed": similarity == 1} | flow


def against(*pairs):
    return pd.DataFrame(pairs, columns=["condition", "against"])


def test_deltas_are_on_the_flows_that_both_rows_share():
    scores = pd.DataFrame(
        [outcome("base", unit, value) for unit, value in enumerate([0.0, 0.5, 1.0, 1.0])]
        + [outcome("few", unit, value) for unit, value in enumerate([0.5, 0.5])]
    )
    table = ablation.compare_conditions(scores, against(("base", "base"), ("few", "base")), 200, 0)
    row = table[(table["condition"] == "few") & (table["metric"] == "similarity")].iloc[0]
    assert (row["value"], row["n"], row["delta"], row["shared"]) == (0.5, 2, 0.25, 2)
    ran = table[(table["condition"] == "base") & (table["metric"] == "executed")].iloc[0]
    assert (ran["value"], ran["n"]) == (50, 4)
    assert table.loc[table["condition"] == "base", ablation.DELTAS].isna().all(axis=None)


def test_every_row_is_compared_as_its_table_says():
    larger = [[by, 5, "none", "instruct", "free", 3] for by in ("pretrained", "tst")]
    asked = to_ask(rows_of([*ROWS, *larger]), {"test": 9}, [0, 1], 2, both := ["instruct", "in_context"])
    pairs = ablation.comparisons(asked, PUBLISHED, both)
    assert not pairs.duplicated().any()
    by_table = pairs.groupby("table")[["condition", "against"]].apply(lambda part: set(map(tuple, part.to_numpy())))
    five, twenty = "pretrained_5_in_context", "pretrained_20_in_context"
    assert by_table["1"] >= {(name, five) for name in (five, twenty, "tst_5_in_context", "tst_20_in_context")}
    assert by_table["1"] >= {("tst_5_instruct", "pretrained_5_instruct")}
    for table in "123":
        readers = [{name.partition("_in")[2] for name in pair} for pair in by_table[table]]
        assert all(len(each) == 1 for each in readers), "a difference is by one reader"
    assert ("tst_20_fd_in_context", twenty) in by_table["3"]
    assert {other for _, other in by_table["4"]} == {FINETUNED}
    assert ("tst_20_sfd_in_context", "tst_20_in_context") in by_table["definitions"]
    held = {("no_shots_finetuned_catalogue", FINETUNED), ("pretrained_5_in_context_snapped", five)}
    assert by_table["grammar"] == held
    plain, own = (unseen_name(0, "none", who) for who in ("in_context", "instruct"))
    assert by_table["unseen"] >= {(UNSEEN_FINETUNED, plain), (unseen_name(1, "none", "instruct"), own)}
    assert ("copy_tst", five) in by_table["fair"]
    own = "pretrained_5_instruct"
    assert by_table["instruct"] >= {(own, "copy_pretrained"), ("tst_5_instruct", own), ("tst_5_instruct", "copy_tst")}


def test_the_contracts_columns_and_the_printed_differences():
    names = ["pretrained_5_in_context", "tst_5_in_context", FINETUNED, "tst_20_fd_in_context", "tst_20_in_context"]
    scores = pd.DataFrame([outcome(name, unit, 0.5) for name in (*names, "copy_tst") for unit in range(3)])
    asked = to_ask(rows_of(), {"test": 9}, [], 0, ["in_context"])
    compared = ablation.compare_conditions(scores, ablation.comparisons(asked, PUBLISHED, ["in_context"]), 50, 0)
    table = ablation.contract(compared, asked, PUBLISHED)
    assert list(table) == [*ablation.CONTRACT, "condition", "against"]
    assert len(table) == len(compared)
    cells = table.set_index(["table", "condition", "metric"])["published_delta"]
    assert cells["1", "tst_5_in_context", "unparsed"] == -0.61
    assert cells["4", "tst_20_fd_in_context", "unparsed"] == -5.3
    assert cells["definitions", "tst_20_fd_in_context", "unparsed"] == pytest.approx(0.83 - 0.52)
    assert set(table.loc[table["condition"] == "copy_tst", "generator"]) == {"copy"}


def test_answers_are_scored_and_an_argument_that_is_not_said_may_differ(six_apis):
    gold = 'x = await shared_office365.OnNewEmailV3({"folderPath": "Inbox"});'
    texts = [gold, gold.replace("Inbox", "Archive"), gold.replace("Inbox", "Archive"), "b.Post("]
    answers = pd.DataFrame({"unit": list("wxyz"), "text": texts}, index=[9, 4, 9, 1])
    flows = pd.DataFrame({"dsl": gold, "said": [[[]], [[]], [["folderPath"]], [[]]]}, index=list("wxyz"))
    scores = ablation.score(answers, flows, six_apis)
    assert scores["unit"].tolist() == list("wxyz")
    assert scores["similarity"].tolist() == [1, 1, 1, 0]
    assert scores["executed"].tolist() == [True, True, False, False]
    unsaid = ablation.score(answers, flows.drop(columns="said"), six_apis)
    assert unsaid["executed"].tolist() == [True, False, False, False]
    new = [{"shared_office365.OnNewEmailV3"}, {"c.Form"}, set(), {"c.Form"}]
    assert ablation.score(answers, flows.assign(new=new), six_apis)["called"].tolist() == [True, False, None, False]


# ---------------------------------------------------------------- claims


def test_which_conditions_claims_are_about():
    methods = ablation.claimed_methods(rows_of(), "in_context").groupby("condition")[["method", "k"]].agg(list)
    assert methods.loc["tst_20_fd_sfd_in_context"].tolist() == [["tst_fd_sfd"], [20]]
    assert methods.loc[FINETUNED].tolist() == [["finetuned_dsl"] * 2, [5, 20]]
    assert methods.loc[unseen_name(1, "none", "in_context")].tolist() == [["unseen_new_shot"], [5]]
    others = ["random_5_in_context", "pretrained_5_in_context_snapped"]
    assert not {"pretrained_5", *others} & set(methods.index)


def test_scores_that_claims_are_tested_on():
    methods = pd.DataFrame(
        [("finetuned", "finetuned_dsl", 5), ("finetuned", "finetuned_dsl", 20), ("tst_5", "tst", 5)],
        columns=["condition", "method", "k"],
    )
    rows = [outcome("finetuned", "q", 0.5), outcome("tst_5", "q", 0.0, parsed=False), outcome("random_5", "q", 1.0)]
    scores = pd.DataFrame(rows).assign(made_up_names=[("a.B",), (), ()])
    claimed = ablation.claimed_scores(scores.assign(called=[None, True, False]), methods)
    found = claimed.groupby(["method", "k", "metric"])["value"].agg(list)
    assert found["finetuned_dsl", 20, "similarity"] == [50]
    assert found["finetuned_dsl", 5, "made_up_names"] == [100]
    assert found["tst", 5, "unparsed"] == [100]
    assert np.isnan(found["tst", 5, "made_up_names"]).all()
    assert found["tst", 5, "new_apis_called"] == [100]
    assert set(claimed["method"]) == {"finetuned_dsl", "tst"}
