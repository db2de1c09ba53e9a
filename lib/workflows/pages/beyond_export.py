"""Notebook 12: right flows as Power Automate's definitions, and read back."""

from __future__ import annotations

import json
from collections.abc import Iterable

import pandas as pd

from lib.workbook.display import Table
from lib.workflows.execution import executed_alike
from lib.workflows.language import parse
from lib.workflows.power_automate import ExportError, from_power_automate, to_power_automate


def round_trips(texts: Iterable[str]) -> pd.DataFrame:
    """Flows written as definitions, as JSON, and read back.

    Returns:
        one row a flow: text, problem (why it cannot be exported; empty where it can), same (read back and run it does
        what the flow does: False where it cannot be exported).
    """
    rows = []
    for text in texts:
        flow = parse(text)
        try:
            definition = json.loads(json.dumps(to_power_automate(flow)))
            rows.append((text, "", executed_alike(from_power_automate(definition), flow)))
        except ExportError as error:
            rows.append((text, str(error), False))
    return pd.DataFrame(rows, columns=["text", "problem", "same"])


def export_in_words(trips: pd.DataFrame) -> str:
    """How many flows a definition can say, and how many of these come back as they were."""
    written = trips[trips["problem"] == ""]
    why = trips.loc[trips["problem"] != "", "problem"].value_counts()
    besides = f" The others: {'; '.join(f'{text} ({n})' for text, n in why.items())}." if len(why) else ""
    return (
        f"Of {len(trips):,} right flows {len(written):,} are exported; read back and run on mocked connectors, "
        f"{int(written['same'].sum()):,} of these make the same calls with the same arguments.{besides} In the tests "
        "exported flows are held against the structure that the language's reference describes. Whether a trigger "
        "polls or is called cannot be told from a flow: the definition says that it is called. Connections are made "
        "where it is imported."
    )


def example_table(trips: pd.DataFrame) -> Table:
    """The shortest exported flow with a condition, or without one, beside its definition."""
    written = trips.loc[trips["problem"] == "", "text"].drop_duplicates()
    with_condition = written[written.str.contains("if (", regex=False)]
    text = min(with_condition if len(with_condition) else written, key=len)
    definition = json.dumps(to_power_automate(parse(text)), indent=2, ensure_ascii=False)
    frame = pd.DataFrame({"flow": [text], "definition": [definition]})
    return Table(frame, "A flow, and what is imported into Power Automate.", code_columns=["flow", "definition"])
