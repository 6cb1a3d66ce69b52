"""The rows of a table: visual rows between horizontal rules, joined where a cell's text wraps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from docai.geometry import union
from docai.layout.grid import Piece, is_number, is_year
from docai.ocr.table_columns import Border, columns_of
from docai.writing import is_rtl

_LOOSE_ENDS = ("-", "\u2010", ",", "(", "/", "&", "+")


@dataclass(frozen=True, slots=True)
class Placed:
    """A piece and the columns first..last that it reaches into."""

    piece: Piece
    first: int
    last: int

    @property
    def spans(self) -> bool:
        return self.last > self.first


Row = list[Placed]  # one visual row, or several joined


def place(row: Sequence[Piece], borders: Sequence[Border], em: float) -> Row:
    """The pieces of a visual row with their columns; those in the same columns as one."""
    places: dict[tuple[int, int], list[Piece]] = {}
    for piece in row:
        places.setdefault(columns_of(piece.box, borders, em), []).append(piece)
    return [Placed(_joined(pieces), first, last) for (first, last), pieces in places.items()]


def _joined(pieces: Sequence[Piece]) -> Piece:
    """Pieces beside each other as one, in the order in which they are read."""
    if len(pieces) == 1:
        return pieces[0]
    backwards = is_rtl("".join(piece.text for piece in pieces))
    parts = sorted(pieces, key=lambda piece: piece.box.l, reverse=backwards)
    words = tuple(word for piece in parts for word in piece.words)
    return Piece(words, union(piece.box for piece in parts), max(parts, key=lambda p: p.box.width).line)


def top(row: Row) -> float:
    return min(p.piece.box.t for p in row)


def bottom(row: Row) -> float:
    return max(p.piece.box.b for p in row)


def middle(row: Row) -> float:
    return median(p.piece.box.cy for p in row)


def columns(row: Row) -> set[int]:
    """The columns in which a row has text."""
    return {c for p in row for c in range(p.first, p.last + 1)}


@dataclass(frozen=True, slots=True)
class Spacing:
    """How far the baselines of a table lie apart: within a cell (`tight`), and between its rows (`wide`)."""

    tight: float
    wide: float

    @property
    def telling(self) -> bool:
        return self.wide >= 1.25 * self.tight

    @property
    def limit(self) -> float:
        return (self.tight + self.wide) / 2


def spacing_of(bands: Sequence[Sequence[Row]]) -> Spacing:
    """The two usual pitches of visual rows; the same twice where they do not fall into two groups."""
    pitches = sorted(middle(b) - middle(a) for band in bands for a, b in pairwise(band))
    if len(pitches) < 3:
        return Spacing(pitches[0], pitches[0]) if pitches else Spacing(1.0, 1.0)
    cut = max(range(1, len(pitches)), key=lambda i: pitches[i] / max(pitches[i - 1], 0.1))
    low, high = median(pitches[:cut]), median(pitches[cut:])
    if pitches[cut] < 1.2 * pitches[cut - 1] or min(cut, len(pitches) - cut) < 2:
        return Spacing(median(pitches), median(pitches))
    return Spacing(low, high)


class Joiner:
    """Decides which visual rows of a table body are one row of cells. `boxed`: rules part the rows already."""

    def __init__(self, extents: Sequence[tuple[float, float]], spacing: Spacing, em: float, *, boxed: bool) -> None:
        self.extents, self.spacing, self.em, self.boxed = extents, spacing, em, boxed

    def join(self, band: Sequence[Row]) -> list[list[Row]]:
        """The visual rows of a band in groups, each of them a row of cells."""
        groups: list[list[Row]] = []
        for row in band:
            if groups and self._continues(groups[-1], row):
                groups[-1].append(row)
            else:
                groups.append([row])
        return groups

    def _continues(self, group: list[Row], row: Row) -> bool:
        pitch = middle(row) - middle(group[-1])
        overlap = bottom(group[-1]) - top(row)
        if overlap > 0.25 * self.em and pitch < 0.8 * self.em and not columns(row) & columns(group[-1]):
            return True  # beside it rather than under it: cells aligned at their middle
        if self.boxed:
            return clash(group[-1], row) < 2 and (overlap > -0.8 * self.em or 0 not in columns(row))
        if clash(group[-1], row) or (pitch > 1.2 * self.spacing.limit and pitch > 1.6 * self.em):
            return False
        have, new = {c for r in group for c in columns(r)}, columns(row)
        if self.spacing.telling:
            return pitch <= self.spacing.limit and (new < have or self._wraps(group, row))
        if not new <= have or (len(new) == len(have) > 2):
            return self._completes(group, row)
        return self._wraps(group, row)

    def _completes(self, group: list[Row], row: Row) -> bool:
        """Whether a group that began with the wrapped text of some columns goes on with the full `row`."""
        have = {c for r in group for c in columns(r)}
        if not have < columns(row):
            return False
        if 0 in have:
            return len(have) == 1 and len(group) == 1 and all(self._breaks_off(p, row) for p in group[-1])
        return all(self._full(p, row) for p in group[-1])

    def _breaks_off(self, above: Placed, row: Row) -> bool:
        """Whether a text clearly goes on in `row`: it was full, and does not begin a sentence there."""
        below = next((p for p in row if p.first == above.first), None)
        if below is None or not self._went_on(above, below):
            return False
        return below.piece.text[0].islower() or below.piece.text[0] == "(" or above.piece.text.endswith(_LOOSE_ENDS)

    def _wraps(self, group: list[Row], row: Row) -> bool:
        """Whether every piece of `row` is what did not fit on the line above it in its cell."""
        return all(any(self._went_on(above, p) for above in self._above(group, p)) for p in row)

    def _above(self, group: list[Row], piece: Placed) -> list[Placed]:
        for row in reversed(group):
            found = [p for p in row if p.first <= piece.first <= p.last]
            if found:
                return found
        return []

    def _went_on(self, above: Placed, piece: Placed) -> bool:
        """Whether a text may be the wrapped rest of the one above it: the line above was full, or clearly goes on."""
        before, after = above.piece.text, piece.piece.text
        if is_number(before) or is_number(after):
            return before.endswith(_LOOSE_ENDS) and not is_number(before)
        if before.endswith(_LOOSE_ENDS):
            return True
        if before.endswith(":") or self._fits(above, piece) or (above.piece.line.bold and not piece.piece.line.bold):
            return False
        left, right = self.extents[above.first][0], self.extents[above.last][1]
        if piece.first == 0 and piece.piece.box.l < above.piece.box.l - 0.5 * self.em:
            return False  # less indented: another entry
        filled = (above.piece.box.r - left) / max(right - left, 1e-6)
        return filled >= (0.45 if after[0].islower() else 0.75)

    def _full(self, above: Placed, row: Row) -> bool:
        below = next((p for p in row if p.first == above.first), None)
        return below is not None and self._went_on(above, below)

    def _fits(self, above: Placed, piece: Placed) -> bool:
        """Whether the first word of `piece` would have had room on the line above."""
        word = piece.piece.words[0]
        return above.piece.box.r + 0.25 * self.em + word.box.width < self.extents[above.last][1]


def clash(above: Row, row: Row) -> int:
    """In how many columns both rows hold numbers, which do not wrap."""
    numbers = {p.first for p in above if is_number(p.piece.text)}
    return sum(p.first in numbers and is_number(p.piece.text) for p in row)


def numeric_row(row: Row) -> bool:
    """Whether most cells behind the first column hold numbers (years head columns and do not count)."""
    rest = [p for p in row if p.first > 0]
    return bool(rest) and sum(is_number(p.piece.text) and not is_year(p.piece.text) for p in rest) * 2 >= len(rest)
