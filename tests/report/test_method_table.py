"""The index page's table of methods."""

import json

import pandas as pd
import pytest
from bs4 import BeautifulSoup

from lib.evaluation.claims import read_claims
from lib.report.method_table import COLUMNS, QUESTIONS, SHORT, anchors_of, method_rows, sentence, table_html
from lib.report.verdicts import SYMBOLS, mark
from lib.workbook.artifacts import ROOT
from lib.workbook.profiles import NOTEBOOKS

OK = dict.fromkeys(NOTEBOOKS, "ok")
VERDICTS = pd.DataFrame({"claim": ["finetuning_improves_search"], "verdict": ["reproduced"]})


@pytest.fixture
def folder(tmp_path):
    """A report with two tables: Table 2, where one method has a sample alone, and the fine-tuned model's flows."""
    tables = tmp_path / "tables"
    tables.mkdir()
    context = pd.DataFrame(
        [
            ("semantic", "all", "cot", "recall", 3, 36.7, 31.9, 41.8, 300, 23.74),
            ("semantic", "all", "all", "recall", 3, 38.4, 34.7, 42.2, 936, 23.74),
            ("semantic", "habit", "all", "recall", 3, 1.0, 0.0, 2.0, 9, 23.74),
            ("semantic", "all", "unseen_needs", "recall", 3, 2.0, 0.0, 2.0, 9, 23.74),
            ("semantic", "all", "all", "ndcg", 3, 3.0, 0.0, 2.0, 936, 65.44),
            ("finetuned", "all", "all", "recall", 3, 64.9, 61.3, 68.3, 936, 73.48),
            ("cot", "all", "cot", "recall", 3, 36.0, 31.7, 40.5, 300, 71.77),
            ("cot", "all", "unseen_needs", "recall", 3, 4.0, 0.0, 2.0, 9, 71.77),
            ("lambdamart_rrf", "all", "all", "recall", 3, 67.2, 64.0, 70.2, 936, 81.27),
        ],
        columns=["method", "kind", "sample", "metric", "k", "value", "ci_low", "ci_high", "n", "published"],
    )
    context.to_csv(tables / "context_retrieval.csv", index=False)
    flows = pd.DataFrame(
        [
            ("test", "fine-tuned, 2,048 pairs", 2048, "similarity", 0.64, 0.47, 0.81, 16),
            ("test", "fine-tuned, 67,000 pairs", 67000, "similarity", 0.89, 0.80, 0.96, 32),
            ("test", "fine-tuned, 67,000 pairs, catalogue's grammar", 67000, "similarity", 0.79, 0.65, 0.94, 8),
            ("test_same", "fine-tuned, 67,000 pairs", 67000, "similarity", 0.96, 0.89, 1.0, 32),
        ],
        columns=["test_set", "condition", "pairs", "metric", "value", "ci_low", "ci_high", "n"],
    )
    flows.to_csv(tables / "finetuned_dsl.csv", index=False)
    return tmp_path


def rows_of(folder, status=OK):
    return method_rows(folder, status, VERDICTS, "quick", "a <device>")


def test_a_method_has_the_value_of_the_whole_sample_or_else_of_its_own(folder):
    rows = rows_of(folder).set_index("method")
    assert rows.columns.tolist() == [name for name in COLUMNS if name != "method"]
    assert rows.loc["semantic search", "value"].tolist() == [38.4, 36.7]
    assert rows.loc["CoT", ["value", "n", "published"]].tolist() == [36.0, 300, 71.77]
    assert rows.loc["fine-tuned search", "value"].iloc[0] == 64.9
    unseen = rows[rows["question"] == "And where no training query asks about the need?"]
    assert unseen["n"].tolist() == [0, 0, 0, 0], "a method without such a row does not lend its other one"
    assert set(rows["profile"]) == {"quick"}
    assert set(rows["device"]) == {"a <device>"}


def test_the_fine_tuned_model_is_the_one_with_most_pairs_decoded_freely(folder):
    rows = rows_of(folder).set_index("method")
    assert rows.loc["fine-tuned model", ["value", "n"]].tolist() == [0.89, 32]


def test_methods_of_a_block_are_compared_on_the_same_queries(folder):
    """Those with a chain of thought are a sample: beside them stands the value of others on that sample."""
    path = folder / "tables" / "context_retrieval.csv"
    table = pd.read_csv(path)
    for chosen in (table, table[table["sample"] == "all"]):  # in the second all queries have one
        if chosen is not table:
            chosen = pd.concat([chosen, table[table["method"] == "cot"].head(1).assign(sample="all", n=936)])
        chosen.to_csv(path, index=False)
        rows = rows_of(folder)
        for _, block in rows[rows["notebook"] == "05_lambdamart_rrf"].groupby("question"):
            if block["n"].any():  # no method has been asked of unseen needs
                assert len(set(block["n"]) - {0}) == 1


