import numpy as np
import pandas as pd
import pytest

from lib.generation.local import Cost
from lib.workbook.artifacts import ROOT
from lib.workflows.ablation import (
    CONDITION,
    DELTAS,
    Condition,
    answer,
    answer_as,
    as_artifact,
    compare_conditions,
    compare_pairs,
    contract,
    copied,
    copied_flows,
    cost_of,
    flows_to_write,
    free_counterparts,
    new_apis_called,
    on_shared_flows,
    questions,
    score,
    scored_answers,
    scored_copies,
    sweep_rows,
    with_lists,
    write_condition,
)
from lib.workflows.catalogue import Catalogue
from lib.workflows.prompts import END, INSTRUCTION, START, STOPS, USE_OF_DEFINITIONS
from lib.workflows.scoring import outcomes

TRAINING = pd.DataFrame(
    {
        "pair": ["t0", "t1", "t2"],
        "request": ["mail me", "post it", "make a task"],
        "dsl": ['shared_gmail.SendEmailV2({"emailMessage/To": "a@b.example"});', "x();", "y();"],
        "apis": [
            ["shared_gmail.SendEmailV2"],
            ["shared_teams.PostMessageToConversation"],
            ["shared_planner.CreateTask_V4"],
        ],
    }
)  # fmt: skip
KINDS = ("none", "instruction", "fd", "sfd", "fd_sfd", "gold")
ASKED = pd.DataFrame({"pair": ["q"], "request": ["write a mail"], "apis": [["shared_outlook.SendEmailV2"]]})


@pytest.fixture(scope="module")
def catalogue():
    return Catalogue.load(ROOT / "data" / "catalogue")


def words(text):
    return len(text.split())


def condition(definitions="none", shots=2, decoding="free", generator="untuned"):
    return Condition.model_validate(["tst", shots, definitions, generator, decoding, 1])


def written(catalogue, made, semantic=((),), limit=4000):
    return write_condition(made, ASKED, [[1, 0, 2]], TRAINING, catalogue, limit, words, semantic).iloc[0]


def test_a_prompt_shows_the_nearest_few_shots_and_no_more(catalogue):
    row = written(catalogue, condition())
    assert row["unit"] == "q"
    assert row["shots"] == 2
    assert row["definitions"] == []
    assert row["prompt"].startswith(INSTRUCTION)
    assert row["prompt"].index("mail me") < row["prompt"].index("post it")
    assert "make a task" not in row["prompt"]
    assert row["grammar"] is None


def test_which_definitions_each_kind_brings(catalogue):
    of_shots = ["shared_teams.PostMessageToConversation", "shared_gmail.SendEmailV2"]
    near = [["shared_outlook.SendEmailV2", "shared_gmail.SendEmailV2"]]
    found = {kind: written(catalogue, condition(kind), near)["definitions"] for kind in KINDS}
    assert found["none"] == found["instruction"] == []
    assert found["fd"] == [name for name in of_shots if name in catalogue]
    assert found["sfd"] == near[0]
    assert found["fd_sfd"] == [*found["fd"], "shared_outlook.SendEmailV2"]
    assert found["gold"] == ["shared_outlook.SendEmailV2"]
    assert USE_OF_DEFINITIONS in written(catalogue, condition("instruction"))["prompt"]
    assert USE_OF_DEFINITIONS not in written(catalogue, condition("none"))["prompt"]


def test_the_right_apis_reach_the_prompt_only_as_gold_definitions(catalogue):
    """The label is read by `gold` alone: with another right flow every other prompt stays as it is."""
    other = ASKED.assign(apis=[["shared_planner.CreateTask_V4"]])
    for kind in KINDS:
        for decoding in ("free", "catalogue"):
            arguments = (
                [[1, 0]],
                TRAINING,
                catalogue,
                4000,
                words,
                [["shared_gmail.SendEmailV2"]],
            )
            rows = [
                write_condition(condition(kind, decoding=decoding), asked, *arguments).iloc[0]
                for asked in (ASKED, other)
            ]
            same = rows[0]["prompt"] == rows[1]["prompt"] and rows[0]["grammar"] == rows[1]["grammar"]
            assert same == (kind != "gold")


def test_where_definitions_stand(catalogue):
    def before(kind, **more):
        rows = write_condition(condition(kind), ASKED, [[1, 0]], TRAINING, catalogue, 4000, words, [()], **more)
        prompt = rows.loc[0, "prompt"]
        return prompt.index(USE_OF_DEFINITIONS) < prompt.index("mail me")

    assert not before("fd")
    assert before("gold", first=True)


