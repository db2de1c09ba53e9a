"""WorkBench: what its files say, searches over items and tools, plans; what is wrong with a file is one sentence."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lib.assistant import workbench
from lib.assistant.toolbox import Toolbox
from lib.assistant.workbench import WorkBench
from lib.workbook.inputs import InputError

SHARED = Path(__file__).parents[3] / "shared/external/workbench"
QUERY = "query,answer,base_template"


class Letters:
    """Embeds a text as counts of its letters, so that equal letters are near."""

    def encode(self, texts, **_):
        counts = np.array([[1e-6 + text.lower().count(chr(97 + i)) for i in range(26)] for text in texts])
        return counts / np.linalg.norm(counts, axis=1, keepdims=True)


@pytest.fixture
def folder(tmp_path):
    """One item an app, three requests in one file and none in the others."""
    for app in workbench.APPS.values():
        columns = list(dict.fromkeys([app.key, *app.text]))
        values = ["0001", *(f"{app.name} {column}" for column in columns[1:])]
        (tmp_path / app.file).write_text(f"{','.join(columns)}\n{','.join(values)}\n")
    (tmp_path / workbench.ANSWERS).mkdir()
    for name in workbench.ANSWER_FILES:
        (tmp_path / workbench.ANSWERS / name).write_text(f"{QUERY}\n")
    answers(
        tmp_path,
        """Delete the mail,"['email.delete_email.func(email_id=""0001"")']",Delete it""",
        """Do nothing,[],Nothing""",
        """Write to me,"['email.send_email.func(recipient=""a"", body=""b"")', """
        """'email.send_email.func(body=""c"")']",Write""",
    )
    return tmp_path


def answers(folder, *rows):
    text = "\n".join([QUERY, *rows])
    (folder / workbench.ANSWERS / "email_queries_and_answers.csv").write_text(f"{text}\n")


@pytest.fixture
def letters(monkeypatch):
    monkeypatch.setattr(workbench, "encode", lambda encoder, texts: encoder.encode(texts))
    return Letters()


def test_answers_name_items_and_tools(folder):
    bench = workbench.read_workbench(folder)
    assert bench.relevant.to_numpy().tolist() == [["email-1", "email-0001"]]
    assert bench.called.to_numpy().tolist() == [["email-1", "email.delete_email"], ["email-3", "email.send_email"]]
    assert bench.queries["calls"].map(len).tolist() == [1, 0, 2]
    assert bench.tools["text"].tolist() == ["Email: delete email (email id)", "Email: send email (recipient, body)"]
    assert bench.items["item"].is_unique  # all apps have an item 0001


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("""x,"['email.delete_email.func(email_id=""0009"")']",t""", "row 1: answer: no item email-0009"),
        ("""x,"['__import__(""os"").system(""false"")']",t""", "row 1: answer: no list of calls"),
        ("""x,"['email.delete_email.func(email_id=open(""x""))']",t""", "row 1: answer: no list of calls"),
        ("""x,7,t""", "row 1: answer: no list of calls"),
        ("""x""", "row 1: a field is missing"),
    ],
)
def test_what_is_wrong_with_an_answer(folder, row, message):
    answers(folder, row)
    with pytest.raises(InputError, match=message):
        workbench.read_workbench(folder)


def test_an_id_may_not_stand_twice(folder):
    path = folder / workbench.APPS["email"].file
    path.write_text(path.read_text() + path.read_text().splitlines()[1] + "\n")
    with pytest.raises(InputError, match="email-0001 stands twice"):
        workbench.read_workbench(folder)


def test_missing_files_are_one_sentence(folder, tmp_path):
    assert workbench.absent_sentence(tmp_path, ".") == ""
    (folder / "emails.csv").unlink()
    sentence = workbench.absent_sentence(tmp_path, ".")
    assert "lacks emails.csv;" in sentence
    assert workbench.SOURCE in sentence
    assert "workbench_folder" in sentence


def test_the_right_item_is_ranked_first_and_scored(folder, letters):
    bench = workbench.read_workbench(folder)
    bench.queries.loc[0, "text"] = bench.items.loc[0, "text"]
    runs = workbench.context_runs(bench, bench.queries, {"semantic": letters})
    assert set(runs) == {"bm25t", "semantic", "rrf_text"}
    scores = workbench.context_scores(bench, runs, seed=1)
    assert set(scores["query"]) == {"email-1"}  # the only one whose answer names an item
    recall = scores[scores["metric"] == "recall"].pivot(index="method", columns="k", values="value")
    assert (recall.loc[["bm25t", "semantic", "rrf_text"]] == 100).all(axis=None)
    assert recall.loc["random", 3] == pytest.approx(75, abs=6)  # one of four items


def test_context_is_the_app_of_the_first_item(folder, letters, monkeypatch):
    read = []
    monkeypatch.setattr(workbench, "encode", lambda encoder, texts: read.append(texts) or encoder.encode(texts))
    bench = workbench.read_workbench(folder)
    context = pd.DataFrame(
        {
            "query": ["email-1", "email-1", "email-3"],
            "item": ["calendar-0001", "email-0001", "email-0001"],
            "rank": [1, 2, 1],
        }
    )
    scores = workbench.tool_scores(bench, context, letters, seed=1)
    alone, found, oracle = read[0], read[2], read[6]
    assert alone == ["Delete the mail", "Write to me"]  # a request without a call has no right tool
    assert found == ["Delete the mail Calendar", "Write to me Email"]
    assert oracle == ["Delete the mail Email", "Write to me"]
    assert set(scores["query"]) == {"email-1"}, "whose answer names an item"
    assert scores.loc[scores["k"] == 3, "value"].eq(100).all()  # there are two tools


