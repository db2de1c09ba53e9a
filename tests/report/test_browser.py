import base64
import hashlib
import json
import re
from types import SimpleNamespace

import nbformat
import pandas as pd
import pytest
from bs4 import BeautifulSoup
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from lib.evaluation.ranking import recall_at_k
from lib.report import browser, shell, site
from lib.report.flow_cases import changed_lines, judge
from lib.workbook import display
from lib.workbook.artifacts import ROOT, ArtifactError, Workbook
from lib.workbook.cases import FILTERS, case_address
from lib.workbook.parameters.base import Parameters
from lib.workbook.parameters.dsl_ablation import DSLAblation
from lib.workbook.profiles import NOTEBOOKS
from lib.workflows.ablation_grid import UNSEEN_FINETUNED, unseen_name
from lib.workflows.catalogue import Catalogue
from lib.workflows.errors import KINDS

EVIL = '</script><script>alert(1)</script> "it\'s" <img src=x onerror=alert(2)> & é'
DONE = dict.fromkeys(NOTEBOOKS, "ok")
MAIL, POST = "shared_office365.SendEmailV2", "shared_teams.PostUserNotification"
GOLD = 'triggerOutputs = await shared_github.IssueOpened({"repositoryName": "docs"});\n' + (
    f"""{POST}({{"body/messageBody": triggerOutputs?['body']?['title']}});"""
)


def assistant_frames():
    """Six evaluation queries of two kinds and one training query; items are i0 to i29."""
    names = [f"p{number}-q0" for number in range(7)]
    splits = ["evaluation"] * 6 + ["training"]
    queries = pd.DataFrame({"query": names, "persona": "p", "split": splits, "place": "home", "weekday": 0})
    queries["text"] = [f"query {number}" for number in range(6)] + [EVIL]
    queries.loc[0, "text"] = "Play my <usual>"
    queries["time"] = pd.Timestamp("2024-03-04 08:50")
    kinds = ["habit", "meaning"] * 3 + ["habit"]
    gold = pd.DataFrame({"query": names, "split": splits, "kind": kinds, "need": "guitar_lesson"})
    gold["relevant"] = [["i1", "i5"]] * 6 + [["i2"]]
    gold["apis"], gold["apps"] = [["send_mail"]] * 7, [["mail", "notes"]] * 7
    gold["plan"] = 'send_mail(to="a")'
    items = pd.DataFrame({"item": [f"i{number}" for number in range(30)], "persona": "p", "app": "mail"})
    items["title"] = [f"title {number}" for number in range(30)]
    items.loc[7, "title"] = EVIL
    items["text"] = items["title"] + ". and more"
    order = {"bm25t": range(30), "lambdamart": [5, 1, *range(6, 30)], "random": range(30)}
    rankings = pd.DataFrame(
        [
            (method, query, f"i{item}", rank, 0.0)
            for method, ranked in order.items()
            for query in names[:6]
            for rank, item in enumerate(ranked, 1)
        ],
        columns=["method", "query", "item", "rank", "score"],
    )
    plans = pd.DataFrame({"query": names[:4], "setting": "rag", "text": ["send_mail(to='a')", EVIL, "", "x("]})
    plans["ast_accuracy"] = plans["exact_match"] = [100.0, 0.0, 0.0, 0.0]
    plans["hallucination"] = [0.0, 100.0, 0.0, 0.0]
    plans["failure"] = ["", "wrong_api", "unparsed", "unparsed"]
    plans["why"] = ["", EVIL, None, "no call"]
    cot = pd.DataFrame({"query": names[:2], "split": "evaluation", "writer": "cot", "text": [EVIL, "look in Mail"]})
    tools = pd.DataFrame({"setting": "query_only", "query": names[0], "item": ["open_note", "send_mail"]})
    first = {"queries": queries, "gold": gold, "items": items}
    return first, {"tool_rankings": tools.assign(rank=[1, 2]), "plans": plans, "cot": cot}, rankings


def flow_frames():
    """A flow answered under four conditions, one nobody was asked about, and a training pair."""
    flows = pd.DataFrame({"pair": ["test-0", "test-1", "training-0"], "split": ["test", "test_same", "training"]})
    flows["request"], flows["dsl"] = ["When an issue opens, tell me", EVIL, "old"], GOLD
    flows["apis"] = [["shared_github.IssueOpened", POST]] * 3
    other = GOLD.replace("'title'", "'body'")
    texts = {"right": GOLD + "\n", "argument": other, "copied": other, "broken": f"await {EVIL}"}
    answers = pd.DataFrame({"condition": list(texts), "unit": "test-0", "text": list(texts.values())})
    answers["finished"], answers["parsed"] = True, [True, True, True, False]
    answers["valid"], answers["similarity"] = answers["parsed"], [1.0, 1.0, 1.0, 0.0]
    answers["half"] = ["a", "a", "a", None]
    answers["executed"] = [True, False, False, None]
    answers["error"] = [None, None, None, "line 1, column 7: no call"]
    answers["made_up_names"] = answers["made_up_parameters"] = [[]] * 4
    return flows, answers


