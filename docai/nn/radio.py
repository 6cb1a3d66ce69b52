"""C-RADIO (Heinrich et al. 2024, arXiv:2412.07679): a vision transformer whose positions are cut out of a square grid,
and the neck that makes a quarter as many rows of its patches.
"""

from __future__ import annotations

from dataclasses import dataclass

import mlx.core as mx
import mlx.nn as nn

from docai.nn.grids import interpolated
from docai.nn.mlp import MlpSpec
from docai.nn.vit import VitBlock


@dataclass(frozen=True, slots=True)
class RadioSpec:
    """A tower. `patch` is in pixels. `grid`: the side of the square table of learned positions.

    `prefix`: rows before the patches, the first of them for `classes` teachers, of which `summary` are given.
    """

    hidden: int
    layers: int
    heads: int
    mlp: MlpSpec
    patch: int
    grid: int = 128
    prefix: int = 8
    classes: int = 4
    summary: tuple[int, ...] = (0, 1, 2)
    channels: int = 3
    norm_eps: float = 1e-6


@dataclass(frozen=True, slots=True)
class NeckSpec:
    """`across` patches beside each other become one row; the summary, `classes` rows of `dims`, becomes the last."""

    dims: int
    out: int
    across: int = 4
    classes: int = 3
    norm_eps: float = 1e-6


class Radio(nn.Module):
    """Names: patch, prefix (prefix, hidden), positions (grid * grid, hidden), blocks."""

    def __init__(self, spec: RadioSpec) -> None:
        super().__init__()
        self.patch = nn.Linear(spec.channels * spec.patch**2, spec.hidden, bias=False)
        self.prefix = mx.zeros((spec.prefix, spec.hidden))
        self.positions = mx.zeros((spec.grid**2, spec.hidden))
        self.blocks = [VitBlock(spec.hidden, spec.heads, spec.mlp, spec.norm_eps) for _ in range(spec.layers)]
        self._spec = spec

    def fuse(self) -> None:
        """Join what each block can; done once, after the weights are loaded."""
        for block in self.blocks:
            block.fuse()

    def encode(self, pixels: mx.array) -> tuple[mx.array, mx.array]:
        """One picture (H, W, C) -> its patches (h, w, D) and its summary (classes, D)."""
        spec = self._spec
        patches = self._patches(pixels)
        height, width, _ = patches.shape
        x = self.patch(patches.astype(self.prefix.dtype)) + self._placed(height, width)
        x = mx.concatenate([self.prefix, x.reshape(height * width, -1)])[None]
        for block in self.blocks:
            x = block(x)
        return x[0, spec.prefix :].reshape(height, width, -1), x[0, mx.array(spec.summary)]

    def _patches(self, pixels: mx.array) -> mx.array:
        """(H, W, C) -> (h, w, C * patch * patch), in the order channel, row, column"""
        side = self._spec.patch
        height, width, channels = pixels.shape
        split = pixels.reshape(height // side, side, width // side, side, channels)
        return split.transpose(0, 2, 4, 1, 3).reshape(height // side, width // side, -1)

    def _placed(self, height: int, width: int) -> mx.array:
        """(h, w, D): the first rows and columns of the grid, brought to the longer side of the picture."""
        side, longest = self._spec.grid, max(height, width)
        grid = self.positions.reshape(side, side, -1)
        if longest == side:
            return grid[:height, :width]
        down, across = (mx.array(a) for a in interpolated((1, longest, longest), side))
        lines = mx.tensordot(down[:height], grid, axes=1)  # (h, side, D)
        return mx.tensordot(across[:width], lines, axes=[[1], [1]]).swapaxes(0, 1).astype(grid.dtype)


class Neck(nn.Module):
    """Names: project, project_norm, join, join_norm, summary, summary_norm."""

    def __init__(self, spec: NeckSpec) -> None:
        super().__init__()
        self.project = nn.Linear(spec.dims, spec.out)
        self.project_norm = nn.LayerNorm(spec.out, eps=spec.norm_eps)
        self.join = nn.Linear(spec.across * spec.out, spec.out, bias=False)
        self.join_norm = nn.LayerNorm(spec.out, eps=spec.norm_eps)
        self.summary = nn.Linear(spec.classes * spec.dims, spec.out)
        self.summary_norm = nn.LayerNorm(spec.out, eps=spec.norm_eps)
        self._across = spec.across

    def encode(self, patches: mx.array, summary: mx.array) -> mx.array:
        """(h, w, D) and (classes, D) -> (h * w / across + 1, out); patches that are left over of a line are cut off."""
        height, width, _ = patches.shape
        whole = patches[:, : width // self._across * self._across]
        x = self.project_norm(self.project(whole))
        x = self.join_norm(self.join(x.reshape(height * (width // self._across), -1)))
        return mx.concatenate([x, self.summary_norm(self.summary(summary.reshape(1, -1)))])
