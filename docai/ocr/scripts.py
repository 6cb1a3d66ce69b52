"""Scripts that the recogniser does not know: that there is such text, and which script it may be.

PP-OCR's recogniser answers letters that it was not trained on with nothing at all, often with the right spaces between
the missing words. A line full of ink with hardly a character read is therefore text of another script. Its name is
guessed from the look of its strokes; the limits were measured on lines set in Noto fonts, and "unknown" is an answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import cv2
import numpy as np
from numpy.typing import NDArray

from docai.ocr.crops import Pixels, ink_of
from docai.ocr.ppocr import Text

_READ = 0.5  # characters per square of ink; Latin has 2 to 3, Chinese 1
_LONG = 2.5  # squares of ink in the shortest line that tells anything
_SURE = 0.7  # score of text that was read rather than guessed
_SHARE = 0.3  # of all lines' width: so much must be unread
_BESIDE = 0.25  # of the doubtful width: so much must be unread for the guesses beside it to count as unread as well

# name -> languages of tesseract that are written in it
LANGUAGES = {
    "Arabic": "ara, fas, urd",
    "Devanagari or Bengali": "hin, mar, ben",
    "Korean": "kor",
    "Hebrew": "heb",
    "Cyrillic": "rus, ukr, bul, srp",
    "Thai": "tha",
}


@dataclass(frozen=True, slots=True)
class Look:
    """How the ink of a line looks; lengths count in heights of its ink.

    `beam`: the share of ink columns that the fullest row covers, `beam_at` its place from the top, `stroke` the longest
    horizontal stroke; of the connected parts: `letter` mean width of the larger ones, `widest` of the three widest,
    `uneven` the spread of their heights, `dots` the smaller ones per larger one; `length` the ink columns together.
    """

    length: float
    beam: float
    beam_at: float
    stroke: float
    letter: float
    widest: float
    uneven: float
    dots: float
    parts: int


def uncovered(lines: Sequence[tuple[Pixels, Text]]) -> tuple[list[bool], str]:
    """For each line of a page whether it is in a script that cannot be read; and that script's name, "" for none."""
    looks = [look_of(ink_of(image)) for image, _ in lines]
    unread = [_is_unread(look, text) for look, (_, text) in zip(looks, lines, strict=True)]
    doubtful = [not u and text.score < _SURE for u, (_, text) in zip(unread, lines, strict=True)]
    lengths = np.array([look.length if look else 0.0 for look in looks])
    dark, dim = (float(lengths[np.array(which, bool)].sum()) for which in (unread, doubtful))
    name = script_of([look for look, u in zip(looks, unread, strict=True) if u and look])
    if dark < _SHARE * lengths.sum() or not (name or dark > 4 * _LONG):
        return [False] * len(lines), ""
    guessed = dark >= _BESIDE * (dark + dim)
    return [u or (d and guessed) for u, d in zip(unread, doubtful, strict=True)], name or "unknown"


def reason(name: str, count: int, total: int) -> str:
    """What to say of a page with `count` of `total` lines in the script `name`."""
    codes = f", for instance {LANGUAGES[name]}" if name in LANGUAGES else ""
    return (
        f"script not covered ({name}): {count} of {total} lines left out; install tesseract and its data for the "
        f"language{codes}, then use --model tesseract --lang CODE"
    )


def _is_unread(look: Look | None, text: Text) -> bool:
    """Whether a line has the ink of text, and (nearly) nothing was read of it."""
    if look is None or look.length < _LONG or look.parts < 3:
        return False
    return len("".join(text.text.split())) < _READ * look.length


def look_of(ink: NDArray[np.bool_]) -> Look | None:
    """The look of a line from its ink (H, W); None where there is none to speak of."""
    rows = np.flatnonzero(ink.any(axis=1))
    if len(rows) < 6:
        return None
    ink = ink[rows[0] : rows[-1] + 1]
    height = len(ink)
    columns = int(ink.any(axis=0).sum())
    fullest = ink.sum(axis=1)
    _, _, parts, _ = cv2.connectedComponentsWithStats(ink.astype(np.uint8), connectivity=8)
    wide, high, area = (parts[1:, i] / height for i in (cv2.CC_STAT_WIDTH, cv2.CC_STAT_HEIGHT, cv2.CC_STAT_AREA))
    large = high > 0.3
    if not large.any():
        return None
    return Look(
        length=columns / height,
        beam=float(fullest.max() / columns),
        beam_at=float(fullest.argmax() / height),
        stroke=max(_longest_run(row) for row in ink) / height,
        letter=float(wide[large].mean()),
        widest=float(np.sort(wide)[-3:].mean()),
        uneven=float(high[large].std()),
        dots=float(np.count_nonzero(~large & (area > 0.0015 * height)) / np.count_nonzero(large)),
        parts=int(np.count_nonzero(large)),
    )


def _longest_run(row: NDArray[np.bool_]) -> int:
    edges = np.flatnonzero(np.diff(np.concatenate([[0], row.astype(np.int8), [0]])))
    return int((edges[1::2] - edges[::2]).max(initial=0))


def script_of(looks: Sequence[Look]) -> str:
    """The script of unread lines by their usual look, "" where that fits none."""
    if not looks:
        return ""
    beam, beam_at, stroke, letter, widest, uneven, dots = (
        median(getattr(look, name) for look in looks)
        for name in ("beam", "beam_at", "stroke", "letter", "widest", "uneven", "dots")
    )
    signs = {
        "Devanagari or Bengali": beam > 0.75 and stroke > 1.2 and beam_at < 0.45,
        "Arabic": stroke > 0.8 and beam_at > 0.5 and widest > 1.0 and dots > 0.4,
        "Korean": stroke > 0.75 and beam_at < 0.3 and uneven > 0.18 and widest < 1.0,
        "Thai": letter < 0.42 and uneven < 0.095 and dots > 0.2,
        "Hebrew": letter < 0.42 and beam > 0.62 and beam_at < 0.4 and dots < 0.1,
        "Cyrillic": letter > 0.43 and uneven < 0.1 and dots < 0.2 and widest < 1.5,
    }
    return next((name for name, fits in signs.items() if fits), "")
