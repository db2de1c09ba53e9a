"""Figures and tables as a reader sees them: a finding as title, alt text, 95% intervals, ours beside published."""

from __future__ import annotations

import html
import os
import textwrap
from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from IPython.display import HTML, Image, Markdown, display

from lib.workbook.artifacts import Workbook

# One colour and one marker a method in all notebooks: Okabe and Ito's palette, readable by colour-blind readers; the
# markers tell the methods apart in greyscale.
STYLES = {
    "random": ("#999999", "x"),
    "recency": ("#6b6b6b", "+"),
    "bm25t": ("#E69F00", "s"),
    "bm25t_per_store": ("#B57A00", "p"),
    "semantic": ("#0072B2", "o"),
    "cot": ("#56B4E9", "v"),
    "cot_distilled": ("#2F8FC4", "<"),
    "finetuned": ("#009E73", "^"),
    "finetuned_cot": ("#4DBA97", ">"),
    "finetuned_subset": ("#7A9E00", "P"),
    "finetuned_unseen_needs": ("#00614A", "X"),
    "lambdamart": ("#CC79A7", "D"),
    "rrf_text": ("#8C6BB1", "h"),
    "lambdamart_rrf": ("#D55E00", "*"),
    "lambdamart_no_usage": ("#999933", "d"),
    "time_match": ("#882255", "H"),
    "published": ("#000000", "_"),
    "query_only": ("#4C5A67", "8"),
    "query_plus_semantic_context": ("#3E8FD0", (4, 1, 0)),
    "query_plus_context": ("#C23B00", (5, 1, 0)),
    "oracle_context": ("#00785A", (3, 0, 180)),
    "query_plus_context_text": ("#E0925F", (3, 1, 0)),
    "query_plus_random_context": ("#B79A6A", (3, 0, 90)),
    "query_plus_other_context": ("#7F8C4A", (3, 0, 270)),
    "right_app": ("#5B3A8C", (6, 1, 0)),
    "random_app": ("#BDBDBD", "3"),
    "context_only": ("#A0622D", "4"),
    "frequency": ("#6F4E37", (4, 1, 45)),
    "classifier": ("#B8860B", (5, 0, 0)),
    "lower_bound": ("#8A8D91", (4, 0, 0)),
    "rag": ("#2A78B5", (3, 0, 0)),
    "context_tuned_rag": ("#D1570A", (5, 0, 36)),
    "upper_bound": ("#6FB7A3", (6, 0, 0)),
    "context_tuned_upper_bound": ("#0B7A5E", (8, 1, 0)),
    "pretrained": ("#2457A6", (7, 0, 0)),
    "tst": ("#C0392B", (7, 1, 0)),
    "oracle_shots": ("#1B7837", (8, 0, 0)),
    "fd": ("#7B5EA7", (4, 2, 0)),
    "sfd": ("#C98B00", (5, 2, 0)),
    "fd_sfd": ("#3F7F93", (6, 2, 0)),
    "finetuned_dsl": ("#00695C", (10, 1, 0)),
    "written_free": ("#8E44AD", (9, 1, 0)),
    "written_schema": ("#16809A", (9, 0, 0)),
}


