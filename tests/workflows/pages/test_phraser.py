"""What notebook 01 says of phrases made by rules."""

import pandas as pd

from lib.workbook.artifacts import ROOT
from lib.workflows.pages import phraser as page
from lib.workflows.phrase_readings import FILE, FRESH, PhraseReading, read_phrase_readings
from tests.workflows.test_phraser import DESK, phrased, written


def test_how_many_operations_can_be_asked_for(tmp_path):
    text = page.phrased_sentence(phrased(written(tmp_path, DESK)))
    assert "**7 of 12 operations can be asked for**" in text
    assert "1 of them are triggers" in text
    assert "The other 5 are in no flow" in text
    borrowed = page.phrased_sentence(phrased(written(tmp_path, DESK[1:])))
    assert "**6 of 11 operations can be asked for**" in borrowed
    assert "None is a trigger" in borrowed


def test_tables(tmp_path):
    found = phrased(written(tmp_path, DESK))
    shown = page.left_out_table(found).frame
    assert shown["operations"].tolist() == [2, 1, 1, 1]
    examples = page.example_table(found, 7).frame
    assert len(examples) == 7
    assert examples["asked for as"].str.contains("Ticket Desk").all()


def test_the_share_is_that_of_the_readings():
    assert page.goodness_sentence([]) == "No phrase has been read yet."
    read = [PhraseReading(sample=2, api=f"shared_a.{n}", summary="s", phrase="p", good="yes" if n else "no")
            for n in range(10)]  # fmt: skip
    assert "Of 10 of 1 real connectors" in page.goodness_sentence(read)
    assert "**9 were judged good: 90%** (95% interval 60 to 98)" in page.goodness_sentence(read)
    assert "mended" not in page.goodness_sentence(read), "there is no sample before"
    before = [reading.model_copy(update={"sample": 1, "good": "no"}) for reading in read[:2]]
    both = page.goodness_sentence(read + before)
    assert "**9 were judged good: 90%**" in both, "the fresh sample alone"
    assert "Of 2 phrases of other operations, read before, 0 were good (0%" in both
    shipped = read_phrase_readings(ROOT / FILE)
    good = pd.Series([reading.good for reading in shipped if reading.sample == FRESH]).eq("yes").sum()
    assert f"**{good} were judged good" in page.goodness_sentence(shipped)


def test_why_no_phrases_were_made():
    assert "your own requests" in page.written_sentence("pairs.jsonl")
    assert "the catalogue" in page.written_sentence("")
