"""Tables, figures and sentences of notebook 01, the assistant's half: personas, their items and what they ask."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns

from lib.assistant.argument_sources import SHARES
from lib.assistant.leaks import BY_DUE_TIME, BY_WORD, KEPT_APART, commonest_api_shares
from lib.assistant.needs import KINDS
from lib.assistant.personas import ITEMS_PER_APP
from lib.assistant.schemas import APPS, Persona
from lib.assistant.world import World
from lib.workbook.display import Drawing, Table, number
from lib.workbook.markup import plain

NEAR_HOURS = 2
OPEN_BITS = 0.1  # of the API, above which knowing the need leaves it open


@dataclass(frozen=True)
class Source:
    """Where the personas come from; where neither is named, they were simulated.

    Attributes:
        folder: of your own files.
        writer: the language model that wrote them.
    """

    folder: str = ""
    writer: str = ""

    @property
    def simulated(self) -> bool:
        return not (self.folder or self.writer)

    def __str__(self) -> str:
        if self.simulated:
            return "A simulated world"
        return "A world of your own" if self.folder else f"A world written by {plain(self.writer)}"


# ---------------------------------------------------------------- the world and its sizes


def written_table(steps: pd.DataFrame, writer: str) -> Table:
    """What became of each step in which a language model wrote the world (`lib.assistant.written_world`)."""
    return Table(steps, f"What {writer} was asked to write, and what became of it.", decimals=0)


def made_in(seconds: float, source: Source) -> str:
    """How long it took to draw the world, or to read it."""
    return f"{source}, {'drawn' if source.simulated else 'read'} in {number(seconds, 1)} s."


def overview(world: World, tables: dict[str, pd.DataFrame], source: Source) -> str:
    """How many personas, items, opens, queries and APIs there are.

    Args:
        tables: as `lib.assistant.world.frames` makes them of the world.
    """
    queries = tables["queries"]
    repeats = " (the simulator repeats none)" if source.simulated else ""
    return (
        f"**{len(world.personas)} personas** with {len(tables['items']):,} context items, opened "
        f"{len(tables['opens']):,} times, ask {len(queries):,} queries, {queries['text'].nunique():,} of them "
        f"different in text{repeats}. The toolbox holds {len(world.toolbox)} APIs."
    )


def items_each(items: pd.DataFrame, n_personas: int) -> pd.Series:
    """Context items a persona, by app; 0 for an app that nobody keeps anything in."""
    return items.groupby("app").size().reindex(list(APPS), fill_value=0) / n_personas


def dataset(published: pd.DataFrame, world: World, tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """The published sizes with `ours` beside them.

    Args:
        published: columns quantity, published.
        tables: as `lib.assistant.world.frames` makes them of the world.
    """
    per_app = items_each(tables["items"], len(world.personas))
    apis, sides = tables["toolbox"].groupby("app").size(), tables["queries"]["split"].value_counts()
    ours = {"personas": len(world.personas), "APIs": len(world.toolbox)}
    ours |= {f"{side} queries": int(sides.get(side, 0)) for side in ("training", "evaluation")}
    ours |= {f"{app} items per persona": per_app[app] for app in APPS}
    ours |= {f"{app} APIs": int(apis.get(app, 0)) for app in APPS}
    return published.assign(ours=published["quantity"].map(ours))


def sizes_table(dataset: pd.DataFrame, n_personas: int, profile: str) -> Table:
    """Published sizes, ours, and the difference in percent."""
    caption = (
        f"Size of the data set, published and ours (profile {profile}). Items are means over {n_personas} personas."
    )
    return Table(dataset.assign(**{"difference, %": 100 * (dataset["ours"] / dataset["published"] - 1)}), caption)


def sizes_sentence(items: pd.DataFrame, n_personas: int, source: Source) -> str:
    """How far the items an app are from the published means, and why they are what they are."""
    if source.folder:
        origin = "These are your own personas."
    elif source.writer:
        origin = f"Sizes are what {plain(source.writer)} made of the task."
    else:
        origin = (
            "Counts and means are set to the published ones; no retrieval result is fitted to anything. "
            "The paper gives no spread; ours is that of a Poisson variable."
        )
    return f"The averages per app differ from the published ones by at most {largest(items, n_personas):.1f}%. {origin}"


def largest(items: pd.DataFrame, n_personas: int) -> float:
    """Largest difference between an app's mean number of items and the published one, percent of the latter."""
    return float(100 * (items_each(items, n_personas) / pd.Series(ITEMS_PER_APP) - 1).abs().max())


