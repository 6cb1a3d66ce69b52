"""Finding lines at the size at which the detector sees them best: its answers are poor for tiny and for huge type."""

from __future__ import annotations

from collections.abc import Callable

import cv2
import numpy as np

from docai.ocr.crops import Pixels
from docai.ocr.quads import Quads, no_quads, without_repeats

Find = Callable[[Pixels], Quads]

_X_HEIGHT = 10.0  # pixels of a small letter, at which lines are looked for; found as well from 7 to 20
_TOO_SMALL = 6.0  # pixels of a small letter, below which lines run into each other
_SIDE, _LEAST_SIDE = 2000, 640  # pixels of the longer side: at most, in one go; at least, as far as there are any
_LARGEST = 3.0  # times: no image is enlarged more
_LETTERS, _MANY = 12, 3000  # components that tell the size of type; of a page of small print
_BAND, _OVERLAP = 1200, 160  # pixels: height of the bands that large pages of small print are looked at in
_CONTRAST = 60  # grey levels between ink and ground of a nearly empty page


def find_lines(image: Pixels, find: Find) -> Quads:
    """Quads of the lines of a BGR image (H, W, 3), in its pixels. `find` looks at an image as it is."""
    scale, banded = viewing(image)
    scaled = resized(image, scale)
    quads = (_in_bands(scaled, find) if banded else find(scaled)) / scale
    return quads if len(quads) else _on_empty_page(image, find)


def viewing(image: Pixels) -> tuple[float, bool]:
    """The scale at which to look for lines, and whether that is too large to look at all of it at once."""
    longest = max(image.shape[:2])
    letters = letter_heights(image)
    small = float(np.percentile(letters, 25)) if len(letters) else _X_HEIGHT
    if len(letters) < _LETTERS and small < 2 * _X_HEIGHT:  # specks, most likely
        return min(1.0, _SIDE / longest), False
    scale = min(max(_X_HEIGHT / small, min(1.0, _LEAST_SIDE / longest)), _LARGEST)
    if scale * longest <= _SIDE:
        return scale, False
    small_print = np.count_nonzero((letters > 0.7 * small) & (letters < 2 * small)) > _MANY
    if small_print and small * _SIDE / longest < _TOO_SMALL:
        return min(scale, 1.0), True
    return _SIDE / longest, False


def letter_heights(image: Pixels) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    """Heights in pixels of what looks like letters: connected ink of their proportions."""
    grey = cv2.cvtColor(image, cv2.COLOR_BGR2GRAY)
    kind = cv2.THRESH_BINARY_INV if np.median(grey) > 100 else cv2.THRESH_BINARY
    ink = cv2.adaptiveThreshold(grey, 255, cv2.ADAPTIVE_THRESH_MEAN_C, kind, 51, 15 if kind else -15)
    _, _, parts, _ = cv2.connectedComponentsWithStats(ink, connectivity=8)
    width, height, area = (parts[1:, i] for i in (cv2.CC_STAT_WIDTH, cv2.CC_STAT_HEIGHT, cv2.CC_STAT_AREA))
    letters = (height >= 4) & (height < 400) & (width < 4 * height) & (height < 4 * width + 4) & (area > 8)
    found: np.ndarray[tuple[int], np.dtype[np.int32]] = height[letters & (area > 0.15 * width * height)]
    return found


def resized(image: Pixels, scale: float) -> Pixels:
    """The image at another scale."""
    if scale == 1:
        return image
    way = cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC
    out: Pixels = cv2.resize(image, None, fx=scale, fy=scale, interpolation=way)
    return out


def _in_bands(image: Pixels, find: Find) -> Quads:
    """Lines of a large image, looked at in bands over its whole width that overlap."""
    height = image.shape[0]
    tops = range(0, max(1, height - _OVERLAP), _BAND - _OVERLAP)
    found = [find(np.ascontiguousarray(image[top : top + _BAND])) + np.array([0, top], np.float32) for top in tops]
    return without_repeats(np.concatenate(found))


def _on_empty_page(image: Pixels, find: Find) -> Quads:
    """A second look at a nearly empty page: the detector misses single small lines on a large white sheet."""
    grey = cv2.cvtColor(image, cv2.COLOR_BGR2GRAY)
    ink = np.abs(grey.astype(np.int16) - int(np.median(grey))) > _CONTRAST
    ys, xs = np.flatnonzero(ink.any(axis=1)), np.flatnonzero(ink.any(axis=0))
    if not len(ys) or (ys[-1] - ys[0]) * (xs[-1] - xs[0]) > 0.7 * grey.size:
        return no_quads()
    top, left = max(0, int(ys[0]) - 12), max(0, int(xs[0]) - 12)
    part = image[top : ys[-1] + 12, left : xs[-1] + 12]
    scale = min(1.0, _SIDE / max(part.shape[:2]))
    for attempt in (scale, scale / 2, 2 * scale):
        quads = find(np.ascontiguousarray(resized(part, attempt)))
        if len(quads):
            return np.asarray(quads / attempt + np.array([left, top]), np.float32)
    return no_quads()
