"""Pages in a real browser, opened from disk: nothing is clipped, every link leads somewhere, no script fails."""

import json
from importlib import resources
from pathlib import Path
from urllib.parse import unquote, urlsplit

import nbformat
import pandas as pd
import pytest
from bs4 import BeautifulSoup
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from lib.report import site
from lib.workbook import display
from lib.workbook.artifacts import ROOT

NAME = "05_lambdamart_rrf"
COMMITTED = ROOT / "reports" / "quick"
CASES = ("queries", "flows")  # have a layout of their own, see test_browser.py
PHONE = 704  # pixels: 44rem, below which the style sheet makes cards
SETUP = {"tags": ["setup"]}
# What a page says of itself once it is laid out: first as a reader finds it, then with all folds open.
PROBE = """(async () => {
  const root = document.documentElement, bar = document.querySelector('nav.site').getBoundingClientRect().bottom;
  const clipped = () => [...document.querySelectorAll('div.table')]
    .filter((box) => box.scrollWidth > box.clientWidth + 1)
    .filter((box) => !(box.classList.contains('scrolls') && box.tabIndex === 0)).length;
  const wider = () => root.scrollWidth - root.clientWidth;
  const found = { wider: wider(), clipped: clipped() };
  for (const button of document.querySelectorAll('button.all-folds')) button.click();
  const reached = [...document.querySelectorAll('main [id]')].filter((e) => e.matches('h2, table, tr, figure'))
    .filter((e) => e.checkVisibility() || e.closest('details')).map((e) => {
      location.hash = '#' + e.id; openFor('#' + e.id); return [e.id, e.getBoundingClientRect().top - bar]; });
  dispatchEvent(new Event('scroll'));  // headless, frames may not come
  await new Promise((done) => setTimeout(done, 200));
  const within = { wider: wider(), clipped: clipped() };
  return JSON.stringify({ ...found, opened: within,
    hidden: reached.filter(([, top]) => top < -1).map(([id]) => id),
    current: document.querySelectorAll('nav.toc [aria-current]').length,
    code: [...document.querySelectorAll('details.source, details.setup, details.more')].every((fold) => fold.open),
    scrolling: document.querySelectorAll('div.scrolls').length,
    ids: [...document.querySelectorAll('[id]')].map((e) => e.id),
    links: [...document.querySelectorAll('main a[href]')].map((a) => a.getAttribute('href')) });
})()"""
# Closed code is no part of what is checked, but of what the checker walks through: nine in ten of a page's elements.
CHECK = """(async () => {
  for (const code of document.querySelectorAll('details:not([open]) .highlight')) code.remove();
  const found = await axe.run(document, { resultTypes: ['violations'] });
  return found.violations.map((b) => `${b.id}: ${b.nodes.slice(0, 3).map((n) => n.html.slice(0, 200))}`);
})()"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A report of one page, with a table far wider than any window, and its index."""
    root = tmp_path_factory.mktemp("project")
    wide = pd.DataFrame({f"a column of some width {n}": ["12.3 [1.2, 45.6]", "–"] for n in range(30)})
    caught = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(display, "display", caught.append)
        display.show_table(wide, "A wide table.")
    shown = new_output("display_data", data={"text/html": caught[0].data})
    words = "\n\n".join(["Words of a paragraph that fills the page. " * 12] * 8)
    cells = [
        new_markdown_cell("# A page\n\n**Question.** Why?"),
        new_code_cell("import json", metadata=SETUP),
        *(new_markdown_cell(f"## Part {n}, and more?\n\n{words}") for n in range(3)),
        new_code_cell("show(x)", outputs=[shown]),
        new_markdown_cell(f"## The end\n\n{words}"),
    ]
    notebook = new_notebook(cells=cells)
    notebook.metadata["papermill"] = {"end_time": "2024", "duration": 1.0, "exception": None}
    path = site.executed_path(NAME, "smoke", root)
    path.parent.mkdir(parents=True)
    nbformat.write(notebook, path)
    (root / "reports" / "smoke" / "tables").mkdir(parents=True)
    rows = (
        "lambdamart_rrf,all,all,recall,3,67.2,64.0,70.2,936,81.27\nsemantic,all,all,recall,3,38.4,34.7,42.2,936,23.7\n"
    )
    head = "method,kind,sample,metric,k,value,ci_low,ci_high,n,published\n"
    (root / "reports" / "smoke" / "tables" / "context_retrieval.csv").write_text(head + rows)
    site.build("smoke", root)
    return root / "reports" / "smoke"


@pytest.fixture(scope="session")
def checker() -> str:
    return (resources.files("axe_core_python") / "axe.min.js").read_text(encoding="utf-8")


def probed(tab, page: Path, width: int) -> dict:
    """What a page, under its own policy, says of itself in a window of so many pixels; `problems`: of its script."""
    tab.load(page.as_uri(), width)
    return json.loads(tab.value(PROBE)) | {"problems": tab.errors}


def breaches(tab, page: Path, width: int, checker: str) -> list[str]:
    """What the checker finds on a page as a reader finds it."""
    tab.load(page.as_uri(), width)
    tab.value(f"{checker};0")
    return tab.value(CHECK)


