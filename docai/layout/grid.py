"""What finding tables and building them share: pieces of text, visual rows, and ruling lines joined up."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median

from docai.geometry import union
from docai.types import Box, Line, Rule, Word
from docai.writing import count_cjk

# A number as tables print it: sign, currency, thousands, decimals, exponent, percent, parentheses, footnote marks,
# ranges ("1.2-3.4"), values with their spread ("1.2 ± 0.3"), dashes and dots for "none".
_NUMBER = re.compile(
    r"^[\s(\[<>≤≥~≈=±+\-\u2010-\u2015\u2212$€£¥₩]*"
    r"(?:\d[\d.,'\u2019\s:/±×x%^()\[\]\-\u2010-\u2015\u2212]*|[.·…]+|(?<=[\-\u2010-\u2015\u2212]))"
    r"(?:[eE][+\-]?\d+)?[\s%‰°)\]*†‡§¶#$€£¥a-d]{0,4}$"
)
_NONE_MARKS = frozenset(
    {"n/a", "na", "n.a.", "nd", "ns", "nil", "none", "*", "**", "***", "†", "‡", "✓", "✗", "x", "×"}
)
_LOOSE = 2.0  # times as wide must a gap be in recognised text, whose word boxes are approximate
_TYPED = re.compile(r"^\s*(?:[-=_\u2010-\u2015\u2500]\s?){10,}$")
_EM_PER_CHARACTER = 2.1  # Latin letters and digits are about half an em wide; wider scripts keep the size
CURRENCY = frozenset("$€£¥₩₹") | {"US$", "C$", "A$", "HK$", "Rs.", "USD", "EUR", "CHF"}


def is_number(text: str) -> bool:
    """Whether a cell's text is a number or one of the marks that stand in a column of numbers."""
    text = text.strip()
    return bool(text) and (bool(_NUMBER.match(text)) or text.lower() in _NONE_MARKS)


def is_year(text: str) -> bool:
    """Whether a text is a year, which heads columns as often as it fills them."""
    return bool(re.fullmatch(r"(?:FY\s?)?(?:1[89]|20)\d\d[a-z*†‡]?", text.strip()))


def words_in(text: str) -> float:
    """How many words a text has; where it is written without spaces, two characters count as one."""
    return max(len(text.split()), count_cjk(text) / 2)


@dataclass(frozen=True, slots=True)
class Piece:
    """Words side by side on one row that belong together: never more than one cell's share of that row."""

    words: tuple[Word, ...]
    box: Box
    line: Line

    @property
    def text(self) -> str:
        return " ".join(word.text for word in self.words)

    @property
    def upright(self) -> bool:
        return self.line.angle == 0


def words_of(line: Line) -> tuple[Word, ...]:
    """The words of a line; where it names none, its text cut at spaces, with boxes in proportion to their length."""
    parts = line.text.split()
    if line.words or len(parts) < 2 or line.angle:
        return line.words or (Word(line.text, line.box),)
    step, at, found = line.box.width / max(1, len(line.text)), 0, []
    for part in parts:
        at = line.text.index(part, at)
        left = line.box.l + at * step
        at += len(part)
        found.append(Word(part, Box(left, line.box.t, line.box.l + at * step, line.box.b)))
    return tuple(found)


def em_of(lines: Iterable[Line]) -> float:
    """The usual font size of some lines. Recognition finds it too large: the width of characters corrects it."""
    level = [line for line in lines if line.angle == 0 and line.text]
    if not level:
        return 10.0
    size = median(line.size or line.box.height for line in level)
    step = sum(line.box.width for line in level) / sum(len(line.text) for line in level)
    return max(1e-3, min(size, _EM_PER_CHARACTER * step))


def typed_rules(lines: Sequence[Line]) -> tuple[list[Line], list[Rule]]:
    """Lines of text apart from those that are rules made of dashes, and these as rules."""
    typed = [line for line in lines if _TYPED.match(line.text)]
    if not typed:
        return list(lines), []
    kept = [line for line in lines if not _TYPED.match(line.text)]
    return kept, [Rule(Box(line.box.l, line.box.cy, line.box.r, line.box.cy)) for line in typed]


