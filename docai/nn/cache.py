"""Caches of keys and values. A cache owns its offset, its storage and its mask; attention never asks which kind it has.

One cache serves one layer of one request (or of several in step). All arrays are (B, heads, length, head_dim).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import mlx.core as mx

from docai.nn.mask import Blocks, Mask, causal
from docai.nn.rounding import Rounding, turned
from docai.nn.scores import Scoring, attend, attend_quantized

_STEP = 256  # tokens by which storage grows: few allocations, few distinct shapes

Arrays = list[mx.array]
Answer = Callable[[mx.array, Scoring, Mask], mx.array]  # queries -> their weighted values, in the queries' shape


class LayerCache(Protocol):
    """What attention and the decoder need of a cache."""

    @property
    def offset(self) -> int | mx.array:
        """Tokens seen so far; (B,) where that differs between the sequences of a batch."""
        ...

    def take(self, k: mx.array, v: mx.array) -> Answer:
        """Take in keys and values of the next tokens; what their queries are answered by."""
        ...

    def attend(self, q: mx.array, k: mx.array, v: mx.array, scoring: Scoring, mask: Mask) -> mx.array:
        """Take in keys and values of the next tokens; their queries' weighted values, in the shape of `q`."""
        ...

    def mask(self, length: int, window: int | None, blocks: Blocks | None = None) -> Mask:
        """What the next `length` tokens may see. `blocks`: see `docai.nn.mask`."""
        ...

    def trim(self, count: int) -> bool:
        """Forget the last `count` tokens; False where that cannot be done."""
        ...

    @property
    def state(self) -> Arrays:
        """Its arrays, for evaluation and for counting bytes."""
        ...


class Cache(LayerCache, Protocol):
    """The cache of one request. What it keeps can be taken out, and put into another one of its kind."""

    @property
    def offset(self) -> int: ...

    def last(self, count: int) -> tuple[Arrays, Arrays]:
        """Keys and values of the last `count` tokens, in order; fewer where it has fewer."""
        ...

    def fill(self, keys: Arrays, values: Arrays, offset: int) -> None:
        """Hold these last tokens of `offset`, in order, instead of what it held."""
        ...


class Kept:
    """What all caches have in common."""

    def take(self, k: mx.array, v: mx.array) -> Answer:
        raise NotImplementedError

    def attend(self, q: mx.array, k: mx.array, v: mx.array, scoring: Scoring, mask: Mask) -> mx.array:
        return self.take(k, v)(q, scoring, mask)


class _Whole(Kept):
    """What the caches have in common that keep every token."""

    def __init__(self) -> None:
        self.offset = 0

    def mask(self, length: int, window: int | None, blocks: Blocks | None = None) -> Mask:
        return causal(length, self.offset, window=window, blocks=blocks)

    def trim(self, count: int) -> bool:
        self.offset = max(0, self.offset - count)
        return True


class FullCache(_Whole):
    """Keeps every token."""

    def __init__(self) -> None:
        super().__init__()
        self._keys: mx.array | None = None
        self._values: mx.array | None = None

    def take(self, k: mx.array, v: mx.array) -> Answer:
        return answer_by(*self.taken(k, v))

    def taken(self, k: mx.array, v: mx.array) -> tuple[mx.array, mx.array]:
        """Take in keys and values of the next tokens; those of all."""
        start, self.offset = self.offset, self.offset + k.shape[2]
        self._keys = written(self._keys, k, start)
        self._values = written(self._values, v, start)
        return self._keys[:, :, : self.offset], self._values[:, :, : self.offset]

    def last(self, count: int) -> tuple[Arrays, Arrays]:
        keys, values = self.state
        part = slice(max(0, self.offset - count), self.offset)
        return [keys[:, :, part]], [values[:, :, part]]

    def fill(self, keys: Arrays, values: Arrays, offset: int) -> None:
        self.offset = offset
        self._keys, self._values = (written(None, a, 0) for a in (keys[0], values[0]))

    @property
    def state(self) -> Arrays:
        return [a for a in (self._keys, self._values) if a is not None]