def items_per_app(items: pd.DataFrame) -> Drawing:
    """Box plots of the items a persona keeps in each app, beside the published means.

    Args:
        items: columns persona, app; a row an item.
    """
    order = sorted(APPS, key=lambda app: -ITEMS_PER_APP[app])
    places, published = range(len(order)), [ITEMS_PER_APP[app] for app in order]
    counts = items.groupby(["persona", "app"]).size().unstack(fill_value=0).reindex(columns=order, fill_value=0)
    figure, axis = plt.subplots(figsize=(8, 3.4))
    sns.boxplot(data=counts, ax=axis, color="#cfe3f1", width=0.6, fliersize=1.5, linewidth=1)
    axis.scatter(places, published, marker="D", color="#D55E00", zorder=5, label="published mean")
    axis.scatter(places, counts.mean()[order], marker="x", color="#000000", zorder=6, label="our mean")
    axis.set(xlabel="app", ylabel="context items per persona")
    axis.legend()
    top, last = order[0], order[-1]
    share = 100 * counts[top].sum() / counts.to_numpy().sum()
    apart = largest(items, len(counts))
    return Drawing(
        figure,
        "items_per_app",
        f"A persona keeps {counts.sum(axis=1).mean():.0f} items on average, {share:.0f}% of them in {top}",
        f"Box plots of context items per persona for the seven apps; our means lie within {apart:.1f}% of the "
        f"published ones, from {ITEMS_PER_APP[last]} in {last} to {ITEMS_PER_APP[top]} in {top}.",
        counts.describe().T.rename_axis("app").reset_index().assign(published=published),
    )


# ---------------------------------------------------------------- one persona, some queries


def shown_persona(personas: Sequence[Persona], queries: pd.DataFrame) -> Persona:
    """The first persona who asks something."""
    asking = set(queries["persona"])
    return next(persona for persona in personas if persona.id in asking)


def persona_sentence(persona: Persona, n_items: int) -> str:
    """Who the persona is; what a person or a model wrote about them stands there as it is."""
    return (
        f"{plain(persona.name)}, {persona.age}, {plain(persona.profession.lower())} in {plain(persona.city)}; likes "
        f"{plain(', '.join(persona.hobbies).lower())}; {plain(', '.join(persona.traits))}. {n_items} items, "
        f"collected up to {persona.today:%A %d %B %Y, %H:%M}."
    )


def persona_items(items: pd.DataFrame, opens: pd.DataFrame, persona: str, seed: int) -> Table:
    """At most twelve items of a persona, drawn at random, with their usage.

    Args:
        items: columns persona, item, app, text.
        opens: columns item, time, place.
        persona: id.
        seed: of the draw.
    """
    mine = items[items["persona"] == persona]
    log = (
        opens[opens["item"].isin(mine["item"])]
        .groupby("item")
        .agg(opens=("time", "size"), last=("time", "max"), mostly=("place", lambda place: place.mode().iloc[0]))
    )
    card = mine.merge(log, left_on="item", right_index=True, how="left")
    card = card.assign(last=card["last"].dt.strftime("%a %d %b %H:%M"))
    card = card.sample(min(12, len(card)), random_state=seed).sort_values("app")
    return Table(
        card[["app", "text", "opens", "last", "mostly"]],
        "Items as retrieval sees them (text; of a web visit, the page's title and what was typed), how often and when "
        "last they were opened, and where mostly; the log of opens goes on while the persona asks, and a method sees "
        "what lies before its query.",
        decimals=0,
        text_columns=["text"],
    )


