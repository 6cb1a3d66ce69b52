"""A Conformer over a spectrogram, whose rows see only their neighbourhood (Gulati et al. 2020, arXiv:2005.08100).

As in the Universal Speech Model (Zhang et al. 2023, arXiv:2303.01037), with which Gemma 4 hears: two convolutions make
one row of 4 x 4 numbers of the spectrogram; then blocks of a half feed-forward step, attention, a convolution that sees
what is behind, and another half step. Attention is computed in chunks of rows, each with the rows around it; how far
apart two rows are counts by a table of waves that each layer projects for itself (Dai et al. 2019, arXiv:1901.02860).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import mlx.core as mx
import mlx.nn as nn
import numpy as np

from docai.nn.activation import ACTIVATIONS
from docai.nn.clipped import ClippedLinear

_INNER_EPS = 1e-6  # of the norms that no config has a number for
_NEVER = -1e9  # the score of rows that are not seen


@dataclass(frozen=True, slots=True)
class ConformerSpec:
    """A Conformer of `layers` blocks of `dims` numbers, over spectrograms of `bins` numbers, giving rows of `out`.

    `channels` of the two convolutions before it, `kernel` of that within each block. Attention is computed for `chunk`
    rows at a time: each sees itself and the rows less than `past` before it and less than `ahead` behind. Scores are
    bent to within `cap`. `bound`: no number between the parts of a block is larger. `clipped`: see `ClippedLinear`.

    Raises ValueError for numbers that make no tower.
    """

    dims: int
    layers: int
    heads: int
    bins: int
    out: int
    channels: tuple[int, int] = (128, 32)
    kernel: int = 5
    chunk: int = 12
    past: int = 12
    ahead: int = 0
    cap: float = 50.0
    bound: float = 1e10
    feed_scale: float = 0.5
    activation: str = "silu"
    norm_eps: float = 1e-6
    clipped: bool = True

    def __post_init__(self) -> None:
        around = self.chunk, self.past, self.ahead, self.kernel
        if any(type(rows) is not int for rows in around) or min(around) < 0 or not self.chunk * self.kernel:
            raise ValueError(f"chunks of {around[0]} rows, those around and a kernel of {around[1:]} make no tower")
        if self.dims % 2:
            raise ValueError(f"{self.dims} numbers cannot be half sines and half cosines")

    @property
    def head_dim(self) -> int:
        return self.dims // self.heads

    @property
    def context(self) -> int:
        """The rows that a chunk may see."""
        return self.chunk + self.past + self.ahead


def rows_of(frames: int) -> int:
    """The rows that come of so many frames of a spectrogram: both convolutions halve them, rounding up."""
    return -(-frames // 4)


class Conformer(nn.Module):
    """Names: shrink.N, enter, layers.N, leave."""

    def __init__(self, spec: ConformerSpec) -> None:
        super().__init__()
        first, second = spec.channels
        self.shrink = [Shrink(1, first, spec.norm_eps), Shrink(first, second, spec.norm_eps)]
        self.enter = nn.Linear(rows_of(spec.bins) * second, spec.dims, bias=False)
        self.layers = [ConformerLayer(spec) for _ in range(spec.layers)]
        self.leave = nn.Linear(spec.dims, spec.out)
        self._spec = spec

    def encode(self, spectrogram: mx.array) -> mx.array:
        """(frames, bins) -> (rows_of(frames), out)"""
        x = spectrogram.astype(self.enter_dtype)[None, :, :, None]
        for shrink in self.shrink:
            x = shrink(x)
        x = self.enter(x[0].reshape(x.shape[1], -1))
        seen, waves = self._seen(x.shape[0]), mx.array(distance_waves(self._spec)).astype(x.dtype)
        for layer in self.layers:
            x = layer(x, waves, seen)
        return self.leave(x)

    @property
    def enter_dtype(self) -> mx.Dtype:
        """The type in which it computes: convolutions are never packed."""
        return self.shrink[0].weight.dtype

    def _seen(self, length: int) -> mx.array:
        """(chunks, 1, chunk, context) which rows of the context each row of a chunk sees."""
        spec = self._spec
        chunks = -(-length // spec.chunk)
        before = np.arange(spec.chunk)[:, None] + spec.past - np.arange(spec.context)
        near = ((before >= 0) & (before < spec.past)) | ((before < 0) & (-before < spec.ahead))
        row = np.arange(chunks)[:, None] * spec.chunk - spec.past + np.arange(spec.context)
        there = (row >= 0) & (row < length)
        return mx.array(near[None, None] & there[:, None, None])


class Shrink(nn.Module):
    """A convolution that halves both sides, a norm over channels, a ReLU. Names: weight (outputs, 3, 3, inputs), norm.

    Outside of the spectrogram there are zeros.
    """

    def __init__(self, inputs: int, outputs: int, eps: float) -> None:
        super().__init__()
        self.weight = mx.zeros((outputs, 3, 3, inputs))
        self.norm = nn.LayerNorm(outputs, eps=eps, bias=False)

    def __call__(self, x: mx.array) -> mx.array:
        """(1, H, W, inputs) -> (1, ceil(H / 2), ceil(W / 2), outputs)"""
        return nn.relu(self.norm(mx.conv2d(x, self.weight, stride=2, padding=1)))


class ConformerLayer(nn.Module):
    """Names: feed_before, attention, norm_before, norm_behind, convolution, feed_behind, norm_out."""

    def __init__(self, spec: ConformerSpec) -> None:
        super().__init__()
        self.feed_before, self.feed_behind = HalfStep(spec), HalfStep(spec)
        self.attention = ChunkedAttention(spec)
        self.norm_before, self.norm_behind = (nn.RMSNorm(spec.dims, eps=_INNER_EPS) for _ in range(2))
        self.convolution = LightConvolution(spec)
        self.norm_out = nn.RMSNorm(spec.dims, eps=_INNER_EPS)
        self._bound = spec.bound

    def __call__(self, x: mx.array, waves: mx.array, seen: mx.array) -> mx.array:
        """(L, D) -> (L, D)"""
        x = self.feed_before(x)
        y = self.attention(self.norm_before(bounded(x, self._bound)), waves, seen)
        x = x + self.norm_behind(bounded(y, self._bound))
        x = self.feed_behind(self.convolution(x))
        return self.norm_out(bounded(x, self._bound))


class HalfStep(nn.Module):
    """A feed-forward step of which only a part is added. Names: norm_before, up, down, norm_behind."""

    def __init__(self, spec: ConformerSpec) -> None:
        super().__init__()
        self.norm_before, self.norm_behind = (nn.RMSNorm(spec.dims, eps=_INNER_EPS) for _ in range(2))
        self.up = ClippedLinear(spec.dims, spec.dims * 4, clipped=spec.clipped)
        self.down = ClippedLinear(spec.dims * 4, spec.dims, clipped=spec.clipped)
        self._activation, self._bound, self._scale = ACTIVATIONS[spec.activation], spec.bound, spec.feed_scale

    def __call__(self, x: mx.array) -> mx.array:
        y = self.down(self._activation(self.up(self.norm_before(bounded(x, self._bound)))))
        return x + self._scale * self.norm_behind(bounded(y, self._bound))


class LightConvolution(nn.Module):
    """Each channel mixed with the rows before it, behind a gate. Names: norm, start, weight (D, k), norm_inner, end."""

    def __init__(self, spec: ConformerSpec) -> None:
        super().__init__()
        self.norm, self.norm_inner = (nn.RMSNorm(spec.dims, eps=spec.norm_eps) for _ in range(2))
        self.start = ClippedLinear(spec.dims, spec.dims * 2, clipped=spec.clipped)
        self.weight = mx.zeros((spec.dims, spec.kernel))
        self.end = ClippedLinear(spec.dims, spec.dims, clipped=spec.clipped)
        self._activation, self._bound, self._kernel = ACTIVATIONS[spec.activation], spec.bound, spec.kernel

    def __call__(self, x: mx.array) -> mx.array:
        value, gate = mx.split(self.start(self.norm(x)), 2, axis=-1)
        rows = mx.pad(value * mx.sigmoid(gate), [(self._kernel - 1, 0), (0, 0)])
        mixed = rows[: len(x)] * self.weight[:, 0]
        for at in range(1, self._kernel):
            mixed = mixed + rows[at : at + len(x)] * self.weight[:, at]
        return x + self.end(self._activation(self.norm_inner(bounded(mixed, self._bound))))


class ChunkedAttention(nn.Module):
    """Names: q, k, v, out, relative, scale (head_dim). Scores are in float32."""

    def __init__(self, spec: ConformerSpec) -> None:
        super().__init__()
        self.q, self.k, self.v, self.out = (ClippedLinear(spec.dims, spec.dims, clipped=spec.clipped) for _ in range(4))
        self.relative = nn.Linear(spec.dims, spec.dims, bias=False)
        self.scale = mx.zeros((spec.head_dim,))
        self._spec = spec

    def __call__(self, x: mx.array, waves: mx.array, seen: mx.array) -> mx.array:
        """x (L, D); waves as of `distance_waves`; seen (chunks, 1, chunk, context) -> (L, D)"""
        spec, length = self._spec, x.shape[0]
        q, k, v = (part(x).astype(mx.float32).reshape(length, spec.heads, -1) for part in (self.q, self.k, self.v))
        # softplus(0) is log 2: that is what scales are measured by, those of keys being 1 for ever
        q = q * (spec.head_dim**-0.5 / math.log(2)) * nn.softplus(self.scale.astype(mx.float32))
        k = k * (math.log1p(math.e) / math.log(2))
        q = mx.pad(q, [(0, -length % spec.chunk), (0, 0), (0, 0)]).reshape(-1, spec.chunk, *q.shape[1:])
        q = q.swapaxes(1, 2)  # (chunks, heads, chunk, d)
        k, v = (self._around(rows) for rows in (k, v))
        far = self.relative(waves).astype(mx.float32).reshape(-1, spec.heads, spec.head_dim)
        scores = q @ k.swapaxes(2, 3) + shifted(q @ far.transpose(1, 2, 0), spec.context)
        scores = spec.cap * mx.tanh(scores / spec.cap)
        weights = mx.softmax(mx.where(seen, scores, _NEVER), axis=-1)
        mixed = (weights @ v).swapaxes(1, 2).reshape(-1, spec.dims)[:length]
        return self.out(mixed.astype(x.dtype))

    def _around(self, rows: mx.array) -> mx.array:
        """(L, heads, d) -> (chunks, heads, context, d): the rows around each chunk, zeros where there are none."""
        spec = self._spec
        chunks = -(-rows.shape[0] // spec.chunk)
        wide = mx.pad(rows, [(spec.past, spec.ahead + spec.chunk - 1), (0, 0), (0, 0)])
        places = mx.arange(chunks)[:, None] * spec.chunk + mx.arange(spec.context)
        return wide[places].swapaxes(1, 2)


def distance_waves(spec: ConformerSpec) -> np.ndarray:
    """(context // 2 + 1, D) sines, then cosines, of the distances from the farthest row before to the row itself."""
    distance = np.arange(spec.context // 2, -1, -1.0)
    slowing = math.log(10_000) / max(spec.dims // 2 - 1, 1)
    turned = distance[:, None] * np.exp(np.arange(spec.dims // 2) * -slowing)
    return np.concatenate([np.sin(turned), np.cos(turned)], axis=-1).astype(np.float32)


def shifted(scores: mx.array, context: int) -> mx.array:
    """Scores (..., chunk, distances) by distance as scores (..., chunk, context) by place: row i moves right by i.

    What moves in is 0; it is of rows that are not seen, as far as distances reach over `chunk` - 1 rows less than the
    context.
    """
    *outer, chunk, distances = scores.shape
    wide = mx.pad(scores, [*[(0, 0)] * (len(outer) + 1), (0, context + 1 - distances)])
    return wide.reshape(*outer, chunk * (context + 1))[..., : chunk * context].reshape(*outer, chunk, context)


def bounded(x: mx.array, bound: float) -> mx.array:
    """No number beyond the bound, nor beyond what its type can hold."""
    most = min(bound, float(mx.finfo(x.dtype).max))
    return mx.clip(x, -most, most)
