"""Connectors: from a tower's rows to rows of the decoder's width, one for each image token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import mlx.core as mx
import mlx.nn as nn

from docai.nn.activation import ACTIVATIONS
from docai.nn.norm import NormKind, norm
from docai.preprocess.inputs import ImageInput
from docai.vlm.vision import Seen


@dataclass(frozen=True, slots=True, eq=False)
class ImageFeatures:
    """One image as the decoder takes it: `rows` (tokens, D), and what is added behind the first layers (DeepStack)."""

    rows: mx.array
    deepstack: tuple[mx.array, ...] = ()


@dataclass(frozen=True, slots=True)
class MergerSpec:
    """Neighbouring rows become one: `merged` rows of `dims` side by side, through two layers, to rows of `out`.

    The norm comes first, over each row. A merger more for each of `taps` inner layers of the tower (DeepStack,
    arXiv:2406.04334) norms after the rows are joined, as Qwen3-VL does.
    """

    dims: int
    out: int
    merged: int = 4
    norm: NormKind = "layer"
    norm_eps: float = 1e-6
    activation: str = "gelu"
    taps: int = 0


ConnectorSpec: TypeAlias = MergerSpec


class Merge(nn.Module):
    """Names: norm, up, down."""

    def __init__(self, spec: MergerSpec, *, norm_joined: bool) -> None:
        super().__init__()
        wide = spec.dims * spec.merged
        self.norm = norm(spec.norm, wide if norm_joined else spec.dims, spec.norm_eps)
        self.up = nn.Linear(wide, wide)
        self.down = nn.Linear(wide, spec.out)
        self._wide, self._norm_joined = wide, norm_joined
        self._activation = ACTIVATIONS[spec.activation]

    def __call__(self, rows: mx.array) -> mx.array:
        """(N, D) -> (N / merged, out)"""
        joined = rows.reshape(-1, self._wide) if self._norm_joined else rows
        joined = self.norm(joined).reshape(-1, self._wide)
        return self.down(self._activation(self.up(joined)))


class Merger(nn.Module):
    """Names: merge; deepstack, a list of the same."""

    def __init__(self, spec: MergerSpec) -> None:
        super().__init__()
        self.merge = Merge(spec, norm_joined=False)
        if spec.taps:
            self.deepstack = [Merge(spec, norm_joined=True) for _ in range(spec.taps)]

    def __call__(self, seen: Seen, _: ImageInput) -> ImageFeatures:
        inner = [merge(rows) for merge, rows in zip(self.get("deepstack", ()), seen.taps, strict=True)]
        return ImageFeatures(self.merge(seen.rows), tuple(inner))


def build_connector(spec: ConnectorSpec) -> nn.Module:
    """The connector that `spec` describes."""
    match spec:
        case MergerSpec():
            return Merger(spec)
