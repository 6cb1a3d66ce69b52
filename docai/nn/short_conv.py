"""Short convolutions in the place of attention (LFM2; Liquid AI 2025, arXiv:2511.23404).

A layer mixes each channel with the few rows before it, gated before and behind: out(c * conv(b * h)) with b, c and h
from one projection. Its state is the last rows, one less than its kernel is long (`docai.nn.cache.StateCache`).
"""

from __future__ import annotations

from dataclasses import dataclass

import mlx.core as mx
import mlx.nn as nn

from docai.nn.attention import AttentionSpec
from docai.nn.batch import BatchStateCache
from docai.nn.cache import LayerCache, StateCache, tail
from docai.nn.mask import Mask
from docai.nn.rope import Rotation


@dataclass(frozen=True, slots=True)
class ShortConvSpec(AttentionSpec):
    """One layer's convolution over `kernel` rows, of one head of so many channels. `bias`: of the projections, too."""

    kernel: int = 0
    bias: bool = False

    @classmethod
    def of(cls, dims: int, kernel: int, *, bias: bool = False) -> ShortConvSpec:
        """For rows of `dims` channels."""
        return cls(1, 1, dims, None, kernel=kernel, bias=bias)

    @property
    def kept_heads(self) -> int:
        return 0

    @property
    def state_size(self) -> int:
        return (self.kernel - 1) * self.head_dim


class ShortConv(nn.Module):
    """Names: project, weight (channels, kernel), bias (if the spec has it), out."""

    def __init__(self, dims: int, spec: ShortConvSpec) -> None:
        super().__init__()
        self.project = nn.Linear(dims, 3 * dims, bias=spec.bias)
        self.weight = mx.zeros((dims, spec.kernel))
        if spec.bias:
            self.bias = mx.zeros((dims,))
        self.out = nn.Linear(dims, dims, bias=spec.bias)

    def fuse(self) -> None:
        """There is nothing to join."""

    def __call__(self, x: mx.array, _rotation: Rotation | None, _mask: Mask, cache: LayerCache) -> mx.array:
        """x (B, L, D) -> (B, L, D)"""
        assert isinstance(cache, StateCache | BatchStateCache), "these keep rows"
        before, behind, inner = mx.split(self.project(x), 3, axis=-1)
        (rows,) = cache.held(lambda: [no_rows(inner, self.weight)])
        mixed, rows = convolved(rows, before * inner, self.weight)
        cache.hold([rows], x.shape[1])
        return self.out(behind * (mixed + self.bias if "bias" in self else mixed))


def convolved(rows: mx.array, new: mx.array, weight: mx.array) -> tuple[mx.array, mx.array]:
    """Each channel of the next rows (B, L, D) mixed with those before, by `weight` (D, kernel): (B, L, D).

    `rows` (B, 1, kernel - 1, D) are the last ones; those of the next time come behind what is mixed.
    """
    kernel, length = weight.shape[1], new.shape[1]
    seen = mx.concatenate([rows[:, 0], new], axis=1)  # (B, kernel - 1 + L, D)
    first, *others = (seen[:, at : at + length] * weight[:, at] for at in range(kernel))
    return sum(others, start=first), tail(seen, kernel - 1, axis=1)[:, None]


def no_rows(new: mx.array, weight: mx.array) -> mx.array:
    """What stands before the first row: zeros."""
    return mx.zeros((new.shape[0], 1, weight.shape[1] - 1, weight.shape[0]), new.dtype)
