import json

import nbformat
import pytest
from bs4 import BeautifulSoup
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from lib.assistant.context_scores import ORDER
from lib.report import browser, index, result_tables, run, shell, site
from lib.workbook.artifacts import ROOT

NAME = "01_data_gen"
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII="


@pytest.fixture
def page(tmp_path):
    """Render a notebook of the given cells and return its page as (soup, text)."""

    def render(cells, papermill=None):
        notebook = new_notebook(cells=[new_markdown_cell("# A title & more\n\ntext"), *cells])
        notebook.metadata["papermill"] = papermill or {"end_time": "2024", "duration": 12.3, "exception": None}
        path = site.executed_path(NAME, "smoke", tmp_path)
        path.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(notebook, path)
        text = site.render_page(NAME, "smoke", tmp_path).read_text()
        return BeautifulSoup(text, "html.parser"), text

    return render


def test_title_contents_and_navigation(page):
    soup, _ = page([new_markdown_cell("## First part\n\nx"), new_markdown_cell("## The paper's second\n\ny")])
    assert soup.title.string == "A title & more"
    contents = soup.find("nav", class_="toc").find_all("a")
    assert [link.get_text() for link in contents] == ["First part", "The paper's second"]
    for link in contents:
        assert soup.find(id=link["href"].removeprefix("#"))
    assert soup.find("a", attrs={"aria-current": "page"})["href"] == f"{NAME}.html"


def test_a_page_opens_with_what_was_found(page, tmp_path):
    folder = tmp_path / "data" / "generated" / "smoke"
    folder.mkdir(parents=True)
    found = [{"text": "Half is **found** <img src=x onerror=alert(1)>.", "figure": "share", "alt": 'a "line"'}]
    found.append({"text": "And more.", "figure": "share", "alt": "again"})
    (folder / f"{NAME}.highlights.json").write_text(json.dumps(found))
    (tmp_path / "reports" / "smoke" / "figures").mkdir(parents=True)
    (tmp_path / "reports" / "smoke" / "figures" / "share.png").write_bytes(b"png")
    soup, _ = page([new_markdown_cell("## First part\n\nx")])
    finding = soup.h1.find_next_sibling()
    assert finding["class"] == ["finding"]
    assert finding.strong.text == "found"
    assert [picture["alt"] for picture in finding.find_all("img")] == ['a "line"']
    assert "onerror" in finding.text
    assert finding.find_next_sibling()["class"] == ["toc"]


def test_a_failed_page_opens_with_no_finding(page, tmp_path):
    folder = tmp_path / "data" / "generated" / "smoke"
    folder.mkdir(parents=True)
    (folder / f"{NAME}.highlights.json").write_text(json.dumps([{"text": "old", "figure": "", "alt": ""}]))
    soup, _ = page([], papermill={"end_time": "2024", "exception": True})
    assert not soup.find(class_="finding")


def test_code_is_folded_away_but_there(page):
    soup, _ = page([new_code_cell("answer = 40 + 2")])
    folded = soup.find("details", class_="source")
    assert not folded.has_attr("open")
    assert "answer" in folded.get_text()


def test_images_keep_their_alt_text_escaped(page):
    metadata = {"image/png": {"alt": 'rises "fast" & <far>'}}
    output = new_output("display_data", data={"image/png": PIXEL}, metadata=metadata)
    soup, _ = page([new_code_cell("x", outputs=[output])])
    assert soup.img["alt"] == 'rises "fast" & <far>'


def test_model_output_on_stdout_is_escaped(page):
    output = new_output("stream", name="stdout", text="<script>alert(1)</script>")
    soup, _ = page([new_code_cell("x", outputs=[output])])
    assert not soup.main.find_all("script")
    assert "<script>alert(1)</script>" in soup.get_text()


def test_no_javascript_survives(page):
    output = new_output("display_data", data={"application/javascript": "alert(1)"})
    widget = new_output("display_data", data={"application/vnd.jupyter.widget-view+json": {"model_id": "x"}})
    soup, text = page([new_code_cell("x", outputs=[output, widget])])
    assert [script.string for script in soup.find_all("script")] == [shell.script()]
    assert "alert(1)" not in text


def test_a_failed_notebook_is_marked(page):
    error = new_output("error", ename="ValueError", evalue="bad <input>", traceback=["ValueError: bad <input>"])
    soup, _ = page([new_code_cell("x", outputs=[error])], {"end_time": "2024", "duration": 1.0, "exception": True})
    assert soup.find(class_="banner").get_text() == "This notebook failed: ValueError: bad <input>"
    assert soup.find(class_="failed")
    assert not soup.find("input")