LABELS = {
    "random": "random order",
    "recency": "most recent first",
    "bm25t": "BM25T",
    "bm25t_per_store": "BM25T per store",
    "semantic": "semantic search",
    "cot": "CoT",
    "cot_distilled": "CoT, distilled",
    "finetuned": "fine-tuned search",
    "finetuned_cot": "fine-tuned with CoT",
    "finetuned_subset": "fine-tuned, CoT's pairs alone",
    "finetuned_unseen_needs": "fine-tuned, needs held out",
    "lambdamart": "LambdaMART",
    "rrf_text": "RRF of text rankings",
    "lambdamart_rrf": "LambdaMART-RRF",
    "lambdamart_no_usage": "LambdaMART without usage",
    "time_match": "time match, not learned",
    "query_only": "query alone",
    "query_plus_semantic_context": "query + context by semantic search",
    "query_plus_context": "query + retrieved context",
    "query_plus_context_text": "query + retrieved context, its content alone",
    "oracle_context": "query + all relevant context",
    "query_plus_random_context": "query + random context",
    "query_plus_other_context": "query + another query's context",
    "right_app": "query + the right app's name",
    "random_app": "query + a random app's name",
    "context_only": "retrieved context without the query",
    "rrf": "RRF of both",
    "frequency": "commonest tools, whatever the query",
    "classifier": "classifier of queries",
    "frequency_unseen": "commonest tools, needs unseen",
    "classifier_unseen": "classifier of queries, needs unseen",
    "lower_bound": "no retrieval (lower bound)",
    "rag": "retrieved tools (RAG)",
    "context_tuned_rag": "retrieved tools and context (context-tuned RAG)",
    "upper_bound": "the right tool (upper bound)",
    "context_tuned_upper_bound": "the right tool and context (context-tuned upper bound)",
    "context_tuned_rag_cot": "context-tuned RAG with CoT",
    "rag_cot": "RAG with CoT",
    "pretrained": "pretrained encoder",
    "tst": "TST",
    "oracle_shots": "oracle",
    "fd": "FD",
    "sfd": "SFD",
    "fd_sfd": "FD + SFD",
    "finetuned_dsl": "fine-tuned model",
    "pretrained_fd": "pretrained encoder + FD",
    "tst_fd": "TST + FD",
    "tst_sfd": "TST + SFD",
    "tst_fd_sfd": "TST + FD + SFD",
    "unseen_pretrained": "unseen APIs: pretrained encoder",
    "unseen_sfd": "unseen APIs: pretrained encoder + SFD",
    "unseen_new_shot": "unseen APIs: an example of each added",
    "unseen_fd_sfd_new_shot": "unseen APIs: an example of each added, FD + SFD",
    "unseen_finetuned_dsl": "unseen APIs: fine-tuned model",
}


def label(method: str) -> str:
    """A method's name for readers."""
    return LABELS.get(method, method)


def use_style() -> None:
    """The workbook's one matplotlib style."""
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
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "grid.color": "#e6e6e6",
            "legend.frameon": False,
        },
    )


def colour(method: str) -> str:
    return STYLES.get(method, ("#333333", "."))[0]


def marker(method: str) -> str:
    return STYLES.get(method, ("#333333", "."))[1]


def show_progress() -> bool:
    """Whether long work should show a progress bar: in a terminal and in JupyterLab, not in a batch run, whose pages
    would keep it as a bar that is stuck."""
    return "WORKBOOK_BATCH" not in os.environ


def say(text: str) -> None:
    """Show a paragraph (Markdown) whose numbers were computed."""
    display(Markdown(text))


def show_figure(book: Workbook, figure, name: str, finding: str, alt: str, data: pd.DataFrame) -> None:
    """Save a figure with its finding as title and the numbers behind it, and show it with alt text.

    Args:
        figure: matplotlib figure without a title of its own.
        name: file name in the report's `figures/`.
        finding: one sentence, computed from the data.
        alt: what somebody who cannot see the picture needs to know.
        data: the numbers drawn.
    """
    width = figure.get_size_inches()[0]
    figure.suptitle(textwrap.fill(finding, int(width * 11.5)), x=0.01, ha="left", fontsize=12, fontweight="bold")
    figure.tight_layout()
    path = book.write_figure(name, figure, data)
    plt.close(figure)
    display(Image(path.read_bytes()), metadata={"image/png": {"alt": alt}})


def label_lines(axis, ends: dict[str, tuple[float, float, str]], gap: float) -> None:
    """Write each line's name at its right end instead of in a legend, moved apart where they would overlap.

    Args:
        ends: {name: (x, y, colour)}.
        gap: smallest vertical distance between two names, in units of the axis.
    """
    height = float("-inf")
    for name, (x, y, color) in sorted(ends.items(), key=lambda end: end[1][1]):
        height = max(y, height + gap)
        points_up = (height - y) * axis.transData.get_matrix()[1, 1] * 72 / axis.figure.dpi
        axis.annotate(
            name,
            (x, y),
            (10, points_up),
            textcoords="offset points",
            color=color,
            va="center",
            fontsize=9,
            annotation_clip=False,
        )


