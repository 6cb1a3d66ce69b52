"""What was read of prompts, kept in blocks: the beginning that a prompt shares with an earlier one is not read again.

A prompt is read in chunks whose ends depend only on what stands before them, and a block is what the caches took in of
one chunk. Its key hashes the tokens and images of the chunk and the key of the block before, so that a key stands for
a whole beginning: who has it, had the same tokens, the same images, the same way of reading, and the same tenant. Going
on behind a block gives the same numbers, to the bit, as reading everything.
"""

from __future__ import annotations

import itertools
import threading
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from typing import Any, Protocol

import mlx.core as mx
import numpy as np

from docai.nn.cache import Arrays, Cache, RotatingCache, StateCache
from docai.vlm.features import Key

SMALLEST = 128  # tokens of a chunk that may end with an image; shorter ones would read long prompts slowly


@dataclass(frozen=True, slots=True)
class Span:
    """The tokens `start` ... `stop - 1` of a prompt, which stand for the image `key`, with the marks between them."""

    start: int
    stop: int
    key: Key = ()


@dataclass(frozen=True, slots=True)
class Layout:
    """The ids of a prompt, where its images are, and where the chunks end in which it is read."""

    ids: tuple[int, ...]
    images: tuple[Span, ...]
    ends: tuple[int, ...]


def chunk_ends(length: int, images: Sequence[Span], step: int, whole: Sequence[Span] = ()) -> tuple[int, ...]:
    """Where chunks of at most `step` tokens end in a prompt of `length` tokens.

    A chunk also ends behind an image, where the next question about it will begin to differ. No chunk ends within what
    is `whole`, as its tokens see each other, even if it becomes longer than `step`.
    """
    ends: list[int] = []
    start = 0
    while start < length:
        end = min(start + step, length)
        inner = next((block for block in whole if block.start < end < block.stop), None)
        end = end if inner is None else inner.start if inner.start > start else inner.stop
        end = next((i.stop for i in images if start + SMALLEST <= i.stop < end), end)
        ends.append(end)
        start = end
    return tuple(ends)


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """What the layers took in of a chunk that ends at token `end`.

    `layers`: of each layer the arrays of its cache, (1, heads, tokens, n): keys beside values. A ring has no more than
    its window of them, a state is there whole. `widths`: how many of the n numbers are the keys'. `logits` (1, V) are
    the scores behind the chunk, where it was the last one of a prompt.
    """

    layers: tuple[tuple[mx.array, ...], ...]
    widths: tuple[tuple[int, ...], ...]
    end: int
    logits: mx.array | None = None

    @classmethod
    def of(cls, caches: Sequence[Cache], count: int, logits: mx.array | None = None) -> Block:
        """A copy of what the caches have of the last `count` tokens."""
        pairs = [cache.last(count) for cache in caches]
        layers = tuple(tuple(_beside(k, v) for k, v in zip(*pair, strict=True)) for pair in pairs)
        widths = tuple(tuple(int(k.shape[-1]) for k in keys) for keys, _ in pairs)
        return cls(layers, widths, caches[0].offset, logits)

    @property
    def arrays(self) -> Arrays:
        return [a for layer in self.layers for a in layer] + ([] if self.logits is None else [self.logits])

    @property
    def nbytes(self) -> int:
        return sum(int(a.nbytes) for a in self.arrays)


def _beside(keys: mx.array, values: mx.array) -> mx.array:
    return mx.concatenate([keys, values], axis=-1)


def restore(blocks: Sequence[Block], caches: Sequence[Cache]) -> None:
    """Fill empty caches with what blocks that follow each other hold."""
    for number, cache in enumerate(caches):
        parts = [block.layers[number] for block in blocks]
        if isinstance(cache, StateCache):
            parts = parts[-1:]  # it knows all that came before
        elif isinstance(cache, RotatingCache):
            parts = _trailing(parts, cache.window)
        whole = [mx.concatenate(list(arrays), axis=2) for arrays in zip(*parts, strict=True)]
        widths = blocks[0].widths[number]
        keys = [a[..., :width] for a, width in zip(whole, widths, strict=True)]
        values = [a[..., width:] for a, width in zip(whole, widths, strict=True)]
        cache.fill(keys, values, blocks[-1].end)


def _trailing(parts: list[tuple[mx.array, ...]], tokens: int) -> list[tuple[mx.array, ...]]:
    """The last parts that together have so many tokens."""
    count = 0
    for back, part in enumerate(reversed(parts), 1):
        count += part[0].shape[2]
        if count >= tokens:
            return parts[-back:]
    return parts


def chain(layout: Layout, root: Hashable) -> list[str]:
    """The key of each chunk of a prompt. `root`: all that has to be equal beside tokens and images."""
    digest = blake2b(repr(root).encode(), digest_size=16).digest()
    keys: list[str] = []
    for start, end in zip((0, *layout.ends), layout.ends, strict=False):
        images = [(i.start, i.stop, i.key) for i in layout.images if i.start < end and i.stop > start]
        ids = np.asarray(layout.ids[start:end], np.int64).tobytes()
        digest = blake2b(digest + ids + repr(images).encode(), digest_size=16).digest()
        keys.append(digest.hex())
    return keys


class Shelf(Protocol):
    """Where blocks are kept that memory has no room for, and beyond the end of the process."""

    def __contains__(self, key: object) -> bool: ...

    def get(self, keys: Sequence[str]) -> dict[str, Block]:
        """Those of the blocks that are there and can be read."""
        ...

    def used(self, keys: Sequence[str]) -> None:
        """The blocks of a prompt's beginning have been of use."""
        ...

    def put(self, key: str, block: Block) -> None: ...

    @property
    def most_pending(self) -> int:
        """Bytes of blocks that may wait to be put there."""
        ...

    @most_pending.setter
    def most_pending(self, most: int) -> None: ...

    def clear(self) -> None: ...

    def stats(self) -> dict[str, int]: ...


