"""The system's tesseract as an engine: for scripts that the embedded models do not cover."""

from __future__ import annotations

import csv
import io
import os
import shutil
import subprocess
from collections.abc import Iterator
from functools import lru_cache
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from docai.errors import DependencyMissing, InputError, LimitExceeded
from docai.geometry import union
from docai.ocr.engines import Recognised
from docai.types import Box, Line, Word
from docai.writing import is_cjk

_SECONDS = 300.0
_INSTALL = "install it with your system's package manager (Debian: apt install tesseract-ocr tesseract-ocr-LANG)"


@lru_cache(maxsize=1)
def installed_languages() -> tuple[str, ...]:
    """Languages of the installed tesseract; none where there is no tesseract."""
    program = shutil.which("tesseract")
    if program is None:
        return ()
    done = subprocess.run([program, "--list-langs"], capture_output=True, text=True, timeout=30, check=False)
    return tuple(sorted(line.strip() for line in done.stdout.splitlines()[1:] if line.strip()))


class Tesseract:
    """Engine `tesseract`. `lang` as its own option: `eng`, `eng+deu`. Raises DependencyMissing."""

    name = "tesseract"

    def __init__(self, *, lang: str | None = None, threads: int | None = None) -> None:
        program = shutil.which("tesseract")
        if program is None:
            raise DependencyMissing(f"the engine tesseract is not installed; {_INSTALL}")
        self._program, self._threads = program, threads
        self._lang = lang or "eng"
        missing = [name for name in self._lang.split("+") if name not in installed_languages()]
        if missing:
            have = ", ".join(installed_languages()) or "none"
            raise DependencyMissing(f"tesseract has no language {missing[0]!r} (it has: {have}); {_INSTALL}")

    def read(self, pixels: NDArray[np.uint8], *, straighten: bool = True) -> Recognised:
        """See `Recognizer.read`. Turned pages are found out by tesseract's own orientation data where that is there."""
        rotation = self._rotation(pixels) if straighten else 0
        turned = np.ascontiguousarray(np.rot90(pixels, -(rotation // 90) % 4)) if rotation else pixels
        rows = csv.DictReader(
            io.StringIO(self._run(turned, "--psm", "3", "tsv")), delimiter="\t", quoting=csv.QUOTE_NONE
        )
        return Recognised(tuple(_lines(rows)), rotation)

    def _rotation(self, pixels: NDArray[np.uint8]) -> int:
        if "osd" not in installed_languages():
            return 0
        try:
            said = self._run(pixels, "--psm", "0", lang="osd")
        except InputError:  # too little text to tell
            return 0
        values = dict(line.split(":", 1) for line in said.splitlines() if ":" in line)
        sure = float(values.get("Orientation confidence", 0) or 0)
        return int(values.get("Rotate", 0)) if sure > 2 else 0

    def _run(self, pixels: NDArray[np.uint8], *options: str, lang: str | None = None) -> str:
        """tesseract's standard output for an image, which goes in as PNM through its standard input."""
        height, width = pixels.shape[:2]
        image = b"P6\n%d %d\n255\n" % (width, height) + np.ascontiguousarray(pixels).tobytes()
        environment = {**os.environ, **({"OMP_THREAD_LIMIT": str(self._threads)} if self._threads else {})}
        command = [self._program, "stdin", "stdout", "-l", lang or self._lang, *options]
        try:
            done = subprocess.run(
                command, input=image, capture_output=True, timeout=_SECONDS, env=environment, check=False
            )
        except subprocess.TimeoutExpired:
            raise LimitExceeded(f"tesseract took longer than {_SECONDS:g} s for a page") from None
        if done.returncode:
            said = done.stderr.decode("utf-8", "replace").strip().splitlines()
            raise InputError(f"tesseract failed: {said[-1] if said else f'exit code {done.returncode}'}")
        return done.stdout.decode("utf-8", "replace")


def _lines(rows: Any) -> Iterator[Line]:
    """Lines of tesseract's TSV: its rows of level 5 are words, in reading order."""
    words = (row for row in rows if row["level"] == "5" and row["text"].strip())
    for _, group in groupby(words, key=lambda row: (row["block_num"], row["par_num"], row["line_num"])):
        yield _line(list(group))


def _line(rows: list[dict[str, str]]) -> Line:
    words = tuple(Word(row["text"].strip(), _box(row)) for row in rows)
    box = union(word.box for word in words)
    between = "" if all(is_cjk(word.text[0]) for word in words) else " "
    score = sum(float(row["conf"]) for row in rows) / len(rows) / 100
    text = between.join(word.text for word in words)
    return Line(text, box, words, round(0.8 * box.height, 2), round(max(0.0, score), 4), "ocr:tesseract")


def _box(row: dict[str, str]) -> Box:
    left, top = float(row["left"]), float(row["top"])
    return Box(left, top, left + float(row["width"]), top + float(row["height"]))
