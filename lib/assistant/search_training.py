"""Fine-tuned search: what each encoder learns from, which queries it is asked, and what it finds.

One encoder learns all. Others learn without a fold of topics (`lib.assistant.queries.topic_folds`) and are asked
about that fold. And a ranker that sees a fine-tuned cosine must learn how far to trust it on a new topic
(`lib.assistant.second_stage`): so encoders learn from half of the training personas without two folds each. That takes
two cores two hours, so what they find comes with the project, under the hash of all that it depends on.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from lib.assistant.chains import augment
from lib.assistant.controls import dealt_anew
from lib.assistant.queries import NEED_FOLDS, qrels_of, topic_folds
from lib.generation.models import REGISTRY, locate
from lib.retrieval.dense import load_encoder, search, weights_hash
from lib.retrieval.stores import (
    candidate_pairs,
    cosine_of_pairs,
    folds_of,
    nested_sample,
    rank_pairs,
    relevant_pairs_mask,
    seeded_order,
)
from lib.retrieval.training import Finetuning, finetune_encoder, hardest_negatives, training_rows
from lib.workbook.parts import keep_arrays, kept_arrays

HARDEST = 8  # wrong items of the persona that a query's negatives are drawn from
KEPT = Path("data/answers/search")  # folder of what comes with the project, a file an encoder
OTHERS = {"semantic_mpnet": "all-mpnet-base-v2"}  # pretrained encoders beside that of the profile, by method
AUDITED = 12  # personas whose queries an encoder that is trained again is asked


@dataclass(frozen=True)
class SearchLessons:
    """Queries, items, and what encoders can learn from."""

    learned: pd.DataFrame  # training queries, columns query, persona, text, fold (of topics; 0: held out)
    asked: pd.DataFrame  # evaluation queries, likewise
    items: pd.DataFrame  # columns item, persona, text
    qrels: pd.DataFrame  # columns query, item: of all queries, since their number is part of what is drawn
    pairs: pd.DataFrame  # columns query, item, cosine by the pretrained encoder: all candidates of training queries
    negatives: pd.DataFrame  # of training queries, from `lib.retrieval.training.hardest_negatives`
    finetuning: Finetuning
    epochs: int
    encoder: str  # name of the encoder that all start from

    @classmethod
    def of_world(
        cls,
        frames: Mapping[str, pd.DataFrame],
        vectors: Mapping[str, np.ndarray],
        finetuning: Finetuning,
        epochs: int,
        encoder: str,
    ) -> SearchLessons:
        """From the frames items, queries and gold of notebook 01 and the pretrained embeddings of items and queries."""
        queries, gold = frames["queries"], frames["gold"]
        fold = topic_folds(gold, finetuning.seed)["fold"]
        about = queries[["query", "persona", "text"]].assign(fold=queries["query"].map(fold))
        training = (queries["split"] == "training").to_numpy()
        learned, asked = (about[rows].reset_index(drop=True) for rows in (training, ~training))
        items = frames["items"][["item", "persona", "text"]]
        qrels = qrels_of(gold).dropna()
        pairs = candidate_pairs(learned, items, on="persona")
        pairs["cosine"] = cosine_of_pairs(pairs, vectors["queries"][training], vectors["items"])
        negatives = hardest_negatives(pairs, pairs["cosine"], qrels, HARDEST)
        return cls(learned, asked, items, qrels, pairs, negatives, finetuning, epochs, encoder)

    @cached_property
    def how(self) -> str:
        """SHA-256 of what all have in common: the pretrained encoder, how it is trained, items and labels."""
        digest = hashlib.sha256(weights_hash(load_encoder(locate(self.encoder))).encode())
        digest.update(json.dumps([asdict(self.finetuning), self.epochs, HARDEST], sort_keys=True).encode())
        for frame in (self.items, self.qrels):
            digest.update(frame.to_json(orient="values").encode())
        return digest.hexdigest()

    def rows(self, name: str, queries: pd.DataFrame) -> pd.DataFrame:
        """What an encoder of this name is trained on (see `lib.retrieval.training.training_rows`): some training
        queries, of `permuted` with relevant items dealt anew among the persona's."""
        qrels, negatives = self.qrels, self.negatives
        if name == "permuted":
            relevant, group = relevant_pairs_mask(self.pairs, qrels), pd.factorize(self.pairs["query"])[0]
            dealt = dealt_anew(relevant, group, np.random.default_rng(self.finetuning.seed))
            qrels = self.pairs.loc[dealt, ["query", "item"]]
            negatives = hardest_negatives(self.pairs, self.pairs["cosine"], qrels, HARDEST)
        return training_rows(queries, self.items, qrels, negatives, self.epochs, self.finetuning.seed)


