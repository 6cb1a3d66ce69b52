"""Scaled dot-product attention over plain and quantized keys and values, with soft caps and sinks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import mlx.core as mx

from docai.nn.mask import Mask


@dataclass(frozen=True, slots=True)
class Scoring:
    """How scores are made: scaled by `scale`; kept within +-`cap` by tanh (Gemma 2).

    `sinks` (heads,): a score more for each head that nothing is behind, so that weights may add up to less than one.
    """

    scale: float
    cap: float | None = None
    sinks: mx.array | None = field(default=None, compare=False)


def attend(q: mx.array, k: mx.array, v: mx.array, scoring: Scoring, mask: Mask) -> mx.array:
    """q (B, heads, L, d), k and v (B, kv_heads, S, d) -> (B, heads, L, d); grouped heads share keys and values."""
    if scoring.cap is None:
        sinks = None if scoring.sinks is None else scoring.sinks.astype(q.dtype)
        return mx.fast.scaled_dot_product_attention(q, k, v, scale=scoring.scale, mask=mask, sinks=sinks)
    grouped = _grouped(q, k.shape[1])
    scores = (grouped * scoring.scale) @ k[:, :, None].swapaxes(-1, -2)  # (B, kv_heads, group, L, S)
    return (_weights(scores, scoring, mask, q.dtype) @ v[:, :, None]).reshape(q.shape)


def attend_quantized(
    q: mx.array, k: Sequence[mx.array], v: Sequence[mx.array], scoring: Scoring, mask: Mask
) -> mx.array:
    """As `attend`, with keys and values as (packed, scales, biases) of mx.quantize along the head."""
    grouped = _grouped(q, k[0].shape[1]) * scoring.scale
    scores = _product(grouped, k, q.shape[-1], transpose=True)
    weights = _weights(scores, scoring, mask, q.dtype)
    return _product(weights, v, q.shape[-1], transpose=False).reshape(q.shape)


def attend_rounded_rows(
    q: mx.array, rows: Sequence[mx.array], turned: Sequence[mx.array], rank: int, scoring: Scoring, mask: Mask
) -> mx.array:
    """As `attend_quantized`, where keys are `rows` of `rank` numbers beside what is `turned`, and values the rows.

    q (B, heads, L, rank + turned) -> (B, heads, L, rank)
    """
    grouped = _grouped(q, 1) * scoring.scale
    plain, rest = grouped[..., :rank], grouped[..., rank:]
    scores = _product(plain, rows, rank, transpose=True) + _product(rest, turned, rest.shape[-1], transpose=True)
    weights = _weights(scores, scoring, mask, q.dtype)
    return _product(weights, rows, rank, transpose=False).reshape(*q.shape[:-1], rank)


def _product(x: mx.array, packed: Sequence[mx.array], dims: int, *, transpose: bool) -> mx.array:
    """(B, kv_heads, group, L, n) times a quantized (B, kv_heads, n, m), or its transpose; heads have `dims` numbers."""
    weight, scales, biases = (a[:, :, None] for a in packed)
    group, bits = dims // scales.shape[-1], 32 * weight.shape[-1] // dims
    return mx.quantized_matmul(x, weight, scales, biases, transpose=transpose, group_size=group, bits=bits)


def _grouped(q: mx.array, kv_heads: int) -> mx.array:
    """(B, kv_heads, heads / kv_heads, L, d)"""
    return q.reshape(q.shape[0], kv_heads, -1, *q.shape[2:])


def _weights(scores: mx.array, scoring: Scoring, mask: Mask, dtype: mx.Dtype) -> mx.array:
    if scoring.cap is not None:
        scores = mx.tanh(scores / scoring.cap) * scoring.cap
    if isinstance(mask, str):
        length, keys = scores.shape[-2:]
        mask = mx.arange(keys - length, keys)[:, None] >= mx.arange(keys)[None]
    if mask is not None:
        mask = mask[:, :, None] if mask.ndim == 4 else mask
        hidden = mx.finfo(scores.dtype).min
        scores = mx.where(mask, scores, hidden) if mask.dtype == mx.bool_ else scores + mask
    if scoring.sinks is None:
        return mx.softmax(scores, axis=-1, precise=True).astype(dtype)
    sinks = scoring.sinks.astype(scores.dtype).reshape(1, *scores.shape[1:3], 1, 1)
    scores = mx.concatenate([scores, mx.broadcast_to(sinks, (*scores.shape[:-1], 1))], axis=-1)
    return mx.softmax(scores, axis=-1, precise=True)[..., :-1].astype(dtype)
