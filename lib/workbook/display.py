"""Figures, tables and numbers as a reader sees them: a title, alt text, 95% intervals, ours beside published."""

from __future__ import annotations

import contextlib
import html
import os
import textwrap
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from IPython import get_ipython
from IPython.display import HTML, Image, display
from matplotlib.figure import Figure
from pydantic import TypeAdapter

from lib.workbook.artifacts import Workbook
from lib.workbook.inputs import Strict, read_yaml
from lib.workbook.machine import return_freed_memory
from lib.workbook.markup import inline_html, readable, safe_markdown
from lib.workbook.methods import label

NO_MATHS = "tex2jax_ignore mathjax_ignore"  # classes in which JupyterLab sets no formulas: a price is none
INK = "#6e6e6e"  # 5.1 to 1 on white, 3.4 to 1 on the dark theme of JupyterLab
BATCH_RUNNERS = ("papermill", "nbconvert", "nbclient")  # execute a notebook without anybody watching


def use_style() -> None:
    """The workbook's one style of figures, whose grey type without a background reads on white and on black, and, where
    somebody watches, of tables. From here on, what a cell has freed goes back to the system when it ends."""
    shell = get_ipython()
    if shell is not None:
        shell.events.register("post_run_cell", return_freed_memory)
        if show_progress():
            style = Path(__file__).with_name("table.css").read_text(encoding="utf-8")
            display(HTML(f"<style>{style}</style>"))
    sns.set_theme(
        style="whitegrid",
        rc={
            "figure.dpi": 110,
            "savefig.dpi": 144,
            "savefig.bbox": "tight",
            "font.family": "DejaVu Sans",
            "font.size": 10,
            "axes.titlesize": 11,
            "axes.titleweight": "bold",
            "axes.titlelocation": "left",
            "axes.labelsize": 10,
            "axes.grid": True,
            "grid.color": "#80808040",
            "savefig.transparent": True,
            **dict.fromkeys(("text.color", "axes.labelcolor", "xtick.color", "ytick.color", "axes.edgecolor"), INK),
            **dict.fromkeys(("axes.spines.top", "axes.spines.right", "legend.frameon"), False),
        },
    )


def show_progress() -> bool:
    """Whether long work shows a progress bar: not in a batch run, whose executed notebook would keep it as it stuck."""
    import psutil

    command: list[str] = []
    with contextlib.suppress(psutil.Error):  # a parent that is gone, or somebody else's
        if parent := psutil.Process().parent():
            command = parent.cmdline()
    return "WORKBOOK_BATCH" not in os.environ and not any(name in part for part in command for name in BATCH_RUNNERS)


def say(text: str) -> None:
    """Show a paragraph (Markdown) whose numbers were computed; no HTML, link or picture in it is live, an empty text
    shows nothing. Text from data, a model or a file goes in by way of `plain`."""
    if text:
        display(HTML(f"<div class='{NO_MATHS} said'>{safe_markdown(text)}</div>"))


def show_figure(book: Workbook, name: str, figure: Figure, title: str, alt: str, table: str) -> None:
    """Give a figure its title (at most ten words), save it in the report's `figures/`, and show it with what somebody
    who cannot see it needs to know: `alt`, and the CSV in the report's `tables/` that it is drawn from."""
    width = int(figure.get_size_inches()[0] * 10.5)  # characters of a line
    figure.suptitle(textwrap.fill(title, width), x=0.01, ha="left", fontsize=12, fontweight="bold")
    figure.tight_layout()
    path = book.write_picture(name, figure)
    plt.close(figure)
    display(Image(path.read_bytes()), metadata={"image/png": {"alt": f"{alt} Drawn from tables/{table}.csv."}})


def label_lines(axis, ends: dict[str, tuple[float, float, str]], gap: float) -> None:
    """Write each line's name at its right end, {name: (x, y, colour)}, instead of in a legend; moved apart to at least
    `gap`, in units of the axis."""
    height = float("-inf")
    for name, (x, y, color) in sorted(ends.items(), key=lambda end: end[1][1]):
        height = max(y, height + gap)
        points_up = (height - y) * axis.transData.get_matrix()[1, 1] * 72 / axis.figure.dpi
        how = {"textcoords": "offset points", "color": color, "va": "center", "fontsize": 9, "annotation_clip": False}
        axis.annotate(name, (x, y), (10, points_up), **how)


def legend_below(axis, columns: int) -> None:
    """The axis's legend below it, where it covers no data."""
    axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.24), ncol=columns, fontsize=9)


def interval(value: float, low: float, high: float, decimals: int = 1) -> str:
    """`23.7 [21.2, 26.3]`; a dash where there is no value."""
    return "–" if value != value else f"{number(value, decimals)} [{number(low, decimals)}, {number(high, decimals)}]"


