"""Rows of text that could be one table: what follows closely in a column of the page, with running text as walls."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from docai.geometry import union
from docai.layout.captions import is_caption
from docai.layout.grid import Piece, is_number, visual_rows, words_in
from docai.types import Box, Line

_LONG = 6  # words: a line of this many or more may be running text
_FURTHEST = 2.6  # heights of a row from its middle to that of the next row of the same table

Rows = list[list[Piece]]


def running_text(lines: Sequence[Line], em: float) -> set[int]:
    """Lines of paragraphs: long ones that follow each other flush left and are as wide as their column.

    Texts with several numbers beside some of their lines are the wrapped first column of a table.
    """
    beside_numbers = _beside_numbers(lines)
    found: set[int] = set()
    for paragraph in _paragraphs(lines, em):
        if sum(id(line) in beside_numbers for line in paragraph) < 0.2 * len(paragraph):
            found |= {id(line) for line in paragraph}
    return found


def _beside_numbers(lines: Sequence[Line]) -> set[int]:
    found: set[int] = set()
    for row in visual_rows([Piece(line.words, line.box, line) for line in lines]):
        if len(row) > 1 and sum(is_number(piece.line.text) for piece in row) > 1:
            found |= {id(piece.line) for piece in row}
    return found


def _paragraphs(lines: Sequence[Line], em: float) -> list[list[Line]]:
    """Groups of at least two long lines under each other."""
    long = sorted((line for line in lines if words_in(line.text) >= _LONG), key=lambda line: line.box.t)
    groups: list[list[Line]] = []
    for line in long:
        home = next((g for g in reversed(groups) if _follows(g[-1], line, em)), None)
        if home is None:
            groups.append([line])
        else:
            home.append(line)
    return [group for group in groups if len(group) > 1]


def _follows(above: Line, line: Line, em: float) -> bool:
    near = line.box.t - above.box.t <= 2.2 * max(em, above.box.height)
    return near and _same_paragraph(above.box, line.box, em)


def _same_paragraph(a: Box, b: Box, em: float) -> bool:
    flush = abs(a.l - b.l) < 3 * em or abs(a.r - b.r) < em
    shared = min(a.r, b.r) - max(a.l, b.l)
    return flush and b.cy - a.cy > 0.5 * min(a.height, b.height) and shared > 0.7 * min(a.width, b.width) > 8 * em


class Walls:
    """The lines of running text, by height on the page."""

    def __init__(self, boxes: Sequence[Box]) -> None:
        self.boxes = sorted(boxes, key=lambda box: box.cy)
        self.middles = [box.cy for box in self.boxes]
        self.tallest = max((box.height for box in boxes), default=0.0)

    def between(self, top: float, bottom: float) -> list[Box]:
        """Those whose middle lies between two heights."""
        return self.boxes[bisect_right(self.middles, top) : bisect_left(self.middles, bottom)]

    def beside(self, top: float, bottom: float) -> list[Box]:
        """Those that share some height with top..bottom."""
        reach = self.tallest / 2
        return [box for box in self.between(top - reach, bottom + reach) if box.t < bottom and box.b > top]


@dataclass(slots=True)
class _Chain:
    rows: Rows
    last: Box  # around the last row

    def takes(self, part: Sequence[Piece], box: Box, walls: Walls, em: float) -> bool:
        """Whether a row (its box) goes on from the last one of this chain."""
        if box.cy - self.last.cy >= _FURTHEST * max(em, self.last.height) or is_caption(part[0].line.text):
            return False
        if _shared(box, union(p.box for row in self.rows[-4:] for p in row)) <= 0:
            return False
        return not any(_shared(box, wall) > 0 for wall in walls.between(self.last.cy, box.cy))


def chains(rows: Sequence[Sequence[Piece]], walls: Walls, em: float, least: int) -> list[Rows]:
    """Rows, or the parts of them between running text, in chains; `least` rows of a chain hold several texts."""
    current: list[_Chain] = []
    found: list[_Chain] = []
    for row in rows:
        for part in _parts(row, walls):
            box = union(p.box for p in part)
            home = next((chain for chain in current if chain.takes(part, box, walls, em)), None)
            if home is None:
                home = _Chain([], box)
                current.append(home)
                found.append(home)
            home.rows.append(part)
            home.last = box
        bottom = max(p.box.b for p in row)
        current = [chain for chain in current if bottom - chain.last.b < 4 * em]
    bare = [_without_neighbours(chain.rows, walls) for chain in found if _several(chain.rows) >= least]
    return [chain for chain in bare if _several(chain) >= least]


def _several(rows: Rows) -> int:
    return sum(len(row) > 1 for row in rows)


def _without_neighbours(rows: Rows, walls: Walls) -> Rows:
    """A chain without what stands in a column of running text beside it: that column's headings and short lines."""
    beside = walls.between(min(p.box.t for p in rows[0]), max(p.box.b for p in rows[-1]))
    if not beside:
        return rows
    kept = [[p for p in row if not any(_shared(p.box, wall) > 0 for wall in beside)] for row in rows]
    return [row for row in kept if row]


def _shared(a: Box, b: Box) -> float:
    return min(a.r, b.r) - max(a.l, b.l)


def _parts(row: Sequence[Piece], walls: Walls) -> list[list[Piece]]:
    """A row cut where running text of another column of the page stands between its pieces."""
    parts = [[row[0]]]
    for before, piece in pairwise(row):
        top, bottom = min(before.box.t, piece.box.t), max(before.box.b, piece.box.b)
        if any(before.box.cx < wall.cx < piece.box.cx for wall in walls.beside(top, bottom)):
            parts.append([piece])
        else:
            parts[-1].append(piece)
    return parts
