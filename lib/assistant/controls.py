"""Negative controls: the same data with one link cut. A ranker that still profits from the link has seen it elsewhere.

What a method sees or learns from is changed in copies; evaluation keeps the true labels. A ranker of labels dealt anew
is no random order: what stands out in any signal comes first or last under it, and what is looked for stands out. What
tells whether the true labels came through is the direction: without them a ranking and its reverse find the same on
average.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from lib.assistant.ranking import RankingTask
from lib.assistant.signals import signals
from lib.evaluation.comparison import per_query_scores

LOG_DRAWS = 2  # at most: each needs features of its own


def cut_links(task: RankingTask, draws: int, k: int) -> pd.DataFrame:
    """Recall at k of rankers with one link cut, the mean over draws: a row an evaluation query.

    `logs_permuted`: logs dealt anew among a persona's items, at most `LOG_DRAWS` draws; it should find no more than a
    ranker without usage signals. `labels_permuted`: labels dealt anew among a query's candidates; it should find no
    more than `halfway_to_its_reverse`, the mean of its recall and that of its rankings reversed.
    """
    names, group = task.queries_of("evaluation"), pd.factorize(task.pairs["query"])[0]
    item, logs, dealt, reverse = task.items["item"].to_numpy(), [], [], []
    for draw in range(min(draws, LOG_DRAWS)):
        owner = dealt_anew(item, task.items["persona"], np.random.default_rng([task.seed, draw]))
        opens = task.opens.assign(item=task.opens["item"].map(dict(zip(item, owner, strict=True))))
        features = signals(task.pairs, task.queries, task.items, opens, task.text)
        logs.append(task.predict(task.learn(features=features), task.evaluation, features))
    for draw in range(draws):
        labels = dealt_anew(task.relevant, group, np.random.default_rng([task.seed, 100 + draw]))
        dealt.append(task.predict(task.learn(labels=labels), task.evaluation))
        reverse.append(-dealt[-1])
    found = {}
    for name, drawn in (("logs_permuted", logs), ("labels_permuted", dealt), ("halfway_to_its_reverse", reverse)):
        runs = {str(draw): task.rank(scores) for draw, scores in enumerate(drawn)}
        scored = per_query_scores(runs, task.qrels, names, [k]).xs("recall", axis=1, level="metric")
        found[name] = scored.mean(axis=1)
    found["halfway_to_its_reverse"] = (found["labels_permuted"] + found["halfway_to_its_reverse"]) / 2
    table = pd.DataFrame({(name, "recall", k): values for name, values in found.items()})
    table.columns = table.columns.set_names(["method", "metric", "k"])
    return table


def dealt_anew(values: np.ndarray, group: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Values dealt anew within their groups (numbers or names, one a row): of labels, a query's candidates have as many
    relevant items, but any of them."""
    dealt = np.empty_like(values)
    dealt[np.argsort(group, kind="stable")] = values[np.lexsort((rng.random(len(group)), group))]
    return dealt
