"""How prompts are put into batches, and where their shared beginnings are cut off to be read once.

Both are functions of the prompts of a call that are computed: in bfloat16 an answer depends on the batch it was
computed in and on where its prompt was cut.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

SHORTEST_PREFIX = 16  # tokens; below it, reading what all prompts share apart costs more than it saves
LEAST_PADDING = 256  # tokens; less is not worth a batch
SHORTEST_GROUP_PREFIX = 256  # below it, batches of prompts of like length save more than groups do


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt of a batch: its tokens, where they are cut (see `shared_prefixes`), the grammar of the answer or ""."""

    tokens: list[int]
    cuts: tuple[int, ...] = ()
    grammar: str = ""


def shared_prefixes(tokens: Sequence[list[int]]) -> list[tuple[int, ...]]:
    """Where each prompt is cut: the lengths of its beginnings that are read once for several prompts, shortest first:
    what all begin with, what groups of them share beyond, and so on. Each keeps at least one token of its own."""
    order = sorted(range(len(tokens)), key=lambda i: tokens[i])
    common = []
    for left, right in itertools.pairwise([tokens[i] for i in order]):
        limit = min(len(left), len(right)) - 1
        common.append(next((i for i in range(limit) if left[i] != right[i]), limit))
    cuts: list[tuple[int, ...]] = [()] * len(tokens)
    groups = [(0, len(order), SHORTEST_PREFIX)]  # neighbours in lexicographic order, from and to
    while groups:
        start, stop, shortest = groups.pop()
        if stop - start < 2:
            continue
        shared, known = min(common[start : stop - 1]), cuts[order[start]]
        if shared - sum(known[-1:]) >= shortest:
            # What follows on a cut is read at two thirds of the rate, so groups read a short beginning again.
            known = tuple(cut for cut in known if cut >= SHORTEST_GROUP_PREFIX)
            for i in order[start:stop]:
                cuts[i] = (*known, shared)
        edges = [start, *(i + 1 for i in range(start, stop - 1) if common[i] == shared), stop]
        groups += [(left, right, SHORTEST_GROUP_PREFIX) for left, right in itertools.pairwise(edges)]
    return cuts


def plan_batches(
    names: Sequence[tuple[str, ...]],
    tokens: Sequence[Sequence[int]],
    cuts: Sequence[tuple[int, ...]],
    batch_size: int,
    new_tokens: int,
    tokens_per_batch: int,
) -> list[list[int]]:
    """Batches of row numbers, longest prompts first, prompts with a shared beginning side by side. They do not depend
    on the order of the prompts. A row takes the room of the longest one of its batch, so one that is less than half as
    long (and by more than a few tokens) begins the next batch.

    Args:
        names, tokens, cuts: what tells each prompt from every other, its token ids, its cuts, (n,) each.
        batch_size, tokens_per_batch: rows at most, at least one; rows times the longest with its `new_tokens`, at most.
    """
    rank = [(-len(ids), name) for ids, name in zip(tokens, names, strict=True)]
    first: dict[tuple[int, ...], tuple] = {}  # of the prompts with a beginning, the one that comes first
    beginnings = [[tuple(ids[:cut]) for cut in ends] for ids, ends in zip(tokens, cuts, strict=True)]
    for i, shared in enumerate(beginnings):
        for beginning in shared:
            first[beginning] = min(first.get(beginning, rank[i]), rank[i])
    batches, longest = list[list[int]](), 0
    for i in sorted(range(len(names)), key=lambda i: [*(first[beginning] for beginning in beginnings[i]), rank[i]]):
        own, rows = len(tokens[i]) + new_tokens, len(batches[-1]) if batches else batch_size
        longest = max(longest, own)
        full = rows == batch_size or (rows + 1) * longest > tokens_per_batch
        if full or longest - own > max(own, LEAST_PADDING):
            batches.append([])
            longest = own
        batches[-1].append(i)
    return batches
