"""The characters of a PDF page as columns (runs in the decoding process)."""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pypdfium2.raw as raw
from numpy.typing import NDArray

from docai.render import pdfium_calls as calls
from docai.render.frame import Frame
from docai.types import Glyphs

_FIXED_PITCH, _ITALIC, _FORCE_BOLD = 1 << 0, 1 << 6, 1 << 18  # font flags, ISO 32000-1 table 123
_ASCENT, _DESCENT = 0.78, 0.22  # of the font size: one height for every font, since many files state nonsense
_HIDDEN_MODES = frozenset({raw.FPDF_TEXTRENDERMODE_INVISIBLE, raw.FPDF_TEXTRENDERMODE_CLIP})
_HYPHENS = frozenset({0x02, 0xFFFE})  # what pdfium gives for a hyphen that splits a word at a line end
_PALE = 240  # of 255, in each colour
MOST_CHARACTERS = 400_000  # of one page


@dataclass(slots=True)
class _Run:
    """What is the same for all characters of one text object."""

    font: int = 0
    size: float = 0.0
    angle: int = 0
    flags: int = 0
    origin: tuple[float, float] = (0.0, 0.0)  # of its first character, in user space: a point of the baseline


class _Fonts:
    """The fonts of a page, each asked for once."""

    def __init__(self) -> None:
        self.table: list[list[Any]] = []
        self._index: dict[int, int] = {}

    def index(self, text_page: Any, char: int, text_object: Any) -> int:
        key = calls.address_of(raw.FPDFTextObj_GetFont(text_object))
        if key not in self._index:
            self._index[key] = len(self.table)
            self.table.append(_describe(text_page, char))
        return self._index[key]


def _describe(text_page: Any, char: int) -> list[Any]:
    """[name, weight, italic, mono] of a character's font."""
    flags, buffer = ctypes.c_int(), ctypes.create_string_buffer(256)
    length = raw.FPDFText_GetFontInfo(text_page, char, buffer, 256, flags)
    name = buffer.raw[: max(0, min(length, 256) - 1)].decode("utf-8", "replace").split("+", 1)[-1]
    low = name.lower()
    bold = bool(flags.value & _FORCE_BOLD) or any(
        w in low for w in ("bold", "black", "heavy", "-bd", "semibold", "cmbx")
    )
    weight = raw.FPDFText_GetFontWeight(text_page, char)
    weight = 700 if bold else weight if 100 <= weight <= 900 else 400
    italic = bool(flags.value & _ITALIC) or any(w in low for w in ("italic", "oblique", "cmti", "cmsl"))
    mono = bool(flags.value & _FIXED_PITCH) or any(
        w in low for w in ("mono", "courier", "consol", "typewriter", "cmtt")
    )
    return [name, weight, italic, mono]


def read_glyphs(page: Any, frame: Frame) -> tuple[dict[str, NDArray[Any]], list[list[Any]]]:
    """Columns of `Glyphs` by name, and the font table. `page` is pypdfium2's raw page."""
    text_page = raw.FPDFText_LoadPage(page)
    if not text_page:
        return _columns(0), []
    try:
        count = min(max(0, raw.FPDFText_CountChars(text_page)), MOST_CHARACTERS)
        return _read(text_page, count, frame)
    finally:
        raw.FPDFText_ClosePage(text_page)


def _columns(count: int) -> dict[str, NDArray[Any]]:
    return {
        "codepoints": np.zeros(count, np.uint32),
        "boxes": np.zeros((count, 4), np.float32),
        "sizes": np.zeros(count, np.float32),
        "fonts": np.zeros(count, np.int32),
        "angles": np.zeros(count, np.int16),
        "flags": np.zeros(count, np.uint8),
    }


def _read(text_page: Any, count: int, frame: Frame) -> tuple[dict[str, NDArray[Any]], list[list[Any]]]:
    address = calls.address_of(text_page)
    rects = (ctypes.c_float * (4 * count))()
    rect_at = ctypes.addressof(rects)
    runs, numbers, fonts = [_Run(flags=Glyphs.GENERATED)], [0] * count, _Fonts()
    known: dict[int, int] = {0: 0}
    for i in range(count):  # two calls a character; all else is asked once for each text object
        text_object = calls.get_text_object(address, i) or 0
        if text_object not in known:
            known[text_object] = len(runs)
            runs.append(_run(text_page, i, text_object, fonts, frame))
        numbers[i] = known[text_object]
        calls.get_loose_box(address, i, rect_at + 16 * i)
    columns = _columns(count)
    columns["codepoints"][:] = _codepoints(text_page, count)
    run_of = _spread(columns, runs, np.asarray(numbers, np.int32))
    rect = np.frombuffer(memoryview(rects), np.float32).reshape(-1, 4)  # left, top, right, bottom, y up
    origins = np.asarray([run.origin for run in runs], np.float64)
    columns["boxes"][:] = _boxes(rect, frame.points(origins)[run_of], columns, frame)
    columns["flags"][np.isin(columns["codepoints"], list(_HYPHENS))] |= Glyphs.HYPHEN
    return columns, fonts.table


