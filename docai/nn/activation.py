"""Activations by the names that checkpoints use, each one kernel, also with the gate it is multiplied with."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import mlx.core as mx
import mlx.nn as nn

Activation = Callable[[mx.array], mx.array]


@partial(mx.compile, shapeless=True)
def quick_gelu(x: mx.array) -> mx.array:
    """x * sigmoid(1.702 x), CLIP's approximation."""
    return x * mx.sigmoid(1.702 * x)


@partial(mx.compile, shapeless=True)
def gelu_tanh(x: mx.array) -> mx.array:
    """The tanh approximation (Hendrycks & Gimpel 2016, arXiv:1606.08415), with (1 + tanh y) / 2 as sigmoid(2 y).

    Computed in float32: a kernel reads and writes half precision, but need not round in between.
    """
    y = x.astype(mx.float32)
    return (y * mx.sigmoid(math.sqrt(8 / math.pi) * (y + 0.044715 * y * y * y))).astype(x.dtype)


def relu_squared(x: mx.array) -> mx.array:
    """max(x, 0)^2 (So et al. 2021, arXiv:2109.08668)."""
    return mx.square(nn.relu(x))


ACTIVATIONS: dict[str, Activation] = {
    "gelu": nn.gelu,
    "gelu_new": gelu_tanh,
    "gelu_pytorch_tanh": gelu_tanh,
    "gelu_tanh": gelu_tanh,
    "quick_gelu": quick_gelu,
    "relu": nn.relu,
    "relu2": relu_squared,
    "silu": nn.silu,
    "swish": nn.silu,
}


@partial(mx.compile, shapeless=True)
def _silu_gated(gate: mx.array, up: mx.array) -> mx.array:
    return gate * mx.sigmoid(gate) * up


@partial(mx.compile, shapeless=True)
def _gelu_tanh_gated(gate: mx.array, up: mx.array) -> mx.array:
    return gelu_tanh(gate) * up


@partial(mx.compile, shapeless=True)
def _relu_squared_gated(gate: mx.array, up: mx.array) -> mx.array:
    return relu_squared(gate) * up


def gated(name: str) -> Callable[[mx.array, mx.array], mx.array]:
    """activation(gate) * up; one kernel for the common ones."""
    activation = ACTIVATIONS[name]
    if activation is nn.silu:
        return _silu_gated
    if activation is gelu_tanh:
        return _gelu_tanh_gated
    if activation is relu_squared:
        return _relu_squared_gated
    return lambda gate, up: activation(gate) * up
