"""Titles above tables and notes under them, which belong to a table but are none of its rows; what captions name."""

from __future__ import annotations

import re
from collections.abc import Sequence

from docai.geometry import inside, union
from docai.layout.grid import Piece, pieces_of, visual_rows
from docai.types import Box, Label, Line

_CAPTION = re.compile(
    r"^(?:table|tab\.|exhibit|figure|fig\.|chart|tableau|tabelle|표|表|图|圖)\s*[\dIVX]+|^table\s+[A-Z][.\-]?\d", re.I
)
_NOTE = re.compile(r"^(?:sources?|notes?|abbreviations?|key|legend|quelle|nota)\b\s*[:.\u2014\-]|^[*†‡§¶]\s*\w", re.I)
_KINDS = {
    Label.TABLE: re.compile(r"^[\[<]?(?:tab(?:le|elle|leau|la)?\b|cuadro\b|таблица|表|표)", re.I),
    Label.FIGURE: re.compile(
        r"^[\[<]?(?:(?:fig(?:ure|ura)?|chart|scheme|plate|abb(?:ildung)?)\b|рис|[図图圖]|그림)", re.I
    ),
}
_FIRST_ROWS = 4  # a caption inside a table's box is among so many rows


def is_caption(text: str) -> bool:
    """Whether a text begins as the caption of a table or figure does: "Table 3"."""
    return bool(_CAPTION.match(text))


def caption_of(text: str) -> Label | None:
    """What a caption says that it is about: a table or a figure; None where it does not say."""
    return next((label for label, words in _KINDS.items() if words.match(text)), None)


def without_captions(box: Box, lines: Sequence[Line], em: float) -> Box:
    """The box of a table without a caption at its top and notes at its foot."""
    held = [line for line in lines if inside(line.box, box) > 0.5]
    rows = visual_rows([piece for line in held if not line.angle for piece in pieces_of(line, 0.9 * em)])
    first, last = _first(rows, box), _last(rows)
    if (first == 0 and last == len(rows)) or last - first < 2:
        return box
    top = box.t if first == 0 else _between(rows[first - 1], rows[first])
    foot = box.b if last == len(rows) else _between(rows[last - 1], rows[last])
    return Box(box.l, top, box.r, foot)


def _first(rows: Sequence[Sequence[Piece]], box: Box) -> int:
    """The number of rows that a caption takes."""
    starts = [i for i, row in enumerate(rows[:_FIRST_ROWS]) if is_caption(row[0].line.text)]
    if not starts:
        return 0
    first = starts[-1] + 1
    while first < len(rows) and len(rows[first]) == 1 and rows[first][0].box.width > 0.5 * box.width:
        first += 1
    return first


def _last(rows: Sequence[Sequence[Piece]]) -> int:
    """The number of rows before the notes."""
    notes = [i for i, row in enumerate(rows) if i > 1 and _NOTE.match(row[0].line.text) and len(row) < 3]
    for i in notes:
        if all(len(row) < 3 and row[0].box.width > 3 * row[0].box.height for row in rows[i:]):
            return i
    return len(rows)


def _between(above: Sequence[Piece], below: Sequence[Piece]) -> float:
    return (union(p.box for p in above).b + union(p.box for p in below).t) / 2
