"""The embedded engine: PP-OCR detection and recognition through rapidocr and onnxruntime, with the models it ships.

The parts are driven one by one rather than through rapidocr's own pipeline: lines are found on a scaled page but read
from its full resolution, the page's direction is settled on a few lines before all are read, and vertical lines are
laid down character by character.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from docai.errors import DependencyMissing
from docai.ocr.engines import Recognised
from docai.ocr.quads import heights, lean_of, longest_first, straightened, widths
from docai.ocr.spelling import tidy
from docai.types import Box, Line, Word
from docai.writing import is_cjk

_DETECT_SIDE = 2000  # pixels: the longer side of the page that lines are looked for on
_SMALL_PAGE = 1100  # pixels: below, type is so small that detection wants it enlarged
_SAMPLE = 5  # lines that are read to find the direction of a page
_SURE = 0.85  # mean score of a sample that needs no second look
_WORST = 0.35  # lines with a lower score are noise
_STRAIGHT = 0.25  # degrees: a lean below this is none
_TALL = 1.5  # height over width from which on a line stands

Pixels = NDArray[np.uint8]
Quads = NDArray[np.float32]  # (n, 4, 2): corners of lines, clockwise from the top left of their own direction


@dataclass(slots=True)
class _Text:
    """A line as read: its text, score, and for each character the place along the line, 0..1."""

    text: str
    score: float
    places: list[float]


class Embedded:
    """Engine `embedded`. Needs no network: the models come with rapidocr."""

    name = "embedded"

    def __init__(self, *, lang: str | None = None, threads: int | None = None) -> None:  # noqa: ARG002 - one model for all
        self._threads = threads or -1

    @cached_property
    def _engine(self) -> Any:
        """rapidocr with its bundled models, loaded at the first page."""
        import rapidocr

        logging.getLogger("RapidOCR").setLevel(logging.CRITICAL)
        models = Path(rapidocr.__file__).parent / "models"
        paths = {part: next(models.glob(f"*_{part.lower()}_*.onnx"), None) for part in ("Det", "Cls", "Rec")}
        missing = [part for part, path in paths.items() if path is None]
        if missing:
            raise DependencyMissing(
                f"rapidocr came without its {missing[0]} model; reinstall it: pip install -U rapidocr"
            )
        params: dict[str, Any] = {f"{part}.model_path": str(path) for part, path in paths.items()}
        params |= {"Global.log_level": "critical", "EngineConfig.onnxruntime.intra_op_num_threads": self._threads}
        return rapidocr.RapidOCR(params=params)

    def read(self, pixels: Pixels, *, straighten: bool = True) -> Recognised:
        """See `Recognizer.read`."""
        image = np.ascontiguousarray(pixels[:, :, ::-1])  # the models were trained on BGR
        quads = self.detect(image)
        if not len(quads):
            return Recognised(())
        rotation = self._rotation(image, quads) if straighten else 0
        if rotation:
            turned = np.ascontiguousarray(np.rot90(pixels, -(rotation // 90)))
            upright = self.read(turned, straighten=False)
            skew = upright.skew
            return Recognised(upright.lines, rotation, skew, upright.reasons)
        skew = lean_of(quads)
        skew = skew if abs(skew) >= _STRAIGHT else 0.0
        lines = self._lines(image, quads, skew)
        return Recognised(tuple(lines), 0, skew)

    def detect(self, image: Pixels) -> Quads:
        """Quads of the lines on a BGR image, in its pixels."""
        height, width = image.shape[:2]
        scale = _detection_scale(height, width)
        quads = self._detect_scaled(image, scale)
        if not len(quads):
            quads = self._detect_sparse(image)
        return quads

    def _detect_scaled(self, image: Pixels, scale: float) -> Quads:
        """Lines found on the image at `scale`, on a margin, so that type at the very edge is found too."""
        scaled = image if scale == 1 else cv2.resize(image, None, fx=scale, fy=scale, interpolation=_filter(scale))
        margin = 16
        padded = cv2.copyMakeBorder(scaled, margin, margin, margin, margin, cv2.BORDER_REPLICATE)
        found = self._engine._load_det_model()(padded)
        if found.boxes is None or not len(found.boxes):
            return np.zeros((0, 4, 2), np.float32)
        quads: Quads = (np.asarray(found.boxes, np.float32) - margin) / scale
        return quads

    def _detect_sparse(self, image: Pixels) -> Quads:
        """A second look at a (nearly) empty page: detection misses single small lines on a large white sheet."""
        grey = cv2.cvtColor(image, cv2.COLOR_BGR2GRAY)
        ink = np.abs(grey.astype(np.int16) - int(np.median(grey))) > 60
        ys, xs = np.flatnonzero(ink.any(axis=1)), np.flatnonzero(ink.any(axis=0))
        if not len(ys):
            return np.zeros((0, 4, 2), np.float32)
        top, bottom, left, right = ys[0], ys[-1] + 1, xs[0], xs[-1] + 1
        if (bottom - top) * (right - left) > 0.7 * grey.size:
            return np.zeros((0, 4, 2), np.float32)
        part = image[max(0, top - 12) : bottom + 12, max(0, left - 12) : right + 12]
        quads = self._detect_scaled(np.ascontiguousarray(part), min(4.0, max(1.0, 640 / min(part.shape[:2]))))
        return quads + np.float32([max(0, left - 12), max(0, top - 12)])

    def _rotation(self, image: Pixels, quads: Quads) -> int:
        """By how much to turn the page clockwise: from the shape of its lines, and how well a few of them read."""
        tall = heights(quads) > _TALL * widths(quads)
        lengths = np.maximum(heights(quads), widths(quads))
        sideways = float(lengths[tall].sum()) > 0.6 * float(lengths.sum())
        sample = longest_first(quads[tall == sideways])[:_SAMPLE]
        crops = [_crop(image, quad) for quad in sample]
        if sideways:
            # rot90 turns counter-clockwise: crops that read well so belong to a page to be turned by 270
            scores = {
                270: self._mean_score([np.rot90(c) for c in crops]),
                90: self._mean_score([np.rot90(c, 3) for c in crops]),
            }
            upright = self._mean_score([_laid_down(c) for c in crops])
            best = max(scores, key=lambda turn: scores[turn])
            return best if scores[best] > max(upright, 0.5) else 0
        score = self._mean_score(crops)
        if score >= _SURE:
            return 0
        return 180 if self._mean_score([np.rot90(c, 2) for c in crops]) > score + 0.1 else 0

    def _mean_score(self, crops: Sequence[Pixels]) -> float:
        texts = self._recognise(crops)
        return sum(t.score * min(len(t.text), 20) for t in texts) / max(
            1, sum(min(len(t.text), 20) or 1 for t in texts)
        )

    def _recognise(self, crops: Sequence[Pixels]) -> list[_Text]:
        """Text of line images of any size."""
        from rapidocr.ch_ppocr_rec import TextRecInput

        usable = [
            np.ascontiguousarray(c) if min(c.shape[:2]) >= 2 else np.full((8, 8, 3), 255, np.uint8) for c in crops
        ]
        if not usable:
            return []
        out = self._engine._load_rec_model()(TextRecInput(img=usable, return_word_box=True))
        return [_text(t, s, w) for t, s, w in zip(out.txts, out.scores, out.word_results, strict=True)]

    def _lines(self, image: Pixels, quads: Quads, skew: float) -> list[Line]:
        vertical = heights(quads) > _TALL * widths(quads)
        crops = [_crop(image, quad) for quad in quads]
        laid = [_laid_down(c) if v else c for c, v in zip(crops, vertical, strict=True)]
        texts = self._recognise(laid)
        upright = straightened(quads, skew, (image.shape[1], image.shape[0]))
        lines = []
        for crop, quad, text, stands in zip(crops, upright, texts, vertical, strict=True):
            line = self._standing(crop, quad, text) if stands else _line(quad, text)
            if line is not None:
                lines.append(line)
        return lines

    def _standing(self, crop: Pixels, quad: NDArray[np.float32], text: _Text) -> Line | None:
        """A tall line: characters below each other, or a line that runs up or down the page."""
        sideways = {270: np.rot90(crop), 90: np.rot90(crop, 3)}
        read = dict(zip(sideways, self._recognise(list(sideways.values())), strict=True))
        angle = max(read, key=lambda a: read[a].score)
        if read[angle].score > text.score + 0.1 and not any(map(is_cjk, text.text)):
            return _line(quad, read[angle], angle=angle)
        return _line(quad, text, vertical=True)


def _detection_scale(height: int, width: int) -> float:
    longest = max(height, width)
    if longest > _DETECT_SIDE:
        return _DETECT_SIDE / longest
    return min(2.0, _DETECT_SIDE / longest) if longest < _SMALL_PAGE else 1.0


def _filter(scale: float) -> int:
    return cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC


def _crop(image: Pixels, quad: NDArray[np.float32]) -> Pixels:
    """The pixels of a line, its quad made a rectangle."""
    width = max(1, int(max(math.dist(quad[0], quad[1]), math.dist(quad[2], quad[3]))))
    height = max(1, int(max(math.dist(quad[0], quad[3]), math.dist(quad[1], quad[2]))))
    corners = np.float32([[0, 0], [width, 0], [width, height], [0, height]])
    matrix = cv2.getPerspectiveTransform(quad.astype(np.float32), corners)
    out: Pixels = cv2.warpPerspective(
        image, matrix, (width, height), borderMode=cv2.BORDER_REPLICATE, flags=cv2.INTER_CUBIC
    )
    return out


def _laid_down(crop: Pixels) -> Pixels:
    """A column of characters as a row: cut between characters, each cell put beside the one above it."""
    grey = cv2.cvtColor(crop, cv2.COLOR_BGR2GRAY).astype(np.int16)
    ink = (np.abs(grey - int(np.median(grey))) > 50).any(axis=1)
    cells = _cells(ink, crop.shape[1])
    if len(cells) < 2:
        return crop
    side = crop.shape[1]
    ground = tuple(int(v) for v in np.median(crop.reshape(-1, 3), axis=0))
    row = [
        cv2.copyMakeBorder(crop[a:b], *_centred(b - a, side), 1, 1, cv2.BORDER_CONSTANT, value=ground) for a, b in cells
    ]
    tallest = max(cell.shape[0] for cell in row)
    return np.concatenate(
        [cv2.copyMakeBorder(c, 0, tallest - c.shape[0], 0, 0, cv2.BORDER_CONSTANT, value=ground) for c in row], axis=1
    )


def _centred(height: int, side: int) -> tuple[int, int]:
    missing = max(0, side - height)
    return missing // 2, missing - missing // 2


def _cells(ink: NDArray[np.bool_], side: int) -> list[tuple[int, int]]:
    """(top, bottom) of the characters of a column `side` wide: runs of ink, small ones joined up to a square."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], ink.astype(np.int8), [0]])))
    runs = [(int(a), int(b)) for a, b in edges.reshape(-1, 2)]
    cells: list[tuple[int, int]] = []
    for top, bottom in runs:
        if cells and bottom - cells[-1][0] <= 1.05 * side and top - cells[-1][1] < 0.25 * side:
            cells[-1] = (cells[-1][0], bottom)
        else:
            cells.append((top, bottom))
    return [part for top, bottom in cells for part in _squares(top, bottom, side)]


