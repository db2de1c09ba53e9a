"""One word for what a claim's evidence says, and why; the rules are in the text of `lib.evaluation.claims`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import optimize, stats

from lib.evaluation.claim_records import Claim, Ratio
from lib.evaluation.inference import LEVEL, mcnemar_at_best
from lib.evaluation.rates import FEWEST_UNITS

VERDICTS = {
    "reproduced": "it holds here too: the test is significant and the 95% interval agrees",
    "same direction": "the estimate points the claimed way, but is not significant or falls short of the claimed size",
    "equivalent": "no difference worth the name: the 95% interval lies within the margin (as claimed, where the paper "
    "says that two methods do about the same)",
    "contradicted": "the opposite is significant, or the estimate points the other way though this many queries "
    "would have shown the published effect",
    "undecided": "clear by itself (p ≤ .05), but not after Holm's adjustment over all that is tested beside it",
    "underpowered": "open: the smallest effect that this many queries can show is larger than the published one",
    "not testable here": "nothing to see here: both sides are at the floor or the ceiling, or the published effect is "
    "smaller than the paper's own number of queries could show",
}
OPEN = ("undecided", "underpowered")  # verdicts that more queries would turn into another
NOT_TESTABLE = "not testable here"
SPLIT = "significant, but an interval reaches the other side"
POWER = 0.8
STANDARD_ERRORS = 2.80  # two-sided test at 5%, power 80%: z(.975) + z(.8)
PAPERS_N = {"assistant": 936, "workflow": 1000}  # evaluation queries and test flows of the papers


@dataclass(frozen=True)
class Evidence:
    """What one cell shows.

    Attributes:
        n: queries with a value on either side; clusters: first units (each a `cluster`, such as a persona) with a query
            that has a value on both.
        se: the standard error of the effect.
        published: the same effect in the published table, NaN where it has none.
        other, other_low, other_high: the mean of the side held against, with its 95% interval.
        off_floor, off_ceiling: queries with another value than 0, and than 100, on the side that has more of them.
        rate: whether all values are 0 or 100.
        freedom: degrees of freedom of the effect's t; infinite where it is taken as normal.
    """

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
    other: float = math.nan
    other_low: float = 0.0
    other_high: float = 100.0
    off_floor: float = math.inf
    off_ceiling: float = math.inf
    rate: bool = False
    freedom: float = math.inf

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


def holds(claim: Claim, cells: Sequence[Evidence]) -> bool:
    """Whether the effects of all cells are on the claimed side."""
    return all(claim.depth(cell.effect) > 0 for cell in cells)


def combined_p(claim: Claim, cells: Sequence[Evidence]) -> float:
    """The p-value of all cells together: the largest, or where the weakest cell points against the claim, that cell's
    times the number of cells."""
    if holds(claim, cells):
        return max(cell.p_value for cell in cells)
    return min(1.0, len(cells) * weakest(claim, cells).p_value)


def judge(claim: Claim, cells: Sequence[Evidence], p_holm: float, tests: int) -> tuple[str, str]:
    """The verdict on a claim, or on its cells at one cutoff, and its reason in a few words.

    Args:
        claim, cells: the claim and what its cells show.
        p_holm: their p-value, adjusted over all that are tested together.
        tests: how many these are.
    """
    cell = weakest(claim, cells)
    if claim.test == "ratio" and cell.other == 0 and cell.clusters >= FEWEST_UNITS:
        return NOT_TESTABLE, "floor: the other side has none"
    if math.isinf(cell.detectable):
        return "underpowered", _nothing_to_settle(cell)
    if end := _at_one_end(claim, cell):
        return NOT_TESTABLE, end
    if found := (_judge_sameness if claim.test == "same" else _judge_difference)(claim, cells, p_holm):
        return found
    if isinstance(claim, Ratio) and _short_of_size(claim, cells) and (end := _beyond_the_ceiling(claim, cell)):
        return NOT_TESTABLE, end
    size, source = looked_for(claim, cell)
    against = claim.depth(cell.effect) <= 0
    p_value = combined_p(claim, cells)
    clear = p_value <= LEVEL < p_holm and (claim.test == "same" or _on_one_side(claim, cells))
    if clear and not (against and claim.test != "same" and cell.detectable <= size):
        said = f"clear by itself (p = {p_value:.3f}), but not after Holm's adjustment over {tests} tests"
        return "undecided", said + _against(claim, cell)
    if _beyond_the_paper(claim, cell):
        paper = f"{PAPERS_N[claim.paper]:,} {'flows' if claim.paper == 'workflow' else 'queries'}"
        return NOT_TESTABLE, f"published {_size(claim, size)}: the paper's own {paper} could not have shown it"
    if cell.detectable > size:
        said = _why_underpowered(claim, cells, p_holm, f"{source} {_size(claim, size)}")
        return "underpowered", said + _against(claim, cell)
    if claim.test == "same":
        word = "underpowered" if against else "same direction"
        return word, f"{_opposite(claim) if against else 'within the margin'}, not significant"
    if not against:
        return "same direction", SPLIT if p_holm <= LEVEL else _why_not_significant(claim, cells)
    shown = "as large as the margin" if source == "the margin" else f"of the {source} size"
    return "contradicted", f"not shown, where an effect {shown} would have been"


def _depths(claim: Claim, cells: Sequence[Evidence]) -> np.ndarray:
    """How far on the claimed side the ends of each cell's interval lie, (cells, 2)."""
    return np.array([[claim.depth(cell.ci_low), claim.depth(cell.ci_high)] for cell in cells])


