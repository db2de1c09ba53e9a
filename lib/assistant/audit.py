"""A sceptic's questions to a world of personas: where arguments stand, what training and evaluation share, and whether
readers agree with the labels. They read labels and provenance, which no retrieval method may see."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from datetime import datetime

import numpy as np
import pandas as pd
from sklearn.metrics import cohen_kappa_score

from lib.assistant.needs import moment_words
from lib.assistant.queries import normal_text

QUESTIONS = {  # the first is answered before the label is shown
    "understood": "one best reading",
    "clear": "natural and clear",
    "items_right": "right items, the best among them",
    "api_right": "right call",
    "arguments_right": "right arguments",
    "another": "another call would do as well",
}


def argument_sources(queries: pd.DataFrame, gold: pd.DataFrame) -> pd.Series:
    """Where the arguments of each gold plan stand, by query. `query`: each is said in the query, in words or as a
    moment ("tomorrow at 7 am"). `items`: some is not, so it must come from what the persona keeps. `none`: the plan has
    no argument but truth values and the day of the query."""
    asked = gold[["query", "answers"]].merge(queries[["query", "text", "time"]], on="query", validate="one_to_one")
    sources = {}
    for query, answers, text, now in asked.itertuples(index=False):
        values = [ways for call in json.loads(answers) for given in call.values() for ways in given.values()]
        ways = [[value for value in some if value != "" and not isinstance(value, bool)] for some in values]
        said = [
            any(stands_in(way, text, now) for way in some) for some in ways if some and some[0] != f"{now:%Y-%m-%d}"
        ]
        sources[query] = "none" if not said else "query" if all(said) else "items"
    return pd.Series(sources, name="arguments", dtype=object)


def stands_in(value: object, text: str, now: datetime) -> bool:
    """Whether a query, voiced at `now`, says a value word for word, without case and punctuation; of a moment
    (`YYYY-MM-DD`, `YYYY-MM-DD HH:MM`) the day, and the time of day if there is one."""
    if isinstance(value, list):
        return all(stands_in(part, text, now) for part in value)
    if not re.fullmatch(r"\d{4}-\d\d-\d\d( \d\d:\d\d)?", str(value)):
        value, text = (" ".join(re.findall(r"[^\W_]+", words.casefold())) for words in (str(value), text))
        return f" {value} " in f" {text} "
    day, times = moment_words(datetime.fromisoformat(str(value)), now)
    ways = [[day], *([times] if " " in str(value) else [])]
    # As words of their own: "half past seven in the evening" does not say "seven in the evening".
    words = r"(?<!past )(?<!\d:)(?<!\w)(?:{})(?!\w)(?!:\d)"
    return all(re.search(words.format("|".join(map(re.escape, some))), text, re.IGNORECASE) for some in ways)


def shared_values(frames: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """What training and evaluation have in common: columns what, training, evaluation, shared (distinct values), of
    frames as `lib.assistant.world.frames` makes them. A simulated world keeps personas, texts and phrasings apart."""
    queries, labels = (frames[name].set_index("query") for name in ("queries", "gold"))
    template = frames["provenance"].set_index("item")["template"]
    values = {
        "personas": queries["persona"],
        "query texts": queries["text"].map(normal_text),
        "phrasings": labels["phrasing"],
        "item templates of relevant items": labels["relevant"].explode().map(template),
        "needs asked for": labels["need"],
    }
    rows = []
    for what, column in values.items():
        side = column.index.map(queries["split"])
        training, evaluation = (set(column[side == name].dropna()) for name in ("training", "evaluation"))
        rows.append((what, len(training), len(evaluation), len(training & evaluation)))
    return pd.DataFrame(rows, columns=["what", "training", "evaluation", "shared"])


def agreement(readings: pd.DataFrame, queries: pd.DataFrame, gold: pd.DataFrame) -> pd.DataFrame:
    """How far two readers and the labels agree: a row a question, columns question, one a reader (percent of `yes`),
    both (percent of the queries on which they said the same), kappa (Cohen's; NaN where both always gave one same
    answer), n (queries); without rows where nothing that was read is there.

    Of `readings` (columns reader, query, label, proposed and those of `QUESTIONS`) those count whose `label`, a hash of
    query and label, is today's, and whose `proposed` is the label and no foil.
    """
    here = queries[["query", "text", "time", "place"]].merge(gold[["query", "relevant", "plan"]], on="query")
    hashes = {}
    for query, text, time, place, relevant, plan in here.itertuples(index=False):
        asked = json.dumps([text, time.isoformat(), place, sorted(relevant), plan])
        hashes[query] = hashlib.sha256(asked.encode()).hexdigest()[:16]
    as_read = readings["query"].map(hashes) == readings["label"]
    labels, rows = readings[as_read & (readings["proposed"] == "label")], []
    for question, words in QUESTIONS.items() if len(labels) else ():
        said = labels.pivot(index="query", columns="reader", values=question).dropna()
        first, second = (said[reader] for reader in said)
        constant = len({*first, *second}) == 1
        kappa = np.nan if constant else float(cohen_kappa_score(first, second))
        yes = {f"reader {name}, yes": 100 * (said[name] == "yes").mean() for name in said}
        rows.append({"question": words, **yes, "both": 100 * (first == second).mean(), "kappa": kappa, "n": len(said)})
    return pd.DataFrame(rows)
