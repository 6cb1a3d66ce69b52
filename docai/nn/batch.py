"""Caches of a batch: requests of different lengths that take their steps together.

A place of the batch is a request's. Its tokens stand from column 0 on, however long the others are: a step writes one
column a place, each at its own offset, and a mask hides what lies behind. So a request joins by being written into a
free place and leaves by being forgotten; none of the others moves. Storage grows in few steps, so that a backend meets
few shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import mlx.core as mx
import numpy as np

from docai.nn.cache import (
    Answer,
    Arrays,
    Cache,
    FullCache,
    QuantizedCache,
    RotatingCache,
    StateCache,
)
from docai.nn.latent_cache import LatentCache, RotatingLatentCache, RoundedLatentCache
from docai.nn.mask import Blocks, Mask
from docai.nn.rounding import Rounding, turned
from docai.nn.scores import Scoring, attend, attend_quantized, attend_rounded_rows

# Inputs, outputs and types of products: threads share large ones otherwise than small ones.
_TRIED = [(n, m, kind) for n, m in ((64, 64), (256, 1024), (1536, 576)) for kind in (mx.float32, mx.bfloat16)]


class Places:
    """Where each place of a batch stands; the caches of all layers share it. `lengths` is 0 at a free place."""

    def __init__(self, count: int) -> None:
        self.lengths = np.zeros(count, np.int32)
        self.longest = 0
        self._offsets: mx.array | None = None
        self._columns: dict[tuple[int, ...], mx.array] = {}
        self._spread: dict[tuple[int, int], tuple[mx.array, mx.array]] = {}

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def offsets(self) -> mx.array:
        """(B,) the column that each place writes next."""
        if self._offsets is None:
            self._offsets = mx.array(self.lengths)
        return self._offsets

    def set(self, place: int, length: int) -> None:
        """What a place holds from now on."""
        self.lengths[place] = length
        self._changed()

    def advance(self, counts: np.ndarray | int) -> None:
        """Tokens that have been taken in; free places stay as they are: what they write is never seen."""
        self.lengths = np.where(self.lengths > 0, self.lengths + counts, 0).astype(np.int32)
        self._changed()

    def resized(self, kept: Sequence[int], count: int) -> None:
        """Leave the `kept` places, in this order, among `count`."""
        lengths = np.zeros(count, np.int32)
        lengths[: len(kept)] = self.lengths[list(kept)]
        self.lengths = lengths
        self._changed()

    def columns(self, shape: tuple[int, ...], ring: int | None) -> mx.array:
        """Where new rows of `shape` (B, heads, L, n) go in a storage; in a `ring` of so many columns they go round."""
        key = (*shape, ring or 0)
        if key not in self._columns:
            at = self.offsets[:, None] + mx.arange(shape[2])  # (B, L)
            at = at if ring is None else at % ring
            self._columns[key] = mx.broadcast_to(at[:, None, :, None], shape)
        return self._columns[key]

    def spread(self, mask: mx.array, rows: int) -> mx.array:
        """A mask (B, 1, 1, columns) for so many queries, in memory: kernels do not take it as one row seen again."""
        key = id(mask), rows
        if key not in self._spread:
            shape = (*mask.shape[:2], rows, mask.shape[3])
            self._spread[key] = mask, mx.contiguous(mx.broadcast_to(mask, shape))  # the mask too, so that its id is its
        return self._spread[key][1]

    def _changed(self) -> None:
        self.longest = int(self.lengths.max(initial=0))
        self._offsets = None
        self._columns, self._spread = {}, {}


class BatchCache:
    """What a layer keeps of each place. `ring`: only so many of a place's last tokens.

    `apart`: attention is computed for each place by itself, over what it holds and no more, so that the numbers of a
    place do not depend on the others. It costs a kernel for each place instead of one for all.
    """

    def __init__(self, places: Places, ring: int | None = None, *, apart: bool = False) -> None:
        self._places, self._ring, self._apart = places, ring, apart
        self._keys: list[mx.array] = []  # (B, heads, columns, n): one array, or those that rounding makes of it
        self._values: list[mx.array] = []

    @property
    def offset(self) -> mx.array:
        """(B,) tokens seen so far at each place."""
        return self._places.offsets

    def take(self, k: mx.array, v: mx.array) -> Answer:
        self._grow(k.shape[2])
        self._keys, self._values = (
            self._put(self._keys, self._key_parts(k)),
            self._put(self._values, self._value_parts(v)),
        )
        return self._answered

    def attend(self, q: mx.array, k: mx.array, v: mx.array, scoring: Scoring, mask: Mask) -> mx.array:
        return self.take(k, v)(q, scoring, mask)

    def _answered(self, q: mx.array, scoring: Scoring, mask: Mask) -> mx.array:
        if not self._apart:
            return self._attended(q, self._keys, self._values, scoring, mask)
        return mx.concatenate([self._by_itself(place, q, scoring) for place in range(len(self._places))])

    def _by_itself(self, place: int, q: mx.array, scoring: Scoring) -> mx.array:
        held, length = int(self._places.lengths[place]), q.shape[2]
        seen = held + length if self._ring is None else min(held + length, self._ring)
        keys, values = ([a[place : place + 1, :, :seen] for a in part] for part in (self._keys, self._values))
        return self._attended(q[place : place + 1], keys, values, scoring, None if length == 1 else "causal")

    def _key_parts(self, k: mx.array) -> Arrays:
        return [k]

    def _value_parts(self, v: mx.array) -> Arrays:
        return [v]

    def _attended(self, q: mx.array, k: Arrays, v: Arrays, scoring: Scoring, mask: Mask) -> mx.array:
        keys, values = k[0], v[0]
        sunk = scoring.sinks is not None and keys.shape[1] != q.shape[1]  # a sink is a head's, not a key's
        if q.shape[2] > 1 or scoring.cap is not None or sunk:
            return attend(q, keys, values, scoring, mask)
        # Heads that share a key stand as so many queries: kernels that take a mask of numbers want more than one query
        # (cuDNN), and read each key once. A head that has its keys for itself is asked twice, where they want it so.
        grouped = q.reshape(q.shape[0], keys.shape[1], -1, q.shape[-1])
        twice = grouped.shape[2] == 1 and isinstance(mask, mx.array) and on_cuda()
        grouped = mx.repeat(grouped, 2, axis=2) if twice else grouped
        if isinstance(mask, mx.array) and grouped.shape[2] > 1:
            mask = self._places.spread(mask, grouped.shape[2])
        out = attend(grouped, keys, values, scoring, mask)
        return (out[:, :, :1] if twice else out).reshape(*q.shape[:-1], -1)

    def _put(self, storage: list[mx.array], new: Sequence[mx.array]) -> list[mx.array]:
        pairs = zip(storage, new, strict=True)
        return [mx.put_along_axis(kept, self._places.columns(x.shape, self._ring), x, axis=2) for kept, x in pairs]

    def _grow(self, length: int) -> None:
        columns = self._needed(self._places.longest + length)
        if self._keys and self._keys[0].shape[2] < columns:
            self._keys, self._values = ([widened(a, columns) for a in part] for part in (self._keys, self._values))

    def _needed(self, tokens: int) -> int:
        needed = storage_columns(tokens)
        return needed if self._ring is None else min(needed, self._ring)

    def mask(self, length: int, window: int | None, blocks: Blocks | None = None) -> Mask:
        """Numbers that are added to scores, (B, 1, length, columns): MLX's kernels all take those."""
        assert blocks is None, "prompts are read by caches of their own"
        if self._apart:
            return None
        self._grow(length)
        kept = self._keys[0].shape[2]
        last = self._places.offsets[:, None] + mx.arange(length)  # (B, L): the place of each new token
        column = mx.arange(kept)
        if self._ring is not None and length == 1:
            seen = column <= mx.minimum(last, self._ring - 1)[..., None]
        else:
            seen = column <= last[..., None]
            if window is not None:
                seen = seen & (column > last[..., None] - window)
        return mx.where(seen, 0.0, -mx.inf).astype(self._dtype)[:, None]

    @property
    def _dtype(self) -> mx.Dtype:
        return self._keys[-1].dtype

    def join(self, place: int, cache: Cache) -> None:
        """Write a request's own cache into a place; `Places.set` is told afterwards."""
        keys, values = self._taken(cache)
        if not self._keys:
            shape = len(self._places), self._needed(cache.offset)
            self._keys, self._values = ([_empty(a, *shape) for a in part] for part in (keys, values))
        tokens = keys[0].shape[2]
        if tokens > self._keys[0].shape[2]:
            wide = self._needed(cache.offset)
            self._keys, self._values = ([widened(a, wide) for a in part] for part in (self._keys, self._values))
        for storage, new in ((self._keys, keys), (self._values, values)):
            for kept, part in zip(storage, new, strict=True):
                kept[place : place + 1, :, :tokens] = part

    def _taken(self, cache: Cache) -> tuple[list[mx.array], list[mx.array]]:
        """Keys and values of a request, each token in its column."""
        keys, values = cache.last(cache.offset)
        if self._ring is None or cache.offset <= self._ring:
            return keys, values
        start = self._ring - cache.offset % self._ring  # where the token of column 0 stands among the last ones
        return [_rolled(a, start) for a in keys], [_rolled(a, start) for a in values]

    def resize(self, kept: Sequence[int], count: int) -> None:
        """Leave the `kept` places, in this order, among `count`; `Places.resized` is told afterwards."""
        longest = int(self._places.lengths[list(kept)].max(initial=0))
        columns = self._needed(longest + 1)

        def taken(a: mx.array) -> mx.array:
            a = a[mx.array(list(kept)), :, :columns]
            return a if count == len(kept) else mx.pad(a, [(0, count - len(kept)), (0, 0), (0, 0), (0, 0)])

        self._keys, self._values = ([taken(a) for a in part] for part in (self._keys, self._values))

    def trim(self, count: int) -> bool:
        """Places forget by `Places.set`."""
        return count == 0

    @property
    def state(self) -> list[mx.array]:
        return [*self._keys, *self._values]