def _on_one_side(claim: Claim, cells: Sequence[Evidence]) -> bool:
    """Whether the intervals of all cells leave out the claim's boundary on the same side: half of what settles it."""
    ends = _depths(claim, cells)
    return bool((ends > 0).all() or (ends < 0).all())


def _against(claim: Claim, cell: Evidence) -> str:
    """That the weakest cell's interval lies wholly on the other side of a claimed difference, where it does."""
    against = claim.test != "same" and _depths(claim, [cell]).max() < 0
    return "; the 95% interval lies against the claim" if against else ""


def _judge_sameness(claim: Claim, cells: Sequence[Evidence], p_holm: float) -> tuple[str, str] | None:
    """The verdict on a claim that two sides are the same, where it is settled."""
    cell = weakest(claim, cells)
    if p_holm > LEVEL:
        return None
    if all(-claim.margin < other.ci_low and other.ci_high < claim.margin for other in cells):
        return "equivalent", f"the interval lies within ±{claim.margin:g} points"
    if cell.ci_low > claim.margin or cell.ci_high < -claim.margin:
        return "contradicted", f"{_opposite(claim)} is significant"
    return None


def _judge_difference(claim: Claim, cells: Sequence[Evidence], p_holm: float) -> tuple[str, str] | None:
    """The verdict on a claim of a difference, where it is settled, equivalent, or has no room to show."""
    cell = weakest(claim, cells)
    ends = _depths(claim, cells)
    claimed = p_holm <= LEVEL and (ends > 0).all()
    opposite = p_holm <= LEVEL and max(claim.depth(cell.ci_low), claim.depth(cell.ci_high)) < 0
    if not (claimed or opposite) and (end := _no_room(claim, cell)):
        return NOT_TESTABLE, end
    if claim.test not in ("not_less", "not_more") and (np.abs(ends) < claim.margin).all():
        return "equivalent", f"the interval lies within {claim.margin:g} of no effect"
    if claimed:
        if isinstance(claim, Ratio) and _short_of_size(claim, cells):
            if end := _beyond_the_ceiling(claim, cell):
                return NOT_TESTABLE, f"{end}; a gain of {cell.effect:.2f} times is settled"
            return "same direction", f"a gain, but the interval excludes the claimed {claim.size:g}"
        return "reproduced", "significant"
    return ("contradicted", f"{_opposite(claim)} is significant") if opposite else None


def _why_not_significant(claim: Claim, cells: Sequence[Evidence]) -> str:
    said = "not significant" if len(cells) == 1 else "not significant in every row"
    if isinstance(claim, Ratio) and all(cell.ci_high < claim.size for cell in cells):
        said += f", and the interval excludes the claimed {claim.size:g}"
    return said


def _short_of_size(claim: Ratio, cells: Sequence[Evidence]) -> bool:
    """Whether the interval of a cell leaves out the claimed size."""
    return any(cell.ci_high < claim.size for cell in cells)


def _beyond_the_ceiling(claim: Ratio, cell: Evidence) -> str:
    """Whether so many times the side held against would be more than 100%, at either end of its interval."""
    if claim.size * cell.other_low <= 100:
        return ""
    return f"ceiling: {claim.size:g} times {cell.other:.1f} is more than 100"


def looked_for(claim: Claim, cell: Evidence) -> tuple[float, str]:
    """The effect that n must be able to show, as a distance from the claim's boundary, and where it comes from: what is
    published, else the size that a claim has, else the margin; for sameness the margin."""
    if claim.test != "same" and not math.isnan(cell.published):
        return abs(claim.depth(cell.published)), "published"
    if isinstance(claim, Ratio):
        return claim.depth(claim.size), "claimed"
    return claim.margin, "the margin"


