"""How a decoding process and its parent talk: a JSON header, then raw bytes.

A message is two little-endian uint32 (header length, number of parts), a uint64 length for each part, the header as
JSON, and the parts. Neither side evaluates what it receives: the child runs native code on untrusted files, and a
child that has been taken over can send wrong numbers but no objects.
"""

from __future__ import annotations

import json
import os
import select
import struct
import time
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

_HEAD = struct.Struct("<II")
_MOST_HEADER = 64 << 20
_MOST_BYTES = 2 << 30  # of all parts
_CHUNK = 1 << 20
_DTYPES = frozenset({"uint8", "uint32", "int16", "int32", "float32", "float64"})

Parts = Sequence[bytes | memoryview]


class Closed(Exception):
    """The other side has gone."""


class TimedOut(Exception):
    """No (whole) message came in time."""


class Malformed(Exception):
    """What came is no message of ours."""


def send(fd: int, header: dict[str, Any], parts: Parts = (), deadline: float | None = None) -> None:
    """Write a message, until `deadline` (of time.monotonic; `fd` must not block then).

    Raises Closed where nobody reads, or TimedOut.
    """
    text = json.dumps(header).encode()
    lengths = [len(part) for part in parts]
    pieces = [_HEAD.pack(len(text), len(parts)), _lengths(len(parts)).pack(*lengths), text, *parts]
    if sum(lengths) < _CHUNK:  # in one piece, so that the other side is woken once
        pieces = [b"".join(pieces)]
    try:
        for piece in pieces:
            _write(fd, piece, deadline)
    except BrokenPipeError as error:
        raise Closed from error


def _lengths(count: int) -> struct.Struct:
    return struct.Struct(f"<{count}Q")


def _write(fd: int, data: bytes | memoryview, deadline: float | None) -> None:
    view = memoryview(data)
    while view:
        if deadline is not None:
            _wait(deadline, writable=[fd])
        view = view[os.write(fd, view[:_CHUNK]) :]


def _wait(deadline: float, *, readable: Sequence[int] = (), writable: Sequence[int] = ()) -> None:
    if not any(select.select(readable, writable, [], max(0.0, deadline - time.monotonic()))):
        raise TimedOut


def receive(fd: int, deadline: float | None = None) -> tuple[dict[str, Any], list[memoryview]]:
    """Read a message, until `deadline` (of time.monotonic). Raises Closed, TimedOut or Malformed."""
    length, count = _HEAD.unpack(_read(fd, _HEAD.size, deadline))
    if length > _MOST_HEADER or count > 64:
        raise Malformed(f"header of {length} bytes, {count} parts")
    lengths = _lengths(count).unpack(_read(fd, 8 * count, deadline))
    if sum(lengths) > _MOST_BYTES:
        raise Malformed(f"parts of {sum(lengths)} bytes")
    try:
        header = json.loads(bytes(_read(fd, length, deadline)))
    except ValueError as error:
        raise Malformed(str(error)) from error
    if not isinstance(header, dict):
        raise Malformed("no header")
    data = memoryview(_read(fd, sum(lengths), deadline))
    return header, [data[start:end] for start, end in pairwise(accumulate(lengths, initial=0))]


def _read(fd: int, length: int, deadline: float | None) -> bytearray:
    data = bytearray(length)
    view = memoryview(data)
    while view:
        if deadline is not None:
            _wait(deadline, readable=[fd])
        got = os.readv(fd, [view[:_CHUNK]])
        if got == 0:
            raise Closed
        view = view[got:]
    return data


def pack_array(array: NDArray[Any]) -> tuple[dict[str, Any], memoryview]:
    """An array as (what to say of it in the header, its bytes)."""
    array = np.ascontiguousarray(array)
    part = array.data.cast("B") if array.size else memoryview(b"")  # an empty view cannot be cast
    return {"dtype": str(array.dtype), "shape": list(array.shape)}, part


def unpack_array(said: dict[str, Any], part: bytes | bytearray | memoryview) -> NDArray[Any]:
    """The array that a header describes. Raises Malformed where the bytes do not fit it."""
    try:
        dtype, shape = str(said["dtype"]), tuple(int(n) for n in said["shape"])
        if dtype not in _DTYPES or any(n < 0 for n in shape):
            raise Malformed(f"array of {dtype} {shape}")
        return np.frombuffer(part, dtype=dtype).reshape(shape)
    except (KeyError, TypeError, ValueError) as error:
        raise Malformed(str(error)) from error
