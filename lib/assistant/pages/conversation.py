"""Tables and sentences of notebook 05_lambdamart_rrf about follow-ups and hops."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from lib.assistant.conversation import (
    ALSO_TOLD,
    ELSEWHERE,
    KNOWN,
    RANKER_TOLD,
    TRAINED,
    TRAINED_BEFORE,
    TWO_TOLD,
    UNSEEN,
    WITH_HISTORY,
    WITH_WORDS,
)
from lib.evaluation.inference import settled
from lib.workbook.display import Table, interval
from lib.workbook.methods import label

CELL = ["value", "ci_low", "ci_high"]
QUERIES = {"plain": "plain queries", "follow-up": "follow-ups", "hop": "hops"}
COLUMNS = ["kind", "method", "metric", *CELL, "n", "gain", "gain_low", "gain_high", "p_holm"]


def conversation_table(found: pd.DataFrame, phrasings: pd.DataFrame, met: pd.DataFrame, k: int) -> Table:
    """Recall of every method, a column a kind of query.

    Args:
        found: from `lib.assistant.conversation.summarise_conversation`.
        phrasings: from `lib.assistant.conversation.phrasings_of`.
        met: from `lib.assistant.conversation_searches.met_before`.
        k: K.
    """
    shown = found.assign(cell=[interval(*row) for row in found[CELL].to_numpy()])
    table = shown.pivot(index="method", columns="kind", values="cell")
    table = table.reindex(index=found["method"].unique(), columns=found["kind"].unique())
    numbers = found.drop_duplicates("kind").set_index("kind")["n"]
    recur = "; ".join(
        f"the {row.Index} queries are about {row.needs} needs in {row.phrasings} phrasings, {row.shared} of which more "
        f"than one persona uses, in {row.asked_in_shared:.0f}% of these queries"
        for row in phrasings.itertuples()
    )
    return Table(
        table.rename(index=label).rename_axis("method").rename_axis(None, axis=1).reset_index(),
        f"Recall@{k} in percent with 95% intervals, by kind of query: "
        + ", ".join(f"{count} {kind}" for kind, count in numbers.items())
        + f". Rankers and maps are cross-fitted by persona, but {recur}: so they have met the needs with other people, "
        "a follow-up's too. Where needs are unseen, they learned from no query of the need, nor so of its phrasings. "
        f"{label(RANKER_TOLD)} and {label(TWO_TOLD)} also see the cosine of items and the query behind the turn "
        f"before, words and plan; the other rankers see no turn before.{_trained_before(found, met)}",
    )


def _trained_before(found: pd.DataFrame, met: pd.DataFrame) -> str:
    """What the searches that were trained in the main world learned from, in a sentence or two; nothing where there are
    none."""
    names = [name for name in TRAINED_BEFORE if name in set(found["method"])]
    if not names:
        return ""
    shares = ", ".join(
        f"of {QUERIES[str(row.Index)]} {row.needs:.0f}% and {row.phrasings:.0f}%" for row in met.itertuples()
    )
    return (
        f" Trained in the workbook's main world, with other people, and asked here as they are: "
        f"{' and '.join(label(name) for name in names)}. Their training queries asked about the need, and in the "
        f"phrasing, {shares}."
    )


def training_table(weighed: pd.DataFrame, k: int) -> Table:
    """What each trained method finds of needs that it has met and that it has not.

    Args:
        weighed: from `lib.assistant.conversation.weigh_training`.
        k: K.
    """
    cells = [interval(*row) for row in weighed[["difference", "ci_low", "ci_high"]].to_numpy()]
    rows = weighed.assign(cell=cells)
    same = (rows["against"] == KNOWN).to_numpy()
    known, other = rows[same].reset_index(drop=True), rows[~same].reset_index(drop=True)
    table = pd.DataFrame(
        {
            "queries": known["kind"].map(QUERIES),
            "method": known["method"].map(label),
            "needs known": known["other"].map("{:.1f}".format),
            "needs unseen": known["value"].map("{:.1f}".format),
            "difference": known["cell"],
            "best without training": [f"{label(row.against)}, {row.other:.1f}" for row in other.itertuples()],
            "difference to it": other["cell"],
        }
    )
    return Table(
        table,
        f"Recall@{k} in percent of what is trained, on needs that it learned from with other people and on needs "
        "that it did not meet; differences in points, of needs unseen less the other, with 95% intervals.",
    )


def conversation_in_words(found: pd.DataFrame, weighed: pd.DataFrame, met: pd.DataFrame, k: int) -> str:
    """On each kind of query that is not plain: what finds most of what has not met its need, beside semantic search
    there and on plain queries; what finds more only where it has met it; and the best search that was trained in the
    main world.

    Args:
        found: from `lib.assistant.conversation.summarise_conversation`.
        weighed: from `lib.assistant.conversation.weigh_training`.
        met: from `lib.assistant.conversation_searches.met_before`.
        k: K.
    """
    by_kind = {kind: rows.set_index("method") for kind, rows in found.groupby("kind", sort=False)}
    tests = dict(list(weighed.groupby(["kind", "method"], sort=False)))
    parts = [_on_a_kind(kind, rows, tests, met.loc[kind]) for kind, rows in by_kind.items() if kind != "plain"]
    plain = by_kind["plain"].loc["semantic", "value"] if "plain" in by_kind else float("nan")
    return (
        f"Recall@{k} of semantic search is {plain:.1f}% on plain queries. {' '.join(parts)} "
        f"Differences to semantic search are tested in one family of {found['p_holm'].notna().sum()}, what training is "
        f"worth in one of {len(weighed)}, as Holm has it."
    )


def _on_a_kind(kind: str, rows: pd.DataFrame, tests: Mapping[tuple[str, str], pd.DataFrame], met: pd.Series) -> str:
    """The sentences of `conversation_in_words` about one kind.

    Args:
        rows: of `found`, by method.
        tests: rows of `weighed` by kind and method.
        met: needs and phrasings, percent, that what was trained in the main world has met.
    """
    before = rows[rows.index.isin(ELSEWHERE)]
    here = rows.drop(index=before.index)
    fresh = (here if met["needs"] > 0 else rows).drop(index=list(TRAINED))
    best, most = fresh["value"].idxmax(), here["value"].idxmax()
    text = f"On {kind}s, semantic search finds {rows.loc['semantic', 'value']:.1f}%"
    if best == "semantic":
        text += ", as much as any method that has not met their needs"
    else:
        gain = interval(*rows.loc[best, ["gain", "gain_low", "gain_high"]])
        sure = settled(rows.loc[[best]], "gain_low", "gain_high").item()
        text += (
            f"; of methods that have not met their needs, {label(best.removesuffix(UNSEEN))} finds the most, "
            f"{rows.loc[best, 'value']:.1f}%: {gain} points more{'' if sure else ', which is not settled'}"
        )
    if best == WITH_HISTORY:
        text += f" (without the plan {rows.loc[WITH_WORDS, 'value']:.1f}%)"
    if best.endswith(UNSEEN):
        test = tests[kind, best.removesuffix(UNSEEN)].query("against != @KNOWN")
        text += (
            f". The best without training, {label(test['against'].item())}, finds {test['other'].item():.1f}%: "
            f"training adds {_difference(test)}"
        )
    if most in TRAINED and rows.loc[most, "value"] > rows.loc[best, "value"]:
        test = tests[kind, most].query("against == @KNOWN")
        text += (
            f". Where it has met the very needs with other people, {label(most)} finds {rows.loc[most, 'value']:.1f}%; "
            f"of needs unseen {test['value'].item():.1f}%, a change of {_difference(test)}"
        )
    return f"{text}.{_best_before(before, met)}"


def _best_before(rows: pd.DataFrame, met: pd.Series) -> str:
    """A sentence on the best of the searches that were trained in the main world; nothing where there are none."""
    if rows.empty:
        return ""
    best = rows["value"].idxmax()
    alone = ALSO_TOLD.get(best)
    without = f" (without it {rows.loc[alone, 'value']:.1f}%)" if alone else ""
    return (
        f" Of the searches trained in the main world, {label(best)} finds the most, {rows.loc[best, 'value']:.1f}%"
        f"{without}; of these queries, {met['needs']:.0f}% are about needs and {met['phrasings']:.0f}% in phrasings "
        "that it was trained on."
    )


def _difference(test: pd.DataFrame) -> str:
    """The one row of a test in words."""
    points = interval(*test[["difference", "ci_low", "ci_high"]].iloc[0])
    return f"{points} points" + ("" if settled(test).item() else ", which is not settled")


def links_table(cut: pd.DataFrame, k: int) -> Table:
    """Recall with one link cut, beside the method's own.

    Args:
        cut: from `lib.assistant.conversation_controls.weigh_links`.
        k: K.
    """
    ends = ["difference", "difference_low", "difference_high"]
    table = pd.DataFrame(
        {
            "queries": cut["kind"].map(QUERIES),
            "control": cut["control"],
            f"Recall@{k}": [interval(*row) for row in cut[CELL].to_numpy()],
            "method": cut["method"].map(label),
            "its own": cut["whole"].map("{:.1f}".format),
            "difference": [interval(*row) for row in cut[ends].to_numpy()],
        }
    )
    return Table(
        table,
        f"Recall@{k} in percent with one link cut, and by length of text alone; 95% intervals. What is trained has met "
        "the needs with other people.",
    )


def links_in_words(cut: pd.DataFrame) -> str:
    """What each method keeps of its recall once a link is cut, and whether length alone finds anything like as much.

    Args:
        cut: from `lib.assistant.conversation_controls.weigh_links`.
    """
    parts = []
    for (kind, method), rows in cut.groupby(["kind", "method"], sort=False):
        lengths = rows["control"].str.endswith("first")
        rows = rows.assign(settled=settled(rows, "difference_low", "difference_high"))
        kept = [
            f"{row.value:.1f}%, {100 * row.value / row.whole:.0f}% of that ({row.control}"
            f"{'' if row.settled else '; not settled'})"
            for row in rows[~lengths].itertuples()
        ]
        longest = rows.loc[lengths, "value"].max()
        parts.append(
            f"On {kind}s, {label(method)} finds {rows['whole'].iloc[0]:.1f}%; with a link cut it finds "
            f"{', '.join(kept)}; length of text alone finds {longest:.1f}% at most."
        )
    return (
        " ".join(parts)
        + " What is left was found without that link: so much of the recall is no proof of following it."
    )
