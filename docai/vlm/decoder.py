"""The causal decoder that a `DecoderSpec` describes. Nothing of a request is kept here."""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx
import mlx.nn as nn

from docai.nn.attention import Attention, AttentionSpec
from docai.nn.cache import Cache, ConvCache, FullCache, LatentCache, LayerCache, QuantizedCache, RotatingCache, Rounding
from docai.nn.golden import Golden, GoldenAttention, GoldenAttentionSpec
from docai.nn.mask import Mask
from docai.nn.mla import LatentAttention, LatentSpec
from docai.nn.mlp import Mlp, MlpSpec
from docai.nn.moe import Moe, MoeSpec
from docai.nn.norm import BareRms, norm
from docai.nn.rope import Rope, RopeSpec, Rotation
from docai.nn.short_conv import ShortConv, ShortConvSpec
from docai.vlm.spec import DecoderSpec, LayerSpec


class Layer(nn.Module):
    """Names: attn, mlp, attn_norm, mlp_norm; attn_post_norm, mlp_post_norm in a sandwich."""

    def __init__(self, spec: LayerSpec, whole: DecoderSpec) -> None:
        super().__init__()
        self.attn = _attention(spec.attention, whole)
        self.mlp = _mlp(spec.mlp, whole)
        self.attn_norm, self.mlp_norm = _norm(whole), _norm(whole)
        if spec.sandwich:
            self.attn_post_norm, self.mlp_post_norm = _norm(whole), _norm(whole)
        self._sandwich, self._scale = spec.sandwich, whole.residual_scale

    def __call__(self, x: mx.array, rotation: Rotation | None, mask: Mask, cache: LayerCache) -> mx.array:
        """x (B, L, D) -> (B, L, D)"""
        branch = self.attn(self.attn_norm(x), rotation, mask, cache)
        x = self._added(x, self.attn_post_norm(branch) if self._sandwich else branch)
        branch = self.mlp(self.mlp_norm(x))
        return self._added(x, self.mlp_post_norm(branch) if self._sandwich else branch)

    def _added(self, x: mx.array, branch: mx.array) -> mx.array:
        return x + (branch if self._scale == 1.0 else branch * self._scale)


class ParallelLayer(nn.Module):
    """Names: attn, mlp, attn_norm. Both branches start from the same rows (Wang & Komatsuzaki 2021, GPT-J)."""

    def __init__(self, spec: LayerSpec, whole: DecoderSpec) -> None:
        super().__init__()
        self.attn = _attention(spec.attention, whole)
        self.mlp = _mlp(spec.mlp, whole)
        self.attn_norm = _norm(whole)

    def __call__(self, x: mx.array, rotation: Rotation | None, mask: Mask, cache: LayerCache) -> mx.array:
        """x (B, L, D) -> (B, L, D)"""
        normed = self.attn_norm(x)
        return x + self.attn(normed, rotation, mask, cache) + self.mlp(normed)


def _layer(spec: LayerSpec, whole: DecoderSpec) -> Layer | ParallelLayer:
    return ParallelLayer(spec, whole) if spec.parallel else Layer(spec, whole)


def _mlp(spec: MlpSpec | MoeSpec, whole: DecoderSpec) -> Mlp | Moe:
    return Mlp(whole.dims, spec) if isinstance(spec, MlpSpec) else Moe(whole.dims, spec)


def _attention(spec: AttentionSpec, whole: DecoderSpec) -> Attention | LatentAttention | ShortConv:
    if isinstance(spec, LatentSpec):
        return LatentAttention(whole.dims, spec)
    if isinstance(spec, ShortConvSpec):
        return ShortConv(whole.dims, spec)
    if isinstance(spec, GoldenAttentionSpec):
        return GoldenAttention(whole.dims, spec)
    return Attention(whole.dims, spec, whole.norm_eps)


def _norm(whole: DecoderSpec) -> nn.Module:
    return _weighted(whole) if whole.bare_norm_eps is None else BareRms(whole.bare_norm_eps)


def _weighted(whole: DecoderSpec) -> nn.Module:
    return norm(whole.norm, whole.dims, whole.norm_eps, bias=False)


