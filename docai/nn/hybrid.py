"""The hybrid encoder of RT-DETR (Zhao et al. 2024, arXiv:2304.08069): attention on the coarsest maps, then one path
down and one up through all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx
import mlx.nn as nn

from docai.nn.conv import Conv, ConvSpec, doubled
from docai.nn.mlp import Mlp, MlpSpec
from docai.nn.placed_attention import PlacedAttention, sines


@dataclass(frozen=True, slots=True)
class HybridSpec:
    """`levels` maps of `dims` channels, finest first, each half the size of the one before.

    `attended`: the levels that `layers` of attention look at. `hidden`: channels within the blocks that fuse two maps.
    `placed`: whether attention knows positions.
    """

    dims: int
    levels: int
    heads: int
    mlp: MlpSpec
    layers: int = 1
    attended: tuple[int, ...] = (2,)
    hidden: int = 256
    activation: str | None = "silu"
    repeats: int = 3
    norm_eps: float = 1e-5
    temperature: float = 10_000.0
    placed: bool = True


class HybridLayer(nn.Module):
    """Attention and a feed-forward block, each followed by a norm. Names: attn, attn_norm, mlp, mlp_norm."""

    def __init__(self, spec: HybridSpec) -> None:
        super().__init__()
        self.attn = PlacedAttention(spec.dims, spec.heads)
        self.attn_norm = nn.LayerNorm(spec.dims, spec.norm_eps)
        self.mlp = Mlp(spec.dims, spec.mlp)
        self.mlp_norm = nn.LayerNorm(spec.dims, spec.norm_eps)

    def __call__(self, x: mx.array, positions: mx.array | None) -> mx.array:
        x = self.attn_norm(x + self.attn(x, positions))
        return self.mlp_norm(x + self.mlp(x))


class MapAttention(nn.Module):
    """Attention among the pixels of one map. Names: layers."""

    def __init__(self, spec: HybridSpec) -> None:
        super().__init__()
        self.layers = [HybridLayer(spec) for _ in range(spec.layers)]
        self._spec = spec

    def __call__(self, x: mx.array) -> mx.array:
        """(B, H, W, D) -> the same shape"""
        b, h, w, d = x.shape
        spec = self._spec
        positions = sines(h, w, d, spec.temperature).astype(x.dtype) if spec.placed else None
        rows = x.reshape(b, h * w, d)
        for layer in self.layers:
            rows = layer(rows, positions)
        return rows.reshape(x.shape)


class Fusion(nn.Module):
    """Two maps side by side into one. Names: deep, reps, straight; out where it widens.

    The convolutions in `reps` are RepVGG's (Ding et al. 2021, arXiv:2101.03697), whose branches are added up when
    weights are loaded.
    """

    def __init__(self, spec: HybridSpec) -> None:
        super().__init__()
        dims, hidden, act = spec.dims, spec.hidden, spec.activation
        self.deep = Conv(ConvSpec(2 * dims, hidden, activation=act))
        self.reps = [Conv(ConvSpec(hidden, hidden, 3, activation=act)) for _ in range(spec.repeats)]
        self.straight = Conv(ConvSpec(2 * dims, hidden, activation=act))
        if hidden != dims:
            self.out = Conv(ConvSpec(hidden, dims, activation=act))

    def __call__(self, one: mx.array, other: mx.array) -> mx.array:
        x = mx.concatenate([one, other], -1)
        y = self.deep(x)
        for conv in self.reps:
            y = conv(y)
        y = y + self.straight(x)
        return self.out(y) if "out" in self else y


class HybridEncoder(nn.Module):
    """Names: attention, lateral, down (from coarse to fine), shrink, up (from fine to coarse)."""

    def __init__(self, spec: HybridSpec) -> None:
        super().__init__()
        steps, dims, act = range(spec.levels - 1), spec.dims, spec.activation
        self.attention = [MapAttention(spec) for _ in spec.attended] if spec.layers else []
        self.lateral = [Conv(ConvSpec(dims, dims, activation=act)) for _ in steps]
        self.down = [Fusion(spec) for _ in steps]
        self.shrink = [Conv(ConvSpec(dims, dims, 3, 2, act)) for _ in steps]
        self.up = [Fusion(spec) for _ in steps]
        self._spec = spec

    def __call__(self, maps: Sequence[mx.array]) -> list[mx.array]:
        """Maps (B, H, W, D), finest first -> as many of the same shapes"""
        maps = list(maps)
        for level, attention in zip(self._spec.attended, self.attention, strict=False):
            maps[level] = attention(maps[level])
        coarse = [maps.pop()]  # from coarse to fine
        for lateral, fuse in zip(self.lateral, self.down, strict=True):
            coarse[-1] = lateral(coarse[-1])
            coarse.append(fuse(doubled(coarse[-1]), maps.pop()))
        out = [coarse.pop()]
        for shrink, fuse in zip(self.shrink, self.up, strict=True):
            out.append(fuse(shrink(out[-1]), coarse.pop()))
        return out
