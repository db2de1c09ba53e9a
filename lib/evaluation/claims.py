"""What the papers claim, tested on our scores: one verdict a claim.

`data/claims.yaml` lists the claims. A claim states what must hold for each of its methods at each of its cutoffs (K, or
for workflows the number of few-shots), and holds only if every such cell holds (intersection-union: the p-value is the
largest of the cells', with no further correction). Its row shows the cell with the weakest evidence. Where that cell
points against the claim, its p-value is multiplied by the number of cells it was picked from.

A cell compares two sides on the queries for which both have a row. Where a row has no value (NaN), as a flow that does
not parse has no made-up names, a trend and a `conditional` comparison average each side over its own values, but are
tested on the queries that have one on both: otherwise a side that parses more often would seem to make up less. Any
other comparison drops the query.

Evidence in a cell: the effect, its 95% interval (bootstrap over the resampled units: personas and needs, crossed, for
the assistant, test flows for workflows), and the p-value of a paired randomisation test that exchanges the sides in
whole first units (personas; flows), among the queries that have a value on both sides; p-values are adjusted by Holm's
method over all claims of one `evaluate` call. A side is *settled* if the adjusted p is at most .05 **and** the interval
lies wholly on that side. The *detectable* effect is the smallest that this n would show with 80% power: 2.8 standard
errors of the bootstrap. Fewer than six first units with a value on both sides can settle nothing, since their exchanges
give no p below .05: theirs is 1. Where no outcome (0 or 100) differs between the sides, as of an event that never
occurred, there is nothing to resample: the interval is then as wide as the largest effect that n queries may all have
missed (see `unseen_rate`). Where a rate is 0 or 100% on one side alone, the interval allows for what that side may have
missed (see `lib.evaluation.rates.beside_a_constant`), and the standard error is that of its width.

The first rule that applies gives the verdict:

1. `underpowered`: a cell has no query in common, or fewer than six first units.
2. `equivalent`: the interval of every cell lies within the margin around no effect (two one-sided tests at 2.5% each).
   For a claim of sameness this is what the paper said, and Holm's p must agree; for a claim of a difference it means
   that there is none worth the name. A claim of "not less" or "not more" skips this rule.
3. `reproduced`: settled on the claimed side; a claim with a size must also have an interval that reaches it, otherwise
   it is `same direction`.
4. `contradicted`: settled on the other side.
5. `underpowered`: the detectable effect exceeds the published one (where none is published, the size of a claim that
   has one, otherwise the margin; for sameness always the margin), or the estimate is outside the margin of a claim of
   sameness.
6. `same direction`: the estimate is on the claimed side, unsettled.
7. `contradicted`: the estimate is on the other side, unsettled, where an effect of the published size would have shown.

Each verdict comes with its reason, in a few words. Not every claim is about a method: `about` says which are decided by
something else, and `tally` counts those apart.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import numpy as np
import pandas as pd
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from lib.evaluation.inference import LEVEL, bootstrap_means, holm_adjust, randomisation_test
from lib.evaluation.rates import FEWEST_UNITS, beside_a_constant
from lib.workbook.inputs import InputError, read_yaml

VERDICTS = {
    "reproduced": "it holds here too: the test is significant and the 95% interval agrees",
    "same direction": "the estimate points the claimed way, but is not significant or falls short of the claimed size",
    "equivalent": "no difference worth the name: the 95% interval lies within the margin (as claimed, where the paper "
    "says that two methods do about the same)",
    "contradicted": "the opposite is significant, or the estimate points the other way though this many queries "
    "would have shown the published effect",
    "underpowered": "undecided: this many queries cannot show an effect as small as the published one",
}
# What a claim is about, and why the groups after the first one are counted apart.
ABOUT = {
    "method": "about methods",
    "writer": "on text that our small language model wrote: the paper's own writer, far larger, is not tested here",
    "definition": "about trends under one of several definitions of a metric: they test the definition, which the "
    "paper leaves open, more than a method",
    "training_size": "where training sets may decide: the methods learned from sets of very different size, or ours "
    "(such as our fine-tuned model or our TST encoder) from far fewer examples than the paper's",
}
COLUMNS = ["claim", "paper", "statement", "effect", "ci_low", "ci_high", "p_value", "verdict"]
SPLIT = "significant, but an interval reaches the other side"
STANDARD_ERRORS = 2.80  # two-sided test at 5%, power 80%: z(.975) + z(.8)

Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
Text = Annotated[str, Field(min_length=1)]


class ClaimError(InputError):
    """A file of claims that cannot be used; names the file, the claim and the field."""


def _rising(values: list) -> list:
    if values != sorted(set(values)):
        raise ValueError("must rise, without repetition")
    return values


Cutoffs = Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1), AfterValidator(_rising)]
Column = tuple[str, str, int]  # method, metric, k


class Claim(BaseModel):
    """What all claims have. `margin` is the smallest effect worth the name, in the unit of the effect.

    `about` says what decides the claim (see `ABOUT`). `published_as` names the published row that stands for one of our
    methods where it has another name.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    claim: Name
    test: str
    paper: Literal["assistant", "workflow"]
    source: Text
    statement: Text
    scores: Name
    metric: Name
    a: Annotated[list[Name], Field(min_length=1)]
    cutoffs: Cutoffs
    margin: Annotated[float, Field(gt=0)]
    about: Literal["method", "writer", "definition", "training_size"] = "method"
    published_as: dict[Name, Name] = {}

    unit: ClassVar[str] = "points"

    @property
    def own_values(self) -> bool:
        """Whether each side averages the queries that have a value there, whatever the other side has."""
        return False

    def cells(self, known: set[int]) -> list[tuple[str, str, Column, Column | float]]:
        """(method, K, left column, right column or constant) of everything that must hold, at cutoffs we scored."""
        return [
            (method, str(k), (method, self.metric, k), self.against(k))
            for method in self.a
            for k in self.cutoffs
            if k in known
        ]

    def against(self, k: int) -> Column | float:
        """What a method is held against at a cutoff: a column, or a constant."""
        raise NotImplementedError

    def effect(self, left, right):
        """The effect from the means of both sides."""
        return left - right

    @property
    def boundaries(self) -> list[float]:
        """Effects that separate the claimed side from the other one."""
        return [0.0]

    @property
    def shifts(self) -> list[float]:
        """The boundaries as differences between the two sides, which is what the randomisation test sees."""
        return [0.0]

    def depth(self, effect: float) -> float:
        """How far an effect lies on the claimed side; negative on the other one."""
        return effect - self.boundaries[0]


