"""One knob of the simulated world at a time: which worlds are compared, and what each way of retrieving finds there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from lib.evaluation.inference import Resampling
from lib.evaluation.intervals import difference_interval, mean_interval
from lib.workbook.parameters.worlds import WorldKnobs

# The levels of each knob that is turned, one at a time.
SWEEPS = {
    "meaning_share": (0.0, 1 / 3, 2 / 3, 1.0),
    "habit_strength": (0.0, 0.4, 0.8, 1.0),
    "hour_noise": (0.5, 1.0, 3.0, 6.0),
    "hard_distractors": (0.0, 6.0, 12.0, 24.0),
    "recency_strength": (0.0, 0.3, 0.6),
    "frequency_strength": (0.0, 0.3, 0.6),
    "due_rivals": (0.0, 0.5, 1.0),
}
SIGNAL_KNOBS = ("recency_strength", "frequency_strength", "due_rivals")  # each is about one signal, which is read alone
HABIT_KNOBS = tuple(knob for knob in SWEEPS if knob not in SIGNAL_KNOBS)
COMPARED = ("semantic", "time_match", "lambdamart", "lambdamart_rrf")
DIFFERENCES = (("lambdamart_rrf", "semantic"), ("lambdamart_rrf", "lambdamart"))
# In the worlds of the signal knobs, too.
SIGNALS_COMPARED = (
    "recency",
    "most_opened",
    "due_soon",
    "lambdamart_no_usage",
    "lambdamart_without_habitual",
    "lambdamart_without_numerical",
    "lambdamart_due",
)
SIGNAL_DIFFERENCES = (
    ("lambdamart_without_habitual", "lambdamart_no_usage"),
    ("lambdamart", "lambdamart_without_numerical"),
    ("lambdamart_due", "lambdamart"),
)


def small_knobs(knobs: WorldKnobs, n_personas: int, **changes: float) -> WorldKnobs:
    """The same world with fewer personas, as many queries each, and some knobs changed."""
    share = n_personas / knobs.n_personas
    sizes = {
        "n_personas": n_personas,
        "n_training_queries": max(n_personas, round(knobs.n_training_queries * share)),
        "n_evaluation_queries": max(1, round(knobs.n_evaluation_queries * share)),
    }
    return WorldKnobs.model_validate({name: getattr(knobs, name) for name in WorldKnobs.model_fields} | sizes | changes)


@dataclass(frozen=True)
class Sweep:
    """Small worlds in each of which one knob differs from the default.

    Attributes:
        profile, seed: of every world.
        personas: of each.
    """

    profile: str
    seed: int
    personas: int

    @cached_property
    def base(self) -> WorldKnobs:
        """The knobs that a setting does not change."""
        return WorldKnobs(profile=self.profile, seed=self.seed)

    @cached_property
    def settings(self) -> dict[tuple[str, float], dict[str, float]]:
        """{(knob, level): the knobs that differ from `base` there}: none where the level is its own.

        Where the share of meaning queries changes, habit and either queries share the rest.
        """
        settings = {}
        for knob, levels in SWEEPS.items():
            for level in levels:
                mix = {"habit_share": (1 - level) / 2} if knob == "meaning_share" else {}
                settings[knob, level] = {} if level == getattr(self.base, knob) else {knob: level, **mix}
        return settings

    @cached_property
    def changes(self) -> list[dict[str, float]]:
        """The distinct ones among the settings, in their order: one a world."""
        return list({str(changes): changes for changes in self.settings.values()}.values())

    @property
    def reads_signals(self) -> list[bool]:
        """Of each world: whether it is one of a signal knob's, the default one among them."""
        read = [changes for (knob, _), changes in self.settings.items() if knob in SIGNAL_KNOBS]
        return [changes in read for changes in self.changes]

    @property
    def knobs(self) -> list[WorldKnobs]:
        """Of each world."""
        return [small_knobs(self.base, self.personas, **changes) for changes in self.changes]

    def summarise(
        self, worlds: Sequence[Mapping[str, pd.DataFrame]], scores: Sequence[pd.DataFrame], k: int
    ) -> pd.DataFrame:
        """Mean recall at K in every setting, of `COMPARED` methods and of `DIFFERENCES` ("a − b"); in those of a signal
        knob also of `SIGNALS_COMPARED` and `SIGNAL_DIFFERENCES`.

        Args:
            worlds, scores: of each world: its frames, and `lib.assistant.sensitivity.cross_fitted_scores`.
            k: K.

        Returns:
            columns knob, level, method, recall@K in percent, ci_low, ci_high, n.
        """
        rows = []
        for (knob, level), changes in self.settings.items():
            number = self.changes.index(changes)
            compared = COMPARED + SIGNALS_COMPARED if knob in SIGNAL_KNOBS else COMPARED
            differences = DIFFERENCES + SIGNAL_DIFFERENCES if knob in SIGNAL_KNOBS else DIFFERENCES
            for row in _summarise_world(worlds[number], scores[number], k, compared, differences).itertuples():
                rows.append((knob, level, row.Index, row.value, row.ci_low, row.ci_high, row.n))
        return pd.DataFrame(rows, columns=["knob", "level", "method", f"recall@{k}", "ci_low", "ci_high", "n"])


def _summarise_world(
    world: Mapping[str, pd.DataFrame],
    scores: pd.DataFrame,
    k: int,
    compared: Sequence[str],
    differences: Sequence[tuple[str, str]],
) -> pd.DataFrame:
    recall = pd.DataFrame({method: scores[method, "recall", k] for method in compared})
    needs = world["gold"].set_index("query").loc[recall.index, "need"]
    over = Resampling([world["queries"]["persona"].to_numpy(), needs.to_numpy()])
    ends = mean_interval(recall.to_numpy(), over)
    left, right = (recall[[pair[side] for pair in differences]].to_numpy() for side in (0, 1))
    low, high = (np.concatenate(both) for both in zip(ends, difference_interval(left, right, over), strict=True))
    means = np.concatenate([recall.mean(), (left - right).mean(axis=0)])
    names = [*compared, *(f"{a} − {b}" for a, b in differences)]
    return pd.DataFrame({"value": means, "ci_low": low, "ci_high": high, "n": len(recall)}, index=names)
