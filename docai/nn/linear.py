"""Linear layers that share their input, joined into one matrix product: fewer kernels a step."""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx
import mlx.nn as nn

Linear = nn.Linear | nn.QuantizedLinear


def joined(parts: Sequence[Linear]) -> Linear | None:
    """One layer whose output is that of `parts` side by side; None where they are stored in different ways."""
    first = parts[0]
    if len({_storage(part) for part in parts}) > 1:
        return None
    one: Linear = nn.QuantizedLinear.__new__(type(first)) if isinstance(first, nn.QuantizedLinear) else nn.Linear(1, 1)
    if isinstance(first, nn.QuantizedLinear):
        nn.Module.__init__(one)
        one.group_size, one.bits, one.mode = first.group_size, first.bits, first.mode
    for name in ("weight", "scales", "biases", "bias"):
        if name in first:
            one[name] = mx.concatenate([part[name] for part in parts], axis=0)
        elif name in one:
            del one[name]
    mx.eval(one.parameters())  # now, so that no more than one layer is there twice
    one.freeze()
    return one


def _storage(layer: Linear) -> tuple[object, ...]:
    quantized = (layer.group_size, layer.bits, layer.mode) if isinstance(layer, nn.QuantizedLinear) else ()
    return type(layer), *quantized, layer.weight.dtype, layer.weight.shape[1], "bias" in layer