class Paired(Claim):
    """Each of `a` against `b`.

    Where it is `conditional`, each side averages the queries that have a value there, as a table of rates does, and the
    p-value is that of the queries that have one on both; otherwise a query that one side lacks counts for neither.
    """

    b: Name
    conditional: bool = False

    @property
    def own_values(self):
        return self.conditional

    def against(self, k):
        return self.b, self.metric, k


class Comparison(Paired):
    """`greater` or `less`; `not_less` or `not_more` by more than the margin; the `same` within the margin."""

    test: Literal["greater", "less", "not_less", "not_more", "same"]

    @property
    def boundaries(self):
        away = {"not_less": [-self.margin], "not_more": [self.margin], "same": [-self.margin, self.margin]}
        return away.get(self.test, [0.0])

    @property
    def shifts(self):
        return self.boundaries

    def depth(self, effect):
        if self.test == "same":
            return self.margin - abs(effect)
        return -super().depth(effect) if self.test in ("less", "not_more") else super().depth(effect)


class Ratio(Paired):
    """Each of `a` at least `size` times `b`."""

    test: Literal["ratio"]
    size: Annotated[float, Field(gt=1)]

    unit = "fold"

    def effect(self, left, right):
        return np.divide(left, right, out=np.full(np.shape(right), np.nan), where=np.asarray(right) != 0)

    @property
    def boundaries(self):
        return [1.0]


class Below(Claim):
    """Each of `a` below a fixed `level`, in percent."""

    test: Literal["below"]
    level: float

    unit = "percent"

    def against(self, k):
        return self.level

    def effect(self, left, right):
        return left

    @property
    def boundaries(self):
        return [self.level]

    def depth(self, effect):
        return self.level - effect


