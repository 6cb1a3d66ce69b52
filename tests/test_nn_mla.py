"""Latent attention is attention with the keys and values that its latents stand for, whichever way it is computed."""

from __future__ import annotations

from collections.abc import Callable

import mlx.core as mx
import numpy as np
import pytest
from mlx.utils import tree_flatten

from docai.nn.batch import Places, batch_cache
from docai.nn.cache import Cache, LayerCache
from docai.nn.latent_cache import LatentCache, RotatingLatentCache, RoundedLatentCache
from docai.nn.mla import HeadLinear, LatentAttention, LatentSpec
from docai.nn.rope import Rope, RopeSpec
from docai.nn.rounding import Rounding

DIMS, HEADS, RANK, PLAIN, VALUE, TURNED, EPS = 24, 3, 16, 6, 10, 8, 1e-6
ROPE = RopeSpec(TURNED, 100.0, interleaved=True)
SPECS = {
    "low rank": LatentSpec.of(HEADS, ROPE, rank=RANK, plain=PLAIN, value=VALUE, scale=1.5, query_rank=12),
    "direct": LatentSpec.of(HEADS, ROPE, rank=RANK, plain=PLAIN, value=VALUE, qkv_bias=True, out_bias=True),
    "rows": LatentSpec.of(HEADS, ROPE, rank=RANK, plain=PLAIN, value=VALUE, key_rows=True),
}
LENGTH = 40  # longer than what is computed without expanding the latents


def layer(spec: LatentSpec) -> LatentAttention:
    made, state = LatentAttention(DIMS, spec), np.random.RandomState(4)
    made.apply(lambda a: mx.array((state.standard_normal(a.shape) / np.sqrt(a.shape[-1])).astype(np.float32)))
    return made


def rows(seed: int, length: int = LENGTH) -> np.ndarray:
    return np.random.RandomState(seed).standard_normal((1, length, DIMS)).astype(np.float32)


def through(made: LatentAttention, x: np.ndarray, cache: LatentCache, start: int = 0) -> np.ndarray:
    rotation = Rope(ROPE).counting(start, start + x.shape[1])
    return np.asarray(made(mx.array(x), rotation, cache.mask(x.shape[1], None), cache))


def by_definition(made: LatentAttention, spec: LatentSpec, x: np.ndarray) -> np.ndarray:
    """Head by head and token by token, in float64."""
    weights = {name: np.asarray(a, np.float64) for name, a in _flat(made)}

    def linear(name: str, a: np.ndarray) -> np.ndarray:
        return a @ weights[f"{name}.weight"].T + weights.get(f"{name}.bias", 0.0)

    def normed(name: str, a: np.ndarray) -> np.ndarray:
        return a / np.sqrt((a**2).mean(-1, keepdims=True) + EPS) * weights[f"{name}.weight"]

    def turned(a: np.ndarray, at: int) -> np.ndarray:
        angles = at * 100.0 ** -(np.arange(0, TURNED, 2) / TURNED)
        out = np.empty_like(a)
        out[0::2] = a[0::2] * np.cos(angles) - a[1::2] * np.sin(angles)
        out[1::2] = a[1::2] * np.cos(angles) + a[0::2] * np.sin(angles)
        return out

    x = x[0].astype(np.float64)
    q = linear("q", x) if "q.weight" in weights else linear("q_up", normed("q_norm", linear("q_down", x)))
    q = q.reshape(len(x), HEADS, PLAIN + TURNED)
    both = linear("latent", x)
    latent, shared = normed("latent_norm", both[:, :RANK]), [turned(a, t) for t, a in enumerate(both[:, RANK:])]
    out = np.empty((len(x), HEADS, VALUE))
    for head in range(HEADS):
        down = weights["key_down.weight"][head].T if spec.key_rows else weights["key_up.weight"][head]  # (rank, plain)
        keys = np.hstack([latent @ down, shared])
        values = latent @ weights["value_up.weight"][head].T
        for t in range(len(x)):
            query = np.concatenate([q[t, head, :PLAIN], turned(q[t, head, PLAIN:], t)])
            scores = keys[: t + 1] @ query * spec.scoring.scale
            share = np.exp(scores - scores.max())
            out[t, head] = share / share.sum() @ values[: t + 1]
    return linear("o", out.reshape(len(x), -1))


def _flat(made: LatentAttention) -> list[tuple[str, mx.array]]:
    return tree_flatten(made.parameters())


