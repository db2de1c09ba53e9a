"""The pages of cases: what they show, what cannot become markup, and how a reader finds a case in a browser."""

import base64
import gzip
import hashlib
import json
import re

import pytest
from bs4 import BeautifulSoup

from lib.evaluation.ranking import recall_at_k
from lib.report import cases as browser
from lib.workbook.parameters import NOTEBOOKS
from tests.report.artifacts import EVIL, write_artifacts

DONE = dict.fromkeys(NOTEBOOKS, "ok")


@pytest.fixture
def project(tmp_path):
    write_artifacts(tmp_path)
    return tmp_path


def build(root, status=DONE):
    folder = root / "reports" / "smoke"
    folder.mkdir(parents=True, exist_ok=True)
    made = browser.write_pages({"profile": "smoke", "status": status}, folder, root)
    return {name: (folder / f"{name}.html").read_text() for name in made}


def unpacked(page):
    """The data of a page."""
    found = re.search(r'<script type="text/plain" id="data">([^<]*)</script>', page)
    return json.loads(gzip.decompress(base64.b64decode(found[1])))


def cases_of(page):
    data = unpacked(page)
    return data, {one["id"]: one for one in data["cases"]}


def test_every_evaluation_query_is_there_with_its_labels_and_no_other(project):
    data, cases = cases_of(build(project)["queries"])
    assert list(cases) == [f"p{number}-q0" for number in range(6)]
    one = cases["p0-q0"]
    assert [data["items"][number][1] for number in one["relevant"]] == ["title 1", "title 5"]
    assert (one["apis"], one["kind"], one["plan"]) == (["send_mail"], "habit", 'send_mail(to="a")')
    assert one["when"] == "Monday 2024-03-04 08:50, home"
    assert data["items"][3] == ["Mail", "title 3", "and more"]


def test_rankings_are_the_first_ten_and_give_the_recall_of_the_tables(project):
    data, cases = cases_of(build(project)["queries"])
    assert list(data["methods"]) == ["bm25t", "lambdamart"], "one shuffle is no method: the tables have the mean of all"
    for method, expected in {"bm25t": 0.5, "lambdamart": 1.0}.items():
        ranking = cases["p3-q0"]["found"][method]
        assert len(ranking) == 10
        assert recall_at_k(ranking, set(cases["p3-q0"]["relevant"]), 3) == expected


def test_plans_say_what_was_wrong(project):
    _, cases = cases_of(build(project)["queries"])
    told = [cases[f"p{number}-q0"]["plans"].get("rag", [])[1:] for number in (0, 1, 2, 5)]
    assert told == [[1, ""], [0, "wrong_api"], [0, "unparsed"], []]


def test_every_test_flow_is_there_and_equal_answers_once(project):
    _, cases = cases_of(build(project)["flows"])
    assert list(cases) == ["test-0", "test-1"]
    one = cases["test-0"]
    assert {name: one["answers"][at][2] for name, at in one["by"].items()} == {
        "right": "same", "argument": "calls", "copied": "calls", "broken": "none",
    }  # fmt: skip
    assert len(one["answers"]) == 3
    assert one["answers"][0][0] == [], "what is right has no difference"
    broken = one["answers"][one["by"]["broken"]]
    assert broken[3:5] == [None, "line 1, column 7: no call"]
    assert cases["test-1"]["answers"] == []


def test_what_a_failed_notebook_left_is_not_shown(project):
    assert list(build(project, DONE | {"01_data_gen": "failed"})) == []
    pages = build(project, DONE | {"07_planner": "outdated"})
    assert cases_of(pages["queries"])[1]["p0-q0"]["plans"] == {}


def test_nothing_in_the_data_becomes_markup_or_script(project):
    for name, page in build(project).items():
        soup = BeautifulSoup(page, "html.parser")
        data, script = soup.find_all("script")
        assert re.fullmatch("[A-Za-z0-9+/=]+", data.string)
        assert not soup.find_all("img")
        assert len(soup.find_all("h1")) == 1
        policy = soup.find("meta", attrs={"http-equiv": "Content-Security-Policy"})["content"]
        assert "default-src 'none'" in policy
        assert f"'sha256-{base64.b64encode(hashlib.sha256(script.string.encode()).digest()).decode()}'" in policy
        assert "http" not in re.sub(r"https?-equiv", "", script.string), name
        assert json.dumps(EVIL)[1:-1] in json.dumps(unpacked(page)), "but it is there, as text"


@pytest.mark.slow
def test_cases_are_filtered_from_disk(project, shown):
    build(project)
    queries, flows = ((project / "reports" / "smoke" / f"{name}.html").as_uri() for name in ("queries", "flows"))

    def left(address):
        return len(shown(address).select("#list [role=option]"))

    page = shown(f"{queries}#kind=habit&method=bm25t&found=some&mood=x")
    assert len(page.select("#list [role=option]")) == 3
    assert page.find(id="summary").text == "3 cases of 6 · Recall@3 of BM25T on them: 50.0%"
    assert "mood" in page.find(id="problem").text
    assert page.find(id="list").find(attrs={"aria-selected": "true"})
    assert left(f"{queries}#setting=rag&right=no&cause=unparsed&wrong_in=rag") == 2
    assert left(f"{queries}#method=lambdamart&found=all&missed_by=bm25t") == 6, "one method right and another wrong"
    page = shown(f"{queries}#q=usual+guitar")
    assert page.select_one("#detail h2").text == "“Play my <usual>”"
    assert not page.select("#detail img, #detail script")
    page = shown(f"{flows}#condition=argument&result=calls")
    assert len(page.select("#list [role=option]")) == 1
    assert page.select("#detail ins, #detail del")
