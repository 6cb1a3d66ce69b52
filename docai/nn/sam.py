"""SAM's image encoder (Kirillov et al. 2023, arXiv:2304.02643): a vision transformer with windows, in which queries
score the rows and columns that lie between them and their keys (ViTDet, arXiv:2203.16527).
"""

from __future__ import annotations

from dataclasses import dataclass

import mlx.core as mx
import mlx.nn as nn
import numpy as np

from docai.errors import CheckpointError
from docai.nn.mlp import Mlp, MlpSpec
from docai.nn.vit import VitAttention

# Bytes of scores at a time: what a processor's cache nearly holds, or what a GPU can spare.
_SCORE_BYTES_CPU, _SCORE_BYTES = 1 << 24, 1 << 28


@dataclass(frozen=True, slots=True)
class SamSpec:
    """A tower over square pictures. `image` (the side), `patch` in pixels; `window` in patches, 0 for none.

    `full_layers` see the whole picture nevertheless. `out`: the channels that a neck of convolutions leaves.
    """

    hidden: int
    layers: int
    heads: int
    mlp: MlpSpec
    image: int
    patch: int
    out: int
    window: int = 0
    full_layers: tuple[int, ...] = ()
    channels: int = 3
    norm_eps: float = 1e-6
    neck_eps: float = 1e-6

    @property
    def side(self) -> int:
        """Patches along a side."""
        return self.image // self.patch

    def seen(self, layer: int) -> int:
        """The side of what a query of this layer sees, in patches."""
        return self.window if self.window and layer not in self.full_layers else self.side


