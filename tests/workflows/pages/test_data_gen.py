"""What notebook 01 shows and says of the catalogue, flows and pairs, for each thing that it can say."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from bs4 import BeautifulSoup
from nbconvert.filters import markdown2html

from lib.workbook.markup import safe_markdown
from lib.workflows.apis import API, Connector, Field
from lib.workflows.catalogue import Catalogue
from lib.workflows.pages import data_gen as page

HOSTILE = "<script>alert(1)</script> **bold** _it_ [a](javascript:alert(1)) `c` <img src=x onerror=alert(1)>"
OURS, OWN = page.Source(), page.Source(apis="apis", pairs="pairs.jsonl")


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


def rendered(sentence):
    return BeautifulSoup(markdown2html(safe_markdown(sentence)), "html.parser")


def field(key):
    return Field(key=key, kind="text", type="string")


@pytest.fixture(scope="module")
def catalogue():
    apis = [
        API("s", "On", "On", "S", trigger=True, in_training=True),
        API("s", "Post", "Post", "S", in_training=True, parameters=(field("text"), field("to"), field("from"))),
        API("t", "File", "File", "T", parameters=(field("name"),)),
    ]
    connectors = {name: Connector(name, name.upper(), ()) for name in ("s", "t")}
    return Catalogue({api.name: api for api in apis}, connectors)


PAIRS = pd.DataFrame(
    [
        ("a", "training", "Post the new one", "x = await s.On();\ns.Post();", ["s.On", "s.Post"], 2, 0),
        ("b", "training", "Tell me", "x = await s.On();", ["s.On"], 1, 0),
        ("c", "test", "Post it", "x = await s.On();\ns.Post();", ["s.On", "s.Post"], 2, 1),
        ("d", "unseen", "File it", "x = await s.On();\nt.File();", ["s.On", "t.File"], 2, 0),
    ],
    columns=["pair", "split", "request", "dsl", "apis", "n_calls", "conditions"],
)


# ---- the catalogue


def shape(within=True):
    rows = [("APIs", 680, 720, 698.0, True), ("triggers", 3, 3, 4.0, within)]
    return pd.DataFrame(rows, columns=["quantity", "least", "most", "ours", "within"])


def test_shape_beside_the_plan_where_it_is_ours():
    frame = page.shape_table(shape(), OURS).frame
    assert frame.to_numpy().tolist() == [["APIs", "680 to 720", "698"], ["triggers", "3", "4"]]
    own = page.shape_table(shape(), OWN)
    assert own.frame.columns.tolist() == ["quantity", "ours"]
    assert own.caption == "Shape of your own catalogue, from apis."


def test_what_is_outside_its_range_is_named(catalogue):
    assert page.shape_sentence(shape(), catalogue, OURS) == "2 of the 2 figures lie in their range."
    said = page.shape_sentence(shape(within=False), catalogue, OURS)
    assert said == "1 of the 2 figures lie in their range: outside are triggers."


def test_documents_read_and_left_out(catalogue):
    assert page.shape_sentence(shape(), catalogue, OWN) == "2 documents were read, **0 could not be**."
    some = Catalogue(catalogue.apis, catalogue.connectors, [("bad.json", HOSTILE)])
    assert page.shape_sentence(shape(), some, OWN).endswith("**1 could not be** and are left out:")
    assert page.skipped_table(some).frame.to_numpy().tolist() == [["bad.json", HOSTILE]]


def test_the_catalogue_in_a_figure(catalogue):
    drawing = page.catalogue_figure(catalogue)
    assert drawing.finding == (
        "1 of 2 connectors hold half of the 3 APIs; an API takes 1 parameters in the median, 3 at most"
    )
    assert "from 2 down to 1" in drawing.alt
    assert drawing.data["parameters"].tolist() == [0, 3, 1]


def test_one_api_in_three_forms(catalogue):
    table = page.api_table(catalogue)
    assert table.frame.columns.tolist() == ["form", "s.On"], "the first where the one that is shown is not there"
    named = API("shared_outlook", "SendEmailV2", "Send", "Outlook", parameters=tuple(map(field, "abc")))
    table = page.api_table(Catalogue(catalogue.apis | {named.name: named}, catalogue.connectors))
    assert "of its 3 parameters and 0 response fields" in table.caption
    record = table.frame.set_index("form").loc["record (A.2)", named.name]
    assert '"a"' in record
    assert '"c"' not in record


# ---- requests that a model writes


# ---- test pairs that people judge


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ([0, 1, 1, 0, 0], "1 of 2 test pairs are dropped and 1 fixed. **Of the 1 that are left, 1 was judged.**"),
        ([2, 1, 0, 4, 1], "0 of 8 test pairs are dropped and 1 fixed. **Of the 8 that are left, 3 were judged.**"),
    ],
)
def test_what_people_decided(numbers, words):
    decided = pd.DataFrame({"decision": ["keep", "fix", "drop", "undecided", "not in the file"], "pairs": numbers})
    assert page.review_sentence(decided) == words
    assert page.review_table(decided, "some.jsonl").caption.endswith("by some.jsonl.")


# ---- the pairs


def test_pairs_of_ours_were_checked(catalogue):
    said = page.pairs_sentence(PAIRS, catalogue, OURS)
    assert said.startswith("**4 pairs** of a request and a flow: 2 for training, 1 for the test, 1 with APIs")
    assert "4 of 4 passed" in said
    assert "The 1 APIs held out" in said


@pytest.mark.parametrize(
    ("dsl", "words"),
    [
        ("x = await s.Off();", "1 flow calls APIs and 0 flows have parameters that the catalogue lacks"),
        ('x = await s.On({"a": 1});', "0 flows call APIs and 1 flow has parameters that the catalogue lacks"),
    ],
)
def test_what_your_own_pairs_use_beyond_the_catalogue(catalogue, dsl, words):
    own = PAIRS.assign(dsl=[dsl, *PAIRS["dsl"].iloc[1:]])
    assert f"These are your own; {words}." in page.pairs_sentence(own, catalogue, OWN)


def test_lengths_by_split():
    lengths = pd.DataFrame(
        [("test", 2, 1.0), ("training", 1, 0.5), ("training", 2, 0.5)], columns=["split", "n_calls", "share"]
    )
    seen = PAIRS[PAIRS["split"] != "unseen"]
    table = page.lengths_table(seen, lengths)
    assert table.frame.columns.tolist() == ["API calls", "training", "test"], "a split without pairs has no column"
    assert table.frame["API calls"].tolist() == [1, 2, "with a condition"]
    assert table.frame["training"].tolist() == [50, 50, 0]
    assert table.frame["test"].tolist()[1:] == [100, 100]
    assert "2 training, 1 test pairs." in table.caption


def test_lengths_in_words():
    assert page.lengths_sentence(PAIRS) == (
        "A training flow has 1.5 calls on average and its request 3 words in the median (9 of 10 between 2 and 4); "
        "2 different sequences of APIs."
    )


def test_use_of_apis():
    calls = [50, *[1] * 50]
    drawing = page.use_figure(pd.DataFrame({"rank": range(1, 52), "calls": calls}))
    assert drawing.finding == (
        "The 50 commonest of 51 APIs make 99% of the calls in training flows; the median API is called 1 times, the "
        "rarest 1"
    )
    assert "from 50 calls of the commonest down to 1" in drawing.alt


def test_examples_from_short_to_long():
    table = page.pair_examples(PAIRS, PAIRS["pair"].head(2))
    assert table.frame["request"].tolist() == ["Tell me", "Post the new one"]
    assert table.code_columns == ["flow"]


def test_reworded_requests():
    assert page.reworded_sentence(3, 3) == "3 of the 3 reworded requests belong to these pairs."
    assert page.reworded_sentence(0, 3).endswith("; the others were reworded for other flows and are left out.")
    reworded = pd.DataFrame({"original": list("abcd"), "request": list("wxyz"), "pair": 1})
    assert page.reworded_table(reworded).frame.to_numpy().tolist() == [["a", "w"], ["b", "x"], ["c", "y"]]


def nearest():
    rows = [("test", 1.0), ("test", 0.5), ("test", 0.0), ("unseen", 0.5)]
    return pd.DataFrame(rows, columns=["split", "similarity"])


# ---- pairs to tune on, sizes, finding


def test_targets_by_kind():
    mined = pd.DataFrame({"cosine": [0.9, 0.8, 0.1], "positive": [True, True, False]}, index=[5, 6, 7])
    frame = page.targets_table(mined, pd.Series([1.0, 0.5, 0.0])).frame.set_index("kind")
    assert frame.loc["positive"].tolist() == pytest.approx([2, 0.85, 0.75, 0, 50])
    assert frame.loc["negative"].tolist() == pytest.approx([1, 0.1, 0, 100, 0])


def test_how_many_pairs_are_alike():
    assert page.mined_sentence(4, 5, 100, 0.7) == (
        "Of the 4,950 pairs of training requests 5 (0.1%) have a cosine above 0.7."
    )
    assert page.mined_sentence(0, 0, 1, 0.7) == "1 training pair: nothing can be mined, and nothing tuned."


def test_sizes_beside_the_published_ones(catalogue):
    quantities = ["workflow training pairs", "workflow test pairs", "workflow APIs", "TST pairs", "unknown"]
    published = pd.DataFrame({"quantity": quantities, "published": range(5)})
    ours = page.dataset(published, PAIRS, catalogue, 9)
    assert ours["ours"].tolist()[:4] == [2, 1, 3, 9]
    assert np.isnan(ours["ours"].iloc[4])
    assert "profile smoke" in page.sizes_table(ours, "smoke").caption


def test_finding(catalogue):
    assert page.finding(PAIRS, catalogue, nearest(), OURS) == (
        "Simulated workflows: **2 training and 1 test pairs** over 3 APIs. No test request stands in training, 100% "
        "of the test flows' API sequences do; the flow of the training pair with the nearest request has a similarity "
        "of 0.50 to the right one, where 1 is the same APIs in the same order."
    )
    same = pd.concat([nearest(), pd.DataFrame({"split": ["test_same"], "similarity": [0.75]})])
    assert "of 0.50 (0.75 in training's own wordings) to the right" in page.finding(PAIRS, catalogue, same, OURS)
