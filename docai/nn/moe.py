"""Mixture of experts: a router picks some of many gated feed-forward blocks for each token."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import mlx.core as mx
import mlx.nn as nn

from docai.nn.activation import gated
from docai.nn.mlp import Mlp, MlpSpec
from docai.nn.packed import Packed

_LEAST = 1e-20  # added to a sum of weights that may all be nothing (DeepSeek's)
_SORTED = 64  # chosen experts from which on tokens are sorted by expert, so that each expert's weights are read once


@dataclass(frozen=True, slots=True)
class MoeSpec:
    """`top_k` of `experts` gated blocks, weighted by softmax over all of them.

    `normalized`: the weights of the chosen ones add up to 1, before they are multiplied by `scale`. `shared`: a block
    that every token passes, `shared_gate`: weighted by the sigmoid of a linear layer (Qwen2-MoE).

    `scoring` "sigmoid" scores each expert by itself; a learned bias is added for the choice, and only for that. The
    experts lie in `groups`; those of the `top_groups` whose best two scores add up to most may be chosen (DeepSeek-V3,
    arXiv:2412.19437).

    Raises ValueError for numbers that make no mixture.
    """

    experts: int
    top_k: int
    width: int
    activation: str = "silu"
    normalized: bool = True
    shared: MlpSpec | None = None
    shared_gate: bool = False
    scoring: Literal["softmax", "sigmoid"] = "softmax"
    groups: int = 1
    top_groups: int = 1
    scale: float = 1.0

    def __post_init__(self) -> None:
        numbers = self.experts, self.top_k, self.groups, self.top_groups
        if any(type(number) is not int for number in numbers):
            raise ValueError(f"experts and their groups come in whole numbers; got {numbers}")
        if not 0 < self.top_groups <= self.groups or self.experts % self.groups:
            raise ValueError(f"{self.top_groups} of {self.groups} groups do not divide {self.experts} experts")
        each = self.experts // self.groups
        if self.top_groups < self.groups and each < 2:
            raise ValueError(f"groups are ranked by their best two experts; got groups of {each}")
        if not 0 < self.top_k <= each * self.top_groups:
            raise ValueError(f"a token cannot have {self.top_k} of {each * self.top_groups} experts")


class ExpertLinear(nn.Module):
    """One linear layer of every expert, stacked: weight (experts, out, in)."""

    def __init__(self, experts: int, dims_in: int, dims_out: int) -> None:
        super().__init__()
        bound = math.sqrt(1 / dims_in)
        self.weight = mx.random.uniform(-bound, bound, (experts, dims_out, dims_in))

    def __call__(self, x: mx.array, indices: mx.array, *, ordered: bool) -> mx.array:
        return mx.gather_mm(x, self.weight.swapaxes(-1, -2), rhs_indices=indices, sorted_indices=ordered)

    def to_quantized(
        self, group_size: int | None = None, bits: int | None = None, mode: str = "affine", **_: object
    ) -> QuantizedExpertLinear:
        """The same layer with its weights rounded; called by mlx.nn.quantize."""
        return QuantizedExpertLinear(self.weight, group_size, bits, mode)


class QuantizedExpertLinear(Packed):
    """`ExpertLinear` with packed weights."""

    def __call__(self, x: mx.array, indices: mx.array, *, ordered: bool) -> mx.array:
        return mx.gather_qmm(
            x, self.weight, self.scales, self.get("biases"), rhs_indices=indices, transpose=True,
            group_size=self.group_size, bits=self.bits, mode=self.mode, sorted_indices=ordered,
        )  # fmt: skip


class Experts(nn.Module):
    """Names: gate, up, down, each (experts, out, in)."""

    def __init__(self, dims: int, spec: MoeSpec) -> None:
        super().__init__()
        self.gate = ExpertLinear(spec.experts, dims, spec.width)
        self.up = ExpertLinear(spec.experts, dims, spec.width)
        self.down = ExpertLinear(spec.experts, spec.width, dims)
        self._gated = gated(spec.activation)

    def __call__(self, x: mx.array, chosen: mx.array) -> mx.array:
        """x (T, D), chosen (T, k) -> (T, k, D)"""
        top_k = chosen.shape[-1]
        if chosen.size < _SORTED:
            return self._blocks(x[:, None, None], chosen, ordered=False).squeeze(-2)
        flat = chosen.flatten()
        order = mx.argsort(flat)
        sorted_rows = self._blocks(x[order // top_k][:, None], flat[order], ordered=True)  # (T * k, 1, D)
        return sorted_rows[mx.argsort(order)].reshape(*chosen.shape, -1)

    def _blocks(self, x: mx.array, chosen: mx.array, *, ordered: bool) -> mx.array:
        gate, up = self.gate(x, chosen, ordered=ordered), self.up(x, chosen, ordered=ordered)
        return self.down(self._gated(gate, up), chosen, ordered=ordered)


class Moe(nn.Module):
    """Names: router, experts, shared, shared_gate, and router_bias where scores are sigmoids."""

    def __init__(self, dims: int, spec: MoeSpec) -> None:
        super().__init__()
        self.router = nn.Linear(dims, spec.experts, bias=False)
        if spec.scoring == "sigmoid":
            self.router_bias = mx.zeros((spec.experts,))
        self.experts = Experts(dims, spec)
        if spec.shared is not None:
            self.shared = Mlp(dims, spec.shared)
        if spec.shared_gate:
            self.shared_gate = nn.Linear(dims, 1, bias=False)
        self._spec = spec

    def fuse(self) -> None:
        """Join what the shared block can; done once, after the weights are loaded."""
        if "shared" in self:
            self.shared.fuse()

    def __call__(self, x: mx.array) -> mx.array:
        rows = x.reshape(-1, x.shape[-1])  # (T, D)
        chosen, weights = self._route(rows)
        out = (self.experts(rows, chosen) * weights[..., None]).sum(axis=-2)
        if "shared" in self:
            shared = self.shared(rows)
            out = out + (mx.sigmoid(self.shared_gate(rows)) * shared if "shared_gate" in self else shared)
        return out.reshape(x.shape)

    def _route(self, rows: mx.array) -> tuple[mx.array, mx.array]:
        """The experts (T, k) of each token and their weights."""
        spec = self._spec
        if spec.scoring == "sigmoid":
            scores = mx.sigmoid(self.router(rows.astype(mx.float32)))
            ranked = _within_groups(scores + self.router_bias, spec.groups, spec.top_groups)
        else:
            scores = ranked = mx.softmax(self.router(rows), axis=-1, precise=True)
        chosen = mx.argpartition(-ranked, kth=spec.top_k - 1, axis=-1)[..., : spec.top_k]
        weights = mx.take_along_axis(scores, chosen, axis=-1)
        if spec.normalized:
            weights = weights / (weights.sum(axis=-1, keepdims=True) + _LEAST)
        return chosen, (weights * spec.scale).astype(rows.dtype)


def _within_groups(scores: mx.array, groups: int, top_groups: int) -> mx.array:
    """Scores (T, experts), -inf outside the `top_groups` whose two best add up to most."""
    if top_groups >= groups:
        return scores
    grouped = scores.reshape(len(scores), groups, -1)
    best = mx.topk(grouped, 2, axis=-1).sum(axis=-1)  # (T, groups)
    left_out = mx.argpartition(best, kth=groups - top_groups - 1, axis=-1)[:, : groups - top_groups, None]
    return mx.put_along_axis(grouped, left_out, mx.array(-mx.inf), axis=1).reshape(scores.shape)
