"""A table region's lines become a grid of cells, with help from ruling lines where there are any.

Columns come from vertical rules and from gaps that stay open over the rows; rows from horizontal rules and from the
baselines, joined where text wraps. Spans come from text over several columns, from rules that stop short, and from
headings centred over the columns they head.
"""

from __future__ import annotations

from collections.abc import Sequence

from docai.geometry import grow, inside, union
from docai.layout.grid import Piece, Track, em_of, pieces_of, tracks, typed_rules, visual_rows
from docai.ocr.table_cells import Grid, cells_of
from docai.ocr.table_columns import Border, column_borders, columns_of, extents_of, merge_signs, split_at
from docai.ocr.table_headers import Band, header_groups, split_header
from docai.ocr.table_rows import Joiner, Placed, Row, middle, place, spacing_of
from docai.ocr.table_tall import tall_cells
from docai.types import Box, Line, Rule, Table

_SPACE = 0.4  # em: words closer than this are one piece
_TALLEST_BAND = 4.0  # em: a coloured area no higher than this may be a row
_FULL = 0.8  # share of the table's width that a rule between rows covers


def build_table(box: Box, lines: Sequence[Line], rules: Sequence[Rule], fills: Sequence[Box]) -> Table | None:
    """The cells of the table in `box`, or None where its lines make no grid of at least two rows or columns."""
    lines, drawn = typed_rules([line for line in lines if line.text.strip()])
    rules = [*rules, *drawn]
    if not lines:
        return None
    em = em_of(lines)
    near = grow(box, em)
    flat, upright = tracks((r for r in rules if inside(r.box, near) > 0.5), 0.3 * em)
    edges = [Rule(Box(f.l, y, f.r, y)) for f in fills if f.height < _TALLEST_BAND * em for y in (f.t, f.b)]
    bands, _ = tracks((r for r in edges if inside(r.box, near) > 0.5), 0.3 * em)
    pieces = [piece for line in lines for piece in pieces_of(line, _SPACE * em, upright)]
    rows = [merge_signs(row, em) for row in visual_rows([p for p in pieces if p.upright])]
    turned = [piece for piece in pieces if not piece.upright]
    borders = column_borders([_with_stubs(row, turned) for row in rows], upright, box, em) if rows else []
    if not borders:
        return None
    extents = extents_of(rows, borders, em)
    level = [part for row in rows for part in split_at(row, borders, extents)]
    grid = _grid(box, level, turned, borders, (flat, bands), em)
    return cells_of(grid) if len(grid.rows) > 1 else None


def _with_stubs(row: Sequence[Piece], turned: Sequence[Piece]) -> list[Piece]:
    """A row with the sideways texts that stand beside it, which take a column of their own."""
    top, bottom = min(p.box.t for p in row), max(p.box.b for p in row)
    beside = [p for p in turned if p.box.t < top and p.box.b > bottom and p.box.width < 0.6 * p.box.height]
    return sorted([*row, *beside], key=lambda p: p.box.l) if beside else list(row)


def _grid(
    box: Box,
    pieces: Sequence[Piece],
    turned: Sequence[Piece],
    borders: list[Border],
    flat: tuple[Sequence[Track], Sequence[Track]],
    em: float,
) -> Grid:
    """`flat`: horizontal rules, and the edges of coloured bands."""
    extent = union(p.box for p in pieces)
    extents = extents_of([pieces], borders, em)
    boxed = any(b.track for b in borders)
    cuts = _row_rules(flat, extents, extent, least=1 if boxed else 2)
    bands = _bands(pieces, turned, cuts, borders, em)
    head, body = split_header(bands, extent)
    under = extents_of([[p.piece for p in row] for band in body for row in band.rows], borders, em, extents)
    groups = header_groups(head, under, extents, em)
    grid = Grid(box, [_flat(group) for group in groups], borders, _starts(head, groups), len(groups), em, extents)
    parted = boxed and len(body) > 1
    joiner = Joiner(extents, spacing_of([b.rows for b in body]), em, boxed=parted)
    for band in body:
        _add_band(grid, band, joiner, closed=len(body) > 1)
    grid.cuts = grid.cuts[1:]
    return grid


