"""What `make report PROFILE=smoke` makes on a copy of the project; `test_report_again` changes, breaks and kills it."""

import json
import subprocess
import sys

import nbformat
import numpy as np
import pandas as pd
import pytest
from bs4 import BeautifulSoup
from safetensors.numpy import load_file

from lib.assistant.planner import BY_OUR_RANKER, SETTINGS
from lib.evaluation.claims import COLUMNS, WORDS, read_claims
from lib.workbook.artifacts import ROOT
from lib.workbook.parameters import NOTEBOOKS, read_profile
from lib.workflows.catalogue import Catalogue
from tests.notebooks.smoke import command

pytestmark = pytest.mark.slow

# Those of Table 2; `retrain_encoders` is off in smoke, so that `lambdamart_2_finetuned` is not among them.
LEARNED = {"finetuned", "lambdamart", "lambdamart_rrf", "lambdamart_2"}
WITH_CHAINS = {"cot", "cot_distilled", "finetuned_cot"}
METHODS = LEARNED | WITH_CHAINS | {"random", "recency", "bm25t", "semantic", "rrf_text"}
SMOKE = read_profile(ROOT / "notebooks" / "profiles" / "smoke.yaml")
QUERIES = SMOKE["n_evaluation_queries"]


def test_the_record_says_what_ran(finished):
    record = json.loads((finished / "reports" / "smoke" / "run.json").read_text())
    assert record["profile"] == "smoke"
    assert set(record["status"].values()) == {"ok"}
    assert set(record["seconds"]) == set(NOTEBOOKS)
    assert all(seconds > 0 for seconds in record["seconds"].values())
    assert set(record["peak_mib"]) == set(NOTEBOOKS)
    assert all(100 < mib < 8 * 1024 for mib in record["peak_mib"].values())
    assert record["versions"]["torch"]
    assert record["machine"]["cores"] >= 1


def test_tables_follow_the_contract(finished):
    folder = finished / "reports" / "smoke" / "tables"
    dataset = pd.read_csv(folder / "dataset.csv")
    assert list(dataset) == ["quantity", "published", "ours"]
    assert dataset["ours"].notna().all()
    sizes = dataset.set_index("quantity")
    assert sizes.loc["personas"].tolist() == [791, SMOKE["n_personas"]]
    assert sizes.loc["workflow training pairs"].tolist() == [67_000, 300]
    assert sizes.loc["workflow test pairs"].tolist() == [1_000, 40]
    assert sizes.loc["workflow APIs"].tolist() == [700, 698]
    assert sizes.loc["TST pairs", "published"] == 100_000
    cost = pd.read_csv(folder / "context_cost.csv")
    assert list(cost) == ["method", "p50_ms", "p95_ms", "tokens_in", "tokens_out"]
    assert set(cost["method"]) == METHODS
    assert (cost["p50_ms"] > 0).all()
    claims = pd.read_csv(folder / "claims.csv")
    assert list(claims) == [*COLUMNS, "p_holm", "star"]
    assert not claims.duplicated(["claim", "k"]).any()
    assert claims["claim"].nunique() == len(read_claims(ROOT / "data" / "claims.yaml"))
    assert set(claims["word"]) <= set(WORDS)
    beside = ~claims["ci_low"].le(0) | ~claims["ci_high"].ge(0)
    assert not claims[beside & claims["unit"].eq("points")]["word"].eq("no clear difference").any()
    retrieval = pd.read_csv(folder / "context_retrieval.csv")
    assert list(retrieval) == [
        "method", "topics", "kind", "metric", "k", "value", "ci_low", "ci_high", "n_topics", "n", "over_queries",
        "published",
    ]  # fmt: skip
    sides = {name: set(part["method"]) for name, part in retrieval.groupby("topics")}
    assert sides == {"known": METHODS | {"cot_expert"}, "new": METHODS - WITH_CHAINS}
    of_chains = retrieval["method"].isin({*WITH_CHAINS, "cot_expert"})
    overall = retrieval[(retrieval["kind"] == "all") & (retrieval["metric"] != "ndcg_retrieved")]
    assert (overall["n"] == np.where(of_chains[overall.index], 12, QUERIES)).all()
    assert set(retrieval["kind"]) == {"all", "meaning", "habit", "either"}
    assert set(retrieval["metric"]) == {"recall", "ndcg", "ndcg_retrieved"}
    assert set(retrieval["k"]) == {3, 5, 10}
    known = retrieval[retrieval["n"] > 0]
    assert known["value"].between(0, 100).all()
    assert retrieval[retrieval["n"] == 0]["value"].isna().all()
    assert (known["ci_low"].isna() <= (known["n_topics"] == 1)).all(), "one topic alone has no interval"
    with_interval = known.dropna(subset="ci_low")
    assert (with_interval["ci_low"] <= with_interval["value"] + 1e-4).all()
    assert (with_interval["value"] <= with_interval["ci_high"] + 1e-4).all()
    printed = overall[overall["topics"] == "known"].set_index(["method", "metric", "k"])["published"]
    assert printed["bm25t", "recall", 3] == 11.35