def test_a_method_that_was_not_asked_has_no_value(folder):
    rows = rows_of(folder).set_index("method")
    assert rows.loc["BM25T", "value"] != rows.loc["BM25T", "value"]
    assert rows.loc["BM25T", "n"] == 0


def test_a_notebook_that_is_not_done_has_no_rows(folder):
    rows = rows_of(folder, OK | {"05_lambdamart_rrf": "failed"})
    assert set(rows["notebook"]) == {"08_dsl_retrieval"}


def test_verdict_link_and_device_stand_beside_the_value(folder):
    rows, places = rows_of(folder), {("05_lambdamart_rrf", "Table 2, ours beside published"): "Table-2"}
    page = BeautifulSoup(table_html(rows, "assistant", mark, places), "html.parser")
    row = next(row for row in page.select("tbody tr") if "fine-tuned search" in row.get_text())
    texts = [cell.get_text() for cell in row.find_all("td")]
    symbol = SYMBOLS["reproduced"]
    assert texts == ["fine-tuned search", "64.9 [61.3, 68.3]", "73.48", f"{symbol} reproduced"]
    assert [cell["data-label"] for cell in row.find_all("td")] == [head.get_text() for head in page.select("thead th")]
    assert row.a["href"] == "#claim-finetuning_improves_search"
    question = page.select_one("tbody th")
    assert question.get_text() == "Is the relevant context found? Recall@3, %, n = 936"
    assert question.a["href"] == "05_lambdamart_rrf.html#Table-2"


def test_a_claim_apart_and_one_not_asked_say_so(folder):
    claims = ["finetuning_improves_search", "vector_beats_text", "usage_signals_help"]
    verdicts = pd.DataFrame({"claim": claims, "verdict": ["reproduced", "contradicted", "underpowered"]})
    rows = method_rows(folder, OK, verdicts, "quick", "a device")
    page = BeautifulSoup(table_html(rows, "assistant", mark, {}, {"vector_beats_text"}), "html.parser")
    said = {row.td.get_text(): row.find_all("td")[-1].get_text() for row in page.select("tbody tr") if row.td}
    assert said["LambdaMART"] == "not asked"
    found = [row.find_all("td")[-1].get_text() for row in page.select("tbody tr") if row.td]
    assert "✘ contradicted (counted apart)" in found
    assert "✔ reproduced" in found


def test_a_verdict_is_the_one_at_the_rows_cutoff(folder):
    """Reproduced at 10 and open at 3 is open in a row of K = 3; a claim about 10 alone says so."""
    rows = [{"k": "3", "verdict": "underpowered"}, {"k": "10", "verdict": "reproduced"}]
    verdicts = pd.DataFrame(
        {
            "claim": ["finetuning_improves_search", "vector_beats_text"],
            "verdict": ["contradicted", "reproduced"],
            "k": ["10", "10"],
            "rows": [rows, rows[1:]],
        }
    )
    table = method_rows(folder, OK, verdicts, "quick", "a device")
    page = BeautifulSoup(table_html(table, "assistant", mark, {}), "html.parser")
    said = {
        row.td.get_text(): row.find_all("td")[-1].get_text() for row in page.select("tbody")[0].select("tr") if row.td
    }
    assert said["fine-tuned search"] == "? underpowered (the whole claim: contradicted)"
    assert said["semantic search"] == "✔ reproduced (at K = 10)"
    assert said["LambdaMART"] == "–"


def test_a_block_of_several_metrics_names_that_of_each_row():
    metrics = next(names for _, rows in QUESTIONS if len(names := {row.metric for row in rows}) > 1)
    same = {"paper": "workflow", "question": "Q", "value": 1.0, "ci_low": 0.0, "ci_high": 2.0, "published": 0.5, "n": 9}
    same |= {"notebook": "09_dsl_ablation", "verdict": "", "claim": "", "section": "S", "profile": "p", "device": "d"}
    same |= {"k": "5", "verdict_k": "", "verdict_there": ""}
    rows = pd.DataFrame([same | {"method": f"m{n}", "metric": metric} for n, metric in enumerate(sorted(metrics))])
    page = BeautifulSoup(table_html(rows, "workflow", mark, {}), "html.parser")
    assert page.select_one("tbody th").get_text() == "Q n = 9 asked, compared where both rows count"
    assert [row.small.get_text() for row in page.select("tbody tr")[1:]] == [SHORT[name] for name in sorted(metrics)]


