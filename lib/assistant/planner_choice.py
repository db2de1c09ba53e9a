"""The settings of the planner, chosen on training personas: no evaluation query takes part.

A fifth of the training personas stands for evaluation. Planners with other learning rates, passes, numbers of tools or
of items learn from the rest, in all else as the planner of notebook 07, and are asked for plans of the fifth in the
five settings of Table 3. The measure is the mean AST accuracy over the five. The settings in use stay unless others are
clearly better: so two passes took the place of one, with which all began, and the trials were made again around them.

Seven planners take two cores six hours, so their plans are kept with the project (`lib.assistant.retrained_planner`).
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from lib.assistant.cot import equal_shares
from lib.assistant.planner import SETTINGS, Material, score_plans
from lib.assistant.retrained_planner import Again, Retraining, planned
from lib.assistant.trained_parts import PlannerLesson
from lib.evaluation.inference import Resampling
from lib.evaluation.intervals import difference_interval, mean_interval
from lib.generation.finetune import Training
from lib.generation.kept import Keeper

SHARE = 0.2  # of the training personas
KEPT = 240  # queries of theirs whose plans are kept


class Candidate(NamedTuple):
    """Settings that are tried.

    Attributes:
        rate: learning rate.
        epochs: passes over the pairs.
        tools, items: retrieved ones in a prompt, in training and evaluation.
    """

    rate: float
    epochs: int
    tools: int
    items: int

    @property
    def name(self) -> str:
        return f"rate_{self.rate:g}_epochs_{self.epochs}_tools_{self.tools}_items_{self.items}"


class Trials(NamedTuple):
    """What the planners of all candidates are worth.

    Attributes:
        compared: see `compare`.
        used: the candidate in use.
        keepers: of each planner, which of its plans were kept with the project.
    """

    compared: pd.DataFrame
    used: Candidate
    keepers: list[Keeper]


def candidates(used: Candidate) -> list[Candidate]:
    """Those in use, and others of which each differs in one setting."""
    fewer = [used._replace(epochs=used.epochs // 2)] if used.epochs > 1 else []
    return [
        used,
        used._replace(rate=used.rate / 3),
        used._replace(rate=used.rate * 5 / 3),
        *fewer,
        used._replace(epochs=2 * used.epochs),
        used._replace(tools=max(1, used.tools // 2)),
        used._replace(items=used.items + 2),
    ]


def among_training(lesson: PlannerLesson) -> PlannerLesson:
    """The lesson in which a `SHARE` of the training personas, drawn with the seed, stands for evaluation. Queries of
    needs that no planner learns from, and all true evaluation queries, are left out."""
    queries, need = lesson.material.queries, lesson.material.gold.set_index("query")["need"]
    training = queries[(queries["split"] == "training") & ~queries["query"].map(need).isin(lesson.held_out)]
    personas = np.random.default_rng(lesson.seed).permutation(sorted(set(training["persona"])))
    asked = training["persona"].isin(personas[: max(1, round(SHARE * len(personas)))])
    split = np.where(asked, "evaluation", "training")
    return replace(lesson, material=replace(lesson.material, queries=training.assign(split=split)))


def trials(how: Retraining, model: str, settings: Training, max_tokens: int, queries: int) -> Trials | None:
    """All candidates tried: by kept plans, or by planners trained now where `how` says so; None where neither is.

    Args:
        how: with the planner's own lesson.
        model: name of the base model.
        settings: in use, of training.
        max_tokens: of a plan.
        queries: that are asked, at least.
    """
    lesson = among_training(how.lesson)
    used = Candidate(settings.learning_rate, settings.epochs, lesson.material.n_tools, lesson.material.n_items)

    @functools.cache  # candidates that show alike have one lesson, whose hash reads the whole world
    def showing(tools: int, items: int) -> tuple[pd.DataFrame, pd.Series, Retraining]:
        material = replace(lesson.material, n_tools=tools, n_items=items)
        return *asked(material, lesson.seed), replace(how, lesson=replace(lesson, material=material))

    found, keepers = {}, []
    for candidate in candidates(used):
        prompts, kinds, learning = showing(candidate.tools, candidate.items)
        training = replace(settings, learning_rate=candidate.rate, epochs=candidate.epochs)
        again = Again(candidate.name, model, training, max_tokens, KEPT)
        tried = planned(prompts, kinds, again, learning, queries)
        if tried is None:
            return None
        material = learning.lesson.material
        scored = score_plans(tried.plans, material.gold, material.desk.functions)
        found[candidate] = scored.pivot(index="query", columns="setting", values="ast_accuracy")[list(SETTINGS)]
        keepers.append(tried.keeper)
    return Trials(compare(found, used, lesson.material), used, keepers)


def asked(material: Material, seed: int) -> tuple[pd.DataFrame, pd.Series]:
    """The prompts of `KEPT` queries of the personas that stand for evaluation, as even by kind as there are, in every
    setting; and the kinds of all queries, by query."""
    queries = material.queries[material.queries["split"] == "evaluation"]
    kinds = material.gold.set_index("query")["kind"]
    return material.prompted(equal_shares(queries, kinds.loc[queries["query"]], KEPT, seed), SETTINGS), kinds


def compare(found: Mapping[Candidate, pd.DataFrame], used: Candidate, material: Material) -> pd.DataFrame:
    """Mean AST accuracy of each candidate, in each setting and over the five, on the queries that all were asked.

    Args:
        found: AST accuracy (0 or 100) of the plans, a row a query, columns of `SETTINGS`.
        used: the candidate in use.

    Returns:
        one row a candidate: its settings, the columns of `SETTINGS`, and mean, ci_low, ci_high, n; difference to the
        one in use with difference_low and difference_high (two-way cluster-robust intervals, by persona and need).
    """
    common = sorted(set.intersection(*(set(accuracy.index) for accuracy in found.values())))
    persona = material.queries.set_index("query")["persona"].loc[common].to_numpy()
    over = Resampling([persona, material.gold.set_index("query")["need"].loc[common].to_numpy()])
    means = np.column_stack([accuracy.loc[common].mean(axis=1) for accuracy in found.values()])
    low, high = mean_interval(means, over)
    base = np.broadcast_to(means[:, [list(found).index(used)]], means.shape)
    lower, upper = difference_interval(means, base, over)
    rows = pd.DataFrame([candidate._asdict() for candidate in found])
    parts = pd.DataFrame([accuracy.loc[common].mean() for accuracy in found.values()]).reset_index(drop=True)
    return pd.concat([rows, parts], axis=1).assign(
        mean=means.mean(axis=0),
        ci_low=low,
        ci_high=high,
        n=len(common),
        difference=(means - base).mean(axis=0),
        difference_low=lower,
        difference_high=upper,
    )


def better(compared: pd.DataFrame) -> pd.DataFrame:
    """The candidates whose difference from the one in use has an interval above 0, the best first."""
    return compared[compared["difference_low"] > 0].sort_values("mean", ascending=False)


LEFT_OUT = (
    "No settings were tried here: the kept plans are of another world or other prompts, and the profile does not say "
    "`retrain_planner`."
)
