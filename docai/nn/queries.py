"""The second half of a two-stage DETR: the likeliest pixels become queries, whose boxes each layer refines.

RT-DETR (Zhao et al. 2024, arXiv:2304.08069) and version 2 (Lv et al. 2024, arXiv:2407.17140).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import mlx.core as mx
import mlx.nn as nn
import numpy as np

from docai.nn.deform import DeformableAttention, DeformSpec, Size
from docai.nn.mlp import Mlp, MlpSpec
from docai.nn.placed_attention import PlacedAttention

_CELL = 0.05  # size of the boxes that the finest level starts from, of the picture's; doubled from level to level
_EDGE = 0.01  # starting boxes that come nearer to 0 or 1 are not used
_FAR = float(np.finfo(np.float32).max)


@dataclass(frozen=True, slots=True)
class QuerySpec:
    """`queries` of `classes`. `shared`: all layers refine boxes by the same head. `normed`: scores are of the norm of
    what the last layer gives."""

    dims: int
    layers: int
    queries: int
    classes: int
    heads: int
    mlp: MlpSpec
    deform: DeformSpec
    shared: bool = False
    normed: bool = False
    norm_eps: float = 1e-5


class Perceptron(nn.Module):
    """Linear layers with ReLU between them. Names: layers."""

    def __init__(self, *dims: int) -> None:
        super().__init__()
        self.layers = [nn.Linear(a, b) for a, b in pairwise(dims)]

    def __call__(self, x: mx.array) -> mx.array:
        for layer in self.layers[:-1]:
            x = nn.relu(layer(x))
        return self.layers[-1](x)


def logit(x: mx.array) -> mx.array:
    """The inverse of the sigmoid, kept finite as the references do."""
    x = mx.clip(x, 0.0, 1.0)
    return mx.log(mx.maximum(x, 1e-5) / mx.maximum(1 - x, 1e-5))


@lru_cache(maxsize=8)
def starting_boxes(sizes: tuple[Size, ...]) -> tuple[mx.array, mx.array]:
    """(S, 4) the box around each pixel of all levels, before the sigmoid, and (S, 1) whether it is used."""
    parts = []
    for level, (height, width) in enumerate(sizes):
        row, column = np.indices((height, width), np.float32)
        size = np.full((height, width), _CELL * 2.0**level, np.float32)
        parts.append(np.stack([(column + 0.5) / width, (row + 0.5) / height, size, size], -1).reshape(-1, 4))
    boxes = np.concatenate(parts).astype(np.float32)
    used = np.asarray(((boxes > _EDGE) & (boxes < 1 - _EDGE)).all(-1, keepdims=True))
    boxes = np.clip(boxes, 1e-6, 1 - 1e-6)
    return mx.array(np.where(used, np.log(boxes / (1 - boxes)), _FAR).astype(np.float32)), mx.array(used)


class Selection(nn.Module):
    """Names: linear, row_norm, score; box where boxes are not found otherwise."""

    def __init__(self, spec: QuerySpec, *, boxes: bool) -> None:
        super().__init__()
        self.linear = nn.Linear(spec.dims, spec.dims)
        self.row_norm = nn.LayerNorm(spec.dims, spec.norm_eps)
        self.score = nn.Linear(spec.dims, spec.classes)
        if boxes:
            self.box = Perceptron(spec.dims, spec.dims, spec.dims, 4)
        self._queries = spec.queries

    def __call__(self, levels: mx.array, sizes: Sequence[Size]) -> tuple[mx.array, mx.array | None]:
        """levels (B, S, D) -> the likeliest pixels (B, Q, D), and their boxes (B, Q, 4) where they are found here"""
        around, used = starting_boxes(tuple(sizes))
        rows = self.row_norm(self.linear(mx.where(used, levels, 0)))
        best = mx.argsort(-self.score(rows).max(-1), axis=1)[:, : self._queries, None]  # (B, Q, 1)
        chosen = mx.take_along_axis(rows, best, axis=1)
        if "box" not in self:
            return chosen, None
        return chosen, mx.sigmoid(self.box(chosen).astype(mx.float32) + around[best.squeeze(-1)])


class QueryLayer(nn.Module):
    """Names: attn, attn_norm, cross, cross_norm, mlp, mlp_norm."""

    def __init__(self, spec: QuerySpec) -> None:
        super().__init__()
        self.attn = PlacedAttention(spec.dims, spec.heads)
        self.cross = DeformableAttention(spec.dims, spec.deform)
        self.mlp = Mlp(spec.dims, spec.mlp)
        self.attn_norm, self.cross_norm, self.mlp_norm = (nn.LayerNorm(spec.dims, spec.norm_eps) for _ in range(3))

    def __call__(
        self, x: mx.array, positions: mx.array, boxes: mx.array, levels: mx.array, sizes: Sequence[Size]
    ) -> mx.array:
        x = self.attn_norm(x + self.attn(x, positions))
        x = self.cross_norm(x + self.cross(x + positions, boxes, levels, sizes))
        return self.mlp_norm(x + self.mlp(x))


class QueryDecoder(nn.Module):
    """Names: layers, position, boxes, score; last_norm where scores are normed."""

    def __init__(self, spec: QuerySpec) -> None:
        super().__init__()
        dims = spec.dims
        self.layers = [QueryLayer(spec) for _ in range(spec.layers)]
        self.position = Perceptron(4, 2 * dims, dims)
        self.boxes = [Perceptron(dims, dims, dims, 4) for _ in range(1 if spec.shared else spec.layers)]
        self.score = nn.Linear(dims, spec.classes)
        if spec.normed:
            self.last_norm = nn.LayerNorm(dims, spec.norm_eps)

    def __call__(
        self, x: mx.array, boxes: mx.array, levels: mx.array, sizes: Sequence[Size]
    ) -> tuple[mx.array, mx.array]:
        """Queries (B, Q, D), their boxes (B, Q, 4), levels (B, S, D) -> queries, for the heads, and refined boxes"""
        for number, layer in enumerate(self.layers):
            x = layer(x, self.position(boxes.astype(x.dtype)), boxes, levels, sizes)
            refine = self.boxes[min(number, len(self.boxes) - 1)]
            boxes = mx.sigmoid(refine(x).astype(mx.float32) + logit(boxes))
        return (self.last_norm(x) if "last_norm" in self else x), boxes
