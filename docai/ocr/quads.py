"""Quads of lines: (n, 4, 2) corners in pixels, clockwise from the top left of the line's own direction."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Quads = NDArray[np.float32]


def widths(quads: Quads) -> NDArray[np.float32]:
    """Length of the upper edge of each quad."""
    return np.asarray(np.linalg.norm(quads[:, 1] - quads[:, 0], axis=1), np.float32)


def heights(quads: Quads) -> NDArray[np.float32]:
    """Length of the left edge of each quad."""
    return np.asarray(np.linalg.norm(quads[:, 3] - quads[:, 0], axis=1), np.float32)


def longest_first(quads: Quads) -> Quads:
    """Quads sorted by their longer side."""
    return quads[np.argsort(-np.maximum(widths(quads), heights(quads)), kind="stable")]


def lean_of(quads: Quads) -> float:
    """Degrees clockwise by which the lines lean: the median over long lines, weighted by their length.

    0 where there are too few long lines, or they disagree.
    """
    wide = quads[widths(quads) > 5 * heights(quads)]
    if len(wide) < 3:
        return 0.0
    along = (wide[:, 1] - wide[:, 0] + wide[:, 2] - wide[:, 3]) / 2
    angles = np.degrees(np.arctan2(along[:, 1], along[:, 0]))
    order = np.argsort(angles)
    weight = np.cumsum(np.linalg.norm(along, axis=1)[order])
    middle = float(angles[order][np.searchsorted(weight, weight[-1] / 2)])
    agreeing = float(np.mean(np.abs(angles - middle) < 1.5))
    return round(middle, 2) if agreeing > 0.6 and abs(middle) < 30 else 0.0


def straightened(quads: Quads, skew: float, size: tuple[int, int]) -> Quads:
    """The quads after the page of `size` (width, height) is turned back by `skew` degrees around its centre."""
    if not skew:
        return quads
    angle = math.radians(-skew)
    turn = np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]], np.float32)
    centre = np.array([size[0] / 2, size[1] / 2], np.float32)
    return np.asarray((quads - centre) @ turn + centre, np.float32)
