"""A feed-forward block and a mixture of experts beside each other, each between norms of its own (Gemma 4)."""

from __future__ import annotations

from dataclasses import dataclass

import mlx.core as mx
import mlx.nn as nn

from docai.nn.mlp import Mlp, MlpSpec
from docai.nn.moe import Experts, MoeSpec
from docai.nn.norm import rms


@dataclass(frozen=True, slots=True)
class TwofoldSpec:
    """Every token passes `dense`, and the `top_k` of the `experts` as well, whose weights add up to 1."""

    dense: MlpSpec
    experts: MoeSpec


class Router(nn.Module):
    """Names: scale (D,), proj, per_expert (experts,). It looks at rows that are normed by its own `scale`."""

    def __init__(self, dims: int, spec: MoeSpec, norm_eps: float) -> None:
        super().__init__()
        self.scale = mx.ones((dims,))
        self.proj = nn.Linear(dims, spec.experts, bias=False)
        self.per_expert = mx.ones((spec.experts,))
        self._top_k, self._eps = spec.top_k, norm_eps

    def __call__(self, rows: mx.array) -> tuple[mx.array, mx.array]:
        """rows (T, D) -> the experts (T, k) of each and their weights"""
        normed = rms(rows, self._eps) * self.scale * mx.array(rows.shape[-1] ** -0.5, rows.dtype)
        scores = mx.softmax(self.proj(normed).astype(mx.float32), axis=-1)
        chosen = mx.argpartition(-scores, kth=self._top_k - 1, axis=-1)[..., : self._top_k]
        weights = mx.take_along_axis(scores, chosen, axis=-1)
        weights = weights / weights.sum(axis=-1, keepdims=True)
        return chosen, (weights * self.per_expert[chosen]).astype(rows.dtype)


class Twofold(nn.Module):
    """Names: dense_norm, dense, dense_post_norm; router; norm, experts, post_norm."""

    def __init__(self, dims: int, spec: TwofoldSpec, norm_eps: float) -> None:
        super().__init__()
        self.dense_norm, self.dense_post_norm = nn.RMSNorm(dims, eps=norm_eps), nn.RMSNorm(dims, eps=norm_eps)
        self.dense = Mlp(dims, spec.dense)
        self.router = Router(dims, spec.experts, norm_eps)
        self.norm, self.post_norm = nn.RMSNorm(dims, eps=norm_eps), nn.RMSNorm(dims, eps=norm_eps)
        self.experts = Experts(dims, spec.experts)

    def fuse(self) -> None:
        """Join what the dense block can; done once, after the weights are loaded."""
        self.dense.fuse()

    def __call__(self, x: mx.array) -> mx.array:
        """x (..., D), not normed -> (..., D)"""
        rows = x.reshape(-1, x.shape[-1])  # (T, D)
        chosen, weights = self.router(rows)
        mixed = (self.experts(self.norm(rows), chosen) * weights[..., None]).sum(axis=-2)
        return self.dense_post_norm(self.dense(self.dense_norm(x))) + self.post_norm(mixed).reshape(x.shape)
