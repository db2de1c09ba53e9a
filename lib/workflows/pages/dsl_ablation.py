"""Notebook 09: what its conditions are called, the answer in short, and what an answer costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from lib.evaluation.inference import bootstrap_interval
from lib.workbook.display import Table, interval
from lib.workbook.methods import label
from lib.workbook.parameters.base import is_remote
from lib.workflows.ablation import (
    CONDITION,
    DELTAS,
    compare_conditions,
    compare_pairs,
    title,
)
from lib.workflows.ablation_grid import UNSEEN_FINETUNED, UNSEEN_HELD, Asked, Way
from lib.workflows.pages.common import (
    intervals,
    settled_deltas,
)

COPY = "copy, pretrained"
HELD = "no_shots_finetuned_catalogue"  # the fine-tuned model under the catalogue's grammar


@dataclass(frozen=True)
class Writers:
    """The models that write flows.

    Attributes:
        untuned: writes from few-shots.
        generator: was fine-tuned.
        pairs: that it learned from.
    """

    untuned: str
    generator: str
    pairs: int

    @property
    def one(self) -> bool:
        return self.untuned == self.generator

    @property
    def names(self) -> str:
        return self.generator if self.one else f"{self.untuned} (with few-shots) and {self.generator} (fine-tuned)"

    def of(self, generator: str) -> str:
        """What stands in the column generator of the report's tables."""
        return self.untuned if generator == "untuned" else f"{self.generator}, fine-tuned"

    @property
    def also_tuned(self) -> str:
        """A caption's end that names the fine-tuned model where it is another one."""
        return "" if self.one else f"; {self.generator} was fine-tuned"


@dataclass(frozen=True)
class Study:
    """The scored answers of all conditions, and what is said about each.

    Attributes:
        scores: what `lib.workflows.ablation.score` returned, with a column condition.
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

    def present(self, names: Iterable[str]) -> list[str]:
        """Those of the conditions that were asked."""
        asked = set(self.scores["condition"])
        return [name for name in names if name in asked]

    def compare(self, conditions: Sequence[str], baseline: str) -> pd.DataFrame:
        return compare_conditions(self.scores, conditions, baseline, self.samples, self.seed)

    def compare_pairs(self, pairs: Sequence[tuple[str, str]]) -> pd.DataFrame:
        return compare_pairs(self.scores, pairs, self.samples, self.seed)


def study(scores: pd.DataFrame, asked: Sequence[Asked], writers: Writers, samples: int, seed: int) -> Study:
    copies = copied_selectors(scores["condition"].unique())
    return Study(
        scores, titles(asked, copies, writers.pairs), described(asked, copies, writers), writers, samples, seed
    )


def copied_selectors(names: Iterable[str]) -> dict[str, str]:
    """{condition of copied flows: whose nearest few-shot is copied}."""
    return {
        name: ("tst" if "TST" in name else "pretrained") + ("_learned" if " of the " in name else "")
        for name in names
        if name.startswith("copy")
    }


def titles(asked: Sequence[Asked], copies: Mapping[str, str], pairs: int) -> dict[str, str]:
    """Each condition's name for readers; copies as of `copied_selectors`, `pairs` as in `Writers`."""
    named = {one.name: title(one.condition) for one in asked if one.way is None}
    named["finetuned"] = f"fine-tuned model ({pairs:,} pairs), no few-shots"
    for name, selector in copies.items():
        whose = "TST" if "tst" in selector else "pretrained encoder"
        among = " among the learned pairs" if "learned" in selector else ""
        named[name] = f"nearest few-shot copied, {whose}{among}"
    named |= {one.name: unseen_title(one) for one in asked if one.way is not None}
    named[UNSEEN_FINETUNED] = "fine-tuned model, no few-shots"
    named[UNSEEN_HELD] = f"{named[UNSEEN_FINETUNED]}, under the grammar and the catalogue"
    return named


def unseen_title(asked: Asked) -> str:
    what = asked.condition.definitions
    said = {"none": "no definitions", "gold": "gold definitions"}.get(what) or label(what)
    grounded = ", only the APIs shown" if asked.condition.decoding == "grounded" else ""
    assert asked.way is not None  # those of test flows have another title
    return f"{way_title(asked.way)}, {said}{grounded}"


