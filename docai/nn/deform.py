"""Multi-scale deformable attention: version 1 (Zhu et al. 2021, arXiv:2010.04159) and 2 (Lv et al. 2024,
arXiv:2407.17140), for queries whose references are boxes.

Each head of a query looks at a few places of each level around its box, and mixes what it finds there. Places are
fractions of the picture; between pixels they are read bilinearly, and what lies outside of the picture is zero (torch's
`grid_sample` with `align_corners=False`). All places of all levels are read by one gather.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx
import mlx.nn as nn

Size = tuple[int, int]  # rows, columns


@dataclass(frozen=True, slots=True)
class DeformSpec:
    """`points` that a head looks at on each of `levels`; `scale`: how far, in parts of the box's size.

    `nearest`: version 2's `discrete` way, which reads the next pixel instead of interpolating, and stays inside.
    """

    heads: int
    levels: int = 3
    points: int = 4
    scale: float = 0.5
    nearest: bool = False

    @property
    def places(self) -> int:
        """That a head of a query looks at."""
        return self.levels * self.points


class DeformableAttention(nn.Module):
    """Names: offsets, attention, value, out."""

    def __init__(self, dims: int, spec: DeformSpec) -> None:
        super().__init__()
        self.offsets = nn.Linear(dims, 2 * spec.heads * spec.places)
        self.attention = nn.Linear(dims, spec.heads * spec.places)
        self.value = nn.Linear(dims, dims)
        self.out = nn.Linear(dims, dims)
        self._spec = spec

    def __call__(self, x: mx.array, boxes: mx.array, levels: mx.array, sizes: Sequence[Size]) -> mx.array:
        """x (B, Q, D), boxes (B, Q, 4) as centre and size, levels (B, S, D): S pixels of all levels -> (B, Q, D)"""
        spec, (b, q, d) = self._spec, x.shape
        values = self.value(levels).reshape(b, -1, spec.heads, d // spec.heads)
        offsets = self.offsets(x).reshape(b, q, spec.heads, spec.places, 2).astype(mx.float32)
        shares = mx.softmax(self.attention(x).reshape(b, q, spec.heads, spec.places), -1, precise=True)
        centre, size = boxes[:, :, None, None, :2], boxes[:, :, None, None, 2:]  # (B, Q, 1, 1, 2)
        places = centre + offsets * size * (spec.scale / spec.points)
        return self.out(sampled(values, places, shares, sizes, nearest=spec.nearest).reshape(b, q, d))


def sampled(
    values: mx.array, places: mx.array, shares: mx.array, sizes: Sequence[Size], *, nearest: bool = False
) -> mx.array:
    """Mixtures of what lies at some places.

    values (B, S, heads, d), places (B, Q, heads, P, 2) as fractions x, y, level after level, shares (B, Q, heads, P)
    -> (B, Q, heads, d)
    """
    b, s, heads, d = values.shape
    q, count = places.shape[1], places.shape[3]
    rows, weights = _corners(places, sizes, count // len(sizes), nearest=nearest)  # (B, Q, heads, P, corners)
    first = mx.arange(b)[:, None, None, None, None] * s
    head = mx.arange(heads)[None, None, :, None, None]
    found = values.reshape(-1, d)[((first + rows) * heads + head).reshape(b, q, heads, -1)]  # (B, Q, heads, n, d)
    weights = (weights * shares[..., None]).reshape(b, q, heads, 1, -1).astype(values.dtype)
    return (weights @ found).squeeze(-2)


def _corners(places: mx.array, sizes: Sequence[Size], points: int, *, nearest: bool) -> tuple[mx.array, mx.array]:
    """The pixels around each place, counted over all levels, and how much each of them counts."""
    height, width, start = (mx.array(a)[:, None] for a in _per_place(sizes, points))  # (P, 1)
    x, y = places[..., :1] * width, places[..., 1:] * height  # (B, Q, heads, P, 1), in pixels
    if nearest:
        column, row = (mx.clip(mx.floor(a + 0.5), 0, n - 1) for a, n in ((x, width), (y, height)))
        return (start + row * width + column).astype(mx.int32), mx.ones_like(row)
    across, down = _edges(x - 0.5, width), _edges(y - 0.5, height)
    pixels = start[:, None] + down[0][..., :, None] * width[:, None] + across[0][..., None, :]
    weights = down[1][..., :, None] * across[1][..., None, :]
    return mx.flatten(pixels, -2).astype(mx.int32), mx.flatten(weights, -2)


def _edges(at: mx.array, length: mx.array) -> tuple[mx.array, mx.array]:
    """The two pixels beside each place along an axis, kept inside, and their weights, zero where they were not."""
    low = mx.floor(at)
    pixel = mx.concatenate([low, low + 1], -1)
    weight = mx.concatenate([1 - (at - low), at - low], -1)
    inside = (pixel >= 0) & (pixel < length)
    return mx.clip(pixel, 0, length - 1), mx.where(inside, weight, 0.0)


def _per_place(sizes: Sequence[Size], points: int) -> tuple[list[float], list[float], list[float]]:
    """Height, width and first pixel of the level of each place. Floats: pixels are fewer than 2^24."""
    starts = [sum(h * w for h, w in sizes[:level]) for level in range(len(sizes))]
    each = [(float(h), float(w), float(at)) for (h, w), at in zip(sizes, starts, strict=True) for _ in range(points)]
    heights, widths, firsts = zip(*each, strict=True)
    return list(heights), list(widths), list(firsts)