class RotatingCache(Kept):
    """Keeps the last `window` tokens, in a ring: what a sliding-window layer can see.

    A step writes over the oldest token; the order in the ring does not matter to attention, since positions are in the
    keys already.
    """

    def __init__(self, window: int) -> None:
        self.window, self.offset = window, 0
        self._keys: mx.array | None = None
        self._values: mx.array | None = None
        self._next = 0  # where the next token is written

    def take(self, k: mx.array, v: mx.array) -> Answer:
        return answer_by(*self.taken(k, v))

    def taken(self, k: mx.array, v: mx.array) -> tuple[mx.array, mx.array]:
        """Take in keys and values of the next tokens; those of all that they see."""
        length = k.shape[2]
        pair = self._step(k, v) if length == 1 else self._chunk(k, v)
        self.offset += length
        return pair

    def _step(self, k: mx.array, v: mx.array) -> tuple[mx.array, mx.array]:
        at = self._next % self.window
        self._keys, self._values = (written(a, x, at) for a, x in ((self._keys, k), (self._values, v)))
        self._next = at + 1
        held = min(self.offset + 1, self.window)
        return self._keys[:, :, :held], self._values[:, :, :held]

    def _chunk(self, k: mx.array, v: mx.array) -> tuple[mx.array, mx.array]:
        """Keys and values in temporal order: those that the first new token sees, and the new ones."""
        pair = [self._after(a, x) for a, x in ((self._keys, k), (self._values, v))]
        self._keys, self._values = (tail(a, self.window, axis=2) for a in pair)
        self._next = self._keys.shape[2]
        return pair[0], pair[1]

    def _after(self, ring: mx.array | None, new: mx.array) -> mx.array:
        kept = None if ring is None else self._ordered(ring, self.window - 1)
        return new if kept is None or kept.shape[2] == 0 else mx.concatenate([kept, new], axis=2)

    def _ordered(self, ring: mx.array, count: int) -> mx.array:
        """The last `count` tokens, or as many as there are, oldest first."""
        held, at = min(self.offset, self.window), self._next % self.window
        if held < self.window or at == 0:
            ordered = ring[:, :, :held]
        else:
            ordered = mx.concatenate([ring[:, :, at : self.window], ring[:, :, :at]], axis=2)
        return ordered[:, :, max(0, held - count) :]

    def mask(self, length: int, window: int | None, blocks: Blocks | None = None) -> Mask:
        if length == 1:
            return None
        return causal(length, min(self.offset, self.window - 1), window=window or self.window, blocks=blocks)

    def trim(self, count: int) -> bool:
        """Only before the ring is full: what was written over is gone."""
        if self.offset >= self.window:
            return count == 0
        self.offset = self._next = max(0, self.offset - count)
        return True

    def last(self, count: int) -> tuple[Arrays, Arrays]:
        keys, values = self.state
        return [self._ordered(keys, count)], [self._ordered(values, count)]

    def fill(self, keys: Arrays, values: Arrays, offset: int) -> None:
        self._keys, self._values = (tail(a, self.window, axis=2) for a in (keys[0], values[0]))
        self.offset, self._next = offset, self._keys.shape[2]

    @property
    def state(self) -> Arrays:
        return [a for a in (self._keys, self._values) if a is not None]


class StateCache(Kept):
    """Keeps what a recurrent layer knows of all tokens: arrays (B, heads, rows, n) whose shapes stay as they are.

    Nothing of single tokens is left in it, so it cannot forget the last ones, and those that only fill a batch up must
    not be taken in.
    """

    def __init__(self) -> None:
        self.offset = 0
        self._held: Arrays = []

    def held(self, empty: Callable[[], Arrays]) -> Arrays:
        """What is known; `empty()` before the first token."""
        return self._held or empty()

    def hold(self, arrays: Arrays, tokens: int) -> None:
        """What is known now that so many more tokens have been taken in."""
        self._held, self.offset = arrays, self.offset + tokens

    def mask(self, length: int, window: int | None, blocks: Blocks | None = None) -> Mask:  # noqa: ARG002
        """A state has seen everything before."""
        return None

    def trim(self, count: int) -> bool:
        return count == 0

    def last(self, count: int) -> tuple[Arrays, Arrays]:  # noqa: ARG002
        """All that is known, whatever the count, in the place of keys; values of no width."""
        return [*self._held], [a[..., :0] for a in self._held]

    def fill(self, keys: Arrays, values: Arrays, offset: int) -> None:  # noqa: ARG002
        self._held, self.offset = [*keys], offset

    @property
    def state(self) -> Arrays:
        return [*self._held]