def test_the_fine_tuned_model_has_its_own_form(catalogue):
    made = written(catalogue, condition(generator="finetuned"))
    assert made["prompt"].endswith(f"write a mail\n{START}\n")
    assert made["prompt"].count(END) == 2
    assert INSTRUCTION not in made["prompt"]
    assert STOPS["finetuned"] == (END,)


def test_the_catalogues_grammar_has_its_names(catalogue):
    every = written(catalogue, condition(decoding="catalogue"))["grammar"]
    assert "CreateTask_V4" in every
    assert "CreateTask_V4" not in written(catalogue, condition(decoding="grammar"))["grammar"]


class Writer:
    def generate(self, prompts, max_new_tokens, stop, chat, grammars, progress):
        self.asked = stop, chat, grammars
        self.finished = [True, False]
        self.costs = [Cost(5, 2, 0.5), Cost(6, 3, 1.0)]
        return ["a.B();\n\nRequest: more", "c.D("]


def test_answers_keep_their_cost():
    prompts = pd.DataFrame({"prompt": ["one", "two"], "grammar": [None, "g"], "unit": ["q", "r"]}, index=[7, 9])
    writer = Writer()
    found = answer(prompts, writer, STOPS["untuned"], 9)
    assert writer.asked == (["\n\n", "\nRequest:"], False, [None, "g"])
    assert found["text"].tolist() == ["a.B();", "c.D("]
    assert found["finished"].tolist() == [True, False]
    assert found[["tokens_in", "tokens_out", "seconds"]].to_numpy().tolist() == [[5, 2, 0.5], [6, 3, 1.0]]
    assert found.index.tolist() == [7, 9]


def test_a_chat_model_may_say_something_first_and_needs_no_grammar():
    writer = Writer()
    answer(pd.DataFrame({"prompt": ["one", "two"], "grammar": [None, None]}), writer, STOPS["untuned"], 9, chat=True)
    assert writer.asked == (["\nRequest:"], True, None)


def test_every_generator_is_asked_in_its_own_way():
    prompts = pd.DataFrame({"prompt": ["one", "two"], "grammar": [None, None]})
    asked = {}
    for name in ("in_context-a", "finetuned", "instruct", "untuned"):
        writer = Writer()
        answer_as(name, prompts, writer, 9)
        asked[name] = writer.asked
    assert asked["in_context-a"] == asked["untuned"] == (list(STOPS["untuned"]), False, None)
    assert asked["finetuned"] == ([END], False, None)
    assert asked["instruct"] == (list(STOPS["instruct"]), True, None)
    writer = Writer()
    answer_as("untuned", prompts, writer, 9, remote=True)
    assert writer.asked[1]


def test_an_instruct_model_has_its_own_form(catalogue):
    made = written(catalogue, condition("fd", generator="instruct"))
    assert "```flow" in made["prompt"]
    same = written(catalogue, condition("fd", generator="in_context"))["prompt"]
    assert same == written(catalogue, condition("fd"))["prompt"]


def test_definitions_have_the_form_that_is_asked_for(catalogue):
    arguments = [[1, 0, 2]], TRAINING, catalogue, 4000, words
    short, long = (
        write_condition(condition("fd"), ASKED, *arguments, form=form).loc[0, "prompt"]
        for form in ("compact", "described")
    )
    assert len(long) > len(short)


def test_scores_stand_beside_the_answers(catalogue):
    flow = 'shared_gmail.SendEmailV2({"emailMessage/To": "a@b.example"});'
    answers = pd.DataFrame({"unit": ["q", "r", "q"], "text": [flow, "(", "made.Up();"]}, index=[5, 3, 8])
    found = score(answers, pd.DataFrame({"dsl": flow}, index=["q", "r"]), catalogue)
    assert found["similarity"].tolist() == [1, 0, 0]
    assert found["parsed"].tolist() == [True, False, True]
    assert found["made_up_names"].map(len).tolist() == [0, 0, 1]


def outcome(condition, unit, similarity, parsed=True):
    flow = {"similarity": similarity, "parsed": parsed, "valid": parsed, "made_up_names": (), "made_up_parameters": ()}
    return {"condition": condition, "test_set": "test", "unit": unit, "executed": similarity == 1} | flow


