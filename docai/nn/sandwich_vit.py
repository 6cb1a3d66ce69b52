"""A packed vision transformer with norms on both sides of its branches and of each head (Gemma 4's; Google 2026).

Its patches have learned positions, one for their column and one for their row, and are turned by them as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx
import mlx.nn as nn

from docai.nn.activation import gated
from docai.nn.axial import AxialRope, Turn
from docai.nn.clipped import ClippedLinear
from docai.nn.grids import Grid, layout
from docai.nn.norm import rms
from docai.nn.packed_vit import Encoded
from docai.nn.segments import Run, attend_segments


@dataclass(frozen=True, slots=True)
class SandwichVitSpec:
    """A tower. `patch` is in pixels, which come from 0 to 1; patches come in blocks of `merge` x `merge`.

    `positions`: the most columns, and the most rows, of an image. `clipped`: see `ClippedLinear`.

    Raises ValueError for numbers that make no tower.
    """

    hidden: int
    layers: int
    heads: int
    head_dim: int
    width: int
    patch: int
    positions: int
    merge: int = 3
    activation: str = "gelu_pytorch_tanh"
    theta: float = 100.0
    norm_eps: float = 1e-6
    clipped: bool = False

    def __post_init__(self) -> None:
        if min(self.layers, self.heads, self.merge, self.positions) < 1:
            raise ValueError(
                f"{self.layers} layers of {self.heads} heads, blocks of {self.merge} x {self.merge} patches and "
                f"{self.positions} positions make no tower"
            )
        if self.head_dim % 4:
            raise ValueError(f"{self.head_dim} numbers of a head cannot be turned in pairs by rows and columns")

    @property
    def patch_values(self) -> int:
        """Numbers in a flattened patch: (patch, patch, 3)."""
        return 3 * self.patch**2


class SandwichAttention(nn.Module):
    """Names: q, k, v, o, each clipped; q_norm, k_norm. Values are normed without a weight; scores are not scaled."""

    def __init__(self, spec: SandwichVitSpec) -> None:
        super().__init__()
        inner = spec.heads * spec.head_dim
        self.q, self.k, self.v = (ClippedLinear(spec.hidden, inner, clipped=spec.clipped) for _ in range(3))
        self.o = ClippedLinear(inner, spec.hidden, clipped=spec.clipped)
        self.q_norm, self.k_norm = (nn.RMSNorm(spec.head_dim, eps=spec.norm_eps) for _ in range(2))
        self._head_dim, self._eps = spec.head_dim, spec.norm_eps

    def __call__(self, x: mx.array, turn: Turn, segments: Sequence[Run]) -> mx.array:
        """x (N, D) -> (N, D)"""
        q, k, v = (layer(x).reshape(len(x), -1, self._head_dim) for layer in (self.q, self.k, self.v))
        q, k, v = turn(self.q_norm(q)), turn(self.k_norm(k)), rms(v, self._eps)
        return self.o(attend_segments(q, k, v, segments, 1.0))


class ClippedMlp(nn.Module):
    """Names: gate, up, down, each clipped."""

    def __init__(self, spec: SandwichVitSpec) -> None:
        super().__init__()
        self.gate, self.up = (ClippedLinear(spec.hidden, spec.width, clipped=spec.clipped) for _ in range(2))
        self.down = ClippedLinear(spec.width, spec.hidden, clipped=spec.clipped)
        self._gated = gated(spec.activation)

    def __call__(self, x: mx.array) -> mx.array:
        return self.down(self._gated(self.gate(x), self.up(x)))


class SandwichBlock(nn.Module):
    """Names: attn_norm, attn, attn_post_norm, mlp_norm, mlp, mlp_post_norm."""

    def __init__(self, spec: SandwichVitSpec) -> None:
        super().__init__()
        self.attn_norm, self.attn_post_norm, self.mlp_norm, self.mlp_post_norm = (
            nn.RMSNorm(spec.hidden, eps=spec.norm_eps) for _ in range(4)
        )
        self.attn, self.mlp = SandwichAttention(spec), ClippedMlp(spec)

    def __call__(self, x: mx.array, turn: Turn, segments: Sequence[Run]) -> mx.array:
        x = x + self.attn_post_norm(self.attn(self.attn_norm(x), turn, segments))
        return x + self.mlp_post_norm(self.mlp(self.mlp_norm(x)))


class SandwichVit(nn.Module):
    """Names: patch, columns, rows, blocks."""

    def __init__(self, spec: SandwichVitSpec) -> None:
        super().__init__()
        self.patch = nn.Linear(spec.patch_values, spec.hidden, bias=False)
        self.columns, self.rows = (nn.Embedding(spec.positions, spec.hidden) for _ in range(2))
        self.blocks = [SandwichBlock(spec) for _ in range(spec.layers)]
        self._spec = spec

    def fuse(self) -> None:
        """There is nothing to join: each layer has bounds of its own."""

    def encode(self, patches: mx.array, grids: Sequence[Grid]) -> Encoded:
        """patches (N, patch * patch * 3) of images with these grids -> their rows, in their order."""
        spec = self._spec
        plan = layout(grids, spec.merge)
        turn = AxialRope(spec.theta, apart=True).turn(plan.rows, plan.columns, spec.head_dim)
        x = self.patch((2 * patches - 1).astype(self.blocks[0].attn_norm.weight.dtype))
        x = x + self.columns(mx.array(plan.columns)) + self.rows(mx.array(plan.rows))
        for block in self.blocks:
            x = block(x, turn, plan.steps)
        return Encoded(x)
