"""WorkBench: what its files say, searches over items and tools; what is wrong with a file is one sentence."""

import pandas as pd
import pytest

from lib.assistant import workbench
from lib.assistant.tools import listed_rows
from lib.retrieval.lambdamart import hash_of
from lib.workbook.inputs import InputError
from lib.workbook.parts import keep_arrays
from tests.assistant.conftest import letters

QUERY = "query,answer,base_template"


@pytest.fixture
def folder(tmp_path):
    """One item an app, three requests in one file and none in the others."""
    for name, file, key, text in workbench.APPS.values():
        columns = [key, *text.split()]
        values = ["0001", *(f"{name} {column}" for column in columns[1:])]
        (tmp_path / file).write_text(f"{','.join(columns)}\n{','.join(values)}\n")
    (tmp_path / workbench.ANSWERS).mkdir()
    for name in [*workbench.FILES][4:]:
        (tmp_path / name).write_text(f"{QUERY}\n")
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
def read(monkeypatch):
    """The texts that were embedded, by an encoder that is a function of texts."""
    texts = []
    monkeypatch.setattr("lib.retrieval.dense.encode", lambda encoder, some, **_: texts.append(some) or encoder(some))
    return texts


def test_answers_name_items_and_tools(folder):
    bench = workbench.read_workbench(folder)
    assert bench.relevant.to_numpy().tolist() == [["email-1", "email-0001"]]
    assert bench.called.to_numpy().tolist() == [["email-1", "email.delete_email"], ["email-3", "email.send_email"]]
    assert bench.queries["calls"].map(len).tolist() == [1, 0, 2]
    assert bench.tools["text"].tolist() == ["Email: delete email (email id)", "Email: send email (recipient, body)"]
    assert bench.items["item"].is_unique  # all apps have an item 0001


WRONG = {
    """x,"['email.delete_email.func(email_id=""0009"")']",t""": "row 1: answer: no item email-0009",
    """x,"['email.delete_email.func(email_id=open(""x""))']",t""": "row 1: answer: no list of calls",
    """x""": "row 1: answer: no list of calls",
}


@pytest.mark.parametrize("row", WRONG)
def test_what_is_wrong_with_an_answer(folder, row):
    answers(folder, row)
    with pytest.raises(InputError, match=WRONG[row]):
        workbench.read_workbench(folder)


def test_an_id_may_not_stand_twice(folder):
    path = folder / "emails.csv"
    path.write_text(path.read_text() + path.read_text().splitlines()[1] + "\n")
    with pytest.raises(InputError, match="email-0001 stands twice"):
        workbench.read_workbench(folder)


@pytest.mark.usefixtures("read")
def test_the_right_item_is_ranked_first_and_scored(folder):
    bench = workbench.read_workbench(folder)
    bench.asked.loc[0, "text"] = bench.items.loc[0, "text"]
    runs = workbench.context_runs(bench, {"semantic": letters})
    assert set(runs) == {"bm25t", "semantic"}
    scores, _ = workbench.scores_of(bench, runs | workbench.tool_runs(bench, runs["semantic"], letters), seed=1)
    assert set(scores["query"]) == {"email-1"}  # the only one whose answer names an item
    recall = scores[scores["metric"] == "recall"].pivot(index="method", columns="k", values="value")
    assert (recall.loc[["bm25t", "semantic"]] == 100).all(axis=None)
    assert recall.loc["random", 3] == pytest.approx(75, abs=6)  # one of four items


def test_context_is_the_app_of_the_first_item(folder, read):
    bench = workbench.read_workbench(folder)
    context = pd.DataFrame({"query": ["email-1", "email-1", "email-3"], "rank": [1, 2, 1]})
    context["item"] = ["calendar-0001", "email-0001", "email-0001"]
    runs = workbench.context_runs(bench, {}) | workbench.tool_runs(bench, context, letters)
    _, scores = workbench.scores_of(bench, runs, seed=1)
    assert read[0] == ["Delete the mail", "Write to me"]  # a request without a call has no right tool
    assert read[2] == ["Delete the mail Calendar", "Write to me Email"]
    assert scores.loc[scores["k"] == 3, "value"].eq(100).all()  # there are two tools


@pytest.mark.usefixtures("read")
def test_kept_runs_are_taken_for_the_same_data_and_encoder_and_searched_for_again(folder, monkeypatch):
    monkeypatch.setattr(workbench, "LISTED", 4)
    monkeypatch.setattr(workbench, "AUDITED", 2)
    bench = workbench.read_workbench(folder)
    run = workbench.context_runs(bench, {"semantic": letters})["semantic"]
    rows = listed_rows(run, bench.asked, bench.items, 4)
    key = hash_of(["weights"], [bench.queries[["query", "text"]], bench.items, bench.tools])
    keep_arrays(folder / workbench.LISTS, {"semantic": rows}, key)
    kept = workbench.kept_runs(bench, "weights", folder)["semantic"]
    pd.testing.assert_frame_equal(kept, run[["query", "item", "rank"]], check_dtype=False)
    assert workbench.agreed(bench, kept, letters, 1) == 2
    assert workbench.agreed(bench, kept.assign(rank=5 - kept["rank"]), letters, 1) == 0
    assert workbench.kept_runs(bench, "others", folder) == {}
    assert workbench.kept_runs(bench._replace(items=bench.items[1:]), "weights", folder) == {}
