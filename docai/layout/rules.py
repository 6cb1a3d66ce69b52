"""Ruling lines in an image: thin, long, straight strokes that are darker than what lies on both sides of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from docai.types import Box, Rule

if TYPE_CHECKING:
    from docai.types import RGB, Line, Page, PageContent

Mask: TypeAlias = NDArray[np.uint8]  # (H, W), 0 or 255

_DPI = 150  # of a rendered page: a hairline is a pixel wide
_CONTRAST = 28  # grey levels by which a line differs from its surroundings; fainter ones are paper and JPEG noise
_SHORTEST = 16  # pixels
_PART_OF_SIDE = 45  # lines shorter than this part of the longer side are strokes of large letters
_LEAN = 0.012  # height over width of a line that still counts as straight, about 0.7 degrees
_CROWDED = 0.3  # share of a line that may have ink two pixels above or below it: more is text that stands on it


def seen_rules(page: Page, lines: Sequence[Line], content: PageContent) -> tuple[Rule, ...]:
    """The rules that a file names or, where most of a page's text was read from its pixels, those that show in them."""
    recognised = sum(line.source != "text-layer" for line in lines)
    if content.rules or recognised * 2 <= len(lines) or page.render is None:
        return content.rules
    pixels = page.pixels(_DPI)
    return tuple(Rule(page.from_pixels(rule.box, pixels.shape), rule.width) for rule in pixel_rules(pixels))


def pixel_rules(pixels: RGB) -> list[Rule]:
    """Horizontal and vertical ruling lines of an image (H, W, 3), in its pixels.

    A black-hat across the line's direction keeps what is thin (edges of pictures and filled areas go), an opening
    along it keeps what is long (text goes). Lines that lean by less than a degree stay whole.
    """
    height, width = pixels.shape[:2]
    if min(height, width) < _SHORTEST:
        return []
    darkest: Mask = np.minimum(
        np.minimum(pixels[..., 0], pixels[..., 1]), pixels[..., 2]
    )  # a coloured line is dark in one channel at least
    shortest = max(_SHORTEST, max(height, width) // _PART_OF_SIDE)
    flat, upright = _thin(darkest), _thin(np.ascontiguousarray(darkest.T))
    # Where lines cross, neither is thin across its direction: each gets the strokes of the other to bridge the gap.
    crossing_flat, crossing_upright = _opened(flat, shortest // 2), _opened(upright, shortest // 2)
    rules = [
        Rule(Box(left, y, right, y), thick) for left, y, right, thick in _lines(flat, crossing_upright.T, shortest)
    ]
    return rules + [Rule(Box(x, t, x, b), thick) for t, x, b, thick in _lines(upright, crossing_flat.T, shortest)]


def _thin(grey: Mask) -> Mask:
    """What is dark and thin from top to bottom."""
    import cv2

    thickest = max(5, max(grey.shape) // 200) | 1
    across = cv2.getStructuringElement(cv2.MORPH_RECT, (1, thickest))
    padded = cv2.copyMakeBorder(grey, thickest, thickest, 0, 0, cv2.BORDER_CONSTANT, value=(255,))
    thin = cv2.morphologyEx(padded, cv2.MORPH_BLACKHAT, across)[thickest:-thickest]
    return np.asarray(cv2.threshold(thin, _CONTRAST, 255, cv2.THRESH_BINARY)[1], np.uint8)


def _opened(ink: Mask, length: int) -> Mask:
    """What runs on for at least `length` pixels from left to right."""
    import cv2

    return np.asarray(cv2.morphologyEx(ink, cv2.MORPH_OPEN, np.ones((1, length | 1), np.uint8)), np.uint8)


def _lines(ink: Mask, crossing: Mask, shortest: int) -> list[tuple[float, float, float, float]]:
    """Horizontal lines as (left, y of the middle, right, thickness)."""
    import cv2

    parts = _opened(ink | crossing, shortest // 2)
    whole = cv2.morphologyEx(parts, cv2.MORPH_CLOSE, np.ones((1, (shortest // 8) | 1), np.uint8))
    long = _opened(np.asarray(whole, np.uint8), shortest)
    steps = cv2.dilate(long, np.ones((3, 3), np.uint8))  # a line that leans is a stair: join its steps
    outlines, _ = cv2.findContours(steps, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
    found = (_line(cv2.boundingRect(outline), long, ink) for outline in outlines)
    return [line for line in found if line is not None]


def _line(bounds: Sequence[int], long: Mask, ink: Mask) -> tuple[float, float, float, float] | None:
    """One connected stair as a line; None where it is too thick, leans too much, or stands in the thick of text."""
    l, t, w, h = bounds  # noqa: E741
    part = long[t : t + h, l : l + w] > 0
    rows, columns = np.nonzero(part)
    left, right = int(columns.min()), int(columns.max()) + 1
    thickness = len(rows) / (right - left)
    if rows.max() - rows.min() > 1.5 * thickness + 1 + _LEAN * w or right - left < 6 * thickness:
        return None
    if not _free(part[:, left:right], ink, t, l + left):
        return None
    return float(l + left), t + float(rows.mean()) + 0.5, float(l + right), thickness


def _free(part: NDArray[np.bool_], ink: Mask, top: int, left: int) -> bool:
    """Whether a line has mostly nothing right above and below it, as the strokes of letters have not."""
    height, width = part.shape
    filled = part.any(axis=0)
    first = part.argmax(axis=0)[filled] + top
    last = top + height - 1 - part[::-1].argmax(axis=0)[filled]
    columns = np.arange(width)[filled] + left
    above = ink[np.maximum(first - 2, 0), columns] > 0
    below = ink[np.minimum(last + 2, len(ink) - 1), columns] > 0
    return bool(above.mean() < _CROWDED and below.mean() < _CROWDED)
