"""The feature cache: what the tower and the connector made of an image is kept, so that it is made once."""

from __future__ import annotations

import hashlib
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

Key = tuple[Hashable, ...]
V = TypeVar("V")
MOST_BYTES = 1 << 30


def path_key(path: str | Path) -> Key:
    """A file, by where it is, when it was changed and how large it is: a file that was written anew is another one."""
    real = Path(os.path.realpath(path))
    state = real.stat()
    return ("path", os.path.normcase(real), state.st_mtime_ns, state.st_size)


def bytes_key(data: bytes) -> Key:
    """An encoded image, by its content."""
    return ("bytes", hashlib.sha256(data).hexdigest())


def pixels_key(rgb: NDArray[np.uint8]) -> Key:
    """A decoded image (H, W, 3), by its content."""
    return ("pixels", rgb.shape, hashlib.sha256(np.ascontiguousarray(rgb).data).hexdigest())


@dataclass(frozen=True, slots=True)
class CacheCounts:
    """What a cache has done so far."""

    hits: int = 0
    misses: int = 0
    evictions: int = 0


class FeatureCache(Generic[V]):
    """Keeps the `size` values that were used last, within `most_bytes` by what `weigh` tells of a value; 0 keeps none.
    Threads may share it.

    Values are given back as they are, to the bit: arrays are never changed once they are in here.
    """

    def __init__(self, size: int = 20, most_bytes: int = MOST_BYTES, weigh: Callable[[V], int] = lambda _: 0) -> None:
        self._size, self._most_bytes, self._weigh = size, most_bytes, weigh
        self._values: OrderedDict[Key, V] = OrderedDict()
        self._bytes = 0
        self._counts = CacheCounts()
        self._lock = threading.Lock()

    @property
    def size(self) -> int:
        """How many values are kept at most; fewer hold at once."""
        return self._size

    @size.setter
    def size(self, size: int) -> None:
        with self._lock:
            self._size = size
            self._make_room()

    @property
    def most_bytes(self) -> int:
        """How many bytes are kept at most; fewer hold at once."""
        return self._most_bytes if self._size else 0

    @most_bytes.setter
    def most_bytes(self, most: int) -> None:
        with self._lock:
            self._most_bytes = most
            self._make_room()

    @property
    def nbytes(self) -> int:
        return self._bytes

    @property
    def counts(self) -> CacheCounts:
        return self._counts

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: Key) -> V | None:
        """The value of `key`, or None; counted as a hit or a miss."""
        with self._lock:
            value = self._values.get(key)
            if value is None:
                self._counts = replace(self._counts, misses=self._counts.misses + 1)
            else:
                self._values.move_to_end(key)
                self._counts = replace(self._counts, hits=self._counts.hits + 1)
            return value

    def put(self, key: Key, value: V) -> None:
        """Keep a value; the ones not used for longest make room. One that is too large by itself is not kept."""
        with self._lock:
            self._drop(key)
            if self._size and self._weigh(value) <= self._most_bytes:
                self._values[key] = value
                self._bytes += self._weigh(value)
                self._make_room()

    def clear(self) -> None:
        """Forget all values; the counts stay."""
        with self._lock:
            self._values.clear()
            self._bytes = 0

    def _make_room(self) -> None:
        while len(self._values) > self._size or self._bytes > self._most_bytes:
            self._drop(next(iter(self._values)))
            self._counts = replace(self._counts, evictions=self._counts.evictions + 1)

    def _drop(self, key: Key) -> None:
        value = self._values.pop(key, None)
        self._bytes -= 0 if value is None else self._weigh(value)
