"""Rotary embedding over the rows and columns of a grid of patches: each turns half of a head's pairs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class AxialRope:
    """The frequencies theta^(-2i/d) of a head of width d are divided among rows and columns.

    Both take those with even i (Qwen2-VL, arXiv:2409.12191), or, `staggered`, columns those with odd i (Pixtral,
    arXiv:2410.07073). Pairs are halves of the head, (i, i + d/2): the first half of them for rows. `alternating`: pairs
    are neighbours, (2i, 2i + 1), by turns for columns and rows (MoonViT, arXiv:2504.07491). `apart`: columns turn the
    first half of the head and rows the second, in pairs that are halves of these (Gemma 4).
    """

    theta: float = 10_000.0
    staggered: bool = False
    alternating: bool = False
    apart: bool = False

    def frequencies(self, width: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Radians a row and radians a column, (width/4,) each."""
        all_of_them = self.theta ** -(np.arange(0, width, 2, dtype=np.float64) / width)
        return all_of_them[0::2], all_of_them[1::2] if self.staggered else all_of_them[0::2]

    def angles(self, rows: NDArray[np.int32], columns: NDArray[np.int32], width: int) -> NDArray[np.float32]:
        """(N, width/2) radians for patches in these rows and columns, (N,) each."""
        per_row, per_column = self.frequencies(width)
        down, across = rows[:, None] * per_row, columns[:, None] * per_column
        if self.alternating:
            both = np.dstack([across, down]).reshape(len(rows), -1)
        else:
            both = np.hstack([across, down] if self.apart else [down, across])
        return both.astype(np.float32)

    def turn(self, rows: NDArray[np.int32], columns: NDArray[np.int32], width: int) -> Turn:
        """For patches in these rows and columns, and heads of this width."""
        angles = self.angles(rows, columns, width)
        return Turn.by(angles, neighbours=self.alternating, parts=2 if self.apart else 1)


@dataclass(frozen=True, slots=True)
class LaneRope:
    """Mage-ViT's (Microsoft 2026): neighbours make a pair, but each of the two has an angle of its own.

    The d/2 angles of a head of width d are 4/16 of time (0 in an image), 6/16 of rows and 6/16 of columns, with the
    frequencies theta^(-i/n) of n. They stand there twice, one after the other, for the d lanes. So it was trained.
    """

    theta: float = 10_000.0

    def turn(self, rows: NDArray[np.int32], columns: NDArray[np.int32], width: int) -> Turn:
        """For patches in these rows and columns, and heads of this width."""
        count = width // 32 * 6
        frequencies = self.theta ** -(np.arange(count, dtype=np.float64) / count)
        time = np.zeros((len(rows), width // 32 * 4))
        half = np.hstack([time, rows[:, None] * frequencies, columns[:, None] * frequencies]).astype(np.float32)
        lanes = np.hstack([half, half]).reshape(len(rows), 1, -1, 2)  # (N, 1, d/2, 2)
        return Turn(mx.array(np.cos(lanes)), mx.array(np.sin(lanes) * np.array([-1, 1], np.float32)), neighbours=True)


@dataclass(frozen=True, slots=True)
class Turn:
    """Turns heads by given angles: `cos` (N, 1, 1, d/2) and `sin` (N, 1, 2, d/2), the first of its two negated.

    With `neighbours`, pairs lie beside each other, and the last two axes are the other way round. `cos` has two as well
    where the angles of a pair differ. Where heads are of several parts, these have an axis before the last two.
    """

    cos: mx.array
    sin: mx.array
    neighbours: bool = False

    @classmethod
    def by(cls, angles: NDArray[np.float32], *, neighbours: bool = False, parts: int = 1) -> Turn:
        """For `angles` (N, d/2), of heads of so many `parts`."""
        split = angles[:, None] if parts == 1 else angles.reshape(len(angles), 1, parts, -1)
        cos, sin = (np.expand_dims(a, -1 if neighbours else -2) for a in (np.cos(split), np.sin(split)))
        return cls(mx.array(cos), mx.array(np.concatenate([-sin, sin], -1 if neighbours else -2)), neighbours)

    def __call__(self, x: mx.array) -> mx.array:
        """x (N, heads, d) -> the same, turned; computed in float32."""
        pairs = x.reshape(*x.shape[:-1], *self.sin.shape[2:])
        swapped = pairs[..., ::-1] if self.neighbours else pairs[..., ::-1, :]
        return _turned(pairs, swapped, self.cos, self.sin).reshape(x.shape)


@partial(mx.compile, shapeless=True)
def _turned(x: mx.array, swapped: mx.array, cos: mx.array, sin: mx.array) -> mx.array:
    """(a, b) -> (a cos - b sin, b cos + a sin), as one kernel that copies nothing."""
    return (x.astype(mx.float32) * cos + swapped.astype(mx.float32) * sin).astype(x.dtype)
