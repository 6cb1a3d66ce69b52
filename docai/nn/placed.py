"""From a grid of pixels to rows of the decoder's width, as Florence-2 does it (Xiao et al. 2023, arXiv:2311.06242)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import mlx.core as mx
import mlx.nn as nn

Rows = Literal["mean", "each"]


@dataclass(frozen=True, slots=True)
class PlacerSpec:
    """Learned positions of columns and rows, `side` of each, are added to a picture's pixels and the one of its moment
    (of `moments`); then they are projected and normed. `rows`: what is given, their mean or each of them, in order.
    """

    dims: int
    out: int
    side: int
    moments: int
    rows: tuple[Rows, ...] = ("mean", "each")
    norm_eps: float = 1e-5


class Placer(nn.Module):
    """Names: columns, rows, moments (moments, dims), project, norm."""

    def __init__(self, spec: PlacerSpec) -> None:
        super().__init__()
        self.rows = nn.Embedding(spec.side, spec.dims // 2)
        self.columns = nn.Embedding(spec.side, spec.dims - spec.dims // 2)
        self.moments = mx.zeros((spec.moments, spec.dims))
        self.project = nn.Linear(spec.dims, spec.out, bias=False)
        self.norm = nn.LayerNorm(spec.out, eps=spec.norm_eps)
        self._given = spec.rows

    def encode(self, grid: mx.array) -> mx.array:
        """One picture (h, w, D) -> (rows, out); it is the first moment of its clip."""
        height, width, dims = grid.shape
        across = mx.broadcast_to(self.columns(mx.arange(width))[None], (height, width, dims - dims // 2))
        down = mx.broadcast_to(self.rows(mx.arange(height))[:, None], (height, width, dims // 2))
        placed = grid + mx.concatenate([across, down], axis=-1) + self.moments[0]
        each = placed.reshape(-1, dims).astype(grid.dtype)
        parts = {"mean": each.mean(axis=0, keepdims=True), "each": each}
        return self.norm(self.project(mx.concatenate([parts[name] for name in self._given])))
