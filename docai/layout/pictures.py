"""Pictures and charts in a scanned page: inked areas that are no text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from docai.types import Box, Page

if TYPE_CHECKING:
    from docai.types import RGB

_LONGEST = 800  # pixels of the longer side, to which the page is made smaller
_TALL_SCAN = 1600  # pixels of the longer side from where on half the resolution shows rules as well
_INK = 0.82  # of the paper's brightness: darker is ink
_JOIN = 0.012  # of the longer side: gaps within a picture
_SMALLEST = 0.01  # of the page
_THINNEST = 0.04  # of the longer side: flatter is a rule or a smudge
_LARGEST = 0.7  # of the page: more is its background
_DENSE = 0.35  # share of its box that a picture fills, gaps closed: less is a frame or stray ink


def finer_than_needed(pixels: RGB) -> RGB:
    """Pixels (H, W, 3) of a large scan at a fraction of their resolution; dark lines stay dark, however thin."""
    import cv2

    step = max(pixels.shape[:2]) // _TALL_SCAN
    if step < 2:
        return pixels
    darkest = cv2.erode(pixels, np.ones((step, step), np.uint8))
    return np.ascontiguousarray(darkest[::step, ::step])


def find_pictures(page: Page, pixels: RGB, text: Sequence[Box]) -> list[Box]:
    """Boxes of pictures on an upright page that is known by its `pixels` (H, W, 3) only; `text` is what was read."""
    import cv2

    scale = min(1.0, _LONGEST / max(pixels.shape[:2]))
    small = cv2.resize(pixels, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
    ink = _ink(np.asarray(small))
    sx, sy = ink.shape[1] / page.width, ink.shape[0] / page.height
    for box in text:
        grow = 0.15 * box.height
        top, bottom = round((box.t - grow) * sy), round((box.b + grow) * sy)
        ink[max(top, 0) : bottom, max(round((box.l - grow) * sx), 0) : round((box.r + grow) * sx)] = 0
    return [page.from_pixels(box, ink.shape) for box in _areas(ink)]


def _ink(pixels: RGB) -> NDArray[np.uint8]:
    """1 where a page is inked: darker or more colourful than its paper. (H, W)"""
    darkest, lightest = pixels.min(axis=2), pixels.max(axis=2)
    paper = float(np.percentile(darkest, 80))
    colourful = lightest.astype(np.int16) - darkest > max(60, 1.5 * (float(np.percentile(lightest, 80)) - paper))
    return np.asarray((darkest < _INK * paper) | colourful, np.uint8)


def _areas(ink: NDArray[np.uint8]) -> list[Box]:
    """Boxes of connected areas that are large and dense enough, in pixels of `ink`."""
    import cv2

    longest = max(ink.shape)
    reach = max(3, round(_JOIN * longest))
    closed = cv2.morphologyEx(ink, cv2.MORPH_CLOSE, np.ones((reach, reach), np.uint8))
    _, _, stats, _ = cv2.connectedComponentsWithStats(closed, connectivity=8)
    found = []
    for left, top, width, height, filled in stats[1:].tolist():
        area = width * height
        if not _SMALLEST * ink.size < area < _LARGEST * ink.size or min(width, height) < _THINNEST * longest:
            continue
        if filled > _DENSE * area:
            found.append(Box(left, top, left + width, top + height))
    return found
