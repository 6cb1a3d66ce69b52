"""Glyphs in a frame of their own: text runs to the right and stands upright, whichever way it runs on the page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from docai.ocr.code_sets import is_blank, is_east_asian, is_formatting
from docai.ocr.glyph_repair import repair
from docai.types import Glyphs

DESCENT = 0.22  # of the font size: where `Glyphs.boxes` end below the baseline
_NEARLY = 10  # degrees by which text may lean and still count as running along a side of the page
_LEANING = 1000  # and degrees: the direction of text at any other angle
_DIRECTIONS = np.array(  # by degrees
    [near % 360 if abs(a - near) <= _NEARLY else _LEANING + a for a in range(360) for near in (round(a / 90) * 90,)]
)

# What stands in the file between a glyph and the one before it.
NOTHING, GUESSED_SPACE, SPACE = 0, 1, 2


@dataclass(slots=True)
class Frame:
    """The visible glyphs of one direction of writing, in the order of the file, as columns of n.

    `boxes` are left, top, right, bottom in the frame; `number` is each glyph's place among all of the page's, so that
    neighbours in the file differ by one; `gap` says what separates it from the glyph before in the file.
    """

    angle: int
    vertical: bool
    codes: NDArray[np.uint32]
    boxes: NDArray[np.float64]
    base: NDArray[np.float64]
    sizes: NDArray[np.float64]
    fonts: NDArray[np.int32]
    number: NDArray[np.int64]
    gap: NDArray[np.uint8]
    texts: dict[int, str]  # by `number`: what a glyph says where that is not just its code

    def __len__(self) -> int:
        return len(self.codes)

    def take(self, rows: NDArray[Any]) -> Frame:
        """These rows only."""
        return Frame(
            self.angle,
            self.vertical,
            self.codes[rows],
            self.boxes[rows],
            self.base[rows],
            self.sizes[rows],
            self.fonts[rows],
            self.number[rows],
            self.gap[rows],
            self.texts,
        )


def frames(glyphs: Glyphs, keep: NDArray[np.bool_]) -> Iterator[Frame]:
    """The glyphs chosen by `keep`, apart by direction; text at an odd angle comes last, one frame an angle."""
    everything = _clean(glyphs, keep)
    angles = glyphs.angles[everything.number].astype(np.int64)
    everything.number = np.arange(len(everything), dtype=np.int64)
    repair(everything, glyphs.font_table)
    present = everything.number >= 0
    direction = _DIRECTIONS[angles % 360]
    for angle in np.flatnonzero(np.bincount(direction[present])).tolist():
        rows = present & (direction == angle)
        group = everything if rows.all() else everything.take(rows)
        if angle >= _LEANING:
            yield _turned_freely(group, angle - _LEANING)
        else:
            yield from _along(group, angle)


def _clean(glyphs: Glyphs, keep: NDArray[np.bool_]) -> Frame:
    """Drawn glyphs in the page's own frame; `number` is still the index into `glyphs`."""
    codes = glyphs.codepoints
    generated = (glyphs.flags & Glyphs.GENERATED) > 0
    blank = is_blank(codes)
    drawn = np.flatnonzero(keep & ~generated & ~blank & ~is_formatting(codes))
    boxes = glyphs.boxes[drawn].astype(np.float64)
    sizes = glyphs.sizes[drawn].astype(np.float64)
    sizes = np.where(sizes > 0.01, sizes, np.maximum(boxes[:, 3] - boxes[:, 1], 0.1))
    # A space without width is one that the PDF library made of kerning.
    guessed = generated | (glyphs.boxes[:, 2:] - glyphs.boxes[:, :2] <= 0.01).any(axis=1)
    return Frame(
        0,
        False,
        codes[drawn].copy(),
        boxes,
        boxes[:, 3] - DESCENT * sizes,
        sizes,
        glyphs.fonts[drawn],
        drawn.astype(np.int64),
        _gaps(drawn, blank & ~guessed, blank & guessed),
        {},
    )