def _squares(top: int, bottom: int, side: int) -> list[tuple[int, int]]:
    """A run of characters that touch, cut into squares."""
    count = max(1, round((bottom - top) / side))
    step = (bottom - top) / count
    return [(round(top + i * step), round(top + (i + 1) * step)) for i in range(count)]


def _text(text: str, score: float, info: Any) -> _Text:
    """rapidocr's answer for a line; `info` has the output column of each character."""
    characters = [c for word in info.words for c in word] if info is not None else []
    columns = [c for word in info.word_cols for c in word] if info is not None else []
    bare = [c for c in text if not c.isspace()]
    if len(columns) != len(characters) or not characters or not info.line_txt_len:
        return _Text(text, float(score), [])
    places = [(c + 0.5) / info.line_txt_len for c, char in zip(columns, characters, strict=True) if not char.isspace()]
    return _Text(text, float(score), places if len(places) == len(bare) else [])


def _line(quad: NDArray[np.float32], text: _Text, *, vertical: bool = False, angle: int = 0) -> Line | None:
    """A `Line` in pixels, or None for noise."""
    said = tidy(text.text)
    if not said or text.score < _WORST:
        return None
    xs, ys = quad[:, 0], quad[:, 1]
    box = Box(float(xs.min()), float(ys.min()), float(xs.max()), float(ys.max()))
    upright = not vertical and not angle
    height = box.height if upright else box.width
    words = _words(said, text, box) if upright else (Word(said, box),)
    return Line(
        said, box, words, round(0.72 * height, 2), round(text.score, 4), "ocr:embedded", angle=angle, vertical=vertical
    )


def _words(said: str, text: _Text, box: Box) -> tuple[Word, ...]:
    """Words with boxes from the places of their characters; evenly spread where those are not known."""
    count = sum(not c.isspace() for c in said)
    known = len(text.places) == count
    places = text.places if known else [(i + 0.5) / max(1, len(said)) for i, c in enumerate(said) if not c.isspace()]
    steps = sorted(b - a for a, b in pairwise(places))
    half = 0.5 * steps[len(steps) // 2] if steps else 0.5
    words, at = [], 0
    for word in said.split():
        first, last = places[at], places[at + len(word) - 1]
        left, right = max(0.0, first - half), min(1.0, last + half)
        words.append(Word(word, Box(box.l + left * box.width, box.t, box.l + right * box.width, box.b)))
        at += len(word)
    return tuple(words)
