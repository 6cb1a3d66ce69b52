"""The few pdfium functions that are called once a character, bound for speed.

pypdfium2's own bindings wrap pointers in objects; called thousands of times a page that costs more than the work
itself. The same entry points are bound here to plain integers.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import pypdfium2.raw as raw


def _bind(name: str, result: type | None, *arguments: type) -> Callable[..., Any]:
    address = ctypes.cast(getattr(raw, name), ctypes.c_void_p).value
    assert address is not None
    return ctypes.CFUNCTYPE(result, *arguments)(address)


_P, _I = ctypes.c_void_p, ctypes.c_int

get_unicode = _bind("FPDFText_GetUnicode", ctypes.c_uint, _P, _I)
get_text_object = _bind("FPDFText_GetTextObject", _P, _P, _I)
get_loose_box = _bind("FPDFText_GetLooseCharBox", _I, _P, _I, _P)


def address_of(pointer: object) -> int:
    """The address that one of pypdfium2's pointers holds."""
    return ctypes.cast(pointer, ctypes.c_void_p).value or 0  # type: ignore[arg-type]
