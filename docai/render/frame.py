"""From a PDF's user space (y up, any origin, unrotated) to the page as displayed (top-left origin, y down)."""

from __future__ import annotations

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


def compose_all(outer: Affine, inner: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mappings (n, 6) that apply each of `inner` (n, 6) first and then `outer`."""
    a, b, c, d, e, f = inner.T
    first = np.stack(mapped(np.asarray((*outer[:4], 0, 0)), a, b), axis=1)
    second = np.stack(mapped(np.asarray((*outer[:4], 0, 0)), c, d), axis=1)
    third = np.stack(mapped(np.asarray(outer), e, f), axis=1)
    return np.concatenate([first, second, third], axis=1)


def mapped(
    matrices: NDArray[np.float64], x: NDArray[np.float64], y: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Points through mappings (n, 6), or through one (6,)."""
    a, b, c, d, e, f = np.moveaxis(matrices, -1, 0)
    return a * x + c * y + e, b * x + d * y + f


def boxes_through(to: Affine, rects: NDArray[np.float64]) -> NDArray[np.float64]:
    """The boxes (n, 4) l, t, r, b around mapped rectangles, each given by two opposite corners x0, y0, x1, y1."""
    x, y = rects[:, [0, 2, 2, 0]], rects[:, [1, 1, 3, 3]]
    x, y = mapped(np.asarray(to), x, y)
    return np.stack([x.min(axis=1), y.min(axis=1), x.max(axis=1), y.max(axis=1)], axis=1)


def cut(boxes: NDArray[np.float64], to: NDArray[np.float64]) -> NDArray[np.float64]:
    """The parts of boxes (n, 4) that lie within others; inverted (right before left) where there is none."""
    return np.concatenate([np.maximum(boxes[:, :2], to[:, :2]), np.minimum(boxes[:, 2:], to[:, 2:])], axis=1)
