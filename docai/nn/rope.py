"""Rotary position embedding (Su et al. 2021, arXiv:2104.09864) with the scalings and layouts in use.

A `Rotation` is made once for a forward pass and shared by all layers of one `RopeSpec`. Where positions simply count
up, as in every decoding step, it is MLX's fused kernel; elsewhere (several axes, gaps) it is a table of angles.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

Rotation = Callable[[mx.array], mx.array]  # (B, heads, L, head_dim) -> the same, turned


@dataclass(frozen=True, slots=True)
class LinearScaling:
    """Positions divided by `factor` (Chen et al. 2023, arXiv:2306.15595)."""

    factor: float


@dataclass(frozen=True, slots=True)
class Llama3Scaling:
    """Low frequencies divided by `factor`, high ones kept, a ramp between (Llama 3.1)."""

    factor: float
    low: float
    high: float
    context: int  # positions of the first training


@dataclass(frozen=True, slots=True)
class YarnScaling:
    """YaRN (Peng et al. 2023, arXiv:2309.00071). `attention` scales queries and keys; None: by the paper's rule."""

    factor: float
    context: int
    fast: float = 32.0
    slow: float = 1.0
    attention: float | None = None
    truncate: bool = True


@dataclass(frozen=True, slots=True)
class LongScaling:
    """LongRoPE (Ding et al. 2024, arXiv:2402.13753): a divisor for each frequency, others beyond `context` tokens.

    `attention` scales queries and keys.
    """

    short: tuple[float, ...]
    long: tuple[float, ...]
    context: int
    attention: float


@dataclass(frozen=True, slots=True)
class ProportionalScaling:
    """Only the first `part` of all pairs turn, by what they would if all did, divided by `factor` (Gemma 4)."""

    part: float
    factor: float = 1.0


Scaling = LinearScaling | Llama3Scaling | YarnScaling | LongScaling | ProportionalScaling


@dataclass(frozen=True, slots=True)
class RopeSpec:
    """How the first `dims` of a head are turned.

    `interleaved`: pairs are neighbours (2i, 2i+1); otherwise they are halves (i, i + dims/2).
    `sections`: pairs per axis (time, height, width) of multimodal positions (Qwen2-VL, arXiv:2409.12191), in a row or,
    `sections_mixed`, every third one (Qwen3-VL).
    """

    dims: int
    theta: float = 10_000.0
    interleaved: bool = False
    scaling: Scaling | None = None
    sections: tuple[int, ...] = ()
    sections_mixed: bool = False


