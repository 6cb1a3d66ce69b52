"""PP-OCR's two nets on onnxruntime: where lines of text are, and what a line image says.

The models are those that the package `rapidocr` brings along; its own pipeline is not used, so nothing is downloaded,
logged or read from disk but the two files. Steps and numbers follow PaddleOCR's inference (DB detection, CTC
recognition), with the thresholds of rapidocr's config.yaml.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from docai.errors import DependencyMissing
from docai.ocr.quads import Quads, clockwise, no_quads
from docai.ocr.wanted import check_wanted

Pixels = NDArray[np.uint8]  # (H, W, 3) BGR, as the nets were trained

_STRIDE = 32  # the detector wants sides that are a multiple of it
_MARGIN = 16  # pixels around an image, so that type at its very edge is found too
_TEXT = 0.3  # probability from which on a pixel belongs to a line
_LINE = 0.5  # mean probability of a line
_UNCLIP = 1.6  # the net marks the core of a line; how far its box is grown, as area over perimeter
_SMALLEST = 3  # pixels: cores lower than this are specks
_HEIGHT = 48  # of the line images that the recogniser reads
_NARROWEST, _WIDEST = 48, 6400  # widths of line images; a wider one is squeezed
_BATCH = 4


@dataclass(frozen=True, slots=True)
class Text:
    """A line as read; for each character its probability and the place of its middle along the line, 0..1."""

    text: str = ""
    scores: tuple[float, ...] = ()
    places: tuple[float, ...] = ()

    @property
    def score(self) -> float:
        return sum(self.scores) / len(self.scores) if self.scores else 0.0


class PPOCR:
    """Detector and recogniser, each loaded when first used. `threads` None: all cores."""

    def __init__(self, threads: int | None = None) -> None:
        self._threads = threads or os.cpu_count() or 1

    def find(self, image: Pixels) -> Quads:
        """Quads of the lines in an image (H, W, 3), read as it is: type should be some 10 to 40 pixels high."""
        height, width = image.shape[:2]
        bottom, right = (-(side + 2 * _MARGIN) % _STRIDE + _MARGIN for side in (height, width))
        padded = cv2.copyMakeBorder(image, _MARGIN, bottom, _MARGIN, right, cv2.BORDER_REPLICATE)
        net = self._detector
        chances = net.run(None, {net.get_inputs()[0].name: _normal(padded)[None]})[0][0, 0]
        found = lines_in(chances) - _MARGIN
        return np.asarray(np.clip(found, 0, (width, height)), np.float32)

    def read(self, lines: Sequence[Pixels]) -> list[Text]:
        """What line images of any size say. Images of like width are read together. See `check_wanted`."""
        order = sorted(range(len(lines)), key=lambda i: _width(lines[i]))
        texts = [Text()] * len(lines)
        for start in range(0, len(order), _BATCH):
            check_wanted()
            batch = order[start : start + _BATCH]
            for index, text in zip(batch, self._read_batch([lines[i] for i in batch]), strict=True):
                texts[index] = text
        return texts

    def _read_batch(self, lines: Sequence[Pixels]) -> list[Text]:
        widths = [_width(line) for line in lines]
        batch = np.zeros((len(lines), 3, _HEIGHT, max(*widths, _NARROWEST)), np.float32)
        for row, line, width in zip(batch, lines, widths, strict=True):
            row[:, :, :width] = _normal(cv2.resize(line, (width, _HEIGHT)))
        net = self._recogniser
        chances = net.run(None, {net.get_inputs()[0].name: batch})[0]  # (n, columns, characters)
        best = chances.argmax(axis=2)
        sure = np.take_along_axis(chances, best[:, :, None], axis=2)[:, :, 0]
        steps = chances.shape[1] / batch.shape[3]
        return [spelled(b, s, self.characters, width * steps) for b, s, width in zip(best, sure, widths, strict=True)]

    @cached_property
    def characters(self) -> list[str]:
        """What the recogniser can write, as the model file says; class 0 is the blank between characters."""
        known = self._recogniser.get_modelmeta().custom_metadata_map.get("character", "")
        if not known:
            raise DependencyMissing("the recognition model of rapidocr names no characters: pip install -U rapidocr")
        return ["", *known.splitlines(), " "]

    @cached_property
    def _detector(self) -> Any:
        return self._load("det")

    @cached_property
    def _recogniser(self) -> Any:
        return self._load("rec")

    def _load(self, part: str) -> Any:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.enable_cpu_mem_arena = False  # an arena keeps the memory of the largest page ever read
        options.intra_op_num_threads = self._threads
        return onnxruntime.InferenceSession(str(model_file(part)), options, providers=["CPUExecutionProvider"])


def model_file(part: str) -> Path:
    """The model `det` or `rec` that came with rapidocr. Raises DependencyMissing."""
    spec = find_spec("rapidocr")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    found = [file for folder in folders for file in sorted(Path(folder, "models").glob(f"*_{part}_*.onnx"))]
    if not found:
        raise DependencyMissing(f"rapidocr or its {part} model is missing: pip install --force-reinstall rapidocr")
    return found[-1]


def lines_in(chances: NDArray[np.float32]) -> Quads:
    """Quads around the lines of a map (H, W) of chances that a pixel is in the core of one."""
    mask = cv2.dilate((chances > _TEXT).astype(np.uint8), np.ones((2, 2), np.uint8))
    contours, _ = cv2.findContours(mask, cv2.RETR_LIST, cv2.CHAIN_APPROX_SIMPLE)
    quads = [quad for quad in (_line_around(contour, chances) for contour in contours) if quad is not None]
    return np.stack(quads) if quads else no_quads()


def _line_around(contour: NDArray[np.int32], chances: NDArray[np.float32]) -> NDArray[np.float32] | None:
    """The quad of one core, grown to the line; None for specks and unlikely ones."""
    centre, (width, height), angle = cv2.minAreaRect(contour)
    if min(width, height) < _SMALLEST:
        return None
    core = cv2.boxPoints((centre, (width, height), angle))
    if _mean_inside(core, chances) < _LINE:
        return None
    grown = _UNCLIP * width * height / (width + height)  # twice the distance: area / perimeter on each side
    return clockwise(cv2.boxPoints((centre, (width + grown, height + grown), angle)))


def _mean_inside(quad: NDArray[np.float32], chances: NDArray[np.float32]) -> float:
    """Mean of the map within a quad."""
    limit = np.array([chances.shape[1] - 1, chances.shape[0] - 1])
    low = np.clip(np.floor(quad.min(axis=0)).astype(int), 0, limit)
    high = np.clip(np.ceil(quad.max(axis=0)).astype(int), 0, limit)
    part = chances[low[1] : high[1] + 1, low[0] : high[0] + 1]
    mask = np.zeros(part.shape, np.uint8)
    cv2.fillPoly(mask, (quad - low).reshape(1, -1, 2).astype(np.int32), 1)
    return float(cv2.mean(part, mask)[0])


def spelled(best: NDArray[np.int64], sure: NDArray[np.float32], characters: Sequence[str], length: float) -> Text:
    """CTC: per column the best class and its probability -> text. `length`: columns that the line itself takes up."""
    changes = np.flatnonzero(np.diff(best, prepend=-1))
    ends = np.append(changes[1:], len(best))
    runs = [(int(best[a]), int(a), int(b)) for a, b in zip(changes, ends, strict=True) if best[a]]
    return Text(
        "".join(characters[c] for c, _, _ in runs),
        tuple(float(sure[a:b].max()) for _, a, b in runs),
        tuple(min(1.0, (a + b) / 2 / length) for _, a, b in runs),
    )


def _width(line: Pixels) -> int:
    """Width of a line image at the recogniser's height."""
    return int(min(_WIDEST, max(1, -(-_HEIGHT * line.shape[1] // line.shape[0]))))


def _normal(image: Pixels) -> NDArray[np.float32]:
    """Pixels as the nets want them: (3, H, W), -1..1."""
    return np.ascontiguousarray(image.transpose(2, 0, 1), np.float32) / 127.5 - 1
