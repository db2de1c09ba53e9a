"""The sentences of notebook 07_planner, each computed from the numbers that it states."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from lib.assistant.execution import readings
from lib.assistant.pages.common import where_trained
from lib.assistant.pages.planner import MEASURED, Learned, clustered_rate, share
from lib.assistant.plan_comparison import contrast, needs_no_argument
from lib.assistant.planner import ALONE_BY_RANKER, BY_RANKER, SETTINGS, TAUGHT, shows_right_tools
from lib.assistant.plans import api_names
from lib.assistant.toolbox import DEFAULT_API
from lib.evaluation.comparison import compare_outcomes
from lib.evaluation.inference import Resampling
from lib.workbook.display import interval, number
from lib.workbook.markup import plain
from lib.workbook.methods import label

FEW = 3.0  # points: two rates that are no further apart count as alike


def what_is_shown(prompts: pd.DataFrame, gold: pd.DataFrame, n_tools: int, n_items: int) -> str:
    """One prompt as it is, and how often prompts hold the right tools and items.

    Args:
        prompts: see `lib.assistant.planner.Material.prompted`.
    """
    tuned = prompts[prompts["setting"] == "context_tuned_rag"]
    alone = prompts[prompts["setting"] == "rag"]
    relevant = tuned["query"].map(gold.set_index("query")["relevant"])
    found = [len(set(items) & set(right)) for items, right in zip(tuned["items"], relevant, strict=True)]
    whole = [hits == len(set(right)) for hits, right in zip(found, relevant, strict=True)]
    example = "\n".join(f"    {line}" for line in tuned["prompt"].iloc[0].split("\n"))
    return (
        f"{len(tuned)} evaluation queries, the same in every setting. The prompt of one of them with retrieved tools "
        f"and context:\n\n{example}\n\n"
        f"All right tools are among the {n_tools} shown for {share(shows_right_tools(alone, gold))} of the queries "
        f"(by the query alone) and {share(shows_right_tools(tuned, gold))} (with context); of the relevant items all "
        f"are among the {n_items} shown for {share(whole)}, at least one for {share(map(bool, found))}."
    )


def training(learned: Learned) -> str:
    """What the planner learned from."""
    numbers, settings, adapter = learned.numbers, learned.settings, learned.adapter
    return (
        f"{plain(learned.planner)}, {learned.pairs:,} pairs from {numbers['queries']:,} queries of "
        f"{numbers['personas']} training personas ({numbers['second_calls']} of them second calls, "
        f"{numbers['thoughts']} with a chain of thought), {settings['epochs']} epoch(s): {adapter.tokens:,} tokens "
        f"read, {adapter.curve['target_tokens'].sum():,} of them learned. {where_trained(adapter)} Adapter of rank "
        f"{settings['rank']}, learning rate {settings['learning_rate']:g}. {learned.held_out} of "
        f"the {learned.needs} needs are left out. Retrieval had missed a gold tool in {numbers['missed']:.0%} of the "
        "prompts with retrieved tools. Part of this loss cannot fall: in the forms without context the values of the "
        "arguments stand nowhere."
    )


def executed(plans: pd.DataFrame, gold: pd.DataFrame) -> str:
    """Whether calls that count by what they reach make other plans right, and how many could."""
    wrong = plans[plans["ast_accuracy"] == 0]
    could, more = readings(wrong, gold).sum(), int((wrong["executed"] > 0).sum())
    changed = (plans["executed"] - plans["ast_accuracy"]).groupby(plans["setting"]).mean().abs().max()
    same = "the same plans are right" if changed < 1 else "not quite the same plans are right"
    return (
        f"Executed in the simulated world, {same} (the largest difference from AST accuracy in any row is "
        f"{number(changed, 1)} points). Another call can do the same only where both read and change nothing: of "
        f"{len(wrong):,} plans that AST accuracy calls wrong, {could['wanted']:,} are for queries that a reading "
        f"serves, {could['wanted_and_read']:,} of them read, and {more:,} give back what is wanted."
    )


def tools_alone(plans: pd.DataFrame) -> str:
    """What retrieved tools by themselves add, and why they add nothing where the planner knows the toolbox."""
    rates = plans.groupby("setting")[["right_api", "ast_accuracy"]].mean().loc[["lower_bound", "rag"]]
    (without, shown), (bare, right) = rates["right_api"], rates["ast_accuracy"]
    known = without >= shown - FEW and right <= bare + FEW
    gain = "nothing" if right <= bare else "little"
    return (
        f"Why retrieved tools alone add {gain} here: the tuned planner has learned the toolbox. " if known else ""
    ) + (
        f"Without a list of tools the tuned planner calls the right API in {number(without, 1)}%, with search's list "
        f"in {number(shown, 1)}%."
    )


def gain_of_context(compared: pd.DataFrame) -> str:
    """What context adds to retrieved tools."""
    gain = contrast(compared, "context_tuned_rag", "rag")
    return (
        f"Context adds {interval(gain['difference'], gain['ci_low'], gain['ci_high'])} points of AST accuracy to "
        "retrieval (published: 8.85 points, which the abstract gives as 11.6% of the smaller value)"
    ) + (
        ", a settled gain."
        if gain["settled"]
        else "; the sign of the difference is not settled with this many queries."
    )


def tools_by_our_ranker(compared: pd.DataFrame, shown: pd.Series) -> str:
    """What better tools bring, and what context still adds to them.

    Args:
        shown: by setting, percent of the prompts that show all right tools.
    """
    better, adds = contrast(compared, BY_RANKER, "context_tuned_rag"), contrast(compared, BY_RANKER, ALONE_BY_RANKER)
    found = contrast(compared, BY_RANKER, "context_tuned_rag", "right_api")
    return (
        f"With context our ranker's tools hold the right ones in {number(shown[BY_RANKER], 1)}% of the prompts, those "
        f"of search in {number(shown['context_tuned_rag'], 1)}%. The planner learned to choose from lists of search. "
        f"Beside the same items, tools by our ranker change AST accuracy by {_points(better)} points and the right API "
        f"by {_points(found)}. Context adds {_points(adds)} points to them."
    )


def learned_from_our_tools(compared: pd.DataFrame, order: pd.DataFrame) -> str:
    """Whether better tools were wasted on a planner that had learned from worse ones, and what it learned.

    Args:
        order: see `lib.assistant.plan_comparison.first_tools`.
    """
    if TAUGHT[BY_RANKER] not in set(compared["a"]):
        return (
            "No planner that learned from our ranker's tools is kept for this world, and the profile does not say "
            "`retrain_planner`."
        )

    def share_of(setting: str, column: str = "follows") -> str:
        return f"{number(order.loc[setting, column], 0)}%"

    gain, beyond = (contrast(compared, TAUGHT[BY_RANKER], against) for against in (BY_RANKER, "context_tuned_rag"))
    adds = contrast(compared, TAUGHT[BY_RANKER], TAUGHT[ALONE_BY_RANKER])
    return (
        "Another planner learned from our ranker's tools, each training query ranked without its fold. Shown the same "
        f"prompts, with context, it changes AST accuracy by {_points(gain)} points; it is {_above(beyond)} the first "
        f"planner with tools by search. Context adds {_points(adds)} points to it. Where one call is due, the ranker's "
        f"first tool is right in {share_of(BY_RANKER, 'first')}. The newly trained planner calls it in "
        f"{share_of(TAUGHT[BY_RANKER])}, the first planner in {share_of(BY_RANKER)}; the API that the new one calls is "
        f"right in {share_of(TAUGHT[BY_RANKER], 'right')}."
    )


def _above(row: pd.Series) -> str:
    """`6.8 [2.9, 10.7] points (settled) above`, or `below` where the difference is negative."""
    ends = row[["difference", "ci_low", "ci_high"]].tolist()
    below = ends[0] < 0
    value, low, high = (-ends[0], -ends[2], -ends[1]) if below else ends
    settled = "settled" if row["settled"] else "not settled"
    return f"{interval(value, low, high)} points ({settled}) {'below' if below else 'above'}"


def _points(row: pd.Series) -> str:
    settled = "settled" if row["settled"] else "not settled"
    return f"{interval(row['difference'], row['ci_low'], row['ci_high'])} ({settled})"


def upper_bounds(plans: pd.DataFrame, compared: pd.DataFrame, gold: pd.DataFrame) -> str:
    """Whether the upper bounds are the highest, and what the right tool alone leaves to be guessed."""
    accuracy = plans.groupby("setting")["ast_accuracy"].mean()
    bare = plans[plans["setting"] == "upper_bound"]
    none_due = needs_no_argument(gold)[bare["query"]].to_numpy()
    spelled = int(((bare["answerable"] > 0) & ~none_due).sum())
    against = contrast(compared, "upper_bound", "context_tuned_rag")
    above = against["settled"] and against["ci_low"] > 0
    best = "context_tuned_upper_bound"
    highest = accuracy[best] >= accuracy.drop(best).max()
    return (
        f"The right tool alone gets {number(accuracy['upper_bound'], 1)}%, retrieved tools with retrieved context "
        f"{number(accuracy['context_tuned_rag'], 1)}% "
        f"(difference {interval(against['difference'], against['ci_low'], against['ci_high'])} points): "
        + (
            "an upper bound, as in the paper. "
            if above
            else "the paper's upper bound without context is not shown to be one here. "
        )
        + f"With the right tool and no context the API is right in {number(bare['right_api'].mean(), 1)}% of plans, "
        f"but of {len(bare)} prompts {spelled} spell out the arguments, and {int(none_due.sum())} gold plans need none "
        "(`default()`). "
        + (
            "In this world what a query leaves out stands in the persona's items: without them a planner can only "
            "guess the values. "
            if spelled == 0
            else ""
        )
        + f"With context the same tool is right as a whole in {number(accuracy[best], 1)}%. "
        + f"The setting *{label(best)}* is "
        + ("the highest of all, as it should be." if highest else "not the highest of all.")
    )


def choosing(chosen: pd.DataFrame, guesses: pd.Series, commonest: str, gold: pd.DataFrame) -> str:
    """Does the planner choose among the tools it is shown?

    Args:
        chosen: see `lib.assistant.plan_comparison.with_choice`.
        guesses, commonest: see `lib.assistant.plan_comparison.guessed_apis`.
    """
    here = chosen[chosen["setting"] == "context_tuned_rag"]
    first = gold.set_index("query")["apis"].str[0][guesses.index]
    calls = here["first"].value_counts(normalize=True)
    shown, hidden = (clustered_rate(here[here["shows"] == shows], "right_api") for shows in (True, False))
    return (
        f"With retrieved tools and context the right API is called in {shown}% of plans where it is shown and in "
        f"{hidden}% where it is not; "
        f"`{here['first'].mode().iloc[0]}` alone makes {number(100 * calls.iloc[0], 0)}% of the calls. The classifier "
        f"names the first API in {number(100 * (guesses == first).mean(), 1)}%, the commonest API of training, "
        f"`{commonest}`, is right in {number(100 * (first == commonest).mean(), 1)}%."
    )


def held_out_needs(named: pd.DataFrame) -> str:
    """Plans for needs that the planner never saw beside the others; empty where all are of one sort.

    Args:
        named: judged plans with the columns persona, need and held_out (bool).
    """
    labels = named[named["setting"] == "context_tuned_upper_bound"]
    if labels["held_out"].nunique() < 2:
        return ""

    def rates(setting, metric):
        part = named[named["setting"] == setting]
        return [clustered_rate(part[part["held_out"] == unseen], metric) for unseen in (True, False)]

    unseen, seen = rates("context_tuned_upper_bound", "ast_accuracy")
    api_unseen, api_seen = rates("context_tuned_rag", "right_api")
    return (
        "Given the right tool and the relevant items, plans for held-out needs "
        f"(n = {int(labels['held_out'].sum())}) are right in {unseen}%, for the others in {seen}%. Choosing among "
        f"retrieved tools with context gets the API right in {api_unseen}% and {api_seen}%."
    )


def of_new_needs(named: pd.DataFrame) -> str:
    """For the top of the page: plans with retrieved tools, without and with context, for needs that the planner never
    saw; empty where it saw all or none.

    Args:
        named: as for `held_out_needs`.
    """
    if named["held_out"].nunique() < 2:
        return ""
    unseen = named[named["held_out"]].groupby("setting")["ast_accuracy"]
    alone, context = (f"{unseen.mean()[setting]:.1f}%" for setting in ("rag", "context_tuned_rag"))
    n = unseen.size()["rag"]
    return (
        f" Of plans for needs left out of training (n = {n}) {alone} are right with retrieved tools, {context} with "
        "context, too."
    )


def length_of_prompts(tests: pd.DataFrame, n: int, n_tools: int, n_items: int) -> str:
    """Which points of the sweeps differ from the usual one (see `lib.assistant.plan_comparison.sweep_tests`)."""
    clear = tests[tests["settled"]]
    listed = "; ".join(
        f"{row.varied} {row.number}: {MEASURED[row.metric]} {interval(row.difference, row.ci_low, row.ci_high)} points"
        for row in clear.itertuples()
    )
    return (
        f"{n} queries a point, so only large differences can show. Against {n_tools} tools, or {n_items} items with "
        "their texts, "
    ) + (
        f"no difference is settled (Holm over {len(tests)} tests, over personas and needs)."
        if clear.empty
        else f"{listed} (Holm over {len(tests)} tests, over personas and needs)."
    )


def effect_of_thought(compared: pd.DataFrame) -> str:
    """What a chain of thought in the prompt changes."""
    clear = compared[compared["settled"]]
    if clear.empty:
        return "The writer's line changes nothing that can be settled here."
    return " ".join(
        f"{MEASURED[row['metric']]}: {interval(row['difference'], row['ci_low'], row['ci_high'])} points."
        for _, row in clear.iterrows()
    )


def two_calls(at_once: pd.DataFrame, stepwise: pd.DataFrame) -> str:
    """Plans of two calls with the labels' tools and items, at once and step by step.

    Args:
        at_once, stepwise: see `lib.assistant.plan_comparison.two_call_plans`; the same queries in the same order.
    """
    once, stepped = (
        part[part["setting"] == "context_tuned_upper_bound"].reset_index(drop=True) for part in (at_once, stepwise)
    )

    both, written = f"{_both_ways(once, stepped)} (n = {len(once)})", once["pair"]
    fair = f": {_both_ways(once[written], stepped[written])}" if written.any() else " there is none to compare"
    return (
        f"With the labels' tools and items both calls are right in {both}. Of the {int(written.sum())} queries for "
        f"which it wrote two calls at once{fair}."
    )


def _both_ways(once: pd.DataFrame, stepped: pd.DataFrame) -> str:
    """How many plans are right both ways, percent, and the difference with its interval over personas and needs.

    Args:
        once, stepped: the same queries in the same order, at least one.
    """
    sides = {"stepped": stepped, "once": once}
    scores = pd.DataFrame({(name, "ast_accuracy", 1): part["ast_accuracy"] for name, part in sides.items()})
    over = Resampling([once["persona"].to_numpy(), once["need"].to_numpy()])
    change = compare_outcomes(scores, [("stepped", "once")], "ast_accuracy", 1, over).iloc[0]
    return (
        f"{number(once['ast_accuracy'].mean(), 1)}% at once and {number(stepped['ast_accuracy'].mean(), 1)}% step by "
        f"step, a difference of {interval(change['difference'], change['ci_low'], change['ci_high'])} points"
    )


def made_up_apis(plans: pd.DataFrame, gold: pd.DataFrame, functions: Sequence[dict]) -> str:
    """Calls of APIs that there are not, settings without a right plan, and right plans that needed no argument."""
    n = plans["query"].nunique()
    made_up = plans.groupby("setting")["hallucination"].sum() / 100
    accuracy = plans.groupby("setting")["ast_accuracy"].max()
    nothing = [label(setting) for setting in SETTINGS if accuracy[setting] == 0]
    called = plans["text"].map(api_names)
    inventions = sorted(set(called.explode().dropna()) - {function["name"] for function in functions} - {DEFAULT_API})
    right = plans[(plans["setting"] == "rag") & (plans["ast_accuracy"] > 0)]
    needless = int(needs_no_argument(gold)[right["query"]].sum())
    parts = [
        f"Made-up APIs: {', '.join(f'{label(setting)} {int(made_up[setting])}' for setting in SETTINGS)} of {n} plans "
        "each.",
        f"Names made up: {', '.join(f'`{name}`' for name in inventions[:6])}."
        if inventions
        else "A rate of 0 leaves nothing that context could reduce.",
        f"{int((called.str.len() == 0).sum())} of all {len(plans)} plans call nothing at all.",
    ]
    if nothing:
        parts += [
            f"Without a single right plan: {', '.join(nothing)}.",
            "Two such settings cannot differ, whatever a better planner would do: no verdict on them says anything "
            "about the paper's."
            if len(nothing) > 1
            else "Beside it any right plan counts as a gain.",
        ]
    parts.append(
        f"Of the {len(right)} right plans with retrieved tools alone {needless} need no argument at all (`default()`)."
    )
    return " ".join(parts)


def twice_the_same(first: Sequence[str], second: Sequence[str], above: pd.DataFrame, now: pd.DataFrame) -> str:
    """How many plans of a setting are the same when they are made again, and whether the others are right.

    Args:
        first, second: the plans made again, twice.
        above, now: those above and the first ones made again, judged, in the same order: setting, text, ast_accuracy.
    """
    again, before = (sum(a == b for a, b in zip(first, other, strict=True)) for other in (second, above["text"]))
    changed = above["text"].to_numpy() != now["text"].to_numpy()
    was, are = (int((part.loc[changed, "ast_accuracy"] > 0).sum()) for part in (above, now))
    same = f"{again} of {len(first)} plans are the same both times, {before} the same as above"
    others = f" Of the {changed.sum()} others {was} were right above and {are} are right now." if changed.any() else ""
    return f"{same} ({label(above['setting'].iloc[0])}).{others}"
