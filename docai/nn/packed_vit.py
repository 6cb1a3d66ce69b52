"""A vision transformer over the patches of images of any size, packed one after another (NaViT, arXiv:2307.06304)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import mlx.core as mx
import mlx.nn as nn
import numpy as np

from docai.nn.axial import AxialRope, LaneRope
from docai.nn.grids import Grid, Resampling, in_blocks, interpolated, layout, split
from docai.nn.linear import joined
from docai.nn.mlp import Mlp, MlpSpec
from docai.nn.norm import NormKind, norm
from docai.nn.segments import Run, attend_segments, shortened
from docai.nn.squeeze import Squeeze, SqueezeSpec


@dataclass(frozen=True, slots=True)
class PackedVitSpec:
    """A tower. `patch` is in pixels; a patch spans `frames` of a clip (an image counts as equal frames).

    Patches come in blocks of `merge` x `merge` (see `docai.nn.grids`). `positions`: the side of a square table of
    learned positions that is stretched to each image by `resampling`, 0 for none. `window`: the side of attention
    windows in blocks, 0 for none; then `full_layers` are those that see a whole image nevertheless. The outputs of
    `taps` are given too. `unused`: layers that the checkpoint has above those, which nobody needs. `averaged`: steps
    of a clip get a sinusoid of their number, see each other, and only the mean of their rows is given (MoonViT-3D of
    Kimi K2.5, arXiv:2602.02276). `squeeze`: squares of patches become one between two layers, of towers without
    windows and turns; then rows are given of squares. Raises ValueError for numbers that make no tower.
    """

    hidden: int
    layers: int
    heads: int
    mlp: MlpSpec
    patch: int
    frames: int = 2
    channels: int = 3
    merge: int = 2
    norm: NormKind = "layer"
    norm_eps: float = 1e-6
    patch_bias: bool = False
    attention_bias: bool = True
    rope: AxialRope | LaneRope | None = field(default_factory=AxialRope)
    positions: int = 0
    resampling: Resampling = "bilinear"
    window: int = 0
    full_layers: tuple[int, ...] = ()
    taps: tuple[int, ...] = ()
    pre_norm: bool = False
    post_norm: bool = False
    unused: int = 0
    averaged: bool = False
    squeeze: SqueezeSpec | None = None

    def __post_init__(self) -> None:
        if min(self.layers, self.heads, self.merge) < 1 or self.hidden % self.heads:
            raise ValueError(
                f"{self.layers} layers of {self.hidden} numbers in {self.heads} heads, blocks of {self.merge} x "
                f"{self.merge} patches make no tower"
            )
        if self.rope is not None and self.head_dim % 4:
            raise ValueError(f"{self.head_dim} numbers of a head cannot be turned in pairs by rows and columns")

    @property
    def inner(self) -> int:
        """The side of the squares of patches that become one inside the tower."""
        return 1 if self.squeeze is None else self.squeeze.side

    @property
    def head_dim(self) -> int:
        return self.hidden // self.heads

    @property
    def patch_values(self) -> int:
        """Numbers in a flattened patch: (channels, frames, patch, patch)."""
        return self.channels * self.frames * self.patch**2


Turning = Callable[[mx.array], mx.array]  # (N, heads, d) -> the same


def _unturned(x: mx.array) -> mx.array:
    return x


class Encoded(NamedTuple):
    """What a tower makes of its patches: `rows` (N, D), and the same after each of the layers in `taps`.

    Where the steps of clips are `averaged`, there are as many rows as one step has.
    """

    rows: mx.array
    taps: tuple[mx.array, ...] = ()


class PackedAttention(nn.Module):
    """Names: q, k, v, o."""

    def __init__(self, spec: PackedVitSpec) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (
            nn.Linear(spec.hidden, spec.hidden, bias=spec.attention_bias) for _ in range(4)
        )
        self._heads, self._scale = spec.heads, spec.head_dim**-0.5

    def fuse(self) -> None:
        """Join q, k and v; done once, after the weights are loaded."""
        one = joined((self.q, self.k, self.v))
        if one is not None:
            self.qkv = one
            del self.q, self.k, self.v

    def __call__(self, x: mx.array, segments: Sequence[Run], turn: Turning = _unturned) -> mx.array:
        """x (N, D) -> (N, D)"""
        parts = mx.split(self.qkv(x), 3, axis=-1) if "qkv" in self else [layer(x) for layer in (self.q, self.k, self.v)]
        q, k, v = (a.reshape(len(x), self._heads, -1) for a in parts)  # (N, heads, d)
        return self.o(attend_segments(turn(q), turn(k), v, segments, self._scale))


class PackedBlock(nn.Module):
    """Names: norm1, attn, norm2, mlp."""

    def __init__(self, spec: PackedVitSpec) -> None:
        super().__init__()
        self.norm1 = norm(spec.norm, spec.hidden, spec.norm_eps)
        self.attn = PackedAttention(spec)
        self.norm2 = norm(spec.norm, spec.hidden, spec.norm_eps)
        self.mlp = Mlp(spec.hidden, spec.mlp)

    def __call__(self, x: mx.array, turn: Turning, segments: Sequence[Run]) -> mx.array:
        x = x + self.attn(self.norm1(x), segments, turn)
        return x + self.mlp(self.norm2(x))


class PackedVit(nn.Module):
    """Names: patch, positions, pre_norm, blocks, squeeze, post_norm; those that the spec asks for."""

    def __init__(self, spec: PackedVitSpec) -> None:
        super().__init__()
        self.patch = nn.Linear(spec.patch_values, spec.hidden, bias=spec.patch_bias)
        if spec.positions:
            self.positions = nn.Embedding(spec.positions**2, spec.hidden)
        if spec.pre_norm:
            self.pre_norm = norm(spec.norm, spec.hidden, spec.norm_eps)
        self.blocks = [PackedBlock(spec) for _ in range(spec.layers)]
        if spec.squeeze is not None:
            self.squeeze = Squeeze(spec.squeeze, spec.hidden, spec.norm, spec.norm_eps, PackedAttention(spec))
        if spec.post_norm:
            self.post_norm = norm(spec.norm, spec.hidden, spec.norm_eps)
        self._spec = spec

    def fuse(self) -> None:
        """Join what each block can; done once, after the weights are loaded."""
        for block in self.blocks:
            block.attn.fuse()
            block.mlp.fuse()
        if "squeeze" in self:
            self.squeeze.attn.fuse()

    def encode(self, patches: mx.array, grids: Sequence[Grid]) -> Encoded:
        """patches (N, channels * frames * patch * patch) of images with these grids -> their rows, in their order."""
        spec = self._spec
        plan = layout(grids, spec.merge, spec.window, whole_clips=spec.averaged)
        turn = _unturned if spec.rope is None else spec.rope.turn(plan.rows, plan.columns, spec.head_dim)
        x = self._embedded(patches, grids)
        x = x if plan.order is None else x[mx.array(plan.order)]
        back = None if plan.back is None else mx.array(plan.back)
        steps, taps = plan.steps, []
        for number, block in enumerate(self.blocks):
            whole = not spec.window or number in spec.full_layers
            x = block(x, turn, steps if whole else plan.windows)
            if spec.squeeze is not None and number == spec.squeeze.after:
                x, steps = self.squeeze(x), shortened(steps, spec.squeeze.count)
            if number in spec.taps:
                taps.append(x if back is None else x[back])
        x = x if back is None else x[back]
        x = self.post_norm(x) if spec.post_norm else x
        return Encoded(_averaged(x, grids) if spec.averaged else x, tuple(taps))

    def _embedded(self, patches: mx.array, grids: Sequence[Grid]) -> mx.array:
        """(N, D), in the order of the patches."""
        x = self.patch(patches.astype(self.blocks[0].norm1.weight.dtype))
        if self._spec.positions:
            tables = {grid: self._stretched(grid) for grid in set(grids)}  # frames and tiles have the same
            x = x + mx.concatenate([tables[grid] for grid in grids]).astype(x.dtype)
        return self.pre_norm(x) if self._spec.pre_norm else x

    def _stretched(self, grid: Grid) -> mx.array:
        """The table of positions, sampled at the patches of one image: (t * h * w, D)"""
        side, (steps, h, w) = self._spec.positions, grid
        table = self.positions(mx.arange(side**2)).astype(mx.float32).reshape(side, -1)
        over_rows, over_columns = (mx.array(matrix) for matrix in interpolated(grid, side, self._spec.resampling))
        sampled = (over_rows @ table).reshape(h, side, -1)
        order = in_blocks(np.arange(h * w, dtype=np.int32).reshape(h, w), self._spec.merge, self._spec.inner)
        flat = (over_columns @ sampled).reshape(h * w, -1)[mx.array(order)]
        if steps == 1:
            return flat
        times = self._sinusoids(steps)[:, None] if self._spec.averaged else mx.zeros((steps, 1, 1))
        return (flat + times).reshape(-1, flat.shape[-1])

    def _sinusoids(self, steps: int) -> mx.array:
        """(steps, D): sines, then cosines, of each number at the frequencies of Vaswani et al. 2017."""
        dims = self._spec.hidden
        angles = np.outer(np.arange(steps), 10_000.0 ** -(np.arange(0, dims, 2) / dims))
        return mx.array(np.hstack([np.sin(angles), np.cos(angles)]).astype(np.float32))


def _averaged(x: mx.array, grids: Sequence[Grid]) -> mx.array:
    """The mean over time of the rows (sum of t * h * w, D) of each grid: (sum of h * w, D)"""
    if all(steps == 1 for steps, _, _ in grids):
        return x
    parts = (x[part].reshape(grid[0], -1, x.shape[-1]) for part, grid in zip(split(grids), grids, strict=True))
    return mx.concatenate([part.astype(mx.float32).mean(axis=0).astype(x.dtype) for part in parts])
