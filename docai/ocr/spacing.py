"""Words of a recognised line, from where its ink is: the recogniser tells characters, the pixels tell the gaps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from docai.writing import is_cjk

_SPECKS = 0.02  # of the line's height: less ink than this in a column of pixels is dirt
_GAP = 0.08  # of the line's height: a narrower gap parts no words
_SPACE = 0.85  # of the line's narrower spaces: a gap this wide between two letters is a space that was not read
_LONE_SPACE = 0.4  # of the line's height: the same, in a line that has no other space
_MOST, _OVER_LETTERS = 0.8, 1.5  # times the gap that most letters keep below (spaced-out type has wide ones everywhere)
_TAB = 1.5  # of the line's height: here two columns were taken for one line

Gap = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Piece:
    """A word and where it stands in the line image: `left` to `right` in pixels."""

    text: str
    left: float
    right: float


def pieces(text: str, places: Sequence[float], ink: NDArray[np.bool_]) -> list[list[Piece]]:
    """The words of a line; a list for each part of it that stands apart from the others.

    `places`: the middle of each character of `text`, 0..1; `ink`: pixels of the line (H, W) that belong to type.
    """
    height, width = ink.shape
    letters = [(char, place * width) for char, place in zip(text, places, strict=True) if not char.isspace()]
    if not letters:
        return []
    columns = ink.sum(axis=0) > _SPECKS * height
    gaps = _gaps(columns, _GAP * height)
    breaks = _breaks(_spaces(text), letters, gaps, height)
    edges = np.flatnonzero(columns)
    first, last = (float(edges[0]), float(edges[-1] + 1)) if len(edges) else (0.0, float(width))
    return _split(letters, breaks, (first, last), _TAB * height)


def _gaps(columns: NDArray[np.bool_], narrowest: float) -> list[Gap]:
    """Runs without ink between ink, in pixels."""
    inked = np.flatnonzero(columns)
    return [(int(a) + 1, int(b)) for a, b in pairwise(inked) if b - a - 1 >= narrowest]


def _spaces(text: str) -> set[int]:
    """After how many letters the recogniser wrote a space."""
    found, count = set(), 0
    for char in text.strip():
        count += not char.isspace()
        if char.isspace():
            found.add(count)
    return found


def _breaks(
    spaces: set[int], letters: list[tuple[str, float]], gaps: list[Gap], height: int
) -> dict[int, tuple[float, float]]:
    """After how many letters a word ends -> the gap there: at spaces that were read, and at gaps as wide as those."""
    breaks: dict[int, tuple[float, float]] = {}
    used: set[Gap] = set()
    for count in sorted(spaces):
        gap = _gap_at(count, letters, [gap for gap in gaps if gap not in used])
        used |= {gap} if gap else set()
        middle = (letters[count - 1][1] + letters[count][1]) / 2
        breaks[count] = (float(gap[0]), float(gap[1])) if gap else (middle, middle)
    rest = [gap for gap in gaps if gap not in used]
    least = _least_space([b - a for a, b in used], rest, len(letters), height)
    for gap in rest:
        count = sum(place < sum(gap) / 2 for _, place in letters)
        if not 0 < count < len(letters) or count in breaks:
            continue
        if _may_part(letters[count - 1][0], letters[count][0], (gap[1] - gap[0]) / least):
            breaks[count] = (float(gap[0]), float(gap[1]))
    return breaks


def _gap_at(count: int, letters: list[tuple[str, float]], gaps: list[Gap]) -> Gap | None:
    """The widest gap around the space after `count` letters; places of characters are off by up to half of one."""
    before, after = letters[count - 1][1], letters[count][1]
    slack = 0.25 * (after - before)
    near = [gap for gap in gaps if before - slack <= sum(gap) / 2 <= after + slack]
    return max(near, key=lambda gap: gap[1] - gap[0], default=None)


def _least_space(spaces: list[int], rest: list[Gap], count: int, height: int) -> float:
    """How wide a gap must be, in pixels, to be a space that was not read."""
    pairs = max(1, count - 1 - len(spaces))
    between = sorted([0] * (pairs - len(rest)) + [b - a for a, b in rest])
    letter = between[int(_MOST * len(between))]
    least = _SPACE * sorted(spaces)[len(spaces) // 4] if len(spaces) >= 2 else _LONE_SPACE * height
    return max(least, _OVER_LETTERS * letter)


def _may_part(before: str, after: str, width: float) -> bool:
    """Whether a space can stand between two characters; `width` of the gap over the least width of a space."""
    if is_cjk(before) or is_cjk(after):
        return width > 3
    if after in ",.;:!?)]}%" or before in "([{":
        return width > 2
    return width > (1.5 if before.isdigit() and after.isdigit() else 1)


def _split(
    letters: list[tuple[str, float]],
    breaks: dict[int, tuple[float, float]],
    outer: tuple[float, float],
    tab: float,
) -> list[list[Piece]]:
    """Words between breaks, in a new list after each gap of `tab` pixels."""
    parts: list[list[Piece]] = [[]]
    start, left = 0, outer[0]
    for count in [*sorted(breaks), len(letters)]:
        end, following = breaks.get(count, (outer[1], outer[1]))
        parts[-1].append(Piece("".join(char for char, _ in letters[start:count]), left, max(left, end)))
        start, left = count, following
        if following - end >= tab:
            parts.append([])
    return [part for part in parts if part]
