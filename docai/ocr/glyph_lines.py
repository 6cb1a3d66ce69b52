"""Glyphs to lines: runs on one baseline, parted where a wide gap shows another column or cell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from docai.geometry import union
from docai.ocr.characters import accented, is_accent, logical_order, plain
from docai.types import Box, Font, Glyphs, Line, Style, Word
from docai.writing import is_cjk

_COLUMN_GAP = 1.5  # em: wider gaps part a line
_WORD_GAP = 0.17  # em: wider gaps part words
_SPACE_AT_LEAST = 0.03  # em: a space that moves nothing is none
_SAME_BASELINE = 0.25  # em
_RAISED = 0.14  # em: by which a smaller character must stand off the baseline to be super- or subscript
_SMALLER = 0.85  # of the line's size

# For each direction of writing: columns of the boxes that are start, end, ascender side, descender side, and the sign
# that makes "along" and "across" grow with reading.
_SIDES = {0: (0, 2, 1, 3, 1, 1), 180: (2, 0, 3, 1, -1, -1), 90: (1, 3, 2, 0, 1, -1), 270: (3, 1, 0, 2, -1, 1)}


@dataclass(slots=True)
class _Turned:
    """The characters of one direction of writing, as if written left to right: arrays over characters."""

    number: NDArray[np.int64]  # index into the page's glyphs
    start: NDArray[np.float64]
    end: NDArray[np.float64]
    base: NDArray[np.float64]  # descender side, growing downwards
    size: NDArray[np.float64]


@dataclass(slots=True)
class _Piece:
    """Characters that follow each other on one baseline."""

    numbers: list[int]  # indices into the arrays of _Turned
    start: float
    end: float
    base: float
    size: float


def lines_of(glyphs: Glyphs, keep: NDArray[np.bool_]) -> list[Line]:
    """The kept characters as lines, top to bottom, in logical order."""
    nearest = (np.round(glyphs.angles / 90) * 90 % 360).astype(int)
    lines: list[Line] = []
    for angle in _SIDES:
        numbers = np.flatnonzero(keep & (nearest == angle))
        if len(numbers):
            lines += _lines_along(glyphs, numbers, angle)
    return sorted(lines, key=lambda line: (line.box.t, line.box.l))


def _turned(glyphs: Glyphs, numbers: NDArray[np.int64], angle: int) -> _Turned:
    start, end, _, low, along, across = _SIDES[angle]
    boxes = glyphs.boxes[numbers].astype(np.float64)
    sizes = glyphs.sizes[numbers].astype(np.float64)
    return _Turned(numbers, along * boxes[:, start], along * boxes[:, end], across * boxes[:, low], sizes)


def _lines_along(glyphs: Glyphs, numbers: NDArray[np.int64], angle: int) -> list[Line]:
    turned = _turned(glyphs, numbers, angle)
    pieces = _pieces(turned)
    columns, pieces = _vertical_runs(glyphs, turned, pieces) if angle == 0 else ([], pieces)
    build = _LineBuilder(glyphs, turned, angle)
    lines = [build.line(piece) for piece in _joined(pieces)]
    return [line for line in (*lines, *(build.vertical(column) for column in columns)) if line is not None]


def _pieces(turned: _Turned) -> list[_Piece]:
    """Runs of characters that follow each other in the file without a jump."""
    size = np.maximum(turned.size[1:], turned.size[:-1])
    ahead = turned.start[1:] - turned.end[:-1]
    behind = turned.start[:-1] - turned.end[1:]  # right-to-left text is written from the right
    gap = np.maximum(ahead, behind)
    jump = (np.abs(np.diff(turned.base)) > 0.5 * size) | (gap > _COLUMN_GAP * size) | (gap < -2.5 * size)
    bounds = [0, *(np.flatnonzero(jump) + 1).tolist(), len(turned.number)]
    start, end, base, sizes = (a.tolist() for a in (turned.start, turned.end, turned.base, turned.size))
    return [_piece(range(a, b), start, end, base, sizes) for a, b in pairwise(bounds)]


def _piece(
    numbers: range, start: Sequence[float], end: Sequence[float], base: Sequence[float], sizes: Sequence[float]
) -> _Piece:
    size = max(sizes[i] for i in numbers)
    bases = [base[i] for i in numbers if sizes[i] >= 0.9 * size]
    return _Piece(
        list(numbers),
        min(start[i] for i in numbers),
        max(end[i] for i in numbers),
        sorted(bases)[len(bases) // 2],
        size,
    )


def _joined(pieces: Sequence[_Piece]) -> list[_Piece]:
    """Pieces on one baseline that stand close together, as one; files write lines in any number of them."""
    lines: list[_Piece] = []
    open_lines: list[_Piece] = []
    for piece in sorted(pieces, key=lambda p: (round(p.base, 1), p.start)):
        open_lines = [line for line in open_lines if line.base > piece.base - max(line.size, piece.size)]
        home = next((line for line in open_lines if _belongs(piece, line)), None)
        if home is None:
            lines.append(piece)
            open_lines.append(piece)
        else:
            _absorb(home, piece)
    return _merge_again(lines)


def _belongs(piece: _Piece, line: _Piece) -> bool:
    larger, smaller = max(piece.size, line.size), min(piece.size, line.size)
    gap = max(piece.start - line.end, line.start - piece.end)
    near = 0.35 * larger if smaller < _SMALLER * larger else _COLUMN_GAP * smaller
    shift = abs(piece.base - line.base)
    # a small piece right beside a larger one may be raised or lowered: an exponent, an index, a footnote mark
    allowed = 0.6 * larger if smaller < _SMALLER * larger else _SAME_BASELINE * larger
    return -0.3 * larger < gap <= near and shift <= allowed


def _absorb(line: _Piece, piece: _Piece) -> None:
    if piece.size > line.size:
        line.base, line.size = piece.base, piece.size
    line.numbers += piece.numbers
    line.start, line.end = min(line.start, piece.start), max(line.end, piece.end)


def _merge_again(lines: list[_Piece]) -> list[_Piece]:
    """Lines that came to touch each other only after both had grown."""
    lines.sort(key=lambda line: (line.start, line.base))
    out: list[_Piece] = []
    for line in lines:
        home = next((other for other in reversed(out[-60:]) if _belongs(line, other)), None)
        if home is None:
            out.append(line)
        else:
            _absorb(home, line)
    return out


def _vertical_runs(glyphs: Glyphs, turned: _Turned, pieces: list[_Piece]) -> tuple[list[list[int]], list[_Piece]]:
    """Columns of characters that stand below each other (Chinese, Japanese), and the pieces that are left."""
    columns: list[list[int]] = []
    rest: list[_Piece] = []
    run: list[_Piece] = []
    for piece in [*pieces, None]:
        if piece is not None and run and _stands_below(piece, run[-1]):
            run.append(piece)
            continue
        cjk = sum(is_cjk(chr(glyphs.codepoints[turned.number[p.numbers[0]]])) for p in run)
        if len(run) >= 3 and cjk * 2 > len(run):
            columns.append([n for p in run for n in p.numbers])
        else:
            rest += run
        run = [] if piece is None else [piece]
    return columns, rest


def _stands_below(piece: _Piece, above: _Piece) -> bool:
    size = max(piece.size, above.size)
    step = piece.base - above.base
    centred = abs((piece.start + piece.end) - (above.start + above.end)) < 0.8 * size
    return len(piece.numbers) <= 2 and len(above.numbers) <= 2 and centred and 0.5 * size < step < 2.2 * size


@dataclass(slots=True)
class _Character:
    text: str
    number: int
    start: float
    end: float
    base: float
    size: float


class _LineBuilder:
    """Builds `Line`s of the characters of one direction of writing."""

    def __init__(self, glyphs: Glyphs, turned: _Turned, angle: int) -> None:
        self.glyphs, self.turned, self.angle = glyphs, turned, angle
        self.codes = [plain(int(c)) for c in glyphs.codepoints[turned.number]]
        self.boxes = glyphs.boxes[turned.number].tolist()
        self.fonts = glyphs.fonts[turned.number].tolist()
        self.start, self.end = turned.start.tolist(), turned.end.tolist()
        self.base, self.size = turned.base.tolist(), turned.size.tolist()

    def line(self, piece: _Piece) -> Line | None:
        characters = [self._character(n) for n in piece.numbers if self.codes[n]]
        characters.sort(key=lambda c: c.start + c.end)
        groups = list(self._words(_with_accents(characters), piece))
        if not groups:
            return None
        groups = _in_logical_order(groups)
        words = tuple(self._word(group, piece) for group, _ in groups)
        text = "".join(
            (" " if spaced and i else "") + w.text for i, (w, (_, spaced)) in enumerate(zip(words, groups, strict=True))
        )
        return self._finish(text, words, [c for group, _ in groups for c in group], piece.size)

    def vertical(self, numbers: Sequence[int]) -> Line | None:
        characters = [self._character(n) for n in numbers if self.codes[n].strip()]
        if not characters:
            return None
        text = "".join(c.text for c in characters)
        box = union(self._box(c) for c in characters)
        line = self._finish(text, (Word(text, box),), characters, max(c.size for c in characters))
        return Line(line.text, line.box, line.words, line.size, font=line.font, vertical=True)

    def _character(self, n: int) -> _Character:
        return _Character(self.codes[n], n, self.start[n], self.end[n], self.base[n], self.size[n])

    def _box(self, character: _Character) -> Box:
        return Box(*self.boxes[character.number])

    def _words(self, characters: Sequence[_Character], piece: _Piece) -> Iterator[tuple[list[_Character], bool]]:
        """(characters of a word, whether a space stands before it), left to right. Raised parts are words too."""
        threshold = _word_gap(characters, piece.size)
        word: list[_Character] = []
        spaced = blank = False
        for character in characters:
            if not character.text.strip():
                blank = True
                continue
            if word:
                gap = character.start - max(c.end for c in word[-2:])
                parted = gap > threshold or (blank and gap > _SPACE_AT_LEAST * piece.size)
                if parted or self._shift(character, piece) != self._shift(word[-1], piece):
                    yield word, spaced
                    word, spaced = [], parted
            word.append(character)
            blank = False
        if word:
            yield word, spaced

    def _shift(self, character: _Character, piece: _Piece) -> Style | None:
        """Superscript or subscript: smaller than the line, and off its baseline."""
        if character.size >= _SMALLER * piece.size:
            return None
        # descender sides differ by the difference in size alone; the baseline lies 0.22 em above them
        shift = (character.base - 0.22 * character.size) - (piece.base - 0.22 * piece.size)
        if shift < -_RAISED * piece.size:
            return "superscript"
        return "subscript" if shift > _RAISED * 0.6 * piece.size else None

    def _word(self, characters: Sequence[_Character], piece: _Piece) -> Word:
        font = self._font(characters)
        shift = self._shift(characters[0], piece)
        styles: dict[Style, bool] = {"bold": font.weight >= 600, "italic": font.italic, "code": font.mono}
        named = frozenset(style for style, there in styles.items() if there) | ({shift} if shift else frozenset())
        return Word("".join(c.text for c in characters), union(self._box(c) for c in characters), named)

    def _font(self, characters: Sequence[_Character]) -> Font:
        fonts = [self.fonts[c.number] for c in characters]
        index = max(set(fonts), key=fonts.count)
        return self.glyphs.font_table[index] if index < len(self.glyphs.font_table) else Font("")

    def _finish(self, text: str, words: tuple[Word, ...], characters: Sequence[_Character], size: float) -> Line:
        font = self._font(characters)
        letters = sum(len(w.text) for w in words)
        bold = sum(len(w.text) for w in words if "bold" in w.styles)
        italic = sum(len(w.text) for w in words if "italic" in w.styles)
        return Line(
            text,
            union(w.box for w in words),
            words,
            round(size, 2),
            font=font.name,
            bold=bold > 0.7 * letters,
            italic=italic > 0.7 * letters,
            mono=font.mono,
            angle=self.angle,
        )


def _word_gap(characters: Sequence[_Character], size: float) -> float:
    """The gap that parts words. In letter-spaced type it is what stands out from the gaps between letters."""
    gaps = sorted(b.start - a.end for a, b in pairwise(characters) if a.text.strip() and b.text.strip())
    usual = gaps[len(gaps) // 2] if len(gaps) >= 4 else 0.0
    return max(_WORD_GAP * size, usual + 0.12 * size) if usual > 0.08 * size else _WORD_GAP * size


def _with_accents(characters: list[_Character]) -> list[_Character]:
    """Spacing accents that lie over a letter, put onto it."""
    if not any(is_accent(c.text) for c in characters):
        return characters
    out: list[_Character] = []
    waiting: _Character | None = None
    for character in characters:
        if is_accent(character.text) and out and _over(character, out[-1]):
            out[-1].text = accented(out[-1].text, character.text)
        elif is_accent(character.text):
            waiting = character
            out.append(character)
        else:
            if waiting is not None and out[-1] is waiting and _over(waiting, character):
                out.pop()
                character.text = accented(character.text, waiting.text)
            out.append(character)
    return out


def _over(accent: _Character, letter: _Character) -> bool:
    shared = min(accent.end, letter.end) - max(accent.start, letter.start)
    return letter.text[:1].isalpha() and shared > 0.5 * min(accent.end - accent.start, letter.end - letter.start)


def _in_logical_order(groups: list[tuple[list[_Character], bool]]) -> list[tuple[list[_Character], bool]]:
    """Words and their characters in reading order where a line has right-to-left letters."""
    flat = [c for group, _ in groups for c in group]
    order = logical_order([c.text for c in flat])
    if order == list(range(len(flat))):
        return groups
    word_of = [w for w, (group, _) in enumerate(groups) for _ in group]
    out: list[tuple[list[_Character], bool]] = []
    last = -1
    for index in order:
        word = word_of[index]
        if word != last:
            # words that touched still touch: the space belongs to the pair, whichever comes first
            spaced = last >= 0 and groups[max(word, last)][1] if abs(word - last) == 1 else True
            out.append(([], spaced))
            last = word
        out[-1][0].append(flat[index])
    return out