def test_deltas_are_on_the_flows_that_both_rows_share():
    scores = pd.DataFrame(
        [outcome("base", unit, value) for unit, value in enumerate([0.0, 0.5, 1.0, 1.0])]
        + [outcome("few", unit, value) for unit, value in enumerate([0.5, 0.5])]
    )
    table = compare_conditions(scores, ["base", "few"], "base", 200, 0)
    row = table[(table["condition"] == "few") & (table["metric"] == "similarity")].iloc[0]
    assert (row["value"], row["n"], row["delta"], row["shared"]) == (0.5, 2, 0.25, 2)
    base = table[table["condition"] == "base"]
    assert base[DELTAS].isna().all(axis=None)
    assert base["n"].eq(4).all()
    assert table["condition"].tolist() == ["base"] * 6 + ["few"] * 6


def test_each_test_set_is_compared_for_itself():
    flows = [outcome(name, unit, value) for name, value in (("base", 0.0), ("few", 1.0)) for unit in range(8)]
    same = [outcome("base", unit, 0.5) | {"test_set": "test_same"} for unit in range(8, 12)]
    other = [outcome("few", unit, 0.5) | {"test_set": "unseen"} for unit in range(12, 14)]
    table = compare_conditions(pd.DataFrame([*flows, *same, *other]), ["base", "few"], "base", 200, 0)
    found = table[table["metric"] == "similarity"][["test_set", "condition", "n", "shared"]].fillna(0)
    assert found.to_numpy().tolist() == [["test", "base", 8, 0], ["test", "few", 8, 8], ["test_same", "base", 4, 0]]


def test_rates_of_made_up_names_say_how_many_flows_they_count():
    parsed = {"base": [1, 1, 1, 0, 1, 1, 1, 1], "few": [0, 1, 1, 1, 1, 0]}
    scores = pd.DataFrame(
        [outcome(name, unit, 0.5, bool(it)) for name, flows in parsed.items() for unit, it in enumerate(flows)]
    )
    table = compare_conditions(scores, ["base", "few"], "base", 200, 0).set_index(["condition", "metric"])
    sizes = table[["n", "counted", "shared", "counted_both"]]
    assert sizes.loc[("few", "made_up_names")].tolist() == [6, 4, 6, 3]
    assert sizes.loc[("few", "unparsed")].tolist() == [6, 6, 6, 6]
    assert sizes.loc[("base", "made_up_names"), ["n", "counted"]].tolist() == [8, 7]


def test_executed_is_one_more_metric():
    values = {"a": [1.0, 0.5, 0.5], "b": [1.0] * 4}
    scores = pd.DataFrame([outcome(name, unit, it) for name, flows in values.items() for unit, it in enumerate(flows)])
    table = compare_conditions(scores, ["a", "b"], "a", 50, 0)
    ran = table[table["metric"] == "executed"].set_index("condition")
    assert ran["value"].tolist() == [pytest.approx(100 / 3), 100]
    assert ran["n"].tolist() == [3, 4]
    assert ran.loc["b", "delta"] == pytest.approx(200 / 3)


def test_pairs_are_compared_as_by_themselves():
    flows = {"base": [0.0] * 8, "few": [1.0] * 8, "more": [1.0] * 8}
    scores = pd.DataFrame([outcome(name, unit, it) for name, values in flows.items() for unit, it in enumerate(values)])
    pairs = compare_pairs(scores, [("few", "base"), ("more", "few")], 200, 0)
    assert pairs[["condition", "against"]].drop_duplicates().to_numpy().tolist() == [["few", "base"], ["more", "few"]]
    alone = compare_conditions(scores, ["few"], "base", 200, 0)
    assert pairs["p_value"].tolist()[:6] == alone["p_value"].tolist()


def test_what_a_row_under_a_grammar_is_compared_with():
    rows = [condition(decoding="grammar"), condition(), condition(shots=0, decoding="catalogue", generator="finetuned")]
    assert free_counterparts(rows) == {
        "tst_2_grammar": "tst_2",
        "no_shots_finetuned_catalogue": "no_shots_finetuned",
    }


def test_the_sweep_changes_the_number_of_few_shots_alone():
    rows = [Condition.model_validate(["pretrained", n, what, "untuned", "free", 1])
            for n, what in ((20, "none"), (1, "none"), (5, "fd"))]  # fmt: skip
    others = [Condition.model_validate(["pretrained", 3, "none", "in_context", "free", 1])]
    assert [row.name for row in sweep_rows([*rows, condition(), *others], "untuned")] == [
        "pretrained_1",
        "pretrained_20",
    ]


