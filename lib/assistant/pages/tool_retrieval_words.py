"""The sentences of notebook 06, in the order of its page; each is computed from the numbers it is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from lib.assistant.leaks import conditional_entropy_bits, entropy_bits
from lib.assistant.pages.tool_retrieval import FLOORS, PUBLISHED_RATIO, UNREAD, UNTOUCHED, Results, named
from lib.assistant.pages.tool_retrieval_tables import reference_name
from lib.assistant.tool_gains import first_tools, names_right_app, right_app_reachable, spelled_by_app
from lib.assistant.tool_retrieval import AS_GOOD, ToolTask, best_context, ceiling, mean_recall, names_its_app
from lib.assistant.tool_search import Option, WordEffects, WordingTrial
from lib.evaluation.inference import settled
from lib.workbook.display import interval, number
from lib.workbook.methods import label


def listed(values: Sequence) -> str:
    return ", ".join(map(str, values))


# ---------------------------------------------------------------- what is searched, and with which words


def evaluated(task: ToolTask, deepest: int) -> str:
    """How many queries count, and what the best possible recall is among the first `deepest` tools."""
    asked, none_fits = task.evaluated, ~task.answerable
    best_possible = ceiling(task.shortest, asked["query"], [deepest])[0]
    return (
        f"{len(asked):,} queries are evaluated. **{none_fits.sum()}** of them ({100 * none_fits.mean():.1f}%) are such "
        "that no tool fits; they have nothing to find and count with a recall of 0, so that every row below has the "
        f"same n. No method can pass {best_possible:.1f}% at K = {deepest}; ratios between settings are untouched by "
        "this."
    )


def context_taken(found: pd.DataFrame) -> str:
    """Which ranking of context is taken, beside the paper's (see `tables.context_found`)."""
    by_recall = mean_recall(found)
    taken, papers = best_context(found), "lambdamart_rrf"
    return (
        f"Taken: **{label(taken)}**, by mean recall at K = 3, 5 and 10, the simpler one within {AS_GOOD} points. "
        f"The mean recall of the paper's own method, {label(papers)}, differs from it by "
        f"{number(by_recall[papers] - by_recall[taken], 1)} points; the first item lies in the right tool's app for "
        f"{found.loc[taken, 'app']:.1f}% with the one taken and for "
        f"{found.loc[papers, 'app']:.1f}% with the paper's."
    )


def wording_chosen(trial: WordingTrial) -> str:
    (wording, n), second = trial.best(), trial.runner_up
    return (
        f"Chosen: **{wording}** of **{n}** item{'s' if n > 1 else ''}, {trial.gain((wording, n)):+.1f} points of mean "
        f"recall over the query alone. The best of another wording is {second[0]} of {second[1]}, "
        f"{number(trial.gain(second), 1)} points over the query alone."
    )


def content_alone(trial: WordingTrial) -> str:
    """What an item says without its app's name."""
    gains = ", ".join(f"{wording} {number(trial.gain((wording, 1)), 1)}" for wording in ("title", "text"))
    wording, n = trial.content
    return (
        f"What one item says without its app's name: {gains} points over the query alone. The best wording by content "
        f"alone, {wording} of {n}, is evaluated beside the chosen one below."
    )


def app_name_steers(words: WordEffects, k: int) -> str:
    """How much of search follows the app's name, a title or a text."""
    table = words.table
    app, title, text, bare = (table.loc[name] for name in ("app", "title", "text", "query_only"))
    return (
        f"The app's name steers search: with it {app['in_app']:.0f}% of the first {k} tools belong to the first item's "
        f"app, with the title {title['in_app']:.0f}%, with the text {text['in_app']:.0f}%. "
        f"By itself, without the query, it finds {app['alone']:.1f}% of the right tools, the title "
        f"{title['alone']:.1f}%, the text {text['alone']:.1f}%. "
        f"Beside the query it finds {app['recall_right']:.1f}% where the item lies in the right tool's app (the query "
        f"alone: {bare['recall_right']:.1f}%) and {app['recall_elsewhere']:.1f}% elsewhere (the query alone: "
        f"{bare['recall_elsewhere']:.1f}%)."
    )


# ---------------------------------------------------------------- how many are found