def beside_published(rows: pd.DataFrame, names: Mapping[str, str] | None = None) -> pd.DataFrame:
    """A table for readers, one row a method, with another name than `label` gives or that: at each K our value with its
    interval, and our mean over queries with the paper's in brackets. Rows have columns method, k, value, ci_low,
    ci_high, over_queries, published."""
    methods = rows["method"].unique()
    table = {"method": [names[method] if names and method in names else label(method) for method in methods]}
    for k, part in rows.groupby("k"):
        part = part.set_index("method").loc[methods]
        table[f"@{k}, ours"] = [interval(*row) for row in part[["value", "ci_low", "ci_high"]].to_numpy()]
        values = zip(part["over_queries"], part["published"], strict=True)
        table[f"@{k}, over queries (paper)"] = [f"{a:.1f}" + f" ({b:.1f})" * (b == b) for a, b in values]
    return pd.DataFrame(table)


def number(value: float, decimals: int, sign: bool = False) -> str:
    """A number for readers: thousands apart, a true minus sign, no negative zero, a dash where it is missing; with a
    plus sign above zero if `sign` says so."""
    if value != value:
        return "–"
    text = f"{value:{'+' if sign else ''},.{decimals}f}"
    return text.lstrip("+-") if not text.strip("+-0.,") else text.replace("-", "−")


def p_text(p: float, decimals: int = 4) -> str:
    """A p-value for readers: `0.0312`, or `≤ 0.0001` up to that; a dash where it is missing."""
    smallest = 10.0**-decimals
    return f"≤ {number(smallest, decimals)}" if 0 <= p <= smallest else number(p, decimals)


def show_table(
    frame: pd.DataFrame,
    caption: str,
    decimals: int = 2,
    best: Mapping[str, str] | None = None,
    text_columns: Sequence[Hashable] = (),
    code_columns: Sequence[str] = (),
) -> None:
    """Show a frame as an HTML table with a caption; everything in it is escaped.

    Args:
        frame: columns in the order shown; missing values appear as a dash, floats with so many decimals.
        caption: what is counted, in which units, over how many.
        best: {column: "max" or "min"}; the best value of the column (of an interval, its first number) is set bold and
            marked with a star, which the caption explains.
        text_columns, code_columns: those of running text, aligned left, and of code, set as it is.
    """
    marked = set()
    for column, which in (best or {}).items():
        first = frame[column].map(str).str.split(" ").str[0].str.replace("−", "-").str.replace(",", "")
        numbers = pd.to_numeric(first, errors="coerce").reset_index(drop=True).dropna()
        if not numbers.empty:
            marked.add((column, numbers.idxmax() if which == "max" else numbers.idxmin()))
    columns = []
    for column in frame.columns:
        numeric = pd.api.types.is_numeric_dtype(frame[column])
        kind = "text" if column in text_columns else "number" if numeric else "label"
        if column in code_columns:
            cells = [f"<td class='code'><pre>{html.escape(readable(code))}</pre></td>" for code in frame[column]]
        else:
            texts = [_cell(value, decimals) for value in frame[column]]
            texts = [f"<b>{text}&nbsp;★</b>" if (column, row) in marked else text for row, text in enumerate(texts)]
            cells = [f"<td class='{kind}'>{text}</td>" for text in texts]
        columns.append(cells)
    head = "".join(f"<th scope='col'>{html.escape(readable(name))}</th>" for name in frame.columns)
    body = "".join(f"<tr>{''.join(cells)}</tr>" for cells in zip(*columns, strict=True))
    caption = inline_html(caption + " ★: best of its column." * bool(marked))
    table = f"<caption>{caption}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
    table = f"<table class='dataframe workbook'>{table}</table>"
    display(HTML(f"<div class='table {NO_MATHS}' tabindex='0'>{table}</div>"))


def _cell(value: object, decimals: int) -> str:
    if isinstance(value, float):
        return number(value, decimals)
    if isinstance(value, int):
        return f"{value:,}"
    return "–" if value is None or value is pd.NA else html.escape(readable(value)).replace("\n", "<br>")


# ---------------------------------------------------------------- numbers that README and the front page quote


class Quoted(Strict):
    """A number of `data/quoted.yaml`: where it stands in a report's tables, and how it is written there."""

    table: str
    where: dict[str, str | int]  # what the columns of its row say; `max` is the highest that is there
    columns: list[str] = ["value", "ci_low", "ci_high"]  # the value, and the ends of its interval where it has one
    decimals: int = 1
    text: str


def read_quoted(path: str | Path) -> dict[str, Quoted]:
    """The quoted numbers of a file by name. Raises InputError, which names the field, where one is wrong."""
    return read_yaml(path, TypeAdapter(dict[str, Quoted]))


def found_in(folder: Path, quoted: Mapping[str, Quoted]) -> dict[str, str]:
    """What a folder of result tables has in place of each number, written alike; a dash where it has no such row."""
    tables = {path.stem: pd.read_csv(path) for path in folder.glob("*.csv")}
    texts = {}
    for name, one in quoted.items():
        rows = tables.get(one.table, pd.DataFrame()).reindex(columns=[*one.where, *one.columns])
        for column, wanted in one.where.items():
            rows = rows[rows[column].astype(str) == str(rows[column].max() if wanted == "max" else wanted)]
        value, *ends = rows[one.columns].iloc[0].tolist() if len(rows) else [float("nan")]
        texts[name] = interval(value, ends[0], ends[1], one.decimals) if ends else number(value, one.decimals)
    return texts