class Trend(Claim):
    """Each of `a` `rises` or `falls` from the first cutoff to each later one.

    Each mean has its own queries; the p-value is that of the queries with a value at both cutoffs.
    """

    test: Literal["rises", "falls"]
    cutoffs: Annotated[Cutoffs, Field(min_length=2)]

    @property
    def own_values(self):
        return True

    def cells(self, known):
        first, *later = self.cutoffs
        return [
            (method, f"{first} to {k}", (method, self.metric, k), (method, self.metric, first))
            for method in self.a
            for k in later
            if {first, k} <= known
        ]

    def depth(self, effect):
        return effect if self.test == "rises" else -effect


RECORD = TypeAdapter(Annotated[Comparison | Ratio | Below | Trend, Field(discriminator="test")])


def read_claims(path: str | Path) -> list[Claim]:
    """The claims of a file, in its order.

    Raises:
        ClaimError: the file is no YAML list of claims, a field is missing, unknown or wrong, or a name stands twice.
    """
    path = Path(path)
    try:
        records = read_yaml(path)
    except InputError as error:
        raise ClaimError(str(error)) from error
    if not isinstance(records, list):
        raise ClaimError(f"{path}: expected a list of claims")
    claims: list[Claim] = []
    for number, record in enumerate(records, start=1):
        name = record.get("claim") if isinstance(record, dict) else None
        where = f"{path}: claim {name or f'number {number}'}"
        try:
            claim = RECORD.validate_python(record)
        except ValidationError as error:
            problem = error.errors()[0]
            # The first part of a location is the value of `test`, by which the model was chosen.
            field = ".".join(str(part) for part in problem["loc"][1:]) or "test"
            raise ClaimError(f"{where}: {field}: {problem['msg']} (given {problem['input']!r})") from error
        if claim.claim in {other.claim for other in claims}:
            raise ClaimError(f"{where}: claim: the name stands twice")
        claims.append(claim)
    return claims


@dataclass(frozen=True)
class Evidence:
    """What one cell shows. `clusters` counts the first units (each a `cluster`, such as a persona) with a query that
    has a value on both sides; `se` is the bootstrap's standard error; `published` is NaN where nothing is."""

    method: str = ""
    k: str = ""
    n: int = 0
    clusters: int = 0
    effect: float = math.nan
    ci_low: float = math.nan
    ci_high: float = math.nan
    se: float = math.nan
    p_value: float = 1.0
    published: float = math.nan
    cluster: str = "query"

    @property
    def detectable(self) -> float:
        """The smallest effect that this n would show with 80% power."""
        can_settle = self.clusters >= FEWEST_UNITS and math.isfinite(self.effect) and math.isfinite(self.se)
        return STANDARD_ERRORS * self.se if can_settle else math.inf


def weakest(claim: Claim, cells: Sequence[Evidence]) -> Evidence:
    """The cell with the weakest evidence for the claim: one that can settle nothing, or the fewest standard errors."""

    def strength(cell: Evidence) -> float:
        if math.isinf(cell.detectable):
            return -math.inf
        distance = cell.effect - claim.size if isinstance(claim, Ratio) else claim.depth(cell.effect)
        return distance / max(cell.se, 1e-12)

    return min(cells, key=strength)


def combined_p(claim: Claim, cells: Sequence[Evidence]) -> float:
    """The p-value of the whole claim: the largest, or where the weakest cell points against the claim, that cell's
    times the number of cells."""
    if all(claim.depth(cell.effect) > 0 for cell in cells):
        return max(cell.p_value for cell in cells)
    return min(1.0, len(cells) * weakest(claim, cells).p_value)


