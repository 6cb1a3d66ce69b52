"""Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434): keys and values of all heads come from one latent row.

A cache keeps the latent row and one turned key a token. Steps score queries against the latents themselves, with each
head's matrix taken into the query and another behind the result, so that nothing is expanded; for long prompts it is
cheaper to expand the latents into keys and values once.
"""

from __future__ import annotations

from dataclasses import dataclass

import mlx.core as mx
import mlx.nn as nn

from docai.nn.attention import AttentionSpec
from docai.nn.cache import LayerCache
from docai.nn.latent_cache import LatentRows
from docai.nn.linear import joined
from docai.nn.mask import Mask
from docai.nn.packed import Packed
from docai.nn.rope import RopeSpec, Rotation
from docai.nn.scores import attend


@dataclass(frozen=True, slots=True)
class LatentSpec(AttentionSpec):
    """One layer's attention. `rank` numbers make a latent row; a head's key has `plain` numbers of it and those that
    are turned, its value `value`. `query_rank`: queries come from a row of so many numbers, None for the input itself.
    `key_rows`: matrices of keys lie as they are published, from a latent row to a key. They are the other way round
    elsewhere; a quantized matrix cannot be turned.

    To all who count memory it is one head of keys and values, as many numbers as are kept of a token.
    """

    rank: int = 0
    plain: int = 0
    value: int = 0
    query_rank: int | None = None
    key_rows: bool = False
    norm_eps: float = 1e-6  # of the latent rows' norms, whatever a config says of the others

    @classmethod
    def of(
        cls, heads: int, rope: RopeSpec, *, rank: int, plain: int, value: int, scale: float = 1.0, **more: object
    ) -> LatentSpec:
        """`scale` is beside 1 / sqrt of a key's size."""
        size = (plain + rope.dims) ** -0.5
        kept = (rank + rope.dims) // 2
        return cls(heads, 1, kept, rope, size * scale, rank=rank, plain=plain, value=value, **more)  # type: ignore[arg-type]


class HeadLinear(nn.Module):
    """A matrix for each head. Name: weight (heads, out, in)."""

    def __init__(self, heads: int, out: int, dims: int) -> None:
        super().__init__()
        self.weight = mx.zeros((heads, out, dims))

    def __call__(self, x: mx.array) -> mx.array:
        """x (B, heads or 1, L, in) -> (B, heads, L, out)"""
        return x @ self.weight.swapaxes(-1, -2)

    def back(self, x: mx.array) -> mx.array:
        """The transposed matrices: x (B, heads or 1, L, out) -> (B, heads, L, in)"""
        return x @ self.weight

    def to_quantized(self, group_size: int = 64, bits: int = 4, mode: str = "affine", **_: object) -> nn.Module:
        """The same with packed weights; `nn.quantize` calls this."""
        return QuantizedHeadLinear(self.weight, group_size, bits, mode)


class QuantizedHeadLinear(Packed):
    """`HeadLinear` with packed weights."""

    def __call__(self, x: mx.array) -> mx.array:
        return self._product(x, transpose=True)

    def back(self, x: mx.array) -> mx.array:
        """As that of `HeadLinear`."""
        return self._product(x, transpose=False)

    def _product(self, x: mx.array, *, transpose: bool) -> mx.array:
        return mx.quantized_matmul(
            x, self.weight, self.scales, self.get("biases"), transpose=transpose, group_size=self.group_size,
            bits=self.bits, mode=self.mode,
        )  # fmt: skip