class Decoder(nn.Module):
    """Names: embed, layers, norm; head where it is not tied to the embedding; golden where places turn the heads."""

    def __init__(self, spec: DecoderSpec) -> None:
        super().__init__()
        self.embed = nn.Embedding(spec.vocabulary, spec.dims)
        self.layers = [_layer(layer, spec) for layer in spec.layers]
        self.norm = _weighted(spec)
        if not spec.tied:
            self.head = nn.Linear(spec.dims, spec.vocabulary, bias=False)
        if spec.golden is not None:
            self.golden = Golden(spec.golden)
        self._spec = spec
        self._ropes = {rope: Rope(rope) for rope in _ropes(spec)}

    def fuse(self) -> None:
        """Join layers that share their input; done once, after the weights are loaded."""
        for layer in self.layers:
            layer.attn.fuse()
            layer.mlp.fuse()

    def caches(
        self, *, bits: int | None = None, rounding: Rounding | None = None, dense_last: bool = False
    ) -> list[Cache]:
        """Empty caches for one request, one a layer.

        `rounding`, or `bits` for short, is for layers that see everything, `dense_last` leaves the last of those out.
        """
        rounding = Rounding(bits, bits) if bits else rounding
        layers = [layer.attention for layer in self._spec.layers]
        whole = [number for number, layer in enumerate(layers) if layer.window is None]
        dense = whole[-1:] if dense_last else []
        return [_cache(layer, None if number in dense else rounding) for number, layer in enumerate(layers)]

    def embedded(self, tokens: mx.array) -> mx.array:
        """(B, L) -> (B, L, D)"""
        x = self.embed(tokens)
        scale = self._spec.embed_scale
        return x if scale == 1.0 else x * mx.array(scale, x.dtype)

    def __call__(
        self,
        x: mx.array,
        caches: Sequence[LayerCache],
        *,
        positions: mx.array | None = None,
        shift: int | mx.array = 0,
        blocks: mx.array | None = None,
        deepstack: Sequence[mx.array] = (),
        end: int = 0,
    ) -> mx.array:
        """Embeddings (B, L, D) of the next tokens -> their hidden states (B, L, D), normed; the caches take them in.

        Positions count on from the cache's offset plus `shift`, unless `positions` (B, L) or (axes, B, L) gives them.
        `blocks` (B, L): tokens of one block see each other. `deepstack`: what is added behind the first layers.
        `end`: the length of the whole prompt, where these tokens are a part of it. In a batch whose sequences differ in
        length, `shift` is (B,) or the same for all.
        """
        offset = caches[0].offset
        length = max(end, offset + x.shape[1]) if isinstance(offset, int) else offset + x.shape[1]
        rotations = {spec: _rotation(rope, positions, offset + shift, length) for spec, rope in self._ropes.items()}
        if "golden" in self and positions is not None:
            rotations = {spec: self.golden.after(turn, positions[1:]) for spec, turn in rotations.items()}
        masks: dict[tuple[type[LayerCache], int | None], Mask] = {}
        for number, (layer, cache, spec) in enumerate(zip(self.layers, caches, self._spec.layers, strict=True)):
            window, rope = spec.attention.window, spec.attention.rope
            key = (type(cache), window)
            if key not in masks:
                masks[key] = cache.mask(x.shape[1], window, blocks)
            x = layer(x, None if rope is None else rotations[rope], masks[key], cache)
            if number < len(deepstack):
                x = x + deepstack[number]
        return self.norm(x)

    def logits(self, hidden: mx.array) -> mx.array:
        """(..., D) -> (..., vocabulary)"""
        spec = self._spec
        out = self.embed.as_linear(hidden) if spec.tied else self.head(hidden)
        if spec.logit_scale != 1.0:
            out = out * spec.logit_scale
        return out if spec.logit_cap is None else mx.tanh(out / spec.logit_cap) * spec.logit_cap


def _ropes(spec: DecoderSpec) -> list[RopeSpec]:
    return list(dict.fromkeys(layer.attention.rope for layer in spec.layers if layer.attention.rope is not None))


def _cache(spec: AttentionSpec, rounding: Rounding | None) -> Cache:
    if spec.window is not None:
        return ConvCache(spec.window) if isinstance(spec, ShortConvSpec) else RotatingCache(spec.window)
    if isinstance(spec, LatentSpec):
        return LatentCache()
    return FullCache() if rounding is None else QuantizedCache(rounding)


def _rotation(rope: Rope, positions: mx.array | None, offset: int | mx.array, end: int | mx.array) -> Rotation:
    if positions is None:
        return rope.counting(offset, end)
    return rope.at(positions if rope.spec.sections or positions.ndim == 2 else positions[0])