def test_the_tables_of_few_shots_and_definitions_follow_the_contract(finished):
    folder = finished / "reports" / "smoke" / "tables"
    few_shots = pd.read_csv(folder / "few_shot_retrieval.csv")
    assert list(few_shots) == [
        "selector", "pairs", "pool", "test_set", "shots", "metric", "value", "ci_low", "ci_high", "n"
    ]  # fmt: skip
    assert {"test", "test_same"} <= set(few_shots["test_set"])
    assert {"random", "bm25t", "pretrained", "tst", "tst_shuffled", "oracle_shots"} == set(few_shots["selector"])
    assert few_shots["value"].between(0, 1).all()
    assert (few_shots["ci_low"] <= few_shots["value"] + 1e-6).all()
    assert (few_shots["value"] <= few_shots["ci_high"] + 1e-6).all()
    whole = few_shots[(few_shots["n"] == 40) & few_shots["pairs"].isin([0, 64])]
    at = whole.set_index(["test_set", "selector", "metric", "shots"])["value"]
    for name in ("test", "test_same"):
        assert at[name, "oracle_shots", "jaccard", 5] >= at[name, "pretrained", "jaccard", 5]
        assert at[name, "pretrained", "jaccard", 5] > at[name, "random", "jaccard", 5]
    growing = whole[whole["metric"] == "coverage"].sort_values("shots").groupby(["test_set", "selector"])["value"]
    assert growing.apply(lambda part: part.is_monotonic_increasing).all()
    definitions = pd.read_csv(folder / "definition_coverage.csv", keep_default_na=False)
    assert set(definitions["kind"]) == {"fd", "sfd", "sfd_clauses", "fd_sfd"}
    assert set(definitions["sample"]) == {"test", "test_same", "reworded", "unseen"}
    both = definitions.pivot_table(index=["sample", "shots"], columns="kind", values="share", aggfunc="max")
    assert (both["fd_sfd"] >= both["sfd"] - 1e-6).all()


def test_the_fine_tuned_model_learned_from_training_pairs_alone(finished):
    data = finished / "data" / "generated" / "smoke"
    written = pd.read_parquet(data / "finetuned_flows.parquet")
    largest = written.loc[written["condition"] == "fine-tuned, 16 pairs", "test_set"].value_counts()
    assert largest.to_dict() == {"test": 6, "test_same": 6, "reworded": 3, "unseen": 3}
    learned = pd.read_parquet(data / "dsl_training_pairs.parquet")["pair"]
    flows = pd.read_parquet(data / "flows.parquet").set_index("pair")
    assert len(learned) == 16
    assert set(flows.loc[learned, "split"]) == {"training"}
    shots = pd.read_parquet(data / "few_shots.parquet")
    assert set(flows.loc[shots["shot"].unique(), "split"]) == {"training"}


def test_the_ablations_table_follows_the_contract(finished):
    table = pd.read_csv(
        finished / "reports" / "smoke" / "tables" / "dsl_ablation.csv", keep_default_na=False, na_values=[""],
        dtype={"table": str},
    )  # fmt: skip
    assert list(table) == [
        "selector", "shots", "definitions", "generator", "decoding", "test_set", "metric", "value", "ci_low", "ci_high",
        "delta", "delta_ci_low", "delta_ci_high", "n", "published_delta", "table", "condition", "against",
    ]  # fmt: skip
    assert not table.duplicated(["table", "condition", "against", "test_set", "metric"]).any()
    published = pd.read_csv(ROOT / "data" / "published" / "workflow_ablation.csv").astype({"table": str})
    keys = ["table", "selector", "shots", "definitions", "metric"]
    printed = published.set_index(keys)["delta"].sort_index().to_dict()
    for test_set in ("test", "test_same"):
        papers = table[table["table"].isin(list("1234")) & (table["test_set"] == test_set)]
        ours = papers.dropna(subset=["published_delta"]).set_index(keys)["published_delta"].sort_index()
        assert ours.to_dict() == printed
        baselines = papers[papers["condition"] == papers["against"]]
        assert len(baselines) == 4 * 7
        assert baselines[["delta", "published_delta"]].isna().all(axis=None)
    assert set(table["table"]) == {*"1234", "fair", "definitions", "grammar", "shots", "unseen", "pairs"}
    known = table.dropna(subset=["value"])
    assert (known["ci_low"] <= known["value"] + 1e-6).all()
    assert (known["value"] <= known["ci_high"] + 1e-6).all()
    assert known.loc[known["metric"] == "similarity", "value"].between(0, 1).all()
    assert known["value"].between(0, 100).all()
    repair = pd.read_csv(finished / "reports" / "smoke" / "tables" / "dsl_repair.csv")
    assert set(repair["condition"].str.split(", ").str[1]) == {"free", "snapped", "reasked", "catalogue"}


