"""Caches of keys and values. A cache owns its offset, its storage and its mask; attention never asks which kind it has.

One cache serves one layer of one request (or of several in step). All arrays are (B, heads, length, head_dim).
"""

from __future__ import annotations

from typing import Literal, Protocol

import mlx.core as mx

from docai.nn.mask import Mask, causal
from docai.nn.scores import Scoring, attend, attend_quantized

_STEP = 256  # tokens by which storage grows: few allocations, few distinct shapes


class Cache(Protocol):
    """What attention and the decoder need of a cache."""

    offset: int  # tokens seen so far

    def attend(self, q: mx.array, k: mx.array, v: mx.array, scoring: Scoring, mask: Mask) -> mx.array:
        """Take in keys and values of the next tokens; their queries' weighted values, in the shape of `q`."""
        ...

    def mask(self, length: int, window: int | None, blocks: mx.array | None = None) -> Mask:
        """What the next `length` tokens may see. `blocks` (B, length): see `docai.nn.mask.causal`."""
        ...

    def trim(self, count: int) -> bool:
        """Forget the last `count` tokens; False where that cannot be done."""
        ...

    @property
    def state(self) -> list[mx.array]:
        """Its arrays, for evaluation and for counting bytes."""
        ...


class FullCache:
    """Keeps every token."""

    def __init__(self) -> None:
        self.offset = 0
        self._keys: mx.array | None = None
        self._values: mx.array | None = None

    def attend(self, q: mx.array, k: mx.array, v: mx.array, scoring: Scoring, mask: Mask) -> mx.array:
        start, self.offset = self.offset, self.offset + k.shape[2]
        self._keys = written(self._keys, k, start)
        self._values = written(self._values, v, start)
        return attend(q, self._keys[:, :, : self.offset], self._values[:, :, : self.offset], scoring, mask)

    def mask(self, length: int, window: int | None, blocks: mx.array | None = None) -> Mask:
        return causal(length, self.offset, window=window, blocks=blocks)

    def trim(self, count: int) -> bool:
        self.offset = max(0, self.offset - count)
        return True

    @property
    def state(self) -> list[mx.array]:
        return [a for a in (self._keys, self._values) if a is not None]


class RotatingCache:
    """Keeps the last `window` tokens, in a ring: what a sliding-window layer can see.

    A step writes over the oldest token; the order in the ring does not matter to attention, since positions are in the
    keys already.
    """

    def __init__(self, window: int) -> None:
        self.window, self.offset = window, 0
        self._keys: mx.array | None = None
        self._values: mx.array | None = None
        self._next = 0  # where the next token is written

    def attend(self, q: mx.array, k: mx.array, v: mx.array, scoring: Scoring, mask: Mask) -> mx.array:
        length = k.shape[2]
        keys, values = self._step(k, v) if length == 1 else self._chunk(k, v)
        self.offset += length
        return attend(q, keys, values, scoring, mask)

    def _step(self, k: mx.array, v: mx.array) -> tuple[mx.array, mx.array]:
        at = self._next % self.window
        self._keys, self._values = (written(a, x, at) for a, x in ((self._keys, k), (self._values, v)))
        self._next = at + 1
        held = min(self.offset + 1, self.window)
        return self._keys[:, :, :held], self._values[:, :, :held]

    def _chunk(self, k: mx.array, v: mx.array) -> tuple[mx.array, mx.array]:
        """Keys and values in temporal order: those that the first new token sees, and the new ones."""
        pair = [_after(self._ordered(a), x) for a, x in ((self._keys, k), (self._values, v))]
        self._keys, self._values = (a[:, :, -self.window :] for a in pair)
        self._next = self._keys.shape[2]
        return pair[0], pair[1]

    def _ordered(self, ring: mx.array | None) -> mx.array | None:
        """The last window - 1 tokens, oldest first."""
        if ring is None:
            return None
        held, at = min(self.offset, self.window), self._next % self.window
        if held < self.window or at == 0:
            ordered = ring[:, :, :held]
        else:
            ordered = mx.concatenate([ring[:, :, at : self.window], ring[:, :, :at]], axis=2)
        return ordered[:, :, max(0, held - self.window + 1) :]

    def mask(self, length: int, window: int | None, blocks: mx.array | None = None) -> Mask:
        if length == 1:
            return None
        return causal(length, min(self.offset, self.window - 1), window=window or self.window, blocks=blocks)

    def trim(self, count: int) -> bool:
        """Only before the ring is full: what was written over is gone."""
        if self.offset >= self.window:
            return count == 0
        self.offset = self._next = max(0, self.offset - count)
        return True

    def fork(self) -> RotatingCache:
        """A cache of its own that holds the same; nothing is copied until one of them is written to."""
        copy = RotatingCache(self.window)
        copy.offset, copy._next = self.offset, self._next
        copy._keys, copy._values = (None if a is None else mx.array(a) for a in (self._keys, self._values))
        return copy

    @property
    def state(self) -> list[mx.array]:
        return [a for a in (self._keys, self._values) if a is not None]


class QuantizedCache:
    """Keeps every token, its keys and values rounded to `bits` (4 or 8) in groups along the head."""

    def __init__(self, bits: int = 8, group: int = 64) -> None:
        self.offset, self.bits, self.group = 0, bits, group
        self._keys: list[mx.array] = []  # packed, scales, biases
        self._values: list[mx.array] = []

    def attend(self, q: mx.array, k: mx.array, v: mx.array, scoring: Scoring, mask: Mask) -> mx.array:
        start, self.offset = self.offset, self.offset + k.shape[2]
        self._keys, self._values = (self._taken(kept, x, start) for kept, x in ((self._keys, k), (self._values, v)))
        keys, values = ([a[:, :, : self.offset] for a in kept] for kept in (self._keys, self._values))
        return attend_quantized(q, keys, values, scoring, mask, self.bits, self._group(k))

    def _group(self, x: mx.array) -> int:
        return next(g for g in (self.group, 64, 32) if x.shape[-1] % g == 0)

    def _taken(self, kept: list[mx.array], x: mx.array, start: int) -> list[mx.array]:
        parts = mx.quantize(x, group_size=self._group(x), bits=self.bits)
        old: list[mx.array | None] = [*kept] if kept else [None] * len(parts)
        return [written(a, part, start) for a, part in zip(old, parts, strict=True)]

    def mask(self, length: int, window: int | None, blocks: mx.array | None = None) -> Mask:
        return causal(length, self.offset, window=window, blocks=blocks)

    def trim(self, count: int) -> bool:
        self.offset = max(0, self.offset - count)
        return True

    @property
    def state(self) -> list[mx.array]:
        return [*self._keys, *self._values]


CacheKind = Literal["full", "quantized"]


def written(storage: mx.array | None, new: mx.array, start: int) -> mx.array:
    """`new` written from token `start` on, into storage that grows in steps."""
    end = start + new.shape[2]
    if storage is None or storage.shape[2] < end:
        kept = [] if storage is None or start == 0 else [storage[:, :, :start]]
        rows = -(-end // _STEP) * _STEP - (start if kept else 0)
        fresh = mx.zeros((*new.shape[:2], rows, new.shape[3]), new.dtype)
        storage = mx.concatenate([*kept, fresh], axis=2)
    storage[:, :, start:end] = new
    return storage


def _after(old: mx.array | None, new: mx.array) -> mx.array:
    return new if old is None or old.shape[2] == 0 else mx.concatenate([old, new], axis=2)
