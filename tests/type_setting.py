"""Pages of type set with the font that Pillow brings along."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

LINES = (
    "The quick brown fox jumps over the lazy dog",
    "Pack my box with five dozen liquor jugs",
    "How vexingly quick daft zebras jump today",
    "Sphinx of black quartz, judge my vow",
)


def page_of(lines: Sequence[str] = LINES, *, size: float = 28, lean: float = 0.0) -> NDArray[np.uint8]:
    """Black lines on white, (H, W, 3); turned clockwise by `lean` degrees."""
    font = ImageFont.load_default(size)
    step = int(1.6 * size)
    width = int(max(font.getlength(line) for line in lines) + 4 * size)
    image = Image.new("RGB", (width, step * len(lines) + 6 * int(size)), "white")
    draw = ImageDraw.Draw(image)
    for number, line in enumerate(lines):
        draw.text((2 * size, 3 * size + number * step), line, "black", font=font)
    return np.asarray(image.rotate(-lean, Image.Resampling.BICUBIC, expand=False, fillcolor="white"))
