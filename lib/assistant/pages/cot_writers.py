"""What notebook 03_cot_augmentation shows of those who write chains of thought (CoT): what they learned from, what they
write, which apps they name, what it costs.

`texts` are everywhere the CoTs of each writer, in the order of the sample of queries; `names` the writers' names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from lib.assistant.cot import named_apps, naming_scores, only_the_cue, repeats_itself
from lib.assistant.pages.common import where_trained
from lib.assistant.prompts import CUE
from lib.generation.local import Usage
from lib.workbook.display import Drawing, Table
from lib.workbook.markup import plain
from lib.workbook.methods import colour
from lib.workbook.trained import Adapter

TRAINING_OF = {"cot": "zero-shot", "cot_distilled": "distilled"}
FEWEST = 10  # a mean over fewer CoTs is not shown


def names_of(other_types: str) -> dict[str, str]:
    """The writers' names, by what they learned.

    Args:
        other_types: name of the list of context types that the prompt of `cot_other_types` has.
    """
    return TRAINING_OF | {"cot_other_types": f"zero-shot, types: {other_types}"}


def who_writes(evaluation: pd.DataFrame, sample: pd.DataFrame, learned: pd.DataFrame, written_for: pd.DataFrame) -> str:
    """How many queries get a CoT, and how many the distilled writer learns from.

    Args:
        evaluation: all evaluation queries.
        sample, learned, written_for: columns persona, phrasing; the evaluation queries that get a CoT, the training
            queries that teach, and those that get one.
    """
    known, known_in_sample = (part["phrasing"].isin(learned["phrasing"]).mean() for part in (written_for, sample))
    n, some = len(evaluation), len(sample)
    asked = f"All {n:,} evaluation queries" if some == n else f"{some:,} of the {n:,} evaluation queries"
    return (
        f"{asked} get a CoT from each writer; {len(learned):,} "
        f"training queries of {learned['persona'].nunique()} personas teach the distilled writer; {len(written_for):,} "
        f"queries of {written_for['persona'].nunique()} other training personas get a CoT for notebook 04, "
        f"{known:.0%} of them in a phrasing that the writer learned from; of the evaluation queries "
        f"{known_in_sample:.0%}."
    )


def quoted_prompt(prompt: str) -> str:
    """A prompt as a quotation, each line as it is."""
    return "The prompt for the first query:\n\n" + "\n".join(f"> {plain(line)}" for line in prompt.splitlines())


def what_it_learned(learner: str, n: int, trained: Adapter | None) -> str:
    """How much the distilled writer was trained, and where.

    Args:
        learner: name of the model.
        n: number of pairs.
        trained: the writer, its curve with columns step, tokens, target_tokens; None where nothing was trained.
    """
    if trained is None:
        return (
            "No training query has an expert's CoT, so there is nothing to learn from: this page has no distilled "
            "writer, and the zero-shot one writes for the training queries."
        )
    return (
        f"{plain(learner)} learned from {n:,} pairs in {trained.curve['step'].iloc[-1]} steps: {trained.tokens:,} "
        f"tokens, {trained.curve['target_tokens'].sum():,} of them counted in the loss. {where_trained(trained)}"
    )


def loss_drawing(curve: pd.DataFrame, n: int) -> Drawing:
    """The distilled writer's training loss against tokens.

    Args:
        curve: columns step, tokens, loss, seconds; one row a step, or where shipped one for several.
        n: number of pairs.
    """
    smooth = curve["loss"].rolling(max(1, len(curve) // 12), min_periods=1, center=True).mean()
    first, last = smooth.iloc[0], smooth.iloc[-1]
    figure, axis = plt.subplots(figsize=(8, 3.2))
    axis.plot(curve["tokens"].cumsum(), curve["loss"], color=colour("cot_distilled"), alpha=0.35, linewidth=1)
    axis.plot(curve["tokens"].cumsum(), smooth, color=colour("cot_distilled"), linewidth=2)
    axis.set(xlabel="tokens trained on", ylabel="loss, nats a target token", xlim=(0, None), ylim=(0, None))
    finding = f"The loss goes from {first:.1f} to {last:.1f} nats a token over {n:,} pairs"
    each = -(-curve["step"].iloc[-1] // len(curve))
    thin = "each step" if each == 1 else f"means of {each} steps"
    alt = f"Training loss against tokens; thin: {thin}, thick: running mean, from {first:.2f} to {last:.2f}."
    return Drawing(figure, "cot_distilled_loss", finding, alt, curve.drop(columns="seconds"))


def cot_frame(
    sample: pd.DataFrame, texts: Mapping[str, Sequence[str]], written_for: pd.DataFrame, for_training: Sequence[str]
) -> pd.DataFrame:
    """All CoTs as later notebooks read them: columns query, split, writer, text.

    Args:
        texts: of the writers alone; the last of them wrote for the training queries.
        written_for, for_training: training queries and their CoTs; may be empty.
    """
    parts = [
        pd.DataFrame({"query": sample["query"].to_numpy(), "split": "evaluation", "writer": name, "text": written})
        for name, written in texts.items()
    ]
    if len(written_for):
        training = {"query": written_for["query"].to_numpy(), "split": "training", "writer": [*texts][-1]}
        parts.append(pd.DataFrame(training | {"text": for_training}))
    return pd.concat(parts, ignore_index=True)


def usage_frame(usage: Mapping[tuple[str, str], Usage], writers: Sequence[str]) -> pd.DataFrame:
    """What the writers' CoTs took: columns writer, split, prompts, tokens_in, tokens_out, seconds.

    Args:
        usage: of each (split, writer), others too.
    """
    rows = [
        (name, split, used.prompts, used.tokens_in, used.tokens_out, used.seconds)
        for (split, name), used in usage.items()
        if name in writers
    ]
    return pd.DataFrame(rows, columns=["writer", "split", "prompts", "tokens_in", "tokens_out", "seconds"])


def examples_table(
    sample: pd.DataFrame, texts: Mapping[str, Sequence[str]], names: Mapping[str, str], authors: str, seed: int
) -> Table:
    """What each writer writes for one query of each kind, drawn at random, beside the expert's CoT.

    Args:
        sample: columns kind, text, cot (the expert's).
        texts: of the writers that are shown.
        authors: names of the models.
    """
    written = {names[name]: cots for name, cots in texts.items()}
    drawn = sample.assign(**written).groupby("kind", observed=True).sample(1, random_state=seed)
    return Table(
        drawn[["kind", "text", *written, "cot"]].rename(columns={"text": "query", "cot": "expert"}),
        f"CoTs by {authors} and the expert's.",
        text_columns=["query", "expert", *written],
    )


def naming_of(
    texts: Mapping[str, Sequence[str]], relevant_apps: pd.Series, commonest: Sequence[str]
) -> dict[str, pd.DataFrame]:
    """`naming_scores` of each writer's CoTs.

    Args:
        relevant_apps: a list a query, the app of each of its relevant items.
        commonest: all apps, the commonest first.
    """
    holding = relevant_apps.reset_index(drop=True)
    return {
        name: naming_scores(pd.Series(written).map(named_apps), holding, commonest) for name, written in texts.items()
    }


def naming_table(
    naming: Mapping[str, pd.DataFrame], texts: Mapping[str, Sequence[str]], names: Mapping[str, str]
) -> Table:
    """Which share of the named apps hold a relevant item, and of the relevant items are in a named app.

    Args:
        naming: from `naming_of`.
    """
    rows = []
    for name, scores in naming.items():
        means, naming_one = scores.mean(), int((scores["named"] > 0).sum())
        if naming_one < FEWEST:
            means[means.index.str.contains("precision")] = np.nan
        rows.append(
            {
                "writer": names.get(name, name),
                f"only the word {CUE}, %": 100 * np.mean([only_the_cue(text) for text in texts[name]]),
                "CoTs that name an app": naming_one,
                "apps named": means["named"],
                "precision, %": means["precision"],
                "at random": means["random_precision"],
                "commonest": means["commonest_precision"],
                "coverage, %": means["coverage"],
                "at random ": means["random_coverage"],
                "commonest ": means["commonest_coverage"],
            }
        )
    n = len(next(iter(naming.values())))
    return Table(
        pd.DataFrame(rows),
        f"Apps that CoTs name and whether they hold relevant items; n = {n} queries; “commonest” as counted on "
        "training queries. Precision is over the CoTs that name an app, and “–” where they are fewer than ten.",
        decimals=1,
    )


def quality_table(texts: Mapping[str, Sequence[str]], names: Mapping[str, str]) -> Table:
    """How many CoTs differ, are empty or repeat themselves, and how long they are."""
    rows = [
        {
            "writer": names.get(name, name),
            "different texts": len(set(written)),
            "empty, %": 100 * np.mean([not text for text in written]),
            "repeats itself, %": 100 * np.mean([repeats_itself(text) for text in written]),
            "words": np.mean([len(text.split()) for text in written]),
        }
        for name, written in texts.items()
    ]
    n = len(next(iter(texts.values())))
    return Table(
        pd.DataFrame(rows),
        f"How many of the {n} CoTs differ, are empty or repeat themselves, and how many words they have on average.",
        decimals=1,
    )


def what_they_name(
    naming: Mapping[str, pd.DataFrame], texts: Mapping[str, Sequence[str]], writers: Sequence[str]
) -> str:
    """How often each writer names an app, and what the named apps hold.

    Args:
        naming: from `naming_of`.
    """
    sentences = []
    for name in writers:
        means, named = naming[name].mean(), (naming[name]["named"] > 0).mean()
        idle = sum(only_the_cue(text) for text in texts[name])
        said = f"The {TRAINING_OF[name]} writer names an app in {_share(named)} of its CoTs"
        if idle:
            said += f", and {idle} of {len(texts[name])} say nothing but “{CUE}”"
        if named:
            said += (
                f"; the named apps hold {_share(means['coverage'] / 100)} of all relevant items (as many at random: "
                f"{_share(means['random_coverage'] / 100)}, the commonest: {_share(means['commonest_coverage'] / 100)})"
            )
        sentences.append(f"{said}.")
    return " ".join(sentences)


def _share(part: float) -> str:
    """A share in percent, with a decimal where it would round to nothing."""
    return f"{100 * part:.{1 if 0 < part < 0.01 else 0}f}%"


def cost_table(usage: Mapping[tuple[str, str], Usage], names: Mapping[str, str], queries: Mapping[str, int]) -> Table:
    """Tokens and seconds of a CoT, and minutes for all queries.

    Args:
        usage: of each (split, writer).
        queries: number of queries of each split.
    """
    rows = [
        {
            "writer": names[name],
            "queries of": split,
            "queries": used.prompts,
            "tokens in": used.tokens_in / max(1, used.prompts),
            "tokens out": used.tokens_out / max(1, used.prompts),
            "seconds": seconds_of_one(used),
        }
        for (split, name), used in usage.items()
    ]
    cost = pd.DataFrame(rows)
    for split, n in queries.items():
        cost[f"minutes for all {n:,} {split} queries"] = cost["seconds"] * n / 60
    return Table(cost, "Per query, and extrapolated.", decimals=2)


def seconds_of_one(used: Usage) -> float:
    """Seconds a query; 0 where nothing was asked."""
    return used.seconds / max(1, used.prompts)


def cost_in_words(usage: Mapping[tuple[str, str], Usage], curve: pd.DataFrame | None, remote: bool) -> str:
    """Seconds of a CoT, and of the training that the distilled writer needs.

    Args:
        usage: of each (split, writer).
        curve: columns tokens, seconds, one row a step of training; None where nothing was trained.
        remote: whether the zero-shot writer lies behind an endpoint.
    """
    pace = "of waiting for the endpoint" if remote else "in large batches"
    said = f"A CoT of the zero-shot writer takes {seconds_of_one(usage['evaluation', 'cot']):.2f} s a query {pace}"
    if curve is not None:
        said += (
            f", one of the distilled writer {seconds_of_one(usage['evaluation', 'cot_distilled']):.2f} s after "
            f"{curve['seconds'].sum():.0f} s of training on {curve['tokens'].sum():,} tokens"
        )
    return f"{said}. Notebook 05 measures one query at a time, beside all other methods."
