"""Linear layers whose inputs and outputs are cut to bounds that come with the weights (Gemma 4's towers)."""

from __future__ import annotations

import mlx.core as mx
import mlx.nn as nn

BOUNDS = ("input_min", "input_max", "output_min", "output_max")


class ClippedLinear(nn.Module):
    """Names: linear.weight and, where `clipped`, the scalars input_min, input_max, output_min, output_max."""

    def __init__(self, inputs: int, outputs: int, *, clipped: bool) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs, bias=False)
        if clipped:
            for name in BOUNDS:
                self[name] = mx.array(-mx.inf if name.endswith("min") else mx.inf)

    def __call__(self, x: mx.array) -> mx.array:
        """(..., inputs) -> (..., outputs)"""
        if "input_min" not in self:
            return self.linear(x)
        y = self.linear(mx.clip(x, self.input_min, self.input_max))
        return mx.clip(y, self.output_min, self.output_max)
