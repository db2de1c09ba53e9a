import matplotlib.pyplot as plt
import pandas as pd
import pytest

from lib.workbook.pareto import COSTS, pareto_drawing

ROWS = {"one": "quality, %", "other": "other quality, %"}


def points_of(*rows):
    columns = ["row", "name", "value", "seconds", "tokens", "dollars", "front_seconds", "front_tokens", "front_dollars"]
    table = pd.DataFrame(rows, columns=columns)
    return table.assign(
        ci_low=table["value"] - 2, ci_high=table["value"] + 2, colour="#123456", marker="o", group=table["row"]
    )


POINTS = points_of(
    ("one", "cheap", 10.0, 0.001, 0.0, 0.0, True, True, True),
    ("one", "a condition with a rather long name", 60.0, 2.0, 900.0, 40.0, True, True, True),
    ("one", "dear and bad", 5.0, 3.0, 1000.0, 50.0, False, False, False),
    ("other", "untimed", 50.0, float("nan"), 10.0, 1.0, False, True, True),
)


def texts(axis):
    return {text.get_text().replace("\n", " ") for text in axis.texts}


def test_a_row_a_question_and_a_panel_a_cost():
    drawing = pareto_drawing(POINTS, "cost", "a finding", ROWS, "in words")
    axes = drawing.figure.axes
    assert len(axes) == 6
    assert [axis.get_xlabel() for axis in axes[:3]] == [COSTS[cost].words for cost in COSTS]
    assert [axis.get_ylabel() for axis in axes] == ["quality, %", "", "", "other quality, %", "", ""]
    assert texts(axes[0]) == {"cheap", "a condition with a rather long name", "1"}
    assert texts(axes[3]) == {"not measured"}, "what was not timed is in no panel of time"
    assert texts(axes[4]) == {"untimed"}
    assert [text.get_text() for text in drawing.figure.legends[0].get_texts()] == ["one", "other", "dear and bad"]
    assert (drawing.name, drawing.finding, drawing.alt) == ("cost", "a finding", "in words")
    assert not any(tick > 100 for axis in axes for tick in axis.get_yticks() if axis.get_xlabel()), "in percent"
    plt.close(drawing.figure)


def test_what_colour_and_marker_tell_apart_has_no_number():
    own = POINTS.assign(group=POINTS["name"])
    drawing = pareto_drawing(own, "cost", "x", ROWS, "x")
    assert "1" not in texts(drawing.figure.axes[0])
    plt.close(drawing.figure)


def test_the_front_is_a_line_through_what_no_other_beats():
    drawing = pareto_drawing(POINTS[POINTS["row"] == "one"], "cost", "x", ROWS, "x")
    line = next(line for line in drawing.figure.axes[1].lines if line.get_color() == "#999999")
    assert line.get_xydata().tolist() == [[0.0, 10.0], [900.0, 60.0]]
    assert drawing.figure.axes[0].get_xscale() == "log"
    assert drawing.figure.axes[1].get_xscale() == "symlog", "a condition that reads no token has a place, too"
    assert len(drawing.figure.axes) == 3
    plt.close(drawing.figure)


def test_nothing_to_draw():
    with pytest.raises(ValueError, match="at least one point"):
        pareto_drawing(POINTS.iloc[:0], "cost", "x", ROWS, "x")