def times_as_many(ratios: pd.DataFrame, k: int) -> str:
    """The ratio of recalls at K and its range over all K (see `lib.evaluation.comparison.ratios`)."""
    ratio, low, high = ratios.set_index("k").loc[k, ["ratio", "ci_low", "ci_high"]]
    first, last = ratios["k"].iloc[0], ratios["k"].iloc[-1]
    return (
        f"{interval(ratio, low, high, 2)} times as many; {ratios['ratio'].min():.2f} to {ratios['ratio'].max():.2f} "
        f"over K = {first} to {last} (published: 1.5, no K)"
    )


def recall_finding(results: Results, times: str) -> str:
    """The figure's title."""
    return (
        f"Among the first {results.k} tools are {results.mean('query_only'):.0f}% of the right ones for the query "
        f"alone, {results.mean('query_plus_context'):.0f}% with retrieved context: {times}"
    )


def what_settles(n_needs: int) -> str:
    return (
        f"Intervals and p-values ask what other personas and other needs than these {n_needs} would show. Here and "
        "below a difference is *settled* where its interval is without 0 and p, after Holm's adjustment, at most .05."
    )


def whose_wording(tests: pd.DataFrame) -> str:
    """That one wording serves two contexts, and whom that favours.

    Args:
        tests: as for `beyond_any_words`, with retrieved context against context by semantic search.
    """
    first = tests[(tests["a"] == "query_plus_context") & (tests["b"] == "query_plus_semantic_context")]
    row, firm = first.iloc[0], settled(first).iloc[0]
    return (
        "The wording was chosen with retrieved context and serves context by semantic search, too. That favours the "
        f"first in their difference of {interval(row['difference'], row['ci_low'], row['ci_high'])} points "
        f"({'settled' if firm else 'not settled'})."
    )


def beyond_any_words(tests: pd.DataFrame, k: int) -> str:
    """Whether words that should not help explain the gain.

    Args:
        tests: paired tests among settings; the first is that of retrieved context against the query alone.
    """
    gained = settled(tests) & (tests["difference"] > 0)
    beyond = tests[(tests["a"] == "query_plus_context") & tests["b"].isin(FLOORS)]
    above = "; ".join(
        f"retrieved context against {label(row.b).removeprefix('query + ')}: "
        f"{interval(row.difference, row.ci_low, row.ci_high)} points"
        for row in beyond.itertuples()
    )
    if not gained.iloc[0]:
        return f"No gain at K = {k} is settled, so whether any added words would bring it is not asked."
    if gained[beyond.index].all():
        return f"Words as such do not explain the gain ({above})."
    return f"That the gain is more than any words would bring is not settled against every floor ({above})."


def without_app_names(tests: pd.DataFrame, content: Option) -> str:
    """What retrieved context does without its apps' names, against the query alone."""
    by_text = tests[tests["a"] == "query_plus_context_text"].iloc[0]
    return (
        f"What retrieved context says, without its apps' names ({content[0]} of {content[1]}), changes recall by "
        f"{interval(by_text['difference'], by_text['ci_low'], by_text['ci_high'])} points: "
        f"{'settled' if settled(tests)[by_text.name] else 'not settled'}."
    )


def ratio_finding(ratios: pd.DataFrame) -> str:
    """The title of the figure of ratios."""
    ratio, reached = ratios["ratio"], ratios.loc[ratios["ratio"] >= PUBLISHED_RATIO, "k"]
    within = _interval_holds(ratios, PUBLISHED_RATIO).sum()
    no_gain = ratios.loc[_interval_holds(ratios, 1), "k"]
    return (
        f"Retrieved context finds {ratio.min():.2f} to {ratio.max():.2f} times as many right tools as the query alone; "
        + (f"the estimate reaches 1.5 at K = {listed(reached)}" if len(reached) else "no estimate reaches 1.5")
        + f"; 1.5 lies within the 95% interval at {within} of {len(ratios)} K"
        + (f", and 1 at K = {listed(no_gain)}" if len(no_gain) else "")
    )


def _interval_holds(ratios: pd.DataFrame, value: float) -> pd.Series:
    return ratios["ci_low"].le(value) & ratios["ci_high"].ge(value)


