"""What glyphs say, mended: expanded ligatures, accents drawn apart, letters drawn twice, private-use signs."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from docai.ocr.code_sets import Codes, CodeSet, Mask, is_bad, is_east_asian, is_private, is_right_to_left
from docai.ocr.symbol_fonts import symbol, tex_sign

if TYPE_CHECKING:
    from docai.ocr.glyph_frame import Frame
    from docai.types import Font

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

REPLACEMENT = 0xFFFD

# Spacing accents -> their combining forms.
_ACCENTS = {
    0x60: "\u0300", 0xB4: "\u0301", 0x2C6: "\u0302", 0x2DC: "\u0303", 0xAF: "\u0304", 0x2D8: "\u0306", 0x2D9: "\u0307",
    0xA8: "\u0308", 0x2DA: "\u030a", 0x2DD: "\u030b", 0x2C7: "\u030c", 0xB8: "\u0327", 0x2DB: "\u0328", 0x2CA: "\u0301",
    0x2CB: "\u0300",
}  # fmt: skip
_is_accent = CodeSet(*_ACCENTS)
_DOTLESS = {"ı": "i", "ȷ": "j"}
_LAM, _ALEFS = "ل", "اأإآٱ"


def repair(frame: Frame, fonts: tuple[Font, ...]) -> None:
    """Mends a page's glyphs in place. A glyph that is gone afterwards has `number` -1.

    Order matters: characters of one ligature lie on top of each other just as letters drawn twice do.
    """
    frame.codes[(frame.codes == 0x02) | (frame.codes == 0xFFFE)] = ord("-")  # pdfium's hyphens at line ends
    frame.number[(frame.codes == 0xAD) & (frame.boxes[:, 2] - frame.boxes[:, 0] < 0.05 * frame.sizes)] = -1
    _join_surrogates(frame)
    _name_symbols(frame, fonts)
    _join_ligatures(frame)
    _drop_doubles(frame)
    _join_accents(frame)
    _spell_out(frame)
    _join_marks(frame)


def _join_surrogates(frame: Frame) -> None:
    """Halves of a character beyond the first plane, which pdfium gives one by one, become that character."""
    high = np.flatnonzero((frame.codes[:-1] & 0xFFFFFC00) == 0xD800) if len(frame) else np.zeros(0, np.int64)
    high = high[(frame.codes[high + 1] & 0xFFFFFC00) == 0xDC00]
    frame.codes[high] = 0x10000 + ((frame.codes[high] - 0xD800) << 10) + (frame.codes[high + 1] - 0xDC00)
    frame.number[high + 1] = -1


def _name_symbols(frame: Frame, fonts: tuple[Font, ...]) -> None:
    for i in np.flatnonzero(is_private(frame.codes) | (is_bad(frame.codes) & (frame.number >= 0))).tolist():
        name = fonts[frame.fonts[i]].name if frame.fonts[i] < len(fonts) else ""
        code = int(frame.codes[i])
        known = tex_sign(code, name) or symbol(code, name)
        if known:
            frame.codes[i] = ord(known)


def _join_ligatures(frame: Frame) -> None:
    """Characters that share one glyph (a ligature that the file spells out) become one entry with their text."""
    if len(frame) < 2:
        return
    shared = (frame.boxes[1:] == frame.boxes[:-1]).all(axis=1) & (frame.boxes[1:, 2] > frame.boxes[1:, 0])
    rtl = is_right_to_left(frame.codes)
    if rtl.any():  # the parts of an Arabic ligature may differ a little in place and width
        left, right = frame.boxes[:, 0], frame.boxes[:, 2]
        common = np.minimum(right[1:], right[:-1]) - np.maximum(left[1:], left[:-1])
        level = np.abs(np.diff(frame.base)) < 0.01 * frame.sizes[1:]
        shared |= rtl[1:] & rtl[:-1] & level & (common > 0.85 * np.maximum(right - left, 0.01)[1:])
    shared &= frame.number[1:] >= 0
    for first, last in _spans(shared):
        codes = frame.codes[first : last + 1].tolist()
        if len(set(codes)) == 1 and codes[0] != ord("f"):
            frame.number[first + 1 : last + 1] = -1  # drawn twice in the same place
            continue
        frame.texts[first] = _ligature_text(codes)
        frame.number[first + 1 : last + 1] = -1


def _spans(linked: Mask) -> list[tuple[int, int]]:
    """(first, last) of each run of glyphs in which each is linked with the next."""
    if not linked.any():
        return []
    edges = np.flatnonzero(np.diff(np.concatenate(([False], linked, [False])).astype(np.int8)))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


def _ligature_text(codes: list[int]) -> str:
    text = "".join(map(chr, codes)).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if not is_right_to_left(np.array([ord(c) for c in text], np.uint32)).any():
        return text
    # pdfium turns right-to-left text around character by character, within a ligature too.
    turned = (text[0] in _ALEFS and text[-1] == _LAM) or unicodedata.combining(text[0]) > 0
    return text[::-1] if turned or (len(text) > 2 and text[0] != _LAM) else text


def _drop_doubles(frame: Frame) -> None:
    """Letters drawn twice, a little apart, for a bolder look, count once."""
    rows = np.flatnonzero(frame.number >= 0)
    left, base, size = frame.boxes[rows, 0], frame.base[rows], frame.sizes[rows]
    width = frame.boxes[rows, 2] - left
    for a, b in neighbours(frame.codes[rows], base, left, 1.0):
        near = np.flatnonzero(np.abs(left[a] - left[b]) < 0.35 * width[a])
        a, b = a[near], b[near]
        same = (np.abs(base[a] - base[b]) < 0.15 * size[a]) & (np.abs(size[a] - size[b]) < 0.05 * size[a])
        frame.number[rows[np.maximum(a, b)[same]]] = -1


def neighbours(kind: NDArray[Any], base: Floats, left: Floats, step: float) -> Iterator[tuple[Ints, Ints]]:
    """Pairs of indices of one kind that stand next to each other on a line.

    Sorted by kind, then baseline in steps, then place along it, copies become neighbours; a second round with the
    steps shifted finds those that fell to both sides of one.
    """
    kind = kind.astype(np.int64) << 42
    along = np.rint(left * 16).astype(np.int64)
    for shift in (0.0, 0.5):
        order = np.argsort(kind + (np.rint(base / step + shift).astype(np.int64) << 21) + along, kind="stable")
        a, b = order[:-1], order[1:]
        same = np.flatnonzero(kind[a] == kind[b])
        yield a[same], b[same]


def _join_accents(frame: Frame) -> None:
    """An accent drawn apart, over or under its letter, joins it ("´" and "e" to "é")."""
    for i in np.flatnonzero(_is_accent(frame.codes) & (frame.number >= 0)).tolist():
        for j in (i + 1, i - 1):
            if 0 <= j < len(frame) and _accent_on(frame, i, j):
                letter = frame.texts.get(j, chr(int(frame.codes[j])))
                mark = _ACCENTS[int(frame.codes[i])]
                frame.texts[j] = unicodedata.normalize("NFC", _DOTLESS.get(letter, letter) + mark)
                frame.number[i] = -1
                break


def _accent_on(frame: Frame, accent: int, letter: int) -> bool:
    """Whether an accent's glyph lies over or under a letter."""
    if frame.number[letter] < 0 or not chr(int(frame.codes[letter])).isalpha():
        return False
    a, b = frame.boxes[accent], frame.boxes[letter]
    off = abs((a[0] + a[2]) - (b[0] + b[2])) / 2
    near = bool(off < 0.4 * max(b[2] - b[0], 0.01))
    return near and bool(abs(frame.base[accent] - frame.base[letter]) < 0.7 * frame.sizes[letter])


