"""Headings: short lines that stand out from the running text by size, weight, capitals or numbering."""

from __future__ import annotations

import re
from itertools import pairwise

from docai.layout.blocks import CAPTION, DEEP_SECTION, LineBlock
from docai.layout.body import Body

SECTION = re.compile(
    r"^(?:\d{1,2}(?:\.\d{1,2})*\.?|[A-Z]\.(?:\d{1,2}\.?)*|[IVX]{1,5}\.|§\s*\d+|第[一二三四五六七八九十\d]+[章节節編篇]"
    r"|(?:Chapter|Section|Part|Appendix|Kapitel|Teil|Anhang|Chapitre|Capítulo)\s+\w+[.:]?)\s+(?=\S)"
)
_LARGER = 1.12  # times the body size, from where on type is a heading's
_LARGER_SEEN = 1.35  # the same for recognised text, whose sizes vary with the letters
_MUCH_LARGER = 1.3
_LONGEST = 160  # characters
_MOST_LINES = 3
_WIDEST_GAP = 3.0  # sizes
_SHORTEST_CAPITALS = 5  # letters; fewer are an abbreviation


def is_heading(block: LineBlock, body: Body, *, apart: bool) -> bool:
    """Whether a block is a heading. `apart`: it has more white above than a line, and does not fill its column."""
    text = block.text.strip()
    if len(block.lines) > _MOST_LINES or len(text) > _LONGEST or CAPTION.match(text):
        return False
    letters = [c for c in text if c.isalpha()]
    if len(letters) < 2:
        return False
    if _broken(block) or len(letters) < 0.5 * len(text.replace(" ", "")) or not _ends_like_one(block, text, body):
        return False
    if text[0].islower() and block.size < _MUCH_LARGER * body.size:
        return False
    return _stands_out(block, body, letters) or (
        apart and bool(DEEP_SECTION.match(text)) and len(block.lines) < _MOST_LINES
    )


def _broken(block: LineBlock) -> bool:
    """Whether it has wide gaps, as rows of a form or table have: only a number may stand apart from a heading."""
    return any(
        b.box.l - a.box.r > _WIDEST_GAP * block.size and a.box.b > b.box.t and len(a.text) > 5
        for a, b in pairwise(block.lines)
    )


def _ends_like_one(block: LineBlock, text: str, body: Body) -> bool:
    """Headings end without a stop; with one only after a section number, with a colon only in large type."""
    if text[-1] in ",;-–":
        return False
    if text[-1] == ":":
        return bool(SECTION.match(text)) or block.size > _MUCH_LARGER * body.size
    return text[-1] not in ".。" or bool(SECTION.match(text)) or block.size > _MUCH_LARGER * body.size


def _stands_out(block: LineBlock, body: Body, letters: list[str]) -> bool:
    size = block.size / body.size
    if size > (_LARGER_SEEN if body.recognised else _LARGER):
        return True
    if size < 0.95 and not (body.recognised and size > 0.8):
        return False
    if block.bold and not body.bold:
        return True
    if body.recognised:
        return False
    other = block.font not in body.fonts
    upper = all(c.isupper() for c in letters if c.isupper() or c.islower()) and any(c.isupper() for c in letters)
    capitals = upper and len(letters) >= _SHORTEST_CAPITALS and block.bold >= body.bold
    if len(block.lines) > 1:
        return capitals and other
    return capitals or (other and size > 1.04)