def _add_band(grid: Grid, band: Band, joiner: Joiner, *, closed: bool) -> None:
    """The rows of a band, and the cells that stand beside several of them."""
    tall = tall_cells(band.rows, grid.cols, grid.em, closed=closed, boxed=any(b.track for b in grid.borders))
    aside = {id(p.piece) for cell in tall for p in cell.lines}
    visual = [[p for p in row if id(p.piece) not in aside] for row in band.rows]
    rows = [_flat(group) for group in joiner.join([row for row in visual if row])]
    start, middles = len(grid.rows), [middle(row) for row in rows]
    for cell in tall:
        ends = [min(range(len(rows)), key=lambda i: abs(middles[i] - y)) for y in (cell.start, cell.end)]
        rows[ends[0]].extend(cell.lines)
        grid.tall.append((cell.column, start + ends[0], start + ends[1]))
    grid.rows += rows
    grid.cuts += [band.above, *[None] * (len(rows) - 1)]


def _flat(group: Sequence[Row]) -> Row:
    return [p for row in group for p in row]


def _starts(head: Sequence[Band], groups: Sequence[list[Row]]) -> list[Track | None]:
    """The rule above each level of a header."""
    rules = {id(band.rows[0][0].piece): band.above for band in head}
    return [rules.get(id(group[0][0].piece)) for group in groups]


def _row_rules(
    flat: tuple[Sequence[Track], Sequence[Track]], extents: Sequence[tuple[float, float]], extent: Box, *, least: int
) -> list[Track]:
    """What parts rows: rules and bands over the whole table, and rules over `least` whole columns (no underlines)."""
    rules, bands = flat
    full = [t for t in (*rules, *bands) if t.covers(extent.l, extent.r) >= _FULL]
    partial = [t for t in rules if sum(t.covers(a, b) > 0.6 for a, b in extents) >= least and t not in full]
    return sorted((t for t in full + partial if extent.t < t.at < extent.b), key=lambda t: t.at)


def _bands(
    pieces: Sequence[Piece], turned: Sequence[Piece], cuts: Sequence[Track], borders: Sequence[Border], em: float
) -> list[Band]:
    """The text between each two rules as visual rows; of several rules without text between them the last stays."""
    parts: list[tuple[list[Piece], list[Piece]]] = [([], []) for _ in range(len(cuts) + 1)]
    for piece in pieces:
        parts[sum(cut.at < piece.box.cy for cut in cuts)][0].append(piece)
    for piece in turned:
        parts[sum(cut.at < piece.box.cy for cut in cuts)][1].append(piece)
    above = [None, *cuts]
    return [
        Band(_visual(level, sideways, borders, em), rule)
        for rule, (level, sideways) in zip(above, parts, strict=True)
        if level or sideways
    ]


def _visual(level: Sequence[Piece], sideways: Sequence[Piece], borders: Sequence[Border], em: float) -> list[Row]:
    """Visual rows of a band. Sideways text joins the lowest row that it stands beside, or makes a row of its own."""
    rows = [place(row, borders, em) for row in visual_rows(level)]
    own: Row = []
    for piece in sideways:
        placed = Placed(piece, *columns_of(_foot(piece, em), borders, em))
        beside = [row for row in rows if piece.box.t < middle(row) < piece.box.b + 0.5 * em]
        (beside[-1] if beside else own).append(placed)
    return sorted([*rows, own] if own else rows, key=middle)


def _foot(piece: Piece, em: float) -> Box:
    """Where a sideways text stands: under its middle, or at the lower left corner where it slants."""
    box = piece.box
    slants = box.width > 0.6 * box.height
    return Box(box.l, box.b - em, box.l + em, box.b) if slants else box
