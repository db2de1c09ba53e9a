"""What notebook 04_finetuned_search shows of the training itself; see `finetuned_search` for what it brings.

`done` is everywhere {model: record of its training}, in the order trained.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import pandas as pd

from lib.assistant.pages.common import SOURCES
from lib.retrieval.finetune import Finished
from lib.workbook.display import Drawing, Table, legend_below
from lib.workbook.methods import colour, label

NAMES = {  # of the models that are no methods
    "half_0": "half of the personas, first",
    "half_1": "half of the personas, second",
    "permuted": "relevant items dealt anew (control)",
}
CONTROL = "#999999"  # the colour of what is no method
LINES = {"finetuned": "-", "finetuned_subset": "--", "finetuned_cot": "-.", "permuted": ":"}


def what_is_learned(
    training: pd.DataFrame, need: pd.Series, queries: pd.DataFrame, qrels: pd.DataFrame, epochs: int, batch_size: int
) -> str:
    """How much is trained on and evaluated, and how often a batch holds no true negative.

    Args:
        training, queries: columns query, persona, and of the latter need; to train on and to evaluate.
        need: of each training query.
        qrels: columns query, item.
    """
    said = (
        f"{len(training):,} training queries of {training['persona'].nunique()} personas have "
        f"{qrels['query'].isin(training['query']).sum():,} relevant items; each query is seen {epochs} "
        f"time{'s' if epochs > 1 else ''}. Evaluated: {len(queries)} queries of {queries['persona'].nunique()} other "
        f"personas about {queries['need'].nunique()} needs, which decide how wide intervals are more than n does."
    )
    if training.empty:
        return said + (
            " **There is no training query with both a relevant and an irrelevant item: nothing is trained, and the "
            "artifacts of this notebook hold no row.**"
        )
    same_need = (need.map(need.value_counts()).astype(float) - 1) / max(1, len(need) - 1)  # of each, with another one
    befallen = 1 - (1 - same_need) ** (batch_size - 1)
    return said + (
        f" Two training queries drawn at random ask about the same need with probability {100 * same_need.mean():.1f}%:"
        f" so often is another query's item in the batch no true negative. In a batch of {batch_size} that befalls "
        f"{100 * befallen.mean():.0f}% of the queries at least once."
    )


def negatives_table(negatives: pd.DataFrame, provenance: pd.DataFrame, number: int) -> Table:
    """What the hard negatives were made for, beside all items.

    Args:
        negatives: column item; see `lib.retrieval.finetune.hardest_negatives`.
        provenance: columns item, source.
        number: hard negatives a query.
    """
    source = provenance.set_index("item")["source"].map(SOURCES)
    shares = {
        name: 100 * part.value_counts(normalize=True)
        for name, part in (("hard negatives", negatives["item"].map(source)), ("all items", source))
    }
    return Table(
        pd.DataFrame(shares).T.rename_axis("items").reset_index(),
        f"What the {number} hardest wrong items of a query were made for, percent, beside all items.",
        decimals=1,
    )


def examples_table(
    training: pd.DataFrame, qrels: pd.DataFrame, negatives: pd.DataFrame, items: pd.DataFrame, seed: int
) -> Table:
    """Four training queries drawn at random, each with a relevant item and its hardest negative.

    Args:
        training: columns query, text.
        qrels: columns query, item.
        negatives: columns query, rank, item.
        items: columns item, text.
    """
    text_of = items.set_index("item")["text"]
    drawn = training.sample(min(4, len(training)), random_state=seed)
    relevant = qrels.drop_duplicates("query").set_index("query")["item"]
    hardest = negatives[negatives["rank"] == 1].set_index("query")["item"]
    frame = pd.DataFrame(
        {
            "query": drawn["text"],
            "a relevant item": drawn["query"].map(relevant).map(text_of),
            "the hardest negative": drawn["query"].map(hardest).map(text_of),
        }
    )
    return Table(frame, "Training queries drawn at random.", text_columns=list(frame.columns))


def full_batch_losses(record: Finished, batch_size: int) -> pd.Series:
    """Loss of each full batch. A batch's other items count as negatives, so that the loss of a last batch with fewer
    rows is lower for that reason alone."""
    return record.curve["loss"].head(max(1, record.rows // batch_size))


def models_trained(done: Mapping[str, Finished], sets: Mapping[str, pd.DataFrame], batch_size: int) -> pd.DataFrame:
    """One row a model: columns model, queries, pairs, tokens, full batches, `loss, first tenth`, `loss, last tenth`
    (nats, means over these shares of the full batches), seconds.

    Args:
        sets: {model: the queries it was trained on}.
    """
    rows = []
    for name, record in done.items():
        losses = full_batch_losses(record, batch_size)
        tenth = max(1, len(losses) // 10)
        first, last = losses.head(tenth).mean(), losses.tail(tenth).mean()
        rows.append(
            (name, len(sets[name]), record.rows, record.tokens, len(losses), first, last, record.seconds),
        )
    columns = ["model", "queries", "pairs", "tokens", "full batches", "loss, first tenth", "loss, last tenth"]
    return pd.DataFrame(rows, columns=[*columns, "seconds"])


def model_name(model: str) -> str:
    """A trained model's name for readers."""
    if model.startswith("first_"):
        return f"first {model.removeprefix('first_')} queries"
    return NAMES[model] if model in NAMES else label(model)