@pytest.fixture(scope="module")
def catalogue():
    whole = Catalogue.load(ROOT / "data" / "catalogue")
    kept = {name: api for name, api in whole.apis.items() if name in (MAIL, POST, "shared_github.IssueOpened")}
    assert len(kept) == 3
    return Catalogue(connectors=whole.connectors, apis=kept)


@pytest.fixture
def project(tmp_path, catalogue):
    """A project with the artifacts of a run of profile smoke."""

    def book(notebook):
        return Workbook(notebook, Parameters(profile="smoke"), tmp_path)

    first, later, rankings = assistant_frames()
    flows, answers = flow_frames()
    for name, frame in (first | {"flows": flows}).items():
        book("01_data_gen").write(name, frame)
    book("01_data_gen").write_lines("catalogue", catalogue.to_lines())
    book("02_context_baselines").write("baseline_rankings", rankings)
    for name, frame in later.items():
        book("07_planner").write(name, frame)
    book("09_dsl_ablation").write("ablation_scores", answers)
    return tmp_path


def build(root, status=DONE):
    made = browser.write_pages("smoke", status, shell.style_sheet(), shell.navigation("cases"), root)
    return {name: path.read_text() for name, path in made.items()}


def cases_of(page):
    data = browser.unpacked(page)
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
    book = SimpleNamespace(parameters_of=lambda *_: DSLAblation(profile="smoke"))
    names = [unseen_name(0, "sfd"), unseen_name(1, "fd_sfd"), UNSEEN_FINETUNED]
    titles = browser.condition_titles(book, [*names, "copy, TST", "copy_tst"])
    assert [titles[name] for name in names] == [
        "held-out APIs: no examples of the new APIs, SFD",
        "held-out APIs: 1 example of each added, FD + SFD",
        "held-out APIs: fine-tuned model",
    ]
    assert titles["copy, TST"] == "copy, TST (notebook 08)"
    assert titles["copy_tst"] == "nearest few-shot copied, TST"

    def missing(*_):
        raise ArtifactError("not there")

    assert browser.condition_titles(SimpleNamespace(parameters_of=missing), names) == {}


def test_the_page_of_flows_says_how_many_were_asked(project):
    about = BeautifulSoup(build(project)["flows"], "html.parser").find(id="lead").get_text()
    assert "the workflows' test requests (1 of 2 have a flow that a model wrote or copied). Filter" in about
    about = BeautifulSoup(build(project)["queries"], "html.parser").find(id="lead").get_text()
    assert "evaluation queries. Filter" in about


@pytest.mark.parametrize("made_up", [[], ["own.Do"]])
def test_valid_is_what_the_tables_say(catalogue, made_up):
    """The scores' own column counts a flow with made-up parameters."""
    row = {"similarity": 1.0, "parsed": True, "valid": True, "made_up_names": [], "made_up_parameters": made_up}
    assert judge(row, GOLD, True, GOLD, catalogue)[3] == (not made_up)


@pytest.mark.parametrize("text", [GOLD, "", "x", GOLD.replace("title", "body"), f"a\n{GOLD}\nb", GOLD.split("\n")[0]])
def test_a_flow_can_be_rebuilt_from_its_difference(text):
    assert rebuilt(GOLD, changed_lines(GOLD, text)) == text


def test_a_large_page_keeps_the_first_flows_of_each_condition(project, monkeypatch, catalogue):
    flows, answers = flow_frames()
    more = [answers.assign(unit="test-1", text="x = await a.b();"), answers]
    book = Workbook("09_dsl_ablation", Parameters(profile="smoke"), project)
    book.write("ablation_scores", pd.concat(more))
    whole = browser.unpacked(build(project)["flows"])
    assert (whole["kept"], whole["total"]) == (8, 8)
    flows["split"] = flows["split"].replace("test_same", "test")
    Workbook("01_data_gen", Parameters(profile="smoke"), project).write("flows", flows)
    monkeypatch.setattr(browser, "LIMIT", 0)
    monkeypatch.setattr(browser, "KEPT", (None, 1))
    less, cases = cases_of(build(project)["flows"])
    assert (less["kept"], less["total"]) == (4, 8)
    assert len(cases["test-1"]["by"]) == 4, "the first that were asked"
    assert len(cases) == 2, "all requests stay"


def test_the_same_artifacts_give_the_same_bytes(project):
    assert build(project) == build(project)


# ---------------------------------------------------------------- what is not


def test_what_a_failed_notebook_wrote_is_left_out(project):
    page = build(project, DONE | {"07_planner": "failed", "09_dsl_ablation": "outdated"})
    assert "flows" not in page, "no flow is left to show"
    assert all(not case["plans"] for case in browser.unpacked(page["queries"])["cases"])


