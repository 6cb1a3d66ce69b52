"""The embedded engine: PP-OCR detection and recognition, with the models that the package rapidocr ships.

Lines are looked for at the size at which the detector sees best and read from the full resolution; the page's
direction comes from the shape of its lines and from how well they read; vertical lines are laid down character by
character.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from docai.geometry import turn_box, union
from docai.ocr.crops import Pixels, crop, ink_of, laid_down
from docai.ocr.engines import Recognised
from docai.ocr.finding import find_lines
from docai.ocr.ppocr import PPOCR, Text
from docai.ocr.quads import Quads, box_of, standing, straightened, turned
from docai.ocr.scripts import reason, uncovered
from docai.ocr.spacing import Piece, pieces
from docai.ocr.spelling import plain_signs
from docai.ocr.upright import is_sideways, lean_of, sideways_turn, upside_down
from docai.types import Box, Line, Word
from docai.writing import is_cjk

_SOURCE = "ocr:embedded"
_WORST = 0.35  # lines with a lower score are noise
_WORST_SHORT = 0.6  # the same for a character or two
_BETTER = 0.1  # by so much must a line read better on its side to be one that runs up or down the page
_GLYPHS = 0.72  # of a line's height: its glyphs, from the capitals' top to the descenders'


@dataclass(frozen=True, slots=True)
class _Seen:
    """A line as it was read: its image, how far that was turned clockwise to lie, or whether its characters stand."""

    image: Pixels
    text: Text
    turn: int = 0
    stacked: bool = False


class Embedded:
    """Engine `embedded`. Needs no network: the models come with rapidocr."""

    name = "embedded"

    def __init__(self, *, lang: str | None = None, threads: int | None = None) -> None:  # noqa: ARG002 - one model for all
        self._nets = PPOCR(threads)

    def read(self, pixels: Pixels, *, straighten: bool = True) -> Recognised:
        """See `Recognizer.read`."""
        image = np.ascontiguousarray(pixels[:, :, ::-1])  # the nets were trained on BGR
        quads = find_lines(image, self._nets.find)
        if not len(quads):
            return Recognised(())
        rotation = sideways_turn(image, quads, self._nets.read) if straighten and is_sideways(quads) else 0
        image, quads = _turn(image, quads, rotation)
        if straighten and upside_down(image, quads, self._nets.read):
            rotation = (rotation + 180) % 360
            image, quads = _turn(image, quads, 180)
        seen = self._read(image, quads)
        skew = lean_of(quads)
        boxes = [box_of(quad) for quad in straightened(quads, skew, (image.shape[1], image.shape[0]))]
        foreign, script = uncovered([(line.image, line.text) for line in seen])
        known = [(box, line) for box, line, other in zip(boxes, seen, foreign, strict=True) if not other]
        lines = tuple(line for box, one in known for line in _lines(box, one))
        reasons = (reason(script, sum(foreign), len(foreign)),) if script else ()
        return Recognised(lines, rotation, skew, reasons)

    def _read(self, image: Pixels, quads: Quads) -> list[_Seen]:
        """All lines, each read as it lies or stands."""
        crops = [crop(image, quad) for quad in quads]
        stands = standing(quads)
        flat = [laid_down(c) if tall else c for c, tall in zip(crops, stands, strict=True)]
        texts = self._nets.read(flat)
        seen = [_Seen(i, t, stacked=bool(s)) for i, t, s in zip(flat, texts, stands, strict=True)]
        return [self._on_its_side(c, line) if line.stacked else line for c, line in zip(crops, seen, strict=True)]

    def _on_its_side(self, column: Pixels, stacked: _Seen) -> _Seen:
        """A tall line: characters below each other as `stacked` has it, or a line that runs up or down the page."""
        if any(map(is_cjk, stacked.text.text)) and stacked.text.score > _WORST_SHORT:
            return stacked
        ways = {90: np.rot90(column, 3), 270: np.rot90(column)}
        texts = self._nets.read(list(ways.values()))
        best = max(
            (_Seen(i, t, turn) for (turn, i), t in zip(ways.items(), texts, strict=True)), key=lambda s: s.text.score
        )
        return best if best.text.score > stacked.text.score + _BETTER else stacked


def _lines(box: Box, seen: _Seen) -> list[Line]:
    """The lines in the box of one: usually it, more where columns were taken together, none where it is noise."""
    if _is_noise(seen.text):
        return []
    said = plain_signs(seen.text.text)
    score = round(seen.text.score, 4)
    if seen.stacked:
        said = said.strip()
        return [Line(said, box, (Word(said, box),), round(_GLYPHS * box.width, 2), score, _SOURCE, vertical=True)]
    lying = box if not seen.turn else Box(0, 0, box.height, box.width)
    scale = lying.width / seen.image.shape[1]
    parts = pieces(said, seen.text.places, ink_of(seen.image))
    lines = [_line(part, lying, scale, score) for part in parts]
    return [_turned_back(line, box, seen.turn) for line in lines] if seen.turn else lines


def _line(part: Sequence[Piece], box: Box, scale: float, score: float) -> Line:
    words = tuple(Word(w.text, Box(box.l + scale * w.left, box.t, box.l + scale * w.right, box.b)) for w in part)
    text = " ".join(word.text for word in words)
    return Line(text, union(word.box for word in words), words, round(_GLYPHS * box.height, 2), score, _SOURCE)


def _turned_back(line: Line, box: Box, turn: int) -> Line:
    """A line with places in its own image, which was turned clockwise, back in `box` on the page."""

    def back(inner: Box) -> Box:
        found = turn_box(inner, -turn % 360, (box.height, box.width))
        return Box(found.l + box.l, found.t + box.t, found.r + box.l, found.b + box.t)

    words = tuple(Word(word.text, back(word.box)) for word in line.words)
    return Line(line.text, back(line.box), words, line.size, line.confidence, _SOURCE, angle=-turn % 360)


def _is_noise(text: Text) -> bool:
    """Whether this was no text at all."""
    bare = text.text.strip()
    return not bare or text.score < (_WORST if len(bare) > 2 else _WORST_SHORT)


def _turn(image: Pixels, quads: Quads, rotation: int) -> tuple[Pixels, Quads]:
    """An image and its quads after it is turned clockwise."""
    if not rotation:
        return image, quads
    size = (image.shape[1], image.shape[0])
    return np.ascontiguousarray(np.rot90(image, -(rotation // 90))), turned(quads, rotation, size)
