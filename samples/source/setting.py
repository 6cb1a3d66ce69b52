"""Sets paragraphs into columns: inline marks, hyphenation, justification, and the flow over columns and pages.

Inline marks: *italic*, **bold**, [text](target), ^1^ for the mark of a footnote.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from source.fonts import SERIF, SERIF_BOLD, SERIF_ITALIC, Face
from source.pdf import Pdf, Sheet, width

MARKS = re.compile(r"\*\*(?P<bold>.+?)\*\*|\*(?P<italic>.+?)\*|\[(?P<linked>.+?)\]\((?P<target>.+?)\)|\^(?P<sup>.+?)\^")
BLUE = (0.05, 0.25, 0.6)


@dataclass(frozen=True)
class Piece:
    """Characters of one word in one style."""

    text: str
    face: Face = SERIF
    target: str = ""
    raised: bool = False

    def width(self, size: float) -> float:
        return width(self.face.shape(self.text), self.size(size)) if self.text else 0.0

    def size(self, size: float) -> float:
        return size * 0.65 if self.raised else size


Word = tuple[Piece, ...]


def pieces(text: str, face: Face) -> Iterator[Piece]:
    """The runs of a text with inline marks."""
    end = 0
    for match in MARKS.finditer(text):
        yield Piece(text[end : match.start()], face)
        end = match.end()
        kinds = {"bold": SERIF_BOLD, "italic": SERIF_ITALIC}
        kind = match.lastgroup or ""
        if kind == "target":
            yield Piece(match["linked"], face, target=match["target"])
        else:
            yield Piece(match[kind], kinds.get(kind, face), raised=kind == "sup")
    yield Piece(text[end:], face)


def words(text: str, face: Face) -> list[Word]:
    """The words of a text with inline marks."""
    out: list[list[Piece]] = [[]]
    for piece in pieces(text, face):
        for i, part in enumerate(piece.text.split(" ")):
            if i:
                out.append([])
            if part:
                out[-1].append(replace(piece, text=part))
    return [tuple(word) for word in out if word]


@dataclass(frozen=True)
class SetLine:
    """A line of words; `last` ends its paragraph, `text` is what it says."""

    words: tuple[Word, ...]
    last: bool

    @property
    def text(self) -> str:
        return " ".join("".join(p.text for p in word) for word in self.words)


@dataclass
class Setter:
    """Breaks paragraphs into lines. `hyphens`: words that may be broken, written as in `in-stru-ment`."""

    hyphens: str = ""
    points: dict[str, list[int]] = field(init=False)

    def __post_init__(self) -> None:
        self.points = {}
        for word in self.hyphens.split():
            parts = word.split("-")
            self.points["".join(parts)] = [len("".join(parts[:i])) for i in range(len(parts) - 1, 0, -1)]

    def lines(self, text: str, measure: float, size: float, face: Face = SERIF, indent: float = 0) -> list[SetLine]:
        """Lines of at most `measure` points; the first one is shorter by `indent`."""
        done: list[SetLine] = []
        line: list[Word] = []
        space = Piece(" ", face).width(size)
        room = measure - indent
        for word in words(text, face):
            need = sum(p.width(size) for p in word)
            if line and need > room:
                head, word = self.broken(word, room, size)
                done.append(SetLine((*line, head) if head else tuple(line), last=False))
                line, room, need = [], measure, sum(p.width(size) for p in word)
            line.append(word)
            room -= need + space
        return [*done, SetLine(tuple(line), last=True)]

    def broken(self, word: Word, room: float, size: float) -> tuple[Word | None, Word]:
        """The part of a word that still fits, with a hyphen, and the rest of it."""
        text = word[0].text
        bare = text.strip(".,;:()")
        for at in self.points.get(bare.lower(), []):
            at += text.index(bare)
            head = replace(word[0], text=text[:at] + "-")
            if head.width(size) <= room:
                return (head,), (replace(word[0], text=text[at:]), *word[1:])
        return None, word


Align = Literal["justify", "left", "centre"]


def draw_line(
    sheet: Sheet, line: SetLine, x: float, y: float, measure: float, size: float, align: Align = "justify"
) -> None:
    """Draw a line with its baseline at `y`."""
    space = Piece(" ", line.words[0][0].face).width(size)
    natural = sum(p.width(size) for word in line.words for p in word) + space * (len(line.words) - 1)
    if align == "justify" and not line.last and len(line.words) > 1:
        space += (measure - natural) / (len(line.words) - 1)
    if align == "centre":
        x += (measure - natural) / 2
    for i, word in enumerate(line.words):
        for j, piece in enumerate(word):
            more = i + 1 < len(line.words) and j + 1 == len(word)
            shown = piece.text + " " if more and not piece.raised else piece.text
            draw_piece(sheet, replace(piece, text=shown), x, y, size)
            x += piece.width(size)
        x += space


def draw_piece(sheet: Sheet, piece: Piece, x: float, y: float, size: float) -> None:
    colour = BLUE if piece.target else (0, 0, 0)
    rise = size * 0.35 if piece.raised else 0
    sheet.text(x, y - rise, piece.text, piece.face, piece.size(size), colour=colour)
    if piece.target:
        sheet.link(x, y - size, piece.width(size), size * 1.25, piece.target)


@dataclass(frozen=True)
class Column:
    """A place to set text into: page number, left edge, top, bottom."""

    page: int
    x: float
    top: float
    bottom: float


@dataclass
class Flow:
    """Fills columns one after the other, over as many pages as they name."""

    pdf: Pdf
    columns: Sequence[Column]
    measure: float
    setter: Setter
    size: float = 9.6
    leading: float = 11.6
    at: int = 0
    y: float = 0.0
    first_page: list[str] = field(default_factory=list)  # what of each block stands on page 1

    def __post_init__(self) -> None:
        self.y = self.columns[0].top

    @property
    def column(self) -> Column:
        return self.columns[self.at]

    @property
    def sheet(self) -> Sheet:
        return self.pdf.sheets[self.column.page]

    @property
    def room(self) -> float:
        return self.column.bottom - self.y

    def advance(self) -> None:
        self.at += 1
        self.y = self.column.top

    def need(self, height: float) -> None:
        """Go to the next column unless `height` still fits."""
        if self.room < height:
            self.advance()

    def space(self, height: float) -> None:
        """A gap, which a column's top swallows."""
        if self.y > self.column.top:
            self.y += height

    def paragraph(
        self, text: str, *, indent: float = 0, left: float = 0, face: Face = SERIF, size: float = 0, keep: int = 1
    ) -> str:
        """Set a paragraph; returns what of it stands on page 1."""
        size = size or self.size
        leading = self.leading * size / self.size
        lines = self.setter.lines(text, self.measure - left, size, face, indent)
        self.need(leading * min(keep, len(lines)))
        on_first: list[SetLine] = []
        for i, line in enumerate(lines):
            self.need(leading)
            self.y += leading
            shift = left + (indent if i == 0 else 0)
            draw_line(self.sheet, line, self.column.x + shift, self.y - leading * 0.25, self.measure - shift, size)
            if self.column.page == 0:
                on_first.append(line)
        return joined(on_first)

    def whole(self, height: float, draw: Callable[[Sheet, float, float], None]) -> bool:
        """Draw something that no border may cut, at its left and top; tells whether it stands on page 1."""
        self.need(height)
        draw(self.sheet, self.column.x, self.y)
        self.y += height
        return self.column.page == 0


def joined(lines: Sequence[SetLine]) -> str:
    """The text of lines, with the hyphens of their breaks taken out (no word of the samples has one of its own)."""
    return re.sub(r"(?<=\w)- (?=[a-z])", "", " ".join(line.text for line in lines))
