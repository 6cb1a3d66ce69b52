"""Engines that read pixels: what each of them does, and the table that finds one by name."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Protocol

from docai.errors import UsageError
from docai.types import Line

if TYPE_CHECKING:
    from docai.types import RGB


@dataclass(frozen=True, slots=True)
class Recognised:
    """What an engine read: lines with boxes in pixels of the image after it was turned upright.

    `rotation` (clockwise, 0/90/180/270) and `skew` (degrees clockwise of lean) are what that took.
    """

    lines: tuple[Line, ...]
    rotation: int = 0
    skew: float = 0.0
    reasons: tuple[str, ...] = ()


class Recognizer(Protocol):
    """An engine. `name` goes into the source of its lines as `ocr:<name>`."""

    name: str

    def read(self, pixels: RGB, *, straighten: bool = True) -> Recognised:
        """All text in an RGB image (H, W, 3); with `straighten`, sideways and leaning pages are found out."""
        ...


# name -> class; made with the keyword arguments `lang` and `threads`
ENGINES = {"embedded": "docai.ocr.embedded:Embedded", "tesseract": "docai.ocr.tesseract:Tesseract"}


def get_engine(name: str, *, lang: str | None = None, threads: int | None = None) -> Recognizer:
    """The engine of that name. Raises UsageError for an unknown one, DependencyMissing where its program is missing."""
    if name not in ENGINES:
        raise UsageError(f"model: expected one of {', '.join(ENGINES)}; got {name!r}")
    module, _, cls = ENGINES[name].partition(":")
    engine: Recognizer = getattr(importlib.import_module(module), cls)(lang=lang, threads=threads)
    return engine


class LazyEngine:
    """The embedded engine, loaded when it is first asked."""

    name = "embedded"

    def __init__(self, threads: int | None = None) -> None:
        self._threads = threads
        self._loading = Lock()
        self._engine: Recognizer | None = None

    def read(self, pixels: RGB, *, straighten: bool = True) -> Recognised:
        """See `Recognizer.read`."""
        with self._loading:
            self._engine = self._engine or get_engine("embedded", threads=self._threads)
        return self._engine.read(pixels, straighten=straighten)
