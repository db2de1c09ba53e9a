"""Tables and sentences of notebook 05_lambdamart_rrf about follow-ups and hops."""

from __future__ import annotations

import pandas as pd

from lib.assistant.conversation import RANKER_TOLD
from lib.evaluation.inference import settled
from lib.workbook.display import Table, interval
from lib.workbook.methods import label

CELL = ["value", "ci_low", "ci_high"]
COLUMNS = ["kind", "method", "metric", *CELL, "n", "gain", "gain_low", "gain_high", "p_holm"]


def conversation_table(found: pd.DataFrame, k: int) -> Table:
    """Recall of every method, a column a kind of query.

    Args:
        found: from `lib.assistant.conversation.summarise_conversation`.
        k: K.
    """
    shown = found.assign(cell=[interval(*row) for row in found[CELL].to_numpy()])
    table = shown.pivot(index="method", columns="kind", values="cell")
    table = table.reindex(index=found["method"].unique(), columns=found["kind"].unique())
    numbers = found.drop_duplicates("kind").set_index("kind")["n"]
    return Table(
        table.rename(index=label).rename_axis("method").rename_axis(None, axis=1).reset_index(),
        f"Recall@{k} in percent with 95% intervals, by kind of query: "
        + ", ".join(f"{count} {kind}" for kind, count in numbers.items())
        + ". Rankers and maps are cross-fitted by persona: they have met these needs, a follow-up's too, with other "
        f"people. {label(RANKER_TOLD)} also sees the cosine of items and the query behind the turn before, words and "
        "plan; the other rankers see no turn before.",
    )


def conversation_in_words(found: pd.DataFrame, k: int) -> str:
    """On each kind of query that is not plain: what finds most, beside semantic search there and on plain queries.

    Args:
        found: from `lib.assistant.conversation.summarise_conversation`.
        k: K.
    """
    by_kind = {kind: rows.set_index("method") for kind, rows in found.groupby("kind", sort=False)}
    parts = []
    for kind, rows in by_kind.items():
        if kind == "plain":
            continue
        best = rows["value"].idxmax()
        text = f"on {kind}s, semantic search finds {rows.loc['semantic', 'value']:.1f}%"
        if best == "semantic":
            parts.append(f"{text}, as much as any method")
            continue
        sure = settled(rows.loc[[best]], "gain_low", "gain_high").item()
        gain = interval(*rows.loc[best, ["gain", "gain_low", "gain_high"]])
        parts.append(
            f"{text}, and {label(best)} the most, {rows.loc[best, 'value']:.1f}%: {gain} points more"
            + ("" if sure else ", which is not settled")
            + (
                f" (without the plan {rows.loc['semantic_words_before', 'value']:.1f}%)"
                if best == "semantic_history"
                else ""
            )
        )
    plain = by_kind["plain"].loc["semantic", "value"] if "plain" in by_kind else float("nan")
    return (
        f"Recall@{k} of semantic search is {plain:.1f}% on plain queries; {'; '.join(parts)}. "
        f"Differences are tested in one family of {found['p_holm'].notna().sum()}, as Holm has it."
    )


def links_table(cut: pd.DataFrame, k: int) -> Table:
    """Recall with one link cut, beside the method's own.

    Args:
        cut: from `lib.assistant.conversation_controls.weigh_links`.
        k: K.
    """
    ends = ["difference", "difference_low", "difference_high"]
    table = pd.DataFrame(
        {
            "queries": cut["kind"] + "s",
            "control": cut["control"],
            f"Recall@{k}": [interval(*row) for row in cut[CELL].to_numpy()],
            "method": cut["method"].map(label),
            "its own": cut["whole"].map("{:.1f}".format),
            "difference": [interval(*row) for row in cut[ends].to_numpy()],
        }
    )
    return Table(table, f"Recall@{k} in percent with one link cut, and by length of text alone; 95% intervals.")


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
            f"{row.value:.1f}% ({row.control}{'' if row.settled else '; not settled'})"
            for row in rows[~lengths].itertuples()
        ]
        longest = rows.loc[lengths, "value"].max()
        parts.append(
            f"On {kind}s, {label(method)} finds {rows['whole'].iloc[0]:.1f}%; with a link cut it finds "
            f"{', '.join(kept)}; length of text alone finds {longest:.1f}% at most."
        )
    return " ".join(parts)
