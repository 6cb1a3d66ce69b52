"""Where the glyphs of a line part into words, where lines part at wide gaps, and what each word looks like."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from docai.ocr.arrays import changes, median, medians
from docai.ocr.code_sets import CodeSet, is_east_asian, is_right_to_left
from docai.ocr.glyph_frame import SPACE, Frame
from docai.types import Font

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

# Gaps in em, over the letter spacing of the line, from which on they are spaces.
_SPACE_UNSEEN = 0.17  # where the file has nothing between the glyphs (TeX: words 0.22, thin space 0.167, kerning 0.1)
_SPACE_GUESSED = 0.11  # where the PDF library guesses a space
_SPACE_DRAWN = 0.04  # where the file has a space
_SPACE_MONO = 0.3  # in type of one width, where the file has none: its spaces are as wide as its letters
_SPACE_EAST = 0.45  # between Chinese or Japanese characters
_TRACKED = 0.06  # letters this far apart are letter-spaced, if the line has them so throughout
_OVERLAPPING = 0.04  # and letters this far into each other are set tight
_CUT = 1.15  # a line is cut at gaps wider than this, or than 2.5 times its own word gaps, or `_CUT_MOST`
_CUT_MOST = 2.2
_CUT_ALIGNED = (
    0.7  # and at such gaps where lines above and below have one too, between figures, or where the size changes
)
_CUT_AFTER_MARK = 4.0  # behind a list's bullet or number
_CUT_BARE = 1.6
_COLUMN_END = 3  # lines that end together make a column's edge
_is_bullet = CodeSet("•◦▪▫●○■□‣⁃∙➢✓✔❖◆")
_FIGURE_END = "0123456789%)"
_ends_figure = CodeSet(_FIGURE_END)
_starts_figure = CodeSet("0123456789$€£(+-−")
_BARE_MARK = re.compile(r"^(?:\d{1,2}|[A-Z])$")  # the number of a section, if its title is not far
_LIST_MARK = re.compile(
    r"^(?:[•◦▪▫●○■□‣⁃∙·–—*➢✓✔❖◆\-]|\(?(?:\d{1,3}|[a-zA-Z]|[ivx]{1,5}|[IVX]{1,5})[.)]|\d{1,2}(?:\.\d{1,2})+\.?)$"
)
_LIST_MARK_RTL = re.compile(r"^(?:[•◦▪▫●○■□‣⁃∙·–—*◆\-]|[.)]?\d{1,3}[.(]?|[.(]\d{1,3}\))$")  # as seen
_SUPERSCRIPT, _SUBSCRIPT = 1, 2
BOLD, ITALIC, MONO, RAISED, LOWERED = 1, 2, 4, 8, 16  # style bits of a word


@dataclass(slots=True)
class WordTable:
    """Glyphs in the order of their lines, with what is known of each as columns of n."""

    frame: Frame
    starts: Ints  # the first glyph of each line
    space: Mask  # whether a space comes before the glyph
    script: NDArray[np.int8]  # 0, _SUPERSCRIPT or _SUBSCRIPT
    sizes: Floats  # by line
    words: Ints  # the first glyph of each word
    bits: Ints  # style bits of each glyph's font
    styles: Ints  # by word: BOLD | ITALIC | MONO | RAISED | LOWERED

    @classmethod
    def of(cls, frame: Frame, line: Ints, fonts: Sequence[Font]) -> WordTable:
        """From glyphs in the order of their lines, and the number of each one's line."""
        first = changes(line)
        gap = _gaps(frame, line)
        bits = font_bits(frame, fonts)
        hint = _hints(frame)
        gap -= _letter_spacing(frame, gap, hint, first)
        space = _spaces(frame, gap, hint, first, (bits & MONO) > 0)
        first |= _cuts(frame, gap, space, first)
        space &= ~first
        starts = np.flatnonzero(first)
        sizes, script = _scripts(frame, starts)
        _show_hyphens(frame, first)
        words = np.flatnonzero(first | space | changes(script))
        return cls(frame, starts, space, script, sizes, words, bits, _styles(bits, script, words))