@pytest.mark.slow
@pytest.mark.parametrize("width", [1400, 800, 500])
@pytest.mark.parametrize("name", ["index", NAME])
def test_nothing_is_clipped_or_hidden(folder, tab, name, width):
    told = probed(tab, folder / f"{name}.html", width)
    assert told["problems"] == []
    assert told["wider"] <= 0, "the page itself scrolls sideways"
    assert told["clipped"] == 0, "a table is wider than its box and does not say so"
    assert told["hidden"] == [], "an address under the bar"
    if name == NAME:
        assert told["code"], "the buttons open all code and tables"
        assert told["scrolling"] == (1 if width > PHONE else 0), "on a phone rows are cards"
        assert told["current"] == 1, "the table of contents follows the reader"


@pytest.mark.slow
@pytest.mark.parametrize("width", [1400, 500])
@pytest.mark.parametrize("name", ["index", NAME])
def test_an_accessibility_checker_finds_nothing(folder, tab, checker, name, width):
    assert breaches(tab, folder / f"{name}.html", width, checker) == []


@pytest.mark.slow
@pytest.mark.parametrize("width", [1400, 500])
def test_the_committed_pages_fit_and_lead_where_they_say(tab, checker, width):
    """Every page of the report in the repository: nothing is clipped or hidden under the bar, a checker of
    accessibility finds nothing, no script fails, and every link leads to a place that is there."""
    pages = {path.name: path for path in COMMITTED.glob("*.html") if path.stem not in CASES}
    told = {name: probed(tab, path, width) for name, path in pages.items()}
    if width > PHONE:  # the checker takes five seconds a page: it looks at markup and colours, the same at every width
        told = {name: {**page, "breaches": breaches(tab, pages[name], width, checker)} for name, page in told.items()}
    wrong = {
        name: {key: page[key] for key in ("problems", "breaches", "hidden") if page.get(key)}
        | {key: page[key] for key in ("wider", "clipped") if page[key] > 0}
        | {f"{key} once opened": page["opened"][key] for key in ("wider", "clipped") if page["opened"][key] > 0}
        for name, page in told.items()
    }
    assert {name: page for name, page in wrong.items() if page} == {}
    lost = []
    for name, page in told.items():
        for link in page["links"]:
            target = urlsplit(link)
            file, place = unquote(target.path) or name, unquote(target.fragment)
            known = {unquote(one) for one in told[file]["ids"]} if file in told else {place}
            if not target.scheme and (not (COMMITTED / file).exists() or place not in {"", *known}):
                lost.append(f"{name}: {link}")
    assert lost == []


@pytest.mark.slow
def test_the_pages_own_policy_lets_its_script_run(folder, tab):
    tab.load((folder / f"{NAME}.html").as_uri())
    assert tab.errors == []
    assert tab.value("document.querySelectorAll('button.all-folds:not([hidden])').length") == 2
    assert tab.value("!!document.querySelector('div.table.scrolls[tabindex=\"0\"][role=region]')")


def test_every_link_leads_somewhere(folder):
    pages = {
        path.name: BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser") for path in folder.glob("*.html")
    }
    ids = {name: {element["id"] for element in page.find_all(id=True)} for name, page in pages.items()}
    missing = []
    for name, page in pages.items():
        for link in page.main.find_all("a", href=True):
            target = urlsplit(link["href"])
            file = target.path or name
            known = ids.get(file, {target.fragment})
            if not (folder / unquote(file)).exists() or target.fragment not in {"", *known}:
                missing.append(link["href"])
    unread = {f"{other}.html" for other in site.NOTEBOOKS} | {"run.json"}
    assert [link for link in missing if urlsplit(link).path not in unread] == []


def test_no_page_loads_anything(folder):
    for path in folder.glob("*.html"):
        page = BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")
        policy = page.find("meta", attrs={"http-equiv": "Content-Security-Policy"})["content"]
        assert policy.startswith("default-src 'none'; script-src 'sha256-")
        assert not page.select("link, script[src], iframe, object, embed")
        assert all(image["src"].startswith("data:") for image in page.find_all("img"))


def test_every_committed_figure_has_words():
    """A figure that a cell leaves open is shown by the kernel, too, without words."""
    for path in COMMITTED.glob("*.html"):
        page = BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")
        pictures = page.main.select("figure img")
        assert [picture["src"][-80:] for picture in pictures if len(picture["alt"]) < 30] == [], path.name


def test_the_page_can_be_walked_by_keyboard(folder):
    page = BeautifulSoup((folder / f"{NAME}.html").read_text(encoding="utf-8"), "html.parser")
    assert page.body.find("a")["href"] == "#main"
    assert page.find(id="main").name == "main"
    assert [link["href"] for link in page.select("nav.pager a")] == [
        "04_finetuned_search.html",
        "06_tool_retrieval.html",
    ]
    (setup,) = page.select("details.setup")
    assert setup.select_one("details.source")
    assert len(page.select("details.source")) == 2