def n_needed(claim: Claim, cell: Evidence, verdict: str, tests: int) -> float:
    """How many queries would decide an open verdict with 80% power, from the spread seen here; NaN for other verdicts.

    A two-sided test at .05 of the effect looked for; what is only undecided is tested at .05 over the number of tests.
    Where this n would have shown that effect already, the one seen here takes its place. More queries are taken to be
    of as many more personas and needs, so that the degrees of freedom grow with them.
    """
    if verdict not in OPEN or math.isinf(cell.detectable):
        return math.nan
    level = LEVEL / (tests if verdict == "undecided" else 1)
    times = _times_as_many(cell, looked_for(claim, cell)[0], level)
    if times <= 1:
        times = _times_as_many(cell, max(abs(claim.depth(cell.effect)), 1e-12), level)
    return float(max(math.ceil(cell.n * times), cell.n + 1))


def _times_as_many(cell: Evidence, effect: float, level: float) -> float:
    """How many times the cell's n shows an effect at a level with 80% power; at most 1 where this n does."""

    def reach(freedom: float) -> float:
        t = stats.t(freedom)
        return cell.se * float(t.ppf(1 - level / 2) + t.ppf(POWER))

    def missing(times: float) -> float:
        return reach(freedom * times) - effect * math.sqrt(times)

    freedom = cell.freedom if cell.freedom >= 1 else 1.0
    if_normal = (reach(math.inf) / effect) ** 2
    fewest = max(if_normal, 1)
    return if_normal if missing(fewest) <= 0 else float(optimize.brentq(missing, fewest, 1e6 * fewest))


def _at_one_end(claim: Claim, cell: Evidence) -> str:
    """Whether both sides lie at the floor or the ceiling: so few queries differ from it that no test could tell the
    sides apart, though the effect looked for would have moved enough of them."""
    if claim.unit != "points" or cell.n * looked_for(claim, cell)[0] / 100 < FEWEST_UNITS:
        return ""
    for count, word, value in ((cell.off_floor, "floor", 0), (cell.off_ceiling, "ceiling", 100)):
        if count < FEWEST_UNITS:
            return f"{word}: on either side at most {count:g} of {cell.n:,} are not {value}"
    return ""


def _no_room(claim: Claim, cell: Evidence) -> str:
    """Whether the side held against lies so near the floor, or the ceiling, that neither the effect looked for has room
    nor any other that this n could show and that is worth the name."""
    size, source = looked_for(claim, cell)
    if claim.test in ("less", "falls"):
        room, word = cell.other_high, "floor"
    elif claim.test in ("greater", "rises"):
        room, word = 100 - cell.other_low, "ceiling"
    else:
        return ""
    if room >= min(size, max(cell.detectable, claim.margin)):
        return ""
    return f"{word}: from {cell.other:.1f} there is no room for {source} {_size(claim, size)}"


def _beyond_the_paper(claim: Claim, cell: Evidence) -> bool:
    """Whether the published difference of two rates is one that the paper's own n could not have shown, at best."""
    if not cell.rate or math.isnan(cell.published) or claim.test not in ("greater", "less", "rises", "falls"):
        return False
    return mcnemar_at_best(cell.published, PAPERS_N[claim.paper]) > LEVEL


def _opposite(claim: Claim) -> str:
    """What contradicts the claim."""
    words = {
        "not_less": "a shortfall of more than",
        "not_more": "an excess of more than",
        "same": "a difference of more than",
    }
    if claim.test in words:
        return f"{words[claim.test]} {claim.margin:g} points"
    return f"{claim.boundaries[0]:g}% or more" if claim.test == "below" else "the opposite"


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


def _why_underpowered(claim: Claim, cells: Sequence[Evidence], p_holm: float, looked_for: str) -> str:
    """Why an effect stays open; `looked_for` names the one that n could not show."""
    cell = weakest(claim, cells)
    if abs(claim.depth(cell.effect)) <= cell.detectable:
        return f"n = {cell.n:,} could show {_size(claim, cell.detectable)} or more; {looked_for}"
    # Here n did suffice: to say what it could show would contradict the effect beside it.
    if p_holm <= LEVEL:
        return SPLIT
    p_value = combined_p(claim, cells)
    if p_value <= LEVEL:
        return "a large effect, but not clear in every row"
    return f"a large effect, but not significant by itself (p = {p_value:.3f})"
