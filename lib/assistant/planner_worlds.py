"""The planner's settings (Table 3) in each of the three named worlds (`lib.assistant.named_worlds`).

One planner plans in all of them. It learned in one world alone; of the others it sees what its prompts show. Context is
retrieved by semantic search and, as the paper has it, by a LambdaMART, which learned in the world itself. Tools are
found by cosine, as in the paper, and by the learned ranker (`lib.assistant.tool_ranker`), which learned there, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain, pairwise

import pandas as pd

from lib.assistant.execution import executed_right
from lib.assistant.plan_comparison import per_query, summary
from lib.assistant.planner import (
    ALONE_BY_RANKER,
    BY_LAMBDAMART,
    BY_RANKER,
    SETTINGS,
    Desk,
    Material,
    answerable,
    prompts_asked,
    score_plans,
    with_other_plans,
)
from lib.assistant.tool_worlds import ALONE, CONTEXT, RANKER_ALONE, RANKER_TUNED, RETRIEVED, TUNED
from lib.evaluation.comparison import compare
from lib.evaluation.inference import Resampling

BY_SEARCH = "context_tuned_rag"  # whose context is by semantic search here
CONTEXT_TUNED = BY_LAMBDAMART[BY_SEARCH]
TUNED_BY_RANKER = BY_LAMBDAMART[BY_RANKER]
# Settings with tools by cosine, and the same with tools by our ranker.
BY_OURS = {"rag": ALONE_BY_RANKER, BY_SEARCH: BY_RANKER, CONTEXT_TUNED: TUNED_BY_RANKER}
PLANNED = ("lower_bound", *chain(*BY_OURS.items()), "upper_bound", "context_tuned_upper_bound")
STEPS = [(higher, lower) for lower, higher in pairwise(SETTINGS)]  # as Table 3 orders them
# The same with context by LambdaMART, the paper's method.
PAPERS_STEPS = [(BY_LAMBDAMART.get(higher, higher), BY_LAMBDAMART.get(lower, lower)) for higher, lower in STEPS]
BESIDE = [(BY_SEARCH, "rag"), (CONTEXT_TUNED, BY_SEARCH)]
# Our ranker's tools against cosine's, and what context adds to ours.
OURS = [*((ours, theirs) for theirs, ours in BY_OURS.items()), (TUNED_BY_RANKER, ALONE_BY_RANKER)]
WITH_CONTEXT = (BY_SEARCH, CONTEXT_TUNED, "context_tuned_upper_bound")


def materials_of(
    worlds: Mapping[str, Mapping[str, pd.DataFrame]], rankings: pd.DataFrame, n_tools: int, n_items: int
) -> dict[str, Material]:
    """What prompts are written from in each world, with context by semantic search.

    Args:
        worlds: frames items, people, toolbox, queries, gold, other_plans (see `lib.assistant.world.frames`).
        rankings: see `lib.assistant.tool_worlds.for_planner`.
        n_tools, n_items: see `lib.assistant.planner.shown`.
    """
    found = {}
    for world, frames in worlds.items():
        desk = Desk.from_tables(frames["items"], frames["people"], frames["toolbox"])
        gold = with_other_plans(frames["gold"], frames["other_plans"])
        retrieved = _retrieved(rankings, world, CONTEXT)
        found[world] = Material(desk, frames["queries"], gold, *retrieved, n_tools, n_items)
    return found


def _retrieved(rankings: pd.DataFrame, world: str, context: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """A material's tool_rankings and retrieved where context is by semantic search (`CONTEXT`), or by LambdaMART
    (`TUNED`)."""
    alone = {setting: setting for setting in (ALONE, RANKER_ALONE)}
    called = {**alone, context: TUNED, f"{context}/lambdamart": RANKER_TUNED}
    here = rankings[rankings["world"] == world]
    tools = here[here["setting"].isin(called)]
    return tools.assign(setting=tools["setting"].map(called)), here[here["setting"] == RETRIEVED[context]]


def world_prompts(
    materials: Mapping[str, Material],
    rankings: pd.DataFrame,
    n: int,
    seed: int,
    kept: Callable[[pd.DataFrame], Sequence[bool]],
) -> pd.DataFrame:
    """What the prompts of `PLANNED` show for n evaluation queries of each world, or for all whose plans are kept (see
    `lib.assistant.planner.prompts_asked`).

    Args:
        materials, rankings: see `materials_of`.
        kept: whether the plan of each prompt is kept.

    Returns:
        columns world, query, setting, tools, items, prompt, answerable (see `lib.assistant.planner.answerable`).
    """
    frames = []
    for world, material in materials.items():
        tools, items = _retrieved(rankings, world, TUNED)
        tuned = replace(material, tool_rankings=tools, retrieved=items)

        def prompts_of(asked: pd.DataFrame, material=material, tuned=tuned) -> pd.DataFrame:
            by_search = material.prompted(asked, [*SETTINGS, ALONE_BY_RANKER, BY_RANKER])
            return pd.concat([by_search, tuned.prompted(asked, [CONTEXT_TUNED, TUNED_BY_RANKER])], ignore_index=True)

        kinds = material.gold.set_index("query")["kind"]
        prompts = prompts_asked(material.evaluated, kinds, prompts_of, kept, n, seed)
        prompts["answerable"] = answerable(prompts["prompt"].tolist(), prompts, material.gold)
        frames.append(prompts.assign(world=world))
    return pd.concat(frames, ignore_index=True)


def judged(materials: Mapping[str, Material], prompts: pd.DataFrame, texts: Sequence[str]) -> pd.DataFrame:
    """The plans written for `world_prompts`, one a row, judged in their worlds: with the columns of
    `lib.assistant.planner.score_plans` and executed (`lib.assistant.execution.executed_right`)."""
    written, frames = prompts.assign(text=list(texts)), []
    for world, material in materials.items():
        plans = score_plans(written[written["world"] == world], material.gold, material.desk.functions)
        executed = executed_right(material.desk, plans, material.queries, material.gold)
        frames.append(plans.assign(executed=executed))
    return pd.concat(frames, ignore_index=True)


def scores_of(
    materials: Mapping[str, Material], plans: pd.DataFrame, samples: int, seed: int
) -> dict[str, tuple[pd.DataFrame, Resampling]]:
    """Each world's `lib.assistant.plan_comparison.per_query`.

    Args:
        plans: see `judged`.
    """
    return {
        world: per_query(plans[plans["world"] == world], material.queries, material.gold, samples, seed)
        for world, material in materials.items()
    }


def summaries(scored: Mapping[str, tuple[pd.DataFrame, Resampling]], published: pd.DataFrame) -> pd.DataFrame:
    """Each world's `lib.assistant.plan_comparison.summary` with the column world first.

    Args:
        published: columns setting, metric, value (see `published_parts`).
    """
    frames = [summary(*of_world, published).assign(world=world) for world, of_world in scored.items()]
    table = pd.concat(frames, ignore_index=True)
    return table[["world", *table.columns.drop("world")]]


def published_parts(published: pd.DataFrame) -> pd.DataFrame:
    """Published values with the two factors of AST accuracy, in percent: right_api, P(tool right), and arguments,
    P(arguments right | tool right).

    The paper prints neither. Where the right tool is shown, P(tool right) is taken as 1, so that the accuracy there is
    that of the arguments; the other settings are given the same arguments as the one that shows the right tool and as
    much context, which assumes that arguments do not depend on whether the tool had to be found. Context-tuned RAG has
    its values whichever way its context was retrieved here.

    Args:
        published: columns setting, metric, value.
    """
    as_tuned = published[published["setting"] == BY_SEARCH].assign(setting=CONTEXT_TUNED)
    published = pd.concat([published, as_tuned], ignore_index=True)
    right = published[published["metric"] == "ast_accuracy"].set_index("setting")["value"]
    bound = {name: "context_tuned_upper_bound" if name in WITH_CONTEXT else "upper_bound" for name in right.index}
    arguments = right[list(bound.values())].to_numpy()
    factors = {"right_api": 100 * right.to_numpy() / arguments, "arguments": arguments}
    parts = [
        pd.DataFrame({"setting": right.index, "metric": name, "value": values}) for name, values in factors.items()
    ]
    return pd.concat([published[["setting", "metric", "value"]], *parts], ignore_index=True)


def steps(
    scored: Mapping[str, tuple[pd.DataFrame, Resampling]],
    pairs: Sequence[tuple[str, str]] = (*PAPERS_STEPS, *BESIDE, *OURS),
) -> pd.DataFrame:
    """AST accuracy of each setting of Table 3 against the one below it, of the two ways of retrieving context, of our
    ranker's tools against cosine's, and of these with context against without, in each world.

    Args:
        scored: see `scores_of`.
        pairs: of settings.

    Returns:
        columns world and those of `lib.evaluation.comparison.compare`.
    """
    frames = [
        compare(scores, pairs, "ast_accuracy", 1, resampling).assign(world=world)
        for world, (scores, resampling) in scored.items()
    ]
    return pd.concat(frames, ignore_index=True)
