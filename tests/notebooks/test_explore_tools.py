"""The notebook on functions and queries of somebody's own, in the Berkeley format: nothing else is needed."""

import json
import os
import subprocess
import sys

import pandas as pd
import pytest

from tests.notebooks.smoke import copy_project

pytestmark = pytest.mark.slow

FUNCTIONS = [
    ("kiln.fire", "Heat a kiln to a firing temperature and hold it there.", {"celsius": "peak temperature"}),
    ("kiln.schedule", "List the firings that are planned for a kiln.", {"week": "number of the week"}),
    ("glaze_recipe", "Look up the ingredients of a ceramic glaze.", {"name": "name of the glaze"}),
    ("bee.inspect_hive", "Record an inspection of a beehive.", {"hive": "name of the hive"}),
    ("bee.count_mites", "Estimate the number of mites in a beehive.", {"hive": "name of the hive"}),
    ("tide_table", "Show times of high and low water at a harbour.", {"harbour": "name of the harbour"}),
]
QUERIES = [
    ("own-0", "Bring the big kiln up to 1,220 degrees", [{"kiln.fire": {"celsius": [1220]}}]),
    ("own-1", "When is low water in Whitby?", [{"tide_table": {"harbour": ["Whitby"]}}]),
    (
        "own-2",
        "Note that I looked into hive Rosa, and how many mites has it got?",
        [{"bee.inspect_hive": {"hive": ["Rosa"]}}, {"bee.count_mites": {"hive": ["Rosa"]}}],
    ),
    ("own-3", "What is celadon glaze made of?", [{"glaze_recipe": {"name": ["celadon"]}}]),
    ("own-4", "Tell me a joke", []),
]


def definition(name, description, arguments):
    properties = {key: {"type": "string", "description": text} for key, text in arguments.items()}
    return {
        "name": name,
        "description": description,
        "parameters": {"type": "dict", "properties": properties, "required": list(arguments)},
    }


def make_project(folder):
    """The notebook, the code, and functions and queries of one's own; no artifact of another notebook. The queries'
    functions are in their records, a few in each."""
    copy_project(folder)
    definitions = [definition(*function) for function in FUNCTIONS]
    records = [
        {
            "id": name,
            "question": [[{"role": "user", "content": text}]],
            "function": [d for d in definitions if any(d["name"] in answer for answer in answers)] or definitions[:2],
        }
        for name, text, answers in QUERIES
    ]
    (folder / "possible_answer").mkdir()
    lines = {
        "queries.json": records,
        "possible_answer/queries.json": [{"id": name, "ground_truth": answers} for name, _, answers in QUERIES],
        "tools.jsonl": definitions,
    }
    for name, content in lines.items():
        (folder / name).write_text("".join(json.dumps(record) + "\n" for record in content))
    return folder


def test_it_ranks_the_functions_of_a_file(tmp_path):
    project = make_project(tmp_path / "project")
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
