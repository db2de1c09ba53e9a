"""The notebook on a ranking of one's own, after a report: a run file is scored, and nothing is written."""

import os
import subprocess
import sys

import pandas as pd
import pytest

pytestmark = pytest.mark.slow


def test_a_run_file_is_scored_and_nothing_is_written(finished, tmp_path):
    data = finished / "data" / "generated" / "smoke"
    run = pd.read_parquet(data / "baseline_rankings.parquet").query("method == 'bm25t'")
    lines = zip(run["query"], run["item"], 1 / run["rank"], strict=True)
    (tmp_path / "mine.run").write_text("".join(f"{query} Q0 {item} 1 {score} x\n" for query, item, score in lines))
    before = {path: path.stat().st_mtime_ns for path in finished.rglob("*") if path.is_file()}
    command = [sys.executable, "-m", "papermill", "notebooks/explore_retrieval.ipynb", str(tmp_path / "done.ipynb")]
    named = ["-p", "profile", "smoke", "-p", "run_file", str(tmp_path / "mine.run"), "--cwd", "notebooks"]
    environment = os.environ | {"PYTHONPATH": str(finished), "PYTHONDONTWRITEBYTECODE": "1", "WORKBOOK_BATCH": "1"}
    done = subprocess.run(
        [*command, *named], cwd=finished, env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "Yours beside the kept rankings" in (tmp_path / "done.ipynb").read_text()
    assert before == {path: path.stat().st_mtime_ns for path in finished.rglob("*") if path.is_file()}