@dataclass(slots=True)
class PrefixCounts:
    """What a store has done, under the names that mlx-vlm gives."""

    lookups_hit: int = 0
    lookups_miss: int = 0
    exact_hits: int = 0  # whole prompts that needed no reading at all
    matched_tokens: int = 0
    restored_tokens: int = 0
    stored_tokens: int = 0
    stores: int = 0
    evictions: int = 0
    disk_hits: int = 0

    @property
    def token_hit_rate(self) -> float:
        return self.matched_tokens / max(1, self.matched_tokens + self.stored_tokens)


class BlockStore:
    """Keeps up to `budget` bytes of blocks in memory, those used last, and more on a shelf. Threads share it."""

    def __init__(self, budget: int, shelf: Shelf | None = None) -> None:
        self._budget, self._shelf = budget, shelf
        self._most: int | None = None
        self._blocks: OrderedDict[str, Block] = OrderedDict()
        self._bytes = 0
        self._counts = PrefixCounts()
        self._lock = threading.RLock()

    @property
    def on(self) -> bool:
        return self._budget > 0 or self._shelf is not None

    @property
    def shelved(self) -> bool:
        """Whether there is a shelf."""
        return self._shelf is not None

    @property
    def nbytes(self) -> int:
        return self._bytes

    @property
    def budget(self) -> int:
        """Bytes that memory may take; a smaller one holds at once."""
        return self._budget

    @budget.setter
    def budget(self, budget: int) -> None:
        with self._lock:
            self._budget = budget if self._most is None else min(budget, self._most)
            self._make_room()

    def keep_within(self, most: int) -> None:
        """Never take more bytes than this, nor have more wait for the shelf."""
        self._most = most
        self.budget = self._budget
        if self._shelf is not None:
            self._shelf.most_pending = min(self._shelf.most_pending, most)

    @property
    def most_bytes(self) -> int:
        """The most that memory and what waits for the shelf can take. (Blocks that do both count twice.)"""
        return self._budget + (0 if self._shelf is None else self._shelf.most_pending)

    def __len__(self) -> int:
        return len(self._blocks)

    def find(self, keys: Sequence[str]) -> list[Block]:
        """The blocks of a prompt's beginning, as far as they are there. That of its end has to have its scores."""
        blocks = self._found(keys)
        if len(blocks) == len(keys) and blocks and blocks[-1].logits is None:
            blocks.pop()
        with self._lock:
            counts = self._counts
            counts.lookups_hit += bool(blocks)
            counts.lookups_miss += not blocks
            counts.exact_hits += bool(blocks) and len(blocks) == len(keys)
            counts.matched_tokens += blocks[-1].end if blocks else 0
            counts.restored_tokens += blocks[-1].end if blocks else 0
        return blocks

    def _found(self, keys: Sequence[str]) -> list[Block]:
        with self._lock:
            known = {key: self._blocks[key] for key in keys if key in self._blocks}
        if self._shelf is not None:
            shelf = self._shelf
            reached = itertools.takewhile(lambda key: key in known or key in shelf, keys)
            known |= self._fetched([key for key in reached if key not in known])
        used = list(itertools.takewhile(known.__contains__, keys))
        with self._lock:
            for key in reversed(used):  # the last block of a prompt is the first to go
                if key in self._blocks:
                    self._blocks.move_to_end(key)
        if self._shelf is not None:
            self._shelf.used(used)
        return [known[key] for key in used]

    def _fetched(self, keys: Sequence[str]) -> dict[str, Block]:
        assert self._shelf is not None, "there is a shelf"
        fetched = self._shelf.get(keys)
        with self._lock:
            self._counts.disk_hits += len(fetched)
        for key, block in fetched.items():
            self._keep(key, block)
        return fetched

    def put(self, key: str, block: Block, tokens: int) -> None:
        """Keep the block of `tokens` tokens, whose arrays have been evaluated."""
        with self._lock:
            known = self._blocks.get(key)
            if known is not None and (known.logits is not None or block.logits is None):
                return
            self._counts.stores += 1
            self._counts.stored_tokens += tokens
        self._keep(key, block)
        if self._shelf is not None:
            self._shelf.put(key, block)

    def _keep(self, key: str, block: Block) -> None:
        with self._lock:
            if block.nbytes > self._budget:
                return
            replaced = self._blocks.pop(key, None)
            if replaced is not None and block.logits is None:
                block = replaced  # which may have scores
            self._bytes += block.nbytes - (replaced.nbytes if replaced is not None else 0)
            self._blocks[key] = block
            self._make_room()

    def _make_room(self) -> None:
        while self._bytes > self._budget:
            _, oldest = self._blocks.popitem(last=False)
            self._bytes -= oldest.nbytes
            self._counts.evictions += 1

    def clear(self, *, disk: bool = False) -> None:
        """Forget what memory has and, on request, the shelf; the counts stay."""
        with self._lock:
            self._blocks.clear()
            self._bytes = 0
        if disk and self._shelf is not None:
            self._shelf.clear()

    def stats(self) -> dict[str, Any]:
        """Counts and sizes by mlx-vlm's names."""
        with self._lock:
            counts = {**asdict(self._counts), "token_hit_rate": self._counts.token_hit_rate}
            counts |= {"resident_bytes": self._bytes, "memory_max_bytes": self._budget, "pool_used": len(self._blocks)}
        return counts if self._shelf is None else {**counts, **self._shelf.stats()}
