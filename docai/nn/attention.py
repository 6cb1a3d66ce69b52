"""Self-attention of causal decoders: grouped heads (Ainslie et al. 2023, arXiv:2305.13245), optional head norms."""

from __future__ import annotations

from dataclasses import dataclass

import mlx.core as mx
import mlx.nn as nn

from docai.nn.cache import LayerCache
from docai.nn.linear import joined
from docai.nn.mask import Mask
from docai.nn.rope import RopeSpec, Rotation
from docai.nn.scores import Scoring


@dataclass(frozen=True, slots=True)
class AttentionSpec:
    """One layer's attention. `scale` None: 1 / sqrt(head_dim). `window`: tokens that a sliding window sees.

    `head_norm`: RMS norm over each head of queries and keys, before the rotation. `rope` None: no positions.
    """

    heads: int
    kv_heads: int
    head_dim: int
    rope: RopeSpec | None
    scale: float | None = None
    qkv_bias: bool = False
    out_bias: bool = False
    head_norm: bool = False
    cap: float | None = None
    window: int | None = None

    @property
    def kept_heads(self) -> int:
        """Heads of keys, and as many of values, that a cache keeps."""
        return self.kv_heads

    @property
    def scoring(self) -> Scoring:
        return Scoring(self.head_dim**-0.5 if self.scale is None else self.scale, self.cap)


class Attention(nn.Module):
    """Names: q, k, v, o; q_norm, k_norm where heads are normed."""

    def __init__(self, dims: int, spec: AttentionSpec, norm_eps: float) -> None:
        super().__init__()
        self.q = nn.Linear(dims, spec.heads * spec.head_dim, bias=spec.qkv_bias)
        self.k = nn.Linear(dims, spec.kv_heads * spec.head_dim, bias=spec.qkv_bias)
        self.v = nn.Linear(dims, spec.kv_heads * spec.head_dim, bias=spec.qkv_bias)
        self.o = nn.Linear(spec.heads * spec.head_dim, dims, bias=spec.out_bias)
        if spec.head_norm:
            self.q_norm = nn.RMSNorm(spec.head_dim, eps=norm_eps)
            self.k_norm = nn.RMSNorm(spec.head_dim, eps=norm_eps)
        self._spec, self._scoring = spec, spec.scoring
        self._borders = [spec.heads, spec.heads + spec.kv_heads]

    def fuse(self) -> None:
        """Join q, k and v; done once, after the weights are loaded."""
        one = joined((self.q, self.k, self.v))
        if one is not None:
            self.qkv = one
            del self.q, self.k, self.v

    def __call__(self, x: mx.array, rotation: Rotation | None, mask: Mask, cache: LayerCache) -> mx.array:
        """x (B, L, D) -> (B, L, D)"""
        q, k, v = self._turned(x, rotation or _unturned)
        out = cache.attend(q, k, v, self.scoring, mask)
        return self.o(out.transpose(0, 2, 1, 3).reshape(*x.shape[:2], -1))

    @property
    def scoring(self) -> Scoring:
        return self._scoring

    def _turned(self, x: mx.array, rotation: Rotation) -> list[mx.array]:
        """Queries, keys and values, (B, heads, L, d) each, the first two turned."""
        if "qkv" not in self:
            q, k, v = (self._heads(layer(x)) for layer in (self.q, self.k, self.v))
        elif self._spec.head_norm:
            q, k, v = mx.split(self._heads(self.qkv(x)), self._borders, axis=1)
        else:  # queries and keys lie side by side: one kernel turns both
            both, v = mx.split(self._heads(self.qkv(x)), self._borders[1:], axis=1)
            return [*mx.split(rotation(both), self._borders[:1], axis=1), v]
        if self._spec.head_norm:
            q, k = self.q_norm(q), self.k_norm(k)
        return [rotation(q), rotation(k), v]

    def _heads(self, x: mx.array) -> mx.array:
        """(B, L, heads * d) -> (B, heads, L, d)"""
        return x.reshape(*x.shape[:2], -1, self._spec.head_dim).transpose(0, 2, 1, 3)


def _unturned(x: mx.array) -> mx.array:
    return x
