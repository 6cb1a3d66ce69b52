"""Deformable attention and convolutions against their definitions, written out in NumPy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray

mx = pytest.importorskip("mlx.core")

from docai.nn.conv import Conv, ConvSpec, doubled, doubled_smoothly, halved, row_by_row  # noqa: E402
from docai.nn.deform import DeformableAttention, DeformSpec, sampled  # noqa: E402
from docai.nn.prototypes import around  # noqa: E402
from docai.nn.queries import starting_boxes  # noqa: E402

SIZES = [(5, 7), (3, 4), (2, 1)]
Array = NDArray[np.float32]


def _bilinear(level: Array, x: float, y: float) -> Array:
    """`level` (H, W, d) at a place in fractions, zeros outside; pixels are areas, so 0.5 / W is the first's centre."""
    height, width = level.shape[:2]
    column, row = x * width - 0.5, y * height - 0.5
    total = np.zeros(level.shape[2])
    for dx, dy in itertools.product((0, 1), (0, 1)):
        i, j = int(np.floor(row)) + dy, int(np.floor(column)) + dx
        if 0 <= i < height and 0 <= j < width:
            total += level[i, j] * (1 - abs(row - i)) * (1 - abs(column - j))
    return total


def _nearest(level: Array, x: float, y: float) -> Array:
    height, width = level.shape[:2]
    row, column = int(np.floor(y * height + 0.5)), int(np.floor(x * width + 0.5))
    return level[min(max(row, 0), height - 1), min(max(column, 0), width - 1)]


@pytest.mark.parametrize("nearest", [False, True])
def test_sampling_by_definition(nearest: bool) -> None:
    random = np.random.RandomState(3)
    b, q, heads, d, points = 2, 4, 3, 5, 2
    values = random.randn(b, sum(h * w for h, w in SIZES), heads, d).astype(np.float32)
    places = random.uniform(-0.3, 1.3, (b, q, heads, len(SIZES) * points, 2)).astype(np.float32)
    places[0, 0, 0] = [[0, 0], [1, 1], [0.5, 0.5], [-5, 0.5], [0.5, 1e6], [1, 0]]
    shares = random.rand(b, q, heads, len(SIZES) * points).astype(np.float32)
    found = np.array(sampled(*map(mx.array, (values, places, shares)), SIZES, nearest=nearest))
    read = _nearest if nearest else _bilinear
    for n, query, head in itertools.product(range(b), range(q), range(heads)):
        expected, start = np.zeros(d), 0
        for level, (height, width) in enumerate(SIZES):
            picture = values[n, start : start + height * width, head].reshape(height, width, d)
            for at in range(level * points, (level + 1) * points):
                expected += shares[n, query, head, at] * read(picture, *places[n, query, head, at])
            start += height * width
        np.testing.assert_allclose(found[n, query, head], expected, rtol=1e-4, atol=1e-5)


def test_half_precision_finds_the_same_places() -> None:
    """Places are computed in float32 whatever the features are in: bfloat16 has 8 bits, fewer than a map has pixels."""
    spec = DeformSpec(2, levels=1, points=2)
    layer = DeformableAttention(8, spec)
    levels = mx.random.normal((1, 64 * 64, 8), key=mx.random.key(0))
    x, boxes = mx.random.normal((1, 3, 8), key=mx.random.key(1)), mx.full((1, 3, 4), 0.73)
    full = np.array(layer(x, boxes, levels, [(64, 64)]))
    layer.set_dtype(mx.bfloat16)
    half = layer(x.astype(mx.bfloat16), boxes, levels.astype(mx.bfloat16), [(64, 64)])
    assert half.dtype == mx.bfloat16
    assert np.corrcoef(full.ravel(), np.array(half.astype(mx.float32)).ravel())[0, 1] > 0.99


SPECS = [
    ConvSpec(6, 8), ConvSpec(6, 8, 3), ConvSpec(6, 8, 3, 2), ConvSpec(6, 8, 2, pad=0), ConvSpec(6, 8, 1, 2),
    ConvSpec(6, 6, 5, depthwise=True), ConvSpec(6, 6, 3, 2, depthwise=True), ConvSpec(6, 8, 5, 1, "relu"),
]  # fmt: skip


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_convolutions_by_definition(spec: ConvSpec, batch: int) -> None:
    layer = Conv(spec)
    layer.weight, layer.bias = mx.random.normal(layer.weight.shape), mx.random.normal(layer.bias.shape)
    x = mx.random.normal((batch, 9, 12, 6))
    groups = 6 if spec.depthwise else 1
    expected = mx.conv2d(x, layer.weight, spec.stride, spec.padding, groups=groups) + layer.bias
    expected = mx.maximum(expected, 0) if spec.activation else expected
    np.testing.assert_allclose(np.array(layer(x)), np.array(expected), rtol=1e-4, atol=1e-4)


def test_the_last_picture_of_a_batch_is_whole() -> None:
    x, weight, bias = mx.random.normal((4, 7, 6, 3)), mx.random.normal((5, 3, 3, 3)), mx.zeros((5,))
    found = row_by_row(x, weight, bias)
    assert found.shape == (4, 5, 4, 5)
    np.testing.assert_allclose(np.array(found[3]), np.array(mx.conv2d(x[3:], weight)[0]), rtol=1e-4, atol=1e-4)


def test_resizing() -> None:
    x = mx.arange(6.0).reshape(1, 2, 3, 1)
    assert np.array(doubled(x))[0, :, :, 0].tolist() == [[0, 0, 1, 1, 2, 2]] * 2 + [[3, 3, 4, 4, 5, 5]] * 2
    assert np.array(doubled_smoothly(x))[0, 0, :, 0].tolist() == [0, 0.25, 0.75, 1.25, 1.75, 2]
    assert np.array(doubled_smoothly(x))[0, :, 0, 0].tolist() == [0, 0.75, 2.25, 3]
    assert np.array(halved(x))[0, :, :, 0].tolist() == [[2, 3.5]]


def test_boxes_around_masks() -> None:
    masks = np.zeros((1, 2, 4, 5), bool)
    masks[0, 0, 1:3, 2:5] = True
    found = np.array(around(mx.array(masks)))[0]
    np.testing.assert_allclose(found[0], [0.7, 0.5, 0.6, 0.5], rtol=1e-6)
    assert not found[1].any()


def test_starting_boxes_near_the_edge_are_not_used() -> None:
    boxes, used = starting_boxes(((200, 100), (2, 2)))
    assert bool(used[-1].item())
    assert not bool(used[0].item())  # its centre is a 400th of the page from the top
    np.testing.assert_allclose(1 / (1 + np.exp(-np.array(boxes[-4]))), [0.25, 0.25, 0.1, 0.1], rtol=1e-5)
    assert np.array(boxes[0]).min() > 1e38
