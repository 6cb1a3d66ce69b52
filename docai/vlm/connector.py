"""Connectors: from a tower's rows to rows of the decoder's width, one for each image token."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import mlx.core as mx
import mlx.nn as nn

from docai.nn.activation import ACTIVATIONS
from docai.nn.norm import NormKind, norm, rms
from docai.nn.patch_rows import PatchRows, PatchRowsSpec
from docai.nn.placed import Placer, PlacerSpec
from docai.nn.radio import Neck, NeckSpec
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

    The norm, if there is one, comes first, over each row or, with `norm_joined`, over what is put together. `hidden`:
    the width between the layers, where it is another than that; `gated`: a third layer gates it. `by_lines`: rows come
    line by line, those of squares, so that they are put into blocks first. A merger more for each of `taps` inner
    layers of the tower (DeepStack, arXiv:2406.04334) norms after the rows are joined, as Qwen3-VL does.
    """

    dims: int
    out: int
    merged: int = 4
    norm: NormKind | None = "layer"
    norm_eps: float = 1e-6
    activation: str = "gelu"
    taps: int = 0
    norm_joined: bool = False
    hidden: int | None = None
    gated: bool = False
    by_lines: bool = False
    bias: bool = True


@dataclass(frozen=True, slots=True)
class ProjectorSpec:
    """Each row by itself: through two layers (LLaVA 1.5, arXiv:2310.03744) or, with no `activation`, through one.

    `tiled`: an image is a whole picture and tiles of it, put together by `in_place` (LLaVA 1.6).
    """

    dims: int
    out: int
    activation: str | None = "gelu"
    bias: bool = True
    tiled: bool = False


@dataclass(frozen=True, slots=True)
class LinesSpec:
    """2 x 2 rows become one of `dims`; each line of them ends in a row that was learned. Then through two layers.

    An image is tiles of it, put together, another learned row, and the whole picture (Phi-3 Vision, arXiv:2404.14219).
    """

    dims: int
    out: int


@dataclass(frozen=True, slots=True)
class PoolerSpec:
    """Squares of `pool` x `pool` patches are averaged, normed and projected (Gemma 3, arXiv:2503.19786)."""

    dims: int
    out: int
    pool: int
    norm_eps: float = 1e-6


@dataclass(frozen=True, slots=True)
class AveragerSpec:
    """Each `merged` rows are averaged, scaled by the root of their width, normed without a weight and projected.

    `standard`: before the norm they are shifted and scaled by numbers that come with the weights (Gemma 4).
    """

    dims: int
    out: int
    merged: int = 9
    norm_eps: float = 1e-6
    standard: bool = False


@dataclass(frozen=True, slots=True)
class JoinerSpec:
    """Rows are normed, `merged` of them made one of the same width, and projected through two layers (Mistral 3)."""

    dims: int
    out: int
    merged: int = 4
    norm_eps: float = 1e-5
    activation: str = "gelu"
    bias: bool = False


@dataclass(frozen=True, slots=True)
class ShrinkerSpec:
    """Two convolutions halve the grid of rows, each way; then a layer over each row (Vary, arXiv:2312.06109)."""

    dims: int
    out: int


ConnectorSpec: TypeAlias = (
    MergerSpec
    | ProjectorSpec
    | LinesSpec
    | PoolerSpec
    | AveragerSpec
    | JoinerSpec
    | ShrinkerSpec
    | PlacerSpec
    | PatchRowsSpec
    | NeckSpec
)


class Merge(nn.Module):
    """Names: norm, gate, up, down; the first two where the spec asks for them."""

    def __init__(self, spec: MergerSpec, *, norm_joined: bool) -> None:
        super().__init__()
        wide = spec.dims * spec.merged
        if spec.norm:
            self.norm = norm(spec.norm, wide if norm_joined else spec.dims, spec.norm_eps)
        if spec.gated:
            self.gate = nn.Linear(wide, spec.hidden or wide, bias=spec.bias)
        self.up = nn.Linear(wide, spec.hidden or wide, bias=spec.bias)
        self.down = nn.Linear(spec.hidden or wide, spec.out, bias=spec.bias)
        self._wide, self._norm_joined = wide, norm_joined
        self._activation = ACTIVATIONS[spec.activation]

    def __call__(self, rows: mx.array) -> mx.array:
        """(N, D) -> (N / merged, out)"""
        joined = rows.reshape(-1, self._wide) if self._norm_joined else rows
        joined = (self.norm(joined) if "norm" in self else joined).reshape(-1, self._wide)
        if "gate" in self:
            return self.down(self._activation(self.gate(joined)) * self.up(joined))
        return self.down(self._activation(self.up(joined)))


