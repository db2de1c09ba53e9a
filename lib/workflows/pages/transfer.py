"""Tables and figures of notebook 11: a benchmark that others made."""

from __future__ import annotations

import itertools

import matplotlib.pyplot as plt
import pandas as pd

from lib.workbook.display import Drawing, Table
from lib.workbook.forest import forest
from lib.workbook.methods import colour, label
from lib.workflows.flow_bench import ASKED, CUTOFFS, READINGS, USER_TASK
from lib.workflows.flow_bench_flows import MEASURES
from lib.workflows.flow_bench_shots import SHOTS
from lib.workflows.pages.common import error_bars, intervals

TEXTS = {"id": "id", "description": "description", "both": "id and description"}
UPDATES = {
    "": "a new flow",
    "add": "an edit that adds",
    "replace": "an edit that replaces",
    "delete": "an edit that deletes",
}
VALUE = ["value", "ci_low", "ci_high"]
FIGURE = "flow_bench_recall"
ALT = (
    f"Recall of Flow-Bench's APIs at {' and '.join(map(str, CUTOFFS))} by what is searched for, what is read of an API "
    "and what counts as needed, with 95% intervals and the published recall as a dashed line."
)
MARKERS = dict(zip(READINGS, "osD", strict=True))


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
    return Drawing(figure, FIGURE, "Recall of Flow-Bench's APIs, by what is read and needed", ALT, recall)


def _printed(published: pd.DataFrame) -> dict[int, float]:
    """The published recall of the encoder as it was, by cutoff."""
    rows = published[published["method"] == "pretrained"]
    return dict(zip(rows["k"], rows["value"], strict=True))


# ---------------------------------------------------------------- few-shots

METRICS = {"jaccard": f"APIs of {SHOTS} few-shots", "copied": "the first one copied"}


def shots_forest(tests: pd.DataFrame) -> Drawing:
    """Differences of selectors, a panel a measure."""
    rows = tests.assign(
        comparison=[f"{label(a)} − {label(b)}" for a, b in zip(tests["a"], tests["b"], strict=True)],
        panel=tests["metric"].map(METRICS),
    )
    return forest(rows, "flow_bench_shots", "Few-shots on Flow-Bench, by who selects", "points", panel="panel")


# ---------------------------------------------------------------- flows written


WRITERS = {"in_context": "in-context", "instruct": "instruct"}
DEFINITIONS = {"sfd": "+ SFD", "fd": "+ FD", "none": "alone"}


def condition_label(name: str) -> str:
    """Who wrote, for readers."""
    if name == "copy_prior":
        return "copied: flow to edit, else nearest"
    if name.startswith("copy_"):
        return f"copied: {label(name.removeprefix('copy_'))}"
    writer, selector, definitions, decoding = name.split(", ")
    under = "" if decoding == "free" else f", {decoding}"
    return f"{WRITERS[writer]}: {label(selector)} {DEFINITIONS[definitions]}{under}"


def flows_table(values: pd.DataFrame) -> Table:
    """The metrics of what was written, and of the floors.

    Args:
        values: of `lib.workflows.flow_bench_flows.values`.
    """
    shown = values.assign(shown=intervals(values, VALUE, 1))
    wide = shown.pivot(index="condition", columns="metric", values="shown").loc[
        list(dict.fromkeys(values["condition"]))
    ]
    frame = pd.DataFrame({"flows": list(map(condition_label, wide.index))})
    for metric, said in MEASURES.items():
        frame[said] = wide[metric].to_numpy()
    n = int(values["n"].max())
    parsed = values.loc[values["metric"] == "made_up_names", "n"]
    caption = (
        f"Flows for {n} of Flow-Bench's requests, by who writes, who selected the few-shots and which definitions the "
        "prompt has, and copied ones; 95% intervals. Executed right: on mocked connectors a flow does what the right "
        "one does, all arguments counted. Made-up names and keys are counted over the flows that parse alone, "
        f"{parsed.min()} to {parsed.max()}. Grammar: that of the language with the benchmark's catalogue."
    )
    return Table(frame, caption)


def flows_forest(tests: pd.DataFrame) -> Drawing:
    """Differences in similarity."""
    rows = tests.assign(
        comparison=[f"{condition_label(a)} − {condition_label(b)}" for a, b in zip(tests["a"], tests["b"], strict=True)]
    )
    return forest(rows, "flow_bench_flows", "Flows written for Flow-Bench", "points of similarity")