class BatchQuantizedCache(BatchCache):
    """Keys and values rounded as in `QuantizedCache`."""

    def __init__(self, places: Places, rounding: Rounding, *, apart: bool = False) -> None:
        super().__init__(places, apart=apart)
        self._rounding = rounding

    def _key_parts(self, k: mx.array) -> Arrays:
        return self._rounding.packed(turned(k), value=False)

    def _value_parts(self, v: mx.array) -> Arrays:
        return self._rounding.packed(v, value=True)

    def _attended(self, q: mx.array, k: Arrays, v: Arrays, scoring: Scoring, mask: Mask) -> mx.array:
        return attend_quantized(turned(q), k, v, scoring, mask)


class BatchLatentCache(BatchCache):
    """Latent rows and turned keys of each place, as in `LatentCache`."""

    def _attended(self, q: mx.array, k: Arrays, v: Arrays, scoring: Scoring, mask: Mask) -> mx.array:
        return super()._attended(q, [mx.concatenate([k[0], v[0]], axis=-1)], k, scoring, mask)


class BatchRoundedLatentCache(BatchQuantizedCache):
    """The same, rounded as in `RoundedLatentCache`."""

    def _key_parts(self, k: mx.array) -> Arrays:
        return self._rounding.packed_rows(k)

    def _value_parts(self, v: mx.array) -> Arrays:
        return self._rounding.packed(v, value=False)

    def _attended(self, q: mx.array, k: Arrays, v: Arrays, scoring: Scoring, mask: Mask) -> mx.array:
        return attend_rounded_rows(q, k, v, self._rounding.rank(k), scoring, mask)