class Merger(nn.Module):
    """Names: merge; deepstack, a list of the same."""

    def __init__(self, spec: MergerSpec) -> None:
        super().__init__()
        self.merge = Merge(spec, norm_joined=spec.norm_joined)
        if spec.taps:
            self.deepstack = [Merge(spec, norm_joined=True) for _ in range(spec.taps)]
        self._side = math.isqrt(spec.merged) if spec.by_lines else 0

    def __call__(self, seen: Seen, _: ImageInput) -> ImageFeatures:
        inner = [merge(rows) for merge, rows in zip(self.get("deepstack", ()), seen.taps, strict=True)]
        return ImageFeatures(self.merge(in_squares(seen.rows, self._side) if self._side else seen.rows), tuple(inner))


def in_squares(rows: mx.array, side: int) -> mx.array:
    """Rows of pictures (tiles, n * n, D), line by line -> (tiles * n * n, D), square by square of `side` x `side`."""
    count, number, dims = rows.shape
    across = math.isqrt(number) // side
    return rows.reshape(count, across, side, across, side, dims).swapaxes(2, 3).reshape(-1, dims)


class Projector(nn.Module):
    """Names: up; down, where there are two layers."""

    def __init__(self, spec: ProjectorSpec) -> None:
        super().__init__()
        self.up = nn.Linear(spec.dims, spec.out, bias=spec.bias)
        if spec.activation is not None:
            self.down = nn.Linear(spec.out, spec.out, bias=spec.bias)
            self._activation = ACTIVATIONS[spec.activation]

    def __call__(self, seen: Seen, _: ImageInput) -> ImageFeatures:
        rows = self.projected(seen.rows)
        return ImageFeatures(rows.reshape(-1, rows.shape[-1]))

    def projected(self, rows: mx.array) -> mx.array:
        """(..., dims) -> (..., out)"""
        return self.down(self._activation(self.up(rows))) if "down" in self else self.up(rows)


class TiledProjector(Projector):
    """Names: up, down; newline, the row that stands for the end of a line of patches."""

    def __init__(self, spec: ProjectorSpec) -> None:
        super().__init__(spec)
        self.newline = mx.zeros((spec.out,))

    def __call__(self, seen: Seen, image: ImageInput) -> ImageFeatures:
        rows = self.projected(seen.rows)  # (1 + tiles, N, out), the whole picture first
        across = int(image.extra["tiles"][1])
        top, left, height, width = (int(n) for n in image.extra["crop"])
        placed = in_place(rows[1:], across)[top : top + height, left : left + width]  # (height, width, out)
        ends = mx.broadcast_to(self.newline.astype(placed.dtype), (height, 1, placed.shape[-1]))
        lines = mx.concatenate([placed, ends], axis=1)
        return ImageFeatures(mx.concatenate([rows[0], lines.reshape(-1, lines.shape[-1])]))


