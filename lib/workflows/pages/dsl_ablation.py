"""Notebook 09: what its conditions are called, the answer in short, and what an answer costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pandas as pd

from lib.evaluation.rates import rates_with_intervals
from lib.workbook.display import Table, interval
from lib.workbook.markup import plain
from lib.workbook.methods import label
from lib.workbook.parameters.base import is_remote
from lib.workbook.parameters.dsl_ablation import Condition
from lib.workflows.ablation import (
    CONDITION,
    GENERATED,
    compare_conditions,
    compare_pairs,
    on_shared_flows,
    title,
    with_executed,
)
from lib.workflows.ablation_grid import UNSEEN, UNSEEN_FINETUNED, UNSEEN_HELD, Asked, Way
from lib.workflows.pages.common import TEST_SETS, change, settled_deltas

if TYPE_CHECKING:
    from lib.workbook.trained import Adapter

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

    def named(self, generator: str) -> str:
        """A generator in a sentence."""
        what = "in-context model, catalogue unseen" if generator == "in_context" else GENERATED[generator]
        return f"the {what} ({self.models[generator]})"

    @property
    def names(self) -> str:
        return f"{self.named(self.reader)} and {self.named('finetuned')}"


@dataclass(frozen=True)
class Study:
    """The scored answers of all conditions, and what is said about each.

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
        """`compare_conditions`, with `executed` as one more metric, which has no difference."""
        return self.with_executed(compare_conditions(self.scores, conditions, baseline, self.samples, self.seed))

    def with_executed(self, compared: pd.DataFrame) -> pd.DataFrame:
        return with_executed(compared, self.scores, self.samples, self.seed)

    def compare_pairs(self, pairs: Sequence[tuple[str, str]]) -> pd.DataFrame:
        return compare_pairs(self.scores, pairs, self.samples, self.seed)


def study(scores: pd.DataFrame, asked: Sequence[Asked], writers: Writers, samples: int, seed: int) -> Study:
    return Study(scores, titles(asked, writers), described(asked, writers), writers, samples, seed)


def titles(asked: Sequence[Asked], writers: Writers) -> dict[str, str]:
    """Each condition's name for readers."""
    named = {one.name: title(one.condition, writers.reader) for one in asked if one.way is None}
    named |= {name: f"nearest few-shot copied, {label(selector)}" for name, selector in COPIES.items()}
    named |= {one.name: unseen_title(one) for one in asked if one.way is not None}
    named[UNSEEN_FINETUNED] = "fine-tuned model, no few-shots"
    named[UNSEEN_HELD] = f"{named[UNSEEN_FINETUNED]}, under the grammar and the catalogue"
    return named


def unseen_title(asked: Asked) -> str:
    assert asked.way is not None  # those of test flows have another title
    return title_of_unseen(asked.way, asked.condition.definitions, asked.condition.decoding)


def title_of_unseen(way: Way, definitions: str, decoding: str) -> str:
    """A condition on APIs held out of training, for readers; arguments as for `unseen_name`."""
    said = {"none": "no definitions", "gold": "gold definitions"}.get(definitions) or label(definitions)
    grounded = ", only the APIs shown" if decoding == "grounded" else ""
    return f"{way_title(way)}, {said}{grounded}"


def way_title(way: Way) -> str:
    """A way of adding examples of APIs held out of training, for readers."""
    if not way[0]:
        return "no examples of the new APIs"
    return f"{way[0]} example{'s' if way[0] > 1 else ''} of each added{', a slot kept' if way[1] else ''}"


def described(asked: Sequence[Asked], writers: Writers) -> pd.DataFrame:
    """`CONDITION` of each condition, as `contract` takes it. Without few-shots there is no selector: `none`."""
    rows = {}
    for name, row, _, _ in asked:
        pairs = writers.pairs * (row.generator == "finetuned")
        selector = row.selector if row.shots and name not in (UNSEEN_FINETUNED, UNSEEN_HELD) else "none"
        rows[name] = [selector, row.shots, row.definitions, writers.of(row.generator), row.decoding, pairs]
    rows |= {name: [selector, 1, "none", "copy", "free", 0] for name, selector in COPIES.items()}
    return pd.DataFrame.from_dict(rows, orient="index", columns=CONDITION)


def models_in_words(
    writers: Writers, readers: Mapping[str, Adapter], tuned: Adapter, asked: Mapping[str, pd.DataFrame]
) -> str:
    """Which models write, what they learned from and where, and how many flows the in-context model may be asked.

    Args:
        readers: the in-context models, by name; empty where no row has one.
        tuned: the fine-tuned model.
        asked: {test set: its flows}, column half.
    """
    taught = [
        f"{name} {'shipped' if made.shipped else 'trained here'} ({made.rows:,} prompts, {made.tokens:,} tokens, "
        f"{made.seconds:,.0f} s on {made.device})" + (f" {made.reason}" if made.reason else "")
        for name, made in readers.items()
    ]
    shares = [
        f"{(part['half'] != '').sum():,} of {len(part):,} ({TEST_SETS[test_set]})" for test_set, part in asked.items()
    ]
    came = "shipped" if tuned.shipped else "trained by notebook 08"
    parts = [
        f"The fine-tuned model learned from {writers.pairs:,} pairs ({tuned.tokens:,} tokens; {came}).",
        f"In-context models: {'; '.join(taught)}. Flows that lie in one half: {', '.join(shares)}." if taught else "",
    ]
    return plain(" ".join(part for part in parts if part))