def judge(claim: Claim, cells: Sequence[Evidence], p_holm: float, family: int) -> tuple[str, str]:
    """The verdict on a claim, by the rules in the module's text, and its reason in a few words.

    Args:
        claim, cells: the claim and what its cells show.
        p_holm: the claim's p-value, adjusted over the claims that are tested together.
        family: how many these are.
    """
    cell = weakest(claim, cells)
    if math.isinf(cell.detectable):
        return "underpowered", _nothing_to_settle(cell)
    significant = p_holm <= LEVEL
    if claim.test == "same":
        if significant and all(-claim.margin < other.ci_low and other.ci_high < claim.margin for other in cells):
            return "equivalent", f"the interval lies within ±{claim.margin:g} points"
        if significant and (cell.ci_low > claim.margin or cell.ci_high < -claim.margin):
            return "contradicted", f"{_opposite(claim)} is significant"
        if cell.detectable > claim.margin:
            return "underpowered", _why_undecided(
                claim, cells, p_holm, family, f"the margin {_size(claim, claim.margin)}"
            )
        if claim.depth(cell.effect) < 0:
            return "underpowered", f"{_opposite(claim)}, not significant"
        return "same direction", "within the margin, not significant"
    ends = np.array([[claim.depth(other.ci_low), claim.depth(other.ci_high)] for other in cells])
    if claim.test not in ("not_less", "not_more") and (np.abs(ends) < claim.margin).all():
        return "equivalent", f"the interval lies within {claim.margin:g} of no effect"
    if significant and (ends > 0).all():
        if isinstance(claim, Ratio) and any(other.ci_high < claim.size for other in cells):
            return "same direction", f"a gain, but the interval excludes the claimed {claim.size:g}"
        return "reproduced", "significant"
    if significant and max(claim.depth(cell.ci_low), claim.depth(cell.ci_high)) < 0:
        return "contradicted", f"{_opposite(claim)} is significant"
    if not math.isnan(cell.published):
        looked_for, source, size = abs(claim.depth(cell.published)), "published", "of the published size"
    elif isinstance(claim, Ratio):
        looked_for, source, size = claim.depth(claim.size), "claimed", "of the claimed size"
    else:
        looked_for, source, size = claim.margin, "the margin", "as large as the margin"
    if cell.detectable > looked_for:
        return "underpowered", _why_undecided(claim, cells, p_holm, family, f"{source} {_size(claim, looked_for)}")
    if claim.depth(cell.effect) > 0:
        return "same direction", SPLIT if significant else "not significant"
    if claim.test in ("not_less", "not_more", "below"):
        return "contradicted", f"{_opposite(claim)}, where an effect {size} would have shown"
    return "contradicted", f"no effect, where one {size} would have shown"


def _opposite(claim: Claim) -> str:
    """What contradicts the claim."""
    words = {
        "not_less": "a shortfall of more than",
        "not_more": "an excess of more than",
        "same": "a difference of more than",
    }
    if claim.test in words:
        return f"{words[claim.test]} {claim.margin:g} points"
    return f"{claim.level:g}% or more" if isinstance(claim, Below) else "the opposite"


def _size(claim: Claim, distance: float) -> str:
    """An effect at this distance from the claim's boundary."""
    if claim.test == "ratio":
        return f"{1 + distance:.2f}-fold"
    origins = {"below": " below {0.level:g}%", "not_less": " above −{0.margin:g}", "not_more": " below {0.margin:g}"}
    origin = origins.get(claim.test, "")
    return f"{distance:.1f} points{origin.format(claim)}"


def _nothing_to_settle(cell: Evidence) -> str:
    if not cell.n:
        return "nothing to test it on"
    if math.isnan(cell.effect) or math.isnan(cell.se):
        return "no value on one side"
    plural = f"{cell.cluster[:-1]}ies" if cell.cluster.endswith("y") else f"{cell.cluster}s"
    return f"{cell.clusters} {cell.cluster if cell.clusters == 1 else plural}: too few to settle anything"


def _why_undecided(claim: Claim, cells: Sequence[Evidence], p_holm: float, family: int, looked_for: str) -> str:
    """Why a claim that is not settled stays undecided; `looked_for` names the effect that n could not show."""
    cell = weakest(claim, cells)
    if abs(claim.depth(cell.effect)) <= cell.detectable:
        return f"n = {cell.n:,} could show {_size(claim, cell.detectable)} or more; {looked_for}"
    # Here n did suffice: to say what it could show would contradict the effect beside it.
    if p_holm <= LEVEL:
        return SPLIT
    p_value = combined_p(claim, cells)
    if p_value <= LEVEL:
        return f"clear by itself, but not after Holm's adjustment over {family} claims"
    return f"a large effect, but not significant by itself (p = {p_value:.2f})"


