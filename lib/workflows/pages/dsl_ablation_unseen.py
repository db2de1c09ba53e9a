"""Notebook 09: requests for APIs that nobody trained on, and whether examples of these APIs help."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from lib.evaluation.inference import Resampling, mean_interval, percent
from lib.workbook.display import Table, interval
from lib.workflows.ablation import new_apis_called
from lib.workflows.ablation_grid import UNSEEN_SHOTS, Asked, Unseen
from lib.workflows.pages.common import intervals, metric_intervals, wide_by_metric
from lib.workflows.pages.dsl_ablation import Study, examples


def shown_table(study: Study, unseen: Unseen, semantic: pd.Series, definitions: int) -> Table:
    """Whether the APIs held out get into the prompt, by few-shots with so many examples added or by SFD.

    Args:
        semantic: the API names nearest to each pair's request.
        definitions: how many of them SFD shows.
    """
    pairs = unseen.requests["pair"]
    shown = {examples(n): unseen.shown(n) for n in unseen.shots}
    shown[f"SFD, {definitions} definitions"] = unseen.covered([semantic[pair][:definitions] for pair in pairs])
    frame = pd.DataFrame(
        {"shown by": list(shown), "new APIs shown, %": [_share(study, hits, pairs) for hits in shown.values()]}
    )
    caption = f"Held-out APIs that are wanted and stand in the prompt, {UNSEEN_SHOTS} few-shots; 95% intervals."
    return Table(frame, caption)


def _share(study: Study, hits: np.ndarray, pairs: pd.Series) -> str:
    return interval(*mean_interval(hits, Resampling(pairs.to_numpy(), study.samples, study.seed)))


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


def held(study: Study, asked: Sequence[Asked], unseen: Unseen) -> Held | None:
    """None where too few flows use an API held out for anything to be asked."""
    names = study.present(one.name for one in asked if one.added is not None)
    wanted = pd.Series(unseen.wanted(), index=unseen.requests["pair"])
    return Held(study, names, wanted) if names else None


def held_table(results: Held) -> Table:
    """The metrics and the new APIs called, one row a condition."""
    frame = wide_by_metric(results.compared, "condition", metric_intervals(results.compared))
    frame.insert(0, "new APIs called, %", intervals(results.rates, ["value", "ci_low", "ci_high"], decimals=0))
    frame.insert(0, "flows", results.rates["n"].tolist())
    frame.insert(0, "few-shots and definitions", frame.index.map(results.study.titles))
    caption = f"Flows for requests that need held-out APIs, {UNSEEN_SHOTS} few-shots; 95% intervals."
    return Table(frame.reset_index(drop=True), caption, text_columns=["few-shots and definitions"])


def experiments(asked: Sequence[Asked]) -> dict[str, str]:
    """The experiment of each condition on APIs held out, in the report's tables."""
    return {
        name: f"unseen APIs, {examples(added)}"
        for name, row, _, added in asked
        if added is not None and row.generator != "finetuned"
    }
