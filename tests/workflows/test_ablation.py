"""The ablation: its conditions, prompts, answers, scores, comparisons and claims."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from lib.generation.local import Cost
from lib.generation.remote import estimate_tokens
from lib.retrieval.neighbours import nearest
from lib.workbook.artifacts import ROOT
from lib.workbook.inputs import InputError
from lib.workbook.parameters import notebook_parameters
from lib.workflows import ablation
from lib.workflows.ablation import (
    CONTRACT,
    DELTAS,
    FINETUNED,
    UNSEEN_FINETUNED,
    Condition,
    Materials,
    ask_model,
    asked_of_new_apis,
    asked_rows,
    called_rates,
    claimed_methods,
    claimed_scores,
    compare_conditions,
    comparisons,
    contract,
    copied,
    definitions_beside,
    few_shots_of,
    new_apis_called,
    order_of_asking,
    published_for_claims,
    reading_room,
    score,
    title,
    titles,
    to_ask,
    unseen_name,
    with_definitions,
    with_lists,
    write_condition,
    write_prompts,
)
from lib.workflows.catalogue import Catalogue
from lib.workflows.prompts import END, INSTRUCTION, START, STOPS, USE_OF_DEFINITIONS

PUBLISHED = pd.read_csv(ROOT / "data" / "published" / "workflow_ablation.csv")
PRINTED = PUBLISHED[["selector", "shots", "definitions"]].drop_duplicates().to_numpy().tolist()
PRINTED = [["pretrained", 5, "none"], *PRINTED]
ROWS = [
    *([*row, "in_context", "free", 3 if row[1] == 5 else 2] for row in PRINTED),
    *(["pretrained", shots, "none", "in_context", "free", 3] for shots in (0, 1)),
    *([by, 5, "none", "in_context", "free", 3] for by in ("random", "other", "oracle_shots")),
    ["pretrained", 5, "gold", "in_context", "free", 3],
    ["pretrained", 5, "instruction", "in_context", "free", 3],
    ["pretrained", 5, "none", "in_context", "catalogue", 3],
    ["pretrained", 0, "none", "finetuned", "free", 8],
    ["pretrained", 0, "none", "finetuned", "catalogue", 8],
    ["pretrained", 5, "none", "untuned", "free", 3],
]


def rows_of(rows=ROWS, **values):
    return asked_rows(notebook_parameters("09_dsl_ablation", ablation=rows, **values))


# ---------------------------------------------------------------- conditions


def test_the_rows_of_a_profile_are_a_frame():
    rows = rows_of()
    assert rows["condition"].is_unique
    assert {"pretrained_5", "no_shots_in_context", "tst_20_fd_sfd_in_context", FINETUNED} <= set(rows["condition"])
    assert rows.set_index("condition").loc["no_shots_finetuned_catalogue", "flows"] == 8
    assert Condition("tst", 20, "fd_sfd").name == "tst_20_fd_sfd"


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (["tst", 20, "fd"], "a row must have 6 entries: selector, shots, definitions, generator, decoding, flows"),
        ("a row", "a row must have 6 entries"),
        (["tst", 20, "all", "untuned", "free", 12], "definitions must be one of none, instruction, fd"),
        (["tst", "20", "fd", "untuned", "free", 12], "few-shots must be a whole number"),
        (["tst", 101, "fd", "untuned", "free", 12], "few-shots must be a whole number"),
        (["tst", 5, "fd", "untuned", "free", 0], "flows must be a whole number from 1"),
        (["tst", 5, "fd", "finetuned", "free", 9], "reads no definitions"),
        (["tst", 5, "fd", "in_context", "free", 9], "two rows are tst_5_fd_in_context"),
        (["random", 5, "sfd", "in_context", "free", 9], "needs the few-shots of one of pretrained, tst"),
        (["tst", 5, "none", "untuned", "catalogue", 9], "behind an endpoint cannot be held to a grammar"),
    ],
)
def test_an_impossible_row_says_what_is_wrong(row, words):
    rows = [row for row in ROWS if row[3] != "untuned"] + [[*row[:3], "untuned", *row[4:]] for row in ROWS[:12]]
    with pytest.raises(InputError, match=f"ablation: .*{words}"):
        rows_of([*rows, row], untuned_generator="remote:m")


def test_a_small_window_is_refused_and_an_instruct_model_needs_its_name():
    with pytest.raises(InputError, match="prompt_window: must be larger"):
        rows_of(prompt_window=256)
    row = ["pretrained", 5, "none", "instruct", "free", 1]
    assert len(rows_of([*ROWS, row])) == len(ROWS)
    assert rows_of([*ROWS, row], instruct_generator="Qwen")["condition"].iloc[-1] == "pretrained_5_instruct"


@pytest.mark.parametrize("missing", ["pretrained_5_in_context", "pretrained_5_fd_in_context", FINETUNED])
def test_rows_that_all_others_are_compared_with_must_be_there(missing):
    left = [row for row in ROWS if Condition(*row[:-1]).name != missing]
    with pytest.raises(InputError, match=r"the paper's row .* is missing"):
        rows_of(left)


def test_every_row_is_asked_on_the_flows_that_there_are():
    rows = rows_of()
    asked = to_ask(rows, {"test": 20, "test_same": 2}, [0], 0, "in_context")
    assert asked["condition"].tolist() == rows["condition"].tolist() * 2
    of = asked.groupby("test_set")["flows"].agg(list)
    assert of["test"] == rows["flows"].tolist()
    assert set(of["test_same"]) == {2}


def test_apis_held_out_are_asked_for_with_examples_and_without():
    rows = rows_of()
    asked = to_ask(rows, {}, [0, 1], 6, "in_context")
    assert asked["condition"].tolist() == [
        *(unseen_name(0, what) for what in ("none", "sfd", "gold")),
        *(unseen_name(1, what) for what in ("none", "fd_sfd")),
        UNSEEN_FINETUNED,
        f"{UNSEEN_FINETUNED}, catalogue",
    ]
    assert set(asked["flows"]) == {6}
    assert asked["added"].tolist() == [0, 0, 0, 1, 1, 0, 0]
    assert asked.iloc[-2:][["shots", "decoding"]].to_numpy().tolist() == [[0, "free"], [0, "catalogue"]]
    assert unseen_name(1, "fd_sfd") == "unseen: 1 new, fd_sfd, free"


def test_every_condition_has_a_title_of_its_own():
    asked = to_ask(rows_of(), {"test": 1}, [0, 1], 1, "in_context")
    named = titles(asked, "in_context")
    assert {*asked["condition"], "copy_tst"} <= set(named)
    assert len(set(named.values())) == len(named)
    assert title(Condition("tst", 1, "fd_sfd", "untuned"), "untuned") == "TST, 1 few-shot, FD + SFD"


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


def by_vectors(pool, asked, k):
    return nearest(VECTORS[pool], VECTORS[asked], k)[0]


def test_examples_of_new_apis_are_few_shots_and_never_what_is_asked(monkeypatch):
    monkeypatch.setattr(ablation, "UNSEEN_SHOTS", 2)
    requests, shots = asked_of_new_apis(FLOWS, {"c.Form"}, by_vectors, [0, 1], seed=0)
    (pair,) = requests["pair"]
    assert shots[0][pair] == [0, 1]
    assert shots[1][pair][0] in {2, 3, 4} - set(requests.index)
    assert shots[1][pair][1] == 0


def test_nothing_is_asked_where_too_few_flows_need_such_apis():
    few = FLOWS.drop(index=[3, 4]).reset_index(drop=True)
    requests, shots = asked_of_new_apis(few, {"c.Form"}, by_vectors, [0, 1], seed=0)
    assert (len(requests), shots) == (0, {})
    assert list(asked_of_new_apis(FLOWS, {"z.Z"}, by_vectors, [0, 1], seed=0)[1]) == [0]


def test_each_new_api_gets_as_many_examples_as_are_asked_for():
    apis = [["new"], ["new"], ["new", "other"], ["other"], ["a", "new"], *[["new"]] * 3]
    pairs = pd.DataFrame({"pair": [f"u{i}" for i in range(8)], "split": "unseen", "apis": apis, "half": "a"})
    times = {n: ablation._examples(pairs, {"new", "other"}, n, 0) for n in (0, 1, 9)}
    assert times[0] == []
    assert sorted(times[9]) == list(range(8))
    for name in ("new", "other"):
        assert any(name in apis[row] for row in times[1])
    assert len(times[1]) <= 2


def test_few_shots_are_rows_of_the_flows():
    kept = pd.DataFrame({"selector": "tst", "pair": "q0", "shot": ["t1", "t0"], "rank": [1, 2]})
    rows = pd.DataFrame({"shots": [1, 20]})
    assert few_shots_of(kept, FLOWS, rows)["tst"]["q0"] == [1, 0]
    with pytest.raises(ValueError, match="notebook 08 kept 1 few-shots a request, a row needs 2: set its `shots`"):
        few_shots_of(kept[:1], FLOWS, pd.DataFrame({"shots": [1, 2]}))


def test_flows_of_one_half_are_asked_first():
    flows = pd.DataFrame({"pair": list("abcdef"), "split": "test", "half": ["", "a", "", "b", "a", ""]})
    ordered = order_of_asking(flows, ["test", "test_same"], 0)
    assert list(ordered) == ["test"]
    assert ordered["test"]["half"].ne("").tolist() == [True] * 3 + [False] * 3
    assert sorted(ordered["test"]["pair"]) == list("abcdef")


def test_sfd_shows_as_many_definitions_as_fd():
    near = {name: pd.Series([[0, 1, 2]] * 2, ["q", "r"]) for name in ("pretrained", "tst")}
    rows = pd.DataFrame({"selector": ["tst", "pretrained", "random"], "shots": [2, 0, 3]})
    flows = pd.DataFrame({"apis": [["a", "b"], ["b"], ["c"]]})
    assert definitions_beside(rows, near, ["q", "r"], flows) == {("pretrained", 5): 3, ("tst", 2): 2}


def test_room_of_models_here_and_behind_an_endpoint(monkeypatch):
    class Config:
        max_position_embeddings = 2048

    read = []
    monkeypatch.setattr(ablation, "locate", lambda model: model)
    monkeypatch.setattr(ablation, "load_tokenizer", lambda path: (read.append(path), Config))
    room = reading_room({"untuned": "remote:m", "finetuned": "s", "in_context": "s"}, 9000, 256)
    assert room["untuned"] == (9000 - 256, estimate_tokens)
    assert room["finetuned"][0] == room["in_context"][0] == 2048 - 256
    assert read == ["s"]


# ---------------------------------------------------------------- write


@pytest.fixture(scope="module")
def materials():
    mail, post, form = (
        "shared_gmail.SendEmailV2",
        "shared_teams.PostMessageToConversation",
        "shared_planner.CreateTask_V4",
    )
    flows = pd.DataFrame(
        {
            "split": ["training", "training", "unseen"],
            "request": ["mail me", "post it", "new one"],
            "dsl": ["m();", "p();", "f();"],
            "apis": [[mail], [post], [form]],
        }
    )
    asked = pd.DataFrame({"pair": ["q", "r"], "request": ["first", "second"], "apis": [[mail]] * 2, "half": ["a", "b"]})
    return Materials(
        flows,
        Catalogue.load(ROOT / "data" / "catalogue"),
        {"test": asked, "test_same": asked.assign(half=["", "a"]), "unseen": asked.assign(apis=[[form], [form]])},
        {"pretrained": pd.Series([[0, 1], [1, 0]], ["q", "r"]), 1: pd.Series([[2, 0], [0, 2]], ["q", "r"])},
        pd.Series([[form, mail], [form, mail]], ["q", "r"]),
        {("pretrained", 1): 1},
        dict.fromkeys(("untuned", "finetuned", "in_context"), (4000, len)),
        seed=7,
    )


def a_row(selector="pretrained", shots=1, definitions="none", generator="in_context", **asked):
    one = Condition(selector, shots, definitions, generator)
    asked = {"test_set": "test", "flows": 2, "added": 0} | asked
    return pd.DataFrame(
        [[one.name, *one, *asked.values()]],
        columns=["condition", *ablation.FIELDS, "test_set", "flows", "added"],
    )


def written(materials, *rows, kept=()):
    return write_prompts(pd.concat(rows), materials, lambda prompts: prompts["unit"].isin(kept))


def test_prompts_of_test_flows(materials):
    prompts = written(materials, a_row(), a_row(definitions="sfd", flows=1))
    assert prompts[["condition", "unit", "test_set", "half", "model"]].to_numpy().tolist() == [
        ["pretrained_1_in_context", "q", "test", "a", "in_context-b"],
        ["pretrained_1_in_context", "r", "test", "b", "in_context-a"],
        ["pretrained_1_sfd_in_context", "q", "test", "a", "in_context-b"],
    ]
    assert ["mail me" in text for text in prompts["prompt"]] == [True, False, True]
    assert prompts["definitions"].tolist() == [[], [], ["shared_planner.CreateTask_V4"]]
    assert prompts.index.tolist() == [0, 1, 2]


def test_a_condition_is_asked_on_all_flows_that_are_kept_where_these_are_enough(materials):
    assert written(materials, a_row(flows=1))["unit"].tolist() == ["q"]
    assert written(materials, a_row(flows=1), kept=["r"])["unit"].tolist() == ["r"]
    assert written(materials, a_row(flows=1), kept=["q", "r"])["unit"].tolist() == ["q", "r"]
    assert written(materials, a_row(flows=2), kept=["r"])["unit"].tolist() == ["q", "r"]


def test_the_in_context_reader_is_asked_flows_of_one_half_alone(materials):
    both = [a_row(generator=name, test_set="test_same") for name in ("in_context", "finetuned")]
    prompts = written(materials, *both)
    assert prompts[["unit", "model"]].to_numpy().tolist() == [
        ["r", "in_context-b"], ["q", "finetuned"], ["r", "finetuned"],
    ]  # fmt: skip


def shots(materials, pairs, **row):
    return materials.shots(next(a_row(**row).itertuples()), pairs)


def test_few_shots_of_another_request_are_the_next_ones(materials):
    assert shots(materials, ["q", "r"]) == [[0, 1], [1, 0]]
    assert shots(materials, ["q", "r"], selector="other") == [[1, 0], [0, 1]]
    assert shots(materials, ["q"], selector="other") == [[1, 0]]


def test_random_few_shots_are_training_pairs_drawn_anew_for_each_request(materials):
    draws = shots(materials, [f"q{i}" for i in range(40)], selector="random")
    assert {found[0] for found in draws} == {0, 1}
    assert draws == shots(materials, [f"r{i}" for i in range(40)], selector="random")
    assert sorted(shots(materials, ["q"], selector="random", shots=9)[0]) == [0, 1]
    late = replace(materials, flows=materials.flows.iloc[::-1].reset_index(drop=True))
    assert sorted(shots(late, ["q"], selector="random", shots=9)[0]) == [1, 2], "row 0 is no training pair now"


def test_prompts_for_apis_held_out_have_their_own_few_shots(materials):
    new = a_row(definitions="fd", test_set="unseen", flows=1, added=1)
    tuned = a_row(shots=0, generator="finetuned", test_set="unseen", flows=1)
    prompts = written(materials, new, tuned).set_index("model")["prompt"]
    text = prompts["in_context-b"]
    assert text.index("shared_planner.CreateTask_V4") < text.index("new one")  # definitions first
    assert "new one" not in prompts["finetuned"]


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
    return Condition("tst", shots, definitions, generator, decoding)


def one_prompt(catalogue, made, semantic=((),), limit=4000):
    return write_condition(made, ASKED, [[1, 0, 2]], TRAINING, catalogue, limit, words, semantic).iloc[0]


def test_a_prompt_shows_the_nearest_few_shots_and_no_more(catalogue):
    row = one_prompt(catalogue, condition())
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
    found = {kind: one_prompt(catalogue, condition(kind), near)["definitions"] for kind in KINDS}
    assert found["none"] == found["instruction"] == []
    assert found["fd"] == [name for name in of_shots if name in catalogue]
    assert found["sfd"] == near[0]
    assert found["fd_sfd"] == [*found["fd"], "shared_outlook.SendEmailV2"]
    assert found["gold"] == ["shared_outlook.SendEmailV2"]
    assert USE_OF_DEFINITIONS in one_prompt(catalogue, condition("instruction"))["prompt"]
    assert USE_OF_DEFINITIONS not in one_prompt(catalogue, condition("none"))["prompt"]


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
    made = one_prompt(catalogue, condition(generator="finetuned"))
    assert made["prompt"].endswith(f"write a mail\n{START}\n")
    assert made["prompt"].count(END) == 2
    assert INSTRUCTION not in made["prompt"]
    assert STOPS["finetuned"] == (END,)


def test_the_catalogues_grammar_has_its_names(catalogue):
    every = one_prompt(catalogue, condition(decoding="catalogue"))["grammar"]
    assert "CreateTask_V4" in every
    assert "CreateTask_V4" not in one_prompt(catalogue, condition(decoding="grammar"))["grammar"]


def test_an_instruct_model_has_its_own_form(catalogue):
    made = one_prompt(catalogue, condition("fd", generator="instruct"))
    assert "```flow" in made["prompt"]
    same = one_prompt(catalogue, condition("fd", generator="in_context"))["prompt"]
    assert same == one_prompt(catalogue, condition("fd"))["prompt"]


def test_definitions_have_the_form_that_is_asked_for(catalogue):
    arguments = [[1, 0, 2]], TRAINING, catalogue, 4000, words
    short, long = (
        write_condition(condition("fd"), ASKED, *arguments, form=form).loc[0, "prompt"]
        for form in ("compact", "described")
    )
    assert len(long) > len(short)


# ---------------------------------------------------------------- ask


class Writer:
    def generate(self, prompts, max_new_tokens, stop, chat, grammars, progress):
        self.asked = stop, chat, grammars
        self.finished = [True, False]
        self.costs = [Cost(5, 2, 0.5), Cost(6, 3, 1.0)]
        return ["a.B();\n\nRequest: more", "c.D("]


def test_answers_keep_their_cost():
    prompts = pd.DataFrame({"prompt": ["one", "two"], "grammar": [None, "g"], "unit": ["q", "r"]}, index=[7, 9])
    writer = Writer()
    found = ask_model(prompts, writer, "untuned", 9)
    assert writer.asked == (["\n\n", "\nRequest:"], False, [None, "g"])
    assert found["text"].tolist() == ["a.B();", "c.D("]
    assert found["finished"].tolist() == [True, False]
    assert found[["tokens_in", "tokens_out", "seconds"]].to_numpy().tolist() == [[5, 2, 0.5], [6, 3, 1.0]]
    assert found.index.tolist() == [7, 9]


def test_every_generator_is_asked_in_its_own_way():
    prompts = pd.DataFrame({"prompt": ["one", "two"], "grammar": [None, None]})
    asked = {}
    for name, remote in (("in_context", False), ("finetuned", False), ("instruct", False), ("untuned", True)):
        writer = Writer()
        ask_model(prompts, writer, name, 9, remote)
        asked[name] = writer.asked
    assert asked["in_context"] == (list(STOPS["untuned"]), False, None)
    assert asked["finetuned"] == ([END], False, None)
    assert asked["instruct"] == (list(STOPS["instruct"]), True, None)
    assert asked["untuned"] == (["\nRequest:"], True, None), "a chat's answer may begin with a blank line"


def test_flows_that_are_copied():
    near = {"tst": pd.Series([[1, 0], [2, 1]], ["q", "r"])}
    answered = pd.DataFrame(
        {"test_set": ["test", "test", "test_same"], "unit": ["q", "q", "r"], "half": ["a", "a", ""]}
    )
    found = copied(near, TRAINING, answered)
    assert found[["condition", "test_set", "unit", "half", "text"]].to_numpy().tolist() == [
        ["copy_tst", "test", "q", "a", "x();"], ["copy_tst", "test_same", "r", "", "y();"],
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
    table = compare_conditions(scores, against(("base", "base"), ("few", "base")), 200, 0)
    row = table[(table["condition"] == "few") & (table["metric"] == "similarity")].iloc[0]
    assert (row["value"], row["n"], row["delta"], row["shared"]) == (0.5, 2, 0.25, 2)
    ran = table[(table["condition"] == "base") & (table["metric"] == "executed")].iloc[0]
    assert (ran["value"], ran["n"]) == (50, 4)
    base = table[table["condition"] == "base"]
    assert base[DELTAS].isna().all(axis=None)
    assert base["n"].eq(4).all()


def test_each_test_set_is_compared_for_itself():
    flows = [outcome(name, unit, value) for name, value in (("base", 0.0), ("few", 1.0)) for unit in range(8)]
    same = [outcome("base", unit, 0.5, test_set="test_same") for unit in range(8, 12)]
    other = [outcome("few", unit, 0.5, test_set="unseen") for unit in range(12, 14)]
    scores = pd.DataFrame([*flows, *same, *other])
    table = compare_conditions(scores, against(("base", "base"), ("few", "base")), 200, 0)
    found = table[table["metric"] == "similarity"][["test_set", "condition", "n", "shared"]].fillna(0)
    assert found.to_numpy().tolist() == [["test", "base", 8, 0], ["test", "few", 8, 8], ["test_same", "base", 4, 0]]


def test_rates_of_made_up_names_say_how_many_flows_they_count():
    parsed = {"base": [1, 1, 1, 0, 1, 1, 1, 1], "few": [0, 1, 1, 1, 1, 0]}
    scores = pd.DataFrame(
        [outcome(name, unit, 0.5, bool(it)) for name, flows in parsed.items() for unit, it in enumerate(flows)]
    )
    table = compare_conditions(scores, against(("few", "base")), 200, 0).set_index("metric")
    sizes = table[["n", "counted", "shared", "counted_both"]]
    assert sizes.loc["made_up_names"].tolist() == [6, 4, 6, 3]
    assert sizes.loc["unparsed"].tolist() == [6, 6, 6, 6]


def test_every_row_is_compared_as_its_table_says():
    asked = to_ask(rows_of(), {"test": 9}, [0, 1], 2, "in_context")
    pairs = comparisons(asked, PUBLISHED, "in_context")
    assert not pairs.duplicated().any()
    by_table = {name: set(part[["condition", "against"]].itertuples(index=False, name=None))
                for name, part in pairs.groupby("table")}  # fmt: skip
    five, twenty = "pretrained_5_in_context", "pretrained_20_in_context"
    assert by_table["1"] == {
        (five, five), (twenty, five), ("tst_5_in_context", five), ("tst_20_in_context", five),
    }  # fmt: skip
    assert (twenty, twenty) in by_table["3"]
    assert ("tst_20_fd_in_context", twenty) in by_table["3"]
    assert {other for _, other in by_table["4"]} == {FINETUNED}
    assert ("tst_20_sfd_in_context", "tst_20_in_context") in by_table["definitions"]
    assert ("pretrained_5_fd_in_context", "pretrained_5_instruction_in_context") in by_table["definitions"]
    assert by_table["grammar"] == {
        ("pretrained_5_in_context_catalogue", five), ("no_shots_finetuned_catalogue", FINETUNED),
    }  # fmt: skip
    steps = [("pretrained_1_in_context", "no_shots_in_context"), (five, "pretrained_1_in_context"), (twenty, five)]
    assert by_table["shots"] == set(steps)
    assert (UNSEEN_FINETUNED, unseen_name(0, "none")) in by_table["unseen"]
    assert ("copy_tst", five) in by_table["fair"]


def test_the_contracts_columns_and_the_printed_differences():
    names = ["pretrained_5_in_context", "tst_5_in_context", FINETUNED, "tst_20_fd_in_context", "tst_20_in_context"]
    scores = pd.DataFrame([outcome(name, unit, 0.5) for name in (*names, "copy_tst") for unit in range(3)])
    asked = to_ask(rows_of(), {"test": 9}, [], 0, "in_context")
    compared = compare_conditions(scores, comparisons(asked, PUBLISHED, "in_context"), 50, 0)
    table = contract(compared, asked, with_definitions(PUBLISHED))
    assert list(table) == [*CONTRACT, "condition", "against"]
    assert len(table) == len(compared)
    cells = table.set_index(["table", "condition", "metric"])["published_delta"]
    assert cells["1", "tst_5_in_context", "unparsed"] == -0.61
    assert cells["4", "tst_20_fd_in_context", "unparsed"] == -5.3
    assert cells["definitions", "tst_20_fd_in_context", "unparsed"] == pytest.approx(0.83 - 0.52)
    assert table.loc[table["table"].isin(["fair", "grammar"]), "published_delta"].isna().all()
    assert set(table.loc[table["condition"] == FINETUNED, "selector"]) == {"none"}
    assert set(table.loc[table["condition"] == "copy_tst", "generator"]) == {"copy"}


def test_flows_that_call_a_wanted_api():
    scores = pd.DataFrame(
        {"condition": ["a", "a", "b", "b"], "unit": ["q", "r"] * 2, "text": ["new.One();", "new.Two();", "(", "x.Y();"]}
    )
    called = new_apis_called(scores, {"q": ["new.One"], "r": ["new.One", "x.Y"]})
    assert called.to_dict("index") == {"q": {"a": 100, "b": 0}, "r": {"a": 0, "b": 100}}
    rates = called_rates(called.assign(c=[100, None])).set_index("condition")
    assert rates["value"].tolist() == [50, 50, 100]
    assert rates["n"].tolist() == [2, 2, 1]


def test_the_artifact_has_lists_and_no_prompts():
    scores = pd.DataFrame([outcome("a", "q", 0.5) | {"prompt": "p", "grammar": None, "definitions": []}])
    scores["made_up_parameters"] = [(("a.B", "key"),)]
    kept = with_lists(scores)
    assert kept["made_up_parameters"].tolist() == [[["a.B", "key"]]]
    assert kept["made_up_names"].tolist() == [[]]
    assert set(scores) - set(kept) == {"prompt", "grammar", "definitions"}


# ---------------------------------------------------------------- claims


def test_which_conditions_claims_are_about():
    methods = claimed_methods(rows_of(), "in_context", [0, 3, 1])
    assert methods["tst_20_fd_sfd_in_context"] == [("tst_fd_sfd", 20)]
    assert methods["pretrained_5_in_context"] == [("pretrained", 5)]
    assert methods[FINETUNED] == [("finetuned_dsl", 5), ("finetuned_dsl", 20)]
    assert methods[unseen_name(1, "fd_sfd")] == [("unseen_fd_sfd_new_shot", 5)], "of the added examples the fewest"
    assert methods[UNSEEN_FINETUNED] == [("unseen_finetuned_dsl", 5)]
    others = ["random_5", "pretrained_5_gold", "pretrained_5_instruction"]
    assert not {"pretrained_5", "pretrained_5_in_context_catalogue", unseen_name(3, "none")} & set(methods)
    assert not {f"{name}_in_context" for name in others} & set(methods)


def test_scores_that_claims_are_tested_on():
    methods = {"finetuned": [("finetuned_dsl", 5), ("finetuned_dsl", 20)], "tst_5": [("tst", 5)]}
    rows = [outcome("finetuned", "q", 0.5), outcome("tst_5", "q", 0.0, parsed=False), outcome("random_5", "q", 1.0)]
    scores = pd.DataFrame(rows).assign(made_up_names=[("a.B",), (), ()])
    called = pd.DataFrame({"tst_5": [100, 0], "not claimed about": [0, 0]}, index=pd.Index(["q", "r"], name="unit"))
    claimed = claimed_scores(scores, methods, called)
    found = claimed.set_index(["method", "k", "metric"])["value"]
    assert found["finetuned_dsl", 20, "similarity"] == 50
    assert found["finetuned_dsl", 5, "made_up_names"] == 100
    assert found["tst", 5, "unparsed"] == 100
    assert np.isnan(found["tst", 5, "made_up_names"])
    assert found["tst", 5, "new_apis_called"].tolist() == [100, 0]
    assert set(claimed["method"]) == {"finetuned_dsl", "tst"}


def test_published_rows_as_claims_take_them():
    published = published_for_claims(PUBLISHED)
    rows = published.set_index(["method", "k", "metric"])["value"]
    assert rows["pretrained", 20, "similarity"] == 3
    assert rows["pretrained", 20, "unparsed"] == -3.37
    assert rows["finetuned_dsl", 5, "unparsed"] == rows["finetuned_dsl", 20, "unparsed"]
    assert "finetuned" not in set(published["method"])
    assert ("tst_fd_sfd", 20, "similarity") in rows.index


def test_answers_are_scored_and_kept_as_lists(six_apis):
    gold = "x = await shared_office365.OnNewEmailV3();\nshared_office365users.MyProfile_V2();"
    made_up = 'shared_office365.Fly({"a": 1});\nshared_office365.SendEmailV2({"own": 1});'
    answers = pd.DataFrame({"unit": ["x", "y", "z"], "text": [gold, "b.Post(", made_up]}, index=[9, 4, 9])
    scores = score(answers, pd.DataFrame({"dsl": gold}, index=["x", "y", "z"]), six_apis)
    assert scores["similarity"].tolist() == [1, 0, 0]
    assert scores["unit"].tolist() == ["x", "y", "z"]
    assert scores["executed"].tolist() == [True, False, False]
    kept = with_lists(scores)
    assert kept["made_up_names"].tolist() == [[], [], ["shared_office365.Fly"]]
    assert kept["made_up_parameters"][2] == [["shared_office365.SendEmailV2", "own"]]


def test_an_argument_that_the_request_does_not_say_may_differ(six_apis):
    gold = 'x = await shared_office365.OnNewEmailV3({"folderPath": "Inbox"});'
    other = pd.DataFrame({"unit": ["x", "y"], "text": gold.replace("Inbox", "Archive")})
    flows = pd.DataFrame({"dsl": gold, "said": [[[]], [["folderPath"]]]}, index=["x", "y"])
    assert score(other, flows, six_apis)["executed"].tolist() == [True, False]
    assert score(other, flows.drop(columns="said"), six_apis)["executed"].tolist() == [False, False]
