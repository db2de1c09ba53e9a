"""README and the front page quote numbers that `data/quoted.yaml` has, and read them where a report has them."""

import json
import re

import pandas as pd

from lib.workbook.artifacts import ROOT
from lib.workbook.display import Quoted, found_in, read_quoted

QUOTED = read_quoted(ROOT / "data" / "quoted.yaml")
TEXTS = {name: one.text for name, one in QUOTED.items()}
INTERVAL = r"−?\d[\d.]* \[[^\]]+\]"


def test_readme_has_the_quoted_numbers_and_no_other_interval():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [name for name, said in TEXTS.items() if said not in text] == []
    assert {*re.findall(INTERVAL, text)} <= {*TEXTS.values()}


def test_the_front_page_reads_the_quoted_values_and_no_others():
    cells = json.loads((ROOT / "notebooks" / "index.ipynb").read_text(encoding="utf-8"))["cells"]
    (source,) = [code for code in ("".join(cell["source"]) for cell in cells) if "README says" in code]

    def read_in(here):
        said = []
        exec(source, {"here": here, "quoted": QUOTED, "say": said.append})
        return re.findall(INTERVAL, " ".join(said))

    assert 5 <= len({*read_in(TEXTS)} & {*TEXTS.values()}) == len({*read_in(TEXTS)})
    assert read_in(TEXTS | {"plans": "8.3 [5.6, 11.0]"}) == read_in(TEXTS | {"plans": "–"}) == []
    assert read_in(TEXTS | {"shots_flow_bench": "–"}) == read_in(TEXTS), "Flow-Bench is not on every machine"
    assert read_in(TEXTS | {"shots_flow_bench": "1.4 [0.4, 2.5]"}) == []


def test_a_number_is_that_of_its_row(tmp_path):
    rows = pd.DataFrame({"world": ["hard", "hard", "mixed"], "k": [3, 5, 5], "value": [1.0, -2.25, 3.0]})
    rows.assign(ci_low=rows["value"] - 1, ci_high=rows["value"] + 1).to_csv(tmp_path / "gains.csv", index=False)
    asked = {"one": {"world": "hard", "k": 5}, "highest": {"world": "hard", "k": "max"}, "none": {"world": "easy"}}
    quoted = {name: Quoted(table="gains", where=where, text="") for name, where in asked.items()}
    quoted["alone"] = Quoted(table="gains", where={"k": 3}, columns=["value"], decimals=2, text="")
    quoted["elsewhere"] = Quoted(table="lost", where={"k": 3}, text="")
    found = found_in(tmp_path, quoted)
    told = ["−2.2 [−3.2, −1.2]", "−2.2 [−3.2, −1.2]", "–", "1.00", "–"]
    assert dict(zip(quoted, told, strict=True)) == found
