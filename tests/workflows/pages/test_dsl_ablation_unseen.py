from dataclasses import replace

import pandas as pd

from lib.evaluation.inference import mcnemar_counts
from lib.workflows.ablation_grid import UNSEEN_FINETUNED, UNSEEN_HELD, Unseen, unseen_name
from lib.workflows.pages.dsl_ablation_unseen import (
    experiments,
    held,
    held_in_words,
    held_table,
    shown_table,
    standing_in_words,
)
from tests.workflows.pages.studies import ASKED, study_of

NONE, GOLD, ADDED = (
    unseen_name((0, False), "none"),
    unseen_name((0, False), "gold"),
    unseen_name((1, False), "none"),
)
N = 14
REQUESTS = pd.DataFrame({"pair": [f"q{i}" for i in range(N)], "apis": [["new.Api", "old.Api"]] * N})
TRAINING = pd.DataFrame({"apis": [["old.Api"], ["old.Other"]]})
POOLS = {0: TRAINING, 1: pd.concat([TRAINING, pd.DataFrame({"apis": [["new.Api"]]})], ignore_index=True)}
SHOTS = {(0, False): [[0, 1]] * N, (1, False): [[0, 2]] + [[0, 1]] * (N - 1), (1, True): [[0, 2]] * N}
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
        "1 example of each added, a slot kept",
        "SFD, 2 definitions",
    ]
    texts = shown.frame["new APIs shown, %"].tolist()
    assert texts[0] == "0 by construction"
    assert texts[1].startswith("7.1 [")
    assert texts[2] == "100.0 [100.0, 100.0]"
    assert texts[3].startswith("50.0 [")
    assert shown.caption.endswith("14 requests, 95% intervals. 2 APIs are held out; 1 pairs are added.")
    assert shown_table(study, UNSEEN, semantic, 1).frame.iloc[-1].tolist() == ["SFD, 1 definitions", "0.0 [0.0, 0.0]"]


def test_in_how_many_prompts_an_added_example_stands():
    assert standing_in_words(UNSEEN, 3) == (
        "Of the 3 requests tested below an added example stands in the prompt of 1 with 1 example of each added; 3 "
        "with 1 example of each added, a slot kept. Where it does not, the prompt is the same as without."
    )


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
    assert shown.frame.columns[:3].tolist() == ["few-shots and definitions", "new APIs called, %", "similarity"]
    assert shown.frame["new APIs called, %"].tolist() == ["0 [0, 22]", "100 [78, 100]", "0 [0, 22]"]
    assert shown.caption.startswith("Flows for 14 requests")


def test_who_calls_them_more_often():
    study = study_calling(
        {NONE: ["old"] * N, GOLD: ["new"] * N, ADDED: ["new"] * 13 + ["old"], UNSEEN_FINETUNED: ["old"] * N}
    )
    text = held_in_words(held(study, ASKED, UNSEEN))
    assert text.startswith(
        "**0 of 15 differences are settled**. New APIs called: significant differences (McNemar, Holm): "
    )
    assert "1 example of each added, no definitions against no examples of the new APIs, no definitions; 1 ex" in text
    assert "gold definitions against" not in text
    assert "The highest without gold definitions: 1 example of each added, no definitions 93 [69, 99]%. Bes" in text
    assert text.endswith("Beside it: fine-tuned model, no few-shots 0 [0, 22]%. Of 14 requests.")


def test_the_fine_tuned_model_under_the_grammar_is_a_rival_too():
    calls = {NONE: ["old"] * N, ADDED: ["new"] * N, UNSEEN_FINETUNED: ["old"] * N}
    calls[UNSEEN_HELD] = ["new"] * 2 + ["old"] * (N - 2)
    text = held_in_words(held(study_calling(calls), ASKED, UNSEEN))
    assert "no definitions against fine-tuned model, no few-shots, under the grammar and the catalogue" in text
    assert "under the grammar and the catalogue 14 [4, 40]%. Of 14 requests." in text


def test_each_row_counts_the_flows_that_it_was_asked_for():
    study = study_calling({NONE: ["old"] * N, ADDED: ["new"] * N, UNSEEN_FINETUNED: ["new"] * N})
    scores = study.scores
    late = scores["unit"].isin(scores["unit"].unique()[6:])
    fewer = replace(study, scores=scores[~(late & scores["condition"].isin([NONE, ADDED]))])
    results = held(fewer, ASKED, UNSEEN)
    assert results.rates[["value", "n"]].to_numpy().tolist() == [[0, 6], [100, 6], [100, N]]
    assert held_table(results).caption.startswith("Flows for 6 to 14 requests a row")
    # the six flows of both, not eight more that one of them was never asked for
    assert results.p_value(UNSEEN_FINETUNED, NONE) == mcnemar_counts(6, 0)
    assert results.p_value(UNSEEN_FINETUNED, ADDED) == 1
    assert held_in_words(results).endswith("no few-shots 100 [78, 100]%. Of 6 to 14 requests a row.")


def test_nobody_is_shown_to_call_them_more_often():
    study = study_calling({NONE: ["old"] * N, ADDED: ["new"] + ["old"] * 13, UNSEEN_FINETUNED: ["old"] * N})
    assert "no row is shown to differ from the first one or from the fine-tuned model" in held_in_words(
        held(study, ASKED, UNSEEN)
    )


def test_each_way_is_an_experiment():
    found = experiments(ASKED)
    assert found[NONE] == "unseen APIs, no examples of the new APIs"
    assert found[unseen_name((1, True), "fd_sfd", "grounded")] == "unseen APIs, 1 example of each added, a slot kept"
    assert "pretrained_5" not in found
    assert UNSEEN_HELD not in found
