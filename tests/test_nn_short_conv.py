"""Short convolutions give what their definition says, however rows come in: whole, in parts, or beside others."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from docai.nn.batch import Places, batch_cache
from docai.nn.cache import StateCache
from docai.nn.short_conv import ShortConv, ShortConvSpec

DIMS, LENGTH = 8, 11


def layer(kernel: int, *, bias: bool) -> ShortConv:
    made = ShortConv(DIMS, ShortConvSpec.of(DIMS, kernel, bias=bias))
    state = np.random.RandomState(3)
    for module, name in ((made, "weight"), (made.project, "weight"), (made.out, "weight")):
        module[name] = mx.array(state.standard_normal(module[name].shape).astype(np.float32))
    for module in (made, made.project, made.out) if bias else ():
        module["bias"] = mx.array(state.standard_normal(module["bias"].shape).astype(np.float32))
    return made


def rows(seed: int, length: int = LENGTH) -> np.ndarray:
    return np.random.RandomState(seed).standard_normal((1, length, DIMS)).astype(np.float32)


def by_definition(made: ShortConv, x: np.ndarray) -> np.ndarray:
    """out(c_t * sum_j w_j b_(t-K+1+j) h_(t-K+1+j)), in float64, row by row and channel by channel."""

    def linear(module: object, a: np.ndarray) -> np.ndarray:
        bias = np.asarray(module["bias"], np.float64) if "bias" in module else 0.0
        return a @ np.asarray(module["weight"], np.float64).T + bias

    before, behind, inner = np.split(linear(made.project, x[0].astype(np.float64)), 3, axis=-1)
    weight, gated = np.asarray(made.weight, np.float64), before * inner
    mixed = np.zeros_like(gated)
    for t in range(len(gated)):
        for j in range(weight.shape[1]):
            at = t - weight.shape[1] + 1 + j
            if at >= 0:
                mixed[t] += weight[:, j] * gated[at]
    mixed += np.asarray(made.bias, np.float64) if "bias" in made else 0.0
    return linear(made.out, behind * mixed)


@pytest.mark.parametrize("parts", [[11], [1] * 11, [2, 1, 5, 3], [7, 1, 1, 2]], ids=str)
@pytest.mark.parametrize("kernel", [3, 4])
@pytest.mark.parametrize("bias", [False, True])
def test_it_is_its_definition(kernel: int, bias: bool, parts: list[int]) -> None:
    made, cache, x = layer(kernel, bias=bias), StateCache(), rows(1)
    ends = np.cumsum(parts)
    out = [made(mx.array(x[:, end - n : end]), None, None, cache) for n, end in zip(parts, ends, strict=True)]
    assert cache.offset == LENGTH
    np.testing.assert_allclose(np.asarray(mx.concatenate(out, axis=1))[0], by_definition(made, x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("apart", [False, True])
def test_places_are_as_if_alone(apart: bool) -> None:
    made, places = layer(3, bias=False), Places(2)
    batch = batch_cache(StateCache(), places, apart=apart)
    texts, read = [rows(5, 14), rows(6, 14)], [1, 6]  # one shorter than the kernel, one longer
    for place, (x, length) in enumerate(zip(texts, read, strict=True)):
        own = StateCache()
        made(mx.array(x[:, :length]), None, None, own)
        batch.join(place, own)
        places.set(place, length)
    expected = [by_definition(made, x) for x in texts]
    for step in range(7):
        given = np.concatenate([x[:, n + step : n + step + 1] for x, n in zip(texts, read, strict=True)])
        out = np.asarray(made(mx.array(given), None, None, batch))
        places.advance(1)
        for place, length in enumerate(read):
            np.testing.assert_allclose(out[place, 0], expected[place][length + step], rtol=1e-4, atol=1e-4)
