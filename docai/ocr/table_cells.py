"""From rows of placed text to cells: which places of the grid belong together, and what they say."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from docai.geometry import union
from docai.layout.grid import Piece, Track, visual_rows
from docai.ocr.table_columns import Border
from docai.ocr.table_rows import Placed, Row
from docai.types import Box, Cell, Table
from docai.writing import glue, is_rtl

_LEADER = re.compile(r"(?<=\S)(?:\s*\.){4,}$|(?<=\S)\s*…{2,}$")  # dots that lead from a name to its value
_GRID = 0.6  # share of borders that are ruled in a table whose rules mark every cell


@dataclass(slots=True)
class Grid:
    """Rows of placed pieces between borders; `cuts[i]` is the rule between row i and i + 1, if any."""

    box: Box
    rows: list[Row]
    borders: list[Border]
    cuts: list[Track | None]
    heads: int
    em: float
    extents: Sequence[tuple[float, float]]  # from where to where the text of each column runs
    tall: list[tuple[int, int, int]] = field(default_factory=list)  # (column, first row, last row) that are one cell

    @property
    def cols(self) -> int:
        return len(self.borders) + 1

    @property
    def full(self) -> bool:
        """Whether vertical rules mark (nearly) every cell, so that a missing one means something."""
        ruled, closed = _closed(self)
        return len(ruled) > 0.5 * len(self.borders) and len(closed) >= _GRID * len(ruled) * len(self.rows)

    def row_edges(self) -> list[float]:
        """Where rows begin and end, from top to bottom."""
        tops = [min(p.piece.box.t for p in row) for row in self.rows]
        ends = [max(p.piece.box.b for p in row) for row in self.rows]
        inner = [
            cut.at if cut is not None else (b + t) / 2 for cut, b, t in zip(self.cuts, ends, tops[1:], strict=False)
        ]
        return [min(self.box.t, tops[0]), *inner, max(self.box.b, ends[-1])]

    def column_edges(self) -> list[float]:
        return [self.box.l, *(b.at for b in self.borders), self.box.r]


def cells_of(grid: Grid) -> Table:
    """The cells of a grid, spans joined."""
    held: dict[tuple[int, int], list[Placed]] = {}
    for r, row in enumerate(grid.rows):
        for piece in row:
            held.setdefault((r, piece.first), []).append(piece)
    across = _across(grid)
    down = _down(grid)
    rectangles = _rectangles(grid, across, down)
    ys, xs = grid.row_edges(), grid.column_edges()
    cells = []
    for r, c, h, w in rectangles:
        pieces = [p.piece for i in range(r, r + h) for j in range(c, c + w) for p in held.get((i, j), ())]
        if pieces:
            box = Box(min(xs[c], xs[c + w]), min(ys[r], ys[r + h]), max(xs[c], xs[c + w]), max(ys[r], ys[r + h]))
            cells.append(Cell(r, c, cell_text(pieces), box, h, w, r < grid.heads))
    return Table(len(grid.rows), grid.cols, tuple(cells))


def cell_text(pieces: Sequence[Piece]) -> str:
    """The pieces of a cell in reading order, lines joined by spaces, hyphenation mended."""
    text = ""
    level = [p for p in pieces if p.upright]
    rows = [
        sorted(row, key=lambda p: p.box.l, reverse=is_rtl("".join(p.text for p in row))) for row in visual_rows(level)
    ]
    turned = sorted((p for p in pieces if not p.upright), key=lambda p: -p.box.cx if p.line.angle == 90 else p.box.cx)
    for row in [*rows, *([p] for p in turned)]:
        line = " ".join(p.text for p in row)
        drop, between = glue(text, line)
        text = text[: len(text) - drop] + between + line
    return _LEADER.sub("", text)


def _across(grid: Grid) -> set[tuple[int, int]]:
    """Places (row, column) that are one cell with the place to their right."""
    joined = {(r, c) for r, row in enumerate(grid.rows) for p in row for c in range(p.first, p.last)}
    ruled, closed = _closed(grid)
    if grid.full:
        for r, row in enumerate(grid.rows):
            joined |= _open_runs(r, row, [c in ruled and (r, c) not in closed for c in range(grid.cols - 1)])
    for r, row in enumerate(grid.rows):
        if _titles(grid, row):
            joined |= {(r, c) for c in range(grid.cols - 1)}
    return joined


def _closed(grid: Grid) -> tuple[list[int], set[tuple[int, int]]]:
    """Ruled borders between columns, and the (row, border) at which a rule does run."""
    ys = grid.row_edges()
    ruled = [(c, border.track) for c, border in enumerate(grid.borders) if border.track]
    closed = {
        (r, c) for r in range(len(grid.rows)) for c, track in ruled if track.covers(*_core(ys[r], ys[r + 1])) > 0.5
    }
    return [c for c, _ in ruled], closed


def _core(start: float, end: float) -> tuple[float, float]:
    return start + 0.15 * (end - start), end - 0.15 * (end - start)


def _open_runs(r: int, row: Row, is_open: Sequence[bool]) -> set[tuple[int, int]]:
    """Runs of places that no rule parts and of which only one has text."""
    joined: set[tuple[int, int]] = set()
    c = 0
    while c < len(is_open):
        end = c
        while end < len(is_open) and is_open[end]:
            end += 1
        starts = {p.first for p in row if c <= p.first <= end}
        if end > c and len(starts) == 1:
            joined |= {(r, i) for i in range(c, end)}
        c = end + 1
    return joined


def _titles(grid: Grid, row: Row) -> bool:
    """Whether a row holds one text only, over several columns or centred on the table: the title of a section."""
    if grid.cols < 3 or len({(p.first, p.last) for p in row}) != 1:
        return False
    text = union(p.piece.box for p in row)
    centred = abs(text.cx - grid.box.cx) < grid.em and row[0].first > 0
    return centred or (row[0].first == 0 and row[0].last > 0)


def _down(grid: Grid) -> set[tuple[int, int]]:
    """Places (row, column) that are one cell with the place under them."""
    full = {(r, c) for r, row in enumerate(grid.rows) for p in row for c in range(p.first, p.last + 1)}
    joined = {(r, c) for c, a, b in grid.tall for r in range(a, b)}
    boxed = grid.full
    drawn = [cut for cut in grid.cuts if cut is not None]
    parted = [sum(cut.covers(*extent) >= 0.5 for cut in drawn) > 0.1 * len(drawn) for extent in grid.extents]
    for r, cut in enumerate(grid.cuts):
        head = r + 1 < grid.heads
        for c in range(grid.cols):
            if cut is not None and (head or (boxed and parted[c])) and cut.covers(*grid.extents[c]) < 0.5:
                if (r, c) in full or (r + 1, c) in full:
                    joined.add((r, c))
            elif cut is None and head and (r, c) in full and not _any_below(full, r, c, grid.heads):
                joined.add((r, c))
    return joined


def _any_below(full: set[tuple[int, int]], r: int, c: int, heads: int) -> bool:
    return any((i, c) in full for i in range(r + 1, heads))


def _rectangles(
    grid: Grid, across: set[tuple[int, int]], down: set[tuple[int, int]]
) -> list[tuple[int, int, int, int]]:
    """(row, column, height, width) of all cells, row by row."""
    taken: set[tuple[int, int]] = set()
    found = []
    for r in range(len(grid.rows)):
        for c in range(grid.cols):
            if (r, c) in taken:
                continue
            w = 1
            while (r, c + w - 1) in across and (r, c + w) not in taken:
                w += 1
            h = 1
            while r + h < len(grid.rows) and _goes_on(r + h, c, w, across, down, taken):
                h += 1
            taken |= {(i, j) for i in range(r, r + h) for j in range(c, c + w)}
            found.append((r, c, h, w))
    return found


def _goes_on(
    r: int, c: int, w: int, across: set[tuple[int, int]], down: set[tuple[int, int]], taken: set[tuple[int, int]]
) -> bool:
    """Whether a cell of width `w` at column `c` reaches into row `r`."""
    if any((r - 1, j) not in down or (r, j) in taken for j in range(c, c + w)):
        return False
    return (r, c - 1) not in across and (r, c + w - 1) not in across
