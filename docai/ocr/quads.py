"""Quads of lines: (n, 4, 2) corners in pixels, clockwise from the top left of the line's own direction."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from docai.types import Box

Quads = NDArray[np.float32]

_TALL = 1.5  # height over width from which on a line stands (as in rapidocr)


def no_quads() -> Quads:
    """None at all."""
    return np.zeros((0, 4, 2), np.float32)


def clockwise(points: NDArray[np.float32]) -> NDArray[np.float32]:
    """Four corners in the order top left, top right, bottom right, bottom left."""
    left, right = np.split(points[np.argsort(points[:, 0], kind="stable")], 2)
    left, right = left[np.argsort(left[:, 1])], right[np.argsort(right[:, 1])]
    return np.asarray([left[0], right[0], right[1], left[1]], np.float32)


def turned(quads: Quads, rotation: int, size: tuple[int, int]) -> Quads:
    """The quads on the page of `size` (width, height) after it is turned clockwise by `rotation`."""
    x, y = quads[..., 0], quads[..., 1]
    width, height = size
    at = {0: (x, y), 90: (height - y, x), 180: (width - x, height - y), 270: (y, width - x)}[rotation]
    return np.asarray(np.roll(np.stack(at, axis=-1), rotation // 90, axis=1), np.float32)


def widths(quads: Quads) -> NDArray[np.float32]:
    """Length of the upper edge of each quad."""
    return np.asarray(np.linalg.norm(quads[:, 1] - quads[:, 0], axis=1), np.float32)


def heights(quads: Quads) -> NDArray[np.float32]:
    """Length of the left edge of each quad."""
    return np.asarray(np.linalg.norm(quads[:, 3] - quads[:, 0], axis=1), np.float32)


def longest_first(quads: Quads) -> Quads:
    """Quads sorted by their longer side."""
    return quads[np.argsort(-np.maximum(widths(quads), heights(quads)), kind="stable")]


def standing(quads: Quads) -> NDArray[np.bool_]:
    """Which lines are clearly taller than wide."""
    return np.asarray(heights(quads) > _TALL * widths(quads), bool)


def straightened(quads: Quads, skew: float, size: tuple[int, int]) -> Quads:
    """The quads after the page of `size` (width, height) is turned back by `skew` degrees around its centre."""
    if not skew:
        return quads
    angle = math.radians(-skew)
    turn = np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]], np.float32)
    centre = np.array([size[0] / 2, size[1] / 2], np.float32)
    return np.asarray((quads - centre) @ turn + centre, np.float32)


def box_of(quad: NDArray[np.float32]) -> Box:
    """The upright box around a quad (4, 2)."""
    (left, top), (right, bottom) = quad.min(axis=0).tolist(), quad.max(axis=0).tolist()
    return Box(left, top, right, bottom)


def without_repeats(quads: Quads) -> Quads:
    """The quads without those that lie (mostly) in a larger one: lines that were found twice, or cut and whole."""
    if not len(quads):
        return quads
    low, high = quads.min(axis=1), quads.max(axis=1)
    area = np.prod(high - low, axis=1)
    kept: list[int] = []
    for index in np.argsort(-area, kind="stable"):
        near = np.array(kept, int)
        shared = np.prod(
            np.clip(np.minimum(high[near], high[index]) - np.maximum(low[near], low[index]), 0, None), axis=1
        )
        if not np.any(shared > 0.6 * area[index]):
            kept.append(int(index))
    return quads[sorted(kept)]
