"""Lines of a column to blocks: paragraphs, headings, list items."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from docai.geometry import union
from docai.types import Box, Line

_SIZE_STEP = 0.12  # by which sizes of one block may differ
_LOOSE = 1.45  # leading, in sizes, that needs a reason when nothing else is known of the column
_WIDER = 1.28  # times the column's usual leading: a gap between blocks
BULLET = re.compile(r"^[•◦▪▫●○■□❑❖‣⁃∙·➢➤✓☑✔\-–—*]\s+\S")
NUMBERED = re.compile(r"^(?:\(?(?:\d{1,3}|[a-z]|[ivx]{1,5})[.)]\s|\[\d{1,3}\]|[①-⑳])\s*\S")


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
        return usual([(line.size, len(line.text)) for line in self.lines])

    @property
    def bold(self) -> bool:
        return all(line.bold for line in self.lines if any(c.isalpha() for c in line.text))

    @property
    def font(self) -> str:
        """The font of its first line."""
        return self.lines[0].font

    @property
    def mono(self) -> bool:
        return all(line.mono for line in self.lines)


def usual(values: Sequence[tuple[float, int]]) -> float:
    """The weighted median of (value, weight); 0 of none."""
    total = sum(weight for _, weight in values)
    passed = 0
    for value, weight in sorted(values):
        passed += weight
        if passed * 2 >= total:
            return value
    return 0.0


def blocks_of(column: Sequence[Line], *, recognised: bool) -> list[LineBlock]:
    """The blocks of the lines of one column, which come top to bottom, lines of a row left to right.

    `recognised`: sizes are heights of what was seen, and vary with the letters of a line.
    """
    rows = _rows(column)
    if not rows:
        return []
    leading = _usual_leading(rows)
    right = _right_edge(rows)
    blocks: list[list[list[Line]]] = [[rows[0]]]
    for above, row in pairwise(rows):
        if _parted(blocks[-1], above, row, leading, right, recognised):
            blocks.append([row])
        else:
            blocks[-1].append(row)
    return [LineBlock(tuple(line for row in block for line in row)) for block in blocks]


def _rows(column: Sequence[Line]) -> list[list[Line]]:
    rows: list[list[Line]] = []
    for line in column:
        if rows and _beside(rows[-1][-1].box, line.box):
            rows[-1].append(line)
        else:
            rows.append([line])
    return rows


def _beside(a: Box, b: Box) -> bool:
    shared = min(a.b, b.b) - max(a.t, b.t)
    return shared > 0.5 * min(a.height, b.height)


def _pitch(above: Sequence[Line], row: Sequence[Line]) -> float:
    """From baseline to baseline."""
    return row[0].box.b - above[0].box.b


def _usual_leading(rows: Sequence[Sequence[Line]]) -> float | None:
    """The pitch, in sizes, that most lines of the column keep."""
    pitches = sorted(
        _pitch(a, b) / max(b[0].size, 0.1)
        for a, b in pairwise(rows)
        if abs(a[0].size - b[0].size) <= _SIZE_STEP * max(a[0].size, b[0].size)
    )
    if len(pitches) < 4:
        return None
    return pitches[len(pitches) // 3]


def _right_edge(rows: Sequence[Sequence[Line]]) -> float:
    edges = sorted(row[-1].box.r for row in rows)
    return edges[int(len(edges) * 0.8)]


def _parted(
    block: Sequence[Sequence[Line]],
    above: Sequence[Line],
    row: Sequence[Line],
    leading: float | None,
    right: float,
    recognised: bool,
) -> bool:
    """Whether a new block begins with `row`."""
    last, first = above[0], row[0]
    size = max(last.size, first.size, 0.1)
    step = 0.45 if recognised else _SIZE_STEP
    if abs(last.size - first.size) > step * size or last.vertical != first.vertical:
        return True
    pitch = _pitch(above, row) / max(first.size, 0.1)
    if pitch > (leading * _WIDER if leading else _LOOSE * 1.25):
        return True
    if not recognised and (_all_bold(above) != _all_bold(row) or _other_type(last, first)):
        return True
    if starts_item(first.text):
        return True
    return _paragraph_begins(block, above, row, right)


def _other_type(a: Line, b: Line) -> bool:
    """Another font in another size: a heading in the family of its own that designers give it."""
    return a.font != b.font and abs(a.size - b.size) > 0.03 * max(a.size, b.size)


def _all_bold(row: Sequence[Line]) -> bool:
    return all(line.bold for line in row)


def starts_item(text: str) -> bool:
    """Whether a line starts like a list item."""
    return bool(BULLET.match(text) or NUMBERED.match(text))


def _paragraph_begins(
    block: Sequence[Sequence[Line]], above: Sequence[Line], row: Sequence[Line], right: float
) -> bool:
    """By an indent, or a short line that ends a sentence."""
    em = max(row[0].size, 0.1)
    left_of_block = min(r[0].box.l for r in block[1:]) if len(block) > 1 else block[0][0].box.l
    indent = row[0].box.l - left_of_block
    hanging = (len(block) > 1 and block[0][0].box.l < left_of_block - 0.7 * em) or starts_item(block[0][0].text)
    short = above[-1].box.r < right - 3 * em
    ends = above[-1].text.rstrip()[-1:] in '.!?:。！？”"'
    if hanging:  # items and references: the next one begins where the first line began
        return row[0].box.l < left_of_block - 0.7 * em and len(block) > 1
    if 0.8 * em < indent < 4 * em and (ends or not short):
        return ends
    return short and ends
