"""Notebook 09: the fair table, one base model with and without retrieval and tuning, and the questions put to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from lib.evaluation.rates import rates_with_intervals
from lib.workbook.cases import case_address
from lib.workbook.display import Drawing, Table
from lib.workbook.methods import colour
from lib.workbook.parameters.dsl_ablation import Condition
from lib.workflows.ablation import CONDITION, DEFINED, DELTAS, SELECTED, VALUES
from lib.workflows.pages.common import (
    DIGITS,
    METRIC,
    TEST_SETS,
    change,
    error_bars,
    intervals,
    metric_intervals,
    p_values,
    settled_deltas,
    without_unit,
)
from lib.workflows.pages.dsl_ablation import COPIES, COPY, FINETUNED, HELD, Study
from lib.workflows.scoring import PERCENT, executed_outcomes, outcomes

UNSEEN_CATALOGUE, LEARNED_CATALOGUE, NO_MODEL = "catalogue unseen", "catalogue learned", "no model"
FLOORS, CEILINGS = ("random", "other"), ("oracle_shots", "gold")
OUT_OF_ALL = "few-shots or fine-tuning, both under the catalogue"
FIVE_FREE = "five few-shots or fine-tuning, both free"
BOTH_FREE = "twenty few-shots with definitions or fine-tuning, both free"
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
        if row.generator in catalogues
        and row.decoding in ("free", "catalogue")
        and row.definitions not in ("instruction", "fd_first")
    }
    chosen |= dict.fromkeys(COPIES, (NO_MODEL, "floor", np.nan))
    chosen = {name: chosen[name] for name in study.present(chosen)}
    scores = study.scores[study.scores["condition"].isin(chosen)]
    if study.writers.reader == "in_context":
        scores = scores[scores["half"] != ""]
    parts = [
        rates_with_intervals(_outcomes(part), PERCENT, study.samples, study.seed).assign(test_set=test_set)
        for test_set, part in scores.groupby("test_set", sort=False)
    ]
    table = pd.concat(parts, ignore_index=True)
    table[["knows", "kind", "tokens_trained"]] = [chosen[name] for name in table["condition"]]
    table = table.join(study.rows[CONDITION], on="condition").join(costs["seconds"], on="condition")
    place = {name: i for i, name in enumerate(chosen)}
    return table.sort_values("condition", key=lambda names: names.map(place), kind="stable", ignore_index=True)[
        ["condition", *ROW]
    ]


def _outcomes(scores: pd.DataFrame) -> pd.DataFrame:
    ran = executed_outcomes(scores)
    return pd.concat([outcomes(scores), ran[ran["metric"] == "executed"]], ignore_index=True)


def _kind(row: Condition) -> str:
    if row.shots and row.selector in FLOORS:
        return "floor"
    return "ceiling" if (row.shots and row.selector in CEILINGS) or row.definitions in CEILINGS else "method"


KEYS = ["knows", "kind", "selector", "shots", "definitions"]
SHOWN = ("similarity", "executed", "valid")


def fair_table(fair: pd.DataFrame) -> Table:
    """The fair table: free and under the catalogue's grammar beside each other, a group of columns a test set."""
    rows = fair.drop_duplicates(KEYS)[KEYS].reset_index(drop=True)
    columns: dict[tuple[str, str], list] = {
        ("", "the model's catalogue"): rows["knows"].tolist(),
        ("", "retrieval"): [_retrieval(row) for row in rows.itertuples()],
        ("", "kind"): rows["kind"].tolist(),
    }
    cases: dict[tuple[str, str], list[str]] = {}
    for test_set in fair["test_set"].unique():
        part = fair[fair["test_set"] == test_set]
        first = part[part["metric"] == "similarity"]
        columns[TEST_SETS[test_set], "flows"] = _cells(rows, first, [f"{n:.0f}" for n in first["n"]], " / ")
        for metric in SHOWN:
            of_metric = part[part["metric"] == metric]
            for decoding, said in (("free", "free"), ("catalogue", "catalogue's grammar")):
                held = of_metric[of_metric["decoding"] == decoding]
                texts = intervals(held, decimals=DIGITS[metric])
                columns[TEST_SETS[test_set], f"{METRIC[metric]}, {said}"] = _cells(rows, held, texts)
                cases[TEST_SETS[test_set], f"{METRIC[metric]}, {said}"] = _addresses(rows, held, test_set)
    once = fair.drop_duplicates("condition")
    seconds = ["–" if value != value else f"{value:.1f}" for value in once["seconds"]]
    tokens = ["–" if value != value else f"{value:,.0f}" for value in once["tokens_trained"]]
    columns["cost", "tokens trained on"] = _cells(rows, once, tokens, unique=True)
    columns["cost", "seconds an answer, free / held"] = _cells(rows, once, seconds, " / ")
    caption = (
        "The fair table: one base model, whose catalogue is unseen (in-context model: it learned to read few-shots on "
        "other connectors) or learned (fine-tuned), with and without retrieval, decoded freely and under the "
        "catalogue's grammar, on the flows whose connectors are of one half; 95% intervals. Rows of fewer flows are "
        "on the first of the others'; the questions below compare on the same ones. Floor: what needs no "
        "selection; ceiling: what reads the right flow. Tokens trained on: of an adapter, of the in-context model's "
        "two the mean."
    )
    return Table(pd.DataFrame(columns), caption, text_columns=[("", "retrieval")], cases=cases)


