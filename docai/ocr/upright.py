"""Which way up a page is: turned by quarters, leaning by degrees. Told from its lines and from how well they read."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from docai.ocr.crops import Pixels, crop, ink_of, laid_down
from docai.ocr.ppocr import Text
from docai.ocr.quads import Quads, heights, longest_first, standing, widths

Read = Callable[[Sequence[Pixels]], list[Text]]

_SAMPLE = 6  # lines that are read to find the direction of a page
_LONGEST = 20  # heights: as much of a line is read for that
_GLANCE, _GLANCED = 3, 10  # the same where all is well
_SURE = 0.85  # mean score of lines that need no second look
_GOOD = 0.75  # mean score of lines that were read the right way round
_BETTER = 0.1  # by so much must another direction read better
_STRAIGHT = 0.25  # degrees: a lean below this is none
_STEEPEST = 30.0  # degrees


def mean_score(texts: Sequence[Text]) -> float:
    """Mean score over all characters; a line of which nothing was read counts as one that scores 0."""
    total = sum(sum(text.scores) for text in texts)
    return total / max(1, sum(len(text.scores) or 1 for text in texts))


def is_sideways(quads: Quads) -> bool:
    """Whether most of the type stands in tall boxes: a page on its side, or columns of CJK."""
    tall = standing(quads)
    lengths = np.maximum(heights(quads), widths(quads))
    return float(lengths[tall].sum()) > 0.6 * float(lengths.sum())


def sideways_turn(image: Pixels, quads: Quads, read: Read) -> int:
    """By how much to turn a page of tall lines clockwise: 90 or 270, or 0 where they are columns of characters."""
    columns = [crop(image, quad) for quad in longest_first(quads[standing(quads)])[:_SAMPLE]]
    columns = [column[: _LONGEST * column.shape[1]] for column in columns]
    # np.rot90 turns counter-clockwise: lines that read well so are those of a page to be turned by 270
    ways = {270: [np.rot90(c) for c in columns], 90: [np.rot90(c, 3) for c in columns]}
    scores = {turn: mean_score(read(lines)) for turn, lines in ways.items()}
    best = max(scores, key=lambda turn: scores[turn])
    if scores[best] >= _SURE and not _mostly_square(columns):
        return best
    stacked = mean_score(read([laid_down(column) for column in columns]))
    return best if scores[best] > max(stacked, _GOOD) else 0


def _mostly_square(columns: Sequence[Pixels]) -> bool:
    """Whether tall lines may be columns of square characters: there are gaps about every width."""
    gaps = [np.count_nonzero(np.diff(ink_of(column).any(axis=1).astype(np.int8)) == 1) for column in columns]
    return bool(sum(gaps) > 0.5 * sum(len(column) / column.shape[1] for column in columns))


def upside_down(image: Pixels, quads: Quads, read: Read) -> bool:
    """Whether lines that do not read well read better the other way up. A glance at a few tells for most pages."""
    lying = longest_first(quads[~standing(quads)])
    if mean_score(read(_beginnings(image, lying[:_GLANCE], _GLANCED))) >= _SURE:
        return False
    sample = _beginnings(image, lying[:_SAMPLE], _LONGEST)
    straight, turned = mean_score(read(sample)), mean_score(read([np.rot90(line, 2) for line in sample]))
    return turned > max(straight + _BETTER, _GOOD)


def _beginnings(image: Pixels, quads: Quads, longest: int) -> list[Pixels]:
    """The images of some lines, up to `longest` times as wide as high."""
    lines = [crop(image, quad) for quad in quads]
    return [line[:, : longest * line.shape[0]] for line in lines]


def lean_of(quads: Quads) -> float:
    """Degrees clockwise by which the lines lean: the median over long lines, weighted by their length.

    0 where there are too few long lines, or they disagree, or stand straight.
    """
    wide = quads[widths(quads) > 5 * heights(quads)]
    if len(wide) < 3:
        return 0.0
    along = (wide[:, 1] - wide[:, 0] + wide[:, 2] - wide[:, 3]) / 2
    angles = np.degrees(np.arctan2(along[:, 1], along[:, 0]))
    order = np.argsort(angles)
    weight = np.cumsum(np.linalg.norm(along, axis=1)[order])
    middle = float(angles[order][np.searchsorted(weight, weight[-1] / 2)])
    agreeing = float(np.mean(np.abs(angles - middle) < 1.5))
    return round(middle, 2) if agreeing > 0.6 and _STRAIGHT <= abs(middle) < _STEEPEST else 0.0
