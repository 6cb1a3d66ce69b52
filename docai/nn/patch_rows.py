"""Patches straight to rows of the decoder's width, without a tower (Gemma 4 Unified; Google 2026)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx
import mlx.nn as nn

from docai.nn.grids import Grid, layout
from docai.nn.norm import rms


@dataclass(frozen=True, slots=True)
class PatchRowsSpec:
    """A patch has `values` numbers; `positions`: the most columns, and the most rows, of an image."""

    values: int
    hidden: int
    out: int
    positions: int
    norm_eps: float = 1e-6
    layer_eps: float = 1e-5


class PatchRows(nn.Module):
    """Norms around a linear layer, learned positions of columns and of rows, and one more of each.

    Names: in_norm, project, norm, columns, rows, placed_norm, up.
    """

    def __init__(self, spec: PatchRowsSpec) -> None:
        super().__init__()
        self.in_norm = nn.LayerNorm(spec.values, eps=spec.layer_eps)
        self.project = nn.Linear(spec.values, spec.hidden)
        self.norm = nn.LayerNorm(spec.hidden, eps=spec.layer_eps)
        self.columns, self.rows = (nn.Embedding(spec.positions, spec.hidden) for _ in range(2))
        self.placed_norm = nn.LayerNorm(spec.hidden, eps=spec.layer_eps)
        self.up = nn.Linear(spec.hidden, spec.out, bias=False)
        self._eps = spec.norm_eps

    def encode(self, patches: mx.array, grids: Sequence[Grid]) -> mx.array:
        """patches (N, values), row by row, of images with these grids -> (N, out)"""
        plan = layout(grids, 1)
        x = self.norm(self.project(self.in_norm(patches.astype(self.in_norm.weight.dtype))))
        x = x + self.columns(mx.array(plan.columns)) + self.rows(mx.array(plan.rows))
        return self.up(rms(self.placed_norm(x), self._eps))
