"""A table's cells laid out row by row, for every format that writes tables."""

from __future__ import annotations

import html
from collections.abc import Iterator

from docai.types import Box, Cell, Table

_NOWHERE = Box(0.0, 0.0, 0.0, 0.0)


def cell_rows(table: Table) -> Iterator[list[Cell]]:
    """The cells that start in each row, with an empty cell in every place that none covers."""
    covered: set[tuple[int, int]] = set()
    starts = {(cell.row, cell.col): cell for cell in table.cells}
    for row in range(table.rows):
        cells = []
        for col in range(table.cols):
            if (row, col) in covered:
                continue
            cell = starts.get((row, col)) or Cell(row, col, "", _NOWHERE, header=row < table.header_rows)
            cells.append(cell)
            covered |= {(row + i, col + j) for i in range(cell.rowspan) for j in range(cell.colspan)}
        yield cells


def text_rows(table: Table) -> list[list[str]]:
    """Cell texts as a full grid; a cell that spans several places stands in the first."""
    rows = [[""] * table.cols for _ in range(table.rows)]
    for cell in table.cells:
        if cell.row < table.rows and cell.col < table.cols:
            rows[cell.row][cell.col] = cell.text
    return rows


def html_table(table: Table, caption: str = "") -> str:
    """A table as HTML, a line a row; spans and header rows kept, every text escaped. `caption` is an element."""
    lines, heads = [f"<table>{caption}"], table.header_rows
    for number, cells in enumerate(cell_rows(table)):
        if number == 0:
            lines.append("<thead>" if heads else "<tbody>")
        elif number == heads:
            lines += ["</thead>", "<tbody>"]
        lines.append("<tr>" + "".join(_html_cell(cell) for cell in cells) + "</tr>")
    lines.append("</thead>" if heads >= table.rows else "</tbody>")
    return "\n".join([*lines, "</table>"])


def _html_cell(cell: Cell) -> str:
    tag = "th" if cell.header else "td"
    spans = f' rowspan="{cell.rowspan}"' * (cell.rowspan > 1) + f' colspan="{cell.colspan}"' * (cell.colspan > 1)
    return f"<{tag}{spans}>{html_lines(cell.text)}</{tag}>"


def html_lines(text: str) -> str:
    """Text escaped for HTML, its line ends as breaks."""
    return "<br>".join(html.escape(line.strip(), quote=False) for line in text.strip().split("\n"))
