"""Columns of running text: a gutter down the page that only titles, wide tables and figures cross.

Cutting by white space alone loses a gutter where something short stands in it or beside it (an equation's number, the
last row of a column); for pages of prose the gutter is known from all lines together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from docai.geometry import union
from docai.layout.rows import Rect
from docai.types import Line, Word

_FEWEST = 6  # lines on either side: fewer make no column
_FILLED = 0.62  # of its column that the median line takes: prose does, cells and form fields do not
_NARROWEST = 0.8  # em of white between columns
_CROSSING = 0.4  # of all lines: more, and the page is no page of columns


@dataclass(frozen=True, slots=True)
class Gutter:
    """A vertical strip between two columns, in flow coordinates."""

    left: float
    right: float

    def side(self, rect: Rect) -> int:
        """-1 left of it, 1 right of it, 0 across."""
        if rect[2] <= self.right and rect[0] < self.left:
            return -1
        return 1 if rect[0] >= self.left and rect[2] > self.right else 0


def parted(lines: Sequence[Line], em: float) -> list[Line]:
    """The lines, those cut in two that run over the page's gutter with white in it: an equation's number, say, and
    the next column's line at the same height.
    """
    gutter = _gutter([line.box.as_tuple() for line in lines], em)
    return list(lines) if gutter is None else [part for line in lines for part in _at_gutter(line, gutter, em)]


def _at_gutter(line: Line, gutter: Gutter, em: float) -> list[Line]:
    sides = [gutter.side(word.box.as_tuple()) for word in line.words]
    if gutter.side(line.box.as_tuple()) != 0 or 0 in sides or sides != sorted(sides) or len(set(sides)) < 2:
        return [line]
    cut = sides.index(1)
    if line.words[cut].box.l - line.words[cut - 1].box.r < _NARROWEST * em:
        return [line]  # a space between the words of a title
    return [_of_words(line, line.words[:cut]), _of_words(line, line.words[cut:])]


def _of_words(line: Line, words: tuple[Word, ...]) -> Line:
    text = " ".join(word.text for word in words)
    return replace(line, text=text, words=words, box=union(word.box for word in words))


def sections(rects: Sequence[Rect], lines: int, em: float) -> list[list[int]]:
    """Indices of `rects` (the first `lines` of which are lines) in zones to be read one after the other.

    Within a zone there is one column; zones come in reading order. One zone where the page has no columns of prose.
    """
    return _cut(list(range(len(rects))), rects, lines, em)


def _cut(zone: list[int], rects: Sequence[Rect], lines: int, em: float) -> list[list[int]]:
    gutter = _gutter([rects[i] for i in zone if i < lines], em)
    if gutter is None:
        return [zone]
    out: list[list[int]] = []
    sides: dict[int, list[int]] = {-1: [], 1: []}
    for i in sorted(zone, key=lambda n: (rects[n][1], rects[n][0])):
        side = gutter.side(rects[i])
        if side:
            sides[side].append(i)
            continue
        out += _columns(sides, rects, lines, em)
        sides = {-1: [], 1: []}
        if out and out[-1] and all(gutter.side(rects[n]) == 0 for n in out[-1]):
            out[-1].append(i)
        else:
            out.append([i])
    return [part for part in [*out, *_columns(sides, rects, lines, em)] if part]


def _columns(sides: dict[int, list[int]], rects: Sequence[Rect], lines: int, em: float) -> list[list[int]]:
    return [part for side in (-1, 1) if sides[side] for part in _cut(sides[side], rects, lines, em)]


def _gutter(lines: Sequence[Rect], em: float) -> Gutter | None:
    """The strip that the fewest lines cross, with a column of prose on each side of it."""
    if len(lines) < 2 * _FEWEST:
        return None
    best: tuple[int, float, Gutter] | None = None
    for gutter in _candidates(lines, em):
        crossing = sum(gutter.side(r) == 0 for r in lines)
        if crossing <= _CROSSING * len(lines) and _has_columns(gutter, lines):
            rank = (crossing, -(gutter.right - gutter.left))
            if best is None or rank < best[:2]:
                best = (*rank, gutter)
    return best[2] if best else None


def _candidates(lines: Sequence[Rect], em: float) -> list[Gutter]:
    """Strips between where many lines end and where many begin."""
    starts = _common([r[0] for r in lines], em)
    ends = [r[2] for r in lines]
    found = []
    for start in starts:
        before = [e for e in ends if e <= start - _NARROWEST * em]
        if len(before) >= _FEWEST:
            found.append(Gutter(max(before), start - 0.05 * em))
    return found


def _common(values: Sequence[float], em: float) -> list[float]:
    """Left edges that at least a few lines share."""
    ordered = sorted(values)
    groups: list[list[float]] = []
    for value in ordered:
        if groups and value - groups[-1][-1] <= 0.3 * em:
            groups[-1].append(value)
        else:
            groups.append([value])
    return [group[0] for group in groups if len(group) >= _FEWEST // 2]


def _has_columns(gutter: Gutter, lines: Sequence[Rect]) -> bool:
    for side in (-1, 1):
        column = [r for r in lines if gutter.side(r) == side]
        if len(column) < _FEWEST:
            return False
        width = max(r[2] for r in column) - min(r[0] for r in column)
        if median(r[2] - r[0] for r in column) < _FILLED * width:
            return False
    return True
