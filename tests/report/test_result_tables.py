"""The tables of `reports/README.md`."""

import pandas as pd
import pytest

from lib.report import result_tables
from lib.workbook.artifacts import ROOT

TABLES = ROOT / "reports" / "quick" / "tables"
AROUND = "Before.\n\n<!-- table: plans -->\n| stale |\n<!-- /table -->\n\nAfter.\n"


def test_a_table_is_written_between_its_marks_and_nowhere_else():
    text = result_tables.written_anew(AROUND, TABLES)
    assert text.startswith("Before.\n\n<!-- table: plans -->\n| setting | AST accuracy | published |")
    assert text.endswith("|\n<!-- /table -->\n\nAfter.\n")
    assert "stale" not in text
    assert result_tables.written_anew(text, TABLES) == text


def test_a_table_that_nobody_knows_is_an_error():
    with pytest.raises(ValueError, match="no table is called “plan”; there are context, unseen, plans"):
        result_tables.written_anew(AROUND.replace("plans", "plan"), TABLES)


def test_numbers_are_those_of_the_tables():
    row = pd.read_csv(TABLES / "planner.csv").query("setting == 'rag' and metric == 'ast_accuracy'").iloc[0]
    line = next(line for line in result_tables.plans(TABLES).splitlines() if line.startswith("| retrieved tools (RAG)"))
    values = (row[name] for name in ("value", "ci_low", "ci_high", "published"))
    assert "| {:.1f} [{:.1f}, {:.1f}] | {:.2f} |".format(*values) in line


def test_every_table_has_as_many_cells_in_each_row():
    for make in result_tables.TABLES.values():
        lines = make(TABLES).splitlines()
        assert len(lines) > 5
        assert len({line.count("|") for line in lines}) == 1


def test_the_file_is_written_anew(tmp_path):
    (tmp_path / "reports").mkdir()
    (tmp_path / "reports" / "quick").symlink_to(TABLES.parent)
    (tmp_path / result_tables.README).write_text(AROUND)
    result_tables.main("quick", tmp_path)
    assert "retrieved tools (RAG)" in (tmp_path / result_tables.README).read_text()


def test_a_method_on_a_sample_has_a_star(tmp_path):
    rows = pd.read_csv(TABLES / "context_retrieval.csv")
    sampled = (rows["method"] == "cot") & (rows["sample"] == "all")
    rows[~sampled].to_csv(tmp_path / "context_retrieval.csv", index=False)
    assert sampled.any()
    for folder, star in ((TABLES, ""), (tmp_path, "*")):
        text = result_tables.context(folder)
        assert f"| chain of thought, zero-shot{star} |" in text
        assert "| fine-tuned search |" in text
        assert text.splitlines()[2].endswith("| – |")


def test_a_method_without_a_further_seed_has_no_number_there():
    lines = result_tables.unseen(TABLES).splitlines()
    assert next(line for line in lines if line.startswith("| semantic search")).endswith("| – | – |")
    assert not next(line for line in lines if line.startswith("| fine-tuned search")).endswith("| – |")
