"""The text layer of a PDF page: glyphs to words to lines, and which parts of it can be trusted.

Everything is decided by where glyphs stand, not by the order or the spaces of the file: files write words in pieces,
draw letters twice to fake bold type and leave spaces out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from docai.ocr.glyph_text import lines_of
from docai.ocr.glyph_trust import needs_reading, page_is_scan, pale_without_ground, says_nothing, untrusted_fonts
from docai.types import Box, Glyphs, Line, Page, PageContent

_MUCH = 0.2  # of the characters of a page: fewer unreadable ones are signs of formulas, not text
_TWICE = 0.12  # of the font size: the same letter drawn again this close is the same letter


@dataclass(frozen=True, slots=True)
class TextLayer:
    """Lines that can be trusted, the areas that have to be read from pixels, and what there is to say about it."""

    lines: tuple[Line, ...] = ()
    untrusted: tuple[Box, ...] = ()
    reasons: tuple[str, ...] = ()


def read_text_layer(page: Page, content: PageContent, thumbnail: Callable[[], NDArray[np.uint8]]) -> TextLayer:
    """The lines of `content.glyphs` on the displayed `page`.

    `thumbnail` gives the page in grey at a low resolution, (H, W); it is called only where ink has to be looked for.
    """
    glyphs = content.glyphs
    if glyphs is None or len(glyphs) == 0:
        return TextLayer(untrusted=needs_reading(page, content, ()))
    keep = on_page(glyphs, page) & ~drawn_twice(glyphs)
    keep, reasons = without_hidden(page, content, keep, thumbnail)
    bad = keep & np.isin(glyphs.fonts, list(untrusted_fonts(glyphs, keep)))
    unread: list[Box] = []
    if int(bad.sum()) > _MUCH * int(keep.sum()):
        unread = [line.box for line in lines_of(glyphs, bad)]
        keep = keep & ~bad
        reasons.append("a part of the text layer is unreadable (its font has no usable character map)")
    elif bad.any():  # a few signs among text that can be trusted: reading pixels for them would cost more than it gives
        keep = keep & ~(bad & says_nothing(glyphs))
    lines = lines_of(glyphs, keep)
    areas = (*unread, *needs_reading(page, content, lines))
    return TextLayer(tuple(lines), areas, tuple(reasons))


def on_page(glyphs: Glyphs, page: Page) -> NDArray[np.bool_]:
    """Real characters with their centre on the page; spaces stay, as they part words."""
    centre_x, centre_y = glyphs.boxes[:, [0, 2]].mean(axis=1), glyphs.boxes[:, [1, 3]].mean(axis=1)
    seen = (centre_x >= 0) & (centre_x <= page.width) & (centre_y >= 0) & (centre_y <= page.height)
    return seen & ((glyphs.flags & Glyphs.GENERATED) == 0) & (glyphs.sizes > 0)


def drawn_twice(glyphs: Glyphs) -> NDArray[np.bool_]:
    """Characters that repeat one at (nearly) the same place: fake bold and shadows."""
    x, y, size = glyphs.boxes[:, 0], glyphs.boxes[:, 3], np.maximum(glyphs.sizes, 0.1)
    order = np.lexsort((x, np.round(y / 2), glyphs.codepoints))
    same = glyphs.codepoints[order][1:] == glyphs.codepoints[order][:-1]
    near = np.abs(np.diff(x[order])) < _TWICE * size[order][1:]
    near &= np.abs(np.diff(y[order])) < _TWICE * size[order][1:]
    repeated = np.zeros(len(glyphs), bool)
    repeated[order[1:][same & near]] = True
    return repeated & (glyphs.codepoints != 32)


def without_hidden(
    page: Page, content: PageContent, keep: NDArray[np.bool_], thumbnail: Callable[[], NDArray[np.uint8]]
) -> tuple[NDArray[np.bool_], list[str]]:
    """Characters that a reader can see, or that stand over a scan; and what was left out."""
    glyphs = content.glyphs
    assert glyphs is not None
    ink = keep & (glyphs.codepoints > 32)
    invisible = ink & ((glyphs.flags & Glyphs.INVISIBLE) != 0)
    reasons = []
    if invisible.any():
        if page_is_scan(page, content):
            reasons.append("text is the hidden OCR layer of a scan")
        else:
            keep = keep & ~invisible
            reasons.append(f"hidden text left out ({int(invisible.sum())} invisible characters); visible text is used")
    pale = ink & keep & ((glyphs.flags & Glyphs.PALE) != 0)
    if pale.any():
        ghosts = pale & pale_without_ground(glyphs, pale, page, thumbnail())
        if ghosts.any():
            keep = keep & ~ghosts
            reasons.append(f"hidden text left out ({int(ghosts.sum())} white characters on white)")
    return keep, reasons
