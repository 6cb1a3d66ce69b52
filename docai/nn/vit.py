"""A vision transformer over pictures of one size (Dosovitskiy et al. 2021, arXiv:2010.11929): CLIP, SigLIP."""

from __future__ import annotations

from dataclasses import dataclass

import mlx.core as mx
import mlx.nn as nn

from docai.errors import CheckpointError
from docai.nn.linear import joined
from docai.nn.mlp import Mlp, MlpSpec
from docai.nn.segments import attend_all


@dataclass(frozen=True, slots=True)
class VitSpec:
    """A tower. `image` (the side) and `patch` are in pixels; what is left over of a side is cut off.

    `features`: the layers whose outputs are given, side by side; 0 is what the first layer gets. Layers above them are
    not built, and `unused` says how many the checkpoint has of those. `class_row`: a learned row stands before the
    patches (CLIP); `keep_class_row`: it is given too. `pre_norm`: before the first layer; `post_norm`: of what is
    given.
    """

    hidden: int
    layers: int
    heads: int
    mlp: MlpSpec
    image: int
    patch: int
    features: tuple[int, ...]
    channels: int = 3
    norm_eps: float = 1e-6
    patch_bias: bool = True
    class_row: bool = False
    keep_class_row: bool = False
    pre_norm: bool = False
    post_norm: bool = False
    unused: int = 0

    @property
    def side(self) -> int:
        """Patches along a side."""
        return self.image // self.patch

    @property
    def rows(self) -> int:
        """Rows that are computed for a picture."""
        return self.side**2 + self.class_row


class VitAttention(nn.Module):
    """Names: q, k, v, o."""

    def __init__(self, dims: int, heads: int) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(dims, dims) for _ in range(4))
        self._heads, self._scale = heads, (dims // heads) ** -0.5

    def fuse(self) -> None:
        """Join q, k and v; done once, after the weights are loaded."""
        one = joined((self.q, self.k, self.v))
        if one is not None:
            self.qkv = one
            del self.q, self.k, self.v

    def __call__(self, x: mx.array) -> mx.array:
        """x (B, N, D) -> (B, N, D)"""
        parts = mx.split(self.qkv(x), 3, axis=-1) if "qkv" in self else [layer(x) for layer in (self.q, self.k, self.v)]
        shape = (*x.shape[:2], self._heads, -1)
        q, k, v = (a.reshape(shape).transpose(0, 2, 1, 3) for a in parts)  # (B, heads, N, d)
        return self.o(self._attended(q, k, v).transpose(0, 2, 1, 3).reshape(x.shape))

    def _attended(self, q: mx.array, k: mx.array, v: mx.array) -> mx.array:
        """All of it (B, heads, N, d)."""
        return attend_all(q, k, v, self._scale)


class VitBlock(nn.Module):
    """Names: norm1, attn, norm2, mlp."""

    def __init__(self, dims: int, heads: int, mlp: MlpSpec, norm_eps: float) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(dims, eps=norm_eps)
        self.attn = VitAttention(dims, heads)
        self.norm2 = nn.LayerNorm(dims, eps=norm_eps)
        self.mlp = Mlp(dims, mlp)

    def fuse(self) -> None:
        """Join what it can; done once, after the weights are loaded."""
        self.attn.fuse()
        self.mlp.fuse()

    def __call__(self, x: mx.array) -> mx.array:
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Vit(nn.Module):
    """Names: patch (over flattened patches, in the order row, column, channel), class_row, positions, pre_norm, blocks,
    post_norm; those that the spec asks for.
    """

    def __init__(self, spec: VitSpec) -> None:
        super().__init__()
        self.patch = nn.Linear(spec.channels * spec.patch**2, spec.hidden, bias=spec.patch_bias)
        if spec.class_row:
            self.class_row = mx.zeros((spec.hidden,))
        self.positions = nn.Embedding(spec.rows, spec.hidden)
        if spec.pre_norm:
            self.pre_norm = nn.LayerNorm(spec.hidden, eps=spec.norm_eps)
        self.blocks = [VitBlock(spec.hidden, spec.heads, spec.mlp, spec.norm_eps) for _ in range(spec.layers)]
        if spec.post_norm:
            self.post_norm = nn.LayerNorm(spec.hidden, eps=spec.norm_eps)
        self._spec = spec

    def fuse(self) -> None:
        """Join what each block can; done once, after the weights are loaded."""
        for block in self.blocks:
            block.fuse()

    def encode(self, pixels: mx.array) -> mx.array:
        """pixels (B, H, W, C) -> (B, N, D), or (B, N, D * features) where there are several."""
        spec = self._spec
        x = self._embedded(pixels)
        given = {0: x}
        for number, block in enumerate(self.blocks, start=1):
            x = block(x)
            if number in spec.features:
                given[number] = x
        out = mx.concatenate([given[number] for number in spec.features], axis=-1)
        out = self.post_norm(out) if spec.post_norm else out
        return out[:, 1:] if spec.class_row and not spec.keep_class_row else out

    def _embedded(self, pixels: mx.array) -> mx.array:
        """(B, H, W, C) -> (B, rows, D)"""
        spec = self._spec
        x = self.patch(self._patches(pixels).astype(self.blocks[0].norm1.weight.dtype))
        if spec.class_row:
            first = mx.broadcast_to(self.class_row, (len(x), 1, spec.hidden))
            x = mx.concatenate([first.astype(x.dtype), x], axis=1)
        x = x + self.positions(mx.arange(spec.rows))
        return self.pre_norm(x) if spec.pre_norm else x

    def _patches(self, pixels: mx.array) -> mx.array:
        """(B, H, W, C) -> (B, side * side, patch * patch * C)"""
        spec = self._spec
        batch, height, width, channels = pixels.shape
        if {height // spec.patch, width // spec.patch} != {spec.side}:
            raise CheckpointError(
                f"the vision tower expects pictures of {spec.image} x {spec.image} px, got {width} x {height}; "
                "preprocessor_config.json does not fit config.json"
            )
        end = spec.side * spec.patch
        grid = pixels[:, :end, :end].reshape(batch, spec.side, spec.patch, spec.side, spec.patch, channels)
        return grid.swapaxes(2, 3).reshape(batch, spec.side**2, -1)