def models_table(models: pd.DataFrame, batch_size: int, encoder: str) -> Table:
    """What each model was trained on and how its loss fell.

    Args:
        models: from `models_trained`.
    """
    frame = models.assign(
        model=models["model"].map(model_name),
        seconds=models["seconds"].round().astype(int),
    )
    return Table(
        frame,
        "Models trained: queries, pairs (query and relevant item) and tokens seen, all epochs together; loss in nats, "
        f"mean over the first and the last tenth of the full batches of {batch_size}, which is one batch where there "
        f"are fewer than twenty; seconds of training on this machine. Encoder {encoder}.",
    )


def loss_curves(done: Mapping[str, Finished], models: Sequence[str], batch_size: int) -> pd.DataFrame:
    """Loss of the full batches of some models: columns step, loss, model, pairs (seen so far), smooth (mean of 9)."""
    parts = []
    for name in models:
        losses = full_batch_losses(done[name], batch_size)
        curve = done[name].curve.head(len(losses))
        pairs = (curve["step"] * batch_size).clip(upper=done[name].rows)
        smooth = losses.rolling(9, min_periods=1, center=True).mean()
        parts.append(curve.assign(model=name, pairs=pairs, smooth=smooth))
    return pd.concat(parts)


def loss_drawing(done: Mapping[str, Finished], models: pd.DataFrame, batch_size: int) -> Drawing:
    """Training loss of the main models and the control.

    Args:
        models: from `models_trained`.
    """
    shown = [name for name in LINES if name in done]
    curves = loss_curves(done, shown, batch_size)
    figure, axis = plt.subplots(figsize=(8, 3.6))
    ends = []
    for name in shown:
        part, control = curves[curves["model"] == name], name == "permuted"
        shade, said = (CONTROL, "control: relevant items dealt anew") if control else (colour(name), label(name))
        axis.plot(part["pairs"], part["loss"], color=shade, alpha=0.2, linewidth=0.8)
        axis.plot(part["pairs"], part["smooth"], color=shade, linestyle=LINES[name], linewidth=2, label=said)
        ends.append(f"{'control' if control else label(name)} ends at {part['smooth'].iloc[-1]:.2f}")
    axis.set(xlabel="pairs trained on; thin: each full batch, thick: mean of 9", ylabel="loss, nats")
    legend_below(axis, columns=2)
    main = models.set_index("model").loc["finetuned"]
    finding = (
        f"Training on {int(main['pairs']):,} pairs takes the loss from {main['loss, first tenth']:.2f} to "
        f"{main['loss, last tenth']:.2f}"
    )
    return Drawing(figure, "finetuning_loss", finding, f"Training loss against pairs seen: {'; '.join(ends)}.", curves)