LONGER = "†"  # after the title of a condition whose prompts are mostly longer than any that the model learned from


def longer_than_learned(study: Study, models: Iterable[str], longest: int) -> pd.Series:
    """Which conditions a model answers mostly from prompts longer than any that it learned from.

    Args:
        models: names of the models, in the scores' column model.
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


def longer_in_words(study: Study, longer: pd.Series, longest: int) -> str:
    """What `LONGER` means; empty where no condition has it.

    Args:
        longer, longest: of `longer_than_learned`.
    """
    if not len(longer):
        return ""
    named = "; ".join(f"{study.titles[name]} ({tokens:,.0f} tokens on average)" for name, tokens in longer.items())
    return plain(
        f"The in-context models learned from prompts of at most {longest:,} tokens. Most prompts of these rows, marked "
        f"{LONGER}, are longer: {named}. What such a row loses beside a shorter one may be what this model has not "
        "learned, and says less about few-shots or definitions than about it."
    )


def mean_tokens(readers: Mapping[str, Adapter]) -> dict[str, float]:
    """{in_context: tokens that one of its models learned from, their mean}; empty where there is none."""
    tokens = [made.tokens for made in readers.values()]
    return {"in_context": sum(tokens) / len(tokens)} if tokens else {}


def headline(study: Study) -> dict[str, str]:
    """{condition: what it is called} of what is compared most often, those that were asked."""
    said = {
        COPY: "copying the pretrained encoder's nearest flow",
        COPY_TST: "copying TST's nearest flow",
        study.name("pretrained", 5): "five few-shots",
        study.name("tst", 5): "five few-shots by TST",
        study.name("tst", 5, "fd"): "five few-shots by TST with definitions",
        study.name("tst", 5, "fd", "catalogue"): "the same under the catalogue's grammar",
        FINETUNED: "the fine-tuned model",
        HELD: "the fine-tuned model under the catalogue's grammar",
    }
    return {name: said[name] for name in study.present(said)}


def in_short(study: Study) -> str:
    """Similarity of what is compared most often, on the flows of each test set that all of it has, and what beats
    copying on these."""
    said = headline(study)
    shared = study.on_shared(list(said))
    ahead = {}
    for copy in shared.present((COPY, COPY_TST)):
        against = shared.compare([name for name in said if name not in COPIES], copy)
        ahead[copy] = against[(against["metric"] == "similarity") & settled_deltas(against)]
    return " ".join(_levels(shared, test_set, said, ahead) for test_set in study.sets())


def opening(study: Study) -> str:
    """The page's answer on the first test set: few-shots, the fine-tuned model, and the flow of the nearest of these
    few-shots, copied."""
    said, copies = headline(study), {study.name("tst", 5): COPY_TST, study.name("pretrained", 5): COPY}
    few = study.present(copies)[:1]
    copied = study.present([copies[name] for name in few] or [COPY])
    kept = [*few, *study.present([FINETUNED]), *copied]
    shared, first = study.on_shared(kept), study.sets()[0]
    text = _levels(shared, first, {name: said[name] for name in kept}, {})
    if not (few and copied):
        return text
    added = shared.compare_pairs([(few[0], copied[0])])
    added = added[(added["metric"] == "similarity") & (added["test_set"] == first)]
    return text + "".join(
        f" What the model adds to that copy: {change(row)}, {'' if sure else 'not '}settled."
        for row, sure in zip(added.itertuples(), settled_deltas(added), strict=True)
    )


def _levels(study: Study, test_set: str, said: Mapping[str, str], ahead: Mapping[str, pd.DataFrame]) -> str:
    """Similarity of each condition of a study on shared flows, and which of them are settled to be better or worse than
    each way of copying in `ahead` ({condition: settled differences from it})."""
    scores = study.scores[study.scores["test_set"] == test_set]
    shared = scores.pivot(index="unit", columns="condition", values="similarity")
    shared = shared[[name for name in said if name in shared]]
    if shared.empty:
        return f"{TEST_SETS[test_set].capitalize()}: no flow was asked of all."
    outcomes = shared.melt(var_name="condition", value_name="numerator", ignore_index=False).reset_index()
    outcomes = outcomes.assign(metric="similarity", denominator=1)
    rates = rates_with_intervals(outcomes, [], study.samples, study.seed)
    levels = [f"{said[row.condition]} {interval(row.value, row.ci_low, row.ci_high, 2)}" for row in rates.itertuples()]
    halves = study.scores.loc[study.scores["unit"].isin(shared.index), "half"]
    which = ", each of one half of the connectors" if len(halves) and (halves != "").all() else ""
    where = f"{TEST_SETS[test_set].capitalize()}, similarity on the same {len(shared)} flows{which}"
    text = f"{where}: {'; '.join(levels)}."
    for copy, settled_rows in ahead.items():
        rows = list(settled_rows[settled_rows["test_set"] == test_set].itertuples())
        better, worse = ([said[row.condition] for row in rows if row.delta * sign > 0] for sign in (1, -1))
        text += (
            f" Settled on these to be better than {said[copy]}: {'; '.join(better) or 'none'}; worse: "
            f"{'; '.join(worse) or 'none'}."
        )
    return text


def cost_table(
    study: Study, cost: pd.DataFrame, beside: Mapping[tuple[str, int], int], device: str, max_tokens: int
) -> Table:
    """The conditions on test flows with the cost of an answer.

    Args:
        cost: of `lib.workflows.ablation.cost_of`.
        beside: how many definitions SFD shows, by (selector, shots).
        device: what answered, such as `2 cores`.
        max_tokens: of the longest answer.
    """
    of_test = cost[~cost.index.str.startswith("unseen")]
    frame = pd.DataFrame(
        {
            "condition": of_test.index.map(study.titles),
            "answers": of_test["n"],
            "prompt, tokens": of_test["tokens_in"],
            "answer, tokens": of_test["tokens_out"],
            "seconds an answer": of_test["seconds"].round(1).astype(str),
            "timed": of_test["timed"],
            "few-shots dropped": of_test["dropped"].astype(int),
            "cut": of_test["cut"],
        }
    )
    caption = cost_caption(study.writers, beside, device, max_tokens)
    return Table(frame.reset_index(drop=True), caption, decimals=0, text_columns=["condition"])


def cost_caption(writers: Writers, beside: Mapping[tuple[str, int], int], device: str, max_tokens: int) -> str:
    reader = writers.models[writers.reader]
    waited = "; of a model behind an endpoint, those of its request" if is_remote(reader) else ""
    shown = [f"{n} beside {shots} by {label(name)}" for (name, shots), n in sorted(beside.items()) if shots in (5, 20)]
    return (
        "The conditions and what an answer costs: means over all test sets. Seconds: reading the whole prompt, and "
        "writing: of a kept answer those of one asked alone, over the answers that were timed; of one written now its "
        f"share of the steps of its batch; on {device}{waited}. Cut: answers that reached "
        f"{max_tokens} tokens, or were stopped before where they only repeated themselves. "
        f"Where no model is named, {writers.named(writers.reader)} writes; the paper's models are "
        "GPT-4 and, fine-tuned, Codex. SFD shows as many definitions as FD has on average beside as many few-shots of "
        f"the same selector: {', '.join(shown)}."
    )


def timed_on(answers: pd.DataFrame, here: str) -> str:
    """What answers were timed on: those kept with the project on the machine of then.

    Args:
        answers: with a column device where some were kept.
        here: this machine.
    """
    devices = answers["device"].fillna(here) if "device" in answers else pd.Series([here])
    return " or ".join(devices.unique())


def kept_in_words(kept: pd.DataFrame, asked: int) -> str:
    """How many answers were kept with the project, where they were written, and how many were written for this report.

    Args:
        kept: of `lib.workflows.kept_flows.kept_conditions`.
        asked: answers written now.
    """
    if kept.empty:
        return "All answers were written for this report."
    written = kept[["device", "dtype"]].drop_duplicates()
    where = " and ".join(f"on {device}, in {dtype}" for device, dtype in written.itertuples(index=False, name=None))
    now = f"{asked:,} were" if asked else "none was"
    timed = int(kept["seconds"].notna().sum())
    return plain(
        f"{len(kept):,} answers were written once by the shipped models, {where}, and are kept with the project, "
        f"{timed:,} with the seconds that they took, asked one by one; {now} written for this report."
    )


def usage_in_words(
    answers: pd.DataFrame, cost: pd.DataFrame, windows: Iterable[int], estimated: str | None = None
) -> str:
    """What all answers took, and whether every prompt fits.

    Args:
        answers: columns model, prompt, grammar, tokens_in, tokens_out.
        cost: of `lib.workflows.ablation.cost_of`.
        windows: of the models, in tokens.
        estimated: what a model behind an endpoint was paid, in words; None where there is none.
    """
    asked = answers.drop_duplicates(["model", "prompt", "grammar"])
    prompts, read, written = len(asked), int(asked["tokens_in"].sum()), int(asked["tokens_out"].sum())
    window, dropped = " or ".join(dict.fromkeys(f"{tokens:,}" for tokens in windows)), int(cost["dropped"].sum())
    fits = (
        f"{dropped} few-shots did not fit into a window of {window} tokens"
        if dropped
        else f"Every prompt fits into a window of {window} tokens"
    )
    return (
        f"{prompts} distinct prompts, {read:,} tokens read (a shared beginning counted for each), {written:,} written. "
        f"{fits}." + (f" Its prompts are measured by an estimate. {estimated}" if estimated is not None else "")
    )