def way_title(way: Way) -> str:
    """A way of adding examples of APIs held out of training, for readers."""
    if not way[0]:
        return "no examples of the new APIs"
    return f"{way[0]} example{'s' if way[0] > 1 else ''} of each added{', a slot kept' if way[1] else ''}"


def described(asked: Sequence[Asked], copies: Mapping[str, str], writers: Writers) -> pd.DataFrame:
    """`CONDITION` of each condition, as `contract` takes it. A fine-tuned model without few-shots, other than in a row
    of the ablation, has the selector `none`."""
    tuned = writers.of("finetuned")
    rows = {"finetuned": ["none", 0, "none", tuned, "free", writers.pairs]}
    for name, row, way in asked:
        pairs = writers.pairs * (row.generator == "finetuned")
        selector = "none" if way is not None and row.generator == "finetuned" else row.selector
        rows[name] = [selector, row.shots, row.definitions, writers.of(row.generator), row.decoding, pairs]
    rows |= {name: [selector, 1, "none", "copy", "free", 0] for name, selector in copies.items()}
    return pd.DataFrame.from_dict(rows, orient="index", columns=CONDITION)


IN_SHORT = {
    COPY: "copying the nearest flow",
    "pretrained_5": "five few-shots",
    "pretrained_5_fd_first": "five few-shots with definitions before them",
    "pretrained_5_catalogue": "five few-shots under the catalogue's grammar",
    "pretrained_5_grounded": "five few-shots under the grammar of the APIs shown",
    "finetuned": "the fine-tuned model",
    HELD: "the fine-tuned model under the catalogue's grammar",
}


def in_short(study: Study) -> str:
    """Similarity of what is compared most often, on the flows that all of it has, and what beats copying."""
    scores = study.scores[study.scores["condition"].isin(IN_SHORT)]
    shared = scores.pivot(index="unit", columns="condition", values="similarity").dropna()
    shared = shared[[name for name in IN_SHORT if name in shared]]
    low, high = bootstrap_interval(shared.to_numpy(), [shared.index], study.samples, study.seed)
    ends = zip(shared, shared.mean(), low, high, strict=True)
    levels = [f"{IN_SHORT[name]} {interval(mean, start, end, 2)}" for name, mean, start, end in ends]
    against = study.compare([name for name in shared if name != COPY], COPY)
    ahead = against[(against["metric"] == "similarity") & settled_deltas(against)]
    better = [IN_SHORT[row.condition] for row in ahead.itertuples() if row.delta > 0]
    worse = [IN_SHORT[row.condition] for row in ahead.itertuples() if row.delta < 0]
    return (
        f"Similarity on the same {len(shared)} flows: {'; '.join(levels)}. Significantly better than copying (Holm "
        f"over these rows and the four metrics): {'; '.join(better) or 'none of these'}. "
        f"Worse: {'; '.join(worse) or 'none'}."
    )


AMONG_LEARNED = "the same, both under the catalogue"
OUT_OF_ALL = "few-shots out of all pairs or fine-tuning, both under the catalogue"


def fair_comparisons(study: Study) -> pd.DataFrame:
    """What is compared on equal terms: `compare_pairs` of the conditions that were asked, and why (the question)."""
    questions = {
        ("pretrained_5", COPY): "does the model add to its nearest few-shot?",
        ("tst_5", "copy, TST"): "and with TST's?",
        ("pretrained_5", "random_5"): "does it matter which few-shots?",
        (
            "pretrained_learned_5",
            f"copy of the {study.writers.pairs:,}, pretrained",
        ): "and among the learned pairs?",
        ("pretrained_learned_5", "finetuned"): "retrieval or fine-tuning, from the same pairs",
        ("pretrained_learned_5_catalogue", HELD): AMONG_LEARNED,
        ("pretrained_5_grounded", COPY): "only the APIs shown, or a copy",
        (HELD, COPY): "the fine-tuned model under the catalogue, or a copy",
        ("pretrained_5_catalogue", HELD): OUT_OF_ALL,
        ("tst_5_finetuned", "finetuned"): "few-shots out of all pairs for the fine-tuned model",
        ("tst_5_finetuned", "tst_5"): "fine-tuning, given the few-shots",
        ("pretrained_5_fd", "pretrained_5_instruction"): "definitions, given their instruction",
        ("pretrained_5_fd_first", "pretrained_5_fd"): "definitions before the few-shots instead of after them",
        ("pretrained_5_fd_first", "pretrained_5"): "definitions before the few-shots, or none",
    }
    asked = [pair for pair in questions if len(study.present(pair)) == 2]
    fair = study.compare_pairs(asked)
    return fair.assign(why=[questions[pair] for pair in zip(fair["condition"], fair["against"], strict=True)])


