"""The causal decoder that a `DecoderSpec` describes. Nothing of a request is kept here."""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx
import mlx.nn as nn

from docai.nn.attention import Attention, AttentionSpec, Borrowing
from docai.nn.cache import (
    Cache,
    FullCache,
    LayerCache,
    Lent,
    QuantizedCache,
    RotatingCache,
    StateCache,
)
from docai.nn.delta import DeltaNet, DeltaSpec
from docai.nn.gated_attention import GatedAttention, GatedAttentionSpec
from docai.nn.golden import Golden, GoldenAttention, GoldenAttentionSpec
from docai.nn.latent_cache import LatentCache, RoundedLatentCache
from docai.nn.mask import Blocks, Mask
from docai.nn.mla import LatentAttention, LatentSpec
from docai.nn.mlp import Mlp, MlpSpec
from docai.nn.moe import Moe, MoeSpec
from docai.nn.norm import BareRms, norm
from docai.nn.per_layer import Inlet, PerLayer
from docai.nn.rope import Rope, RopeSpec, Rotation
from docai.nn.rounding import Rounding
from docai.nn.short_conv import ShortConv, ShortConvSpec
from docai.nn.twofold import Twofold, TwofoldSpec
from docai.vlm.spec import DecoderSpec, LayerSpec


class Layer(nn.Module):
    """Names: attn, mlp, attn_norm, mlp_norm (where mlp has none of its own); attn_post_norm, mlp_post_norm in a
    sandwich; inlet for embeddings of its own, scale."""

    def __init__(self, spec: LayerSpec, whole: DecoderSpec) -> None:
        super().__init__()
        self.attn = _attention(spec, whole)
        self.mlp = _mlp(spec.mlp, whole)
        self.attn_norm = _norm(whole)
        if not isinstance(spec.mlp, TwofoldSpec):
            self.mlp_norm = _norm(whole)
        if spec.sandwich:
            self.attn_post_norm, self.mlp_post_norm = _norm(whole), _norm(whole)
        if whole.per_layer is not None:
            self.inlet = Inlet(whole.dims, whole.per_layer.width, _activation(spec.mlp), whole.norm_eps)
        if spec.scaled:
            self.scale = mx.ones((1,))
        self._sandwich, self._residual = spec.sandwich, whole.residual_scale

    def __call__(
        self, x: mx.array, rotation: Rotation | None, mask: Mask, cache: LayerCache, own: mx.array | None = None
    ) -> mx.array:
        """x (B, L, D), `own` (B, L, width) what it takes in beside -> (B, L, D)"""
        branch = self.attn(self.attn_norm(x), rotation, mask, cache)
        x = self._added(x, self.attn_post_norm(branch) if self._sandwich else branch)
        branch = self.mlp(self.mlp_norm(x) if "mlp_norm" in self else x)
        x = self._added(x, self.mlp_post_norm(branch) if self._sandwich else branch)
        x = x if own is None else self.inlet(x, own)
        return x * self.scale if "scale" in self else x

    def _added(self, x: mx.array, branch: mx.array) -> mx.array:
        return x + (branch if self._residual == 1.0 else branch * self._residual)


class ParallelLayer(nn.Module):
    """Names: attn, mlp, attn_norm. Both branches start from the same rows (Wang & Komatsuzaki 2021, GPT-J)."""

    def __init__(self, spec: LayerSpec, whole: DecoderSpec) -> None:
        super().__init__()
        self.attn = _attention(spec, whole)
        self.mlp = _mlp(spec.mlp, whole)
        self.attn_norm = _norm(whole)

    def __call__(self, x: mx.array, rotation: Rotation | None, mask: Mask, cache: LayerCache) -> mx.array:
        """x (B, L, D) -> (B, L, D)"""
        normed = self.attn_norm(x)
        return x + self.attn(normed, rotation, mask, cache) + self.mlp(normed)


def _layer(spec: LayerSpec, whole: DecoderSpec) -> Layer | ParallelLayer:
    return ParallelLayer(spec, whole) if spec.parallel else Layer(spec, whole)


def _mlp(spec: MlpSpec | MoeSpec | TwofoldSpec, whole: DecoderSpec) -> Mlp | Moe | Twofold:
    if isinstance(spec, TwofoldSpec):
        return Twofold(whole.dims, spec, whole.norm_eps)
    return Mlp(whole.dims, spec) if isinstance(spec, MlpSpec) else Moe(whole.dims, spec)


def _activation(spec: MlpSpec | MoeSpec | TwofoldSpec) -> str:
    return spec.dense.activation if isinstance(spec, TwofoldSpec) else spec.activation


def _attention(layer: LayerSpec, whole: DecoderSpec) -> Attention | Borrowing | LatentAttention | DeltaNet | ShortConv:
    spec = layer.attention
    if layer.lender is not None:
        return Borrowing(whole.dims, spec, whole.norm_eps)
    if isinstance(spec, LatentSpec):
        return LatentAttention(whole.dims, spec)
    if isinstance(spec, ShortConvSpec):
        return ShortConv(whole.dims, spec)
    if isinstance(spec, DeltaSpec):
        return DeltaNet(whole.dims, spec, whole.norm_eps)
    if isinstance(spec, GatedAttentionSpec):
        return GatedAttention(whole.dims, spec, whole.norm_eps)
    if isinstance(spec, GoldenAttentionSpec):
        return GoldenAttention(whole.dims, spec)
    return Attention(whole.dims, spec, whole.norm_eps)