def example_queries(queries: pd.DataFrame, gold: pd.DataFrame, seed: int) -> pd.DataFrame:
    """At most two evaluation queries of each kind, drawn at random, with their labels."""
    asked = queries[queries["split"] == "evaluation"].merge(gold.drop(columns="split"), on="query")
    drawn = asked.groupby("kind", group_keys=False).sample(2, random_state=seed, replace=True)
    return drawn.drop_duplicates("query")


def queries_table(examples: pd.DataFrame, items: pd.DataFrame) -> Table:
    """Queries (`example_queries`) with the items that answer them, the plan and the apps."""
    text_of = items.set_index("item")["text"]
    shown = pd.DataFrame(
        {
            "kind": examples["kind"].astype(str),
            "query": examples["text"],
            "voiced": examples["time"].dt.strftime("%a %H:%M") + ", " + examples["place"],
            "relevant context": ["\n".join(f"• {text_of[item]}" for item in found) for found in examples["relevant"]],
            "plan": examples["plan"],
            "apps, best first": [", ".join(apps) for apps in examples["apps"]],
        }
    )
    caption = "Queries with their gold context, plan and ranked apps."
    return Table(shown, caption, text_columns=list(shown.columns[1:]))


def thoughts_table(examples: pd.DataFrame) -> Table:
    """The same queries with the chain of thought of whoever wrote them."""
    shown = pd.DataFrame({"query": examples["text"], "expert's chain of thought": examples["cot"]})
    return Table(shown, "Expert chains of thought of the same queries.", text_columns=list(shown))


# ---------------------------------------------------------------- which world this is


def shares_table(shares: pd.DataFrame, world: str, n_queries: int) -> Table:
    """The world's shares (`lib.assistant.argument_sources.world_shares`), planned and generated."""
    shown = pd.DataFrame({"queries": [SHARES[pair] for pair in zip(shares["knob"], shares["value"], strict=True)]})
    shown = shown.assign(**{"here, %": shares["here"], "planned, %": shares["planned"]}).dropna(how="all", axis=1)
    if shares["planned"].notna().all():
        shown["difference, points"] = shares["here"] - shares["planned"]
    called = f"world {plain(world)}, " if world else ""
    caption = f"Where arguments stand and what decides the call ({called}{n_queries:,} queries)."
    return Table(shown.dropna(subset="here, %"), caption, text_columns=["queries"])


def shares_sentence(shares: pd.DataFrame, world: str) -> str:
    """What can be planned from the query alone, and how far the shares are from the planned ones."""
    here = shares.set_index(["knob", "value"])["here"]
    sayable = here["argument_source", "query"] + here["argument_source", "none"]
    said = (
        f"Of {sayable:.1f}% of the queries the plan's arguments can be had without any context: "
        f"{here['argument_source', 'query']:.1f}% say them, {here['argument_source', 'none']:.1f}% need none. The "
        "paper's queries are all implicit."
    )
    decided = here["api_source", "need"]
    if not np.isnan(decided):
        said += f" In {decided:.1f}% the need alone decides which API is called."
    if shares["planned"].notna().all():
        off = (shares["here"] - shares["planned"]).abs()
        worst = shares.loc[off.idxmax()]
        said += (
            f" From what world `{plain(world)}` is planned to be, this differs by at most {off.max():.1f} points"
            + (f" ({SHARES[worst['knob'], worst['value']]})." if off.max() >= 0.05 else ".")
        )
    return said


