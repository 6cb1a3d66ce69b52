"""Attention whose heads are gated behind it, by the sigmoid of numbers from the same rows (Qiu et al. 2025,
arXiv:2505.06708)."""

from __future__ import annotations

from dataclasses import dataclass

import mlx.core as mx
import mlx.nn as nn

from docai.nn.attention import Attention, AttentionSpec
from docai.nn.cache import LayerCache
from docai.nn.mask import Mask
from docai.nn.rope import Rotation


@dataclass(frozen=True, slots=True)
class GatedAttentionSpec(AttentionSpec):
    """One layer's attention with gates; heads of queries and keys are normed."""

    head_norm: bool = True


class GatedAttention(Attention):
    """Names: as those of `Attention`. `q` gives the queries of a head and behind them its gates."""

    def __init__(self, dims: int, spec: GatedAttentionSpec, norm_eps: float) -> None:
        super().__init__(dims, spec, norm_eps)
        self.q = nn.Linear(dims, 2 * spec.heads * spec.head_dim, bias=spec.qkv_bias)
        self._borders = [2 * spec.heads, 2 * spec.heads + spec.kv_heads]

    def __call__(self, x: mx.array, rotation: Rotation | None, mask: Mask, cache: LayerCache) -> mx.array:
        """x (B, L, D) -> (B, L, D)"""
        assert rotation is not None, "heads are turned"
        both, k, v = self._projected(x)
        q, gates = both[:, 0::2], both[:, 1::2]  # (B, heads, L, d)
        q, k = rotation(self.q_norm(q)), rotation(self.k_norm(k))
        out = cache.attend(q, k, v, self.scoring, mask) * mx.sigmoid(gates)
        return self.o(out.transpose(0, 2, 1, 3).reshape(*x.shape[:2], -1))
