"""`Line`s of a page out of its glyphs."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import cached_property, lru_cache
from itertools import accumulate, pairwise, starmap

import numpy as np
from numpy.typing import NDArray

from docai.ocr.bidi import faces_wrong, logical_order, mirror
from docai.ocr.code_sets import is_right_to_left
from docai.ocr.drop_caps import with_initials
from docai.ocr.glyph_frame import Frame, frames, to_page
from docai.ocr.glyph_lines import line_order
from docai.ocr.glyph_words import BOLD, ITALIC, LOWERED, MONO, RAISED, WordTable, counts_of
from docai.types import Box, Font, Glyphs, Line, Style, Word

_STYLES: dict[int, Style] = {BOLD: "bold", ITALIC: "italic", MONO: "code", RAISED: "superscript", LOWERED: "subscript"}


def lines_of(glyphs: Glyphs, keep: NDArray[np.bool_]) -> list[Line]:
    """The lines that the chosen glyphs make, top to bottom. Boxes lie on the page as displayed."""
    found = [line for frame in frames(glyphs, keep) for line in _lines(frame, glyphs.font_table)]
    return sorted(with_initials(found), key=lambda line: (line.box.t, line.box.l))


def _lines(frame: Frame, fonts: Sequence[Font]) -> list[Line]:
    rows, line = line_order(frame)
    return _Builder(WordTable.of(frame.take(rows), line, fonts), fonts).lines() if len(rows) else []


@lru_cache(maxsize=64)
def _style_set(bits: int) -> frozenset[Style]:
    return frozenset(style for bit, style in _STYLES.items() if bits & bit)


class _Builder:
    """Makes the `Line`s of one frame."""

    def __init__(self, table: WordTable, fonts: Sequence[Font]) -> None:
        self.table, self.fonts = table, fonts
        self.glyphs = _glyph_texts(table.frame)
        self.words = [*table.words.tolist(), len(self.glyphs)]
        self.styles = table.styles.tolist()
        self.spaced = table.space[table.words].tolist()

    def lines(self) -> list[Line]:
        table = self.table
        starts = np.searchsorted(table.words, table.starts)
        bounds = [*starts.tolist(), len(table.words)]
        self._drop_common_mono(starts)
        words = self._words()
        looks, boxes, names = self._looks(), self._boxes(), self._font_names()
        rtl = self._right_to_left()
        sizes, angle, vertical = table.sizes.round(2).tolist(), _quarter(table.frame), table.frame.vertical
        lines = []
        for i, (start, end) in enumerate(pairwise(bounds)):
            inside = words[start:end]
            if i in rtl:
                text, inside = self._turned(start, end, rtl[i])
            else:
                text = _joined(inside, self.spaced[start + 1 : end])
            if text:
                bits = looks[i]
                lines.append(
                    Line(
                        text,
                        boxes[i],
                        tuple(inside),
                        sizes[i],
                        font=names[i],
                        bold=bool(bits & BOLD),
                        italic=bool(bits & ITALIC),
                        mono=bool(bits & MONO),
                        angle=angle,
                        vertical=vertical,
                    )
                )
        return lines

    def _drop_common_mono(self, starts: NDArray[np.int64]) -> None:
        """`code` is a style of words in other text; a line that is all in one width has it as a whole."""
        mono = (self.table.styles & MONO) > 0
        if mono.any():
            whole = np.logical_and.reduceat(mono, starts)
            plain = np.repeat(whole, np.diff(np.append(starts, len(mono))))
            self.styles = np.where(plain, self.table.styles & ~MONO, self.table.styles).tolist()

    def _words(self) -> list[Word]:
        table = self.table
        text = "".join(self.glyphs)
        ends = [0, *accumulate(map(len, self.glyphs))]
        at = [ends[i] for i in self.words]
        boxes = _boxes_over(table.frame, table.words)
        sets = {bits: _style_set(bits) for bits in set(self.styles)}
        texts = [text[start:end] for start, end in pairwise(at)]
        return list(map(Word, texts, starmap(Box, boxes), [sets[bits] for bits in self.styles]))

    def _boxes(self) -> list[Box]:
        """Boxes of lines: as wide as all of their glyphs, as high as those on the baseline."""
        frame, starts = self.table.frame, self.table.starts
        if not self.table.script.any():
            return [Box(*box) for box in _boxes_over(frame, starts)]
        boxes = frame.boxes.copy()
        small = self.table.script != 0
        boxes[small, 1], boxes[small, 3] = np.inf, -np.inf
        return [Box(*box) for box in _boxes_over(frame, starts, boxes)]

    def _looks(self) -> list[int]:
        """Style bits of lines: those of six in ten glyphs."""
        bits, starts = self.table.bits, self.table.starts
        looks = np.zeros(len(starts), np.int64)
        size = np.diff(np.append(starts, len(bits)))
        for bit, count in counts_of(bits, starts):
            looks[count * 10 >= size * 6] |= bit
        return looks.tolist()

    def _font_names(self) -> list[str]:
        """The font of most of each line's glyphs."""
        fonts, starts = np.clip(self.table.frame.fonts, 0, max(len(self.fonts) - 1, 0)), self.table.starts
        low, high = np.minimum.reduceat(fonts, starts), np.maximum.reduceat(fonts, starts)
        ends = np.append(starts[1:], len(fonts))
        for i in np.flatnonzero(low < high).tolist():
            low[i] = np.bincount(fonts[starts[i] : ends[i]]).argmax()
        names = [font.name for font in self.fonts] or [""]
        return [names[i] for i in low.tolist()]

    def _right_to_left(self) -> dict[int, bool]:
        """Lines with right-to-left letters -> whether the line as a whole runs that way."""
        rtl = is_right_to_left(self.table.frame.codes)
        if not rtl.any():
            return {}
        starts = self.table.starts
        latin = np.array([text[:1].isalpha() for text in self.glyphs], np.bool_) & ~rtl
        right, left = (np.add.reduceat(kind, starts, dtype=np.int64) for kind in (rtl, latin))
        page = bool(right.sum() > left.sum())
        whole = (right >= left) | (page & (4 * right >= left))
        mixed = (right > 0) | (page & (left == 0))  # lines without letters run as the page does
        return {i: bool(whole[i]) for i in np.flatnonzero(mixed).tolist()}

    def _turned(self, start: int, end: int, rtl: bool) -> tuple[str, list[Word]]:
        """Text and words of a line with right-to-left letters, in the order of reading."""
        shown: list[str] = []
        source: list[tuple[int, int]] = []  # (glyph, word)
        for word in range(start, end):
            if self.spaced[word] and word > start:
                shown.append(" ")
                source.append((-1, -1))
            for glyph in range(self.words[word], self.words[word + 1]):
                if shown and _switches(shown[-1], self.glyphs[glyph]):
                    shown.append(" ")
                    source.append((-1, -1))
                shown.append(self.glyphs[glyph])
                source.append((glyph, word))
        order = logical_order(shown, rtl)
        wrong = faces_wrong("".join(shown[i] for i, _ in order))
        read = [(mirror(shown[i]) if odd and wrong else shown[i], *source[i]) for i, odd in order]
        return "".join(text for text, _, _ in read).strip(), self._regrouped(read)

    def _regrouped(self, read: list[tuple[str, int, int]]) -> list[Word]:
        groups: list[list[tuple[str, int, int]]] = [[]]
        for item in read:
            if item[1] < 0:
                groups.append([])
            elif groups[-1] and self.styles[groups[-1][-1][2]] != self.styles[item[2]]:
                groups.append([item])
            else:
                groups[-1].append(item)
        return [self._word_of(group) for group in groups if group]

    def _word_of(self, group: list[tuple[str, int, int]]) -> Word:
        left, top, right, bottom = zip(*(self.glyph_boxes[glyph] for _, glyph, _ in group), strict=True)
        box = Box(min(left), min(top), max(right), max(bottom))
        return Word("".join(text for text, _, _ in group), box, _style_set(self.styles[group[0][2]]))

    @cached_property
    def glyph_boxes(self) -> list[tuple[float, float, float, float]]:
        """Each glyph's box on the page."""
        return _boxes_over(self.table.frame, np.arange(len(self.glyphs)))


