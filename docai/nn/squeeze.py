"""Squares of patches made one between two layers of a tower, as MiniCPM-V 4.6 does it (OpenBMB 2026)."""

from __future__ import annotations

from dataclasses import dataclass

import mlx.core as mx
import mlx.nn as nn

from docai.nn.activation import ACTIVATIONS
from docai.nn.norm import NormKind, norm
from docai.nn.segments import Run


@dataclass(frozen=True, slots=True)
class SqueezeSpec:
    """Behind layer `after`, counted from 0, `side` x `side` patches become one, through a layer of `hidden`."""

    after: int
    hidden: int
    side: int = 2
    activation: str = "gelu_pytorch_tanh"

    @property
    def count(self) -> int:
        """Patches in a square."""
        return self.side**2


class Squeeze(nn.Module):
    """Names: norm1, attn, norm2, up, down.

    The patches of a square see each other; side by side they go through two layers, to which their mean is added.
    """

    def __init__(self, spec: SqueezeSpec, dims: int, kind: NormKind, eps: float, attention: nn.Module) -> None:
        """`attention` is called with rows (N, dims) and their segments (see `docai.nn.segments`)."""
        super().__init__()
        wide = dims * spec.count
        self.norm1, self.attn = norm(kind, dims, eps), attention
        self.norm2 = norm(kind, wide, eps)
        self.up, self.down = nn.Linear(wide, spec.hidden), nn.Linear(spec.hidden, dims)
        self._count, self._activation = spec.count, ACTIVATIONS[spec.activation]

    def __call__(self, x: mx.array) -> mx.array:
        """x (N, D), square by square -> (N / count, D)"""
        x = x + self.attn(self.norm1(x), (Run(len(x) // self._count, self._count),))
        squares = x.reshape(-1, self._count, x.shape[-1])
        joined = self.norm2(squares.reshape(len(squares), -1))
        return squares.mean(axis=1) + self.down(self._activation(self.up(joined)))