class QuantizedCache(_Whole):
    """Keeps every token, its keys and values rounded (see `docai.nn.rounding`)."""

    def __init__(self, rounding: Rounding | None = None) -> None:
        super().__init__()
        self.rounding = rounding or Rounding()
        self._keys: Arrays = []  # packed, scales, biases
        self._values: Arrays = []

    def take(self, k: mx.array, v: mx.array) -> Answer:
        start, self.offset = self.offset, self.offset + k.shape[2]
        self._keys = appended(self._keys, self.rounding.packed(turned(k), value=False), start)
        self._values = appended(self._values, self.rounding.packed(v, value=True), start)
        keys, values = ([a[:, :, : self.offset] for a in kept] for kept in (self._keys, self._values))
        return lambda q, scoring, mask: attend_quantized(turned(q), keys, values, scoring, mask)

    def last(self, count: int) -> tuple[Arrays, Arrays]:
        part = slice(max(0, self.offset - count), self.offset)
        return [a[:, :, part] for a in self._keys], [a[:, :, part] for a in self._values]

    def fill(self, keys: Arrays, values: Arrays, offset: int) -> None:
        self.offset = offset
        self._keys, self._values = (appended([], part, 0) for part in (keys, values))

    @property
    def state(self) -> Arrays:
        return [*self._keys, *self._values]


class Lent:
    """A layer's cache during one pass, whose keys and values other layers see as well (Gemma 4's shared layers).

    What it answers by is that of this pass: a ring may have let go of it behind.
    """

    def __init__(self, cache: LayerCache) -> None:
        self._cache = cache
        self._answer: Answer | None = None

    @property
    def offset(self) -> int | mx.array:
        return self._cache.offset

    @property
    def state(self) -> Arrays:
        return self._cache.state

    def take(self, k: mx.array, v: mx.array) -> Answer:
        self._answer = self._cache.take(k, v)
        return self._answer

    def attend(self, q: mx.array, k: mx.array, v: mx.array, scoring: Scoring, mask: Mask) -> mx.array:
        return self.take(k, v)(q, scoring, mask)

    def again(self, q: mx.array, scoring: Scoring, mask: Mask) -> mx.array:
        """Weighted values for queries of another layer, about the same tokens."""
        assert self._answer is not None, "the layer that lends comes first"
        return self._answer(q, scoring, mask)

    def mask(self, length: int, window: int | None, blocks: Blocks | None = None) -> Mask:
        return self._cache.mask(length, window, blocks)

    def trim(self, count: int) -> bool:
        return self._cache.trim(count)


def answer_by(keys: mx.array, values: mx.array) -> Answer:
    """Attention to these keys and values."""
    return lambda q, scoring, mask: attend(q, keys, values, scoring, mask)


def appended(kept: Arrays, parts: Sequence[mx.array], start: int) -> Arrays:
    """The parts of rounded rows written behind those that are `kept`, from token `start` on."""
    old: list[mx.array | None] = [*kept] if kept else [None] * len(parts)
    return [written(a, part, start) for a, part in zip(old, parts, strict=True)]


def tail(a: mx.array, count: int, *, axis: int) -> mx.array:
    """The last `count` along an axis, in memory of their own: a slice would keep all of the array."""
    length = a.shape[axis]
    return a if length <= count else mx.take(a, mx.arange(length - count, length), axis=axis)


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
