"""The characters of a PDF page as columns (runs in the decoding process).

Two calls a character are needed: its box, and (for some) its text object. All else is the same for a whole text
object and asked once for each.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np
import pypdfium2.raw as raw
from numpy.typing import NDArray

from docai.render.frame import Frame
from docai.render.pdfium_calls import Handle, bare, each, handle_of, table
from docai.types import Glyphs

_FIXED_PITCH, _ITALIC, _FORCE_BOLD = 1 << 0, 1 << 6, 1 << 18  # font flags, ISO 32000-1 table 123
_ASCENT, _DESCENT = 0.78, 0.22  # of the font size: one height for every font, since many files state nonsense
_HIDDEN_MODES = (raw.FPDF_TEXTRENDERMODE_INVISIBLE, raw.FPDF_TEXTRENDERMODE_CLIP)
_LAST_MADE = 0x20  # up to here are the characters that pdfium adds itself: spaces, line ends and marked hyphens
_PALE = 240  # of 255, in each colour
_STEP = 4  # characters between two looks at the text object
_BOLD_NAMES = ("bold", "black", "heavy", "-bd", "cmbx", "sfbx", "ecbx", "lmbx", "-medi", "cmssbx", "cmb10")
_ITALIC_NAMES = ("italic", "oblique", "cmti", "cmsl")
_MONO_NAMES = ("mono", "courier", "consol", "typewriter", "cmtt")
MOST_CHARACTERS = 400_000  # of one page

_get_unicode = bare("FPDFText_GetUnicode", ctypes.c_uint)
_get_object = bare("FPDFText_GetTextObject", ctypes.c_size_t)  # the address; 0 for none
_get_box = bare("FPDFText_GetLooseCharBox")
_get_size = bare("FPDFText_GetFontSize", ctypes.c_double)
_get_matrix = bare("FPDFText_GetMatrix")
_get_map_error = bare("FPDFText_HasUnicodeMapError")
_get_font = bare("FPDFTextObj_GetFont", ctypes.c_size_t)
_get_mode = bare("FPDFTextObj_GetTextRenderMode")
_get_color = bare("FPDFPageObj_GetFillColor")

Columns = dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class _Runs:
    """What is the same for all characters of a text object; one row each. Row 0 stands for added characters."""

    of: NDArray[np.int64]  # (n,) each character's run; added ones belong to the run before them
    origin: NDArray[np.float64]  # (k, 2) where the first character stands, in user space (y up)
    base: NDArray[np.float64]  # (k, 2) the same point, as displayed
    size: NDArray[np.float64]  # (k,)
    angle: NDArray[np.int16]  # (k,) clockwise, as displayed
    slant: NDArray[np.float64]  # (k,) how far upright strokes lean to the right, per unit of height
    mirrored: NDArray[np.bool_]  # (k,) drawn as in a mirror: ascenders hang down


def read_glyphs(
    page: Any, frame: Frame, clips: Mapping[int, tuple[float, float, float, float]]
) -> tuple[Columns, list[list[Any]]]:
    """Columns of `Glyphs` by name, and the font table.

    `page` is pypdfium2's raw page; `clips` tells of text objects (by address) what part of the page can show them.
    """
    text_page = raw.FPDFText_LoadPage(page)
    if not text_page:
        return _empty(), []
    try:
        count = min(max(0, raw.FPDFText_CountChars(text_page)), MOST_CHARACTERS)
        return _read(text_page, count, frame, clips) if count else (_empty(), [])
    finally:
        raw.FPDFText_ClosePage(text_page)


def _empty() -> Columns:
    columns = {"codepoints": "uint32", "sizes": "float32", "fonts": "int32", "angles": "int16", "flags": "uint8"}
    return {"boxes": np.zeros((0, 4), np.float32), **{name: np.zeros(0, kind) for name, kind in columns.items()}}


def _read(text_page: Any, count: int, frame: Frame, clips: Mapping[int, Any]) -> tuple[Columns, list[list[Any]]]:
    handle = handle_of(text_page)
    codepoints = _codepoints(text_page, count)
    objects = _objects(handle, codepoints)
    addresses, firsts, numbers = np.unique(np.append(0, objects), return_index=True, return_inverse=True)
    firsts, numbers = np.maximum(firsts - 1, 0), numbers[1:]
    run_of = numbers[np.maximum.accumulate(np.where(numbers > 0, np.arange(count), 0))]
    runs = _runs(handle, firsts, run_of, frame)
    handles = [Handle(int(address)) for address in addresses[1:]]
    fonts, font_table = _fonts(text_page, handles, firsts[1:])
    flags = np.append(np.uint8(0), _hidden(handles))[numbers]
    flags |= _unmapped(handle, fonts[run_of], codepoints, objects)
    flags |= np.where(objects == 0, np.uint8(Glyphs.GENERATED), np.uint8(0))
    flags |= np.where(_are_hyphens(codepoints), np.uint8(Glyphs.HYPHEN), np.uint8(0))
    _, rects = table(_get_box, (repeat(handle), range(count)), count, ctypes.c_float, width=4)
    boxes = _boxes(rects, runs, frame)
    flags |= _clipped(boxes, addresses, numbers, clips)
    columns: Columns = {
        "codepoints": codepoints,
        "boxes": boxes,
        "sizes": runs.size.astype(np.float32)[run_of],
        "fonts": fonts[run_of],
        "angles": runs.angle[run_of],
        "flags": flags,
    }
    return columns, font_table


def _codepoints(text_page: Any, count: int) -> NDArray[np.uint32]:
    """The page's text in one call; one by one where it has characters beyond the first plane, or none for a glyph."""
    buffer = (ctypes.c_ushort * (count + 1))()
    if raw.FPDFText_GetText(text_page, 0, count, buffer) == count + 1:
        units = np.frombuffer(memoryview(buffer), np.uint16)[:count]
        if not ((units >= 0xD800) & (units < 0xE000)).any():
            return units.astype(np.uint32)
    return each(_get_unicode, (repeat(handle_of(text_page)), range(count)), "uint32", count)


