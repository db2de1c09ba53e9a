"""What notebook 08 shows of definitions."""

import matplotlib.pyplot as plt
import pandas as pd
import pytest

from lib.workflows.pages import dsl_retrieval_definitions as page

BESIDE = {5: 8, 20: 30}


@pytest.fixture
def summary():
    rows = [
        (sample, kind, selector, k, share + (k == 20) * 5, 4)
        for sample in ("test", "test_same", "reworded", "unseen")
        for k in (5, 20)
        for kind, selector, share in (
            ("fd", "pretrained", 50.0),
            ("fd", "tst", 60.0),
            ("sfd", "", 40.0),
            ("fd_sfd", "pretrained", 70.0),
            ("fd_sfd", "tst", 80.0),
        )
    ]
    table = pd.DataFrame(rows, columns=["sample", "kind", "selector", "shots", "share", "n"])
    tokens = table["kind"].map({"fd": 1000.0, "sfd": 800.0, "fd_sfd": 1800.0})
    return table.assign(
        ci_low=table["share"] - 10,
        ci_high=table["share"] + 10,
        all_covered=20.0,
        sibling_share=1.0,
        definitions=8.0,
        tokens=tokens,
    )


def test_coverage_is_tabulated_without_the_reworded(summary):
    table = page.coverage_table(summary, BESIDE)
    assert len(table.frame) == 30
    assert set(table.frame["requests"]) == {"new wordings", "known wordings", "held-out APIs"}
    assert table.frame["selector"].tolist()[:3] == ["pretrained encoder", "TST", "–"]
    assert table.frame["definitions"].tolist()[2:4] == ["SFD", "FD + SFD"]
    assert table.frame["APIs defined, %"].iloc[0] == "50.0 [40.0, 60.0]"
    asked = "4 requests (new wordings), 4 requests (known wordings), 4 requests (held-out APIs)"
    assert f"means over {asked}; SFD" in table.caption
    assert table.caption.endswith("SFD with 8 definitions beside 5 few-shots, 30 definitions beside 20 few-shots.")
    alone = page.coverage_table(summary[summary["sample"] == "test"], BESIDE)
    assert "means over 4 requests (new wordings); SFD" in alone.caption


def test_coverage_is_drawn_with_the_better_selector(summary):
    drawing = page.coverage_drawing(summary, "tst")
    assert "for FD (TST), SFD and both, with 5 and 20 few-shots" in drawing.alt
    assert [axis.get_title(loc="left") or axis.get_title() for axis in drawing.figure.axes] == [
        "new wordings",
        "known wordings",
        "held-out APIs",
    ]
    assert [len(axis.lines) for axis in drawing.figure.axes] == [3, 3, 3]
    assert drawing.data is summary
    plt.close(drawing.figure)
    alone = page.coverage_drawing(summary[summary["sample"] == "test"], "pretrained")
    assert len(alone.figure.axes) == 1
    plt.close(alone.figure)