def in_place(tiles: mx.array, across: int) -> mx.array:
    """Rows of square tiles (T, side * side, D), `across` of them beside each other, where they lie in the picture.

    Gives (T / across * side, across * side, D).
    """
    count, rows, dims = tiles.shape
    side = math.isqrt(rows)
    grid = tiles.reshape(count // across, across, side, side, dims).swapaxes(1, 2)
    return grid.reshape(count // across * side, across * side, dims)


class Lines(nn.Module):
    """Names: newline, between, up, down."""

    def __init__(self, spec: LinesSpec) -> None:
        super().__init__()
        self.newline, self.between = mx.zeros((spec.dims,)), mx.zeros((spec.dims,))
        self.up, self.down = nn.Linear(spec.dims, spec.out), nn.Linear(spec.out, spec.out)

    def __call__(self, seen: Seen, image: ImageInput) -> ImageFeatures:
        """Of rows (1 + tiles, N, D), the whole picture first."""
        tiles = in_place(seen.rows[1:], int(image.extra["tiles"][1]))
        lines = [self._lines(tiles), self.between[None], self._lines(in_place(seen.rows[:1], 1))]
        return ImageFeatures(self.down(nn.gelu(self.up(mx.concatenate(lines)))))

    def _lines(self, grid: mx.array) -> mx.array:
        """(h, w, D) -> (h / 2 * (w / 2 + 1), 4 * D)"""
        height, width, dims = grid.shape
        blocks = grid.reshape(height // 2, 2, width // 2, 2, dims).swapaxes(1, 2).reshape(height // 2, -1, 4 * dims)
        ends = mx.broadcast_to(self.newline.astype(blocks.dtype), (height // 2, 1, 4 * dims))
        return mx.concatenate([blocks, ends], axis=1).reshape(-1, 4 * dims)


class Pooler(nn.Module):
    """Names: norm, up."""

    def __init__(self, spec: PoolerSpec) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(spec.dims, eps=spec.norm_eps)
        self.up = nn.Linear(spec.dims, spec.out, bias=False)
        self._pool = spec.pool

    def __call__(self, seen: Seen, _: ImageInput) -> ImageFeatures:
        count, rows, dims = seen.rows.shape
        side = math.isqrt(rows) // self._pool
        squares = seen.rows.reshape(count, side, self._pool, side, self._pool, dims)
        pooled = squares.mean(axis=(2, 4)).reshape(-1, dims)  # (tiles * tokens, dims)
        return ImageFeatures(self.up(self.norm(pooled)))


class Averager(nn.Module):
    """Names: up; bias and scale, where the spec has them."""

    def __init__(self, spec: AveragerSpec) -> None:
        super().__init__()
        self.up = nn.Linear(spec.dims, spec.out, bias=False)
        if spec.standard:
            self.bias, self.scale = mx.zeros((spec.dims,)), mx.ones((spec.dims,))
        self._merged, self._eps = spec.merged, spec.norm_eps

    def __call__(self, seen: Seen, _: ImageInput) -> ImageFeatures:
        """Of rows (N, dims), in float32: scaled, they may be more than half precision has."""
        rows = seen.rows.reshape(-1, self._merged, seen.rows.shape[-1]).astype(mx.float32)
        pooled = rows.mean(axis=1) * math.sqrt(rows.shape[-1])
        if "bias" in self:
            pooled = (pooled - self.bias) * self.scale
        return ImageFeatures(self.up(rms(pooled.astype(seen.rows.dtype), self._eps)))


class Joiner(nn.Module):
    """Names: norm, join, up, down."""

    def __init__(self, spec: JoinerSpec) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(spec.dims, eps=spec.norm_eps)
        self.join = nn.Linear(spec.dims * spec.merged, spec.dims, bias=False)
        self.up = nn.Linear(spec.dims, spec.out, bias=spec.bias)
        self.down = nn.Linear(spec.out, spec.out, bias=spec.bias)
        self._merged, self._activation = spec.merged, ACTIVATIONS[spec.activation]

    def __call__(self, seen: Seen, _: ImageInput) -> ImageFeatures:
        rows = self.norm(seen.rows)  # (N, dims)
        blocks = rows.reshape(-1, self._merged, rows.shape[-1])
        joined = self.join(blocks.swapaxes(1, 2).reshape(len(blocks), -1))  # channel by channel, as torch's unfold
        return ImageFeatures(self.down(self._activation(self.up(joined))))


class Shrinker(nn.Module):
    """Names: half, quarter, up."""

    def __init__(self, spec: ShrinkerSpec) -> None:
        super().__init__()
        self.half = nn.Conv2d(spec.dims, 2 * spec.dims, 3, stride=2, padding=1, bias=False)
        self.quarter = nn.Conv2d(2 * spec.dims, spec.out, 3, stride=2, padding=1, bias=False)
        self.up = nn.Linear(spec.out, spec.out)

    def __call__(self, seen: Seen, _: ImageInput) -> ImageFeatures:
        """Of rows (tiles, h, w, dims)."""
        rows = self.up(self.quarter(self.half(seen.rows)))
        return ImageFeatures(rows.reshape(-1, rows.shape[-1]))


class PlacedRows(Placer):
    """Names: those of `docai.nn.placed`."""

    def __call__(self, seen: Seen, _: ImageInput) -> ImageFeatures:
        return ImageFeatures(self.encode(seen.rows))


class EmbeddedPatches(PatchRows):
    """Names: those of `docai.nn.patch_rows`."""

    def __call__(self, seen: Seen, image: ImageInput) -> ImageFeatures:
        return ImageFeatures(self.encode(seen.rows, image.grids))


class NeckRows(Neck):
    """Names: those of `docai.nn.radio`."""

    def __call__(self, seen: Seen, _: ImageInput) -> ImageFeatures:
        return ImageFeatures(self.encode(seen.rows, seen.taps[0]))


def build_connector(spec: ConnectorSpec) -> nn.Module:
    """The connector that `spec` describes."""
    match spec:
        case MergerSpec():
            return Merger(spec)
        case ProjectorSpec():
            return TiledProjector(spec) if spec.tiled else Projector(spec)
        case LinesSpec():
            return Lines(spec)
        case PoolerSpec():
            return Pooler(spec)
        case AveragerSpec():
            return Averager(spec)
        case JoinerSpec():
            return Joiner(spec)
        case ShrinkerSpec():
            return Shrinker(spec)
        case PlacerSpec():
            return PlacedRows(spec)
        case PatchRowsSpec():
            return EmbeddedPatches(spec)
        case NeckSpec():
            return NeckRows(spec)