def test_the_ablations_answers_follow_the_halves(finished):
    scores = pd.read_parquet(finished / "data" / "generated" / "smoke" / "ablation_scores.parquet")
    read = scores[scores["model"].fillna("").str.startswith("in_context")]
    assert (read["half"] != "").all(), "no flow with connectors of both halves is asked of the in-context model"
    assert (read["model"].str[-1] != read["half"]).all(), "none is asked of the model that learned on its half"
    assert set(read["model"]) == {"in_context-a", "in_context-b"}
    assert set(scores["test_set"]) == {"test", "test_same", "unseen"}


def test_the_table_of_tools_follows_the_contract(finished):
    tools = pd.read_csv(finished / "reports" / "smoke" / "tables" / "tool_retrieval.csv")
    assert list(tools) == [
        "world", "setting", "retriever", "target", "topics", "k", "recall", "ci_low", "ci_high", "n_topics", "n",
    ]  # fmt: skip
    assert set(tools["world"]) == {"main", "explicit", "mixed", "hard"}
    for _, part in tools.groupby("world"):
        known = part[(part["topics"] == "known") & (part["target"] == "api")].groupby("retriever")["setting"].agg(set)
        three = {"query_only", "query_plus_semantic_context", "query_plus_context"}
        assert known["semantic"] >= three | {"oracle_context", "query_plus_other_context"}
        assert known["lambdamart"] == three
        assert {"frequency", "classifier", "random"} <= set(known.index)
    new = tools[tools["topics"] == "new"]
    assert set(new["retriever"]) == {"lambdamart", "frequency", "classifier"}
    for _, part in tools.groupby(["world", "setting", "retriever", "target", "topics"]):
        assert part["k"].tolist() == list(range(1, 11))
        assert part["recall"].is_monotonic_increasing
    rankings = pd.read_parquet(finished / "data" / "generated" / "smoke" / "tool_rankings.parquet")
    ranks = rankings.groupby(["setting", "query"])["rank"].agg(["min", "max", "nunique", "size"])
    assert (ranks == [1, 20, 20, 20]).all(axis=None)
    asked = dict.fromkeys(("query_only", "query_plus_context"), SMOKE["n_training_queries"] + QUERIES)
    asked |= {f"{setting}/lambdamart": QUERIES for setting in asked}
    assert rankings.groupby("setting")["query"].nunique().to_dict() == asked


def test_the_planners_table_follows_the_contract(finished):
    planner = pd.read_csv(
        finished / "reports" / "smoke" / "tables" / "planner.csv", keep_default_na=False, na_values=""
    )
    assert list(planner) == [
        "world", "planner", "context", "setting", "topics", "metric", "value", "ci_low", "ci_high", "n_topics", "n",
        "over_queries", "published",
    ]  # fmt: skip
    metrics = {"ast_accuracy", "exact_match", "hallucination", "right_api", "arguments", "answerable"}
    whole = planner[planner["topics"] == "all"].set_index(["world", "planner", "context", "setting", "metric"])
    assert set(planner["planner"]) == {"tuned", "untuned", "larger tuned"}
    main = whole.loc[("main", "tuned")]
    assert set(main.index.get_level_values("setting")) == {*SETTINGS, *BY_OUR_RANKER}
    assert (main.xs("ast_accuracy", level="metric")["n"] == SMOKE["planner_queries"]).all()
    for world in ("explicit", "mixed", "hard"):
        there = whole.loc[(world, "tuned")]
        assert set(there.index.get_level_values("context")) == {"none", "semantic", "lambdamart", "gold"}
        assert set(there.index.get_level_values("metric")) == metrics
        wide = there["value"].unstack("metric").fillna(0)
        assert (wide["right_api"] * wide["arguments"] / 100).to_numpy() == pytest.approx(
            wide["ast_accuracy"].to_numpy(), abs=1e-3
        )
        assert (there.xs("ast_accuracy", level="metric")["n"] == SMOKE["planner_worlds_queries"]).all()
    asked = planner.dropna(subset="value")
    assert asked["value"].between(asked["ci_low"] - 1e-4, asked["ci_high"] + 1e-4).all()
    published = planner[planner["setting"].isin(list(SETTINGS)) & (planner["metric"] != "answerable")]
    assert published["published"].notna().all()
    data = finished / "data" / "generated" / "smoke"
    plans = pd.read_parquet(data / "plans.parquet")
    assert plans.groupby("query")["setting"].agg(set).map(lambda settings: settings == set(SETTINGS)).all()
    assert (data / "adapters" / "planner" / "adapter_model.safetensors").exists()
    failures = pd.read_csv(finished / "reports" / "smoke" / "tables" / "planner_failures.csv")
    assert failures.groupby("setting")["percent"].sum().to_numpy() == pytest.approx(100, abs=1e-3)
    assert (failures["ci_low"] < failures["ci_high"]).all()


