"""Tables that ruling lines mark: grids of crossing rules, and text in columns between horizontal ones."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from docai.geometry import inside, union
from docai.layout.captions import is_caption
from docai.layout.gaps import open_gaps
from docai.layout.grid import Piece, Track, is_number, pieces_of, visual_rows
from docai.types import Box, Line

_MOST_RUNS = 3000  # a page with more ruling lines is a map or a plot
_CLOSED = 0.8  # share of the ends of a grid's rules that meet another rule
_FILLED = 0.3  # share of a grid's places that hold text; charts and their gridlines have less


def grids(flat: Sequence[Track], upright: Sequence[Track], lines: Sequence[Line], em: float) -> list[Box]:
    """Boxes of grids whose rules cross, with text in at least two rows and two columns."""
    rows = [(track.at, a, b) for track in flat for a, b in track.runs if b - a > em]
    columns = [(track.at, a, b) for track in upright for a, b in track.runs if b - a > 0.7 * em]
    if len(rows) < 2 or not columns or len(rows) + len(columns) > _MOST_RUNS:
        return []
    found = []
    for ys, xs in _crossing(rows, columns, 0.5 * em):
        box = Box(
            min([r[1] for r in ys] + [c[0] for c in xs]),
            min([r[0] for r in ys] + [c[1] for c in xs]),
            max([r[2] for r in ys] + [c[0] for c in xs]),
            max([r[0] for r in ys] + [c[2] for c in xs]),
        )
        if _closed(ys, xs, em) and _is_grid(box, [r[0] for r in ys], [c[0] for c in xs], lines, em):
            found.append(box)
    return [box for box in found if not any(other is not box and inside(box, other) > 0.9 for other in found)]


Run = tuple[float, float, float]  # at, start, end


def _crossing(rows: Sequence[Run], columns: Sequence[Run], slack: float) -> list[tuple[list[Run], list[Run]]]:
    """Groups of horizontal and vertical runs that touch each other."""
    h, v = np.array(rows), np.array(columns)
    touch = (h[:, None, 1] - slack <= v[None, :, 0]) & (v[None, :, 0] <= h[:, None, 2] + slack)
    touch &= (v[None, :, 1] - slack <= h[:, None, 0]) & (h[:, None, 0] <= v[None, :, 2] + slack)
    group = np.arange(len(rows))
    while True:  # the lowest number of its group spreads to each run
        by_column = np.where(touch, group[:, None], len(rows)).min(axis=0)
        spread = np.minimum(group, np.where(touch, by_column[None, :], len(rows)).min(axis=1))
        if (spread == group).all():
            break
        group = spread
    pairs = []
    for number in np.unique(group):
        ys = [rows[i] for i in np.flatnonzero(group == number).tolist()]
        xs = [columns[j] for j in np.flatnonzero(by_column == number).tolist()]
        if len(ys) > 1 and xs:
            pairs.append((ys, xs))
    return pairs


def _closed(ys: Sequence[Run], xs: Sequence[Run], em: float) -> bool:
    """Whether most rules end where the outermost ones do, or at a rule across; the lines of a drawing end anywhere."""
    slack = 0.4 * em
    columns, rows = {c[0] for c in xs}, {r[0] for r in ys}
    columns |= {min(r[1] for r in ys), max(r[2] for r in ys)}
    rows |= {min(c[1] for c in xs), max(c[2] for c in xs)}
    ends = [any(abs(x - c) < slack for c in columns) for r in ys for x in r[1:]]
    ends += [any(abs(y - r) < slack for r in rows) for c in xs for y in c[1:]]
    return sum(ends) >= _CLOSED * len(ends)


def _is_grid(box: Box, ys: Sequence[float], xs: Sequence[float], lines: Sequence[Line], em: float) -> bool:
    """Whether a grid has at least two rows and columns with text, and text in a good part of its places."""
    ys, xs = _apart([box.t, *ys, box.b], 0.5 * em), _apart([box.l, *xs, box.r], 0.8 * em)
    if len(ys) < 3 or len(xs) < 3:
        return False
    held = [line for line in lines if inside(line.box, box) >= 0.7]
    if is_code(held) or _labels(held):
        return False
    places = set()
    for line in held:
        for word in (line.box,) if line.angle or not line.words else [w.box for w in line.words]:
            places.add((bisect_right(ys, word.cy), bisect_right(xs, word.cx)))
    rows, columns = {r for r, _ in places}, {c for _, c in places}
    total = (len(ys) - 1) * (len(xs) - 1)
    return len(rows) > 1 and len(columns) > 1 and len(places) >= min(_FILLED * total, 60)


def _labels(lines: Sequence[Line]) -> bool:
    """Whether texts are the letters that name the parts of a diagram."""
    return sum(len(line.text) <= 2 and not is_number(line.text) for line in lines) > 0.5 * len(lines)


def _apart(values: Sequence[float], least: float) -> list[float]:
    """Sorted values with those left out that lie closer than `least` to the one before."""
    found: list[float] = []
    for value in sorted(values):
        if not found or value - found[-1] >= least:
            found.append(value)
    return found


@dataclass(frozen=True, slots=True)
class Stack:
    """Horizontal rules of one width under each other."""

    left: float
    right: float
    ys: list[float]


def stacks(flat: Sequence[Track], em: float) -> list[Stack]:
    """Rules that begin and end together, at least two in a stack; the widest stack first."""
    found: list[Stack] = []
    for track in flat:
        for left, right in track.runs:
            if right - left < 8 * em:
                continue
            for stack in found:
                if abs(stack.left - left) < 1.2 * em and abs(stack.right - right) < 1.2 * em:
                    stack.ys.append(track.at)
                    break
            else:
                found.append(Stack(left, right, [track.at]))
    stacked = [stack for stack in found if len(stack.ys) > 1]
    return sorted(stacked, key=lambda stack: stack.left - stack.right)


def between_rules(stack: Stack, lines: Sequence[Line], em: float) -> list[Box]:
    """Tables of a stack: runs of rules with text in columns between them."""
    ys = _apart(sorted(stack.ys), 0.4 * em)
    parts = [_rows_between(stack, t, b, lines, em) for t, b in pairwise(ys)]
    turned = [line.box for line in lines if line.angle]
    fits = [
        _in_columns(part, turned, stack, em) if part else b - t < 1.5 * em
        for part, (t, b) in zip(parts, pairwise(ys), strict=True)
    ]
    found, start = [], 0
    while start < len(parts):
        end = start
        while end < len(parts) and fits[end]:
            end += 1
        rows = [row for part in parts[start:end] for row in part]
        if end > start and _is_table(rows, em):
            found.append(Box(stack.left, ys[start], stack.right, ys[end]))
        start = max(end, start + 1)
    return found


def _rows_between(stack: Stack, top: float, bottom: float, lines: Sequence[Line], em: float) -> list[list[Piece]]:
    left, right = stack.left - em, stack.right + em
    held = [line for line in lines if line.angle == 0 and top < line.box.cy < bottom and left < line.box.cx < right]
    return visual_rows([piece for line in held for piece in pieces_of(line, 0.6 * em)])


def _in_columns(rows: Sequence[Sequence[Piece]], turned: Sequence[Box], stack: Stack, em: float) -> bool:
    """Whether the text between two rules could be part of a table: rows in columns, or the title of a section."""
    width = stack.right - stack.left
    if any(is_caption(row[0].line.text) for row in rows[1:]):
        return False
    if len(rows) <= 2:
        return all(len(row) > 1 or row[0].box.width < 0.9 * width for row in rows)
    boxes = [union(p.box for p in row) for row in rows]
    beside = [t for t in turned if stack.left < t.cx < stack.right]
    empty = [b.t - a.b for a, b in pairwise(boxes) if not any(t.b > a.b and t.t < b.t for t in beside)]
    if any(gap > 3 * em for gap in empty) or any(p.line.size > 1.5 * em for row in rows for p in row):
        return False
    several = sum(len(row) > 1 for row in rows)
    wide = sum(len(row) == 1 and row[0].box.width > 0.6 * width for row in rows)
    loose = sum(len(row) == 1 and b.t - a.b > 0.6 * em for row, (a, b) in zip(rows[1:], pairwise(boxes), strict=True))
    return several > 0 and wide <= 0.2 * len(rows) and loose <= 1 + 0.2 * len(rows)


def _is_table(rows: Sequence[Sequence[Piece]], em: float) -> bool:
    several = [row for row in rows if len(row) > 1]
    if len(several) < 2 or len(several) < 0.3 * len(rows) or is_code([p.line for row in rows for p in row]):
        return False
    gaps = [gap for gap in open_gaps(rows, em) if gap.support >= 0.6 * len(several) and gap.width > 0.5 * em]
    return bool(gaps) and not _running(rows, em)


def _running(rows: Sequence[Sequence[Piece]], em: float) -> bool:
    """Whether rows are columns of running text: long lines that fill their columns."""
    pieces = [piece for row in rows for piece in row]
    long = sum(len(piece.words) >= 5 and piece.box.width > 10 * em for piece in pieces)
    return long > 0.6 * len(pieces)


def is_code(lines: Sequence[Line]) -> bool:
    """Whether lines are set in a font of fixed width, and not for their numbers."""
    mono = sum(line.mono for line in lines)
    return mono > 0.6 * len(lines) and sum(is_number(line.text) for line in lines) < 0.4 * len(lines)
