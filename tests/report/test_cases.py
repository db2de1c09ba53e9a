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


# ---------------------------------------------------------------- what is shown


def test_every_evaluation_query_is_there_with_its_labels_and_no_other(project):
    data, cases = cases_of(build(project)["queries"])
    assert list(cases) == [f"p{number}-q0" for number in range(6)]
    one = cases["p0-q0"]
    assert [data["items"][number][1] for number in one["relevant"]] == ["title 1", "title 5"]
    assert (one["apis"], one["kind"], one["plan"]) == (["send_mail"], "habit", 'send_mail(to="a")')
    assert one["when"] == "Monday 2024-03-04 08:50, home"
    assert data["items"][3] == ["Mail", "title 3", "and more"]
    assert one["thoughts"][0][0] == "CoT"
    assert [data["tools"][number] for number in one["tools"]["0"]] == ["open_note", "send_mail"]


def test_rankings_are_the_first_ten_and_give_the_recall_of_the_tables(project):
    data, cases = cases_of(build(project)["queries"])
    methods = [name for name, _ in data["methods"]]
    assert methods == ["bm25t", "lambdamart"], "one shuffle is no method: the tables have the mean of all"
    for number, expected in enumerate([0.5, 1.0]):
        ranking = cases["p3-q0"]["found"][str(number)]
        assert len(ranking) == 10
        found = recall_at_k(ranking, set(cases["p3-q0"]["relevant"]), 3)
        assert found == expected


def test_plans_say_what_was_wrong(project):
    data, cases = cases_of(build(project)["queries"])
    assert cases["p0-q0"]["plans"]["0"][1:] == [1, 1, 0, "", ""]
    assert cases["p1-q0"]["plans"]["0"][1:5] == [0, 0, 1, "wrong_api"]
    assert cases["p2-q0"]["plans"]["0"][4:] == ["unparsed", ""]
    assert cases["p5-q0"]["plans"] == {}
    causes = next(facet for facet in data["facets"] if facet["name"] == "cause")["options"]
    assert [cause for cause, _ in causes] == ["unparsed", "wrong_api"], "those that occur"


def test_every_test_flow_is_there_and_equal_answers_once(project):
    data, cases = cases_of(build(project)["flows"])
    assert list(cases) == ["test-0", "test-1"]
    one, names = cases["test-0"], [name for name, _ in data["conditions"]]
    assert {names[int(number)]: one["answers"][at][4] for number, at in one["by"].items()} == {
        "right": "same", "argument": "calls", "copied": "calls", "broken": "none",
    }  # fmt: skip
    assert len(one["answers"]) == 3
    assert [case["half"] for case in cases.values()] == ["a", ""]
    assert one["answers"][0][0] == [], "what is right has no difference"
    broken = one["answers"][one["by"][str(names.index("broken"))]]
    assert [data["kinds"][kind][2] for kind in broken[5]] == ["syntax"]
    assert broken[6] == "line 1, column 7: no call"
    assert cases["test-1"]["answers"] == []


def test_the_same_artifacts_give_the_same_bytes(project):
    assert build(project) == build(project)


# ---------------------------------------------------------------- what is not


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


# ---------------------------------------------------------------- in a browser


@pytest.mark.slow
def test_queries_are_filtered_from_disk(project, tab):
    build(project)
    page = (project / "reports" / "smoke" / "queries.html").as_uri()
    tab.open(page)
    assert tab.listed() == 6
    tab.open(f"{page}#kind=habit&method=bm25t&k=3&found=some")
    assert tab.listed() == 3
    assert (
        tab.value("document.querySelector('#summary').textContent") == "3 cases of 6 · Recall@3 of BM25T on them: 50.0%"
    )
    assert tab.value("document.querySelector('[name=kind]').value") == "habit"
    tab.open(f"{page}#setting=rag&right=no&cause=unparsed")
    assert tab.listed() == 2
    tab.open(f"{page}#q=usual+guitar")
    assert tab.listed() == 1
    assert tab.value("document.querySelector('#detail h2').textContent") == "“Play my <usual>”"
    tab.open(f"{page}#method=lambdamart&found=all&missed_by=bm25t")
    assert tab.listed() == 6, "one method right and another wrong"
    tab.open(f"{page}#method=bm25t&found=all&missed_by=lambdamart")
    assert tab.listed() == 0
    tab.open(f"{page}#wrong_in=rag")
    assert tab.listed() == 3
    tab.open(f"{page}#kind=habit&mood=x")
    assert tab.listed() == 3
    assert "mood" in tab.value("document.querySelector('#problem').textContent")
    tab.value("location.hash = '#kind=meaning&case=p3-q0'")
    tab.wait("document.querySelector('#list [aria-selected=true]')?.textContent.startsWith('query 3')")
    assert tab.value("document.querySelectorAll('#detail img, #detail script').length") == 0
    assert tab.errors == []
