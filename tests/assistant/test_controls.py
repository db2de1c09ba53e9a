"""What rankers find when a link of their data is cut, in a small world."""

import numpy as np
import pandas as pd

from lib.assistant.controls import cut_links, dealt_anew, permute_logs
from lib.evaluation.comparison import per_query_scores
from tests.assistant.test_ranking import recall, task  # noqa: F401


def test_with_a_link_cut_a_ranker_loses_what_the_log_gave(task):  # noqa: F811
    names = task.queries_of("evaluation")
    habit = (task.gold.set_index("query").loc[names, "kind"] == "habit").to_numpy()
    found = cut_links(task, 3, 3)
    assert found.index.tolist() == names
    means = found[habit].mean().droplevel(["metric", "k"])
    whole = recall(task, {"run": task.rank(task.fit()[1])}, kind="habit")["run"]
    assert means.max() < whole - 20
    assert abs(means["labels_permuted"] - means["halfway_to_its_reverse"]) < 25


def test_the_reference_is_halfway_between_a_ranking_and_its_reverse(task):  # noqa: F811
    found = cut_links(task, 1, 3).droplevel(["metric", "k"], axis=1)
    group = pd.factorize(task.pairs["query"])[0]
    labels = dealt_anew(task.relevant, group, np.random.default_rng([task.seed, 100]))
    scores = task.predict(task.learn(labels=labels), task.evaluation)
    runs = {"forwards": task.rank(scores), "backwards": task.rank(-scores)}
    both = per_query_scores(runs, task.qrels, task.queries_of("evaluation"), [3]).xs("recall", axis=1, level="metric")
    np.testing.assert_array_equal(found["labels_permuted"], both["forwards", 3])
    np.testing.assert_allclose(found["halfway_to_its_reverse"], both.mean(axis=1))


def test_permuted_logs_stay_whole_and_with_their_persona(task):  # noqa: F811
    items, opens = task.items, task.opens
    permuted = permute_logs(items, opens, np.random.default_rng(0))
    persona = items.set_index("item")["persona"]
    assert (permuted["item"].map(persona) == opens["item"].map(persona)).all()
    assert pd.Series(permuted["item"].to_numpy()).groupby(opens["item"].to_numpy()).nunique().max() == 1
    assert (permuted["item"] != opens["item"]).mean() > 0.9
    pd.testing.assert_frame_equal(permuted[["time", "place"]], opens[["time", "place"]])
