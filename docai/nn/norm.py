"""Norms by name."""

from __future__ import annotations

from typing import Literal

import mlx.core as mx
import mlx.nn as nn

NormKind = Literal["layer", "rms"]


def norm(kind: NormKind, dims: int, eps: float, *, bias: bool = True) -> nn.LayerNorm | nn.RMSNorm:
    """Layer norm (with weight and, usually, bias) or RMS norm (with weight)."""
    return nn.LayerNorm(dims, eps=eps, bias=bias) if kind == "layer" else nn.RMSNorm(dims, eps=eps)


def rms(x: mx.array, eps: float) -> mx.array:
    """RMS norm without a weight, along the last axis."""
    return mx.fast.rms_norm(x, None, eps)


class BareRms(nn.Module):
    """RMS norm without a weight, as a layer."""

    def __init__(self, eps: float) -> None:
        super().__init__()
        self._eps = eps

    def __call__(self, x: mx.array) -> mx.array:
        return rms(x, self._eps)
