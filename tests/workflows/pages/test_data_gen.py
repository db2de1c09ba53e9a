"""What notebook 01 shows of the catalogue, flows and pairs."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from lib.workflows.apis import API, Connector, Field
from lib.workflows.catalogue import Catalogue
from lib.workflows.pages import data_gen as page
from tests.workflows.test_phraser import DESK, phrased, written


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


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


def test_the_catalogue_in_a_figure(catalogue):
    drawing = page.catalogue_figure(catalogue)
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


# ---- the pairs


def test_reworded_requests():
    reworded = pd.DataFrame({"original": list("abcd"), "request": list("wxyz"), "pair": 1})
    assert page.reworded_table(reworded).frame.to_numpy().tolist() == [["a", "w"], ["b", "x"], ["c", "y"]]


# ---- pairs to tune on, sizes


def test_sizes_beside_the_published_ones(catalogue):
    quantities = ["workflow training pairs", "workflow test pairs", "workflow APIs", "TST pairs", "unknown"]
    published = pd.DataFrame({"quantity": quantities, "published": range(5)})
    ours = page.dataset(published, PAIRS, catalogue, 9)
    assert ours["ours"].tolist()[:4] == [2, 1, 3, 9]
    assert np.isnan(ours["ours"].iloc[4])
    assert "profile smoke" in page.sizes_table(ours, "smoke").caption


def test_phrases_and_what_has_none(tmp_path):
    found = phrased(written(tmp_path, DESK))
    assert page.left_out_table(found).frame["operations"].tolist() == [2, 1, 1, 1]
    examples = page.phrases_table(found, 7).frame
    assert len(examples) == 7
    assert examples["asked for as"].str.contains("Ticket Desk").all()


def test_lengths_by_split():
    table = page.lengths_table(PAIRS[PAIRS["split"] != "unseen"])
    assert table.frame.columns.tolist() == ["API calls", "training", "test"], "a split without pairs has no column"
    assert table.frame["API calls"].tolist() == [1, 2, "with a condition"]
    assert table.frame["training"].tolist() == [50, 50, 0]
    assert table.frame["test"].tolist()[1:] == [100, 100]
    assert "2 training, 1 test pairs." in table.caption


def test_examples_from_short_to_long():
    table = page.pair_examples(PAIRS, 7)
    assert table.frame["request"].tolist() == ["Tell me", "Post the new one"]
    assert table.code_columns == ["flow"]