def _objects(handle: Handle, codepoints: NDArray[np.uint32]) -> NDArray[np.int64]:
    """The address of each character's text object; 0 for characters that pdfium added.

    The characters of an object stand together, so those between two of one object belong to it as well, except
    added ones.
    """
    count = len(codepoints)
    sampled = np.append(np.arange(0, count - 1, _STEP), count - 1)
    seen = _look(handle, sampled)
    if count == 1:
        return seen
    same = (seen[1:] == seen[:-1]) & (seen[1:] != 0)
    span = np.minimum(np.arange(count) // _STEP, len(same) - 1)  # between which two samples a character stands
    objects = np.where(same[span], seen[span], 0)
    unsure = np.flatnonzero(~same[span] | (codepoints <= _LAST_MADE) | _are_hyphens(codepoints))
    objects[unsure] = _look(handle, unsure)
    return objects


def _are_hyphens(codepoints: NDArray[np.uint32]) -> NDArray[np.bool_]:
    """What pdfium gives for a hyphen that splits a word at a line end."""
    hyphens: NDArray[np.bool_] = (codepoints == 0x02) | (codepoints == 0xFFFE)
    return hyphens


def _look(handle: Handle, places: NDArray[np.intp]) -> NDArray[np.int64]:
    return each(_get_object, (repeat(handle), places.tolist()), "int64", len(places))


def _runs(handle: Handle, firsts: NDArray[np.intp], run_of: NDArray[np.int64], frame: Frame) -> _Runs:
    places = firsts.tolist()
    sizes = each(_get_size, (repeat(handle), places), "float64", len(places))
    _, matrix = table(_get_matrix, (repeat(handle), places), len(places), ctypes.c_float, width=6)
    a, b, c, d = (matrix[:, :4] * np.where(sizes < 0, -1, 1)[:, None]).T  # a negative size turns the glyphs over
    turn = np.degrees(-np.arctan2(b, a)) + frame.rotation
    determinant, length = a * d - b * c, np.maximum(np.hypot(a, b), 1e-9)
    with np.errstate(divide="ignore", invalid="ignore"):
        height = np.abs(determinant) / length  # of a unit across the line
        slant = np.where(height > 0, (a * c + b * d) / length / np.where(height > 0, height, 1), 0.0)
    return _Runs(
        run_of,
        matrix[:, 4:].astype(np.float64),
        frame.points(matrix[:, 4:]),
        np.abs(sizes) * height,
        (np.rint(turn) % 360).astype(np.int16),
        slant,
        determinant < 0,
    )


def _fonts(
    text_page: Any, handles: list[Handle], firsts: NDArray[np.intp]
) -> tuple[NDArray[np.int32], list[list[Any]]]:
    """Each run's index into the font table (0 for the first row, of added characters), and the table."""
    if not handles:
        return np.zeros(1, np.int32), [["", 400, False, False]]
    keys = each(_get_font, (handles,), "int64", len(handles))
    _, index = np.unique(keys, return_inverse=True)
    first = np.full(int(index.max()) + 1, int(firsts.max()))  # character of each font
    np.minimum.at(first, index, firsts)
    order = np.argsort(first)  # as they appear: addresses are others in every process
    described = [_describe(text_page, char) for char in first[order].tolist()]
    return np.append(0, np.argsort(order)[index]).astype(np.int32), described


def _describe(text_page: Any, char: int) -> list[Any]:
    """[name, weight, italic, mono] of a character's font."""
    flags, buffer = ctypes.c_int(), ctypes.create_string_buffer(256)
    length = raw.FPDFText_GetFontInfo(text_page, char, buffer, 256, flags)
    name = buffer.raw[: max(0, min(length, 256) - 1)].decode("utf-8", "replace").split("+", 1)[-1]
    low = name.lower()
    weight = raw.FPDFText_GetFontWeight(text_page, char)
    if flags.value & _FORCE_BOLD or any(part in low for part in _BOLD_NAMES):
        weight = 700
    italic = bool(flags.value & _ITALIC) or any(part in low for part in _ITALIC_NAMES)
    mono = bool(flags.value & _FIXED_PITCH) or any(part in low for part in _MONO_NAMES)
    return [name, weight if 100 <= weight <= 900 else 400, italic, mono]


def _hidden(handles: list[Handle]) -> NDArray[np.uint8]:
    """INVISIBLE for text objects whose render mode or transparency hides them, PALE for those drawn in white."""
    count = len(handles)
    modes = each(_get_mode, (handles,), "int32", count)
    known, rgba = table(_get_color, (handles,), count, ctypes.c_uint, pointers=4)
    invisible = np.isin(modes, _HIDDEN_MODES) | ((known != 0) & (rgba[:, 3] == 0))
    pale = ~invisible & (known != 0) & (rgba[:, :3].min(axis=1) >= _PALE)
    flags: NDArray[np.uint8] = (invisible * Glyphs.INVISIBLE + pale * Glyphs.PALE).astype(np.uint8)
    return flags


def _unmapped(
    handle: Handle, fonts: NDArray[np.int32], codepoints: NDArray[np.uint32], objects: NDArray[np.int64]
) -> NDArray[np.uint8]:
    """UNMAPPED where a font gives no Unicode for a glyph: asked once for each character of each font."""
    keys = (fonts.astype(np.int64) << 32) | codepoints
    _, first, inverse = np.unique(np.where(objects == 0, -1, keys), return_index=True, return_inverse=True)
    errors = each(_get_map_error, (repeat(handle), first.tolist()), "int32", len(first))
    return np.where(errors == 1, np.uint8(Glyphs.UNMAPPED), np.uint8(0))[inverse]


def _clipped(
    boxes: NDArray[np.float32], addresses: NDArray[np.int64], numbers: NDArray[np.int64], clips: Mapping[int, Any]
) -> NDArray[np.uint8]:
    """INVISIBLE for characters whose middle lies outside of what their object is clipped to."""
    flags = np.zeros(len(boxes), np.uint8)
    if not clips:
        return flags
    everything = (-np.inf, -np.inf, np.inf, np.inf)
    left, top, right, bottom = np.asarray([clips.get(int(a), everything) for a in addresses])[numbers].T
    x, y = (boxes[:, 0] + boxes[:, 2]) / 2, (boxes[:, 1] + boxes[:, 3]) / 2
    flags[(x < left) | (x > right) | (y < top) | (y > bottom)] = Glyphs.INVISIBLE
    return flags


def _boxes(rects: NDArray[np.float32], runs: _Runs, frame: Frame) -> NDArray[np.float32]:
    """Boxes on the displayed page. Along the line they are the advance, across it one height for all fonts.

    `rects`: pdfium's loose boxes (left, top, right, bottom with y up).
    """
    boxes, of = frame.boxes(rects), runs.of
    size, angle, base = runs.size[of], runs.angle[of], runs.base[of]
    upright = ~_stacked(rects, runs) & (size > 0)
    _straighten(boxes, np.flatnonzero(upright & (angle == 0)), base[:, 1], runs.slant[of])
    ascent = np.where(runs.mirrored[of], -size, size)
    for turned, low, sign in ((0, 1, 1), (180, 1, -1), (90, 0, -1), (270, 0, 1)):
        rows = np.flatnonzero(upright & (np.abs((angle - turned + 180) % 360 - 180) <= 10))
        if not len(rows):
            continue
        line, height = base[rows, low], sign * ascent[rows]
        edges = line - _ASCENT * height, line + _DESCENT * height
        boxes[rows, low], boxes[rows, low + 2] = np.minimum(*edges), np.maximum(*edges)
    return boxes


def _straighten(
    boxes: NDArray[np.float32], rows: NDArray[np.intp], baseline: NDArray[np.float64], slant: NDArray[np.float64]
) -> None:
    """Take out of boxes of horizontal text what a slant (faked italics) adds to the advance."""
    rows = rows[np.abs(slant[rows]) > 0.01]
    lean, above, below = slant[rows], baseline[rows] - boxes[rows, 1], boxes[rows, 3] - baseline[rows]
    boxes[rows, 0] += np.where(lean > 0, lean * below, -lean * above)
    boxes[rows, 2] -= np.where(lean > 0, lean * above, -lean * below)


def _stacked(rects: NDArray[np.float32], runs: _Runs) -> NDArray[np.bool_]:
    """True for characters of vertical writing: they hang centred under the point where their line begins."""
    left, top, right, _ = rects.T
    x, y = runs.origin[runs.of].T
    near = 0.05 * runs.size[runs.of]
    stacked: NDArray[np.bool_] = (np.abs((left + right) / 2 - x) < near) & (top <= y + near) & (right > left)
    return stacked
