import pytest

from lib.workflows.wording import HABITS, composed, split_wordings, typed


@pytest.mark.parametrize(("n", "held"), [(1, 1), (2, 1), (8, 2), (9, 3)])
def test_a_third_of_the_wordings_is_for_the_test(n, held):
    parts = split_wordings([str(i) for i in range(n)], seed=7, name="x")
    assert len(parts["test"]) == held
    assert len(parts["training"]) == max(1, n - held)
    assert n == 1 or not set(parts["training"]) & set(parts["test"])


def test_training_and_test_share_no_frame(wordings):
    training, test = wordings.frames["training"], wordings.frames["test"]
    assert set(training) == set(test)
    assert all(set(map(str, training[name])).isdisjoint(map(str, test[name])) for name in training)


BRANCHES = [("it is red", ["stop"]), ("it is green", ["go", "wave"]), ("", ["wait"])]


@pytest.mark.parametrize("build", HABITS["builds"])
@pytest.mark.parametrize(
    ("before", "branches", "after"),
    [
        (["look"], [], []),
        (["look", "think", "breathe"], [], []),
        (["look"], BRANCHES, ["sleep"]),
        ([], BRANCHES, ["sleep"]),
    ],
)
def test_a_request_says_each_part_once_and_in_order(draft, build, before, branches, after):
    actions = [*before, *(action for _, body in branches for action in body), *after]
    for seed in range(20):
        one = draft(seed, build == "telegraph", bool(branches))
        text = composed(one, build, "a light turns", before, branches, after)
        assert "{" not in text
        low = text.lower()
        places = [low.rindex(action) for action in actions]
        assert places == sorted(places)
        assert low.count("a light turns") == 1
        assert all(low.count(condition) == 1 for condition, _ in branches if condition)


def test_typing_changes_the_words_around_a_value_and_never_the_value(draft):
    changed = set()
    for seed in range(60):
        one = draft(seed)
        text = "please send " + one.token('"Hello And Bye"') + " with " + one.token("Outlook", app=True)
        made = typed(one, text)
        changed.add(made)
        assert '"Hello And Bye"' in made
        assert "outlook" in made.lower()
    assert any("w/ " in made for made in changed)
    assert any("outlook" in made for made in changed)
    assert any(made.endswith("Outlook.") for made in changed)