def source_examples(queries: pd.DataFrame, gold: pd.DataFrame, sources: pd.Series, seed: int) -> Table:
    """At most four evaluation queries for each place where arguments stand (`sources`, by query), drawn at random."""
    asked = queries[queries["split"] == "evaluation"].merge(gold[["query", "plan"]], on="query")
    asked = asked.assign(source=asked["query"].map(sources))
    drawn = [
        part.sample(min(4, len(part)), random_state=seed)
        for source in ("query", "items", "none")
        if len(part := asked[asked["source"] == source])
    ]
    shown = pd.concat(drawn)[["source", "text", "plan"]]
    shown = shown.rename(columns={"source": "arguments", "text": "query"})
    return Table(shown, "Evaluation queries by where their arguments stand.", text_columns=["query", "plan"])


# ---------------------------------------------------------------- habits and shortcuts


def hours_figure(apart: pd.DataFrame) -> Drawing:
    """How many hours of the day lie between queries and opens, of gold and of other items, a panel a kind.

    Args:
        apart: as `lib.assistant.leaks.hours_apart` returns it, not empty.
    """
    kinds = [kind for kind in KINDS if (apart["kind"] == kind).any()]
    binned = apart.assign(bin=apart["hours"].clip(upper=11.999).astype(int)).groupby(["kind", "which", "bin"]).size()
    shares = (100 * binned / binned.groupby(["kind", "which"]).transform("sum")).rename("percent").reset_index()
    figure, axes = plt.subplots(1, len(kinds), figsize=(9.5, 3.3), sharey=True, squeeze=False)
    for axis, kind in zip(axes[0], kinds, strict=True):
        for which, color, mark in (("gold item", "#D55E00", "o"), ("other item", "#6b6b6b", "x")):
            part = shares[(shares["kind"] == kind) & (shares["which"] == which)]
            axis.plot(part["bin"], part["percent"], color=color, marker=mark, label=which)
        axis.set(title=kind, xlabel="hours between query and open", xticks=range(0, 12, 3))
    axes[0][0].set(ylabel="share of opens, %", ylim=(0, 1.08 * shares["percent"].max()))
    axes[0][-1].legend()
    numbers = _near_in_words(apart, kinds)
    return Drawing(
        figure,
        "hours_apart",
        f"Opens of gold items within two hours of the query's hour, against other items' opens: {numbers}",
        "Line plots, one a kind of query, of the hours of the day between a query and the opens of gold and of other "
        f"items. Within two hours, gold against other items: {numbers}.",
        shares,
    )


def _near_in_words(apart: pd.DataFrame, kinds: Sequence[str]) -> str:
    """`habit queries 67% against 25%` for each kind: opens within two hours, of gold and of other items."""
    near = apart.assign(near=apart["hours"] <= NEAR_HOURS).groupby(["kind", "which"])["near"].mean().mul(100).unstack()
    near = near.reindex(index=kinds, columns=["gold item", "other item"])
    return "; ".join(
        f"{kind} queries {number(gold, 0)}% against {number(other, 0)}%" for kind, gold, other in near.itertuples()
    )


def sceptic_table(sceptic: pd.DataFrame, n_queries: int) -> Table:
    """The sceptic's questions (`lib.assistant.leaks.sceptic_table`) as shown."""
    caption = f"Shortcuts that a retrieval method could exploit, over {n_queries:,} queries."
    return Table(sceptic, caption, text_columns=["question"])


def sceptic_sentence(sceptic: pd.DataFrame, needs: pd.Series, source: Source) -> str:
    """How much the need, the words and the due times of items give away.

    Args:
        sceptic: columns question, here, by chance.
        needs: the need of each query.
    """
    here = sceptic.set_index("question")["here"]
    left, soon = here["H(API | need), bits"], here[BY_DUE_TIME]
    if left > OPEN_BITS:
        why = "what is left depends on where the persona keeps things"
    else:
        why = "every query has a need of its own" if needs.is_unique else "the need all but determines it"
    own, others = shared_words(sceptic)
    words = (
        "Gold items of meaning queries share a content word with their query in "
        f"{own:.1f}% of the cases, other items in {others:.1f}%. "
    )
    due = "none" if np.isnan(soon) else f"{soon:.0f}%"
    start, reason = (
        ("One shortcut is there by construction: of", ", because people ask about what comes next")
        if source.simulated
        else ("Of", "")
    )
    return (
        f"Knowing the need leaves {number(left, 2)} of {number(here['H(API), bits'], 2)} bits of the API open: {why}. "
        f"{'' if np.isnan(own) else words}{start} the events and reminders due within two hours after a query, {due} "
        f"are gold{reason}. No method of this workbook uses the time an item shows, "
        "but one in small worlds of notebook 05."
    )


