"""Small studies for the tests of notebook 09's pages: scored flows without any model."""

import pandas as pd

from lib.workbook.parameters.dsl_ablation import ABLATION, Condition
from lib.workflows.ablation_grid import asked_conditions, ways_of_adding
from lib.workflows.pages.dsl_ablation import Writers, study

ROWS = [Condition.model_validate(row) for row in ABLATION]
ASKED = asked_conditions(ROWS, 40, ways_of_adding([0, 1]), 6)
WRITERS = Writers("SmolLM2-135M-Instruct", "SmolLM2-135M-Instruct", 512)


def scored(condition, similarities, **columns):
    """A flow for each similarity; None is one that does not parse."""
    return pd.DataFrame(
        {
            "condition": condition,
            "unit": [f"q{i}" for i in range(len(similarities))],
            "text": "a.B();",
            "finished": True,
            "parsed": [value is not None for value in similarities],
            "valid": [value is not None for value in similarities],
            "similarity": [float(value or 0) for value in similarities],
            "made_up_names": [()] * len(similarities),
            "made_up_parameters": [()] * len(similarities),
            "tokens_in": 100.0,
            "tokens_out": 10.0,
            "seconds": 0.5,
            "dropped": 0.0,
        }
        | columns
    )


def study_of(similarities, writers=WRITERS, asked=ASKED, **columns):
    """A study of {condition: similarity of each flow}."""
    scores = pd.concat([scored(name, values, **columns) for name, values in similarities.items()], ignore_index=True)
    return study(scores, asked, writers, samples=200, seed=0)