def _codepoints(text_page: Any, count: int) -> NDArray[np.uint32]:
    """The page's text in one call; one by one where it has characters beyond the first plane, or none for a glyph."""
    buffer = (ctypes.c_ushort * (count + 1))()
    if raw.FPDFText_GetText(text_page, 0, count, buffer) == count + 1:
        units = np.frombuffer(memoryview(buffer), np.uint16)[:count]
        if not ((units >= 0xD800) & (units < 0xE000)).any():
            return units.astype(np.uint32)
    address = calls.address_of(text_page)
    return np.asarray([calls.get_unicode(address, i) for i in range(count)], np.uint32)


def _run(text_page: Any, char: int, address: int, fonts: _Fonts, frame: Frame) -> _Run:
    text_object = ctypes.cast(address, raw.FPDF_PAGEOBJECT)
    matrix = raw.FS_MATRIX()
    raw.FPDFText_GetMatrix(text_page, char, matrix)
    size = raw.FPDFText_GetFontSize(text_page, char) * math.hypot(matrix.c, matrix.d)
    angle = (round(-math.degrees(math.atan2(matrix.b, matrix.a))) + frame.rotation) % 360
    x, y = ctypes.c_double(), ctypes.c_double()
    raw.FPDFText_GetCharOrigin(text_page, char, x, y)
    flags = _hidden(text_object) | (Glyphs.UNMAPPED if raw.FPDFText_HasUnicodeMapError(text_page, char) == 1 else 0)
    return _Run(fonts.index(text_page, char, text_object), abs(size), angle, flags, (x.value, y.value))


def _hidden(text_object: Any) -> int:
    if raw.FPDFTextObj_GetTextRenderMode(text_object) in _HIDDEN_MODES:
        return Glyphs.INVISIBLE
    r, g, b, alpha = (ctypes.c_uint() for _ in range(4))
    known = raw.FPDFPageObj_GetFillColor(text_object, r, g, b, alpha)
    if known and alpha.value == 0:
        return Glyphs.INVISIBLE
    return Glyphs.PALE if known and min(r.value, g.value, b.value) >= _PALE else 0


def _spread(columns: dict[str, NDArray[Any]], runs: list[_Run], numbers: NDArray[np.int32]) -> NDArray[np.int32]:
    """What runs know, written to each of their characters; generated ones look like the character before them.

    Returns each character's run, with those of generated characters filled in.
    """
    columns["flags"][:] = np.asarray([r.flags for r in runs], np.uint8)[numbers]
    if len(numbers):
        numbers = numbers[np.maximum.accumulate(np.where(numbers > 0, np.arange(len(numbers)), 0))]
    columns["sizes"][:] = np.asarray([r.size for r in runs], np.float32)[numbers]
    columns["fonts"][:] = np.asarray([r.font for r in runs], np.int32)[numbers]
    columns["angles"][:] = np.asarray([r.angle for r in runs], np.int16)[numbers]
    return numbers


def _boxes(
    rect: NDArray[np.float32], base: NDArray[np.float64], columns: dict[str, NDArray[Any]], frame: Frame
) -> NDArray[np.float32]:
    """Boxes on the displayed page. Along the line they are the advance, across it one height for all fonts.

    `base`: for each character a point of its baseline, as displayed.
    """
    boxes = frame.boxes(rect)
    if not len(boxes):
        return boxes
    size, angle = columns["sizes"], columns["angles"]
    for turned, low, high, sign in ((0, 1, 3, 1), (180, 3, 1, -1), (90, 2, 0, -1), (270, 0, 2, 1)):
        rows = (np.abs((angle - turned + 180) % 360 - 180) <= 10) & (size > 0)
        across = base[rows, 1 if turned % 180 == 0 else 0]
        # `low` is the side of the ascenders, `high` that of the descenders
        boxes[rows, low] = across - sign * _ASCENT * size[rows]
        boxes[rows, high] = across + sign * _DESCENT * size[rows]
    return boxes
