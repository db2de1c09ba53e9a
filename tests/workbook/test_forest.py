import matplotlib.pyplot as plt
import pandas as pd
import pytest

from lib.workbook.display import set_title
from lib.workbook.forest import forest, forest_of_tests

ROWS = pd.DataFrame(
    {
        "comparison": ["a − b", "a − c"],
        "difference": [3.2, -0.4],
        "ci_low": [1.0, -2.0],
        "ci_high": [5.4, 1.2],
        "settled": [True, False],
        "published": [8.0, float("nan")],
    }
)


def test_every_row_has_its_interval_and_its_numbers():
    drawing = forest(ROWS, "differences", "A wins.", "points")
    axis = drawing.figure.axes[0]
    assert [text.get_text() for text in axis.get_yticklabels()] == ["a − b", "a − c"]
    assert [text.get_text() for text in axis.texts] == ["+3.2 [1.0, 5.4]", "−0.4 [−2.0, 1.2]"]
    drawn = [line for line in axis.get_lines() if len(line.get_xdata()) == 2 and line.get_linewidth() == 2]
    assert [list(line.get_xdata()) for line in drawn] == [[1.0, 5.4], [-2.0, 1.2]]
    marks = [line for line in axis.get_lines() if line.get_marker() == "o"]
    assert [mark.get_markerfacecolor() == "white" for mark in marks] == [False, True]
    assert [list(line.get_xdata()) for line in axis.get_lines() if line.get_marker() == "x"] == [[8.0]]
    assert drawing.data.equals(ROWS)
    set_title(drawing.figure, drawing.finding)


def test_its_alternative_says_what_is_compared():
    alt = forest(ROWS, "differences", "A wins.", "points").alt
    assert alt == "Forest plot of 2 differences, points, with 95% intervals; the numbers stand at the right."


def test_panels_stand_side_by_side():
    both = pd.concat([ROWS.assign(kind="meaning"), ROWS.assign(kind="habit")])
    figure = forest(both, "differences", "A wins.", "points", panel="kind").figure
    assert [axis.get_title(loc="left") for axis in figure.axes] == ["meaning", "habit"]


def test_long_labels_are_wrapped_and_leave_the_axis_half_of_the_width():
    long = "cross-encoder over the first 20 − late interaction, evaluation queries of needs kept out (n = 120)"
    rows = ROWS.assign(comparison=["a − b", long])
    drawing = forest_of_tests(rows.assign(settled=True), rows["comparison"].iloc[::-1], "tests", "points")
    set_title(drawing.figure, drawing.finding)
    axis = drawing.figure.axes[0]
    wrapped = axis.get_yticklabels()[0].get_text()
    assert wrapped.replace("\n", " ").replace("\u00a0", " ") == long
    assert max(map(len, wrapped.split("\n"))) <= 36
    assert axis.get_position().width >= 0.5
    boxes = [text.get_window_extent() for text in axis.get_yticklabels()]
    assert not boxes[0].overlaps(boxes[1])
    title = drawing.figure._suptitle.get_window_extent()
    assert title.y0 >= axis.get_window_extent().y1
    assert title.x1 <= drawing.figure.bbox.x1
    plt.close("all")


def test_nothing_to_draw_is_an_error():
    with pytest.raises(ValueError, match="at least one row"):
        forest(ROWS.head(0), "differences", "", "points")
