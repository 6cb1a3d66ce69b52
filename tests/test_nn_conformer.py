"""The Conformer's own operations against their definitions in NumPy, row by row."""

from __future__ import annotations

import math

import mlx.core as mx
import numpy as np
import pytest

from docai.nn.clipped import ClippedLinear
from docai.nn.conformer import (
    ChunkedAttention,
    Conformer,
    ConformerSpec,
    LightConvolution,
    Shrink,
    distance_waves,
    rows_of,
)
from tests.parity.weights import noise, tensors

SPEC = ConformerSpec(dims=16, layers=1, heads=2, bins=8, out=12, channels=(8, 4), kernel=3, chunk=4, past=5)


def filled(module: object, seed: int = 3) -> dict[str, np.ndarray]:
    """Random weights for a module, which it then has."""
    from mlx.utils import tree_flatten

    shapes = {name: list(value.shape) for name, value in tree_flatten(module.parameters())}  # type: ignore[attr-defined]
    values = tensors(shapes, seed)
    module.load_weights([(name, mx.array(value)) for name, value in values.items()])  # type: ignore[attr-defined]
    return values


def clipped(x: np.ndarray, weights: dict[str, np.ndarray], name: str) -> np.ndarray:
    """A layer with bounds, by its definition."""
    low, high, least, most = (
        weights[f"{name}.{bound}"] for bound in ("input_min", "input_max", "output_min", "output_max")
    )
    return np.clip(np.clip(x, low, high) @ weights[f"{name}.linear.weight"].T, least, most)


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max())
    return e / e.sum()


def attention(x: np.ndarray, w: dict[str, np.ndarray], spec: ConformerSpec) -> np.ndarray:
    """Each row by itself, over the rows that it sees, by how far away they are."""
    d = spec.head_dim
    q, k, v = (clipped(x, w, name).reshape(len(x), spec.heads, d) for name in ("q", "k", "v"))
    out = np.zeros((len(x), spec.dims))
    half = spec.dims // 2
    speeds = np.exp(-np.arange(half) * math.log(10_000) / (half - 1))
    scale = np.log1p(np.exp(w["scale"])) / math.log(2) / math.sqrt(d)
    for row in range(len(x)):
        seen = [at for at in range(len(x)) if 0 <= row - at < spec.past or 0 < at - row < spec.ahead]
        for head in range(spec.heads):
            scores = []
            for at in seen:
                # distances are counted from the middle of what a chunk may see
                distance = spec.context // 2 - (spec.past - (row - at))
                waves = np.concatenate([np.sin(distance * speeds), np.cos(distance * speeds)])
                far = (w["relative.weight"] @ waves).reshape(spec.heads, d)[head]
                far = far if 0 <= distance <= spec.context // 2 else np.zeros(d)
                key = k[at, head] * math.log1p(math.e) / math.log(2) + far
                scores.append(spec.cap * math.tanh(float(q[row, head] * scale @ key) / spec.cap))
            out[row, head * d : (head + 1) * d] = softmax(np.array(scores)) @ v[seen, head]
    return clipped(out, w, "out")


@pytest.mark.parametrize(
    "spec",
    [
        SPEC,
        ConformerSpec(dims=16, layers=1, heads=4, bins=8, out=12, channels=(8, 4), chunk=12, past=12, cap=2.0),
        ConformerSpec(dims=16, layers=1, heads=2, bins=8, out=12, channels=(8, 4), chunk=3, past=4, ahead=3),
    ],
)
@pytest.mark.parametrize("length", [1, 4, 11, 30])
def test_rows_see_their_neighbourhood_by_distance(spec: ConformerSpec, length: int) -> None:
    module = ChunkedAttention(spec)
    weights = filled(module)
    x = noise("x", (length, spec.dims), 1)
    whole = Conformer(spec)
    found = module(mx.array(x), mx.array(distance_waves(spec)), whole._seen(length))
    np.testing.assert_allclose(np.asarray(found), attention(x, weights, spec), rtol=1e-4, atol=2e-5)


def test_a_convolution_sees_only_what_is_before_it() -> None:
    module = LightConvolution(SPEC)
    w = filled(module)
    x = noise("x", (9, 16), 1)

    def rms(rows: np.ndarray, weight: np.ndarray) -> np.ndarray:
        return rows / np.sqrt(np.square(rows).mean(-1, keepdims=True) + 1e-6) * weight

    started = clipped(rms(x, w["norm.weight"]), w, "start")
    gated = started[:, :16] / (1 + np.exp(-started[:, 16:]))
    mixed = np.stack(
        [sum(gated[row - back] * w["weight"][:, 2 - back] for back in range(3) if row >= back) for row in range(len(x))]
    )
    inner = rms(mixed, w["norm_inner.weight"])
    expected = x + clipped(inner / (1 + np.exp(-inner)), w, "end")
    np.testing.assert_allclose(np.asarray(module(mx.array(x))), expected, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize(("height", "width"), [(1, 8), (6, 8), (7, 5)])
def test_shrinking_halves_both_sides(height: int, width: int) -> None:
    module = Shrink(2, 3, 1e-6)
    w = filled(module)
    x = noise("x", (height, width, 2), 1)
    padded = np.pad(x, [(1, 2), (1, 2), (0, 0)])
    out = np.zeros((-(-height // 2), -(-width // 2), 3))
    for row, column in np.ndindex(*out.shape[:2]):
        seen = padded[2 * row : 2 * row + 3, 2 * column : 2 * column + 3]
        out[row, column] = np.einsum("ohwi,hwi->o", w["weight"], seen)
    out -= out.mean(-1, keepdims=True)
    out = np.maximum(out / np.sqrt(np.square(out).mean(-1, keepdims=True) + 1e-6) * w["norm.weight"], 0)
    np.testing.assert_allclose(np.asarray(module(mx.array(x[None])))[0], out, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("frames", [1, 2, 4, 5, 99])
def test_four_frames_are_a_row(frames: int) -> None:
    module = Conformer(SPEC)
    filled(module)
    x = mx.array(noise("x", (frames, 8), 1))
    rows = module.encode(x)
    assert rows.shape == (rows_of(frames), 12)
    assert bool(mx.isfinite(rows).all())
    # what comes later than a row's neighbourhood and its convolution does not change it
    if frames > 60:
        np.testing.assert_allclose(np.asarray(module.encode(x[:40]))[:9], np.asarray(rows)[:9], rtol=1e-4, atol=1e-5)


def test_bounds_cut_what_goes_in_and_comes_out() -> None:
    module = ClippedLinear(4, 3, clipped=True)
    x = np.array([[5.0, -5.0, 0.1, 2.0]], np.float32)
    plain = np.asarray(module.linear.weight)
    np.testing.assert_allclose(np.asarray(module(mx.array(x))), x @ plain.T, rtol=1e-5, atol=1e-6)
    module.input_min, module.input_max = mx.array(-1.0), mx.array(0.5)
    module.output_min, module.output_max = mx.array(-0.2), mx.array(0.1)
    expected = np.clip(np.clip(x, -1, 0.5) @ plain.T, -0.2, 0.1)
    np.testing.assert_allclose(np.asarray(module(mx.array(x))), expected, rtol=1e-5, atol=1e-6)
    assert "input_min" not in ClippedLinear(4, 3, clipped=False)
