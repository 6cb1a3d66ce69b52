"""Right-to-left text from the order in which it stands on the line to the order in which it is read.

The Unicode bidirectional algorithm (UAX 9) the other way round, with what a printed line still tells: embedded Latin
words and numbers keep running left to right.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

_LETTERS = {"L": "L", "R": "R", "AL": "R", "EN": "D", "AN": "D", "ET": "T", "CS": "S", "ES": "E", "NSM": "M"}
_MIRRORED = str.maketrans("()[]{}<>«»", ")(][}{><»«")
_OPENING, _CLOSING = "([{<«", ")]}>»"


def logical_order(shown: Sequence[str], rtl: bool) -> list[tuple[int, bool]]:
    """How characters shown from left to right are read: (index into `shown`, is it read right to left).

    `shown` holds one string a glyph, and " " for a space; `rtl`: whether the line as a whole runs right to left.
    """
    levels = _levels([_kind(text) for text in shown], rtl, _is_arabic(shown))
    order = list(range(len(shown)))
    for level in range(1, max(levels, default=0) + 1):
        order = _reversed_at(order, levels, level)
    return [(i, levels[i] % 2 == 1) for i in order]


def mirror(text: str) -> str:
    """Brackets of a text turned to face the other way."""
    return text.translate(_MIRRORED)


def faces_wrong(text: str) -> bool:
    """Whether a text's brackets would pair better turned around."""
    return _pairs(mirror(text)) > _pairs(text)


def _pairs(text: str) -> int:
    """How many closing brackets find their opening one before them."""
    waiting: list[str] = []
    found = 0
    for char in text:
        if char in _OPENING:
            waiting.append(char)
        elif char in _CLOSING and waiting and waiting[-1] == _OPENING[_CLOSING.index(char)]:
            waiting.pop()
            found += 1
    return found


def _kind(text: str) -> str:
    """L, R, D (digit), T (sign at a number), S or E (within numbers), M (mark) or N (neutral)."""
    return _LETTERS.get(unicodedata.bidirectional(text[0]), "N") if text else "N"


def _is_arabic(shown: Sequence[str]) -> bool:
    return any(text and unicodedata.bidirectional(text[0]) == "AL" for text in shown)


def _levels(kinds: list[str], rtl: bool, arabic: bool) -> list[int]:
    """Embedding levels: odd ones run right to left."""
    kinds = _with_numbers(kinds, arabic)
    if rtl:
        return _spread([1] * len(kinds), kinds, "L", "LDNM", 2, also="D")
    levels = _spread([0] * len(kinds), kinds, "R", "RDNM", 1)
    return [2 if level and kind == "D" else level for level, kind in zip(levels, kinds, strict=True)]


def _with_numbers(kinds: list[str], arabic: bool) -> list[str]:
    """Signs that belong to a number counted as its digits, all others as neutral.

    A minus or plus between two numbers joins them in Hebrew but not in Arabic (UAX 9, rules W2 and W4).
    """
    kinds = list(kinds)
    joining = "S" if arabic else "SE"
    for i, kind in enumerate(kinds):
        before, after = kinds[i - 1] if i else "", kinds[i + 1] if i + 1 < len(kinds) else ""
        if (kind in joining and before == after == "D") or (kind == "T" and "D" in (before, after)):
            kinds[i] = "D"
    return ["N" if kind in "TSE" else kind for kind in kinds]


def _spread(levels: list[int], kinds: list[str], strong: str, inner: str, level: int, also: str = "") -> list[int]:
    """`levels` with `level` for each stretch of `inner` kinds from a `strong` one to the last; `also` stands alone."""
    start = 0
    while start < len(kinds):
        if kinds[start] != strong:
            if kinds[start] in also:
                levels[start] = level
            start += 1
            continue
        end = last = start
        while end < len(kinds) and kinds[end] in inner:
            last = end if kinds[end] in (strong, "D" if also else strong, "M") else last
            end += 1
        levels[start : last + 1] = [level] * (last + 1 - start)
        start = last + 1
    return levels


def _reversed_at(order: list[int], levels: list[int], level: int) -> list[int]:
    """`order` with every stretch of `level` or more turned around."""
    result: list[int] = []
    stretch: list[int] = []
    for i in order:
        if levels[i] >= level:
            stretch.append(i)
        else:
            result += [*reversed(stretch), i]
            stretch = []
    return result + stretch[::-1]
