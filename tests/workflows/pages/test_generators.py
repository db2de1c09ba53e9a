"""What notebook 10 shows and says of requests that a language model writes for flows."""

import numpy as np
import pandas as pd

from lib.workflows.pages import generators as page
from lib.workflows.written_requests import REASONS


def test_requests_by_writer():
    said = {"a model": ["Post it", "post it now"], "the simulator": ["File the form", "Mail"]}
    ranks = {"a model": np.array([1, 6]), "the simulator": np.array([2, 5])}
    table = page.requests_table(said, ranks, 200)
    assert table.frame.iloc[0].tolist() == ["a model", 2, 2.5, 50.0, "50 [9, 91]", "50 [9, 91]"]
    assert table.frame.iloc[1].tolist() == ["the simulator", 2, 2.0, 100.0, "0 [0, 66]", "100 [34, 100]"]
    assert (
        "among 200; 95% Wilson intervals. By chance 0.5% and 2.5%. Distinct-1 over the first 4 words of each."
        in table.caption
    )


def counts(**more):
    return pd.Series(dict.fromkeys(["at_once", "repaired", *REASONS], 0) | {"pairs": 3, "answers": 4} | more)


def test_how_many_were_written_and_why_answers_were_refused():
    said = page.written_sentence(counts(at_once=1, repaired=1, code=2, empty=1), "a_model")
    assert said == (
        r"a\_model wrote 2 of 3 requests (1 at once, 1 after being told what was wrong); of 4 answers, refused were: "
        "empty 1, code 2."
    )
    assert page.written_sentence(counts(at_once=3), "m").endswith("refused were: none.")


def test_a_flow_with_both_requests():
    table = page.example_table(pd.Series({"dsl": "x;", "request": "do x", "apis": []}), "please do x", "a model")
    assert table.frame.to_numpy().tolist() == [
        ["the flow", "x;"],
        ["the simulator", "do x"],
        ["a model", "please do x"],
    ]
