"""Where lines of print lie in a picture, told by its ink alone: the XY cut of Nagy and Seth (1984).

A picture is cut along white that runs right through it: between columns first, then at the widest gap between rows,
until a single line is left.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from docai.ocr.ink import inked

if TYPE_CHECKING:
    from docai.types import RGB

_GUTTER = 0.012  # of the width of the whole: white between columns is that wide at least
_ROWS = 3  # lines that each side of a gutter has at least: words of few lines may part by chance
_LOW = 0.4  # of the usual height: lower rows are accents, dots and rules, and belong to the line beside them
_SPECK = 2  # pixels of ink in a row or column that are none
_DENSE, _PITCH = 50, 5  # so many rows nearer to each other, in pixels, are a pattern and no lines
_FINE = 1200  # pixels of a side from which on a picture is looked at more coarsely


class Strip(NamedTuple):
    """A line of print, in pixels of its picture; `ink`: columns that have any, a measure of its letters."""

    left: int
    top: int
    right: int
    bottom: int
    ink: int


def strips(pixels: RGB) -> list[Strip]:
    """The lines of a picture (H, W, 3), in reading order as far as columns tell it; rows of several side by side are
    one.
    """
    if not pixels.size:
        return []
    step = 1 + max(pixels.shape[:2]) // _FINE
    grey = cv2.cvtColor(np.ascontiguousarray(pixels), cv2.COLOR_RGB2GRAY)
    marks = _coarse(inked(grey.astype(np.float32)), step)
    found = _joined(_cut(marks, 0, 0, max(8 // step, round(_GUTTER * marks.shape[1]))))
    return [Strip(*(step * number for number in strip)) for strip in found]


def _coarse(marks: NDArray[np.bool_], step: int) -> NDArray[np.bool_]:
    """One point for `step` x `step` of them, inked where one of those on its diagonal is."""
    height, width = (side // step * step for side in marks.shape)
    out = marks[:height:step, :width:step].copy()
    for n in range(1, step):
        out |= marks[n:height:step, n:width:step]
    return out


def _cut(marks: NDArray[np.bool_], top: int, left: int, gutter: int) -> list[Strip]:
    """The lines of a part whose upper left corner lies there."""
    rows, columns = _runs(marks.sum(axis=1)), _runs(marks.sum(axis=0))
    if not rows or not columns or (len(rows) > _DENSE and marks.shape[0] < _PITCH * len(rows)):
        return []
    if len(rows) == 1:
        across = _widest(columns)
        if across is not None and across[1] - across[0] >= gutter and _tall(marks):
            return _sides(marks, across, top, left, gutter)
        (first, last), ink = rows[0], int((marks.sum(axis=0) > 0).sum())
        return [Strip(left + columns[0][0], top + first, left + columns[-1][1], top + last, ink)]
    between = _gutter(marks, columns, gutter)
    if between is not None:
        return _sides(marks, between, top, left, gutter)
    gap = _widest(rows)
    assert gap is not None, "there are several rows"
    middle = (gap[0] + gap[1]) // 2
    return _cut(marks[:middle], top, left, gutter) + _cut(marks[middle:], top + middle, left, gutter)


def _sides(marks: NDArray[np.bool_], gap: tuple[int, int], top: int, left: int, gutter: int) -> list[Strip]:
    middle = (gap[0] + gap[1]) // 2
    return _cut(marks[:, :middle], top, left, gutter) + _cut(marks[:, middle:], top, left + middle, gutter)


def _tall(marks: NDArray[np.bool_]) -> bool:
    """Whether what looks like one row has several on one of its sides, which do not stand level with each other."""
    half = marks.shape[1] // 2
    return max(len(_runs(side.sum(axis=1))) for side in (marks[:, :half], marks[:, half:])) >= _ROWS


def _gutter(marks: NDArray[np.bool_], columns: list[tuple[int, int]], least: int) -> tuple[int, int] | None:
    """The widest white between columns of several lines each."""
    gaps = sorted(_gaps(columns), key=lambda gap: gap[0] - gap[1])
    for first, last in gaps:
        if last - first < least:
            return None
        if all(len(_runs(side.sum(axis=1))) >= _ROWS for side in (marks[:, :first], marks[:, last:])):
            return first, last
    return None


def _runs(counts: NDArray[np.integer]) -> list[tuple[int, int]]:
    """From and to of what has ink."""
    edges = np.flatnonzero(np.diff((counts > _SPECK).astype(np.int8), prepend=0, append=0))
    return [(int(a), int(b)) for a, b in edges.reshape(-1, 2)]


def _gaps(runs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    return [(above[1], below[0]) for above, below in pairwise(runs)]


def _widest(runs: list[tuple[int, int]]) -> tuple[int, int] | None:
    return max(_gaps(runs), key=lambda gap: gap[1] - gap[0], default=None)


def _joined(lines: list[Strip]) -> list[Strip]:
    """Low strips joined with the line that is nearest, above or below."""
    if not lines:
        return []
    usual = float(np.median([line.bottom - line.top for line in lines]))
    kept: list[Strip] = []
    waiting: Strip | None = None  # one that belongs to the line below it
    for number, line in enumerate(lines):
        if waiting is not None:
            line, waiting = _both(waiting, line), None
        if line.bottom - line.top >= _LOW * usual:
            kept.append(line)
            continue
        above = _apart(kept[-1], line) if kept else np.inf
        below = _apart(line, lines[number + 1]) if number + 1 < len(lines) else np.inf
        if above <= below < np.inf or (above < np.inf and below == np.inf):
            kept[-1] = _both(kept[-1], line)
        elif below < np.inf:
            waiting = line
        else:
            kept.append(line)
    return kept


def _apart(above: Strip, below: Strip) -> float:
    """Rows between two strips of one column; infinite for others."""
    aside = min(above.right, below.right) <= max(above.left, below.left)
    return np.inf if aside or below.top < above.top else float(below.top - above.bottom)


def _both(a: Strip, b: Strip) -> Strip:
    return Strip(
        min(a.left, b.left), min(a.top, b.top), max(a.right, b.right), max(a.bottom, b.bottom), max(a.ink, b.ink)
    )