def _addresses(rows: pd.DataFrame, part: pd.DataFrame, test_set: str) -> list[str]:
    """For each row the address of the flows behind its number; empty where it has none."""
    texts = [case_address("flows", set=test_set, half="one", condition=name) for name in part["condition"]]
    return ["" if text == "–" else text for text in _cells(rows, part, texts)]


def _retrieval(row) -> str:
    if row.knows == NO_MODEL:
        return f"nearest few-shot copied, {SELECTED[row.selector]}"
    shots = f"{row.shots} few-shots, {SELECTED[row.selector]}" if row.shots else "no few-shots"
    return ", ".join(part for part in (shots, DEFINED[row.definitions]) if part)


def _cells(
    rows: pd.DataFrame, part: pd.DataFrame, texts: Sequence[str], between: str = "", unique: bool = False
) -> list[str]:
    found: dict[tuple, list[str]] = {}
    for key, text in zip(part[KEYS].itertuples(index=False), texts, strict=True):
        found.setdefault(tuple(key), []).append(text)
    joined = {key: between.join(dict.fromkeys(parts) if unique else parts) for key, parts in found.items()}
    return [joined.get(tuple(key), "–") for key in rows.itertuples(index=False)]


def fair_drawing(fair: pd.DataFrame) -> Drawing:
    """Similarity of every row, a panel a test set: hollow decoded freely, filled under the catalogue's grammar."""
    rows = fair.drop_duplicates(KEYS)[KEYS].iloc[::-1].reset_index(drop=True)
    names = [f"{_retrieval(row)}  ·  {row.knows}" for row in rows.itertuples()]
    sets = list(fair["test_set"].unique())
    figure, axes = plt.subplots(1, len(sets), figsize=(11, 1.6 + 0.27 * len(rows)), sharey=True, squeeze=False)
    for axis, test_set in zip(axes[0], sets, strict=True):
        part = fair[(fair["test_set"] == test_set) & (fair["metric"] == "similarity")]
        _fair_panel(axis, part, rows)
        axis.set(title=TEST_SETS[test_set], xlabel="similarity", xlim=(0, 1), yticks=range(len(names)))
    axes[0][0].set_yticklabels(names, fontsize=8)
    axes[0][0].legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.0, -0.12), ncol=2)
    alt = (
        f"A panel a test set with {len(rows)} rows: similarity with its 95% interval of one base model whose catalogue "
        "is unseen or learned, by retrieval, decoded freely (hollow) and under the catalogue's grammar (filled)."
    )
    return Drawing(figure, "dsl_fair", fair_finding(fair), alt, fair)


def _fair_panel(axis: Axes, part: pd.DataFrame, rows: pd.DataFrame) -> None:
    place = {tuple(key): i for i, key in enumerate(rows.itertuples(index=False))}
    colours = {UNSEEN_CATALOGUE: "#7B3294", LEARNED_CATALOGUE: colour("finetuned_dsl"), NO_MODEL: colour("random")}
    for decoding, aside, face in (("free", 0.14, "white"), ("catalogue", -0.14, None)):
        held = part[part["decoding"] == decoding]
        for knows, group in held.groupby("knows", sort=False):
            at = [place[tuple(key)] + aside for key in group[KEYS].itertuples(index=False)]
            color = colours[knows]
            axis.errorbar(group["value"], at, xerr=error_bars(group), fmt="o", color=color, markersize=5,
                          markerfacecolor=face or color, capsize=2)  # fmt: skip
        fill = face or "#333333"
        label = "free" if decoding == "free" else "under the catalogue's grammar"
        axis.plot([], [], "o", color="#333333", markerfacecolor=fill, label=label)


def fair_finding(fair: pd.DataFrame) -> str:
    """The best method whose catalogue is unseen and the best whose is learned, on each test set, of those asked most
    flows: the value of one that was asked fewer is of other flows."""
    methods = fair[(fair["metric"] == "similarity") & (fair["kind"] == "method")]
    parts = []
    for test_set, part in methods.groupby("test_set", sort=False):
        part = part[part["n"] == part.groupby("knows")["n"].transform("max")]
        best = part.loc[part.groupby("knows", sort=False)["value"].idxmax()]
        held = ", under the grammar"
        said = [
            f"{row.knows} {row.value:.2f} ({_retrieval(row)}"
            f"{held if row.decoding == 'catalogue' else ''}; {row.n:.0f} flows)"
            for row in best.itertuples()
        ]
        parts.append(f"{TEST_SETS[test_set]}: {', '.join(said)}")
    return f"Best similarity of the rows with most flows, {'; '.join(parts)}"


