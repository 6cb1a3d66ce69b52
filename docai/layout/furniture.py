"""Running headers, footers and page numbers, as far as a single page shows them: the outermost row of text.

What comes back on several pages is found by the document pass; this is for what one page gives away.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from docai.layout.body import usual
from docai.types import Label, Line, Page
from docai.writing import page_number

_EDGE = 0.13  # of the page height
_GAP = 1.3  # sizes of white between the outermost row and the text, from baseline to top
_SMALLER = 0.95  # times the usual size
_LONGEST = 150  # characters
_FOOT = re.compile(
    r"©|copyright|https?://|www\.|\bdoi\b|\bpage\s+\d|\bconfidential\b|all rights reserved|\bseite\s+\d", re.IGNORECASE
)
_NUMBER_AT_END = re.compile(r"(?:^\d{1,4}\s+\D)|(?:\D\s+\d{1,4}$)")


def edge_lines(lines: Sequence[Line], page: Page) -> list[tuple[Line, Label]]:
    """The lines of the outermost rows that are furniture, each with its label."""
    if len(lines) < 4 or page.height <= 0:
        return []
    size = usual((line.size, len(line.text)) for line in lines)
    found: list[tuple[Line, Label]] = []
    for top in (True, False):
        found += _edge(lines, page, size, top=top)
    return found


def _edge(lines: Sequence[Line], page: Page, size: float, *, top: bool) -> list[tuple[Line, Label]]:
    """Rows from one edge inwards, as long as they are furniture."""
    rest = sorted(lines, key=lambda line: line.box.t if top else -line.box.b)
    found: list[tuple[Line, Label]] = []
    for _ in range(3):
        row = _outermost(rest)
        inner = [line for line in rest if line not in row]
        if not row or not inner or not _is_furniture(row, inner, page, size, top=top, again=bool(found)):
            break
        found += [(line, _label(line, top=top)) for line in row]
        rest = inner
    return found


def _outermost(lines: Sequence[Line]) -> list[Line]:
    if not lines:
        return []
    first = lines[0]
    return [
        line for line in lines if min(line.box.b, first.box.b) - max(line.box.t, first.box.t) > 0.4 * first.box.height
    ]


def _is_furniture(
    row: Sequence[Line], inner: Sequence[Line], page: Page, size: float, *, top: bool, again: bool
) -> bool:
    edge = max(line.box.b for line in row) if top else page.height - min(line.box.t for line in row)
    text = " ".join(line.text for line in row)
    if edge > _EDGE * page.height or len(text) > _LONGEST:
        return False
    gap = min(line.box.t for line in inner) - edge if top else page.height - edge - max(line.box.b for line in inner)
    numbered = any(page_number(line.text) is not None for line in row) or bool(_NUMBER_AT_END.search(text))
    row_size = usual((line.size, len(line.text)) for line in row)
    if row_size > 1.15 * size:
        return False
    smaller = row_size < _SMALLER * size and row[0].source == "text-layer"
    told = bool(_FOOT.search(text))
    apart = gap > _GAP * size
    return (numbered and (apart or smaller)) or (smaller and apart) or (told and (smaller or apart or again))


def _label(line: Line, *, top: bool) -> Label:
    if page_number(line.text) is not None:
        return Label.PAGE_NUMBER
    return Label.PAGE_HEADER if top else Label.PAGE_FOOTER
