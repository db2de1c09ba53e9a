"""In any world: the negative controls of LambdaMART (`lib.assistant.controls`), and a sceptic's questions
(`lib.assistant.leaks`), which read gold labels and provenance that no retrieval method may see.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from lib.assistant.argument_sources import world_shares
from lib.assistant.context_scores import EvaluationQueries, RankerScores, score_methods
from lib.assistant.controls import negative_controls, recall_of_draws, weigh_controls
from lib.assistant.leaks import (
    BY_DUE_TIME,
    BY_NEED,
    BY_WORD,
    LAST_OPENED,
    MOST_OPENED,
    check_split,
    leaks,
    sceptic_table,
)
from lib.assistant.ranker_ablation import without_usage
from lib.assistant.ranking_task import Learning, RankingTask
from lib.assistant.tool_retrieval import ToolTask
from lib.assistant.tool_worlds import CLASSIFIER, FREQUENCY
from lib.workbook.parameters.worlds import WorldKnobs

# Those of `lib.assistant.leaks.sceptic_table` on what gives an answer away, with what stands beside each.
SHORTCUTS = {
    BY_NEED: "the commonest API of all",
    **dict.fromkeys(BY_WORD.values(), "the persona's other items"),
    BY_DUE_TIME: "all events and reminders",
    MOST_OPENED: "an item at random",
    LAST_OPENED: "an item at random",
}
NAMED = "API named by a classifier of the query's text, %"
NAMED_UNSEEN = "the same, by one that never learned the need, %"
PLANNED, ON_EVALUATION = "planned", "on the evaluation side"


def controls_in(
    world: Mapping[str, pd.DataFrame], vectors: Mapping[str, np.ndarray], learning: Learning, draws: int
) -> pd.DataFrame:
    """A LambdaMART learned in a world, and its controls there.

    Args:
        world: frames items, opens, queries, gold.
        vectors: unit-length embeddings of items and queries, in frame order.
        draws: see `lib.assistant.controls.negative_controls`.

    Returns:
        as `lib.assistant.controls.weigh_controls`, at the first cutoff, with columns lambdamart (its own recall) and n
        (queries).
    """
    task = RankingTask.of_world(world, vectors, learning)
    ranker = task.learn()
    asked = EvaluationQueries.of_world(task.queries, task.gold, ())
    candidates = task.pairs.groupby("query").size()[asked.names]
    resampling = asked.resampling(0, learning.seed)
    own = {"lambdamart": task.rank(ranker)}
    scored = score_methods(asked, own, {}, candidates, task.qrels, learning.cutoffs, resampling)
    references = task.score({"lambdamart_no_usage": without_usage(task)})
    rankers = RankerScores.beside_methods(scored, ["lambdamart", "random"], references)
    drawn = negative_controls(task, ranker, draws)
    weighed = weigh_controls(recall_of_draws(task, drawn, learning.cutoffs[0]), rankers)
    return weighed.assign(
        lambdamart=[rankers.recall("lambdamart", kind) for kind in weighed["queries"]],
        n=[int(asked.of_kind(kind).sum()) for kind in weighed["queries"]],
    )


def leaks_in(
    world: dict[str, pd.DataFrame],
    task: ToolTask,
    runs: Mapping[str, pd.DataFrame],
    api_sources: Mapping[str, str],
    knobs: WorldKnobs,
) -> pd.DataFrame:
    """What a simulated world's name promises of its queries, what in it could give an answer away, and what training
    and evaluation share, each beside a reference.

    Args:
        world: as `lib.assistant.world.frames` makes it.
        task: the queries of it that tools were searched for.
        runs: `CLASSIFIER` and `FREQUENCY` and both `…_unseen`, over these queries (see
            `lib.assistant.tool_search.runs_of_plans`).
        api_sources: what decides the call, by need (see `lib.assistant.world.read_api_sources`).
        knobs: what the world was simulated by.

    Returns:
        columns question (ends with its unit, or counts distinct values), here, reference, reference_is (in words:
        `planned`, say). A question that no query poses is left out.

    Raises:
        ValueError: training and evaluation share what `knobs.split` keeps apart.
    """
    shared = leaks(world)
    check_split(shared, knobs.split)
    shares = world_shares(world["queries"], world["gold"], api_sources, knobs.world)
    shares = shares[shares["value"] != "place"]  # it is what `need` leaves
    sceptic = sceptic_table(world).set_index("question")
    left, whole = sceptic.loc[["H(API | need), bits", "H(API), bits"], "here"]
    rows = [
        (f"{knob}: {value}, %", here, planned, PLANNED)
        for knob, value, here, planned in shares[["knob", "value", "here", "planned"]].itertuples(index=False)
    ]
    rows.append(("H(API | need), bits", left, whole, "H(API)"))
    rows += [
        (question, api_ranked_first(runs[asked], task), api_ranked_first(runs[common], task), beside)
        for question, asked, common, beside in (
            (NAMED, CLASSIFIER, FREQUENCY, "the commonest API of training"),
            (NAMED_UNSEEN, f"{CLASSIFIER}_unseen", f"{FREQUENCY}_unseen", "the commonest API of other needs"),
        )
    ]
    rows += [
        (question, here, chance, SHORTCUTS[question])
        for question, here, chance in sceptic[["here", "by chance"]].itertuples()
        if question in SHORTCUTS
    ]
    rows += [
        (f"{what} on both sides", in_both, evaluation, ON_EVALUATION)
        for what, evaluation, in_both in shared[["what", "evaluation", "shared"]].itertuples(index=False)
    ]
    return pd.DataFrame(rows, columns=["question", "here", "reference", "reference_is"])


def api_ranked_first(run: pd.DataFrame, task: ToolTask) -> float:
    """Percent of the evaluated queries that an API serves whose plan's first API a run ranks first; NaN where none is.

    Args:
        run: columns query, item, rank.
    """
    plans = task.gold.drop_duplicates("query").set_index("query")["item"]
    first = run[run["rank"] == 1].set_index("query")["item"]
    served = task.evaluated.loc[task.evaluated["query"].isin(plans.index), "query"]
    return 100 * (first[served] == plans[served]).mean()
