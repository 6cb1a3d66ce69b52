"""Outlines of regions from the masks of a detector, in the way of PP-DocLayoutV3's own processor."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from docai.types import Point

Box = Sequence[float]  # left, top, right, bottom in pixels
_SIMPLER = 0.004  # of an outline's length that it may move when corners are taken out
_SHARP, _NEAR = 45.0, 1.0  # degrees: corners of this angle are cut edges, and are set right


def mask_outlines(
    boxes: NDArray[np.floating], masks: NDArray[np.bool_], size: tuple[float, float]
) -> list[tuple[Point, ...]]:
    """The outlines of masks (N, h, w) of a page of `size` (width, height) pixels, each within its box (N, 4)."""
    return [_outline([int(edge) for edge in box], mask, size) for box, mask in zip(boxes, masks, strict=True)]


def _outline(box: Sequence[int], mask: NDArray[np.bool_], size: tuple[float, float]) -> tuple[Point, ...]:
    import cv2

    left, top, right, bottom = box
    corners = tuple((float(x), float(y)) for x, y in ((left, top), (right, top), (right, bottom), (left, bottom)))
    if right <= left or bottom <= top:
        return corners
    part = mask[_span(top, bottom, mask.shape[0], size[1]), _span(left, right, mask.shape[1], size[0])]
    if not part.any():
        return corners
    pixels = cv2.resize(part.astype(np.uint8), (right - left, bottom - top), interpolation=cv2.INTER_NEAREST)
    found, _ = cv2.findContours(pixels, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
    if not found:
        return corners
    largest = max(found, key=cv2.contourArea)
    simple = cv2.approxPolyDP(largest, _SIMPLER * cv2.arcLength(largest, True), True)
    points = outward(np.atleast_2d(simple.squeeze()))
    return tuple((float(x) + left, float(y) + top) for x, y in points) if len(points) >= 4 else corners


def _span(start: int, end: int, length: int, size: float) -> slice:
    """The pixels of a mask under a stretch of the page."""
    first, last = (min(max(round(edge * length / size), 0), length) for edge in (start, end))
    return slice(first, last)


def outward(points: NDArray[np.integer]) -> list[Point]:
    """The corners of an outline that point outwards. One cut off at 45 degrees is put where the cut ends."""
    out: list[Point] = []
    for at, (x, y) in enumerate(points):
        before, after = points[at - 1] - points[at], points[(at + 1) % len(points)] - points[at]
        if before[1] * after[0] - before[0] * after[1] >= 0:
            continue
        a, b = float(np.linalg.norm(before)), float(np.linalg.norm(after))
        cosine = min(max(float(before @ after) / (a * b), -1.0), 1.0)
        if abs(math.degrees(math.acos(cosine)) - _SHARP) < _NEAR:
            way = before / a + after / b
            way = way / np.linalg.norm(way) * (a + b) / 2
            out.append((float(x + way[0]), float(y + way[1])))
        else:
            out.append((float(x), float(y)))
    return out
