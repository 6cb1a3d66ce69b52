"""Caches: each kind gives what attention over all that it may see would give, however the tokens come in."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from docai.nn.cache import Cache, FullCache, Lent, QuantizedCache, RotatingCache
from docai.nn.mask import Blocks
from docai.nn.rounding import Rounding
from docai.nn.scores import Scoring

HEADS, KV_HEADS, DIMS, LENGTH = 4, 2, 32, 23
SCORING = {"plain": Scoring(DIMS**-0.5), "capped": Scoring(DIMS**-0.5, cap=2.0)}


def qkv(seed: int = 0, batch: int = 1) -> tuple[mx.array, mx.array, mx.array]:
    state = np.random.RandomState(seed)
    shapes = [(batch, HEADS, LENGTH, DIMS), *[(batch, KV_HEADS, LENGTH, DIMS)] * 2]
    q, k, v = (mx.array(state.standard_normal(shape).astype(np.float32)) for shape in shapes)
    return q, k, v


def reference(
    q: mx.array,
    k: mx.array,
    v: mx.array,
    scoring: Scoring,
    window: int | None,
    blocks: np.ndarray | None = None,
    *,
    bounded: bool = False,
) -> np.ndarray:
    """Attention by its definition, in float64."""
    q, k, v = (np.asarray(a, np.float64) for a in (q, k, v))
    k, v = (np.repeat(a, HEADS // KV_HEADS, axis=1) for a in (k, v))
    scores = q @ k.swapaxes(-1, -2) * scoring.scale
    if scoring.cap:
        scores = np.tanh(scores / scoring.cap) * scoring.cap
    at = np.arange(q.shape[2])
    seen = at[None] <= at[:, None]
    near = at[None] > at[:, None] - (window or LENGTH)
    together = np.zeros_like(seen) if blocks is None else (blocks[:, None] == blocks[None]) & (blocks[:, None] > 0)
    seen = (seen | together) & near if bounded else (seen & near) | together
    scores = np.where(seen, scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


def through(
    cache: Cache,
    parts: list[int],
    scoring: Scoring,
    window: int | None,
    blocks: np.ndarray | None = None,
    *,
    bounded: bool = False,
) -> np.ndarray:
    q, k, v = qkv()
    out, at = [], 0
    for length in parts:
        part = slice(at, at + length)
        marks = None if blocks is None else Blocks(mx.array(blocks[None, part]), bounded)
        mask = cache.mask(length, window, marks)
        out.append(cache.attend(q[:, :, part], k[:, :, part], v[:, :, part], scoring, mask))
        at += length
    assert cache.offset == at == LENGTH
    return np.asarray(mx.concatenate(out, axis=2))


@pytest.mark.parametrize("parts", [[23], [1] * 23, [5, 1, 1, 9, 1, 6], [20, 1, 1, 1], [2, 2, 2, 17]], ids=str)
@pytest.mark.parametrize("scoring", SCORING.values(), ids=SCORING)
@pytest.mark.parametrize("window", [None, 1, 6, 40])
def test_tokens_see_what_they_may_however_they_come(parts: list[int], scoring: Scoring, window: int | None) -> None:
    expected = reference(*qkv(), scoring, window)
    caches: list[Cache] = [FullCache()] if window is None else [FullCache(), RotatingCache(window)]
    for cache in caches:
        np.testing.assert_allclose(through(cache, parts, scoring, window), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("bounded", [False, True])
@pytest.mark.parametrize("window", [None, 6, 40])
def test_blocks_see_themselves_whole(window: int | None, bounded: bool) -> None:
    blocks = np.array([0] * 3 + [1] * 9 + [0] * 2 + [2] * 4 + [0] * 5)
    expected = reference(*qkv(), SCORING["plain"], window, blocks, bounded=bounded)
    for parts in ([23], [12, 11], [12, 6, 1, 1, 1, 1, 1]):
        cache: Cache = FullCache() if window is None else RotatingCache(window)
        ours = through(cache, parts, SCORING["plain"], window, blocks, bounded=bounded)
        np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("window", [None, 6])
def test_another_layer_sees_what_a_lent_cache_took_in(window: int | None) -> None:
    q, k, v = qkv()
    other, _, _ = qkv(1)
    cache: Cache = FullCache() if window is None else RotatingCache(window)
    out = []
    for part in (slice(0, 9), slice(9, 10), slice(10, 11), slice(11, LENGTH)):
        lent = Lent(cache)
        mask = lent.mask(part.stop - part.start, window)
        lent.attend(q[:, :, part], k[:, :, part], v[:, :, part], SCORING["plain"], mask)
        out.append(lent.again(other[:, :, part], SCORING["plain"], mask))
    expected = reference(other, k, v, SCORING["plain"], window)
    np.testing.assert_allclose(np.asarray(mx.concatenate(out, axis=2)), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("bits", "tolerance"), [(8, 0.005), (4, 0.1)])
@pytest.mark.parametrize("scoring", SCORING.values(), ids=SCORING)
def test_rounded_keys_and_values_are_near(bits: int, tolerance: float, scoring: Scoring) -> None:
    expected = reference(*qkv(), scoring, None)
    for parts in ([23], [9, 1, 1, 12]):
        ours = through(QuantizedCache(Rounding(bits, bits)), parts, scoring, None)
        assert np.abs(ours - expected).mean() < tolerance


def test_a_cache_takes_no_more_than_it_says() -> None:
    q, k, v = qkv()
    ring, full, rounded = RotatingCache(6), FullCache(), QuantizedCache(Rounding(4, 4))
    for cache in (ring, full, rounded):
        cache.attend(q, k, v, SCORING["plain"], cache.mask(LENGTH, None))
    sizes = [sum(a.nbytes for a in cache.state) for cache in (ring, full, rounded)]
    assert sizes[0] == 2 * 6 * KV_HEADS * DIMS * 4
    assert sizes[2] < sizes[1] / 4


def test_trimmed_tokens_are_forgotten() -> None:
    q, k, v = qkv()
    for cache in (FullCache(), QuantizedCache(Rounding()), RotatingCache(40)):
        cache.attend(q, k, v, SCORING["plain"], cache.mask(LENGTH, None))
        assert cache.trim(3)
        assert cache.offset == 20
        last = [a[:, :, 20:] for a in (q, k, v)]
        ours = np.asarray(cache.attend(*last, SCORING["plain"], cache.mask(3, None)))
        np.testing.assert_allclose(ours, reference(*qkv(), SCORING["plain"], None)[:, :, 20:], atol=0.02)


def test_a_full_ring_cannot_be_trimmed() -> None:
    q, k, v = qkv()
    ring = RotatingCache(6)
    ring.attend(q, k, v, SCORING["plain"], ring.mask(LENGTH, None))
    assert not ring.trim(1)
    assert ring.trim(0)
