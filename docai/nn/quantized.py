"""Quantized layers on a CPU."""

from __future__ import annotations

import mlx.core as mx
import mlx.nn as nn

# Rows from which unpacking the weight first is faster. Measured on two cores, 1536 x 576 in 4 bits: 4 rows 2.3 against
# 1.3 ms, 34 rows 32 against 4 ms, 256 rows 254 against 7 ms; one row 0.6 against 1.1 ms.
_MANY = 4
# A weight of more numbers is unpacked in blocks, which are multiplied while the processor's cache has them. Measured on
# one core, 8 rows, as a whole and in blocks: 49152 x 576 in 4 bits 142 and 61 ms, 11008 x 2048 in 8 bits 119 and
# 46 ms, 2048 x 2048 in 4 bits 7 and 8 ms.
_WHOLE = 1 << 22
_BLOCK = 1 << 18


class UnpackingLinear(nn.QuantizedLinear):
    """For a few rows MLX's product with the packed weight, for many one with the weight unpacked for a moment.

    On a CPU the former goes through the weight once for each row; the latter uses the system's BLAS.
    """

    def __call__(self, x: mx.array) -> mx.array:
        if _few(x):
            return super().__call__(x)
        out = _product(self, x)
        return out + self["bias"] if "bias" in self else out


class UnpackingEmbedding(nn.QuantizedEmbedding):
    """The same for a table of embeddings that serves as a linear layer, too."""

    def as_linear(self, x: mx.array) -> mx.array:
        return super().as_linear(x) if _few(x) else _product(self, x)


def _few(x: mx.array) -> bool:
    return bool(x.size < _MANY * x.shape[-1])


def _product(layer: nn.QuantizedLinear | nn.QuantizedEmbedding, x: mx.array) -> mx.array:
    """x (..., n) times the transpose of the layer's weight (m, n), which is unpacked block by block -> (..., m)"""
    outputs, inputs = layer["weight"].shape[0], x.shape[-1]
    rows = outputs if outputs * inputs <= _WHOLE else max(1, _BLOCK // inputs)
    products = [x @ _unpacked(layer, slice(start, start + rows), x.dtype).T for start in range(0, outputs, rows)]
    return products[0] if len(products) == 1 else mx.concatenate(products, axis=-1)


def _unpacked(layer: nn.QuantizedLinear | nn.QuantizedEmbedding, rows: slice, dtype: mx.Dtype) -> mx.array:
    biases = layer.get("biases")
    return mx.dequantize(
        layer["weight"][rows],
        layer["scales"][rows],
        None if biases is None else biases[rows],
        group_size=layer.group_size,
        bits=layer.bits,
        mode=layer.mode,
        dtype=dtype,
    )


SUITED: dict[type, type] = {nn.QuantizedLinear: UnpackingLinear, nn.QuantizedEmbedding: UnpackingEmbedding}


def suit_cpu(module: nn.Module) -> None:
    """Have all quantized layers of a module that are products unpack their weight where that is faster."""
    for layer in module.modules():
        layer.__class__ = SUITED.get(type(layer), type(layer))
