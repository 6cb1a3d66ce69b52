"""CSV: the tables, one below the other with an empty line between."""

from __future__ import annotations

import csv
import io

from docai.export.grid import text_rows
from docai.export.options import ExportOptions
from docai.types import Document, Table


def render(document: Document, options: ExportOptions) -> str:
    """Every table of the document in reading order. A cell over several places stands in the first."""
    del options
    return "\n".join(table_csv(block.table) for block in document.blocks if block.table is not None)


def table_csv(table: Table) -> str:
    """One table; cells keep their line ends, quoted."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(text_rows(table))
    return out.getvalue()
