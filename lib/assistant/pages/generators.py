"""Tables, figure and sentences of notebook 10, the assistant's half: a language model in the simulator's place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd

from lib.assistant.generators import DRAWS, FIRST, RefusedThoughts, Replies, Trial, written_items, written_queries
from lib.evaluation.diversity import MEASURES
from lib.evaluation.inference import percent
from lib.workbook.display import Drawing, Table, interval, number
from lib.workbook.markup import plain
from lib.workbook.methods import colour, marker

STEPS = {
    "personas": "a persona",
    "items": "items of an app",
    "queries": "a request",
    "tools": "the tool",
    "plans": "its arguments",
    "thoughts": "a chain of thought",
}
WAYS = {"free": "free", "schema": "under the schema"}
MEASURE_NAMES = {
    "distinct_titles": "different titles, %",
    "distinct_1": "distinct-1, %",
    "distinct_2": "distinct-2, %",
    "words": "words",
}
LONGEST_SHOWN = 400  # characters of an answer


@dataclass(frozen=True)
class Writer:
    """The language model that is tried out, and the ways (of `WAYS`) in which it answered."""

    name: str
    ways: tuple[str, ...]

    def side(self, side: str, way: str) -> str:
        """What a table calls it (ours) or the simulator (theirs)."""
        return f"{self.name}, {WAYS[way]}" if side == "ours" else f"the simulator (beside {WAYS[way]})"


def spans(rates: pd.DataFrame, name: str) -> list[str]:
    """`24 [10, 47]`: rates in percent with 95% intervals, of columns such as valid_rate, valid_low, valid_high."""
    ends = rates[[f"{name}_{end}" for end in ("rate", "low", "high")]].to_numpy()
    return [interval(rate, low, high, 0) for rate, low, high in ends]


def over_personas(rates: pd.DataFrame) -> str:
    """What 95% intervals are over, for a caption."""
    fewest, most = rates["personas"].min(), rates["personas"].max()
    number_of = f"{fewest}" if fewest == most else f"{fewest} to {most}"
    return f"95% intervals over personas ({number_of} a step), none narrower than Wilson's over answers"


def question_sentence(writer: Writer, prompt: str) -> str:
    """One of the questions as it was asked, in a quotation."""
    quoted = "\n".join(f"> {plain(line)}" for line in prompt.splitlines())
    return (
        f"**{plain(writer.name)}** answers. One of the questions, the first one for items, without the schema at its "
        f"end:\n\n{quoted}"
    )


# ---------------------------------------------------------------- usable answers


def usable_table(rates: pd.DataFrame, writer: Writer, repairs: int) -> Table:
    """Usable answers by step and way (`lib.assistant.generators.usable_rates`).

    Args:
        repairs: how often a wrong answer was asked for again at most.
    """
    shown = {
        "step": rates["step"].map(STEPS),
        "answers": rates["way"].map(WAYS),
        "asked": rates["n"],
        "usable at once, %": spans(rates, "at_once"),
        "repaired": rates["valid"] - rates["at_once"],
        "usable in the end, %": spans(rates, "valid"),
        "given up": rates["n"] - rates["valid"],
    }
    again = "once" if repairs == 1 else f"up to {repairs} times"
    caption = f"Answers of {writer.name}; a wrong one is asked for again {again}; {over_personas(rates)}."
    return Table(pd.DataFrame(shown), caption)


def in_all(rates: pd.DataFrame) -> pd.DataFrame:
    """The rates of all steps together, by way: n (answers), and as text at_once, valid (percent) and rest (percent
    valid of those that are no chains of thought). No interval: steps are of different kinds, and were chosen."""
    total, rest = (
        part.groupby("way", sort=False)[["n", "at_once", "valid"]].sum()
        for part in (rates, rates[rates["step"] != "thoughts"])
    )
    counts = {"at_once": total, "valid": total, "rest": rest.assign(rest=rest["valid"])}
    shares = {name: 100 * part[name] / part["n"] for name, part in counts.items()}
    return total[["n"]].assign(
        **{name: [f"{number(value, 0)}%" for value in values] for name, values in shares.items()}
    )


def without_thoughts(rates: pd.DataFrame, refused: RefusedThoughts) -> str:
    """The rates without chains of thought, and why these are refused: it is about the question more than the model."""
    rest = " and ".join(f"{row['rest']} {WAYS[way]}" for way, row in in_all(rates).iterrows())
    if not refused.refused:
        return f"Without chains of thought it is {rest} in the end."
    return (
        f"Without chains of thought it is {rest} in the end: of {refused.refused} refused ones {refused.no_json} are "
        f"sentences without JSON, and {refused.other_case} are JSON and write an app's name in another letter case."
    )


def usable_sentence(rates: pd.DataFrame, outcomes: pd.DataFrame, refused: RefusedThoughts) -> str:
    """Usable answers of all steps, and what is wrong with the first answers of each way.

    Args:
        rates: as `lib.assistant.generators.usable_rates` returns them.
        outcomes: columns way, fault ("" where there is none).
        refused: see `lib.assistant.generators.refused_thoughts`.
    """
    total = in_all(rates)
    parts = [
        f"{WAYS[way].capitalize()}, of the {row['n']} answers {row['at_once']} are usable at once and "
        f"{row['valid']} in the end; faults of the first answers: {_faults(outcomes[outcomes['way'] == way])}."
        for way, row in total.iterrows()
    ]
    parts.append(without_thoughts(rates, refused))
    if refused.refused:
        parts.append("Their question asks for sentences, and then for one JSON object alone.")
    parts.append(
        "Steps weigh by their questions. A fault under the schema is an answer that was cut off at its longest length, "
        "or one that breaks a rule that no schema can say."
    )
    if "schema" not in total.index:
        parts.append("An endpoint takes no grammar, so there is no second row.")
    return " ".join(parts)


def _faults(outcomes: pd.DataFrame) -> str:
    found = outcomes.loc[outcomes["fault"] != "", "fault"].value_counts().sort_index()
    return (
        ", ".join(f"{name} {count}" for name, count in found.sort_values(ascending=False, kind="stable").items())
        or "none"
    )


def usable_alt(rates: pd.DataFrame) -> str:
    """Usable answers in the end by step, in words."""
    steps = zip(rates["step"].map(STEPS), rates["way"].map(WAYS), spans(rates, "valid"), strict=True)
    return "Usable answers by step: " + "; ".join(f"{step} ({way}) {span}%" for step, way, span in steps) + "."


def usable_figure(rates: pd.DataFrame, writer: Writer) -> Drawing:
    """Usable answers by step and way: in the end with its interval, and at once."""
    figure, axis = plt.subplots(figsize=(9, 0.62 * len(STEPS) + 1.4))
    for way in writer.ways:
        part, color, mark = rates[rates["way"] == way], colour(f"written_{way}"), marker(f"written_{way}")
        shift = 0.17 if way == "schema" else -0.17 if len(writer.ways) > 1 else 0
        places = [position + shift for position in range(len(STEPS))]
        style: dict[str, Any] = {"marker": mark, "color": color, "linestyle": "none"}
        axis.hlines(places, part["valid_low"], part["valid_high"], color=color, linewidth=2)
        axis.plot(part["valid_rate"], places, markersize=8, label=f"{WAYS[way]}, in the end", **style)
        at_once = style | {"markerfacecolor": "white", "markersize": 5, "zorder": 3}
        axis.plot(part["at_once_rate"], places, label=f"{WAYS[way]}, at once", **at_once)
    axis.set(
        yticks=range(len(STEPS)),
        yticklabels=list(STEPS.values()),
        xlim=(-3, 103),
        xlabel="usable answers, % (bars: 95% interval over personas of those in the end)",
    )
    axis.invert_yaxis()
    axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncol=2 * len(writer.ways), fontsize=9)
    ends = "; ".join(
        f"{WAYS[way]}, {row['valid']} ({row['rest']} without chains of thought)"
        for way, row in in_all(rates).iterrows()
    )
    finding = f"Usable answers of {writer.name} in the end: {ends}"
    return Drawing(figure, "generators", finding, usable_alt(rates), rates)


def right_table(judged: pd.DataFrame, n_tools: int) -> Table:
    """Answers that agree with the simulator's labels (`lib.assistant.generators.right_counts`)."""
    shown = {
        "step": judged["step"].map(STEPS),
        "answers": judged["way"].map(WAYS),
        "asked": judged["n"],
        "right, %": spans(judged, "right"),
    }
    return Table(
        pd.DataFrame(shown),
        f"Answers that agree with the simulator's labels, {over_personas(judged)}. A tool drawn at random is right in "
        f"{100 / n_tools:.1f}%. Both are shown the relevant entries, the arguments also the right tool; other plans "
        "that count on page 07 do not count here.",
    )