def _show_hyphens(frame: Frame, first: Mask) -> None:
    """Soft hyphens that are drawn within a line are hyphens; at its end they stay soft."""
    soft = frame.codes[:-1] == 0xAD
    frame.codes[:-1][soft & ~first[1:]] = ord("-")


def _gaps(frame: Frame, line: Ints) -> Floats:
    """In em, the room between a glyph and all that stands left of it on its line."""
    far = 1e6 * line
    reach = np.maximum.accumulate(frame.boxes[:, 2] + far)
    gap = np.zeros(len(frame))
    if len(frame) > 1:
        size = (frame.sizes[1:] + frame.sizes[:-1]) / 2
        gap[1:] = (frame.boxes[1:, 0] + far[1:] - reach[:-1]) / size
    return gap


def _hints(frame: Frame) -> NDArray[np.uint8]:
    """What the file has between a glyph and the one before it on the line, where they are neighbours in the file."""
    hint = np.zeros(len(frame), np.uint8)
    if len(frame) > 1:
        beside = np.abs(np.diff(frame.number)) == 1
        later = np.where(np.diff(frame.number) > 0, frame.gap[1:], frame.gap[:-1])
        hint[1:] = np.where(beside, later, 0)
    return hint


def _spaces(frame: Frame, gap: Floats, hint: NDArray[np.uint8], first: Mask, mono: Mask) -> Mask:
    """Where words part; `gap` without the letter spacing of each line."""
    if frame.angle % 90:  # the width of glyphs is not known there
        return ((hint > 0) | (gap > 1.0)) & ~first
    least = np.array((_SPACE_UNSEEN, _SPACE_GUESSED, _SPACE_DRAWN))[hint]
    least[mono & (hint != SPACE)] = _SPACE_MONO
    east = is_east_asian(frame.codes)
    if east.any():
        between = np.concatenate(([False], east[1:] | east[:-1]))
        both = np.concatenate(([False], east[1:] & east[:-1]))
        least[between & (hint != SPACE)] = 0.35
        least[both] = _SPACE_EAST
    return _on_grid(frame, (gap > least) & ~first, hint, first)


def _on_grid(frame: Frame, space: Mask, hint: NDArray[np.uint8], first: Mask) -> Mask:
    """`space` with lines set right whose letters stand at equal steps, whatever their width."""
    starts = np.flatnonzero(first)
    ends = np.append(starts[1:], len(first))
    count = np.add.reduceat(space, starts, dtype=np.int64)
    for i in np.flatnonzero((count * 4 > ends - starts) & (ends - starts >= 8)).tolist():
        steps = np.diff(frame.boxes[starts[i] : ends[i], 0])
        usual = median(steps)
        if (np.abs(steps - usual) < 0.03 * usual).sum() * 10 >= 7 * len(steps):
            here = slice(starts[i] + 1, ends[i])
            space[here] = (steps > 1.3 * usual) | (space[here] & (hint[here] == SPACE))
    return space


def _letter_spacing(frame: Frame, gap: Floats, hint: NDArray[np.uint8], first: Mask) -> Floats:
    """How far, in em, the letters of a line stand apart or overlap throughout, at each glyph but the first.

    Judged font by font, since fonts whose widths are wrong in the file look just like that.
    """
    fresh = first | changes(frame.fonts)
    starts = np.flatnonzero(fresh)
    ends = np.append(starts[1:], len(gap))
    wide = np.add.reduceat((gap > _TRACKED) & ~fresh, starts, dtype=np.int64)
    tight = np.add.reduceat((gap < -_OVERLAPPING) & ~fresh, starts, dtype=np.int64)
    odd = (np.maximum(wide, tight) * 2 >= ends - starts - 1) & (ends - starts > 3)
    spacing = np.zeros(len(gap))
    for i in np.flatnonzero(odd).tolist():
        codes, inner = frame.codes[starts[i] : ends[i]], slice(starts[i] + 1, ends[i])
        if wide[i] > tight[i]:
            found = _tracking(codes, gap[inner], hint[inner])
            found += max(0.0, 0.4 * found - 0.12)
        else:
            found = median(gap[inner][gap[inner] < 0.3])
        spacing[starts[i] : ends[i]] = found
    before = np.concatenate(([0.0], spacing[:-1]))  # a glyph's box or spacing reaches to the next one
    before[first] = 0.0
    return before