class BatchStateCache(BatchCache):
    """The state of each place, as in `StateCache`; steps are of one token. At a free place it is of no meaning."""

    def __init__(self, places: Places) -> None:
        super().__init__(places)
        self._held: Arrays = []  # (B, heads, rows, n)

    def held(self, empty: Callable[[], Arrays]) -> Arrays:
        """What is known at each place; `empty()` before the first request has joined."""
        return self._held or empty()

    def hold(self, arrays: Arrays, tokens: int) -> None:
        """What is known after the step; `Places.advance` is told afterwards."""
        assert tokens == 1, "steps of one token"
        self._held = arrays

    def mask(self, length: int, window: int | None, blocks: Blocks | None = None) -> Mask:  # noqa: ARG002
        """A state has seen everything before."""
        return None

    def join(self, place: int, cache: Cache) -> None:
        arrays, _ = cache.last(cache.offset)
        self._held = self._held or [mx.zeros((len(self._places), *a.shape[1:]), a.dtype) for a in arrays]
        for kept, new in zip(self._held, arrays, strict=True):
            kept[place : place + 1] = new

    def resize(self, kept: Sequence[int], count: int) -> None:
        at = mx.array([*kept, *[kept[0]] * (count - len(kept))])
        self._held = [a[at] for a in self._held]

    @property
    def state(self) -> list[mx.array]:
        return [*self._held]


