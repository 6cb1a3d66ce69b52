"""Text that nobody sees: which of it transcribes a scan, and which is only there to be found by programs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from docai.geometry import clip
from docai.ocr.arrays import median
from docai.types import Box, Glyphs, Line, Page, PageContent

Gray = NDArray[np.uint8]
Mask = NDArray[np.bool_]

_FAINT = 6  # of 255: grey levels within a box from which on there is ink in it
_GRID = 48  # cells along each side of a page, for the share that pictures cover
_TINY = 0.12  # of the usual size: letters this small are not there to be read


def has_ink(line: Line, page: Page, thumbnail: Gray) -> bool:
    """Whether the page shows anything but one flat tone where a line stands. `thumbnail`: (H, W), the whole page."""
    height, width = thumbnail.shape
    x, y = width / page.width, height / page.height
    box = clip(line.box, page.box)
    part = thumbnail[int(box.t * y) : int(box.b * y) + 1, int(box.l * x) : int(box.r * x) + 1]
    return part.size > 0 and int(part.max()) - int(part.min()) >= _FAINT


def covered_share(page: Page, boxes: Iterable[Box]) -> float:
    """The share of the page, 0..1, that boxes cover together."""
    grid = np.zeros((_GRID, _GRID), np.bool_)
    for box in boxes:
        box = clip(box, page.box)
        rows = slice(round(box.t / page.height * _GRID), round(box.b / page.height * _GRID))
        grid[rows, round(box.l / page.width * _GRID) : round(box.r / page.width * _GRID)] = True
    return float(grid.mean())


def on_page(glyphs: Glyphs, page: Page) -> Mask:
    """Characters whose middle lies on the page."""
    left, top, right, bottom = glyphs.boxes.T
    x, y = left + right, top + bottom
    seen: Mask = (x >= 0) & (x <= 2 * page.width) & (y >= 0) & (y <= 2 * page.height)
    return seen


def tiny(glyphs: Glyphs, keep: Mask) -> Mask:
    """Characters too small to be seen beside the others."""
    if not keep.any():
        return keep
    small: Mask = keep & (glyphs.sizes < min(_TINY * median(glyphs.sizes[keep]), 1.5))
    return small


def may_be_covered(lines: Sequence[Line], content: PageContent) -> bool:
    """Whether a filled area fits some words so closely that it may be there to black them out."""
    bars = [fill for fill in content.fills if 2 < fill.height < 60]
    return any(_hides(bar, line) for bar in bars for line in lines if _on_one_level(bar, line.box))


def _on_one_level(bar: Box, line: Box) -> bool:
    return bar.t <= line.cy <= bar.b and bar.height < 1.8 * line.height and bar.l < line.r and bar.r > line.l


def _hides(bar: Box, line: Line) -> bool:
    words = [word.box for word in line.words if bar.l - 1 <= word.box.l and word.box.r <= bar.r + 1]
    return bool(words) and words[-1].r - words[0].l > 0.7 * bar.width
