"""Sets of characters, looked up for all glyphs of a page at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.uint32]
Mask = NDArray[np.bool_]


class CodeSet:
    """Some Unicode characters. Called with codes (n,), it tells which of them it has (n,)."""

    def __init__(self, *members: int | range | str) -> None:
        parts = [range(ord(c), ord(c) + 1) for m in members if isinstance(m, str) for c in m]
        parts += [m if isinstance(m, range) else range(m, m + 1) for m in members if not isinstance(m, str)]
        self._has = np.zeros(max(part.stop for part in parts) + 1, np.bool_)  # the last place: all codes beyond
        for part in parts:
            self._has[part.start : part.stop] = True

    def __call__(self, codes: Codes) -> Mask:
        return self._has.take(codes, mode="clip")


# White space of every width.
is_blank = CodeSet(0x09, 0x0A, 0x0D, 0x20, 0xA0, 0x1680, range(0x2000, 0x200C), 0x202F, 0x205F, 0x3000)

# Marks of direction and joining that draw nothing.
is_formatting = CodeSet(0x200D, 0x200E, 0x200F, range(0x202A, 0x202F), 0x2060, range(0x2066, 0x206A), 0xFEFF)

# Chinese and Japanese characters and their full-width signs, which stand without spaces.
is_east_asian = CodeSet(
    *(range(0x2E80, 0x3200), range(0x3400, 0xA000), range(0xF900, 0xFB00), range(0xFE30, 0xFE50)),
    *(range(0xFF00, 0xFFF0), range(0x20000, 0x40000)),
)

# Letters of the scripts that run right to left, not their digits.
is_right_to_left = CodeSet(
    *(range(0x590, 0x660), range(0x66A, 0x6F0), range(0x6FA, 0x900), range(0xFB1D, 0xFE00)),
    *(range(0xFE70, 0xFEFD), range(0x10800, 0x11000)),
)

_SAYS_NOTHING = CodeSet(range(0x20), range(0x7F, 0xA0), range(0xD800, 0xE000), range(0xFFF0, 0x10000))


def is_bad(codes: Codes) -> Mask:
    """Codes that say nothing: controls, surrogates, U+FFFD, places that Unicode leaves empty."""
    return _SAYS_NOTHING(codes) | (codes > 0x10FFFF)


def is_private(codes: Codes) -> Mask:
    """Private-use characters: only their own font knows what they show."""
    return ((codes >= 0xE000) & (codes <= 0xF8FF)) | ((codes >= 0xF0000) & (codes <= 0x10FFFD))
