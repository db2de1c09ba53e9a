"""The pages of cases: what they show, what cannot become markup, and how a reader finds a case in a browser."""

import base64
import gzip
import hashlib
import json
import re
from types import SimpleNamespace

import pandas as pd
import pytest
from bs4 import BeautifulSoup

from lib.evaluation.ranking import recall_at_k
from lib.report import cases as browser
from lib.report.cases import changed_lines, judge
from lib.workbook.artifacts import ROOT, ArtifactError, Workbook
from lib.workbook.cases import case_address
from lib.workbook.parameters import NOTEBOOKS, Parameters, notebook_parameters
from lib.workflows.ablation import asked_rows
from lib.workflows.errors import KINDS
from tests.report.artifacts import EVIL, GOLD, catalogue, flow_frames, write_artifacts

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


def rebuilt(gold, changes):
    lines, parts, at = gold.splitlines(), [], 0
    for start, end, written in changes:
        parts += [*lines[at:start], *written]
        at = end
    return "\n".join(parts + lines[at:])


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


def test_conditions_have_titles_that_readers_understand():
    asked = notebook_parameters("09_dsl_ablation", profile="smoke")
    names = [asked_rows(asked)["condition"].iloc[0], "copy_tst"]
    titles = browser.condition_titles(SimpleNamespace(parameters_of=lambda *_: asked), names)
    assert list(titles) == names
    assert "few-shot" in titles[names[0]]
    assert titles["copy_tst"] == "nearest flow copied, TST"

    def missing(*_):
        raise ArtifactError("not there")

    assert browser.condition_titles(SimpleNamespace(parameters_of=missing), ["a_b"]) == {"a_b": "a b"}


@pytest.mark.parametrize("made_up", [[], ["own.Do"]])
def test_valid_is_what_the_tables_say(made_up):
    """The scores' own column counts a flow with made-up parameters."""
    row = {"similarity": 1.0, "parsed": True, "valid": True, "made_up_names": [], "made_up_parameters": made_up}
    assert judge(row, GOLD, True, GOLD, catalogue())[3] == (not made_up)


@pytest.mark.parametrize("text", [GOLD, "", "x", GOLD.replace("title", "body"), f"a\n{GOLD}\nb", GOLD.split("\n")[0]])
def test_a_flow_can_be_rebuilt_from_its_difference(text):
    assert rebuilt(GOLD, changed_lines(GOLD, text)) == text


def test_a_large_page_keeps_the_first_flows_of_each_condition(project, monkeypatch):
    flows, answers = flow_frames()
    more = [answers.assign(unit="test-1", text="x = await a.b();"), answers]
    book = Workbook("09_dsl_ablation", Parameters(profile="smoke"), project)
    book.write("ablation_scores", pd.concat(more))
    whole = unpacked(build(project)["flows"])
    assert (whole["kept"], whole["total"]) == (8, 8)
    flows["split"] = flows["split"].replace("test_same", "test")
    Workbook("01_data_gen", Parameters(profile="smoke"), project).write("flows", flows)
    monkeypatch.setattr(browser, "LIMIT", 0)
    monkeypatch.setattr(browser, "KEPT", (None, 1))
    less, found = cases_of(build(project)["flows"])
    assert (less["kept"], less["total"]) == (4, 8)
    assert len(found["test-1"]["by"]) == 4, "the first that were asked"
    assert len(found) == 2, "all requests stay"


def test_the_same_artifacts_give_the_same_bytes(project):
    assert build(project) == build(project)


# ---------------------------------------------------------------- what is not


def test_what_a_failed_notebook_wrote_is_left_out(project):
    page = build(project, DONE | {"07_planner": "failed", "09_dsl_ablation": "outdated"})
    assert "flows" not in page, "no flow is left to show"
    assert all(not case["plans"] for case in unpacked(page["queries"])["cases"])


def test_a_page_without_its_artifacts_is_not_made(project):
    (project / "data" / "generated" / "smoke" / "gold.parquet").write_bytes(b"damaged")
    assert list(build(project)) == ["flows"]


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


def test_a_lone_surrogate_can_be_packed():
    data = {"text": "half a \ud800"}
    assert unpacked(f'<script type="text/plain" id="data">{browser.packed(data)}</script>') == data


# ---------------------------------------------------------------- addresses


def test_an_address_names_a_view():
    assert case_address("queries", kind="habit", setting="rag", right="no") == (
        "queries.html#kind=habit&setting=rag&right=no"
    )
    assert case_address("flows", condition="fine-tuned, 67,000 pairs", valid=None) == (
        "flows.html#condition=fine-tuned%2C+67%2C000+pairs"
    )
    assert case_address("flows") == "flows.html"