# ---------------------------------------------------------------- items and requests


def diversity_table(diversity: pd.DataFrame, writer: Writer) -> Table:
    """Diversity and length of items by way and side (`lib.assistant.generators.items_diversity`, not empty)."""
    lines = []
    for (way, side), part in diversity.groupby(["way", "side"], sort=False):
        values = part.set_index("measure")
        line = {"items by": writer.side(side, way), "items": int(values["n"].iloc[0])}
        lines.append(line | {MEASURE_NAMES[name]: values.loc[name, "value"] for name in MEASURES})
    from_few = diversity.drop_duplicates("way")
    told = "; ".join(
        f"{WAYS[row.way]}, {row.answers} answers for {row.personas} personas" for row in from_few.itertuples()
    )
    return Table(
        pd.DataFrame(lines),
        "Diversity and length (words an item) of items, at equal numbers of items and of words: means of "
        f"{DRAWS} draws; no interval says how far another sample would differ. The model's items come from few "
        f"answers: {told}.",
        decimals=1,
    )


def items_sentence(items: Trial, replies: Replies, diversity: pd.DataFrame) -> str:
    """How many of the items asked for were written, and whether any can be compared."""
    asked, parts = items.about["n"].sum(), []
    for way, by_step in replies.items():
        rest = "." if (diversity["way"] == way).any() else ", so there is nothing to compare."
        written = len(written_items(items, by_step["items"]))
        parts.append(f"{WAYS[way].capitalize()}, {written} of {asked} items asked for were written{rest}")
    return " ".join(parts)


