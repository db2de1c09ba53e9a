"""The notebook on a ranking of one's own, after a report: a run file is scored, and nothing is written."""

import os
import subprocess
import sys

import pandas as pd
import pytest


@pytest.mark.slow
def test_a_run_file_is_scored_and_nothing_is_written(finished, tmp_path):
    run = pd.read_parquet(finished / "data/generated/smoke/baseline_rankings.parquet").query("method == 'bm25t'")
    run = run.assign(score=1 / run["rank"], q0="Q0", tag="x")[["query", "q0", "item", "rank", "score", "tag"]]
    run.to_csv(tmp_path / "mine.run", sep=" ", header=False, index=False)
    before = {path: path.stat().st_mtime_ns for path in finished.rglob("*") if path.is_file()}
    command = [sys.executable, "-m", "papermill", "notebooks/explore_retrieval.ipynb", tmp_path / "done.ipynb"]
    command += ["-p", "profile", "smoke", "-p", "run_file", tmp_path / "mine.run", "--cwd", "notebooks"]
    own = os.environ | {"PYTHONPATH": str(finished), "PYTHONDONTWRITEBYTECODE": "1", "WORKBOOK_BATCH": "1"}
    done = subprocess.run(command, cwd=finished, env=own, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "Yours beside the kept rankings" in (tmp_path / "done.ipynb").read_text()
    assert before == {path: path.stat().st_mtime_ns for path in finished.rglob("*") if path.is_file()}
