"""The planner's settings: who is asked when they are tried, and what is said of the trials."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from lib.assistant import planner_choice as module
from lib.assistant.pages import planner_choice as page
from lib.assistant.planner import SETTINGS, Material
from lib.assistant.planner_choice import Candidate, Trials, among_training, asked, better, candidates, compare, trials
from lib.assistant.retrained_planner import Planned, Retraining
from lib.generation.finetune import Training
from lib.generation.kept import Keeper, Kept
from tests.assistant.test_instruct_planner import lesson  # noqa: F401

USED = Candidate(3e-3, 1, 10, 3)


@pytest.fixture
def among(lesson):  # noqa: F811
    return among_training(lesson)


def test_each_candidate_differs_from_the_one_in_use_in_one_setting():
    first, *others = candidates(USED)
    assert first == USED
    differing = [sum(a != b for a, b in zip(one, USED, strict=True)) for one in others]
    assert differing == [1] * len(others)
    assert len({one.name for one in (first, *others)}) == len(others) + 1
    of_two = candidates(USED._replace(epochs=2))
    assert sorted(one.epochs for one in of_two) == [1, 2, 2, 2, 2, 2, 4]
    assert USED in of_two


def test_a_fifth_of_the_training_personas_is_asked_and_no_evaluation_query(lesson, among):  # noqa: F811
    queries = lesson.material.queries
    true = set(queries.query("split == 'evaluation'")["query"])
    assert not true & set(among.material.queries["query"])
    sides = among.material.queries.groupby("split")["persona"].agg(set)
    assert not sides["training"] & sides["evaluation"]
    assert len(sides["evaluation"]) == round(0.2 * len(sides["training"] | sides["evaluation"]))
    needs = among.material.queries["query"].map(among.material.gold.set_index("query")["need"])
    assert not set(needs) & lesson.held_out
    assert among.held_out == lesson.held_out
    learned = set(among.queries(10_000)["persona"])
    prompts, kinds = asked(among.material, among.seed)
    assert learned <= sides["training"]
    assert set(prompts["query"].str.split("-").str[0]) <= sides["evaluation"]
    assert set(prompts["setting"]) == set(SETTINGS)
    assert kinds.index.is_unique


def test_labels_of_evaluation_queries_change_nothing_that_is_tried(lesson, among):  # noqa: F811
    material = lesson.material
    true = material.queries.query("split == 'evaluation'")["query"]
    other = material.gold.assign(plan="nothing()", apis=[["show_lyrics"]] * len(material.gold))
    gold = material.gold.where(~material.gold["query"].isin(true), other)
    changed = among_training(replace(lesson, material=replace(material, gold=gold)))
    pairs, about = among.pairs(among.queries(40))
    again, _ = changed.pairs(changed.queries(40))
    pd.testing.assert_frame_equal(pairs, again)
    assert about["queries"] > 10
    pd.testing.assert_frame_equal(asked(among.material, 3)[0], asked(changed.material, 3)[0])


def small_material():
    names = [f"q{n}" for n in range(40)]
    queries = pd.DataFrame({"query": names, "persona": [f"p{n // 2}" for n in range(40)]})
    gold = pd.DataFrame({"query": names, "need": [f"n{n % 8}" for n in range(40)]})
    return Material(None, queries, gold, pd.DataFrame(), pd.DataFrame(), 10, 3)


def found_of(rights):
    """Accuracy frames: so many of 40 queries right in every setting."""
    names = [f"q{n}" for n in range(40)]
    return {
        candidate: pd.DataFrame({setting: np.where(np.arange(40) < right, 100.0, 0.0) for setting in SETTINGS}, names)
        for candidate, right in rights.items()
    }


def test_the_best_is_told_from_chance():
    worse, near, best = candidates(USED)[1:4]
    compared = compare(found_of({USED: 16, worse: 2, near: 17, best: 36}), USED, small_material())
    assert compared["mean"].tolist() == [40.0, 5.0, 42.5, 90.0]
    assert compared["difference"].tolist() == [0.0, -35.0, 2.5, 50.0]
    above = better(compared)
    assert above["mean"].tolist() == [90.0]
    keepers = [Keeper(None, Kept("", 9, {}), None)] * 4
    text = page.in_words(Trials(compared, USED, keepers))
    assert text.startswith(
        "One trial is better than the settings in use, its interval above 0 (learning rate 0.003, passes 2"
    )
    assert "1 of 3 are worse with an interval below 0." in text
    frame = page.table(Trials(compared, USED, keepers)).frame
    assert frame["against the first"].tolist()[0] == ""
    assert frame["learning rate"].tolist()[:2] == ["0.003", "0.001"]
    same = compare(found_of({USED: 16, near: 17}), USED, small_material())
    assert "so those in use stay." in page.in_words(Trials(same, USED, keepers))


def test_queries_that_one_was_not_asked_are_left_out():
    found = found_of({USED: 16, candidates(USED)[1]: 20})
    found[USED] = found[USED].iloc[:30]
    compared = compare(found, USED, small_material())
    assert compared["n"].tolist() == [30, 30]
    assert compared["mean"].tolist() == pytest.approx([100 * 16 / 30, 100 * 20 / 30])


def test_all_candidates_are_tried_or_none(lesson, tmp_path, monkeypatch):  # noqa: F811
    seen = []

    def planned(prompts, kinds, again, how, queries):
        seen.append((again.settings, how.lesson.material.n_tools, how.lesson.material.n_items, again.most))
        if len(seen) > limit:
            return None
        gold = how.lesson.material.gold.set_index("query")["plan"]
        return Planned(prompts.assign(text=prompts["query"].map(gold)), "a keeper", again.model)

    monkeypatch.setattr(module, "planned", planned)
    how = Retraining(lesson, 40, False, tmp_path, tmp_path)
    limit = 3
    assert trials(how, "small", Training(learning_rate=3e-3), 64, 5) is None
    limit, seen = 100, []
    found = trials(how, "small", Training(learning_rate=3e-3), 64, 5)
    assert found.compared["mean"].tolist() == [100.0] * 6
    assert found.used == Candidate(3e-3, 1, lesson.material.n_tools, lesson.material.n_items)
    assert [settings.epochs for settings, *_ in seen] == [1, 1, 1, 2, 1, 1]
    assert [tools for _, tools, *_ in seen] == [3, 3, 3, 3, 1, 3]
    assert [items for _, _, items, _ in seen] == [2, 2, 2, 2, 2, 4]