def pieces_of(line: Line, gap: float, borders: Sequence[Track] = ()) -> list[Piece]:
    """A line cut where its words stand further apart than `gap`, or where one of the vertical `borders` runs."""
    words = words_of(line)
    if line.angle or len(words) < 2:
        return [Piece(words, line.box, line)]
    loose = line.source != "text-layer"
    groups = [[words[0]]]
    for before, word in pairwise(words):
        apart = max(word.box.l - before.box.r, before.box.l - word.box.r)
        if loose and not (is_number(before.text) and is_number(word.text)):
            apart /= _LOOSE
        if apart > gap or (borders and _parted(before.box, word.box, borders)):
            groups.append([word])
        else:
            groups[-1].append(word)
    if len(groups) == 1:
        return [Piece(words, line.box, line)]
    return [Piece(tuple(group), union(word.box for word in group), line) for group in groups]


def _parted(a: Box, b: Box, borders: Sequence[Track]) -> bool:
    left, right = (a, b) if a.l <= b.l else (b, a)
    return any(left.cx < x.at < right.cx and x.covers(min(a.t, b.t), max(a.b, b.b)) > 0.5 for x in borders)


def visual_rows(pieces: Sequence[Piece]) -> list[list[Piece]]:
    """Upright pieces that share a baseline, rows top to bottom, each left to right."""
    rows: list[list[Piece]] = []
    spans: list[tuple[float, float]] = []
    for piece in sorted(pieces, key=lambda item: item.box.cy):
        top, bottom = piece.box.t, piece.box.b
        if rows:
            t, b = spans[-1]
            shared = min(b, bottom) - max(t, top)
            if shared > 0.55 * min(b - t, bottom - top) and not _stacked(rows[-1], piece):
                rows[-1].append(piece)
                continue
        rows.append([piece])
        spans.append((top, bottom))
    return [sorted(row, key=lambda item: item.box.l) for row in rows]


def _stacked(row: Sequence[Piece], piece: Piece) -> bool:
    """Whether a piece stands under one of the row rather than beside it."""
    return any(
        min(p.box.r, piece.box.r) - max(p.box.l, piece.box.l) > 0.5 * min(p.box.width, piece.box.width)
        and piece.box.cy - p.box.cy > 0.3 * p.box.height
        for p in row
    )


@dataclass(slots=True)
class Track:
    """Ruling lines at one coordinate `at`: x for vertical ones, y for horizontal ones, and where they run."""

    at: float
    runs: list[tuple[float, float]] = field(default_factory=list)

    @property
    def start(self) -> float:
        return self.runs[0][0]

    @property
    def end(self) -> float:
        return self.runs[-1][1]

    @property
    def length(self) -> float:
        return sum(b - a for a, b in self.runs)

    def covers(self, start: float, end: float) -> float:
        """The share of start..end along which a line runs, 0..1."""
        if end <= start:
            return float(any(a <= start <= b for a, b in self.runs))
        return sum(max(0.0, min(b, end) - max(a, start)) for a, b in self.runs) / (end - start)


def tracks(rules: Iterable[Rule], tolerance: float) -> tuple[list[Track], list[Track]]:
    """Ruling lines joined up where they continue each other: (horizontal, vertical), sorted by where they lie."""
    flat: list[tuple[float, float, float]] = []
    upright: list[tuple[float, float, float]] = []
    for rule in rules:
        box = rule.box
        if rule.horizontal:
            flat.append((box.cy, box.l, box.r))
        else:
            upright.append((box.cx, box.t, box.b))
    return _join(flat, tolerance), _join(upright, tolerance)


def _join(segments: list[tuple[float, float, float]], tolerance: float) -> list[Track]:
    groups: list[list[tuple[float, float, float]]] = []
    for segment in sorted(segments):
        if groups and segment[0] - groups[-1][0][0] <= tolerance:
            groups[-1].append(segment)
        else:
            groups.append([segment])
    return [_track(group, tolerance) for group in groups]


def _track(group: list[tuple[float, float, float]], tolerance: float) -> Track:
    runs: list[tuple[float, float]] = []
    for _, start, end in sorted(group, key=lambda segment: segment[1]):
        if runs and start - runs[-1][1] <= tolerance:
            runs[-1] = (runs[-1][0], max(runs[-1][1], end))
        else:
            runs.append((start, end))
    longest = max(group, key=lambda segment: segment[2] - segment[1])
    return Track(longest[0], runs)
