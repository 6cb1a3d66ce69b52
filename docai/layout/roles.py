"""What a block of text is: title, heading, list item, caption, footnote, code, formula or plain text."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from docai.layout.blocks import BULLET, LineBlock, starts_item
from docai.types import Box, Label, Page
from docai.writing import page_number

_CAPTION = re.compile(
    r"^(?:Fig(?:ure|\.)?|Table|Tab\.|Scheme|Chart|Algorithm|Listing|Box|Abb(?:ildung|\.)|Tabelle|Figura|Tableau|Cuadro|Tabla)\s*"
    r"(?:\d+|[IVX]+|[A-Z]\.?\d*)\b|^[図表图]\s*\d+",
    re.IGNORECASE,
)
_SECTION = re.compile(r"^(?:\d{1,2}(?:\.\d{1,2})*\.?|[A-Z](?:\.\d{1,2})+\.?|[IVX]{1,5}\.)\s+\S")
_MATH_FONTS = ("cmmi", "cmsy", "cmex", "cambriamath", "mathematical", "msbm", "stix", "euex", "mtmi", "mtsy")
_LARGER = 1.12  # times the body size, from where on type is a heading's
_TITLE = 1.3  # times the body size
_LONGEST_HEADING = 160  # characters
_MOST_HEADING_LINES = 3
_EDGE = 0.075  # of the page height


@dataclass(frozen=True, slots=True)
class Body:
    """The running text of a page: its usual size, whether it is bold or in typewriter type, and whether its sizes are
    those of a recogniser.
    """

    size: float
    bold: bool
    recognised: bool
    mono: bool = False
    font: str = ""


def label_of(block: LineBlock, body: Body, page: Page) -> Label:
    """The label of a text block, by how it is set and what it starts with."""
    if any(line.angle for line in block.lines):
        return Label.STAMP if _in_margin(block.box, page) else Label.TEXT
    edge = _edge_label(block, body, page)
    if edge is not None:
        return edge
    if _CAPTION.match(block.text) and len(block.text) < 800:
        return Label.CAPTION
    if is_formula(block):
        return Label.FORMULA
    if block.mono and not body.mono and (len(block.lines) > 1 or any(c in block.text for c in "(){};=")):
        return Label.CODE
    if BULLET.match(block.text):
        return Label.LIST_ITEM
    if is_heading(block, body):
        return Label.HEADING
    if starts_item(block.text):
        return Label.LIST_ITEM
    return Label.FOOTNOTE if _is_footnote(block, body, page) else Label.TEXT


def _in_margin(box: Box, page: Page) -> bool:
    return box.r < 0.12 * page.width or box.l > 0.88 * page.width


def _edge_label(block: LineBlock, body: Body, page: Page) -> Label | None:
    """Page numbers at an edge; a single small line at the very top or bottom."""
    at_top, at_bottom = block.box.b < _EDGE * page.height, block.box.t > (1 - _EDGE) * page.height
    if not (at_top or at_bottom) or len(block.lines) > 3 or (page.unit == "px" and page.height < 400):
        return None
    if page_number(block.text) is not None:
        return Label.PAGE_NUMBER
    if block.size > _LARGER * body.size or len(block.text) > 200:
        return None
    return Label.PAGE_HEADER if at_top else Label.PAGE_FOOTER


def is_heading(block: LineBlock, body: Body) -> bool:
    """Short, set apart from the body by size, weight or capitals, and no sentence."""
    text = block.text.strip()
    letters = [c for c in text if c.isalpha()]
    if len(block.lines) > _MOST_HEADING_LINES or len(text) > _LONGEST_HEADING or len(letters) < 2:
        return False
    if text[-1] in ".,;:" and not (_SECTION.match(text) and text[-1] in ".:"):
        return text[-1] == ":" and block.size > _TITLE * body.size
    if len(letters) < 0.5 * len(text.replace(" ", "")):
        return False
    larger = block.size > (1.35 if body.recognised else _LARGER) * body.size
    heavier = block.bold and not body.bold and not body.recognised and block.size > 0.95 * body.size
    other_type = block.font != body.font and block.size > 1.04 * body.size and not body.recognised
    capitals = text.isupper() and len(letters) > 4 and block.size > 0.95 * body.size and not body.recognised
    return (
        larger
        or heavier
        or other_type
        or (capitals and block.bold >= body.bold)
        or bool(_SECTION.match(text) and heavier)
    )


def is_formula(block: LineBlock) -> bool:
    """A display formula: mostly signs and symbols, in the fonts of mathematics, and hardly a word."""
    if len(block.lines) > 6 or len(block.text) > 200:
        return False
    words = [w for w in block.text.split() if len(w) > 3 and w.isalpha() and w.isascii()]
    symbols = sum(unicodedata.category(c) == "Sm" or "\u0370" <= c <= "\u03ff" for c in block.text)
    fonts = sum(len(line.text) for line in block.lines if any(f in line.font.lower() for f in _MATH_FONTS))
    return len(words) <= 1 and symbols >= 1 and (fonts > 0.4 * len(block.text) or symbols > 0.12 * len(block.text))


def _is_footnote(block: LineBlock, body: Body, page: Page) -> bool:
    smaller = block.size < 0.93 * body.size and not body.recognised
    marked = bool(re.match(r"^(?:\d{1,2}|[*†‡§¶])\s*\S", block.text))
    first = block.lines[0].words[0] if block.lines[0].words else None
    raised = first is not None and "superscript" in first.styles
    return smaller and block.box.t > 0.55 * page.height and (marked or raised)
