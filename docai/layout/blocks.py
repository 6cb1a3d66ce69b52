"""Lines of a column to blocks: paragraphs, headings, list items."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from docai.geometry import union
from docai.layout.body import Body, usual
from docai.types import Box, Line

_WIDER = 1.28  # times the usual leading: a gap between blocks
_WIDER_SEEN = 1.4  # the same for recognised lines, whose boxes are loose
_FAR = 3.0  # sizes of white between level lines
_OTHER_SIZE = 1.3  # times
_FEWEST_LETTERS = 8  # of such a line
_LOOSE = 1.8  # leading, in sizes, that is a gap where no other is known
_INDENT = (0.8, 5.0)  # sizes by which the first line of a paragraph may be indented
BULLET = re.compile(r"^[•◦▪▫●○■□❑❖‣⁃∙·➢➤✓☑✔\-–—*◆◇★☆※]\s*(?=[^\W_])|^[-–—*]\s+(?=[^\W_])")
NUMBERED = re.compile(
    r"^(?:\(?(?:\d{1,3}|[a-zA-Z]|[ivxIVX]{1,5})[.)]\s|\[\d{1,3}\]|[①-⑳]|\(\d{1,2}\)|\(?\d{1,2}\)|[一二三四五六七八九十]+[、.])\s*(?=[^\W_]|[\"“‘'«「(])"
)
CAPTION = re.compile(
    r"^(?:(?:Fig(?:ure|\.)?|FIG(?:URE|\.)?|Table|TABLE|Tab\.|Scheme|Chart|Algorithm|Listing|Box|Plate|Exhibit"
    r"|Abb(?:ildung|\.)|Tabelle|Figura|Tableau|Cuadro|Tabla|Рис\.|Таблица)\s*(?:\d+|[IVX]+\b|[A-Z]\.?\d+)"
    r"(?!\d*\s+[a-zà-ÿ])"  # "Table 1 lists ..." is a sentence about one
    r"|[\[<]?(?:図|表|图|圖|그림|표)\s*\d+)"
)
DEEP_SECTION = re.compile(r"^\d{1,2}(?:\.\d{1,2})+\.?\s+(?=[^\W\d])")  # "3.1 Foo"
_DRAWN = re.compile(r"^[\W_]*\w?[\W_]*$")
_SENTENCE_END = re.compile(r"[.!?:。！？：；;][\"”’'»」)\]]*[\d¹²³⁰-⁹*†‡,]*$|[\"”」](?:\s*\d+)?$")


@dataclass(frozen=True)
class LineBlock:
    """Lines that belong together, top to bottom."""

    lines: tuple[Line, ...]

    @cached_property
    def box(self) -> Box:
        return union(line.box for line in self.lines)

    @cached_property
    def text(self) -> str:
        return " ".join(line.text for line in self.lines)

    @cached_property
    def size(self) -> float:
        """The usual size, by characters."""
        return usual((line.size, len(line.text)) for line in self.lines)

    @cached_property
    def bold(self) -> bool:
        return all(line.bold for line in self.lines if any(c.isalpha() for c in line.text))

    @property
    def font(self) -> str:
        """The font of its first line."""
        return self.lines[0].font

    @property
    def mono(self) -> bool:
        return all(line.mono for line in self.lines)


@dataclass(frozen=True)
class _Row:
    """Lines that stand level, left to right."""

    lines: tuple[Line, ...]

    @property
    def left(self) -> float:
        return self.lines[0].box.l

    @cached_property
    def right(self) -> float:
        return max(line.box.r for line in self.lines)

    @property
    def base(self) -> float:
        return self.lines[0].box.b

    @cached_property
    def size(self) -> float:
        return max(self.lines[0].size, 0.1)

    @cached_property
    def bold(self) -> bool:
        return all(line.bold for line in self.lines)

    @cached_property
    def mono(self) -> bool:
        return all(line.mono for line in self.lines)

    @cached_property
    def text(self) -> str:
        """How it starts: a mark may stand apart from its text."""
        return " ".join(line.text for line in self.lines[:2])

    @cached_property
    def ends(self) -> bool:
        """Whether it ends a sentence."""
        return bool(_SENTENCE_END.search(self.lines[-1].text))


def is_separator(text: str) -> bool:
    """Whether a line is drawn with characters: "-----", "= = =", ". . . . ."."""
    return len(text) > 4 and _DRAWN.match(text) is not None


def starts_item(text: str) -> bool:
    """Whether a line starts like a list item."""
    return bool(BULLET.match(text) or NUMBERED.match(text))


def blocks_of(column: Sequence[Line], body: Body) -> list[LineBlock]:
    """The blocks of the lines of one column, which come top to bottom, lines of a row left to right."""
    rows = _rows(column, body)
    if not rows:
        return []
    leading = _usual_leading(rows, body)
    habits = _Column(leading, sorted(row.right for row in rows)[int(len(rows) * 0.8)], body)
    blocks = [[rows[0]]]
    for n, row in enumerate(rows[1:], 1):
        below = rows[n + 1] if n + 1 < len(rows) else None
        if _parted(blocks[-1], row, below, habits):
            blocks.append([row])
        else:
            blocks[-1].append(row)
    return [LineBlock(tuple(line for row in block for line in row.lines)) for block in blocks]


def _rows(column: Sequence[Line], body: Body) -> list[_Row]:
    rows: list[list[Line]] = []
    for line in column:
        if rows and _beside(rows[-1][-1].box, line.box) and not _strangers(rows[-1][-1], line, body):
            rows[-1].append(line)
        else:
            rows.append([line])
    return [_Row(tuple(row)) for row in rows]


def _strangers(a: Line, b: Line, body: Body) -> bool:
    """Whether level texts, not parts of formulas, have nothing to do with each other: far apart, of other sizes."""
    large, small = max(a.size, b.size), min(a.size, b.size)
    if body.recognised or b.box.l - a.box.r <= _FAR * large or large <= _OTHER_SIZE * small:
        return False
    return all(sum(c.isalpha() for c in line.text) >= _FEWEST_LETTERS for line in (a, b))


def _beside(a: Box, b: Box) -> bool:
    shared = min(a.b, b.b) - max(a.t, b.t)
    return shared > 0.5 * min(a.height, b.height)


@dataclass(frozen=True, slots=True)
class _Column:
    """What is usual in a column: leading in sizes, where lines end on the right."""

    leading: float | None
    right: float
    body: Body

    def gap(self, pitch: float) -> bool:
        """Whether a step between lines, in sizes, is more than the usual leading."""
        if self.leading is None:
            return pitch > _LOOSE
        return pitch > self.leading * (_WIDER_SEEN if self.body.recognised else _WIDER)


def _usual_leading(rows: Sequence[_Row], body: Body) -> float | None:
    """The leading, in sizes, that most lines of the column keep; the page's where they are few."""
    pitches = sorted(
        (b.base - a.base) / b.size
        for a, b in pairwise(rows)
        if abs(a.size - b.size) <= body.tolerance * max(a.size, b.size)
    )
    if len(pitches) < 4:
        return body.leading
    own = pitches[len(pitches) // 3]
    return min(own, body.leading * 1.3) if body.leading else own


def _parted(block: Sequence[_Row], row: _Row, below: _Row | None, column: _Column) -> bool:
    """Whether a new block begins with `row`."""
    above, body = block[-1], column.body
    size = max(above.size, row.size)
    if abs(above.size - row.size) > body.tolerance * size or above.lines[0].vertical != row.lines[0].vertical:
        return True
    if column.gap((row.base - above.base) / row.size):
        return True
    short = above.right < column.right - 2 * size
    if above.mono and row.mono and not body.mono:
        return False
    if is_separator(above.text) or is_separator(row.text):
        return True
    if above.bold != row.bold and (short or above.ends) and not CAPTION.match(block[0].text):
        return True
    if not body.recognised and _other_type(above, row):
        return True
    if len(block) == 1 and short and not above.ends and DEEP_SECTION.match(above.text):
        return True
    if starts_item(row.text) and (above.ends or short or starts_item(block[0].text) or row.left > above.left + size):
        return True
    return _paragraph_begins(block, row, below, column)


def _under_text(item: _Row, row: _Row, column: _Column) -> bool:
    """Whether a row stands close below an item's text, behind its mark."""
    words = item.lines[0].words if len(item.lines) == 1 else item.lines[1].words
    text = words[min(1, len(words) - 1)].box.l if len(item.lines) == 1 and words else item.lines[-1].box.l
    pitch = (row.base - item.base) / row.size
    return abs(row.left - text) < 0.5 * row.size and pitch < 1.15 * (column.leading or _LOOSE)


def _other_type(above: _Row, row: _Row) -> bool:
    """Another font in another size: a heading in the family of its own that designers give it."""
    return above.lines[0].font != row.lines[0].font and abs(above.size - row.size) > 0.03 * max(above.size, row.size)


def _paragraph_begins(block: Sequence[_Row], row: _Row, below: _Row | None, column: _Column) -> bool:
    """By an indent, by a hanging first line, or by a short line before it that ends a sentence."""
    above, em = block[-1], row.size
    short = above.right < column.right - 3 * em
    margin = min(r.left for r in block[1:]) if len(block) > 1 else block[0].left
    hanging = len(block) > 1 and block[0].left < margin - 0.7 * em
    if hanging:  # items and references: the next one begins where the first line began
        return row.left < margin - 0.7 * em
    if starts_item(block[0].text) and len(block) == 1 and row.left > block[0].left + 0.7 * em:
        return short and above.ends and not _under_text(above, row, column)
    level = abs(row.left - block[0].left) < 0.5 * em and row.right > column.right - 3 * em
    if below is not None and level and below.left > row.left + 0.7 * em and (above.ends or short):
        item = starts_item(below.text) or column.gap((below.base - row.base) / em)
        return below.left < row.left + _INDENT[1] * em and not item
    indent = row.left - margin
    if _INDENT[0] * em < indent < _INDENT[1] * em and not short:
        last = row.ends and row.right < column.right - 3 * em  # of a hanging item rather than first of a paragraph
        level = below is not None and abs(below.left - margin) < 0.4 * em and abs(above.left - margin) < 0.4 * em
        returns = level and not last
        return above.ends or returns
    return short and above.ends