def test_the_benchmark_itself():
    if not SHARED.is_dir():
        pytest.skip("WorkBench is not part of the repository")
    bench = workbench.read_workbench(SHARED)
    assert (len(bench.queries), bench.relevant["query"].nunique(), len(bench.items)) == (690, 296, 1300)
    assert bench.items["app"].value_counts().to_dict() == {
        "email": 500, "calendar": 300, "project_management": 300, "customer_relationship_manager": 200,
    }  # fmt: skip
    assert len(bench.tools) == 13


# ---------------------------------------------------------------- plans

DELETE, SEND = "email.delete_email", "email.send_email"


@pytest.fixture
def bench():
    items = [
        ("email-0001", "email", "Hello", "inbox. ann.lee@atlas.com. Hello"),
        ("calendar-0001", "calendar", "Lunch", "Lunch. bo.ek@atlas.com"),
    ]
    queries = [  # answers of one call, and one of two
        ("q1", "Delete it", "Delete Ann's mail", [(DELETE, {"email_id": "0001"})]),
        ("q2", "Delete it", "Delete my mail", [(DELETE, {"email_id": "0001"})]),
        ("q3", "Write", "Write to Bo", [(SEND, {"recipient": "bo.ek@atlas.com", "body": "x"}), (SEND, {"body": "y"})]),
        ("q4", "Nothing", "Do nothing", []),
    ]
    tools = [
        (DELETE, "email", "Email: delete email (email id)"),
        (SEND, "email", "Email: send email (recipient, body)"),
    ]
    return WorkBench(
        pd.DataFrame(items, columns=["item", "app", "title", "text"]),
        pd.DataFrame(queries, columns=["query", "template", "text", "calls"]),
        pd.DataFrame([("q1", "email-0001"), ("q2", "email-0001")], columns=["query", "item"]),
        pd.DataFrame(tools, columns=["item", "app", "text"]),
        pd.DataFrame(columns=["query", "item"]),
    )


def ranking(queries, items):
    rows = [(query, item, place) for query in queries for place, item in enumerate(items, start=1)]
    return pd.DataFrame(rows, columns=["query", "item", "rank"])


@pytest.fixture
def toolbox(bench, tmp_path):
    (path := tmp_path / "functions.json").write_text(json.dumps(workbench.functions_of(bench)))
    return Toolbox.from_functions(path)


@pytest.fixture
def prompted(bench, toolbox):
    tools, context = ranking(["q1", "q3"], [SEND, DELETE]), ranking(["q1", "q3"], ["email-0001"])
    return workbench.plan_prompts(bench, bench.queries.iloc[[0, 2]], toolbox, tools, context)


def test_functions_say_what_the_data_say(toolbox):
    assert toolbox[SEND].function["parameters"]["required"] == ["body"]
    assert toolbox[DELETE].function["description"] == "Email: delete email"


def test_a_sample_has_one_request_of_a_template_and_none_without_an_answer(bench):
    drawn = workbench.one_a_template(bench, 9, seed=1)
    assert sorted(drawn["template"]) == ["Delete it", "Write"]
    assert len(workbench.one_a_template(bench, 1, seed=1)) == 1


def test_prompts_show_ids_people_and_tools_and_no_answer(prompted):
    rows = prompted[prompted["query"] == "q1"].set_index("method")["prompt"]
    assert "Context:" not in rows["rag"]
    shown = "Email: email_id 0001. inbox. ann.lee@atlas.com. Hello\nContact: Ann Lee, ann.lee@atlas.com\n"
    assert shown in rows["context_tuned_rag"]
    assert rows["rag"].index("email.send_email(recipient?, body)") < rows["rag"].index("email.delete_email(email_id)")
    assert "default()" in rows["rag"]
    right = rows["context_tuned_upper_bound"]
    assert "delete_email" in right
    assert "send_email" not in right
    other = prompted[prompted["query"] == "q3"].set_index("method")["prompt"]["context_tuned_upper_bound"]
    assert "Contact: Bo Ek, bo.ek@atlas.com" in other


def test_the_template_takes_the_first_item_that_a_tool_takes(prompted, toolbox):
    floor = workbench.template_plans(prompted, toolbox)
    assert floor["text"].tolist() == ['email.delete_email(email_id="0001")'] * 2
    assert set(floor["method"]) == {workbench.TEMPLATE}
    bare = workbench.template_plans(prompted.assign(items=[[]] * len(prompted)), toolbox)
    assert bare["text"].tolist() == ["email.send_email()"] * 2


def test_plans_are_judged_by_the_answers(prompted, bench, toolbox):
    texts = ['email.delete_email(email_id="0001")', "delete_email(", 'email.drop(email_id="0001")']
    mine = prompted[prompted["query"] == "q1"].assign(text=texts)
    scores = workbench.plan_scores(
        pd.concat([mine, workbench.template_plans(prompted, toolbox)]), bench, toolbox
    ).pivot(index=["method", "query"], columns="metric", values="value")
    assert list(scores.loc[("rag", "q1"), ["ast_accuracy", "right_api", "unparsed", "hallucination"]]) == [
        100,
        100,
        0,
        0,
    ]
    assert list(scores.loc[("context_tuned_rag", "q1"), ["ast_accuracy", "unparsed"]]) == [0, 100]
    assert list(scores.loc[("context_tuned_upper_bound", "q1"), ["ast_accuracy", "hallucination"]]) == [0, 100]
    assert scores.loc["template", "ast_accuracy"].tolist() == [100, 0]