def frequencies(spec: RopeSpec, *, long: bool = False) -> NDArray[np.float64]:
    """(dims/2,) radians a position of each pair, scaled; `long`: for sequences beyond the first training's context."""
    plain = spec.theta ** -(np.arange(0, spec.dims, 2, dtype=np.float64) / spec.dims)
    match spec.scaling:
        case None:
            return plain
        case LinearScaling(factor):
            return plain / factor
        case Llama3Scaling():
            return _llama3(plain, spec.scaling)
        case YarnScaling():
            return _yarn(plain, spec)
        case LongScaling():
            return plain / np.asarray(spec.scaling.long if long else spec.scaling.short)
        case ProportionalScaling(part, factor):
            return np.where(np.arange(len(plain)) < int(part * spec.dims // 2), plain / factor, 0.0)


def _llama3(plain: NDArray[np.float64], scaling: Llama3Scaling) -> NDArray[np.float64]:
    turns = scaling.context * plain / (2 * np.pi)  # within the first training's context
    keep = np.clip((turns - scaling.low) / (scaling.high - scaling.low), 0, 1)
    return plain * (keep + (1 - keep) / scaling.factor)


def _yarn(plain: NDArray[np.float64], spec: RopeSpec) -> NDArray[np.float64]:
    scaling = spec.scaling
    assert isinstance(scaling, YarnScaling)

    def pair(turns: float) -> float:
        """The pair that makes `turns` within the first training's context."""
        return spec.dims * math.log(scaling.context / (turns * 2 * math.pi)) / (2 * math.log(spec.theta))

    low, high = pair(scaling.fast), pair(scaling.slow)
    if scaling.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, spec.dims - 1)
    keep = 1 - np.clip((np.arange(len(plain)) - low) / max(high - low, 0.001), 0, 1)
    return plain * (keep + (1 - keep) / scaling.factor)


def magnitude(spec: RopeSpec) -> float:
    """What queries and keys are multiplied by along with the turn."""
    match spec.scaling:
        case YarnScaling(factor, attention=None):
            return 0.1 * math.log(factor) + 1 if factor > 1 else 1.0
        case YarnScaling(attention=attention) | LongScaling(attention=attention):
            return attention or 1.0
        case _:
            return 1.0


class Rope:
    """Makes the rotations of one spec."""

    def __init__(self, spec: RopeSpec) -> None:
        self.spec = spec
        self._turns = _array(frequencies(spec))
        self._long = _array(frequencies(spec, long=True)) if isinstance(spec.scaling, LongScaling) else None
        self._axes = mx.array(_axes(spec)) if spec.sections else None
        self._magnitude = magnitude(spec)

    def counting(self, offset: int | mx.array, end: int | mx.array) -> Rotation:
        """For positions offset, offset + 1, ...; an array gives an offset for each sequence of the batch.

        `end`: the length of the sequence, as far as it is known; LongRoPE turns longer ones by other frequencies.
        """
        if isinstance(end, mx.array) and isinstance(self.spec.scaling, LongScaling):
            return self._counting_long(offset, end > self.spec.scaling.context)
        return self._counting(offset, 0 if isinstance(end, mx.array) else end)

    def _counting_long(self, offset: int | mx.array, long: mx.array) -> Rotation:
        """As `counting`; the sequences (B,) that are `long` are turned by other frequencies than the rest."""
        assert self._long is not None, "only LongRoPE has them"
        turns = mx.where(long[:, None, None], self._long, self._turns)  # (B, 1, dims/2)
        start = mx.broadcast_to(mx.array(offset), long.shape)[:, None]

        def rotate(x: mx.array) -> mx.array:
            angles = (start + mx.arange(x.shape[2]))[..., None].astype(mx.float32) * turns  # (B, L, dims/2)
            cos, sin = mx.cos(angles)[:, None], mx.sin(angles)[:, None]
            return turn(self._scaled(x), cos, sin, interleaved=self.spec.interleaved)

        return rotate

    def _counting(self, offset: int | mx.array, end: int) -> Rotation:
        spec = self.spec
        turns = None if spec.scaling is None else self._turns_until(end)
        periods = None if turns is None else 1 / turns

        def rotate(x: mx.array) -> mx.array:
            return mx.fast.rope(
                self._scaled(x), spec.dims, traditional=spec.interleaved, scale=1.0, offset=offset,
                base=spec.theta if periods is None else None, freqs=periods,
            )  # fmt: skip

        return rotate

    def at(self, positions: mx.array) -> Rotation:
        """For given positions: (B, L), or (axes, B, L) where the spec has sections."""
        if self._axes is None:
            angles = positions[..., None].astype(mx.float32) * self._turns  # (B, L, dims/2)
        else:
            per_pair = mx.take(positions, self._axes, axis=0).astype(mx.float32)  # (dims/2, B, L)
            angles = mx.moveaxis(per_pair, 0, -1) * self._turns
        cos, sin = mx.cos(angles)[:, None], mx.sin(angles)[:, None]  # (B, 1, L, dims/2)
        return lambda x: turn(self._scaled(x), cos, sin, interleaved=self.spec.interleaved)

    def _turns_until(self, end: int) -> mx.array:
        if self._long is None or not isinstance(self.spec.scaling, LongScaling):
            return self._turns
        return self._long if end > self.spec.scaling.context else self._turns

    def _scaled(self, x: mx.array) -> mx.array:
        if self._magnitude == 1.0:
            return x
        dims = self.spec.dims
        if dims == x.shape[-1]:
            return x * self._magnitude
        return mx.concatenate([x[..., :dims] * self._magnitude, x[..., dims:]], axis=-1)


def _array(values: NDArray[np.float64]) -> mx.array:
    return mx.array(values.astype(np.float32))


def _axes(spec: RopeSpec) -> NDArray[np.int32]:
    """(dims/2,) the axis whose position turns each pair."""
    if not spec.sections_mixed:
        return np.repeat(np.arange(len(spec.sections)), spec.sections).astype(np.int32)
    axes = np.zeros(spec.dims // 2, np.int32)
    for axis in range(1, len(spec.sections)):
        axes[axis : 3 * spec.sections[axis] : 3] = axis
    return axes


def turn(x: mx.array, cos: mx.array, sin: mx.array, *, interleaved: bool = False) -> mx.array:
    """Turn the first 2n numbers of each head by angles given as cos and sin, (..., n); computed in float32."""
    dims = 2 * cos.shape[-1]
    part = x[..., :dims].astype(mx.float32)
    a, b = (part[..., 0::2], part[..., 1::2]) if interleaved else (part[..., : dims // 2], part[..., dims // 2 :])
    turned = [a * cos - b * sin, b * cos + a * sin]
    out = mx.stack(turned, axis=-1).reshape(part.shape) if interleaved else mx.concatenate(turned, axis=-1)
    out = out.astype(x.dtype)
    return out if dims == x.shape[-1] else mx.concatenate([out, x[..., dims:]], axis=-1)