def test_flows_that_are_copied():
    near = {"tst": pd.Series([[1, 0], [2, 1]], ["q", "r"])}
    asked = {
        "test": pd.DataFrame({"pair": ["q", "s"], "half": ["a", "a"]}),
        "test_same": pd.DataFrame({"pair": ["r"], "half": [""]}),
    }
    answered = pd.DataFrame({"test_set": ["test", "test", "test_same"], "unit": ["q", "q", "r"]})
    found = copied(near, asked, TRAINING, answered)
    assert found[["condition", "test_set", "unit", "half", "text"]].to_numpy().tolist() == [
        ["copy_tst", "test", "q", "a", "x();"], ["copy_tst", "test_same", "r", "", "y();"],
    ]  # fmt: skip
    assert found["finished"].all(), "and no model was asked s"


def test_flows_that_all_conditions_of_a_test_set_have():
    rows = [("a", "test", "q"), ("b", "test", "q"), ("a", "test", "r"), ("c", "test", "r"), ("a", "test_same", "s")]
    scores = pd.DataFrame(rows, columns=["condition", "test_set", "unit"])
    found = on_shared_flows(scores, ["a", "b"])
    assert found.to_numpy().tolist() == [["a", "test", "q"], ["b", "test", "q"], ["a", "test_same", "s"]]


def test_the_cost_of_answers_of_which_some_were_timed():
    scores = pd.DataFrame(
        {
            "condition": ["a", "a", "a", "copy"],
            "unit": ["q", "r", "s", "q"],
            "tokens_in": [10, 20, 30, None],
            "tokens_out": [1, 2, 3, None],
            "seconds": [0.5, 1.5, None, None],
            "dropped": [0, 3, 0, None],
            "finished": [True, False, True, None],
        }
    )
    assert cost_of(scores).to_dict("index") == {
        "a": {"n": 3, "tokens_in": 20, "tokens_out": 2, "seconds": 1, "timed": 2, "dropped": 3, "cut": 1}
    }


def test_flows_that_call_a_wanted_api():
    scores = pd.DataFrame(
        {"condition": ["a", "a", "b", "b"], "unit": ["q", "r"] * 2, "text": ["new.One();", "new.Two();", "(", "x.Y();"]}
    )
    called = new_apis_called(scores, {"q": ["new.One"], "r": ["new.One", "x.Y"]})
    assert called.to_dict("index") == {"q": {"a": 100, "b": 0}, "r": {"a": 0, "b": 100}}


def test_the_artifact_has_lists_and_no_prompts():
    scores = pd.DataFrame([outcome("a", "q", 0.5) | {"prompt": "p", "grammar": None, "definitions": []}])
    scores["made_up_parameters"] = [(("a.B", "key"),)]
    kept = as_artifact(scores)
    assert kept["made_up_parameters"].tolist() == [[["a.B", "key"]]]
    assert kept["made_up_names"].tolist() == [[]]
    assert set(scores) - set(kept) == {"prompt", "grammar", "definitions"}


def test_the_contracts_columns():
    scores = pd.DataFrame([outcome(name, unit, 0.5) for name in ("base", "tst_5") for unit in range(3)])
    rows = pd.DataFrame(
        [["pretrained", 5, "none", "m", "free", 0], ["tst", 5, "none", "m", "free", 0]],
        columns=CONDITION,
        index=["base", "tst_5"],
    )
    compared = compare_conditions(scores, ["base", "tst_5"], "base", 200, 0)
    published = pd.DataFrame(
        {
            "selector": "tst",
            "shots": 5,
            "definitions": "none",
            "metric": ["similarity", "unparsed"],
            "delta": [0.02, -0.61],
        }
    )
    table = contract(compared, rows, published)
    assert table.columns.tolist() == [
        "selector", "shots", "definitions", "generator", "decoding", "train_pairs", "test_set", "metric",
        "value", "ci_low", "ci_high", "delta", "delta_ci_low", "delta_ci_high", "n", "published_delta",
    ]  # fmt: skip
    assert table["published_delta"].dropna().tolist() == [0.02, -0.61]
    assert contract(compared, rows).columns[-1] == "n"


def test_reworded_flows_are_tested_first():
    pairs = pd.DataFrame({"pair": [f"p{i}" for i in range(40)], "split": ["training", "test"] * 20})
    written = flows_to_write(pairs, ["p3", "p5", "p6"], 10, seed=7)
    assert len(written) == 10
    assert set(written["pair"][:2]) == {"p3", "p5"}, "p6 is a training pair"
    assert written["pair"].is_unique
    assert set(written["split"]) == {"test"}
    assert len(flows_to_write(pairs, ["p3", "p5"], 1, seed=7)) == 1


