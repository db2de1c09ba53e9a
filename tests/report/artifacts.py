"""Artifacts of a small run for the pages of cases, with hostile text where people or models write."""

import pandas as pd

from lib.workbook.artifacts import Workbook
from lib.workbook.parameters import Parameters

EVIL = '</script><script>alert(1)</script> "it\'s" <img src=x onerror=alert(2)> & é'
POST = "shared_teams.PostUserNotification"
GOLD = 'triggerOutputs = await shared_github.IssueOpened({"repositoryName": "docs"});\n' + (
    f"""{POST}({{"body/messageBody": triggerOutputs?['body']?['title']}});"""
)


def assistant_frames():
    """Six evaluation queries of two kinds and one training query; items are i0 to i29."""
    names = [f"p{number}-q0" for number in range(7)]
    splits = ["evaluation"] * 6 + ["training"]
    queries = pd.DataFrame({"query": names, "persona": "p", "split": splits, "place": "home", "weekday": 0})
    queries["text"] = [f"query {number}" for number in range(6)] + [EVIL]
    queries.loc[0, "text"] = "Play my <usual>"
    queries["time"] = pd.Timestamp("2024-03-04 08:50")
    kinds = ["habit", "meaning"] * 3 + ["habit"]
    gold = pd.DataFrame({"query": names, "split": splits, "kind": kinds, "need": "guitar_lesson"})
    gold["relevant"] = [["i1", "i5"]] * 6 + [["i2"]]
    gold["apis"], gold["apps"] = [["send_mail"]] * 7, [["mail", "notes"]] * 7
    gold["plan"] = 'send_mail(to="a")'
    items = pd.DataFrame({"item": [f"i{number}" for number in range(30)], "persona": "p", "app": "mail"})
    items["title"] = [f"title {number}" for number in range(30)]
    items.loc[7, "title"] = EVIL
    items["text"] = items["title"] + ". and more"
    order = {"bm25t": range(30), "lambdamart": [5, 1, *range(6, 30)], "random": range(30)}
    rankings = pd.DataFrame(
        [
            (method, query, f"i{item}", rank, 0.0)
            for method, ranked in order.items()
            for query in names[:6]
            for rank, item in enumerate(ranked, 1)
        ],
        columns=["method", "query", "item", "rank", "score"],
    )
    plans = pd.DataFrame({"query": names[:4], "setting": "rag", "text": ["send_mail(to='a')", EVIL, "", "x("]})
    plans["ast_accuracy"] = plans["exact_match"] = [100.0, 0.0, 0.0, 0.0]
    plans["failure"] = ["", "wrong_api", "unparsed", "unparsed"]
    return {"queries": queries, "gold": gold, "items": items}, {"plans": plans}, rankings


def flow_frames():
    """A flow answered under four conditions, one nobody was asked about, and a training pair."""
    flows = pd.DataFrame({"pair": ["test-0", "test-1", "training-0"], "split": ["test", "test_same", "training"]})
    flows["request"], flows["dsl"] = ["When an issue opens, tell me", EVIL, "old"], GOLD
    flows["apis"] = [["shared_github.IssueOpened", POST]] * 3
    other = GOLD.replace("'title'", "'body'")
    texts = {"right": GOLD + "\n", "argument": other, "copied": other, "broken": f"await {EVIL}"}
    answers = pd.DataFrame({"condition": list(texts), "unit": "test-0", "text": list(texts.values())})
    answers["finished"], answers["parsed"] = True, [True, True, True, False]
    answers["similarity"] = [1.0, 1.0, 1.0, 0.0]
    answers["executed"] = [True, False, False, None]
    answers["error"] = [None, None, None, "line 1, column 7: no call"]
    answers["made_up_names"] = answers["made_up_parameters"] = [[]] * 4
    return flows, answers


def write_artifacts(root):
    """The artifacts of a run of profile smoke, as far as the pages of cases read them."""
    written = {"01_data_gen": {}, "02_context_baselines": {}, "07_planner": {}, "09_dsl_ablation": {}}
    data, planner, written["02_context_baselines"]["baseline_rankings"] = assistant_frames()
    data["flows"], written["09_dsl_ablation"]["ablation_scores"] = flow_frames()
    for notebook, frames in (written | {"01_data_gen": data, "07_planner": planner}).items():
        for name, frame in frames.items():
            Workbook(notebook, Parameters(profile="smoke"), root).write(name, frame)
