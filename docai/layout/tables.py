"""Where the tables of a page are: grids of rules, text in columns between rules or bands of colour, aligned text.

Precision comes first: a region taken for a table by mistake tears running text apart, a table that is missed still
reads row by row.
"""

from __future__ import annotations

from collections.abc import Sequence

from docai.geometry import clip, inside, overlap_area, union
from docai.layout.aligned import aligned_tables
from docai.layout.captions import without_captions
from docai.layout.grid import em_of, tracks, typed_rules
from docai.layout.ruled import between_rules, grids, stacks
from docai.types import Box, Label, Line, Page, Region, Rule

_TALLEST_BAND = 4.0  # em: a coloured area no higher than this may be a row


def find_tables(page: Page, lines: Sequence[Line], rules: Sequence[Rule], fills: Sequence[Box]) -> list[Region]:
    """Table regions of a page, top to bottom, without their captions and notes."""
    if len(lines) < 4:
        return []
    em = em_of(lines)
    lines, drawn = typed_rules(lines)
    rules = [*rules, *drawn]
    flat, upright = tracks(rules, 0.25 * em)
    boxes = grids(flat, upright, lines, em) if upright else []
    free = _outside(lines, boxes)
    loose = aligned_tables(free, em)
    if len(flat) > 1 or len(fills) > 1:
        banded, _ = tracks([*rules, *_bands(fills, em)], 0.25 * em)
        between: list[Box] = []
        for stack in stacks(banded, em):
            found = between_rules(stack, free, em)
            found = [b for b in found if not any(overlap_area(b, o) > 0 for o in boxes + between)]
            between += [b for b in found if not _adds_nothing(b, loose, free)]
        loose += between
    boxes = [without_captions(box, lines, em) for box in _merged(boxes + loose, em)]
    return [Region(clip(box, page.box), Label.TABLE) for box in sorted(boxes, key=lambda box: (box.t, box.l))]


def _outside(lines: Sequence[Line], boxes: Sequence[Box]) -> list[Line]:
    return [line for line in lines if not any(inside(line.box, box) > 0.5 for box in boxes)]


def _adds_nothing(box: Box, boxes: Sequence[Box], lines: Sequence[Line]) -> bool:
    """Whether a box between rules reaches from one table into another, or one of them holds all lines that it holds."""
    shares = [inside(other, box) for other in boxes if overlap_area(box, other) > 0]
    if len(shares) > 1 and min(shares) < 0.7:
        return True
    held = [line for line in lines if inside(line.box, box) > 0.5]
    return any(all(inside(line.box, other) > 0.5 for line in held) for other in boxes)


def _bands(fills: Sequence[Box], em: float) -> list[Rule]:
    """The upper and lower edges of coloured rows, as rules."""
    rows = [fill for fill in fills if 0.8 * em < fill.height < _TALLEST_BAND * em and fill.width > em]
    return [Rule(Box(f.l, y, f.r, y)) for f in rows for y in (f.t, f.b)]


def _merged(boxes: Sequence[Box], em: float) -> list[Box]:
    """Boxes that overlap, or go on from each other without a gap, as one."""
    found: list[Box] = []
    for box in sorted(boxes, key=lambda b: b.t):
        for i, other in enumerate(found):
            if _one_table(other, box, em):
                found[i] = union((other, box))
                break
        else:
            found.append(box)
    return found


def _one_table(above: Box, below: Box, em: float) -> bool:
    shared = min(above.r, below.r) - max(above.l, below.l)
    if overlap_area(above, below) > 0.1 * min(above.area, below.area):
        return True
    return 0 <= below.t - above.b < em and shared > 0.8 * max(above.width, below.width)
