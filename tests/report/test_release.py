"""The data sets of `make dataset`, read as those do who will: BEIR, datasets, the Berkeley checker."""

import json

import datasets
import pandas as pd
import pytest

from lib.assistant.functions import read_function_queries
from lib.assistant.queries import qrels_of
from lib.assistant.schemas import WorldKnobs
from lib.assistant.toolbox import Toolbox
from lib.assistant.world import frames, simulate
from lib.report.release import make_release
from lib.workbook.artifacts import ROOT, Workbook
from lib.workbook.parameters import notebook_parameters, read_profile
from lib.workflows.catalogue import Catalogue


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    """A project's folder with what notebook 01 wrote, its data sets, and the world's tables."""
    root = tmp_path_factory.mktemp("project")
    made = notebook_parameters("01_data_gen", read_profile(ROOT / "notebooks/profiles/smoke.yaml"))
    book, tables = Workbook("01_data_gen", made, root), frames(simulate(ROOT / "data", WorldKnobs.of(made)))
    flows = pd.DataFrame({"split": ["test", "unseen"], "apis": [["f"], ["g"]], "pair": "a", "request": "\u2028"})
    flows = {"flows": flows.assign(dsl=""), "reworded": flows.assign(dsl="", original="")}
    for name, table in (tables | flows).items():
        book.write(name, table)
    book.write_lines("catalogue", Catalogue.load(ROOT / "data" / "catalogue").to_lines())
    for name in ("notebooks", *(f"data/{name}" for name in "needs background people.yaml toolbox.yaml".split())):
        (root / name).symlink_to(ROOT / name)
    assert make_release(["smoke"], root) == 0
    return root, tables


def lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n")[:-1]]


def test_a_world_has_beirs_layout(released):
    """Of `_id`, `title` and `text`; its qrels have a head and whole numbers."""
    folder, tables = released[0] / "data/release/mixed", released[1]
    corpus = {one["_id"]: one for one in lines(folder / "corpus.jsonl")}
    queries = {one["_id"]: one for one in lines(folder / "queries.jsonl")}
    texts = {name: f"{one['title']}. {one['text']}".removesuffix(". ") for name, one in corpus.items()}
    assert texts == tables["items"].set_index("item")["text"].to_dict()
    found = []
    for split, side in (("train", "training"), ("test", "evaluation")):
        head, *rows = (folder / "qrels" / f"{split}.tsv").read_text().splitlines()
        assert head == "query-id\tcorpus-id\tscore"
        for query, item, score in (row.split("\t") for row in rows):
            asked = queries[query]["metadata"]
            assert (score, asked["split"], asked["topics"]) == ("1", side, "known" if asked["fold"] else "new")
            assert asked["persona"] == corpus[item]["metadata"]["persona"] == item.split("-")[0]
            found.append((query, item))
    assert sorted(found) == sorted(qrels_of(tables["gold"]).itertuples(index=False, name=None))


def test_beir_reads_it(released):
    loader = pytest.importorskip("beir.datasets.data_loader").GenericDataLoader
    documents, queries, qrels = loader(str(released[0] / "data/release/mixed")).load(split="test")
    assert (len(documents), len(queries), len(qrels)) == (len(released[1]["items"]), 28, 28)


def test_load_dataset_reads_every_part_that_the_cards_name(released, tmp_path):
    rows, tables = {}, released[1]
    for folder in (released[0] / "data/release").iterdir():
        for name in datasets.get_dataset_config_names(str(folder)):
            parts = datasets.load_dataset(str(folder), name, cache_dir=str(tmp_path))
            rows[name] = {split: part.num_rows for split, part in parts.items()}
    assert rows["corpus"] | rows["queries"] == {"corpus": len(tables["items"]), "queries": 84}
    assert rows["signals"] == {"train": len(tables["queries"].merge(tables["items"], on="persona"))}
    assert rows["pairs"] == {"test": 1, "unseen": 1, "reworded": 2}
    assert set(rows) > {"catalogue", "qrels", "opens", "people", "gold", "other_plans"}


def test_calls_stand_in_the_berkeley_files_and_their_own_answers_are_right(released):
    folder, asked = released[0] / "data/release/mixed/berkeley", set()
    gold = released[1]["gold"].set_index("query")["answers"]
    for path in sorted(folder.glob("BFCL_v4_*.json")):
        category, questions = path.stem.removeprefix("BFCL_v4_"), lines(path)
        asked |= {one["query"] for one in questions}
        functions = [api.function for api in Toolbox.from_functions(path).values()]
        for schema in (schema for each in functions for schema in each["parameters"]["properties"].values()):
            assert schema["type"] in {"string", "integer", "float", "boolean", "array", "dict"}  # the checker's names
            assert schema["type"] != "array" or schema["items"] == {"type": "string"}
        if category != "irrelevance":
            answers = lines(folder / "possible_answer" / path.name)
            ids = [f"{category}_{number}" for number in range(len(questions))]
            assert read_function_queries(path)["query"].tolist() == [one["id"] for one in answers] == ids
            assert all(one["ground_truth"] == json.loads(gold[one["query"]]) for one in answers)
            assert {len(one["ground_truth"]) for one in answers} == {1 + (category == "parallel_multiple")}
    assert asked == set(released[1]["queries"].query("split == 'evaluation'")["query"])


def test_other_worlds_are_made_by_name_and_what_is_none_is_refused(released, capsys):
    root, tables = released
    assert make_release(["smoke", "hard"], root) == 0
    hard = {one["text"] for one in lines(root / "data/release/hard/queries.jsonl")}
    assert len(hard - set(tables["queries"]["text"])) > 40
    assert make_release(["smoke", "easy"], root) == 1
    assert "there is no data set easy, but explicit, mixed, hard and workflows" in capsys.readouterr().err