def _tracking(codes: NDArray[np.uint32], gaps: Floats, hints: NDArray[np.uint8]) -> float:
    """How far apart the letters of a line stand throughout, in em, or 0."""
    letters = sum(chr(c).isalpha() for c in codes.tolist())
    usual = median(gaps[gaps < 1.0]) if (gaps < 1.0).any() else 0.0
    alike = np.abs(gaps - usual) < max(0.05, 0.15 * usual)
    spaced_out = letters * 5 >= 4 * len(codes) and alike.sum() * 10 >= 6 * len(gaps) and usual > _TRACKED
    typed = (hints[alike] == SPACE).sum() * 2 > alike.sum()  # letters parted by typed spaces, words by two or more
    alphabet = (np.diff(codes.astype(np.int64)) > 0).all()
    return usual if spaced_out and not (typed and (alphabet or len(gaps) < 5)) else 0.0


def _cuts(frame: Frame, gap: Floats, space: Mask, first: Mask) -> Mask:
    """Where lines part: at gaps that are wide for the line, or that lines above and below have as well."""
    cut = space & _after_leader(frame, first)
    wide = np.flatnonzero(space & (gap > _CUT_ALIGNED))
    if not len(wide):
        return cut
    line = np.cumsum(first) - 1
    usual = space & (gap < 1.0)
    total = np.bincount(line, weights=gap * usual)
    mean = total / np.maximum(np.bincount(line, weights=usual), 1)
    least = np.where(mean > 0, np.clip(2.5 * mean, _CUT, _CUT_MOST), 1.5)[line[wide]]
    before, after = frame.sizes[wide - 1], frame.sizes[wide]
    resized = np.minimum(before, after) < 0.9 * np.maximum(before, after)
    bullet = _is_bullet(frame.codes[wide])
    figures = _ends_figure(frame.codes[wide - 1]) & _starts_figure(frame.codes[wide])
    cut[wide[(gap[wide] > least) | resized | bullet | figures | _aligned(frame, wide, line)]] = True
    return _without_marks(frame, cut, space, first, gap)


def _after_leader(frame: Frame, first: Mask) -> Mask:
    """The first glyph behind five dots or more, as they lead to a page number or a figure."""
    dot = (frame.codes == ord(".")) & ~first
    led: Mask = ~dot & ~first
    for back in range(1, 5):
        led[:back] = False
        led[back:] &= dot[:-back]
    return led


def _aligned(frame: Frame, wide: Ints, line: Ints) -> Mask:
    """Which of these gaps are open on two more lines, at least, among those just above and below."""
    if len(wide) > 400:
        return np.zeros(len(wide), np.bool_)
    left, right, base = frame.boxes[wide - 1, 2], frame.boxes[wide, 0], frame.base[wide]
    shared = np.minimum.outer(right, right) - np.maximum.outer(left, left)
    near = np.abs(np.subtract.outer(base, base)) < 4 * frame.sizes[wide][:, None]
    same = line[wide][:, None] == line[wide][None, :]
    agree = (shared > 0.6 * frame.sizes[wide][:, None]) & near & ~same
    result: Mask = agree.sum(axis=1) >= 2
    return result


def _without_marks(frame: Frame, cut: Mask, space: Mask, first: Mask, gap: Floats) -> Mask:
    """No cut behind the bullet or number that begins a line, unless figures follow: then it is one itself."""
    starts = np.flatnonzero(first | cut)
    cuts = np.flatnonzero(cut & (gap < _CUT_AFTER_MARK))
    begins = starts[np.searchsorted(starts, cuts) - 1]
    words = np.cumsum(space)
    one_word = (cuts - begins <= 8) & (words[cuts - 1] == words[begins])
    one_word &= ~_starts_figure(frame.codes[cuts])
    for at, begin in zip(cuts[one_word].tolist(), begins[one_word].tolist(), strict=True):
        mark = _text(frame, begin, at)
        marks = _LIST_MARK.match(mark) or (gap[at] < _CUT_BARE and _BARE_MARK.match(mark))
        cut[at] = not marks or _ends_something(frame, starts, begin, at, first)
    rtl = is_right_to_left(frame.codes)
    if rtl.any():  # there the mark stands at the right end of the line
        ends = np.append(starts, len(cut))[np.searchsorted(starts, cuts, side="right")]
        for at, end in zip(cuts.tolist(), ends.tolist(), strict=True):
            if end - at <= 4 and rtl[max(0, at - 4) : at].any() and _LIST_MARK_RTL.match(_text(frame, at, end)):
                cut[at] = False
    return cut


