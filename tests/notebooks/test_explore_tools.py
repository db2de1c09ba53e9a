"""The notebook on functions and queries of somebody's own, in the Berkeley format: nothing else is needed."""

import json
import os
import subprocess
import sys

import pandas as pd
import pytest

from tests.notebooks.smoke import copy_project

pytestmark = pytest.mark.slow

FUNCTIONS = {
    "kiln.fire": "Heat a kiln to a firing temperature and hold it there.",
    "kiln.schedule": "List the firings that are planned for a kiln.",
    "glaze_recipe": "Look up the ingredients of a ceramic glaze.",
    "bee.inspect_hive": "Record an inspection of a beehive.",
    "bee.count_mites": "Estimate the number of mites in a beehive.",
    "tide_table": "Show times of high and low water at a harbour.",
}
QUERIES = {
    "Bring the big kiln up to 1,220 degrees": ["kiln.fire"],
    "When is low water in Whitby?": ["tide_table"],
    "Note that I looked into hive Rosa, and how many mites has it got?": ["bee.inspect_hive", "bee.count_mites"],
    "What is celadon glaze made of?": ["glaze_recipe"],
    "Tell me a joke": [],
}


def test_it_ranks_the_functions_of_a_file(tmp_path):
    """The notebook and the code, and no artifact of another notebook."""
    project = copy_project(tmp_path / "project")
    nothing = {"type": "dict", "properties": {}, "required": []}
    tools = [{"name": name, "description": text, "parameters": nothing} for name, text in FUNCTIONS.items()]
    asked = [{"question": [[{"role": "user", "content": text}]], "function": tools[:2]} for text in QUERIES]
    answers = [{"ground_truth": [{name: {}} for name in names]} for names in QUERIES.values()]
    (project / "possible_answer").mkdir()
    for name, records in {"tools.jsonl": tools, "queries.json": asked, "possible_answer/queries.json": answers}.items():
        lines = [record if name == "tools.jsonl" else {"id": f"own-{n}"} | record for n, record in enumerate(records)]
        (project / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
    named = "-p profile mine -p bootstrap_samples 100 -p queries_file queries.json -p toolbox_file tools.jsonl".split()
    command = [sys.executable, "-m", "papermill", "notebooks/explore_tools.ipynb", "done.ipynb", "--no-progress-bar"]
    environment = os.environ | {"PYTHONPATH": str(project), "WORKBOOK_BATCH": "1"}
    done = subprocess.run([*command, *named], cwd=project, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    table = pd.read_csv(project / "reports" / "mine" / "tables" / "explore_tools.csv")
    assert set(table["method"]) == {"semantic", "bm25t", "rrf_text", "random"}
    assert set(table["k"]) == set(range(1, 7)), "six functions: no cutoff beyond them"
    assert (table["n"] == 4).all(), "one query in five fits no function"
    recall = table.set_index(["method", "k"])["value"]
    assert recall["rrf_text", 6] == 100
    assert recall["semantic", 1] > recall["random", 1]
    assert recall["random", 3] == 50
    assert not (project / "data" / "generated").exists(), "later notebooks must not take it for their world"
