"""The distilled writer of chains of thought (CoT), trained once more, and search with what it writes: without each fold
of needs, and with other seeds, as text search is (`lib.assistant.retrained`).

With a CoT, search is new to a need where neither the writer nor the encoder met it. So without a fold, a writer that
learned from no query of the fold's needs writes for the fold's evaluation queries, and for the training queries of
other personas than its own that are about other needs; from the latter, with their CoTs, an encoder is fine-tuned. The
first fold are the held-out needs, which the writer of notebook 03 and the encoder of notebook 04 do not meet anyway.

Six writers take two cores an hour with what they write, so the rankings are kept with those of text search.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

import pandas as pd

from lib.assistant import cot, trained_parts
from lib.assistant.prompts import distilled_cot_prompt
from lib.assistant.retrained import COLUMNS, NO_RANKINGS, WITHOUT, Retraining, Variant, finetuned_on, kept_under
from lib.assistant.unseen_needs import WITH_CHAINS
from lib.generation.finetune import Training, adapter_for, pairs_hash
from lib.generation.local import LocalModel, fingerprint
from lib.generation.models import locate
from lib.retrieval.dense import load_encoder, search
from lib.workbook.parameters.cot_augmentation import CoTAugmentation
from lib.workbook.parameters.finetuned_search import FinetunedSearch

METHODS = DISTILLED, FINETUNED_COT = WITH_CHAINS


@dataclass(frozen=True)
class Rewriting:
    """What writers learn from once more, and for whom they write.

    Attributes:
        retraining: evaluation queries and items, what encoders learn, folds and seeds.
        training: training queries, columns query, persona, need, kind, text, cot.
        parameters: of notebook 03.
        shipped: whether the writer that comes with the project fits this world; the sizes are its own then.
    """

    retraining: Retraining
    training: pd.DataFrame
    parameters: CoTAugmentation
    shipped: bool

    @classmethod
    def of_world(
        cls,
        retraining: Retraining,
        queries: pd.DataFrame,
        gold: pd.DataFrame,
        parameters: CoTAugmentation,
        root: Path,
    ) -> Rewriting:
        """From the frames of notebook 01.

        Args:
            root: the project's folder.
        """
        training = queries.merge(gold.drop(columns="split"), on="query").query("split == 'training'")
        taught = trained_parts.taught_queries(parameters, training, retraining.lesson.held_out, root)
        return cls(retraining, training, parameters, taught.shipped.folder is not None)

    @property
    def learner(self) -> str:
        """Name of the base model."""
        return self.parameters.distilled_writer or self.parameters.writer

    def dealt(self, variant: Variant) -> tuple[pd.DataFrame, pd.DataFrame]:
        """The training queries that the variant's writer learns from, and those that it writes for; neither is about a
        need that is new to its encoder."""
        needs, seed = self.retraining.fold_of, self.parameters.seed
        left_out = variant.number if variant.kind == WITHOUT else 0
        unseen = {need for need, fold in needs.items() if fold == left_out}
        if self.shipped:
            sides = trained_parts.writer_queries(self.training, unseen, self.parameters.shipped_writer_pairs, seed)
        else:
            numbers = self.parameters.distilled_pairs, self.parameters.cot_training_queries
            sides = cot.taught_and_asked(self.training, unseen, *numbers, seed)
        learned, asked = sides
        return learned, asked[~asked["need"].isin(unseen)]

    def settings(self, variant: Variant) -> Training:
        """Of the writer's training."""
        more = 0 if variant.kind == WITHOUT else variant.number
        rate, epochs = self.parameters.distilled_learning_rate, self.parameters.distilled_epochs
        return Training(learning_rate=rate, epochs=epochs, batch_size=4, seed=self.parameters.seed + more)

    @cached_property
    def key(self) -> str:
        """SHA-256 of what the rankings depend on, the last bits of embeddings aside."""
        how = [self.retraining.key, fingerprint(locate(self.learner)), self.parameters.cot_max_tokens]
        digest = hashlib.sha256(json.dumps(how).encode())
        for variant in self.retraining.variants:
            learned, asked = self.dealt(variant)
            pairs = trained_parts.writer_pairs(learned)
            source = pairs_hash(pairs["prompt"].tolist(), pairs["target"].tolist())
            digest.update(json.dumps([variant.name, source, asdict(self.settings(variant))], sort_keys=True).encode())
            digest.update(asked[["query", "text"]].to_json(orient="values").encode())
        return digest.hexdigest()

    def written(self, variant: Variant, folder: Path, progress: bool = False) -> dict[str, str]:
        """The CoTs, by query, of a writer that is trained here, for the training and the evaluation queries that it
        writes for; none where it has nothing to learn from.

        Args:
            folder: for the adapter and answers.
        """
        learned, asked = self.dealt(variant)
        if learned.empty:
            return {}
        pairs = trained_parts.writer_pairs(learned)
        texts = pairs["prompt"].tolist(), pairs["target"].tolist()
        output = folder / "runs" / f"cot_writer_{variant.name}"
        adapter = adapter_for("", self.learner, *texts, output, self.settings(variant), progress=progress)
        model = LocalModel(self.learner, adapter=adapter.folder, cache=folder / "answers")
        both = pd.concat([self.retraining.asked(variant), asked])[["query", "text"]]
        prompts = [distilled_cot_prompt(text) for text in both["text"]]
        answers = model.generate(prompts, max_new_tokens=self.parameters.cot_max_tokens, progress=progress)
        model.unload()
        return {query: " ".join(text.split()) for query, text in zip(both["query"], answers, strict=True)}

    def ranked(self, variant: Variant, cots: Mapping[str, str], output: Path, progress: bool = False) -> pd.DataFrame:
        """The rankings of both searches with a variant's CoTs, `COLUMNS`.

        Args:
            cots: by query.
            output: folder of the encoder.
        """
        again = self.retraining
        asked = with_cots(again.asked(variant), cots)
        found = {DISTILLED: search(load_encoder(locate(again.encoder)), asked, again.items, on="persona")}
        learned = with_cots(
            again.lesson.queries[again.lesson.queries["query"].isin(self.dealt(variant)[1]["query"])], cots
        )
        model = finetuned_on(again, variant, learned, output, progress)
        if model is not None:
            found[FINETUNED_COT] = search(model, asked, again.items, on="persona", progress=progress)
        return pd.concat([run.assign(variant=variant.name, method=name) for name, run in found.items()])[COLUMNS]


