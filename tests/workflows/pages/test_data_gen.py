"""What notebook 01 shows of the catalogue, flows and pairs."""

import numpy as np
import pandas as pd
import pytest

from lib.workflows.apis import API, Connector, Field
from lib.workflows.catalogue import Catalogue
from lib.workflows.pages import data_gen as page


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


# ---- pairs to tune on, sizes


def test_sizes_beside_the_published_ones(catalogue):
    quantities = ["workflow training pairs", "workflow test pairs", "workflow APIs", "TST pairs", "unknown"]
    published = pd.DataFrame({"quantity": quantities, "published": range(5)})
    ours = page.dataset(published, PAIRS, catalogue, 9)
    assert ours["ours"].tolist()[:4] == [2, 1, 3, 9]
    assert np.isnan(ours["ours"].iloc[4])
    assert "profile smoke" in page.sizes_table(ours, "smoke").caption


def test_lengths_by_split():
    table = page.lengths_table(PAIRS[PAIRS["split"] != "unseen"])
    assert table.frame.columns.tolist() == ["API calls", "training", "test"], "a split without pairs has no column"
    assert table.frame["API calls"].tolist() == [1, 2, "with a condition"]
    assert table.frame["training"].tolist() == [50, 50, 0]
    assert table.frame["test"].tolist()[1:] == [100, 100]
    assert "2 training, 1 test pairs." in table.caption
