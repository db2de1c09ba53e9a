"""What rankers find when a link of their data is cut, in a small world."""

import numpy as np
import pandas as pd

from lib.assistant.controls import cut_links, dealt_anew
from lib.evaluation.comparison import per_query_scores
from tests.assistant.test_ranking import recall


def test_with_a_link_cut_a_ranker_loses_what_the_log_gave(task):
    names = task.queries_of("evaluation")
    habit = (task.gold.set_index("query").loc[names, "kind"] == "habit").to_numpy()
    found = cut_links(task, 3, 3)
    assert found.index.tolist() == names
    means = found[habit].mean().droplevel(["metric", "k"])
    whole = recall(task, {"run": task.rank(task.fit()[1])})["run"]
    assert means.max() < whole - 20
    assert abs(means["labels_permuted"] - means["halfway_to_its_reverse"]) < 25


def test_the_reference_is_halfway_between_a_ranking_and_its_reverse(task):
    found = cut_links(task, 1, 3).droplevel(["metric", "k"], axis=1)
    group = pd.factorize(task.pairs["query"])[0]
    labels = dealt_anew(task.relevant, group, np.random.default_rng([task.seed, 100]))
    scores = task.predict(task.learn(labels=labels), task.evaluation)
    runs = {"forwards": task.rank(scores), "backwards": task.rank(-scores)}
    both = per_query_scores(runs, task.qrels, task.queries_of("evaluation"), [3]).xs("recall", axis=1, level="metric")
    np.testing.assert_array_equal(found["labels_permuted"], both["forwards", 3])
    np.testing.assert_allclose(found["halfway_to_its_reverse"], both.mean(axis=1))


def test_what_is_dealt_anew_stays_in_its_group_and_whole(task):
    items, persona = task.items["item"].to_numpy(), task.items["persona"]
    dealt = dealt_anew(items, persona, np.random.default_rng(0))
    assert sorted(dealt) == sorted(items)
    assert (task.items.set_index("item").loc[dealt, "persona"].to_numpy() == persona).all()
    assert (dealt != items).mean() > 0.9
