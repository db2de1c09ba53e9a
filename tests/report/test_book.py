"""The book as a reader opens it: from disk, in light and dark, wide and narrow, without a network."""

import json
import re
from importlib import resources
from urllib.parse import unquote, urlsplit

import matplotlib.pyplot as plt
import nbformat
import pandas as pd
import pytest
from bs4 import BeautifulSoup
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from lib.report import book, record
from lib.workbook import display
from lib.workbook.artifacts import ROOT, ArtifactError, Workbook
from lib.workbook.parameters import Parameters
from tests.report.artifacts import EVIL, write_artifacts

PAGE, FAILED, NOT_RUN = "02_context_baselines", "03_cot_augmentation", "04_finetuned_search"
PAPERMILL = {"end_time": "2024", "duration": 1.0, "exception": None}
ALT = "A line from 1 to 2, drawn for a test."
pytestmark = pytest.mark.slow  # Sphinx starts, and a browser


def outputs_of(monkeypatch, folder):
    """Outputs as notebooks make them: a wide table, a sentence and a figure."""
    caught, made = [], []
    monkeypatch.setattr(display, "display", lambda value, metadata=None: caught.append((value, metadata or {})))
    wide = pd.DataFrame({f"a column of some width {n}": ["12.3 [1.2, 45.6]", EVIL] for n in range(30)})
    display.show_table(wide, "A wide table with `code`.")
    display.say("A sentence with *emphasis* about <b>data</b>.")
    display.use_style()
    figure, axis = plt.subplots()
    axis.plot([1, 2])
    display.show_figure(Workbook(PAGE, Parameters(profile="smoke"), folder), "line", figure, "A title", ALT, "lines")
    for value, metadata in caught:
        bundle = value._repr_mimebundle_() if hasattr(value, "_repr_mimebundle_") else {"text/html": value.data}
        data = bundle[0] if isinstance(bundle, tuple) else bundle
        made.append(new_output("display_data", data=data, metadata=metadata))
    return made