def where_published_ratio_is_reached(ratios: pd.DataFrame) -> str:
    """At which K the estimate reaches the published ratio, and at which the interval excludes it."""
    reached = ratios["ratio"] >= PUBLISHED_RATIO
    excluded = ratios["ci_high"] < PUBLISHED_RATIO
    unclear = ratios.loc[~reached & ~excluded, "k"]
    return (
        f"The estimate reaches 1.5 at {reached.sum()} of {len(ratios)} values of K"
        + (f" ({listed(ratios.loc[reached, 'k'])})" if reached.any() else "")
        + f"; the interval lies wholly below 1.5 at {excluded.sum()}"
        + (f" ({listed(ratios.loc[excluded, 'k'])})" if excluded.any() else "")
        + (f"; undecided: {listed(unclear)}." if len(unclear) else ".")
    )


# ---------------------------------------------------------------- apps


def app_finding(tests: pd.DataFrame) -> str:
    """Where retrieved context changes app recall (see `lib.evaluation.comparison.compare_family`)."""
    gains, losses = (tests.loc[settled(tests) & (sign * tests["difference"] > 0), "k"] for sign in (1, -1))
    raised = f"context raises app recall at K = {listed(gains)}" if len(gains) else "no gain in app recall is settled"
    return raised + (f" and lowers it at K = {listed(losses)}" if len(losses) else "; no loss is settled")


def apps_settled(results: Results, finding: str) -> str:
    """The finding, and at which K references that read no tool's text find more apps than retrieved context."""
    more = {name: at for name in UNTOUCHED if (at := _finds_more_apps(results, name))}
    told = "; ".join(
        f"{named(name)} at K = " + listed([f"{at} ({results.mean(name, at, 'app_recall'):.1f}%)" for at in cutoffs])
        for name, cutoffs in more.items()
    )
    above = f" Without a tool's text more apps are found than with context by: {told}." if more else ""
    floors = listed(_floors_ahead(results))
    spread = (
        f" At K = {floors} that holds of tools in random order or of the commonest ones, for which no query is read: "
        "beyond the first results the measure rewards tools spread over apps, not right tools."
    )
    return f"Settled: {finding}.{above}{spread if floors else ''}"


def _finds_more_apps(results: Results, name: str) -> list[int]:
    """The cutoffs shown at which a run finds more of a query's apps than search with retrieved context."""
    context = "query_plus_context"
    return [
        at
        for at in results.cutoffs.shown
        if results.mean(name, at, "app_recall") > results.mean(context, at, "app_recall")
    ]


def _floors_ahead(results: Results) -> list[int]:
    """The cutoffs at which tools that are listed without reading the query find more apps than retrieved context."""
    return sorted({at for name in UNREAD for at in _finds_more_apps(results, name)})


def apps_beyond_floors(results: Results, tests: pd.DataFrame) -> str:
    """`app_finding` at those K at which no list of tools that reads no query finds more apps."""
    floors = _floors_ahead(results)
    kept = tests[~tests["k"].isin(floors)]
    undone = f"at K = {listed(floors)} a random order or the commonest tools find more of them than context"
    if kept.empty:
        return f"nothing follows, since {undone}"
    return app_finding(kept) + (f" (of K = {listed(kept['k'])}; {undone}, so nothing follows)" if floors else "")


def apps_of_first_tools(apps: Mapping[str, float], k: int) -> str:
    """In how many apps the first k tools lie, by setting (see `lib.assistant.tool_gains.apps_among_first`)."""
    fewer = ". Context concentrates the results on fewer apps, which leaves fewer places for a query's other apps."
    return (
        f"In how many apps the first {k} tools lie, on average: "
        + ", ".join(f"{label(name)} {mean:.1f}" for name, mean in apps.items())
        + (fewer if apps["query_plus_context"] < apps["query_only"] else ".")
    )


# ---------------------------------------------------------------- who gains, and through what


def group_finding(parted: pd.DataFrame) -> str:
    """The title of the figure of groups (see `lib.evaluation.comparison.compare_in_groups`)."""
    gains, losses = (parted.loc[settled(parted) & (sign * parted["difference"] > 0), "group"] for sign in (1, -1))
    return (
        f"Gains that are significant and whose interval agrees: {listed(gains)}"
        if len(gains)
        else "No group's gain is significant with an interval that agrees"
    ) + (f"; such losses: {listed(losses)}" if len(losses) else "; no such loss")


