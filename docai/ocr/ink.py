"""How much is printed in a picture: whether there is anything, how many characters it may be, where lines part."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from docai.types import RGB

_BLANK = 24  # levels of grey between the darkest and the lightest point of a blank picture: paper and noise
_INKED = 48  # levels of grey between ink and its paper
_SPECK = 0.002  # share of a row that specks of dust may take
# A line of print is as high as its letters with their tails; a letter and the space beside it are about half as wide.
_LETTER = 0.45
_RULE, _THIN = 12, 5  # pixels: a line as low and without a gap is drawn, and so is anything lower than print
_TALL = 80  # pixels: higher than print; lines of it that a drawn line joins, or a picture
_SMALLEST = 5 * 8  # pixels of the smallest letter that can be read
_MANY = 8.0  # times as many characters as estimated may be there


@dataclass(frozen=True, slots=True)
class Ink:
    """What is to be seen of print.

    `characters` is an estimate, too low where print is joined to something else; `most` is what can be there at most.
    """

    blank: bool
    share: float  # of the pixels
    characters: float
    most: float = float("inf")


def ink_of(pixels: RGB) -> Ink:
    """Of a picture (H, W, 3)."""
    grey = pixels.mean(axis=2)
    if grey.size == 0 or float(np.ptp(grey)) < _BLANK:
        return Ink(blank=True, share=0.0, characters=0.0, most=0.0)
    marks = inked(grey)
    lines = [_line(marks[top:bottom]) for top, bottom in bands(marks)]
    return Ink(False, float(marks.mean()), sum(n for n, _ in lines), sum(most for _, most in lines))


def inked(grey: NDArray[np.floating]) -> NDArray[np.bool_]:
    """Where a grey picture (H, W) is printed on: what differs from its paper, the commonest level of grey."""
    counts = np.bincount(np.clip(grey, 0, 255).astype(np.uint8).ravel() >> 3, minlength=32)
    paper = 8 * int(counts.argmax()) + 4
    found: NDArray[np.bool_] = np.abs(grey - paper) > _INKED
    return found


def _line(band: NDArray[np.bool_]) -> tuple[float, float]:
    """How many characters a line holds: about, and at most."""
    height, columns = band.shape[0], np.flatnonzero(band.any(axis=0))
    across = columns[-1] - columns[0] + 1 if len(columns) else 1
    if height < _THIN or (height <= _RULE and len(columns) > 0.98 * across):
        return 0.0, _MANY * len(columns) / height
    letters = float(len(columns) / (_LETTER * height))
    return letters, _MANY * letters if height <= _TALL else height * len(columns) / _SMALLEST


def bands(marks: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Rows that hold print, from and to, in groups: the lines of a text."""
    full = marks.mean(axis=1) > _SPECK
    edges = np.flatnonzero(np.diff(full.astype(np.int8), prepend=0, append=0))
    return [(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True)]


def middle_gap(pixels: RGB, least: int) -> int | None:
    """The row between two lines at which a picture is best cut in two, each part at least `least` rows high.

    Of the gaps in the middle half the widest; None where all of it is printed on.
    """
    height = pixels.shape[0]
    found = bands(inked(pixels.mean(axis=2)))
    gaps = [(above[1], below[0]) for above, below in pairwise(found)]
    first, last = max(least, height // 4), min(height - least, 3 * height // 4)
    rows = [(b - a, (a + b) // 2) for a, b in gaps if first <= (a + b) // 2 <= last]
    return max(rows, key=lambda gap: (gap[0], -abs(gap[1] - height // 2)))[1] if rows else None