def test_a_notebook_that_did_not_finish_counts_as_failed(page, tmp_path):
    page([new_code_cell("x")], {"end_time": None, "duration": None, "exception": None})
    assert site.read_status(NAME, "smoke", tmp_path)["status"] == "failed"


@pytest.mark.parametrize("content", [None, "", "{", "[]"])
def test_a_missing_or_broken_executed_notebook_is_missing(tmp_path, content):
    if content is not None:
        path = site.executed_path(NAME, "smoke", tmp_path)
        path.parent.mkdir(parents=True)
        path.write_text(content)
    assert site.read_status(NAME, "smoke", tmp_path)["status"] == "missing"
    assert site.render_page(NAME, "smoke", tmp_path) is None


def test_the_index_shows_highlights_status_and_seconds(page, tmp_path):
    page([])
    folder = tmp_path / "data" / "generated" / "smoke"
    (folder / f"{NAME}.highlights.json").write_text(json.dumps([{"text": "**42%** found", "figure": "", "alt": ""}]))
    record = site.build("smoke", tmp_path)
    soup = BeautifulSoup((tmp_path / "reports" / "smoke" / "index.html").read_text(), "html.parser")
    assert soup.find("strong").get_text() == "42%"
    assert record["seconds"][NAME] == 12.3
    assert record["status"][NAME] == "ok"
    assert record["status"]["02_context_baselines"] == "missing"
    assert len(soup.find_all("h1")) == 1
    assert json.loads((tmp_path / "reports" / "smoke" / "run.json").read_text()) == record


def test_the_index_shows_quality_against_cost_where_the_report_has_it(tmp_path):
    folder, reports = tmp_path / "data" / "generated" / "smoke", tmp_path / "reports" / "smoke" / "figures"
    folder.mkdir(parents=True)
    reports.mkdir(parents=True)
    found = [
        {"text": "first", "figure": "other", "alt": "of another figure"},
        {"text": "cheap", "figure": "workflow_cost", "alt": 'a "front" & more'},
        {"text": "not drawn", "figure": "assistant_cost", "alt": "no picture"},
    ]
    (folder / "12_beyond.highlights.json").write_text(json.dumps(found))
    (reports / "workflow_cost.png").write_bytes(b"png")
    text = index.costs_html({"12_beyond": "ok"}, "smoke", tmp_path)
    soup = BeautifulSoup(text, "html.parser")
    assert [picture["alt"] for picture in soup.find_all("img")] == ['a "front" & more']
    assert [link["href"] for link in soup.find_all("a")] == ["12_beyond.html#figure-workflow_cost"]
    assert [heading.text for heading in soup.find_all("h3")] == ["The workflow paper"]
    assert index.costs_html({"12_beyond": "failed"}, "smoke", tmp_path) == ""
    assert index.costs_html({}, "smoke", tmp_path) == ""
    (reports / "workflow_cost.png").unlink()
    assert index.costs_html({"12_beyond": "ok"}, "smoke", tmp_path) == ""


def test_the_index_names_device_and_profile_and_links_the_other_report(page, tmp_path):
    page([])
    record = site.build("smoke", tmp_path)
    folder = tmp_path / "reports"
    said = BeautifulSoup((folder / "smoke" / "index.html").read_text(), "html.parser").select_one("p.run")
    assert " ".join(said.get_text().split()) == f"Profile smoke, computed on {record['device']}."
    assert not said.find("a")
    for name in ("full", "quick"):
        (folder / name).mkdir()
        (folder / name / "index.html").write_text("there")
    site.build("smoke", tmp_path)
    said = BeautifulSoup((folder / "smoke" / "index.html").read_text(), "html.parser").select_one("p.run")
    assert [link["href"] for link in said.find_all("a")] == ["../full/index.html", "../quick/index.html"]
    assert [name for name in ("full", "quick") if f"../{name}/" in index.other_reports("quick", tmp_path)] == ["full"]