def _join_marks(frame: Frame) -> None:
    """Combining marks join the letter that they stand over or under, whichever of the two the file has first."""
    codes = frame.codes
    marks = ((codes >= 0x300) & (codes < 0x370)) | ((codes >= 0x591) & (codes <= 0x5C7)) | _is_arabic_mark(codes)
    for i in np.flatnonzero(marks & (frame.number >= 0)).tolist():
        before, after = _base(frame, i, -1), _base(frame, i, 1)
        near = [j for j in (before, after) if j is not None and _apart(frame, i, j) < 0.6 * frame.sizes[i]]
        if near:
            base = min(near, key=lambda j: _apart(frame, i, j))
            frame.texts[base] = frame.texts.get(base, chr(int(codes[base]))) + frame.texts.get(i, chr(int(codes[i])))
            frame.number[i] = -1


def _is_arabic_mark(codes: Codes) -> Mask:
    mask: Mask = ((codes >= 0x610) & (codes <= 0x61A)) | ((codes >= 0x64B) & (codes <= 0x65F)) | (codes == 0x670)
    return mask


def _base(frame: Frame, mark: int, step: int) -> int | None:
    """The nearest letter before (-1) or after (1) a mark."""
    i = mark + step
    while 0 <= i < len(frame) and (frame.number[i] < 0 or unicodedata.combining(chr(int(frame.codes[i])))):
        i += step
    return i if 0 <= i < len(frame) and abs(frame.base[i] - frame.base[mark]) < frame.sizes[mark] else None


def _apart(frame: Frame, mark: int, letter: int) -> float:
    """How far a mark's middle lies outside of a letter; negative inside."""
    middle = (frame.boxes[mark, 0] + frame.boxes[mark, 2]) / 2
    left, _, right, _ = frame.boxes[letter]
    return float(max(left - middle, middle - right))


def _spell_out(frame: Frame) -> None:
    """Ligatures and Arabic presentation forms as the letters that they stand for."""
    forms = (frame.codes >= 0xFB00) & (frame.codes <= 0xFEFC) & ~is_east_asian(frame.codes)
    for i in np.flatnonzero(forms).tolist():
        frame.texts.setdefault(i, unicodedata.normalize("NFKC", chr(int(frame.codes[i]))).strip() or "")
    bad = is_bad(frame.codes)
    frame.codes[bad] = REPLACEMENT