Sets = dict[str, tuple[pd.DataFrame, pd.DataFrame]]  # queries that an encoder learns from, and is asked, by its name


def encoder_sets(lessons: SearchLessons, cot: pd.DataFrame, sizes: Sequence[int]) -> Sets:
    """The encoders that are asked about evaluation queries; neither set of one is empty.

    `finetuned` gets all; `half_0` those of half of the personas; `first_<size>` nested samples; `unseen_<fold>` those
    of other folds of topics than the one that it is asked about; `finetuned_cot` those of other topics than the
    held-out ones (fold 0) that have a chain, with it appended, and `finetuned_subset` the same without it; `permuted`
    those of the largest nested sample.

    Of chains of thought (`cot`, columns query, split, writer, text) those of the writer that also wrote for training
    are taken. Of `sizes`, those of nested samples, one of half of the queries or more is left out.
    """
    learned, asked, seed = lessons.learned, lessons.asked, lessons.finetuning.seed
    learned = learned[learned["query"].isin(lessons.negatives["query"])]
    sizes = [size for size in sorted(set(sizes)) if size < len(learned) / 2]
    firsts = {f"first_{size}": (nested_sample(learned, size, "persona", seed), asked) for size in sizes}
    writer = max(cot.loc[cot["split"] == "training", "writer"], default=cot["writer"].max())
    chains = cot[cot["writer"] == writer].set_index("query")["text"]
    subset = [part[part["query"].isin(chains.index)] for part in (learned[learned["fold"] != 0], asked)]
    with_chain = [part.assign(text=augment(part["text"], chains[part["query"]])) for part in subset]
    sets = {
        "finetuned": (learned, asked),
        "half_0": (learned[folds_of(learned["persona"], 2, seed) != 0], asked),
        **firsts,
        **{f"unseen_{n}": (learned[learned["fold"] != n], asked[asked["fold"] == n]) for n in range(NEED_FOLDS)},
        "finetuned_subset": tuple(subset),
        "finetuned_cot": tuple(with_chain),
        "permuted": firsts[f"first_{sizes[-1]}"] if sizes else (learned, asked),
    }
    return {name: (taught, those) for name, (taught, those) in sets.items() if len(taught) and len(those)}


def ranker_sets(lessons: SearchLessons) -> Sets:
    """The encoders behind the cosines that a ranker learns from and sees: `without_<fold>_evaluation`, like `unseen_`
    of `encoder_sets`; and `without_<fold>_<fold>_training_<side>` of half of the training personas and without two
    folds, asked about these by the other half."""
    learned, asked = lessons.learned, lessons.asked
    folds, half = sorted(set(asked["fold"])), folds_of(learned["persona"], 2, lessons.finetuning.seed)
    sets = {f"without_{n}_evaluation": (learned[learned["fold"] != n], asked[asked["fold"] == n]) for n in folds}
    for one, other in combinations(folds, 2):
        about = learned["fold"].isin((one, other))
        for side in (0, 1):
            taught, others = learned[~about & (half != side)], learned[about & (half == side)]
            sets[f"without_{one}_{other}_training_{side}"] = taught, others
    return sets


class Found(NamedTuple):
    """What an encoder finds."""

    cosines: np.ndarray  # of all candidates of the queries that it was asked
    run: pd.DataFrame  # their ranking
    rows: int  # that it was trained on
    loss: float  # mean of the last tenth of its steps, nats
    kept: bool  # whether it came with the project