def how_often_misled(task: ToolTask) -> str:
    """How often the first retrieved item lies in the right tool's app, and whether some relevant item does."""
    answerable = task.answerable
    retrieved, semantic = (
        100 * names_right_app(task, setting)[answerable].mean()
        for setting in ("query_plus_context", "query_plus_semantic_context")
    )
    reachable = right_app_reachable(task)[answerable]
    return (
        f"The first item lies in the right tool's app for {retrieved:.0f}% of these queries (by semantic search: "
        f"{semantic:.0f}%). Some relevant item does for {100 * reachable.mean():.0f}%"
        + (
            ": a wrong name is a matter of which item comes first, not of what there is to find."
            if reachable.all()
            else ": for the others no context, however well retrieved, names the right app."
        )
    )


def rises_and_falls(ranks: pd.DataFrame) -> str:
    """For how many queries the right tool's rank changed which way (columns before, after)."""
    rose, fell = (ranks["after"] < ranks["before"]).sum(), (ranks["after"] > ranks["before"]).sum()
    return f"Of {len(ranks)} queries, the tool rose for {rose} and fell for {fell}."


def gain_by_naming(results: Results, tests: pd.DataFrame, wording: str) -> str:
    """How much of what the right app's name would give retrieved context gives, and whether the query still counts.

    Args:
        tests: paired tests of the ways of naming an app against retrieved context (column b).
        wording: in use for retrieved context.
    """
    tests, k = tests.set_index("a"), results.k
    firm = settled(tests)
    alone = results.mean("query_only")
    possible, random, gain = (results.mean(name) - alone for name in ("right_app", "random_app", "query_plus_context"))
    has_gain = firm["query_only"] and gain > 0
    share = f", {100 * gain / possible:.0f}% of what the right name gives. " if possible > 0 else ". "
    by_name = (
        "The wording in use says nothing but apps' names, so the gain **is** that the right app is named, as often as "
        "retrieval names it. "
    )
    if not firm["context_only"]:
        query_counts = f"whether the query still counts is not settled at K = {k}."
    elif tests.loc["context_only", "difference"] < 0:
        query_counts = "the query still counts."
    else:
        query_counts = "the context alone finds more, the query's words only get in its way."
    return (
        f"Naming the right app gives {number(possible, 1)} points of Recall@{k}, a random app's name "
        f"{number(random, 1)}; retrieved context gives {number(gain, 1)} points"
        + (share if has_gain else ": no gain is settled. ")
        + (by_name if wording == "app" and has_gain else "")
        + f"Without the query's own words the same context finds {results.interval('context_only')}%, with them "
        f"{results.interval('query_plus_context')}%: {query_counts}"
    )


# ---------------------------------------------------------------- what would make it fake


def repeated_names(by_letter: pd.DataFrame, tools: pd.DataFrame, k: int) -> str:
    """What the right app's name gives where a right tool's text has a word of it, and where none has.

    Args:
        by_letter: from `lib.evaluation.comparison.compare_in_groups`.
    """
    named_in, alone = names_its_app(tools), len(by_letter) == 1
    apps = ", ".join(f"{app} {part:.0f}%" for app, part in spelled_by_app(tools).items())
    told = (
        "All tools' texts name their app, so its effect cannot be told apart in them; the next point searches other "
        "texts"
        if named_in.all()
        else f"{100 * named_in.mean():.0f}% of the tools' texts have a word of their app's name ({apps})"
    )
    gains = "; ".join(
        f"{interval(row.difference, row.ci_low, row.ci_high)} points of Recall@{k}{'' if alone else f' {row.group}'} "
        f"(n = {row.n})"
        for row in by_letter.itertuples()
    )
    return f"- **Repeated names.** {told}. The right app's name gives {gains}."


def over_other_texts(results: Results, others: pd.DataFrame, ratios: pd.DataFrame, run: str) -> str:
    """What the same searches find over the tools' texts in the other wording.

    Args:
        others: the tools with these texts.
        ratios: of recall with retrieved context to that of the query alone over these texts.
        run: the retriever's name in the runs, behind the setting.
    """
    share = 100 * names_its_app(others).mean()
    ratio, low, high = ratios.set_index("k").loc[results.k, ["ratio", "ci_low", "ci_high"]]
    texts = label(run).removeprefix("semantic search, ")
    return (
        f"- **Another wording of the tools.** Over {texts}, of which {share:.0f}% have a word of their app's name, "
        f"the query alone finds {results.interval(f'query_only/{run}')}% at K = "
        f"{results.k} and retrieved context, in the words chosen above, "
        f"{results.interval(f'query_plus_context/{run}')}%: {interval(ratio, low, high, 2)} times as many."
    )