def _norm(whole: DecoderSpec) -> nn.Module:
    return _weighted(whole) if whole.bare_norm_eps is None else BareRms(whole.bare_norm_eps)


def _weighted(whole: DecoderSpec) -> nn.Module:
    return norm(whole.norm, whole.dims, whole.norm_eps, bias=False)


class Decoder(nn.Module):
    """Names: embed, layers, norm; head where it is not tied to the embedding; golden where places turn the heads;
    per_layer where layers take in embeddings of their own."""

    def __init__(self, spec: DecoderSpec) -> None:
        super().__init__()
        self.embed = nn.Embedding(spec.vocabulary, spec.dims)
        self.layers = [_layer(layer, spec) for layer in spec.layers]
        self.norm = _weighted(spec)
        if not spec.tied:
            self.head = nn.Linear(spec.dims, spec.vocabulary, bias=False)
        if spec.golden is not None:
            self.golden = Golden(spec.golden)
        if spec.per_layer is not None:
            self.per_layer = PerLayer(spec.dims, len(spec.layers), spec.per_layer, spec.norm_eps)
        self._spec = spec
        self._lenders = {layer.lender for layer in spec.layers}
        self._borrowing = len(spec.keeping)  # the first layer of those that only see others' keys, if there are any
        self._ropes = {rope: Rope(rope) for rope in _ropes(spec)}

    def fuse(self) -> None:
        """Join layers that share their input; done once, after the weights are loaded."""
        for layer in self.layers:
            layer.attn.fuse()
            layer.mlp.fuse()

    def caches(self, *, rounding: Rounding | None = None, dense_last: bool = False) -> list[Cache]:
        """Empty caches for one request, one for each layer that has keys and values of its own.

        `rounding` is for layers that see everything, `dense_last` leaves the last of those out.
        """
        layers = self._spec.keeping
        whole = [number for number, layer in enumerate(layers) if not (layer.window or layer.state_size)]
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
        tokens: mx.array | None = None,
        last: bool = False,
    ) -> mx.array:
        """Embeddings (B, L, D) of the next tokens -> their hidden states (B, L, D), normed; the caches take them in.

        Positions count on from the cache's offset plus `shift`, unless `positions` (B, L) or (axes, B, L) gives them.
        `blocks` (B, L): tokens of one block see each other. `deepstack`: what is added behind the first layers.
        `end`: the length of the whole prompt, where these tokens are a part of it. `tokens` (B, L): their ids, for
        layers that take in embeddings of their own. `last`: nothing but the last state is asked for; it is all that
        there is, (B, 1, D), where the last layers keep nothing. In a batch whose sequences differ in length, `shift` is
        (B,) or the same for all.
        """
        offset = caches[0].offset
        length = max(end, offset + x.shape[1]) if isinstance(offset, int) else offset + x.shape[1]
        rotations = self._rotations(positions, offset + shift, length)
        own = None if self._spec.per_layer is None or tokens is None else self.per_layer(tokens, x)
        masks: dict[tuple[object, ...], Mask] = {}
        unused, lent = iter(caches), dict[int, Lent]()
        for number, (layer, spec) in enumerate(zip(self.layers, self._spec.layers, strict=True)):
            if last and number == self._borrowing:
                behind = offset + shift + x.shape[1] - 1
                rotations = self._rotations(None if positions is None else positions[..., -1:], behind, length)
                masks = {key: mask[..., -1:, :] if isinstance(mask, mx.array) else None for key, mask in masks.items()}
                x, own = x[:, -1:], None if own is None else own[:, -1:]
            cache = next(unused) if spec.lender is None else lent[spec.lender]
            if number in self._lenders:
                cache = lent[number] = Lent(cache)
            window, rope, ahead = spec.attention.window, spec.attention.rope, spec.attention.ahead
            key = (type(cache), window, ahead)
            if key not in masks:
                seen = None if blocks is None or ahead == "never" else Blocks(blocks, ahead == "in window")
                masks[key] = cache.mask(x.shape[1], window, seen)
            more = () if own is None else (own[:, :, number],)
            x = layer(x, None if rope is None else rotations[rope], masks[key], cache, *more)
            if number < len(deepstack):
                x = x + deepstack[number]
        return self.norm(x)

    def _rotations(
        self, positions: mx.array | None, offset: int | mx.array, end: int | mx.array
    ) -> dict[RopeSpec, Rotation]:
        rotations = {spec: _rotation(rope, positions, offset, end) for spec, rope in self._ropes.items()}
        if "golden" in self and positions is not None:
            rotations = {spec: self.golden.after(turn, positions[1:]) for spec, turn in rotations.items()}
        return rotations

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
        return RotatingCache(spec.window)
    if isinstance(spec, LatentSpec):
        return LatentCache() if rounding is None else RoundedLatentCache(rounding)
    if spec.state_size:
        return StateCache()
    return FullCache() if rounding is None else QuantizedCache(rounding)


def _rotation(rope: Rope, positions: mx.array | None, offset: int | mx.array, end: int | mx.array) -> Rotation:
    if positions is None:
        return rope.counting(offset, end)
    return rope.at(positions if rope.spec.sections or positions.ndim == 2 else positions[0])
