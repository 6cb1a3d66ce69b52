"""Lines that run on over the gutter between two columns, as recognisers join them, and equations with their numbers."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import median

from docai.geometry import union
from docai.types import Line, Word

_WIDE = 0.6  # sizes of white within a line that may be a gutter
_WIDER = 1.8  # times the usual space of the line: justified lines have wide spaces everywhere
_FEWEST = 8  # lines on either side of a gutter
_CROSSING = 0.15  # of the lines on both sides may cross it


def parted(lines: Sequence[Line]) -> list[Line]:
    """The lines, those cut in two that have a wide gap just where the page has a gutter."""
    gaps = {n: gap for n, line in enumerate(lines) if (gap := _widest_gap(line)) is not None}
    if not gaps:
        return list(lines)
    lefts, rights = sorted(line.box.l for line in lines), sorted(line.box.r for line in lines)
    out: list[Line] = []
    for n, line in enumerate(lines):
        if n in gaps and _is_gutter(line.words[gaps[n] - 1].box.r, line.words[gaps[n]].box.l, lefts, rights):
            out += [_of_words(line, line.words[: gaps[n]]), _of_words(line, line.words[gaps[n] :])]
        else:
            out.append(line)
    return out


def _widest_gap(line: Line) -> int | None:
    """The word of a horizontal line before which it has a gap much wider than its other spaces."""
    if len(line.words) < 2 or line.vertical or line.angle:
        return None
    spaces = [after.box.l - before.box.r for before, after in pairwise(line.words)]
    widest = max(spaces)
    if widest < _WIDE * line.size or (len(spaces) > 1 and widest < _WIDER * median(spaces)):
        return None
    return spaces.index(widest) + 1


def _is_gutter(left: float, right: float, lefts: Sequence[float], rights: Sequence[float]) -> bool:
    """Whether columns end before `right` and begin after `left`. `lefts`, `rights`: edges of all lines, sorted."""
    before, after = bisect_right(rights, right), len(lefts) - bisect_left(lefts, left)
    return min(before, after) >= _FEWEST and len(lefts) - before - after <= _CROSSING * (before + after)


def _of_words(line: Line, words: tuple[Word, ...]) -> Line:
    text = " ".join(word.text for word in words)
    return replace(line, text=text, words=words, box=union(word.box for word in words))