def shared_words(sceptic: pd.DataFrame) -> tuple[float, float]:
    """Percent of the gold items of meaning queries that share a content word with their query, and of other items;
    NaN where nobody asks one."""
    rows = sceptic.set_index("question")
    question = BY_WORD["meaning"]
    return float(rows["here"].get(question, np.nan)), float(rows["by chance"].get(question, np.nan))


def api_given_need(gold: pd.DataFrame) -> Drawing:
    """How many of a need's queries its commonest API serves, a bar a need.

    Args:
        gold: columns need, apis.
    """
    spread, overall = commonest_api_shares(gold)
    sizes = gold["need"].value_counts()
    guessed = float(np.average(spread, weights=sizes[spread.index]))
    figure, axis = plt.subplots(figsize=(8, 3))
    axis.bar(range(len(spread)), spread, color="#0072B2", width=0.85)
    axis.axhline(overall, color="#D55E00", linestyle="--", label="commonest API overall")
    axis.set(xlabel=f"{len(spread)} needs, sorted", ylabel="share of commonest API, %", ylim=(0, 100), xticks=[])
    axis.legend(loc="upper left")
    return Drawing(
        figure,
        "api_given_need",
        f"Guessing each need's commonest API is right for {guessed:.0f}% of the queries (the commonest of all: "
        f"{overall:.0f}%); for half of the needs it is right in at most {spread.median():.0f}%",
        "Sorted bars, one a need: the share of its queries that its commonest API serves, from "
        f"{spread.min():.0f} to {spread.max():.0f} percent.",
        spread.rename("percent").reset_index(),
    )


# ---------------------------------------------------------------- training and evaluation


def shared_table(shared: pd.DataFrame, split: str, source: Source) -> Table:
    """What training and evaluation have in common (`lib.assistant.leaks.leaks`)."""
    how = f"split: {split}" if source.simulated else "your own split" if source.folder else "by persona"
    return Table(shared, f"Distinct values on each side and in both ({how}).", text_columns=["what"])


def split_sentence(split: str, source: Source) -> str:
    """What the two sides do not share, once `lib.assistant.leaks.check_split` has passed."""
    if source.simulated:
        apart = " or ".join(KEPT_APART[split])
        return f"As `split: {split}` promises, the two sides share no personas and no {apart}."
    if source.folder:
        return "The sides are those of your files."
    return "The two sides share no personas; what else they share is as the writer made it."


def finding(world: World, n_queries: int, shares: pd.DataFrame, sceptic: pd.DataFrame, source: Source) -> str:
    """The assistant's half of what the report shows of this notebook.

    Args:
        shares: of `lib.assistant.argument_sources.world_shares`.
        sceptic: of `lib.assistant.leaks.sceptic_table`.
    """
    own, others = shared_words(sceptic)
    personas, apis = len(world.personas), len(world.toolbox)
    asked = f"{source}: **{personas} personas** ask {n_queries:,} queries, to be answered with {apis} APIs"
    here = shares.set_index(["knob", "value"])["here"]
    sayable = here["argument_source", "query"] + here["argument_source", "none"]
    asked += "" if np.isnan(sayable) else f"; {sayable:.0f}% of the queries can be planned without any context"
    if np.isnan(own):
        return f"{asked}."
    return (
        f"{asked}. A meaning query shares a content word with {own:.1f}% of the items that answer it, and with "
        f"{others:.1f}% of other items."
    )
