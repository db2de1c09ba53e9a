"""Pictures inside a page, in a third of their bytes: the files in `figures/` stay as they were drawn."""

from __future__ import annotations

import base64
import io
import re
from functools import cache

EMBEDDED = re.compile(r"(?<=data:image/png;base64,)[A-Za-z0-9+/=]+")
COLOURS = 256


def lighten(page: str) -> str:
    """The page with each embedded PNG as `with_palette` makes it."""
    return EMBEDDED.sub(lambda data: base64.b64encode(with_palette(base64.b64decode(data[0]))).decode(), page)


@cache  # the figure of a finding stands on its page twice, and on the index
def with_palette(picture: bytes) -> bytes:
    """A PNG in the 256 colours nearest to its own, without dithering; as it is where that is no smaller, or where it
    has a palette already.

    Of a figure of lines, text and a few fills 34% of the bytes are left, with every pixel where it was. As SVG, with
    text as paths, forest plots would take 60 to 70% of the PNG, bars 115%, and thousands of points 300%.
    """
    from PIL import Image

    try:
        image = Image.open(io.BytesIO(picture))
        if image.mode == "P":
            return picture
        smaller = io.BytesIO()
        image.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(smaller, "PNG", optimize=True)
    except OSError:  # no picture
        return picture
    return min(picture, smaller.getvalue(), key=len)
