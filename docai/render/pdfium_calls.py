"""pdfium functions that are called thousands of times a page, bound for speed.

pypdfium2's own bindings check and wrap every argument, which costs several times the work itself. The same entry
points are bound here bare: pointers travel as `Handle`s or ctypes arrays, integers as C ints, and nothing is checked.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from functools import cache
from itertools import islice
from typing import Any, cast

import numpy as np
import pypdfium2.raw as raw
from numpy.typing import NDArray

_CHUNK = 4096  # rows that are asked for at once


class Handle(ctypes.c_void_p):
    """A pointer of pdfium's. ctypes turns plain `c_void_p` results into ints, but leaves a subclass alone."""


def handle_of(pointer: object) -> Handle:
    """What one of pypdfium2's typed pointers points to."""
    return Handle(ctypes.cast(pointer, ctypes.c_void_p).value)  # type: ignore[arg-type]


def bare(name: str, result: Any = ctypes.c_int) -> Callable[..., Any]:
    """A pdfium function without argument checks. It keeps the interpreter lock, so it must be a quick one."""
    address = ctypes.cast(getattr(raw, name), ctypes.c_void_p).value
    assert address is not None
    function: Any = ctypes.PYFUNCTYPE(result)(address)
    function.argtypes = None  # each argument is converted by its own type
    return cast("Callable[..., Any]", function)


@cache
def _slots(kind: Any, pointers: int, width: int) -> tuple[NDArray[Any], list[list[Any]]]:
    """Places for results: an array (chunk, pointers, width), and for each pointer what ctypes passes, row by row."""
    block = (((kind * width) * pointers) * _CHUNK)()
    return np.ctypeslib.as_array(block), [[row[i] for row in block] for i in range(pointers)]


def table(
    call: Callable[..., int], inputs: Iterable[Iterable[Any]], count: int, kind: Any, pointers: int = 1, width: int = 1
) -> tuple[NDArray[np.int32], NDArray[Any]]:
    """Call a function `count` times and gather what it writes through its last arguments.

    `inputs`: for each leading argument its `count` values. Behind them come `pointers` pointers, through each of which
    the function writes `width` values of the C type `kind`. Returns the integers (count,) that the calls returned and
    the values (count, pointers * width), zero where a call wrote nothing.
    """
    streams = [iter(values) for values in inputs]
    array, slots = _slots(kind, pointers, width)
    returned, written = np.zeros(count, np.int32), np.zeros((count, pointers * width), array.dtype)
    for start in range(0, count, _CHUNK):
        size = min(_CHUNK, count - start)
        array[:size] = 0
        arguments = (*(islice(stream, size) for stream in streams), *(places[:size] for places in slots))
        returned[start : start + size] = each(call, arguments, "int32", size)
        written[start : start + size] = array[:size].reshape(size, -1)
    return returned, written


def each(call: Callable[..., Any], inputs: Iterable[Iterable[Any]], kind: str, count: int) -> NDArray[Any]:
    """The plain results of `count` calls, as an array of `kind`."""
    return np.fromiter(map(call, *inputs), kind, count)
