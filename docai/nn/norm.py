"""Norms by name."""

from __future__ import annotations

from typing import Literal

import mlx.nn as nn

NormKind = Literal["layer", "rms"]


def norm(kind: NormKind, dims: int, eps: float) -> nn.LayerNorm | nn.RMSNorm:
    """Layer norm (with weight and bias) or RMS norm (with weight)."""
    return nn.LayerNorm(dims, eps=eps) if kind == "layer" else nn.RMSNorm(dims, eps=eps)
