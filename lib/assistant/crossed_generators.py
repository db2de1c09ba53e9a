"""Does what is learned from one generator's queries serve another's? The same people, items, moments and labels, once
in the simulator's words and once in a language model's.

In a small simulated world a language model is asked for what the person says (`lib.assistant.prompts.spoken_turns`),
for every query whose words leave something to its items. A LambdaMART and a fine-tuned encoder learn from the training
queries in each wording; each ranks the evaluation queries in both. Only the words differ: an evaluation query is
compared with itself.

What a model of a billion parameters writes takes two cores half an hour, so its answers are kept with the project
(`lib.generation.kept`), under prompt and weights.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from lib.assistant.generators import DRAWS
from lib.assistant.prompts import spoken_turns
from lib.assistant.queries import normal_form
from lib.assistant.ranking_task import Learning, RankingTask
from lib.assistant.schemas import APP_NAMES
from lib.assistant.world import World, frames
from lib.assistant.written_world import has_words, items_of
from lib.evaluation.comparison import compare, per_query_scores, summarise
from lib.evaluation.diversity import matched_diversity
from lib.evaluation.inference import Resampling, settled
from lib.generation.kept import ENOUGH, Conversations, Keeper, Kept
from lib.generation.local import LocalModel
from lib.generation.models import locate
from lib.retrieval.dense import encode, load_encoder
from lib.retrieval.finetune import Finetuning, finetune_encoder, hardest_negatives, training_rows
from lib.retrieval.stores import cosine_of_pairs

FILE = Path("data") / "answers" / "written_requests.jsonl"
MODEL = "Qwen2.5-Coder-1.5B-Instruct"  # whose requests are kept
SIMULATOR, WRITER = "simulator", "model"  # whose words
SIDES = (SIMULATOR, WRITER)
METHODS = ("finetuned", "lambdamart")
UNTRAINED = "semantic"
CUTOFFS = (3, 5, 10)  # values of K; the first is shown
MAX_TOKENS = 48  # of a request of at most 20 words
MOST_WORDS = 40  # of a usable one: twice what is asked for
HARDEST = 8  # wrong items that a query's negative is drawn from, as in notebook 04
DISTINCT_TEXTS = "distinct_texts"  # a measure of requests, which have no title
SAID_IN_FULL = "/explicit/"  # in the phrasing of a query that needs no item
_REFUSED = re.compile(r"^(i'm|i am) sorry\b|\bas an ai\b", re.IGNORECASE)


@dataclass(frozen=True)
class Crossed:
    """Queries in two wordings.

    Attributes:
        world: frames items, opens, queries and gold of the queries that were written again.
        asked: queries whose wording was asked for, of which the others got no usable answer.
        texts: column query and a column for each of `SIDES`, in the order of the frame queries.
        seed: of the training and the tests.
    """

    world: Mapping[str, pd.DataFrame]
    asked: int
    texts: pd.DataFrame
    seed: int


# ---------------------------------------------------------------- what is asked, and what is usable


def questions(world: World) -> pd.DataFrame:
    """What a model is asked for each query that needs an item: columns query, prompt (a conversation as JSON),
    item (the first relevant one)."""
    personas = {persona.id: persona for persona in world.personas}
    gold = {entry.query: entry for entry in world.gold}
    rows = []
    for query in world.queries:
        label, persona = gold[query.id], personas[query.persona]
        if not label.relevant or SAID_IN_FULL in label.phrasing:
            continue
        item, app = items_of(persona)[label.relevant[0]]
        moment = f"{query.time:%A %Y-%m-%d %H:%M} at this place: {query.place}"
        turns = spoken_turns(f"{APP_NAMES[app]}: {item.text}", label.kind, moment)
        rows.append((query.id, json.dumps(turns), item.id))
    return pd.DataFrame(rows, columns=["query", "prompt", "item"])


def request_in(answer: str, headline: str) -> str:
    """What a person says in an answer; empty where it is unusable: no words, too many, a refusal, or the entry
    itself.

    >>> request_in('"When is my lesson?"', "Session w/ Marco")
    'When is my lesson?'
    """
    first = next((line.strip() for line in answer.split("\n") if line.strip()), "").strip('"“”').strip()
    copied = normal_form(first) == normal_form(headline)
    if copied or not has_words(first) or len(first.split()) > MOST_WORDS or _REFUSED.search(first):
        return ""
    return first


class Written(NamedTuple):
    """`Crossed`, which answers were kept, and the model's name."""

    crossed: Crossed
    keeper: Keeper
    model: str


