"""Definitions and few-shots found by the clauses of a request instead of the whole of it, merged by coverage.

Vectors have unit length. `Asked` has those of some requests and of their clauses; the functions that search give what
`lib.workflows.definitions.semantic_definitions` and `lib.workflows.target_similarity.nearest_shots` give.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from lib.retrieval.neighbours import nearest
from lib.workflows.clauses import Cut, clause_texts
from lib.workflows.target_similarity import few_shot_scores, ranked_shots

Embed = Callable[[list[str]], np.ndarray]
FURTHER = 3  # times as many candidates as few-shots are looked up, for the whole request and for each clause
DEFINITION_WEIGHTS = (0.0, 0.25, 0.5, 0.75, 1.0)  # of the whole request, to choose from
SHOT_WEIGHTS = (0.0, 0.5, 1.0)  # of coverage and of new APIs against nearness, to choose from
NEW_WEIGHTS = (0.0, 0.05, 0.1, 0.2)
SETS = ("set", "near_set")  # few-shots chosen for coverage alone, and for coverage while they stay alike
ALIKE = 0.95  # of the nearest few-shots' mean Jaccard, which a `near_set` keeps on requests held aside


class Asked(NamedTuple):
    """Vectors: `whole` (requests, dimensions); `clauses` (all clauses, dimensions), those of request i being rows
    `ends[i - 1]` to `ends[i]`."""

    whole: np.ndarray
    clauses: np.ndarray
    ends: np.ndarray

    def of(self, request: int) -> slice:
        return slice(int(self.ends[request - 1]) if request else 0, int(self.ends[request]))


def ask(requests: Sequence[str], cut: Cut, embed: Embed, whole: np.ndarray | None = None) -> Asked:
    """The vectors of requests and of their clauses.

    Args:
        embed: texts to unit vectors, one row a text.
        whole: vectors of the requests, where they are known.
    """
    parts = [clause_texts(request, cut(request)) for request in requests]
    ends = np.cumsum([len(part) for part in parts])
    flat = list(itertools.chain.from_iterable(parts))
    return Asked(embed(list(requests)) if whole is None else whole, embed(flat), ends)


# ---------------------------------------------------------------- definitions


def clause_definitions(asked: Asked, texts: np.ndarray, names: Sequence[str], n: int, weight: float) -> list[list[str]]:
    """The n APIs of each request by coverage: the nearest of each clause, then each one's second, and so on (SFD by
    clause); an API that another clause has brought is passed over.

    Args:
        texts: vectors of the APIs' texts, (APIs, dimensions).
        names: of these APIs. Equally near ones keep their order.
        n: definitions a request, as for the whole request.
        weight: of the whole request's cosine against the clause's, 0–1; with 1 it is SFD by the whole request.
    """
    whole, parts = asked.whole @ texts.T, asked.clauses @ texts.T
    found = []
    for request in range(len(asked.whole)):
        scores = np.round((1 - weight) * parts[asked.of(request)] + weight * whole[request], 6)
        found.append([names[api] for api in _in_turn(scores, min(n, len(names)))])
    return found


def _in_turn(scores: np.ndarray, n: int) -> list[int]:
    """The n columns that the rows choose in turn, each its best that is not yet chosen; who is surest goes first."""
    best = np.argpartition(-scores, n - 1, axis=1)[:, :n] if n < scores.shape[1] else np.argsort(-scores, axis=1)
    best = np.array([row[np.lexsort((row, -line[row]))] for row, line in zip(best, scores, strict=True)])
    order = np.argsort(-scores.max(axis=1), kind="stable")
    chosen: dict[int, None] = {}
    queues = [iter(best[row]) for row in order]
    while len(chosen) < n:
        for queue in queues:
            api = next((int(one) for one in queue if int(one) not in chosen), None)
            if api is not None and len(chosen) < n:
                chosen[api] = None
    return list(chosen)


# ---------------------------------------------------------------- few-shots


class Weights(NamedTuple):
    """Of few-shots as a set. `coverage`: of how much nearer a few-shot comes to a clause than those before it did,
    against its nearness to the request, 0–1; `new`: of the share of its APIs that those before it do not call."""

    coverage: float
    new: float


def chosen_shots(
    pairs: Sequence[str],
    asked: Asked,
    pool: pd.DataFrame,
    pool_vectors: np.ndarray,
    k: int,
    weights: Weights,
    leave_out: Sequence[str] = (),
) -> pd.DataFrame:
    """k few-shots of each request as a set, one after the other, each the best beside those before it.

    Its worth is (1 − c)·cosine with the request + c·(what it adds to the highest cosine with each clause, mean over
    clauses) + d·(share of its APIs that no few-shot before it calls). With c and d of 0 they are the nearest.
    Candidates are the `FURTHER`·k nearest of the request and of each clause. After Carbonell and Goldstein (1998) and
    Levy, Bogin and Berant (2023, arXiv:2212.06800), who cover the parts of a program's syntax.

    Args:
        pairs: ids of the flows to generate.
        pool: training pairs, columns pair and apis.
        pool_vectors: of their requests.
        weights: c and d.
        leave_out: for each request a pair that is not to be shown, such as itself.

    Returns:
        as `lib.workflows.target_similarity.nearest_shots`.
    """
    return _picked(pairs, _candidates(asked, pool, pool_vectors, k, leave_out), pool, k, weights)


class _Candidates(NamedTuple):
    """Of one request: rows of the pool, cosines with the request and each clause, which APIs they call (0 or 1)."""

    rows: np.ndarray
    near: np.ndarray
    parts: np.ndarray
    called: np.ndarray


def _candidates(
    asked: Asked, pool: pd.DataFrame, pool_vectors: np.ndarray, k: int, leave_out: Sequence[str]
) -> list[_Candidates]:
    ids, apis = pool["pair"].to_numpy(), pool["apis"].to_numpy()
    near_whole = nearest(pool_vectors, asked.whole, FURTHER * k)[0]
    near_parts = nearest(pool_vectors, asked.clauses, FURTHER * k)[0]
    found = []
    for request in range(len(asked.whole)):
        part = asked.of(request)
        some = np.unique(np.concatenate([near_whole[request], near_parts[part].ravel()]))
        if len(leave_out):
            some = some[ids[some] != leave_out[request]]
        vectors = pool_vectors[some]
        sides = vectors @ asked.whole[request], vectors @ asked.clauses[part].T
        found.append(_Candidates(some, *sides, _incidence(apis[some])))
    return found


def _picked(
    pairs: Sequence[str], candidates: Sequence[_Candidates], pool: pd.DataFrame, k: int, weights: Weights
) -> pd.DataFrame:
    rows = [one.rows[_greedy(one.near, one.parts, one.called, k, weights)] for one in candidates]
    indices = np.array(rows, dtype=np.int64).reshape(len(candidates), -1)
    return ranked_shots(pairs, pool["pair"].tolist(), indices)


def _incidence(apis: Sequence[Sequence[str]]) -> np.ndarray:
    column = {name: i for i, name in enumerate(sorted(set().union(*apis)))}
    matrix = np.zeros((len(apis), len(column)), dtype=np.float32)
    for row, names in enumerate(apis):
        matrix[row, [column[name] for name in names]] = 1
    return matrix


def _greedy(near: np.ndarray, parts: np.ndarray, called: np.ndarray, k: int, weights: Weights) -> list[int]:
    """Rows of candidates: `near` their cosines with the request, `parts` with each clause, `called` their APIs."""
    covered, shown = np.zeros(parts.shape[1]), np.zeros(called.shape[1])
    left, picked = np.ones(len(near), dtype=bool), []
    for _ in range(min(k, len(near))):
        gain = np.maximum(parts - covered, 0).mean(axis=1)
        new = (called * (1 - shown)).sum(axis=1) / called.sum(axis=1)
        worth = np.round((1 - weights.coverage) * near + weights.coverage * gain + weights.new * new, 6)
        best = int(np.argmax(np.where(left, worth, -np.inf)))
        left[best] = False
        picked.append(best)
        covered, shown = np.maximum(covered, parts[best]), np.maximum(shown, called[best])
    return picked


# ---------------------------------------------------------------- constants, on training requests held aside


def choose_definition_weight(
    asked: Asked, wanted: Sequence[Sequence[str]], texts: np.ndarray, names: Sequence[str], numbers: Sequence[int]
) -> pd.DataFrame:
    """How many of the wanted APIs `clause_definitions` finds for training requests held aside, by weight and number.

    Returns:
        columns n, weight, value (mean share, 0–1), chosen (bool: the best of its n, of equals the largest weight).
    """
    rows = []
    for n, weight in itertools.product(numbers, DEFINITION_WEIGHTS):
        found = clause_definitions(asked, texts, names, n, weight)
        rows.append((n, weight, float(np.mean(coverages(wanted, found)))))
    table = pd.DataFrame(rows, columns=["n", "weight", "value"])
    best = table.sort_values("weight", ascending=False).groupby("n")["value"].idxmax()
    return table.assign(chosen=table.index.isin(best))


def coverages(wanted: Sequence[Sequence[str]], found: Sequence[Sequence[str]]) -> list[float]:
    """For each request the share of its distinct wanted APIs that are found."""
    return [len(set(gold) & set(names)) / len(set(gold)) for gold, names in zip(wanted, found, strict=True)]


def choose_shot_weights(
    held: pd.DataFrame, asked: Asked, pool: pd.DataFrame, pool_vectors: np.ndarray, ks: Sequence[int]
) -> pd.DataFrame:
    """How good the set of few-shots of training requests held aside is, out of the other ones, by weights and k.

    Args:
        held: training pairs, columns pair and apis; `asked` their vectors.
        pool, pool_vectors: all training pairs, these included.

    Returns:
        columns k, coverage, new (the weights), value (mean share of the wanted APIs that the set shows, 0–1), jaccard
        (mean of the set), and for each of `SETS` whether it takes these weights (bool): the highest value of its k,
        of equals the highest jaccard; for `near_set` among those that keep `ALIKE` of the nearest few-shots' jaccard.
    """
    rows = []
    ids = held["pair"].tolist()
    for k in ks:
        candidates = _candidates(asked, pool, pool_vectors, k, ids)
        for weights in itertools.starmap(Weights, itertools.product(SHOT_WEIGHTS, NEW_WEIGHTS)):
            shots = _picked(ids, candidates, pool, k, weights)
            means = few_shot_scores(shots, held, pool, [k]).groupby("metric")["value"].mean()
            rows.append((k, *weights, means["coverage"], means["jaccard"]))
    table = pd.DataFrame(rows, columns=["k", "coverage", "new", "value", "jaccard"])
    nearest_alone = table[(table["coverage"] == 0) & (table["new"] == 0)].set_index("k")["jaccard"]
    alike = table["jaccard"] >= ALIKE * table["k"].map(nearest_alone)
    ordered = table.sort_values(["value", "jaccard"], ascending=False, kind="stable")
    for name, among in zip(SETS, (ordered, ordered[alike[ordered.index]]), strict=True):
        table[name] = table.index.isin(among.groupby("k").head(1).index)
    return table


def chosen_weights(table: pd.DataFrame, way: str) -> dict[int, Weights]:
    """Those of one of `SETS` by k, of `choose_shot_weights`."""
    best = table[table[way]]
    return {int(row.k): Weights(float(row.coverage), float(row.new)) for row in best.itertuples()}


# ---------------------------------------------------------------- how good

SCORES = ["question", "encoder", "k", "sample", "pair", "way", "metric", "value"]


def definition_scores(requests: pd.DataFrame, ways: dict[str, list[list[str]]], encoder: str, k: int) -> pd.DataFrame:
    """Whether the definitions chosen in several ways have the wanted APIs.

    Args:
        requests: columns pair, sample, apis.
        ways: {way: the names chosen for each request}.
        encoder, k: that chose them; the few-shots beside which they stand.

    Returns:
        `SCORES` with question "definitions", one row a request, way and metric: coverage (share of the wanted APIs,
        0–1) and all_covered (0 or 1).
    """
    parts = []
    for way, found in ways.items():
        share = coverages(requests["apis"].tolist(), found)
        part = requests[["pair", "sample"]].assign(way=way, coverage=share, all_covered=np.equal(share, 1.0))
        parts.append(part.astype({"all_covered": float}).melt(["pair", "sample", "way"], var_name="metric"))
    frame = pd.concat(parts, ignore_index=True)
    return frame.assign(question="definitions", encoder=encoder, k=k)[SCORES]


def shot_scores(
    requests: pd.DataFrame, ways: dict[str, pd.DataFrame], training: pd.DataFrame, encoder: str, k: int
) -> pd.DataFrame:
    """How close the k few-shots chosen in several ways come to the right flow (`few_shot_scores`).

    Args:
        requests, training: columns pair and apis; of the requests also sample.
        ways: {way: few-shots}.

    Returns:
        `SCORES` with question "few-shots" and the metrics coverage, jaccard and jaccard_best.
    """
    sample, parts = requests.set_index("pair")["sample"], []
    for way, shots in ways.items():
        found = few_shot_scores(shots, requests, training, [k])
        found = found[found["metric"].isin(["coverage", "jaccard", "jaccard_best"])]
        parts.append(found.assign(way=way, sample=found["pair"].map(sample)))
    return pd.concat(parts, ignore_index=True).assign(question="few-shots", encoder=encoder)[SCORES]
