"""Encoder-decoder models: a tower, a connector, an encoder over what they give and a prompt (or none), and a decoder
that looks all of it up. BART and mBART are settings of one spec. Nothing of a request is kept here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_map

from docai.nn.cross import BeamCache, CrossSpec, DecoderLayer, EncoderLayer, Memory
from docai.preprocess.inputs import ImageInput
from docai.vlm.connector import ConnectorSpec, ImageFeatures, build_connector
from docai.vlm.vision import TowerSpec, build_tower

_UNUSED = 2  # rows of BART's table of positions before the first one


@dataclass(frozen=True, slots=True)
class StackSpec:
    """Layers of an encoder or a decoder. `positions`: learned ones, so many; 0 for none."""

    layers: int
    layer: CrossSpec
    positions: int = 0

    @property
    def dims(self) -> int:
        return self.layer.dims


@dataclass(frozen=True, slots=True)
class EncDecSpec:
    """A model that reads a picture once and writes its answer from that.

    `encoder` None: the decoder looks at the connector's rows themselves, and a prompt begins the answer. `start`: the
    token before every answer; `first`: one that every answer begins with, whatever its score. `context`: the most
    tokens that the decoder, and the encoder, were made for. `exact`: the decoder is computed in float32, as its answers
    hang on scores that half precision cannot tell apart.
    """

    vocabulary: int
    vision: TowerSpec
    connector: ConnectorSpec
    decoder: StackSpec
    context: int
    encoder: StackSpec | None = None
    embed_scale: float = 1.0
    tied: bool = True
    start: int = 2
    first: int | None = None
    exact: bool = False
    notices: tuple[str, ...] = ()


class _Stack(nn.Module):
    """Names: embed_norm, positions where there are any, norm where layers norm before their branches."""

    def __init__(self, spec: StackSpec) -> None:
        super().__init__()
        self.embed_norm = nn.LayerNorm(spec.dims, eps=spec.layer.norm_eps)
        if spec.positions:
            self.positions = nn.Embedding(spec.positions + _UNUSED, spec.dims)
        if spec.layer.pre_norm:
            self.norm = nn.LayerNorm(spec.dims, eps=spec.layer.norm_eps)

    def fuse(self) -> None:
        """Join layers that share their input; done once, after the weights are loaded."""
        for layer in self.layers:
            layer.fuse()

    def placed(self, x: mx.array, offset: int = 0) -> mx.array:
        """Embeddings (B, L, D) from place `offset` on, as the first layer takes them."""
        if "positions" in self:
            x = x + self.positions(mx.arange(offset + _UNUSED, offset + _UNUSED + x.shape[1]))
        return self.embed_norm(x)

    def ended(self, x: mx.array) -> mx.array:
        """What the last layer gives, as it is used."""
        return self.norm(x) if "norm" in self else x


class TextEncoder(_Stack):
    """Names: layers, and those of a stack."""

    def __init__(self, spec: StackSpec) -> None:
        super().__init__(spec)
        self.layers = [EncoderLayer(spec.layer) for _ in range(spec.layers)]

    def __call__(self, x: mx.array) -> mx.array:
        """Embeddings (1, S, D) -> states (1, S, D)"""
        x = self.placed(x)
        for layer in self.layers:
            x = layer(x)
        return self.ended(x)


class CrossDecoder(_Stack):
    """Names: embed, layers, head where it is not tied to the embedding, and those of a stack."""

    def __init__(self, spec: EncDecSpec) -> None:
        super().__init__(spec.decoder)
        self.embed = nn.Embedding(spec.vocabulary, spec.decoder.dims)
        self.layers = [DecoderLayer(spec.decoder.layer) for _ in range(spec.decoder.layers)]
        if not spec.tied:
            self.head = nn.Linear(spec.decoder.dims, spec.vocabulary, bias=False)
        self._scale, self._exact = spec.embed_scale, spec.exact

    def fuse(self) -> None:
        """Join layers that share their input; in an exact decoder, let float32 weights make its numbers float32."""
        super().fuse()
        if self._exact:
            self.update(tree_map(_exact, self.parameters()))

    def embedded(self, tokens: mx.array) -> mx.array:
        """(B, L) -> (B, L, D)"""
        x = self.embed(tokens)
        return x if self._scale == 1.0 else x * mx.array(self._scale, x.dtype)

    def memories(self, states: mx.array) -> list[Memory]:
        """What each layer looks up of states (1, S, D)."""
        states = states.astype(self.embed_norm.weight.dtype)
        return [layer.cross.memory(states) for layer in self.layers]

    def __call__(self, tokens: mx.array, caches: Sequence[BeamCache], memories: Sequence[Memory]) -> mx.array:
        """The next tokens (B, L) of answers in step -> hidden states (B, L, D); the caches take them in."""
        x = self.placed(self.embedded(tokens), caches[0].offset)
        mask = caches[0].mask(x.shape[1], None)
        for layer, cache, memory in zip(self.layers, caches, memories, strict=True):
            x = layer(x, mask, cache, memory)
        return self.ended(x)

    def logits(self, hidden: mx.array) -> mx.array:
        """(..., D) -> (..., vocabulary)"""
        return self.head(hidden) if "head" in self else self.embed.as_linear(hidden)


def _exact(array: mx.array) -> mx.array:
    return array.astype(mx.float32) if mx.issubdtype(array.dtype, mx.floating) else array


class EncDecNetwork(nn.Module):
    """Names: vision, connector, encoder where there is one, decoder."""

    def __init__(self, spec: EncDecSpec) -> None:
        super().__init__()
        self.vision = build_tower(spec.vision)
        self.connector = build_connector(spec.connector)
        if spec.encoder is not None:
            self.encoder = TextEncoder(spec.encoder)
        self.decoder = CrossDecoder(spec)
        self._spec = spec

    @property
    def spec(self) -> EncDecSpec:
        return self._spec

    def fuse(self) -> None:
        """Join layers that share their input; done once, after the weights are loaded."""
        self.vision.fuse()
        if "encoder" in self:
            self.encoder.fuse()
        self.decoder.fuse()

    def encode(self, images: Sequence[ImageInput]) -> list[ImageFeatures]:
        """The features of each image."""
        seen = self.vision(images)
        return [self.connector(one, image) for one, image in zip(seen, images, strict=True)]

    def read(self, features: ImageFeatures, prompt: Sequence[int] = ()) -> list[Memory]:
        """An image and the prompt behind it, once for an answer: what each layer of the decoder looks up."""
        states = features.rows[None]
        if "encoder" in self:
            words = self.decoder.embedded(mx.array([list(prompt)], dtype=mx.int32))
            states = self.encoder(mx.concatenate([states.astype(words.dtype), words], axis=1) if prompt else states)
        return self.decoder.memories(states)

    def caches(self) -> list[BeamCache]:
        """Empty caches for answers in step, one a layer."""
        return [BeamCache() for _ in range(self._spec.decoder.layers)]

    def step(self, tokens: mx.array, caches: Sequence[BeamCache], memories: Sequence[Memory]) -> mx.array:
        """The next tokens (B, L) of answers in step: logits of those that follow (B, vocabulary)."""
        return self.decoder.logits(self.decoder(tokens, caches, memories)[:, -1])