def written(world: World, name: str, most: int, seed: int, root: Path, own: Path, **machine) -> Written | None:
    """The queries of a world in a model's words: kept ones, or, where a model is named, written now; None where neither
    is there.

    Args:
        name: of the model; empty: only kept answers are taken.
        most: queries of training, and of evaluation, that a model is asked that was not asked before.
        root: the project's folder.
        own: a folder to keep what is written now.
        machine: cache and threads of `lib.generation.local.LocalModel`, and progress.
    """
    progress = machine.pop("progress", False)
    kept = Kept.of_model(root / FILE, MODEL, name, MAX_TOKENS)
    asked, model = questions(world), None
    there = np.array([answer is not None for answer in kept.found(asked["prompt"])], dtype=bool)
    if len(asked) and there.mean() >= ENOUGH:
        asked = asked[there]
    elif not name:
        return None
    else:
        sides = asked["query"].map(world.sides)
        asked = asked[sides.groupby(sides).cumcount() < most]
        model = Conversations(LocalModel(name, **machine), kept.weights)
    keeper = Keeper(model, kept, own / FILE.name)
    answers = keeper.generate(asked["prompt"].tolist(), progress)
    return Written(crossed(world, asked, answers, seed), keeper, name or MODEL)


def crossed(world: World, asked: pd.DataFrame, answers: Sequence[str], seed: int) -> Crossed:
    """The queries that have a usable answer, with the people who asked them.

    Args:
        asked: see `questions`.
    """
    whole = frames(world)
    title = whole["items"].set_index("item")["title"]
    said = [request_in(answer, title[item]) for answer, item in zip(answers, asked["item"], strict=True)]
    words = pd.Series(said, index=asked["query"].to_numpy())
    words = words[words != ""]
    queries = whole["queries"][whole["queries"]["query"].isin(words.index)].reset_index(drop=True)
    items = whole["items"][whole["items"]["persona"].isin(queries["persona"])].reset_index(drop=True)
    small = {
        "items": items,
        "opens": whole["opens"][whole["opens"]["item"].isin(items["item"])].reset_index(drop=True),
        "queries": queries,
        "gold": whole["gold"].set_index("query").loc[queries["query"]].reset_index(),
    }
    texts = {"query": queries["query"], SIMULATOR: queries["text"], WRITER: words[queries["query"]].to_numpy()}
    return Crossed(small, len(asked), pd.DataFrame(texts), seed)


def requests_diversity(data: Crossed) -> pd.DataFrame:
    """How varied the requests are in each wording: as many texts, and as many n-grams, on either side.

    Returns:
        columns side (of `SIDES`), measure (distinct_texts, distinct_1, distinct_2: different ones in percent; words a
        text), value, draws_low, draws_high (as `matched_diversity` returns them), n (texts), personas (who ask).
    """
    ours, theirs = (pd.DataFrame({"title": data.texts[side], "text": data.texts[side], "of": 0}) for side in SIDES)
    table = matched_diversity(ours, theirs, ["of"], DRAWS, data.seed)
    names = {"side": dict(zip(("ours", "theirs"), SIDES, strict=True)), "measure": {"distinct_titles": DISTINCT_TEXTS}}
    return table.replace(names).assign(personas=data.world["queries"]["persona"].nunique())


# ---------------------------------------------------------------- trained on either, tested on both


def method_name(method: str, learned: str, asked: str) -> str:
    """What the ranking of queries in one wording by what learned from another is called."""
    return f"{method}/{learned}/{asked}"