def legend_below(axis, columns: int) -> None:
    """The axis's legend below it, where it covers no data."""
    axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.24), ncol=columns, fontsize=9)


def interval(value: float, low: float, high: float, decimals: int = 1) -> str:
    """`23.7 [21.2, 26.3]`; a dash where there is no value."""
    return "–" if value != value else f"{number(value, decimals)} [{number(low, decimals)}, {number(high, decimals)}]"


def beside_published(rows: pd.DataFrame, names: Mapping[str, str] | None = None) -> pd.DataFrame:
    """A table for readers, one row a method: at each K our value with its interval, and the paper's.

    Args:
        rows: columns method, k, value, ci_low, ci_high, published; one row for each method and K.
        names: of methods that have another name here than `label` gives.
    """
    methods = rows["method"].unique()
    table = {"method": [(names or {}).get(method, label(method)) for method in methods]}
    for k, part in rows.groupby("k"):
        part = part.set_index("method").loc[methods]
        table[f"@{k}, ours"] = [interval(*row) for row in part[["value", "ci_low", "ci_high"]].to_numpy()]
        table[f"@{k}, paper"] = part["published"].tolist()
    return pd.DataFrame(table)


def number(value: float, decimals: int, sign: bool = False) -> str:
    """A number for readers: thousands apart, a true minus sign, no negative zero, a dash where it is missing.

    Args:
        sign: whether a number above zero has a plus sign.
    """
    if value != value:
        return "–"
    text = f"{value:{'+' if sign else ''},.{decimals}f}"
    return text.lstrip("+-") if not text.strip("+-0.,") else text.replace("-", "−")


def show_table(
    frame: pd.DataFrame,
    caption: str,
    decimals: int = 2,
    best: dict[str, str] | None = None,
    text_columns: Sequence[str] = (),
    among: str | None = None,
    code_columns: Sequence[str] = (),
) -> None:
    """Show a frame as an HTML table with a caption; everything in it is escaped.

    Args:
        frame: columns in the order shown; missing values appear as a dash.
        caption: what is counted, in which units, over how many.
        decimals: of floating-point columns.
        best: {column: "max" or "min"}; the best value of the column (of an interval, its first number) is set bold and
            marked with a star, which the caption explains.
        text_columns: columns of running text, aligned left.
        among: a column that tells samples apart; the best of each is marked, unless it has no rival there.
        code_columns: columns of code, set as it is.
    """
    winners = {}
    for column, which in (best or {}).items():
        first = frame[column].map(str).str.split(" ").str[0].str.replace("−", "-").str.replace(",", "")
        numbers = pd.to_numeric(first, errors="coerce").dropna()
        rivals = numbers.groupby(frame[among] if among else lambda _: 0)
        winners[column] = [
            part.idxmax() if which == "max" else part.idxmin() for _, part in rivals if len(part) > 1 or not among
        ]
    if any(winners.values()):
        caption += f" ★: best of its column{f' among rows of the same “{among}”' if among else ''}."
    head = "".join(f"<th scope='col'>{html.escape(str(column))}</th>" for column in frame.columns)
    body = []
    for index, row in frame.iterrows():
        cells = []
        for column in frame.columns:
            text = cell_text(row[column], decimals)
            if index in winners.get(column, ()):
                text = f"<b>{text}&nbsp;★</b>"
            numeric = pd.api.types.is_numeric_dtype(frame[column])
            kind = "text" if column in text_columns else ("number" if numeric else "label")
            if column in code_columns:
                kind, text = "code", f"<pre>{html.escape(row[column])}</pre>"
            cells.append(f"<td class='{kind}'>{text}</td>")
        body.append(f"<tr>{''.join(cells)}</tr>")
    display(
        HTML(
            f"<div class='table'><table class='workbook'><caption>{html.escape(caption)}</caption>"
            f"<thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table></div>"
        )
    )


def cell_text(value: object, decimals: int) -> str:
    if isinstance(value, float):
        return number(value, decimals)
    if isinstance(value, int):
        return f"{value:,}"
    if value is None or value is pd.NA:
        return "–"
    return html.escape(str(value)).replace("\n", "<br>")