def questions(study: Study) -> pd.DataFrame:
    """What is compared on equal terms: `compare_pairs` of the conditions that were asked, and why (the question)."""
    name = study.name
    five, five_tst, held = name("pretrained", 5), name("tst", 5), name("tst", 5, "fd", "catalogue")
    tuned = name("tst", 5, generator="finetuned")
    asked = {
        (five, COPY): "does the model add to its nearest few-shot?",
        (five_tst, "copy_tst"): "and to TST's?",
        (five, name("random", 5)): "does it matter which few-shots?",
        (name("other", 5), name("random", 5)): "control: are another request's few-shots better than random ones?",
        (five_tst, five): "TST or the pretrained encoder",
        (name("tst_affine", 5), five_tst): "TST with an affine scale, or plain",
        (name("oracle_shots", 5), five_tst): "what better few-shots could add to TST's",
        (name("pretrained", 5, "gold"), five): "what definitions could add at most",
        (name("pretrained", 5, "fd"), name("pretrained", 5, "instruction")): "definitions, given their instruction",
        (name("pretrained", 5, "fd_first"), name("pretrained", 5, "fd")): "definitions before the few-shots",
        (held, HELD): OUT_OF_ALL,
        (five_tst, FINETUNED): FIVE_FREE,
        (name("tst", 20, "fd"), FINETUNED): BOTH_FREE,
        (tuned, FINETUNED): "few-shots for the fine-tuned model",
        (tuned, five_tst): "fine-tuning, given the few-shots",
        (five, name("pretrained", 5, generator="untuned")): "what learning to read few-shots adds",
        (five, name("pretrained", 5, generator="instruct")): "the model that learned to read them, or a larger one",
    }
    there = {pair: why for pair, why in asked.items() if len(set(pair)) == 2 and len(study.present(pair)) == 2}
    table = study.compare_pairs(list(there))
    return table.assign(why=[there[pair] for pair in zip(table["condition"], table["against"], strict=True)])


def questions_table(study: Study, asked: pd.DataFrame) -> Table:
    """`questions` in similarity."""
    part = asked[asked["metric"] == "similarity"]
    frame = pd.DataFrame(
        {
            "question": part["why"],
            "condition": part["condition"].map(study.titles),
            "against": part["against"].map(study.titles),
            "test set": part["test_set"].map(TEST_SETS),
            "similarity, difference": metric_intervals(part, DELTAS),
            "p (Holm)": p_values(part["p_holm"]),
            "n": part["shared"].astype(int),
        }
    )
    caption = (
        f"Questions in similarity, paired; Holm over these rows and those of the other metrics ({len(asked)} in all)."
    )
    return Table(frame.reset_index(drop=True), caption, text_columns=["question", "condition", "against"])


def questions_in_words(study: Study, asked: pd.DataFrame) -> str:
    """Which of the questions are settled, in similarity and in the other measures."""
    sure, similar = settled_deltas(asked), asked["metric"] == "similarity"
    clear = [
        f"{study.titles[row.condition]} against {study.titles[row.against]} {change(row)} ({TEST_SETS[row.test_set]})"
        for row in asked[sure & similar].itertuples()
    ]
    said = f"None of these differences in similarity is settled with {int(asked.loc[similar, 'shared'].max())} flows."
    if clear:
        said = f"Settled in similarity: {'; '.join(clear)}."
    others = [
        f"{study.titles[condition]} against {study.titles[against]} "
        + ", ".join(
            f"{without_unit(row.metric)} {change(row)} ({TEST_SETS[row.test_set]})" for row in part.itertuples()
        )
        for (condition, against), part in asked[sure & ~similar].groupby(["condition", "against"], sort=False)
    ]
    return said + (f" In the other measures, in points: {'; '.join(others)}." if others else "")


def retrieval_or_finetuning(asked: pd.DataFrame) -> str:
    """The answer to the page's title, from `questions`, and how large the family is that its verdicts come from."""
    of_similarity = asked[asked["metric"] == "similarity"]
    answers = []
    for why, how in ((OUT_OF_ALL, "five with definitions, both under the catalogue's grammar"),
                     (FIVE_FREE, "five without definitions, both free"),
                     (BOTH_FREE, "twenty with definitions, both free")):  # fmt: skip
        for row in of_similarity[of_similarity["why"] == why].itertuples():
            clear = "settled" if settled_deltas(of_similarity.loc[[row.Index]]).item() else "not settled"
            answers.append(f"{how}, {TEST_SETS[row.test_set]} {change(row)} ({clear})")
    return (
        "Retrieval or fine-tuning? Few-shots by TST differ from the fine-tuned model in similarity by: "
        f"{'; '.join(answers) or 'not tested in this profile'}."
        + (f" Settled or not after Holm's adjustment over the {len(asked)} tests of all questions." if answers else "")
    )


QUESTIONS = [
    "why", "condition", "against", "test_set", "metric", *DELTAS, "p_value", "p_holm", "shared", "counted_both",
]  # fmt: skip


def questions_contract(asked: pd.DataFrame, steps: pd.DataFrame) -> pd.DataFrame:
    """The columns of the report's `dsl_questions.csv`: the questions and the steps in the number of few-shots."""
    return pd.concat([asked, steps.assign(why="step in the number of few-shots")])[QUESTIONS]
