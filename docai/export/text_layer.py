"""Invisible text over a page: what a searchable PDF adds to it."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from itertools import groupby

from docai.export.flow import flat
from docai.export.glyphless import ADVANCE, DESCENT, GlyphlessFont
from docai.export.pdf_writer import numbers
from docai.export.words import PlacedWord, lines_of, words_of
from docai.types import Box, Line, Page, PageResult, Point

_THIN = 0.1  # least width of a word or space, in ems
_GAP = 0.15  # least gap between words, in ems: poppler sets words apart from 0.1 on
_MIRRORED = str.maketrans("()[]{}<>«»‹›", ")(][}{><»«›‹")
_DIRECTIONS = {0: (1, 0), 90: (0, 1), 180: (-1, 0), 270: (0, -1)}


def all_lines(result: PageResult) -> list[Line]:
    """The lines of a page that say something."""
    return [line for block in flat(result.blocks) for line in lines_of(block) if line.text.strip()]


def text_layer(page: Page, lines: Sequence[Line], font: GlyphlessFont, scale: float) -> str:
    """A content stream that writes lines, unseen, on the page as displayed. `scale`: points per unit of the page.

    The font is named /F. Readers join words by where they stand and turn right-to-left text round themselves, so text
    is written from left to right, as it looks.
    """
    shown = "\n".join(_Line(page, line, font, scale).written() for line in lines)
    return f"BT\n3 Tr\n{shown}\nET\n"


class _Line:
    """Writes one line. `size` is its font size, `dx, dy` its direction, in the frame of the upright page."""

    def __init__(self, page: Page, line: Line, font: GlyphlessFont, scale: float) -> None:
        self.page, self.box, self.font, self.scale = page, line.box, font, scale
        self.angle = 90 if line.vertical else line.angle
        self.dx, self.dy = _DIRECTIONS[self.angle]
        self.size = max(line.box.height if self.dx else line.box.width, 0.1)
        self.parts = list(_along(words_of(line), self.dx, self.dy, self.size))
        self.height = page.height if page.rotation % 180 == 0 else page.width

    def written(self) -> str:
        head = f"/F {numbers(self.size * self.scale)} Tf\n"
        return head + (self._in_one() if (self.angle - self.page.rotation) % 360 else self._word_by_word())

    def _word_by_word(self) -> str:
        """Each word as wide as its box. It stands straight even where the line leans: poppler breaks leaning words."""
        said = []
        for text, start, length in self.parts:
            x, y = self._shown(start + length / 2)
            place = numbers(1, 0, 0, 1, (x - length / 2) * self.scale, (self.height - y) * self.scale)
            said.append(f"{self._stretch(length / len(text))} Tz {place} Tm <{self.font.encode(text)}> Tj")
        return "\n".join(said)

    def _in_one(self) -> str:
        """A line that does not run left to right: pdfium would take single words of it for lines of their own."""
        cell = self._cell()
        at = first = self.parts[0][1]
        said = []
        for text, start, _ in self.parts:
            back = 1000 * ADVANCE * (at - start) / cell
            said.append(f"{numbers(back)}<{self.font.encode(text)}>")
            at = start + cell * len(text)
        (x, y), ahead = self._shown(first), self._shown(first + 1)
        a, b = ahead[0] - x, y - ahead[1]
        place = numbers(a, b, -b, a, x * self.scale, (self.height - y) * self.scale)
        return f"{self._stretch(cell)} Tz {place} Tm [{''.join(said)}] TJ"

    def _cell(self) -> float:
        """The width of a character in the narrowest word: poppler sees no space between words that touch."""
        mean = sum(length for _, _, length in self.parts) / sum(len(text) for text, _, _ in self.parts)
        return max(0.6 * mean, min(length / len(text) for text, _, length in self.parts if text != " "))

    def _stretch(self, cell: float) -> str:
        """Percent by which characters are widened to take `cell` each."""
        return numbers(100 * cell / (ADVANCE * self.size))

    def _shown(self, along: float) -> Point:
        """A place on the baseline, on the page as displayed."""
        return self.page.to_displayed(*_baseline(self.box, along, self.angle, self.size))


def _along(words: list[PlacedWord], dx: int, dy: int, size: float) -> Iterator[tuple[str, float, float]]:
    """(text, start, length) of words and of the spaces between them, in the direction of writing.

    A word that reaches up to the next is written shorter: without a gap, readers would take the two for one.
    """
    places = sorted((*_extent(word.box, dx, dy), n) for n, word in enumerate(words))
    for position, (start, end, n) in enumerate(places):
        length = max(end - start, _THIN * size)
        following = places[position + 1] if position + 1 < len(places) else None
        if following is None or not _spaced(words, n, following[2]):
            yield as_it_looks(words[n].text), start, length
            continue
        length = max(0.6 * length, min(length, following[0] - start - _GAP * size))
        yield as_it_looks(words[n].text), start, length
        yield " ", start + length, max(following[0] - start - length, _THIN * size)


def _extent(box: Box, dx: int, dy: int) -> tuple[float, float]:
    """Start and end of a box along a direction, both growing along it."""
    a, b = (box.l * dx, box.r * dx) if dx else (box.t * dy, box.b * dy)
    return min(a, b), max(a, b)


def _spaced(words: list[PlacedWord], a: int, b: int) -> bool:
    """Whether neighbours along the line are set apart; those that are no neighbours in the text always are."""
    return words[min(a, b)].space if abs(a - b) == 1 else True


def _baseline(box: Box, start: float, angle: int, size: float) -> tuple[float, float]:
    """Where a word that starts at `start` along the line has its origin."""
    rise = DESCENT * size
    match angle:
        case 90:
            return box.l + rise, start
        case 180:
            return -start, box.t + rise
        case 270:
            return box.r - rise, -start
    return start, box.b - rise


def as_it_looks(word: str) -> str:
    """A word's characters from left to right: right-to-left runs turned round, numbers in them not."""
    if not any(unicodedata.bidirectional(char) in ("R", "AL") for char in word):
        return word
    runs = [(forward, "".join(run)) for forward, run in groupby(word, key=_runs_forward)]
    return "".join(run if forward else run[::-1].translate(_MIRRORED) for forward, run in reversed(runs))


def _runs_forward(char: str) -> bool:
    return unicodedata.bidirectional(char) in ("L", "EN", "AN")
