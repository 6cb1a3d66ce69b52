"""DaViT (Ding et al. 2022, arXiv:2204.03645): attention within windows of pixels and among channels, by turns."""

from __future__ import annotations

from dataclasses import dataclass

import mlx.core as mx
import mlx.nn as nn

from docai.nn.conv import Conv, ConvSpec
from docai.nn.mlp import Mlp, MlpSpec
from docai.nn.vit import VitAttention


@dataclass(frozen=True, slots=True)
class StageSpec:
    """A stage: a strided convolution (`kernel`, `stride` and `pad` in pixels), then `depth` pairs of blocks.

    `norm_first`: the norm stands before the convolution. `groups`: those of channels.
    """

    width: int
    depth: int
    heads: int
    groups: int
    kernel: int
    stride: int
    pad: int
    norm_first: bool


@dataclass(frozen=True, slots=True)
class DavitSpec:
    """A tower. `window`: the side of attention windows in pixels of a stage. `mlp_ratio`: width of the hidden layers
    over that of their stage.
    """

    stages: tuple[StageSpec, ...]
    window: int
    mlp_ratio: float = 4.0
    activation: str = "gelu"
    channels: int = 3
    norm_eps: float = 1e-5

    @property
    def width(self) -> int:
        """Numbers of a row that the tower gives."""
        return self.stages[-1].width


class WindowAttention(VitAttention):
    """Attention within windows of `window` x `window` pixels; the last ones are filled up with zeros."""

    def __init__(self, dims: int, heads: int, window: int) -> None:
        super().__init__(dims, heads)
        self._window = window

    def __call__(self, x: mx.array) -> mx.array:
        """x (B, H, W, D) -> (B, H, W, D)"""
        side = self._window
        batch, height, width, dims = x.shape
        down, across = -(-height // side), -(-width // side)
        filled = mx.pad(x, [(0, 0), (0, down * side - height), (0, across * side - width), (0, 0)])
        windows = filled.reshape(batch, down, side, across, side, dims).swapaxes(2, 3)
        out = super().__call__(windows.reshape(-1, side * side, dims))
        back = out.reshape(batch, down, across, side, side, dims).swapaxes(2, 3)
        return back.reshape(batch, down * side, across * side, dims)[:, :height, :width]


class ChannelAttention(VitAttention):
    """Attention among the channels of each group: a channel is a token, its pixels are what it is compared by."""

    def __call__(self, x: mx.array) -> mx.array:
        """x (B, H, W, D) -> (B, H, W, D)"""
        batch, height, width, dims = x.shape
        rows = x.reshape(batch, height * width, dims)
        parts = mx.split(self.qkv(rows), 3, axis=-1) if "qkv" in self else [p(rows) for p in (self.q, self.k, self.v)]
        q, k, v = (a.reshape(batch, height * width, self._heads, -1).transpose(0, 2, 3, 1) for a in parts)
        # (B, groups, c, N); in float32, as the sums run over all pixels
        scores = (q.astype(mx.float32) * (height * width) ** -0.5) @ k.astype(mx.float32).swapaxes(2, 3)
        out = mx.softmax(scores, axis=-1).astype(x.dtype) @ v
        return self.o(out.transpose(0, 3, 1, 2).reshape(x.shape))


class DavitBlock(nn.Module):
    """Names: conv1, norm1, attn, conv2, norm2, mlp."""

    def __init__(self, spec: DavitSpec, stage: StageSpec, attention: VitAttention) -> None:
        super().__init__()
        dims = stage.width
        conv = ConvSpec(dims, dims, kernel=3, depthwise=True)
        self.conv1, self.conv2 = Conv(conv), Conv(conv)
        self.norm1, self.norm2 = (nn.LayerNorm(dims, eps=spec.norm_eps) for _ in range(2))
        self.attn = attention
        self.mlp = Mlp(dims, MlpSpec(int(dims * spec.mlp_ratio), spec.activation, gated=False, bias=True))

    def __call__(self, x: mx.array) -> mx.array:
        """x (B, H, W, D) -> (B, H, W, D)"""
        x = x + self.conv1(x)
        x = x + self.attn(self.norm1(x))
        x = x + self.conv2(x)
        return x + self.mlp(self.norm2(x))


class DavitPair(nn.Module):
    """Names: spatial, channel."""

    def __init__(self, spec: DavitSpec, stage: StageSpec) -> None:
        super().__init__()
        self.spatial = DavitBlock(spec, stage, WindowAttention(stage.width, stage.heads, spec.window))
        self.channel = DavitBlock(spec, stage, ChannelAttention(stage.width, stage.groups))

    def __call__(self, x: mx.array) -> mx.array:
        return self.channel(self.spatial(x))


class DavitStage(nn.Module):
    """Names: conv, norm, pairs."""

    def __init__(self, spec: DavitSpec, stage: StageSpec, inputs: int) -> None:
        super().__init__()
        self.conv = Conv(ConvSpec(inputs, stage.width, stage.kernel, stage.stride, pad=stage.pad))
        self.norm = nn.LayerNorm(inputs if stage.norm_first else stage.width, eps=spec.norm_eps)
        self.pairs = [DavitPair(spec, stage) for _ in range(stage.depth)]
        self._norm_first = stage.norm_first

    def __call__(self, x: mx.array) -> mx.array:
        """x (B, H, W, inputs) -> (B, h, w, width)"""
        x = self.conv(self.norm(x)) if self._norm_first else self.norm(self.conv(x))
        for pair in self.pairs:
            x = pair(x)
        return x


class Davit(nn.Module):
    """Names: stages."""

    def __init__(self, spec: DavitSpec) -> None:
        super().__init__()
        inputs = (spec.channels, *(stage.width for stage in spec.stages))
        self.stages = [DavitStage(spec, stage, width) for stage, width in zip(spec.stages, inputs, strict=False)]

    def fuse(self) -> None:
        """Join q, k and v of each block; done once, after the weights are loaded."""
        for stage in self.stages:
            for pair in stage.pairs:
                pair.spatial.attn.fuse()
                pair.channel.attn.fuse()

    def encode(self, pixels: mx.array) -> mx.array:
        """pixels (B, H, W, C) -> (B, h, w, D)"""
        x = pixels.astype(self.stages[0].norm.weight.dtype)
        for stage in self.stages:
            x = stage(x)
        return x
