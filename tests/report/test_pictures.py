"""Pictures inside pages are light and look the same."""

import base64
import io
import os

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from lib.report.pictures import lighten, with_palette


@pytest.fixture(scope="module")
def drawn():
    figure = Figure(figsize=(6, 3), dpi=110)
    axis = figure.subplots()
    for number in range(5):
        axis.plot([0, 1, 2], [number, number + 1, number], label=f"method {number}")
    axis.legend()
    kept = io.BytesIO()
    figure.savefig(kept, format="png")
    return kept.getvalue()


def pixels(picture):
    return np.asarray(Image.open(io.BytesIO(picture)).convert("RGB"), dtype=int)


def test_a_figure_takes_half_of_its_bytes_and_looks_the_same(drawn):
    light = with_palette(drawn)
    assert len(light) < len(drawn) / 2
    assert pixels(light).shape == pixels(drawn).shape
    assert np.abs(pixels(light) - pixels(drawn)).mean() < 1
    assert with_palette(light) == light
    assert with_palette(drawn) == light, "the same bytes each time"


def test_what_cannot_be_made_smaller_stays(drawn):
    dot = io.BytesIO()
    Image.new("1", (1, 1)).save(dot, "PNG", optimize=True)
    for picture in (dot.getvalue(), b"png", os.urandom(50)):
        assert with_palette(picture) == picture


def test_every_picture_of_a_page_is_lightened_and_nothing_else(drawn):
    one, other = (base64.b64encode(picture).decode() for picture in (drawn, with_palette(drawn)))
    page = (
        "<p>data:image/jpeg;base64,{0}</p><img src='data:image/png;base64,{1}'><img src=\"data:image/png;base64,{1}\">"
    )
    assert lighten(page.format(one, one)) == page.format(one, other)
