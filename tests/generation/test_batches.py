import random

import pytest

from lib.generation.decoding import plan_batches, shared_prefixes

FAR = list(range(1000, 1400))


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        ([], []),
        ([list(range(40)), list(range(30))], [(29,), (29,)]),
        ([list(range(10)), list(range(12))], [(), ()]),
        # two of three share 300 tokens more than all three
        (
            [[*range(20), *FAR[:300], 1], [*range(20), 7, *FAR], [*range(20), *FAR[:300], 2]],
            [(320,), (20,), (320,)],
        ),
        # 200 more are too few for a group, 300 for one within it are counted from the last cut
        (
            [[*range(20), *FAR[:200], 1], [*range(20), *FAR[:300], 1], [*range(20), *FAR[:300], 2], [*range(20), 5]],
            [(20,), (320,), (320,), (20,)],
        ),
    ],
)  # fmt: skip
def test_shared_prefixes(tokens, expected):
    assert shared_prefixes(tokens) == expected


def plan(tokens, batch_size=3, new_tokens=10, room=10_000):
    names = [(str(ids),) for ids in tokens]
    return [
        [tokens[i] for i in batch]
        for batch in plan_batches(names, tokens, shared_prefixes(tokens), batch_size, new_tokens, room)
    ]


def test_batches_keep_to_the_room_there_is():
    tokens = [[i] * n for i, n in enumerate((50, 40, 10, 10, 10, 10, 200))]
    lengths = [[len(ids) for ids in batch] for batch in plan(tokens, room=130)]
    assert lengths == [[200], [50, 40], [10, 10, 10], [10]]


def test_groups_stay_together_and_the_order_does_not_matter():
    generator = random.Random(0)
    shared = [[7] * 20 + generator.choices(range(50), k=300) for _ in range(4)]
    tokens = [beginning + generator.choices(range(50), k=n) for beginning in shared for n in (1, 30, 60)]
    planned = plan(tokens)
    assert [len({tuple(ids[:320]) for ids in batch}) for batch in planned] == [1, 1, 1, 1]
    for seed in range(5):
        assert plan(random.Random(seed).sample(tokens, len(tokens))) == planned