def test_the_nearest_flow_is_copied():
    pool = pd.DataFrame({"dsl": ["one", "other"]}, index=[7, 8])
    vectors = np.eye(2, dtype=np.float32)
    copies = copied_flows(pool, vectors, vectors[[1, 0, 1]])
    assert copies["text"].tolist() == ["other", "one", "other"]
    assert copies["finished"].all()


def test_answers_are_scored_under_their_condition(six_apis):
    gold = "x = await shared_office365.OnNewEmailV3();\nshared_office365users.MyProfile_V2();"
    made_up = 'shared_office365.Fly({"a": 1});\nshared_office365.SendEmailV2({"own": 1});'
    answers = pd.DataFrame({"text": [gold, "b.Post(", made_up], "tokens": [1, 2, 3]}, index=[9, 4, 9])
    scores = scored_answers("copy", answers, pd.DataFrame({"unit": ["x", "y", "z"], "dsl": gold}), six_apis)
    assert scores["similarity"].tolist() == [1, 0, 0]
    assert scores["tokens"].tolist() == [1, 2, 3]
    assert scores["unit"].tolist() == ["x", "y", "z"]
    assert len(outcomes(scores)) == 15  # of three answers, five metrics
    assert scores["executed"].tolist() == [True, False, False]
    kept = with_lists(scores)
    assert kept["made_up_names"].tolist() == [[], [], ["shared_office365.Fly"]]
    assert kept["made_up_parameters"][2] == [["shared_office365.SendEmailV2", "own"]]


def test_an_argument_that_the_request_does_not_say_may_differ(six_apis):
    gold = 'x = await shared_office365.OnNewEmailV3({"folderPath": "Inbox"});'
    other = pd.DataFrame({"text": [gold.replace("Inbox", "Archive")] * 2})
    asks = pd.DataFrame({"unit": ["x", "y"], "dsl": gold, "said": [[[]], [["folderPath"]]]})
    assert scored_answers("m", other, asks, six_apis)["executed"].tolist() == [True, False]
    assert scored_answers("m", other, asks.drop(columns="said"), six_apis)["executed"].tolist() == [False, False]


def test_questions_of_all_kinds():
    rows = [(f"{split}-{i}", split) for split in ("training", "test", "test_same", "unseen") for i in range(6)]
    pairs = pd.DataFrame(rows, columns=["pair", "split"])
    pairs = pairs.assign(request=pairs["pair"], dsl="f", apis=[["a"]] * len(pairs))
    reworded = pd.DataFrame({"pair": ["test-5", "test-1"], "request": ["five", "one"], "dsl": "f", "apis": [["a"]] * 2})
    assert "said" not in questions(pairs, reworded, 4, 0)
    asks = questions(pairs.assign(said=[[[name]] for name in pairs["pair"]]), reworded, 4, 0)
    assert (asks["said"].map(lambda keys: keys[0][0]) == asks["unit"]).all()
    assert asks["test_set"].value_counts().to_dict() == {"test": 4, "test_same": 4, "reworded": 2, "unseen": 2}
    again = asks[asks["test_set"] == "reworded"]
    assert set(again["unit"]) == {"test-1", "test-5"} <= set(asks.loc[asks["test_set"] == "test", "unit"])
    assert (again["pair"] == again["unit"] + " reworded").all()
    assert set(again["request"]) == {"five", "one"}
    assert not asks["unit"].str.startswith("training").any()
    alone = questions(pairs[pairs["split"] != "test_same"], reworded[:0], 3, 0)
    assert alone["test_set"].value_counts().to_dict() == {"test": 3, "unseen": 2}


def test_copies_are_scored_with_what_they_come_from(catalogue):
    mail = 'shared_office365.SendEmailV2({"emailMessage/To": "a@b.c"});'
    pool = pd.DataFrame({"dsl": [mail, "no flow"]})
    asks = pd.DataFrame({"test_set": ["test", "unseen"], "unit": ["x", "y"], "dsl": [mail, mail]})
    vectors = np.eye(2, dtype=np.float32)
    scores = scored_copies("copied", pool, vectors, asks, vectors, catalogue)
    assert scores["similarity"].tolist() == [1, 0]
    assert scores["test_set"].tolist() == ["test", "unseen"]
    assert set(scores["pairs"]) == {2}
