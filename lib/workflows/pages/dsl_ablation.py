"""Notebook 09: what its conditions are called, and what an answer costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pandas as pd

from lib.workbook.display import Table
from lib.workbook.methods import label
from lib.workflows.ablation import CONDITION, Condition, compare_conditions, compare_pairs, on_shared_flows, title
from lib.workflows.ablation_grid import UNSEEN, UNSEEN_FINETUNED, UNSEEN_HELD, Asked

if TYPE_CHECKING:
    from lib.workbook.parts import Adapter

COPIES = {"copy_pretrained": "pretrained", "copy_tst": "tst", "copy_tst_affine": "tst_affine"}
COPY, COPY_TST = "copy_pretrained", "copy_tst"
FINETUNED = "no_shots_finetuned"
HELD = "no_shots_finetuned_catalogue"  # the fine-tuned model under the catalogue's grammar
BESIDE = ("instruct",)  # generators whose rows stand beside those of the one that stands for GPT-4


@dataclass(frozen=True)
class Writers:
    """The models that write flows.

    Attributes:
        reader: the generator that stands for the paper's GPT-4.
        models: {generator: its model's name}.
        pairs: that the fine-tuned model learned from.
    """

    reader: str
    models: Mapping[str, str]
    pairs: int

    def of(self, generator: str) -> str:
        """What stands in the column generator of the report's tables."""
        tuned = {"finetuned": ", fine-tuned", "in_context": ", in-context"}
        return self.models[generator] + tuned.get(generator, "")


@dataclass(frozen=True)
class Study:
    """The scored answers of all conditions, and what each is called.

    Attributes:
        scores: what `lib.workflows.ablation.score` returned, with columns condition, test_set and half.
        titles: each condition's name for readers.
        rows: `CONDITION` of each, indexed by name.
        writers: the models.
        samples, seed: of the bootstrap and the tests.
    """

    scores: pd.DataFrame
    titles: Mapping[str, str]
    rows: pd.DataFrame
    writers: Writers
    samples: int
    seed: int

    def name(
        self, selector: str, shots: int, definitions: str = "none", decoding: str = "free", generator: str = ""
    ) -> str:
        """A condition's name; the generator that stands for GPT-4 unless another one is given."""
        row = [selector, shots, definitions, generator or self.writers.reader, decoding, 1]
        return Condition.model_validate(row).name

    def present(self, names: Iterable[str]) -> list[str]:
        """Those of the conditions that were asked."""
        asked = set(self.scores["condition"])
        return [name for name in names if name in asked]

    def sets(self) -> list[str]:
        """The test sets."""
        return [name for name in self.scores["test_set"].unique() if name != UNSEEN]

    def on_shared(self, conditions: Sequence[str]) -> Study:
        """The study of these conditions alone, on the flows that all of them have."""
        return replace(self, scores=on_shared_flows(self.scores, conditions))

    def compare(self, conditions: Sequence[str], baseline: str) -> pd.DataFrame:
        return compare_conditions(self.scores, conditions, baseline, self.samples, self.seed)

    def compare_pairs(self, pairs: Sequence[tuple[str, str]]) -> pd.DataFrame:
        return compare_pairs(self.scores, pairs, self.samples, self.seed)


def study(scores: pd.DataFrame, asked: Sequence[Asked], writers: Writers, samples: int, seed: int) -> Study:
    return Study(scores, titles(asked, writers), described(asked, writers), writers, samples, seed)


def titles(asked: Sequence[Asked], writers: Writers) -> dict[str, str]:
    """Each condition's name for readers."""
    named = {one.name: title(one.condition, writers.reader) for one in asked if one.added is None}
    named |= {name: f"nearest few-shot copied, {label(selector)}" for name, selector in COPIES.items()}
    named |= {one.name: title_of_unseen(one.added, one.condition.definitions) for one in asked if one.added is not None}
    named[UNSEEN_FINETUNED] = "fine-tuned model, no few-shots"
    named[UNSEEN_HELD] = f"{named[UNSEEN_FINETUNED]}, under the grammar and the catalogue"
    return named


def title_of_unseen(added: int, definitions: str) -> str:
    """A condition on APIs held out of training, for readers; arguments as for `unseen_name`."""
    said = {"none": "no definitions", "gold": "gold definitions"}.get(definitions) or label(definitions)
    return f"{examples(added)}, {said}"


def examples(added: int) -> str:
    """How many examples of APIs held out of training are added, for readers."""
    return f"{added} example{'s' if added > 1 else ''} of each added" if added else "no examples of the new APIs"


def described(asked: Sequence[Asked], writers: Writers) -> pd.DataFrame:
    """`CONDITION` of each condition, as `contract` takes it. Without few-shots there is no selector: `none`."""
    rows = {}
    for name, row, _, _ in asked:
        pairs = writers.pairs * (row.generator == "finetuned")
        selector = row.selector if row.shots and name not in (UNSEEN_FINETUNED, UNSEEN_HELD) else "none"
        rows[name] = [selector, row.shots, row.definitions, writers.of(row.generator), row.decoding, pairs]
    rows |= {name: [selector, 1, "none", "copy", "free", 0] for name, selector in COPIES.items()}
    return pd.DataFrame.from_dict(rows, orient="index", columns=CONDITION)


LONGER = "†"  # after the title of a condition whose prompts are mostly longer than any that the model learned from


def longer_than_learned(study: Study, models: Iterable[str], longest: int) -> pd.Series:
    """Which conditions a model answers mostly from prompts longer than any that it learned from.

    Args:
        models: their names in the scores' column model.
        longest: tokens of the longest prompt that they learned from, or a bound of it.

    Returns:
        {condition: the mean tokens of its prompts}.
    """
    rows = study.scores[study.scores["model"].isin(list(models)) & study.scores["condition"].isin(study.titles)]
    rows = rows.assign(longer=rows["tokens_in"] > longest)
    means = rows.groupby("condition", sort=False)[["longer", "tokens_in"]].mean()
    return means.loc[means["longer"] > 0.5, "tokens_in"]


def marked(study: Study, longer: Iterable[str]) -> Study:
    """The study with `LONGER` after the titles of these conditions, in every table and figure."""
    names = set(longer)
    titles = {name: f"{said} {LONGER}" if name in names else said for name, said in study.titles.items()}
    return replace(study, titles=titles)


def mean_tokens(readers: Mapping[str, Adapter]) -> dict[str, float]:
    """{in_context: tokens that one of its models learned from, their mean}; empty where there is none."""
    tokens = [made.tokens for made in readers.values()]
    return {"in_context": sum(tokens) / len(tokens)} if tokens else {}


def models_table(writers: Writers, readers: Mapping[str, Adapter], tuned: Adapter) -> Table:
    """The trained models, what they learned from and where."""
    rows = [
        (
            name,
            writers.models["finetuned"],
            made.rows,
            made.tokens,
            made.seconds,
            made.device,
            "yes" if made.shipped else "no",
        )
        for name, made in {"fine-tuned model": tuned, **readers}.items()
    ]
    columns = ["model", "base", "prompts", "tokens", "seconds", "trained on", "shipped"]
    frame = pd.DataFrame(rows, columns=columns)
    return Table(frame, "The trained models and what they learned from.", decimals=0)


def cost_table(study: Study, cost: pd.DataFrame) -> Table:
    """The conditions on test flows with the cost of an answer; `cost` of `lib.workflows.ablation.cost_of`."""
    of_test = cost[~cost.index.str.startswith("unseen")]
    frame = pd.DataFrame(
        {
            "condition": of_test.index.map(study.titles),
            "answers": of_test["n"],
            "prompt, tokens": of_test["tokens_in"],
            "answer, tokens": of_test["tokens_out"],
            "seconds an answer": of_test["seconds"].round(1).astype(str),
            "few-shots dropped": of_test["dropped"].astype(int),
            "cut": of_test["cut"],
        }
    )
    caption = "What an answer costs: means over all test sets. Cut: at the token limit, or repeating itself."
    return Table(frame.reset_index(drop=True), caption, decimals=0, text_columns=["condition"])
