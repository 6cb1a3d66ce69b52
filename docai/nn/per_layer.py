"""Embeddings of tokens for each layer by itself, which come in behind its branches (Gemma 3n, Gemma 4).

A second table has `width` numbers of each token for every layer. They are joined with as many that a matrix makes of
what goes into the first layer, and each layer takes in its own, gated by its rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import mlx.core as mx
import mlx.nn as nn

from docai.nn.activation import gated

_HALF = 2**-0.5  # two parts of equal size are added up


@dataclass(frozen=True, slots=True)
class PerLayerSpec:
    """`width` numbers for each layer and each of `vocabulary` tokens; `blank` is the token at the places of images."""

    width: int
    vocabulary: int
    blank: int = 0


class PerLayer(nn.Module):
    """What all layers take in. Names: embed (one table for all layers, side by side), project, norm."""

    def __init__(self, dims: int, layers: int, spec: PerLayerSpec, norm_eps: float) -> None:
        super().__init__()
        self.embed = nn.Embedding(spec.vocabulary, layers * spec.width)
        self.project = nn.Linear(dims, layers * spec.width, bias=False)
        self.norm = nn.RMSNorm(spec.width, eps=norm_eps)
        self._shape = (layers, spec.width)
        self._scales = spec.width**0.5, dims**-0.5

    def __call__(self, tokens: mx.array, x: mx.array) -> mx.array:
        """Tokens (B, L) and their rows (B, L, D) before the first layer -> (B, L, layers, width)"""
        shape = (*tokens.shape, *self._shape)
        embed_scale, scale = (mx.array(s, x.dtype) for s in self._scales)
        own = (self.embed(tokens) * embed_scale).reshape(shape)
        return (self.norm((self.project(x) * scale).reshape(shape)) + own) * mx.array(_HALF, x.dtype)


class Inlet(nn.Module):
    """How a layer takes them in. Names: gate, up, norm."""

    def __init__(self, dims: int, width: int, activation: str, norm_eps: float) -> None:
        super().__init__()
        self.gate = nn.Linear(dims, width, bias=False)
        self.up = nn.Linear(width, dims, bias=False)
        self.norm = nn.RMSNorm(dims, eps=norm_eps)
        self._gated = gated(activation)

    def __call__(self, x: mx.array, own: mx.array) -> mx.array:
        """x (B, L, D), own (B, L, width) -> (B, L, D)"""
        return x + self.norm(self.up(self._gated(self.gate(x), own)))
