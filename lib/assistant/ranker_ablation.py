"""What LambdaMART's ranking of context lives off: rankers that see less, that learn on one kind of query or on fewer
needs, and rankings without learning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from lib.assistant.queries import folds_of_needs
from lib.assistant.rrf_readings import needed, rank_without
from lib.retrieval.stores import rank_pairs

if TYPE_CHECKING:
    from lib.assistant.ranking_task import RankingTask
    from lib.assistant.retrained_cosines import EncoderCosines
    from lib.assistant.second_stage import Choice, Setting, TwoStages
    from lib.retrieval.lambdamart import LambdaMART

TEXT_ALONE = "text alone"
QUERY_UNSEEN = "items alone (query unseen)"
TWO_NO_USAGE = "two stages without usage"
TWO_NO_HABITS = "two stages without habits"
TWO_QUERY_UNSEEN = "two stages, items alone (query unseen)"
TWO_WITH_COSINE = "two stages with the adapted cosine"
TWO_WITHOUT_COSINE = "two stages without the adapted cosine"
FINETUNED = "finetuned"  # a text score: the cosine of notebook 04's encoder
WITH_FINETUNED = "LambdaMART with the fine-tuned encoder"
CROSS_FITTED = "LambdaMART with the fine-tuned encoder, cross-fitted"
TWO_CROSS_FITTED = "lambdamart_2_finetuned"  # our two stages with it, cross-fitted: a row of Table 2
SEEING = (WITH_FINETUNED, CROSS_FITTED, TWO_CROSS_FITTED)  # the cosine of a fine-tuned encoder
UNLEARNED = {
    "frequency × time match, not learned": "moment_count",
    "share of opens at such a moment, not learned": "moment_share",
}


def without_usage(task: RankingTask) -> pd.DataFrame:
    """The ranking of a LambdaMART without the features of the usage log, numerical and habitual."""
    return task.rank(task.learn(task.groups["categorical"] + task.groups["text"]))


def reduced_rankers(task: RankingTask) -> dict[str, pd.DataFrame]:
    """Rankings of rankers that see less, and of two that learn nothing: without each group of features
    (`without <group>`), `TEXT_ALONE`, `QUERY_UNSEEN` and `UNLEARNED`."""
    columns = {f"without {group}": task.columns_without(group) for group in task.groups}
    columns |= {TEXT_ALONE: task.groups["text"], QUERY_UNSEEN: [*task.groups["numerical"], "app"]}
    learned = {name: task.rank(task.learn(seen)) for name, seen in columns.items()}
    return learned | {
        name: task.rank_by(task.features[column].fillna(0).to_numpy()) for name, column in UNLEARNED.items()
    }


def told_the_kind(task: RankingTask, kinds: Sequence[str], ranker: LambdaMART) -> dict[str, pd.DataFrame]:
    """{"told: <kind>": ranking by a LambdaMART that learned on the training queries of that kind alone}.

    `ranker`, which learned on all, stands in where one persona at most asks such queries.
    """
    kind_of_pair = task.pairs["query"].map(task.gold.set_index("query")["kind"].astype(str)).to_numpy()
    runs = {}
    for kind in kinds:
        rows = task.training & (kind_of_pair == kind)
        runs[f"told: {kind}"] = task.rank(task.learn(rows=rows) if len(set(task.persona[rows])) > 1 else ranker)
    return runs


def folds_of_pairs(task: RankingTask) -> np.ndarray:
    """The fold of the need (see `folds_of_needs`) that each pair's query asks about."""
    need = task.pairs["query"].map(task.gold.set_index("query")["need"])
    return need.map(folds_of_needs(need, task.held_out_needs, task.learning.seed)).to_numpy()


def new_needs(task: RankingTask) -> dict[int, tuple[np.ndarray, np.ndarray]]:
    """{fold of needs that is asked about: the pairs to learn from, of training queries about other folds', and the
    evaluation pairs asked about}, bools."""
    fold = folds_of_pairs(task)
    return {
        int(number): (task.training & (fold != number), task.evaluation & (fold == number))
        for number in np.unique(fold[task.evaluation])
    }


def settings_by_name(choice: Choice) -> dict[str, Setting]:
    """{name: setting of the second stage}: of lambdamart_2, and of the best one that differs from it in whether it sees
    the fine-tuned cosine (`TWO_WITHOUT_COSINE` or `TWO_WITH_COSINE`)."""
    side = choice.side
    sides = {} if side is None else {TWO_WITH_COSINE if side.adapted else TWO_WITHOUT_COSINE: side}
    return {"lambdamart_2": choice.setting} | sides


