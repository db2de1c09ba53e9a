"""Notebook 08: how target similarity tuning (TST) went, for which requests it helps, and whether it is the flows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import matplotlib.pyplot as plt
import pandas as pd

from lib.evaluation.comparison import compare_family, compare_in_groups
from lib.evaluation.inference import Resampling, settled
from lib.workbook.display import Drawing, Table, number
from lib.workbook.markup import plain
from lib.workbook.methods import colour, label
from lib.workflows.pages.common import intervals, p_values
from lib.workflows.pages.dsl_retrieval import DIFFERENCE, EVERY_TEST, FROM_TRAINING, MEASURES, PUBLISHED_PAIRS, change

NOTHING_TO_TUNE = "No pair was mined, so nothing can be tuned: below, TST stands for the pretrained encoder."


def targets_table(pairs: pd.DataFrame) -> Table:
    """What there is to learn: targets of all mined pairs, of `lib.workflows.target_similarity.scored_pairs`."""
    kinds = pairs.groupby("positive")["score"]
    frame = pd.DataFrame(
        {
            "pairs": [f"{'cosine above' if sign else 'not above'} the threshold" for sign in kinds.groups],
            "mined": kinds.size().to_numpy(),
            "mean target": kinds.mean().to_numpy(),
            "no API in common, %": 100 * kinds.agg(lambda score: (score == 0).mean()).to_numpy(),
            "the same APIs, %": 100 * kinds.agg(lambda score: (score == 1).mean()).to_numpy(),
        }
    )
    return Table(frame, f"Targets of the {len(pairs):,} mined pairs: Jaccard similarity of the two flows' API names.")


def ends_of(loss: pd.Series) -> tuple[float, float, int]:
    """Mean loss of the first and of the last tenth of the steps, and how many steps that is."""
    window = max(1, len(loss) // 10)
    return loss.iloc[:window].mean(), loss.iloc[-window:].mean(), window


def loss_drawing(rows: pd.DataFrame, curve: pd.DataFrame, batch_size: int) -> Drawing:
    """The training loss beside that of two constants, one for positive pairs and one for the others.

    Args:
        rows: what was learned, columns score and positive.
        curve: columns step, loss.
    """
    loss = curve["loss"]
    first, last, window = ends_of(loss)
    by_sign = rows["score"].sub(rows.groupby("positive")["score"].transform("mean")).pow(2).mean()
    figure, axis = plt.subplots(figsize=(8, 3.2))
    axis.plot(curve["step"], loss, color="#bbbbbb", linewidth=0.8)
    axis.plot(curve["step"], loss.rolling(window, min_periods=1).mean(), color=colour("tst"), linewidth=2)
    axis.axhline(by_sign, color="#333333", linestyle="--", label="knowing only whether a pair is positive")
    axis.legend()
    axis.set(xlabel=f"step of {batch_size} pairs", ylabel="squared error", ylim=(0, None))
    finding = (
        f"Target similarity tuning takes the squared error from {first:.3f} to {last:.3f} (first and last {window} "
        f"steps); knowing only whether a pair is positive gives {by_sign:.3f}"
    )
    alt = (
        f"Training loss against step, {len(loss)} steps; grey every step, coloured its moving mean, dashed the error "
        "of two constants, one for positive pairs and one for the others."
    )
    return Drawing(figure, "tst_loss", finding, alt, curve)


def tuning_in_words(encoder: str, pairs: int, mined: int, tokens: int, learning_rate: float, epochs: int) -> str:
    """What was tuned, on how much of what was mined."""
    return (
        f"{plain(encoder)}, {pairs:,} of the {mined:,} mined pairs ({tokens:,} tokens), learning rate "
        f"{learning_rate:g}, {epochs} epoch(s). The paper trains on {PUBLISHED_PAIRS:,}; `full` on all that were "
        "mined. The learning rate of `quick` was chosen among three with its encoder, on held-out *training* requests, "
        "whose frames and wordings the tuned pairs know."
    )


# ---------------------------------------------------------------- groups of requests


def grouped_tests(
    table: pd.DataFrame, groups: Mapping[str, pd.Series], k: int, samples: int, seed: int
) -> pd.DataFrame:
    """TST against the pretrained encoder in each group that has a request: mean Jaccard similarity of k few-shots.

    Args:
        table: of `lib.workflows.target_similarity.score_table`, rows of all groups.
        groups: of `lib.workflows.pages.dsl_retrieval.groups_of_requests`.
    """
    masks = {name: table.index.isin(pairs) for name, pairs in groups.items()}
    return compare_in_groups(table, "tst", "pretrained", masks, "jaccard", k, Resampling([table.index], samples, seed))


def groups_table(grouped: pd.DataFrame, k: int) -> Table:
    """What TST changes by group; `grouped` of `grouped_tests`."""
    frame = pd.DataFrame(
        {
            "requests": grouped["group"],
            "n": grouped["n"],
            "pretrained": grouped["b"],
            "TST": grouped["a"],
            "difference": intervals(grouped, DIFFERENCE, 3),
            "p (Holm)": p_values(grouped["p_holm"], 4),
        }
    )
    return Table(
        frame,
        f"Mean Jaccard similarity of {k} few-shots with the right flow, by group of requests (groups overlap); 95% "
        "intervals, randomisation test, Holm over the groups. That one group is settled and another is not says "
        "nothing about their difference.",
        decimals=3,
    )


def groups_in_words(grouped: pd.DataFrame) -> str:
    """In which groups the change is settled, and what becomes of it away from what the encoder was tuned on."""
    clear = grouped[settled(grouped)].set_index("group")["difference"]
    by_group = grouped.set_index("group")
    largest = clear.abs().idxmax() if len(clear) else ""
    return (
        f"Settled in {len(clear)} of {len(grouped)} groups ({(clear > 0).sum()} gains, {(clear < 0).sum()} losses)"
        + (f", with the largest change for {largest} ({number(clear[largest], 3)}). " if largest else ". ")
        + (
            f"**On training requests that it was not tuned on TST changes the Jaccard similarity by "
            f"{change(by_group.loc[FROM_TRAINING])}, on test requests by {change(by_group.loc[EVERY_TEST])}.** What it "
            "learned about frames and wordings it has met need not hold for others."
            if FROM_TRAINING in by_group.index
            else ""
        )
    )


# ---------------------------------------------------------------- learning curve


@dataclass(frozen=True)
class LearningCurve:
    """Encoders tuned on fewer pairs, and one on shuffled targets.

    Attributes:
        fewer: numbers of pairs, ascending; may be empty.
        full: pairs of the encoder that the rest of the page is about.
    """

    fewer: Sequence[int]
    full: int

    @staticmethod
    def name(pairs: int) -> str:
        return f"TST, {pairs:,} pairs"

    @property
    def control(self) -> int:
        """Pairs whose targets are shuffled."""
        return max(self.fewer, default=self.full)

    @property
    def shuffled(self) -> str:
        return f"shuffled targets, {self.control:,} pairs"

    @property
    def trend(self) -> tuple[str, str] | None:
        """All pairs against the fewest."""
        return (self.name(self.full), self.name(self.fewer[0])) if self.fewer else None

    @property
    def contrasts(self) -> list[tuple[str, str]]:
        tuned = [*map(self.name, self.fewer), self.name(self.full), self.shuffled]
        trend = [self.trend] if self.trend else []
        return [*((name, "pretrained") for name in tuned), *trend, (self.name(self.control), self.shuffled)]


def curve_tests(table: pd.DataFrame, curve: LearningCurve, k: int, samples: int, seed: int) -> pd.DataFrame:
    """The contrasts in mean Jaccard similarity and coverage: columns of `compare_family`, its_value, other_value,
    settled."""
    resampling = Resampling([table.index], samples, seed)
    tests = compare_family(table, curve.contrasts, ["jaccard", "coverage"], [k], resampling)
    its, other = (
        [table[name, metric, k].mean() for name, metric in zip(tests[side], tests["metric"], strict=True)]
        for side in "ab"
    )
    return tests.assign(its_value=its, other_value=other, settled=settled(tests))


def curve_table(tests: pd.DataFrame, pool: int, n: int) -> Table:
    """The contrasts; `tests` of `curve_tests`, out of a pool of training requests, over n test requests."""
    frame = pd.DataFrame(
        {
            "measure": tests["metric"].map(MEASURES),
            "encoder": tests["a"],
            "against": tests["b"].replace("pretrained", label("pretrained")),
            "its value": tests["its_value"],
            "the other's": tests["other_value"],
            "difference": intervals(tests, DIFFERENCE, 3),
            "p (Holm)": p_values(tests["p_holm"], 4),
        }
    )
    caption = (
        f"{tests['k'].iloc[0]} few-shots out of {pool:,} training requests, {n:,} test requests; 95% intervals, "
        "randomisation test, Holm over all rows."
    )
    return Table(frame, caption, decimals=3)


def curve_in_words(tests: pd.DataFrame, curve: LearningCurve) -> str:
    """Whether it is the flows, and whether more pairs help."""
    rows = tests[tests["metric"] == "jaccard"].set_index(["a", "b"])
    true, shuffled = (
        _direction(rows.loc[pair])
        for pair in ((curve.name(curve.control), curve.shuffled), (curve.shuffled, "pretrained"))
    )
    trend = f"{' against '.join(curve.trend)}: {_direction(rows.loc[curve.trend])}." if curve.trend else ""
    return (
        f"True targets against shuffled ones, with as many pairs: {true} in mean Jaccard similarity; part of that is "
        f"the harm that wrong targets do. Against the pretrained encoder the shuffled ones are {shuffled}. {trend}"
    )


def _direction(test: pd.Series) -> str:
    said = "no settled change" if not test["settled"] else "a gain" if test["difference"] > 0 else "a loss"
    return f"{said}: {change(test)}"
