from dataclasses import replace

import pandas as pd

from lib.workflows.ablation_grid import UNSEEN_FINETUNED, Unseen, unseen_name
from lib.workflows.pages.dsl_ablation_unseen import held, held_table, shown_table
from tests.workflows.pages.studies import ASKED, study_of

NONE, ADDED = unseen_name(0, "none"), unseen_name(1, "none")
N = 14
REQUESTS = pd.DataFrame({"pair": [f"q{i}" for i in range(N)], "apis": [["new.Api", "old.Api"]] * N})
TRAINING = pd.DataFrame({"apis": [["old.Api"], ["old.Other"]]})
POOLS = {0: TRAINING, 1: pd.concat([TRAINING, pd.DataFrame({"apis": [["new.Api"]]})], ignore_index=True)}
SHOTS = {0: [[0, 1]] * N, 1: [[0, 2]] + [[0, 1]] * (N - 1)}
UNSEEN = Unseen(REQUESTS, {"new.Api", "new.Other"}, POOLS, SHOTS)
CALLS = {"new": "new.Api();", "old": "old.Api();", "broken": "new.Api("}


def study_calling(calls):
    study = study_of({name: [0.5] * N for name in calls})
    for name, kinds in calls.items():
        study.scores.loc[study.scores["condition"] == name, "text"] = [CALLS[kind] for kind in kinds]
    return study


def test_whether_new_apis_get_into_the_prompt():
    semantic = pd.Series([["old.Api", "new.Api"]] * 7 + [["old.Api", "other"]] * 7, REQUESTS["pair"])
    study = study_of({NONE: [0.5] * N})
    shown = shown_table(study, UNSEEN, semantic, 2)
    assert shown.frame["shown by"].tolist() == [
        "no examples of the new APIs",
        "1 example of each added",
        "SFD, 2 definitions",
    ]
    texts = shown.frame["new APIs shown, %"].tolist()
    assert texts[0] == "0.0 [0.0, 21.5]"
    assert texts[1].startswith("7.1 [")
    assert texts[2].startswith("50.0 [")
    assert shown_table(study, UNSEEN, semantic, 1).frame.iloc[-1].tolist() == ["SFD, 1 definitions", "0.0 [0.0, 21.5]"]


def test_nothing_was_asked():
    assert held(study_of({"pretrained_5_in_context": [0.5]}), ASKED, Unseen(REQUESTS.head(0), (), {}, {})) is None


def test_flows_that_call_new_apis():
    study = study_calling({NONE: ["old"] * N, ADDED: ["new"] * N, UNSEEN_FINETUNED: ["broken"] * N})
    results = held(study, ASKED, UNSEEN)
    assert results.names == [NONE, ADDED, UNSEEN_FINETUNED]
    assert results.called.mean().tolist() == [0, 100, 0]
    assert results.rates["value"].tolist() == [0, 100, 0]
    assert results.rates["n"].tolist() == [N] * 3
    shown = held_table(results)
    assert shown.frame.columns[:3].tolist() == ["few-shots and definitions", "flows", "new APIs called, %"]
    assert shown.frame["new APIs called, %"].tolist() == ["0 [0, 22]", "100 [78, 100]", "0 [0, 22]"]


def test_each_row_counts_the_flows_that_it_was_asked_for():
    study = study_calling({NONE: ["old"] * N, ADDED: ["new"] * N, UNSEEN_FINETUNED: ["new"] * N})
    scores = study.scores
    late = scores["unit"].isin(scores["unit"].unique()[6:])
    fewer = replace(study, scores=scores[~(late & scores["condition"].isin([NONE, ADDED]))])
    results = held(fewer, ASKED, UNSEEN)
    assert results.rates[["value", "n"]].to_numpy().tolist() == [[0, 6], [100, 6], [100, N]]
    assert held_table(results).frame["flows"].tolist() == [6, 6, N]