def cross(
    data: Crossed, encoder: str, folder: Path, cutoffs: Sequence[int], threads: int, progress: bool = False
) -> dict[str, pd.DataFrame]:
    """Rankings of the evaluation queries, under `method_name`; of semantic search, which learns nothing, under
    `semantic//<wording>`.

    Args:
        encoder: name of the encoder to start from.
        folder: for the fine-tuned encoders.
        cutoffs: values of K.
        threads: of LightGBM.
        progress: show progress bars.
    """
    plain = load_encoder(locate(encoder))
    items = encode(plain, data.world["items"]["text"].tolist(), progress=progress)
    tasks, runs, learned = {}, {}, {}
    for side in SIDES:
        queries = data.world["queries"].assign(text=data.texts[side].to_numpy())
        vectors = {"queries": encode(plain, queries["text"].tolist(), progress=progress), "items": items}
        task = RankingTask.of_world(
            {**data.world, "queries": queries}, vectors, Learning(cutoffs, data.seed, 2, threads)
        )
        tasks[side], learned[side] = task, task.learn()
        runs[f"{UNTRAINED}//{side}"] = task.rank_by(task.text[UNTRAINED])
    for side, task in tasks.items():
        tuned = _finetuned(task, encoder, folder / f"crossed_{side}", data.seed, progress)
        embedded = encode(tuned, data.world["items"]["text"].tolist(), progress=progress)
        for asked, other in tasks.items():
            runs[method_name("lambdamart", side, asked)] = other.rank(learned[side])
            cosines = cosine_of_pairs(other.pairs, encode(tuned, other.queries["text"].tolist()), embedded)
            runs[method_name("finetuned", side, asked)] = other.rank_by(cosines)
    return runs


def _finetuned(task: RankingTask, encoder: str, output: Path, seed: int, progress: bool):
    """An encoder fine-tuned on the training queries, as notebook 04's."""
    pairs = task.pairs[task.training].reset_index(drop=True)
    negatives = hardest_negatives(pairs, task.text[UNTRAINED][task.training], task.qrels, HARDEST)
    training = task.queries[task.queries["split"] == "training"]
    rows = training_rows(training, task.items, task.qrels, negatives, 1, seed)
    return finetune_encoder(locate(encoder), rows, output, Finetuning(2e-4, 32, seed=seed), progress=progress)[0]


SAME, OTHER, NOTHING = "same", "other", "nothing"  # whose words were learned from, seen from those asked in
WEIGHED = ((SAME, OTHER), (OTHER, NOTHING))  # what is tested: the first minus the second


class Transfer(NamedTuple):
    """What the rankings are worth.

    Attributes:
        values: columns method, learned (whose words; empty: nothing), asked, value (Recall at the first K, percent),
            ci_low, ci_high, n.
        tests: of `WEIGHED` in each wording: columns method, asked, learned, against, of
            `lib.evaluation.comparison.compare`, settled; Holm over all. Nothing learned is semantic search.
    """

    values: pd.DataFrame
    tests: pd.DataFrame

    def test(self, method: str, asked: str, learned: str) -> pd.Series:
        """One row of the tests."""
        return self.tests.set_index(["method", "asked", "learned"]).loc[(method, asked, learned)]


def transfer(data: Crossed, runs: Mapping[str, pd.DataFrame], k: int, samples: int) -> Transfer:
    """Recall at k of each ranking, over the same queries, and what learning from either generator's words adds."""
    evaluation = data.world["queries"].query("split == 'evaluation'")
    gold = data.world["gold"].set_index("query")
    qrels = gold["relevant"].explode().dropna().rename("item").reset_index()
    scores = per_query_scores(runs, qrels, evaluation["query"].tolist(), [k])
    clusters = [evaluation["persona"].to_numpy(), gold["need"].loc[evaluation["query"]].to_numpy()]
    resampling = Resampling(clusters, samples, data.seed)
    table = summarise(scores, {("all", "all"): np.ones(len(scores), dtype=bool)}, resampling)
    table = table[table["metric"] == "recall"].reset_index(drop=True)
    parts = table["method"].str.split("/", expand=True).set_axis(["name", "learned", "asked"], axis=1)
    values = table[["value", "ci_low", "ci_high", "n"]].join(parts).rename(columns={"name": "method"})
    other = {SIMULATOR: WRITER, WRITER: SIMULATOR}

    def run(method: str, asked: str, learned: str) -> str:
        if learned == NOTHING:
            return f"{UNTRAINED}//{asked}"
        return method_name(method, asked if learned == SAME else other[asked], asked)

    family = [(method, asked, *pair) for method in METHODS for asked in SIDES for pair in WEIGHED]
    pairs = [(run(method, asked, a), run(method, asked, b)) for method, asked, a, b in family]
    tests = compare(scores, pairs, "recall", k, resampling)
    tests[["method", "asked", "learned", "against"]] = family
    tests = tests.assign(settled=settled(tests))
    return Transfer(values[["method", "learned", "asked", "value", "ci_low", "ci_high", "n"]], tests)
