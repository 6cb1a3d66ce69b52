"""From a PDF's user space (y up, any origin, unrotated) to the page as displayed (top-left origin, y down)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Affine = tuple[float, float, float, float, float, float]


@dataclass(frozen=True, slots=True)
class Frame:
    """The visible box of a page in user space, and the clockwise `/Rotate` by which it is shown."""

    left: float
    bottom: float
    right: float
    top: float
    rotation: int = 0

    @property
    def size(self) -> tuple[float, float]:
        """(width, height) as displayed."""
        width, height = self.right - self.left, self.top - self.bottom
        return (width, height) if self.rotation % 180 == 0 else (height, width)

    def points(self, xy: NDArray[Any]) -> NDArray[np.float64]:
        """(n, 2) points of user space, as displayed."""
        x, y = np.asarray(xy, np.float64).T
        shown = {
            0: (x - self.left, self.top - y),
            90: (y - self.bottom, x - self.left),
            180: (self.right - x, y - self.bottom),
            270: (self.top - y, self.right - x),
        }[self.rotation]
        return np.stack(shown, axis=1)

    def boxes(self, rects: NDArray[Any]) -> NDArray[np.float32]:
        """(n, 4) rectangles given by any two opposite corners (x0, y0, x1, y1), as displayed l, t, r, b."""
        a, b = self.points(rects[:, :2]), self.points(rects[:, 2:])
        return np.concatenate([np.minimum(a, b), np.maximum(a, b)], axis=1).astype(np.float32)

    def affine(self) -> Affine:
        """The same mapping as six numbers: (x, y) -> (a x + c y + e, b x + d y + f)."""
        return {
            0: (1.0, 0.0, 0.0, -1.0, -self.left, self.top),
            90: (0.0, 1.0, 1.0, 0.0, -self.bottom, -self.left),
            180: (-1.0, 0.0, 0.0, 1.0, self.right, -self.bottom),
            270: (0.0, -1.0, -1.0, 0.0, self.top, self.right),
        }[self.rotation]


def compose(outer: Affine, inner: Affine) -> Affine:
    """The mapping that applies `inner` first. Both as in PDF: a b c d e f."""
    a, b, c, d, e, f = outer
    p, q, r, s, t, u = inner
    return a * p + c * q, b * p + d * q, a * r + c * s, b * r + d * s, a * t + c * u + e, b * t + d * u + f


def rect_through(to: Affine, x0: float, y0: float, x1: float, y1: float) -> tuple[float, float, float, float] | None:
    """The box (l, t, r, b) around a mapped rectangle; None where a number is none."""
    a, b, c, d, e, f = to
    corners = ((x0, y0), (x1, y0), (x1, y1), (x0, y1))
    xs, ys = [a * x + c * y + e for x, y in corners], [b * x + d * y + f for x, y in corners]
    rect = (min(xs), min(ys), max(xs), max(ys))
    return rect if all(map(math.isfinite, rect)) else None
