"""Line ends that somebody meant: of addresses, poems, receipts and forms.

Running text is broken where the next word would not fit any more. So a line that has room for the first word of the
next one was ended on purpose, and a block of such lines keeps them.
"""

from __future__ import annotations

from collections.abc import Sequence

from docai.ocr.joining import rows_of
from docai.types import Box, Line
from docai.writing import is_cjk

_ROOM = 1.0  # sizes beside the next word and a space, so that loose boxes and kerning do not count as room
_SPACE = 0.3  # sizes
_LEVEL = 0.5  # sizes within which lines end level, as they do beside a picture that the text runs around


def meant_ends(lines: Sequence[Line]) -> frozenset[int]:
    """Positions of the lines, in reading order, behind which a line end belongs to the text.

    None unless at least half of the rows end on purpose; then those that do, and those before a row that begins anew.
    """
    if len(lines) < 2 or any(line.vertical or line.angle for line in lines):
        return frozenset()
    if any(is_cjk(line.text[-1:]) for line in lines if line.text):  # may break anywhere
        return frozenset()
    rows = rows_of(lines)
    on_purpose = [_ends_early(rows, n) for n in range(len(rows) - 1)]
    if not any(on_purpose) or sum(on_purpose) * 2 < len(on_purpose):
        return frozenset()
    last, ends = -1, set()
    for n, early in enumerate(on_purpose):
        last += len(rows[n])
        if early or not rows[n + 1][0].text[:1].islower():
            ends.add(last)
    return frozenset(ends)


def _ends_early(rows: Sequence[Sequence[Line]], n: int) -> bool:
    """Whether the first word of the row below would have fit beside a row."""
    row, below, size = rows[n], rows[n + 1], max(rows[n][0].size, 0.1)
    if not below[0].text or row[-1].text.endswith(("-", "\u2010", "\u00ad")):
        return False
    left, right = min(r[0].box.l for r in rows), max(r[-1].box.r for r in rows)
    ends = [r[-1].box.r for r in (*rows[max(0, n - 1) : n], below)]
    if any(abs(row[-1].box.r - end) < _LEVEL * size for end in ends):
        return False
    behind, before = right - row[-1].box.r, row[0].box.l - left
    room = behind + min(before, behind)  # of centred lines, on both sides
    return room > _first_word(below[0]).width + (_SPACE + _ROOM) * size


def _first_word(line: Line) -> Box:
    if line.words:
        return line.words[0].box
    share = len(line.text.split()[0]) / len(line.text) if line.text.split() else 1.0
    return Box(line.box.l, line.box.t, line.box.l + share * line.box.width, line.box.b)
