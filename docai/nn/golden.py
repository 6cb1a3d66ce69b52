"""Attention of early-fusion decoders such as Falcon-OCR: every head sees the plane of a picture turned its own way.

The first half of a head is turned by time as usual; the second by a place on the plane, y and x, through frequencies
that were learned for each head ("golden" rotary embedding). Text has the place (0, 0), which turns nothing, so that in
decoding only time is left.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import mlx.core as mx
import mlx.nn as nn
import numpy as np

from docai.nn.attention import Attention, AttentionSpec, in_heads
from docai.nn.norm import rms
from docai.nn.rope import Rotation, turn
from docai.nn.scores import Scoring


@dataclass(frozen=True, slots=True)
class GoldenSpec:
    """`pairs` of numbers of each head are turned, the last ones."""

    heads: int
    pairs: int


class Golden(nn.Module):
    """Names: weight (heads, pairs, 2), the frequencies of y and x. It stays float32: places are multiplied by it."""

    def __init__(self, spec: GoldenSpec) -> None:
        super().__init__()
        self.weight = mx.zeros((spec.heads, spec.pairs, 2))

    def after(self, rotation: Rotation, places: mx.array) -> Rotation:
        """`rotation`, and behind it the turn by `places` (2, B, L) on the plane."""
        y, x = places.astype(mx.float32)[:, :, None, :, None]  # (B, 1, L, 1)
        angles = y * self.weight[:, None, :, 0] + x * self.weight[:, None, :, 1]  # (B, heads, L, pairs)
        return _Headwise(rotation, mx.cos(angles), mx.sin(angles))


@dataclass(frozen=True, slots=True, eq=False)
class _Headwise:
    """A turn, and behind it another one for each head: `cos` and `sin` (B, heads, L, pairs)."""

    rotation: Rotation
    cos: mx.array
    sin: mx.array

    def __call__(self, heads: mx.array) -> mx.array:
        heads = self.rotation(heads)
        start = heads.shape[-1] - 2 * self.cos.shape[-1]
        turned = turn(heads[..., start:], self.cos, self.sin, interleaved=True)
        return mx.concatenate([heads[..., :start], turned], axis=-1)


def plane(rows: int, columns: int) -> np.ndarray:
    """(2, rows * columns) y and x of the patches of a picture, row by row.

    The plane has the picture's shape and, whatever that is, an area of 4.
    """
    shape = (rows / columns) ** 0.5
    y, x = np.linspace(-shape, shape, rows), np.linspace(-1 / shape, 1 / shape, columns)
    return np.stack(np.meshgrid(y, x, indexing="ij")).reshape(2, -1).astype(np.float32)


@dataclass(frozen=True, slots=True)
class GoldenAttentionSpec(AttentionSpec):
    """Heads of queries and keys are normed without weights; `eps` is that norm's."""

    eps: float = 1e-6

    @property
    def kept_heads(self) -> int:
        return self.heads


class GoldenAttention(Attention):
    """Names: q, k, v, o; sinks (heads,), see `Scoring`.

    Heads that share keys turn them in different ways, so keys are repeated before the turn and kept for every head;
    so are values, since the kernel wants as many of them.
    """

    def __init__(self, dims: int, spec: GoldenAttentionSpec) -> None:
        super().__init__(dims, spec, spec.eps)
        self.sinks = mx.zeros((spec.heads,))
        self._eps, self._repeats = spec.eps, spec.heads // spec.kv_heads

    @property
    def scoring(self) -> Scoring:
        return replace(self._scoring, sinks=self.sinks)

    def _turned(self, x: mx.array, rotation: Rotation) -> list[mx.array]:
        if "qkv" not in self:
            q, k, v = (in_heads(layer(x), self._spec.head_dim) for layer in (self.q, self.k, self.v))
        elif isinstance(rotation, _Headwise):
            q, k, v = mx.split(in_heads(self.qkv(x), self._spec.head_dim), self._borders, axis=1)
        else:  # text turns all heads alike: one kernel norms queries and keys, one turns them
            both, v = mx.split(in_heads(self.qkv(x), self._spec.head_dim), self._borders[1:], axis=1)
            q, k = mx.split(rotation(rms(both, self._eps)), self._borders[:1], axis=1)
            return [q, self._repeated(k), self._repeated(v)]
        return [rotation(rms(q, self._eps)), rotation(self._repeated(rms(k, self._eps))), self._repeated(v)]

    def _repeated(self, heads: mx.array) -> mx.array:
        return mx.repeat(heads, self._repeats, axis=1)