def test_the_workflows_follow_the_contract(finished):
    data = finished / "data" / "generated" / "smoke"
    tables = {name: pd.read_parquet(data / f"{name}.parquet") for name in ("flows", "reworded", "tst_pairs")}
    flows, reworded, mined = tables.values()
    assert list(flows) == ["pair", "split", "request", "dsl", "apis", "n_calls", "conditions", "said"]
    assert (flows["said"].map(len) == flows["n_calls"]).all()
    assert flows["split"].value_counts().to_dict() == {"training": 300, "test": 40, "unseen": 20, "test_same": 40}
    provenance = pd.read_parquet(data / "flow_provenance.parquet")
    assert list(provenance) == ["pair", "trigger", "frame", "wordings", "quoted", "clauses"]
    assert (provenance["clauses"].map(len) == flows["n_calls"]).all()
    assert provenance["pair"].tolist() == flows["pair"].tolist()
    assert list(reworded) == ["pair", "request", "original", "dsl", "apis", "n_calls", "conditions"]
    assert set(reworded["pair"]) <= set(flows.loc[flows["split"] == "test", "pair"])
    assert len(reworded) == 40, "the first test flows do not depend on how many there are"
    assert (reworded["request"] != reworded["original"]).all()
    catalogue = Catalogue.from_lines((data / "catalogue.jsonl").read_text().split("\n")[:-1])
    assert catalogue == Catalogue.load(ROOT / "data" / "catalogue")
    vectors = load_file(data / "embeddings_requests.safetensors")["requests"]
    assert vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(400), abs=1e-5)
    assert list(mined) == ["a", "b", "cosine", "positive"]
    row = {pair: number for number, pair in enumerate(flows["pair"])}
    assert set(mined["a"]) | set(mined["b"]) <= set(flows.loc[flows["split"] == "training", "pair"])
    cosines = [vectors[row[a]] @ vectors[row[b]] for a, b in zip(mined["a"], mined["b"], strict=True)]
    assert mined["cosine"].to_numpy() == pytest.approx(cosines, abs=1e-5)
    assert (mined["positive"] == (mined["cosine"] > 0.7)).all()
    assert mined["positive"].sum() == len(mined) / 2 > 0


def test_every_figure_has_its_numbers(finished):
    folder = finished / "reports" / "smoke" / "figures"
    pictures = {path.stem for path in folder.glob("*.png")}
    assert pictures
    assert pictures == {path.stem for path in folder.glob("*.csv")}


EXPLORERS = {  # what the tables of each show, in words of their captions
    "explore_assistant": ["Items shown to the planner", "Tools found", "What the planner writes"],
    "explore_workflows": ["The flow", "What the catalogue of", "The nearest training pairs"],
}


@pytest.mark.parametrize("name", EXPLORERS)
def test_an_explorer_answers_an_example_in_a_batch_run(finished, tmp_path, name):
    before = set((finished / "data" / "generated").rglob("*"))
    notebook, output = f"notebooks/{name}.ipynb", tmp_path / f"{name}.ipynb"
    done = subprocess.run(
        [sys.executable, "-m", "papermill", "--cwd", "notebooks", "-p", "profile", "smoke", notebook, output],
        cwd=finished,
        env=command(finished)["env"] | {"WORKBOOK_BATCH": "1"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    shown = [out["data"] for cell in nbformat.read(output, 4).cells for out in cell.get("outputs", []) if "data" in out]
    page = BeautifulSoup("".join(data.get("text/html", "") for data in shown), "html.parser")
    captions = [caption.get_text() for caption in page.find_all("caption")]
    for caption, words in zip(captions, EXPLORERS[name], strict=False):
        assert caption.startswith(words)
    assert len(captions) >= len(EXPLORERS[name])
    assert set((finished / "data" / "generated").rglob("*")) == before
