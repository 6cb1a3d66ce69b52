"""A long table as several short ones, each with the header."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from docai.export.markdown import table_markdown
from docai.types import Cell, Table

Row = list[Cell]


def table_parts(table: Table, most: int) -> Iterator[Table]:
    """Tables of some rows each, whose markdown has at most `most` characters where a single row allows it.

    Rows that a cell joins stay together. The header rows (the first row, where there are none) start each part.
    """
    rows: list[Row] = [[] for _ in range(table.rows)]
    for cell in table.cells:
        rows[cell.row].append(cell)
    heads = rows[: table.header_rows or 1]
    used = head_length = len(table_markdown(_table(heads, table.cols)))
    part: list[Row] = []
    for group in row_groups(rows[len(heads) :]):
        length = len(table_markdown(_table([*heads, *group], table.cols))) - head_length
        if part and used + length > most:
            yield _table([*heads, *part], table.cols)
            part, used = [], head_length
        part += group
        used += length
    yield _table([*heads, *part], table.cols)


def row_groups(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """Consecutive rows, those together that a cell joins."""
    group: list[Row] = []
    left = 0  # rows that a cell still reaches over
    for row in rows:
        group.append(row)
        left = max([left - 1, *(cell.rowspan - 1 for cell in row)])
        if left <= 0:
            yield group
            group, left = [], 0
    if group:
        yield group


def _table(rows: Sequence[Row], cols: int) -> Table:
    cells = (replace(cell, row=number) for number, row in enumerate(rows) for cell in row)
    return Table(len(rows), cols, tuple(cells))