def test_the_page_opens_on_a_case_that_explains_it(project):
    """Usage finds both items of the first queries where no plan with context is there; the flow is right in part."""
    data = {name: unpacked(page) for name, page in build(project).items()}
    assert data["queries"]["first"] == "p0-q0", "with a chain of thought"
    assert data["flows"]["first"] == "test-0", "right under one condition, wrong under others"


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


@pytest.mark.slow
def test_everything_is_reached_by_keyboard(project, tab):
    build(project)
    tab.open((project / "reports" / "smoke" / "queries.html").as_uri())
    tab.press("/", 191, "/")
    assert tab.focused() == "q"
    for letter in "query":
        tab.press(letter, ord(letter.upper()), letter)
    tab.wait("document.querySelectorAll('#list [role=option]').length === 5")
    tab.press("Tab", 9)
    assert tab.focused() == "clear"
    tab.press("Tab", 9)
    assert tab.focused() == "list"
    assert tab.value("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    tab.press("ArrowDown", 40)
    tab.press("ArrowDown", 40)
    assert "query 3" in tab.value("document.querySelector('#detail h2').textContent")
    active = "document.getElementById(document.activeElement.getAttribute('aria-activedescendant')).textContent"
    assert tab.value(active).startswith("query 3")
    tab.press("End", 35)
    assert "query 5" in tab.value("document.querySelector('#detail h2').textContent")
    tab.press("Enter", 13, "\r")
    assert tab.focused() == "detail"
    tab.press("Escape", 27)
    assert tab.focused() == "list"
    tab.wait("location.hash === '#q=query&case=p5-q0'")
    reached = set()
    tab.value("document.activeElement.blur()")
    for _ in range(60):
        tab.press("Tab", 9)
        reached.add(tab.focused())
    asked = tab.value("[...document.querySelectorAll('#filters [name]')].map((one) => one.name)")
    assert {*asked, "clear", "list"} <= reached
    unnamed = "[...document.querySelectorAll('#filters [name]')].filter((one) => !one.labels.length).length"
    assert tab.value(unnamed) == 0
    assert tab.errors == []


@pytest.mark.slow
def test_flows_are_filtered_and_shown_as_differences(project, tab):
    build(project)
    page = (project / "reports" / "smoke" / "flows.html").as_uri()
    tab.open(f"{page}#condition=copied")
    assert tab.listed() == 1
    summary = "document.querySelector('#summary').textContent"
    assert "similarity 1.00, valid 100.0%, runs right 0.0%" in tab.value(summary)
    said = tab.value("[...document.querySelectorAll('#detail section p')].map((one) => one.textContent)")
    assert [text.split(" · ")[-1] for text in said].count("runs right") == 1
    assert "'title'" in tab.value("document.querySelector('#detail del').textContent")
    assert tab.value("document.querySelector('#detail ins mark').textContent") == "body"
    tab.open(f"{page}#error=syntax&condition=broken")
    assert tab.listed() == 1
    assert "runs right" not in tab.value(summary), "it was not measured"
    tab.open(f"{page}#condition=right&result=same&wrong_under=copied")
    assert tab.listed() == 1
    tab.open(f"{page}#condition=right&result=same&wrong_under=right")
    assert tab.listed() == 0
    tab.open(f"{page}#error=syntax")
    assert tab.listed() == 1
    tab.open(f"{page}#error=names")
    assert tab.listed() == 0
    tab.open(f"{page}#condition=copied&result=none")
    assert tab.listed() == 0
    tab.open(f"{page}#half=one")
    assert tab.listed() == 1
    tab.open(f"{page}#set=test_same")
    assert "onerror" in tab.value("document.querySelector('#detail h2').textContent")
    assert tab.value("document.querySelectorAll('#detail img, #list img').length") == 0
    assert tab.errors == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["queries", "flows"])
def test_a_phone_scrolls_in_one_direction(project, tab, name):
    build(project)
    tab.open((project / "reports" / "smoke" / f"{name}.html").as_uri(), width=375, mobile=True)
    assert tab.value("document.documentElement.scrollWidth") <= 375
    assert tab.errors == []


def test_an_answer_that_did_not_end_has_one_name():
    """The page lists it once, whether it parses or not."""
    script = (ROOT / "lib/report/cases.js").read_text(encoding="utf-8")
    assert f'if (!finished) flaws.push("{KINDS["cut"]}");' in script
