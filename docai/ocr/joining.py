"""How the lines of a block become one text, and which of its characters carry a style or a link."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from docai.types import Line, Link, Span, Style, Word
from docai.writing import glue as glue
from docai.writing import is_cjk as is_cjk
from docai.writing import is_rtl as is_rtl
from docai.writing import whole_words


def rows_of(lines: Iterable[Line]) -> list[list[Line]]:
    """Lines grouped into rows top to bottom; the lines of a row left to right, or right to left where they run so.

    Two lines share a row where their vertical overlap is over half of the lower one's height.
    """
    rows: list[list[Line]] = []
    for line in sorted(lines, key=lambda item: (item.box.cy, item.box.l)):
        row = rows[-1] if rows else []
        if row and _same_row(row[-1], line):
            row.append(line)
        else:
            rows.append([line])
    return [_along(row) if len(row) > 1 else row for row in rows]


def _along(row: list[Line]) -> list[Line]:
    return sorted(row, key=lambda line: line.box.l, reverse=is_rtl("".join(line.text for line in row)))


def _same_row(a: Line, b: Line) -> bool:
    shared = min(a.box.b, b.box.b) - max(a.box.t, b.box.t)
    return shared > 0.5 * min(a.box.height, b.box.height)


def in_reading_order(lines: Sequence[Line]) -> list[Line]:
    """The lines of one block in the order in which they are read: rows, or columns of vertical text right to left."""
    if not lines:
        return []
    if sum(line.vertical for line in lines) * 2 > len(lines):
        return sorted(lines, key=lambda line: (-line.box.cx, line.box.t))
    angle = lines[0].angle
    if angle in (90, 270):  # lines of sideways text follow each other across the page
        return sorted(lines, key=lambda line: (-line.box.cx if angle == 90 else line.box.cx, line.box.t))
    return [line for row in rows_of(lines) for line in row]


@dataclass(frozen=True, slots=True)
class Joined:
    """A block's text, and its lines with where each of them begins in it."""

    text: str
    lines: tuple[tuple[Line, int], ...]

    @property
    def places(self) -> list[tuple[Word, int, int]]:
        """Where each word stands in the text: (word, start, end)."""
        return [place for line, start in self.lines for place in word_places(line, start)]

    @property
    def words(self) -> list[Word]:
        return [word for line, _ in self.lines for word in line.words]


class Printed:
    """The words that some lines hold whole; looked for when they are first asked for."""

    def __init__(self, lines: Sequence[Line]) -> None:
        self._lines = lines

    def __contains__(self, word: object) -> bool:
        return word in self._words

    @cached_property
    def _words(self) -> frozenset[str]:
        return whole_words("\n".join(line.text for line in self._lines))


def join_lines(lines: Sequence[Line], printed: Container[str] = (), ends: Container[int] = ()) -> Joined:
    """Lines, in reading order, as running text: hyphenated words mended (see `glue`), one space between lines.

    `ends`: positions of lines whose ends belong to the text.
    """
    text, begun = "", []
    for n, line in enumerate(lines):
        drop, between = (0, "\n") if n - 1 in ends else glue(text, line.text, printed)
        text = text[: len(text) - drop] + between
        begun.append((line, len(text)))
        text += line.text
    return Joined(text, tuple(begun))


def join_rows(lines: Sequence[Line]) -> Joined:
    """Lines as printed: one text line a row, indents kept in spaces (code, poems in mono type)."""
    rows = rows_of(lines)
    if not rows:
        return Joined("", ())
    left = min(line.box.l for line in lines)
    em = _character_width(lines)
    text, begun = "", []
    for row in rows:
        text += "\n" if text else ""
        start = len(text)
        for line in row:
            column = round((line.box.l - left) / em)
            gap = column - (len(text) - start)
            text += " " * max(gap, 1 if len(text) > start else 0)
            begun.append((line, len(text)))
            text += line.text
    return Joined(text, tuple(begun))


def _character_width(lines: Sequence[Line]) -> float:
    widths = sorted(line.box.width / len(line.text) for line in lines if line.text)
    return max(widths[len(widths) // 2], 0.1) if widths else 1.0


def word_places(line: Line, offset: int = 0) -> list[tuple[Word, int, int]]:
    """The words of a line with their start and end in its text, moved by `offset`; those not found are left out."""
    found, at = [], 0
    for word in line.words:
        start = line.text.find(word.text, at)
        if start >= 0:
            at = start + len(word.text)
            found.append((word, offset + start, offset + at))
    return found


def spans_of(joined: Joined, links: Sequence[Link], *, skip: frozenset[Style] = frozenset()) -> tuple[Span, ...]:
    """Styles and links as character ranges; neighbouring words of one style make one range."""
    shown = {styles: sorted(styles - skip) for styles in {word.styles for word in joined.words}}
    links = _level_with(joined.words, links)
    if not links and not any(shown.values()):
        return ()
    marks: dict[tuple[Style | None, str | None], list[list[int]]] = {}
    for word, start, end in joined.places:
        for style in shown[word.styles]:
            _extend(marks.setdefault((style, None), []), start, end)
        link = _link_over(word, links)
        if link:
            _extend(marks.setdefault((None, link.target), []), start, end - _behind(link, word))
    spans = [Span(a, b, style, link) for (style, link), ranges in marks.items() for a, b in ranges]
    return tuple(sorted(spans, key=lambda span: (span.start, -span.end)))


def _extend(ranges: list[list[int]], start: int, end: int) -> None:
    if ranges and start - ranges[-1][1] <= 1:
        ranges[-1][1] = end
    else:
        ranges.append([start, end])


def _behind(link: Link, word: Word) -> int:
    """How many marks at the end of a word stand behind the link: the full stop of its sentence."""
    bare = word.text.rstrip(".,;:!?)")
    return len(word.text) - len(bare) if bare and link.box.r < word.box.r else 0


def _level_with(words: Sequence[Word], links: Sequence[Link]) -> list[Link]:
    """The links that stand as high on the page as some of the words."""
    if not links or not words:
        return []
    top, bottom = min(word.box.t for word in words), max(word.box.b for word in words)
    return [link for link in links if link.box.t <= bottom and link.box.b >= top]


def _link_over(word: Word, links: Sequence[Link]) -> Link | None:
    """The first link whose area holds the middle of a word."""
    for link in links:
        if link.box.l <= word.box.cx <= link.box.r and link.box.t <= word.box.cy <= link.box.b:
            return link
    return None