@pytest.mark.parametrize(
    "parts", [[40], [1] * 40, [3, 30, 1, 6], [35, 1, 1, 3]], ids=["whole", "steps", "some", "more"]
)
@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_it_is_its_definition(spec: LatentSpec, parts: list[int]) -> None:
    made, cache, x, out, start = layer(spec), LatentCache(), rows(1), [], 0
    for length in parts:
        out.append(through(made, x[:, start : start + length], cache, start))
        start += length
    assert sum(a.shape[-1] for a in cache.state) == RANK + TURNED  # nothing else is kept
    np.testing.assert_allclose(np.concatenate(out, axis=1)[0], by_definition(made, spec, x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("apart", [False, True])
def test_places_are_as_if_alone(apart: bool) -> None:
    spec = SPECS["low rank"]
    made, places, read = layer(spec), Places(2), [3, 29]
    batch, texts = batch_cache(LatentCache(), places, apart=apart), [rows(5), rows(6)]
    for place, (x, length) in enumerate(zip(texts, read, strict=True)):
        own = LatentCache()
        through(made, x[:, :length], own)
        batch.join(place, own)
        places.set(place, length)
    expected = [by_definition(made, spec, x) for x in texts]
    for step in range(5):
        given = np.concatenate([x[:, n + step : n + step + 1] for x, n in zip(texts, read, strict=True)])
        rotation = Rope(ROPE).counting(batch.offset, 0)
        out = np.asarray(made(mx.array(given), rotation, batch.mask(1, None), batch))
        places.advance(1)
        for place, length in enumerate(read):
            np.testing.assert_allclose(out[place, 0], expected[place][length + step], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_joined_layers_give_the_same(spec: LatentSpec) -> None:
    apart, whole = layer(spec), layer(spec)
    whole.fuse()
    names = {name for name, _ in _flat(whole)}
    alike = spec is not SPECS["direct"]  # there only one of the two has a bias
    assert ("down.weight" in names) == alike
    assert bool(names & {"q.weight", "q_down.weight", "latent.weight"}) != alike
    x = rows(3)
    rotation = Rope(spec.rope).counting(0, LENGTH)
    outs = [np.asarray(made(mx.array(x), rotation, "causal", LatentCache())) for made in (apart, whole)]
    np.testing.assert_allclose(*outs, rtol=1e-5, atol=1e-6)


def test_packed_matrices_of_heads_give_what_their_numbers_stand_for() -> None:
    state = np.random.RandomState(2)
    plain = HeadLinear(HEADS, 64, 32)
    plain.weight = mx.array(state.standard_normal((HEADS, 64, 32)).astype(np.float32))
    packed = plain.to_quantized(group_size=32, bits=8)
    plain.weight = mx.dequantize(packed.weight, packed.scales, packed.biases, group_size=32, bits=8)
    forth, back = (mx.array(state.standard_normal((2, n, 5, d)).astype(np.float32)) for n, d in ((HEADS, 32), (1, 64)))
    np.testing.assert_allclose(np.asarray(packed(forth)), np.asarray(plain(forth)), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(np.asarray(packed.back(back)), np.asarray(plain.back(back)), rtol=1e-4, atol=1e-4)


WIDE = LatentSpec.of(HEADS, RopeSpec(32, 100.0, interleaved=True), rank=64, plain=6, value=10, query_rank=12)


def in_parts(made: LatentAttention, x: np.ndarray, cache: LayerCache, parts: list[int]) -> np.ndarray:
    out, start, rope = [], 0, Rope(WIDE.rope)
    for length in parts:
        rotation, mask = rope.counting(start, start + length), cache.mask(length, None)
        out.append(np.asarray(made(mx.array(x[:, start : start + length]), rotation, mask, cache)))
        start += length
    return np.concatenate(out, axis=1)


def relative(found: np.ndarray, expected: np.ndarray) -> float:
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))


@pytest.mark.parametrize(
    ("rounding", "worst"),
    [(Rounding(8, 8), 0.02), (Rounding(8, 8, 32), 0.02), (Rounding(4, 8), 0.15), (Rounding(4, 4), 0.3)],
    ids=str,
)
def test_rounded_rows_are_near_the_exact_ones(rounding: Rounding, worst: float) -> None:
    made, x = layer(WIDE), rows(7)
    exact = in_parts(made, x, LatentCache(), [LENGTH])
    for parts in ([LENGTH], [1] * LENGTH, [30, 1, 1, 8]):
        cache = RoundedLatentCache(rounding)
        found = in_parts(made, x, cache, parts)
        assert relative(found, exact) < worst
        kept = sum(int(a.nbytes) for a in cache.state) / cache.state[0].shape[2]
        assert kept < (64 + 32) * 4 / 2, "less than half of what float32 takes"


def test_rounded_rows_are_the_same_whichever_way_they_are_read() -> None:
    """Expanded into keys and values, or not: both see the numbers that the rounded ones stand for."""
    made, x = layer(WIDE), rows(8)
    read = [in_parts(made, x, RoundedLatentCache(Rounding(4, 4)), parts) for parts in ([LENGTH], [1] * LENGTH)]
    np.testing.assert_allclose(read[0], read[1], atol=5e-3)


def test_a_window_of_rows_is_what_its_tokens_give() -> None:
    """The last token after a long text sees only the window, however it was read."""
    made, x, window = layer(WIDE), rows(9), 16
    ways = ([LENGTH], [1] * LENGTH, [5, 30, 5])
    outs = [in_parts(made, x, RotatingLatentCache(window), parts) for parts in ways]
    plain = LatentCache()
    mask = plain.mask(LENGTH, window)
    whole = np.asarray(made(mx.array(x), Rope(WIDE.rope).counting(0, LENGTH), mask, plain))
    for out in outs:
        np.testing.assert_allclose(out, whole, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize(
    "new", [lambda: RoundedLatentCache(Rounding(8, 8)), lambda: RotatingLatentCache(16)], ids=["rounded", "window"]
)
def test_places_of_other_caches_are_as_if_alone(new: Callable[[], Cache], apart: bool) -> None:
    made, places, read = layer(WIDE), Places(2), [3, 29]
    batch, texts = batch_cache(new(), places, apart=apart), [rows(5), rows(6)]
    alone = [in_parts(made, x, new(), [length, *[1] * 5]) for x, length in zip(texts, read, strict=True)]
    for place, (x, length) in enumerate(zip(texts, read, strict=True)):
        own = new()
        in_parts(made, x[:, :length], own, [length])
        batch.join(place, own)
        places.set(place, length)
    for step in range(5):
        given = np.concatenate([x[:, n + step : n + step + 1] for x, n in zip(texts, read, strict=True)])
        out = np.asarray(made(mx.array(given), Rope(WIDE.rope).counting(batch.offset, 0), batch.mask(1, None), batch))
        places.advance(1)
        for place, length in enumerate(read):
            np.testing.assert_allclose(out[place, 0], alone[place][0, length + step], rtol=1e-4, atol=1e-5)