def retrieval_or_finetuning(fair: pd.DataFrame, learned: int, training: int) -> str:
    """The answer to the page's title, from `fair_comparisons`; numbers of pairs: learned from, and in all."""
    of_similarity = fair[fair["metric"] == "similarity"].set_index("why", drop=False)
    answers = []
    for why, whose in (
        (AMONG_LEARNED, f"the {learned:,} pairs that it learned from"),
        (OUT_OF_ALL, f"all {training:,} pairs"),
    ):
        row = of_similarity[of_similarity["why"] == why]
        if len(row):
            clear = "settled" if settled_deltas(row).item() else "not settled"
            answers.append(f"with few-shots from {whose} {intervals(row, DELTAS)[0]} ({clear})")
    return (
        "Retrieval or fine-tuning? Both under the catalogue's grammar, five few-shots differ from the fine-tuned model "
        f"in similarity by: {'; '.join(answers) or 'not tested in this profile'}."
    )


def cost_table(
    study: Study, cost: pd.DataFrame, beside: Mapping[tuple[str, int], int], threads: int, max_tokens: int
) -> Table:
    """The conditions on test flows with the cost of an answer.

    Args:
        cost: of `lib.workflows.ablation.cost_of`.
        beside: how many definitions SFD shows, by (selector, shots).
        threads: cores in use.
        max_tokens: of the longest answer.
    """
    of_test = cost[~cost.index.str.startswith("unseen")]
    frame = pd.DataFrame(
        {
            "condition": of_test.index.map(study.titles),
            "flows": of_test["n"],
            "prompt, tokens": of_test["tokens_in"],
            "answer, tokens": of_test["tokens_out"],
            "seconds an answer": of_test["seconds"].round(1).astype(str),
            "few-shots dropped": of_test["dropped"].astype(int),
            "cut": of_test["cut"],
        }
    )
    caption = cost_caption(study.writers, beside, threads, max_tokens)
    return Table(frame.reset_index(drop=True), caption, decimals=0, text_columns=["condition"])


def cost_caption(writers: Writers, beside: Mapping[tuple[str, int], int], threads: int, max_tokens: int) -> str:
    waited = "; of a model behind an endpoint, those of its request" if is_remote(writers.untuned) else ""
    size = "135 million parameters; " if "135M" in writers.generator else ""
    shown = [f"{n} beside {shots} by {label(name)}" for (name, shots), n in sorted(beside.items()) if shots in (5, 20)]
    return (
        "The conditions and what an answer costs: means. Seconds: reading the whole prompt, and the answer's share of "
        f"the steps of its batch, on {threads} cores{waited}. Cut: answers that reached {max_tokens} tokens. "
        f"{'The model is' if writers.one else 'The models are'} {writers.names} ({size}the paper's are GPT-4 and, "
        "fine-tuned, Codex). SFD shows as many definitions as FD has on average beside as many few-shots of the same "
        f"selector: {', '.join(shown)}."
    )


def usage_in_words(usages: Sequence, cost: pd.DataFrame, windows: Iterable[int], estimated: str | None = None) -> str:
    """What all answers took, and whether every prompt fits.

    Args:
        usages: `lib.generation.local.Usage` of each model.
        cost: of `lib.workflows.ablation.cost_of`.
        windows: of the models, in tokens.
        estimated: what a model behind an endpoint was paid, in words; None where there is none.
    """
    prompts, read, written = (
        sum(getattr(usage, name) for usage in usages) for name in ("prompts", "tokens_in", "tokens_out")
    )
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