def batch_cache(cache: Cache, places: Places, *, apart: bool = False) -> BatchCache:
    """The cache of a batch of requests that have caches such as this one."""
    match cache:
        case StateCache():
            return BatchStateCache(places)
        case RotatingLatentCache():
            return BatchLatentCache(places, cache.window, apart=apart)
        case RotatingCache():
            return BatchCache(places, cache.window, apart=apart)
        case RoundedLatentCache():
            return BatchRoundedLatentCache(places, cache.rounding, apart=apart)
        case QuantizedCache():
            return BatchQuantizedCache(places, cache.rounding, apart=apart)
        case LatentCache():
            return BatchLatentCache(places, apart=apart)
        case FullCache():
            return BatchCache(places, apart=apart)
        case _:
            raise AssertionError(f"requests with a {type(cache).__name__} cannot be batched")


@lru_cache(maxsize=1)
def on_cuda() -> bool:
    """Whether MLX computes on an NVIDIA GPU."""
    return bool(mx.default_device() == mx.gpu and not mx.metal.is_available())


@lru_cache
def alike_rows(most: int) -> int:
    """How many rows, up to the power of two from `most` on, give each of them the same last bits wherever it stands.

    Products take rows in groups, and those that are left over by kernels that may add up in another order: OpenBLAS in
    float32 on x86 has 8 rows alike, but neither 6 nor 16. It is tried out, once a process.
    """
    counts = (1 << power for power in range((most - 1).bit_length(), 0, -1))
    return next((count for count in counts if all(_alike(count, *size) for size in _TRIED)), 1)


def _alike(count: int, inputs: int, outputs: int, dtype: mx.Dtype) -> bool:
    """Whether a product with equal rows has equal rows."""
    row, weight = (
        mx.random.normal(shape, key=mx.random.key(inputs)).astype(dtype) for shape in ((1, inputs), (outputs, inputs))
    )
    rows = mx.repeat(row, count, axis=0)[:, None] @ weight.T  # (count, 1, outputs)
    return bool((rows == rows[:1]).all())


def storage_columns(tokens: int) -> int:
    """The columns that a storage for `tokens` tokens has: few distinct numbers."""
    step = 256 if tokens <= 2048 else 1024 if tokens <= 16384 else 4096
    return -(-tokens // step) * step


def widened(a: mx.array, columns: int) -> mx.array:
    """A storage with more columns."""
    return mx.concatenate([a, mx.zeros((*a.shape[:2], columns - a.shape[2], a.shape[3]), a.dtype)], axis=2)


def _empty(like: mx.array, places: int, columns: int) -> mx.array:
    return mx.zeros((places, like.shape[1], columns, like.shape[3]), like.dtype)


def _rolled(a: mx.array, start: int) -> mx.array:
    return a if start == a.shape[2] else mx.concatenate([a[:, :, start:], a[:, :, :start]], axis=2)