def without_their_needs(
    two: TwoStages,
    settings: Mapping[str, Setting],
    fused: Sequence[str] = (),
    cosines: Mapping[int, np.ndarray] | None = None,
) -> dict[str, pd.DataFrame]:
    """The rankings of all evaluation queries (see `RankingTask.rankings`, and the names of the settings) by a
    LambdaMART, second stages upon it and the rankers behind the fused rankings, that no training query told of the
    needs in the query's fold.

    Args:
        settings: of the second stages, by name.
        cosines: {fold: fine-tuned cosines of all pairs, by maps that learned nothing of that fold's needs}; None: no
            setting needs any.
    """
    task, parts = two.task, []
    for number, (learned, asked) in new_needs(task).items():
        stages = two if cosines is None else two.seeing(cosines[number])
        first = two.first_on_new_needs[number]
        ranked = task.rankings(first[asked], asked) | rank_without(task, needed(fused), learned, asked)
        for name, setting in settings.items():
            ranked[name] = rank_pairs(task.pairs[asked], stages.second_without(first, setting, learned, asked))
        parts.append(ranked)
    return {name: pd.concat([part[name] for part in parts], ignore_index=True) for name in parts[0]}


def unseen_with_cosine(task: RankingTask, cosines: Mapping[int, np.ndarray]) -> pd.DataFrame:
    """The ranking of evaluation queries by a LambdaMART that also sees the cosine of a fine-tuned encoder, where
    neither it nor an encoder behind it learned from the needs in the query's fold. A fold without cosines has no row.

    Args:
        cosines: {fold: the cosine of each pair, by encoders that learned nothing of that fold's needs}, at least one.
    """
    parts, folds = [], new_needs(task)
    for number, cosine in sorted(cosines.items()):
        learned, asked = folds[number]
        seeing = task.with_text_scores(FINETUNED, cosine)
        parts.append(rank_pairs(task.pairs[asked], seeing.learn(rows=learned).predict(seeing.features[asked])))
    return pd.concat(parts, ignore_index=True)


def with_cross_fitted(
    two: TwoStages, setting: Setting, first: np.ndarray, cosines: EncoderCosines
) -> dict[str, pd.DataFrame]:
    """Rankings by a LambdaMART and by a second stage that see the cosine of fine-tuned encoders, which training queries
    have from encoders that met neither their persona nor their need (`CROSS_FITTED`, `TWO_CROSS_FITTED`); none where
    there are no such cosines.

    Args:
        setting: of the second stage; it sees this cosine in the place of the adapted one.
        first: the first stage's score of each pair, of training pairs out of fold.
    """
    if cosines.cross_fitted is None:
        return {}
    task, setting = two.task, setting._replace(adapted=True)
    seeing, stages = task.with_text_scores(FINETUNED, cosines.cross_fitted), two.seeing(cosines.cross_fitted)
    second = stages.predict(stages.learn(first, setting), first)
    return {CROSS_FITTED: seeing.rank(seeing.learn()), TWO_CROSS_FITTED: task.rank_by(second)}


def unseen_with_encoders(two: TwoStages, setting: Setting, cosines: EncoderCosines) -> dict[str, pd.DataFrame]:
    """Rankings of the evaluation queries by rankers that see the cosine of a fine-tuned encoder (`SEEING`), where
    neither they nor an encoder behind them learned from the needs in the query's fold; those that have cosines.

    Args:
        setting: as of `with_cross_fitted`.
    """
    found = {}
    if cosines.folds:
        found[WITH_FINETUNED] = unseen_with_cosine(two.task, cosines.without)
    if cosines.cross_fitted_without:
        found[CROSS_FITTED] = unseen_with_cosine(two.task, cosines.cross_fitted_without)
        settings = {TWO_CROSS_FITTED: setting._replace(adapted=True)}
        ranked = without_their_needs(two, settings, cosines=cosines.cross_fitted_without)
        found[TWO_CROSS_FITTED] = ranked[TWO_CROSS_FITTED]
    return found


def reduced_two_stages(two: TwoStages, setting: Setting) -> dict[str, pd.DataFrame]:
    """Rankings by two stages that see less: nothing of the usage log (`TWO_NO_USAGE`), nothing of how it agrees with
    the query's moment (`TWO_NO_HABITS`), or nothing of the query (`TWO_QUERY_UNSEEN`), its fine-tuned cosine
    included."""
    task, groups = two.task, two.task.groups
    text_only = setting._replace(groups=tuple(name for name in setting.groups if name != "log"))
    seen = {
        TWO_NO_USAGE: (groups["categorical"] + groups["text"], text_only),
        TWO_NO_HABITS: (task.columns_without("habitual"), setting),
        TWO_QUERY_UNSEEN: ([*groups["numerical"], "app"], setting._replace(adapted=False)),
    }
    pairs = task.pairs[task.evaluation]
    return {
        name: rank_pairs(pairs, replace(two, columns=columns).evaluation_scores(less))
        for name, (columns, less) in seen.items()
    }
