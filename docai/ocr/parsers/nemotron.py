"""What Nemotron-Parse writes: blocks `<x_…><y_…>text<x_…><y_…><class_…>`, corners in shares of the page's canvas.

Prompts leave parts of that out, and answers that are cut off others: a block may have no class, or no corners at all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from docai.types import Label, Point

LABELS: dict[str, Label] = {
    "text": Label.TEXT,
    "title": Label.TITLE,
    "section-header": Label.HEADING,
    "list-item": Label.LIST_ITEM,
    "caption": Label.CAPTION,
    "footnote": Label.FOOTNOTE,
    "formula": Label.FORMULA,
    "inline-formula": Label.FORMULA,
    "table": Label.TABLE,
    "picture": Label.FIGURE,
    "chart": Label.FIGURE,
    "bibliography": Label.TEXT,
    "page-header": Label.PAGE_HEADER,
    "page-footer": Label.PAGE_FOOTER,
    "toc": Label.TEXT,
    "code": Label.CODE,
}
_TOKEN = re.compile(r"<x_(?P<x>\d*\.?\d+)>\s*<y_(?P<y>\d*\.?\d+)>|<class_(?P<name>[^<>]*)>")
_CONTROL = re.compile(r"</?s>|<pad>|<(?:predict|output|no)_\w+>|<tbc>|\\?<\\?\|unk\\?\|\\?>|\\unknown\b")
_BULLETS = re.compile(r"^\s*(?:[-*•·▪◦●]\s*)*[-*•·▪◦●]\s+")


@dataclass(frozen=True, slots=True)
class Piece:
    """A block as it is written: its class as `name`, `start` and `end` as corners; None where the answer lacks them."""

    text: str
    name: str | None = None
    start: Point | None = None
    end: Point | None = None

    @property
    def label(self) -> Label:
        """What it is; text where that is not said or not known."""
        return LABELS.get((self.name or "").strip().lower(), Label.TEXT)


def pieces(answer: str) -> list[Piece]:
    """The blocks of an answer in its order."""
    return [piece for piece in _pieces(answer) if piece.text or piece.label in (Label.FIGURE, Label.TABLE)]


def _pieces(answer: str) -> Iterator[Piece]:
    text, corners, at = "", list[Point](), 0
    for found in _TOKEN.finditer(answer):
        between, at = clean(answer[at : found.start()]), found.end()
        if between and len(corners) == 2:  # the block before had no class
            yield Piece(text, None, *corners)
            text, corners = "", []
        text = text or between
        if found["name"] is not None:
            yield Piece(text, found["name"], *corners)
            text, corners = "", []
            continue
        if len(corners) == 2 or (text and not corners):
            yield Piece(text, None, *corners)
            text, corners = "", []
        corners.append((float(found["x"]), float(found["y"])))
    rest = clean(answer[at:])
    if len(corners) == 2 and rest:
        yield Piece(text, None, *corners)
        text, corners = "", []
    if text or rest:
        yield Piece(text or rest, None, *corners)


def clean(text: str) -> str:
    """A block's text without control tokens, and without what stands for characters that the model does not know."""
    return _CONTROL.sub("", text).strip()


def markdown_of(piece: Piece) -> str:
    """The text of a block as markdown; of several bullets before a list item one is left."""
    return _BULLETS.sub("- ", piece.text) if piece.label is Label.LIST_ITEM else piece.text