def with_cots(queries: pd.DataFrame, cots: Mapping[str, str]) -> pd.DataFrame:
    """Queries with their CoT appended to the text."""
    return queries.assign(text=cot.augment(queries["text"], [cots[query] for query in queries["query"]]))


def trained(rewriting: Rewriting, folder: Path, progress: bool = False) -> pd.DataFrame:
    """The rankings, `COLUMNS`, of all variants, by writers and encoders that are trained here.

    Args:
        folder: of the profile's data.
        progress: show progress bars.
    """
    runs = []
    for variant in rewriting.retraining.variants:
        if cots := rewriting.written(variant, folder, progress):
            output = folder / "encoders" / f"{FINETUNED_COT}_{variant.name}"
            runs.append(rewriting.ranked(variant, cots, output, progress))
    return pd.concat(runs, ignore_index=True) if runs else NO_RANKINGS


def rankings(
    rewriting: Rewriting, most: int, parameters: FinetunedSearch, folder: Path, root: Path, progress: bool
) -> tuple[pd.DataFrame, bool]:
    """The kept rankings where the shipped writer fits and they do, else `trained` where the profile trains them; else
    none. And whether they were kept.

    Args:
        most: items of a ranking that are wanted.
        parameters: of notebook 04.
        folder, progress: see `trained`.
        root: the project's folder.
    """
    found = kept_under(rewriting.key, most, root) if rewriting.shipped else None
    if found is not None:
        return found, True
    return trained(rewriting, folder, progress) if parameters.retrain_writers else NO_RANKINGS, False


def on_first_fold(runs: Mapping[str, pd.DataFrame], queries: pd.Series) -> dict[str, pd.DataFrame]:
    """{`<method>_unseen_needs`: the rankings of the queries about held-out needs, which neither the writer nor the
    encoder met}, as `lib.assistant.retrained.never_told` takes them.

    Args:
        runs: rankings by method.
        queries: about held-out needs.
    """
    return {f"{name}_unseen_needs": runs[name][runs[name]["query"].isin(queries)] for name in METHODS if name in runs}
