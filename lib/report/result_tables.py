"""The tables of `reports/README.md`, written from those of the committed report.

python -m lib.report.result_tables quick

Each stands in the text between `<!-- table: NAME -->` and `<!-- /table -->`; the words around are written by people.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import pandas as pd

from lib.assistant.instruct_planner import PREFIXES
from lib.assistant.planner import BY_LAMBDAMART, SETTINGS
from lib.assistant.planner_worlds import BY_OURS
from lib.assistant.unseen_needs import TRAINED
from lib.workbook.artifacts import ROOT, atomic_path
from lib.workbook.display import interval, number
from lib.workbook.methods import label
from lib.workflows.pages.common import TEST_SETS

README = Path("reports") / "README.md"
TABLE = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- /table -->)", re.DOTALL)

CONTEXT = {
    "random": "random order",
    "recency": "most recent first",
    "bm25t": "BM25T",
    "semantic": "semantic search, pretrained",
    "cot": "chain of thought, zero-shot",
    "cot_distilled": "chain of thought, distilled",
    "finetuned": "fine-tuned search",
    "finetuned_cot": "fine-tuned search with chain of thought",
    "lambdamart": "LambdaMART",
    "lambdamart_2": "LambdaMART in two stages (ours)",
    "lambdamart_2_finetuned": "two stages with the fine-tuned encoder, cross-fitted (ours)",
    "rrf_text": "RRF of the text rankings",
    "lambdamart_rrf": "LambdaMART-RRF",
}
KINDS = ("all", "meaning", "habit", "either")
OF_PLANS = {"ast_accuracy": "AST accuracy", "exact_match": "exact match", "hallucination": "hallucination"}
SHOTS = {
    "random": "chance",
    "bm25t": "words (BM25T)",
    "pretrained": "pretrained encoder",
    "tst": "the same after target similarity tuning on 100,000 pairs",
    "oracle_shots": "oracle that knows the flow",
}
WORDINGS = {name: TEST_SETS[name] for name in ("test", "test_same")}
FLOWS = {  # model, decoding, few-shots by, how many, definitions
    ("copy", "free", "pretrained", 1, "none"): "nearest request's flow copied, pretrained encoder",
    ("copy", "free", "tst", 1, "none"): "the same by TST",
    ("fine-tuned", "free", "none", 0, "none"): "fine-tuned model",
    ("fine-tuned", "catalogue", "none", 0, "none"): "the same under the catalogue's grammar",
    ("in-context", "free", "pretrained", 5, "none"): "in-context model, five few-shots, pretrained encoder",
    ("in-context", "free", "tst", 5, "none"): "the same by TST",
    ("in-context", "free", "tst", 5, "fd"): "five few-shots by TST, with definitions",
    ("in-context", "free", "tst", 20, "none"): "twenty few-shots by TST",
    ("in-context", "free", "tst", 20, "fd"): "twenty few-shots by TST, with definitions",
    ("in-context", "free", "none", 0, "none"): "no few-shots",
    ("in-context", "free", "random", 5, "none"): "five few-shots drawn at random",
    ("in-context", "free", "other", 5, "none"): "five few-shots of another request",
}


def markdown(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table in Markdown, one line a row, with a line break at its end."""
    columns = list(columns)
    lines = [f"| {' | '.join(row)} |\n" for row in [columns, *map(list, rows)]]
    return "".join([lines[0], f"|{'---|' * len(columns)}\n", *lines[1:]])


def cell(row: pd.Series, decimals: int) -> str:
    """A value with its interval."""
    return interval(row["value"], row["ci_low"], row["ci_high"], decimals)


def context(tables: Path) -> str:
    """Recall@3 of each method by kind of query; a method that only a sample of the queries has gets a star."""
    frame = pd.read_csv(tables / "context_retrieval.csv").query("metric == 'recall' and k == 3")
    by = (
        frame[~frame["sample"].isin(["unseen_needs", "held_out_needs"])]
        .drop_duplicates(["method", "kind"])
        .set_index(["method", "kind"])
    )
    rows = [
        [
            name + ("*" if by.loc[(method, "all"), "sample"] != "all" else ""),
            *(cell(by.loc[(method, kind)], 1) for kind in KINDS),
            number(by.loc[(method, "all"), "published"], 2),
        ]
        for method, name in CONTEXT.items()
    ]
    return markdown(["method", *KINDS, "published"], rows)


def unseen(tables: Path) -> str:
    """Recall@3 of the trained methods with and without a query's need in training, and over training seeds."""
    files = [pd.read_csv(tables / f"{name}.csv") for name in ("context_retrieval", "context_ablation")]  # and variants
    frame = pd.concat(files).query("metric == 'recall' and k == 3 and kind == 'all'")
    by = frame.drop_duplicates(["method", "sample"]).set_index(["method", "sample"])
    seeds = pd.read_csv(tables / "training_seeds.csv").set_index("of")
    rows = []
    for method in ("semantic", *TRAINED):
        known, fresh = (cell(by.loc[(method, sample)], 1) for sample in ("all", "unseen_needs"))
        again = seeds.reindex([method]).iloc[0]  # no number where a method has no further seed
        rows.append([CONTEXT.get(method, f"{method} (ours)"), known, fresh, cell(again, 1), number(again["spread"], 1)])
    heads = ["trained with the need", "never told of it", "over three training seeds", "standard deviation over seeds"]
    return markdown(["method", *heads], rows)