def evaluate(
    claims: Sequence[Claim],
    scores: pd.DataFrame,
    published: pd.DataFrame,
    samples: int,
    seed: int,
    units: Sequence[str] = ("persona", "need"),
) -> pd.DataFrame:
    """Verdicts on claims, one row each, in the order given.

    Two sides are compared on the queries for which both have a row; the module's text says what becomes of a row whose
    value is NaN.

    Args:
        claims: one family: Holm's adjustment covers all of them.
        scores: columns query, method, metric, k, value and `units`; one row for each (query, method, metric, k). Rates
            and similarity are 0–100. Without a column query, a query is the first of `units`.
        published: columns method, metric, k, value; `ndcg` stands for every definition of NDCG.
        samples, seed: of the bootstrap; the seed is the randomisation tests', too.
        units: columns of `scores` whose units are resampled (crossed, where there are two); the randomisation tests
            exchange the two sides in whole units of the first, and reasons name it. Workflows: ("flow",).

    Returns:
        `COLUMNS` with the adjusted p as `p_value`, then reason (of the verdict), about (see `ABOUT`), as_claimed (bool:
        reproduced, or equivalent where that is the claim), source, unit (points, percent or fold), and of the weakest
        cell: published (the same effect in the published table, NaN where it has none), method, k (text), n (queries
        with a value on either side), clusters (units of the first kind with one on both, which the p-value uses) and
        detectable. A claim without a query to test it on has n = 0 and no effect.
    """
    query = "query" if "query" in scores else units[0]
    wide = scores.pivot(index=query, columns=["method", "metric", "k"], values="value")
    listed = scores.assign(value=1.0).pivot(index=query, columns=["method", "metric", "k"], values="value").notna()
    labels = scores.drop_duplicates(query).set_index(query, drop=False).loc[wide.index, list(units)]
    printed = published.set_index(["method", "metric", "k"])["value"]
    cells = [(claim, *cell) for claim in claims for cell in claim.cells(set(scores["k"]))]
    found = _weigh(cells, wide, listed, labels, printed, samples, seed)
    evidence: dict[str, list[Evidence]] = {claim.claim: [] for claim in claims}
    for (claim, *_), cell in zip(cells, found, strict=True):
        evidence[claim.claim].append(cell)
    families = [evidence[claim.claim] or [Evidence()] for claim in claims]
    adjusted = holm_adjust([combined_p(claim, family) for claim, family in zip(claims, families, strict=True)])
    rows = []
    for claim, family, p_holm in zip(claims, families, adjusted, strict=True):
        cell, (verdict, reason) = weakest(claim, family), judge(claim, family, p_holm, len(claims))
        rows.append(
            {
                "claim": claim.claim,
                "paper": claim.paper,
                "statement": claim.statement,
                "effect": cell.effect,
                "ci_low": cell.ci_low,
                "ci_high": cell.ci_high,
                "p_value": p_holm,
                "verdict": verdict,
                "reason": reason,
                "about": claim.about,
                "as_claimed": verdict == ("equivalent" if claim.test == "same" else "reproduced"),
                "source": claim.source,
                "unit": claim.unit,
                "published": cell.published,
                "method": cell.method,
                "k": cell.k,
                "n": cell.n,
                "clusters": cell.clusters,
                "detectable": cell.detectable,
            }
        )
    return pd.DataFrame(rows)


def tally(verdicts: pd.DataFrame) -> pd.DataFrame:
    """How many claims came out as the papers have them, by what they are about.

    Args:
        verdicts: from `evaluate`, of one or more families.

    Returns:
        one row for each of `ABOUT` that has a claim, in its order; columns about, why (from `ABOUT`), and counts:
        claims, as_claimed, and one for each of `VERDICTS`.
    """
    rows = []
    for about, why in ABOUT.items():
        group = verdicts[verdicts["about"] == about]
        counts = {verdict: int((group["verdict"] == verdict).sum()) for verdict in VERDICTS}
        rows.append(
            {"about": about, "why": why, "claims": len(group), "as_claimed": int(group["as_claimed"].sum()), **counts}
        )
    table = pd.DataFrame(rows)
    return table[table["claims"] > 0].reset_index(drop=True)


