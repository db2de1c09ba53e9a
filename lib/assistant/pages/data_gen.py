"""Tables and figures of notebook 01, the assistant's half: personas, their items and what they ask."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns

from lib.assistant.argument_sources import SHARES
from lib.assistant.personas import ITEMS_PER_APP
from lib.assistant.schemas import APPS, Persona
from lib.assistant.world import World
from lib.workbook.display import Drawing, Table
from lib.workbook.markup import plain

# ---------------------------------------------------------------- the world and its sizes


def written_table(steps: pd.DataFrame, writer: str) -> Table:
    """What became of each step in which a language model wrote the world (`lib.assistant.written_world`)."""
    return Table(steps, f"What {writer} was asked to write, and what became of it.", decimals=0)


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
    return Drawing(
        figure,
        "items_per_app",
        "Context items a persona keeps in each app",
        "Box plots of context items per persona for the seven apps, beside the published means.",
        counts.describe().T.rename_axis("app").reset_index().assign(published=published),
    )


# ---------------------------------------------------------------- one persona, some queries


def shown_persona(personas: Sequence[Persona], queries: pd.DataFrame) -> Persona:
    """The first persona who asks something."""
    asking = set(queries["persona"])
    return next(persona for persona in personas if persona.id in asking)


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
        "Items as retrieval sees them, how often and when last they were opened, and where mostly.",
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


def sceptic_table(sceptic: pd.DataFrame, n_queries: int) -> Table:
    """The sceptic's questions (`lib.assistant.leaks.sceptic_table`) as shown."""
    caption = f"Shortcuts that a retrieval method could exploit, over {n_queries:,} queries."
    return Table(sceptic, caption, text_columns=["question"])


# ---------------------------------------------------------------- training and evaluation


def shared_table(shared: pd.DataFrame, how: str) -> Table:
    """What training and evaluation have in common (`lib.assistant.leaks.leaks`)."""
    return Table(shared, f"Distinct values on each side and in both ({how}).", text_columns=["what"])
