"""Cells that stand beside several rows: text that runs on over them, and text centred between two rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from docai.ocr.table_rows import Placed, Row, bottom, clash, middle, top

_NEW_BLOCK = 1.3  # times the usual pitch of a column's lines: what stands further apart is another cell


@dataclass(frozen=True, slots=True)
class Tall:
    """The lines of a cell in column `column` beside the rows whose middles lie from `start` to `end`."""

    column: int
    lines: tuple[Placed, ...]
    start: float
    end: float


def tall_cells(rows: Sequence[Row], count: int, em: float, *, closed: bool, boxed: bool) -> list[Tall]:
    """Cells of a band that do not follow its rows.

    `closed`: rules bound the band above and below. `boxed`: rules also part the columns, and so mark wrapped text.
    """
    centred: list[Tall] = []
    while closed and len(centred) < count - 1:
        cell = _centred(len(centred), rows, em)
        if cell is None:
            break
        centred.append(cell)
    beside = [] if boxed else [cells for column in range(count) if (cells := _running_on(column, rows))]
    return centred + (beside[0] if len(beside) == 1 else [])


def _without(rows: Sequence[Row], column: int) -> list[Row]:
    kept = [[p for p in row if p.first != column] for row in rows]
    return [row for row in kept if row]


def _lines(rows: Sequence[Row], column: int) -> list[Placed]:
    return [p for row in rows for p in row if p.first == p.last == column]


def _centred(column: int, rows: Sequence[Row], em: float) -> Tall | None:
    """A single text of a leading column, halfway between the first and the last of several rows of numbers."""
    lines, most = _lines(rows, column), max(len(row) for row in rows)
    others = [row for row in rows if len(row) > 0.5 * most]
    if len(others) < 2 or not lines or not all(clash(a, b) for a, b in pairwise(others)):
        return None
    if any(b.piece.box.t - a.piece.box.b > 0.8 * em for a, b in pairwise(lines)):
        return None
    height = lines[-1].piece.box.b - lines[0].piece.box.t
    if height > 0.7 * (bottom(others[-1]) - top(others[0])):
        return None
    centre = (lines[0].piece.box.t + lines[-1].piece.box.b) / 2
    halfway = (middle(others[0]) + middle(others[-1])) / 2
    if abs(centre - halfway) > 0.4 * em or abs(centre - middle(others[0])) < 0.4 * em:
        return None
    return Tall(column, tuple(lines), middle(others[0]), middle(others[-1]))


def _running_on(column: int, rows: Sequence[Row]) -> list[Tall]:
    """Blocks of wrapped text of which one at least runs on beside a row that has no text of its own there."""
    lines, others = _lines(rows, column), _without(rows, column)
    blocks = _blocks(lines)
    if len(blocks) < 2 or len(blocks) >= len(others) or median(len(p.piece.words) for p in lines) < 2:
        return []
    level = [any(abs(middle(row) - p.piece.box.cy) < 0.2 * p.piece.box.height for row in others) for p in lines]
    if sum(level) > 0.7 * len(level):
        return []
    starts = [min(range(len(others)), key=lambda i: abs(middle(others[i]) - b[0].piece.box.cy)) for b in blocks]
    if len(set(starts)) < len(starts):
        return []
    found = []
    for block, start, following in zip(blocks, starts, [*starts[1:], len(others)], strict=True):
        end = block[-1].piece.box.b
        beside = [others[i] for i in range(start, following) if i == start or _reaches(end, others[i])]
        found.append(Tall(column, tuple(block), middle(beside[0]), middle(beside[-1])))
    return found if any(cell.end > cell.start for cell in found) else []


def _reaches(end: float, row: Row) -> bool:
    return end > top(row) - 0.2 * (bottom(row) - top(row))


def _blocks(lines: Sequence[Placed]) -> list[list[Placed]]:
    if len(lines) < 3:
        return []
    steps = [b.piece.box.cy - a.piece.box.cy for a, b in pairwise(lines)]
    usual = sorted(steps)[(len(steps) - 1) // 3]
    blocks = [[lines[0]]]
    for step, line in zip(steps, lines[1:], strict=True):
        if step > _NEW_BLOCK * usual:
            blocks.append([])
        blocks[-1].append(line)
    return blocks