def requests_table(requests: pd.DataFrame, writer: Writer, encoder: str, n_personas: int) -> Table:
    """Requests about the same items (`lib.assistant.generators.requests_beside_simulated`, not empty).

    Args:
        n_personas: who ask.
    """
    names = [writer.side(side, way) for way, side in zip(requests["way"], requests["side"], strict=True)]
    found = zip(*percent(requests["found"], requests["requests"]), strict=True)
    shown = requests.drop(columns=["way", "side"]).assign(found=[interval(*one, 0) for one in found])
    shown.insert(0, "requests by", names)
    heads = {
        "shared": "content words shared with the item, %",
        "found": f"item among the first {FIRST}, %",
        "chance": "by chance, %",
    }
    return Table(
        shown.rename(columns=heads),
        f"Requests about the same items; search by {encoder}. Wilson's 95% intervals take requests as independent; "
        f"they are of {n_personas} personas, so the intervals are too narrow.",
        decimals=1,
    )


def request_example(queries: Trial, replies: Replies, items: pd.DataFrame, writer: Writer) -> Table | None:
    """The first usable request, one under the schema where there is one, beside the simulator's; None where none is.

    Args:
        items: columns item, text.
    """
    usable = [
        (way, row)
        for way, by_step in replies.items()
        for row in written_queries(queries, by_step["queries"]).itertuples()
    ]
    if not usable:
        return None
    way, row = next((pair for pair in usable if pair[0] == "schema"), usable[0])
    texts = [items.set_index("item").loc[row.item, "text"], row.text, row.written]
    shown = pd.DataFrame({"": ["the item", "the simulator", writer.side("ours", way)], "text": texts})
    return Table(shown, f"One request of kind {row.kind}.", text_columns=["text"])


def refused_example(replies: Mapping[str, list]) -> Table | None:
    """The first answer that could not be used, and what the model was told; None where all could.

    Args:
        replies: of one way, by step.
    """
    broken = next((reply for by_step in replies.values() for reply in by_step if reply.errors), None)
    if broken is None:
        return None
    shown = {"answer": [broken.answers[0][:LONGEST_SHOWN]], "what the model was told": [broken.errors[0]]}
    caption = f"The first answer that could not be used ({LONGEST_SHOWN} characters at most)."
    return Table(pd.DataFrame(shown), caption, text_columns=list(shown))


def finding(rates: pd.DataFrame, judged: pd.DataFrame, refused: RefusedThoughts, writer: Writer) -> str:
    """What the report shows of this notebook.

    Args:
        rates: as `lib.assistant.generators.usable_rates` returns them.
        judged: as `lib.assistant.generators.right_counts` returns them.
        refused: see `lib.assistant.generators.refused_thoughts`.
    """
    total = in_all(rates)
    tools = judged[judged["step"] == "tools"].set_index("way").loc[writer.ways[-1]]
    under = "schema" in writer.ways
    grammar = f"; with the schema as a grammar, in **{total.loc['schema', 'at_once']}** at once" if under else ""
    right = interval(tools["right_rate"], tools["right_low"], tools["right_high"], 0)
    return (
        f"Asked for data as JSON, {plain(writer.name)} gives usable answers in "
        f"**{total.loc['free', 'at_once']}** of {total.loc['free', 'n']} cases at once and "
        f"{total.loc['free', 'valid']} in the end{grammar}. {without_thoughts(rates, refused)} Usable is not right: "
        f"the tool is the simulator's in {right}% of {tools['n']} requests{' under the schema' if under else ''}."
    )