def plans(tables: Path) -> str:
    """Table 3, ours beside the published values; AST accuracy also over training seeds."""
    by = pd.read_csv(tables / "planner.csv").set_index(["setting", "metric"])
    seeds = pd.read_csv(tables / "planner_seeds.csv").set_index("of")
    rows = []
    for setting in SETTINGS:
        parts = [by.loc[(setting, metric)] for metric in OF_PLANS]
        cells = [text for part in parts for text in (cell(part, 1), number(part["published"], 2))]
        rows.append([label(setting), *cells[:2], cell(seeds.loc[setting], 1), *cells[2:]])
    heads = [text for name in OF_PLANS.values() for text in (name, "published")]
    return markdown(["setting", *heads[:2], "over three training seeds", *heads[2:]], rows)


def untuned(tables: Path) -> str:
    """Table 3 by the tuned planner and by a larger model, untuned and tuned."""
    by = pd.read_csv(tables / "planner_instruct.csv").set_index(["model", "setting", "metric"])
    models = [name for name in PREFIXES if name in by.index.get_level_values("model")]
    shown = [(model, metric) for metric in ("ast_accuracy", "right_api") for model in models]
    rows = [
        [label(setting), *(cell(by.loc[(model, setting, metric)], 1) for model, metric in shown)]
        for setting in SETTINGS
    ]
    named = {"ast_accuracy": "AST accuracy", "right_api": "right API"}
    return markdown(["setting", *(f"{named[metric]}, {model}" for model, metric in shown)], rows)


def worlds(tables: Path) -> str:
    """AST accuracy of the settings of Table 3 in each named world, context by LambdaMART, with tools by cosine and by
    our ranker."""
    frame = pd.read_csv(tables / "planner_worlds.csv").query("metric == 'ast_accuracy'")
    by, names = frame.set_index(["setting", "world"]), list(frame["world"].unique())
    settings = {BY_LAMBDAMART.get(setting, setting): label(setting) for setting in SETTINGS}
    rows = []
    for setting, name in settings.items():
        ours = {BY_OURS[setting]: f"{name}, tools by our ranker"} if setting in BY_OURS else {}
        for row, words in ({setting: name} | ours).items():
            values = (cell(by.loc[(row, world)], 1) for world in names)
            rows.append([words, *values, number(by.loc[row, "published"].iloc[0], 2)])
    return markdown(["setting", *(f"`{world}`" for world in names), "published"], rows)


def few_shots(tables: Path) -> str:
    """What five few-shots share with the flow wanted."""
    frame = pd.read_csv(tables / "few_shot_retrieval.csv").query("shots == 5")
    by = frame.set_index(["selector", "test_set", "metric"])
    asked = [(test_set, metric) for test_set in WORDINGS for metric in ("jaccard", "coverage")]
    names = {"jaccard": "Jaccard", "coverage": "APIs shown"}
    rows = [[name, *(cell(by.loc[(way, *column)], 2) for column in asked)] for way, name in SHOTS.items()]
    return markdown(["few-shots chosen by", *(f"{names[metric]}, {WORDINGS[one]}" for one, metric in asked)], rows)


def flows(tables: Path) -> str:
    """Similarity, valid and executed flows of what writes them, on both test sets."""
    frame = pd.read_csv(tables / "dsl_fair.csv", keep_default_na=False, na_values=[""])
    model = frame["generator"].str.rpartition(", ")[2]
    keys = [model, frame["decoding"], frame["selector"], frame["shots"], frame["definitions"]]
    by = frame.assign(row=list(zip(*keys, strict=True))).set_index(["row", "test_set", "metric"])
    rows = []
    for key, name in FLOWS.items():
        cells = []
        for test_set in WORDINGS:
            similarity, valid, executed = (
                by.loc[(key, test_set, metric)] for metric in ("similarity", "valid", "executed")
            )
            cells += [f"{int(similarity['n'])}", cell(similarity, 2), cell(valid, 0), cell(executed, 0)]
        rows.append([name, *cells])
    columns = [
        text for name in WORDINGS.values() for text in ("test flows", f"similarity, {name}", "valid, %", "run right, %")
    ]
    return markdown(["what writes", *columns], rows)


TABLES: dict[str, Callable[[Path], str]] = {
    "context": context,
    "unseen": unseen,
    "plans": plans,
    "worlds": worlds,
    "untuned": untuned,
    "few_shots": few_shots,
    "flows": flows,
}


def written_anew(text: str, tables: Path) -> str:
    """A text with each of its tables as the folder's tables have it.

    Raises:
        ValueError: a table has no such name.
    """

    def table(found: re.Match) -> str:
        if found[2] not in TABLES:
            raise ValueError(f"no table is called “{found[2]}”; there are {', '.join(TABLES)}")
        return f"{found[1]}{TABLES[found[2]](tables)}{found[3]}"

    return TABLE.sub(table, text)


def main(profile: str, root: Path = ROOT) -> None:
    text = written_anew((root / README).read_text(encoding="utf-8"), root / "reports" / profile / "tables")
    with atomic_path(root / README) as temporary:
        temporary.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "quick")
