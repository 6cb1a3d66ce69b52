"""Layers of encoder-decoder transformers: BART (Lewis et al. 2019, arXiv:1910.13461), whose norms follow each branch,
and mBART (Liu et al. 2020, arXiv:2001.08210), whose norms stand before it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import mlx.core as mx
import mlx.nn as nn

from docai.nn.attention import Attention, AttentionSpec
from docai.nn.cache import FullCache
from docai.nn.linear import joined
from docai.nn.mask import Mask
from docai.nn.mlp import Mlp, MlpSpec
from docai.nn.segments import attend_all
from docai.nn.vit import VitAttention


@dataclass(frozen=True, slots=True)
class CrossSpec:
    """A layer of an encoder or a decoder. `pre_norm`: a branch is normed before it, else the sum behind it."""

    dims: int
    heads: int
    mlp: MlpSpec
    pre_norm: bool
    norm_eps: float = 1e-5


class Memory(NamedTuple):
    """What a decoder's layer looks up: keys and values (1, heads, S, d) of an input, made once for a request.

    (B, heads, S, d) are those of several requests whose answers are written in step.
    """

    keys: mx.array
    values: mx.array


class BeamCache(FullCache):
    """Keeps every token of some answers in step, of which some are dropped and others are continued twice."""

    def reorder(self, rows: mx.array) -> None:
        """Go on with these answers (B,), by their numbers so far."""
        assert self._keys is not None
        assert self._values is not None
        self._keys, self._values = self._keys[rows], self._values[rows]


class CrossAttention(nn.Module):
    """Names: q, k, v, o."""

    def __init__(self, dims: int, heads: int) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(dims, dims) for _ in range(4))
        self._heads, self._scale = heads, (dims // heads) ** -0.5

    def fuse(self) -> None:
        """Join k and v; done once, after the weights are loaded."""
        one = joined((self.k, self.v))
        if one is not None:
            self.kv = one
            del self.k, self.v

    def memory(self, states: mx.array) -> Memory:
        """What is looked up of an encoder's states (1, S, D)."""
        parts = mx.split(self.kv(states), 2, axis=-1) if "kv" in self else (self.k(states), self.v(states))
        keys, values = (a.reshape(1, states.shape[1], self._heads, -1).transpose(0, 2, 1, 3) for a in parts)
        return Memory(mx.contiguous(keys), mx.contiguous(values))

    def __call__(self, x: mx.array, memory: Memory) -> mx.array:
        """x (B, L, D) -> (B, L, D). No query sees another: those of several answers to one request are one long row."""
        q = self.q(x).reshape(len(memory.keys), -1, self._heads, x.shape[-1] // self._heads).transpose(0, 2, 1, 3)
        out = attend_all(q, memory.keys, memory.values, self._scale)  # (1, heads, B * L, d), or (B, heads, L, d)
        return self.o(out.transpose(0, 2, 1, 3).reshape(x.shape))


class _Layer(nn.Module):
    def __init__(self, spec: CrossSpec) -> None:
        super().__init__()
        self._pre_norm = spec.pre_norm

    def _with(self, x: mx.array, norm: nn.LayerNorm, branch: Callable[[mx.array], mx.array]) -> mx.array:
        """x and what a branch makes of it."""
        return x + branch(norm(x)) if self._pre_norm else norm(x + branch(x))


class EncoderLayer(_Layer):
    """Names: attn, attn_norm, mlp, mlp_norm."""

    def __init__(self, spec: CrossSpec) -> None:
        super().__init__(spec)
        self.attn = VitAttention(spec.dims, spec.heads)
        self.attn_norm = nn.LayerNorm(spec.dims, eps=spec.norm_eps)
        self.mlp = Mlp(spec.dims, spec.mlp)
        self.mlp_norm = nn.LayerNorm(spec.dims, eps=spec.norm_eps)

    def fuse(self) -> None:
        """Join layers that share their input; done once, after the weights are loaded."""
        self.attn.fuse()

    def __call__(self, x: mx.array) -> mx.array:
        """x (1, S, D) -> (1, S, D); every row sees every row."""
        return self._with(self._with(x, self.attn_norm, self.attn), self.mlp_norm, self.mlp)


class DecoderLayer(_Layer):
    """Names: attn, attn_norm, cross, cross_norm, mlp, mlp_norm."""

    def __init__(self, spec: CrossSpec) -> None:
        super().__init__(spec)
        heads = AttentionSpec(spec.heads, spec.heads, spec.dims // spec.heads, None, qkv_bias=True, out_bias=True)
        self.attn = Attention(spec.dims, heads, spec.norm_eps)
        self.attn_norm = nn.LayerNorm(spec.dims, eps=spec.norm_eps)
        self.cross = CrossAttention(spec.dims, spec.heads)
        self.cross_norm = nn.LayerNorm(spec.dims, eps=spec.norm_eps)
        self.mlp = Mlp(spec.dims, spec.mlp)
        self.mlp_norm = nn.LayerNorm(spec.dims, eps=spec.norm_eps)

    def fuse(self) -> None:
        """Join layers that share their input; done once, after the weights are loaded."""
        self.attn.fuse()
        self.cross.fuse()

    def __call__(self, x: mx.array, mask: Mask, cache: FullCache, memory: Memory) -> mx.array:
        """x (B, L, D) -> (B, L, D)"""
        x = self._with(x, self.attn_norm, lambda a: self.attn(a, None, mask, cache))
        x = self._with(x, self.cross_norm, lambda a: self.cross(a, memory))
        return self._with(x, self.mlp_norm, self.mlp)
