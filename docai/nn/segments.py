"""Attention without a mask over rows that are packed one after another: each segment of them sees itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import mlx.core as mx

_METAL_WIDTHS = (64, 80, 128)  # heads for which MLX has a fused kernel on Metal
_CUDA_WIDTH = 128  # on CUDA: multiples of 8 up to this, in half precision
SCORE_BYTES = 1 << 28  # of scores at a time, where no kernel is fused


@dataclass(frozen=True, slots=True)
class Run:
    """`count` segments of `length` rows each, one after another."""

    count: int
    length: int

    @property
    def rows(self) -> int:
        return self.count * self.length


def runs(lengths: Iterable[int]) -> tuple[Run, ...]:
    """Segments of these lengths, neighbours of equal length in one run."""
    out: list[Run] = []
    for length in lengths:
        if out and out[-1].length == length:
            out[-1] = Run(out[-1].count + 1, length)
        else:
            out.append(Run(1, length))
    return tuple(out)


def shortened(segments: Iterable[Run], times: int) -> tuple[Run, ...]:
    """The segments where `times` rows of each have become one."""
    return tuple(Run(run.count, run.length // times) for run in segments)


def attend_segments(q: mx.array, k: mx.array, v: mx.array, segments: Sequence[Run], scale: float) -> mx.array:
    """q, k, v (N, heads, d) -> (N, heads * d); the segments of a run are a batch, so no mask is needed."""
    out, start = [], 0
    for run in segments:
        queries, keys, values = (_batch(a[start : start + run.rows], run) for a in (q, k, v))
        out.append(attend_all(queries, keys, values, scale).transpose(0, 2, 1, 3).reshape(run.rows, -1))
        start += run.rows
    return out[0] if len(out) == 1 else mx.concatenate(out, axis=0)


def _batch(x: mx.array, run: Run) -> mx.array:
    """(rows, heads, d) -> (count, heads, length, d)"""
    return x.reshape(run.count, run.length, *x.shape[1:]).transpose(0, 2, 1, 3)


def attend_all(q: mx.array, k: mx.array, v: mx.array, scale: float) -> mx.array:
    """q, k, v (B, heads, L, d) -> (B, heads, L, d); every query sees every key.

    Where MLX has a fused kernel, heads are widened with zeros to a width that it knows. Elsewhere the scores would be
    there at once, 4 GB for 8000 patches and 16 heads: queries are taken in slices then.
    """
    width = fused_width(q)
    if width is not None:
        return _padded(q, k, v, scale, width)
    rows = max(1, SCORE_BYTES // (4 * q.shape[0] * q.shape[1] * k.shape[2]))
    starts = range(0, q.shape[2], rows)
    out = [mx.fast.scaled_dot_product_attention(q[:, :, at : at + rows], k, v, scale=scale) for at in starts]
    return out[0] if len(out) == 1 else mx.concatenate(out, axis=2)


def fused_width(q: mx.array) -> int | None:
    """The width of heads with which attention over `q` is one kernel on the default device; None where it is not."""
    width = q.shape[-1]
    if mx.default_device().type == mx.cpu:
        return None
    if mx.metal.is_available():
        return next((w for w in _METAL_WIDTHS if w >= width), None)
    half = q.dtype in (mx.float16, mx.bfloat16)
    return width if half and width % 8 == 0 and width <= _CUDA_WIDTH else None


def _padded(q: mx.array, k: mx.array, v: mx.array, scale: float, width: int) -> mx.array:
    """Zeros behind keys and queries add nothing to their scores; those behind values are cut off."""
    more = width - q.shape[-1]
    if more == 0:
        return mx.fast.scaled_dot_product_attention(q, k, v, scale=scale)
    q, k, v = (mx.pad(a, [(0, 0), (0, 0), (0, 0), (0, more)]) for a in (q, k, v))
    return mx.fast.scaled_dot_product_attention(q, k, v, scale=scale)[..., :-more]
