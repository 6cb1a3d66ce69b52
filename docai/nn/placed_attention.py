"""Self-attention of detectors: positions are added to what asks and what is asked, not to what is passed on."""

from __future__ import annotations

from functools import lru_cache

import mlx.core as mx
import mlx.nn as nn
import numpy as np

from docai.nn.segments import attend_all


class PlacedAttention(nn.Module):
    """Names: q, k, v, o."""

    def __init__(self, dims: int, heads: int) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(dims, dims) for _ in range(4))
        self._heads, self._scale = heads, (dims // heads) ** -0.5

    def __call__(self, x: mx.array, positions: mx.array | None) -> mx.array:
        """x (B, N, D), positions (N, D) or (B, N, D) -> (B, N, D)"""
        placed = x if positions is None else x + positions
        shape = (*x.shape[:2], self._heads, -1)
        q, k, v = (
            layer(a).reshape(shape).transpose(0, 2, 1, 3)  # (B, heads, N, d)
            for layer, a in ((self.q, placed), (self.k, placed), (self.v, x))
        )
        return self.o(attend_all(q, k, v, self._scale).transpose(0, 2, 1, 3).reshape(x.shape))


@lru_cache(maxsize=8)
def sines(height: int, width: int, dims: int, temperature: float) -> mx.array:
    """Positions of pixels row by row, (height * width, dims): sines and cosines of rows, then of columns.

    Vaswani et al. 2017 (arXiv:1706.03762), along two axes.
    """
    rates = temperature ** -(np.arange(dims // 4) / (dims // 4))
    down, across = (line.reshape(-1, 1) * rates for line in np.indices((height, width)))
    waves = np.concatenate([np.sin(down), np.cos(down), np.sin(across), np.cos(across)], -1)
    return mx.array(waves.astype(np.float32))