def test_a_paper_without_rows_has_no_table(folder):
    assert table_html(rows_of(folder, {}), "assistant", mark, {}) == ""


def test_the_sentence_leaves_out_what_is_not_there(folder):
    said = sentence(rows_of(folder), "assistant")
    assert said == (
        "LambdaMART-RRF finds 67.2 [64.0, 70.2]% of the relevant context among its first 3 items, pretrained search "
        "38.4 [34.7, 42.2]%."
    )
    assert sentence(rows_of(folder), "workflow") == ""


def test_the_sentence_says_what_context_adds_and_what_holds_for_new_needs(folder):
    tables = folder / "tables"
    context = pd.read_csv(tables / "context_retrieval.csv")
    unseen = context[context["method"].isin(["finetuned", "lambdamart_rrf"])].assign(sample="unseen_needs", value=50.0)
    pd.concat([context, unseen]).to_csv(tables / "context_retrieval.csv", index=False)
    plans = [(setting, "ast_accuracy", 40.0, 30.0, 50.0, 936, 60.0) for setting in ("rag", "context_tuned_rag")]
    names = ["setting", "metric", "value", "ci_low", "ci_high", "n", "published"]
    pd.DataFrame(plans, columns=names).to_csv(tables / "planner.csv", index=False)
    held = [
        ("tuned", "held out", setting, "ast_accuracy", value, 0.5, 9.0, 120)
        for setting, value in (("rag", 2.0), ("context_tuned_rag", 3.0))
    ]
    held += [("untuned", *row[1:4], 90.0, *row[5:]) for row in held]
    names = ["model", "needs", "setting", "metric", "value", "ci_low", "ci_high", "n"]
    pd.DataFrame(held, columns=names).to_csv(tables / "planner_needs.csv", index=False)
    verdicts = pd.DataFrame(
        [("context_improves_plans", 6.1, 3.4, 8.8, 936)], columns=["claim", "effect", "ci_low", "ci_high", "n"]
    )
    rows = rows_of(folder)
    said = sentence(rows, "assistant", verdicts)
    assert said.endswith(
        "with retrieved context 40.0 [30.0, 50.0]% of the plans are right, without 40.0 [30.0, 50.0]% (a difference of "
        "6.1 [3.4, 8.8] points, paired by query); of needs that no training query asks about LambdaMART-RRF finds 50.0 "
        "[64.0, 70.2]% of the context, fine-tuned search 50.0 [61.3, 68.3]%; of needs that the planner never learned "
        "3.0 [0.5, 9.0]% of the plans are right with retrieved context, without 2.0 [0.5, 9.0]%."
    )
    assert "a difference of" not in sentence(rows, "assistant", verdicts.assign(n=0))


def test_the_workflow_papers_sentence_sets_retrieval_against_fine_tuning():
    rows = method_rows(ROOT / "reports" / "quick", OK, VERDICTS, "quick", "")
    rows = rows[~rows["question"].str.startswith("Are better few-shots found?")]
    said = sentence(rows, "workflow")
    assert said.startswith("On page 08's requests the fine-tuned model's flows reach a similarity of 0.")
    assert "; on page 09's, retrieval (TST with FD, 20 few-shots) differs from that model by " in said


def test_every_row_names_a_claim_of_its_paper_and_a_heading_of_its_notebook():
    claims = {claim.claim: claim.paper for claim in read_claims(ROOT / "data" / "claims.yaml")}
    for question, rows in QUESTIONS:
        notebook = json.loads((ROOT / "notebooks" / f"{question.notebook}.ipynb").read_text(encoding="utf-8"))
        lines = "".join("".join(cell["source"]) + "\n" for cell in notebook["cells"] if cell["cell_type"] == "markdown")
        headings = [line.lstrip("# ") for line in lines.splitlines() if line.startswith("##")]
        assert question.section in headings, question.section
        assert all(claims[row.claim] == question.paper for row in rows if row.claim)


def test_every_row_is_found_in_some_committed_or_published_condition():
    """A misspelt condition would be a dash for ever: each row but those that `full` alone asks is in `quick`."""
    folder = ROOT / "reports" / "quick"
    rows = method_rows(folder, OK, VERDICTS, "quick", "")
    missing = rows[rows["n"] == 0]
    in_full = {"20 few-shots", "an example of each"}
    assert all(any(word in method for word in in_full) for method in missing["method"]), missing["method"].tolist()


def test_anchors_are_found_by_notebook_and_heading():
    assert anchors_of({"07_planner": [("Table-3", "Table 3")]}) == {("07_planner", "Table 3"): "Table-3"}
