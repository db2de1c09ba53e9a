"""Notebook 08: how many of the wanted APIs definitions bring into the prompt, at what cost, and what fits into it."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes

from lib.workbook.display import Drawing, Table
from lib.workbook.methods import colour, label, marker
from lib.workflows.pages.common import intervals

SHARE = ["share", "ci_low", "ci_high"]
SHOWN = {"test": "new wordings", "test_same": "known wordings", "unseen": "held-out APIs"}


def coverage_table(summary: pd.DataFrame, beside: Mapping[int, int]) -> Table:
    """Test requests and those for held-out APIs.

    Args:
        summary: of `lib.workflows.few_shots.coverage_summary`.
        beside: how many definitions SFD shows, by number of few-shots.
    """
    main = summary[summary["sample"].isin(SHOWN)]
    frame = pd.DataFrame(
        {
            "requests": main["sample"].map(SHOWN).astype(str),
            "few-shots": main["shots"],
            "definitions": main["kind"].map(label).astype(str),
            "selector": [label(name) if name else "–" for name in main["selector"]],
            "APIs defined, %": intervals(main, SHARE, 1),
            "whole flows, %": main["all_covered"],
            "other version, %": main["sibling_share"],
            "number": main["definitions"],
            "tokens": main["tokens"],
        }
    )
    counts = main.drop_duplicates("sample").set_index("sample")["n"]
    asked = ", ".join(f"{counts[name]:,} requests ({said})" for name, said in SHOWN.items() if name in counts.index)
    shown = ", ".join(f"{n} definitions beside {k} few-shots" for k, n in beside.items())
    caption = (
        "Wanted APIs with a definition in the prompt, flows that have all of theirs, APIs of which only another "
        "version (V1 for V2) is defined; number and tokens of the definitions a prompt: means over "
        f"{asked}; SFD with {shown}."
    )
    return Table(frame, caption, decimals=1)


def coverage_drawing(summary: pd.DataFrame, best: str) -> Drawing:
    """Coverage against tokens for FD, SFD and both.

    Args:
        summary: of `lib.workflows.few_shots.coverage_summary`.
        best: the selector whose few-shots FD goes with here.
    """
    samples = [name for name in SHOWN if name in set(summary["sample"])]
    figure, axes = plt.subplots(1, len(samples), figsize=(3 + 3.3 * len(samples), 4), sharey=True, squeeze=False)
    for axis, name in zip(axes[0], samples, strict=True):
        _coverage_panel(axis, summary[(summary["sample"] == name) & summary["selector"].isin(["", best])])
        axis.set_title(SHOWN[name])
    axes[0][0].set_ylabel("wanted APIs with a definition, %")
    axes[0][0].legend(loc="lower right")
    numbers = sorted(summary["shots"].unique())
    alt = (
        f"Share of wanted APIs with a definition against the tokens of the definitions, for FD ({label(best)}), SFD "
        f"and both, with {' and '.join(map(str, numbers))} few-shots. Bars: 95% intervals."
    )
    return Drawing(figure, "definition_coverage", "Wanted APIs with a definition, by tokens", alt, summary)


def _coverage_panel(axis: Axes, rows: pd.DataFrame) -> None:
    for kind, line in rows.groupby("kind", observed=True):
        axis.plot(
            line["tokens"], line["share"], color=colour(kind), marker=marker(kind), markersize=8, label=label(kind)
        )
        axis.vlines(line["tokens"], line["ci_low"], line["ci_high"], color=colour(kind))
        offset = (6, 6 if kind == "fd_sfd" else -11)
        for row in line.itertuples():
            at = row.tokens, row.share
            axis.annotate(f"{row.shots}", at, offset, textcoords="offset points", fontsize=8, color=colour(kind))
    axis.set(xlabel="tokens of the definitions (number: few-shots)", ylim=(0, 102), xlim=(0, None))
