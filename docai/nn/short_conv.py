"""Short convolutions in the place of attention (LFM2; Liquid AI 2025, arXiv:2511.23404).

A layer mixes each channel with the few rows before it, gated before and behind: out(c * conv(b * h)) with b, c and h
from one projection. It keeps as many rows as its kernel is long (`docai.nn.cache.ConvCache`).
"""

from __future__ import annotations

from dataclasses import dataclass

import mlx.core as mx
import mlx.nn as nn

from docai.nn.attention import AttentionSpec
from docai.nn.batch import BatchConvCache
from docai.nn.cache import ConvCache, LayerCache
from docai.nn.mask import Mask
from docai.nn.rope import Rotation


@dataclass(frozen=True, slots=True)
class ShortConvSpec(AttentionSpec):
    """One layer's convolution over `window` rows. `bias`: of the projections and of the convolution.

    To all who count memory it is attention by one head, whose keys are one half of the channels and values the other.
    """

    bias: bool = False

    @classmethod
    def of(cls, dims: int, kernel: int, *, bias: bool = False) -> ShortConvSpec:
        """For rows of `dims` channels."""
        return cls(1, 1, dims // 2, None, window=kernel, bias=bias)


class ShortConv(nn.Module):
    """Names: project, weight (channels, kernel), bias (if the spec has it), out."""

    def __init__(self, dims: int, spec: ShortConvSpec) -> None:
        super().__init__()
        assert spec.window is not None, "a convolution has a kernel"
        self.project = nn.Linear(dims, 3 * dims, bias=spec.bias)
        self.weight = mx.zeros((dims, spec.window))
        if spec.bias:
            self.bias = mx.zeros((dims,))
        self.out = nn.Linear(dims, dims, bias=spec.bias)

    def fuse(self) -> None:
        """There is nothing to join."""

    def __call__(self, x: mx.array, _rotation: Rotation | None, _mask: Mask, cache: LayerCache) -> mx.array:
        """x (B, L, D) -> (B, L, D)"""
        assert isinstance(cache, ConvCache | BatchConvCache), "these keep rows"
        before, behind, inner = mx.split(self.project(x), 3, axis=-1)
        mixed = convolved(cache.rows(before * inner), self.weight)
        return self.out(behind * (mixed + self.bias if "bias" in self else mixed))


def convolved(rows: mx.array, weight: mx.array) -> mx.array:
    """Each channel of `rows` (B, kernel - 1 + L, D) mixed over `kernel` rows by `weight` (D, kernel): (B, L, D)."""
    kernel = weight.shape[1]
    length = rows.shape[1] - kernel + 1
    first, *others = (rows[:, at : at + length] * weight[:, at] for at in range(kernel))
    return sum(others, start=first)