def find(
    lessons: SearchLessons,
    name: str,
    queries: tuple[pd.DataFrame, pd.DataFrame],
    root: Path,
    folder: Path | None,
    progress: bool = False,
    keep: bool = False,
) -> Found | None:
    """What an encoder of `encoder_sets` or `ranker_sets` finds: what comes with the project (at `root`), else by one
    that is trained in `folder` (None: it is not, and None returned), which `keep` puts beside what comes."""
    learned, asked = queries
    digest = hashlib.sha256(json.dumps([lessons.how, name == "permuted"]).encode())
    for frame in queries:
        digest.update(frame[["query", "persona", "text"]].to_json(orient="values").encode())
    pairs, path = candidate_pairs(asked, lessons.items, on="persona"), root / KEPT / f"{name}.npz"
    if kept := kept_arrays(path, digest.hexdigest()):
        run = rank_pairs(pairs, kept["cosines"])
        return Found(kept["cosines"], run, int(kept["rows"]), float(kept["loss"]), True)
    if folder is None:
        return None
    rows = lessons.rows(name, learned)
    model, record = finetune_encoder(locate(lessons.encoder), rows, folder / name, lessons.finetuning, progress)
    losses = [loss for _, loss in record["curve"]]
    loss = float(np.mean(losses[-max(1, len(losses) // 10) :]))
    run = search(model, asked, lessons.items, on="persona", progress=progress)
    # Half of the bits will do for what a ranker learns from.
    precision = np.float16 if name.startswith("without") else np.float32
    cosines = pairs.merge(run, on=["query", "item"], how="left")["score"].to_numpy(precision)
    if keep:
        arrays = {"cosines": cosines, "rows": np.array(len(rows)), "loss": np.array(loss)}
        keep_arrays(path, arrays, digest.hexdigest())
    return Found(cosines, run, len(rows), loss, False)


def other_encoders(asked: pd.DataFrame, items: pd.DataFrame, root: Path, keep: bool = False) -> dict[str, pd.DataFrame]:
    """The rankings by `OTHERS`, by method, for queries (columns query, persona, text) and items (item, persona, text):
    those that come with the project (at `root`) for these texts. With `keep`, others are computed and put there."""
    items = items.loc[items["persona"].isin(asked["persona"]), ["item", "persona", "text"]]
    runs, pairs = {}, candidate_pairs(asked, items, on="persona")
    for method, name in OTHERS.items():
        digest = hashlib.sha256(json.dumps([dict(REGISTRY[name].files)]).encode())
        for frame in (asked[["query", "persona", "text"]], items):
            digest.update(frame.to_json(orient="values").encode())
        path, key = root / KEPT / f"{name}.npz", digest.hexdigest()
        if keep and not kept_arrays(path, key):
            run = search(load_encoder(locate(name)), asked, items, on="persona")
            found = pairs.merge(run, on=["query", "item"], how="left")["score"].to_numpy(np.float32)
            keep_arrays(path, {"cosines": found}, key)
        if kept := kept_arrays(path, key):
            runs[method] = rank_pairs(pairs, kept["cosines"])
    return runs


def audit(lessons: SearchLessons, sets: Sets, found: Mapping[str, Found], folder: Path, k: int) -> tuple[str, int, int]:
    """Train the kept encoder that learned least once more in `folder`, and ask it the queries of `AUDITED` personas:
    its name (empty where none was kept), how many of their first `k` items it finds again, and of how many."""
    kept = [name for name, each in found.items() if each.kept]
    if not kept:
        return "", 0, 0
    name = min(kept, key=lambda name: found[name].rows)
    learned, asked = sets[name]
    some = asked[asked["persona"].isin(seeded_order(asked["persona"], lessons.finetuning.seed)[:AUDITED])]
    anew = find(lessons, name, (learned, some), folder, folder)
    assert anew
    tops = [run[(run["rank"] <= k) & run["query"].isin(some["query"])] for run in (found[name].run, anew.run)]
    return name, len(tops[0].merge(tops[1], on=["query", "item"])), len(tops[0])


def cosines_by_fold(lessons: SearchLessons, found: Mapping[str, Found | None]) -> dict[str, np.ndarray]:
    """What `lib.assistant.second_stage.cross_fitted` takes, of what `finetuned` and all of `ranker_sets` found; nothing
    where an encoder is missing."""
    asked = candidate_pairs(lessons.asked, lessons.items, on="persona")["query"]
    arrays: dict[str, np.ndarray] = {}
    for name, each in found.items():
        if each is None:
            return {}
        if name == "finetuned":
            arrays["evaluation"] = each.cosines
            continue
        stem = name.removesuffix("_0").removesuffix("_1")
        query = asked if stem.endswith("evaluation") else lessons.pairs["query"]
        values = arrays.setdefault(stem, np.full(len(query), np.nan, dtype=np.float16))
        values[query.isin(each.run["query"])] = each.cosines
    return arrays