def test_cold_seconds_stand_beside_the_last_ones(page, tmp_path):
    page([])
    data = tmp_path / "data" / "generated" / "smoke"
    (data / f"{NAME}.cold.json").write_text('{"seconds": 340.5}')
    record = site.build("smoke", tmp_path)
    assert (record["seconds"][NAME], record["cold_seconds"][NAME]) == (12.3, 340.5)
    assert record["cold_seconds"]["02_context_baselines"] is None
    index = BeautifulSoup((tmp_path / "reports" / "smoke" / "index.html").read_text(), "html.parser")
    row = next(row for row in index.select("#run + div tr") if row.a and row.a["href"] == f"{NAME}.html")
    assert [cell.get_text() for cell in row.find_all("td")][2:4] == ["12", "340"]


def test_peak_memory_stands_beside_the_seconds(page, tmp_path, capsys):
    soup, _ = page([])
    assert "GiB" not in soup.footer.get_text(), "papermill alone notes none"
    path = site.executed_path(NAME, "smoke", tmp_path)
    executed = nbformat.read(path, as_version=4)
    executed.metadata["workbook"] = {"peak_mib": 4403.2}
    nbformat.write(executed, path)
    record = site.build("smoke", tmp_path)
    assert (record["peak_mib"][NAME], record["peak_mib"]["02_context_baselines"]) == (4403.2, None)
    folder = tmp_path / "reports" / "smoke"
    assert "12 s · 4.3 GiB" in (folder / f"{NAME}.html").read_text()
    rows = BeautifulSoup((folder / "index.html").read_text(), "html.parser").select("#run + div tbody tr")
    assert [[cell.get_text() for cell in row.find_all("td")][4] for row in rows[:2]] == ["4.3", "–"]
    run.report(record | {"commit": None})
    assert "ok          12 s   4.3 GiB\n" in capsys.readouterr().out


def test_a_record_from_before_memory_was_measured_is_shown(page, tmp_path, capsys):
    page([])
    record = site.build("smoke", tmp_path)
    del record["peak_mib"]
    table = BeautifulSoup(index.run_html(record), "html.parser")
    heads = [head.get_text() for head in table.select("th")]
    assert heads == ["Notebook", "Status", "Seconds", "From nothing", "Memory, GiB", "Error"]
    assert {row.find_all("td")[4].get_text() for row in table.select("tbody tr")} == {"–"}
    run.report(record)
    assert "12 s" in capsys.readouterr().out


@pytest.mark.parametrize(("commit", "noted"), [("abc+", True), ("abc", False), (None, False)])
def test_a_commit_that_is_not_clean_is_said(capsys, commit, noted):
    record = {"profile": "quick", "status": {}, "seconds": {}, "errors": {}, "spending": {}, "commit": commit}
    run.report(record)
    assert ("note: files of the project differ from the commit" in capsys.readouterr().out) == noted


def test_the_committed_report_is_whole():
    """What a visitor of the repository reads first: every notebook ok, at the published sizes, light enough."""
    folder = ROOT / "reports" / "quick"
    record = json.loads((folder / "run.json").read_text())
    assert set(record["status"].values()) == {"ok"}
    assert (folder / "index.html").exists()
    assert sum(path.stat().st_size for path in (ROOT / "reports" / "quick").rglob("*") if path.is_file()) < 15e6


def test_the_readme_repeats_the_committed_report():
    """Its tables are those that `python -m lib.report.result_tables` writes."""
    readme = (ROOT / "reports" / "README.md").read_text(encoding="utf-8")
    assert result_tables.written_anew(readme, ROOT / "reports" / "quick" / "tables") == readme
    assert [name for _, name, _ in result_tables.TABLE.findall(readme)] == list(result_tables.TABLES)
    assert set(result_tables.CONTEXT) == set(ORDER), "every method, no references"


def test_the_readme_says_how_many_flows_pages_08_and_09_share():
    """Why the fine-tuned model has other numbers on each."""
    data = browser.unpacked((ROOT / "reports" / "quick" / "flows.html").read_text(encoding="utf-8"))
    place = {name: str(number) for number, (name, _) in enumerate(data["conditions"])}
    asked = [
        {case["id"] for case in data["cases"] if case["set"] == "test" and place[name] in case["by"]}
        for name in ("fine-tuned, 67,000 pairs", "no_shots_finetuned")
    ]
    readme = " ".join((ROOT / "reports" / "README.md").read_text(encoding="utf-8").split())
    eight, nine = map(len, asked)
    assert f"Page 08 has the fine-tuned model on {eight} flows in new wordings" in readme
    assert f"They are not these {nine} ({len(asked[0] & asked[1])} are in both)" in readme