class SamAttention(VitAttention):
    """Names: q, k, v, o; rows and columns, (2 side - 1, d) each: what a query takes for its distance from a key."""

    def __init__(self, spec: SamSpec, side: int) -> None:
        super().__init__(spec.hidden, spec.heads)
        width = spec.hidden // spec.heads
        self.rows, self.columns = (mx.zeros((2 * side - 1, width)) for _ in range(2))
        self._side = side
        at = np.arange(side)
        self._distances = (at[:, None] - at + side - 1).astype(np.int32)  # (queries, keys) along one side

    def _attended(self, q: mx.array, k: mx.array, v: mx.array) -> mx.array:
        """Squares (B, heads, side * side, d); a few rows at a time: scores of a whole picture would be a gigabyte."""
        side, (count, heads, length, _) = self._side, q.shape
        down, across = self._scores(q.reshape(count, heads, side, side, -1))
        most = _SCORE_BYTES_CPU if mx.default_device() == mx.cpu else _SCORE_BYTES
        step = max(1, most // (q.itemsize * count * heads * side * length))
        out = []
        for top in range(0, side, step):
            part = slice(top, top + step)
            mask = down[:, :, part, :, :, None] + across[:, :, part, :, None, :]  # (B, heads, rows, side, side, side)
            mask = mask.reshape(count, heads, -1, length)
            queries = q[:, :, top * side : (top + step) * side]
            out.append(mx.fast.scaled_dot_product_attention(queries, k, v, scale=self._scale, mask=mask))
        return out[0] if len(out) == 1 else mx.concatenate(out, axis=2)

    def _scores(self, q: mx.array) -> tuple[mx.array, mx.array]:
        """Queries (B, heads, y, x, d) -> their scores for rows of keys and for columns, (B, heads, y, x, side) each."""
        distances = mx.array(self._distances)
        by_row = self.rows[distances].swapaxes(1, 2)  # (y, d, side)
        by_column = self.columns[distances].swapaxes(1, 2)  # (x, d, side)
        return q @ by_row, (q.swapaxes(2, 3) @ by_column).swapaxes(2, 3)


class SamBlock(nn.Module):
    """Names: norm1, attn, norm2, mlp."""

    def __init__(self, spec: SamSpec, side: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(spec.hidden, eps=spec.norm_eps)
        self.attn = SamAttention(spec, side)
        self.norm2 = nn.LayerNorm(spec.hidden, eps=spec.norm_eps)
        self.mlp = Mlp(spec.hidden, spec.mlp)
        self._side = side

    def fuse(self) -> None:
        """Join what it can; done once, after the weights are loaded."""
        self.attn.fuse()
        self.mlp.fuse()

    def __call__(self, x: mx.array) -> mx.array:
        """x (B, h, w, D) -> the same"""
        squares = in_windows(self.norm1(x), self._side)
        x = x + from_windows(self.attn(squares), self._side, x.shape)
        return x + self.mlp(self.norm2(x))


def in_windows(x: mx.array, side: int) -> mx.array:
    """(B, h, w, D) -> (B * windows, side * side, D); zeros fill the last ones, and are attended to like the rest."""
    b, h, w, dims = x.shape
    down, right = -h % side, -w % side
    x = mx.pad(x, [(0, 0), (0, down), (0, right), (0, 0)]) if down or right else x
    split = x.reshape(b, (h + down) // side, side, (w + right) // side, side, dims)
    return split.swapaxes(2, 3).reshape(-1, side * side, dims)


def from_windows(x: mx.array, side: int, shape: tuple[int, ...]) -> mx.array:
    """The inverse of `in_windows`, for what was of this shape (B, h, w, D)."""
    b, h, w, dims = shape
    rows, columns = -(-h // side), -(-w // side)
    whole = x.reshape(b, rows, columns, side, side, dims).swapaxes(2, 3)
    return whole.reshape(b, rows * side, columns * side, dims)[:, :h, :w]


class SamNeck(nn.Module):
    """Names: conv1 (over single pixels, a matrix), norm1, conv2, norm2."""

    def __init__(self, spec: SamSpec) -> None:
        super().__init__()
        self.conv1 = nn.Linear(spec.hidden, spec.out, bias=False)
        self.norm1 = nn.LayerNorm(spec.out, eps=spec.neck_eps)
        self.conv2 = nn.Conv2d(spec.out, spec.out, 3, padding=1, bias=False)
        self.norm2 = nn.LayerNorm(spec.out, eps=spec.neck_eps)

    def __call__(self, x: mx.array) -> mx.array:
        """(B, h, w, D) -> (B, h, w, out)"""
        return self.norm2(self.conv2(self.norm1(self.conv1(x))))


class Sam(nn.Module):
    """Names: patch (over flattened patches, in the order row, column, channel), positions (side, side, hidden), blocks,
    neck.
    """

    def __init__(self, spec: SamSpec) -> None:
        super().__init__()
        self.patch = nn.Linear(spec.channels * spec.patch**2, spec.hidden)
        self.positions = mx.zeros((spec.side, spec.side, spec.hidden))
        self.blocks = [SamBlock(spec, spec.seen(number)) for number in range(spec.layers)]
        self.neck = SamNeck(spec)
        self._spec = spec

    def fuse(self) -> None:
        """Join what each block can; done once, after the weights are loaded."""
        for block in self.blocks:
            block.fuse()

    def encode(self, pixels: mx.array) -> mx.array:
        """Pictures (B, image, image, C) -> (B, side, side, out)"""
        x = self.patch(self._patches(pixels).astype(self.positions.dtype)) + self.positions
        for block in self.blocks:
            x = block(x)
        return self.neck(x)

    def _patches(self, pixels: mx.array) -> mx.array:
        """(B, image, image, C) -> (B, side, side, patch * patch * C)"""
        spec = self._spec
        batch, height, width, channels = pixels.shape
        if (height, width) != (spec.image, spec.image):
            raise CheckpointError(
                f"the vision tower expects pictures of {spec.image} x {spec.image} px, got {width} x {height}; "
                "preprocessor_config.json does not fit config.json"
            )
        split = pixels.reshape(batch, spec.side, spec.patch, spec.side, spec.patch, channels)
        return split.swapaxes(2, 3).reshape(batch, spec.side, spec.side, -1)
