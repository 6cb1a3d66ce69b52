"""Prompts that begin as an earlier one did: what was read of it need not be read again.

A prompt is read in chunks whose ends depend only on what stands before them. So the beginning that two prompts share is
cut alike in both, and going on from the last shared end gives the same numbers, to the bit, as reading all of it.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import mlx.core as mx
import numpy as np

from docai.nn.cache import Cache, RotatingCache
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

    def shared(self, other: Layout) -> int:
        """How many tokens both begin with, up to an end of a chunk in both."""
        common = _common(self.ids, other.ids)
        for image in self.images:
            if image.start < common and image not in other.images:
                common = image.start
        best = 0
        for end, theirs in zip(self.ends, other.ends, strict=False):
            if end != theirs or end > common:
                break
            best = end
        return best


def _common(a: Sequence[int], b: Sequence[int]) -> int:
    length = min(len(a), len(b))
    differ = np.flatnonzero(np.asarray(a[:length]) != np.asarray(b[:length]))
    return int(differ[0]) if len(differ) else length


def chunk_ends(length: int, images: Sequence[Span], step: int, *, whole_images: bool = False) -> tuple[int, ...]:
    """Where chunks of at most `step` tokens end in a prompt of `length` tokens.

    A chunk also ends behind an image, where the next question about it will begin to differ. `whole_images`: tokens of
    an image see each other, so no chunk may end within one, even if it becomes longer than `step`.
    """
    ends: list[int] = []
    start = 0
    while start < length:
        end = min(start + step, length)
        if whole_images:
            inner = next((image for image in images if image.start < end < image.stop), None)
            end = end if inner is None else inner.start if inner.start > start else inner.stop
        end = next((i.stop for i in images if start + SMALLEST <= i.stop < end), end)
        ends.append(end)
        start = end
    return tuple(ends)


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in a prompt that can be come back to: `offset` tokens into it, with copies of the caches that forget.

    `logits` (1, V) are the scores after the whole prompt, where this is its end.
    """

    offset: int
    copies: tuple[RotatingCache | None, ...]
    logits: mx.array | None = None

    @classmethod
    def of(cls, offset: int, caches: Sequence[Cache], logits: mx.array | None = None) -> Mark:
        return cls(offset, tuple(c.fork() if isinstance(c, RotatingCache) else None for c in caches), logits)

    def caches(self, now: Sequence[Cache]) -> list[Cache] | None:
        """The caches as they were at this place, made of what they are now; None where that cannot be had."""
        back: list[Cache] = []
        for cache, copy in zip(now, self.copies, strict=True):
            if copy is None and not cache.trim(cache.offset - self.offset):
                return None
            back.append(cache if copy is None else copy.fork())
        return back


@dataclass(frozen=True, slots=True)
class Kept:
    """A prompt that was read, with its caches, which have the answer too."""

    layout: Layout
    kind: Hashable  # what the caches were made with
    caches: Sequence[Cache]
    marks: tuple[Mark, ...]

    def mark(self, offset: int) -> Mark:
        """The mark at an end of a chunk; caches that forget nothing need none."""
        return next((mark for mark in self.marks if mark.offset == offset), Mark(offset, (None,) * len(self.caches)))


@dataclass(frozen=True, slots=True)
class Beginning:
    """What was found of a prompt: caches that hold its first `offset` tokens, and the marks up to there."""

    caches: list[Cache]
    offset: int = 0
    marks: tuple[Mark, ...] = ()

    @property
    def logits(self) -> mx.array | None:
        """The scores after the prompt, where the caches hold all of it."""
        return next((mark.logits for mark in self.marks if mark.offset == self.offset), None)


class PrefixStore:
    """Keeps the last `size` prompts that were read. A request takes one away and gives it back when it is done."""

    def __init__(self, size: int = 1) -> None:
        self.size = size
        self._kept: list[Kept] = []
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._kept)

    def take(self, layout: Layout, kind: Hashable) -> Beginning | None:
        """What the prompt has in common with the one kept that it shares most with."""
        with self._lock:
            shared = [(layout.shared(kept.layout), n) for n, kept in enumerate(self._kept) if kept.kind == kind]
            offset, number = max(shared, default=(0, 0))
            if not offset:
                return None
            kept = self._kept.pop(number)
        mark = kept.mark(offset)
        if offset == len(layout.ids) and mark.logits is None:
            return None
        caches = mark.caches(kept.caches)
        marks = tuple(mark for mark in kept.marks if mark.offset <= offset)
        return None if caches is None else Beginning(caches, offset, marks)

    def put(self, kept: Kept) -> None:
        """Keep a prompt; the oldest make room."""
        with self._lock:
            self._kept = [*self._kept, kept][-self.size :] if self.size else []

    def clear(self) -> None:
        """Forget all."""
        with self._lock:
            self._kept = []