def _ends_something(frame: Frame, starts: Ints, begin: int, end: int, first: Mask) -> bool:
    """Whether what looks like a mark is the last cell of a row of figures, or an equation's number: at the right edge
    of a column, where longer lines end as well.
    """
    if not first[begin] and chr(frame.codes[begin - 1]) in _FIGURE_END:
        return True
    size, left, right = frame.sizes[begin], frame.boxes[begin, 0], frame.boxes[end - 1, 2]
    rights = frame.boxes[np.append(starts[1:], len(first)) - 1, 2]
    level = (np.abs(rights - right) < 0.3 * size) & (frame.boxes[starts, 0] < left - 3 * size)
    return int(level.sum()) >= _COLUMN_END


def _text(frame: Frame, start: int, end: int) -> str:
    return "".join(map(chr, frame.codes[start:end].tolist()))


def _scripts(frame: Frame, starts: Ints) -> tuple[Floats, NDArray[np.int8]]:
    """(font size of each line, which glyphs are raised or lowered small print)."""
    sizes, base = frame.sizes, frame.base
    low, high = np.minimum.reduceat(sizes, starts), np.maximum.reduceat(sizes, starts)
    script = np.zeros(len(sizes), np.int8)
    ends = np.append(starts[1:], len(sizes))
    mixed = low < 0.95 * high
    line = np.repeat(np.cumsum(mixed) - 1, ends - starts)
    rows = np.flatnonzero(np.repeat(mixed, ends - starts))
    if len(rows):
        line, sizes, base = line[rows], sizes[rows], base[rows]
        high[mixed] = _main_sizes(sizes, line)
        main = high[mixed][line]
        plain = np.abs(sizes - main) < 0.1 * main
        off = (base - medians(base[plain], line[plain], int(mixed.sum()))[line]) / main
        small = sizes < 0.88 * main
        script[rows[small & (off < -0.1)]] = _SUPERSCRIPT
        script[rows[small & (off > 0.06)]] = _SUBSCRIPT
    return high, script


def _main_sizes(sizes: Floats, line: Ints) -> Floats:
    """The size that most glyphs of each line have; of two equally frequent ones the larger."""
    tenths = np.rint(sizes * 10).astype(np.int64)
    kinds, counts = np.unique(line << 32 | tenths, return_counts=True)
    order = np.lexsort((kinds, counts, kinds >> 32))
    most = kinds[order][np.flatnonzero(np.diff(kinds[order] >> 32, append=-1))]  # the last of each line
    main: Floats = (most & 0xFFFFFFFF) / 10
    return main


def font_bits(frame: Frame, fonts: Sequence[Font]) -> Ints:
    """Style bits of each glyph's font."""
    bits = [BOLD * (f.weight >= 600) + ITALIC * f.italic + MONO * f.mono for f in fonts] or [0]
    return np.array(bits, np.int64).take(frame.fonts, mode="clip")


def _styles(bits: Ints, script: NDArray[np.int8], words: Ints) -> Ints:
    """Style bits of each word: those of most of its glyphs."""
    styles: Ints = np.array((0, RAISED, LOWERED), np.int64)[script[words]]
    size = np.diff(np.append(words, len(bits)))
    for bit, count in counts_of(bits, words):
        styles[count * 2 > size] |= bit
    return styles


def counts_of(bits: Ints, starts: Ints) -> list[tuple[int, Ints]]:
    """Of the style bits that occur: how many glyphs have it, from each of `starts` to the next."""
    seen = int(np.bitwise_or.reduce(bits))
    return [(b, np.add.reduceat((bits & b) > 0, starts, dtype=np.int64)) for b in (BOLD, ITALIC, MONO) if seen & b]
