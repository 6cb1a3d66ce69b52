"""Images of single lines, as the recogniser wants them: cut out, straight, from left to right."""

from __future__ import annotations

import math

import cv2
import numpy as np
from numpy.typing import NDArray

Pixels = NDArray[np.uint8]  # (H, W, 3)
_CONTRAST = 50  # grey levels between ink and ground
_SHARP = 48  # pixels: the recogniser's height; gaps between characters are not seen in smaller columns
_MARK = 0.5  # of the column's width: smaller ink is a punctuation mark


def crop(image: Pixels, quad: NDArray[np.float32]) -> Pixels:
    """The pixels in a quad (4, 2), made a rectangle."""
    width = max(2, round(max(math.dist(quad[0], quad[1]), math.dist(quad[2], quad[3]))))
    height = max(2, round(max(math.dist(quad[0], quad[3]), math.dist(quad[1], quad[2]))))
    corners = np.array([[0, 0], [width, 0], [width, height], [0, height]], np.float32)
    matrix = cv2.getPerspectiveTransform(quad.astype(np.float32), corners)
    out: Pixels = cv2.warpPerspective(
        image, matrix, (width, height), borderMode=cv2.BORDER_REPLICATE, flags=cv2.INTER_CUBIC
    )
    return out


def ink_of(line: Pixels) -> NDArray[np.bool_]:
    """Which pixels (H, W) of a line image differ from its ground, dark on light or light on dark."""
    grey = cv2.cvtColor(line, cv2.COLOR_BGR2GRAY)
    level, _ = cv2.threshold(grey, 0, 255, cv2.THRESH_BINARY | cv2.THRESH_OTSU)
    dark = grey <= level
    return np.asarray(dark if dark.mean() <= 0.5 else ~dark, bool)


def laid_down(column: Pixels) -> Pixels:
    """A column of characters as a row: cut between characters, each square put beside the one above it.

    A mark that has a square's upper right in a column (comma, full stop) moves to the lower left, its place in a row.
    """
    if column.shape[1] < _SHARP:
        larger = _SHARP / column.shape[1]
        column = cv2.resize(column, None, fx=larger, fy=larger, interpolation=cv2.INTER_CUBIC)
    grey = cv2.cvtColor(column, cv2.COLOR_BGR2GRAY).astype(np.int16)
    ink = np.abs(grey - int(np.median(grey))) > _CONTRAST
    side = column.shape[1]
    spans = squares(ink.any(axis=1), side)
    if len(spans) < 2:
        return column
    ground = np.median(column.reshape(-1, 3), axis=0).astype(np.uint8)
    height = max(side, *(b - a for a, b in spans))
    return np.concatenate([_square(column[a:b], ink[a:b], (side, height), ground) for a, b in spans], axis=1)


def _square(part: Pixels, ink: NDArray[np.bool_], size: tuple[int, int], ground: NDArray[np.uint8]) -> Pixels:
    """A character on a square of its own, of `size` (width, height), marks in their place for a row."""
    side, height = size
    rows, columns = np.flatnonzero(ink.any(axis=1)), np.flatnonzero(ink.any(axis=0))
    mark = len(rows) > 0 and max(len(rows), len(columns)) < _MARK * side and columns[0] > 0.4 * side
    out = np.empty((height, side + 2, 3), np.uint8)
    out[:] = ground
    if mark:
        piece = part[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
        top = height - len(piece) - side // 8
        out[top : top + len(piece), 2 : 2 + piece.shape[1]] = piece
    else:
        top = (height - part.shape[0]) // 2
        out[top : top + part.shape[0], 1 : side + 1] = part
    return out


def squares(ink: NDArray[np.bool_], side: int) -> list[tuple[int, int]]:
    """(top, bottom) of the characters of a column `side` wide; `ink` (H,) tells rows with ink.

    Strokes of one character that do not touch are joined, as long as they fit a square.
    """
    edges = np.flatnonzero(np.diff(np.concatenate([[0], ink.astype(np.int8), [0]])))
    spans: list[tuple[int, int]] = []
    for top, bottom in edges.reshape(-1, 2).tolist():
        if spans and bottom - spans[-1][0] <= 0.95 * side and top - spans[-1][1] < 0.2 * side:
            spans[-1] = (spans[-1][0], bottom)
        else:
            spans.append((top, bottom))
    return [part for top, bottom in spans for part in _cut(top, bottom, side)]


def _cut(top: int, bottom: int, side: int) -> list[tuple[int, int]]:
    """A run of characters that touch, cut into squares."""
    count = max(1, round((bottom - top) / side))
    step = (bottom - top) / count
    return [(round(top + i * step), round(top + (i + 1) * step)) for i in range(count)]