def _weigh(cells, wide, listed, labels, printed, samples, seed) -> list[Evidence]:
    """The evidence in each cell; `listed` says which rows of `wide` the scores have, `labels` holds the units."""
    if not cells:
        return []
    sides = [_sides(wide, listed, left, right, claim.own_values) for claim, _, _, left, right in cells]
    pairs, shared = (np.stack(arrays) for arrays in zip(*sides, strict=True))
    clusterings = [labels[name].to_numpy() for name in labels]
    draws = _resample(pairs, shared, clusterings, samples, seed)
    evidence = []
    for number, (claim, method, k, left, right) in enumerate(cells):
        pair = pairs[number]
        known = ~np.isnan(pair)
        numbers = {"method": method, "k": k, "n": int(known.any(axis=1).sum()), "cluster": labels.columns[0]}
        numbers["published"] = float(
            claim.effect(*(np.float64(_published(claim, side, printed)) for side in (left, right)))
        )
        if known.any(axis=0).all():
            resampled = claim.effect(draws[:, number, 0], draws[:, number, 1])
            resampled = resampled[np.isfinite(resampled)]
            numbers |= {
                "clusters": len(np.unique(clusterings[0][known.all(axis=1)])),
                "effect": float(claim.effect(*np.nanmean(pair, axis=0))),
                "p_value": _p_value(claim, pair, clusterings[0], seed),
            }
            if len(resampled):
                numbers["ci_low"], numbers["ci_high"] = np.percentile(resampled, [2.5, 97.5]).tolist()
                numbers["se"] = float(resampled.std())
            outcomes = claim.unit == "points" and np.isin(pair[known], (0, 100)).all()
            if outcomes and numbers["effect"] == 0 and numbers.get("se") == 0:
                missed = 100 * unseen_rate(int(known.sum(axis=0).min()))
                numbers |= {"ci_low": -missed, "ci_high": missed, "se": missed / 1.96}
            elif outcomes and len(resampled):
                drawn, ends = draws[:, number].T / 100, (numbers["ci_low"] / 100, numbers["ci_high"] / 100)
                low, high = beside_a_constant(ends, np.nanmean(pair, axis=0) / 100, known.sum(axis=0), drawn)
                if (low, high) != ends:
                    numbers |= {"ci_low": 100 * low, "ci_high": 100 * high, "se": 100 * (high - low) / (2 * 1.96)}
        evidence.append(Evidence(**numbers))
    return evidence


def unseen_rate(n: int) -> float:
    """The largest rate of an event that n independent observations without it do not exclude at 97.5%: about 3.7/n.

    >>> round(unseen_rate(100), 3)
    0.036
    """
    return 1 - 0.025 ** (1 / n)


def _sides(
    wide: pd.DataFrame, listed: pd.DataFrame, left: Column, right: Column | float, own_values: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Both sides' values (queries, 2), and for which queries both have a row (queries,); values elsewhere are NaN."""
    pair, shared = np.full((len(wide), 2), np.nan), np.ones(len(wide), dtype=bool)
    for number, side in enumerate((left, right)):
        if not isinstance(side, tuple):
            pair[:, number] = side
        elif side in wide:
            pair[:, number] = wide[side]
            shared &= listed[side].to_numpy()
        else:
            shared[:] = False
    dropped = ~shared if own_values else np.isnan(pair).any(axis=1)
    pair[dropped] = np.nan
    return pair, shared


def _resample(
    pairs: np.ndarray, shared: np.ndarray, clusterings: Sequence[np.ndarray], samples: int, seed: int
) -> np.ndarray:
    """Bootstrap means (samples, cells, 2) of `pairs` (cells, queries, 2), each cell's over its shared queries.

    Cells on the same queries share their resamples.
    """
    draws = np.full((samples, len(pairs), 2), np.nan)
    patterns, group = np.unique(shared, axis=0, return_inverse=True)
    for number, rows in enumerate(patterns):
        members = group.ravel() == number
        if rows.any():
            values = pairs[members][:, rows].transpose(1, 0, 2).reshape(rows.sum(), -1)
            means = bootstrap_means(values, [labels[rows] for labels in clusterings], samples, seed)
            draws[:, members] = means.reshape(samples, -1, 2)
    return draws


def _p_value(claim: Claim, pair: np.ndarray, clusters: np.ndarray, seed: int) -> float:
    """The largest p-value over the claim's boundaries, of the queries with both values of `pair` (queries, 2)."""
    complete = ~np.isnan(pair).any(axis=1)
    if len(np.unique(clusters[complete])) < FEWEST_UNITS:
        return 1.0
    left, right = pair[complete].T
    return max(randomisation_test(left - shift, right, clusters[complete], seed=seed) for shift in claim.shifts)


def _published(claim: Claim, side: Column | float, printed: pd.Series) -> float:
    if not isinstance(side, tuple):
        return side
    method, metric, k = side
    return float(printed.get((claim.published_as.get(method, method), metric.removesuffix("_retrieved"), k), math.nan))
