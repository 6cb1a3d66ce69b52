"""A router that scores by sigmoids chooses and weights experts as DeepSeek-V3's report says, token by token."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from docai.nn.mlp import MlpSpec
from docai.nn.moe import Moe, MoeSpec

DIMS, EXPERTS, WIDTH, TOKENS = 12, 12, 7, 30
COMMON = {"width": WIDTH, "scoring": "sigmoid", "shared": MlpSpec(9), "scale": 2.5}
SPECS = {
    "one group": MoeSpec(EXPERTS, 3, **COMMON),  # type: ignore[arg-type]
    "groups": MoeSpec(EXPERTS, 3, groups=4, top_groups=2, **COMMON),  # type: ignore[arg-type]
    "bare weights": MoeSpec(EXPERTS, 2, groups=3, top_groups=1, normalized=False, **COMMON),  # type: ignore[arg-type]
}


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def gated(gate: np.ndarray, up: np.ndarray, down: np.ndarray, x: np.ndarray) -> np.ndarray:
    inner = gate @ x
    return down @ (inner * sigmoid(inner) * (up @ x))


def by_definition(spec: MoeSpec, weights: dict[str, np.ndarray], x: np.ndarray) -> tuple[set[int], np.ndarray]:
    """The experts of one token and what comes of it, in float64."""
    scores = sigmoid(weights["router"] @ x)
    ranked = scores + weights["router_bias"]
    size = spec.experts // spec.groups
    groups = [ranked[n * size : (n + 1) * size] for n in range(spec.groups)]
    kept = sorted(range(spec.groups), key=lambda n: -np.sort(groups[n])[-2:].sum())[: spec.top_groups]
    allowed = [n * size + i for n in kept for i in range(size)]
    chosen = sorted(allowed, key=lambda n: -ranked[n])[: spec.top_k]
    total = scores[chosen].sum() if spec.normalized else 1.0
    out = gated(weights["shared.gate"], weights["shared.up"], weights["shared.down"], x)
    for n in chosen:
        expert = gated(weights["experts.gate"][n], weights["experts.up"][n], weights["experts.down"][n], x)
        out = out + expert * scores[n] / total * spec.scale
    return set(chosen), out


def made(spec: MoeSpec, seed: int) -> tuple[Moe, dict[str, np.ndarray]]:
    state, moe = np.random.RandomState(seed), Moe(DIMS, spec)
    # a bias as large as the differences of scores, so that a choice without it would be another
    moe.router_bias = mx.array(state.standard_normal(EXPERTS) * 0.3)
    names = ("router", "experts.gate", "experts.up", "experts.down", "shared.gate", "shared.up", "shared.down")
    weights = {"router_bias": np.asarray(moe.router_bias, np.float64)}
    for name in names:
        module = moe
        for part in name.split("."):
            module = module[part]
        module.weight = mx.array(state.standard_normal(module.weight.shape).astype(np.float32) * 0.4)
        weights[name] = np.asarray(module.weight, np.float64)
    return moe, weights


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_the_sigmoid_router_is_its_definition(spec: MoeSpec) -> None:
    moe, weights = made(spec, 3)
    x = np.random.RandomState(4).standard_normal((1, TOKENS, DIMS)).astype(np.float32)
    chosen, _ = moe._route(mx.array(x[0]))
    found = np.asarray(moe(mx.array(x)))[0]
    plain = 0
    for token in range(TOKENS):
        expected, out = by_definition(spec, weights, x[0, token].astype(np.float64))
        assert set(np.asarray(chosen)[token].tolist()) == expected
        np.testing.assert_allclose(found[token], out, rtol=1e-4, atol=1e-5)
        best = np.argsort(-(weights["router"] @ x[0, token]))[: spec.top_k]
        plain += set(best.tolist()) == expected
    assert plain < TOKENS / 2, "the bias and the groups should matter in this test"


def test_choices_do_not_depend_on_the_type_of_the_rows() -> None:
    """Scores are computed in float32, also of rows in half precision."""
    moe, _ = made(SPECS["groups"], 5)
    rows = mx.array(np.random.RandomState(6).standard_normal((TOKENS, DIMS)).astype(np.float32)).astype(mx.bfloat16)
    chosen, weights = moe._route(rows)
    again, exact = moe._route(rows.astype(mx.float32))
    assert weights.dtype == mx.bfloat16
    assert np.array_equal(np.sort(np.asarray(chosen)), np.sort(np.asarray(again)))
    np.testing.assert_allclose(np.asarray(weights.astype(mx.float32)), np.asarray(exact), rtol=1e-2)
