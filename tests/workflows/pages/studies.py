"""Small studies for the tests of notebook 09's pages: scored flows without any model."""

import pandas as pd

from lib.workflows.ablation import Condition
from lib.workflows.ablation_grid import asked_conditions
from lib.workflows.pages.dsl_ablation import Writers, study
from tests.workflows.ablation_rows import ABLATION

INSTRUCT = [[selector, 5, "none", "instruct", "free", 3] for selector in ("pretrained", "tst")]
MORE = [["pretrained", 5, "none", "in_context", "grammar", 3], *INSTRUCT]
ROWS = [Condition.model_validate(row) for row in [*ABLATION, *MORE]]
ASKED = asked_conditions(ROWS, {"test": 40, "test_same": 40}, [0, 1], 6, "in_context")
BASE = "SmolLM2-135M-Instruct"
WRITERS = Writers("in_context", dict.fromkeys(("untuned", "finetuned", "in_context"), BASE) | {"instruct": "Qwen"}, 512)
REMOTE = Writers("untuned", {"untuned": "remote:gpt-4", "finetuned": BASE}, 512)
FIVE, TWENTY, FIVE_TST, TWENTY_TST = (
    f"{selector}_{shots}_in_context" for selector in ("pretrained", "tst") for shots in (5, 20)
)


def scored(condition, similarities, test_set="test", **columns):
    """A flow for each similarity; None is one that does not parse."""
    prefix = "" if test_set == "test" else f"{test_set} "
    return pd.DataFrame(
        {
            "condition": condition,
            "test_set": "unseen" if condition.startswith("unseen") else test_set,
            "unit": [f"{prefix}q{i}" for i in range(len(similarities))],
            "half": "a",
            "text": "a.B();",
            "finished": True,
            "parsed": [value is not None for value in similarities],
            "valid": [value is not None for value in similarities],
            "similarity": [float(value or 0) for value in similarities],
            "executed": [value == 1 for value in similarities],
            "made_up_names": [()] * len(similarities),
            "made_up_parameters": [()] * len(similarities),
            "tokens_in": 100.0,
            "tokens_out": 10.0,
            "seconds": 0.5,
            "dropped": 0.0,
        }
        | columns
    )


def study_of(similarities, writers=WRITERS, asked=ASKED, same=None, **columns):
    """A study of {condition: similarity of each flow}; `same` has those of the second test set."""
    parts = [scored(name, values, **columns) for name, values in similarities.items()]
    parts += [scored(name, values, "test_same", **columns) for name, values in (same or {}).items()]
    return study(pd.concat(parts, ignore_index=True), asked, writers, samples=200, seed=0)
