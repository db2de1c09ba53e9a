"""Two readers judge a sample of queries blind: can a query be understood, and are its labels right?

A reader sees what a method sees (the query with its time and place, all items of the persona with their use) and first
answers blind: which items have to do with it, and which call is to be made. Only then comes a proposal, which is the
label or, in a sixth of the cases, wrong on purpose: whoever agrees with everything is found out.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, get_args

import numpy as np
import pandas as pd
from pydantic import ValidationError
from sklearn.metrics import cohen_kappa_score

from lib.assistant.plans import api_names, parse_plan
from lib.assistant.queries import print_call
from lib.assistant.toolbox import argument_names
from lib.evaluation.inference import percent
from lib.workbook.inputs import InputError, Strict, describe_error, read_records

FOLDER = Path("data") / "readings"
N_LABELS, N_FOILS, SEED = 200, 40, 201  # of the sample; its seed is its own, so that it does not move with the world's
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
Foil = Literal["other", "api", "argument", "items"]
FOILS = get_args(Foil)
QUESTIONS = {
    "understood": "before the label is shown: the query has one best reading",
    "clear": "the query is natural and can be understood",
    "items_right": "the label's items have to do with it, the best among them",
    "api_right": "the label's call does what is asked",
    "arguments_right": "the label's arguments are right",
    "another": "another call would serve as well",
}
# Of the questions, the one that a foil of a kind should be refused at.
CAUGHT_BY = {"other": "api_right", "api": "api_right", "argument": "arguments_right", "items": "items_right"}

Answer = Literal["yes", "no"]
Graded = Literal["yes", "partly", "no"]


class Proposal(NamedTuple):
    """Items (ids) and a plan."""

    items: list[str]
    plan: str


class Reading(Strict):
    """What a reader said of a query.

    Attributes:
        reader: who.
        query: its id.
        label: of the query and its label (`label_hashes`): a reading is of no other.
        proposed: `label`, or the kind of foil that was proposed.
        understood, items, plan: answered blind; items by id, the best first.
        items_right, api_right, arguments_right, another, clear: judged of the proposal.
        note: why.
    """

    reader: str
    query: str
    label: str
    proposed: Literal["label"] | Foil
    understood: Graded
    items: list[str]
    plan: str
    items_right: Graded
    api_right: Answer
    arguments_right: Answer
    another: Answer
    clear: Answer
    note: str = ""


# ---------------------------------------------------------------- what readers are shown


class Sheet(NamedTuple):
    """What one reader is asked about one query.

    Attributes:
        query: its id.
        order: the persona's items (ids), shuffled.
        proposed: see `Reading`.
        proposal: what is proposed after the blind answer.
    """

    query: str
    order: list[str]
    proposed: str
    proposal: Proposal


def sheets(tables: Mapping[str, pd.DataFrame]) -> list[Sheet]:
    """A random sample of evaluation queries with what is proposed of each: `N_LABELS` labels, `N_FOILS` foils between
    them; fewer where the world has fewer.

    Args:
        tables: frames queries, gold, items, toolbox (see `lib.assistant.world.frames`).
    """
    rng = np.random.default_rng(SEED)
    queries = tables["queries"].merge(tables["gold"].drop(columns="split"), on="query")
    evaluation = queries[queries["split"] == "evaluation"].reset_index(drop=True)
    total = N_LABELS + N_FOILS
    chosen = evaluation.iloc[rng.permutation(len(evaluation))[:total]]
    kinds = np.array(["label"] * N_LABELS + list(FOILS) * (N_FOILS // len(FOILS)))[rng.permutation(total)]
    foils, made = Foils(queries, tables["items"], tables["toolbox"]), []
    for row, kind in zip(chosen.to_dict("records"), kinds.tolist(), strict=False):
        order = rng.permutation(foils.items_of(row["persona"]).index).tolist()
        if len(order) == len(row["relevant"]) or not foils.possible(row, kind):
            kind = "label"  # nothing else is there to be proposed
        proposal = Proposal(list(row["relevant"]), row["plan"]) if kind == "label" else foils.made(row, kind, rng)
        made.append(Sheet(row["query"], order, kind, proposal))
    return made


class Foils:
    """Wrong answers that look like labels.

    Args:
        queries: columns query, persona, need, relevant, plan.
        items: columns persona, item, title.
        toolbox: columns api, app, function (a definition as JSON).
    """

    def __init__(self, queries: pd.DataFrame, items: pd.DataFrame, toolbox: pd.DataFrame):
        self.queries = queries
        self.items = items.set_index("item")
        self.arguments = {one["name"]: argument_names(one) for one in map(json.loads, toolbox["function"])}
        self.app_of = dict(zip(toolbox["api"], toolbox["app"], strict=True))

    def items_of(self, persona: str) -> pd.DataFrame:
        return self.items[self.items["persona"] == persona]

    def possible(self, row: Mapping, kind: str) -> bool:
        """Whether the world has something else to propose: another need for `other`, another API for `api`."""
        if kind == "other":
            return bool((self.queries["need"] != row["need"]).any())
        return kind != "api" or len(self.arguments) > 1

    def made(self, row: Mapping, kind: str, rng: np.random.Generator) -> Proposal:
        """A foil for a query: the answer to `other`, something else that the persona asks; another `api`; another
        `argument` (one too many, where the call takes none); other `items`.

        Args:
            row: of `queries`.
        """
        relevant = list(row["relevant"])
        rest = self.items_of(row["persona"]).drop(relevant)
        if kind == "items":
            return Proposal(_drawn(rest.index, len(relevant), rng), row["plan"])
        if kind == "other":
            return self._other(row, rest, rng)
        *first, (api, arguments) = parse_plan(row["plan"])
        if kind == "api":
            last = self._other_api(api, arguments, rest, rng)
        else:
            name = (self.arguments.get(api) or ["title"])[0]
            last = api, {**arguments, name: str(rest["title"].iloc[rng.integers(len(rest))])}
        return Proposal(relevant, "\n".join(print_call(*call) for call in [*first, last]))

    def _other(self, row: Mapping, rest: pd.DataFrame, rng: np.random.Generator) -> Proposal:
        others = self.queries[self.queries["need"] != row["need"]]
        mine = others[others["persona"] == row["persona"]]
        if len(mine):
            other = mine.iloc[rng.integers(len(mine))]
            return Proposal(list(other["relevant"]), other["plan"])
        plan = others["plan"].iloc[rng.integers(len(others))]
        return Proposal(_drawn(rest.index, len(row["relevant"]), rng), plan)

    def _other_api(self, api: str, arguments: dict, rest: pd.DataFrame, rng: np.random.Generator) -> tuple[str, dict]:
        """Another API, of the same app and with the same first argument where there is one."""
        others = [name for name in self.arguments if name != api]
        pool = [name for name in others if self.app_of[name] == self.app_of.get(api)] or others
        alike = [name for name in pool if self.arguments[name][:1] == self.arguments.get(api, [])[:1]] or pool
        name = alike[rng.integers(len(alike))]
        kept = {key: arguments[key] for key in self.arguments[name] if key in arguments}
        value = next(iter(arguments.values()), str(rest["title"].iloc[0]))
        return name, kept or dict.fromkeys(self.arguments[name][:1], value)


def _drawn(items: pd.Index, n: int, rng: np.random.Generator) -> list[str]:
    return rng.choice(items, size=min(n, len(items)), replace=False).tolist()


def sheet_lines(asked: Sequence[Sheet], tables: Mapping[str, pd.DataFrame]) -> tuple[list[str], list[str]]:
    """What a reader is given, a JSON text a query: first the queries with the persona's contacts and items, then the
    proposals, in the same order.

    Args:
        asked: from `sheets`.
        tables: frames queries, items, opens, people.
    """
    queries = tables["queries"].set_index("query")
    items, shown = tables["items"].set_index("item"), {item for sheet in asked for item in sheet.order}
    opens = tables["opens"][tables["opens"]["item"].isin(shown)]
    of_item, log = opens.groupby("item").indices, OpensSeen.of(opens)
    none, contacts = np.array([], dtype=int), tables["people"].groupby("persona")["name"].agg(list)
    ask, judge = [], []
    for sheet in asked:
        row = queries.loc[sheet.query]
        said = {"query": sheet.query, "text": row["text"]}
        when = {"time": f"{row['time']:%A %Y-%m-%d %H:%M}", "place": row["place"]}
        known = {"contacts": contacts.get(row["persona"], [])}
        kept = [
            {
                "item": item,
                "app": kept["app"],
                "shown": f"{kept['shown']:%Y-%m-%d %H:%M}",
                "text": kept["text"],
                "use": use_in_words(log.at(of_item.get(item, none)), row["time"]),
            }
            for item, kept in items.loc[sheet.order].iterrows()
        ]
        ask.append(json.dumps({**said, **when, **known, "items": kept}, ensure_ascii=False))
        judge.append(json.dumps({**said, **sheet.proposal._asdict()}, ensure_ascii=False))
    return ask, judge


class OpensSeen(NamedTuple):
    """A log as arrays, one value an open: its moment, weekday, hour and place."""

    time: np.ndarray
    day: np.ndarray
    hour: np.ndarray
    place: np.ndarray

    @classmethod
    def of(cls, opens: pd.DataFrame) -> OpensSeen:
        """Of columns time, place."""
        time = opens["time"].dt
        return cls(opens["time"].to_numpy(), time.dayofweek.to_numpy(), time.hour.to_numpy(), opens["place"].to_numpy())

    def at(self, rows: np.ndarray) -> OpensSeen:
        """Those of some rows, or where a mask is true."""
        return OpensSeen(*(values[rows] for values in self))


def use_in_words(opens: OpensSeen, until: pd.Timestamp) -> str:
    """How often an item was opened before a moment, when last, and mostly when and where.

    Args:
        opens: of the item.
    """
    before = opens.at(opens.time < until.to_datetime64())
    if not len(before.time):
        return "never opened"
    days = [WEEKDAYS[day] for day, _ in Counter(before.day.tolist()).most_common(2)]
    first, last = (int(hour) for hour in np.quantile(before.hour, [0.25, 0.75]))
    places = Counter(before.place.tolist())
    most = max(places.values())
    place = min(name for name, times in places.items() if times == most)
    return (
        f"opened {len(before.time)} times, last {pd.Timestamp(before.time.max()):%m-%d}; mostly {' or '.join(days)}, "
        f"{first} to {last + 1} h, {place}"
    )


# ---------------------------------------------------------------- what they said


def label_hashes(queries: pd.DataFrame, gold: pd.DataFrame) -> pd.Series:
    """A hash of what was asked and of its label, by query: whether a reading is still of this one.

    Args:
        queries: columns query, text, time, place.
        gold: columns query, relevant, plan.
    """
    rows = queries[["query", "text", "time", "place"]].merge(gold[["query", "relevant", "plan"]], on="query")
    hashes = [
        hashlib.sha256(json.dumps([text, time.isoformat(), place, sorted(relevant), plan]).encode()).hexdigest()[:16]
        for text, time, place, relevant, plan in rows.drop(columns="query").itertuples(index=False)
    ]
    return pd.Series(hashes, index=pd.Index(rows["query"], name="query"))


def read_readings(paths: Sequence[Path]) -> pd.DataFrame:
    """The readings of several files of JSON lines, a column for each field of `Reading`.

    Raises:
        InputError: a file cannot be read or a line is wrong; names file, line and field.
    """
    rows = []
    for path in paths:
        for number, record in read_records(path):
            try:
                rows.append(Reading.model_validate(record).model_dump())
            except ValidationError as error:
                raise InputError(f"{path}, line {number}: {describe_error(error)}") from error
    frame = pd.DataFrame(rows, columns=list(Reading.model_fields))
    if twice := frame[frame.duplicated(["reader", "query"])]["query"].tolist():
        raise InputError(f"a reader judged query {twice[0]} twice")
    return frame


def of_this_world(readings: pd.DataFrame, queries: pd.DataFrame, gold: pd.DataFrame) -> pd.DataFrame:
    """The readings of queries that are still asked, and labelled, as they were when they were read."""
    now = label_hashes(queries, gold)
    return readings[readings["query"].map(now) == readings["label"]]


def judgements(readings: pd.DataFrame) -> pd.DataFrame:
    """What readers said of the labels, a row a question and reader, and how far two readers agree, a row a question.

    Args:
        readings: see `read_readings`; foils are left out.

    Returns:
        columns question, reader (a name, or `agreement`), percent (of `yes`, or of the queries on which both said the
        same) with its interval (Wilson; ci_low, ci_high), kappa (Cohen's; in rows of agreement, NaN where both always
        gave one same answer), n (queries).
    """
    labels, rows = readings[readings["proposed"] == "label"], []
    for question in QUESTIONS:
        said = labels.pivot(index="query", columns="reader", values=question)
        for reader in said:
            given = said[reader].dropna()
            rows.append((question, reader, *percent((given == "yes").sum(), len(given)), np.nan, len(given)))
        both = said.dropna()
        if said.shape[1] == 2 and len(both):
            first, second = (both[reader] for reader in said)
            same = percent((first == second).sum(), len(both))
            constant = len(set(first) | set(second)) == 1
            kappa = np.nan if constant else float(cohen_kappa_score(first, second))
            rows.append((question, "agreement", *same, kappa, len(both)))
    return pd.DataFrame(rows, columns=["question", "reader", "percent", "ci_low", "ci_high", "kappa", "n"])


def foils_caught(readings: pd.DataFrame) -> pd.DataFrame:
    """How many wrong proposals of each kind each reader refused at the question that is about what is wrong.

    Returns:
        columns proposed, reader, percent, ci_low, ci_high (Wilson), n.
    """
    foils = readings[readings["proposed"] != "label"]
    refused = pd.Series(
        [row[CAUGHT_BY[row["proposed"]]] != "yes" for row in foils.to_dict("records")], index=foils.index, dtype=bool
    )
    rows = [
        (*names, *percent(part.sum(), len(part)), len(part))
        for names, part in refused.groupby([foils["proposed"], foils["reader"]])
    ]
    return pd.DataFrame(rows, columns=["proposed", "reader", "percent", "ci_low", "ci_high", "n"])


def blind_answers(readings: pd.DataFrame, gold: pd.DataFrame, other_plans: pd.DataFrame) -> pd.DataFrame:
    """What each reader found without any proposal, of all queries read: a reader is a method, too.

    Args:
        gold: columns query, kind, relevant, apis.
        other_plans: columns query, apis: of plans that do as well.

    Returns:
        columns reader, kind (`all`, or of query), found (`first item`: the item named first is relevant; `call`: the
        APIs called are those of a right plan), percent, ci_low, ci_high (Wilson), n.
    """
    right = pd.concat([gold, other_plans]).groupby("query")["apis"].agg(lambda plans: [list(plan) for plan in plans])
    read = readings.merge(gold[["query", "kind", "relevant"]], on="query")
    read["first item"] = [
        bool(items) and items[0] in relevant for items, relevant in zip(read["items"], read["relevant"], strict=True)
    ]
    read["call"] = [api_names(plan) in right[query] for plan, query in zip(read["plan"], read["query"], strict=True)]
    parts = {"all": read, **dict(tuple(read.groupby(read["kind"].astype(str))))}
    rows = [
        (reader, kind, found, *percent(of_reader[found].sum(), len(of_reader)), len(of_reader))
        for kind, part in parts.items()
        for reader, of_reader in part.groupby("reader")
        for found in ("first item", "call")
    ]
    return pd.DataFrame(rows, columns=["reader", "kind", "found", "percent", "ci_low", "ci_high", "n"])


class Alternatives(NamedTuple):
    """Of how many labels every reader knows another call that would serve as well, and for how many of these queries
    one counts as right."""

    known: int
    counted: int


def alternatives(readings: pd.DataFrame, other_plans: pd.DataFrame) -> Alternatives:
    """See `Alternatives`; foils, and labels that one reader alone has read, are left out.

    Args:
        other_plans: column query: of plans that do as well.
    """
    labels = readings[readings["proposed"] == "label"]
    said = labels["another"].eq("yes").groupby(labels["query"]).agg(["size", "all"])
    known = said.index[(said["size"] > 1) & said["all"]]
    return Alternatives(len(known), int(known.isin(other_plans["query"]).sum()))
