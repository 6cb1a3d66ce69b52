"""The text layer of a PDF page: its lines, and which parts of it cannot be believed.

Everything is decided region by region and by geometry. What the file hides is left out and said so, except for the
transcription of a scan that OCR programs lay under it; what its fonts give no readable text for is left to OCR.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from docai.geometry import clip, grow, inside, overlap_area, union
from docai.ocr.code_sets import is_blank
from docai.ocr.glyph_text import lines_of
from docai.ocr.glyph_trust import Doubts, doubts
from docai.ocr.hidden_text import Gray, Mask, covered_share, has_ink, may_be_covered, on_page, tiny
from docai.ocr.letter_pairs import ENOUGH, IMPLAUSIBLE, unusualness
from docai.types import Box, Glyphs, Line, Page, PageContent

_SCAN = 0.5  # share of the page that pictures cover on a scan
_FURNITURE = 200  # characters: less than this over a page-sized picture is a stamp or a page number
_UNREADABLE = 0.25  # share of a word's characters from which on it is read again
_WORTH_READING = 3  # characters: fewer that say nothing are signs, not text
_WORTH_SAYING = 300  # characters off the page: fewer are printers' marks
_LEAST_HIDDEN = 12  # invisible characters: fewer deceive nobody


@dataclass(frozen=True, slots=True)
class TextLayer:
    """Lines that can be trusted, the areas that have to be read from pixels, and what there is to say about it.

    Areas may hold trusted lines too (a stamp on a scan): those count, not what is read from the pixels there.
    """

    lines: tuple[Line, ...] = ()
    untrusted: tuple[Box, ...] = ()
    reasons: tuple[str, ...] = ()


def read_text_layer(page: Page, content: PageContent, thumbnail: Callable[[], Gray]) -> TextLayer:
    """The lines of `content.glyphs` on the displayed `page`.

    `thumbnail` gives the page in grey at about 40 dpi, (H, W); it is called only where ink has to be looked for.
    """
    reader = _Reader(page, content, thumbnail)
    glyphs = content.glyphs
    lines = reader.lines(glyphs) if glyphs is not None and len(glyphs) else []
    return TextLayer(tuple(lines), (*reader.untrusted, *reader.in_pixels(lines)), tuple(reader.reasons))


@dataclass(slots=True)
class _Reader:
    page: Page
    content: PageContent
    look: Callable[[], Gray]
    untrusted: list[Box] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    _thumbnail: Gray | None = None

    @property
    def thumbnail(self) -> Gray:
        if self._thumbnail is None:
            self._thumbnail = self.look()
        return self._thumbnail

    def lines(self, glyphs: Glyphs) -> list[Line]:
        """The lines to be used; notes what is left out and what is to be read from pixels."""
        seen = self._on_page(glyphs)
        invisible = seen & ((glyphs.flags & Glyphs.INVISIBLE) > 0)
        lines = self._visible(glyphs, seen & ~invisible)
        if (invisible & ~is_blank(glyphs.codepoints)).any():
            lines = [*lines, *self._transcribed(glyphs, invisible, lines)]
        return lines

    def _on_page(self, glyphs: Glyphs) -> Mask:
        seen = on_page(glyphs, self.page)
        outside = int((~seen & ~is_blank(glyphs.codepoints)).sum())
        if outside >= _WORTH_SAYING:
            self.reasons.append(f"text outside of the page left out ({outside} characters)")
        return seen

    def _visible(self, glyphs: Glyphs, keep: Mask) -> list[Line]:
        small = tiny(glyphs, keep)
        keep = keep & ~small
        doubt = doubts(glyphs, keep)
        if doubt.unreadable.any() or doubt.unknown.any():
            lines = self._readable(glyphs, keep, doubt)
        else:
            lines = lines_of(glyphs, keep)
        pale = bool((keep & ((glyphs.flags & Glyphs.PALE) > 0)).any())
        if pale or may_be_covered(lines, self.content):
            lines = self._inked(lines)
        if small.sum() >= _WORTH_READING:
            self.reasons.append(f"text too small to be seen left out ({int(small.sum())} characters)")
        return lines

    def _inked(self, lines: Sequence[Line]) -> list[Line]:
        """Lines that the page shows; white on white or under something else they are there to deceive."""
        shown = [line for line in lines if has_ink(line, self.page, self.thumbnail)]
        lost = sum(len(line.text) for line in lines) - sum(len(line.text) for line in shown)
        if lost:
            self.reasons.append(f"hidden text left out ({lost} characters that the page does not show)")
        return shown

    def _readable(self, glyphs: Glyphs, keep: Mask, doubt: Doubts) -> list[Line]:
        """Lines without those that say nothing; these are to be read from pixels."""
        lines = lines_of(glyphs, keep)
        bad = _unreadable_parts(lines, glyphs, doubt.unreadable)
        # What a sound font puts into the same place stays: the two may only overlap.
        unsound = np.isin(glyphs.fonts, glyphs.fonts[doubt.unreadable])
        gone = _within(glyphs, bad) & unsound
        unread = int((doubt.unreadable & gone).sum())
        if unread >= _WORTH_READING:
            self.untrusted += _joined(bad)
            self.reasons.append(f"part of the text layer is unreadable ({unread} characters without a meaning)")
        return lines_of(glyphs, keep & ~doubt.unknown & ~gone)

    def _transcribed(self, glyphs: Glyphs, invisible: Mask, visible: Sequence[Line]) -> list[Line]:
        """Invisible lines that say what is seen under them: the work of an OCR program."""
        hidden = lines_of(glyphs, invisible)
        pictures = [clip(box, self.page.box) for box in self.content.pictures]
        fresh = [
            line for line in hidden if not any(overlap_area(line.box, v.box) > 0.3 * line.box.area for v in visible)
        ]
        kept = [line for line in fresh if any(inside(line.box, box) > 0.5 for box in pictures)]
        if not kept:  # a scan may be drawn as shapes too
            kept = [line for line in fresh if has_ink(line, self.page, self.thumbnail)]
            kept = kept if sum(len(line.text) for line in kept) >= _FURNITURE else []
        lost = sum(len(line.text) for line in hidden) - sum(len(line.text) for line in kept)
        if lost >= _LEAST_HIDDEN:
            self.reasons.append(f"hidden text left out ({lost} invisible characters); the visible text is used")
        score, pairs = unusualness(" ".join(line.text for line in kept))
        if pairs >= ENOUGH and score > IMPLAUSIBLE:
            self.untrusted.append(union(line.box for line in kept))
            self.reasons.append("the hidden OCR text layer is unreadable and was not used")
            return []
        if kept:
            self.reasons.append("the hidden OCR text layer of the scan is used")
        return kept

    def in_pixels(self, lines: Sequence[Line]) -> list[Box]:
        """Areas whose text is in pixels or drawn as shapes: scans, and pages without any text."""
        content, page = self.content, self.page
        if not lines:
            drawn = content.pictures or content.drawings or content.fills
            return [page.box] if drawn and not self.untrusted and _shows_something(self.thumbnail) else []
        if not content.pictures or covered_share(page, content.pictures) < _SCAN:
            return []
        scan = union(clip(box, page.box) for box in content.pictures)
        over = sum(len(line.text) for line in lines if inside(line.box, scan) > 0.5)
        return [scan] if over < _FURNITURE else []


def _shows_something(thumbnail: Gray) -> bool:
    return int(thumbnail.max()) - int(thumbnail.min()) >= 16


def _unreadable_parts(lines: Sequence[Line], glyphs: Glyphs, unreadable: Mask) -> list[Box]:
    """Words with too many unreadable characters, and whole lines where most words are such."""
    parts: list[Box] = []
    for line, count in zip(lines, _held([line.box for line in lines], glyphs, unreadable), strict=True):
        if not count:
            continue
        held = _held([word.box for word in line.words], glyphs, unreadable)
        bad = [w.box for w, n in zip(line.words, held, strict=True) if n > _UNREADABLE * len(w.text)]
        parts += [line.box] if len(bad) * 2 > len(line.words) else bad
    return parts


def _held(boxes: Sequence[Box], glyphs: Glyphs, which: Mask) -> list[int]:
    """How many of the chosen characters stand in each box."""
    x, y = _middles(glyphs, which)
    left, top, right, bottom = np.array([box.as_tuple() for box in boxes]).reshape(-1, 4, 1).transpose(1, 0, 2)
    held: list[int] = ((left <= x) & (x <= right) & (top <= y) & (y <= bottom)).sum(axis=1).tolist()
    return held


def _middles(glyphs: Glyphs, which: Mask) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    boxes = glyphs.boxes[which].astype(np.float64)
    return (boxes[:, 0] + boxes[:, 2]) / 2, (boxes[:, 1] + boxes[:, 3]) / 2


def _within(glyphs: Glyphs, boxes: Sequence[Box]) -> Mask:
    """Characters whose middle lies in one of the boxes."""
    x, y = _middles(glyphs, np.ones(len(glyphs), np.bool_))
    found = np.zeros(len(glyphs), np.bool_)
    for box in boxes:
        found |= (box.l <= x) & (x <= box.r) & (box.t <= y) & (y <= box.b)
    return found


def _joined(boxes: Sequence[Box]) -> list[Box]:
    """Boxes of lines, those near each other joined to one area."""
    areas: list[Box] = []
    for box in boxes:
        while near := [area for area in areas if overlap_area(grow(area, 2 * box.height), box) > 0]:
            areas = [area for area in areas if area not in near]
            box = union([box, *near])
        areas.append(box)
    return areas
