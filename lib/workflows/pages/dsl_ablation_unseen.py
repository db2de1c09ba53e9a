"""Notebook 09: requests for APIs that nobody trained on, and whether examples of these APIs help."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from lib.evaluation.inference import LEVEL, bootstrap_interval, holm_adjust, mcnemar_test, percent
from lib.workbook.display import Table, interval
from lib.workflows.ablation import new_apis_called
from lib.workflows.ablation_grid import UNSEEN_FINETUNED, UNSEEN_HELD, UNSEEN_SHOTS, Asked, Unseen
from lib.workflows.pages.common import intervals, metric_intervals, wide_by_metric
from lib.workflows.pages.dsl_ablation import Study, way_title
from lib.workflows.pages.dsl_ablation_tables import changes


def shown_table(study: Study, unseen: Unseen, semantic: pd.Series, definitions: int) -> Table:
    """Whether the APIs held out get into the prompt, by few-shots of each way of adding examples or by SFD.

    Args:
        semantic: the API names nearest to each pair's request.
        definitions: how many of them SFD shows.
    """
    pairs = unseen.requests["pair"]
    of_shots = {way_title(way): unseen.shown(way) for way in unseen.shots}
    of_sfd = unseen.covered([semantic[pair][:definitions] for pair in pairs])
    texts = [_share(study, hits, pairs) if hits.any() else "0 by construction" for hits in of_shots.values()]
    frame = pd.DataFrame(
        {
            "shown by": [*of_shots, f"SFD, {definitions} definitions"],
            "new APIs shown, %": [*texts, _share(study, of_sfd, pairs)],
        }
    )
    n_training = len(unseen.pools[0])
    added = [f"{len(pool) - n_training} pairs are added" for n, pool in unseen.pools.items() if n]
    caption = (
        f"Held-out APIs that are wanted and stand in the prompt: in one of {UNSEEN_SHOTS} few-shots by the pretrained "
        f"encoder, or among the definitions; {len(pairs)} requests, 95% intervals. "
        f"{'; '.join([f'{len(unseen.new)} APIs are held out', *added])}."
    )
    return Table(frame, caption)


def _share(study: Study, hits: np.ndarray, pairs: pd.Series) -> str:
    low, high = bootstrap_interval(hits, [pairs], study.samples, study.seed)
    return interval(hits.mean(), float(low), float(high))


def standing_in_words(unseen: Unseen, tested: int) -> str:
    """In how many of the prompts that are tested an added example stands."""
    n_training = len(unseen.pools[0])
    standing = {
        way: sum(max(near) >= n_training for near in shots[:tested]) for way, shots in unseen.shots.items() if way[0]
    }
    ways = "; ".join(f"{n} with {way_title(way)}" for way, n in standing.items())
    return (
        f"Of the {tested} requests tested below an added example stands in the prompt of {ways}. Where it does not, "
        "the prompt is the same as without."
    )


@dataclass(frozen=True)
class Held:
    """The conditions on APIs held out of training that were asked, and what their flows call.

    Attributes:
        names: of the conditions, the first one has no examples and no definitions.
        wanted: for each unit the APIs held out that it needs.
    """

    study: Study
    names: Sequence[str]
    wanted: pd.Series

    @cached_property
    def compared(self) -> pd.DataFrame:
        """Each against the first one."""
        return self.study.compare(self.names, self.names[0])

    @cached_property
    def called(self) -> pd.DataFrame:
        """100 where a flow calls at least one API held out that it needs: flows by conditions, NaN where a condition
        was not asked for the flow."""
        scores = self.study.scores[self.study.scores["condition"].isin(self.names)]
        return new_apis_called(scores, self.wanted)[list(self.names)]

    @cached_property
    def rates(self) -> pd.DataFrame:
        """How many flows do, in percent with Wilson's interval, as `tables/dsl_unseen_called.csv` has it."""
        n = self.called.notna().sum()
        mean, low, high = percent(self.called.sum() / 100, n)
        return pd.DataFrame({"condition": self.names, "value": mean, "ci_low": low, "ci_high": high, "n": n.to_numpy()})

    def p_value(self, a: str, b: str) -> float:
        """McNemar's test of whether one condition calls a new API where another does not, on the flows of both."""
        both = self.called[[a, b]].dropna() > 0
        return mcnemar_test(both[a], both[b])


def held(study: Study, asked: Sequence[Asked], unseen: Unseen) -> Held | None:
    """None where too few flows use an API held out for anything to be asked."""
    names = study.present(one.name for one in asked if one.way is not None)
    wanted = pd.Series(unseen.wanted(), index=unseen.requests["pair"])
    return Held(study, names, wanted) if names else None


def held_table(results: Held) -> Table:
    """The metrics and the new APIs called, one row a condition."""
    frame = wide_by_metric(results.compared, "condition", metric_intervals(results.compared))
    frame.insert(0, "new APIs called, %", intervals(results.rates, ["value", "ci_low", "ci_high"], decimals=0))
    frame.insert(0, "few-shots and definitions", frame.index.map(results.study.titles))
    caption = f"Flows for {_requests(results)} that need held-out APIs, {UNSEEN_SHOTS} few-shots; 95% intervals."
    return Table(frame.reset_index(drop=True), caption, text_columns=["few-shots and definitions"])


def held_in_words(results: Held) -> str:
    """Which differences are settled, and which rows call the new APIs more often."""
    titles, called = results.study.titles, results.called
    possible = [name for name in results.names if "gold" not in name]  # no method knows which definitions are wanted
    tuned = [name for name in (UNSEEN_FINETUNED, UNSEEN_HELD) if name in results.names]
    rivals = [(name, base) for base in (results.names[0], *tuned) for name in possible if name != base]
    adjusted = holm_adjust([results.p_value(a, b) for a, b in rivals])
    found = [f"{titles[a]} against {titles[b]}" for (a, b), p in zip(rivals, adjusted, strict=True) if p <= LEVEL]
    said = (
        f"significant differences (McNemar, Holm): {'; '.join(found)}"
        if found
        else "no row is shown to differ from the first one or from the fine-tuned model, free or held (McNemar, Holm)"
    )
    rates, best = results.rates.set_index("condition"), called[possible].mean().idxmax()
    shown = intervals(rates.loc[[best, *tuned]].reset_index(), ["value", "ci_low", "ci_high"], decimals=0)
    shares = [f"{titles[name]} {text}%" for name, text in zip((best, *tuned), shown, strict=True)]
    return (
        f"{changes(results.study, results.compared)}New APIs called: {said}. The highest without gold definitions: "
        f"{shares[0]}. Beside it: {'; '.join(shares[1:])}. Of {_requests(results)}."
    )


def _requests(results: Held) -> str:
    fewest, most = results.rates["n"].min(), results.rates["n"].max()
    return f"{most} requests" if fewest == most else f"{fewest} to {most} requests a row"


def experiments(asked: Sequence[Asked]) -> dict[str, str]:
    """The experiment of each condition on APIs held out, in the report's tables: its way of adding examples."""
    return {
        name: f"unseen APIs, {way_title(way)}"
        for name, row, _, way in asked
        if way is not None and row.generator != "finetuned"
    }