def test_a_page_made_from_other_artifacts_is_outdated(page, tmp_path):
    page([new_code_cell("x")])
    data = tmp_path / "data" / "generated" / "smoke"
    meta = {"notebook": NAME, "inputs": {"items.parquet": "aa"}}
    (data / "items.parquet").write_text("items")
    (data / "items.parquet.meta.json").write_text(json.dumps({"notebook": "00_earlier", "inputs": {}, "sha256": "aa"}))
    (data / "scores.parquet.meta.json").write_text(json.dumps(meta | {"sha256": "bb"}))
    assert site.read_status(NAME, "smoke", tmp_path)["status"] == "ok"

    (data / "items.parquet.meta.json").write_text(json.dumps({"notebook": "00_earlier", "inputs": {}, "sha256": "cc"}))
    status = site.read_status(NAME, "smoke", tmp_path)
    assert (status["status"], status["error"]) == ("outdated", "not run again since items.parquet changed")
    soup, _ = page([new_code_cell("x")])
    assert soup.find(class_="banner").get_text() == "This page is outdated: not run again since items.parquet changed"

    (data / "items.parquet").unlink()
    assert site.read_status(NAME, "smoke", tmp_path)["status"] == "outdated"
    (data / "items.parquet.meta.json").write_text("{")
    assert site.read_status(NAME, "smoke", tmp_path)["error"] == "not run again since an artifact's sidecar changed"


# ---------------------------------------------------------------- models behind an endpoint

SPENT = {"model": "gpt<4>", "calls": 1234, "retries": 2, "tokens_in": 56789, "tokens_out": 10, "cost": 1.5}
SPENT |= {
    "cost_lost": 0.25,
    "cost_cached": 0.0625,
    "refused": 1,
    "reasons": [{"prompt": "why", "reason": "status 400"}],
}


def record_spending(tmp_path, text):
    path = tmp_path / "data" / "generated" / "smoke" / f"{NAME}.spending.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def papermill(started="2024-01-01T00:00:00.000000+00:00", **more):
    return {"start_time": started, "end_time": "2024", "duration": 12.3, "exception": None} | more


def test_what_an_endpoint_was_paid_is_in_the_record_and_on_the_index(page, tmp_path):
    page([], papermill())
    record_spending(tmp_path, json.dumps(SPENT | {"asked": {"a": [1, 2]}}))
    assert site.build("smoke", tmp_path)["spending"] == {NAME: SPENT}
    soup = BeautifulSoup((tmp_path / "reports" / "smoke" / "index.html").read_text(), "html.parser")
    (table,) = [table for table in soup.find_all("table") if "endpoint" in table.caption.get_text()]
    assert [cell.get_text() for cell in table.tbody.find_all("td")] == [
        "01 data gen", "gpt<4>", "1,234", "2", "1", "56,789", "10", "1.75", "0.0625",
    ]  # fmt: skip


@pytest.mark.parametrize("text", [None, "", "{", "[]", "{}"])
def test_without_a_record_the_index_has_no_table_of_spending(page, tmp_path, text):
    page([], papermill())
    if text is not None:
        record_spending(tmp_path, text)
    assert site.build("smoke", tmp_path)["spending"] == {}
    assert "endpoint" not in (tmp_path / "reports" / "smoke" / "index.html").read_text()


def test_the_record_of_an_earlier_run_does_not_count(page, tmp_path):
    record_spending(tmp_path, json.dumps(SPENT))
    page([], papermill("2999-01-01T00:00:00.000000+00:00"))
    assert site.run_record("smoke", tmp_path)["spending"] == {}


def test_a_notebook_at_its_spending_limit_is_stopped_rather_than_failed(page, tmp_path):
    said = "the spending limit of 2 leaves 0.1 …: run again with a higher limit; 4 of 10 prompts are answered"
    error = new_output("error", ename="SpendingLimit", evalue=said, traceback=["SpendingLimit"])
    soup, _ = page([new_code_cell("x", outputs=[error])], papermill(exception=True))
    assert soup.find(class_="banner").get_text() == f"This notebook stopped at its spending limit: {said}"
    status = site.read_status(NAME, "smoke", tmp_path)
    assert (status["status"], status["error"]) == ("stopped", f"SpendingLimit: {said}")
    site.build("smoke", tmp_path)
    soup = BeautifulSoup((tmp_path / "reports" / "smoke" / "index.html").read_text(), "html.parser")
    assert [shown.get_text() for shown in soup.find_all(class_="status-stopped")] == [
        f"stopped: SpendingLimit: {said}",
        "stopped",
    ]
    assert said in soup.get_text()