class LatentAttention(nn.Module):
    """Names: q, or q_down, q_norm and q_up; latent, latent_norm; key_up or, with `key_rows`, key_down; value_up; o.

    Once they are joined, `down` stands for q, or q_down, and latent.
    """

    def __init__(self, dims: int, spec: LatentSpec) -> None:
        super().__init__()
        assert spec.rope is not None, "a part of each key is turned"
        self._turned = spec.rope.dims
        width = spec.heads * (spec.plain + self._turned)
        if spec.query_rank is None:
            self.q = nn.Linear(dims, width, bias=False)
        else:
            self.q_down = nn.Linear(dims, spec.query_rank, bias=spec.qkv_bias)
            self.q_norm = nn.RMSNorm(spec.query_rank, eps=spec.norm_eps)
            self.q_up = nn.Linear(spec.query_rank, width, bias=False)
        self.latent = nn.Linear(dims, spec.rank + self._turned, bias=spec.qkv_bias)
        self.latent_norm = nn.RMSNorm(spec.rank, eps=spec.norm_eps)
        if spec.key_rows:
            self.key_down = HeadLinear(spec.heads, spec.plain, spec.rank)
        else:
            self.key_up = HeadLinear(spec.heads, spec.rank, spec.plain)
        self.value_up = HeadLinear(spec.heads, spec.value, spec.rank)
        self.o = nn.Linear(spec.heads * spec.value, dims, bias=spec.out_bias)
        self._spec = spec
        self._most = _absorbed_rows(spec, self._turned)

    def fuse(self) -> None:
        """Join what queries and latent rows come from; done once, after the weights are loaded."""
        first = "q" if "q" in self else "q_down"
        one = joined((self[first], self.latent))
        if one is not None:
            self.down = one
            del self[first], self.latent

    def __call__(self, x: mx.array, rotation: Rotation | None, mask: Mask, cache: LayerCache) -> mx.array:
        """x (B, L, D) -> (B, L, D)"""
        assert rotation is not None, "a part of each key is turned"
        spec = self._spec
        q, row = self._rows(x)
        q = q.reshape(*x.shape[:2], spec.heads, -1).transpose(0, 2, 1, 3)  # (B, heads, L, plain + turned)
        plain, turned = q[..., : spec.plain], rotation(q[..., spec.plain :])
        latent, key = mx.split(row[:, None], [spec.rank], axis=-1)
        latent, key = self.latent_norm(latent), rotation(key)  # (B, 1, L, rank), (B, 1, L, turned)
        if x.shape[1] > self._most and isinstance(cache, LatentRows):
            out = self._expanded(plain, turned, *cache.taken(latent, key), mask)
        else:
            absorbed = self.key_down.back(plain) if spec.key_rows else self.key_up(plain)
            query = mx.concatenate([absorbed, turned], axis=-1)  # (B, heads, L, rank + turned)
            out = self.value_up(cache.attend(query, latent, key, spec.scoring, mask))
        return self.o(out.transpose(0, 2, 1, 3).reshape(*x.shape[:2], -1))

    def _rows(self, x: mx.array) -> tuple[mx.array, mx.array]:
        """Queries (B, L, heads * (plain + turned)), and latent rows with their keys (B, L, rank + turned)."""
        if "down" in self:
            both, kept = self.down(x), self._spec.rank + self._turned
            q, row = both[..., :-kept], both[..., -kept:]
        else:
            q, row = (self.q if "q" in self else self.q_down)(x), self.latent(x)
        return (self.q_up(self.q_norm(q)) if "q_up" in self else q), row

    def _expanded(self, plain: mx.array, turned: mx.array, latent: mx.array, key: mx.array, mask: Mask) -> mx.array:
        """Attention with the keys and values of each head, (B, heads, L, value)."""
        keys = self.key_down(latent) if self._spec.key_rows else self.key_up.back(latent)  # (B, heads, S, plain)
        same = mx.broadcast_to(key, (*keys.shape[:3], self._turned))
        query = mx.concatenate([plain, turned], axis=-1)
        return attend(query, mx.concatenate([keys, same], axis=-1), self.value_up(latent), self._spec.scoring, mask)


def _absorbed_rows(spec: LatentSpec, turned: int) -> int:
    """Up to how many rows it takes fewer products not to expand the latents."""
    saved = 2 * spec.rank + turned - (spec.plain + turned + spec.value)
    return spec.rank * (spec.plain + spec.value) // saved if saved > 0 else 1 << 62
