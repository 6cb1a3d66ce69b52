"""Attention with gates gives what its definition says."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from docai.nn.cache import FullCache
from docai.nn.gated_attention import GatedAttention, GatedAttentionSpec
from docai.nn.rope import Rope, RopeSpec

DIMS, HEADS, KV, SIZE, LENGTH, EPS = 12, 4, 2, 8, 7, 1e-6
ROPE = RopeSpec(4, 100.0)  # a half of each head is turned
SPECS = {
    "plain": GatedAttentionSpec(HEADS, KV, SIZE, ROPE),
    "biased": GatedAttentionSpec(HEADS, KV, SIZE, ROPE, qkv_bias=True, out_bias=True),
}


def layer(spec: GatedAttentionSpec) -> GatedAttention:
    made, state = GatedAttention(DIMS, spec, EPS), np.random.RandomState(2)
    for module in (made.q, made.k, made.v, made.o, made.q_norm, made.k_norm):
        for name in [name for name in ("weight", "bias") if name in module]:
            module[name] = mx.array(state.standard_normal(module[name].shape).astype(np.float32))
    return made


def by_definition(made: GatedAttention, x: np.ndarray) -> np.ndarray:
    """Head by head and row by row, in float64."""

    def linear(module: object, a: np.ndarray) -> np.ndarray:
        bias = np.asarray(module["bias"], np.float64) if "bias" in module else 0.0
        return a @ np.asarray(module["weight"], np.float64).T + bias

    def normed(module: object, a: np.ndarray) -> np.ndarray:
        return a / np.sqrt((a * a).mean(axis=-1, keepdims=True) + EPS) * np.asarray(module["weight"], np.float64)

    def turned(a: np.ndarray) -> np.ndarray:
        angles = np.arange(len(a))[:, None] * 100.0 ** -(np.arange(2) / 2)
        c, s, (one, other) = np.cos(angles), np.sin(angles), (a[:, :2], a[:, 2:4])
        return np.concatenate([one * c - other * s, other * c + one * s, a[:, 4:]], axis=1)

    q, k, v = (linear(module, x) for module in (made.q, made.k, made.v))
    q, k, v = q.reshape(LENGTH, HEADS, 2, SIZE), k.reshape(LENGTH, KV, SIZE), v.reshape(LENGTH, KV, SIZE)
    heads = []
    for head in range(HEADS):
        shared = head // (HEADS // KV)
        query, key = turned(normed(made.q_norm, q[:, head, 0])), turned(normed(made.k_norm, k[:, shared]))
        scores = np.where(np.tri(LENGTH, dtype=bool), query @ key.T * SIZE**-0.5, -np.inf)
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        out = weights / weights.sum(axis=1, keepdims=True) @ v[:, shared]
        heads.append(out / (1 + np.exp(-q[:, head, 1])))
    return linear(made.o, np.concatenate(heads, axis=1))


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_it_is_its_definition(spec: GatedAttentionSpec, fused: bool) -> None:
    made, x = layer(spec), np.random.RandomState(1).standard_normal((1, LENGTH, DIMS)).astype(np.float32)
    expected = by_definition(made, x[0].astype(np.float64))
    if fused:
        made.fuse()
        assert "qkv" in made
    cache, out, rope = FullCache(), [], Rope(ROPE)
    for start, end in ((0, 5), (5, 6), (6, 7)):
        mask = cache.mask(end - start, None)
        out.append(np.asarray(made(mx.array(x[:, start:end]), rope.counting(start, LENGTH), mask, cache)))
    np.testing.assert_allclose(np.concatenate(out, axis=1)[0], expected, rtol=1e-4, atol=1e-4)
