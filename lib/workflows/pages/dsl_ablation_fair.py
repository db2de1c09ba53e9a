"""Notebook 09: the fair table, one base model with and without retrieval and tuning, and the questions put to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from lib.evaluation.comparison import rates
from lib.workbook.cases import case_address
from lib.workbook.display import Drawing, Table
from lib.workbook.methods import colour
from lib.workflows.ablation import CONDITION, DELTAS, VALUES, Condition, counted
from lib.workflows.pages.common import METRIC, TEST_SETS, error_bars, metric_intervals, p_values
from lib.workflows.pages.dsl_ablation import COPIES, COPY, COPY_TST, FINETUNED, HELD, Study
from lib.workflows.scoring import PERCENT

UNSEEN_CATALOGUE, LEARNED_CATALOGUE, NO_MODEL = "catalogue unseen", "catalogue learned", "no model"
FLOORS, CEILINGS = ("random", "other"), ("oracle_shots", "gold")
ROW = ["knows", "kind", *CONDITION, "test_set", "metric", *VALUES, "n", "tokens_trained", "seconds"]


def fair_rows(study: Study, rows: Sequence[Condition], costs: pd.DataFrame, trained: Mapping[str, int]) -> pd.DataFrame:
    """Values of all conditions of the fair table: beside the in-context model on flows whose connectors are of one
    half, the only ones that it is asked; a row of fewer flows has the first of these.

    Args:
        rows: of the ablation; of them those of the model that stands for GPT-4 and of the fine-tuned one, free or under
            the catalogue.
        costs: of `lib.workflows.ablation.cost_of`.
        trained: {generator: tokens that its model learned from}.

    Returns:
        `ROW`, and condition; kind is method, floor or ceiling; tokens_trained and seconds (an answer) are NaN where no
        model wrote.
    """
    catalogues = {study.writers.reader: UNSEEN_CATALOGUE, "finetuned": LEARNED_CATALOGUE}
    chosen = {
        row.name: (catalogues[row.generator], _kind(row), trained.get(row.generator, np.nan))
        for row in rows
        if row.generator in catalogues and row.decoding in ("free", "catalogue") and row.definitions != "instruction"
    }
    chosen |= dict.fromkeys(COPIES, (NO_MODEL, "floor", np.nan))
    chosen = {name: chosen[name] for name in study.present(chosen)}
    scores = study.scores[study.scores["condition"].isin(chosen)]
    if study.writers.reader == "in_context":
        scores = scores[scores["half"] != ""]
    parts = [
        rates(counted(part), PERCENT, study.samples, study.seed).assign(test_set=test_set)
        for test_set, part in scores.groupby("test_set", sort=False)
    ]
    table = pd.concat(parts, ignore_index=True)
    table[["knows", "kind", "tokens_trained"]] = [chosen[name] for name in table["condition"]]
    table = table.join(study.rows[CONDITION], on="condition").join(costs["seconds"], on="condition")
    place = {name: i for i, name in enumerate(chosen)}
    return table.sort_values("condition", key=lambda names: names.map(place), kind="stable", ignore_index=True)[
        ["condition", *ROW]
    ]


def _kind(row: Condition) -> str:
    if row.shots and row.selector in FLOORS:
        return "floor"
    return "ceiling" if (row.shots and row.selector in CEILINGS) or row.definitions in CEILINGS else "method"


SHOWN = ("similarity", "executed", "valid")


def fair_table(study: Study, fair: pd.DataFrame) -> Table:
    """The fair table, a row a condition and test set."""
    texts = fair.assign(text=metric_intervals(fair))
    first = fair[fair["metric"] == "similarity"].reset_index(drop=True)
    columns = {
        METRIC[metric]: texts.loc[texts["metric"] == metric, "text"].tolist() for metric in SHOWN
    }  # each condition has every metric, in the same order
    frame = pd.DataFrame(
        {
            "condition": first["condition"].map(study.titles),
            "catalogue": first["knows"].str.removeprefix("catalogue "),
            "kind": first["kind"],
            "test set": first["test_set"].map(TEST_SETS),
            "flows": first["n"].astype(int),
            **columns,
        }
    )
    addresses = [
        case_address("flows", set=test_set, half="one", condition=name)
        for test_set, name in zip(first["test_set"], first["condition"], strict=True)
    ]
    caption = "One base model whose catalogue is unseen or learned, on flows of one half; 95% intervals."
    return Table(frame, caption, text_columns=["condition"], cases=dict.fromkeys(columns, addresses))


def fair_drawing(study: Study, fair: pd.DataFrame) -> Drawing:
    """Similarity of every condition, a panel a test set."""
    names, sets = list(dict.fromkeys(fair["condition"]))[::-1], list(fair["test_set"].unique())
    figure, axes = plt.subplots(1, len(sets), figsize=(11, 1.6 + 0.27 * len(names)), sharey=True, squeeze=False)
    colours = {UNSEEN_CATALOGUE: "#7B3294", LEARNED_CATALOGUE: colour("finetuned_dsl"), NO_MODEL: colour("random")}
    for axis, test_set in zip(axes[0], sets, strict=True):
        part = fair[(fair["test_set"] == test_set) & (fair["metric"] == "similarity")]
        for knows, group in part.groupby("knows", sort=False):
            at = [names.index(name) for name in group["condition"]]
            axis.errorbar(
                group["value"], at, xerr=error_bars(group), fmt="o", color=colours[knows], capsize=2, label=knows
            )
        axis.set(title=TEST_SETS[test_set], xlabel="similarity", xlim=(0, 1), yticks=range(len(names)))
    axes[0][0].set_yticklabels([study.titles[name] for name in names], fontsize=8)
    axes[0][0].legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.0, -0.12), ncol=3)
    alt = "A panel a test set: similarity with its 95% interval of one base model by retrieval, training and decoding."
    return Drawing(figure, "dsl_fair", "Similarity of one base model by retrieval, training and decoding", alt, fair)


def questions(study: Study) -> pd.DataFrame:
    """What is compared on equal terms: `compare_pairs` of the conditions that were asked, and why (the question)."""
    name = study.name
    five, five_tst, held = name("pretrained", 5), name("tst", 5), name("tst", 5, "fd", "catalogue")
    tuned = name("tst", 5, generator="finetuned")
    asked = {
        (five, COPY): "does the model add to its nearest few-shot?",
        (five_tst, COPY_TST): "and to TST's?",
        (five, name("random", 5)): "does it matter which few-shots?",
        (name("other", 5), name("random", 5)): "control: are another request's few-shots better than random ones?",
        (five_tst, five): "TST or the pretrained encoder",
        (name("tst_affine", 5), five_tst): "TST with an affine scale, or plain",
        (name("oracle_shots", 5), five_tst): "what better few-shots could add to TST's",
        (name("pretrained", 5, "gold"), five): "what definitions could add at most",
        (name("pretrained", 5, "fd"), name("pretrained", 5, "instruction")): "definitions, given their instruction",
        (held, HELD): "few-shots or fine-tuning, both under the catalogue",
        (five_tst, FINETUNED): "five few-shots or fine-tuning, both free",
        (name("tst", 20, "fd"), FINETUNED): "twenty few-shots with definitions or fine-tuning, both free",
        (tuned, FINETUNED): "few-shots for the fine-tuned model",
        (tuned, five_tst): "fine-tuning, given the few-shots",
        (five, name("pretrained", 5, generator="untuned")): "what learning to read few-shots adds",
        (five, name("pretrained", 5, generator="instruct")): "the model that learned to read them, or a larger one",
    }
    there = {pair: why for pair, why in asked.items() if len(set(pair)) == 2 and len(study.present(pair)) == 2}
    table = study.compare_pairs(list(there))
    return table.assign(why=[there[pair] for pair in zip(table["condition"], table["against"], strict=True)])


def questions_table(study: Study, asked: pd.DataFrame) -> Table:
    """`questions` in similarity and in flows that run right."""
    asked = asked.assign(text=metric_intervals(asked, DELTAS), p=p_values(asked["p_value"]))
    similar, ran = (asked[asked["metric"] == metric].reset_index(drop=True) for metric in ("similarity", "executed"))
    frame = pd.DataFrame(
        {
            "question": similar["why"],
            "condition": similar["condition"].map(study.titles),
            "against": similar["against"].map(study.titles),
            "test set": similar["test_set"].map(TEST_SETS),
            "flows": similar["shared"].astype(int),
            "similarity, difference": similar["text"],
            "p": similar["p"],
            "executed right, difference, points": ran["text"],
            "p of this": ran["p"],
        }
    )
    caption = "Questions, paired on the flows that both have; 95% intervals and sign flips."
    return Table(frame, caption, text_columns=["question", "condition", "against"])