def write_notebooks(root, outputs):
    """A page of everything, one that failed, one that was not run, and the front page."""
    warned = new_output("stream", name="stderr", text=f"UserWarning in {root}/lib/x.py")
    printed = new_output("stream", name="stdout", text=f"Read {root}/data/x.csv, <b>plainly</b>")
    widget = new_output("display_data", data={"application/vnd.jupyter.widget-view+json": {}, "text/plain": "a bar"})
    written = new_output("display_data", data={"text/markdown": f"A *model* wrote {EVIL} [x](http://e.example)"})
    table, said, picture = outputs
    words = "\n\n".join(["Words about guitars that fill the page. " * 12] * 3)
    cells = [
        new_markdown_cell("# A page of everything\n\n**Question.** Why? See [data](../data/README.md#top)."),
        new_code_cell("profile = 'smoke'", metadata={"tags": ["injected-parameters"]}),
        new_code_cell("load()", outputs=[warned, widget]),
        new_markdown_cell(f"## Tables\n\n{words}"),
        new_code_cell("show(wide)", outputs=[table, printed, said, written]),
        new_markdown_cell(f"## Figures\n\n{words}\n\n### More\n\nSee [the front page](index.ipynb)."),
        new_code_cell("draw(); draw()", outputs=[picture, said, picture]),
    ]
    broken = new_output("error", ename="ValueError", evalue="x", traceback=[f"ValueError in {root}/lib/x.py: <i>x</i>"])
    front = (
        "[Everything](02_context_baselines.ipynb#figures), [queries](queries.md), [flows](flows.md), [lost](13.ipynb)."
    )
    pages = {
        PAGE: cells,
        FAILED: [new_markdown_cell("# It fails"), new_code_cell("1 / 0", outputs=[broken])],
        "index": [new_markdown_cell(f"# Two papers\n\n{front}"), new_code_cell("x = 1")],
    }
    for name, own in pages.items():
        path = record.executed_path(name, "smoke", root)
        path.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(new_notebook(cells=own, metadata={"papermill": PAPERMILL}), path)
    (root / "notebooks").mkdir()
    nbformat.write(new_notebook(cells=[new_markdown_cell("# Never run")]), root / "notebooks" / f"{NOT_RUN}.ipynb")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A book of four notebooks and the pages of cases, in a folder whose name would break what does not quote it; it
    has one dead link, which is an error that names it, and the book is there."""
    root = tmp_path_factory.mktemp("project") / 'it\'s a "test" &'
    root.mkdir()
    write_artifacts(root)
    with pytest.MonkeyPatch.context() as patch:
        write_notebooks(root, outputs_of(patch, root))
        for module in (book, record):
            patch.setattr(module, "NOTEBOOKS", [PAGE, FAILED, NOT_RUN, "index"])
        run = record.run_record("smoke", root)  # of a run that also made what the pages of cases show
        run["status"] = dict.fromkeys(["01_data_gen", "07_planner", "09_dsl_ablation"], "ok") | run["status"]
        patch.setattr(book, "run_record", lambda *_: run)
        with pytest.raises(ArtifactError, match=r"13\.ipynb") as caught:
            book.build("smoke", root)
    assert str(caught.value).count("WARNING") == 1
    return root / "reports" / "smoke"


def parsed(path):
    return BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")


@pytest.fixture(scope="module")
def page(folder):
    return parsed(folder / f"{PAGE}.html").article


def test_every_notebook_is_a_page_and_in_the_navigation_as_are_the_cases(folder):
    links = [link["href"] for link in parsed(folder / f"{PAGE}.html").select(".bd-sidebar-primary nav a[href]")]
    names = ["index", PAGE, FAILED, NOT_RUN, "queries", "flows"]
    assert [link for link in links if link != "#"] == [f"{name}.html" for name in names if name != PAGE]
    assert all((folder / f"{name}.html").exists() for name in names)
    for name in ("queries", "flows"):
        assert parsed(folder / f"{name}.html").find(id="filters"), "the browser, in the place of its stub"
    assert json.loads((folder / "run.json").read_text())["status"][FAILED] == "failed"


def test_warnings_widgets_scripts_and_cells_of_papermill_are_gone(page):
    text = page.get_text()
    for gone in ("UserWarning", "a bar", "profile = 'smoke'"):
        assert gone not in text
    assert "Read data/x.csv, <b>plainly</b>" in text


def test_nothing_that_people_or_models_wrote_is_live(page):
    assert not page.find_all(["script", "iframe", "object", "form", "i"])
    assert {picture["src"].split("/")[0] for picture in page.find_all("img")} == {"_images"}
    assert not [link for link in page.find_all("a", href=True) if "e.example" in link["href"]]
    assert EVIL in page.get_text(), "but it is there, as text"


def test_a_figure_has_its_words_and_a_cell_one_figure(page):
    pictures = page.select(".cell_output img")
    assert [picture["alt"] for picture in pictures] == [f"{ALT} Drawn from tables/lines.csv."] * 2
    assert len({id(picture.find_parent(class_="cell")) for picture in pictures}) == 2


def test_what_became_of_a_notebook_stands_on_its_page(folder):
    failed, missing = (parsed(folder / f"{name}.html").select_one(".banner").get_text() for name in (FAILED, NOT_RUN))
    assert failed.startswith("This notebook failed")
    assert "ValueError: x" in failed
    assert missing.startswith("This notebook was not run")
    assert "ValueError in lib/x.py: <i>x</i>" in parsed(folder / f"{FAILED}.html").get_text()


def test_every_link_leads_somewhere(folder):
    pages = {path.name: parsed(path) for path in folder.glob("*.html")}
    ids = {name: {element["id"] for element in one.find_all(id=True)} for name, one in pages.items()}
    lost = []
    for name, one in pages.items():
        for link in one.find_all("a", href=True):
            target = urlsplit(link["href"])
            file = unquote(target.path) or name
            if target.scheme or file.startswith("../../data/"):
                continue
            known = {"", *ids.get(file, ()), target.fragment if file in ("queries.html", "flows.html") else ""}
            if not (folder / file).exists() or target.fragment not in known:
                lost.append(f"{name}: {link['href']}")
    assert lost == ["index.html: #13.ipynb"], "as the error says"
    assert pages[f"{PAGE}.html"].find("a", href="../../data/README.md#top")


# Whatever is nearly white behind something inside the article, where the page is dark.
SLABS = """[...document.querySelectorAll('article, article *')].filter((e) => {
  const [r, g, b, a] = getComputedStyle(e).backgroundColor.match(/[\\d.]+/g).map(Number);
  return (a === undefined || a > 0.5) && (r + g + b) > 450 && e.getClientRects().length;
}).map((e) => e.outerHTML.slice(0, 99))"""
# Does both, and writes what it found into the page.
CHECK = """<style>* { transition: none !important }</style><pre id="found"></pre>
<script>%s</script><script>addEventListener('load', () => setTimeout(async () => {
  const found = await axe.run(document, { resultTypes: ['violations'] });
  const told = found.violations.map((b) => `${b.id}: ${b.nodes.slice(0, 3).map((n) => n.html.slice(0, 200))}`);
  document.getElementById('found').textContent = JSON.stringify([told, %s]);
}, 2000));</script></body>"""


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_an_accessibility_checker_finds_nothing_and_dark_pages_have_no_white_slab(folder, shown, mode):
    checker = (resources.files("axe_core_python") / "axe.min.js").read_text(encoding="utf-8")
    for name in (PAGE, FAILED, "queries") if mode == "light" else (PAGE, "flows"):
        text = (folder / f"{name}.html").read_text(encoding="utf-8")
        text = re.sub("<meta http-equiv=.Content-Security-Policy.[^>]*>", "", text)
        (folder / "checked.html").write_text(text.replace("</body>", CHECK % (checker, SLABS)), encoding="utf-8")
        page = shown((folder / "checked.html").as_uri(), mode == "dark")
        assert page.html["data-theme"] == mode
        violations, slabs = json.loads(page.find(id="found").text)
        assert violations == [], name
        assert mode == "light" or slabs == [], name
    (folder / "checked.html").unlink()


def test_the_committed_report_is_light():
    for folder in (ROOT / "reports").iterdir():
        if folder.is_dir():
            assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) <= 20e6, folder
