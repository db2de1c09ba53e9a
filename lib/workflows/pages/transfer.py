"""Tables, figure and sentences of notebook 11: a benchmark that others made."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import matplotlib.pyplot as plt
import pandas as pd

from lib.evaluation.inference import Resampling
from lib.evaluation.intervals import mean_interval
from lib.workbook.display import Drawing, Table, interval
from lib.workbook.markup import plain
from lib.workbook.methods import colour, label
from lib.workflows.flow_bench import ASKED, CUTOFFS, READINGS, USER_TASK, FlowBench
from lib.workflows.language import parse, print_flow
from lib.workflows.pages.common import error_bars, intervals

TEXTS = {"id": "id", "description": "description", "both": "id and description"}
UPDATES = {
    "": "a new flow",
    "add": "an edit that adds",
    "replace": "an edit that replaces",
    "delete": "an edit that deletes",
}
SETTING = ["texts", "asked", "reading"]
VALUE = ["value", "ci_low", "ci_high"]
FIGURE = "flow_bench_recall"
ALT = (
    f"Recall of Flow-Bench's APIs at {' and '.join(map(str, CUTOFFS))} by what is searched for, what is read of an API "
    "and what counts as needed, with 95% intervals and the published recall as a dashed line."
)
MARKERS = dict(zip(READINGS, "osD", strict=True))


def what_was_read(bench: FlowBench) -> str:
    """How many flows there are, and how many of them our language says without loss."""
    catalogue, pairs = bench
    texts = [*pairs["dsl"], *filter(None, pairs["prior"])]
    used = {name for apis in pairs["apis"] for name in apis} - {USER_TASK.name}
    known, edited = sum(name in catalogue for name in used), len(texts) - len(pairs)
    return (
        f"{unchanged(texts)} of {len(texts)} flows ({len(pairs)} right ones, {edited} to edit) are the same text after "
        f"they are parsed and printed. The right ones call {len(used)} different APIs, of which {known} are among the "
        f"{len(catalogue) - 1} of the catalogue."
    )


def requests_table(pairs: pd.DataFrame) -> Table:
    """What is asked for, and what the right flows have."""
    has = {"a loop": r"(?m)^ *for \(", "a condition": r"(?m)^ *if \(", "a task for a person": rf"\b{USER_TASK.name}\("}
    rows = [
        {
            "asked for": said,
            "requests": len(group),
            "calls a flow": group["apis"].map(len).mean(),
            **{f"with {what}": int(group["dsl"].str.contains(sign).sum()) for what, sign in has.items()},
        }
        for update, said in UPDATES.items()
        if len(group := pairs[pairs["update"] == update])
    ]
    caption = f"Flow-Bench's {len(pairs)} requests, and how many of the right flows have a part."
    return Table(pd.DataFrame(rows), caption, decimals=1)


def recall_table(recall: pd.DataFrame, published: pd.DataFrame, encoder: str) -> Table:
    """Recall of the APIs by what is read of them, what is searched for and what counts as needed.

    Args:
        recall: of `lib.workflows.flow_bench.recall_by_reading`.
        published: of `data/published/flow_bench.csv`.
        encoder: that read requests and APIs.
    """
    keys = [*SETTING, "n"]
    wide = recall.assign(shown=intervals(recall, VALUE, 1)).pivot(index=keys, columns="k", values="shown")
    wide = wide.loc[list(recall[keys].drop_duplicates().itertuples(index=False, name=None))].reset_index()
    frame = pd.DataFrame(
        {
            "searched for": wide["asked"].map(ASKED),
            "read of an API": wide["texts"].map(TEXTS),
            "needed": wide["reading"].map(READINGS),
            "requests": wide["n"],
            **{f"Recall@{k}, %": wide[k] for k in sorted(recall["k"].unique())},
        }
    )
    printed = [
        f"{plain(name)}: " + ", ".join(f"{row.value:.2f} (K = {row.k})" for row in rows.itertuples())
        for name, rows in published.groupby("label", sort=False)
    ]
    caption = f"Recall of Flow-Bench's APIs by {plain(encoder)}, 95% intervals over requests. Published: "
    return Table(frame, f"{caption}{'; '.join(printed)}.")


def recall_drawing(recall: pd.DataFrame, published: pd.DataFrame) -> Drawing:
    """Recall by setting, a panel a cutoff, with the published recall of the same encoder as a line."""
    figure, axes = plt.subplots(1, len(CUTOFFS), figsize=(9.5, 4.6), sharey=True)
    rows = list(itertools.product(ASKED, TEXTS))
    for axis, k in zip(axes, CUTOFFS, strict=True):
        for shift, (reading, marker) in zip((-0.2, 0, 0.2), MARKERS.items(), strict=True):
            drawn = recall[(recall["k"] == k) & (recall["reading"] == reading)]
            places = [rows.index(row) + shift for row in zip(drawn["asked"], drawn["texts"], strict=True)]
            style = {"fmt": marker, "color": colour("pretrained"), "fillstyle": "none" if reading == "flow" else "full"}
            axis.errorbar(drawn["value"], places, xerr=error_bars(drawn, VALUE), label=READINGS[reading], **style)
        axis.axvline(_printed(published)[k], color=colour("published"), linestyle="--", label=label("published"))
        names = [f"{ASKED[asked]}; {TEXTS[text]}" for asked, text in rows]
        axis.set(xlabel=f"Recall@{k}, %", xlim=(40, 101), yticks=range(len(rows)), yticklabels=names)
    axes[0].set_ylabel("searched for; read of an API")
    axes[0].invert_yaxis()
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="upper center", bbox_to_anchor=(0.5, 0), ncols=2)
    return Drawing(figure, FIGURE, nearest_sentence(recall, published), ALT, recall)


def _printed(published: pd.DataFrame) -> dict[int, float]:
    """The published recall of the encoder as it was, by cutoff."""
    rows = published[published["method"] == "pretrained"]
    return dict(zip(rows["k"], rows["value"], strict=True))


def nearest(recall: pd.DataFrame, published: pd.DataFrame) -> pd.DataFrame:
    """The rows, one a cutoff, of the setting whose recall is nearest to the published one at all cutoffs."""
    rows = recall.assign(published=recall["k"].map(_printed(published)))
    away = (rows["value"] - rows["published"]).abs()
    best = away.groupby([rows[name] for name in SETTING], sort=False).max().idxmin()
    return rows[(rows[SETTING] == list(best)).all(axis=1)].sort_values("k")


def nearest_sentence(recall: pd.DataFrame, published: pd.DataFrame) -> str:
    """How near our recall comes to the published one, and under which setting."""
    rows = nearest(recall, published)
    text, asked, reading = rows.iloc[0][SETTING]
    parts = [f"{row.value:.1f}% at {row.k} (published {row.published:.1f}%)" for row in rows.itertuples()]
    return (
        f"Nearest to the published recall: {' and '.join(parts)}; searched for {ASKED[asked]} in {TEXTS[text]}; "
        f"needed are {READINGS[reading]}"
    )


def finding(bench: FlowBench, recall: pd.DataFrame, published: pd.DataFrame) -> str:
    """For the top of the page and the index."""
    rows = nearest(recall, published)
    inside = [row.ci_low <= row.published <= row.ci_high for row in rows.itertuples()]
    told = "inside" if all(inside) else "outside" if not any(inside) else "only in part inside"
    last = rows.iloc[-1]
    low_high = interval(last["value"], last["ci_low"], last["ci_high"])
    return (
        f"{unchanged(bench.pairs['dsl'])} of Flow-Bench's {len(bench.pairs)} flows are flows of our language, which "
        f"has loops for them. {nearest_sentence(recall, published)}. The published recall is {told} our 95% intervals, "
        f"such as {low_high} at {last['k']}. Of {len(recall.drop_duplicates(SETTING))} settings this one was chosen by "
        "that nearness: it says what may have been measured, and is no test of it."
    )


def prior_words(prior: pd.DataFrame) -> str:
    """How near the flow to edit is to the right flow, as it stands.

    Args:
        prior: of `lib.workflows.flow_bench_shots.prior_scores`.
    """
    low, high = mean_interval(prior["value"].to_numpy(), Resampling([prior["family"]]))
    shown = interval(prior["value"].mean(), float(low), float(high), 1)
    return f"For {len(prior)} edits the flow to edit, copied as it is, has a similarity of {shown} to the right one."


def unchanged(texts: Iterable[str]) -> int:
    """How many flows are the same text after they are parsed and printed."""
    return sum(print_flow(parse(text)) == text for text in texts)
