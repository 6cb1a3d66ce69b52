"""Drop caps: the large initial of a paragraph goes back to the line that it begins."""

from __future__ import annotations

from dataclasses import replace

from docai.geometry import y_overlap
from docai.types import Box, Line

_LARGER = 1.8  # a drop cap's size over that of its lines


def with_initials(lines: list[Line]) -> list[Line]:
    """`lines` with each initial that stands beside two lines or more joined to the topmost of them."""
    initials = [line for line in lines if _may_be_initial(line)]
    if not initials:
        return lines
    joined: dict[int, Line] = {}
    for initial in initials:
        beside = [i for i, line in enumerate(lines) if i not in joined and _stands_beside(initial, line)]
        if len(beside) >= 2:
            first = min(beside, key=lambda i: lines[i].box.t)
            joined[first] = _join(initial, lines[first])
            joined[lines.index(initial)] = initial
    gone = {id(line) for line in joined.values() if line in initials}
    return [line for i, old in enumerate(lines) for line in (joined.get(i, old),) if id(line) not in gone]


def _may_be_initial(line: Line) -> bool:
    text = line.text.lstrip("\u201c\u2018\"'\u00ab\u201e")
    return len(text) == 1 and text.isupper() and len(line.words) == 1 and line.angle == 0 and not line.vertical


def _stands_beside(initial: Line, line: Line) -> bool:
    """Whether a line begins just right of an initial, within its height."""
    if line.angle or not line.size or initial.size < _LARGER * line.size:
        return False
    gap = line.box.l - initial.box.r
    return -0.5 * line.size < gap < 1.2 * line.size and y_overlap(initial.box, line.box) > 0.5


def _join(initial: Line, line: Line) -> Line:
    """The line with the initial before its first word; its height stays its own."""
    words = line.words
    box = Box(initial.box.l, line.box.t, line.box.r, line.box.b)
    if words:
        first = words[0]
        word = replace(first, text=initial.text + first.text, box=replace(first.box, l=initial.box.l))
        words = (word, *words[1:])
    return replace(line, text=initial.text + line.text, box=box, words=words)