def test_a_page_without_its_artifacts_goes(project):
    build(project)
    (project / "data" / "generated" / "smoke" / "gold.parquet").write_bytes(b"damaged")
    assert "queries" not in build(project)
    folder = project / "reports" / "smoke"
    assert not (folder / "queries.html").exists()
    assert "flows.html" in browser.pages_html(folder)
    assert "queries.html" not in browser.pages_html(folder)


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
        assert json.dumps(EVIL)[1:-1] in json.dumps(browser.unpacked(page)), "but it is there, as text"


def test_a_lone_surrogate_can_be_packed():
    data = {"text": "half a \ud800"}
    assert browser.unpacked(f'<script type="text/plain" id="data">{browser.packed(data)}</script>') == data


# ---------------------------------------------------------------- addresses


def test_an_address_names_a_view():
    assert case_address("queries", kind="habit", setting="rag", right="no") == (
        "queries.html#kind=habit&setting=rag&right=no"
    )
    assert case_address("flows", condition="fine-tuned, 67,000 pairs", valid=None) == (
        "flows.html#condition=fine-tuned%2C+67%2C000+pairs"
    )
    assert case_address("flows") == "flows.html"


@pytest.mark.parametrize(("page", "name"), [("querys", "kind"), ("queries", "kinds"), ("flows", "kind")])
def test_an_address_of_nothing_is_an_error(page, name):
    with pytest.raises(ValueError, match=name if page != "querys" else page):
        case_address(page, **{name: "x"})


def test_the_pages_have_exactly_the_filters_that_are_documented(project):
    for name, page in build(project).items():
        facets = [facet["name"] for facet in browser.unpacked(page)["facets"]]
        assert [*facets, "q", "case"] == list(FILTERS[name])
        for said in FILTERS[name].values():
            assert said.split(":")[0] in BeautifulSoup(page, "html.parser").get_text()


def test_a_number_is_linked_where_its_cases_are(project, capsys):
    build(project)
    folder = project / "reports" / "smoke"
    address = case_address("queries", kind="habit", method="bm25t", k=3)
    cell = f"<td class='number' data-cases='{address.replace('&', '&amp;')}'>14.0</td>"
    linked = BeautifulSoup(browser.link_cases(cell, folder), "html.parser").td
    assert linked.a["href"] == address
    assert linked.get_text() == "14.0"
    assert "data-cases" not in linked.attrs
    for other in ("method=rrf_text", "kind=habit&amp;mood=x", "case=none"):
        cell = f"<td class='number' data-cases='queries.html#{other}'>1</td>"
        assert browser.link_cases(cell, folder) == "<td class='number'>1</td>", other
    hostile = "<td class='number' data-cases='javascript:alert(1)'>1</td>"
    assert browser.link_cases(hostile, folder) == hostile
    (folder / "queries.html").unlink()
    assert "<a" not in browser.link_cases(cell, folder)


def test_tables_carry_addresses_into_the_report(project, monkeypatch):
    shown = []
    monkeypatch.setattr(display, "display", lambda page: shown.append(page.data))
    table = pd.DataFrame({"method": ["BM25T", "random"], "ours": ["14.0 [12.0, 16.0]", "9.6"]})
    address = case_address("queries", method="bm25t", k=3)
    display.show(display.Table(table, "caption", cases={"ours": [address, ""]}))
    for wrong in ({"theirs": [address, ""]}, {"ours": [address]}):
        with pytest.raises(ValueError, match="cases"):
            display.show(display.Table(table, "caption", cases=wrong))
    build(project)
    output = new_output("display_data", data={"text/html": shown[0]})
    cells = [new_markdown_cell("# A title"), new_code_cell("x", outputs=[output])]
    executed = new_notebook(cells=cells)
    executed.metadata["papermill"] = {"end_time": "2024", "duration": 1.0, "exception": None}
    path = site.executed_path("02_context_baselines", "smoke", project)
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(executed, path)
    page = site.render_page("02_context_baselines", "smoke", project).read_text()
    (link,) = BeautifulSoup(page, "html.parser").find_all("a", class_="cases")
    assert (link["href"], link.get_text()) == (address, "14.0 [12.0, 16.0]")


def test_the_committed_pages_of_cases_are_light():
    for folder in (ROOT / "reports").iterdir():
        sizes = [(folder / f"{name}.html").stat().st_size for name in FILTERS if (folder / f"{name}.html").exists()]
        assert sum(sizes) <= 8e6, folder


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
    assert "similarity 1.00, valid 100.0%, executed right 0.0%" in tab.value(summary)
    said = tab.value("[...document.querySelectorAll('#detail section p')].map((one) => one.textContent)")
    assert [text.split(" · ")[-1] for text in said].count("executed right") == 1
    assert "'title'" in tab.value("document.querySelector('#detail del').textContent")
    assert tab.value("document.querySelector('#detail ins mark').textContent") == "body"
    tab.open(f"{page}#error=syntax&condition=broken")
    assert tab.listed() == 1
    assert "executed" not in tab.value(summary), "it was not measured"
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
    script = (ROOT / "lib/report/templates/report/browser.js").read_text(encoding="utf-8")
    assert f'if (!finished) flaws.push("{KINDS["cut"]}");' in script
