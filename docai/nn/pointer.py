"""Pairs of queries, scored by which of them comes first: the global pointer of PP-DocLayoutV3's reading order."""

from __future__ import annotations

import mlx.core as mx
import mlx.nn as nn

_NEVER = -1e4  # where a pair is scored the other way round, or a query meets itself


class OrderPointer(nn.Module):
    """Names: project, pair."""

    def __init__(self, dims: int, size: int) -> None:
        super().__init__()
        self.project = nn.Linear(dims, dims)
        self.pair = nn.Linear(dims, 2 * size)

    def __call__(self, x: mx.array) -> mx.array:
        """(B, Q, D) -> (B, Q, Q): how sure i is before j, for i < j"""
        first, second = mx.split(self.pair(self.project(x)), 2, -1)
        scores = (first @ second.swapaxes(-1, -2)).astype(mx.float32) * first.shape[-1] ** -0.5
        later = mx.arange(x.shape[1])
        return mx.where(later[:, None] >= later, _NEVER, scores)
