"""What `make report PROFILE=smoke` makes on a copy of the project; `test_report_again` changes, breaks and kills it."""

import json
import re

import pandas as pd
import pytest

from lib.evaluation.claims import WORDS, read_claims
from lib.workbook.artifacts import ROOT
from lib.workbook.parameters import NOTEBOOKS

pytestmark = pytest.mark.slow

INTERVAL = "ci_low ci_high n"
# The least that each table of the contract has.
CONTRACT = {
    "dataset": "quantity published ours",
    "context_retrieval": f"method topics kind metric k value n_topics over_queries published {INTERVAL}",
    "context_cost": "method p50_ms p95_ms",
    "tool_retrieval": f"world setting retriever target topics k recall n_topics {INTERVAL}",
    "planner": f"world planner context setting topics metric value n_topics published {INTERVAL}",
    "few_shot_retrieval": f"selector pairs test_set shots metric value {INTERVAL}",
    "dsl_ablation": f"selector shots definitions generator decoding test_set metric value {INTERVAL} "
    "delta delta_ci_low delta_ci_high published_delta table",
    "claims": f"claim paper statement k effect p_value p_holm published inside word reason {INTERVAL}",
    "transfer": "claim",
}
METHODS = {"random", "recency", "bm25t", "semantic", "cot", "finetuned", "finetuned_cot", "lambdamart"}
METHODS |= {"cot_distilled", "lambdamart_rrf", "lambdamart_2"}


def table(finished, name):
    return pd.read_csv(finished / "reports" / "smoke" / "tables" / f"{name}.csv")


def test_the_record_says_what_ran(finished):
    record = json.loads((finished / "reports" / "smoke" / "run.json").read_text())
    assert record["profile"] == "smoke"
    assert record["status"] == dict.fromkeys(NOTEBOOKS, "ok")
    assert all(record["seconds"][name] > 0 and 100 < record["peak_mib"][name] < 8 * 1024 for name in NOTEBOOKS)
    assert record["versions"]["torch"]
    assert not list(finished.parent.rglob("pwned")), "the folder's name reached no shell bare"


@pytest.mark.parametrize("name", CONTRACT)
def test_a_table_follows_the_contract(finished, name):
    found = table(finished, name)
    assert len(found) or name == "transfer"  # public data may be missing
    assert set(CONTRACT[name].split()) <= set(found)
    if INTERVAL in CONTRACT[name]:
        value = next(column for column in ("value", "recall", "effect") if column in found)
        known = found.dropna(subset=[value, "ci_low", "ci_high"])
        assert ((known["ci_low"] <= known[value] + 1e-6) & (known[value] <= known["ci_high"] + 1e-6)).all()


def test_there_are_few_tables(finished):
    tables = sorted(path.name for path in (finished / "reports" / "smoke" / "tables").glob("*.csv"))
    assert len(tables) <= 35
    assert len(list((finished / "reports" / "smoke").rglob("*.csv"))) == len(tables), "a figure has no own CSV"


def test_every_method_and_topic_is_there(finished):
    retrieval = table(finished, "context_retrieval")
    assert set(retrieval["method"]) >= METHODS
    assert set(retrieval["topics"]) == {"known", "new"}
    assert set(table(finished, "tool_retrieval")["world"]) >= {"explicit", "mixed", "hard"}
    ablation = table(finished, "dsl_ablation")
    assert {"in_context", "finetuned"} <= set(ablation["generator"])
    assert set(ablation["test_set"]) >= {"test", "test_same", "unseen"}


def test_every_claim_has_a_row_whose_word_follows_from_its_interval(finished):
    claims = table(finished, "claims")
    assert not claims.duplicated(["claim", "k"]).any()
    assert set(claims["claim"]) == {claim.claim for claim in read_claims(ROOT / "data" / "claims.yaml")}
    assert set(claims["word"]) <= set(WORDS)


def test_pages_have_figures_with_words_and_no_error(finished):
    for name in NOTEBOOKS:
        page = (finished / "reports" / "smoke" / f"{name}.html").read_text(encoding="utf-8")
        assert "<h1>" in page
        assert "banner" not in page.partition("<article")[2]
        assert all(len(alt) > 30 for alt in re.findall(r'<img alt="([^"]*)"[^>]*_images/', page)), name
