"""Whether a text layer says what the page shows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from docai.geometry import inside, overlap_area
from docai.ocr.characters import is_bad, plain
from docai.types import Box, Glyphs, Line, Page, PageContent

_BAD_SHARE = 0.3  # of a font's characters that say nothing: its map is broken
_FEW_VOWELS = 0.12  # Latin text of any language has 30 to 50 % vowels
_ENOUGH_LETTERS = 60  # below that the share of vowels says little
_SCAN_SHARE = 0.5  # of the page, covered by one picture
_DARK = 200  # of 255: a ground on which white type can be read
_VOWELS = frozenset("aeiouyAEIOUY")


def untrusted_fonts(glyphs: Glyphs, keep: NDArray[np.bool_]) -> set[int]:
    """Fonts (indices) whose characters cannot be what they claim to be.

    By unmapped, private or unassigned code points, and by letters that hardly contain vowels, as encodings without a
    map give.
    """
    broken = set()
    for font in np.unique(glyphs.fonts[keep]):
        of_font = keep & (glyphs.fonts == font) & (glyphs.codepoints > 32)
        codes, counts = np.unique(glyphs.codepoints[of_font], return_counts=True)
        total = int(counts.sum())
        if total == 0:
            continue
        unmapped = int((glyphs.flags[of_font] & Glyphs.UNMAPPED != 0).sum())
        if max(unmapped, _count_bad(codes, counts)) > _BAD_SHARE * total or _lacks_vowels(codes, counts):
            broken.add(int(font))
    return broken


def _count_bad(codes: NDArray[np.uint32], counts: NDArray[np.int64]) -> int:
    return sum(int(n) for code, n in zip(codes, counts, strict=True) if is_bad(plain(int(code))))


def says_nothing(glyphs: Glyphs) -> NDArray[np.bool_]:
    """(n,) Characters that are private, unassigned or control codes."""
    codes, places = np.unique(glyphs.codepoints, return_inverse=True)
    return np.asarray([is_bad(plain(int(code))) for code in codes], bool)[places]


def _lacks_vowels(codes: NDArray[np.uint32], counts: NDArray[np.int64]) -> bool:
    letters = {chr(c): int(n) for c, n in zip(codes, counts, strict=True) if c < 128 and chr(c).isalpha()}
    total = sum(letters.values())
    if total < _ENOUGH_LETTERS or total < 0.6 * int(counts.sum()) or len(letters) < 8:
        return False
    return sum(n for letter, n in letters.items() if letter in _VOWELS) < _FEW_VOWELS * total


def page_is_scan(page: Page, content: PageContent) -> bool:
    """Whether one picture covers most of the page."""
    return any(overlap_area(box, page.box) >= _SCAN_SHARE * page.box.area for box in content.pictures)


def needs_reading(page: Page, content: PageContent, lines: Sequence[Line]) -> tuple[Box, ...]:
    """Areas whose text is in pixels only: scans without a text layer, and pages drawn as outlines."""
    if lines:
        large = (box for box in content.pictures if overlap_area(box, page.box) >= _SCAN_SHARE * page.box.area)
        return tuple(box for box in large if _characters_in(box, lines) < 20)
    if content.pictures or content.drawings or content.fills or content.rules:
        return (page.box,)
    return ()


def _characters_in(box: Box, lines: Iterable[Line]) -> int:
    return sum(len(line.text) for line in lines if inside(line.box, box) > 0.5)


def pale_without_ground(
    glyphs: Glyphs, pale: NDArray[np.bool_], page: Page, thumbnail: NDArray[np.uint8]
) -> NDArray[np.bool_]:
    """Which of the `pale` characters stand on ground that is light too, so that nobody can read them."""
    width = thumbnail.shape[1]
    ghosts = np.zeros(len(glyphs), bool)
    for i in np.flatnonzero(pale):
        l, t, r, b = glyphs.boxes[i] * (width / page.width)  # noqa: E741
        part = thumbnail[max(0, int(t)) : int(b) + 1, max(0, int(l)) : int(r) + 1]
        ghosts[i] = part.size > 0 and int(part.min()) > _DARK
    return ghosts
