"""Caches of latent attention (`docai.nn.mla`): one row a token that keys and values of all heads come from."""

from __future__ import annotations

import mlx.core as mx

from docai.nn.cache import Answer, Arrays, FullCache, Kept, QuantizedCache, RotatingCache, answer_by, appended
from docai.nn.scores import attend_rounded_rows


class LatentRows(Kept):
    """Keeps latent rows and turned keys (see `docai.nn.mla`), which beside each other are keys; the rows are values."""

    def take(self, k: mx.array, v: mx.array) -> Answer:
        """k (B, 1, L, rank), v (B, 1, L, turned); queries (B, heads, L, rank + turned) give (B, heads, L, rank)."""
        latent, turned = self.taken(k, v)
        return answer_by(mx.concatenate([latent, turned], axis=-1), latent)

    def taken(self, k: mx.array, v: mx.array) -> tuple[mx.array, mx.array]:
        """Take in the next tokens; rows and turned keys of all that they see."""
        raise NotImplementedError


class LatentCache(LatentRows, FullCache):
    """Latent rows of every token."""

    taken = FullCache.taken


class RotatingLatentCache(LatentRows, RotatingCache):
    """Latent rows of the last `window` tokens."""

    taken = RotatingCache.taken


class RoundedLatentCache(QuantizedCache, LatentRows):
    """Latent rows and turned keys of every token, both rounded."""

    def take(self, k: mx.array, v: mx.array) -> Answer:
        rows, turned = self._rounded(k, v)
        rank = int(k.shape[-1])
        return lambda q, scoring, mask: attend_rounded_rows(q, rows, turned, rank, scoring, mask)

    def taken(self, k: mx.array, v: mx.array) -> tuple[mx.array, mx.array]:
        rows, turned = (_unpacked(parts, new) for parts, new in zip(self._rounded(k, v), (k, v), strict=True))
        return rows, turned

    def _rounded(self, k: mx.array, v: mx.array) -> tuple[Arrays, Arrays]:
        start, self.offset = self.offset, self.offset + k.shape[2]
        self._keys = appended(self._keys, self.rounding.packed_rows(k), start)
        self._values = appended(self._values, self.rounding.packed(v, value=False), start)
        return [a[:, :, : self.offset] for a in self._keys], [a[:, :, : self.offset] for a in self._values]


def _unpacked(parts: Arrays, like: mx.array) -> mx.array:
    """The numbers that rounded parts stand for, in rows as long as those of `like` and of its type."""
    dims, (packed, scales, biases) = like.shape[-1], parts
    group, bits = dims // scales.shape[-1], 32 * packed.shape[-1] // dims
    return mx.dequantize(packed, scales, biases, group_size=group, bits=bits).astype(like.dtype)