def _glyph_texts(frame: Frame) -> list[str]:
    text = frame.codes.astype("<u4").tobytes().decode("utf-32-le", "replace")
    glyphs = list(text)
    if frame.texts:
        spelled = np.zeros(int(frame.number.max()) + 1, np.bool_)
        spelled[[n for n in frame.texts if n < len(spelled)]] = True
        for i in np.flatnonzero(spelled[frame.number]).tolist():
            glyphs[i] = frame.texts[int(frame.number[i])]
    return glyphs


def _joined(words: Sequence[Word], spaced: Sequence[bool]) -> str:
    if len(words) == 1:
        text = words[0].text
    elif all(spaced):
        text = " ".join([word.text for word in words])
    else:
        text = words[0].text + "".join(
            (" " if space else "") + word.text for space, word in zip(spaced, words[1:], strict=True)
        )
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def _boxes_over(
    frame: Frame, starts: NDArray[np.int64], boxes: NDArray[np.float64] | None = None
) -> list[tuple[float, float, float, float]]:
    """The box around each stretch of glyphs that begins at `starts`, on the page."""
    left, top, right, bottom = (frame.boxes if boxes is None else boxes).T
    around = np.stack(
        (
            np.minimum.reduceat(left, starts),
            np.minimum.reduceat(top, starts),
            np.maximum.reduceat(right, starts),
            np.maximum.reduceat(bottom, starts),
        ),
        axis=1,
    )
    found: list[tuple[float, float, float, float]] = (
        to_page(around, 90 if frame.vertical else frame.angle).round(2).tolist()
    )
    return found


def _switches(before: str, after: str) -> bool:
    """Whether two letters run in opposite directions; programs that set such text often misplace the space there."""
    if not before or not after or before == " ":
        return False
    a, b = unicodedata.bidirectional(before[0]), unicodedata.bidirectional(after[0])
    return (a == "L" and b in ("R", "AL")) or (b == "L" and a in ("R", "AL"))


def _quarter(frame: Frame) -> int:
    """The side of the page along which text runs; at an odd angle the nearest, and sideways from 45 degrees on."""
    angle = frame.angle
    if angle % 90 == 0:
        return angle
    if 45 <= angle <= 135:
        return 90
    return 180 if 135 < angle < 225 else 270 if 225 <= angle <= 315 else 0
