"""A table region's lines become a grid of cells, with help from ruling lines where there are any.

Columns come from vertical rules and from gaps that stay open over the rows; rows from horizontal rules and from the
baselines, joined where text wraps. Spans come from text over several columns, from rules that stop short, and from
headings centred over the columns they head.
"""

from __future__ import annotations

from collections.abc import Sequence

from docai.geometry import grow, inside, union
from docai.layout.grid import Piece, Track, em_of, pieces_of, tracks, visual_rows
from docai.ocr.table_cells import Grid, cells_of
from docai.ocr.table_columns import Border, column_borders, merge_signs, split_at
from docai.ocr.table_headers import Band, header_groups, split_header
from docai.ocr.table_rows import Joiner, Row, place, spacing_of
from docai.types import Box, Line, Rule, Table

_SPACE = 0.4  # em: words closer than this are one piece
_FULL = 0.8  # share of the table's width that a rule between rows covers


def build_table(box: Box, lines: Sequence[Line], rules: Sequence[Rule], fills: Sequence[Box]) -> Table | None:
    """The cells of the table in `box`, or None where its lines make no grid of at least two rows or columns."""
    lines = [line for line in lines if line.text.strip()]
    if not lines:
        return None
    em = em_of(lines)
    near = grow(box, em)
    flat, upright = tracks((r for r in rules if inside(r.box, near) > 0.5), 0.3 * em)
    pieces = [piece for line in lines for piece in pieces_of(line, _SPACE * em, upright)]
    rows = [merge_signs(row, em) for row in visual_rows([p for p in pieces if p.upright])]
    borders = column_borders(rows, upright, box, em)
    if not borders:
        return None
    rows = [split_at(row, borders) for row in rows]
    grid = _grid(box, [p for row in rows for p in row], borders, flat, em)
    return cells_of(grid) if len(grid.rows) > 1 else None


def _grid(box: Box, pieces: Sequence[Piece], borders: list[Border], flat: Sequence[Track], em: float) -> Grid:
    extent = union(p.box for p in pieces)
    extents = _extents(pieces, borders, em)
    cuts = _row_rules(flat, extents, extent, boxed=any(b.track for b in borders))
    bands = _bands(pieces, cuts, borders, em)
    head, body = split_header(bands, extent)
    groups = header_groups(head, extents, em)
    heads = len(groups)
    starts = _starts(head, groups)
    joiner = Joiner([r for b in body for r in b.rows], len(borders) + 1, spacing_of([b.rows for b in body]), em)
    for band in body:
        joined = joiner.join(band.rows)
        starts += [band.above, *[None] * (len(joined) - 1)]
        groups += joined
    rows = [[p for row in group for p in row] for group in groups]
    return Grid(box, rows, borders, starts[1:], heads, em, extents)


def _starts(head: Sequence[Band], groups: Sequence[list[Row]]) -> list[Track | None]:
    """The rule above each level of a header."""
    rules = {id(band.rows[0][0].piece): band.above for band in head}
    return [rules.get(id(group[0][0].piece)) for group in groups]


def _extents(pieces: Sequence[Piece], borders: Sequence[Border], em: float) -> list[tuple[float, float]]:
    """From where to where the text of each column runs."""
    boxes: list[list[Box]] = [[] for _ in range(len(borders) + 1)]
    for placed in place(pieces, borders, em):
        if not placed.spans:
            boxes[placed.first].append(placed.piece.box)
    edges = [b.at for b in borders]
    bare = [(edges[max(0, c - 1)], edges[min(c, len(edges) - 1)]) for c in range(len(boxes))]
    return [
        (min(b.l for b in found), max(b.r for b in found)) if found else between
        for found, between in zip(boxes, bare, strict=True)
    ]


def _row_rules(
    flat: Sequence[Track], extents: Sequence[tuple[float, float]], extent: Box, *, boxed: bool
) -> list[Track]:
    """Horizontal rules that part rows: full ones, and partial ones that run over whole columns (no underlines)."""
    least = 1 if boxed else 2
    return [
        track
        for track in flat
        if extent.t < track.at < extent.b
        and (track.covers(extent.l, extent.r) >= _FULL or sum(track.covers(a, b) > 0.6 for a, b in extents) >= least)
    ]


def _bands(pieces: Sequence[Piece], cuts: Sequence[Track], borders: Sequence[Border], em: float) -> list[Band]:
    """The pieces between each two rules as visual rows; of several rules without text between them the last stays."""
    parts: list[list[Piece]] = [[] for _ in range(len(cuts) + 1)]
    for piece in pieces:
        parts[sum(cut.at < piece.box.cy for cut in cuts)].append(piece)
    above = [None, *cuts]
    return [
        Band([place(row, borders, em) for row in visual_rows(part)], rule)
        for rule, part in zip(above, parts, strict=True)
        if part
    ]