def needs_that_decide(task: ToolTask) -> str:
    """How much the need alone tells of the tool."""
    tool, needs = first_tools(task), task.queries["need"]
    return (
        f"- **Needs that decide.** The tool's uncertainty is {entropy_bits(tool):.2f} bits, and "
        f"{conditional_entropy_bits(tool, needs):.2f} bits once the need is known (all {len(task.queries):,} queries; "
        "notebook 01 shows how the same need calls for different tools). "
        "No search here is told the need; the classifier below can learn to guess it."
    )


# ---------------------------------------------------------------- other retrievers, the planner, the claims


def against_references(results: Results, tests: pd.DataFrame) -> str:
    """Which references that read no tool's text search with retrieved context settles above and below.

    Args:
        tests: paired tests of search with retrieved context (column a) against them (column b).
    """
    firm, ahead = settled(tests), tests["difference"] > 0
    below, above, undecided = (
        "; ".join(map(reference_name, tests.loc[chosen, "b"])) or "none"
        for chosen in (firm & ahead, firm & ~ahead, ~firm)
    )
    learned, asked = results.task.training, results.task.evaluated
    met = 100 * asked["need"].isin(learned["need"]).mean()
    value = {name: results.interval(f"query_only/{name}") for name in ("classifier", "frequency")}
    unmet = {name: results.interval(f"query_only/{name}_unseen") for name in value}
    return (
        f"At K = {results.k}, search with retrieved context finds {results.interval('query_plus_context')}%. Settled "
        f"below it: {below}. Settled above it: {above}. Undecided: {undecided}. "
        f"The trained ones have seen {len(learned):,} training queries with their plans, and {met:.0f}% of the "
        "evaluated queries have a need that occurs there; on needs they have not met, the classifier finds "
        f"{unmet['classifier']}% instead of {value['classifier']}%, the commonest tools {unmet['frequency']}% instead "
        f"of {value['frequency']}%. "
        "Retrieved context has met the needs as well, where its ranking was trained; context by semantic search has "
        f"learned from none of them: {results.interval('query_plus_semantic_context')}%. "
        "A new toolbox comes without a record of plans, and search over descriptions needs none; an assistant in use "
        "has one."
    )


def shut_out(whole: pd.DataFrame, depth: int) -> str:
    """For how many queries a planner cannot be right with the tools shown (see `tables.shown_to_the_planner`)."""
    missing = 100 - whole.mean()
    return (
        f"With {depth} tools shown, a planner that keeps to them cannot be right for {missing['query_only']:.0f}% of "
        f"these queries when the query alone is searched with, for {missing['query_plus_context']:.0f}% with retrieved "
        f"context, and for {missing['query_only/frequency']:.0f}% if everybody were shown the same {depth}, the "
        "commonest."
    )


def claims_counted(verdicts: pd.DataFrame) -> str:
    return f"**{verdicts['as_claimed'].sum()} of {len(verdicts)}** came out as the paper has them."


def answer(results: Results, option: Option, times: str, apps: str) -> str:
    """What the page found, for its top and the index.

    Args:
        option: the wording in use and its number of items.
        times: from `times_as_many`.
        apps: from `apps_beyond_floors`.
    """
    wording, n = option
    said = {
        "app": "name of the app",
        "title": "title",
        "text": "text",
        "app: title": "app and title",
        "app: text": "app and text",
    }[wording]
    kept_to = "a name, not the item's content"
    if wording != "app":
        kept_to = "the item's content" + ("" if wording in ("title", "text") else " after its app's name")
    items = "retrieved item" if n == 1 else f"{n} retrieved items"
    return (
        f"With the {said} of the first {items} beside the query ({kept_to}), "
        f"**{results.interval('query_plus_context')}%** of the right tools are among the first {results.k} of "
        f"{len(results.task.tools)}; with the query alone {results.interval('query_only')}%: {times}. All relevant "
        f"context would find {results.interval('oracle_context')}%, the right app's name "
        f"{results.interval('right_app')}%; the tools that training plans call most, whatever the query, "
        f"{results.interval('query_only/frequency')}%. Of a query's apps: {apps}."
    )
