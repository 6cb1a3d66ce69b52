"""Quantized layers that unpack their weights for many rows give what those of MLX give."""

from __future__ import annotations

from typing import Any

import pytest

mx = pytest.importorskip("mlx.core")

import mlx.nn as nn  # noqa: E402
import numpy as np  # noqa: E402

from docai.nn.linear import joined  # noqa: E402
from docai.nn.quantized import UnpackingEmbedding, UnpackingLinear, suit_cpu  # noqa: E402


def layer(bias: bool, **how: Any) -> nn.Module:
    mx.random.seed(4)
    made = nn.Linear(64, 48, bias=bias)
    return nn.QuantizedLinear.from_linear(made, **how)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(
    "how",
    [{"group_size": 32, "bits": 4}, {"group_size": 64, "bits": 8}, {"group_size": 32, "bits": 4, "mode": "mxfp4"}],
)
def test_rows_do_not_change_a_result(bias: bool, how: dict[str, Any]) -> None:
    plain, ours = layer(bias, **how), layer(bias, **how)
    model = nn.Sequential(ours, nn.ReLU())
    suit_cpu(model)
    assert type(ours) is UnpackingLinear
    x = mx.random.normal((2, 9, 64))
    for rows in (x, x[:1, :1], x[0]):
        np.testing.assert_allclose(np.array(ours(rows)), np.array(plain(rows)), atol=1e-5)


def test_an_embedding_is_a_product_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its weight is unpacked in blocks, the last of which is smaller."""
    monkeypatch.setattr("docai.nn.quantized._WHOLE", 0)
    monkeypatch.setattr("docai.nn.quantized._BLOCK", 20 * 64)
    mx.random.seed(4)
    made = nn.Embedding(50, 64)
    plain, ours = (nn.QuantizedEmbedding.from_embedding(made, 32, 4) for _ in range(2))
    suit_cpu(nn.Sequential(ours))
    assert type(ours) is UnpackingEmbedding
    x = mx.random.normal((2, 9, 64))
    for rows in (x, x[:1, :1], x[0]):
        np.testing.assert_allclose(np.array(ours.as_linear(rows)), np.array(plain.as_linear(rows)), atol=1e-5)
    assert mx.array_equal(ours(mx.arange(50)), plain(mx.arange(50)))


def test_joined_layers_stay_what_they_are() -> None:
    parts = [layer(True, group_size=32, bits=4) for _ in range(2)]
    suit_cpu(nn.Sequential(*parts))
    one = joined(parts)
    assert type(one) is UnpackingLinear
    x = mx.random.normal((7, 64))
    expected = mx.concatenate([part(x) for part in parts], axis=1)
    np.testing.assert_allclose(np.array(one(x)), np.array(expected), atol=1e-5)
