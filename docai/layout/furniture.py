"""Running headers, footers and page numbers, as far as a single page shows them: the outermost rows of text.

What comes back on several pages is found by the document pass; this is for what one page gives away.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from docai.layout.body import Body, usual
from docai.types import Box, Label, Line, Page, Rule
from docai.writing import page_number

_EDGE = 0.13  # of the page height
_NUMBER_EDGE = 0.1  # the same for a number that stands alone
_GAP = 1.0  # sizes of white between the outermost row and the text, more than between lines
_GAP_OF_NUMBERED = 0.7
_GAP_OF_NUMBER = 0.4
_SMALLER = 0.95  # times the usual size
_LONGEST = 150  # characters
_MOST_ROWS = 3
_RULE = 0.5  # of the width of the text: a rule that parts header and text
_LOWEST_IMAGE = 400  # pixels; a lower one is a cutting, not a page
_FOOT = re.compile(
    r"©|copyright|https?://|www\.|\bdoi\b|\bpage\s+\d|\bconfidential\b|all rights reserved|\bseite\s+\d", re.IGNORECASE
)
_NUMBER_AT_END = re.compile(r"(?:^\d{1,4}\s+\D)|(?:\D\s+\d{1,4}$)")


def edge_lines(lines: Sequence[Line], page: Page, body: Body, rules: Sequence[Rule]) -> list[tuple[Line, Label]]:
    """The lines of the outermost rows that are furniture, each with its label."""
    if len(lines) < 4 or page.height <= (_LOWEST_IMAGE if page.unit == "px" else 0):
        return []
    width = max(line.box.r for line in lines) - min(line.box.l for line in lines)
    flat = [rule.box for rule in rules if rule.horizontal and rule.box.width > _RULE * width]
    return [pair for top in (True, False) for pair in _Edge(page, body, flat, top).found(lines)]


@dataclass(frozen=True, slots=True)
class _Edge:
    """The upper or lower edge of a page. `rules`: those that run across it."""

    page: Page
    body: Body
    rules: Sequence[Box]
    top: bool

    def found(self, lines: Sequence[Line]) -> list[tuple[Line, Label]]:
        """Rows from the edge inwards, as long as they are furniture."""
        rest = sorted(lines, key=lambda line: line.box.t if self.top else -line.box.b)
        found: list[tuple[Line, Label]] = []
        for _ in range(_MOST_ROWS):
            row = _outermost(rest)
            inner = without(rest, row)
            if not row or not inner or not self._is_furniture(row, inner, again=bool(found)):
                break
            found += [(line, self._label(line)) for line in row]
            rest = inner
        return found

    def _depth(self, line: Line) -> tuple[float, float]:
        """How far the near and the far side of a line are from the edge."""
        box, height = line.box, self.page.height
        return (box.t, box.b) if self.top else (height - box.b, height - box.t)

    def _is_furniture(self, row: Sequence[Line], inner: Sequence[Line], *, again: bool) -> bool:
        depth = max(self._depth(line)[1] for line in row)
        text = " ".join(line.text for line in row)
        size = usual((line.size, len(line.text)) for line in row)
        if depth > _EDGE * self.page.height or len(text) > _LONGEST:
            return False
        gap = min(self._depth(line)[0] for line in inner) - depth
        alone = page_number(text) is not None
        if alone and depth < _NUMBER_EDGE * self.page.height and gap > _GAP_OF_NUMBER * size:
            return True
        if size > (1.4 if self.body.recognised else 1.15) * self.body.size:
            return False
        extra = gap / self.body.size - max((self.body.leading or 1.2) - 1.0, 0.0)
        smaller = size < _SMALLER * self.body.size and not self.body.recognised
        numbered = any(page_number(line.text) is not None for line in row) or bool(_NUMBER_AT_END.search(text))
        if self._beyond_rule(row, inner) or (numbered and (extra > _GAP_OF_NUMBERED or smaller)):
            return True
        return (smaller and extra > _GAP) or (bool(_FOOT.search(text)) and (smaller or extra > _GAP or again))

    def _beyond_rule(self, row: Sequence[Line], inner: Sequence[Line]) -> bool:
        """Whether a rule, and not just an underline, runs between a row and the rest of the text."""
        if self.top:
            above, below = max(line.box.b for line in row), min(line.box.t for line in inner)
        else:
            above, below = max(line.box.b for line in inner), min(line.box.t for line in row)
        slack = 0.3 * self.body.size
        width = 1.15 * sum(line.box.width for line in row)
        return any(above - slack < rule.cy < below + slack and rule.width > width for rule in self.rules)

    def _label(self, line: Line) -> Label:
        if page_number(line.text) is not None:
            return Label.PAGE_NUMBER
        return Label.PAGE_HEADER if self.top else Label.PAGE_FOOTER


def without(lines: Sequence[Line], others: Sequence[Line]) -> list[Line]:
    """The lines that are none of `others`."""
    gone = {id(line) for line in others}
    return [line for line in lines if id(line) not in gone]


def _outermost(lines: Sequence[Line]) -> list[Line]:
    if not lines:
        return []
    first = lines[0].box
    return [line for line in lines if min(line.box.b, first.b) - max(line.box.t, first.t) > 0.4 * first.height]
