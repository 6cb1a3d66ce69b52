"""Self-attention of causal decoders: grouped heads (Ainslie et al. 2023, arXiv:2305.13245), optional head norms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import mlx.core as mx
import mlx.nn as nn

from docai.nn.cache import LayerCache, Lent
from docai.nn.linear import joined
from docai.nn.mask import Mask
from docai.nn.norm import rms
from docai.nn.rope import RopeSpec, Rotation
from docai.nn.scores import Scoring


@dataclass(frozen=True, slots=True)
class AttentionSpec:
    """One layer's attention. `scale` None: 1 / sqrt(head_dim). `window`: tokens that a sliding window sees.

    `head_norm`: RMS norm over each head of queries and keys, before the rotation. `rope` None: no positions.
    `value_norm`: one without a weight over each head of values. `values_are_keys`: before norms and rotation; there is
    no matrix for values. `ahead`: whether tokens of a block (see `docai.nn.mask`) see each other, and how far back.

    Raises ValueError for numbers that make no layer.
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
    value_norm: bool = False
    values_are_keys: bool = False
    ahead: Literal["everywhere", "in window", "never"] = "everywhere"

    def __post_init__(self) -> None:
        if self.head_dim < 1 or self.kv_heads < 1 or self.heads < 1 or self.heads % self.kv_heads:
            raise ValueError(f"{self.heads} heads of {self.head_dim} numbers cannot share {self.kv_heads} of keys")
        if self.rope is not None and self.rope.dims % 2:
            raise ValueError(f"{self.rope.dims} numbers of a head cannot be turned in pairs")
        if self.window is not None and (not isinstance(self.window, int) or self.window < 1):
            raise ValueError(f"{self.window} tokens make no window")

    @property
    def kept_heads(self) -> int:
        """Heads of keys, and as many of values, that a cache keeps."""
        return self.kv_heads

    @property
    def state_size(self) -> int:
        """Numbers in float32 that a cache keeps of a sequence of any length, instead of keys and values."""
        return 0

    @property
    def working_size(self) -> int:
        """Numbers in float32 that each token takes while it is taken into a state."""
        return 0

    @property
    def scoring(self) -> Scoring:
        return Scoring(self.head_dim**-0.5 if self.scale is None else self.scale, self.cap)


class Attention(nn.Module):
    """Names: q, k, v, o; v where it is not k; q_norm, k_norm where heads are normed."""

    def __init__(self, dims: int, spec: AttentionSpec, norm_eps: float) -> None:
        super().__init__()
        self.q = nn.Linear(dims, spec.heads * spec.head_dim, bias=spec.qkv_bias)
        self.k = nn.Linear(dims, spec.kv_heads * spec.head_dim, bias=spec.qkv_bias)
        if not spec.values_are_keys:
            self.v = nn.Linear(dims, spec.kv_heads * spec.head_dim, bias=spec.qkv_bias)
        self.o = nn.Linear(spec.heads * spec.head_dim, dims, bias=spec.out_bias)
        if spec.head_norm:
            self.q_norm = nn.RMSNorm(spec.head_dim, eps=norm_eps)
            self.k_norm = nn.RMSNorm(spec.head_dim, eps=norm_eps)
        self._spec, self._scoring, self._eps = spec, spec.scoring, norm_eps
        self._borders = [spec.heads, spec.heads + spec.kv_heads][: 1 if spec.values_are_keys else 2]

    def fuse(self) -> None:
        """Join q, k and v; done once, after the weights are loaded."""
        names = [name for name in "qkv" if name in self]
        one = joined([self[name] for name in names])
        if one is not None:
            self.qkv = one
            for name in names:
                del self[name]

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
        spec = self._spec
        if "qkv" in self and not (spec.head_norm or spec.values_are_keys or spec.value_norm):
            # queries and keys lie side by side: one kernel turns both
            both, v = mx.split(in_heads(self.qkv(x), spec.head_dim), self._borders[1:], axis=1)
            return [*mx.split(rotation(both), self._borders[:1], axis=1), v]
        q, k, v = self._projected(x)
        if spec.head_norm:
            q, k = self.q_norm(q), self.k_norm(k)
        return [rotation(q), rotation(k), rms(v, self._eps) if spec.value_norm else v]

    def _projected(self, x: mx.array) -> list[mx.array]:
        """Queries, keys and values as the matrices give them."""
        width = self._spec.head_dim
        if "qkv" in self:
            parts = [*mx.split(in_heads(self.qkv(x), width), self._borders, axis=1)]
        else:
            parts = [in_heads(self[name](x), width) for name in "qkv" if name in self]
        return [*parts, parts[1]] if self._spec.values_are_keys else parts


class Borrowing(nn.Module):
    """Attention of a layer that sees another one's keys and values. Names: q, o; q_norm where heads are normed."""

    def __init__(self, dims: int, spec: AttentionSpec, norm_eps: float) -> None:
        super().__init__()
        self.q = nn.Linear(dims, spec.heads * spec.head_dim, bias=spec.qkv_bias)
        self.o = nn.Linear(spec.heads * spec.head_dim, dims, bias=spec.out_bias)
        if spec.head_norm:
            self.q_norm = nn.RMSNorm(spec.head_dim, eps=norm_eps)
        self._spec = spec

    def fuse(self) -> None:
        """There is nothing to join."""

    def __call__(self, x: mx.array, rotation: Rotation | None, mask: Mask, cache: LayerCache) -> mx.array:
        """x (B, L, D) -> (B, L, D)"""
        assert isinstance(cache, Lent), "another layer took these tokens in"
        q = in_heads(self.q(x), self._spec.head_dim)
        q = (rotation or _unturned)(self.q_norm(q) if "q_norm" in self else q)
        out = cache.again(q, self._spec.scoring, mask)
        return self.o(out.transpose(0, 2, 1, 3).reshape(*x.shape[:2], -1))


def in_heads(x: mx.array, head_dim: int) -> mx.array:
    """(B, L, heads * d) -> (B, heads, L, d)"""
    return x.reshape(*x.shape[:2], -1, head_dim).transpose(0, 2, 1, 3)


def _unturned(x: mx.array) -> mx.array:
    return x
