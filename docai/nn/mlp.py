"""Feed-forward blocks, plain and gated (Shazeer 2020, arXiv:2002.05202)."""

from __future__ import annotations

from dataclasses import dataclass

import mlx.core as mx
import mlx.nn as nn

from docai.nn.activation import ACTIVATIONS, gated
from docai.nn.linear import joined


@dataclass(frozen=True, slots=True)
class MlpSpec:
    """`width` of the hidden layer; `gated`: down(act(gate(x)) * up(x)), otherwise down(act(up(x)))."""

    width: int
    activation: str = "silu"
    gated: bool = True
    bias: bool = False


class Mlp(nn.Module):
    """Names: gate (where gated), up, down."""

    def __init__(self, dims: int, spec: MlpSpec) -> None:
        super().__init__()
        if spec.gated:
            self.gate = nn.Linear(dims, spec.width, bias=spec.bias)
        self.up = nn.Linear(dims, spec.width, bias=spec.bias)
        self.down = nn.Linear(spec.width, dims, bias=spec.bias)
        self._spec = spec
        self._gated = gated(spec.activation)

    def fuse(self) -> None:
        """Join gate and up; done once, after the weights are loaded."""
        one = joined((self.gate, self.up)) if "gate" in self else None
        if one is not None:
            self.gate_up = one
            del self.gate, self.up

    def __call__(self, x: mx.array) -> mx.array:
        if "gate_up" in self:
            return self.down(self._gated(*mx.split(self.gate_up(x), 2, axis=-1)))
        if self._spec.gated:
            return self.down(self._gated(self.gate(x), self.up(x)))
        return self.down(ACTIVATIONS[self._spec.activation](self.up(x)))