def _gaps(drawn: NDArray[np.int64], spaces: NDArray[np.bool_], guessed: NDArray[np.bool_]) -> NDArray[np.uint8]:
    gap = np.zeros(len(drawn), np.uint8)
    if len(drawn) > 1:
        seen_spaces, seen_guesses = np.cumsum(spaces)[drawn], np.cumsum(guessed)[drawn]
        gap[1:][np.diff(seen_guesses) > 0] = GUESSED_SPACE
        gap[1:][np.diff(seen_spaces) > 0] = SPACE
    return gap


def _along(group: Frame, angle: int) -> Iterator[Frame]:
    """Glyphs that run along a side of the page; stacked CJK apart from the rest."""
    left, top, right, bottom = group.boxes.T
    if angle == 90:
        group.boxes = np.stack((top, -right, bottom, -left), axis=1)
    elif angle == 180:
        group.boxes = np.stack((-right, -bottom, -left, -top), axis=1)
    elif angle == 270:
        group.boxes = np.stack((-bottom, left, -top, right), axis=1)
    group.angle, group.base = angle, group.boxes[:, 3] - DESCENT * group.sizes
    stacked = _stacked(group)
    if not stacked.any():
        yield group
        return
    if not stacked.all():
        yield group.take(~stacked)
    upright = group.take(stacked)
    left, top, right, bottom = upright.boxes.T
    upright.boxes, upright.vertical = np.stack((top, -right, bottom, -left), axis=1), True
    upright.base = -(left + right) / 2
    yield upright


def _stacked(group: Frame) -> NDArray[np.bool_]:
    """Which glyphs follow each other downwards, as vertical Chinese and Japanese does: at least three in a row."""
    none = np.zeros(len(group), np.bool_)
    if len(group) < 3 or not (group.codes >= 0x2E80).any():
        return none
    centre = (group.boxes[:, 0] + group.boxes[:, 2]) / 2
    size = group.sizes[1:]
    down = (group.boxes[1:, 1] - group.boxes[:-1, 1]) / size
    east = is_east_asian(group.codes)
    step = (np.abs(np.diff(centre)) < 0.3 * size) & (down > 0.5) & (down < 2.5) & east[1:] & east[:-1]
    two = step[1:] & step[:-1]
    none[:-2] |= two
    none[1:-1] |= two
    none[2:] |= two
    return none


def _turned_freely(group: Frame, degrees: int) -> Frame:
    """Text at any other angle, turned upright around the page's corner; widths are estimated from the height."""
    group.angle = degrees
    lean = np.radians(-degrees)
    x, y = (group.boxes[:, 0] + group.boxes[:, 2]) / 2, (group.boxes[:, 1] + group.boxes[:, 3]) / 2
    along, across = x * np.cos(lean) - y * np.sin(lean), x * np.sin(lean) + y * np.cos(lean)
    half = 0.25 * group.sizes
    group.boxes = np.stack((along - half, across - 2 * half, along + half, across + 2 * half), axis=1)
    group.base = across
    return group


def to_page(boxes: NDArray[np.float64], angle: int) -> NDArray[np.float64]:
    """(n, 4) boxes of a frame as they lie on the page. Text at an odd angle: the upright box around it."""
    left, top, right, bottom = boxes.T
    match angle:
        case 0:
            return boxes
        case 90:
            return np.stack((-bottom, left, -top, right), axis=1)
        case 180:
            return np.stack((-right, -bottom, -left, -top), axis=1)
        case 270:
            return np.stack((top, -right, bottom, -left), axis=1)
    turn = np.radians(angle)
    corners_x = np.stack((left, right, right, left), axis=1)
    corners_y = np.stack((top, top, bottom, bottom), axis=1)
    x = corners_x * np.cos(turn) - corners_y * np.sin(turn)
    y = corners_x * np.sin(turn) + corners_y * np.cos(turn)
    return np.stack((x.min(axis=1), y.min(axis=1), x.max(axis=1), y.max(axis=1)), axis=1)
